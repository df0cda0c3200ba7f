"""A pytest plugin: right solutions judged again and again: does a verdict hang on luck?"""

from __future__ import annotations

from collections import Counter

import pytest

_JUDGED = "judged"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Say how often right solutions are judged, and whether all wrong ones are."""
    parser.addoption("--repeats", type=int, default=1, help="how often right solutions are judged")
    parser.addoption(
        "--all-judged", action="store_true", help="judge every wrong solution, not one in four"
    )


def note(request: pytest.FixtureRequest, exercise: str, *, is_full: bool) -> None:
    """Remember for the run's summary whether an exercise got all its points."""
    request.node.user_properties.append((_JUDGED, [exercise, is_full]))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tell how often each exercise got all its points, if any was judged more than once."""
    tried, full = Counter[str](), Counter[str]()
    reports = [*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")]
    for report in reports:
        for name, value in report.user_properties if report.when == "call" else ():
            if name == _JUDGED:
                tried[value[0]] += 1
                full[value[0]] += value[1]
    if max(tried.values(), default=0) < 2:
        return
    terminalreporter.section("right solutions, and how often they got all points")
    for exercise, count in sorted(tried.items()):
        terminalreporter.write_line(f"{exercise:<48} {full[exercise]:>4} of {count}")
