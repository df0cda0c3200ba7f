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
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from helpers import progress_store, report, start_page
from helpers.apart import entries_at
from helpers.calling import Answer, describe_error
from helpers.catalogue import Exercise, find_chapter, find_exercise
from helpers.comparison import compare
from helpers.drawing import Draw
from helpers.errors import CallNotMadeError
from helpers.lending import Lent, Stream, is_lent
from helpers.plain import describe, kind_of, plain_copy
from helpers.points import Points
from helpers.process_state import course_defaults
from helpers.random_numbers import globals_kept, seed_globals
from helpers.shared_names import SharedNames
from helpers.students_process import OwnProcess, StudentsProcess
from helpers.tape import Call, NoTape, Recording, Tape


class _PropertyFailedError(Exception):
    """Ends a property's block; its message goes into the report.

    ``told`` is what a student may read of it where the message is withheld.
    """

    def __init__(self, message: str, told: str = "") -> None:
        super().__init__(message)
        self.told = told


class _NotTriedError(Exception):
    """Ends a property's block where an earlier failure makes it pointless."""


def _is_probe(function: Callable) -> bool:
    """Return whether ``function`` runs beside the student's code, which could have changed it."""
    module = getattr(function, "__module__", None)
    return isinstance(module, str) and module.startswith("helpers.probes")


