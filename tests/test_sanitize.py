"""Sanitizing: whatever a submission says of itself, the course's cells are the course's."""

from __future__ import annotations

import copy
import json
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import nbformat
import pytest
from classroom import (
    as_colab_saves,
    exercises_of,
    other_right_solutions,
    solved,
    to_bytes,
    without_demos,
)
from course_files import COURSE, find_cell, grade_id, release, source
from hypothesis import given, settings
from hypothesis import strategies as st
from nbformat.notebooknode import NotebookNode
from nbgrader.converters import Autograde

from helpers.grading.assignment import Assignment, SourceCell
from helpers.grading.caps import Caps
from helpers.grading.judge.recognition import released
from helpers.grading.judge.sanitize import SKIP, Sanitized, sanitize
from helpers.grading.records.registration import open_course, register
from helpers.grading.soundness import MalformedError

CHAPTER = "08-numerical-stability"


# A small assignment, and submissions of it


def course_cell(name: str, text: str, **changes: Any) -> SourceCell:
    plain = {"locked": False, "grade": False, "solution": False, "checksum": "0" * 32}
    return SourceCell(name=name, cell_type="code", source=text, **(plain | changes))


HIDDEN = "### BEGIN HIDDEN TESTS\nsecret()\n### END HIDDEN TESTS\n"
SMALL = Assignment(
    name="01-small",
    notebook="small",
    kernelspec={"name": "python3", "display_name": "Python 3"},
    cells=(
        course_cell("needed-1", "import math", locked=True),
        course_cell("a", "stub a", solution=True),
        course_cell("test-a", f"check a\n{HIDDEN}score", locked=True, grade=True, points=4.0),
        course_cell("b", "stub b", solution=True),
        course_cell("test-b", "check b", locked=True, grade=True, points=2.0),
    ),
    demos=frozenset({"demo() \n"}),
)
# What students have of the locked cells.
RELEASED = {cell.name: cell.source.replace(HIDDEN, "") for cell in SMALL.cells if cell.locked}


def own(text: str, cell_type: str = "code", **metadata: Any) -> dict[str, Any]:
    cell = {"cell_type": cell_type, "source": text, "metadata": metadata}
    return cell | {"outputs": [], "execution_count": None} if cell_type == "code" else cell


def marked(name: str, text: str | None = None, cell_type: str = "code") -> dict[str, Any]:
    """Return a cell that says it is the course's cell ``name``."""
    grading = {"grade_id": name, "schema_version": 3}
    return own(RELEASED[name] if text is None else text, cell_type, nbgrader=grading)


def arrange(line: str) -> list[dict[str, Any]]:
    """Return cells from a line: "a=x" for a copy of the cell a, "test-a" for a locked one."""
    cells = []
    for word in line.split():
        name, equals, text = word.partition("=")
        locked = name in RELEASED
        cells.append(marked(name, text or None) if equals or locked else own(word))
    return cells


def submission(cells: list[dict[str, Any]], **changes: Any) -> bytes:
    content = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4}
    return json.dumps(content | changes).encode()


def run_small(cells: list[dict[str, Any]], **changes: Any) -> Sanitized:
    return sanitize(submission(cells, **changes), SMALL)


def shown(result: Sanitized) -> str:
    """Return the cells as ``arrange`` takes them."""
    words = []
    for cell in result.notebook.cells:
        name = grade_id(cell)
        is_locked = name in RELEASED
        words.append(name if is_locked else f"{name}={cell.source}" if name else cell.source)
    return " ".join(words).replace("stub ", "stub-")


COMPLETE = "needed-1 a=x test-a b=y test-b"


# The real chapter


@dataclass(frozen=True)
class Registered:
    assignment: Assignment
    gradebook: str


@pytest.fixture(scope="module")
def chapter(tmp_path_factory: pytest.TempPathFactory) -> Registered:
    course = tmp_path_factory.mktemp("course")
    shutil.copytree(COURSE.source(CHAPTER).parent, course / "source" / CHAPTER)
    shutil.copy(COURSE.config_file, course)
    return Registered(register(course, CHAPTER), open_course(course).db_url)


