"""Which code is plain: what honest students write is, every way to the machinery is not."""

from __future__ import annotations

import ast
import builtins
import importlib
import pkgutil
import re
import sys
import sysconfig
import types
import warnings
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from classroom import NOISE
from course_files import EXERCISES, find_cell, source, variants
from torch import nn

from helpers import probes
from helpers.catalogue import Exercise
from helpers.reading import rules, tables
from helpers.reading.cells import Cell
from helpers.reading.names import Names
from helpers.reading.plain_code import Doubt, find_doubts

GIVEN = [
    Cell("import math\nimport warnings\n\nimport torch\nfrom torch import nn", "", True),
    Cell("import torch.nn.functional as F\nfrom helpers import Check, hint, probes", "", True),
    Cell("import numpy as np\nimport matplotlib.pyplot as plt", "", True),
]


def doubts(*codes: str) -> list[Doubt]:
    return find_doubts([Cell(c, f"cell {i}") for i, c in enumerate(codes, 1)], GIVEN)


PLAIN = [
    # tensors, arrays, pictures
    "x = torch.randn(3)\nx.requires_grad_(True)\nx.grad = None\nx.requires_grad = False",
    "np.exp(np.array([1.0])).copy()",
    "a, b = x.chunk(2, dim=0)\nx.copy_(y)\ny = x.clone().detach().cpu().numpy()",
    "plt.plot([1])\nplt.savefig('loss.png', dpi=90)\nfig, ax = plt.subplots()",
    "plt.savefig(name)",
    "plt.savefig(f'loss-{step}.png')",
    "plt.rcParams['figure.figsize'] = (3, 4)",
    "masters = {id(p): p.detach().clone().float() for p in model.parameters()}",
    "seen = set()\nseen.add(x.untyped_storage().data_ptr())\nx.untyped_storage().nbytes()",
    "torch.set_printoptions(precision=4, sci_mode=False)",
    "torch.manual_seed(0)\ntorch.set_default_dtype(torch.float64)",
    "torch.backends.cudnn.benchmark = True\ntorch.trace(x)",
    "torch.use_deterministic_algorithms(True)",
    "T = torch.Tensor\nisinstance(x, T)",
    "from torch.utils.data import DataLoader\no = {'batch_size': 4}\nDataLoader(x, **o)",
    "from torch.utils.data import DataLoader\nDataLoader(x, **dict(batch_size=4, shuffle=True))",
    "from torch.utils.benchmark import Timer\nTimer('f(x, 1)', globals={'f': f}).timeit(9)",
    "import matplotlib\nmatplotlib.use('agg')",
    "def f(x: 'torch.Tensor') -> 'the largest': pass",
    "best = torch.inf\ndef f():\n    global best\n    best = 1.0",
    "def eval(model): return model\neval(3)",
    "import time\nfrom time import time\nfrom math import pi\nfrom numpy import pi",
    "torch.Tensor.sum(x)",
    "if y.grad_fn is None: pass",
    "torch.testing.assert_close(a, b)\nnp.testing.assert_allclose(a, b)",
    "with torch.autocast('cpu', dtype=torch.bfloat16): pass",
    "with torch.amp.autocast('cpu'): pass",
    "scaler = torch.amp.GradScaler('cpu')\nscaler.scale(loss).backward()",
    "torch.cdist(x, y, p=2, compute_mode='donot_use_mm_for_euclid_dist')",
    "with torch.autograd.graph.saved_tensors_hooks(pack, unpack): pass",
    "g = torch.autograd.grad(y, x)",
    "torch.func.vmap(f)(x)",
    "torch.load(path, weights_only=True)\ntorch.save(model.state_dict(), 'model.pth')",
    "a = np.load('x.npy')\nnp.save('x.npy', a)",
    "getattr(torch, 'float16')\ngetattr(x, 'grad', None)",
    "name = 'float16'\nprint(getattr(torch, name))",
    "for name in ('float16', 'bfloat16'): print(torch.finfo(getattr(torch, name)))",
    "NAMES = ['float16', 'bfloat16']\nfor n in NAMES: print(getattr(torch, n))",
    "NAMES = ('float16', 'bfloat16')\nprint(NAMES, [getattr(torch, n) for n in NAMES])",
    "for name, bits in [('float16', 16), ('float32', 32)]: print(getattr(torch, name), bits)",
    "for name in {'relu': 1, 'gelu': 2}: plt.plot(x, getattr(F, name)(x))",
    "for name in ['weight', 'bias']: print(getattr(layer, name).shape)",
    "class A:\n    PARTS = ('model', 'scaler')\n"
    "    def state(self): return {n: getattr(self, n).state_dict() for n in self.PARTS}",
    "print(layer._get_name(), module.inner._get_name())",
    "import os\nfolder = os.path.dirname(path) or os.curdir",
    # a local variable, whatever else has its name
    "def f(layer):\n    for name in ('weight', 'bias'): getattr(layer, name).zero_()\n"
    "name = input",
    "class A:\n    def f(self):\n        for n, x in (('mean', 1), ('var', 2)):\n"
    "            getattr(self, n).copy_(x)\n    def g(self, n): return n",
    "[getattr(layer, n) for n in ('weight', 'bias')]\ndef f(n): return n",
    "def f(layer, xs):\n    for n, x in zip(('weight', 'bias'), xs): getattr(layer, n).copy_(x)",
    "for n, x in {'weight': 1, 'bias': 2}.items(): getattr(layer, n).fill_(x)",
    "for i, n in enumerate(['weight', 'bias']): getattr(layer, n).fill_(i)",
    "for n, on in (('benchmark', False), ('deterministic', True)):\n"
    "    setattr(torch.backends.cudnn, n, on)",
    # all of a module, as far as it is plain, and modules that nobody uses
    "from collections import *\nd = defaultdict(list)\nd[deque()].append(3)",
    "from functools import *\n@lru_cache\ndef f(x): return partial(f, x)",
    "from typing import *\ndef f(x: Optional[int]) -> List[int]: return x",
    "from itertools import *\nfrom time import *\nprint(perf_counter(), chain([1]))",
    "import pandas as pd\nimport subprocess as sp\nfrom tqdm import tqdm\nimport xml.dom.minidom",
    "import functools\n@functools.singledispatch\ndef f(x): ...\n@f.register\n"
    "def _(x: torch.Tensor, y: int | None = None) -> list[int]: ...\n"
    "@f.register(float)\ndef g(x): ...",
    "for i in range(3):\n    setattr(model, f'layer{i}', nn.Linear(2, 2))",
    "class Loader:\n    def __init__(self, n):\n        self.num_workers = n",
    "import psutil, requests, threading\nimport ipywidgets as widgets\nfrom urllib import request",
    # modules and their names
    "nn = torch.nn\nF = torch.nn.functional\nF.relu(nn.Linear(3, 4)(x))",
    "from torch import nn, optim\noptim.SGD([x], lr=0.1)",
    "import torch.nn as nn\nnn.init.zeros_(x)",
    "from torch.utils.data import DataLoader, Sampler, default_collate\nDataLoader(data)",
    "from torch.utils.data import DataLoader\nDataLoader(data, num_workers=0)",
    "import tarfile\ndef f(x):\n    m = tarfile.TarInfo('a')\n    m.size = len(x)\n    return m",
    "from torch.utils.checkpoint import checkpoint\ncheckpoint(f, x, use_reentrant=False)",
    "torch.utils.checkpoint.checkpoint(f, x)",
    "from torch.nn.modules.batchnorm import BatchNorm1d, _BatchNorm",
    "isinstance(module, torch.nn.modules.batchnorm._BatchNorm)",
    "isinstance(module, (nn.modules.conv._ConvNd, nn.modules.instancenorm._InstanceNorm))",
    "torch.nn.utils.clip_grad_norm_(parameters, 1.0)",
    "from torch.nn.utils.rnn import pad_sequence\nnn.utils.rnn.pad_sequence([x])",
    "from math import *\nexp(1)",
    "import math as m\nm.exp(1)",
    "import json as j\nj.loads(j.dumps({'a': 1}))",
    "from functools import partial, reduce, wraps\n@wraps(f)\ndef g(*a): return f(*a)",
    "import functools\n@functools.lru_cache(maxsize=None)\ndef g(a): return a",
    "from dataclasses import dataclass, field\n@dataclass\nclass A:\n    x: int = 3",
    "import dataclasses\ndataclasses.replace(a, x=1)",
    "from datetime import datetime\nprint(datetime.now())",
    "import collections\ncollections.Counter('abc')\nfrom collections.abc import Callable",
    "import re\nre.compile(r'\\d').findall('1')",
    "import os, sys\nos.environ['A'] = 'b'\nprint(1, file=sys.stderr)\nsys.stdout.write('x')",
    "import os\nnames = [os.path.join(f, n) for n in os.listdir(f) if os.path.isfile(n)]",
    "import os\nos.makedirs('x', exist_ok=True)\nfor a, b, c in os.walk('x'): pass",
    "import os, tempfile\ndef save(x, path):\n    fd, name = tempfile.mkstemp(dir='.')\n"
    "    with os.fdopen(fd, 'wb') as file:\n        torch.save(x, file)\n        file.flush()\n"
    "        os.fsync(file.fileno())\n    os.replace(name, path)",
    "import random, copy, time\nrandom.seed(1)\ncopy.deepcopy([1])\ntime.time()",
    "import copy\ndef f(x):\n    copy = x.clone()\n    copy += 1\n    return copy.sum()",
    "import io, struct, glob, fnmatch\nio.BytesIO(b'1')\nstruct.pack('f', 1.0)\nglob.glob('*')",
    "import traceback\ntry: f()\nexcept Exception: traceback.print_exc()",
    "import string, operator\nstring.ascii_letters\noperator.itemgetter(1)",
    "import operator\noperator.attrgetter('shape')\noperator.methodcaller('sum')",
    "import inspect\ninspect.signature(f).parameters\ninspect.getsource(f)",
    "import logging\nlogging.basicConfig(level=logging.INFO)\nlogging.info('a')",
    "import logging\nlogging.disable(logging.WARNING)",
    "import unittest\nclass T(unittest.TestCase):\n"
    "    def test_it(self): self.assertEqual(f(1), 1)\nunittest.main(argv=[''], exit=False)",
    "import unittest\nunittest.main(argv=['ignored', '-v'], verbosity=2, exit=False)",
    "import sys\nIN_COLAB = 'google.colab' in sys.modules",
    "if 'model' not in globals(): model = None",
    "torch.set_default_device('cpu')",
    "device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')\n"
    "torch.set_default_device(device)",
    "from matplotlib_inline import backend_inline\n"
    "backend_inline.set_matplotlib_formats('svg')",
    "import matplotlib_inline\nmatplotlib_inline.backend_inline.set_matplotlib_formats('svg')",
    "from mpl_toolkits.mplot3d import Axes3D\n"
    "from mpl_toolkits.axes_grid1 import make_axes_locatable",
    "import numpy.typing as npt\ndef f(x: npt.ArrayLike): return x",
    "from typing_extensions import Self",
    "from torch.utils.tensorboard import SummaryWriter\nwriter = SummaryWriter()",
    "import sys\nsys.getsizeof(x)\nsys.maxsize\nsys.version",
    "import gc, weakref\ngc.collect()\nweakref.ref(x)() is None",
    "import shutil, uuid, secrets, csv\nshutil.copy('a', 'b')\nuuid.uuid4()",
    "import pickle\npickle.dump(x, file)",
    "import timeit\ntimeit.timeit(lambda: f(3), number=10)\ntimeit.default_timer()",
    "import hashlib, zlib, bisect, heapq, statistics, decimal, fractions, platform\n"
    "hashlib.sha256(b'').hexdigest()\nheapq.heappush(xs, 3)",
    "import pandas as pd\nimport seaborn as sns\nfrom tqdm import tqdm\nimport cv2, scipy",
    "from sklearn.metrics import f1_score\nimport torchvision, einops",
    "from IPython import display\ndisplay.display(x)\nimport IPython\nIPython.display.HTML('a')",
    "from PIL import Image\nImage.open(path).convert('L')\nImage.fromarray(x).save('a.png')",
    "from pathlib import Path\npaths = sorted(Path(folder).glob('*.png'))\nPath('a').read_text()",
    "from __future__ import annotations\ndef f(x: Tensor | None = None) -> list[int]: return x",
    "from typing import Any, Optional, Union\ndef f(x: Optional[int]) -> Any: return x",
    "import contextlib\n@contextlib.contextmanager\ndef f():\n    yield 1",
    "import enum\nclass Color(enum.Enum):\n    RED = 1",
    "from abc import ABC, abstractmethod\nclass A(ABC):\n    @abstractmethod\n    def f(self): ...",
    "import tarfile\nwith tarfile.open(path) as file: names = file.getnames()",
    "np.random.seed(0)\nrng = np.random.default_rng(0)\nrng.normal(size=3)",
    # names that only look like machinery
    "def f(input, vars, type=3, dir=None): return input + vars + type",
    "input = x.flatten(1)\nout = input @ weight",
    "def f(compile, open, eval, exec, globals): return compile(open)",
    "compile = 3\nprint(compile)",
    "name = input('your name')\nprint(dir(x), id(x), callable(f), hasattr(x, 'a'))",
    "type(x).__name__\ntype(x) is int\nisinstance(x, type)\nset(map(type, xs))",
    "if type(x) == torch.Tensor: pass",
    "def f(a, b):\n    print(locals())\n    return a",
    "class A:\n    def f(self): return vars(self)",
    "with open('x') as file: text = file.read()\nopen(path, 'rb')\nopen(path, mode='r')",
    "with open(path, 'w') as file: file.write('x')",
    "self_ = 3\n_private = 4\n__hidden = _private\n_ = 3",
    "class A:\n    def __init__(self):\n        self._x = 1\n    def _f(self): return self._x\n"
    "A()._f()\nprint(A()._x)",
    "class F(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n"
    "        ctx.save_for_backward(x)\n        ctx._run = x\n        return x\nF.apply(x)",
    "class A(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.queue, self.stride, self.sched, self.code = 1, 2, 3, 4\n"
    "    def forward(self, x): return self.query(x) + self.key(x) + self.code",
    "class A(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.query = nn.Linear(3, 3)\n    def forward(self, x): return self.query(x)",
    "batch.copy = 1\npoint._replace(x=1)\npoint._asdict()\nbatch.copy()",
    "class DeepModel(nn.Module): pass\nclass Mode(DeepModel): pass\nclass ModeSwitch(Mode): pass",
    "for m in model.modules():\n    for p in m._parameters.values():\n        n += p.numel()",
    "class A(nn.Module):\n    def __init__(self):\n        super(A, self).__init__()\n"
    "        for i in range(3): setattr(self, f'layer{i}', nn.Linear(3, 3))\n"
    "    def forward(self, x): return getattr(self, 'layer' + str(0))(x)",
    "class A:\n    def f(self):\n        delattr(self, 'x')\n        setattr(self, 'y', 1)",
    "def add_to(cls):\n    def add(f): setattr(cls, f.__name__, f)\n    return add\n"
    "class A: pass\n@add_to(A)\ndef g(self): pass",
    "class A: pass\ndef g(self): pass\nA.forward = g\nsetattr(A, 'g', g)",
    "class Data:\n    def __len__(self): return 1\n    def __getitem__(self, i): return i",
    "class P:\n    __slots__ = ('x',)\n    def __eq__(self, other): return self.x == other.x\n"
    "    def __hash__(self): return hash(self.x)\n    def __repr__(self): return f'P({self.x!r})'",
    "class P:\n    def __add__(self, o): return P()\n    __hash__ = None\n"
    "    def __lt__(self, o): return self.x < o.x\n    def __call__(self): return 1",
    "class It:\n    def __iter__(self): return self\n    def __next__(self): raise StopIteration",
    "class C:\n    def __enter__(self): return self\n    def __exit__(self, *a): pass",
    "class C:\n    def __new__(cls): return super().__new__(cls)\n"
    "    def __init_subclass__(cls, **k): super().__init_subclass__(**k)\n"
    "    def __class_getitem__(cls, k): return cls",
    "class C:\n    def f(self): return self.__class__.__name__, self.__class__(), self.__dict__",
    "print(f.__name__, f.__doc__, x.__len__(), torch.__version__)\nf.__name__ = 'g'",
    "if __name__ == '__main__':\n    print(__name__)",
    "LAYERS = {'a': nn.ReLU}\nprint(type(x), type(x).__name__, f'{type(x)}')\nclass A(nn.Module):\n"
    "    def __init__(self, kind=nn.ReLU):\n        super().__init__()\n        self.kind = kind()",
    "for layer in model.modules():\n    if isinstance(layer, (nn.Linear, nn.Conv2d)):\n"
    "        layer.bias = None\n        layer.other = type(layer)(3, 4)",
    "softmax.calls = 0\nmodel.layer.weight.data = x\nlayer.bias = None",
    "model.eval()\nmodel.train()",
    "assert isinstance(x, int), f'{x!r:>10} {y:.3f}'\nprint(f'{x=}')",
    "'{:.3f} {}'.format(1, 2)\n'{0.shape}'.format(x)\nHEAD = '{:>10}'\nprint(HEAD.format('a'))",
    "match x:\n    case int(n): pass\n    case {'a': 1, **rest}: pass\n    case [a, *_]: pass",
    "class P: pass\nmatch x:\n    case P(x=1, y=y): pass\n    case nn.Linear(weight=w): pass",
    "f = lambda x, *a, k=1, **kw: x\nsorted(xs, key=lambda v: v.shape)",
    "def deco(f):\n    def inner(*a): return f(*a)\n    return inner\n@deco\ndef g(): pass",
    "def gen():\n    x = yield 1\n    yield from (1, 2)\nnext(gen())",
    "try:\n    f()\nexcept* ValueError as e:\n    print(e)\nfinally:\n    pass",
    "try:\n    f()\nexcept Exception as error:\n    print(error, error.args)\n    raise",
    "with warnings.catch_warnings():\n    warnings.simplefilter('ignore')",
    "del x, y[0], z.a\nglobal n",
    "handle = layer.register_forward_hook(hook)\nhandle.remove()\nx.register_hook(print)",
    "print(torch, dir(torch.nn), help(F))\nhasattr(torch, 'float8_e4m3fn')",
    "class A:\n    def __getattr__(self, name): return getattr(self, '_' + name)"
    if False
    else "class A:\n    def __getattr__(self, name): return 1",
    # what IPython adds
    "%matplotlib inline\n%config InlineBackend.figure_format = 'retina'\nx = 1",
    "%timeit -n 10 softmax(x)",
    "if True:\n    %time y = softmax(x)\nz = 1",
    "%%time\ny = softmax(x)",
    "%%capture out\ny = softmax(x)",
    "softmax?\n?softmax\nsoftmax??",
    "!nvidia-smi\n!pip install tqdm\n!ls -l\n%pip install einops",
    "from pprint import pprint\npprint([1])\nimport bisect\nbisect.bisect([1], 2)",
    '"""See utils.py"""\nprint("run train.py")\nopen("/proc/meminfo").read()',
    "!python --version\n!pip install -q torchinfo",
    "%load_ext autoreload\n%autoreload 2",
    "%%html\n<b>a</b>",
    "# Really?\nx = 1  # 100 %",
    'x = """\n%time is what it takes\n!rm\n"""',
    NOISE.replace("FUNCTION", "softmax"),
]  # fmt: skip

