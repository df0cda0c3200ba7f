"""The most bytes of tensors at one moment: counted by hand, and not to be cheated."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch.utils.checkpoint import checkpoint

from helpers import peak_bytes

KIB = 256  # float32 numbers in 1,024 bytes


def test_what_is_gone_does_not_count() -> None:
    def function() -> None:
        for _ in range(5):
            torch.ones(KIB)

    assert peak_bytes(function) == 1024


def test_what_is_held_counts() -> None:
    held = []
    assert peak_bytes(lambda: held.extend(torch.ones(KIB) for _ in range(3))) == 3 * 1024


def test_views_share_a_storage_and_count_once() -> None:
    def function() -> torch.Tensor:
        x = torch.ones(4, KIB)
        return x[0] + x.view(-1)[:KIB] + x.T[:, 1]

    assert peak_bytes(function) == 4 * 1024 + 2 * 1024


def test_what_was_there_counts_from_its_first_use_unless_it_is_left_out() -> None:
    x = torch.ones(KIB)
    assert peak_bytes(lambda: None) == 0
    assert peak_bytes(lambda: x.add_(1)) == 1024
    assert peak_bytes(lambda: x.add_(1), except_for=[x]) == 0
    assert peak_bytes(lambda: x.sum()) == 1024 + 4


def test_the_way_back_is_counted() -> None:
    weight = torch.ones(KIB, requires_grad=True)

    def function() -> None:
        (weight.sin() * 2).sum().backward()

    # The way there holds sin's result beside its double; the way back holds two gradients.
    assert 2 * 1024 <= peak_bytes(function, except_for=[weight]) <= 3 * 1024 + 64


def test_checkpointing_needs_less() -> None:
    parts = torch.nn.ModuleList(
        torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Sigmoid())
        for _ in range(8)
    )
    x = torch.ones(512, 64)

    def run(saving: bool) -> None:
        y = x
        for part in parts:
            y = checkpoint(part, y, use_reentrant=False) if saving else part(y)
        y.sum().backward()

    assert peak_bytes(lambda: run(True)) < 0.8 * peak_bytes(lambda: run(False))


@pytest.mark.parametrize(
    "take",
    [
        lambda x: x.detach().numpy().copy(),
        lambda x: np.asarray(x).copy(),
        lambda x: np.from_dlpack(x).copy(),
        lambda x: x.tolist(),
        lambda x: pickle.dumps(x),
        lambda x: x.untyped_storage().clone(),
        lambda x: x.untyped_storage().tolist(),
        lambda x: pickle.dumps(x.untyped_storage()),
        lambda x: torch.save(x.untyped_storage(), io.BytesIO()),
        lambda x: torch.save(x, io.BytesIO()),
    ],
    ids=[
        "numpy",
        "asarray",
        "dlpack",
        "list",
        "pickle",
        "storage",
        "storage-list",
        "storage-pickle",
        "storage-save",
        "save",
    ],
)
def test_what_is_copied_out_of_torch_counts_until_the_end(take: object) -> None:
    def function() -> list:
        return [take(torch.ones(KIB)) for _ in range(4)]

    assert peak_bytes(function) >= 4 * 1024


@pytest.mark.parametrize(
    "save",
    [lambda x: pickle.dumps(x), lambda x: torch.save(x, io.BytesIO())],
    ids=["pickle", "torch"],
)
def test_what_is_saved_counts_once(save: Callable[[torch.Tensor], object]) -> None:
    assert peak_bytes(lambda: save(torch.ones(KIB))) == 2 * 1024


@pytest.mark.parametrize(
    "wrap",
    [
        lambda: torch.from_numpy(np.zeros(KIB, np.float32)),
        lambda: torch.frombuffer(bytearray(1024), dtype=torch.float32),
        lambda: torch.asarray(np.zeros(KIB, np.float32)),
        lambda: torch.from_dlpack(np.zeros(KIB, np.float32)),
    ],
    ids=["from_numpy", "frombuffer", "asarray", "dlpack"],
)
def test_memory_of_others_counts_until_the_end(wrap: object) -> None:
    def function() -> list:
        held = []
        for _ in range(4):
            view = wrap()
            view.copy_(torch.ones(KIB))
            held.append(view.detach().numpy() if hasattr(view, "numpy") else view)
            del view
        return held

    assert peak_bytes(function) >= 4 * 1024


def test_a_buffer_made_beforehand_counts_though_its_views_are_gone() -> None:
    buffer = np.zeros((4, KIB), np.float32)

    def function() -> None:
        for row in buffer:
            torch.from_numpy(row).copy_(torch.ones(KIB))

    assert peak_bytes(function) == 4 * 1024 + 1024


def numpy_window() -> tuple[torch.Tensor, np.ndarray]:
    scratch = torch.zeros(KIB)
    return scratch, scratch.numpy()


def torch_window() -> tuple[torch.Tensor, np.ndarray]:
    window = np.zeros(KIB, np.float32)
    return torch.from_numpy(window), window


def bytes_window() -> tuple[torch.Tensor, bytearray]:
    window = bytearray(4 * KIB)
    return torch.frombuffer(window, dtype=torch.float32), window


@pytest.mark.parametrize("make", [numpy_window, torch_window, bytes_window])
@pytest.mark.parametrize(
    "write",
    [
        lambda scratch, x: scratch.copy_(x),
        lambda scratch, x: torch.mul(x, 2, out=scratch),
        lambda scratch, x: torch._foreach_add_([scratch], [x]),
        lambda scratch, x: scratch.view(2, -1)[1].copy_(x[: KIB // 2]),
    ],
    ids=["copy", "out", "foreach", "a part"],
)
def test_what_is_written_where_others_look_on_counts_each_time(
    make: Callable[[], tuple], write: Callable[[torch.Tensor, torch.Tensor], object]
) -> None:
    x = torch.ones(KIB)
    scratch, window = make()
    kept = []

    def function() -> None:
        for _ in range(8):
            write(scratch, x)
            kept.append(bytes(window))

    assert peak_bytes(function, except_for=[x]) >= 8 * 1024 // 2
    assert len(kept) == 8


def test_what_autograd_adds_where_others_look_on_counts_each_time() -> None:
    weight = torch.ones(KIB, requires_grad=True)
    weight.grad = torch.zeros(KIB)
    window = weight.grad.numpy()

    def function() -> None:
        for _ in range(8):
            (weight * 2).sum().backward()

    assert peak_bytes(function) >= 8 * 1024
    assert window.sum() == 16 * KIB


def test_a_weight_that_nobody_shares_may_be_written_any_number_of_times() -> None:
    x, weight = torch.ones(KIB), torch.zeros(KIB)

    def function() -> None:
        for _ in range(8):
            weight.add_(x)

    assert peak_bytes(function, except_for=[x]) == 1024


def test_a_shared_buffer_that_is_filled_once_counts_once() -> None:
    scratch, _ = numpy_window()
    x = torch.ones(KIB)
    assert peak_bytes(lambda: scratch.copy_(x), except_for=[x]) == 1024


def test_a_small_view_does_not_hide_the_buffer_that_it_begins() -> None:
    buffer = np.zeros(4 * KIB, np.float32)

    def function() -> None:
        torch.from_numpy(buffer[:1]).add_(1)
        torch.from_numpy(buffer).add_(1)

    # Its first four bytes were written twice.
    assert peak_bytes(function) == 4 * 1024 + 4


def test_single_numbers_count_too() -> None:
    x = torch.ones(KIB)
    assert peak_bytes(lambda: [value.item() for value in x], except_for=[x]) == 8 * KIB


def test_all_is_as_before_afterwards() -> None:
    def fails() -> None:
        torch.ones(1)
        raise ValueError("it failed")

    before = {name: vars(torch.Tensor).get(name) for name in ("numpy", "tolist", "__array__")}
    with pytest.raises(ValueError, match="it failed"):
        peak_bytes(fails)
    assert before == {name: vars(torch.Tensor).get(name) for name in before}
    assert torch.ones(2).tolist() == [1.0, 1.0]


def test_it_can_be_asked_inside_of_itself() -> None:
    inner = []

    def function() -> None:
        inner.append(peak_bytes(lambda: torch.ones(KIB)))

    peak_bytes(function)
    assert inner == [1024]
