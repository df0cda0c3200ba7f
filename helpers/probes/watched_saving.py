"""Watch what autograd saves, whatever hooks of their own students' functions use on it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch

# Of several hooks autograd asks the last alone. torch has no public way to be asked beside it.
_push = torch._C._autograd._push_saved_tensors_default_hooks


@contextlib.contextmanager
def saving_watched(note: Callable[[torch.Tensor], Any]) -> Iterator[None]:
    """Call ``note`` with each tensor that autograd saves inside of the body; what it returns is
    kept for as long as autograd keeps the tensor.
    """

    def push(pack: Callable[[torch.Tensor], Any], unpack: Callable[[Any], torch.Tensor]) -> None:
        _push(lambda tensor: (note(tensor), pack(tensor)), lambda kept: unpack(kept[1]))

    with (
        mock.patch.object(torch._C._autograd, _push.__name__, push),
        torch.autograd.graph.saved_tensors_hooks(torch.Tensor.detach, lambda tensor: tensor),
    ):
        yield
