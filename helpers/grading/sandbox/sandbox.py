"""Run a command that nobody vouches for: bubblewrap around it, caps on it, no way to outlive us.

What it sees is in ``mounts``; caps on memory and processes are control groups where they can be
had (``cgroups``), else limits of each process and a watch (``attendant``).
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from helpers.errors import CallNotMadeError
from helpers.grading.inside.syscalls import build_filter
from helpers.grading.sandbox.attendant import Attendant, find_descendants, measure_computing
from helpers.grading.sandbox.cgroups import Cgroup, make_cgroup
from helpers.grading.sandbox.mounts import DataPipes, View, build_arguments

_OLDEST_BWRAP = (0, 8)
_SECONDS_TO_START = 30.0
_MIB = 1024**2
_MOST_UNTOUCHED_BYTES = 2048 * _MIB
_NOT_FILTERED = (
    " No system call is refused on this kind of processor: memory that student code takes in "
    "unusual ways may pass its cap."
)
# Enters the control groups, then becomes the rest of the command line. Should the machine's own
# memory run out, this goes first.
_ENTER = (
    "echo 1000 > /proc/self/oom_score_adj; count=$1; shift; "
    'while [ "$count" -gt 0 ]; do echo 0 > "$1" || exit 125; shift; count=$((count-1)); done; '
    'exec "$@"'
)


class SandboxError(CallNotMadeError):
    """There is no sandbox, or it did not start; the text is the one sentence to read."""


@dataclass(frozen=True)
class Limits:
    """Caps on a sandbox.

    Attributes:
        memory_bytes: of all its processes together.
        processes: processes and threads at one time.
        cpu_seconds: of each process.
        wall_seconds: from its start to its end.
        open_files: of each process.
        disk_bytes: size of each writable folder in RAM, and of any one file.
        shared_bytes: in each shared folder, which lies on our disk; more ends the sandbox.
        output_bytes: kept of what it writes to its standard output and error; the rest is read
            and forgotten.
        use_cgroups: take control groups where they can be had.
    """

    memory_bytes: int = 4096 * _MIB
    processes: int = 256
    cpu_seconds: int = 3600
    wall_seconds: float = 7200.0
    open_files: int = 1024
    disk_bytes: int = 512 * _MIB
    shared_bytes: int = 16 * _MIB
    output_bytes: int = 64 * 1024
    use_cgroups: bool = True


class Sandbox:
    """A running command and everything that it starts; use it in a ``with`` statement.

    Attributes:
        process: bwrap itself, outside; its end is the end of everything inside.
    """

    def __init__(
        self,
        command: Sequence[str],
        view: View | None = None,
        limits: Limits | None = None,
        pass_fds: Sequence[int] = (),
    ):
        """Start ``command`` and return once it is about to run.

        Args:
            command: program and arguments, as they are found inside.
            view: what it sees beyond the system and the interpreter.
            limits: its caps.
            pass_fds: descriptors that it inherits beside 0 (which is empty), 1 and 2 (kept).

        Raises:
            SandboxError: bwrap is missing or refused.
        """
        self.limits = limits or Limits()
        view = view or View()
        self._cgroup = _make_cgroup(self.limits)
        status, ready = os.pipe(), os.pipe()
        output, data = os.pipe(), DataPipes()
        settings = self._settings_inside(ready[1], pass_fds)
        try:
            # Whatever bwrap gives up for us it must not inherit from its caller.
            arguments = [find_bwrap(), *build_arguments(view, self.limits.disk_bytes, data)]
            arguments += ["--json-status-fd", str(status[1]), "--", sys.executable, "-I", "-S"]
            arguments += ["-c", _text_of_first_program(), settings, *command]
            inherited = [status[1], ready[1], *data.descriptors, *pass_fds]
            self.process = self._spawn(arguments, output[1], inherited)
        except BaseException:
            for descriptor in (status[0], ready[0], output[0]):
                os.close(descriptor)
            if self._cgroup:
                self._cgroup.remove()
            raise
        finally:
            data.close()
            for descriptor in (status[1], ready[1], output[1]):
                os.close(descriptor)
        self._status = status[0]
        self._attendant = Attendant(
            self.process, output[0], self.limits, self._cgroup, tuple(view.shared)
        )
        self._wait_until_ready(ready[0])

    def __enter__(self) -> Sandbox:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Kill it, if it still runs."""
        self.close()

    @functools.cached_property
    def command_pid(self) -> int | None:
        """The command's process id outside; ``None`` if it has ended."""
        if not select.select([self._status], [], [], _SECONDS_TO_START)[0]:
            return None
        line = os.read(self._status, 4096).split(b"\n")[0]
        return _find_first_child(json.loads(line)["child-pid"]) if line else None

    @property
    def output(self) -> str:
        """What it has written to its standard output and error so far, up to the cap."""
        return self._attendant.output

    def send_signal(self, signal_number: int) -> None:
        """Send a signal to the command and its process group; no error if it has ended."""
        if signal_number == signal.SIGKILL:
            self.kill()
            return
        pid = self.command_pid
        if pid is None or self.process.poll() is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            try:
                os.killpg(pid, signal_number)
            except ProcessLookupError:  # it has moved to another group
                os.kill(pid, signal_number)

    def kill(self) -> None:
        """Kill bwrap: its process namespace ends, and everything inside with it."""
        self.process.kill()

    def wait(self, timeout: float | None = None) -> int:
        """Wait until everything inside has ended and return bwrap's exit status.

        Raises:
            subprocess.TimeoutExpired: it did not within ``timeout`` seconds.
        """
        status = self.process.wait(timeout)
        self._attendant.join()
        return status

    def why_it_was_stopped(self) -> str | None:
        """Return which cap stopped it or a process in it, in words; ``None`` if none did."""
        return self._attendant.reason

    def measure_computing(self) -> float:
        """Return the processor time, in seconds, that has gone into it so far."""
        counted = self._cgroup.read_computing() if self._cgroup else None
        if counted is None:
            return measure_computing(find_descendants(self.process.pid))
        return counted

    def count_memory_kills(self) -> int:
        """Return how many of its processes were killed for memory, where that can be counted."""
        now = self._cgroup.count_memory_kills() if self._cgroup else 0
        return max(now, self._attendant.memory_kills)

    def why_the_watch_stopped_it(self) -> str:
        """Return which cap made us stop all of it, in words; "" if none did."""
        return self._attendant.stopped_because

    def close(self) -> None:
        """Kill it, wait for its end, and give back all it held. May be called again."""
        if self.process.poll() is None:
            self.kill()
        self.wait()
        if self._status >= 0:
            self.command_pid  # noqa: B018  what is asked later is answered from here on
            os.close(self._status)
            self._status = -1

    def _settings_inside(self, ready: int, kept: Sequence[int]) -> str:
        limits = {
            "RLIMIT_CPU": self.limits.cpu_seconds,
            "RLIMIT_NOFILE": self.limits.open_files,
            "RLIMIT_FSIZE": max(self.limits.disk_bytes, self.limits.shared_bytes),
            "RLIMIT_CORE": 0,
        }
        if self._cgroup is None:
            # Set inside, where Linux 5.14 and later counts each sandbox by itself.
            limits["RLIMIT_NPROC"] = self.limits.processes
            # What one process can take between two looks of the watch. What it has loaded and
            # never touched is counted here as well.
            limits["RLIMIT_DATA"] = self.limits.memory_bytes + _MOST_UNTOUCHED_BYTES
        return json.dumps({"limits": limits, "ready": ready, "kept": list(kept)})

    def _spawn(self, command: list[str], output: int, inherited: list[int]) -> subprocess.Popen:
        entrances = self._cgroup.entrances if self._cgroup else ()
        enter = ["/bin/sh", "-c", _ENTER, "sh", str(len(entrances)), *entrances]
        start = functools.partial(
            subprocess.Popen,
            [*enter, *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=inherited,
            env={},
        )
        return _spawner(os.getpid()).submit(start).result()

    def _wait_until_ready(self, ready: int) -> None:
        try:
            deadline = time.monotonic() + _SECONDS_TO_START
            # bwrap holds the other end until its child is ready, or until it has failed.
            readable, _, _ = select.select([ready], [], [], deadline - time.monotonic())
            if readable and os.read(ready, 1):
                return
        finally:
            os.close(ready)
        self.close()
        raise SandboxError(_explain(self.output))


@functools.cache
def _spawner(pid: int) -> ThreadPoolExecutor:
    """Return a thread that lives as long as this process.

    ``--die-with-parent`` looks at the *thread* that started bwrap: a kernel must not end because
    a short-lived thread started it. One per process, since a fork does not copy threads.
    """
    return ThreadPoolExecutor(1, thread_name_prefix="sandbox-spawner")


@functools.cache
def _text_of_first_program() -> str:
    return Path(__file__).with_name("first_inside.py").read_text("utf-8")


def _make_cgroup(limits: Limits) -> Cgroup | None:
    return make_cgroup(limits.memory_bytes, limits.processes) if limits.use_cgroups else None


def _find_first_child(parent: int) -> int | None:
    """Return the child of a sandbox's first process; it is number 2 in there."""
    for status in Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError):
            fields = dict(re.findall(r"^(PPid|NSpid):\t(.+)$", status.read_text(), re.MULTILINE))
            if fields["PPid"] == str(parent) and fields["NSpid"].split()[-1] == "2":
                return int(status.parent.name)
    return None


