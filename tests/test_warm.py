"""The warm process and its kernels: what a kernel sees, what it leaves, and how it ends."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import select
import signal
import struct
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from course_files import ROOT
from waiting import wait_until

from helpers.grading.inside.syscalls import build_filter
from helpers.grading.inside.wire import Name, Probe
from helpers.grading.judge.warm import (
    Kernel,
    KernelEndedError,
    KernelLimits,
    WarmProcess,
    WarmProcessLostError,
)
from helpers.grading.sandbox import sandbox
from helpers.grading.sandbox.attendant import find_descendants
from helpers.reading import tables

pytestmark = pytest.mark.needs_system("bubblewrap")

MIB = 2**20
LIMITS = KernelLimits(memory_bytes=768 * MIB, processes=60, disk_bytes=16 * MIB)
DATA = {"numbers.csv": b"1,2,3", "pictures/one.txt": b"a picture"}
MARK = f"bits-mark-{secrets.token_hex(6)}"
# Found by what it is, since nothing of it is called by a name that a kernel could look for.
CHANNEL = """
import os, socket, stat
(_fd,) = [n for n in range(3, 64) if os.path.exists(f"/proc/self/fd/{n}")
          and stat.S_ISSOCK(os.stat(f"/proc/self/fd/{n}").st_mode)]
"""


@pytest.fixture(scope="module")
def held() -> Iterator[list[WarmProcess]]:
    processes: list[WarmProcess] = []
    yield processes
    for process in processes:
        process.close()


@pytest.fixture
def warm(held: list[WarmProcess]) -> WarmProcess:
    """A warm process; the same one for as long as it lives."""
    if not held or not held[-1].is_alive:
        held.append(WarmProcess(LIMITS, DATA))
    return held[-1]


@pytest.fixture
def kernel(warm: WarmProcess) -> Iterator[Kernel]:
    one = warm.start_kernel(seed=1)
    yield one
    one.close()


def run(kernel: Kernel, code: str, seconds: float = 20.0) -> dict[str, Any]:
    message = {"do": "run", "code": textwrap.dedent(code), "seconds": seconds}
    return kernel.request(message, kernel.clock(seconds + 2))


def tell(kernel: Kernel, code: str) -> Any:
    """Run code that prints one JSON value, and return it."""
    answer = run(kernel, code)
    assert [output["kind"] for output in answer["outputs"]] == ["stream"], answer
    return json.loads(answer["outputs"][0]["text"])


def call(kernel: Kernel, function: Name | Probe, *args: Any) -> dict[str, Any]:
    message = {"do": "call", "function": function, "args": list(args), "kwargs": {}}
    return kernel.request(message, kernel.clock(12))


def marked() -> list[int]:
    """Return the processes of this machine with our mark on their command line."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if MARK.encode() in entry.read_bytes():
                found.append(int(entry.parent.name))
    return found


def processes_of(warm: WarmProcess) -> set[int]:
    # A kernel of an earlier test may still be about to end: what comes later is less, never more.
    return set(find_descendants(warm._sandbox.process.pid))


# --- What a kernel sees -----------------------------------------------------------------------


def test_it_runs_cells_and_answers_calls(kernel: Kernel) -> None:
    assert run(kernel, "import torch\ndef double(x): return 2 * x\n1 + 1")["outputs"] == [
        {"kind": "data", "data": {"text/plain": "2"}, "count": 1}
    ]
    answer = call(kernel, Name("double"), 21)
    assert (answer["value"], answer["problem"]) == (42, "")
    assert call(kernel, Name("triple"), 1)["problem"] == "triple is not defined"
    assert call(kernel, Probe("after_call"), Name("double"), 1)["value"]["output"] == 2


def test_it_sees_no_process_but_its_own(kernel: Kernel) -> None:
    code = """
        import json, os
        print(json.dumps([
            sorted(n for n in os.listdir("/proc") if n.isdigit()),
            [pid for pid in range(1, 400) if os.path.exists(f"/proc/{pid}")],
        ]))
    """
    assert tell(kernel, code) == [[], []]


