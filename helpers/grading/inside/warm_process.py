"""The warm process: it has imported what notebooks import, and forks a kernel on demand.

It never runs anybody's code, nor anything that would start a thread: a fork copies the memory of
a process but only the thread that asked for it. For every request on its control socket, which
carries two sockets, it forks a *supervisor*, the first process of namespaces of its own (see
``namespaces``), and this forks the *kernel*. What the kernel has started ends with it, the kernel
with the supervisor, and the supervisor when its socket says so.

Its arguments are the descriptor of the control socket, and the size of a kernel's disk in bytes,
0 where there is no sandbox to make namespaces in.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
from pathlib import Path
from types import FrameType
from typing import NoReturn

import kernel
import namespaces
import syscalls
import torch
from IPython.core.interactiveshell import InteractiveShell

import helpers
from helpers.reading import tables

_STAGE = "/tmp/stage"
_CPU_SECONDS = 3600
_MOST_MILLISECONDS_OF_AN_ORPHAN = 1000
# What torch and notebooks would load when they first need it: the backward pass takes sympy, a
# dispatch mode all of dynamo.
_LOADED_LATE = (
    "matplotlib.figure",
    "matplotlib_inline.backend_inline",
    "numpy.fft",
    "sympy",
    "torch._dynamo",
    "torch.utils._python_dispatch",
    "torch.utils.checkpoint",
)
_OWN_MODULES = ("wire", "wanting", "namespaces", "syscalls", "kernel", "warm_process")


def main() -> None:
    """Load everything, say so, and fork a kernel for every request until nobody asks any more."""
    control = socket.socket(fileno=int(sys.argv[1]))
    disk_bytes = int(sys.argv[2])
    shell = _load()
    room = None
    if disk_bytes:
        namespaces.set_dumpable(False)
        os.mkdir(_STAGE)
        home = Path.home()
        room = namespaces.Room(_STAGE, home, home / "work", disk_bytes)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # ended supervisors leave nothing behind
    threads = len(os.listdir("/proc/self/task")) if os.path.isdir("/proc/self/task") else 1
    control.sendall(json.dumps({"threads": threads}).encode())
    _forget_ourselves()
    gc.freeze()
    gc.enable()
    while True:
        _, descriptors, _, _ = socket.recv_fds(control, 1, 2)
        if not descriptors:
            return
        if (os.fork() if room is None else namespaces.fork()) == 0:
            control.close()
            channel, life = descriptors
            _supervise(channel, socket.socket(fileno=life), room, shell)
        for descriptor in descriptors:
            os.close(descriptor)


def _load() -> InteractiveShell:
    """Import what chapters import, so that no kernel has to."""
    torch.set_num_threads(1)
    # What counts as plain is loaded, so that no file of a notebook's can take its place.
    for module in sorted({*_LOADED_LATE, *tables.WHOLE, *tables.PARTS}):
        with contextlib.suppress(ImportError):
            importlib.import_module(module)

    for name in helpers.__all__:
        getattr(helpers, name)
    shell = kernel.make_shell()
    # The garbage collector is not to walk over what was loaded, here or in a kernel: that takes a
    # third of a second, and to look at a page of memory that is shared is to copy it.
    gc.freeze()
    kernel.rehearse(shell)
    return shell


def _forget_ourselves() -> None:
    """Leave no trace of these modules where a notebook would not have them."""
    del sys.path[0]
    sys.argv[:] = ["ipykernel_launcher.py"]
    os.environ.pop("GLIBC_TUNABLES", None)  # it is for this process, and has been read
    for name in _OWN_MODULES:
        sys.modules.pop(name, None)


def _supervise(
    channel: int, life: socket.socket, room: namespaces.Room | None, shell: InteractiveShell
) -> NoReturn:
    """Start a kernel; end it when ``life`` is closed, and all that it started when it ends."""
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if room is None:
            os.setsid()
        else:
            room.move_in()
        the_kernel = os.fork()
        if the_kernel == 0:
            _be_kernel(channel, room is not None, shell)
        os.close(channel)
        status = _wait_for_either(the_kernel, life)
        if status is None:
            os.kill(the_kernel, signal.SIGKILL)
        _end_all(room is not None)
        if status is not None:
            life.sendall(json.dumps({"status": status}).encode())
    except BaseException as error:
        with contextlib.suppress(OSError):
            life.sendall(json.dumps({"failed": repr(error)}).encode())
    finally:
        os._exit(0)


def _wait_for_either(the_kernel: int, life: socket.socket) -> int | None:
    """Return the kernel's status when it has ended, None when ``life`` has."""
    poll = select.poll()
    for descriptor in (os.pidfd_open(the_kernel), life.fileno()):
        poll.register(descriptor, select.POLLIN)
    while True:
        ready = poll.poll(_MOST_MILLISECONDS_OF_AN_ORPHAN)
        # Of orphans, we are the parent.
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == the_kernel:
                return ended[1]
        if ready:
            return None


def _end_all(contained: bool) -> None:
    """End what is left of the kernel and of all that it started."""
    if not contained:  # at least what stayed in our session
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.killpg(0, signal.SIGTERM)
        return
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)  # all in the namespace whose first process this is
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()


def _be_kernel(channel: int, contained: bool, shell: InteractiveShell) -> NoReturn:
    try:
        namespaces.keep_only([channel])
        if contained:
            namespaces.die_with_parent()
            namespaces.show_only_own_process()
            namespaces.cover(str(Path(__file__).parent))
            namespaces.give_up_rights()
            namespaces.set_limits(_CPU_SECONDS)
            syscalls.restrict()
            os.chdir(Path.home() / "work")
        signal.signal(signal.SIGINT, _interrupted)
        kernel.serve(socket.socket(fileno=channel), shell)
    finally:
        os._exit(0)


def _interrupted(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
