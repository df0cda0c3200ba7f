"""An instructor in JupyterLab: the chapter, a judged submission, a score by hand, feedback."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from classroom import (
    Submission,
    exercises_of,
    full_points,
    hand_in,
    solved,
    to_bytes,
    without_demos,
)
from course_files import COURSE, find_cell, release, source, without_marks
from lab_server import TOKEN, copy_course, serve
from nbformat.v4 import new_code_cell, new_markdown_cell, new_raw_cell
from nbgrader.api import Gradebook
from playwright.sync_api import expect
from test_disarmed_texts import DEAD

from helpers.grading.records.class_list import read_class

pytestmark = [
    pytest.mark.needs_system("chromium-headless-shell"),
    pytest.mark.needs_system("bubblewrap"),
]

CHAPTER = "08-numerical-stability"
MOST = sum(exercise.points for exercise in exercises_of(CHAPTER))
SCREENSHOTS = COURSE.root / "build" / "screenshots"
SECONDS = 60


# What a student may write to whoever grades it; each sets a mark if a browser runs it.
MARK = "document.documentElement.dataset.marked = 1"
HOSTILE = [
    new_raw_cell(f"<script>{MARK}</script>"),
    new_markdown_cell(f"<img src=x onerror='{MARK}'><script>{MARK}</script>[a](javascript:{MARK})"),
    *(
        new_markdown_cell(text.replace("script:x", f"script:{MARK}").replace("=x", f"='{MARK}'"))
        for text in DEAD
    ),
    new_markdown_cell("Here it is: ![a](attachment:gone.png)"),
    new_markdown_cell("<details><summary>A proof</summary>\n\n**so** $x$\n\n</details>"),
    new_code_cell(
        "from IPython.display import HTML, Javascript, display\n"
        f"display(HTML('<script>{MARK}</script>'), Javascript('{MARK}'))\n"
        f'print("</pre><script>{MARK}</script>")'
    ),
]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a course in which one student's work was graded and reported on."""
    root = copy_course(tmp_path_factory.mktemp("clone"))
    deserved = full_points(exercises_of(CHAPTER))
    notebook = solved(CHAPTER)
    for cell in notebook.cells:
        cell.source = without_marks(cell.source)
    notebook.cells += HOSTILE
    hand_in([Submission("student-one", to_bytes(notebook), deserved)], CHAPTER, root / "course")
    run_bits(root, "grade", CHAPTER)
    run_bits(root, "report", CHAPTER)
    return root


def run_bits(root: Path, *arguments: str) -> None:
    command = [Path(sys.executable).with_name("bits"), *arguments]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def lab(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serve("staff", root, tmp_path_factory.mktemp("home")) as address:
        yield address


@pytest.fixture
def page(browser, lab: str) -> Iterator[object]:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.set_default_timeout(SECONDS * 1000)
    page.goto(f"{lab}/lab?reset&token={TOKEN}")  # without the tabs of the test before
    yield page
    page.close()


@pytest.fixture
def formgrader(page):
    """Return formgrader's own page, opened from JupyterLab's menu as a person would."""
    page.get_by_role("menuitem", name="Nbgrader", exact=True).click()
    menu = page.locator("#jp-mainmenu-nbgrader")
    menu.get_by_text("Formgrader", exact=True).click()
    return page.frame_locator("iframe.jp-IFrame, iframe[src*=formgrader]").first


def take_screenshot(page, name: str) -> None:
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"{name}.png")


def test_formgrader_lists_the_chapter_and_shows_a_graded_submission(page, formgrader) -> None:
    formgrader.get_by_role("link", name=CHAPTER, exact=True).first.wait_for()
    take_screenshot(page, "formgrader")
    formgrader.get_by_role("link", name="Manual Grading").click()
    formgrader.get_by_role("link", name=CHAPTER, exact=True).first.click()
    formgrader.get_by_role("link", name="numerical-stability").first.click()
    formgrader.get_by_role("link", name="Submission #1").click()
    formgrader.get_by_text("Exercise 1 ·").first.wait_for()
    points = [exercise.points for exercise in exercises_of(CHAPTER)]
    # A box is there before formgrader has fetched the automatic score that it shows.
    scores = formgrader.locator("input.score[placeholder]")
    expect(scores).to_have_count(len(points), timeout=SECONDS * 1000)
    assert [float(box.get_attribute("placeholder")) for box in scores.all()] == points
    assert_nothing_ran(page)
    formgrader.get_by_text("[the attached picture gone.png is missing]").wait_for()
    proof = formgrader.locator("details", has_text="A proof")
    expect(proof.locator("strong")).to_have_text("so")
    assert_no_link_of_the_student_is_live(formgrader)
    scores.first.evaluate("box => box.scrollIntoView({block: 'center'})")
    take_screenshot(page, "formgrader-submission")


