"""Hostile submissions: each ends in the verdict that it deserves, and nothing outside changes."""

from __future__ import annotations

import contextlib
import hashlib
import math
import re
import shutil
import socket
import sys
import sysconfig
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

import nbformat
import pytest
from attack_corpus import (
    CHAPTER,
    CLASSES,
    EXERCISES,
    Attack,
    all_right,
    attack_files,
    attacks,
    attacks_in,
    left_blank,
)
from classroom import exercises_of
from course_files import COURSE, ROOT
from IPython.core.inputtransformer2 import TransformerManager
from registered_chapters import Register, register_in

from helpers.grading.assignment import Assignment
from helpers.grading.judge import judge, session
from helpers.grading.verdicts import ExerciseResult, Judged, Verdict

ALL = attacks()
SURVIVOR = b"bits-survivor"
# Where attacks try to leave a file.
SYSTEM_FOLDERS = [
    *(Path(name) for name in ("/", "/usr", "/usr/bin", "/etc", "/dev", "/var", "/root", "/tmp")),
    *(Path(sysconfig.get_path(name)) for name in ("purelib", "stdlib")),
    *(Path(sys.prefix), Path.home(), ROOT, ROOT / "helpers", ROOT / "tests"),
]
ROUNDING = 0.011
# Cells that loop or sleep are stopped sooner than in a course, so that nobody waits for them. What
# is not to be stopped by a clock has more time than a busy machine can take away: all calls of one
# right solution together compute two seconds at most, and three times as long on a busy machine.
# In the chapter of most attacks they compute a tenth of a second.
SETTINGS = judge.Settings(cell_seconds=3.0, exercise_seconds=18.0)
HURRIED = judge.Settings(cell_seconds=1.5, exercise_seconds=6.0)
PATIENT = judge.Settings(cell_seconds=60.0, exercise_seconds=120.0)
SECONDS_PER_CALL = {SETTINGS: 6.0, HURRIED: 2.0, PATIENT: 60.0}
MIB = 2**20
# A judged notebook holds what a cell printed, up to a cap; whatever was printed.
MOST_NOTEBOOK_BYTES = 8 * MIB
# What judging may add to the judge's own memory, whatever comes back.
MOST_MORE_MEMORY = 1024 * MIB


# --- The corpus itself -----------------------------------------------------------------------


def test_there_are_several_attacks_of_each_class_and_names_differ() -> None:
    counted = Counter(attack.kind for attack in ALL)
    assert sorted(counted) == sorted(CLASSES)
    assert len(ALL) >= 60
    assert min(counted.values()) >= 5
    assert len({attack.name for attack in ALL}) == len(ALL)


@pytest.mark.parametrize("file", attack_files(), ids=lambda file: file.stem)
def test_attacks_are_python_and_no_cell_is_lost(file: Path) -> None:
    marks = file.read_text("utf-8").count("\n# %% attack:") + 1
    cells = list(attacks_in(file))
    assert len(cells) == marks
    for attack in cells:
        notebook = nbformat.reads(attack.notebook.decode(), as_version=4)
        for cell in notebook.cells:
            if cell.cell_type == "code":
                compile(TransformerManager().transform_cell(cell.source), attack.name, "exec")


def test_what_is_demanded_can_be_had() -> None:
    for attack in ALL:
        assert attack.verdicts <= set(Verdict), attack.name
        assert not attack.exercise or attack.exercise in EXERCISES, attack.name
        full = EXERCISES[attack.exercise].points if attack.exercise else math.inf
        assert 0 <= attack.most <= full, attack.name
        if attack.verdicts <= {Verdict.FAILED, Verdict.MALFORMED, Verdict.MISSING}:
            assert attack.most == 0, attack.name


# --- Judging it ------------------------------------------------------------------------------


@dataclass(frozen=True)
class World:
    """What attacks would like to reach: a course with everything in it, and what it was before.

    Attributes:
        course: its folder.
        assignments: of its chapters.
        before: its files' hashes.
        judged: the names of the attacks that have been judged beside it.
    """

    course: Path
    assignments: dict[str, Assignment]
    before: dict[str, str]
    judged: set[str] = field(default_factory=set)

    def judge(self, attack: Attack) -> Judged:
        self.judged.add(attack.name)
        settings = PATIENT
        if Verdict.TIMED_OUT in attack.verdicts:
            settings = HURRIED if attack.chapter == CHAPTER else SETTINGS
        with mock.patch.object(session, "SECONDS_PER_CALL", SECONDS_PER_CALL[settings]):
            assignment = self.assignments[attack.chapter]
            return judge.judge_submission(attack.notebook, assignment, settings)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, registered: Register) -> Iterator[World]:
    course = tmp_path_factory.mktemp("course") / "course"
    chapters = {attack.chapter for attack in ALL}
    for chapter in chapters - {CHAPTER}:
        shutil.copytree(COURSE.source(chapter).parent, course / "source" / chapter)
    for chapter in chapters:
        shutil.copytree(COURSE.release(chapter).parent, course / "release" / chapter)
    assignments = {chapter: registered(chapter) for chapter in chapters - {CHAPTER}}
    assignments[CHAPTER] = register_in(course, CHAPTER)  # with a gradebook, within reach
    for student in ("ada", "grace"):
        folder = course / "submitted" / student / CHAPTER
        folder.mkdir(parents=True)
        (folder / COURSE.release(CHAPTER).name).write_bytes(all_right())
    before = hashes(course)
    # Something to be found in this machine's network, by those who look for a way to it.
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as canary:
        with contextlib.suppress(OSError):  # another worker of the test's has it
            canary.bind("\0bits-canary")
            canary.listen()
        yield World(course, assignments, before)


