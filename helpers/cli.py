"""The command ``bits``."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

try:
    import click
except ModuleNotFoundError:
    sys.exit('bits: its command line needs click and rich: pip install "bits-and-gradients[lab]"')

from helpers import __version__

if TYPE_CHECKING:
    from helpers.grading.progress import Progress as GradingProgress


class _Side(NamedTuple):
    """Whose commands, in the order of their work, and what they need."""

    title: str
    names: tuple[str, ...]
    # The students' copy of the course has neither grading nor authoring.
    package: str
    extra: str
    set_up_by: str


_SIDES = (
    _Side("As a student", ("lab", "progress", "hint"), "helpers", "lab", "make lab"),
    _Side("As an independent learner", ("mark",), "helpers.grading", "instructor", "make staff"),
    _Side(
        "As an instructor",
        ("publish", "staff", "collect", "grade", "review", "report", "demo"),
        "helpers.grading",
        "instructor",
        "make staff",
    ),
    _Side(
        "As a maintainer",
        ("build", "record", "book"),
        "helpers.authoring",
        "maintainer",
        "make setup",
    ),
)


class _Commands(click.Group):
    """The commands that this copy of the course has; each expected error is one sentence."""

    def list_commands(self, context: click.Context) -> list[str]:
        return [name for _, names in self._sides_here() for name in names]

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name in self.commands and name not in self.list_commands(context):
            raise click.ClickException(
                f"bits {name} is not in the students' copy of the course: use the repository from "
                f"which this copy was published"
            )
        return super().get_command(context, name)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        for title, names in self._sides_here():
            with formatter.section(title):
                formatter.write_dl([(n, self.commands[n].get_short_help_str()) for n in names])

    def invoke(self, context: click.Context) -> object:
        try:
            return super().invoke(context)
        except ModuleNotFoundError as error:
            side = next((s for s in _SIDES if context.invoked_subcommand in s.names), None)
            package = (error.name or "helpers").split(".")[0]
            if side is None or package == "helpers":
                raise
            raise click.ClickException(
                f"bits {context.invoked_subcommand} needs {package}, which is not installed "
                f"here: run {side.set_up_by} once, or pip install "
                f"'bits-and-gradients[{side.extra}]'"
            ) from error
        except Exception as error:
            if type(error).__module__.startswith("helpers."):
                raise click.ClickException(str(error)) from error
            raise

    def _sides_here(self) -> Iterator[tuple[str, list[str]]]:
        for side in _SIDES:
            if importlib.util.find_spec(side.package) is not None:
                yield side.title, [name for name in side.names if name in self.commands]


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__)
def main() -> None:
    """Bits & Gradients: the numerics and the memory of PyTorch training, in notebooks.

    Each command explains its options with --help.
    """


def _root() -> Path:
    """Return the root of this copy of the course: this folder, or the nearest one above it."""
    for folder in (Path.cwd(), *Path.cwd().parents):
        parts = (folder / "course" / name for name in ("release", "nbgrader_config.py"))
        if any(part.exists() for part in parts):
            return folder
    raise click.ClickException(
        "this folder is not inside a copy of the course: there is no course/ here or above; "
        "change to the folder that you cloned"
    )


def _enter_workspace() -> None:
    """From the cloned folder, change to the student's copy, where the progress is kept."""
    from helpers.workspace import find_workspace

    work = Path("work")
    if find_workspace(Path.cwd()) is None and work.is_dir():
        os.chdir(work)


@contextlib.contextmanager
def _unknown_names_explained() -> Iterator[None]:
    try:
        yield
    except KeyError as error:
        raise click.ClickException(str(error.args[0])) from error


def _whole_name(context: click.Context, parameter: click.Parameter, name: str) -> str:
    """Return a chapter's whole name for its number; any other name as it is.

    An assignment of the course's own that has a number for its name comes first.
    """
    from helpers.catalogue import find_chapter

    try:
        whole = find_chapter(name).name
    except KeyError:
        return name
    is_own = whole != name and (_root() / "course" / "source" / name).is_dir()
    return name if is_own else whole


_assignment = click.argument("assignment", callback=_whole_name)
_PORT = click.option("--port", type=int, help="The port to use; by default a free one.")
_PASSES_ON = {"ignore_unknown_options": True, "allow_interspersed_args": True}


