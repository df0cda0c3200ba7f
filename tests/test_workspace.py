"""The student's copy: what is delivered, and that nothing a student wrote is ever lost."""

import json
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.workspace import Kind, WorkspaceError, deliver, find_workspace, summarize

CHAPTER = Path("08-numerical-stability")
NOTEBOOK = CHAPTER / "numerical-stability.ipynb"
BESIDE = CHAPTER / "numerical-stability.new.ipynb"
SECOND_BESIDE = CHAPTER / "numerical-stability.new-2.ipynb"


def as_notebook(*sources, **metadata):
    cells = [
        {"cell_type": "code", "id": f"c{i}", "metadata": {}, "outputs": [], "source": [source]}
        | {"execution_count": None}
        for i, source in enumerate(sources)
    ]
    notebook = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(notebook, indent=1).encode()


def save_as_jupyterlab_does(content):
    """Return the notebook as it is after opening it and saving it, with nothing typed."""
    notebook = json.loads(content)
    notebook["metadata"]["kernelspec"] = {"name": "python3"}
    notebook["metadata"]["language_info"] = {"name": "python", "version": "3.11.2"}
    for cell in notebook["cells"]:
        cell["source"] = "".join(cell["source"])
        cell["metadata"]["scrolled"] = True
        cell["metadata"]["jupyter"] = {"source_hidden": False}  # a folded cell was looked into
    return json.dumps(notebook).encode()


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


@pytest.fixture
def release(tmp_path):
    write(tmp_path / "release" / NOTEBOOK, as_notebook("first"))
    return tmp_path / "release"


@pytest.fixture
def work(tmp_path):
    return tmp_path / "work"


def kinds(outcomes):
    return [outcome.kind for outcome in outcomes]


def test_first_delivery_copies_every_file_of_every_chapter(release, work):
    write(release / CHAPTER / "data" / "loss.csv", b"1,2\n")
    write(release / "09-memory" / "memory.ipynb", as_notebook("memory"))
    outcomes = deliver(release, work)
    assert kinds(outcomes) == [Kind.NEW] * 3
    assert (work / NOTEBOOK).read_bytes() == as_notebook("first")
    assert (work / CHAPTER / "data" / "loss.csv").read_bytes() == b"1,2\n"
    assert summarize(outcomes) == ["New in your copy: 08-numerical-stability, 09-memory."]


def test_copy_is_writable_where_the_release_is_not(release, work):
    (release / NOTEBOOK).chmod(0o444)
    deliver(release, work)
    assert (work / NOTEBOOK).stat().st_mode & stat.S_IWUSR


def test_checkpoints_and_hidden_files_are_not_delivered(release, work):
    write(release / CHAPTER / ".ipynb_checkpoints" / "x-checkpoint.ipynb", as_notebook("old"))
    write(release / CHAPTER / ".hidden", b"")
    assert [o.file for o in deliver(release, work)] == [NOTEBOOK]


def test_second_delivery_does_nothing_and_leaves_nothing_behind(release, work):
    deliver(release, work)
    before = {path: path.stat().st_mtime_ns for path in work.rglob("*")}
    outcomes = deliver(release, work)
    assert kinds(outcomes) == [Kind.CURRENT]
    assert summarize(outcomes) == []
    assert {path: path.stat().st_mtime_ns for path in work.rglob("*")} == before


def test_untouched_file_is_brought_up_to_date(release, work):
    deliver(release, work)
    write(release / NOTEBOOK, as_notebook("second"))
    outcomes = deliver(release, work)
    assert kinds(outcomes) == [Kind.UPDATED]
    assert (work / NOTEBOOK).read_bytes() == as_notebook("second")
    assert summarize(outcomes) == ["Brought up to date: 08-numerical-stability."]


def test_opening_and_saving_is_not_an_edit(release, work):
    deliver(release, work)
    write(work / NOTEBOOK, save_as_jupyterlab_does(as_notebook("first")))
    write(release / NOTEBOOK, as_notebook("second"))
    assert kinds(deliver(release, work)) == [Kind.UPDATED]


def test_edited_file_stays_and_the_new_version_lies_beside_it(release, work):
    deliver(release, work)
    write(work / NOTEBOOK, as_notebook("mine"))
    assert kinds(deliver(release, work)) == [Kind.CURRENT]
    write(release / NOTEBOOK, as_notebook("second"))
    (outcome,) = deliver(release, work)
    assert outcome.kind is Kind.BESIDE
    assert str(NOTEBOOK) in outcome.sentence
    assert BESIDE.name in outcome.sentence
    assert (work / NOTEBOOK).read_bytes() == as_notebook("mine")
    assert (work / BESIDE).read_bytes() == as_notebook("second")


