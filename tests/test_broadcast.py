"""Two shapes and their broadcast: as torch has it, in Python, in JavaScript and to the hand."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from helpers import explore_broadcast
from helpers.explorables import stage
from helpers.explorables.broadcast import (
    LARGEST,
    align,
    describe,
    expanded_strides,
    memory_of,
    strides_of,
)

EXPOSE = "\nwindow.explorer = { align, stridesOf, expandedStrides, memoryOf, describe };\n"
SHAPES = st.lists(st.integers(0, 4), max_size=4)
PAIRS = [
    ((8, 30, 64), (64,)),
    ((3, 4), (3, 1)),
    ((5,), (4, 1)),
    ((16, 3, 32, 32), (3, 1, 1)),
    ((16, 3, 32, 32), (3,)),
    ((3, 2), (3, 4)),
    ((), (7,)),
    ((), ()),
    ((0, 3), (1, 3)),
    ((0, 3), (2, 3)),
    ((1,), (1, 1, 1)),
    ((999, 999, 999, 999), (1,)),
    ((1, 999), (999, 1)),
]


@given(SHAPES, SHAPES)
def test_result_and_error_are_torchs(first: list[int], second: list[int]) -> None:
    result, told = align(first, second).result, ""
    try:
        expected = tuple((torch.empty(first) + torch.empty(second)).shape)
    except RuntimeError as error:
        expected, told = None, f"PyTorch raises: {error}"
    assert result == expected
    if told:
        assert describe(first, second)[1] == told
    else:
        assert torch.broadcast_shapes(tuple(first), tuple(second)) == result


@given(SHAPES, SHAPES)
def test_strides_and_bytes_are_torchs(first: list[int], second: list[int]) -> None:
    result = align(first, second).result
    tensors = [torch.empty(shape) for shape in (first, second)]
    memory = memory_of(first, second)
    assert memory.tensors == sum(t.untyped_storage().nbytes() for t in tensors)
    for shape, tensor in zip((first, second), tensors, strict=True):
        assert tuple(strides_of(shape)) == tensor.stride()
        if result is not None:
            assert tuple(expanded_strides(shape, result)) == tensor.expand(result).stride()
    if result is None:
        assert (memory.result, memory.copies) == (None, None)
    else:
        assert memory.result == (tensors[0] + tensors[1]).untyped_storage().nbytes()
        wide = [t.expand(result).clone(memory_format=torch.contiguous_format) for t in tensors]
        copies = [w for w, t in zip(wide, tensors, strict=True) if w.shape != t.shape]
        assert memory.copies == sum(copy.untyped_storage().nbytes() for copy in copies)


@pytest.fixture(scope="module")
def page(browser):
    page = browser.new_page(viewport={"width": 800, "height": 900}, has_touch=True)
    page.set_content("<p>a page</p>")
    page.add_script_tag(type="module", content=stage.read_module("broadcast") + EXPOSE)
    page.wait_for_function("() => window.explorer")
    yield page
    page.close()


@pytest.mark.needs_system("chromium-headless-shell")
@pytest.mark.parametrize(("first", "second"), PAIRS, ids=str)
def test_the_page_computes_and_says_the_same(page, first: tuple, second: tuple) -> None:
    for one, other in ((first, second), (second, first)):
        given, expected = [list(one), list(other)], align(one, other)
        found = page.evaluate("([a, b]) => explorer.align(a, b)", given)
        assert found == {
            "result": None if expected.result is None else list(expected.result),
            "clash": expected.clash,
            "sizes": None if expected.sizes is None else list(expected.sizes),
        }
        assert page.evaluate("([a]) => explorer.stridesOf(a)", given) == strides_of(one)
        if expected.result is not None:
            code = "([a, r]) => explorer.expandedStrides(a, r)"
            got = page.evaluate(code, [list(one), list(expected.result)])
            assert got == expanded_strides(one, expected.result)
        memory = memory_of(one, other)
        assert page.evaluate("([a, b]) => explorer.memoryOf(a, b)", given) == vars(memory)
        assert page.evaluate("([a, b]) => explorer.describe(a, b)", given) == describe(one, other)


@pytest.fixture
def live(page):
    state = {"first": [3, 4], "second": [4]}
    still = stage.set_up("broadcast", state, "a picture")
    page.evaluate("html => { document.body.innerHTML = html }", still)
    code = stage.read_module("broadcast") + '\nmountAll(document, "broadcast", mount);\n'
    page.add_script_tag(type="module", content=code)
    page.get_by_label("Example:").wait_for()
    return page


def said_by(page) -> str:
    return page.get_by_role("status").inner_text()


@pytest.mark.needs_system("chromium-headless-shell")
def test_sizes_are_changed_by_keyboard(live) -> None:
    field = live.get_by_label("first shape, axis -1")
    field.focus()
    live.keyboard.press("ArrowUp")
    assert field.evaluate("field => document.activeElement === field"), "the focus stays"
    assert "(3, 5) and (4,) do not fit." in said_by(live)
    assert "size of tensor a (5) must match the size of tensor b (4)" in said_by(live)
    assert live.locator(".bits-clash").count() == 3
    field.fill("1")
    assert "(3, 1) and (4,) give (3, 4). Strides: (1, 0) and (0, 1)." in said_by(live)
    assert live.locator(".bits-repeated").count() == 2


@pytest.mark.needs_system("chromium-headless-shell")
def test_what_is_no_size_changes_nothing(live) -> None:
    field = live.get_by_label("second shape, axis -1")
    before = said_by(live)
    for typed in ("", "-1", f"{LARGEST + 1}", "1.5"):
        field.fill(typed)
        assert said_by(live) == before, typed
    live.get_by_label("Example:").focus()
    assert field.input_value() == "4"


@pytest.mark.needs_system("chromium-headless-shell")
def test_axes_come_and_go_by_touch(live) -> None:
    more = live.get_by_role("button", name="second shape: one axis more")
    for _ in range(3):
        more.tap()
    assert more.is_disabled()
    assert "(3, 4) and (2, 2, 2, 4) do not fit." in said_by(live)
    fewer = live.get_by_role("button", name="second shape: one axis less")
    for _ in range(4):
        fewer.tap()
    assert fewer.is_disabled()
    assert "(3, 4) and () give (3, 4). Strides: (4, 1) and (0, 0)." in said_by(live)
    assert live.locator("svg .bits-copy").count() == 3 * 4 - 1
    assert live.locator("svg .bits-stored").count() == 2 * 3 * 4 + 1 + 2, "two parts of bars"


@pytest.mark.needs_system("chromium-headless-shell")
def test_an_example_is_chosen(live) -> None:
    live.get_by_label("Example:").select_option(label="images and a mean without its axes")
    assert "(16, 3, 32, 32) and (3,) do not fit." in said_by(live)
    assert "an error" in live.locator("svg").text_content()
    live.get_by_label("Example:").select_option(label="images and a mean for each channel")
    assert "Strides: (3072, 1024, 32, 1) and (0, 1, 0, 0)." in said_by(live)
    assert "Repeating first would copy 197 kB." in said_by(live)


def test_the_still_picture_has_the_same_squares() -> None:
    from helpers.explorables.broadcast import _draw

    drawn = _draw((3, 4), ())
    assert drawn.count("bits-copy") == 3 * 4 - 1
    assert drawn.count("bits-stored") == 2 * 3 * 4 + 1 + 2
    assert "no broadcast" in _draw((2,), (3,))


def test_outside_a_notebook_two_lines_tell_it(capsys: pytest.CaptureFixture) -> None:
    explore_broadcast((200, 1), (200,))
    assert capsys.readouterr().out == (
        "(200, 1) and (200,) give (200, 200). Strides: (1, 0) and (0, 1).\n"
        "Repeating first would copy 320 kB. Broadcasting copies nothing.\n"
    )


@pytest.mark.parametrize("shape", [(1, 2, 3, 4, 5), (-1,), (LARGEST + 1,)])
def test_what_cannot_be_drawn_is_refused_in_one_sentence(shape: tuple) -> None:
    with pytest.raises(ValueError, match="write at most 4 sizes from 0 to 999"):
        explore_broadcast(shape, ())
