"""One submission's notebook, running in kernels: after a crash it is started again, and what had
run before is replayed without what killed it.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from helpers.calling import SECONDS_PER_CALL, Answer, describe_timeout
from helpers.frames import MOST_FRAMES, Frame, Place, make_frame
from helpers.grading.assignment import Assignment
from helpers.grading.characters import clean
from helpers.grading.inside.wire import WireError
from helpers.grading.judge.clock import Budget, Clock
from helpers.grading.judge.lending_desk import LendingDesk
from helpers.grading.judge.trusted import CourseError, Proxy
from helpers.grading.judge.warm import Kernel, KernelEndedError, KernelLimits, WarmProcess
from helpers.grading.settings import Settings
from helpers.lending import is_lent
from helpers.plain import one_line
from helpers.reading.cells import Cell

# A kernel stops a cell or a call itself when its time is over; if it does not, it is ended.
_SECONDS_OF_GRACE = 2.0
# What Python and torch say when there is none left.
_SAID_OF_MEMORY = ("raised MemoryError", "can't allocate memory")
_MOST_TEXT = 10_000
_MOST_WARNINGS = 100
_MOST_NAME = 60


@dataclass
class CellRun:
    """What running one cell came to.

    Attributes:
        outputs: as ``inside.kernel`` tells them; not checked yet.
        cause: "crashed", "timed out" or "out of memory" if the cell did not end; "" otherwise.
        message: a sentence about the cause.
    """

    outputs: list[Any]
    cause: str = ""
    message: str = ""


class Session:
    """The running notebook of one submission.

    Attributes:
        causes: what ended cells and calls, one for each that ended early.
        waited: whether one of them was ended by the wall's clock alone: on a machine that has less
            to do, it might have come to its end.
    """

    def __init__(
        self, pool: WarmPool, assignment: Assignment, settings: Settings, total: Budget
    ) -> None:
        """Begin; nothing is started before it is needed, and nothing runs beyond ``total``."""
        self._pool = pool
        self._assignment = assignment
        self._settings = settings
        self._total = total
        self._exercise = total
        self._warm: WarmProcess | None = None
        self._kernel: Kernel | None = None
        self._ran: list[int] = []
        self._cells: list[Cell] = []
        self.causes: list[str] = []
        self.waited = False

    def begin_exercise(self) -> None:
        """Start the time of one exercise's test."""
        self._exercise = Budget(self._settings.exercise_seconds)

    def run(self, cell: Cell) -> CellRun:
        """Run one cell of the submission; a cell that ends the kernel is not replayed."""
        number = len(self._cells)
        self._cells.append(cell)
        try:
            seconds = self._seconds(self._settings.cell_seconds, self._total)
            message = {"do": "run", "code": cell.code, "seconds": seconds, "number": number}
            answer = self._ask(message, seconds, [self._total])
        except KernelEndedError as end:
            self._note(end)
            return CellRun([], end.cause, str(end))
        outputs = answer.get("outputs")
        outputs = outputs if isinstance(outputs, list) else []
        if answer.get("timed_out") is True:
            self.causes.append("timed out")
            by_the_wall = answer.get("by_the_wall") is True
            self.waited |= by_the_wall
            message = f"it {describe_timeout(seconds, by_the_wall)}"
            return CellRun(outputs, "timed out", message)
        self._ran.append(number)
        return CellRun(outputs)

    def call(self, function: Proxy, args: list, kwargs: dict[str, Any]) -> Answer:
        """Call a function of the submission's with plain data, as ``helpers.Check`` does.

        Raises:
            CourseError: the test passes on what is not plain data.
        """
        if not isinstance(function, Proxy):
            raise CourseError("a test cell calls something that is not the student's code")
        desk = LendingDesk()
        message = {
            "do": "call",
            "function": function.reference,
            "args": [_refer(value, desk) for value in args],
            "kwargs": {name: _refer(value, desk) for name, value in kwargs.items()},
        }
        try:
            seconds = self._seconds(SECONDS_PER_CALL, self._exercise, self._total)
            budgets = [self._exercise, self._total]
            answer = _read_answer(self._ask(message, seconds, budgets, desk.answer))
        except KernelEndedError as end:
            self._note(end)
            return Answer(problem=str(end), timed_out=end.cause == "timed out")
        except WireError as error:
            raise CourseError(f"a test cell passes on what is not plain data: {error}") from error
        answer.frames = list(self._frames_at(answer.places))
        if answer.timed_out:
            self.causes.append("timed out")
            self.waited |= answer.by_the_wall
        elif any(words in answer.problem for words in _SAID_OF_MEMORY):
            self.causes.append("out of memory")
        return answer

    def restart(self) -> None:
        """End the kernel; the next call starts another, in which what had run is run again."""
        if self._kernel is not None:
            self._kernel.close()
        self._kernel = None

    def close(self) -> None:
        """End the kernel and give the warm process back."""
        if self._kernel is not None:
            self._kernel.close()
        if self._warm is not None:
            self._pool.give_back(self._warm)
        self._kernel = self._warm = None

    def _frames_at(self, places: Sequence[Place]) -> Iterator[Frame]:
        """Yield what the submission has at ``places``: a process can point, and put in no words."""
        for place in places:
            cell = self._cells[place.cell] if place.cell < len(self._cells) else None
            if cell is None or cell.is_course:
                continue
            frame = make_frame(place, cell.label, cell.code)
            if frame is not None:
                yield frame

    def _note(self, end: KernelEndedError) -> None:
        self.causes.append(end.cause)
        self.waited |= end.by_the_wall

    def _seconds(self, wanted: float, *budgets: Budget) -> float:
        """Return how long may be computed."""
        left = min(budget.seconds_left() for budget in budgets)
        if left <= 0:
            waited = any(budget.is_over_by_the_wall() for budget in budgets)
            raise KernelEndedError("timed out", "there was no time left for it", waited)
        return min(wanted, left)

    def _ask(
        self,
        message: dict[str, Any],
        seconds: float,
        budgets: Sequence[Budget],
        lent: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    ) -> dict[str, Any]:
        try:
            if self._kernel is None:
                self._start_kernel()
            with _spending(self._kernel, seconds, budgets) as clock:
                return self._kernel.request(message, clock, lent)
        except KernelEndedError:
            if self._kernel is not None:
                self._kernel.close()
            self._kernel = None
            raise

    def _start_kernel(self) -> None:
        if self._warm is None or not self._warm.is_alive:
            if self._warm is not None:
                self._pool.give_back(self._warm)
            self._warm = self._pool.borrow(self._assignment.data, self._settings)
        while not self._replay(self._warm.start_kernel(secrets.randbits(63))):
            continue

    def _replay(self, kernel: Kernel) -> bool:
        """Run in a new kernel what had run before; return whether it got through.

        A cell can end the kernel now that did not the first time, or not so that it was seen.
        It is not given a third time, and nobody is blamed for it who did not write it.
        """
        for number in self._ran:
            code = self._cells[number].code
            try:
                seconds = self._seconds(self._settings.cell_seconds, self._total)
            except KernelEndedError:
                kernel.close()
                raise
            message = {"do": "run", "code": code, "seconds": seconds, "number": number}
            try:
                with _spending(kernel, seconds, [self._total]) as clock:
                    kernel.request(message, clock)
            except KernelEndedError:
                self._ran.remove(number)
                return False
        self._kernel = kernel
        return True


