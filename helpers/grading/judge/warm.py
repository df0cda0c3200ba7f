"""Our end of the warm process and of the kernels that it forks; see ``inside.warm_process``."""

from __future__ import annotations

import contextlib
import json
import secrets
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from helpers.errors import CallNotMadeError
from helpers.grading.inside import wire
from helpers.grading.judge.clock import Clock, OutOfTimeError
from helpers.grading.sandbox.attendant import find_descendants, measure_computing
from helpers.grading.sandbox.mounts import View, fixed_environment
from helpers.grading.sandbox.sandbox import Limits, Sandbox, SandboxError

_INSIDE = Path(wire.__file__).parent
_SECONDS_TO_LOAD = 120.0
_SECONDS_TO_FORK = 20.0
_SECONDS_TO_END = 20.0
_SECONDS_TO_FOLLOW = 1.0
_NEVER = 10.0**9
_CREDENTIALS = struct.Struct("iII")  # process, user and group, as unix(7) says
_TICKET_BYTES = 16
_ENVIRONMENT = {
    "MPLBACKEND": "module://matplotlib_inline.backend_inline",
    # A fork copies the table of pages, and a large page is one entry instead of 512. The C library
    # asks for them from 2.35 on.
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}


class KernelEndedError(Exception):
    """A kernel has ended, or had to be ended, by the doing of the code that it ran.

    Attributes:
        cause: "crashed", "timed out" or "out of memory".
        by_the_wall: whether it timed out by the wall's clock, and not for what it computed.
    """

    def __init__(self, cause: str, message: str, by_the_wall: bool = False) -> None:
        """Take the cause, and one sentence for the student."""
        super().__init__(message)
        self.cause = cause
        self.by_the_wall = by_the_wall


class WarmProcessLostError(CallNotMadeError):
    """The warm process was ended by something else than the code that was run in it."""


@dataclass(frozen=True)
class KernelLimits:
    """Caps on a student's kernel; what they hold is the warm process and its one kernel.

    Attributes:
        memory_bytes: of all processes together, files in RAM included.
        processes: processes and threads at one time.
        disk_bytes: of all files together.
    """

    memory_bytes: int
    processes: int
    disk_bytes: int


class _Host(Protocol):
    """What the warm process runs in: a sandbox, or nothing."""

    def close(self) -> None: ...


