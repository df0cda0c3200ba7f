"""Which functions and methods keep nothing of what they are given, as far as the code shows."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass

from helpers.reading.doubts import dotted
from helpers.reading.nodes import walk
from helpers.reading.uses import Uses
from helpers.reading.words import words

# To show and to compare results; what these are given they do not keep.
_SHOWING = words("abs all any bool display float int len max min print round tuple")
_COMPARING = words("""
    abs all allclose any assert_allclose assert_close cpu detach double equal eq float half isclose
    item max mean min norm numpy round sub sum tolist
""")
# What holds functions that return an array; those of them that return something else.
OF_ARRAYS = words("F functional nn.functional np torch torch.nn.functional")
_OTHERS = words("autocast compile enable_grad inference_mode no_grad set_grad_enabled vmap")
OF_CLASSES = words("nn torch.nn")
OF_TESTS = words("np.testing numpy.testing torch.testing")
_OF_NUMBERS = words("math random time")


@dataclass(frozen=True)
class Trust:
    """Names that are not the student's own, so that it is known what they keep: nothing.

    Attributes:
        functions: of Python's; what they return may hold what they are given.
        methods: that compare, or return numbers.
    """

    functions: Set[str]
    methods: Set[str]


def find_trust(trees: Sequence[ast.Module]) -> Trust | None:
    """Return whom to trust; nobody where operators may be the student's own."""
    nodes = [node for tree in trees for node in walk(tree)]
    own = {n.name for n in nodes if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    own |= {n.id for n in nodes if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
    own |= {n.attr for n in nodes if isinstance(n, ast.Attribute) and _is_changed(n)}
    if any(name.startswith("__") and name != "__init__" for name in own):
        return None
    return Trust(_SHOWING - own, _COMPARING - own)


def _is_changed(node: ast.Attribute) -> bool:
    return not isinstance(node.ctx, ast.Load)


def known_libraries(uses: Sequence[Uses]) -> set[str]:
    """Return the first names of libraries that stand for nothing of the student's own."""
    libraries = {path.split(".")[0] for path in OF_ARRAYS | OF_TESTS | OF_CLASSES}
    own = _bound_otherwise(uses, lambda how, _: how.startswith(("import torch", "import numpy")))
    return libraries - own


def known_modules(uses: Sequence[Uses]) -> set[str]:
    """Return the names that stand for modules whose functions keep nothing that they are given."""
    own = _bound_otherwise(uses, lambda how, name: how.startswith(f"import {name}"))
    return known_libraries(uses) | (_OF_NUMBERS - own)


def _bound_otherwise(uses: Sequence[Uses], is_import: Callable[[str, str], bool]) -> set[str]:
    """Return the names that something else binds than the imports of the module they stand for."""
    return {
        name
        for of_statement in uses
        for name, how in of_statement.bound.items()
        if not all(is_import(one, name) for one in how)
    }


def returns_numbers(called: ast.AST, libraries: Set[str] = OF_ARRAYS) -> bool:
    """Return whether it is a library's function that returns an array: numbers that stand for
    nothing but themselves, as those that an answer is compared with.
    """
    library, _, name = dotted(called).rpartition(".")
    return library in libraries and name.islower() and name not in _OTHERS
