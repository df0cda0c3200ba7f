"""The explorable of measured plans finds the frontier and the winner that a full search finds."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from helpers import explore_frontier
from helpers.explorables import stage
from helpers.explorables.frontier import Plan, find_frontier, find_winner, say

EXPOSE = "\nwindow.explorer = { findFrontier, findWinner, describe };\n"
LEVERS = ("checkpointing", "accumulation", "bfloat16")
# Few values, so that ties and equal plans come up.
NUMBERS = st.tuples(
    st.one_of(st.sampled_from([500, 260_000, 1_000_000, 2_000_000]), st.integers(1, 8 * 10**9)),
    st.one_of(st.sampled_from([0.6, 1.0, 1.5]), st.floats(0.01, 100)),
    st.one_of(st.sampled_from([0.3, 0.31, 0.60, 0.61, 0.625]), st.floats(0, 1)),
)
COMBINATIONS = [
    tuple(name for name, is_on in zip(LEVERS, switches, strict=True) if is_on)
    for switches in itertools.product((False, True), repeat=len(LEVERS))
]


@st.composite
def draw_plans(draw: st.DrawFn) -> list[Plan]:
    chosen = draw(st.lists(st.sampled_from(COMBINATIONS), min_size=1, max_size=8, unique=True))
    return [Plan(on, *draw(NUMBERS)) for on in chosen]


def as_given(plans: list[Plan]) -> list[dict]:
    return [
        {
            "levers": {name: name in plan.on for name in LEVERS},
            "bytes": plan.bytes,
            "seconds": plan.seconds,
            "dice": plan.dice,
        }
        for plan in plans
    ]


def as_state(plans: list[Plan], budget: int, **more: object) -> dict:
    plain = [vars(plan) | {"on": list(plan.on)} for plan in plans]
    start = {"levers": list(LEVERS), "plans": plain, "budgets": [], "on": [], "budget": budget}
    return start | {"tie": 0.01, "switched": None} | more


PLANS = [
    Plan((), 4_000_000, 1.0, 0.70),
    Plan(("checkpointing",), 2_000_000, 1.4, 0.705),
    Plan(("accumulation",), 1_000_000, 2.0, 0.69),
    Plan(("checkpointing", "accumulation"), 800_000, 3.0, 0.70),
    Plan(("bfloat16",), 3_000_000, 1.5, 0.60),
]


@given(draw_plans())
def test_the_frontier_is_what_no_other_plan_beats(plans: list[Plan]) -> None:
    table = np.array([[plan.bytes, plan.seconds, -plan.dice] for plan in plans])
    no_worse = (table[:, None] <= table[None]).all(-1)
    better = (table[:, None] < table[None]).any(-1)
    free = ~(no_worse & better).any(0)
    got = find_frontier(plans)
    assert sorted(got) == np.flatnonzero(free).tolist()
    assert [plans[k].bytes for k in got] == sorted(plans[k].bytes for k in got)


@given(draw_plans(), st.integers(1, 9 * 10**9), st.sampled_from([0.0, 0.01, 0.05]))
def test_the_winner_is_the_quickest_of_the_best(plans: list[Plan], budget: int, tie: float) -> None:
    budgets = (budget, *(plan.bytes for plan in plans), *(plan.bytes - 1 for plan in plans))
    for limit in budgets:
        winner = find_winner(plans, limit, tie)
        fitting = [plan for plan in plans if not plan.bytes > limit]
        if not fitting:
            assert winner is None
            continue
        chosen = plans[winner]
        assert chosen in fitting
        for other in fitting:
            assert other.dice < chosen.dice + tie + 1e-8
        top = sorted(fitting, key=lambda plan: plan.dice)[-1].dice
        for other in fitting:
            if other.dice > top - tie + 1e-8:
                assert (chosen.seconds, chosen.bytes) <= (other.seconds, other.bytes)


def test_at_three_budgets_three_plans_win() -> None:
    assert find_frontier(PLANS) == [3, 2, 1, 0]
    assert [find_winner(PLANS, budget, 0.01) for budget in (900_000, 2_500_000, 4_000_000)] == [
        3,
        1,
        0,
    ]
    assert find_winner(PLANS, 4_000_000, 0.0) == 1
    assert find_winner(PLANS, 799_999, 0.01) is None
    # 0.70 - 0.69 is a little more than 0.01 in binary.
    assert find_winner([PLANS[2], PLANS[3]], 10**7, 0.01) == 0


def test_what_is_said_of_a_switch_and_of_what_was_not_measured() -> None:
    state = as_state(PLANS, 2_500_000, on=["checkpointing"], switched="checkpointing")
    assert say(state) == [
        "Yours: checkpointing (2 MB, time × 1.4, Dice 0.70); it fits.",
        "It is on the frontier: no other plan beats it.",
        "checkpointing switched on: bytes × 0.5, time × 1.4, Dice +0.01.",
        "The winner within 2.5 MB, where 3 of 5 plans fit: checkpointing (2 MB, time × 1.4, "
        "Dice 0.70).",
    ]
    lines = say(as_state(PLANS, 700_000, on=["checkpointing", "bfloat16"], switched="bfloat16"))
    assert lines == [
        "Yours: checkpointing and bfloat16. This combination was not measured.",
        "So it has no dot in the picture.",
        "bfloat16 switched on: the change is unknown, because the plan after it was not measured.",
        "Nothing fits into 700 kB: the smallest plan is checkpointing and accumulation (800 kB, "
        "time × 3, Dice 0.70).",
    ]
    lines = say(as_state(PLANS, 4_000_000, on=["bfloat16"], switched="checkpointing"))
    assert lines[1].startswith("It is not on the frontier: checkpointing (2 MB")
    assert "because the plan before it was not measured" in lines[2]
    assert lines[3].endswith(
        "The highest Dice that fits is within 0.01 of it, but slower: checkpointing (2 MB, "
        "time × 1.4, Dice 0.70)."
    )


@pytest.fixture(scope="module")
def page(browser):
    page = browser.new_page(viewport={"width": 800, "height": 900}, has_touch=True)
    page.set_content("<p>a page</p>")
    page.add_script_tag(type="module", content=stage.read_module("frontier") + EXPOSE)
    page.wait_for_function("() => window.explorer")
    yield page
    page.close()


@pytest.mark.needs_system("chromium-headless-shell")
@settings(max_examples=60, deadline=None)
@given(
    draw_plans(),
    st.integers(1, 9 * 10**9),
    st.sampled_from(COMBINATIONS),
    st.sampled_from([None, *LEVERS]),
    st.sampled_from([0.0, 0.01, 0.05]),
)
@example([Plan((), 500, 0.6, 0.3)], 3465, (), None, 0.0)  # 3.465 is stored as a little less
def test_the_page_computes_and_says_the_same(
    page, plans: list[Plan], budget: int, on: tuple, switched: str | None, tie: float
) -> None:
    state = as_state(plans, budget, on=list(on), switched=switched, tie=tie)
    code = """state => [
        explorer.findFrontier(state.plans),
        explorer.findWinner(state.plans, state.budget, state.tie),
        explorer.describe(state),
    ]"""
    expected = [find_frontier(plans), find_winner(plans, budget, tie), say(state)]
    assert page.evaluate(code, state) == expected


@pytest.fixture
def explorable(page, monkeypatch: pytest.MonkeyPatch):
    shown = {}
    with monkeypatch.context() as patch:
        patch.setattr(
            stage, "show", lambda name, state, said, drawn: shown.update(state=state, drawn=drawn)
        )
        explore_frontier(as_given(PLANS), (900_000, 2_500_000, 4e6), tie=0.01)
    still = stage.set_up("frontier", shown["state"], shown["drawn"])
    page.evaluate("html => { document.body.innerHTML = html }", still)
    read = """() => [...document.querySelectorAll('svg :is(circle, text)')]
        .filter(node => !node.closest('.bits-hidden'))
        .map(node => [
            ['fill', 'class'].map(name => node.getAttribute(name)).join() + node.textContent,
            ...['x', 'y', 'cx', 'cy'].map(name => Number(node.getAttribute(name))),
        ])"""
    page.evaluate(f"() => {{ window.readPicture = {read} }}")
    before = page.evaluate("readPicture()")
    code = stage.read_module("frontier") + '\nmountAll(document, "frontier", mount);\n'
    page.add_script_tag(type="module", content=code)
    page.get_by_role("switch").first.wait_for()
    after = page.evaluate("readPicture()")
    assert [node[0] for node in after] == [node[0] for node in before]
    for new, old in zip(after, before, strict=True):
        assert new[1:] == pytest.approx(old[1:], abs=0.1)
    return page


@pytest.mark.needs_system("chromium-headless-shell")
def test_levers_are_switched_by_mouse_touch_and_keyboard(explorable) -> None:
    said = explorable.get_by_role("status")
    assert "Yours: plain (4 MB, time × 1, Dice 0.70); it exceeds" in said.inner_text()
    explorable.get_by_role("switch", name="checkpointing").click()
    assert "checkpointing switched on: bytes × 0.5, time × 1.4" in said.inner_text()
    assert explorable.locator(".bits-moved:not(.bits-hidden)").count() == 1
    explorable.get_by_text("accumulation", exact=True).tap()
    assert "Yours: checkpointing and accumulation (800 kB" in said.inner_text()
    lever = explorable.get_by_role("switch", name="bfloat16")
    lever.focus()
    explorable.keyboard.press(" ")
    assert "This combination was not measured." in said.inner_text()
    assert explorable.locator(".bits-yours:not(.bits-hidden)").count() == 1  # the legend's
    explorable.keyboard.press("Enter")
    assert not lever.is_checked()
    assert "because the plan before it was not measured" in said.inner_text()


@pytest.mark.needs_system("chromium-headless-shell")
def test_the_budget_moves_by_mouse_touch_and_keyboard(explorable) -> None:
    said, slider = explorable.get_by_role("status"), explorable.get_by_role("slider")
    dimmed = explorable.locator("circle.bits-plan.bits-dimmed")
    assert "The winner within 900 kB, where 1 of 5 plans fit: checkpointing and" in (
        said.inner_text()
    )
    assert dimmed.count() == 4 + 1
    assert explorable.locator("datalist option").count() == 3
    explorable.get_by_role("button", name="2.5 MB").click()
    assert "where 3 of 5 plans fit: checkpointing (" in said.inner_text()
    explorable.get_by_role("button", name="4 MB").tap()
    assert "where 5 of 5 plans fit: plain (" in said.inner_text()
    assert slider.get_attribute("aria-valuetext") == "4 MB"
    assert dimmed.count() == 0 + 1
    slider.focus()
    explorable.keyboard.press("ArrowLeft")
    assert "where 4 of 5 plans fit: checkpointing (" in said.inner_text()
    explorable.keyboard.press("Home")
    assert "Nothing fits into" in said.inner_text()
    assert explorable.locator(".bits-winner:not(.bits-hidden)").count() == 1  # the legend's


@pytest.mark.needs_system("chromium-headless-shell")
def test_a_touched_dot_is_the_readers_plan(explorable) -> None:
    said = explorable.get_by_role("status")
    explorable.locator("circle.bits-plan").nth(3).tap()
    assert "Yours: checkpointing and accumulation" in said.inner_text()
    assert "Switch one lever to see what it changes." in said.inner_text()
    explorable.locator("circle.bits-plan").nth(2).click()
    assert "checkpointing switched off: bytes × 1.25" in said.inner_text()
    assert not explorable.get_by_role("switch", name="checkpointing").is_checked()


@pytest.mark.needs_system("chromium-headless-shell")
def test_on_a_phone_nothing_is_wider_than_the_page(browser, explorable) -> None:
    explorable.set_viewport_size({"width": 390, "height": 800})
    wide = explorable.evaluate("document.documentElement.scrollWidth")
    smallest = explorable.evaluate(
        "Math.min(...[...document.querySelectorAll('svg text')].map("
        "text => parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a))"
    )
    explorable.set_viewport_size({"width": 800, "height": 900})
    assert wide <= 390
    assert smallest >= 10


def test_outside_a_notebook_four_lines_tell_it(capsys: pytest.CaptureFixture) -> None:
    explore_frontier(as_given(PLANS), budgets=(0.5e6, 4_000_000), on=["bfloat16"], tie=0.0)
    assert capsys.readouterr().out == (
        "Yours: bfloat16 (3 MB, time × 1.5, Dice 0.60); it exceeds the budget by 2.5 MB.\n"
        "It is not on the frontier: checkpointing (2 MB, time × 1.4, Dice 0.70) beats it.\n"
        "Switch one lever to see what it changes.\n"
        "Nothing fits into 500 kB: the smallest plan is checkpointing and accumulation (800 kB, "
        "time × 3, Dice 0.70).\n"
    )


def test_one_plan_and_numpys_numbers_are_enough(capsys: pytest.CaptureFixture) -> None:
    plan = {
        "levers": {"a": np.bool_(True)},
        "bytes": np.int64(5),
        "seconds": np.float32(1),
        "dice": np.float64(0),
    }
    explore_frontier([plan], on=["a"])
    assert "The winner within 5 bytes, where 1 of 1 plan fits: a (5 bytes" in (
        capsys.readouterr().out
    )


GOOD = as_given(PLANS)


def changed(**parts: object) -> list[dict]:
    return [GOOD[0], GOOD[1] | parts]


@pytest.mark.parametrize(
    ("given_arguments", "told"),
    [
        ({"plans": []}, r"plans is empty; write a list with a dict"),
        ({"plans": GOOD[0]}, r"plans is of type dict; write a list of dicts"),
        ({"plans": 3}, r"plans is of type int; write a list"),
        ({"plans": [GOOD[0], 7]}, r"plans\[1\] is of type int; write a dict"),
        ({"plans": [{"levers": {"a": True}}]}, r'plans\[0\] has no "bytes"; a plan is a dict with'),
        ({"plans": changed(levers={})}, r'plans\[1\]\["levers"\] is \{\}; write a dict'),
        ({"plans": changed(levers={"a": True})}, r"plans\[1\] has the levers a, but plans\[0\] "),
        (
            {"plans": changed(levers=dict.fromkeys(LEVERS, "on"))},
            r"""\["checkpointing"\] is 'on'; write True or False""",
        ),
        ({"plans": changed(levers={3: True})}, r"has the name 3; write a string"),
        ({"plans": [GOOD[0], GOOD[1], GOOD[0]]}, r"plans\[2\] has the same levers as plans\[0\]"),
        ({"plans": changed(bytes=0)}, r'plans\[1\]\["bytes"\] is 0; write a whole number'),
        ({"plans": changed(bytes=1.5)}, r"is 1.5; write a whole number of bytes above 0"),
        ({"plans": changed(bytes="1 MB")}, r"is '1 MB'; write a finite number"),
        ({"plans": changed(seconds=math.inf)}, r'plans\[1\]\["seconds"\] is inf; write a finite'),
        ({"plans": changed(seconds=0)}, r"is 0; write a number above 0"),
        ({"plans": changed(dice=70)}, r'plans\[1\]\["dice"\] is 70; write a number from 0 to 1'),
        ({"plans": GOOD, "budgets": (10, -1)}, r"budgets\[1\] is -1; write a whole number"),
        ({"plans": GOOD, "budget": "8 MB"}, r"budget is '8 MB'; write a finite number"),
        ({"plans": GOOD, "on": ["magic"]}, r'on has "magic"; write names out of: checkpointing'),
        ({"plans": GOOD, "tie": 2}, r"tie is 2; write a number from 0 to below 1"),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_one_sentence(given_arguments: dict, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        explore_frontier(**given_arguments)
