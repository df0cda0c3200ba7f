"""Start JupyterLab: for a student on their own copy, for an instructor with nbgrader.

``serve_student(work, port, extra_args)`` and ``serve_staff(course, port, extra_args)`` check
what can be checked, say in one line where JupyterLab is, and become the server. What sets the
two apart is the configuration in ``lab_settings/``, which holds for that server alone: nothing
in the user's own configuration is written, and their theme and shortcuts stay theirs.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import urllib.request
import webbrowser
from collections.abc import Sequence
from pathlib import Path

from helpers.start_page import START_PAGE

_SETTINGS = Path(__file__).with_name("lab_settings")
_HOST = "127.0.0.1"
_FIRST_PORT = 8888
_LAST_PORT = 65535
_SECONDS_TO_ANSWER = 5


class LabError(Exception):
    """JupyterLab cannot be started; the text is the one sentence that the user reads."""


def serve_student(work: Path, port: int | None = None, extra_args: Sequence[str] = ()) -> int:
    """Run JupyterLab on the student's copy of the chapters, without anything of nbgrader's.

    Args:
        work: the folder that ``helpers.workspace.deliver`` has filled.
        port: the port to listen on; None for the first free one from 8888 up.
        extra_args: further arguments for JupyterLab, which override ours.

    Returns:
        the server's exit status; 0 if one runs on ``work`` already, which is opened then. On POSIX
        it does not return else: the process becomes the server.

    Raises:
        LabError: the folder or the port cannot be used, or JupyterLab is not installed.
    """
    return _serve("student", work, port, extra_args)


def serve_staff(course: Path, port: int | None = None, extra_args: Sequence[str] = ()) -> int:
    """Run JupyterLab on the course folder with nbgrader's formgrader.

    Args:
        course: the folder that holds nbgrader_config.py.
        port: the port to listen on; None for the first free one from 8888 up.
        extra_args: further arguments for JupyterLab, which override ours.

    Returns:
        the server's exit status, as ``serve_student`` does.

    Raises:
        LabError: the folder or the port cannot be used, or JupyterLab or nbgrader is missing.
    """
    if not (course / "nbgrader_config.py").is_file():
        raise LabError(
            f"{course} is not the course's folder (it has no nbgrader_config.py): change to the "
            f"folder that you cloned and run the same command again."
        )
    _require("nbgrader", "instructor")
    # Without this folder, which the course's configuration names, nbgrader complains at each
    # click, in its pages and in its log.
    with contextlib.suppress(OSError):
        (course / "exchange").mkdir(exist_ok=True)
    return _serve("staff", course, port, extra_args)


def choose_port(port: int | None) -> int:
    """Return ``port`` if it can be listened on, or the first free one if it is None.

    Raises:
        LabError: ``port`` cannot be used.
    """
    if port is None:
        candidates = range(_FIRST_PORT, _LAST_PORT + 1)
        return next(p for p in candidates if _listening_fails(p) is None)
    if not 1 <= port <= _LAST_PORT:
        raise LabError(f"{port} is not a usable port: name one from 1024 to {_LAST_PORT}.")
    error = _listening_fails(port)
    if error is not None:
        raise LabError(
            f"JupyterLab cannot use port {port} ({error.strerror}): name another one, "
            f"or none for a free one, and run the same command again."
        )
    return port


def _listening_fails(port: int) -> OSError | None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        if os.name == "posix":
            # As the server does: a port that was in use a moment ago counts as free.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((_HOST, port))
            listener.listen(1)
        except OSError as error:
            return error
    return None


def _require(package: str, extra: str) -> None:
    import importlib.util

    if importlib.util.find_spec(package) is None:
        raise LabError(
            f"{package} is not installed here: use the course's own environment "
            f"({'make staff' if extra == 'instructor' else 'make lab'}), or run: "
            f"pip install 'bits-and-gradients[{extra}]'"
        )


def _serve(who: str, folder: Path, port: int | None, extra_args: Sequence[str]) -> int:
    if not folder.is_dir():
        raise LabError(f"There is no folder {folder} to open JupyterLab on.")
    _require("jupyterlab", "lab")
    folder = folder.resolve()
    running = None if port or extra_args else find_running(folder)
    if running is not None:
        print(f"JupyterLab runs on {folder} already: {running}")
        if has_display():
            webbrowser.open(running)
        return 0
    chosen = choose_port(port)
    opens = [f"--LabApp.default_url=/lab{find_first_page(folder)}"] if who == "student" else []
    command = build_command(folder, chosen, [*opens, *extra_args])
    environment = build_environment(who)
    if port is None and chosen != _FIRST_PORT:
        print(f"Port {_FIRST_PORT} is taken, so JupyterLab uses port {chosen}.")
    print(f"Opening JupyterLab on {folder} (port {chosen}). To stop it: Ctrl-C, then y.")
    if who == "staff":
        print("For grading, choose Formgrader in JupyterLab's menu Nbgrader.")
    sys.stdout.flush()
    # nbgrader looks for its configuration in the current folder.
    os.chdir(folder)
    if os.name == "posix":
        os.execve(command[0], command, environment)
    return subprocess.call(command, env=environment)


def find_running(folder: Path) -> str | None:
    """Return the address of this user's JupyterLab that runs on ``folder``; None if none does."""
    from jupyter_core.paths import jupyter_runtime_dir

    # The server's own package takes seconds to load: not where no server has left a note.
    if not any(Path(jupyter_runtime_dir()).glob("jpserver-*.json")):
        return None
    from jupyter_server.serverapp import list_running_servers

    for server in list_running_servers():
        address = server.get("url", "")
        if Path(server.get("root_dir", "")).resolve() == folder and _answers(f"{address}api"):
            return f"{address}lab?token={server.get('token', '')}"
    return None


