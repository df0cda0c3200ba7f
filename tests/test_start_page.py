"""The page a student's JupyterLab opens on: what it says at first, on the way, and at the end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from helpers import catalogue, progress_store, start_page
from helpers.catalogue import Chapter, Exercise
from helpers.lab import find_first_page
from helpers.progress_store import ProgressStore
from helpers.start_page import (
    START_PAGE,
    find_next,
    refresh_start_page,
    render,
    write_start_page,
)


def exercise(chapter: str, number: int) -> Exercise:
    name = f"{chapter[3:]}-{number}"
    return Exercise(name, f"About {name}", chapter, number, 4, 5, 1, 2, 1, ("a", "b", "c"))


FIRST, SECOND = "00-warm-up", "01-long-sums"
CHAPTERS = tuple(
    Chapter(name, title, tuple(exercise(name, number) for number in (1, 2, 3)))
    for name, title in ((FIRST, "Warm-up"), (SECOND, "Long sums"))
)
EXERCISES = {e.name: e for chapter in CHAPTERS for e in chapter.exercises}


@pytest.fixture
def workspace(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A student's folder, with a kernel running in one of its chapters."""
    for module in (catalogue, progress_store, start_page):
        monkeypatch.setattr(module, "load_chapters", lambda: CHAPTERS)
    (tmp_path / ".bits").mkdir()
    (tmp_path / ".bits" / "delivered.json").write_text("{}", encoding="utf-8")
    (tmp_path / FIRST).mkdir()
    monkeypatch.chdir(tmp_path / FIRST)
    return tmp_path


def page(workspace: Path) -> str:
    return (workspace / START_PAGE).read_text(encoding="utf-8")


def test_at_first_it_leads_to_the_first_chapter(workspace: Path) -> None:
    write_start_page(workspace)
    assert "**Start here: [00 · Warm-up](00-warm-up/warm-up.ipynb)**" in page(workspace)
    assert "| [01 · Long sums](01-long-sums/long-sums.ipynb) | ○○○ 0 of 3 | 0 of 12 |" in page(
        workspace
    )


def test_after_a_check_it_shows_what_is_solved_and_leads_on(workspace: Path) -> None:
    progress_store.record(EXERCISES["warm-up-1"], 4.0)
    progress_store.record(EXERCISES["long-sums-2"], 4.0)
    refresh_start_page()
    assert "| ●○○ 1 of 3 | 4 of 12 |" in page(workspace)
    assert "| ○●○ 1 of 3 | 4 of 12 |" in page(workspace)
    assert "Go on: [01 · Long sums, exercise 3: About long-sums-3]" in page(workspace)
    assert "(01-long-sums/long-sums.ipynb#cell-id=card-long-sums-3)" in page(workspace)


@pytest.mark.parametrize(
    ("checked", "leads_to"),
    [
        ([("warm-up-2", 0.0)], "warm-up-2"),
        ([("warm-up-2", 4.0)], "warm-up-3"),
        ([("warm-up-3", 4.0)], "warm-up-1"),
        ([("long-sums-1", 4.0), ("warm-up-1", 1.0)], "warm-up-1"),
        ([(f"warm-up-{k}", 4.0) for k in (1, 2, 3)], "long-sums-1"),
        ([(f"long-sums-{k}", 4.0) for k in (1, 2, 3)], "warm-up-1"),
    ],
)
def test_it_leads_to_what_is_next_from_where_one_was(
    checked: list[tuple[str, float]], leads_to: str
) -> None:
    store = ProgressStore(None)
    for name, points in checked:
        store.note_check(EXERCISES[name], points)
    assert find_next(CHAPTERS, store) == EXERCISES[leads_to]


def test_where_all_is_solved_it_says_so() -> None:
    store = ProgressStore(None)
    for solved in EXERCISES.values():
        store.note_check(solved, 4.0)
    assert "You have solved every exercise" in render(CHAPTERS, store)


def test_the_best_result_stays_and_the_last_check_is_known_to_the_next_kernel(
    workspace: Path,
) -> None:
    progress_store.record(EXERCISES["warm-up-1"], 4.0)
    progress_store.record(EXERCISES["warm-up-2"], 2.0)
    progress_store.record(EXERCISES["warm-up-1"], 1.0)
    store = ProgressStore.of(workspace)
    assert store.best_points(EXERCISES["warm-up-1"]) == 4.0
    assert store.last == "warm-up-1"


def test_a_file_of_the_students_own_is_left_alone(workspace: Path) -> None:
    (workspace / START_PAGE).write_text("my notes", encoding="utf-8")
    write_start_page(workspace)
    assert page(workspace) == "my notes"


def test_a_folder_that_cannot_be_written_costs_the_page_alone(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(start_page, "write_atomically", fail)
    progress_store.record(EXERCISES["warm-up-1"], 4.0)
    assert not (workspace / START_PAGE).exists()
    assert ProgressStore.of(workspace).last == "warm-up-1"


def test_jupyterlab_opens_the_first_chapter_and_later_the_page(workspace: Path) -> None:
    assert find_first_page(workspace) == ""
    for name in ("01-long-sums/long-sums.ipynb", "00-warm-up/warm-up.ipynb"):
        (workspace / name).parent.mkdir(exist_ok=True)
        (workspace / name).write_text("{}", encoding="utf-8")
    write_start_page(workspace)
    assert find_first_page(workspace) == "/tree/00-warm-up/warm-up.ipynb"
    opened = workspace / ".bits" / "lab" / "default.jupyterlab-workspace"
    opened.parent.mkdir()
    opened.touch()
    assert find_first_page(workspace) == "/tree/START.md"
    os.remove(workspace / START_PAGE)
    assert find_first_page(workspace) == ""
