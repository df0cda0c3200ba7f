"""A student's helper keeps its meaning, whatever the test cell calls its own functions."""

from __future__ import annotations

import pytest
from course_files import EXERCISES, define, find_cell, release, run_cell, run_exercise, source

from helpers.shared_names import SharedNames

ANSWER = """
def losses_of(model, batches):
    with torch.no_grad():
        for x, y in batches:
            yield functional.mse_loss(model(x), y).item()


drawn = is_mean = 0


def mean_loss(model, batches):
    losses = list(losses_of(model, batches))
    return math.fsum(losses) / len(losses) if losses else float(drawn + is_mean)
"""


def test_names_change_hands_with_the_code_that_runs() -> None:
    names = {"shared": "student's", "other": 1}
    shared = SharedNames(names)
    names |= {"shared": "test's", "new": 2}
    with shared.as_students():
        assert names == {"shared": "student's", "other": 1, "new": 2}
        with shared.as_tests():  # a lent function
            assert names["shared"] == "test's"
            with shared.as_students():  # which calls the student's code again
                assert names["shared"] == "student's"
            assert names["shared"] == "test's"
        assert names["shared"] == "student's"
    assert names["shared"] == "test's"
    shared.give_back()
    assert names == {"shared": "student's", "other": 1, "new": 2}


def test_what_a_students_code_binds_while_it_runs_is_kept_for_it() -> None:
    names = {"count": 0}
    shared = SharedNames(names)
    names["count"] = "test's"

    def count_and_fail() -> None:
        with shared.as_students():
            names["count"] += 1
            raise RuntimeError

    for expected in (1, 2):
        with pytest.raises(RuntimeError):
            count_and_fail()
        assert names["count"] == "test's"
        with shared.as_students():
            assert names["count"] == expected
    shared.give_back()
    assert names["count"] == 2


def test_what_a_students_code_binds_stays_where_the_test_has_no_such_name() -> None:
    names = {"calls": 0}
    shared = SharedNames(names)
    for expected in (1, 2):
        with shared.as_students():
            names["calls"] += 1
        assert names["calls"] == expected
    shared.give_back()
    assert names["calls"] == 2


def test_a_helper_may_have_the_name_of_one_of_the_checks_functions() -> None:
    (exercise,) = (e for e in EXERCISES if e.name == "bug-hunt-growing")
    test = find_cell(source(exercise.chapter), f"test-{exercise.name}").source
    for name in ("losses_of", "drawn", "is_mean"):
        assert name in test, "the answer below shall have names that the check has as well"
    outcome = run_exercise(exercise, ANSWER)
    assert outcome.points == exercise.points, outcome.report


def test_a_check_leaves_the_names_as_they_were_and_can_be_run_again() -> None:
    (exercise,) = (e for e in EXERCISES if e.name == "bug-hunt-growing")
    check = find_cell(release(exercise.chapter), f"test-{exercise.name}").source
    names = define(
        exercise.chapter, before=f"test-{exercise.name}", replaced={exercise.name: ANSWER}
    )
    helper = names["losses_of"]
    for _ in range(2):
        assert run_cell(check, names) == exercise.points
        assert names["losses_of"] is helper
        assert names["drawn"] == 0
