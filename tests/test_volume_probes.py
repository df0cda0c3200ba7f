"""The probes of chapter 12: patches, budgets, shards, and a segmenter that is stopped."""

from __future__ import annotations

import tarfile

import pytest
import torch

from helpers import first_draws, probes

PARTS = [[["Conv3d", 1, 4, 3, 1, 1], ["Tanh"]], [["Conv3d", 4, 4, 3, 1, 1], ["Tanh"]]]
PARTS += [[["Conv3d", 4, 1, 1]]]


def whole_at_once(network, loss_function, needs, volumes, masks, budget):
    loss = loss_function(network(volumes, False), masks)
    loss.backward()
    return loss.item()


def one_by_one(network, loss_function, needs, volumes, masks, budget):
    if needs(1, True) > budget:
        raise ValueError("too small")
    for x, y in zip(volumes.split(1), masks.split(1), strict=True):
        (loss_function(network(x, True), y) / len(volumes)).backward()


def parts_state() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = {"0.0": (4, 1, 3, 3, 3), "1.0": (4, 4, 3, 3, 3), "2.0": (1, 4, 1, 1, 1)}
    state = {}
    for place, shape in shapes.items():
        state[f"parts.{place}.weight"] = torch.randn(shape, generator=generator)
        state[f"parts.{place}.bias"] = torch.randn(shape[0], generator=generator)
    return state


def in_budget(function, *, probe=probes.budget_kept, **options):
    x = torch.linspace(-1, 1, 3 * 5 * 6 * 7).view(3, 1, 5, 6, 7)
    return probe(function, PARTS, parts_state(), x, (x > 0.3).float(), **options)


def test_gradients_of_all_ways_are_the_same_and_their_bytes_are_not() -> None:
    whole = in_budget(whole_at_once, fits=(3, False))
    parts = in_budget(one_by_one, fits=(1, True))
    for name, slope in whole["gradients"].items():
        torch.testing.assert_close(parts["gradients"][name], slope)
    assert whole["peak"] <= whole["budget"]
    assert parts["peak"] <= parts["budget"] < whole["peak"]
    assert (whole["passes"], parts["passes"]) == ([[3, False]], [[1, True]] * 3)
    uncounted = in_budget(one_by_one, probe=probes.gradients_in_budget, fits=(1, True))
    assert uncounted.keys() == {"output", "errors", "gradients"}
    for name, slope in parts["gradients"].items():
        assert torch.equal(uncounted["gradients"][name], slope)


def past_the_network(network, loss_function, needs, volumes, masks, budget):
    for x, y in zip(volumes.split(1), masks.split(1), strict=True):
        for part in network.parts:
            x = part(x)
        (loss_function(x, y) / len(volumes)).backward()


def test_what_is_computed_past_the_network_counts_as_passes() -> None:
    seen = in_budget(past_the_network, fits=(3, False))
    assert seen["passes"] == [[1, False]] * 3


def test_no_attribute_of_the_network_leads_to_its_passes() -> None:
    def forgetting(network, *others):
        for name in [name for name in vars(network) if name != "training"]:
            if not name.startswith(
                ("_forward", "_backward", "_modules", "_parameters", "_buffers")
            ):
                setattr(network, name, [])
        return whole_at_once(network, *others)

    assert in_budget(forgetting, fits=(3, False))["passes"] == [[3, False]]


