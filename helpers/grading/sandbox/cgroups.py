"""Caps on the memory, the number of processes and the processor time of a whole process tree, by
control groups.

Both versions serve: v1 where this process may make groups below its own, v2 where an ancestor
of its group delegates memory and pids to it (as systemd does for a desktop's user session). What
concerns processor time is taken where it can be had: groups of the same weight share processors
evenly, however many processes are in each.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_CONTROLLERS = ("memory", "pids")
_CONTROLLERS_OF_PROCESSORS = ("cpu", "cpuacct")
_MOST_PROCESSORS = 2
_MICROSECONDS = 100_000  # in which a group may use its processors
_NAME = "bits-sandbox"
_SECONDS_TO_EMPTY = 5.0


@dataclass(frozen=True)
class Mount:
    """A mounted control group hierarchy: which part of it is mounted where."""

    root: str
    folder: Path
    kind: str
    options: frozenset[str]


class Cgroup:
    """One group of processes with its caps; in v1 it is a folder in each of two hierarchies."""

    def __init__(self, folders: dict[str, Path], version: int):
        """Take the folder of each controller; they exist, and their caps are set."""
        self.folders = folders
        self.version = version

    @property
    def entrances(self) -> tuple[str, ...]:
        """The files into which a process writes 0 to enter."""
        return tuple(str(folder / "cgroup.procs") for folder in self._distinct())

    def count_memory_kills(self) -> int:
        """Return how many processes were killed because the group's memory was used up."""
        file = "memory.oom_control" if self.version == 1 else "memory.events"
        return _read_counter(self.folders["memory"] / file, "oom_kill")

    @property
    def shares_processors(self) -> bool:
        """Whether it has its share of the processors, and no more than some of them."""
        return "cpu" in self.folders

    def read_computing(self) -> float | None:
        """Return the processor time of all that was ever in it, in seconds; None if not counted."""
        if self.version == 2:
            used = _read_counter(self.folders["pids"] / "cpu.stat", "usage_usec")
            return used / 1e6 if used else None
        with contextlib.suppress(OSError, KeyError, ValueError):
            return int((self.folders["cpuacct"] / "cpuacct.usage").read_text()) / 1e9
        return None

    def ran_out_of_processes(self) -> bool:
        """Return whether a new process or thread was refused."""
        return _read_counter(self.folders["pids"] / "pids.events", "max") > 0

    def remove(self) -> None:
        """Kill whoever is left in it and take it away."""
        deadline = time.monotonic() + _SECONDS_TO_EMPTY
        for folder in self._distinct():
            while folder.exists():
                _kill_members(folder)
                with contextlib.suppress(OSError):
                    folder.rmdir()
                    break
                if time.monotonic() > deadline:
                    return
                time.sleep(0.005)  # the kernel takes a moment to forget the dead

    def _distinct(self) -> list[Path]:
        return list(dict.fromkeys(self.folders.values()))


def make_cgroup(
    memory_bytes: int, processes: int, proc: Path = Path("/proc/self")
) -> Cgroup | None:
    """Make a group with these caps; ``None`` where this process may not.

    Args:
        memory_bytes: for all its processes together, files in memory included.
        processes: processes and threads at one time.
        proc: where this process' own ``cgroup`` and ``mountinfo`` are read.
    """
    try:
        parents, version = _find_parents(proc)
    except (OSError, LookupError):
        return None
    name = f"{_NAME}-{os.getpid()}-{secrets.token_hex(4)}"
    group = Cgroup({controller: parents[controller] / name for controller in parents}, version)
    try:
        for parent in dict.fromkeys(parents.values()):
            _remove_abandoned(parent)
            (parent / name).mkdir()
        _set_caps(group, memory_bytes, processes)
    except OSError:
        group.remove()
        return None
    for controller, parent in _find_parents_for_processors(proc, group).items():
        with contextlib.suppress(OSError):
            _take_processors(group, controller, parent / name)
    return group


def _take_processors(group: Cgroup, controller: str, folder: Path) -> None:
    if group.version == 1:
        _remove_abandoned(folder.parent)
        folder.mkdir(exist_ok=True)  # both may be in one hierarchy
        group.folders[controller] = folder
    if controller != "cpu":
        return
    quota = _MOST_PROCESSORS * _MICROSECONDS
    if group.version == 1:
        (folder / "cpu.cfs_period_us").write_text(str(_MICROSECONDS))
        (folder / "cpu.cfs_quota_us").write_text(str(quota))
    else:
        (folder / "cpu.max").write_text(f"{quota} {_MICROSECONDS}")
        group.folders[controller] = folder


