"""The chain of layers saves what torch saves, in Python, in JavaScript and to the hand."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.checkpoint import checkpoint

from helpers import explore_segments, saved_bytes
from helpers.explorables import stage
from helpers.explorables.segments import (
    CHAINS,
    Chain,
    _say,
    choose,
    follow,
    least_peak,
    root_rule,
)

EXPOSE = "\nwindow.explorer = { follow, choose, leastPeak, rootRule, describe };\n"
SIZES = st.lists(st.integers(1, 9), min_size=2, max_size=7)


@pytest.fixture(scope="module")
def page(browser):
    page = browser.new_page(viewport={"width": 800, "height": 700}, has_touch=True)
    page.set_content("<p>a page</p>")
    page.add_script_tag(type="module", content=stage.read_module("segments") + EXPOSE)
    page.wait_for_function("() => window.explorer")
    yield page
    page.close()


def all_starts(count: int) -> list[tuple[int, ...]]:
    return [(0, *cuts) for k in range(count) for cuts in combinations(range(1, count), k)]


def saved_by_torch(widths: list[int], starts: list[int]) -> int:
    """Return what layers of these widths save in a forward pass, in floats for each row."""
    layers = [
        torch.nn.Sequential(torch.nn.Linear(a, b), torch.nn.Tanh()) for a, b in pairwise(widths)
    ]
    network, x = torch.nn.Sequential(*layers), torch.zeros(1, widths[0])

    def run() -> torch.Tensor:
        y = x
        for start, end in pairwise([*starts, len(layers)]):
            part = network[start:end]
            y = part(y) if end == len(layers) else checkpoint(part, y, use_reentrant=False)
        return y

    return saved_bytes(run, except_for=network.parameters()).bytes // 4


@given(SIZES, st.data())
def test_the_tent_is_what_torch_saves(widths: list[int], data: st.DataObject) -> None:
    chain = Chain("", tuple(widths[:-1]), tuple(widths[1:]))
    starts = list(data.draw(st.sampled_from(all_starts(len(widths) - 1))))
    step = follow(chain, starts)
    assert step.live[step.turn - 1] == saved_by_torch(widths, starts)
    assert step.live[-1] == 0
    # A segment runs backward as the last one of a shorter network would.
    ends = [*starts[1:], len(widths) - 1]
    hills = [saved_by_torch(widths[: end + 1], starts[: k + 1]) for k, end in enumerate(ends)]
    assert step.peak == max(hills)


@given(SIZES, st.integers(1, 60))
def test_the_best_choice_is_the_best_of_all(sizes: list[int], budget: int) -> None:
    chain = Chain("", tuple(sizes), tuple(reversed(sizes)))
    fitting = [s for s in all_starts(len(sizes)) if follow(chain, s).peak <= budget]
    got = choose(chain, budget)
    assert (got is None) == (not fitting)
    if got is not None:
        assert follow(chain, got).peak <= budget
        assert got[-1] == min(starts[-1] for starts in fitting)


def test_what_a_step_of_a_few_layers_saves() -> None:
    chain = Chain("", (5, 1, 2), (3, 3, 4))
    assert follow(chain, [0, 2]).live == (5, 5, 11, 5, 8, 11, 8, 0)
    assert follow(chain, [0]).live == (8, 11, 15, 11, 8, 0)
    assert (least_peak(chain), root_rule(chain)) == (11, [0, 2])
    equal = CHAINS["equal"]
    assert (least_peak(equal), follow(equal, root_rule(equal)).peak) == (6, 7)


@pytest.mark.needs_system("chromium-headless-shell")
@pytest.mark.parametrize("starts", [[0], [0, 4, 8], [0, 5, 9], [0, 1], list(range(12))])
@pytest.mark.parametrize("name", CHAINS)
def test_the_page_computes_and_says_the_same(page, name: str, starts: list[int]) -> None:
    chain = CHAINS[name]
    given = {"inputs": chain.inputs, "inside": chain.inside}
    step = page.evaluate("([chain, starts]) => explorer.follow(chain, starts)", [given, starts])
    expected = follow(chain, starts)
    assert step == {"live": list(expected.live), "turn": expected.turn, "peak": expected.peak}
    for budget in (3, 6, 9, 25, 40, 70):
        best = page.evaluate("([c, budget]) => explorer.choose(c, budget)", [given, budget])
        assert best == choose(chain, budget)
        code = "([name, starts, budget]) => explorer.describe(name, starts, budget)"
        assert page.evaluate(code, [name, starts, budget]) == _say(name, starts, budget)
    assert page.evaluate("c => explorer.leastPeak(c)", given) == least_peak(chain)
    assert page.evaluate("c => explorer.rootRule(c)", given) == root_rule(chain)


@pytest.fixture
def segments(page):
    state = {"chain": "equal", "starts": [0, 4, 8], "budget": 9}
    still = stage.set_up("segments", state, "a picture")
    page.evaluate("html => { document.body.innerHTML = html }", still)
    code = stage.read_module("segments") + '\nmountAll(document, "segments", mount);\n'
    page.add_script_tag(type="module", content=code)
    page.get_by_role("checkbox").first.wait_for()
    return page


def starts_of(page) -> list[int]:
    checked = page.locator('.bits-cut[aria-checked="true"]')
    return [0, *(int(cut.get_attribute("data-start")) for cut in checked.all())]


@pytest.mark.needs_system("chromium-headless-shell")
def test_checkpoints_are_set_by_keyboard(segments) -> None:
    cut = segments.get_by_role("checkbox", name="checkpoint before layer 5", exact=True)
    cut.focus()
    segments.keyboard.press(" ")
    assert starts_of(segments) == [0, 8]
    segments.keyboard.press("ArrowLeft")
    segments.keyboard.press("Enter")
    assert starts_of(segments) == [0, 3, 8]
    segments.keyboard.press("ArrowRight")
    assert cut.evaluate("cut => document.activeElement === cut")
    assert "segments begin at layers 1, 4 and 9" in segments.get_by_role("status").inner_text()


@pytest.mark.needs_system("chromium-headless-shell")
def test_checkpoints_are_set_by_mouse_and_by_touch(segments) -> None:
    dot = segments.locator('.bits-cut[data-start="6"] circle')
    dot.click()
    assert starts_of(segments) == [0, 4, 6, 8]
    dot.tap()
    assert starts_of(segments) == [0, 4, 8]
    assert segments.locator(".bits-twice").count() == 8
    segments.locator('.bits-cut[data-start="8"] circle').tap()
    assert segments.locator(".bits-twice").count() == 4


@pytest.mark.needs_system("chromium-headless-shell")
def test_chain_budget_and_rule_are_chosen(segments) -> None:
    said = segments.get_by_role("status")
    segments.get_by_role("button", name="Best for this budget").click()
    assert starts_of(segments) == [0, 5]
    segments.get_by_label("Chain:").select_option("first")
    assert "segments begin at layers 1 and 6; the peak is 40" in said.inner_text()
    segments.get_by_role("button", name="Square-root rule").click()
    assert starts_of(segments) == [0, 4, 8]
    assert "the peak is 36" in said.inner_text()
    segments.get_by_role("slider").fill("10")
    assert "Nothing fits: the smallest possible peak is 23." in said.inner_text()
    assert segments.get_by_role("button", name="Best for this budget").is_disabled()
    segments.get_by_role("button", name="No checkpoint").click()
    assert starts_of(segments) == [0]


def test_outside_a_notebook_three_lines_tell_it(capsys: pytest.CaptureFixture) -> None:
    explore_segments("equal", [0, 4, 8], budget=6)
    assert capsys.readouterr().out == (
        "Yours: segments begin at layers 1, 5 and 9; the peak is 7, which exceeds the budget by 1; "
        "8 layers run twice.\n"
        "Square-root rule: segments begin at layers 1, 5 and 9; the peak is 7, which exceeds the "
        "budget by 1; 8 layers run twice.\n"
        "Best for this budget: segments begin at layers 1, 6 and 10; the peak is 6, which fits; 9 "
        "layers run twice. The smallest possible peak is 6.\n"
    )


def test_what_cannot_be_drawn_is_refused_in_one_sentence() -> None:
    with pytest.raises(ValueError, match='chain is "even"; write one of: equal, first, last'):
        explore_segments("even")
    for starts in ([], [1], [0, 3, 3], [0, 12]):
        with pytest.raises(ValueError, match="they rise from 0 and stay below 12"):
            explore_segments("equal", starts)