class Check:
    """The check of one exercise: a list of properties, and a score."""

    def __init__(
        self,
        exercise: str,
        *,
        seed: int | None = None,
        process: StudentsProcess | None = None,
        publish: Callable[[Exercise, list[report.Result], float], None] | None = None,
        tries_hidden: bool = True,
        tape: Tape | None = None,
    ) -> None:
        """Start a check of ``exercise``, with inputs drawn afresh unless ``seed`` is given.

        Args:
            exercise: its name in the course.
            seed: of the inputs.
            process: where the student's code is; in this process if None.
            publish: what is done with the report; it is shown and recorded if there is nothing.
            tries_hidden: whether the properties of the hidden tests are tried.
            tape: what is kept of the properties; if None, what ``failing`` needs where the
                student's code is in this process, and else nothing.

        Raises:
            KeyError: if the course has no such exercise.
        """
        self.exercise = find_exercise(exercise)
        self.draw = Draw(seed)
        self._process = process or OwnProcess(self.exercise)
        self._publish = publish
        self._tries_hidden = tries_hidden
        self._results: list[report.Result] = []
        self._current: report.Result | None = None
        self._last_call: Call | None = None
        self._compared: tuple[Any, Any] | None = None
        # The shape of what came back, and the index at which it differs from what was expected.
        self._place: tuple[tuple[int, ...], tuple[int, ...]] | None = None
        here, cell = process is None, sys._getframe(1)
        self._names = SharedNames(cell.f_globals if here else {})
        if tape is None:
            tape = Recording(self.exercise, self.draw, cell) if here else NoTape()
        self._tape = tape

    @property
    def results(self) -> tuple[report.Result, ...]:
        """What the properties that were tried so far have come to."""
        return tuple(self._results)

    @contextlib.contextmanager
    def property(self, claim: str, weight: float = 1.0) -> Iterator[None]:
        """Try one property: ``claim`` is what the student reads, ``weight`` its share.

        The block ends at its first failure; what follows it goes on.
        """
        result = report.Result(claim, weight, withheld=self._is_hidden())
        self._current = result
        try:
            with (
                course_defaults(),
                globals_kept(),
                self._tape.running(len(self._results), self.draw),
            ):
                yield
            result.outcome = "passed"
            if result.rests_on_code:
                self._wait_if_doubtful(result)
        except _NotTriedError:
            pass
        except CallNotMadeError:
            raise
        except _PropertyFailedError as failure:
            result.fail(str(failure), failure.told)
        except NameError as error:
            result.fail(_explain_missing_name(error), "a name is not defined")
        except Exception as error:
            told = "what came back could not be used"
            result.fail(f"{told}: {describe_error(error)}", told)
        finally:
            if self._is_blocked():
                result.outcome = "not tried"
            if result.outcome in ("failed", "waiting") and self._last_call is not None:
                _tell_of(self._last_call, result, self._place)
            if result.outcome == "failed" and not result.withheld:
                is_kept = self._tape.keep(result.claim, result.reason, self._compared)
                if is_kept and not result.not_written:
                    result.again = f'failing("{self.exercise.name}")'
            self._results.append(result)
            self._current = self._last_call = self._compared = self._place = None

    def call(self, function: Callable, *args: Any, **kwargs: Any) -> Any:
        """Call the student's ``function``, or a probe with it, and return a plain copy.

        The function gets copies of the arguments. Its output is caught, its warnings are kept
        for the report, and it is stopped after ``calling.SECONDS_PER_CALL``.
        """
        result = self._inside_property()
        if self._is_blocked():
            raise _NotTriedError
        result.calls += 1
        result.right = []
        result.rests_on_code |= _is_probe(function)
        made = self._last_call = Call(function, *_copy_arguments(args, kwargs))
        self._tape.take(made)
        with self._names.as_students():
            answer = self._process.call(function, *_copy_arguments(args, kwargs))
        result.printed += answer.printed
        result.warned += answer.warned
        if answer.problem:
            other = _unwritten_other(self.exercise, answer) if answer.is_stub else ""
            result.not_written = answer.is_stub and not other
            result.frames = answer.frames
            raise _PropertyFailedError(other or answer.problem, answer.describe_kind())
        made.has_returned, made.value = True, answer.value
        return answer.value

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
        found = compare(got, expected, rtol=rtol, atol=atol)
        if found is None:
            result.right += [what] if what and what not in result.right else []
            return
        self._compared = got, expected
        self._place = (got.shape, found.index) if found.index else None
        result.show_difference(got, expected, found)
        differs = "kind" if kind_of(got) != kind_of(expected) else "value"
        told = f"what came back is of another {differs} than expected"
        raise _PropertyFailedError(f"{what}: {found.sentence}" if what else found.sentence, told)

    def equal(self, got: Any, expected: Any, *, what: str = "") -> None:
        """Require that ``got`` is ``expected`` to the last bit."""
        self.close(got, expected, rtol=0.0, atol=0.0, what=what)

    def true(self, condition: bool, otherwise: str) -> None:
        """Require ``condition``; ``otherwise`` says to the student what was seen instead."""
        self._inside_property()
        if condition is not True:
            raise _PropertyFailedError(otherwise)

    def lend(self, function: Callable) -> Lent:
        """Return what a call hands over in place of ``function``, which stays here: it gets plain
        data from the student's code, and returns plain data.
        """
        return Lent(function, self._names.as_tests)

    def stream(self, items: Iterable) -> Stream:
        """Return what a call hands over in place of an iterator over ``items``, which stays here:
        its attribute ``read`` says how many the student's code has taken.
        """
        return Stream(items, self._names.as_tests)

    def restart(self) -> None:
        """Have all further calls made in a new process of the student's code.

        It knows what the notebook's cells define, and nothing of earlier calls. In the student's
        own kernel there is no other process: there the global generators are seeded afresh.
        """
        self._inside_property()
        if not self._is_blocked():
            self._process.restart()

    def written_without(self, *patterns: str, loops: bool = False, any_text: bool = True) -> None:
        """Require that the student's code for this exercise names nothing that fits ``patterns``.

        What is read is the exercise's cell and what that uses. Tried by reading, nothing is run.

        Args:
            *patterns: of names, like "*softmax*", whether as attribute, import or text.
            loops: whether loops are not allowed either.
            any_text: whether a text counts even where nothing can find by it what has that name.
        """
        result = self._inside_property()
        if self._is_blocked():
            raise _NotTriedError
        result.rests_on_code = True
        found = self._process.read().find(patterns, loops=loops, any_text=any_text)
        if found is not None:
            told = f"line {found.line} of {found.label} uses {found.what}: "
            told += "this exercise asks you to do without"
            result.right = []  # what is right of a call does not excuse it
            raise _PropertyFailedError(told, told)
        if loops:
            result.hidden_loop = self._process.read().find_hidden_loop()

    def with_seed(self, seed: int, function: Callable, *args: Any) -> Any:
        """Call ``function``, one of the course's own, with all global generators seeded, and leave
        these as they were.
        """
        with globals_kept():
            seed_globals(seed)
            return function(*args)

    def score(self) -> float:
        """Show the report and return the points, as nbgrader's partial credit wants them."""
        if self._results and self._results[0].outcome == "waiting":
            for result in self._results:  # what all the others rest on is in doubt
                if result.outcome == "passed":
                    result.wait(self._results[0].reason)
        points, _ = report.count_points(self.exercise, self._results)
        self._tape.finish()
        self._names.give_back(but=self)
        publish = self._publish or self._show_and_record
        publish(self.exercise, self._results, points)
        return Points(points)

    def _show_and_record(
        self, exercise: Exercise, results: list[report.Result], points: float
    ) -> None:
        from helpers.later_cells import tell_of_later_cells  # reading takes a while to load

        passes = points == exercise.points
        note = tell_of_later_cells(exercise.defines, self._names.namespace, passes=passes)
        report.show(exercise, results, points, note)
        # Whoever runs all cells has not begun with the exercises that stand there empty.
        if not any(result.not_written for result in results):
            progress_store.record(exercise, sum(report.count_points(exercise, results)))
            start_page.refresh_start_page()

    def _wait_if_doubtful(self, result: report.Result) -> None:
        doubt = next(iter(self._process.read().doubts), result.hidden_loop)
        if doubt is not None:
            result.wait(f"{doubt.what} in line {doubt.line} of {doubt.label}")

    def _inside_property(self) -> report.Result:
        if self._current is None:
            raise RuntimeError(
                f'check "{self.exercise.name}": call and compare inside "with check.property(...):"'
            )
        return self._current

    def _is_blocked(self) -> bool:
        if self._is_hidden() and not self._tries_hidden:
            return True
        return bool(self._results) and self._results[0].outcome in ("failed", "not tried")

    def _is_hidden(self) -> bool:
        return bool(self.exercise.hidden) and len(self._results) >= self.exercise.visible


