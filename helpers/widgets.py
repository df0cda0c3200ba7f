"""Something to play with: a live control where the front end has one, and a picture everywhere."""

from __future__ import annotations

import html
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from helpers import plotting
from helpers.figures import frame

if TYPE_CHECKING:
    from types import ModuleType

    from matplotlib.figure import Figure

# Where this is in the environment, the pictures of all positions are kept with the output: the book
# has no kernel that could draw them.
KEEP_POSITIONS = "BITS_KEEP_POSITIONS"


def play(
    draw: Callable[[float], Figure],
    *,
    label: str,
    values: Sequence[float],
    start: float,
    alt: str,
    form: str = "{:g}",
    number: str = "",
    caption: str = "",
) -> None:
    """Show ``draw(start)`` or, where ipywidgets is there, a slider that redraws it.

    Args:
        draw: returns the figure for one of ``values``.
        label: what the slider moves, with its unit.
        values: the positions of the slider.
        start: the position shown first, and the only one in print; one of ``values``.
        alt: the picture's alternative text at ``start``.
        form: how a value is written beside the slider.
        number: the figure's number, as for ``show``.
        caption: the figure's caption, as for ``show``.

    Raises:
        ValueError: if ``start`` is not one of ``values``, or as for ``show``.
    """
    if start not in values:
        raise ValueError(f"start is {start!r}, which is not one of the values {list(values)}")
    positions = {}
    if KEEP_POSITIONS in os.environ:
        positions = {"play": _draw_all(draw, label, values, start, form)}
    figure = _RedrawnFigure(draw, start, alt, frame.Label(number, caption))
    ipywidgets = _find_ipywidgets()
    live = ipywidgets and _make_slider(ipywidgets, figure, label, values, form)
    frame.show(figure.picture, alt, figure.label, live, positions)


def ask(
    draw: Callable[[str], Figure],
    *,
    label: str,
    start: str,
    alt: str,
    number: str = "",
    caption: str = "",
) -> None:
    """Show ``draw(start)`` or, where ipywidgets is there, a text box that redraws it.

    Args:
        draw: returns the figure for a text; raises a ValueError for one that it cannot read.
        label: what is to be typed.
        start: the text shown first, and the only one in print.
        alt: the picture's alternative text at ``start``.
        number: the figure's number, as for ``show``.
        caption: the figure's caption, as for ``show``.

    Raises:
        ValueError: as for ``show``.
    """
    figure = _RedrawnFigure(draw, start, alt, frame.Label(number, caption))
    ipywidgets = _find_ipywidgets()
    live = ipywidgets and _make_text_box(ipywidgets, figure, label)
    frame.show(figure.picture, alt, figure.label, live)


class _RedrawnFigure:
    """A figure that is drawn for one value after another."""

    def __init__(
        self, draw: Callable[[Any], Figure], start: object, alt: str, label: frame.Label
    ) -> None:
        self._draw = draw
        self.start = start
        self.label = label
        figure = draw(start)
        plotting.require_words(figure, alt)
        self.picture = plotting.draw_html(figure, alt)

    def draw(self, value: object) -> str:
        """Return the figure for ``value``, as HTML in its frame."""
        picture = self.picture
        if value != self.start:
            figure = self._draw(value)
            picture = plotting.draw_html(figure, plotting.find_title(figure))
        return frame.put_in_frame(picture, self.label)


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
        title, (light, dark) = plotting.find_title(figure), plotting.draw_both(figure)
        positions.append(
            {"value": form.format(value), "title": title, "light": light, "dark": dark}
        )
    return {"label": label, "start": list(values).index(start), "positions": positions}


def _make_text_box(ipywidgets: ModuleType, figure: _RedrawnFigure, label: str) -> dict[str, dict]:
    box = ipywidgets.Text(
        value=figure.start,
        description=label,
        continuous_update=False,
        style={"description_width": "initial"},
        layout={"width": "60%"},
    )
    complaint = ipywidgets.HTML()
    picture = ipywidgets.HTML(figure.draw(figure.start))

    def redraw(change: dict) -> None:
        try:
            picture.value = figure.draw(change["new"])
        except ValueError as error:
            complaint.value = f"This cannot be read: {html.escape(str(error))}"
        else:
            complaint.value = ""

    box.observe(redraw, names="value")
    return _live_form(ipywidgets.VBox([box, complaint, picture]))


def _make_slider(
    ipywidgets: ModuleType,
    figure: _RedrawnFigure,
    label: str,
    values: Sequence[float],
    form: str,
) -> dict[str, dict]:
    slider = ipywidgets.SelectionSlider(
        options=[(form.format(value), value) for value in values],
        value=figure.start,
        description=label,
        style={"description_width": "initial"},
        layout={"width": "90%"},
    )
    picture = ipywidgets.HTML(figure.draw(figure.start))

    def redraw(change: dict) -> None:
        picture.value = figure.draw(change["new"])

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
