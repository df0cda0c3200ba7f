"""Checks: what passes, what fails, and what the student reads."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import random
import re
import signal
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from comparing import find_difference
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from helpers import Check, calling, catalogue, probes, report
from helpers.apart import entries_at, write_out
from helpers.catalogue import Chapter, Exercise
from helpers.comparison import compare
from helpers.points import Points
from helpers.reading.cells import Cell
from helpers.reading.history import reading

DOUBLE = Exercise(
    name="double",
    title="Twice the number",
    chapter="01-sample",
    number=3,
    points=4,
    minutes=5,
    difficulty=1,
    visible=2,
    hidden=1,
    hints=("a first hint", "a second hint", "a third hint"),
)


@pytest.fixture(autouse=True)
def sample_course(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    chapters = (Chapter("01-sample", "A sample", (DOUBLE,)),)
    monkeypatch.setattr(catalogue, "load_chapters", lambda: chapters)
    monkeypatch.chdir(tmp_path)


def double(numbers: torch.Tensor) -> torch.Tensor:
    return 2 * numbers


def run_check(function: object, *, with_hidden: bool = True) -> float:
    check = Check("double")
    with check.property("doubles ordinary numbers"):
        numbers = check.draw.normal(3, 4)
        check.close(check.call(function, numbers), numbers + numbers)
    with check.property("doubles large numbers", weight=2):
        numbers = check.draw.normal(2, 5, mean=1e6)
        check.close(check.call(function, numbers), numbers + numbers)
    if with_hidden:
        with check.property("keeps float64"):
            numbers = check.draw.normal(6, dtype=torch.float64)
            check.close(check.call(function, numbers), numbers + numbers)
    return check.score()


def test_a_right_answer_gets_all_points(capsys: pytest.CaptureFixture) -> None:
    assert run_check(double) == 4.0
    shown = capsys.readouterr().out
    assert "Exercise 3 · Twice the number   4 of 4 points" in shown
    assert shown.count("✓") == 3
    assert "hint(" not in shown


def test_points_are_a_plain_float_as_nbgrader_wants_it() -> None:
    points = run_check(double)
    assert isinstance(points, float)
    assert float(repr(points)) == 4.0


def test_the_students_copy_says_that_more_will_be_tried(capsys: pytest.CaptureFixture) -> None:
    assert run_check(double, with_hidden=False) == 4.0
    assert "1 more will be tried when your work is graded" in capsys.readouterr().out


def test_partial_credit_goes_by_weight(capsys: pytest.CaptureFixture) -> None:
    assert run_check(lambda numbers: (2 * numbers).float()) == 3.0
    shown = capsys.readouterr().out
    assert "✗ keeps float64\n      what came back is of another kind than expected" in shown


def test_while_the_first_property_fails_nothing_else_counts(
    capsys: pytest.CaptureFixture,
) -> None:
    # Twice a large number and twice one without its fraction are close; the first is not.
    assert run_check(lambda numbers: 2 * numbers.trunc()) == 0.0
    shown = capsys.readouterr().out
    assert "  – not tried until this holds: 2 more" in shown


def test_a_failure_tells_what_was_fed_in_came_back_and_was_expected(
    capsys: pytest.CaptureFixture,
) -> None:
    run_check(lambda numbers: numbers)
    shown = capsys.readouterr().out
    for heading in ("fed in     numbers = float32 tensor of shape (3, 4)", "came back", "expected"):
        assert heading in shown
    assert 'hint("double")' in shown


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (lambda numbers: None, "None came back, expected a float32 tensor"),
        (lambda numbers: (2 * numbers).numpy(), "a float32 array of shape (3, 4) came back"),
        (lambda numbers: 2 * numbers[None], "shape (1, 3, 4) came back"),
        (lambda numbers: (2 * numbers).to(torch.bfloat16), "a bfloat16 tensor"),
        (lambda numbers: torch.full_like(numbers, torch.nan), "12 of 12 values differ"),
        (lambda numbers: numbers @ numbers, "raised RuntimeError"),
        (lambda numbers: sys.exit("bye"), "raised SystemExit: bye"),
        (lambda numbers: object(), "builtins.object is not plain data"),
        (lambda: None, "raised TypeError"),
    ],
)
def test_each_kind_of_wrong_answer_is_told(
    function: object, told: str, capsys: pytest.CaptureFixture
) -> None:
    assert run_check(function) == 0.0
    assert told in capsys.readouterr().out


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise ValueError("no message for you")


class OwnInterrupt(BaseException):
    pass


def raising(error: BaseException) -> object:
    def function(numbers: torch.Tensor) -> torch.Tensor:
        raise error

    return function


def nested(depth: int) -> list:
    value: list = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (raising(UnprintableError()), "raised UnprintableError: (its message cannot be shown)"),
        (raising(OwnInterrupt("stop")), "raised OwnInterrupt: stop"),
        (raising(GeneratorExit()), "raised GeneratorExit"),
        (raising(ValueError("\x1b[2Jgone\r\nnext")), "raised ValueError: �[2Jgone next"),
        (raising(ValueError("x" * 10**6)), "raised ValueError: xxx"),
        (lambda numbers: nested(100_000), "more than 100 levels, one inside another"),
        (lambda numbers: {str(i): i for i in range(10**5)}, "a dict came back"),
        (lambda numbers: "y" * 10**6, "a str came back"),
        (lambda numbers: (yield), "builtins.generator is not plain data"),
        (lambda numbers: numbers.to_sparse(), "came back"),
        (lambda numbers: numbers.to("meta"), "came back"),
        (lambda numbers: numbers.to(torch.complex64), "a complex64 tensor"),
        (lambda numbers: numbers.to(torch.float8_e4m3fn), "a float8_e4m3fn tensor"),
        (lambda numbers: torch.empty(0, 4), "shape (0, 4)"),
        (lambda numbers: np.array([object()]), "came back"),
    ],
)
def test_no_answer_is_too_odd_for_a_report(
    function: object, told: str, capfd: pytest.CaptureFixture
) -> None:
    assert run_check(function) == 0.0
    shown, errors = capfd.readouterr()
    assert told in shown
    assert len(shown) < 4_000
    assert errors == ""
    assert not [line for line in shown.splitlines() if not line.isprintable()]


def meddle(numbers: torch.Tensor) -> torch.Tensor:
    torch.set_default_dtype(torch.float64)
    torch.set_grad_enabled(False)
    torch.set_default_device("meta")
    torch.use_deterministic_algorithms(True)
    torch.autograd.set_detect_anomaly(True)
    np.seterr(all="raise")
    warnings.simplefilter("error")
    sys.stderr = sys.stdout = None
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    os.chdir("/")
    return (numbers.detach().cpu() * 2).to(numbers.dtype)


def test_settings_that_a_student_changes_are_put_back() -> None:
    def settings() -> tuple:
        return (
            torch.get_default_dtype(),
            torch.get_default_device(),
            torch.is_grad_enabled(),
            torch.are_deterministic_algorithms_enabled(),
            torch.is_anomaly_enabled(),
            np.geterr(),
            list(warnings.filters),
            sys.stdout,
            sys.stderr,
            signal.getsignal(signal.SIGALRM),
            os.getcwd(),
        )

    before = settings()
    assert run_check(meddle) == 4.0
    assert settings() == before


needs_modes_told = pytest.mark.skipif(
    not hasattr(torch._C._autograd, "_top_saved_tensors_default_hooks"),
    reason="torch 2.4 does not tell which modes and hooks are set",
)


class AddsOne(TorchFunctionMode):
    def __torch_function__(
        self, func: Callable, types: tuple, args: tuple = (), kwargs: dict | None = None
    ) -> object:
        return func(*args, **(kwargs or {})) + 1


class RunsNothing(TorchDispatchMode):
    def __torch_dispatch__(
        self, func: Callable, types: tuple, args: tuple = (), kwargs: dict | None = None
    ) -> object:
        return args[0]


@pytest.mark.parametrize(
    "make_context",
    [
        lambda: torch.autocast("cpu", dtype=torch.float16),
        lambda: torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False),
        lambda: torch.no_grad(),
        lambda: AddsOne(),
        pytest.param(lambda: RunsNothing(), marks=needs_modes_told),
        pytest.param(
            lambda: torch.autograd.graph.saved_tensors_hooks(lambda x: 1 / 0, lambda x: x),
            marks=needs_modes_told,
        ),
        pytest.param(lambda: torch.autograd.graph.save_on_cpu(), marks=needs_modes_told),
    ],
    ids=["autocast", "no cache", "no_grad", "functions", "operators", "saving", "save_on_cpu"],
)
def test_a_context_that_was_entered_and_never_left_spoils_no_other_exercise(
    make_context: Callable[[], contextlib.AbstractContextManager],
) -> None:
    weight = torch.ones(2, 3, requires_grad=True)

    def multiply(numbers: torch.Tensor) -> torch.Tensor:
        return (weight @ numbers).sum()

    def enter_and_fail(numbers: torch.Tensor) -> torch.Tensor:
        for _ in range(2):
            make_context().__enter__()
        multiply(numbers)
        raise ValueError("it never gets to the end")

    numbers = torch.full((3, 4), 1 + 2.0**-20)
    expected = multiply(numbers)
    assert run_check(enter_and_fail) == 0.0
    seen = multiply(numbers)
    assert (seen.dtype, seen.item()) == (torch.float32, expected.item())
    assert seen.requires_grad
    (slope,) = torch.autograd.grad(seen, weight)
    assert torch.equal(slope, torch.full((2, 3), 4 * (1 + 2.0**-20)))
    before = torch.autocast_increment_nesting()
    assert (before, torch.autocast_decrement_nesting()) == (1, 0)


def test_contexts_of_the_checks_own_are_still_there_after_a_call() -> None:
    with torch.autocast("cpu", dtype=torch.float16):
        assert run_check(double) == 4.0
        assert torch.is_autocast_enabled("cpu")
        assert torch.get_autocast_dtype("cpu") == torch.float16


def test_a_folder_that_is_gone_costs_the_record_alone(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    os.chdir(folder)
    folder.rmdir()
    assert run_check(double) == 4.0


FAILS = report.Result(
    "is right",
    1.0,
    fed=[("x", "float32 tensor of shape (2,): [1, 2]"), ("dim", "0")],
    came_back="[1, 2]",
    expected="[1, 3]",
    again='failing("double")',
)
FAILS.fail("1 of 2 values differ; at [1]: 2 came back, expected 3")


def failing_result(claim: str, reason: str) -> report.Result:
    result = report.Result(claim, 1.0)
    result.fail(reason)
    return result


def test_the_problem_comes_first_and_what_shows_it_after() -> None:
    told = report.as_text(DOUBLE, [report.Result("holds", 1.0, "passed"), FAILS], 2.0)
    lines = [line.strip() for line in told.splitlines()[1:]]
    assert [line.split("  ")[0] for line in lines] == [
        "✗ is right",
        "problem",
        "fed in",
        "came back",
        "expected",
        "✓ holds",
        'Try this case again: failing("double")',
        'Stuck? Run hint("double") in a cell of your own.',
    ]
    page = report.as_html(DOUBLE, [report.Result("holds", 1.0, "passed"), FAILS], 2.0)
    places = [page.index(part) for part in ("is right", "2 came back", "<details>", "holds")]
    assert places == sorted(places)
    assert "\x1b[1;31m      problem" in report.as_text(DOUBLE, [FAILS], 0.0, colored=True)


def test_what_fails_in_the_same_way_is_marked_and_not_told_again() -> None:
    again = failing_result("is right, too", "1 of 5 values differ; at [4]: 7 came back, expected 8")
    other = failing_result("keeps the dtype", "a list came back, expected a tuple")
    told = report.as_text(DOUBLE, [FAILS, again, other], 0.0)
    assert "✗ is right, too (fails with a similar message)" in told
    assert "7 came back" not in told
    assert "a list came back, expected a tuple" in told
    page = report.as_html(DOUBLE, [FAILS, again, other], 0.0)
    assert "1 more fails with a similar message" in page
    assert "7 came back" not in page


def test_every_property_that_fails_says_so_beyond_those_told_with_their_problem() -> None:
    others = [failing_result(f"claim {n}", "abcdef"[n] * 3) for n in range(6)]
    told = report.as_text(DOUBLE, others, 0.0)
    assert "✗ claim 5 (fails, too)" in told


def test_why_points_wait_is_told_once_for_all_properties_that_wait_for_it() -> None:
    results = [report.Result(claim, 1.0) for claim in ("is right", "keeps x", "is fast")]
    for result, doubt in zip(results, ("line 3", "line 7", "line 3"), strict=True):
        result.wait(doubt)
    told = [line.strip() for line in report.as_text(DOUBLE, results, 0.0).splitlines()[1:]]
    assert told == [
        "? is right",
        "? is fast",
        "holds; a person will look at line 3 before the points count",
        "? keeps x",
        "holds; a person will look at line 7 before the points count",
    ]
    page = report.as_html(DOUBLE, results, 0.0)
    assert page.count("a person will look at line 3") == 1


def test_what_is_withheld_is_not_taken_for_the_same_failure() -> None:
    results = [failing_result(f"hidden {name}", "said") for name in ("one", "two")]
    for result in results:
        result.withheld, result.fed = True, [("x", "1")]
    told = report.as_text(DOUBLE, results, 0.0)
    assert told.count("it does not hold") == 2
    assert "similar message" not in told
    assert "said" not in told


def test_a_report_is_at_most_a_screen() -> None:
    words = ("red", "green", "blue", "gray", "pink", "black", "white", "gold", "cyan", "lime")
    results = [failing_result(f"claim {word}", f"the {word} one " * 90) for word in words]
    for result in results:
        result.fed = [("x", "y" * 400)] * 12
        result.printed = "loud\n" * 1000
        result.warned = [f"{result.claim} " * 500]
    told = report.as_text(DOUBLE, results, 0.0)
    assert len(told.splitlines()) <= 40
    assert max(map(len, told.splitlines())) <= 420


def test_hints_stand_in_the_report_each_inside_the_one_before() -> None:
    page = report.as_html(DOUBLE, [FAILS], 0.0)
    first, second, third = (page.index(f"Hint {stage} of 3") for stage in (1, 2, 3))
    assert first < page.index("a first hint") < second < page.index("a second hint") < third
    assert page.count("</details></div></details></div></details>") == 1
    assert "<script" not in page
    assert "Hint" not in report.as_html(DOUBLE, [report.Result("holds", 1.0, "passed")], 4.0)


def test_the_value_of_a_test_cell_is_seen_by_nbgrader_alone() -> None:
    from IPython.core.formatters import DisplayFormatter

    shown, _ = DisplayFormatter().format(Points(2.5))
    assert shown == Points(2.5).as_output()
    assert float(shown["text/plain"]) == 2.5
    assert shown["text/html"].startswith("<!--")


def test_a_stub_is_told_as_such(capsys: pytest.CaptureFixture) -> None:
    def stub(numbers: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError("nothing is written here yet")

    assert run_check(stub) == 0.0
    assert "replace the line that raises NotImplementedError" in capsys.readouterr().out


def test_a_missing_name_is_told(capsys: pytest.CaptureFixture) -> None:
    check = Check("double")
    with check.property("doubles"):
        check.call(never_defined, 1)  # noqa: F821
    assert check.score() == 0.0
    assert "never_defined is not defined: run the cell" in capsys.readouterr().out


class Liar(torch.Tensor):
    """A tensor that claims to be close to everything."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return True


