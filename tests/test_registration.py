"""Registration: the gradebook follows the source, and no grade is lost on the way."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from course_files import COURSE, find_cell, grade_id, release, source
from nbformat.notebooknode import NotebookNode
from nbgrader.api import Gradebook, MissingEntry

from helpers.grading.errors import RegistrationError
from helpers.grading.judge.sanitize import comparable
from helpers.grading.records.registration import open_course, register

CHAPTER = "08-numerical-stability"
NOTEBOOK = COURSE.source(CHAPTER).stem

# nbgrader's own, on adding any submission.
pytestmark = pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")


@pytest.fixture(scope="module")
def registered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A course of which nbgrader has made the gradebook; not to be written to."""
    course = copy_course(tmp_path_factory.mktemp("registered") / "course")
    register(course, CHAPTER)
    return course


@pytest.fixture
def course(registered: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(registered, tmp_path / "course"))


def copy_course(course: Path) -> Path:
    shutil.copytree(COURSE.source(CHAPTER).parent, course / "source" / CHAPTER)
    shutil.copy(COURSE.config_file, course)
    return course


def edit(course: Path, change: Callable[[NotebookNode], object]) -> None:
    """Change the source notebook in ``course``."""
    file = course / "source" / CHAPTER / f"{NOTEBOOK}.ipynb"
    notebook = nbformat.read(file, as_version=4)
    change(notebook)
    nbformat.write(notebook, file)


def open_gradebook(course: Path) -> Gradebook:
    return Gradebook(open_course(course).db_url, "bits-and-gradients")


def state(course: Path) -> dict[str, tuple[str, int]]:
    files = (file for file in sorted(course.rglob("*")) if file.is_file())
    return {
        str(file.relative_to(course)): (
            hashlib.sha256(file.read_bytes()).hexdigest(),
            file.stat().st_mtime_ns,
        )
        for file in files
    }


# What comes back


def test_the_assignment_is_what_source_has(course: Path) -> None:
    assignment = register(course, CHAPTER)
    ours = [cell for cell in source(CHAPTER).cells if grade_id(cell)]
    released = release(CHAPTER)
    assert (assignment.name, assignment.notebook) == (CHAPTER, NOTEBOOK)
    assert assignment.kernelspec == source(CHAPTER).metadata.kernelspec
    assert assignment.data == {}
    assert len(assignment.cells) == len(ours) > 10
    for cell, in_source in zip(assignment.cells, ours, strict=True):
        about = in_source.metadata.nbgrader
        assert (cell.name, cell.cell_type) == (about.grade_id, in_source.cell_type)
        assert (cell.grade, cell.solution) == (about.grade, about.solution)
        assert cell.locked is not about.solution
        assert cell.points == about.get("points", 0)
        # A solution's text is the stub; a test's has its hidden tests.
        expected = find_cell(released, cell.name) if about.solution else in_source
        assert cell.source == expected.source
    assert any("BEGIN HIDDEN TESTS" in cell.source for cell in assignment.cells)
    assert not any("BEGIN SOLUTION" in cell.source for cell in assignment.cells)


def test_the_demos_are_the_releases_other_code_cells(course: Path) -> None:
    demos = register(course, CHAPTER).demos
    others = [c for c in release(CHAPTER).cells if c.cell_type == "code" and not grade_id(c)]
    assert demos == {comparable(cell.source) for cell in others}
    assert len(demos) > 10


def test_data_files_come_along_and_ignored_ones_do_not(course: Path) -> None:
    folder = course / "source" / CHAPTER
    files = ["table.csv", "more/deep.bin", ".hidden", "__pycache__/x.pyc", "draft.pyc"]
    for name in [*files, ".ipynb_checkpoints/x-checkpoint.ipynb"]:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(name.encode())
    data = register(course, CHAPTER).data
    assert data == {"table.csv": b"table.csv", "more/deep.bin": b"more/deep.bin"}


def test_the_gradebook_has_what_comes_back(course: Path) -> None:
    assignment = register(course, CHAPTER)
    with open_gradebook(course) as gradebook:
        notebook = gradebook.find_notebook(NOTEBOOK, CHAPTER)
        recorded = {cell.name: cell for cell in notebook.source_cells}
        points = {cell.name: cell.max_score for cell in notebook.grade_cells}
        solutions = {cell.name for cell in notebook.solution_cells}
        assert list(recorded) == [cell.name for cell in assignment.cells]
        for cell in assignment.cells:
            there = recorded[cell.name]
            assert (there.source, there.checksum) == (cell.source, cell.checksum)
            assert (there.locked, there.cell_type) == (cell.locked, cell.cell_type)
            assert points.get(cell.name) == (cell.points if cell.grade else None)
            assert (cell.name in solutions) == cell.solution


# When it writes


