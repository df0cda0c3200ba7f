# %% attack: takes all memory when it is defined exercise="softmax" expect="out of memory" points=0
hoard = [bytes(1)]
while sum(map(len, hoard)) < 2**37:
    hoard.append(b"x" * 2**26)


def softmax(logits, dim):
    return logits


# %% attack: takes all memory when it is called exercise="safe-log" expect="out of memory" points=0
def safe_log(x):
    hoard = [torch.ones(2**24)]
    while len(hoard) < 2**11:
        hoard.append(torch.ones(2**24))
    return torch.where(x > 0, x, 1.0).log()


# %% attack: shares the memory out over many children exercise="online-softmax" expect="out of memory|crashed" points=0
import os
import time


def update_softmax(maximum, total, block):
    children = []
    for _ in range(24):
        child = os.fork()
        if child == 0:
            kept = b"x" * 2**29
            time.sleep(600 + len(kept) * 0)
            os._exit(0)
        children.append(child)
    os.waitpid(children[0], 0)
    raise MemoryError


# %% attack: asks for a tensor larger than any machine exercise="softmax" expect="failed|out of memory" points=0
def softmax(logits, dim):
    return torch.zeros(2**50)


# %% attack: returns a tensor of two gigabytes exercise="safe-log" expect="failed|out of memory|crashed|timed out" points=0
def safe_log(x):
    return torch.zeros(2**29)


# %% attack: returns a tensor that is small in memory and endless when it is copied exercise="softmax" expect="failed|out of memory|crashed" points=0
def softmax(logits, dim):
    return torch.zeros(1).expand(2**45)


# %% attack: returns an int of ten million digits exercise="running-variance" expect="failed|timed out" points=0
def merge_moments(count, mean, m2, batch):
    return 1 << 33_000_000, mean, m2


# %% attack: returns a text of 600 megabytes exercise="safe-log" expect="failed|out of memory|crashed|timed out" points=0
def safe_log(x):
    return "4.0 " * 150_000_000


# %% attack: returns a list that holds itself exercise="online-softmax" expect="failed|crashed" points=0
def update_softmax(maximum, total, block):
    answer = [maximum, total]
    answer.append(answer)
    return answer


# %% attack: returns lists nested a million deep exercise="masked-softmax" expect="failed|crashed" points=0
def masked_softmax(logits, mask):
    answer = []
    for _ in range(1_000_000):
        answer = [answer]
    return answer


# %% attack: returns a list of ten million numbers exercise="soft-cross-entropy" expect="failed|out of memory|crashed|timed out" points=0
def soft_cross_entropy(logits, labels):
    return [0.5] * 10_000_000


# %% attack: returns a hundred thousand small tensors exercise="cross-entropy-gradient" expect="failed|crashed|timed out" points=0
def cross_entropy_gradient(logits, labels):
    return [torch.zeros(1) for _ in range(100_000)]


# %% attack: returns a generator without an end exercise="bug-hunt-distances" expect="failed" points=0
def distances(a, b):
    while True:
        yield 0.0


# %% attack: returns an object whose repr never ends exercise="softmax" expect="failed|timed out" points=0
class Endless:
    def __repr__(self):
        while True:
            pass

    __str__ = __format__ = __repr__


def softmax(logits, dim):
    return Endless()


# %% attack: raises an error whose message never ends exercise="safe-log" expect="failed|timed out" points=0
class EndlessError(Exception):
    def __str__(self):
        while True:
            pass

    __repr__ = __str__


def safe_log(x):
    raise EndlessError


# %% attack: raises an error with a message of 200 megabytes exercise="softmax" expect="failed|out of memory" points=0
def softmax(logits, dim):
    raise ValueError("passed " * 30_000_000)


# %% attack: loops when called, and ignores every signal exercise="bug-hunt-distances" expect="timed out" points=0
import signal


def distances(a, b):
    for number in (signal.SIGALRM, signal.SIGINT, signal.SIGTERM, signal.SIGXCPU, signal.SIGVTALRM):
        signal.signal(number, signal.SIG_IGN)
    while True:
        pass


# %% attack: loops and catches whatever is thrown at it exercise="safe-log" expect="timed out" points=0
def safe_log(x):
    while True:
        try:
            while True:
                pass
        except BaseException:
            continue


# %% attack: loops inside C, where no signal is looked at exercise="softmax" expect="timed out" points=0
import itertools


def softmax(logits, dim):
    return sum(itertools.repeat(0))


# %% attack: loops when it is defined, with signals blocked exercise="masked-softmax" expect="timed out" points=0
import itertools
import signal

signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.Signals))
all(itertools.repeat(1))

# %% attack: sleeps when it is defined exercise="online-softmax" expect="timed out" points=0
import time

time.sleep(10**6)

# %% attack: sleeps when it is called, again and again exercise="running-variance" expect="timed out" points=0
import time


def merge_moments(count, mean, m2, batch):
    while True:
        try:
            time.sleep(10**6)
        except BaseException:
            continue


# %% attack: forks as often as it can exercise="softmax" expect="failed|crashed|timed out" points=0
import os
import time


def softmax(logits, dim):
    while True:
        if os.fork() == 0:
            time.sleep(600)
            os._exit(0)


# %% attack: forks when it is defined, and so do its children exercise="safe-log" expect="failed|crashed|timed out|out of memory" points=0 others="any"
import os
import time

while True:
    try:
        os.fork()
    except OSError:
        time.sleep(0.2)

