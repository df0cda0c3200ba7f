"""A demo is run where a submission's code needs what it defines, and only there."""

from __future__ import annotations

import pytest

from helpers.grading.judge.demos import find_needed_demos

DEMOS = ["import math\ndef rounded(x): return round(x, digits)", "digits = 3", "logits = slow()"]


@pytest.mark.parametrize(
    ("code", "needed"),
    [
        ("def f(logits): return logits", set()),
        ("def f(x): return rounded(x)", {0, 1}),
        ("def f(x):\n    logits = x\n    return logits", set()),
        ("[logits for logits in (1, 2)]", set()),
        ("digits", {1}),
        ("def rounded(x): return x\nrounded(3)", set()),
        ("class A:\n    def f(self): return digits", {1}),
        ("def f():\n    global digits\n    digits = 4", set()),
        ("this is no Python", set()),
        ("%timeit digits\nlogits + 1", {1, 2}),
        ("x = (\n" + "%time digits\n" * 20_000, set()),
        ("x = lambda: logits", {2}),
    ],
)
def test_what_is_used_and_not_there_is_found(code: str, needed: set[int]) -> None:
    assert find_needed_demos([code], DEMOS) == needed


def test_what_another_cell_defines_needs_no_demo() -> None:
    assert find_needed_demos(["digits = 5", "digits + 1"], DEMOS) == set()
