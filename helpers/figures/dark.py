"""A matplotlib figure for a dark page: light ink on a transparent face, in the same palette."""

from __future__ import annotations

import colorsys
import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.collections import Collection
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage
    from matplotlib.text import Text

# A page as dark pages are: between JupyterLab's (#111) and Colab's (#383838).
_PAGE = 0x1E / 255
# How light black and white become, between 0 and 1.
_BLACK, _WHITE = 0.9, 0.1
# Colors below this luminance are lightened. WCAG counts its contrast with the page as 4.5.
_DIMMEST = 0.24
_LARGEST_SPREAD_OF_A_GRAY = 0.1
# A picture of so few colors is a diagram, with a key that has the same colors; others are data.
_COLORS_OF_A_DIAGRAM = 16


class _Change(NamedTuple):
    """A color of an artist: how it is set, what it was, and what it becomes."""

    put: Callable[[object], None]
    before: object
    after: object


@contextmanager
def darkened(figure: Figure) -> Iterator[None]:
    """Give ``figure`` the colors of a dark page for a while.

    Black and white change places, and so do the grays. Dim colors are lightened; other colors,
    color maps and photographs stay as they are. Text inside a plot gets the color that is readable
    where it stands.

    Args:
        figure: one that has been drawn before, so that its ticks are there.
    """
    changes, layout = list(_find_changes(figure)), figure.get_layout_engine()
    inner = [text for axes in figure.axes for text in axes.texts if text.get_text().strip()]
    colors_on_light = [text.get_color() for text in inner]
    try:
        figure.set_layout_engine("none")
        for change in changes:
            change.put(change.after)
        if inner:
            backgrounds = _find_backgrounds(figure, inner)
            for text, color, behind in zip(inner, colors_on_light, backgrounds, strict=True):
                text.set_color(_more_readable(text.get_color(), color, behind))
        yield
    finally:
        for change in changes:
            change.put(change.before)
        figure.set_layout_engine(layout)


def darken(color: Sequence[float]) -> tuple[float, ...]:
    """Return what a color of a light page, in red, green, blue and alpha, becomes on a dark one."""
    *rgb, alpha = color
    if max(rgb) - min(rgb) <= _LARGEST_SPREAD_OF_A_GRAY:
        gray = _BLACK + (_WHITE - _BLACK) * sum(rgb) / 3
        return gray, gray, gray, alpha
    hue, lightness, saturation = colorsys.rgb_to_hls(*rgb)
    while _luminance(rgb) < _DIMMEST:
        lightness += 0.01
        rgb = colorsys.hls_to_rgb(hue, lightness, saturation)
    return *rgb, alpha


def _find_changes(figure: Figure) -> Iterator[_Change]:
    from matplotlib.collections import Collection
    from matplotlib.image import AxesImage
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch
    from matplotlib.text import Text

    faces = {axes.patch for axes in figure.axes}
    for artist in _find_artists(figure):
        if artist in faces:
            yield _Change(artist.set_facecolor, artist.get_facecolor(), "none")
        elif isinstance(artist, Collection | AxesImage) and artist.get_array() is not None:
            yield from _find_changes_of_data(artist)
        elif isinstance(artist, Text):
            yield from _find_own_changes(artist, "color")
        elif isinstance(artist, Line2D):
            names = "color", "markerfacecolor", "markeredgecolor"
            yield from _find_own_changes(artist, *names)
        elif isinstance(artist, Patch | Collection):
            yield from _find_own_changes(artist, "facecolor", "edgecolor")


def _find_artists(figure: Figure) -> Iterator[Artist]:
    for artist in figure.findobj():
        if artist is not figure.patch:
            yield artist
        # matplotlib does not count a text's box and arrow among its children.
        for part in ("_bbox_patch", "arrow_patch"):
            if getattr(artist, part, None) is not None:
                yield getattr(artist, part)


def _find_own_changes(artist: Artist, *names: str) -> Iterator[_Change]:
    from matplotlib.collections import Collection
    from matplotlib.colors import to_rgba_array

    for name in names:
        before = getattr(artist, f"get_{name}")()
        colors = to_rgba_array(before)
        # If the artist has an opacity of its own, a color that is set would get it, and show.
        if colors[:, 3].any():
            after = [darken(color) for color in colors]
            put = getattr(artist, f"set_{name}")
            yield _Change(put, before, after if isinstance(artist, Collection) else after[0])


def _find_changes_of_data(artist: Collection | AxesImage) -> Iterator[_Change]:
    from matplotlib.colors import ListedColormap, to_rgba_array

    data, colors = artist.get_array(), artist.get_cmap()
    if data.ndim == 3:
        scale = 255 if data.dtype == np.uint8 else 1
        few, places = np.unique(data.reshape(-1, data.shape[-1]), axis=0, return_inverse=True)
        if len(few) <= _COLORS_OF_A_DIAGRAM:
            after = np.array([darken(color) for color in to_rgba_array(few / scale)])
            yield _Change(artist.set_data, data, after[places.ravel()].reshape(*data.shape[:2], 4))
    elif isinstance(colors, ListedColormap) and len(colors.colors) <= _COLORS_OF_A_DIAGRAM:
        dark = ListedColormap([darken(color) for color in to_rgba_array(colors.colors)])
        yield _Change(artist.set_cmap, colors, dark)


def _find_backgrounds(figure: Figure, texts: list[Text]) -> list[np.ndarray]:
    """Return the color of most of what is behind each of ``texts``, on a dark page."""
    opacities = [text.get_alpha() for text in texts]
    for text in texts:
        text.set_alpha(0)
    page = _draw_on_page(figure)
    for text, opacity in zip(texts, opacities, strict=True):
        text.set_alpha(opacity)
    return [_find_color(page, text) for text in texts]


def _draw_on_page(figure: Figure) -> np.ndarray:
    """Return ``figure`` on a dark page as rows of red, green and blue, the lowest row first."""
    from PIL import Image

    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=figure.dpi, facecolor="none")
    drawn = np.asarray(Image.open(buffer).convert("RGBA")) / 255
    opacity = drawn[..., 3:]
    return (drawn[..., :3] * opacity + _PAGE * (1 - opacity))[::-1]


def _find_color(page: np.ndarray, text: Text) -> np.ndarray:
    from matplotlib.text import Text

    extent = Text.get_window_extent(text)  # an annotation's own has its arrow in it
    (left, bottom), (right, top) = extent.get_points().clip(0).astype(int)
    part = page[bottom : top + 1, left : right + 1].reshape(-1, 3)
    return np.median(part, axis=0) if len(part) else np.full(3, _PAGE)


def _more_readable(first: object, second: object, behind: np.ndarray) -> object:
    from matplotlib.colors import to_rgb

    def contrast(color: object) -> float:
        low, high = sorted((_luminance(to_rgb(color)), _luminance(behind)))
        return (high + 0.05) / (low + 0.05)

    return max(first, second, key=contrast)


def _luminance(rgb: Sequence[float]) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in rgb]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
