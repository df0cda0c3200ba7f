"""The page that a student's JupyterLab opens on: what to do, what is solved, where to go on.

It is a Markdown file at the top of the student's folder, written when JupyterLab starts and after
every check.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from helpers.catalogue import Chapter, Exercise, load_chapters
from helpers.files import write_atomically
from helpers.progress_store import ProgressStore, count_points, current_workspace

START_PAGE = "START.md"
_MARK = (
    "<!-- The course writes this page anew after every check: keep your own notes elsewhere. -->"
)
_WHAT_TO_DO = """\
1. Open a chapter and run its cells from the top, one after another: **Shift+Enter** runs a cell.
2. Below an exercise's card, write your answer in place of the line `raise NotImplementedError`.
3. Run the check below your answer. It says what holds and what does not; try as often as you like.

Your work is saved as you go. This page shows what you had solved when you opened it."""
_TABLE = "| chapter | exercises solved | points |\n| --- | --- | --- |"


def write_start_page(workspace: Path) -> None:
    """Write the page for the student's folder ``workspace``, unless a file of theirs is there.

    A folder that cannot be written to costs the page, nothing else.
    """
    page = workspace / START_PAGE
    store = ProgressStore.of(workspace)
    with contextlib.suppress(OSError):
        if not page.exists() or page.read_bytes().startswith(_MARK.encode()):
            write_atomically(page, render(load_chapters(), store).encode())


def refresh_start_page() -> None:
    """Write the page anew for the student's folder that the current directory lies in, if any."""
    workspace = current_workspace()
    if workspace is not None:
        write_start_page(workspace)


def render(chapters: tuple[Chapter, ...], store: ProgressStore) -> str:
    """Return the page as Markdown."""
    rows = "\n".join(_row(chapter, store) for chapter in chapters)
    return (
        f"{_MARK}\n\n# Bits & Gradients\n\n{_next_step(chapters, store)}\n\n{_WHAT_TO_DO}\n\n"
        f"## What you have solved\n\n{_TABLE}\n{rows}\n"
    )


def notebook_of(chapter: str) -> str:
    """Return where the notebook of ``chapter`` lies in a student's folder."""
    return f"{chapter}/{chapter.partition('-')[2]}.ipynb"


def find_next(chapters: tuple[Chapter, ...], store: ProgressStore) -> Exercise | None:
    """Return the exercise to go on with: of those that are not solved, the next one from where the
    last check was run on; None if all are solved.
    """
    exercises = [exercise for chapter in chapters for exercise in chapter.exercises]
    names = [exercise.name for exercise in exercises]
    start = names.index(store.last) if store.last in names else 0
    # From there to the end of its chapter, that chapter's others, the later ones, the earlier ones.
    here = exercises[start].chapter if exercises else ""
    order = sorted(
        range(len(exercises)),
        key=lambda k: (exercises[k].chapter != here, k < start, k),
    )
    return next((exercises[k] for k in order if not _is_solved(exercises[k], store)), None)


def _next_step(chapters: tuple[Chapter, ...], store: ProgressStore) -> str:
    if store.last is None and chapters:
        first = chapters[0]
        return f"**Start here: [{_full_title(first)}]({notebook_of(first.name)})**"
    exercise = find_next(chapters, store)
    if exercise is None:
        return "**You have solved every exercise of the course.**"
    chapter = next(c for c in chapters if c.name == exercise.chapter)
    what = f"{_full_title(chapter)}, exercise {exercise.number}: {exercise.title}"
    # JupyterLab finds a cell by its id even before the cell is drawn, a heading it does not.
    return f"**Go on: [{what}]({notebook_of(chapter.name)}#cell-id=card-{exercise.name})**"


def _full_title(chapter: Chapter) -> str:
    return f"{chapter.name.split('-')[0]} · {chapter.title}"


def _is_solved(exercise: Exercise, store: ProgressStore) -> bool:
    return store.best_points(exercise) >= exercise.points


def _row(chapter: Chapter, store: ProgressStore) -> str:
    marks = "".join("●" if _is_solved(e, store) else "○" for e in chapter.exercises)
    solved, points, most = count_points(chapter, store)
    return (
        f"| [{_full_title(chapter)}]({notebook_of(chapter.name)}) "
        f"| {marks} {solved} of {len(chapter.exercises)} | {points:g} of {most:g} |"
    )
