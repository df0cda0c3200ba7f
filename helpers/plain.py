"""Plain data: the only thing that passes between a student's code and a check.

Tensors, arrays, numbers, strings, None, and lists, tuples and dicts of them. A copy is taken of
everything that passes, and the copy has these exact types, so that nothing a check judges can
change behind its back or answer for itself.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

# More than anybody means: lists in lists, values in all of them together, axes of a tensor.
MOST_LEVELS = 100
MOST_DIMENSIONS = 32
_MOST_VALUES = 1_000_000
_MOST_ELEMENTS_SHOWN = 24
_MOST_CHARACTERS = 400
_MOST_BITS_SHOWN = 1024
# How many elements are looked at together: what that takes beside them is a few of these.
_ELEMENTS_AT_ONCE = 2**20
_COLOR = re.compile(r"\x1b\[[0-9;]*m")
# A new line with its indent, or a tab; spaces alone may be part of a value that is told.
_BREAK = re.compile(r" *[^\S ]\s*")


class NotPlainError(TypeError):
    """A value that cannot pass between a student's code and a check."""


def plain_copy(value: Any) -> Any:
    """Return a copy of ``value`` that shares no memory with it.

    Tensors come back detached, as exact ``torch.Tensor``, on their own device; a ``Parameter``
    counts as a tensor. A NumPy scalar becomes the Python value of its kind, and an instance of a
    subclass becomes its base class: a ``namedtuple`` becomes a tuple, an ``IntEnum`` an int. A bool
    stays a bool and an int stays an int, because a check distinguishes ``True``, 1 and 1.0.

    Raises:
        NotPlainError: if ``value``, or something inside it, is not plain data, or there is too
            much of it: lists within lists have no more than ``MOST_LEVELS`` levels, tensors no
            more than ``MOST_DIMENSIONS`` dimensions, and all of it a million values.
    """
    return _Copier().copy(value)


class _Copier:
    """Makes one copy, and counts what goes into it."""

    def __init__(self) -> None:
        self._level = 0
        self._values = 0

    def copy(self, value: Any) -> Any:
        kind = type(value)
        if value is None or kind is bool:
            return value
        for base, convert in _CONVERSIONS:
            if issubclass(kind, base):
                return convert(value)
        for base, copy_inside in _CONTAINERS:
            if issubclass(kind, base):
                return self._enter(value, base, copy_inside)
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

    def _enter(self, value: Any, base: type, copy_inside: Callable[[Any, Any], Any]) -> Any:
        self._level += 1
        self._values += base.__len__(value)
        if self._level > MOST_LEVELS:
            raise NotPlainError(f"it has more than {MOST_LEVELS} levels, one inside another")
        if self._values > _MOST_VALUES:
            raise NotPlainError(f"it holds more than {_MOST_VALUES} values outside of tensors")
        copied = copy_inside(value, self.copy)
        self._level -= 1
        return copied


def _copy_list(value: list, copy: Callable[[Any], Any]) -> list:
    return [copy(item) for item in list.__iter__(value)]


def _copy_tuple(value: tuple, copy: Callable[[Any], Any]) -> tuple:
    return tuple([copy(item) for item in tuple.__iter__(value)])


def _copy_dict(value: dict, copy: Callable[[Any], Any]) -> dict:
    return {_plain_key(key): copy(item) for key, item in dict.items(value)}


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
    if torch.Tensor.dim(value) > MOST_DIMENSIONS:
        raise NotPlainError(f"it holds a tensor of more than {MOST_DIMENSIONS} dimensions")
    return torch.Tensor.detach(value).clone()


