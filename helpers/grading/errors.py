"""What the instructor's side raises on purpose."""

from __future__ import annotations


class IntakeError(Exception):
    """Nothing can be collected; the text is the one sentence that the instructor reads."""


class ReportError(Exception):
    """No report can be written; the text is the one sentence that the instructor reads."""


class GradingError(Exception):
    """Nothing, or nothing more, can be graded; the text is the one sentence to read."""


class RegistrationError(Exception):
    """The gradebook cannot be made to know an assignment; the text is the one sentence about it."""


class DemoError(Exception):
    """No demo can be shown; the text is the one sentence that the instructor reads."""
