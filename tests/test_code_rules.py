"""What an exercise asks to do without: what counts as naming it, and what as a loop."""

from __future__ import annotations

import pytest

from helpers.reading.cells import Cell
from helpers.reading.loops import find_hidden_loop
from helpers.reading.rules import find_loop, find_named


def named(*codes: str, patterns: tuple[str, ...] = ("softmax", "log_softmax")) -> str:
    found = find_named([Cell(code, f"cell {i}") for i, code in enumerate(codes, 1)], patterns)
    return f"{found.label}, line {found.line}: {found.what}" if found else ""


def loop(*codes: str) -> str:
    found = find_loop([Cell(code, f"cell {i}") for i, code in enumerate(codes, 1)])
    return f"{found.label}, line {found.line}: {found.what}" if found else ""


OWN_SOFTMAX = "class A:\n    def softmax(self, x): return x"
ON_CONTEXT = """class A(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): ctx.softmax = x
    @staticmethod
    def backward(ctx, g): return ctx.softmax"""
A_SOFTMAX = "class A:\n    @staticmethod\n    def softmax(x): return x"
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
    # an own class's name, or an object's, that may stand for another
    (f"{A_SOFTMAX}\nA = torch\ndef f(x): return A.softmax(x)", "cell 1, line 5: `A.softmax`"),
    (f"{A_SOFTMAX}\ndef f(x):\n    import torch as A\n    return A.softmax(x)",
     "cell 1, line 6: `A.softmax`"),
    (f"{OWN_SOFTMAX}\na = A()\na = torch\ndef f(x): return a.softmax(x)",
     "cell 1, line 5: `a.softmax`"),
    (f"{OWN_SOFTMAX}\na = A()\ndef f(x, a=torch): return a.softmax(x)",
     "cell 1, line 4: `a.softmax`"),
    (f"{OWN_SOFTMAX}\n    def __new__(cls): return torch\ndef f(x): return A().softmax(x)",
     "cell 1, line 4: `.softmax`"),
    (f"{OWN_SOFTMAX}\n    def __getattr__(self, name): return x\n"
     "    def f(self): self.softmax = 1\n    def g(self): return self.softmax(0)",
     "cell 1, line 5: `self.softmax`"),
    (f"{ON_CONTEXT}\ndef f(x): return A.backward(torch, x)", "cell 1, line 5: `ctx.softmax`"),
    (f"@wrapped\n{OWN_SOFTMAX}\ndef f(x): return A().softmax(x)", "cell 1, line 4: `.softmax`"),
    ("class A:\n    def f(self): return self\na = A()\ndef f(x): return a.softmax(x)",
     "cell 1, line 4: `a.softmax`"),
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
    "case = failing('softmax')\ncase.run()",
    "# torch.softmax\nx = 1",
    "class A(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.softmax = own()\n    def forward(self, x): return self.softmax(x)\nA()(3)",
    "class A:\n    def softmax(self, x): return x\n    def f(self, x): return self.softmax(x)",
    f"{OWN_SOFTMAX}\na = A()\ndef f(x): return a.softmax(x)",
    f"{OWN_SOFTMAX}\ndef f(x): return A().softmax(x)",
    f"{ON_CONTEXT}\ndef f(x): return A.apply(x)",
    "@dataclass\nclass A:\n    softmax: float\ndef f(x): return A(x).softmax",
    "class A:\n    def __init__(self, x): self.softmax = x\ndef f(x): return A(x).softmax",
    f"{OWN_SOFTMAX}\ndef f(x):\n    a = A()\n    return a.softmax(x)",
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


