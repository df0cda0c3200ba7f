"""A crash is told with the student's own lines, and with nobody else's."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator

import pytest
from course_files import find_cell, release
from jupyter_client.manager import start_new_kernel

from helpers.catalogue import find_exercise
from helpers.frames import MOST_FRAMES, Frame, Place, make_frame
from helpers.grading.judge.session import _read_answer

EXERCISE = find_exercise("safe-log")
CRASHES = """


def root(x, times):
    # deeper and deeper
    return root(x, times - 1) if times else x.no_such_method()

def safe_log(x):
    return root(
        x, {times}
    )
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], str]]:
    """Return a function that runs a cell in a kernel, and returns what it shows as text."""
    manager, client = start_new_kernel(cwd=str(tmp_path_factory.mktemp("student")))

    def execute(code: str) -> str:
        shown: list[str] = []

        def keep(message: dict) -> None:
            content = message["content"]
            shown.append(content.get("text") or content.get("data", {}).get("text/plain", ""))

        client.execute_interactive(code, timeout=60, output_hook=keep)
        return "\n".join(shown)

    cells = release(EXERCISE.chapter).cells
    needed = (c.source for c in cells if c.metadata.get("nbgrader", {}).get("locked"))
    execute(next(needed))
    yield execute
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def check() -> str:
    return find_cell(release(EXERCISE.chapter), f"test-{EXERCISE.name}").source


def test_a_crash_is_told_with_its_line_and_the_students_own_frames(
    run: Callable[[str], str],
) -> None:
    run(CRASHES.format(times=0))
    rows = [line.split() for line in run(check()).splitlines()]
    at = next(row for row in rows if row[:1] == ["at"])
    called = next(row for row in rows if row[:2] == ["called", "at"])
    # The line as its author counts, with the empty ones above it.
    assert " ".join(at[3:]) == "line 6, in root: " + CRASHES.splitlines()[5].strip()
    assert " ".join(called[4:]) == "line 9, in safe_log: return root("
    assert at[1:3] == called[2:4]
    assert [row for row in rows if row[1:3] == at[1:3] or row[2:4] == at[1:3]] == [at, called]


def test_of_a_deep_recursion_the_innermost_lines_are_told(run: Callable[[str], str]) -> None:
    run(CRASHES.format(times=200))
    told = run(check())
    assert sum("in root: " in line for line in told.splitlines()) <= MOST_FRAMES
    assert "has no attribute 'no_such_method'" in told


def test_another_exercises_stub_is_named_and_the_answer_is_not_called_empty(
    run: Callable[[str], str],
) -> None:
    (softmax,) = (c for c in release(EXERCISE.chapter).cells if c.id == "softmax")
    run(softmax.source)
    run("def safe_log(x):\n    return softmax(x, 0)\n")
    told = run(check())
    number = find_exercise("softmax").number
    assert f"your code calls softmax, which is not written yet: exercise {number}" in told
    assert "line 2, in safe_log: return softmax(x, 0)" in told
    assert "nothing is written here yet: replace" not in told
    run(find_cell(release(EXERCISE.chapter), EXERCISE.name).source)
    told = run(check())
    assert "nothing is written here yet: replace" in told


def test_a_wrong_call_of_ours_shows_no_frame(run: Callable[[str], str]) -> None:
    run("def safe_log():\n    return 1\n")
    told = run(check())
    assert "takes 0 positional arguments" in told
    assert "line " not in told


def test_an_answer_that_is_older_than_its_last_cell_is_told(run: Callable[[str], str]) -> None:
    right = "def safe_log(x):\n    return x.clamp(min=1e-30).log()\n"
    run(f"import functools\n{right}")
    assert "Note:" not in run(check())
    run(f"import no_such_module\n{right}    # a second try")
    told = run(check())
    assert "defines safe_log, but the safe_log that is checked here is still that of cell" in told
    run(f"@functools.lru_cache\n{right}safe_log(1)  # an error below the answer")
    assert "Note:" not in run(check())
    run("safe_log = functools.partial(safe_log)")
    assert "Note:" not in run(check())
    run("class Log:\n    def __call__(self, x):\n        return x.log()\n\nsafe_log = Log()")
    assert "Note:" not in run(check())


def test_a_later_cell_that_takes_a_name_of_the_answers_is_told(run: Callable[[str], str]) -> None:
    run("def _of_positive(x):\n    return x.log()")
    answer = "FLOOR = 1e-30\n\ndef safe_log(x):\n    return _of_positive(x.clamp(min=FLOOR))\n"
    run(answer)
    run("x = floor = 1")
    run("import math as _of_positive_numbers\n\ndef FLOORS():\n    FLOOR = 1\n    return FLOOR")
    run("def clamp():\n    pass")
    run(answer)
    run("clamp = 1  # an attribute's name")
    assert "Note:" not in run(check())
    run("for _of_positive in range(3):\n    pass")
    told = run(check())
    assert "Note: safe_log uses the _of_positive of cell [" in told
    assert "has given _of_positive another value: choose another name in your cell" in told
    run("def _of_positive(x):\n    return x.log()")
    run(answer)
    assert "Note:" not in run(check())
    run("FLOOR = 0.5")
    assert "Note: safe_log uses the FLOOR of cell [" in run(check())
    run(answer)
    assert "Note:" not in run(check())


def test_a_process_can_point_at_a_line_and_put_in_no_words() -> None:
    places = [
        [0, 1, "f"],
        [-1, 1, "f"],
        [1, 0, "f"],
        [1, 1, 2],
        ["1", 1, "f"],
        [1, 2, "f", 3],
        {"a": 1},
        None,
        [2**70, 7, "<script>" * 1000],
        [3, 4, "g" * 10_000],
    ]
    answers = [_read_answer({"places": [place]}).places for place in places]
    assert answers == [
        [Place(0, 1, "f")],
        *[[]] * 7,
        [Place(2**70, 7, "<module>")],
        [Place(3, 4, "g" * 60)],
    ]
    assert len(_read_answer({"places": [[0, 1, "f"]] * 10_000}).places) == MOST_FRAMES
    for odd in (None, "abc", 7, {"0": [0, 1, "f"]}):
        assert _read_answer({"places": odd}).places == []


def test_a_place_that_a_cell_does_not_have_is_no_frame() -> None:
    code = textwrap.dedent("""\

        def f():
            return \x1b[31m1\x1b[2K
    """)
    assert make_frame(Place(1, 2, "f"), "cell 1", code) == Frame("cell 1", 3, "f", "return 1�[2K")
    for line in (-5, -1, 0, 4, 10**30):
        assert make_frame(Place(1, line, "f"), "cell 1", code) is None
    assert str(Frame("cell 1", 3, "<module>", "x = 1")) == "cell 1, line 3: x = 1"