@main.command(
    context_settings=_PASSES_ON, short_help="Open your copy of the chapters in JupyterLab."
)
@_PORT
@click.argument("jupyter_options", nargs=-1, type=click.UNPROCESSED)
def lab(port: int | None, jupyter_options: tuple[str, ...]) -> None:
    """Open your own copy of the chapters, the folder work/, in JupyterLab.

    New chapters are copied there first. Notebooks that you have edited stay unchanged. Other
    options, such as --no-browser, are passed on to JupyterLab.
    """
    from helpers.lab import serve_student
    from helpers.start_page import write_start_page
    from helpers.workspace import deliver, summarize

    root = _root()
    for line in summarize(deliver(root / "course" / "release", root / "work")):
        click.echo(line)
    write_start_page(root / "work")
    sys.exit(serve_student(root / "work", port, jupyter_options))


@main.command(
    context_settings=_PASSES_ON, short_help="Open the course in JupyterLab with formgrader."
)
@_PORT
@click.argument("jupyter_options", nargs=-1, type=click.UNPROCESSED)
def staff(port: int | None, jupyter_options: tuple[str, ...]) -> None:
    """Open the folder course/ in JupyterLab, with nbgrader's formgrader.

    Other options, such as --no-browser, are passed on to JupyterLab.
    """
    from helpers.lab import serve_staff

    sys.exit(serve_staff(_root() / "course", port, jupyter_options))


_FILE = click.Path(path_type=Path)


@main.command(short_help="Write the students' copy of the course.")
@click.argument("destination", metavar="DEST", type=_FILE)
@click.option("--address", metavar="URL", help="The students' repository, for Colab.")
def publish(destination: Path, address: str | None) -> None:
    """Write the students' copy of the course into the folder DEST.

    The copy has the chapters and everything that `make lab` needs, but no solutions, no hidden
    tests and no grading. Publishing again brings it up to date and leaves files alone that you
    added there; if a published file was edited there, the command names it and writes nothing. DEST
    may be a git checkout. On Colab, notebooks install the helpers from URL, which is remembered in
    DEST; without one, from this repository's own address.
    """
    from helpers.authoring.publish import publish as publish_course
    from helpers.authoring.publish import summarize

    root = _root()
    update = publish_course(root, destination, address)
    for line in summarize(update, root, destination):
        click.echo(line)


@main.command(short_help="Collect submissions for nbgrader.")
@click.argument("path", type=_FILE)
@click.option(
    "--assignment",
    "-A",
    required=True,
    callback=_whole_name,
    help="The chapter, such as 08 or 08-numerical-stability.",
)
@click.option(
    "--roster",
    type=_FILE,
    help="The class list: a CSV file with the column student_id and, if there are any, name (or "
    "first_name and last_name), email and lms_id.",
)
@click.option(
    "--pattern",
    help="A regex that is searched for in each file's path inside PATH: (?P<student>...) is the "
    "student's id; (?P<name>...), the person's name, and (?P<file>...), the notebook's name, are "
    "optional.",
)
@click.option("--student", help="The student, if PATH is the work of only one.")
def collect(
    path: Path, assignment: str, roster: Path | None, pattern: str | None, student: str | None
) -> None:
    """Collect the submissions in PATH: a folder, a zip from Moodle or Canvas, or one notebook.

    Each submission is kept unchanged in course/received, with a receipt. The one that counts is
    copied to course/submitted, where nbgrader looks for it. Names and email addresses from the
    roster go into the gradebook where it has none. Collecting the same files again changes nothing.
    """
    from helpers.grading.startup import leave_out_address_grammar

    leave_out_address_grammar()
    from helpers.grading.intake.intake import collect as collect_submissions
    from helpers.grading.intake.intake import summarize

    course = _root() / "course"
    summary = collect_submissions(
        path, course, assignment, roster=roster, pattern=pattern, student=student
    )
    for line in summarize(summary):
        click.echo(line)
    if summary.expected:
        from helpers.grading.records.enrollment import enroll  # nbgrader takes a while to load

        new = enroll(course, summary.expected)
        if new:
            click.echo(f"New in the gradebook: {new} of the {len(summary.expected)} on the roster.")


