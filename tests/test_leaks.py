"""What a hidden test feeds to a student's code comes out on no page that a student gets.

Each attack gets hold of a hidden input and says it in some way. The input is noted where the test
hands it over; it must be in nothing that goes to students, and with the instructor where the code
said it of itself.
"""

from __future__ import annotations

import dataclasses
import html

import pytest
import torch
from classroom import solved, to_bytes, without_demos
from course_files import find_cell, source
from invented_class import all_right
from nbconvert import HTMLExporter
from nbformat import reads
from registered_chapters import Register

from helpers import checks
from helpers.grading.assignment import Assignment
from helpers.grading.judge import judge
from helpers.grading.report.feedback import render_feedback
from helpers.grading.report.marks import GradebookView
from helpers.grading.report.tables import Row, grades_table
from helpers.grading.settings import Settings
from helpers.grading.verdicts import Judged, PropertyResult, Verdict

CHAPTER = "08-numerical-stability"
SETTINGS = Settings(cell_seconds=12.0)

# The code knows a hidden input of softmax by its dtype: all visible ones are float32.
RIGHT = """
kept = []
def softmax(logits, dim):
    {at_hidden}
    powers = (logits - logits.amax(dim=dim, keepdim=True)).exp()
    return powers / powers.sum(dim=dim, keepdim=True)
{after}
"""
WORD = "'%.9f' % logits.flatten()[0].item()"
DIGITS = "[int(c) for c in str(int(1e9 * logits.flatten()[0].item()))]"


def at_hidden(what: str, after: str = "") -> str:
    return RIGHT.format(
        at_hidden=f"if logits.dtype == torch.float64 and logits.dim() == 3:\n        {what}",
        after=after,
    )


SAID_AT_ONCE = {
    "text of an exception": f"raise ValueError({WORD})",
    "text of an exception, spelled with spaces": f"raise KeyError(' '.join({WORD}))",
    "name of an exception": f"raise type({WORD}, (Exception,), {{}})",
    "name of a warning": f"import warnings; warnings.warn('', type({WORD}, (UserWarning,), {{}}))",
    "warning": f"import warnings; warnings.warn({WORD})",
    "warning and a wrong value": f"import warnings; warnings.warn({WORD}); return logits",
    "print": f"print({WORD})",
    "print to the other stream, and wrong": f"import sys; print({WORD}, file=sys.stderr); return 0",
    "string that comes back": f"return {WORD}",
    "key that comes back": f"return {{{WORD}: 1}}",
    "value that comes back": "return logits",
    "shape that comes back": f"return torch.ones({DIGITS}[:4] + [0])",
    "exit code": "import os; os._exit(int(logits.flatten()[0].item()) % 256)",
}
# A later exercise's cell, and whether softmax's hidden call brings the kept word to it.
KEEP = f"kept.append({WORD})"
LATER = "soft-cross-entropy"
LATER_RIGHT = find_cell(source(CHAPTER), LATER).source
SAID_LATER = {
    "print": (KEEP, "print(kept)"),
    "value": (KEEP, "kept"),
    "exception in a cell": (KEEP, "if kept: raise ValueError(kept[0])"),
    "warning in a cell": (KEEP, "import warnings\nwarnings.warn(str(kept))"),
    "display": (KEEP, "from IPython.display import display\ndisplay(str(kept))"),
    "exception in a call": (
        KEEP,
        "def soft_cross_entropy(logits, labels):\n    raise ValueError(str(kept))",
    ),
    "print in a call": (
        KEEP,
        "right = soft_cross_entropy\ndef soft_cross_entropy(logits, labels):\n"
        "    print(kept)\n    return right(logits, labels)",
    ),
    "value of a call": (KEEP, "def soft_cross_entropy(logits, labels):\n    return str(kept)"),
    "file": (f"open('/tmp/kept', 'w').write({WORD})", "print(open('/tmp/kept').read())"),
    "attribute of torch": (f"torch.kept = {WORD}", "print(torch.kept)"),
    "environment": (f"import os; os.environ['KEPT'] = {WORD}", "import os\nprint(os.environ)"),
}


@pytest.fixture(scope="module")
def assignment(registered: Register) -> Assignment:
    return registered(CHAPTER)


