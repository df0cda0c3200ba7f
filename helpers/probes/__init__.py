"""Probes: drive a student's function and return plain data that tells what it did.

A probe runs beside the student's code, so what it returns is evidence, not a verdict: outputs,
gradients, states. Judging them is the test cell's part.
"""

from helpers.probes.accumulation import (
    accumulated,
    after_batches,
    forward_passes,
    trained_in_windows,
)
from helpers.probes.calls import after_call, fold, gradient, outcome
from helpers.probes.formulas import with_formula, with_formula_on_a_leaf
from helpers.probes.modules import module, network, saved_by_module
from helpers.probes.recorders import functions, operators
from helpers.probes.regions import in_autocast, in_function_mode, wrapped_in_autocast
from helpers.probes.saving import counted, there_and_back, there_and_back_alone
from helpers.probes.scaling import scaled_steps, scaler_steps, scaler_steps_alone, scheduled_steps
from helpers.probes.training import adversarial_steps, optimizer_steps, training_steps

__all__ = [
    "accumulated",
    "adversarial_steps",
    "after_batches",
    "after_call",
    "counted",
    "fold",
    "forward_passes",
    "functions",
    "gradient",
    "in_autocast",
    "in_function_mode",
    "module",
    "network",
    "operators",
    "optimizer_steps",
    "outcome",
    "saved_by_module",
    "scaled_steps",
    "scaler_steps",
    "scaler_steps_alone",
    "scheduled_steps",
    "there_and_back",
    "there_and_back_alone",
    "trained_in_windows",
    "training_steps",
    "with_formula",
    "with_formula_on_a_leaf",
    "wrapped_in_autocast",
]
