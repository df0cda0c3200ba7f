"""The case that a check failed at, had again: for every exercise of the course, and in detail."""

from __future__ import annotations

import contextlib
import io
import linecache
import re
from collections.abc import Callable, Iterator
from dataclasses import replace

import nbformat
import pytest
import torch
from comparing import find_difference
from course_files import (
    EXERCISES,
    cells_before,
    define,
    find_cell,
    release,
    run_cell,
    source,
    variants,
)
from nbclient import NotebookClient

from helpers import calling, catalogue, failing, tape
from helpers.catalogue import Chapter, Exercise
from helpers.failed_case import Case, NoFailingCaseError
from helpers.reading.cells import Cell
from helpers.reading.history import reading
from helpers.replaying import ReplayError

# Their first wrong solution does something else each time: it fails again, with other numbers.
NEVER_THE_SAME = {
    "bug-hunt-same-noise": "one generator for everything, which goes on",
    "bug-hunt-flags": "what it leaves uninitialized is whatever lay in memory",
}
# It fails in the same way, and returns the name of a temporary folder.
NAMES_A_FOLDER = ("save-safely",)
_NUMBER = re.compile(r"-?\d[\d.e+-]*|nan|inf")


@pytest.fixture(autouse=True)
def _time_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calling, "SECONDS_PER_CALL", 60.0)


def check(code: str, name: str, namespace: dict) -> str:
    """Run a test cell as a kernel does, where its text can be looked up; return the report."""
    file = f"<check of {name}>"
    linecache.cache[file] = (len(code), None, code.splitlines(keepends=True), file)
    written = io.StringIO()
    with contextlib.redirect_stdout(written):
        exec(compile(code, file, "exec"), namespace)
    return written.getvalue()


@contextlib.contextmanager
def cells_read(exercise: Exercise, solution: dict[str, str]) -> Iterator[None]:
    """Have the exercise's code read, as it is in a kernel that ran ``solution``."""
    cells = cells_before(exercise.chapter, f"test-{exercise.name}", solution)
    with reading([Cell(code, f"cell [{i}]") for i, code in enumerate(cells, 1)]):
        yield


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.name)
def test_the_first_wrong_solutions_case_fails_again_and_holds_with_the_reference(
    exercise: Exercise,
) -> None:
    wrong = {exercise.name: next(v for v in variants(exercise) if not v.right).code}
    test = f"test-{exercise.name}"
    namespace = define(exercise.chapter, before=test, replaced=wrong)
    with cells_read(exercise, wrong):
        report = check(find_cell(release(exercise.chapter), test).source, exercise.name, namespace)
        case = failing(exercise.name)
        before = repr(case)
        assert case.problem in report
        if case.call:
            assert f'Try this case again: failing("{exercise.name}")' in report
            fails_again(case)
        again = case.check()
        assert not again
        told = repr(again).removeprefix("✗ ")
        if exercise.name in NEVER_THE_SAME:
            assert _NUMBER.sub("#", told) == _NUMBER.sub("#", case.problem)
        else:
            assert told == case.problem
        assert repr(case) == before

    for cell in cells_before(exercise.chapter, test, {}):
        run_cell(cell, namespace)
    with cells_read(exercise, {}):
        assert case.check(), case.check()


def fails_again(case: Case) -> None:
    """Make the case's call again, and see that the same comes of it."""
    answer = calling.Answer()
    with contextlib.redirect_stdout(io.StringIO()):
        calling.fill(answer, case.run, [], {})
    if answer.problem:
        assert answer.problem == case.problem
    elif case.exercise not in (*NEVER_THE_SAME, *NAMES_A_FOLDER):
        assert find_difference(answer.value, case.returned, rtol=0.0, atol=0.0) is None


# In detail, on an exercise of its own

DOUBLE = Exercise(
    name="double",
    title="Twice the number",
    chapter="01-sample",
    number=3,
    points=4,
    minutes=5,
    difficulty=1,
    visible=3,
    hidden=1,
    hints=("a first hint", "a second hint", "a third hint"),
)
ONE_CALL = """
def twice(x):
    return x + x

check = Check("double")
with check.property("doubles"):
    x = check.draw.normal(3, 4)
    check.close(check.call(double, x), twice(x))
check.score()
"""


