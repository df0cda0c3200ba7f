"""What explorables share: one module of JavaScript, live in a notebook, in the book and on Colab.

In a notebook anywidget starts the module, in the book and on Colab the page itself does. Where
neither can, a still picture stands there.
"""

from __future__ import annotations

import html
import json
import math
import re
import sys
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Context
from functools import cache
from pathlib import Path
from typing import Any

from helpers import display

_WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
# Not of the style sheets, which name explorables, too.
_PLACE = re.compile(r'<div class="bits-explorable" data-explorable="(\w+)"')

# What an explorable starts from and reports of itself: what JSON can carry.
State = dict[str, Any]


def show(
    name: str,
    state: State,
    said: str,
    drawn: str,
    *,
    live: State | None = None,
    heard: Callable[[State], None] | None = None,
) -> None:
    """Show the explorable ``name``, live where the front end can.

    Args:
        name: of its files in this folder.
        state: what it starts from.
        said: the same in words, for front ends that have nothing else.
        drawn: the still picture, as HTML.
        live: what it starts from in a notebook, where that is more than is to be stored there.
        heard: called in a notebook with each new state.
    """
    picture = set_up(name, state, drawn)
    if "google.colab" in sys.modules:
        # A widget of one's own needs a network there; a page's own script does not.
        display.show(said, picture + start_script([name]))
    else:
        display.show(said, picture, _make_live(name, live or state, heard))


def set_up(name: str, state: State, drawn: str) -> str:
    """Return the explorable as HTML that does nothing yet: its still picture, and its state."""
    return (
        f"<style>{read_style(name)}</style>\n"
        f'<div class="bits-explorable" data-explorable="{name}" '
        f'data-state="{html.escape(json.dumps(state))}">{drawn}</div>'
    )


def shorten(number: float) -> str:
    """Return ``number`` as explorables write it: with three digits, and all before the point."""
    if not math.isfinite(number):
        return f"{number:g}"
    if abs(number) >= 1000:
        return f"{math.floor(number + 0.5)}"
    # JavaScript rounds ties away from zero.
    rounded = Context(prec=3, rounding=ROUND_HALF_UP).create_decimal_from_float(number)
    return f"{rounded.normalize():f}"


def list_words(words: Sequence[str], last: str = "and") -> str:
    """Return words as a list in a sentence, with ``last`` before the last one."""
    return "".join(words) if len(words) < 2 else f"{', '.join(words[:-1])} {last} {words[-1]}"


def find_explorables(page: str) -> list[str]:
    """Return the names of the explorables that stand in ``page``, each once."""
    return list(dict.fromkeys(_PLACE.findall(page)))


def start_script(names: list[str]) -> str:
    """Return the scripts that bring the explorables of a page to life, without any other file."""
    return "\n".join(
        f'<script type="module">\n{read_module(name)}\nmountAll(document, "{name}", mount);\n'
        "</script>"
        for name in names
    )


@cache
def read_module(name: str) -> str:
    """Return the explorable as one module of JavaScript, which exports what it computes with.

    A module that begins with "// With floats.js." shares that file with others.
    """
    own = _read(f"{name}.js")
    shared = [_read(file) for file in re.findall(r"^// With (\w+\.js)\.", own)]
    return "\n".join([_read("stage.js"), *shared, own])


@cache
def read_style(name: str) -> str:
    """Return the explorable's style sheet."""
    return f"{_read('stage.css')}\n{_read(f'{name}.css')}"


def _make_live(
    name: str, state: State, heard: Callable[[State], None] | None
) -> dict[str, dict] | None:
    try:
        widget = _widget_class(name)(state=state)
    except ModuleNotFoundError:
        return None
    if heard is not None:
        widget.observe(lambda change: heard(change["new"]), "state")
    view = {"version_major": 2, "version_minor": 0, "model_id": widget.model_id}
    return {_WIDGET_VIEW: view}


@cache
def _widget_class(name: str) -> type:
    import anywidget
    import traitlets

    class Explorable(anywidget.AnyWidget):
        _esm = f"{read_module(name)}\nexport default asWidget(mount);\n"
        _css = read_style(name)
        state = traitlets.Dict().tag(sync=True)

    return Explorable


def _read(file: str) -> str:
    return Path(__file__).with_name(file).read_text(encoding="utf-8")