class WarmPool:
    """The warm processes of this process: one for each submission that is judged at one time."""

    def __init__(self) -> None:
        """Begin with none."""
        self._lock = threading.Lock()
        self._idle: list[tuple[Any, WarmProcess]] = []
        self._kinds: dict[int, Any] = {}

    def borrow(self, data: Mapping[str, bytes], settings: Settings) -> WarmProcess:
        """Return an idle one of the right kind, or a new one.

        Raises:
            SandboxError: there is no sandbox.
        """
        mib = 2**20
        limits = KernelLimits(
            settings.memory_mib * mib, settings.processes, settings.disk_mib * mib
        )
        kind = (tuple(sorted(data.items())), limits, settings.sandboxed)
        with self._lock:
            for index, (idle_kind, warm) in enumerate(self._idle):
                if idle_kind == kind and warm.is_alive:
                    return self._idle.pop(index)[1]
        warm = WarmProcess(limits, data, sandboxed=settings.sandboxed)
        self._kinds[id(warm)] = kind
        return warm

    def give_back(self, warm: WarmProcess) -> None:
        """Take back one that was borrowed."""
        if not warm.is_alive:
            self._kinds.pop(id(warm), None)
            warm.close()
            return
        with self._lock:
            self._idle.append((self._kinds[id(warm)], warm))

    def close(self) -> None:
        """End those that are idle."""
        with self._lock:
            idle, self._idle = self._idle, []
        for _, warm in idle:
            self._kinds.pop(id(warm), None)
            warm.close()


@contextlib.contextmanager
def running(
    pool: WarmPool, assignment: Assignment, settings: Settings, total: Budget
) -> Iterator[Session]:
    """Give a session, and end it.

    Args:
        pool: where its process comes from.
        assignment: whose notebook it runs.
        settings: how it is run.
        total: the time that there is for the whole submission.
    """
    session = Session(pool, assignment, settings, total)
    try:
        yield session
    finally:
        session.close()


@contextlib.contextmanager
def _spending(kernel: Kernel, seconds: float, budgets: Sequence[Budget]) -> Iterator[Clock]:
    """Give a clock for one request, and take what it shows off the budgets."""
    clock = kernel.clock(seconds + _SECONDS_OF_GRACE)
    try:
        yield clock
    finally:
        computed = clock.computed()
        for budget in budgets:
            budget.spend(computed)


def _refer(value: Any, desk: LendingDesk) -> Any:
    if is_lent(value):
        return desk.register(value)
    return value.reference if isinstance(value, Proxy) else value


def _read_answer(answer: dict[str, Any]) -> Answer:
    """Return the answer of a process that nobody vouches for, with the right types."""

    def text(value: Any) -> str:
        return clean(value[:_MOST_TEXT]) if isinstance(value, str) else ""

    warned = answer.get("warned")
    warned = warned[:_MOST_WARNINGS] if isinstance(warned, list) else []
    return Answer(
        value=answer.get("value"),
        problem=one_line(text(answer.get("problem"))),
        is_stub=answer.get("is_stub") is True,
        timed_out=answer.get("timed_out") is True,
        by_the_wall=answer.get("by_the_wall") is True,
        printed=text(answer.get("printed")),
        warned=[text(warning) for warning in warned],
        places=list(_read_places(answer.get("places"))),
    )


def _read_places(places: Any) -> Iterator[Place]:
    for place in places[-MOST_FRAMES:] if isinstance(places, list) else ():
        match place:
            case [int(cell), int(line), str(function)] if cell >= 0 and line >= 1:
                is_name = function.isascii() and function.isidentifier()
                yield Place(cell, line, function[:_MOST_NAME] if is_name else "<module>")
