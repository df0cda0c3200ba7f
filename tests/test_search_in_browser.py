"""The book's search: what it finds and in what order, what it loads, and how it is used."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Locator, Page, expect
from test_accessibility import grave_faults

pytestmark = pytest.mark.needs_system("chromium-headless-shell")

SCREENS = [(390, "light"), (390, "dark"), (1280, "light"), (1280, "dark")]


@pytest.fixture
def open_page(browser, served_book: str) -> Iterator[Callable[..., Page]]:
    """Return a function that opens a page; it keeps what was loaded, by name."""
    contexts = []

    def open_one(name: str = "map.html", width: int = 1280, **options: str) -> Page:
        contexts.append(browser.new_context(viewport={"width": width, "height": 800}, **options))
        page = contexts[-1].new_page()
        page.loaded = {}
        page.on("requestfinished", lambda request: keep_size(page.loaded, request))
        page.goto(f"{served_book}/{name}")
        return page

    yield open_one
    for context in contexts:
        context.close()


def keep_size(loaded: dict[str, int], request) -> None:
    loaded[request.url] = int(request.response().headers["content-length"])


def status_of(page: Page) -> Locator:
    return page.get_by_role("dialog").get_by_role("status")


def search(page: Page, typed: str) -> list[str]:
    """Type into the search; return where its results lead, from the book's folder."""
    if not page.get_by_role("dialog").is_visible():
        page.keyboard.press("/")
    page.get_by_label("Search this book").fill(typed)
    expect(status_of(page)).to_contain_text(f"“{typed}”")
    links = page.get_by_role("dialog").get_by_role("link").all()
    root = page.evaluate("new URL(path_to_root || '.', document.baseURI).pathname")
    return [link.get_attribute("href").removeprefix(root) for link in links]


def pages_of(results: list[str]) -> list[str]:
    return [link for link in results if "#" not in link]


# What is found


@pytest.mark.parametrize(
    ("typed", "told"),
    [("梯度", "梯度累积"), ("累积", "梯度累积"), ("梯度 gradient", "gradient clipping. 梯度裁剪")],
)
def test_a_chinese_term_is_found_in_the_glossary(open_page, typed: str, told: str) -> None:
    page = open_page()
    assert "glossary.html" in pages_of(search(page, typed))[:3]
    glossary = page.locator("#bits-search ol > li", has_text=re.compile("^Glossary"))
    assert told in glossary.inner_text()


@pytest.mark.parametrize(
    ("typed", "first"),
    [
        ("activation checkpointing", "06-checkpointing.html"),
        ("checkpoint", "06-checkpointing/two-kinds-of-checkpoint.html"),
        ("autocast", "03-autocast.html"),
        ("normalization", "01-normalization.html"),
        ("glossary", "glossary.html"),
    ],
)
def test_a_page_is_first_for_the_words_of_its_title(open_page, typed: str, first: str) -> None:
    assert search(open_page(), typed)[0] == first


def test_a_result_names_the_section_and_leads_to_it(open_page) -> None:
    page = open_page()
    place = "06-checkpointing/what-to-wrap.html#segments-and-the-square-root"
    assert place in search(page, "segments square root")
    page.get_by_role("dialog").get_by_role("link", name="Segments, and the square root").click()
    page.wait_for_url(f"**/{place}")


def test_a_result_names_the_chapter_of_a_section(open_page) -> None:
    page = open_page("06-checkpointing/what-to-wrap.html")
    assert "06-checkpointing/two-kinds-of-checkpoint.html" in search(page, "kinds of checkpoint")
    item = page.locator("#bits-search ol > li", has_text="Two kinds of checkpoint").first
    assert item.locator("small").inner_text() == "in 06 · Activation checkpointing"
    item.get_by_role("link").first.click()
    page.wait_for_url("**/06-checkpointing/two-kinds-of-checkpoint.html")


