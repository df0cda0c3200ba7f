"""A jupyter_client kernel provisioner that runs a kernel in the sandbox.

Any front end takes it, without a line of its own, from the environment::

    JUPYTER_DEFAULT_PROVISIONER_NAME=bits-sandbox nbgrader autograde 08-numerical-stability

The kernel has no network, so its sockets are files in a private folder.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from jupyter_client import KernelConnectionInfo
from jupyter_client.provisioning import LocalProvisioner
from traitlets import Bool, Float, Integer, List, Unicode

from helpers.grading.sandbox.leftovers import bring_out
from helpers.grading.sandbox.mounts import HOME, WORK, View
from helpers.grading.sandbox.sandbox import Limits, Sandbox, describe_limits

_MIB = 1024**2
# A socket's path is limited to 107 bytes; this much is left for the folder that holds ours.
_LONGEST_PATH = 80
# What nbgrader tells a kernel, and what decides how a kernel draws.
_PASSED_ON = ("NBGRADER_EXECUTION", "NBGRADER_VALIDATING", "PYTHONHASHSEED", "PYTHONWARNINGS")
_INLINE = "module://matplotlib_inline.backend_inline"


class SandboxProvisioner(LocalProvisioner):
    """Starts a kernel in bubblewrap; see ``sandbox`` and ``mounts`` for what that means."""

    data = List(
        Unicode(), help="Files and folders that appear, read-only, in the kernel's folder."
    ).tag(config=True)
    readable = List(Unicode(), help="Files and folders that appear, read-only, in place.").tag(
        config=True
    )
    memory_mib = Integer(4096, help="Memory of all its processes together, in MiB.").tag(
        config=True
    )
    processes = Integer(256, help="Processes and threads at one time.").tag(config=True)
    wall_seconds = Float(7200.0, help="How long the kernel may live.").tag(config=True)
    cpu_seconds = Integer(3600, help="Processor time of each process.").tag(config=True)
    bring_out = Bool(
        True,
        help="Whether small files that the kernel leaves in its folder are copied, at its end, to "
        "where the notebook is; nothing that is there is overwritten.",
    ).tag(config=True)
    disk_mib = Integer(512, help="Size of each folder in RAM, in MiB.").tag(config=True)

    _folder: Path | None = None
    _sandbox: Sandbox | None = None
    _working_folder: str | None = None

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """Put the kernel's connections into a private folder instead of on TCP ports."""
        if self._folder is None:
            self._folder = _make_private_folder()
            manager = self.parent
            manager.transport = "ipc"
            manager.cache_ports = False
            manager.ip = str(self._folder / "sockets" / "kernel")
            manager.connection_file = str(self._folder / "connection.json")
        return await super().pre_launch(**kwargs)

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> KernelConnectionInfo:
        """Start the kernel's command in a new sandbox.

        Raises:
            SandboxError: there is no sandbox here; the text says why and what to do.
        """
        sockets = self._folder / "sockets"
        # What a dead kernel left is gone before the next one starts.
        shutil.rmtree(sockets, ignore_errors=True)
        sockets.mkdir(mode=0o700)
        resources = Path(self.kernel_spec.resource_dir)
        view = View(
            data=tuple(Path(path).absolute() for path in self.data),
            readable=(
                self._folder / "connection.json",
                *([resources] if resources.is_dir() else []),
                *(Path(path).absolute() for path in self.readable),
            ),
            shared=(sockets,),
            hidden=_hidden_folders(kwargs.get("cwd")),
            environment=_choose_environment(kwargs.get("env", {}), self.kernel_spec.env),
        )
        limits = self._limits()
        self.log.info(describe_limits(limits))
        try:
            self._sandbox = await asyncio.to_thread(Sandbox, cmd, view, limits)
        except BaseException:
            await self.cleanup()
            raise
        self.process = self._sandbox.process
        self.pid, self.pgid, self.cwd = self.process.pid, None, None
        self._working_folder = kwargs.get("cwd")
        return self.connection_info

    async def send_signal(self, signum: int) -> None:
        """Send a signal to the kernel itself, inside: bwrap would die of an interrupt."""
        if self.process and self._sandbox:
            self._sandbox.send_signal(signum)

    async def shutdown_requested(self, restart: bool = False) -> None:
        """Take out the files that it leaves, and kill the kernel at once."""
        if self.bring_out and self._sandbox is not None and self._working_folder:
            await asyncio.to_thread(self._bring_out, self._sandbox, Path(self._working_folder))
        await self.kill(restart)

    async def terminate(self, restart: bool = False) -> None:
        """Kill the kernel; there is nothing that a softer end would save."""
        await self.kill(restart)

    async def wait(self) -> int | None:
        """Wait for the kernel's end, and say which cap it hit, if one."""
        status = await super().wait()
        await self._close_sandbox()
        return status

    async def cleanup(self, restart: bool = False) -> None:
        """Give back what the kernel held; its folder stays for a restart."""
        await self._close_sandbox()
        if not restart and self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    async def get_provisioner_info(self) -> dict:
        """Return nothing that another process could take the kernel over by."""
        return {**await super().get_provisioner_info(), "pid": None, "pgid": None}

    def _bring_out(self, sandbox: Sandbox, folder: Path) -> None:
        pid = sandbox.command_pid
        if pid is not None and folder.is_dir():
            bring_out(pid, WORK, folder)

    async def _close_sandbox(self) -> None:
        sandbox, self._sandbox = self._sandbox, None
        if sandbox is None:
            return
        await asyncio.to_thread(sandbox.close)
        if sandbox.why_it_was_stopped():
            self.log.error("A sandboxed kernel was stopped: %s.", sandbox.why_it_was_stopped())

    def _limits(self) -> Limits:
        return Limits(
            memory_bytes=self.memory_mib * _MIB,
            processes=self.processes,
            cpu_seconds=self.cpu_seconds,
            wall_seconds=self.wall_seconds,
            disk_bytes=self.disk_mib * _MIB,
        )


def _make_private_folder() -> Path:
    """Make a folder that only its owner can enter, with a path short enough for sockets."""
    roots = [os.environ.get("XDG_RUNTIME_DIR", ""), tempfile.gettempdir(), "/tmp"]
    short = (root for root in roots if 0 < len(root.encode()) <= _LONGEST_PATH - 20)
    usable = (root for root in short if os.access(root, os.W_OK | os.X_OK))
    return Path(tempfile.mkdtemp(prefix="bits-", dir=next(usable, "/tmp")))


def _hidden_folders(working_folder: str | None) -> tuple[Path, ...]:
    """Return the folder in which the notebook lies, with its hidden tests: not to be seen."""
    return (Path(working_folder).absolute(),) if working_folder else ()


def _choose_environment(wanted: dict[str, str], of_kernel_spec: dict[str, str]) -> dict[str, str]:
    """Return the variables for the kernel; the caller's own stay outside."""
    chosen = {name: wanted[name] for name in (*_PASSED_ON, *of_kernel_spec) if name in wanted}
    return {**chosen, "MPLBACKEND": _INLINE, "IPYTHONDIR": str(HOME / ".ipython")}