def sanitize_with_nbgrader(notebook: NotebookNode, chapter: Registered) -> NotebookNode:
    """Return the notebook as ``nbgrader autograde`` has it before it runs it."""
    assignment = chapter.assignment
    about = {
        "notebook": assignment.notebook,
        "assignment": assignment.name,
        "db_url": chapter.gradebook,
    }
    notebook, resources = copy.deepcopy(notebook), {"nbgrader": about}
    for kind in Autograde.sanitize_preprocessors.default_args[0]:
        notebook, resources = kind()(notebook, resources)
    return notebook


def graded_content(notebook: NotebookNode) -> list[tuple]:
    return [(c.cell_type, c.source, c.metadata.get("nbgrader")) for c in notebook.cells]


HONEST = {
    "solved": lambda: to_bytes(solved(CHAPTER)),
    "without demos": lambda: to_bytes(without_demos(solved(CHAPTER))),
    "solved otherwise": lambda: other_right_solutions(CHAPTER).notebook,
    "blank": lambda: to_bytes(release(CHAPTER)),
    "saved by Colab": lambda: to_bytes(as_colab_saves(solved(CHAPTER))),
    "with outputs": lambda: to_bytes(with_outputs(solved(CHAPTER))),
}


def with_outputs(notebook: NotebookNode) -> NotebookNode:
    notebook = copy.deepcopy(notebook)
    for number, cell in enumerate(c for c in notebook.cells if c.cell_type == "code"):
        cell.outputs = [nbformat.v4.new_output("stream", text="nan")]
        cell.execution_count = number + 1
    return notebook


@pytest.mark.parametrize("honest", HONEST)
def test_of_honest_work_nbgrader_makes_the_same(chapter: Registered, honest: str) -> None:
    content = HONEST[honest]()
    result = sanitize(content, chapter.assignment)
    theirs = sanitize_with_nbgrader(nbformat.v4.reads(content.decode()), chapter)
    assert graded_content(result.notebook) == graded_content(theirs)
    assert result.notebook.metadata.kernelspec == theirs.metadata.kernelspec
    assert (result.missing, result.notes) == ((), ())


def test_nbgraders_own_sanitizing_changes_nothing_of_the_result(chapter: Registered) -> None:
    content = to_bytes(without_first_test(solved(CHAPTER)))
    result = sanitize(content, chapter.assignment).notebook
    assert sanitize_with_nbgrader(result, chapter) == result


def without_first_test(notebook: NotebookNode) -> NotebookNode:
    shorter = copy.deepcopy(notebook)
    first = find_cell(shorter, f"test-{exercises_of(CHAPTER)[0].name}")
    shorter.cells.remove(first)
    return shorter


def test_colabs_file_becomes_what_jupyters_does(chapter: Registered) -> None:
    jupyter, colab = (
        sanitize(HONEST[how](), chapter.assignment) for how in ("solved", "saved by Colab")
    )
    assert colab == jupyter


def test_the_demos_are_marked_and_the_students_answers_are_not(chapter: Registered) -> None:
    result = sanitize(to_bytes(solved(CHAPTER)), chapter.assignment).notebook
    for cell, theirs in zip(result.cells, release(CHAPTER).cells, strict=True):
        tags = set(theirs.metadata.get("tags", []))
        is_skipped = theirs.cell_type == "code" and bool(tags & {"demo", "setup"})
        assert (SKIP in cell.metadata) == is_skipped, cell.source


# The law, for submissions of every kind

JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)
NAMES = [cell.name for cell in SMALL.cells]
GRADING = st.fixed_dictionaries(
    {},
    optional={
        "grade_id": st.sampled_from([*NAMES, "softmax", "test-softmax", "unknown", "own-1", ""])
        | JUNK,
        "schema_version": st.sampled_from([0, 1, 2, 3, 4, 10**30, None, "3"]) | JUNK,
        **dict.fromkeys(("grade", "solution", "locked", "task"), st.booleans() | JUNK),
        "points": st.sampled_from([1000, -1, "4", None]) | JUNK,
        "checksum": JUNK,
        "cell_type": st.sampled_from(["code", "markdown", "raw"]) | JUNK,
        "more": JUNK,
    },
)
OTHER_METADATA = st.sampled_from(
    [
        {},
        {"tags": ["needed", "exercise"], "collapsed": True, "deletable": True},
        {
            "jupyter": {"source_hidden": True, "outputs_hidden": True},
            "slideshow": {"slide_type": "skip"},
        },
        {SKIP: True, "bits": {"exercise": "softmax"}, "id": "x", "editable": True},
    ]
)
CHANGES = st.lists(
    st.tuples(st.just("delete"), st.integers(0))
    | st.tuples(st.just("copy"), st.integers(0), st.integers(0))
    | st.tuples(st.just("move"), st.integers(0), st.integers(0))
    | st.tuples(st.just("grading"), st.integers(0), GRADING)
    | st.tuples(st.just("metadata"), st.integers(0), OTHER_METADATA)
    | st.tuples(st.just("lose"), st.integers(0))
    | st.tuples(st.just("kind"), st.integers(0), st.sampled_from(["code", "markdown", "raw"]))
    | st.tuples(st.just("text"), st.integers(0), st.text(max_size=20)),
    max_size=12,
)


def change(cells: list[dict[str, Any]], changes: list[tuple]) -> list[dict[str, Any]]:
    cells = copy.deepcopy(cells)
    for what, at, *rest in changes:
        cell = cells[at % len(cells)]
        if what == "delete" and len(cells) > 1:
            cells.remove(cell)
        elif what in ("copy", "move"):
            if what == "move":
                cells.remove(cell)
            cells.insert(rest[0] % (len(cells) + 1), copy.deepcopy(cell))
        elif what == "grading":
            cell["metadata"]["nbgrader"] = cell["metadata"].get("nbgrader", {}) | rest[0]
        elif what == "lose":
            cell["metadata"] = {}
        elif what == "metadata":
            cell["metadata"] |= rest[0]
        elif what == "kind":
            cell["cell_type"] = rest[0]
            if rest[0] == "code":
                cell |= {"outputs": [], "execution_count": 1}
        elif what == "text":
            cell["source"] = rest[0]
    return cells


def check_law(content: bytes, assignment: Assignment) -> None:
    result = sanitize(content, assignment)
    notebook = result.notebook
    nbformat.validate(notebook)
    ours = [cell for cell in notebook.cells if "nbgrader" in cell.metadata]
    assert [cell.metadata.nbgrader for cell in ours] == [grading(c) for c in assignment.cells]
    assert [cell.cell_type for cell in ours] == [cell.cell_type for cell in assignment.cells]
    for cell, expected in zip(ours, assignment.cells, strict=True):
        assert not expected.locked or cell.source == expected.source
        assert set(cell.metadata) <= {"nbgrader", "deletable", "editable"}
    for cell in notebook.cells:
        if "nbgrader" not in cell.metadata:
            assert cell.metadata in ({}, {SKIP: True})
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None
    assert notebook.metadata == {"kernelspec": assignment.kernelspec}
    assert len({cell.id for cell in notebook.cells}) == len(notebook.cells)
    check_nothing_lost(content, notebook, assignment)
    again = sanitize(to_bytes(notebook), assignment)
    assert again.notebook == notebook
    assert (again.notes, again.missing, again.recognized) == ((), (), ())
    places = [place for place in result.places if place is not None]
    assert len(result.places) == len(notebook.cells)
    assert len(set(places)) == len(places)
    assert set(places) <= set(range(1, len(json.loads(content)["cells"]) + 1))


