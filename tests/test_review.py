"""`bits review`: points that wait are shown, decided, and the same in every list and page."""

from __future__ import annotations

import csv
import html
import json
import multiprocessing
import re
from dataclasses import replace
from pathlib import Path

import invented_class as invented
import nbformat
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from invented_class import CHAPTER, Student
from nbformat import v4
from nbgrader.api import Gradebook
from nbgrader.utils import determine_grade

from helpers.catalogue import find_exercise
from helpers.cli import main
from helpers.grading.errors import GradingError
from helpers.grading.judge.written import write_report
from helpers.grading.locks import sole_holder
from helpers.grading.records.class_list import read_class
from helpers.grading.records.decisions import Decision, Decisions
from helpers.grading.records.results import Recorded, Records, ResultStore, judged_folder
from helpers.grading.records.settling import REFUSED, settle, waits
from helpers.grading.report.feedback import render_feedback
from helpers.grading.report.marks import GradebookView
from helpers.grading.report.report import write_report as write_class_report
from helpers.grading.report.tables import Row
from helpers.grading.verdicts import ExerciseResult, Judged, PropertyResult, Verdict

DOUBT = "cell 3, line 3: sys._getframe"
EXERCISE = "softmax"
MOST = float(find_exercise(EXERCISE).points)
FED = ("fed in", "logits = SECRET")


def waiting_result(result: ExerciseResult, last: int = 1, code: str = "code") -> ExerciseResult:
    """Return a result whose ``last`` properties wait, as the judge makes it."""
    told = "`sys._getframe` in line 3 of cell 2"
    rows = (("", f"holds; a person will look at {told} before the points count"), FED)
    held = [
        replace(tried, outcome="waiting", reason=told, details=rows)
        for tried in result.properties[-last:]
    ]
    tried = (*result.properties[:-last], *held)
    won = sum(t.outcome == "passed" for t in tried) / len(tried)
    both = sum(t.outcome in ("passed", "waiting") for t in tried) / len(tried)
    points = round(result.most * won, 2)
    waiting = round(round(result.most * both, 2) - points, 2)
    return replace(
        result,
        verdict=Verdict.WAITING if points + waiting >= result.most else Verdict.PARTLY,
        points=points,
        properties=tried,
        for_a_person=f"{DOUBT}: {waiting:g} points wait",
        waiting=waiting,
        doubts=(DOUBT, "cell 3, line 9: import gc"),
        code=code,
    )


def holding_back(*exercises: str, last: int = 1, code: str = "code") -> Judged:
    """Return all right answers, of which the last properties of ``exercises`` wait."""
    return Judged(
        tuple(
            waiting_result(e, last, code) if e.name in exercises else e
            for e in invented.all_right().exercises
        )
    )


