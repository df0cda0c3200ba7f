"""Submissions whose marks are lost, or whose cells were laid out anew: graded like any other."""

from __future__ import annotations

import ast
import copy
import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import nbformat
import pytest
from classroom import exercises_of, solved, to_bytes
from course_files import CHAPTERS, COURSE, ROOT, find_cell, grade_id, source
from hypothesis import given, settings
from hypothesis import strategies as st
from nbformat.notebooknode import NotebookNode
from registered_chapters import Register

from helpers.authoring.publish import student_files
from helpers.grading.assignment import Assignment, SourceCell
from helpers.grading.judge.meaning import read_meaning
from helpers.grading.judge.sanitize import SKIP, Sanitized, sanitize

ADDRESS = "https://git.example.org:8443/a-class/course"


# Every chapter


@pytest.fixture(scope="module")
def published() -> dict[str, bytes]:
    return student_files(ROOT, ADDRESS)


def without_marks(notebook: NotebookNode, *, but: str = "") -> NotebookNode:
    """Return the notebook as cells alone that were pasted into a new one."""
    bare = copy.deepcopy(notebook)
    bare.metadata = NotebookNode()
    for cell in bare.cells:
        if not but or grade_id(cell) != but:
            cell.metadata = NotebookNode()
    return bare


def laid_out_anew(notebook: NotebookNode) -> NotebookNode:
    """Return the notebook with every code cell as no editor would spare it."""
    other = copy.deepcopy(notebook)
    for cell in other.cells:
        if cell.cell_type == "code":
            cell.source = f"# mine\n\n{ast.unparse(ast.parse(cell.source))}\n\n"
    return other


def solved_at_an_address(chapter: str, published: dict[str, bytes]) -> NotebookNode:
    name = f"course/release/{chapter}/{COURSE.release(chapter).name}"
    notebook = nbformat.reads(published[name].decode(), as_version=4)
    for exercise in exercises_of(chapter):
        find_cell(notebook, exercise.name).source = find_cell(source(chapter), exercise.name).source
    return notebook


def own_code(result: Sanitized) -> list[str]:
    """Return the cells that count as the student's own."""
    return [
        cell.source
        for cell in result.notebook.cells
        if cell.cell_type == "code" and not grade_id(cell) and SKIP not in cell.metadata
    ]


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_without_any_mark_a_chapter_is_what_it_is_with_them(
    chapter: str, registered: Register
) -> None:
    assignment = registered(chapter)
    result = sanitize(to_bytes(without_marks(solved(chapter))), assignment)
    assert result.notebook == sanitize(to_bytes(solved(chapter)), assignment).notebook
    assert result.missing == ()
    assert result.recognized == assignment.exercises
    assert result.places == tuple(range(1, len(result.notebook.cells) + 1))
    count = len(assignment.cells)
    assert result.notes == (
        f"the marks of {count} cells were lost; they were recognized by what they say",
    )


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_with_one_mark_left_a_chapter_is_what_it_is_with_all(
    chapter: str, registered: Register
) -> None:
    assignment = registered(chapter)
    whole = sanitize(to_bytes(solved(chapter)), assignment)
    last = assignment.exercises[-1]
    for left in ("needed-1", last, f"test-{last}"):
        result = sanitize(to_bytes(without_marks(solved(chapter), but=left)), assignment)
        assert (result.notebook, result.missing) == (whole.notebook, ())
        answered = [name for name in assignment.exercises if name != left]
        assert list(result.recognized) == answered


@pytest.mark.parametrize("marks", ["with marks", "without marks"])
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_chapter_laid_out_anew_has_no_cell_of_the_students_own(
    chapter: str, marks: str, registered: Register
) -> None:
    notebook = laid_out_anew(solved(chapter))
    if marks == "without marks":
        notebook = without_marks(notebook)
    result = sanitize(to_bytes(notebook), registered(chapter))
    assert own_code(result) == []
    assert result.missing == ()
    assert len(result.notes) == (marks == "without marks")


@pytest.mark.parametrize("change", [copy.deepcopy, laid_out_anew, without_marks])
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_chapter_published_at_an_address_is_graded_like_the_original(
    chapter: str,
    change: Callable[[NotebookNode], NotebookNode],
    registered: Register,
    published: dict[str, bytes],
) -> None:
    theirs = solved_at_an_address(chapter, published)
    assert any(ADDRESS in cell.source for cell in theirs.cells)
    result = sanitize(to_bytes(change(theirs)), registered(chapter))
    ours = sanitize(to_bytes(change(solved(chapter))), registered(chapter))
    assert result == ours
    assert own_code(result) == []
    assert ADDRESS not in nbformat.writes(result.notebook)


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_demo_that_was_changed_is_the_students_own(chapter: str, registered: Register) -> None:
    notebook = laid_out_anew(solved(chapter))
    demos = [cell for cell in notebook.cells if "demo" in cell.metadata.get("tags", [])]
    for number, cell in enumerate(demos):
        cell.source += f"\nmine = {number}\n"
    result = sanitize(to_bytes(notebook), registered(chapter))
    assert own_code(result) == [cell.source for cell in demos]


# A small assignment


def course_cell(name: str, text: str, **changes: Any) -> SourceCell:
    plain = {"locked": False, "grade": False, "solution": False, "checksum": "0" * 32}
    return SourceCell(name=name, cell_type="code", source=text, **(plain | changes))


HIDDEN = "### BEGIN HIDDEN TESTS\nsecret()\n### END HIDDEN TESTS\n"
TESTS = {
    "test-a": f'check = Check("a")\ncheck.call(area)\n{HIDDEN}check.score()',
    "test-b": 'check = Check("b")\ncheck.call(Box)\ncheck.score()',
}
STUBS = {
    "a": "def area(x):\n    raise NotImplementedError",
    "b": "class Box:\n    pass\n\n\ndef open_box(box):\n    pass",
}
SETUP = 'import subprocess\n\nsubprocess.run(["pip", "install", "git+https://a.org/b/c"])'
SMALL = Assignment(
    name="01-small",
    notebook="small",
    kernelspec={"name": "python3", "display_name": "Python 3"},
    cells=(
        course_cell("needed-1", "import math, cmath", locked=True),
        course_cell("a", STUBS["a"], solution=True),
        course_cell("test-a", TESTS["test-a"], locked=True, grade=True, points=4.0),
        course_cell("b", STUBS["b"], solution=True),
        course_cell("test-b", TESTS["test-b"], locked=True, grade=True, points=2.0),
    ),
    demos=frozenset({SETUP, "show('demo')", "def area(x):\n    return 3"}),
)
# Cells by short names: what students have, what they write, and other layouts of either.
TEXTS = {
    "needed": "import math, cmath",
    "needed~": "import math, cmath  # both",
    "A": "def area(x):\n    return x",
    "A2": "def area(x):\n    return 2 * x",
    "A(broken)": "def area(x):\n    return (",
    "A(magic)": "%%time\ndef area(x):\n    return x",
    "A(value)": "area = abs",
    "A+B": "def area(x):\n    return x\n\n\nclass Box:\n    size = 1",
    "A+check": f"def area(x):\n    return x\n\n\n{TESTS['test-b']}",
    "B": "class Box:\n    size = 1",
    "B2": "def open_box(box):\n    return box",
    "stub-A": STUBS["a"],
    "stub-A~": "# my notes\ndef area(x): raise NotImplementedError",
    "stub-B": STUBS["b"],
    "check-A": TESTS["test-a"].replace(HIDDEN, ""),
    "check-A~": TESTS["test-a"].replace(HIDDEN, "").replace('"', "'"),
    "check-A(edited)": 'check = Check("a")\ncheck.call(area, 5)',
    "check-B": TESTS["test-b"],
    "own": "x = area(1)",
    "helper": "def double(x):\n    return 2 * x",
    "demo": "show('demo')",
    "demo~": 'show("demo")  # I see',
    "demo-A~": "def area(x): return 3",
    "setup": SETUP,
    "setup~": SETUP.replace("https://a.org/b/c", "https://x.org:80/y").replace("'", '"'),
    "setup(changed)": f"{SETUP}\nrun()",
}
SHORT = {text: name for name, text in TEXTS.items()}


