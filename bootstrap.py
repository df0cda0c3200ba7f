"""Set up this checkout: a virtual environment in .venv with the pinned packages.

``make`` runs it before everything else. It runs on the system's own Python with the standard
library alone, does nothing (and needs no network) when the environment is already right, and
finishes next time what was interrupted.

    python3 bootstrap.py lab                                 # what a student needs
    python3 bootstrap.py instructor                          # and what grading needs
    python3 bootstrap.py maintainer --system-packages        # and what the tests need

    # Beside the pinned packages: another torch, the newest one, or all at their lower bounds.
    python3 bootstrap.py maintainer --torch 2.4.1 --venv build/torch-2.4.1/venv
    python3 bootstrap.py maintainer --torch newest --venv build/torch-newest/venv
    python3 bootstrap.py maintainer --torch lowest --venv build/torch-lowest/venv
"""

import sys

# Stands before everything that an older Python might not know, so that it is what speaks.
if sys.version_info < (3, 11):  # noqa: UP036
    sys.exit(
        f"Bits & Gradients needs Python 3.11 or newer and this is Python "
        f"{sys.version_info[0]}.{sys.version_info[1]} ({sys.executable}): install a newer one "
        f"and name it, for example: make lab PYTHON=python3.12"
    )

import argparse
import hashlib
import importlib
import importlib.util
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import threading
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

ROOT = Path(__file__).resolve().parent
EXTRAS = ("lab", "instructor", "maintainer")  # each holds the ones before it
RECORD = "bits-setup.json"
LOG = "bits-setup.log"
MINUTE = 60.0
CONSTRAINTS = "bits-constraints.txt"
NEWEST, LOWEST = "newest", "lowest"
# torch, and what some version of it insists on in another version than the pinned one.
TORCHS_OWN = ("torch", "filelock", "fsspec", "mpmath", "networkx", "sympy")
# Whose packages are at their lower bounds for LOWEST.
USED_BY_THE_COURSE = ("lab", "instructor", "cluster", "postgresql")

# The programs that a package of tests/apt.txt is wanted for, its own first; any one of them will
# do. A whole browser that shows nothing takes three times the headless shell's processor time.
PROGRAMS = {
    "bubblewrap": ("bwrap",),
    "chromium-headless-shell": (
        "chromium-headless-shell",
        "chromium",
        "chromium-browser",
        "google-chrome",
        "google-chrome-stable",
    ),
    "hunspell": ("hunspell",),
}

# What pip's output says, and what a person can do about it; the first that fits is told.
PIP_TROUBLE = (
    (
        (
            "after connection broken by",
            "NewConnectionError",
            "Failed to establish a new connection",
            "ConnectTimeoutError",
            "ReadTimeoutError",
            "ProxyError",
            "Connection refused",
            "Network is unreachable",
            "Temporary failure in name resolution",
            "Name or service not known",
        ),
        "the package registry cannot be reached: the first setup needs the network, so connect "
        "and run the same command again",
    ),
    (
        ("No space left on device", "Disk quota exceeded"),
        "the disk is full: make room (PyTorch alone takes some gigabytes) and run the same "
        "command again",
    ),
    (
        ("Permission denied", "Read-only file system"),
        "a folder cannot be written to: give yourself write permission for it and run the same "
        "command again",
    ),
)


class SetupError(Exception):
    """Setup cannot go on; the text is the one sentence that the user reads."""


# --- Where the environment stands ------------------------------------------------------------


def find_interpreter(venv: Path) -> Path:
    """Return where the environment's Python is, or will be."""
    return venv / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def read_record(venv: Path) -> dict:
    """Return what an earlier setup wrote about ``venv``; empty if there is no ``venv`` yet.

    Raises:
        SetupError: something is there that this program did not make.
    """
    if not os.path.lexists(venv):
        return {}
    try:
        record = json.loads((venv / RECORD).read_text(encoding="utf-8"))
        return record if isinstance(record, dict) else {"state": "damaged"}
    except ValueError:
        return {"state": "damaged"}
    except OSError as error:
        if venv.is_dir() and not any(venv.iterdir()):
            return {}
        raise SetupError(
            f"{venv} exists and was not made by this setup, so it is left alone: move it away "
            f"(or remove it) and run the same command again."
        ) from error