@pytest.fixture
def sample(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> Callable[..., dict]:
    """Return what runs a student's code and a check; it returns the notebook's namespace."""
    monkeypatch.setattr(
        catalogue, "load_chapters", lambda: (Chapter("01-sample", "A sample", (DOUBLE,)),)
    )
    monkeypatch.chdir(tmp_path)
    namespace: dict = {}

    def run(students: str, test: str = ONE_CALL) -> dict:
        exec("import torch\nfrom helpers import Check, probes", namespace)
        exec(students, namespace)
        namespace["report"] = check(test, "double", namespace)
        return namespace

    return run


def test_the_case_holds_inputs_and_outputs_that_share_no_memory(sample: Callable) -> None:
    sample("def double(numbers):\n    numbers += 1\n    return 3 * numbers")
    case = failing("double")
    x = case.inputs.numbers
    assert list(case.inputs) == ["numbers"]
    assert torch.allclose(case.returned, 3 * (x + 1))
    assert torch.equal(case.came_back, case.returned)
    assert torch.equal(case.expected, x + x)
    for _ in range(2):  # it changes its argument, and no argument is the case's own
        assert torch.equal(case.run(), case.returned)
    for value in (case.inputs["numbers"], case.returned, case.came_back, case.expected):
        value.zero_()
    assert torch.equal(case.inputs.numbers, x)
    assert case.expected.any()
    with pytest.raises(AttributeError, match="no input 'x'; there are 'numbers'"):
        _ = case.inputs.x


def test_a_corrected_definition_counts_whatever_else_was_defined_since(sample: Callable) -> None:
    namespace = sample("def double(x):\n    return 3 * x")
    case = failing("double")
    before = case.inputs.x
    exec("def twice(x):\n    return None\ncheck = x = None", namespace)  # another check's
    assert repr(case.check()) == f"✗ {case.problem}"
    exec("def double(x):\n    return 2 * x", namespace)
    assert torch.equal(case.run(), 2 * before)
    assert case.check()
    assert "it holds" in repr(case.check())
    assert namespace["check"] is None, "nothing is left in the notebook's namespace"


def test_nothing_is_caught_and_nothing_is_limited(
    sample: Callable, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    namespace = sample("def double(x):\n    return 3 * x")
    monkeypatch.setattr(calling, "SECONDS_PER_CALL", 1e-9)
    said = "def double(x):\n    print('inside', x.shape)\n    breakpoint()\n    return 2 * x"
    exec(said, namespace)
    stops = []
    monkeypatch.setattr("sys.breakpointhook", lambda: stops.append(1))
    failing("double").run()
    assert failing("double").check()
    assert capsys.readouterr().out.count("inside torch.Size([3, 4])") == 2
    assert len(stops) == 2


def test_an_exception_goes_on_from_run_and_is_told_by_check(sample: Callable) -> None:
    sample("def double(x):\n    raise ValueError('no')")
    case = failing("double")
    assert (case.returned, case.expected) == (None, None)
    with pytest.raises(ValueError, match="^no$"):
        case.run()
    assert repr(case.check()) == "✗ raised ValueError: no"


def test_random_code_draws_what_it_drew_and_leaves_the_generators_alone(sample: Callable) -> None:
    sample("def double(x):\n    return 2 * x + torch.rand(())")
    case, state = failing("double"), torch.get_rng_state()
    assert torch.equal(case.run(), case.returned)
    assert repr(case.check()) == f"✗ {case.problem}"
    assert torch.equal(torch.get_rng_state(), state)


PROBE = """
check = Check("double")
with check.property("has the gradient 2"):
    x, slope = check.draw.normal(5), check.draw.normal(5)
    got = check.call(probes.gradient, double, x, grad_output=slope)
    check.close(got["gradient"], 2 * slope, what="the gradient")
check.score()
"""


def test_a_probe_runs_again(sample: Callable) -> None:
    namespace = sample("def double(x):\n    return 3 * x", PROBE)
    case = failing("double")
    assert list(case.inputs) == ["x", "grad_output"]
    assert torch.equal(case.came_back, case.returned["gradient"])
    assert torch.equal(case.run()["gradient"], 3 * case.inputs.grad_output)
    exec("def double(x):\n    return 2 * x", namespace)
    assert torch.equal(case.run()["gradient"], 2 * case.inputs.grad_output)
    assert case.check()


STREAM = """
check = Check("double")
with check.property("reads two"):
    items = check.stream([1, 2, 3])
    came = []
    check.call(double, items, check.lend(came.append))
    check.equal(came, [2, 4, 6])
    check.equal(items.read, 3)
check.score()
"""


def test_what_was_lent_is_made_anew(sample: Callable) -> None:
    namespace = sample("def double(items, to):\n    for item in items:\n        to(item)", STREAM)
    case = failing("double")
    for _ in range(2):
        assert list(case.inputs["items"]) == [1, 2, 3]
        assert case.run() is None
        assert repr(case.check()) == f"✗ {case.problem}"
    assert (case.came_back, case.expected) == ([1, 2, 3], [2, 4, 6])
    exec("def double(items, to):\n    for item in items:\n        to(2 * item)", namespace)
    assert case.check()


FED_BACK = """
check = Check("double")
with check.property("goes on from its state"):
    state = 1.0
    for number in range(1, 5):
        state = check.call(double, state)
        check.close(state, 2.0**number)
check.score()
"""


def test_of_several_calls_the_one_that_failed_is_had(sample: Callable) -> None:
    made = "calls = []\ndef double(x):\n    calls.append(x)\n    "
    namespace = sample(made + "return 2 * x if x < 4 else x", FED_BACK)
    case = failing("double")
    assert (case.call, case.inputs.x, case.returned, case.expected) == (3, 4.0, 4.0, 8.0)
    assert "number 3 of this property" in repr(case)
    namespace["calls"].clear()
    assert case.run() == 4.0
    assert namespace["calls"] == [4.0], "the calls before it are not made again"
    assert not case.check()
    exec(made + "return 2 * x", namespace)
    assert case.run() == 8.0
    assert case.check()
    assert namespace["calls"] == [4.0, 1.0, 2.0, 4.0, 8.0]


THREE = """
check = Check("double")
with check.property("one"):
    first = check.draw.normal(3)
    check.close(check.call(double, first), 2 * first)
with check.property("two"):
    y = check.draw.normal(4, mean=100.0)
    check.close(check.call(double, y), 2 * y)
with check.property("three builds on one"):
    check.close(check.call(double, first + y.sum()), 2 * (first + y.sum()))
"""
HIDDEN = """
with check.property("hidden"):
    secret = check.draw.normal(5)
    check.close(check.call(double, secret), 3 * secret)
"""


def test_each_property_that_failed_can_be_had_and_no_hidden_one(sample: Callable) -> None:
    students = "def double(x):\n    return 2 * x + (x.max() > 50)"
    namespace = sample(students, THREE + HIDDEN + "check.score()")
    assert "failing(" not in namespace["report"], "a report of grading does not name it"
    first, second = failing("double"), failing("double", 2)
    assert (first.claim, second.claim) == ("two", "three builds on one")
    assert "(1 of 2 that failed)" in repr(first)
    with pytest.raises(NoFailingCaseError, match="has 2 cases that failed"):
        failing("double", 3)
    for case in (first, second):
        assert torch.equal(case.run(), case.returned)
        assert repr(case.check()) == f"✗ {case.problem}"
    exec("def double(x):\n    return 2 * x", namespace)
    assert first.check()
    assert second.check()
    sample("def double(x):\n    return 2 * x", THREE + HIDDEN + "check.score()")
    with pytest.raises(NoFailingCaseError, match="has no property that failed"):
        failing("double")


READ = """
check = Check("double")
with check.property("written without sum"):
    check.written_without("*sum*")
check.score()
"""


def test_a_property_without_a_call_is_tried_and_not_run(
    sample: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "def double(x):\n    return torch.sum(x)"
    chapter = Chapter("01-sample", "A sample", (replace(DOUBLE, defines=("double",)),))
    monkeypatch.setattr(catalogue, "load_chapters", lambda: (chapter,))
    with reading([Cell(code, "cell [1]")]):
        namespace = sample(code, READ)
        case = failing("double")
        assert "failing(" not in namespace["report"]
        assert (case.call, dict(case.inputs)) == (0, {})
        assert not case.check()
        with pytest.raises(ReplayError, match="failed without a call"):
            case.run()
    with reading([Cell("def double(x):\n    return x", "cell [2]")]):
        assert case.check()


def test_why_there_is_no_case_is_told(sample: Callable) -> None:
    with pytest.raises(KeyError, match='no exercise "doubel"; did you mean "double"'):
        failing("doubel")
    sample("def double(x):\n    return 2 * x")
    with pytest.raises(NoFailingCaseError, match="has no property that failed"):
        failing("double")
    with pytest.raises(RuntimeError):
        sample("def double(x):\n    return 3 * x", 'check = Check("double")\nraise RuntimeError')
    with pytest.raises(NoFailingCaseError, match="did not come to its end"):
        failing("double")


def test_a_check_that_was_never_run_has_no_case(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tape, "_last", {})
    with pytest.raises(NoFailingCaseError, match="has not been run in this kernel"):
        failing(EXERCISES[0].name)


def test_a_case_is_shown_as_text_and_as_html(sample: Callable) -> None:
    sample("def double(x):\n    raise ValueError('<b>')")
    case = failing("double")
    assert repr(case).splitlines()[0] == "Twice the number: doubles"
    assert "  x       float32 tensor of shape (3, 4)" in repr(case)
    assert "  problem raised ValueError: <b>" in repr(case)
    assert 'case = failing("double"): case.run()' in repr(case)
    assert "&lt;b&gt;" in case._repr_html_()
    assert "<b>&" not in case._repr_html_()


def test_the_report_of_a_stub_names_no_case_and_that_of_a_failure_does(sample: Callable) -> None:
    stub = f"def double(x):\n    raise NotImplementedError({calling.STUB_MESSAGE!r})"
    students = THREE + "check.score()"
    assert "failing(" not in sample(stub, students)["report"]
    report = sample("def double(x):\n    return x", students)["report"]
    assert report.count('Try this case again: failing("double")') == 1


class _Elsewhere:
    """A process that is not this one, as the judge has it."""

    def call(self, function: Callable, args: list, kwargs: dict) -> calling.Answer:
        return calling.Answer(3 * args[0])

    def restart(self) -> None:
        pass


def test_a_check_that_runs_apart_from_the_code_keeps_nothing(
    sample: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    namespace = sample("def double(x):\n    return 3 * x")
    namespace["elsewhere"] = _Elsewhere()
    monkeypatch.setattr(tape, "_last", {})
    test = ONE_CALL.replace('Check("double")', 'Check("double", process=elsewhere)')
    assert "✗" in sample("", test)["report"]
    with pytest.raises(NoFailingCaseError, match="has not been run"):
        failing("double")


def test_in_a_kernel_the_case_is_had_from_the_cells_text() -> None:
    exercise = EXERCISES[0]
    wrong = next(v for v in variants(exercise) if not v.right).code
    notebook = nbformat.v4.new_notebook()
    test = find_cell(release(exercise.chapter), f"test-{exercise.name}").source
    cells = [*cells_before(exercise.chapter, exercise.name, {}), wrong, test]
    cells += [f'case = failing("{exercise.name}")\nprint(bool(case.check()), case.call)']
    cells += [find_cell(source(exercise.chapter), exercise.name).source]
    cells += ["case.run()\nprint(bool(case.check()))"]
    notebook.cells = [nbformat.v4.new_code_cell(code) for code in cells]
    NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    assert notebook.cells[-3].outputs[0].text == "False 1\n"
    assert notebook.cells[-1].outputs[-1].text.endswith("True\n")
