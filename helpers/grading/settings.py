"""How submissions are judged, as far as an instructor decides it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """How submissions are run.

    Times are seconds of computing, by all that the code starts; on the wall's clock they may take
    ``guard.WALL_FACTOR`` times as long.

    Attributes:
        cell_seconds: for each of a submission's cells.
        exercise_seconds: for all calls of one exercise's test together.
        total_seconds: for all of one submission.
        memory_mib: of one submission's processes together, in MiB.
        processes: of one submission, threads included, at one time.
        disk_mib: of all files that a submission writes, in MiB.
        sandboxed: whether there is a sandbox. Without one, student code can do what you can.
    """

    cell_seconds: float = 30.0
    exercise_seconds: float = 90.0
    total_seconds: float = 300.0
    memory_mib: int = 2048
    processes: int = 128
    disk_mib: int = 256
    sandboxed: bool = True