def hashes(folder: Path) -> dict[str, str]:
    return {
        str(file): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.rglob("*"))
        if file.is_file() and "__pycache__" not in file.parts
    }


@pytest.mark.needs_system("bubblewrap")
@pytest.mark.parametrize("attack", ALL, ids=lambda attack: attack.name)
def test_it_gets_what_it_deserves(attack: Attack, world: World) -> None:
    forget_most_memory()
    memory_before = most_memory()
    judged = world.judge(attack)
    assert most_memory() - memory_before < MOST_MORE_MEMORY
    results = {result.name: result for result in judged.exercises}
    expected = {e.name: float(e.points) for e in exercises_of(attack.chapter)}
    assert {name: result.most for name, result in results.items()} == expected
    for name, result in results.items():
        if not attack.exercise or name == attack.exercise:
            check_attacked(attack, result)
        else:
            check_other(attack, result)
    check_what_is_shown(judged)


def forget_most_memory() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def most_memory() -> int:
    """Return the most memory that this process has had since that was forgotten, in bytes."""
    (line,) = re.findall(r"^VmHWM:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.M)
    return 1024 * int(line)


def check_attacked(attack: Attack, result: ExerciseResult) -> None:
    told = (
        f"{result.name}: {result.verdict}, {result.points:g} points, {result.waiting:g} waiting: "
        f"{result.message}; {result.for_a_person}"
    )
    assert 0 <= result.points <= attack.most + ROUNDING, told
    assert result.verdict in attack.verdicts, told
    assert result.waiting <= attack.waiting + ROUNDING, told
    if attack.points is not None:
        assert result.points == pytest.approx(attack.points, abs=ROUNDING), told
        assert result.waiting == pytest.approx(attack.waiting, abs=ROUNDING), told
    if result.waiting:
        assert result.for_a_person, told
        assert result.doubts, told
    if attack.points is None and not attack.exercise:
        check_full(result)


def check_other(attack: Attack, result: ExerciseResult) -> None:
    assert 0 <= result.points <= result.most
    if attack.exercise and result.name in left_blank(attack.exercise):
        assert result.points == 0
    elif attack.others_full:
        check_full(result)


def check_full(result: ExerciseResult) -> None:
    told = f"{result.name}: {result.verdict}, {result.points:g} points: {result.message}"
    assert result.points == pytest.approx(result.most, abs=ROUNDING), told
    assert result.verdict is Verdict.PASSED, told


def check_what_is_shown(judged: Judged) -> None:
    """What goes on to people is in bounds: short sentences that print, and a sound notebook."""
    texts = list(judged.notes)
    for result in judged.exercises:
        texts += [result.message, result.for_a_person]
        texts += [text for p in result.properties for row in p.details for text in row]
    assert [ascii(text[:80]) for text in texts if not can_be_shown(text)] == []
    assert len(judged.notebook) < MOST_NOTEBOOK_BYTES
    if judged.notebook:
        nbformat.validate(nbformat.reads(judged.notebook.decode(), as_version=4))


def can_be_shown(text: str) -> bool:
    return text.isprintable() and len(text) < 2_000


@pytest.mark.needs_system("bubblewrap")
def test_afterwards_nothing_outside_has_changed_and_nothing_is_left(world: World) -> None:
    hostile = [a for a in ALL if a.kind == "survivors" or "writes into" in a.meaning]
    for attack in hostile:
        if attack.name not in world.judged:
            world.judge(attack)
    assert hashes(world.course) == world.before
    assert [folder for folder in SYSTEM_FOLDERS if (folder / "bits_canary.py").exists()] == []
    judge.close_warm_processes()
    assert wait_until_gone(SURVIVOR) == []


def wait_until_gone(mark: bytes, seconds: float = 120.0) -> list[int]:
    deadline = time.monotonic() + seconds
    while (found := processes_with(mark)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return found


def processes_with(mark: bytes) -> list[int]:
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if mark in file.read_bytes():
                found.append(int(file.parent.name))
    return found
