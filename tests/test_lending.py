"""What a test lends to a student's code: in the same process, and over the wire."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from helpers.grading.inside import wire
from helpers.grading.judge.lending_desk import LendingDesk
from helpers.lending import KilledError, Lent, Stream, is_lent
from helpers.plain import NotPlainError


def test_what_was_lent_is_called_with_copies_and_returns_one() -> None:
    kept: list[torch.Tensor] = []

    def keep(x: torch.Tensor) -> torch.Tensor:
        kept.append(x)
        return x

    given = torch.zeros(3)
    returned = Lent(keep)(given)
    given += 1
    assert kept[0].tolist() == [0, 0, 0]
    returned += 1
    assert kept[0].tolist() == [0, 0, 0]


def test_what_is_not_plain_does_not_pass() -> None:
    with pytest.raises(NotPlainError):
        Lent(lambda x: x)(object())


def test_a_stream_counts_what_was_taken() -> None:
    stream = Stream(range(3))
    assert stream.read == 0
    assert next(stream) == 0
    assert stream.read == 1
    assert list(stream) == [1, 2]
    assert stream.read == 3
    assert list(stream) == []
    assert stream.read == 3


def test_only_what_is_lent_stays() -> None:
    assert is_lent(Lent(len))
    assert is_lent(Stream([]))
    assert not is_lent(len)
    assert not is_lent(iter([]))


def question(number: object, *args: object, **kwargs: object) -> dict:
    return {"lent": number, "args": list(args), "kwargs": kwargs}


def test_the_desk_answers_for_what_it_lent() -> None:
    desk = LendingDesk()
    add, items = desk.register(Lent(lambda a, b: a + b)), desk.register(Stream([5]))
    assert (add.kind, items.kind) == ("function", "stream")
    assert desk.answer(question(add.number, 2, b=3)) == {"value": 5}
    assert desk.answer(question(items.number)) == {"value": 5}
    assert desk.answer(question(items.number)) == {"error": "StopIteration", "message": []}


def test_an_error_goes_back_by_its_name() -> None:
    def fail(kind: int) -> None:
        raise (ValueError("not so"), KilledError("gone"))[kind]

    desk = LendingDesk()
    number = desk.register(Lent(fail)).number
    assert desk.answer(question(number, 0)) == {"error": "ValueError", "message": ["not so"]}
    assert desk.answer(question(number, 1)) == {"error": "KilledError", "message": ["gone"]}
    assert desk.answer(question(number))["error"] == "TypeError"


def odd_questions() -> Iterator[dict]:
    yield {"lent": 0}
    yield {"lent": 0, "args": [], "kwargs": []}
    yield question(1)
    yield question(-1)
    yield question(True)
    yield question("0")
    yield question(torch.tensor(0))
    yield question([0])


@pytest.mark.parametrize("odd", list(odd_questions()))
def test_who_asks_for_what_was_not_lent_is_refused(odd: dict) -> None:
    desk = LendingDesk()
    desk.register(Lent(len))
    with pytest.raises(wire.WireError):
        desk.answer(odd)


def test_a_ticket_goes_over_the_wire() -> None:
    ticket = LendingDesk().register(Lent(len))
    frame = wire.encode({"args": [ticket]})
    text, _ = wire.lengths(frame[: wire.HEADER.size])
    back = wire.decode(frame[wire.HEADER.size : wire.HEADER.size + text], b"", trusted=True)
    assert back == {"args": [ticket]}
