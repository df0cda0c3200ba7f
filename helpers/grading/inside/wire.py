"""Messages between the judge and a student's process: JSON for the structure, safetensors for
tensors and arrays. Nothing on this wire is ever executed, and what arrives is checked.

A message is a dict of plain data (see ``helpers.plain``); beyond it, ``Name`` and ``Probe`` stand
for a function that the receiver has under that name, and ``Lent`` for one that the sender keeps and
will be asked for (see ``helpers.lending``). A frame is two lengths, then the JSON, then
the tensors.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import safetensors.torch
import torch

MOST_JSON_BYTES = 4 * 2**20
MOST_TENSOR_BYTES = 32 * 2**20
# What describes tensors stands before them: a tensor that holds nothing takes memory all the same.
_MOST_TENSORS_HEADER_BYTES = 2**20
_LARGEST_SIZE = 2**31
HEADER = struct.Struct("<II")
_LARGEST_JSON_INTEGER = 2**53
_MOST_INTEGER_DIGITS = 10_000


class WireError(ValueError):
    """A value that does not go on the wire, or bytes that are no message; the text says why."""


@dataclass(frozen=True)
class Name:
    """A name in the student's notebook: "softmax"."""

    name: str


@dataclass(frozen=True)
class Probe:
    """A function of ``helpers.probes``: "gradient"."""

    name: str


@dataclass(frozen=True)
class Lent:
    """What stays with the judge: a "function" or a "stream", by its number in the call."""

    number: int
    kind: str
    name: str


def encode(message: dict[str, Any]) -> bytes:
    """Return ``message`` as a frame.

    Raises:
        WireError: something in it is not plain data, or there is too much of it.
    """
    tensors: dict[str, torch.Tensor] = {}
    try:
        text = json.dumps(_encode(message, tensors)).encode()
        blob = safetensors.torch.save(tensors) if tensors else b""
    except WireError:
        raise
    except Exception as error:  # a tensor of a kind that safetensors does not know, a deep list
        raise WireError(f"it cannot be passed on ({type(error).__name__})") from error
    if len(text) > MOST_JSON_BYTES or len(blob) > MOST_TENSOR_BYTES or _has_too_many(blob):
        raise WireError(
            f"it is too much: more than {MOST_TENSOR_BYTES // 2**20} MiB of numbers in tensors, "
            f"or {MOST_JSON_BYTES // 2**20} MiB of other values"
        )
    return HEADER.pack(len(text), len(blob)) + text + blob


def lengths(header: bytes) -> tuple[int, int]:
    """Return how many bytes of JSON and of tensors follow ``header``.

    Raises:
        WireError: they are more than a message may have.
    """
    text, blob = HEADER.unpack(header)
    if text > MOST_JSON_BYTES or blob > MOST_TENSOR_BYTES:
        raise WireError("the message is longer than a message may be")
    return text, blob


def decode(text: bytes, blob: bytes, *, keep_strides: bool = False) -> dict[str, Any]:
    """Return the message in a frame's two parts.

    Args:
        text: the JSON.
        blob: the tensors.
        keep_strides: whether tensors are laid out as the sender says; only for a trusted sender.

    Raises:
        WireError: it is no message.
    """
    try:
        if _has_too_many(blob):
            raise WireError("there are too many tensors")
        tensors = safetensors.torch.load(blob) if blob else {}
        message = _Decoder(tensors, keep_strides).decode(json.loads(text))
    except Exception as error:  # whatever a hostile sender made json or safetensors raise
        raise WireError(f"the message cannot be read ({type(error).__name__})") from error
    if type(message) is not dict:
        raise WireError("the message is not a dict")
    return message


def _has_too_many(blob: bytes) -> bool:
    return int.from_bytes(blob[:8], "little") > _MOST_TENSORS_HEADER_BYTES