def grading(cell: SourceCell) -> dict[str, Any]:
    """Return what nbgrader's release has in the cell's metadata."""
    return {
        "cell_type": cell.cell_type,
        "checksum": cell.checksum,
        "grade": cell.grade,
        "grade_id": cell.name,
        "locked": cell.locked,
        "schema_version": 3,
        "solution": cell.solution,
        "task": False,
    } | ({"points": cell.points} if cell.grade else {})


def check_nothing_lost(content: bytes, notebook: NotebookNode, assignment: Assignment) -> None:
    """Check that each text that a student wrote is there, as often as it stood there."""
    locked = {cell.name for cell in assignment.cells if cell.locked}
    of_the_course = {
        text.rstrip() for cell in assignment.cells for text in (cell.source, released(cell))
    }
    cells = json.loads(content)["cells"]
    names = [cell["metadata"].get("nbgrader", {}).get("grade_id") for cell in cells]
    texts = (
        "".join(cell["source"])
        for cell, name in zip(cells, names, strict=True)
        if not (isinstance(name, str) and name in locked)
    )
    written = Counter(text for text in texts if text.rstrip() not in of_the_course)
    assert not written - Counter(cell.source for cell in notebook.cells)


@given(changes=CHANGES)
@settings(max_examples=400)
def test_the_law_holds_for_the_small_assignment(changes: list[tuple]) -> None:
    cells = arrange("title needed-1 demo() card a=x helper test-a b=y own test-b end")
    check_law(submission(change(cells, changes)), SMALL)


@given(changes=CHANGES)
@settings(max_examples=40)
def test_the_law_holds_for_a_chapter(chapter: Registered, changes: list[tuple]) -> None:
    content = json.loads(to_bytes(solved(CHAPTER)))
    content["cells"] = change(content["cells"], changes)
    for cell in content["cells"]:
        del cell["id"]  # a copied cell would have it twice, in a format that forbids that
    content["nbformat_minor"] = 4
    check_law(json.dumps(content).encode(), chapter.assignment)


def test_the_metadata_of_the_law_is_that_of_the_release(chapter: Registered) -> None:
    """So that what the law is held to is nbgrader's, and not a second copy of ours."""
    released = [c.metadata.nbgrader for c in release(CHAPTER).cells if grade_id(c)]
    for cell, theirs in zip(chapter.assignment.cells, released, strict=True):
        # The release's own checksum is of the text without hidden tests.
        assert grading(cell) | {"checksum": ""} == theirs | {"checksum": ""}


ARRANGED = st.lists(
    st.sampled_from(["a=x1", "a=x2", "a=x3", "own1", "own2", "test-a"]), max_size=9
).map(lambda words: " ".join(["needed-1", *words, "b=y", "test-b"]))


@given(line=ARRANGED)
@settings(max_examples=300)
def test_the_test_finds_what_a_run_from_top_to_bottom_leaves(line: str) -> None:
    """Whatever copies there are: if a test stands behind them all, nothing changes its place."""
    words = line.split()
    solutions = [n for n, word in enumerate(words) if word.startswith("a=")]
    tests = [n for n, word in enumerate(words) if word == "test-a"]
    got = shown(run_small(arrange(line)))
    if solutions and tests and tests[-1] > solutions[-1]:
        counts = next(n for n in tests if n > solutions[-1])
        kept = [word for n, word in enumerate(words) if word != "test-a" or n == counts]
        assert [word.removeprefix("a=") for word in got.split()] == [
            word.removeprefix("a=") for word in kept
        ]
        assert words[solutions[-1]] in got.split()
    elif solutions:
        before_test = got.split("test-a")[0]
        assert "a=" in before_test


# Copies, one by one

