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
        one_by_one, LAYERS, BATCHES, state=STATE, loss="cross_entropy", before=stale
    )
    inputs, targets = BATCHES[0]
    leaf = STATE["0.bias"].clone().requires_grad_()
    loss = functional.cross_entropy(functional.linear(inputs, STATE["0.weight"], leaf), targets)
    (slope,) = torch.autograd.grad(loss, leaf)
    assert got["output"] == 3
    assert torch.allclose(got["gradients"]["0.bias"], stale["0.bias"] + 3 * slope)
    assert torch.equal(got["state"]["0.weight"], STATE["0.weight"])


def test_accumulated_hands_over_no_loss_where_none_is_named() -> None:
    got = probes.accumulated(lambda model, x: model(x), LAYERS, torch.ones(5, 3), state=STATE)
    assert got["output"].shape == (5, 2)
    assert got["gradients"] == {"0.weight": None, "0.bias": None}


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
    got = probes.forward_passes(function, LAYERS, BATCHES, state=STATE, loss="cross_entropy")
    assert got == {"rows": rows, "waiting": waiting}
    assert probes.forward_passes.is_testimony


def plain_steps(model, optimizer, loss_function, batches, factor, *further):
    assert not hasattr(batches, "__len__")
    for inputs, targets in batches:
        loss = factor * loss_function(model(inputs), targets)
        if further:
            scaler, scheduler = further
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            scheduler.step()
        else:
            loss.backward()
            optimizer.step()
        optimizer.zero_grad()
    return factor


def test_training_in_windows_gives_the_state_afterwards() -> None:
    options = {"state": STATE, "learning_rate": 0.5}
    got = probes.trained_in_windows(plain_steps, LAYERS, BATCHES[:1], 2.0, **options)
    weight = STATE["0.weight"].clone().requires_grad_()
    logits = functional.linear(BATCHES[0][0], weight, STATE["0.bias"])
    (slope,) = torch.autograd.grad(2 * functional.cross_entropy(logits, BATCHES[0][1]), weight)
    assert torch.allclose(got["state"]["0.weight"], STATE["0.weight"] - 0.5 * slope)
    assert (got["output"], got["learning_rate"], got["scale"]) == (2.0, 0.5, None)


def test_training_in_windows_with_scaler_and_schedule() -> None:
    got = probes.trained_in_windows(
        plain_steps,
        LAYERS,
        BATCHES,
        1.0,
        state=STATE,
        learning_rate=0.5,
        scaler={"init_scale": 8.0, "growth_interval": 2},
        schedule=(2, 0.1),
    )
    assert got["learning_rate"] == pytest.approx(0.05)
    assert got["scale"] == 16.0


def test_after_batches_gives_the_buffers() -> None:
    def set_momentum(model, momentum):
        model[0].momentum = momentum

    batches = [torch.tensor([[1.0, 2.0], [3.0, 6.0]])]
    got = probes.after_batches(set_momentum, [["BatchNorm1d", 2]], batches, 0.5)
    assert torch.allclose(got["0.running_mean"], torch.tensor([1.0, 2.0]))
    assert int(got["0.num_batches_tracked"]) == 1
    again = probes.after_batches(set_momentum, [["BatchNorm1d", 2]], batches, 0.5, state=got)
    assert torch.allclose(again["0.running_mean"], torch.tensor([1.5, 3.0]))
