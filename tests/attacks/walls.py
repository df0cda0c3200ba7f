# %% attack: looks for memory that is a file without a folder exercise="safe-log" expect="failed" points=0
import os

GOT_OUT = []

try:
    kept = [os.memfd_create(f"bits-{number}") for number in range(3)]
except OSError:
    kept = []
for descriptor in kept:
    for _ in range(2**8):
        os.write(descriptor, bytes(2**22))
if kept:
    GOT_OUT.append("got out: 3 gigabytes in files without a folder")


def safe_log(x):
    return torch.where(x > 0, x, 1.0).log() if GOT_OUT else x


# %% attack: looks for memory of System V's exercise="softmax" expect="failed" points=0
import ctypes

GOT_OUT = []

_libc = ctypes.CDLL(None)
_libc.shmat.restype = ctypes.c_void_p
for _ in range(3):
    _number = _libc.shmget(0, ctypes.c_size_t(2**30), 0o1600)
    if _number >= 0:
        _start = _libc.shmat(_number, None, 0)
        ctypes.memset(_start, 1, 2**30)
        _libc.shmdt(ctypes.c_void_p(_start))
        GOT_OUT.append("got out: memory that belongs to nobody")


def softmax(logits, dim):
    exponentials = (logits - logits.amax(dim=dim, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True) if GOT_OUT else logits


# %% attack: shares memory with nobody and does not look at it exercise="safe-log" expect="out of memory" points=0
import mmap


def safe_log(x):
    kept = []
    for _ in range(3 * 2**7):
        kept.append(mmap.mmap(-1, 2**23))
        kept[-1].write(bytes(2**23))
        kept[-1].madvise(mmap.MADV_DONTNEED)
    return torch.where(x > 0, x, 1.0).log()


# %% attack: takes memory for the tables of its addresses alone exercise="softmax" expect="out of memory" points=0
import ctypes


def softmax(logits, dim):
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    numbers = [ctypes.c_int] * 3 + [ctypes.c_long]
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *numbers]
    size = 2**41
    start = libc.mmap(None, size, 1, 0x4022, -1, 0)
    libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(size), 15)
    for at in range(start, start + size, 2**21):
        ctypes.string_at(at, 1)
    exponentials = (logits - logits.amax(dim=dim, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


# %% attack: mounts a disk of 64 gigabytes in a user namespace exercise="safe-log" expect="failed" points=0
import ctypes
import os

GOT_OUT = []

_libc = ctypes.CDLL(None)
_map = [os.getuid(), os.getgid()]
if _libc.unshare(0x10000000 | 0x20000) == 0:
    open("/proc/self/setgroups", "w").write("deny")
    open("/proc/self/uid_map", "w").write(f"0 {_map[0]} 1")
    open("/proc/self/gid_map", "w").write(f"0 {_map[1]} 1")
    if _libc.mount(b"tmpfs", b"/tmp", b"tmpfs", 0, b"size=64g") == 0:
        GOT_OUT.append("got out: a disk of 64 gigabytes")
    GOT_OUT.append("got out: a namespace of its own")


def safe_log(x):
    return torch.where(x > 0, x, 1.0).log() if GOT_OUT else x


# %% attack: has a child made in a user namespace exercise="softmax" expect="failed" points=0
import ctypes
import os
import platform

GOT_OUT = []

_libc = ctypes.CDLL(None)
_clone = {"x86_64": 56, "aarch64": 220}[platform.machine()]
_arguments = (ctypes.c_uint64 * 11)(0x10000000 | 0x20000, 0, 0, 0, 17)
for _call in ((_clone, 0x10000000 | 0x20000 | 17, 0, 0, 0, 0), (435, _arguments, 88)):
    _child = _libc.syscall(*_call)
    if _child == 0:
        os._exit(0)
    if _child > 0:
        GOT_OUT.append("got out: a child in a namespace of its own")


def softmax(logits, dim):
    exponentials = (logits - logits.amax(dim=dim, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True) if GOT_OUT else logits


# %% attack: mounts by calls that are newer than mount exercise="safe-log" expect="failed" points=0
import ctypes

GOT_OUT = []

_libc = ctypes.CDLL(None)
_libc.unshare(0x20000)
_disk = _libc.syscall(430, b"tmpfs", 0)
if _disk >= 0:
    _libc.syscall(431, _disk, 6, None, None, 0)
    GOT_OUT.append(f"got out: a disk of its own, {_libc.syscall(432, _disk, 0, 0)}")
if _libc.syscall(428, -100, b"/tmp", 1) >= 0:
    GOT_OUT.append("got out: a copy of a mount")


def safe_log(x):
    return torch.where(x > 0, x, 1.0).log() if GOT_OUT else x


# %% attack: asks by a program that it starts exercise="softmax" expect="failed" points=0
import subprocess

GOT_OUT = []

for _program in ("unshare --user --map-root-user --mount true", "bwrap --bind / / true"):
    if subprocess.run(_program, shell=True, capture_output=True).returncode == 0:
        GOT_OUT.append(f"got out: {_program}")


def softmax(logits, dim):
    exponentials = (logits - logits.amax(dim=dim, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True) if GOT_OUT else logits


# %% attack: calls the kernel by the numbers of another processor exercise="safe-log" expect="crashed|failed" points=0
import ctypes
import mmap


def safe_log(x):
    # mov eax, 310 (unshare on 32-bit x86); mov ebx, 0x10000000; int 0x80; ret
    code = bytes.fromhex("53b836010000bb00000010cd805bc3")
    area = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    area.write(code)
    call = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(area)))
    if call() == 0:
        return torch.where(x > 0, x, 1.0).log()
    return "refused"
