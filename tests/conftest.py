"""What all tests share."""

import os

# Tests run in several processes at a time. Where each had a thread for every core, threads would
# wait for each other by spinning: small operations took ten times as long. Before torch is loaded.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# The first optimizer loads it, which takes seconds: not while a check's clock runs.
import pytest
import torch._dynamo  # noqa: F401

pytest_plugins = ["system_packages", "browser", "real_book"]

# Tests of one file share what is made for them, so they run in one process. Those of these files
# share nothing and take long: each may run in whichever process is free.
_EACH_ON_ITS_OWN = {"test_nbgrader_chapters.py", "test_judged_chapters.py"}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Say how often the contract of an exercise is asked for anew."""
    parser.addoption("--draws", type=int, default=2, help="inputs drawn for each solution")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Say which tests run in the same process (``--dist loadgroup``)."""
    for item in items:
        file = item.path.name
        chapter = getattr(item, "callspec", None) and item.callspec.params.get("chapter")
        group = f"{file}-{chapter}" if file in _EACH_ON_ITS_OWN and chapter else file
        item.add_marker(pytest.mark.xdist_group(group))
