"""What belongs to an exercise's reach: what its solution uses, wherever it stands, and no more."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.reading import uses
from helpers.reading.cells import Cell, parse
from helpers.reading.reach import binds, find_reach, find_standing

COURSE = "import torch\nimport matplotlib.pyplot as plt\nfrom helpers import Check\nFORMATS = {}"
SOLUTION = "def f(x):\n    return {used}"


def reach(*codes: str, course: tuple[str, ...] = (COURSE,), wanted: tuple[str, ...] = ()) -> set:
    """Return which of ``codes`` belong to the reach of the first."""
    cells = [*(Cell(code, "", True) for code in course), *(Cell(code, "") for code in codes[1:])]
    cells.append(Cell(codes[0], ""))
    found = find_reach(cells, len(cells) - 1, wanted)
    assert found == sorted(found)
    assert found[-1] == len(cells) - 1
    return {cells[place].code for place in found[:-1]}


NEEDED = {
    "a function": ("def f(x): return g(x)", "def g(x): return x"),
    "a class": ("def f(x): return G()(x)", "class G: pass"),
    "a variable": ("def f(x): return SCALE * x", "SCALE = 2"),
    "one with a type": ("def f(x): return SCALE * x", "SCALE: int = 2"),
    "one of a pair": ("def f(x): return SCALE * x", "SCALE, other = 2, 3"),
    "an import": ("def f(x): return np.exp(x)", "import numpy as np"),
    "an import of a part": ("def f(x): return exp(x)", "from numpy import exp"),
    "all of a module": ("def f(x): return exp(x)", "from numpy import *"),
    "all of a module, in place of a built-in": ("def f(x): return sum(x)", "from torch import *"),
    "a walrus": ("def f(x): return n * x", "print(n := 3)"),
    "a walrus in a comprehension": ("def f(x): return n * x", "[n := k for k in range(3)]"),
    "a loop's variable": ("def f(x): return n * x", "for n in range(3): pass"),
    "a with's variable": ("def f(x): return n * x", "with open('x') as n: pass"),
    "an exception's": ("def f(x): return n * x", "try: pass\nexcept E as n: pass"),
    "a pattern's": ("def f(x): return n * x", "match 1:\n    case n: pass"),
    "taken away": ("def f(x): return n * x", "del n"),
    "bound in a function": ("def f(x): return n * x", "def g():\n    global n\n    n = 3"),
    "bound under a condition": ("def f(x): return n * x", "if True:\n    n = 3"),
    "a default": ("def f(x, n=N): return n * x", "N = 3"),
    "an annotation": ("def f(x: N): return x", "class N: pass"),
    "a decorator": ("@cached\ndef f(x): return x", "def cached(f): return f"),
    "a base": ("class F(Base): pass", "class Base: pass"),
    "in a nested function": ("def f(x):\n    def g(): return n\n    return g()", "n = 3"),
    "in a lambda": ("f = lambda x: n * x", "n = 3"),
    "in a method": ("class F:\n    def g(self): return n", "n = 3"),
    "a method is no name for other methods": (
        "class F:\n    def n(self): pass\n    def g(self): return n()", "def n(): pass"),
    "a class's name that is used in its body": ("class F:\n    k = n\n    n = 2", "n = 3"),
    "in a comprehension's first part": ("def f(x): return [n for n in n]", "n = [1]"),
    "global inside": ("def f(x):\n    global n\n    return n", "n = 3"),
    "on the solution's own lines": ("x = torch.ones(n)\ndef f(x): return x", "n = 3"),
    "bound only under a condition here": ("if a:\n    n = 1\ndef f(x): return n", "n = 3"),
    "added to": ("n += 1\ndef f(x): return n", "n = 3"),
    "an item": ("def f(x): return TABLE[x]", "TABLE['a'] = 1"),
    "an item taken away": ("def f(x): return TABLE[x]", "del TABLE['a']"),
    "an attribute": ("def f(x): return G()(x)", "G.scale = 3"),
    "an attribute of a part": ("def f(x): return MODEL(x)", "MODEL.layers[0].scale = 3"),
    "an attribute added to": ("def f(x): return MODEL(x)", "MODEL.scale += 3"),
    "a method that changes": ("def f(x): return TABLE[x]", "TABLE.update(a=1)"),
    "appended": ("def f(x): return xs", "xs.append(3)"),
    "a method as decorator": ("def f(x): return TABLE[x]", "@TABLE.add\ndef g(): pass"),
    "a decorator that is made": ("def f(x): return TABLE[x]", "@TABLE.add('a')\ndef g(): pass"),
    "the course's table": ("def f(x): return FORMATS[x]", "FORMATS['bfloat16'] = 3"),
    "setattr": ("def f(x): return G()(x)", "def h(): pass\nsetattr(G, 'forward', h)"),
    "through another name": ("def f(x): return TABLE[x]", "table = TABLE\ntable['a'] = 1"),
    "through one of several names": ("def f(x): return TABLE", "a, b = TABLE, xs\nb['a'] = 1"),
    "in a loop over it": ("def f(x): return G(H(x))", "for k in (G, H): k.scale = 1"),
    "an item of it in a loop": ("def f(x): return xs", "for i, k in enumerate(xs): k.a = 1"),
    "shuffled": ("def f(x): return xs", "import random\nrandom.shuffle(xs)"),
    "changed in place by torch": ("def f(x): return W", "torch.nn.init.zeros_(W)"),
    "a singledispatch": ("def f(x): return g(x)", "@g.register\ndef _(x: list): pass"),
    "a method by its class": ("def f(x): return xs", "list.append(xs, 3)"),
    "a method by its class, in a function": (
        "def f(x): return xs", "def add(x): list.append(xs, x)\nadd(3)"),
    "a special method by its class": ("def f(x): return G()", "object.__setattr__(G, 'a', 1)"),
    "a special method": ("def f(x): return xs", "xs.__iadd__([3])"),
    "a class of one's own called like Python's": (
        "def f(x): return dict(x)", "class dict(dict): pass\ndict.update(dict)"),
    "behind a magic": ("def f(x): return n", "%matplotlib inline\nn = 3"),
    "timed": ("def f(x): return n", "%time n = g(3)"),
    "an indented magic": ("def f(x): return n", "if True:\n    !ls\n    n = 3"),
}  # fmt: skip


@pytest.mark.parametrize(("solution", "other"), NEEDED.values(), ids=NEEDED.keys())
def test_what_a_solution_needs_is_reached(solution: str, other: str) -> None:
    assert reach(solution, other) == {other}
    # What is needed by what is needed is needed, and a stray cell is not.
    assert reach("def f2(x): return f, F", solution, other, "z = 1") == {solution, other}


STRAY = {
    "a shell": ("def f(x): return x", "!nvidia-smi"),
    "a parameter": ("def f(x, n): return x * n", "n = 3"),
    "a local variable": ("def f(x):\n    n = 2\n    return x * n", "n = 3"),
    "a comprehension's": ("def f(x): return [n for n in x]", "n = 3"),
    "a nested function's": ("def f(x):\n    n = 2\n    return lambda: n", "n = 3"),
    "a nonlocal": (
        "def f(x):\n    n = 2\n    def g():\n        nonlocal n\n        n = 3", "n = 3"),
    "an exception's variable": (
        "def f(x):\n    try: pass\n    except E as e: return e", "e = 3\nprint(e)"),
    "an attribute": ("def f(x): return x.n", "n = 3"),
    "a keyword": ("def f(x): return torch.sum(x, n=1)", "n = 3"),
    "in a string": ("def f(x): return 'n'", "n = 3"),
    "a use": ("def f(x): return x", "print(f(torch.ones(3)))"),
    "a plot": ("def f(x): return x", "plt.plot(f(torch.ones(3)))"),
    "handed to what asks for it": ("def f(x): return x", "check = Check('a')\ncheck.call(f, 3)"),
    "a statement": ("def f(x):\n    CACHE[x] = 1", "f(3)"),
    "a use of a helper": ("def f(x): return g(x)", "print(g(3))"),
    "a use of a class": ("class F:\n    def __call__(self, x): pass", "model = F()\nmodel(3)"),
    "a printed class": ("class F: pass", "print(F, isinstance(3, F))"),
    "an autograd function": ("class F(torch.autograd.Function): pass", "F.apply(3).backward()"),
    "a method that only reads": ("def f(x): return TABLE[x]", "print(TABLE.keys())"),
    "a module's setting": ("def f(x): return torch.ones(3)", "torch.set_printoptions(precision=3)"),
    "a module's flag": ("def f(x): return torch.ones(3)", "torch.backends.a.b = True"),
    "a module's plot": ("def f(x): return plt", "plt.plot([1])\nplt.title('a')"),
    "imported again": ("def f(x): return torch.ones(3)", "import torch\n!nvidia-smi"),
    "a part imported again": ("def f(x): return Check('a')", "from helpers import Check\n!ls"),
    "bound here before its use": ("x = 3\nprint(x)\ndef f(x): return x", "x = 4"),
    "bound here in a loop": ("for i in range(3): print(i)\ndef f(x): return x", "i = 4"),
    "bound here in both branches": ("if a:\n    n = 1\nelse:\n    n = 2\nprint(n)", "n = 4"),
    "imported here": ("import numpy as np\ndef f(x): return np.exp(x)", "import numpy as np\n!ls"),
    "bound anew": ("n = 3\ndef f(x): return n", "n = 4"),
    "defined anew": ("def f(x): return x", "def f(x): return 2 * x"),
    "something else": ("def f(x): return g(x)", "h = 3"),
    "a built-in class's method": ("def f(x): return dict(x)", "dict.fromkeys('ab')"),
    "a method that makes a list": ("def f(x): return list(x)", "print(list.copy([1]))"),
    "a method of text": (
        "def f(x): return str(x)", "text = str.join(', ', names)\nstr.lower(text)"),
    "a method of numbers": ("def f(x): return int(x)", "n = int.from_bytes(b'1', 'big')"),
    "a table for text": ("def f(x): return str(x)", "str.maketrans('a', 'b')"),
    "a built-in class's method in a function": (
        "def f(x): return dict(x)", "def show():\n    dict.fromkeys('ab')\nshow()"),
    "a built-in class's method by another name": (
        "def f(x): return dict(x)", "d = dict\nd.fromkeys('ab')"),
    "a method of one's own called so": (
        "class F:\n    def fromkeys(self, x): self.x = dict(x)", "dict.fromkeys('ab')"),
    "no Python": ("def f(x): return n", "n = = 3"),
    "another language": ("def f(x): return n", "%%bash\nn = 3"),
    "all of a module, for nothing": ("def f(x): return len(x)", "from torch import *"),
    "all of a module without such a name": (
        "def f(x): return sum(x)",
        "from torch.utils.data import *",
    ),
    "all of math, which has no sum": ("def f(x): return sum(x)", "from math import *"),
}  # fmt: skip


@pytest.mark.parametrize(("solution", "other"), STRAY.values(), ids=STRAY.keys())
def test_a_stray_cell_is_not_reached(solution: str, other: str) -> None:
    assert reach(solution, other) == set()


REGISTRIES = {
    "a table": (
        "OPS = {}\ndef register(f):\n    OPS[f.__name__] = f\n    return f",
        "@register\ndef relu(x): return x",
    ),
    "a table, with an argument": (
        "OPS = {}\ndef register(name):\n    def keep(f):\n        OPS[name] = f\n        return f\n"
        "    return keep",
        "@register('relu')\ndef relu(x): return x",
    ),
    "a list, by a lambda": ("OPS = []\nregister = lambda f: OPS.append(f)", "register(abs)"),
    "by a function that calls another": (
        "OPS = []\ndef keep(f): OPS.append(f)\ndef register(f): keep(f)", "register(abs)"),
    "a result": (
        "OPS = []\ndef register(f):\n    OPS.append(f)\n    return f",
        "def relu(x): return x\nrelu = register(relu)",
    ),
    "a class's table": (
        "class OPS:\n    all = {}\n    def __init_subclass__(cls): OPS.all[cls.__name__] = cls",
        "class Relu(OPS): pass",
    ),
    "an object": (
        "class Table:\n    def add(self, f): self.all[0] = f\nOPS = Table()",
        "@OPS.add\ndef relu(x): return x",
    ),
    "a class that is extended": (
        "class OPS: pass\ndef add_to(cls):\n    def add(f): setattr(cls, f.__name__, f)\n"
        "    return add",
        "@add_to(OPS)\ndef relu(self, x): return x",
    ),
    "a class that is handed on": (
        "class OPS: pass\ndef extend(cls): cls.forward = abs\ndef register(c): extend(c)",
        "register(OPS)",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("table", "entry"), REGISTRIES.values(), ids=REGISTRIES.keys())
@pytest.mark.parametrize("is_course", [False, True])
def test_what_fills_a_table_is_reached(table: str, entry: str, is_course: bool) -> None:
    solution = "def f(x): return OPS"
    if is_course:
        assert reach(solution, entry, course=(COURSE, table)) == {entry}
    else:
        assert reach(solution, table, entry, "z = 1") == {table, entry}


def test_a_table_that_the_solution_makes_itself_is_filled_below() -> None:
    cells = [
        "OPS['old'] = 1",
        "OPS = {}\ndef f(x): return OPS\ndef register(g): OPS[0] = g",
        "@register\ndef relu(x): return x",
        "print(f(3))",
    ]
    assert find_reach([Cell(code, "") for code in cells], 1) == [1, 2]


def test_a_helper_may_stand_below_and_a_later_definition_counts() -> None:
    cells = ["def f(x): return g(x)", "def g(x): return x", "def f(x): return 2 * g(x)", "z = f(1)"]
    found = [find_reach([Cell(code, "") for code in cells], place) for place in (0, 2)]
    assert found == [[0, 1, 2], [1, 2]]


def test_names_that_are_asked_for_are_reached_too() -> None:
    assert reach("pass", "def f(x): return n", "n = 3", "z = 1", wanted=("f",)) == {
        "def f(x): return n",
        "n = 3",
    }


def test_what_the_course_uses_of_the_students_is_reached() -> None:
    course = (COURSE, "def table(): return make()")
    make = "def make(): return 3"
    assert reach("def f(x): return table()", make, "z = 1", course=course) == {make}


def test_of_two_equal_imports_one_is_enough() -> None:
    first, second = "import numpy as np", "import numpy as np\n!pip install x"
    assert reach("def f(x): return np.exp(x)", first, second) == {first}
    # Where it is not the same thing, both are.
    other = "import jax.numpy as np"
    assert reach("def f(x): return np.exp(x)", first, other) == {first, other}


def test_an_edited_cell_stands_no_more() -> None:
    cells = ["def f(x): return 1", "y = f(2)", "def f(x): return 2", "xs.append(1)", "xs = []"]
    assert find_standing([Cell(code, "") for code in cells]) == [1, 2, 3, 4]
    first_try = "import torch.nn.functional as F\nhalf = 0.5\ndef f(x): return F.softmax(x, half)"
    for below, places in (
        ("def f(x): return x", [1, 2]),
        ("def f(x): return half * x", [0, 1, 2]),
        ("def f(x): return F.relu(x)", [0, 1, 2]),
        ("import torch.nn.functional as F\ndef f(x): return F.relu(x)", [1, 2]),
    ):
        cells = [Cell(code, "") for code in (first_try, below, "def g(x): return f(x)")]
        assert find_standing(cells) == places, below
    course = Cell("def f(x): return 1", "", True)
    assert find_standing([course, Cell("def f(x): return 2", "")]) == [0, 1]


def test_binding_is_told() -> None:
    assert binds(Cell("def f(x): return g(x)", ""), ["f"])
    assert not binds(Cell("def f(x): return g(x)", ""), ["g", "x"])


@given(st.lists(st.sampled_from([*(b for _, b in NEEDED.values()), "def f(x: ", "\0", "n?"])))
def test_more_cells_never_make_a_reach_smaller(codes: list[str]) -> None:
    solution = "def f(x): return n, TABLE, xs, G, g, SCALE, np"
    found = reach(solution, *codes)
    assert reach(solution, *codes, "SCALE = 5") >= found


HOSTILE = {
    "attributes": lambda n: "x = a" + ".a" * n,
    "calls": lambda n: "\n".join("f(a.b.c, [a, b])" for _ in range(n)),
    "brackets": lambda n: "x = " + "[" * n + "]" * n,
    "minus signs": lambda n: "x = " + "-" * n + "1",
    "conditions": lambda n: "\n".join(f"if a: x{i} = 1" for i in range(n)),
    "functions that call each other": lambda n: "\n".join(
        f"def f{i}(): global g{i}; g{i} = f{i + 1}()\nf{i}()" for i in range(n)
    ),
    "names for names": lambda n: (
        ", ".join(f"x{i}" for i in range(n)) + " = " + ", ".join(f"y{i}" for i in range(n))
    ),
    "aliases": lambda n: "\n".join(f"x{i + 1} = x{i}" for i in range(n)) + f"\nx{n}.y = 1",
}


def count_calls(work: Callable[[], object]) -> int:
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE.keys())
def test_the_work_grows_with_the_length_only(make: Callable[[int], str]) -> None:
    def search(size: int) -> Callable[[], object]:
        cells = [Cell(make(size), ""), Cell("def f(x): return x", "")]
        for cell in cells:
            parse(cell.code)  # its time is measured elsewhere
        uses._find_and_keep.cache_clear()
        uses._find_and_keep_long.cache_clear()
        return lambda: find_reach(cells, 1, ["a", "x1", "g1"])

    once = count_calls(search(1000))
    assert count_calls(search(2000)) < 3 * once + 2000
