"""The judge's end of what a test lends to a student's code; see ``helpers.lending``."""

from __future__ import annotations

from typing import Any

from helpers.grading.inside.wire import Lent as Ticket
from helpers.grading.inside.wire import WireError
from helpers.lending import KilledError, Lent, Stream


class LendingDesk:
    """What one call has lent, and what is asked of it while the call lasts."""

    def __init__(self) -> None:
        """Begin with nothing lent."""
        self._lent: list[Lent | Stream] = []

    def register(self, lent: Lent | Stream) -> Ticket:
        """Return what goes over the wire in place of ``lent``."""
        self._lent.append(lent)
        kind, name = "stream", "items"
        if isinstance(lent, Lent):
            kind, name = "function", lent.__name__
        return Ticket(len(self._lent) - 1, kind, name)

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        """Use what was lent as ``question`` says, and return what came of it.

        Raises:
            WireError: it is no question.
        """
        number, args, kwargs = (question.get(name) for name in ("lent", "args", "kwargs"))
        sound = type(number) is int and 0 <= number < len(self._lent)
        if not (sound and type(args) is list and type(kwargs) is dict):
            raise WireError("it asked for something that it was not lent")
        lent = self._lent[number]
        try:
            return {"value": next(lent) if isinstance(lent, Stream) else lent(*args, **kwargs)}
        except StopIteration:
            return {"error": "StopIteration", "message": []}
        except (Exception, KilledError) as error:
            return {"error": type(error).__name__, "message": [str(error)]}