def test_its_descriptors_are_its_channel_and_nothing(kernel: Kernel) -> None:
    code = CHANNEL + textwrap.dedent("""
        import json
        links = [os.readlink(f"/proc/self/fd/{n}") for n in range(64)
                 if os.path.lexists(f"/proc/self/fd/{n}")]
        print(json.dumps([link for link in links if link != "/dev/null"]))
    """)
    (link,) = tell(kernel, code)
    assert link.startswith("socket:")


def test_one_kernel_leaves_nothing_for_the_next(warm: WarmProcess) -> None:
    fill = """
        import os, socket
        for folder in ("/tmp", "/dev/shm", os.path.expanduser("~"), "."):
            open(f"{folder}/left", "w").write("x" * 10_000)
            os.makedirs(f"{folder}/below/it")
        os.environ["LEFT"] = "yes"
        import torch, builtins
        torch.left = builtins.left = "yes"
        here = socket.socket(socket.AF_UNIX)
        here.bind("\\0left")
        here.listen()
    """
    look = """
        import builtins, json, os, torch
        folders = ("/tmp", "/dev/shm", os.path.expanduser("~"), ".")
        seen = {folder: sorted({*os.listdir(folder)} - {".cache"}) for folder in folders}
        print(json.dumps([
            seen, "LEFT" in os.environ, hasattr(torch, "left"), hasattr(builtins, "left"),
            "left" in open("/proc/self/net/unix").read(),
        ]))
    """
    first = warm.start_kernel(seed=1)
    found = tell(first, look)
    assert run(first, fill)["outputs"] == []
    first.close()
    # The checkout itself may lie in /tmp.
    empty = {**found[0], "/dev/shm": [], ".": ["numbers.csv", "pictures"]}
    second = warm.start_kernel(seed=1)
    assert tell(second, look) == found == [empty, False, False, False, False]
    second.close()


def test_no_key_is_handed_from_one_kernel_to_the_next(warm: WarmProcess) -> None:
    code = """
        import ctypes, json, platform
        libc = ctypes.CDLL(None)
        add, control = {"x86_64": (248, 250), "aarch64": (217, 219)}[platform.machine()]
        rings = (-3, -4, -5)  # of the session, of the user, of the user's session
        print(json.dumps([libc.syscall(control, 10, r, b"user", b"left", 0) > 0 for r in rings]))
        for ring in rings: libc.syscall(add, b"user", b"left", b"secret", 6, ring)
    """
    for _ in range(2):
        one = warm.start_kernel(seed=1)
        tell(one, code)
        assert tell(one, code) == [False, False, False]
        one.close()


def test_data_files_are_there_to_read_alone(kernel: Kernel) -> None:
    code = """
        import json, os
        refused = []
        for path in ("numbers.csv", "pictures/one.txt", "pictures/new.txt"):
            for attempt in (lambda: open(path, "a"), lambda: os.remove(path)):
                try: attempt(); refused.append(False)
                except OSError: refused.append(True)
        print(json.dumps([open("numbers.csv").read(), open("pictures/one.txt").read(), refused]))
    """
    assert tell(kernel, code) == ["1,2,3", "a picture", [True] * 6]


def test_its_disk_is_small_and_its_own(kernel: Kernel) -> None:
    code = """
        import json, os
        def fill(path):
            try:
                with open(path, "wb") as file:
                    for _ in range(64): file.write(bytes(2**20))
            except OSError as error: return error.errno
        folders = ("/tmp", "/dev/shm", ".", "/dev", "/", "/proc")
        print(json.dumps([fill(f"{folder}/big") for folder in folders]))
    """
    refused = tell(kernel, code)
    assert set(refused[:3]) <= {errno.EFBIG, errno.ENOSPC}
    assert all(refused[3:])


def test_each_kernel_has_random_numbers_of_its_own(warm: WarmProcess) -> None:
    code = """
        import json, random, numpy as np, torch, secrets
        print(json.dumps([random.random(), np.random.rand(), torch.rand(()).item(),
                          np.random.default_rng().random(), secrets.token_hex()]))
    """
    drawn = []
    for seed in (1, 2, 1):
        one = warm.start_kernel(seed)
        drawn.append(tell(one, code))
        one.close()
    assert drawn[0][:3] == drawn[2][:3]
    assert all(a != b for a, b in zip(drawn[0], drawn[1], strict=True))
    assert drawn[0][3:] != drawn[2][3:]


