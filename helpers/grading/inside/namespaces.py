"""What a student's process sees and may do, below the outer sandbox: its own mounts, processes
and rights. Made by the process itself before any of the student's code runs.

Linux only; ``unshare`` and ``mount`` come through ctypes, since Python has the first from 3.12
and the second not at all. Constants from Linux's uapi headers.
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

# What programs read of /proc beyond their own process; the rest would show other processes.
_PROC_FILES = ("cpuinfo", "meminfo", "stat", "loadavg", "uptime", "version", "filesystems")
_PROC_LINKS = {"mounts": "self/mounts", "net": "self/net"}

_libc = ctypes.CDLL(None, use_errno=True)


def enter(stage: str, home: Path, work: Path, disk_bytes: int) -> None:
    """Give this process, and its children from here on, namespaces and a disk in RAM of their own.

    Children are in the new process namespace, the process itself stays outside.

    Args:
        stage: an empty folder, on which the disk is mounted while it is arranged.
        home: the home folder, replaced by an empty one.
        work: the working folder, below ``home``; what it holds stays, read-only.
        disk_bytes: size of the disk.
    """
    user, group = os.getuid(), os.getgid()
    _check(_libc.unshare(_NEW_USER | _NEW_MOUNTS | _NEW_IPC | _NEW_PIDS), "unshare")
    # To the kernel, a process that changed its rights is nobody's; it must be ours to be mapped.
    set_dumpable(True)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    set_dumpable(False)
    mount(None, "/", None, _RECURSIVE | _PRIVATE)
    _renew_disk(Path(stage), home, work, disk_bytes)


def _renew_disk(disk: Path, home: Path, work: Path, disk_bytes: int) -> None:
    mount("tmpfs", disk, "tmpfs", _NO_SUID | _NO_DEVICES, f"size={disk_bytes},mode=700")
    new_home = disk / "home"
    new_work = new_home / work.relative_to(home)
    for folder in (disk / "tmp", disk / "shm", new_work):
        folder.mkdir(parents=True)
    for entry in os.scandir(work):
        place = new_work / entry.name
        place.mkdir() if entry.is_dir() else place.touch()
        mount(entry.path, place, None, _BIND | _RECURSIVE)
    for folder, place in (
        (new_home, home),
        (disk / "shm", Path("/dev/shm")),
        (disk / "tmp", Path("/tmp")),
    ):
        _keep_mounts(place, folder, except_for=(disk, work))
        mount(folder, place, None, _BIND | _RECURSIVE)


def _keep_mounts(place: Path, replacement: Path, except_for: tuple[Path, ...]) -> None:
    """Show in ``replacement`` what the outer sandbox shows below ``place``: the interpreter, or
    the course's own code, may be there.
    """
    kept: list[Path] = []
    for point in _read_mount_points():
        apart = any(point.is_relative_to(folder) for folder in (*except_for, *kept))
        if apart or point == place or not point.is_relative_to(place):
            continue
        target = replacement / point.relative_to(place)
        if point.is_dir():
            target.mkdir(parents=True, exist_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.touch()
        mount(point, target, None, _BIND | _RECURSIVE)
        kept.append(point)


def _read_mount_points() -> list[Path]:
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    # Blanks and the like are written as octal numbers there.
    names = (line.split()[4].encode().decode("unicode_escape") for line in lines)
    points = {Path(name.encode("latin-1").decode(errors="surrogateescape")) for name in names}
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