def add_output(notebook):
    notebook["cells"][0]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "1"}]


def add_cell(notebook):
    notebook["cells"].append({"cell_type": "markdown", "metadata": {}, "source": "a thought"})


def add_attachment(notebook):
    notebook["cells"][0]["attachments"] = {"plot.png": {"image/png": "aGVsbG8="}}


def add_tag(notebook):
    notebook["cells"][0]["metadata"]["tags"] = ["look again"]


def add_title(notebook):
    notebook["metadata"]["title"] = "mine"


def reorder(notebook):
    notebook["cells"].reverse()


@pytest.mark.parametrize(
    "edit", [add_output, add_cell, add_attachment, add_tag, add_title, reorder]
)
def test_everything_a_student_can_add_is_an_edit(release, work, edit):
    write(release / NOTEBOOK, as_notebook("first", "and more"))
    deliver(release, work)
    notebook = json.loads((work / NOTEBOOK).read_bytes())
    edit(notebook)
    mine = json.dumps(notebook).encode()
    write(work / NOTEBOOK, mine)
    write(release / NOTEBOOK, as_notebook("second"))
    assert kinds(deliver(release, work)) == [Kind.BESIDE]
    assert (work / NOTEBOOK).read_bytes() == mine


def test_new_version_is_offered_once(release, work):
    deliver(release, work)
    write(work / NOTEBOOK, as_notebook("mine"))
    write(release / NOTEBOOK, as_notebook("second"))
    deliver(release, work)
    (work / BESIDE).unlink()
    outcomes = deliver(release, work)
    assert kinds(outcomes) == [Kind.CURRENT]
    assert summarize(outcomes) == []
    assert not (work / BESIDE).exists()


def test_file_beside_is_replaced_only_while_untouched(release, work):
    deliver(release, work)
    write(work / NOTEBOOK, as_notebook("mine"))
    for version in ("second", "third"):
        write(release / NOTEBOOK, as_notebook(version))
        deliver(release, work)
    assert (work / BESIDE).read_bytes() == as_notebook("third")
    write(work / BESIDE, as_notebook("mine, too"))
    write(release / NOTEBOOK, as_notebook("fourth"))
    (outcome,) = deliver(release, work)
    assert SECOND_BESIDE.name in outcome.sentence
    assert (work / BESIDE).read_bytes() == as_notebook("mine, too")
    assert (work / SECOND_BESIDE).read_bytes() == as_notebook("fourth")


def test_student_who_takes_the_new_version_over_is_up_to_date(release, work):
    deliver(release, work)
    write(work / NOTEBOOK, as_notebook("mine"))
    write(release / NOTEBOOK, as_notebook("second"))
    deliver(release, work)
    (work / BESIDE).replace(work / NOTEBOOK)
    assert kinds(deliver(release, work)) == [Kind.CURRENT]
    write(release / NOTEBOOK, as_notebook("third"))
    assert kinds(deliver(release, work)) == [Kind.UPDATED]


def test_removed_file_is_delivered_afresh(release, work):
    deliver(release, work)
    (work / NOTEBOOK).unlink()
    assert kinds(deliver(release, work)) == [Kind.NEW]
    assert (work / NOTEBOOK).read_bytes() == as_notebook("first")


@pytest.mark.parametrize(
    "damaged",
    [b"", as_notebook("mine")[:40], b"\xff\xfe\x00", b"[]", b'{"cells": 3}', b"[" * 100_000],
    ids=["empty", "truncated", "bytes", "list", "no cells", "nested"],
)
def test_damaged_notebook_stays_and_a_fresh_copy_lies_beside_it(release, work, damaged):
    deliver(release, work)
    write(work / NOTEBOOK, damaged)
    (outcome,) = deliver(release, work)
    assert outcome.kind is Kind.DAMAGED
    assert str(NOTEBOOK) in outcome.sentence
    assert BESIDE.name in outcome.sentence
    assert (work / NOTEBOOK).read_bytes() == damaged
    assert (work / BESIDE).read_bytes() == as_notebook("first")


