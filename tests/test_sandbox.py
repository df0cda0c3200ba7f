"""The sandbox, attacked from inside: each attack is a small script, and none gets out."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from course_files import ROOT
from waiting import wait_until

import helpers
from helpers.grading.sandbox import attendant, sandbox
from helpers.grading.sandbox.cgroups import make_cgroup
from helpers.grading.sandbox.mounts import View
from helpers.grading.sandbox.sandbox import Limits, Sandbox, SandboxError

pytestmark = pytest.mark.needs_system("bubblewrap")

MIB = 1024**2
# Small, so that an attack that gets through does no harm to the machine.
SMALL = Limits(
    memory_bytes=512 * MIB, processes=40, cpu_seconds=20, wall_seconds=60, disk_bytes=16 * MIB
)
BIG_OUTPUT = replace(SMALL, output_bytes=8 * MIB)
# Both ways to hold memory and processes, whatever this machine has.
WAYS = pytest.mark.parametrize(
    "limits", [SMALL, replace(SMALL, use_cgroups=False)], ids=["control-groups", "watch"]
)


@dataclass(frozen=True)
class Ended:
    """A sandbox after its end."""

    output: str
    status: int
    reason: str | None
    seconds: float


def run_inside(code: str, view: View | None = None, limits: Limits = SMALL) -> Ended:
    started = time.monotonic()
    with Sandbox(python(code), view, limits) as running:
        status = running.wait(60)
        return Ended(
            running.output, status, running.why_it_was_stopped(), time.monotonic() - started
        )


def ask_inside(code: str, view: View | None = None, limits: Limits = SMALL) -> object:
    """Run code that prints one JSON value, and return it."""
    ended = run_inside(code, view, limits)
    assert ended.status == 0, ended.output
    return json.loads(ended.output)


def python(code: str) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(code)]


def attempt(code: str) -> str:
    """Return the name of the error that ``code`` raises inside; "done" if it raises none."""
    body = textwrap.indent(textwrap.dedent(code), "    ")
    ended = run_inside(
        "import os, socket, ctypes, fcntl, sys\n"
        f"try:\n{body}\n    print('done')\n"
        "except OSError as error:\n    print(type(error).__name__, error.errno)\n"
    )
    assert ended.status == 0, ended.output
    return ended.output.strip()


def processes_marked(mark: str) -> list[int]:
    """Return the processes of this machine with ``mark`` on their command line."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if mark.encode() in entry.read_bytes():
                found.append(int(entry.parent.name))
    return found


def own_cgroups() -> set[Path]:
    """Return the groups of this process's sandboxes; other tests may have left a warm one."""
    return set(Path("/sys/fs/cgroup").glob(f"**/bits-sandbox-{os.getpid()}-*"))


# --- What works ------------------------------------------------------------------------------


def test_there_is_a_sandbox_on_this_machine() -> None:
    sandbox.check_available()


def test_a_notebooks_imports_and_a_training_step_work_and_say_nothing() -> None:
    code = """
        import matplotlib.pyplot as plt, numpy, torch, helpers
        from helpers import checks
        model = torch.nn.Linear(8, 3)
        model(torch.randn(4, 8)).logsumexp(1).sum().backward()
        plt.plot([1, 2]); plt.title("a title"); plt.savefig("figure.png")
        print(tuple(model.weight.grad.shape))
    """
    ended = run_inside(code, limits=replace(SMALL, memory_bytes=2048 * MIB, processes=100))
    assert (ended.output, ended.status, ended.reason) == ("(3, 8)\n", 0, None)


def test_data_files_are_there_to_read_and_nothing_else_is_in_the_folder(tmp_path: Path) -> None:
    (tmp_path / "numbers.csv").write_text("1,2,3")
    (tmp_path / "other.csv").write_text("4,5,6")
    code = """
        import json, os
        try: open("numbers.csv", "a")
        except OSError as error: refused = error.errno
        open("mine.txt", "w").write("x")
        print(json.dumps([open("numbers.csv").read(), refused, sorted(os.listdir("."))]))
    """
    answer = ask_inside(code, View(data=(tmp_path / "numbers.csv",)))
    assert answer == ["1,2,3", 30, ["mine.txt", "numbers.csv"]]
    assert (tmp_path / "numbers.csv").read_text() == "1,2,3"


