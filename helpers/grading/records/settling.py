"""What was judged, together with what people have decided about the points that wait."""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import replace

import nbformat.v4
from nbformat.notebooknode import NotebookNode

from helpers.grading.verdicts import ExerciseResult, Judged, PropertyResult, Verdict
from helpers.points import Points

REFUSED = "a person has looked at it, and it does not count"
_TEST = "test-"
# They are told even where points were won.
_ENDS = (Verdict.CRASHED, Verdict.TIMED_OUT, Verdict.OUT_OF_MEMORY)


def waits(result: ExerciseResult) -> bool:
    """Return whether something of an exercise waits for a person."""
    return result.waiting > 0 or any(each.outcome == "waiting" for each in result.properties)


def settle(judged: Judged, decisions: Mapping[tuple[str, str], bool]) -> Judged:
    """Return ``judged`` with the points that wait counted, or not, as people have decided.

    Args:
        judged: as the judge left it; the reports in its notebook are brought to agree.
        decisions: for an exercise and the SHA-256 of its code, whether the points count.
    """
    settled = {
        result.name: (result, _settle(result, decisions[result.name, result.code]))
        for result in judged.exercises
        if waits(result) and (result.name, result.code) in decisions
    }
    if not settled:
        return judged
    exercises = (settled[e.name][1] if e.name in settled else e for e in judged.exercises)
    notebook = _tell_in_notebook(judged.notebook, settled) if judged.notebook else b""
    return replace(judged, exercises=tuple(exercises), notebook=notebook)


def _settle(result: ExerciseResult, accepted: bool) -> ExerciseResult:
    points = result.points
    if accepted:
        points = min(result.most, round(points + result.waiting, 2))
    verdict = _verdict(result, points)
    return replace(
        result,
        verdict=verdict,
        points=points,
        waiting=0.0,
        message=_message(result, verdict, accepted),
        properties=tuple(_settle_property(each, accepted) for each in result.properties),
        for_a_person="" if _is_about_what_waits(result) else result.for_a_person,
    )


def _verdict(result: ExerciseResult, points: float) -> Verdict:
    if points >= result.most:
        return Verdict.PASSED
    has_more = points > result.points and result.verdict not in _ENDS
    if has_more or result.verdict is Verdict.WAITING:
        return Verdict.PARTLY if points > 0 else Verdict.FAILED
    return result.verdict


def _message(result: ExerciseResult, verdict: Verdict, accepted: bool) -> str:
    if accepted:
        return "" if verdict is Verdict.PASSED else result.message
    if result.message:
        return result.message
    claims = [each.claim for each in result.properties if each.outcome == "waiting"]
    return f"{claims[0]}: {REFUSED}" if claims else REFUSED


def _settle_property(tried: PropertyResult, accepted: bool) -> PropertyResult:
    if tried.outcome != "waiting":
        return tried
    outcome, reason = ("passed", "") if accepted else ("failed", REFUSED)
    return replace(tried, outcome=outcome, reason=reason, details=(), told=reason)


def _is_about_what_waits(result: ExerciseResult) -> bool:
    return not result.doubts or any(doubt in result.for_a_person for doubt in result.doubts)


def _tell_in_notebook(
    content: bytes, settled: Mapping[str, tuple[ExerciseResult, ExerciseResult]]
) -> bytes:
    """Return the judged notebook with the points that count now under each test of ``settled``."""
    notebook = nbformat.v4.reads(content.decode())
    tests = {_TEST + name: results for name, results in settled.items()}
    for cell in notebook.cells:
        name = cell.metadata.get("nbgrader", {}).get("grade_id")
        if isinstance(name, str) and name in tests and cell.cell_type == "code":
            cell.outputs = _told_outputs(cell.outputs, *tests[name])
    return nbformat.v4.writes(notebook).encode()


def _told_outputs(
    outputs: list[NotebookNode], before: ExerciseResult, after: ExerciseResult
) -> list[NotebookNode]:
    told = []
    for output in outputs:
        if output.output_type == "execute_result":
            # nbgrader takes a test cell's value for its score.
            told.append(_person_says(before, after))
            output = nbformat.from_dict({**output, "data": Points(after.points).as_output()})
        told.append(output)
    return told


def _person_says(before: ExerciseResult, after: ExerciseResult) -> NotebookNode:
    counts = "now count" if after.points > before.points else "do not count"
    text = (
        f"A person has looked at this exercise. The points that waited ({before.waiting:g}) "
        f"{counts}: {after.points:g} of {after.most:g} points."
    )
    style = "border-left:4px solid #0072b2;padding:.5em .9em;max-width:60em"
    shown = f'<div class="bits-report" style="{style}">{html.escape(text)}</div>'
    data = {"text/plain": text, "text/html": shown}
    return nbformat.from_dict({"output_type": "display_data", "data": data, "metadata": {}})
