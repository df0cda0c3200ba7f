"""Run a student's function so that its noise, its warnings and its endless loops do no harm.

Whatever it writes is caught and kept, up to a limit. nbgrader takes any line on stderr for a
failure (nbgrader 0.9.6, ``nbgrader.utils.determine_grade``), so stderr is caught at the file
descriptor too, where C++ code writes. What it changes of the process's state is put back.
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch

from helpers.process_state import state_kept

# By how much a function may take longer than it may compute: a machine can have other things to do.
WALL_FACTOR = 3.0
_MOST_CHARACTERS_KEPT = 10_000


class CallTimeoutError(BaseException):
    """A student's function did not return in time.

    Not an ``Exception``: a student's ``except Exception`` must not swallow it.

    Attributes:
        by_the_wall: whether it is the wall's clock that says so, and not the processor's.
    """

    def __init__(self, by_the_wall: bool = False) -> None:
        """Take which of both it was."""
        super().__init__(by_the_wall)
        self.by_the_wall = by_the_wall


@dataclass
class Noise:
    """What a student's code wrote and warned of while a check called it."""

    printed: str = ""
    warned: list[str] = field(default_factory=list)


class CappedText(io.TextIOBase):
    """A text stream that keeps the first characters and forgets the rest."""

    def __init__(self) -> None:
        """Begin empty."""
        self._kept = io.StringIO()

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, text: str) -> int:
        """Keep what there is room for, and say that all was written."""
        room = _MOST_CHARACTERS_KEPT - self._kept.tell()
        if room > 0:
            self._kept.write(text[:room])
        return len(text)

    def kept(self) -> str:
        """Return what was kept."""
        return self._kept.getvalue()


@contextlib.contextmanager
def guarded_call(seconds: float) -> Iterator[Noise]:
    """Catch output and warnings of the body, and stop it as ``time_limit`` does.

    The time limit holds in the main thread of a Unix process, as a kernel's cell has it;
    elsewhere the body runs without one.

    Raises:
        CallTimeoutError: if the body runs longer.
    """
    noise = Noise()
    stream = CappedText()
    with (
        warnings.catch_warnings(record=True) as caught,
        contextlib.redirect_stdout(stream),
        contextlib.redirect_stderr(stream),
        _stderr_descriptor_aside(),
        state_kept(),
    ):
        warnings.simplefilter("always")
        try:
            with time_limit(seconds):
                yield noise
        finally:
            noise.printed = stream.kept()
            noise.warned = [f"{w.category.__name__}: {w.message}" for w in caught]


@contextlib.contextmanager
def _stderr_descriptor_aside() -> Iterator[None]:
    sys.stderr.flush()
    try:
        nothing = os.open(os.devnull, os.O_WRONLY)
    except OSError:  # the code keeps all files open that it may have
        yield
        return
    try:
        saved = os.dup(2)
    except OSError:  # or no descriptor 2, as under some front ends: nothing can be written to it
        os.close(nothing)
        yield
        return
    os.dup2(nothing, 2)
    os.close(nothing)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Stop the body, in the main thread of a Unix process, once it has computed for ``seconds``, or
    has taken ``WALL_FACTOR`` times as long.

    What counts is the processor time of all threads; each of torch's has the full time.

    Raises:
        CallTimeoutError: if the body runs longer.
    """
    can_interrupt = (
        hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
    )
    if not can_interrupt:
        yield
        return

    def stop(signal_number: int, frame: object) -> None:
        raise CallTimeoutError(by_the_wall=signal_number == signal.SIGALRM)

    timers = (
        (signal.ITIMER_PROF, signal.SIGPROF, seconds * torch.get_num_threads()),
        (signal.ITIMER_REAL, signal.SIGALRM, seconds * WALL_FACTOR),
    )
    previous = [signal.signal(rings, stop) for _, rings, _ in timers]
    for timer, _, limit in timers:
        # It rings again and again: one ring can be swallowed by a bare ``except``.
        signal.setitimer(timer, limit, 1.0)
    try:
        yield
    finally:
        for timer, _, _ in timers:
            signal.setitimer(timer, 0)
        for (_, rings, _), before in zip(timers, previous, strict=True):
            signal.signal(rings, before)
