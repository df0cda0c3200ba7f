"""The case that a check failed at, had again: for every exercise of the course, and in detail."""

from __future__ import annotations

import contextlib
import io
import linecache

import pytest
from course_files import EXERCISES, cells_before, define, find_cell, release, run_cell, variants

from helpers import calling, failing
from helpers.catalogue import Exercise
from helpers.reading.cells import Cell
from helpers.reading.history import reading


@pytest.fixture(autouse=True)
def _time_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calling, "SECONDS_PER_CALL", 60.0)


def check(code: str, name: str, namespace: dict) -> str:
    """Run a test cell as a kernel does, where its text can be looked up; return the report."""
    file = f"<check of {name}>"
    linecache.cache[file] = (len(code), None, code.splitlines(keepends=True), file)
    written = io.StringIO()
    with contextlib.redirect_stdout(written):
        exec(compile(code, file, "exec"), namespace)
    return written.getvalue()


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.name)
def test_the_first_wrong_solutions_case_fails_again_and_holds_with_the_reference(
    exercise: Exercise,
) -> None:
    wrong = next(v for v in variants(exercise) if not v.right).code
    test = f"test-{exercise.name}"
    namespace = define(exercise.chapter, before=test, replaced={exercise.name: wrong})
    code = find_cell(release(exercise.chapter), test).source
    report = check(code, exercise.name, namespace)
    assert f'failing("{exercise.name}")' in report, report

    case = failing(exercise.name)
    assert case.problem in report
    before = repr(case)
    cells = list(cells_before(exercise.chapter, test, {exercise.name: wrong}))
    with contextlib.redirect_stdout(io.StringIO()), reading([Cell(c, "cell") for c in cells]):
        again = case.check()
        assert not again
        assert repr(again) == f"✗ {case.problem}"
        with contextlib.suppress(Exception):
            case.run()
    assert repr(case) == before

    for cell in cells_before(exercise.chapter, test, {}):
        run_cell(cell, namespace)
    with reading([Cell(c, "cell") for c in cells_before(exercise.chapter, test, {})]):
        assert case.check(), case.check()
    case.run()
