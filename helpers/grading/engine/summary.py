"""What a run of ``bits grade`` comes to, for a person and for a machine."""

from __future__ import annotations

import dataclasses
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from helpers.grading.names import printable
from helpers.grading.records.foreign_points import ForeignPoints
from helpers.grading.verdicts import ExerciseResult, Judged, Verdict
from helpers.grading.waiting import tell_waiting


@dataclass
class Summary:
    """What became of every submission; students' ids everywhere.

    Attributes:
        assignment: its name.
        judged: those that were judged in this run.
        mended: those whose result was known, but the gradebook or a file was not as it says.
        unchanged: those of which all is as it was.
        results: for each student, what is recorded: points and verdicts.
        for_a_person: who and why, for each submission that a person has to look at.
        replaced: points that another automatic grading had written in place of ours.
        failed: who and why, where the fault is ours: nothing was recorded, and the next run tries
            again.
        missing: the gradebook's students who handed nothing in.
        interrupted: whether it was stopped before the end.
        left: those that were not reached.
    """

    assignment: str
    judged: list[str] = field(default_factory=list)
    mended: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    results: dict[str, dict[str, Any]] = field(default_factory=dict)
    for_a_person: list[tuple[str, str]] = field(default_factory=list)
    replaced: list[ForeignPoints] = field(default_factory=list)
    failed: list[tuple[str, str]] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    interrupted: bool = False
    left: list[str] = field(default_factory=list)

    def add(self, student: str, judged: Judged) -> None:
        """Take in what is recorded of a student."""
        self.results[student] = {
            "points": judged.points,
            "most": judged.most,
            "waiting": judged.waiting,
            "exercises": {
                e.name: {
                    "verdict": e.verdict.value,
                    "points": e.points,
                    "most": e.most,
                    "waiting": e.waiting,
                }
                for e in judged.exercises
            },
            "notes": list(judged.notes),
        }
        told = _told(judged)
        if told:
            self.for_a_person.append((student, told))

    def verdicts(self) -> dict[str, Counter[str]]:
        """Return for each exercise how often each verdict was given."""
        counts: dict[str, Counter[str]] = {}
        for result in self.results.values():
            for name, exercise in result["exercises"].items():
                counts.setdefault(name, Counter())[exercise["verdict"]] += 1
        return counts

    def waiting(self) -> dict[str, list[float]]:
        """Return for each student the points that wait, one entry for each exercise."""
        found = {
            student: [e["waiting"] for e in result["exercises"].values() if e["waiting"]]
            for student, result in self.results.items()
        }
        return {student: points for student, points in found.items() if points}

    def in_order(self) -> Summary:
        """Return it with all lists sorted by student."""
        changes = {
            f.name: sorted(getattr(self, f.name))
            for f in dataclasses.fields(self)
            if isinstance(getattr(self, f.name), list)
        }
        changes["results"] = dict(sorted(self.results.items()))
        return dataclasses.replace(self, **changes)

    def to_plain(self) -> dict[str, Any]:
        """Return it as what JSON can hold."""
        plain = dataclasses.asdict(self)
        for name in ("for_a_person", "failed"):
            plain[name] = [{"student": s, "reason": reason} for s, reason in plain[name]]
        plain["verdicts"] = {name: dict(count) for name, count in self.verdicts().items()}
        return plain


def _reason(exercise: ExerciseResult) -> str:
    if exercise.verdict is Verdict.MALFORMED:
        return exercise.for_a_person or exercise.message
    return exercise.for_a_person


def _told(judged: Judged) -> str:
    """Return why a person should look at a submission; "" if nobody needs to."""
    reasons = {e.name: _reason(e) for e in judged.exercises}
    if len(set(reasons.values())) == 1:
        return next(iter(reasons.values()))
    return "; ".join(f"{name}: {reason}" for name, reason in reasons.items() if reason)


def summarize(summary: Summary) -> list[str]:
    """Return the lines that say to the instructor what became of the submissions."""
    lines = [
        f"{printable(summary.assignment)}: {len(summary.judged)} judged, {len(summary.mended)} "
        f"recorded again, {len(summary.unchanged)} unchanged."
    ]
    lines += _table(summary)
    if summary.for_a_person:
        lines.append("A person should look at:")
        lines += [f"  {printable(s)}: {printable(why)}" for s, why in summary.for_a_person]
    lines += tell_waiting(summary.assignment, summary.waiting())
    if summary.failed:
        lines.append("Not graded, through no fault of the student (the next run tries again):")
        lines += [f"  {printable(s)}: {printable(why)}" for s, why in summary.failed]
    if summary.missing:
        lines.append(f"Nothing yet from: {', '.join(map(printable, summary.missing))}.")
    if summary.interrupted:
        lines.append(
            f"Stopped before the end: {len(summary.left)} are left; run the same command again."
        )
    return lines


def _table(summary: Summary) -> list[str]:
    """Return a row per exercise, with a column for each verdict that was given."""
    counts = summary.verdicts()
    given = [v.value for v in Verdict if any(count[v.value] for count in counts.values())]
    if not given:
        return []
    width = max(len(name) for name in [*counts, "exercise"])
    rows = ["  ".join(["exercise".ljust(width), *given])]
    for name, count in counts.items():
        cells = [str(count[verdict] or "·").rjust(len(verdict)) for verdict in given]
        rows.append("  ".join([name.ljust(width), *cells]))
    return [f"  {row}" for row in rows]
