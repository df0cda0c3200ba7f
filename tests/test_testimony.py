"""How much rests on a probe's word: little, nothing that comes first, and all of it is known."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import pytest
from course_files import EXERCISES, find_cell, source

from helpers import probes
from helpers.catalogue import Exercise

MOST_TESTIMONY = 0.08  # of all points


@dataclass(frozen=True)
class Property:
    """One property of a check.

    Attributes:
        claim: what it says.
        points: what it is worth.
        probes: the names of those that it asks, also by way of functions of its cell.
        reads_code: whether it rests on what was read of the student's code.
    """

    claim: str
    points: float
    probes: frozenset[str]
    reads_code: bool

    @property
    def is_testimony(self) -> bool:
        return any(hasattr(getattr(probes, name), "is_testimony") for name in self.probes)


@cache
def properties(exercise: Exercise) -> tuple[Property, ...]:
    """Return the properties of an exercise's test, hidden ones included, as they are written."""
    tree = ast.parse(find_cell(source(exercise.chapter), f"test-{exercise.name}").source)
    functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    blocks = [(call, block) for block in ast.walk(tree) for call in property_calls(block)]
    weights = [weight_of(call) for call, _ in blocks]
    return tuple(
        Property(
            claim=ast.literal_eval(call.args[0]),
            points=exercise.points * weight / sum(weights),
            probes=frozenset(names_under("probes", block, functions)),
            reads_code="written_without" in names_under("check", block, functions),
        )
        for (call, block), weight in zip(blocks, weights, strict=True)
    )


def property_calls(node: ast.AST) -> Iterator[ast.Call]:
    for item in getattr(node, "items", []):
        call = item.context_expr
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "check.property":
            yield call


def weight_of(call: ast.Call) -> float:
    given = [*call.args[1:], *(word.value for word in call.keywords if word.arg == "weight")]
    return ast.literal_eval(given[0]) if given else 1.0


def names_under(
    owner: str, node: ast.AST, functions: dict[str, ast.FunctionDef], seen: tuple[str, ...] = ()
) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute) and ast.unparse(part.value) == owner:
            yield part.attr
        elif isinstance(part, ast.Name) and part.id in functions and part.id not in seen:
            yield from names_under(owner, functions[part.id], functions, (*seen, part.id))


def test_what_is_read_here_is_what_the_checks_try() -> None:
    for exercise in EXERCISES:
        assert len(properties(exercise)) == exercise.visible + exercise.hidden
        assert sum(p.points for p in properties(exercise)) == pytest.approx(exercise.points)
    asked = {name for exercise in EXERCISES for p in properties(exercise) for name in p.probes}
    assert asked == set(probes.__all__), "a probe that nobody asks goes"


def test_little_rests_on_a_probes_word() -> None:
    every = [p for exercise in EXERCISES for p in properties(exercise)]
    testimony = [p for p in every if p.is_testimony]
    assert testimony, "what is told by a probe is marked"
    share = sum(p.points for p in testimony) / sum(p.points for p in every)
    assert share <= MOST_TESTIMONY, f"{share:.1%} of the points"


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.name)
def test_what_an_exercise_is_comes_first_and_rests_on_values(exercise: Exercise) -> None:
    first, *_ = properties(exercise)
    assert not first.is_testimony, first.claim
