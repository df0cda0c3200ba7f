"""A real `bits grade` that is killed in the middle loses nothing, and the next run goes on."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from classroom import exercises_of, full_points, hand_in, solved, submit, without_demos
from lab_server import copy_course
from nbformat.v4 import new_markdown_cell

CHAPTER = "08-numerical-stability"
BITS = str(Path(sys.executable).with_name("bits"))
STUDENTS = 6

pytestmark = pytest.mark.needs_system("bubblewrap")


def start(root: Path) -> subprocess.Popen:
    command = [BITS, "grade", CHAPTER, "--json"]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=root, stdout=pipe, stderr=pipe, text=True)


def started_by(process: subprocess.Popen) -> list[psutil.Process]:
    try:
        return psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def results(root: Path) -> set[Path]:
    return set((root / "course" / "judged" / CHAPTER / "students").glob("*.json"))


def test_killed_again_and_again_it_comes_to_its_end(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    root = copy_course(tmp_path)
    points = full_points(exercises_of(CHAPTER))
    right = without_demos(solved(CHAPTER))
    class_ = []
    for number in range(STUDENTS):
        right.cells[-1] = new_markdown_cell(f"by student {number}")
        class_.append(submit(f"s{number}", right, points))
    hand_in(class_, CHAPTER, root / "course")
    number = random.randrange(2**32)
    print(f"seed {number}")
    chance = random.Random(number)
    began = time.monotonic()
    for kill in range(request.config.getoption("kills")):
        process = start(root)
        before = results(root)
        # One in three is killed while it starts, the others once something was recorded.
        waits_for = len(before) + (kill % 3 > 0)
        deadline = time.monotonic() + 120.0
        while len(results(root)) < min(waits_for, STUDENTS) and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(chance.random() * 2.0)
        left = started_by(process)
        process.kill()
        process.communicate()
        _, alive = psutil.wait_procs(left, timeout=60)
        assert not alive, "something outlives the one that started it"
        assert before <= results(root)
    print(f"{len(results(root))} of {STUDENTS} recorded after {time.monotonic() - began:.0f} s")
    process = start(root)
    told, errors = process.communicate()
    assert process.returncode == 0, errors
    summary = json.loads(told)
    assert summary["failed"] == []
    assert {s: r["points"] for s, r in summary["results"].items()} == dict.fromkeys(
        (s.student for s in class_), sum(points.values())
    )
    course = root / "course"
    assert not list(course.rglob("*.part"))
    assert len(list(course.glob(f"autograded/*/{CHAPTER}/*.ipynb"))) == STUDENTS
