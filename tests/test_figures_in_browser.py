"""A figure in the pages that may hold it: it is as light or as dark as the page."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from PIL import Image

from helpers import new_figure, plotting
from helpers.drawings.inline import _read_svg
from helpers.figures import frame

pytestmark = pytest.mark.needs_system("chromium-headless-shell")

ALT = "A line that rises from one to three as time goes on."
DRAWN = "Two processes, each with three micro-batches."
PAGE = (18, 52, 86)
WHITE = (255, 255, 255)


@dataclass(frozen=True)
class Host:
    """A page that shows figures: how it says which theme it has, and which one it is."""

    html: str
    body: str
    dark: bool


def jupyter(light: str) -> str:
    return f'data-jp-theme-light="{light}"'


def code(kind: str) -> str:
    return f'class="vscode-body" data-vscode-theme-kind="vscode-{kind}"'


HOSTS = {
    "JupyterLab light": Host("", jupyter("true"), False),
    "JupyterLab dark": Host("", jupyter("false"), True),
    "VS Code light": Host("", code("light"), False),
    "VS Code dark": Host("", code("dark"), True),
    "VS Code high contrast": Host("", code("high-contrast"), True),
    "VS Code high contrast, light": Host("", code("high-contrast-light"), False),
    "Colab light": Host('theme="light"', "", False),
    "Colab dark": Host('theme="dark"', "", True),
    **{name: Host(f'class="js {name}"', "", False) for name in ("light", "rust")},
    **{name: Host(f'class="js {name}"', "", True) for name in ("navy", "coal", "ayu")},
}


@pytest.fixture(scope="module")
def figures() -> str:
    """Return a plot and a drawing, both with a caption, as HTML."""
    figure, axes = new_figure()
    axes.plot([0, 1], [1, 3], color="black")
    axes.set(title="A line", xlabel="time (s)", ylabel="height (m)")
    plot = frame.put_in_frame(
        plotting.draw_html(figure, ALT), frame.Label("5.1", "The line rises with time.")
    )
    drawing = frame.put_in_frame(
        _read_svg("05/no-sync", DRAWN), frame.Label("5.2", "With `no_sync`, ranks wait once.")
    )
    return plot + drawing


@pytest.fixture
def open_page(browser) -> Iterator:
    contexts = []

    def open_one(content: str, host: Host | None = None, scheme: str = "light", width: int = 800):
        contexts.append(
            browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        )
        page = contexts[-1].new_page()
        page_attributes, body_attributes = (host.html, host.body) if host else ("", "")
        page.set_content(
            f'<html {page_attributes}><body {body_attributes} style="background:rgb{PAGE}">'
            f"{content}</body></html>"
        )
        return page

    yield open_one
    for context in contexts:
        context.close()


def corner_of(picture) -> tuple[int, ...]:
    """Return the color that a reader sees in the corner of a picture."""
    image = Image.open(io.BytesIO(picture.screenshot(animations="disabled")))
    return image.convert("RGB").getpixel((2, 2))


def find_palette(page) -> str:
    box = page.locator("svg rect").first
    return box.evaluate("box => getComputedStyle(box).fill")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("host", HOSTS.values(), ids=list(HOSTS))
def test_a_figure_has_the_theme_of_its_page_whatever_the_system_has(
    open_page, figures: str, host: Host, scheme: str
) -> None:
    page = open_page(figures, host, scheme)
    picture = page.get_by_role("img", name=ALT)
    assert corner_of(picture) == (PAGE if host.dark else WHITE)
    assert find_palette(page) == ("rgb(0, 143, 224)" if host.dark else "rgb(0, 114, 178)")
    assert page.get_by_role("img").count() == 2, "each has its alternative text once"
    assert page.get_by_role("img", name=DRAWN).is_visible()


def test_where_no_theme_is_known_a_figure_is_as_the_system_is(open_page, figures: str) -> None:
    page = open_page(figures, scheme="light")
    assert corner_of(page.get_by_role("img", name=ALT)) == WHITE
    page = open_page(figures, scheme="dark")
    seen = corner_of(page.get_by_role("img", name=ALT))
    assert max(seen) < 50
    assert seen != PAGE, "it has a dark page of its own, in case the page is light"


def test_in_print_a_figure_is_light(open_page, figures: str) -> None:
    page = open_page(figures, HOSTS["navy"], "dark")
    page.emulate_media(media="print")
    page.evaluate("document.body.style.color = 'rgb(188, 189, 208)'")
    assert corner_of(page.get_by_role("img", name=ALT)) == WHITE
    assert corner_of(page.locator("figcaption").first) == WHITE
    assert find_palette(page) == "rgb(0, 114, 178)"
    ink = "box => getComputedStyle(box).color"
    assert page.locator("svg text").first.evaluate(ink) == "rgb(0, 0, 0)"


@pytest.mark.parametrize("taken_out", [r' style="[^"]*"', r' (?:style|class|width|height)="[^"]*"'])
def test_without_styles_one_picture_stays_and_it_is_light(
    open_page, figures: str, taken_out: str
) -> None:
    plot = figures[: figures.index("</figure>")]
    bare = re.sub(r"<style>.*?</style>", "", plot, flags=re.DOTALL)
    page = open_page(re.sub(taken_out, "", bare), HOSTS["JupyterLab dark"], "dark")
    (picture,) = page.locator("img").all()
    assert picture.get_attribute("alt") == ALT
    assert corner_of(picture) == WHITE


@pytest.mark.parametrize("width", [390, 1280])
def test_a_figure_fits_its_column_and_keeps_its_shape(open_page, figures: str, width: int) -> None:
    page = open_page(figures, width=width)
    column = page.locator("body").bounding_box()["width"]
    picture = page.get_by_role("img", name=ALT).bounding_box()
    assert picture["width"] == min(column, 700)
    assert picture["height"] == pytest.approx(picture["width"] * 340 / 700, abs=1)
    captions = page.locator("figure figcaption").all_inner_texts()
    assert captions == [
        "Figure 5.1 · The line rises with time.",
        "Figure 5.2 · With no_sync, ranks wait once.",
    ]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
