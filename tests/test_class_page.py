"""The instructor's page: everybody, what needs a person, what tells students apart, who is late."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import invented_class as invented
import pytest
from course_files import find_cell, release
from invented_class import CHAPTER, Student
from nbformat.notebooknode import NotebookNode
from nbgrader.api import Gradebook
from test_accessibility import grave_faults

from helpers.grading.report.kinds import kind_of_problem
from helpers.grading.report.lateness import Due, in_words
from helpers.grading.report.marks import GradebookView
from helpers.grading.report.report import write_report
from helpers.grading.report.tally import Tally
from helpers.grading.verdicts import ExerciseResult, Judged, PropertyResult, Verdict

# It came at 12:00 (invented_class.RECEIVED_AT).
DUE = datetime(2026, 1, 29, 9, 30)
OWN_VARIANCE = '''
def running_variance(batches):
    """Go through the rows one by one."""
    seen = 0
    middle = None
    for piece in batches:
        piece = piece.double()
        if middle is None:
            middle = torch.zeros(piece.shape[1:], dtype=torch.float64)
            spread = torch.zeros_like(middle)
        for line in piece.unbind(0):
            seen = seen + 1
            gap = line - middle
            middle = middle + gap / seen
            spread = spread + gap * (line - middle)
    return middle.to(torch.float32), (spread / max(seen - 1, 1)).to(torch.float32)
'''
RENAMED_VARIANCE = re.sub(
    r"\b(seen|middle|piece|line|gap|spread)\b", r"my_\1", OWN_VARIANCE.replace("    ", "  ")
)


def answering(exercise: str, code: str) -> Callable[[NotebookNode], None]:
    def change(notebook: NotebookNode) -> None:
        find_cell(notebook, exercise).source = code

    return change


def waiting() -> Judged:
    first, *others = invented.all_right().exercises
    doubt = "cell 12, line 3: `gc.get_objects`"
    held = tuple(replace(p, outcome="waiting") for p in first.properties[1:])
    changed = replace(
        first,
        verdict=Verdict.WAITING,
        points=3.0,
        waiting=1.0,
        doubts=(doubt,),
        for_a_person=f"{doubt}: 1 point waits",
        properties=(first.properties[0], *held),
    )
    return Judged((changed, *others))


def ending(verdict: Verdict, message: str) -> Judged:
    first, *others = invented.all_right().exercises
    return Judged((replace(first, verdict=verdict, points=0.0, message=message), *others))


def unreadable() -> Judged:
    return Judged(
        tuple(
            replace(
                exercise,
                verdict=Verdict.MALFORMED,
                points=0.0,
                properties=(),
                message="Your submission could not be graded: it is cut off.",
                for_a_person="it is cut off",
            )
            for exercise in invented.all_right().exercises
        )
    )


def make_students() -> list[Student]:
    note = "the mark of 1 cell was lost; it was recognized by what it says"
    right = invented.all_right()
    copied = answering("running-variance", OWN_VARIANCE)
    renamed = answering("running-variance", RENAMED_VARIANCE)
    return [
        Student("s1", right, "Zoe", "Archer", change=copied),
        Student("s2", right, "Ada", "Ito", change=renamed),
        Student("s3", waiting(), "Bo", "Chen"),
        Student("s4", ending(Verdict.TIMED_OUT, "it never ends"), "Cy", "García"),
        Student("s5", ending(Verdict.TIMED_OUT, "it never ends"), "Di", "Haddad"),
        Student("s6", unreadable(), "Ed", "Ito"),
        Student("s7", Judged(right.exercises, b"", (note,)), "Flo", "Abel"),
        Student("s8", None, "Gil", "Young"),
        Student("no-name", right),
    ]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the page of a class that was due two days before it came, but for one student."""
    course = invented.make_course(tmp_path_factory.mktemp("page"), make_students())
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as gradebook:
        gradebook.update_or_create_assignment(CHAPTER, duedate=DUE)
        gradebook.find_submission(CHAPTER, "s2").extension = timedelta(days=3)
        gradebook.db.commit()
    return write_report(course, CHAPTER).index


