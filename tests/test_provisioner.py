"""Any kernel in the sandbox: started, interrupted, restarted and ended as front ends do it."""

from __future__ import annotations

import contextlib
import secrets
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path

import nbformat
import pytest
from jupyter_client.blocking import BlockingKernelClient
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient
from nbclient.exceptions import DeadKernelError
from nbformat.v4 import new_code_cell, new_notebook
from test_sandbox import SURVIVOR, own_cgroups, processes_marked, wait_until
from traitlets.config import Config

from helpers.grading.sandbox.provisioner import SandboxProvisioner

pytestmark = pytest.mark.needs_system("bubblewrap")

NAME = "bits-sandbox"
SECONDS = 60


@pytest.fixture(autouse=True)
def sandbox_by_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Let every kernel start in the sandbox; return the folder that holds private folders."""
    monkeypatch.setenv("JUPYTER_DEFAULT_PROVISIONER_NAME", NAME)
    # A short path: sockets lie in it.
    private = Path("/tmp", f"bits-test-{secrets.token_hex(4)}")
    private.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(private))
    from jupyter_client.provisioning import KernelProvisionerFactory

    KernelProvisionerFactory.clear_instance()  # it has read the variable only once
    yield private
    KernelProvisionerFactory.clear_instance()
    private.rmdir()  # an error if something was left in it


@contextlib.contextmanager
def kernel(
    cwd: Path | None = None, **settings: object
) -> Iterator[tuple[KernelManager, BlockingKernelClient]]:
    config = Config({"SandboxProvisioner": settings})
    manager = KernelManager(kernel_name="python3", config=config)
    manager.start_kernel(**({"cwd": str(cwd)} if cwd else {}))
    client = manager.client()
    try:
        client.start_channels()
        client.wait_for_ready(timeout=SECONDS)
        yield manager, client
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def printed(client: BlockingKernelClient, code: str) -> str:
    """Run code and return what it printed, or the name of its error."""
    said: list[str] = []

    def note(message: dict) -> None:
        content = message["content"]
        said.append(content.get("text") or content.get("ename") or "")

    client.execute_interactive(textwrap.dedent(code), output_hook=note, timeout=SECONDS)
    return "".join(said).strip()


def last_words(client: BlockingKernelClient, code: str) -> str:
    return printed(client, code).splitlines()[-1]


def test_the_entry_point_is_this_class() -> None:
    (found,) = entry_points(group="jupyter_client.kernel_provisioners", name=NAME)
    assert found.load() is SandboxProvisioner


def test_a_kernel_runs_inside_without_network_and_sees_only_its_own(
    sandbox_by_default: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_TOKEN_OF_OURS", "secret")
    with kernel() as (manager, client):
        assert manager.transport == "ipc"
        assert manager.get_connection_info()["transport"] == "ipc"
        code = "import os, socket; print(socket.gethostname(), os.getcwd(), os.listdir('.'))"
        assert last_words(client, code) == "sandbox /home/student/work []"
        assert last_words(client, "print(os.environ.get('A_TOKEN_OF_OURS'))") == "None"
        assert last_words(client, "print(sorted(os.listdir('/proc'))[:3])") == "['1', '2', 'acpi']"
        backend = last_words(client, "import matplotlib; print(matplotlib.get_backend())")
        assert backend.endswith("inline")
        with kernel() as (_, other):
            seen = last_words(client, f"print(len(os.listdir('{sandbox_by_default}')))")
            assert seen == "1"
            assert last_words(other, "print(1 + 1)") == "2"


def test_its_connection_file_cannot_be_changed_and_its_folder_cannot_be_filled() -> None:
    with kernel() as (manager, client):
        file = manager.connection_file
        assert "OSError" in printed(client, f"open({file!r}, 'a')")
        assert "OSError" in printed(client, f"import os; os.unlink({file!r})")
        folder = Path(manager.ip).parent
        client.execute(f"for i in range(999): open('{folder}/%d' % i, 'w')")
        assert wait_until(lambda: not manager.is_alive())


def test_the_notebooks_folder_with_its_hidden_tests_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "submission.ipynb").write_text("hidden tests")
    (tmp_path / "numbers.csv").write_text("1,2")
    with kernel(cwd=tmp_path, data=[str(tmp_path / "numbers.csv")]) as (_, client):
        look = f"import os; print(os.listdir('.'), os.path.exists({str(tmp_path)!r}))"
        assert last_words(client, look) == "['numbers.csv'] False"
        assert last_words(client, "print(open('numbers.csv').read())") == "1,2"


def test_a_folder_that_lies_in_a_visible_one_is_hidden_all_the_same(tmp_path: Path) -> None:
    course = tmp_path / "course"
    course.mkdir()
    (course / "submission.ipynb").write_text("hidden tests")
    with kernel(cwd=course, readable=[str(tmp_path)]) as (_, client):
        assert last_words(client, f"import os; print(os.listdir({str(course)!r}))") == "[]"


def test_an_endless_cell_is_interrupted_and_the_kernel_goes_on() -> None:
    loops = "import subprocess\nx = 1\nwhile True: pass"
    sleeps = "subprocess.run(['sleep', '600'])"
    cells = [new_code_cell(loops), new_code_cell(sleeps), new_code_cell("print('on', x)")]
    notebook = new_notebook(cells=cells)
    client = NotebookClient(
        notebook,
        timeout_func=lambda cell: SECONDS if "print" in cell.source else 2,
        interrupt_on_timeout=True,
        allow_errors=True,
        kernel_name="python3",
    )
    client.execute()
    first, second, third = notebook.cells
    assert [output.ename for output in first.outputs] == ["KeyboardInterrupt"]
    assert [output.ename for output in second.outputs] == ["KeyboardInterrupt"]
    assert third.outputs[0].text == "on 1\n"


def test_a_restarted_kernel_is_a_new_one_on_the_same_connection() -> None:
    with kernel() as (manager, client):
        assert last_words(client, "x = 1; open('left', 'w').close(); print(x)") == "1"
        before = manager.get_connection_info()
        manager.restart_kernel(now=True)
        client.wait_for_ready(timeout=SECONDS)
        assert manager.get_connection_info() == before
        assert "NameError" in printed(client, "print(x)")
        assert last_words(client, "import os; print(os.listdir('.'))") == "[]"


@pytest.mark.parametrize("now", [True, False])
def test_shutting_down_ends_everything_that_the_kernel_started(now: bool) -> None:
    before = own_cgroups()
    mark = secrets.token_hex(8)
    with kernel() as (manager, client):
        code = f"{textwrap.dedent(SURVIVOR)}\ntime.sleep(600)\n# {mark}"
        start = f"""
            import subprocess, sys
            command = [sys.executable, "-c", {code!r}]
            child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            print(child.stdout.readline())
        """
        assert printed(client, start) == "survivor is up"
        assert len(processes_marked(mark)) >= 2
        manager.shutdown_kernel(now=now)
        assert wait_until(lambda: not processes_marked(mark))
    assert own_cgroups() <= before


def test_killing_the_manager_ends_its_kernel(sandbox_by_default: Path) -> None:
    mark = secrets.token_hex(8)
    cell = f"import subprocess; p = subprocess.Popen(['sh', '-c', 'sleep 600; : {mark}'])"
    script = f"""
        import time
        from jupyter_client.manager import start_new_kernel
        manager, client = start_new_kernel(kernel_name="python3")
        client.execute_interactive({cell!r})
        print("started", flush=True)
        time.sleep(600)
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert process.stdout.readline() == b"started\n"
        assert len(processes_marked(f"sleep 600; : {mark}")) >= 2  # itself and the shell
        assert processes_marked(str(sandbox_by_default))
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    assert wait_until(lambda: not processes_marked(mark))
    assert wait_until(lambda: not processes_marked(str(sandbox_by_default)))
    (folder,) = sandbox_by_default.iterdir()  # some empty files are all that it leaves
    shutil.rmtree(folder)


