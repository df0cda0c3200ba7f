"""Small real data that ships with the course, so that no chapter needs a network."""

from __future__ import annotations

from importlib import resources

import numpy as np
import torch


def digits() -> tuple[torch.Tensor, torch.Tensor]:
    """Return 1,797 handwritten digits: images, and the digit each one shows.

    Returns:
        ``(images, labels)``: float32 of shape (1797, 8, 8) with values 0 to 16, and int64 of
        shape (1797,).

    Source: E. Alpaydin and C. Kaynak, "Optical Recognition of Handwritten Digits", UCI Machine
    Learning Repository (1998), doi:10.24432/C50P49, CC BY 4.0; its test set.
    """
    with resources.files(__name__.rpartition(".")[0]).joinpath("digits.npz").open("rb") as file:
        content = np.load(file)
        images, labels = content["images"], content["labels"]
    return torch.from_numpy(images).float(), torch.from_numpy(labels).long()
