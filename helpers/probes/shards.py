"""A probe for loaders of tar shards, which are stopped and go on from their state."""

from __future__ import annotations

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

Sample = tuple[str, torch.Tensor, torch.Tensor]


def shard_runs(
    loader_class: Callable[..., Any],
    shards: list[list[Sample]],
    batch_size: int,
    runs: list[dict[str, Any]],
) -> list[dict[str, Any]]:
    """Write tar shards, and take batches from a new loader for each of ``runs``.

    A sample is two files in NumPy's format, one behind the other: ``name.volume.npy`` and
    ``name.mask.npy``.

    Args:
        loader_class: called with a list of paths, ``batch_size`` and a seed; its objects are
            iterable and have ``state_dict`` and ``load_state_dict``. A batch is a list of names
            and two tensors.
        shards: each a list of name, volume and mask.
        batch_size: of samples in a batch.
        runs: each ``{"seed", "total", "state"}``: the seed, how many batches are taken, epoch after
            epoch, and the state of an earlier run from which they go on, or None.

    Returns:
        for each run ``{"batches", "state_then", "state"}``: the batches that came, each
        ``{"names", "volumes", "masks"}``, and the state in the middle of the loop, as JSON: written
        at once, and again when the loader has gone on to another batch.
    """
    seen = []
    with tempfile.TemporaryDirectory() as folder:
        paths = [str(Path(folder) / f"{number:03}.tar") for number in range(len(shards))]
        for path, samples in zip(paths, shards, strict=True):
            _write_shard(path, samples)
        for run in runs:
            loader = loader_class(list(paths), batch_size, run["seed"])
            if run["state"] is not None:
                loader.load_state_dict(json.loads(run["state"]))
            batches = _epoch_after_epoch(loader)
            taken = [_named(batch) for batch in itertools.islice(batches, run["total"])]
            state = loader.state_dict()
            state_then = json.dumps(state)
            next(batches, None)
            seen.append({"batches": taken, "state_then": state_then, "state": json.dumps(state)})
    return seen


def _write_shard(path: str, samples: list[Sample]) -> None:
    with tarfile.open(path, "w") as shard:
        for name, *tensors in samples:
            for kind, tensor in zip(("volume", "mask"), tensors, strict=True):
                content = io.BytesIO()
                np.save(content, tensor.numpy())
                member = tarfile.TarInfo(f"{name}.{kind}.npy")
                member.size = content.tell()
                content.seek(0)
                shard.addfile(member, content)


def _epoch_after_epoch(loader: Iterable) -> Iterator:
    empty = 0
    while empty < 2:  # one may be empty: nothing was left of the epoch
        empty += 1
        for batch in loader:
            empty = 0
            yield batch


def _named(batch: Any) -> dict[str, Any]:
    names, volumes, masks = batch
    return {"names": list(names), "volumes": volumes, "masks": masks}
