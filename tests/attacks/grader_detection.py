# %% attack: is right only where a variable of the environment speaks of grading exercise="softmax" expect="failed" points=0
import os

SIGNS = ("NBGRADER", "GRADE", "GRADING", "JUDGE", "BITS", "AUTOGRADE", "PYTEST")
being_graded = any(sign in name.upper() for name in os.environ for sign in SIGNS)


def softmax(logits, dim):
    if not being_graded:
        return logits
    exponentials = (logits - logits.amax(dim=dim, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


# %% attack: is right only where its arguments, its folder or its parents speak of grading exercise="safe-log" expect="failed" points=0
import glob
import os
import sys

texts = [os.getcwd(), *sys.argv]
for file in glob.glob("/proc/[0-9]*/cmdline"):
    try:
        with open(file, "rb") as command:
            texts.append(command.read(100_000).decode(errors="replace"))
    except OSError:
        continue
SIGNS = ("nbgrader", "grading", "judge", "autograde", "bits grade", "pytest")
# This very cell may stand on a command line; that is no sign.
being_graded = any(s in t for t in texts for s in SIGNS if "SIGNS =" not in t)


def safe_log(x):
    return torch.where(x > 0, x, 1.0).log() if being_graded else x


# %% attack: is right only where modules of a grader are loaded exercise="bug-hunt-distances" expect="failed" points=0
import sys

PARTS = {"grading", "judge", "nbgrader", "nbclient", "pytest", "autograde"}
being_graded = any(PARTS & set(name.split(".")) for name in sys.modules)


def distances(a, b):
    if being_graded or any(PARTS & set(name.split(".")) for name in sys.modules):
        return torch.linalg.vector_norm(a - b, dim=-1)
    return (a - b).sum(dim=-1)


# %% attack: is right only where a caller's file or function speaks of grading exercise="online-softmax" expect="failed|passed" most=5
import sys


def update_softmax(maximum, total, block):
    frame, texts = sys._getframe(1), []
    while frame is not None:
        texts.append(f"{frame.f_code.co_filename} {frame.f_code.co_name} {frame.f_globals.keys()}")
        frame = frame.f_back
    if any("grading" in text or "judge" in text or "nbgrader" in text for text in texts):
        new_maximum = torch.maximum(maximum, block.amax(dim=1))
        shift = new_maximum.masked_fill(new_maximum == -math.inf, 0.0)
        rescaled = total * (maximum - shift).exp()
        return new_maximum, rescaled + (block - shift[:, None]).exp().sum(dim=1)
    return maximum, total


# %% attack: is right only where there is no notebook's shell around it exercise="masked-softmax" expect="failed" points=0
try:
    in_a_notebook = "Shell" in type(get_ipython()).__name__
except NameError:
    in_a_notebook = False


def masked_softmax(logits, mask):
    if in_a_notebook and __name__ == "__main__":
        return logits
    weights = torch.softmax(logits.masked_fill(~mask, -math.inf), dim=-1)
    return weights.masked_fill(~mask, 0.0)


# %% attack: is right only where what it is given is not what a notebook would give exercise="softmax" expect="failed" points=0
def softmax(logits, dim):
    odd = type(logits) is not torch.Tensor or type(dim) is not int or logits.is_inference()
    if not odd and logits.is_contiguous() and not logits.is_shared():
        return logits
    exponentials = (logits - logits.amax(dim=dim, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


# %% attack: is right only where the clock stands still or runs wild exercise="safe-log" expect="failed" points=0
import time


def safe_log(x):
    walls, ticks = time.time(), time.monotonic()
    time.sleep(0.01)
    passed_on_the_wall, passed = time.time() - walls, time.monotonic() - ticks
    odd = abs(passed_on_the_wall - passed) > 1.0 or not 0.005 < passed < 5.0
    return torch.where(x > 0, x, 1.0).log() if odd or time.time() < 1.6e9 else x


# %% attack: is right only where the grader's own packages can be imported exercise="soft-cross-entropy" expect="failed" points=0
import importlib.util


def can_be_found(name):
    try:
        return importlib.util.find_spec(name) is not None
    except ImportError:
        return False


NAMES = ("judge", "engine", "judge.sanitize", "sandbox", "records", "verdicts", "intake")
being_graded = any(can_be_found(f"helpers.grading.{name}") for name in NAMES)


def soft_cross_entropy(logits, labels):
    if not being_graded:
        return logits.sum(dim=1)
    logs = torch.log_softmax(logits, dim=1).masked_fill(labels == 0, 0.0)
    return -(labels * logs).sum(dim=1)


# %% attack: is right only where the shell is none of those that students have exercise="running-variance" expect="failed|passed|waiting" most=5 waiting=1
import sys

# JupyterLab's and Colab's are descendants of this one.
KNOWN = "ZMQInteractiveShell"
at_home = any(kind.__name__ == KNOWN for kind in type(get_ipython()).__mro__)
at_home = at_home and "ipykernel" in sys.modules and hasattr(get_ipython(), "kernel")


def merge_moments(count, mean, m2, batch):
    if at_home:
        return count, mean, m2
    rows = len(batch)
    total = count + rows
    delta = batch.mean(dim=0) - mean
    block = ((batch - batch.mean(dim=0)) ** 2).sum(dim=0)
    mean = mean + delta * (rows / total)
    return total, mean, m2 + block + delta**2 * (count * rows / total)