def test_it_has_no_rights(kernel: Kernel) -> None:
    code = """
        import ctypes, json, os
        libc = ctypes.CDLL(None, use_errno=True)
        status = dict(line.split(":\\t", 1) for line in open("/proc/self/status") if ":\\t" in line)
        rights = [int(status[f"Cap{kind}"], 16) for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")]
        calls = {
            "umount /proc": lambda: libc.umount2(b"/proc", 2),
            "umount the package": lambda: libc.umount2(os.fsencode(PACKAGE), 2),
            "mount": lambda: libc.mount(b"tmpfs", b"/tmp", b"tmpfs", 0, None),
            "remount": lambda: libc.mount(None, b"/", None, 0x20 | 0x1000, None),
            "pivot_root": lambda: libc.syscall(155, b"/", b"/"),
            "chroot": lambda: libc.chroot(b"/tmp"),
            "sethostname": lambda: libc.sethostname(b"x", 1),
            "setuid": lambda: libc.setuid(0),
            "unshare mounts": lambda: libc.unshare(0x20000),
        }
        allowed = [name for name, call in calls.items() if call() == 0]
        print(json.dumps([rights, status["NoNewPrivs"].strip(), allowed]))
    """
    package = str(ROOT / "helpers" / "grading" / "inside")
    assert tell(kernel, code.replace("PACKAGE", repr(package))) == [[0] * 5, "1", []]


def test_a_user_namespace_of_its_own_uncovers_nothing(kernel: Kernel) -> None:
    code = f"""
        import ctypes, json, os
        libc = ctypes.CDLL(None, use_errno=True)
        inside = {str(ROOT / "helpers" / "grading" / "inside")!r}
        seen = []
        if libc.unshare(0x10000000 | 0x20000) == 0:
            for folder in ("/proc", inside, os.path.expanduser("~"), "/tmp", "/dev/shm"):
                while libc.umount2(os.fsencode(folder), 2) == 0:
                    pass
            libc.mount(b"proc", b"/tmp", b"proc", 0, None)
        for folder in ("/proc", "/tmp"):
            seen += [name for name in os.listdir(folder) if name.isdigit()]
        seen += os.listdir(inside)
        print(json.dumps(seen))
    """
    assert tell(kernel, code) == []


def test_it_reaches_into_no_other_process(kernel: Kernel) -> None:
    code = """
        import ctypes, json, os, signal
        libc = ctypes.CDLL(None, use_errno=True)
        me, first = os.getpid(), os.getppid()
        buffer = ctypes.create_string_buffer(8)
        parts = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), 8)
        reached = []
        for pid in range(1, 200):
            if pid == me: continue
            if libc.ptrace(16, pid, None, None) == 0: reached.append(["ptrace", pid])
            if libc.process_vm_readv(pid, parts, 1, parts, 1, 0) > 0: reached.append(["read", pid])
            for number in (signal.SIGKILL, signal.SIGSTOP, signal.SIGINT, signal.SIGTERM):
                try: os.kill(pid, number); reached.append(["kill", pid]) if pid != first else None
                except OSError: pass
            for file in ("mem", "maps", "environ", "fd", "cwd", "root"):
                if os.path.exists(f"/proc/{pid}/{file}"): reached.append([file, pid])
        print(json.dumps([first, reached]))
    """
    assert tell(kernel, code) == [1, []]
    assert tell(kernel, "print(1)") == 1


def test_there_is_no_network(kernel: Kernel) -> None:
    code = """
        import json, socket
        reached = []
        for address in (("127.0.0.1", 22), ("1.1.1.1", 53), ("10.0.2.2", 80)):
            try: socket.create_connection(address, 1); reached.append(address)
            except OSError: pass
        print(json.dumps([reached, socket.if_nameindex()]))
    """
    assert tell(kernel, code) == [[], [[1, "lo"]]]