def test_one_fresh_copy_is_enough_for_a_damaged_notebook(release, work):
    deliver(release, work)
    write(work / NOTEBOOK, b"")
    deliver(release, work)
    write(work / BESIDE, as_notebook("mine"))
    (outcome,) = deliver(release, work)
    assert BESIDE.name in outcome.sentence
    assert (work / BESIDE).read_bytes() == as_notebook("mine")
    assert not (work / SECOND_BESIDE).exists()


def test_file_that_was_there_before_the_first_delivery_is_the_students(release, work):
    write(work / NOTEBOOK, as_notebook("mine"))
    assert kinds(deliver(release, work)) == [Kind.BESIDE]
    assert (work / NOTEBOOK).read_bytes() == as_notebook("mine")


@pytest.mark.parametrize("record", [None, b"", b"[]", b'{"files": {"a": 3}}', b"\xff"])
def test_lost_record_makes_every_file_count_as_edited(release, work, record):
    deliver(release, work)
    (work / ".bits" / "delivered.json").unlink()
    if record is not None:
        write(work / ".bits" / "delivered.json", record)
    write(release / NOTEBOOK, as_notebook("second"))
    assert kinds(deliver(release, work)) == [Kind.BESIDE]
    assert (work / NOTEBOOK).read_bytes() == as_notebook("first")
    assert find_workspace(work) == work


def test_link_in_place_of_a_notebook_is_kept(release, work, tmp_path):
    deliver(release, work)
    elsewhere = tmp_path / "elsewhere.ipynb"
    (work / NOTEBOOK).replace(elsewhere)
    (work / NOTEBOOK).symlink_to(elsewhere)
    write(release / NOTEBOOK, as_notebook("second"))
    assert kinds(deliver(release, work)) == [Kind.BESIDE]
    assert (work / NOTEBOOK).is_symlink()
    assert elsewhere.read_bytes() == as_notebook("first")


@pytest.mark.parametrize("what", ["folder", "link"])
def test_something_else_in_place_of_the_file_beside_is_kept(release, work, tmp_path, what):
    deliver(release, work)
    write(work / NOTEBOOK, as_notebook("mine"))
    write(tmp_path / "elsewhere.ipynb", as_notebook("mine, elsewhere"))
    if what == "folder":
        (work / BESIDE).mkdir()
    else:
        (work / BESIDE).symlink_to(tmp_path / "elsewhere.ipynb")
    write(release / NOTEBOOK, as_notebook("second"))
    (outcome,) = deliver(release, work)
    assert SECOND_BESIDE.name in outcome.sentence
    assert (work / SECOND_BESIDE).read_bytes() == as_notebook("second")
    assert (tmp_path / "elsewhere.ipynb").read_bytes() == as_notebook("mine, elsewhere")


def test_something_else_in_place_of_a_chapter_blocks_that_chapter_alone(release, work):
    write(release / "09-memory" / "memory.ipynb", as_notebook("memory"))
    write(work / CHAPTER, b"my notes")
    blocked, delivered = deliver(release, work)
    assert (blocked.kind, delivered.kind) == (Kind.BLOCKED, Kind.NEW)
    assert str(CHAPTER) in blocked.sentence
    assert (work / CHAPTER).read_bytes() == b"my notes"


@pytest.mark.parametrize("what", ["file", "dangling link", "below a file", "record is a file"])
def test_place_that_cannot_hold_the_copy_is_told_in_one_sentence(release, work, tmp_path, what):
    if what == "file":
        write(work, b"mine")
    elif what == "dangling link":
        work.symlink_to(tmp_path / "nowhere")
    elif what == "below a file":
        write(tmp_path / "file", b"mine")
        work = tmp_path / "file" / "work"
    else:
        write(work / ".bits", b"mine")
    with pytest.raises(WorkspaceError, match="run the same command again") as caught:
        deliver(release, work)
    assert str(work) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_folder_that_nobody_can_write_to_is_told_in_one_sentence(release):
    with pytest.raises(WorkspaceError, match="/proc/bits.*cannot|cannot be written to /proc/bits"):
        deliver(release, Path("/proc/bits"))


