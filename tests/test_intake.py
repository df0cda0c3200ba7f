"""Intake: whatever is handed in, nobody's work is lost, and nothing hostile gets further."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import stat
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import nbformat
import pytest
from classroom import as_colab_saves
from course_files import release
from hypothesis import given
from hypothesis import strategies as st

from helpers.grading.caps import Caps
from helpers.grading.errors import IntakeError
from helpers.grading.intake import intake, receipts
from helpers.grading.intake.intake import Summary, collect, summarize
from helpers.grading.intake.origins import Layout, Origin
from helpers.grading.intake.students import Students
from helpers.grading.names import find_fault, printable, reduce_to_id
from helpers.grading.soundness import MalformedError, examine

ASSIGNMENT = "08-numerical-stability"
NOTEBOOK = "numerical-stability.ipynb"
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
CAPS = Caps()


def make_notebook(text: str = "x = 1", **changes: object) -> bytes:
    cell = {
        "cell_type": "code",
        "execution_count": None,
        "metadata": {"nbgrader": {"grade_id": "softmax"}},
        "outputs": [],
        "source": [text],
    }
    content = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 4}
    return json.dumps(content | changes).encode()


@pytest.fixture
def course(tmp_path: Path) -> Path:
    for name in (ASSIGNMENT, "05-normalization"):
        folder = tmp_path / "course" / "release" / name
        folder.mkdir(parents=True)
        (folder / f"{name[3:]}.ipynb").write_bytes(make_notebook())
    return tmp_path / "course"


def make_zip(path: Path, entries: list[tuple[str | zipfile.ZipInfo, bytes]]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries:
            archive.writestr(name, content)
    return path


def make_folder(path: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(content)
    return path


def counts(course: Path) -> dict[str, bytes]:
    """Return for each student the notebook that nbgrader will grade."""
    found = course.glob(f"submitted/*/{ASSIGNMENT}/*.ipynb")
    return {file.parent.parent.name: file.read_bytes() for file in found if file.name == NOTEBOOK}


def book(course: Path) -> list[dict]:
    file = course / "received" / ASSIGNMENT / "receipts.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def kept(course: Path) -> list[bytes]:
    folder = course / "received" / ASSIGNMENT
    return [(folder / line["id"] / "received.ipynb").read_bytes() for line in book(course)]


def everything(course: Path) -> dict[str, bytes]:
    files = (file for top in ("received", "submitted") for file in (course / top).rglob("*"))
    return {str(f.relative_to(course)): f.read_bytes() for f in files if f.is_file()}


def reasons(summary: Summary) -> str:
    return "\n".join(summarize(summary))


# What learning management systems write


MOODLE = [
    ("Jane Doe_1234567_assignsubmission_file_/numerical-stability.ipynb", "Jane-Doe"),
    ("Jane Doe_1234567_assignsubmission_file/numerical-stability.ipynb", "Jane-Doe"),
    ("Jane Doe_1234567_assignsubmission_file_/my work/again/solved.ipynb", "Jane-Doe"),
    ("Jane Doe_1234567_assignsubmission_file_solved.ipynb", "Jane-Doe"),
    ("Zoë O'Brien-Łuk_7_assignsubmission_file_/a.ipynb", "Zoe-O-Brien--uk"),
    ("Participant_98_assignsubmission_file_/numerical-stability.ipynb", "Participant_98"),
]
CANVAS = [
    ("doejane_12345_67890_numerical-stability.ipynb", "doejane"),
    ("doejane_LATE_12345_67890_numerical-stability.ipynb", "doejane"),
    ("doejane_12345_67890_numerical-stability-1.ipynb", "doejane"),
    ("de_la_cruzjo_12345_67890_bob_1_2_x.ipynb", "de_la_cruzjo"),
    ("LATE_anon_aB3x9_67890_numerical-stability.ipynb", "anon_aB3x9"),
    ("anon_aB3x9_67890_numerical-stability.ipynb", "anon_aB3x9"),
]
OTHERS = [
    ("s123/numerical-stability.ipynb", "s123"),
    ("s123/08-numerical-stability/numerical-stability.ipynb", "s123"),
    ("submitted/s123/08-numerical-stability/numerical-stability.ipynb", "s123"),
    ("s123_numerical-stability.ipynb", "s123"),
    ("numerical-stability-s123 (2).ipynb", "s123"),
    ("s123.ipynb", "s123"),
    ("s123/Bob_7_assignsubmission_file_/numerical-stability.ipynb", "s123"),
    ("s123/bob_12_34_numerical-stability.ipynb", "s123"),
    ("Eve_1_assignsubmission_file_Bob_2_assignsubmission_file_x.ipynb", "Eve"),
]


@pytest.mark.parametrize(("name", "student"), [*MOODLE, *CANVAS, *OTHERS])
@pytest.mark.parametrize("kind", ["zip", "folder"])
def test_a_name_tells_the_student(
    course: Path, tmp_path: Path, kind: str, name: str, student: str
) -> None:
    if kind == "zip":
        source = make_zip(tmp_path / "all.zip", [(name, make_notebook())])
    else:
        source = make_folder(tmp_path / "all", {name: make_notebook()})
    summary = collect(source, course, ASSIGNMENT)
    assert summary.collected == [student]
    assert counts(course) == {student: make_notebook()}


@pytest.mark.parametrize(
    "wrapped",
    [
        [MOODLE[0][0], MOODLE[4][0]],
        [CANVAS[0][0], CANVAS[4][0]],
        ["a/x.ipynb", "b/x.ipynb"],
    ],
)
def test_whether_a_folder_around_everything_is_a_class_is_a_question(
    course: Path, tmp_path: Path, wrapped: list[str]
) -> None:
    entries = {f"downloads/{name}": make_notebook() for name in wrapped}
    folder = make_folder(tmp_path / "all", entries)
    for source in (make_zip(tmp_path / "all.zip", list(entries.items())), folder):
        with pytest.raises(IntakeError, match=r"one folder, downloads, .*--student.*that folder"):
            collect(source, course, ASSIGNMENT)
        assert (counts(course), book(course)) == ({}, [])
    collect(folder / "downloads", course, ASSIGNMENT)
    assert "downloads" not in counts(course)
    assert len(counts(course)) == len(wrapped)
    collect(folder, course, ASSIGNMENT, student="eve")
    assert book(course)[-1]["student"] == "eve"


def test_one_of_several_folders_is_a_students_though_the_others_hold_no_notebook(
    course: Path, tmp_path: Path
) -> None:
    names = [CANVAS[0][0], CANVAS[4][0]]
    folder = make_folder(tmp_path / "all", {f"eve/{name}": make_notebook(name) for name in names})
    make_folder(folder, {"list.csv": b"lies beside it"})
    with pytest.raises(IntakeError, match="one folder, eve,"):
        collect(folder, course, ASSIGNMENT)
    make_folder(folder, {"bob/solved.py": b"no notebook"})
    collect(folder, course, ASSIGNMENT)
    assert {line["student"] for line in book(course)} == {"eve"}


OTHERS_NAMES = {
    "as Canvas names them": [
        "ada_1_90_numerical-stability.ipynb",
        "bob_2_91_numerical-stability.ipynb",
    ],
    "as Canvas names one": ["ada_1_90_numerical-stability.ipynb"],
    "as Moodle names them": [
        "Ada_1_assignsubmission_file_numerical-stability.ipynb",
        "Bob_2_assignsubmission_file_/numerical-stability.ipynb",
    ],
    "as folders": ["ada/numerical-stability.ipynb", "bob/numerical-stability.ipynb"],
    "as nbgrader has them": [f"submitted/ada/{ASSIGNMENT}/{NOTEBOOK}"],
    "with another's accents": ["ada\u0301/numerical-stability.ipynb", "ada/a.ipynb"],
}
CLASS_OF_THREE = "student_id,name,lms_id\nada,Ada,1\nbob,Bob,2\neve,Eve,3\n"


@pytest.mark.parametrize("names", OTHERS_NAMES.values(), ids=OTHERS_NAMES.keys())
@pytest.mark.parametrize("roster", [True, False])
@pytest.mark.parametrize("given", ["a class", "only eve's", "eve's folder", "eve's zip"])
def test_one_students_folder_is_one_students_whatever_names_lie_in_it(
    course: Path, tmp_path: Path, names: list[str], roster: bool, given: str
) -> None:
    (tmp_path / "class.csv").write_text(CLASS_OF_THREE)
    class_list = tmp_path / "class.csv" if roster else None
    honest = {f"{name}/{NOTEBOOK}": make_notebook(name) for name in ("ada", "bob", "eve")}
    collect(make_folder(tmp_path / "first", honest), course, ASSIGNMENT, roster=class_list)
    before = counts(course)
    later = make_folder(
        tmp_path / "later", {f"eve/{name}": make_notebook("evil") for name in names}
    )
    if given == "a class":
        make_folder(later, {"carl/x.ipynb": make_notebook("carl")})
    source = later / "eve" if given == "eve's folder" else later
    if given == "eve's zip":
        source = make_zip(tmp_path / "eve.zip", [(name, make_notebook("evil")) for name in names])
    with contextlib.suppress(IntakeError):
        collect(source, course, ASSIGNMENT, roster=class_list)
        assert given in ("a class", "only eve's")
    after = counts(course)
    assert {name: after[name] for name in ("ada", "bob")} == {n: before[n] for n in ("ada", "bob")}
    assert {line["student"] for line in book(course)} <= {"ada", "bob", "eve", "carl"}
    collect(
        source, course, ASSIGNMENT, roster=class_list, student="eve" if given != "a class" else None
    )
    assert {line["student"] for line in book(course)} <= {"ada", "bob", "eve", "carl"}


@pytest.mark.parametrize(
    ("name", "student"),
    [
        ("eve_3_50_Bob_2_assignsubmission_file_x.ipynb", "eve"),
        ("eve_3_50_bob_2_99_x.ipynb", "eve"),
        ("eve_LATE_3_50_Bob_2_assignsubmission_file_x.ipynb", "eve"),
        ("Eve_3_assignsubmission_file_bob_2_99_x.ipynb", "eve"),
        ("Eve_3_assignsubmission_file_/bob_2_99_x.ipynb", "eve"),
    ],
)
def test_what_a_student_calls_a_file_does_not_give_it_to_others(
    course: Path, tmp_path: Path, name: str, student: str
) -> None:
    (tmp_path / "class.csv").write_text(CLASS_OF_THREE)
    source = make_zip(tmp_path / "all.zip", [(name, make_notebook("eve"))])
    collect(source, course, ASSIGNMENT, roster=tmp_path / "class.csv")
    assert counts(course) == {student: make_notebook("eve")}


def test_two_folders_that_look_the_same_are_two_students(course: Path, tmp_path: Path) -> None:
    names = ["Zo\u00eb", "Zoe\u0308", "zo\u00eb", "ZOE\u0308"]
    entries = [(f"{name}/{NOTEBOOK}", make_notebook(str(i))) for i, name in enumerate(names)]
    for source in (
        make_zip(tmp_path / "all.zip", entries),
        make_folder(tmp_path / "all", dict(entries)),
    ):
        collect(source, course, ASSIGNMENT)
        assert sorted(counts(course).values()) == sorted(content for _, content in entries)


def test_names_that_are_utf8_without_saying_so_are_read_as_utf8(
    course: Path, tmp_path: Path
) -> None:
    source = make_zip(tmp_path / "all.zip", [("Zoe\u0308/x.ipynb", make_notebook())])
    content = bytearray(source.read_bytes())
    for mark, at in ((b"PK\x03\x04", 7), (b"PK\x01\x02", 9)):
        assert content[content.index(mark) + at] & 0x08
        content[content.index(mark) + at] &= ~0x08
    source.write_bytes(content)
    assert collect(source, course, ASSIGNMENT).collected == ["Zoe"]
    assert book(course)[0]["sender"] == "Zo\u00eb"


def test_of_two_in_canvas_the_greater_attachment_counts(course: Path, tmp_path: Path) -> None:
    early, late = make_notebook("early"), make_notebook("late")
    entries = [
        ("doejane_1_200_numerical-stability.ipynb", late),
        ("doejane_1_100_numerical-stability-1.ipynb", early),
    ]
    collect(make_zip(tmp_path / "all.zip", entries), course, ASSIGNMENT)
    assert counts(course) == {"doejane": late}
    assert kept(course) == [early, late]


def test_a_pattern_names_student_and_file(course: Path, tmp_path: Path) -> None:
    names = ("group7--s1--numerical-stability.ipynb", "unrelated.ipynb")
    source = make_folder(tmp_path / "all", {name: make_notebook() for name in names})
    pattern = r"--(?P<student>s\d+)--(?P<file>.+)"
    summary = collect(source, course, ASSIGNMENT, pattern=pattern)
    assert summary.collected == ["s1"]
    assert summary.refused == [("unrelated.ipynb", "its name does not match the pattern")]
    assert book(course)[0]["file"] == NOTEBOOK


def test_one_notebook_of_a_named_student(course: Path, tmp_path: Path) -> None:
    source = make_folder(tmp_path / "all", {NOTEBOOK: make_notebook()}) / NOTEBOOK
    assert "does not identify the student" in reasons(collect(source, course, ASSIGNMENT))
    collect(source, course, ASSIGNMENT, student="s1")
    assert counts(course) == {"s1": make_notebook()}


def test_a_student_named_by_id_gets_no_second_id(course: Path, tmp_path: Path) -> None:
    files = {"s1_55_1_x.ipynb": make_notebook("first"), "mail/x.ipynb": make_notebook("second")}
    folder = make_folder(tmp_path / "all", files)
    collect(folder / "s1_55_1_x.ipynb", course, ASSIGNMENT)
    collect(folder / "mail" / "x.ipynb", course, ASSIGNMENT, student="s1")
    assert counts(course) == {"s1": make_notebook("second")}


def test_work_of_another_assignment_is_left(course: Path, tmp_path: Path) -> None:
    files = {
        f"submitted/s1/{ASSIGNMENT}/{NOTEBOOK}": make_notebook(),
        "submitted/s1/05-normalization/normalization.ipynb": make_notebook("other"),
    }
    collect(make_folder(tmp_path, files) / "submitted", course, ASSIGNMENT)
    assert kept(course) == [make_notebook()]


# Which notebook counts


def test_a_single_notebook_gets_the_right_name(course: Path, tmp_path: Path) -> None:
    collect(make_folder(tmp_path / "all", {"s1/hw.ipynb": make_notebook()}), course, ASSIGNMENT)
    assert counts(course) == {"s1": make_notebook()}


def test_among_several_the_right_name_counts_and_the_others_are_kept(
    course: Path, tmp_path: Path
) -> None:
    files = {"s1/draft.ipynb": make_notebook("draft"), f"s1/{NOTEBOOK}": make_notebook("right")}
    collect(make_folder(tmp_path / "all", files), course, ASSIGNMENT)
    assert counts(course) == {"s1": make_notebook("right")}
    assert {line["status"] for line in book(course)} == {"accepted", "extra"}


def test_several_other_names_are_a_question(course: Path, tmp_path: Path) -> None:
    files = {"s1/a.ipynb": make_notebook("a"), "s1/b.ipynb": make_notebook("b")}
    folder = make_folder(tmp_path / "all", files)
    assert "which one? a.ipynb, b.ipynb" in reasons(collect(folder, course, ASSIGNMENT))
    assert counts(course) == {}
    assert len(kept(course)) == 2
    (folder / "s1" / "a.ipynb").unlink()
    collect(folder, course, ASSIGNMENT)
    assert counts(course) == {"s1": make_notebook("b")}


def test_the_later_received_counts_and_both_are_kept(course: Path, tmp_path: Path) -> None:
    for text in ("first", "second"):
        files = {f"s1/{NOTEBOOK}": make_notebook(text)}
        summary = collect(make_folder(tmp_path / "all", files), course, ASSIGNMENT)
    assert (summary.collected, summary.replaced) == ([], ["s1"])
    assert counts(course) == {"s1": make_notebook("second")}
    assert kept(course) == [make_notebook("first"), make_notebook("second")]


def test_the_same_bytes_again_change_nothing(course: Path, tmp_path: Path) -> None:
    entries = [(name, make_notebook(name)) for name, _ in CANVAS] + [("z.ipynb", b"damaged")]
    source = make_zip(tmp_path / "all.zip", entries)
    collect(source, course, ASSIGNMENT)
    before = everything(course)
    summary = collect(source, course, ASSIGNMENT)
    assert everything(course) == before
    assert (summary.collected, summary.replaced) == ([], [])
    assert set(summary.unchanged) == set(counts(course))
    assert summary.malformed


def test_old_bytes_do_not_come_back_unheard(course: Path, tmp_path: Path) -> None:
    for text in ("first", "second", "first"):
        files = {f"s1/{NOTEBOOK}": make_notebook(text)}
        summary = collect(make_folder(tmp_path / "all", files), course, ASSIGNMENT)
    assert counts(course) == {"s1": make_notebook("second")}
    assert "had been received before" in reasons(summary)


def test_a_notebook_of_another_chapter_is_told(course: Path, tmp_path: Path) -> None:
    other = make_notebook(metadata={"bits": {"chapter": "05-normal\x1b[31m"}})
    summary = collect(make_folder(tmp_path / "all", {"s1/x.ipynb": other}), course, ASSIGNMENT)
    assert r"notebook is of chapter 05-normal\x1b[31m" in reasons(summary)


def test_what_the_instructor_changed_by_hand_stays_until_a_later_one_comes(
    course: Path, tmp_path: Path
) -> None:
    folder = make_folder(tmp_path / "all", {f"s1/{NOTEBOOK}": make_notebook("first")})
    collect(folder, course, ASSIGNMENT)
    mended = make_notebook("mended")
    (course / "submitted" / "s1" / ASSIGNMENT / NOTEBOOK).write_bytes(mended)
    collect(folder, course, ASSIGNMENT)
    assert counts(course) == {"s1": mended}
    make_folder(folder, {f"s1/{NOTEBOOK}": make_notebook("second")})
    assert "changed by hand" in reasons(collect(folder, course, ASSIGNMENT))
    assert counts(course) == {"s1": make_notebook("second")}
    assert mended in kept(course)


# Time


def test_the_time_is_ours_and_nbgrader_reads_it(course: Path, tmp_path: Path) -> None:
    utils = pytest.importorskip("nbgrader.utils")
    entry = zipfile.ZipInfo(f"s1/{NOTEBOOK}", date_time=(1999, 1, 1, 0, 0, 0))
    source = make_zip(tmp_path / "all.zip", [(entry, make_notebook()), ("s1/timestamp.txt", b"1")])
    east = NOON.astimezone(datetime.now().astimezone().tzinfo)
    collect(source, course, ASSIGNMENT, clock=lambda: east)
    stamp = (course / "submitted" / "s1" / ASSIGNMENT / "timestamp.txt").read_text()
    assert utils.parse_utc(stamp) == NOON.replace(tzinfo=None)
    assert book(course)[0]["received_at"] == stamp


def test_a_clock_that_is_set_back_does_not_reorder(course: Path, tmp_path: Path) -> None:
    for hours, text in ((0, "first"), (-5, "second")):
        folder = make_folder(tmp_path / "all", {f"s1/{NOTEBOOK}": make_notebook(text)})
        now = NOON + timedelta(hours=hours)
        collect(folder, course, ASSIGNMENT, clock=lambda now=now: now)
    first, second = (line["received_at"] for line in book(course))
    assert first < second
    assert counts(course) == {"s1": make_notebook("second")}


# The roster


ROSTER = """student_id,name,email,lms_id,lms_name
s1,Jane Doe,jane@example.edu,12345,
s2,"de la Cruz, Jo",jo@example.edu,,
s3,Ann Lee,,Participant 4711,
s4,Ann Lee,,,Lee Ann (2)
12345x,Zoë Łuk,,,
"""


@pytest.mark.parametrize(
    ("name", "student"),
    [
        ("doejane_77_1_x.ipynb", "s1"),
        ("somebody_12345_1_x.ipynb", "s1"),
        ("Participant_4711_assignsubmission_file_/x.ipynb", "s3"),
        ("JANE@example.edu/x.ipynb", "s1"),
        ("de_la_cruzjo_9_1_x.ipynb", "s2"),
        ("Jo de la Cruz_8_assignsubmission_file_/x.ipynb", "s2"),
        ("lee ann (2)/x.ipynb", "s4"),
        ("Zoe\u0308 Łuk_5_assignsubmission_file_/x.ipynb", "12345x"),
    ],
)
@pytest.mark.parametrize("change", [None, lambda text: "\ufeff" + text.replace(",", ";")])
def test_the_roster_tells_who_it_is(
    course: Path, tmp_path: Path, name: str, student: str, change: Callable | None
) -> None:
    roster = tmp_path / "roster.csv"
    plain = ROSTER.replace('"de la Cruz, Jo"', "Jo de la Cruz")
    roster.write_text(change(plain) if change else ROSTER, encoding="utf-8")
    source = make_folder(tmp_path / "all", {name: make_notebook()})
    summary = collect(source, course, ASSIGNMENT, roster=roster)
    assert summary.collected == [student]
    assert summary.unknown == []
    assert sorted(summary.missing) == sorted({"s1", "s2", "s3", "s4", "12345x"} - {student})


@pytest.mark.parametrize(
    ("header", "line"),
    [
        ("student_id,first_name,last_name", "s1,Jane,Doe"),
        ("First name,Last name,ID number,Email address", "Jane,Doe,s1,"),
        ("student_id,Full name,ID number", "s1,Jane Doe,77"),
        ("student_id,Identifier", "s1,Participant 1001"),
        ("student_id,Email address", "s1,Jane Doe"),
    ],
)
def test_a_list_as_others_write_it_tells_who_it_is(
    course: Path, tmp_path: Path, header: str, line: str
) -> None:
    roster = tmp_path / "roster.csv"
    roster.write_text(f"{header}\n{line}\n", encoding="utf-8")
    name = "Jane Doe_1001_assignsubmission_file_/x.ipynb"
    source = make_folder(tmp_path / "all", {name: make_notebook()})
    assert collect(source, course, ASSIGNMENT, roster=roster).collected == ["s1"]


@pytest.mark.parametrize("name", ["Ann Lee", "Nobody", "s1x", "12345"])
def test_who_is_not_on_the_roster_or_not_surely_is_kept_and_told(
    course: Path, tmp_path: Path, name: str
) -> None:
    roster = tmp_path / "roster.csv"
    roster.write_text(ROSTER, encoding="utf-8")
    source = make_folder(tmp_path / "all", {f"{name}/x.ipynb": make_notebook()})
    summary = collect(source, course, ASSIGNMENT, roster=roster)
    assert [who for who, _ in summary.unknown] == [name]
    (student,) = counts(course)
    assert student == name.replace(" ", "-")
    assert len(summary.missing) == 5


def test_a_stranger_does_not_get_a_students_id(course: Path, tmp_path: Path) -> None:
    roster = tmp_path / "roster.csv"
    roster.write_text("student_id,lms_id\ns-1,9\n", encoding="utf-8")
    entries = [("real_9_1_x.ipynb", make_notebook("real")), ("s 1_8_2_x.ipynb", make_notebook())]
    summary = collect(make_zip(tmp_path / "a.zip", entries), course, ASSIGNMENT, roster=roster)
    assert counts(course)["s-1"] == make_notebook("real")
    assert len(counts(course)) == 2
    assert "somebody else has the id s-1" in reasons(summary)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "no column student_id"),
        (b"name,email\nJane,x\n", "no column student_id"),
        (b"student_id\ns1\nS1\n", "twice"),
        (b"student_id,name\n,Jane\n", "without a student_id"),
        ("student_id\nZoë\n".encode("utf-16"), "not a CSV file in UTF-8"),
        (None, "cannot be read"),
    ],
)
def test_a_bad_roster_is_one_sentence(
    course: Path, tmp_path: Path, content: bytes | None, sentence: str
) -> None:
    if content is not None:
        (tmp_path / "roster.csv").write_bytes(content)
    source = make_folder(tmp_path / "all", {"s1/x.ipynb": make_notebook()})
    with pytest.raises(IntakeError, match=sentence):
        collect(source, course, ASSIGNMENT, roster=tmp_path / "roster.csv")
    assert everything(course) == {}


# Hostile names


def linked(name: str, kind: int) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name)
    entry.create_system = 3
    entry.external_attr = (kind | 0o644) << 16
    return entry


HOSTILE_NAMES = {
    "absolute": "/etc/x.ipynb",
    "drive": "C:/x.ipynb",
    "parent": "s1/../../../x.ipynb",
    "dot": "./s1/x.ipynb",
    "empty part": "s1//x.ipynb",
    "backslash": "s1\\..\\x.ipynb",
    "nul": "s1/x\0.ipynb",
    "escape": "s1/\x1b[2Jx.ipynb",
    "newline": "s1/x\ny.ipynb",
    "bidi": "s1/\u202ebnypi.ipynb",
    "isolate": "s1/\u2066x.ipynb",
    "device": "s1/AUX.ipynb",
    "device folder": "com1/x.ipynb",
    "device with a space": "nul .x/con .ipynb",
    "long part": f"s1/{'x' * 300}.ipynb",
    "deep": "s1/" + "a/" * 40 + "x.ipynb",
    "long": "s1/" + ("a" * 200 + "/") * 10 + "x.ipynb",
}


def raw_named(path: Path, name: str) -> Path:
    """Write a zip with a name that zipfile would mend, beside a good one."""
    stand_in = "@" * len(name.encode())
    entries = [(stand_in, make_notebook("bad")), (f"good/{NOTEBOOK}", make_notebook("good"))]
    make_zip(path, entries)
    content = path.read_bytes().replace(stand_in.encode(), name.encode())
    content = bytearray(content)
    for mark, at in ((b"PK\x03\x04", 7), (b"PK\x01\x02", 9)):
        content[content.index(mark) + at] |= 0x08
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("name", HOSTILE_NAMES.values(), ids=HOSTILE_NAMES)
def test_a_hostile_name_is_refused_and_the_others_are_collected(
    course: Path, tmp_path: Path, name: str
) -> None:
    outside = set(tmp_path.parent.iterdir())
    summary = collect(raw_named(tmp_path / "all.zip", name), course, ASSIGNMENT)
    assert counts(course) == {"good": make_notebook("good")}
    assert [shown for shown, _ in summary.refused] == [printable(name)]
    assert all(line.isprintable() for line in summarize(summary))
    assert set(tmp_path.parent.iterdir()) == outside


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR, stat.S_IFSOCK])
def test_links_and_special_files_in_a_zip_are_refused(
    course: Path, tmp_path: Path, kind: int
) -> None:
    entries = [(linked("s1/x.ipynb", kind), b"/etc/passwd"), ("s2/x.ipynb", make_notebook())]
    summary = collect(make_zip(tmp_path / "all.zip", entries), course, ASSIGNMENT)
    assert list(counts(course)) == ["s2"]
    is_link = kind == stat.S_IFLNK
    reason = "it is a link" if is_link else "it is a device, a pipe or a socket"
    assert summary.refused == [("s1/x.ipynb", reason)]


def test_links_and_special_files_in_a_folder_are_refused(
    course: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_folder(tmp_path / "all", {"s1/x.ipynb": make_notebook()})
    secret = make_folder(tmp_path / "secret", {"x.ipynb": make_notebook("secret")})
    (folder / "s2").symlink_to(secret)
    make_folder(folder, {"s3/note.txt": b""})
    (folder / "s3" / "x.ipynb").symlink_to(secret / "x.ipynb")
    os.mkfifo(folder / "s3" / "pipe.ipynb")
    with socket.socket(socket.AF_UNIX) as bound:
        monkeypatch.chdir(folder / "s3")  # a socket's path must be short
        bound.bind("socket.ipynb")
        summary = collect(folder, course, ASSIGNMENT)
    assert counts(course) == {"s1": make_notebook()}
    assert {name for name, _ in summary.refused} == {
        "s2",
        "s3/note.txt",
        "s3/x.ipynb",
        "s3/pipe.ipynb",
        "s3/socket.ipynb",
    }


def test_a_name_that_is_not_utf8_is_refused(course: Path, tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "all", {"s1/x.ipynb": make_notebook()})
    (folder / os.fsdecode(b"s\xff.ipynb")).write_bytes(make_notebook())
    summary = collect(folder, course, ASSIGNMENT)
    assert list(counts(course)) == ["s1"]
    assert "not UTF-8" in reasons(summary)
    reasons(summary).encode()


def test_no_two_students_fall_onto_one_id(course: Path, tmp_path: Path) -> None:
    names = ["Jane Doe", "jane-doe", "Jane.Doe", "Jané Doe", "李明", "王芳", "..a", "-a"]
    entries = [(f"{name}/x.ipynb", make_notebook(name)) for name in names]
    summary = collect(make_zip(tmp_path / "all.zip", entries), course, ASSIGNMENT)
    assert sorted(counts(course).values()) == sorted(content for _, content in entries)
    assert len({student.casefold() for student in counts(course)}) == len(names)
    assert "somebody else has the id" in reasons(summary)
    before = everything(course)
    collect(make_zip(tmp_path / "all.zip", entries[::-1]), course, ASSIGNMENT)
    assert everything(course) == before


@given(st.lists(st.text(min_size=1), unique=True, max_size=8))
def test_any_names_give_safe_and_different_ids(texts: list[str]) -> None:
    students = Students(None, [])
    ids = [students.identify(Origin(text, text, "", "x.ipynb")) for text in texts]
    assert len({student.casefold() for student in ids}) == len(texts)
    for student in ids:
        assert student.isascii()
        assert find_fault(student, CAPS) is None
        assert student[0] not in ".-"
        assert reduce_to_id(student) == student
        assert len(student) <= 64


@given(st.text())
def test_any_name_is_judged_and_shown(name: str) -> None:
    fault = find_fault(name, CAPS)
    assert printable(name).isprintable()
    if fault is None:
        target = (Path("/base") / name).as_posix()
        assert os.path.normpath(target).startswith("/base/")
        Layout([name], NOTEBOOK, ASSIGNMENT, {ASSIGNMENT}).origin(name)


# Hostile zips and too much of everything


@pytest.mark.parametrize("content", [b"", b"not a zip", b"PK\x05\x06" + b"\0" * 10])
def test_what_is_no_zip_is_one_sentence(course: Path, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "all.zip").write_bytes(content)
    with pytest.raises(IntakeError, match="is not a zip, or is damaged"):
        collect(tmp_path / "all.zip", course, ASSIGNMENT)


@pytest.mark.parametrize("cut", range(0, 400, 7))
def test_a_damaged_zip_is_never_an_exception_of_another_kind(
    course: Path, tmp_path: Path, cut: int
) -> None:
    source = make_zip(tmp_path / "all.zip", [(f"s{n}/x.ipynb", make_notebook()) for n in range(3)])
    content = bytearray(source.read_bytes())
    at = cut * len(content) // 400
    content[at : at + 3] = b"\xff\xff\xff"
    source.write_bytes(content)
    try:
        collect(source, course, ASSIGNMENT)
    except IntakeError:
        assert everything(course) == {}
    assert all(content == make_notebook() for content in counts(course).values())


def test_one_bad_entry_does_not_cost_the_others(course: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.writestr("s1/x.ipynb", make_notebook("bad one"))
        archive.writestr("s2/x.ipynb", make_notebook("good"))
    content = (tmp_path / "all.zip").read_bytes()
    (tmp_path / "all.zip").write_bytes(content.replace(b"bad one", b"bad two"))
    summary = collect(tmp_path / "all.zip", course, ASSIGNMENT)
    assert counts(course) == {"s2": make_notebook("good")}
    assert summary.refused == [("s1/x.ipynb", "it is damaged within the zip")]


def encrypt(path: Path, which: int) -> None:
    content = bytearray(path.read_bytes())
    for mark, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        position = -1
        for _ in range(which):
            position = content.index(mark, position + 1)
        content[position + at] |= 1
    path.write_bytes(content)


def test_an_encrypted_zip_is_one_sentence(course: Path, tmp_path: Path) -> None:
    source = make_zip(tmp_path / "all.zip", [("s1/x.ipynb", make_notebook())])
    encrypt(source, 1)
    with pytest.raises(IntakeError, match="is encrypted: unpack it"):
        collect(source, course, ASSIGNMENT)


def test_an_encrypted_entry_is_refused(course: Path, tmp_path: Path) -> None:
    entries = [("s1/x.ipynb", make_notebook()), ("s2/x.ipynb", make_notebook())]
    source = make_zip(tmp_path / "all.zip", entries)
    encrypt(source, 2)
    summary = collect(source, course, ASSIGNMENT)
    assert summary.refused == [("s2/x.ipynb", "it is encrypted")]
    assert list(counts(course)) == ["s1"]


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_methods_whose_bombs_cannot_be_counted_are_refused(
    course: Path, tmp_path: Path, method: int
) -> None:
    with zipfile.ZipFile(tmp_path / "all.zip", "w", method) as archive:
        archive.writestr("s1/x.ipynb", make_notebook())
    summary = collect(tmp_path / "all.zip", course, ASSIGNMENT)
    assert summary.refused == [("s1/x.ipynb", "it is packed in a way that is not supported")]


def understate_size(path: Path) -> None:
    """Let the zip say that its first entry unpacks to 10 bytes."""
    content = bytearray(path.read_bytes())
    for mark, at in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        start = content.index(mark) + at
        content[start : start + 4] = (10).to_bytes(4, "little")
    path.write_bytes(content)


@pytest.mark.parametrize("lies", [False, True])
def test_a_bomb_is_refused_whatever_it_says_of_itself(
    course: Path, tmp_path: Path, lies: bool
) -> None:
    bomb = make_notebook("0" * 6 * 2**20)
    entries = [("s1/x.ipynb", bomb), ("s2/x.ipynb", make_notebook())]
    source = make_zip(tmp_path / "all.zip", entries)
    if lies:
        understate_size(source)
    summary = collect(source, course, ASSIGNMENT)
    assert list(counts(course)) == ["s2"]
    assert [name for name, _ in summary.refused] == ["s1/x.ipynb"]
    assert all(len(content) < 1000 for content in kept(course))


def test_a_zip_in_the_zip_is_not_opened(course: Path, tmp_path: Path) -> None:
    inner = make_zip(tmp_path / "inner.zip", [("s1/x.ipynb", make_notebook())]).read_bytes()
    entries = [("s1/inner.zip", inner), ("s2/x.ipynb", make_notebook())]
    summary = collect(make_zip(tmp_path / "all.zip", entries), course, ASSIGNMENT)
    assert list(counts(course)) == ["s2"]
    assert "s1/inner.zip: it is not a notebook" in reasons(summary)


def test_what_systems_add_is_passed_over(course: Path, tmp_path: Path) -> None:
    junk = ("__MACOSX/s1/._x.ipynb", "s1/.DS_Store", "s1/.ipynb_checkpoints/x-checkpoint.ipynb")
    entries = [(name, b"") for name in junk] + [("s1/x.ipynb", make_notebook()), ("s1/", b"")]
    summary = collect(make_zip(tmp_path / "all.zip", entries), course, ASSIGNMENT)
    assert summary.refused == []
    assert kept(course) == [make_notebook()]


@pytest.mark.parametrize("kind", ["zip", "folder"])
@pytest.mark.parametrize(
    ("caps", "collected", "sentence"),
    [
        (replace(CAPS, entries=2), 0, "holds more than 2 entries"),
        (replace(CAPS, notebook=400), 2, "it is larger than 400 bytes"),
        (replace(CAPS, total=700), 2, "all together is larger than 700 bytes"),
    ],
)
def test_too_much_is_refused(
    course: Path, tmp_path: Path, kind: str, caps: Caps, collected: int, sentence: str
) -> None:
    files = {f"s{n}/x.ipynb": make_notebook("x" * size) for n, size in enumerate((9, 9, 500))}
    if kind == "zip":
        source = make_zip(tmp_path / "all.zip", list(files.items()))
    else:
        source = make_folder(tmp_path / "all", files)
    try:
        said = reasons(collect(source, course, ASSIGNMENT, caps=caps))
    except IntakeError as error:
        said = str(error)
    assert sentence in said
    assert len(counts(course)) == collected


def test_a_table_of_contents_without_end_is_not_read(course: Path, tmp_path: Path) -> None:
    source = make_zip(tmp_path / "all.zip", [(f"s{n}/x.ipynb", b"") for n in range(100)])
    with pytest.raises(IntakeError, match="damaged"):
        collect(source, course, ASSIGNMENT, caps=replace(CAPS, table_of_contents=1000))


# Damaged notebooks


def nested(levels: int) -> bytes:
    return b'{"cells": ' + b"[" * levels + b"]" * levels + b', "nbformat": 4}'


CODE = json.loads(make_notebook())["cells"][0]
MALFORMED = {
    "empty": (b"", "it is empty"),
    "blank": (b" \n", "it is empty"),
    "text": (b"print(1)", "not JSON"),
    "truncated": (make_notebook()[:-40], "cut off"),
    "list": (b"[]", "not a notebook"),
    "other JSON": (b"{}", "not a notebook"),
    "format 3": (make_notebook(nbformat=3, worksheets=[]), "format 4"),
    "format 5": (make_notebook(nbformat=5), "format 4"),
    "format is text": (make_notebook(nbformat="4"), "format 4"),
    "format is true": (make_notebook(nbformat=True), "format 4"),
    "minor is text": (make_notebook(nbformat_minor="4"), "format 4"),
    "latin-1": (make_notebook().replace(b"x = 1", b"\xe9"), "not in UTF-8"),
    "utf-16": (make_notebook().decode().encode("utf-16"), "another encoding"),
    "utf-16 without mark": (make_notebook().decode().encode("utf-16-le"), "another encoding"),
    "gzip": (b"\x1f\x8b\x08\0\0\0\0\0", "another encoding"),
    "nan": (make_notebook(metadata={"x": float("nan")}), "NaN"),
    "infinity": (make_notebook(metadata={"x": -float("inf")}), "-Infinity"),
    "large number": (make_notebook().replace(b"null", b"1e999"), "too large"),
    "digits": (make_notebook().replace(b"null", b"1" * 10_000), "not JSON"),
    "twice": (make_notebook().replace(b'"nbformat":', b'"cells": [], "nbformat":'), "twice"),
    "no cells": (make_notebook(cells=[]), "no cells"),
    "cells missing": (b'{"nbformat": 4, "metadata": {}}', "without a list of cells"),
    "cells a text": (make_notebook(cells="x"), "without a list of cells"),
    "no metadata": (make_notebook(metadata=None), "without metadata"),
    "cell a text": (make_notebook(cells=["x"]), "cell 1 is damaged"),
    "cell of a kind": (make_notebook(cells=[CODE, CODE | {"cell_type": "x"}]), "cell 2"),
    "source a number": (make_notebook(cells=[CODE | {"source": 1}]), "cell 1"),
    "source of numbers": (make_notebook(cells=[CODE | {"source": [1]}]), "cell 1"),
    "outputs a text": (make_notebook(cells=[CODE | {"outputs": "x"}]), "cell 1"),
    "outputs of text": (make_notebook(cells=[CODE | {"outputs": ["x"]}]), "cell 1"),
    "output without kind": (make_notebook(cells=[CODE | {"outputs": [{}]}]), "cell 1"),
    "output of text": (
        make_notebook(cells=[CODE | {"outputs": [{"output_type": "display_data", "data": "x"}]}]),
        "nbformat cannot",
    ),
    "nbgrader a text": (make_notebook(cells=[CODE | {"metadata": {"nbgrader": 1}}]), "cell 1"),
    "count a text": (make_notebook(cells=[CODE | {"execution_count": "x"}]), "notebook format"),
    "half a character": (make_notebook("\ud800"), "nbformat cannot"),
    "nested": (nested(90_000), "nested"),
    "nested objects": (b'{"a":' * 90_000, "nested"),
    "many values": (b"[" + b"0," * 2_000_000 + b"0]", "values"),
    "many cells": (make_notebook(cells=[CODE] * 10_001), "more than 10000 cells"),
}


@pytest.mark.parametrize(("content", "sentence"), MALFORMED.values(), ids=MALFORMED)
def test_a_damaged_notebook_is_a_receipt_and_no_exception(
    course: Path, tmp_path: Path, content: bytes, sentence: str
) -> None:
    files = {"s1/x.ipynb": content, "s2/x.ipynb": make_notebook()}
    summary = collect(make_folder(tmp_path / "all", files), course, ASSIGNMENT)
    assert counts(course) == {"s2": make_notebook()}
    assert [who for who, _ in summary.malformed] == ["s1"]
    assert sentence in summary.malformed[0][1]
    assert book(course)[0] | {"id": "", "received_at": ""} == {
        "id": "",
        "student": "s1",
        "sender": "s1",
        "file": "x.ipynb",
        "source": "s1/x.ipynb",
        "sha256": receipts.sha256(content),
        "size": len(content),
        "received_at": "",
        "status": "malformed",
        "reason": book(course)[0]["reason"],
    }
    assert kept(course)[0] == content


def test_a_damaged_one_leaves_the_good_one_in_its_place(course: Path, tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "all", {"s1/x.ipynb": make_notebook()})
    collect(folder, course, ASSIGNMENT, clock=lambda: NOON)
    make_folder(folder, {"s1/x.ipynb": b"damaged"})
    summary = collect(folder, course, ASSIGNMENT)
    assert counts(course) == {"s1": make_notebook()}
    assert "received at 2026-01-31 12:00 UTC still counts" in reasons(summary)
    assert kept(course) == [make_notebook(), b"damaged"]


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbf" + make_notebook(),
        make_notebook(nbformat_minor=0, cells=[CODE | {"id": "a", "outputId": "b"}]),
        make_notebook(nbformat_minor=5),
        make_notebook(nbformat_minor=5, cells=[CODE | {"id": "same"}] * 2),
        make_notebook(cells=[{"cell_type": "code", "metadata": {}, "source": "x"}]),
        make_notebook("x" * 5_000_000),
        make_notebook('"\\' * 500_000),
    ],
    ids=["mark", "colab", "without ids", "ids twice", "no outputs", "long", "quotes"],
)
def test_what_nbgrader_can_take_is_accepted(course: Path, tmp_path: Path, content: bytes) -> None:
    collect(make_folder(tmp_path / "all", {"s1/x.ipynb": content}), course, ASSIGNMENT)
    assert kept(course) == [content]
    assert counts(course) == {"s1": content.removeprefix(b"\xef\xbb\xbf")}
    nbformat.v4.reads(counts(course)["s1"].decode())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=3)
)


@given(
    st.sampled_from(["cells", "metadata", "nbformat_minor"]),
    st.sampled_from(["source", "metadata", "outputs", "cell_type", "execution_count", "id"]),
    JSON | st.dictionaries(st.text(), JSON, max_size=3),
    st.booleans(),
)
def test_any_notebook_is_either_malformed_or_readable(
    key: str, inner: str, value: object, deep: bool
) -> None:
    changes = {"cells": [CODE | {inner: value}]} if deep else {key: value}
    content = make_notebook(**changes)
    try:
        examine(content, CAPS)
    except MalformedError:
        return
    nbformat.v4.writes(nbformat.v4.reads(content.decode())).encode()


@given(st.binary(max_size=60))
def test_any_bytes_are_malformed_without_an_exception_of_another_kind(content: bytes) -> None:
    with pytest.raises(MalformedError):
        examine(content, CAPS)


# Killed at any moment


class Killed(BaseException):
    """What stops a run where it is; nothing catches it."""


def kill_at(monkeypatch: pytest.MonkeyPatch, moment: int) -> None:
    """Stop at the ``moment``-th call of what brings something to the disk."""
    calls = 0

    def stopping(function: Callable) -> Callable:
        def stop(*arguments: object) -> object:
            nonlocal calls
            calls += 1
            if calls == moment:
                raise Killed
            return function(*arguments)

        return stop

    for name in ("fsync", "replace"):
        monkeypatch.setattr(receipts.os, name, stopping(getattr(os, name)))


def state(course: Path) -> tuple[dict, list]:
    """Return what a run comes to, without times and numbers."""
    lines = [(r["student"], r["sha256"], r["status"]) for r in book(course)]
    assert [receipts.sha256(content) for content in kept(course)] == [line[1] for line in lines]
    stamps = course.glob(f"submitted/*/{ASSIGNMENT}/timestamp.txt")
    times = {file.parent.parent.name: file.read_text() for file in stamps}
    assert times == {
        r["student"]: r["received_at"] for r in book(course) if r["status"] == "accepted"
    }
    return counts(course), lines


def make_class(path: Path, round_: str) -> Path:
    return make_folder(path, {f"s{n}/x.ipynb": make_notebook(f"{n} {round_}") for n in range(3)})


def test_a_run_that_was_killed_is_finished_by_the_next(
    tmp_path: Path, course: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    early, late = make_class(tmp_path / "early", "early"), make_class(tmp_path / "late", "late")
    wanted = None
    for moment in range(1, 500):
        for top in ("received", "submitted"):
            subprocess.run(["rm", "-rf", str(course / top)], check=True)
        collect(early, course, ASSIGNMENT)
        with monkeypatch.context() as patch:
            kill_at(patch, moment)
            try:
                collect(late, course, ASSIGNMENT)
            except Killed:
                pass
            else:
                break
        collect(late, course, ASSIGNMENT)
        wanted = wanted or state(course)
        assert state(course) == wanted
    assert moment > 20
    assert state(course) == wanted


KILLED_RUN = """
import os, signal, sys
from pathlib import Path
from helpers.grading.intake.intake import collect

