"""A pytest plugin: only the tests that a change can reach, nearest first, for as long as there is.

`--changed` compares with where the branch began, `--changed=REVISION` with that. `--seconds` is how
long tests may take. Those that need a sandbox or a time limit of their own come last, and one that
would end too late is not begun: every run remembers which take long. What was left out is said at
the end.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest
from change_reach import MARKS_OF_SLOW_TESTS, Tree, is_test, is_test_file
from what_changed import changed_files, changed_parts, find_base, repository_files

import helpers
from helpers.catalogue import load_chapters

ROOT = Path(__file__).resolve().parent.parent
# They look at every file there is, and are no nearer to one than to another.
_FAR = 3
_ALWAYS = ("tests/test_house.py", "tests/test_spelling.py")
_OF_A_CHAPTER = ("course/chapters/", "course/source/", "course/release/", "helpers/catalogue/")
_OF_A_CHAPTER += ("tests/exercises/", "tests/honest/")
_SENT = "changed_only"
_DURATIONS = "bits/durations"
_LONG = 3.0
# What slow tests take, as long as nobody has seen one.
_SECONDS_OF_SLOW_ONES = 12.0
_NO_TIME = "there was no time for it"
_TAKEN: Counter[str] = Counter()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--changed", nargs="?", const="", help="only what the change since a revision can reach"
    )
    parser.addoption("--seconds", type=float, help="with --changed: begin no test after so long")


def loaded_later() -> dict[str, str]:
    """Return where the names lie that `helpers` loads when they are asked for."""
    found = helpers._MODULES.items()
    return {f"helpers.{name}": f"helpers.{file}.{name}" for name, file in found if name != file}


def chapters_of(files: Iterable[str]) -> set[str]:
    """Return the chapters that ``files`` belong to; none if a file belongs to no chapter alone."""
    names = {chapter.name.replace("-", "_"): chapter.name for chapter in load_chapters()}
    found = set()
    for file in files:
        if not file.startswith(_OF_A_CHAPTER):
            return set()
        known = [name for stem, name in names.items() if stem in file.replace("-", "_")]
        if not known:
            return set()
        found.update(known)
    return found


@dataclass(frozen=True)
class Selection:
    """The tests to run, as plain data: the processes of a run share it.

    Attributes:
        steps: how far away each test is that the change can reach, by its file and name.
        chapters: those that the change is in; empty if it is in anything else, too.
        elsewhere: tests that look at other chapters alone, if they look at none by a parameter.
        durations: the seconds that long tests took here before.
    """

    steps: dict[str, int]
    chapters: list[str]
    elsewhere: list[str]
    durations: dict[str, float]

    @property
    def files(self) -> set[str]:
        """The test files in which there is something to run."""
        return {test.partition("::")[0] for test in self.steps}


def select(base: str, durations: dict[str, float]) -> Selection:
    """Return what can be reached by what differs from ``base``, or from where the branch began."""
    base = base or find_base(ROOT)
    files = changed_files(ROOT, base)
    tree = Tree(ROOT, repository_files(ROOT), loaded_later())
    reached = tree.tests_reached(changed_parts(ROOT, base, files))
    for node in tree.parts:
        if node[0] in _ALWAYS and is_test(node):
            reached.setdefault(node, _FAR)
    chapters = chapters_of(files)
    elsewhere, names = [], chapter_names()
    for node in reached if chapters else ():
        fixed = {names[word] for word in tree.words_near(node) & names.keys()}
        if fixed and not fixed & chapters:
            elsewhere.append("::".join(node))
    steps = {"::".join(node): count for node, count in reached.items()}
    return Selection(steps, sorted(chapters), elsewhere, durations)


def chapter_names() -> dict[str, str]:
    """Return the chapter that each word means: its name, or that of an exercise in it."""
    return {
        word: chapter.name
        for chapter in load_chapters()
        for word in (chapter.name, *(exercise.name for exercise in chapter.exercises))
    }


def named_in(values: Iterable[object], names: Mapping[str, str]) -> Iterator[str]:
    """Yield the chapters that a test's parameters are of."""
    for value in values:
        words = (value, *(getattr(value, name, None) for name in ("chapter", "exercise", "name")))
        yield from (names[word] for word in words if isinstance(word, str) and word in names)


