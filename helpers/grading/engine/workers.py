"""Where submissions are judged: local processes, or a Dask cluster, behind one small interface.

Workers judge and nothing else. One may die at any moment: its submission's future then ends with
one of the exceptions in ``deaths``, and no other submission's with it.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import multiprocessing
import multiprocessing.context
import os
import resource
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import forkserver
from pathlib import Path
from typing import Any, Protocol

from helpers.grading.engine.keys import describe_environment
from helpers.grading.errors import GradingError
from helpers.grading.startup import leave_out_address_grammar

_PRELOAD = "helpers.grading.engine.preload"
_MOST_MEMORY = 8 * 2**30
# For one submission. What the judge itself computes is a second or two; what student code computes
# has limits of its own, with which all of it ends in half of an hour at the latest.
MOST_OWN_SECONDS = 120.0
MOST_WALL_SECONDS = 3600.0


class Workers(Protocol):
    """Who runs what is submitted.

    Attributes:
        deaths: what a future ends with when its worker died.
        patience: after how many deaths a submission is not tried again.
    """

    deaths: tuple[type[BaseException], ...]
    patience: int

    @property
    def slots(self) -> int:
        """How many may be submitted at one time."""

    def prepare(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Let workers that are still to be started run a function first."""

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future:
        """Run a function somewhere; never more than ``slots`` at one time."""

    def end_overdue(self) -> dict[Future, str]:
        """End those that work on one submission for too long; return why, by their futures."""

    def explain_loss(self, error: BaseException) -> Exception | None:
        """Return what to say if a future's exception means that all workers are out of reach."""

    def close(self, *, at_once: bool) -> None:
        """End what was started; ``at_once`` also what is at work."""


def judge_here(step: Callable[..., Any], environment: Mapping[str, str], *arguments: Any) -> Any:
    """Run ``step`` in a worker, if the worker judges as the one that asks would.

    Raises:
        GradingError: its versions are others, so that its grades might be.
    """
    here = describe_environment()
    others = [name for name in environment if here.get(name) != environment[name]]
    if others:
        raise GradingError(
            f"a worker has another version of {' and '.join(others)} than this machine: install "
            f"the same there, restart the workers and run the same command again"
        )
    return step(*arguments)


# --- Processes of this machine ---------------------------------------------------------------


class LocalWorkers:
    """Processes of this machine, each a pool of its own.

    When the process of a shared pool dies, nobody can tell whose submission it was that killed it.
    """

    deaths = (BrokenProcessPool,)
    patience = 3

    def __init__(self, jobs: int) -> None:
        """Take ``jobs`` processes; each starts when it is first needed."""
        self._lanes = [_Lane() for _ in range(jobs)]

    @property
    def slots(self) -> int:
        """One for each process."""
        return len(self._lanes)

    def prepare(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Start all processes now, and have each run a function whose outcome does not matter."""
        for lane in self._lanes:
            lane.prepare(function, *arguments)

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future:
        """Run a function in a process that has nothing to do."""
        lane = next(lane for lane in self._lanes if lane.is_idle)
        return lane.submit(function, *arguments)

    def end_overdue(self) -> dict[Future, str]:
        """Kill the processes that work on one submission for too long."""
        found = {lane.running: lane.end_if_overdue() for lane in self._lanes if not lane.is_idle}
        return {future: reason for future, reason in found.items() if reason}

    def explain_loss(self, error: BaseException) -> Exception | None:
        """Return None: another process can always be started."""
        return None

    def close(self, *, at_once: bool) -> None:
        """End the processes."""
        with ThreadPoolExecutor(len(self._lanes)) as threads:  # each takes its time to end
            list(threads.map(lambda lane: lane.close(at_once), self._lanes))


def load_ahead() -> None:
    """Let begin what every worker needs and takes seconds, while this process gets ready."""
    if _start_context().get_start_method() == "forkserver":
        with _interrupts_kept_back():
            forkserver.ensure_running()


class _Lane:
    """One process after another, and the one function that runs in it."""

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None
        self.running: Future | None = None
        self._began = self._computed_before = 0.0

    @property
    def is_idle(self) -> bool:
        return self.running is None or self.running.done()

    def prepare(self, function: Callable[..., Any], *arguments: Any) -> None:
        with contextlib.suppress(BrokenProcessPool), _interrupts_kept_back():
            (self._pool or self._start()).submit(function, *arguments)

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future:
        for _ in range(3):
            pool = self._pool or self._start()
            try:
                with _interrupts_kept_back():  # the first one starts the process
                    self._began, self._computed_before = time.monotonic(), self._computed()
                    self.running = pool.submit(function, *arguments)
            except BrokenProcessPool:  # it died while it had nothing to do
                self.close(at_once=True)
            else:
                return self.running
        raise GradingError(
            "The processes that judge end as soon as they start: make sure that the machine has "
            "memory left and run the same command again."
        )

    def close(self, at_once: bool) -> None:
        pool, self._pool = self._pool, None
        if pool is None:
            return
        if at_once:
            self._kill(pool)
        pool.shutdown(wait=True, cancel_futures=True)

    def end_if_overdue(self) -> str:
        """Kill the process if it works for too long; return why, "" if it does not."""
        reason = ""
        if self._computed() - self._computed_before > MOST_OWN_SECONDS:
            reason = f"the judge itself computed for more than {MOST_OWN_SECONDS:.0f} seconds"
        elif time.monotonic() - self._began > MOST_WALL_SECONDS:
            reason = f"judging it took more than {MOST_WALL_SECONDS:.0f} seconds"
        if reason and self._pool is not None:
            self._kill(self._pool)
        return reason

    def _computed(self) -> float:
        """Return the processor time of the process itself, in seconds, not of what it started."""
        with contextlib.suppress(OSError):
            return sum(_read_processor_time(p.pid) for p in _processes(self._pool))
        return 0.0

    def _kill(self, pool: ProcessPoolExecutor) -> None:
        for process in _processes(pool):
            process.kill()

    def _start(self) -> ProcessPoolExecutor:
        context = _start_context()
        self._pool = ProcessPoolExecutor(1, mp_context=context, initializer=_begin_as_worker)
        return self._pool


@functools.cache
def _start_context() -> multiprocessing.context.BaseContext:
    """Return how workers start: not forked from this process, which has threads, but where it can
    be from one that has loaded the judge, and nothing else, once for all of them.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([_PRELOAD])
    return context


def _processes(pool: ProcessPoolExecutor | None) -> list[multiprocessing.process.BaseProcess]:
    # Python 3.14 has kill_workers(), but tells nobody which they are.
    return list((getattr(pool, "_processes", None) or {}).values())


def _read_processor_time(pid: int) -> float:
    # proc_pid_stat(5): utime and stime are fields 14 and 15; the 2nd, a name, may hold blanks.
    line = Path("/proc", str(pid), "stat").read_text(errors="replace")
    ticks = sum(map(int, line.rpartition(")")[2].split()[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def _interrupts_kept_back() -> Iterator[None]:
    """Keep Ctrl-C from a process that is started in here; ours comes when this is over."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin_as_worker() -> None:
    # Registered first, so run last: all is closed, and to unload torch would take a second.
    atexit.register(os._exit, 0)
    # Ctrl-C in the terminal is for the parent: here it would look like a student's fault.
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # which also forgets one that was kept back
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    leave_out_address_grammar()
    # What a test computes with a hostile answer is to fail, not to fill the machine.
    resource.setrlimit(resource.RLIMIT_DATA, (_MOST_MEMORY, _MOST_MEMORY))
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGKILL)
