"""Probes: drive a student's function and return plain data that shows what it did.

A probe runs beside the student's code, so what it returns is evidence, not a verdict: outputs,
gradients, states. Judging them is the test cell's part.
"""

from helpers.probes.accumulation import (
    accumulated,
    after_batches,
    forward_passes,
    trained_in_windows,
)
from helpers.probes.calls import (
    after_call,
    autograd_watched,
    called_twice,
    fold,
    for_each,
    gradient,
    outcome,
)
from helpers.probes.formulas import (
    with_formula,
    with_formula_again,
    with_formula_on_a_leaf,
    with_formula_twice,
)
from helpers.probes.loading import (
    folder_items,
    handed_on,
    loader_epochs,
    loader_run,
    streams,
)
from helpers.probes.modules import is_none, module, saved_by_module
from helpers.probes.networks import (
    network,
    network_then_trained,
    with_network,
    with_network_twice,
)
from helpers.probes.random_numbers import (
    as_another_process,
    captured_states,
    draws_between,
    global_draws,
    restored_draws,
    seeded_draws,
    seeded_gpus,
    seeded_rounds,
)
from helpers.probes.regions import in_autocast, in_function_mode, wrapped_in_autocast
from helpers.probes.runs import (
    backend_flags,
    deterministic_results,
    trained_part,
    writes,
    writes_watched,
)
from helpers.probes.saving import (
    bytes_kept,
    changed_between,
    counted,
    counted_and_freed,
    forward_and_backward,
)
from helpers.probes.scaling import scaled_steps, scaler_steps, scheduled_steps
from helpers.probes.shards import shard_runs
from helpers.probes.training import (
    adversarial_steps,
    alive_while_looping,
    optimizer_steps,
    training_steps,
)
from helpers.probes.volumes import (
    budget_kept,
    gradients_in_budget,
    joined_patches,
    segmenter_passes,
    segmenter_peak,
    segmenter_steps,
)

__all__ = [
    "accumulated",
    "adversarial_steps",
    "after_batches",
    "after_call",
    "alive_while_looping",
    "as_another_process",
    "autograd_watched",
    "backend_flags",
    "budget_kept",
    "bytes_kept",
    "called_twice",
    "captured_states",
    "changed_between",
    "counted",
    "counted_and_freed",
    "deterministic_results",
    "draws_between",
    "fold",
    "folder_items",
    "for_each",
    "forward_and_backward",
    "forward_passes",
    "global_draws",
    "gradient",
    "gradients_in_budget",
    "handed_on",
    "in_autocast",
    "in_function_mode",
    "is_none",
    "joined_patches",
    "loader_epochs",
    "loader_run",
    "module",
    "network",
    "network_then_trained",
    "optimizer_steps",
    "outcome",
    "restored_draws",
    "saved_by_module",
    "scaled_steps",
    "scaler_steps",
    "scheduled_steps",
    "seeded_draws",
    "seeded_gpus",
    "seeded_rounds",
    "segmenter_passes",
    "segmenter_peak",
    "segmenter_steps",
    "shard_runs",
    "streams",
    "trained_in_windows",
    "trained_part",
    "training_steps",
    "with_formula",
    "with_formula_again",
    "with_formula_on_a_leaf",
    "with_formula_twice",
    "with_network",
    "with_network_twice",
    "wrapped_in_autocast",
    "writes",
    "writes_watched",
]
