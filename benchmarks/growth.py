"""How time and memory grow with the class."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.course import count_graded, make_course, read_scores
from benchmarks.graders import run_bits
from benchmarks.memory import Peak
from benchmarks.submissions import make_class

_SIZES = (10, 30, 100, 300, 1000, 3000, 10_000)


@dataclass(frozen=True)
class Point:
    """One class.

    Attributes:
        submissions: how many were handed in.
        graded: how many of them have all their scores in the gradebook.
        seconds: of the whole command.
        peak: the most memory that all its processes held at one time.
        load: of the machine when it began, the mean of the minute before.
    """

    submissions: int
    graded: int
    seconds: float
    peak: Peak
    load: float


@dataclass(frozen=True)
class Line:
    """Time as a straight line: so much to start, so much for each submission."""

    start: float
    each: float


def sizes_up_to(most: int) -> list[int]:
    """Return the sizes of classes that are tried, the largest of them ``most``."""
    return [size for size in _SIZES if size < most] + [most]


def measure_growth(
    folder: Path, sizes: Sequence[int], advance: Callable[[int], None] = lambda done: None
) -> list[Point]:
    """Grade classes of ``sizes``, none of whose work waits for a time limit.

    Args:
        folder: where the courses are made.
        sizes: how many submissions each has.
        advance: called now and then with the number of submissions that are done in all.
    """
    points: list[Point] = []
    for size in sizes:
        works = make_class(size, with_waiting=False)
        course = make_course(folder / f"class-of-{size}", works)
        before = sum(point.submissions for point in points)
        run = run_bits(course, lambda done, before=before: advance(before + done), watched=True)
        graded = count_graded(read_scores(course, works))
        points.append(Point(size, graded, run.seconds, run.peak, run.load))
        advance(before + size)
    return points


def fit_line(points: Sequence[Point]) -> Line | None:
    """Return the line through the smallest and the largest class; None if there is but one."""
    if len(points) < 2:
        return None
    first, last = points[0], points[-1]
    each = (last.seconds - first.seconds) / (last.submissions - first.submissions)
    return Line(first.seconds - each * first.submissions, each)