COPIES = {
    "the last before the test counts": ("a=x1 a=x2 test-a", "x1 a=x2 test-a"),
    "what stands between them stays": ("a=x1 own a=x2 test-a", "x1 own a=x2 test-a"),
    "one behind the test is run behind it": ("a=x1 test-a a=x2", "a=x1 test-a x2"),
    "all behind the test": ("test-a a=x1 own a=x2", "a=x1 own x2 test-a"),
    "solved in a copy behind the test": ("a=STUB test-a a=x", "a=x test-a"),
    "an empty copy does not undo the solution": ("a=x a=STUB test-a", "a=x test-a"),
    "only empty ones": ("a=STUB a=STUB test-a", "a=stub-a test-a"),
    "test and solution copied to try again": ("a=x1 test-a a=x2 test-a", "x1 a=x2 test-a"),
    "a test copied to the end": ("a=x test-a own test-a", "a=x test-a own"),
    "a test before and between": ("test-a a=x1 test-a a=x2", "a=x1 test-a x2"),
    "tests alone copied": ("test-a test-a a=x", "a=x test-a"),
    "without a test the last counts": ("a=x1 a=x2", "x1 a=x2 test-a"),
}


@pytest.mark.parametrize("case", COPIES)
def test_copies(case: str) -> None:
    before, after = COPIES[case]
    cells = arrange(f"needed-1 {before} b=y test-b")
    for cell in cells:
        cell["source"] = cell["source"].replace("STUB", "stub a")
    result = run_small(cells)
    assert shown(result) == f"needed-1 {after} b=y test-b"
    assert result.missing == ()
    assert any(" times" in note for note in result.notes) or before.count("a=") == 1


def test_a_copy_that_was_made_into_text_stays_text() -> None:
    cells = arrange("needed-1 a=x test-a b=y test-b")
    cells.insert(2, marked("a", "an old attempt", "markdown"))
    result = run_small(cells)
    assert shown(result) == "needed-1 a=x an old attempt test-a b=y test-b"
    assert result.notebook.cells[2].cell_type == "markdown"


def test_a_copied_locked_cell_counts_once_and_an_edited_copy_is_the_students() -> None:
    cells = arrange("needed-1 a=x test-a b=y test-b")
    cells[1:1] = [marked("needed-1"), marked("needed-1", "import cmath")]
    result = run_small(cells)
    assert shown(result) == "needed-1 import cmath a=x test-a b=y test-b"


# What is missing, moved or of another kind


def test_a_deleted_test_is_put_back_with_its_hidden_tests() -> None:
    result = run_small(arrange("needed-1 a=x own b=y test-b"))
    assert shown(result) == "needed-1 a=x test-a own b=y test-b"
    assert result.notebook.cells[2].source == SMALL.cells[2].source
    assert result.missing == ()
    assert [note for note in result.notes if "test-a" in note]


def test_a_deleted_solution_is_missing_and_what_was_written_elsewhere_comes_after_its_stub() -> (
    None
):
    result = run_small(arrange("title needed-1 def-a test-a b=y test-b"))
    assert shown(result) == "title needed-1 a=stub-a def-a test-a b=y test-b"
    assert result.missing == ("a",)


def test_a_submission_with_nothing_of_ours_gets_all_of_it() -> None:
    result = run_small([own("x = 1"), own("text", "markdown")])
    assert shown(result) == "needed-1 a=stub-a test-a b=stub-b test-b x = 1 text"
    assert result.missing == ("a", "b")


def test_our_order_comes_back_and_own_cells_follow_what_they_followed() -> None:
    result = run_small(arrange("title test-b after-test b=y after-b needed-1 a=x after-a test-a"))
    assert shown(result) == "title needed-1 a=x after-a test-a b=y after-b test-b after-test"
    assert [note for note in result.notes if "order" in note]


@pytest.mark.parametrize("kind", ["markdown", "raw"])
def test_a_solution_that_was_made_into_text_is_code_again(kind: str) -> None:
    cells = arrange(COMPLETE)
    cells[1] = marked("a", "x", kind)
    result = run_small(cells)
    assert shown(result) == COMPLETE
    assert result.notebook.cells[1].cell_type == "code"
    assert [note for note in result.notes if f"a {kind} cell" in note]


# What a cell says of itself

