"""Every chapter under the judge: a solution gets what its own test gives in a student's kernel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
import repeats
from classroom import exercises_of, solved, stood_on, stubs, to_bytes, without_demos
from course_files import (
    EXERCISES,
    Variant,
    run_exercise,
    variants,
)
from known_points import MORE_DRAWS, KnownPoints, hang_on_luck
from registered_chapters import Register

from helpers.calling import SECONDS_PER_CALL
from helpers.catalogue import Exercise
from helpers.grading.assignment import Assignment
from helpers.grading.judge.judge import judge_submission
from helpers.grading.judge.session import Session
from helpers.grading.judge.warm import Kernel
from helpers.grading.settings import Settings
from helpers.grading.verdicts import ExerciseResult, Verdict

pytestmark = pytest.mark.needs_system("bubblewrap")

# A check is the same under the judge as in a student's kernel, where every solution is tried. All
# that are right are judged, and of an exercise's wrong ones the first and each fourth after it:
# they tell whether it comes to the same. `--all-judged` judges the others, too.
ONE_WRONG_IN = 4
LUCKLESS_TRIES = 3
BY_NAME = {exercise.name: exercise for exercise in EXERCISES}
# What else a machine does makes the same work longer, CPU time included.
SLOW_TRIES = 3


def rounds(chapter: str, *, one_wrong_in: int | None) -> list[list[Variant]]:
    """Return a chapter's right solutions but the references, and so many of its wrong ones (None:
    no wrong ones), one for each exercise at a time.

    None stands on another's wrong solution: that would have to be judged once more without it.
    """
    waiting = {}
    for exercise in exercises_of(chapter):
        wrong = [v for v in variants(exercise) if not v.right]
        asked = wrong[::one_wrong_in] if one_wrong_in else []
        waiting[exercise] = [v for v in variants(exercise) if v.right or v in asked]
    found = []
    while any(waiting.values()):
        together: list[Variant] = []
        # An exercise stands on earlier ones.
        for exercise, queue in reversed(waiting.items()):
            needed = set().union(*(stood_on_by(variant) for variant in together))
            fitting = (v for v in queue if v.right or exercise.name not in needed)
            if variant := next(fitting, None):
                queue.remove(variant)
                together.insert(0, variant)
        found.append(together)
    return found


def left_idle(chapter: str, together: Sequence[Variant]) -> list[str]:
    """Return the exercises that none of the solutions needs: as stubs they are judged fast."""
    needed = {variant.exercise for variant in together}.union(*map(stood_on_by, together))
    return [exercise.name for exercise in exercises_of(chapter) if exercise.name not in needed]


def stood_on_by(variant: Variant) -> set[str]:
    """Return the names of the exercises on which a solution stands; of none, if it is no Python."""
    try:
        return stood_on(BY_NAME[variant.exercise], variant.code)
    except SyntaxError:
        return set()


# The last chapters take longest: they come first, so that no process is left alone with one.
CHAPTERS = sorted({exercise.chapter for exercise in EXERCISES}, reverse=True)


def test_every_solution_gets_what_its_own_test_gives(
    chapter: str, together: list[Variant], registered: Register, known_points: KnownPoints
) -> None:
    given = {variant.exercise: variant for variant in together}
    idle = left_idle(chapter, together)
    with known_points.same_inputs():
        results = judge(registered(chapter), together, blank=idle)
        assert {name: results[name].points for name in idle} == dict.fromkeys(idle, 0.0)
        for exercise in (e for e in exercises_of(chapter) if e.name in given):
            variant = given[exercise.name]
            expected = exercise.points if variant.right else known_points.of(exercise, variant.code)
            result = results[exercise.name]
            # Luck, or what another exercise's solution left behind.
            if result.points != expected:
                result, expected = judge_alone(registered(chapter), exercise, variant, expected)
            check(result, expected, right=variant.right)


def judge_alone(
    assignment: Assignment, exercise: Exercise, variant: Variant, expected: float
) -> tuple[ExerciseResult, float]:
    """Judge one solution without the others; return its result, and the points that it has nearly
    always: others are its own luck, which has to be rare.
    """
    idle = left_idle(exercise.chapter, [variant])
    points = Counter([expected])
    for _ in range(1 if variant.right else LUCKLESS_TRIES):
        result = judge(assignment, [variant], blank=idle)[exercise.name]
        points[result.points] += 1
        if result.points == expected:
            break
    if not variant.right and len(points) > 1:
        points.update(run_exercise(exercise, variant.code).points for _ in range(MORE_DRAWS))
        assert not hang_on_luck(points), (variant, dict(points))
        expected = points.most_common(1)[0][0]
    return result, expected


def check(result: ExerciseResult, expected: float, *, right: bool) -> None:
    assert result.points == expected, (result.name, result.message)
    assert result.waiting == 0.0, (result.name, result.for_a_person)
    # What a wrong solution reaches for may be told, where nothing hangs on it.
    assert result.for_a_person == "" or not right, result.name
    assert (result.verdict is Verdict.PASSED) is right, (result.name, result.verdict)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make the cases: the solutions in rounds; and the references, with what is written differently
    where verdicts that hang on luck are hunted for.
    """
    options = metafunc.config
    if metafunc.function is test_every_solution_gets_what_its_own_test_gives:
        one_wrong_in = 1 if options.getoption("all_judged") else ONE_WRONG_IN
        cases = [
            pytest.param(chapter, together, id=f"{chapter}-{number}")
            for chapter in CHAPTERS
            for number, together in enumerate(rounds(chapter, one_wrong_in=one_wrong_in), 1)
        ]
    elif metafunc.function is test_right_solutions_have_all_points_and_references_have_time:
        cases = cases_of_right_solutions(options.getoption("repeats"))
    else:
        return
    metafunc.parametrize(("chapter", "together"), cases)


