"""Plain nbgrader and ``bits grade``, run by their command lines as an instructor would."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.errors import BenchmarkError
from benchmarks.memory import Peak, watch
from benchmarks.submissions import CHAPTER

_SCRIPTS = Path(sys.executable).parent
_CONVERTING = re.compile(r"Converting notebook .*/submitted/([^/]+)/")


@dataclass(frozen=True)
class Run:
    """One run of a command.

    Attributes:
        seconds: from its start to its end.
        each: for each student the seconds that it took, where that can be told.
        peak: the most memory that it held, if that was watched.
        load: of the machine when it began, the mean of the minute before.
    """

    seconds: float
    each: dict[str, float] = field(default_factory=dict)
    peak: Peak = field(default_factory=Peak)
    load: float = 0.0


def run_nbgrader(course: Path, advance: Callable[[], None] = lambda: None) -> Run:
    """Run ``nbgrader autograde`` on the class; its assignment is made before, untimed.

    It ends with an error if a single submission failed, so its exit code says nothing here.

    Args:
        course: the course's folder.
        advance: called for each submission that is begun.
    """
    _make_assignment(course)
    log: list[tuple[float, str]] = []
    began = time.perf_counter()
    process = _start([sys.executable, "-m", "nbgrader", "autograde", CHAPTER], course)
    with _ending(process):
        for line in process.stdout:
            log.append((time.perf_counter() - began, line))
            if _CONVERTING.search(line):
                advance()
        process.wait()
    seconds = time.perf_counter() - began
    each = split_log(log, seconds)
    if not each:
        raise BenchmarkError(f"nbgrader graded nothing: {_last_line(t for _, t in log)}")
    return Run(seconds, each)


def split_log(log: Iterable[tuple[float, str]], end: float) -> dict[str, float]:
    """Return how long nbgrader was at each student's work.

    Args:
        log: its lines, each with the second at which it came.
        end: the second at which it ended.
    """
    starts = [(at, found[1]) for at, line in log if (found := _CONVERTING.search(line))]
    ends = [at for at, _ in starts[1:]] + [end]
    return {student: stop - at for (at, student), stop in zip(starts, ends, strict=True)}


def run_bits(
    course: Path, advance: Callable[[int], None] = lambda done: None, *, watched: bool = False
) -> Run:
    """Run ``bits grade`` on the class.

    Args:
        course: the course's folder.
        advance: called now and then with the number of submissions that are done.
        watched: whether to watch its memory, which costs a little of its time.
    """
    done = course / "judged" / CHAPTER / "students"
    load = os.getloadavg()[0]
    began = time.perf_counter()
    process = _start([str(_SCRIPTS / "bits"), "grade", CHAPTER], course)
    with _ending(process), watch(process.pid if watched else None) as watching:
        while True:
            try:
                output, _ = process.communicate(timeout=0.5)
                break
            except subprocess.TimeoutExpired:
                advance(sum(1 for _ in done.glob("*.json")))
    seconds = time.perf_counter() - began
    if process.returncode:
        raise BenchmarkError(
            f"bits grade ended with {process.returncode}: {_last_line(output.splitlines())}"
        )
    return Run(seconds, peak=watching.peak if watching else Peak(), load=load)


def _make_assignment(course: Path) -> None:
    process = _start([sys.executable, "-m", "nbgrader", "generate_assignment", CHAPTER], course)
    with _ending(process):
        output, _ = process.communicate()
    if process.returncode:
        raise BenchmarkError(f"nbgrader made no assignment: {_last_line(output.splitlines())}")


def _start(command: list[str], course: Path) -> subprocess.Popen:
    path = f"{_SCRIPTS}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    return subprocess.Popen(
        command,
        cwd=course,
        env={**os.environ, "PATH": path},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )


@contextlib.contextmanager
def _ending(process: subprocess.Popen) -> Iterator[None]:
    """End the process with the body, also where the body is stopped."""
    try:
        yield
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stdout.close()


def _last_line(lines: Iterable[str]) -> str:
    said = [line.strip() for line in lines if line.strip()]
    return said[-1] if said else "it gave no reason"
