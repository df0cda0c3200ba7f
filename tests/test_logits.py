"""Softmax on a number line: what it computes is what torch computes, in JavaScript and by hand."""

from __future__ import annotations

import math

import pytest
import torch

from helpers import explore_logits
from helpers.explorables import stage
from helpers.explorables.logits import (
    FORMATS,
    LEAST,
    MOST,
    Way,
    brief,
    by_the_book,
    describe,
    shifted,
    window_of,
)

EXPOSE = "\nwindow.explorer = { byTheBook, shifted, windowOf, describe, brief };\n"
CASES = [
    [92, 91, 89],
    [0, 0, 0],
    [88, 88, 88],
    [89, 88, 10],
    [-150, -149, -148],
    [-103, -102, -101],
    [-100, -99, -88],
    [110, -150, 0],
    [11, 12, -17],
    [-16, -15, -13],
    [-17, 3, 10],
    [60, 55, -20],
]


def rounding(format: str) -> float:
    return 2 * torch.finfo(getattr(torch, format)).eps


def is_close(one: float, other: float, format: str, atol: float = 0.0) -> bool:
    atol = max(atol, torch.finfo(getattr(torch, format)).tiny * rounding(format))
    return one == pytest.approx(other, rel=rounding(format), abs=atol, nan_ok=True)


@pytest.mark.parametrize("format", FORMATS)
def test_the_window_is_where_torchs_exp_is_neither_0_nor_inf(format: str) -> None:
    dtype = getattr(torch, format)
    low, normal, high = window_of(format)
    step = max(1.0, abs(low) * torch.finfo(dtype).eps, abs(high) * torch.finfo(dtype).eps)
    for z, isit in (
        (low - step, lambda e: e == 0),
        (low + step, lambda e: e > 0),
        (normal + step, lambda e: e >= torch.finfo(dtype).smallest_normal),
        (high - step, lambda e: e < math.inf),
        (high + step, lambda e: e == math.inf),
    ):
        assert isit(torch.tensor(z, dtype=dtype).exp().item()), z


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("logits", CASES, ids=str)
def test_shifted_is_what_torchs_own_softmax_gives(format: str, logits: list[int]) -> None:
    z, found = torch.tensor(logits, dtype=getattr(torch, format)), shifted(format, logits)
    for got, expected, atol in (
        (found.softmax, torch.softmax(z.double(), 0), 0.0),
        (found.log_softmax, torch.log_softmax(z.double(), 0), rounding(format)),
        ([found.log_sum_exp], z.double().logsumexp(0)[None], rounding(format)),
    ):
        pairs = zip(got, expected.to(z.dtype).tolist(), strict=True)
        assert all(is_close(*pair, format, atol) for pair in pairs)


@pytest.mark.parametrize(
    ("format", "logits", "told"),
    [
        ("float32", [92, 91, 89], "exp overflows for a, b and c: softmax is nan, nan, nan."),
        ("float32", [92, 20, 10], "exp overflows for a: softmax is nan, 0, 0."),
        ("float32", [88, 88, 88], "the sum overflows: softmax is 0, 0, 0."),
        ("float32", [-120, -130, -110], "exp underflows for all three, and 0 / 0 is nan."),
        ("float32", [60, 0, -110], "softmax is 1, 8.8e-27, 0, and its logarithm is -inf for c."),
        ("float32", [-102, -103, -103], "exp is subnormal and has lost digits"),
        ("float16", [5, 4, 2], "By the book, nothing leaves the range. Shifted by"),
        ("float16", [12, 4, 2], "exp overflows for a"),
    ],
)
def test_what_fails_is_told(format: str, logits: list[int], told: str) -> None:
    assert told in describe(format, logits)


@pytest.mark.parametrize(
    ("number", "written"),
    [
        (0.6652, "0.665"),
        (-0.0, "0"),
        (math.nan, "nan"),
        (-math.inf, "-inf"),
        (1.2e40, "1.2e+40"),
        (3.7e-44, "3.7e-44"),
        (-0.00025, "-2.5e-4"),
        (999.4, "999"),
    ],
)
def test_a_number_is_written_in_a_few_characters(number: float, written: str) -> None:
    assert brief(number) == written


@pytest.fixture(scope="module")
def page(browser):
    page = browser.new_page(viewport={"width": 800, "height": 700}, has_touch=True)
    page.set_content("<p>a page</p>")
    page.add_script_tag(type="module", content=stage.read_module("logits") + EXPOSE)
    page.wait_for_function("() => window.explorer")
    yield page
    page.close()


def computed(page, name: str, format: str, logits: list[int]) -> Way:
    # What JSON cannot carry is told by its name.
    code = f"""([format, logits]) => {{
        const told = x => Array.isArray(x) ? x.map(told) : String(x);
        const found = explorer.{name}(format, logits);
        return Object.fromEntries(Object.entries(found).map(([key, x]) => [key, told(x)]));
    }}"""

    def read(told: str | list) -> float | list[float]:
        return list(map(read, told)) if isinstance(told, list) else float(told)

    found = {key: read(told) for key, told in page.evaluate(code, [format, logits]).items()}
    names = {"logSoftmax": "log_softmax", "logSumExp": "log_sum_exp"}
    return Way(**{names.get(key, key): value for key, value in found.items()})


