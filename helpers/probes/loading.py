"""Probes for what loads data: datasets over files, streams of samples, loaders that are stopped."""

from __future__ import annotations

import collections
import io
import itertools
import json
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from helpers.calling import is_from_stub
from helpers.probes.testimony import testimony


def folder_items(
    dataset_class: Callable[[str, str], Any],
    files: list[tuple[str, torch.Tensor]],
    pattern: str,
    indices: list[int],
    *,
    replaced: list[tuple[str, torch.Tensor]] | None = None,
) -> dict[str, Any]:
    """Make a dataset over a folder of files, and ask it for samples.

    Args:
        dataset_class: takes a folder's path and a pattern of names.
        files: name and content, uint8 of shape (bytes,), of each file in the order in which they
            are created; a name may have a folder in front.
        pattern: of the names.
        indices: which samples are asked for.
        replaced: files, as above, that are written after each sample has been asked for once; then
            they are asked for again.

    Returns:
        ``{"length": int, "items": [...]}``: for each index ``{"item": what came}`` or
        ``{"error": the name of an exception's class}``.
    """
    with tempfile.TemporaryDirectory() as folder:
        _write(folder, files)
        dataset = dataset_class(folder, pattern)
        items = [_item(dataset, index) for index in indices]
        if replaced is not None:
            _write(folder, replaced)
            items = [_item(dataset, index) for index in indices]
        return {"length": len(dataset), "items": items}


def _write(folder: str, files: list[tuple[str, torch.Tensor]]) -> None:
    for name, content in files:
        path = Path(folder) / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content.numpy().tobytes())


def _item(dataset: Any, index: int) -> dict[str, Any]:
    try:
        return {"item": dataset[index]}
    except Exception as error:
        if is_from_stub(error):
            raise
        return {"error": type(error).__name__}


def streams(
    function: Callable[[Iterator, int, int], Iterable],
    samples: list | int,
    size: int,
    seeds: list[int],
    *,
    most: int = 1000,
) -> list[list]:
    """Go through ``function(samples, size, seed)`` for each of ``seeds``, and return what came out.

    Args:
        function: takes an iterator over samples and two numbers, and returns an iterable.
        samples: plain data each, or how many: the numbers from 0.
        size: the second argument.
        seeds: the third argument, one for each run.
        most: so many of what comes out are taken.
    """
    source = range(samples) if isinstance(samples, int) else samples
    return [list(itertools.islice(function(iter(source), size, seed), most)) for seed in seeds]


@testimony
def stream_reads(
    function: Callable[[Iterator, int, int], Iterable], count: int, size: int, seed: int
) -> list[int]:
    """Go through ``function(samples, size, seed)`` over ``count`` samples, and return how many of
    them had been read when each of its samples came out.
    """
    read = 0

    def samples() -> Iterator[int]:
        nonlocal read
        for number in range(count):
            read += 1
            yield number

    return [read for _ in itertools.islice(function(samples(), size, seed), count)]


def stopped_loader(
    loader_class: Callable[..., Any],
    count: int,
    batch_size: int,
    seed: int,
    *,
    stops: list[int],
    total: int,
    ahead: int = 0,
) -> dict[str, Any]:
    """Go through a loader epoch after epoch; stop it, and go on with a new one from its state.

    Args:
        loader_class: called with ``count``, ``batch_size``, ``seed`` and ``fetch``, a function
            that takes batches of indices and yields them in order as lists, of which it draws
            some ahead. Its objects are iterable and have ``state_dict`` and ``load_state_dict``.
        count: of samples.
        batch_size: of indices in a batch.
        seed: of the orders.
        stops: after so many batches in all the state is taken, in the middle of the loop, written
            as JSON, and loaded into a new loader.
        total: so many batches are taken in all.
        ahead: so many batches ``fetch`` draws ahead.

    Returns:
        ``{"batches", "drawn", "drawn_by_then", "states", "states_moved"}``: the batches that came;
        those that the last loader drew; how many the loader had drawn when each batch came; the
        states as JSON; and whether one of them changed when another batch was taken.
    """
    seen: dict[str, Any] = {"batches": [], "drawn_by_then": [], "states": [], "states_moved": False}
    for stop in [*stops, total]:
        seen["drawn"] = []
        loader = loader_class(count, batch_size, seed, _reading_ahead(seen["drawn"], ahead))
        if seen["states"]:
            loader.load_state_dict(json.loads(seen["states"][-1]))
        _run_until(loader, seen, stop, is_last=stop == total)
    return seen