def test_a_tensor_that_lies_is_not_a_tensor(capsys: pytest.CaptureFixture) -> None:
    assert run_check(lambda numbers: (2 * numbers).as_subclass(Liar)) == 0.0
    assert "Liar is not plain data" in capsys.readouterr().out


def test_what_came_back_cannot_change_afterwards() -> None:
    kept = []

    def remember(numbers: torch.Tensor) -> torch.Tensor:
        kept.append(2 * numbers)
        return kept[-1]

    check = Check("double")
    with check.property("doubles"):
        got = check.call(remember, torch.ones(2))
        kept[-1].zero_()
        check.close(got, torch.full((2,), 2.0))
    assert check.score() == 4.0


def test_a_student_who_changes_the_input_does_not_change_ours() -> None:
    check = Check("double")
    with check.property("doubles"):
        numbers = torch.ones(2)
        check.close(check.call(lambda x: x.mul_(2), numbers), torch.full((2,), 2.0))
        check.equal(numbers, torch.ones(2))
    assert check.score() == 4.0


def test_a_probe_shows_a_changed_input(capsys: pytest.CaptureFixture) -> None:
    check = Check("double")
    with check.property("leaves its input as it was"):
        numbers = torch.ones(2)
        seen = check.call(probes.after_call, lambda x: x.mul_(2), numbers)
        check.equal(seen["arguments"][0], numbers, what="the input after the call")
    assert check.score() == 0.0
    assert "the input after the call: 2 of 2 values differ" in capsys.readouterr().out


def test_a_probe_tells_that_an_input_requires_a_gradient_afterwards(
    capsys: pytest.CaptureFixture,
) -> None:
    check = Check("double")
    with check.property("leaves its input as it was"):
        check.call(probes.after_call, lambda x: 2 * x.requires_grad_(True), torch.ones(2))
    assert check.score() == 0.0
    told = "argument 1 requires a gradient after the call, but did not before"
    assert told in capsys.readouterr().out


def noisy(numbers: torch.Tensor) -> torch.Tensor:
    warnings.warn("this is deprecated", DeprecationWarning, stacklevel=1)
    print("debugging", numbers.shape)
    print("to stderr", file=sys.stderr)
    logging.getLogger("student").warning("to the log")
    os.write(2, b"from C++\n")
    return 2 * numbers


def test_a_right_answer_that_warns_passes_and_leaves_stderr_clean(
    capfd: pytest.CaptureFixture,
) -> None:
    assert run_check(noisy) == 4.0
    shown, errors = capfd.readouterr()
    assert errors == ""
    assert "Your code warned (no points lost): DeprecationWarning: this is deprecated" in shown
    assert "Your code printed: debugging torch.Size([3, 4])" in shown


def test_a_flood_of_output_is_cut(capsys: pytest.CaptureFixture) -> None:
    def flood(numbers: torch.Tensor) -> torch.Tensor:
        for _ in range(1000):
            print("x" * 10_000)
        return 2 * numbers

    assert run_check(flood) == 4.0
    assert len(capsys.readouterr().out) < 5_000


