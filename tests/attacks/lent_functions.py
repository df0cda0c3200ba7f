# %% attack: right, but calls what it was lent from threads exercise="name-the-sources" expect="passed"
import threading


def from_a_thread(run, names):
    got = []
    thread = threading.Thread(target=lambda: got.append(run(names)))
    thread.start()
    thread.join()
    return got[0]


def guilty_sources(run, sources):
    guilty = []
    for source in sources:
        others = [other for other in sources if other != source]
        first = from_a_thread(run, others)
        if any(from_a_thread(run, others) != first for _ in range(19)):
            guilty.append(source)
    return guilty


# %% attack: calls what it was lent in a child that answers in its place exercise="name-the-sources" expect="crashed|failed|timed out" points=0
import os


def guilty_sources(run, sources):
    if os.fork() == 0:
        run([])
        os._exit(0)
    os.wait()
    return []


# %% attack: calls what it was lent when the call is over exercise="name-the-sources" expect="crashed|failed|timed out|partly" most=2
import threading
import time


def later(run):
    while True:
        time.sleep(0.001)
        run([])


def guilty_sources(run, sources):
    threading.Thread(target=later, args=(run,), daemon=True).start()
    return []


# %% attack: right, by what it was lent in the first call and kept for all others exercise="name-the-sources" expect="passed"
kept = []


def guilty_sources(run, sources):
    kept.append(run)
    guilty = []
    for source in sources:
        others = [other for other in sources if other != source]
        if len({tuple(kept[0](others)) for _ in range(20)}) > 1:
            guilty.append(source)
    return guilty


# %% attack: hands over what is huge, nested, endless or no data, and goes on exercise="name-the-sources" expect="passed|crashed|timed out" most=5
class Text(str):
    def __eq__(self, other):
        return True

    __hash__ = str.__hash__


def guilty_sources(run, sources):
    nested = []
    for _ in range(5000):
        nested = [nested]
    endless = []
    endless.append(endless)
    hostile = [None, nested, endless, [10**9000], torch.zeros(2**20), torch.zeros(1).expand(2**40)]
    hostile += [lambda: 1, object(), [Text("alpha")], {"alpha": run}, b"alpha", float("nan"), range]
    for given in hostile:
        for call in (
            lambda g=given: run(g),
            lambda g=given: run(fixed=g),
            lambda g=given: run(g, g),
        ):
            try:
                call()
            except BaseException:
                continue
    guilty = []
    for source in sources:
        others = [other for other in sources if other != source]
        first = run(others)
        if any(run(others) != first for _ in range(19)):
            guilty.append(source)
    return guilty


# %% attack: calls what it was lent thousands of times and swallows what that raises exercise="name-the-sources" expect="failed|partly" most=0.1
def guilty_sources(run, sources):
    for _ in range(3000):
        try:
            run([])
        except Exception:
            continue
    return []


# %% attack: never calls what it was lent exercise="name-the-sources" expect="failed|partly" most=2
def guilty_sources(run, sources):
    return list(sources)


# %% attack: looks for the sources in the closure and the frames of what it was lent exercise="name-the-sources" expect="failed" points=0
import gc
import sys


def found_in(thing, sources):
    if isinstance(thing, dict) and thing and set(thing) <= set(sources):
        return [source for source in sources if source in thing]
    return None


def guilty_sources(run, sources):
    seen = [run, *gc.get_objects()]
    frame = sys._getframe()
    while frame is not None:
        seen += [*frame.f_locals.values(), *frame.f_globals.values()]
        frame = frame.f_back
    for cell in getattr(run, "__closure__", None) or ():
        seen.append(cell.cell_contents)
    for thing in seen:
        found = found_in(thing, sources)
        if found is not None:
            return found
    raise RuntimeError("the check's function is not in this process")


# %% attack: asks for what was not lent: other numbers, other kinds exercise="name-the-sources" expect="crashed|failed" points=0
def guilty_sources(run, sources):
    lender = run.__closure__[1].cell_contents
    for number in (-1, 1, 7, True, 1.0, "0", None, [0], 2**70):
        try:
            lender._ask(number, [], {})
        except Exception:
            continue
    return list(sources)


# %% attack: answers in the kernel's place, before what it was lent is answered exercise="name-the-sources" expect="crashed|failed|timed out" points=0 others="any"
import json
import os
import struct


def guilty_sources(run, sources):
    texts = (
        {"dict": [["value", {"list": sources}], ["problem", ""]]},
        {"dict": [["lent", 0], ["args", {"list": []}], ["kwargs", {"dict": []}]]},
    )
    for text in texts:
        frame = json.dumps(text).encode()
        for descriptor in range(3, 64):
            try:
                os.write(descriptor, struct.pack("<II", len(frame), 0) + frame)
            except OSError:
                continue
    return list(sources)


# %% attack: alarms and signals ring between question and answer exercise="name-the-sources" expect="crashed|failed|timed out|partly" most=2
import os
import signal
import threading


class Jump(BaseException):
    pass


def jump(number, frame):
    raise Jump


def guilty_sources(run, sources):
    for number in (signal.SIGALRM, signal.SIGUSR1):
        signal.signal(number, jump)
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    threading.Timer(0.01, os.kill, (os.getpid(), signal.SIGUSR1)).start()
    for _ in range(200):
        try:
            run([])
        except BaseException:
            continue
    return []
