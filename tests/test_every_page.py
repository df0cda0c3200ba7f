"""Every page of the course's own book, on a phone and on a desk, in light and in dark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from real_book import pages_of, sample_of

pytestmark = pytest.mark.needs_system("chromium-headless-shell")

SCREENS = [(390, "light"), (390, "dark"), (1280, "light"), (1280, "dark")]
# On these all pages are looked at, on the others a sample. So every page is seen at each width and
# in each theme; a fault of one theme at one width alone comes from styles that all pages share.
SCREENS_OF_ALL = [(390, "light"), (1280, "dark")]


def looked_at(book: Path, screen: tuple[int, str]) -> list[Path]:
    if screen not in SCREENS_OF_ALL:
        return sample_of(book)
    return [*pages_of(book), book / "print.html"]


@pytest.fixture(scope="module", params=SCREENS, ids=lambda screen: f"{screen[0]}-{screen[1]}")
def faults(request: pytest.FixtureRequest, browser, real_book: Path) -> Iterator[dict]:
    """Return what is wrong on this screen: for each page, the outcomes of all looks at it."""
    width, scheme = request.param
    context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)
    page = context.new_page()
    page.set_default_timeout(120_000)
    heard: list[str] = []
    page.on("pageerror", lambda error: heard.append(str(error)))
    page.on("console", lambda line: heard.append(line.text) if line.type == "error" else None)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    found = {}
    for path in looked_at(real_book, request.param):
        heard.clear()
        asked.clear()
        page.goto(path.as_uri(), wait_until="load")
        page.wait_for_function(HAS_STARTED)
        page.evaluate(LOOK_WITHOUT_PREDICTIONS)
        found[path.relative_to(real_book).as_posix()] = page.evaluate(LOOK) | {
            "errors": list(heard),
            "asked": [url for url in asked if not url.startswith(("file:", "data:"))],
        }
    yield found
    context.close()


HAS_STARTED = r"""() => [...document.querySelectorAll('main [data-explorable=prediction]')]
    .every(prediction => prediction.querySelector('button'))"""

# By a script: a real click on each would take half a minute in the page for printing.
LOOK_WITHOUT_PREDICTIONS = r"""() => {
    const buttons = [...document.querySelectorAll('button')]
        .filter(button => button.textContent.includes('Look without a prediction'));
    buttons.forEach(button => button.click());
    return buttons.length;
}"""

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
    // Cells of a table that is still one, and taller than a reader can compare.
    const line = cell => 1.5 * parseFloat(getComputedStyle(cell).fontSize);
    const tall = [...document.querySelectorAll('main .table-wrapper table')]
        .filter(table => getComputedStyle(table).display === 'table')
        .flatMap(table => [...table.querySelectorAll('td')])
        .filter(cell => cell.clientHeight > 8 * line(cell));
    const raw = text.textContent.match(/\$[^$\n]{1,80}\$|\\(?:frac|sum|sqrt|text)\b/g) || [];
    return {
        wide,
        images: images.length,
        formulas: formulas.length,
        broken: images.filter(i => !i.complete || !i.naturalWidth || small(i)).map(name),
        unnamed: images.filter(i => !i.alt.trim()).map(name),
        unreadable: [...formulas.filter(small), ...document.querySelectorAll('merror')].map(name),
        raw,
        tall: tall.map(name),
    };
}"""


@pytest.mark.parametrize(
    "fault", ["errors", "asked", "wide", "broken", "unnamed", "unreadable", "raw", "tall"]
)
def test_no_page_has_a_fault(faults: dict, fault: str) -> None:
    assert {name: seen[fault] for name, seen in faults.items() if seen[fault]} == {}


def test_the_sample_has_every_kind_of_page(real_book: Path) -> None:
    names = {path.relative_to(real_book).as_posix() for path in sample_of(real_book)}
    assert {"index.html", "map.html", "names.html", "05-accumulation.html"} <= names
    shown = "".join((real_book / name).read_text("utf-8") for name in names)
    for kind in ("of-chapter", "section-map", "exercise-card", "check-answers", "hint", "solution"):
        assert f'class="{kind}"' in shown
    for explorable in ("bits", "surface", "window", "steps", "prediction", "predictions"):
        assert f'data-explorable="{explorable}" data-state' in shown
    assert len(names) < len(pages_of(real_book)) / 2


def test_pages_were_there_to_be_looked_at(
    request: pytest.FixtureRequest, faults: dict, real_book: Path
) -> None:
    screen = request.node.callspec.params["faults"]
    assert len(faults) == len(looked_at(real_book, screen))
    if screen in SCREENS_OF_ALL:
        assert len(faults) > 150
        chapters = {name[:2] for name in faults if name[:2].isdigit()}
        assert len(chapters) == 13
        for kind, most_without in (("images", 0), ("formulas", 2)):
            having = {name[:2] for name, seen in faults.items() if seen[kind]}
            assert len(chapters - having) <= most_without


def test_the_whole_book_can_be_printed(real_book: Path) -> None:
    printed = (real_book / "print.html").read_text(encoding="utf-8")
    titles = ["Numerical stability", "Capstone", "Find a topic", "Grade"]
    assert all(title in printed for title in titles)


ADD = "html => document.querySelector('main').insertAdjacentHTML('beforeend', html)"
NUMBERS = "<tr>" + "<td>65504</td>" * 12 + "</tr>"


def test_a_table_that_goes_on_fades_until_it_is_scrolled_to_its_end(
    browser, real_book: Path
) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.goto((real_book / "exercises.html").as_uri())
    # Wider than a phone are tables of numbers alone, and the course has none that wide.
    wide = f'<div class="table-wrapper"><table>{NUMBERS}</table></div>'
    page.evaluate(ADD, wide)
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


def test_a_table_with_a_tall_cell_is_found(browser, real_book: Path) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.goto((real_book / "exercises.html").as_uri())
    tall = f'<div class="table-wrapper"><table>{NUMBERS.replace("</td>", "<br>" * 9)}</table></div>'
    page.evaluate(ADD, tall)
    assert len(page.evaluate(LOOK)["tall"]) == 12
    page.close()
