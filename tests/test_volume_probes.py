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

    for function, has_graph in ((lambda predict, v, *_: predict(v), True), (quietly, False)):
        seen = probes.joined_patches(function, weights, volume, 2, 1)
        assert torch.equal(seen["output"].detach()[0, 0], weights)
        assert (seen["with_graph"], seen["keeps_graph"]) == (has_graph, has_graph)


class Counter:
    """A segmenter that counts the volumes it was given, and holds one tensor meanwhile."""

    def __init__(self, budget, seed):
        self.seen = seed

    def step(self, volumes, masks):
        torch.ones(256)
        self.seen += len(volumes)

    def predict(self, volumes):
        return volumes * 0 + self.seen

    def state_dict(self):
        return {"seen": self.seen}

    def load_state_dict(self, state):
        self.seen = state["seen"]


def test_a_segmenter_goes_on_from_its_state() -> None:
    data = torch.ones(6, 1, 2, 2, 2), torch.zeros(6, 1, 2, 2, 2)
    first = probes.segmenter_steps(Counter, 1000, 10, *data, [[0, 1], [2]])
    rest = probes.segmenter_steps(
        Counter, 1000, 10, *data, [[3, 4, 5]], state=first["state"], unseen=data[0][:1]
    )
    assert first["logits"] is None
    assert rest["logits"].unique().tolist() == [16.0]


def test_the_bytes_of_each_method_are_counted_beside_what_is_predicted() -> None:
    data = torch.ones(6, 1, 2, 2, 2), torch.zeros(6, 1, 2, 2, 2)
    seen = probes.segmenter_peaks(Counter, 1000, 10, *data, [[0], [1, 2]])
    for methods in seen["peaks"]:
        assert methods["step"] == 1024
        assert methods["state_dict"] == methods["load_state_dict"] == 0
        assert methods["predict"] > 0
    assert seen["logits"].unique().tolist() == [13.0]
    assert seen["has_graph"] is False


def test_a_graph_that_hangs_on_a_prediction_is_seen() -> None:
    class Tracked(Counter):
        def predict(self, volumes):
            return super().predict(volumes).requires_grad_()

    data = torch.ones(6, 1, 2, 2, 2), torch.zeros(6, 1, 2, 2, 2)
    assert probes.segmenter_peaks(Tracked, 1000, 10, *data, [[0]])["has_graph"] is True


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
    assert [seen["state"] for seen in shard_runs(Aliased, *runs)] == ['{"done": 1}', '{"done": 3}']


class Tiny:
    def __init__(self, budget: int, seed: int) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.weight = torch.randn(1)

    def state_dict(self) -> dict:
        return {"weight": self.weight}


class Loud(Tiny):
    def __init__(self, budget: int, seed: int) -> None:
        super().__init__(budget, seed)
        torch.manual_seed(seed)


def test_a_segmenter_that_moves_the_global_generator_moves_what_is_drawn() -> None:
    for kind, kept in ((Tiny, True), (Loud, False)):
        seen = probes.segmenter_steps(
            kind, 900_000, 3, torch.zeros(1), torch.zeros(1), [], process=8
        )
        assert (seen["drawn"] == first_draws(8)["torch"]) is kept
