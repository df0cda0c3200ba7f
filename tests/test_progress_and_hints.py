"""Hints come one at a time, and progress is kept in the student's own folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from helpers import catalogue, display, hint, progress, progress_store
from helpers.catalogue import Chapter, Exercise
from helpers.cli import main
from helpers.progress_store import ProgressStore


def exercise(name: str, number: int) -> Exercise:
    hints = tuple(f"{name}, stage {stage}" for stage in (1, 2, 3))
    return Exercise(name, f"About {name}", "01-sample", number, 4, 5, 1, 2, 1, hints)


EXERCISES = (exercise("adding", 1), exercise("dividing", 2))


@pytest.fixture(autouse=True)
def workspace(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A student's folder, with a kernel running in one of its chapters."""
    chapters = (Chapter("01-sample", "A sample", EXERCISES),)
    for module in (catalogue, progress_store):
        monkeypatch.setattr(module, "load_chapters", lambda: chapters)
    (tmp_path / ".bits").mkdir()
    (tmp_path / ".bits" / "delivered.json").write_text("{}", encoding="utf-8")
    (tmp_path / "01-sample").mkdir()
    monkeypatch.chdir(tmp_path / "01-sample")
    progress_store._store_of_this_process.cache_clear()
    return tmp_path


def test_hints_come_in_stages_and_stop_at_the_last(capsys: pytest.CaptureFixture) -> None:
    for stage in (1, 2, 3, 3):
        hint("adding")
        shown = capsys.readouterr().out
        assert f"Hint {stage} of 3 · About adding" in shown
        assert f"adding, stage {stage}" in shown
    assert "That was the last hint." in shown


def test_a_stage_can_be_asked_for(capsys: pytest.CaptureFixture) -> None:
    hint("adding", 2)
    assert "stage 2" in capsys.readouterr().out
    hint("adding")
    assert "stage 3" in capsys.readouterr().out
    with pytest.raises(ValueError, match="stage is 1 to 3, not 4"):
        hint("adding", 4)


def test_stages_outlive_a_kernel(workspace: Path, capsys: pytest.CaptureFixture) -> None:
    hint("adding")
    kept = json.loads((workspace / ".bits" / "progress.json").read_text("utf-8"))
    assert kept == {"adding": {"hints": 1}}


def test_an_unknown_exercise_names_the_nearest() -> None:
    with pytest.raises(KeyError, match='did you mean "dividing"'):
        hint("divide")


def test_progress_counts_what_is_solved(capsys: pytest.CaptureFixture) -> None:
    progress("01")
    assert "01 A sample: 0 of 2 exercises solved, 0 of 8 points" in capsys.readouterr().out
    progress_store.record(EXERCISES[0], 4.0)
    progress_store.record(EXERCISES[1], 1.5)
    progress()
    shown = capsys.readouterr().out
    assert "1 of 2 exercises solved, 5.5 of 8 points" in shown
    assert "✓ 1. About adding: 4 of 4" in shown
    assert "· 2. About dividing: 1.5 of 4" in shown


def test_the_best_result_stays() -> None:
    progress_store.record(EXERCISES[0], 3.0)
    progress_store.record(EXERCISES[0], 1.0)
    assert progress_store.current_store().best_points(EXERCISES[0]) == 3.0


def test_two_kernels_keep_each_others_results(workspace: Path) -> None:
    progress_store.record(EXERCISES[0], 3.0)
    other = ProgressStore(workspace / ".bits" / "progress.json")
    other.raise_to(EXERCISES[1], "points", 2.0)
    progress_store.record_hint(EXERCISES[0], 1)
    store = progress_store.current_store()
    assert store.best_points(EXERCISES[0]) == 3.0
    assert store.best_points(EXERCISES[1]) == 2.0


@pytest.mark.parametrize("content", ["", "{", "[1, 2]", '{"adding": 3}', "\x00"])
def test_a_damaged_record_is_put_aside(workspace: Path, content: str) -> None:
    file = workspace / ".bits" / "progress.json"
    file.write_text(content, encoding="utf-8")
    progress_store.record(EXERCISES[0], 2.0)
    assert file.with_suffix(".damaged.json").read_text("utf-8") == content
    assert progress_store.current_store().best_points(EXERCISES[0]) == 2.0


def test_outside_a_students_folder_nothing_is_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    monkeypatch.chdir(elsewhere)
    progress_store.record(EXERCISES[0], 4.0)
    assert progress_store.current_store().best_points(EXERCISES[0]) == 4.0
    assert list(elsewhere.iterdir()) == []


def test_the_command_line_shows_both() -> None:
    progress_store.record(EXERCISES[0], 4.0)
    shown = CliRunner().invoke(main, ["progress", "01"])
    assert shown.exit_code == 0
    assert "1 of 2 exercises solved" in shown.output
    assert "adding, stage 1" in CliRunner().invoke(main, ["hint", "adding"]).output
    unknown = CliRunner().invoke(main, ["hint", "nothing"])
    assert unknown.exit_code == 1
    assert 'Error: there is no exercise "nothing"' in unknown.output
    assert 'there is no chapter "99"' in CliRunner().invoke(main, ["progress", "99"]).output


def test_plain_text_keeps_the_asterisks_of_code(capsys):
    display.show_markdown("**Hint** · multiply: `delta**2 * count`, *then* add")
    assert capsys.readouterr().out == "Hint · multiply: `delta**2 * count`, then add\n"
