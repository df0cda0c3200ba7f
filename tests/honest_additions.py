"""What students write into the cell of an answer, above it or below it, and around it.

``NAME`` stands for what the exercise asks for. None of it changes the answer.
"""

from __future__ import annotations

ABOVE = {
    "a cell's time": "%%time",
    "a cell, captured": "%%capture",
    "a line of pip": "!pip install -q tqdm",
    "nvidia-smi": "!nvidia-smi",
    "matplotlib, inline": "%matplotlib inline",
    "autoreload": "%load_ext autoreload\n%autoreload 2",
    "tqdm": "from tqdm import tqdm",
    "tqdm for notebooks": "from tqdm.auto import tqdm, trange",
    "pandas and seaborn": "import pandas as pd\nimport seaborn as sns",
    "scipy and sklearn": "import scipy.special\nfrom scipy import stats\n"
    "from sklearn.metrics import f1_score",
    "torchvision": "import torchvision\nimport torchvision.transforms as T\n"
    "from d2l import torch as d2l",
    "TensorBoard": "from torch.utils.tensorboard import SummaryWriter",
    "annotations of the future": "from __future__ import annotations",
    "types": "from typing import Any, Callable, Dict, List, Optional, Tuple, TypeVar, Union\n"
    "T = TypeVar('T')",
    "newer types": "from typing_extensions import Self\nimport numpy.typing as npt",
    "half of the standard library": "import io, tempfile, struct, timeit, glob, fnmatch\n"
    "import string, traceback, operator, inspect, typing, numbers, decimal, collections.abc\n"
    "import contextlib, itertools, functools, math, copy, json, re, time, datetime, random\n"
    "import statistics, warnings, os, sys, gc, csv, hashlib, heapq, bisect, logging, pprint\n"
    "from collections import Counter, OrderedDict, defaultdict, deque, namedtuple\n"
    "from functools import partial, reduce\nfrom pathlib import Path",
    "torch by other names": "import torch as th\nfrom torch import nn, optim, Tensor\n"
    "import torch.nn.functional as F\nimport torch.utils.checkpoint as cp\n"
    "from torch.utils.data import DataLoader, Dataset, TensorDataset",
    "nn by assignment": "nn = torch.nn\nlinalg = torch.linalg",
    "numpy and matplotlib": "import numpy as np\nimport numpy.linalg as la\nimport matplotlib\n"
    "import matplotlib.pyplot as plt\nfrom matplotlib import cm, ticker\n"
    "from mpl_toolkits.mplot3d import Axes3D",
    "display": "from IPython import display\nfrom IPython.display import HTML, clear_output",
    "d2l's figures": "from matplotlib_inline import backend_inline\n"
    "backend_inline.set_matplotlib_formats('svg')",
    "the device": "device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')\n"
    "print('running on', device)",
    "the default device": "device = 'cuda' if torch.cuda.is_available() else 'cpu'\n"
    "torch.set_default_device(device)",
    "an environment variable": "import os\nos.environ['KMP_DUPLICATE_LIB_OK'] = 'TRUE'",
    "whether this is Colab": "import sys\nIN_COLAB = 'google.colab' in sys.modules",
    "Colab's drive": "try:\n    from google.colab import drive\n    drive.mount('/content/drive')\n"
    "except ImportError:\n    drive = None",
    "how torch prints": "torch.set_printoptions(precision=4, sci_mode=False, linewidth=120)",
    "a seed": "torch.manual_seed(0)",
    "no warnings": "import warnings\nwarnings.filterwarnings('ignore', category=UserWarning)",
    "a log": "import logging\nlogging.basicConfig(level=logging.INFO)\n"
    "log = logging.getLogger(__name__)\nlog.setLevel(logging.INFO)\nlog.info('defined')",
    "a log, silenced": "import logging\nlogging.disable(logging.WARNING)",
    "a style": "import matplotlib.pyplot as plt\nplt.style.use('ggplot')\n"
    "plt.rcParams.update({'font.size': 12})",
    "versions": "import sys\nprint(sys.version, torch.__version__, torch.cuda.device_count())",
    "constants": "EPS = 1e-12\nVERBOSE = False\nDEBUG: bool = False",
    "what was tried before": "# def NAME(*args):\n#     raise NotImplementedError\n\n"
    "'''\nfirst idea:\n"
    "softmax, then the log\n'''",
    "an earlier attempt": "def NAME(*args, **kwargs):\n    return None  # does not work yet",
    "an earlier attempt by another name": "def NAME_v1(*args, **kwargs):\n    return args[0]",
    "what is there is not defined again": "if 'NAME' not in globals():\n    print('first run')",
    "a cleanup": "import gc\ngc.collect()\nif torch.cuda.is_available():\n"
    "    torch.cuda.empty_cache()\n    torch.cuda.synchronize()",
    "a file": "import os\nos.makedirs('runs', exist_ok=True)\n"
    "with open('runs/log.txt', 'a') as file:\n    file.write('started\\n')",
    "Chinese": "# 先减去最大值，再取指数 🙂\n说明 = '这是我的答案'\nprint(说明)",
}  # fmt: skip
BELOW = {
    "a try": "try:\n    NAME()\nexcept TypeError as error:\n    print('as expected:', error)",
    "an assertion": "assert callable(NAME), 'not callable'\nprint('✓ done')",
    "assertions of libraries": "import numpy as np\n"
    "torch.testing.assert_close(torch.ones(2), torch.ones(2), rtol=1e-5, atol=0)\n"
    "np.testing.assert_allclose(np.zeros(3), 0.0)\n"
    "assert torch.equal(torch.ones(2), torch.ones(2))",
    "a test case": "import unittest\n\n\nclass TestNAME(unittest.TestCase):\n"
    "    def setUp(self):\n        torch.manual_seed(0)\n\n    def test_call(self):\n"
    "        self.assertTrue(callable(NAME))\n        for i in range(3):\n"
    "            with self.subTest(i=i):\n                self.assertGreaterEqual(i, 0)\n\n\n"
    "unittest.main(argv=[''], exit=False)",
    "a test case, with arguments": "import unittest\n\n\nclass TestNAME(unittest.TestCase):\n"
    "    def test_nothing(self):\n        with self.assertRaises(TypeError):\n"
    "            NAME()\n\n\n"
    "unittest.main(argv=['first-arg-is-ignored'], verbosity=2, exit=False)",
    "a test function": "def test_NAME():\n    for seed in range(3):\n"
    "        torch.manual_seed(seed)\n"
    "        assert callable(NAME)\n\n\ntest_NAME()",
    "a main": "if __name__ == '__main__':\n    print(NAME)",
    "a loop": "for size in [1, 10, 100]:\n    x = torch.randn(size)\n"
    "    print(size, x.mean().item())",
    "a plot": "import matplotlib.pyplot as plt\nxs = torch.linspace(-3, 3, 50)\nplt.figure()\n"
    "plt.plot(xs, [float(x) ** 2 for x in xs], label='loss')\nplt.title('try')\nplt.legend()\n"
    "plt.savefig('try.png')\nplt.show()",
    "a line's time": "%timeit -n 1 -r 1 NAME",
    "a clock": "import time\nstart = time.perf_counter()\nNAME\n"
    "print(f'{1e3 * (time.perf_counter() - start):.3f} ms')",
    "timeit": "import timeit\nprint(timeit.timeit(lambda: NAME, number=10))",
    "what it says": "print(NAME.__name__, NAME.__doc__)\nhelp(NAME)",
    "its signature": "import inspect\nprint(inspect.signature(NAME))",
    "the check": "Check('EXERCISE')",
    "a question": "NAME?",
    "its value": "NAME",
    "an alias": "my_function = NAME\nanswer = NAME",
    "numbers, formatted": "loss, n = 0.123456, 7\nprint(f'{loss:.4f} {n:>5d} {loss=:.2e} {n!r}')\n"
    "print('loss {:.3f}, n {}'.format(loss, n), '%.2f of %d' % (loss, n))",
    "autograd, tried out": "w = torch.ones(2, requires_grad=True)\n(w ** 2).sum().backward()\n"
    "print(w.grad, w.is_leaf, (w * 2).grad_fn)",
    "gradients, checked": "from torch.autograd import gradcheck\n"
    "ones = torch.ones(2, dtype=torch.double, requires_grad=True)\n"
    "print(gradcheck(lambda t: (t * t).sum(), ones))",
    "names of everyday": "input, vars, id, list_, max_, dir_ = 1, 2, 3, 4, 5, 6\nprint(input + id)",
}  # fmt: skip
# Helper code in a cell of its own above, and what the answer's cell gets below it.
AROUND = {
    "a timer": (
        """
import functools
import time


def timed(func):
    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        start = time.perf_counter()
        result = func(*args, **kwargs)
        timed.last = time.perf_counter() - start
        return result

    return wrapper
""",
        "NAME = timed(NAME)",
    ),
    "a counter": (
        """
CALLS = 0


def counted(func):
    def wrapper(*args, **kwargs):
        global CALLS
        CALLS += 1
        return func(*args, **kwargs)

    return wrapper
""",
        "NAME = counted(NAME)",
    ),
    "a registry": (
        """
REGISTRY = {}


def register(name):
    def decorate(func):
        REGISTRY[name] = func
        return func

    return decorate
""",
        "register('mine')(NAME)\n\n\ndef NAME(*args, **kwargs):\n"
        "    return REGISTRY['mine'](*args, **kwargs)",
    ),
    "a class that calls": (
        """
from dataclasses import dataclass, field
from typing import Callable


@dataclass
class Logged:
    func: Callable
    log: list = field(default_factory=list)

    def __call__(self, *args, **kwargs):
        self.log.append(len(args))
        return self.func(*args, **kwargs)

    def __repr__(self):
        return f"Logged({self.func.__name__}, {len(self.log)} calls)"
""",
        "_logged = Logged(NAME)\n\n\ndef NAME(*args, **kwargs):\n"
        "    return _logged(*args, **kwargs)",
    ),
    "partial and lambda": (
        "from functools import partial\n\n"
        "call = lambda func, *args, **kwargs: func(*args, **kwargs)",
        "NAME = partial(call, NAME)",
    ),
    "a debug switch": (
        """
DEBUG = True


def debug(*values, sep=" | "):
    if DEBUG:
        print(*(getattr(value, "shape", value) for value in values), sep=sep)


DEBUG = False
""",
        "_inner = NAME\n\n\ndef NAME(*args, **kwargs):\n    debug('called', *args)\n"
        "    return _inner(*args, **kwargs)",
    ),
    "a context manager": (
        """
from contextlib import contextmanager
import time

TIMES = []


@contextmanager
def timer(label="block"):
    start = time.time()
    try:
        yield
    finally:
        TIMES.append((label, time.time() - start))
""",
        "_inner = NAME\n\n\ndef NAME(*args, **kwargs):\n    with timer('block'):\n"
        "        return _inner(*args, **kwargs)",
    ),
    "a setup cell of one's own": (
        """
%matplotlib inline
!pip install -q tqdm
import os, sys, random, math, functools
import numpy as np
import pandas as pd
import torch
import torch.nn as nn
from tqdm import tqdm
import matplotlib.pyplot as plt
try:
    import google.colab
    IN_COLAB = True
except ImportError:
    IN_COLAB = False
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(42)
np.random.seed(42)
plt.rcParams["figure.figsize"] = (6, 4)
SEED = 42
print(device)


def identity(x):
    return x
""",
        "_inner = NAME\n\n\ndef NAME(*args, **kwargs):\n"
        "    if device.type == 'cuda' and SEED:\n        torch.cuda.synchronize()\n"
        "    return identity(_inner(*args, **kwargs))",
    ),
}  # fmt: skip
