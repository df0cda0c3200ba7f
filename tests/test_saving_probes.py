"""Probes of saving: they count what is saved, and see what is computed again."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from helpers import probes

ROWS, COLUMNS = 3, 5
STATE = {"0.weight": torch.linspace(-1, 1, 20).reshape(4, 5), "0.bias": torch.zeros(4)}
LAYERS = [["Linear", 5, 4], ["Dial"]]
X = torch.linspace(-2, 2, ROWS * COLUMNS).reshape(ROWS, COLUMNS)
SLOPES = torch.arange(12.0).reshape(ROWS, 4)


def count(run: Callable, left_out: list[torch.Tensor]) -> int:
    storages = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage()
        return tensor.detach()

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        run()
    for tensor in left_out:
        storages.pop(tensor.untyped_storage().data_ptr(), None)
    return sum(storage.nbytes() for storage in storages.values())


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        ([["Linear", 5, 4]], 60),
        ([["Linear", 5, 4], ["ReLU"], ["Linear", 4, 2]], 60 + 48),
        # Of four columns two are cut out, and the storage of all four is kept.
        ([["Linear", 5, 4], ["Columns", 2], ["GELU"]], 60 + 48),
        ([["Linear", 5, 4], ["Repeat", 7], ["GELU"]], 60 + 48),
        ([["Linear", 5, 4], ["Halves"]], 60 + 48),
    ],
)
def test_a_counter_gets_a_forward_pass_and_what_to_leave_out(layers: list, expected: int) -> None:
    assert probes.counted(count, layers, X, left_out=["parameters"]) == expected


def test_a_counter_leaves_out_what_it_is_told_to() -> None:
    layers = [["Linear", 5, 4], ["Linear", 4, 2]]
    assert probes.counted(count, layers, X, left_out=[]) == 60 + 48 + 32
    assert probes.counted(count, layers, X, left_out=["parameters", "data"]) == 48


def test_what_a_counter_leaves_in_memory_is_seen() -> None:
    def keep_the_graph(run: Callable, left_out: list[torch.Tensor]) -> int:
        kept = []

        def keep(tensor: torch.Tensor) -> torch.Tensor:
            kept.append(tensor)
            return tensor.detach()

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            run()
        return len(kept)

    layers = [["Linear", 5, 4], ["Sigmoid"]]
    assert probes.counted_and_freed(count, layers, X) == {"count": 60 + 48, "kept": 0}
    assert probes.counted_and_freed(keep_the_graph, layers, X)["kept"] >= 48


def test_passes_whose_results_are_dropped_count() -> None:
    passes = []

    def look(run: Callable, left_out: list[torch.Tensor]) -> int:
        with torch.autograd.graph.saved_tensors_hooks(passes.append, lambda tensor: tensor):
            run()
        return len(left_out)

    layers = [["Linear", 5, 4], ["ReLU"]]
    assert probes.counted(look, layers, X, left_out=["parameters"], passes=3) == 2
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
    got = probes.forward_and_backward(
        function, LAYERS, X, state=STATE, grad_output=SLOPES, dial_positions=(2.0, -3.0)
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
        got = probes.forward_and_backward(
            function, layers, X, state=state, grad_output=slopes, steps=2
        )
        assert got["state"]["0.num_batches_tracked"] == expected
        assert torch.allclose(got["parameters"]["0.bias"], torch.full((5,), 6.0))
    assert state["0.num_batches_tracked"] == 0
    calm = probes.forward_and_backward(
        plain, layers, X, state=state, grad_output=slopes, training=False
    )
    assert calm["state"]["0.num_batches_tracked"] == 0


def test_the_generator_is_seeded_read_and_left_as_it_was() -> None:
    def draws_on_the_way_back(made: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
        return checkpoint(made, x, use_reentrant=False, preserve_rng_state=False)

    layers = [["Dropout", 0.5], ["Tanh"]]
    given = {"state": {}, "grad_output": torch.ones(ROWS, COLUMNS), "seed": 7}
    before = torch.get_rng_state()
    first, again = (probes.forward_and_backward(plain, layers, X, **given) for _ in range(2))
    kept = probes.forward_and_backward(wrapped, layers, X, **given)
    moved = probes.forward_and_backward(draws_on_the_way_back, layers, X, **given)
    assert torch.equal(before, torch.get_rng_state())
    assert [d.tolist() for d in first["drawn"]] == [d.tolist() for d in again["drawn"]]
    assert torch.equal(first["output"], kept["output"])
    assert torch.equal(first["gradients"][0], kept["gradients"][0])
    assert torch.equal(first["drawn"][1], kept["drawn"][1])
    assert torch.equal(first["drawn"][0], moved["drawn"][0])
    assert not torch.equal(first["drawn"][1], moved["drawn"][1])


def test_a_network_takes_several_inputs_of_which_some_need_no_gradient() -> None:
    table, places = torch.arange(8.0).reshape(4, 2), torch.tensor([3, 0, 3])
    got = probes.forward_and_backward(
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
    got = probes.forward_and_backward(run, layers, X, state=state, grad_output=slopes)
    assert set(got["parameters"]) == set(state)
    assert got["output"].shape == (ROWS, COLUMNS)


def test_what_is_kept_is_told_beside_what_came_out() -> None:
    given = {"state": STATE, "grad_output": SLOPES}
    got, plainly = (
        probes.bytes_kept(plain, LAYERS, X, **given),
        probes.forward_and_backward(plain, LAYERS, X, **given),
    )
    assert got.keys() == plainly.keys() | {"kept", "peak"}
    assert torch.equal(got["output"], plainly["output"])
    assert torch.equal(got["gradients"][0], plainly["gradients"][0])
    assert probes.bytes_kept.is_testimony
    assert not hasattr(probes.forward_and_backward, "is_testimony")


class RunsAgain(torch.autograd.Function):
    """A checkpoint; ``hoards`` tells whether it holds on to the first run's graph all the same."""

    @staticmethod
    def forward(ctx, run, hoards, x):
        ctx.run = run
        ctx.save_for_backward(x)
        with torch.set_grad_enabled(hoards):
            output = run(x.detach().requires_grad_(True))
        ctx.hoard = output if hoards else None
        return output.detach()

    @staticmethod
    def backward(ctx, slope):
        x = ctx.saved_tensors[0].detach().requires_grad_(True)
        with torch.enable_grad():
            ctx.run(x).backward(slope)
        return None, None, x.grad


