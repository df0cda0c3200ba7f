"""What a student's process sees and may do, below the outer sandbox: its own mounts, processes
and rights. Made by the process itself before any of the student's code runs.

Linux only; ``clone`` and ``mount`` come through ctypes, since Python has neither. Constants from
Linux's uapi headers.
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import signal
from collections.abc import Iterable
from pathlib import Path

_NEW_MOUNTS, _NEW_IPC, _NEW_USER, _NEW_PIDS = 0x20000, 0x8000000, 0x10000000, 0x20000000
_READ_ONLY, _NO_SUID, _NO_DEVICES, _REMOUNT, _BIND, _MOVE = 0x1, 0x2, 0x4, 0x20, 0x1000, 0x2000
_RECURSIVE, _PRIVATE = 0x4000, 0x40000
_SET_PDEATHSIG, _SET_DUMPABLE, _SET_NO_NEW_PRIVS, _CAPBSET_DROP = 1, 4, 38, 24
_CAPABILITY_VERSION_3 = 0x20080522
_LAST_CAPABILITY = 63
_KEYCTL = {"x86_64": 250, "aarch64": 219}  # glibc has no function for it
_JOIN_SESSION_KEYRING = 1
_CLONE = {"x86_64": 56, "aarch64": 220}  # glibc's clone wants a stack

# What programs read of /proc beyond their own process; the rest would show other processes.
_PROC_FILES = ("cpuinfo", "meminfo", "stat", "loadavg", "uptime", "version", "filesystems")
_PROC_LINKS = {"mounts": "self/mounts", "net": "self/net"}

_libc = ctypes.CDLL(None, use_errno=True)
# Keeps Python's lock meanwhile: a child would have to take it again.
_held = ctypes.PyDLL(None, use_errno=True)


class Room:
    """Namespaces and a disk in RAM, for a process and all that it starts.

    What is the same for every process is found out once: a kernel is not to wait for it.
    """

    def __init__(self, stage: str, home: Path, work: Path, disk_bytes: int) -> None:
        """Plan it.

        Args:
            stage: an empty folder, on which the disk is mounted while it is arranged.
            home: the home folder, replaced by an empty one.
            work: the working folder, below ``home``; what it holds stays, read-only.
            disk_bytes: size of the disk.
        """
        self._user, self._group = os.getuid(), os.getgid()
        self._stage = stage
        self._options = f"size={disk_bytes},mode=700"
        disk = Path(stage)
        new_home = disk / "home"
        new_work = new_home / work.relative_to(home)
        self._folders = [disk / "tmp", disk / "shm", new_work]
        self._files: list[Path] = []
        self._binds: list[tuple[Path, Path]] = []
        for entry in os.scandir(work):
            self._keep(Path(entry.path), new_work / entry.name)
        points = _read_mount_points()
        for folder, place in (
            (new_home, home),
            (disk / "shm", Path("/dev/shm")),
            (disk / "tmp", Path("/tmp")),
        ):
            self._keep_mounts(points, place, folder, except_for=(disk, work))
            self._binds.append((folder, place))
            points = _sorted_by_depth({*points, place})  # the home folder may be below /tmp

    def move_in(self) -> None:
        """Take the process that ``fork`` made there.

        Raises:
            OSError: the system refuses it.
        """
        # A process that changed its rights is nobody's to the kernel; it must be ours to be mapped.
        set_dumpable(True)
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{self._user} {self._user} 1")
        _write("/proc/self/gid_map", f"{self._group} {self._group} 1")
        set_dumpable(False)
        self._arrange()

    def _arrange(self) -> None:
        mount(None, "/", None, _RECURSIVE | _PRIVATE)
        mount("tmpfs", self._stage, "tmpfs", _NO_SUID | _NO_DEVICES, self._options)
        for folder in self._folders:
            os.makedirs(folder, exist_ok=True)
        for file in self._files:
            os.close(os.open(file, os.O_CREAT | os.O_WRONLY, 0o600))
        for source, target in self._binds:
            mount(source, target, None, _BIND | _RECURSIVE)

    def _keep_mounts(
        self,
        points: Iterable[Path],
        place: Path,
        replacement: Path,
        except_for: tuple[Path, ...],
    ) -> None:
        """Show in ``replacement`` what the outer sandbox shows below ``place``: the interpreter, or
        the course's own code, may be there.
        """
        kept: list[Path] = []
        for point in points:
            apart = any(point.is_relative_to(folder) for folder in (*except_for, *kept))
            if not apart and point != place and point.is_relative_to(place):
                self._keep(point, replacement / point.relative_to(place))
                kept.append(point)

    def _keep(self, source: Path, target: Path) -> None:
        if source.is_dir():
            self._folders.append(target)
        else:
            self._folders.append(target.parent)
            self._files.append(target)
        self._binds.append((source, target))


def fork() -> int:
    """Fork; the child is the first process of new namespaces: all that it starts ends with it.

    What ``os.fork`` has run at a fork is not run: the caller has one thread, and the child forks
    again before it does much.

    Returns:
        0 in the child, the child's process id in the parent.

    Raises:
        OSError: the system refuses it.
    """
    flags = _NEW_USER | _NEW_MOUNTS | _NEW_IPC | _NEW_PIDS | signal.SIGCHLD
    # After unshare(2), it would take one fork more to be the first process.
    child = _held.syscall(_CLONE[platform.machine()], flags, None, None, None, None)
    _check(min(child, 0), "clone")
    return child


def _write(file: str, text: str) -> None:
    descriptor = os.open(file, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def _read_mount_points() -> list[Path]:
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    # Blanks and the like are written as octal numbers there.
    names = (line.split()[4].encode().decode("unicode_escape") for line in lines)
    points = {Path(name.encode("latin-1").decode(errors="surrogateescape")) for name in names}
    return _sorted_by_depth(points)


def _sorted_by_depth(points: Iterable[Path]) -> list[Path]:
    return sorted(points, key=lambda point: len(point.parts))


def show_only_own_process() -> None:
    """Cover /proc, which is the outer sandbox's, with one that holds this process alone."""
    stage = Path("/tmp/proc")
    stage.mkdir()
    mount("tmpfs", stage, "tmpfs", _NO_SUID | _NO_DEVICES, "size=64k,mode=755")
    (stage / "self").mkdir()
    mount("/proc/self", stage / "self", None, _BIND)
    for name in _PROC_FILES:
        (stage / name).touch()
        mount(f"/proc/{name}", stage / name, None, _BIND)
    for name, target in _PROC_LINKS.items():
        (stage / name).symlink_to(target)
    mount(stage, "/proc", None, _MOVE)
    mount(None, "/proc", None, _REMOUNT | _BIND | _READ_ONLY | _NO_SUID | _NO_DEVICES)
    stage.rmdir()


