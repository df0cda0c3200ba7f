"""Probes for what loads data: datasets over files, streams of samples, loaders that are stopped."""

from __future__ import annotations

import builtins
import collections
import contextlib
import gc
import itertools
import json
import os
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch

from helpers.calling import is_from_stub


def folder_items(
    dataset_class: Callable[[str, str], Any],
    files: list[tuple[str, torch.Tensor]],
    pattern: str,
    indices: list[int],
    *,
    replaced: list[tuple[str, torch.Tensor]] | None = None,
) -> dict[str, Any]:
    """Make a dataset over a folder of files, and ask it for samples.

    The folder's own name has dashes and a number, as the names of pictures have.

    Args:
        dataset_class: takes a folder's path, a str, and a pattern of names.
        files: name and content, uint8 of shape (bytes,), of each file in the order in which they
            are created; a name may have a folder in front.
        pattern: of the names.
        indices: which samples are asked for.
        replaced: files, as above, that are written after each sample has been asked for once; then
            they are asked for again.

    Returns:
        ``{"length": int, "items": [...]}`` and, with ``replaced``, ``"again"``: for each index
        ``{"item": what came}`` or ``{"errors": the names of an exception's class and its bases}``.
        Without ``replaced``, an exception goes on if the dataset's length is above the index. With
        it, there are also ``"opened"``, the names of the files that were opened as the dataset was
        made, and ``"kept"``, whether a picture is still there when nobody else has it any more.
    """
    with tempfile.TemporaryDirectory(prefix="pictures-90-") as folder:
        _write(folder, files)
        with contextlib.chdir("."), _opened() as opened:  # back to here, wherever it goes
            dataset = dataset_class(folder, pattern)
        length = len(dataset)
        first = length if replaced is None else 0  # whose error is kept
        items = [
            _item(dataset, index) if index >= first else {"item": dataset[index]}
            for index in indices
        ]
        seen = {"length": length, "items": items}
        if replaced is not None:
            _write(folder, replaced)
            seen["again"] = [_item(dataset, index) for index in indices]
            names = {name for name, _ in files}
            seen |= {"opened": sorted(names & opened), "kept": _is_kept(dataset, indices[0])}
        return seen