# %% attack: 110 busy children in sessions of their own, when it is called exercise="softmax" expect="timed out" points=0
import os


def softmax(logits, dim):
    for _ in range(110):
        if os.fork() == 0:
            os.setsid()
            break
    while True:
        pass


# %% attack: 110 busy children in sessions of their own, left behind when it is defined exercise="softmax" expect="timed out|partly|waiting|passed" most=4 others="any"
import os

for _ in range(110):
    if os.fork() == 0:
        os.setsid()
        while True:
            pass


def softmax(logits, dim):
    powers = (logits - logits.amax(dim=dim, keepdim=True)).exp()
    return powers / powers.sum(dim=dim, keepdim=True)


# %% attack: starts threads until no more can be had exercise="bug-hunt-distances" expect="failed|crashed|timed out" points=0
import threading
import time


def distances(a, b):
    while True:
        threading.Thread(target=time.sleep, args=(600,), daemon=True).start()


# %% attack: opens files until no more can be had, and keeps them exercise="masked-softmax" expect="failed|crashed" points=0
kept = []


def masked_softmax(logits, mask):
    while True:
        kept.append(open("/dev/null"))


# %% attack: right, but fills every folder that it can write to exercise="soft-cross-entropy" expect="passed|out of memory" most=4
import contextlib
import os


def fill(folder):
    with contextlib.suppress(OSError), open(f"{folder}/filled", "wb", 0) as file:
        for _ in range(2**10):
            if file.write(bytes(2**22)) == 0:
                return
        raise RuntimeError(f"got out: 4 gigabytes went into {folder}")


for folder in ("/tmp", "/dev/shm", os.path.expanduser("~"), "."):
    fill(folder)
    with contextlib.suppress(OSError):
        os.unlink(f"{folder}/filled")


def soft_cross_entropy(logits, labels):
    logs = torch.log_softmax(logits, dim=1).masked_fill(labels == 0, 0.0)
    return -(labels * logs).sum(dim=1)


# %% attack: recurses without an end exercise="safe-log" expect="failed" points=0
def safe_log(x):
    return safe_log(x)


# %% attack: recurses through C until the stack is gone exercise="softmax" expect="failed|crashed" points=0
import sys


class Deep:
    def __getattr__(self, name):
        return getattr(self, name + "x"[:0])

    def __repr__(self):
        return repr([self])


def softmax(logits, dim):
    sys.setrecursionlimit(2**30)
    return repr(Deep())


# %% attack: right, but prints 200 megabytes when it is defined exercise="online-softmax" expect="passed"
import sys

for _ in range(200):
    sys.stdout.write("4.0 points " * 95_000)


def update_softmax(maximum, total, block):
    new_maximum = torch.maximum(maximum, block.amax(dim=1))
    shift = new_maximum.masked_fill(new_maximum == -math.inf, 0.0)
    rescaled = total * (maximum - shift).exp()
    return new_maximum, rescaled + (block - shift[:, None]).exp().sum(dim=1)


# %% attack: right, but writes without an end to descriptors 1 and 2, and to stderr exercise="safe-log" expect="passed"
import os
import sys


def safe_log(x):
    for descriptor in (1, 2):
        for _ in range(60):
            os.write(descriptor, b"x" * 2**20)
    print("y" * 2**24, file=sys.stderr)
    return torch.where(x > 0, x, 1.0).log()


# %% attack: right, but prints two million lines exercise="softmax" expect="passed"
for number in range(2_000_000):
    print(number)


def softmax(logits, dim):
    exponentials = (logits - logits.amax(dim=dim, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


# %% attack: right, but displays a hundred megabytes exercise="bug-hunt-distances" expect="passed"
def distances(a, b):
    return torch.linalg.vector_norm(a - b, dim=-1)


try:
    from IPython.display import HTML, display

    for _ in range(10):
        display(HTML("<b>4.0</b>" * 1_000_000))
except ImportError:
    pass
"z" * 50_000_000


# %% attack: returns a tensor of 60,000 dimensions exercise="softmax" expect="failed" points=0
def softmax(logits, dim):
    return torch.ones([1] * 60_000)


# %% attack: returns a list of tensors of 65 dimensions each exercise="safe-log" expect="failed" points=0
def safe_log(x):
    return [torch.ones([1] * 65) for _ in range(9)]


# %% attack: returns a view of 500 dimensions with no elements exercise="softmax" expect="failed" points=0
def softmax(logits, dim):
    return torch.empty([2] * 20 + [0] * 480)


# %% attack: returns a dict of integers with one and the same hash exercise="safe-log" expect="failed|timed out" points=0
def safe_log(x):
    return {i * (2**61 - 1): 0.5 for i in range(6_000)}


# %% attack: returns many dicts of integers with one and the same hash exercise="softmax" expect="failed|timed out" points=0
def softmax(logits, dim):
    keys = [i * (2**61 - 1) for i in range(300)]
    return [dict.fromkeys(keys, 0.5) for _ in range(300)]


# %% attack: returns dicts whose keys meet in few places of a table exercise="safe-log" expect="failed|timed out" points=0
def safe_log(x):
    return {i << 40: 0.5 for i in range(100_000)}


# %% attack: returns one list a thousand million times exercise="softmax" expect="failed|timed out" points=0
def softmax(logits, dim):
    answer = [0.5]
    for _ in range(9):
        answer = [answer] * 10
    return answer
