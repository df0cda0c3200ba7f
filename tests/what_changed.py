"""What differs from another commit: files, and parts of files."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

from change_reach import READ_AS_DATA, Node
from code_uses import BODY, differing_parts


def repository_files(root: Path) -> list[str]:
    """Return the files that git knows or would take."""
    return _git(root, "ls-files", "--cached", "--others", "--exclude-standard").splitlines()


def find_base(root: Path) -> str:
    """Return the commit that a change is seen against.

    That is where this branch left the main one. On the main branch itself it is the last commit, or
    the one before it if nothing has been changed since.
    """
    head = _git(root, "rev-parse", "HEAD").strip()
    for main in ("origin/main", "main", "origin/master", "master"):
        try:
            start = _git(root, "merge-base", main, "HEAD").strip()
        except subprocess.CalledProcessError:
            continue
        if start != head:
            return start
    return head if changed_files(root, head) else _git(root, "rev-parse", "HEAD~1").strip()


def changed_files(root: Path, base: str) -> list[str]:
    """Return the files that differ from the commit ``base``, removed and new ones too."""
    differ = _git(root, "diff", "--name-only", "--no-renames", base).splitlines()
    new = _git(root, "ls-files", "--others", "--exclude-standard").splitlines()
    return sorted({*differ, *new})


def changed_parts(root: Path, base: str, files: list[str]) -> Iterator[Node]:
    """Yield what differs in ``files``: parts of code, whole files of anything else.

    Code whose comments or layout alone have changed is left out, unless its text is data.
    """
    for file in files:
        if not file.endswith(".py") or file.startswith(("course/", *READ_AS_DATA)):
            yield file, BODY
        if file.endswith(".py"):
            after = (root / file).read_text("utf-8") if (root / file).exists() else ""
            yield from ((file, name) for name in differing_parts(_before(root, base, file), after))


def _before(root: Path, base: str, file: str) -> str:
    try:
        return _git(root, "show", f"{base}:{file}")
    except subprocess.CalledProcessError:
        return ""


def _git(root: Path, *arguments: str) -> str:
    command = ["git", "-c", "core.quotepath=off", *arguments]
    return subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout
