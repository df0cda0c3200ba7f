"""JupyterLab as `bits lab` and `bits staff` start it, on a course of its own, for browser tests."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from course_files import ROOT

_SECONDS_TO_START = 180
TOKEN = "for-this-test"


def copy_course(root: Path) -> Path:
    """Copy what a clone has of the course to ``root`` and return it."""
    for part in ("release", "source"):
        shutil.copytree(ROOT / "course" / part, root / "course" / part)
    shutil.copy(ROOT / "course" / "nbgrader_config.py", root / "course")
    return root


@contextlib.contextmanager
def serve(command: str, root: Path, home: Path) -> Iterator[str]:
    """Run ``bits lab`` or ``bits staff`` in ``root`` with an empty home; yield its address."""
    port = free_port()
    arguments = [str(Path(sys.executable).with_name("bits")), command, "--port", str(port)]
    arguments += ["--no-browser", f"--IdentityProvider.token={TOKEN}"]
    # So that a test can ask JupyterLab where a cell is: it draws only those in sight.
    arguments += ["--LabApp.expose_app_in_browser=True"]
    environment = {**os.environ, "HOME": str(home), "COLUMNS": "100"}
    log = home / "jupyterlab.log"
    with log.open("wb") as stream:
        process = subprocess.Popen(
            arguments,
            cwd=root,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        address = f"http://127.0.0.1:{port}"
        wait_until_up(address, process, log)
        yield address
    finally:
        stop(process)


def run_nbgrader(course: Path, *arguments: str, fails: bool = False) -> None:
    """Run an nbgrader command as an instructor would, from the course's folder."""
    scripts = str(Path(sys.executable).parent)
    environment = {**os.environ, "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"}
    command = [sys.executable, "-m", "nbgrader", *arguments]
    finished = subprocess.run(
        command, cwd=course, env=environment, capture_output=True, text=True, timeout=1100
    )
    assert (finished.returncode != 0) is fails, finished.stderr[-4000:]


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_until_up(address: str, process: subprocess.Popen, log: Path) -> None:
    deadline = time.monotonic() + _SECONDS_TO_START
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        with contextlib.suppress(urllib.error.URLError, ConnectionError):
            urllib.request.urlopen(f"{address}/api?token={TOKEN}", timeout=2).close()
            return
        time.sleep(0.2)
    raise AssertionError(f"JupyterLab did not start:\n{log.read_text('utf-8', 'replace')}")


def stop(process: subprocess.Popen) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