def part(index: Path, name: str) -> str:
    """Return the text of one part of the page."""
    found = re.search(rf'<section id="{name}">.*?</section>', index.read_text("utf-8"), re.DOTALL)
    return words(found[0])


def words(markup: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", markup)).split())


def table_rows(index: Path) -> list[list[str]]:
    text = index.read_text("utf-8").partition("<tbody>")[2].partition("</tbody>")[0]
    rows = text.split("<tr>")[1:]
    return [[words(cell) for cell in re.split(r"<t[hd]\b", row)[1:]] for row in rows]


def cells_of(index: Path) -> dict[str, list[str]]:
    # What is left of a cell's own tag stands before the first ">".
    return {
        row[1].rpartition(">")[2].strip(): [cell.rpartition(">")[2].strip() for cell in row]
        for row in table_rows(index)
    }


# Everybody


def test_it_begins_with_everybody_then_the_rest_in_order(index: Path) -> None:
    text = index.read_text("utf-8")
    places = [text.index(f'id="{name}"') for name in ("everybody", "needs", "pictures", "alike")]
    assert places == sorted(places)
    assert text.index("<table") < places[1]
    assert "<img" not in text[: places[1]]


def test_people_stand_by_last_name_and_who_has_none_by_id(index: Path) -> None:
    found = cells_of(index)
    names = (
        "Abel, Flo|Archer, Zoe|Chen, Bo|García, Cy|Haddad, Di|Ito, Ada|Ito, Ed|no-name|Young, Gil"
    )
    assert [row[0] for row in found.values()] == names.split("|")
    assert list(found) == ["s7", "s1", "s3", "s4", "s5", "s2", "s6", "no-name", "s8"]


def test_a_row_has_points_what_waits_how_late_and_each_exercise(index: Path) -> None:
    found = cells_of(index)
    assert found["s3"][2:6] == ["33", "+ 1?", "2026-01-31 12:00", "2 days 2 hours"]
    assert found["s3"][6:] == ["? 3 + 1?", "✓ 4", "✓ 4", "✓ 5", "✓ 3", "✓ 5", "✓ 5", "✓ 4"]
    assert found["s4"][2:4] == ["30", ""]
    assert found["s4"][6] == "⚠ 0"
    assert found["s2"][5] == "", "an extension makes it punctual"
    assert found["s8"][2:6] == ["", "", "not handed in", ""]
    assert "Due 2026-01-29 09:30 UTC; 7 came late." in words(index.read_text("utf-8"))


def test_without_a_due_date_it_is_said_once_and_nobody_is_late(tmp_path: Path) -> None:
    course = invented.make_course(tmp_path, [Student("one", invented.all_right())])
    text = words(write_report(course, CHAPTER).index.read_text("utf-8"))
    assert text.count("No due date is set.") == 1
    assert " late " not in text.replace("came late", "")


def test_a_class_in_which_nobody_has_handed_in_has_its_page(tmp_path: Path) -> None:
    course = invented.make_course(tmp_path, [Student("one"), Student("two")])
    summary = write_report(course, CHAPTER)
    assert summary.sentence == "Nothing has been handed in yet by any of 2."
    assert part(summary.index, "everybody").count("not handed in") == 2
    assert "<img" not in summary.index.read_text("utf-8")
    assert not (summary.index.parent / "class.png").exists()


@pytest.mark.parametrize(
    ("late", "told"),
    [
        (timedelta(seconds=30), "less than a minute"),
        (timedelta(minutes=1), "1 minute"),
        (timedelta(hours=1, minutes=5), "1 hour 5 minutes"),
        (timedelta(days=1, minutes=5), "1 day"),
        (timedelta(days=2, hours=23, minutes=59), "2 days 23 hours"),
    ],
)
def test_how_late_is_said_in_two_units_at_most(late: timedelta, told: str) -> None:
    assert in_words(late) == told


def test_who_is_in_time_or_is_not_known_is_not_late() -> None:
    due = Due(DUE, {"longer": timedelta(hours=1)})
    soon = DUE.replace(tzinfo=UTC) + timedelta(minutes=59)
    assert due.late("longer", soon) == timedelta()
    assert due.late("other", soon) == timedelta(minutes=59)
    assert due.late("other", None) == Due().late("other", soon) == timedelta()


# What needs a person


def test_each_kind_of_case_stands_with_whose_it_is_and_what_settles_it(index: Path) -> None:
    text = part(index, "needs")
    assert "1 exercise of 1 student waits for a person, with 1 point" in text
    assert "cell 12, line 3: `gc.get_objects`" in text
    assert f"bits review {CHAPTER} --student=s3" in text
    assert "Took too long García, Cy , Haddad, Di : 1 · Softmax along a dimension" in text
    assert "Could not be read Ito, Ed : it is cut off" in text
    assert "Abel, Flo : the mark of 1 cell was lost; it was recognized by what it says" in text
    assert text.count("it is cut off") == 1, "once, not for each exercise"
    assert "Another reason" not in text


def test_who_needs_a_person_is_linked_to_their_page(index: Path) -> None:
    text = index.read_text("utf-8").partition('id="needs"')[2].partition('id="pictures"')[0]
    pages = re.findall(r'href="([^"]+)"', text)
    assert set(pages) == {f"feedback/s{number}.html" for number in (3, 4, 5, 6, 7)}
    assert all((index.parent / page).is_file() for page in pages)


def test_another_reason_is_not_lost_beside_a_verdict(tmp_path: Path) -> None:
    students = [Student("one", ending(Verdict.TIMED_OUT, "it never ends"))]
    course = invented.make_course(tmp_path, students)
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as gradebook:
        grades = gradebook.find_submission(CHAPTER, "one").notebooks[0].grades
        next(grade for grade in grades if grade.name == "test-softmax").auto_score = 1.0
        gradebook.db.commit()
    text = part(write_report(course, CHAPTER).index, "needs")
    assert "Took too long" in text
    assert "the gradebook has 1 points for what was judged 0: run bits grade again" in text


# What tells students apart, and what went wrong for several


def tally_of(*columns: str, points: tuple[float, ...] = ()) -> Tally:
    """Return a class in which student i passes, fails or does not reach property j.

    That is told by the sign at place i of column j: "+", "-" or ".".
    """
    tally = Tally()
    outcomes = {"+": "passed", "-": "failed", ".": "not tried"}
    for place, signs in enumerate(zip(*columns, strict=True)):
        tried = tuple(
            PropertyResult(
                f"p{j}", 1.0, outcomes[sign], "1 of 2 values differ" if sign == "-" else ""
            )
            for j, sign in enumerate(signs)
        )
        elsewhere = points[place] if points else 1.0
        judged = Judged(
            (
                ExerciseResult("one", Verdict.PARTLY, 1.0, 4.0, properties=tried),
                ExerciseResult("two", Verdict.PARTLY, elsewhere, 9.0),
            )
        )
        tally.add(GradebookView().marks(f"s{place}", judged), f"s{place}")
    return tally


def test_what_all_pass_or_all_fail_tells_nobody_apart() -> None:
    tally = tally_of("+" * 12, "-" * 12, "+" * 6 + "-" * 6, "+++" + "-" * 9, "-" + "+" * 11)
    told = [(each.claim, each.passed, each.failed, each.pairs) for each in tally.telling()]
    # Of twelve, one who fails alone is chance.
    assert told == [("p2", 6, 6, 36), ("p3", 3, 9, 27)]


def test_who_did_not_get_that_far_is_not_counted() -> None:
    (first, second) = tally_of("+++--", "+-+..").telling()
    assert (first.claim, first.passed, first.failed) == ("p0", 3, 2)
    assert (second.claim, second.passed, second.failed) == ("p1", 2, 1)


def test_the_correlation_is_the_one_with_the_points_elsewhere() -> None:
    points = tuple(float(place % 10) for place in range(20))
    well = "".join("+" if p >= 5 else "-" for p in points)
    badly = well.translate(str.maketrans("+-", "-+"))
    first, second = tally_of(well, badly, points=points).telling()
    # Of five of each half of 0 to 9: 2.5 points from the mean, whose deviation is sqrt(8.25).
    assert first.correlation == pytest.approx(2.5 / 8.25**0.5)
    assert second.correlation == pytest.approx(-(2.5 / 8.25**0.5))
    same = tally_of(well, points=(3.0,) * 20).telling()
    assert same[0].correlation is None
    few = tally_of(well[:19], points=points[:19]).telling()
    assert few[0].correlation is None


def tensors(dtype: str, came: tuple, wanted: tuple, wanted_dtype: str = "") -> str:
    return (
        f"a {dtype} tensor of shape {came} came back, "
        f"expected a {wanted_dtype or dtype} tensor of shape {wanted}"
    )


@pytest.mark.parametrize(
    ("reasons", "kind"),
    [
        (
            (
                "3 of 12 values differ; at [0, 2]: 0.5 came back, expected 1.25",
                "11 of 12 values differ; at [1, 0]: -1e-05 came back, expected 0",
                "0.5 came back, expected 0.25",
            ),
            "other values",
        ),
        (
            (
                "1 of 4 values differ; at [0]: nan came back, expected 1.25",
                "nan came back, expected -3",
            ),
            "nan instead of a number",
        ),
        (
            (tensors("float32", (3, 5), (5, 3)), tensors("float64", (2, 7), (7, 2))),
            "another shape",
        ),
        (
            (tensors("float32", (3, 5), (3,)), tensors("float32", (), (4,))),
            "another number of dimensions",
        ),
        (
            (tensors("float64", (3,), (3,), "float32"), tensors("float64", (4,), (4,), "float32")),
            "float64 instead of float32",
        ),
        (
            (
                "raised NameError: name 'total' is not defined",
                "raised NameError: name 'x' is not defined",
            ),
            "raised NameError: name '…' is not defined",
        ),
        (
            ("None came back, expected a float32 tensor of shape (3, 5)",),
            "None instead of a tensor",
        ),
        (
            (
                "mean: 3 of 3 values differ; at [2]: 0.8 came back, expected 1.4",
                "mean: 1 of 2 values of [0][1] differ; at [0][1][1]: 3 came back, expected 5",
                "mean: 1 of 2 values of ['x'] differ; at ['x'][1]: 3 came back, expected 5",
            ),
            "mean: other values",
        ),
    ],
)
def test_a_kind_of_problem_has_no_numbers_and_no_shapes(reasons: tuple, kind: str) -> None:
    assert {kind_of_problem(reason) for reason in reasons} == {kind}


def judged_wrong(told: str, *claims: str) -> Judged:
    failed = tuple(PropertyResult(claim, 1.0, "failed", told) for claim in claims)
    return Judged((ExerciseResult("one", Verdict.FAILED, 0.0, 4.0, properties=failed),))


def test_wrong_answers_are_the_same_if_the_same_fails_in_the_same_way() -> None:
    tally = Tally()
    for student, told, claims in (
        ("s1", "3 of 12 values differ; at [0, 2]: 0.5 came back, expected 1.25", "ab"),
        ("s2", "1 of 6 values differ; at [2]: 7 came back, expected 8", "ab"),
        ("s3", "1 of 6 values differ; at [2]: 7 came back, expected 8", "a"),
        ("s4", "1 of 6 values differ; at [2]: nan came back, expected 8", "ab"),
    ):
        tally.add(GradebookView().marks(student, judged_wrong(told, *claims)), student)
    (shared,) = tally.wrong_answers(fewest=2)
    assert (shared.failed, shared.kind, shared.count) == (("a", "b"), "other values", 2)
    assert (shared.student, shared.example[:11]) == ("s1", "3 of 12 val")
    assert len(tally.wrong_answers()) == 3


# Nearly equal solutions


def test_a_pair_is_named_and_nobody_is_accused(index: Path) -> None:
    text = part(index, "alike")
    assert "accuses nobody and changes no points" in text
    assert "4 · Variance in one pass: Archer, Zoe and Ito, Ada , 100%" in text
    assert text.count("%") == 2, "one pair, and the share from which on it is one"


def test_nobody_is_named_where_all_hand_in_the_chapters_own_answers(tmp_path: Path) -> None:
    students = [Student(f"s{number}", invented.all_right()) for number in range(4)]
    students.append(Student("stub", invented.all_right()))
    stub = find_cell(release(CHAPTER), "running-variance").source
    students[-1].change = answering("running-variance", stub)
    course = invented.make_course(tmp_path, students)
    assert part(write_report(course, CHAPTER).index, "alike").endswith("There are none.")


def test_what_is_too_long_is_named_and_not_compared(tmp_path: Path) -> None:
    huge = answering("softmax", "x = 1\n" * 200_000)
    students = [Student(f"s{number}", invented.all_right(), change=huge) for number in (1, 2)]
    course = invented.make_course(tmp_path, students)
    text = part(write_report(course, CHAPTER).index, "alike")
    assert "There are none." in text
    assert "Longer than 20,000 characters, and not compared: s1 (1 · Softmax" in text


# In a browser


@pytest.fixture
def open_page(browser, index: Path):
    contexts = []

    def open_one(width: int, scheme: str):
        contexts.append(
            browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)
        )
        page = contexts[-1].new_page()
        page.goto(index.as_uri())
        return page

    yield open_one
    for context in contexts:
        context.close()


