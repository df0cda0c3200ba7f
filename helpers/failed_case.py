"""The case that a check failed at, to be had again: ``failing("softmax")``.

It holds the very inputs, what came back and what was expected. ``run`` makes the call once more and
``check`` tries the property once more, both on the code as it is now, without a time limit, and
without catching what is printed: ``print``, ``breakpoint()`` and the debugger work as in any cell.
"""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import Any

from helpers.catalogue import Exercise, find_exercise
from helpers.checks import name_arguments
from helpers.plain import NotPlainError, describe, plain_copy
from helpers.process_state import state_kept
from helpers.random_numbers import globals_kept, put_back_globals
from helpers.replaying import ReplayError, rebuild_call, try_again
from helpers.tape import Failure, Recording, find_recording

_CELL = "padding:.1em .8em .1em 0;vertical-align:top;text-align:left"


class NoFailingCaseError(LookupError):
    """There is no case to be had; the text says why."""


def failing(exercise: str, number: int = 1) -> Case:
    """Return the case that the last check of ``exercise`` in this kernel failed at.

    ``number`` chooses among the properties that failed, from 1.

    Raises:
        KeyError: if the course has no such exercise.
        NoFailingCaseError: if its check was not run, or nothing failed that can be run again.
    """
    card = find_exercise(exercise)
    recording = find_recording(card)
    if recording is None:
        raise NoFailingCaseError(
            f'the check of "{card.name}" has not been run in this kernel: run its cell first'
        )
    # A case with a call comes first: it can be run.
    cases = sorted(recording.failures, key=lambda failure: not failure.calls)
    if not cases:
        raise NoFailingCaseError(_explain_none(card, recording))
    if number not in range(1, len(cases) + 1):
        count = "one case" if len(cases) == 1 else f"{len(cases)} cases"
        raise NoFailingCaseError(f'the check of "{card.name}" has {count} that failed')
    return Case(recording, cases[number - 1], number, len(cases))


def _explain_none(card: Exercise, recording: Recording) -> str:
    if not recording.is_finished:
        return f'the check of "{card.name}" did not come to its end: run its cell again'
    return f'the last check of "{card.name}" has no property that failed: there is nothing to try'


class Inputs(dict):
    """Inputs by their names, as items and as attributes."""

    def __getattr__(self, name: str) -> Any:
        """Return the input called ``name``."""
        if name in self:
            return self[name]
        raise AttributeError(f"there is no input {name!r}; there are {', '.join(map(repr, self))}")

    def __dir__(self) -> list[str]:
        """Return the names, too."""
        return [*super().__dir__(), *map(str, self)]


@dataclass(frozen=True)
class Judgment:
    """What a property comes to on the code as it is now; it counts as True if it holds.

    Attributes:
        problem: why it does not hold; "" if it does.
    """

    problem: str

    def __bool__(self) -> bool:
        """Return whether the property holds."""
        return not self.problem

    def __repr__(self) -> str:
        """Return one line."""
        if self.problem:
            return f"✗ {self.problem}"
        return "✓ it holds on these inputs now: run the check again"


