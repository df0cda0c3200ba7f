"""What every student handed in for an assignment: the notebook that counts, or why there is none.

Submissions are only read here, never written.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from helpers.grading.assignment import Assignment
from helpers.grading.caps import Caps
from helpers.grading.errors import GradingError
from helpers.grading.intake.receipts import KEPT_AS, Receipt, Status, read_receipts
from helpers.grading.names import printable
from helpers.grading.verdicts import ExerciseResult, Judged, Verdict

_STAMP = "timestamp.txt"
_CAPS = Caps()
_REFUSED = (Status.MALFORMED, Status.UNCLEAR)


@dataclass(frozen=True)
class Submission:
    """What one student handed in.

    Attributes:
        student: the id.
        file: the notebook; None if there is none.
        received_at: as timestamp.txt or the receipt says it; "" if neither does.
        refusal: why it cannot be judged, a sentence without its full stop; "" if it can.
    """

    student: str
    file: Path | None
    received_at: str
    refusal: str = ""

    def read(self) -> bytes:
        """Return the notebook's bytes; b"" if there is none."""
        return self.file.read_bytes() if self.file else b""

    def sha256(self) -> str:
        """Return the SHA-256 of the notebook; "" if there is none."""
        if self.file is None:
            return ""
        try:
            with self.file.open("rb") as stream:
                return hashlib.file_digest(stream, "sha256").hexdigest()
        except FileNotFoundError:
            return ""


def find_notebook(course: Path, assignment: str) -> str:
    """Return the name of the assignment's notebook, with ".ipynb".

    Raises:
        GradingError: there is no such assignment.
    """
    known = sorted({file.parent.name for file in course.glob("source/*/*.ipynb")})
    if assignment not in known:
        raise GradingError(
            f"There is no assignment {printable(assignment)} in {course / 'source'}; there are: "
            f"{', '.join(known) or 'none'}."
        )
    return min(file.name for file in (course / "source" / assignment).glob("*.ipynb"))


def find_submissions(course: Path, assignment: str, notebook: str) -> list[Submission]:
    """Return every student's submission, sorted by id.

    Args:
        course: the folder that holds submitted and received.
        assignment: "08-numerical-stability".
        notebook: the name that its notebook has, with ".ipynb".

    Raises:
        IntakeError: the book of receipts is damaged.
    """
    found = {}
    for folder in _folders(course / "submitted"):
        if (folder / assignment).is_dir():
            found[folder.name] = _in_folder(folder.name, folder / assignment, notebook)
    received = course / "received" / assignment
    for student, receipt in _telling(read_receipts(received)).items():
        if student not in found:
            found[student] = _from_receipt(receipt, received / receipt.id / KEPT_AS, notebook)
    return [found[student] for student in sorted(found)]


def _telling(receipts: list[Receipt]) -> dict[str, Receipt]:
    """Return for each student the receipt that counts, or else the last that says why none does.

    Intake puts what counts into submitted/; it may have been killed just before.
    """
    telling: dict[str, Receipt] = {}
    for receipt in receipts:
        before = telling.get(receipt.student)
        accepted_before = before is not None and before.status is Status.ACCEPTED
        is_last_refused = receipt.status in _REFUSED and not accepted_before
        if receipt.status is Status.ACCEPTED or is_last_refused:
            telling[receipt.student] = receipt
    return telling


def _from_receipt(receipt: Receipt, file: Path, notebook: str) -> Submission:
    refusal = ""
    shown = printable(receipt.file)
    if receipt.status is Status.MALFORMED:
        refusal = f"{shown} cannot be read as a notebook: {receipt.reason or 'it is malformed'}"
    elif receipt.status is Status.UNCLEAR:
        refusal = f"several notebooks were handed in, and none of them is called {notebook}"
    return Submission(receipt.student, file, receipt.received_at, refusal)


def _folders(parent: Path) -> list[Path]:
    if not parent.is_dir():
        return []
    return [Path(e.path) for e in os.scandir(parent) if e.is_dir() and not e.name.startswith(".")]


def _in_folder(student: str, folder: Path, notebook: str) -> Submission:
    file, stamp = folder / notebook, folder / _STAMP
    received_at = ""
    if stamp.is_file():
        received_at = stamp.read_text(encoding="utf-8", errors="replace").strip()
    if not file.is_file():
        return Submission(student, None, received_at, f"there is no {notebook} in {folder}")
    if file.stat().st_size > _CAPS.notebook:
        most = _CAPS.notebook // 2**20
        return Submission(student, file, received_at, f"{notebook} is larger than {most} MiB")
    return Submission(student, file, received_at)


def refuse(reason: str, assignment: Assignment) -> Judged:
    """Return what a submission comes to that cannot be judged: nothing, and a person's look."""
    points = {cell.name: cell.points for cell in assignment.cells}
    message = f"Your submission could not be graded: {reason}."
    return Judged(
        tuple(
            ExerciseResult(
                name=name,
                verdict=Verdict.MALFORMED,
                points=0.0,
                most=points[f"test-{name}"],
                message=message,
                for_a_person=reason,
            )
            for name in assignment.exercises
        )
    )
