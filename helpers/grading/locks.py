"""One writer at a time."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def sole_holder(folder: Path, refusal: Exception) -> Iterator[None]:
    """Make sure that nobody else writes into ``folder`` the same way; a kill lets go of it.

    Raises:
        refusal: somebody else is at it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise refusal from None
        yield
