"""What a Python file is made of, and what each part of it uses; files are read, never run.

A part is what stands at the top of a file under a name: a function, a class, a constant. All the
rest at the top, which runs on import, is the part without a name.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

BODY = ""


@dataclass
class Part:
    """A part of a file.

    Attributes:
        names: the names that it reads, with one attribute where one follows: "torch.nn".
        imports: dotted names that it imports by itself, and the names that it gives them.
        words: its texts other than docstrings, and its arguments, which may be fixtures.
        registered_with: the name of what its decorator hands it to, as a command to its group.
        is_fixture: whether pytest is to hand it to those who ask for it.
        is_for_all: whether all tests of the file get it unasked.
        texts: its statements without comments and layout, to tell whether it has changed; imports
            at the top are not among them: what is used of them stands in the other parts.
    """

    names: set[str] = field(default_factory=set)
    imports: dict[str, str] = field(default_factory=dict)
    words: set[str] = field(default_factory=set)
    registered_with: str = ""
    is_fixture: bool = False
    is_for_all: bool = False
    texts: list[str] = field(default_factory=list)


def read_parts(code: str) -> dict[str, Part]:
    """Return the parts of a file by name; nothing but an empty one if it is no Python."""
    parts = {BODY: Part()}
    try:
        tree = ast.parse(code)
    except SyntaxError:
        return parts
    docstrings = {id(node) for node in _docstrings(tree)}
    for statement in tree.body:
        for name in _names_of(statement) or [BODY]:
            _take(parts.setdefault(name, Part()), statement, docstrings)
    return parts


def _names_of(statement: ast.stmt) -> list[str]:
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.Assign(targets=targets):
            names = [node for target in targets for node in ast.walk(target)]
            return [node.id for node in names if isinstance(node, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
    return []


def differing_parts(before: str, after: str) -> set[str]:
    """Return the names of the parts that two versions of a file do not share."""
    old, new = read_parts(before), read_parts(after)
    return {
        name
        for name in old.keys() | new.keys()
        if old.get(name, Part()).texts != new.get(name, Part()).texts
    }


def _take(part: Part, statement: ast.stmt, docstrings: set[int]) -> None:
    if not isinstance(statement, ast.Import | ast.ImportFrom):
        part.texts.append(ast.dump(statement))
    for node in ast.walk(statement):
        match node:
            case ast.Import(names=names):
                for alias in names:
                    bound = alias.asname or alias.name.partition(".")[0]
                    part.imports[bound] = alias.name if alias.asname else bound
                    # `import a.b` runs both, and binds a alone.
                    part.imports[f"{alias.name} "] = alias.name
            case ast.ImportFrom(module=str(module), names=names, level=0):
                for alias in names:
                    part.imports[alias.asname or alias.name] = f"{module}.{alias.name}"
            case ast.Attribute(value=ast.Name(id=name), attr=attribute):
                part.names.add(f"{name}.{attribute}")
            case ast.Name(id=name):
                part.names.add(name)
            case ast.Constant(value=str(word)) if id(node) not in docstrings:
                part.words.add(word)
            case ast.arg(arg=name):
                part.words.add(name)
    for decorator in getattr(statement, "decorator_list", []):
        text = ast.unparse(decorator)
        part.is_fixture |= "fixture" in text
        part.is_for_all |= "autouse=True" in text
        if text.split("(")[0].endswith(".command"):
            part.registered_with = text.split(".")[0]


def _docstrings(tree: ast.Module) -> Iterator[ast.Constant]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                yield first.value
