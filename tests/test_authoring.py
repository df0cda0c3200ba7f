"""From a chapter's text to its notebooks: rules, freshness, and nbgrader's own word on it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from course_files import CHAPTERS, COURSE, ROOT, release
from nbclient import NotebookClient
from nbformat.notebooknode import NotebookNode

from helpers.authoring.build import BuildError, Course, build, find_stale
from helpers.authoring.chapter import ChapterError, read_chapter
from helpers.authoring.settings import SettingsError, repository_address

ADDRESS = "https://example.org/course"
CHAPTER = '''\
# %% [markdown]
"""
# 01 · Sample
"""

# %% tags=["needed"]
import math

# %%
print(math.pi > 3)

# %% [markdown] exercise="sample-double" points=2 minutes=3 difficulty=1
"""
### Twice
Write it.
<!-- hint: What is twice a number? -->
<!-- hint: Add the number
     to itself. -->
<!-- hint: One operator is enough. -->
"""

# %% solution="sample-double"
def double(number):
    ### BEGIN SOLUTION
    return number + number
    ### END SOLUTION

# %% test="sample-double"
check = Check("sample-double")
with check.property("doubles one"):
    check.equal(check.call(double, 1), 2)
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("doubles two"):
    check.equal(check.call(double, 2), 4)
### END HIDDEN TESTS
check.score()
'''


@pytest.fixture
def text(tmp_path: Path) -> Path:
    file = tmp_path / "01_sample.py"
    file.write_text(CHAPTER, encoding="utf-8")
    return file


def test_committed_notebooks_are_what_the_text_gives() -> None:
    assert list(find_stale(COURSE)) == []


def test_an_exercise_becomes_nbgraders_cells(text: Path) -> None:
    notebook, catalogue = read_chapter(text, ADDRESS)
    (card,) = catalogue["exercises"]
    assert card == {
        "name": "sample-double",
        "title": "Twice",
        "number": 1,
        "points": 2,
        "minutes": 3,
        "difficulty": 1,
        "hints": [
            "What is twice a number?",
            "Add the number to itself.",
            "One operator is enough.",
        ],
        "visible": 1,
        "hidden": 1,
        "defines": ["double"],
    }
    graded = {
        cell.id: cell.metadata.nbgrader for cell in notebook.cells if "nbgrader" in cell.metadata
    }
    assert graded["sample-double"]["solution"]
    assert not graded["sample-double"]["locked"]
    assert graded["test-sample-double"]["points"] == 2
    assert graded["needed-1"]["locked"]
    shown = next(cell.source for cell in notebook.cells if cell.id == "card-sample-double")
    assert shown.startswith("### Exercise 1 · Twice\n\n*2 points · 3 minutes · difficulty 1 of 3*")
    assert "hint:" not in json.dumps(notebook)


def test_reading_twice_gives_the_same_notebook(text: Path) -> None:
    assert read_chapter(text, ADDRESS) == read_chapter(text, ADDRESS)


def test_the_first_code_cell_installs_the_helpers_on_colab_only(text: Path) -> None:
    notebook, _ = read_chapter(text, ADDRESS)
    first = next(cell for cell in notebook.cells if cell.cell_type == "code")
    assert first.metadata.tags == ["setup"]
    assert f"git+{ADDRESS}" in first.source
    assert "--no-deps" in first.source, "torch must stay as it is"
    assert 'if "google.colab" in sys.modules' in first.source


def code_cells(text: Path) -> dict:
    return {c.id: c for c in read_chapter(text, ADDRESS)[0].cells if c.cell_type == "code"}


def is_folded(cell: NotebookNode) -> bool:
    marks = cell.metadata.get("jupyter") == {"source_hidden": True}, "cellView" in cell.metadata
    assert len(set(marks)) == 1, "JupyterLab and Colab fold the same cells"
    return all(marks)


def test_set_up_checks_and_what_the_text_says_are_folded(text: Path) -> None:
    folded = [cell.source.split("\n")[0] for cell in code_cells(text).values() if is_folded(cell)]
    assert [line.split(":")[0] for line in folded] == ["# @title Setup", "# @title Check"]
    assert folded[1] == "# @title Check: Twice"
    change = '# %% tags=["needed"]', '# %% tags=["needed"] folded="Imports"'
    text.write_text(CHAPTER.replace(*change), encoding="utf-8")
    needed = code_cells(text)["needed-1"]
    assert is_folded(needed)
    assert needed.source == "# @title Imports\nimport math"
    assert needed.metadata["cellView"] == "form"


def test_a_line_below_the_title_says_what_is_folded(text: Path) -> None:
    _, note, first, *_ = read_chapter(text, ADDRESS)[0].cells
    assert note.cell_type == "markdown"
    assert "folded to one line each" in note.source
    assert first.metadata.tags == ["setup"]


def test_a_check_that_is_run_first_of_all_says_so_in_one_sentence(text: Path) -> None:
    cell = code_cells(text)["test-sample-double"]
    notebook = nbformat.v4.new_notebook(cells=[cell])
    NotebookClient(notebook, kernel_name="python3", allow_errors=True).execute()
    (output,) = notebook.cells[0].outputs
    assert output.name == "stderr"
    (line,) = output.text.splitlines()
    assert "Run the cells at the top of this chapter first" in line


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_in_every_chapter_imports_and_checks_are_folded(chapter: str) -> None:
    cells = [cell for cell in release(chapter).cells if cell.cell_type == "code"]
    checks = [cell for cell in cells if cell.metadata.get("nbgrader", {}).get("grade")]
    assert checks
    assert all(is_folded(cell) for cell in [*cells[:2], *checks])
    answers = [cell for cell in cells if cell.metadata.get("nbgrader", {}).get("solution")]
    assert not any(is_folded(cell) for cell in answers)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (('tags=["needed"]', 'tags=["needed"] folded=""'), 'cell 2: folded="..." is the title'),
        (("# %%\nprint", '# %% folded="A"\n%%time\nprint'), "cell 3: a folded cell begins with"),
        (
            ("<!-- hint: One operator is enough. -->", ""),
            "cell 4: a card holds 3 hints, this one 2",
        ),
        (("### Twice", "Twice"), "cell 4: a card starts with its title"),
        ((" minutes=3", ""), "cell 4: the card does not say its minutes"),
        (("difficulty=1", "difficulty=4"), "cell 4: difficulty is 1 to 3"),
        (
            ('exercise="sample-double"', 'exercise="Sample"'),
            '"Sample": a name has only lowercase letters',
        ),
        (("    ### BEGIN SOLUTION\n", ""), "cell 5: the solution has no ### BEGIN SOLUTION"),
        (("# %% test=", "# %% solution="), "needs one solution, then one test"),
        (("check.score()\n", ""), "cell 6: a test starts from"),
        (("# Hidden tests run here when your work is graded.\n", ""), "no visible comment says"),
        (('# %% solution="sample-double"', "# %%"), "a solution or a hidden test is outside"),
        (("# 01 · Sample", "Sample"), "no cell holds the chapter's title"),
        (
            ("# 01 · Sample", "# 01 · Sample\n\n<details><summary>`a`?</summary>"),
            "cell 1: <summary> is HTML",
        ),
    ],
)
def test_a_broken_rule_is_told_with_its_place(
    text: Path, change: tuple[str, str], told: str
) -> None:
    assert change[0] in CHAPTER
    text.write_text(CHAPTER.replace(*change), encoding="utf-8")
    with pytest.raises(ChapterError, match="01_sample.py") as error:
        read_chapter(text, ADDRESS)
    assert told in str(error.value)


def test_a_file_with_another_name_is_refused(text: Path) -> None:
    other = text.rename(text.with_name("sample.py"))
    with pytest.raises(ChapterError, match="a chapter's file is named NN_topic.py"):
        read_chapter(other, ADDRESS)


@pytest.fixture
def course(tmp_path: Path) -> Course:
    """A course of one chapter without exercises, so that it needs no catalogue to run."""
    (tmp_path / "course" / "chapters").mkdir(parents=True)
    (tmp_path / "helpers" / "catalogue").mkdir(parents=True)
    shutil.copy(ROOT / "book.toml", tmp_path)
    shutil.copy(COURSE.config_file, tmp_path / "course")
    text = tmp_path / "course" / "chapters" / "01_sample.py"
    text.write_text(CHAPTER.split("# %% [markdown] exercise")[0], encoding="utf-8")
    return Course(tmp_path)


def test_only_what_changed_is_run_again(course: Course) -> None:
    assert build(course) == ["01-sample"]
    assert list(find_stale(course)) == []
    source = nbformat.read(course.source("01-sample"), as_version=4)
    assert [o.text for cell in source.cells for o in cell.get("outputs", [])] == ["True\n"]
    assert build(course) == []
    assert build(course, force=True) == ["01-sample"]
    (text,) = course.chapters
    text.write_text(text.read_text("utf-8").replace("> 3", "> 4"), encoding="utf-8")
    assert any("source of 01-sample" in sentence for sentence in find_stale(course))
    assert build(course, ["01-sample"]) == ["01-sample"]


MEASURING = '''\
# %% [markdown]
"""
# 01 · Sample
"""

# %%
print(1 + 1)

# %% tags=["nbval-ignore-output"]
import time
print(time.perf_counter_ns())

# %%
print(2 + 2)
'''


def test_measured_outputs_stay_while_the_code_before_them_does(course: Course) -> None:
    (text,) = course.chapters

    def printed(chapter: str, *, force: bool = False) -> list[str]:
        text.write_text(chapter, encoding="utf-8")
        assert build(course, force=force) == ["01-sample"]
        assert list(find_stale(course)) == []
        source = nbformat.read(course.source("01-sample"), as_version=4)
        return [o.text for cell in source.cells for o in cell.get("outputs", [])]

    first = printed(MEASURING)
    assert printed(MEASURING.replace("Sample", "Another title")) == first
    assert printed(MEASURING.replace("2 + 2", "2 + 3")) == [*first[:2], "5\n"]
    other = printed(MEASURING.replace("1 + 1", "1 + 2"))
    assert (other[0], other[2]) == ("3\n", "4\n")
    assert other[1] != first[1]
    assert printed(MEASURING.replace("1 + 1", "1 + 2"), force=True)[1] != other[1]


def test_a_damaged_or_missing_notebook_is_built_again(course: Course) -> None:
    build(course)
    course.source("01-sample").write_text("{", encoding="utf-8")
    course.release("01-sample").unlink()
    assert len(list(find_stale(course))) == 2
    assert build(course) == ["01-sample"]
    assert list(find_stale(course)) == []


def test_a_notebook_without_text_is_told(course: Course) -> None:
    build(course)
    (course.root / "course" / "chapters" / "01_sample.py").rename(course.root / "elsewhere.py")
    assert any("01-sample has notebooks" in sentence for sentence in find_stale(course))


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("1 / 0", "ZeroDivisionError"),
        ("import sys; print('x', file=sys.stderr)", "wrote to stderr"),
        ("import warnings; warnings.warn('old', FutureWarning)", "FutureWarning"),
    ],
)
def test_a_cell_that_fails_or_warns_of_deprecation_stops_the_build(
    course: Course, line: str, told: str
) -> None:
    (text,) = course.chapters
    text.write_text(text.read_text("utf-8") + f"\n# %%\n{line}\n", encoding="utf-8")
    with pytest.raises(BuildError, match=told):
        build(course)
    assert not course.source("01-sample").exists()


NUMBERED_DRAWING = """
# %%
from helpers import show_drawing
show_drawing(
    "05/no-sync", alt="Two processes and their messages.",
    number="1.{}", caption="The messages of two ranks.",
)
"""


def test_a_figure_that_is_numbered_wrongly_stops_the_build(course: Course) -> None:
    (text,) = course.chapters
    before = text.read_text("utf-8")
    text.write_text(before + NUMBERED_DRAWING.format(2), encoding="utf-8")
    with pytest.raises(BuildError, match=r"01-sample: cell 6, .* number is 1\.2; it is 1\.1"):
        build(course)
    text.write_text(before + NUMBERED_DRAWING.format(1), encoding="utf-8")
    assert build(course) == ["01-sample"]


def test_an_unknown_chapter_is_refused(course: Course) -> None:
    with pytest.raises(BuildError, match="there is no chapter 02-other; there are: 01-sample"):
        build(course, ["02-other"])


def test_a_chapter_is_chosen_by_its_number(course: Course) -> None:
    assert build(course, ["01"]) == ["01-sample"]


def test_two_chapters_cannot_share_an_exercise(course: Course) -> None:
    for name in ("01_sample.py", "02_other.py"):
        (course.root / "course" / "chapters" / name).write_text(CHAPTER, encoding="utf-8")
    with pytest.raises(ChapterError, match='"sample-double" is in 01_sample.py already'):
        build(course)


def test_the_address_must_be_set(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"book.toml is missing"):
        repository_address(tmp_path)
    (tmp_path / "book.toml").write_text("[output]\n", encoding="utf-8")
    with pytest.raises(SettingsError, match="git-repository-url is not set"):
        repository_address(tmp_path)


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_nbgrader_itself_gives_the_same_release(chapter: str, tmp_path: Path) -> None:
    course = tmp_path / "course"
    shutil.copytree(COURSE.source(chapter).parent, course / "source" / chapter)
    shutil.copy(COURSE.config_file, course)
    command = [sys.executable, "-m", "nbgrader", "generate_assignment", chapter, "--no-db"]
    subprocess.run(command, cwd=course, check=True, capture_output=True, timeout=120)
    by_nbgrader = course / "release" / chapter / COURSE.release(chapter).name
    assert json.loads(by_nbgrader.read_text("utf-8")) == json.loads(
        COURSE.release(chapter).read_text("utf-8")
    )
