"""A cell as plain Python: the same lines, whatever IPython adds, read in one pass."""

from __future__ import annotations

import ast
import sys
import time
import types
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from IPython.core.inputtransformer2 import TransformerManager

from helpers.reading import cells, history
from helpers.reading.cells import Cell, LeftOut, as_python, digest, left_out, parse

PYTHON = [
    ("x = 1", "x = 1"),
    ("x = 7 % 3\ny = [1,\n%matplotlib\n]", "x = 7 % 3\ny = [1,\n%matplotlib\n]"),
    ("x = (1\n%matplotlib\n)\n%matplotlib inline", "x = (1\n%matplotlib\n)\npass"),
    ("!ls\n!!ls\nx = 1", "pass\npass\nx = 1"),
    ("if a:\n    !ls\n    %cd x\nelse:\n\tx?", "if a:\n    pass\n    pass\nelse:\n\tpass"),
    ("x = !ls", "x = []"),
    ("x = %who", "x = []"),
    ("a, b = !ls -l \\\n  more\ny = 2", "a, b = []\n\ny = 2"),
    ("!ls \\\n  more\ny = 2", "pass\n\ny = 2"),
    ("%time x = f(y)", "x = f(y)"),
    ("x = %time f(y)", "x = f(y)"),
    ("%timeit -n 3 -r 2 f(x)", "f(x)"),
    ("%timeit -n3 -r2 -q f(x)", "f(x)"),
    ("%timeit -o -n 3", "pass"),
    ("%time -f (x)", "-f (x)"),
    ("%prun -s cumulative f(x)", "f(x)"),
    ("%prun -D file f(x)", "pass"),
    ("%time !ls", "pass"),
    ("%time f(\nx)", "pass\nx)"),  # to IPython these are two lines
    ("%time '''\nf()\n%time '''", "pass\nf()\npass"),
    ("%%time\nx = 1", "\nx = 1"),
    ("%%timeit -n 3\nf(x)", "\nf(x)"),
    ("%%timeit x = 1\nf(x)", "x = 1\nf(x)"),
    ("%%capture out\n!ls\nx = 1", "\npass\nx = 1"),
    ("\n\n%%time\n%%capture\nx = 1", "\n\n\n\nx = 1"),
    ("%%bash\nls\nx = 1", "\n\n"),
    ("%%timer\nx = 1", "\n"),
    ("%%time\n%%html\nx", "\n\n"),
    ("x?\n?x\nx.y??\nx[0]?\n%time?", "pass\npass\npass\npass\npass"),
    ("f(x)?\n", "f(x)?\n"),  # neither runs
    ("/f x\n,f x\n;f x", "pass\npass\npass"),
    ('x = """\n!ls\n%time is\nx?\n"""\n!ls', 'x = """\n!ls\n%time is\nx?\n"""\npass'),
    ("x = '!ls' # %time\n!ls", "x = '!ls' # %time\npass"),
    ("x = 1 \\\n+ 2\n!ls", "x = 1 \\\n+ 2\npass"),
    ("  x = 1\n  y = 2", "x = 1\ny = 2"),
    (">>> x = 1\n>>> if x:\n...     y = 2", "x = 1\nif x:\n    y = 2"),
    ("In [1]: x = 1", "x = 1"),
    ("\nIn [1]: x = [\n   ...:   1]", "\nx = [\n  1]"),
    ("!ls\r\nx = 1\ry = 2", "pass\nx = 1\ny = 2"),
    ("def f(x:", "def f(x:"),
]


@pytest.mark.parametrize(("code", "python"), PYTHON)
def test_what_only_ipython_understands_is_left_out(code: str, python: str) -> None:
    assert as_python(code) == python


@pytest.mark.parametrize("code", [code for code, _ in PYTHON])
def test_it_reads_as_ipython_does(code: str) -> None:
    """Both find Python at the same places, as far as IPython's rewriting leaves it Python."""
    theirs = try_to_parse(TransformerManager().transform_cell(code))
    ours = parse(code)
    if theirs is None:
        assert ours is None or "%time" in code  # whose text IPython reads when it runs
        return
    assert ours is not None
    stored = [names_bound(tree) for tree in (ours, theirs)]
    assert stored[1] <= stored[0]


def try_to_parse(python: str) -> ast.Module | None:
    try:
        return ast.parse(python)
    except SyntaxError:
        return None


def names_bound(tree: ast.Module) -> set[str]:
    names = (node for node in ast.walk(tree) if isinstance(node, ast.Name))
    return {node.id for node in names if isinstance(node.ctx, ast.Store)}


def test_what_is_left_out_is_told_with_its_line() -> None:
    code = "x = 1\n!ls -l \\\n  more\n%time f(x)\ny = %cd\nz?\n%time ("
    assert left_out(code) == (
        LeftOut(2, "!ls -l \\\n  more"),
        LeftOut(5, "%cd"),
        LeftOut(6, "z?"),
        LeftOut(7, "%time ("),
    )
    assert left_out("%%bash\nls") == (LeftOut(1, "%%bash\nls"),)
    assert left_out("x = 7 % 3") == ()


