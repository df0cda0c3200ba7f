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

from helpers.plain import MOST_DIMENSIONS, MOST_LEVELS

MOST_JSON_BYTES = 4 * 2**20
MOST_TENSOR_BYTES = 32 * 2**20
# What describes tensors stands before them: a tensor that holds nothing takes memory all the same.
_MOST_TENSORS_HEADER_BYTES = 2**20
# Elements, were each size of 0 a 1: an empty tensor may be long all the same.
_MOST_ELEMENTS = 2**31
# A list in a list in a list: what walks over a message calls itself for each.
_MOST_LEVELS = MOST_LEVELS + 10
# To put integers into a dict can take the square of their number, if somebody chose them for it:
# their hash is their remainder by 2**61 - 1, and texts alone are hashed with a secret.
_MOST_INTEGER_KEYS = 10_000
_MOST_LONG_KEYS = 1_000
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
    encoder = _Encoder()
    try:
        text = json.dumps(encoder.encode(message)).encode()
        blob = safetensors.torch.save(encoder.tensors) if encoder.tensors else b""
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


def decode(text: bytes, blob: bytes, *, trusted: bool = False) -> dict[str, Any]:
    """Return the message in a frame's two parts.

    It takes a time and a memory that grow with their length alone, whatever is in them.

    Args:
        text: the JSON.
        blob: the tensors.
        trusted: whether the sender is believed: how tensors are laid out, what stands for
            functions, and that no name stands twice.

    Raises:
        WireError: it is no message.
    """
    try:
        if not trusted:
            _check_tensors(blob)
        tensors = safetensors.torch.load(blob) if blob else {}
        message = _Decoder(tensors, trusted).decode(json.loads(text) if trusted else _parse(text))
    except WireError as error:
        raise WireError(f"the message cannot be read: {error}") from error
    except Exception as error:  # whatever a hostile sender made json or safetensors raise
        raise WireError(f"the message cannot be read ({type(error).__name__})") from error
    if type(message) is not dict:
        raise WireError("the message is not a dict")
    return message


def _has_too_many(blob: bytes) -> bool:
    return int.from_bytes(blob[:8], "little") > _MOST_TENSORS_HEADER_BYTES


