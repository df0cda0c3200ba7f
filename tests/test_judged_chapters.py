"""Every chapter under the judge: a solution gets what its own test gives in a student's kernel."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import zip_longest

import pytest
import repeats
from classroom import exercises_of, solved, to_bytes, without_demos
from course_files import COURSE, EXERCISES, Variant, find_cell, release, variants
from known_points import KnownPoints

from helpers.calling import SECONDS_PER_CALL
from helpers.grading.assignment import Assignment
from helpers.grading.judge.judge import close_warm_processes, judge_submission
from helpers.grading.judge.session import Session
from helpers.grading.judge.warm import Kernel
from helpers.grading.records.registration import register
from helpers.grading.settings import Settings
from helpers.grading.verdicts import ExerciseResult, Verdict

pytestmark = [pytest.mark.needs_system("bubblewrap"), pytest.mark.timeout(300)]

LUCKLESS_TRIES = 3

Register = Callable[[str], Assignment]


CHAPTERS = sorted({exercise.chapter for exercise in EXERCISES})


def rounds(chapter: str, *, only_right: bool = False) -> list[list[Variant]]:
    """Return all solutions of a chapter but the references, one for each exercise at a time."""
    solutions = (
        [variant for variant in variants(exercise) if variant.right or not only_right]
        for exercise in exercises_of(chapter)
    )
    return [[v for v in together if v] for together in zip_longest(*solutions)]


CASES = [
    pytest.param(chapter, together, id=f"{chapter}-{number}")
    for chapter in CHAPTERS
    for number, together in enumerate(rounds(chapter), start=1)
]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make the cases of right solutions: the references, and what is written differently where
    verdicts that hang on luck are hunted for.
    """
    if metafunc.function is not test_right_solutions_have_all_points:
        return
    times = metafunc.config.getoption("repeats")
    cases = [
        pytest.param(chapter, together, id=f"{chapter}-{name}-{repeat}")
        for repeat in range(1, times + 1)
        for chapter in CHAPTERS
        for name, together in [
            ("references", []),
            *((f"others{n}", r) for n, r in enumerate(rounds(chapter, only_right=True), start=1)),
        ]
        if times > 1 or not together
    ]
    metafunc.parametrize(("chapter", "together"), cases)


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


def test_right_solutions_have_all_points(
    chapter: str,
    together: list[Variant],
    registered: Register,
    request: pytest.FixtureRequest,
) -> None:
    results = judge(registered(chapter), together)
    told = []
    for name, result in results.items():
        is_full = result.points == result.most and result.verdict is Verdict.PASSED
        repeats.note(request, f"{chapter}/{name}", is_full=is_full)
        if not is_full or result.for_a_person:
            told.append((name, result.points, result.message, result.for_a_person))
    assert told == []


@pytest.mark.parametrize(("chapter", "together"), CASES)
def test_every_solution_gets_what_its_own_test_gives(
    chapter: str, together: list[Variant], registered: Register, known_points: KnownPoints
) -> None:
    given = {variant.exercise: variant for variant in together}
    # Where an exercise has no solution left for this round, it stays a stub: that is fast.
    idle = [e.name for e in exercises_of(chapter) if e.name not in given]
    results = judge(registered(chapter), together, stubs=idle)
    for exercise in exercises_of(chapter):
        if exercise.name in idle:
            assert results[exercise.name].points == 0.0
            continue
        variant = given[exercise.name]
        right = variant.right
        expected = exercise.points if right else known_points.of(exercise, variant.code)
        result = results[exercise.name]
        # It may stand on another exercise's wrong solution, or stub. And parts of a wrong solution
        # may be right by luck, once in a long time (`test_exercises` counts how often).
        for _ in range(1 if right else LUCKLESS_TRIES):
            if result.points == expected:
                break
            alone = judge(registered(chapter), [variant])
            result = alone[exercise.name]
        assert result.points == expected, (variant, result.message)
        assert result.waiting == 0.0, (variant, result.for_a_person)
        # What a wrong solution reaches for may be told, where nothing hangs on it.
        assert result.for_a_person == "" or not right, variant
        assert (result.verdict is Verdict.PASSED) is right, (variant, result.verdict)


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_references_need_at_most_a_third_of_a_limit(
    chapter: str, registered: Register, monkeypatch: pytest.MonkeyPatch
) -> None:
    took = Counter[str]()
    longest = {"run": 0.0, "call": 0.0, "begin": 0.0}
    exercise = ""

    def begin(session: Session) -> None:
        nonlocal exercise
        exercise = f"exercise {len(took)}"
        begin_exercise(session)

    def request(kernel: Kernel, message: dict, *others: object) -> dict:
        before = kernel._warm.measure_computing()
        answer = send(kernel, message, *others)
        seconds = kernel._warm.measure_computing() - before
        took[exercise] += seconds
        longest[message["do"]] = max(longest[message["do"]], seconds)
        return answer

    begin_exercise, send = Session.begin_exercise, Kernel.request
    monkeypatch.setattr(Session, "begin_exercise", begin)
    monkeypatch.setattr(Kernel, "request", request)
    results = judge(registered(chapter), [])
    assert all(result.verdict is Verdict.PASSED for result in results.values())
    limits = Settings()
    assert longest["call"] <= SECONDS_PER_CALL / 3
    assert longest["run"] <= limits.cell_seconds / 3
    assert max(took.values()) <= limits.exercise_seconds / 3, took
    assert took.total() <= limits.total_seconds / 3


def judge(
    assignment: Assignment, replaced: list[Variant], stubs: Sequence[str] = ()
) -> dict[str, ExerciseResult]:
    blank = {name: find_cell(release(assignment.name), name).source for name in stubs}
    codes = blank | {variant.exercise: variant.code for variant in replaced}
    notebook = without_demos(solved(assignment.name, codes))
    judged = judge_submission(to_bytes(notebook), assignment, Settings())
    return {result.name: result for result in judged.exercises}