def test_an_endless_loop_costs_its_property(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(calling, "SECONDS_PER_CALL", 0.2)

    def loops_on_large_numbers(numbers: torch.Tensor) -> torch.Tensor:
        while numbers.abs().max() > 1e3:
            with contextlib.suppress(Exception):
                time.sleep(0.01)
        return 2 * numbers

    assert run_check(loops_on_large_numbers) == 2.0
    assert "did not return within" in capsys.readouterr().out


def test_an_array_and_nested_values_are_compared_exactly() -> None:
    expected = {"rows": [np.arange(3.0), 2], "name": ("a", True)}
    for got, same in (
        ({"rows": [np.arange(3.0), 2], "name": ("a", True)}, True),
        ({"rows": [np.arange(3.0), 2.0], "name": ("a", True)}, False),
        ({"rows": [np.arange(3), 2], "name": ("a", True)}, False),
        ({"rows": [np.arange(3.0), 2], "name": ("a", 1)}, False),
        ({"rows": [np.arange(3.0), 2], "name": ["a", True]}, False),
        ({"rows": [np.arange(3.0)], "name": ("a", True)}, False),
        ({"rows": [np.arange(3.0), 2]}, False),
    ):
        check = Check("double")
        with check.property("nested"):
            check.close(check.call(lambda value=got: value), expected)
        assert (check.score() == 4.0) is same


def test_comparing_outside_a_property_is_refused() -> None:
    with pytest.raises(RuntimeError, match=r'"double": call and compare inside'):
        Check("double").true(True, "never")


def test_a_condition_must_be_true_itself(capsys: pytest.CaptureFixture) -> None:
    check = Check("double")
    with check.property("is true"):
        check.true(torch.tensor(True), "a tensor is not a verdict")
    assert check.score() == 0.0


def test_an_unknown_exercise_names_the_nearest() -> None:
    with pytest.raises(KeyError, match='no exercise "doubel"; did you mean "double"'):
        Check("doubel")


def test_a_check_without_properties_scores_nothing() -> None:
    assert Check("double").score() == 0.0


def test_the_html_report_escapes_what_students_write() -> None:
    from helpers import report

    result = report.Result("says <b>", 1.0)
    result.fail("<script>alert(1)</script>")
    shown = report.as_html(DOUBLE, [result], 0.0)
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown


def report_of(function: Callable, *args: object, **kwargs: object) -> str:
    """Return what the student reads when a call of ``function`` is refused."""
    texts = []

    def publish(exercise: Exercise, results: list, points: float) -> None:
        texts.append(report.as_text(exercise, results, points))

    check = Check("double", publish=publish)
    with check.property("is something else"):
        check.call(function, *args, **kwargs)
        check.true(False, "it is not")
    check.score()
    return texts[0]


def test_what_was_fed_in_goes_by_the_names_it_has_where_it_ends_up() -> None:
    def step(total: float, rest: float, item: float) -> tuple:
        return total + item, rest

    def tune(model: torch.nn.Module, rate: float) -> float:
        return rate

    told = report_of(probes.fold, step, [1.0, 0.5], [2.0])
    assert "state = [1.0, 0.5]" in told
    assert "items = [2.0]" in told
    told = report_of(probes.network, tune, [["Linear", 2, 3]], 0.25)
    assert "layers = [['Linear', 2, 3]]" in told
    assert "rate = 0.25" in told
    told = report_of(probes.gradient, lambda x, k: k * x, torch.ones(2), 3.0)
    assert "x = float32 tensor of shape (2,): [1, 1]" in told
    assert "k = 3" in told
    told = report_of(probes.after_call, probes.module, torch.nn.Linear, 4, 3, steps=[("state",)])
    assert "in_features = 4" in told
    assert "steps = [('state',)]" in told


def test_of_what_a_marked_probe_gets_only_what_is_fed_in_is_told() -> None:
    def fails(write: Callable, path: str) -> None:
        raise OSError

    given = {"numbers": torch.ones(1), "places": torch.tensor([0]), "size": 3, "before": False}
    told = report_of(probes.deterministic_results, lambda size: None, True, **given)
    assert re.search(r"^ +fed in +size = True$", told, re.MULTILINE)
    told = report_of(probes.writes, fails, len, print, 1, path="a.txt")
    assert re.search(r"^ +fed in +path = 'a.txt'$", told, re.MULTILINE)
    told = report_of(probes.seeded_rounds, torch.manual_seed, [3, 4], 2, 7)
    assert re.search(r"^ +fed in +seeds = \[3, 4\]$", told, re.MULTILINE)


@pytest.mark.parametrize(
    ("got", "expected", "told"),
    [
        (
            torch.tensor([40493.2]),
            torch.tensor([40493.203]),
            "40493.199 came back, expected 40493.203",
        ),
        ([1.0, 4.0, 1024.003], [1.0, 4.0, 1024.0], "at [2]: 1024.003 came back, expected 1024"),
        (1.0000049, 1.0000051, "1.0000049 came back, expected 1.0000051"),
        (0.5, 1.25, "0.5 came back, expected 1.25"),
        (1e308, -1e308, "1e+308 came back, expected -1e+308"),
        (0.1 + 0.2, 0.3, "0.30000000000000004 came back, expected 0.29999999999999999"),
        (torch.tensor(1 + 2j), torch.tensor(1 + 3j), "(1+2j) came back, expected (1+3j)"),
    ],
)
def test_as_many_digits_are_shown_as_it_takes_to_see_the_difference(
    got: object, expected: object, told: str
) -> None:
    assert find_difference(got, expected, rtol=0.0, atol=0.0).endswith(told)


def test_a_tensor_is_shown_with_the_digits_in_which_it_differs(
    capsys: pytest.CaptureFixture,
) -> None:
    check = Check("double")
    with check.property("the squares"):
        check.close(
            check.call(lambda: torch.tensor([1.0, 4, 1024.02])), torch.tensor([1.0, 4, 1024])
        )
    check.score()
    shown = capsys.readouterr().out
    assert "came back  float32 tensor of shape (3,): [1, 4, 1024.02]" in shown
    assert "expected   float32 tensor of shape (3,): [1, 4, 1024]" in shown


@pytest.mark.parametrize(
    ("got", "expected", "bits"),
    [
        (
            torch.tensor([1 + 2.0**-10], dtype=torch.float16),
            torch.tensor([1.0], dtype=torch.float16),
            ("0 01111 0000000001 = 0x3c01", "0 01111 0000000000 = 0x3c00"),
        ),
        (
            torch.tensor([-2.5], dtype=torch.float8_e4m3fn),
            torch.tensor([-3.5], dtype=torch.float8_e4m3fn),
            ("1 1000 010 = 0xc2", "1 1000 110 = 0xc6"),
        ),
        (torch.tensor([16257]), torch.tensor([16256]), ("0x3f81", "0x3f80")),
        (torch.tensor([-16448]), torch.tensor([49088]), ()),  # of the same 16 bits
        (torch.tensor([7]), torch.tensor([8]), ()),
        (torch.tensor([1.5]), torch.tensor([2.5]), ()),
        (torch.tensor([1j]), torch.tensor([2j]), ()),
        (torch.tensor([True]), torch.tensor([False]), ()),
    ],
)
def test_bits_are_told_where_they_tell_the_difference(
    got: torch.Tensor, expected: torch.Tensor, bits: tuple[str, ...]
) -> None:
    found = compare(got, expected, rtol=0.0, atol=0.0)
    assert all(shown.endswith(end) for shown, end in zip(found.bits, bits, strict=True))
    rounded = compare(got, expected)  # within rounding, nobody asks for the last bit
    assert rounded is None or rounded.bits == ()


def test_what_was_fed_in_where_an_exact_result_differs_comes_first_with_all_digits(
    capsys: pytest.CaptureFixture[str],
) -> None:
    x = torch.full((5, 9), 2.0)
    x[3, 4] = torch.tensor(1024.0).nextafter(torch.tensor(0.0))
    for compare_by, shown in (("equal", "x[3, 4] = 1023.99994, x = "), ("close", "x = ")):
        check = Check("double")
        with check.property("is the number itself"):
            got = check.call(lambda x, y: x.bfloat16().float(), x, torch.ones(3))
            getattr(check, compare_by)(got, x, **({"rtol": 0.0} if compare_by == "close" else {}))
        check.score()
        assert f"fed in     {shown}float32 tensor of shape (5, 9)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("number", "dtype", "text"),
    [
        (1024 - 2.0**-14, torch.float32, "1023.99994"),
        (0.1, torch.float64, "0.1"),
        (0.1 + 0.2, torch.float64, "0.30000000000000004"),
        (1 / 3, torch.bfloat16, "0.333984"),
        (math.nan, torch.float32, "nan"),
        (12345678, torch.int64, "12345678"),
        (True, torch.bool, "True"),
    ],
)
def test_an_entry_is_written_with_the_digits_that_tell_it_from_others(
    number: float, dtype: torch.dtype, text: str
) -> None:
    assert write_out(torch.tensor(number, dtype=dtype)) == text