NO_LOOK_UPS = [
    "gain = nn.init.calculate_gain('softmax')",
    "def f(w): nn.init.kaiming_uniform_(w, nonlinearity='softmax')",
    "name = 'softmax'\nkinds = {'softmax': 1}\nraise ValueError('softmax')",
    "def f(x, kind='softmax'): return kind == 'softmax' or getattr(x, 'bias', None)",
    "import math\nimport torch.nn as nn\nfrom helpers import Check, probes\nkind = 'softmax'",
    "class A(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.kind = 'softmax'",
]
LOOK_UPS = [
    "f = getattr(torch, 'softmax')",
    "f = getattr(torch, 'softmax', None)",
    "f = getattr(torch, *('softmax',))",
    "name = 'softmax'\nf = getattr(torch, name)",
    "name = 'softmax'\nfind = getattr\nf = find(torch, name)",
    "f = list(map(getattr, [torch], ['softmax']))",
    "f = torch.__dict__['softmax']",
    "f = torch.__getattribute__('softmax')",
    "f = vars(torch)['softmax']",
    "f = globals()['softmax']",
    "f = eval('softmax')",
    "f = probes.with_network(keep, ['Softmax'])",
    "from helpers import probes as p\nf = p.with_network(keep, ['Softmax'])",
    "from helpers.probes import build\nf = build(['Softmax'])",
    "from operator import attrgetter\nf = attrgetter('softmax')(torch)",
    "import operator as o\nf = o.attrgetter('softmax')(torch)",
    "import own\nf = own.find('softmax')",
    "f = torch.fx.Graph().call_method('softmax')",
    "from torch import fx as g\nf = g.Graph().call_method('softmax')",
    "f = torch.ops.aten['softmax']",
]


@pytest.mark.parametrize("code", NO_LOOK_UPS)
def test_a_text_that_finds_nothing_need_not_count(code: str) -> None:
    cells = [Cell(code, "cell 1")]
    assert find_named(cells, ["softmax"], any_text=False) is None
    assert find_named(cells, ["softmax"]) is not None


@pytest.mark.parametrize("code", LOOK_UPS)
def test_a_text_that_may_find_something_counts(code: str) -> None:
    assert find_named([Cell(code, "cell 1")], ["softmax"], any_text=False) is not None
    apart = [Cell(line, f"cell {i}") for i, line in enumerate(code.split("\n"), 1)]
    assert find_named(apart, ["softmax"], any_text=False) is not None


