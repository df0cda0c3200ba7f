"""Intake, searched: whatever names lie in students' folders, each keeps what is theirs."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from test_intake import (
    ASSIGNMENT,
    CLASS_OF_THREE,
    NOTEBOOK,
    book,
    counts,
    everything,
    kept,
    make_folder,
    make_notebook,
    make_zip,
)

from helpers.grading.errors import IntakeError
from helpers.grading.intake.intake import collect, summarize
from helpers.grading.names import printable

# Each writes a course to the disk, and waits for the disk.
EXAMPLES = settings(max_examples=settings().max_examples // 4)
# What Python writes into a zip as it stands; other names are in `test_intake`.
LETTERS = st.characters(exclude_characters="/\0", exclude_categories=["Cs"])
STUDENTS = ("ada", "bob", "eve")
# What a student may call a folder or a file, for accident or in the hope that it is taken for
# something else.
parts = st.sampled_from(
    [
        "ada",
        "ADA",
        "ad\u00e1",
        "ada\u0301",
        "bob",
        "eve",
        "submitted",
        ASSIGNMENT,
        "05-normalization",
        "Bob_2_assignsubmission_file_",
        "..",
        ".",
        "...",
        "a b",
        "-x",
        "~",
        "received",
        "con",
        "\u202ex",
        "ada_1_90_x",
        "__MACOSX",
        ".ipynb_checkpoints",
        "x" * 250,
        "\u2028",
        "{0}",
        "%s",
        "*",
        "$(x)",
    ]
) | st.text(LETTERS, min_size=1, max_size=4)
files = (
    st.sampled_from(
        [
            NOTEBOOK,
            NOTEBOOK.upper(),
            "ada_1_90_numerical-stability.ipynb",
            "bob_2_91_x-1.ipynb",
            "Ada_1_assignsubmission_file_numerical-stability.ipynb",
            "ada.ipynb",
            "bob (1).ipynb",
            "eve_3_1_Bob_2_assignsubmission_file_x.ipynb",
            "x.IPYNB",
            ".ipynb",
            "all.zip",
            "LATE_.ipynb",
        ]
    )
    | parts.map(lambda part: f"{part}.ipynb")
    | parts
)
paths = st.lists(parts, max_size=3).flatmap(
    lambda folders: files.map(lambda file: "/".join([*folders, file]))
)
trees = st.dictionaries(st.sampled_from(STUDENTS), st.lists(paths, max_size=4), min_size=1)


def can_be_written(path: str) -> bool:
    """Tell whether a file system takes a path; not all of what a zip can hold."""
    own = path.split("/")
    return not {"", ".", ".."} & set(own) and all(len(os.fsencode(part)) < 256 for part in own)


def make_course(folder: Path) -> Path:
    for name in (ASSIGNMENT, "05-normalization"):
        made = folder / "course" / "release" / name
        made.mkdir(parents=True)
        (made / f"{name[3:]}.ipynb").write_bytes(make_notebook())
    return folder / "course"


def write(at: Path, tree: dict[str, list[str]], kind: str) -> tuple[Path, dict[bytes, str]]:
    """Write students' folders as a folder or a zip; return it, and the name of each notebook."""
    entries: dict[str, bytes] = {}
    for student, names in tree.items():
        for name in names:
            if kind == "zip" or can_be_written(name):
                content = make_notebook(f"{student} {len(entries)}")
                entries[f"{student}/{name}"] = content
    for name in list(entries):
        if any(other.startswith(f"{name}/") for other in entries):  # no file is a folder
            del entries[name]
    written = {content: name for name, content in entries.items()}
    if kind == "zip":
        return make_zip(at / "class.zip", list(entries.items())), written
    (at / "class").mkdir()
    return make_folder(at / "class", entries), written


@given(
    trees,
    st.sampled_from(["folder", "zip"]),
    st.booleans(),
    st.sampled_from([None, "eve"]),
)
@settings(EXAMPLES)
def test_nobody_gets_or_loses_what_belongs_to_others(
    tree: dict[str, list[str]], kind: str, roster: bool, named: str | None
) -> None:
    if named:
        tree = {"eve": tree.get("eve", [])}
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder)
        course = make_course(at)
        (at / "class.csv").write_text(CLASS_OF_THREE)
        class_list = at / "class.csv" if roster else None
        honest = {f"{name}/{NOTEBOOK}": make_notebook(name) for name in STUDENTS}
        owners = {content: name.split("/")[0] for name, content in honest.items()}
        collect(make_folder(at / "first", honest), course, ASSIGNMENT, roster=class_list)
        before = everything(course)
        source, written = write(at, tree, kind)
        owners |= {content: name.split("/")[0] for content, name in written.items()}
        try:
            summary = collect(source, course, ASSIGNMENT, roster=class_list, student=named)
        except IntakeError:  # a question, which a person can answer
            summary = None
        receipts = book(course)
        for receipt, content in zip(receipts, kept(course), strict=True):
            assert owners[content] == receipt["student"]
        for student, content in counts(course).items():
            assert owners[content] == student
        after = everything(course)
        received = {
            name: content for name, content in before.items() if name.endswith("received.ipynb")
        }
        assert {name: after[name] for name in received} == received
        if summary is not None:
            assert all(line.isprintable() for line in summarize(summary))
            lost = [name for content, name in written.items() if content not in kept(course)]
            for name in lost:
                assert is_excused(name, [refused for refused, _ in summary.refused]), name
            again = everything(course)
            collect(source, course, ASSIGNMENT, roster=class_list, student=named)
            assert everything(course) == again


def is_excused(name: str, refused: list[str]) -> bool:
    """Tell whether a file was refused in words, or its folder; is another assignment's; is junk."""
    parts = name.split("/")
    junk = ("__macosx", ".ipynb_checkpoints", ".ds_store")
    return (
        any(printable(f"{name}/").startswith(f"{told.rstrip('/')}/") for told in refused)
        or any(told.endswith("…") for told in refused)
        or parts[1] == "05-normalization"
        or any(part.startswith("._") or part.lower() in junk for part in parts)
    )


@given(st.lists(st.text(LETTERS, min_size=1, max_size=6), min_size=1, max_size=6, unique=True))
@settings(EXAMPLES)
def test_folders_that_differ_at_all_are_students_that_differ(tops: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        course = make_course(Path(folder))
        entries = [(f"{top}/{NOTEBOOK}", make_notebook(ascii(top))) for top in tops]
        source = make_zip(Path(folder) / "class.zip", entries)
        summary = collect(source, course, ASSIGNMENT)
        refused = len(summary.refused)
        assert len(counts(course)) >= len(entries) - refused - sum(t.startswith("._") for t in tops)
        assert len(set(counts(course).values())) == len(counts(course))
