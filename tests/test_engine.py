"""The engine: whatever is killed, whenever, the next run ends with everybody's right grade."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import psutil
import pytest
import small_course
from small_course import ASSIGNMENT, NOTEBOOK, FakeSettings, hand_in, judgements, run, scores

from helpers.grading.engine import engine, keys, workers
from helpers.grading.engine.summary import summarize
from helpers.grading.errors import GradingError
from helpers.grading.intake.intake import collect
from helpers.grading.locks import sole_holder
from helpers.grading.records.class_list import ClassEntry, read_class
from helpers.grading.records.decisions import Decision, Decisions
from helpers.grading.records.results import ResultStore
from helpers.grading.sandbox import sandbox
from helpers.grading.verdicts import Verdict

DRIVER = Path(__file__).with_name("grade_small_course.py")
RIGHT = {"test-one": 2.0, "test-two": 3.0, "essay": 0.0}
HALF = RIGHT | {"test-one": 1.0}
WRONG = RIGHT | {"test-one": 0.0}
NOTHING = WRONG | {"test-two": 0.0}


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a course whose submissions are judged in threads."""
    monkeypatch.setattr(engine, "LocalWorkers", small_course.ThreadWorkers)
    return small_course.make_course(tmp_path)


@pytest.fixture
def processes(course: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a course whose submissions are judged as an instructor's are, in processes."""
    monkeypatch.undo()
    return course


def fill(course: Path, **answers: str) -> None:
    for student, answer in answers.items():
        hand_in(course, student, answer)


def results(course: Path) -> list[Path]:
    return sorted((course / "judged" / ASSIGNMENT).glob("*.json"))


# --- A class, once and again


def test_everybody_gets_what_the_judge_gave(processes: Path) -> None:
    course = processes
    fill(course, ann="points=2", bob="points=1", eve="points=0 eye", dan="points=2")
    summary = run(course)
    assert summary.judged == ["ann", "bob", "dan", "eve"]
    assert scores(course) == {"ann": RIGHT, "bob": HALF, "dan": RIGHT, "eve": WRONG}
    assert summary.for_a_person == [("eve", "one: it looks odd")]
    assert summary.verdicts()["one"] == {"passed": 2, "failed": 2}
    lines = summarize(summary)
    assert lines[0] == f"{ASSIGNMENT}: 4 judged, 0 recorded again, 0 unchanged."
    assert "  eve: one: it looks odd" in lines
    json.dumps(summary.to_plain())


def test_a_second_run_judges_and_writes_nothing(course: Path) -> None:
    fill(course, ann="points=2", bob="points=1")
    run(course)
    judgements(course)
    before = small_course.snapshot(course)
    summary = run(course)
    assert (summary.judged, summary.mended, summary.unchanged) == ([], [], ["ann", "bob"])
    assert judgements(course) == []
    assert small_course.snapshot(course) == before


def test_what_others_own_is_never_written(course: Path) -> None:
    fill(course, ann="points=2")
    before = small_course.snapshot(course)
    run(course)
    run(course, force=True)
    after = small_course.snapshot(course)
    for file, state in before.items():
        if file != "gradebook.db":
            assert after[file] == state, file


def test_force_judges_anew_and_keeps_what_a_person_entered(processes: Path) -> None:
    course = processes
    fill(course, ann="points=2", bob="points=1")
    run(course)
    judgements(course)
    with small_course.open_gradebook(course) as gradebook:
        grade = gradebook.find_grade("test-one", "small", ASSIGNMENT, "ann")
        grade.manual_score, grade.needs_manual_grade = 1.5, False
        gradebook.db.commit()
    summary = run(course, force=True)
    assert summary.judged == ["ann", "bob"]
    assert sorted(answer for _, answer in judgements(course)) == ["points=1", "points=2"]
    with small_course.open_gradebook(course) as gradebook:
        grade = gradebook.find_grade("test-one", "small", ASSIGNMENT, "ann")
        assert (grade.manual_score, grade.auto_score, grade.needs_manual_grade) == (1.5, 2, False)


def test_only_a_later_submission_is_judged(course: Path) -> None:
    fill(course, ann="points=2", bob="points=1")
    run(course)
    judgements(course)
    hand_in(course, "bob", "points=2 # now", "2026-02-01 12:00:00.000000 UTC")
    assert run(course).judged == ["bob"]
    assert [answer for _, answer in judgements(course)] == ["points=2 # now"]
    assert scores(course)["bob"] == RIGHT
    assert len(results(course)) == 2  # the old one is nobody's any more


def test_the_same_bytes_are_one_result(course: Path) -> None:
    fill(course, ann="points=2", bob="points=2")
    run(course)
    judgements(course)
    assert len(results(course)) == 1
    hand_in(course, "eve", "points=2")
    assert run(course).mended == ["eve"]
    assert judgements(course) == []
    assert scores(course) == {"ann": RIGHT, "bob": RIGHT, "eve": RIGHT}


def test_a_later_time_alone_is_recorded_without_judging(course: Path) -> None:
    fill(course, ann="points=2")
    run(course)
    hand_in(course, "ann", "points=2", "2026-02-01 12:00:00.000000 UTC")
    summary = run(course)
    assert (summary.judged, summary.mended) == ([], ["ann"])
    with small_course.open_gradebook(course) as gradebook:
        assert gradebook.find_submission(ASSIGNMENT, "ann").timestamp == datetime(2026, 2, 1, 12)


def test_only_the_students_who_are_asked_for_are_graded(course: Path) -> None:
    fill(course, ann="points=2", bob="points=1")
    assert run(course, students=["bob"]).judged == ["bob"]
    assert scores(course) == {"bob": HALF}
    with pytest.raises(GradingError, match="nobody has handed in nothing for 01-small"):
        run(course, students=["nobody"])


def test_other_settings_are_another_result(course: Path) -> None:
    fill(course, ann="points=2")
    run(course)
    assert run(course, settings=FakeSettings()).judged == ["ann"]


# --- What waits for a person


def decide(course: Path, student: str, accepted: bool) -> None:
    judged = next(e for e in read_class(course, ASSIGNMENT) if e.student == student).as_judged
    about = student, "one", judged.exercises[0].code
    Decisions(course / "judged" / ASSIGNMENT).change([Decision(*about, accepted)])


def test_points_that_wait_are_counted_apart(course: Path) -> None:
    fill(course, ann="points=1 wait=1", bob="points=0.5 wait=1.5", eve="points=2")
    summary = run(course)
    assert scores(course)["ann"] == HALF
    assert summary.waiting() == {"ann": [1.0], "bob": [1.5]}
    assert (
        f"2 exercises of 2 students wait for a person, with 2.5 points: bits review {ASSIGNMENT}"
        in summarize(summary)
    )
    plain = summary.to_plain()["results"]["bob"]
    assert (plain["points"], plain["waiting"]) == (3.5, 1.5)
    assert plain["exercises"]["one"]["waiting"] == 1.5
    assert plain["exercises"]["one"]["verdict"] == "waiting"


def test_a_decision_outlives_force_and_a_lost_result(course: Path) -> None:
    fill(course, ann="points=1 wait=1", bob="points=1 wait=1")
    run(course)
    decide(course, "ann", True)
    assert run(course).mended == ["ann"]
    assert (scores(course)["ann"], scores(course)["bob"]) == (RIGHT, HALF)
    assert run(course, force=True).waiting() == {"bob": [1.0]}
    assert scores(course)["ann"] == RIGHT
    for file in (course / "judged" / ASSIGNMENT).glob("*.*"):
        file.unlink()
    shutil.rmtree(course / "judged" / ASSIGNMENT / "students")
    assert run(course).judged == ["ann", "bob"]
    assert scores(course)["ann"] == RIGHT
    assert run(course).unchanged == ["ann", "bob"]


def test_other_code_waits_anew(course: Path) -> None:
    fill(course, ann="points=1 wait=1")
    run(course)
    decide(course, "ann", True)
    hand_in(course, "ann", "points=1 wait=1 # other")
    assert run(course).waiting() == {"ann": [1.0]}
    assert scores(course)["ann"] == HALF
    hand_in(course, "ann", "points=1 wait=1")
    run(course)
    assert scores(course)["ann"] == RIGHT


def test_damaged_decisions_stop_a_run_before_it_changes_a_grade(course: Path) -> None:
    fill(course, ann="points=1 wait=1")
    run(course)
    decide(course, "ann", True)
    run(course)
    (course / "judged" / ASSIGNMENT / "review" / "decisions.json").write_text("{")
    with pytest.raises(GradingError, match="is damaged and was renamed to"):
        run(course)
    assert scores(course)["ann"] == RIGHT


# --- What others have written


def grade_elsewhere(course: Path, points: dict[str, float]) -> None:
    """Do what `nbgrader autograde` does to the exercise "one"."""
    with small_course.open_gradebook(course) as gradebook:
        for student, score in points.items():
            gradebook.find_grade("test-one", "small", ASSIGNMENT, student).auto_score = score
        gradebook.db.commit()


def test_points_of_another_autograder_are_told_before_they_are_replaced(course: Path) -> None:
    students = [f"s{number}" for number in range(7)]
    fill(course, **dict.fromkeys(students, "points=1"))
    said: list[str] = []
    run(course, say=said.append)
    grade_elsewhere(course, dict.fromkeys(students, 2.0))
    found: list[dict] = []
    summary = run(course, say=lambda line: (said.append(line), found.append(scores(course))))
    assert said[0].startswith("Something else (nbgrader autograde?) has written points")
    assert said[1] == "  s0, one: 2 points, where bits grade had written 1"
    assert said[-1] == "  and 2 more, 7 in all"
    assert len(said) == 7
    assert found[0]["s0"] == RIGHT  # it is said first
    assert set(scores(course)) == set(students)
    assert all(points == HALF for points in scores(course).values())
    assert len(summary.to_plain()["replaced"]) == 7
    said.clear()
    run(course, say=said.append)
    assert said == []


def test_a_score_by_hand_is_nobody_elses(course: Path) -> None:
    fill(course, ann="points=1", bob="points=1")
    run(course)
    with small_course.open_gradebook(course) as gradebook:
        gradebook.find_grade("test-one", "small", ASSIGNMENT, "ann").manual_score = 2.0
        gradebook.db.commit()
    grade_elsewhere(course, {"bob": 2.0})
    said: list[str] = []
    run(course, students=["ann"], say=said.append)
    assert said == []


# --- What is lost or damaged is mended


def edit(change: Callable[[dict], None]) -> Callable[[Path], None]:
    def apply(file: Path) -> None:
        content = json.loads(file.read_text())
        change(content)
        file.write_text(json.dumps(content))

    return apply


def more_points(content: dict) -> None:
    content["judged"]["exercises"][0]["points"] = 2.0


DAMAGES = {
    "edited points": edit(more_points),
    "edited notebook": lambda file: file.with_suffix(".ipynb").write_text("{}"),
    "no notebook": lambda file: file.with_suffix(".ipynb").unlink(),
    "cut off": lambda file: file.write_bytes(file.read_bytes()[:100]),
    "empty": lambda file: file.write_bytes(b""),
    "a list": lambda file: file.write_text("[]"),
    "deep": lambda file: file.write_text("[" * 100_000),
    "of another key": lambda file: file.rename(file.with_name("0" * 64 + ".json")),
    "another format": edit(lambda content: content.update(format=0)),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_result_is_not_believed(course: Path, damage: str) -> None:
    fill(course, ann="points=1")
    run(course, jobs=1)
    (file,) = results(course)
    kept = file.read_bytes(), file.with_suffix(".ipynb").read_bytes()
    DAMAGES[damage](file)
    assert ResultStore(file.parent).load(file.stem) is None
    assert run(course, jobs=1).judged == ["ann"]
    assert scores(course) == {"ann": HALF}
    assert (file.read_bytes(), file.with_suffix(".ipynb").read_bytes()) == kept


def test_a_gradebook_that_was_removed_is_written_again(course: Path) -> None:
    fill(course, ann="points=2", bob="points=1 eye")
    run(course)
    judgements(course)
    (course / "gradebook.db").unlink()
    summary = run(course)
    assert summary.mended == ["ann", "bob"]
    assert judgements(course) == []
    assert scores(course) == {"ann": RIGHT, "bob": HALF}
    with small_course.open_gradebook(course) as gradebook:
        assert gradebook.find_submission(ASSIGNMENT, "bob").needs_manual_grade


def test_scores_that_another_tool_wrote_are_mended(course: Path) -> None:
    fill(course, ann="points=1")
    run(course)
    with small_course.open_gradebook(course) as gradebook:
        gradebook.find_grade("test-one", "small", ASSIGNMENT, "ann").auto_score = 0
        gradebook.db.commit()
    (course / "autograded" / "ann" / ASSIGNMENT / NOTEBOOK).unlink()
    assert run(course).mended == ["ann"]
    assert scores(course) == {"ann": HALF}
    assert (course / "autograded" / "ann" / ASSIGNMENT / NOTEBOOK).is_file()


# --- Faults and deaths


def test_a_fault_of_ours_stops_nobody_else(course: Path) -> None:
    fill(course, ann="points=1", bob="points=2")
    run(course)
    fill(course, ann="raise", dan="points=2")
    summary = run(course)
    ((student, sentence),) = summary.failed
    assert student == "ann"
    assert sentence.startswith("RuntimeError: the judge has a fault")
    assert "the judge has a fault" in (course / "judged" / ASSIGNMENT / "faults.txt").read_text()
    assert scores(course) == {"ann": HALF, "bob": RIGHT, "dan": RIGHT}  # ann's earlier one stays
    assert not {e.student: e for e in read_class(course, ASSIGNMENT)}["ann"].is_current
    fill(course, ann="points=2")
    assert run(course).failed == []
    assert not (course / "judged" / ASSIGNMENT / "faults.txt").exists()


def test_what_kills_its_process_is_set_aside_and_nobody_else(processes: Path) -> None:
    course = processes
    fill(course, ann="die", bob="points=2", dan="points=1", eve="points=2 # e")
    summary = run(course)
    assert summary.failed == []
    assert summary.for_a_person == [
        ("ann", "each process that judged it has died; a person has to look at it")
    ]
    assert scores(course) == {"ann": NOTHING, "bob": RIGHT, "dan": HALF, "eve": RIGHT}
    assert [answer for _, answer in judgements(course)].count("die") == 3


@pytest.mark.parametrize(
    ("answer", "limit", "seconds", "reason"),
    [
        ("spin", "MOST_OWN_SECONDS", 2.0, "the judge itself computed for more than 2 seconds"),
        ("sleep=600", "MOST_WALL_SECONDS", 15.0, "judging it took more than 15 seconds"),
        ("memory", "MOST_OWN_SECONDS", 60.0, "the judge ended with a MemoryError"),
    ],
    ids=["computes", "waits", "memory"],
)
def test_what_the_judge_does_has_limits_that_cost_nobody_else(
    processes: Path,
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
    limit: str,
    seconds: float,
    reason: str,
) -> None:
    course = processes
    monkeypatch.setattr(workers, limit, seconds)
    fill(course, ann=answer, bob="points=2", dan="points=1", eve="points=2 # e")
    summary = run(course)
    assert summary.failed == []
    assert summary.for_a_person == [("ann", f"{reason}; a person has to look at it")]
    assert scores(course) == {"ann": NOTHING, "bob": RIGHT, "dan": HALF, "eve": RIGHT}
    assert [given for _, given in judgements(course)].count(answer) == 1
    assert run(course).unchanged == ["ann", "bob", "dan", "eve"]


def test_what_the_walls_clock_stopped_is_tried_again_alone(course: Path) -> None:
    fill(course, ann="points=1 short", bob="points=2 sleep=0.3", dan="points=1")
    summary = run(course)
    assert [answer for _, answer in judgements(course)][-1] == "points=1 short"
    assert summary.judged == ["ann", "bob", "dan"]
    assert scores(course) == {"ann": HALF, "bob": RIGHT, "dan": HALF}
    run(course)
    assert judgements(course) == []


def test_workers_that_are_killed_cost_no_grade(processes: Path) -> None:
    course = processes
    answers = {f"s{n:02}": f"points={n % 3} sleep=0.4 # {n}" for n in range(8)}
    fill(course, **answers)
    killed, over = [], threading.Event()

    def kill_some() -> None:
        while not over.wait(0.05) and len(killed) < 2:
            for process in psutil.Process().children(recursive=True):
                if str(process.pid) in {pid for pid, _ in peek(course)} - set(killed):
                    process.kill()
                    killed.append(str(process.pid))
                    break

    killer = threading.Thread(target=kill_some)
    killer.start()
    try:
        summary = run(course)
    finally:
        over.set()
        killer.join()
    assert len(killed) == 2
    assert summary.failed == []
    assert scores(course) == {f"s{n:02}": RIGHT | {"test-one": n % 3} for n in range(8)}


def peek(course: Path) -> list[list[str]]:
    log = small_course.log_of(course)
    lines = log.read_text().splitlines() if log.exists() else []
    return [line.split(" ", 1) for line in lines if " " in line]


def test_without_a_sandbox_nothing_is_judged(course: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox.shutil, "which", lambda program: None)
    fill(course, ann="points=2")
    with pytest.raises(sandbox.SandboxError, match="bubblewrap, which is not installed"):
        run(course, settings=FakeSettings(sandboxed=True))
    assert scores(course) == {}
    with pytest.raises(sandbox.SandboxError):
        engine.describe_sandbox(engine.Settings())
    assert "with your rights" in engine.describe_sandbox(engine.Settings(sandboxed=False))


def test_two_runs_at_once_are_refused(course: Path) -> None:
    fill(course, ann="points=2")
    with (
        sole_holder(course / "judged", GradingError("held by the test")),
        pytest.raises(GradingError, match="Another bits grade is running in this course"),
    ):
        run(course)
    assert scores(course) == {}


# --- Killed and interrupted, as a program of its own


def start(course: Path, *arguments: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, str(DRIVER), str(course), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def read_until(process: subprocess.Popen, done: int) -> None:
    """Wait until ``done`` submissions are done; return at once if it has ended."""
    for line in process.stdout:
        if line.strip() == str(done):
            return


def descendants(process: subprocess.Popen) -> list[psutil.Process]:
    try:
        return psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def test_a_killed_grader_is_finished_by_the_next_run(course: Path) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    for number in range(40):
        hand_in(course, f"s{number:02}", f"points={number % 3} sleep=0.05 # {number}")
    left_behind: list[psutil.Process] = []
    for kill in range(10):
        process = start(course)
        read_until(process, min(39, 4 * kill + chance.randrange(4)))
        time.sleep(chance.random() * 0.2)
        left_behind += descendants(process)
        process.kill()
        process.communicate()
    _, alive = psutil.wait_procs(left_behind, timeout=180)
    assert not alive, "workers outlive the one that started them"
    summary = run(course)
    assert len(summary.judged) + len(summary.mended) + len(summary.unchanged) == 40
    assert scores(course) == {f"s{n:02}": RIGHT | {"test-one": n % 3} for n in range(40)}
    assert not list((course / "judged").rglob("*.part"))
    assert len(list(course.glob(f"autograded/*/{ASSIGNMENT}/timestamp.txt"))) == 40
    assert len(results(course)) == 40


def test_ctrl_c_stops_soon_and_keeps_what_is_done(course: Path) -> None:
    for number in range(6):
        hand_in(course, f"s{number}", f"points=2 # {number}")
    hand_in(course, "s6", "points=2 sleep=500")
    hand_in(course, "s7", "points=2 sleep=501")
    hand_in(course, "s8", "points=2")
    process = start(course)
    read_until(process, 6)
    while len(peek(course)) < 8:  # until both that never end are at work
        time.sleep(0.05)
    workers = descendants(process)
    # As a terminal does it: to everybody in the group.
    os.killpg(process.pid, signal.SIGINT)
    output, errors = process.communicate(timeout=180)
    assert output.splitlines()[-1] == "interrupted 3"
    assert "Traceback" not in errors
    assert not psutil.wait_procs(workers, timeout=180)[1]
    assert set(scores(course)) == {f"s{n}" for n in range(6)}


# --- What was received but cannot be judged


def test_students_whose_work_was_refused_are_not_missing(course: Path, tmp_path: Path) -> None:
    release = course / "release" / ASSIGNMENT
    release.mkdir(parents=True)
    (release / NOTEBOOK).write_bytes(small_course.submission("x"))
    inbox = tmp_path / "inbox"
    (inbox / "ann").mkdir(parents=True)
    (inbox / "ann" / NOTEBOOK).write_text("no notebook")
    (inbox / "bob").mkdir()
    for name in ("a.ipynb", "b.ipynb"):
        (inbox / "bob" / name).write_bytes(small_course.submission("points=2"))
    (inbox / "dan").mkdir()
    (inbox / "dan" / NOTEBOOK).write_bytes(small_course.submission("points=2"))
    collect(inbox, course, ASSIGNMENT)
    before = small_course.snapshot(course / "received")
    summary = run(course)
    why = dict(summary.for_a_person)
    assert why["ann"].startswith(f"{NOTEBOOK} cannot be read as a notebook: it is not JSON")
    assert why["bob"] == (
        "several notebooks were handed in, and none of them is called small.ipynb"
    )
    nothing = dict.fromkeys(RIGHT, 0.0)
    assert scores(course) == {"ann": nothing, "bob": nothing, "dan": RIGHT}
    assert small_course.snapshot(course / "received") == before
    entries = {entry.student: entry for entry in read_class(course, ASSIGNMENT)}
    assert entries["ann"].judged.exercises[0].verdict is Verdict.MALFORMED
    assert entries["ann"].received_at is not None
    assert entries["ann"].is_current
    assert run(course).unchanged == ["ann", "bob", "dan"]
    collect_again(course, tmp_path)
    assert run(course).judged == ["ann"]
    assert scores(course)["ann"] == HALF


def collect_again(course: Path, tmp_path: Path) -> None:
    (tmp_path / "later" / "ann").mkdir(parents=True)
    (tmp_path / "later" / "ann" / NOTEBOOK).write_bytes(small_course.submission("points=1"))
    collect(tmp_path / "later", course, ASSIGNMENT)


def test_what_counts_but_was_not_put_in_place_is_graded(course: Path, tmp_path: Path) -> None:
    """As after a kill of the intake between the receipt and the placing."""
    release = course / "release" / ASSIGNMENT
    release.mkdir(parents=True)
    (release / NOTEBOOK).write_bytes(small_course.submission("x"))
    collect_again(course, tmp_path)
    file = course / "submitted" / "ann" / ASSIGNMENT / NOTEBOOK
    file.unlink()
    (file.parent / "timestamp.txt").unlink()
    file.parent.rmdir()
    run(course)
    assert scores(course) == {"ann": HALF}


def test_a_folder_without_the_notebook_is_told_of(course: Path) -> None:
    hand_in(course, "ann", "points=2").rename(
        course / "submitted" / "ann" / ASSIGNMENT / "other.ipynb"
    )
    summary = run(course)
    ((student, why),) = summary.for_a_person
    assert student == "ann"
    assert why.startswith("there is no small.ipynb in ")


def test_a_notebook_that_is_too_large_is_not_read(course: Path) -> None:
    file = hand_in(course, "ann", "points=2")
    with file.open("r+b") as stream:
        stream.truncate(40 * 2**20)
    ((_, why),) = run(course).for_a_person
    assert why == "small.ipynb is larger than 32 MiB"


# --- What the report reads


def test_the_class_is_read_back(course: Path) -> None:
    with small_course.open_gradebook(course) as gradebook:
        gradebook.add_student("zoe", first_name="Z", last_name="Oe", email="z@x")
    fill(course, bob="points=1", ann="points=2", eve="points=0")
    run(course, students=["ann", "bob"])
    hand_in(course, "bob", "points=2", "2026-02-01 12:00:00.000000 UTC")
    ann, bob, eve, zoe = read_class(course, ASSIGNMENT)
    assert [e.student for e in (ann, bob, eve, zoe)] == ["ann", "bob", "eve", "zoe"]
    assert (ann.judged.points, ann.judged.notebook, ann.is_current) == (5.0, b"", True)
    assert ann.received_at == datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert b"points=2" in ann.read_notebook()
    assert (bob.judged.points, bob.is_current) == (4.0, False)
    assert (eve.judged, eve.received_at is None, eve.read_notebook()) == (None, False, b"")
    assert zoe == ClassEntry("zoe", "Z", "Oe", "z@x")
    run(course)
    assert run(course).missing == ["zoe"]


def test_ids_that_differ_in_case_alone_are_two_students(course: Path) -> None:
    records = engine.Records(course / "records")
    for student in ("ann", "Ann", "a" * 255, "ä\udcff"):
        records.save(engine.Recorded(student, "key", "hash", "", ""))
    assert len(records.all()) == 4
    assert records.find("Ann").student == "Ann"


def test_everything_that_judging_depends_on_is_in_the_key() -> None:
    one = {"course": "1", "torch": "2"}
    settings = FakeSettings()
    arguments = [
        ("hash", "", "assignment", settings, one),
        ("other", "", "assignment", settings, one),
        ("hash", "refused", "assignment", settings, one),
        ("hash", "", "other", settings, one),
        ("hash", "", "assignment", FakeSettings(log="x"), one),
        ("hash", "", "assignment", settings, {"course": "2", "torch": "2"}),
        ("hash", "", "assignment", settings, {"course": "1", "torch": "3"}),
    ]
    made = [keys.make_key(*each) for each in arguments]
    assert len(set(made)) == len(made)
    assert keys.make_key(*arguments[0]) == made[0]
    assert set(keys.describe_environment()) == {"course", "python", "torch", "numpy"}


def test_a_worker_with_other_versions_is_refused() -> None:
    from helpers.grading.engine.workers import judge_here

    assert judge_here(len, keys.describe_environment(), "abc") == 3
    with pytest.raises(GradingError, match="another version of torch than this machine"):
        judge_here(len, keys.describe_environment() | {"torch": "0"}, "abc")


# --- A cluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[str, list[subprocess.Popen]]]:
    """Yield a Dask scheduler's address on loopback, and its two workers."""
    pytest.importorskip("distributed")
    address_file = tmp_path / "scheduler.json"
    dask = str(Path(sys.executable).with_name("dask"))
    root = DRIVER.parent.parent
    environment = os.environ | {"PYTHONPATH": f"{root}{os.pathsep}{DRIVER.parent}"}
    quiet = {"cwd": tmp_path, "env": environment, "stderr": subprocess.DEVNULL}
    shared = ["--host", "127.0.0.1", "--no-dashboard"]
    started = [
        subprocess.Popen(
            [dask, "scheduler", *shared, "--port", "0", "--scheduler-file", str(address_file)],
            **quiet,
        )
    ]
    while not address_file.exists() or not address_file.read_text().endswith("}"):
        assert started[0].poll() is None
        time.sleep(0.1)
    address = json.loads(address_file.read_text())["address"]
    worker = [dask, "worker", address, *shared, "--nthreads", "1", "--local-directory"]
    for number in range(2):
        started.append(subprocess.Popen([*worker, str(tmp_path / f"w{number}")], **quiet))
    try:
        from distributed import Client

        with Client(address, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=120)
        yield address, started[1:]
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()  # Dask waits for what it cannot reach any more
                process.wait()


def test_a_cluster_gives_the_same_grades(
    course: Path, cluster: tuple[str, list[subprocess.Popen]]
) -> None:
    address, _ = cluster
    for number in range(12):
        hand_in(course, f"s{number:02}", f"points={number % 3} sleep=0.2 # {number}")
    fill(course, bad="raise", worse="die", late="sleep=3 points=2")
    over = threading.Event()

    def kill_one() -> None:
        while not over.wait(0.05):
            at_work = {pid for pid, answer in peek(course) if answer.startswith("sleep=3")}
            found = [psutil.Process(int(pid)) for pid in at_work if psutil.pid_exists(int(pid))]
            if found:
                found[0].kill()
                return

    killer = threading.Thread(target=kill_one)
    killer.start()
    try:
        summary = run(course, scheduler=address)
    finally:
        over.set()
        killer.join()
    assert [student for student, _ in summary.failed] == ["bad"]
    assert [student for student, _ in summary.for_a_person] == ["worse"]
    expected = {f"s{n:02}": RIGHT | {"test-one": n % 3} for n in range(12)} | {"late": RIGHT}
    assert scores(course) == expected | {"worse": NOTHING}
    assert len({pid for pid, _ in judgements(course)}) >= 2
    judged = small_course.snapshot(course / "autograded")
    assert run(course, force=True, students=list(expected)).judged == sorted(expected)
    again = small_course.snapshot(course / "autograded")
    assert {n: c for n, (_, c) in again.items()} == {n: c for n, (_, c) in judged.items()}


def test_what_is_wrong_with_a_cluster_is_one_sentence(course: Path) -> None:
    pytest.importorskip("distributed")
    with pytest.raises(GradingError, match="There is no Dask scheduler at nonsense"):
        run(course, scheduler="nonsense")


def test_without_dask_one_is_told_what_to_install(
    course: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(GradingError, match=r"bits-and-gradients\[cluster\]"):
        run(course, scheduler="tcp://127.0.0.1:1")
