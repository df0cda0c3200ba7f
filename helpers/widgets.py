"""Something to play with: a live control where the front end has one, and a picture everywhere."""

from __future__ import annotations

import base64
import html
import io
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from helpers import plotting

if TYPE_CHECKING:
    from types import ModuleType

    from matplotlib.figure import Figure

# Where this is in the environment, the pictures of all positions are kept with the output: the book
# has no kernel that could draw them.
KEEP_POSITIONS = "BITS_KEEP_POSITIONS"
_SHADES = 64


def play(
    draw: Callable[[float], Figure],
    *,
    label: str,
    values: Sequence[float],
    start: float,
    alt: str,
    form: str = "{:g}",
) -> None:
    """Show ``draw(start)`` or, where ipywidgets is there, a slider that redraws it.

    Args:
        draw: returns the figure for one of ``values``.
        label: what the slider moves, with its unit.
        values: the positions of the slider.
        start: the position shown first, and the only one in print; one of ``values``.
        alt: the picture's alternative text at ``start``.
        form: how a value is written beside the slider.

    Raises:
        ValueError: if ``start`` is not one of ``values``.
    """
    if start not in values:
        raise ValueError(f"start is {start!r}, which is not one of the values {list(values)}")
    positions = None
    if KEEP_POSITIONS in os.environ:
        positions = _draw_all(draw, label, values, start, form)
    ipywidgets = _find_ipywidgets()
    figure = draw(start)
    live = ipywidgets and _make_slider(ipywidgets, draw, figure, label, values, start, form)
    plotting.show(figure, alt, live, positions)


def _draw_all(
    draw: Callable[[float], Figure],
    label: str,
    values: Sequence[float],
    start: float,
    form: str,
) -> dict:
    positions = []
    for value in values:
        figure = draw(value)
        picture = base64.b64encode(_render_small_png(figure)).decode()
        title = plotting.find_title(figure)
        positions.append({"value": form.format(value), "title": title, "png": picture})
    start_at = list(values).index(start)
    return {"bits": {"play": {"label": label, "start": start_at, "positions": positions}}}


def _render_small_png(figure: Figure) -> bytes:
    from PIL import Image

    small = io.BytesIO()
    with Image.open(io.BytesIO(plotting.render_png(figure))) as picture:
        picture.convert("RGB").quantize(_SHADES).save(small, format="png", optimize=True)
    return small.getvalue()


def ask(draw: Callable[[str], Figure], *, label: str, start: str, alt: str) -> None:
    """Show ``draw(start)`` or, where ipywidgets is there, a text box that redraws it.

    Args:
        draw: returns the figure for a text; raises a ValueError for one that it cannot read.
        label: what is to be typed.
        start: the text shown first, and the only one in print.
        alt: the picture's alternative text at ``start``.
    """
    ipywidgets = _find_ipywidgets()
    figure = draw(start)
    live = ipywidgets and _make_text_box(ipywidgets, draw, figure, label, start)
    plotting.show(figure, alt, live)


def _make_text_box(
    ipywidgets: ModuleType,
    draw: Callable[[str], Figure],
    figure: Figure,
    label: str,
    start: str,
) -> dict[str, dict]:
    box = ipywidgets.Text(
        value=start,
        description=label,
        continuous_update=False,
        style={"description_width": "initial"},
        layout={"width": "60%"},
    )
    complaint = ipywidgets.HTML()
    picture = _picture_of(ipywidgets, figure)

    def redraw(change: dict) -> None:
        try:
            picture.value = plotting.render_png(draw(change["new"]))
        except ValueError as error:
            complaint.value = f"This cannot be read: {html.escape(str(error))}"
        else:
            complaint.value = ""

    box.observe(redraw, names="value")
    return _live_form(ipywidgets.VBox([box, complaint, picture]))


def _make_slider(
    ipywidgets: ModuleType,
    draw: Callable[[float], Figure],
    figure: Figure,
    label: str,
    values: Sequence[float],
    start: float,
    form: str,
) -> dict[str, dict]:
    slider = ipywidgets.SelectionSlider(
        options=[(form.format(value), value) for value in values],
        value=start,
        description=label,
        style={"description_width": "initial"},
        layout={"width": "90%"},
    )
    picture = _picture_of(ipywidgets, figure)

    def redraw(change: dict) -> None:
        picture.value = plotting.render_png(draw(change["new"]))

    slider.observe(redraw, names="value")
    return _live_form(ipywidgets.VBox([slider, picture]))


def _live_form(widget: object) -> dict[str, dict]:
    return {kind: data for kind, data in widget._repr_mimebundle_().items() if "widget" in kind}


def _find_ipywidgets() -> ModuleType | None:
    try:
        import ipywidgets
    except ModuleNotFoundError:
        return None
    return ipywidgets


def _picture_of(ipywidgets: ModuleType, figure: Figure) -> object:
    layout = {"max_width": "100%", "width": "700px"}
    return ipywidgets.Image(value=plotting.render_png(figure), format="png", layout=layout)
