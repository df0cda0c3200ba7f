"""The explorable of shards does what torch's loader and the chapter's own buffer do."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache

import pytest
from course_files import define
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from helpers import explore_shards, places_after_buffer
from helpers.explorables import stage
from helpers.explorables.shards import (
    BATCH,
    RULES,
    SHARDS,
    _say,
    arrivals,
    buffer_seed,
    read_by,
    run_lanes,
    travel,
)

EXPOSE = "\nwindow.explorer = { pythonRandom, readBy, runLanes, arrivals, describe };\n"
SETTINGS = st.tuples(
    st.sampled_from(list(RULES)), st.integers(1, 4), st.integers(1, 8), st.integers(0, 50)
)


@cache
def defined() -> dict:
    return define("09-data-loading")


class Lanes(IterableDataset):
    """Samples of the shards by a rule, through the chapter's own shuffle buffer."""

    def __init__(self, rule: str, buffer: int, seed: int) -> None:
        self.rule, self.buffer, self.seed = rule, buffer, seed

    def __iter__(self) -> Iterator[int]:
        info = get_worker_info()
        starts = [sum(SHARDS[:shard]) for shard in range(len(SHARDS))]
        if self.rule == "equal":
            parts = defined()["share_samples"](list(SHARDS), info.id, info.num_workers)
        elif self.rule == "turn":
            parts = defined()["shards_in_turn"](list(SHARDS), info.id, info.num_workers)
        else:
            parts = [(shard, 0, size) for shard, size in enumerate(SHARDS)]
        stream = (
            starts[shard] + number for shard, start, stop in parts for number in range(start, stop)
        )
        seed = buffer_seed(self.seed, info.id)
        return defined()["shuffle_buffer"](iter(stream), self.buffer, seed)


@pytest.mark.filterwarnings("ignore:.*worker processes in total")
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("workers", "buffer"), [(1, 8), (2, 1), (2, 3), (3, 8), (4, 4)])
def test_samples_arrive_as_from_a_data_loader(rule: str, workers: int, buffer: int) -> None:
    loader = DataLoader(Lanes(rule, buffer, 3), batch_size=BATCH, num_workers=workers)
    lanes = run_lanes(rule, workers, buffer, 3)
    assert [batch.tolist() for batch in loader] == [list(batch) for _, batch in arrivals(lanes)]


@given(SETTINGS)
def test_a_lane_is_the_chapters_shuffle_buffer(given_settings: tuple) -> None:
    rule, workers, buffer, seed = given_settings
    for worker, lane in enumerate(run_lanes(rule, workers, buffer, seed)):
        stream = iter(read_by(rule, worker, workers))
        given_out = defined()["shuffle_buffer"](stream, buffer, buffer_seed(seed, worker))
        out = []
        for k, sample in enumerate(given_out, start=1):
            out.append(sample)
            # What the buffer has taken in and not handed out, whatever the place in it.
            rest = len(lane.stream) - k - len(lane.bins[k])
            assert sorted((*out, *lane.bins[k])) == sorted(lane.stream[: len(lane.stream) - rest])
        assert tuple(out) == lane.out
    early, _ = travel(run_lanes(rule, workers, buffer, seed))
    assert early <= buffer - 1


def test_nothing_is_read_before_a_batch_is_asked_for() -> None:
    (lane,) = run_lanes("equal", 1, 4, 0)
    assert [len(held) for held in lane.bins] == [0, *[4] * 20, 3, 2, 1, 0]


def test_places_are_those_of_the_chapters_buffer() -> None:
    places = places_after_buffer(50, 7, seed=4)
    out = list(defined()["shuffle_buffer"](iter(range(50)), 7, 4))
    assert [out[place] for place in places] == list(range(50))


@pytest.fixture(scope="module")
def page(browser):
    page = browser.new_page(viewport={"width": 800, "height": 700}, has_touch=True)
    page.set_content("<p>a page</p>")
    page.add_script_tag(type="module", content=stage.read_module("shards") + EXPOSE)
    page.wait_for_function("() => window.explorer")
    yield page
    page.close()


@pytest.mark.needs_system("chromium-headless-shell")
@pytest.mark.parametrize("seed", [0, 1, 7, 203, 2**31 + 5])
def test_the_page_draws_pythons_random_numbers(page, seed: int) -> None:
    sizes = [1, 2, 3, 5, 8, 1000, 2**31] * 200
    chance, items = random.Random(seed), list(range(40))
    expected = [chance.randrange(size) for size in sizes]
    chance.shuffle(items)
    code = """([seed, sizes]) => {
        const chance = explorer.pythonRandom(seed);
        const drawn = sizes.map((size) => chance.below(size));
        const items = Array.from({ length: 40 }, (_, k) => k);
        chance.shuffle(items);
        return [drawn, items];
    }"""
    assert page.evaluate(code, [seed, sizes]) == [expected, items]


