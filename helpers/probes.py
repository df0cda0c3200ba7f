"""Probes: drive a student's function and return plain data that tells what it did.

A probe runs beside the student's code, so what it returns is evidence, not a verdict: outputs,
gradients, states. Judging them is the test cell's part.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode


def gradient(
    function: Callable[..., torch.Tensor],
    *args: Any,
    wrt: int = 0,
    grad_output: torch.Tensor | None = None,
    **kwargs: Any,
) -> dict[str, Any]:
    """Run ``function`` forward and backward.

    Args:
        function: returns one tensor.
        *args: its arguments.
        wrt: the position of the argument, a floating-point tensor, to differentiate by.
        grad_output: the gradient of the loss by the output, of the output's shape; ones if None.
        **kwargs: its keyword arguments.

    Returns:
        ``{"output": tensor, "gradient": tensor}``; the gradient is None where the output does
        not depend on the argument.
    """
    arguments = list(args)
    leaf = arguments[wrt].detach().clone().requires_grad_(True)
    arguments[wrt] = leaf
    output = function(*arguments, **kwargs)
    if grad_output is None:
        grad_output = torch.ones_like(output)
    (grad,) = torch.autograd.grad(output, leaf, grad_outputs=grad_output, allow_unused=True)
    return {"output": output.detach(), "gradient": grad}


def after_call(function: Callable, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """Call ``function`` and return ``{"output": ..., "arguments": [...]}``: the positional
    arguments as they are after the call.
    """
    output = function(*args, **kwargs)
    return {"output": output, "arguments": list(args)}


def operators(function: Callable, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """Call ``function`` and return ``{"output": ..., "operators": [...]}``: the sorted names of
    the ATen operators that it ran, without namespace and overload ("exp", "_softmax").
    """
    recorder = _OperatorRecorder()
    with recorder:
        output = function(*args, **kwargs)
    return {"output": output, "operators": sorted(recorder.names)}


def functions(function: Callable, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """Call ``function`` and return ``{"output": ..., "functions": [...]}``: the sorted names of
    the functions and tensor methods of torch that it called ("exp", "grad", "requires_grad_").
    """
    recorder = _FunctionRecorder()
    with recorder:
        output = function(*args, **kwargs)
    return {"output": output, "functions": sorted(recorder.names)}


class _FunctionRecorder(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_function__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        self.names.add(getattr(func, "__name__", str(func)))
        return func(*args, **(kwargs or {}))


class _OperatorRecorder(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        self.names.add(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))
