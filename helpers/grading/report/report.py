"""The last stage of grading: tables, feedback pages and a picture of the class.

``write_report`` reads what was judged and what the gradebook says, and writes into
``reports/ASSIGNMENT/``: ``index.html`` for the instructor, ``grades.csv``, tables for Moodle and
Canvas, the class's picture, ``hidden-tests.html`` with what students are not told, and
``feedback/STUDENT.html``. Each feedback page is also put where
nbgrader looks for it, ``feedback/STUDENT/ASSIGNMENT/NOTEBOOK.html``, so that ``nbgrader
release_feedback`` gives it out. Done again, it replaces what it wrote, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from helpers.catalogue import find_chapter, find_exercise
from helpers.grading.caps import Caps
from helpers.grading.errors import GradingError, ReportError
from helpers.grading.names import assign_id, find_fault, printable, reduce_to_id
from helpers.grading.records.class_list import ClassEntry, read_class
from helpers.grading.records.submissions import find_notebook
from helpers.grading.report.answers import read_answers, read_course
from helpers.grading.report.class_picture import draw_class
from helpers.grading.report.feedback import render_feedback
from helpers.grading.report.marks import GradebookView, Marks, read_gradebook
from helpers.grading.report.needs import waiting_of
from helpers.grading.report.overview import render_overview, summarize_class
from helpers.grading.report.own_files import OwnFiles, own_files
from helpers.grading.report.senders import Sender, read_senders
from helpers.grading.report.tables import Row, canvas_table, grades_table, moodle_table, read_column
from helpers.grading.report.tally import Tally
from helpers.grading.report.withheld import render_withheld
from helpers.grading.waiting import tell_waiting

_INDEX = "index.html"
_CANVAS = "lms-canvas.csv"
_TABLES = (
    ("grades.csv", "everybody's points and verdicts"),
    ("lms-moodle.csv", "for Moodle to import"),
    (_CANVAS, "for Canvas to import"),
)
_PICTURES = ("class.png", "class.svg")
_WITHHELD = "hidden-tests.html"
_STAMPS = ("timestamp.txt", "submission_secret.txt")  # nbgrader's release_feedback needs them


_CAPS = Caps()


@dataclass(frozen=True)
class Summary:
    """What was written, and what to say of it.

    Attributes:
        index: the instructor's page.
        sentence: on the class.
        pages: how many feedback pages there are.
        needing: who needs a person, and why.
        left_out: who is not in a table to import, and why.
        kept: how many feedback pages could not be put where nbgrader looks for them.
        waiting: a line on the points that wait for a person; none if none do.
    """

    index: Path
    sentence: str
    pages: int
    needing: list[tuple[str, str]]
    left_out: list[tuple[str, str]]
    kept: int
    waiting: list[str]


def write_report(
    course: Path, assignment: str, output: Path | None = None, column: str | None = None
) -> Summary:
    """Write the report on ``assignment``.

    Args:
        course: the folder ``course/``.
        assignment: a chapter, like ``08-numerical-stability``.
        output: where to; ``course/reports/ASSIGNMENT`` if None.
        column: what the learning management system calls the assignment.

    Raises:
        ReportError: there is nothing to report, or no place for it.
        GradingError: there is no such assignment.
    """
    entries = read_class(course, assignment)
    is_expected = entries and not any(entry.received_at for entry in entries)
    if not is_expected and not any(entry.judged for entry in entries):
        raise ReportError(
            f"Nothing of {assignment} has been graded yet: run bits grade {assignment} first."
        )
    output = output or course / "reports" / assignment
    with own_files(output) as report, own_files(course / "feedback") as nbgraders:
        report.require_own(_INDEX, _WITHHELD, *(name for name, _ in _TABLES), *_PICTURES)
        run = _Run(course, assignment, read_gradebook(course, assignment))
        rows = list(run.write_pages(entries, report, nbgraders))
        summary = run.write_class(rows, report, column)
        report.remove_others()
        nbgraders.remove_others(f"/{assignment}/")
    return summary


def renew_report(course: Path, assignment: str) -> Summary | None:
    """Write the report again where it lies by default; return None if there is none.

    Raises:
        ReportError: something of somebody else's is in its place.
    """
    output = course / "reports" / assignment
    if not (output / _INDEX).is_file():
        return None
    column = read_column(output / _CANVAS) if (output / _CANVAS).is_file() else None
    return write_report(course, assignment, output, column if column != assignment else None)


class _Run:
    """One run of ``write_report``."""

    def __init__(self, course: Path, assignment: str, view: GradebookView) -> None:
        self._course, self._assignment = course, assignment
        self._page = Path(find_notebook(course, assignment)).with_suffix(".html").name
        self._view = view
        self._title = _title(assignment)
        self._senders = read_senders(course / "received" / assignment)
        self._tally = Tally()
        self._solutions = read_course(course, assignment, find_notebook(course, assignment))
        self._kept = 0

    def write_pages(
        self, entries: list[ClassEntry], report: OwnFiles, nbgraders: OwnFiles
    ) -> Iterator[Row]:
        """Write the feedback pages, one after another, and yield the students."""
        page_names = _page_names(entry.student for entry in entries)
        for entry in entries:
            if entry.judged is None:
                yield self._row(entry)
                continue
            marks = self._view.marks(entry.student, entry.judged)
            self._tally.add(marks, entry.student)
            notebook, problem = _read_notebook(entry)
            names = [result.name for result in entry.judged.exercises]
            self._solutions.add(entry.student, read_answers(notebook, names))
            row = self._row(entry, marks, problem, page_names[entry.student])
            page = render_feedback(row, notebook, self._assignment, self._title, _label)
            report.write(f"feedback/{row.page}", page)
            self._place_for_nbgrader(entry.student, page, nbgraders)
            yield row

    def write_class(self, rows: list[Row], report: OwnFiles, column: str | None) -> Summary:
        """Write the tables, the picture and the instructor's pages."""
        moodle = moodle_table(rows, column)
        canvas = canvas_table(rows, self._assignment, column)
        contents = (grades_table(rows), moodle.content, canvas.content)
        for (name, _), content in zip(_TABLES, contents, strict=True):
            report.write(name, content)
        picture = draw_class(self._tally, self._title, _label) if self._tally.count else None
        if picture:
            for name, content in zip(_PICTURES, (picture.png, picture.svg), strict=True):
                report.write(name, content)
        files = list(_TABLES)
        withheld = render_withheld(rows, self._assignment, self._title, _label)
        if withheld:
            report.write(_WITHHELD, withheld)
            files.append((_WITHHELD, "what code did in hidden tests, for you only"))
        left_out = dict(moodle.left_out) | dict(canvas.left_out)
        overview = render_overview(
            rows,
            self._tally,
            picture,
            self._solutions,
            files,
            left_out.items(),
            self._view.due.date,
            self._assignment,
            self._title,
            _label,
        )
        report.write(_INDEX, overview)
        return Summary(
            report.folder / _INDEX,
            summarize_class(rows, self._tally),
            self._tally.count,
            [(row.student, "; ".join(row.for_a_person)) for row in rows if row.for_a_person],
            list(left_out.items()),
            self._kept,
            tell_waiting(self._assignment, waiting_of(rows)),
        )

    def _row(
        self, entry: ClassEntry, marks: Marks | None = None, problem: str = "", page: str = ""
    ) -> Row:
        reasons = tuple(_reasons(entry, marks, problem))
        notes = (note.rstrip(".") for note in entry.judged.notes) if entry.judged else ()
        return Row(
            entry.student,
            entry.first_name,
            entry.last_name,
            entry.email,
            self._senders.get(entry.student, Sender()),
            entry.received_at,
            marks,
            reasons,
            tuple(note for note in notes if note not in reasons),
            page,
            self._view.due.late(entry.student, entry.received_at),
        )

    def _place_for_nbgrader(self, student: str, page: bytes, nbgraders: OwnFiles) -> None:
        # Not every id that a gradebook may hold is a folder's name.
        if "/" in student or student.startswith(".") or find_fault(student, _CAPS):
            self._kept += 1
            return
        folder = f"{student}/{self._assignment}"
        if nbgraders.is_strange(f"{folder}/{self._page}"):
            self._kept += 1
            return
        nbgraders.write(f"{folder}/{self._page}", page)
        for name in _STAMPS:
            stamp = self._course / "submitted" / folder / name
            if stamp.is_file() and not nbgraders.is_strange(f"{folder}/{name}"):
                nbgraders.write(f"{folder}/{name}", stamp.read_bytes())


