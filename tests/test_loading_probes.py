"""Probes for what loads data, and what they tell of good and bad code."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
import torch

from helpers import probes


def content(*numbers: int) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.uint8)


class Lazy:
    def __init__(self, folder: str, pattern: str) -> None:
        self.paths = sorted(Path(folder).glob(pattern))

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> list[int]:
        return list(self.paths[index].read_bytes())


class Eager(Lazy):
    def __init__(self, folder: str, pattern: str) -> None:
        super().__init__(folder, pattern)
        self.contents = [list(path.read_bytes()) for path in self.paths]

    def __getitem__(self, index: int) -> list[int]:
        return self.contents[index]


def test_a_folder_shows_what_was_read_when() -> None:
    files = [("b.png", content(1, 2)), ("a.png", content(3)), ("a.txt", content(4))]
    lazy = probes.folder_items(Lazy, files, "*.png", [0, 1, 2])
    assert lazy == {
        "length": 2,
        "items": [{"item": [3]}, {"item": [1, 2]}, {"error": "IndexError"}],
    }
    later = [("b.png", content(5)), ("a.png", content(6)), ("c/d.png", content(7))]
    lazy = probes.folder_items(Lazy, files, "*.png", [0, 1], replaced=later)
    assert lazy == {"length": 2, "items": [{"item": [6]}, {"item": [5]}]}
    eager = probes.folder_items(Eager, files, "*.png", [0, 1], replaced=later)
    assert eager["items"] == [{"item": [3]}, {"item": [1, 2]}]


def test_a_stubs_error_goes_on_and_a_librarys_does_not() -> None:
    class Stub(Lazy):
        def __getitem__(self, index: int) -> list[int]:
            raise NotImplementedError("nothing is written here yet")

    class Abstract(Lazy):
        def __getitem__(self, index: int) -> list[int]:
            raise NotImplementedError("subclasses say how")

    files = [("a.png", content(1))]
    with pytest.raises(NotImplementedError):
        probes.folder_items(Stub, files, "*", [0])
    abstract = probes.folder_items(Abstract, files, "*", [0])
    assert abstract["items"] == [{"error": "NotImplementedError"}]


def in_pairs(samples: Iterator, size: int, seed: int) -> Iterable:
    for first in samples:
        second = next(samples, None)
        yield (first, second, size, seed)


def test_streams_run_once_for_each_seed_and_end() -> None:
    assert probes.streams(in_pairs, 3, 7, [5, 6]) == [
        [(0, 1, 7, 5), (2, None, 7, 5)],
        [(0, 1, 7, 6), (2, None, 7, 6)],
    ]
    assert probes.streams(in_pairs, ["a", "b"], 1, [0]) == [[("a", "b", 1, 0)]]
    (endless,) = probes.streams(in_pairs, 10**15, 1, [0], most=4)
    assert len(endless) == 4
    assert probes.stream_reads(in_pairs, 5, 1, 0) == [2, 4, 5]


def test_a_stream_that_moves_the_global_generators_is_told() -> None:
    def moves(samples: Iterator, size: int, seed: int) -> Iterable:
        random.seed(seed)
        yield from samples

    quiet = probes.global_draws(probes.streams, in_pairs, 5, 1, [9], seed=7)
    moved = probes.global_draws(probes.streams, moves, 5, 1, [9], seed=7)
    assert quiet["random"] == random.Random(7).random()
    assert moved["random"] == random.Random(9).random()
    assert quiet["torch"] == moved["torch"]


class Plain:
    """Batches in order, with the faults that its class says."""

    COUNTS_EARLY = True

    def __init__(self, count: int, batch_size: int, seed: int, fetch: object) -> None:
        self.batches = [
            list(range(i, min(i + batch_size, count))) for i in range(0, count, batch_size)
        ]
        self.fetch, self.done = fetch, 0

    def __iter__(self) -> Iterator[list[int]]:
        for batch in self.fetch(self.batches[self.done :]):
            self.done += self.COUNTS_EARLY
            yield batch
            self.done += not self.COUNTS_EARLY
        self.done = 0

    def state_dict(self) -> dict[str, int]:
        return {"done": self.done}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.done = state["done"]


class Late(Plain):
    COUNTS_EARLY = False


@pytest.mark.parametrize("ahead", [0, 2, 9])
@pytest.mark.parametrize("stops", [[], [0], [1], [3], [1, 2, 4]])
def test_a_stopped_loader_goes_on(stops: list[int], ahead: int) -> None:
    got = probes.stopped_loader(Plain, 5, 2, 0, stops=stops, total=6, ahead=ahead)
    assert got["batches"] == [[0, 1], [2, 3], [4]] * 2


def test_a_stopped_loader_shows_a_batch_that_came_twice_and_what_was_drawn() -> None:
    got = probes.stopped_loader(Late, 5, 2, 0, stops=[2], total=3)
    assert got["batches"] == [[0, 1], [2, 3], [2, 3]]
    got = probes.stopped_loader(Plain, 9, 2, 0, stops=[2], total=3, ahead=1)
    assert got["drawn"] == [[4, 5], [6, 7]]
    assert got["drawn_by_then"] == [2, 3, 2]
    assert (got["states"], got["states_moved"]) == (['{"done": 2}'], False)


def test_a_state_that_moves_is_seen() -> None:
    class Live(Plain):
        def __init__(self, *args: object) -> None:
            super().__init__(*args)
            self.state = {"done": 0}

        def __iter__(self) -> Iterator[list[int]]:
            for batch in super().__iter__():
                self.state["done"] = self.done
                yield batch

        def state_dict(self) -> dict[str, int]:
            return self.state

    assert probes.stopped_loader(Live, 9, 2, 0, stops=[2], total=3)["states_moved"]


def test_a_loader_that_has_nothing_more_does_not_hang() -> None:
    class Empty(Plain):
        def __iter__(self) -> Iterator[list[int]]:
            return iter([])

    assert probes.stopped_loader(Empty, 4, 2, 0, stops=[], total=2)["batches"] == []


def test_a_state_must_go_into_json() -> None:
    class Tensors(Plain):
        def state_dict(self) -> dict:
            return {"done": torch.tensor(1)}

    with pytest.raises(TypeError, match="JSON"):
        probes.stopped_loader(Tensors, 4, 2, 0, stops=[1], total=2)
