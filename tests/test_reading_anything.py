"""Whatever stands in a cell, reading it raises nothing, tells places that are there, and ends."""

from __future__ import annotations

import ast
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.grading.judge.demos import find_needed_demos
from helpers.grading.judge.meaning import comparable, read_meaning
from helpers.reading import rules
from helpers.reading.cells import Cell, as_python, digest, left_out, parse
from helpers.reading.doubts import Doubt
from helpers.reading.plain_code import find_doubts
from helpers.reading.reach import find_reach, find_standing

GIVEN = [Cell("import torch\nfrom torch import nn\nFORMATS = {}", "", True)]


def read_all(codes: list[str]) -> None:
    """Ask everything that is ever asked of cells, and hold the answers to what they must be."""
    cells = [Cell(code, str(place)) for place, code in enumerate(codes)]
    for code in codes:
        python = as_python(code)
        tree = parse(code)
        assert tree is None or isinstance(tree, ast.Module)
        assert tree is None or parse(python) is not None
        left_out(code)
        digest(code)
        read_meaning(code)
        comparable(code)
    standing = find_standing(cells)
    assert set(standing) <= set(range(len(cells)))
    reached = find_reach([*GIVEN, *cells], len(cells), ["f"])
    assert len(cells) in reached
    assert 0 not in reached
    find_needed_demos(map(as_python, codes), ["f = 1", "x = f"])
    finds: list[Doubt | None] = [*find_doubts(cells, GIVEN)]
    finds += [rules.find_named(cells, ["*soft*", "f"], wanted) for wanted in ((), ["f"], ["x"])]
    finds += [rules.find_loop(cells, wanted) for wanted in ((), ["f"])]
    line_counts = [len(as_python(code).splitlines()) for code in codes]
    for found in filter(None, finds):
        assert 1 <= found.line <= line_counts[int(found.label)] + 1
        assert found.what


NAMES = ["f", "x", "torch", "self", "softmax", "getattr", "F"]
name = st.sampled_from(NAMES)
expression = st.recursive(
    name | st.sampled_from(["1", "'softmax'", "f'{x}'", "[]", "{}", "..."]),
    lambda part: st.one_of(
        st.builds("{}.{}".format, part, name),
        st.builds("{}({}, {n}={})".format, part, part, part, n=name),
        st.builds("{}[{}]".format, part, part),
        st.builds("({} + {})".format, part, part),
        st.builds("(lambda {}: {})".format, name, part),
        st.builds("[{} for {} in {}]".format, part, name, part),
        st.builds("({} if {} else {})".format, part, part, part),
        st.builds("({} := {})".format, name, part),
        st.builds("({}, *{})".format, part, part),
    ),
    max_leaves=8,
)
simple = st.one_of(
    expression,
    st.builds("{} = {}".format, name, expression),
    st.builds("{}, {} = {}".format, name, name, expression),
    st.builds("{}.{} = {}".format, name, name, expression),
    st.builds("{}[{}] += {}".format, name, expression, expression),
    st.builds("import {} as {}".format, name, name),
    st.builds("from {} import {}".format, name, st.sampled_from(["*", *NAMES])),
    st.builds("global {}".format, name),
    st.builds("del {}".format, name),
    st.builds("return {}".format, expression),
    st.builds("%time {}".format, expression),
    st.builds("assert {}, {}".format, expression, expression),
    st.sampled_from(["!ls", "pass", "x?", "raise"]),
)


def indented(code: str) -> str:
    return "\n".join(f"    {line}" for line in code.split("\n"))