NOT_PLAIN = {
    # modules
    "ctypes": "import ctypes",
    "a thread": "import threading\nthreading.Thread(target=f).start()",
    "a pool": "from concurrent.futures import ThreadPoolExecutor\nThreadPoolExecutor()",
    "processes": "import multiprocessing as mp\nmp.Pool()",
    "processes of torch's": "torch.multiprocessing.spawn(f)",
    "a program": "import subprocess\nsubprocess.run([])",
    "sockets": "import socket",
    "signals": "import signal",
    "exit handlers": "import atexit",
    "memory": "import mmap",
    "imports by name": "import importlib",
    "imports by name, in part": "from importlib import import_module",
    "builtins": "import builtins",
    "mocks": "from unittest import mock",
    "code": "import code",
    "codeop": "import codeop",
    "runpy": "import runpy",
    "a debugger": "import pdb\npdb.set_trace()",
    "breakpoint": "breakpoint()",
    "coroutines": "import asyncio\nasyncio.run(f())",
    "IPython": "from IPython import get_ipython",
    "IPython's insides": "from IPython.core.getipython import get_ipython",
    "cloudpickle": "import cloudpickle",
    "sympy": "from sympy import lambdify",
    "numexpr": "import numexpr",
    "jinja2": "import jinja2",
    "psutil": "import psutil\npsutil.Process().suspend()",
    "pytest": "import _pytest",
    "yaml": "import yaml",
    "below one that is plain": "import logging.config",
    "below one that is plain, in part": "from logging import config",
    "a handler": "from logging.handlers import QueueListener",
    "a module that another holds": "import enum\nenum.bltns.print()",
    "a module by another name": "import enum\ne = enum\ne.bltns.print()",
    "codecs": "import json\njson.codecs.lookup('x')",
    "what sys knows": "import sys\nsys.modules['torch']",
    "a frame from sys": "import sys\nsys._getframe()",
    "a trace": "import sys\nsys.settrace(f)",
    "a profile": "import sys\nsys.setprofile(f)",
    "objects": "import gc\ngc.get_objects()",
    "referrers": "from gc import get_referrers",
    "a stack": "import inspect\ninspect.stack()",
    "a traceback's frames": "import traceback\ntraceback.walk_tb(tb)",
    "a child": "import os\nos.fork()",
    "a shell from os": "import os\nos.system('x')",
    "os by its path": "import os\nos.path.os.system('x')",
    "kill": "from os import kill",
    "relative": "from . import x",
    "another grammar": "from __future__ import barry_as_FLUFL",
    "a module in a class, used as its attribute": "class A: import threading\nA().threading",
    "a module in a function, used by its locals":
        "def f():\n    import threading\n    return locals()['thre' + 'ading']",
    "a module that another cell's line uses": "import threading\nthreading |= A()",
    "all of a module that leads anywhere": "from os import *\nsystem('ls')",
    "all of a module, of which a part is called": "from functools import *\ng = wraps(torch.relu)",
    "all of a module, with a name from nowhere": "from collections import *\nabc_(3)",
    "all of a module that nobody uses": "from threading import *",
    "an idle import by the name of the course's own": "import subprocess as torch",
    "an idle import by the name of what the course imports": "import subprocess as Check",
    "an idle import by the name of a function of Python's": "from subprocess import run as len",
    "an idle import whose name a text calls": "import subprocess\nx = 'subprocess.run([])'",
    "an idle import in an f-string": "import threading\nf'{threading.Thread(target=f).start()}'",
    "an idle import, timed": "import subprocess\n%timeit subprocess.run([])",
    "an idle import, taken away": "import subprocess\ndel subprocess",
    "an idle import in a pattern": "import threading\nmatch x:\n    case threading.y: pass",
    "an idle import as a decorator": "import threading\n@threading.Thread\ndef f(): pass",
    "an idle import as a base": "import threading\nclass A(threading.Thread): pass",
    "an idle import in an annotation": "import subprocess\ndef f(x: subprocess.run([])): pass",
    "an idle import of an inner module": "import multiprocessing.resource_tracker",
    "an idle import of what runs at once": "import asyncio.__main__",
    "an idle import that two lines make": "import subprocess as s\nimport threading as s",
    "what runs texts of templates": "from mako.template import Template",
    "the standard library's own tests": "import test.support",
    "an annotation that is put together": "import functools\nf = functools.singledispatch(g)\n"
    "@f.register\ndef _(x: '__imp' + 'ort__(1)'): pass",
    "an annotation that is a variable": "from functools import singledispatch as s\nf = s(g)\n"
    "T = '__imp' + 'ort__(1)'\n@f.register\ndef _(x: T): pass",
    "an annotation that is a parameter": "import functools\nf = functools.singledispatch(g)\n"
    "def make(T):\n    @f.register\n    def _(x: T): pass",
    "a way out, put together": "def f(x):\n    setattr(x, 'nu' + 'mpy', g)\n    return x",
    "a way out, in a text with fields": "setattr(x, f\"nu{'mpy'}\", g)",
    "a way out through DLPack": "view = np.from_dlpack(x)",
    "a storage's method that is kept": "keep = x.untyped_storage().clone",
    "a storage's items that are kept": "s = x.untyped_storage()\nread = s.__getitem__",
    "a foreign object's private attribute": "def f(net):\n    net._forward_pre_hooks = {}",
    "a foreign object's private attribute, by name": "setattr(net, '_forward_pre_hooks', {})",
    "a private attribute that modules have, too": "class A:\n    def __init__(self):\n"
    "        self._forward_hooks = {}\ndef f(net):\n    net._forward_hooks.clear()",
    "workers that are set later": "loader.num_workers = 1",
    "a size": "def f(m):\n    m.size = 1",
    "a size of what was something else": (
        "import tarfile\ndef f(m):\n    if m is None: m = tarfile.TarInfo('a')\n    m.size = 1"
    ),
    "a size of what another function binds": (
        "import tarfile\ndef f(x):\n    m = tarfile.TarInfo('a')\n    def g():\n"
        "        nonlocal m\n        m = x\n    g()\n    m.size = 1"
    ),
    "a size of what an inner function is given": (
        "import tarfile\ndef f(x):\n    m = tarfile.TarInfo('a')\n"
        "    def g(m):\n        m.size = 1\n    g(x)"
    ),
    "workers that are counted up": "loader.num_workers += 1",
    "workers that a loop sets": "for loader.num_workers in [2]: pass",
    "workers that are set by name": "setattr(loader, 'num_workers', 1)",
    "workers that are set by a name that is put together": "setattr(loader, 'num_' + x, 1)",
    "workers of a class": "class L(torch.utils.data.DataLoader): num_workers = 1",
    "getattr of a loader": "getattr(torch, 'load')('x')",
    "getattr of a getter": "import operator\ngetattr(operator, 'attrgetter')('__globals__')(f)",
    "getattr of a name that is bound twice":
        "name = 'float16'\ndef f(name): return getattr(torch, name)",
    "getattr of a name that is added to": "name = 'float16'\nname += x\ngetattr(torch, name)",
    "getattr of a name that a pattern binds":
        "name = 'float16'\nmatch x:\n    case name: getattr(torch, name)",
    "getattr of a global name beside a local one of the same name":
        "name = x\ndef f():\n    name = 'float16'\n    def g():\n        global name\n"
        "        return getattr(torch, name)\n    return g",
    "getattr of a comprehension's name outside of it":
        "def f():\n    [0 for name in ('float16',)]\n    return getattr(torch, name)\nname = x",
    "getattr of a name in what a comprehension goes through":
        "def f(name): return [0 for a in getattr(torch, name) for name in ('float16',)]",
    "getattr of a local name that an inner function binds":
        "def f():\n    name = 'float16'\n    def g():\n        nonlocal name\n        name = x\n"
        "    g()\n    return getattr(torch, name)",
    "getattr of a name in a class that hides a local one":
        "def f():\n    name = 'float16'\n    class A:\n        name = x\n"
        "        y = getattr(torch, name)",
    "getattr of names behind a star":
        "for *a, name in [('float16', 'float32', '_C')]: getattr(torch, name)",
    "getattr of names from a zip of one's own":
        "def zip(a, b): return [('_C', 1)]\nfor n, x in zip(('float16',), y): getattr(torch, n)",
    "setattr of a special name of a backend": "setattr(torch.backends.cudnn, '__class__', f)",
    "setattr of a computed name of a backend": "setattr(torch.backends.cudnn, name, f)",
    "getattr of a name of a module": "for name in ('float16', 'ops'): getattr(torch, name)",
    "getattr of a special name that stands in a class": (
        "class A:\n    PARTS = ('__globals__',)\n"
        "    def f(self, x): return [getattr(x, n) for n in self.PARTS]"
    ),
    **{
        f"getattr of what stands in a class, {how}": (
            f"class A{base}:\n    PARTS = ('model',)\n"
            f"    def f(self, x): return [getattr(x, n) for n in self.PARTS]\n{more}"
        )
        for how, base, more in (
            ("set at an object", "", "a = A()\na.PARTS = x"),
            ("set at an object by its name", "", "setattr(a, 'PARTS', x)"),
            ("set by a computed name", "", "    def g(self): setattr(self, f'P{x}', x)"),
            ("set in its dict", "", "    def g(self, **more): self.__dict__.update(more)"),
            ("set in its variables", "", "    def g(self, **more): vars(self).update(more)"),
            ("set by a copy", "", "    def __getstate__(self): return x"),
            ("set by what reads options", "", "import argparse\np.parse_args(namespace=a)"),
            ("bound again below", "", "class B(A):\n    PARTS = x"),
            ("bound in an Enum", "(Enum)", "from enum import Enum"),
            ("of another object", "", "A.f(x, x)"),
            ("in a class that a decorator changes", "", "@change\nclass B:\n    PARTS = ('a',)"),
        )
    },
    "getattr of what stands in a class that a decorator changes": (
        "@change\nclass A:\n    PARTS = ('model',)\n"
        "    def f(self, x): return [getattr(x, n) for n in self.PARTS]"
    ),
    "getattr of a list in a class": (
        "class A:\n    PARTS = ['model']\n"
        "    def f(self, x): return [getattr(x, n) for n in self.PARTS]"
    ),
    "a layer's method that tells its name, kept": "f = layer._get_name",
    "a layer's method that tells its name, replaced": "layer._get_name = f",
    "getattr of a special name in a loop": "for name in ['__globals__']: getattr(f, name)",
    "getattr of names in a list that grows":
        "names = ['float16']\nnames.append(x)\nfor name in names: getattr(torch, name)",
    "getattr of names in a list by two names":
        "names = ['float16']\nn = names\nn.append(x)\nfor name in names: getattr(torch, name)",
    "getattr of names that are not all there":
        "for name in ['float16', *more]: getattr(torch, name)",
    "getattr of names in rows with stars":
        "for name, n in [('float16', 3), (*x, 3)]: getattr(torch, name)",
    "all of torch": "from torch import *",
    "all of a part of torch's": "from torch.nn.functional import *",
    "all of the course": "from helpers import *",
    # the course's machinery
    "the package": "import helpers",
    "below it": "from helpers.guard import guarded_call",
    "the probes": "from helpers import probes",
    "the probes, given": "probes.functions = f",
    "the probes handed on": "p = probes",
    "a probe": "f = probes.functions",
    "a check's method": "Check.score = f",
    "letters that only look different": "for ｐrobes.operators in (f,): pass",
    # libraries that are changed
    "a method": "torch.Tensor.numpy = f",
    "a function": "F.softmax = f",
    "a module": "nn.Linear.forward = f",
    "by another name": "T = torch.Tensor\nT.tag = f",
    "by a third name": "T = torch.Tensor\nU = T\nU.tag = f",
    "by setattr": "setattr(torch, 'relu', f)",
    "by setattr, another name": "L = nn.Linear\nsetattr(L, 'forward', f)",
    "in a loop": "for torch.relu in [f]: pass",
    "in a with": "with x as torch.relu: pass",
    "in a comprehension": "[0 for torch.relu in [f]]",
    "in a pair": "a, torch.relu = 1, f",
    "added to": "torch.relu += 1",
    "taken away": "del torch.relu",
    "taken away by delattr": "delattr(torch, 'relu')",
    "by a function of one's own": "def patch(c): c.numpy = f\npatch(torch.Tensor)",
    "by a decorator of one's own":
        "def add_to(c):\n    def add(f): setattr(c, f.__name__, f)\n    return add\n"
        "@add_to(torch.Tensor)\ndef numpy(self): pass",
    "in a method": "class A:\n    def f(self): self.clone = g\nA.f(torch.Tensor)",
    "mathematics": "math.isfinite = f",
    "warnings": "warnings.catch_warnings = f",
    "wrapped": "import functools\nfunctools.update_wrapper(b, torch, assigned=['_C'])",
    "wrapped as usual": "from functools import wraps\nwraps(torch, assigned=['_C'])(b)",
    "the modules of a module": "[F.torch][0].relu = f",
    "a module that Pillow holds": "from PIL import Image\nImage.atexit.register(f)",
    "a built-in, named after itself": "exec = exec\nexec('x')",
    "a built-in, above one's own": "exec('x')\ndef exec(x): pass",
    "a built-in, below what may fail": "eval = [][0]\ndef eval(x): pass\ndel eval\neval('x')",
    "a built-in in a comprehension": "[exec for exec in [exec]]",
    "a built-in, uncovered":
        "def f():\n    exec = 1\n    def g():\n        global exec\n        exec('')",
    "a library, uncovered":
        "def f():\n    torch = 1\n    def g():\n        global torch\n        torch.load(x)",
    "a text as an annotation": "def f(x: 'exec(1)'): pass",
    "a text in an annotation": "x: list['eval(1)'] = []",
    "annotations, written later": "f.__annotations__['x'] = 'exec(1)'",
    "a name with two meanings":
        "from torch import load\nif x: from math import floor as load\nload(x)",
    "a name of what is not there": "import pandas as torch\ntorch.multiprocessing",
    "another name for a name that comes later":
        "if x:\n    import torch as m\nt = m\nt.load(x, weights_only=False)",
    "torch.load of another's torch": "F.torch.load(x, weights_only=False)",
    "torch.load by getattr": "g = getattr(torch, 'load')",
    "a text that is timed": "from torch.utils.benchmark import Timer\nTimer('import os').timeit(1)",
    "a built-in that is timed": "from torch.utils import benchmark\nbenchmark.Timer('exec(f)')",
    "a pickle of NumPy's, by stars": "np.load('x', **{'allow_pickle': True})",
    "a pickle of NumPy's, by its place": "np.load('x', None, True)",
    "workers, by stars":
        "from torch.utils.data import DataLoader\no = {'num_workers': 1}\nDataLoader(x, **o)",
    "workers, by their place":
        "from torch.utils.data import DataLoader\nDataLoader(x, 1, False, None, None, 1)",
    "a backend that is computed": "import matplotlib\nmatplotlib.use('module' + name)",
    "a callback of a reference": "import weakref\nweakref.ReferenceType(x, f)",
    "a class of references": "import weakref\nclass R(weakref.ref): pass",
    "an unbound method of a class below": "g = nn.Parameter.numpy",
    "an unbound method of storages": "g = torch.UntypedStorage.__getitem__",
    "an unbound method by getattr": "g = getattr(torch.Tensor, 'tolist')",
    "an unbound method by a getter": "import operator\noperator.attrgetter('numpy')(torch.Tensor)",
    "an unbound method by a pattern": "match torch.Tensor:\n    case object(numpy=g): pass",
    "an unbound method of some class": "(T,) = [torch.Tensor]\ng = T.numpy",
    "wraps of a module": "from functools import wraps\nwraps(torch)(b)",
    "replaced": "import dataclasses\ndataclasses.replace(torch, relu=f)",
    # libraries' classes that are changed by way of an object, or handed on
    "by the class of an object": "def f(scaler): type(scaler).step = g",
    "by the class of an object, kept": "def f(scaler):\n    c = scaler.__class__\n    c.step = g",
    "by the class of an object, set": "def f(s): setattr(type(s), 'step', g)",
    "by the classes of objects": "for c in set(map(type, xs)): c.step = g",
    "a class in a list": "for c in [torch.optim.SGD]: c.step = f",
    "a class in a call": "def patch(c): c.step = f\npatch(torch.optim.SGD)",
    "a class by a default": "def g(c=torch.optim.SGD): c.step = f",
    "a class by an attribute": "class B:\n    c = torch.optim.SGD\nB.c.step = f",
    "a class by a walrus": "(S := torch.optim.SGD).step = f",
    "a class by a pair": "S, T = torch.optim.SGD, 1\nS.step = f",
    "a class by a capture": "match torch.optim.SGD:\n    case S: S.step = f",
    "a class in the place of self": "def g(self): self.step = f\ng(torch.optim.SGD)",
    "a class in the place of a method's self":
        "class A:\n    def g(self): self.step = f\nA.g(torch.optim.SGD)",
    "a class in the place of self, by a class":
        "class A:\n    def g(self): self.step = f\ntype(A()).g(torch.optim.SGD)",
    "a class in the place of self, decorated":
        "def d(m): return m(torch.optim.SGD)\nclass A:\n    @d\n    def g(self): self.step = f",
    "a class with small letters": "for c in [torch.autocast]: c.__enter__ = f\nc.enter = f",
    "getattr of a name that is half computed": "getattr(x, 'soft' + name)",
    "getattr of another's self": "def f(self): return getattr(self, 'soft' + 'max')\nf(x)",
    "getattr of self, bound again":
        "class A:\n    def f(self, x):\n        self = x\n        return getattr(self, 'a' + b)",
    "getattr of an inner self":
        "class A:\n    def f(self): return lambda self: getattr(self, 'a' + b)",
    "setattr of a class's self":
        "class A:\n    @classmethod\n    def f(self, name, v): setattr(self, name, v)",
    "an option by stars": "torch.set_printoptions(**{'threshold': obj})",
    "an option by another name": "s = torch.set_printoptions\ns(threshold=obj)",
    "an option in part": "import functools\nfunctools.partial(torch.set_printoptions, threshold=a)",
    "an option by its place": "torch.cdist(x, y, 2.0, obj)",
    "an option by stars, of a distance": "torch.cdist(x, y, **options)",
    "a callback of NumPy's": "np.seterrcall(f)",
    # modules handed on
    "to a function": "f(torch)",
    "in a list": "[torch]",
    "in a dict": "{'a': F}",
    "returned": "def f(): return torch.nn",
    "copied": "import copy\ncopy.copy(F)",
    "its dict": "vars(torch)",
    "as a default": "def f(t=torch): pass",
    "in a pattern": "match torch:\n    case object(_C=c): pass",
    "by getattr": "getattr(torch, '_C')",
    "by getattr, computed": "getattr(torch, name)",
    "by getattr, computed, another": "getattr(F, name)",
    "getattr as a value": "g = getattr",
    "getattr handed on": "map(getattr, xs, names)",
    # torch's own hooks
    "modes": "from torch.overrides import TorchFunctionMode",
    "modes by their path": "class M(torch.overrides.TorchFunctionMode): pass",
    "dispatch modes": "from torch.utils._python_dispatch import TorchDispatchMode",
    "__torch_function__": "class T:\n    def __torch_function__(self, *a): pass",
    "__torch_dispatch__": "class T(torch.Tensor):\n    def __torch_dispatch__(self, *a): pass",
    "a tensor's class": "class T(torch.Tensor):\n    def detach(self): pass",
    "torch.library": "torch.library.impl('a')",
    "torch.ops": "torch.ops.aten.softmax(x)",
    "torch._C": "torch._C",
    "torch.jit": "torch.jit.script(f)",
    "torch.hub": "torch.hub.load('x', 'y')",
    "torch.package": "torch.package",
    "another default device": "torch.set_default_device('meta')",
    "another default device, by name": "d = 'meta'\ntorch.set_default_device(d)",
    "a default device, of whatever kind": "torch.set_default_device(f())",
    "a default device, later": "g = torch.set_default_device",
    "tests of others": "import unittest\nunittest.main(argv=['', 'other'], exit=False)",
    "tests of a module": "import unittest\nunittest.main(module='os', argv=[''])",
    "a runner of tests": "import unittest\nunittest.main(argv=[''], testRunner=f)",
    "tests, handed on": "import unittest\ng = unittest.main",
    "a loader of tests": "import unittest\nunittest.TestLoader().loadTestsFromName('a')",
    "what is in sys.modules, by a function": "import sys\nf in sys.modules",
    "globals, kept": "'x' in (g := globals())",
    "hooks of all modules": "nn.modules.module.register_module_forward_hook(f)",
    "threads of torch's": "torch.nn.parallel.parallel_apply([f, f], [x, x])",
    "workers": "from torch.utils.data import DataLoader\nDataLoader(x, num_workers=1)",
    "workers, computed": "from torch.utils.data import DataLoader\nDataLoader(x, num_workers=n)",
    "an unbound method that copies": "g = torch.Tensor.numpy",
    "autograd's node": "x.grad_fn(1)",
    "autograd's node as a value": "g = x.grad_fn",
    "autograd's graph": "x.grad_fn.next_functions",
    "an option that is an object": "torch.set_printoptions(threshold=obj)",
    "an option of a distance": "torch.cdist(x, y, compute_mode=obj)",
    "code that runs in a comparison":
        "class A:\n    def __lt__(self, o): return torch.softmax(x, 0)",
    "code that runs in an index": "class A:\n    def __index__(self): return int(F.softmax(x, 0))",
    "strides": "torch.as_strided(x, (99,), (1,))",
    "strides of an array": "np.lib.stride_tricks.as_strided(a, (99,), (8,))",
    "strides by a method": "x.as_strided((99,), (1,))",
    "a storage made smaller": "x.untyped_storage().resize_(0)",
    "indices that nobody checks": "torch.sparse_csr_tensor(i, j, v).to_dense()",
    # frames and insides
    "globals of a function": "softmax.__globals__",
    "code of a function": "softmax.__code__ = g",
    "a closure": "softmax.__closure__",
    "a dict": "softmax.__dict__",
    "subclasses": "object.__subclasses__()",
    "bases": "A.__bases__",
    "the order of classes": "type(x).__mro__",
    "the order by a method": "A.mro()",
    "what is wrapped": "f.__wrapped__",
    "an owner": "x.sum.__self__",
    "a method's function": "A().f.__func__",
    "__reduce__": "x.__reduce__()",
    "a pickle of one's own": "class A:\n    def __reduce__(self): return exec, ('x',)",
    "a generator's frame": "g.gi_frame",
    "the frame before": "f.f_back",
    "a traceback's frame": "tb.tb_frame",
    "a traceback": "error.__traceback__",
    "another class": "x.__class__ = A",
    "attributes all caught": "class A:\n    def __getattribute__(self, n): pass",
    "a metaclass": "class A(metaclass=M): pass",
    "a class of classes": "class M(type):\n    def __eq__(self, o): return True",
    "an instance of all": "class A:\n    def __instancecheck__(self, o): return True",
    "a class from a call": "A = type('A', (torch.Tensor,), {})",
    "type as a value": "make = type",
    "a finalizer": "class A:\n    def __del__(self): f()",
    "a weak callback": "import weakref\nweakref.ref(x, f)",
    "a keyword pattern": "match f:\n    case object(__globals__=g): pass",
    "a positional pattern": "match torch:\n    case Anything(c): pass",
    # text run as code
    "exec": "exec('x')",
    "eval": "eval('x')",
    "compile": "c = compile('x', 'a', 'exec')",
    "__import__": "__import__('os')",
    "__builtins__": "__builtins__['eval']",
    "globals": "globals()['x']",
    "locals at the top": "locals()['x'] = 1",
    "the shell": "get_ipython().system('x')",
    "eval by another name": "e = eval",
    "pandas": "import pandas as pd\npd.eval('x')",
    "a query": "df.query('@f(x)')",
    "f2py": "np.f2py.compile('x')",
    "timed text": "import timeit\ntimeit.timeit('x')",
    "timed text by a name": "import timeit\ntext = 'x'\ntimeit.timeit(text)",
    "annotations": "import typing\ntyping.get_type_hints(f)",
    "annotations of a signature": "import inspect\ninspect.signature(f, eval_str=True)",
    "a formatter": "import string\nstring.Formatter().get_field('0._C', [torch], {})",
    "a format's field": "'{0.__class__}'.format(x)",
    "a format that is computed": "(a + b).format(x)",
    "a getter": "import operator\noperator.attrgetter('__globals__')(f)",
    "a getter, computed": "from operator import attrgetter\nattrgetter(name)(f)",
    "a getter as a value": "from operator import methodcaller\nm = methodcaller",
    "getattr of a special name": "getattr(f, '__globals__')",
    "getattr of a joined name": "getattr(f, '__glo' + 'bals__')",
    "getattr, computed": "getattr(f, name)",
    "setattr, computed": "setattr(model, name, x)",
    "a pickle": "import pickle\npickle.loads(b'x')",
    "a pickle of torch's": "torch.load('x')",
    "a pickle of torch's, said so": "torch.load('x', weights_only=False)",
    "a pickle of NumPy's": "np.load('x', allow_pickle=True)",
    "a pickle of NumPy's, inside": "np.lib.format.read_array(f, allow_pickle=True)",
    "a wrapper as a value": "from functools import wraps\nw = wraps",
    "a loader as a value": "load = torch.load",
    # special names bound unseen
    "a capture": "class T:\n    match f:\n        case __torch_function__: pass",
    "a coroutine": "class T:\n    async def __torch_function__(self): pass",
    "a class": "class T:\n    class __torch_function__: pass",
    "a loop's": "class T:\n    for __torch_function__ in [f]: pass",
    "a with's": "class T:\n    with f as __torch_function__: pass",
    "an exception's": "class T:\n    try: pass\n    except E as __torch_function__: pass",
    "a walrus": "class T:\n    (__torch_function__ := f)",
    "an import's": "class T:\n    from a import b as __torch_function__",
    "an assignment's": "class T:\n    __torch_function__ = f",
    "a parameter's": "def f(__torch_function__): pass",
    "a star's": "class T:\n    match f:\n        case [*__torch_function__]: pass",
    "a rest's": "class T:\n    match f:\n        case {**__torch_function__}: pass",
    "a function's at the top": "def __torch_function__(*a): pass",
    "a global one": "def f():\n    global __builtins__",
    # files
    "a module written": "open('statistics.py', 'w')",
    "a module written by NumPy": "np.savetxt(f'{name}.py', [])",
    "a module drawn": "plt.savefig('statistics.py', format='raw')",
    "a backend": "plt.switch_backend('module://planted')",
    "a backend's setting": "plt.rcParams['backend'] = 'module://planted'",
    "its own memory": "open('/proc/self/mem', 'r+b')",
    "another's memory": "open(f'/proc/{pid}/mem', 'r+b')",
    "an array cut short": "a.resize((1,), refcheck=False)",
    "the channel, by another name": "import os\nw = os.write",
    "the channel": "import os\nos.write(3, b'x')",
    "the channel, opened": "open(3, 'wb')",
    "the channel, by a stream": "import os\nos.fdopen(3)",
    # what IPython adds
    "a shell line": "!rm -rf x",
    "a shell line with two": "!ls; rm x",
    "a shell line's result": "x = !cat /proc/1/environ",
    "a run": "%run x.py",
    "another language": "%%bash\nls",
    "a script": "!python x.py",
    "what lies here installed": "!pip install .",
    "a file written": "%%writefile statistics.py\nx = 1",
    "an automatic call": "/f x",
    "a setting that is run": "%config InlineBackend.x = f()",
    "a line that ends for IPython only": 'x = "a\x0c%time b"',
    "a remainder that looks like a magic": "x = (1\n%matplotlib\nor 1)\nimport helpers.probes",
    "a prompt that makes an assignment look like a type": "In [1]: torch.relu = f",
    "a prompt in the second line": "x = 1\n...: torch.relu = f",
    # what cannot be read
    "no Python": "def softmax(x:",
    "nested too deeply": "x = " + "-" * 3000 + "1",
}  # fmt: skip


