"""In a class half of which is hostile, everybody honest gets what the work deserves.

`--hostile-class 20` takes twenty of each kind, on a quiet machine, with eight at a time and beside
processes that compute, and looks at the clock: then let the machine do nothing else meanwhile.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hostile_class import CHAPTER, FILE, LEAK, Member, make_class, write_folder
from lab_server import copy_course
from nbconvert import HTMLExporter
from nbgrader.api import Gradebook

BITS = str(Path(sys.executable).with_name("bits"))
SMALL = 5
WAYS = {
    "quiet": ([], 0),
    "eight at a time": (["--jobs", "8"], 0),
    "beside others": ([], 4),
}

pytestmark = pytest.mark.needs_system("bubblewrap")


@dataclass(frozen=True)
class Graded:
    """A class after `bits grade`, and how long that took."""

    members: list[Member]
    course: Path
    told: dict
    seconds: float


def grade(root: Path, members: list[Member], options: list[str], others: int) -> Graded:
    """Collect and grade a class, beside so many processes that compute."""
    copy_course(root)
    folder = write_folder(members, root / "class")
    bits(root, "collect", str(folder), "--assignment", CHAPTER)
    with computing(others):
        began = time.monotonic()
        finished = bits(root, "grade", CHAPTER, "--json", *options)
        seconds = time.monotonic() - began
    return Graded(members, root / "course", json.loads(finished.stdout), seconds)


def bits(root: Path, *arguments: str) -> subprocess.CompletedProcess:
    command = [BITS, *arguments]
    finished = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=1500)
    assert finished.returncode == 0, finished.stderr
    return finished


@contextlib.contextmanager
def computing(count: int) -> Iterator[None]:
    """Let so many processes compute meanwhile."""
    command = [sys.executable, "-S", "-c", "while True: pass"]
    started = [subprocess.Popen(command) for _ in range(count)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


@pytest.fixture(scope="module", params=WAYS)
def graded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Graded]:
    many = request.config.getoption("hostile_class")
    if not many and request.param != "eight at a time":
        pytest.skip("this way takes long: --hostile-class 20")
    root = tmp_path_factory.mktemp("class")
    yield grade(root, make_class(many or SMALL, many or SMALL), *WAYS[request.param])
    shutil.rmtree(root)


def test_everybody_gets_what_the_work_deserves(graded: Graded) -> None:
    results = graded.told["results"]
    assert sorted(results) == sorted(member.student for member in graded.members)
    assert graded.told["failed"] == []
    wrong = []
    for member in graded.members:
        for name, exercise in results[member.student]["exercises"].items():
            points = exercise["points"] + exercise["waiting"]
            if abs(points - member.deserved.get(name, points)) > 0.01:
                wrong.append((member.student, member.about, name, exercise))
    assert wrong == []


def test_nobody_honest_is_left_to_a_person(graded: Graded) -> None:
    honest = {member.student for member in graded.members if member.is_honest}
    flagged = [entry for entry in graded.told["for_a_person"] if entry["student"] in honest]
    assert flagged == []
    assert all(graded.told["results"][student]["waiting"] == 0 for student in honest)
    assert all(graded.told["results"][student]["notes"] == [] for student in honest)


def test_everybodys_own_notebook_was_graded_and_is_in_the_gradebook(graded: Graded) -> None:
    for member in graded.members:
        handed_in = graded.course / "submitted" / member.student / CHAPTER / FILE
        assert handed_in.read_bytes() in member.files.values()
        if member.is_honest:
            assert handed_in.read_bytes() == member.files[FILE]
    with Gradebook(f"sqlite:///{graded.course / 'gradebook.db'}") as gradebook:
        scores = {s.student.id: s.score for s in gradebook.find_assignment(CHAPTER).submissions}
    assert scores == {s: r["points"] for s, r in graded.told["results"].items()}


class _Links(HTMLParser):
    """Where a page's links lead."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value or "" for name, value in attrs if tag == "a" and name == "href"]


def test_every_page_is_made_is_small_and_tells_nothing_of_hidden_inputs(graded: Graded) -> None:
    bits(graded.course.parent, "report", CHAPTER)
    feedback = graded.course / "reports" / CHAPTER / "feedback"
    assert sorted(p.stem for p in feedback.iterdir()) == sorted(m.student for m in graded.members)
    for member in graded.members:
        file = feedback / f"{member.student}.html"
        pages = [file.read_text("utf-8")]
        if not member.is_honest:  # as formgrader shows it
            notebook = graded.course / "autograded" / member.student / CHAPTER / FILE
            assert notebook.stat().st_size < 20 * 2**20, member.about
            pages += [HTMLExporter().from_filename(str(notebook))[0]]
        for page in pages:
            assert len(page) < 40 * 2**20, member.about
            assert LEAK not in page
            links = _Links()
            links.feed(page)
            assert [to for to in links.found if "javascript" in to] == []


def test_it_takes_no_longer_than_twice_the_honest_ones_and_the_limits(
    graded: Graded, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    if not request.config.getoption("hostile_class"):
        pytest.skip("what it takes on a busy machine says nothing")
    way = request.node.callspec.params["graded"]
    honest = [member for member in graded.members if member.is_honest]
    alone = grade(tmp_path, honest, *WAYS[way])
    limits = sum(member.waits for member in graded.members)
    print(
        f"\n{way}: {len(honest)} honest alone {alone.seconds:.1f} s, all {len(graded.members)} "
        f"{graded.seconds:.1f} s, limits {limits:.0f} s, load {os.getloadavg()[0]:.1f}"
    )
    assert graded.seconds < 2 * alone.seconds + limits