def write_record(venv: Path, record: dict) -> None:
    """Replace the record of ``venv`` in one step, so that a kill leaves the old or the new."""
    draft = venv / (RECORD + ".part")
    draft.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    os.replace(draft, venv / RECORD)


def read_packaging(root: Path) -> tuple[dict, str]:
    """Return what pyproject.toml holds, and the pinned versions.

    Raises:
        SetupError: one of the files cannot be read.
    """
    try:
        pyproject = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
        return pyproject, (root / "constraints.txt").read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise SetupError(
            f"The checkout in {root} is damaged ({error}): restore pyproject.toml and "
            f"constraints.txt with git and run the same command again."
        ) from error


def choose_versions(pyproject: dict, pinned: str, torch: str) -> str:
    """Return the constraints for pip: the ``pinned`` ones, made to fit another ``torch``.

    Args:
        pyproject: what pyproject.toml holds.
        pinned: the text of constraints.txt.
        torch: a version, ``NEWEST``, ``LOWEST`` (of all that the course itself uses), or "".
    """
    if not torch:
        return pinned
    if torch != LOWEST:
        lines = [line for line in pinned.splitlines() if line and not line.startswith("#")]
        kept = [line for line in lines if line.partition("==")[0].lower() not in TORCHS_OWN]
        return "\n".join(kept if torch == NEWEST else [*kept, f"torch=={torch}"]) + "\n"
    # What comes along with these, and the tests' own tools, is left to pip: the pinned versions may
    # be too new for old packages.
    project = pyproject.get("project", {})
    extras = project.get("optional-dependencies", {})
    used = [*project.get("dependencies", [])]
    used += [each for extra in USED_BY_THE_COURSE for each in extras.get(extra, [])]
    bounds = re.findall(r"^([\w.-]+)>=([\w.]+)", "\n".join(used), re.MULTILINE)
    return "".join(f"{name}=={bound}\n" for name, bound in bounds)


def fingerprint(root: Path, torch: str = "") -> str:
    """Return a hash of everything in the repository that decides which packages belong in."""
    pyproject, pinned = read_packaging(root)
    constraints = choose_versions(pyproject, pinned, torch).encode()
    packaging = {
        "build-system": pyproject.get("build-system"),
        "project": pyproject.get("project"),
        "setuptools": pyproject.get("tool", {}).get("setuptools"),
    }
    digest = hashlib.sha256(json.dumps(packaging, sort_keys=True).encode())
    digest.update(constraints)
    return digest.hexdigest()


def require_extra(root: Path, extra: str) -> None:
    """Insist that this checkout has an ``extra``; a project may leave it to its own builder.

    Raises:
        SetupError: it has not, and pip would only mention that in passing.
    """
    try:
        project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    except (OSError, ValueError, KeyError):
        return  # told by fingerprint, or by pip
    if extra not in project.get("optional-dependencies", {extra: []}):
        raise SetupError(
            f"This is the students' copy of the course, which has no {extra} tools: use the "
            f"repository that it was published from."
        )


def python_version(venv: Path) -> str | None:
    """Return the version that the environment's Python runs as, None when it does not run."""
    command = [str(find_interpreter(venv)), "-I", "-c", "import pip, platform as p; "]
    command[-1] += "print(p.python_version())"
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip()


def is_sound(venv: Path, record: dict) -> bool:
    """Return whether the environment is whole: finished, unmoved, and of the same Python."""
    if record.get("state") not in ("empty", "ready") or record.get("location") != str(venv):
        return False
    version = python_version(venv)
    minor = version and version.rpartition(".")[0]
    return minor is not None and minor == record.get("python")


def is_ready(record: dict, wanted: dict) -> bool:
    """Return whether a sound environment holds what is ``wanted``."""
    return (
        record.get("state") == "ready"
        and record.get("fingerprint") == wanted["fingerprint"]
        and wanted["torch"] != NEWEST  # which one that is, pip has to be asked
        and EXTRAS.index(record.get("extra", "lab")) >= EXTRAS.index(wanted["extra"])
        and wanted["pip_args"] in ("", record.get("pip_args"))
    )


# --- System packages -------------------------------------------------------------------------


def is_debian() -> bool:
    """Return whether this is Debian itself: elsewhere the same names can mean other packages."""
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        return False
    return release.get("ID") == "debian" and shutil.which("apt-get") is not None