@pytest.mark.parametrize("code", PLAIN, ids=lambda code: code[:40])
def test_common_code_is_plain(code: str) -> None:
    assert doubts(code) == []


@pytest.mark.parametrize("code", NOT_PLAIN.values(), ids=NOT_PLAIN.keys())
def test_every_way_to_the_machinery_is_found(code: str) -> None:
    assert doubts(code)
    (first, *_) = doubts("x = 1", code, "y = 2")
    assert first.label == "cell 2"
    assert 1 <= first.line <= code.count("\n") + 1
    assert first.what


def test_a_doubt_says_where_and_what_in_words() -> None:
    found = doubts("x = 1\ny = torch._C\nz = eval('f')", "import sys\nsys._getframe()")
    assert found == [
        Doubt("cell 1", 2, "`torch._C`"),
        Doubt("cell 1", 3, "`eval`"),
        Doubt("cell 2", 2, "`sys._getframe`"),
    ]


def test_what_one_cell_imports_or_defines_matters_in_all() -> None:
    assert doubts("import enum as e", "e.bltns")
    assert doubts("T = torch.Tensor", "def f(): T.tag = 1")
    assert not doubts("def compile(x): return x", "compile(3)")
    assert not doubts("class A:\n    def _f(self): pass", "A()._f()")


