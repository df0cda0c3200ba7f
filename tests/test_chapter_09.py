"""Chapter 09 on real files and real workers: nothing is lost, nothing comes twice."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from course_files import ROOT, define, find_cell, run_cell, source
from torch.utils.data import DataLoader

CHAPTER = "09-data-loading"
WORKERS = range(5)
# For one to seven files: sizes that do not divide evenly, a file of one sample, an empty one.
SIZES = [
    [17],
    [4, 9],
    [1, 12, 6],
    [5, 0, 8, 3],
    [2, 7, 1, 6, 4],
    [3, 3, 5, 1, 4, 2],
    [6, 1, 2, 5, 0, 3, 4],
]


@pytest.fixture(autouse=True)
def _no_remark_on_the_number_of_workers() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*worker processes in total")
        yield


@cache
def defined() -> dict:
    namespace = define(CHAPTER)
    (shards,) = (c for c in source(CHAPTER).cells if "class ResumableShards" in c.source)
    # The definitions at the top of that demo, without what it shows.
    run_cell(shards.source.partition("FEW =")[0], namespace)
    return namespace


def names_in_order(sizes: list[int]) -> list[str]:
    return [defined()["picture_name"](number) for number in range(sum(sizes))]


@pytest.mark.parametrize("sizes", SIZES, ids=len)
@pytest.mark.parametrize("workers", WORKERS)
def test_no_sample_is_lost_or_repeated(tmp_path: Path, sizes: list[int], workers: int) -> None:
    shards = defined()["write_shards"](tmp_path, sizes)
    dataset = defined()["TarPictures"](shards, sizes, defined()["share_samples"])
    names = [name for _, _, name in DataLoader(dataset, batch_size=None, num_workers=workers)]
    assert Counter(names) == Counter(names_in_order(sizes))
    if workers <= 1:
        assert names == names_in_order(sizes)


@pytest.mark.parametrize("share", ["share_samples", "every_nth"])
@pytest.mark.parametrize("workers", WORKERS)
def test_shards_are_resumed_at_every_batch(tmp_path: Path, workers: int, share: str) -> None:
    sizes = [9, 5, 7]
    shards = defined()["write_shards"](tmp_path, sizes)

    def batches(done: int) -> list[list[str]]:
        dataset = defined()["ResumableShards"](shards, sizes, defined()[share], 4, done)
        loader = DataLoader(dataset, batch_size=4, num_workers=workers)
        return [list(names) for _, _, names in loader]

    whole = batches(0)
    assert Counter(name for batch in whole for name in batch) == Counter(names_in_order(sizes))
    for done in range(1, len(whole) + 1):
        assert batches(done) == whole[done:]


@pytest.mark.parametrize("workers", WORKERS)
def test_the_reference_loader_is_resumed_at_every_batch(tmp_path: Path, workers: int) -> None:
    for number in range(11):
        path = tmp_path / defined()["picture_name"](number)
        path.write_bytes(defined()["encode_png"](defined()["digit_images"][number]))
    dataset = defined()["PictureFolder"](tmp_path, "*.png")
    assert len(dataset) == 11

    def fetch(batches: list[list[int]]) -> Iterator:
        return iter(DataLoader(dataset, batch_sampler=batches, num_workers=workers))

    def new_loader() -> object:
        return defined()["ResumableLoader"](11, 3, 0, fetch)

    def run(loader: object, count: int) -> tuple[list, dict]:
        got: list = []
        while len(got) < count:
            for pictures, labels in loader:
                got.append((pictures.tolist(), labels.tolist()))
                if len(got) == count:
                    return got, loader.state_dict()
        return got, loader.state_dict()

    total = 8
    whole, _ = run(new_loader(), total)
    epoch = Counter(label for _, labels in whole[:4] for label in labels)
    assert epoch == Counter(defined()["digit_labels"][:11].tolist())
    for stop in range(total):
        _, state = run(new_loader(), stop)
        resumed = new_loader()
        resumed.load_state_dict(state)
        assert run(resumed, total - stop)[0] == whole[stop:]


def test_noise_is_the_same_for_any_number_of_workers_and_new_in_every_epoch() -> None:
    def loaded(workers: int, epoch: int) -> list[float]:
        dataset = Noisy(defined()["add_noise"], defined()["digit_images"][:9], epoch)
        return [x.sum().item() for x in DataLoader(dataset, batch_size=None, num_workers=workers)]

    assert loaded(0, 0) == loaded(2, 0) == loaded(3, 0)
    assert not set(loaded(0, 0)) & set(loaded(2, 1))


class Noisy:
    def __init__(self, add_noise: Callable, images: list, epoch: int) -> None:
        self.add_noise, self.images, self.epoch = add_noise, images, epoch

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> object:
        return self.add_noise(self.images[index], 3, self.epoch, index)


def test_padded_batches_come_out_of_workers() -> None:
    namespace = dict(defined())
    (cell,) = (c for c in source(CHAPTER).cells if "def ink(" in c.source)
    run_cell(cell.source.partition("lengths =")[0], namespace)
    ink, pad_batch = namespace["ink"], namespace["pad_batch"]
    samples = [ink(number) for number in range(10)]
    loader = DataLoader(samples, batch_size=4, collate_fn=pad_batch, num_workers=1)
    seen = [row[real] for padded, mask in loader for row, real in zip(padded, mask, strict=True)]
    assert [row.tolist() for row in seen] == [sample.tolist() for sample in samples]


def test_the_failure_and_the_shares_are_the_same_where_processes_are_spawned() -> None:
    cells = [cell.source for cell in source(CHAPTER).cells if cell.cell_type == "code"]
    (imports,) = (c for c in cells if "\nimport collections" in c)
    (failure,) = (c for c in cells if c.startswith("class Numbers"))
    program = "\n".join(
        [
            "import multiprocessing",
            "multiprocessing.set_start_method('spawn')",
            imports,
            failure,
            "for workers, samples in arrived.items():",
            "    print(f'{workers} workers:', sorted(samples))",
            find_cell(source(CHAPTER), "share-samples").source,
            "class Shared(Numbers):",
            "    def __iter__(self):",
            "        info = get_worker_info()",
            "        for _, start, stop in share_samples([self.count], info.id, info.num_workers):",
            "            yield from range(start, stop)",
            "print(sorted(DataLoader(by_value(Shared(5)), batch_size=None, num_workers=2)))",
        ]
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    eight = list(range(8))
    assert done.stdout.splitlines() == [
        f"0 workers: {eight}",
        f"1 workers: {eight}",
        f"2 workers: {sorted(eight * 2)}",
        str([0, 1, 2, 3, 4]),
    ], done.stderr
