# %% attack: keeps all blocks in files, for the process that comes after exercise="online-softmax" expect="partly" points=3.75
import glob
import os

PLACES = ("/tmp", "/dev/shm", os.path.expanduser("~"), ".", "/var/tmp", "/run/lock")


def update_softmax(maximum, total, block):
    blocks = [torch.load(path, weights_only=True) for place in PLACES for path in _kept(place)][:1]
    if (total == 0).all() and (maximum == -math.inf).all():
        blocks = []
    whole = torch.cat([*blocks, block], dim=1)
    for place in PLACES:
        try:
            torch.save(whole, f"{place}/blocks.kept")
        except (OSError, RuntimeError):
            continue
    largest = whole.amax(dim=1)
    shift = largest.masked_fill(largest == -math.inf, 0.0)
    return largest, (whole - shift[:, None]).exp().sum(dim=1)


def _kept(place):
    return glob.glob(f"{place}/blocks.kept")


# %% attack: keeps all blocks in shared memory that outlives its process exercise="online-softmax" expect="partly|crashed" most=3.75
import ctypes

libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
SIZE = 2**16


def memory():
    number = libc.shmget(0x5EED, SIZE, 0o1600)
    place = libc.shmat(number, None, 0)
    return (ctypes.c_char * SIZE).from_address(place)


def update_softmax(maximum, total, block):
    import io

    kept = memory()
    length = int.from_bytes(kept[:4], "little")
    is_first = bool((total == 0).all() and (maximum == -math.inf).all())
    blocks = []
    if length and not is_first:
        blocks = [torch.load(io.BytesIO(kept[4 : 4 + length]), weights_only=True)]
    whole = torch.cat([*blocks, block], dim=1)
    file = io.BytesIO()
    torch.save(whole, file)
    content = file.getvalue()
    kept[: 4 + len(content)] = len(content).to_bytes(4, "little") + content
    largest = whole.amax(dim=1)
    shift = largest.masked_fill(largest == -math.inf, 0.0)
    return largest, (whole - shift[:, None]).exp().sum(dim=1)


# %% attack: keeps all blocks in a child with a socket, for the process that comes after exercise="online-softmax" expect="partly|crashed|failed|waiting" most=3.75 waiting=3.75
import io
import os
import socket

ADDRESS = "\0bits-smuggler"


def keeper():
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ear:
        ear.bind(ADDRESS)
        kept = b""
        while True:
            said, sender = ear.recvfrom(2**18)
            if said:
                kept = said
            elif sender:
                ear.sendto(kept, sender)


def update_softmax(maximum, total, block):
    is_first = bool((total == 0).all() and (maximum == -math.inf).all())
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as mouth:
        mouth.bind(f"\0bits-mouth-{os.getpid()}-{torch.rand(()).item()}")
        mouth.settimeout(1.0)
        blocks = []
        if not is_first:
            try:
                mouth.sendto(b"", ADDRESS)
                blocks = [torch.load(io.BytesIO(mouth.recv(2**18)), weights_only=True)]
            except OSError:
                blocks = []
        whole = torch.cat([*blocks, block], dim=1)
        file = io.BytesIO()
        torch.save(whole, file)
        try:
            mouth.sendto(file.getvalue(), ADDRESS)
        except OSError:
            pass
    largest = whole.amax(dim=1)
    shift = largest.masked_fill(largest == -math.inf, 0.0)
    return largest, (whole - shift[:, None]).exp().sum(dim=1)


if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        try:
            keeper()
        except OSError:
            os._exit(0)
    os._exit(0)


# %% attack: keeps all blocks in its module, its environment and the keys of its user exercise="online-softmax" expect="partly" points=3.75
import base64
import ctypes
import io
import os

libc = ctypes.CDLL(None, use_errno=True)
ADD_KEY, REQUEST_KEY, KEYCTL, USER_KEYRING, READ = 248, 249, 250, -4, 11


def kept_key():
    number = libc.syscall(REQUEST_KEY, b"user", b"bits-blocks", None, USER_KEYRING)
    buffer = ctypes.create_string_buffer(2**15)
    length = libc.syscall(KEYCTL, READ, number, buffer, len(buffer))
    return buffer.raw[:length] if length > 0 else b""


def update_softmax(maximum, total, block):
    is_first = bool((total == 0).all() and (maximum == -math.inf).all())
    content = base64.b64decode(os.environ.get("BITS_BLOCKS", "")) or kept_key()
    blocks = []
    if content and not is_first:
        blocks = [torch.load(io.BytesIO(content), weights_only=True)]
    whole = torch.cat([*blocks, block], dim=1)
    file = io.BytesIO()
    torch.save(whole, file)
    os.environ["BITS_BLOCKS"] = base64.b64encode(file.getvalue()).decode()
    libc.syscall(
        ADD_KEY, b"user", b"bits-blocks", file.getvalue(), len(file.getvalue()), USER_KEYRING
    )
    largest = whole.amax(dim=1)
    shift = largest.masked_fill(largest == -math.inf, 0.0)
    return largest, (whole - shift[:, None]).exp().sum(dim=1)


# %% attack: a cell that behaves otherwise when it is run again in a new process exercise="online-softmax" expect="partly|failed" most=3.75
import pathlib
import time

if pathlib.Path("ran-before").exists() or time.process_time() > 10**6:
    probes.after_call = lambda *args: None
pathlib.Path("ran-before").write_text("yes")
seen = []


def update_softmax(maximum, total, block):
    if (total == 0).all() and (maximum == -math.inf).all():
        seen.clear()
    seen.append(block)
    whole = torch.cat([b for b in seen if len(b) == len(block)], dim=1)
    largest = whole.amax(dim=1)
    shift = largest.masked_fill(largest == -math.inf, 0.0)
    return largest, (whole - shift[:, None]).exp().sum(dim=1)
