"""Run a chapter's cells on the pretended device: ``python -m pretended_device.chapter_run JOB``.

``JOB`` is a JSON file with the notebook's path, the faults to plant, and where the results go.
Cells run one after another in one module, as in a kernel; there is no front end, so that what is
shown is printed in its text form.
"""

from __future__ import annotations

import contextlib
import io
import json
import linecache
import sys
import traceback
import types
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from pretended_device.cells import Fault, choose_cells, plant, with_what_they_build_on


@dataclass(frozen=True)
class Ran:
    """What one cell came to; ``error`` is what Python tells of its exception, or empty."""

    cell: str
    output: str
    error: str


def main(job_file: str) -> None:
    """Run the job, and write what came of it."""
    from pretended_device.facts import install

    device = install()
    import nbformat

    _shorten_times()
    job = json.loads(Path(job_file).read_text(encoding="utf-8"))
    code = [c for c in nbformat.read(job["notebook"], as_version=4).cells if c.cell_type == "code"]
    whole = list(run_cells((cell.id, cell.source) for cell in choose_cells(code)))
    results = {"operations": device.pretended_operations(), "cells": [asdict(ran) for ran in whole]}
    results["faults"] = [
        [asdict(ran) for ran in run_cells(faulty_cells(code, Fault(**fault)))]
        for fault in job["faults"]
    ]
    Path(job["results"]).write_text(json.dumps(results), encoding="utf-8")


def faulty_cells(code: list, fault: Fault) -> list[tuple[str, str]]:
    """Return ids and sources of the cells that show the fault, and those that they build on."""
    planted = [(cell.id, plant(cell.source, fault)) for cell in code]
    sources = [source for _, source in planted]
    mark = fault.shows_in or fault.new
    shown = [number for number, source in enumerate(sources) if mark in source]
    return [planted[number] for number in with_what_they_build_on(sources, shown)]


def run_cells(cells: Iterable[tuple[str, str]]) -> Iterator[Ran]:
    """Run cells in a fresh module, and tell of each; the first exception ends it."""
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    for number, (cell, source) in enumerate(cells, 1):
        name = f"cell [{number}]"
        linecache.cache[name] = (len(source), None, source.splitlines(True), name)
        written, error = io.StringIO(), ""
        with contextlib.redirect_stdout(written):
            try:
                _run(source, name, vars(module))
            except BaseException:
                error = traceback.format_exc()
        yield Ran(cell, written.getvalue(), error)
        if error:
            return


def _run(source: str, name: str, namespace: dict) -> None:
    """Run a cell, and print the value of its last expression as a notebook shows it."""
    import ast

    from IPython.lib.pretty import pretty

    tree = ast.parse(source, name)
    last = None
    if tree.body and isinstance(tree.body[-1], ast.Expr) and not source.rstrip().endswith(";"):
        last = ast.Expression(tree.body.pop().value)
    exec(compile(tree, name, "exec"), namespace)
    if last is not None:
        value = eval(compile(last, name, "eval"), namespace)
        if value is not None:
            print(pretty(value))


def _shorten_times() -> None:
    """Let functions that are timed run once: how fast the device is says nothing."""
    from helpers import measuring

    measure = measuring.time_ratio

    def once(slow, fast, *, pairs=7, seconds=1.0):
        return measure(slow, fast, pairs=1, seconds=1e-6)

    measuring.time_ratio = once


if __name__ == "__main__":
    sys.path.insert(0, "")
    main(sys.argv[1])
