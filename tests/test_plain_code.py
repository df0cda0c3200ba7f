"""Which notebooks are plain: common student code is, every way to a probe's insides is not."""

from __future__ import annotations

import builtins
import importlib
import re
import types
import warnings
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from classroom import NOISE
from course_files import COURSE, EXERCISES, find_cell, grade_id, source, variants

from helpers import probes
from helpers.grading.judge import plain_code
from helpers.grading.judge.plain_code import find_reach

NEEDED = "import math\nimport warnings\n\nimport torch\nfrom helpers import Check, probes\n"

PLAIN = [
    "x = torch.randn(3)\nx.requires_grad_(True)\nx.grad = None\nx.requires_grad = False",
    "import numpy as np\nnp.exp(np.array([1.0])).copy()",
    "import torch.nn.functional as F\nfrom torch import nn\nF.softmax(x, dim=1)",
    "import matplotlib.pyplot as plt\nplt.plot([1])\nplt.savefig('loss.png', dpi=90)",
    "plt.savefig(f'loss-{step}.png')",
    "from math import exp, log\nexp(1)",
    "masters = {id(p): p.detach().clone().float() for p in model.parameters()}",
    "seen = set()\nseen.add(x.untyped_storage().data_ptr())\nx.untyped_storage().nbytes()",
    "from functools import partial, reduce, wraps\n@wraps(f)\ndef g(*a): return f(*a)",
    "import functools\n@functools.wraps(f)\ndef g(*a): return f(*a)",
    "from dataclasses import dataclass\n@dataclass\nclass A:\n    x: int = 3",
    "import dataclasses\ndataclasses.replace(a, x=1)",
    "from datetime import datetime\nprint(datetime.now())",
    "import datetime\ndatetime.datetime.now()",
    "from pprint import pprint\npprint([1])",
    "import collections\ncollections.Counter('abc')\nfrom collections.abc import Callable",
    "import re\nre.compile(r'\\d').findall('1')",
    "import json\njson.loads(json.dumps({'a': 1}))",
    "import os, sys\nos.environ['A'] = 'b'\nprint(1, file=sys.stderr)\nsys.stdout.write('x')",
    "import os\nos.write(2, b'x')",
    "import os\nnames = [os.path.join(f, n) for n in os.listdir(f) if os.path.isfile(n)]",
    "paths = sorted(Path(folder).glob('*.png'))",
    "from torch.nn.utils.rnn import pad_sequence\nnn.utils.rnn.pad_sequence([x])",
    "from torch.utils.data import DataLoader, Sampler, default_collate",
    "import random, copy, time\nrandom.seed(1)\ncopy.deepcopy([1])\ntime.time()",
    "copy = x.clone()\nstring = 'x'\ntime = 3\nprint(copy, string, time)",
    "check = Check('softmax')\nwith check.property('x'):\n"
    "    check.call(probes.functions, softmax, x)\ncheck.score()",
    "if __name__ == '__main__':\n    print(torch.__version__, x.__class__.__name__)",
    "class Net(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.weight = 1\n    def forward(self, x): return x",
    "class Data:\n    def __len__(self): return 1\n    def __getitem__(self, i): return i",
    "class F(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n"
    "        ctx.save_for_backward(x)\n        return x\nF.apply(x)",
    "model.eval()\nmodel.train()",
    "for m in model.modules():\n    for p in m._parameters.values():\n        n += p.numel()",
    "torch.testing.assert_close(a, b)\nnp.testing.assert_allclose(a, b)",
    "from torch.testing import assert_close\nfrom torch.utils.data import DataLoader, Dataset",
    "torch.nn.utils.clip_grad_norm_(parameters, 1.0)",
    "torch.nn.utils.clip_grads_with_norm_(parameters, 1.0, norm)",
    "fuse = nn.utils.fusion.fuse_conv_bn_eval",
    "isinstance(module, torch.nn.modules.batchnorm._BatchNorm)",
    "isinstance(module, (nn.modules.conv._ConvNd, nn.modules.instancenorm._InstanceNorm))",
    "from torch.nn.modules.batchnorm import BatchNorm1d, _BatchNorm",
    "torch.utils.checkpoint.checkpoint(f, x)",
    "torch.backends.cudnn.benchmark = True\ntorch.trace(x)",
    "softmax.calls = 0",
    "a, b = x.chunk(2, dim=0)\ngetattr(torch, 'float16')",
    "match x:\n    case int(n): pass\n    case {'a': 1}: pass\n    case [a, *_]: pass",
    "%matplotlib inline\nimport torch",
    "%timeit -n 10 softmax(x)",
    "if True:\n    %time y = softmax(x)\nz = 1",
    "%%time\ny = softmax(x)",
    "softmax?",
    "# Really?\nx = 1  # 100 %",
    'x = """\n%time is what it takes\n"""',
    "try:\n    f()\nexcept Exception as error:\n    print(error)",
    "def softmax(x:",  # does not run
    "print 'old'",
    NOISE.replace("FUNCTION", "softmax"),
]  # fmt: skip

