"""`bits report`: the tables, the pages and the picture of a class, whatever its members wrote."""

from __future__ import annotations

import base64
import csv
import html
import io
import json
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import invented_class as invented
import pytest
from click.testing import CliRunner
from invented_class import CHAPTER, Student
from lab_server import run_nbgrader
from nbformat import v4
from nbformat.notebooknode import NotebookNode
from nbgrader.api import Gradebook
from PIL import Image

from helpers.cli import main
from helpers.grading.errors import GradingError, ReportError
from helpers.grading.intake.intake import utc_now
from helpers.grading.intake.receipts import Receipt, ReceiptBook, Status
from helpers.grading.markdown import render_markdown
from helpers.grading.report import own_files, report
from helpers.grading.report.class_picture import Picture, draw_class
from helpers.grading.report.feedback import render_feedback
from helpers.grading.report.marks import GradebookView, Marks
from helpers.grading.report.report import Summary, summarize, write_report
from helpers.grading.report.senders import Sender, find_sender, read_senders
from helpers.grading.report.tables import Row, canvas_table, grades_table, guard, moodle_table
from helpers.grading.report.tally import Tally
from helpers.grading.shown import embed_picture, printed, visible
from helpers.grading.verdicts import ExerciseResult, Judged, PropertyResult, Verdict

HOSTILE = (
    "=cmd|' /C calc'!A0",
    "<script>hacked()</script>",
    '"><img src=x onerror=hacked()>',
    "';hacked();'",
    "{{ 7 * 191 }}{% raw %}",
    "\x1b[31mred\x1b[2J\x07",
    "\u202ednert\u202c",
    "../../up",
    'comma, "quote"; =1+1',
    "line\r\n=2+3\tand tab",
    "@SUM(1)",
    "+1-2",
    "$\\frac{1}{$ 😀 名前",
    "x" * 120,
    "Points Possible",
    "nul\x00l",
)
PLAIN_TAGS = """
html head meta title style body header main section article footer h1 h2 h3 p div span b ul li dl
dt dd pre details summary a img meter small table thead tbody tr th td code em strong ol br hr
blockquote del
"""
PLAIN_ATTRIBUTES = """
lang charset http-equiv content name class alt src href rel title role aria-label min max value open
id scope tabindex data-sort
"""
SORT = (Path(own_files.__file__).parent / "pages" / "sort.js").read_text("utf-8").strip()
TABLES = ("grades.csv", "lms-moodle.csv", "lms-canvas.csv")
PIXEL = base64.b64encode(
    (lambda stream: (Image.new("RGB", (3, 2), "red").save(stream, "PNG"), stream.getvalue())[1])(
        io.BytesIO()
    )
).decode()


def hostile_student(number: int, text: str) -> Student:
    """Return a student who is called ``text``, writes it, shows it and is told it."""
    judged = invented.invent(number)
    told = PropertyResult(text, 1.0, "failed", text, ((text, text),), False)
    hidden = replace(told, hidden=True, details=((text, text), (text, "other")))
    exercises = tuple(
        replace(e, message=text, properties=(told, hidden, *e.properties), for_a_person=text)
        for e in judged.exercises
    )

    def change(notebook: NotebookNode) -> None:
        for cell in notebook.cells:
            if cell.metadata.get("nbgrader", {}).get("solution"):
                cell.source = text
                cell.outputs = [
                    v4.new_output("stream", name="stdout", text=text),
                    v4.new_output("error", ename=text, evalue=text, traceback=[text, text]),
                    v4.new_output("display_data", {"text/html": text, "text/plain": text}),
                    v4.new_output("display_data", {"image/svg+xml": text, text: text}),
                    v4.new_output("display_data", {"image/png": text, "image/jpeg": PIXEL}),
                    v4.new_output("display_data", {"image/png": PIXEL}),
                ]
        notebook.cells.append(
            v4.new_markdown_cell(
                f"{text}\n\n[link](javascript:hacked()) ![i](http://localhost/x.png) <b>{text}</b>",
                metadata={"nbgrader": {"grade_id": f"free-{number}", "solution": True}},
            )
        )

    name = text if "\x00" not in text else f"nul-{number}"
    return Student(name, Judged(exercises, b"", (text,)), text, text, text, change)


