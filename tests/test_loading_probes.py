"""Probes for what loads data, and what they tell of good and bad code."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
import torch

from helpers import first_draws, probes
from helpers.lending import Lent, Stream


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
        "items": [{"item": [3]}, {"item": [1, 2]}, {"errors": names_above(IndexError)}],
    }
    later = [("b.png", content(5)), ("a.png", content(6)), ("c/d.png", content(7))]
    lazy = probes.folder_items(Lazy, files, "*.png", [0, 1], replaced=later)
    assert lazy["items"] == [{"item": [3]}, {"item": [1, 2]}]
    assert lazy["again"] == [{"item": [6]}, {"item": [5]}]
    assert (lazy["opened"], lazy["kept"]) == ([], False)
    eager = probes.folder_items(Eager, files, "*.png", [0, 1], replaced=later)
    assert eager["again"] == eager["items"] == lazy["items"]
    assert eager["opened"] == ["a.png", "b.png"]


def test_a_picture_that_is_kept_shows() -> None:
    class Keeping(Lazy):
        def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
            picture = torch.tensor(super().__getitem__(index))
            self.kept = [*getattr(self, "kept", []), picture] if is_kept else []
            return picture, 0

    files = [("a.png", content(3)), ("b.png", content(1, 2))]
    for is_kept in (False, True):
        seen = probes.folder_items(Keeping, files, "*.png", [0, 1], replaced=files)
        assert seen["kept"] is is_kept


def names_above(error: type[Exception]) -> list[str]:
    return [kind.__name__ for kind in error.__mro__]


def test_a_stubs_error_goes_on_and_another_where_there_is_a_sample() -> None:
    class Stub(Lazy):
        def __getitem__(self, index: int) -> list[int]:
            raise NotImplementedError("nothing is written here yet")

    class Abstract(Lazy):
        def __getitem__(self, index: int) -> list[int]:
            raise NotImplementedError("subclasses say how")

    files = [("a.png", content(1))]
    with pytest.raises(NotImplementedError):
        probes.folder_items(Stub, files, "*", [0])
    for index, later in ((1, None), (0, files)):  # behind the last sample, or the file may be bad
        abstract = probes.folder_items(Abstract, files, "*", [index], replaced=later)
        assert abstract["items"] == [{"errors": names_above(NotImplementedError)}]
    with pytest.raises(NotImplementedError, match="subclasses say how"):
        probes.folder_items(Abstract, files, "*", [0])


def in_pairs(samples: Iterator, size: int, seed: int) -> Iterable:
    for first in samples:
        second = next(samples, None)
        yield (first, second, size, seed)


def test_streams_run_once_for_each_seed_and_end() -> None:
    assert probes.streams(in_pairs, ["a", "b", "c"], 7, [5, 6]) == [
        [("a", "b", 7, 5), ("c", None, 7, 5)],
        [("a", "b", 7, 6), ("c", None, 7, 6)],
    ]

    def repeats(samples: Iterator, size: int, seed: int) -> Iterable:
        return itertools.cycle(samples)

    assert probes.streams(repeats, [1, 2], 1, [0]) == [[1, 2, 1]]


def test_streams_in_turn_are_under_way_at_the_same_time() -> None:
    begun = []

    def counts_who_began(samples: Iterator, size: int, seed: int) -> Iterable:
        begun.append(seed)
        for sample in itertools.islice(samples, seed):
            yield (sample, list(begun))

    one, two = [7], [7, 8]
    outs = probes.streams(counts_who_began, ["a", "b", "c"], 1, [2, 3], in_turn=True)
    assert [[sample for sample, _ in out] for out in outs] == [["a", "b"], ["a", "b", "c"]]
    assert [len(seen) for _, seen in outs[0]] == [len(one), len(two)]


def test_each_item_of_a_stream_is_handed_on_before_the_next_is_read() -> None:
    stream, seen = Stream(itertools.count(3)), []
    to = Lent(lambda item: seen.append((item, stream.read)))
    probes.handed_on(in_pairs, stream, 1, 0, to=to, most=2)
    assert seen == [((3, 4, 1, 0), 2), ((5, 6, 1, 0), 4)]


def test_a_stream_that_moves_the_global_generators_is_told() -> None:
    def moves(samples: Iterator, size: int, seed: int) -> Iterable:
        random.seed(seed)
        yield from samples

    quiet = probes.global_draws(probes.streams, in_pairs, [1, 2], 1, [9], seed=7)
    moved = probes.global_draws(probes.streams, moves, [1, 2], 1, [9], seed=7)
    assert quiet["random"] == random.Random(7).random()
    assert moved["random"] == random.Random(9).random()
    assert quiet["torch"] == moved["torch"]


def test_a_generator_that_others_find_moved_between_two_items_is_told() -> None:
    def puts_back_late(samples: Iterable) -> Iterable:
        state = random.getstate()
        random.seed(1)
        yield from samples
        random.setstate(state)

    quiet = probes.draws_between(iter, [1, 2], seed=7, most=5)
    assert quiet[0] == first_draws(7)
    assert len(quiet) == 3
    moved = probes.draws_between(puts_back_late, [1, 2], seed=7, most=5)
    assert moved[0]["random"] == random.Random(1).random()
    assert [draws["torch"] for draws in moved] == [draws["torch"] for draws in quiet]
    assert len(probes.draws_between(itertools.count, seed=7, most=5)) == 6


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


class Seen:
    """What a check that lends both ends sees of a loader over samples called a, b, c, ..."""

    def __init__(self, loader_class: type, total: int, **options: object) -> None:
        self.loaded: list[list[int]] = []
        self.batches: list[tuple[str, int]] = []
        self.state = probes.loader_run(
            loader_class, 5, 2, 0, load=Lent(self.load), to=Lent(self.take), total=total, **options
        )

    def load(self, indices: list[int]) -> str:
        self.loaded.append(indices)
        return "".join("abcde"[index] for index in indices)

    def take(self, batch: str) -> None:
        self.batches.append((batch, len(self.loaded)))

    def contents(self) -> list[str]:
        return [batch for batch, _ in self.batches]


@pytest.mark.parametrize("ahead", [0, 2, 9])
def test_a_loader_goes_on_from_the_state_of_another(ahead: int) -> None:
    whole = Seen(Plain, 6, ahead=ahead).contents()
    assert whole == ["ab", "cd", "e", "ab", "cd", "e"]
    for stop in range(7):
        state = Seen(Plain, stop, ahead=ahead).state
        assert Seen(Plain, 6 - stop, ahead=ahead, state=state).contents() == whole[stop:]


def test_a_loader_shows_a_batch_that_comes_twice_and_what_was_loaded() -> None:
    state = Seen(Late, 2).state
    assert Seen(Late, 1, state=state).contents() == ["cd"]
    seen = Seen(Plain, 3, ahead=1)
    assert seen.loaded == [[0, 1], [2, 3], [4]]
    assert seen.batches == [("ab", 2), ("cd", 3), ("e", 3)]
    assert seen.state == '{"done": 3}'


def test_a_state_that_moves_is_what_it_has_become() -> None:
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

    assert Seen(Plain, 2, stop=1).state == '{"done": 1}'
    assert Seen(Live, 2, stop=1).state == '{"done": 2}'


def test_a_loader_that_has_nothing_more_does_not_hang() -> None:
    class Empty(Plain):
        def __iter__(self) -> Iterator[list[int]]:
            return iter([])

    assert Seen(Empty, 2).batches == []


def test_a_state_must_go_into_json() -> None:
    class Tensors(Plain):
        def state_dict(self) -> dict:
            return {"done": torch.tensor(1)}

    with pytest.raises(TypeError, match="JSON"):
        Seen(Tensors, 2)


def test_the_state_after_whole_loops_comes_back() -> None:
    class Counting(Plain):
        loops = 0

        def __iter__(self) -> Iterator[list[int]]:
            yield from super().__iter__()
            self.loops += 1

        def state_dict(self) -> dict[str, int]:
            return {"loops": self.loops}

    came: list = []
    state = probes.loader_epochs(Counting, 5, 2, 0, load=sum, to=came.append, epochs=2)
    assert came == [1, 5, 4] * 2
    assert state == '{"loops": 2}'
