"""What an expression could be by mistake: its neighbors, one change away."""

from __future__ import annotations

import ast
import copy
from collections.abc import Collection, Iterator

_COMPARED: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Div,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitAnd,
}
_PAIRS = (
    ("float32", "float64"),
    ("float16", "bfloat16"),
    ("int32", "int64"),
    ("float", "double"),
    ("min", "max"),
    ("amin", "amax"),
    ("minimum", "maximum"),
    ("any", "all"),
    ("floor", "ceil"),
    ("zeros", "ones"),
    ("zeros_like", "ones_like"),
    ("new_zeros", "new_ones"),
    ("train", "eval"),
    ("mean", "sum"),
)
# Functions whose arguments may change places.
_SYMMETRIC = ("min", "max", "minimum", "maximum", "promote_types")
# Keywords that change nothing where a solution is right.
ASSERTIONS = ("strict",)
# What one name is easily taken for.
_TAKEN_FOR = {one: other for pair in _PAIRS for one, other in (pair, pair[::-1])}


def alternatives(node: ast.expr, names: Collection[str]) -> Iterator[ast.expr]:
    """Yield what could stand in the place of ``node``.

    ``names`` are those of the function around it, its arguments included.
    """
    if isinstance(node, ast.Constant):
        yield from (ast.Constant(value) for value in _other_values(node.value))
    elif isinstance(node, ast.Compare):
        yield from _compare_otherwise(node)
    elif isinstance(node, ast.BinOp) and type(node.op) in COMPUTED:
        yield _changed(node, op=COMPUTED[type(node.op)]())
    elif isinstance(node, ast.UnaryOp):
        yield node.operand
    elif isinstance(node, ast.BoolOp):
        yield _changed(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
        for i in range(len(node.values)):
            left = _without(node.values, i)
            yield _changed(node, values=left) if len(left) > 1 else left[0]
    elif isinstance(node, ast.IfExp):
        yield _changed(node, test=ast.UnaryOp(ast.Not(), node.test))
    elif isinstance(node, ast.Tuple | ast.List) and isinstance(node.ctx, ast.Load):
        if not all(isinstance(element, ast.Constant) for element in node.elts):  # a set, mostly
            yield from (_changed(node, elts=elements) for elements in _swaps(node.elts))
    elif isinstance(node, ast.Slice):
        yield from _slice_otherwise(node)
    elif isinstance(node, ast.Attribute) and node.attr in _TAKEN_FOR:
        yield _changed(node, attr=_TAKEN_FOR[node.attr])
    elif isinstance(node, ast.Name) and node.id in _TAKEN_FOR and node.id not in names:
        yield ast.Name(_TAKEN_FOR[node.id], ast.Load())
    elif isinstance(node, ast.Call):
        yield from _call_otherwise(node, names)
    elif isinstance(node, ast.GeneratorExp | ast.ListComp | ast.SetComp | ast.DictComp):
        yield from _take_all(node)


def _other_values(value: object) -> list[object]:
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, value - 1, 0]
    return [value + 1, value - 1, 0.0] if isinstance(value, float) else []


def _compare_otherwise(node: ast.Compare) -> Iterator[ast.expr]:
    for i, operator in enumerate(node.ops):
        for other in _COMPARED[type(operator)]:
            yield _changed(node, ops=[*node.ops[:i], other(), *node.ops[i + 1 :]])


def _slice_otherwise(node: ast.Slice) -> Iterator[ast.expr]:
    for bound in ("lower", "upper", "step"):
        value = getattr(node, bound)
        if value is not None:
            yield _changed(node, **{bound: None})
        if value is not None and not isinstance(value, ast.Constant):  # those are changed anyway
            yield _changed(node, **{bound: ast.BinOp(value, ast.Add(), ast.Constant(1))})


def _call_otherwise(node: ast.Call, names: Collection[str]) -> Iterator[ast.expr]:
    for i, keyword in enumerate(node.keywords):
        if keyword.arg not in ASSERTIONS:
            yield _changed(node, keywords=_without(node.keywords, i))
    if _name_of(node.func) not in _SYMMETRIC:
        for args in _swaps(node.args):
            yield _changed(node, args=args)
    if node.args and isinstance(node.args[-1], ast.Constant | ast.UnaryOp):
        yield _changed(node, args=node.args[:-1])
    is_changed_anyway = bool(node.args) and isinstance(node.args[-1], ast.Constant)
    if _name_of(node.func) == "range" and not is_changed_anyway:
        for operator in (ast.Add(), ast.Sub()):
            last = ast.BinOp(node.args[-1], operator, ast.Constant(1))
            yield _changed(node, args=[*node.args[:-1], last])
    # The call left out: what it is called on, or its first argument.
    receiver = node.func.value if isinstance(node.func, ast.Attribute) else None
    is_module = isinstance(receiver, ast.Name) and receiver.id not in names
    if receiver is not None and not is_module:
        yield receiver
    elif node.args and not isinstance(node.args[0], ast.Starred):
        yield node.args[0]


def _name_of(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _take_all(
    node: ast.GeneratorExp | ast.ListComp | ast.SetComp | ast.DictComp,
) -> Iterator[ast.expr]:
    for i, generator in enumerate(node.generators):
        for j in range(len(generator.ifs)):
            changed = copy.copy(generator)
            changed.ifs = _without(generator.ifs, j)
            generators = [*node.generators[:i], changed, *node.generators[i + 1 :]]
            yield _changed(node, generators=generators)


def _swaps(values: list[ast.expr]) -> Iterator[list[ast.expr]]:
    for i in range(len(values) - 1):
        if not any(isinstance(value, ast.Starred) for value in values[i : i + 2]):
            yield [*values[:i], values[i + 1], values[i], *values[i + 2 :]]


def _without(values: list, place: int) -> list:
    return [*values[:place], *values[place + 1 :]]


def _changed(node: ast.expr, **fields: object) -> ast.expr:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed
