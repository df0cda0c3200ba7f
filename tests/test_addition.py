"""The addition's arithmetic is torch's; the page and the still picture say and draw the same."""

from __future__ import annotations

import math
import re
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import explore_addition
from helpers.explorables import stage
from helpers.explorables.addition import Sum, add, describe, lay_out, write
from helpers.explorables.bits import FORMATS, UnknownFormatError, find_bits

EXPOSE = "\nwindow.explorer = { add, layOut, describe, encode, shiftTo, findTie, decode };\n"
PHONE, DESK = 390, 1280


def draw_pairs(format: str, count: int, seed: int = 0) -> list[tuple[float, float]]:
    """Return pairs of a format's numbers: of any size, of like size, around ties, at the edges."""
    generator = torch.Generator().manual_seed(seed)
    dtype = getattr(torch, format)
    width = 1 + sum(FORMATS[format])
    integers = {8: torch.uint8, 16: torch.int16, 32: torch.int32}[width]

    def read(patterns: torch.Tensor) -> torch.Tensor:
        half = 2 ** (width - 1)
        signed = torch.where(patterns >= half, patterns - 2**width, patterns)
        return (patterns if width == 8 else signed).to(integers).view(dtype).double()

    a = read(torch.randint(0, 2**width, (count,), generator=generator))
    b = read(torch.randint(0, 2**width, (count,), generator=generator))
    apart = torch.randint(-3, FORMATS[format][1] + 4, (count,), generator=generator)
    near = (
        a * torch.exp2(-apart.double()) * (0.5 + torch.rand(count, generator=generator))
    ).float()
    ulps = torch.exp2(torch.frexp(a).exponent.double() - 2 - FORMATS[format][1])
    tie = ulps * torch.tensor([1.0, -1.0, 3.0])[torch.arange(count) % 3]
    pairs = [*zip(a, b, strict=True), *zip(a, near, strict=True), *zip(a, tie, strict=True)]
    stored = [tuple(x.float().to(dtype).item() for x in pair) for pair in pairs]
    edges = [(0.0, 0.0), (-0.0, -0.0), (1.0, -1.0), (math.inf, 1.0), (math.nan, 1.0)]
    largest = torch.finfo(dtype).max
    return [*stored, *edges, (math.inf, -math.inf), (largest, largest), (-largest, -largest / 2)]


def same(one: float, other: float) -> bool:
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) and math.isnan(other)
    return one == other and math.copysign(1, one) == math.copysign(1, other)


def by_torch(a: float, b: float, format: str) -> float:
    dtype = getattr(torch, format)
    one, other = (torch.tensor(number, dtype=torch.float32).to(dtype) for number in (a, b))
    if dtype.itemsize == 1:  # which are added in float32
        return (one.float() + other.float()).to(dtype).item()
    return (one + other).item()


@pytest.mark.parametrize("format", FORMATS)
def test_the_sum_is_torchs(format: str) -> None:
    largest = torch.finfo(getattr(torch, format)).max
    kinds = set()
    for a, b in draw_pairs(format, 400):
        found = add(a, b, format)
        kinds.add(found.kind)
        if format == "float8_e4m3fn" and abs(a + b) > largest:
            continue  # nan or the largest number, depending on torch's version
        assert same(found.stored, by_torch(a, b, format)), (a, b)
        if found.kind in ("tie", "rounded"):
            low, high = map(Fraction, found.around)
            assert abs(low) < abs(found.exact) < abs(high)
            assert Fraction(found.stored) in (low, high)
            assert (found.kind == "tie") == (2 * found.exact == low + high)
    assert kinds == {"special", "too large", "exact", "tie", "rounded"}


@settings(max_examples=300)
@given(st.floats(), st.sampled_from([1.0, 1e-30, 1e30]))
def test_numbers_are_written_so_that_they_can_be_read_again(number: float, size: float) -> None:
    if not math.isnan(number):
        assert same(float(write(number * size)), number * size)


@pytest.fixture(scope="module")
def page(browser):
    page = browser.new_page(viewport={"width": 800, "height": 700}, has_touch=True)
    page.set_content("<p>a page</p>")
    page.add_script_tag(type="module", content=stage.read_module("addition") + EXPOSE)
    page.wait_for_function("() => window.explorer")
    yield page
    page.close()


@pytest.mark.needs_system("chromium-headless-shell")
@pytest.mark.parametrize("format", FORMATS)
def test_the_page_computes_draws_and_says_the_same(page, format: str) -> None:
    pairs = draw_pairs(format, 200, seed=1)
    found = page.evaluate(
        """([format, pairs]) => pairs.map(([a, b]) => {
            const sum = explorer.add(format, a, b);
            const table = sum.kind === "special" ? null : explorer.layOut(sum);
            return [explorer.describe(sum), sum.kind, table];
        })""",
        [format, [[find_bits(a, format), find_bits(b, format)] for a, b in pairs]],
    )
    for (a, b), (said, kind, table) in zip(pairs, found, strict=True):
        expected = add(a, b, format)
        assert (said, kind) == (describe(expected), expected.kind)
        if kind != "special":
            rows = [(row["name"], row["sign"], row["bits"], row["more"]) for row in table["rows"]]
            assert (table["kept"], table["dropped"], rows) == lay_out(expected)


def bits_as_number(bits: list[str], last: int) -> Fraction:
    """Return the value of a row of the table whose final bit is worth two to the power ``last``."""
    digits = "".join(bits).replace(" ", "") or "0"
    return int(digits, 2) * Fraction(2) ** last


@given(st.floats(width=16, allow_nan=False), st.floats(width=16, allow_nan=False))
def test_the_table_adds_up(a: float, b: float) -> None:
    found = add(a, b, "float16")
    if found.kind == "special":
        return
    kept, dropped, rows = lay_out(found)
    assert all(len(bits) == kept + dropped for _, _, bits, _ in rows)
    values = {}
    for name, sign, bits, more in rows:
        last = (found.last if dropped else 0) - dropped
        filled = [*bits[:kept], *["0"] * dropped] if name == "stored" else bits
        values[name] = (-1 if sign else 1) * bits_as_number(filled, last), more
    if dropped and not any(more for _, more in values.values()):
        assert values["a"][0] + values["b"][0] == values["a + b"][0] == found.exact
        if "stored" in values:
            assert values["stored"][0] == Fraction(found.stored)


@pytest.fixture
def addition(page):
    still = stage.set_up("addition", {"format": "float16", "a": "0.125", "b": "2^-14"}, "a picture")
    page.set_viewport_size({"width": 800, "height": 700})
    page.evaluate("html => { document.body.innerHTML = html }", still)
    code = stage.read_module("addition") + '\nmountAll(document, "addition", mount);\n'
    page.add_script_tag(type="module", content=code)
    page.get_by_role("button", name="Add b again").wait_for()
    return page


@pytest.mark.needs_system("chromium-headless-shell")
def test_a_tie_and_its_neighbors_are_made_and_added_again(addition) -> None:
    said = addition.get_by_role("status")
    assert "halfway between 0.125 and 0.1251220703125" in said.inner_text()
    assert said.inner_text().endswith("Adding b changes nothing.")
    addition.get_by_role("button", name="Just above a tie").press("Enter")
    assert "nearer to 0.1251220703125" in said.inner_text()
    addition.get_by_role("button", name="Add b again").click()
    assert addition.get_by_label("a", exact=True).input_value() == "0.1251220703125"
    addition.get_by_role("button", name="A tie", exact=True).tap()
    assert "The last bit of 0.125244140625 is 0" in said.inner_text()
    addition.get_by_role("button", name="Just below a tie").tap()
    assert said.inner_text().endswith("Adding b changes nothing.")
    addition.get_by_label("Format").select_option("float32")
    assert "which is stored exactly" in said.inner_text()


@pytest.mark.needs_system("chromium-headless-shell")
def test_b_is_moved_by_keyboard_until_it_falls_off(addition) -> None:
    slider = addition.get_by_label("Places between a and b")
    slider.focus()
    addition.keyboard.press("Home")
    assert addition.get_by_label("b", exact=True).input_value() == "0.125"
    for _ in range(10):
        addition.keyboard.press("ArrowRight")
    said = addition.get_by_role("status").inner_text()
    assert "is stored exactly" in said
    assert addition.locator("thead th").count() == 1
    addition.keyboard.press("ArrowRight")
    assert addition.locator("thead th").last.inner_text() == "falls off"
    assert "halfway" in addition.get_by_role("status").inner_text()
    addition.keyboard.press("End")
    assert "nearer to 0.125" in addition.get_by_role("status").inner_text()
    addition.get_by_label("b", exact=True).fill("a tenth")
    addition.keyboard.press("Enter")
    assert addition.get_by_role("status").inner_text().startswith('"a tenth" is not a number')


@pytest.mark.needs_system("chromium-headless-shell")
@pytest.mark.parametrize("width", [PHONE, DESK])
def test_it_fits_a_phone_whatever_is_added(addition, width: int) -> None:
    addition.set_viewport_size({"width": width, "height": 800})
    for format, a, b in (
        ("float32", "1", "1e-7"),
        ("bfloat16", "1e38", "1e-38"),
        ("float16", "1", "inf"),
    ):
        addition.get_by_label("Format").select_option(format)
        addition.get_by_label("a", exact=True).fill(a)
        addition.get_by_label("b", exact=True).fill(b)
        addition.get_by_role("button", name="Add", exact=True).click()
        assert addition.evaluate("document.body.scrollWidth - innerWidth") <= 0


def test_outside_a_notebook_one_line_tells_it(capsys: pytest.CaptureFixture) -> None:
    explore_addition(65504, 16)
    assert capsys.readouterr().out == "65504 + 16 is too large for float16 and becomes inf.\n"


def test_the_still_picture_has_the_same_bits(capsys: pytest.CaptureFixture) -> None:
    from helpers.explorables.addition import _draw

    picture = _draw(add(2**-3, 2**-14, "float16"))
    assert re.findall(r">(\d|)</td>", picture.partition("stored")[2]).count("1") == 1
    assert _draw(Sum("float16", 1.0, math.nan, math.nan, "special")) == ""


def test_an_unknown_format_is_refused_in_one_sentence() -> None:
    with pytest.raises(UnknownFormatError, match='format is "fp4"; write one of: float32, '):
        explore_addition(1.0, 2.0, "fp4")