@pytest.mark.parametrize(("code", "found"), NAMED)
def test_what_is_no_text_counts_either_way(code: str, found: str) -> None:
    place = find_named([Cell(code, "cell 1")], ["softmax", "log_softmax"], any_text=False)
    assert place is not None
    assert f"line {place.line}: {place.what}" in found


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
     "cell 1, line 3: recursion (`f` and `g` call each other)"),
    ("def f(x): return g(x)\ndef g(x): return h(x)\ndef h(x):\n    return f(x)",
     "cell 1, line 4: recursion (`f` calls itself by way of `g` and `h`)"),
    ("class A:\n    def f(self, x): return self.f(x)",
     "cell 1, line 2: recursion (`f` calls itself)"),
    ("def f(x):\n    def g(y): return g(y)\n    return g(x)",
     "cell 1, line 2: recursion (`g` calls itself)"),
    ("def f(x):\n    global f\n    f = f\n    return f(x)",
     "cell 1, line 3: recursion (`f` calls itself)"),
    ("def f(x):\n    from own import f\n    return f(x)",
     "cell 1, line 3: recursion (`f` calls itself)"),
    ("def f(x):\n    def g(y): return f(y)\n    f2 = g\n    return f2(x)",
     "cell 1, line 2: recursion (`f` and `g` call each other)"),
    ("def f(x):\n    def g(y, z=f(3)): return y\n    return g(x)",
     "cell 1, line 2: recursion (`f` calls itself)"),
    ("def f(x):\n    @f\n    def g(y): return y\n    return g(x)",
     "cell 1, line 2: recursion (`f` calls itself)"),
    ("TABLE = [g(i) for i in range(9)]\ndef f(x): return TABLE", "cell 1, line 1: a comprehension"),
    ("for i in range(9): TABLE[i] = g(i)\ndef f(x): return TABLE", "cell 1, line 1: a `for` loop"),
    ("for i in range(9):\n    def f(x): return i", "cell 1, line 1: a `for` loop"),
    ("def g(m): return ''\ndef f(x, g=g): return re.sub('a', g, x)",
     "cell 1, line 2: `g`, handed on"),
    ("class A:\n    def g(self, m): return ''\ndef f(x): return re.sub('a', A().g, x)",
     "cell 1, line 3: `g`, handed on"),
    ("def f(x):\n    o = {'parse_int': lambda n: n}\n    return json.loads(x, **o)",
     "cell 1, line 2: a function that is handed on"),
    ("def g(m): return ''\nT = [g]\ndef f(x): return re.sub('a', T[0], x)",
     "cell 1, line 3: `T`, handed on"),
    ("def g(m): return ''\nh = partial(re.sub, 'a', g)\ndef f(x): return h(x)",
     "cell 1, line 2: `g`, handed on"),
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
    "def f(x): return x\ndef show(n): print(f(n))\nfor n in (1, 2): show(n)",
    "def f(x, filter): return filter(x)",
    "def map(x): return x\ndef f(x): return map(x)",
    "class A:\n    def map(self, x): return x\ndef f(x): return A().map(x)",
    "def g(x, p): return x\nh = partial(g, p=2)\ndef f(x): return h(x)",
    "def g(x): return x\nratio = time_ratio(f, g)\nprint(ratio)\ndef f(x): return g(x)",
    # a function that is handed to one of one's own, which calls it once
    "def g(p, x): return p(x)\ndef f(x): return g(lambda y: y + 1, x)",
    "def g(p, x): return p(x)\ndef p(y): return y + 1\ndef f(x): return g(p, x)",
    "def p(y): return y + 1\ndef f(x):\n    p = lambda y: y + 2\n    return g(x, p=p)\n"
    "def g(x, *, p): return p(h(x))\ndef h(x): return x",
    "def f(x):\n    def p(y): return x + y\n    g = lambda p, y: p(y)\n    return g(p, x)",
    "def f(x): return x\ndef counted(g):\n    def wrapper(*x): return g(*x)\n    return wrapper\n"
    "f = counted(f)",
    # a first version, wrapped by the second
    "def f(x): return x\n_inner = f\ndef f(x): return _inner(x) + 1",
    "def f(x): return x\n_inner = f\n_again = _inner\ndef f(x): return _again(x) + 1",
    "def f(x): return x\n_inner = f\nf = lambda x: _inner(x) + 1",
    "f = lambda x: x\nfirst = f\nf = functools.partial(first, dim=1)",
    "def f(x): return x\nfirst = {'f': f}\ndef f(x): return first['f'](x) + 1",
    # a variable, a parameter with the name of the function it is in
    "def f(x):\n    f = x + 1\n    return f",
    "def f(x, f): return x + f",
    "def f(x): return (lambda f: f + 1)(x)",
    "def f(x):\n    def g(f): return f + x\n    return g(3)",
    "def f(x):\n    def g(y):\n        f = y + x\n        return f\n    return g(3)",
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
        "cell 2, line 1: recursion (`f` and `g` call each other)"
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
    "an iterator": "class R:\n    def __next__(self): return 1",
    "layers": "def f(x): return nn.Sequential(*[M()] * len(x))(x)",
    "a loader": "def f(x): return [*DataLoader(x)]",
    "a function of one's own, handed on":
        "def g(x): pass\ndef f(x): return np.piecewise(x, [], [g])",
    "handed to one of one's own, which hands it on":
        "def g(p, x): return np.piecewise(x, [], [p])\ndef f(x): return g(lambda y: y, x)",
    "handed to one of one's own, which keeps it":
        "def g(p, x):\n    h = p\n    return np.piecewise(x, [], [h])\ndef q(x): return x\n"
        "def f(x): return g(q, x)",
    "handed to one of one's own, which hands it itself":
        "def g(p, x): return p(p, x)\ndef f(x): return g(lambda p, x: p(p, x[1:]), x)",
    "handed to one of one's own beside another": "def g(p, q, x): return p(q, x)\n"
        "def f(x): return g(lambda q, x: q(q, x), lambda q, x: q(q, x[1:]), x)",
    "handed to one of one's own, which is given away":
        "def q(x): return f(x[1:])\ndef g(p, x): return p(x)\ndef f(x): return g(q, x)",
    "handed to one of one's own, which a lambda calls again": "def g(p, x): return p(x)\n"
        "def f(x): return g(lambda y: g(lambda z: f(z), y), x)",
    "handed to a parameter with a name of one's own": "def g(p, x): return p(x)\n"
        "def q(x): return x\ndef f(x, g=np.frompyfunc2): return g(q, x)",
    "handed to a decorated one": "@wrap\ndef g(p, x): return p(x)\n"
        "def f(x): return g(lambda y: y, x)",
    "handed to all parameters": "def g(*p): return p[0](*p)\ndef q(*p): return p[0](*p)\n"
        "def f(x): return g(q, x)",
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