def test_of_values_without_that_place_or_without_numbers_no_entry_is_told() -> None:
    named = [("x", torch.ones(2, 3)), ("y", torch.ones(3)), ("n", 4)]
    named += [("meta", torch.empty(2, 3, device="meta")), ("k", torch.arange(6).view(2, 3))]
    assert entries_at(((2, 3), (1, 0)), named) == [("x[1, 0]", "1"), ("k[1, 0]", "3")]


def test_the_students_copies_have_the_stub_that_checks_know() -> None:
    from helpers.calling import STUB_MESSAGE

    config = (Path(__file__).parents[1] / "course" / "nbgrader_config.py").read_text("utf-8")
    assert f'raise NotImplementedError("{STUB_MESSAGE}")' in config


def test_a_librarys_own_refusal_is_not_taken_for_a_stub(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def refused() -> None:
        raise NotImplementedError("no kernel for this dtype")

    check = Check("double", seed=0)
    with check.property("p"):
        check.call(refused)
    check.score()
    shown = capsys.readouterr().out
    assert "no kernel for this dtype" in shown
    assert "nothing is written" not in shown


def test_a_check_leaves_the_global_generators_as_they_were() -> None:
    def seeding(numbers: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(3)
        random.seed(3)
        np.random.seed(3)
        return 2 * numbers

    before = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
    check = Check("double")
    with check.property("doubles"):
        numbers = check.draw.normal(3)
        check.close(check.call(seeding, numbers), 2 * numbers)
        check.restart()
        check.close(check.call(seeding, numbers), 2 * numbers)
    check.score()
    after = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
    assert after == before


def test_what_of_the_same_call_was_right_is_told_beside_the_problem(
    capsys: pytest.CaptureFixture,
) -> None:
    check = Check("double")
    with check.property("a pair, twice"):
        for gradient in (1.0, 2.0):
            loss, slope = check.call(lambda: (0.5, 1.0))
            check.close(loss, 0.5, what="the loss")
            check.close(slope, gradient, what="the gradient")
    check.score()
    shown = capsys.readouterr().out
    assert "the gradient: 1 came back, expected 2" in shown
    assert re.search(r"^ +right +the loss$", shown, re.MULTILINE), shown


def test_what_is_found_by_reading_is_told_without_what_was_right(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    chapter = Chapter("01-sample", "A sample", (replace(DOUBLE, defines=("double",)),))
    monkeypatch.setattr(catalogue, "load_chapters", lambda: (chapter,))
    with reading([Cell("def double(x):\n    return [2 * n for n in x]", "cell [1]")]):
        check = Check("double")
        with check.property("doubles, without a loop"):
            for numbers in (torch.ones(2), torch.ones(3)):
                check.close(check.call(double, numbers), 2 * numbers, what="ones")
            check.written_without(loops=True)
        check.score()
    shown = capsys.readouterr().out
    assert "line 2 of cell [1] uses a comprehension" in shown
    assert not re.search("right +ones", shown), shown


def test_what_may_hide_a_loop_waits_for_a_person(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    chapter = Chapter("01-sample", "A sample", (replace(DOUBLE, defines=("double",)),))
    monkeypatch.setattr(catalogue, "load_chapters", lambda: (chapter,))
    items = "class A:\n    def __getitem__(self, i): return x[i]\ndef double(x): return 2 * A()[:]"
    with reading([Cell(items, "cell [1]")]):
        check = Check("double")
        with check.property("doubles, without a loop"):
            check.written_without(loops=True)
        with check.property("doubles"):
            check.close(check.call(double, 1.0), 2.0)
        check.score()
    assert [result.outcome for result in check.results] == ["waiting", "waiting"]
    shown = capsys.readouterr().out
    assert "the method `__getitem__` in line 2 of cell [1]" in shown