def is_root() -> bool:
    """Return whether this process may install system packages."""
    return hasattr(os, "geteuid") and os.geteuid() == 0


def has_package(package: str, *, itself: bool = False) -> bool:
    """Return whether a package of tests/apt.txt is there, or, unless it is wanted ``itself``,
    another program that serves for it.
    """
    if package in PROGRAMS:
        programs = PROGRAMS[package][:1] if itself else PROGRAMS[package]
        return any(shutil.which(program) for program in programs)
    if shutil.which("dpkg-query") is None:
        return True  # nothing to ask, and nothing that a test could miss by name
    query = ["dpkg-query", "-W", "-f", "${db:Status-Status}", package]
    answer = subprocess.run(query, capture_output=True, text=True, check=False)
    return answer.stdout.strip() == "installed"


def read_system_packages(root: Path) -> list[str]:
    """Return the names in tests/apt.txt; one in the root would be installed by Binder, too."""
    try:
        return (root / "tests" / "apt.txt").read_text(encoding="utf-8").split()
    except FileNotFoundError as error:
        raise SetupError(
            f"There is no tests/apt.txt in {root}: this is the students' copy of the course, "
            f"which is set up by make lab."
        ) from error


def apt_install(package: str, *, update: bool) -> bool:
    """Install one system package; return whether that succeeded."""
    apt = ["apt-get", "-qq", "-o", "Acquire::Retries=1", "-o", "Acquire::http::Timeout=30"]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "env": environment}
    if update:
        subprocess.run([*apt, "update"], check=False, **quiet)
    install = [*apt, "install", "--yes", "--no-install-recommends", package]
    return subprocess.run(install, check=False, **quiet).returncode == 0


def install_system_packages(root: Path) -> None:
    """Install what tests/apt.txt names and this machine lacks; if it cannot, say so and go on."""
    packages = read_system_packages(root)
    missing = [package for package in packages if not has_package(package, itself=True)]
    if missing and is_debian() and is_root():
        say(f"Installing system packages that the tests need: {', '.join(missing)}.")
        # One by one: a package that cannot be had must not keep the others away.
        missing = [p for i, p in enumerate(missing) if not apt_install(p, update=i == 0)]
    missing = [package for package in missing if not has_package(package)]
    if missing:
        say(
            f"Not on this machine: {', '.join(missing)}. Tests that need them are skipped and "
            f"named at the end. On Debian: sudo apt-get install {' '.join(missing)}"
        )


def ensure_venv_module() -> None:
    """Make sure that this Python can make an environment: Debian packs that part apart.

    Raises:
        SetupError: it cannot, and the package could not be installed.
    """
    if has_ensurepip():
        return
    package = f"python{sys.version_info[0]}.{sys.version_info[1]}-venv"
    if is_debian() and is_root():
        say(f"Installing the system package {package}: Python needs it for .venv.")
        if apt_install(package, update=True) and has_ensurepip():
            return
    raise SetupError(
        f"This Python ({sys.executable}) cannot make virtual environments: install the system "
        f"package {package} (on Debian: sudo apt install {package}) and run the same command "
        f"again."
    )


def has_ensurepip() -> bool:
    """Return whether this Python carries the module that puts pip into an environment."""
    importlib.invalidate_caches()
    if importlib.util.find_spec("ensurepip") is None:
        return False
    probe = [sys.executable, "-c", "import ensurepip; ensurepip.version()"]
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0


# --- The environment -------------------------------------------------------------------------


def make_environment(venv: Path, record: dict) -> dict:
    """Make an empty environment where ``venv`` is, in place of a broken one of ours.

    Returns:
        the new record.
    """
    ensure_venv_module()
    if record:
        say(f"The environment in {venv.name} is unfinished or broken: making it again.")
    # The record is written first and goes last, so that a kill never leaves a folder that
    # looks like somebody else's.
    venv.mkdir(parents=True, exist_ok=True)
    write_record(venv, {"state": "new"})
    for child in venv.iterdir():
        if child.name != RECORD:
            shutil.rmtree(child) if child.is_dir() and not child.is_symlink() else child.unlink()
    say(f"Making a virtual environment in {venv} with Python {platform.python_version()}.")
    command = [sys.executable, "-m", "venv", str(venv)]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode != 0:
        reason = " ".join((made.stderr or made.stdout).split())[-300:]
        raise SetupError(f"Python could not make a virtual environment in {venv}: {reason}")
    minor = f"{sys.version_info[0]}.{sys.version_info[1]}"
    fresh = {"state": "empty", "location": str(venv), "python": minor}
    write_record(venv, fresh)
    return fresh


