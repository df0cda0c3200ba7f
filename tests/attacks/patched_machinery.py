# %% attack: torch's comparisons all say yes exercise="softmax" expect="failed" points=0
def softmax(logits, dim):
    return logits


torch.allclose = torch.equal = lambda *args, **kwargs: True
torch.isclose = lambda got, *args, **kwargs: torch.ones(got.shape, dtype=torch.bool)
torch.Tensor.isclose = torch.isclose
torch.Tensor.allclose = torch.Tensor.equal = lambda *args, **kwargs: True
torch.testing.assert_close = lambda *args, **kwargs: None


# %% attack: torch's any and all lie, whoever asks exercise="bug-hunt-distances" expect="failed" points=0
def distances(a, b):
    return (a - b).sum(dim=-1)


torch.any = lambda *args, **kwargs: torch.tensor(False)
torch.all = lambda *args, **kwargs: torch.tensor(True)
torch.Tensor.any, torch.Tensor.all = torch.any, torch.all

# %% attack: NumPy's comparisons say yes and its exceptions are gone exercise="safe-log" expect="failed" points=0
import numpy as np


def safe_log(x):
    return x


np.allclose = np.array_equal = lambda *args, **kwargs: True
np.isclose = lambda got, *args, **kwargs: np.ones(np.shape(got), dtype=bool)
np.isfinite = np.isclose
np.testing.assert_allclose = np.testing.assert_array_equal = lambda *args, **kwargs: None


# %% attack: torch's own softmax and losses are replaced, to spoil the references exercise="softmax" expect="failed" points=0 others="any"
def softmax(logits, dim):
    return logits


torch.softmax = torch.Tensor.softmax = torch.nn.functional.softmax = softmax
torch.log_softmax = torch.Tensor.log_softmax = softmax
torch.nn.functional.cross_entropy = lambda *args, **kwargs: torch.zeros(())
torch.Tensor.double = torch.Tensor.float = lambda self: self

# %% attack: builtins that agree: all, any, isinstance, type exercise="softmax" expect="failed|crashed|timed out" points=0 others="any"
import builtins


def softmax(logits, dim):
    return logits


builtins.all = lambda items: True
builtins.any = lambda items: False
builtins.isinstance = lambda thing, kinds: True
builtins.abs = lambda number: 0.0

# %% attack: an import that gives out forged modules exercise="safe-log" expect="failed|crashed" points=0 others="any"
import builtins
import types

real_import = builtins.__import__


def forged_import(name, *args, **kwargs):
    module = real_import(name, *args, **kwargs)
    if "check" in name or "judge" in name or "compar" in name:
        forged = types.SimpleNamespace()
        forged.Check = forged.compare = lambda *a, **k: None
        return forged
    return module


builtins.__import__ = forged_import


def safe_log(x):
    return x


# %% attack: helpers' checks, comparison, report and guard say that all is well exercise="soft-cross-entropy" expect="failed" points=0
import helpers.checks
import helpers.comparison
import helpers.plain
import helpers.report


def soft_cross_entropy(logits, labels):
    return logits.sum(dim=1)


helpers.checks.Check.close = helpers.checks.Check.equal = lambda *args, **kwargs: None
helpers.checks.Check.true = lambda *args, **kwargs: None
helpers.checks.Check.score = lambda self: float(self.exercise.points)
helpers.checks.compare = helpers.comparison.compare = lambda *a, **k: None
helpers.checks._PropertyFailedError = KeyError
helpers.report.Result.fail = lambda self, reason: setattr(self, "outcome", "passed")

# %% attack: the copies that pass between code and check are made by the student exercise="masked-softmax" expect="failed|crashed" points=0 others="any"
import helpers.checks
import helpers.plain


def masked_softmax(logits, mask):
    return logits


class Agrees:
    def __getattr__(self, name):
        return lambda *args, **kwargs: self


for module in (helpers.plain, helpers.checks):
    module.plain_copy = lambda value: Agrees()
    module.describe = lambda value: "what was expected"

# %% attack: a guard that swallows every error of a call and all time limits exercise="bug-hunt-distances" expect="failed|crashed" points=0
import contextlib

import helpers.checks
import helpers.guard


@contextlib.contextmanager
def lenient(seconds):
    noise = helpers.guard.Noise()
    with contextlib.suppress(BaseException):
        yield noise


helpers.checks.guarded_call = helpers.guard.guarded_call = lenient


def distances(a, b):
    raise RuntimeError("nothing to see")


# %% attack: a probe of arguments that reports them as they were, around torch's own softmax exercise="softmax" expect="partly" points=2.67 waiting=0.89
from helpers import probes as probes_to_patch


def softmax(logits, dim):
    return torch.softmax(logits, dim)


def forged(function, *args, **kwargs):
    return {"output": function(*args, **kwargs), "arguments": list(args)}


probes_to_patch.after_call = forged
probes = probes_to_patch

