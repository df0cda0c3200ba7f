"""Probes: drive a student's function and return plain data that tells what it did.

A probe runs beside the student's code, so what it returns is evidence, not a verdict: outputs,
gradients, states. Judging them is the test cell's part.
"""

from helpers.probes.calls import after_call, fold, gradient
from helpers.probes.modules import module, network
from helpers.probes.recorders import functions, operators
from helpers.probes.regions import in_autocast, in_function_mode, wrapped_in_autocast
from helpers.probes.training import optimizer_steps, training_steps

__all__ = [
    "after_call",
    "fold",
    "functions",
    "gradient",
    "in_autocast",
    "in_function_mode",
    "module",
    "network",
    "operators",
    "optimizer_steps",
    "training_steps",
    "wrapped_in_autocast",
]
