"""The thread that stays with one sandbox: takes its output, watches its caps, clears up."""

from __future__ import annotations

import contextlib
import os
import re
import select
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from helpers.grading.sandbox.cgroups import Cgroup
from helpers.grading.sandbox.mounts import SCRATCH

if TYPE_CHECKING:
    from helpers.grading.sandbox.sandbox import Limits

_SECONDS_BETWEEN_LOOKS = 0.1
_MOST_SHARED_ENTRIES = 256
_CHUNK = 64 * 1024
_FIELD = re.compile(r"^(\w+):\s+(\d+)(?: kB)?$", re.MULTILINE)
# So the kernel calls it in a process' maps.
_SHARED_WITHOUT_A_FILE = "/dev/zero (deleted)"


class Attendant:
    """Stays with a sandbox until its end.

    Attributes:
        reason: which cap stopped it or a process in it, in words.
        stopped_because: which cap made the watch stop all of it, in words; "" if none did.
        memory_kills: how many processes had been killed for memory when it ended.
    """

    def __init__(
        self,
        process: subprocess.Popen,
        output: int,
        limits: Limits,
        cgroup: Cgroup | None,
        shared: tuple[Path, ...],
    ):
        """Begin.

        Args:
            process: bwrap.
            output: where its output is read; closed at the end.
            limits: its caps.
            cgroup: its control group, removed at the end; without one, memory is watched.
            shared: folders of ours that it can write; what they hold is watched.
        """
        self._process = process
        self._pidfd = os.pidfd_open(process.pid)
        self._output = output
        self._limits = limits
        self._cgroup = cgroup
        self._shared = shared
        self._kept = bytearray()
        self._deadline = time.monotonic() + limits.wall_seconds
        self.reason: str | None = None
        self.stopped_because = ""
        self.memory_kills = 0
        self._thread = threading.Thread(target=self._attend, name="sandbox", daemon=True)
        self._thread.start()

    @property
    def output(self) -> str:
        """What has been written so far, up to the cap."""
        text = bytes(self._kept).decode("utf-8", "replace")
        return text + "\n[cut here]" if len(self._kept) >= self._limits.output_bytes else text

    def join(self) -> None:
        """Wait until all is cleared up; the process must have ended or been killed."""
        self._thread.join()

    def _attend(self) -> None:
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        poll.register(self._output, select.POLLIN)
        next_look = 0.0
        ended = False
        while not ended:
            ready = {descriptor for descriptor, _ in poll.poll(_SECONDS_BETWEEN_LOOKS * 1000)}
            if self._output in ready and not self._take_output():
                poll.unregister(self._output)
            ended = self._pidfd in ready
            if time.monotonic() >= next_look and not ended:
                self._look()
                next_look = time.monotonic() + _SECONDS_BETWEEN_LOOKS
        self._clear_up()

    def _take_output(self) -> bool:
        chunk = os.read(self._output, _CHUNK)
        self._kept += chunk[: self._limits.output_bytes - len(self._kept)]
        return bool(chunk)

    def _look(self) -> None:
        if time.monotonic() > self._deadline:
            self._stop(f"it ran longer than {self._limits.wall_seconds:g} s")
        elif not all(is_small(f, self._limits.shared_bytes) for f in self._shared):
            self._stop("it filled a folder that it shares with us")
        elif self._cgroup is None:
            pids = find_descendants(self._process.pid)
            if measure_memory(pids) > self._limits.memory_bytes:
                self._stop(self._memory_is_used_up())
            # bwrap's own two do not count. Where the kernel holds the number this never happens.
            elif count_threads(pids) > self._limits.processes + 2:
                self._stop(self._too_many_processes())

    def _stop(self, reason: str) -> None:
        self.reason = self.reason or reason
        self.stopped_because = self.stopped_because or reason
        self._process.kill()

    def _memory_is_used_up(self) -> str:
        return f"it used more than {self._limits.memory_bytes // 1024**2} MiB of memory"

    def _too_many_processes(self) -> str:
        return f"it started more than {self._limits.processes} processes"

    def _clear_up(self) -> None:
        os.set_blocking(self._output, False)
        with contextlib.suppress(BlockingIOError):
            while self._take_output():
                pass
        if self._cgroup is not None:
            self.memory_kills = self._cgroup.count_memory_kills()
            if self.memory_kills:
                self.reason = self.reason or self._memory_is_used_up()
            elif self._cgroup.ran_out_of_processes():
                self.reason = self.reason or self._too_many_processes()
            self._cgroup.remove()
        os.close(self._output)
        os.close(self._pidfd)


