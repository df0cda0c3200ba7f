# %% attack: right, but leaves a daemon behind that has its own session exercise="softmax" expect="waiting" points=2.67 waiting=1.33
import os
import subprocess
import sys

SLEEPER = "import time; time.sleep(3600)  # bits-survivor"
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execv(sys.executable, [sys.executable, "-S", "-c", SLEEPER])
    os._exit(0)
subprocess.Popen([sys.executable, "-S", "-c", SLEEPER], start_new_session=True)


def softmax(logits, dim):
    exponentials = (logits - logits.amax(dim=dim, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


# %% attack: right, but each call leaves a child that ignores all signals exercise="safe-log" expect="waiting" points=0.86 waiting=2.14
import signal
import subprocess
import sys

DEAF = """
import signal, time
for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(number, signal.SIG_IGN)
time.sleep(3600)  # bits-survivor
"""


def safe_log(x):
    subprocess.Popen([sys.executable, "-S", "-c", DEAF], start_new_session=True, close_fds=False)
    return torch.where(x > 0, x, 1.0).log()


# %% attack: crashes, and a child holds its descriptors open exercise="bug-hunt-distances" expect="crashed|timed out" points=0
import os
import time


def distances(a, b):
    if os.fork() == 0:
        os.setsid()
        time.sleep(3600)
    os._exit(0)


# %% attack: hands the conversation to a child and leaves exercise="masked-softmax" expect="failed|crashed|timed out" most=5
import os


def masked_softmax(logits, mask):
    return logits


if os.fork() != 0:
    os._exit(0)

# %% attack: right, but a thread that is no daemon never ends exercise="online-softmax" expect="passed"
import threading
import time

threading.Thread(target=time.sleep, args=(10**6,), daemon=False).start()


def update_softmax(maximum, total, block):
    new_maximum = torch.maximum(maximum, block.amax(dim=1))
    shift = new_maximum.masked_fill(new_maximum == -math.inf, 0.0)
    rescaled = total * (maximum - shift).exp()
    return new_maximum, rescaled + (block - shift[:, None]).exp().sum(dim=1)


# %% attack: right, but its exit handlers wait for ever and deny every signal exercise="soft-cross-entropy" expect="waiting" points=3.11 waiting=0.89
import atexit
import signal
import time

atexit.register(time.sleep, 10**6)
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
    signal.signal(number, signal.SIG_IGN)


def soft_cross_entropy(logits, labels):
    logs = torch.log_softmax(logits, dim=1).masked_fill(labels == 0, 0.0)
    return -(labels * logs).sum(dim=1)


# %% attack: a child goes on answering in its place exercise="running-variance" expect="failed|crashed|timed out" points=0 others="any"
import os
import time


def merge_moments(count, mean, m2, batch):
    return count, mean, m2


if os.fork() == 0:
    os.setsid()
    while True:
        for descriptor in range(3, 64):
            try:
                os.set_blocking(descriptor, False)
                os.write(descriptor, b'{"ok": true, "points": 5.0, "verdict": "passed"}\n')
            except OSError:
                continue
        time.sleep(0.05)

# %% attack: right, but a thread burns the processor all the while exercise="cross-entropy-gradient" expect="waiting" points=3.43 waiting=0.57 others="any"
import threading


def burn():
    while True:
        sum(range(10_000))


threading.Thread(target=burn, daemon=True).start()


def cross_entropy_gradient(logits, labels):
    return torch.softmax(logits, dim=1) * labels.sum(dim=1, keepdim=True) - labels


# %% attack: right, but becomes the reaper of its children and denies to die with its parent exercise="safe-log" expect="waiting" points=0.86 waiting=2.14
import ctypes
import subprocess
import sys

libc = ctypes.CDLL(None)
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER, PR_SET_NAME = 1, 36, 15
libc.prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0)
libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
libc.prctl(PR_SET_NAME, b"kworker/0:1", 0, 0, 0)
CHILD = "import os, time; os.setpgid(0, 0); time.sleep(3600)  # bits-survivor"
subprocess.Popen([sys.executable, "-S", "-c", CHILD])


def safe_log(x):
    return torch.where(x > 0, x, 1.0).log()