REACHING = {
    # modules
    "any other module": "import ctypes",
    "below one that is plain": "import logging.config",
    "the checks' own": "from helpers import calling\ncalling.plain_copy = f",
    "their module itself": "import helpers",
    "below them": "from helpers.guard import guarded_call",
    "everything": "from helpers import *",
    "relative": "from . import x",
    "the probes by another name": "from helpers import probes as p",
    "the probes handed on": "p = probes\np.functions = f",
    "a probe replaced": "probes.functions = f",
    "a module handed on": "import enum\ne = enum",
    "a module renamed": "import json as j",
    "builtins in enum": "import enum\nenum.bltns.print()",
    "codecs in json": "import json\njson.codecs.lookup('x')",
    "a module that torch holds": "torch.textwrap.re",
    "ctypes that torch holds": "torch.xpu.cast",
    "one imported from a library": "from torch.autograd.profiler_util import attrgetter",
    "all of a library": "from torch import *",
    "a package of matplotlib's": "from matplotlib import cbook, shutil",
    "another grammar": "from __future__ import barry_as_FLUFL",
    # text run as code, attributes by their names
    "exec": "exec('x')",
    "eval as an attribute": "b.eval('x')",
    "eval handed on": "e = b.eval",
    "getattr": "getattr(torch, '_C')",
    "getattr with a name that is computed": "getattr(torch, name)",
    "getattr handed on": "g = getattr",
    "a shell": "!ls",
    "a program": "%run x.py",
    "a magic that expands": "%timeit {code}",
    "a magic in a cell that Python alone cannot read": "x = 1\nif x:\n    %timeit\n!ls",
    "a magic with other options": "%timeit -s x y",
    "the shell's object": "get_ipython()",
    "annotations evaluated": "import typing\ntyping.get_type_hints(f)",
    "a format's fields": "import string\nstring.Formatter().get_field('0._C', [torch], {})",
    "attributes copied": "import functools\nfunctools.update_wrapper(b, torch, assigned=['_C'])",
    "attributes copied by wraps": "from functools import wraps\nwraps(torch, assigned=['_C'])(b)",
    "wraps handed on": "from functools import wraps\nw = wraps",
    "a keyword pattern": "match torch:\n    case object(_C=c): pass",
    "a positional pattern": "match torch:\n    case Anything(c): pass",
    "a pickle": "np.lib.format.read_array(f, allow_pickle=True)",
    "the probe's file": "torch.load('x')",
    # insides
    "a private attribute": "torch._C",
    "globals of a function": "softmax.__globals__",
    "a generator's frame": "g.gi_frame",
    "a coroutine's frame": "g.cr_frame",
    "the frame before": "f.f_back",
    "a traceback's frame": "tb.tb_frame",
    "a traceback": "error.__traceback__",
    "names of all": "globals()['x']",
    "a dunder name": "__builtins__",
    "attributes caught": "class A:\n    def __setattr__(self, name, value): pass",
    "torch's own hook": "class T(torch.Tensor):\n    def __torch_function__(cls, *a): pass",
    "a mode": "class M(TorchFunctionMode): pass",
    "a mode of torch's": "torch.overrides.TorchFunctionMode",
    "another default device": "torch.set_default_device('meta')",
    # memory beyond a tensor's own
    "strides": "torch.as_strided(x, (99,), (1,))",
    "strides of an array": "np.lib.stride_tricks.as_strided(a, (99,), (8,))",
    "a storage made smaller": "x.untyped_storage().resize_(0)",
    "an array made smaller": "a.resize((1,), refcheck=False)",
    "indices that nobody checks": "torch.sparse_csr_tensor(i, j, v).to_dense()",
    # changes of what passes values on
    "a tensor's method": "torch.Tensor.add = f",
    "a tensor's method by another name": "T = torch.Tensor\nT.clone = f",
    "in a loop's head": "for T.detach in [f]: pass",
    "taken away": "del T.clone",
    "in a method": "class A:\n    def f(self): self.clone = g\nA.f(torch.Tensor)",
    "a module's function": "import json\njson.dumps = f",
    "mathematics": "math.isfinite = f",
    "what the course imported": "warnings.catch_warnings = f",
    "imports by name, in what draws": "plt.matplotlib.backends.backend_agg.features.modules",
    "imports by name, handed on": "from matplotlib.backends.backend_agg import features",
    # files and streams
    "open": "open('x', 'w')",
    "another open": "x.open('x')",
    "the channel": "import os\nos.write(3, b'x')",
    "the channel, computed": "import os\nos.write(1 + 2, b'x')",
    "write handed on": "import os\nw = os.write",
    "the module glob, by a library": "np.something.glob",
    "os by its path": "import os\nos.path.os.system('x')",
    "os.path handed on": "import os\np = os.path",
    "a module written as text": "np.savetxt('statistics.py', x)",
    "a module written as a picture": "plt.savefig('statistics.py', format='raw')",
    "savefig handed on": "s = plt.savefig",
    "a log written": "import logging\nlogging.FileHandler('x')",
    "a path": "import matplotlib\nmatplotlib.Path('x').write_text('y')",
    # threads, in which no mode is on
    "threads": "import threading",
    "threads of torch's": "torch.nn.parallel.parallel_apply([f, f], [x, x])",
    "nested too deeply": "x = " + "-" * 3000 + "1",
    "nested deeply": "x = " + "a" + ".b" * 2000,
}


