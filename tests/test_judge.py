"""The judge on a chapter: every submission gets the points and the verdicts that it deserves."""

from __future__ import annotations

import copy
import os
import signal
import textwrap
from collections.abc import Callable
from dataclasses import replace

import nbformat
import pytest
import torch
from classroom import (
    Submission,
    deserved_points,
    exercises_of,
    full_points,
    make_class,
    solved,
    to_bytes,
    without_demos,
)
from course_files import find_cell, grade_id, release, source, variants
from nbformat import v4
from nbformat.notebooknode import NotebookNode
from nbgrader.utils import determine_grade
from registered_chapters import Register

from helpers.grading.assignment import Assignment
from helpers.grading.judge import session, written
from helpers.grading.judge.judge import JudgingError, judge_submission
from helpers.grading.judge.session import Session
from helpers.grading.judge.trusted import CourseError, TrustedCells
from helpers.grading.settings import Settings
from helpers.grading.verdicts import ExerciseResult, Judged, Verdict

pytestmark = pytest.mark.needs_system("bubblewrap")

CHAPTER = "08-numerical-stability"
EXERCISES = exercises_of(CHAPTER)
FIRST, SECOND, THIRD, *_, LAST = (exercise.name for exercise in EXERCISES)
FULL = full_points(EXERCISES)
QUICK = Settings(cell_seconds=2.5, exercise_seconds=3.0, memory_mib=768)


@pytest.fixture(scope="module")
def assignment(registered: Register) -> Assignment:
    return registered(CHAPTER)


Judge = Callable[..., dict[str, ExerciseResult]]


@pytest.fixture
def judged(assignment: Assignment) -> Judge:
    """Judge a notebook in which only what is named is not right; return results by name."""

    def judge_it(
        answers: dict[str, str] | None = None,
        *,
        before: dict[str, str] | None = None,
        without: tuple[str, ...] = (),
        settings: Settings = QUICK,
    ) -> dict[str, ExerciseResult]:
        answers = {name: textwrap.dedent(code) for name, code in (answers or {}).items()}
        notebook = without_demos(solved(CHAPTER, answers))
        cells = [cell for cell in notebook.cells if grade_id(cell) not in without]
        for name, code in (before or {}).items():
            at = next(i for i, c in enumerate(notebook.cells) if grade_id(c) == name)
            following = next(c for c in notebook.cells[at:] if c in cells)
            cells.insert(cells.index(following), v4.new_code_cell(textwrap.dedent(code)))
        notebook.cells = cells
        return by_name(judge_submission(to_bytes(notebook), assignment, settings))

    return judge_it


def by_name(result: Judged) -> dict[str, ExerciseResult]:
    return {exercise.name: exercise for exercise in result.exercises}


def points(results: dict[str, ExerciseResult]) -> dict[str, float]:
    return {name: result.points for name, result in results.items()}


def not_right(results: dict[str, ExerciseResult], *but: str) -> dict[str, str]:
    """Return what became of those others that did not pass, or left something for a person."""
    others = {name: result for name, result in results.items() if name not in but}
    return {
        name: f"{r.verdict.value}: {r.message} {r.for_a_person}"
        for name, r in others.items()
        if (r.verdict, r.for_a_person) != (Verdict.PASSED, "")
    }


def reference(name: str) -> str:
    return find_cell(source(CHAPTER), name).source


# --- Points ----------------------------------------------------------------------------------


@pytest.mark.parametrize("submission", make_class(CHAPTER), ids=lambda one: one.student)
def test_every_student_of_the_class_gets_what_the_work_deserves(
    submission: Submission, assignment: Assignment
) -> None:
    result = judge_submission(submission.notebook, assignment, QUICK)
    if submission.student == "damaged":
        assert {r.verdict for r in result.exercises} == {Verdict.MALFORMED}
        assert all(r.for_a_person for r in result.exercises)
        assert result.notebook == b""
        return
    assert points(by_name(result)) == submission.deserved
    assert result.short_of_time or not any(r.for_a_person for r in result.exercises)