def test_a_shared_folder_is_the_way_out_and_a_descriptor_can_be_handed_in(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    code = f"import os; open({str(tmp_path / 'out')!r}, 'w').write('a'); os.write({writing}, b'b')"
    view = View(shared=(tmp_path,))
    with Sandbox(python(code), view, SMALL, pass_fds=[writing]) as running:
        os.close(writing)
        assert running.wait(30) == 0, running.output
    assert (tmp_path / "out").read_text() == "a"
    assert os.read(reading, 10) == b"b"
    os.close(reading)


def test_it_outlives_the_thread_that_started_it() -> None:
    started: list[Sandbox] = []
    code = "import sys, time; print('up', flush=True); time.sleep(600)"
    thread = threading.Thread(target=lambda: started.append(Sandbox(python(code), None, SMALL)))
    thread.start()
    thread.join()
    with started[0] as running:
        assert wait_until(lambda: "up" in running.output)
        with pytest.raises(subprocess.TimeoutExpired):
            running.wait(0.5)


def test_an_interrupt_reaches_the_command_and_bwrap_lives_on() -> None:
    code = """
        import time
        print("up", flush=True)
        try: time.sleep(600)
        except KeyboardInterrupt: print("interrupted", flush=True)
        time.sleep(600)
    """
    with Sandbox(python(code), None, SMALL) as running:
        assert wait_until(lambda: "up" in running.output)
        running.send_signal(signal.SIGINT)
        assert wait_until(lambda: "interrupted" in running.output)
        assert running.process.poll() is None
    running.send_signal(signal.SIGINT)  # to nobody: no error


def test_a_command_that_is_not_there_is_said_so() -> None:
    with Sandbox(["/nowhere/program"], None, SMALL) as running:
        assert running.wait(30) != 0
    assert "/nowhere/program cannot be run in the sandbox" in running.output


# --- What it sees ----------------------------------------------------------------------------


def test_the_course_is_not_there_but_for_helpers_without_the_staffs_side() -> None:
    code = f"""
        import json, os
        seen = [os.path.join(at, name) for at, folders, files in os.walk({str(ROOT)!r})
                for name in folders + files]
        print(json.dumps(seen))
    """
    seen = [Path(path).relative_to(ROOT) for path in ask_inside(code, limits=BIG_OUTPUT)]
    environment = Path(sys.prefix)
    if environment.is_relative_to(ROOT):
        inside = environment.relative_to(ROOT)
        seen = [path for path in seen if inside not in (path, *path.parents)]
        seen = [path for path in seen if path not in inside.parents]
    assert {path.parts[0] for path in seen} == {"helpers"}
    assert Path("helpers/checks.py") in seen
    for package in ("grading", "authoring"):
        assert [p for p in seen if p.parts[1:2] == (package,)] == [Path("helpers", package)]


def test_no_folder_of_the_host_is_there_but_programs_and_packages() -> None:
    code = "import json, os; print(json.dumps([os.listdir('/'), os.listdir('/etc')]))"
    top, etc = ask_inside(code)
    packages = {Path(path).parts[1] for path in (sys.prefix, sys.base_prefix, ROOT)}
    system = {"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "etc"}
    assert set(top) <= packages | system | {"proc", "dev", "tmp", "home"}
    assert not {"shadow", "ssl", "ssh", "machine-id", "hostname"} & set(etc)


def test_secrets_in_home_tmp_and_run_cannot_be_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("the answers")
    home = next(Path.home().iterdir(), Path.home())
    for path in (secret, home, Path("/run"), Path("/var"), Path("/sys"), Path("/etc/shadow")):
        assert attempt(f"os.stat({str(path)!r})") in ("FileNotFoundError 2",), path


def test_a_hidden_folder_below_a_visible_one_is_empty(tmp_path: Path) -> None:
    (tmp_path / "course").mkdir()
    for path in (tmp_path / "package.txt", tmp_path / "course" / "tests.txt"):
        path.write_text("x")
    code = f"import json, os; print(json.dumps([*os.walk({str(tmp_path)!r})]))"
    seen = ask_inside(code, View(readable=(tmp_path,), hidden=(tmp_path / "course",)))
    assert [(names, files) for _, names, files in seen] == [(["course"], ["package.txt"]), ([], [])]


def test_an_environment_inside_a_hidden_folder_is_visible(tmp_path: Path) -> None:
    environment = tmp_path / "course" / ".venv"
    environment.mkdir(parents=True)
    for path in (environment / "package.txt", tmp_path / "course" / "tests.txt"):
        path.write_text("x")
    code = f"import json, os; print(json.dumps([*os.walk({str(tmp_path)!r})]))"
    view = View(readable=(tmp_path, environment), hidden=(tmp_path / "course",))
    seen = ask_inside(code, view)
    assert [names + files for _, names, files in seen] == [["course"], [".venv"], ["package.txt"]]


def test_our_environment_variables_and_descriptors_stay_outside(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("A_TOKEN_OF_OURS", "secret")
    held = os.open(tmp_path, os.O_RDONLY)
    os.set_inheritable(held, True)
    code = """
        import json, os
        # One of them is the listing's own.
        print(json.dumps([dict(os.environ), len(os.listdir("/proc/self/fd")), os.getcwd()]))
    """
    environment, descriptors, folder = ask_inside(code)
    os.close(held)
    assert environment["HOME"] == "/home/student"
    assert folder == "/home/student/work"
    assert "secret" not in environment.values()
    fixed = {"PATH", "HOME", "USER", "LANG", "TMPDIR", "PWD", "OMP_NUM_THREADS", "LC_CTYPE"}
    fixed |= {"PYTHONPATH", "PYTHONUSERBASE", "PYTHONDONTWRITEBYTECODE"}
    assert set(environment) <= fixed | {"MPLBACKEND", "MPLCONFIGDIR"}
    assert descriptors == 4


def test_it_is_nobody_of_ours_without_rights() -> None:
    code = """
        import json, os, socket
        status = dict(line.split(":\\t") for line in open("/proc/self/status") if ":\\t" in line)
        rights = {status[name].strip() for name in ("CapPrm", "CapEff", "CapInh", "CapAmb")}
        print(json.dumps([os.getuid(), os.getgid(), socket.gethostname(), sorted(rights),
                          status["NoNewPrivs"].strip(), os.getsid(0) == os.getsid(os.getppid())]))
    """
    uid, gid, host, rights, no_new, _ = ask_inside(code)
    assert (uid, gid, host, rights, no_new) == (1000, 1000, "sandbox", ["0" * 16], "1")


# --- Other processes and the network ---------------------------------------------------------


def test_no_process_outside_is_seen_or_can_be_signaled() -> None:
    code = """
        import json, os
        print(json.dumps([name for name in os.listdir("/proc") if name.isdigit()]))
    """
    assert set(ask_inside(code)) == {"1", "2"}
    assert attempt(f"os.kill({os.getpid()}, 0)") == "ProcessLookupError 3"
    assert attempt(f"open('/proc/{os.getpid()}/mem', 'rb')") == "FileNotFoundError 2"


def test_another_sandbox_is_out_of_reach() -> None:
    with Sandbox(python("import time; print('up', flush=True); time.sleep(600)")) as other:
        assert wait_until(lambda: "up" in other.output)
        assert other.command_pid is not None
        path = f"/proc/{other.command_pid}"
        assert attempt(f"os.stat({path!r})") == "FileNotFoundError 2"
        assert other.process.poll() is None


def test_its_first_process_cannot_be_killed_from_inside() -> None:
    # The kernel drops signals to a pid namespace's first process that come from within.
    code = """
        import os, signal
        os.kill(1, signal.SIGKILL)
        print(os.getppid())
    """
    assert run_inside(code).output == "1\n"


def test_the_network_is_not_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        connect = f"socket.create_connection(('127.0.0.1', {port}), timeout=5)"
        assert attempt(connect) == "ConnectionRefusedError 111"
        listener.settimeout(0.1)
        with pytest.raises(TimeoutError):
            listener.accept()
    assert attempt("socket.create_connection(('192.0.2.1', 53), timeout=5)") == "OSError 101"
    assert attempt("socket.getaddrinfo('example.org', 80)").startswith("gaierror")


def test_an_abstract_unix_socket_of_ours_cannot_be_reached() -> None:
    name = f"\0bits-{secrets.token_hex(8)}"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(name)
        listener.listen()
        connect = f"socket.socket(socket.AF_UNIX).connect({name!r})"
        assert attempt(connect) == "ConnectionRefusedError 111"


def test_shared_memory_is_its_own() -> None:
    name = f"bits-{secrets.token_hex(8)}"
    outside = Path("/dev/shm", name)
    outside.write_text("ours")
    try:
        assert attempt(f"os.stat('/dev/shm/{name}')") == "FileNotFoundError 2"
        assert attempt(f"open('/dev/shm/{name}', 'w').write('theirs')") == "done"
        assert outside.read_text() == "ours"
    finally:
        outside.unlink()


def test_our_session_keyring_is_out_of_reach() -> None:
    # Outside, a key in a session keyring of its own; inside, a search for it (KEYCTL_SEARCH, 10)
    # in the session keyring (-3). The numbers are those of x86-64 and 64-bit ARM.
    numbers = {"x86_64": (248, 250), "aarch64": (217, 219)}
    if os.uname().machine not in numbers:
        pytest.skip("no table of system calls for this processor")
    add_key, keyctl = numbers[os.uname().machine]
    look = f"""
        import ctypes
        found = ctypes.CDLL(None).syscall({keyctl}, 10, -3, b"user", b"bits-secret", 0)
        print(found > 0)
    """
    script = f"""
        import ctypes, sys
        sys.path[:0] = [{str(ROOT)!r}]
        call = ctypes.CDLL(None).syscall
        call({keyctl}, 1, None)
        assert call({add_key}, b"user", b"bits-secret", b"x", 1, -3) > 0
        from helpers.grading.sandbox.sandbox import Sandbox
        exec({textwrap.dedent(look)!r})
        with Sandbox([sys.executable, "-c", {textwrap.dedent(look)!r}]) as running:
            running.wait(60)
        print(running.output)
    """
    answer = subprocess.run(python(script), capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["True", "False"]


# --- Breaking out ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "/new",
        "/dev/new",
        "/etc/passwd",
        "/usr/new",
        f"{Path(helpers.__file__).parent}/new.py",
        f"{Path(helpers.__file__).parent}/checks.py",
        f"{Path(pytest.__file__).parent}/__init__.py",
        f"{sys.prefix}/new",
        f"{ROOT}/new",
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/kernel/hostname",
        "/proc/sysrq-trigger",
    ],
)
def test_nothing_that_lasts_can_be_written(path: str) -> None:
    before = stat_or_none(path)
    outcome = attempt(f"open({path!r}, 'a').close()")
    assert stat_or_none(path) == before
    # Inside, /tmp is a private folder in memory: what is written there is gone with it.
    if not Path(path).is_relative_to("/tmp"):
        assert outcome in (
            "OSError 30",
            "PermissionError 13",
            "PermissionError 1",
            "FileNotFoundError 2",
        )


def stat_or_none(path: str) -> tuple[int, int] | None:
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns


@pytest.mark.parametrize("nested", [False, True])
def test_no_setting_of_the_system_can_be_written(nested: bool) -> None:
    code = """
        import json, os
        writable = [
            os.path.join(at, name)
            for at, folders, files in os.walk("/proc")
            for name in files
            if not at.split("/")[2:3] or not (at.split("/")[2].isdigit() or "self" in at)
            if os.access(os.path.join(at, name), os.W_OK)
        ]
        print(json.dumps([writable, os.path.exists("/proc/sys/kernel/core_pattern")]))
    """
    assert ask_inside(code, View(nested_namespaces=nested)) == [[], True]


@pytest.mark.parametrize(
    "call",
    [
        "unshare(0x10000000)",  # CLONE_NEWUSER
        "unshare(0x00020000)",  # CLONE_NEWNS
        "unshare(0x40000000)",  # CLONE_NEWNET
        "mount(b'none', b'/tmp', b'tmpfs', 0, None)",
        "mount(b'none', b'/', None, 32, None)",  # MS_REMOUNT: writable again
        "umount2(b'/usr', 2)",
        "chroot(b'/tmp')",
        "setuid(0)",
        "sethostname(b'x', 1)",
    ],
)
def test_a_system_call_that_needs_rights_is_refused(call: str) -> None:
    code = f"""
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.{call} == -1:
            raise OSError(ctypes.get_errno(), "refused")
    """
    assert attempt(code) != "done"


def test_namespaces_inside_are_allowed_when_asked_for() -> None:
    code = "import ctypes; print(ctypes.CDLL(None).unshare(0x10000000))"
    assert run_inside(code, View(nested_namespaces=True)).output == "0\n"
    assert run_inside(code).output == "-1\n"


def test_nothing_can_be_typed_into_our_terminal() -> None:
    # TIOCSTI puts a character into a terminal's input, as if it had been typed.
    code = """
        terminal = os.open("/dev/tty", os.O_RDWR)
        fcntl.ioctl(terminal, 0x5412, b"x")
    """
    assert attempt(code).split()[0] in ("OSError", "PermissionError")
    controlling, terminal = os.openpty()
    script = f"""
        import os, sys, fcntl, termios
        os.setsid()
        fcntl.ioctl({terminal}, termios.TIOCSCTTY, 0)
        sys.path[:0] = [{str(ROOT)!r}]
        from helpers.grading.sandbox.sandbox import Sandbox
        with Sandbox([sys.executable, "-c", "open('/dev/tty')"]) as running:
            running.wait(60)
        print("No such device" in running.output)
    """
    answer = subprocess.run(
        python(script), capture_output=True, text=True, check=True, pass_fds=[terminal]
    )
    os.close(controlling)
    os.close(terminal)
    assert answer.stdout == "True\n"


# --- Taking all there is ---------------------------------------------------------------------


MILD_BOMB = """
    import os, time
    started = 0
    try:
        for _ in range(150):
            if os.fork() == 0:
                time.sleep(600)
                os._exit(0)
            started += 1
    except OSError:
        pass
    print(started, flush=True)
    time.sleep(3 if started < 150 else 600)  # what the kernel does not refuse is ended
"""


@WAYS
def test_processes_are_capped(limits: Limits) -> None:
    ended = run_inside(MILD_BOMB, limits=limits)
    # Refused by the kernel, or all ended by the watch: it is for root, whom no limit of the
    # kernel's holds, where there are no control groups.
    in_group = limits.use_cgroups and "control groups (v" in sandbox.describe_limits(limits)
    by_kernel = in_group or os.geteuid() != 0
    assert (ended.status == 0) is by_kernel
    if by_kernel:
        assert int(ended.output) < limits.processes
    if in_group or not by_kernel:
        assert ended.reason == "it started more than 40 processes"


@WAYS
def test_a_fork_bomb_ends_with_its_sandbox(limits: Limits) -> None:
    test_processes_are_capped(limits)  # a mild one first: without a cap, no further
    mark = secrets.token_hex(8)
    code = f"""
        import os, time  # {mark}
        for _ in range(9):  # at the very most 512 processes
            try: os.fork()
            except OSError: time.sleep(0.01)
        time.sleep(2)
    """
    ended = run_inside(code, limits=limits)
    assert "ran longer" not in (ended.reason or "")
    assert wait_until(lambda: not processes_marked(mark))


@WAYS
def test_a_memory_bomb_dies_alone_and_soon(limits: Limits) -> None:
    code = """
        kept = []
        while sum(map(len, kept)) < 4 * 1024**3:
            kept.append(b"x" * 10_000_000)
        print("got it all")
    """
    ended = run_inside(code, limits=limits)
    assert ended.status != 0
    assert "got it all" not in ended.output
    assert ended.reason == "it used more than 512 MiB of memory"
    assert run_inside("print('the next one')", limits=limits).output == "the next one\n"


@WAYS
def test_memory_shared_out_over_processes_counts_as_one(limits: Limits) -> None:
    code = """
        import os, time
        for _ in range(8):
            if os.fork() == 0:
                kept = b"x" * 100_000_000
                time.sleep(600)
        try:
            while os.wait()[1] == 0: pass
            print("a child was killed")
        except ChildProcessError: pass
    """
    ended = run_inside(code, limits=limits)
    assert ended.reason == "it used more than 512 MiB of memory"


@pytest.mark.parametrize("folder", ["/tmp", "/dev/shm", "/home/student", "/home/student/work"])
def test_the_disk_it_has_is_ram_and_small(folder: str) -> None:
    code = f"""
        written = 0
        try:
            for number in range(64):
                with open(f"{folder}/{{number}}", "wb") as file:
                    written += file.write(bytes(1024**2))
        except OSError as error:
            print(error.errno, written <= {SMALL.disk_bytes})
    """
    assert run_inside(code).output == "28 True\n"


def test_filling_a_shared_folder_ends_the_sandbox(tmp_path: Path) -> None:
    view, limits = View(shared=(tmp_path,)), replace(SMALL, shared_bytes=4 * MIB)
    code = f"""
        import time
        with open({str(tmp_path / "big")!r}, "wb", 0) as file:
            for _ in range(8): file.write(bytes(1024**2))
        time.sleep(600)
    """
    ended = run_inside(code, view, limits)
    assert ended.reason == "it filled a folder that it shares with us"
    (tmp_path / "big").unlink()
    code = f"import time\nfor i in range(2000): open('{tmp_path}/%d' % i, 'w')\ntime.sleep(600)"
    assert run_inside(code, view).reason == "it filled a folder that it shares with us"


def test_a_file_grows_no_further_than_allowed(tmp_path: Path) -> None:
    limits = replace(SMALL, shared_bytes=32 * MIB)
    code = f"""
        import signal
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        try:
            with open({str(tmp_path / "big")!r}, "wb", 0) as file: file.truncate(64 * 1024**2)
        except OSError as error: print(error.errno)
    """
    assert run_inside(code, View(shared=(tmp_path,)), limits).output == "27\n"


def test_300_mb_of_output_are_read_and_forgotten() -> None:
    code = """
        import sys
        for _ in range(300): sys.stdout.write("x" * 1024**2)
    """
    ended = run_inside(code)
    assert ended.status == 0
    assert ended.output == "x" * SMALL.output_bytes + "\n[cut here]"


def test_open_files_are_capped() -> None:
    code = """
        kept = []
        try:
            while len(kept) < 10_000: kept.append(open("/dev/null"))
        except OSError as error: print(error.errno, len(kept) < 1024)
    """
    assert run_inside(code).output == "24 True\n"


def test_processor_time_is_capped() -> None:
    limits = replace(SMALL, cpu_seconds=1, wall_seconds=280)
    ended = run_inside("while True: pass", limits=limits)
    assert ended.status in (128 + signal.SIGXCPU, 128 + signal.SIGKILL)
    assert "ran longer" not in (ended.reason or "")


def test_sleeping_for_ever_is_capped() -> None:
    ended = run_inside("import time; time.sleep(600)", limits=replace(SMALL, wall_seconds=0.5))
    assert ended.reason == "it ran longer than 0.5 s"
    assert ended.status != 0


def test_a_crash_leaves_no_core_file() -> None:
    code = """
        import json, resource
        print(json.dumps(resource.getrlimit(resource.RLIMIT_CORE)))
    """
    assert ask_inside(code) == [0, 0]


# --- Outliving us ----------------------------------------------------------------------------

SURVIVOR = """
    import os, signal, sys, time
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_IGN)
            print("survivor is up", flush=True)
            time.sleep(600)
        os._exit(0)
"""


def test_what_a_command_leaves_behind_dies_with_it() -> None:
    mark = secrets.token_hex(8)
    ended = run_inside(f"{textwrap.dedent(SURVIVOR)}\nos.wait()\n# {mark}")
    assert ended.status == 0
    assert wait_until(lambda: not processes_marked(mark))


def test_closing_kills_everything_and_leaves_nothing() -> None:
    before = own_cgroups()
    mark = secrets.token_hex(8)
    code = f"{textwrap.dedent(SURVIVOR)}\ntime.sleep(600)\n# {mark}"
    with Sandbox(python(code), None, SMALL) as running:
        assert wait_until(lambda: "survivor is up" in running.output)
        assert len(processes_marked(mark)) >= 2
    assert wait_until(lambda: not processes_marked(mark))
    assert own_cgroups() <= before
    running.close()  # a second time: no error


def test_killing_the_one_who_started_it_kills_everything() -> None:
    mark = secrets.token_hex(8)
    inner = f"{textwrap.dedent(SURVIVOR)}\ntime.sleep(600)\n# {mark}"
    script = f"""
        import sys, time
        sys.path[:0] = [{str(ROOT)!r}]
        from helpers.grading.sandbox.sandbox import Sandbox
        running = Sandbox([sys.executable, "-c", {inner!r}])
        while "survivor is up" not in running.output: time.sleep(0.02)
        print("started", flush=True)
        time.sleep(600)
    """
    starter = subprocess.Popen(python(script), stdout=subprocess.PIPE)
    try:
        assert starter.stdout.readline() == b"started\n"
        assert len(processes_marked(mark)) >= 3
    finally:
        starter.kill()
        starter.wait()
        starter.stdout.close()
    assert wait_until(lambda: not processes_marked(mark))


def test_a_group_of_a_killed_starter_is_taken_away_by_the_next() -> None:
    before = own_cgroups()
    script = f"""
        import os, sys
        sys.path[:0] = [{str(ROOT)!r}]
        from helpers.grading.sandbox.cgroups import make_cgroup
        group = make_cgroup(2**28, 10)
        print(os.getpid(), group is not None, flush=True)
        os._exit(1)
    """
    answer = subprocess.run(python(script), capture_output=True, text=True, check=False)
    pid, made = answer.stdout.split()
    if made == "False":
        pytest.skip("no control groups can be made here")
    assert list(Path("/sys/fs/cgroup").glob(f"**/bits-sandbox-{pid}-*"))
    group = make_cgroup(2**28, 10)
    assert group is not None
    group.remove()
    assert not list(Path("/sys/fs/cgroup").glob(f"**/bits-sandbox-{pid}-*"))
    assert own_cgroups() <= before


# --- Control groups, version 2 ---------------------------------------------------------------


def test_version_2_takes_the_nearest_group_that_delegates(tmp_path: Path) -> None:
    top = tmp_path / "cgroup"
    session = top / "user.slice" / "app.slice"
    own = session / "terminal.scope"
    own.mkdir(parents=True)
    for folder, handed in ((top, "cpu memory pids"), (session, "memory pids"), (own, "")):
        (folder / "cgroup.subtree_control").write_text(handed)
        (folder / "cgroup.procs").write_text("")
    proc = tmp_path / "proc"
    proc.mkdir()
    (proc / "cgroup").write_text("0::/user.slice/app.slice/terminal.scope\n")
    line = f"31 24 0:27 / {top} rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
    (proc / "mountinfo").write_text("24 1 0:1 / / rw - ext4 /dev/sda rw\n" + line)
    group = make_cgroup(256 * MIB, 30, proc)
    assert group is not None
    assert group.version == 2
    (folder,) = set(group.folders.values())
    assert folder.parent == session
    assert (folder / "memory.max").read_text() == str(256 * MIB)
    assert (folder / "pids.max").read_text() == "30"
    assert group.entrances == (str(folder / "cgroup.procs"),)
    (folder / "memory.events").write_text("low 0\noom 2\noom_kill 1\n")
    assert group.count_memory_kills()
    (session / "cgroup.subtree_control").write_text("pids")
    (top / "user.slice" / "cgroup.subtree_control").write_text("")
    (top / "cgroup.subtree_control").write_text("cpu")
    assert make_cgroup(256 * MIB, 30, proc) is None


def test_what_holds_is_said() -> None:
    assert re.search(
        r"^Sandbox: 4096 MiB of memory and 256 processes, held by control groups \(v[12]\); "
        r"|control groups are not available, so memory is watched ten times a second",
        sandbox.describe_limits(),
    )
    without = sandbox.describe_limits(replace(SMALL, use_cgroups=False))
    assert "512 MiB of memory and 40 processes" in without
    assert "watched ten times a second" in without
    assert "in pipes and sockets is not counted" in without


def test_a_processor_without_a_filter_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "build_filter", lambda: b"")
    for limits in (SMALL, replace(SMALL, use_cgroups=False)):
        assert "No system call is refused" in sandbox.describe_limits(limits)


def test_the_watch_finds_the_whole_tree_and_counts_shared_pages_once() -> None:
    code = """
        import os, sys, time
        kept = bytearray(b"x") * 100_000_000
        for _ in range(3):
            if os.fork() == 0: time.sleep(600)
        print("up", flush=True)
        time.sleep(600)
    """
    with Sandbox(python(code), None, SMALL) as running:
        assert wait_until(lambda: "up" in running.output)
        pids = attendant.find_descendants(running.process.pid)
        assert running.command_pid in pids
        assert len(pids) == 6
        assert 90 * MIB < attendant.measure_memory(pids) < 200 * MIB
        assert attendant.count_threads(pids) == 6


HIDDEN_MEMORY = {
    "files in all its folders": """
        for number in range(60):
            for folder in ("/tmp", "/dev/shm", os.path.expanduser("~"), "."):
                open(f"{folder}/{number}", "wb").write(bytes(8 * 2**20))
    """,
    "files that are deleted": """
        kept = []
        for number in range(240):
            folder = ("/tmp", "/dev/shm", os.path.expanduser("~"), ".")[number % 4]
            kept.append(open(f"{folder}/file", "wb", 0))
            kept[-1].write(bytes(2**23))
            os.unlink(f"{folder}/file")
    """,
    "what it shares and does not look at": """
        kept = []
        for number in range(240):
            kept.append(mmap.mmap(-1, 2**23))
            kept[-1].write(bytes(2**23))
            kept[-1].madvise(mmap.MADV_DONTNEED)
    """,
    "what only a child has mapped": """
        areas = [mmap.mmap(-1, 2**27) for _ in range(14)]
        if os.fork(): os.wait()
        for area in areas:
            for _ in range(16): area.write(bytes(2**23))
    """,
    "tables of addresses": """
        libc = ctypes.CDLL(None)
        libc.mmap.restype = ctypes.c_void_p
        numbers = [ctypes.c_int] * 3 + [ctypes.c_long]
        libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + numbers
        size = 2**40  # a page of a table for each 2 MiB: 2 GiB
        start = libc.mmap(None, size, 1, 0x4022, -1, 0)
        libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(size), 15)  # no large pages
        for at in range(start, start + size, 2**21): ctypes.string_at(at, 1)
    """,
}  # fmt: skip


@WAYS
@pytest.mark.parametrize("code", HIDDEN_MEMORY.values(), ids=HIDDEN_MEMORY.keys())
def test_memory_that_belongs_to_no_process_is_counted(code: str, limits: Limits) -> None:
    limits = replace(limits, disk_bytes=500 * MIB)
    begin = "import ctypes, mmap, os, time\n"
    ended = run_inside(
        begin + textwrap.dedent(code) + "\ntime.sleep(40)\nprint('got it')", None, limits
    )
    assert ended.reason == "it used more than 512 MiB of memory"
    assert "got it" not in ended.output


@WAYS
@pytest.mark.parametrize(
    "call",
    ["memfd_create(b'x', 0)", "shmget(0, 2**30, 0o1600)", "msgget(0, 0o1600)", "unshare(1 << 28)"],
)
def test_what_could_not_be_counted_is_refused(call: str, limits: Limits) -> None:
    code = f"import ctypes; print(ctypes.CDLL(None).{call})"
    assert run_inside(code, None, limits).output == "-1\n"


# --- Where there is none ---------------------------------------------------------------------


def one_sentence(error: SandboxError) -> str:
    text = str(error)
    assert text.endswith(".")
    assert "\n" not in text
    return text


def test_without_bubblewrap_one_sentence_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SandboxError) as raised:
        sandbox.check_available()
    assert "sudo apt install bubblewrap" in one_sentence(raised.value)