def cover(folder: str) -> None:
    """Put an empty folder, read-only, over ``folder``."""
    mount("tmpfs", folder, "tmpfs", _READ_ONLY | _NO_SUID | _NO_DEVICES, "size=4k,mode=755")


def give_up_rights() -> None:
    """Drop every capability for good, and belong to oneself again as an ordinary process does.

    Keys go too: a kernel could leave one there for the next.
    """
    if platform.machine() in _KEYCTL:
        _libc.syscall(_KEYCTL[platform.machine()], _JOIN_SESSION_KEYRING, None)
    for capability in range(_LAST_CAPABILITY + 1):
        _libc.prctl(_CAPBSET_DROP, capability, 0, 0, 0)  # unknown ones are refused: nothing lost
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    none = (ctypes.c_uint32 * 6)()
    _check(_libc.capset(header, none), "capset")
    _check(_libc.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")
    set_dumpable(True)


def set_dumpable(dumpable: bool) -> None:
    """Say whether processes of the same user may read this one's memory."""
    _check(_libc.prctl(_SET_DUMPABLE, int(dumpable), 0, 0, 0), "prctl")


def die_with_parent() -> None:
    """Be killed when the process that started this one ends."""
    _check(_libc.prctl(_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")


def set_limits(cpu_seconds: int) -> None:
    """Limit the processor time of this process and each that it starts."""
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds))


def keep_only(descriptors: Iterable[int]) -> None:
    """Close all descriptors but these, and point 0, 1 and 2 to nothing."""
    kept = set(descriptors)
    listing = "/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"
    for name in os.listdir(listing):
        if int(name) > 2 and int(name) not in kept:
            try:
                os.close(int(name))
            except OSError:  # the one that listed the folder
                continue
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)
    os.close(nothing)


def mount(
    source: str | Path | None,
    target: str | Path,
    kind: str | None,
    flags: int,
    options: str | None = None,
) -> None:
    """Call mount(2).

    Raises:
        OSError: it was refused.
    """
    as_bytes = [None if part is None else os.fsencode(part) for part in (source, target, kind)]
    data = None if options is None else options.encode()
    _check(_libc.mount(*as_bytes, ctypes.c_ulong(flags), data), f"mount on {target}")


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