def test_the_judged_notebook_says_what_nbgrader_reads(assignment: Assignment) -> None:
    wrong = next(v for v in variants(EXERCISES[0]) if 0 < deserved_points(EXERCISES[0], v.code) < 4)
    notebook = without_demos(solved(CHAPTER, {FIRST: wrong.code, SECOND: "import os; os._exit(1)"}))
    find_cell(
        notebook, LAST
    ).source += "\nimport matplotlib.pyplot as plt\nplt.plot([1])\nplt.show()\nprint(1)\n2"
    result = judge_submission(to_bytes(notebook), assignment, QUICK)
    content = nbformat.reads(result.notebook.decode(), as_version=4)
    nbformat.validate(content)
    for exercise in result.exercises:
        cell = find_cell(content, f"test-{exercise.name}")
        assert determine_grade(cell) == (exercise.points, exercise.most)
    kinds = [output.output_type for output in find_cell(content, LAST).outputs]
    assert sorted(kinds) == ["display_data", "execute_result", "stream"]
    assert result.points == sum(exercise.points for exercise in result.exercises)
    assert result.most == sum(FULL.values())


def test_hidden_properties_are_marked(judged: Judge) -> None:
    for exercise in EXERCISES:
        properties = judged()[exercise.name].properties
        assert [p.hidden for p in properties].count(False) == exercise.visible
        assert [p.hidden for p in properties].count(True) == exercise.hidden
        assert {p.outcome for p in properties} == {"passed"}
        break


# --- Verdicts --------------------------------------------------------------------------------

ENDS = {
    "crashed": ("import os\ndef softmax(*a, **k): os._exit(3)", Verdict.CRASHED, "exit code 3"),
    "crashed in C": (
        "def softmax(logits, dim):\n    import ctypes\n    ctypes.string_at(0)",
        Verdict.CRASHED,
        "SIGSEGV",
    ),
    "timed out, stopped by the kernel": (
        "def softmax(logits, dim):\n    while True: pass",
        Verdict.TIMED_OUT,
        "did not",
    ),
    "timed out, stopped from outside": (
        "import signal\ndef softmax(logits, dim):\n"
        "    for ring in (14, 27): signal.signal(ring, signal.SIG_IGN)\n"
        "    while True: pass",
        Verdict.TIMED_OUT,
        "did not stop within its time",
    ),
    "out of memory": (
        "def softmax(logits, dim):\n    x = [b'x' * 2**24 for _ in range(999)]",
        Verdict.OUT_OF_MEMORY,
        "more than 768 MiB",
    ),
    "out of memory, in files": (
        "import os\ndef softmax(logits, dim):\n"
        "    file = os.open('/dev/shm/x', os.O_CREAT | os.O_WRONLY)\n"
        "    kept = [b'x' * 2**24 for _ in range(35)]\n"
        "    for _ in range(999): os.write(file, b'x' * 2**24)",
        Verdict.OUT_OF_MEMORY,
        "more than 768 MiB",
    ),
    "out of memory, and told so": (
        "def softmax(logits, dim): raise MemoryError",
        Verdict.OUT_OF_MEMORY,
        "raised MemoryError",
    ),
    "failed": ("def softmax(logits, dim): return logits", Verdict.FAILED, "values differ"),
    "failed by raising": ("def softmax(logits, dim): return 1 / 0", Verdict.FAILED, "ZeroDivision"),
    "failed by exit": ("def softmax(logits, dim): exit()", Verdict.FAILED, "SystemExit"),
    "failed by its kind": ("def softmax(*a, **k): return {1}", Verdict.FAILED, "not plain data"),
    "failed by its size": (
        "def softmax(*a, **k): return 'x' * 5 * 2**20",
        Verdict.FAILED,
        "cannot be judged: it is too much",
    ),
    "a definition that raises": (
        "x = 1 / 0\ndef softmax(logits, dim): pass",
        Verdict.FAILED,
        "softmax is not defined: its cell did not get that far (it raised ZeroDivisionError",
    ),
    "a definition that is no Python": (
        "def softmax(logits, dim:",
        Verdict.FAILED,
        "SyntaxError: incomplete input (line 1))",
    ),
    "a definition that loops": ("while True: pass", Verdict.TIMED_OUT, "did not return within"),
    "a definition that crashes": ("import os; os.abort()", Verdict.CRASHED, "SIGABRT"),
    "not written": (
        find_cell(release(CHAPTER), FIRST).source,
        Verdict.UNANSWERED,
        "nothing is written here yet",
    ),
    "no function": ("softmax = 3", Verdict.FAILED, "not callable"),
}  # fmt: skip


