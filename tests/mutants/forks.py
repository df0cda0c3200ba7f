"""Run something in a fork that may loop for ever, take all memory, or die."""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

# How much longer than it may compute a fork may take: the machine can have other things to do.
_WALL_FACTOR = 4.0
_MORE_MEMORY = 3 * 2**30  # bytes of address space, beyond what it begins with


@dataclass(frozen=True)
class Ended:
    """How a fork ended.

    Attributes:
        said: what it wrote into its pipe.
        seconds: how long it computed, what it started included, where it waited for that.
    """

    said: str
    seconds: float


def run_in_fork(body: Callable[[Callable[[str], None]], None], cpu_seconds: float) -> Ended:
    """Run ``body`` in a fork of this process; it gets a function that tells this process a text.

    What it prints is lost. It is killed, with all it started, when it has computed for
    ``cpu_seconds`` or takes much longer than that. An exception ends it, like a crash.
    """
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reading)
            _restrict(cpu_seconds)
            body(lambda text: _write(writing, text))
        except BaseException:
            os._exit(1)
        os._exit(0)
    os.close(writing)
    try:
        said = _read(reading, time.monotonic() + _WALL_FACTOR * cpu_seconds)
    finally:
        os.close(reading)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
        _, _, used = os.wait4(pid, 0)
    return Ended(said, used.ru_utime + used.ru_stime)


def _write(pipe: int, text: str) -> None:
    os.write(pipe, text.encode())


def _read(pipe: int, deadline: float) -> str:
    """Return what comes until the pipe is closed, or until the time is over."""
    said = b""
    while select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))[0]:
        part = os.read(pipe, 4096)
        if not part:
            break
        said += part
    return said.decode()


def _restrict(cpu_seconds: float) -> None:
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    with open("/proc/self/statm", encoding="ascii") as file:
        pages = int(file.read().split()[0])
    most = pages * resource.getpagesize() + _MORE_MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    whole = max(1, round(cpu_seconds))
    resource.setrlimit(resource.RLIMIT_CPU, (whole, whole))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
