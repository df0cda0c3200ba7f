"""The command: ``python -m benchmarks``, or ``make bench``."""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn

from benchmarks import ROOT
from benchmarks.course import Scores, count_graded, make_course, read_scores
from benchmarks.errors import BenchmarkError
from benchmarks.figure import draw_growth
from benchmarks.graders import Run, run_bits, run_nbgrader
from benchmarks.growth import measure_growth, sizes_up_to
from benchmarks.limit import Limit, measure_limit
from benchmarks.machine import count_cores, describe_machine
from benchmarks.outcome import Outcome, Times
from benchmarks.scores import compare, read_reasons
from benchmarks.submissions import USUAL_SIZE, Work, make_class
from benchmarks.tables import make_tables
from helpers.files import write_atomically

_OUTPUT = ROOT / "build" / "bench"
_WIDTH_OF_A_FILE = 120


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--class-size",
    type=click.IntRange(1),
    default=USUAL_SIZE,
    show_default=True,
    help="Submissions that both graders get.",
)
@click.option(
    "--most",
    type=click.IntRange(1),
    default=1000,
    show_default=True,
    help="Submissions of the largest class.",
)
@click.option("--skip-nbgrader", is_flag=True, help="Without the comparison, which takes longest.")
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=_OUTPUT,
    help="Where grading.json, .svg and .png go; build/bench if not given.",
)
def main(class_size: int, most: int, skip_nbgrader: bool, output: Path) -> None:
    """Measure how fast a class is graded.

    The same class is graded by plain nbgrader and by bits grade, and its cells are run by
    themselves: no grader can be faster than that. Then classes of growing size are graded. It ends
    with 1 if a score is wrong or missing; how fast it was decides nothing.
    """
    console = Console()
    if not console.is_terminal:
        console = Console(width=_WIDTH_OF_A_FILE)
    with _bars(console) as bars, tempfile.TemporaryDirectory(prefix="bits-bench-") as folder:
        try:
            outcome = _Benchmark(Path(folder), bars).run(class_size, most, skip_nbgrader)
        except Exception as error:
            if isinstance(error, BenchmarkError) or type(error).__module__.startswith("helpers."):
                raise click.ClickException(str(error)) from error
            raise
    for part in make_tables(outcome):
        console.print(part, highlight=False)
    for file in _write(outcome, output):
        console.print(f"Written: {file}", highlight=False, soft_wrap=True)
    sys.exit(1 if outcome.faults() else 0)


class _Benchmark:
    """One run of everything."""

    def __init__(self, folder: Path, bars: Progress) -> None:
        self._folder = folder
        self._bars = bars

    def run(self, size: int, most: int, skip_nbgrader: bool) -> Outcome:
        machine = describe_machine()
        works = make_class(size)
        prompt = [work for work in works if not work.waits]
        nbgrader, their_scores = (None, None) if skip_nbgrader else self._nbgrader(works)
        course, whole = self._bits("whole", works)
        again = run_bits(course)
        limit = self._limit(course, works)
        scores = read_scores(course, works)
        return Outcome(
            machine=machine,
            kinds=dict(Counter(work.kind for work in works)),
            whole=_times(works, whole, limit, nbgrader, again.seconds),
            prompt=self._prompt(works, prompt, limit, nbgrader),
            nbgraders_waits=_waits(works, nbgrader),
            ended=tuple(limit.ended),
            nbgrader_graded=None if their_scores is None else count_graded(their_scores),
            bits_graded=count_graded(scores),
            differences=tuple(compare(works, scores, their_scores, read_reasons(course))),
            growth=tuple(self._growth(most)),
        )

    def _nbgrader(self, works: list[Work]) -> tuple[Run, Scores]:
        course = make_course(self._folder / "nbgrader", works)
        task = self._bars.add_task("plain nbgrader", total=len(works))
        run = run_nbgrader(course, lambda: self._bars.advance(task))
        return run, read_scores(course, works)

    def _bits(self, name: str, works: list[Work]) -> tuple[Path, Run]:
        course = make_course(self._folder / name, works)
        task = self._bars.add_task(f"bits grade, {len(works)}", total=len(works))
        run = run_bits(course, lambda done: self._bars.update(task, completed=done))
        self._bars.update(task, completed=len(works))
        return course, run

    def _limit(self, course: Path, works: list[Work]) -> Limit:
        task = self._bars.add_task("the limit", total=len(works))
        return measure_limit(course, works, lambda: self._bars.advance(task))

    def _prompt(
        self, works: list[Work], prompt: list[Work], limit: Limit, nbgrader: Run | None
    ) -> Times | None:
        if not prompt or len(prompt) == len(works):
            return None
        _, run = self._bits("prompt", prompt)
        if nbgrader is not None:
            waited = sum(_waits(works, nbgrader).values())
            nbgrader = Run(nbgrader.seconds - waited)
        return _times(prompt, run, limit, nbgrader)

    def _growth(self, most: int) -> Iterator:
        sizes = sizes_up_to(most)
        task = self._bars.add_task("classes of growing size", total=sum(sizes))
        growth = measure_growth(
            self._folder, sizes, lambda done: self._bars.update(task, completed=done)
        )
        return iter(growth)


def _times(
    works: list[Work],
    bits: Run,
    limit: Limit,
    nbgrader: Run | None,
    again: float | None = None,
) -> Times:
    return Times(
        submissions=len(works),
        bits=bits.seconds,
        limit=limit.total(works) / count_cores(),
        again=again,
        nbgrader=nbgrader.seconds if nbgrader else None,
    )


def _waits(works: list[Work], nbgrader: Run | None) -> dict[str, float]:
    if nbgrader is None:
        return {}
    return {work.about: nbgrader.each.get(work.student, 0.0) for work in works if work.waits}


def _write(outcome: Outcome, folder: Path) -> Iterator[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    png, svg = draw_growth(outcome)
    text = json.dumps(outcome.to_plain(), indent=1) + "\n"
    for suffix, content in (("json", text.encode()), ("svg", svg), ("png", png)):
        file = folder / f"grading.{suffix}"
        write_atomically(file, content)
        yield file


@contextlib.contextmanager
def _bars(console: Console) -> Iterator[Progress]:
    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bars:
        yield bars


if __name__ == "__main__":
    main()