calls, fsync = 0, os.fsync
def stop(descriptor):
    global calls
    calls += 1
    if calls == int(sys.argv[1]):
        os.kill(os.getpid(), signal.SIGKILL)
    fsync(descriptor)
os.fsync = stop
collect(Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4])
"""


@pytest.mark.parametrize("moment", [4, 15])
def test_a_process_that_was_killed_leaves_nothing_locked(
    course: Path, tmp_path: Path, moment: int
) -> None:
    folder = make_class(tmp_path / "all", "")
    arguments = [str(moment), str(folder), str(course), ASSIGNMENT]
    run = subprocess.run([sys.executable, "-c", KILLED_RUN, *arguments], check=False)
    assert run.returncode == -9
    collect(folder, course, ASSIGNMENT)
    found, lines = state(course)
    assert len(found) == len(lines) == 3


def test_a_line_that_was_cut_off_was_never_official(course: Path, tmp_path: Path) -> None:
    folder = make_class(tmp_path / "all", "")
    collect(folder, course, ASSIGNMENT)
    file = course / "received" / ASSIGNMENT / "receipts.jsonl"
    wanted = state(course)
    file.write_bytes(file.read_bytes()[:-30])
    collect(folder, course, ASSIGNMENT)
    assert state(course) == wanted


def test_a_full_disk_is_one_sentence(
    course: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_class(tmp_path / "all", "")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(receipts.os, "fsync", full)
        with pytest.raises(IntakeError, match="No space left on device"):
            collect(folder, course, ASSIGNMENT)
    collect(folder, course, ASSIGNMENT)
    assert len(state(course)[0]) == 3


def test_a_damaged_book_is_one_sentence_and_left_as_it_is(course: Path, tmp_path: Path) -> None:
    folder = make_class(tmp_path / "all", "")
    collect(folder, course, ASSIGNMENT)
    file = course / "received" / ASSIGNMENT / "receipts.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(lines[0] + b"{}\n" + lines[2])
    before = everything(course)
    with pytest.raises(IntakeError, match=r"Line 2 of .*receipts\.jsonl is damaged"):
        collect(folder, course, ASSIGNMENT)
    assert everything(course) == before


def test_a_lost_book_costs_no_kept_bytes(course: Path, tmp_path: Path) -> None:
    collect(make_class(tmp_path / "early", "early"), course, ASSIGNMENT)
    (course / "received" / ASSIGNMENT / "receipts.jsonl").unlink()
    before = everything(course)
    collect(make_class(tmp_path / "late", "late"), course, ASSIGNMENT)
    after = everything(course)
    assert all(after[name] == before[name] for name in before if name.endswith("received.ipynb"))


def test_two_runs_at_once_are_told(course: Path, tmp_path: Path) -> None:
    folder = make_class(tmp_path / "all", "")
    with (
        receipts.sole_writer(course / "received" / ASSIGNMENT),
        pytest.raises(IntakeError, match="Another run is collecting"),
    ):
        collect(folder, course, ASSIGNMENT)


# What the instructor may get wrong


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"assignment": "09-nothing"}, "There is no assignment 09-nothing"),
        ({"assignment": "../x"}, "There is no assignment ../x"),
        ({"path": Path("nowhere.zip")}, "There is no folder, zip or notebook at nowhere.zip"),
        ({"pattern": "("}, "not a regular expression"),
        ({"pattern": "x"}, r"no group for the student"),
        ({"pattern": "(?P<student>.)", "student": "s1"}, "not both"),
        ({"student": " "}, "empty"),
    ],
)
def test_a_wrong_word_is_one_sentence(
    course: Path, tmp_path: Path, changes: dict, sentence: str
) -> None:
    folder = make_class(tmp_path / "all", "")
    arguments = {"path": folder, "course": course, "assignment": ASSIGNMENT} | changes
    with pytest.raises(IntakeError, match=sentence) as caught:
        collect(**arguments)
    assert "\n" not in str(caught.value)
    assert everything(course) == {}


def test_what_was_received_is_not_collected_again(course: Path, tmp_path: Path) -> None:
    collect(make_class(tmp_path / "all", ""), course, ASSIGNMENT)
    with pytest.raises(IntakeError, match="collected already"):
        collect(course / "received" / ASSIGNMENT, course, ASSIGNMENT)


def test_memory_does_not_grow_with_the_number_of_submissions(
    course: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alive: list[int] = []
    read = intake._Run._read

    class Counted(bytes):
        def __new__(cls, content: bytes) -> Counted:
            alive.append(1)
            return super().__new__(cls, content)

        def __del__(self) -> None:
            alive.pop()

    most = 0

    def counted(*arguments: object) -> bytes:
        nonlocal most
        content = Counted(read(*arguments))
        most = max(most, len(alive))
        return content

    monkeypatch.setattr(intake._Run, "_read", counted)
    entries = [(f"s{n}/x.ipynb", make_notebook(str(n))) for n in range(30)]
    collect(make_zip(tmp_path / "all.zip", entries), course, ASSIGNMENT)
    assert len(counts(course)) == 30
    assert most <= 2


def test_nbgrader_reads_what_was_collected(course: Path, tmp_path: Path) -> None:
    """Its own reader takes what is in submitted/: as Colab saves it, behind a byte order mark."""
    reader = pytest.importorskip("nbgrader.nbgraderformat")
    saved = nbformat.writes(as_colab_saves(release(ASSIGNMENT))).encode()
    source = make_folder(tmp_path / "all", {"s1/x.ipynb": b"\xef\xbb\xbf" + saved})
    collect(source, course, ASSIGNMENT)
    notebook = reader.read(course / "submitted" / "s1" / ASSIGNMENT / NOTEBOOK, as_version=4)
    assert len(notebook.cells) == len(release(ASSIGNMENT).cells)
