"""A pytest plugin: one folder for all processes of a test run."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that all processes of this run share."""
    folder = tmp_path_factory.getbasetemp()
    # Every process of a run has a folder of its own below the run's.
    return folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder


@contextlib.contextmanager
def sole_process(file: Path) -> Iterator[None]:
    """Wait until no other process of the run is in this block with the same ``file``."""
    with file.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