def test_a_condition_makes_no_name_ones_own() -> None:
    assert doubts("if False:\n    eval = 1\neval('x')")


def test_every_reference_and_every_right_solution_is_plain_where_it_matters() -> None:
    """Three exercises are about torch's own names; nothing there rests on plain code."""
    doubtful = set()
    for exercise in EXERCISES:
        reference = find_cell(source(exercise.chapter), exercise.name).source
        given = needed_cells(exercise.chapter)
        for code in (reference, *(v.code for v in variants(exercise) if v.right)):
            if find_doubts([Cell(code, exercise.name)], given):
                doubtful.add(exercise.name)
    assert doubtful == {"predict-dtypes", "predict-saved-bytes", "result-dtype"}
    assert not any(rests_on_plain_code(e) for e in EXERCISES if e.name in doubtful)


def needed_cells(chapter: str) -> list[Cell]:
    cells = (c for c in source(chapter).cells if c.cell_type == "code")
    return [Cell(c.source, "", True) for c in cells if "needed" in c.metadata.get("tags", [])]


def rests_on_plain_code(exercise: Exercise) -> bool:
    test = find_cell(source(exercise.chapter), f"test-{exercise.name}").source
    names = [name for name in dir(probes) if hasattr(getattr(probes, name), "is_testimony")]
    return re.search(rf"written_without|probes\.(?:{'|'.join(names)})\b", test) is not None


