"""The command: ``python -m mutants`` in the tests' folder, or ``make mutants``."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TimeElapsedColumn

from helpers.catalogue import Exercise, load_chapters
from mutants.explained import no_longer_there, read_explanations
from mutants.outcome import Outcome, make_tables
from mutants.trials import CannotBeTriedError, Choice, mutants_of, prepare, try_exercise

_WIDTH_OF_A_FILE = 160


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("names", metavar="[CHAPTER|EXERCISE]...", nargs=-1)
@click.option("--visible-only", is_flag=True, help="Try the students' check alone.")
@click.option("--cap", type=click.IntRange(1), help="Mutants of an exercise at most.")
@click.option(
    "--jobs",
    type=click.IntRange(1),
    default=2,
    show_default=True,
    help="Exercises that are tried at a time.",
)
def main(names: tuple[str, ...], visible_only: bool, cap: int | None, jobs: int) -> None:
    """Change each reference solution in one place, and see which checks notice.

    It ends with 1 if a mutant survives without a reason in equivalent_mutants.toml.
    """
    exercises = _choose(names)
    choice = Choice(visible_only, cap)
    explanations = read_explanations()
    outcome = Outcome(explanations, visible_only)
    console = Console()
    if not console.is_terminal:
        console = Console(width=_WIDTH_OF_A_FILE)
    made = {exercise: mutants_of(exercise, choice) for exercise in exercises}
    with _bars(console) as bars:
        task = bars.add_task("mutants", total=sum(map(len, made.values())))
        _try_all(outcome, made, choice, jobs, bars, task)
    for part in make_tables(outcome):
        console.print(part, highlight=False, soft_wrap=isinstance(part, str))
    if not names and cap is None:
        there = [(exercise.name, mutant) for exercise, found in made.items() for mutant in found]
        for gone in no_longer_there(explanations, there):
            console.print(f"no longer there: {gone.exercise}: {gone.became}", markup=False)
    sys.exit(1 if outcome.unexplained() or outcome.broken else 0)


def _choose(names: Sequence[str]) -> list[Exercise]:
    chosen = []
    known = [(chapter, exercise) for chapter in load_chapters() for exercise in chapter.exercises]
    for name in names:
        found = [e for c, e in known if name in (e.name, c.name, c.name.split("-")[0])]
        if not found:
            raise click.ClickException(f"there is no chapter or exercise {name}")
        chosen += found
    return chosen or [exercise for _, exercise in known]


def _try_all(
    outcome: Outcome,
    made: dict[Exercise, list],
    choice: Choice,
    jobs: int,
    bars: Progress,
    task: TaskID,
) -> None:
    def try_one(exercise: Exercise) -> list:
        tried = []
        for one in try_exercise(exercise, choice):
            tried.append(one)
            bars.advance(task)
        return tried

    prepare()
    results = {}
    with ThreadPoolExecutor(jobs) as pool:
        running = {pool.submit(try_one, exercise): exercise for exercise in made}
        for done in as_completed(running):
            try:
                results[running[done]] = done.result()
            except CannotBeTriedError as error:
                outcome.broken.append(str(error))
    for exercise in made:  # in the course's order, whichever came first
        outcome.tried += results.get(exercise, [])


@contextlib.contextmanager
def _bars(console: Console) -> Iterator[Progress]:
    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bars:
        yield bars


if __name__ == "__main__":
    main()
