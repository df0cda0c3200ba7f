"""What a run came to: counts for each chapter, and what nobody has explained."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from rich import box
from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table

from mutants.explained import Explanation
from mutants.trials import Tried


@dataclass(frozen=True)
class Survivor:
    """A mutant that survives, the check that it survives, and the reason if there is one."""

    tried: Tried
    survives: str
    explanation: Explanation | None


@dataclass
class Outcome:
    """All that was tried, and what the file of reasons says of it."""

    explanations: Sequence[Explanation]
    visible_only: bool = False
    tried: list[Tried] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)

    def survivors(self) -> list[Survivor]:
        """Return what survives, once for each mutant: as what the more thorough check lets pass."""
        found = []
        for tried in self.tried:
            survives = "whole" if tried.survives_whole and not self.visible_only else "visible"
            if tried.survives_visible:
                found.append(Survivor(tried, survives, self._explain(tried, survives)))
        return found

    def unexplained(self) -> list[Survivor]:
        """Return the survivors without a reason."""
        return [survivor for survivor in self.survivors() if survivor.explanation is None]

    def killed_all_the_same(self) -> list[Explanation]:
        """Return the reasons given for mutants that do not survive."""
        return [
            explanation
            for explanation in self.explanations
            for tried in self.tried
            if explanation.is_about(tried.exercise.name, tried.mutant)
            and not tried.survives_visible
        ]

    def _explain(self, tried: Tried, survives: str) -> Explanation | None:
        for explanation in self.explanations:
            if explanation.explains(tried.exercise.name, tried.mutant, survives):
                return explanation
        return None


def make_tables(outcome: Outcome) -> Iterator[RenderableType]:
    """Return what is printed, one piece after another."""
    yield _count_by_chapter(outcome)
    for survivor in outcome.unexplained():
        yield from _show(survivor)
    for explanation in outcome.killed_all_the_same():
        yield escape(f"no longer survives: {explanation.exercise}: {explanation.became}")
    yield from (f"[bold red]{escape(problem)}[/]" for problem in outcome.broken)


def _count_by_chapter(outcome: Outcome) -> Table:
    table = Table(box=box.SIMPLE_HEAD, title="Mutants of the reference solutions")
    table.add_column("chapter")
    killed = ["killed by the visible check"]
    killed += [] if outcome.visible_only else ["killed by the whole check"]
    for heading in ("mutants", *killed, "explained", "unexplained"):
        table.add_column(heading, justify="right")
    totals = Counter[str]()
    chapters: dict[str, Counter[str]] = {}
    for tried in outcome.tried:
        counts = chapters.setdefault(tried.exercise.chapter, Counter())
        counts["mutants"] += 1
        counts["killed by the visible check"] += not tried.survives_visible
        counts["killed by the whole check"] += not tried.survives_whole
    for survivor in outcome.survivors():
        kind = "unexplained" if survivor.explanation is None else "explained"
        chapters[survivor.tried.exercise.chapter][kind] += 1
    for chapter, counts in sorted(chapters.items()):
        totals.update(counts)
        table.add_row(chapter, *_cells(table, counts))
    table.add_section()
    table.add_row("all", *_cells(table, totals))
    return table


def _cells(table: Table, counts: Counter[str]) -> list[str]:
    return [str(counts[str(column.header)]) for column in table.columns[1:]]


def _show(survivor: Survivor) -> Iterator[str]:
    mutant = survivor.tried.mutant
    again = f", place {mutant.place}" if mutant.place > 1 else ""
    where = f"{survivor.tried.exercise.chapter} · {survivor.tried.exercise.name}{again}"
    yield escape(f"\n{where}: survives the {survivor.survives} check")
    yield f"[red]{escape(f'- {mutant.was}')}[/]"
    yield f"[green]{escape(f'+ {mutant.became}')}[/]"