def test_right_solutions_keep_the_rules_of_their_exercises() -> None:
    tried = 0
    for exercise in EXERCISES:
        test = find_cell(source(exercise.chapter), f"test-{exercise.name}").source
        reference = find_cell(source(exercise.chapter), exercise.name).source
        for patterns, options in find_rules(test):
            for code in (reference, *(v.code for v in variants(exercise) if v.right)):
                cells = [Cell(code, exercise.name)]
                any_text = options.get("any_text", True)
                assert rules.find_named(cells, patterns, any_text=any_text) is None, code
                assert not (options.get("loops") and rules.find_loop(cells)), code
                tried += 1
    assert tried > 10


def find_rules(test: str) -> Iterator[tuple[list[str], dict[str, bool]]]:
    """Return the rules of a test: patterns that stand there as they are, and the rule's options."""
    for node in ast.walk(ast.parse(test)):
        match node:
            case ast.Call(func=ast.Attribute(attr="written_without")):
                texts = [part.value for part in node.args if isinstance(part, ast.Constant)]
                yield texts, {part.arg: ast.literal_eval(part.value) for part in node.keywords}


def test_what_is_private_to_modules_is_listed() -> None:
    names = {*dir(nn.Module), *vars(nn.Module())}
    private = {n for n in names if n.startswith("_") and not n.startswith("__")}
    assert private - tables.PRIVATE_PARTS == tables.PRIVATE_OF_MODULES


