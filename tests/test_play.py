"""A picture with a slider: live in a kernel, live in the book without one, a picture elsewhere."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
import sample_chapter as sample
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

from helpers.authoring.book import build
from helpers.authoring.outputs import render_outputs
from helpers.widgets import KEEP_POSITIONS, play

CODE = """
from helpers import new_figure, play

def draw(share):
    figure, axes = new_figure(height=1.5)
    axes.barh(["a"], [share])
    axes.set(title=f"{share:g} of <all>", xlabel="share", ylabel="bar", xlim=(0, 1))
    return figure

play(draw, label="share", values=[0.2, 0.5, 1], start=0.5, alt="A bar that is half as long.",
     number="8.1", caption="The bar is as long as its share.")
"""


@pytest.fixture(scope="module")
def outputs() -> list:
    """Return what the cell shows where the builder runs it."""
    notebook = new_notebook(cells=[new_code_cell(CODE)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(KEEP_POSITIONS, "1")
        NotebookClient(notebook, kernel_name="python3").execute()
    return notebook.cells[0].outputs


def test_start_has_to_be_one_of_the_values() -> None:
    with pytest.raises(ValueError, match=r"start is 0\.3, which is not one of the values"):
        play(lambda value: None, label="share", values=[0.2], start=0.3, alt="Not drawn at all.")


def test_every_position_is_kept_for_the_book(outputs: list) -> None:
    kept = outputs[0].metadata.bits.play
    assert [position.value for position in kept.positions] == ["0.2", "0.5", "1"]
    assert [position.title for position in kept.positions][2] == "1 of <all>"
    assert kept.start == 1
    pictures = {
        picture for position in kept.positions for picture in (position.light, position.dark)
    }
    assert len(pictures) == 6


def test_in_a_students_kernel_nothing_is_drawn_ahead() -> None:
    notebook = new_notebook(cells=[new_code_cell(CODE)])
    NotebookClient(notebook, kernel_name="python3").execute()
    assert notebook.cells[0].outputs[0].metadata.bits.keys() == {"figure"}


def test_what_a_figure_is_called_cannot_end_the_script(outputs: list) -> None:
    assert "<all>" not in render_outputs(outputs)


@pytest.fixture
def book(outputs: list, tmp_path: Path) -> Path:
    cell = new_code_cell(CODE, outputs=nbformat.from_dict(outputs))
    sample.write_chapter(tmp_path / "course", [*sample.source_cells(), cell])
    directive = f"{{{{#notebook {sample.NAME}}}}}\n"
    sample.write_book(tmp_path, {f"{sample.NAME}.md": directive})
    return build(tmp_path).parent / f"{sample.NAME}.html"


DARK_FORM = "picture => picture.style.getPropertyValue('--bits-dark-picture').slice(4, -1)"


@pytest.mark.needs_system("chromium-headless-shell")
def test_in_the_dark_the_slider_changes_the_dark_picture(browser, book: Path) -> None:
    page = browser.new_page(color_scheme="dark")
    page.goto(book.as_uri())
    picture, slider = page.locator(".play img"), page.get_by_role("slider", name="share")
    shown = "picture => getComputedStyle(picture).content.slice(5, -2)"
    for key in ("ArrowRight", "ArrowLeft"):
        before = picture.evaluate(shown)
        slider.press(key)
        assert picture.evaluate(shown) == picture.evaluate(DARK_FORM) != before
    assert page.locator("figcaption").inner_text().startswith("Figure 8.1 · The bar")
    page.close()


@pytest.mark.needs_system("chromium-headless-shell")
def test_the_slider_changes_the_picture_without_a_kernel(browser, book: Path) -> None:
    page = browser.new_page()
    page.goto(book.as_uri())
    picture, slider = page.locator(".play img"), page.get_by_role("slider", name="share")
    first, first_dark = picture.get_attribute("src"), picture.evaluate(DARK_FORM)
    assert picture.get_attribute("alt") == "A bar that is half as long."
    slider.press("ArrowRight")
    assert picture.get_attribute("alt") == "1 of <all>"
    assert picture.get_attribute("src") != first
    assert picture.evaluate(DARK_FORM) not in (first_dark, picture.get_attribute("src"))
    assert picture.evaluate("image => image.decode().then(() => image.naturalWidth)") == 1400
    assert page.locator(".play output").inner_text() == "1"
    slider.press("ArrowLeft")
    assert picture.get_attribute("src") == first
    assert picture.evaluate(DARK_FORM) == first_dark
    assert picture.get_attribute("alt") == "A bar that is half as long."
    page.close()


@pytest.mark.needs_system("chromium-headless-shell")
def test_without_scripts_the_picture_stands_alone(browser, book: Path) -> None:
    page = browser.new_context(java_script_enabled=False).new_page()
    page.goto(book.as_uri())
    assert page.locator(".play img").is_visible()
    assert not page.locator(".play input").is_visible()
    page.close()
