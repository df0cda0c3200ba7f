"""Setup: the real commands, in folders of their own, in every state a machine can be in.

The project that is set up here is a small one with a build backend of its own, so that nothing
comes from the network.
"""

import ast
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import bootstrap

ROOT = Path(__file__).resolve().parent.parent
DEADLINE = 120.0

BACKEND = """
import pathlib, zipfile

MANY = int(pathlib.Path("many.txt").read_text())

def build_editable(folder, config_settings=None, metadata_directory=None):
    name = "bits_demo-1.0-py3-none-any.whl"
    info = "bits_demo-1.0.dist-info"
    requires = pathlib.Path("requires.txt").read_text()
    files = {f"bits_demo_parts/part{i}.py": f"part = {i}" for i in range(MANY)}
    files |= {
        "bits_demo.py": "import sys\\ndef main():\\n    print('bits', *sys.argv[1:])\\n",
        f"{info}/METADATA": "Metadata-Version: 2.1\\nName: bits-demo\\nVersion: 1.0\\n"
        "Provides-Extra: lab\\nProvides-Extra: instructor\\nProvides-Extra: maintainer\\n"
        + requires,
        f"{info}/WHEEL": "Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\n"
        "Tag: py3-none-any\\n",
        f"{info}/entry_points.txt": "[console_scripts]\\nbits = bits_demo:main\\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{n},,\\n" for n in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(pathlib.Path(folder) / name, "w") as wheel:
        for file, text in files.items():
            wheel.writestr(file, text)
    return name
"""
PYPROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "bits-demo"
version = "1.0"
"""


@pytest.fixture
def project(tmp_path):
    """A checkout that has not been set up."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "tests").mkdir()
    for name in ("bootstrap.py", "Makefile", "tests/apt.txt"):
        shutil.copy(ROOT / name, folder / name)
    (folder / "backend.py").write_text(BACKEND)
    (folder / "pyproject.toml").write_text(PYPROJECT)
    (folder / "constraints.txt").write_text("")
    (folder / "requires.txt").write_text("")
    (folder / "many.txt").write_text("0")
    return folder