@contextlib.contextmanager
def _opened() -> Iterator[set[str]]:
    """Give the names of the files that Python's ``open`` opens meanwhile, whoever calls it."""
    names: set[str] = set()

    def note(file: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(file, str | os.PathLike):
            names.add(Path(file).name)
        return original(file, *args, **kwargs)

    original = builtins.open
    with mock.patch("builtins.open", note), mock.patch("io.open", note):
        yield names


def _is_kept(dataset: Any, index: int) -> bool:
    item = _item(dataset, index).get("item")
    picture = item[0] if isinstance(item, tuple | list) and item else None
    if not isinstance(picture, torch.Tensor):
        return False
    there = weakref.ref(picture)
    del item, picture
    gc.collect()
    return there() is not None


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
        return {"errors": [kind.__name__ for kind in type(error).__mro__]}


def streams(
    function: Callable[[Iterator, int, int], Iterable],
    samples: list,
    size: int,
    seeds: list[int],
    *,
    in_turn: bool = False,
) -> list[list]:
    """Go through ``function(samples, size, seed)`` for each of ``seeds``, and return what came out.

    Args:
        function: takes an iterator over samples and two numbers, and returns an iterable.
        samples: plain data each.
        size: the second argument.
        seeds: the third argument, one for each run.
        in_turn: whether all runs are under way at the same time, and take a sample in turn; else
            one ends before the next begins.
    """
    most = len(samples) + 1  # a loader that repeats samples may do so without end
    runs = (itertools.islice(function(iter(samples), size, seed), most) for seed in seeds)
    if not in_turn:
        return [list(run) for run in runs]
    missing = object()
    outs: list[list] = [[] for _ in seeds]
    for items in itertools.zip_longest(*runs, fillvalue=missing):
        for out, item in zip(outs, items, strict=True):
            if item is not missing:
                out.append(item)
    return outs


def handed_on(
    function: Callable[..., Iterable],
    samples: Iterator,
    *args: Any,
    to: Callable[[Any], Any],
    most: int,
) -> None:
    """Go through ``function(samples, *args)``, and hand each item to ``to`` before the next one is
    asked for.

    Args:
        function: takes an iterator, and returns an iterable.
        samples: the iterator, lent by a check that wants to see what is read when.
        *args: what else ``function`` takes.
        to: takes an item; lent as well.
        most: so many items are taken.
    """
    for item in itertools.islice(function(samples, *args), most):
        to(item)


def loader_run(
    loader_class: Callable[..., Any],
    count: int,
    batch_size: int,
    seed: int,
    *,
    load: Callable[[list[int]], Any],
    to: Callable[[Any], Any],
    total: int,
    stop: int | None = None,
    ahead: int = 0,
    state: str | None = None,
    loaded_before: bool = False,
) -> str:
    """Take batches from a new loader, epoch after epoch, and return its state.

    Args:
        loader_class: called with ``count``, ``batch_size``, ``seed`` and ``fetch``, a function
            that takes batches of indices and returns an iterable, like a DataLoader no iterator,
            of what is loaded for them, in order. Its objects are iterable and have ``state_dict``
            and ``load_state_dict``.
        count: of samples.
        batch_size: of indices in a batch.
        seed: of the orders.
        load: takes a batch of indices and returns what is loaded for it.
        to: is handed each batch that comes, before the next one is asked for.
        total: so many batches are taken.
        stop: after so many of them the state is taken, in the middle of the loop; after the last
            one, if None.
        ahead: so many batches ``fetch`` loads ahead.
        state: what another call has returned; the loader is set to it.
        loaded_before: whether another loader has been set to the very same ``state`` before, and
            has gone on from there to the end of an epoch.

    Returns:
        the state as JSON, written after all batches have been taken.
    """
    loader = loader_class(count, batch_size, seed, _loading_ahead(load, ahead))
    if state is not None:
        read = json.loads(state)
        if loaded_before:
            other = loader_class(count, batch_size, seed, _loading_ahead(list, ahead))
            other.load_state_dict(read)
            collections.deque(other, maxlen=0)
        loader.load_state_dict(read)
    batches = itertools.islice(_epoch_after_epoch(loader), total)
    for batch in itertools.islice(batches, total if stop is None else stop):
        to(batch)
    taken = loader.state_dict()
    for batch in batches:
        to(batch)
    return json.dumps(taken, default=_number)


def _number(value: Any) -> Any:
    """Let NumPy's numbers pass here: only ``loader_epochs`` tells of them."""
    return value.item() if isinstance(value, np.generic) else json.JSONEncoder().default(value)


def loader_epochs(
    loader_class: Callable[..., Any],
    count: int,
    batch_size: int,
    seed: int,
    *,
    load: Callable[[list[int]], Any],
    to: Callable[[Any], Any],
    epochs: int,
) -> str:
    """Go through whole epochs of a new loader, and return its state as JSON after the last loop.

    Args:
        loader_class: called as by ``loader_run``.
        count: of samples.
        batch_size: of indices in a batch.
        seed: of the orders.
        load: takes a batch of indices and returns what is loaded for it.
        to: is handed each batch that comes.
        epochs: how many loops there are.
    """
    loader = loader_class(count, batch_size, seed, _loading_ahead(load, 0))
    for _ in range(epochs):
        for batch in loader:
            to(batch)
    return json.dumps(loader.state_dict())


def _epoch_after_epoch(loader: Iterable) -> Iterator:
    empty = 0
    while empty < 2:  # one may be empty: nothing was left of the epoch
        empty += 1
        for batch in loader:
            empty = 0
            yield batch


def _loading_ahead(
    load: Callable[[list[int]], Any], ahead: int
) -> Callable[[Iterable[Iterable[int]]], Iterable]:
    def fetch(batches: Iterable[Iterable[int]]) -> Iterable:
        return _Fetched(batches, load, ahead)

    return fetch


class _Fetched:
    """What is loaded for batches of indices, ``ahead`` of them before they are asked for."""

    def __init__(
        self, batches: Iterable[Iterable[int]], load: Callable[[list[int]], Any], ahead: int
    ) -> None:
        self._batches = batches
        self._load = load
        self._ahead = ahead

    def __iter__(self) -> Iterator:
        waiting: collections.deque = collections.deque()
        for batch in self._batches:
            waiting.append(self._load([int(index) for index in batch]))
            if len(waiting) > self._ahead:
                yield waiting.popleft()
        yield from waiting
