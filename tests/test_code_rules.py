"""What an exercise asks to do without: what counts as naming it, and what as a loop."""

from __future__ import annotations

import pytest

from helpers.reading.cells import Cell
from helpers.reading.rules import find_loop, find_named


def named(*codes: str, patterns: tuple[str, ...] = ("softmax", "log_softmax")) -> str:
    found = find_named([Cell(code, f"cell {i}") for i, code in enumerate(codes, 1)], patterns)
    return f"{found.label}, line {found.line}: {found.what}" if found else ""


def loop(*codes: str) -> str:
    found = find_loop([Cell(code, f"cell {i}") for i, code in enumerate(codes, 1)])
    return f"{found.label}, line {found.line}: {found.what}" if found else ""


NAMED = [
    ("def f(x):\n    return torch.softmax(x, 0)", "cell 1, line 2: `torch.softmax`"),
    ("def f(x): return x.softmax(0)", "cell 1, line 1: `x.softmax`"),
    ("def f(x): return (x + 1).softmax(0)", "cell 1, line 1: `.softmax`"),
    ("def f(x): return x[0].softmax(0)", "cell 1, line 1: `.softmax`"),
    ("f = nn.Softmax(dim=1)", "cell 1, line 1: `nn.Softmax`"),
    ("f = torch.nn.functional.softmax", "cell 1, line 1: `torch.nn.functional.softmax`"),
    ("from torch import exp, softmax as s", "cell 1, line 1: `torch.softmax`"),
    ("import own.softmax as s", "cell 1, line 1: `own.softmax`"),
    ("from softmax import exp", "cell 1, line 1: `softmax.exp`"),
    ("f = getattr(torch, 'softmax')", 'cell 1, line 1: `"softmax"`'),
    ("f = attrgetter('nn.Softmax')", 'cell 1, line 1: `"nn.Softmax"`'),
    ("from torch import *\ndef f(x): return softmax(x, 0)", "cell 1, line 2: `softmax`"),
    ("def f(x): return log_softmax(x, 0)", "cell 1, line 1: `log_softmax`"),
    ("if False:\n    softmax = 1\ndef f(x): return softmax(x, 0)", "cell 1, line 3: `softmax`"),
    ("match torch:\n    case object(softmax=s): pass", "cell 1, line 2: `.softmax`"),
    ("f = functools.partial(torch.softmax, dim=0)", "cell 1, line 1: `torch.softmax`"),
    ("%time f = nn.Softmax(0)", "cell 1, line 1: `nn.Softmax`"),
    ("print((lambda: torch.softmax)())", "cell 1, line 1: `torch.softmax`"),
    ("print(keep(torch.softmax(x, 0)))", "cell 1, line 1: `torch.softmax`"),
    ("print(keep := torch.softmax(x, 0))", "cell 1, line 1: `torch.softmax`"),
    ("print(torch.softmax)", "cell 1, line 1: `torch.softmax`"),
    ("f = torch.softmax.__get__(x)", "cell 1, line 1: `torch.softmax`"),
    ("y = torch.exp(keep(torch.softmax))", "cell 1, line 1: `torch.softmax`"),
    ("def f(x):\n    y = torch.softmax(x, 0)\n    return y", "cell 1, line 2: `torch.softmax`"),
    ("for f in [torch.softmax]: pass", "cell 1, line 1: `torch.softmax`"),
    ("f = plt.plot(torch.softmax, label='a')", "cell 1, line 1: `torch.softmax`"),
    ("y = (torch.exp(x),\n     torch.softmax(x, 0))", "cell 1, line 2: `torch.softmax`"),
    # another's attribute by a name that is one's own elsewhere
    ("class A:\n    def __init__(self): self.softmax = 1\ndef f(x): return x.softmax(0)",
     "cell 1, line 3: `x.softmax`"),
    ("class A:\n    def f(self): return self.softmax(0)\n    def softmax(self): pass\nA.f(x)",
     "cell 1, line 2: `self.softmax`"),
    ("class A(torch.Tensor):\n    def g(self): self.softmax = 1\n"
     "    def f(self): return self.softmax(0)", "cell 1, line 3: `self.softmax`"),
    ("class A(nn.Module):\n    def f(self, x): return super().softmax(x)",
     "cell 1, line 2: `.softmax`"),
]  # fmt: skip
NOT_NAMED = [
    "def softmax(x, dim): return x.exp()\nprint(softmax(x, 0))",
    "def softmax(x): return x\ndef f(x): return softmax(x)",
    "def f(softmax): return softmax(3)",
    "def f(x):\n    softmax = x.exp()\n    return softmax",
    'def f(x):\n    """softmax"""\n    return x',
    "'softmax'\nx = 'the softmax of x'",
    "print(f'softmax {x}')",
    "hint('softmax')\ncheck = Check('softmax')",
    "# torch.softmax\nx = 1",
    "class A(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.softmax = own()\n    def forward(self, x): return self.softmax(x)\nA()(3)",
    "class A:\n    def softmax(self, x): return x\n    def f(self, x): return self.softmax(x)",
    "class A:\n    @staticmethod\n    def softmax(x): return x\ndef f(x): return A.softmax(x)",
    "state.softmax = 3",
    "f(softmax=1)",
    "softmaxes = x.softmax_like",
    "assert torch.allclose(softmax(x, 0), torch.softmax(x, 0))\ndef softmax(x): return x",
    "print((softmax(x, 0) - torch.softmax(x, 0)).abs().max())\ndef softmax(x): return x",
    "torch.testing.assert_close(f(x), nn.Softmax(dim=0)(x))",
    "expected = torch.softmax(x, 0)\nassert torch.allclose(f(x), expected)",
    "for d in (0, 1):\n    y = F.softmax(x, dim=d)\n    assert torch.equal(f(x, d), y)",
    "if verbose:\n    try:\n        assert torch.allclose(f(x), torch.softmax(x, 0))\n"
    "    except AssertionError:\n        print(torch.softmax(x, 0))",
    "plt.plot(xs, ys, label='softmax')\nplt.title('softmax')\nax.set_ylabel('softmax')",
    "logging.info('softmax')",
    "def f(x: ",
]  # fmt: skip


