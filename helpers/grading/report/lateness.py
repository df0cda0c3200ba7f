"""How late a submission came, by the due date in nbgrader's gradebook."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

_UNITS = (("day", 86_400), ("hour", 3_600), ("minute", 60))


@dataclass(frozen=True)
class Due:
    """When an assignment is due: ``date``, in UTC or None, and the students' ``extensions``."""

    date: datetime | None = None
    extensions: dict[str, timedelta] = field(default_factory=dict)

    def late(self, student: str, received_at: datetime | None) -> timedelta:
        """Return by how much a submission came too late; nothing if it did not."""
        if self.date is None or received_at is None:
            return timedelta()
        date = self.date if self.date.tzinfo else self.date.replace(tzinfo=UTC)
        extension = self.extensions.get(student, timedelta())
        return max(timedelta(), received_at - date - extension)


def in_words(span: timedelta) -> str:
    """Return a time like "2 days 3 hours": the largest unit, and the next one if it is not 0."""
    left, words = int(span.total_seconds()), []
    for name, seconds in _UNITS:
        number, rest = divmod(left, seconds)
        if number:
            words.append(f"{number:,} {name}" + ("" if number == 1 else "s"))
            left = rest
        elif words:
            break
        if len(words) == 2:
            break
    return " ".join(words) or "less than a minute"