# The base class's own method converts, so no method that a subclass overrides is ever called.
_CONVERSIONS: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    (float, float.__float__),
    (int, int.__int__),
    (str, str.__str__),
    (complex, complex.__pos__),
)
_CONTAINERS: tuple[tuple[type, Callable[[Any, Callable], Any]], ...] = (
    (list, _copy_list),
    (tuple, _copy_tuple),
    (dict, _copy_dict),
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


def describe(value: Any, digits: int | None = None) -> str:
    """Return one line that says what ``value`` is: short values whole, large ones summarized.

    ``digits`` is how many of a number count; without it, six of one and five of one in a tensor.
    """
    text = ""
    for piece in _pieces(value, digits):
        text += piece
        if len(text) > 2 * _MOST_CHARACTERS:  # what follows would not be shown
            break
    return one_line(text)


def one_line(text: str) -> str:
    """Return ``text`` on one line of readable length, without colors and control characters."""
    words = _BREAK.sub(" ", _COLOR.sub("", text[: 2 * _MOST_CHARACTERS])).strip()
    line = "".join(c if c.isprintable() else "�" for c in words)
    return line if len(line) <= _MOST_CHARACTERS else line[:_MOST_CHARACTERS] + "…"


def _pieces(value: Any, digits: int | None, level: int = 0) -> Iterator[str]:
    """Give the description of ``value`` bit by bit: nobody walks over more than is shown."""
    if level > MOST_LEVELS:
        yield "…"
    elif isinstance(value, dict):
        items = itertools.islice(value.items(), _MOST_ELEMENTS_SHOWN)
        for number, (key, item) in enumerate(items):
            yield (", " if number else "{") + f"{_text_of_key(key)}: "
            yield from _pieces(item, digits, level + 1)
        yield ("" if value else "{") + (", …}" if len(value) > _MOST_ELEMENTS_SHOWN else "}")
    elif isinstance(value, list | tuple):
        opening, closing = ("[", "]") if isinstance(value, list) else ("(", ")")
        yield opening
        for number, item in enumerate(value[:_MOST_ELEMENTS_SHOWN]):
            yield ", " if number else ""
            yield from _pieces(item, digits, level + 1)
        only = "," if isinstance(value, tuple) and len(value) == 1 else ""
        yield only + (", …" if len(value) > _MOST_ELEMENTS_SHOWN else "") + closing
    else:
        text = _describe_one(value, digits)
        # A list of sizes or axes may be wrong for nothing but that these are floats.
        is_like_int = level > 0 and isinstance(value, float) and text.lstrip("-").isdigit()
        yield f"{text}.0" if is_like_int else text


def _text_of_key(key: Any) -> str:
    return key[:_MOST_CHARACTERS] if isinstance(key, str) else _describe_one(key)


def _describe_one(value: Any, digits: int | None = None) -> str:
    if isinstance(value, torch.Tensor):
        return _describe_tensor(value, digits or 5)
    if isinstance(value, np.ndarray):
        return _describe_array(value, digits or 5)
    if isinstance(value, float):
        return f"{value:.{digits or 6}g}"
    if isinstance(value, int) and value.bit_length() > _MOST_BITS_SHOWN:
        # Python takes the square of their number for the digits, or refuses to write them.
        return f"(an integer of {value.bit_length()} bits)"
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
        return f"{one_line(str(value.dtype))} array of shape {_shape(value.shape)}"
    return "None" if value is None else type(value).__name__


def with_article(kind: str) -> str:
    """Return ``kind`` with the article that it takes: "an int", "a float32 tensor", "None"."""
    if kind == "None":
        return kind
    return f"an {kind}" if kind[:1] in "aeioAEIO" else f"a {kind}"


def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _shape(shape: Any) -> str:
    return "(" + ", ".join(str(size) for size in shape) + ("," if len(shape) == 1 else "") + ")"


def _describe_tensor(tensor: torch.Tensor, digits: int) -> str:
    try:
        return f"{kind_of(tensor)}: {_describe_values(tensor.detach().cpu(), digits)}"
    except RuntimeError:  # it holds no numbers, or none that can be read from here
        return kind_of(tensor)


def _describe_array(array: np.ndarray, digits: int) -> str:
    try:
        values = torch.from_numpy(np.ascontiguousarray(array))
    except (TypeError, ValueError):  # of texts or objects, or its bytes in another order
        return kind_of(array)
    return f"{kind_of(array)}: {_describe_values(values, digits)}"


def _describe_values(values: torch.Tensor, digits: int) -> str:
    if values.numel() == 0:
        return "no elements"
    if values.numel() <= _MOST_ELEMENTS_SHOWN:
        return _nested(values.tolist(), digits)
    if values.dtype == torch.bool:
        return f"{int(values.sum())} of {values.numel()} are True"
    if values.is_complex():
        return f"{values.numel()} complex numbers"
    return _describe_range(values, digits)


# Torch stores these and computes next to nothing with them.
_BARE_INTEGERS = (torch.uint16, torch.uint32, torch.uint64)


def _describe_range(values: torch.Tensor, digits: int) -> str:
    lowest, highest = math.inf, -math.inf
    odd = {"nan": 0, "inf": 0, "-inf": 0}
    for part in values.reshape(-1).split(_ELEMENTS_AT_ONCE):
        is_short_of_functions = part.dtype in _BARE_INTEGERS
        numbers = part.double() if part.is_floating_point() or is_short_of_functions else part
        finite = numbers[torch.isfinite(numbers)]
        if finite.numel():
            lowest = min(lowest, finite.min().item())
            highest = max(highest, finite.max().item())
        if finite.numel() < numbers.numel():
            odd["nan"] += int(torch.isnan(numbers).sum())
            odd["inf"] += int(torch.isposinf(numbers).sum())
            odd["-inf"] += int(torch.isneginf(numbers).sum())
    parts = (
        [f"from {lowest:.{digits - 1}g} to {highest:.{digits - 1}g}"] if lowest <= highest else []
    )
    return ", ".join(parts + [f"{count} {name}" for name, count in odd.items() if count])


def _nested(values: Any, digits: int) -> str:
    if isinstance(values, list):
        return "[" + ", ".join(_nested(value, digits) for value in values) + "]"
    return f"{values:.{digits}g}" if isinstance(values, float) else str(values)