@pytest.mark.parametrize(("code", "verdict", "words"), ENDS.values(), ids=ENDS.keys())
def test_one_exercise_ends_badly_and_the_others_are_judged(
    judged: Judge, code: str, verdict: Verdict, words: str
) -> None:
    results = judged({FIRST: code})
    assert (results[FIRST].verdict, results[FIRST].points) == (verdict, 0.0), results[FIRST]
    assert words in results[FIRST].message
    assert "\n" not in results[FIRST].message
    assert not_right(results, FIRST) == {}


def test_partly_right_and_a_crash_later_keeps_what_was_won(judged: Judge) -> None:
    code = """
        import torch, sys
        def softmax(logits, dim):
            if logits.abs().max() > 1000: __import__("os").abort()
            shifted = logits - logits.amax(dim, keepdim=True)
            return shifted.exp() / shifted.exp().sum(dim, keepdim=True)
    """
    results = judged({FIRST: code})
    assert results[FIRST].verdict is Verdict.CRASHED
    assert 0 < results[FIRST].points < FULL[FIRST]


def test_crashes_in_every_exercise_cost_each_its_own(judged: Judge) -> None:
    crashing = {e.name: f"import os\n{reference(e.name)}\n" for e in EXERCISES}
    names = {name: code.split("def ", 1)[1].split("(")[0] for name, code in crashing.items()}
    code = {n: c + f"def {names[n]}(*a, **k): os.abort()" for n, c in crashing.items()}
    results = judged(code)
    assert {r.verdict for r in results.values()} == {Verdict.CRASHED}


# --- What is in the notebook -----------------------------------------------------------------


def test_a_solution_in_a_cell_of_ones_own_counts_where_the_courses_is_missing(
    judged: Judge,
) -> None:
    results = judged(before={f"test-{FIRST}": reference(FIRST)}, without=(FIRST,))
    assert results[FIRST].verdict is Verdict.PASSED
    assert "recognized" in results[FIRST].for_a_person
    assert not_right(results, FIRST) == {}


def test_a_missing_exercise_is_missing_and_costs_itself_alone(judged: Judge) -> None:
    results = judged(without=(SECOND,))
    assert (results[SECOND].verdict, results[SECOND].points) == (Verdict.MISSING, 0.0)
    assert "not defined" in results[SECOND].message
    assert not_right(results, SECOND) == {}


def test_a_notebook_of_another_chapter_is_for_a_person(judged: Judge) -> None:
    results = judged(without=tuple(FULL))
    assert {(r.verdict, r.points) for r in results.values()} == {(Verdict.MISSING, 0.0)}
    assert all("another chapter" in result.for_a_person for result in results.values())


def test_cells_of_ones_own_run_where_they_stand(judged: Judge) -> None:
    results = judged(
        {FIRST: "softmax = helper", SECOND: "later"},
        before={
            FIRST: reference(FIRST).replace("def softmax", "def helper"),
            f"test-{THIRD}": reference(SECOND),
        },
    )
    assert results[FIRST].verdict is Verdict.PASSED
    assert results[SECOND].verdict is Verdict.FAILED  # it is defined after its test alone
    assert not_right(results, FIRST, SECOND) == {}


