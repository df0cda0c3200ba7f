"""The students' copy of the course: what they need, and no solution, hidden test or grading.

``publish(root, destination)`` writes it, and brings it up to date when it is there already.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import nbformat
import tomlkit

from helpers.authoring.kept_tree import Update, read_choices, write_tree
from helpers.authoring.release import make_release
from helpers.authoring.settings import is_unset, repository_address
from helpers.authoring.student_readme import make_student_readme

_AS_THEY_ARE = (
    ".gitignore",
    "LICENSE",
    "LICENSE-CODE",
    "Makefile",
    "bootstrap.py",
    "constraints.txt",
    "environment.yml",
)
# Subfolders of helpers/ that only those need who give the course.
_FOR_STAFF = ("authoring", "grading", "lab_settings/staff")
_TARGET = re.compile(r"^([a-z][a-z-]*):", re.MULTILINE)


class PublishError(ValueError):
    """The students' copy cannot be made; the message says why, and nothing has been written."""


def publish(root: Path, destination: Path, address: str | None = None) -> Update:
    """Write the students' copy of the course, or bring it up to date.

    Args:
        root: the repository.
        destination: a folder that is empty or was published before; it is made if need be.
        address: where students will find the copy, if not at the repository's own address; on
            Colab the notebooks install the helpers from there. It is remembered for next time.

    Raises:
        PublishError: the repository lacks something, or holds notebooks that are out of date.
        ReadmeError: the README lacks a section that students need.
        TreeError: the destination cannot be written, or holds edited files.
    """
    root, destination = root.resolve(), destination.resolve()
    if destination.is_relative_to(root):
        raise PublishError(f"{destination} is in the repository: name a folder outside of it.")
    address = address or read_choices(destination).get("address")
    choices = {} if address is None else {"address": address}
    return write_tree(student_files(root, address), destination, choices)


def summarize(update: Update, root: Path, destination: Path) -> list[str]:
    """Return the lines that say to an instructor what was published from ``root``."""
    counts = [
        f"{len(part)} {what}"
        for part, what in (
            (update.new, "new"),
            (update.renewed, "renewed"),
            (update.removed, "removed"),
        )
        if part
    ]
    lines = [f"The students' copy in {destination}: {', '.join(counts) or 'nothing to do'}."]
    if update.others:
        lines.append(f"Also there, and left unchanged: {', '.join(update.others)}.")
    if is_unset(read_choices(destination).get("address") or repository_address(root)):
        lines.append(
            f"It does not work on Colab and Binder yet, because the repository's address is not "
            f"set: publish again with --address URL, or set it in {root / 'book.toml'}, run make "
            f"build and publish again."
        )
    return lines


def student_files(root: Path, address: str | None = None) -> dict[str, bytes]:
    """Return the content of each file of the students' copy by its path, with slashes.

    Raises:
        PublishError, ReadmeError: as ``publish``.
    """
    files = {name: _read(root, name) for name in _AS_THEY_ARE}
    project = _read(root, "pyproject.toml").decode()
    files |= {name: _read(root, name) for name in _helpers(root, project)}
    files |= _notebooks(root, address)
    files["pyproject.toml"] = _student_project(project).encode()
    targets = _TARGET.findall(files["Makefile"].decode())
    readme = _at_address(_read(root, "README.md").decode(), repository_address(root), address)
    files["README.md"] = make_student_readme(readme, {*files, "README.md"}, targets).encode()
    return files


def _at_address(text: str, ours: str, address: str | None) -> str:
    """Return a text whose links to the repository, and by way of Colab and Binder, go elsewhere.

    Those know a repository by its host and its path: of another host, only its own links are left.
    """
    if address is None:
        return text
    ours, theirs = urlsplit(ours), urlsplit(address.rstrip("/"))
    text = text.replace(ours.geturl(), theirs.geturl())
    if ours.netloc == theirs.netloc:
        return text.replace(f"{ours.path}/", f"{theirs.path}/")
    badge = rf" *\[!\[[^\]]*\]\([^)]*\)\]\([^)]*{re.escape(ours.path)}/[^)]*\)"
    return re.sub(badge, "", text)


def _read(root: Path, name: str) -> bytes:
    try:
        return (root / name).read_bytes()
    except OSError as error:
        raise PublishError(
            f"{root / name} cannot be read ({error.strerror}), and students need it: restore it "
            f"with git and run the same command again."
        ) from error


def _helpers(root: Path, project: str) -> Iterator[str]:
    """Yield the package's files that students need: its modules and its package data."""
    patterns = [("helpers", "**/*.py")]
    for package, globs in tomllib.loads(project)["tool"]["setuptools"]["package-data"].items():
        patterns += [(package.replace(".", "/"), pattern) for pattern in globs]
    found = {file for folder, pattern in patterns for file in (root / folder).glob(pattern)}
    left_out = [root / "helpers" / folder for folder in _FOR_STAFF]
    for file in sorted(found):
        if file.is_file() and not any(file.is_relative_to(folder) for folder in left_out):
            yield file.relative_to(root).as_posix()


def _notebooks(root: Path, address: str | None) -> dict[str, bytes]:
    """Return the released notebooks, each known to be what its source gives."""
    course = root / "course"
    found = sorted((course / "release").glob("*/*.ipynb"))
    if not found:
        raise PublishError(f"there are no notebooks in {course / 'release'}: run make build")
    ours = repository_address(root)
    if address is not None and not re.fullmatch(r"https://[\w.-]+(:\d+)?(/[\w.~-]+)+/?", address):
        raise PublishError(
            f"{address} is not an address to install from: write one like https://HOST/OWNER/NAME"
        )
    notebooks = {}
    for file in found:
        name = file.relative_to(root).as_posix()
        text = _read(root, name).decode()
        _require_current(file, course)
        if ours not in text:
            raise PublishError(
                f"{name} does not say the repository's address, {ours}, which is set in "
                f"book.toml: run make build"
            )
        if address is not None:
            text = text.replace(ours, address.rstrip("/"))
        notebooks[name] = text.encode()
    return notebooks


def _require_current(released: Path, course: Path) -> None:
    """Insist that a notebook holds no solution and no hidden test, edited by hand or not."""
    name = released.relative_to(course / "release")
    source = course / "source" / name
    if not source.is_file():
        raise PublishError(f"course/release/{name} has no source in course/source: remove it")
    try:
        ours = nbformat.read(source, as_version=4)
        theirs = nbformat.read(released, as_version=4)
    except Exception as error:
        raise PublishError(f"the notebook {name} is damaged ({error}): run make build") from error
    if make_release(ours, course / "nbgrader_config.py") != theirs:
        raise PublishError(
            f"course/release/{name} is not what its source gives, so it may hold more "
            f"than students should see: run make build"
        )


def _student_project(project: str) -> str:
    """Return the project's settings without those of the tools and packages of the staff."""
    mine = tomlkit.parse(project)
    for tool in [tool for tool in mine["tool"] if tool != "setuptools"]:
        del mine["tool"][tool]
    extras = mine["project"]["optional-dependencies"]
    for extra in [extra for extra in extras if extra != "lab"]:
        del extras[extra]
    mine["project"].pop("entry-points", None)
    data = mine["tool"]["setuptools"]["package-data"]
    for package in [package for package in data if package.split(".")[1:2] == ["grading"]]:
        del data[package]
    return tomlkit.dumps(mine)