@pytest.mark.parametrize(("code", "found"), NAMED)
def test_what_is_named_is_found_where_it_stands(code: str, found: str) -> None:
    assert named(code) == found
    assert named("x = 1", code) == found.replace("cell 1", "cell 2")


@pytest.mark.parametrize("code", NOT_NAMED)
def test_what_is_ones_own_is_not_found(code: str) -> None:
    assert named(code) == ""


def test_patterns_are_those_of_file_names() -> None:
    assert named("y = x.log_softmax(0)", patterns=("*SOFT*",)) == "cell 1, line 1: `x.log_softmax`"
    assert named("y = x.softmax(0)", patterns=("soft",)) == ""
    assert named("y = x.softmax(0)", patterns=()) == ""


def test_a_context_that_is_kept_is_no_array() -> None:
    assert named("on = torch.enable_grad()", patterns=("enable_grad",))
    assert named("hooks = torch.autograd.graph.saved_tensors_hooks(f, g)", patterns=("saved*",))


def test_another_cells_function_is_ones_own() -> None:
    assert named("def softmax(x): return x", "def f(x): return softmax(x)") == ""


LOOPS = [
    ("def f(x):\n    for row in x: pass", "cell 1, line 2: a `for` loop"),
    ("def f(x):\n    while x: pass", "cell 1, line 2: a `while` loop"),
    ("def f(x): return [r for r in x]", "cell 1, line 1: a comprehension"),
    ("def f(x): return torch.stack(list(r for r in x))", "cell 1, line 1: a comprehension"),
    ("def f(x): return list(map(g, x))", "cell 1, line 1: `map`"),
    ("m = map\ndef f(x): return m(g, x)", "cell 1, line 1: `map`"),
    ("from functools import reduce", "cell 1, line 1: `reduce`"),
    ("def f(x): return torch.vmap(g)(x)", "cell 1, line 1: `torch.vmap`"),
    ("def f(x): return np.vectorize(g)(x)", "cell 1, line 1: `np.vectorize`"),
    ("def f(x): return x.apply_(g)", "cell 1, line 1: `x.apply_`"),
    ("def f(x): return f(x[1:])", "cell 1, line 1: recursion (`f` calls itself)"),
    ("f = lambda x: f(x[1:])", "cell 1, line 1: recursion (`f` calls itself)"),
    ("def f(x): return g(x)\ndef g(x):\n    return f(x)",
     "cell 1, line 3: recursion (`f` calls itself)"),
    ("class A:\n    def f(self, x): return self.f(x)",
     "cell 1, line 2: recursion (`f` calls itself)"),
    ("def f(x):\n    def g(y): return g(y)\n    return g(x)",
     "cell 1, line 2: recursion (`g` calls itself)"),
    ("TABLE = [g(i) for i in range(9)]\ndef f(x): return TABLE", "cell 1, line 1: a comprehension"),
    ("for i in range(9): TABLE[i] = g(i)\ndef f(x): return TABLE", "cell 1, line 1: a `for` loop"),
    ("for i in range(9):\n    def f(x): return i", "cell 1, line 1: a `for` loop"),
    ("f = g\nfor i in range(9): f = wrap(f)", "cell 1, line 2: a `for` loop"),
]  # fmt: skip
NO_LOOPS = [
    "def f(x): return x.sum()",
    "def f(x): return g(x)\ndef g(x): return x",
    "def f(x, g): return g(x)\ndef g(x): return f(x, 3)",
    "class A:\n    def forward(self, x): return forward(x)\ndef forward(x): return x",
    "def f(x): return x\nfor dim in (0, 1):\n    y = f(dim)\n    print(y)",
    "def f(x): return x\nprint([f(i) for i in range(3)])",
    "def f(x): return x\nwhile f(0): print(1)",
    "def f(x, filter): return filter(x)",
    "def map(x): return x\ndef f(x): return map(x)",
    # a first version, wrapped by the second
    "def f(x): return x\n_inner = f\ndef f(x): return _inner(x) + 1",
    "def f(x): return x\n_inner = f\n_again = _inner\ndef f(x): return _again(x) + 1",
    "def f(x): return x\n_inner = f\nf = lambda x: _inner(x) + 1",
    "f = lambda x: x\nfirst = f\nf = functools.partial(first, dim=1)",
    "def f(x): return x\nfirst = {'f': f}\ndef f(x): return first['f'](x) + 1",
    "class A:\n    def go(self, x): return x\nBase = A\n"
    "class A(Base):\n    def go(self, x): return Base.go(self, x) + 1",
]


