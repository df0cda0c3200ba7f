"""The book as a browser shows it from a disk: offline, on a phone, in the dark, without scripts."""

from pathlib import Path

import pytest
import sample_chapter as sample
from nbformat.v4 import new_code_cell, new_markdown_cell
from real_book import served

from helpers.authoring.book import build

pytestmark = pytest.mark.needs_system("chromium-headless-shell")

LONG = "x" * 200
FORMULA = r"\sum_i e^{x_i} = e^m \sum_i e^{x_i - m} \quad\text{with}\quad m = \max_i x_i \le 65504"
WIDE_CELLS = [
    new_markdown_cell(f"## Wide\n\n${FORMULA}$\n\n$${FORMULA}$$\n\n- ${FORMULA}$\n- `{LONG}`"),
    new_code_cell(f"print('{LONG}')", outputs=[sample.printed(f"{LONG}\n" * 100)]),
    new_code_cell("table", outputs=[sample.displayed(text_html=f"<table><td>{LONG}</td></table>")]),
]
SECTION = f"{sample.NAME}/wide.html"
SCREENS = [(390, "light"), (390, "dark"), (1280, "light"), (1280, "dark")]


@pytest.fixture(scope="module")
def chapter_page(tmp_path_factory) -> Path:
    """Return the page of a chapter with one section, ``wide``."""
    root = tmp_path_factory.mktemp("repository")
    sample.write_chapter(root / "course", [*sample.source_cells(), *WIDE_CELLS])
    directive = f"{{{{#notebook {sample.NAME}}}}}\n"
    sample.write_book(root, {"first.md": "# First\n", f"{sample.NAME}.md": directive})
    return build(root).parent / f"{sample.NAME}.html"


@pytest.fixture
def open_page(browser, chapter_page):
    """Return a function that opens the chapter's page, or another of the book.

    The page keeps what it asked the network for.
    """
    contexts = []

    def open_chapter(width=1280, other="", **options):
        context = browser.new_context(viewport={"width": width, "height": 800}, **options)
        contexts.append(context)
        page = context.new_page()
        page.asked = []
        page.on("request", lambda request: page.asked.append(request.url))
        page.goto((chapter_page.parent / (other or chapter_page.name)).as_uri())
        return page

    yield open_chapter
    for context in contexts:
        context.close()


@pytest.mark.parametrize(("width", "scheme"), SCREENS)
def test_nothing_comes_from_the_network(open_page, width, scheme):
    page = open_page(width, color_scheme=scheme)
    page.wait_for_load_state("networkidle")
    assert page.asked
    assert not [url for url in page.asked if not url.startswith(("file:", "data:"))]


@pytest.mark.parametrize("other", ["", SECTION])
@pytest.mark.parametrize(("width", "scheme"), SCREENS)
def test_page_does_not_scroll_sideways(open_page, width, scheme, other):
    page = open_page(width, other, color_scheme=scheme)
    page.evaluate("document.querySelectorAll('details').forEach(fold => { fold.open = true })")
    for place in ("html", "body", ".page", ".content", "main"):
        assert page.eval_on_selector(place, "box => box.scrollWidth - box.clientWidth") <= 0, place


def test_long_output_scrolls_in_its_own_place(open_page):
    page = open_page(390, SECTION)
    output = page.locator(".output", has_text=LONG).first
    assert output.bounding_box()["height"] < 600
    assert output.evaluate("box => box.scrollHeight > 2 * box.clientHeight")
    assert output.evaluate("box => box.scrollWidth > box.clientWidth")


@pytest.mark.parametrize(("scheme", "dark"), [("light", False), ("dark", True)])
def test_text_and_formulas_stand_out_from_the_page(open_page, scheme, dark):
    page = open_page(color_scheme=scheme)
    brightness = """selector => {
        const box = document.querySelector(selector);
        const channels = color => color.match(/[\\d.]+/g).slice(0, 3).map(Number);
        const mean = color => channels(color).reduce((a, b) => a + b) / 3;
        const page = getComputedStyle(document.documentElement).backgroundColor;
        return [mean(getComputedStyle(box).color), mean(page)];
    }"""
    for selector in ("main p", "main a[href]:not(.header)", "math", ".output pre", "summary", "h3"):
        text, background = page.evaluate(brightness, selector)
        assert (background < 128) is dark
        assert abs(text - background) > 100, selector


