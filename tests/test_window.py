"""The window: what a row weighs is what autograd says, in Python, in JavaScript and to the hand."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from helpers import explore_window
from helpers.explorables import stage
from helpers.explorables.window import _say, weigh

RULES = ("count", "none", "share")
EXPOSE = "\nwindow.explorer = { weigh, moveCut, changeCount, describe };\n"
SIZES = st.lists(st.integers(1, 60), min_size=1, max_size=8)


@pytest.fixture(scope="module")
def page(browser):
    page = browser.new_page(viewport={"width": 800, "height": 600}, has_touch=True)
    page.set_content("<p>a page</p>")
    page.add_script_tag(type="module", content=stage.read_module("window") + EXPOSE)
    page.wait_for_function("() => window.explorer")
    yield page
    page.close()


def weights_by_autograd(sizes: list[int], rule: str) -> list[float]:
    losses = torch.ones(sum(sizes), dtype=torch.float64, requires_grad=True)
    for part in losses.split(sizes):
        mean = part.mean()
        factor = {"count": 1 / len(sizes), "none": 1.0, "share": len(part) / sum(sizes)}[rule]
        (factor * mean).backward()
    starts = torch.tensor([0, *sizes]).cumsum(0)[:-1]
    return losses.grad[starts].tolist()


@given(SIZES, st.sampled_from(RULES))
def test_a_row_weighs_what_its_loss_gets_as_gradient(sizes: list[int], rule: str) -> None:
    assert weigh(sizes, rule) == pytest.approx(weights_by_autograd(sizes, rule), rel=1e-12)


@pytest.mark.needs_system("chromium-headless-shell")
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("sizes", [[100], [25, 25, 25, 25], [32, 32, 32, 4], [1, 59, 7], [3] * 8])
def test_the_page_computes_and_says_the_same(page, sizes: list[int], rule: str) -> None:
    weights = page.evaluate("([sizes, rule]) => explorer.weigh(sizes, rule)", [sizes, rule])
    assert weights == pytest.approx(weigh(sizes, rule), rel=1e-12)
    said = page.evaluate("([sizes, rule]) => explorer.describe(sizes, rule)", [sizes, rule])
    assert said == _say(sizes, rule)


@pytest.mark.needs_system("chromium-headless-shell")
def test_no_row_is_lost_and_no_micro_batch_becomes_empty(page) -> None:
    for place, row, moved in ((0, 1000, [99, 1]), (0, -5, [1, 99]), (0, 41, [41, 59])):
        code = "([place, row]) => explorer.moveCut([50, 50], place, row)"
        assert page.evaluate(code, [place, row]) == moved
    for sizes, by, changed in (([5, 9], 1, [5, 5, 4]), ([5, 9], -1, [14]), ([4, 3, 2], -1, [4, 5])):
        code = "([sizes, by]) => explorer.changeCount(sizes, by)"
        assert page.evaluate(code, [sizes, by]) == changed


@pytest.fixture
def window(page):
    still = stage.set_up("window", {"sizes": [32, 32, 32, 4], "rule": "count"}, "a picture")
    page.evaluate("html => { document.body.innerHTML = html }", still)
    code = stage.read_module("window") + '\nmountAll(document, "window", mount);\n'
    page.add_script_tag(type="module", content=code)
    page.get_by_role("slider").first.wait_for()
    return page


def sizes_of(page) -> list[int]:
    return [int(text) for text in page.locator(".bits-window text").all_text_contents()]


def middle_of(page, number: int) -> tuple[float, float]:
    box = page.locator(".bits-cut circle").nth(number).bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


@pytest.mark.needs_system("chromium-headless-shell")
def test_cuts_are_moved_by_keyboard(window) -> None:
    last = window.get_by_role("slider", name="cut behind micro-batch 3")
    last.focus()
    for key, sizes in (
        ("ArrowLeft", [32, 32, 31, 5]),
        ("PageDown", [32, 32, 21, 15]),
        ("Home", [32, 32, 1, 35]),
        ("End", [32, 32, 35, 1]),
    ):
        window.keyboard.press(key)
        assert sizes_of(window) == sizes, key
        assert last.evaluate("cut => document.activeElement === cut"), "the focus stays"
    assert last.get_attribute("aria-valuetext") == "behind row 99"
    assert "micro-batches of 32, 32, 35 and 1" in window.get_by_role("status").inner_text()


@pytest.mark.needs_system("chromium-headless-shell")
def test_cuts_are_moved_by_mouse_and_by_touch(window) -> None:
    (x, y), width = middle_of(window, 2), window.locator(".bits-window").bounding_box()["width"]
    window.mouse.move(x, y)
    window.mouse.down()
    window.mouse.move(x - 0.10 * width, y + 30, steps=4)
    window.mouse.up()
    assert sizes_of(window) == [32, 32, 22, 14]
    window.mouse.move(x, y)
    assert sizes_of(window) == [32, 32, 22, 14], "let go"
    session = window.context.new_cdp_session(window)

    def touch(kind: str, *points: tuple[float, float]) -> None:
        given = [{"x": px, "y": py} for px, py in points]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": given})

    x, y = middle_of(window, 0)
    touch("touchStart", (x, y))
    for part in (0.02, 0.05, 0.08):
        touch("touchMove", (x + part * width, y))
        window.wait_for_timeout(50)
    touch("touchEnd")
    assert sizes_of(window) == [40, 24, 22, 14]


@pytest.mark.needs_system("chromium-headless-shell")
def test_rules_and_cuts_are_chosen(window) -> None:
    said = window.get_by_role("status")
    assert "a row weighs from 0.781% to 6.25%; in the full batch it weighs 1%" in (
        said.inner_text()
    )
    window.get_by_label("Each loss is").select_option("share")
    assert "every row weighs 1%, as in the full batch" in said.inner_text()
    for _ in range(3):
        window.get_by_role("button", name="One cut less").click()
    assert sizes_of(window) == [100]
    assert window.get_by_role("button", name="One cut less").is_disabled()
    for _ in range(7):
        window.get_by_role("button", name="One cut more").click()
    assert sum(sizes_of(window)) == 100
    assert window.get_by_role("button", name="One cut more").is_disabled()


def test_outside_a_notebook_one_line_tells_it(capsys: pytest.CaptureFixture) -> None:
    explore_window([32, 32, 32, 4])
    assert capsys.readouterr().out == (
        "100 rows in micro-batches of 32, 32, 32 and 4, each loss divided by the number of "
        "micro-batches: a row weighs from 0.781% to 6.25%; in the full batch it weighs 1%.\n"
    )


def test_what_cannot_be_drawn_is_refused_in_one_sentence() -> None:
    with pytest.raises(ValueError, match="every micro-batch has at least one row"):
        explore_window([3, 0])
    with pytest.raises(ValueError, match='rule is "mean"; write one of: count, none, share'):
        explore_window([3, 2], "mean")
