"""What a student reads after a check: one line per property, and why where one fails."""

from __future__ import annotations

import html
from dataclasses import dataclass, field

from helpers import display
from helpers.calling import STUB_MESSAGE
from helpers.catalogue import Exercise
from helpers.plain import one_line

_SYMBOLS = {"passed": "✓", "failed": "✗", "not tried": "–", "waiting": "?"}
_NOT_WRITTEN = f"{STUB_MESSAGE}: replace the line that raises NotImplementedError"
_MOST_LINES_OF_NOISE = 5


@dataclass
class Result:
    """What one property of a check came to."""

    claim: str
    weight: float
    outcome: str = "failed"  # "passed", "failed", "not tried" or "waiting" for a person
    reason: str = ""
    fed: list[tuple[str, str]] = field(default_factory=list)
    calls: int = 0
    came_back: str = ""
    expected: str = ""
    printed: str = ""
    warned: list[str] = field(default_factory=list)
    not_written: bool = False
    # Whether the call that it failed at was kept for ``failing``.
    can_be_had: bool = False
    # Whether it holds for plain code alone: a probe was asked, or the code was read.
    rests_on_code: bool = False
    # Whether students may read nothing of what their code said: it was fed a hidden test's input.
    withheld: bool = False
    told: str = ""

    def fail(self, reason: str, told: str = "") -> None:
        """Mark the property as failed, for one sentence's ``reason``.

        ``told`` is one that holds nothing of what the student's code said.
        """
        self.outcome = "failed"
        self.reason = _NOT_WRITTEN if self.not_written else reason
        self.told = _NOT_WRITTEN if self.not_written else told or "it does not hold"

    def wait(self, doubt: str) -> None:
        """Mark the property as one whose points wait for a person, because of ``doubt``."""
        self.outcome = "waiting"
        self.reason = doubt

    def details(self) -> list[tuple[str, str]]:
        """Return the rows under a failed property: a heading and a value each."""
        if self.outcome == "waiting":
            return [("", f"it holds; a person will look at {self.reason} before its points count")]
        if self.outcome != "failed":
            return []
        if self.not_written:
            return [("", self.reason)]
        expected = [("expected", self.expected)] if self.expected else []
        return [*self.seen(), *expected, ("problem", self.reason)]

    def shown(self) -> list[tuple[str, str]]:
        """Return those of the ``details`` that a student may read."""
        if self.withheld and self.outcome == "failed":
            return [("", self.told)]
        return self.details()

    def seen(self) -> list[tuple[str, str]]:
        """Return what was fed in and what came back, in rows as ``details`` has them."""
        rows = []
        if self.calls > 1:  # what was fed in may hold what came back before
            rows.append(("call", f"number {self.calls} of this property"))
        rows += [("fed in", f"{name} = {value}") for name, value in self.fed]
        return rows + ([("came back", self.came_back)] if self.came_back else [])


def count_points(exercise: Exercise, results: list[Result]) -> tuple[float, float]:
    """Return the points that ``results`` come to, and those that wait for a person."""
    total = sum(result.weight for result in results)

    def points_of(*outcomes: str) -> float:
        share = sum(r.weight for r in results if r.outcome in outcomes) / total if total else 0.0
        return round(float(exercise.points) * share, 2)

    points = points_of("passed")
    return points, round(points_of("passed", "waiting") - points, 2)


def show(exercise: Exercise, results: list[Result], points: float) -> None:
    """Show the report: text everywhere, HTML where there is a display for it."""
    display.show(as_text(exercise, results, points), as_html(exercise, results, points))


def _heading(exercise: Exercise, results: list[Result], points: float) -> tuple[str, str]:
    so_far = " so far" if _is_students_copy(exercise, results) else ""
    _, waiting = count_points(exercise, results)
    wait = f", {waiting:g} more wait for a person" if waiting else ""
    return (
        f"Exercise {exercise.number} · {exercise.title}",
        f"{points:g} of {exercise.points:g} points{so_far}{wait}",
    )