def offline():
    """Return an environment in which pip reaches nothing, whatever this machine is set to."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "MAKE"))}
    environment["PIP_CONFIG_FILE"] = os.devnull
    environment["PIP_INDEX_URL"] = "http://127.0.0.1:1/simple"
    environment["PIP_RETRIES"] = "1"  # five of them, pip's own choice, would take their time
    return environment


def run(project, *arguments, **extra):
    command = [sys.executable, "bootstrap.py", *(arguments or ["lab"])]
    return run_command(command, project, **extra)


def run_command(command, folder, **extra):
    environment = offline() | extra
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def sentence(done):
    """Return the one line on stderr of a run that gave up as it should."""
    assert done.returncode == 1, done
    assert done.stderr.count("\n") == 1, done
    assert "Traceback" not in done.stdout + done.stderr
    return done.stderr.strip()


def read_record(project):
    return json.loads((project / ".venv" / "bits-setup.json").read_text())


def is_usable(project):
    program = project / ".venv" / "bin" / "bits"
    if not program.exists():
        return False
    done = subprocess.run([program, "works"], capture_output=True, text=True, check=False)
    return done.stdout == "bits works\n"


def test_everything_needed_is_set_up_once_and_again_only_when_it_changes(project):
    first = run(project)
    assert first.returncode == 0, first
    assert is_usable(project)
    assert 3 <= first.stdout.count("\n") <= 6
    log = project / ".venv" / "bits-setup.log"
    log.unlink()

    assert run(project).stdout == ""
    assert not log.exists(), "pip ran, with nothing to do"

    (project / "constraints.txt").write_text("numpy==2.4.6\n")
    assert "Installing" in run(project).stdout
    log.unlink()
    assert run(project).stdout == ""

    # More tools are an addition; asking for fewer afterwards is nothing to do.
    assert "(maintainer)" in run(project, "maintainer").stdout
    assert run(project, "lab").stdout == ""
    assert read_record(project)["extra"] == "maintainer"

    # Tool settings decide nothing about packages.
    (project / "pyproject.toml").write_text(PYPROJECT + "[tool.ruff]\nline-length = 90\n")
    assert run(project).stdout == ""


def test_arguments_for_pip_are_passed_on_and_remembered(project):
    assert run(project, "lab", "--pip-args=--no-compile --retries '3'").returncode == 0
    assert read_record(project)["pip_args"] == "--no-compile --retries '3'"
    assert run(project).stdout == ""
    assert "No such option" not in sentence(run(project, "lab", "--pip-args='"))
    done = run(project, "lab", "--pip-args=--no-such-option")
    assert "no such option" in (project / ".venv" / "bits-setup.log").read_text()
    assert sentence(done)


def test_no_network_at_first_is_told_and_the_next_run_goes_on(project):
    (project / "requires.txt").write_text("Requires-Dist: packaging-that-is-not-there\n")
    told = sentence(run(project))
    assert "the first setup needs the network" in told
    assert "run the same command again" in told
    (project / "requires.txt").write_text("")
    again = run(project)
    assert again.returncode == 0
    assert "making it again" not in again.stdout
    assert is_usable(project)


def test_update_without_network_leaves_the_old_environment_as_it_was(project):
    assert run(project).returncode == 0
    (project / "requires.txt").write_text("Requires-Dist: packaging-that-is-not-there\n")
    (project / "constraints.txt").write_text("numpy==2.4.6\n")
    assert "needs the network" in sentence(run(project))
    assert is_usable(project)
    (project / "constraints.txt").write_text("")
    assert run(project).stdout == ""


def test_package_that_cannot_be_had_is_named(project, tmp_path):
    (tmp_path / "wheels").mkdir()
    (project / "requires.txt").write_text("Requires-Dist: packaging-that-is-not-there\n")
    done = run(project, PIP_NO_INDEX="1", PIP_FIND_LINKS=str(tmp_path / "wheels"))
    told = sentence(done)
    assert "packaging-that-is-not-there" in told
    assert "bits-setup.log" in told


def kill_when(project, condition):
    """Start a setup, kill all of it when its record says so, and return the record."""
    process = subprocess.Popen(
        [sys.executable, "bootstrap.py", "lab"],
        cwd=project,
        env=offline(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + DEADLINE
    try:
        while True:
            assert process.poll() is None, "the setup was over too soon to be killed"
            assert time.monotonic() < deadline
            try:
                record = read_record(project)
            except (OSError, ValueError):
                record = {}
            if condition(record):
                return record
            time.sleep(0.002)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.parametrize("state", ["new", "unpacking"])
def test_set_up_that_was_killed_is_finished_next_time(project, state):
    (project / "many.txt").write_text("4000")
    kill_when(project, lambda record: record.get("state") == state)
    (project / "many.txt").write_text("0")
    again = run(project)
    assert again.returncode == 0, again
    assert "making it again" in again.stdout
    assert is_usable(project)
    parts = list((project / ".venv").rglob("bits_demo_parts"))
    assert parts == [], "what the killed pip had unpacked is still there"


def test_two_set_ups_at_once_are_not_started(project):
    fcntl = pytest.importorskip("fcntl")
    with (project / "pyproject.toml").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert "Another setup is running" in sentence(run(project))
    assert not (project / ".venv").exists()


def test_moved_checkout_gets_a_new_environment(project):
    assert run(project).returncode == 0
    moved = project.with_name("moved")
    project.rename(moved)
    done = run(moved)
    assert done.returncode == 0
    assert "making it again" in done.stdout
    assert is_usable(moved)


def test_environment_whose_python_is_gone_is_made_afresh(project):
    assert run(project).returncode == 0
    python = project / ".venv" / "bin" / "python"
    python.unlink()
    python.symlink_to("/nowhere/python3")
    assert "making it again" in run(project).stdout
    assert is_usable(project)


@pytest.mark.parametrize("what", ["file", "folder", "environment", "dangling link"])
def test_something_of_the_users_in_place_of_the_environment_is_left_alone(project, what):
    venv = project / ".venv"
    if what == "file":
        venv.write_text("mine")
    elif what == "dangling link":
        venv.symlink_to(project / "nowhere")
    else:
        venv.mkdir()
        (venv / ("pyvenv.cfg" if what == "environment" else "notes")).write_text("mine")
    before = sorted(str(path) for path in project.rglob("*"))
    told = sentence(run(project))
    assert str(venv) in told
    assert "left alone" in told
    assert sorted(str(path) for path in project.rglob("*")) == before


@pytest.mark.parametrize("where", ["below a file", "/proc"])
def test_folder_that_cannot_be_written_is_told_in_one_sentence(project, where):
    if where == "/proc" and sys.platform != "linux":
        pytest.skip("/proc is Linux's")
    venv = project / "Makefile" / ".venv" if where == "below a file" else Path("/proc/bits/.venv")
    told = sentence(run(project, "lab", "--venv", str(venv)))
    assert "cannot write" in told
    assert "run the same command again" in told


def test_damaged_checkout_is_told_in_one_sentence(project):
    (project / "pyproject.toml").write_text("[project\n")
    assert "restore pyproject.toml" in sentence(run(project))
    (project / "pyproject.toml").write_text(PYPROJECT)
    (project / "constraints.txt").unlink()
    assert "constraints.txt" in sentence(run(project))


def test_python_that_is_too_old_is_told_in_one_sentence(project):
    program = (
        "import runpy, sys\n"
        "sys.version_info = (3, 9, 2, 'final', 0)\n"
        "runpy.run_path('bootstrap.py', run_name='__main__')\n"
    )
    told = sentence(run_command([sys.executable, "-c", program], project))
    assert "needs Python 3.11 or newer and this is Python 3.9" in told
    assert "make lab PYTHON=" in told
    assert not (project / ".venv").exists()


def test_old_pythons_can_read_the_file_as_far_as_they_must():
    ast.parse((ROOT / "bootstrap.py").read_text(), feature_version=(3, 6))


def fake_command(folder, name, script):
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("#!/bin/sh\n" + script)
    (folder / name).chmod(0o755)
    return folder


def test_python_without_venv_is_told_which_package_to_install(project, tmp_path):
    (tmp_path / "lame").mkdir()
    (tmp_path / "lame" / "ensurepip.py").write_text("raise ImportError('packed apart')\n")
    # As root on Debian it would be installed; here that fails, as it does without network.
    commands = fake_command(tmp_path / "commands", "apt-get", "exit 100\n")
    path = f"{commands}{os.pathsep}{os.environ['PATH']}"
    done = run(project, PYTHONPATH=str(tmp_path / "lame"), PATH=path)
    package = f"python{sys.version_info[0]}.{sys.version_info[1]}-venv"
    assert f"sudo apt install {package}" in sentence(done)
    assert not (project / ".venv").exists()


@pytest.fixture
def machine(project, tmp_path, monkeypatch):
    """A machine without any system package, where apt-get installs all but chromium."""
    log = tmp_path / "apt.log"
    script = f'echo "$*" >> {log}\ncase "$*" in *chromium*) exit 100;; esac\nexit 0\n'
    fake_command(tmp_path / "commands", "apt-get", script)
    monkeypatch.setenv("PATH", f"{tmp_path / 'commands'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(bootstrap, "has_package", lambda package, itself=False: False)
    monkeypatch.setattr(bootstrap, "is_debian", lambda: True)
    monkeypatch.setattr(bootstrap, "is_root", lambda: True)
    log.write_text("")
    return log


def test_root_on_debian_has_each_missing_package_installed_and_is_told(project, machine, capsys):
    bootstrap.install_system_packages(project)
    update, *installs = machine.read_text().splitlines()
    assert update.endswith(" update")
    assert [line.split()[-1] for line in installs] == bootstrap.read_system_packages(project)
    said = capsys.readouterr().out
    assert "Installing system packages" in said
    assert re.search(r"Not on this machine: chromium-headless-shell\.", said)


@pytest.mark.parametrize("lacking", ["is_debian", "is_root"])
def test_others_are_told_what_is_missing_and_how_to_get_it(
    project, machine, capsys, monkeypatch, lacking
):
    monkeypatch.setattr(bootstrap, lacking, lambda: False)
    bootstrap.install_system_packages(project)
    assert machine.read_text() == ""
    assert "sudo apt-get install" in capsys.readouterr().out


def test_nothing_is_said_where_nothing_is_missing(project, machine, capsys, monkeypatch):
    monkeypatch.setattr(bootstrap, "has_package", lambda package, itself=False: True)
    bootstrap.install_system_packages(project)
    assert (machine.read_text(), capsys.readouterr().out) == ("", "")


def test_any_program_that_serves_counts_as_the_package(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    package = "chromium-headless-shell"
    assert not bootstrap.has_package(package)
    fake_command(tmp_path, "google-chrome", "exit 0\n")
    assert bootstrap.has_package(package)
    assert not bootstrap.has_package(package, itself=True)
    fake_command(tmp_path, package, "exit 0\n")
    assert bootstrap.has_package(package, itself=True)


def test_where_the_package_itself_cannot_be_had_a_program_that_serves_will_do(
    project, machine, capsys, monkeypatch
):
    monkeypatch.setattr(bootstrap, "has_package", lambda package, itself=False: not itself)
    bootstrap.install_system_packages(project)
    assert "chromium-headless-shell" in machine.read_text()
    assert "Not on this machine" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("output", "told"),
    [
        ("x: Failed to establish a new connection: refused", "needs the network"),
        ("ERROR: Could not install: [Errno 28] No space left on device", "the disk is full"),
        ("ERROR: [Errno 13] Permission denied: '/x'", "a folder cannot be written to"),
        ("ERROR: a\nERROR: No matching distribution found for torch==2.13.0", "torch==2.13.0"),
        (
            "The conflict is caused by:\n    a 1 depends on b>=2\n    The user requested "
            "(constraint) b==1\n\nERROR: ResolutionImpossible: for help visit a page\n",
            "(a 1 depends on b>=2; The user requested (constraint) b==1)",
        ),
        ("", "it gave no reason"),
    ],
)
def test_what_pip_says_becomes_one_sentence(output, told, tmp_path):
    answer = bootstrap.explain_pip(output, tmp_path / "log")
    assert told in answer
    assert str(tmp_path / "log") in answer
    assert "\n" not in answer


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(("stream", "mark"), [(io.StringIO, "still running"), (Terminal, "\r")])
def test_long_step_shows_that_it_lives(stream, mark):
    screen = stream()
    with bootstrap.SignOfLife(screen, interval=0.01) as sign:
        sign.news = "Downloading torch"
        deadline = time.monotonic() + DEADLINE
        while "Downloading torch" not in screen.getvalue():
            assert time.monotonic() < deadline
            time.sleep(0.005)
    assert mark in screen.getvalue()
    assert screen.getvalue().endswith("\r\033[K" if stream is Terminal else "\n")


def test_duration_reads_as_people_say_it():
    assert [bootstrap.format_duration(s) for s in (0.4, 42, 185)] == ["0 s", "42 s", "3 min 05 s"]


def test_make_lab_passes_port_and_arguments_on(project):
    command = ["make", "lab", f"PYTHON={sys.executable}", "PORT=9000", "ARGS=--no-browser"]
    done = run_command(command, project)
    assert done.returncode == 0, done
    assert done.stdout.splitlines()[-1] == "bits lab --port 9000 --no-browser"
    again = run_command(["make", "lab", f"PYTHON={sys.executable}"], project)
    assert again.stdout == "bits lab\n"


PINNED = "# why\nnumpy==2.4.6\nsympy==1.14.0\ntorch==2.13.0\ntwine==7.0.0\n"
BOUNDS = {
    "project": {
        "dependencies": ["torch>=2.4", "numpy>=1.26"],
        "optional-dependencies": {
            "lab": ["rich>=13.7"],
            "instructor": ["demo[lab]", "math-core>=0.9,<1"],
            "maintainer": ["demo[instructor]", "twine>=6.1"],
        },
    }
}


@pytest.mark.parametrize(
    ("torch", "expected"),
    [
        ("", PINNED),
        ("2.4.1", "numpy==2.4.6\ntwine==7.0.0\ntorch==2.4.1\n"),
        ("newest", "numpy==2.4.6\ntwine==7.0.0\n"),
        ("lowest", "torch==2.4\nnumpy==1.26\nrich==13.7\nmath-core==0.9\n"),
    ],
)
def test_versions_are_the_pinned_ones_but_for_torch_or_the_lowest_that_are_promised(
    torch, expected
):
    assert bootstrap.choose_versions(BOUNDS, PINNED, torch) == expected


def test_every_lower_bound_of_the_course_is_found():
    pyproject, pinned = bootstrap.read_packaging(ROOT)
    lowest = bootstrap.choose_versions(pyproject, pinned, "lowest").splitlines()
    project = pyproject["project"]
    extras = [project["optional-dependencies"][name] for name in bootstrap.USED_BY_THE_COURSE]
    wanted = [*project["dependencies"], *(each for extra in extras for each in extra)]
    others = [each for each in wanted if not each.startswith("bits-and-gradients[")]
    assert len(lowest) == len(others)


def test_another_torch_has_an_environment_of_its_own(project):
    (project / "constraints.txt").write_text(PINNED)
    assert run(project).returncode == 0
    other = ["lab", "--torch", "2.4.1", "--venv", "build/torch-2.4.1/venv"]
    assert run(project, *other).returncode == 0
    venv = project / "build" / "torch-2.4.1" / "venv"
    assert "torch==2.4.1" in (venv / "bits-constraints.txt").read_text().splitlines()
    assert "Installing" not in run(project, *other).stdout
    assert read_record(project)["torch"] == ""
    changed = ["lab", "--torch", "2.9.1", "--venv", "build/torch-2.4.1/venv"]
    assert "Installing" in run(project, *changed).stdout


def test_make_test_takes_another_torch_where_it_is_told_to(project):
    shutil.copy(ROOT / "staff.mk", project)
    plan = run_command(["make", "-n", "test", "TORCH=2.4.1"], project).stdout
    assert "maintainer --torch '2.4.1' --venv build/torch-2.4.1/venv" in plan
    assert "build/torch-2.4.1/venv/bin/python -m pytest" in plan
    assert "--nbval-lax course/source" in plan
    assert ".venv/bin" not in plan
    assert "--torch" not in run_command(["make", "-n", "test"], project).stdout


def declared_targets(name):
    """Return the targets that one of the repository's makefiles declares, in its order."""
    text = (ROOT / name).read_text()
    declared = re.search(r"^\.PHONY: (.*)$", text, flags=re.MULTILINE)[1].split()
    assert sorted(declared) == sorted(set(re.findall(r"^([a-z-]+):", text, flags=re.MULTILINE)))
    return sorted(declared, key=lambda target: re.search(f"^{target}:", text, re.M).start())


