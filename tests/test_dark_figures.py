"""Figures on a dark page: what was black is light, colors stay known, text can be read."""

from __future__ import annotations

import base64
import colorsys
import contextlib
import io
import re
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_rgb, to_rgba
from PIL import Image

from helpers import COLORS, new_figure, plotting
from helpers.figures import frame
from helpers.figures.dark import darken, darkened
from helpers.figures.small import compress

PAGES = {"JupyterLab": "#111111", "the book": "#161923", "VS Code": "#1e1e1e"}
STYLE = Path(frame.__file__).with_name("frame.css").read_text(encoding="utf-8")


def luminance(color: object) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(color)]
    return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))


def contrast(first: object, second: object) -> float:
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


def bars() -> object:
    """Return a figure with a bar of each color, and black and white text on each bar."""
    figure, axes = new_figure(height=4.6)
    for row, color in enumerate([*COLORS.values(), "#dddddd", "white"]):
        axes.barh(row, 1, color=color, edgecolor="black")
        for place, ink in ((0.1, "black"), (0.5, "white")):
            axes.text(place, row, "a text", color=ink, va="center")
    axes.axvline(0.3, color="gray", label="a line")
    axes.legend()
    axes.set(title="Bars", xlabel="length (m)", ylabel="bar")
    return figure


def drawn(figure: object) -> object:
    plotting.render_png(figure)
    return figure


@pytest.mark.parametrize("page", PAGES.values(), ids=list(PAGES))
@pytest.mark.parametrize("name", COLORS)
def test_every_color_of_the_palette_can_be_seen_and_known(name: str, page: str) -> None:
    color = darken(to_rgba(COLORS[name]))
    assert contrast(color[:3], page) > 4.4
    if name == "black":
        assert min(color[:3]) > 0.8
    else:
        hues = [colorsys.rgb_to_hls(*rgb)[0] for rgb in (color[:3], to_rgb(COLORS[name]))]
        assert hues[0] == pytest.approx(hues[1], abs=0.02)


def test_the_palette_of_drawings_is_that_of_plots() -> None:
    for name, color in COLORS.items():
        if name == "black":
            continue
        light, dark = to_rgb(color), darken(to_rgba(color))[:3]
        (written,) = re.findall(rf"--bits-{name}: (.+);", STYLE)
        given = re.findall(r"#[0-9a-f]{6}", written)
        assert to_rgb(given[0]) == light
        assert to_rgb(given[-1]) == pytest.approx(dark, abs=1 / 255)


def test_gray_keeps_its_opacity_and_its_distance_from_black() -> None:
    shades = [darken((gray, gray, gray, 0.3)) for gray in (0, 0.5, 1)]
    assert [shade[3] for shade in shades] == [0.3] * 3
    assert shades[0][0] > shades[1][0] > shades[2][0]


def test_text_on_a_bar_can_be_read() -> None:
    figure = drawn(bars())
    axes = figure.axes[0]
    with darkened(figure):
        faces = [bar.get_facecolor() for bar in axes.patches for _ in range(2)]
        colors = [text.get_color() for text in axes.texts]
    assert len(faces) == len(colors) == 2 * (len(COLORS) + 2)
    assert min(contrast(*pair) for pair in zip(faces, colors, strict=True)) > 4.4


def test_text_that_reaches_over_the_edges_of_its_bar_can_be_read() -> None:
    figure, axes = new_figure()
    (bar,) = axes.barh(0, 1, height=0.037, color=COLORS["blue"])
    text = axes.text(0.5, 0, "a text", color="white", va="center")
    axes.set_ylim(-0.5, 0.5)
    drawn(figure)
    assert text.get_window_extent().height > 1.1 * bar.get_window_extent().height
    with darkened(figure):
        assert contrast(bar.get_facecolor(), text.get_color()) > 4.4


def test_text_on_a_picture_and_in_a_box_can_be_read() -> None:
    figure, axes = new_figure()
    axes.imshow([[0, 1]], cmap="gray")
    on_black = axes.text(0, 0, "on black", color="white", ha="center")
    on_white = axes.text(1, 0, "on white", color="black", ha="center")
    arrow = {"arrowstyle": "->"}
    in_box = axes.annotate(
        "in a box", (1.4, 0.4), (-0.4, -0.4), arrowprops=arrow, bbox={"fc": COLORS["sky"]}
    )
    drawn(figure)
    with darkened(figure):
        assert luminance(on_black.get_color()) > 0.7
        assert luminance(on_white.get_color()) < 0.1
        assert luminance(in_box.get_color()) < 0.1
        assert luminance(in_box.arrow_patch.get_edgecolor()) > 0.7


