"""The time that student code has: so much of computing, and a good deal more on the wall's clock.

A machine with much to do is no fault of a student's, so what counts is the processor time of all
that the code has started. The wall's clock is there for code that waits forever.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from helpers.guard import WALL_FACTOR

# Nothing is measured of what takes no longer: that is nearly everything.
_SECONDS_UNSEEN = 0.25
_SECONDS_BETWEEN_LOOKS = 0.25


class OutOfTimeError(Exception):
    """The time is over.

    Attributes:
        by_the_wall: whether it is the wall's clock that says so, and not the processor's.
    """

    def __init__(self, by_the_wall: bool) -> None:
        """Take which of both it was."""
        super().__init__("it did not stop within its time")
        self.by_the_wall = by_the_wall


class Clock:
    """Runs from its making on."""

    def __init__(self, seconds: float, measure: Callable[[], float]) -> None:
        """Start.

        Args:
            seconds: how long may be computed; it may take ``WALL_FACTOR`` times as long.
            measure: returns the processor time, in seconds, that has gone into it so far.
        """
        self._seconds = seconds
        self._measure = measure
        self._began = time.monotonic()
        self._wall_end = self._began + WALL_FACTOR * seconds
        self._next_look = self._began + _SECONDS_UNSEEN
        self._before: float | None = None
        self._charged = 0.0

    def until_next_look(self) -> float:
        """Return the seconds until ``look`` wants to be called."""
        return max(0.0, min(self._next_look, self._wall_end) - time.monotonic())

    def look(self) -> None:
        """See what time it is.

        Raises:
            OutOfTimeError: it is over.
        """
        now = time.monotonic()
        if now < min(self._next_look, self._wall_end):
            return
        if self._before is None:
            self._before = self._measure()
        self._next_look = now + _SECONDS_BETWEEN_LOOKS
        if self.computed() > self._seconds:
            raise OutOfTimeError(by_the_wall=False)
        if now > self._wall_end:
            raise OutOfTimeError(by_the_wall=True)

    def charge(self, seconds: float) -> None:
        """Count what somebody else computes on its behalf.

        Raises:
            OutOfTimeError: that is too long already.
        """
        self._charged += seconds
        if self._charged > self._seconds:
            raise OutOfTimeError(by_the_wall=False)

    def computed(self) -> float:
        """Return how many seconds have been computed so far, as far as they count."""
        if self._before is None:
            return self._charged + min(time.monotonic() - self._began, _SECONDS_UNSEEN)
        # What was measured is gone where all of it has ended.
        return self._charged + max(0.0, self._measure() - self._before)


class Budget:
    """The time that several requests have together."""

    def __init__(self, seconds: float) -> None:
        """Begin with ``seconds`` of computing; the wall's clock runs from now on."""
        self._left = seconds
        self._wall_end = time.monotonic() + WALL_FACTOR * seconds

    def seconds_left(self) -> float:
        """Return how long may still be computed; 0 or less if nothing may."""
        return 0.0 if self.is_over_by_the_wall() else self._left

    def is_over_by_the_wall(self) -> bool:
        """Return whether it has taken too long, whatever was computed."""
        return time.monotonic() > self._wall_end

    def spend(self, seconds: float) -> None:
        """Take off what was computed."""
        self._left -= seconds