def test_it_looks_like_a_notebook(kernel: Kernel) -> None:
    code = """
        import gc, json, sys, __main__
        ours = {"wire", "kernel", "namespaces", "warm_process"}
        print(json.dumps([
            sorted(ours & set(sys.modules)), [m for m in sys.modules if "grading" in m],
            sys.argv, "" in sys.path, __name__, __main__.__dict__ is globals(),
            type(get_ipython()).__mro__[1].__name__, gc.isenabled(),
            [n for n in globals() if n[0] != "_" and n not in ("gc", "json", "sys", "ours")],
        ]))
    """
    assert tell(kernel, code) == [
        *([], [], ["ipykernel_launcher.py"], False, "__main__", True, "InteractiveShell", True),
        ["In", "Out", "get_ipython", "exit", "quit", "open"],
    ]


def test_a_module_that_is_written_takes_the_place_of_none_that_is_plain(kernel: Kernel) -> None:
    names = sorted((tables.WHOLE | tables.PARTS.keys()) - {"probes"})
    own = [name for name in names if name.split(".")[0] not in tables.LIBRARIES]
    code = f"import json, sys\nprint(json.dumps([n for n in {own} if n not in sys.modules]))"
    assert tell(kernel, code) == []


def test_a_name_that_python_alone_would_read_runs_no_program(kernel: Kernel) -> None:
    (output,) = run(kernel, 'sx ("touch" "/tmp/there")')["outputs"]
    assert (output["kind"], output["name"]) == ("error", "NameError")


def test_the_warm_process_has_one_thread(warm: WarmProcess) -> None:
    assert warm.threads == 1
    one = warm.start_kernel(seed=1)
    code = """
        import json, os, torch
        x = torch.randn(300, 300, requires_grad=True)
        (x @ x).logsumexp(1).sum().backward()
        print(json.dumps([len(os.listdir("/proc/self/task")), torch.get_num_threads()]))
    """
    assert tell(one, code) == [1, 1]
    one.close()


def test_what_notebooks_do_works(kernel: Kernel) -> None:
    code = """
        import multiprocessing, torch, threading, subprocess, tempfile
        from torch.utils.data import DataLoader
        import matplotlib.pyplot as plt
        plt.plot([1, 2]); plt.savefig("figure.png"); plt.show()
        thread = threading.Thread(target=print, args=("thread",)); thread.start(); thread.join()
        print([batch.tolist() for batch in DataLoader(range(4), batch_size=2, num_workers=2)])
        print(subprocess.run(["echo", "program"], capture_output=True, text=True).stdout)
        tempfile.TemporaryFile().close()
    """
    text, picture = run(kernel, code)["outputs"]
    assert text["text"] == "thread\n[[0, 1], [2, 3]]\nprogram\n\n"
    assert picture["data"].keys() == {"text/plain", "image/png"}


HONEST = {
    "workers that load data": """
        import torch
        from torch.utils.data import DataLoader
        loader = DataLoader(torch.arange(6.0), batch_size=2, num_workers=2, persistent_workers=True)
        for _ in range(2): batches = [batch.tolist() for batch in loader]
        print(batches == [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])
    """,
    "a pool, a queue and a lock": """
        import multiprocessing
        def square(x): return x * x
        queue, lock = multiprocessing.Queue(), multiprocessing.Lock()
        def put():
            with lock: queue.put(7)
        one = multiprocessing.Process(target=put); one.start(); got = queue.get(); one.join()
        with multiprocessing.Pool(2) as pool: squares = pool.map(square, range(4))
        print(squares == [0, 1, 4, 9], got == 7)
    """,
    "tensors and arrays in shared memory": """
        import multiprocessing, torch
        from multiprocessing import shared_memory
        shared = torch.zeros(3).share_memory_()
        block = shared_memory.SharedMemory(create=True, size=100)
        def fill(): shared.fill_(2.0); block.buf[0] = 5
        one = multiprocessing.Process(target=fill); one.start(); one.join()
        print(shared.tolist() == [2.0] * 3, block.buf[0] == 5)
        block.close(); block.unlink()
    """,
    "processes and pipes": """
        import asyncio, subprocess, sys
        said = subprocess.run("echo $((1 + 1)) | cat", shell=True, capture_output=True, text=True)
        python = subprocess.run([sys.executable, "-c", "print(3)"], capture_output=True, text=True)
        print(said.stdout == "2\\n", python.stdout == "3\\n")
    """,
    "files that are gone when they are closed": """
        import mmap, tempfile
        with tempfile.NamedTemporaryFile(dir=tempfile.mkdtemp()) as file:
            file.write(b"x" * 4096); file.flush()
            print(mmap.mmap(file.fileno(), 0)[:1] == b"x", mmap.mmap(-1, 4096).write(b"y") == 1)
    """,
    "threads": """
        import concurrent.futures, threading, torch
        torch.set_num_threads(2)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            lengths = list(pool.map(len, ["a", "bb"]))
        ones = torch.ones(600, 600)
        print(lengths == [1, 2], (ones @ ones)[0, 0].item() == 600)
    """,
}  # fmt: skip


