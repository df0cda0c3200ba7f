"""Bits & Gradients: what the course's notebooks import.

A notebook needs one line, ``from helpers import Check, hint, ...``; everything it may use is
named here. The instructor's and the maintainer's sides live in subpackages that nothing here
imports.
"""

from helpers import probes
from helpers.bit_explorer import explore_bits
from helpers.checks import Check
from helpers.data import digits
from helpers.hints import hint
from helpers.measuring import saved_bytes, time_ratio
from helpers.plotting import COLORS, new_figure, show
from helpers.progress_store import progress
from helpers.widgets import play

__all__ = [
    "COLORS",
    "Check",
    "digits",
    "explore_bits",
    "hint",
    "new_figure",
    "play",
    "probes",
    "progress",
    "saved_bytes",
    "show",
    "time_ratio",
]
