"""Probes, saved bytes, time ratios, data: they return what was really done."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable, Iterable
from typing import ClassVar

import pytest
import torch
from torch.overrides import TorchFunctionMode

from helpers import digits, probes, saved_bytes, seconds_of, time_ratio, time_shares
from helpers.calling import FoundFaultError


def test_gradient_equals_autograds_own() -> None:
    x = torch.linspace(-2, 2, 5)
    weight = torch.arange(5.0)
    got = probes.gradient(lambda x, k: (k * x).sin(), x, 3.0, grad_output=weight)
    assert torch.allclose(got["output"], (3 * x).sin())
    assert torch.allclose(got["gradient"], weight * 3 * (3 * x).cos())
    assert not x.requires_grad


def by_autograd(x: torch.Tensor) -> torch.Tensor:
    leaf = x.clone().requires_grad_()
    leaf.sin().sum().backward()
    return leaf.grad


def by_autograd_with_hooks(x: torch.Tensor) -> torch.Tensor:
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        return by_autograd(x)


def by_torch_func(x: torch.Tensor) -> torch.Tensor:
    return torch.func.grad(lambda z: z.sin().sum())(x)


def by_hand(x: torch.Tensor) -> torch.Tensor:
    return x.cos()


def by_hand_through_vmap(x: torch.Tensor) -> torch.Tensor:
    return torch.vmap(torch.cos)(x)


@pytest.mark.parametrize(
    ("function", "recorded"),
    [
        (by_autograd, True),
        (by_autograd_with_hooks, True),
        (by_torch_func, True),
        (by_hand, False),
        (by_hand_through_vmap, False),
    ],
)
def test_what_autograd_records_in_a_call_is_told(function: Callable, recorded: bool) -> None:
    x = torch.linspace(-2, 2, 5)
    for _ in range(2):
        got = probes.autograd_watched(function, x)
        assert torch.allclose(got["output"], x.cos())
        assert got["recorded"] is recorded


def test_gradient_by_another_argument_and_of_a_constant() -> None:
    got = probes.gradient(
        lambda a, b: a * b, torch.ones(2), torch.full((2,), 4.0), with_respect_to=1
    )
    assert torch.equal(got["gradient"], torch.ones(2))
    constant = probes.gradient(lambda a: a.detach().requires_grad_() * 2, torch.ones(2))
    assert constant["gradient"] is None


class CutOff(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.detach() * 2


def test_an_output_that_depends_on_no_argument_has_no_gradient_and_raises_no_error() -> None:
    x = torch.ones(3)
    assert probes.gradient(CutOff(), x)["gradient"] is None
    steps = [("gradient", x, x), ("together", [("train", x, x)])]
    one, together = probes.module(CutOff, steps=steps)
    assert one["gradient"] is None
    assert together == [None]


def test_a_module_is_taken_through_steps() -> None:
    x, grad_output = torch.randn(5, 3), torch.randn(5, 3)
    state = {"weight": torch.tensor([1.0, 2.0, 3.0]), "bias": torch.zeros(3)}
    steps = [
        ("parameters",),
        ("load", state),
        ("call", x),
        ("gradient", x, grad_output),
        ("to", "float64"),
        ("eval",),
        ("state",),
    ]
    parameters, loaded, output, gradients, *_, after = probes.module(
        torch.nn.LayerNorm, 3, steps=steps
    )
    assert torch.equal(parameters["bias"], torch.zeros(3))
    assert loaded is None
    expected = torch.nn.functional.layer_norm(x, (3,), state["weight"])
    assert torch.allclose(output, expected)
    assert torch.allclose(gradients["output"], expected)
    summed = gradients["parameters"]["bias"]
    assert torch.allclose(summed, grad_output.sum(dim=0), atol=1e-6)
    assert gradients["gradient"].shape == x.shape
    assert after["weight"].dtype == torch.float64


class KeepsGraphs(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training:
            self.total = self.total + x.sum()
        return x * self.total


def test_a_graph_that_is_kept_shows_when_a_later_call_goes_back_through_it() -> None:
    x, y = torch.tensor([1.0, 2.0]), torch.tensor([4.0])
    calls = [("train", x, torch.tensor([1.0, 0.0])), ("eval", y, torch.tensor([10.0]))]
    ((by_x, by_y),) = probes.module(KeepsGraphs, steps=[("together", calls)])
    # The first call by itself: (3 + 1, 1). The second adds 10 * 4 by way of the total.
    assert by_x.tolist() == [44.0, 41.0]
    assert by_y.tolist() == [30.0]
    slopes = torch.ones(3, 2)
    x = torch.arange(6.0).reshape(3, 2) ** 2
    calls = [("train", x, slopes), ("eval", x, slopes)]
    ((by_x, _),) = probes.module(torch.nn.BatchNorm1d, 2, steps=[("together", calls)])
    assert torch.allclose(by_x, torch.zeros(3, 2), atol=1e-5)


def test_an_attribute_is_none_or_is_not() -> None:
    assert probes.is_none(torch.nn.Linear, "bias", 4, 3, bias=False) is True
    assert probes.is_none(torch.nn.Linear, "bias", 4, 3) is False
    assert probes.is_none(torch.nn.ReLU, "bias") is False


def test_another_module_may_be_made_in_between() -> None:
    class Shared(torch.nn.Module):
        def __init__(self, size: int) -> None:
            super().__init__()
            Shared.size = size

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * Shared.size

    steps = [("call", torch.ones(1)), ("another", 3), ("call", torch.ones(1))]
    before, none, after = probes.module(Shared, 2, steps=steps)
    assert (before.item(), none, after.item()) == (2.0, None, 3.0)


def test_memory_that_a_module_does_not_set_is_nan_only_there() -> None:
    class Unset(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.empty(3))
            self.bias = torch.nn.Parameter(torch.empty(3).zero_())

    (parameters,) = probes.module(Unset, steps=[("parameters",)])
    assert parameters["weight"].isnan().all()
    assert parameters["bias"].tolist() == [0.0, 0.0, 0.0]
    assert not torch.are_deterministic_algorithms_enabled()


def test_a_module_takes_no_step_that_is_not_known() -> None:
    with pytest.raises(ValueError, match='no step "fly"'):
        probes.module(torch.nn.ReLU, steps=[("fly",)])


def test_a_modules_mode_is_what_the_steps_say() -> None:
    x = torch.ones(100)
    trained, _, evaluated = probes.module(
        torch.nn.Dropout, 0.5, steps=[("call", x), ("eval",), ("call", x)]
    )
    assert set(trained.tolist()) == {0.0, 2.0}
    assert torch.equal(evaluated, x)


def test_fold_hands_each_state_to_the_next_step() -> None:
    def step(count: int, total: torch.Tensor, item: torch.Tensor) -> tuple[int, torch.Tensor]:
        return count + 1, total + item

    items = [torch.tensor(1.0), torch.tensor(3.0)]
    states = probes.fold(step, [10, torch.tensor(5.0)], items)
    assert [count for count, _ in states] == [11, 12]
    assert [total.item() for _, total in states] == [6.0, 9.0]


def test_an_optimizer_gets_its_parameters_once_and_is_read_after_each_step() -> None:
    weights = [torch.tensor([1.0, 2.0]), torch.tensor([[3.0]])]
    steps = [[torch.tensor([1.0, -1.0]), None], [None, torch.tensor([[4.0]])]]
    states = probes.optimizer_steps(torch.optim.SGD, weights, steps, 0.5)
    assert [weight.tolist() for weight in states[0]["weights"]] == [[0.5, 2.5], [[3.0]]]
    assert [weight.tolist() for weight in states[1]["weights"]] == [[0.5, 2.5], [[1.0]]]
    assert states[1]["gradients"][0] is None
    assert torch.equal(states[1]["gradients"][1], steps[1][1])
    assert weights[0].tolist() == [1.0, 2.0]

    class Forgetful:
        def __init__(self, parameters: object) -> None:
            self.count = len(list(parameters)) + len(list(parameters))

        def step(self) -> None:
            assert self.count == 2

    assert len(probes.optimizer_steps(Forgetful, weights, steps)) == 2


def test_one_more_backward_pass_shows_what_an_optimizer_left() -> None:
    weights, slopes = [torch.tensor([1.0, 2.0])], [torch.tensor([0.25, 0.5])]
    steps = [[torch.tensor([1.0, -1.0])], [None]]
    states = probes.optimizer_steps(torch.optim.SGD, weights, steps, 0.5, slopes=slopes)
    assert [state["gradients"][0].tolist() for state in states] == [[1.25, -0.5], [0.25, 0.5]]

    class Freezes(torch.optim.SGD):
        def step(self) -> None:
            for parameter in self.param_groups[0]["params"]:
                parameter.requires_grad_(False)

    (state,) = probes.optimizer_steps(Freezes, weights, steps[:1], 0.5, slopes=slopes)
    assert state["gradients"][0].tolist() == [1.0, -1.0]


def test_a_second_optimizer_shows_what_it_shares_with_the_first() -> None:
    weights, others = [torch.tensor([1.0, 2.0])], [torch.tensor([3.0])]
    second = others, 0.25
    steps = [[torch.tensor([1.0, -1.0])]]
    (state,) = probes.optimizer_steps(torch.optim.SGD, weights, steps, 0.5, second_optimizer=second)
    assert [weight.tolist() for weight in state["weights"]] == [[0.5, 2.5]]
    assert [weight.tolist() for weight in state["others"]] == [[3.0]]

    class Shares:
        parameters: ClassVar[list] = []

        def __init__(self, parameters: Iterable, rate: float) -> None:
            self.parameters.extend(parameters)
            Shares.rate = rate

        def step(self) -> None:
            for parameter in self.parameters:
                parameter.data -= Shares.rate * parameter.grad

    (state,) = probes.optimizer_steps(Shares, weights, steps, 0.5, second_optimizer=second)
    assert [weight.tolist() for weight in state["weights"]] == [[0.75, 2.25]]
    assert [weight.tolist() for weight in state["others"]] == [[2.75]]
    assert others[0].tolist() == [3.0]


def test_in_autocast_runs_in_the_region_and_comes_back_outside() -> None:
    x, w = torch.tensor([[257.0, 1.0]]), torch.tensor([[1.0], [0.5]])
    factors = torch.tensor([[257.0]]), torch.tensor([[1.0, 2.0]])
    seen = probes.in_autocast(torch.matmul, x, w, factors=factors, with_respect_to=1)
    assert seen["output"].dtype == torch.bfloat16
    assert seen["output"].item() == 256.0
    assert torch.equal(seen["gradient"], torch.tensor([[256.0], [1.0]]))
    assert seen["product"].dtype == torch.bfloat16
    assert seen["product"].tolist() == [[256.0, 512.0]]
    outside = probes.in_autocast(torch.matmul, x, w, factors=factors, lower=None)
    assert outside["output"].item() == 257.5
    assert outside["gradient"] is None
    assert outside["product"].tolist() == [[257.0, 514.0]]


def test_in_autocast_tells_of_a_region_that_was_switched_off() -> None:
    def switch_off(x: torch.Tensor) -> torch.Tensor:
        torch.set_autocast_enabled("cpu", False)
        return x

    factors = torch.ones(1, 1), torch.ones(1, 1)
    seen = probes.in_autocast(switch_off, torch.ones(2), factors=factors, lower="float16")
    assert seen["product"].dtype == torch.float32
    assert not torch.is_autocast_enabled("cpu")


FACTORS = torch.tensor([[257.0]]), torch.ones(1, 1)


def test_a_module_is_wrapped_and_run_in_autocast() -> None:
    state = {"weight": torch.tensor([[1.0, 1.0]]), "bias": torch.tensor([0.5])}
    seen = probes.wrapped_in_autocast(
        torch.nn.Sequential,
        layers=["Linear", 2, 1],
        inputs=[torch.tensor([[257.0, 1.0]])],
        state=state,
        factors=FACTORS,
    )
    assert seen["output"].dtype == torch.bfloat16
    assert seen["product"].tolist() == [[256.0]]
    assert seen["product"].dtype == torch.bfloat16
    assert torch.equal(seen["gradients"]["weight"], torch.tensor([[256.0, 1.0]]))
    assert torch.equal(seen["gradients"]["bias"], torch.ones(1))
    assert torch.equal(seen["by_inputs"][0], torch.ones(1, 2))


def test_a_wrapped_module_gets_integers_and_tells_of_a_cut_gradient() -> None:
    class Cut(torch.nn.Sequential):
        def forward(self, x):
            return self[0](x.detach())

    linear = {"weight": torch.ones(1, 2), "bias": torch.ones(1)}
    seen = probes.wrapped_in_autocast(
        Cut, layers=["Linear", 2, 1], inputs=[torch.ones(3, 2)], state=linear, factors=FACTORS
    )
    assert seen["by_inputs"] == [None]
    table = {"weight": torch.ones(4, 2)}
    seen = probes.wrapped_in_autocast(
        Cut, layers=["Embedding", 4, 2], inputs=[torch.tensor([3])], state=table, factors=FACTORS
    )
    assert seen["output"].tolist() == [[1.0, 1.0]]
    assert seen["by_inputs"] == [None]


class Halves(TorchFunctionMode):
    def __init__(self, names: list[str], lower: torch.dtype) -> None:
        super().__init__()
        self.names, self.lower = names, lower

    def __torch_function__(
        self, func: Callable, types: tuple, args: tuple = (), kwargs: dict | None = None
    ) -> object:
        if func.__name__ in self.names:
            args = [a.to(self.lower) if isinstance(a, torch.Tensor) else a for a in args]
        return func(*args, **(kwargs or {}))


def test_a_program_runs_in_a_function_mode() -> None:
    steps = [
        ("product", "matmul", ("x", "w")),
        ("both", "cat", (["x", "x"], 1)),
        ("linear", "linear", ("x", "x"), {"bias": "b"}),
        ("sum", "sum", ("product",)),
    ]
    x, w, b = torch.tensor([[2.0, 3.0]]), torch.tensor([[1.0], [257.0]]), torch.ones(1)
    values = {"x": x, "w": w, "b": b}
    seen = probes.in_function_mode(
        Halves, ["matmul"], lower="bfloat16", steps=steps, values=values, with_respect_to="w"
    )
    assert seen["product"].dtype == torch.bfloat16
    assert seen["sum"].item() == 768.0  # 770 lies between 768 and 772, and 768 is even
    assert torch.equal(seen["both"], torch.tensor([[2.0, 3.0, 2.0, 3.0]]))
    assert seen["linear"].item() == 14.0
    assert torch.equal(seen["gradient"], torch.tensor([[2.0], [3.0]]))


def test_a_program_may_name_a_list_and_has_a_parameter() -> None:
    kinds = []

    class Empties(TorchFunctionMode):
        def __init__(self, lower: torch.dtype) -> None:
            super().__init__()

        def __torch_function__(
            self, func: Callable, types: tuple, args: tuple = (), kwargs: dict | None = None
        ) -> object:
            kinds.append([type(item) for item in args[0]])
            result = func(*args, **(kwargs or {}))
            args[0].pop()
            return result

    seen = probes.in_function_mode(
        Empties,
        lower="bfloat16",
        steps=[("three", "cat", ("parts",)), ("two", "cat", ("parts",)), ("w", "cat", (["w"],))],
        values={"parts": [torch.ones(1)] * 3, "w": torch.ones(1)},
        with_respect_to="w",
    )
    assert (len(seen["three"]), len(seen["two"])) == (3, 2)
    assert kinds[2] == [torch.nn.Parameter]


def test_training_steps_are_those_of_sgd_and_keep_the_head_in_float32() -> None:
    dtypes = []

    def step(model, optimizer, loss_function, x, y):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            dtypes.append((model.body(x).dtype, model(x).dtype))
            loss = loss_function(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.item()

    state = {
        "body.weight": torch.eye(2),
        "body.bias": torch.zeros(2),
        "head.weight": torch.eye(2),
        "head.bias": torch.zeros(2),
    }
    batches = [(torch.zeros(1, 2), torch.tensor([0]))] * 2
    seen = probes.training_steps(
        step,
        ["Linear", 2, 2],
        batches,
        state=state,
        learning_rate=2.0,
        float32_layers=["Linear", 2, 2],
    )
    assert dtypes == [(torch.bfloat16, torch.float32)] * 2
    assert seen["losses"][0] == pytest.approx(math.log(2))
    # The logits are 0 and 0: the gradient by them is (-1/2, 1/2), by both biases alike.
    for name in ("body.bias", "head.bias"):
        assert torch.equal(seen["states"][0][name], torch.tensor([1.0, -1.0]))
    assert seen["losses"][1] < seen["losses"][0]
    assert not torch.equal(seen["states"][1]["head.bias"], seen["states"][0]["head.bias"])
    without = probes.training_steps(
        step,
        ["Linear", 2, 2],
        batches,
        state={k: state[k] for k in state if "body" in k},
        learning_rate=0.0,
    )
    assert without["states"][1].keys() == {"body.weight", "body.bias"}


def test_training_steps_leave_gradients_over_and_choose_the_mode_and_the_loss() -> None:
    seen_by_step = []

    def step(model, optimizer, loss_function, x, y):
        seen_by_step.append((model.training, [weight.grad for weight in model.parameters()]))
        optimizer.zero_grad()
        return loss_function(model(x), y).item()

    given = {
        "layers": ["Linear", 2, 2],
        "batches": [(torch.tensor([[1.0, 0.0]]), torch.tensor([1]))],
        "state": {"body.weight": torch.eye(2), "body.bias": torch.zeros(2)},
        "learning_rate": 1.0,
    }
    matrix = torch.tensor([[3.0, 3.0], [0.0, 0.0]])
    seen = probes.training_steps(step, **given, training=False, left_over=2.0, loss_matrix=matrix)
    assert seen["losses"] == [pytest.approx(math.log(2))]
    probes.training_steps(step, **given)
    (first_mode, first_gradients), (second_mode, second_gradients) = seen_by_step
    assert (first_mode, second_mode) == (False, True)
    assert [gradient.unique().tolist() for gradient in first_gradients] == [[2.0], [2.0]]
    assert second_gradients == [None, None]


def test_saved_bytes_count_each_storage_once_and_leave_parameters_out() -> None:
    layer = torch.nn.Linear(4, 8)
    x = torch.ones(16, 4, requires_grad=True)
    counted = saved_bytes(lambda: layer(x).relu(), except_for=layer.parameters())
    assert counted.bytes == (16 * 4 + 16 * 8) * 4
    assert counted.tensors == 2
    assert saved_bytes(lambda: x * x).tensors == 1
    with torch.no_grad():
        assert saved_bytes(lambda: layer(x)).bytes == 0


def test_sigmoid_saves_its_result_and_a_shift_saves_nothing() -> None:
    x = torch.ones(10, requires_grad=True)
    assert saved_bytes(lambda: x - 2).bytes == 0
    assert saved_bytes(lambda: x.sigmoid(), except_for=[x]).bytes == 40


def test_time_ratio_tells_the_slower_one(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0

    def wait(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr("helpers.measuring.time.perf_counter", lambda: now)
    ratio = time_ratio(lambda: wait(0.004), lambda: wait(0.001), seconds=0.2)
    assert ratio.smallest <= ratio.median <= ratio.largest
    assert ratio.median == pytest.approx(4.0)
    assert "times" in str(ratio)


def test_the_first_run_does_not_count_as_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now, takes = 0.0, iter([5.0, 0.1, 0.2, 0.3])

    def run() -> None:
        nonlocal now
        now += next(takes)

    monkeypatch.setattr("helpers.measuring.time.perf_counter", lambda: now)
    assert seconds_of(run, 3) == pytest.approx(0.6)


def test_time_ratio_refuses_senseless_settings() -> None:
    with pytest.raises(ValueError, match="pairs is at least 1"):
        time_ratio(lambda: None, lambda: None, pairs=0)


def test_digits_are_the_whole_test_set() -> None:
    images, labels = digits()
    assert images.shape == (1797, 8, 8)
    assert images.dtype == torch.float32
    assert (images.min(), images.max()) == (0, 16)
    # Counts per digit as the data set's own description lists them.
    assert labels.bincount().tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def test_importing_helpers_pulls_in_nothing_heavy_beyond_torch() -> None:
    heavy = "matplotlib.pyplot", "ipywidgets", "IPython", "jupytext", "nbformat", "nbgrader"
    code = f"import torch, sys; import helpers; print([m for m in {heavy} if m in sys.modules])"
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert found.stdout.strip() == "[]"


def test_a_network_with_tied_and_frozen_parameters() -> None:
    def look(model: torch.nn.Module) -> list:
        return [[name, weight.requires_grad] for name, weight in model.named_parameters()]

    layers = [["Linear", 3, 3], [["Linear", 3, 3, False]]]
    seen = probes.network(look, layers, tied=[("0.weight", "1.0.weight")], frozen=["0.bias"])
    assert seen["output"] == [["0.weight", True], ["0.bias", False]]
    assert torch.equal(seen["state"]["0.weight"], seen["state"]["1.0.weight"])


def test_two_networks_are_trained_in_turn() -> None:
    def step(
        generator: torch.nn.Module,
        discriminator: torch.nn.Module,
        first: torch.optim.SGD,
        second: torch.optim.SGD,
        noise: torch.Tensor,
        real: torch.Tensor,
    ) -> None:
        first.step()
        discriminator.bias.requires_grad_(False)
        discriminator(generator(noise) + real).sum().backward()
        second.step()

    states = [
        {"weight": torch.tensor([[2.0]])},
        {"weight": torch.tensor([[1.0]]), "bias": torch.tensor([0.0])},
    ]
    batches = [(torch.tensor([[3.0]]), torch.tensor([[1.0]]))]
    seen = probes.adversarial_steps(
        step,
        ["Linear", 1, 1, False],
        ["Linear", 1, 1],
        batches,
        states=states,
        learning_rates=[0.5, 0.25],
        left_over=1.0,
        then=[(torch.tensor([[2.0]]), torch.tensor([[1.0]]))] * 2,
        seed=0,
    )
    (state,) = seen["states"]
    assert state["generator"]["weight"].item() == 1.5
    # 1 was left over, and the input 1.5 * 3 + 1 is the gradient.
    weight, bias = 1.0 - 0.25 * (1.0 + 5.5), -0.25
    assert state["discriminator"]["weight"].item() == weight
    assert state["discriminator"]["bias"].item() == bias
    # What is in .grad by then does not count: a rate of 0.5, a gradient of 2 * 1.
    assert seen["then"]["generator"]["next"].item() == 3.0
    assert seen["then"]["generator"]["state"]["weight"].item() == 0.5
    after = seen["then"]["discriminator"]
    assert after["next"].item() == 2 * weight + bias
    assert after["state"]["weight"].item() == weight - 1.0
    assert after["state"]["bias"].item() == bias  # the step has frozen it
    assert states[0]["weight"].item() == 2.0
    assert seen["returned"] == "NoneType"


def test_two_players_may_have_a_learning_rate_for_each_group() -> None:
    def step(*given: object) -> None:
        _, _, *optimizers, _, _ = given
        for optimizer in optimizers:
            optimizer.step()

    state = {"weight": torch.tensor([[1.0]]), "bias": torch.tensor([2.0])}
    given: dict = {"states": [state, state], "left_over": 1.0, "seed": 0}
    given["then"] = [(torch.tensor([[2.0]]), torch.tensor([[1.0]]))] * 2
    batches = [(torch.tensor([[3.0]]), torch.tensor([[1.0]]))]
    layers = ["Linear", 1, 1], ["Linear", 1, 1], batches
    seen = probes.adversarial_steps(step, *layers, learning_rates=[[0.0, 0.5], 0.25], **given)
    ends = {n: [v.item() for v in end.values()] for n, end in seen["states"][0].items()}
    assert ends == {"generator": [1.0, 1.5], "discriminator": [0.75, 1.75]}

    def leaves_it_off(*given: object) -> None:
        torch.set_grad_enabled(False)

    with (
        torch.enable_grad(),
        pytest.raises(FoundFaultError, match="autograd is switched off after"),
    ):
        probes.adversarial_steps(leaves_it_off, *layers, learning_rates=[0.5, 0.25], **given)


def test_what_a_module_saves_is_counted_and_functions_are_named() -> None:
    class Squared(torch.nn.Module):
        def __init__(self, activation: object = None) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(3))
            self.activation = activation

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.weight * (x.clone() if self.activation is torch.exp else x)
            return y if self.activation is None else self.activation(y)

    x, state = torch.tensor([1.0, 2.0, 3.0]), {"weight": torch.tensor([2.0, 2.0, 2.0])}
    seen = probes.saved_by_module(Squared, inputs=[x], state=state)
    assert torch.equal(seen["output"], 2.0 * x)
    assert seen["bytes"] == 0
    copied = probes.saved_by_module(Squared, inputs=[x], state=state, activation=torch.exp)
    assert copied["bytes"] == 24  # the copy, and the result, which exp saves
    assert (seen["peak"], copied["peak"]) == (12, 24)  # the copy is gone when exp begins
    steps = [("load", state), ("call", x)]
    _, got = probes.module(Squared, steps=steps, functions={"activation": "exp"})
    assert torch.equal(got.detach(), (2.0 * x).exp())


def test_a_module_may_keep_more_in_its_state_than_is_loaded() -> None:
    def layer() -> torch.nn.Module:
        made = torch.nn.Linear(2, 1)
        made.register_buffer("count", torch.tensor(3))
        return made

    state = {"weight": torch.ones(1, 2), "bias": torch.zeros(1)}
    _, got = probes.module(layer, steps=[("load", state), ("call", torch.ones(2))])
    assert got.item() == 2.0
    with pytest.raises(AttributeError, match="the module's state has no scale"):
        probes.module(layer, steps=[("load", {**state, "scale": torch.ones(1)})])


def test_a_profile_tells_the_operation_that_takes_longest(capfd: pytest.CaptureFixture) -> None:
    matrix = torch.rand(200, 200)
    shares = time_shares(lambda: (matrix @ matrix @ matrix).sum(), repeats=5)
    assert shares[0].name == "mm"
    assert {share.name: share.calls for share in shares}["mm"] == 2
    assert abs(sum(share.share for share in shares) - 1.0) < 1e-6
    print("still heard", file=sys.stderr)
    assert "profiler" not in capfd.readouterr().err


def test_a_network_calls_layers_in_order_in_a_dtype_and_tells_of_hooks() -> None:
    def use(model: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
        model.get_submodule("0").register_forward_hook(lambda *_: None)
        y = model(x)
        y.sum().backward()
        return y

    x = torch.tensor([[2.0]], dtype=torch.float64)
    layers = [["Linear", 1, 1, False], ["Linear", 1, 1]]
    state = {"0.weight": torch.tensor([[3.0]])}
    seen = probes.network(
        lambda model, x: (model.load_state_dict(state, strict=False), use(model, x))[1],
        layers,
        x,
        order=[0, 0],
        dtype="float64",
    )
    assert seen["output"].item() == 18.0
    assert seen["output"].dtype == torch.float64
    assert (seen["hooks"], seen["gradients"]) == (1, 1)


def test_saved_tensors_that_pile_up_are_counted() -> None:
    batches = [(torch.ones(3, 2), torch.zeros(3, 1)) for _ in range(4)]
    state = {"weight": torch.ones(1, 2), "bias": torch.zeros(1)}

    def piles_up(model: torch.nn.Module, batches: list) -> float:
        return sum((model(x) - y).square().mean() for x, y in batches).item()

    def lets_go(model: torch.nn.Module, batches: list) -> float:
        return sum((model(x) - y).square().mean().item() for x, y in batches)

    layers = ["Linear", 2, 1]
    seen = probes.alive_while_looping(piles_up, layers, batches, state=state)
    assert seen["output"] == 16.0
    assert seen["alive"][0] == 0
    assert seen["alive"][1] < seen["alive"][3]

    seen = probes.alive_while_looping(lets_go, layers, batches, state=state)
    assert seen == {"output": 16.0, "alive": [0, 0, 0, 0]}


def test_saved_tensors_that_pile_up_past_the_network_are_counted() -> None:
    batches = [(torch.ones(3, 2), torch.zeros(3, 1)) for _ in range(4)]
    state = {"0.weight": torch.ones(1, 2), "0.bias": torch.zeros(1)}
    run = {
        "a call": lambda model, x: model(x),
        "its method": lambda model, x: model.forward(x),
        "its layers": lambda model, x: model[1](model[0](x)),
    }

    def alive(way: Callable) -> list[int]:
        def piles_up(model: torch.nn.Module, batches: list) -> float:
            return sum((way(model, x) - y).square().mean() for x, y in batches).item()

        layers = [["Linear", 2, 1], ["Sigmoid"]]
        return probes.alive_while_looping(piles_up, layers, batches, state=state)["alive"]

    assert alive(run["a call"])[3] > 0
    assert alive(run["its method"]) == alive(run["its layers"]) == alive(run["a call"])


def test_gradients_that_are_there_before_a_call_count_afterwards() -> None:
    layers, x, slope = ["Linear", 2, 1, False], torch.ones(1, 2), torch.ones(1, 1)
    given = {"inputs": x, "slope": slope, "seed": 0, "state": {"weight": torch.zeros(1, 2)}}
    for function, expected in (
        (lambda model: None, [[-0.75, -0.75]]),
        (lambda model: model.zero_grad(), [[-0.5, -0.5]]),
    ):
        seen = probes.network_then_trained(function, layers, left_over=0.5, **given)
        assert seen["state"]["weight"].tolist() == expected
