"""Record when the tensors of a function come and go, without a GPU."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from helpers.peak_memory import _tensors_in


def allocations_of(function: Callable[[], Any]) -> list[list]:
    """Run ``function`` and return what it allocates and frees, in order.

    A tensor that an operator makes is ["+", name, bytes], and ["-", name] when it is gone; tensors
    that share a storage count once. The name is the operator's, with a number. The tensors may be
    on the device "meta", which has shapes and no memory. What is still there at the end is not
    freed. The temporary memory of operators is not recorded.
    """
    recorder = _Recorder()
    with recorder:
        result = function()
    trace = list(recorder.trace)
    del result
    return trace


def trace_of_snapshot(snapshot: dict, *, device: int = 0) -> list[list]:
    """Return what a card's tensors allocated and freed, in the form of :func:`allocations_of`.

    Args:
        snapshot: what ``torch.cuda.memory._snapshot()`` returns, or a file of ``_dump_snapshot``
            holds, after ``_record_memory_history()``.
        device: the card's number.

    Frees of what was allocated before the recording are left out.
    """
    trace: list[list] = []
    names: dict[int, str] = {}
    count = 0
    for event in snapshot["device_traces"][device]:
        address = event["addr"]
        if event["action"] == "alloc" and event["size"]:
            count += 1
            names[address] = str(count)
            trace.append(["+", names[address], event["size"]])
        elif event["action"] == "free_completed" and address in names:
            trace.append(["-", names.pop(address)])
    return trace


class _Recorder(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.trace: list[list] = []
        self._known: dict[int, weakref.ref] = {}

    def __torch_dispatch__(
        self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        for tensor in _tensors_in((args, kwargs)):
            storage = tensor.untyped_storage()
            self._known.setdefault(storage._cdata, weakref.ref(storage))
        result = func(*args, **(kwargs or {}))
        for tensor in _tensors_in(result):
            self._note(func, tensor)
        return result

    def _note(self, func: Any, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        address, size = storage._cdata, storage.nbytes()
        known = self._known.get(address)
        if size == 0 or (known is not None and known() is not None):
            return
        name = f"{func.overloadpacket.__name__} {len(self.trace)}"

        def gone(reference: weakref.ref) -> None:
            self.trace.append(["-", name])
            if self._known.get(address) is reference:
                del self._known[address]

        self._known[address] = weakref.ref(storage, gone)
        self.trace.append(["+", name, size])