@pytest.mark.skipif(os.name != "posix", reason="limits are POSIX's")
def test_disk_that_fills_up_costs_nothing(release, work):
    deliver(release, work)
    write(release / NOTEBOOK, as_notebook("second" * 10_000))
    program = (
        "import resource, signal, sys\n"
        "from pathlib import Path\n"
        "from helpers.workspace import WorkspaceError, deliver\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (9_000, 9_000))\n"
        "try:\n"
        "    deliver(Path(sys.argv[1]), Path(sys.argv[2]))\n"
        "except WorkspaceError as error:\n"
        "    sys.exit(str(error))\n"
    )
    command = [sys.executable, "-c", program, str(release), str(work)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "cannot be written" in done.stderr
    assert done.stderr.count("\n") == 1
    assert (work / NOTEBOOK).read_bytes() == as_notebook("first")
    assert [path.name for path in (work / CHAPTER).iterdir()] == [NOTEBOOK.name]
    assert kinds(deliver(release, work)) == [Kind.UPDATED]


def test_damaged_or_missing_release_is_told_in_one_sentence(release, work):
    with pytest.raises(WorkspaceError, match="no chapters"):
        deliver(release / "nowhere", work)
    write(release / NOTEBOOK, b"{")
    with pytest.raises(WorkspaceError, match=r"numerical-stability\.ipynb is damaged"):
        deliver(release, work)
    assert not work.exists()


def test_workspace_is_found_from_within_and_from_nowhere_else(release, work, tmp_path):
    assert find_workspace(tmp_path) is None
    deliver(release, work)
    assert find_workspace(work / CHAPTER) == work
    assert find_workspace(work) == work
    assert find_workspace(release / CHAPTER) is None


# What can happen to a copy, in any order: the student writes, removes or breaks a file, a new
# release comes, the record is lost, the copy is brought up to date.
NAMES = st.sampled_from([NOTEBOOK, BESIDE, SECOND_BESIDE])
TEXTS = st.sampled_from(["a", "b", "c"])
EVENTS = st.one_of(
    st.tuples(st.just("write"), NAMES, TEXTS),
    st.tuples(st.just("save"), NAMES, st.none()),
    st.tuples(st.just("remove"), NAMES, st.none()),
    st.tuples(st.just("break"), NAMES, TEXTS),
    st.tuples(st.just("release"), st.none(), TEXTS),
    st.tuples(st.just("forget"), st.none(), st.none()),
    st.tuples(st.just("deliver"), st.none(), st.none()),
)


class Model:
    """A copy, and beside it what the student has written and not removed."""

    def __init__(self, folder):
        self.release, self.work = folder / "release", folder / "work"
        self.written = {}
        write(self.release / NOTEBOOK, as_notebook("release a"))
        deliver(self.release, self.work)

    def happen(self, event, file, text):
        target = None if file is None else self.work / file
        if event == "write":
            self.student_writes(file, as_notebook("student " + text))
        elif event == "break":
            self.student_writes(file, as_notebook("student " + text)[:30])
        elif event == "save" and target.exists() and file not in self.written:
            content = target.read_bytes()
            if content.startswith(b"{\n") and content.endswith(b"}"):
                write(target, save_as_jupyterlab_does(content))
        elif event == "remove":
            target.unlink(missing_ok=True)
            self.written.pop(file, None)
        elif event == "release":
            write(self.release / NOTEBOOK, as_notebook("release " + text))
        elif event == "forget":
            (self.work / ".bits" / "delivered.json").unlink(missing_ok=True)
        elif event == "deliver":
            deliver(self.release, self.work)

    def student_writes(self, file, content):
        write(self.work / file, content)
        self.written[file] = content


@settings(max_examples=150)
@given(st.lists(EVENTS, min_size=3, max_size=14))
def test_no_sequence_of_events_loses_what_the_student_wrote(events):
    with tempfile.TemporaryDirectory() as folder:
        model = Model(Path(folder))
        for event in [*events, ("deliver", None, None)]:
            model.happen(*event)
            for file, content in model.written.items():
                assert (model.work / file).read_bytes() == content


@settings(max_examples=60)
@given(st.lists(EVENTS.filter(lambda e: e[0] in ("save", "release", "forget", "deliver"))))
def test_student_who_writes_nothing_always_finds_the_present_release(events):
    with tempfile.TemporaryDirectory() as folder:
        model = Model(Path(folder))
        for event in [*events, ("deliver", None, None)]:
            model.happen(*event)
        present = (model.release / NOTEBOOK).read_bytes()
        copies = [path.read_bytes() for path in (model.work / CHAPTER).iterdir()]
        assert any(copy in (present, save_as_jupyterlab_does(present)) for copy in copies)