def describe_limits(limits: Limits | None = None) -> str:
    """Return one line that says what holds memory and processes here, for the start of a run."""
    limits = limits or Limits()
    group = _make_cgroup(limits)
    memory = f"{limits.memory_bytes // _MIB} MiB of memory"
    processes = f"{limits.processes} processes"
    weaker = "" if build_filter() else _NOT_FILTERED
    if group is not None:
        group.remove()
        sharing = (
            "processor time is shared out between submissions"
            if group.shares_processors
            else "but one with many processes gets more processor time than one with few"
        )
        return (
            f"Sandbox: {memory} and {processes}, held by control groups (v{group.version}); "
            f"{sharing}.{weaker}"
        )
    if os.geteuid() == 0:
        counted = "processes are counted regularly"
    else:
        counted = "processes are limited by the kernel"
    return (
        f"Sandbox: {memory} and {processes}; control groups are not available, so memory is "
        f"watched ten times a second and {counted}, and one submission with many processes gets "
        f"more processor time than one with few. Data in pipes and sockets is not counted, "
        f"so grade on a machine with control groups if you can.{weaker}"
    )


# --- Whether it can be had -------------------------------------------------------------------


def find_bwrap() -> str:
    """Return the path of bubblewrap's program.

    Raises:
        SandboxError: there is none.
    """
    if not sys.platform.startswith("linux"):
        raise SandboxError(
            "Student code runs in a sandbox that only Linux has: grade on Linux, in a Linux "
            "container or virtual machine (on Windows: WSL 2)."
        )
    program = shutil.which("bwrap")
    if program is None:
        raise SandboxError(
            "Student code runs in bubblewrap, which is not installed here: install it (on "
            "Debian and Ubuntu: sudo apt install bubblewrap) and run the same command again."
        )
    return program