HIDDEN_LOOPS = {
    "items by a method": "class R:\n    def __getitem__(self, i): return x[i]\ndef f(x): list(R())",
    "sums": "class R:\n    def __radd__(self, o): return o\ndef f(x): return sum([R()] * 5)",
    "copies": "class R:\n    def __deepcopy__(self, memo): return 1",
}


@pytest.mark.parametrize("code", HIDDEN_LOOPS.values(), ids=HIDDEN_LOOPS.keys())
def test_what_may_hide_a_loop_is_found_and_may_be_none(code: str) -> None:
    assert loop(code) == ""
    doubt = find_hidden_loop([Cell("x = 1", "cell 1"), Cell(code, "cell 2")])
    assert (doubt.label, doubt.line) == ("cell 2", 2)


def test_what_is_called_once_hides_no_loop() -> None:
    code = "class A:\n    def __init__(self, x): self.x = x\n    def __call__(self): return self.x"
    assert find_hidden_loop([Cell(code, "cell 1"), Cell("f(", "cell 2")]) is None


@pytest.mark.parametrize("code", ITEM_BY_ITEM.values(), ids=ITEM_BY_ITEM.keys())
def test_a_loop_in_disguise_is_found(code: str) -> None:
    assert loop(code)


ANSWER = """
SCALE = 1.0
def softmax(x, dim):
    e = (x - x.amax(dim, keepdim=True)).exp()
    return SCALE * e / e.sum(dim, keepdim=True)
"""
TRIES = {
    "a function": "def test():\n"
        "    assert torch.allclose(softmax(x, 0), torch.softmax(x, 0))\ntest()",
    "a layer": "ref = nn.Softmax(0)\nprint((softmax(x, 0) - ref(x)).abs().max())",
    "a condition": "if torch.allclose(softmax(x, 0), F.softmax(x, 0)): print('equal')",
    "a pair": "a, b = softmax(x, 0), F.softmax(x, 0)\nassert torch.equal(a, b)",
    "a reference": "def expected(x): return F.softmax(x, 0)\n"
        "torch.testing.assert_close(softmax(x, 0), expected(x))",
    "a reference by another name": "from torch.nn.functional import softmax as theirs\n"
        "assert torch.allclose(softmax(x, 0), theirs(x, 0))",
    "a comparison": "def compare(mine, theirs):\n"
        "    print(torch.allclose(mine(x, 0), theirs(x, 0)))\n"
        "compare(softmax, F.softmax)",
    "two functions in a loop": "for f in (softmax, F.softmax): print(f(x, 0).sum())",
    "a list of results": "rows = []\nfor d in (0, 1):\n"
        "    rows.append((softmax(x, d), F.softmax(x, d)))",
    "results by name": "got = {}\ngot['mine'] = softmax(x, 0)\ngot['torch'] = nn.Softmax(0)(x)",
    "a test case": "class T(unittest.TestCase):\n    def setUp(self): self.ref = nn.Softmax(0)\n"
        "    def test_it(self): self.assertTrue(torch.allclose(softmax(x, 0), self.ref(x)))\n"
        "unittest.main(argv=[''], exit=False)",
    "a gradient": "y = nn.Softmax(0)(x)\ny.sum().backward()\n"
        "assert torch.allclose(g, x.grad)",
    "a lambda": "ref = lambda x: torch.softmax(x, 0)\nassert torch.allclose(softmax(x, 0), ref(x))",
    "a class": "class Ref(nn.Module):\n"
        "    def forward(self, x): return F.softmax(x, 0)\nprint(Ref()(x))",
    "a context": "with torch.no_grad():\n    ref = nn.Softmax(0)\n    y = ref(x)\n    print(y)",
}  # fmt: skip