def test_elsewhere_than_on_linux_one_sentence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(SandboxError) as raised:
        sandbox.check_available()
    assert "only Linux has" in one_sentence(raised.value)


def fake_bwrap(folder: Path, said: str) -> None:
    program = folder / "bwrap"
    version = 'if [ "$1" = --version ]; then echo bubblewrap 0.9.0; exit 0; fi'
    program.write_text(f"#!/bin/sh\n{version}\necho 'bwrap: {said}' >&2\nexit 1\n")
    program.chmod(0o755)


@pytest.mark.parametrize(
    ("settings", "advice"),
    [
        (
            {"kernel/apparmor_restrict_unprivileged_userns": "1"},
            "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
        ),
        (
            {"kernel/unprivileged_userns_clone": "0"},
            "sysctl -w kernel.unprivileged_userns_clone=1",
        ),
        ({"user/max_user_namespaces": "0"}, "sysctl -w user.max_user_namespaces="),
        ({}, "as in most containers"),
    ],
)
def test_where_namespaces_are_forbidden_one_sentence_says_what_allows_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, settings: dict[str, str], advice: str
) -> None:
    before = own_cgroups()
    fake_bwrap(tmp_path, "setting up uid map: Permission denied")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(sandbox, "_read_setting", lambda name: settings.get(name, ""))
    with pytest.raises(SandboxError) as raised:
        sandbox.check_available()
    assert "setting up uid map: Permission denied" in one_sentence(raised.value)
    assert advice in str(raised.value)
    assert own_cgroups() <= before


def test_an_old_bubblewrap_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\necho bubblewrap 0.6.1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(SandboxError) as raised:
        sandbox.check_available()
    assert "bubblewrap 0.6 is too old" in one_sentence(raised.value)
