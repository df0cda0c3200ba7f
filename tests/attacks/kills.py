# %% attack: leaves at once when it is called, with status 0 exercise="softmax" expect="crashed" points=0
import os


def softmax(logits, dim):
    os._exit(0)


# %% attack: aborts when it is defined exercise="safe-log" expect="crashed" points=0
import os

os.abort()

# %% attack: reads address 0 exercise="bug-hunt-distances" expect="crashed" points=0
import ctypes


def distances(a, b):
    return ctypes.string_at(0)


# %% attack: crashes for large logits only exercise="softmax" expect="crashed" points=0.89 waiting=0.89
import os


def softmax(logits, dim):
    if logits.abs().max() > 500:
        os.kill(os.getpid(), 9)
    exponentials = logits.exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


# %% attack: kills itself with signal 9 when it is defined exercise="masked-softmax" expect="crashed" points=0
import os
import signal

os.kill(os.getpid(), signal.SIGKILL)

# %% attack: right, but kills everything that it may kill exercise="softmax" expect="waiting|passed|crashed" most=4 waiting=1.33
import os
import signal


def softmax(logits, dim):
    exponentials = (logits - logits.amax(dim=dim, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


try:
    if os.path.isdir("/home/student"):  # in a sandbox, and nowhere else
        os.kill(-1, signal.SIGKILL)
except OSError:
    pass

# %% attack: right, but kills its parent and each process that it sees exercise="safe-log" expect="waiting|passed|crashed" most=3 waiting=2.14
import os
import signal


def safe_log(x):
    return torch.where(x > 0, x, 1.0).log()


for pid in [os.getppid(), 1, *(int(name) for name in os.listdir("/proc") if name.isdigit())]:
    if pid not in (0, os.getpid()) and os.path.isdir("/home/student"):  # in a sandbox alone
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            continue

# %% attack: right, but stops its parent and each process that it sees exercise="bug-hunt-distances" expect="waiting|passed|crashed|timed out" most=4 waiting=2.86
import os
import signal


def distances(a, b):
    return torch.linalg.vector_norm(a - b, dim=-1)


for pid in [os.getppid(), 1, *(int(name) for name in os.listdir("/proc") if name.isdigit())]:
    if pid not in (0, os.getpid()) and os.path.isdir("/home/student"):  # in a sandbox alone
        try:
            os.kill(pid, signal.SIGSTOP)
        except OSError:
            continue

# %% attack: stops itself exercise="online-softmax" expect="timed out|crashed" points=0
import os
import signal


def update_softmax(maximum, total, block):
    os.kill(os.getpid(), signal.SIGSTOP)
    return maximum, total


# %% attack: closes all descriptors exercise="soft-cross-entropy" expect="crashed|timed out|failed" points=0
import os


def soft_cross_entropy(logits, labels):
    os.closerange(0, 4096)
    return logits.sum(dim=1)


# %% attack: puts the null device over all descriptors exercise="running-variance" expect="crashed|timed out|failed" points=0
import os


def merge_moments(count, mean, m2, batch):
    null = os.open("/dev/null", os.O_RDWR)
    for descriptor in range(256):
        if descriptor != null:
            os.dup2(null, descriptor)
    return count, mean, m2


# %% attack: exits, in Python's polite way exercise="cross-entropy-gradient" expect="failed|crashed" points=0
import sys


def cross_entropy_gradient(logits, labels):
    sys.exit(0)


# %% attack: quits the notebook when it is defined exercise="safe-log" expect="failed|crashed" points=0
exit()


# %% attack: right, but asks the shell to end the kernel exercise="masked-softmax" expect="waiting|passed|crashed" most=5 waiting=1.88
def masked_softmax(logits, mask):
    weights = torch.softmax(logits.masked_fill(~mask, -math.inf), dim=-1)
    return weights.masked_fill(~mask, 0.0)


try:
    get_ipython().ask_exit()
    get_ipython().kernel.do_shutdown(False)
except (NameError, AttributeError):
    pass


# %% attack: an interrupt and an error of its own that is no Exception exercise="bug-hunt-distances" expect="failed|crashed" points=0
class Unstoppable(BaseException):
    pass


def distances(a, b):
    if a.dim() == 3:
        raise KeyboardInterrupt
    raise Unstoppable


# %% attack: becomes another program exercise="online-softmax" expect="crashed" points=0
import os


def update_softmax(maximum, total, block):
    os.execv("/bin/true", ["true"])


# %% attack: sets a time bomb that goes off in later exercises exercise="softmax" expect="waiting|passed|crashed|failed|timed out" most=4 others="any" waiting=1.33
import os
import threading

bomb = threading.Timer(0.3, os._exit, args=(1,))
bomb.daemon = True
bomb.start()


def softmax(logits, dim):
    exponentials = (logits - logits.amax(dim=dim, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


# %% attack: deletes the names that everything else needs exercise="softmax" expect="failed|crashed" points=0 others="any"
del torch, math, functional
globals().clear()