def test_an_f_string_that_may_go_on_behind_its_quotes_is_told() -> None:
    assert left_out('x = f"{d["a"]}"\n!ls')[-1] == LeftOut(2, "!ls")
    if sys.version_info < (3, 12):
        assert left_out('x = f"{d["a"]}"\n!ls')[0].line == 1


@pytest.mark.parametrize(
    "code",
    ["x = 1 +", "\0", "\ud800", "x = " + "(" * 1000, "-" * 100_000 + "1", "a" + ".a" * 50_000],
    ids=["no Python", "null", "half a character", "brackets", "minus signs", "attributes"],
)  # fmt: skip
def test_what_cannot_be_read_has_no_tree(code: str) -> None:
    assert parse(code) is None


def test_a_digest_is_of_the_text_but_not_of_its_blanks() -> None:
    assert digest("x = 1\n\ny = 2  \n") == digest("x = 1\r\ny = 2")
    assert digest("x = 1") != digest("x = 2")
    assert digest("\ud800")


PIECES = [
    "!ls", "%time ", "%%time", "%%bash", "x", " = ", "?", "\n", "\n    ", "\\\n", '"', "'", '"""',
    "(", ")", "[", "]", "{", "}", "f", "# ", ">>> ", "...", "\r\n", "\t", "1", "%", "def f(x):",
    "\x0c", "\u2028", ";", "/", "é", "\0", "timeit -n 3 ",
]  # fmt: skip


def is_python(code: str) -> bool:
    try:
        ast.parse(code)
    except (SyntaxError, ValueError):
        return False
    return True


@given(st.lists(st.sampled_from(PIECES)).map("".join) | st.text())
@example(">>> >>> ")
def test_lines_keep_their_numbers_and_nothing_raises(code: str) -> None:
    python = as_python(code)
    assert count_lines(python) == count_lines(code)
    assert not is_python(python) or as_python(python) == python
    for piece in left_out(code):
        assert 1 <= piece.line <= count_lines(code)


def count_lines(code: str) -> int:
    return code.replace("\r\n", "\n").replace("\r", "\n").count("\n") + 1


@given(st.lists(st.sampled_from(["x = 1", "if x:\n    y = 2", "!ls", "%cd a", "z?", "w = !ls"])))
def test_every_line_of_python_stays(lines: list[str]) -> None:
    python = as_python("\n".join(lines)).split("\n")
    for number, line in enumerate("\n".join(lines).split("\n")):
        if "!" not in line and not line.startswith("%") and not line.endswith("?"):
            assert python[number] == line


HOSTILE: dict[str, Callable[[int], str]] = {
    "a list and attributes": lambda n: "[" + "0," * n + "]" + ".a" * 50 + "\n!ls",
    "a magic and spaces": lambda n: "%time" + " " * 20 * n + "1\n!ls",
    "spaces and a question": lambda n: "x " + " " * 20 * n + "?",
    "shells": lambda n: "!ls\n" * n,
    "magics": lambda n: "%time x\n" * n,
    "magics of cells": lambda n: "%%time\n" * n,
    "magics in a line": lambda n: "%time " * n,
    "assignments": lambda n: "x = !x" * n,
    "quotes": lambda n: "!ls\n" + "'" * (2 * n + 1),
    "triple quotes": lambda n: "!ls\n" + '"""' * (2 * n + 1),
    "brackets": lambda n: "!ls\n" + "(" * n,
    "backslashes": lambda n: "!ls" + "\\\n" * n,
    "help": lambda n: "a." * n + "?",
    "names": lambda n: "a" * 20 * n + "!?",
}


def count_steps(work: Callable[[], object]) -> int:
    """Return how many lines and calls it takes: whatever the machine is busy with."""
    steps = 0

    def trace(frame: types.FrameType, event: str, argument: object) -> Callable:
        nonlocal steps
        steps += 1
        return trace

    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(None)
    return steps


@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE.keys())
def test_the_work_grows_with_the_length_only(make: Callable[[int], str]) -> None:
    def read(size: int) -> Callable[[], object]:
        code = make(size)
        return lambda: cells._read_anew(code)

    assert count_steps(read(1000)) < 3 * count_steps(read(500)) + 1000


def test_a_long_hostile_cell_takes_no_time_worth_naming() -> None:
    """A step counts as one, however long a regular expression takes for it."""
    for make in HOSTILE.values():
        code = make(4000)
        start = time.process_time()
        cells._read_anew(code)
        assert time.process_time() - start < 5


class History:
    input_hist_raw = ("", "x = 1", "def f(:", "y = 2", "x = 1", "!ls\nz = 3")


def test_the_cells_that_were_run_are_read_from_the_history(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "IPython.get_ipython", lambda: types.SimpleNamespace(history_manager=History)
    )
    assert history.cells_run() == [
        Cell("y = 2", "cell [3]"),
        Cell("x = 1", "cell [4]"),
        Cell("!ls\nz = 3", "cell [5]"),
    ]


def test_where_there_is_no_shell_no_cells_were_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("IPython.get_ipython", lambda: None)
    assert history.cells_run() == []
    monkeypatch.delitem(sys.modules, "IPython")
    assert history.cells_run() == []


def test_a_test_may_say_which_cells_were_run() -> None:
    given = [Cell("x = 1", "cell [1]")]
    with history.reading(given):
        assert history.cells_run() == given
    assert history.cells_run() == []