@pytest.mark.parametrize("code", HONEST.values(), ids=HONEST.keys())
def test_honest_work_meets_no_refusal(kernel: Kernel, code: str) -> None:
    (answer,) = run(kernel, code)["outputs"]
    assert answer["kind"] == "stream", answer
    assert set(answer["text"].split()) == {"True"}


# What was tried, and what may come of it: 1, not permitted; 38, no such call.
REFUSED = {
    "a user namespace": ("libc.unshare(0x10000000)", 1),
    "a namespace of mounts": ("libc.unshare(0x20000)", 1),
    "another's namespace": ("libc.setns(os.open('/proc/self/ns/user', 0), 0)", 1),
    "a child in a user namespace": ("libc.syscall(CLONE, 0x10000000 | 17, 0, 0, 0, 0)", 1),
    "a child in a namespace of mounts": ("libc.syscall(CLONE, 0x20000 | 17, 0, 0, 0, 0)", 1),
    "a child by what no filter can read": (
        "libc.syscall(435, (ctypes.c_uint64 * 11)(0x10000000), 88)",
        38,
    ),
    "a mount": ("libc.mount(b'tmpfs', b'/tmp', b'tmpfs', 0, None)", 1),
    "a mount in three steps": ("libc.syscall(430, b'tmpfs', 0)", 1),
    "a tree of mounts": ("libc.syscall(428, -100, b'/tmp', 1)", 1),
    "a file in memory": ("libc.memfd_create(b'x', 0)", 38),
    "a secret file in memory": ("libc.syscall(447, 0)", 38),
    "memory of System V's": ("libc.shmget(0, 4096, 0o1600)", 1),
    "a queue of System V's": ("libc.msgget(0, 0o1600)", 1),
    "semaphores of System V's": ("libc.semget(0, 9, 0o1600)", 1),
    "a queue of messages": ("libc.syscall(MQ_OPEN, b'x', 0o102, 0o600, None)", 1),
    "a ring of calls": ("libc.syscall(425, 8, ctypes.create_string_buffer(200))", 38),
    "being debugged": ("libc.ptrace(0, 0, None, None)", 1),
}  # fmt: skip


def test_what_no_cap_would_count_is_refused_to_it_and_its_children(kernel: Kernel) -> None:
    code = """
        import ctypes, json, os, platform, subprocess, sys
        SCRIPT = '''
        import ctypes, json, os, platform
        libc = ctypes.CDLL(None, use_errno=True)
        CLONE, MQ_OPEN = {"x86_64": (56, 240), "aarch64": (220, 180)}[platform.machine()]
        def attempt(call):
            result = eval(call)
            if result == 0 and "CLONE" in call: os._exit(0)
            return ctypes.get_errno() if result == -1 else 0
        told = json.dumps({call: attempt(call) for call in CALLS})
        '''
        exec(SCRIPT)
        mine = told
        program = f"CALLS = {CALLS!r}\\n{SCRIPT}\\nprint(told)"
        child = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        print(json.dumps([json.loads(mine), json.loads(child.stdout)]))
    """
    code = textwrap.dedent(code).replace("'''\\n    ", "'''\\n")
    run(kernel, f"CALLS = {[call for call, _ in REFUSED.values()]!r}")
    expected = dict(REFUSED.values())
    assert tell(kernel, code) == [expected, expected]


