"""What checking raises on purpose; without torch, so that who only catches it need not load it."""

from __future__ import annotations


class CallNotMadeError(Exception):
    """A student's function could not be called, through no fault of its own: no check's affair."""
