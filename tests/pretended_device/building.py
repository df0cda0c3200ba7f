"""Compile the pretended device, once for each version of its source and of torch."""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
import subprocess
from pathlib import Path

from run_folder import sole_process

HERE = Path(__file__).resolve().parent
CACHE = HERE.parent.parent / "build" / "pretended_device"
SOURCES = ("memory.h", "device.h", "kernels.cpp")
# It reaches into torch: another version has other insides, a CUDA build has a device of its own.
WRITTEN_FOR = "2.13.0"
_OPTIONS = ("-std=c++20", "-O1", "-fPIC", "-shared", "-w")


def find_obstacle() -> str:
    """Return why there can be no pretended device here, in one line; empty if there can."""
    import torch

    if torch.__version__.partition("+")[0] != WRITTEN_FOR:
        return f"it is written for torch {WRITTEN_FOR}, and this is {torch.__version__}"
    if torch.version.cuda is not None:
        return "it takes the place of CUDA, which this build of torch has"
    if shutil.which("g++") is None:
        return "there is no compiler here: it needs g++"
    return ""


def build_library() -> Path:
    """Return the compiled device; whoever comes while it is being built waits for it.

    Raises:
        RuntimeError: it cannot be compiled; the message holds what the compiler says.
    """
    torch = Path(importlib.util.find_spec("torch").origin).parent
    digest = hashlib.sha256(repr((_OPTIONS, WRITTEN_FOR, str(torch))).encode())
    for name in SOURCES:
        digest.update((HERE / name).read_bytes())
    library = CACHE / f"{digest.hexdigest()[:16]}.so"
    CACHE.mkdir(parents=True, exist_ok=True)
    with sole_process(CACHE / "lock"):
        if not library.exists():
            _compile(torch, library)
    return library


def _compile(torch: Path, library: Path) -> None:
    draft = library.with_suffix(".part")
    headers = (torch / "include", torch / "include" / "torch" / "csrc" / "api" / "include")
    command = ["g++", *_OPTIONS, *(f"-I{folder}" for folder in headers), str(HERE / "kernels.cpp")]
    command += ["-o", str(draft), f"-L{torch / 'lib'}", "-ltorch_cpu", "-lc10"]
    command += [f"-Wl,-rpath,{torch / 'lib'}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"g++ cannot compile the pretended device:\n{done.stderr[-3000:]}")
    for older in CACHE.glob("*.so"):
        older.unlink()
    draft.rename(library)
