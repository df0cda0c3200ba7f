"""Honest, untidy notebooks get full points, with nothing that waits and nothing for a person."""

from __future__ import annotations

from collections import Counter

import pytest
from classroom import solved, to_bytes, without_demos
from course_files import CHAPTERS
from honest_notebooks import Case, cases, with_strays_everywhere
from honest_strays import STRAYS
from nbformat.notebooknode import NotebookNode
from registered_chapters import Register

from helpers.grading.assignment import Assignment
from helpers.grading.judge.judge import judge_submission
from helpers.grading.judge.reaches import Notebook
from helpers.grading.judge.sanitize import sanitize
from helpers.grading.judge.trusted import defined_names
from helpers.grading.settings import Settings

pytestmark = pytest.mark.needs_system("bubblewrap")

CASES = list(cases())


def faults(notebook: NotebookNode, assignment: Assignment) -> dict[str, str]:
    """Return what is wrong with the judgment, by exercise."""
    judged = judge_submission(to_bytes(notebook), assignment, Settings())
    return {
        r.name: f"{r.points:g} of {r.most:g}, {r.waiting:g} wait: {r.for_a_person or r.message}"
        for r in judged.exercises
        if r.points != r.most or r.waiting or r.for_a_person
    }


@pytest.mark.parametrize("case", CASES, ids=str)
def test_an_untidy_notebook_gets_full_points(case: Case, registered: Register) -> None:
    assignment = registered(case.chapter)
    found = faults(case.build(), assignment)
    if found:
        alone = {name: faults(case.build([name]), assignment) for name in case.constructs}
        blamed = {case.constructs[name]: told for name, told in alone.items() if told}
        pytest.fail(f"{blamed or (found, dict(case.constructs))}")


def test_the_corpus_is_large_and_each_construct_is_tried_on_three_chapters() -> None:
    tried: Counter[str] = Counter()
    for case in CASES:
        if not case.kind.startswith("answers"):
            names = {n for names in case.constructs.values() for n in names.split("; ")}
            tried.update(f"{case.kind.split(',')[0]} {name}" for name in names)
    assert len(CASES) >= 150
    assert min(tried.values()) >= 3
    assert sum(tried.values()) >= 500
    by_chapter = Counter(case.chapter for case in CASES)
    assert min(by_chapter[chapter] for chapter in CHAPTERS) >= 3


def reaches(notebook: NotebookNode, assignment: Assignment) -> dict[str, tuple]:
    """Return each exercise's reach as code, and what in it is not plain."""
    sanitized = sanitize(to_bytes(notebook), assignment)
    stubs = {cell.name: cell.source for cell in assignment.cells if cell.solution}
    defines = {name: defined_names(stubs[name]) for name in assignment.exercises}
    cells = sanitized.notebook.cells
    read = Notebook(cells, defines, sanitized.missing, sanitized.places)
    found = {name: read.find_reach(name) for name in assignment.exercises}
    return {
        name: (tuple(cell.code for cell in reach.cells), tuple(d.what for d in reach.doubts))
        for name, reach in found.items()
    }


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_stray_cell_is_reached_by_no_exercise(chapter: str, registered: Register) -> None:
    assignment = registered(chapter)
    clean = reaches(without_demos(solved(chapter)), assignment)
    if reaches(with_strays_everywhere(chapter, STRAYS), assignment) == clean:
        return
    reached = {}
    for name in STRAYS:
        found = reaches(with_strays_everywhere(chapter, [name]), assignment)
        reached[name] = [exercise for exercise in clean if found[exercise] != clean[exercise]]
    pytest.fail(f"reached: { {name: found for name, found in reached.items() if found} }")
