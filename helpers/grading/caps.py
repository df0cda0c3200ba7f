"""How much a submission may be, so that a hostile one costs little before it is refused."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Caps:
    """Upper bounds, each far above what a class hands in and far below what would hurt.

    Sizes are in bytes, and are counted while reading: what a zip says of itself is not believed.
    """

    # A class of 5,000 with two files each, and the junk that systems add.
    entries: int = 20_000
    # A zip's table of contents is read whole, before its entries can be counted.
    table_of_contents: int = 16 * 2**20
    # A solved chapter with figures has 1 MiB; one with a runaway loop's output may have 20.
    notebook: int = 32 * 2**20
    total: int = 8 * 2**30
    # Notebooks shrink 3 to 30 times; one whose loop prints the same line, some hundred times.
    # Only beyond `ratio_from` does it matter.
    ratio: int = 500
    ratio_from: int = 4 * 2**20
    # Folders within folders, and the UTF-8 bytes of a part and of the whole of a name.
    depth: int = 20
    name_part: int = 255
    name: int = 1024
    # What a parsed notebook costs in memory: nbformat's own nesting is below 10, widgets' below 40.
    nesting: int = 100
    values: int = 1_000_000
    cells: int = 10_000
