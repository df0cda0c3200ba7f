"""Probes that hand a network over: what they build, and what shows in what it learns next."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable

import pytest
import torch

from helpers import probes
from helpers.calling import FoundFaultError

LAYERS = [["Linear", 2, 3], ["BatchNorm1d", 3], ["Dropout", 0.5]]
STATE = {
    "0.weight": torch.tensor([[1.0, 2.0], [-1.0, 0.5], [0.25, -3.0]]),
    "0.bias": torch.tensor([0.5, 0.0, -1.0]),
    "1.weight": torch.tensor([1.0, 2.0, 3.0]),
    "1.bias": torch.zeros(3),
    "1.running_mean": torch.tensor([0.5, 1.0, -1.0]),
    "1.running_var": torch.tensor([4.0, 1.0, 0.25]),
    "1.num_batches_tracked": torch.tensor(7),
}
GENERATOR = torch.Generator().manual_seed(0)
INPUTS = torch.randn(6, 2, generator=GENERATOR)
SLOPE = torch.randn(6, 3, generator=GENERATOR)


def after(function: Callable, **options: object) -> dict:
    given = {"inputs": INPUTS, "slope": SLOPE, "seed": 5, "state": STATE}
    return probes.network_then_trained(function, LAYERS, **given, **options)


def leaves_alone(network: torch.nn.Module) -> int:
    return len(list(network.modules()))


def test_a_network_is_built_handed_over_and_looked_at() -> None:
    layers = [[["Linear", 2, 3], ["BatchNorm1d", 3]], ["ReLU"]]
    modes = [True, False, True, False, True]

    def use(network: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
        output = network(x)
        network[1].train(False)
        network[0][0].weight.data.zero_()
        return output

    before = {
        "0.0.weight": torch.ones(3, 2),
        "0.0.bias": torch.zeros(3),
        "0.1.weight": torch.ones(3),
        "0.1.bias": torch.ones(3),
        "0.1.running_mean": torch.zeros(3),
        "0.1.running_var": torch.ones(3),
        "0.1.num_batches_tracked": torch.tensor(0),
    }
    x = torch.ones(4, 2)
    seen = probes.network(use, layers, x, state=before, training=modes)
    assert torch.allclose(seen["output"], torch.full((4, 3), 3.0), atol=1e-4)
    assert seen["training"] == [True, False, True, False, False]
    assert not seen["state"]["0.0.weight"].any()
    assert seen["state"]["0.1.num_batches_tracked"] == 0


def test_what_a_copy_of_the_network_does_is_told_too() -> None:
    def run(network: torch.nn.Module, x: torch.Tensor) -> None:
        network(x)
        with torch.no_grad():
            copy.deepcopy(network).eval()(x)

    seen = probes.network(run, [["Tanh"]], torch.ones(1))
    assert seen["autograd"] == [True, False]
    assert seen["modes"] == [[True, True], [False, False]]


def test_a_networks_modes_are_as_many_as_its_modules() -> None:
    with pytest.raises(ValueError, match="zip"):
        probes.with_network(lambda network: None, [["ReLU"]], training=[True])


def test_with_a_network_the_output_alone_comes_back() -> None:
    layers = [["Linear", 2, 3], ["Linear", 3, 2]]

    def names(network: torch.nn.Module, learned: bool) -> list[str]:
        return [name for name, p in network.named_parameters() if p.requires_grad is learned]

    tied = [("0.bias", "1.weight")]
    got = probes.with_network(names, layers, False, tied=tied, frozen=["0.weight", "0.bias"])
    assert got == ["0.weight", "0.bias"]
    assert probes.with_network(names, layers, True, tied=tied, frozen=["0.bias"]) == [
        "0.weight",
        "1.bias",
    ]
    ran = probes.with_network(lambda n: n(torch.ones(1)), [["Tanh"]], order=[0, 0])
    assert torch.equal(ran, torch.ones(1).tanh().tanh())
    kind = probes.with_network(lambda n: n[0].weight.dtype, layers, dtype="float64")
    assert kind == torch.float64


def test_a_module_may_stand_in_two_places() -> None:
    layers = [[["Linear", 2, 3], ["Tanh"]], [["Linear", 3, 3], ["ReLU"]]]
    shared = [("0.1", "1.1")]
    probe = probes.with_network
    assert probe(lambda n: n[1][1] is n[0][1], layers, shared=shared)
    assert probe(lambda n: len(list(n.modules())), layers, shared=shared) == 6
    assert probe(
        lambda n: n[0][1].training, layers, shared=shared, training=[True] * 4 + [False] * 2
    )


def test_a_network_is_handed_over_twice_and_has_more_that_is_frozen_then() -> None:
    def look(network: torch.nn.Module, name: str) -> tuple[int, bool]:
        return id(network), network.get_parameter(name).requires_grad

    given = look, [["Linear", 2, 3]], "0.weight"
    first, second = probes.with_network_twice(*given, frozen_later=["0.weight"])
    assert first == (second[0], True)
    assert second[1] is False
    first, second = probes.with_network_twice(*given, frozen=["0.weight"], frozen_later=["0.bias"])
    assert (first[1], second[1]) == (False, False)


def test_the_next_step_is_that_of_a_network_that_nobody_touched() -> None:
    network = torch.nn.Sequential(
        torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3), torch.nn.Dropout(0.5)
    )
    network.load_state_dict(STATE)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.5)
    seen = after(leaves_alone)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        output = network(INPUTS)
    (output * SLOPE).sum().backward()
    optimizer.step()
    assert seen["output"] == 4
    assert torch.equal(seen["next"], output.detach())
    assert seen["state"].keys() == STATE.keys()
    for name, value in network.state_dict().items():
        assert torch.allclose(seen["state"][name], value, atol=1e-6), name


def freeze(network: torch.nn.Module) -> None:
    network[0].bias.requires_grad_(False)


def hook(network: torch.nn.Module) -> None:
    network[0].register_forward_hook(lambda module, inputs, output: 2 * output)


def leave_gradients(network: torch.nn.Module) -> None:
    network[0].bias.sum().backward()


@pytest.mark.parametrize(
    "touch",
    [
        lambda network: network[1].eval(),
        lambda network: network[2].eval(),
        lambda network: network(INPUTS),
        lambda network: network[1].running_mean.zero_(),
        lambda network: torch.set_grad_enabled(False),
        freeze,
        hook,
        leave_gradients,
    ],
    ids=["norm", "dropout", "statistics", "buffer", "autograd", "frozen", "hook", "gradients"],
)
def test_whatever_is_touched_shows_in_the_next_step(touch: Callable) -> None:
    def is_same(one: dict, other: dict) -> bool:
        same_state = all(torch.equal(one["state"][name], other["state"][name]) for name in STATE)
        return torch.equal(one["next"], other["next"]) and same_state

    untouched = after(leaves_alone)
    assert is_same(untouched, after(leaves_alone))
    with torch.enable_grad():
        touched = after(touch)
    assert not is_same(untouched, touched)


@pytest.mark.parametrize(
    ("touch", "told"),
    [
        (lambda network: network[1].eval(), "module 1 is in evaluation mode after the call"),
        (lambda network: network.double(), "0.weight is torch.float64 after the call"),
        (lambda network: setattr(network[2], "note", 1), "module 2: the attribute note was"),
        (lambda network: delattr(network, "training"), "the model: the attribute training is"),
        (leave_gradients, "0.bias.grad is a tensor after the call"),
    ],
)
def test_what_must_be_untouched_is_told_by_name(touch: Callable, told: str) -> None:
    with pytest.raises(FoundFaultError, match=re.escape(told)):
        after(touch, untouched=True)
    after(leaves_alone, untouched=True)


@pytest.mark.parametrize(
    "run",
    [
        lambda model, x: model(x).sum().backward(),
        lambda model, x: model.forward(x).sum().backward(),
        lambda model, x: copy.deepcopy(model)(x).sum().backward(),
        lambda model, x: sum(p.sum() for p in model.parameters()).backward(),
        lambda model, x: torch.autograd.grad(model(x).sum(), list(model.parameters())) and None,
        lambda model, x: torch.func.grad_and_value(lambda t: model(t).sum())(x) and None,
        lambda model, x: torch.autograd.functional.jacobian(model, x) is None,
        lambda model, x: torch.autograd.gradcheck(model.double(), x.double().requires_grad_()),
    ],
)
def test_a_backward_pass_is_told_in_any_form(run: Callable) -> None:
    assert probes.network(run, [["Linear", 2, 3], ["Tanh"]], torch.ones(1, 2))["backward"] is True


def test_what_only_runs_forward_is_no_backward_pass() -> None:
    def run(model: torch.nn.Module, x: torch.Tensor) -> bool:
        stored = [p.grad for p in model.parameters() if p.grad is not None]
        with torch.no_grad():
            model(x)
        return model(x).requires_grad and not stored

    seen = probes.network(run, [["Linear", 2, 3], ["Tanh"]], torch.ones(1, 2))
    assert (seen["output"], seen["backward"], seen["hooks"]) == (True, False, 0)


def test_a_function_may_get_the_same_network_again() -> None:
    def count(model: torch.nn.Module) -> int:
        model.calls = getattr(model, "calls", 0) + 1
        return model.calls

    assert probes.with_network(count, [["Tanh"]]) == 1
    assert probes.with_network(count, [["Tanh"]], again=True) == 2


def test_a_buffer_may_be_left_out_of_the_state_dict() -> None:
    def names(model: torch.nn.Module) -> list:
        return [[name for name, _ in model.named_buffers()], list(model.state_dict())]

    layers = [["BatchNorm1d", 3, 1e-5, 0.1, False]]
    buffers, state = probes.with_network(names, layers, unsaved=["0.running_mean"])
    assert buffers == ["0.running_mean", "0.running_var", "0.num_batches_tracked"]
    assert state == ["0.running_var", "0.num_batches_tracked"]