class WarmProcess:
    """A process that has torch loaded, in a sandbox, from which kernels are forked."""

    def __init__(
        self, limits: KernelLimits, data: Mapping[str, bytes], *, sandboxed: bool = True
    ) -> None:
        """Start it, and wait until it has loaded everything.

        Args:
            limits: caps on it and its kernel.
            data: files that appear, read-only, in a kernel's working folder.
            sandboxed: whether there is a sandbox around it; without one nothing is capped, and a
                kernel can do whatever this process can.

        Raises:
            SandboxError: it did not start.
        """
        self.limits = limits
        self._kills_seen = 0
        # None where there is none to hold: what is killed leaves its folders behind.
        self._folder = tempfile.TemporaryDirectory(prefix="bits-data-") if data else None
        paths = _write_data(Path(self._folder.name), data) if self._folder else []
        self._control, theirs = socket.socketpair()
        self._sandbox: Sandbox | None = None
        self._host: _Host | None = None
        try:
            with theirs:
                self._start(theirs, paths, sandboxed)
            self.threads = self._wait_until_loaded()
        except BaseException:
            self.close()
            raise

    def start_kernel(self, seed: int) -> Kernel:
        """Fork a kernel whose random numbers begin with ``seed``.

        Raises:
            WarmProcessLostError: the warm process is no more.
            KernelEndedError: the kernel did not come up.
        """
        self.was_out_of_memory()  # who was killed before has nothing to do with this kernel
        channel, their_channel = socket.socketpair()
        life, their_life = socket.socketpair()
        with their_channel, their_life:
            descriptors = [their_channel.fileno(), their_life.fileno()]
            try:
                socket.send_fds(self._control, [b"f"], descriptors)
            except OSError as error:
                channel.close()
                life.close()
                raise WarmProcessLostError from error
        kernel = Kernel(self, channel, life)
        kernel.request({"do": "begin", "seed": seed}, kernel.clock(_SECONDS_TO_FORK))
        return kernel

    @property
    def is_alive(self) -> bool:
        """Whether kernels can be forked from it."""
        return self._host is not None and self._host.process.poll() is None

    def measure_computing(self) -> float:
        """Return the processor time, in seconds, that has gone into it and its kernels."""
        if self._sandbox is not None:
            return self._sandbox.measure_computing()
        return measure_computing(find_descendants(self._host.process.pid))

    def was_out_of_memory(self) -> bool:
        """Return whether a process was killed for memory since this was last asked."""
        if self._sandbox is None:
            return False
        kills = self._sandbox.count_memory_kills()
        more, self._kills_seen = kills > self._kills_seen, max(kills, self._kills_seen)
        return more or "memory" in self._sandbox.why_the_watch_stopped_it()

    def find_end(self) -> str | None:
        """Wait a moment whether it ends; return which cap it hit ("" for none), None if it lives.

        To be asked when a kernel ended and its supervisor had nothing to say.
        """
        try:
            if self._sandbox is None:
                self._host.process.wait(_SECONDS_TO_FOLLOW)
                return ""
            self._sandbox.wait(_SECONDS_TO_FOLLOW)
        except subprocess.TimeoutExpired:
            return None
        return self._sandbox.why_the_watch_stopped_it()

    def close(self) -> None:
        """End it, with whatever it forked. May be called again."""
        self._control.close()
        if self._host is not None:
            self._host.close()
        if self._folder is not None:
            self._folder.cleanup()

    def _start(self, theirs: socket.socket, data: list[Path], sandboxed: bool) -> None:
        disk = self.limits.disk_bytes if sandboxed else 0
        program = str(_INSIDE / "begin.py")
        command = [sys.executable, program, str(theirs.fileno()), str(disk)]
        if not sandboxed:
            self._host = _Unprotected(command, theirs.fileno())
            return
        view = View(
            data=tuple(data),
            readable=(_INSIDE,),
            nested_namespaces=True,
            environment=_ENVIRONMENT,
        )
        limits = Limits(
            memory_bytes=self.limits.memory_bytes,
            processes=self.limits.processes,
            disk_bytes=self.limits.disk_bytes,
            wall_seconds=_NEVER,
            cpu_seconds=int(_NEVER),
        )
        self._host = self._sandbox = Sandbox(command, view, limits, [theirs.fileno()])

    def _wait_until_loaded(self) -> int:
        self._control.settimeout(_SECONDS_TO_LOAD)
        try:
            said = self._control.recv(1024)
            self._control.settimeout(None)
            return json.loads(said)["threads"]
        except (OSError, ValueError) as error:
            self._host.close()
            output = self._sandbox.output if self._sandbox else ""
            last = (output.strip().splitlines() or ["it gave no reason"])[-1]
            raise SandboxError(
                f"The process that student code is run in did not start ({last})."
            ) from error


