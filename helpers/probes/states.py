"""States of runs as files hold them: written by ``torch.save``, read with ``weights_only=True``."""

from __future__ import annotations

import io
import numbers
from collections.abc import Iterator
from typing import Any

import torch

from helpers.calling import FoundFaultError


def as_bytes(state: Any) -> torch.Tensor:
    """Return what ``torch.save`` writes of ``state``, as uint8 of shape (bytes,)."""
    written = io.BytesIO()
    torch.save(state, written)
    return torch.frombuffer(bytearray(written.getvalue()), dtype=torch.uint8)


def from_bytes(written: torch.Tensor) -> Any:
    """Return what ``torch.load`` reads, with ``weights_only=True``, of what ``as_bytes`` wrote."""
    return torch.load(io.BytesIO(written.numpy().tobytes()), weights_only=True)


def as_safe_bytes(state: Any, name: str) -> torch.Tensor:
    """Return what ``as_bytes`` does of a ``state`` that ``from_bytes`` can read.

    Raises:
        FoundFaultError: it cannot; the message says which part of ``name`` is to blame. torch's own
            words are many, and its advice is to load what may do harm.
    """
    told = find_unreadable(state, name)
    if told:
        raise FoundFaultError(f"{told}, which torch.load does not load with weights_only=True")
    return as_bytes(state)


def find_unreadable(value: Any, name: str) -> str:
    """Return a sentence for the innermost part of ``value`` that ``from_bytes`` cannot read, and ""
    if there is none; ``name`` is what the whole is called.
    """
    if _can_be_read(value):
        return ""
    for place, part in _parts(value, name):
        if told := find_unreadable(part, place):
            return told
    return _tell_type(value, name)


def find_others(value: Any, name: str) -> Iterator[str]:
    """Give a sentence for each part of ``value`` that is neither a tensor, a number, a string or
    None, nor a list, tuple or dict; ``name`` is what the whole is called.
    """
    if isinstance(value, dict | list | tuple):
        for place, part in _parts(value, name):
            yield from find_others(part, place)
    elif not isinstance(value, torch.Tensor | numbers.Number | str | None):
        yield _tell_type(value, name)


def _can_be_read(state: Any) -> bool:
    try:
        from_bytes(as_bytes(state))
    except Exception:  # pickle raises many kinds
        return False
    return True


def _parts(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, part in value.items():
            yield f"{name}[{key!r}]", part
    elif isinstance(value, list | tuple):
        for place, part in enumerate(value):
            yield f"{name}[{place}]", part


def _tell_type(value: Any, name: str) -> str:
    kind = type(value)
    is_short = kind.__module__ in ("builtins", "__main__")
    module = "" if is_short else f"{kind.__module__}."
    return f"{name} is of type {module}{kind.__qualname__}"
