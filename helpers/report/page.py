"""The report as HTML, for front ends that have a display for it: no script, every word escaped."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence

from helpers.catalogue import Exercise
from helpers.report import told
from helpers.report.result import Result

# A front end's text is black or white, and nothing here knows which. A color that is mixed with it
# is dark on light and light on dark; a browser that cannot mix takes the plain one before it.
_COLORS = {
    "passed": ("#009e73", 65),
    "failed": ("#e05a00", 72),
    "not tried": ("#808080", 60),
    "waiting": ("#0072b2", 60),
}
_MONO = "font-family:ui-monospace,Menlo,Consolas,monospace;font-size:.92em"
_STYLES = {
    "bits-report": (
        "border:1px solid rgba(128,128,128,.5);padding:.5em .9em;border-radius:4px;"
        "max-width:60em;line-height:1.4;overflow-wrap:anywhere"
    ),
    "head": "display:flex;justify-content:space-between;gap:0 1em;flex-wrap:wrap",
    "property": "margin-top:.4em",
    "under": "margin-left:1.5em",
    "problem": f"margin-left:1.5em;font-weight:bold;{_MONO};white-space:pre-wrap",
    "row": "display:flex;flex-wrap:wrap;gap:0 .8em",
    "label": "flex:0 0 5.2em;opacity:.75",
    "value": f"flex:1 1 16em;min-width:0;white-space:pre-wrap;{_MONO}",
    "folded": "max-height:14em;overflow:auto",
    "dim": "opacity:.75",
    "foot": "margin-top:.5em;border-top:1px solid rgba(128,128,128,.3);padding-top:.3em",
}
_HINT_MARKS = (
    (re.compile(r"`([^`]+)`"), r"<code>\1</code>"),
    (re.compile(r"\*\*([^*]+)\*\*"), r"<b>\1</b>"),
    (re.compile(r"(?<![\w*])\*([^*\s][^*]*)\*(?![\w*])"), r"<i>\1</i>"),
)


def as_html(exercise: Exercise, results: Sequence[Result], points: float, note: str = "") -> str:
    """Return the report as HTML."""
    outcome = "passed" if points >= exercise.points else "failed"
    order = told.arrange(map(told.tell, results))
    title, score = told.heading(exercise, results, points)
    sign = _span("sign", _color(outcome), told.SIGNS[outcome])
    head = f"<b>{sign} {html.escape(title)}</b> <b>{html.escape(score)}</b>"
    above = [_div("head", head)]
    if note:
        above.append(_div("property", f"<b>Note:</b> {html.escape(note)}"))
    content = [*above, *_properties(order), *_closing(exercise, results, order)]
    border = f"{_color(outcome, 'border-left-color')};border-left-width:4px"
    return _div("bits-report", "".join(content), border)


def render_hints(hints: Sequence[str], stage: int = 1) -> str:
    """Return folds with the hints, each of which is seen in the one before it alone."""
    if stage > len(hints):
        return ""
    summary = f"Hint {stage} of {len(hints)}"
    summary = f"Stuck? {summary}" if stage == 1 else summary
    text = _hint_as_html(hints[stage - 1])
    return _fold(summary, _div("under", text + render_hints(hints, stage + 1)))


def _properties(order: told.Order) -> Iterator[str]:
    for number, failed in enumerate(order.failures):
        yield _claim(failed)
        yield _div("problem", html.escape(failed.problem), _color("failed"))
        yield from map(_row, failed.shows if number == 0 else failed.shows[:1])
        if failed.inputs:
            yield _rows_folded(f"fed in: {failed.input_names}", failed.inputs)
        if failed.values:
            yield _rows_folded(failed.values_named, failed.values)
    for reason, waiting in told.waiting_by_reason(order):
        yield from map(_claim, waiting)
        yield _div("under", html.escape(reason))
    yield from _claims_folded("failed", told.more_fail(order), order.more)
    yield from _claims_folded("not tried", told.not_tried(order), order.not_tried)
    if order.failures:
        yield from _claims_folded("passed", f"{len(order.passed)} hold", order.passed)
    else:
        yield from map(_claim, order.passed)


def _closing(exercise: Exercise, results: Sequence[Result], order: told.Order) -> Iterator[str]:
    if left := told.what_is_left(exercise, results):
        yield _div("property", html.escape(left))
    for what, lines in told.noise(results):
        shown = "".join(_div("value", html.escape(line)) for line in lines)
        count = f"{what}: {len(lines)} {'line' if len(lines) == 1 else 'lines'}"
        yield _div("property", _fold(count, _div("folded", shown)))
    foot = [_div("again", html.escape(again))] if (again := told.again(exercise, results)) else []
    if order.failures:
        foot.append(render_hints(exercise.hints))
    if foot:
        yield _div("foot", "".join(foot))


def _claim(each: told.Told) -> str:
    sign = _span("sign", f"{_color(each.outcome)};font-weight:bold", told.SIGNS[each.outcome])
    sign = sign.replace("<span", f'<span role="img" aria-label="{each.outcome}"', 1)
    return _div("property", f"{sign} {html.escape(each.claim)}")


def _claims_folded(outcome: str, summary: str, claims: Sequence[told.Told]) -> Iterator[str]:
    if not claims:
        return
    sign = _span("sign", f"{_color(outcome)};font-weight:bold", told.SIGNS[outcome])
    lines = "".join(_div("under", html.escape(each.claim)) for each in claims)
    yield _div("property", _fold(f"{sign} {html.escape(summary)}", lines, is_html=True))


def _rows_folded(summary: str, rows: told.Rows) -> str:
    return _div("under", _fold(summary, _div("folded", "".join(map(_row, rows)))))


def _row(row: tuple[str, str]) -> str:
    label, value = (html.escape(part) for part in row)
    return _div("under", _div("row", _span("label", "", label) + _span("value", "", value)))


def _fold(summary: str, content: str, *, is_html: bool = False) -> str:
    shown = summary if is_html else _span("dim", "", html.escape(summary))
    return f'<details><summary style="cursor:pointer">{shown}</summary>{content}</details>'


def _hint_as_html(hint: str) -> str:
    text = html.escape(hint)
    for mark, meaning in _HINT_MARKS:
        text = mark.sub(meaning, text)
    return f"<div>{text}</div>"


def _div(name: str, content: str, style: str = "") -> str:
    return f"<div{_styled(name, style)}>{content}</div>"


def _span(name: str, style: str, content: str) -> str:
    return f"<span{_styled(name, style)}>{content}</span>"


def _styled(name: str, style: str) -> str:
    # A name for those who look for it: tests, and a front end's own style sheet.
    style = ";".join(filter(None, (_STYLES.get(name, ""), style)))
    named = f' class="{name if name == "bits-report" else f"bits-{name}"}"'
    return named + (f' style="{style}"' if style else "")


def _color(outcome: str, what: str = "color") -> str:
    color, share = _COLORS[outcome]
    return f"{what}:{color};{what}:color-mix(in srgb,{color} {share}%,currentColor)"