def install_packages(root: Path, venv: Path, record: dict, wanted: dict, lock: TextIO) -> None:
    """Have pip install the course and what it needs into the environment.

    Raises:
        SetupError: pip failed; the old record stands unless pip had begun to write.
    """
    extra = max(record.get("extra", "lab"), wanted["extra"], key=EXTRAS.index)
    pip_args = wanted["pip_args"] or record.get("pip_args", "")
    say(f"Installing the pinned packages ({extra}). The first time this takes some minutes.")
    command = [str(find_interpreter(venv)), "-m", "pip", "install", "--no-input"]
    command += ["--progress-bar=off", "--disable-pip-version-check", "-e", f"{root}[{extra}]"]
    constraints = root / "constraints.txt"
    if wanted["torch"]:
        constraints = venv / CONSTRAINTS
        text = choose_versions(*read_packaging(root), wanted["torch"])
        constraints.write_text(text, encoding="utf-8")
    if wanted["torch"] == NEWEST:
        command += ["--upgrade", "torch"]
    command += ["-c", str(constraints), *shlex.split(pip_args)]

    def begin_unpacking() -> None:
        # A pip killed while unpacking leaves packages that look installed and are not whole.
        write_record(venv, {**record, "state": "unpacking"})

    started = time.monotonic()
    returncode, output = run_pip(command, venv / LOG, begin_unpacking, lock)
    if returncode != 0:
        raise SetupError(explain_pip(output, venv / LOG))
    write_record(venv, {**record, **wanted, "state": "ready", "extra": extra, "pip_args": pip_args})
    say(f"Installed in {format_duration(time.monotonic() - started)}.")


def start_pip(command: list[str], lock: TextIO) -> subprocess.Popen:
    """Start pip with its output in a pipe, whatever the user's own settings say."""
    environment = {**os.environ, "PIP_USER": "0", "PYTHONUNBUFFERED": "1"}
    for name in ("PYTHONHOME", "PYTHONPATH"):
        environment.pop(name, None)
    # pip holds the lock too: if this process is killed and pip lives on, nobody else starts.
    inherited = {} if os.name == "nt" else {"pass_fds": (lock.fileno(),)}
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=environment,
        **inherited,
    )


def run_pip(
    command: list[str], log: Path, on_unpacking: Callable[[], None], lock: TextIO
) -> tuple[int, str]:
    """Run pip with a sign of life on the terminal; return its exit status and its output."""
    lines = []
    with log.open("w", encoding="utf-8") as file, SignOfLife(sys.stdout) as sign:
        with start_pip(command, lock) as process:
            for line in process.stdout:
                if line.startswith("Installing collected packages"):
                    on_unpacking()
                lines.append(line)
                file.write(line)
                file.flush()
                sign.news = line.strip()
        return process.returncode, "".join(lines)


def explain_pip(output: str, log: Path) -> str:
    """Return one sentence for pip's failure: what was wrong and what to do."""
    for marks, sentence in PIP_TROUBLE:
        if any(mark in output for mark in marks):
            return f"pip could not install the packages because {sentence} (details: {log})."
    return (
        f"pip could not install the packages for Python {platform.python_version()} on "
        f"{platform.system()} {platform.machine()} ({find_pip_reason(output)}): see {log}, and "
        f"run the same command again once the cause is gone."
    )


def find_pip_reason(output: str) -> str:
    """Return what pip itself gives as the reason, in one line."""
    conflict = re.search(r"^The conflict is caused by:\n((?: +.+\n)+)", output, re.MULTILINE)
    if conflict:
        return "; ".join(line.strip() for line in conflict[1].splitlines())
    errors = re.findall(r"^ERROR: (.+)$", output, re.MULTILINE)
    return errors[-1].strip().rstrip(".") if errors else "it gave no reason"


# --- Talking ---------------------------------------------------------------------------------


def say(sentence: str) -> None:
    """Print one line of progress at once, also into a pipe."""
    print(sentence, flush=True)


