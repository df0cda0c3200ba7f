"""The limit: the time that the class's own cells take, and nothing else.

Every submission's needed cells, its student's cells and its test cells run one after another in a
kernel that was forked from one warm process, the checks in the student's process as for a student.
What counts is the processor time between the start and the end of each cell. A cell that does not
end counts with its time limit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.errors import BenchmarkError
from benchmarks.submissions import CHAPTER, Work
from helpers.grading.assignment import Assignment
from helpers.grading.judge.sanitize import SKIP, sanitize
from helpers.grading.judge.warm import Kernel, KernelEndedError, KernelLimits, WarmProcess
from helpers.grading.records.registration import register
from helpers.grading.settings import Settings
from helpers.grading.soundness import MalformedError

_SEED = 8
_SECONDS_OF_GRACE = 5.0
_MIB = 2**20
# Put into each kernel: a clock that IPython starts before a cell and stops after it. It keeps a
# list, since the cell that reads it is timed too.
_CLOCK = """
def start_clock():
    import resource, sys, types
    clock, kinds = types.ModuleType("cell_clock"), (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    usage, times = resource.getrusage, []
    def now():
        return sum(used.ru_utime + used.ru_stime for used in map(usage, kinds))
    def begin(info):
        times.append(-now())
    def end(result):
        times[-1] += now()
    events = get_ipython().events
    events.register("pre_run_cell", begin)
    events.register("post_run_cell", end)
    clock.read = lambda: times[-2]
    sys.modules["cell_clock"] = clock
start_clock()
del start_clock
"""
_READ_CLOCK = "print('cell-clock', __import__('cell_clock').read())"
_CLOCK_SAYS = re.compile(r"^cell-clock ([\d.e+-]+)$", re.MULTILINE)


@dataclass
class Limit:
    """What the cells took.

    Attributes:
        seconds: of processor time, for each student.
        ended: students of whom a cell ended its kernel: it counts nothing, and the rest ran in
            another.
    """

    seconds: dict[str, float] = field(default_factory=dict)
    ended: list[str] = field(default_factory=list)

    def total(self, works: Iterable[Work]) -> float:
        """Return the seconds of all of these."""
        return sum(self.seconds[work.student] for work in works)


def measure_limit(
    course: Path, works: Iterable[Work], advance: Callable[[], None] = lambda: None
) -> Limit:
    """Run the cells of ``works``.

    Args:
        course: a course that has the assignment.
        works: the submissions.
        advance: called after each.
    """
    assignment = register(course, CHAPTER)
    settings = Settings()
    limits = KernelLimits(settings.memory_mib * _MIB, settings.processes, settings.disk_mib * _MIB)
    limit = Limit()
    warm = WarmProcess(limits, assignment.data)
    try:
        for work in works:
            cells = _Cells(warm, settings)
            for code, seconds in _cells_of(work, assignment, settings):
                cells.run(code, seconds)
            cells.close()
            limit.seconds[work.student] = cells.seconds
            if cells.has_ended:
                limit.ended.append(work.student)
            advance()
    finally:
        warm.close()
    return limit


def _cells_of(
    work: Work, assignment: Assignment, settings: Settings
) -> Iterable[tuple[str, float]]:
    """Return the cells that are run when the work is judged, each with its time limit."""
    try:
        notebook = sanitize(work.notebook, assignment).notebook
    except MalformedError:
        return
    for cell in notebook.cells:
        if cell.cell_type == "code" and not cell.metadata.get(SKIP):
            is_test = cell.metadata.get("nbgrader", {}).get("grade", False)
            yield cell.source, settings.exercise_seconds if is_test else settings.cell_seconds


class _Cells:
    """The cells of one submission, running; a cell that ends the kernel is left out of the next."""

    def __init__(self, warm: WarmProcess, settings: Settings) -> None:
        self.seconds = 0.0
        self.has_ended = False
        self._warm = warm
        self._settings = settings
        self._kernel: Kernel | None = None
        self._ran: list[tuple[str, float]] = []

    def run(self, code: str, seconds: float) -> None:
        """Run one cell and count its time."""
        try:
            kernel = self._kernel or self._start()
            timed_out, _ = _ask(kernel, code, seconds)
            spent = seconds if timed_out else _read_clock(kernel)
        except KernelEndedError:
            self._kernel = None
            self.has_ended = True
            return
        self.seconds += spent
        if not timed_out:
            self._ran.append((code, seconds))

    def close(self) -> None:
        if self._kernel is not None:
            self._kernel.close()

    def _start(self) -> Kernel:
        self._kernel = self._warm.start_kernel(_SEED)
        _ask(self._kernel, _CLOCK, self._settings.cell_seconds)
        for code, seconds in self._ran:
            _ask(self._kernel, code, seconds)
        return self._kernel


def _read_clock(kernel: Kernel) -> float:
    _, outputs = _ask(kernel, _READ_CLOCK, 1.0)
    said = "".join(output.get("text", "") for output in outputs)
    found = _CLOCK_SAYS.search(said)
    if found is None:
        raise BenchmarkError(
            "The clock in a submission's kernel was put out of order by its code: take another "
            "hostile submission into benchmarks/submissions.py."
        )
    return float(found[1])


def _ask(kernel: Kernel, code: str, seconds: float) -> tuple[bool, list[dict]]:
    """Run a cell; return whether it was stopped, and its outputs."""
    message = {"do": "run", "code": code, "seconds": seconds}
    answer = kernel.request(message, kernel.clock(seconds + _SECONDS_OF_GRACE))
    return answer["timed_out"], answer["outputs"]
