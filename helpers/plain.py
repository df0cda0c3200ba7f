"""Plain data: the only thing that passes between a student's code and a check.

Tensors, arrays, numbers, strings, None, and lists, tuples and dicts of them. A copy is taken of
everything that passes, and the copy has these exact types, so that nothing a check judges can
change behind its back or answer for itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

_MOST_ELEMENTS_SHOWN = 24
_MOST_CHARACTERS = 400


class NotPlainError(TypeError):
    """A value that cannot pass between a student's code and a check."""


def plain_copy(value: Any) -> Any:
    """Return a copy of ``value`` that shares no memory with it.

    Tensors come back detached, as exact ``torch.Tensor``, on their own device; a ``Parameter``
    counts as a tensor. A NumPy scalar becomes the Python value of its kind, and an instance of a
    subclass becomes its base class: a ``namedtuple`` becomes a tuple, an ``IntEnum`` an int. A bool
    stays a bool and an int stays an int, because a check tells ``True``, 1 and 1.0 apart.

    Raises:
        NotPlainError: if ``value``, or something inside it, is not plain data.
    """
    kind = type(value)
    if value is None or kind is bool:
        return value
    for base, convert in _CONVERSIONS:
        if issubclass(kind, base):
            return convert(value)
    if kind is torch.Tensor or kind is torch.nn.Parameter:
        return _copy_tensor(value)
    if kind is np.ndarray:
        return value.copy()
    for number, convert in _NUMBERS_OF_NUMPY:
        if kind is number:
            return convert(value)
    raise NotPlainError(
        f"a value of type {kind.__module__}.{kind.__qualname__} is not plain data "
        "(tensors, arrays, numbers, strings, and lists, tuples and dicts of them)"
    )


def _copy_list(value: list) -> list:
    return [plain_copy(item) for item in list.__iter__(value)]


def _copy_tuple(value: tuple) -> tuple:
    return tuple([plain_copy(item) for item in tuple.__iter__(value)])


def _copy_dict(value: dict) -> dict:
    return {_plain_key(key): plain_copy(item) for key, item in dict.items(value)}


def _plain_key(key: Any) -> Any:
    if isinstance(key, int | str | np.integer | np.bool_):
        copy = plain_copy(key)
        if type(copy) in (int, str, bool):
            return copy
    raise NotPlainError(f"a dict's key must be a string or an integer, not {type(key).__name__}")


def _copy_tensor(value: torch.Tensor) -> torch.Tensor:
    if value.is_nested:
        raise NotPlainError("a nested tensor is not plain data; return a list of tensors")
    if value.layout is not torch.strided:
        raise NotPlainError("a sparse tensor is not plain data; return what `.to_dense()` gives")
    if value.is_quantized:
        raise NotPlainError(
            "a quantized tensor is not plain data; return what `.dequantize()` gives"
        )
    return torch.Tensor.detach(value).clone()


# The base class's own method converts, so no method that a subclass overrides is ever called.
_CONVERSIONS: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    (float, float.__float__),
    (int, int.__int__),
    (str, str.__str__),
    (list, _copy_list),
    (tuple, _copy_tuple),
    (dict, _copy_dict),
    (complex, complex.__pos__),
)


def _find_numbers_of_numpy() -> list[tuple[type, type]]:
    kinds = (
        (np.bool_, bool),
        (np.integer, int),
        (np.floating, float),
        (np.complexfloating, complex),
    )
    return [
        (number, python)
        for number in set(np.sctypeDict.values())
        for base, python in kinds
        # A span of time is a signed integer to NumPy, and to nobody else.
        if issubclass(number, base) and number is not np.timedelta64
    ]


_NUMBERS_OF_NUMPY = _find_numbers_of_numpy()


def describe(value: Any) -> str:
    """Return one line that tells what ``value`` is: short values whole, large ones summarized."""
    return one_line(_describe(value))


