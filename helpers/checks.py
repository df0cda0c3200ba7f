"""Checks: what a test cell is made of.

A check tries one property after another on the student's code and reports each: what was fed
in, what came back, what was expected. It touches that code by calling it with plain data, or by
handing it to a probe, and judges the plain data that comes back::

    check = Check("softmax")
    with check.property("agrees with its definition"):
        logits = check.draw.normal(3, 5)
        got = check.call(softmax, logits, dim=1)
        check.close(got, expected)
    check.score()

The first property is the definition itself: while it fails, nothing else is tried or counted.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

from helpers import progress_store, report
from helpers.catalogue import find_exercise
from helpers.comparison import find_difference
from helpers.drawing import Draw
from helpers.guard import CallTimeoutError, guarded_call
from helpers.plain import NotPlainError, describe, one_line, plain_copy

SECONDS_PER_CALL = 10.0


class _PropertyFailedError(Exception):
    """Ends a property's block; its message goes into the report."""


class _NotTriedError(Exception):
    """Ends a property's block where an earlier failure makes it pointless."""


class Check:
    """The check of one exercise: a list of properties, and a score."""

    def __init__(self, exercise: str, *, seed: int | None = None) -> None:
        """Start a check of ``exercise``, with inputs drawn afresh unless ``seed`` is given.

        Raises:
            KeyError: if the course has no such exercise.
        """
        self.exercise = find_exercise(exercise)
        self.draw = Draw(seed)
        self._results: list[report.Result] = []
        self._current: report.Result | None = None

    @contextlib.contextmanager
    def property(self, claim: str, weight: float = 1.0) -> Iterator[None]:
        """Try one property: ``claim`` is what the student reads, ``weight`` its share.

        The block ends at its first failure; what follows it goes on.
        """
        result = report.Result(claim, weight)
        self._current = result
        try:
            yield
            result.outcome = "passed"
        except _NotTriedError:
            pass
        except _PropertyFailedError as failure:
            result.fail(str(failure))
        except CallTimeoutError:
            result.fail(f"did not return within {SECONDS_PER_CALL:.0f} seconds")
        except NameError as error:
            result.fail(_explain_missing_name(error))
        except Exception as error:
            result.fail(f"what came back could not be used: {_tell(error)}")
        finally:
            if self._is_blocked():
                result.outcome = "not tried"
            self._results.append(result)
            self._current = None

    def call(self, function: Callable, *args: Any, **kwargs: Any) -> Any:
        """Call the student's ``function``, or a probe with it, and return a plain copy.

        The function gets copies of the arguments. Its output is caught, its warnings are kept
        for the report, and it is stopped after ``SECONDS_PER_CALL``.
        """
        result = self._inside_property()
        if self._is_blocked():
            raise _NotTriedError
        result.fed = _describe_arguments(function, args, kwargs)
        result.calls += 1
        result.came_back = ""
        arguments = [_copy_argument(value) for value in args]
        keywords = {name: _copy_argument(value) for name, value in kwargs.items()}
        with guarded_call(SECONDS_PER_CALL) as noise:
            outcome = _outcome_of(function, arguments, keywords)
        result.printed += noise.printed
        result.warned += noise.warned
        if isinstance(outcome, _Raised):
            result.not_written = outcome.is_stub
            raise _PropertyFailedError(outcome.message)
        result.came_back = describe(outcome)
        return outcome

    def close(
        self,
        got: Any,
        expected: Any,
        *,
        rtol: float | None = None,
        atol: float | None = None,
        what: str = "",
    ) -> None:
        """Require that ``got`` is ``expected``: type, shape, dtype and finiteness exactly, values
        within ``atol + rtol * |expected|``.

        The defaults are a few roundings of ``expected``'s dtype. ``what`` names what is compared
        where it is not the whole of what came back.
        """
        result = self._inside_property()
        difference = find_difference(got, expected, rtol=rtol, atol=atol)
        if difference is None:
            return
        result.came_back = describe(got)
        result.expected = describe(expected)
        raise _PropertyFailedError(f"{what}: {difference}" if what else difference)

    def equal(self, got: Any, expected: Any, *, what: str = "") -> None:
        """Require that ``got`` is ``expected`` to the last bit."""
        self.close(got, expected, rtol=0.0, atol=0.0, what=what)

    def true(self, condition: bool, otherwise: str) -> None:
        """Require ``condition``; ``otherwise`` tells the student what was seen instead."""
        self._inside_property()
        if condition is not True:
            raise _PropertyFailedError(otherwise)

    def score(self) -> float:
        """Show the report and return the points, as nbgrader's partial credit wants them."""
        total = sum(result.weight for result in self._results)
        passed = sum(result.weight for result in self._results if result.outcome == "passed")
        share = passed / total if total else 0.0
        points = round(float(self.exercise.points) * share, 2)
        report.show(self.exercise, self._results, points)
        progress_store.record(self.exercise, points)
        return points

    def _inside_property(self) -> report.Result:
        if self._current is None:
            raise RuntimeError(
                f'check "{self.exercise.name}": call and compare inside "with check.property(...):"'
            )
        return self._current

    def _is_blocked(self) -> bool:
        return bool(self._results) and self._results[0].outcome != "passed"


class _Raised:
    """An exception that the student's function raised, told in one line."""

    def __init__(self, error: BaseException) -> None:
        self.is_stub = isinstance(error, NotImplementedError)
        self.message = f"raised {_tell(error)}"


def _outcome_of(function: Callable, args: list, kwargs: dict) -> Any:
    # All that can fail because of the student's code stays inside the guard, the copying of
    # what came back included. Whatever is raised costs this exercise alone, exit() included;
    # only a person's own interrupt and the time limit go on.
    try:
        return plain_copy(function(*args, **kwargs))
    except (KeyboardInterrupt, CallTimeoutError):
        raise
    except BaseException as error:
        return _Raised(error)


def _tell(error: BaseException) -> str:
    try:
        message = str(error)
    except Exception:
        message = "(its message cannot be shown)"
    if isinstance(error, NotPlainError):
        return one_line(f"TypeError: {message}")
    return one_line(f"{type(error).__name__}: {message}".rstrip(": "))


def _copy_argument(value: Any) -> Any:
    return value if callable(value) else plain_copy(value)


def _describe_arguments(function: Callable, args: tuple, kwargs: dict) -> list[tuple[str, str]]:
    given = list(args)
    if given and callable(given[0]):  # a probe gets the student's function first
        function, given = given[0], given[1:]
    names = _parameter_names(function, len(given))
    described = [(name, describe(value)) for name, value in zip(names, given, strict=True)]
    return described + [(name, describe(value)) for name, value in kwargs.items()]


def _parameter_names(function: Callable, count: int) -> list[str]:
    try:
        names = list(inspect.signature(function).parameters)[:count]
    except (TypeError, ValueError):
        names = []
    return names + [f"argument {i + 1}" for i in range(len(names), count)]


def _explain_missing_name(error: NameError) -> str:
    name = error.name or "a name"
    return f"{name} is not defined: run the cell that defines it, then this one again"