def test_a_fresh_clone_gets_a_gradebook_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Also where nbgrader's programs are not on the path, and from any folder."""
    course = copy_course(tmp_path / "course")
    before = state(course)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    register(course, CHAPTER)
    after = state(course)
    assert after.pop("gradebook.db")
    assert after == before
    assert not list(elsewhere.iterdir())
    assert Path.cwd() == elsewhere
    assert capfd.readouterr() == ("", "")


def test_a_second_time_writes_nothing(course: Path) -> None:
    first = register(course, CHAPTER)
    before = state(course)
    (course / "gradebook.db").chmod(0o444)
    again = register(course, CHAPTER)
    assert state(course) == before
    assert (again, again.digest) == (first, first.digest)


def test_a_relative_course_is_found_and_a_relative_address_is_the_courses(
    course: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = register(course, CHAPTER)
    config = course / "nbgrader_config.py"
    config.write_text(config.read_text() + '\nc.CourseDirectory.db_url = "sqlite:///other.db"\n')
    shutil.move(course / "gradebook.db", course / "other.db")
    monkeypatch.chdir(course.parent)
    assert register(Path("course"), CHAPTER) == expected
    assert not (course / "gradebook.db").exists()
    assert not Path("other.db").exists()


def change_text(notebook: NotebookNode) -> None:
    find_cell(notebook, "test-softmax").source += "\n# changed"


def change_points(notebook: NotebookNode) -> None:
    find_cell(notebook, "test-softmax").metadata.nbgrader.points = 7


def change_name(notebook: NotebookNode) -> None:
    find_cell(notebook, "needed-1").metadata.nbgrader.grade_id = "needed-one"


def change_order(notebook: NotebookNode) -> None:
    first = next(number for number, cell in enumerate(notebook.cells) if grade_id(cell))
    notebook.cells.append(notebook.cells.pop(first))


def change_kernel(notebook: NotebookNode) -> None:
    notebook.metadata.kernelspec.display_name = "Another Python"


def add_cell(notebook: NotebookNode) -> None:
    cell = nbformat.v4.new_code_cell("import cmath")
    grading = {"schema_version": 3, "grade": False, "solution": False, "locked": True}
    cell.metadata.nbgrader = grading | {"grade_id": "needed-2", "task": False}
    notebook.cells.append(cell)


CHANGES = [change_text, change_points, change_name, change_order, change_kernel, add_cell]


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_source_is_registered_anew(course: Path, change: Callable) -> None:
    old = register(course, CHAPTER)
    edit(course, change)
    new = register(course, CHAPTER)
    assert new != old
    before = state(course)
    assert register(course, CHAPTER) == new
    assert state(course) == before
    with open_gradebook(course) as gradebook:
        cells = gradebook.find_notebook(NOTEBOOK, CHAPTER).source_cells
        assert [cell.name for cell in cells] == [cell.name for cell in new.cells]


def test_an_interrupted_registration_is_finished(course: Path) -> None:
    expected = register(course, CHAPTER)
    with open_gradebook(course) as gradebook:
        notebook = gradebook.find_notebook(NOTEBOOK, CHAPTER)
        for cell in notebook.source_cells[5:]:
            gradebook.db.delete(cell)
        gradebook.db.commit()
    assert register(course, CHAPTER) == expected
    with open_gradebook(course) as gradebook:
        cells = gradebook.find_notebook(NOTEBOOK, CHAPTER).source_cells
        assert len(cells) == len(expected.cells)


# When there are submissions


@pytest.fixture
def graded(course: Path) -> Path:
    """A course with one submission that a person has graded and commented on."""
    register(course, CHAPTER)
    with open_gradebook(course) as gradebook:
        gradebook.update_or_create_student("ada")
        gradebook.add_submission(CHAPTER, "ada")
        for grade in gradebook.find_submission(CHAPTER, "ada").notebooks[0].grades:
            grade.auto_score, grade.manual_score, grade.extra_credit = 1.0, 2.0, 0.5
        for comment in gradebook.find_submission(CHAPTER, "ada").notebooks[0].comments:
            comment.manual_comment = f"on {comment.name}"
        gradebook.db.commit()
    return course


def grades(course: Path) -> tuple[dict, dict]:
    with open_gradebook(course) as gradebook:
        (notebook,) = gradebook.find_submission(CHAPTER, "ada").notebooks
        scores = {g.name: (g.auto_score, g.manual_score, g.extra_credit) for g in notebook.grades}
        return scores, {c.name: c.manual_comment for c in notebook.comments}


@pytest.mark.parametrize("change", [change_text, change_points])
def test_changed_cells_keep_every_grade(graded: Path, change: Callable) -> None:
    before = grades(graded)
    assert before[0]["test-softmax"] == (1.0, 2.0, 0.5)
    assert before[1]["softmax"] == "on softmax"
    edit(graded, change)
    new = {cell.name: cell for cell in register(graded, CHAPTER).cells}["test-softmax"]
    with open_gradebook(graded) as gradebook:
        cell = gradebook.find_source_cell("test-softmax", NOTEBOOK, CHAPTER)
        assert cell.source == new.source
        assert gradebook.find_grade_cell("test-softmax", NOTEBOOK, CHAPTER).max_score == new.points
    assert grades(graded) == before


@pytest.mark.parametrize("change", [change_order, change_kernel])
def test_what_the_gradebook_does_not_keep_costs_no_write(graded: Path, change: Callable) -> None:
    edit(graded, change)
    before = state(graded)
    assignment = register(graded, CHAPTER)
    assert state(graded) == before
    now = nbformat.read(graded / "source" / CHAPTER / f"{NOTEBOOK}.ipynb", as_version=4)
    assert [cell.name for cell in assignment.cells] == [
        grade_id(c) for c in now.cells if grade_id(c)
    ]
    assert assignment.kernelspec == now.metadata.kernelspec


@pytest.mark.parametrize("change", [change_name, add_cell])
def test_cells_are_not_added_or_removed_under_submissions(graded: Path, change: Callable) -> None:
    edit(graded, change)
    before = state(graded)
    with pytest.raises(
        RegistrationError, match="has submissions of 08-numerical-stability"
    ) as told:
        register(graded, CHAPTER)
    assert "needed-" in str(told.value)
    assert str(graded / "gradebook.db") in str(told.value)
    assert state(graded) == before


def test_a_renamed_notebook_with_submissions_is_refused(graded: Path) -> None:
    folder = graded / "source" / CHAPTER
    shutil.move(folder / f"{NOTEBOOK}.ipynb", folder / "renamed.ipynb")
    before = state(graded)
    with pytest.raises(RegistrationError, match="has submissions"):
        register(graded, CHAPTER)
    assert state(graded) == before


def test_a_renamed_notebook_without_submissions_replaces_the_old_one(course: Path) -> None:
    folder = course / "source" / CHAPTER
    shutil.move(folder / f"{NOTEBOOK}.ipynb", folder / "renamed.ipynb")
    assert register(course, CHAPTER).notebook == "renamed"
    with open_gradebook(course) as gradebook, pytest.raises(MissingEntry):
        gradebook.find_notebook(NOTEBOOK, CHAPTER)


# What goes wrong is said in one sentence


def is_one_sentence(error: RegistrationError) -> bool:
    return "\n" not in str(error) and str(error).endswith(".")


@pytest.mark.parametrize("name", ["09-unknown", "", "..", "*", "08-numerical-stability/"])
def test_an_unknown_assignment_is_told_with_the_known_ones(course: Path, name: str) -> None:
    before = state(course)
    with pytest.raises(RegistrationError, match=f"there are: {CHAPTER}.") as told:
        register(course, name)
    assert is_one_sentence(told.value)
    assert state(course) == before


def test_two_notebooks_are_not_one_assignment(course: Path) -> None:
    shutil.copy(COURSE.source(CHAPTER), course / "source" / CHAPTER / "another.ipynb")
    with pytest.raises(RegistrationError, match="several notebooks"):
        register(course, CHAPTER)


def unbalance(notebook: NotebookNode) -> None:
    cell = find_cell(notebook, "softmax")
    cell.source = cell.source.replace("### END SOLUTION", "")


def make_task(notebook: NotebookNode) -> None:
    cell = nbformat.v4.new_markdown_cell("Discuss.")
    grading = {"schema_version": 3, "grade": False, "solution": False, "locked": True}
    cell.metadata.nbgrader = grading | {"grade_id": "talk", "task": True, "points": 3}
    notebook.cells.append(cell)


@pytest.mark.parametrize(
    ("change", "words"),
    [(unbalance, "no end solution statement"), (make_task, "task cells (talk)")],
)
def test_a_source_that_nbgrader_or_the_judge_cannot_take(
    tmp_path: Path, change: Callable, words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    course = copy_course(tmp_path / "course")
    edit(course, change)
    before = state(course)
    with pytest.raises(RegistrationError) as told:
        register(course, CHAPTER)
    assert words in str(told.value)
    assert is_one_sentence(told.value)
    assert state(course) == before
    assert capfd.readouterr() == ("", "")


def test_a_gradebook_that_is_none_is_left_as_it_is(course: Path) -> None:
    (course / "gradebook.db").write_bytes(b"not a database, but somebody's file" * 100)
    before = state(course)
    with pytest.raises(RegistrationError, match="cannot be read") as told:
        register(course, CHAPTER)
    assert is_one_sentence(told.value)
    assert state(course) == before


def test_a_configuration_that_is_no_python_is_told(course: Path) -> None:
    (course / "nbgrader_config.py").write_text("c = get_config(\n")
    with pytest.raises(RegistrationError, match="nbgrader_config.py cannot be read") as told:
        register(course, CHAPTER)
    assert is_one_sentence(told.value)