class Tags(HTMLParser):
    """All tags of a page, with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, {name: value or "" for name, value in attrs}))


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    students = [Student(f"student-{i:02}", invented.invent(i)) for i in range(1, 8)]
    students += [Student("all-right", invented.all_right()), Student("absent")]
    return invented.make_course(tmp_path_factory.mktemp("plain"), students)


@pytest.fixture(scope="module")
def reported(graded: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the class with its report as it is really written."""
    course = shutil.copytree(graded, tmp_path_factory.mktemp("reported") / "course")
    write_report(course, CHAPTER)
    return course


@pytest.fixture
def course(graded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of the class without a report, whose picture takes no time to draw."""
    square = Picture(base64.b64decode(PIXEL), b"<svg xmlns='http://www.w3.org/2000/svg'/>", "none")
    monkeypatch.setattr(report, "draw_class", lambda *_: square)
    return Path(shutil.copytree(graded, tmp_path / "course"))


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Summary]:
    students = [hostile_student(number, text) for number, text in enumerate(HOSTILE)]
    students += [Student("x", invented.all_right()), Student("X", invented.all_right())]
    course = invented.make_course(tmp_path_factory.mktemp("hostile"), students)
    return course, write_report(course, CHAPTER)


def read_table(file: Path) -> list[list[str]]:
    with file.open(encoding="utf-8-sig", newline="") as stream:
        return list(csv.reader(stream))


def by_student(file: Path) -> dict[str, dict[str, str]]:
    header, *lines = read_table(file)
    return {line[0]: dict(zip(header, line, strict=True)) for line in lines}


def text_of(page: Path) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", page.read_text("utf-8")))


# The tables


def test_the_table_has_everybodys_points_and_verdicts(course: Path) -> None:
    write_report(course, CHAPTER)
    table = by_student(course / "reports" / CHAPTER / "grades.csv")
    assert len(table) == 9
    assert (table["all-right"]["total"], table["all-right"]["most"]) == ("34", "34")
    assert table["absent"]["total"] == ""
    assert table["absent"]["softmax verdict"] == "nothing received"
    for number in range(1, 8):
        row, judged = table[f"student-{number:02}"], invented.invent(number)
        assert float(row["total"]) == pytest.approx(judged.points)
        for exercise in judged.exercises:
            assert float(row[exercise.name]) == pytest.approx(exercise.points)
            assert row[f"{exercise.name} verdict"] == exercise.verdict
        assert bool(row["needs_a_person"]) is any(e.for_a_person for e in judged.exercises)


def test_a_spreadsheet_reads_the_table_as_utf8(reported: Path) -> None:
    folder = reported / "reports" / CHAPTER
    assert (folder / "grades.csv").read_bytes().startswith(b"\xef\xbb\xbfstudent_id")
    for name in TABLES[1:]:
        assert not (folder / name).read_bytes().startswith(b"\xef\xbb\xbf")


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_no_cell_is_a_formula_whatever_separates_them(hostile, separator: str) -> None:
    course, _ = hostile
    for name in TABLES:
        text = (course / "reports" / CHAPTER / name).read_text("utf-8-sig")
        for line in csv.reader(io.StringIO(text, newline=""), delimiter=separator):
            for cell in line:
                assert not re.match(r"""["\s]*[=+\-@]""", cell), cell


def test_every_hostile_student_has_one_row(hostile) -> None:
    course, _ = hostile
    header, *lines = read_table(course / "reports" / CHAPTER / "grades.csv")
    assert len(lines) == len(HOSTILE) + 2
    assert {len(line) for line in lines} == {len(header)}


def test_who_cannot_be_imported_is_named_and_left_out(hostile) -> None:
    course, summary = hostile
    left_out = {student for student, _ in summary.left_out}
    assert {"=cmd|' /C calc'!A0", "@SUM(1)", "+1-2", "Points Possible"} <= left_out
    moodle = read_table(course / "reports" / CHAPTER / "lms-moodle.csv")
    assert {line[2] for line in moodle} >= {"x", "X", "../../up"}
    assert not {line[2] for line in moodle} & (left_out - {"Points Possible"})
    canvas = read_table(course / "reports" / CHAPTER / "lms-canvas.csv")
    assert [line[0].strip() for line in canvas].count("Points Possible") == 1
    assert canvas[1][5] == "34"


def test_text_that_is_no_formula_stays_as_it_is() -> None:
    for text in ("O'Neil, A.", "a-b", "x = y", "1 + 1", "a@example.org", "Ana-María"):
        assert guard(text) == text
    assert guard("=1+1") == "'=1+1"
    assert guard('a";"=1') == 'a";"\'=1'


def receipt(student: str, sender: str, source: str) -> Receipt:
    return Receipt("1", student, sender, "x.ipynb", source, "", 0, "", Status.ACCEPTED)


def test_the_systems_own_numbers_come_from_what_their_zips_were_called() -> None:
    marks = _marks()
    senders = {
        "ada": find_sender(
            receipt("ada", "Student Ada_41", "Student Ada_41_assignsubmission_file_/x.ipynb")
        ),
        "bo": find_sender(receipt("bo", "studentbo_52", "studentbo_LATE_52_77_x.ipynb")),
        "cy": find_sender(receipt("cy", "cy_99", "cy_99.ipynb")),
        "di": Sender(),
    }
    rows = [
        Row(name, name.title(), "Student", f"{name}@example.org", sender, marks=marks)
        for name, sender in senders.items()
    ]
    moodle = list(csv.reader(moodle_table(rows).content.decode().splitlines()))
    assert [line[0] for line in moodle] == ["Identifier", "Participant 41", "", "", ""]
    assert [line[4] for line in moodle] == ["Grade", "34", "34", "34", "34"]
    content = canvas_table(rows, CHAPTER, "Stability (4711)").content
    canvas = list(csv.reader(content.decode().splitlines()))
    assert canvas[0][5] == "Stability (4711)"
    assert [line[1] for line in canvas] == ["ID", "", "", "52", "", ""]
    assert canvas[2] == ["Student, Ada", "", "ada", "ada@example.org", "", "34"]


def test_a_student_without_a_name_in_the_gradebook_is_called_as_the_sender_is() -> None:
    assert Row("student-34d8d440", sender=Sender("名字")).name == "名字"
    assert Row("student-34d8d440", sender=Sender("名字", "Moodle", "41")).name == "名字"
    assert Row("s2041", "Hua", "Li", sender=Sender("名字")).name == "Hua Li"
    assert Row("jane", sender=Sender("jane")).name == ""
    assert "名字" in grades_table([Row("s", sender=Sender("名字"))]).decode("utf-8-sig")


def test_the_sender_is_the_one_whose_work_counts(tmp_path: Path) -> None:
    book = ReceiptBook(tmp_path, utc_now)
    for student, sender, status in (
        ("s1", "early", Status.MALFORMED),
        ("s1", "sound", Status.ACCEPTED),
        ("s1", "beside it", Status.EXTRA),
        ("s2", "not sound", Status.MALFORMED),
        ("s3", "s3", Status.FOUND),
    ):
        book.enter(student, sender, "x.ipynb", f"{sender}/x.ipynb", sender.encode(), status)
    found = {student: sender.name for student, sender in read_senders(tmp_path).items()}
    assert found == {"s1": "sound", "s2": "not sound"}


def test_canvas_is_not_told_a_name_that_two_have() -> None:
    rows = [Row(name, "Sam", "Doe", marks=_marks()) for name in ("one", "two")]
    table = canvas_table(rows, CHAPTER).content.decode()
    assert [line[0] for line in csv.reader(table.splitlines())][2:] == ["one", "two"]


def test_who_handed_in_nothing_is_not_imported_and_loses_no_earlier_grade() -> None:
    rows = [Row("present", marks=_marks()), Row("absent")]
    assert b"absent" not in moodle_table(rows).content
    assert b"absent" not in canvas_table(rows, CHAPTER).content
    assert b"absent" in grades_table(rows)


def _marks() -> Marks:
    return GradebookView().marks("anybody", invented.all_right())


# The gradebook


def test_what_a_person_gave_counts_and_what_a_person_said_is_shown(course: Path) -> None:
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as gradebook:
        submission = gradebook.find_submission(CHAPTER, "student-01")
        (notebook,) = submission.notebooks
        grades = {grade.name: grade for grade in notebook.grades}
        grades["test-softmax"].manual_score = 3.5
        grades["test-safe-log"].extra_credit = 0.25
        notebook.late_submission_penalty = 1.5
        comments = {comment.name: comment for comment in notebook.comments}
        comments["softmax"].manual_comment = "See <b>me</b>.\nPlease.\u202e"
        comments["safe-log"].auto_comment = "No response."
        gradebook.db.commit()
        expected = submission.score - submission.late_submission_penalty
    write_report(course, CHAPTER)
    row = by_student(course / "reports" / CHAPTER / "grades.csv")["student-01"]
    assert float(row["total"]) == pytest.approx(expected)
    assert (row["softmax"], row["late_penalty"]) == ("3.5", "1.5")
    assert row["softmax verdict"].endswith(", points by a person")
    page = course / "reports" / CHAPTER / "feedback" / "student-01.html"
    assert "See &lt;b&gt;me&lt;/b&gt;.\nPlease.\\u202e" in page.read_text("utf-8")
    shown = text_of(page)
    assert "1.5 points are taken off" in shown
    assert "3.5 of 4 points, given by a person" in shown
    assert "No response." not in shown


def test_a_gradebook_that_lags_behind_is_told(course: Path) -> None:
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as gradebook:
        submission = gradebook.find_submission(CHAPTER, "all-right")
        grade = next(g for g in submission.notebooks[0].grades if g.name == "test-softmax")
        grade.auto_score = 1.0
        gradebook.db.commit()
    summary = write_report(course, CHAPTER)
    assert "the gradebook has 1 points for what was judged 4" in dict(summary.needing)["all-right"]
    (course / "gradebook.db").unlink()
    summary = write_report(course, CHAPTER)
    assert "not in the gradebook: run bits grade again" in dict(summary.needing)["all-right"]


def test_a_later_submission_that_was_not_judged_is_told(course: Path) -> None:
    (file,) = (course / "submitted" / "all-right" / CHAPTER).glob("*.ipynb")
    file.write_bytes(file.read_bytes() + b"\n")
    summary = write_report(course, CHAPTER)
    assert "the submission that counts has not been judged" in dict(summary.needing)["all-right"]


def test_a_damaged_result_costs_its_own_students_page_alone(course: Path) -> None:
    key = json.loads(next((course / "judged" / CHAPTER / "students").iterdir()).read_bytes())
    (course / "judged" / CHAPTER / f"{key['key']}.ipynb").write_bytes(b"{}")
    summary = write_report(course, CHAPTER)
    assert summary.pages == 8
    assert "missing or damaged" in dict(summary.needing)[key["student"]]


# The pages


def test_a_page_tells_each_exercise_and_shows_the_students_own_work(course: Path) -> None:
    write_report(course, CHAPTER)
    for number in range(1, 8):
        shown = text_of(course / "reports" / CHAPTER / "feedback" / f"student-{number:02}.html")
        for exercise, result in zip(
            invented.exercises(), invented.invent(number).exercises, strict=True
        ):
            assert exercise.title in shown
            assert result.message in shown
            for tried in result.properties:
                assert tried.claim in shown
                assert tried.for_student() in shown
        assert "def softmax(logits, dim):" in shown
        assert "it ran" in shown


def test_hidden_tests_are_in_no_file_of_the_report(reported: Path, hostile) -> None:
    lines = invented.hidden_lines()
    assert len(lines) > 40
    for course in (reported, hostile[0]):
        files = [*(course / "reports").rglob("*.*"), *(course / "feedback").rglob("*.html")]
        assert len(files) > 15
        for file in files:
            if file.is_file():
                text = html.unescape(file.read_bytes().decode("utf-8", "replace"))
                assert not [line for line in lines if line in text], file


def test_what_a_hidden_property_was_fed_is_not_shown(course: Path) -> None:
    fed = (("fed in", "SECRET"),)
    tried = PropertyResult("claims", 1.0, "failed", "SECRET words", fed, True, "raised ValueError")
    first, *others = invented.all_right().exercises
    judged = Judged((replace(first, properties=(tried,)), *others))
    row = Row("someone", marks=GradebookView().marks("someone", judged))
    page = render_feedback(row, b"", CHAPTER, "Title", str).decode()
    assert "raised ValueError" in page
    assert "SECRET" not in page


def test_what_code_said_in_hidden_tests_is_for_the_instructor_alone(tmp_path: Path) -> None:
    said = (("fed in", "SECRET input"), ("printed", "SECRET print"))
    withheld = PropertyResult("claims", 1.0, "failed", "SECRET words", said, True, "it raised")
    late = replace(withheld, claim="also claims", reason="SECRET later", hidden=False, details=())
    first, *others = invented.all_right().exercises
    wrong = Judged((replace(first, properties=(withheld, late)), *others))
    students = [Student("ada", wrong, "Ada", "L"), Student("bob", invented.all_right())]
    course = invented.make_course(tmp_path, students)
    folder = write_report(course, CHAPTER).index.parent
    told = text_of(folder / "hidden-tests.html")
    for words in (
        "Ada L",
        "claims",
        "SECRET words",
        "SECRET input",
        "SECRET print",
        "SECRET later",
    ):
        assert words in told
    assert "bob" not in told
    assert "hidden-tests.html" in (folder / "index.html").read_text("utf-8")
    pages = [*(folder / "feedback").iterdir(), *(course / "feedback").rglob("*.html")]
    assert len(pages) == 4
    assert [page for page in pages if "SECRET" in page.read_text("utf-8")] == []


def test_where_nothing_was_withheld_there_is_no_such_page(tmp_path: Path) -> None:
    course = invented.make_course(tmp_path, [Student("bob", invented.all_right())])
    folder = write_report(course, CHAPTER).index.parent
    assert not (folder / "hidden-tests.html").exists()
    assert "hidden-tests" not in (folder / "index.html").read_text("utf-8")


def test_hostile_words_are_escaped_and_odd_characters_shown(hostile) -> None:
    course, summary = hostile
    folder = course / "reports" / CHAPTER
    assert summary.pages == len(HOSTILE) + 2
    staffs = [folder / "index.html", folder / "hidden-tests.html"]
    for page in [*staffs, *(folder / "feedback").iterdir()]:
        text = page.read_text("utf-8")
        if page.name == "index.html":  # the one script of ours, which sorts the table
            assert text.count(f"<script>{SORT}</script>") == 1
            text = text.replace(f"<script>{SORT}</script>", "")
        assert not re.search(r"<(script|iframe)\b|<img src=x", text), page
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text), page
        tags = Tags(text)
        assert {tag for tag, _ in tags.found} <= set(PLAIN_TAGS.split()), page
        for _, attributes in tags.found:
            assert attributes.keys() <= set(PLAIN_ATTRIBUTES.split()), page
            assert attributes.get("src", "data:image/").startswith("data:image/"), page
            address = attributes.get("href", "index.html")
            assert re.fullmatch(r"(feedback/)?[\w.-]+|#harmful-link", address), page
    assert any("{{ 7 * 191 }}{% raw %}" in text_of(page) for page in folder.rglob("*.html"))
    told = "\n".join(summarize(summary))
    assert "\\x1b[31mred" in told
    assert not re.search("[\x00-\x09\x0b-\x1f\u202e]", told)


