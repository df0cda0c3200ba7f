"""What editors and services do to a whole notebook, and what students do to its cells."""

from __future__ import annotations

import ast
import copy
import random
from collections.abc import Callable

from classroom import as_colab_saves
from course_files import grade_id
from nbformat import v4
from nbformat.notebooknode import NotebookNode

Layout = Callable[[NotebookNode], NotebookNode]


def _code_cells(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def _answers(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("solution")]


def _each_answer(change: Callable[[str], str]) -> Layout:
    def lay_out(notebook: NotebookNode) -> NotebookNode:
        for cell in _answers(notebook):
            cell.source = change(cell.source)
        return notebook

    return lay_out


def with_outputs(notebook: NotebookNode) -> NotebookNode:
    for cell in _code_cells(notebook):
        cell.outputs = [
            v4.new_output("stream", name="stdout", text="epoch 1: loss 0.123\n" * 2000),
            v4.new_output(
                "display_data", data={"image/png": "iVBORw0KGgo=" * 5000, "text/plain": "<Figure>"}
            ),
            v4.new_output("error", ename="KeyError", evalue="'x'", traceback=["\x1b[31mKeyError"]),
        ]
    return notebook


def with_counts_out_of_order(notebook: NotebookNode) -> NotebookNode:
    counts = random.Random(1).sample(range(1, 500), len(notebook.cells))
    for cell, count in zip(notebook.cells, counts, strict=True):
        if cell.cell_type == "code":
            cell.execution_count = count
    return notebook


def as_vs_code_saves(notebook: NotebookNode) -> NotebookNode:
    notebook.metadata = NotebookNode(
        kernelspec={"display_name": ".venv", "language": "python", "name": "python3"},
        language_info={"name": "python", "version": "3.11.7", "file_extension": ".py"},
        vscode={"interpreter": {"hash": "0" * 64}},
        orig_nbformat=4,
    )
    for cell in notebook.cells:
        cell.metadata["vscode"] = {"languageId": "python"}
        cell.metadata["execution"] = {"iopub.execute_input": "2026-11-22T10:00:00Z"}
    return notebook


def as_kaggle_saves(notebook: NotebookNode) -> NotebookNode:
    notebook.metadata["kaggle"] = {"accelerator": "nvidiaTeslaT4", "isInternetEnabled": True}
    for cell in notebook.cells:
        cell.metadata |= {"_cell_guid": "b1076dfc", "_uuid": "8f2839f25d", "trusted": True}
        cell.metadata |= {"collapsed": False, "jupyter": {"outputs_hidden": True}}
    return notebook


def with_notes(notebook: NotebookNode) -> NotebookNode:
    cells = []
    for number, cell in enumerate(notebook.cells):
        note = v4.new_markdown_cell(f"## Notizen {number} 📝\n$\\sum_i x_i$ ![a](attachment:a.png)")
        note["attachments"] = {"a.png": {"image/png": "iVBORw0KGgo="}}
        cells += [note, cell, v4.new_raw_cell("---\nraw: yes\n"), v4.new_code_cell("")]
    notebook.cells = cells
    return notebook


def split_answers(notebook: NotebookNode) -> NotebookNode:
    """Move the imports and the helpers of each answer to a cell of their own above it."""
    cells = []
    for cell in notebook.cells:
        if cell in _answers(notebook):
            *above, last = ast.parse(cell.source).body
            lines = cell.source.split("\n")
            start = min([last.lineno, *(d.lineno for d in getattr(last, "decorator_list", []))])
            if above:
                cells.append(v4.new_code_cell("\n".join(lines[: start - 1])))
                cell.source = "\n".join(lines[start - 1 :])
        cells.append(cell)
    notebook.cells = cells
    return notebook


def answered_below(notebook: NotebookNode) -> NotebookNode:
    """Leave a broken version in the course's cell; the right one follows in a cell of one's own."""
    cells = []
    for cell in notebook.cells:
        cells.append(cell)
        if cell in _answers(notebook):
            cells.append(v4.new_code_cell("# second attempt, this one works\n" + cell.source))
            cell.source = _broken(cell.source)
    notebook.cells = cells
    return notebook


def answered_above(notebook: NotebookNode) -> NotebookNode:
    """Keep a broken version in a cell of its own above the answer."""
    cells = []
    for cell in notebook.cells:
        if cell in _answers(notebook):
            cells.append(v4.new_code_cell("# first attempt\n" + _broken(cell.source)))
        cells.append(cell)
    notebook.cells = cells
    return notebook


def _broken(code: str) -> str:
    """Return the answer with functions that return nothing."""
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.body = ast.parse("return None  # not yet").body
    return ast.unparse(ast.fix_missing_locations(tree))


def with_needed_cells_again(notebook: NotebookNode) -> NotebookNode:
    """Copy the cells that the course needs, as those do who lost track of what was run."""
    cells = []
    for cell in notebook.cells:
        cells.append(cell)
        if grade_id(cell).startswith("needed-"):
            cells.append(v4.new_code_cell(cell.source))
    notebook.cells = cells
    return notebook


def with_trials_below(notebook: NotebookNode) -> NotebookNode:
    """Put into one cell at the end all that was tried."""
    tries = [f"print({ast.parse(cell.source).body[-1].name})" for cell in _answers(notebook)]
    notebook.cells.append(v4.new_code_cell("\n".join(tries)))
    return notebook


def with_answers_again(notebook: NotebookNode) -> NotebookNode:
    """Define each answer twice in its cell, the same each time."""
    return _each_answer(_twice)(notebook)


def _twice(code: str) -> str:
    return f"{code}\n\n\n# once more, to be sure\n{code}"


def with_tabs(code: str) -> str:
    lines = []
    for line in code.split("\n"):
        stripped = line.lstrip(" ")
        indent = len(line) - len(stripped)
        lines.append("\t" * (indent // 4) + " " * (indent % 4) + stripped)
    return "\n".join(lines)


def with_long_lines(code: str) -> str:
    return f"# {'why ' * 400}\n{code}\nnumbers = [{', '.join(map(str, range(900)))}]"


def commented(code: str) -> str:
    head = "# Aufgabe gelöst von Zoë 🙋 — 作业\n#%% not a cell\n# In[12]:\n"
    return head + code + "\n# print('debug')\n# TODO ask on Monday\n"


LAYOUTS: dict[str, Layout] = {
    "outputs are kept": with_outputs,
    "counts are out of order": with_counts_out_of_order,
    "saved by VS Code": as_vs_code_saves,
    "saved by Kaggle": as_kaggle_saves,
    "saved by Colab": as_colab_saves,
    "notes, raw and empty cells": with_notes,
    "answers in two cells": split_answers,
    "answers in a cell below": answered_below,
    "broken versions above": answered_above,
    "the course's cells, copied": with_needed_cells_again,
    "all is tried at the end": with_trials_below,
    "answers are defined twice": with_answers_again,
    "Windows' line breaks": _each_answer(lambda code: code.replace("\n", "\r\n")),
    "old line breaks": _each_answer(lambda code: code.replace("\n", "\r")),
    "tabs": _each_answer(with_tabs),
    "trailing spaces": _each_answer(lambda code: code.replace("\n", "   \n") + "\n\n  \n"),
    "very long lines": _each_answer(with_long_lines),
    "without comments, reformatted": _each_answer(lambda code: ast.unparse(ast.parse(code))),
    "comments in other languages": _each_answer(commented),
    "indented": _each_answer(lambda code: "    " + code.replace("\n", "\n    ")),
}


def lay_out(notebook: NotebookNode, name: str) -> NotebookNode:
    """Return a copy of the notebook, as the layout called ``name`` has it."""
    return LAYOUTS[name](copy.deepcopy(notebook))