def pytest_configure(config: pytest.Config) -> None:
    base = config.getoption("changed")
    if base is None:
        return
    sent = getattr(config, "workerinput", {}).get(_SENT)
    cache = getattr(config, "cache", None)
    durations = cache.get(_DURATIONS, {}) if cache else {}
    selection = Selection(**sent) if sent else select(base, durations)
    seconds = config.getoption("seconds") or float("inf")
    config.pluginmanager.register(ChangedOnly(selection, seconds), "changed-only-tests")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if not is_late(report):
        _TAKEN[report.nodeid] += report.duration


def is_late(report: pytest.TestReport) -> bool:
    """Return whether a test was left out because there was no time for it."""
    return report.skipped and report.longrepr[-1] == f"Skipped: {_NO_TIME}"


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Remember which tests take long, for the next run that has little time."""
    cache = getattr(session.config, "cache", None)
    if cache is not None and not hasattr(session.config, "workerinput"):
        known = {**cache.get(_DURATIONS, {}), **_TAKEN}
        cache.set(_DURATIONS, {t: round(s, 1) for t, s in known.items() if s >= _LONG})


class ChangedOnly:
    """What pytest is told where only the tests of a change are asked for."""

    def __init__(self, selection: Selection, seconds: float) -> None:
        """Take the tests, and how long one may begin after the first has begun."""
        self._selection = selection
        self._names = chapter_names()
        self._seconds = seconds
        self._end = float("inf")
        self._late: Counter[str] = Counter()

    def _distance(self, item: pytest.Item) -> int | None:
        """Return how far away a test is; none if the change does not reach it."""
        name = getattr(item, "originalname", item.name)
        test = f"{item.path.relative_to(ROOT).as_posix()}::{name}"
        steps = self._selection.steps.get(test)
        chapters = set(self._selection.chapters)
        if steps is None or not chapters:
            return steps
        parameters = getattr(item, "callspec", None)
        named = set(named_in(parameters.params.values() if parameters else (), self._names))
        if named:  # a test of this very chapter is nearer than one that is of none
            return 0 if named & chapters else None
        return None if test in self._selection.elsewhere else steps

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        file = collection_path.relative_to(ROOT).as_posix()
        return True if is_test_file(file) and file not in self._selection.files else None

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        distances = {item: self._distance(item) for item in items}
        left = [item for item in items if distances[item] is None]
        config.hook.pytest_deselected(items=left)
        kept = [item for item in items if distances[item] is not None]
        # Sorting keeps tests of one file together, as far as they are equally near.
        items[:] = sorted(kept, key=lambda item: (self._seconds_of(item) > 0, distances[item]))

    def _seconds_of(self, item: pytest.Item) -> float:
        is_slow = any(item.get_closest_marker(name) for name in MARKS_OF_SLOW_TESTS)
        unknown = _SECONDS_OF_SLOW_ONES if is_slow else 0.0
        return self._selection.durations.get(item.nodeid, unknown)

    # Were a test kept out of pytest's own protocol, the fixtures of the one before would stay.
    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        self._end = min(self._end, time.monotonic() + self._seconds)
        if time.monotonic() + self._seconds_of(item) >= self._end:
            self._late[item.path.relative_to(ROOT).as_posix()] += 1
            pytest.skip(_NO_TIME)

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        return ("not tried", "", "NOT TRIED") if is_late(report) else None

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node) -> None:
        node.workerinput[_SENT] = asdict(self._selection)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["late"] = dict(self._late)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node) -> None:
        self._late.update(getattr(node, "workeroutput", {}).get("late", {}))

    def pytest_terminal_summary(self, terminalreporter) -> None:
        reached = self._selection.files
        others = sorted(
            file.relative_to(ROOT).as_posix()
            for file in (ROOT / "tests").glob("test_*.py")
            if file.relative_to(ROOT).as_posix() not in reached
        )
        write = terminalreporter.write_line
        terminalreporter.section("LEFT OUT", sep="-")
        write(f"{len(others)} files of tests that the change does not reach.")
        for file, count in sorted(self._late.items()):
            write(f"No time for {count} tests: {file}", yellow=True)
        write("No notebook is run again: make build has run those whose text changed.")
        write("All there is: make test")
