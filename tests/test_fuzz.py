"""Whatever a student hands in, no stage of grading raises what it should not, or is slow.

Intake, sanitizing, reading of code, messages from a student's process, texts that are disarmed,
and the report. `make fuzz MINUTES=10` searches for ten minutes in each.
"""

from __future__ import annotations

import copy
import csv
import io
import json
import re
import tempfile
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import nbformat
import pytest
import test_disarmed_texts
import test_intake_search
import test_judges_own_limits as own_limits
import test_reading_anything as reading
import test_sanitize
from classroom import solved, to_bytes
from fuzzing import Search, check_growth
from hypothesis import strategies as st
from test_intake import ASSIGNMENT, NOTEBOOK, make_folder, make_notebook
from test_wire import frame_of

from helpers.grading.caps import Caps
from helpers.grading.intake.intake import collect, summarize
from helpers.grading.judge.sanitize import sanitize
from helpers.grading.markdown import MOST_CHARACTERS, disarm, disarm_raw, render_markdown
from helpers.grading.report.alike import Solutions
from helpers.grading.report.answers import read_answers
from helpers.grading.report.feedback import render_feedback
from helpers.grading.report.marks import GradebookView
from helpers.grading.report.overview import render_overview
from helpers.grading.report.senders import Sender
from helpers.grading.report.tables import Row, canvas_table, grades_table, moodle_table
from helpers.grading.report.tally import Tally
from helpers.grading.soundness import MalformedError, examine
from helpers.grading.verdicts import ExerciseResult, Judged, PropertyResult, Verdict

pytestmark = pytest.mark.timeout(0)
CAPS = Caps()
# What may stand in a text, and what may be in it many times.
PIECES = test_disarmed_texts.PIECES | st.text(max_size=4)
grown = st.tuples(
    st.lists(PIECES, max_size=3).map("".join),
    st.lists(PIECES, min_size=1, max_size=4).map("".join).filter(bool),
    st.lists(PIECES, max_size=3).map("".join),
)


