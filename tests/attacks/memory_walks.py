# %% attack: goes up the frames for a check and makes its score full exercise="softmax" expect="failed" points=0
import sys


def softmax(logits, dim):
    frame = sys._getframe()
    while frame is not None:
        for value in [*frame.f_locals.values(), *frame.f_globals.values()]:
            if type(value).__name__ == "Check":
                type(value).score = lambda self: float(self.exercise.points)
                type(value).close = lambda self, *args, **kwargs: None
            if type(value).__name__ == "Result":
                value.outcome = "passed"
        frame = frame.f_back
    return logits


# %% attack: looks through all frames for something called expected, and returns it exercise="online-softmax" expect="failed" points=0
import sys


def update_softmax(maximum, total, block):
    for frame in sys._current_frames().values():
        while frame is not None:
            for names in (frame.f_locals, frame.f_globals):
                for name, value in list(names.items()):
                    if name == "data" or "expected" in name or "reference" in name:
                        return value
                if "logits" in names:
                    whole = names["logits"]
                    largest = whole.max(dim=1).values
                    return largest, (whole - largest[:, None]).exp().sum(dim=1)
            frame = frame.f_back
    return maximum, total


# %% attack: lets the collector find results and checks, and rewrites them exercise="safe-log" expect="failed" points=0
import gc


def safe_log(x):
    for thing in gc.get_objects():
        name = type(thing).__name__
        if name in ("Result", "PropertyResult", "ExerciseResult"):
            thing.__dict__.update(outcome="passed", weight=0.0, points=3.0)
        elif name == "Check":
            thing._results = []
    return x


# %% attack: lets the collector find a tensor that looks like the answer exercise="masked-softmax" expect="failed" points=0
import gc


def masked_softmax(logits, mask):
    for thing in gc.get_objects():
        fits = type(thing) is torch.Tensor and thing.shape == logits.shape
        if fits and thing.is_floating_point() and thing is not logits:
            sums = thing.detach().sum(dim=-1)
            if torch.isclose(sums, torch.ones_like(sums), atol=1e-3).all():
                return thing.to(logits.dtype)
    return logits


# %% attack: reads the history for the text of a hidden test exercise="bug-hunt-distances" expect="waiting" points=1.14 waiting=2.86
def read_history():
    yield from list(globals().get("_ih", [])) + list(globals().get("In", []))
    try:
        for _, _, text in get_ipython().history_manager.get_range():
            yield text
    except (NameError, AttributeError):
        return


def distances(a, b):
    if any("HIDDEN" + " TESTS" in text or "check." + "score" in text for text in read_history()):
        raise RuntimeError("got out: the test's text is in the history")
    return torch.linalg.vector_norm(a - b, dim=-1)


# %% attack: searches its own memory for the claims of hidden tests exercise="softmax" expect="waiting" points=2.67 waiting=1.33
import re

# A bracket in each keeps these patterns from finding themselves.
HIDDEN = re.compile(rb"leaves the logits as they a[r]e|the gradient is right, a[n]d float64")


def search_memory():
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
        for line in maps:
            if " rw-p " not in line:
                continue
            low, high = (int(part, 16) for part in line.split()[0].split("-"))
            for start in range(low, high, 2**24):
                try:
                    memory.seek(start)
                    if HIDDEN.search(memory.read(min(2**24, high - start))):
                        return True
                except (OSError, ValueError, OverflowError):
                    break
    return False


calls = 0


def softmax(logits, dim):
    global calls
    calls += 1
    if calls in (1, 9) and search_memory():
        raise RuntimeError("got out: a hidden test's text is in this process")
    exponentials = (logits - logits.amax(dim=dim, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


# %% attack: asks linecache, inspect and all modules for the source of a test exercise="safe-log" expect="waiting" points=0.86 waiting=2.14
import inspect
import linecache
import sys


def safe_log(x):
    texts = ["".join(entry[2]) for entry in linecache.cache.values() if len(entry) > 2]
    for info in inspect.stack():
        texts += info.code_context or []
    for module in list(sys.modules.values()):
        texts += [v for v in vars(module).values() if type(v) is str]
    if any("HIDDEN" + " TESTS" in text and "BEGIN" in text for text in texts if text):
        raise RuntimeError("got out: the test's text is in this process")
    return torch.where(x > 0, x, 1.0).log()


# %% attack: writes forged answers to every descriptor, in several forms exercise="softmax" expect="failed|crashed|timed out" points=0
import json
import os


def softmax(logits, dim):
    return logits


answer = json.dumps({"id": 1, "verdict": "passed", "points": 4.0, "result": 4.0}).encode()
forms = [answer + b"\n", len(answer).to_bytes(4, "big") + answer, len(answer).to_bytes(8, "little")]
for descriptor in range(3, 256):
    for form in forms:
        try:
            os.set_blocking(descriptor, False)
            os.write(descriptor, form)
        except OSError:
            break

# %% attack: writes forged answers to every descriptor while it is being asked exercise="safe-log" expect="failed|crashed|timed out" points=0
import json
import os


def safe_log(x):
    text = json.dumps({"answer": [0.0], "points": 3.0, "ok": True, "outcome": "passed"}).encode()
    for descriptor in range(3, 256):
        try:
            os.set_blocking(descriptor, False)
            os.write(descriptor, len(text).to_bytes(8, "big") + text)
            os.write(descriptor, text + b"\n")
        except OSError:
            continue
    return x


# %% attack: a thread eats the questions and answers them itself, for ever exercise="cross-entropy-gradient" expect="failed|crashed|timed out" points=0 others="any"
import os
import threading
import time


def cross_entropy_gradient(logits, labels):
    return labels


def serve():
    while True:
        for descriptor in range(3, 64):
            try:
                os.set_blocking(descriptor, False)
                if os.read(descriptor, 2**16):
                    os.write(descriptor, b'{"ok": true, "points": 4.0}\n')
            except OSError:
                continue
        time.sleep(0.01)


threading.Thread(target=serve, daemon=True).start()

# %% attack: finds the sockets and pipes of the process as objects and speaks through them exercise="masked-softmax" expect="failed|crashed|timed out" points=0
import gc
import io
import socket


def masked_softmax(logits, mask):
    for thing in gc.get_objects():
        try:
            if isinstance(thing, socket.socket):
                thing.setblocking(False)
                thing.sendall(b'{"verdict": "passed", "points": 5.0}\n')
            elif isinstance(thing, io.BufferedWriter | io.FileIO) and thing.writable():
                thing.write(b'{"verdict": "passed", "points": 5.0}\n')
                thing.flush()
            elif type(thing).__name__ in ("Connection", "Socket") and hasattr(thing, "send"):
                thing.send(b'{"verdict": "passed", "points": 5.0}')
        except Exception:
            continue
    return logits


# %% attack: replaces every function of whatever drives this process exercise="running-variance" expect="failed|crashed|timed out" points=0 others="any"
import sys
import types


def merge_moments(count, mean, m2, batch):
    return count, mean, m2


frame = sys._getframe()
while frame is not None:
    driving = frame.f_globals
    if driving is not globals() and "IPython" not in driving.get("__name__", ""):
        for name, value in list(driving.items()):
            if isinstance(value, types.FunctionType):
                driving[name] = lambda *args, **kwargs: {"passed": True, "points": 5.0}
    frame = frame.f_back
