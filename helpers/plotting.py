"""Figures in one style: title, axes, units, colors for color-blind eyes, and alternative text."""

from __future__ import annotations

import base64
import html
import io
from typing import TYPE_CHECKING

from helpers.figures import frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito, "Color Universal Design" (2008), in the order in which a figure uses them.
COLORS = {
    "blue": "#0072B2",
    "vermilion": "#D55E00",
    "green": "#009E73",
    "orange": "#E69F00",
    "purple": "#CC79A7",
    "sky": "#56B4E9",
    "black": "#000000",
}
_STYLE = {
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 11,
    "figure.facecolor": "white",
    "font.size": 10,
    "grid.alpha": 0.3,
    "lines.linewidth": 1.8,
}
_PIXELS_PER_INCH = 100
_SHARPNESS = 2


def new_figure(
    rows: int = 1, columns: int = 1, *, width: float = 7.0, height: float = 3.4, **subplots: object
) -> tuple[Figure, Axes]:
    """Return a figure in the course's style with its axes, as ``plt.subplots`` does.

    ``width`` and ``height`` are the whole figure's, in inches; 7 fits a notebook's column.
    """
    import matplotlib as mpl
    from cycler import cycler
    from matplotlib.figure import Figure

    with mpl.rc_context({**_STYLE, "axes.prop_cycle": cycler(color=list(COLORS.values()))}):
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.subplots(rows, columns, **subplots)
    return figure, axes


def show(figure: Figure, alt: str, *, number: str = "", caption: str = "") -> None:
    """Show ``figure`` in the colors of the reader's theme, with its alternative text.

    Args:
        figure: made by ``new_figure``.
        alt: what the picture shows, for those who do not see it.
        number: the chapter's number and the figure's, as in "5.2"; it comes with a caption.
        caption: what to see in the figure; code stands between backticks.

    Raises:
        ValueError: if ``alt`` says too little, a plot lacks a title or an axis label, the number
            is malformed, or a number or a caption comes alone.
    """
    label = frame.Label(number, caption)
    require_words(figure, alt)
    frame.show(draw_html(figure, alt), alt, label)


def require_words(figure: Figure, alt: str) -> None:
    """Insist that ``figure`` can be understood.

    Raises:
        ValueError: if ``alt`` says too little, or a plot lacks a title or an axis label.
    """
    frame.require_alternative(alt)
    plots = [axes for axes in figure.axes if axes.axison and not hasattr(axes, "_colorbar")]
    if not find_title(figure):
        raise ValueError("the figure has no title")
    for axes in plots:
        if not (axes.get_xlabel() or axes.get_shared_x_axes().get_siblings(axes)[1:]):
            raise ValueError(f'the plot "{_title(axes)}" has no label on its x axis')
        if not (axes.get_ylabel() or axes.get_shared_y_axes().get_siblings(axes)[1:]):
            raise ValueError(f'the plot "{_title(axes)}" has no label on its y axis')


def draw_html(figure: Figure, alt: str) -> str:
    """Return ``figure`` as an HTML image for light pages that a style can turn dark.

    Where styles are taken out, as in a notebook that is not trusted, it is the light one.
    """
    light, dark = (f"data:image/png;base64,{picture}" for picture in draw_both(figure))
    width, height = (round(size * _PIXELS_PER_INCH) for size in figure.get_size_inches())
    return (
        f'<img alt="{html.escape(alt, quote=True)}" width="{width}" height="{height}" '
        f'style="max-width:100%;height:auto;--bits-dark-picture:url({dark})" src="{light}">'
    )


def draw_both(figure: Figure) -> tuple[str, str]:
    """Return ``figure`` for light and for dark pages: small PNG files in base64."""
    from helpers.figures.dark import darkened
    from helpers.figures.small import compress

    light = compress(render_png(figure))
    with darkened(figure):
        dark = compress(render_png(figure, facecolor="none"))
    return base64.b64encode(light).decode(), base64.b64encode(dark).decode()


def find_title(figure: Figure) -> str:
    """Return the title of ``figure``, or of the first of its plots that has one."""
    titles = [figure.get_suptitle(), *map(_title, figure.axes)]
    return next(filter(None, titles), "")


def render_png(figure: Figure, **options: object) -> bytes:
    """Return ``figure`` as PNG, the same bytes for the same figure.

    ``options`` go to ``Figure.savefig``.
    """
    _finish_style(figure)
    buffer = io.BytesIO()
    # Without metadata: matplotlib would write its version into the file.
    figure.savefig(
        buffer,
        format="png",
        dpi=_PIXELS_PER_INCH * _SHARPNESS,
        metadata={"Software": None},
        **options,
    )
    return buffer.getvalue()


def _finish_style(figure: Figure) -> None:
    """Style what is made after ``new_figure``: a figure's settings do not reach that far."""
    for axes in figure.axes:
        legend = axes.get_legend()
        if legend is not None:
            legend.set_frame_on(False)
        centered = axes.get_title("center")
        if centered and not axes.get_title("left"):
            axes.set_title("", loc="center")
            axes.set_title(centered, loc="left")


def _title(axes: Axes) -> str:
    return axes.get_title("left") or axes.get_title("center") or axes.get_title("right")