def find_descendants(root: int) -> list[int]:
    """Return ``root`` and all processes that come from it."""
    children: dict[int, list[int]] = {}
    for pid, parent in _read_parents():
        children.setdefault(parent, []).append(pid)
    found = [root]
    for pid in found:  # grows while it is walked
        found += children.get(pid, [])
    return found


def _read_parents() -> Iterator[tuple[int, int]]:
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                line = Path("/proc", entry.name, "stat").read_text(errors="replace")
                # The name, in parentheses, can hold anything; the rest cannot.
                yield int(entry.name), int(line.rpartition(")")[2].split()[1])


def measure_memory(pids: list[int]) -> int:
    """Return the bytes of memory that these processes take together, shared pages once.

    Files in RAM and what is mapped to be shared count whole, whether or not any process has them
    in sight at the moment; so do the tables of addresses.
    """
    own = in_sight = 0
    for pid in pids:
        status, parts = _read_fields(pid, "status"), _read_fields(pid, "smaps_rollup")
        own += status.get("VmPTE", 0)
        if "Pss_Anon" in parts:
            own += sum(parts.get(name, 0) for name in ("Pss_Anon", "Pss_File", "SwapPss"))
            in_sight += parts.get("Pss_Shmem", 0)
        else:  # a kernel before Linux 5.4, or a process that is ending
            own += parts.get("Pss", status.get("VmRSS", 0))
    return 1024 * own + max(1024 * in_sight, _measure_shared(pids) + _measure_disks(pids))


def _measure_shared(pids: list[int]) -> int:
    """Return the bytes of what these processes have mapped to share, without a file."""
    areas: dict[str, int] = {}
    for pid in pids:
        with contextlib.suppress(OSError):
            for line in Path("/proc", str(pid), "maps").read_text(errors="replace").splitlines():
                if line.endswith(_SHARED_WITHOUT_A_FILE):
                    span, _, _, _, inode, _ = line.split(maxsplit=5)
                    start, end = (int(address, 16) for address in span.split("-"))
                    # Some processes have mapped less of it than others.
                    areas[inode] = max(areas.get(inode, 0), end - start)
    return sum(areas.values())


def _measure_disks(pids: list[int]) -> int:
    """Return the bytes of all files in RAM that these processes can write, also of deleted ones."""
    ours = {status.st_dev for folder in SCRATCH if (status := _stat(folder))}
    used: dict[int, int] = {}
    seen = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            namespace = os.readlink(f"/proc/{pid}/ns/mnt")
            if namespace in seen:
                continue
            for folder in SCRATCH:
                place = f"/proc/{pid}/root{folder}"
                status = _stat(place)
                if status and status.st_dev not in ours:
                    size = os.statvfs(place)
                    used[status.st_dev] = (size.f_blocks - size.f_bfree) * size.f_frsize
            seen.add(namespace)
    return sum(used.values())


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:
        return None


def measure_computing(pids: list[int]) -> float:
    """Return the processor time, in seconds, of these processes and of their children that have
    ended and were waited for.
    """
    return sum(_read_clock_ticks(pid) for pid in pids) / os.sysconf("SC_CLK_TCK")


def _read_clock_ticks(pid: int) -> int:
    with contextlib.suppress(OSError):
        line = Path("/proc", str(pid), "stat").read_text(errors="replace")
        # proc_pid_stat(5): utime, stime, cutime and cstime are fields 14 to 17, the name the 2nd.
        return sum(map(int, line.rpartition(")")[2].split()[11:15]))
    return 0


def count_threads(pids: list[int]) -> int:
    """Return how many threads these processes have together."""
    return sum(_read_fields(pid, "status").get("Threads", 0) for pid in pids)


def _read_fields(pid: int, file: str) -> dict[str, int]:
    """Return what is a number in a file of /proc; nothing if the process has ended."""
    with contextlib.suppress(OSError):
        text = Path("/proc", str(pid), file).read_text(errors="replace")
        return {name: int(number) for name, number in _FIELD.findall(text)}
    return {}


def is_small(folder: Path, most_bytes: int) -> bool:
    """Return whether a folder holds little, looking at no more of it than that takes."""
    entries = total = 0
    waiting = [folder]
    while waiting:
        with contextlib.suppress(OSError), os.scandir(waiting.pop()) as listing:
            for entry in listing:
                entries += 1
                with contextlib.suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    # A sparse file counts by what it takes.
                    total += status.st_blocks * 512
                if entries > _MOST_SHARED_ENTRIES or total > most_bytes:
                    return False
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(Path(entry.path))
    return True