def test_what_is_not_filled_stays_so() -> None:
    figure, axes = new_figure()
    (bar,) = axes.barh(0, 1, color="none", edgecolor=COLORS["orange"], alpha=0.85)
    drawn(figure)
    for state in (darkened(figure), contextlib.nullcontext()):
        with state:
            assert bar.get_facecolor()[3] == 0


def test_contours_of_one_color_become_light_and_those_of_a_map_stay() -> None:
    figure, (left, right) = new_figure(1, 2)
    heights = np.add.outer(np.arange(5), np.arange(5))
    black = left.contour(heights, colors="black")
    mapped = right.contour(heights, cmap="viridis")
    drawn(figure)
    before = str(mapped.get_edgecolor())
    with darkened(figure):
        plotting.render_png(figure)
        assert luminance(black.get_edgecolor()[0][:3]) > 0.7
        assert str(mapped.get_edgecolor()) == before
    plotting.render_png(figure)
    assert luminance(black.get_edgecolor()[0][:3]) == 0


@pytest.mark.parametrize("scale", [1, 255])
def test_a_diagram_of_few_colors_changes_with_its_key_and_a_photograph_does_not(
    scale: int,
) -> None:
    figure, (left, right) = new_figure(1, 2)
    kind = np.uint8 if scale == 255 else np.float32
    gray_and_blue = np.array([[[0.8, 0.8, 0.8], to_rgb(COLORS["blue"])]]) * scale
    photograph = np.random.default_rng(0).random((9, 9, 3)) * scale
    diagram = left.imshow(gray_and_blue.astype(kind))
    picture = right.imshow(photograph.astype(kind))
    (key,) = left.plot([0], [0], "s", color=(0.8, 0.8, 0.8))
    drawn(figure)
    before = picture.get_array().copy(), diagram.get_array().copy()
    with darkened(figure):
        shown = diagram.get_array()[0, 0][:3]
        assert tuple(shown) == pytest.approx(to_rgb(key.get_color()), abs=0.01)
        assert np.array_equal(picture.get_array(), before[0])
    assert np.array_equal(diagram.get_array(), before[1])


def test_what_stands_outside_of_the_plots_is_light() -> None:
    figure = drawn(bars())
    axes = figure.axes[0]
    with darkened(figure):
        words = [axes.title, axes._left_title, axes.xaxis.label, *axes.get_yticklabels()]
        words += axes.get_legend().get_texts()
        assert all(luminance(word.get_color()) > 0.7 for word in words)
        assert luminance(axes.spines["left"].get_edgecolor()) > 0.7


def test_the_page_shines_through_the_dark_picture_alone() -> None:
    light, dark = (opacity_of(picture) for picture in plotting.draw_both(bars()))
    assert light.min() == 255
    assert dark[0, 0] == dark[-1, -1] == 0
    assert dark.max() == 255


def opacity_of(picture: str) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(picture))).convert("RGBA"))[..., 3]


def all_colors(figure: object) -> list:
    names = ("color", "facecolor", "edgecolor", "markerfacecolor", "markeredgecolor", "alpha")
    return [
        (type(artist), name, str(getattr(artist, f"get_{name}")()))
        for artist in figure.findobj()
        for name in names
        if hasattr(artist, f"get_{name}")
    ]


def test_a_figure_gets_its_colors_back_whatever_happens() -> None:
    figure = drawn(bars())
    before, layout = all_colors(figure), figure.get_layout_engine()

    def fail_in_the_dark() -> None:
        with darkened(figure):
            assert all_colors(figure) != before
            raise KeyError

    with pytest.raises(KeyError):
        fail_in_the_dark()
    assert all_colors(figure) == before
    assert figure.get_layout_engine() is layout


# Small pictures


def as_png(pixels: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels.astype(np.uint8), "RGBA").save(buffer, format="png")
    return buffer.getvalue()


def test_a_small_picture_looks_the_same() -> None:
    ramp = np.linspace(0, 255, 256)
    pixels = np.zeros((64, 256, 4))
    pixels[..., :3], pixels[..., 3] = ramp[:, None], 255
    pixels[32:, :128] = (230, 100, 0, 128)
    pixels[32:, 128:] = 0
    small = compress(as_png(pixels))
    assert small == compress(as_png(pixels))
    seen = np.asarray(Image.open(io.BytesIO(small)).convert("RGBA")).astype(float)
    assert np.abs(seen[:32] - pixels[:32]).max() < 8
    assert np.abs(seen[32:, :128] - (230, 100, 0, 128)).max() <= 2
    assert not seen[32:, 128:, 3].any()
