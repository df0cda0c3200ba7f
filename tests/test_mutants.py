"""Mutants of solutions: which there are, what kills them, and what is said of the rest."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from course_files import EXERCISES, ROOT, find_cell, source
from mutants import trials
from mutants.explained import (
    ExplanationError,
    no_longer_there,
    read_explanations,
)
from mutants.forks import run_in_fork
from mutants.making import Mutant, make_mutants
from mutants.outcome import Outcome, make_tables
from mutants.trials import CannotBeTriedError, Cells, Choice, Tried, try_mutants
from rich.console import Console

from helpers import catalogue
from helpers.catalogue import Chapter, Exercise

DOUBLE = Exercise(
    name="double",
    title="Twice the number",
    chapter="01-sample",
    number=1,
    points=4,
    minutes=5,
    difficulty=1,
    visible=1,
    hidden=1,
    hints=("a first hint", "a second hint", "a third hint"),
)


def solution(*lines: str) -> str:
    body = "".join(f"    {line}\n" for line in lines)
    return f"def f(x, n=2):\n    ### BEGIN SOLUTION\n{body}    ### END SOLUTION\n"


def changes(*lines: str) -> set[tuple[str, str]]:
    return {(mutant.was, mutant.became) for mutant in make_mutants(solution(*lines))}


# --- Which mutants there are -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "became"),
    [
        ("return x < n", ["return x <= n", "return x >= n"]),
        ("return x + n", ["return x - n"]),
        ("return x and n", ["return x or n", "return x", "return n"]),
        ("return not x", ["return x"]),
        ("return x[1:n]", ["return x[:n]", "return x[1:]", "return x[1:n + 1]", "return x[0:n]"]),
        ("return 5", ["return 6", "return 4", "return 0"]),
        ("return True", ["return False"]),
        ("return x", ["return n", ""]),
        ("return (x, n)", ["return (n, x)"]),
        ("x += 1", ["x -= 1", "x = 1", "x += 2", ""]),
        ("return torch.sqrt(x)", ["return x"]),
        ("return x.detach()", ["return x"]),
        ("return x.sum(dim=1)", ["return x.sum()", "return x.sum(dim=2)", "return x.mean(dim=1)"]),
        ("return f(x, n)", ["return f(n, x)"]),
        ("return range(x)", ["return range(x + 1)", "return range(x - 1)"]),
        ("return range(3)", ["return range(4)", "return range(2)"]),
        ("return x.to(torch.float32)", ["return x.to(torch.float64)"]),
        ("return [y for y in x if y]", ["return [y for y in x]"]),
        ("return x if n else 1", ["return x if not n else 1"]),
        ("x.step()", [""]),
    ],
)
def test_a_line_becomes(line: str, became: list[str]) -> None:
    assert {(line, other) for other in became} <= changes(line, "pass")


def test_a_block_is_left_out_with_what_is_in_it_and_without() -> None:
    found = changes("with guard():", "    x.step()")
    assert ("with guard():; x.step()", "pass") in found
    assert ("with guard():", "") in found
    found = changes("if x:", "    x = 1")
    assert ("if x:", "if not x:") in found
    assert ("while x:", "while not x:") in changes("while x:", "    break")


def test_what_is_given_stays() -> None:
    for mutant in make_mutants(solution("return x")):
        assert ast.unparse(ast.parse(mutant.code).body[0].args) == "x, n=2"


def test_what_means_the_same_anyway_is_no_mutant() -> None:
    found = changes("return max(x, n)", "return torch.minimum(x, n)", "return x in (1, 2)")
    assert not [new for _, new in found if "(n, x)" in new or "(2, 1)" in new]
    assert changes("return range(3)") == {
        ("return range(3)", new) for new in ("pass", "return range(4)", "return range(2)")
    } | {("return range(3)", f"return {new}") for new in ("range(0)", "range()", "3")}


def test_an_error_s_words_and_what_asserts_alone_stay() -> None:
    found = changes("raise ValueError(f'{x + 1}')", "return zip(x, n, strict=True)")
    assert not [new for _, new in found if "x - 1" in new or ("strict" not in new and "zip" in new)]


def test_each_mutant_is_one_of_its_kind_and_can_be_compiled() -> None:
    cells = [find_cell(source(e.chapter), e.name).source for e in EXERCISES[::9]]
    for code in [*cells, solution("return x + 0 if x else (x,)")]:
        found = make_mutants(code)
        dumps = [ast.dump(ast.parse(mutant.code)) for mutant in found]
        assert len(set(dumps)) == len(dumps)
        assert ast.dump(ast.parse(code)) not in dumps
        keys = [(mutant.was, mutant.became, mutant.place) for mutant in found]
        assert len(set(keys)) == len(keys)
        assert found == make_mutants(code)


def test_a_cap_spreads_over_the_whole_solution() -> None:
    code = solution(*(f"x = x + {i}" for i in range(3, 13)))
    few = make_mutants(code, 4)
    assert len(few) == 4
    every = make_mutants(code)
    assert every.index(few[-1]) > len(every) / 2


def test_lines_that_read_the_same_are_told_apart() -> None:
    found = make_mutants(solution("x.step()", "x = n", "x.step()"))
    assert [m.place for m in found if (m.was, m.became) == ("x.step()", "")] == [1, 2]


# --- What kills them ---------------------------------------------------------------------------

TEST = """
check = Check("double")
with check.property("doubles"):
    check.equal(check.call(double, 3), 6)
{hidden}
check.score()
"""
HIDDEN = """
with check.property("doubles what is negative"):
    check.equal(check.call(double, -3), -6)
