"""What all wrong values of a tensor have in common: a factor, a shift, another order."""

from __future__ import annotations

import torch

# Fewer values have a factor or a shift in common by chance.
_FEWEST = 3
# How far a value may lie from the pattern, as a share of the largest: what float16 leaves of it.
_SHARE = 2e-3
_OF_DIFFERENCE = 0.05


def pattern_of(got: torch.Tensor, expected: torch.Tensor) -> str:
    """Return in a few words how ``got`` is made from ``expected``; "" where nothing is seen.

    Both are on the CPU, of one shape and one dtype, and differ.
    """
    if got.is_complex() or got.dtype is torch.bool or got.numel() < _FEWEST:
        return ""
    one, other = got.double().flatten(), expected.double().flatten()
    if not (one.isfinite().all() and other.isfinite().all()):
        return ""
    if other.min() == other.max():  # of one value, a factor and a shift cannot be told apart
        return ""
    return _factor(one, other) or _shift(one, other) or _order(one, other)


def _factor(one: torch.Tensor, other: torch.Tensor) -> str:
    if not one.any():
        return "each is 0"
    factor = float(one @ other / (other @ other))
    if (other != 0).sum() < _FEWEST or not _agree(one, factor * other, one.abs().max()):
        return ""
    # Near 1, values that are all a little off look as if they had a factor in common.
    if (one - factor * other).abs().max() > _OF_DIFFERENCE * (one - other).abs().max():
        return ""
    if abs(factor - 1) <= _SHARE or f"{factor:.3g}" == "0" or one[other == 0].any():
        return ""
    if f"{factor:.3g}" == "-1":
        return "each has the other sign"
    return f"each is {factor:.4g} times what was expected"


def _shift(one: torch.Tensor, other: torch.Tensor) -> str:
    shift = float((one - other).mean())
    # With a shift that is small beside the values, or large, others look alike.
    if shift == 0.0:  # integers whose difference is lost in float64
        return ""
    if not _agree(one - other, torch.full_like(one, shift), min(abs(shift), other.std())):
        return ""
    return f"each is {abs(shift):.4g} too {'large' if shift > 0 else 'small'}"


def _order(one: torch.Tensor, other: torch.Tensor) -> str:
    is_near = _agree(one, other, other.std())  # each in its place, and a little off
    if is_near or not _agree(one.sort().values, other.sort().values, other.std() / len(other)):
        return ""
    return "they are the expected ones in another order"


def _agree(one: torch.Tensor, other: torch.Tensor, size: torch.Tensor | float) -> bool:
    return bool(((one - other).abs() <= _SHARE * size).all())