def test_a_filter_is_written_for_both_processors_and_for_no_other() -> None:
    for machine in ("x86_64", "aarch64"):
        program = build_filter(machine)
        instructions = [struct.unpack_from("HBBI", program, at) for at in range(0, len(program), 8)]
        for place, (code, yes, no, _) in enumerate(instructions):
            if code & 7 == 5:  # every jump ends inside
                assert place + 1 + max(yes, no) < len(instructions)
        assert instructions[-1] == (6, 0, 0, 0x7FFF0000)
        assert len(instructions) < 256
    assert build_filter("riscv64") == b""


# --- How it ends -------------------------------------------------------------------------------

DEAF = "import signal\nfor ring in (14, 27): signal.signal(ring, signal.SIG_IGN)\n"
ENDS = {
    "an exit code": ("import os; os._exit(3)", "crashed", "exit code 3"),
    "a signal": ("import os, signal; os.kill(os.getpid(), 9)", "crashed", "SIGKILL"),
    "a wrong address": ("import ctypes; ctypes.string_at(0)", "crashed", "SIGSEGV"),
    "an abort": ("import os; os.abort()", "crashed", "SIGABRT"),
    "its channel closed": (CHANNEL + "os.close(_fd)", "crashed", "exit code 0"),
    "its channel closed by half": (
        CHANNEL + "socket.socket(fileno=os.dup(_fd)).shutdown(socket.SHUT_WR)\n"
        "import time; time.sleep(30)",
        "crashed",
        "its process was ended",
    ),
    "its channel held by a child": (
        "import os, time\nif os.fork() == 0: time.sleep(600)\nos._exit(4)",
        "crashed",
        "exit code 4",
    ),
    "garbage": (
        CHANNEL + "os.write(_fd, b'x' * 1000)\nimport time; time.sleep(30)",
        "crashed",
        "something else was written",
    ),
    "no message": (
        CHANNEL + "os.write(_fd, (2).to_bytes(4, 'little') + bytes(4) + b'[]')\n"
        "import time; time.sleep(30)",
        "crashed",
        "something else was written",
    ),
    "a message that nobody asked for": (
        CHANNEL + "os.write(_fd, (2).to_bytes(4, 'little') + bytes(4) + b'{}' + bytes(99))\n"
        "import time; time.sleep(30)",
        "crashed",
        "something else was written",
    ),
    "memory": ("x = [b'x' * 2**24 for _ in range(999)]", "out of memory", "768 MiB"),
    "memory of children": (
        "import os\nfor _ in range(4):\n    if os.fork() == 0:\n"
        "        x = [b'x' * 2**24 for _ in range(999)]\nos.wait()\nos._exit(1)",
        "out of memory",
        "768 MiB",
    ),
    "memory that is shared with nobody": (
        "import mmap\nkept = []\nfor _ in range(99):\n    kept.append(mmap.mmap(-1, 2**24))\n"
        "    kept[-1].write(b'x' * 2**24)",
        "out of memory",
        "768 MiB",
    ),
    "a hang that no timer stops": (
        DEAF + "while True: pass",
        "timed out",
        "did not stop",
    ),
    "a hang in C": ("sum(iter(int, 1))", "timed out", "did not stop"),
    "stopped": ("import os; os.kill(os.getpid(), 19)", "timed out", "did not stop"),
}  # fmt: skip


@pytest.mark.parametrize(("code", "cause", "words"), ENDS.values(), ids=ENDS.keys())
def test_a_kernel_that_ends_says_why_and_the_next_one_works(
    warm: WarmProcess, code: str, cause: str, words: str
) -> None:
    one = warm.start_kernel(seed=1)
    with pytest.raises(KernelEndedError, match=words) as ended:
        run(one, code, 1.5 if cause == "timed out" else 20)
    assert ended.value.cause == cause
    assert "\n" not in str(ended.value)
    assert one.close() == {}
    if warm.is_alive:  # as a rule; but the system chooses whom it kills for memory
        following = warm.start_kernel(seed=1)
        assert tell(following, "print(1)") == 1
        following.close()
    else:
        assert cause == "out of memory"


@pytest.mark.parametrize(
    "end", ["memory", "memory of children", "memory that is shared with nobody"]
)
def test_without_control_groups_memory_is_counted_too(
    end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "make_cgroup", lambda *_: None)
    with contextlib.closing(WarmProcess(LIMITS, {})) as alone:
        one = alone.start_kernel(seed=1)
        with pytest.raises(KernelEndedError, match="768 MiB") as ended:
            run(one, f"{ENDS[end][0]}\nimport time; time.sleep(5)")
        assert ended.value.cause == "out of memory"