@main.command(short_help="Judge the submissions and write the gradebook.")
@_assignment
@click.option("--force", is_flag=True, help="Judge again what has been judged already.")
@click.option(
    "--jobs",
    type=click.IntRange(1),
    help="How many to judge at a time; by default one for each core.",
)
@click.option("--scheduler", metavar="ADDRESS", help="Judge on the workers of a Dask scheduler.")
@click.option("--student", "students", multiple=True, help="Only this student; may be repeated.")
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as one JSON document.")
@click.option(
    "--without-sandbox",
    is_flag=True,
    help="Run student code without a sandbox, with the rights of the process that judges it.",
)
def grade(
    assignment: str,
    force: bool,
    jobs: int | None,
    scheduler: str | None,
    students: tuple[str, ...],
    as_json: bool,
    without_sandbox: bool,
) -> None:
    """Judge the submissions of ASSIGNMENT, and write the points into the gradebook.

    ASSIGNMENT is a chapter's number or name, such as 08. Submissions that have been judged
    already are skipped, so a run that was stopped is finished by the next one. Scores, extra
    credit and comments that people entered are kept, even with --force. The exit status is 1
    if, through no fault of the student, a submission could not be graded.
    """
    from helpers.grading.startup import leave_out_address_grammar

    leave_out_address_grammar()
    course = _root() / "course"
    from helpers.grading.records.results import judged_folder

    if scheduler is None and not judged_folder(course, assignment).exists():
        from helpers.grading.engine import workers

        workers.load_ahead()  # beside what is imported here
    from helpers.grading.engine import engine
    from helpers.grading.engine.summary import summarize

    settings = engine.Settings(sandboxed=not without_sandbox)
    if scheduler is None:
        click.echo(engine.describe_sandbox(settings), err=True)
    with _grading_bar() as report:
        summary = engine.grade(
            course,
            assignment,
            settings=settings,
            scheduler=scheduler,
            jobs=jobs,
            force=force,
            students=students,
            report=report,
            say=lambda line: click.echo(line, err=True),
        )
    if as_json:
        click.echo(json.dumps(summary.to_plain(), indent=1))
    else:
        click.echo("\n".join(summarize(summary)))
    if summary.interrupted:
        sys.exit(130)
    sys.exit(1 if summary.failed else 0)


