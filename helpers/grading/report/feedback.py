"""A student's feedback page: points, verdicts and messages, with the work they are about.

Of the judged notebook it shows the student's own cells and nothing else. Of a hidden test it shows
what it tries and whether that holds: never its code, what it fed in, nor what the student's code
said of that.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from helpers.catalogue import find_exercise
from helpers.grading.markdown import render_markdown
from helpers.grading.report import pages
from helpers.grading.report.marks import Mark, Marks
from helpers.grading.report.tables import Row, number
from helpers.grading.shown import embed_picture, one_line, printed, visible
from helpers.grading.verdicts import PropertyResult, Verdict
from helpers.grading.waiting import count
from helpers.report import told

_MOST_CODE = 30_000
_MOST_OUTPUTS = 20
# The class for the color, the sign and the word.
LOOKS = {
    Verdict.PASSED: ("passed", "✓", "passed"),
    Verdict.PARTLY: ("partly", "◐", "partly right"),
    Verdict.WAITING: ("waiting", "?", "a person will look at it"),
    Verdict.FAILED: ("wrong", "✗", "not right yet"),
    Verdict.UNANSWERED: ("wrong", "✗", "nothing written yet"),
    Verdict.CRASHED: ("wrong", "⚠", "crashed"),
    Verdict.TIMED_OUT: ("wrong", "⚠", "took too long"),
    Verdict.OUT_OF_MEMORY: ("wrong", "⚠", "took too much memory"),
    Verdict.MALFORMED: ("wrong", "⚠", "could not be read"),
    Verdict.MISSING: ("wrong", "✗", "missing"),
}
_UNJUDGED = ("", "", "")


def render_feedback(
    row: Row, notebook: bytes, assignment: str, title: str, label: Callable[[str], str]
) -> bytes:
    """Return the page of one student who has marks.

    Args:
        row: the student.
        notebook: the judged notebook; b"" if there is none to show.
        assignment: its name.
        title: the title that people know.
        label: turns an exercise's name into its title.
    """
    marks = row.marks or Marks(())
    cells = list(_own_cells(notebook))
    names = {mark.name for mark in marks.each}
    banner = _banner(marks)
    others = [cell for cell in cells if cell["name"] not in names]
    shown = {cell["name"] for cell in others}
    return pages.render(
        "feedback.html",
        assignment=assignment,
        title=title,
        student=one_line(row.student),
        name=one_line(row.name),
        received=f"{row.received_at:%Y-%m-%d %H:%M}" if row.received_at else "",
        points=number(marks.points),
        most=number(marks.most),
        penalty=number(marks.penalty) if marks.penalty else "",
        looked_at=any(mark.for_a_person for mark in marks.each),
        waiting=count(marks.waiting, "more point") if marks.waiting else "",
        banner=banner,
        exercises=[
            _exercise(mark, label(mark.name), banner)
            | {"cells": [cell for cell in cells if cell["name"] == mark.name]}
            for mark in marks.each
        ],
        others=[cell | {"comment": marks.comments.get(cell["name"], "")} for cell in others],
        comments=[text for name, text in marks.comments.items() if name not in shown],
    )


def look_of(mark: Mark) -> tuple[str, str, str]:
    """Return the class for the color, the sign and the word for how an exercise ended."""
    if mark.result is None:
        return _UNJUDGED
    verdict = mark.result.verdict
    if verdict is Verdict.WAITING and not mark.waiting:  # a person has given points by hand
        verdict = Verdict.PASSED if mark.points >= mark.most else Verdict.PARTLY
    return LOOKS[verdict]


def _banner(marks: Marks) -> str:
    """Return what is said once because it holds for every exercise."""
    results = [mark.result for mark in marks.each if mark.result]
    messages = {result.message for result in results}
    if len(messages) == 1 and all(r.verdict is Verdict.MALFORMED for r in results):
        return visible(messages.pop())
    return ""


def _exercise(mark: Mark, title: str, banner: str) -> dict[str, Any]:
    kind, sign, word = look_of(mark)
    message, tried = (mark.result.message, mark.result.properties) if mark.result else ("", ())
    # It is mostly the first property that failed, which stands below it, with what may be told.
    told_below = {"", *(p.reason for p in tried), *(f"{p.claim}: {p.reason}" for p in tried)}
    return {
        "title": title,
        "kind": kind,
        "sign": sign,
        "word": word,
        "points": number(mark.points),
        "most": number(mark.most),
        "waiting": count(mark.waiting, "more point") if mark.waiting else "",
        "by_a_person": mark.by_a_person,
        "comment": mark.comment,
        "message": "" if banner or message in told_below else visible(message),
        "held": _tell_why_all_waits(mark),
        "properties": _properties(tried, mark),
        "hints": _hints(mark.name) if kind in ("partly", "wrong") and tried else [],
    }


def _hints(exercise: str) -> list[str]:
    try:
        return list(find_exercise(exercise).hints)
    except KeyError:  # of a course that is not ours
        return []


def _properties(tried: Sequence[PropertyResult], mark: Mark) -> dict[str, Any]:
    """Return the properties in the order in which a check shows them in the student's notebook."""
    order = told.arrange(_tell(each) for each in tried)
    waiting = {each.claim: each for each in tried if each.outcome == "waiting"}
    open_ones = [_property(each) for each in (*order.failures, *order.more)]
    open_ones += [
        _property(each) | {"held": _tell_why_it_waits(waiting[each.claim], mark)}
        for each in order.waiting
    ]
    folds = [(told.not_tried(order), order.not_tried)]
    if order.failures:
        folds.append((f"{len(order.passed)} hold", order.passed))
    else:
        open_ones += map(_property, order.passed)
    return {
        "open": open_ones,
        "folds": [
            {"summary": summary, "each": [_property(each) for each in claims]}
            for summary, claims in folds
            if claims
        ],
    }


