"""How far a reader of the book scrolls without a picture, in chapters of the second edition."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page
from real_book import served
from test_second_edition import SECOND

pytestmark = pytest.mark.needs_system("chromium-headless-shell")

WIDTH, HEIGHT = 1280, 800
MOST_SCREENS = 4.0
# The heights, in pixels, between one picture and the next, and from and to the page's ends.
STRETCHES = """() => {
    const main = document.querySelector("main").getBoundingClientRect();
    const pictures = [...document.querySelectorAll("main :is(figure, img, .bits-explorable)")]
        .map((picture) => picture.getBoundingClientRect())
        .filter((box) => box.height > 60)
        .sort((one, other) => one.top - other.top);
    let end = main.top;
    return [...pictures, { top: main.bottom, bottom: main.bottom }].map(({ top, bottom }) => {
        const stretch = top - end;
        end = Math.max(end, bottom);
        return stretch;
    });
}"""

TAKE_AWAY = """() => document.querySelectorAll("main :is(figure, img, .bits-explorable)")
    .forEach((picture) => picture.remove())"""


@pytest.fixture(scope="module")
def page(browser, real_book: Path) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": WIDTH, "height": HEIGHT})
    with served(real_book) as address:
        page = context.new_page()
        page.address = address
        yield page
    context.close()


def most_screens(page: Page, name: str, *, takes_away: bool = False) -> float:
    """Return the longest stretch of a page without a picture, in screens; where all pictures are
    taken away first, that is its whole height.
    """
    page.goto(f"{page.address}/{name}")
    page.evaluate("document.fonts.ready")
    if takes_away:
        page.evaluate(TAKE_AWAY)
    return max(page.evaluate(STRETCHES)) / HEIGHT


def sections(book: Path, chapter: str) -> list[str]:
    return [f"{chapter}/{path.name}" for path in sorted((book / chapter).glob("*.html"))]


@pytest.mark.parametrize("chapter", SECOND)
def test_a_reader_meets_a_picture_every_few_screens(
    page: Page, real_book: Path, chapter: str
) -> None:
    found = {name: most_screens(page, name) for name in sections(real_book, chapter)}
    assert {name: f"{n:.1f}" for name, n in found.items() if n > MOST_SCREENS} == {}


def test_a_long_stretch_is_found(page: Page, real_book: Path) -> None:
    names = (name for chapter in SECOND[::-1] for name in sections(real_book, chapter))
    assert any(most_screens(page, name, takes_away=True) > MOST_SCREENS for name in names)
