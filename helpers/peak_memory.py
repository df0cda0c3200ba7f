"""Count the bytes of the tensors that are there at one moment, on any device."""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from unittest import mock

import torch
from torch.utils import _python_dispatch
from torch.utils._python_dispatch import TorchDispatchMode

# By these a tensor's numbers get out of torch's sight.
_WAYS_OUT = ("__array__", "__dlpack__", "numpy", "tolist")
_WAYS_OUT_OF_STORAGES = (
    *("__getitem__", "__iter__", "_write_file", "clone", "copy_", "cpu", "new", "tolist", "to"),
)
_storage_of = torch.Tensor.untyped_storage


def peak_bytes(function: Callable[[], Any], *, except_for: Iterable[torch.Tensor] = ()) -> int:
    """Run ``function`` and return how many bytes of tensors there were at the worst moment.

    A tensor counts from the operator that makes it until it is gone; tensors that share a storage
    count once. What was there before, or is made without an operator (a view of a NumPy array),
    counts from its first use to the end. The storages of ``except_for`` are ignored. What is
    copied out of torch (``numpy()``, ``tolist()``, ``item()``, pickling) counts to the end, too: it
    is memory as well. Where a NumPy array shares a tensor's memory, numbers get out whenever an
    operator writes there: all that is written counts, not only what the memory holds. The
    temporary memory of operators is not counted; a GPU's allocator counts it, too
    (``torch.cuda.max_memory_allocated``).

    Source: ``torch.utils._python_dispatch`` (PyTorch's notes on ``__torch_dispatch__``).
    """
    with PeakMeter(except_for) as meter:
        function()
    return meter.peak