FORGED = [
    {"grade_id": "a", "grade": True, "points": 1000, "solution": False},
    {"grade_id": "a", "locked": True, "task": True, "cell_type": "markdown"},
    {"grade_id": "a", "schema_version": 10**30},
    {"grade_id": "a", "schema_version": None, "points": "a lot", "checksum": []},
    {"grade_id": "a", "schema_version": 1},
]


@pytest.mark.parametrize("forged", FORGED, ids=str)
def test_forged_grading_data_count_nothing(forged: dict[str, Any]) -> None:
    cells = arrange(COMPLETE)
    cells[1]["metadata"]["nbgrader"] = forged
    assert run_small(cells).notebook == run_small(arrange(COMPLETE)).notebook


@pytest.mark.parametrize(
    "forged",
    [{}, {"grade_id": None}, {"grade_id": ["a"]}, {"grade_id": {"a": 1}}, {"grade_id": 1.5}],
)
def test_a_cell_without_a_name_of_ours_is_the_students_own(forged: dict[str, Any]) -> None:
    cells = arrange(COMPLETE)
    cells.insert(2, own("z", nbgrader=forged | {"grade": True, "points": 9, "locked": True}))
    result = run_small(cells)
    assert shown(result) == "needed-1 a=x z test-a b=y test-b"
    assert result.notebook.cells[2].metadata == {}


def test_a_test_of_the_students_own_is_not_one() -> None:
    cells = arrange(COMPLETE)
    cells.append(own("4.0", nbgrader={"grade_id": "test-c\x1b[2J", "grade": True, "points": 50}))
    result = run_small(cells)
    assert shown(result) == f"{COMPLETE} 4.0"
    (note,) = result.notes
    assert r"test-c\x1b[2J" in note


def test_the_students_text_in_a_test_is_replaced() -> None:
    cells = arrange(COMPLETE)
    cells[2] = marked("test-a", "4.0")
    result = run_small(cells)
    assert result.notebook.cells[2].source == SMALL.cells[2].source
    assert [note for note in result.notes if "text of the cell test-a" in note]


def test_names_swapped_between_solution_and_test_gain_nothing() -> None:
    cells = arrange(COMPLETE)
    cells[1], cells[2] = marked("test-a", "x"), marked("a", RELEASED["test-a"])
    result = run_small(cells)
    assert shown(result) == f"needed-1 a={RELEASED['test-a']} test-a b=y test-b"
    assert result.notebook.cells[2].source == SMALL.cells[2].source


def test_nothing_of_the_notebooks_metadata_stays() -> None:
    evil = {
        "kernelspec": {"name": "evil", "display_name": "Evil", "language": "bash"},
        "language_info": {"name": "bash", "version": "5"},
        "widgets": {"application/vnd.jupyter.widget-state+json": {"state": {}}},
        "celltoolbar": "Create Assignment",
        "bits": {"chapter": "02-other"},
    }
    result = run_small(arrange(COMPLETE), metadata=evil)
    assert result.notebook.metadata == {"kernelspec": SMALL.kernelspec}


def test_outputs_are_cleared_wherever_they_stand() -> None:
    cells = arrange(COMPLETE)
    output = {"output_type": "stream", "name": "stdout", "text": "4.0"}
    cells[1] |= {"outputs": [output], "execution_count": 7}
    cells.append(own("text", "markdown") | {"outputs": [output], "execution_count": 8})
    result = run_small(cells)
    nbformat.validate(result.notebook)
    assert not any(cell.get("outputs") for cell in result.notebook.cells)
    assert not any(cell.get("execution_count") for cell in result.notebook.cells)


def test_a_picture_pasted_into_text_stays_and_elsewhere_goes() -> None:
    pasted = {"attachments": {"a.png": {"image/png": "iVBORw0KGgo="}}}
    cells = arrange(COMPLETE)
    cells[1] |= pasted
    cells[2] |= pasted
    cells.append(own("![](attachment:a.png)", "markdown") | pasted)
    result = run_small(cells)
    nbformat.validate(result.notebook)
    assert [n for n, c in enumerate(result.notebook.cells) if "attachments" in c] == [5]


