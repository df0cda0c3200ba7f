"""Sections as pages of the course's own book: old addresses, the way through, predictions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest
from course_files import CHAPTERS, source
from playwright.sync_api import Page, expect

from helpers.authoring.sections import find_headings, normalize_id, plain_text
from helpers.explorables.stage import find_explorables

HEADING = re.compile(r'<h[1-6] id="([^"]*)">(?:<a [^>]*>)?(.*?)(?:</a>)?</h[1-6]>')
TAG = re.compile(r"<[^>]*>")


def sections_of(book: Path, chapter: str) -> list[str]:
    """Return the addresses of the sections, in the order of the chapter's map."""
    own = (book / f"{chapter}.html").read_text("utf-8")
    (listed,) = re.findall(r'<nav class="section-map".*?</nav>', own, re.DOTALL)
    links = re.findall(rf'<li><a href="({chapter}/[^"#]*)">', listed)
    assert len(links) == len(set(links)) == len(list((book / chapter).glob("*.html"))) > 5
    return links


def headings_of(page: Path) -> dict[str, str]:
    html = page.read_text("utf-8")
    return {name: TAG.sub("", shown) for name, shown in HEADING.findall(html)}


def moved_in(book: Path, chapter: str) -> dict[str, str]:
    own = (book / f"{chapter}.html").read_text("utf-8")
    (listed,) = re.findall(r'<script type="application/json" class="forward">(.*)</script>', own)
    return json.loads(listed)


# Every page


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_page_is_called_by_its_section_and_names_its_chapter(
    chapter: str, real_book: Path
) -> None:
    for link in sections_of(real_book, chapter):
        html = (real_book / link).read_text("utf-8")
        ((name, title),) = re.findall(r'<h1 id="([^"]*)"><a [^>]*>(.*?)</a></h1>', html)
        assert Path(link).stem == name
        (told,) = re.findall(r"<title>(.*?)</title>", html)
        section, number, book = told.split(" - ")
        assert normalize_id(unescape(section)) == normalize_id(TAG.sub("", title)) == name
        assert number.startswith(f"{chapter[:2]} · ")
        assert book == "Bits &amp; Gradients"
        assert re.search(rf'<nav class="of-chapter".*?href="\.\./{chapter}\.html"', html, re.DOTALL)


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_every_old_anchor_of_a_chapter_leads_to_what_it_led_to(
    chapter: str, real_book: Path
) -> None:
    moved = moved_in(real_book, chapter)
    texts = [cell.source for cell in source(chapter).cells if cell.cell_type == "markdown"]
    old = [h for text in texts for h in find_headings(text) if h.level > 1]
    cards = [anchor for anchor in moved if re.fullmatch(r"exercise-[a-z].*", anchor)]
    assert len(moved) == len(old) + len(cards)
    assert len(cards) > 4
    for heading in old:
        page, _, place = moved[normalize_id(plain_text(heading.text))].partition("#")
        there = headings_of(real_book / page)
        shown = there[place or Path(page).stem]
        assert normalize_id(shown) == normalize_id(plain_text(heading.text))
    for card in cards:
        page, _, place = moved[card].partition("#")
        assert place == card
        assert f'id="{card}"' in (real_book / page).read_text("utf-8")


def test_previous_and_next_go_through_all_chapters(real_book: Path) -> None:
    wanted = []
    for chapter in CHAPTERS:
        wanted += [f"{chapter}.html", *sections_of(real_book, chapter)]
    walked = [wanted[0]]
    while len(walked) < len(wanted):
        page = real_book / walked[-1]
        ahead = re.search(r'rel="next[^"]*" href="([^"]*)"', page.read_text("utf-8"))[1]
        following = (page.parent / ahead).resolve()
        back = re.search(r'rel="prev" href="([^"]*)"', following.read_text("utf-8"))[1]
        assert (following.parent / back).resolve() == page.resolve()
        walked.append(following.relative_to(real_book.resolve()).as_posix())
    assert walked == wanted


def test_what_a_check_answers_is_shown_once_where_checks_begin(real_book: Path) -> None:
    pages = {page: page.read_text("utf-8") for page in real_book.glob("[0-9]*/*.html")}
    (holder,) = (page for page, html in pages.items() if 'class="check-answers"' in html)
    assert holder == real_book / CHAPTERS[0] / "autograd.html"
    html = pages[holder]
    answers = html[html.index('class="check-answers"') :]
    answers = TAG.sub(" ", answers[: answers.index("</section>")])
    assert "0 of 3 points" in answers
    assert re.search(r"7 of 7 values differ.* came back, expected ", answers)
    assert "3 of 3 points" in answers.partition("To a correct")[2]


def test_nobody_is_congratulated_for_what_the_builder_solved(real_book: Path) -> None:
    for page in real_book.rglob("*.html"):
        assert not re.search(r"\d+ of \d+ exercises", page.read_text("utf-8")), page


