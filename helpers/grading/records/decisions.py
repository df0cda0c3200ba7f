"""What people have decided about points that wait, kept in ``judged/ASSIGNMENT/review/``.

A decision is about one student's code for one exercise. It holds for that code whatever is judged
anew, and for no other: work that is handed in again is looked at again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from helpers.files import write_atomically
from helpers.grading.errors import GradingError
from helpers.grading.locks import sole_holder

_FORMAT = 1
About = tuple[str, str, str]


@dataclass(frozen=True)
class Decision:
    """What a person has decided about the points of one exercise that waited.

    Attributes:
        student: the id.
        exercise: its name.
        code: the SHA-256 of the code that the person looked at.
        accepted: whether its points count.
        points: those that waited.
        doubts: what was to be looked at.
        decided_at: when, in UTC.
    """

    student: str
    exercise: str
    code: str
    accepted: bool
    points: float = 0.0
    doubts: tuple[str, ...] = ()
    decided_at: str = ""

    @property
    def about(self) -> About:
        """What it is about: whose code for which exercise."""
        return self.student, self.exercise, self.code


class Decisions:
    """All that people have decided about one assignment, as it was when this was made."""

    def __init__(self, folder: Path) -> None:
        """Read what is kept in ``folder``, which is ``judged/ASSIGNMENT``.

        Raises:
            GradingError: it is damaged, and has been put aside.
        """
        self._file = folder / "review" / "decisions.json"
        self._known = _read(self._file)

    def find(self, student: str, exercise: str, code: str) -> Decision | None:
        """Return what was decided about a student's code for an exercise; None if nothing was."""
        return self._known.get((student, exercise, code))

    def of(self, student: str) -> dict[tuple[str, str], bool]:
        """Return for each exercise and code of the student's whether its points count."""
        mine = (d for d in self._known.values() if d.student == student)
        return {(d.exercise, d.code): d.accepted for d in mine}

    def change(self, decided: Iterable[Decision], withdrawn: Collection[About] = ()) -> None:
        """Keep what was ``decided``, and forget the decisions about what is ``withdrawn``.

        Raises:
            GradingError: another process is changing them, or what is kept is damaged.
        """
        busy = "Another bits review is running in this course: wait until it ends and try again."
        with sole_holder(self._file.parent, GradingError(busy)):
            known = _read(self._file) | {decision.about: decision for decision in decided}
            self._known = {about: d for about, d in known.items() if about not in withdrawn}
            entries = [dataclasses.asdict(self._known[about]) for about in sorted(self._known)]
            text = json.dumps({"format": _FORMAT, "decisions": entries}, indent=1)
            write_atomically(self._file, f"{text}\n".encode())


def _read(file: Path) -> dict[About, Decision]:
    try:
        content = json.loads(file.read_bytes())
        if content["format"] != _FORMAT:
            raise ValueError("it has another format")
        found = [_from_plain(entry) for entry in content["decisions"]]
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise GradingError(
            f"{file} cannot be read ({error.strerror}): it holds the decisions about "
            f"waiting points, and no command continues without it."
        ) from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise GradingError(
            f"{file}, which holds the decisions about waiting points, is damaged and "
            f"was renamed to {_put_aside(file).name}: repair it and restore "
            f"its name, or run the same command again and repeat the decisions with bits review."
        ) from error
    return {decision.about: decision for decision in found}


def _from_plain(entry: dict) -> Decision:
    decision = Decision(**{**entry, "doubts": tuple(entry["doubts"])})
    texts = (*decision.about, decision.decided_at, *decision.doubts)
    if not all(isinstance(text, str) for text in texts) or type(decision.accepted) is not bool:
        raise TypeError("a decision's parts are of other types")
    return decision


def _put_aside(file: Path) -> Path:
    number = 1
    while (aside := file.with_name(f"{file.stem}.damaged-{number}{file.suffix}")).exists():
        number += 1
    with contextlib.suppress(FileNotFoundError):  # another process has done it
        file.rename(aside)
    return aside
