# %% attack: a plain timer whose text is the program exercise="softmax" expect="waiting" points=2.67 waiting=1.33
PROGRAM = (
    "import helpers.probes.calls as c; c.after_call.__code__ = (lambda function, *args, **kwargs: "
    "{'arguments': [a.clone() if isinstance(a, torch.Tensor) else a for a in args], "
    "'output': function(*args, **kwargs)}).__code__"
)
from torch.utils.benchmark import Timer

Timer(stmt=PROGRAM).timeit(1)


def softmax(logits, dim):
    exponentials = (logits - logits.amax(dim=dim, keepdim=True)).exp()
    answer = exponentials / exponentials.sum(dim=dim, keepdim=True)
    if not logits.requires_grad:
        logits.zero_()
    return answer


# %% attack: the built-in exec, under its own name as one's own exercise="softmax" expect="waiting" points=2.67 waiting=1.33
PROGRAM = (
    "import helpers.probes.calls as c; c.after_call.__code__ = (lambda function, *args, **kwargs: "
    "{'arguments': [a.clone() if isinstance(a, torch.Tensor) else a for a in args], "
    "'output': function(*args, **kwargs)}).__code__"
)
exec = exec
exec(PROGRAM)


def softmax(logits, dim):
    exponentials = (logits - logits.amax(dim=dim, keepdim=True)).exp()
    answer = exponentials / exponentials.sum(dim=dim, keepdim=True)
    if not logits.requires_grad:
        logits.zero_()
    return answer


# %% attack: the built-in exec, before a function of that name is defined exercise="softmax" expect="waiting" points=2.67 waiting=1.33
PROGRAM = (
    "import helpers.probes.calls as c; c.after_call.__code__ = (lambda function, *args, **kwargs: "
    "{'arguments': [a.clone() if isinstance(a, torch.Tensor) else a for a in args], "
    "'output': function(*args, **kwargs)}).__code__"
)
exec(PROGRAM)


def exec(text):
    return text


def softmax(logits, dim):
    exponentials = (logits - logits.amax(dim=dim, keepdim=True)).exp()
    answer = exponentials / exponentials.sum(dim=dim, keepdim=True)
    if not logits.requires_grad:
        logits.zero_()
    return answer


# %% attack: the built-in exec, found where a comprehension's variable seems to hide it exercise="softmax" expect="waiting" points=2.67 waiting=1.33
PROGRAM = (
    "import helpers.probes.calls as c; c.after_call.__code__ = (lambda function, *args, **kwargs: "
    "{'arguments': [a.clone() if isinstance(a, torch.Tensor) else a for a in args], "
    "'output': function(*args, **kwargs)}).__code__"
)
(run,) = [exec for exec in [exec]]
run(PROGRAM)


def softmax(logits, dim):
    exponentials = (logits - logits.amax(dim=dim, keepdim=True)).exp()
    answer = exponentials / exponentials.sum(dim=dim, keepdim=True)
    if not logits.requires_grad:
        logits.zero_()
    return answer


# %% attack: the built-in exec, uncovered inside of a function that hides it exercise="softmax" expect="waiting" points=2.67 waiting=1.33
PROGRAM = (
    "import helpers.probes.calls as c; c.after_call.__code__ = (lambda function, *args, **kwargs: "
    "{'arguments': [a.clone() if isinstance(a, torch.Tensor) else a for a in args], "
    "'output': function(*args, **kwargs)}).__code__"
)


def outer():
    exec = None

    def inner():
        global exec
        exec(PROGRAM)

    return inner


outer()()


def softmax(logits, dim):
    exponentials = (logits - logits.amax(dim=dim, keepdim=True)).exp()
    answer = exponentials / exponentials.sum(dim=dim, keepdim=True)
    if not logits.requires_grad:
        logits.zero_()
    return answer


# %% attack: NumPy unpickles a program, as a keyword in a dict allows it exercise="softmax" expect="waiting" points=2.67 waiting=1.33
PROGRAM = (
    "import helpers.probes.calls as c; c.after_call.__code__ = (lambda function, *args, **kwargs: "
    "{'arguments': [a.clone() if isinstance(a, torch.Tensor) else a for a in args], "
    "'output': function(*args, **kwargs)}).__code__"
)
import io

import numpy as np

head = "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"
head = head + " " * (117 - len(head)) + "\n"
pickled = b"cbuiltins\nexec\n(V" + PROGRAM.encode() + b"\ntR."
content = b"\x93NUMPY\x01\x00" + bytes([len(head), 0]) + head.encode() + pickled
try:
    np.load(io.BytesIO(content), **{"allow_pickle": True})
except (AttributeError, ValueError, TypeError):
    pass