def test_after_a_crash_all_that_had_run_is_there_again(judged: Judge) -> None:
    results = judged(
        {
            FIRST: "def softmax(*a, **k): __import__('os').abort()",
            SECOND: f"{reference(SECOND)}\nassert kept == [1, 2] and given is torch.exp",
        },
        before={
            FIRST: "kept = [1]\nimport torch\ngiven = torch.exp",
            f"test-{FIRST}": "kept.append(2)\nfailed = 1 / 0\nkept.append(3)",
        },
    )
    assert results[FIRST].verdict is Verdict.CRASHED
    assert results[SECOND].verdict is Verdict.PASSED


def test_a_cell_of_ones_own_that_crashes_is_not_run_again(judged: Judge) -> None:
    results = judged(before={SECOND: "import os\nos.abort()", LAST: "while True: pass"})
    assert not_right(results) == {}


def test_a_cell_that_crashes_when_it_runs_again_costs_one_exercise_at_most(judged: Judge) -> None:
    once = """
        import os
        if os.path.exists("/tmp/ran"): os.abort()
        open("/tmp/ran", "w").close()
        import secrets
        if secrets.randbelow(2): pass
    """
    results = judged({FIRST: "def softmax(*a, **k): exit_now()"}, before={FIRST: once})
    assert results[FIRST].verdict is Verdict.FAILED
    assert [r.verdict for r in results.values()].count(Verdict.PASSED) >= 6


def test_time_is_limited_for_a_cell_an_exercise_and_all(judged: Judge) -> None:
    slow = "import time\ndef softmax(*a, **k):\n    time.sleep(10**6)"
    results = judged(
        {FIRST: slow, LAST: "import time\ntime.sleep(10**6)"},
        settings=replace(QUICK, cell_seconds=1.5, exercise_seconds=1.5),
    )
    assert {results[n].verdict for n in (FIRST, LAST)} == {Verdict.TIMED_OUT}
    assert not_right(results, FIRST, LAST) == {}
    results = judged(
        {SECOND: "import time\ntime.sleep(10**6)"},
        settings=replace(QUICK, cell_seconds=99.0, total_seconds=8.0),
    )
    assert results[FIRST].verdict is Verdict.PASSED
    assert results[LAST].verdict is Verdict.TIMED_OUT
    assert "no time left" in results[LAST].message


# --- What student code cannot do -------------------------------------------------------------

AUTOGRAD = """
def cross_entropy_gradient(logits, labels):
    import torch
    leaf = logits.detach().clone().requires_grad_(True)
    loss = torch.nn.functional.cross_entropy(leaf, labels, reduction="sum")
    return torch.autograd.grad(loss, leaf)[0]
"""
FORGERIES = {
    "what copies an answer": """
        from helpers import calling
        _real = calling.plain_copy
        def forged(value):
            value = _real(value)
            if type(value) is dict and "functions" in value: value["functions"] = []
            return value
        calling.plain_copy = forged
    """,
    "what makes it text": """
        import json
        _real = json.dumps
        json.dumps = lambda value, **k: _real(value, **k).replace('"grad"', '"exp"').replace(
            "requires_grad_", "exp")
    """,
    "the channel": """
        import os, json
        def answer():
            value = {"dict": [["functions", {"list": []}]]}
            text = json.dumps({"dict": [["value", value]]}).encode()
            os.write(3, len(text).to_bytes(4, "little") + bytes(4) + text)
    """,
    "the recorder's frame": """
        def _walk():
            frame = (yield).gi_frame
            while frame:
                for value in frame.f_locals.values():
                    if hasattr(value, "names"): value.names.clear()
                frame = frame.f_back
    """,
}


