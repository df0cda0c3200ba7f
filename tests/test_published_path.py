"""The whole path for every chapter: published, solved, handed in, collected and graded."""

from __future__ import annotations

import ast
import copy
import shutil
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import nbformat
import pytest
from classroom import exercises_of, full_points, to_bytes
from course_files import CHAPTERS, COURSE, ROOT, find_cell, source
from nbformat.notebooknode import NotebookNode

from helpers.authoring.kept_tree import write_tree
from helpers.authoring.publish import student_files
from helpers.grading.intake.intake import collect
from helpers.grading.judge.judge import close_warm_processes, judge_submission
from helpers.grading.records.registration import register
from helpers.grading.settings import Settings
from helpers.grading.verdicts import Judged

pytestmark = pytest.mark.needs_system("bubblewrap")

ADDRESS = "https://git.example.org:8443/a-class/of-ours"


@pytest.fixture(scope="module")
def students_copy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("published") / "students"
    write_tree(student_files(ROOT, ADDRESS), folder)
    yield folder
    close_warm_processes()


def as_solved(notebook: NotebookNode) -> NotebookNode:
    return notebook


def pasted_elsewhere(notebook: NotebookNode) -> NotebookNode:
    """Return the notebook as one of cells that were pasted into a new one, by an editor that set
    each cell of code anew.
    """
    notebook.metadata = NotebookNode()
    for cell in notebook.cells:
        cell.metadata = NotebookNode()
        if cell.cell_type == "code":
            cell.source = ast.unparse(ast.parse(cell.source))
    return notebook


WAYS: dict[str, Callable[[NotebookNode], NotebookNode]] = {
    "as-solved": as_solved,
    "pasted-elsewhere": pasted_elsewhere,
}


def solve(students_copy: Path, chapter: str) -> NotebookNode:
    """Return the chapter as a student has it, solved."""
    (file,) = (students_copy / "course" / "release" / chapter).glob("*.ipynb")
    notebook = nbformat.read(file, as_version=4)
    assert ADDRESS in file.read_text("utf-8")
    for exercise in exercises_of(chapter):
        find_cell(notebook, exercise.name).source = find_cell(source(chapter), exercise.name).source
    return notebook


def hand_in_and_grade(notebook: NotebookNode, chapter: str, folder: Path) -> dict[str, Judged]:
    """Hand the notebook in, once in each way, collect all, and judge what was collected."""
    course = folder / "course"
    for stage in ("source", "release"):
        shutil.copytree(ROOT / "course" / stage / chapter, course / stage / chapter)
    shutil.copy(COURSE.config_file, course)
    name = COURSE.release(chapter).name
    with zipfile.ZipFile(folder / "all.zip", "w") as archive:
        for student, change in WAYS.items():
            archive.writestr(f"{student}/{name}", to_bytes(change(copy.deepcopy(notebook))))
    summary = collect(folder / "all.zip", course, chapter)
    assert sorted(summary.collected) == sorted(WAYS)
    assignment = register(course, chapter)
    return {
        student: judge_submission(
            (course / "submitted" / student / chapter / name).read_bytes(), assignment, Settings()
        )
        for student in WAYS
    }


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_what_is_published_and_solved_is_graded_with_full_points(
    chapter: str, students_copy: Path, tmp_path: Path
) -> None:
    graded = hand_in_and_grade(solve(students_copy, chapter), chapter, tmp_path)
    full = full_points(exercises_of(chapter))
    for student, judged in graded.items():
        assert {r.name: r.points for r in judged.exercises} == full, student
        assert {r.name: r.waiting for r in judged.exercises} == dict.fromkeys(full, 0), student
        told = {r.for_a_person != "" for r in judged.exercises}
        assert told == {student == "pasted-elsewhere"}, (student, judged.exercises)
        assert bool(judged.notes) is (student == "pasted-elsewhere"), judged.notes
