"""Judge one's own notebook with the hidden tests, too, and write the page that students get.

No gradebook is made or read. Where there is no sandbox, the code runs in a process of its own: it
is one's own. For the same reason nothing waits for a person: points that would, count.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from helpers.catalogue import find_chapter, find_exercise, load_chapters
from helpers.files import write_atomically
from helpers.grading.errors import GradingError
from helpers.grading.judge.judge import close_warm_processes, judge_submission
from helpers.grading.progress import Progress
from helpers.grading.records.registration import read_assignment
from helpers.grading.records.settling import settle
from helpers.grading.report.feedback import render_feedback
from helpers.grading.report.marks import Mark, Marks
from helpers.grading.report.tables import Row, number
from helpers.grading.sandbox import sandbox
from helpers.grading.settings import Settings
from helpers.workspace import find_workspace


@dataclass(frozen=True)
class Outcome:
    """What was judged, what it came to, and where the page lies."""

    notebook: Path
    marks: Marks
    page: Path
    sandboxed: bool


def mark(
    root: Path,
    chapter: str | None,
    start: Path,
    report: Callable[[Progress], None] = lambda progress: None,
) -> Outcome:
    """Judge one's own notebook of ``chapter`` and write ``build/mark/CHAPTER.html``.

    Args:
        root: the repository.
        chapter: its name or number; the chapter of the notebook that was saved last if None.
        start: the folder from which one's own copy of the chapters is looked for.
        report: called as exercises are judged.

    Raises:
        KeyError: there is no such chapter.
        GradingError: there is nothing to judge, or nothing to judge it with.
        RegistrationError, JudgingError: it cannot be judged; the text says why.
    """
    course = root / "course"
    if not (course / "source").is_dir():
        raise GradingError(
            "bits mark needs the hidden tests, and this copy of the course has none: use the "
            "repository that it was published from"
        )
    work = find_workspace(start) or root / "work"
    name, notebook = _find_notebook(course / "release", work, chapter)
    assignment = read_assignment(course, name)
    settings = Settings(sandboxed=_has_sandbox())
    seen: set[str] = set()
    report(Progress(len(assignment.exercises)))

    def tell(exercise: str) -> None:
        seen.add(exercise)
        report(Progress(len(assignment.exercises), len(seen)))

    try:
        judged = judge_submission(notebook.read_bytes(), assignment, settings, tell)
    finally:
        close_warm_processes()
    judged = settle(judged, {(result.name, result.code): True for result in judged.exercises})
    marks = Marks(tuple(Mark(r.name, r.points, r.most, r) for r in judged.exercises))
    card = find_chapter(name)
    title = f"{name.split('-')[0]} · {card.title}"
    row = Row("your own notebook", marks=marks)
    page = root / "build" / "mark" / f"{name}.html"
    page.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(page, render_feedback(row, judged.notebook, name, title, _label))
    return Outcome(notebook, marks, page, settings.sandboxed)


def summarize(outcome: Outcome) -> list[str]:
    """Return the lines that describe the outcome."""
    marks = outcome.marks
    where = "in the sandbox" if outcome.sandboxed else "in a process of its own, without a sandbox"
    whole = sum(mark.points >= mark.most for mark in marks.each)
    return [
        f"{outcome.notebook}, judged {where}, with the hidden tests:",
        f"{number(marks.points)} of {number(marks.most)} points; {whole} of {len(marks.each)} "
        "exercises are solved.",
        f"The page: {outcome.page}",
    ]


def _has_sandbox() -> bool:
    try:
        sandbox.check_available()
    except sandbox.SandboxError:
        return False
    return True


def _find_notebook(release: Path, work: Path, chapter: str | None) -> tuple[str, Path]:
    """Return the chapter's name, and one's own notebook of it."""
    if chapter is None:
        return _find_saved_last(release, work)
    name = find_chapter(chapter).name
    given = _released(release, name)
    if given is None:
        raise GradingError(f"there is no notebook of {name} in {release}: run make build")
    own = work / name / given.name
    return name, own if own.is_file() else given


def _find_saved_last(release: Path, work: Path) -> tuple[str, Path]:
    """Return that of the notebooks in ``work`` that are not as they were given out."""
    edited = []
    for chapter in load_chapters():
        given = _released(release, chapter.name)
        own = given and work / chapter.name / given.name
        if given and own and own.is_file() and own.read_bytes() != given.read_bytes():
            edited.append((own.stat().st_mtime_ns, chapter.name, own))
    if not edited:
        raise GradingError(
            f"none of the notebooks in {work} has been edited: name a chapter, such as bits mark 01"
        )
    _, name, own = max(edited)
    return name, own


def _released(release: Path, chapter: str) -> Path | None:
    return next(iter(sorted((release / chapter).glob("*.ipynb"))), None)


def _label(exercise: str) -> str:
    card = find_exercise(exercise)
    return f"{card.number} · {card.title}"