@pytest.mark.parametrize("forgery", FORGERIES.values(), ids=FORGERIES.keys())
def test_testimony_counts_from_plain_code_alone(judged: Judge, forgery: str) -> None:
    honest = judged({THIRD: AUTOGRAD})[THIRD]
    forged = judged({THIRD: textwrap.dedent(forgery) + AUTOGRAD})[THIRD]
    assert forged.points <= honest.points < FULL[THIRD]
    assert not forged.waiting or forged.for_a_person
    assert honest.for_a_person == ""


def test_autograd_that_hides_in_a_callback_of_torchs_is_seen(judged: Judge) -> None:
    hidden = AUTOGRAD + textwrap.dedent("""
        by_autograd = cross_entropy_gradient
        class Hidden:
            def __len__(self): return 1
            def __getitem__(self, index):
                found.append(by_autograd(*given))
                return 1.0
        def cross_entropy_gradient(logits, labels):
            import torch
            global found, given
            found, given = [], (logits, labels)
            torch.tensor(Hidden())
            return found[0]
    """)
    assert judged({THIRD: hidden})[THIRD].points < FULL[THIRD]


def test_a_students_process_holds_no_test_and_no_reference(
    judged: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks through all of its memory, while it is tested, for texts that it can only guess."""
    hidden = "[a] row of padding, all labels 0"
    visible = "[a]grees with exp over sum on ordinary"
    solution = "[l]og_probabilities.masked_fill"
    own = "[e]very byte of this memory"
    search = f"""
        # every byte of this memory
        import re
        def softmax(logits, dim):
            found = dict.fromkeys({[hidden, visible, solution, own]!r}, 0)
            with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
                for line in maps:
                    span, rights, *_ = line.split()
                    start, end = (int(part, 16) for part in span.split("-"))
                    if "r" not in rights or "v" in line.split()[-1][:2]: continue
                    for at in range(start, end, 2**24):
                        try:
                            memory.seek(at)
                            content = memory.read(min(2**24 + 99, end - at))
                        except (OSError, ValueError, OverflowError): continue
                        for text in found: found[text] += len(re.findall(text.encode(), content))
            raise RuntimeError(list(found.values()))
    """
    blank = {name: "pass" for name in FULL if name != FIRST}
    # It is a lot to read: as long as that takes, however busy this machine is.
    monkeypatch.setattr(session, "SECONDS_PER_CALL", 90.0)
    patient = replace(QUICK, exercise_seconds=90.0)
    message = judged({**blank, FIRST: search}, settings=patient)[FIRST].message
    counts = [int(word.strip("[],")) for word in message.rpartition("[")[2].split()]
    assert counts[:3] == [0, 0, 0], message
    assert counts[3] > 0, message


def test_one_students_work_is_not_there_for_the_next(judged: Judge) -> None:
    mine = "\nimport torch\ntorch.mine = 1\nopen('/tmp/mine', 'w').close()\nmine = 1"
    judged({FIRST: reference(FIRST) + mine})
    look = "import os, torch\nassert not (hasattr(torch, 'mine') or os.path.exists('/tmp/mine'))\n"
    look += "assert 'mine' not in dir()\n"
    assert judged({SECOND: look + reference(SECOND)})[SECOND].verdict is Verdict.PASSED


ODD_OUTPUTS = [
    {"kind": torch.ones(2)},
    {"kind": torch.ones(2).numpy(), "text": "x"},
    {"kind": ["stream"], "text": "x"},
    {"kind": "stream", "text": torch.ones(2).numpy()},
    {"kind": "data", "data": {"text/html": "<script>"}, "count": torch.ones(2).numpy()},
    {"kind": "data", "data": {"image/png": "PHNjcmlwdD4="}, "count": 1},
    {"kind": "error", "name": 1, "value": [], "traceback": {}},
    *([], None, 3, "stream", torch.ones(3)),
]


def test_outputs_that_no_kernel_of_ours_makes_are_left_out() -> None:
    right = {"kind": "stream", "text": "right\ud800\x1b[31m\u202e"}
    (output,) = written.write_outputs([*ODD_OUTPUTS, right])
    assert output.text == "right��[31m�"


def test_what_a_kernel_says_in_its_answer_is_one_line_without_controls(judged: Judge) -> None:
    code = """
        import helpers.calling
        def describe_error(error): return "\\ud800\\x1b[31m\\n=cmd|' /C calc'!A0" * 1000
        helpers.calling.describe_error = describe_error
        def softmax(*a, **k): raise ValueError
    """
    result = judged({FIRST: code})[FIRST]
    assert len(result.message) < 1000
    assert result.message.isprintable()


# --- When the machinery fails ----------------------------------------------------------------


def losing_the_warm_process(monkeypatch: pytest.MonkeyPatch, times: int) -> list[int]:
    """Kill the warm process in the middle of the next submissions' tests."""
    lost: list[int] = []
    real = Session.call

    def call(session: Session, *arguments: object) -> object:
        if len(lost) < times and session._warm is not None:
            warm = session._warm
            lost.append(warm._sandbox.command_pid)
            os.kill(lost[-1], signal.SIGKILL)
            warm._sandbox.wait(20)
        return real(session, *arguments)

    monkeypatch.setattr(Session, "call", call)
    return lost


def test_a_lost_warm_process_costs_nobody_anything(
    judged: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = losing_the_warm_process(monkeypatch, times=2)
    assert not_right(judged()) == {}
    assert len(lost) == 2


def test_one_that_is_lost_again_and_again_gets_no_verdict(
    judged: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    losing_the_warm_process(monkeypatch, times=99)
    with pytest.raises(JudgingError, match="ended three times by something else"):
        judged()


def changed(assignment: Assignment, name: str, new: str) -> Assignment:
    cells = [replace(c, source=new) if c.name == name else c for c in assignment.cells]
    return replace(assignment, cells=tuple(cells))


def test_a_fault_of_the_courses_is_told_as_such(assignment: Assignment) -> None:
    content = to_bytes(without_demos(solved(CHAPTER)))
    in_property = "check = Check('softmax')\nwith check.property('x'):\n    "
    for source_text, words in (
        ("1 / 0", "The course's cell test-softmax failed (ZeroDivisionError"),
        (f"{in_property}softmax(1)\ncheck.score()", "must use check.call"),
        (f"{in_property}check.call(len, [1])\ncheck.score()", "is not the student's"),
        ("softmax(1)", "must use check.call"),
        ("Check('softmax').call(len, [1])", "call and compare inside"),
        ("def (", "is not valid Python"),
    ):
        with pytest.raises(CourseError) as error:
            judge_submission(content, changed(assignment, f"test-{FIRST}", source_text), QUICK)
        assert words in str(error.value)


def test_tests_do_not_disturb_each_other(assignment: Assignment) -> None:
    spoiled = changed(assignment, f"test-{FIRST}", "torch = math = None\nspoil = 1\n3.0")
    cells = TrustedCells(spoiled)
    assert cells.run_test(f"test-{FIRST}", lambda *_: None) == 3.0
    again = changed(spoiled, f"test-{SECOND}", "assert torch and math\n'spoil' in globals()")
    cells = TrustedCells(again)
    cells.run_test(f"test-{FIRST}", lambda *_: None)
    assert cells.run_test(f"test-{SECOND}", lambda *_: None) is False


def test_judging_changes_nothing_of_what_it_was_given(assignment: Assignment) -> None:
    before = copy.deepcopy(assignment)
    content = to_bytes(solved(CHAPTER))
    one, other = (judge_submission(content, assignment, QUICK) for _ in range(2))
    assert assignment == before
    assert points(by_name(one)) == points(by_name(other)) == FULL
    cells: list[NotebookNode] = nbformat.reads(one.notebook.decode(), as_version=4).cells
    assert {grade_id(c) for c in cells if grade_id(c)} == {c.name for c in assignment.cells}