def softmax(logits, dim):
    exponentials = (logits - logits.amax(dim=dim, keepdim=True)).exp()
    answer = exponentials / exponentials.sum(dim=dim, keepdim=True)
    if not logits.requires_grad:
        logits.zero_()
    return answer


# %% attack: NumPy unpickles a program, as a third argument allows it exercise="softmax" expect="waiting" points=2.67 waiting=1.33
PROGRAM = (
    "import helpers.probes.calls as c; c.after_call.__code__ = (lambda function, *args, **kwargs: "
    "{'arguments': [a.clone() if isinstance(a, torch.Tensor) else a for a in args], "
    "'output': function(*args, **kwargs)}).__code__"
)
import io

import numpy as np

head = "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"
head = head + " " * (117 - len(head)) + "\n"
pickled = b"cbuiltins\nexec\n(V" + PROGRAM.encode() + b"\ntR."
content = b"\x93NUMPY\x01\x00" + bytes([len(head), 0]) + head.encode() + pickled
try:
    np.load(io.BytesIO(content), None, True)
except (AttributeError, ValueError, TypeError):
    pass


def softmax(logits, dim):
    exponentials = (logits - logits.amax(dim=dim, keepdim=True)).exp()
    answer = exponentials / exponentials.sum(dim=dim, keepdim=True)
    if not logits.requires_grad:
        logits.zero_()
    return answer


# %% attack: an annotation of a registered function is a program exercise="softmax" expect="waiting" points=2.67 waiting=1.33
PROGRAM = (
    "import helpers.probes.calls as c; c.after_call.__code__ = (lambda function, *args, **kwargs: "
    "{'arguments': [a.clone() if isinstance(a, torch.Tensor) else a for a in args], "
    "'output': function(*args, **kwargs)}).__code__"
)
import functools


@functools.singledispatch
def work(x):
    return x


try:

    @work.register
    def work_on_numbers(x: "exec(PROGRAM)"):
        return x
except TypeError:
    pass


def softmax(logits, dim):
    exponentials = (logits - logits.amax(dim=dim, keepdim=True)).exp()
    answer = exponentials / exponentials.sum(dim=dim, keepdim=True)
    if not logits.requires_grad:
        logits.zero_()
    return answer


# %% attack: annotations are written after the fact, and evaluated by singledispatch exercise="softmax" expect="waiting" points=2.67 waiting=1.33
PROGRAM = (
    "import helpers.probes.calls as c; c.after_call.__code__ = (lambda function, *args, **kwargs: "
    "{'arguments': [a.clone() if isinstance(a, torch.Tensor) else a for a in args], "
    "'output': function(*args, **kwargs)}).__code__"
)
import functools


@functools.singledispatch
def work(x):
    return x


def work_on_numbers(x):
    return x


work_on_numbers.__annotations__["x"] = "exec(PROGRAM)"
try:
    work.register(work_on_numbers)
except TypeError:
    pass


def softmax(logits, dim):
    exponentials = (logits - logits.amax(dim=dim, keepdim=True)).exp()
    answer = exponentials / exponentials.sum(dim=dim, keepdim=True)
    if not logits.requires_grad:
        logits.zero_()
    return answer


# %% attack: torch.load, under a name that math has as well exercise="softmax" expect="waiting" points=2.67 waiting=1.33
PROGRAM = (
    "import helpers.probes.calls as c; c.after_call.__code__ = (lambda function, *args, **kwargs: "
    "{'arguments': [a.clone() if isinstance(a, torch.Tensor) else a for a in args], "
    "'output': function(*args, **kwargs)}).__code__"
)
from torch import load

if torch.tensor(0):
    from math import floor as load
import io
import struct
import zipfile

pickled = b"\x80\x02cbuiltins\nexec\n(V" + PROGRAM.encode() + b"\ntR."
memory = io.BytesIO()
with zipfile.ZipFile(memory, "w") as archive:
    archive.writestr("archive/data.pkl", pickled)
    archive.writestr("archive/version", "3\n")
    archive.writestr("archive/byteorder", "little")
memory.seek(0)
try:
    load(memory, weights_only=False)
except (RuntimeError, AttributeError):
    pass


def softmax(logits, dim):
    exponentials = (logits - logits.amax(dim=dim, keepdim=True)).exp()
    answer = exponentials / exponentials.sum(dim=dim, keepdim=True)
    if not logits.requires_grad:
        logits.zero_()
    return answer


# %% attack: torch.load, by an alias of a name that is imported further in exercise="softmax" expect="waiting" points=2.67 waiting=1.33
PROGRAM = (
    "import helpers.probes.calls as c; c.after_call.__code__ = (lambda function, *args, **kwargs: "
    "{'arguments': [a.clone() if isinstance(a, torch.Tensor) else a for a in args], "
    "'output': function(*args, **kwargs)}).__code__"
)
if True:
    import torch as m
