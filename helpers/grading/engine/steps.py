"""What a worker does for a submission: named here, loaded in the worker alone.

To hand a function to another process is to import it first, and the judge takes torch with it.
"""

from __future__ import annotations

from collections.abc import Mapping

from helpers.grading.assignment import Assignment
from helpers.grading.settings import Settings
from helpers.grading.verdicts import Judged


def judge_submission(content: bytes, assignment: Assignment, settings: Settings) -> Judged:
    """Judge one submission, as ``judge.judge_submission`` says."""
    from helpers.grading.judge import judge

    return judge.judge_submission(content, assignment, settings)


def prepare(data: Mapping[str, bytes], settings: Settings) -> None:
    """Get ready for the first submission, as ``judge.prepare`` says."""
    from helpers.grading.judge import judge

    judge.prepare(data, settings)
