"""Predict, then look: the reader says what will come before the cell's own result shows.

What is predicted is kept with the progress in a student's folder, and by the browser in the book.
It is never graded. Where no script runs, the result stands in a fold.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from helpers import progress_store
from helpers.backticks import to_html, to_plain
from helpers.explorables import stage

_NAME = re.compile(r"\d{2}/[a-z0-9]+(-[a-z0-9]+)*")


def predict(
    name: str,
    question: str,
    truth: str | float,
    reason: str,
    *,
    choices: Sequence[str] = (),
    between: tuple[float, float] | None = None,
    unit: str = "",
) -> None:
    """Ask ``question``, and show ``truth`` and ``reason`` once there is an answer.

    Args:
        name: what the prediction is kept under: the chapter's number, a slash and words, as in
            "05/last-batch".
        question: one sentence; code stands between backticks there, in choices and in the reason.
        truth: what the cell computed: one of ``choices``, or a number.
        reason: why it is so, in one or two sentences.
        choices: to choose from. Without any a number is asked for.
        between: the smallest and the largest number that can be predicted.
        unit: of the number.

    Raises:
        ValueError: if the name is malformed, the truth is none of the choices, or it is a number
            that lies outside, or has nothing to lie between.
    """
    _require_sense(name, truth, choices, between)
    if not isinstance(truth, str):
        truth = float(stage.shorten(truth))  # the digits behind differ between machines
    state = {
        "name": name,
        "question": question,
        "truth": truth,
        "reason": reason,
        "choices": list(choices),
        "between": list(between or ()),
        "unit": unit,
        "given": progress_store.current_store().prediction(name),
    }
    # What is stored in a notebook is the same whoever ran it: what was given is not there.
    stored = {**state, "given": None}
    said = f"{question} {_tell(truth, unit)}. {reason}"
    stage.show("prediction", stored, to_plain(said), _draw(stored), live=state, heard=_keep)


def predictions(chapter: str) -> None:
    """Show what was predicted in ``chapter``, by its number ("05"), beside what came."""
    kept = progress_store.current_store().predictions(f"{chapter}/")
    rows = [f"{to_plain(p['question'])} You: {p['given']}. It is: {p['truth']}." for p in kept]
    said = "\n".join(rows) or "Nothing has been predicted in this chapter yet."
    drawn = '<p class="bits-said">What you predicted in this chapter stands here.</p>'
    stored = {"chapter": chapter, "kept": None}
    live = {"chapter": chapter, "kept": kept}
    stage.show("predictions", stored, said, drawn, live=live)


def _require_sense(
    name: str,
    truth: str | float,
    choices: Sequence[str],
    between: tuple[float, float] | None,
) -> None:
    if not _NAME.fullmatch(name):
        raise ValueError(f'the name is "{name}"; write it as "05/last-batch"')
    if choices and truth not in choices:
        raise ValueError(f'the truth is "{truth}", which is none of the choices')
    if not choices and (between is None or not between[0] <= truth <= between[1]):
        raise ValueError(f"the truth is {truth}, which does not lie between {between}")


def _keep(state: dict[str, Any]) -> None:
    kept = {key: state[key] for key in ("question", "truth", "unit", "given")}
    progress_store.current_store().note_prediction(state["name"], kept)


def _tell(value: str | float, unit: str) -> str:
    if isinstance(value, str):
        return value
    return f"{stage.shorten(value)}{unit if unit in ('', '%') else ' ' + unit}"


def _draw(state: dict[str, Any]) -> str:
    offered = "".join(f"<li>{to_html(choice)}</li>" for choice in state["choices"])
    truth = to_html(_tell(state["truth"], state["unit"]))
    return (
        f'<p class="bits-question">{to_html(state["question"])}</p>'
        f"{f'<ul>{offered}</ul>' if offered else ''}"
        f"<details><summary>What came</summary><p><b>{truth}</b></p>"
        f"<p>{to_html(state['reason'])}</p></details>"
    )
