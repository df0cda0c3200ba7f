"""Pairs of students whose solutions of an exercise are nearly equal beyond what all share.

What the course itself says (stub, reference solution, the chapter's other cells) and what many of
the class say is taken out first: a word counts only where no run of ``_RUN`` words around it
stands there, too. What is left of two solutions is compared by ``rapidfuzz``, which nbgrader needs
anyway and which is released every few weeks. It compares one with all others in C++: a class of 300
with eight exercises takes two seconds of CPU time, most of it to read the code. (Python's own
``difflib`` is quadratic; ``copydetect``, which is made for this, has had no release since March
2024, and compares letters where this compares words.)

Nothing here is a proof, and nothing is done with it but to show it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from rapidfuzz.distance import Indel
from rapidfuzz.process import cdist

from helpers.grading.report.code_words import MOST_CHARACTERS, read_words

# Fewer words than these two people may well write alike: the shorter exercises of the course have
# 30 to 60 words beside their stubs, of which the reference has most.
FEWEST_WORDS = 30
NEARLY = 0.85  # of the words that are left, in the same order
_MOST_OWN_WORDS = 300  # are compared: who writes as much alike has written more alike
_RUN = 6
# The planes of Unicode beyond the first: a million letters. What is beyond is one and the same.
_FIRST_LETTER, _LETTERS = 0x10000, 0xFFFFF
_MOST_OF_MANY = 0.1  # what more than a tenth of a class has is nobody's own
_FEWEST_OF_MANY = 3  # nor is, in a small class, what more than three have, or more than half


@dataclass(frozen=True)
class Pair:
    """Two students who wrote nearly the same.

    Attributes:
        exercise: its name.
        first, second: their ids.
        share: how much of what is left of both is equal, from 0 to 1.
        words: how many words are left of the shorter one.
    """

    exercise: str
    first: str
    second: str
    share: float
    words: int


@dataclass
class Solutions:
    """The solutions of a class, as words.

    ``too_long`` has the student and the exercise of each solution that is not compared because it
    has more than ``MOST_CHARACTERS``.
    """

    _common: frozenset[tuple[str, ...]] = frozenset()
    _stubs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    _words: dict[str, dict[str, tuple[str, ...]]] = field(default_factory=dict)
    too_long: list[tuple[str, str]] = field(default_factory=list)

    @classmethod
    def beyond(cls, course: Iterable[str], stubs: Mapping[str, str]) -> Solutions:
        """Return a class without solutions.

        Args:
            course: the code cells that the course has written, references and stubs included.
            stubs: of each exercise.
        """
        known = frozenset(run for code in course for run in _runs(read_words(code)))
        return cls(known, {name: read_words(code) for name, code in stubs.items()})

    def add(self, student: str, answers: Mapping[str, str]) -> None:
        """Take in what a student wrote, by the exercises' names; a stub is no solution."""
        for exercise, code in answers.items():
            if len(code) > MOST_CHARACTERS:
                self.too_long.append((student, exercise))
                continue
            words = read_words(code)
            if words and words != self._stubs.get(exercise):
                self._words.setdefault(exercise, {})[student] = words

    def pairs(self) -> list[Pair]:
        """Return the pairs that are nearly equal, by exercise and the most equal first."""
        return [
            pair
            for exercise, solutions in self._words.items()
            for pair in self._pairs(exercise, solutions)
        ]

    def _pairs(self, exercise: str, solutions: Mapping[str, tuple[str, ...]]) -> list[Pair]:
        common = self._common | _had_by_many(solutions.values())
        own = {student: _own_words(words, common) for student, words in solutions.items()}
        left = {student: words for student, words in own.items() if len(words) >= FEWEST_WORDS}
        letters = _Letters()
        students, texts = list(left), [letters.spell(words) for words in left.values()]
        return sorted(
            (
                Pair(exercise, students[i], students[j], share, min(len(texts[i]), len(texts[j])))
                for i, j, share in _near(texts)
            ),
            key=lambda pair: (-pair.share, -pair.words, pair.first, pair.second),
        )


def _near(texts: Sequence[str]) -> Iterable[tuple[int, int, float]]:
    if len(texts) < 2:
        return
    # Who is equal to the letter is compared once.
    places: dict[str, list[int]] = defaultdict(list)
    for place, text in enumerate(texts):
        places[text].append(place)
    distinct = list(places)
    scores = cdist(
        distinct, distinct, scorer=Indel.normalized_similarity, score_cutoff=NEARLY, workers=1
    )
    for one, other in zip(*np.nonzero(np.triu(scores)), strict=True):
        for i in places[distinct[one]]:
            for j in places[distinct[other]]:
                if one != other or i < j:
                    yield min(i, j), max(i, j), float(scores[one, other])


def _runs(words: Sequence[str]) -> set[tuple[str, ...]]:
    return {tuple(words[i : i + _RUN]) for i in range(len(words) - _RUN + 1)}


def _had_by_many(solutions: Iterable[Sequence[str]]) -> set[tuple[str, ...]]:
    """Return the runs of words that so many have that they tell nothing."""
    counts: Counter[tuple[str, ...]] = Counter()
    size = 0
    for words in solutions:
        counts.update(_runs(words))
        size += 1
    most = min(size / 2, max(_FEWEST_OF_MANY, size * _MOST_OF_MANY))
    # Two are not many, however small the class.
    return {run for run, count in counts.items() if count > max(2, most)}


def _own_words(words: Sequence[str], common: Iterable[tuple[str, ...]]) -> list[str]:
    """Return the words around which no common run stands."""
    shared = [False] * len(words)
    for i in range(len(words) - _RUN + 1):
        if tuple(words[i : i + _RUN]) in common:
            shared[i : i + _RUN] = [True] * _RUN
    own = [word for word, is_shared in zip(words, shared, strict=True) if not is_shared]
    return own[:_MOST_OWN_WORDS]


class _Letters:
    """Spells words as letters, one for each: RapidFuzz compares strings fastest."""

    def __init__(self) -> None:
        self._letters: dict[str, str] = {}

    def spell(self, words: Iterable[str]) -> str:
        return "".join(map(self._letter, words))

    def _letter(self, word: str) -> str:
        return self._letters.setdefault(
            word, chr(_FIRST_LETTER + min(len(self._letters), _LETTERS))
        )