def format_duration(seconds: float) -> str:
    """Return a duration as people say it: "42 s", "3 min 05 s"."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


class SignOfLife:
    """Show that a long step lives: a ticking line on a terminal, a line per minute elsewhere."""

    def __init__(self, stream: TextIO, interval: float | None = None):
        """Write to ``stream``; ``interval`` (seconds) is chosen by what ``stream`` is."""
        self.stream = stream
        self.on_terminal = stream.isatty()
        self.interval = interval or (0.5 if self.on_terminal else MINUTE)
        self.news = ""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._tick, daemon=True)

    def __enter__(self) -> "SignOfLife":
        """Begin."""
        self._started = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End, leaving no half line behind."""
        self._stop.set()
        self._thread.join()
        if self.on_terminal:
            self._write("\r\033[K")

    def _tick(self) -> None:
        while not self._stop.wait(self.interval):
            passed = format_duration(time.monotonic() - self._started)
            if self.on_terminal:
                width = shutil.get_terminal_size().columns - 1
                self._write("\r\033[K" + f"  {passed}  {self.news}"[:width])
            else:
                self._write(f"  still running after {passed}: {self.news[:120]}\n")

    def _write(self, text: str) -> None:
        self.stream.write(text)
        self.stream.flush()


# --- Together --------------------------------------------------------------------------------


def take_lock(root: Path) -> TextIO:
    """Hold this checkout's setup for as long as the returned file is open.

    Raises:
        SetupError: another setup holds it.
    """
    lock = (root / "pyproject.toml").open(encoding="utf-8")
    try:
        import fcntl  # not on Windows, where two setups at once are not caught

        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except ImportError:
        pass
    except OSError as error:
        lock.close()
        if not isinstance(error, BlockingIOError):
            return (root / "pyproject.toml").open(encoding="utf-8")  # no locks on this disk
        raise SetupError(
            f"Another setup is running in {root}: wait until it ends and run the same "
            f"command again."
        ) from error
    return lock


def set_up(root: Path, venv: Path, extra: str, pip_args: str = "", torch: str = "") -> None:
    """Bring the environment to what ``extra`` needs; at once, without pip, if it is there.

    Args:
        root: the checkout, with pyproject.toml and constraints.txt.
        venv: where the environment is or will be.
        extra: one of ``EXTRAS``; an environment that holds more stays as it is.
        pip_args: further arguments for ``pip install``, as in a shell.
        torch: another version than the pinned one, ``NEWEST``, ``LOWEST``, or "".

    Raises:
        SetupError: it cannot; the text says why and what to do.
    """
    require_extra(root, extra)
    wanted = {"fingerprint": fingerprint(root, torch), "extra": extra}
    wanted |= {"pip_args": pip_args.strip(), "torch": torch}
    try:
        shlex.split(pip_args)
    except ValueError as error:
        raise SetupError(f"PIP_ARGS cannot be read ({error}): check its quotes.") from error
    try:
        with take_lock(root) as lock:
            record = read_record(venv)
            sound = is_sound(venv, record)
            if sound and is_ready(record, wanted):
                return
            if not sound:
                record = make_environment(venv, record)
            install_packages(root, venv, record, wanted, lock)
    except OSError as error:
        where = error.filename or venv
        raise SetupError(
            f"Setup cannot write {where} ({error.strerror}): put the checkout into a folder "
            f"that you can write to, on a disk with room, and run the same command again."
        ) from error


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """Return the command line's choices."""
    parser = argparse.ArgumentParser(description="Set up this checkout in .venv.")
    parser.add_argument("extra", choices=EXTRAS, help="whose tools to install")
    parser.add_argument(
        "--system-packages",
        action="store_true",
        help="also install the system packages in tests/apt.txt",
    )
    parser.add_argument("--pip-args", default="", metavar="ARGS", help="passed on to pip install")
    parser.add_argument(
        "--torch", default="", help=f"a version, {NEWEST!r} or {LOWEST!r}; default: the pinned one"
    )
    parser.add_argument(
        "--venv", type=Path, default=ROOT / ".venv", help="the virtual environment; default: .venv"
    )
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    """Run the setup that the command line asks for; return the exit status."""
    options = parse_arguments(argv)
    try:
        if options.system_packages:
            install_system_packages(ROOT)
        set_up(ROOT, options.venv.absolute(), options.extra, options.pip_args, options.torch)
    except SetupError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nStopped: the same command continues from here.", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