"""
REFERENCE = """
def double(x):
    ### BEGIN SOLUTION
    return abs(x) * 2 if x > 0 else -FACTOR * -x
    ### END SOLUTION
"""


@pytest.fixture
def sample_course(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "_LEAST_SECONDS", 1.0)
    chapters = (Chapter("01-sample", "A sample", (DOUBLE,)),)
    monkeypatch.setattr(catalogue, "load_chapters", lambda: chapters)


def try_double(code: str, *, visible_only: bool = False) -> dict[str, str]:
    test = TEST.format(hidden="" if visible_only else HIDDEN)
    cells = Cells(("from helpers import Check", "FACTOR = 2"), code, (), test)
    found = try_mutants(DOUBLE, cells, Choice(visible_only, seeds=(1,)))
    return {
        mutant.became: "".join(sorted(survived))
        for mutant, survived in zip(make_mutants(code), found, strict=True)
    }


@pytest.mark.usefixtures("sample_course")
def test_which_check_a_mutant_survives() -> None:
    tried = try_double(REFERENCE)
    assert tried["return abs(x) / 2 if x > 0 else -FACTOR * -x"] == ""
    assert tried["return abs(x) * 2 if x > 0 else -FACTOR * x"] == "v"
    assert tried["return abs(x) * 2 if x >= 0 else -FACTOR * -x"] == "vw"
    visible = try_double(REFERENCE, visible_only=True)
    assert {text: "v" if survived else "" for text, survived in tried.items()} == visible


@pytest.mark.usefixtures("sample_course")
@pytest.mark.parametrize(
    "does",
    ["import os; os._exit(0)", "while True: pass", "list(range(10 ** 12))", "raise SystemExit"],
)
def test_what_ends_the_process_or_never_ends_is_killed(does: str) -> None:
    lines = ("if x < 0:", f"    {does}", "return 2 * x")
    code = solution(*lines).replace("f(x, n=2)", "double(x)").replace("x < 0", "x == 77")
    assert try_double(code)["if not x == 77:"] == ""


@pytest.mark.usefixtures("sample_course")
def test_a_reference_that_fails_is_told() -> None:
    code = solution("return 3 * x").replace("f(x, n=2)", "double(x)")
    with pytest.raises(CannotBeTriedError):
        try_double(code)


def test_a_fork_that_sleeps_is_ended() -> None:
    def body(tell: Callable[[str], None]) -> None:
        tell("begun")
        time.sleep(60)

    begun = time.monotonic()
    assert run_in_fork(body, 0.2).said == "begun"
    assert time.monotonic() - begun < 30


# --- What is said of the rest ------------------------------------------------------------------

ENTRY = """
[[double]]
was = "return x + 1"
became = "return x - 1"
reason = "nothing is added up here"
"""
MUTANT = Mutant("return x + 1", "return x - 1", 1, "")


def explained(folder: Path, text: str) -> Outcome:
    file = folder / "reasons.toml"
    file.write_text(text)
    return Outcome(read_explanations(file))


def test_a_survivor_without_a_reason_is_shown(tmp_path: Path) -> None:
    outcome = explained(tmp_path, "")
    outcome.tried = [Tried(DOUBLE, MUTANT, survives_visible=True, survives_whole=False)]
    assert [survivor.survives for survivor in outcome.unexplained()] == ["visible"]
    console = Console(width=160, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    for part in make_tables(outcome):
        console.print(part)
    text = console.export_text()
    assert "- return x + 1\n+ return x - 1" in text
    assert "01-sample · double: survives the visible check" in text


@pytest.mark.parametrize(
    ("only", "whole", "unexplained"),
    [("", True, 0), ("", False, 0), ("visible", False, 0), ("visible", True, 1)],
)
def test_a_reason_holds_for_the_check_it_names(
    tmp_path: Path, only: str, whole: bool, unexplained: int
) -> None:
    outcome = explained(tmp_path, ENTRY + (f'survives = "{only}"\n' if only else ""))
    outcome.tried = [Tried(DOUBLE, MUTANT, survives_visible=True, survives_whole=whole)]
    assert len(outcome.unexplained()) == unexplained


def test_a_reason_for_what_is_killed_or_gone_is_told(tmp_path: Path) -> None:
    outcome = explained(tmp_path, ENTRY)
    outcome.tried = [Tried(DOUBLE, MUTANT, survives_visible=False, survives_whole=False)]
    assert outcome.killed_all_the_same() == outcome.explanations
    assert no_longer_there(outcome.explanations, [("double", MUTANT)]) == []
    assert no_longer_there(outcome.explanations, [("triple", MUTANT)]) == outcome.explanations


@pytest.mark.parametrize("line", ['survives = "neither"', 'word = "x"', 'place = "2"'])
def test_a_reason_that_cannot_be_read_is_an_error(tmp_path: Path, line: str) -> None:
    with pytest.raises(ExplanationError):
        explained(tmp_path, f"{ENTRY}{line}\n")


def test_every_reason_speaks_of_a_mutant() -> None:
    there = [
        (exercise.name, mutant)
        for exercise in EXERCISES
        for mutant in make_mutants(find_cell(source(exercise.chapter), exercise.name).source)
    ]
    assert no_longer_there(read_explanations(), there) == []


def test_the_command_tries_an_exercise_of_the_course() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mutants", "kahan-add", "--cap", "2", "--jobs", "1"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "tests")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "02-float-formats" in done.stdout