def test_make_says_what_the_staff_can_type_where_that_is_there(project):
    shutil.copy(ROOT / "staff.mk", project)
    page = run_command(["make"], project).stdout
    targets = re.findall(r"^  make ([a-z-]+) ", page, flags=re.MULTILINE)
    assert targets == declared_targets("Makefile") + declared_targets("staff.mk")
    done = run_command(["make", "staff", f"PYTHON={sys.executable}"], project)
    assert done.stdout.splitlines()[-1] == "bits staff"


def test_make_says_what_there_is_and_what_is_missing(project):
    page = run_command(["make"], project).stdout
    targets = re.findall(r"^  make ([a-z-]+) ", page, flags=re.MULTILINE)
    assert targets == declared_targets("Makefile")
    done = run_command(["make", "lab", "PYTHON=python-of-nobody"], project)
    assert done.returncode != 0
    assert "There is no command 'python-of-nobody'" in done.stderr


def test_make_clean_leaves_work_and_environment(project):
    kept = [project / "work" / "__pycache__" / "mine", project / ".venv" / "__pycache__" / "x"]
    gone = [project / "build" / "book", project / "helpers" / "__pycache__" / "x"]
    for path in kept + gone:
        path.parent.mkdir(parents=True)
        path.write_text("")
    assert run_command(["make", "clean"], project).returncode == 0
    assert [path.exists() for path in kept + gone] == [True, True, False, False]