def test_formulas_and_folds_work_without_scripts(open_page):
    page = open_page(java_script_enabled=False)
    assert page.locator("main math").first.bounding_box()["width"] > 20
    solution = page.get_by_text("the reference")
    assert not solution.is_visible()
    for fold in ("Hint 1 of 3", "Hint 2 of 3", "Hint 3 of 3", "A solution"):
        page.get_by_text(fold).click()
    assert solution.is_visible()


def test_search_says_from_a_disk_that_it_needs_a_server(open_page):
    page = open_page()
    page.locator("main").press("s")
    page.get_by_label("Search this book").press_sequentially("overflows")
    dialog = page.get_by_role("dialog")
    assert dialog.get_by_role("status").inner_text() == (
        "The search works only on a site that comes from a server: type make book-serve, "
        "and open the address that it prints."
    )
    assert not dialog.get_by_role("link").all()


def test_search_finds_a_chapter_by_its_words(open_page, chapter_page):
    page = open_page()
    with served(chapter_page.parent) as address:
        page.goto(f"{address}/first.html")
        page.locator("main").press("s")
        page.get_by_label("Search this book").press_sequentially("overflows")
        result = page.get_by_role("dialog").get_by_role("link").first
        result.wait_for()
        assert result.get_attribute("href") == f"/{sample.NAME}.html"


def test_download_is_the_students_notebook(open_page, chapter_page, tmp_path):
    page = open_page()
    with page.expect_download() as download:
        page.get_by_text("Download the notebook").click()
    assert download.value.suggested_filename == sample.FILE
    download.value.save_as(tmp_path / sample.FILE)
    release = chapter_page.parents[2] / "course" / "release" / sample.NAME / sample.FILE
    assert (tmp_path / sample.FILE).read_bytes() == release.read_bytes()


# On paper


@pytest.fixture
def printed(open_page):
    page = open_page(700, "print.html")
    page.emulate_media(media="print")
    return page


def test_the_printed_book_has_every_page_in_order(printed):
    titles = printed.locator("main h1").all_inner_texts()
    assert titles == ["First", "Numerical stability", "Wide"]
    breaks = "main > div[style*=break-before]"
    before = "box => getComputedStyle(box).breakBefore"
    assert [box.evaluate(before) for box in printed.locator(breaks).all()] == ["page", "auto"]


def test_on_paper_folds_are_open_and_nothing_scrolls(printed):
    for text in ("A solution", "the reference", "Hidden tests run here"):
        assert printed.get_by_text(text).first.bounding_box()["height"] > 5
    closed = "all => all.map(fold => [fold.open, fold.lastElementChild.getClientRects().length])"
    folds = printed.locator("main details").evaluate_all(closed)
    assert len(folds) == 5
    assert all(not is_open and boxes for is_open, boxes in folds), "by style, not by a script"
    output = printed.locator(".output", has_text=LONG).first
    assert output.evaluate("box => box.scrollHeight - box.clientHeight") <= 0
    assert output.evaluate("box => box.scrollWidth - box.clientWidth") <= 0


def test_code_keeps_its_indentation_on_paper(printed):
    left = """code => {
        const lines = [...code.textContent.matchAll(/\\S.*/g)];
        const walk = document.createTreeWalker(code, NodeFilter.SHOW_TEXT);
        const places = [];
        for (let at = 0, node; (node = walk.nextNode()); at += node.length) {
            for (const line of lines) {
                if (line.index >= at && line.index < at + node.length) {
                    const range = document.createRange();
                    range.setStart(node, line.index - at);
                    range.setEnd(node, line.index - at + 1);
                    places.push(range.getBoundingClientRect().left);
                }
            }
        }
        return places;
    }"""
    code = printed.locator("pre code", has_text="the reference")
    first, *others = code.evaluate(left)
    assert len(others) == 1
    assert all(place > first + 20 for place in others)
