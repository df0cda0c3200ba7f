"""The book's first page: a failure that is torch's, a live explorer, and where to start."""

from __future__ import annotations

import contextlib
import html
import io
import json
import re
from pathlib import Path

import pytest
import torch
from course_files import CHAPTERS, COURSE, ROOT

from helpers.authoring.book import preprocess
from helpers.authoring.first_page import render_bits, render_launches
from helpers.authoring.page import PageError

PAGE = (ROOT / "course" / "book" / "introduction.md").read_text("utf-8")
ADDRESS = "https://github.com/an-owner/a-course"
SUM = 1.0004


def next_number() -> float:
    one = torch.tensor(1.0, dtype=torch.float16)
    return torch.nextafter(one, torch.full_like(one, torch.inf)).item()


# The failure


def test_the_code_prints_what_stands_below_it() -> None:
    ((code, printed),) = re.findall(
        r"```python\n(.+?)```\n\n<div.*?<pre>(.*?)</pre>", PAGE, re.DOTALL
    )
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(code, {"torch": torch})
    assert out.getvalue() == f"{printed}\n"
    assert code.count("\n") <= 5


def test_the_drawing_has_the_numbers_of_float16_in_their_places() -> None:
    drawing = re.search(r"<svg.*?</svg>", PAGE, re.DOTALL)[0]
    assert f">{next_number()}<" in drawing
    (left, right) = map(
        float, re.search(r'class="line" d="M([\d.]+) 58H([\d.]+)', drawing).groups()
    )
    place = left + (right - left) * (SUM - 1) / (next_number() - 1)
    assert f'<circle cx="{place:.1f}"' in drawing
    assert f'class="middle" d="M{(left + right) / 2:g} ' in drawing


def test_what_the_reader_is_asked_to_type_is_not_rounded_away() -> None:
    (typed,) = re.findall(r"type ([\d.]+) into the explorer", PAGE)
    assert torch.tensor(float(typed)).half().item() == next_number()


# What the page has besides text


def test_the_explorer_starts_from_what_the_page_names() -> None:
    shown = render_bits("1.0004 float16")
    state = json.loads(html.unescape(re.search(r'data-state="(.*?)"', shown)[1]))
    assert state == {"format": "float16", "bits": 15 << 10, "value": "1.0004"}
    assert "1.0004 is stored in float16 as 1.0:" in shown
    assert 'mountAll(document, "bits", mount)' in shown


@pytest.mark.parametrize("start", ["", "1.0004", "one float16", "1 float12", "1 2 float16"])
def test_an_explorer_that_starts_from_nothing_is_refused(start: str) -> None:
    with pytest.raises(PageError, match=r"write \{\{#bits 0\.1 float16\}\}"):
        render_bits(start)


def test_the_first_chapter_opens_in_colab_and_binder() -> None:
    colab, binder = re.findall(r"\]\((.+?)\)", render_launches(COURSE.root / "course", ADDRESS))
    notebook = COURSE.release(CHAPTERS[0]).relative_to(COURSE.root).as_posix()
    assert colab.endswith(f"github/an-owner/a-course/blob/main/{notebook}")
    assert binder.endswith(f"an-owner/a-course/HEAD?labpath={notebook.replace('/', '%2F')}")


def test_an_address_that_nobody_has_set_is_not_offered() -> None:
    unset = "https://github.com/YOUR_ORG/a-course"
    assert render_launches(COURSE.root / "course", unset) == ""


@pytest.mark.parametrize("address", ["", "https://example.org/a/b"])
def test_an_address_that_cannot_be_launched_is_named(address: str) -> None:
    with pytest.raises(PageError, match=r"git-repository-url in book\.toml"):
        render_launches(COURSE.root / "course", address)


def test_a_page_of_the_book_has_the_explorer_and_the_launches() -> None:
    page = {"name": "p", "path": "p.md", "source_path": "p.md", "sub_items": []}
    page["content"] = "- one\n{{#launches}}\n\n{{#bits 0.1 float16}}\n\n$x$\n"
    config = {"output": {"html": {"git-repository-url": ADDRESS}}}
    context = {"root": str(ROOT), "config": config}
    preprocess(context, {"items": [{"Chapter": page}]})
    assert page["content"].startswith("- one\n- **In Colab**: [")
    assert page["content"].count("mountAll(document") == 1
    assert "<math" in page["content"]


# In a browser


@pytest.fixture(scope="module", params=["index", "introduction"])
def address(request: pytest.FixtureRequest, real_book: Path) -> str:
    return (real_book / f"{request.param}.html").as_uri()


@pytest.mark.needs_system("chromium-headless-shell")
def test_the_explorer_is_alive(browser, address: str) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 800})
    page.goto(address)
    explorer = page.locator("main .bits-explorable")
    assert explorer.count() == 1
    assert "1.0004 is stored as 1:" in explorer.get_by_role("status").inner_text()
    explorer.get_by_role("button", name="Step up").press("Enter")
    assert (
        explorer.get_by_role("status").inner_text().startswith(f"{next_number()} is stored exactly")
    )
    page.close()


@pytest.mark.needs_system("chromium-headless-shell")
def test_without_scripts_the_bits_stand_there(browser, address: str) -> None:
    page = browser.new_page(java_script_enabled=False)
    page.goto(address)
    shown = page.locator("main .bits-explorable").inner_text()
    assert "1.0004 is stored in float16 as 1.0" in shown
    page.close()
