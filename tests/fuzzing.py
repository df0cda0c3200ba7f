"""A pytest plugin: searching for input that a stage of grading cannot take, or is slow with.

Without options each search takes a few inputs. With `--fuzz-minutes 10`, or `make fuzz MINUTES=10`,
it goes on for so long, and says at its end how many it tried.
"""

from __future__ import annotations

import contextlib
import gc
import random
import time
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis.strategies import SearchStrategy, tuples

from helpers.guard import CallTimeoutError, time_limit

MOST_SECONDS = 60.0  # of a processor, for one input
_EXAMPLES = 200  # in a row; then it is seen whether the time is over
# Seconds: what takes less makes nobody wait, and may have a bound that is not reached yet.
_FLOOR = 2.0
_MOST_GROWTH = 2.5
_TRIES = 3


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--fuzz-minutes",
        type=float,
        default=0.0,
        help="how long each search of test_fuzz.py goes on; a few inputs if not given",
    )


class Search:
    """One search, for as long as was asked for."""

    def __init__(self, minutes: float, name: str) -> None:
        self._minutes = minutes
        self._name = name
        self._count = 0

    def __call__(
        self, check: Callable[..., None], *strategies: SearchStrategy, examples: int = 20
    ) -> None:
        """Call ``check`` with drawn input: so many in the suite, or until the time is over."""
        end = time.monotonic() + 60.0 * self._minutes

        def counted(arguments: tuple) -> None:
            if self._minutes and time.monotonic() >= end:
                return
            self._count += 1
            with _ended_in_time():
                check(*arguments)

        quiet = settings(
            max_examples=_EXAMPLES if self._minutes else examples,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        )
        while True:
            seed(random.getrandbits(64))(quiet(given(tuples(*strategies))(counted)))()
            if time.monotonic() >= end:
                break
        if self._minutes:
            print(f"\n{self._name}: {self._count:,} inputs in {self._minutes:g} min")


@contextlib.contextmanager
def _ended_in_time() -> Iterator[None]:
    try:
        with time_limit(MOST_SECONDS):
            yield
    except CallTimeoutError as error:
        raise AssertionError(f"it computed for more than {MOST_SECONDS:g} seconds") from error


@pytest.fixture
def search(request: pytest.FixtureRequest) -> Search:
    return Search(request.config.getoption("fuzz_minutes"), request.node.name)


def check_growth(do: Callable[[int], object], start: int, most: int) -> None:
    """Check that what is twice as large takes at most 2.5 times as long, of a processor's time.

    Args:
        do: does it with input of a size.
        start: the first size, which is doubled until it takes long enough to be measured.
        most: the size at which that ends: what is still fast then, is bounded.
    """
    size, taken = start, _seconds(do, start)
    while size < most:
        twice = _seconds(do, 2 * size)
        for _ in range(_TRIES):  # others on this machine can slow down either
            if twice <= max(_FLOOR, _MOST_GROWTH * taken):
                break
            taken, twice = max(taken, _seconds(do, size)), min(twice, _seconds(do, 2 * size))
        else:
            raise AssertionError(f"size {size}: {taken:.2f} s, twice that: {twice:.2f} s")
        if twice > _FLOOR:
            return
        size, taken = 2 * size, twice


def _seconds(do: Callable[[int], object], size: int) -> float:
    gc.freeze()  # what was there before is no work of this input's
    try:
        began = time.process_time()
        do(size)
        return time.process_time() - began
    finally:
        gc.unfreeze()
