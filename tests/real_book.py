"""A pytest plugin: the course's own book, built once for all tests that look at it."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from helpers.authoring.book import build

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def real_book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the built book; whoever uses it only reads."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent  # every process of a run has a folder of its own below this one
    book = folder / "real-book"
    built = folder / "real-book-is-built"
    with (folder / "real-book.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not built.exists():
            build(ROOT, book)
            built.touch()
    return book