def stopped_shards(
    loader_class: Callable[..., Any],
    shards: list[list[tuple[str, torch.Tensor, torch.Tensor]]],
    batch_size: int,
    seed: int,
    *,
    stops: list[int],
    total: int,
) -> dict[str, Any]:
    """Write tar shards, go through them epoch after epoch; stop, and go on with a new loader.

    A sample is two files in NumPy's format, one behind the other: ``name.volume.npy`` and
    ``name.mask.npy``.

    Args:
        loader_class: called with a list of paths, ``batch_size`` and ``seed``; its objects are
            iterable and have ``state_dict`` and ``load_state_dict``. A batch is a list of names
            and two tensors.
        shards: each a list of name, volume and mask.
        batch_size: of samples in a batch.
        seed: of the orders.
        stops: as ``stopped_loader`` has them.
        total: so many batches are taken in all.

    Returns:
        ``{"batches", "states", "states_moved"}``: as ``stopped_loader`` has them; a batch is
        ``{"names", "volumes", "masks"}``.
    """
    seen: dict[str, Any] = {"batches": [], "states": [], "states_moved": False}
    with tempfile.TemporaryDirectory() as folder:
        paths = [str(Path(folder) / f"{number:03}.tar") for number in range(len(shards))]
        for path, samples in zip(paths, shards, strict=True):
            _write_shard(path, samples)
        for stop in [*stops, total]:
            loader = loader_class(list(paths), batch_size, seed)
            if seen["states"]:
                loader.load_state_dict(json.loads(seen["states"][-1]))
            _run_until(loader, seen, stop, is_last=stop == total, read=_named_batch)
    return seen


def _write_shard(path: str, samples: list[tuple[str, torch.Tensor, torch.Tensor]]) -> None:
    with tarfile.open(path, "w") as shard:
        for name, *tensors in samples:
            for kind, tensor in zip(("volume", "mask"), tensors, strict=True):
                content = io.BytesIO()
                np.save(content, tensor.numpy())
                member = tarfile.TarInfo(f"{name}.{kind}.npy")
                member.size = content.tell()
                content.seek(0)
                shard.addfile(member, content)


def _named_batch(batch: Any) -> dict[str, Any]:
    names, volumes, masks = batch
    return {"names": list(names), "volumes": volumes, "masks": masks}


def _indices(batch: Any) -> list[int]:
    return [int(index) for index in batch]


def _run_until(
    loader: Any,
    seen: dict[str, Any],
    stop: int,
    *,
    is_last: bool,
    read: Callable[[Any], Any] = _indices,
) -> None:
    """Take batches until there are ``stop``, and the state as it is then."""
    got, empty = seen["batches"], 0
    while len(got) < stop and empty < 2:
        before = len(got)
        batches = iter(loader)
        for batch in batches:
            got.append(read(batch))
            if "drawn" in seen:
                seen["drawn_by_then"].append(len(seen["drawn"]))
            if len(got) >= stop:
                if not is_last:
                    _keep_state(loader, batches, seen)
                return
        empty = empty + 1 if len(got) == before else 0
    if not is_last:
        _keep_state(loader, iter(()), seen)


def _keep_state(loader: Any, batches: Iterator, seen: dict[str, Any]) -> None:
    """Take the state, and see whether it stays as it is while the loader goes on."""
    state = loader.state_dict()
    seen["states"].append(json.dumps(state))
    next(batches, None)
    seen["states_moved"] |= json.dumps(state) != seen["states"][-1]


def _reading_ahead(drawn: list[list[int]], ahead: int) -> Callable[[Iterable], Iterator[list[int]]]:
    def fetch(batches: Iterable) -> Iterator[list[int]]:
        waiting: collections.deque[list[int]] = collections.deque()
        for batch in batches:
            waiting.append(_indices(batch))
            drawn.append(waiting[-1])
            if len(waiting) > ahead:
                yield waiting.popleft()
        yield from waiting

    return fetch