@pytest.mark.parametrize("code", PLAIN, ids=lambda code: code[:40])
def test_common_code_is_plain(code: str) -> None:
    assert find_reach([code], [NEEDED]) == ""


@pytest.mark.parametrize("code", REACHING.values(), ids=REACHING.keys())
def test_every_way_to_the_insides_is_found(code: str) -> None:
    assert find_reach(["x = 1", code, "y = 2"], [NEEDED]) != ""


def rests_on_testimony(chapter: str) -> bool:
    """Tell whether a test of the chapter takes a probe's word for something."""
    if not COURSE.source(chapter).exists():  # being written; other tests say so
        return False
    names = [name for name, value in vars(probes).items() if hasattr(value, "is_testimony")]
    tests = (c.source for c in source(chapter).cells if grade_id(c).startswith("test-"))
    return re.search(rf"probes\.({'|'.join(names)})\b", "\n".join(tests)) is not None


@pytest.mark.parametrize(
    "exercise",
    [exercise for exercise in EXERCISES if rests_on_testimony(exercise.chapter)],
    ids=lambda exercise: exercise.name,
)
def test_the_reference_and_every_right_solution_are_plain_where_it_matters(
    exercise: object,
) -> None:
    reference = find_cell(source(exercise.chapter), exercise.name).source
    for code in (reference, *(v.code for v in variants(exercise) if v.right)):
        assert find_reach([code], [NEEDED]) == "", code


def test_what_one_cell_imports_matters_in_all() -> None:
    assert find_reach(["import enum", "e = enum"]) == "enum"
    assert find_reach(["enum = 3", "e = enum"]) == ""
    assert find_reach(["e = functools"], ["import functools"]) == "functools"


def test_what_is_listed_exists() -> None:
    for module, parts in plain_code._PARTS.items():
        name = f"helpers.{module}" if module == "probes" else module
        found = vars(importlib.import_module(name))
        lazy = getattr(importlib.import_module(name), "__dir__", list)()
        assert parts <= {*found, *lazy}, module


def test_no_plain_attribute_of_a_library_leads_out_of_it() -> None:
    """Walk through all modules that torch, NumPy and matplotlib hold, by plain names alone."""
    dangerous = [getattr(builtins, n) for n in ("exec", "eval", "getattr", "setattr", "open")]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = set(walk_plainly(plain_code._LIBRARIES | plain_code._WHOLE, dangerous))
    # What these hold is examined by its own names: nothing in there runs text or opens files.
    assert found <= {"PIL.Image", "collections.abc", "dateutil"}


def walk_plainly(names: frozenset[str], dangerous: list[object]) -> Iterator[str]:
    waiting = [importlib.import_module(name) for name in sorted(names)]
    waiting.append(importlib.import_module("matplotlib.pyplot"))
    importlib.import_module("matplotlib.backends.backend_agg")  # as soon as something is drawn
    seen = set()
    for module in waiting:
        if module.__name__ in seen:
            continue
        seen.add(module.__name__)
        for name, value in list(vars(module).items()):
            if plain_code._leads_on(name):
                continue
            if isinstance(value, types.ModuleType):
                if value.__name__.split(".")[0] in names:
                    waiting.append(value)
                else:
                    yield value.__name__
            elif any(value is function for function in dangerous):
                yield f"{module.__name__}.{name}"


def test_no_method_of_a_tensor_is_taken_for_a_module() -> None:
    held = {name for name in plain_code._HELD_MODULES if name in plain_code._ATTRIBUTES}
    for kind in (torch.Tensor, torch.nn.Module, torch.nn.functional, np.ndarray, str, list, dict):
        own = {n for n in dir(kind) if not isinstance(getattr(kind, n), types.ModuleType)}
        assert own & held <= {"ctypes"}  # an array's: it gives its memory's address away