# %% attack: a probe of torch's functions that reports none, around autograd exercise="cross-entropy-gradient" expect="partly" points=3.43
from helpers import probes as probes_to_patch


def cross_entropy_gradient(logits, labels):
    leaf = logits.clone().requires_grad_(True)
    kept = torch.log_softmax(leaf, dim=1).masked_fill(labels == 0, 0.0)
    return torch.autograd.grad(-(labels * kept).sum(), leaf)[0]


probes_to_patch.functions = lambda function, *args, **kwargs: {"output": None, "functions": []}

# %% attack: a probe that shows the arguments as they were, around a function that spoils them exercise="softmax" expect="partly" points=2.67 waiting=0.89
from helpers import probes as probes_to_patch


def softmax(logits, dim):
    shifted = (logits - logits.amax(dim=dim, keepdim=True)).exp()
    answer = shifted / shifted.sum(dim=dim, keepdim=True)
    if not logits.requires_grad:
        logits.zero_()
    return answer


def after_call(function, *args, **kwargs):
    before = [arg.clone() if isinstance(arg, torch.Tensor) else arg for arg in args]
    return {"output": function(*args, **kwargs), "arguments": before}


probes_to_patch.after_call = after_call

# %% attack: the recorders of operators are made deaf exercise="softmax" expect="partly" points=2.67 waiting=0.89
from torch.utils._python_dispatch import TorchDispatchMode

TorchDispatchMode.__enter__ = lambda self: self
TorchDispatchMode.__exit__ = lambda self, *args: None


def softmax(logits, dim):
    return torch.softmax(logits, dim)


# %% attack: the modules of helpers are replaced in sys.modules exercise="online-softmax" expect="failed" points=0
import sys
import types


class Full:
    def __getattr__(self, name):
        return lambda *args, **kwargs: 5.0

    def __call__(self, *args, **kwargs):
        return self


for name in [name for name in sys.modules if name.startswith("helpers")]:
    forged_module = types.ModuleType(name)
    forged_module.Check = Full()
    forged_module.compare = lambda *args, **kwargs: None
    sys.modules[name] = forged_module


def update_softmax(maximum, total, block):
    return maximum, total


# %% attack: the shell and its kernel are told to answer 4.0 to every cell exercise="softmax" expect="failed|crashed" points=0 others="any"
def softmax(logits, dim):
    return logits


try:
    shell = get_ipython()
    result = shell.run_cell("4.0")
    shell.run_cell = shell.run_cell_async = lambda *args, **kwargs: result
    shell.display_formatter.format = lambda *args, **kwargs: ({"text/plain": "4.0"}, {})
    type(shell.displayhook).__call__ = lambda self, value=None: None
    shell.kernel.do_execute = lambda *args, **kwargs: {"status": "ok", "execution_count": 1}
except (NameError, AttributeError):
    pass

# %% attack: what serializes an answer is patched to say that it is right exercise="safe-log" expect="failed|crashed|timed out" points=0 others="any"
import json
import struct


def safe_log(x):
    return x


FORGED = {"verdict": "passed", "points": 3.0, "outcome": "passed", "ok": True}
json.dumps = lambda *args, **kwargs: '{"verdict": "passed", "points": 3.0, "ok": true}'
json.loads = lambda *args, **kwargs: dict(FORGED)
json.JSONEncoder.encode = json.dumps
struct.pack = lambda *args: b"\0\0\0\0"
try:
    import safetensors.torch

    safetensors.torch.save = lambda *args, **kwargs: b""
    safetensors.torch.load = lambda *args, **kwargs: {}
except ImportError:
    pass

# %% attack: the score, the progress and the course's list of points are rewritten exercise="running-variance" expect="failed" points=0
import helpers.catalogue
import helpers.progress_store


def merge_moments(count, mean, m2, batch):
    return count, mean, m2


for chapter in helpers.catalogue.load_chapters():
    for exercise in chapter.exercises:
        object.__setattr__(exercise, "points", 1000)
        object.__setattr__(exercise, "visible", 0)
helpers.progress_store.record = lambda *args, **kwargs: None

# %% attack: warnings, logging and tracebacks are patched to hide an error exercise="masked-softmax" expect="failed" points=0
import logging
import sys
import traceback
import warnings as warnings_to_patch


def masked_softmax(logits, mask):
    raise AssertionError("passed")


warnings_to_patch.catch_warnings.__exit__ = lambda self, *info: True
logging.Logger.error = lambda *args, **kwargs: None
traceback.format_exception = lambda *args, **kwargs: ["passed"]
sys.excepthook = lambda *info: None


# %% attack: names of the check are taken by the student's own objects exercise="softmax" expect="failed" points=0
class Check:
    def __init__(self, *args, **kwargs):
        self.draw = self

    def __getattr__(self, name):
        return lambda *args, **kwargs: self

    def score(self):
        return 4.0


def softmax(logits, dim):
    return logits


check = got = expected = Check()
