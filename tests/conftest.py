"""What all tests share."""

import functools
import os
import re
import signal
from pathlib import Path

# Tests run in several processes at a time. Where each had a thread for every core, threads would
# wait for each other by spinning: small operations took ten times as long. Before torch is loaded.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# The first optimizer loads it, which takes seconds: not while a check's clock runs.
import pytest
import torch._dynamo  # noqa: F401
from change_reach import has_slow_tests
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling

pytest_plugins = [
    "system_packages",
    "browser",
    "run_folder",
    "real_book",
    "known_points",
    "repeats",
    "registered_chapters",
    "changed_only",
    "fuzzing",
]

# No test hangs on the clock. With `--hypothesis-profile=long`, searches that say nothing else go on
# for about ten minutes.
_UNHURRIED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("unhurried", **_UNHURRIED)
settings.register_profile("long", max_examples=100_000, **_UNHURRIED)
settings.load_profile("unhurried")

# Whoever starts tests in the background has told them to ignore Ctrl-C, and what they start, too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests of one file share what is made for them, so they run in one process. Those of these files
# share little and take long: each may run in whichever process is free. They come last, in this
# order: the last two hold what the exercises' own tests gave against other things.
_EACH_ON_ITS_OWN = (
    "test_nbgrader_chapters.py",
    "test_attack_corpus.py",
    "test_honest_notebooks.py",
    "test_exercises.py",
    "test_visible_checks.py",
    "test_judged_chapters.py",
)
# But for these: the last of them looks for what the others may have left.
_TOGETHER = re.compile(r"test_attack_corpus\.py::.*(\[survivors-|_nothing_is_left)")


class _SlowOneByOne(LoadFileScheduling):
    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return nodeid if _has_slow_tests(file) else file


@functools.cache
def _has_slow_tests(file: str) -> bool:
    return has_slow_tests(Path(__file__).parent.parent / file)


class _ByFile(LoadFileScheduling):
    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        alone = Path(file).name in _EACH_ON_ITS_OWN and not _TOGETHER.search(nodeid)
        return nodeid if alone else file


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests that any process may run in their order; others stay where they are."""
    order = {name: number for number, name in enumerate(_EACH_ON_ITS_OWN)}
    items.sort(key=lambda item: order.get(item.path.name, -1))


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadFileScheduling | None:
    """Say which tests run in the same process, for ``--dist loadfile``."""
    if config.getoption("dist") != "loadfile":
        return None
    if config.getoption("changed") is None:
        return _ByFile(config, log)
    config.option.loadscopereorder = False  # the nearest tests come first, wherever they stand
    return _SlowOneByOne(config, log)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Say how often the contract of an exercise is asked for anew."""
    parser.addoption("--draws", type=int, default=0, help="inputs drawn for each solution")
    parser.addoption("--kills", type=int, default=3, help="how often a real grader is killed")
    parser.addoption(
        "--hostile-class",
        type=int,
        default=0,
        help="grade a class of as many honest and as many hostile students, in three ways",
    )
