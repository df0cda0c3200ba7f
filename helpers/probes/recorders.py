"""Probes that listen to which operators or functions of torch are called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from helpers.probes.testimony import testimony


@testimony
def operators(function: Callable, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """Call ``function`` and return ``{"output": ..., "operators": [...], "calls": 3}``: the sorted
    names of the ATen operators that it ran, without namespace and overload ("exp", "_softmax"),
    and how many it ran.
    """
    recorder = _OperatorRecorder()
    with recorder:
        output = function(*args, **kwargs)
    return {"output": output, "operators": sorted(recorder.names), "calls": recorder.calls}


@testimony
def functions(function: Callable, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """Call ``function`` and return ``{"output": ..., "functions": [...]}``: the sorted names of
    the functions and tensor methods of torch that it called ("exp", "grad", "requires_grad_").
    """
    recorder = _FunctionRecorder()
    with recorder:
        output = function(*args, **kwargs)
    return {"output": output, "functions": sorted(recorder.names)}


# What torch can be handed without its calling Python code of somebody's while it works on it. A
# recorder hears nothing then: torch sets a mode aside while the mode's own method runs.
_QUIET = {
    *(torch.Tensor, torch.nn.Parameter, torch.Generator, torch.Size, torch.storage.UntypedStorage),
    *(torch.dtype, torch.device, torch.layout, torch.memory_format, np.ndarray, range),
    *(bool, int, float, complex, str, bytes, type(None), type(Ellipsis)),
    *np.sctypeDict.values(),
}
_QUIET_TYPES = (bool, int, float, complex)
_RETURNED = {kind for kind in vars(torch.return_types).values() if isinstance(kind, type)}
_CONTAINERS = {list, tuple, dict, slice, *_RETURNED}


def _refuse_callbacks(value: Any) -> None:
    kind = type(value)
    if kind in _QUIET or any(value is quiet for quiet in _QUIET_TYPES):
        return
    if kind not in _CONTAINERS:
        raise TypeError(
            f"torch was given an object of the class {kind.__name__}, which the check cannot see "
            "through: pass tensors and numbers"
        )
    if kind is slice:
        inside = [value.start, value.stop, value.step]
    else:
        inside = value.values() if kind is dict else value
    for item in inside:
        _refuse_callbacks(item)


class _FunctionRecorder(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_function__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        self.names.add(getattr(func, "__name__", str(func)))
        _refuse_callbacks((*args, kwargs or {}))
        return func(*args, **(kwargs or {}))


class _OperatorRecorder(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.calls = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        self.names.add(func.overloadpacket.__name__)
        self.calls += 1
        _refuse_callbacks((*args, kwargs or {}))
        return func(*args, **(kwargs or {}))
