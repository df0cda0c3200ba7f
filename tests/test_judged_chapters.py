"""Every chapter under the judge: a solution gets what its own test gives in a student's kernel."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import zip_longest

import pytest
from classroom import exercises_of, solved, to_bytes, without_demos
from course_files import COURSE, EXERCISES, Variant, find_cell, release, variants
from known_points import KnownPoints

from helpers.grading.assignment import Assignment
from helpers.grading.judge.judge import close_warm_processes, judge_submission
from helpers.grading.records.registration import register
from helpers.grading.settings import Settings
from helpers.grading.verdicts import ExerciseResult, Verdict

pytestmark = [pytest.mark.needs_system("bubblewrap"), pytest.mark.timeout(300)]

LUCKLESS_TRIES = 3

Register = Callable[[str], Assignment]


def rounds(chapter: str) -> list[list[Variant]]:
    """Return all solutions of a chapter, one for each exercise at a time, the references first."""
    found = zip_longest(*(variants(exercise) for exercise in exercises_of(chapter)))
    return [[], *([variant for variant in together if variant] for together in found)]


CASES = [
    pytest.param(chapter, together, id=f"{chapter}-{number}")
    for chapter in sorted({exercise.chapter for exercise in EXERCISES})
    for number, together in enumerate(rounds(chapter))
]


@pytest.fixture(scope="module")
def registered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Register]:
    @cache
    def register_chapter(chapter: str) -> Assignment:
        course = tmp_path_factory.mktemp("course")
        shutil.copytree(COURSE.source(chapter).parent, course / "source" / chapter)
        shutil.copy(COURSE.config_file, course)
        return register(course, chapter)

    yield register_chapter
    close_warm_processes()


@pytest.mark.parametrize(("chapter", "together"), CASES)
def test_every_solution_gets_what_its_own_test_gives(
    chapter: str, together: list[Variant], registered: Register, known_points: KnownPoints
) -> None:
    given = {variant.exercise: variant for variant in together}
    # Where an exercise has no solution left for this round, it stays a stub: that is fast.
    idle = [e.name for e in exercises_of(chapter) if together and e.name not in given]
    results = judge(registered(chapter), together, stubs=idle)
    for exercise in exercises_of(chapter):
        if exercise.name in idle:
            assert results[exercise.name].points == 0.0
            continue
        variant = given.get(exercise.name)
        right = variant is None or variant.right
        expected = exercise.points if right else known_points.of(exercise, variant.code)
        result = results[exercise.name]
        # It may stand on another exercise's wrong solution, or stub. And parts of a wrong solution
        # may be right by luck, once in a long time (`test_exercises` counts how often).
        for _ in range(1 if right else LUCKLESS_TRIES):
            if result.points == expected:
                break
            alone = judge(registered(chapter), [variant] if variant else [])
            result = alone[exercise.name]
        assert result.points == expected, (variant, result.message)
        assert result.waiting == 0.0, (variant, result.for_a_person)
        # What a wrong solution reaches for may be told, where nothing hangs on it.
        assert result.for_a_person == "" or not right, variant
        assert (result.verdict is Verdict.PASSED) is right, (variant, result.verdict)


def judge(
    assignment: Assignment, replaced: list[Variant], stubs: Sequence[str] = ()
) -> dict[str, ExerciseResult]:
    blank = {name: find_cell(release(assignment.name), name).source for name in stubs}
    codes = blank | {variant.exercise: variant.code for variant in replaced}
    notebook = without_demos(solved(assignment.name, codes))
    judged = judge_submission(to_bytes(notebook), assignment, Settings())
    return {result.name: result for result in judged.exercises}