def rule(code: str, name: str = "softmax") -> bool:
    return find_named([Cell(code, "cell 1")], ("*softmax",), [name]) is not None


@pytest.mark.parametrize("code", TRIES.values(), ids=TRIES.keys())
def test_what_only_tries_the_answer_is_left_alone(code: str) -> None:
    assert not rule(f"{ANSWER}\nx = torch.randn(3, 4)\n{code}")
    assert not rule(f"x = torch.randn(3, 4)\n{code}\n{ANSWER}")
    assert rule(f"{ANSWER}\nx = torch.randn(3, 4)\n{code}", "another name")


# Each is an answer with a try that hands it torch's own.
HIDDEN = {
    "a global": "ref = F.softmax\ndef softmax(x, dim): return ref(x, dim)",
    "a global layer": "ref = nn.Softmax(0)\ndef softmax(x, dim): return ref(x)",
    "a global of a global": "a = F.softmax\nb = a\ndef softmax(x, dim): return b(x, dim)",
    "one of a pair": "a, ref = 3, F.softmax\ndef softmax(x, dim): return ref(x, dim)",
    "bound again below": "def softmax(x, dim): return x\nsoftmax = F.softmax",
    "bound in a function": "def softmax(x, dim): return x\n"
        "def test():\n    global softmax\n    softmax = F.softmax\ntest()",
    "bound in a loop": "for ref in [F.softmax]: pass\ndef softmax(x, dim): return ref(x, dim)",
    "bound in a comprehension": "[ref := f for f in [F.softmax]]\n"
        "def softmax(x, dim): return ref(x, dim)",
    "bound by an import": "from torch import softmax as ref\n"
        "def softmax(x, dim): return ref(x, dim)",
    "all of a module": "from torch.nn.functional import *\n"
        "def softmax(x, dim): return kept(x, dim)\nkept = log_softmax",
    "a decorator": "def instead(f): return F.softmax\n@instead\ndef softmax(x, dim): return x",
    "a default": "ref = F.softmax\ndef softmax(x, dim, f=ref): return f(x, dim)",
    "a base": "class Base(nn.Softmax): pass\nclass softmax(Base): pass",
    "a list": "kept = []\nkept.append(F.softmax)\ndef softmax(x, dim): return kept[0](x, dim)",
    "a list, added to": "kept = []\nkept += [F.softmax]\n"
        "def softmax(x, dim): return kept[0](x, dim)",
    "a list in a function": "kept = []\ndef keep(k, f): k += [f]\nkeep(kept, F.softmax)\n"
        "def softmax(x, dim): return kept[0](x, dim)",
    "a list by a condition": "kept = []\n(kept if 1 else 0).append(F.softmax)\n"
        "def softmax(x, dim): return kept[0](x, dim)",
    "a list by another function": "kept = []\ndef get(): return kept\nget().append(F.softmax)\n"
        "def softmax(x, dim): return kept[0](x, dim)",
    "a list by a method's name": "kept = []\nadd = kept.append\nadd(F.softmax)\n"
        "def softmax(x, dim): return kept[0](x, dim)",
    "a list by a method in a list": "kept = []\nfor f in [kept.append, F.softmax]: f(F.softmax)\n"
        "def softmax(x, dim): return kept[0](x, dim)",
    "a list by a class": "kept = []\nlist.append(kept, F.softmax)\n"
        "def softmax(x, dim): return kept[0](x, dim)",
    "a list by a key": "kept = []\nmax([F.softmax], key=kept.append)\n"
        "def softmax(x, dim): return kept[0](x, dim)",
    "a list by map": "kept = []\nlist(map(kept.append, [F.softmax]))\n"
        "def softmax(x, dim): return kept[0](x, dim)",
    "an item's name": "kept = {}\nfor kept['f'] in [F.softmax]: pass\n"
        "def softmax(x, dim): return kept['f'](x, dim)",
    "a key that is asked for": "kept = defaultdict(int)\nkept[F.softmax]\n"
        "def softmax(x, dim): return next(iter(kept))(x, dim)",
    "an attribute": "def softmax(x, dim): return softmax.ref(x, dim)\nsoftmax.ref = F.softmax",
    "an attribute by another name":
        "def softmax(x, dim): return softmax.ref(x, dim)\n[softmax][0].ref = F.softmax",
    "an attribute in a function": "def softmax(x, dim): return softmax.ref(x, dim)\n"
        "def put(o, f): o.ref = f\nput(softmax, F.softmax)",
    "an attribute by a condition":
        "def softmax(x, dim): return softmax.ref(x, dim)\n(softmax if 1 else 0).ref = F.softmax",
    "an attribute by setattr": "def softmax(x, dim): return softmax.ref(x, dim)\n"
        "def put(o, f): setattr(o, 'ref', f)\nput(softmax, F.softmax)",
    "a class's attribute by an object": "class C: ref = None\n"
        "def softmax(x, dim): return C.ref(x, dim)\ntype(C()).ref = F.softmax",
    "a library's object": "def softmax(x, dim): return plt.gcf().ref(x, dim)\n"
        "plt.gcf().ref = F.softmax",
    "a library's object by a name": "def softmax(x, dim): return plt.gcf().ref(x, dim)\n"
        "figure = plt.gcf()\nfigure.ref = F.softmax",
    "a library's list": "def softmax(x, dim): return logging.getLogger('a').filters[0](x, dim)\n"
        "logging.getLogger('a').addFilter(F.softmax)",
    "an answer that keeps what it gets": "kept = []\ndef softmax(x, dim):\n"
        "    if callable(x): kept.append(x)\n    else: return kept[0](x, dim)\n"
        "softmax(F.softmax, 0)",
    "an answer that keeps a layer": "kept = []\ndef softmax(x, dim):\n"
        "    if callable(x): kept.append(x)\n    else: return kept[0](x)\n"
        "ref = nn.Softmax(0)\nsoftmax(ref, 0)",
    "an answer's own object": "class C:\n    def keep(self, f): C.f = f\n"
        "def softmax(x, dim): return C.f(x, dim)\nc = C()\nc.keep(F.softmax)",
    "an answer's operator": "class C:\n    def __eq__(self, f): C.f = f\n"
        "def softmax(x, dim): return C.f(x, dim)\nC() == F.softmax",
    "an answer's base": "class C:\n    def keep(self): C.f = self.f\n"
        "def softmax(x, dim): return C.f(x, dim)\nclass D(C):\n"
        "    def go(self):\n        self.f = F.softmax\n        self.keep()\nD().go()",
    "an exception": "kept = []\ndef softmax(x, dim): return kept[0](x, dim)\n"
        "try: raise ValueError(F.softmax)\nexcept ValueError as e: kept.append(e.args[0])",
    "an assertion's message": "kept = []\ndef softmax(x, dim): return kept[0](x, dim)\n"
        "try: assert False, F.softmax\n"
        "except AssertionError as e: (kept if 1 else 0).append(e.args)",
    "an array": "kept = []\ndef softmax(x, dim): return kept[0](x, dim)\n"
        "a = np.array([F.softmax])\n(kept if 1 else 0).append(a[0])",
    "a generator": "kept = []\ndef softmax(x, dim): return kept[0](x, dim)\n"
        "def fill(k):\n    while True: k += [(yield)]\ng = fill(kept)\nnext(g)\ng.send(F.softmax)",
    "a pattern": "kept = []\ndef softmax(x, dim): return kept[0](x, dim)\n"
        "match F.softmax:\n    case f: (kept if 1 else 0).append(f)",
    "a library's name": "class K:\n    def exp(self, f): (kept if 1 else 0).append(f)\nkept = []\n"
        "torch = K()\ntorch.exp(F.softmax)\ndef softmax(x, dim): return kept[0](x, dim)",
    "a text": "kept = []\ndef softmax(x, dim): return kept[0](x, dim)\n"
        "f = getattr(F, 'softmax')\n(kept if 1 else 0).append(f)",
    "a decorated try": "kept = []\ndef softmax(x, dim): return kept[0](x, dim)\n"
        "def keep(f): (kept if 1 else 0).append(f())\n@keep\ndef test(): return F.softmax",
    "the same try twice": "y = F.softmax\ndef softmax(x, dim): return y(x, dim)\ny = F.softmax",
    "a lambda that is called": "kept = []\ndef softmax(x, dim): return kept[0](x, dim)\n"
        "(lambda k, f: k.append(f))(kept, F.softmax)",
    "a parameter that is a method": "kept = []\ndef softmax(x, dim): return kept[0](x, dim)\n"
        "def test(keep, f): keep(f)\ntest((kept if 1 else 0).append, F.softmax)",
    "all parameters at once": "kept = []\ndef softmax(x, dim): return kept[0](x, dim)\n"
        "def test(keep, f): keep(f)\ntest(*[(kept if 1 else 0).append, F.softmax])",
    "handed to a function that it is given": "kept = []\n"
        "def softmax(x, dim): return kept[0](x, dim)\nF.log_softmax(lambda f: kept.append(f))",
    "handed to a function of its own": "kept = []\ndef softmax(x, dim): return kept[0](x, dim)\n"
        "def take(f): kept.append(f)\ng = take\nout = F.log_softmax\nout(g)",
    "handed to a method of a list": "kept = []\ndef softmax(x, dim): return kept[0](x, dim)\n"
        "ref = nn.Softmax(0)\nref.register_forward_hook(kept.append)",
    "handed to an object": "kept = []\ndef softmax(x, dim): return kept[0](x, dim)\n"
        "class Taker:\n    def step(self, f): kept.append(f)\n"
        "taker = Taker()\nref = nn.Softmax(0)\nref.apply([taker])",
    "a function that returns it": "kept = []\ndef softmax(x, dim): return kept[0](x, dim)\n"
        "def make(): return nn.Softmax(0)\n(kept if 1 else 0).append(make())",
}  # fmt: skip


