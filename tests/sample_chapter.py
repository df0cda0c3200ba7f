"""A small chapter for the tests of the book: two notebooks as the course's builder writes them."""

import json
import shutil
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

REPOSITORY_ROOT = Path(__file__).resolve().parents[1]
NAME = "08-numerical-stability"
FILE = "numerical-stability.ipynb"
STUB = "def softmax(logits, dim):\n    raise NotImplementedError('softmax')"
SOLUTION = (
    "def softmax(logits, dim):\n    ### BEGIN SOLUTION\n"
    "    return logits.softmax(dim)  # the reference\n    ### END SOLUTION"
)
VISIBLE_CHECK = 'check = Check("softmax")\n# Hidden tests run here when your work is graded.'
HIDDEN_TEST = "check.equal(got, 'a secret of the graders')"


def printed(text: str, stream: str = "stdout") -> NotebookNode:
    """Return an output of ``print``."""
    return new_output("stream", name=stream, text=text)


def displayed(**forms: str) -> NotebookNode:
    """Return a displayed output; ``text_html="..."`` stands for the MIME type text/html."""
    data = {name.replace("_", "/", 1): value for name, value in forms.items()}
    return new_output("display_data", data=data)


def graded_cell(source: str, grade_id: str, *, solution: bool) -> NotebookNode:
    """Return a solution cell, or the test cell of one, with nbgrader's metadata."""
    grading = {
        "grade_id": grade_id,
        "solution": solution,
        "grade": not solution,
        "locked": not solution,
        "schema_version": 3,
        "task": False,
    }
    if not solution:
        grading["points"] = 4
    return new_code_cell(source, metadata={"nbgrader": grading, "tags": ["exercise"]})


def exercise_card(text: str) -> NotebookNode:
    """Return an exercise's card."""
    return new_markdown_cell(text, metadata={"bits": {"exercise": "softmax"}})


def source_cells() -> list[NotebookNode]:
    """Return the cells of a source notebook with one exercise, run."""
    hidden = f"### BEGIN HIDDEN TESTS\n{HIDDEN_TEST}\n### END HIDDEN TESTS"
    check = graded_cell(f"{VISIBLE_CHECK}\n{hidden}", "test-softmax", solution=False)
    check.outputs = [printed("a secret property holds")]
    return [
        new_code_cell("%pip install a-package-for-colab", metadata={"tags": ["setup"]}),
        new_markdown_cell("# Numerical stability\n\nThe sum $\\sum_i e^{x_i}$ overflows."),
        new_code_cell("print(1)", metadata={"tags": ["demo"]}, outputs=[printed("1\n")]),
        exercise_card("### Softmax\n\n4 points · 10 minutes · difficulty 1 of 3"),
        graded_cell(SOLUTION, "softmax", solution=True),
        check,
    ]


def release_cells() -> list[NotebookNode]:
    """Return the cells that a student gets of the same chapter."""
    cells = source_cells()
    cells[4].source = STUB
    cells[5].source = VISIBLE_CHECK
    for cell in cells:
        if cell.cell_type == "code":
            cell.outputs = []
    return cells


def write_chapter(
    course: Path,
    source: list[NotebookNode] | None = None,
    release: list[NotebookNode] | None = None,
    name: str = NAME,
) -> None:
    """Write a chapter's two notebooks below ``course``."""
    for folder, cells in (
        ("source", source_cells() if source is None else source),
        ("release", release_cells() if release is None else release),
    ):
        path = course / folder / name / f"{name[3:]}.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        notebook = new_notebook(cells=cells, metadata={"bits": {"chapter": name}})
        nbformat.write(notebook, path)


def write_book(root: Path, pages: dict[str, str], **settings: str) -> None:
    """Write a book of ``pages``, by file name, with the repository's own ``book.toml``.

    ``settings`` replaces the value of a key of that file.
    """
    folder = root / "course" / "book"
    folder.mkdir(parents=True)
    shutil.copytree(REPOSITORY_ROOT / "course" / "book" / "theme", folder / "theme")
    for page, text in pages.items():
        (folder / page).write_text(text, encoding="utf-8")
    entries = "".join(f"- [{page.removesuffix('.md')}]({page})\n" for page in pages)
    (folder / "SUMMARY.md").write_text(f"# Summary\n\n{entries}", encoding="utf-8")
    lines = (REPOSITORY_ROOT / "book.toml").read_text(encoding="utf-8").splitlines()
    for key, value in settings.items():
        entry = key.replace("_", "-")
        (index,) = (i for i, line in enumerate(lines) if line.startswith(f"{entry} = "))
        lines[index] = f"{entry} = {json.dumps(value)}"
    (root / "book.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
