"""Bits & Gradients: what the course's notebooks import.

A notebook needs one line, ``from helpers import Check, hint, ...``; everything it may use is
named here. The instructor's and the maintainer's sides live in subpackages that nothing here
imports.
"""

from __future__ import annotations

import importlib
from typing import Any

# The one place that says it: the package's metadata and `bits --version` take it from here.
__version__ = "1.0.0"

# Where each name lives. It is loaded when it is first asked for: a command that needs no torch is
# not to wait for it.
_MODULES = {
    "COLORS": "plotting",
    "Check": "checks",
    "SimulatedCard": "explorables.allocator",
    "allocations_of": "allocation_trace",
    "ask": "widgets",
    "by_value": "processes",
    "crossing_seeds": "random_numbers",
    "digits": "data",
    "explore_addition": "explorables.addition",
    "explore_allocator": "explorables.allocator",
    "explore_autocast": "explorables.autocast",
    "explore_bits": "explorables.bits",
    "explore_broadcast": "explorables.broadcast",
    "explore_frontier": "explorables.frontier",
    "explore_logits": "explorables.logits",
    "explore_norms": "explorables.norms",
    "explore_scaler": "explorables.scaler",
    "explore_segments": "explorables.segments",
    "explore_shards": "explorables.shards",
    "explore_steps": "explorables.steps",
    "explore_streams": "explorables.streams",
    "explore_surface": "explorables.surface",
    "explore_window": "explorables.window",
    "failing": "failed_case",
    "first_draws": "random_numbers",
    "hint": "hints",
    "new_figure": "plotting",
    "peak_bytes": "peak_memory",
    "places_after_buffer": "explorables.shards",
    "play": "widgets",
    "predict": "explorables.prediction",
    "predictions": "explorables.prediction",
    "probes": "probes",
    "progress": "progress_store",
    "recorded": "card_figures",
    "saved_bytes": "measuring",
    "seconds_of": "measuring",
    "show": "plotting",
    "show_drawing": "drawings.inline",
    "time_ratio": "measuring",
    "time_shares": "measuring",
    "trace_of_snapshot": "allocation_trace",
}
__all__ = [*_MODULES]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"{__name__}.{_MODULES[name]}")
    value = module if name == _MODULES[name] else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