@pytest.mark.parametrize("code", HIDDEN.values(), ids=HIDDEN.keys())
def test_what_a_try_hands_to_the_answer_counts(code: str) -> None:
    assert find_named([Cell(code, "cell 1")], ("softmax", "log_softmax"), ["softmax"])
    lines = code.split("\n")
    cut = next((n for n, line in enumerate(lines) if n and not line.startswith(" ")), len(lines))
    cells = [Cell("\n".join(part), "") for part in (lines[:cut], lines[cut:])]
    assert find_named(cells, ("softmax", "log_softmax"), ["softmax"])


def test_two_equal_cells_are_no_way_out() -> None:
    cells = [Cell(code, "") for code in ("f = F.relu", "def g(x): return f(x)", "f = F.relu")]
    assert find_named(cells, ["relu"], ["g"])


def test_a_function_with_a_loop_that_only_compares_is_left_alone() -> None:
    answer = "def f(x): return x.sum()\n"
    naive = "def naive(x):\n    s = 0\n    for r in x: s += r\n    return s\n"
    used = "assert torch.allclose(f(x), naive(x))"
    assert find_loop([Cell(answer + naive + used, "")], ["f"]) is None
    assert find_loop([Cell(naive + answer, ""), Cell(used, "")], ["f"]) is None
    again = "def again(x): return again(x[1:]) if len(x) else 0\nprint(again(x))"
    assert find_loop([Cell(answer + again, "")], ["f"]) is None
    for call in ("f = naive", "f.g = naive", "keep(naive)", "(f if 1 else 0).g = naive"):
        assert find_loop([Cell(answer + naive + call, "")], ["f"])
    assert find_loop([Cell(naive + "def f(x): return naive(x)", "")], ["f"])