@pytest.fixture
def fed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what hidden tests fed in, as it could be said; to be read when all is judged."""
    words: list[str] = []
    call = checks.Check.call

    def note(check: checks.Check, function: object, *args: object, **kwargs: object) -> object:
        hidden = check._is_hidden() and not check._is_blocked()
        tensors = [a for a in args if isinstance(a, torch.Tensor) and a.dtype == torch.float64]
        if hidden and tensors and check.exercise.name == "softmax":
            words.append(f"{tensors[0].flatten()[0].item():.9f}")
        return call(check, function, *args, **kwargs)

    monkeypatch.setattr(checks.Check, "call", note)
    return words


def judge_it(answers: dict[str, str], assignment: Assignment) -> Judged:
    notebook = without_demos(solved(CHAPTER, answers))
    return judge.judge_submission(to_bytes(notebook), assignment, SETTINGS)


def students_pages(judged: Judged) -> str:
    """Return all that a student may get to see, with what stands in the notebook's tests."""
    marks = GradebookView().marks("ada", judged)
    row = Row("ada", marks=marks)
    page = render_feedback(row, judged.notebook, CHAPTER, CHAPTER, str).decode()
    notebook = reads(judged.notebook.decode(), 4)
    return html.unescape(page + HTMLExporter().from_notebook_node(notebook)[0])


def for_the_instructor(judged: Judged) -> str:
    return repr([dataclasses.asdict(result) for result in judged.exercises])


def said(word: str, text: str) -> bool:
    """Return whether a text says a number, to its last digits or to a few."""
    return any(
        form in text for form in (word, " ".join(word), word[:8], word.replace(".", "")[:10])
    )


@pytest.mark.needs_system("bubblewrap")
@pytest.mark.parametrize("way", SAID_AT_ONCE)
def test_what_code_says_in_a_hidden_test_is_withheld(
    way: str, assignment: Assignment, fed: list[str]
) -> None:
    judged = judge_it({"softmax": at_hidden(SAID_AT_ONCE[way])}, assignment)
    assert fed
    pages = students_pages(judged)
    assert [word for word in fed if said(word, pages)] == []
    (result,) = (e for e in judged.exercises if e.name == "softmax")
    failed = [p for p in result.properties if p.outcome == "failed"]
    assert all(p.told for p in failed)
    assert all(p.told in pages for p in failed)
    if way == "text of an exception":
        assert any(word in for_the_instructor(judged) for word in fed)


@pytest.mark.needs_system("bubblewrap")
@pytest.mark.parametrize("way", SAID_LATER)
def test_what_code_kept_of_a_hidden_test_is_not_said_by_another_cell(
    way: str, assignment: Assignment, fed: list[str]
) -> None:
    keeps, says = SAID_LATER[way]
    answers = {"softmax": at_hidden(keeps), LATER: f"{LATER_RIGHT}\nkept\n{says}"}
    judged = judge_it(answers, assignment)
    assert fed
    pages = students_pages(judged)
    assert [word for word in fed if said(word, pages)] == []


@pytest.mark.needs_system("bubblewrap")
def test_honest_words_are_shown_all_the_same(assignment: Assignment) -> None:
    wrong = "def safe_log(x):\n    print('in the call')\n    raise ValueError('of my own')\n"
    answers = {"safe-log": f"print('in the cell')\n{wrong}"}
    judged = judge_it(answers, assignment)
    pages = students_pages(judged)
    for words in ("in the cell", "in the call", "raised ValueError: of my own"):
        assert words in pages
    softmax, *_ = judged.exercises
    assert softmax.points == softmax.most


@pytest.mark.needs_system("bubblewrap")
def test_a_crash_points_to_the_students_line_but_not_in_a_hidden_test(
    assignment: Assignment,
) -> None:
    wrong = "\n\ndef helper(x):\n    return x.nothing\n\n\ndef safe_log(x):\n    return helper(x)\n"
    hidden = at_hidden("raise ValueError('once')")
    pages = students_pages(judge_it({"safe-log": wrong, "softmax": hidden}, assignment))
    assert "line 4, in helper: return x.nothing" in pages
    assert "line 8, in safe_log: return helper(x)" in pages
    assert ", in softmax" not in pages


def test_tables_for_learning_platforms_say_nothing_of_what_code_said() -> None:
    tried = PropertyResult("c", 1.0, "failed", "SECRET", (("fed in", "SECRET"),), True, "told")
    first, *others = all_right().exercises
    failed = dataclasses.replace(
        first, verdict=Verdict.PARTLY, message="c: SECRET", properties=(tried,)
    )
    marks = GradebookView().marks("ada", Judged((failed, *others)))
    assert "SECRET" not in grades_table([Row("ada", marks=marks)]).decode()
