"""A tree of files kept up to date beside what others write there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from helpers.authoring import kept_tree
from helpers.authoring.kept_tree import RECORD, TreeError, read_choices, write_tree

FIRST = {"README.md": b"one", "course/release/01/one.ipynb": b"{}", "helpers/data.py": b"x = 1\n"}
SECOND = {"README.md": b"two", "helpers/data.py": b"x = 1\n", "helpers/new/tool.py": b"y = 2\n"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_tree(FIRST, tmp_path / "students")
    return tmp_path / "students"


def content(folder: Path) -> dict[str, bytes]:
    """Return what is in ``folder``, links and empty folders included."""
    found = {}
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            found[name] = os.readlink(path).encode()
        elif path.is_file():
            found[name] = path.read_bytes()
        elif not any(path.iterdir()):
            found[name + "/"] = b""
    return found


def without_record(folder: Path) -> dict[str, bytes]:
    return {name: text for name, text in content(folder).items() if name != RECORD}


@pytest.mark.parametrize("there", ["nothing", "an empty folder", "a git checkout"])
def test_a_new_tree_is_written_whole(tmp_path: Path, there: str) -> None:
    folder = tmp_path / "above" / "students"
    if there != "nothing":
        folder.mkdir(parents=True)
    if there == "a git checkout":
        subprocess.run(["git", "init", "-q", folder], check=True)
    update = write_tree(FIRST, folder)
    assert update.new == tuple(sorted(FIRST))
    written = {n: t for n, t in without_record(folder).items() if not n.startswith(".git/")}
    assert written == FIRST


def test_the_second_time_it_is_renewed_and_what_is_published_no_more_goes(folder: Path) -> None:
    before = content(folder)
    assert write_tree(FIRST, folder) == kept_tree.Update((), (), (), ())
    assert content(folder) == before
    update = write_tree(SECOND, folder)
    assert update.new == ("helpers/new/tool.py",)
    assert update.renewed == ("README.md",)
    assert update.removed == ("course/release/01/one.ipynb",)
    assert without_record(folder) == SECOND, "a folder that became empty is gone, too"


def test_a_file_that_was_removed_there_is_written_again(folder: Path) -> None:
    (folder / "README.md").unlink()
    assert write_tree(FIRST, folder).new == ("README.md",)
    assert without_record(folder) == FIRST


def edit(name: str, text: str = "mine"):
    def change(folder: Path) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)

    return change


def replace_by_link(folder: Path) -> None:
    (folder / "README.md").rename(folder.parent / "elsewhere.md")
    (folder / "README.md").symlink_to(folder.parent / "elsewhere.md")


def replace_folder_by_link(folder: Path) -> None:
    (folder / "helpers").rename(folder.parent / "elsewhere")
    (folder / "helpers").symlink_to(folder.parent / "elsewhere")


def replace_by_folder(folder: Path) -> None:
    (folder / "README.md").unlink()
    edit("README.md/mine.txt")(folder)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        pytest.param(edit("README.md"), "README.md", id="renewed"),
        pytest.param(edit("helpers/data.py"), "helpers/data.py", id="unchanged by us"),
        pytest.param(edit("course/release/01/one.ipynb"), "one.ipynb", id="published no more"),
        pytest.param(edit("helpers/new/tool.py"), "helpers/new/tool.py", id="added in the way"),
        pytest.param(edit("helpers/new"), "helpers/new", id="a file for a folder"),
        pytest.param(replace_by_link, "README.md", id="a link"),
        pytest.param(replace_folder_by_link, "helpers", id="a linked folder"),
        pytest.param(replace_by_folder, "README.md", id="a folder for a file"),
    ],
)
def test_what_somebody_edited_or_added_is_named_and_nothing_is_written(
    folder: Path, change, named: str
) -> None:
    change(folder)
    before = content(folder)
    with pytest.raises(TreeError, match=rf"not touched: .*{re.escape(named)}.*Nothing was written"):
        write_tree(SECOND, folder)
    assert content(folder) == before


def test_other_files_are_left_and_told_but_not_what_git_ignores(folder: Path) -> None:
    subprocess.run(["git", "init", "-q", folder], check=True)
    for name in ("syllabus.md", "helpers/mine.py", "work/01/one.ipynb", ".gitignore"):
        edit(name, "work/\n")(folder)
    update = write_tree(SECOND, folder)
    assert update.others == (".gitignore", "helpers/mine.py", "syllabus.md")
    assert (folder / "work" / "01" / "one.ipynb").exists()


def test_an_edit_that_comes_to_the_same_is_none(folder: Path) -> None:
    edit("README.md", "two")(folder)
    assert "README.md" not in write_tree(SECOND, folder).renewed
    write_tree(SECOND, folder)
    assert write_tree(FIRST, folder).renewed == ("README.md",), "it counts as ours from then on"
    edit("README.md", "three")(folder)
    with pytest.raises(TreeError, match=r"README\.md"):
        write_tree(SECOND, folder)


@pytest.mark.parametrize("name", ["notes.txt", "course/release/x.ipynb"])
def test_a_folder_of_somebody_elses_is_refused(tmp_path: Path, name: str) -> None:
    edit(name)(tmp_path / "mine")
    before = content(tmp_path)
    with pytest.raises(TreeError, match=f"is not empty.*{name.split('/')[0]}"):
        write_tree(FIRST, tmp_path / "mine")
    assert content(tmp_path) == before


def test_a_file_in_place_of_the_folder_and_a_damaged_record_are_told(folder: Path) -> None:
    edit("README.md")(folder)
    with pytest.raises(TreeError, match="is a file: name a folder"):
        write_tree(FIRST, folder / "README.md")
    outside = '{"files": {"../README.md": ["x"]}, "choices": {}}'
    for damage in ("", "[]", '{"files": {"README.md": 3}, "choices": {}}', outside):
        (folder / RECORD).write_text(damage)
        with pytest.raises(TreeError, match="is damaged"):
            write_tree(FIRST, folder)


def test_choices_are_kept_until_there_are_others(folder: Path) -> None:
    assert read_choices(folder) == {}
    write_tree(FIRST, folder, {"color": "blue"})
    write_tree(SECOND, folder)
    assert read_choices(folder) == {"color": "blue"}
    write_tree(SECOND, folder, {})
    assert read_choices(folder) == {}


class _Killed(BaseException):
    """Stands for a kill: nobody catches it."""


@pytest.mark.parametrize("moved", [0, 1])
def test_a_run_that_was_killed_is_finished_by_the_next(
    folder: Path, monkeypatch: pytest.MonkeyPatch, moved: int
) -> None:
    moves, replace = [], os.replace

    def replace_and_die(draft: Path, target: Path) -> None:
        if len(moves) == moved:
            raise _Killed
        moves.append(target)
        replace(draft, target)

    with monkeypatch.context() as patch:
        patch.setattr(kept_tree.os, "replace", replace_and_die)
        # The record is written in one step, with os.replace too.
        patch.setattr(kept_tree, "write_atomically", lambda target, text: target.write_bytes(text))
        patch.setattr(kept_tree.shutil, "rmtree", lambda *_, **__: None)  # a kill tidies nothing
        with pytest.raises(_Killed):
            write_tree(SECOND, folder)
    assert (folder / "helpers" / "new" / "tool.py").exists() is (moved == 1)
    # Meanwhile there is another version again.
    third = {**SECOND, "README.md": b"three", "helpers/new/tool.py": b"y = 3\n"}
    write_tree(third, folder)
    assert without_record(folder) == third


def test_a_full_disk_changes_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = content(folder)

    def fail(path: Path, text: bytes) -> None:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(Path, "write_bytes", fail)
    with pytest.raises(TreeError, match=r"cannot be written \(No space left on device\)"):
        write_tree(SECOND, folder)
    assert content(folder) == before


def test_nothing_is_written_through_a_link_in_place_of_our_own_folder(folder: Path) -> None:
    (folder.parent / "elsewhere").mkdir()
    (folder / ".bits").symlink_to(folder.parent / "elsewhere")
    with pytest.raises(TreeError, match="is not a folder"):
        write_tree(SECOND, folder)
    assert not any((folder.parent / "elsewhere").iterdir())
    shutil.rmtree(folder)