GATHER = "def f(x, y):\n    return x[torch.arange(len(x))[:, None], y]\n"
HONEST_TRIES = {
    "the card's example": "print(f(torch.tensor([[1, 2]]), torch.tensor([[0]])))",
    "compared with torch": "assert torch.equal(f(x, y), x.gather(1, y))",
    "in a loop": "for k in range(3):\n    x = torch.rand(3, 4)\n    print(torch.equal(f(x, y), x))",
    "with a walrus": "f(x := torch.zeros(2, 3), torch.zeros(2, 1, dtype=torch.long))",
    "compiled": "fast = torch.compile(f)\nprint(fast(x, y))",
    "mapped": "print(torch.func.vmap(f)(x, y))",
    "tested by torch": "torch.testing.assert_close(f(x, y), x)",
    "with numpy": "np.testing.assert_allclose(f(x, y), np.zeros(3))",
    "in a function": "def try_it():\n    for k in range(2):\n        x = torch.rand(3, 4)\n"
        "        assert torch.equal(f(x, y), x)\ntry_it()",
    "beside a slow one": "def slow(x, y):\n    out = []\n    for row, k in zip(x, y):\n"
        "        out.append(row[k])\n    return torch.stack(out)\nx = torch.rand(3, 4)\n"
        "assert torch.equal(slow(x, y), f(x, y))",
}  # fmt: skip