def _tell(tried: PropertyResult) -> told.Told:
    rows = [] if tried.is_withheld else tried.details
    if tried.outcome == "failed":
        rows = [("problem", tried.for_student()), *(r for r in rows if r[1] != tried.reason)]
    return told.tell_rows(tried.claim, tried.outcome, rows, hidden=tried.hidden)


def _property(each: told.Told) -> dict[str, Any]:
    folds = [(f"fed in: {each.input_names}", each.inputs)] if each.inputs else []
    if each.values:
        folds.append((each.values_named, each.values))
    return {
        "claim": one_line(each.claim, 500),
        "kind": each.outcome.replace(" ", "-"),
        "outcome": each.outcome,
        "sign": told.SIGNS[each.outcome],
        "hidden": each.hidden,
        "reason": visible(each.problem) if each.outcome == "failed" else "",
        "held": "",
        "shows": _rows(each.shows) if each.outcome == "failed" else [],
        "folds": [(one_line(summary), _rows(rows)) for summary, rows in folds],
    }


def _rows(rows: told.Rows) -> list[tuple[str, str]]:
    return [(one_line(heading), visible(value)) for heading, value in rows]


def _tell_why_it_waits(tried: PropertyResult, mark: Mark) -> str:
    if not mark.waiting:  # a person has given points by hand
        return "It holds."
    properties = mark.result.properties if mark.result else (tried,)
    share = tried.weight / (sum(each.weight for each in properties) or 1.0)
    points = round(share * mark.most, 2)
    where = visible(tried.reason).replace("`", "")
    return (
        f"It holds. A person will look at {where} before this property's "
        f"{count(points, 'point')} {'counts' if points == 1 else 'count'}."
    )


def _tell_why_all_waits(mark: Mark) -> str:
    """Return why points wait that no property stands for; "" if there are none."""
    if mark.result is None or not mark.waiting:
        return ""
    if any(tried.outcome == "waiting" for tried in mark.result.properties):
        return ""
    why = f": {visible(mark.result.doubts[0])}" if mark.result.doubts else ""
    return f"A person will look at this exercise before more points count{why}."


def _own_cells(notebook: bytes) -> Iterator[dict[str, Any]]:
    """Yield what the student wrote: nbgrader's cells to answer in, and no other."""
    try:
        cells = json.loads(notebook)["cells"] if notebook else []
    except (ValueError, KeyError, TypeError, RecursionError):
        return
    for cell in cells:
        about = cell.get("metadata", {}).get("nbgrader", {})
        if about.get("solution") is not True or about.get("locked") is True:
            continue
        source, name = _text(cell.get("source")), one_line(str(about.get("grade_id", "")))
        if cell.get("cell_type") == "markdown":
            html = render_markdown(source, cell.get("attachments"))
            yield {"name": name, "kind": "markdown", "html": html}
        else:
            outputs = [_output(output) for output in cell.get("outputs", [])[:_MOST_OUTPUTS]]
            left = len(cell.get("outputs", [])) - len(outputs)
            if left:
                outputs.append(_words("", f"{left:,} outputs more"))
            source = visible(source, _MOST_CODE)
            yield {"name": name, "kind": "code", "source": source, "outputs": outputs}


def _output(output: Mapping[str, Any]) -> dict[str, str]:
    kind = output.get("output_type")
    if kind == "stream":
        return _words("it printed", printed(_text(output.get("text"))))
    if kind == "error":
        trace = "\n".join(map(str, output.get("traceback", [])))
        named = f"{output.get('ename', '')}: {output.get('evalue', '')}"
        return _words("it raised", printed(trace or named))
    data = output.get("data", {})
    for kind in ("image/png", "image/jpeg"):
        address = embed_picture(kind, _text(data.get(kind)))
        if address:
            return {"address": address}
    if "text/plain" in data:
        return _words("it showed", printed(_text(data["text/plain"])))
    return _words("it showed", f"(what is not shown here: {one_line(', '.join(map(str, data)))})")


def _words(heading: str, text: str) -> dict[str, str]:
    return {"address": "", "heading": heading, "text": text}


def _text(value: object) -> str:
    """Return a notebook's text, which may be kept as a list of lines."""
    if isinstance(value, list):
        return "".join(map(str, value))
    return value if isinstance(value, str) else ""
