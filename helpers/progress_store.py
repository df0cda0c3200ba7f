"""What a student has solved so far: kept in the student's own folder, shown on one page.

Outside a student's folder (Colab, a grader, a test) it is kept in the process alone.
"""

from __future__ import annotations

import functools
import html
import json
from pathlib import Path

from helpers import display
from helpers.catalogue import Chapter, Exercise, find_chapter, load_chapters
from helpers.files import write_atomically

_FILE = Path(".bits") / "progress.json"
# Beside the entries of exercises, none of which has such a name.
_PREDICTIONS = "predictions"


class ProgressStore:
    """Points and hints seen, by exercise, and predictions; written to ``file`` if it is given."""

    def __init__(self, file: Path | None) -> None:
        """Read ``file`` if it is there; one that cannot be read is put aside, not overwritten."""
        self._file = file
        self._entries: dict[str, dict] = {}
        if file is not None and file.exists():
            self._entries = self._read(file)

    @classmethod
    def of(cls, workspace: Path) -> ProgressStore:
        """Return the store of the student's folder ``workspace``."""
        return cls(workspace / _FILE)

    @property
    def last(self) -> str | None:
        """The name of the exercise whose check was run last; None before the first check."""
        return next((name for name, e in reversed(self._entries.items()) if "points" in e), None)

    def best_points(self, exercise: Exercise) -> float:
        """Return the most points a check has given for ``exercise``."""
        return float(self._entries.get(exercise.name, {}).get("points", 0.0))

    def hints_seen(self, exercise: Exercise) -> int:
        """Return how many stages of hints were shown for ``exercise``."""
        return int(self._entries.get(exercise.name, {}).get("hints", 0))

    def note_check(self, exercise: Exercise, points: float) -> None:
        """Keep that a check gave ``points``, that it was the last one, and the best result."""
        entry = self._entries.pop(exercise.name, {})
        entry["points"] = max(points, entry.get("points", 0))
        self._entries[exercise.name] = entry
        self._write()

    def prediction(self, name: str) -> str | float | None:
        """Return what was predicted under ``name``; None if nothing was."""
        return self._predictions.get(name, {}).get("given")

    def predictions(self, prefix: str) -> list[dict]:
        """Return all that was predicted under names that begin with ``prefix``, in their order."""
        return [kept for name, kept in sorted(self._predictions.items()) if name.startswith(prefix)]

    def note_prediction(self, name: str, kept: dict) -> None:
        """Keep a prediction, which has ``"given"``; forget the one of that name if it is None."""
        known = self._entries.setdefault(_PREDICTIONS, {})
        if kept["given"] is None:
            known.pop(name, None)
        else:
            known[name] = kept
        self._write()

    @property
    def _predictions(self) -> dict[str, dict]:
        return self._entries.get(_PREDICTIONS, {})

    def raise_to(self, exercise: Exercise, key: str, value: float) -> None:
        """Set an entry to ``value`` if that is more than what stands there."""
        entry = self._entries.setdefault(exercise.name, {})
        if value > entry.get(key, 0):
            entry[key] = value
            self._write()

    def _read(self, file: Path) -> dict[str, dict]:
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
            return {str(name): dict(entry) for name, entry in content.items()}
        except (ValueError, TypeError, AttributeError):
            file.replace(file.with_suffix(".damaged.json"))
            return {}

    def _write(self) -> None:
        if self._file is None:
            return
        # A folder that became unwritable costs the record, not the check.
        try:
            write_atomically(self._file, json.dumps(self._entries, indent=1).encode())
        except OSError:
            self._file = None


def record(exercise: Exercise, points: float) -> None:
    """Note that a check gave ``points`` for ``exercise``; the best result stays."""
    current_store().note_check(exercise, points)


def record_hint(exercise: Exercise, stage: int) -> None:
    """Note that the hints of ``exercise`` were shown up to ``stage``."""
    current_store().raise_to(exercise, "hints", stage)


def hints_seen(exercise: Exercise) -> int:
    """Return how many stages of hints were shown for ``exercise``."""
    return current_store().hints_seen(exercise)


def current_workspace() -> Path | None:
    """Return the student's folder that the current directory lies in; None if it lies in none."""
    from helpers.workspace import find_workspace

    try:
        return find_workspace(Path.cwd())
    except OSError:  # the current folder is gone
        return None


def current_store() -> ProgressStore:
    """Return the store of the student's folder that the current directory lies in."""
    workspace = current_workspace()
    # A file is read afresh each time: another notebook's kernel may have written to it.
    return _store_of_this_process() if workspace is None else ProgressStore.of(workspace)


@functools.cache
def _store_of_this_process() -> ProgressStore:
    return ProgressStore(None)


def progress(chapter: str | None = None) -> None:
    """Show what is solved: of one chapter, by number ("08") or name, or of the whole course."""
    chapters = load_chapters() if chapter is None else (find_chapter(chapter),)
    store = current_store()
    display.show(as_text(chapters, store), _as_html(chapters, store))


def count_points(chapter: Chapter, store: ProgressStore) -> tuple[int, float, float]:
    """Return how many exercises of ``chapter`` are solved, their points, and all its points."""
    solved = sum(store.best_points(e) >= e.points for e in chapter.exercises)
    points = sum(store.best_points(e) for e in chapter.exercises)
    return solved, points, sum(e.points for e in chapter.exercises)


def _summary(chapter: Chapter, store: ProgressStore) -> str:
    solved, points, most = count_points(chapter, store)
    return f"{solved} of {len(chapter.exercises)} exercises solved, {points:g} of {most:g} points"


def as_text(chapters: tuple[Chapter, ...], store: ProgressStore) -> str:
    """Return the progress page as text."""
    lines = []
    for chapter in chapters:
        lines.append(f"{chapter.name.split('-')[0]} {chapter.title}: {_summary(chapter, store)}")
        for e in chapter.exercises:
            points = store.best_points(e)
            mark = "✓" if points >= e.points else "·"
            lines.append(f"  {mark} {e.number}. {e.title}: {points:g} of {e.points:g}")
    return "\n".join(lines)


def _as_html(chapters: tuple[Chapter, ...], store: ProgressStore) -> str:
    return (
        '<div class="bits-progress" style="max-width:48em">'
        + "".join(
            f"<h4>{html.escape(chapter.name.split('-')[0] + ' ' + chapter.title)}</h4>"
            f"<p>{_summary(chapter, store)}</p>"
            + "".join(_row_as_html(e, store.best_points(e)) for e in chapter.exercises)
            for chapter in chapters
        )
        + "</div>"
    )


def _row_as_html(exercise: Exercise, points: float) -> str:
    share = 100 * points / exercise.points
    mark = "✓" if points >= exercise.points else "·"
    return (
        '<div style="display:flex;gap:1em;align-items:center;margin:.2em 0">'
        f'<span style="flex:1 1 20em">{mark} {exercise.number}. {html.escape(exercise.title)}'
        '</span><span style="flex:0 0 8em;height:.7em;border-radius:.35em;'
        'background:rgba(128,128,128,.25)"><span style="display:block;height:100%;'
        f'border-radius:.35em;width:{share:.0f}%;background:#0072b2"></span></span>'
        f'<span style="flex:0 0 6em">{points:g} of {exercise.points:g}</span></div>'
    )