def one_line(text: str) -> str:
    """Return ``text`` on one line of readable length, without control characters."""
    words = " ".join(text[: 2 * _MOST_CHARACTERS].split())
    line = "".join(c if c.isprintable() else "�" for c in words)
    return line if len(line) <= _MOST_CHARACTERS else line[:_MOST_CHARACTERS] + "…"


def _describe(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return _describe_tensor(value)
    if isinstance(value, np.ndarray):
        return _describe_array(value)
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, dict):
        items = itertools.islice(value.items(), _MOST_ELEMENTS_SHOWN)
        inside = ", ".join(f"{key}: {_describe(item)}" for key, item in items)
        more = ", …" if len(value) > _MOST_ELEMENTS_SHOWN else ""
        return "{" + inside + more + "}"
    if isinstance(value, list | tuple):
        opening, closing = ("[", "]") if isinstance(value, list) else ("(", ")")
        inside = ", ".join(_describe(item) for item in value[:_MOST_ELEMENTS_SHOWN])
        more = ", …" if len(value) > _MOST_ELEMENTS_SHOWN else ""
        only = "," if isinstance(value, tuple) and len(value) == 1 else ""
        return opening + inside + only + more + closing
    if isinstance(value, str) and len(value) > _MOST_CHARACTERS:
        return repr(value[:_MOST_CHARACTERS])
    return repr(value)


def kind_of(value: Any) -> str:
    """Return the name of a value's type with, for a tensor or array, its dtype and shape; and
    where a tensor is, if not on the CPU.
    """
    if isinstance(value, torch.Tensor):
        place = "" if value.device.type == "cpu" else f" on {value.device}"
        return f"{_dtype_name(value.dtype)} tensor of shape {_shape(value.shape)}{place}"
    if isinstance(value, np.ndarray):
        return f"{value.dtype} array of shape {_shape(value.shape)}"
    return type(value).__name__


def with_article(kind: str) -> str:
    """Return ``kind`` with the article that it takes: "an int", "a float32 tensor"."""
    return f"an {kind}" if kind[:1] in "aeioAEIO" else f"a {kind}"


def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _shape(shape: Any) -> str:
    return "(" + ", ".join(str(size) for size in shape) + ("," if len(shape) == 1 else "") + ")"


def _describe_tensor(tensor: torch.Tensor) -> str:
    try:
        return f"{kind_of(tensor)}: {_describe_values(tensor.detach().cpu())}"
    except RuntimeError:  # it holds no numbers, or none that can be read from here
        return kind_of(tensor)


def _describe_array(array: np.ndarray) -> str:
    try:
        values = torch.from_numpy(np.ascontiguousarray(array))
    except TypeError:
        return f"{kind_of(array)}"
    return f"{kind_of(array)}: {_describe_values(values)}"


def _describe_values(values: torch.Tensor) -> str:
    if values.numel() == 0:
        return "no elements"
    if values.numel() <= _MOST_ELEMENTS_SHOWN:
        return _nested(values.tolist())
    if values.dtype == torch.bool:
        return f"{int(values.sum())} of {values.numel()} are True"
    if values.is_complex():
        return f"{values.numel()} complex numbers"
    numbers = values.double() if values.is_floating_point() else values
    parts = []
    finite = numbers[torch.isfinite(numbers)]
    if finite.numel():
        parts.append(f"from {finite.min().item():.4g} to {finite.max().item():.4g}")
    counts = (
        ("nan", torch.isnan(numbers)),
        ("inf", torch.isposinf(numbers)),
        ("-inf", torch.isneginf(numbers)),
    )
    parts += [f"{int(where.sum())} {name}" for name, where in counts if where.any()]
    return ", ".join(parts)


def _nested(values: Any) -> str:
    if isinstance(values, list):
        return "[" + ", ".join(_nested(value) for value in values) + "]"
    return f"{values:.5g}" if isinstance(values, float) else str(values)
