"""What a sandbox sees: the system's programs and the interpreter's packages, read-only, and RAM.

Everything else is absent. In particular the course: of a checkout, only ``helpers`` is there, and
of that neither ``grading`` nor ``authoring``.
"""

from __future__ import annotations

import os
import site
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import helpers
from helpers.grading.inside import syscalls

HOME = Path("/home/student")
WORK = HOME / "work"
# All that can be written, each in RAM.
SCRATCH = ("/tmp", "/dev/shm", str(HOME), str(WORK))
_USER_ID = 1000
_SYSTEM_FOLDERS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_ETC = ("ld.so.cache", "localtime", "alternatives", "fonts", "mime.types")
_MADE_UP_FILES = {
    "/etc/passwd": f"student:x:{_USER_ID}:{_USER_ID}:student:{HOME}:/bin/sh\n",
    "/etc/group": f"student:x:{_USER_ID}:\n",
    "/etc/hosts": "127.0.0.1 localhost\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}
# Packages of ours that no notebook imports.
_STAFF_PACKAGES = ("grading", "authoring")
_SMALL = 64 * 1024


@dataclass(frozen=True)
class View:
    """What one sandbox sees beyond the system and the interpreter.

    Attributes:
        data: files and folders that appear, read-only, in the working folder.
        readable: files and folders that appear read-only where they are.
        shared: folders that appear where they are and can be written.
        hidden: folders that are empty inside, wherever they would have been visible.
        environment: variables beyond the fixed few.
        nested_namespaces: whether a process inside may make user namespaces of its own.
    """

    data: tuple[Path, ...] = ()
    readable: tuple[Path, ...] = ()
    shared: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    nested_namespaces: bool = False


def build_arguments(view: View, disk_bytes: int, data_pipe: DataPipes) -> list[str]:
    """Return bwrap's arguments for namespaces, rights, mounts and environment.

    Args:
        view: what is visible beyond the usual.
        disk_bytes: size of each folder that can be written.
        data_pipe: takes the text of made-up files; its descriptors must be inherited.
    """
    arguments = ["--unshare-all", "--unshare-user"]  # "all" alone would do without the latter
    arguments += ["--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    arguments += ["--uid", str(_USER_ID), "--gid", str(_USER_ID), "--hostname", "sandbox"]
    if not view.nested_namespaces:
        arguments.append("--disable-userns")
        # A process that makes namespaces inside restricts itself when it has made them.
        refused = syscalls.build_filter()
        arguments += ["--seccomp", data_pipe.add(refused)] if refused else []
    arguments += _mount_system(data_pipe)
    arguments += _protect_proc(view.nested_namespaces)
    arguments += _mount_scratch(disk_bytes)
    packages, covers = _mount_packages(view)
    arguments += packages
    for path in view.data:
        arguments += ["--ro-bind", str(path), str(WORK / path.name)]
    for path in view.shared:
        arguments += ["--bind", str(path), str(path)]
    # The roots of these trees are RAM without a limit of their own: nobody may write there.
    for folder in ("/dev", *covers, "/"):
        arguments += ["--remount-ro", folder]
    arguments += ["--chdir", str(WORK), "--clearenv"]
    for name, value in {**fixed_environment(), **view.environment}.items():
        arguments += ["--setenv", name, value]
    return arguments


class DataPipes:
    """Pipes that hold short texts for ``--ro-bind-data``, and a filter for ``--seccomp``."""

    def __init__(self) -> None:
        """Begin with none."""
        self.descriptors: list[int] = []

    def add(self, content: str | bytes) -> str:
        """Return the number of a descriptor that reads ``content``, texts as UTF-8."""
        reading, writing = os.pipe()
        os.write(writing, content.encode() if isinstance(content, str) else content)
        os.close(writing)
        self.descriptors.append(reading)
        return str(reading)

    def close(self) -> None:
        """Close this process' ends."""
        while self.descriptors:
            os.close(self.descriptors.pop())


def _mount_system(data_pipe: DataPipes) -> Iterator[str]:
    yield from ("--ro-bind", "/usr", "/usr", "--proc", "/proc", "--dev", "/dev")
    for name in _SYSTEM_FOLDERS:
        folder = Path("/", name)
        if folder.is_symlink():
            yield from ("--symlink", os.readlink(folder), str(folder))
        else:
            yield from ("--ro-bind-try", str(folder), str(folder))
    for name in _ETC:
        yield from ("--ro-bind-try", f"/etc/{name}", f"/etc/{name}")
    for path, text in _MADE_UP_FILES.items():
        yield from ("--ro-bind-data", data_pipe.add(text), path)


def _protect_proc(nested_namespaces: bool) -> Iterator[str]:
    """Make the system's settings read-only.

    Started by root, a sandbox's user is root to the files of /proc, whatever it is called inside,
    and could write /proc/sys/kernel/core_pattern: bubblewrap 0.8 looks at the folder's rights
    alone, and leaves it.
    """
    if not nested_namespaces:
        yield from ("--remount-ro", "/proc")
        return
    # Such a process writes its own uid_map in there, so only what is not a process is protected.
    for entry in sorted(os.scandir("/proc"), key=lambda entry: entry.name):
        if not entry.name.isdigit() and not entry.is_symlink():
            yield from ("--ro-bind", entry.path, entry.path)


def _mount_scratch(disk_bytes: int) -> Iterator[str]:
    for folder in SCRATCH:
        yield from ("--size", str(disk_bytes), "--tmpfs", folder)
    fonts = find_font_list()
    if fonts:  # matplotlib takes seconds to make it afresh
        yield from ("--ro-bind", str(fonts), str(HOME / ".cache/matplotlib" / fonts.name))


def _mount_packages(view: View) -> tuple[list[str], list[str]]:
    """Return the arguments, and which folders have been covered by empty ones."""
    checkout, package = find_checkout(), Path(helpers.__file__).parent
    hidden = [*view.hidden, *([checkout] if checkout else [])]
    visible = [*_interpreter_folders(), *view.readable, package]
    # A hidden folder can lie in a visible one (a checkout in /usr/local/src) and the other way
    # round (an environment in the checkout): what lies deeper comes later, and so wins.
    steps = [(path, "show") for path in visible] + [(path, "hide") for path in hidden]
    steps += [(package / name, "hide") for name in _STAFF_PACKAGES]
    arguments, covers, shown = [], [], [Path("/usr")]
    for path, step in sorted(set(steps), key=lambda pair: (len(pair[0].parts), pair[1])):
        if step == "show":
            arguments += ["--ro-bind", str(path), str(path)]
            shown.append(path)
        elif any(path.is_relative_to(above) for above in shown) and path.is_dir():
            arguments += ["--size", str(_SMALL), "--tmpfs", str(path)]
            covers.append(str(path))
    return arguments, covers


def _interpreter_folders() -> list[Path]:
    """Return where the interpreter and its packages lie, by their names and by real paths."""
    folders = [Path(sys.prefix), Path(sys.base_prefix)]
    folders += [Path(sysconfig.get_path(name)) for name in ("purelib", "platlib", "stdlib")]
    if site.ENABLE_USER_SITE:
        folders.append(Path(site.getusersitepackages()))
    folders += [folder.resolve() for folder in folders]
    outside_usr = {f for f in folders if f.is_dir() and not f.is_relative_to("/usr")}
    return sorted(outside_usr)


def find_checkout() -> Path | None:
    """Return the checkout that ``helpers`` is imported from; ``None`` if it is installed."""
    above = Path(helpers.__file__).parent.parent
    return above if (above / "pyproject.toml").is_file() else None


def find_font_list() -> Path | None:
    """Return matplotlib's list of this machine's fonts, if it has made one."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "matplotlib"
    folder = Path(os.environ.get("MPLCONFIGDIR") or cache)
    return max(folder.glob("fontlist-v*.json"), default=None) if folder.is_dir() else None


def fixed_environment() -> dict[str, str]:
    """Return the variables that every sandbox has."""
    programs = [str(Path(sys.prefix) / "bin"), "/usr/local/bin", "/usr/bin", "/bin"]
    environment = {
        "HOME": str(HOME),
        "USER": "student",
        "LANG": "C.UTF-8",
        "PATH": os.pathsep.join(programs),
        "MPLBACKEND": "Agg",
        "MPLCONFIGDIR": str(HOME / ".cache/matplotlib"),
        "OMP_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "TMPDIR": "/tmp",
    }
    if find_checkout():
        environment["PYTHONPATH"] = str(find_checkout())
    if site.ENABLE_USER_SITE:
        environment["PYTHONUSERBASE"] = site.getuserbase()
    return environment