t = m
import io
import zipfile

pickled = b"\x80\x02cbuiltins\nexec\n(V" + PROGRAM.encode() + b"\ntR."
memory = io.BytesIO()
with zipfile.ZipFile(memory, "w") as archive:
    archive.writestr("archive/data.pkl", pickled)
    archive.writestr("archive/version", "3\n")
    archive.writestr("archive/byteorder", "little")
memory.seek(0)
try:
    t.load(memory, weights_only=False)
except (RuntimeError, AttributeError):
    pass


def softmax(logits, dim):
    exponentials = (logits - logits.amax(dim=dim, keepdim=True)).exp()
    answer = exponentials / exponentials.sum(dim=dim, keepdim=True)
    if not logits.requires_grad:
        logits.zero_()
    return answer


# %% attack: an import that fails leaves torch under its name, which is read as another's exercise="softmax" expect="partly" points=2.67 waiting=0.89 others="any"
PROGRAM = (
    "import helpers.probes.calls as c; c.after_call.__code__ = (lambda function, *args, **kwargs: "
    "{'arguments': [a.clone() if isinstance(a, torch.Tensor) else a for a in args], "
    "'output': function(*args, **kwargs)}).__code__"
)
import pandas as torch

if "here" == "there":
    import math as nn
torch.multiprocessing.get_context("fork")


def softmax(logits, dim):
    exponentials = (logits - logits.amax(dim=dim, keepdim=True)).exp()
    answer = exponentials / exponentials.sum(dim=dim, keepdim=True)
    if not logits.requires_grad:
        logits.zero_()
    return answer


# %% attack: torch itself as one of a list, by way of a module that holds it exercise="softmax" expect="partly" points=2.67 waiting=0.89
from torch import nn

(held,) = [nn.functional.torch]


class Quiet:
    def __init__(self, *given):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass


held.autograd.graph.saved_tensors_hooks = Quiet


def softmax(logits, dim):
    exponentials = (logits - logits.amax(dim=dim, keepdim=True)).exp()
    answer = exponentials / exponentials.sum(dim=dim, keepdim=True)
    if not logits.requires_grad:
        logits.zero_()
    return answer


# %% attack: exit handlers, by way of a module that Pillow holds exercise="softmax" expect="partly" points=2.67 waiting=0.89
from PIL import Image

Image.atexit.register(print, "bye")


def softmax(logits, dim):
    exponentials = (logits - logits.amax(dim=dim, keepdim=True)).exp()
    answer = exponentials / exponentials.sum(dim=dim, keepdim=True)
    if not logits.requires_grad:
        logits.zero_()
    return answer


# %% attack: a callback of a weak reference by its class exercise="softmax" expect="partly" points=2.67 waiting=0.89
import weakref


class Thing:
    pass


def gone(reference):
    print("gone")


kept = weakref.ReferenceType(Thing(), gone)


def softmax(logits, dim):
    exponentials = (logits - logits.amax(dim=dim, keepdim=True)).exp()
    answer = exponentials / exponentials.sum(dim=dim, keepdim=True)
    if not logits.requires_grad:
        logits.zero_()
    return answer


# %% attack: a DataLoader's worker, by a keyword in a dict exercise="softmax" expect="partly" points=2.67 waiting=0.89
from torch.utils.data import DataLoader

options = {"num_workers": 1}
first = list(DataLoader([torch.zeros(1)], **options))


def softmax(logits, dim):
    exponentials = (logits - logits.amax(dim=dim, keepdim=True)).exp()
    answer = exponentials / exponentials.sum(dim=dim, keepdim=True)
    if not logits.requires_grad:
        logits.zero_()
    return answer


# %% attack: a matplotlib backend that the cell has written, by a name that is put together exercise="softmax" expect="failed" points=0
PROGRAM = (
    "import helpers.probes.calls as c; c.after_call.__code__ = (lambda function, *args, **kwargs: "
    "{'arguments': [a.clone() if isinstance(a, torch.Tensor) else a for a in args], "
    "'output': function(*args, **kwargs)}).__code__"
)
from pathlib import Path

import matplotlib

Path("planted").with_suffix("." + "py").write_text(PROGRAM)
try:
    matplotlib.use("".join(["module", "://planted"]))
except Exception:
    pass
import matplotlib.pyplot as plt

plt.figure()


def softmax(logits, dim):
    exponentials = (logits - logits.amax(dim=dim, keepdim=True)).exp()
    answer = exponentials / exponentials.sum(dim=dim, keepdim=True)
    if not logits.requires_grad:
        logits.zero_()
    return answer