def test_an_answer_in_words_is_kept_whatever_kind_of_cell_it_became() -> None:
    """Such a cell is graded by hand; it is answered and gives points at once."""
    answer = course_cell("why", "Your answer", solution=True, grade=True, points=3.0)
    assignment = Assignment("03-words", "words", {}, (replace(answer, cell_type="markdown"),))
    pasted = {"attachments": {"a.png": {"image/png": "iVBORw0KGgo="}}}
    kept = sanitize(submission([marked("why", "Because.", "raw") | pasted]), assignment)
    (cell,) = kept.notebook.cells
    assert (cell.cell_type, cell.source) == ("markdown", "Because.")
    assert cell.attachments == pasted["attachments"]
    odd = {"attachments": {"a.png": {"image/png": 5}}}
    odd_one = sanitize(submission([marked("why", "Because.") | odd]), assignment)
    nbformat.validate(odd_one.notebook)
    assert odd_one.notebook.cells[0].source == "Because."
    assert sanitize(submission([own("else")]), assignment).notebook.cells[0].source == "Your answer"


def test_ids_are_ours() -> None:
    cells = arrange(COMPLETE)
    cells[1:1] = [own("one"), own("two")]
    result = run_small([cell | {"id": "same" if n else "own-1"} for n, cell in enumerate(cells)])
    assert [cell.id for cell in result.notebook.cells] == [
        "needed-1", "own-1", "own-2", "a", "test-a", "b", "test-b",
    ]  # fmt: skip


def test_a_name_that_is_no_id_or_an_own_cells_id_makes_no_trouble() -> None:
    names = ("own-1", "x" * 100)
    cells = tuple(course_cell(name, "text", locked=True) for name in names)
    assignment = Assignment("02-odd", "odd", {}, cells)
    notebook = sanitize(submission([own("mine")]), assignment).notebook
    nbformat.validate(notebook)
    assert len({cell.id for cell in notebook.cells}) == 3


# Demos


@pytest.mark.parametrize(
    ("text", "is_skipped"),
    [
        ("demo()", True),
        ("demo()  \n\n", True),
        ("demo()\r\n", True),
        ("demo(1)", False),
        (" demo()", False),
    ],
)
def test_a_demo_is_marked_until_it_is_edited(text: str, is_skipped: bool) -> None:
    cells = [*arrange(COMPLETE), own(text, **{SKIP: not is_skipped})]
    last = run_small(cells).notebook.cells[-1]
    assert last.source == text
    assert (last.metadata.get(SKIP) is True) == is_skipped


def test_what_is_written_into_an_exercise_is_no_demo() -> None:
    cells = arrange(COMPLETE)
    cells[1]["source"] = "demo()"
    cells.append(own("demo()", "markdown"))
    assert not any(SKIP in cell.metadata for cell in run_small(cells).notebook.cells)


# What it is and what it is not


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"\xff\xfe{}", submission([]), b'{"cells": 1}']
)
def test_what_is_no_sound_notebook_is_refused(content: bytes) -> None:
    with pytest.raises(MalformedError):
        sanitize(content, SMALL)


def test_the_caps_are_those_given() -> None:
    with pytest.raises(MalformedError):
        sanitize(submission(arrange(COMPLETE)), SMALL, Caps(cells=3))


def test_it_does_not_need_nbgrader() -> None:
    """It runs in every worker, and importing nbgrader would take longer than the work."""
    code = (
        "import sys, helpers.grading.judge.sanitize; "
        "print(*sorted({'nbgrader', 'nbconvert', 'sqlalchemy'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.strip() == ""


def test_the_source_itself_is_a_submission(chapter: Registered) -> None:
    """An instructor tries the grader on it: its solutions are answers like any other."""
    result = sanitize(to_bytes(source(CHAPTER)), chapter.assignment)
    assert result.missing == ()
    solution = find_cell(result.notebook, exercises_of(CHAPTER)[0].name)
    assert "BEGIN SOLUTION" in solution.source
