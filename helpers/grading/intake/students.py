"""Which student a sender is: an id in the course for everybody, and no id for two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from helpers.grading.intake.origins import Origin
from helpers.grading.intake.receipts import Receipt
from helpers.grading.intake.roster import Person, Roster
from helpers.grading.names import assign_id, printable, reduce_to_id


class Students:
    """Gives ids: the roster's, else the one that an earlier receipt gave, else a new one.

    ``unknown`` lists who is not on the roster, ``notes`` what the instructor should know, both as
    pairs of a name and a sentence. ``expected`` are the roster's students.
    """

    def __init__(self, roster: Roster | None, receipts: Sequence[Receipt]) -> None:
        """Take what is known: the roster, if there is one, and the receipts so far."""
        self.unknown: list[tuple[str, str]] = []
        self.notes: list[tuple[str, str]] = []
        self._roster = roster
        self._from_roster: dict[str, str] = {}
        self._taken: set[str] = set()
        for person in roster.people if roster else ():
            self._from_roster[person.student] = self._assign(person.student, person.student)
        self._of_sender: dict[str, str] = {}
        on_roster = set(self._taken)
        for receipt in receipts:
            if receipt.student.casefold() not in on_roster:
                self._of_sender[receipt.sender] = receipt.student
            self._taken.add(receipt.student.casefold())
        self._identified: dict[str, str] = {}
        self._ids = {receipt.student for receipt in receipts}

    @property
    def expected(self) -> list[Person]:
        """The roster's students, in its order, with the ids that they have in the course."""
        people = self._roster.people if self._roster else ()
        return [replace(p, student=self._from_roster[p.student]) for p in people]

    def find(self, name: str) -> str | None:
        """Return the id of the student who is known under ``name``; None if nobody is."""
        known = self._roster.find(Origin(name, name, "", "")) if self._roster else None
        if known is not None:
            return self._from_roster[known]
        return name if name in self._ids else self._of_sender.get(name)

    def identify(self, origin: Origin) -> str:
        """Return the id of the student who sent a file."""
        if origin.identity not in self._identified:
            self._identified[origin.identity] = self._identify(origin)
        return self._identified[origin.identity]

    def identify_named(self, origin: Origin) -> str:
        """Return the id of the student whom the instructor named: an id that is known stays so."""
        if self._roster is None and origin.identity in self._ids:
            return origin.identity
        return self.identify(origin)

    def _identify(self, origin: Origin) -> str:
        shown = printable(origin.identity)
        before = self._of_sender.get(origin.identity)
        known = self._roster.find(origin) if self._roster else None
        if known is not None:
            student = self._from_roster[known]
            if before not in (None, student):
                self.notes.append((shown, f"collected as {before} before, and now as {student}"))
            return student
        student = before or self._assign(origin.name, origin.identity)
        if self._roster:
            self.unknown.append((shown, f"kept as {student}"))
        return student

    def _assign(self, text: str, identity: str) -> str:
        # For some file systems, upper and lower case are the same.
        student = assign_id(text, identity, lambda other: other.casefold() in self._taken)
        self._taken.add(student.casefold())
        if student.casefold() != reduce_to_id(text).casefold():
            sentence = (
                f"somebody else has the id {reduce_to_id(text)}, so this one is {student}; "
                f"a roster can distinguish them"
            )
            self.notes.append((printable(identity), sentence))
        return student
