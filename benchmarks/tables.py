"""The tables on the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich import box
from rich.console import RenderableType
from rich.table import Table

from benchmarks.growth import fit_line
from benchmarks.outcome import Outcome, Times, memory_growth

_MIB = 2**20
_NONE = "–"


def make_tables(outcome: Outcome) -> Iterator[RenderableType]:
    """Return what is printed, one piece after another."""
    yield _describe_machine(outcome)
    yield _make_times(outcome)
    yield from _explain_times(outcome)
    if outcome.differences:
        yield _make_differences(outcome)
    yield _make_growth(outcome)
    yield from _explain_growth(outcome)
    yield from (f"[bold red]{fault}[/]" for fault in outcome.faults())


def _describe_machine(outcome: Outcome) -> str:
    machine = outcome.machine
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    return (
        f"{machine['processor']}, {machine['cores']} cores, load {machine['load'][0]}; "
        f"{machine['date']}; {versions}"
    )


def _make_times(outcome: Outcome) -> Table:
    kinds = ", ".join(f"{count} {kind}" for kind, count in outcome.kinds.items())
    table = _table(
        f"A class of {outcome.whole.submissions}: {kinds}",
        "grader",
        ("time (s)", "submissions/s", "throughput", "time"),
        caption="throughput: times nbgrader's; time: times the limit",
    )
    _add_times(table, outcome.whole, "")
    if outcome.prompt is not None:
        waiting = outcome.whole.submissions - outcome.prompt.submissions
        table.add_section()
        _add_times(table, outcome.prompt, f" without the {waiting} that wait for a time limit")
    return table


def _add_times(table: Table, times: Times, of_what: str) -> None:
    rows = [
        ("plain nbgrader", times.nbgrader),
        ("bits grade", times.bits),
        ("bits grade, nothing to do", times.again),
        ("the limit", times.limit),
    ]
    for name, seconds in rows:
        if seconds is not None:
            against = "" if times.nbgrader is None else f"{times.nbgrader / seconds:.1f}"
            cells = (f"{seconds:.1f}", f"{times.submissions / seconds:.2f}", against)
            table.add_row(name + of_what, *cells, f"{seconds / times.limit:.1f}")


def _explain_times(outcome: Outcome) -> Iterator[str]:
    yield (
        "No submission holds a demo. nbgrader's time is without making the assignment, that of "
        "bits grade with it. The limit is the processor time of the submissions' own cells and "
        "their tests, over the number of cores."
    )
    for about, seconds in outcome.nbgraders_waits.items():
        yield f"nbgrader took {seconds:.0f} s for the one that {about}."
    if outcome.ended:
        yield f"A cell that ended its kernel counts nothing in the limit: {len(outcome.ended)}."
    asked = "" if outcome.nbgrader_graded is None else f"nbgrader {outcome.nbgrader_graded}, "
    yield f"Submissions with all scores: {asked}bits grade {outcome.bits_graded}."


def _make_differences(outcome: Outcome) -> Table:
    table = _table(
        "Scores that differ: the points of those exercises together",
        "work",
        ("exercises", "deserved", "nbgrader", "bits grade"),
    )
    table.add_column("bits grade asks a person to look at")
    for student in dict.fromkeys(d.student for d in outcome.differences):
        found = [d for d in outcome.differences if d.student == student]
        given = ([d.deserved for d in found], [d.nbgrader for d in found], [d.bits for d in found])
        told = "; ".join(f"{d.exercise}: {d.reason}" for d in found if d.reason)
        style = "bold red" if any(d.is_wrong for d in found) else None
        work = f"{student}, {found[0].about or found[0].kind}"
        points = (_add_points(points) for points in given)
        table.add_row(work, str(len(found)), *points, told, style=style)
    return table


def _make_growth(outcome: Outcome) -> Table:
    columns = ("graded", "time (s)", "submissions/s", "peak memory (MiB)", "load before")
    table = _table("Growth of bits grade", "submissions", columns)
    for point in outcome.growth:
        table.add_row(
            f"{point.submissions:,}",
            f"{point.graded:,}",
            f"{point.seconds:.1f}",
            f"{point.submissions / point.seconds:.2f}",
            f"{point.peak.bytes / _MIB:.0f}",
            f"{point.load:.1f}",
        )
    return table


def _explain_growth(outcome: Outcome) -> Iterator[str]:
    line = fit_line(outcome.growth)
    if line is not None:
        yield (
            f"{line.start:.1f} s to start, then {line.each:.3f} s for each submission; the limit "
            f"for one is {outcome.limit_each:.3f} s: {line.each / outcome.limit_each:.1f} times "
            f"that. Memory grew {memory_growth(outcome.growth):.2f} times."
        )
    if not all(point.peak.is_proportional for point in outcome.growth):
        yield "Memory that processes share is counted for each: this system says no more."


def _add_points(points: list[float | None]) -> str:
    given = [number for number in points if number is not None]
    return f"{round(sum(given), 2):g}" if given else _NONE


def _table(title: str, first: str, numbers: tuple[str, ...], caption: str | None = None) -> Table:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, caption=caption)
    table.add_column(first)
    for name in numbers:
        table.add_column(name, justify="right")
    return table
