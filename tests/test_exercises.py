"""The contract of an exercise, held by every exercise of the course.

A new chapter is held to it as soon as it is built: nothing here names a chapter.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections import Counter

import pytest
from course_files import (
    EXERCISES,
    Outcome,
    Variant,
    find_cell,
    grade_id,
    release,
    run_exercise,
    source,
    variants,
)
from known_points import MORE_DRAWS, KnownPoints, hang_on_luck

import bootstrap
from helpers import calling
from helpers.catalogue import Chapter, Exercise, load_chapters


@pytest.fixture(autouse=True)
def _time_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """No verdict here hangs on how busy the machine is; attacks are tested at the same time."""
    monkeypatch.setattr(calling, "SECONDS_PER_CALL", 60.0)


# Inputs are drawn afresh each time: a verdict that hangs on luck shows when it is asked again.
# `--draws 50` hunts for luck.


@pytest.fixture(scope="session")
def again_and_again(request: pytest.FixtureRequest) -> range:
    """Ask once where the judge asks again in the same run, else twice."""
    files = {item.path.name for item in request.session.items}
    judged = "test_judged_chapters.py" in files and bootstrap.has_package("bubblewrap")
    return range(request.config.getoption("draws") or (1 if judged else 2))


every_exercise = pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.name)


def each_variant(right: bool) -> pytest.MarkDecorator:
    cases = [
        pytest.param(exercise, variant, id=f"{exercise.name}-{number}")
        for exercise in EXERCISES
        for number, variant in enumerate(v for v in variants(exercise) if v.right is right)
    ]
    return pytest.mark.parametrize(("exercise", "variant"), cases)


def test_the_course_has_exercises() -> None:
    assert EXERCISES


@pytest.mark.parametrize("chapter", load_chapters(), ids=lambda chapter: chapter.name)
def test_a_chapters_head_adds_up_what_its_cards_say(chapter: Chapter) -> None:
    texts = [cell.source for cell in source(chapter.name).cells if cell.cell_type == "markdown"]
    head = "".join(itertools.takewhile(lambda text: not text.startswith("## "), texts))
    minutes = sum(exercise.minutes for exercise in chapter.exercises)
    count = ("six", "seven", "eight")[len(chapter.exercises) - 6]
    assert f"{minutes} for the {count} exercises." in head


@every_exercise
def test_the_stub_fails_with_its_own_message(exercise: Exercise) -> None:
    stub = find_cell(release(exercise.chapter), exercise.name).source
    outcome = run_exercise(exercise, stub)
    assert outcome.points == 0.0
    assert exercise.title in outcome.report
    assert "nothing is written here yet" in outcome.report
    assert f'hint("{exercise.name}")' in outcome.report


@every_exercise
def test_the_reference_passes(exercise: Exercise, again_and_again: range) -> None:
    for _ in again_and_again:
        outcome = run_exercise(exercise)
        assert outcome.points == exercise.points, outcome.report


@every_exercise
def test_the_reference_passes_the_students_check(exercise: Exercise) -> None:
    outcome = run_exercise(exercise, hidden=False)
    assert outcome.points == exercise.points, outcome.report
    assert "✗" not in outcome.report
    assert f"{exercise.hidden} more will be tried" in outcome.report


@each_variant(right=True)
def test_every_other_right_solution_passes(
    exercise: Exercise, variant: Variant, again_and_again: range
) -> None:
    for _ in again_and_again:
        outcome = run_exercise(exercise, variant.code)
        assert outcome.points == exercise.points, f"{variant.meaning}\n{outcome.report}"


@each_variant(right=False)
def test_every_wrong_solution_fails_and_is_told_why(
    exercise: Exercise,
    variant: Variant,
    again_and_again: range,
    known_points: KnownPoints,
) -> None:
    points: Counter[float] = Counter()

    def ask() -> Outcome:
        outcome = run_exercise(exercise, variant.code)
        points[outcome.points] += 1
        assert outcome.points < exercise.points, variant.meaning
        assert exercise.title in outcome.report
        failed = re.findall(r"^  ✗ (.+)\n      (?=\S)", outcome.report, re.MULTILINE)
        assert failed, outcome.report
        if not set(failed) <= set(hidden_claims(exercise)):  # of these nothing more is told
            assert re.search(r"^ +fed in +\S", outcome.report, re.MULTILINE), outcome.report
            assert re.search(r"^ +problem +\S", outcome.report, re.MULTILINE), outcome.report
        return outcome

    with known_points.same_inputs():
        known_points.keep(exercise, variant.code, ask())
    for _ in again_and_again[1:]:
        ask()
    if len(points) > 1:
        for _ in range(MORE_DRAWS):
            ask()
    assert not hang_on_luck(points), f"{variant.meaning}: the points hang on luck: {dict(points)}"


@every_exercise
def test_wrong_and_right_solutions_are_there(exercise: Exercise) -> None:
    found = variants(exercise)
    assert sum(not variant.right for variant in found) >= 3
    assert sum(variant.right for variant in found) >= 1
    assert all(len(variant.meaning) >= 15 for variant in found), "each says what it stands for"
    assert len({variant.code for variant in found}) == len(found)


@every_exercise
def test_hints_come_in_three_stages_and_are_not_the_solution(exercise: Exercise) -> None:
    assert len(exercise.hints) == 3
    assert len(set(exercise.hints)) == 3
    lines = solution_lines(exercise)
    for hint in exercise.hints:
        assert len(hint) >= 20
        assert not [line for line in lines if line in hint]


@every_exercise
def test_points_are_the_same_everywhere(exercise: Exercise) -> None:
    for notebook in (source(exercise.chapter), release(exercise.chapter)):
        cell = find_cell(notebook, f"test-{exercise.name}")
        assert cell.metadata.nbgrader.points == exercise.points
        (card,) = (
            cell
            for cell in notebook.cells
            if cell.metadata.get("bits", {}).get("exercise") == exercise.name
        )
        assert f"*{exercise.points:g} points · {exercise.minutes} minutes" in card.source
        assert f"Exercise {exercise.number} · {exercise.title}" in card.source


@every_exercise
def test_the_release_holds_neither_solution_nor_hidden_test(exercise: Exercise) -> None:
    notebook = release(exercise.chapter)
    text = "\n".join(cell.source for cell in notebook.cells)
    assert "BEGIN SOLUTION" not in text
    assert "HIDDEN TESTS" not in text
    stub = find_cell(notebook, exercise.name).source
    assert not [line for line in solution_lines(exercise) if line in stub]
    check = find_cell(notebook, f"test-{exercise.name}").source
    assert not [claim for claim in hidden_claims(exercise) if claim in text]
    assert re.search(r"^# .*[Hh]idden tests", check, re.MULTILINE), "a visible comment stays"
    assert all(not cell.get("outputs") for cell in notebook.cells)


@every_exercise
def test_each_property_says_something_else(exercise: Exercise) -> None:
    claims = property_claims(find_cell(source(exercise.chapter), f"test-{exercise.name}").source)
    assert len(claims) == exercise.visible + exercise.hidden
    assert len(set(claims)) == len(claims)
    assert exercise.visible >= 2
    assert exercise.hidden >= 1


@every_exercise
def test_a_test_touches_the_students_code_through_calls_alone(exercise: Exercise) -> None:
    """The law of test cells: a student's name stands nowhere but as an argument of check.call."""
    notebook = source(exercise.chapter)
    solution = ast.parse(find_cell(notebook, exercise.name).source)
    names = {node.name for node in solution.body if hasattr(node, "name")}
    assert names
    tree = ast.parse(find_cell(notebook, f"test-{exercise.name}").source)
    handed_over = {
        id(argument)
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "check.call"
        for argument in call.args
    }
    used = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id in names]
    assert used, "the test never calls the student's code"
    assert all(id(node) in handed_over for node in used)