def test_tests_not_run_are_the_last_thing_on_the_screen(tmp_path):
    (tmp_path / "test_demo.py").write_text(
        "import pytest\n"
        "@pytest.mark.needs_system('chromium-headless-shell')\n"
        "def test_page(): pass\n"
        "def test_plain(): pass\n"
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers\n")
    path = f"{ROOT}{os.pathsep}{ROOT / 'tests'}"
    command = [sys.executable, "-m", "pytest", "-p", "system_packages", "-p", "no:cacheprovider"]
    nothing = {"PATH": str(tmp_path), "PYTHONPATH": path}
    done = run_command(command, tmp_path, **nothing)
    assert done.returncode == 0, done
    *_, summary, title, test, advice = done.stdout.splitlines()
    assert "1 passed, 1 skipped" in summary
    assert "1 TESTS NOT RUN" in title
    assert test == "NOT RUN  test_demo.py::test_page  (needs chromium-headless-shell)"
    assert advice == "To run them, on Debian: sudo apt-get install chromium-headless-shell"
    fake_command(tmp_path, "chromium", "exit 0\n")
    assert "NOT RUN" not in run_command(command, tmp_path, **nothing).stdout


def test_package_that_apt_txt_does_not_name_is_an_error(tmp_path):
    (tmp_path / "test_demo.py").write_text(
        "import pytest\n@pytest.mark.needs_system('emacs')\ndef test_page(): pass\n"
    )
    path = f"{ROOT}{os.pathsep}{ROOT / 'tests'}"
    command = [sys.executable, "-m", "pytest", "-p", "system_packages", "-p", "no:cacheprovider"]
    done = run_command(command, tmp_path, PYTHONPATH=path)
    assert done.returncode == 4
    assert "add it to tests/apt.txt" in done.stdout + done.stderr