def _is_students_copy(exercise: Exercise, results: list[Result]) -> bool:
    return bool(exercise.hidden) and len(results) == exercise.visible


def _closing_lines(exercise: Exercise, results: list[Result]) -> list[str]:
    lines = []
    if any(result.outcome == "failed" for result in results):
        lines.append(f'Stuck? Run hint("{exercise.name}") in a cell of your own.')
        if any(result.can_be_had for result in results) and _is_students_copy(exercise, results):
            lines.append(f'Try this case again: failing("{exercise.name}")')
    elif _is_students_copy(exercise, results):
        lines.append(
            f"Every property shown here holds; {exercise.hidden} more will be tried "
            "when your work is graded."
        )
    if any(result.outcome == "not tried" for result in results):
        lines.append("A property marked – is tried once the first one holds.")
    return lines + _noise_lines(results)


def _noise_lines(results: list[Result]) -> list[str]:
    open_ones = [result for result in results if not result.withheld]
    warned = list(dict.fromkeys(warning for result in open_ones for warning in result.warned))
    printed = [line for result in open_ones for line in result.printed.splitlines() if line]
    lines = [f"Your code warned (no points lost): {one_line(w)}" for w in warned[:3]]
    lines += [f"Your code printed: {one_line(p)}" for p in printed[:_MOST_LINES_OF_NOISE]]
    if len(printed) > _MOST_LINES_OF_NOISE:
        lines.append(f"… and {len(printed) - _MOST_LINES_OF_NOISE} lines more.")
    return lines


def as_text(exercise: Exercise, results: list[Result], points: float) -> str:
    """Return the report as lines of text."""
    lines = ["   ".join(_heading(exercise, results, points))]
    for result in results:
        lines.append(f"  {_SYMBOLS[result.outcome]} {result.claim}")
        lines += [
            f"      {name:<11}{value}" if name else f"      {value}"
            for name, value in result.shown()
        ]
    return "\n".join(lines + _closing_lines(exercise, results))


# Only the front end's own text color and see-through grays: readable on light and on dark.
_BOX = (
    "border:1px solid rgba(128,128,128,.5);border-left:4px solid {color};"
    "padding:.5em .9em;border-radius:4px;max-width:60em"
)
_COLORS = {
    "passed": "#009e73",
    "failed": "#d55e00",
    "not tried": "rgba(128,128,128,.9)",
    "waiting": "#0072b2",
}
_CODE_STYLE = "font-family:monospace;white-space:pre-wrap;overflow-wrap:anywhere"


def as_html(exercise: Exercise, results: list[Result], points: float) -> str:
    """Return the report as HTML; every word in it is escaped."""
    whole = points >= exercise.points
    title, score = (html.escape(part) for part in _heading(exercise, results, points))
    rows = "".join(_property_as_html(result) for result in results)
    closing = "".join(
        f'<div style="margin-top:.4em">{html.escape(line)}</div>'
        for line in _closing_lines(exercise, results)
    )
    box = _BOX.format(color=_COLORS["passed" if whole else "failed"])
    return (
        f'<div class="bits-report" style="{box}">'
        f'<div style="display:flex;justify-content:space-between;gap:1em;flex-wrap:wrap">'
        f"<b>{title}</b> <b>{score}</b></div>{rows}{closing}</div>"
    )


def _property_as_html(result: Result) -> str:
    symbol = _SYMBOLS[result.outcome]
    color = _COLORS[result.outcome]
    rows = "".join(
        '<div style="display:flex;gap:.8em;margin-left:1.6em">'
        + (f'<span style="flex:0 0 5.5em;opacity:.75">{html.escape(name)}</span> ' if name else "")
        + f'<span style="{_CODE_STYLE}">{html.escape(value)}</span></div>'
        for name, value in result.shown()
    )
    return (
        f'<div style="margin-top:.35em"><span style="color:{color};font-weight:bold" '
        f'aria-label="{result.outcome}">{symbol}</span> {html.escape(result.claim)}</div>{rows}'
    )
