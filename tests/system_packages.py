"""A pytest plugin: tests that need a system package, and a last word on those not run.

``@pytest.mark.needs_system("bubblewrap")`` names a package of apt.txt beside this file. Where it
is missing the test is skipped, and the skip is printed after everything else, where nobody can
miss it.
"""

import shutil

import pytest

import bootstrap

REASON = "needs the system package "
NOT_RUN = pytest.StashKey[list[tuple[str, str]]]()


def find_program(package: str) -> str | None:
    """Return the path of the program that a package of apt.txt is wanted for."""
    found = (shutil.which(program) for program in bootstrap.PROGRAMS[package])
    return next((path for path in found if path), None)


def pytest_configure(config: pytest.Config) -> None:
    config.stash[NOT_RUN] = []
    config.addinivalue_line(
        "markers", "needs_system(package): skip, and say so at the end, without this package"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    known = bootstrap.read_system_packages(bootstrap.ROOT)
    for item in items:
        for mark in item.iter_markers("needs_system"):
            (package,) = mark.args
            if package not in known:
                raise pytest.UsageError(
                    f"{item.nodeid} needs {package!r}: add it to tests/apt.txt."
                )
            if not bootstrap.has_package(package):
                item.add_marker(pytest.mark.skip(reason=REASON + package))


def pytest_terminal_summary(terminalreporter, config: pytest.Config) -> None:
    for report in terminalreporter.stats.get("skipped", []):
        _, _, reason = report.longrepr
        _, found, package = reason.partition(REASON)
        if found:
            config.stash[NOT_RUN].append((report.nodeid, package))


@pytest.hookimpl(tryfirst=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    # Later than the terminal summary: pytest's own last line has been printed by now.
    not_run = config.stash.get(NOT_RUN, [])
    if not not_run:
        return
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    packages = sorted({package for _, package in not_run})
    terminal.section(f"{len(not_run)} TESTS NOT RUN", sep="!", yellow=True, bold=True)
    for nodeid, package in sorted(not_run):
        terminal.line(f"NOT RUN  {nodeid}  (needs {package})", yellow=True)
    terminal.line(f"To run them, on Debian: sudo apt-get install {' '.join(packages)}", yellow=True)