def cases_of_right_solutions(times: int) -> list:
    return [
        pytest.param(chapter, together, id=f"{chapter}-{name}-{repeat}")
        for repeat in range(1, times + 1)
        for chapter in CHAPTERS
        for name, together in [
            ("references", []),
            *((f"others{n}", r) for n, r in enumerate(rounds(chapter, one_wrong_in=None), 1)),
        ]
        if times > 1 or not together
    ]


def test_right_solutions_have_all_points_and_references_have_time(
    chapter: str,
    together: list[Variant],
    registered: Register,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    """A reference needs at most a third of each limit."""
    took = Counter[str]()
    longest = {"run": 0.0, "call": 0.0, "begin": 0.0}
    exercise = ""

    def begin(session: Session) -> None:
        nonlocal exercise
        exercise = f"exercise {len(took)}"
        begin_exercise(session)

    def measured(kernel: Kernel, message: dict, *others: object) -> dict:
        before = kernel._warm.measure_computing()
        answer = send(kernel, message, *others)
        seconds = kernel._warm.measure_computing() - before
        took[exercise] += seconds
        longest[message["do"]] = max(longest[message["do"]], seconds)
        return answer

    begin_exercise, send = Session.begin_exercise, Kernel.request
    monkeypatch.setattr(Session, "begin_exercise", begin)
    monkeypatch.setattr(Kernel, "request", measured)
    for _ in range(SLOW_TRIES):
        exercise = ""
        took.clear()
        longest.update(dict.fromkeys(longest, 0.0))
        results = judge(registered(chapter), together)
        for name, result in results.items():
            repeats.note(request, f"{chapter}/{name}", is_full=result.points == result.most)
        for asked in exercises_of(chapter):
            check(results[asked.name], asked.points, right=True)
        if together or has_time(took, longest):
            return
    pytest.fail(f"a reference needs more than a third of a limit: {took}, {longest}")


def has_time(took: Counter[str], longest: dict[str, float]) -> bool:
    limits = Settings()
    return (
        longest["call"] <= SECONDS_PER_CALL / 3
        and longest["run"] <= limits.cell_seconds / 3
        and max(took.values()) <= limits.exercise_seconds / 3
        and took.total() <= limits.total_seconds / 3
    )


def judge(
    assignment: Assignment, replaced: list[Variant], blank: Sequence[str] = ()
) -> dict[str, ExerciseResult]:
    codes = stubs(assignment.name, blank) | {variant.exercise: variant.code for variant in replaced}
    notebook = without_demos(solved(assignment.name, codes))
    judged = judge_submission(to_bytes(notebook), assignment, Settings())
    return {result.name: result for result in judged.exercises}