def test_pages_lie_in_their_folder_under_names_of_their_own(hostile) -> None:
    course, _ = hostile
    pages = [page.name for page in (course / "reports" / CHAPTER / "feedback").iterdir()]
    assert len({name.casefold() for name in pages}) == len(HOSTILE) + 2
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+\.html", name) for name in pages)
    assert "X.html" in pages
    strays = [file for file in course.parent.rglob("up*") if file.parent.name != "feedback"]
    assert strays == []


@pytest.mark.needs_system("chromium-headless-shell")
def test_nothing_in_a_page_runs_or_asks_the_network(hostile, browser) -> None:
    course, _ = hostile
    folder = course / "reports" / CHAPTER
    context = browser.new_context()
    page = context.new_page()
    events: list[str] = []
    page.expose_function("hacked", lambda: events.append("hacked"))
    page.on("dialog", lambda dialog: (events.append(dialog.message), dialog.dismiss()))
    page.on("pageerror", lambda error: events.append(str(error)))
    page.on("console", lambda message: events.append(message.text))
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    staffs = [folder / "index.html", folder / "hidden-tests.html"]
    pages = [*staffs, *sorted((folder / "feedback").iterdir())]
    for file in pages:
        page.goto(file.as_uri())
        page.wait_for_load_state("networkidle")
        widths = "[document.documentElement.scrollWidth, innerWidth]"
        assert len(set(page.evaluate(widths))) == 1, file
    context.close()
    assert events == []
    assert [url for url in asked if not url.startswith("data:")] == [f.as_uri() for f in pages]


