"""The order of the calls: what they do is what torch does, in Python, in JavaScript, by hand."""

from __future__ import annotations

import itertools
import math
import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import explore_steps
from helpers.explorables import stage
from helpers.explorables.steps import (
    CALLS,
    DECAY,
    GRADIENTS,
    MOST_NORM,
    RATE,
    SCALE,
    Entry,
    describe,
    run,
)

RIGHT = list(CALLS)
EXPOSE = "\nwindow.explorer = { run, moveCall, describe };\n"
ORDERS = st.permutations(RIGHT)
INFS = st.integers(0, len(GRADIENTS))


class Torch:
    """The same calls, made by torch."""

    def __init__(self) -> None:
        self.weight = torch.nn.Parameter(torch.tensor([3.0]))
        self.optimizer = torch.optim.SGD([self.weight], lr=RATE)
        self.scheduler = torch.optim.lr_scheduler.ExponentialLR(self.optimizer, DECAY)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=SCALE, growth_interval=1000)
        self.scale_before = SCALE

    def grad(self) -> float | None:
        return None if self.weight.grad is None else self.weight.grad.item()

    def backward(self, gradient: float) -> float | None:
        loss = (self.weight * torch.tensor([gradient])).sum()
        self.scaler.scale(loss).backward()
        return self.grad()

    def unscale(self, gradient: float) -> float | None:
        self.scaler.unscale_(self.optimizer)
        return self.grad()

    def clip(self, gradient: float) -> float:
        return torch.nn.utils.clip_grad_norm_([self.weight], MOST_NORM).item()

    def step(self, gradient: float) -> float | None:
        made = []
        before = self.weight.data.fill_(3.0).item()  # a step of before may have left a nan
        hook = self.optimizer.register_step_post_hook(lambda *_: made.append(None))
        self.scaler.step(self.optimizer)
        hook.remove()
        return before - self.weight.item() if made else None

    def update(self, gradient: float) -> float:
        self.scaler.update()
        return self.scaler.get_scale()

    def schedule(self, gradient: float) -> float | None:
        if self.scaler.get_scale() < self.scale_before:
            return None
        self.scheduler.step()
        return self.optimizer.param_groups[0]["lr"]

    def clear(self, gradient: float) -> None:
        self.optimizer.zero_grad()