CLASS = {
    "ada": holding_back(EXERCISE),
    "bob": holding_back(EXERCISE, "masked-softmax", last=2, code="bob's"),
    "eve": invented.all_right(),
}
WAITING = {student: judged.waiting for student, judged in CLASS.items()}


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a class with points that wait, in whose folder the commands are typed."""
    names = {"ada": ("Ada", "Lovelace")}
    students = [Student(s, judged, *names.get(s, ("", ""))) for s, judged in CLASS.items()]
    course = invented.make_course(tmp_path, students)
    with_reports(course)
    monkeypatch.chdir(course)
    return course


def with_reports(course: Path) -> None:
    """Put the reports under the tests of the judged notebooks, as the judge does."""
    store, records = open_results(course)
    for recorded in records.all().values():
        judged = store.load(recorded.key)
        notebook = nbformat.reads(judged.notebook.decode(), as_version=4)
        results = {f"test-{result.name}": result for result in judged.exercises}
        for cell in notebook.cells:
            name = cell.metadata.get("nbgrader", {}).get("grade_id")
            if name in results:
                cell.outputs = write_report("a report", "<b>a report</b>", results[name].points)
        store.save(recorded.key, replace(judged, notebook=nbformat.writes(notebook).encode()))


def open_results(course: Path) -> tuple[ResultStore, Records]:
    folder = judged_folder(course, CHAPTER)
    return ResultStore(folder), Records(folder / "students")


def review(*options: str) -> str:
    result = CliRunner().invoke(main, ["review", CHAPTER, *options])
    assert result.exit_code == 0, result.output
    return result.output


def refusal(*options: str) -> str:
    result = CliRunner().invoke(main, ["review", *options])
    assert result.exit_code == 1, result.output
    (line,) = result.output.splitlines()
    return line.removeprefix("Error: ")


def grade_of(course: Path, student: str, exercise: str = EXERCISE) -> tuple[float, bool]:
    """Return the automatic score in the gradebook, and whether formgrader lists it."""
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as gradebook:
        (notebook,) = gradebook.find_submission(CHAPTER, student).notebooks
        grade = next(g for g in notebook.grades if g.name == f"test-{exercise}")
        return grade.auto_score, grade.needs_manual_grade


def shown_score(course: Path, student: str) -> tuple[float, list[str]]:
    """Return what nbgrader reads off the judged notebook, and the texts that are shown."""
    (file,) = (course / "autograded" / student / CHAPTER).glob("*.ipynb")
    notebook = nbformat.read(file, as_version=4)
    nbformat.validate(notebook)
    (cell,) = (
        c
        for c in notebook.cells
        if c.metadata.get("nbgrader", {}).get("grade_id") == f"test-{EXERCISE}"
    )
    return determine_grade(cell)[0], [output.data["text/plain"] for output in cell.outputs]


def table_row(course: Path, student: str) -> dict[str, str]:
    text = (course / "reports" / CHAPTER / "grades.csv").read_text("utf-8-sig")
    return next(row for row in csv.DictReader(text.splitlines()) if row["student_id"] == student)


def page_of(course: Path, name: str) -> str:
    text = (course / "reports" / CHAPTER / name).read_text("utf-8")
    return html.unescape(re.sub(r"<[^>]+>", "", text))


# What a decision comes to


outcomes = st.sampled_from(["passed", "failed", "not tried", "waiting"])
verdicts = st.sampled_from([v for v in Verdict if v not in (Verdict.PASSED, Verdict.MALFORMED)])


@st.composite
def results(draw: st.DrawFn) -> ExerciseResult:
    tried = tuple(
        PropertyResult(f"claim {number}", draw(st.sampled_from([0.5, 1.0, 2.0])), outcome)
        for number, outcome in enumerate(draw(st.lists(outcomes, max_size=6)))
    )
    most = draw(st.sampled_from([1.0, 3.0, 4.0, 7.5]))
    points = round(most * draw(st.floats(0, 1)), 2)
    waiting = round((most - points) * draw(st.floats(0, 1)), 2)
    name = draw(st.sampled_from(["one", "two"]))
    verdict = draw(verdicts)
    doubts = (DOUBT,) if waiting else ()
    told = f"{DOUBT}: it waits" if waiting else ""
    return ExerciseResult(
        name, verdict, points, most, "", tried, told, waiting, doubts, code=f"{name}'s"
    )


@given(results(), st.booleans())
def test_accepting_adds_what_waits_and_refusing_adds_nothing(
    result: ExerciseResult, accepted: bool
) -> None:
    judged, decided = Judged((result,)), {(result.name, result.code): accepted}
    settled = settle(judged, decided)
    (now,) = settled.exercises
    expected = result.points + (result.waiting if accepted else 0)
    assert now.points == pytest.approx(expected, abs=0.0051)
    assert not waits(now)
    assert settle(settled, decided) == settled
    assert settle(judged, {}) is judged
    for before, after in zip(result.properties, now.properties, strict=True):
        if before.outcome != "waiting":
            assert after == before
        else:
            assert after.outcome == ("passed" if accepted else "failed")
            assert after.reason == ("" if accepted else REFUSED)
    assert (now.verdict is Verdict.WAITING) is (
        result.verdict is Verdict.WAITING and not waits(result)
    )
    if waits(result):
        assert (now.verdict is Verdict.PASSED) is (now.points >= now.most)
        assert now.for_a_person == ""


@given(results(), st.booleans())
def test_a_decision_is_about_one_exercise_and_one_code(
    result: ExerciseResult, accepted: bool
) -> None:
    judged = Judged((result,))
    assert settle(judged, {(result.name, "other code"): accepted}) is judged
    assert settle(judged, {("other", result.code): accepted}) is judged


def test_a_crash_is_told_even_where_accepted_points_come_on_top() -> None:
    crashed = ExerciseResult(
        "one", Verdict.CRASHED, 1.0, 4.0, "c: it crashed", (), "", 1.0, (DOUBT,), "c"
    )
    (now,) = settle(Judged((crashed,)), {("one", "c"): True}).exercises
    assert (now.verdict, now.points, now.message) == (Verdict.CRASHED, 2.0, "c: it crashed")


def test_points_that_wait_without_a_property_are_settled_all_the_same() -> None:
    told = "with all cells of the notebook it comes to 4 points, with those that it uses to 0"
    tried = (PropertyResult("a", 1.0, "passed"),)
    result = ExerciseResult("one", Verdict.WAITING, 0.0, 4.0, "", tried, told, 4.0, (told,), "c")
    (accepted,) = settle(Judged((result,)), {("one", "c"): True}).exercises
    assert (accepted.verdict, accepted.points, accepted.for_a_person) == (Verdict.PASSED, 4.0, "")
    (refused,) = settle(Judged((result,)), {("one", "c"): False}).exercises
    assert (refused.verdict, refused.points, refused.message) == (Verdict.FAILED, 0.0, REFUSED)


def test_what_else_is_for_a_person_stays() -> None:
    result = replace(waiting_result(invented.all_right().exercises[0]), for_a_person="it is odd")
    (now,) = settle(Judged((result,)), {(result.name, result.code): True}).exercises
    assert now.for_a_person == "it is odd"


def test_the_judged_notebook_agrees_with_the_decision() -> None:
    result = waiting_result(invented.all_right().exercises[0])
    cell = v4.new_code_cell("test", id="a")
    cell.metadata["nbgrader"] = {
        "grade_id": f"test-{result.name}",
        "grade": True,
        "solution": False,
        "points": MOST,
    }
    cell.outputs = write_report("a report", "<b>a report</b>", result.points)
    notebook = v4.new_notebook(cells=[cell])
    judged = Judged((result,), nbformat.writes(notebook).encode())
    for accepted, words in (
        (True, "now count: 4 of 4"),
        (False, f"do not count: {result.points:g} of 4"),
    ):
        settled = settle(judged, {(result.name, result.code): accepted})
        (now,) = nbformat.reads(settled.notebook.decode(), as_version=4).cells
        report, said, value = now.outputs
        assert report == cell.outputs[0]
        assert words in said.data["text/plain"]
        assert words in said.data["text/html"]
        assert float(value.data["text/plain"]) == settled.exercises[0].points
        assert determine_grade(now)[0] == settled.exercises[0].points


# What is kept


def decision(student: str, accepted: bool = True) -> Decision:
    return Decision(student, "one", "c", accepted, 1.5, (DOUBT,), "2026-01-31 12:00:00 UTC")


def test_decisions_are_kept_and_taken_back(tmp_path: Path) -> None:
    Decisions(tmp_path).change([decision("ann"), decision("bob", False)])
    kept = Decisions(tmp_path)
    assert kept.find("ann", "one", "c") == decision("ann")
    assert (kept.of("ann"), kept.of("bob")) == ({("one", "c"): True}, {("one", "c"): False})
    kept.change([], {decision("ann").about})
    assert Decisions(tmp_path).of("ann") == {}
    assert Decisions(tmp_path).of("bob") == {("one", "c"): False}


def test_an_id_that_is_no_text_can_be_decided_about(tmp_path: Path) -> None:
    Decisions(tmp_path).change([decision("ä\udcff")])
    assert Decisions(tmp_path).of("ä\udcff") == {("one", "c"): True}


def decide_many(folder: Path, name: str) -> None:
    for number in range(20):
        while True:
            try:
                Decisions(folder).change([decision(f"{name}{number}")])
                break
            except GradingError:
                continue


def test_two_processes_lose_nothing(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    both = [context.Process(target=decide_many, args=(tmp_path, name)) for name in "ab"]
    for process in both:
        process.start()
    for process in both:
        process.join(120)
        assert process.exitcode == 0
    kept = Decisions(tmp_path)
    assert all(kept.of(f"{name}{number}") for name in "ab" for number in range(20))


@pytest.mark.parametrize(
    "damage",
    [
        "",
        "[]",
        "{",
        '{"format": 0, "decisions": []}',
        '{"format": 1, "decisions": [{"student": "ann"}]}',
        '{"format": 1, "decisions": [3]}',
        '{"format": 1, "decisions": [{"student": "a", "exercise": "b", "code": "c", '
        '"accepted": "no", "doubts": []}]}',
    ],
)
def test_a_damaged_file_is_put_aside_and_never_overwritten(tmp_path: Path, damage: str) -> None:
    file = tmp_path / "review" / "decisions.json"
    file.parent.mkdir()
    for number in (1, 2):
        file.write_text(damage)
        with pytest.raises(GradingError, match=rf"renamed to decisions\.damaged-{number}\.json"):
            Decisions(tmp_path)
        assert not file.exists()
        Decisions(tmp_path).change([decision("ann")])
    assert [f.read_text() for f in sorted(file.parent.glob("*damaged*"))] == [damage, damage]


# The command


def test_what_waits_is_shown_with_whose_it_is_why_and_what_was_seen(course: Path) -> None:
    shown = review()
    assert "3 exercises of 2 students wait for a person" in shown
    assert "ada (Ada Lovelace) · Exercise 1" in shown
    assert f"{WAITING['ada']:g} of {MOST:g} points wait" in shown
    assert DOUBT in shown
    claim = CLASS["ada"].exercises[0].properties[-1].claim
    assert f"? {claim}" in shown
    assert "logits = SECRET" in shown
    assert f"bits review {CHAPTER} --accept --student ada --exercise {EXERCISE}" in shown
    assert "eve" not in shown
    assert "bob" not in review("--student", "ada")


def test_the_line_of_code_stands_under_the_doubt(course: Path) -> None:
    (file,) = (course / "submitted" / "ada" / CHAPTER).glob("*.ipynb")
    third = json.loads(file.read_bytes())["cells"][2]["source"]
    line = "".join(third).splitlines()[2].strip()
    assert f"│ {line}"[:40] in review("--student", "ada")
    file.write_bytes(file.read_bytes() + b"\n")  # what was judged is not what lies there now
    assert "│" not in review("--student", "ada")


def test_accepted_points_count_everywhere_at_once(course: Path) -> None:
    write_class_report(course, CHAPTER, column="Stability (4711)")
    assert grade_of(course, "ada") == (CLASS["ada"].exercises[0].points, True)
    assert float(table_row(course, "ada")["waiting"]) == WAITING["ada"]
    told = review("--accept", "--student", "ada")
    assert "accepted: ada (Ada Lovelace) · Exercise 1" in told
    assert f"{MOST:g} of {MOST:g} points" in told
    assert "2 exercises of 1 student wait for a person" in told
    assert grade_of(course, "ada") == (MOST, False)
    value, texts = shown_score(course, "ada")
    assert (value, len(texts)) == (MOST, 3)
    row = table_row(course, "ada")
    assert (row["total"], row["waiting"], row["needs_a_person"]) == ("34", "0", "")
    assert row[f"{EXERCISE} verdict"] == "passed"
    page = page_of(course, "feedback/ada.html")
    assert "34 of 34" in page
    assert "?" not in page.partition("Your code")[0]
    assert "Stability (4711)" in (course / "reports" / CHAPTER / "lms-canvas.csv").read_text()
    assert float(table_row(course, "bob")["waiting"]) == WAITING["bob"]


def test_refused_points_do_not_count_and_nobody_is_asked_again(course: Path) -> None:
    points = CLASS["ada"].exercises[0].points
    review("--refuse", "--reason", "SYS._GETFRAME", "--student", "ada")
    assert grade_of(course, "ada") == (points, False)
    value, texts = shown_score(course, "ada")
    assert value == points
    assert "do not count" in texts[1]
    entry = next(e for e in read_class(course, CHAPTER) if e.student == "ada")
    assert (entry.judged.points, entry.judged.waiting) == (34 - WAITING["ada"], 0)
    assert entry.judged.exercises[0].verdict is Verdict.PARTLY
    assert "ada" not in review()
    write_class_report(course, CHAPTER)
    assert REFUSED in page_of(course, "feedback/ada.html")


def test_reopening_takes_a_decision_back(course: Path) -> None:
    before = grade_of(course, "ada"), shown_score_or_none(course)
    for decided in ("--accept", "--refuse"):
        review(decided, "--student", "ada")
        review("--reopen", "--student", "ada")
        assert grade_of(course, "ada") == before[0]
        assert shown_score(course, "ada") == (
            CLASS["ada"].exercises[0].points,
            ["a report", str(CLASS["ada"].exercises[0].points)],
        )


def shown_score_or_none(course: Path) -> None:
    assert not (course / "autograded").exists()


def test_another_code_and_another_student_are_not_decided(course: Path) -> None:
    review("--accept", "--student", "ada")
    store, records = open_results(course)
    other = replace(
        store.load(records.find("ada").key), exercises=holding_back(EXERCISE, code="new").exercises
    )
    store.save("k" * 64, other)
    for student in ("ada", "eve"):
        records.save(replace(records.find(student), key="k" * 64))
    assert {case["student"] for case in json.loads(review("--json"))} == {"ada", "bob", "eve"}
    changed = holding_back(EXERCISE, last=3).exercises  # the test was changed, the code was not
    store.save("k" * 64, replace(other, exercises=changed))
    assert {
        case["student"] for case in json.loads(review("--json")) if case["decision"] == "open"
    } == {
        "bob",
        "eve",
    }


def test_a_decision_is_taken_for_all_that_fits(course: Path) -> None:
    review("--accept", "--exercise", EXERCISE)
    cases = {(c["student"], c["exercise"]): c["decision"] for c in json.loads(review("--json"))}
    assert cases == {
        ("ada", EXERCISE): "accepted",
        ("bob", EXERCISE): "accepted",
        ("bob", "masked-softmax"): "open",
    }
    assert "refused: bob" in review("--refuse", "--all")
    assert "Nothing waits for a person" in review()
    assert "Decided: 2 accepted, 1 refused." in review()
    assert f"bits review {CHAPTER} --reopen --all" in review()
    assert len(json.loads(review("--reopen", "--all", "--json"))) == 3


def test_a_mistake_is_told_in_one_sentence(course: Path) -> None:
    assert refusal(CHAPTER, "--accept") == (
        "choose what to accept: --student, --exercise, --reason, or --all"
    )
    assert "did you mean ada?" in refusal(CHAPTER, "--student", "adda")
    assert f"did you mean {EXERCISE}" in refusal(CHAPTER, "--accept", "--exercise", "softmx")
    assert refusal("99-other").startswith("There is no assignment 99-other")
    assert refusal(CHAPTER, "--reopen", "--all").startswith("None of these cases is decided yet")
    assert "that fits" in refusal(CHAPTER, "--accept", "--reason", "dispatch")
    review("--accept", "--all")
    assert refusal(CHAPTER, "--refuse", "--all").startswith(
        "All of these cases are already decided"
    )


def test_nothing_is_decided_while_another_command_is_at_work(course: Path) -> None:
    with sole_holder(course / "judged", GradingError("held by the test")):
        assert "is running in this course" in refusal(CHAPTER, "--accept", "--all")
        assert "3 exercises" in review()
    assert Decisions(judged_folder(course, CHAPTER)).of("ada") == {}


def test_a_report_that_somebody_changed_stays_and_the_decision_is_kept(course: Path) -> None:
    write_class_report(course, CHAPTER)
    (course / "reports" / CHAPTER / "grades.csv").write_text("mine")
    result = CliRunner().invoke(main, ["review", CHAPTER, "--accept", "--student", "ada"])
    assert result.exit_code == 1
    assert "The report was not updated" in result.output
    assert grade_of(course, "ada") == (MOST, False)


def test_a_judged_notebook_that_is_lost_is_told_and_the_decision_is_kept(course: Path) -> None:
    store, records = open_results(course)
    (store.folder / f"{records.find('ada').key}.ipynb").unlink()
    result = CliRunner().invoke(main, ["review", CHAPTER, "--accept", "--student", "ada"])
    assert result.exit_code == 1
    assert f"The judged notebook of ada is missing or damaged: run bits grade {CHAPTER}" in (
        " ".join(result.output.split())
    )
    assert Decisions(store.folder).of("ada") == {(EXERCISE, "code"): True}


def test_hostile_words_do_not_reach_the_terminal(tmp_path: Path, monkeypatch) -> None:
    odd = "\x1b[31m[bold]red\u202e"
    (first, *others) = holding_back(EXERCISE).exercises
    tried = replace(first.properties[-1], claim=odd, details=((odd, odd),))
    first = replace(first, properties=(*first.properties[:-1], tried), doubts=(odd,))
    invented.make_course(tmp_path, [Student("s", Judged((first, *others)), odd, odd)])
    monkeypatch.chdir(tmp_path / "course")
    shown = review()
    assert not re.search("[\x00-\x09\x0b-\x1f\u202e]", shown)
    assert "\\x1b[31m[bold]red\\u202e" in shown


# The lists, tables and pages


def test_the_students_page_says_what_a_person_looks_at_and_shows_no_hidden_input(
    course: Path,
) -> None:
    write_class_report(course, CHAPTER)
    page = page_of(course, "feedback/ada.html")
    assert f"Up to {WAITING['ada']:g} more points will count once a person has looked" in page
    assert (
        "It holds. A person will look at sys._getframe in line 3 of cell 2 before this property's "
        f"{WAITING['ada']:g} points count."
    ) in page
    assert "SECRET" not in page


def test_points_that_wait_without_a_property_are_explained_too() -> None:
    told = "with all cells of the notebook it comes to 4 points, with those that it uses to 0"
    first, *_ = invented.all_right().exercises
    result = replace(
        first, verdict=Verdict.WAITING, points=0.0, waiting=4.0, doubts=(told,), for_a_person=told
    )
    marks = GradebookView().marks("ada", Judged((result,)))
    page = render_feedback(Row("ada", marks=marks), b"", CHAPTER, "Title", str).decode()
    assert f"A person will look at this exercise before more points count: {told}." in page
    assert "0 of 4 points, 4 more points to be decided" in page


def test_the_class_page_and_its_tables_show_the_points_that_wait_apart(course: Path) -> None:
    write_class_report(course, CHAPTER)
    total = sum(WAITING.values())
    page = page_of(course, "index.html")
    assert (
        f"3 exercises of 2 students wait for a person, with {total:g} points: bits review {CHAPTER}"
    ) in page
    assert f"+ {WAITING['ada']:g}?" in page
    row = table_row(course, "bob")
    assert float(row["total"]) + float(row["waiting"]) == pytest.approx(34)
    assert row[f"{EXERCISE} verdict"] == "waiting"


def test_points_by_hand_leave_nothing_that_waits(course: Path) -> None:
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as gradebook:
        (notebook,) = gradebook.find_submission(CHAPTER, "ada").notebooks
        grade = next(g for g in notebook.grades if g.name == f"test-{EXERCISE}")
        grade.manual_score, grade.needs_manual_grade = 3.75, False
        gradebook.db.commit()
    write_class_report(course, CHAPTER)
    row = table_row(course, "ada")
    assert (row[EXERCISE], row["waiting"], row["needs_a_person"]) == ("3.75", "0", "")
    assert "It has 3.75 points by hand" in review("--student", "ada")
    review("--accept", "--student", "ada")
    write_class_report(course, CHAPTER)
    assert table_row(course, "ada")[EXERCISE] == "3.75"


def test_a_record_from_before_points_were_written_down_can_be_read(tmp_path: Path) -> None:
    records = Records(tmp_path)
    records.save(Recorded("ann", "k", "s", "", "", {"one": 1.5}))
    (file,) = tmp_path.glob("*.json")
    assert records.find("ann").points == {"one": 1.5}
    content = json.loads(file.read_text())
    for points, expected in ((None, None), ([1], None), ({"one": "x"}, None), ({}, {})):
        file.write_text(json.dumps(content | {"points": points}))
        found = records.find("ann")
        assert (found.points if found else None) == expected
    del content["points"]
    file.write_text(json.dumps(content))
    assert records.find("ann").points == {}
