"""Probes of accumulation: they return what was really left behind."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from helpers import probes

LAYERS = [["Linear", 3, 2]]
STATE = {"0.weight": torch.tensor([[1.0, 2, 3], [0, -1, 1]]), "0.bias": torch.tensor([0.5, -0.5])}
BATCHES = [(torch.ones(rows, 3), torch.zeros(rows, dtype=torch.int64)) for rows in (2, 1, 4)]


def one_by_one(model, loss_function, batches):
    for inputs, targets in batches:
        loss_function(model(inputs), targets).backward()
    return len(batches)


def test_accumulated_tells_what_lies_in_grad() -> None:
    stale = {"0.bias": torch.tensor([10.0, 20.0])}
    got = probes.accumulated(
        one_by_one,
        LAYERS,
        BATCHES,
        loss_function="cross_entropy",
        state_dict=STATE,
        old_gradients=stale,
    )
    inputs, targets = BATCHES[0]
    leaf = STATE["0.bias"].clone().requires_grad_()
    loss = functional.cross_entropy(functional.linear(inputs, STATE["0.weight"], leaf), targets)
    (slope,) = torch.autograd.grad(loss, leaf)
    assert got["output"] == 3
    assert torch.allclose(got["gradients"]["0.bias"], stale["0.bias"] + 3 * slope)
    assert got["outputs"] is None


def test_accumulated_hands_over_no_loss_where_none_is_named() -> None:
    def first_outputs(model, batches):
        return model(batches[0][0])

    got = probes.accumulated(first_outputs, LAYERS, BATCHES, state_dict=STATE)
    assert got["output"].shape == (2, 2)
    assert got["gradients"] == {"0.weight": None, "0.bias": None}


@pytest.mark.parametrize("leaves_in", ["train", "eval"])
def test_the_outputs_afterwards_show_the_mode_that_is_left(leaves_in: str) -> None:
    state = {"0.weight": torch.ones(3), "0.bias": torch.zeros(3)}
    state |= {"0.running_mean": torch.full((3,), 2.0), "0.running_var": torch.full((3,), 4.0)}
    state["0.num_batches_tracked"] = torch.tensor(1)
    fresh = torch.tensor([[1.0, 2, 6], [3, 6, 2]])
    got = probes.accumulated(
        lambda model, batches: getattr(model, leaves_in)(),
        [["BatchNorm1d", 3]],
        [],
        state_dict=state,
        training=leaves_in == "eval",
        afterwards=fresh,
    )
    of_batch = torch.tensor([[-1.0, -1, 1], [1, 1, -1]])
    expected = of_batch if leaves_in == "train" else (fresh - 2) / 2
    assert torch.allclose(got["outputs"], expected, atol=1e-4)
    assert torch.equal(got["state_dict"]["0.running_mean"], state["0.running_mean"])


def test_forward_passes_tell_what_became_of_the_micro_batches() -> None:
    def overwrite(model, batches):
        batches[0][1][:] = 7

    pairs = [(torch.ones(2, 3), torch.zeros(2, dtype=torch.int64))]
    got = probes.forward_passes(overwrite, LAYERS, pairs, state_dict=STATE)
    assert got["micro_batches"][0][1].tolist() == [7, 7]
    assert got["rows"] == 0


def at_the_end(model, loss_function, batches):
    sum(loss_function(model(inputs), targets) for inputs, targets in batches).backward()


def all_at_once(model, loss_function, batches):
    inputs, targets = (torch.cat(parts) for parts in zip(*batches, strict=True))
    loss_function(model.forward(inputs), targets).backward()


def counts_first(model, loss_function, batches):
    with torch.no_grad():
        for inputs, _ in batches:
            model(inputs)
    one_by_one(model, loss_function, batches)


@pytest.mark.parametrize(
    ("function", "rows", "waiting"),
    [(one_by_one, 4, 1), (at_the_end, 4, 3), (all_at_once, 7, 1), (counts_first, 4, 1)],
)
def test_forward_passes_are_counted(function, rows, waiting) -> None:
    given = {"loss_function": "cross_entropy", "state_dict": STATE}
    got = probes.forward_passes(function, LAYERS, BATCHES, **given)
    assert (got["rows"], got["entries"], got["waiting"]) == (rows, 3 * rows, waiting)
    unwatched = probes.accumulated(function, LAYERS, BATCHES, **given)
    assert got["output"] == unwatched["output"]
    for name, slope in unwatched["gradients"].items():
        assert torch.equal(got["gradients"][name], slope)
    assert probes.forward_passes.is_testimony
    assert not hasattr(probes.accumulated, "is_testimony")


def test_nobody_can_tell_which_call_is_watched() -> None:
    seen = []

    def look(model, *others):
        seen.append(sorted(vars(model)))

    probes.accumulated(look, LAYERS, BATCHES, state_dict=STATE)
    probes.forward_passes(look, LAYERS, BATCHES, state_dict=STATE)
    given = {"optimizer": SGD, "steps": 2, "state_dict": STATE}
    probes.trained_in_windows(look, LAYERS, BATCHES, **given)
    probes.forward_passes(look, LAYERS, BATCHES, **given)
    assert len(seen) == 4
    assert all(names == seen[0] for names in seen)


SGD = {"lr": 0.5, "momentum": 0.5, "weight_decay": 0.25}


def test_forward_passes_of_a_training_are_counted() -> None:
    given = {"optimizer": SGD, "steps": 2, "state_dict": STATE}
    got = probes.forward_passes(plain_steps, LAYERS, BATCHES, **given)
    assert (got["rows"], got["entries"], got["waiting"]) == (4, 12, 1)
    unwatched = probes.trained_in_windows(plain_steps, LAYERS, BATCHES, **given)
    assert got["output"] == unwatched["output"] == 2
    for name, value in unwatched["state_dict"].items():
        assert torch.equal(got["state_dict"][name], value)


def plain_steps(model, optimizer, loss_function, batches, steps, *further):
    assert not hasattr(batches, "__len__")
    for inputs, targets in batches:
        loss = steps * loss_function(model(inputs), targets)
        if further:
            max_norm, scaler, scheduler = further
            assert max_norm == 3.0
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            scheduler.step()
        else:
            loss.backward()
            optimizer.step()
        optimizer.zero_grad()
    return steps


def test_training_in_windows_gives_the_state_afterwards() -> None:
    got = probes.trained_in_windows(
        plain_steps, LAYERS, BATCHES[:2], optimizer=SGD, steps=2, state_dict=STATE
    )
    values, speeds = dict(STATE), {"0.weight": 0.0, "0.bias": 0.0}
    for inputs, targets in BATCHES[:2]:
        leaves = {name: value.clone().requires_grad_() for name, value in values.items()}
        logits = functional.linear(inputs, leaves["0.weight"], leaves["0.bias"])
        loss = 2 * functional.cross_entropy(logits, targets)
        slopes = torch.autograd.grad(loss, list(leaves.values()))
        for name, slope in zip(leaves, slopes, strict=True):
            decay = 0.25 if name == "0.weight" else 0.0  # none for a bias
            speeds[name] = 0.5 * speeds[name] + slope + decay * values[name]
            values[name] = values[name] - 0.5 * speeds[name]
    for name, value in values.items():
        assert torch.allclose(got["state_dict"][name], value)
    assert (got["output"], got["learning_rate"], got["scale"]) == (2, 0.5, None)


def test_training_in_windows_begins_with_old_gradients() -> None:
    def steps_at_once(model, optimizer, *others):
        optimizer.step()

    got = probes.trained_in_windows(
        steps_at_once,
        LAYERS,
        BATCHES,
        optimizer={"lr": 0.5},
        steps=1,
        state_dict=STATE,
        old_gradients={"0.bias": torch.tensor([1.0, 3.0])},
    )
    assert got["state_dict"]["0.bias"].tolist() == [0.0, -2.0]
    assert torch.equal(got["state_dict"]["0.weight"], STATE["0.weight"])


def test_training_in_windows_with_scaler_and_schedule() -> None:
    got = probes.trained_in_windows(
        plain_steps,
        LAYERS,
        BATCHES,
        optimizer=SGD,
        steps=1,
        max_norm=3.0,
        scaler={"init_scale": 8.0, "growth_interval": 2},
        scheduler={"step_size": 2, "gamma": 0.1},
        state_dict=STATE,
    )
    assert got["learning_rate"] == pytest.approx(0.05)
    assert got["scale"] == 16.0


NORM = {
    "weight": torch.ones(2),
    "bias": torch.zeros(2),
    "running_mean": torch.zeros(2),
    "running_var": torch.ones(2),
    "num_batches_tracked": torch.tensor(0),
}
ROWS = [torch.tensor([[1.0, 2.0], [3.0, 6.0]])]


def under(prefix):
    return {prefix + name: value for name, value in NORM.items()}


def set_momentum(model, count):
    for module in model.modules():
        module.momentum = 1 / count


def test_after_batches_gives_the_buffers() -> None:
    layers = [["BatchNorm1d", 2]]
    got = probes.after_batches(set_momentum, layers, 2, state_dict=under("0."), batches=ROWS)
    after = got["state_dict"]
    assert torch.allclose(after["0.running_mean"], torch.tensor([1.0, 2.0]))
    assert int(after["0.num_batches_tracked"]) == 1
    again = probes.after_batches(set_momentum, layers, 2, state_dict=after, batches=ROWS)
    assert torch.allclose(again["state_dict"]["0.running_mean"], torch.tensor([1.5, 3.0]))


@pytest.mark.parametrize("leaves_in", ["train", "eval"])
def test_after_batches_feeds_the_network_in_the_mode_that_is_left(leaves_in: str) -> None:
    got = probes.after_batches(
        lambda model, count: getattr(model[0], leaves_in)(),
        [["BatchNorm1d", 2]],
        1,
        state_dict=under("0."),
        batches=ROWS,
        training=leaves_in == "eval",
    )
    of_batch = torch.tensor([[-1.0, -1], [1, 1]])
    expected = of_batch if leaves_in == "train" else ROWS[0]
    assert torch.allclose(got["outputs"][0], expected, atol=1e-4)
    assert int(got["state_dict"]["0.num_batches_tracked"]) == (leaves_in == "train")


def test_after_batches_puts_a_layer_in_two_places() -> None:
    got = probes.after_batches(
        set_momentum,
        [["BatchNorm1d", 2], [["Identity"], ["Identity"]]],
        2,
        state_dict=under("0.") | under("1.1."),
        batches=ROWS,
        also_at={"1.1": "0"},
    )
    after = got["state_dict"]
    assert int(after["0.num_batches_tracked"]) == 2
    assert torch.equal(after["0.running_mean"], after["1.1.running_mean"])


def kept_outputs(model, loss_function, batches):
    outputs = [model(inputs) for inputs, _ in batches]
    for output, (_, targets) in zip(outputs, batches, strict=True):
        loss_function(output, targets).backward()


def outputs_of_copies(model, loss_function, batches):
    outputs = []
    for inputs, targets in batches:
        with torch.no_grad():
            model(inputs)
        outputs.append(model(inputs).detach())
        loss_function(model(inputs), targets).backward()


@pytest.mark.parametrize(("function", "passes", "held"), [(one_by_one, 3, 0), (kept_outputs, 3, 2)])
def test_outputs_that_stay_in_memory_are_counted(function, passes: int, held: int) -> None:
    got = probes.forward_passes(
        function, LAYERS, BATCHES, loss_function="cross_entropy", state_dict=STATE
    )
    assert (got["passes"], got["held"]) == (passes, held)


def test_passes_without_gradients_are_counted() -> None:
    got = probes.forward_passes(
        outputs_of_copies, LAYERS, BATCHES, loss_function="cross_entropy", state_dict=STATE
    )
    assert got["passes"] == 9
    assert got["waiting"] == 1


def by_torch_func(model, loss_function, batches):
    weights = {name: weight.detach() for name, weight in model.named_parameters()}

    def loss_of(weights, inputs, targets):
        return loss_function(torch.func.functional_call(model, weights, (inputs,)), targets)

    for inputs, targets in batches:
        slopes = torch.func.grad(loss_of)(weights, inputs, targets)
        for name, weight in model.named_parameters():
            weight.grad = slopes[name] + (0 if weight.grad is None else weight.grad)
    return len(batches)


def all_graphs_of_torch_func(model, loss_function, batches):
    weights = {name: weight.detach() for name, weight in model.named_parameters()}

    def loss_of(weights):
        return sum(
            loss_function(torch.func.functional_call(model, weights, (x,)), y) for x, y in batches
        )

    for name, slope in torch.func.grad(loss_of)(weights).items():
        model.get_parameter(name).grad = slope


@pytest.mark.parametrize(
    ("function", "waiting"), [(by_torch_func, 1), (all_graphs_of_torch_func, 3)]
)
def test_passes_inside_torch_func_are_counted(function, waiting: int) -> None:
    arguments = LAYERS, BATCHES
    options = {"loss_function": "cross_entropy", "state_dict": STATE}
    got = probes.forward_passes(function, *arguments, **options)
    plain = probes.accumulated(one_by_one, *arguments, **options)
    assert got["waiting"] == waiting
    assert got["passes"] == 3
    for name, gradient in plain["gradients"].items():
        assert torch.allclose(got["gradients"][name], gradient)


def test_the_modes_and_the_momenta_that_are_left_are_told() -> None:
    layers = [["BatchNorm1d", 2, 1e-3, 0.5], ["InstanceNorm2d", 2], ["Tanh"]]
    state = {"0.weight": torch.ones(2), "0.bias": torch.zeros(2)}
    state |= {"0.running_mean": torch.zeros(2), "0.running_var": torch.ones(2)}
    state["0.num_batches_tracked"] = torch.tensor(1)

    def change(model, count):
        model[0].momentum = 0.5 / count
        model[2].eval()

    got = probes.after_batches(change, layers, 2, state_dict=state, batches=[], in_eval=("1",))
    assert got["modes"] == {"": True, "0": True, "1": False, "2": False}
    assert got["settings"] == {
        "0": {"momentum": 0.25, "eps": 1e-3},
        "1": {"momentum": 0.1, "eps": 1e-5},
    }
