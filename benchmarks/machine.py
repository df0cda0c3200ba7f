"""What a benchmark ran on."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
from pathlib import Path
from typing import Any

_LIBRARIES = ("torch", "nbgrader", "nbclient", "ipykernel", "bits-and-gradients")


def count_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def describe_machine() -> dict[str, Any]:
    """Return what a reader of the figures has to know, as what JSON can hold."""
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "cores": count_cores(),
        "processor": _name_processor(),
        "system": platform.platform(),
        "load": [round(load, 2) for load in os.getloadavg()],
        "versions": {
            "python": platform.python_version(),
            **{name: importlib.metadata.version(name) for name in _LIBRARIES},
        },
    }


def _name_processor() -> str:
    about = Path("/proc/cpuinfo")
    if about.is_file():
        for line in about.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