def test_needs_and_the_budget_are_bent_as_they_are_told_to_be() -> None:
    asked = []

    def asks(network, loss_function, needs, volumes, masks, budget):
        asked.append([needs(n, False) for n in range(4)] + [budget])
        return 0.0

    for bend in ((2, 0.5), (1, 0.5), (9, 0.5)):
        in_budget(asks, fits=(2, False), spare=0.0, bend=bend)
    late, early, never = asked
    each = never[2] - never[1]
    assert never[3] - never[2] == each == never[1] - never[0]
    assert [a - b for a, b in zip(late, never, strict=True)] == [0, 0, *[each // 2] * 3]
    assert [a - b for a, b in zip(early, never, strict=True)] == [0, *[each // 2] * 4]
    assert never[4] == never[2]
    in_budget(asks, fits=(2, False), spare=0.5, bend=(9, 0.5))
    assert asked[-1][4] == never[2] + each // 2


def test_what_was_in_the_gradients_stays_in_the_sum() -> None:
    fresh = in_budget(whole_at_once, fits=(3, False))["gradients"]
    added = in_budget(whole_at_once, fits=(3, False), left_over=2.0)["gradients"]
    for name, slope in fresh.items():
        torch.testing.assert_close(added[name], slope + 2.0)


def test_an_exception_is_told_where_nothing_fits_and_goes_on_elsewhere() -> None:
    seen = in_budget(one_by_one, fits=(0, True))
    assert seen["errors"][:2] == ["ValueError", "Exception"]
    assert seen["passes"] == []
    assert set(seen["gradients"].values()) == {None}

    def fails(*_):
        raise KeyError("x")

    with pytest.raises(KeyError):
        in_budget(fails, fits=(1, False))


def test_a_network_that_replaces_its_own_list_of_weights_gains_nothing() -> None:
    def lies(network, *_):
        network.named_parameters = lambda: iter([])

    assert in_budget(lies, fits=(1, False))["gradients"].keys() == parts_state().keys()


def test_patches_are_multiplied_and_watched() -> None:
    weights = torch.arange(8.0).view(2, 2, 2)
    volume = torch.ones(1, 1, 2, 2, 2)

    def quietly(predict, volume, patch, step):
        with torch.no_grad():
            return predict(volume)

    def off(predict, volume, patch, step):
        torch.set_grad_enabled(False)
        return predict(volume)

    def on(predict, volume, patch, step):
        try:
            return quietly(predict, volume, patch, step)
        finally:
            torch.set_grad_enabled(True)

    cases = (lambda predict, v, *_: predict(v), True), (quietly, False), (off, False), (on, False)
    for function, has_graph in cases:
        seen = probes.joined_patches(function, weights, volume, 2, 1)
        assert torch.equal(seen["output"].detach()[0, 0], weights)
        assert (seen["with_graph"], seen["keeps_graph"]) == (has_graph, has_graph)
        assert seen["left_off"] is (function is off)
        assert seen["left_on"] is (function is on)
        assert torch.is_grad_enabled()


COSTS = {"fixed": 100, "whole": 36}
DATA = torch.linspace(-1, 1, 4 * 64).view(4, 1, 4, 4, 4), torch.ones(4, 1, 4, 4, 4)


class Plain:
    """A segmenter that trains on one sample at a time, in bfloat16 where it is told so."""

    half = False

    def __init__(self, network, optimizer, loss_function, needs, budget, seed):
        if needs(1, True, False, True) > budget:
            raise ValueError("too small")
        self.network, self.optimizer, self.loss_function = network, optimizer, loss_function
        self.asked = [needs(2, False), needs(1, True, True), needs(3, False, patches=True)]

    def step(self, volumes, masks):
        self.optimizer.zero_grad()
        total = 0.0
        for x, y in zip(volumes.split(1), masks.split(1), strict=True):
            with torch.autocast("cpu", torch.bfloat16, enabled=self.half):
                logits = self.network(x, True)
            loss = self.loss_function(logits, y) / len(volumes)
            loss.backward()
            total += loss.item()
        self.optimizer.step()
        return total

    def state_dict(self):
        return {"parts": [self.network.state_dict(), self.optimizer.state_dict()]}

    def load_state_dict(self, state):
        for part, saved in zip((self.network, self.optimizer), state["parts"], strict=True):
            part.load_state_dict(saved)


class Half(Plain):
    half = True


def segmenter_steps(kind, batches, *, probe=probes.segmenter_steps, budget=1000, **options):
    return probe(kind, PARTS, parts_state(), COSTS, budget, *DATA, batches, **options)


def test_a_segmenter_goes_on_from_its_state() -> None:
    whole = segmenter_steps(Plain, [[0, 1], [2], [3, 0]])
    first = segmenter_steps(Plain, [[0, 1], [2]], process=4)
    rest = segmenter_steps(Plain, [[3, 0]], saved=first["state"], process=5)
    for name, weight in whole["weights"].items():
        assert torch.equal(rest["weights"][name], weight)
        assert not torch.equal(first["weights"][name], weight)
    assert whole["losses"] == first["losses"] + rest["losses"]
    assert whole["drawn"] == first_draws(0)["torch"]
    assert first["drawn"] == first_draws(4)["torch"]


def test_the_bytes_that_a_segmenter_is_told_are_those_that_it_says() -> None:
    found = []

    class Telling(Plain):
        def __init__(self, *args):
            super().__init__(*args)
            found.extend(self.asked)

    segmenter_steps(Telling, [])
    assert found == [100 + 2 * 36, 100 + 9, 100 + 3 * 6]


def test_a_budget_that_is_too_small_is_told_and_other_errors_go_on() -> None:
    seen = segmenter_steps(Plain, [[0]], budget=103)
    assert seen["errors"][0] == "ValueError"
    assert (seen["losses"], len(seen["state"])) == ([], 0)

    def fails(*_):
        raise KeyError("x")

    with pytest.raises(KeyError):
        segmenter_steps(fails, [[0]])


def test_the_part_of_a_state_that_cannot_be_read_is_told() -> None:
    class WithItself(Plain):
        def state_dict(self):
            return {**super().state_dict(), "more": [torch.ones(1), {"me": self}]}

    seen = segmenter_steps(WithItself, [[0]])
    told = seen["unreadable"]
    assert told.startswith("state['more'][1]['me'] is of type ")
    assert told.endswith("WithItself")
    assert len(seen["state"]) == 0
    assert segmenter_steps(Plain, [[0]])["unreadable"] == ""


def test_gradients_are_stored_before_each_step_where_it_is_asked_for() -> None:
    class Adding(Plain):
        def step(self, volumes, masks):
            self.optimizer.step()
            return next(self.network.parameters()).grad.mean().item()

    assert segmenter_steps(Adding, [[0], [1]], left_over=0.5)["losses"] == [0.5, 0.5]
    plain, other = (segmenter_steps(Plain, [[0], [1]], left_over=n) for n in (None, 0.5))
    for name, weight in plain["weights"].items():
        assert torch.equal(other["weights"][name], weight)


def test_passes_and_the_dtypes_of_logits_are_noted() -> None:
    batches = [[0, 1], [3]]
    for kind, dtype in ((Plain, None), (Half, "torch.bfloat16")):
        seen = segmenter_steps(kind, batches, probe=probes.segmenter_passes)
        assert seen["passes"] == [[1, True, dtype]] * 3
        assert torch.equal(torch.cat(seen["inputs"]), DATA[0][[0, 1, 3]])
        assert seen["logits"] == [dtype or "torch.float32"] * 3
        uncounted = segmenter_steps(kind, batches)
        for name, weight in uncounted["weights"].items():
            assert torch.equal(seen["weights"][name], weight)


def test_the_bytes_of_a_segmenters_steps_are_counted() -> None:
    given = (PARTS, parts_state(), (2, True, False), *DATA, [[0, 1, 2], [3]])
    kept = probes.segmenter_peak(Plain, *given)
    assert kept["peak"] <= kept["budget"]

    class Greedy(Plain):
        def step(self, volumes, masks):
            self.kept = [torch.ones(4096) for _ in volumes]
            return super().step(volumes, masks)

    greedy = probes.segmenter_peak(Greedy, *given)
    assert greedy["peak"] > greedy["budget"] == kept["budget"]


class Loader:
    """Yields one sample after another, from the first on in each epoch."""

    def __init__(self, paths, batch_size, seed):
        self.names = []
        for path in paths:
            with tarfile.open(path) as shard:
                self.names += shard.getnames()[::2]
        self.state = {"done": 0}

    def __iter__(self):
        while self.state["done"] < len(self.names):
            self.state["done"] += 1
            yield [self.names[self.state["done"] - 1]], torch.zeros(1), torch.ones(1)
        self.state["done"] = 0

    def state_dict(self):
        return dict(self.state)

    def load_state_dict(self, state):
        self.state = dict(state)


class Aliased(Loader):
    """Its state is its own dict, which goes on changing."""

    def state_dict(self):
        return self.state


SHARDS = [[(f"s{i}", torch.full((1, 2), float(i)), torch.ones(1, 2)) for i in range(3)], []]


def shard_runs(loader_class, *runs):
    asked = [{"seed": 0, "total": total, "state": state} for total, state in runs]
    return probes.shard_runs(loader_class, SHARDS, 1, asked)


def test_shards_are_written_and_loaders_go_on_from_their_state() -> None:
    expected = [[f"s{i}.volume.npy"] for i in (0, 1, 2, 0, 1)]
    whole, first = shard_runs(Loader, (5, None), (2, None))
    assert [batch["names"] for batch in whole["batches"]] == expected
    assert first["state"] == '{"done": 2}'
    assert [batch["names"] for batch in first["batches"]] == expected[:2]
    (rest,) = shard_runs(Loader, (3, first["state"]))
    assert [batch["names"] for batch in rest["batches"]] == expected[2:]
    (ended,) = shard_runs(Loader, (1, '{"done": 3}'))
    assert [batch["names"] for batch in ended["batches"]] == expected[:1]


def test_a_state_that_moves_with_the_loader_is_another_one_when_it_is_written() -> None:
    runs = [(0, None), (2, None)]
    assert [seen["state"] for seen in shard_runs(Loader, *runs)] == ['{"done": 0}', '{"done": 2}']
    aliased = shard_runs(Aliased, *runs)
    assert [seen["state"] for seen in aliased] == ['{"done": 1}', '{"done": 3}']
    assert [seen["state_then"] for seen in aliased] == ['{"done": 0}', '{"done": 2}']