def test_prose_is_before_code(open_page) -> None:
    # Its helper is explained in chapters 06, 07 and 11, and only used in others.
    found = pages_of(search(open_page(), "saved_bytes"))
    chapters = list(dict.fromkeys(link[:2] for link in found))
    assert set(chapters[:3]) == {"06", "07", "11"}
    assert len(found) > 3


@pytest.mark.parametrize("typed", ["empty_cache", "torch.cuda.empty_cache()"])
def test_a_name_is_found_by_its_last_part(open_page, typed: str) -> None:
    page = open_page()
    found = pages_of(search(page, typed))
    assert "names.html" in found
    assert [link for link in found if link.startswith("11-looking-inside/")]
    assert "torch.cuda.empty_cache" in page.get_by_role("dialog").inner_text()


def test_no_answer_of_an_exercise_is_told(open_page) -> None:
    page = open_page()
    search(page, "three cures right backward")
    assert "Three cures are right" not in page.get_by_role("dialog").inner_text()


def test_print_and_other_copies_are_not_among_the_results(open_page, real_book: Path) -> None:
    page = open_page()
    answer = page.evaluate(
        """async () => {
            const pagefind = await import(new URL("pagefind/pagefind.js", document.baseURI));
            const { results } = await pagefind.search("the");
            return Promise.all(results.map(async (r) => (await r.data()).url));
        }"""
    )
    copies = {"print.html", "404.html", "toc.html", "index.html"}
    pages = {path.relative_to(real_book).as_posix() for path in real_book.rglob("*.html")}
    assert {url.partition(f"/{real_book.name}/")[2] for url in answer} <= pages - copies
    assert len(answer) > 150


@pytest.mark.parametrize("typed", ["xyzzy", "qqqqzzz", "龘龘"])
def test_nothing_found_is_said(open_page, typed: str) -> None:
    page = open_page()
    assert search(page, typed) == []
    expect(status_of(page)).to_have_text(f"Nothing found for “{typed}”.")


@pytest.mark.parametrize("typed", ["log-sum-exp", "Kahan sum", "2^24", "梯度", "softmax"])
def test_an_excerpt_reads_well(open_page, typed: str) -> None:
    page = open_page()
    search(page, typed)
    text = page.get_by_role("dialog").inner_text()
    assert not re.search(
        r"</?[a-z]|&\w+;|\\[a-z]+\{|[\u4e00-\u9fff] [\u4e00-\u9fff]|\u2063", text
    ), text


# What is loaded


def test_the_index_comes_in_pieces(real_book: Path) -> None:
    pieces = [path for path in (real_book / "pagefind").rglob("*") if path.is_file()]
    assert len(pieces) > 20
    for piece in pieces:
        assert piece.stat().st_size < 100_000, piece
    assert not list(real_book.glob("searchindex*"))


def test_a_first_search_loads_a_part_of_it_and_a_page_that_is_only_read_nothing(
    open_page, served_book: str
) -> None:
    page = open_page()
    page.wait_for_load_state("networkidle")
    assert not [url for url in page.loaded if "/pagefind/" in url]
    search(page, "overflow")
    page.wait_for_load_state("networkidle")
    loaded = {url: size for url, size in page.loaded.items() if "/pagefind/" in url}
    assert 50_000 < sum(loaded.values()) < 450_000
    assert {urlsplit(url).netloc for url in page.loaded} == {urlsplit(served_book).netloc}


# How it is used


@pytest.mark.parametrize("key", ["s", "/"])
def test_the_keyboard_is_enough(open_page, key: str) -> None:
    page = open_page()
    button = page.get_by_role("button", name="Search")
    button.focus()
    page.keyboard.press(key)
    box = page.get_by_label("Search this book")
    expect(box).to_be_focused()
    expect(box).to_have_value("")
    page.keyboard.type("checkpoint")
    links = page.get_by_role("dialog").get_by_role("link")
    expect(links.first).to_be_visible()
    for key in ("ArrowDown", "ArrowDown", "ArrowUp"):
        page.keyboard.press(key)
    expect(links.first).to_be_focused()
    page.keyboard.press("Tab")
    expect(links.nth(1)).to_be_focused()
    # mdBook's own keys for the neighboring pages stay out of it.
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    expect(button).to_be_focused()
    assert page.url.endswith("/map.html")