def _answers(address: str) -> bool:
    # A server that was killed leaves its note behind, and its number may be another process's.
    try:
        with urllib.request.urlopen(address, timeout=_SECONDS_TO_ANSWER):
            return True
    except (OSError, ValueError):
        return False


def build_command(folder: Path, port: int, extra_args: Sequence[str]) -> list[str]:
    """Return the command line that runs JupyterLab on ``folder``."""
    command = [sys.executable, "-m", "jupyterlab"]
    command += [f"--ServerApp.root_dir={folder}", f"--ServerApp.ip={_HOST}"]
    command += [f"--ServerApp.port={port}", "--ServerApp.port_retries=0"]
    # The open notebooks are this folder's affair, not those of the user's other work.
    command += [f"--LabApp.workspaces_dir={_workspaces(folder)}"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")
    if not has_display():
        command.append("--no-browser")
    return [*command, *extra_args]


def find_first_page(folder: Path) -> str:
    """Return what a student's JupyterLab opens, as the end of its address.

    That is the first chapter, the first time; later the start page, in front of what was open.
    """
    if not any(_workspaces(folder).glob("*")):
        chapters = sorted(folder.glob("[0-9][0-9]-*/*.ipynb"))
        return f"/tree/{chapters[0].relative_to(folder).as_posix()}" if chapters else ""
    return f"/tree/{START_PAGE}" if (folder / START_PAGE).is_file() else ""


def _workspaces(folder: Path) -> Path:
    return folder / ".bits" / "lab"


def build_environment(who: str) -> dict[str, str]:
    """Return the environment of the server: "student" or "staff" settings, commands on PATH."""
    environment = dict(os.environ)
    commands = str(Path(sys.executable).parent)
    for name, first in (("JUPYTER_CONFIG_PATH", str(_SETTINGS / who)), ("PATH", commands)):
        rest = environment.get(name)
        environment[name] = first + os.pathsep + rest if rest else first
    return environment


def has_display() -> bool:
    """Return whether a browser can be opened here."""
    if sys.platform in ("darwin", "win32"):
        return True
    return any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