@pytest.mark.parametrize("code", HONEST_TRIES.values(), ids=HONEST_TRIES.keys())
def test_who_tries_an_answer_out_below_it_uses_no_loop(code: str) -> None:
    """What torch is given there, the answer does not get from torch."""
    assert find_loop([Cell(GATHER + code, "")], ["f"]) is None
    assert find_loop([Cell(GATHER, ""), Cell(code, "")], ["f"]) is None


@pytest.mark.parametrize("with_math", ["print(math.sqrt(f(2)))", "import math\nmath.floor(f(2))"])
def test_a_module_of_python_keeps_nothing_either(with_math: str) -> None:
    assert find_loop([Cell("def f(x): return math.sin(x)\n" + with_math, "")], ["f"]) is None


@pytest.mark.parametrize(
    "hidden",
    [
        "torch.own = f",
        "torch = []\ntorch.append(f)",
        "class torch:\n    own = f\n    def tensor(self, x): pass\ntorch.tensor(f)",
        "nn.modules.module.register_module_forward_hook(f)",
        "torch.keep(f)",
    ],
)
def test_what_a_module_is_given_to_keep_leads_back(hidden: str) -> None:
    code = "def f(x, y): return torch.own(x[1:], y) + nn.Identity()(x)\n"
    assert "recursion" in loop(code + hidden)


def test_what_is_assigned_to_is_not_used() -> None:
    """Rules ask for what does the work, and that has to be read from somewhere."""
    assert not named("x.data = y\nx.softmax = y\ndel x.softmax", patterns=("data", "softmax"))
    assert named("x.data += y.data", patterns=("data",))
    assert not named("def f(x): x.requires_grad = True", patterns=("*requires_grad*",))
    assert named(
        "def f(x):\n    x.requires_grad = True\n    y.backward()", patterns=("*backward*",)
    )