def check_available() -> None:
    """Try a sandbox.

    Raises:
        SandboxError: there is none here; the text says why and what to do.
    """
    program = find_bwrap()
    answer = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    version = tuple(int(part) for part in re.findall(r"\d+", answer.stdout)[:2])
    if version < _OLDEST_BWRAP:
        raise SandboxError(
            f"bubblewrap {'.'.join(map(str, version))} is too old: install version 0.8 or newer "
            f"(Debian 12 and Ubuntu 24.04 have it)."
        )
    with Sandbox([sys.executable, "-I", "-S", "-c", "print('works')"]) as trial:
        trial.wait(_SECONDS_TO_START)
    if trial.output.strip() != "works":
        raise SandboxError(_explain(trial.output))


def _explain(output: str) -> str:
    """Return one sentence for what bwrap said when it failed."""
    said = (output.strip().splitlines() or ["bwrap gave no reason"])[-1].removeprefix("bwrap: ")
    refused = ("setting up uid map", "namespace", "loopback", "Operation not permitted")
    if not any(words in said for words in refused):
        return f"The sandbox did not start ({said}): correct that and run the same command again."
    return f"The sandbox did not start ({said}) because {_why_refused()}."


def _why_refused() -> str:
    if _read_setting("kernel/apparmor_restrict_unprivileged_userns") == "1":
        return (
            "this system does not let ordinary programs make namespaces: allow it with "
            "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
        )
    if _read_setting("kernel/unprivileged_userns_clone") == "0":
        return (
            "this system does not let ordinary users make namespaces: allow it with "
            "sudo sysctl -w kernel.unprivileged_userns_clone=1"
        )
    if _read_setting("user/max_user_namespaces") == "0":
        return (
            "this system allows no user namespaces: allow them with "
            "sudo sysctl -w user.max_user_namespaces=10000"
        )
    return (
        "namespaces are forbidden here, as in most containers: grade outside the container, or "
        "start it with rights to make them (docker run --security-opt seccomp=unconfined "
        "--security-opt apparmor=unconfined --security-opt systempaths=unconfined)"
    )


def _read_setting(name: str) -> str:
    with contextlib.suppress(OSError):
        return Path("/proc/sys", name).read_text().strip()
    return ""
