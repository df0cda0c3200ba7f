"""Load the pretended device into this process, and say what ``torch.cuda`` tells of it.

Nothing else patches ``torch.cuda``: what the course's code can ask a card stands here.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pretended_device.building import build_library

# Those that kernels.cpp implements by itself.
_BY_HAND = {
    *("empty.memory_format", "empty_strided", "as_strided", "view", "_reshape_alias", "unfold"),
    *("set_.source_Storage_storage_offset", "set_.source_Storage", "set_.source_Tensor"),
    *("_fused_sdp_choice", "copy_", "set_data"),
}
# Composed of others, but by a choice between devices that knows nothing of this one.
_CHOOSING = ("convolution", "convolution_backward")
_RESERVED_IN = 2 * 2**20  # bytes: CUDA's allocator reserves pieces of this size


@dataclass(frozen=True)
class Card:
    """What the card says of itself."""

    name: str = "Pretended card"
    capability: tuple[int, int] = (7, 5)
    memory: int = 15 * 2**30


def install(card: Card | None = None) -> ctypes.CDLL:
    """Make torch believe in one ``card``, for the rest of this process.

    Returns:
        the library: ``pretended_operations()`` counts the operators that ran on the device.

    Raises:
        RuntimeError: torch is there already, and has looked for CUDA.
    """
    if "torch" in sys.modules:
        raise RuntimeError("the pretended device has to be installed before torch is imported")
    library = _load(build_library())
    import torch

    _route_operators(library)
    library.pretended_hand_out_default(True)
    default = torch.Generator(device="cuda")
    library.pretended_hand_out_default(False)
    _patch_cuda(library, card or Card(), default)
    _patch_storages()
    torch.version.cuda = "12.8"
    torch.manual_seed(torch.initial_seed())
    return library


def _load(file: Path) -> ctypes.CDLL:
    # torch hides its symbols from other libraries; this one is made of them.
    libraries = Path(importlib.util.find_spec("torch").origin).parent / "lib"
    for name in ("libtorch_global_deps.so", "libc10.so", "libtorch_cpu.so"):
        ctypes.CDLL(str(libraries / name), mode=ctypes.RTLD_GLOBAL)
    library = ctypes.CDLL(str(file))
    for name in ("bytes_now", "bytes_at_peak", "operations"):
        getattr(library, f"pretended_{name}").restype = ctypes.c_int64
    library.pretended_hand_out_default.argtypes = [ctypes.c_bool]
    return library


def _route_operators(library: ctypes.CDLL) -> None:
    import torch
    import torchgen

    for name in torch._C._dispatch_get_registrations_for_dispatch_key("CPU"):
        space, _, short = name.partition("::")
        if space == "aten" and short not in _BY_HAND:
            library.pretended_send_straight(short.encode())
    for short in _CHOOSING:
        library.pretended_send_straight(short.encode())
    listed = Path(torchgen.__file__).parent / "packaged" / "ATen" / "native"
    text = (listed / "native_functions.yaml").read_text(encoding="utf-8")
    for entry in re.split(r"\n(?=- func:)", text):
        found = re.match(r"- func: ([\w.]+)\(", entry)
        if found and "device_check: NoCheck" in entry:
            library.pretended_take_single_numbers(found[1].encode())


class _Event:
    """A moment on the only stream; everything before it is done."""

    def __init__(self, enable_timing: bool = False, blocking: bool = False) -> None:
        self.seconds = 0.0

    def record(self, stream: object = None) -> None:
        self.seconds = time.perf_counter()

    def elapsed_time(self, other: _Event) -> float:
        return (other.seconds - self.seconds) * 1000

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        pass


class _Stream:
    """The only stream; what is put into it is done at once."""

    def __init__(self, *_: object) -> None:
        pass

    def synchronize(self) -> None:
        pass

    def wait_stream(self, other: object) -> None:
        pass


def _patch_cuda(library: ctypes.CDLL, card: Card, default: Any) -> None:
    import torch

    owner = os.getpid()

    def lazy_init() -> None:
        if os.getpid() != owner:
            raise RuntimeError(
                "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, "
                "you must use the 'spawn' start method"
            )

    def reserved(used: int) -> int:
        return -(-used // _RESERVED_IN) * _RESERVED_IN

    now, peak = library.pretended_bytes_now, library.pretended_bytes_at_peak
    major, minor = card.capability
    properties = SimpleNamespace(
        name=card.name, major=major, minor=minor, total_memory=card.memory, multi_processor_count=40
    )
    started: dict[str, Any] = {
        "_initialized": True,
        "_is_in_bad_fork": lambda: os.getpid() != owner,
        "_lazy_call": lambda function, **_: function(),
        "_lazy_init": lazy_init,
        "current_device": lambda: 0,
        "device_count": lambda: 1,
        "init": lazy_init,
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "set_device": lambda device: None,
        "synchronize": lambda device=None: lazy_init(),
    }
    about = {
        "default_generators": (default,),
        "get_device_capability": lambda device=None: card.capability,
        "get_device_name": lambda device=None: card.name,
        "get_device_properties": lambda device=None: properties,
        "is_bf16_supported": lambda including_emulation=True: including_emulation or major >= 8,
    }
    memory = {
        "empty_cache": lambda: None,
        "max_memory_allocated": lambda device=None: peak(),
        "max_memory_reserved": lambda device=None: reserved(peak()),
        "mem_get_info": lambda device=None: (card.memory - now(), card.memory),
        "memory_allocated": lambda device=None: now(),
        "memory_reserved": lambda device=None: reserved(now()),
        "reset_peak_memory_stats": lambda device=None: library.pretended_reset_peak(),
    }
    only = _Stream()
    streams = {
        "Event": _Event,
        "Stream": _Stream,
        "_exchange_device": lambda device: 0,
        "_maybe_exchange_device": lambda device: 0,
        "current_stream": lambda device=None: only,
        "default_stream": lambda device=None: only,
        "is_current_stream_capturing": lambda: False,
    }
    for name, fact in (started | about | memory | streams).items():
        setattr(torch.cuda, name, fact)
    # Has names of its own for what it takes from the package.
    for name in ("_lazy_call", "_lazy_init", "current_device", "device_count"):
        setattr(torch.cuda.random, name, started[name])


def _patch_storages() -> None:
    """Let storages be made on the device: a CPU build's own constructor knows none."""
    import torch

    make = torch._C.StorageBase.__new__

    def new(cls: type, *args: Any, **options: Any) -> Any:
        if str(options.get("device", "cpu")).startswith("cuda"):
            size = args[0] if args else options.get("size", 0)
            return torch.empty(size, dtype=torch.uint8, device="cuda").untyped_storage()
        return make(cls, *args, **options)

    torch.UntypedStorage.__new__ = new