@pytest.mark.needs_system("chromium-headless-shell")
@settings(max_examples=40, deadline=None)
@given(SETTINGS, st.integers(0, 12))
def test_the_page_computes_and_says_the_same(page, given_settings: tuple, step: int) -> None:
    rule, workers, buffer, seed = given_settings
    lanes = run_lanes(rule, workers, buffer, seed)
    code = """([rule, workers, buffer, seed, step]) => {
        const lanes = explorer.runLanes(rule, workers, buffer, seed);
        return [
            lanes.map(({ stream, out, bins }) => [stream, out, bins]),
            explorer.arrivals(lanes), explorer.describe(lanes, buffer, step),
        ];
    }"""
    got = page.evaluate(code, [*given_settings, step])
    assert got == [
        [[list(x.stream), list(x.out), list(map(list, x.bins))] for x in lanes],
        [[worker, list(batch)] for worker, batch in arrivals(lanes)],
        _say(lanes, buffer, step),
    ]


@pytest.fixture
def shards(page):
    state = {"rule": "everything", "workers": 2, "buffer": 1, "seed": 0, "step": 0}
    still = stage.set_up("shards", state, "a picture")
    page.evaluate("html => { document.body.innerHTML = html }", still)
    code = stage.read_module("shards") + '\nmountAll(document, "shards", mount);\n'
    page.add_script_tag(type="module", content=code)
    page.get_by_role("button", name="Next batch").wait_for()
    return page


@pytest.mark.needs_system("chromium-headless-shell")
def test_batches_come_by_keyboard_and_what_comes_twice_is_marked(shards) -> None:
    button = shards.get_by_role("button", name="Next batch")
    said = shards.get_by_role("status")
    button.focus()
    shards.keyboard.press("Enter")
    assert "After 1 of 24 batches: 2 samples have arrived, and 1 wait" in said.inner_text()
    assert shards.locator(".bits-again").count() == 0
    shards.keyboard.press("Enter")
    # Samples 0 and 1 twice in the row of arrivals; in the shards also 2, which both have read.
    assert shards.locator(".bits-again").count() == 2 + 3
    shards.get_by_label("Batches:").focus()
    shards.keyboard.press("End")
    assert "After 24 of 24 batches: 48 samples have arrived, and 0 wait" in said.inner_text()
    assert button.is_disabled()


@pytest.mark.needs_system("chromium-headless-shell")
def test_rule_workers_and_buffer_are_chosen_by_mouse_and_touch(shards) -> None:
    said = shards.get_by_role("status")
    assert "24 different samples, each 2 times" in said.inner_text()
    shards.get_by_label("Rule:").select_option("turn")
    assert "The busiest worker reads 18 samples; an equal share is 12." in said.inner_text()
    shards.get_by_label("Workers:").select_option("3")
    shards.get_by_label("Rule:").select_option("equal")
    assert "The busiest worker reads 8 samples; an equal share is 8." in said.inner_text()
    assert "at most 0 places forward and 0 places back" in said.inner_text()
    shards.get_by_label("Buffer:").fill("5")
    before = said.inner_text()
    assert "the buffer's size minus 1 is 4" in before
    shards.get_by_role("button", name="Another seed").tap()
    assert said.inner_text() != before
    shards.get_by_role("button", name="Play").click()
    shards.get_by_text("After 2 of 12 batches").wait_for()
    shards.get_by_role("button", name="Pause").click()
    assert shards.get_by_role("button", name="Play").is_visible()


def test_outside_a_notebook_four_lines_tell_it(capsys: pytest.CaptureFixture) -> None:
    explore_shards("everything", 3, 1, step=2)
    assert capsys.readouterr().out == (
        "An epoch: 72 samples in 36 batches; 24 different samples, each 3 times.\n"
        "The busiest worker reads 24 samples; an equal share is 8.\n"
        "In its worker's stream, a sample moves at most 0 places forward and 0 places back; "
        "the buffer's size minus 1 is 0.\n"
        "After 2 of 36 batches: 4 samples have arrived, and 2 wait in buffers.\n"
    )


@pytest.mark.parametrize(
    ("given_arguments", "told"),
    [
        ({"rule": "all"}, 'rule is "all"; write one of: everything, turn, equal'),
        ({"workers": 5}, "workers is 5; it lies between 1 and 4"),
        ({"buffer": 0}, "buffer is 0; it lies between 1 and 8"),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_one_sentence(given_arguments: dict, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        explore_shards(**given_arguments)
