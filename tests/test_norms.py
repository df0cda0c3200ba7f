"""The norms: groups and numbers are torch's, in Python, in JavaScript and to the hand."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from helpers import explore_norms
from helpers.explorables import stage
from helpers.explorables.norms import NORMS, VALUES, describe, find_statistics, normalize_all

EXPOSE = "\nwindow.explorer = { normalizeAll, statistics, describe, divisors, write };\n"


def make_state(norm="batch", batch=4, groups=2, mode="train", entry=(0, 1, 1), value=None):
    n, c, k = entry
    return {
        "values": [[list(row) for row in example] for example in VALUES],
        "norm": norm,
        "batch": batch,
        "groups": groups,
        "mode": mode,
        "entry": list(entry),
        "value": VALUES[n][c][k] if value is None else value,
    }


@st.composite
def states(draw):
    batch = draw(st.integers(1, 6))
    entry = [draw(st.integers(0, most - 1)) for most in (batch, 6, 3)]
    return make_state(
        draw(st.sampled_from(NORMS)),
        batch,
        draw(st.sampled_from([1, 2, 3, 6])),
        draw(st.sampled_from(["train", "eval"])),
        entry,
        draw(st.none() | st.integers(-20, 100).map(lambda half: half / 2)),
    )


SOME = [
    *(make_state(norm, value=value) for norm in NORMS for value in (None, 30.0)),
    *(make_state("group", 5, groups, entry=(4, 3, 0), value=-7.5) for groups in (1, 2, 3, 6)),
    *(make_state("batch", batch, mode="eval", value=9.5) for batch in (1, 3)),
    make_state("batch", 1),
    make_state("rms", 6, entry=(5, 0, 2), value=0.0),
]


def by_torch(state: dict) -> torch.Tensor:
    x = torch.tensor(state["values"], dtype=torch.float64)
    if state["mode"] == "eval" and state["norm"] == "batch":
        layer = torch.nn.BatchNorm1d(6, momentum=None).double()
        layer(x)
        layer.eval()
    elif state["norm"] == "batch":
        layer = torch.nn.BatchNorm1d(6).double()
    x = x[: state["batch"]].clone()
    x[tuple(state["entry"])] = state["value"]
    with torch.no_grad():
        return {
            "batch": lambda: layer(x),
            "instance": lambda: functional.instance_norm(x),
            "group": lambda: functional.group_norm(x, state["groups"]),
            "layer": lambda: functional.layer_norm(x, (6, 3)),
            "features": lambda: functional.layer_norm(x.mT, (6,)).mT,
            "rms": lambda: functional.rms_norm(x.mT, (6,), eps=1e-5).mT,
        }[state["norm"]]()


@settings(deadline=None)
@given(states())
def test_the_output_is_torchs(state: dict) -> None:
    got = torch.tensor(normalize_all(state), dtype=torch.float64)
    torch.testing.assert_close(got, by_torch(state), rtol=1e-9, atol=1e-9)


@pytest.fixture(scope="module")
def page(browser):
    page = browser.new_page(viewport={"width": 800, "height": 900}, has_touch=True)
    page.set_content("<p>a page</p>")
    page.add_script_tag(type="module", content=stage.read_module("norms") + EXPOSE)
    page.wait_for_function("() => window.explorer")
    yield page
    page.close()


@pytest.mark.needs_system("chromium-headless-shell")
@pytest.mark.parametrize("state", SOME)
def test_the_page_computes_and_says_the_same(page, state: dict) -> None:
    got = page.evaluate("state => explorer.normalizeAll(state)", state)
    got, expected = (torch.tensor(x, dtype=torch.float64) for x in (got, normalize_all(state)))
    torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-12)
    found = page.evaluate("state => explorer.statistics(state)", state)
    for seen, own in zip(found, find_statistics(state), strict=True):
        assert seen["count"] == own.count
        assert seen["variance"] == pytest.approx(own.variance)
    assert page.evaluate("state => explorer.describe(state)", state) == describe(state)


@pytest.mark.needs_system("chromium-headless-shell")
def test_numbers_have_room_in_an_entry(page) -> None:
    for number, text in (
        (-0.001, "0.00"),
        (1.234, "1.23"),
        (-12.34, "-12.3"),
        (9.999, "10.00"),
        (123.45, "123.5"),
    ):
        assert page.evaluate("number => explorer.write(number, 2)", number) == text
    assert page.evaluate("explorer.divisors(6)") == [1, 2, 3, 6]


@pytest.fixture
def tensor(page):
    still = stage.set_up("norms", make_state(), "a picture")
    page.evaluate("html => { document.body.innerHTML = html }", still)
    code = stage.read_module("norms") + '\nmountAll(document, "norms", mount);\n'
    page.add_script_tag(type="module", content=code)
    page.get_by_role("radiogroup").wait_for()
    return page


def count(page, kind: str) -> int:
    return page.locator(f'[role="radiogroup"] .bits-{kind}:visible').count()


@pytest.mark.needs_system("chromium-headless-shell")
def test_norm_batch_and_groups_are_chosen(tensor) -> None:
    assert (count(tensor, "entry"), count(tensor, "shares")) == (72, 12)
    assert tensor.get_by_label("Groups").is_disabled()
    tensor.get_by_label("Batch size").fill("6")
    assert (count(tensor, "entry"), count(tensor, "shares")) == (108, 18)
    norm = tensor.get_by_role("combobox").first
    for name, shares in (("instance", 3), ("layer", 18), ("features", 6), ("rms", 6), ("group", 9)):
        norm.select_option(name)
        assert count(tensor, "shares") == shares, name
        colors = tensor.eval_on_selector_all(
            '[role="radiogroup"] .bits-entry',
            "entries => new Set(entries.map(entry => entry.style.background)).size",
        )
        assert colors == 108 // shares, name
    tensor.get_by_label("Groups").fill("2")
    assert "6 entries share a mean: channels 0 to 1 of example 0." in (
        tensor.get_by_role("status").inner_text()
    )


@pytest.mark.needs_system("chromium-headless-shell")
def test_an_entry_is_chosen_and_changed_by_keyboard(tensor) -> None:
    tensor.get_by_role("radio", checked=True).focus()
    for key in ("ArrowRight", "ArrowDown", "PageDown", "ArrowRight"):
        tensor.keyboard.press(key)
    chosen = tensor.get_by_role("radio", checked=True)
    assert chosen.get_attribute("aria-label") == "example 1, channel 2, position 2: 0"
    assert chosen.evaluate("entry => document.activeElement === entry"), "the focus goes along"
    value = tensor.get_by_label("Chosen entry")
    value.focus()
    for key in ("End", "ArrowLeft"):
        tensor.keyboard.press(key)
    assert chosen.inner_text() == "49.5"
    said = tensor.get_by_role("status")
    assert "Since it was changed from 0, 11 other outputs changed" in said.inner_text()
    tensor.get_by_label("Mode").select_option("eval")
    assert "It was changed from 0, and no other output changed." in said.inner_text()
    tensor.get_by_label("Batch size").fill("1")
    label = tensor.get_by_role("radio", checked=True).get_attribute("aria-label")
    assert label == "example 0, channel 2, position 2: -2"
    tensor.get_by_role("button", name="Start again").click()
    assert "of all 4 examples" in said.inner_text()


@pytest.mark.needs_system("chromium-headless-shell")
def test_an_entry_is_chosen_by_mouse_and_by_touch(tensor) -> None:
    said = tensor.get_by_role("status")
    tensor.get_by_role("radio", name="example 3, channel 4, position 0").click()
    assert "The chosen entry, 3, becomes" in said.inner_text()
    tensor.get_by_role("radio", name="example 2, channel 4, position 2").tap()
    assert "The chosen entry, 9, becomes" in said.inner_text()


@pytest.mark.needs_system("chromium-headless-shell")
def test_on_a_phone_nothing_is_cut_off(tensor) -> None:
    tensor.set_viewport_size({"width": 350, "height": 900})
    wide = tensor.evaluate("document.documentElement.scrollWidth")
    tensor.set_viewport_size({"width": 800, "height": 900})
    assert wide <= 350


def test_outside_a_notebook_one_line_tells_it(capsys: pytest.CaptureFixture) -> None:
    explore_norms("instance", value=20)
    assert capsys.readouterr().out == (
        "3 entries share a mean: channel 1 of example 0. It is 8.83, and their standard deviation "
        "is 7.9. The chosen entry, 20, becomes 1.41. Since it was changed from 4, 2 other outputs "
        "changed, by 0.675 at most.\n"
    )


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"norm": "weight"}, 'norm is "weight"; write one of: batch, instance'),
        ({"batch": 7}, "batch is 7; there are 1 to 6 examples"),
        ({"groups": 4}, "groups is 4, which does not divide 6 channels"),
        ({"mode": "test"}, 'mode is "test"; write "train" or "eval"'),
        ({"entry": (4, 0, 0)}, r"there is no entry \(4, 0, 0\) in a tensor of shape \(4, 6, 3\)"),
        ({"value": 99}, "value is 99.0; it lies between -10 and 50"),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_one_sentence(given: dict, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        explore_norms(**given)