def assert_no_link_of_the_student_is_live(formgrader) -> None:
    links = formgrader.locator(".nbgrader_cell a[href], .text_cell a[href], .bits-text a[href]")
    schemes = set(links.evaluate_all("all => all.map(link => link.protocol)"))
    assert schemes <= {"http:", "https:", "mailto:"}
    assert links.count()


def assert_nothing_ran(page) -> None:
    for frame in page.frames:
        assert frame.evaluate("document.documentElement.dataset.marked") is None


def test_a_score_given_by_hand_outlives_a_regrade(page, formgrader, root: Path) -> None:
    formgrader.get_by_role("link", name="Manual Grading").click()
    formgrader.get_by_role("link", name=CHAPTER, exact=True).first.click()
    formgrader.get_by_role("link", name="numerical-stability").first.click()
    formgrader.get_by_role("link", name="Submission #1").click()
    # Only once formgrader has written the automatic score into a box does it listen to the box.
    first = formgrader.locator("input.score[placeholder]").first
    first.wait_for()
    # The tick that it shows fades, and on a busy machine nobody sees it. The answer stays.
    with page.expect_response(lambda r: "/formgrader/api/grade/" in r.url and r.ok):
        first.fill("1.5")
        first.press("Tab")
    run_bits(root, "grade", CHAPTER, "--force")
    with Gradebook(f"sqlite:///{root / 'course' / 'gradebook.db'}") as gradebook:
        submission = gradebook.find_submission(CHAPTER, "student-one")
        grades = {grade.name: grade for grade in submission.notebooks[0].grades}
        first_exercise = grades[f"test-{exercises_of(CHAPTER)[0].name}"]
        assert (first_exercise.manual_score, first_exercise.auto_score) == (1.5, 4.0)
        assert submission.score == MOST - 4.0 + 1.5
        first_exercise.manual_score = None
        gradebook.db.commit()


def test_formgrader_lists_the_students_score(page, formgrader) -> None:
    formgrader.get_by_role("link", name="Manage Students").click()
    formgrader.locator("a[href$='/manage_students/student-one']").first.click()
    row = formgrader.locator("tr", has_text=CHAPTER)
    expect(row).to_contain_text(f"{MOST:g} / {MOST:g}", timeout=SECONDS * 1000)
    take_screenshot(page, "formgrader-student")


def test_formgrader_lists_accepted_points_with_the_others(page, formgrader, root: Path) -> None:
    first = exercises_of(CHAPTER)[0]
    code = f"import sys; sys._getframe()\n{find_cell(source(CHAPTER), first.name).source}"
    notebook = without_demos(solved(CHAPTER, {first.name: code}))
    hand_in([Submission("student-two", to_bytes(notebook), {})], CHAPTER, root / "course")
    run_bits(root, "grade", CHAPTER)
    (waits,) = [e for e in read_class(root / "course", CHAPTER) if e.student == "student-two"]
    assert 0 < waits.judged.waiting < first.points
    formgrader.get_by_role("link", name="Manage Students").click()
    link = formgrader.locator("a[href$='/manage_students/student-two']").first
    link.click()
    row = formgrader.locator("tr", has_text=CHAPTER)
    expect(row).to_contain_text(f"{waits.judged.points:g} / {MOST:g}", timeout=SECONDS * 1000)
    run_bits(root, "review", CHAPTER, "--accept", "--student", "student-two")
    formgrader.get_by_role("link", name="Manage Students").click()
    link.click()
    expect(row).to_contain_text(f"{MOST:g} / {MOST:g}", timeout=SECONDS * 1000)


def test_the_feedback_page_opens(page, lab: str, root: Path) -> None:
    (feedback,) = (root / "course" / "feedback" / "student-one").glob("*/*.html")
    path = feedback.relative_to(root / "course").as_posix()
    page.goto(f"{lab}/files/{path}?token={TOKEN}")
    page.get_by_text(f"{MOST:g} of {MOST:g}").first.wait_for()
    assert_nothing_ran(page)
    take_screenshot(page, "feedback")


@pytest.mark.parametrize(
    ("kind", "verdict"),
    [("blank", "failed"), ("solved", "Success! Your notebook passes all the tests.")],
)
def test_the_validate_button_tells_right_from_wrong(
    page, lab: str, root: Path, kind: str, verdict: str
) -> None:
    notebook = release(CHAPTER) if kind == "blank" else solved(CHAPTER)
    (root / "course" / f"{kind}.ipynb").write_bytes(to_bytes(without_demos(notebook)))
    page.goto(f"{lab}/lab/tree/{kind}.ipynb?reset&token={TOKEN}")
    page.get_by_role("button", name="Validate").click()
    told = page.locator(".nbgrader-ValidationMessage, .jp-Dialog-body")
    told.get_by_text(verdict).first.wait_for()
    take_screenshot(page, f"validate-{kind}")