def is_same(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    # A float32 weight of 3 keeps a step to seven digits of itself.
    return one == pytest.approx(other, rel=1e-4, abs=1e-6, nan_ok=True)


@settings(max_examples=300)
@given(ORDERS, INFS)
def test_each_call_does_what_torch_does(order: list[str], inf: int) -> None:
    made = Torch()
    for number, (entries, gradient) in enumerate(
        zip(run(order, inf), GRADIENTS, strict=False), start=1
    ):
        made.scale_before = made.scaler.get_scale()
        for entry in entries:
            called, given = getattr(made, entry.call), math.inf if number == inf else gradient
            with warnings.catch_warnings():  # of a schedule that is ahead of the optimizer
                warnings.simplefilter("ignore")
                if entry.error:
                    with pytest.raises((RuntimeError, AssertionError)) as raised:
                        called(given)
                    assert str(raised.value).startswith(entry.error)
                    return
                assert is_same(called(given), entry.value), (number, entry)
            assert is_same(made.grad(), entry.grad), (number, entry)
    assert number == len(GRADIENTS)


def test_the_right_order_is_told_as_right_and_what_matters_as_wrong() -> None:
    assert describe(RIGHT, 0) == "Every window does what it should."
    assert describe(["clear", *RIGHT[:-1]], 0) == "Every window does what it should."
    assert "is skipped, the scale is halved" in describe(RIGHT, 2)
    for call, place, inf, told in (
        ("clip", 1, 0, "In window 1, clipping sees the norm 512, and the gradient’s is 0.5."),
        ("schedule", 4, 3, "In window 3, no step is made, and the rate changes all the same."),
        ("clear", 1, 0, "raises “No inf checks were recorded for this optimizer.”"),
        ("unscale", 3, 0, "raises “unscale_() is being called after step().”"),
        ("update", 0, 0, "raises “Attempted update but _scale is None.”"),
    ):
        rest = [name for name in RIGHT if name != call]
        assert told in describe([*rest[:place], call, *rest[place:]], inf)


@pytest.fixture(scope="module")
def page(browser):
    page = browser.new_page(viewport={"width": 800, "height": 600}, has_touch=True)
    page.set_content("<p>a page</p>")
    page.add_script_tag(type="module", content=stage.read_module("steps") + EXPOSE)
    page.wait_for_function("() => window.explorer")
    yield page
    page.close()


@pytest.mark.needs_system("chromium-headless-shell")
def test_the_page_computes_and_says_the_same_in_every_order(page) -> None:
    orders = enumerate(itertools.permutations(RIGHT))
    cases = [(list(order), k % (1 + len(GRADIENTS))) for k, order in orders]
    # What JSON cannot carry is told by its name.
    code = """cases => cases.map(([order, inf]) => [
        explorer.describe(order, inf),
        explorer.run(order, inf).map(window => window.map(entry => [
            entry.call, entry.kind ?? "", entry.error ?? "",
            ...[entry.value, entry.grad].map(
                x => x == null || Number.isFinite(x) ? x ?? null : String(Math.abs(x))),
        ])),
    ])"""
    for (order, inf), (said, windows) in zip(cases, page.evaluate(code, cases), strict=True):
        assert said == describe(order, inf)
        assert windows == [[told(entry) for entry in entries] for entries in run(order, inf)]


def told(entry: Entry) -> list[str | float | None]:
    numbers = [
        {"inf": "Infinity", "nan": "NaN"}.get(f"{number}", number)
        for number in (entry.value, entry.grad)
    ]
    return [entry.call, entry.kind, entry.error, *numbers]


@pytest.fixture
def steps(page):
    still = stage.set_up("steps", {"order": RIGHT, "inf": 0}, "a picture")
    page.evaluate("html => { document.body.innerHTML = html }", still)
    code = stage.read_module("steps") + '\nmountAll(document, "steps", mount);\n'
    page.add_script_tag(type="module", content=code)
    page.get_by_role("slider").first.wait_for()
    return page


def order_of(page) -> list[str]:
    names = {text: name for name, text in CALLS.items()}
    return [names[text] for text in page.locator(".bits-handle").all_text_contents()]


def moved(call: str, place: int) -> list[str]:
    rest = [name for name in RIGHT if name != call]
    return [*rest[:place], call, *rest[place:]]


@pytest.mark.needs_system("chromium-headless-shell")
def test_calls_are_moved_by_keyboard(steps) -> None:
    clip = steps.get_by_role("slider", name="place of clip_grad_norm_")
    clip.focus()
    for key, place in (("ArrowUp", 1), ("End", 6), ("ArrowDown", 6), ("Home", 0), ("ArrowDown", 1)):
        steps.keyboard.press(key)
        assert order_of(steps) == moved("clip", place), key
        assert clip.evaluate("call => document.activeElement === call"), "the focus goes with it"
    assert clip.get_attribute("aria-valuetext") == "2 of 7"
    assert "clipping sees the norm 512" in steps.get_by_role("status").inner_text()
    steps.get_by_role("button", name="Start again").click()
    assert order_of(steps) == RIGHT


def middle_of(page, place: int) -> tuple[float, float]:
    box = page.locator(".bits-handle").nth(place).bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


@pytest.mark.needs_system("chromium-headless-shell")
def test_calls_are_moved_by_mouse_and_by_touch(steps) -> None:
    steps.mouse.move(*middle_of(steps, 2))
    steps.mouse.down()
    steps.mouse.move(*middle_of(steps, 0), steps=6)
    steps.mouse.up()
    assert order_of(steps) == moved("clip", 0)
    steps.mouse.move(*middle_of(steps, 4))
    assert order_of(steps) == moved("clip", 0), "let go"
    session = steps.context.new_cdp_session(steps)

    def touch(kind: str, *points: tuple[float, float]) -> None:
        given = [{"x": x, "y": y} for x, y in points]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": given})

    touch("touchStart", middle_of(steps, 0))
    for place in (1, 2, 3):
        touch("touchMove", middle_of(steps, place))
        steps.wait_for_timeout(50)
    touch("touchEnd")
    assert order_of(steps) == moved("clip", 3)


@pytest.mark.needs_system("chromium-headless-shell")
def test_an_inf_is_dropped_in_and_what_it_does_is_said(steps) -> None:
    steps.get_by_label("An inf comes").select_option("in window 2")
    said = steps.get_by_role("status")
    assert said.inner_text().endswith(
        "Window 2 is skipped, the scale is halved, and the schedule waits."
    )
    row = steps.locator(".bits-row").nth(1 + RIGHT.index("step"))
    assert row.locator(".bits-cell").nth(1).inner_text() == "skipped"
    steps.get_by_role("slider", name="place of if stepped").focus()
    steps.keyboard.press("ArrowUp")
    assert said.inner_text() == "In window 2, no step is made, and the rate changes all the same."


def test_outside_a_notebook_one_line_tells_it(capsys: pytest.CaptureFixture) -> None:
    explore_steps(inf=2)
    assert capsys.readouterr().out == describe(RIGHT, 2) + "\n"


def test_what_is_no_order_is_refused_in_one_sentence() -> None:
    with pytest.raises(ValueError, match="each of these stands there once: backward, unscale"):
        explore_steps(["backward", "step"])
    with pytest.raises(ValueError, match="inf is 5: it is a window from 1 to 4, or 0 for none"):
        explore_steps(inf=5)