@pytest.mark.needs_system("chromium-headless-shell")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_can_be_read_on_a_phone_and_in_the_dark(reported: Path, browser, scheme: str) -> None:
    folder = reported / "reports" / CHAPTER
    context = browser.new_context(viewport={"width": 390, "height": 800}, color_scheme=scheme)
    page = context.new_page()
    contrast = """selector => [...document.querySelectorAll(selector)].map(box => {
        const light = color => {
            const parts = color.match(/[\\d.]+/g).slice(0, 3).map(v => v / 255);
            const [r, g, b] = parts.map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
            return .2126 * r + .7152 * g + .0722 * b;
        };
        let behind = box;
        while (getComputedStyle(behind).backgroundColor === 'rgba(0, 0, 0, 0)')
            behind = behind.parentElement;
        const two = [getComputedStyle(box).color, getComputedStyle(behind).backgroundColor];
        const [a, b] = two.map(light).sort((x, y) => y - x);
        return (a + .05) / (b + .05);
    })"""
    for name in ("index.html", "feedback/student-01.html"):
        page.goto((folder / name).as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        for selector in ("p", "h1", "h2", "li", "a", "td", "pre", ".verdict", ".reason", ".tag"):
            assert all(ratio >= 4.5 for ratio in page.evaluate(contrast, selector)), selector
        pictures = page.eval_on_selector_all("img", "all => all.map(i => [i.alt, i.naturalWidth])")
        assert all(alt and width for alt, width in pictures)
    context.close()


# nbgrader's own folder


def test_nbgrader_releases_the_pages(course: Path) -> None:
    for folder in (course / "submitted").glob(f"*/{CHAPTER}"):
        (folder / "submission_secret.txt").write_text(f"secret of {folder.parent.name}")
    write_report(course, CHAPTER)
    (course / "exchange").mkdir()
    run_nbgrader(course, "release_feedback", CHAPTER)
    released = list((course / "exchange").glob("*/feedback/*.html"))
    ours = {file.read_bytes() for file in (course / "reports" / CHAPTER / "feedback").iterdir()}
    assert {file.read_bytes() for file in released} == ours


def test_a_page_that_nbgrader_or_somebody_wrote_stays(course: Path) -> None:
    theirs = course / "feedback" / "student-01" / CHAPTER / "numerical-stability.html"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("nbgrader's")
    summary = write_report(course, CHAPTER)
    assert (summary.kept, theirs.read_text()) == (1, "nbgrader's")
    ours = course / "feedback" / "student-02" / CHAPTER / "numerical-stability.html"
    ours.write_text("changed by hand")
    assert write_report(course, CHAPTER).kept == 2
    assert ours.read_text() == "changed by hand"


# Writing


def snapshot(folder: Path) -> dict[Path, tuple[int, bytes]]:
    files = [file for file in folder.rglob("*") if file.is_file()]
    return {file: (file.stat().st_mtime_ns, file.read_bytes()) for file in files if file.suffix}


def test_a_second_report_changes_nothing(course: Path) -> None:
    write_report(course, CHAPTER)
    parts = ("reports", "feedback")
    ours = lambda: {k: v for p in parts for k, v in snapshot(course / p).items()}  # noqa: E731
    before = {k: v for k, v in ours().items() if k.suffix != ".jsonl"}
    write_report(course, CHAPTER)
    assert {k: v for k, v in ours().items() if k.suffix != ".jsonl"} == before


@pytest.mark.parametrize("name", ["grades.csv", "index.html", "class.png"])
def test_what_somebody_changed_is_not_written_over(course: Path, name: str) -> None:
    write_report(course, CHAPTER)
    file = course / "reports" / CHAPTER / name
    file.write_bytes(file.read_bytes() + b"a remark")
    before = snapshot(course)
    with pytest.raises(ReportError, match="has changed since bits report wrote it: move it away"):
        write_report(course, CHAPTER)
    assert snapshot(course) == before
    file.rename(file.with_suffix(".mine"))
    assert write_report(course, CHAPTER).index.exists()


def test_another_persons_folder_is_not_written_over(course: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "notes.txt").write_text("mine")
    (mine / "grades.csv").write_text("mine")
    with pytest.raises(ReportError, match="grades.csv has changed since bits report wrote it"):
        write_report(course, CHAPTER, mine)
    (mine / "grades.csv").unlink()
    assert write_report(course, CHAPTER, mine).index.parent == mine
    assert (mine / "notes.txt").read_text() == "mine"


def test_a_student_who_is_gone_leaves_no_page(course: Path) -> None:
    write_report(course, CHAPTER)
    records = (course / "judged" / CHAPTER / "students").iterdir()
    record = next(file for file in records if b'"student-03"' in file.read_bytes())
    record.unlink()
    write_report(course, CHAPTER)
    assert not (course / "reports" / CHAPTER / "feedback" / "student-03.html").exists()
    assert not list((course / "feedback" / "student-03").rglob("*.html"))
    assert (course / "reports" / CHAPTER / "feedback" / "student-04.html").exists()


@pytest.mark.parametrize("writes", [0, 1, 5, 12, 20])
def test_a_run_that_was_cut_off_is_mended_by_the_next(
    course: Path, monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    write_report(course, CHAPTER)
    expected = {f.name: f.read_bytes() for f in (course / "reports" / CHAPTER).glob("*.csv")}
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as gradebook:
        for submission in gradebook.assignment_submissions(CHAPTER):
            submission.notebooks[0].grades[0].manual_score = 0.5
        gradebook.db.commit()
    real, count = own_files.write_atomically, iter(range(1000))

    def cut_off(target: Path, content: bytes) -> None:
        if next(count) == writes:
            raise KeyboardInterrupt
        real(target, content)

    monkeypatch.setattr(own_files, "write_atomically", cut_off)
    with pytest.raises(KeyboardInterrupt):
        write_report(course, CHAPTER)
    monkeypatch.undo()
    write_report(course, CHAPTER)
    fresh = write_report(course, CHAPTER, course / "elsewhere").index.parent
    for file in fresh.glob("*.csv"):
        assert file.read_bytes() == (course / "reports" / CHAPTER / file.name).read_bytes()
        assert file.read_bytes() != expected[file.name]


def test_two_reports_at_once_are_refused(course: Path) -> None:
    with (
        own_files.own_files(course / "reports" / CHAPTER),
        pytest.raises(ReportError, match="Another run is writing into"),
    ):
        write_report(course, CHAPTER)


# The picture


def test_the_picture_is_one_in_both_formats(hostile, reported: Path) -> None:
    for course in (hostile[0], reported):
        folder = course / "reports" / CHAPTER
        with Image.open(folder / "class.png") as picture:
            assert picture.width == 2200
            assert len(picture.convert("RGB").getcolors(2**24)) > 50
        assert ElementTree.parse(folder / "class.svg").getroot().tag.endswith("}svg")
        index = (folder / "index.html").read_text("utf-8")
        alt = re.search(r'<img class="drawn" src="data:image/svg[^"]+" alt="([^"]+)"', index)[1]
        assert "submissions. Scores: from" in alt


def test_who_wrote_nothing_gave_no_wrong_answer() -> None:
    tally, first = Tally(), invented.all_right().exercises[0]
    stub = PropertyResult("a", 1.0, "failed", "nothing is written here yet: replace the line")
    untouched = replace(first, verdict=Verdict.UNANSWERED, properties=(stub,))
    unreadable = replace(first, verdict=Verdict.MALFORMED, properties=(), message="cut off")
    crashed = replace(first, verdict=Verdict.CRASHED, properties=(), message="it crashed")
    for result in (untouched, unreadable, crashed):
        tally.add(GradebookView().marks("someone", Judged((result,))))
    assert [(wrong.kind, wrong.count) for wrong in tally.wrong_answers()] == [("it crashed", 1)]
    assert tally.telling() == []
    assert tally.unanswered(first.name) == 1


def test_what_waits_for_a_person_is_no_wrong_answer() -> None:
    tally, first = Tally(), invented.all_right().exercises[0]
    held = PropertyResult("a", 1.0, "waiting", "gc in line 1 of cell 2")
    for verdict in (Verdict.WAITING, Verdict.PARTLY):
        waiting = replace(first, verdict=verdict, points=3.0, waiting=0.5, properties=(held,))
        tally.add(GradebookView().marks("someone", Judged((waiting,))))
    assert tally.wrong_answers() == []
    assert tally.waiting == 2
    assert tally.telling() == []
    assert [(share.passed, share.waiting) for share in tally.exercises()] == [(0, 1)]
    picture = draw_class(tally, "Title", str)
    assert "More points wait for a person in 2 submissions." in picture.alt
    assert b"waits for a person" in picture.svg
    assert b"waits for a person" not in draw_class(_tally_of(first), "Title", str).svg


def _tally_of(result: ExerciseResult) -> Tally:
    tally = Tally()
    tally.add(GradebookView().marks("someone", Judged((result,))))
    return tally


# What others wrote


def test_odd_characters_are_shown_and_ordinary_ones_left_alone() -> None:
    for text in ("naïve 名前 עברית 👩‍🚀 می‌روم", "a\tb\nc", "x̄"):
        assert visible(text) == text
    assert visible("a\x1b[0m\u202eb\u200bc\ufeff\ud800\u2028") == (
        "a\\x1b[0m\\u202eb\\u200bc\\ufeff\\ud800\\u2028"
    )
    assert visible("x" * 30, 10) == "xxxxxxxxxx… (20 characters more)"
    assert printed("\x1b[31mred\x1b[0m\r50 %\r\ndone\x07") == "red\n50 %\ndone\\x07"


def test_markdown_keeps_its_form_and_loses_what_could_do_something() -> None:
    shown = render_markdown(
        "# Why\n\n**because** `x<y` [a](https://localhost/) [b](javascript:alert(1)) "
        "![p](http://localhost/p.png) <script>s</script> <a onclick=x>t</a>\n\n| a |\n|---|\n| 1 |"
    )
    assert "<strong>because</strong> <code>x&lt;y</code>" in shown
    assert '<a href="https://localhost/" rel="noopener noreferrer nofollow">a</a>' in shown
    assert "<td>1</td>" in shown
    assert not re.search(r"<script|<img|javascript:|<[^>]*onclick", shown)
    assert "20,000 characters" in render_markdown("*" * 30_000)
    assert len(render_markdown("> " * 9000 + "[" * 9000)) < 200_000


def test_only_pictures_are_embedded() -> None:
    assert embed_picture("image/png", PIXEL) == f"data:image/png;base64,{PIXEL}"
    for kind, encoded in (
        ("image/jpeg", PIXEL),
        ("image/svg+xml", PIXEL),
        ("image/png", "not base64"),
        ("image/png", base64.b64encode(b"<script>").decode()),
        ("image/png", PIXEL[:60]),
        ("image/png", "A" * 4_000_000),
        ("image/png", _huge_picture()),
    ):
        assert embed_picture(kind, encoded) is None


def _huge_picture() -> str:
    stream = io.BytesIO()
    Image.new("1", (60_000, 4_000)).save(stream, "PNG")
    assert stream.tell() < 100_000
    return base64.b64encode(stream.getvalue()).decode()


# The command


def test_the_command_tells_where_the_report_is(
    course: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(course)
    result = CliRunner().invoke(main, ["report", CHAPTER])
    assert result.exit_code == 0, result.output
    assert str(course / "reports" / CHAPTER / "index.html") in result.output
    assert "8 judged, 1 with nothing judged" in result.output


def test_there_is_nothing_to_report_before_grading(course: Path) -> None:
    shutil.rmtree(course / "judged")
    with pytest.raises(ReportError, match=f"has been graded yet: run bits grade {CHAPTER}"):
        write_report(course, CHAPTER)
    assert not (course / "reports").exists()
    with pytest.raises(GradingError, match="There is no assignment 99-other"):
        write_report(course, "99-other")
