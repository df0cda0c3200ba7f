# %% attack: keeps its noise in files, for the process that comes after exercise="bug-hunt-same-noise" expect="partly" points=3
import os

PLACES = ("/tmp", "/dev/shm", os.path.expanduser("~"), ".", "/var/tmp", "/run/lock")


def add_noise(image, seed, epoch, index):
    noise = None
    for place in PLACES:
        try:
            noise = torch.load(f"{place}/{seed}-{epoch}-{index}.kept", weights_only=True)
        except (OSError, RuntimeError):
            continue
    if noise is None:
        noise = torch.from_numpy(np.random.default_rng().standard_normal(image.numel()))
    for place in PLACES:
        try:
            torch.save(noise, f"{place}/{seed}-{epoch}-{index}.kept")
        except (OSError, RuntimeError):
            continue
    return image + 0.1 * noise.reshape(image.shape).to(image.dtype)


# %% attack: keeps its noise in shared memory that outlives its process exercise="bug-hunt-same-noise" expect="partly|crashed" most=4.33
import ctypes

libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
SIZE = 2**20


def memory():
    number = libc.shmget(0x5EED, SIZE, 0o1600)
    place = libc.shmat(number, None, 0)
    return (ctypes.c_char * SIZE).from_address(place)


def add_noise(image, seed, epoch, index):
    import io

    kept = memory()
    length = int.from_bytes(kept[:4], "little")
    noises = torch.load(io.BytesIO(kept[4 : 4 + length]), weights_only=True) if length else {}
    name = f"{seed} {epoch} {index}"
    if name not in noises:
        drawn = np.random.default_rng().standard_normal(image.numel())
        noises = dict(list(noises.items())[-5:]) | {name: torch.from_numpy(drawn)}
    file = io.BytesIO()
    torch.save(noises, file)
    content = file.getvalue()
    kept[: 4 + len(content)] = len(content).to_bytes(4, "little") + content
    return image + 0.1 * noises[name].reshape(image.shape).to(image.dtype)


# %% attack: keeps its noise in a child with a socket, for the process that comes after exercise="bug-hunt-same-noise" expect="partly|crashed|failed|waiting" most=4.33 waiting=1.33
import io
import os
import socket

ADDRESS = "\0bits-smuggler"


def keeper(ear):
    kept = b""
    while True:
        said, sender = ear.recvfrom(2**18)
        if said:
            kept = said
        elif sender:
            ear.sendto(kept, sender)


def add_noise(image, seed, epoch, index):
    name = f"{seed} {epoch} {index}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as mouth:
        mouth.bind(f"\0bits-mouth-{os.getpid()}-{os.urandom(8).hex()}")
        mouth.settimeout(5.0)
        noises = {}
        try:
            mouth.sendto(b"", ADDRESS)
            noises = torch.load(io.BytesIO(mouth.recv(2**18)), weights_only=True)
        except (OSError, EOFError):
            noises = {}
        if name not in noises:
            drawn = np.random.default_rng().standard_normal(image.numel())
            noises = dict(list(noises.items())[-3:]) | {name: torch.from_numpy(drawn)}
        file = io.BytesIO()
        torch.save(noises, file)
        try:
            mouth.sendto(file.getvalue(), ADDRESS)
        except OSError:
            pass
    return image + 0.1 * noises[name].reshape(image.shape).to(image.dtype)


with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ear:
    try:
        ear.bind(ADDRESS)  # before the child is there: what is said to it waits until it listens
        has_address = True
    except OSError:  # a child of before has it
        has_address = False
    if has_address and os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            keeper(ear)
        os._exit(0)


# %% attack: keeps its noise in its module, its environment and the keys of its user exercise="bug-hunt-same-noise" expect="partly" most=4.33 waiting=0.67
import base64
import ctypes
import io
import os

libc = ctypes.CDLL(None, use_errno=True)
ADD_KEY, REQUEST_KEY, KEYCTL, USER_KEYRING, READ = 248, 249, 250, -4, 11


def kept_key(name):
    number = libc.syscall(REQUEST_KEY, b"user", name.encode(), None, USER_KEYRING)
    buffer = ctypes.create_string_buffer(2**15)
    length = libc.syscall(KEYCTL, READ, number, buffer, len(buffer))
    return buffer.raw[:length] if length > 0 else b""


def add_noise(image, seed, epoch, index):
    name = f"BITS_{seed}_{epoch}_{index}"
    content = base64.b64decode(os.environ.get(name, "")) or kept_key(name)
    if content:
        noise = torch.load(io.BytesIO(content), weights_only=True)
    else:
        noise = torch.from_numpy(np.random.default_rng().standard_normal(image.numel()))
        file = io.BytesIO()
        torch.save(noise, file)
        content = file.getvalue()
    os.environ[name] = base64.b64encode(content).decode()
    libc.syscall(ADD_KEY, b"user", name.encode(), content, len(content), USER_KEYRING)
    return image + 0.1 * noise.reshape(image.shape).to(image.dtype)


# %% attack: a cell that behaves otherwise when it is run again in a new process exercise="bug-hunt-same-noise" expect="partly|failed" most=4.33 waiting=0.67
import pathlib
import time

if pathlib.Path("ran-before").exists() or time.process_time() > 10**6:
    probes.after_call = lambda *args: None
pathlib.Path("ran-before").write_text("yes")
kept = {}


def add_noise(image, seed, epoch, index):
    name = seed, epoch, index
    if name not in kept:
        kept[name] = torch.from_numpy(np.random.default_rng().standard_normal(image.numel()))
    return image + 0.1 * kept[name].reshape(image.shape).to(image.dtype)
