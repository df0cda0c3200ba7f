"""What a chapter's cells measured on a card, for readers who have none."""

from __future__ import annotations

import json
import os
from importlib import resources

FILE = "card_figures.json"
# Set while a card's figures are being recorded: they do not stand in their own record.
RECORDING = "BITS_RECORDING"


def recorded(name: str) -> None:
    """Print the figures called ``name`` as a card gave them; nothing if none were recorded.

    They come from ``bits record``, with the card, its driver, torch's version and the date.
    """
    if os.environ.get(RECORDING):
        return
    file = resources.files(__name__.rpartition(".")[0]).joinpath(FILE)
    entry = json.loads(file.read_text(encoding="utf-8")).get(name)
    if entry is None:
        return
    print(f"\nRecorded on {entry['card']} (driver {entry['driver']}, {entry['date']}):")
    print(f"  torch {entry['torch']}")
    for line in entry["lines"]:
        print(f"  {line}")
