"""The page "What went wrong?" quotes the errors that torch and Python raise, to the letter."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch
from course_files import ROOT
from torch import nn

PAGE = (ROOT / "course" / "book" / "failures.md").read_text("utf-8")
MESSAGES = re.findall(r"^\| `([^`]+)` \|", PAGE.partition("## Error messages")[2], re.MULTILINE)


def halves(*sizes: int) -> torch.Tensor:
    return torch.ones(sizes, dtype=torch.float16)


def unscale_twice() -> None:
    layer = nn.Linear(2, 1)
    optimizer, scaler = torch.optim.SGD(layer.parameters()), torch.amp.GradScaler("cpu")
    scaler.scale(layer(torch.ones(1, 2)).sum()).backward()
    scaler.unscale_(optimizer)
    scaler.unscale_(optimizer)


CAUSES: dict[str, list[Callable[[], object]]] = {
    "mat1 and mat2": [
        lambda: nn.Linear(3, 2)(halves(4, 3)),
        lambda: nn.Linear(3, 2)(halves(4, 5, 3)),
    ],
    "expected m1 and m2": [
        lambda: torch.ones(2, 3) @ halves(3, 2),
        lambda: nn.Linear(3, 2, bias=False)(halves(4, 3)),
    ],
    "Input type": [lambda: nn.Conv2d(1, 1, 3)(halves(1, 1, 5, 5))],
    "unscale_()": [unscale_twice],
    "The size of": [lambda: torch.ones(2, 3) + torch.ones(4)],
    "invalid non-printable": [lambda: compile("x\u3000= 1", "a cell", "exec")],
}


@pytest.mark.parametrize("message", MESSAGES)
def test_a_quoted_message_is_what_is_printed(message: str) -> None:
    (causes,) = (found for start, found in CAUSES.items() if message.startswith(start))
    for cause in causes:
        with pytest.raises((RuntimeError, SyntaxError), match=re.escape(message)):
            cause()


def test_every_cause_is_quoted() -> None:
    assert len(MESSAGES) == len(CAUSES)