@contextlib.contextmanager
def _grading_bar() -> Iterator[Callable[[GradingProgress], None]]:
    """Show the progress, on a terminal only; skipped submissions do not affect the estimate."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    console = Console(stderr=True)
    columns = ("judging", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bars:
        task = bars.add_task("judging", total=None)

        def show(progress: GradingProgress) -> None:
            left_out = progress.known
            bars.update(task, total=progress.all - left_out, completed=progress.done - left_out)

        yield show


@main.command(short_help="Judge your own notebook, also with the hidden tests.")
@click.argument("chapter", required=False)
@click.option("--no-browser", is_flag=True, help="Do not open the page.")
def mark(chapter: str | None, no_browser: bool) -> None:
    """Judge your own notebook of CHAPTER like a class's notebooks, and open the feedback page.

    CHAPTER is a number or a name, such as 08. Its notebook is taken from work/ or, if there is
    none, from course/release. Without CHAPTER, the notebook in work/ that you edited and saved
    last is judged. It is judged with the hidden tests, in a sandbox if this machine has one.
    Points that would wait for a person in a class count at once. No gradebook is made or
    changed.
    """
    from helpers.grading.startup import leave_out_address_grammar

    leave_out_address_grammar()
    from helpers.grading.own.marking import mark as mark_own
    from helpers.grading.own.marking import summarize
    from helpers.lab import has_display

    with _unknown_names_explained(), _grading_bar() as report:
        outcome = mark_own(_root(), chapter, Path.cwd(), report)
    click.echo("\n".join(summarize(outcome)))
    if has_display() and not no_browser:
        click.launch(str(outcome.page))


@main.command(short_help="Show points that wait for your decision, and decide.")
@_assignment
@click.option("--list", "action", flag_value="", default=True, help="Show the cases; the default.")
@click.option("--accept", "action", flag_value="accept", help="Let the waiting points count.")
@click.option(
    "--refuse", "action", flag_value="refuse", help="Do not let the waiting points count."
)
@click.option("--reopen", "action", flag_value="reopen", help="Take decisions back.")
@click.option("--student", "students", multiple=True, help="Only this student; may be repeated.")
@click.option("--exercise", "exercises", multiple=True, help="Only this exercise, such as softmax.")
@click.option("--reason", default="", help="Only cases with this reason, such as sys._getframe.")
@click.option(
    "--all", "everything", is_flag=True, help="With --accept, --refuse or --reopen: all cases."
)
@click.option("--json", "as_json", is_flag=True, help="Print the cases as one JSON document.")
def review(
    assignment: str,
    action: str,
    students: tuple[str, ...],
    exercises: tuple[str, ...],
    reason: str,
    everything: bool,
    as_json: bool,
) -> None:
    """Show which points of ASSIGNMENT wait for a person and why, or decide whether they count.

    ASSIGNMENT is a chapter's number or name, such as 08. A decision applies to the code that
    was reviewed, even if it is graded again, and to no other code. The gradebook, the judged
    notebooks and the report in course/reports are updated at once, and nothing is judged again.
    """
    from helpers.grading.startup import leave_out_address_grammar

    leave_out_address_grammar()
    from rich.console import Console

    from helpers.grading.review.cases import Selection, find_cases
    from helpers.grading.review.review import Action, decide
    from helpers.grading.review.shown import show_cases, show_outcome, to_plain

    course = _root() / "course"
    selection = Selection(students, exercises, reason)
    if action and not everything and selection == Selection():
        raise click.ClickException(
            f"choose what to {action}: --student, --exercise, --reason, or --all"
        )
    problem = ""
    if action:
        outcome = decide(course, assignment, Action(action), selection)
        shown, problem = show_outcome(outcome), outcome.problem
        changed = {change.case.about for change in outcome.changes}
        chosen = [case for case in outcome.cases.all if case.about in changed]
    else:
        found = find_cases(course, assignment)
        chosen = found.select(selection)
        shown = show_cases(found, chosen)
    if as_json:
        click.echo(json.dumps(to_plain(chosen), indent=1))
        if problem:
            click.echo(problem, err=True)
    else:
        console = Console(highlight=False, emoji=False, markup=False)
        for each in shown:
            console.print(each, crop=False)
    sys.exit(1 if problem else 0)


@main.command(short_help="Write tables, feedback pages and charts of the results.")
@_assignment
@click.option("--output", type=_FILE, help="The folder; by default course/reports/ASSIGNMENT.")
@click.option("--column", help="The assignment's name in your learning management system.")
@click.option("--open", "opens", is_flag=True, help="Open the report's first page.")
def report(assignment: str, output: Path | None, column: str | None, opens: bool) -> None:
    """Write the report on ASSIGNMENT; grade the submissions that you have collected first.

    ASSIGNMENT is a chapter's number or name, such as 08. The report has a table of everybody's
    points, tables for Moodle and Canvas to import, a feedback page for each student, and charts of
    the results. A new report replaces the old one. For Canvas, --column looks like "Stability
    (4711)", with the number from Canvas's own export.
    """
    from helpers.grading.startup import leave_out_address_grammar

    leave_out_address_grammar()
    from helpers.grading.report.report import summarize, write_report

    summary = write_report(_root() / "course", assignment, output, column)
    for line in summarize(summary):
        click.echo(line)
    if opens:
        click.launch(str(summary.index))


@main.command(short_help="Grade an invented class, to see everything first.")
@click.option(
    "--assignment",
    "-A",
    default="08-numerical-stability",
    show_default=True,
    callback=_whole_name,
    help="The chapter that the students hand in.",
)
@click.option(
    "--students",
    "size",
    type=click.IntRange(9, 999),
    default=24,
    show_default=True,
    help="How many students to invent.",
)
@click.option("--output", type=_FILE, help="The demo's folder; by default build/demo.")
@click.option("--no-browser", is_flag=True, help="Do not open the report.")
def demo(assignment: str, size: int, output: Path | None, no_browser: bool) -> None:
    """Collect, grade and report on a class of invented students, and open the report.

    The demo has its own course in build/demo/course and does not touch your class in course/. If
    you run it again, it grades only what has changed. Another chapter or number of students
    replaces the demo; give another folder with --output to keep both.
    """
    from helpers.grading.startup import leave_out_address_grammar

    leave_out_address_grammar()
    from helpers.grading.demo.demo import run_demo, summarize
    from helpers.lab import has_display

    root = _root()
    folder = output or root / "build" / "demo"
    with _grading_bar() as report:
        outcome = run_demo(root / "course", assignment, folder, size, say=click.echo, report=report)
    click.echo("\n".join(summarize(outcome)))
    if outcome.graded.interrupted:
        sys.exit(130)
    if outcome.report and has_display() and not no_browser:
        click.launch(str(outcome.report.index))
    sys.exit(1 if outcome.graded.failed else 0)


@main.command(short_help="Build the notebooks from the chapters' text.")
@click.argument("chapters", nargs=-1)
@click.option(
    "--force",
    is_flag=True,
    help="Run even chapters whose text has not changed, and measure everything anew.",
)
@click.option(
    "--check",
    is_flag=True,
    help="Build nothing; fail if any chapter's notebook, or another built file, is out of date.",
)
def build(chapters: tuple[str, ...], force: bool, check: bool) -> None:
    """Build the notebooks of CHAPTERS (by default all) from their text.

    Only chapters that have changed are run. CHAPTERS are names or numbers, such as 08.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn

    from helpers.authoring.build import Course, find_stale
    from helpers.authoring.build import build as build_notebooks

    course = Course(_root())
    if check:
        stale = list(find_stale(course))
        if stale:
            raise click.ClickException("\n".join(stale))
        return
    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns) as bars:
        tasks: dict[str, int] = {}

        def advance(chapter: str, done: int, cells: int) -> None:
            if chapter not in tasks:
                tasks[chapter] = bars.add_task(chapter, total=cells)
            bars.update(tasks[chapter], completed=done)

        built = build_notebooks(course, list(chapters) or None, force=force, report=advance)
    click.echo("built: " + (", ".join(built) or "nothing, everything is up to date"))