class PeakMeter(TorchDispatchMode):
    """Counts the tensors that operators handle inside of its block.

    Attributes:
        now: bytes of those that are there.
        peak: the most that ``now`` has been.
    """

    def __init__(self, except_for: Iterable[torch.Tensor] = ()) -> None:
        """Begin with nothing counted."""
        super().__init__()
        self.now = self.peak = 0
        self._seen: dict[int, weakref.ref] = {}
        # Bytes at an address that are left out, or counted to the end: not to be counted again.
        self._settled = {
            storage.data_ptr(): storage.nbytes() for storage in map(_storage_of, except_for)
        }
        self._written = SharedWrites()
        self._exits = contextlib.ExitStack()

    def __enter__(self) -> PeakMeter:
        """Begin to count."""
        self._exits.enter_context(ways_out_watched(self._count_copy))
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        """End."""
        self._exits.close()
        super().__exit__(*error)

    def __torch_dispatch__(
        self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        """Run the operator, and count what it got and what it made."""
        for tensor in _tensors_in((args, kwargs)):
            self._count_storage(tensor, until_the_end=True)
        result = func(*args, **(kwargs or {}))
        if func is torch.ops.aten._local_scalar_dense.default:
            self._count(8)
        self._count(self._written.of_call(func, args, kwargs))
        for tensor in _tensors_in(result):
            self._count_storage(tensor)
        return result

    def _count_storage(self, tensor: torch.Tensor, *, until_the_end: bool = False) -> None:
        if tensor.layout is not torch.strided:
            raise TypeError(f"peak_bytes counts dense tensors, and this is a {tensor.layout} one")
        storage = _storage_of(tensor)
        address, size = storage.data_ptr(), storage.nbytes()
        settled = self._settled.get(address, 0)
        known = self._seen.get(address)
        if size <= settled or (known is not None and known() is not None):
            return
        if until_the_end:
            # Its storage may go and its memory stay: another object may own it.
            self._settled[address] = size
            self._count(size - settled)
            return
        size -= settled

        def gone(reference: weakref.ref) -> None:
            self.now -= size
            if self._seen.get(address) is reference:
                del self._seen[address]

        self._seen[address] = weakref.ref(storage, gone)
        self._count(size)

    def _count_copy(self, copied: torch.Tensor | torch.UntypedStorage) -> None:
        self._count(bytes_of(copied))

    def _count(self, size: int) -> None:
        self.now += size
        self.peak = max(self.peak, self.now)


class SharedWrites:
    """Counts what operators write where other objects look on: NumPy arrays, buffers of Python's.

    An object that shares one small tensor's memory could read any number of values
    through it, one after the other, without torch.
    """

    def __init__(self) -> None:
        """Begin with nothing written."""
        self._bytes: dict[int, int] = {}  # by the storage's address

    def of_call(self, func: Any, args: tuple, kwargs: dict | None) -> int:
        """Return by how many bytes an operator wrote more than the memory holds, whose size counts
        anyway.
        """
        more = 0
        places, names = _written_by(func)
        written = [args[place] for place in places if place < len(args)]
        written += [kwargs[name] for name in names if name in (kwargs or ())]
        for tensor in _tensors_in(written):
            storage = _storage_of(tensor)
            if storage.resizable():
                continue
            # torch lets no memory be resized that a NumPy array, or anything else, shares.
            address, size = storage.data_ptr(), storage.nbytes()
            before = self._bytes.get(address, 0)
            self._bytes[address] = before + tensor.nbytes
            more += max(0, self._bytes[address] - size) - max(0, before - size)
        return more


@functools.cache
def _written_by(func: Any) -> tuple[list[int], list[str]]:
    """Return the places and the names of the arguments that an operator writes into."""
    schema = getattr(func, "_schema", None)
    written = [
        (place, argument.name)
        for place, argument in enumerate(schema.arguments if schema else ())
        if argument.alias_info is not None and argument.alias_info.is_write
    ]
    return [place for place, _ in written], [name for _, name in written]


@contextlib.contextmanager
def ways_out_watched(tell: Callable[[Any], None]) -> Iterator[None]:
    """Let ``tell`` know of each tensor or storage whose numbers get out of torch's sight, and let
    no work be done out of it: torch shows a tensor with all modes off, and asks it for its size.
    """

    def tell_of_record(writer: Any, name: str, data: Any, *size: int) -> None:
        if isinstance(data, torch.UntypedStorage):
            tell(data)

    def tell_of_self(copied: Any, *args: Any) -> None:
        tell(copied)

    with (
        _watched(torch.Tensor, _WAYS_OUT, tell_of_self),
        _watched(torch.UntypedStorage, _WAYS_OUT_OF_STORAGES, tell_of_self),
        _watched(torch._C.PyTorchFileWriter, ("write_record",), tell_of_record),
        mock.patch.object(_python_dispatch, "_disable_current_modes", contextlib.nullcontext),
    ):
        yield


def bytes_of(copied: torch.Tensor | torch.UntypedStorage) -> int:
    """Return how many bytes a tensor or a storage has."""
    return copied.nbytes if isinstance(copied, torch.Tensor) else copied.nbytes()


def _tensors_in(value: Any) -> Iterator[torch.Tensor]:
    # An operator gets and returns few kinds of containers: torch's own walk takes many times as
    # long as this one, and there are thousands of operators in a step.
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (tuple, list, dict)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _tensors_in(part)


@contextlib.contextmanager
def _watched(owner: type, names: tuple[str, ...], tell: Callable[..., None]) -> Iterator[None]:
    """Let ``tell`` know whenever one of these methods is called on an object of ``owner``, and with
    what.
    """

    def watched(name: str) -> Callable:
        method = getattr(owner, name)

        def method_watched(self: Any, *args: Any, **kwargs: Any) -> Any:
            tell(self, *args)
            return method(self, *args, **kwargs)

        return method_watched

    own = {name: vars(owner)[name] for name in names if name in vars(owner)}
    try:
        for name in names:
            setattr(owner, name, watched(name))
        yield
    finally:
        for name in names:
            setattr(owner, name, own[name]) if name in own else delattr(owner, name)
