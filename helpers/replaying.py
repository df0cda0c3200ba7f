"""Run one property of a test cell once more, with the inputs that were drawn for it before.

The test cell itself is run again, in a copy of the notebook's namespace as it is now, and with the
generators in the states that they had: so its own functions, and what it lends, are made anew, and
the student's code is found anew by its name. Of other properties, only those are run whose names
the property uses.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

from helpers.calling import Answer, call_here, fill
from helpers.checks import Check
from helpers.drawing import Draw
from helpers.lending import is_lent
from helpers.plain import plain_copy
from helpers.process_state import state_kept, students_defaults
from helpers.report import Result
from helpers.students_process import OwnProcess
from helpers.tape import Failure, NoTape, Recording


class ReplayError(RuntimeError):
    """A property cannot be tried once more."""


def try_again(recording: Recording, failure: Failure) -> Result:
    """Return what the property comes to on the code as it is now: calls have no time limit, and
    nothing that they print is caught.
    """
    return _replay(recording, failure.place, _OpenProcess(recording.exercise))


def rebuild_call(recording: Recording, failure: Failure) -> tuple[Callable, list, dict[str, Any]]:
    """Return the call that a property failed at, to be made on the code as it is now: the function,
    and its arguments, with all that was lent made anew.
    """
    process = _StoppingProcess(recording, failure)
    try:
        _replay(recording, failure.place, process, process.tape)
    except _CallReachedError as reached:
        made = failure.calls[-1]
        args = _inputs_of(made.args, reached.args_given)
        kwargs = {
            name: _input_of(made.kwargs.get(name, value), value)
            for name, value in reached.kwargs_given.items()
        }
        return reached.function, args, kwargs
    raise ReplayError("the check does not come to this call any more: run its cell again")


class _Replay(NoTape):
    """The tape of a check that repeats a recorded one."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self.place = -1

    def running(self, place: int, draw: Draw) -> AbstractContextManager[None]:
        self.place = place
        return self._recording.repeated(place, draw)


def _replay(
    recording: Recording, place: int, process: OwnProcess, tape: _Replay | None = None
) -> Result:
    if not recording.code:
        raise ReplayError("the check's cell cannot be read here, and so not be tried again")
    check = Check(
        recording.exercise.name,
        seed=recording.seed,
        process=process,
        publish=lambda exercise, results, points: None,
        tape=tape or _Replay(recording),
    )
    code = compile(_cut(recording.code, place), recording.file, "exec")
    exec(code, {**recording.namespace, "Check": lambda name: check})
    if len(check.results) <= place:
        raise ReplayError("the check does not come to this property any more: run its cell again")
    return check.results[place]


class _OpenProcess(OwnProcess):
    """The student's own kernel, in which code runs as in a cell of its own."""

    def call(self, function: Callable, args: list, kwargs: dict[str, Any]) -> Answer:
        answer = Answer()
        with students_defaults(), state_kept():
            fill(answer, function, args, kwargs)
        return answer


class _CallReachedError(BaseException):
    """Ends a replay at a call: no handler of errors sees it."""

    def __init__(self, function: Callable, args: list, kwargs: dict[str, Any]) -> None:
        super().__init__()
        self.function = function
        self.args_given = args
        self.kwargs_given = kwargs


class _StoppingProcess(OwnProcess):
    """Answers the calls before the last as they were answered, and makes no last one."""

    def __init__(self, recording: Recording, failure: Failure) -> None:
        super().__init__(recording.exercise)
        self.tape = _Replay(recording)
        self._failure = failure
        self._count = 0

    def call(self, function: Callable, args: list, kwargs: dict[str, Any]) -> Answer:
        if self.tape.place != self._failure.place:
            return call_here(function, args, kwargs)
        made = self._failure.calls[self._count]
        self._count += 1
        if self._count == len(self._failure.calls):
            raise _CallReachedError(function, args, kwargs)
        # What the check lent has to be used, or what follows is not what it was.
        return call_here(function, args, kwargs) if made.lends() else Answer(plain_copy(made.value))

    def restart(self) -> None:
        pass


def _inputs_of(made: Sequence[Any], given: Sequence[Any]) -> list:
    if len(made) != len(given):
        return list(given)
    return [_input_of(then, now) for then, now in zip(made, given, strict=True)]


def _input_of(then: Any, now: Any) -> Any:
    """Return the very input; but functions, and what is lent, as they are now."""
    return now if callable(now) or is_lent(now) else plain_copy(then)


def _cut(code: str, place: int) -> ast.Module:
    """Return a test cell up to the property number ``place``; of the others, only those stay whole
    whose names it uses.
    """
    tree = ast.parse(code)
    ends = [number for number, node in enumerate(tree.body) if _is_property(node)]
    if place >= len(ends):
        raise ReplayError("the check's cell has no such property any more: run it again")
    tree.body = tree.body[: ends[place] + 1]
    ours = {name for node in tree.body if not _is_property(node) for name in _bound(node)}
    wanted = _used(tree.body[-1]) - _bound(tree.body[-1])
    for node in reversed(tree.body[:-1]):
        if not _is_property(node):
            continue
        if (wanted - ours) & _bound(node):
            wanted |= _used(node) - _bound(node)
        else:
            node.body = [ast.copy_location(ast.Pass(), node)]
    return tree


def _is_property(node: ast.stmt) -> bool:
    if not isinstance(node, ast.With):
        return False
    called = node.items[0].context_expr
    return isinstance(called, ast.Call) and ast.unparse(called.func) == "check.property"


def _names(node: ast.AST, kind: type[ast.expr_context]) -> Iterator[str]:
    for inside in ast.walk(node):
        if isinstance(inside, ast.Name) and isinstance(inside.ctx, kind):
            yield inside.id


def _used(node: ast.AST) -> set[str]:
    return set(_names(node, ast.Load))


def _bound(node: ast.AST) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    return set(_names(node, ast.Store))