class Kernel:
    """A student's notebook, running; one request at a time."""

    def __init__(self, warm: WarmProcess, channel: socket.socket, life: socket.socket) -> None:
        """Take our ends of its two sockets."""
        self._warm = warm
        self._channel = channel
        self._life = life
        self._pid = 0
        channel.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)

    def clock(self, seconds: float) -> Clock:
        """Start a clock for a request in which ``seconds`` may be computed."""
        return Clock(seconds, self._warm.measure_computing)

    def request(
        self,
        message: dict[str, Any],
        clock: Clock,
        lent: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    ) -> dict[str, Any]:
        """Send ``message`` and return the answer.

        Args:
            message: what to do.
            clock: the time for it, what is asked meanwhile included.
            lent: answers what the kernel asks of what it was lent; None if it was lent nothing.

        Raises:
            KernelEndedError: it did not answer in time, or not with a message, or it is no more.
                It has been ended.
            WarmProcessLostError: all of it is no more, through nothing that it did.
        """
        try:
            self._refuse_what_nobody_asked_for()
            ticket = secrets.token_bytes(_TICKET_BYTES)
            self._send(wire.encode(message | {"ticket": ticket.hex()}), clock)
            ours = time.thread_time()
            while "lent" in (answer := self._receive(ticket, clock)) and lent is not None:
                self._send(wire.encode(lent(answer)), clock)
                before, ours = ours, time.thread_time()
                clock.charge(ours - before)  # what it has us do is its own doing
            return answer
        except OutOfTimeError as end:
            self.close()
            raise KernelEndedError("timed out", str(end), end.by_the_wall) from None
        except wire.WireError as error:
            self.close()
            raise KernelEndedError("crashed", f"its process stopped: {error}") from error
        except OSError:
            raise self._explain_end() from None

    def close(self) -> dict[str, Any]:
        """End it and everything it started; return what its supervisor said last.

        May be called again; nothing is returned then.
        """
        said = b""
        if self._life.fileno() < 0:
            return {}
        with contextlib.suppress(OSError):
            self._life.shutdown(socket.SHUT_WR)
        self._life.settimeout(_SECONDS_TO_END)
        try:
            while chunk := self._life.recv(4096):
                said += chunk
        except OSError:  # it cannot be ended: then all of it has to go
            self._warm.close()
        self._channel.close()
        self._life.close()
        with contextlib.suppress(ValueError):
            return json.loads(said)
        return {}

    def _explain_end(self) -> KernelEndedError:
        said = self._wait_for_status()
        if self._warm.was_out_of_memory():
            if not said:  # the supervisor, or the warm process itself, was killed as well
                self._warm.close()
            size = self._warm.limits.memory_bytes // 2**20
            return KernelEndedError("out of memory", f"it used more than {size} MiB of memory")
        if not said:
            reason = self._warm.find_end()
            if reason == "":
                raise WarmProcessLostError
            return KernelEndedError("crashed", reason or "its process was ended")
        if "failed" in said:
            return KernelEndedError(
                "crashed", f"its process could not be started: {said['failed']}"
            )
        status = said.get("status", 0)
        number = status & 0x7F
        if number:
            name = signal.Signals(number).name if number in set(signal.Signals) else str(number)
            return KernelEndedError("crashed", f"its process was ended by the signal {name}")
        return KernelEndedError("crashed", f"its process ended with exit code {status >> 8}")

    def _wait_for_status(self) -> dict[str, Any]:
        # The kernel has closed its end; as a rule it has died, but it may have done just that.
        select.select([self._life], [], [], 1.0)
        return self.close()

    def _refuse_what_nobody_asked_for(self) -> None:
        poll = select.poll()
        poll.register(self._channel, select.POLLIN)
        # There is also something to read at its end.
        if poll.poll(0) and self._channel.recv(1, socket.MSG_PEEK):
            raise wire.WireError("it answered before it was asked")

    def _receive(self, ticket: bytes, clock: Clock) -> dict[str, Any]:
        text, blob = wire.lengths(self._read_header(ticket, clock))
        return wire.decode(self._read(text, clock), self._read(blob, clock))

    def _send(self, frame: bytes, clock: Clock) -> None:
        view = memoryview(frame)
        while view:
            self._wait(select.POLLOUT, clock)
            view = view[self._channel.send(view[: 2**20], socket.MSG_DONTWAIT) :]

    def _read_header(self, ticket: bytes, clock: Clock) -> bytes:
        """Read what comes first, and make sure that it comes from the kernel itself: a child that
        answers in its place is ended with it, a moment later and for no reason to be seen. What a
        notebook's code writes to a file that happens to be the channel is no answer either.
        """
        self._wait(select.POLLIN, clock)
        size = len(ticket) + wire.HEADER.size
        header, ancillary, _, _ = self._channel.recvmsg(size, socket.CMSG_SPACE(_CREDENTIALS.size))
        if not header:
            raise ConnectionResetError
        for level, kind, content in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
                sender = _CREDENTIALS.unpack(content[: _CREDENTIALS.size])[0]
                self._pid = self._pid or sender
                if sender != self._pid:
                    raise wire.WireError("another process answered in its place")
        if not ticket.startswith(header[: len(ticket)]):
            raise wire.WireError("something else was written where it answers")
        header += self._read(size - len(header), clock)
        if not header.startswith(ticket):
            raise wire.WireError("something else was written where it answers")
        return header[len(ticket) :]

    def _read(self, count: int, clock: Clock) -> bytes:
        buffer = bytearray(count)
        view = memoryview(buffer)
        while view:
            self._wait(select.POLLIN, clock)
            received = self._channel.recv_into(view)
            if received == 0:
                raise ConnectionResetError
            view = view[received:]
        return bytes(buffer)

    def _wait(self, event: int, clock: Clock) -> None:
        """Wait until the channel is ready; a kernel that ended while others hold its end counts."""
        poll = select.poll()
        poll.register(self._channel, event)
        poll.register(self._life, select.POLLIN)
        while not (ready := dict(poll.poll(clock.until_next_look() * 1000))):
            clock.look()
        if self._channel.fileno() not in ready:
            raise ConnectionResetError


class _Unprotected:
    """The warm process without a sandbox."""

    def __init__(self, command: list[str], descriptor: int) -> None:
        """Start it."""
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[descriptor],
            env={**fixed_environment(), **_ENVIRONMENT, "HOME": tempfile.gettempdir()},
        )

    def close(self) -> None:
        """End it; its kernels end as their sockets close."""
        self.process.kill()
        self.process.wait()


def _write_data(folder: Path, data: Mapping[str, bytes]) -> list[Path]:
    for name, content in data.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return sorted(folder.iterdir())
