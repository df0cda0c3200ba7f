"""What is kept with a tree grows with its size alone."""

from __future__ import annotations

import ast
import textwrap

import pytest

from helpers.reading.nodes import walk

MOST_NESTED = 100  # levels of indentation that Python reads
CODES = {
    "a chain of attributes": "x" + ".a" * 400,
    "branches": "if a: pass\n" + "elif b: pass\n" * 200,
    "functions in functions": "".join(f"{' ' * n}def f{n}():\n" for n in range(90))
    + " " * 90
    + "1",
    "an ordinary cell": textwrap.dedent(
        """
        class Net:
            def forward(self, x):
                return [y.exp() for y in x]
        """
    ),
}


@pytest.mark.parametrize("code", CODES.values(), ids=CODES)
def test_little_is_kept_whoever_asks_for_whatever(code: str) -> None:
    tree = ast.parse(code)
    nodes = list(ast.walk(tree))
    for node in nodes:
        assert list(walk(node)) == list(ast.walk(node))
        assert list(walk(node)) == list(ast.walk(node))
    kept = sum(len(value) for node in nodes for key, value in vars(node).items() if "nodes" in key)
    assert kept <= (MOST_NESTED + 1) * len(nodes)
    assert kept >= len(nodes)


def test_it_is_gone_through_once() -> None:
    tree = ast.parse("x = 1\ndef f(): return x")
    assert walk(tree) is walk(tree)
    assert walk(tree.body[1]) is walk(tree.body[1])
