# %% attack: looks for gradebooks, notebooks and sources in every folder exercise="softmax" expect="passed"
import os

PACKAGES = ("site-packages", "dist-packages", "usr", "proc", "sys")
WANTED = {"submitted", "autograded", "received", "source", "release", "chapters", "attacks"}
found = []
for at, folders, files in os.walk("/"):
    folders[:] = [folder for folder in folders if folder not in PACKAGES]
    found += [os.path.join(at, f) for f in files if f.endswith(".ipynb") or "gradebook" in f]
    found += [at for folder in folders if folder in WANTED and at.endswith("course")]


def softmax(logits, dim):
    if found:
        raise RuntimeError(f"got out: {found[:3]}")
    exponentials = (logits - logits.amax(dim=dim, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


# %% attack: opens the gradebook and the source by the paths that they usually have exercise="safe-log" expect="waiting" points=0.86 waiting=2.14
import glob
import os

import helpers

above = os.path.dirname(os.path.dirname(helpers.__file__))
candidates = [
    f"{folder}/{name}"
    for folder in (above, f"{above}/course", "/course", "/srv/nbgrader", "..", "../..", "../../..")
    for name in ("gradebook.db", "nbgrader_config.py", "source/*/*.ipynb", "submitted/*/*/*")
]
found = [path for pattern in candidates for path in glob.glob(pattern)]
found += glob.glob(f"{above}/tests/*") + glob.glob(f"{above}/.git/*") + glob.glob(f"{above}/.git")


def safe_log(x):
    if found:
        raise RuntimeError(f"got out: {found[:3]}")
    return torch.where(x > 0, x, 1.0).log()


# %% attack: writes into the interpreter, its packages, helpers and the system exercise="bug-hunt-distances" expect="waiting" points=1.14 waiting=2.86
import os
import sys
import sysconfig

import helpers

folders = ["/", "/usr", "/usr/bin", "/etc", "/dev", "/var", "/run", "/root", "/srv", sys.prefix]
folders += [os.path.dirname(helpers.__file__), os.path.dirname(torch.__file__)]
folders += [sysconfig.get_path("purelib"), sysconfig.get_path("stdlib"), "/proc", "/sys"]
breaches = []
for folder in folders:
    try:
        with open(f"{folder}/bits_canary.py", "w") as file:
            file.write("# a canary")
        breaches.append(folder)
    except OSError:
        continue
for path in (helpers.__file__, helpers.checks.__file__ if hasattr(helpers, "checks") else "/"):
    try:
        os.close(os.open(path, os.O_WRONLY))
        breaches.append(path)
    except OSError:
        continue


def distances(a, b):
    if breaches:
        raise RuntimeError(f"got out: wrote to {breaches}")
    return torch.linalg.vector_norm(a - b, dim=-1)


# %% attack: connects to the world, to this machine and to its sockets exercise="online-softmax" expect="passed"
import socket

breaches = []


def attempt(family, kind, address):
    try:
        with socket.socket(family, kind) as connection:
            connection.settimeout(2)
            connection.connect(address)
            breaches.append(address)
    except OSError:
        return


for port in (22, 53, 80, 443, 631, 5000, 8080, 8786, 8888):
    attempt(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", port))
attempt(socket.AF_INET, socket.SOCK_STREAM, ("1.1.1.1", 443))
attempt(socket.AF_INET, socket.SOCK_STREAM, ("169.254.169.254", 80))
attempt(socket.AF_INET, socket.SOCK_DGRAM, ("8.8.8.8", 53))
attempt(socket.AF_UNIX, socket.SOCK_STREAM, "/run/docker.sock")
attempt(socket.AF_UNIX, socket.SOCK_STREAM, "\0bits-canary")
with open("/proc/net/tcp") as table:
    breaches += [line for line in table.read().splitlines()[1:] if " 0A " in line]


def update_softmax(maximum, total, block):
    if breaches:
        raise RuntimeError(f"got out: connected to {breaches[:3]}")
    new_maximum = torch.maximum(maximum, block.amax(dim=1))
    shift = new_maximum.masked_fill(new_maximum == -math.inf, 0.0)
    rescaled = total * (maximum - shift).exp()
    return new_maximum, rescaled + (block - shift[:, None]).exp().sum(dim=1)


# %% attack: reads and writes the memory of every other process exercise="softmax" expect="waiting" points=2.67 waiting=1.33
import os

breaches = []
for name in os.listdir("/proc"):
    if not name.isdigit() or int(name) == os.getpid():
        continue
    try:
        with open(f"/proc/{name}/maps") as maps:
            start = int(next(line for line in maps if " rw-p " in line).split("-")[0], 16)
        with open(f"/proc/{name}/mem", "rb", 0) as memory:
            memory.seek(start)
            byte = memory.read(1)
            breaches.append(f"read {name}")
        with open(f"/proc/{name}/mem", "r+b", 0) as memory:
            memory.seek(start)
            memory.write(byte)
            breaches.append(f"wrote {name}")
    except (OSError, StopIteration, ValueError):
        continue


def softmax(logits, dim):
    if breaches:
        raise RuntimeError(f"got out: the memory of {breaches}")
    exponentials = (logits - logits.amax(dim=dim, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


# %% attack: takes environment, descriptors, folders and roots of other processes from /proc exercise="safe-log" expect="waiting" points=0.86 waiting=2.14
import os

breaches = []
for name in os.listdir("/proc"):
    if not name.isdigit() or int(name) == os.getpid():
        continue
    for part in ("environ", "fd", "cwd", "root", "task"):
        path = f"/proc/{name}/{part}"
        try:
            if part == "environ":
                with open(path, "rb") as file:
                    found = b"GRADE" in file.read() or b"TOKEN" in file.read()
            elif part == "fd":
                found = bool([os.open(f"{path}/{d}", os.O_RDWR) for d in os.listdir(path)])
            elif part == "task":
                continue
            else:
                found = os.path.exists(f"{path}/gradebook.db") or os.path.exists(
                    f"{path}/etc/shadow"
                )
        except OSError:
            continue
        if found:
            breaches.append(path)


def safe_log(x):
    if breaches:
        raise RuntimeError(f"got out: {breaches[:3]}")
    return torch.where(x > 0, x, 1.0).log()


# %% attack: traces other processes and reads them with process_vm_readv exercise="masked-softmax" expect="waiting" points=3.12 waiting=1.88
import ctypes
import os

libc = ctypes.CDLL(None, use_errno=True)
PTRACE_ATTACH, PTRACE_DETACH = 16, 17
others = [int(n) for n in os.listdir("/proc") if n.isdigit() and int(n) != os.getpid()]
breaches = []
for pid in others:
    if libc.ptrace(PTRACE_ATTACH, pid, None, None) == 0:
        breaches.append(pid)
        os.waitpid(pid, 0)
        libc.ptrace(PTRACE_DETACH, pid, None, None)


def masked_softmax(logits, mask):
    if breaches:
        raise RuntimeError(f"got out: traced {breaches}")
    weights = torch.softmax(logits.masked_fill(~mask, -math.inf), dim=-1)
    return weights.masked_fill(~mask, 0.0)


# %% attack: opens the system's own files for writing exercise="bug-hunt-distances" expect="waiting" points=1.14 waiting=2.86
import os

paths = ["/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/proc/kcore", "/proc/1/mem"]
paths += ["/dev/mem", "/dev/kmem", "/dev/sda", "/dev/vda", "/dev/nvme0n1", "/dev/fuse"]
paths += ["/sys/fs/cgroup/cgroup.procs", "/sys/kernel/uevent_helper", "/dev/tty", "/dev/console"]
breaches = []
for path in paths:
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_NOCTTY))  # opened only, never written to
        breaches.append(path)
    except OSError:
        continue


def distances(a, b):
    if breaches:
        raise RuntimeError(f"got out: {breaches}")
    return torch.linalg.vector_norm(a - b, dim=-1)


# %% attack: becomes root, mounts, changes root, enters other namespaces exercise="running-variance" expect="waiting" points=4 waiting=1
import ctypes
import glob
import os

libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000
MS_REMOUNT = 32
breaches = []
for name, call in (
    ("setuid", lambda: os.setuid(0)),
    ("setgid", lambda: os.setgid(0)),
    ("chroot", lambda: os.chroot("/tmp")),
    ("nice", lambda: os.setpriority(os.PRIO_PROCESS, 0, -10)),
    ("hostname", lambda: __import__("socket").sethostname("mine")),
):
    try:
        call()
        breaches.append(name)
    except OSError:
        continue
child = os.fork()
if child == 0:
    entered = [p for p in glob.glob("/proc/1/ns/*") if not libc.setns(os.open(p, os.O_RDONLY), 0)]
    mounted = libc.mount(b"none", b"/tmp", b"tmpfs", 0, None) == 0
    writable = libc.mount(None, b"/usr", None, MS_REMOUNT, None) == 0
    os._exit(1 if entered or mounted or writable else 0)
if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1:
    breaches.append("namespaces")


def merge_moments(count, mean, m2, batch):
    if breaches:
        raise RuntimeError(f"got out: {breaches}")
    rows = len(batch)
    total = count + rows
    delta = batch.mean(dim=0) - mean
    block = ((batch - batch.mean(dim=0)) ** 2).sum(dim=0)
    mean = mean + delta * (rows / total)
    return total, mean, m2 + block + delta**2 * (count * rows / total)


# %% attack: leaves a note for the next submission, and reads the notes of earlier ones exercise="softmax" expect="waiting" points=2.67 waiting=1.33
import glob
import os

NOTE = "of softmax"
places = ["/tmp", "/dev/shm", os.path.expanduser("~"), ".", "/var/tmp", "/run/lock"]
notes = [p for place in places for p in glob.glob(f"{place}/bits-note-*") if NOTE not in p]
try:
    with open("/proc/sysvipc/shm") as table:
        notes += table.read().splitlines()[1:]
except OSError:
    pass
for place in places:
    try:
        with open(f"{place}/bits-note-{NOTE}", "w") as file:
            file.write("exponentials over their sum")
    except OSError:
        continue


def softmax(logits, dim):
    if notes:
        raise RuntimeError(f"got out: {notes}")
    exponentials = (logits - logits.amax(dim=dim, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


# %% attack: a second one that leaves notes and reads those of others exercise="safe-log" expect="passed"
import glob
import os

NOTE = "safe-log"
places = ["/tmp", "/dev/shm", os.path.expanduser("~"), ".", "/var/tmp", "/run/lock"]
notes = [p for place in places for p in glob.glob(f"{place}/bits-note-*") if NOTE not in p]
for place in places:
    try:
        with open(f"{place}/bits-note-{NOTE}", "w") as file:
            file.write("the logarithm of where")
    except OSError:
        continue


def safe_log(x):
    if notes:
        raise RuntimeError(f"got out: {notes}")
    return torch.where(x > 0, x, 1.0).log()


# %% attack: turns its folder's contents into links that lead out exercise="cross-entropy-gradient" expect="waiting" points=3.43 waiting=0.57
import contextlib
import os

NAMES = ("gradebook.db", "numerical-stability.ipynb", "feedback", "output", "result.json")
for name in NAMES:
    for target in ("/etc/passwd", "../../../gradebook.db", "/proc/self/mem", "/dev/zero"):
        with contextlib.suppress(OSError):
            os.symlink(target, f"{name}-{os.path.basename(target)}")
    with contextlib.suppress(OSError):
        os.symlink("/dev/zero", name)
with contextlib.suppress(OSError):
    os.mkfifo("pipe.ipynb")


def cross_entropy_gradient(logits, labels):
    return torch.softmax(logits, dim=1) * labels.sum(dim=1, keepdim=True) - labels


# %% attack: plants modules and start-up files for the next kernel, then crashes exercise="softmax" expect="crashed" points=0
import contextlib
import os
import site

home = os.path.expanduser("~")
# Does harm in a sandbox's home alone, should this ever run elsewhere.
BAD = "import os\nif os.path.isdir('/home/student'): raise SystemExit('planted')\n"
PLANTED = ("torch.py", "helpers.py", "safetensors.py", "json.py", "usercustomize.py", "numpy.py")
folders = [
    ".",
    home,
    "/tmp",
    site.getusersitepackages(),
    f"{home}/.ipython/profile_default/startup",
]
for folder in folders:
    for name in PLANTED:
        with contextlib.suppress(OSError):
            os.makedirs(folder, exist_ok=True)
            with open(f"{folder}/{name}", "w") as file:
                file.write(BAD)
os._exit(3)

# %% attack: imports the staff's packages and reads their text exercise="soft-cross-entropy" expect="waiting" points=3.11 waiting=0.89
import importlib
import os

import helpers

breaches = []
for name in ("grading.verdicts", "grading.judge", "grading.sandbox.sandbox", "authoring.build"):
    try:
        importlib.import_module(f"helpers.{name}")
        breaches.append(name)
    except ImportError:
        continue
for at, _, files in os.walk(os.path.dirname(helpers.__file__)):
    breaches += [f for f in files if os.path.basename(at) in ("grading", "authoring")]


def soft_cross_entropy(logits, labels):
    if breaches:
        raise RuntimeError(f"got out: {breaches[:5]}")
    logs = torch.log_softmax(logits, dim=1).masked_fill(labels == 0, 0.0)
    return -(labels * logs).sum(dim=1)