def test_a_memory_bomb_costs_its_own_kernel_and_says_why(caplog: pytest.LogCaptureFixture) -> None:
    bomb = "kept = []\nwhile True: kept.append(b'x' * 10_000_000)"
    notebook = new_notebook(cells=[new_code_cell(bomb)])
    config = Config({"SandboxProvisioner": {"memory_mib": 512}})
    with kernel() as (_, client):
        with pytest.raises(DeadKernelError):
            NotebookClient(notebook, timeout=60, kernel_name="python3", config=config).execute()
        assert last_words(client, "print('alive')") == "alive"
    assert "it used more than 512 MiB of memory" in caplog.text


def test_a_kernel_that_ends_itself_is_seen_to_be_dead() -> None:
    notebook = new_notebook(cells=[new_code_cell("import os\nos._exit(1)")])
    with pytest.raises(DeadKernelError):
        NotebookClient(notebook, timeout=60, kernel_name="python3").execute()


def test_300_mb_on_the_kernels_inherited_output_do_not_reach_us() -> None:
    # Past the kernel's own catching of output, straight to what it inherited.
    code = """
        import os, sys
        block = b"x" * 1024**2
        inherited = sys.stdout._original_stdstream_copy
        print(sum(os.write(inherited, block) for _ in range(300)) > 1024**2)
    """
    with kernel() as (_, client):
        assert last_words(client, code) == "True"
        assert last_words(client, "print('alive')") == "alive"


def test_without_a_sandbox_no_kernel_starts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    manager = KernelManager(kernel_name="python3")
    with pytest.raises(Exception, match="sudo apt install bubblewrap"):
        manager.start_kernel()
    assert not manager.has_kernel


def test_a_notebook_gives_the_same_outputs_as_without_a_sandbox(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from jupyter_client.provisioning import KernelProvisionerFactory

    code = "import torch\ntorch.manual_seed(0)\nprint(torch.randn(4, 4).softmax(0))\ntorch.ones(2)"
    outputs = []
    for name in (NAME, "local-provisioner"):
        monkeypatch.setenv("JUPYTER_DEFAULT_PROVISIONER_NAME", name)
        KernelProvisionerFactory.clear_instance()
        notebook = new_notebook(cells=[new_code_cell(code)])
        NotebookClient(notebook, timeout=60, kernel_name="python3").execute()
        nbformat.validate(notebook)
        outputs.append(notebook.cells[0].outputs)
    assert outputs[0] == outputs[1]
    assert len(outputs[0]) == 2


def test_small_new_files_come_out_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "there.txt").write_text("ours")
    outside = tmp_path.parent / "outside.txt"
    outside.write_text("not to be read")
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(cwd=str(tmp_path))
    client = manager.client()
    client.start_channels()
    client.wait_for_ready(timeout=SECONDS)
    client.execute_interactive(
        textwrap.dedent(f"""
            import os
            from pathlib import Path
            Path("there.txt").write_text("theirs")
            Path("deep/er").mkdir(parents=True)
            Path("deep/er/new.txt").write_text("new")
            Path("huge.bin").write_bytes(bytes(64 * 2**20))
            os.symlink("{outside}", "link.txt")
            os.symlink("/etc", "folder")
            os.mkfifo("pipe")
        """),
        timeout=SECONDS,
    )
    client.stop_channels()
    manager.shutdown_kernel()
    assert (tmp_path / "there.txt").read_text() == "ours"
    assert (tmp_path / "deep/er/new.txt").read_text() == "new"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["deep", "there.txt"]