def test_whatever_is_installed_is_known() -> None:
    folders = {sysconfig.get_path(kind) for kind in ("platlib", "platstdlib", "purelib", "stdlib")}
    names = {module.name for module in pkgutil.iter_modules(sorted(folders))}
    assert len(names) > 200
    assert [name for name in names if not tables.is_known(name)] == []
    assert not tables.is_known("a_module_of_nobodys")


def test_what_is_listed_exists() -> None:
    optional = {"PIL", "resource", "torch.utils.tensorboard"}
    for module, parts in tables.PARTS.items():
        if module in optional:
            continue
        found = importlib.import_module(module)
        missing = {
            part for part in parts if not hasattr(found, part) and not is_module(module, part)
        }
        # Some names come and go with Python's versions and torch's.
        assert missing <= {"UTC", "PosixPath", "assert_allclose", "tensorboard", "this"}, module


def is_module(package: str, name: str) -> bool:
    try:
        importlib.import_module(f"{package}.{name}")
    except ImportError:
        return False
    return True


def test_no_plain_part_of_a_library_leads_out_of_it() -> None:
    """Walk through all modules that torch, NumPy and matplotlib hold, by plain names alone."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = set(walk_plainly())
    # What these hold is functions on numbers and dates.
    assert found <= {"PIL.Image", "collections.abc", "dateutil", "math"}, found


def walk_plainly() -> Iterator[str]:
    dangerous = [getattr(builtins, n) for n in ("exec", "eval", "getattr", "setattr", "open")]
    names = Names([], [])
    importlib.import_module("matplotlib.backends.backend_agg")  # as soon as something is drawn
    waiting = [importlib.import_module(n) for n in (*sorted(tables.LIBRARIES), "matplotlib.pyplot")]
    seen = set()
    for module in waiting:
        if module.__name__ in seen:
            continue
        seen.add(module.__name__)
        for name, value in list(vars(module).items()):
            if not names.has_plain_part(module.__name__, name):
                continue
            if isinstance(value, types.ModuleType):
                if value.__name__.split(".")[0] in tables.LIBRARIES:
                    waiting.append(value)
                elif value.__name__ not in tables.WHOLE:
                    yield value.__name__
            elif any(value is function for function in dangerous):
                yield f"{module.__name__}.{name}"


def test_methods_of_tensors_layers_and_containers_are_plain() -> None:
    unsafe = {
        "apply_", "as_strided", "as_strided_", "map2_", "map_", "resize_", "set_",
        "sparse_resize_", "sparse_resize_and_clear_",
    }  # fmt: skip
    for kind in (torch.Tensor, torch.nn.Module, np.ndarray, str, list, dict, set):
        public = {name for name in dir(kind) if not name.startswith("_")}
        assert public & tables.ON_OBJECTS <= unsafe | {"ctypes", "resize_"}


HOSTILE: dict[str, Callable[[int], str]] = {
    "attributes": lambda n: "x = [" + "0," * n + "]" + ".a" * 50,
    "attributes of a module": lambda n: "\n".join(["torch" + ".nn" * 50] * (n // 50)),
    "magics": lambda n: "\n".join(["%time f(x)"] * n),
    "spaces": lambda n: "%time" + " " * (10 * n) + "x?",
    "classes": lambda n: "\n".join(f"class A{i}(A{i - 1}): pass" for i in range(n)),
    "functions": lambda n: "\n".join(f"def f{i}(x): return f{i - 1}(x)" for i in range(n)),
    "calls with texts": lambda n: "\n".join(["T = '{}'"] * n + ["T.format(1)"] * n),
    "names for functions": lambda n: (
        "\n".join(f"def f{i}(): pass" for i in range(n))
        + "\n"
        + ", ".join(f"x{i}" for i in range(n))
        + " = "
        + ", ".join(f"f{i}" for i in range(n))
    ),
    "versions": lambda n: "\n".join(["def f(x): return g(x) + f(x)\ng = f"] * n),
    "imports in functions": lambda n: "\n".join(
        f"def f{i}():\n    import math as m{i}" for i in range(n)
    ),
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
    def read(size: int) -> Callable[[], object]:
        cells = [Cell(make(size), "")]
        return lambda: (
            find_doubts(cells, GIVEN),
            rules.find_named(cells, ["softmax"]),
            rules.find_loop(cells),
        )

    once = count_calls(read(200))
    assert count_calls(read(400)) < 3 * once + 5000
