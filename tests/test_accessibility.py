"""Who cannot see, or uses no mouse, reads the book and the notebooks, too."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from course_files import CHAPTERS, release, source
from real_book import pages_of, sample_of

IMAGE = re.compile(r"<img\b[^>]*>")
ALTERNATIVE = re.compile(r'\balt="([^"]*)"')
# Opens all folds, and lets the page's scripts see what has changed.
OPEN_FOLDS = """() => {
    document.querySelectorAll('details').forEach(fold => { fold.open = true });
    return new Promise(go => requestAnimationFrame(() => requestAnimationFrame(go)));
}"""


# Looked at on one page: code, which is thousands of pieces in few colors, and the sidebar. Both are
# the same on every page.
SAME_EVERYWHERE = {"exclude": [["pre > code"], ["#mdbook-sidebar"]]}
# They take as long as all other rules together. Colors come from the same styles on each page, so
# a sample of the pages is looked at for these, in the light and in the dark.
OF_COLORS = ["color-contrast", "link-in-text-block"]
LOOKED_AT_WHOLE = f"{CHAPTERS[0]}/autograd.html"


def grave_faults(page, left_out: dict | None = None, **rules: object) -> list[str]:
    """Return what axe finds on a page and calls serious or critical; by all rules, or ``rules``."""
    options = {"resultTypes": ["violations"], "preload": False, **rules}
    found = Axe().run(page, context=left_out, options=options).response["violations"]
    return [
        f"{rule['id']}: {node['html'][:120]}"
        for rule in found
        if rule["impact"] in ("serious", "critical")
        for node in rule["nodes"]
    ]


@pytest.fixture
def open_page(browser) -> Iterator[Callable]:
    pages = []

    def open_one(width: int = 1280):
        pages.append(browser.new_page(viewport={"width": width, "height": 800}))
        return pages[-1]

    yield open_one
    for page in pages:
        page.close()


@pytest.mark.needs_system("chromium-headless-shell")
def test_a_fault_on_a_page_is_found(open_page) -> None:
    page = open_page()
    page.set_content(
        '<html lang="en"><title>t</title><main><h1>t</h1><img src="data:image/png;base64,AA">'
        '<p style="color: #aaa; background: #fff">too dim</p></main></html>'
    )
    assert {fault.partition(":")[0] for fault in grave_faults(page)} == {
        "color-contrast",
        "image-alt",
    }


def grave_faults_of(
    browser, book: Path, pages: list[Path], scheme: str, **rules: object
) -> dict[str, list[str]]:
    """Return, for each of ``pages`` that has any, its grave faults by ``rules``."""
    context = browser.new_context(
        viewport={"width": 1280, "height": 800}, color_scheme=scheme, reduced_motion="reduce"
    )
    page, faults = context.new_page(), {}
    for path in pages:
        name = path.relative_to(book).as_posix()
        page.goto(path.as_uri())
        page.evaluate(OPEN_FOLDS)
        left_out = None if name == LOOKED_AT_WHOLE else SAME_EVERYWHERE
        faults[name] = grave_faults(page, left_out, **rules)
    context.close()
    return {name: found for name, found in faults.items() if found}


@pytest.mark.needs_system("chromium-headless-shell")
@pytest.mark.parametrize("folder", ["", *CHAPTERS])
def test_no_page_of_the_book_has_a_grave_fault(browser, real_book: Path, folder: str) -> None:
    pages = [path for path in pages_of(real_book) if path.parent == real_book / folder]
    assert len(pages) > 5
    but_colors = {rule: {"enabled": False} for rule in OF_COLORS}
    assert grave_faults_of(browser, real_book, pages, "light", rules=but_colors) == {}


@pytest.mark.needs_system("chromium-headless-shell")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_kind_of_page_has_colors_that_are_hard_to_see(
    browser, real_book: Path, scheme: str
) -> None:
    pages = sample_of(real_book)
    assert real_book / LOOKED_AT_WHOLE in pages
    assert grave_faults_of(browser, real_book, pages, scheme, runOnly=OF_COLORS) == {}


@pytest.mark.needs_system("chromium-headless-shell")
def test_the_sidebar_opens_and_closes_by_keyboard(open_page, real_book: Path) -> None:
    page = open_page()
    page.goto((real_book / "index.html").as_uri())
    button = page.get_by_role("button", name="Toggle Table of Contents")
    before = button.get_attribute("aria-expanded")
    button.press("Enter")
    assert button.get_attribute("aria-expanded") != before
    button.press("Space")
    assert button.get_attribute("aria-expanded") == before


@pytest.mark.needs_system("chromium-headless-shell")
def test_code_scrolls_by_keyboard_where_it_is_too_wide(open_page, real_book: Path) -> None:
    page = open_page(390)
    page.goto((real_book / LOOKED_AT_WHOLE).as_uri())
    page.evaluate(OPEN_FOLDS)
    wide = "code => code.scrollWidth > code.clientWidth"
    codes = page.locator("main pre > code").all()
    reached = [code.get_attribute("tabindex") == "0" for code in codes]
    assert any(reached)
    assert reached == [code.evaluate(wide) for code in codes]


# Pictures


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_every_picture_of_a_notebook_says_what_it_shows(chapter: str) -> None:
    for notebook in (source(chapter), release(chapter)):
        for cell in notebook.cells:
            for output in cell.get("outputs", ()):
                forms = output.get("data", {})
                bare = [kind for kind in forms if kind.startswith("image/")]
                assert not bare, "show() gives a picture its text; a bare one has none"
                assert_described(forms.get("text/html", ""))
            if cell.cell_type == "markdown":
                assert_described(cell.source)


def test_every_picture_of_the_book_says_what_it_shows(real_book: Path) -> None:
    found = [assert_described(page.read_text("utf-8")) for page in pages_of(real_book)]
    assert sum(found) > 50


def assert_described(html: str) -> int:
    """Insist that each picture has an alternative text of some words; return their number."""
    pictures = IMAGE.findall(html)
    for picture in pictures:
        found = ALTERNATIVE.search(picture)
        assert found, picture[:200]
        assert len(found[1].split()) >= 5, found[0]
    return len(pictures)


@pytest.mark.parametrize("html", ['<img src="a">', '<img src="a" alt="">', '<img alt="A plot.">'])
def test_a_picture_that_says_too_little_is_found(html: str) -> None:
    with pytest.raises(AssertionError):
        assert_described(html)
