"""A pytest plugin: the course's own book, built once for all tests that look at it."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from helpers.authoring.book import build

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def real_book(run_folder: Path) -> Path:
    """Return the folder of the built book; whoever uses it only reads."""
    book = run_folder / "real-book"
    built = run_folder / "real-book-is-built"
    with (run_folder / "real-book.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not built.exists():
            build(ROOT, book)
            built.touch()
    return book
