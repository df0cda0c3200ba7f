"""What a student's function may leave changed in its process, and how it is put back.

One exercise must not spoil the next: a default dtype that stays changed does that, and so does a
context that was entered and, because of an exception, never left.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import overrides
from torch.utils import _device, _python_dispatch

_DEVICES_OF_REGIONS = ("cpu", "cuda")


def _read_regions() -> tuple:
    """Return how many autocast regions are open, and what holds on each device."""
    on_devices = [
        (torch.is_autocast_enabled(device), torch.get_autocast_dtype(device))
        for device in _DEVICES_OF_REGIONS
    ]
    return _count_regions(), on_devices, torch.is_autocast_cache_enabled()


def _count_regions() -> int:
    torch.autocast_increment_nesting()
    return torch.autocast_decrement_nesting()


def _put_back_regions(before: tuple) -> None:
    count, on_devices, keeps_casts = before
    for _ in range(_count_regions() - count):
        torch.autocast_decrement_nesting()
    torch.clear_autocast_cache()  # as a region does at its end
    for device, (is_enabled, dtype) in zip(_DEVICES_OF_REGIONS, on_devices, strict=True):
        torch.set_autocast_enabled(device, is_enabled)
        torch.set_autocast_dtype(device, dtype)
    torch.set_autocast_cache_enabled(keeps_casts)


# Never equal to another, and so always put back: a student's mode may claim to equal every mode.
@dataclass(frozen=True, eq=False)
class _Modes:
    """The modes that torch's functions pass through; a default device is one of them."""

    stack: tuple[Any, ...]
    device: torch.device | None
    default: Any


# torch has no public way to leave a mode that somebody else has entered. `get_default_device` may
# make a tensor on the device, which initializes CUDA, and fails where there is no such device.
def _read_modes() -> _Modes:
    stack = tuple(overrides._get_current_function_mode_stack())
    default = getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)
    return _Modes(stack, _device.CURRENT_DEVICE, default)


def _put_back_modes(before: _Modes) -> None:
    while torch._C._len_torch_function_stack():
        overrides._pop_mode()
    for mode in before.stack:
        overrides._push_mode(mode)
    _device.CURRENT_DEVICE = before.device
    if before.default is not None:
        torch._GLOBAL_DEVICE_CONTEXT.device_context = before.default
    elif hasattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context"):
        del torch._GLOBAL_DEVICE_CONTEXT.device_context  # torch 2.4 takes None for a device


def _leave_operator_modes(before: int) -> None:
    # The list holds them: torch 2.9 frees a mode that nobody else holds, and then returns it.
    for _ in _python_dispatch._get_current_dispatch_mode_stack()[before:]:
        _python_dispatch._pop_mode()


def _find_saving_hooks() -> Any:
    find = getattr(torch._C._autograd, "_top_saved_tensors_default_hooks", None)
    return find and find(True)  # torch 2.4 has no way to ask


def _leave_saving_hooks(before: Any) -> None:
    while (top := _find_saving_hooks()) is not None and top != before:
        torch._C._autograd._pop_saved_tensors_default_hooks()


# How each part of the state is read, and how it is put back. Only what has changed is put back:
# some of these import a large part of torch when they are first called.
_PARTS: tuple[tuple[Callable[[], Any], Callable[[Any], Any]], ...] = (
    (np.geterr, lambda errors: np.seterr(**errors)),
    (_read_modes, _put_back_modes),
    (torch._C._len_torch_dispatch_stack, _leave_operator_modes),
    (_read_regions, _put_back_regions),
    (_find_saving_hooks, _leave_saving_hooks),
    (torch.get_default_dtype, torch.set_default_dtype),
    (torch.is_grad_enabled, torch.set_grad_enabled),
    (torch.is_anomaly_enabled, torch.autograd.set_detect_anomaly),
    (
        lambda: (
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
        ),
        lambda both: torch.use_deterministic_algorithms(both[0], warn_only=both[1]),
    ),
    (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
)


@contextlib.contextmanager
def state_kept() -> Iterator[None]:
    """Put the process's state, the current folder included, back as it was before the body."""
    folder = "."
    with contextlib.suppress(OSError):  # the folder may be gone, before or after
        folder = os.getcwd()
    before = [read() for read, _ in _PARTS]
    try:
        yield
    finally:
        for value, (read, put_back) in zip(before, _PARTS, strict=True):
            if read() != value:
                put_back(value)
        with contextlib.suppress(OSError):
            os.chdir(folder)


def leave_modes() -> None:
    """Leave all modes of torch but a default device, and hooks on what autograd saves: those that a
    cell has entered and not left would see, and could change, what a check does.
    """
    seen = _read_modes()
    kept = tuple(mode for mode in seen.stack if type(mode) is _device.DeviceContext)
    _put_back_modes(_Modes(kept, seen.device, seen.default))
    _leave_operator_modes(0)
    _leave_saving_hooks(None)


@dataclass(frozen=True)
class _Defaults:
    dtype: torch.dtype
    modes: _Modes


# What held where ``course_defaults`` was entered; None outside it.
_students: ContextVar[_Defaults | None] = ContextVar("_students", default=None)


@contextlib.contextmanager
def course_defaults() -> Iterator[None]:
    """Let the body make float32 tensors on the CPU, whatever default dtype and device a cell of the
    notebook has set.
    """
    stack = [mode for mode in _read_modes().stack if not isinstance(mode, _device.DeviceContext)]
    own = _Defaults(torch.float32, _Modes(tuple(stack), None, None))
    with _defaults(own, _Defaults(torch.get_default_dtype(), _read_modes())):
        yield


@contextlib.contextmanager
def students_defaults() -> Iterator[None]:
    """Let the body, which runs a student's code inside ``course_defaults``, have the defaults that
    hold outside it. Elsewhere nothing changes.
    """
    students = _students.get()
    if students is None:
        yield
        return
    devices = [m for m in students.modes.stack if isinstance(m, _device.DeviceContext)]
    stack = (*devices, *_read_modes().stack)
    modes = _Modes(stack, students.modes.device, students.modes.default)
    with _defaults(_Defaults(students.dtype, modes), None):
        yield


@contextlib.contextmanager
def _defaults(held: _Defaults, students: _Defaults | None) -> Iterator[None]:
    before = _Defaults(torch.get_default_dtype(), _read_modes())
    token = _students.set(students)
    _put_back_defaults(held)
    try:
        yield
    finally:
        _put_back_defaults(before)
        _students.reset(token)


def _put_back_defaults(before: _Defaults) -> None:
    torch.set_default_dtype(before.dtype)
    _put_back_modes(before.modes)
