"""Compare what came back with what was expected: exact type, shape, dtype, finiteness, value."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from helpers.apart import FEWEST_DIGITS, bits_apart, digits_apart, tell_apart
from helpers.pattern import pattern_of
from helpers.plain import describe, kind_of, with_article

# Relative and absolute tolerance: a few roundings of the format, not more.
_TOLERANCES = {
    torch.float64: (1e-10, 1e-12),
    torch.float32: (1e-5, 1e-6),
    torch.float16: (4e-3, 1e-4),
    torch.bfloat16: (3e-2, 1e-3),
}
_PYTHON_TOLERANCE = (1e-10, 1e-12)
# More than a description shows.
_MOST_KEYS_SORTED = 100


@dataclass(frozen=True)
class Difference:
    """How one value differs from another.

    Attributes:
        sentence: what differs most: where, what came back, what was expected.
        digits: how many of a number's it takes to see it.
        bits: of what came back and of what was expected, where they explain more; () elsewhere.
        index: of the entry that the sentence tells of, where a tensor had to be right to the last
            bit; () elsewhere.
    """

    sentence: str
    digits: int = FEWEST_DIGITS
    bits: tuple[str, ...] = ()
    index: tuple[int, ...] = ()


def compare(
    got: Any,
    expected: Any,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    where: str = "",
) -> Difference | None:
    """Return how ``got`` differs from ``expected``, or None.

    Types are compared exactly, then device, shape and dtype, then values within
    ``atol + rtol * |expected|``; where ``expected`` is nan or inf, ``got`` must be the same.
    The default tolerances are those of ``expected``'s dtype; integers and booleans are exact.
    """
    if type(got) is not type(expected):
        return _wrong_kind(got, expected, where)
    if isinstance(expected, torch.Tensor):
        return _tensor_difference(got, expected, rtol, atol, where)
    if isinstance(expected, np.ndarray):
        return _array_difference(got, expected, rtol, atol, where)
    if isinstance(expected, dict):
        return _dict_difference(got, expected, rtol, atol, where)
    if isinstance(expected, list | tuple):
        return _sequence_difference(got, expected, rtol, atol, where)
    if isinstance(expected, float):
        return _float_difference(got, expected, rtol, atol, where)
    if got != expected:
        return Difference(f"{_at(where)}{describe(got)} came back, expected {describe(expected)}")
    return None


def _wrong_kind(got: Any, expected: Any, where: str) -> Difference:
    came, wanted = (with_article(kind_of(value)) for value in (got, expected))
    is_one_number = isinstance(got, torch.Tensor | np.ndarray) and got.shape == ()
    mend = ": `.item()` returns a Python number" if is_one_number and _is_number(expected) else ""
    return Difference(f"{_at(where)}{came} came back, expected {wanted}{mend}")


def _is_number(value: Any) -> bool:
    return isinstance(value, bool | int | float | complex)


def _at(where: str) -> str:
    return f"at {where}: " if where else ""


def _tensor_difference(
    got: torch.Tensor,
    expected: torch.Tensor,
    rtol: float | None,
    atol: float | None,
    where: str,
) -> Difference | None:
    if got.device != expected.device:
        came, wanted = (_place(tensor.device) for tensor in (got, expected))
        return Difference(f"{_at(where)}a tensor on {came} came back, expected one on {wanted}")
    if got.shape != expected.shape or got.dtype != expected.dtype:
        return _wrong_kind(got, expected, where)
    if expected.is_meta:  # a shape and a dtype, and no numbers
        return None
    got, expected = got.cpu(), expected.cpu()  # not every device has float64
    if not (expected.is_floating_point() or expected.is_complex()):
        wrong = got != expected
    else:
        default_rtol, default_atol = _TOLERANCES.get(expected.dtype, _PYTHON_TOLERANCE)
        wrong = ~torch.isclose(
            got.to(torch.complex128 if got.is_complex() else torch.float64),
            expected.to(torch.complex128 if got.is_complex() else torch.float64),
            rtol=default_rtol if rtol is None else rtol,
            atol=default_atol if atol is None else atol,
            equal_nan=True,
        )
    if not wrong.any():
        return None
    is_exact = rtol == 0.0 and atol == 0.0
    return _worst_element(got, expected, wrong, where, is_exact)


def _place(device: torch.device) -> str:
    return "the CPU" if device.type == "cpu" else str(device)


def _worst_element(
    got: torch.Tensor, expected: torch.Tensor, wrong: torch.Tensor, where: str, is_exact: bool
) -> Difference:
    # A nan or an inf where none belongs says more than the largest gap between two numbers.
    gap = torch.zeros(got.shape, dtype=torch.float64, device="cpu")
    # Not every torch picks elements of an 8-bit format.
    gap[wrong] = (got.to(torch.complex128) - expected.to(torch.complex128))[wrong].abs()
    gap[wrong & ~torch.isfinite(gap)] = torch.inf
    index = tuple(int(i) for i in np.unravel_index(int(gap.argmax()), got.shape))
    place = f"{where}[{', '.join(map(str, index))}]" if index else where
    count = ""
    if got.numel() > 1:
        pattern = pattern_of(got, expected)
        told = f": {pattern}" if pattern else ""
        among = f" of {where}" if where else ""  # one tensor of several
        count = f"{int(wrong.sum())} of {got.numel()} values{among} differ{told}; "
    found = _numbers_differ(count + _at(place), got[index].item(), expected[index].item())
    if not is_exact:
        return found
    bits = bits_apart(got[index], expected[index])
    return replace(found, bits=bits or (), index=() if where else index)


def _numbers_differ(before: str, got: Any, expected: Any) -> Difference:
    came, wanted = tell_apart(got, expected)
    sentence = f"{before}{came} came back, expected {wanted}"
    return Difference(sentence, digits_apart(got, expected))


def _array_difference(
    got: np.ndarray, expected: np.ndarray, rtol: float | None, atol: float | None, where: str
) -> Difference | None:
    if got.shape != expected.shape or got.dtype != expected.dtype:
        return _wrong_kind(got, expected, where)
    as_tensors = (torch.from_numpy(np.ascontiguousarray(array)) for array in (got, expected))
    return _tensor_difference(*as_tensors, rtol, atol, where)


def _float_difference(
    got: float, expected: float, rtol: float | None, atol: float | None, where: str
) -> Difference | None:
    rtol = _PYTHON_TOLERANCE[0] if rtol is None else rtol
    atol = _PYTHON_TOLERANCE[1] if atol is None else atol
    both_nan = math.isnan(got) and math.isnan(expected)
    if both_nan or got == expected:
        return None
    if math.isfinite(expected) and abs(got - expected) <= atol + rtol * abs(expected):
        return None
    return _numbers_differ(_at(where), got, expected)


def _dict_difference(
    got: dict, expected: dict, rtol: float | None, atol: float | None, where: str
) -> Difference | None:
    if got.keys() != expected.keys():
        return Difference(
            f"{_at(where)}a dict with the keys {_describe_keys(got)} came back, "
            f"expected the keys {_describe_keys(expected)}"
        )
    for key in expected:
        inside = f"{where}[{key!r}]"
        difference = compare(got[key], expected[key], rtol=rtol, atol=atol, where=inside)
        if difference:
            return difference
    return None


def _describe_keys(value: dict) -> str:
    return describe(sorted(itertools.islice(value, _MOST_KEYS_SORTED), key=describe))


def _sequence_difference(
    got: list | tuple,
    expected: list | tuple,
    rtol: float | None,
    atol: float | None,
    where: str,
) -> Difference | None:
    if len(got) != len(expected):
        items = "1 item" if len(got) == 1 else f"{len(got)} items"
        return Difference(f"{_at(where)}{items} came back, expected {len(expected)}")
    for index, (one, other) in enumerate(zip(got, expected, strict=True)):
        inside = f"{where}[{index}]"
        difference = compare(one, other, rtol=rtol, atol=atol, where=inside)
        if difference:
            return difference
    return None
