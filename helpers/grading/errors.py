"""What the instructor's side raises on purpose."""

from __future__ import annotations


class IntakeError(Exception):
    """Nothing can be collected; the text is the one sentence that the instructor reads."""