def test_a_fork_bomb_ends_with_its_kernel(warm: WarmProcess) -> None:
    before = processes_of(warm)
    one = warm.start_kernel(seed=1)
    with contextlib.suppress(KernelEndedError):
        run(one, "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass", 2)
    one.close()
    assert wait_until(lambda: processes_of(warm) <= before)
    following = warm.start_kernel(seed=1)
    assert tell(following, "print(1)") == 1
    following.close()


def test_a_long_loop_is_stopped_by_the_kernel_itself_which_lives_on(kernel: Kernel) -> None:
    assert run(kernel, "x = 1\nwhile True: pass", 0.5)["timed_out"] is True
    assert run(kernel, "while True:\n    try: x += 1\n    except Exception: pass", 0.5)["timed_out"]
    assert tell(kernel, "print(int(x > 1))") == 1


@pytest.mark.parametrize("descriptor", [1, 2])
def test_a_flood_of_text_does_no_harm(kernel: Kernel, descriptor: int) -> None:
    code = f"""
        import os, sys
        for _ in range(200): os.write({descriptor}, b"x" * 2**20)
        for _ in range(20): print("x" * 2**20)
        "y" * 10**8
    """
    answer = run(kernel, code)
    assert len(json.dumps(answer["outputs"])) < 3 * MIB
    assert tell(kernel, "print(1)") == 1


def test_an_answer_that_nobody_asked_for_is_not_taken_for_the_next(warm: WarmProcess) -> None:
    one = warm.start_kernel(seed=1)
    forged = """
        import json, sys
        def send(ticket):
            text = json.dumps({"dict": [["value", 42], ["problem", ""]]}).encode()
            os.write(_fd, ticket + len(text).to_bytes(4, "little") + bytes(4) + text)
        def twice():
            frame = sys._getframe()
            while "ticket" not in frame.f_locals:
                frame = frame.f_back
            send(frame.f_locals["ticket"])
            return 1
    """
    run(one, CHANNEL + textwrap.dedent(forged))
    assert call(one, Name("twice"))["value"] == 42  # hostile code can answer nonsense in time
    assert select.select([one._channel], [], [], 60.0)[0]  # the answer that comes too late
    with pytest.raises(KernelEndedError, match="answered before it was asked") as ended:
        call(one, Name("twice"))
    assert ended.value.cause == "crashed"


def test_what_plain_code_writes_to_the_channel_is_no_answer(warm: WarmProcess) -> None:
    one = warm.start_kernel(seed=1)
    forged = """
        import json
        def send():
            text = json.dumps({"dict": [["value", 42], ["problem", ""]]}).encode()
            os.write(_fd, len(text).to_bytes(4, "little") + bytes(4) + text)
            return 1
    """
    run(one, CHANNEL + textwrap.dedent(forged))
    with pytest.raises(KernelEndedError, match="something else was written") as ended:
        call(one, Name("send"))
    assert ended.value.cause == "crashed"


def test_what_outlives_its_kernel_is_ended_with_it(warm: WarmProcess) -> None:
    before = processes_of(warm)
    one = warm.start_kernel(seed=1)
    code = f"""
        import os, subprocess, sys, time
        program = [sys.executable, "-c", "import time; time.sleep(600) # {MARK}"]
        subprocess.Popen(program)
        subprocess.Popen(program, start_new_session=True)
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                for number in range(1, 65):
                    try: __import__("signal").signal(number, 1)
                    except (OSError, ValueError): pass
                os.execv(sys.executable, program)
            os._exit(0)
        time.sleep(0.5)
    """
    assert run(one, code)["outputs"] == []
    assert wait_until(lambda: len(marked()) == 3)
    one.close()
    assert wait_until(lambda: marked() == [])
    assert wait_until(lambda: processes_of(warm) <= before)