def test_enter_follows_a_result(open_page) -> None:
    page = open_page()
    search(page, "checkpoint")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url("**/06-checkpointing/two-kinds-of-checkpoint.html")
    search(page, "Glossary")
    page.keyboard.press("Enter")
    page.wait_for_url("**/glossary.html")


def test_a_section_of_the_open_page_is_shown(open_page) -> None:
    page = open_page("06-checkpointing/what-to-wrap.html")
    search(page, "segments square root")
    page.get_by_role("dialog").get_by_role("link", name="Segments, and the square root").click()
    expect(page.get_by_role("dialog")).to_be_hidden()
    expect(page.locator("#segments-and-the-square-root")).to_be_in_viewport()


@pytest.mark.parametrize(("width", "scheme"), SCREENS)
def test_it_fits_the_screen_and_everyone_can_use_it(open_page, width: int, scheme: str) -> None:
    page = open_page(width=width, color_scheme=scheme)
    page.get_by_role("button", name="Search").click()
    search(page, "checkpoint")
    dialog = page.get_by_role("dialog", name="Search")
    assert dialog.get_by_role("search").is_visible()
    assert dialog.get_by_role("list").first.is_visible()
    assert dialog.evaluate("box => box.scrollWidth - box.clientWidth") <= 0
    box = dialog.bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= width
    assert grave_faults(page) == []


def test_a_search_that_takes_long_says_so_and_is_answered(open_page) -> None:
    page = open_page()
    held = []
    page.route("**/pagefind/wasm*", lambda route: held.append(route))
    page.keyboard.press("s")
    page.get_by_label("Search this book").fill("overflow")
    expect(status_of(page)).to_have_text("Searching…")
    for route in held:
        route.continue_()
    expect(status_of(page)).to_contain_text("“overflow”")
    assert page.get_by_role("dialog").get_by_role("link").all()


def test_a_search_that_was_taken_back_says_nothing_more(open_page) -> None:
    page = open_page()
    page.route("**/pagefind/wasm*", lambda route: None)
    page.keyboard.press("s")
    box = page.get_by_label("Search this book")
    box.fill("overflow")
    box.fill("")
    page.wait_for_timeout(1500)
    expect(status_of(page)).to_have_text("")


# Pagefind, which gets ready for the first letters last and answers with what it was asked.
LATE_PAGEFIND = """
let inits = 0;
let latest = 0;
const answer = (text) => ({
  results: [
    {
      data: async () => ({
        url: "/map.html", content: text, locations: [0], meta: { title: text }, sub_results: [],
      }),
    },
  ],
});
export const init = () => new Promise((done) => setTimeout(done, 400 / ++inits));
export const debouncedSearch = async (text) => {
  const mine = ++latest;
  await new Promise((done) => setTimeout(done, 150));
  return mine === latest ? answer(text) : null;
};
"""


def test_what_was_typed_last_is_answered_whenever_the_search_is_ready(open_page) -> None:
    page = open_page()
    page.route(
        "**/pagefind/pagefind.js",
        lambda route: route.fulfill(content_type="text/javascript", body=LATE_PAGEFIND),
    )
    page.keyboard.press("s")
    page.keyboard.type("checkpoint")
    expect(status_of(page)).to_contain_text("“checkpoint”")


def test_what_is_loaded_is_loaded_while_the_reader_types(open_page) -> None:
    page = open_page()
    with page.expect_request("**/pagefind/pagefind.js"):
        page.keyboard.press("s")


def test_an_index_that_is_missing_is_said(open_page) -> None:
    page = open_page()
    page.route("**/pagefind/**", lambda route: route.abort())
    page.keyboard.press("s")
    page.get_by_label("Search this book").fill("overflow")
    expect(status_of(page)).to_contain_text("index cannot be loaded")