def test_what_the_way_there_keeps_is_counted_without_its_output() -> None:
    layers = [["Linear", 5, 4], ["Tanh"], ["Linear", 4, 4], ["Dial"]]
    state = {f"2.{name}": value for name, value in torch.nn.Linear(4, 4).state_dict().items()}
    given = {"state": STATE | state, "grad_output": SLOPES}
    for hoards in (False, True):
        got = probes.bytes_kept(
            lambda made, x, hoards=hoards: RunsAgain.apply(made, hoards, x), layers, X, **given
        )
        assert (got["kept"] >= 3 * 48) is hoards
        assert hoards or got["kept"] == 0
    kept = probes.bytes_kept(plain, layers, X, **given)["kept"]
    assert kept >= 3 * 48


def test_a_function_can_be_used_again_before_the_way_back() -> None:
    state = {f"0.{n}": v for n, v in torch.nn.BatchNorm1d(5).state_dict().items()}
    slopes = torch.ones(ROWS, COLUMNS)
    given = {"state": state, "grad_output": slopes, "uses": 2}
    got = probes.forward_and_backward(wrapped, [["BatchNorm1d", 5]], X, **given)
    assert got["state"]["0.num_batches_tracked"] == 4
    assert torch.allclose(got["parameters"]["0.bias"], torch.full((5,), 6.0))
    assert len(got["drawn"]) == 2


def test_each_call_can_have_a_network_of_its_own() -> None:
    given = {"state": STATE, "grad_output": SLOPES, "uses": 2}
    once = probes.forward_and_backward(wrapped, LAYERS, X, **given | {"uses": 1})
    got = probes.forward_and_backward(wrapped, LAYERS, X, **given, own_networks=True)
    assert torch.allclose(got["gradients"][0], 2 * once["gradients"][0])
    assert torch.allclose(got["parameters"]["0.weight"], once["parameters"]["0.weight"])


