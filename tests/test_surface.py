"""The error surface: its steps are torch's, in Python, in JavaScript and to the hand."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from helpers import explore_surface
from helpers.explorables import stage
from helpers.explorables.surface import (
    CONDITIONS,
    METHODS,
    MOST_STEPS,
    RATES,
    descend,
    describe,
    gradient,
    losses,
    split,
)

EXPOSE = "\nwindow.explorer = { descend, gradient, moveStart, describe };\n"
TILTS = st.integers(-9, 9).map(lambda fives: 5 * fives)
PLACES = st.integers(-12, 12).map(lambda tenths: tenths / 10)
STARTS = st.tuples(PLACES, PLACES).filter(any)
START = {
    "method": "gradient",
    "condition": 100,
    "rate": 1.8,
    "tilt": 25,
    "steps": 40,
    "start": [-1.0, 0.1],
}


def loss_by_torch(condition: float, tilt: float, weights: torch.Tensor) -> torch.Tensor:
    angle = math.radians(tilt)
    turn = torch.tensor(
        [[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]],
        dtype=torch.float64,
    )
    eigenvalues = torch.tensor([1 / condition, 1.0], dtype=torch.float64)
    return 0.5 * (eigenvalues * (turn @ weights) ** 2).sum()


def steps_by_torch(
    method: str, condition: float, rate: float, tilt: float, start: tuple[float, float]
) -> list[list[float]]:
    weights = torch.tensor(start, dtype=torch.float64, requires_grad=True)
    made = {"gradient": torch.optim.SGD, "adam": torch.optim.Adam}[method]
    optimizer = made([weights], lr=rate)
    path = [weights.tolist()]
    for _ in range(MOST_STEPS):
        optimizer.zero_grad()
        loss_by_torch(condition, tilt, weights).backward()
        optimizer.step()
        path.append(weights.tolist())
    return path


@settings(max_examples=25, deadline=None)
@example(method="adam", condition=5, rate=0.2, tilt=45, start=(0.1, 0.1))
@given(
    st.sampled_from(list(METHODS)),
    st.sampled_from(CONDITIONS),
    st.sampled_from(RATES),
    TILTS,
    STARTS,
)
def test_each_step_is_that_of_torchs_optimizer(
    method: str, condition: float, rate: float, tilt: float, start: tuple[float, float]
) -> None:
    path, expected, beside = (
        torch.tensor(steps, dtype=torch.float64)
        for steps in (
            descend(method, condition, rate, tilt, start),
            steps_by_torch(method, condition, rate, tilt, start),
            steps_by_torch(method, condition, rate, tilt, (start[0] * (1 + 1e-12), start[1])),
        )
    )
    # Adam divides by the size of gradients, which may be what rounding has left of a 0: then two
    # runs drift apart that begin nearly together.
    assume(torch.allclose(beside, expected, rtol=1e-7, atol=1e-6))
    torch.testing.assert_close(path, expected, rtol=1e-6, atol=1e-5)


@given(st.sampled_from(CONDITIONS), TILTS, STARTS)
def test_loss_and_gradient_are_autograds(
    condition: float, tilt: float, start: tuple[float, float]
) -> None:
    weights = torch.tensor(start, dtype=torch.float64, requires_grad=True)
    loss = loss_by_torch(condition, tilt, weights)
    loss.backward()
    assert sum(losses(condition, tilt, start)) == pytest.approx(loss.item(), rel=1e-9)
    expected = pytest.approx(weights.grad.tolist(), rel=1e-9, abs=1e-12)
    assert list(gradient(condition, tilt, start)) == expected


def test_what_stalls_and_what_does_not_is_said() -> None:
    said = describe(**START)
    assert "the steep error goes from 0.513 to 0.0000682, the flat one from 0.864 to 0.418" in said
    assert "falls to 0.644% of its first value" in said
    assert "the negative gradient points 58° away from the minimum." in said
    assert describe(**{**START, "condition": 1}).endswith("points 0° away from the minimum.")
    said = describe(**{**START, "rate": 2.1})
    assert "the loss rises to" in said
    assert said.endswith("The rate is above the limit, 2, so the steep error grows.")


def test_adam_helps_where_the_valley_lies_along_an_axis_alone() -> None:
    along, across = (
        abs(split(tilt, descend("adam", 4500, 0.1, tilt, START["start"])[-1])[0])
        for tilt in (0, 25)
    )
    assert along < 1e-4
    assert across > 0.5


@pytest.fixture(scope="module")
def page(browser):
    page = browser.new_page(viewport={"width": 800, "height": 700}, has_touch=True)
    page.set_content("<p>a page</p>")
    page.add_script_tag(type="module", content=stage.read_module("surface") + EXPOSE)
    page.wait_for_function("() => window.explorer")
    yield page
    page.close()


CASES = [
    {**START, **changed}
    for changed in (
        {},
        {"condition": 1, "rate": 1},
        {"condition": 4500, "rate": 1.9, "steps": 200},
        {"rate": 2.1, "steps": 200},
        {"method": "adam", "rate": 0.1, "tilt": 0},
        {"method": "adam", "rate": 0.02, "condition": 1000, "tilt": -45},
        {"start": [0.0, 1.2], "tilt": 0, "steps": 0},
    )
]


@pytest.mark.needs_system("chromium-headless-shell")
@pytest.mark.parametrize("state", CASES)
def test_the_page_computes_and_says_the_same(page, state: dict) -> None:
    moving = {name: value for name, value in state.items() if name != "steps"}
    for got, expected in zip(
        page.evaluate("state => explorer.descend(state)", state), descend(**moving), strict=True
    ):
        assert got == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert page.evaluate("state => explorer.describe(state)", state) == describe(**state)


@pytest.mark.needs_system("chromium-headless-shell")
@pytest.mark.parametrize(
    ("start", "to", "moved"),
    [
        ([-1.0, 0.1], [0.33, -0.28], [0.3, -0.3]),
        ([-1.0, 0.1], [7, -9], [1.2, -1.2]),
        ([0.1, 0.0], [0.04, 0.01], [0.1, 0.0]),
    ],
)
def test_the_start_stays_in_the_picture_and_off_the_minimum(page, start, to, moved) -> None:
    assert page.evaluate("([start, to]) => explorer.moveStart(start, to)", [start, to]) == moved


@pytest.fixture
def surface(page):
    still = stage.set_up("surface", START, "a picture")
    page.evaluate("html => { document.body.innerHTML = html }", still)
    code = stage.read_module("surface") + '\nmountAll(document, "surface", mount);\n'
    page.add_script_tag(type="module", content=code)
    page.get_by_role("slider").first.wait_for()
    return page


def said(page) -> str:
    return page.get_by_role("status").inner_text()


@pytest.mark.needs_system("chromium-headless-shell")
def test_sliders_move_by_keyboard_and_what_follows_is_drawn(surface) -> None:
    assert said(surface) == describe(**START)
    condition = surface.get_by_role("slider", name="condition number")
    condition.focus()
    surface.keyboard.press("Home")
    assert condition.get_attribute("aria-valuetext") == "1"
    assert said(surface) == describe(**{**START, "condition": 1})
    surface.keyboard.press("End")
    rate = surface.get_by_role("slider", name="learning rate")
    rate.focus()
    surface.keyboard.press("End")
    steps = surface.get_by_role("slider", name="steps")
    steps.focus()
    surface.keyboard.press("Home")
    surface.keyboard.press("ArrowRight")
    assert said(surface) == describe(**{**START, "condition": 4500, "rate": 2.1, "steps": 1})
    assert surface.locator(".bits-step").count() == 2
    surface.get_by_role("button", name="Start again").click()
    assert said(surface) == describe(**START)
    assert surface.locator(".bits-step").count() == 41


@pytest.mark.needs_system("chromium-headless-shell")
def test_an_optimizer_is_chosen_with_a_rate_that_suits_it(surface) -> None:
    surface.get_by_role("combobox", name="optimizer").select_option("Adam")
    assert said(surface) == describe(**{**START, "method": "adam", "rate": 0.1})
    tilt = surface.get_by_role("slider", name="tilt")
    tilt.focus()
    for _ in range(5):
        surface.keyboard.press("ArrowLeft")
    assert said(surface) == describe(**{**START, "method": "adam", "rate": 0.1, "tilt": 0})


@pytest.mark.needs_system("chromium-headless-shell")
def test_the_start_is_moved_by_keyboard_by_mouse_and_by_touch(surface) -> None:
    start = surface.get_by_role("slider", name="start")
    start.focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowUp", "ArrowLeft", "ArrowDown", "ArrowDown"):
        surface.keyboard.press(key)
    assert start.get_attribute("aria-valuetext") == "weight 1 -0.9, weight 2 0"
    assert said(surface) == describe(**{**START, "start": [-0.9, 0.0]})
    picture = surface.locator(".bits-surface").bounding_box()
    unit = 112 / 320 * picture["width"]

    def middle() -> tuple[float, float]:
        box = start.bounding_box()
        return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    (x, y) = middle()
    surface.mouse.move(x, y)
    surface.mouse.down()
    surface.mouse.move(x + 1.2 * unit, y + 0.2 * unit, steps=4)
    surface.mouse.up()
    assert start.get_attribute("aria-valuetext") == "weight 1 0.3, weight 2 -0.2"
    surface.mouse.move(x, y)
    assert start.get_attribute("aria-valuetext") == "weight 1 0.3, weight 2 -0.2", "let go"
    session = surface.context.new_cdp_session(surface)

    def touch(kind: str, *points: tuple[float, float]) -> None:
        given = [{"x": px, "y": py} for px, py in points]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": given})

    x, y = middle()
    touch("touchStart", (x, y))
    for part in (0.1, 0.2, 0.3, 0.3):
        touch("touchMove", (x, y + part * unit))
        surface.wait_for_timeout(50)
    touch("touchEnd")
    assert start.get_attribute("aria-valuetext") == "weight 1 0.3, weight 2 -0.5"


def test_outside_a_notebook_one_line_tells_it(capsys: pytest.CaptureFixture) -> None:
    explore_surface()
    assert capsys.readouterr().out == describe(**START) + "\n"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"condition": 3}, "condition is 3; write one of: 1, 2, 5"),
        ({"rate": 7}, "rate is 7; write one of: 0.01"),
        ({"method": "sgd"}, "method is sgd; write one of: gradient, adam"),
        ({"tilt": 50}, "tilt is 50: it lies between -45 and 45 degrees"),
        ({"steps": 201}, "steps is 201: it lies between 0 and 200"),
        ({"start": (0, 0)}, "both lie within 1.2, and one is not 0"),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_one_sentence(given: dict, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        explore_surface(**given)