@main.command(short_help="Record what chapters measure on this machine's GPU.")
@click.argument("chapters", nargs=-1)
@click.option("--output", type=_FILE, help="The file; by default the one that chapters read.")
def record(chapters: tuple[str, ...], output: Path | None) -> None:
    """Run CHAPTERS (by default all) and record what cells tagged "recorded" print on a GPU.

    The figures are stored with the GPU, its driver, torch's version and the date, and chapters
    print them beside the reader's own. If torch finds no GPU, nothing is run or recorded. Build the
    chapters afterward, with --force.
    """
    from helpers.authoring.build import Course
    from helpers.authoring.record import record as record_figures

    names = record_figures(Course(_root()), list(chapters) or None, output)
    click.echo("recorded: " + (", ".join(names) or "nothing, torch finds no GPU here"))


@main.command(short_help="Show what you have solved.")
@click.argument("chapter", required=False)
def progress(chapter: str | None) -> None:
    """Show what you have solved in one CHAPTER, such as 08, or in the whole course."""
    from helpers import progress as show_progress

    _enter_workspace()
    with _unknown_names_explained():
        show_progress(chapter)


@main.command(short_help="Show the next hint for an exercise.")
@click.argument("exercise")
def hint(exercise: str) -> None:
    """Show the next hint for EXERCISE."""
    from helpers import hint as show_hint

    _enter_workspace()
    with _unknown_names_explained():
        show_hint(exercise)


@main.command(short_help="Build the book from the notebooks.")
@click.option("--serve", "serving", is_flag=True, help="Show the book and rebuild it on changes.")
@click.option("--port", type=int, default=3000, show_default=True, help="The port for --serve.")
def book(serving: bool, port: int) -> None:
    """Build the book from the notebooks, into build/book."""
    from helpers.authoring.book import build as build_book
    from helpers.authoring.book import serve

    if serving:
        sys.exit(serve(_root(), port))
    click.echo(f"The book's first page: {build_book(_root())}")
