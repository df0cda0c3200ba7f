"""What autograd saves and what else is kept is seen, whatever a function does about it."""

from __future__ import annotations

import torch
from torch.autograd.graph import saved_tensors_hooks

from helpers import probes
from helpers.peak_memory import peak_bytes
from helpers.probes.watched_saving import saving_watched

LAYERS = [["Linear", 3, 3], ["Tanh"], ["Linear", 3, 2]]


def state_of_layers() -> dict[str, torch.Tensor]:
    sizes = {"0.weight": (3, 3), "0.bias": (3,), "2.weight": (2, 3), "2.bias": (2,)}
    return {name: torch.randn(*size) for name, size in sizes.items()}


def test_hooks_further_in_are_asked_as_well_and_gradients_stay() -> None:
    seen: list[tuple[int, ...]] = []
    x = torch.randn(4, requires_grad=True)
    with saving_watched(lambda tensor: seen.append(tuple(tensor.shape))):
        with saved_tensors_hooks(lambda tensor: tensor.numpy(), torch.from_numpy):
            inside = x.detach().requires_grad_(True).exp()
        outside = x.exp()
    assert seen == [(4,), (4,)]
    assert inside.requires_grad
    outside.sum().backward()
    assert torch.equal(x.grad, x.detach().exp())
    x.exp().sum().backward()
    assert len(seen) == 2, "nothing is watched any more"


def test_graphs_that_pile_up_inside_of_own_hooks_are_counted() -> None:
    def piling(network: torch.nn.Module, batches: list) -> float:
        with saved_tensors_hooks(lambda tensor: tensor, lambda tensor: tensor):
            return sum((network(x) - y).square().sum() for x, y in batches).item()

    batches = [(torch.randn(4, 3), torch.randn(4, 2)) for _ in range(3)]
    state = state_of_layers()
    alive = probes.alive_while_looping(piling, LAYERS, batches, state=state)["alive"]
    assert alive[0] == 0 < alive[1] < alive[2]


class Keeping(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.kept = x.repeat(50, 1)
        return x.exp()

    @staticmethod
    def backward(ctx, slope):
        return slope * ctx.kept[: len(slope)].exp()


class Layer(torch.nn.Module):
    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        self.weight = torch.nn.Parameter(torch.ones(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.how == "kept":
            return Keeping.apply(x * self.weight)
        if self.how == "copied":
            self.copy = x.repeat(50, 1).numpy().copy()
        return x * 2.0


def test_what_a_module_keeps_beside_autograd_counts() -> None:
    def counted(how: str) -> int:
        x = torch.randn(2, 5)
        return probes.saved_by_module(Layer, how, inputs=[x], state={"weight": torch.ones(1)})[
            "bytes"
        ]

    assert counted("nothing") == 0
    assert counted("kept") >= 50 * 2 * 5 * 4
    assert counted("copied") >= 50 * 2 * 5 * 4


def test_work_while_a_tensor_is_shown_counts() -> None:
    def work() -> int:
        torch.zeros(1000).add(1.0)
        return 1

    def shows() -> None:
        shown = torch.zeros(1)
        shown.numel = work
        str(shown)

    assert peak_bytes(shows) >= 4000


def test_passes_wait_while_their_graphs_are_kept() -> None:
    def piling(network: torch.nn.Module, loss_function: object, pairs: list) -> float:
        losses = []
        for x, y in pairs:
            outputs = network(x)
            outputs.backward(torch.zeros_like(outputs), retain_graph=True)
            losses.append(torch.nn.functional.cross_entropy(outputs, y))
        sum(losses).backward()
        return 0.0

    def in_turn(network: torch.nn.Module, loss_function: object, pairs: list) -> float:
        for x, y in pairs:
            torch.nn.functional.cross_entropy(network(x), y).backward()
        return 0.0

    def waiting(function: object) -> int:
        pairs = [(torch.randn(4, 3), torch.tensor([0, 1, 0, 1])) for _ in range(3)]
        given = {"loss_function": "cross_entropy", "state_dict": state_of_layers()}
        return probes.forward_passes(function, LAYERS, pairs, **given)["waiting"]

    assert waiting(piling) == 3
    assert waiting(in_turn) == 1


def test_hooks_of_every_kind_and_runs_of_the_parts_are_told() -> None:
    def leaves(network: torch.nn.Module, x: torch.Tensor) -> None:
        network[0].register_forward_pre_hook(lambda *_: None)
        network[1].register_full_backward_hook(lambda *_: None)
        with torch.no_grad():
            network(x)
        network.forward(x)

    seen = probes.network(leaves, LAYERS, torch.randn(2, 3))
    assert seen["hooks"] == 2
    assert seen["autograd"] == [False, True]
