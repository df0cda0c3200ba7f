"""What a notebook defines travels to processes that are started afresh."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
from pathlib import Path

import pytest

from helpers import by_value

# As in a notebook: the code belongs to __main__, and no file holds it.
NOTEBOOK = """
import multiprocessing
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset
from helpers import by_value

FACTOR = 3

def times(number):
    return number * FACTOR

class Listed(Dataset):
    def __init__(self, count):
        self.count = count
    def __len__(self):
        return self.count
    def __getitem__(self, index):
        return times(index)

class Streamed(IterableDataset):
    def __iter__(self):
        yield from map(times, range(4))

def total(samples):
    return sum(samples)

def load(dataset, **options):
    return list(DataLoader(dataset, num_workers=1, multiprocessing_context=START, **options))
"""


def run_notebook(code: str, start: str) -> subprocess.CompletedProcess[str]:
    program = f"START = {start!r}\n{NOTEBOOK}\n{code}"
    return subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[1],
    )


@pytest.mark.parametrize("start", multiprocessing.get_all_start_methods())
def test_datasets_and_functions_of_a_notebook_reach_the_workers(start: str) -> None:
    done = run_notebook(
        "print(load(by_value(Listed(4)), batch_size=2, collate_fn=by_value(total)))\n"
        "print(load(by_value(Streamed()), batch_size=None))",
        start,
    )
    assert done.stdout.splitlines() == ["[3, 15]", "[0, 3, 6, 9]"], done.stderr


def test_without_it_they_do_not_reach_a_process_started_afresh() -> None:
    done = run_notebook("print(load(Listed(4), batch_size=2))", "spawn")
    assert "Can't get attribute 'Listed'" in done.stderr


def test_a_function_stays_what_it_is() -> None:
    def double(number: int) -> int:
        """Return twice the number."""
        return 2 * number

    sent = by_value(double)
    assert sent(4) == 8
    assert (sent.__name__, sent.__doc__) == ("double", "Return twice the number.")


def test_a_class_is_refused() -> None:
    with pytest.raises(TypeError, match="not the class dict"):
        by_value(dict)