@pytest.mark.needs_system("chromium-headless-shell")
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("logits", CASES, ids=str)
def test_the_page_computes_and_says_the_same(page, format: str, logits: list[int]) -> None:
    assert page.evaluate("format => Object.values(explorer.windowOf(format))", format) == (
        pytest.approx(window_of(format), rel=1e-12)
    )
    for name, way in (("byTheBook", by_the_book), ("shifted", shifted)):
        got, expected = computed(page, name, format, logits), way(format, logits)
        for field in ("z", "exp", "softmax", "log_softmax"):
            pairs = zip(getattr(got, field), getattr(expected, field), strict=True)
            atol = rounding(format) if field == "log_softmax" else 0.0
            assert all(is_close(*pair, format, atol) for pair in pairs), field
        for field in ("sum", "log_sum_exp"):
            assert is_close(getattr(got, field), getattr(expected, field), format), field
    said = page.evaluate("([f, z]) => explorer.describe(f, z)", [format, logits])
    assert said == describe(format, logits)


@pytest.fixture
def live(page):
    still = stage.set_up("logits", {"format": "float32", "logits": [92, 91, 89]}, "a picture")
    page.evaluate("html => { document.body.innerHTML = html }", still)
    code = stage.read_module("logits") + '\nmountAll(document, "logits", mount);\n'
    page.add_script_tag(type="module", content=code)
    page.get_by_role("slider").first.wait_for()
    return page


def logits_of(page) -> list[int]:
    return [int(mark.get_attribute("aria-valuenow")) for mark in page.get_by_role("slider").all()]


def said_by(page) -> str:
    return page.get_by_role("status").inner_text()


@pytest.mark.needs_system("chromium-headless-shell")
def test_logits_are_moved_by_keyboard(live) -> None:
    first = live.get_by_role("slider", name="logit a")
    first.focus()
    for key, logit in (
        ("ArrowLeft", 91),
        ("PageDown", 81),
        ("Home", LEAST),
        ("End", MOST),
        ("ArrowRight", MOST),
    ):
        live.keyboard.press(key)
        assert logits_of(live) == [logit, 91, 89], key
        assert first.evaluate("mark => document.activeElement === mark"), "the focus stays"
    assert "logits 110, 91 and 89" in said_by(live)


def middle_of(page, number: int) -> tuple[float, float]:
    box = page.locator("[role=slider] circle").nth(number).bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


@pytest.mark.needs_system("chromium-headless-shell")
def test_logits_are_moved_by_mouse_and_by_touch(live) -> None:
    unit = (middle_of(live, 0)[0] - middle_of(live, 2)[0]) / 3
    x, y = middle_of(live, 0)
    live.mouse.move(x, y)
    live.mouse.down()
    live.mouse.move(x - 60 * unit, y + 40, steps=4)
    live.mouse.up()
    assert logits_of(live) == [32, 91, 89]
    live.mouse.move(x, y)
    assert logits_of(live) == [32, 91, 89], "let go"
    session = live.context.new_cdp_session(live)

    def touch(kind: str, *points: tuple[float, float]) -> None:
        given = [{"x": px, "y": py} for px, py in points]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": given})

    x, y = middle_of(live, 1)
    touch("touchStart", (x, y))
    for part in (0.2, 0.6, 1.0):
        touch("touchMove", (x - part * 80 * unit, y))
        live.wait_for_timeout(50)
    touch("touchEnd")
    assert logits_of(live) == [32, 11, 89]


@pytest.mark.needs_system("chromium-headless-shell")
def test_formats_and_shifts_are_chosen(live) -> None:
    table = live.get_by_role("table", name="Shifted by the largest")
    assert "exp overflows for a, b and c" in said_by(live)
    before = table.inner_text()
    for _ in range(2):
        live.get_by_role("button", name="All down by 10").click()
    assert logits_of(live) == [72, 71, 69]
    assert "nothing leaves the range" in said_by(live)
    same = [line for line in before.splitlines() if line not in table.inner_text().splitlines()]
    assert same == ["92.3"], "the log-sum-exp alone moves"
    live.get_by_label("Format").select_option("float16")
    assert "float16, logits 72, 71 and 69. By the book, exp overflows" in said_by(live)
    live.get_by_role("button", name="Start again").click()
    assert logits_of(live) == [92, 91, 89]
    for _ in range(3):
        up = live.get_by_role("button", name="All up by 10")
        if up.is_enabled():
            up.click()
    assert logits_of(live) == [102, 101, 99]
    assert up.is_disabled()


def test_outside_a_notebook_two_sentences_tell_it(capsys: pytest.CaptureFixture) -> None:
    explore_logits([92, 20, 10])
    assert capsys.readouterr().out == (
        "float32, logits 92, 20 and 10. By the book, exp overflows for a: softmax is nan, 0, 0. "
        "Shifted by the largest, softmax is 1, 5.4e-32, 2.4e-36, and its logarithm 0, -72, -82.\n"
    )


def test_what_cannot_be_drawn_is_refused_in_one_sentence() -> None:
    with pytest.raises(ValueError, match="write three integers from -150 to 110"):
        explore_logits([1, 2])
    with pytest.raises(ValueError, match="write three integers from -150 to 110"):
        explore_logits([1, 2, 111])
    with pytest.raises(ValueError, match='format is "float64"; write one of: float32'):
        explore_logits([1, 2, 3], "float64")