def test_data_that_need_no_gradient_fade_in_place() -> None:
    def asking(made: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
        return made(x.requires_grad_(True))

    given = {
        "state": STATE,
        "grad_output": SLOPES,
        "with_respect_to": (),
        "steps": 2,
        "fading": 0.5,
    }
    got = probes.forward_and_backward(plain, LAYERS, X.clone(), **given)
    faded = probes.forward_and_backward(plain, LAYERS, 0.5 * X, state=STATE, grad_output=SLOPES)
    assert torch.equal(got["output"], faded["output"])
    assert got["others"] == {0: {"requires_grad": False, "grad": None}}
    asked = probes.forward_and_backward(asking, LAYERS, X.clone(), **given)
    assert torch.equal(asked["output"], faded["output"])
    assert asked["others"][0]["requires_grad"]
    assert asked["others"][0]["grad"].shape == X.shape


def test_the_most_that_is_there_in_the_forward_pass_is_told() -> None:
    def runs_with_autograd(made: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            made(x)
        return wrapped(made, x)

    layers = [["Linear", 5, 4], *6 * [["Tanh"]], ["Dial"]]
    given = {"state": STATE, "grad_output": SLOPES}
    # A result of four columns takes 48 bytes; at most two are needed at once.
    frugal = probes.bytes_kept(lambda made, x: RunsAgain.apply(made, False, x), layers, X, **given)
    wasteful = probes.bytes_kept(runs_with_autograd, layers, X, **given)
    assert 2 * 48 <= frugal["peak"] < 4 * 48
    assert wasteful["peak"] >= 7 * 48
    assert wasteful["kept"] < wasteful["peak"]


def test_inputs_can_have_been_changed_before_the_call() -> None:
    versions = []

    def look(made: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        versions.append((x._version > 0, y._version > 0))
        return made(x) + y

    given = {"state": STATE, "grad_output": SLOPES}
    unchanged = probes.forward_and_backward(look, LAYERS, X, SLOPES.clone(), **given)
    changed = probes.forward_and_backward(
        look, LAYERS, X, SLOPES.clone(), **given, changed_before=True
    )
    assert versions == [(False, False), (True, True)]
    assert torch.equal(unchanged["output"], changed["output"])
    assert torch.equal(unchanged["gradients"][0], changed["gradients"][0])


def test_modes_and_settings_are_told() -> None:
    def changing(made: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
        output = made(x)
        made[0].eps, made[1].p = 0.5, 0.75
        made[1].eval()
        return output

    layers = [["BatchNorm1d", 5], ["Dropout", 0.25]]
    state = {f"0.{name}": value for name, value in torch.nn.BatchNorm1d(5).state_dict().items()}
    given = {"state": state, "grad_output": torch.ones(ROWS, COLUMNS)}
    before, after = (
        probes.forward_and_backward(function, layers, X, **given) for function in (plain, changing)
    )
    assert before["settings"]["0"] == torch.nn.BatchNorm1d(5).extra_repr()
    assert before["settings"]["1"] == torch.nn.Dropout(0.25).extra_repr()
    assert "eps=0.5" in after["settings"]["0"]
    assert "p=0.75" in after["settings"]["1"]
    assert before["modes"] == {"": True, "0": True, "1": True}
    assert after["modes"] == {"": True, "0": True, "1": False}


def test_a_layer_can_train_in_a_network_that_does_not() -> None:
    state = {
        f"{place}.{name}": value
        for place in range(2)
        for name, value in torch.nn.BatchNorm1d(5).state_dict().items()
    }
    got = probes.forward_and_backward(
        plain,
        [["BatchNorm1d", 5], ["BatchNorm1d", 5]],
        X,
        state=state,
        grad_output=torch.ones(ROWS, COLUMNS),
        training=False,
        in_training=("1",),
    )
    assert got["modes"] == {"": False, "0": False, "1": True}
    assert got["state"]["0.num_batches_tracked"] == 0
    assert got["state"]["1.num_batches_tracked"] == 1


def test_runs_are_counted_in_both_passes() -> None:
    def thrice(made: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
        made(x)
        return wrapped(made, x)

    for function, expected in ((plain, 1), (wrapped, 2), (wrapped_reentrant, 2), (thrice, 3)):
        got = probes.forward_and_backward(function, LAYERS, X, state=STATE, grad_output=SLOPES)
        assert got["runs"] == expected
    got = probes.forward_and_backward(wrapped, LAYERS, X, state=STATE, grad_output=SLOPES, uses=2)
    assert got["runs"] == 4


def test_a_network_can_be_more_than_layers_of_torch_in_a_row() -> None:
    def look(made: torch.nn.Module, *inputs: torch.Tensor) -> torch.Tensor:
        kinds.append([type(part) for part in made.modules()])
        return made(*inputs)

    kinds: list[list[type]] = []
    given = {"grad_output": torch.ones(ROWS, COLUMNS), "seed": 3}
    got = probes.forward_and_backward(
        look, [["FunctionalDropout", 0.5], ["Tanh"]], X, state={}, **given
    )
    layered = probes.forward_and_backward(plain, [["Dropout", 0.5], ["Tanh"]], X, state={}, **given)
    assert torch.equal(got["output"], layered["output"])
    assert torch.nn.Dropout not in kinds[0]

    norm = torch.nn.BatchNorm1d(5)
    state = {f"0.inner.{name}": value for name, value in norm.state_dict().items()}
    layers = [["Residual", ["BatchNorm1d", 5]]]
    got = probes.forward_and_backward(plain, layers, X, state=state, **given)
    assert torch.allclose(got["output"], X + norm(X))

    state = {name.replace("0", "1"): value for name, value in STATE.items()}
    got = probes.forward_and_backward(
        look, [["Second"], ["Linear", 5, 4]], X, 2 * X, state=state, grad_output=SLOPES
    )
    assert torch.allclose(got["output"], 2 * X @ STATE["0.weight"].T)
    assert got["gradients"][0] is None or not got["gradients"][0].any()
