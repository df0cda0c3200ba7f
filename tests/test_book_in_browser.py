"""The book as a browser shows it from a disk: offline, on a phone, in the dark, without scripts."""

from pathlib import Path

import pytest
import sample_chapter as sample
from nbformat.v4 import new_code_cell, new_markdown_cell

from helpers.authoring.book import build

pytestmark = pytest.mark.needs_system("chromium")

LONG = "x" * 200
FORMULA = r"\sum_i e^{x_i} = e^m \sum_i e^{x_i - m} \quad\text{with}\quad m = \max_i x_i \le 65504"
WIDE_CELLS = [
    new_markdown_cell(f"## Wide\n\n${FORMULA}$\n\n$${FORMULA}$$\n\n- ${FORMULA}$\n- `{LONG}`"),
    new_code_cell(f"print('{LONG}')", outputs=[sample.printed(f"{LONG}\n" * 100)]),
    new_code_cell("table", outputs=[sample.displayed(text_html=f"<table><td>{LONG}</td></table>")]),
]
SCREENS = [(390, "light"), (390, "dark"), (1280, "light"), (1280, "dark")]


@pytest.fixture(scope="module")
def chapter_page(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("repository")
    sample.write_chapter(root / "course", [*sample.source_cells(), *WIDE_CELLS])
    directive = f"{{{{#notebook {sample.NAME}}}}}\n"
    sample.write_book(root, {"first.md": "# First\n", f"{sample.NAME}.md": directive})
    return build(root).parent / f"{sample.NAME}.html"


@pytest.fixture
def open_page(browser, chapter_page):
    """Return a function that opens the chapter; the page keeps what it asked the network for."""
    contexts = []

    def open_chapter(width=1280, **options):
        context = browser.new_context(viewport={"width": width, "height": 800}, **options)
        contexts.append(context)
        page = context.new_page()
        page.asked = []
        page.on("request", lambda request: page.asked.append(request.url))
        page.goto(chapter_page.as_uri())
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


@pytest.mark.parametrize(("width", "scheme"), SCREENS)
def test_page_does_not_scroll_sideways(open_page, width, scheme):
    page = open_page(width, color_scheme=scheme)
    page.evaluate("document.querySelectorAll('details').forEach(fold => { fold.open = true })")
    for place in ("html", "body", ".page", ".content", "main"):
        assert page.eval_on_selector(place, "box => box.scrollWidth - box.clientWidth") <= 0, place


def test_long_output_scrolls_in_its_own_place(open_page):
    page = open_page(390)
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


def test_search_works_from_a_disk(open_page):
    page = open_page()
    page.locator("main").press("s")
    page.locator("#mdbook-searchbar").press_sequentially("overflows")
    result = page.locator("#mdbook-searchresults a").first
    result.wait_for()
    assert f"{sample.NAME}.html" in result.get_attribute("href")


def test_download_is_the_students_notebook(open_page, chapter_page, tmp_path):
    page = open_page()
    with page.expect_download() as download:
        page.get_by_text("Download the notebook").click()
    assert download.value.suggested_filename == sample.FILE
    download.value.save_as(tmp_path / sample.FILE)
    release = chapter_page.parents[2] / "course" / "release" / sample.NAME / sample.FILE
    assert (tmp_path / sample.FILE).read_bytes() == release.read_bytes()
