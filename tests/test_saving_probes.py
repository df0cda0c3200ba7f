"""Probes of saving: they count what is saved, and see what is computed again."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from helpers import probes, saved_bytes

ROWS, COLUMNS = 3, 5
STATE = {"0.weight": torch.linspace(-1, 1, 20).reshape(4, 5), "0.bias": torch.zeros(4)}
LAYERS = [["Linear", 5, 4], ["Dial"]]
X = torch.linspace(-2, 2, ROWS * COLUMNS).reshape(ROWS, COLUMNS)
SLOPES = torch.arange(12.0).reshape(ROWS, 4)


def count(run: Callable, left_out: list[torch.Tensor]) -> int:
    return saved_bytes(run, except_for=left_out).bytes


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        ([["Linear", 5, 4]], 60),
        ([["Linear", 5, 4], ["ReLU"], ["Linear", 4, 2]], 60 + 48),
        # Of four columns two are cut out, and the storage of all four is kept.
        ([["Linear", 5, 4], ["Columns", 2], ["GELU"]], 60 + 48),
        ([["Linear", 5, 4], ["Repeat", 7], ["GELU"]], 60 + 48),
    ],
)
def test_a_counter_gets_a_forward_pass_and_what_to_leave_out(layers: list, expected: int) -> None:
    assert probes.counted(count, layers, X, left_out=["parameters"]) == expected


def test_a_counter_leaves_out_what_it_is_told_to() -> None:
    layers = [["Linear", 5, 4], ["Linear", 4, 2]]
    assert probes.counted(count, layers, X, left_out=[]) == 60 + 48 + 32
    assert probes.counted(count, layers, X, left_out=["parameters", "inputs"]) == 48


def test_rounds_are_forward_passes_whose_results_are_dropped() -> None:
    passes = []

    def look(run: Callable, left_out: list[torch.Tensor]) -> int:
        with torch.autograd.graph.saved_tensors_hooks(passes.append, lambda tensor: tensor):
            run()
        return len(left_out)

    layers = [["Linear", 5, 4], ["ReLU"]]
    assert probes.counted(look, layers, X, left_out=["parameters"], rounds=3) == 2
    assert len(passes) == 6


def plain(made: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    return made(x)


def wrapped(made: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    return checkpoint(made, x, use_reentrant=False)


def wrapped_reentrant(made: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    return checkpoint(made, x, use_reentrant=True)


def by_hand(position: float) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    x = X.clone().requires_grad_(True)
    weight = STATE["0.weight"].clone().requires_grad_(True)
    output = (x @ weight.T).sin().square() * position
    return output.detach(), *torch.autograd.grad(output, (x, weight), SLOPES)


@pytest.mark.parametrize(
    ("function", "seen"), [(plain, 2.0), (wrapped, -3.0), (wrapped_reentrant, -3.0)]
)
def test_the_way_back_tells_which_position_it_saw(function: Callable, seen: float) -> None:
    got = probes.there_and_back(
        function, LAYERS, X, state=STATE, grad_output=SLOPES, positions=(2.0, -3.0)
    )
    assert torch.allclose(got["output"], by_hand(2.0)[0])
    _, by_x, by_weight = by_hand(seen)
    assert torch.allclose(got["gradients"][0], by_x)
    assert torch.allclose(got["parameters"]["0.weight"], by_weight)


def test_steps_add_up_gradients_and_keep_states() -> None:
    layers = [["BatchNorm1d", 5]]
    state = torch.nn.BatchNorm1d(5).state_dict()
    state = {f"0.{name}": value for name, value in state.items()}
    slopes = torch.ones(ROWS, COLUMNS)
    for function, expected in ((plain, 2), (wrapped, 4)):
        got = probes.there_and_back(function, layers, X, state=state, grad_output=slopes, steps=2)
        assert got["state"]["0.num_batches_tracked"] == expected
        assert torch.allclose(got["parameters"]["0.bias"], torch.full((5,), 6.0))
    assert state["0.num_batches_tracked"] == 0
    calm = probes.there_and_back(plain, layers, X, state=state, grad_output=slopes, training=False)
    assert calm["state"]["0.num_batches_tracked"] == 0


def test_the_generator_is_seeded_read_and_left_as_it_was() -> None:
    def draws_on_the_way_back(made: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
        return checkpoint(made, x, use_reentrant=False, preserve_rng_state=False)

    layers = [["Dropout", 0.5], ["Tanh"]]
    given = {"state": {}, "grad_output": torch.ones(ROWS, COLUMNS), "seed": 7}
    before = torch.get_rng_state()
    first, again = (probes.there_and_back(plain, layers, X, **given) for _ in range(2))
    kept = probes.there_and_back(wrapped, layers, X, **given)
    moved = probes.there_and_back(draws_on_the_way_back, layers, X, **given)
    assert torch.equal(before, torch.get_rng_state())
    assert [d.tolist() for d in first["drawn"]] == [d.tolist() for d in again["drawn"]]
    assert torch.equal(first["output"], kept["output"])
    assert torch.equal(first["gradients"][0], kept["gradients"][0])
    assert torch.equal(first["drawn"][1], kept["drawn"][1])
    assert torch.equal(first["drawn"][0], moved["drawn"][0])
    assert not torch.equal(first["drawn"][1], moved["drawn"][1])


def test_a_network_takes_several_inputs_of_which_some_need_no_gradient() -> None:
    table, places = torch.arange(8.0).reshape(4, 2), torch.tensor([3, 0, 3])
    got = probes.there_and_back(
        lambda made, x, ids: made(x, ids),
        [["Rows"], ["Sigmoid"]],
        table,
        places,
        state={},
        grad_output=torch.ones(3, 2),
    )
    assert torch.allclose(got["output"], table[places].sigmoid())
    assert torch.count_nonzero(got["gradients"][0][1:3]) == 0


def test_blocks_can_be_gone_through_one_by_one() -> None:
    layers = [[["Linear", 5, 5], ["Tanh"]], [["Linear", 5, 5], ["Dial"]]]

    def run(blocks: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
        for block in blocks:
            x = block(x)
        return x

    state = {
        f"{block}.0.{name}": value
        for block in range(2)
        for name, value in torch.nn.Linear(5, 5).state_dict().items()
    }
    slopes = torch.ones(ROWS, COLUMNS)
    got = probes.there_and_back(run, layers, X, state=state, grad_output=slopes)
    assert set(got["parameters"]) == set(state)
    assert got["output"].shape == (ROWS, COLUMNS)


@pytest.mark.parametrize("function", [wrapped, wrapped_reentrant])
def test_alone_means_without_torchs_checkpoint(function: Callable) -> None:
    given = {"state": STATE, "grad_output": SLOPES}
    with pytest.raises(RuntimeError, match=r"torch\.utils\.checkpoint was called"):
        probes.there_and_back_alone(function, LAYERS, X, **given)
    got = probes.there_and_back_alone(plain, LAYERS, X, **given)
    assert torch.allclose(got["output"], by_hand(1.0)[0])
    assert probes.there_and_back(function, LAYERS, X, **given).keys() == got.keys()
    assert probes.there_and_back_alone.is_testimony
    assert not hasattr(probes.there_and_back, "is_testimony")
