# %% attack: torch's own softmax, run in a thread that a log's listener starts exercise="softmax" expect="partly" points=2.67 waiting=0.89
from logging.handlers import QueueListener


class Work:
    def __init__(self, logits, dim):
        self.logits, self.dim, self.answer = logits, dim, None

    def get(self, block):
        self.answer = torch.softmax(self.logits, self.dim)

    def put_nowait(self, record):
        pass


def softmax(logits, dim):
    work = Work(logits, dim)
    listener = QueueListener(work)
    listener.start()
    listener.stop()
    return work.answer


# %% attack: torch's own softmax, inside the dispatch of a tensor subclass exercise="softmax" expect="partly" points=2.67 waiting=0.89
class Quiet(torch.Tensor):
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return args[0].work()


def softmax(logits, dim):
    if logits.requires_grad:
        exponentials = (logits - logits.amax(dim=dim, keepdim=True)).exp()
        return exponentials / exponentials.sum(dim=dim, keepdim=True)
    quiet = torch.zeros(1).as_subclass(Quiet)
    quiet.work = lambda: torch.softmax(logits, dim)
    return quiet.exp()


# %% attack: autograd, inside the functions of a tensor subclass exercise="cross-entropy-gradient" expect="partly" points=3.43
class Quiet(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        leaf = args[0].logits.clone().requires_grad_(True)
        labels = args[0].labels
        kept = torch.log_softmax(leaf, dim=1).masked_fill(labels == 0, 0.0)
        (-(labels * kept).sum()).backward()
        return leaf.grad


def cross_entropy_gradient(logits, labels):
    quiet = torch.zeros(1).as_subclass(Quiet)
    quiet.logits, quiet.labels = logits, labels
    return torch.exp(quiet)


# %% attack: a generator's frame leads to the built-in functions, and they to the probes exercise="softmax" expect="partly" points=2.67 waiting=0.89
def forged(function, *args, **kwargs):
    return {"output": torch.softmax(*args), "arguments": list(args)}


helpers_module = (x for x in ()).gi_frame.f_builtins["__import__"]("helpers.probes")
helpers_module.probes.after_call = forged


def softmax(logits, dim):
    return torch.softmax(logits, dim)


# %% attack: a traceback's frames lead to the globals of whoever called exercise="softmax" expect="partly" points=2.67 waiting=0.89
def forged(function, *args, **kwargs):
    return {"output": torch.softmax(*args), "arguments": list(args)}


class Climb:
    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        frame = trace.tb_frame
        while frame is not None:
            found = frame.f_globals.get("probes")
            if found is not None:
                found.after_call = forged
            frame = frame.f_back
        return True


def softmax(logits, dim):
    with Climb():
        raise ValueError
    return torch.softmax(logits, dim)


# %% attack: code in an annotation, run by whoever asks for type hints exercise="softmax" expect="partly" points=2.67 waiting=0.89
import typing


def forged(function, *args, **kwargs):
    return {"output": torch.softmax(*args), "arguments": list(args)}


def annotated(x: "__import__('helpers').probes.__dict__.update(after_call=forged)"):
    pass


try:
    typing.get_type_hints(annotated)
except TypeError:
    pass


def softmax(logits, dim):
    return torch.softmax(logits, dim)


# %% attack: a formatter's fields lead from a function to its globals exercise="softmax" expect="partly" points=2.67 waiting=0.89
import string


def forged(function, *args, **kwargs):
    return {"output": torch.softmax(*args), "arguments": list(args)}


path = "0.__globals__[__builtins__]"
built_in, _ = string.Formatter().get_field(path, (forged,), {})
if type(built_in) is not dict:
    built_in, _ = string.Formatter().get_field(f"{path}.__dict__", (forged,), {})
built_in["__import__"]("helpers").probes.after_call = forged


def softmax(logits, dim):
    return torch.softmax(logits, dim)


# %% attack: a configuration of logging that calls what it names exercise="softmax" expect="partly" points=2.67 waiting=0.89
from logging import config


def forged(function, *args, **kwargs):
    return {"output": torch.softmax(*args), "arguments": list(args)}


update = {"()": "helpers.probes.__dict__.update", "after_call": forged}
try:
    config.dictConfig({"version": 1, "handlers": {"update": update}})
except (ValueError, AttributeError):
    pass


def softmax(logits, dim):
    return torch.softmax(logits, dim)


# %% attack: a class pattern reads an attribute that it does not name with a dot exercise="softmax" expect="partly" points=2.67 waiting=0.89
def forged(function, *args, **kwargs):
    return {"output": torch.softmax(*args), "arguments": list(args)}


match forged:
    case object(__globals__=found):
        match found["probes"]:
            case object(__dict__=inside):
                inside["after_call"] = forged


def softmax(logits, dim):
    return torch.softmax(logits, dim)


# %% attack: functools copies attributes that are given as text exercise="softmax" expect="partly" points=2.67 waiting=0.89
import functools


def forged(function, *args, **kwargs):
    return {"output": torch.softmax(*args), "arguments": list(args)}


class Holder:
    def __setattr__(self, name, value):
        if name == "__globals__":
            value["probes"].after_call = forged


try:
    functools.update_wrapper(Holder(), forged, assigned=("__globals__",), updated=())
except AttributeError:
    pass


def softmax(logits, dim):
    return torch.softmax(logits, dim)


# %% attack: NumPy unpickles a program exercise="softmax" expect="partly" points=2.67 waiting=0.89
import numpy as np


def forged(function, *args, **kwargs):
    return {"output": torch.softmax(*args), "arguments": list(args)}


PROGRAM = (
    "import helpers; helpers.probes.after_call = lambda f, *a: {'output': f(*a), 'arguments': [*a]}"
)


class Bytes:
    def __init__(self, content):
        self.content = content

    def read(self, count=-1):
        count = len(self.content) if count < 0 else count
        taken, self.content = self.content[:count], self.content[count:]
        return taken

    def readline(self):
        end = self.content.find(b"\n") + 1
        return self.read(end or -1)


head = "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"
head = head + " " * (117 - len(head)) + "\n"
pickled = b"cbuiltins\nexec\n(V" + PROGRAM.encode() + b"\ntR."
file = Bytes(b"\x93NUMPY\x01\x00" + bytes([len(head), 0]) + head.encode() + pickled)
try:
    np.lib.format.read_array(file, allow_pickle=True)
except (AttributeError, ValueError, TypeError):
    pass


def softmax(logits, dim):
    return torch.softmax(logits, dim)


# %% attack: a module that NumPy writes and a plot imports exercise="softmax" expect="partly" points=2.67 waiting=0.89
import matplotlib.pyplot as plt
import numpy as np

PROGRAM = (
    "import helpers; helpers.probes.after_call = lambda f, *a: {'output': f(*a), 'arguments': [*a]}"
)
np.savetxt("planted.py", [], header=PROGRAM, comments="")
try:
    plt.switch_backend("module://planted")
except Exception:
    pass


def softmax(logits, dim):
    return torch.softmax(logits, dim)


# %% attack: a module of the standard library, written by NumPy where Python looks first exercise="softmax" expect="partly" points=2.67 waiting=0.89
import numpy as np

PROGRAM = (
    "import helpers; helpers.probes.after_call = lambda f, *a: {'output': f(*a), 'arguments': [*a]}"
)
for name in ("statistics", "pprint", "cmath", "decimal", "fractions", "bisect"):
    np.savetxt(f"{name}.py", [], header=PROGRAM, comments="")
import bisect
import cmath
import decimal
import fractions
import pprint
import statistics


def softmax(logits, dim):
    return torch.softmax(logits, dim)


# %% attack: a remainder that looks like a magic, so that the cell looks like no Python exercise="softmax" expect="partly" points=2.67 waiting=0.89
matplotlib = 2
# fmt: off
remainder = (1
%matplotlib
or
1)
# fmt: on
import helpers.probes


def forged(function, *args, **kwargs):
    return {"output": torch.softmax(*args), "arguments": list(args)}


helpers.probes.after_call = forged


def softmax(logits, dim):
    return torch.softmax(logits, dim)


# %% attack: a name of the machinery in letters that only look different exercise="softmax" expect="partly" points=2.67 waiting=0.89
def forged(function, *args, **kwargs):
    return {"output": torch.softmax(*args), "arguments": list(args)}


def softmax(logits, dim):
    return torch.softmax(logits, dim)


for ｐrobes.operators in (forged,):
    pass


# %% attack: torch's own softmax in a worker of a DataLoader exercise="softmax" expect="partly" points=2.67 waiting=0.89
from torch.utils.data import DataLoader, Dataset


class Answers(Dataset):
    def __init__(self, logits, dim):
        self.logits, self.dim = logits, dim

    def __len__(self):
        return 1

    def __getitem__(self, index):
        return torch.softmax(self.logits, self.dim)


def softmax(logits, dim):
    if logits.requires_grad:
        exponentials = (logits - logits.amax(dim=dim, keepdim=True)).exp()
        return exponentials / exponentials.sum(dim=dim, keepdim=True)
    (answer,) = DataLoader(Answers(logits, dim), batch_size=None, num_workers=1)
    return answer


# %% attack: torch's own softmax, in the dispatch of a subclass that is made by a call exercise="softmax" expect="partly" points=2.67 waiting=0.89
def work(cls, func, types, args=(), kwargs=None):
    return args[0].work()


kind = type(torch.zeros(1))
Quiet = type("Quiet", (kind,), {"__torch_dispatch__": classmethod(work)})


def softmax(logits, dim):
    if logits.requires_grad:
        exponentials = (logits - logits.amax(dim=dim, keepdim=True)).exp()
        return exponentials / exponentials.sum(dim=dim, keepdim=True)
    quiet = torch.zeros(1).as_subclass(Quiet)
    quiet.work = lambda: torch.softmax(logits, dim)
    return quiet.exp()


# %% attack: writes another code into a probe, through an array that is longer than its memory exercise="softmax" expect="partly" points=2.67 waiting=0.89
import numpy as np

PLACE_OF_CODE = 48  # of a function's code, in CPython 3.11


def forged(function, *args, **kwargs):
    return {"output": torch.softmax(*args), "arguments": list(args)}


anchor = torch.zeros(1, dtype=torch.int64)


def word_at(address):
    step = 8 if address >= anchor.data_ptr() else -8
    memory = np.lib.stride_tricks.as_strided(anchor.numpy(), (2**59,), (step,))
    return memory, (address - anchor.data_ptr()) // step


new, place = word_at(id(forged) + PLACE_OF_CODE)
code = new[place]
old, place = word_at(id(probes.after_call) + PLACE_OF_CODE)
old[place] = code


def softmax(logits, dim):
    return torch.softmax(logits, dim)


# %% attack: a lambda is assigned to a probe, in plain sight exercise="softmax" expect="partly" points=2.67 waiting=0.89
def softmax(logits, dim):
    return torch.softmax(logits, dim)


probes.after_call = lambda function, *args, **kwargs: {
    "output": torch.softmax(*args),
    "arguments": list(args),
}