def _unwritten_other(exercise: Exercise, answer: Answer) -> str:
    """Return one sentence if it is another exercise's stub that was called; "" otherwise."""
    called = answer.frames[-1].function if answer.frames else ""
    if called in exercise.defines:
        return ""
    for other in find_chapter(exercise.chapter).exercises:
        if called in other.defines:
            return f"your code calls {called}, which is not written yet: exercise {other.number}"
    return ""


def _copy_arguments(args: Iterable, kwargs: dict[str, Any]) -> tuple[list, dict[str, Any]]:
    copies = [_copy_argument(value) for value in args]
    return copies, {name: _copy_argument(value) for name, value in kwargs.items()}


def _copy_argument(value: Any) -> Any:
    return value if callable(value) or is_lent(value) else plain_copy(value)


def _tell_of(
    call: Call, result: report.Result, place: tuple[tuple[int, ...], tuple[int, ...]] | None
) -> None:
    # Only now: describing takes longer than most calls.
    named = name_arguments(call.function, call.args, call.kwargs)
    entries = entries_at(place, named) if place else []
    result.fed = [*entries, *((name, describe(value)) for name, value in named)]
    if call.has_returned and not result.came_back:
        result.came_back = _describe_safely(call.value)


def _describe_safely(value: Any) -> str:
    try:
        return describe(value)
    except Exception as error:  # an integer of ten thousand digits, a list of a thousand levels
        return f"(a {type(value).__name__} that cannot be shown: {type(error).__name__})"


def name_arguments(function: Callable, args: list, kwargs: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return the arguments that are data, each by the name that it has where it ends up."""
    by_name = list(kwargs.items())
    if not (args and callable(args[0])) or is_lent(args[0]):
        return _pair(_positional_names(function), args) + by_name
    # A probe: it gets the student's function first, then what it makes arguments of by itself,
    # and last what it hands on.
    students, *given = args
    own = _positional_names(function)[1:]
    if not own:
        return name_arguments(students, given, {}) + _only_fed(function, by_name)
    kept, handed_on = given[: len(own)], given[len(own) :]
    names = _positional_names(students)[1:]
    kept = _only_fed(function, _pair(own, kept))
    return kept + _pair(names, handed_on) + _only_fed(function, by_name)


def _only_fed(probe: Callable, named: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Return what a student is shown of a probe's own arguments: see ``helpers.probes.feeding``."""
    fed = getattr(probe, "fed_names", None)
    return [(name, value) for name, value in named if fed is None or name in fed]


def _pair(names: list[str], values: list) -> list[tuple[str, Any]]:
    names = names + [f"argument {i + 1}" for i in range(len(names), len(values))]
    return list(zip(names, values, strict=False))


def _positional_names(function: Callable) -> list[str]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [parameter.name for parameter in parameters if parameter.kind in by_place]


def _explain_missing_name(error: NameError) -> str:
    name = error.name or "a name"
    return f"{name} is not defined: run the cell that defines it, then this one again"