def block(head: st.SearchStrategy[str], body: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds(lambda head, body: f"{head}:\n{indented(body)}", head, body)


def blocks(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    heads = st.one_of(
        st.builds("def {}({}, *{}x)".format, name, name, name),
        st.builds("@{}\ndef {}(self)".format, expression, name),
        st.builds("class {}({})".format, name, name),
        st.builds("for {} in {}".format, name, expression),
        st.builds("while {}".format, expression),
        st.builds("if {}".format, expression),
        st.builds("with {} as {}".format, expression, name),
    )
    tries = st.builds(
        "try:\n{}\nexcept {} as {}:\n    pass".format, inner.map(indented), name, name
    )
    cases = st.builds(
        "match {}:\n    case {}({}={}):\n        pass".format, expression, name, name, name
    )
    return st.one_of(block(heads, inner), tries, cases, st.lists(inner, max_size=3).map("\n".join))


cell = st.recursive(simple, blocks, max_leaves=12)
noise = st.text() | st.lists(
    st.sampled_from(
        [*NAMES, " ", "\n", "\n    ", "(", ")", "[", "]", "{", "}", '"', "'", ":", "=", ".", ",",
         "%", "!", "?", "\\\n", "def ", "class ", "@", "*", "lambda ", " for ", " in ", "f'",
         "\x0c"]
    )
).map("".join)  # fmt: skip


@given(st.lists(cell | noise, min_size=1, max_size=4))
def test_whatever_stands_in_cells_is_read(codes: list[str]) -> None:
    read_all(codes)


def lines(line: str, count: int = 20_000) -> str:
    return (line + "\n") * (count // (len(line) + 1))


# 20 KB each.
LARGE: dict[str, Callable[[], str]] = {
    "one chain of attributes": lambda: "x = [" + "0," * 5_000 + "]" + ".a" * 5_000,
    "chains of attributes": lambda: lines("x" + ".a" * 500),
    "a chain of calls": lambda: "x" + ".a()" * 5_000,
    "a chain of items": lambda: "x" + "[0]" * 6_600,
    "calls in calls": lambda: lines("f(" * 80 + ")" * 80),
    "calls in calls without end": lambda: "f(" * 6_600 + ")" * 6_600,
    "brackets without end": lambda: "[" * 10_000 + "]" * 10_000,
    "lists in lists": lambda: lines("[" * 80 + "]" * 80),
    "lambdas in lambdas": lambda: lines("lambda x: " * 80 + "x"),
    "comprehensions in each other": lambda: lines("[x for x in " * 40 + "y" + "]" * 40),
    "a comprehension of many": lambda: "[x " + "for x in y " * 1_800 + "]",
    "texts with fields": lambda: 'f"' + "{a}" * 6_600 + '"',
    "texts with fields in fields": lambda: lines("f\"{f'{a}'}{b}\""),
    "items in items": lambda: lines("x: " + "x[" * 80 + "y" + "]" * 80),
    "alternatives": lambda: lines("isinstance(x, " + "|".join(["a"] * 90) + ")"),
    "a sum": lambda: "x = " + "+".join(["a"] * 10_000),
    "minus signs": lambda: "x = " + "-" * 20_000 + "1",
    "conditions": lambda: "x = " + "a if b else " * 1_600 + "c",
    "else if": lambda: "if a: pass\n" + "elif a: pass\n" * 1_500,
    "statements": lambda: "x;" * 10_000,
    "functions in functions": lambda: (
        ("\n".join(" " * i + "def f(x):" for i in range(90)) + "\n" + " " * 90 + "return f\n") * 4
    ),
    "classes in classes": lambda: (
        ("\n".join(" " * i + "class A:" for i in range(90)) + "\n" + " " * 90 + "self.a = A\n") * 4
    ),
    "functions that call each other": lambda: "\n".join(
        f"def f{i}(a): a.b = f{i * 7919 % 320}(a), f{i * 104729 % 320}\nf{i}(x)"
        for i in range(320)
    ),
    "names for names": lambda: (
        ",".join(f"x{i}" for i in range(1_400)) + " = " + ",".join(f"f{i}" for i in range(1_400))
    ),
    "decorators": lambda: "@f\n" * 6_600 + "def f(): pass",
    "a magic and spaces": lambda: "%time" + " " * 40_000 + "x?",
    "magics and spaces": lambda: lines("%time" + " " * 400 + "x"),
    "a text": lambda: "x = '" + "a." * 10_000 + "'",
    "quotes": lambda: "!ls\n" + "'" * 20_000,
    "ends of lines": lambda: "\r" * 20_000 + "!ls",
    "tries": lambda: lines("y = F.softmax(f(x), ref)\nassert y == x"),
}  # fmt: skip


@pytest.mark.parametrize("make", LARGE.values(), ids=LARGE.keys())
def test_a_large_cell_is_read_in_bounded_time(make: Callable[[], str]) -> None:
    """What grew with the square of the length took minutes."""
    start = time.process_time()
    read_all([make(), "def f(x): return x + x1 + x2"])
    assert time.process_time() - start < 30


def test_thousands_of_cells_are_read_in_bounded_time() -> None:
    codes = [
        f"def f{i}(x): return f{i * 7919 % 500}(x) + x{i * 104729 % 500}\nx{i} = f{i // 2}(3)"
        for i in range(500)
    ]
    start = time.process_time()
    read_all(codes)
    assert time.process_time() - start < 60