def _parse(text: bytes) -> Any:
    return json.loads(text, object_pairs_hook=_make_object)


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make a dict; of two values under one name, another reader might take the other."""
    made = dict(pairs)
    if len(made) < len(pairs):
        raise WireError("a name is there twice")
    return made


def _check_tensors(blob: bytes) -> None:
    """Look at what describes the tensors before anything makes them: torch crashes over one of
    thousands of dimensions.
    """
    if not blob:
        return
    if _has_too_many(blob):
        raise WireError("there are too many tensors")
    about = _parse(blob[8 : 8 + int.from_bytes(blob[:8], "little")])
    for name, tensor in about.items():
        if name != "__metadata__":
            _check_shape(tensor["shape"])


def _check_shape(shape: Any) -> None:
    if type(shape) is not list or len(shape) > MOST_DIMENSIONS:
        raise WireError(f"a tensor has more than {MOST_DIMENSIONS} dimensions")
    if not all(type(size) is int and 0 <= size <= _MOST_ELEMENTS for size in shape):
        raise WireError("a tensor has an impossible size")
    if math.prod(max(size, 1) for size in shape) > _MOST_ELEMENTS:
        raise WireError("a tensor is too long")


class _Keys:
    """Counts what is a key in some dict of one message."""

    def __init__(self) -> None:
        self._integers = self._long = 0

    def check(self, key: Any) -> None:
        if type(key) is int:
            self._integers += 1
            self._long += abs(key) > _LARGEST_JSON_INTEGER
            if self._integers > _MOST_INTEGER_KEYS or self._long > _MOST_LONG_KEYS:
                raise WireError(
                    f"its dicts have more than {_MOST_INTEGER_KEYS} integers as keys, "
                    f"or more than {_MOST_LONG_KEYS} beyond 2**53"
                )
        elif type(key) not in (str, bool):
            raise WireError("a dict's key must be a string or an integer")


class _Encoder:
    """Turns values into what JSON knows, and keeps the tensors for what stands beside it."""

    def __init__(self) -> None:
        self.tensors: dict[str, torch.Tensor] = {}
        self._keys = _Keys()

    def encode(self, value: Any) -> Any:
        kind = type(value)
        if value is None or kind is bool or kind is str:
            return value
        if kind is int:
            return _encode_integer(value)
        if kind is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if kind is complex:
            return {"complex": [self.encode(value.real), self.encode(value.imag)]}
        if kind is list or kind is tuple:
            return {kind.__name__: [self.encode(item) for item in value]}
        if kind is dict:
            return {"dict": [self._pair(key, item) for key, item in value.items()]}
        if kind is torch.Tensor:
            return {"tensor": self._tensor(value)}
        if kind is np.ndarray:
            return {"array": self._tensor(torch.from_numpy(value.copy()))}
        if kind is Name or kind is Probe:
            return {kind.__name__.lower(): value.name}
        if kind is Lent:
            return {"lent": [value.number, value.kind, value.name]}
        raise WireError(f"a value of type {kind.__name__} is not plain data")

    def _pair(self, key: Any, item: Any) -> list:
        self._keys.check(key)
        return [self.encode(key), self.encode(item)]

    def _tensor(self, tensor: torch.Tensor) -> dict[str, Any]:
        if tensor.device.type != "cpu":
            raise WireError(f"a tensor on {tensor.device} came back, expected one on the CPU")
        if tensor.layout is not torch.strided or tensor.is_quantized:
            raise WireError(f"a tensor with layout {tensor.layout} is not plain data")
        about: dict[str, Any] = {"key": str(len(self.tensors))}
        dense = tensor.detach().resolve_conj().resolve_neg()
        if not dense.is_contiguous():
            # As a copy has them: an expanded tensor becomes one that can be written.
            about["strides"] = list(torch.empty_like(dense).stride())
        if dense.is_complex():
            about["complex"] = True
            dense = torch.view_as_real(dense)
        if dense.dim() > MOST_DIMENSIONS:
            raise WireError(f"it holds a tensor of more than {MOST_DIMENSIONS} dimensions")
        # A copy, since safetensors refuses tensors that share memory.
        self.tensors[about["key"]] = dense.clone(memory_format=torch.contiguous_format)
        return about


def _encode_integer(value: int) -> Any:
    if abs(value) <= _LARGEST_JSON_INTEGER:
        return value
    if value.bit_length() > 4 * _MOST_INTEGER_DIGITS:
        raise WireError("it holds an integer of more than ten thousand hexadecimal digits")
    return {"int": hex(value)}


class _Decoder:
    """Turns parsed JSON back into values; anything unexpected raises."""

    def __init__(self, tensors: dict[str, torch.Tensor], trusted: bool) -> None:
        self._tensors = tensors
        self._trusted = trusted
        self._keys = _Keys()
        self._level = 0
        self._kinds: dict[str, Callable[[Any], Any]] = {
            "list": self._list,
            "tuple": self._tuple,
            "dict": self._dict,
            "int": self._int,
            "float": self._float,
            "complex": self._complex,
            "tensor": self._tensor,
            "array": self._array,
        }
        if trusted:
            self._kinds |= {"name": Name, "probe": Probe, "lent": lambda parts: Lent(*parts)}

    def decode(self, value: Any) -> Any:
        if value is None or isinstance(value, bool | str | int | float):
            return value
        ((kind, inside),) = value.items()
        self._level += 1
        if self._level > _MOST_LEVELS:
            raise WireError("it is nested too deep")
        decoded = self._kinds[kind](inside)
        self._level -= 1
        return decoded

    def _list(self, items: list) -> list:
        return [self.decode(item) for item in items]

    def _tuple(self, items: list) -> tuple:
        return tuple(self._list(items))

    def _dict(self, pairs: list) -> dict:
        decoded: dict = {}
        for encoded, item in pairs:
            key = self.decode(encoded)
            self._keys.check(key)
            decoded[key] = self.decode(item)
        if len(decoded) < len(pairs):
            raise WireError("a dict has a key twice")
        return decoded

    def _int(self, digits: str) -> int:
        if len(digits) > _MOST_INTEGER_DIGITS + len("-0x"):
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
        if tensor.dtype is torch.bool:
            tensor = tensor.view(torch.uint8) != 0  # nothing but 0 and 1
        if about.get("complex") is True:
            tensor = torch.view_as_complex(tensor).clone()
        if self._trusted and "strides" in about:
            tensor = torch.empty_strided(tensor.shape, about["strides"], dtype=tensor.dtype).copy_(
                tensor
            )
        return tensor
