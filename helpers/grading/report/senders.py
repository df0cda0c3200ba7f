"""Who sent a submission, as the system that it came from calls them."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from pathlib import Path

from helpers.grading.intake.receipts import Receipt, Status, read_receipts


@dataclass(frozen=True)
class Sender:
    """A student, as the source of a submission calls them.

    Attributes:
        name: the person's, or the folder's or the file's; "" if nothing was received.
        system: "Moodle" or "Canvas"; "" if it is neither, or cannot be told.
        number: the system's of the student; "" without a system.
    """

    name: str = ""
    system: str = ""
    number: str = ""


def read_senders(folder: Path) -> dict[str, Sender]:
    """Return the sender of each student's work by the receipts in ``folder``.

    Of several, it is the one whose work counts; if none does, the last one.
    """
    came = [r for r in read_receipts(folder) if r.status is not Status.FOUND]
    came.sort(key=lambda receipt: receipt.status is Status.ACCEPTED)
    return {receipt.student: find_sender(receipt) for receipt in came}


def find_sender(receipt: Receipt) -> Sender:
    """Return who sent what ``receipt`` is for."""
    name, _, number = receipt.sender.rpartition("_")
    source = unicodedata.normalize("NFC", receipt.source)
    if name and number.isascii() and number.isdigit():
        if f"{receipt.sender}_assignsubmission_" in source:
            return Sender(name, "Moodle", number)
        if re.search(rf"{re.escape(name)}(?:_LATE)?_{number}_\d+_", source):
            return Sender(name, "Canvas", number)
    return Sender(receipt.sender)