@pytest.mark.needs_system("chromium-headless-shell")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_it_is_no_wider_than_the_screen_and_has_no_grave_fault(
    open_page: Callable, width: int, scheme: str
) -> None:
    page = open_page(width, scheme)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert grave_faults(page) == []


@pytest.mark.needs_system("chromium-headless-shell")
def test_the_table_is_sorted_by_keyboard_and_what_is_empty_stays_last(open_page: Callable) -> None:
    page = open_page(1280, "light")
    heading = page.get_by_role("columnheader", name="points of 34")
    points = "all => all.map(row => row.cells[2].textContent)"
    before = page.eval_on_selector_all("tbody tr", points)
    button = heading.get_by_role("button")
    button.press("Enter")
    assert heading.get_attribute("aria-sort") == "ascending"
    rising = page.eval_on_selector_all("tbody tr", points)
    assert rising == ["0", "30", "30", "33", "34", "34", "34", "34", ""]
    button.press("Space")
    assert heading.get_attribute("aria-sort") == "descending"
    falling = page.eval_on_selector_all("tbody tr", points)
    assert falling == ["34", "34", "34", "34", "33", "30", "30", "0", ""]
    page.get_by_role("columnheader", name="name").get_by_role("button").press("Enter")
    assert heading.get_attribute("aria-sort") is None
    assert page.eval_on_selector_all("tbody tr", points) == before


@pytest.mark.needs_system("chromium-headless-shell")
def test_printed_no_column_is_cut_off(open_page: Callable) -> None:
    page = open_page(1040, "light")  # the longer side of a sheet, within its margins
    page.emulate_media(media="print")
    wide = "all => all.filter(box => box.scrollWidth > document.documentElement.clientWidth).length"
    assert page.eval_on_selector_all("table, .scroll, img", wide) == 0
