"""Every page of the course's own book, on a phone and on a desk, in light and in dark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = [pytest.mark.needs_system("chromium"), pytest.mark.timeout(600)]

SCREENS = [(390, "light"), (390, "dark"), (1280, "light"), (1280, "dark")]
# The sidebar's frame where scripts are off; what a web server shows for an address that is none.
NO_PAGES = {"toc.html", "404.html"}


@pytest.fixture(scope="module", params=SCREENS, ids=lambda screen: f"{screen[0]}-{screen[1]}")
def faults(request: pytest.FixtureRequest, browser, real_book: Path) -> Iterator[dict]:
    """Return what is wrong on this screen: for each page, the outcomes of all looks at it."""
    width, scheme = request.param
    context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)
    page = context.new_page()
    heard: list[str] = []
    page.on("pageerror", lambda error: heard.append(str(error)))
    page.on("console", lambda line: heard.append(line.text) if line.type == "error" else None)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    found = {}
    for path in sorted(real_book.glob("*.html")):
        if path.name in NO_PAGES:
            continue
        heard.clear()
        asked.clear()
        page.goto(path.as_uri(), wait_until="load")
        found[path.name] = page.evaluate(LOOK) | {
            "errors": list(heard),
            "asked": [url for url in asked if not url.startswith(("file:", "data:"))],
        }
    yield found
    context.close()


LOOK = r"""() => {
    document.querySelectorAll('details').forEach(fold => { fold.open = true });
    const wide = ['html', 'body', '.page', '.content', 'main'].filter(place => {
        const box = document.querySelector(place);
        return box && box.scrollWidth > box.clientWidth;
    });
    const name = box => box.outerHTML.slice(0, 80);
    const small = box => { const r = box.getBoundingClientRect(); return !r.width || !r.height };
    const images = [...document.querySelectorAll('main img')];
    const formulas = [...document.querySelectorAll('main math')];
    // What is left of a formula that nobody converted, outside of code.
    const text = document.querySelector('main').cloneNode(true);
    text.querySelectorAll('pre, code, math, script, style, svg').forEach(box => box.remove());
    const raw = text.textContent.match(/\$[^$\n]{1,80}\$|\\(?:frac|sum|sqrt|text)\b/g) || [];
    return {
        wide,
        images: images.length,
        formulas: formulas.length,
        broken: images.filter(i => !i.complete || !i.naturalWidth || small(i)).map(name),
        unnamed: images.filter(i => !i.alt.trim()).map(name),
        unreadable: [...formulas.filter(small), ...document.querySelectorAll('merror')].map(name),
        raw,
    };
}"""


@pytest.mark.parametrize(
    "fault", ["errors", "asked", "wide", "broken", "unnamed", "unreadable", "raw"]
)
def test_no_page_has_a_fault(faults: dict, fault: str) -> None:
    assert {name: seen[fault] for name, seen in faults.items() if seen[fault]} == {}


def test_pages_were_there_to_be_looked_at(faults: dict, real_book: Path) -> None:
    pages = {path.name for path in real_book.glob("*.html")}
    assert faults.keys() == pages - NO_PAGES
    chapters = [seen for name, seen in faults.items() if name[:2].isdigit()]
    assert len(chapters) == 13
    assert all(seen["images"] for seen in chapters)
    assert sum(seen["formulas"] > 0 for seen in chapters) > 10


def test_the_whole_book_can_be_printed(real_book: Path) -> None:
    printed = (real_book / "print.html").read_text(encoding="utf-8")
    titles = ["Numerical stability", "Capstone", "Find a topic", "Grade"]
    assert all(title in printed for title in titles)


def test_a_table_that_goes_on_fades_until_it_is_scrolled_to_its_end(
    browser, real_book: Path
) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.goto((real_book / "11-looking-inside.html").as_uri())
    tables = page.locator(".table-wrapper")
    fade = "box => parseFloat(getComputedStyle(box).getPropertyValue('--bits-fade'))"
    scroll = "box => new Promise(done => { box.scrollLeft = 1e4; requestAnimationFrame(done) })"
    hidden = tables.evaluate_all("all => all.map(box => box.scrollWidth - box.clientWidth)")
    assert max(hidden) > 100
    for table, width in zip(tables.all(), hidden, strict=True):
        assert (table.evaluate(fade) > 0) is (width > 0)
        table.evaluate(scroll)
        page.wait_for_function(f"box => ({fade})(box) === 0", arg=table.element_handle())
    page.close()