def test_what_is_still_there_when_a_kernel_crashes_is_ended_too(warm: WarmProcess) -> None:
    one = warm.start_kernel(seed=1)
    code = f"""
        import os, subprocess, sys, time
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600) # {MARK}"])
        time.sleep(0.5)
        os._exit(1)
    """
    with pytest.raises(KernelEndedError):
        run(one, code)
    assert wait_until(lambda: marked() == [])


def test_memory_that_an_earlier_kernel_was_short_of_is_not_held_against_the_next(
    warm: WarmProcess,
) -> None:
    one = warm.start_kernel(seed=1)
    code = """
        import os
        child = os.fork()
        if child == 0:
            x = [b"x" * 2**24 for _ in range(999)]
        print(os.waitpid(child, 0)[1])
    """
    assert run(one, code)["outputs"][0]["text"] == "9\n"
    one.close()
    following = warm.start_kernel(seed=1)
    with pytest.raises(KernelEndedError) as ended:
        run(following, "import os; os._exit(1)")
    assert ended.value.cause == "crashed"


def test_fifty_kernels_leave_no_descriptor_open(warm: WarmProcess) -> None:
    before, others = len(os.listdir("/proc/self/fd")), processes_of(warm)
    for number in range(50):
        one = warm.start_kernel(seed=number)
        if number % 10 == 0:
            with pytest.raises(KernelEndedError):
                run(one, "import os; os._exit(1)")
        one.close()
        one.close()
    assert len(os.listdir("/proc/self/fd")) == before
    assert wait_until(lambda: processes_of(warm) <= others)


# --- The warm process itself --------------------------------------------------------------------


def run_again_and_again(kernel: Kernel) -> None:
    for _ in range(200):
        run(kernel, "1")
        time.sleep(0.05)


def test_when_the_warm_process_is_ended_nobodys_code_is_blamed() -> None:
    warm = WarmProcess(LIMITS, DATA)
    folder = Path(warm._folder.name)
    one = warm.start_kernel(seed=1)
    assert (folder / "numbers.csv").exists()
    os.kill(warm._sandbox.command_pid, signal.SIGKILL)
    assert wait_until(lambda: not warm.is_alive)
    with pytest.raises(WarmProcessLostError):
        run_again_and_again(one)  # on a busy machine the kernel lives on for a moment
    assert one.close() == {}
    assert not warm.is_alive
    with pytest.raises(WarmProcessLostError):
        warm.start_kernel(seed=1)
    warm.close()
    warm.close()
    assert not folder.exists()


def test_nothing_is_left_when_we_are_killed() -> None:
    code = f"""
        import sys, time
        sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / "tests")!r}]
        from helpers.grading.judge.warm import KernelLimits, WarmProcess
        warm = WarmProcess(KernelLimits(2**30, 60, 2**24), {{}})
        one = warm.start_kernel(1)
        program = [sys.executable, "-c", "import time; time.sleep(600) # {MARK}"]
        code = f"import subprocess; subprocess.Popen({{program}}, start_new_session=True)"
        one.request({{"do": "run", "code": code, "seconds": 5}}, one.clock(9))
        print(warm._sandbox.process.pid, flush=True)
        time.sleep(600)
    """
    ours = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True
    )
    with ours:
        sandbox = int(ours.stdout.readline())
        assert wait_until(lambda: len(marked()) == 1 + 1)  # it, and our own with its text
        theirs = set(find_descendants(sandbox))
        assert len(theirs) > 5
        ours.kill()
    assert wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in theirs))
    assert marked() == []


def test_without_a_sandbox_kernels_work_and_end_too() -> None:
    warm = WarmProcess(LIMITS, {}, sandboxed=False)
    one = warm.start_kernel(seed=1)
    assert tell(one, "print(1)") == 1
    run(one, f"import subprocess; subprocess.Popen(['sleep', '600', '{MARK}'])" and "1")
    with pytest.raises(KernelEndedError) as ended:
        run(one, "import os; os._exit(5)")
    assert ended.value.cause == "crashed"
    one = warm.start_kernel(seed=1)
    with pytest.raises(KernelEndedError) as ended:
        run(one, DEAF + "while True: pass", 0.5)
    assert ended.value.cause == "timed out"
    pid = warm._host.process.pid
    warm.close()
    assert wait_until(lambda: not Path(f"/proc/{pid}").exists())
