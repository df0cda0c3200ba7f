"""What a check answers, once in the book: the first exercise's, to a wrong and to a right function.

Both answers come from running the check while the book is built.
"""

from __future__ import annotations

import contextlib
import functools
import io
from collections.abc import Mapping, Sequence

from nbformat import NotebookNode

from helpers.authoring.notebooks import PageError
from helpers.authoring.outputs import render_outputs
from helpers.catalogue import Exercise
from helpers.checks import Check
from helpers.report import Result, as_html

_EXERCISE = "derivative"
# Close, and no step toward the solution.
_WRONG = """\
def derivative(f, x):
    return (f(x + 1e-4) - f(x - 1e-4)) / 2e-4"""
# With a seed, the book is the same each time that it is built.
_SEED = 0


def find_answers(
    cells: Sequence[NotebookNode], given: Mapping[str, NotebookNode]
) -> dict[str, str]:
    """Return the blocks that follow the check of the exercise, by its name.

    Args:
        cells: a chapter's source notebook.
        given: the cells of its release notebook that nbgrader knows, by its name for them.

    Returns:
        nothing if the exercise is another chapter's.

    Raises:
        PageError: if a cell raises.
    """
    names = [cell.metadata.get("nbgrader", {}).get("grade_id") for cell in cells]
    if _EXERCISE not in names or f"test-{_EXERCISE}" not in given:
        return {}
    place = names.index(_EXERCISE)
    needed = [cell.source for cell in cells[:place] if "needed" in cell.metadata.get("tags", [])]
    check = given[f"test-{_EXERCISE}"].source
    wrong, right = (_run(needed, answer, check) for answer in (_WRONG, cells[place].source))
    blocks = [
        "The check below your code says what holds and what does not. Suppose that `derivative`"
        " took a difference quotient:",
        f"```python\n{_WRONG}\n```",
        "The check answers:",
        wrong,
        "To a correct `derivative` it answers:",
        right,
    ]
    section = '<section class="check-answers" aria-label="What the check says">'
    return {_EXERCISE: "\n\n".join([section, *blocks, "</section>"])}


def _run(needed: Sequence[str], answer: str, check: str) -> str:
    """Return what ``check`` tells of ``answer``, as a block."""
    told: list[str] = []

    def tell(exercise: Exercise, results: list[Result], points: float) -> None:
        told.append(as_html(exercise, results, points))

    names: dict[str, object] = {"__name__": "__main__"}
    try:
        # What goes to the standard output would reach mdBook.
        with contextlib.redirect_stdout(io.StringIO()):
            for cell in needed:
                exec(cell, names)
            names["Check"] = functools.partial(Check, seed=_SEED, publish=tell)
            exec(answer, names)
            exec(check, names)
    except Exception as error:
        raise PageError(f"The check of {_EXERCISE!r} cannot be shown: {error!r}.") from error
    return render_outputs([{"output_type": "display_data", "data": {"text/html": told[0]}}])