def test_an_explorable_loads_only_where_it_stands(real_book: Path) -> None:
    started = re.compile(r'mountAll\(document, "(\w+)"')
    names = set()
    for page in real_book.glob("[0-9]*/*.html"):
        html = page.read_text("utf-8")
        assert started.findall(html) == find_explorables(html), page
        names |= set(find_explorables(html))
    assert {"bits", "prediction", "predictions"} <= names


# In a browser


@pytest.fixture
def page(browser) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    yield page
    page.close()


@pytest.mark.needs_system("chromium-headless-shell")
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("00-warm-up.html#why-the-fit-stalls", "00-warm-up/why-the-fit-stalls.html"),
        ("07-broadcasting.html#gather-four-ways",
         "07-broadcasting/what-a-call-costs.html#gather-four-ways"),
        ("08-numerical-stability.html#exercise-softmax",
         "08-numerical-stability/softmax-move-the-largest-logit-to-zero.html#exercise-softmax"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kept", ["from a disk", "from a server"])
def test_an_old_address_leads_to_the_section(
    page: Page, real_book: Path, served_book: str, old: str, new: str, kept: str
) -> None:
    root = served_book if kept == "from a server" else real_book.as_uri()
    page.goto(f"{root}/{old}")
    page.wait_for_url(f"{root}/{new}")
    anchor = new.partition("#")[2]
    expect(page.locator(f"#{anchor}" if anchor else "main h1")).to_be_in_viewport()
    page.go_back()
    assert page.url != f"{root}/{old}", "the way back is not a trap"


@pytest.mark.needs_system("chromium-headless-shell")
def test_an_old_anchor_typed_on_the_open_page_is_led_on(page: Page, served_book: str) -> None:
    page.goto(f"{served_book}/07-broadcasting.html#sections")
    assert page.url.endswith("07-broadcasting.html#sections")
    page.evaluate("location.hash = '#the-rule'")
    page.wait_for_url("**/07-broadcasting/the-rule.html")


@pytest.mark.needs_system("chromium-headless-shell")
def test_the_sidebar_shows_the_sections_of_the_open_chapter(page: Page, served_book: str) -> None:
    page.goto(f"{served_book}/07-broadcasting/guards.html")
    sidebar = page.get_by_role("navigation", name="Table of contents")
    expect(sidebar.get_by_role("link", name="The rule")).to_be_visible()
    expect(sidebar.get_by_role("link", name="Sign, exponent, fraction")).to_be_hidden()
    sidebar.get_by_role("link", name="02 Float formats").click()
    expect(sidebar.get_by_role("link", name="Sign, exponent, fraction")).to_be_visible()


def predict_something(page: Page) -> int:
    """Answer what the page asks; return how many predictions that were."""
    asked = page.locator("[data-explorable=prediction]")
    for place in asked.all():
        if place.get_by_role("radio").count():
            place.get_by_role("radio").first.check()
        else:
            place.get_by_role("slider").press("ArrowRight")
        place.get_by_role("button", name="Look", exact=True).click()
        place.get_by_text("You predicted", exact=True).wait_for()
    return asked.count()


@pytest.mark.needs_system("chromium-headless-shell")
def test_predictions_of_several_pages_are_told_on_the_last(page: Page, real_book: Path) -> None:
    pages = [real_book / link for link in sections_of(real_book, "05-accumulation")]
    pages = [real_book / "05-accumulation.html", *pages]
    having = [p for p in pages if "prediction" in find_explorables(p.read_text("utf-8"))]
    (last,) = (p for p in pages if "predictions" in find_explorables(p.read_text("utf-8")))
    assert len(having) > 1
    made = 0
    for each in having:
        page.goto(each.as_uri())
        made += predict_something(page)
    assert made > 3
    page.goto(last.as_uri())
    expect(page.locator("[data-explorable=predictions] tbody tr")).to_have_count(made)
    page.goto(having[0].as_uri())
    expect(page.get_by_role("button", name="Predict again").first).to_be_visible()


# Tables on a phone


@pytest.mark.needs_system("chromium-headless-shell")
def test_a_table_on_a_phone_is_a_list_with_labels(browser, real_book: Path) -> None:
    for width, display in ((390, "block"), (1280, "table-row")):
        page = browser.new_page(viewport={"width": width, "height": 844})
        page.goto((real_book / "failures.html").as_uri())
        row = page.locator(".stacks tbody tr").first
        assert row.evaluate("row => getComputedStyle(row).display") == display
        label = "cell => getComputedStyle(cell, '::before').content"
        shown = row.locator("td").nth(1).evaluate(label)
        head = page.locator(".stacks thead th").nth(1).text_content()
        assert head
        assert (f'"{head}"' in shown) is (width == 390)
        # For who hears it, it is a table at any width.
        table = page.get_by_role("table").first
        assert table.get_by_role("columnheader").count() == 3
        assert table.get_by_role("row").nth(1).get_by_role("cell").count() == 3
        page.close()
