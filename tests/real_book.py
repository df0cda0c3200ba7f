"""A pytest plugin: the course's own book, built once for all tests that look at it, and served."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from run_folder import sole_process

from helpers.authoring.book import build
from helpers.explorables.stage import find_explorables

# The sidebar's frame where scripts are off; what a web server shows for an address that is none;
# all pages in one.
NO_PAGES = {"toc.html", "404.html", "print.html"}
ROOT = Path(__file__).resolve().parent.parent


def pages_of(book: Path) -> list[Path]:
    """Return the pages that a reader comes to."""
    return [path for path in sorted(book.rglob("*.html")) if path.name not in NO_PAGES]


def sample_of(book: Path) -> list[Path]:
    """Return pages of every kind.

    Of sections these are the first chapter's, which have all that a section can have, and those
    with an explorable, which a script draws; predictions, of which there are many, are the same
    everywhere. All other pages are in the sample.
    """
    pages = pages_of(book)
    first = next(page.stem for page in pages if page.parent == book and page.stem[:2] == "00")
    return [
        page
        for page in pages
        if page.parent in (book, book / first)
        or set(find_explorables(page.read_text("utf-8"))) - {"prediction", "predictions"}
    ]


@pytest.fixture(scope="session")
def real_book(run_folder: Path) -> Path:
    """Return the folder of the built book; whoever uses it only reads."""
    book = run_folder / "real-book"
    built = run_folder / "real-book-is-built"
    with sole_process(run_folder / "real-book.lock"):
        if not built.exists():
            build(ROOT, book)
            built.touch()
    return book


@pytest.fixture(scope="session")
def served_book(real_book: Path) -> Iterator[str]:
    """Return the address of the built book, below a path as on GitHub Pages."""
    with served(real_book.parent) as address:
        yield f"{address}/{real_book.name}"


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve the files of ``folder`` as any web server does, and yield the address."""
    handler = partial(_Quiet, directory=folder)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class _Quiet(SimpleHTTPRequestHandler):
    def handle(self) -> None:
        """Serve one connection; a browser may close it whenever it leaves a page."""
        with suppress(ConnectionError):
            super().handle()

    def log_message(self, *_: object) -> None:
        """Keep the requests off the test's own output."""
