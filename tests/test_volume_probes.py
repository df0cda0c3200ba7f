"""The probes of chapter 12: patches, budgets, shards, and a segmenter that is stopped."""

from __future__ import annotations

import tarfile

import pytest
import torch

from helpers import probes

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


def in_budget(function, **options):
    x = torch.linspace(-1, 1, 3 * 5 * 6 * 7).view(3, 1, 5, 6, 7)
    return probes.gradients_in_budget(
        function, PARTS, parts_state(), x, (x > 0.3).float(), **options
    )


def test_gradients_of_all_ways_are_the_same_and_their_bytes_are_not() -> None:
    whole = in_budget(whole_at_once, fits=(3, False))
    parts = in_budget(one_by_one, fits=(1, True))
    for name, slope in whole["gradients"].items():
        torch.testing.assert_close(parts["gradients"][name], slope)
    assert whole["peak"] <= whole["budget"]
    assert parts["peak"] <= parts["budget"] < whole["peak"]
    assert (whole["passes"], parts["passes"]) == ([[3, False]], [[1, True]] * 3)


def test_what_was_in_the_gradients_stays_in_the_sum() -> None:
    fresh = in_budget(whole_at_once, fits=(3, False))["gradients"]
    added = in_budget(whole_at_once, fits=(3, False), left_over=2.0)["gradients"]
    for name, slope in fresh.items():
        torch.testing.assert_close(added[name], slope + 2.0)


def test_an_exception_is_told_where_nothing_fits_and_goes_on_elsewhere() -> None:
    seen = in_budget(one_by_one, fits=(0, True))
    assert (seen["raised"], seen["passes"]) == ("ValueError", [])

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
    seen = probes.joined_patches(
        lambda predict, volume, patch, step: predict(volume), weights, volume, 2, 1
    )
    assert torch.equal(seen["output"].detach()[0, 0], weights)
    assert seen["shapes"] == [[1, 1, 2, 2, 2]]
    assert (seen["with_graph"], seen["keeps_graph"]) == (True, True)


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
    assert first["peaks"] == [1024, 1024]
    assert rest["logits"].unique().tolist() == [16.0]
    (methods,) = probes.segmenter_peaks(Counter, 1000, 10, *data, [[0]])
    assert methods["step"] == 1024
    assert methods["state_dict"] == methods["load_state_dict"] == 0
    assert methods["predict"] > 0


def test_shards_are_written_and_batches_are_named() -> None:
    shards = [[(f"s{i}", torch.full((1, 2), float(i)), torch.ones(1, 2)) for i in range(3)], []]

    class Loader:
        def __init__(self, paths, batch_size, seed):
            self.names = []
            for path in paths:
                with tarfile.open(path) as shard:
                    self.names += shard.getnames()
            self.done = 0

        def __iter__(self):
            while self.done < 3:
                self.done += 1
                yield [self.names[2 * self.done - 2]], torch.zeros(1), torch.zeros(1)

        def state_dict(self):
            return {"done": self.done}

        def load_state_dict(self, state):
            self.done = state["done"]

    seen = probes.stopped_shards(Loader, shards, 1, 0, stops=[1], total=3)
    assert [batch["names"] for batch in seen["batches"]] == [[f"s{i}.volume.npy"] for i in range(3)]
    assert seen["states"] == ['{"done": 1}']
    assert not seen["states_moved"]


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


def test_a_segmenter_that_moves_the_global_generator_is_told() -> None:
    for kind, kept in ((Tiny, True), (Loud, False)):
        seen = probes.segmenter_steps(kind, 900_000, 3, torch.zeros(1), torch.zeros(1), [])
        assert seen["kept_generator"] is kept


def test_a_volume_that_was_written_to_is_told() -> None:
    volume = torch.rand(1, 1, 3, 3, 3)
    before = volume.clone()
    for function, changed in (
        (lambda predict, volume, patch, step: predict(volume), False),
        (lambda predict, volume, patch, step: volume.mul_(2.0), True),
    ):
        seen = probes.joined_patches(function, torch.ones(3, 3, 3), volume, 3, 1)
        assert torch.equal(seen["volume"], before) is not changed