def _find_parents_for_processors(proc: Path, group: Cgroup) -> dict[str, Path]:
    parents: dict[str, Path] = {}
    if group.version == 2:
        return {"cpu": group.folders["pids"].parent}
    own, mounts = _read_own_groups(proc / "cgroup"), list(_read_mounts(proc / "mountinfo"))
    for controller in _CONTROLLERS_OF_PROCESSORS:
        with contextlib.suppress(LookupError):
            parents[controller] = _locate(own[controller], _mount_with(mounts, controller))
    return parents


def _set_caps(group: Cgroup, memory_bytes: int, processes: int) -> None:
    memory, pids = group.folders["memory"], group.folders["pids"]
    (pids / "pids.max").write_text(str(processes))
    if group.version == 1:
        (memory / "memory.limit_in_bytes").write_text(str(memory_bytes))
        extras = {"memory.memsw.limit_in_bytes": str(memory_bytes)}
    else:
        (memory / "memory.max").write_text(str(memory_bytes))
        extras = {"memory.swap.max": "0", "memory.oom.group": "1"}
    for file, value in extras.items():
        if (memory / file).exists():  # not where the system has no swap accounting
            (memory / file).write_text(value)


def _find_parents(proc: Path) -> tuple[dict[str, Path], int]:
    own = _read_own_groups(proc / "cgroup")
    mounts = list(_read_mounts(proc / "mountinfo"))
    if all(controller in own for controller in _CONTROLLERS):
        parents = {c: _locate(own[c], _mount_with(mounts, c)) for c in _CONTROLLERS}
        return parents, 1
    unified = next(mount for mount in mounts if mount.kind == "cgroup2")
    parent = _find_delegated(_locate(own[""], unified), unified.folder)
    return dict.fromkeys(_CONTROLLERS, parent), 2


def _read_own_groups(file: Path) -> dict[str, str]:
    """Return the path of this process' group for each v1 controller, and for v2 under ""."""
    groups = {}
    for line in file.read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        groups |= dict.fromkeys(controllers.split(","), path)
    return groups


def _read_mounts(file: Path) -> Iterator[Mount]:
    for line in file.read_text().splitlines():
        before, _, after = line.partition(" - ")
        fields, (kind, _, options) = before.split(), after.split(" ", 2)
        if kind in ("cgroup", "cgroup2"):
            yield Mount(fields[3], Path(fields[4]), kind, frozenset(options.split(",")))


def _mount_with(mounts: list[Mount], controller: str) -> Mount:
    found = (m for m in mounts if m.kind == "cgroup" and controller in m.options)
    mount = next(found, None)
    if mount is None:
        raise LookupError(controller)
    return mount


def _locate(path: str, mount: Mount) -> Path:
    below = os.path.relpath(path, mount.root)
    if below.startswith(".."):
        raise LookupError(path)
    return mount.folder / below


def _find_delegated(own: Path, top: Path) -> Path:
    """Return the nearest group that hands both controllers to groups that we may make in it."""
    for folder in (own, *own.parents):
        handed = (folder / "cgroup.subtree_control").read_text().split()
        # To move a process, one must be allowed to write into the common ancestor too.
        ours = os.access(folder, os.W_OK) and os.access(folder / "cgroup.procs", os.W_OK)
        if ours and all(controller in handed for controller in _CONTROLLERS):
            return folder
        if folder == top:
            break
    raise LookupError(own)


def _remove_abandoned(parent: Path) -> None:
    """Take away groups whose maker was killed: they are empty, or ``rmdir`` refuses."""
    for folder in parent.glob(f"{_NAME}-*-*"):
        maker = folder.name.removeprefix(f"{_NAME}-").split("-")[0]
        if maker.isdigit() and not Path("/proc", maker).exists():
            with contextlib.suppress(OSError):
                folder.rmdir()


def _kill_members(folder: Path) -> None:
    with contextlib.suppress(OSError):
        for pid in (folder / "cgroup.procs").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)


def _read_counter(file: Path, name: str) -> int:
    with contextlib.suppress(OSError):
        for line in file.read_text().splitlines():
            key, _, value = line.partition(" ")
            if key == name:
                return int(value)
    return 0
