"""Which tests a change can reach: by what uses what, and by chapter.

A part of a file uses another if it names it, by way of what it imports; if a text in it names the
other's module or file, as what runs in a child process is named; or if it asks for a fixture. A
file that holds no code is used by whoever names it, or else the folder in which it lies. Where it
cannot be told, the answer is yes: a test too many costs seconds.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path, PurePosixPath

from code_uses import BODY, Part, read_parts

# A part of a file: the file, and the part's name.
Node = tuple[str, str]

# What is started by its name, and the part that it runs.
_COMMANDS = ("helpers/cli.py", "main")
_PROGRAMS = {"bits": _COMMANDS}
_MODULE = re.compile(r"\bhelpers(?:\.\w+)+|\bbenchmarks(?:\.\w+)*")
_FILE_NAME = re.compile(r"[\w./-]*?([\w.-]+\.\w+)")
# Where modules are looked for, as pytest's `pythonpath` says; and beside a file, as for a program.
_ROOTS = ("", "tests/")
# Code that tests read as data: it uses nothing for them.
READ_AS_DATA = ("tests/attacks/", "tests/exercises/", "tests/honest/")
# Chapters are read as data, too, but these run what is in them.
_CHAPTERS = "course/chapters/"
_RUN_CHAPTERS = (
    ("tests/course_files.py", "define"),
    ("tests/lab_server.py", "run_nbgrader"),
    ("helpers/authoring/build.py", "build"),
    ("helpers/grading/judge/judge.py", "judge_submission"),
)
_CHAPTERS_CODE: Node = ("the code of the chapters", BODY)
# What all tests hang on without a word about it.
FOR_ALL_TESTS = ("tests/conftest.py", "pyproject.toml", "constraints.txt")

# Tests marked by one of these take long, as a rule.
MARKS_OF_SLOW_TESTS = ("needs_system", "timeout")


def is_test_file(file: str) -> bool:
    """Return whether pytest looks for tests in ``file``."""
    path = PurePosixPath(file)
    return path.parent.name == "tests" and path.name.startswith("test_") and path.suffix == ".py"


def has_slow_tests(file: Path) -> bool:
    """Return whether a test file has tests that are better given out one by one."""
    text = file.read_text("utf-8")
    return any(f"mark.{name}" in text for name in MARKS_OF_SLOW_TESTS)


class Tree:
    """A repository's files, and which part uses which."""

    def __init__(
        self, root: Path, files: Iterable[str], loaded_later: Mapping[str, str] | None = None
    ) -> None:
        """Read the code among ``files``, which are paths below ``root``.

        Args:
            root: the repository.
            files: those in it that count.
            loaded_later: dotted names that a package loads when they are asked for, and where they
                lie.
        """
        self._files = {file for file in files if (root / file).is_file()}
        self._loaded_later = loaded_later or {}
        self.parts: dict[Node, Part] = {}
        for file in sorted(self._files):
            if file.endswith(".py") and not file.startswith(READ_AS_DATA):
                found = read_parts((root / file).read_text("utf-8", "replace"))
                self.parts |= {(file, name): part for name, part in found.items()}

    # --- What a part uses

    @cached_property
    def _names_in(self) -> dict[str, set[str]]:
        found = defaultdict(set)
        for file, name in self.parts:
            found[file].add(name)
        return found

    @cached_property
    def _by_name(self) -> dict[str, list[str]]:
        found = defaultdict(list)
        for file in self._files:
            found[PurePosixPath(file).name].append(file)
        return found

    @cached_property
    def _fixtures(self) -> dict[str, Node]:
        """The fixtures that plugins make; those of a test file are its own."""
        return {
            node[1]: node
            for node, part in self.parts.items()
            if part.is_fixture and not is_test_file(node[0])
        }

    @cached_property
    def users(self) -> dict[Node, set[Node]]:
        """For each part, those that use it directly."""
        found: dict[Node, set[Node]] = defaultdict(set)
        for node in self.parts:
            for used in self._used_by(node):
                if used != node:
                    found[used].add(node)
            if node[0].startswith(_CHAPTERS):
                found[node].add(_CHAPTERS_CODE)
        found[_CHAPTERS_CODE] |= {node for node in _RUN_CHAPTERS if node in self.parts}
        for file in self._files:
            names = self._names_in.get(file, ())
            is_code = names and not file.startswith(_CHAPTERS)
            if not is_code or not any(found.get((file, name)) for name in names):
                found[file, BODY] |= self._users_of_folder(file)
        return found

    def _users_of_folder(self, file: str) -> set[Node]:
        """Return who names the nearest folder around ``file`` that anybody names."""
        for folder in PurePosixPath(file).parents:
            if users := {node for node, part in self.parts.items() if folder.name in part.words}:
                return users
        return set()

    def _used_by(self, node: Node) -> Iterator[Node]:
        file, name = node
        part = self.parts[node]
        if name != BODY:
            yield file, BODY
        else:
            for other in self._names_in[file]:
                if self.parts[file, other].is_for_all:
                    yield file, other
        bound = self.parts[file, BODY].imports | part.imports
        for dotted in part.imports.values():
            yield from ((f, BODY) for f in self._files_of(dotted, file))
        named = {node for read in part.names for node in self._meant_by(read, file, bound)}
        for word in part.words:
            named |= set(self._meant_by_word(word, file))
        # Whoever starts a program of this environment says where it lies.
        if "sys.executable" in part.names:
            named |= {_PROGRAMS[word] for word in part.words & set(_PROGRAMS)}
        yield from named
        if file != _COMMANDS[0] and _COMMANDS in named:
            yield from self._commands_named(file)

    def _meant_by(self, read: str, file: str, bound: Mapping[str, str]) -> Iterator[Node]:
        name, _, attribute = read.partition(".")
        if name in self._names_in[file]:
            yield file, name
        if name in bound:
            dotted = f"{bound[name]}.{attribute}" if attribute else bound[name]
            yield from self._parts_of(dotted, file)

    def _parts_of(self, dotted: str, user: str) -> Iterator[Node]:
        """Yield the part that a dotted name means; all of a module where it means the module."""
        dotted = self._loaded_later.get(dotted, dotted)
        *packages, last = dotted.split(".")
        module = self._file_of(".".join(packages), user)
        if whole := self._file_of(dotted, user):
            # Only its body: what is used of it is named with an attribute, or handed on whole.
            yield whole, BODY
        elif module and last in self._names_in[module]:
            yield module, last
        elif module and last in (imports := self.parts[module, BODY].imports):
            yield module, BODY
            yield from self._parts_of(imports[last], module)
        elif packages:
            yield from self._parts_of(".".join(packages), user)

    def _file_of(self, dotted: str, user: str) -> str:
        path = dotted.replace(".", "/")
        for root in (*_ROOTS, f"{PurePosixPath(user).parent}/"):
            for file in (f"{root}{path}.py", f"{root}{path}/__init__.py"):
                if dotted and file in self._names_in:
                    return file
        return ""

    def _files_of(self, dotted: str, user: str) -> Iterator[str]:
        """Yield the files that importing a dotted name runs."""
        parts = self._loaded_later.get(dotted, dotted).split(".")
        for count in range(1, len(parts) + 1):
            if file := self._file_of(".".join(parts[:count]), user):
                yield file

    def _meant_by_word(self, word: str, file: str) -> Iterator[Node]:
        if word in self._names_in[file] and self.parts[file, word].is_fixture:
            yield file, word
        elif word in self._fixtures:
            yield self._fixtures[word]
        for dotted in _MODULE.findall(word):
            yield from self._whole(list(self._files_of(dotted, file))[-1:])
        if found := _FILE_NAME.fullmatch(word):
            yield from self._whole(self._by_name.get(found[1], ()))

    def _whole(self, files: Iterable[str]) -> Iterator[Node]:
        for file in files:
            yield file, BODY
            yield from ((file, name) for name in self._names_in.get(file, ()))

    def _commands_named(self, file: str) -> Iterator[Node]:
        """Yield the commands whose names stand in ``file``; all of them if none does."""
        words = {word for name in self._names_in[file] for word in self.parts[file, name].words}
        commands = [node for node, part in self.parts.items() if part.registered_with]
        named = [node for node in commands if node[1].replace("_", "-").strip("-") in words]
        yield from (named or commands)

    # --- Which tests are reached

    def tests_reached(self, changed: Iterable[Node]) -> dict[Node, int]:
        """Return the tests that changed parts can reach, and in how many steps."""
        steps = {node: 0 for node in changed}
        if {file for file, _ in steps} & set(FOR_ALL_TESTS):
            return {node: 0 for node in self.parts if is_test(node)}
        waiting = list(steps)
        while waiting:
            following = []
            for node in waiting:
                for user in self.users.get(node, ()):
                    if user not in steps:
                        steps[user] = steps[node] + 1
                        following.append(user)
            waiting = following
        return {node: count for node, count in steps.items() if is_test(node)}

    def words_near(self, test: Node) -> set[str]:
        """Return the texts in a test and in what it uses of its own file."""
        seen, waiting, words = {test}, [test], set()
        while waiting:
            node = waiting.pop()
            words |= self.parts[node].words
            for used in self._used_by(node):
                if used[0] == test[0] and used not in seen:
                    seen.add(used)
                    waiting.append(used)
        return words


def is_test(node: Node) -> bool:
    """Return whether a part is a test."""
    return is_test_file(node[0]) and node[1].startswith("test_")
