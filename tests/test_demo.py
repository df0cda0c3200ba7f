"""`bits demo`: an invented class in a folder of its own, graded as a real one is."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import nbformat
import pytest
from click.testing import CliRunner
from course_files import CHAPTERS, COURSE, find_cell, release, source
from lab_server import copy_course
from nbgrader.api import Gradebook
from small_course import snapshot

from helpers.cli import main
from helpers.grading.demo.folder import open_folder
from helpers.grading.demo.invented_class import FEWEST, invent_class
from helpers.grading.demo.mistakes import find_mistakes
from helpers.grading.errors import DemoError
from helpers.grading.records.class_list import ClassEntry, read_class
from helpers.grading.verdicts import Verdict

CHAPTER = "08-numerical-stability"
OTHER = "00-warm-up"
COMMAND = (Path(sys.executable).with_name("bits"), "demo", "--no-browser", "--students")


# --- The class


ANSWER = '''
def mean(x, dim):
    """Return the mean."""
    total = x.sum(dim=dim, keepdim=True)
    return (total - 3) / x.shape[dim]
'''


def test_mistakes_are_of_every_kind_and_the_same_each_time() -> None:
    mistakes = find_mistakes(ANSWER)
    made = {(mistake.kind, mistake.code.splitlines()[-1].strip()) for mistake in mistakes}
    assert made == {
        ("swaps + and -, or * and /", "return (total + 3) / x.shape[dim]"),
        ("swaps + and -, or * and /", "return (total - 3) * x.shape[dim]"),
        ("changes a number", "return (total - 4) / x.shape[dim]"),
        ("leaves out an argument", "return (total - 3) / x.shape[dim]"),
        ("leaves out a line", "return (total - 3) / x.shape[dim]"),
        ("returns too early", "return total"),
        ("returns another dtype", "return ((total - 3) / x.shape[dim]).double()"),
    }
    assert len(mistakes) == 8  # two arguments can be left out
    assert find_mistakes(ANSWER) == mistakes


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_class_can_be_invented_for_every_chapter(chapter: str) -> None:
    made = invent_class(source(chapter), release(chapter), 24)
    assert [work.student for work in made.in_time] == [f"student-{n:02}" for n in range(1, 25)]
    assert len({work.about for work in made.in_time}) == FEWEST + 1  # the others have none
    assert len({work.notebook for work in made.in_time}) > 12
    (late,) = made.late
    by_about = {work.about: work for work in made.in_time}
    assert late.notebook == by_about["has everything right"].notebook
    assert late.student in {work.student for work in made.in_time}
    assert b"BEGIN SOLUTION" not in late.notebook
    for work in made.in_time:
        if work.about != "has a damaged file":
            assert_is_python(work.notebook)


def assert_is_python(notebook: bytes) -> None:
    for cell in json.loads(notebook)["cells"]:
        if cell["cell_type"] == "code" and cell["metadata"].get("nbgrader", {}).get("solution"):
            ast.parse("".join(cell["source"]))


def test_the_class_is_the_same_each_time() -> None:
    first, again = (invent_class(source(CHAPTER), release(CHAPTER), 30) for _ in range(2))
    assert first == again


# --- Its folder


def test_made_from_the_same_all_stays_and_from_something_else_it_begins_anew(
    tmp_path: Path,
) -> None:
    course = copy_course(tmp_path / "clone") / "course"
    folder = tmp_path / "demo"
    with open_folder(folder, course, CHAPTER, FEWEST) as (own, _):
        (own / "gradebook.db").write_text("points by hand")
        (own / "notes.txt").write_text("an instructor's")
    before = snapshot(folder)
    with open_folder(folder, course, CHAPTER, FEWEST):
        pass
    after = snapshot(folder)
    assert {n for n in after if after[n] != before[n]} <= {".bits-demo.json"}
    with open_folder(folder, course, OTHER, FEWEST) as (own, _):
        assert sorted(path.name for path in (own / "source").iterdir()) == [OTHER]
        assert not (own / "gradebook.db").exists()
        assert (own / "notes.txt").read_text() == "an instructor's"


def test_what_a_killed_run_left_is_begun_anew(tmp_path: Path) -> None:
    course = copy_course(tmp_path / "clone") / "course"
    (tmp_path / "demo" / "course").mkdir(parents=True)
    (tmp_path / "demo" / ".bits-demo.json").write_text("{")
    (tmp_path / "demo" / "course" / "gradebook.db").write_text("half of one")
    with open_folder(tmp_path / "demo", course, CHAPTER, FEWEST) as (own, _):
        assert not (own / "gradebook.db").exists()
        assert (own / "nbgrader_config.py").read_bytes() == COURSE.config_file.read_bytes()


@pytest.mark.needs_system("bubblewrap")
def test_a_folder_of_somebody_elses_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = copy_course(tmp_path / "clone")
    (root / "mine").mkdir()
    (root / "mine" / "thesis.txt").write_text("all of it")
    monkeypatch.chdir(root)
    before = snapshot(root)
    for output in ("mine", "course", "course/new", "mine/thesis.txt"):
        result = CliRunner().invoke(main, ["demo", "--output", output, "--no-browser"])
        assert result.exit_code == 1
        assert result.output == (
            f"Error: {output} was not made by bits demo, which writes into no other folder: "
            "choose one that is new or empty, with --output.\n"
        )
    assert snapshot(root) == before


def test_a_folder_that_cannot_be_made_is_told_of(tmp_path: Path) -> None:
    course = copy_course(tmp_path / "clone") / "course"
    (tmp_path / "file").write_text("in the way")
    with (
        pytest.raises(DemoError, match="cannot be written .*: make room or choose another folder"),
        open_folder(tmp_path / "file" / "demo", course, CHAPTER, FEWEST),
    ):
        pass


def test_a_demo_of_a_demo_is_refused(tmp_path: Path) -> None:
    course = copy_course(tmp_path / "clone") / "course"
    with open_folder(tmp_path / "demo", course, CHAPTER, FEWEST) as (own, _):
        pass
    with (
        pytest.raises(DemoError, match="is a demo's own folder"),
        open_folder(tmp_path / "second", own, CHAPTER, FEWEST),
    ):
        pass


def test_without_bubblewrap_it_says_what_grade_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = copy_course(tmp_path / "clone")
    monkeypatch.chdir(root)
    monkeypatch.setenv("PATH", str(tmp_path))
    shown = [CliRunner().invoke(main, arguments) for arguments in (["demo"], ["grade", CHAPTER])]
    assert [result.exit_code for result in shown] == [1, 1]
    assert shown[0].output == shown[1].output
    assert not (root / "build").exists()


# --- All of it


@dataclass(frozen=True)
class Shown:
    """A clone in which the demo was run, what its course held before, and what was printed."""

    root: Path
    before: dict
    text: str

    @property
    def course(self) -> Path:
        return self.root / "build" / "demo" / "course"

    def entry(self, about: str) -> ClassEntry:
        (line,) = (line for line in self.text.splitlines() if line.endswith(f" {about}"))
        entries = {entry.student: entry for entry in read_class(self.course, CHAPTER)}
        return entries[line.split()[0]]


def run_demo(root: Path) -> str:
    done = subprocess.run(
        [*COMMAND, str(FEWEST)], cwd=root, capture_output=True, text=True, timeout=550
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return done.stdout


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Shown:
    root = copy_course(tmp_path_factory.mktemp("clone"))
    before = snapshot(root)
    return Shown(root, before, run_demo(root))


@pytest.mark.needs_system("bubblewrap")
@pytest.mark.parametrize(
    ("about", "points", "verdicts"),
    [
        ("has everything right", 34.0, {Verdict.PASSED}),
        ("has written nothing", 0.0, {Verdict.UNANSWERED}),
        ("has an answer that never ends", 30.0, {Verdict.PASSED, Verdict.TIMED_OUT}),
        ("has an answer that ends its own process", 30.0, {Verdict.PASSED, Verdict.CRASHED}),
        ("has a damaged file", 0.0, {Verdict.MALFORMED}),
        ("has deleted an answer's cell", 30.0, {Verdict.PASSED, Verdict.MISSING}),
        ("hands in again, all right, after the due date", 34.0, {Verdict.PASSED}),
    ],
)
def test_special_work_gets_what_it_deserves(
    shown: Shown, about: str, points: float, verdicts: set[Verdict]
) -> None:
    judged = shown.entry(about).judged
    assert judged.points == points
    assert {exercise.verdict for exercise in judged.exercises} == verdicts


@pytest.mark.needs_system("bubblewrap")
def test_points_that_wait_are_told_of_and_can_be_decided(
    shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = shown.entry("asks Python for its caller, which a person looks at")
    first, *others = entry.judged.exercises
    assert (first.verdict, first.points + first.waiting) == (Verdict.WAITING, first.most)
    assert {exercise.verdict for exercise in others} == {Verdict.PASSED}
    assert f"bits review {CHAPTER}" in shown.text
    monkeypatch.chdir(shown.course)
    listed = CliRunner().invoke(main, ["review", CHAPTER, "--student", entry.student])
    assert "caller = sys._getframe(1).f_code.co_name" in listed.output


@pytest.mark.needs_system("bubblewrap")
def test_who_looks_for_the_tests_gains_nothing(shown: Shown) -> None:
    entry = shown.entry("prints points and looks for the tests")
    first, *_ = entry.judged.exercises
    assert (first.points, first.waiting, first.most) == (0.0, 0.0, 4.0)
    printed = find_cell(nbformat.reads(entry.read_notebook().decode(), 4), "softmax").outputs
    assert "4.0 of 4 points" in json.dumps(printed)
    assert "found a test" not in json.dumps(printed)


@pytest.mark.needs_system("bubblewrap")
def test_the_late_one_is_late_and_nobody_else(shown: Shown) -> None:
    late = shown.entry("hands in again, all right, after the due date").student
    with Gradebook(f"sqlite:///{shown.course / 'gradebook.db'}") as gradebook:
        submissions = gradebook.find_assignment(CHAPTER).submissions
        assert [s.student.id for s in submissions if s.total_seconds_late > 0] == [late]
        assert len(submissions) == FEWEST


@pytest.mark.needs_system("bubblewrap")
def test_it_says_where_to_look_and_all_of_it_is_there(shown: Shown) -> None:
    paths = [Path(line.rpartition(" ")[2]) for line in shown.text.splitlines() if ":  " in line]
    assert shown.course / "gradebook.db" in paths
    assert all(path.exists() for path in paths if path.is_absolute())
    index = shown.course / "reports" / CHAPTER / "index.html"
    assert str(index) in shown.text
    pages = sorted(page.stem for page in (index.parent / "feedback").glob("*.html"))
    assert pages == [f"student-{number:02}" for number in range(1, FEWEST + 1)]


@pytest.mark.needs_system("bubblewrap")
def test_nothing_else_is_touched_and_a_second_run_keeps_all(shown: Shown) -> None:
    student = shown.entry("has a damaged file").student
    with Gradebook(f"sqlite:///{shown.course / 'gradebook.db'}") as gradebook:
        notebook = gradebook.find_submission(CHAPTER, student).notebooks[0]
        notebook.grades[0].manual_score = 1.5
        gradebook.db.commit()
    received = snapshot(shown.course / "received"), snapshot(shown.course / "submitted")
    assert "and half of the class" in run_demo(shown.root)
    again = snapshot(shown.course / "received"), snapshot(shown.course / "submitted")
    assert again == received
    with Gradebook(f"sqlite:///{shown.course / 'gradebook.db'}") as gradebook:
        assert gradebook.find_submission(CHAPTER, student).score == 1.5
    outside = {n: c for n, c in snapshot(shown.root).items() if not n.startswith("build/demo/")}
    assert outside == shown.before
