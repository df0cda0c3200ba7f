"""Nearly equal solutions: who copies is found, and who writes what all write is not."""

from __future__ import annotations

import random

import pytest
from course_files import EXERCISES, find_cell, release, source, variants

from helpers.catalogue import Exercise
from helpers.grading.report.alike import FEWEST_WORDS, Pair, Solutions
from helpers.grading.report.code_words import MOST_CHARACTERS, MOST_WORDS, read_words

STUB = 'def answer(x):\n    """Say it."""\n    raise NotImplementedError("nothing yet")'
REFERENCE = """
def answer(x):
    total = 0
    for item in x:
        total = total + item * item
    return total / len(x)
"""
ODD = """
def answer(x):
    kept = {place: abs(value) for place, value in enumerate(x) if value != 0}
    largest = max(kept.values(), default=1.0)
    scaled = [kept.get(place, 0.0) / largest for place in range(len(x))]
    while len(scaled) > 1:
        scaled = [a * a + b * b for a, b in zip(scaled[::2], scaled[1::2])]
    return scaled[0] * largest ** 2 / len(x)
"""
RENAMED = '''
def answer(numbers):
    """My own work."""
    good = {i: abs(n) for i, n in enumerate(numbers) if n != 0}  # leave out zeros

    top = max(good.values(),
              default=1.0)
    parts = [good.get(i, 0.0) / top for i in range(len(numbers))]
    while len(parts) > 1:
      parts = [p * p + q * q for p, q in zip(parts[::2], parts[1::2])]
    return parts[0] * top ** 2 / len(numbers)
'''
OTHER = """
def answer(x):
    import math
    try:
        squares = map(lambda value: math.pow(value, 2), list(x))
        return math.fsum(squares) / float(len(x))
    except (TypeError, ZeroDivisionError) as error:
        print("cannot be done", error)
        return None
"""


def pairs_of(*codes: str, course: tuple[str, ...] = (STUB, REFERENCE)) -> list[Pair]:
    solutions = Solutions.beyond(course, {"one": STUB})
    for number, code in enumerate(codes):
        solutions.add(f"s{number}", {"one": code})
    return solutions.pairs()


def named(pairs: list[Pair]) -> list[tuple[str, str]]:
    return [(pair.first, pair.second) for pair in pairs]


def others(count: int) -> list[str]:
    """Return solutions that have little in common."""
    draw = random.Random(1)
    calls = ["abs", "min", "max", "sum", "round", "float", "int", "len", "sorted", "set", "any"]
    return [
        "def answer(x):\n"
        + "".join(
            f"    v{line} = {draw.choice(calls)}({draw.choice(calls)}(x) {draw.choice('+-*/%')} "
            f"{draw.randint(2, 99)})\n"
            for line in range(9)
        )
        for _ in range(count)
    ]


# Who is named


def test_a_copy_is_found_whatever_its_names_comments_and_layout() -> None:
    (pair,) = pairs_of(ODD, OTHER, RENAMED, REFERENCE)
    assert (pair.exercise, pair.first, pair.second, pair.share) == ("one", "s0", "s2", 1.0)
    assert pair.words > 2 * FEWEST_WORDS


def test_a_copy_with_a_changed_line_is_found() -> None:
    changed = RENAMED.replace("top ** 2 / len(numbers)", "top * top / float(len(numbers))")
    (pair,) = pairs_of(ODD, OTHER, changed)
    assert 0.85 <= pair.share < 1


def test_it_is_said_of_two_and_of_each_two_of_three() -> None:
    assert named(pairs_of(ODD, RENAMED)) == [("s0", "s1")]
    crowd = others(12)
    assert named(pairs_of(ODD, RENAMED, ODD, *crowd)) == [("s0", "s1"), ("s0", "s2"), ("s1", "s2")]


# Who is not


@pytest.mark.parametrize("code", [STUB, REFERENCE, REFERENCE.replace("total", "mine")])
def test_the_courses_own_words_accuse_nobody(code: str) -> None:
    assert pairs_of(code, code, code, code) == []


def test_what_the_chapter_shows_elsewhere_accuses_nobody() -> None:
    assert pairs_of(ODD, RENAMED, course=(STUB, REFERENCE, ODD.replace("answer", "demo"))) == []


def test_what_many_of_a_class_write_accuses_nobody() -> None:
    assert pairs_of(*[ODD] * 3) == []
    assert pairs_of(*[ODD] * 3, *others(2)) == []
    assert pairs_of(*[ODD] * 5, *others(35)) == []
    assert len(pairs_of(*[ODD] * 3, *others(27))) == 3


def test_short_answers_that_are_the_same_accuse_nobody() -> None:
    short = "def answer(x):\n    return float(sum(map(abs, x))) ** 2 / max(len(x), 1)"
    assert pairs_of(short, short, *others(20)) == []


def test_different_solutions_accuse_nobody() -> None:
    assert pairs_of(ODD, OTHER, *others(40)) == []


# The exercises of a chapter with short answers, and of two with long ones.
CHAPTERS = ("08-numerical-stability", "03-autocast", "12-capstone")


@pytest.mark.parametrize(
    "exercise", [e for e in EXERCISES if e.chapter in CHAPTERS], ids=lambda exercise: exercise.name
)
def test_known_solutions_of_one_exercise_accuse_nobody(exercise: Exercise) -> None:
    notebooks = source(exercise.chapter), release(exercise.chapter)
    course = [c.source for n in notebooks for c in n.cells if c.cell_type == "code"]
    stub = find_cell(release(exercise.chapter), exercise.name).source
    solutions = Solutions.beyond(course, {exercise.name: stub})
    known = variants(exercise)
    for number, variant in enumerate(known):
        solutions.add(f"s{number}", {exercise.name: variant.code})
    assert len(known) > 5
    assert solutions.pairs() == []


# What a hostile class hands in


def test_words_are_the_same_for_the_same_program_alone() -> None:
    assert read_words("a = b.c(1)  # d\n") == read_words("e=b.c( 1 )\n\n")
    assert read_words("a = b.c(1)") != read_words("a = b.d(1)")
    assert read_words('def f():\n    """Text."""\n    return "x"') == read_words(
        "def f():\n  return 'y'"
    )


SIZE = MOST_CHARACTERS
HOSTILE = {
    "too long": "x = 1\n" * SIZE,
    "open brackets": "(" * SIZE,
    "signs": "-" * SIZE,
    "attributes": "a" + ".a" * (SIZE // 2 - 1),
    "an open text": '"""' + "x\n" * (SIZE // 2 - 2),
    "backslashes": "\\\n" * (SIZE // 2),
    "no Python": "$" * SIZE,
    "a list": "[" + "0," * (SIZE // 2 - 1) + "]",
    "quotes": "'" * SIZE,
    "f-strings": 'f"{' * (SIZE // 3),
    "nested blocks": "\n".join(" " * i + "if x:" for i in range(190)),
    "a number": "1" * SIZE,
    "nul": "\x00" * SIZE,
    "surrogates": "\ud800" * SIZE,
    "outdented": "if x:\n        y\n    z\n",
}


@pytest.mark.parametrize("code", HOSTILE.values(), ids=HOSTILE)
def test_no_code_stops_it_or_is_read_beyond_the_limit(code: str) -> None:
    assert len(read_words(code)) <= MOST_WORDS
    assert named(pairs_of(code, ODD, RENAMED, *others(3))) == [("s1", "s2")]


def test_more_words_than_there_are_letters_are_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("helpers.grading.report.alike._LETTERS", 3)
    assert ("s0", "s1") in named(pairs_of(ODD, RENAMED, OTHER))