def _encode(value: Any, tensors: dict[str, torch.Tensor]) -> Any:
    kind = type(value)
    if value is None or kind is bool or kind is str:
        return value
    if kind is int:
        return _encode_integer(value)
    if kind is float:
        return value if math.isfinite(value) else {"float": repr(value)}
    if kind is complex:
        return {"complex": [_encode(value.real, tensors), _encode(value.imag, tensors)]}
    if kind is list or kind is tuple:
        return {kind.__name__: [_encode(item, tensors) for item in value]}
    if kind is dict:
        pairs = value.items()
        return {"dict": [[_encode(k, tensors), _encode(item, tensors)] for k, item in pairs]}
    if kind is torch.Tensor:
        return {"tensor": _encode_tensor(value, tensors)}
    if kind is np.ndarray:
        return {"array": _encode_tensor(torch.from_numpy(value.copy()), tensors)}
    if kind is Name or kind is Probe:
        return {kind.__name__.lower(): value.name}
    if kind is Lent:
        return {"lent": [value.number, value.kind, value.name]}
    raise WireError(f"a value of type {kind.__name__} is not plain data")


def _encode_integer(value: int) -> Any:
    if abs(value) <= _LARGEST_JSON_INTEGER:
        return value
    digits = hex(value)
    if len(digits) > _MOST_INTEGER_DIGITS:
        raise WireError("it holds an integer of more than ten thousand hexadecimal digits")
    return {"int": digits}


def _encode_tensor(tensor: torch.Tensor, tensors: dict[str, torch.Tensor]) -> dict[str, Any]:
    if tensor.device.type != "cpu":
        raise WireError(f"a tensor on {tensor.device} came back, expected one on the CPU")
    if tensor.layout is not torch.strided or tensor.is_quantized:
        raise WireError(f"a tensor with layout {tensor.layout} is not plain data")
    about: dict[str, Any] = {"key": str(len(tensors))}
    dense = tensor.detach().resolve_conj().resolve_neg()
    if not dense.is_contiguous():
        # As a copy has them: an expanded tensor becomes one that can be written.
        about["strides"] = list(torch.empty_like(dense).stride())
    if dense.is_complex():
        about["complex"] = True
        dense = torch.view_as_real(dense)
    # A copy, since safetensors refuses tensors that share memory.
    tensors[about["key"]] = dense.clone(memory_format=torch.contiguous_format)
    return about


class _Decoder:
    """Turns parsed JSON back into values; anything unexpected raises."""

    def __init__(self, tensors: dict[str, torch.Tensor], keep_strides: bool) -> None:
        self._tensors = tensors
        self._keep_strides = keep_strides
        self._kinds: dict[str, Callable[[Any], Any]] = {
            "list": self._list,
            "tuple": self._tuple,
            "dict": self._dict,
            "int": self._int,
            "float": self._float,
            "complex": self._complex,
            "name": Name,
            "probe": Probe,
            "lent": lambda parts: Lent(*parts),
            "tensor": self._tensor,
            "array": self._array,
        }

    def decode(self, value: Any) -> Any:
        if value is None or isinstance(value, bool | str | int | float):
            return value
        ((kind, inside),) = value.items()
        return self._kinds[kind](inside)

    def _list(self, items: list) -> list:
        return [self.decode(item) for item in items]

    def _tuple(self, items: list) -> tuple:
        return tuple(self._list(items))

    def _dict(self, pairs: list) -> dict:
        return {self._key(key): self.decode(item) for key, item in pairs}

    def _key(self, encoded: Any) -> Any:
        key = self.decode(encoded)
        if type(key) not in (str, int, bool):
            raise WireError("a dict's key must be a string or an integer")
        return key

    def _int(self, digits: str) -> int:
        if len(digits) > _MOST_INTEGER_DIGITS:
            raise WireError("an integer is too long")
        return int(digits, 16)

    def _float(self, text: str) -> float:
        return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[text]

    def _complex(self, parts: list) -> complex:
        real, imaginary = (float(self.decode(part)) for part in parts)
        return complex(real, imaginary)

    def _array(self, about: dict) -> np.ndarray:
        return self._tensor(about).numpy()

    def _tensor(self, about: dict) -> torch.Tensor:
        tensor = self._tensors.pop(about["key"])  # each is somebody's own: no two share memory
        if any(size > _LARGEST_SIZE for size in tensor.shape):
            raise WireError("a tensor is too long")  # though it is empty
        if tensor.dtype is torch.bool:
            tensor = tensor.view(torch.uint8) != 0  # nothing but 0 and 1
        if about.get("complex") is True:
            tensor = torch.view_as_complex(tensor).clone()
        if self._keep_strides and "strides" in about:
            tensor = torch.empty_strided(tensor.shape, about["strides"], dtype=tensor.dtype).copy_(
                tensor
            )
        return tensor