def repeat(parts: tuple[str, str, str], size: int) -> str:
    """Return a text of about ``size`` characters that says the same again and again."""
    first, unit, last = parts
    return first + unit * (size // len(unit)) + last


# --- Intake ----------------------------------------------------------------------------------


def test_intake_takes_any_tree(search: Search) -> None:
    whole = test_intake_search.test_nobody_gets_or_loses_what_belongs_to_others
    search(
        whole.hypothesis.inner_test,
        test_intake_search.trees,
        st.sampled_from(["folder", "zip"]),
        st.booleans(),
        st.sampled_from([None, "eve"]),
        examples=3,
    )


BYTES = st.sampled_from(
    [b'{"', b'":', b"[", b"]", b"}", b",", b'"', b"\\", b"\\u", b"0", b"1e9", b"-", b"null", b"\0",
     b" ", b"\n", b'"cells"', b'"metadata"', b'"source"', b"\xff", b"\xef\xbb\xbf", b'{"a":', b"[["]
) | st.binary(max_size=3)  # fmt: skip
WHOLE = to_bytes(solved(test_sanitize.CHAPTER))


def examined(content: bytes) -> None:
    try:
        examine(content, CAPS)
    except MalformedError as error:
        said = str(error)
    else:
        said = "it can be read"
        nbformat.v4.writes(nbformat.v4.reads(content.decode("utf-8-sig"))).encode()
    assert said.isprintable()
    assert len(said) < 500


def test_intake_takes_any_bytes(search: Search) -> None:
    def damage(changes: list[tuple[int, int, bytes]]) -> None:
        content = bytearray(WHOLE)
        for place, length, new in changes:
            at = place % len(content)
            content[at : at + length] = new
        examined(bytes(content))

    places, lengths = st.integers(0, len(WHOLE)), st.integers(0, 40)
    search(damage, st.lists(st.tuples(places, lengths, BYTES), min_size=1, max_size=5))


def test_intake_takes_no_longer_than_its_bytes(search: Search) -> None:
    def take(first: bytes, unit: bytes, last: bytes, inside: bool) -> None:
        def content(size: int) -> bytes:
            repeated = first + unit * (size // len(unit)) + last
            if inside:
                return WHOLE[:-3] + b', "x": ' + repeated + b"}"
            return repeated

        check_growth(lambda size: examined(content(size)), 20_000, 320_000)

    some = st.lists(BYTES, max_size=3).map(b"".join)
    search(take, some, some.filter(bool), some, st.booleans(), examples=3)


def test_intake_takes_no_longer_than_its_files(search: Search) -> None:
    def take(folder: str, file: str, suffix: str) -> None:
        def collected(count: int) -> None:
            with tempfile.TemporaryDirectory() as at:
                course = test_intake_search.make_course(Path(at))
                names = [f"{folder}{number}/{file}{suffix}" for number in range(count)]
                contents = {
                    name: make_notebook(name)
                    for name in names
                    if test_intake_search.can_be_written(name)
                }
                if contents:
                    source = make_folder(Path(at) / "class", contents)
                    summarize(collect(source, course, ASSIGNMENT))

        check_growth(collected, 10, 40)

    name = st.text(st.sampled_from("ab_-0 .()é"), min_size=1, max_size=5).filter(str.strip)
    kinds = st.sampled_from(["", "_1_2_", "_1_assignsubmission_file_", " (1)"])
    folder = st.tuples(name, kinds).map("".join)
    search(take, folder, kinds, st.sampled_from([NOTEBOOK, "x.ipynb"]), examples=1)


# --- Sanitizing ------------------------------------------------------------------------------


def test_sanitizing_keeps_its_law(search: Search) -> None:
    cells = test_sanitize.arrange("title needed-1 demo() card a=x helper test-a b=y own test-b end")

    def take(changes: list[tuple]) -> None:
        changed = test_sanitize.change(cells, changes)
        test_sanitize.check_law(test_sanitize.submission(changed), test_sanitize.SMALL)

    search(take, test_sanitize.CHANGES, examples=40)


def test_sanitizing_takes_no_longer_than_its_cells(search: Search) -> None:
    cells = test_sanitize.arrange("title needed-1 demo() card a=x helper test-a b=y own test-b end")

    def take(changes: list[tuple], place: int, parts: tuple[str, str, str], many: bool) -> None:
        changed = test_sanitize.change(cells, changes)
        cell = changed[place % len(changed)]

        def content(size: int) -> bytes:
            if many:
                copies = [copy.deepcopy(cell) for _ in range(size // 300)]
                for number, each in enumerate(copies):
                    each["source"] += f"\n{parts[1]}{number}"
                return test_sanitize.submission([*changed, *copies])
            longer = {**cell, "source": repeat(parts, 4 * size)}
            return test_sanitize.submission([*changed, longer])

        check_growth(lambda size: sanitize(content(size), test_sanitize.SMALL), 5_000, 80_000)

    search(take, test_sanitize.CHANGES, st.integers(0, 20), grown, st.booleans(), examples=3)


# --- Reading of code -------------------------------------------------------------------------

code = reading.cell | reading.noise


def test_code_of_any_kind_is_read(search: Search) -> None:
    search(reading.read_all, st.lists(code, min_size=1, max_size=4))


def test_reading_takes_no_longer_than_the_code(search: Search) -> None:
    def take(first: str, unit: str, last: str, line: bool) -> None:
        unit += "\n" * line

        def read(size: int) -> None:
            numbered = unit.replace("x", "x{}")
            count = max(1, size // len(unit))
            whole = "".join(numbered.replace("{}", str(n)) for n in range(count))
            reading.read_all([first + whole + last, "def f(x): return x + x1 + x2"])

        check_growth(read, 500, 16_000)

    few = st.just("") | reading.noise | reading.simple
    search(take, few, code.filter(bool), few, st.booleans(), examples=3)


# --- Messages of a student's process ---------------------------------------------------------


def test_any_message_is_taken(search: Search) -> None:
    def take(value: Any, blob: bytes) -> None:
        own_limits.take(frame_of(json.dumps({"dict": [["value", value]]}), blob))

    search(take, own_limits.encoded, own_limits.blobs, examples=40)


def test_a_message_takes_no_longer_than_its_bytes(search: Search) -> None:
    def take(items: list[Any], kind: str, blob: bytes, step: int) -> None:
        def frame(count: int) -> bytes:
            if kind == "dict":
                pairs = [[n * step, items[n % len(items)]] for n in range(count)]
                value: Any = {"dict": pairs}
            else:
                value = {kind: [items[n % len(items)] for n in range(count)]}
            return frame_of(json.dumps({"dict": [["value", value]]}), blob)

        check_growth(lambda count: own_limits.with_refusals(frame(count)), 1_000, 32_000)

    search(
        take,
        st.lists(own_limits.encoded, min_size=1, max_size=3),
        st.sampled_from(["list", "tuple", "dict"]),
        own_limits.blobs,
        st.sampled_from([1, 2**20, 2**32, 2**61 - 1]) | st.integers(1, 2**70),
        examples=4,
    )


# --- Texts that are disarmed -----------------------------------------------------------------


def check_disarmed(text: str) -> None:
    for shown in (disarm(text).text, disarm_raw(text).text):
        page = test_disarmed_texts.as_shown(shown)
        # MathJax leaves alone what stands in <pre>.
        assert test_disarmed_texts.faults(re.sub("(?s)<pre>.*?</pre>", "", page)) == []
        assert test_disarmed_texts.faults(render_markdown(shown)) == []
    assert test_disarmed_texts.faults(render_markdown(text)) == []


def test_any_text_is_disarmed(search: Search) -> None:
    search(check_disarmed, st.lists(PIECES, max_size=20).map("".join), examples=40)


def test_disarming_takes_no_longer_than_the_text(search: Search) -> None:
    def take(parts: tuple[str, str, str]) -> None:
        check_growth(lambda size: disarm(repeat(parts, size)), 500, 4 * MOST_CHARACTERS)

    search(take, grown, examples=4)


# --- The report ------------------------------------------------------------------------------

HOSTILE = st.lists(
    st.sampled_from(
        [*("<script>", "</script>", "<img src=x onerror=x>", '"', "'", "<b onload=x>", "&#60;"),
         *("=1+1", "+1", "-1", "@x", "|", ";", ",", "\t", "\r", "\n", "\0", "\x1b[2J", "\u202e"),
         *("javascript:x", "{{ x }}", "{% x %}", "\\href{x}", "$", "`", "tensor of shape (3, 5)"),
         *("returned nan in 3 of 28 places, expected numbers", "9" * 50, " ", "raised E: ")]
    ) | st.text(max_size=4),
    max_size=5,
).map("".join)  # fmt: skip
outcomes = st.sampled_from(["passed", "failed", "not tried", "waiting"])
properties = st.builds(
    PropertyResult, HOSTILE, st.floats(0, 10), outcomes, HOSTILE,
    st.lists(st.tuples(HOSTILE, HOSTILE), max_size=2).map(tuple), st.booleans(), HOSTILE,
)  # fmt: skip
exercises = st.builds(
    ExerciseResult, st.sampled_from(["softmax", "safe-log"]), st.sampled_from(Verdict),
    st.floats(0, 4), st.just(4.0), HOSTILE, st.lists(properties, max_size=3).map(tuple), HOSTILE,
    st.floats(0, 4), st.lists(HOSTILE, max_size=2).map(tuple), HOSTILE,
)  # fmt: skip
outputs = st.fixed_dictionaries(
    {
        "output_type": st.sampled_from(["stream", "error", "display_data", "execute_result", "x"]),
        "text": HOSTILE | st.lists(HOSTILE, max_size=2),
        "ename": HOSTILE,
        "evalue": HOSTILE,
        "traceback": st.lists(HOSTILE, max_size=2),
        "data": st.dictionaries(
            st.sampled_from(["text/plain", "text/html", "image/png", "image/svg+xml"]), HOSTILE
        ),
        "metadata": st.just({}),
    }
)
judged_cells = st.fixed_dictionaries(
    {
        "cell_type": st.sampled_from(["code", "markdown"]),
        "source": HOSTILE | st.lists(HOSTILE, max_size=2),
        "metadata": st.fixed_dictionaries(
            {"nbgrader": st.fixed_dictionaries(
                {"solution": st.booleans(), "locked": st.just(False), "grade_id": HOSTILE}
            )}
        ),
        "outputs": st.lists(outputs, max_size=3),
    }
)  # fmt: skip
students = st.tuples(
    st.text(min_size=1, max_size=5) | HOSTILE.filter(bool),
    HOSTILE,
    st.lists(exercises, max_size=3, unique_by=lambda e: e.name),
    st.lists(judged_cells, max_size=3),
    st.lists(HOSTILE, max_size=2),
)


class _Page(HTMLParser):
    """What a page holds that could do something."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "iframe", "object", "embed", "base", "meta", "link", "style", "form"):
            self.found.append((tag, ""))
        for name, value in attrs:
            if name.startswith("on") or "javascript:" in (value or "").lower():
                self.found.append((tag, name))


def live_parts(page: bytes) -> list[tuple[str, str]]:
    reader = _Page()
    reader.feed(page.decode())
    return reader.found


def render(class_: list[tuple], many: int = 1) -> tuple[list[bytes], list[bytes]]:
    """Return the pages and the tables of a class."""
    tally, solutions, rows, pages = Tally(), Solutions(), [], []
    for number in range(many):
        for name, words, results, cells, notes in class_:
            student = f"{name}{number}" if many > 1 else name
            notebook = json.dumps({"cells": cells}).encode()
            judged = Judged(tuple(results), notebook, tuple(notes))
            marks = GradebookView().marks(student, judged)
            tally.add(marks, student)
            solutions.add(student, read_answers(notebook, [r.name for r in results]))
            row = Row(
                student, words, words, words, Sender(), datetime(2026, 1, 31, tzinfo=UTC), marks,
                tuple(m.for_a_person for m in marks.each if m.for_a_person), tuple(notes),
                f"{number}.html",
            )  # fmt: skip
            rows.append(row)
            pages.append(render_feedback(row, notebook, "08-x", words, str))
    overview = render_overview(rows, tally, None, solutions, [], [], None, "08-x", "a title", str)
    tables = [grades_table(rows), moodle_table(rows).content, canvas_table(rows, "08-x").content]
    return [*pages, overview], tables


def test_any_result_is_reported(search: Search) -> None:
    honest = [live_parts(page) for page in render([("ada", "", [], [], [])])[0]]
    allowed = {part for parts in honest for part in parts}

    def take(class_: list[tuple]) -> None:
        pages, tables = render(class_)
        for page in pages:
            assert set(live_parts(page)) <= allowed
        for table in tables:
            text = table.decode("utf-8-sig")
            for line in csv.reader(io.StringIO(text)):
                for cell in line:
                    assert not cell.startswith(("=", "+", "@", "\t", "\r")), cell
                    assert "\n" not in cell

    search(take, st.lists(students, max_size=3, unique_by=lambda student: student[0]))


def test_reporting_takes_no_longer_than_what_is_reported(search: Search) -> None:
    def take(class_: list[tuple], parts: tuple[str, str, str], where: str) -> None:
        def reported(size: int) -> None:
            if where == "students":
                render(class_, size // 100)
                return
            text = repeat(parts, size)
            tried = PropertyResult(text, 1.0, "failed", text, ((text, text),))
            result = ExerciseResult(
                "softmax", Verdict.FAILED, 0.0, 4.0, text, (tried,), text, 1.0, (text,), text
            )
            about = {"nbgrader": {"solution": True, "grade_id": "softmax"}}
            kind = "markdown" if where == "text" else "code"
            said = [{"output_type": "stream", "text": text}]
            cell = {"cell_type": kind, "source": text, "metadata": about, "outputs": said}
            render([*class_, (parts[1], text, [result], [cell], [text])])

        check_growth(reported, 1_000, 32_000)

    where = st.sampled_from(["students", "text", "code"])
    one = st.lists(students, min_size=1, max_size=1)
    search(take, one, grown, where, examples=3)