@pytest.mark.parametrize(("code", "found"), LOOPS)
def test_every_loop_is_found(code: str, found: str) -> None:
    assert loop(code) == found
    assert loop("x = 1", code) == found.replace("cell 1", "cell 2")


@pytest.mark.parametrize("code", NO_LOOPS)
def test_what_is_no_loop_or_only_a_trial_is_not_found(code: str) -> None:
    assert loop(code) == ""


def test_functions_of_two_cells_may_call_each_other_in_a_circle() -> None:
    assert loop("def f(x): return g(x)", "def g(x): return f(x)") == (
        "cell 2, line 1: recursion (`f` calls itself)"
    )


OWN = "class A:\n    def softmax(self): pass\n"
IN_DISGUISE = {
    "self bound again":
        OWN + "    def go(self, x):\n        self = x\n        return self.softmax(0)",
    "self in the second place": OWN + "    def go(other, self): return self.softmax(0)",
    "self of a lambda": OWN + "    def go(s, x): return (lambda self: self.softmax(0))(x)",
    "self of a comprehension":
        OWN + "    def go(s, x): return [self.softmax(0) for self in [x]][0]",
    "self of a static method":
        OWN + "    @staticmethod\n    def go(self): return self.softmax(0)",
    "a method of an object's class":
        OWN + "    def go(self): return self.softmax(0)\ndef f(x): return type(A()).go(x)",
    "a method of a class in a list":
        OWN + "    def go(self): return self.softmax(0)\ndef f(x): return [A][0].go(x)",
    "a method that a decorator keeps":
        OWN + "    @keep\n    def go(self): return self.softmax(0)\ndef f(x): return kept[0](x)",
    "a method that its class keeps":
        OWN + "    def go(self): return self.softmax(0)\n    kept = [go]",
    "kept by a print of one's own":
        "def print(*given): kept.extend(given)\nprint(nn.Softmax(0))",
    "kept by a comparison of one's own":
        "class E:\n    def __eq__(self, o): kept.append(o)\nassert E() == nn.Softmax(0)",
    "kept by a method of one's own":
        "class K:\n    def equal(self, m): self.m = m\nk = K()\nk.equal(nn.Softmax(0))",
    "kept by what stands in a list": "print([kept.append, 1][0](nn.Softmax(0)))",
    "kept by what a call returns": "print(get()(nn.Softmax(0)))",
    "kept by a key": "print(min([nn.Softmax(0)], key=kept.append))",
}  # fmt: skip


