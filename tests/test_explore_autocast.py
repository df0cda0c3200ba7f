"""The network in regions: its dtypes are torch's, in Python, in JavaScript and to the hand."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional

from helpers import explore_autocast
from helpers.explorables import stage
from helpers.explorables.autocast import LAYERS, _draw, describe, follow

EXPOSE = "\nwindow.explorer = { follow, describe };\n"
ALL_MARKS = list(product(("none", "region", "disabled"), repeat=len(LAYERS)))
SOME_MARKS = [
    ("none",) * 6,
    ("region",) * 6,
    ("region", "region", "disabled", "region", "none", "none"),
    ("disabled", "region", "region", "disabled", "region", "region"),
    ("none", "none", "region", "region", "none", "region"),
]


def multiply(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """A linear layer; fake tensors do not refuse different dtypes, as a card and the CPU do."""
    result = functional.linear(x, weight)
    if result.dtype != weight.dtype and not torch.is_autocast_enabled(x.device.type):
        raise RuntimeError("the dtypes differ")
    return result


def run_layer(name: str, x: torch.Tensor, on: str) -> torch.Tensor:
    other = torch.rand(4, 4, device=on)
    return {
        "linear": lambda: multiply(x, other),
        "layer_norm": lambda: functional.layer_norm(x, (4,)),
        "gelu": lambda: functional.gelu(x),
        "softmax": lambda: torch.softmax(x, dim=1),
        "mse_loss": lambda: functional.mse_loss(x, other),
    }[name]()


def dtypes_in_torch(marks: tuple[str, ...], on: str, lower: str) -> Iterator[str]:
    """Yield the dtype of each result, and "" for an operation that raises an error."""
    x = torch.rand(4, 4, device=on)
    torch.set_autocast_dtype(on, getattr(torch, lower))
    for (name, _), mark in zip(LAYERS, marks, strict=True):
        torch.set_autocast_enabled(on, mark == "region")
        try:
            x = run_layer(name, x, on)
        except RuntimeError:
            yield ""
            return
        finally:
            torch.set_autocast_enabled(on, False)
        yield str(x.dtype).removeprefix("torch.")


@pytest.fixture
def _autocast_dtypes_stay() -> Iterator[None]:
    before = {on: torch.get_autocast_dtype(on) for on in ("cpu", "cuda")}
    yield
    for on, dtype in before.items():
        torch.set_autocast_dtype(on, dtype)


@pytest.mark.usefixtures("_autocast_dtypes_stay")
@pytest.mark.parametrize("lower", ["bfloat16", "float16"])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_each_operation_computes_in_the_dtype_in_which_torch_does(device: str, lower: str) -> None:
    with FakeTensorMode():
        for marks in ALL_MARKS:
            found = [step.computes for step in follow(marks, device, lower)]
            wanted = list(dtypes_in_torch(marks, device, lower))
            assert found == wanted + [""] * (len(LAYERS) - len(wanted)), marks


@pytest.mark.usefixtures("_autocast_dtypes_stay")
def test_real_tensors_of_the_cpu_say_the_same() -> None:
    for marks in ALL_MARKS:
        found = [step.computes for step in follow(marks, "cpu", "bfloat16") if step.computes]
        assert found == [name for name in dtypes_in_torch(marks, "cpu", "bfloat16") if name]


def test_casts_are_counted_and_named() -> None:
    first, norm, *_, loss = follow(("region",) * 6, "cuda", "float16")
    assert first.casts == ("input float32 → float16", "weight float32 → float16")
    assert norm.casts == ("input float16 → float32",)
    assert loss.casts == ()
    assert describe(("region",) * 6, "cuda", "float16") == (
        "CUDA, float16 region, 6 casts: linear computes in float16, layer_norm computes in "
        "float32, gelu computes in float32, linear computes in float16, softmax computes in "
        "float32, mse_loss computes in float32."
    )


@pytest.fixture(scope="module")
def page(browser):
    page = browser.new_page(viewport={"width": 800, "height": 900}, has_touch=True)
    page.set_content("<p>a page</p>")
    page.add_script_tag(type="module", content=stage.read_module("autocast") + EXPOSE)
    page.wait_for_function("() => window.explorer")
    yield page
    page.close()


@pytest.mark.needs_system("chromium-headless-shell")
@pytest.mark.parametrize("lower", ["bfloat16", "float16"])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_page_computes_and_says_the_same(page, device: str, lower: str) -> None:
    for name, compute in (("follow", follow), ("describe", describe)):
        code = f"all => all.map(marks => explorer.{name}(marks, '{device}', '{lower}'))"
        found = page.evaluate(code, ALL_MARKS)
        wanted = [compute(marks, device, lower) for marks in ALL_MARKS]
        if name == "follow":
            wanted = [[{**vars(s), "casts": list(s.casts)} for s in steps] for steps in wanted]
        assert found == wanted


def set_up(page, *marks: str):
    state = {"marks": list(marks), "device": "cpu", "lower": "bfloat16"}
    still = stage.set_up("autocast", state, "a picture")
    page.evaluate("html => { document.body.innerHTML = html }", still)
    code = stage.read_module("autocast") + '\nmountAll(document, "autocast", mount);\n'
    page.add_script_tag(type="module", content=code)
    page.get_by_role("button", name="linear, operation 1").wait_for()
    return page


def marks_of(page) -> list[str]:
    return page.locator(".bits-cell text").all_text_contents()


@pytest.mark.needs_system("chromium-headless-shell")
@pytest.mark.parametrize("marks", SOME_MARKS, ids=" ".join)
def test_the_still_picture_is_the_live_one(page, marks: tuple[str, ...]) -> None:
    set_up(page, *marks)
    live = page.locator(".bits-autocast").inner_html()
    still = _draw(marks, "cpu", "bfloat16")
    for pattern in (r'<rect[^>]*class="(bits-[\w -]+)"', r"<text[^>]*>([^<]*)</text>"):
        assert sorted(re.findall(pattern, live)) == sorted(re.findall(pattern, still))


@pytest.mark.needs_system("chromium-headless-shell")
def test_regions_are_drawn_by_keyboard(page) -> None:
    set_up(page, *["none"] * 6)
    cell = page.get_by_role("button", name="linear, operation 4")
    cell.focus()
    page.keyboard.press("Enter")
    assert marks_of(page) == ["none", "none", "none", "autocast", "none", "none"]
    assert cell.evaluate("cell => document.activeElement === cell"), "the focus stays"
    page.get_by_label("Draw").select_option("disabled")
    page.get_by_role("button", name="softmax, operation 5").focus()
    page.keyboard.press("Space")
    assert marks_of(page) == ["none", "none", "none", "autocast", "disabled", "none"]
    assert "softmax computes in bfloat16" in page.get_by_role("status").inner_text()
    page.get_by_role("button", name="Clear").click()
    assert "no region, 0 casts" in page.get_by_role("status").inner_text()


@pytest.mark.needs_system("chromium-headless-shell")
def test_regions_are_drawn_by_mouse_and_by_touch(page) -> None:
    set_up(page, *["none"] * 6)

    def middle(row: int) -> tuple[float, float]:
        box = page.locator(".bits-mark").nth(row).bounding_box()
        return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    page.mouse.move(*middle(0))
    page.mouse.down()
    page.mouse.move(*middle(3), steps=8)
    page.mouse.up()
    page.mouse.move(*middle(5))
    assert marks_of(page) == ["autocast"] * 4 + ["none"] * 2, "let go"
    page.get_by_label("Draw").select_option("disabled")
    page.locator(".bits-box").nth(1).click()
    assert marks_of(page) == ["autocast", "disabled", "autocast", "autocast", "none", "none"]
    page.get_by_label("Draw").select_option("none")
    session = page.context.new_cdp_session(page)

    def touch(kind: str, *points: tuple[float, float]) -> None:
        given = [{"x": x, "y": y} for x, y in points]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": given})

    touch("touchStart", middle(2))
    touch("touchMove", middle(3))
    page.wait_for_timeout(50)
    touch("touchEnd")
    assert marks_of(page) == ["autocast", "disabled", "none", "none", "none", "none"]


@pytest.mark.needs_system("chromium-headless-shell")
def test_policies_and_dtypes_are_switched(page) -> None:
    set_up(page, *["region"] * 6)
    said = page.get_by_role("status")
    assert "CPU, bfloat16 region, 4 casts: " in said.inner_text()
    assert "softmax computes in bfloat16" in said.inner_text()
    page.get_by_label("Policies of").select_option("cuda")
    page.get_by_label("The region's dtype").select_option("float16")
    assert "softmax computes in float32" in said.inner_text()
    page.get_by_label("Draw").select_option("disabled")
    page.locator(".bits-box").nth(3).click()
    page.locator(".bits-box").nth(1).click()
    assert said.inner_text().endswith("gelu computes in float16, linear raises an error.")
    assert page.locator(".bits-unreached").count() == 2


def test_outside_a_notebook_one_line_tells_it(capsys: pytest.CaptureFixture) -> None:
    explore_autocast()
    assert capsys.readouterr().out == (
        "CPU, bfloat16 region, 4 casts: linear computes in bfloat16, layer_norm computes in "
        "bfloat16, gelu computes in bfloat16, linear computes in bfloat16, softmax computes in "
        "bfloat16, mse_loss computes in float32.\n"
    )


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"marks": ["region"]}, "write 6 of: none, region, disabled"),
        ({"device": "tpu"}, 'device is "tpu"; write one of: cpu, cuda'),
        ({"lower": "float8"}, 'lower is "float8"; write one of: bfloat16, float16'),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_one_sentence(given: dict, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        explore_autocast(**given)
