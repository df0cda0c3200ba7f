"""JupyterLab for students and for instructors: really started, really looked at."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from helpers.lab import (
    LabError,
    build_command,
    build_environment,
    choose_port,
    find_running,
    serve_staff,
)

TOKEN = "only-for-this-test"
DEADLINE = 180.0


@pytest.fixture
def taken_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def start(function, folder, home, port, *extra_args):
    """Start a server in its own process group, with a home that nobody has used."""
    program = (
        "import sys\nfrom pathlib import Path\nfrom helpers import lab\n"
        "port = int(sys.argv[3]) if sys.argv[3] else None\n"
        "try:\n    getattr(lab, sys.argv[1])(Path(sys.argv[2]), port, sys.argv[4:])\n"
        "except lab.LabError as error:\n    sys.exit(str(error))\n"
    )
    home.mkdir(exist_ok=True)
    inherited = {name: value for name, value in os.environ.items() if "JUPYTER" not in name}
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        inherited.pop(name, None)
    return subprocess.Popen(
        [sys.executable, "-c", program, function, str(folder), port and str(port), *extra_args],
        stdin=subprocess.DEVNULL,
        stdout=(home / "log").open("wb"),
        stderr=subprocess.STDOUT,
        env={**inherited, "HOME": str(home), "COLUMNS": "200"},
        start_new_session=True,
    )


@contextlib.contextmanager
def running(function, folder, home, *extra_args):
    """Give the address of a server that answers; stop it afterwards, whatever happens."""
    port = free_port()
    extra_args = (f"--IdentityProvider.token={TOKEN}", *extra_args)
    process = start(function, folder, home, str(port), *extra_args)
    address = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + DEADLINE
        while not answers(f"{address}/api"):
            assert process.poll() is None, (home / "log").read_text()
            assert time.monotonic() < deadline, (home / "log").read_text()
            time.sleep(0.05)
        yield address
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def answers(address):
    try:
        with urllib.request.urlopen(address, timeout=5):
            return True
    except OSError:
        return False


def fetch(address, path):
    separator = "&" if "?" in path else "?"
    with urllib.request.urlopen(f"{address}{path}{separator}token={TOKEN}", timeout=30) as reply:
        return reply.read().decode()


def write_notebook(path):
    nbformat = pytest.importorskip("nbformat")
    solution = nbformat.v4.new_code_cell("def f():\n    ### BEGIN SOLUTION\n    return 1\n")
    solution.source += "    ### END SOLUTION"
    test = nbformat.v4.new_code_cell("assert f() == 1")
    shared = {"schema_version": 3, "task": False}
    solution.metadata.nbgrader = {"grade": False, "grade_id": "f", "locked": False} | shared
    solution.metadata.nbgrader["solution"] = True
    test.metadata.nbgrader = {"grade": True, "grade_id": "test-f", "locked": True} | shared
    test.metadata.nbgrader |= {"points": 2, "solution": False}
    path.parent.mkdir(parents=True)
    nbformat.write(nbformat.v4.new_notebook(cells=[solution, test]), path)


@pytest.fixture
def work(tmp_path):
    write_notebook(tmp_path / "work" / "08-numerical-stability" / "numerical-stability.ipynb")
    return tmp_path / "work"


@pytest.fixture
def course(tmp_path):
    folder = tmp_path / "course"
    write_notebook(folder / "source" / "08-numerical-stability" / "numerical-stability.ipynb")
    exchange = folder / "exchange"
    (folder / "nbgrader_config.py").write_text(
        "c = get_config()\n"
        "c.CourseDirectory.course_id = 'bits'\n"
        f"c.Exchange.root = {str(exchange)!r}\n"
    )
    return folder


@pytest.fixture
def page(browser):
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.set_default_timeout(60_000)
    yield page
    page.close()


def test_explicit_port_that_is_taken_is_told_in_one_sentence(work, tmp_path, taken_port):
    process = start("serve_student", work, tmp_path / "home", str(taken_port))
    assert process.wait(timeout=180) == 1
    log = (tmp_path / "home" / "log").read_text()
    assert str(taken_port) in log
    assert "name another one" in log
    assert log.count("\n") == 1


@pytest.mark.parametrize("port", [0, -1, 65_536])
def test_port_that_does_not_exist_is_told_in_one_sentence(port):
    with pytest.raises(LabError, match=f"{port} is not a usable port"):
        choose_port(port)


def test_without_a_port_the_first_free_one_is_taken(monkeypatch, taken_port):
    monkeypatch.setattr("helpers.lab._FIRST_PORT", taken_port)
    chosen = choose_port(None)
    assert chosen > taken_port
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", chosen))


def test_missing_folder_and_wrong_course_folder_are_told_in_one_sentence(tmp_path):
    with pytest.raises(LabError, match=r"no nbgrader_config\.py"):
        serve_staff(tmp_path)
    process = start("serve_student", tmp_path / "nowhere", tmp_path / "home", "")
    assert process.wait(timeout=180) == 1
    assert "There is no folder" in (tmp_path / "home" / "log").read_text()


def test_arguments_are_passed_on_last_and_root_is_allowed(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0, raising=False)
    command = build_command(tmp_path, 9000, ["--no-browser", "--ServerApp.port=9001"])
    assert "--allow-root" in command
    assert command[-2:] == ["--no-browser", "--ServerApp.port=9001"]
    monkeypatch.setattr(os, "geteuid", lambda: 1000, raising=False)
    assert "--allow-root" not in build_command(tmp_path, 9000, [])


def test_browser_is_opened_where_there_is_a_display_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    assert "--no-browser" in build_command(tmp_path, 9000, [])
    monkeypatch.setenv("DISPLAY", ":0")
    assert "--no-browser" not in build_command(tmp_path, 9000, [])


def test_settings_are_whole_and_the_users_own_paths_stay(monkeypatch):
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", "/theirs")
    for who in ("student", "staff"):
        first, second = build_environment(who)["JUPYTER_CONFIG_PATH"].split(os.pathsep)
        assert second == "/theirs"
        files = sorted(Path(first).rglob("*.json"))
        assert len(files) == 3
        assert all(json.loads(file.read_text()) for file in files)


def test_student_server_is_quiet_local_and_writes_nothing_into_the_home(work, tmp_path):
    home = tmp_path / "home"
    with running("serve_student", work, home) as address:
        listing = json.loads(fetch(address, "/api/contents/"))
        said = (home / "log").read_text()
        with pytest.raises(urllib.error.HTTPError, match="404"):
            fetch(address, "/formgrader")
        # Another address of this machine: a server that listens everywhere would answer there.
        assert not answers(address.replace("127.0.0.1", "127.0.0.2") + "/api")
    assert [entry["name"] for entry in listing["content"]] == ["08-numerical-stability"]
    assert said.startswith("Opening JupyterLab on")
    assert said.count("\n") == 1, said
    written = {p.relative_to(home).parts[0] for p in home.rglob("*") if p.is_file()}
    assert written <= {".jupyter", ".local", "log"}
    settings = [p.name for p in home.rglob("*") if p.is_file() and ".jupyter" in p.parts]
    assert settings in ([], ["migrated"])


def test_a_server_that_runs_on_the_folder_is_opened_instead_of_a_second_one(work, tmp_path):
    home = tmp_path / "home"
    with running("serve_student", work, home) as address:
        again = start("serve_student", work, home, "")
        assert again.wait(timeout=180) == 0
        log = (home / "log").read_text()
        assert f"JupyterLab runs on {work} already: {address}/lab?token={TOKEN}" in log


def test_the_note_of_a_server_that_was_killed_stops_nobody(work, tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    note = {"url": f"http://127.0.0.1:{free_port()}/", "root_dir": str(work), "pid": os.getpid()}
    (tmp_path / "jpserver-1.json").write_text(json.dumps(note))
    assert find_running(work) is None


@pytest.mark.needs_system("chromium-headless-shell")
def test_student_sees_the_chapters_and_nothing_of_course_administration(work, tmp_path, page):
    errors, requests = [], []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("response", lambda r: errors.append(f"{r.status} {r.url}") if r.status >= 400 else None)
    page.on("request", lambda r: requests.append(r.url))
    with running("serve_student", work, tmp_path / "home") as address:
        page.goto(f"{address}/lab?token={TOKEN}")
        page.get_by_text("08-numerical-stability").first.wait_for()
        page.locator(".jp-Launcher").wait_for()
        menus = page.locator(".lm-MenuBar-itemLabel").all_inner_texts()
        text = page.locator("body").inner_text()
    assert "File" in menus
    assert "Nbgrader" not in menus
    assert "Create Assignment" not in text
    assert "Would you like" not in text
    assert errors == []
    strangers = [r for r in requests if not r.startswith((address, "data:", "blob:", "ws:"))]
    assert strangers == []


@pytest.mark.needs_system("chromium-headless-shell")
def test_instructor_reaches_the_formgrader_from_the_menu(course, tmp_path, page):
    pytest.importorskip("nbgrader")
    with running("serve_staff", course, tmp_path / "home") as address:
        page.goto(f"{address}/lab?token={TOKEN}")
        page.locator(".jp-Launcher").wait_for()
        page.locator(".lm-MenuBar-itemLabel", has_text="Nbgrader").click()
        page.get_by_role("menuitem", name="Formgrader").first.click()
        row = page.frame_locator("iframe").get_by_text("08-numerical-stability")
        row.first.wait_for()
        assert "Would you like" not in page.locator("body").inner_text()
    log = (tmp_path / "home" / "log").read_text()
    assert "Formgrader" in log
    assert "No nbgrader_config.py" not in log
    assert "Unwritable" not in log
