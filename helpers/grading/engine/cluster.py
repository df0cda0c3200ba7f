"""Judging on a Dask cluster, which ``dask scheduler`` and ``dask worker ADDRESS`` start."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import Any

from helpers.grading.engine.keys import describe_environment
from helpers.grading.errors import GradingError
from helpers.grading.names import printable
from helpers.grading.sandbox import sandbox

_SECONDS_TO_CONNECT = 15
_SECONDS_BETWEEN_COUNTS = 2.0
_PER_THREAD = 2  # one at work, and one that has arrived already
_LOST = ("FutureCancelledError", "CommClosedError", "FutureLostError")


class DaskWorkers:
    """The workers of a Dask scheduler; some may come and go while it is used.

    A dead worker's work is given to another one by the scheduler itself. It gives up on what was
    at several workers when they died, if only in their queues: so that is tried once more.
    """

    patience = 2

    def __init__(self, address: str, *, sandboxed: bool) -> None:
        """Connect to the scheduler at ``address``, and see that its workers can judge.

        Raises:
            GradingError: there is no scheduler, no worker, or one that cannot judge.
        """
        try:
            import distributed
        except ModuleNotFoundError as error:
            raise GradingError(
                'Dask is not installed: pip install "bits-and-gradients[cluster]", here and on '
                "every machine with a worker."
            ) from error
        self.deaths = (distributed.scheduler.KilledWorker,)
        self._address = address
        _silence_logs()
        try:
            self._client = distributed.Client(
                address, timeout=_SECONDS_TO_CONNECT, set_as_default=False
            )
        except (OSError, ValueError) as error:
            raise GradingError(
                f"There is no Dask scheduler at {printable(address)}: start one (dask scheduler), "
                f"give the address that it prints, and run the same command again."
            ) from error
        self._count, self._counted_at = 0, 0.0
        try:
            self._examine(sandboxed)
        except BaseException:
            self._client.close()
            raise
        self._executor = self._client.get_executor()

    @property
    def slots(self) -> int:
        """So many that no worker waits for its next one."""
        if time.monotonic() - self._counted_at > _SECONDS_BETWEEN_COUNTS:
            self._count = self._threads()
            self._counted_at = time.monotonic()
        return max(1, _PER_THREAD * self._count)

    def prepare(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Do nothing: the workers run already, and prepare themselves once."""

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future:
        """Run a function on some worker."""
        return self._executor.submit(function, *arguments)

    def end_overdue(self) -> dict[Future, str]:
        """End none: there is no way to end one piece of work on another machine."""
        return {}

    def explain_loss(self, error: BaseException) -> Exception | None:
        """Return what to say if an exception means that the scheduler is gone."""
        is_lost = isinstance(error, CancelledError) or type(error).__name__ in _LOST
        return self._lost() if is_lost else None

    def close(self, *, at_once: bool) -> None:
        """Let go of the cluster, which goes on."""
        with contextlib.suppress(Exception):  # it may be gone
            self._executor.shutdown(wait=not at_once)
        with contextlib.suppress(Exception):
            self._client.close(timeout=5)

    def _threads(self) -> int:
        try:
            return sum(self._client.nthreads().values())
        except Exception as error:
            raise self._lost() from error

    def _examine(self, sandboxed: bool) -> None:
        found = self._client.run(_examine_worker, sandboxed, on_error="return")
        if not found:
            raise GradingError(
                f"The Dask scheduler at {printable(self._address)} has no workers: start some "
                f"(dask worker {printable(self._address)}) and run the same command again."
            )
        own = describe_environment()
        for worker, answer in found.items():
            if isinstance(answer, Exception):
                raise GradingError(
                    f"The worker at {printable(worker)} cannot judge "
                    f"({type(answer).__name__}: {printable(str(answer))}): install "
                    f'"bits-and-gradients[cluster]" of this version there and restart it.'
                )
            environment, fault = answer
            if fault:
                raise GradingError(f"The worker at {printable(worker)}: {fault}")
            others = [name for name in own if environment.get(name) != own[name]]
            if others:
                raise GradingError(
                    f"The worker at {printable(worker)} has another version of "
                    f"{' and '.join(others)}, so its grades might differ: install the same "
                    f"there as here, restart it and run the same command again."
                )

    def _lost(self) -> GradingError:
        return GradingError(
            f"The Dask scheduler at {printable(self._address)} is gone: start it again and run "
            f"the same command again; what has been judged is kept."
        )


def _silence_logs() -> None:
    """Keep what Dask logs about lost connections off the terminal: we say it in one sentence."""
    for name in list(logging.root.manager.loggerDict):
        if name.split(".")[0] == "distributed":
            logging.getLogger(name).setLevel(logging.CRITICAL)


def _examine_worker(sandboxed: bool) -> tuple[dict[str, str], str]:
    """Return what judges on a worker, and why it cannot; "" if it can."""
    try:
        if sandboxed:
            sandbox.check_available()
    except sandbox.SandboxError as error:
        return describe_environment(), str(error)
    return describe_environment(), ""