class Case:
    """The call that a property failed at.

    Everything it gives is a copy: changing one changes nothing of the case.
    """

    def __init__(self, recording: Recording, failure: Failure, number: int, count: int) -> None:
        """Take what was kept of the check, and which failure of how many it is."""
        self._recording = recording
        self._failure = failure
        self._number = number
        self._count = count
        self._call = failure.calls[-1] if failure.calls else None

    @property
    def exercise(self) -> str:
        """The exercise's name."""
        return self._recording.exercise.name

    @property
    def claim(self) -> str:
        """What the property says."""
        return self._failure.claim

    @property
    def problem(self) -> str:
        """Why it failed."""
        return self._failure.problem or "it was stopped before it came to its end"

    @property
    def call(self) -> int:
        """Which call of this property it is, from 1; 0 if the property makes none."""
        return len(self._failure.calls)

    @property
    def inputs(self) -> Inputs:
        """What was fed in, by name; what the check lent, a stream or a function, is made anew."""
        if self._call is None:
            return Inputs()
        function, args, kwargs = self._call.function, self._call.args, self._call.kwargs
        if self._call.lends():
            function, args, kwargs = rebuild_call(self._recording, self._failure)
        named = name_arguments(function, args, kwargs)
        return Inputs({name: _copied(value) for name, value in named})

    @property
    def returned(self) -> Any:
        """The whole of what the call returned; None if it did not return."""
        return None if self._call is None else _copied(self._call.value)

    @property
    def came_back(self) -> Any:
        """The part of it that was compared: all of it, if no comparison failed."""
        compared = self._failure.compared
        return self.returned if compared is None else _copied(compared[0])

    @property
    def expected(self) -> Any:
        """What it was compared with; None if no comparison failed."""
        compared = self._failure.compared
        return None if compared is None else _copied(compared[1])

    def run(self) -> Any:
        """Make the call once more, on the code as it is now, and return what comes back.

        Of a property with several calls, this is the one that it failed at, with the very inputs of
        then: where they hold what earlier calls returned, they hold what those returned then. What
        the check handed to a probe goes to the probe again. There is no time limit, nothing that is
        printed is caught, and an exception goes on.

        Raises:
            ReplayError: if the property makes no call, or its check's cell cannot be run again.
        """
        if self._call is None:
            raise ReplayError(
                f'"{self.claim}" failed without a call: check() tries it again on your code'
            )
        function, args, kwargs = rebuild_call(self._recording, self._failure)
        with globals_kept(), state_kept():
            put_back_globals(self._call.generators)
            return function(*args, **kwargs)

    def check(self) -> Judgment:
        """Try the property once more, with the same inputs, on the code as it is now.

        All its calls are made, in order; what one feeds to the next comes from the code as it is
        now. Points are another matter: run the check's cell for those.

        Raises:
            ReplayError: if the check's cell cannot be run again.
        """
        result = try_again(self._recording, self._failure)
        if result.outcome in ("passed", "waiting"):
            return Judgment("")
        return Judgment(result.reason or "a property that this one builds on fails")

    def __repr__(self) -> str:
        """Return the case as lines of text."""
        rows = self._rows()
        width = max(len(heading) for heading, _ in rows)
        rows = "\n".join(f"  {heading:<{width}} {text}" for heading, text in rows)
        return f"{self._title()}\n{rows}\n{self._use()}"

    def _repr_html_(self) -> str:
        """Return the case as HTML; every word in it is escaped."""
        rows = "".join(
            f'<tr><th style="{_CELL};font-weight:normal;opacity:.75">{html.escape(heading)}</th>'
            f'<td style="{_CELL};font-family:monospace;overflow-wrap:anywhere">'
            f"{html.escape(text)}</td></tr>"
            for heading, text in self._rows()
        )
        return (
            f'<div class="bits-case"><b>{html.escape(self._title())}</b>'
            f"<table>{rows}</table>{html.escape(self._use())}</div>"
        )

    def _title(self) -> str:
        title = self._recording.exercise.title
        which = f" ({self._number} of {self._count} that failed)" if self._count > 1 else ""
        return f"{title}: {self.claim}{which}"

    def _rows(self) -> list[tuple[str, str]]:
        rows = [("call", f"number {self.call} of this property")] if self.call > 1 else []
        rows += [(name, describe(value)) for name, value in self.inputs.items()]
        if self._failure.compared is not None:
            rows += [("came back", describe(self.came_back)), ("expected", describe(self.expected))]
        elif self._call is not None and self._call.has_returned:
            rows.append(("came back", describe(self.returned)))
        return [*rows, ("problem", self.problem)]

    def _use(self) -> str:
        again = "case.run() makes this call again, case.check() tries the property again"
        told = again if self._call is not None else "case.check() tries the property again"
        return f'case = failing("{self.exercise}"): {told}, on your code as it is now'


def _copied(value: Any) -> Any:
    try:
        return plain_copy(value)
    except NotPlainError:  # a function, or what the check lent
        return value
