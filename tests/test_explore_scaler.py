"""The explorable's scaler is torch's, in Python, in JavaScript and to the hand."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from helpers import explore_scaler
from helpers.explorables import stage
from helpers.explorables.scaler import COUNTS, INTERVALS, Step, _say, run, sort_gradients

EXPOSE = "\nwindow.explorer = { sortGradients, run, describe };\n"
EXPONENTS = torch.tensor([e for e, count in COUNTS.items() for _ in range(count)])
# In the middle between two powers of two: a whole one may round to the next bin.
GRADIENTS = 1.5 * 2.0 ** EXPONENTS.double()


def run_by_torch(scale: int, interval: int, events: str) -> tuple[list[Step], int, int]:
    weight = torch.zeros(len(GRADIENTS), requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=2.0**20)
    made = []
    optimizer.register_step_post_hook(lambda *_: made.append(True))
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**scale, growth_interval=interval)
    steps = []
    for event in events:
        slopes = GRADIENTS.float()
        slopes[0] = math.inf if event == "i" else slopes[0]
        optimizer.zero_grad()
        # The gradient of the 16-bit copy is stored in float16.
        scaler.scale((weight.half().float() * slopes).sum()).backward()
        before, copy = scaler.get_scale(), weight.detach().clone()
        made.clear()
        scaler.step(optimizer)
        scaler.update()
        kind = "skip" if not made else "grow" if scaler.get_scale() > before else "count"
        moved = int((weight.detach() != copy).sum())
        steps.append(Step(int(math.log2(before)), kind, moved))
        with torch.no_grad():
            weight.zero_()
    counter = scaler.state_dict()["_growth_tracker"]
    return steps, int(math.log2(scaler.get_scale())), counter


@given(
    st.integers(0, 32),
    st.sampled_from(INTERVALS),
    st.lists(st.sampled_from("....i"), max_size=20).map("".join),
)
def test_a_run_is_torchs(scale: int, interval: int, events: str) -> None:
    assert run(scale, interval, events) == run_by_torch(scale, interval, events)


@pytest.mark.parametrize("scale", range(-40, 45, 3))
def test_the_zones_are_those_of_float16(scale: int) -> None:
    stored = (GRADIENTS * 2.0**scale).half()
    info = torch.finfo(torch.float16)
    found = {
        "zero": stored == 0,
        "subnormal": (stored != 0) & (stored < info.smallest_normal),
        "normal": stored.isfinite() & (stored >= info.smallest_normal),
        "inf": stored.isinf(),
    }
    assert sort_gradients(scale) == {kind: int(which.sum()) for kind, which in found.items()}


@pytest.fixture(scope="module")
def page(browser):
    page = browser.new_page(viewport={"width": 800, "height": 700}, has_touch=True)
    page.set_content("<p>a page</p>")
    page.add_script_tag(type="module", content=stage.read_module("scaler") + EXPOSE)
    page.wait_for_function("() => window.explorer")
    yield page
    page.close()


@pytest.mark.needs_system("chromium-headless-shell")
@pytest.mark.parametrize("scale", [0, 7, 16, 20, 32])
@pytest.mark.parametrize("interval", INTERVALS)
def test_the_page_computes_and_says_the_same(page, scale: int, interval: int) -> None:
    for events in ("", ".", "....", "..i.", "i" * 30, "." * 48, ".i" * 12):
        given = [scale, interval, events]
        steps, now, counter = run(*given)
        assert page.evaluate("given => explorer.run(...given)", given) == {
            "steps": [vars(step) for step in steps],
            "scale": now,
            "counter": counter,
        }
        assert page.evaluate("given => explorer.describe(...given)", given) == _say(*given)
    assert page.evaluate("k => explorer.sortGradients(k)", scale) == sort_gradients(scale)


@pytest.mark.needs_system("chromium-headless-shell")
def test_steps_and_scale_by_mouse_touch_and_keyboard(page) -> None:
    state = {"scale": 16, "interval": 4, "events": ""}
    still = stage.set_up("scaler", state, "a picture")
    page.evaluate("html => { document.body.innerHTML = html }", still)
    code = stage.read_module("scaler") + '\nmountAll(document, "scaler", mount);\n'
    page.add_script_tag(type="module", content=code)
    page.get_by_role("button", name="4 steps").click()
    said = page.get_by_role("status")
    assert "the counter reaches 4, and the scale doubles to 2^17" in said.inner_text()
    page.get_by_role("button", name="Step with inf").tap()
    assert "the scale is halved to 2^16" in said.inner_text()
    assert page.locator("circle.bits-skip").count() == 1
    page.get_by_role("slider").focus()
    page.keyboard.press("End")
    assert "Made: 0 of 5 steps" in said.inner_text()
    page.get_by_label("Growth interval:").select_option("2")
    page.get_by_role("slider").fill("8")
    assert "Made: 4 of 5 steps" in said.inner_text()
    page.get_by_role("button", name="Start again").click()
    assert "No step yet." in said.inner_text()
    page.get_by_role("button", name="Step", exact=True).focus()
    for _ in range(48):
        page.keyboard.press("Enter")
    assert page.get_by_role("button", name="Step with inf").is_disabled()


def test_outside_a_notebook_three_lines_tell_it(capsys: pytest.CaptureFixture) -> None:
    explore_scaler(21, 4, ".")
    first, second, third = capsys.readouterr().out.splitlines()
    assert (
        first == "Step 1, scale 2^21: inf, so the step is skipped and the scale is halved to 2^20."
    )
    assert second.startswith("Made: 0 of 1 steps; over all steps, 0%")
    assert third.startswith("The next step at 2^20: 0% become 0,")


def test_what_cannot_be_drawn_is_refused_in_one_sentence() -> None:
    with pytest.raises(ValueError, match="it is an exponent from 0 to 32"):
        explore_scaler(33)
    with pytest.raises(ValueError, match="write one of: 2, 4, 8"):
        explore_scaler(16, 3)
    for events in ("x", "." * 49):
        with pytest.raises(ValueError, match=r"at most 48 letters, each \. or i"):
            explore_scaler(16, 4, events)
