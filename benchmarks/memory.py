"""How much memory a process and all that it started hold at most."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import psutil

_SECONDS_BETWEEN = 0.5
# To look at memory takes time of the same processors: at most this share of one.
_SHARE = 0.05


@dataclass(frozen=True)
class Peak:
    """The most memory at one time.

    Attributes:
        bytes: of all processes together.
        is_proportional: whether memory that several share is counted once; where the system does
            not tell, it is counted for each of them.
        samples: how often it was looked at.
    """

    bytes: int = 0
    is_proportional: bool = True
    samples: int = 0


class Watch(threading.Thread):
    """Looks at a process and its descendants until it is told to stop.

    Attributes:
        peak: the most that was seen so far.
    """

    def __init__(self, pid: int) -> None:
        """Watch the process ``pid``."""
        super().__init__(name="memory-watch", daemon=True)
        self.peak = Peak()
        self._root = psutil.Process(pid)
        self._stop_now = threading.Event()

    def run(self) -> None:
        """Look, and wait longer the longer it took."""
        pause = 0.0
        while not self._stop_now.wait(pause):
            began = time.thread_time()
            now, is_proportional = measure(self._root)
            self.peak = Peak(
                max(self.peak.bytes, now),
                self.peak.is_proportional and is_proportional,
                self.peak.samples + 1,
            )
            pause = max(_SECONDS_BETWEEN, (time.thread_time() - began) / _SHARE)

    def stop(self) -> None:
        """Stop, and wait until it has."""
        self._stop_now.set()
        self.join()


@contextlib.contextmanager
def watch(pid: int | None) -> Iterator[Watch | None]:
    """Watch the memory of a process while the body runs; nothing at all without one."""
    if pid is None:
        yield None
        return
    watching = Watch(pid)
    watching.start()
    try:
        yield watching
    finally:
        watching.stop()


def measure(root: psutil.Process) -> tuple[int, bool]:
    """Return the bytes that a process and its descendants hold, and whether they are shares."""
    total, is_proportional = 0, True
    try:
        processes = [root, *root.children(recursive=True)]
    except psutil.Error:
        return 0, True
    for process in processes:
        try:
            total += process.memory_full_info().pss
        except (psutil.AccessDenied, AttributeError):
            is_proportional = False
            with contextlib.suppress(psutil.Error):
                total += process.memory_info().rss
        except psutil.Error:  # it has ended
            continue
    return total, is_proportional