def summarize(summary: Summary) -> list[str]:
    """Return the lines that say to the instructor what was written."""
    lines = [f"The report: {summary.index}", summary.sentence]
    lines.append(f"Feedback pages: {summary.pages:,}, in {summary.index.parent / 'feedback'}.")
    if summary.kept:
        lines.append(
            f"{summary.kept:,} of them are not in nbgrader's folder feedback/: the page there "
            f"is nbgrader's or was changed, or the student's id cannot be a folder's name."
        )
    for student, reasons in summary.needing:
        lines.append(f"To be looked at: {printable(student)}: {printable(reasons)}.")
    lines += summary.waiting
    for student, reason in summary.left_out:
        lines.append(f"Not in the tables to import: {printable(student)}: {printable(reason)}.")
    return lines


def _reasons(entry: ClassEntry, marks: Marks | None, problem: str) -> Iterator[str]:
    """Yield why a person should look at a student's work."""
    if marks is None:
        if entry.received_at:
            yield "not judged yet: run bits grade"
        return
    if not entry.is_current:
        yield "the submission that counts has not been judged: run bits grade"
    if problem:
        yield problem
    reasons = [mark.for_a_person.rstrip(".") for mark in marks.each]
    if len(set(reasons)) == 1:
        yield from filter(None, reasons[:1])
        return
    for mark, reason in zip(marks.each, reasons, strict=True):
        if reason:
            yield f"{mark.name}: {reason}"


def _read_notebook(entry: ClassEntry) -> tuple[bytes, str]:
    """Return the judged notebook, and what a person should know if there is a problem."""
    try:
        return entry.read_notebook(), ""
    except GradingError as error:
        return b"", str(error).rstrip(".")


def _page_names(students: Iterable[str]) -> dict[str, str]:
    """Return a safe file name for each student: the id itself, where it is one."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    for student in sorted(
        students, key=lambda student: (reduce_to_id(student) != student, student)
    ):
        name = assign_id(student, student, lambda other: other.casefold() in taken)
        taken.add(name.casefold())
        names[student] = f"{name}.html"
    return names


def _title(assignment: str) -> str:
    try:
        return f"{assignment.split('-')[0]} · {find_chapter(assignment).title}"
    except KeyError:
        return assignment


def _label(exercise: str) -> str:
    try:
        card = find_exercise(exercise)
    except KeyError:
        return exercise
    return f"{card.number} · {card.title}"