def solution_lines(exercise: Exercise) -> list[str]:
    """Return the reference's own lines, those long enough to be told from ordinary code."""
    code = find_cell(source(exercise.chapter), exercise.name).source
    region = re.findall(r"### BEGIN SOLUTION\n(.*?)### END SOLUTION", code, re.DOTALL)
    lines = (line.strip() for part in region for line in part.splitlines())
    return [line for line in lines if len(line) >= 15]


def hidden_claims(exercise: Exercise) -> list[str]:
    code = find_cell(source(exercise.chapter), f"test-{exercise.name}").source
    hidden = re.findall(r"### BEGIN HIDDEN TESTS\n(.*?)### END HIDDEN TESTS", code, re.DOTALL)
    return [claim for part in hidden for claim in property_claims(part)]


def property_claims(code: str) -> list[str]:
    return [
        ast.literal_eval(call.args[0])
        for call in ast.walk(ast.parse(code))
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "check.property"
    ]


def test_every_graded_cell_belongs_to_an_exercise() -> None:
    for chapter in {exercise.chapter for exercise in EXERCISES}:
        graded = {
            grade_id(cell)
            for cell in source(chapter).cells
            if cell.metadata.get("nbgrader", {}).get("grade")
        }
        assert graded == {f"test-{e.name}" for e in EXERCISES if e.chapter == chapter}
