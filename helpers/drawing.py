"""Fresh random inputs for checks: asymmetric, with sizes that differ in every axis."""

from __future__ import annotations

import secrets
from typing import Any

import torch


class Draw:
    """Draws inputs on the CPU from a generator of its own, seeded afresh from the operating system.

    The global random state is left as it is, and torch's default dtype and device play no part.
    Sizes must differ from each other, so that a swapped axis cannot go unseen; sizes of 1 do not
    count. Where equal sizes are the point of a test, ``equal_sizes=True`` says so.
    """

    def __init__(self, seed: int | None = None) -> None:
        """Seed the generator with ``seed``, or afresh where there is none."""
        self.seed = secrets.randbits(63) if seed is None else seed
        generator = torch.Generator(device="cpu").manual_seed(self.seed)
        # Named in every draw: a notebook may have set another default device.
        self._own: dict[str, Any] = {"generator": generator, "device": "cpu"}

    def read_state(self) -> torch.Tensor:
        """Return the state of the generator."""
        return self._own["generator"].get_state()

    def put_back_state(self, state: torch.Tensor) -> None:
        """Go on from what ``read_state`` has returned: what is drawn now was drawn then."""
        self._own["generator"].set_state(state)

    def normal(
        self,
        *sizes: int,
        mean: float = 0.0,
        std: float = 1.0,
        dtype: torch.dtype = torch.float32,
        equal_sizes: bool = False,
    ) -> torch.Tensor:
        """Return normally distributed numbers of shape ``sizes``."""
        _refuse_equal_sizes(sizes, equal_sizes)
        numbers = torch.randn(sizes, **self._own, dtype=torch.float64)
        return (mean + std * numbers).to(dtype)

    def uniform(
        self,
        *sizes: int,
        low: float = 0.0,
        high: float = 1.0,
        dtype: torch.dtype = torch.float32,
        equal_sizes: bool = False,
    ) -> torch.Tensor:
        """Return numbers between ``low`` and ``high`` of shape ``sizes``."""
        _refuse_equal_sizes(sizes, equal_sizes)
        numbers = torch.rand(sizes, **self._own, dtype=torch.float64)
        return (low + (high - low) * numbers).to(dtype)

    def integers(self, *sizes: int, low: int, high: int, equal_sizes: bool = False) -> torch.Tensor:
        """Return int64 numbers from ``low`` to ``high`` - 1 of shape ``sizes``."""
        _refuse_equal_sizes(sizes, equal_sizes)
        return torch.randint(low, high, sizes, **self._own)

    def booleans(self, *sizes: int, share: float = 0.5) -> torch.Tensor:
        """Return booleans of shape ``sizes`` of which about ``share`` are True."""
        return self.uniform(*sizes) < share

    def integer(self, low: int, high: int) -> int:
        """Return one Python integer from ``low`` to ``high`` - 1."""
        return int(torch.randint(low, high, (), **self._own))

    def number(self, low: float, high: float) -> float:
        """Return one Python float between ``low`` and ``high``."""
        return float(self.uniform(1, low=low, high=high, dtype=torch.float64)[0])

    def permutation(self, count: int) -> torch.Tensor:
        """Return the numbers 0 to ``count`` - 1 in random order."""
        return torch.randperm(count, **self._own)


def _refuse_equal_sizes(sizes: tuple[int, ...], equal_sizes: bool) -> None:
    larger = [size for size in sizes if size > 1]
    if len(set(larger)) < len(larger) and not equal_sizes:
        raise ValueError(
            f"sizes {sizes} repeat a number: a check's inputs differ in every axis, "
            "so that swapped axes show; equal_sizes=True where they are the point"
        )