def pasted(line: str) -> bytes:
    """Return a submission from words: "A" for a cell of ``TEXTS``, "a:A" for it with a mark."""
    cells = []
    for word in line.split():
        mark, _, name = word.rpartition(":")
        metadata = {"nbgrader": {"grade_id": mark}} if mark else {}
        cell = {"cell_type": "code", "metadata": metadata, "source": TEXTS[name]}
        cells.append(cell | {"outputs": [], "execution_count": None})
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4}).encode()


def words_of(result: Sanitized) -> str:
    """Return a result as ``pasted`` takes it; of a locked cell, its name alone."""
    words = []
    for cell in result.notebook.cells:
        name = grade_id(cell)
        if cell.metadata.get("nbgrader", {}).get("locked"):
            words.append(name)
        else:
            skipped = "-" if SKIP in cell.metadata else ""
            words.append(f"{skipped}{name}{':' if name else ''}{SHORT[cell.source]}")
    return " ".join(words)


CASES = {
    "all marks lost": (
        "needed A own check-A B check-B",
        "needed-1 a:A own test-a b:B test-b",
    ),
    "in another order": (
        "needed B A check-B check-A",
        "needed-1 a:A test-a b:B test-b",
    ),
    "a helper keeps its neighbor": (
        "needed helper A own check-A B check-B own",
        "needed-1 helper a:A own test-a b:B test-b own",
    ),
    "solutions alone": ("A B", "needed-1 a:A test-a b:B test-b"),
    "marks here and there": (
        "needed a:A check-A B test-b:check-B",
        "needed-1 a:A test-a b:B test-b",
    ),
    "the last before the check": (
        "needed A A2 check-A A B check-B",
        "needed-1 A a:A2 test-a A b:B test-b",
    ),
    "a stub before the solution": (
        "needed stub-A A check-A B check-B",
        "needed-1 a:A test-a b:B test-b",
    ),
    "a stub behind the solution": (
        "needed A stub-A~ check-A B check-B",
        "needed-1 a:A test-a b:B test-b",
    ),
    "a stub without a mark beside a marked solution": (
        "needed a:A stub-A check-A B check-B",
        "needed-1 a:A test-a b:B test-b",
    ),
    "a stub alone": ("needed stub-A check-A B check-B", "needed-1 a:stub-A test-a b:B test-b"),
    "a stub in another layout is a stub": (
        "needed a:A a:stub-A~ check-A B check-B",
        "needed-1 a:A test-a b:B test-b",
    ),
    "a solution in two cells": (
        "needed A check-A B2 B check-B",
        "needed-1 a:A test-a B2 b:B test-b",
    ),
    "two solutions in one cell": (
        "needed A+B check-A check-B",
        "needed-1 a:A+B test-a b:stub-B test-b",
    ),
    "an earlier answer used again": (
        "needed A check-A A+B check-B",
        "needed-1 a:A test-a b:A+B test-b",
    ),
    "a solution that is no Python": (
        "needed A(broken) check-A B check-B",
        "needed-1 a:A(broken) test-a b:B test-b",
    ),
    "a solution with a cell's magic": (
        "needed A(magic) check-A B check-B",
        "needed-1 a:A(magic) test-a b:B test-b",
    ),
    "a value of that name is no definition": (
        "needed A(value) check-A B check-B",
        "needed-1 a:stub-A A(value) test-a b:B test-b",
    ),
    "an untouched marked stub, answered behind it": (
        "needed a:stub-A A check-A B check-B",
        "needed-1 a:stub-A A test-a b:B test-b",
    ),
    "a marked solution is not replaced": (
        "needed a:A A2 check-A B check-B",
        "needed-1 a:A A2 test-a b:B test-b",
    ),
    "an edited check": (
        "needed A check-A(edited) A2 B check-B",
        "needed-1 a:A test-a A2 b:B test-b",
    ),
    "an edited check beside the check": (
        "needed A check-A(edited) check-A~ B check-B",
        "needed-1 a:A check-A(edited) test-a b:B test-b",
    ),
    "a check that was run again": (
        "needed A check-A A2 check-A~ B check-B",
        "needed-1 A a:A2 test-a b:B test-b",
    ),
    "a check with its mark that was run again without": (
        "needed a:A test-a:check-A a:A2 check-A b:B check-B",
        "needed-1 A a:A2 test-a b:B test-b",
    ),
    "an answer is no check": (
        "needed b:B A+check check-A",
        "needed-1 a:A+check test-a b:B test-b",
    ),
    "a needed cell in another layout": (
        "needed~ A check-A B check-B",
        "needed-1 a:A test-a b:B test-b",
    ),
    "a needed cell that was run again": (
        "needed-1:needed A needed~ check-A B check-B",
        "needed-1 a:A needed~ test-a b:B test-b",
    ),
    "demos in any layout": (
        "needed demo demo~ A check-A B check-B",
        "needed-1 -demo -demo~ a:A test-a b:B test-b",
    ),
    "a demo is no answer": (
        "needed demo-A~ check-A B check-B",
        "needed-1 a:stub-A -demo-A~ test-a b:B test-b",
    ),
    "the helpers' address": (
        "setup~ needed A check-A B check-B setup(changed)",
        "-setup needed-1 a:A test-a b:B test-b setup(changed)",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_a_cell_is_shows_in_what_it_says(case: str) -> None:
    before, after = CASES[case]
    assert words_of(sanitize(pasted(before), SMALL)) == after


LINES = st.lists(
    st.tuples(
        st.sampled_from(["", "", "", *(cell.name for cell in SMALL.cells)]),
        st.sampled_from(list(TEXTS)),
    ),
    min_size=1,
    max_size=12,
)


@given(words=LINES)
@settings(max_examples=500)
def test_the_law_of_recognition(words: list[tuple[str, str]]) -> None:
    content = pasted(" ".join(f"{mark}:{name}" if mark else name for mark, name in words))
    result = sanitize(content, SMALL)
    again = sanitize(to_bytes(result.notebook), SMALL)
    assert again.notebook == result.notebook
    assert (again.notes, again.recognized) == ((), ())
    check_locked_cells(result)
    check_places(result, [TEXTS[name] for _, name in words])
    answers = {grade_id(cell): cell.source for cell in result.notebook.cells}
    marks = {mark for mark, _ in words}
    for name in result.recognized:
        assert name not in marks
        assert read_meaning(answers[name]).digest != read_meaning(STUBS[name]).digest
    # An answer without a mark stands nowhere but where it can be found by its test.
    for name, text in (("a", "A"), ("b", "B")):
        if name not in marks and ("", text) in words:
            assert name in result.recognized


def check_locked_cells(result: Sanitized) -> None:
    """Check that the course's cells, and those that are not run, say what the course says."""
    locked = [c for c in result.notebook.cells if c.metadata.get("nbgrader", {}).get("locked")]
    assert [c.source for c in locked] == [c.source for c in SMALL.cells if c.locked]
    demos = {read_meaning(text).digest for text in SMALL.demos}
    for cell in result.notebook.cells:
        if SKIP in cell.metadata:
            assert read_meaning(cell.source).digest in demos
            assert "x.org" not in cell.source


def check_places(result: Sanitized, texts: list[str]) -> None:
    """Check that each text of the student's stands in the result once, and is said to."""
    places = [place for place in result.places if place is not None]
    assert len(result.places) == len(result.notebook.cells)
    assert len(places) == len(set(places))
    for place, cell in zip(result.places, result.notebook.cells, strict=True):
        is_students = (
            not cell.metadata.get("nbgrader", {}).get("locked") and SKIP not in cell.metadata
        )
        if is_students:
            assert cell.source == (STUBS[grade_id(cell)] if place is None else texts[place - 1])
    for number, text in enumerate(texts, 1):
        is_course = text.startswith(("import math", "check =", "import subprocess", "show"))
        is_stub = any(
            read_meaning(text).digest == read_meaning(stub).digest for stub in STUBS.values()
        )
        assert number in places or is_course or is_stub


# What a cell says


@pytest.mark.parametrize(
    "text",
    [
        "# nothing",
        "x = (",
        "x = '\0'\0",
        "x = '\ud800'\ud800",
        "-" * 50_000 + "1",
        "x" + ".a" * 40_000,
        "[" * 5_000,
        "x = 1" + " " * 200_000,
    ],
    ids=lambda text: ascii(text[:12]),
)
def test_of_a_cell_that_cannot_be_read_only_what_it_defines_is_seen(text: str) -> None:
    assert read_meaning(text).digest == ""
    assert read_meaning(f"{text}\ndef area(): pass").defines == {"area"}


def test_what_is_defined_at_the_top_is_seen_and_nothing_below_it() -> None:
    text = "x = (\ndef area(x):\nasync  def later():\nclass Box:\n    def method(self): ...\n"
    assert read_meaning(text).defines == {"area", "later", "Box"}


def test_no_cell_is_read_more_than_twice(
    registered: Register, monkeypatch: pytest.MonkeyPatch
) -> None:
    chapter = CHAPTERS[0]
    bare = laid_out_anew(without_marks(solved(chapter)))
    notebook = to_bytes(bare)
    sanitize(notebook, registered(chapter))  # so that the course's own cells are known
    texts: Counter[str] = Counter()
    parse = ast.parse

    def counting_parse(text: str) -> ast.Module:
        texts[text] += 1
        return parse(text)

    monkeypatch.setattr(ast, "parse", counting_parse)
    sanitize(notebook, registered(chapter))
    assert len(texts) == sum(cell.cell_type == "code" for cell in bare.cells)
    assert max(texts.values()) <= 2


def test_what_the_compiler_remarks_is_no_error() -> None:
    assert read_meaning(r"x = '\d'").digest == read_meaning(r"x = '\\d'").digest != ""


@pytest.mark.parametrize("end", ["\x0b", "\x0c", "\x1c", "\x85", "\u2028"])
def test_a_demo_with_a_line_that_only_ipython_sees_is_the_students_own(end: str) -> None:
    hidden = f"show('demo')\n# a{end}%run other.py"
    content = json.loads(pasted("demo"))
    content["cells"][0]["source"] = hidden
    (last,) = own_code(sanitize(json.dumps(content).encode(), SMALL))
    assert last == hidden
    assert (
        read_meaning("show('demo')\n# a %run other.py").digest == read_meaning(TEXTS["demo"]).digest
    )


def test_one_lost_mark_is_one() -> None:
    result = sanitize(pasted("needed-1:needed A test-a:check-A b:B test-b:check-B"), SMALL)
    assert result.notes == ("the mark of 1 cell was lost; it was recognized by what it says",)
    assert result.recognized == ("a",)


def test_a_cell_of_another_course_is_recognized_and_what_it_was_is_told() -> None:
    result = sanitize(pasted("needed other:A check-A b:B check-B"), SMALL)
    assert words_of(result) == "needed-1 a:A test-a b:B test-b"
    assert [note for note in result.notes if "marked as other" in note]