@pytest.mark.parametrize("code", IN_DISGUISE.values(), ids=IN_DISGUISE.keys())
def test_a_name_in_disguise_is_found(code: str) -> None:
    assert named(code)


ITEM_BY_ITEM = {
    "a key of sorted": "def f(x): sorted(range(3), key=g)",
    "a key of max": "def f(x): max(range(3), key=lambda i: out.append(x[i]) or 0)",
    "a key of a list": "def f(x): rows.sort(key=g)",
    "a replacement for each match": "import re\ndef f(x): re.sub('.', lambda m: g(x), 'aaa')",
    "groups": "import itertools\ndef f(x): list(itertools.groupby(range(3), g))",
    "the largest": "import heapq\ndef f(x): heapq.nlargest(3, range(3), key=g)",
    "items by a method": "class R:\n    def __getitem__(self, i): return x[i]\ndef f(x): list(R())",
    "an iterator": "class R:\n    def __next__(self): return 1",
    "sums": "class R:\n    def __radd__(self, o): return o\ndef f(x): return sum([R()] * 5)",
    "copies": "class R:\n    def __deepcopy__(self, memo): return 1",
    "layers": "def f(x): return nn.Sequential(*[M()] * len(x))(x)",
    "a loader": "def f(x): return [*DataLoader(x)]",
    "a function of one's own, handed on":
        "def g(x): pass\ndef f(x): return np.piecewise(x, [], [g])",
    "itself, handed on": "def g(h, x): return h(h, x[1:])\ndef f(x): return g(g, x)",
    "itself, in a dict": "D = {}\ndef f(x): return D['f'](x[1:])\nD['f'] = f",
    "itself, in a list": "F = []\ndef f(x): return F[0](x[1:])\nF.append(f)",
    "itself, in an attribute": "class A: pass\nA.f = lambda self, x: A().f(x[1:])",
    "a lambda in a dict": "D = {}\nD['f'] = lambda x: D['f'](x[1:])",
    "itself, by another name": "def f(x): return g(x[1:])\ng = f",
    "itself, by two other names": "def f(x): return h(x[1:])\ng = f\nh = g",
    "its second version, by the first": "def f(x): return g(x)\nfirst = f\n"
        "def f(x): return first(x[1:])\ng = f",
    "its first version, by its name": "def f(x): return f(x[1:])\nfirst = f\n"
        "def f(x): return first(x)",
    "its second version, in a lambda": "def f(x): return x\nfirst = lambda x: f(x)\n"
        "def f(x): return first(x[1:])",
    "a version that a function binds": "def f(x): return x\nfirst = f\n"
        "def bind():\n    global first\n    first = f\ndef f(x): return first(x[1:])",
    "a version under a condition": "def f(x): return x\nif True:\n"
        "    def f(x): return g(x[1:])\ng = f",
    "a version in a list that is filled": "def f(x): return x\nkept = []\n"
        "def f(x): return kept[0](x[1:])\nkept.append(f)",
    "an object that is called": "class A:\n    def __call__(self, x): return self(x[1:])",
    "an object by its name": "class A:\n    def __call__(self, x): return a(x[1:])\na = A()",
}  # fmt: skip


@pytest.mark.parametrize("code", ITEM_BY_ITEM.values(), ids=ITEM_BY_ITEM.keys())
def test_a_loop_in_disguise_is_found(code: str) -> None:
    assert loop(code)
