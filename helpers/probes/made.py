"""What of all that a function makes is still there when it has returned."""

from __future__ import annotations

import contextlib
import gc
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from helpers.peak_memory import SharedWrites, bytes_of, ways_out_watched

_COPIED = -1


class Made(TorchDispatchMode):
    """Remembers the storages of all that is made inside of its block, and holds none of them.

    What is copied out of torch's sight counts as if it stayed.
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        super().__init__()
        self._storages: list[weakref.ref] = []
        self._copied = 0
        self._written = SharedWrites()
        self._exits = contextlib.ExitStack()

    def __enter__(self) -> Made:
        """Begin to look."""
        self._exits.enter_context(ways_out_watched(self._count_copy))
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        """End."""
        super().__exit__(*error)
        self._exits.close()

    def __torch_dispatch__(
        self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        """Run the operator, and remember what it made."""
        result = func(*args, **(kwargs or {}))
        self._copied += self._written.of_call(func, args, kwargs)
        given = {_storage(value) for value in args if isinstance(value, torch.Tensor)}
        for value in result if isinstance(result, list | tuple) else [result]:
            if isinstance(value, torch.Tensor) and _storage(value) not in given:
                self._storages.append(weakref.ref(value.untyped_storage()))
        return result

    def sizes_alive(self, *, except_for: torch.Tensor) -> dict[int, int]:
        """Return the bytes of the storages that are there, by their addresses; under -1, what was
        copied.
        """
        if self._find_alive(except_for):
            # What only a circle of references holds is as good as gone. Looking for those is slow.
            gc.collect()
        return self._find_alive(except_for) | {_COPIED: self._copied}

    def _find_alive(self, except_for: torch.Tensor) -> dict[int, int]:
        alive = [storage for ref in self._storages if (storage := ref()) is not None]
        sizes = {storage.data_ptr(): storage.nbytes() for storage in alive}
        sizes.pop(_storage(except_for), None)
        return sizes

    def _count_copy(self, copied: torch.Tensor | torch.UntypedStorage) -> None:
        self._copied += bytes_of(copied)


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
