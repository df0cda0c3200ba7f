"""Three streams of random numbers in a training run, with who draws from which.

What moves it is written in ``streams.js``; here is the still picture, which is the same. The
numbers come from the libraries' own generators.
"""

from __future__ import annotations

import html
import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from helpers.explorables import stage

STEPS = 6
OWNERS = ("random", "NumPy", "torch")
EXTRAS = ("none", "random", "NumPy", "torch", "loop", "own")
CHILDREN = ("none", "fork", "workers", "own")
OWN_SEED = 7  # of the generator g
_SEEDS = range(10)
_EXTRA_AT, _KILLED_AT, _CHILDREN_AT = 1, 3, 5
# The picture, in units of its own.
_WIDTH, _LEFT, _COLUMN, _GAP, _TOP, _LANE, _HEIGHT = 640, 92, 66, 20, 54, 74, 366
_LEGEND = (("same", "as above", 0), ("other", "differs", 150), ("copy", "copied", 290))
_LEGEND += (("own", "own seed", 430),)


class Streams:
    """The three global generators of one process, seeded, and the generator g."""

    def __init__(self, seeds: Sequence[int | Sequence[int]]) -> None:
        """Seed the three with one of ``seeds`` each."""
        self.random = random.Random(seeds[0])
        self.numpy = np.random.RandomState(seeds[1])
        self.torch = torch.Generator().manual_seed(seeds[2])
        self.own = torch.Generator().manual_seed(OWN_SEED)

    def draw(self, owner: str) -> float:
        """Return the next number of one of them."""
        if owner == "random":
            return self.random.random()
        if owner == "NumPy":
            return float(self.numpy.random_sample())
        return torch.rand((), generator=self.torch, dtype=torch.float32).item()

    def draw_all(self) -> list[float]:
        """Return the next number of each."""
        return [self.draw(owner) for owner in OWNERS]

    def take(self, owner: str, other: Streams) -> None:
        """Put the generator of ``owner`` where that of ``other`` stands."""
        if owner == "random":
            self.random.setstate(other.random.getstate())
        elif owner == "NumPy":
            self.numpy.set_state(other.numpy.get_state())
        else:
            self.torch.set_state(other.torch.get_state())


@dataclass(frozen=True)
class Run:
    """What a run drew.

    Attributes:
        steps: the three numbers of each step.
        children: the three numbers of each child; None for one that nobody can foretell.
        base: the base seed of the workers, in digits, if there are any.
    """

    steps: list[list[float]]
    children: list[list[float | None]]
    base: str | None


def explore_streams(
    seed: int = 0,
    extra: str = "none",
    *,
    killed: bool = False,
    kept: Sequence[str] = OWNERS,
    children: str = "none",
) -> None:
    """Show what disturbs three streams of random numbers, live where the front end can.

    Args:
        seed: 0 to 9.
        extra: what happens before step 2: "none", one draw more from "random", "NumPy" or "torch",
            a "loop" over a DataLoader, or one with a generator of its "own".
        killed: whether the run is killed after step 3 and resumed.
        kept: whose states the checkpoint holds.
        children: what happens before step 6: "none", "fork", "workers", or workers with a
            generator of their "own".

    Raises:
        ValueError: if one of them is nothing of the kind.
    """
    if seed not in _SEEDS:
        raise ValueError(f"seed is {seed}; write a number from 0 to {_SEEDS[-1]}")
    if extra not in EXTRAS:
        raise ValueError(f'extra is "{extra}"; write one of: {", ".join(EXTRAS)}')
    if children not in CHILDREN:
        raise ValueError(f'children is "{children}"; write one of: {", ".join(CHILDREN)}')
    if set(kept) - set(OWNERS):
        raise ValueError(f"kept is {list(kept)}; write names out of: {', '.join(OWNERS)}")
    held = [owner for owner in OWNERS if owner in kept]
    state = {"seed": seed, "extra": extra, "killed": killed, "kept": held, "children": children}
    said = say(state)
    paragraphs = "".join(f'<p class="bits-said">{html.escape(line)}</p>' for line in said)
    stage.show("streams", state, "\n".join(said), f"{_draw(state)}{paragraphs}")


def draw_base(generator: torch.Generator) -> int:
    """Draw the base seed as a DataLoader does when a loop over it begins."""
    return torch.empty((), dtype=torch.int64, device="cpu").random_(generator=generator).item()


def run(state: stage.State) -> Run:
    """Return what the run that ``state`` describes draws."""
    seed, extra, started = state["seed"], state["extra"], state["children"]
    streams = Streams([seed] * 3)
    steps, children, base = [], [], None
    for step in range(STEPS):
        if step == _EXTRA_AT and extra in OWNERS:
            streams.draw(extra)
        elif step == _EXTRA_AT and extra != "none":
            draw_base(streams.own if extra == "own" else streams.torch)
        if step == _KILLED_AT and state["killed"]:
            again = Streams([seed] * 3)
            for owner in state["kept"]:
                again.take(owner, streams)
            streams = again
        if step == _CHILDREN_AT and started != "none":
            if started != "fork":
                base = draw_base(streams.own if started == "own" else streams.torch)
            children = [_draw_in_child(streams, base, number) for number in range(2)]
        steps.append(streams.draw_all())
    return Run(steps, children, None if base is None else str(base))


def _draw_in_child(parent: Streams, base: int | None, number: int) -> list[float | None]:
    if base is not None:
        entropy = [number, base & 0xFFFFFFFF, base >> 32, 0]
        words = np.random.SeedSequence(entropy).generate_state(4)
        return Streams([base + number, words.tolist(), base + number]).draw_all()
    child = Streams([0] * 3)
    for owner in OWNERS:
        child.take(owner, parent)
    # The module random seeds itself anew in every fork, from the operating system.
    return [None, *child.draw_all()[1:]]


def undisturbed(seed: int) -> list[list[float]]:
    """Return the numbers of a run that nothing disturbs."""
    state = {"seed": seed, "extra": "none", "killed": False, "kept": [], "children": "none"}
    return run(state).steps


def say(state: stage.State) -> list[str]:
    """Return in three lines what the picture shows."""
    found, whole = run(state), undisturbed(state["seed"])
    counts = []
    for row, owner in enumerate(OWNERS):
        pairs = zip(found.steps, whole, strict=True)
        same = sum(here[row] == there[row] for here, there in pairs)
        counts.append(f"{owner} {same} of {STEPS}")
    extra, kept = state["extra"], state["kept"]
    if extra in OWNERS:
        moved = f"Before step 2, one more draw advances {extra}'s generator. "
    else:
        moved = {
            "none": "",
            "loop": "Before step 2, a loop draws a seed for its workers, which advances torch's "
            "global generator. ",
            "own": "Before step 2, a loop draws its seed from g; no global generator advances. ",
        }[extra]
    lost = [owner for owner in OWNERS if owner not in kept]
    resumed = ""
    if state["killed"]:
        resumed = "After step 3, a new process seeds all three and restores "
        missing = f", but not {stage.list_words(lost, 'or')}" if kept and lost else ""
        resumed += f"{stage.list_words(kept) or 'nothing'}{missing}."
    started = {
        "none": "No process is started.",
        "fork": "From copies of NumPy's and torch's states, both children draw what the main "
        "process draws in step 6; Python's random reseeds itself in a forked child.",
    }.get(
        state["children"],
        f"Each worker's three generators are seeded from the base seed, {found.base}, and the "
        "worker's number.",
    )
    return [
        f"As in the undisturbed run: {stage.list_words(counts)} numbers.",
        (moved + resumed).strip() or "Nothing disturbs the run.",
        started,
    ]


def _text(x: float, y: float, text: str, anchor: str = "middle", kind: str = "") -> str:
    class_ = f' class="bits-{kind}"' if kind else ""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}"{class_}>{text}</text>'


def _box(x: float, y: float, kind: str, number: float | None) -> list[str]:
    return [
        f'<rect x="{x + 3:g}" y="{y + 26}" width="{_COLUMN - 6}" height="32" rx="4" '
        f'class="bits-{kind}"/>',
        _text(x + _COLUMN / 2, y + 49, "new" if number is None else f"{number:.3f}"),
    ]


def _draw(state: stage.State) -> str:
    found, whole = run(state), undisturbed(state["seed"])

    def at(column: int) -> int:
        return _LEFT + column * _COLUMN + (_GAP if column >= STEPS else 0)

    parts = [_text(_LEFT, 18, "main process, step", "start")]
    if found.children:
        name = "children" if state["children"] == "fork" else "workers"
        parts.append(_text(_WIDTH, 18, name, "end"))
    for column in range(STEPS + len(found.children)):
        name = column + 1 if column < STEPS else column - STEPS
        parts.append(_text(at(column) + _COLUMN / 2, 44, f"{name}"))
    for row, owner in enumerate(OWNERS):
        y = _TOP + row * _LANE
        parts.append(_text(0, y + 49, owner, "start"))
        for column, numbers in enumerate(found.steps):
            there = whole[column][row]
            parts.append(_text(at(column) + _COLUMN / 2, y + 18, f"{there:.3f}", kind="whole"))
            kind = "same" if numbers[row] == there else "other"
            parts += _box(at(column), y, kind, numbers[row])
        for child, numbers in enumerate(found.children):
            kind = "copy" if numbers[row] == found.steps[_CHILDREN_AT][row] else "own"
            parts += _box(at(STEPS + child), y, kind, numbers[row])
    floor = _TOP + 3 * _LANE
    extra = "one draw" if state["extra"] in OWNERS else "loop"
    children = "fork" if state["children"] == "fork" else "workers"
    for column, name, shown in (
        (_EXTRA_AT, extra, state["extra"] != "none"),
        (_KILLED_AT, "resumed", state["killed"]),
        (_CHILDREN_AT, children, state["children"] != "none"),
    ):
        if shown:
            x = at(column)
            parts.append(f'<line x1="{x}" x2="{x}" y1="28" y2="{floor}"/>')
            parts.append(_text(x, floor + 20, name))
    for kind, name, x in _LEGEND:
        y = _HEIGHT - 36
        parts.append(
            f'<rect x="{x + 1}" y="{y}" width="26" height="22" rx="4" class="bits-{kind}"/>'
        )
        parts.append(_text(x + 34, _HEIGHT - 18, name, "start"))
    alt = html.escape(
        "Three lanes, one for each generator, with the numbers of six steps below those of an "
        f"undisturbed run. {' '.join(say(state))}"
    )
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" class="bits-streams" role="img" '
        f'aria-label="{alt}">{"".join(parts)}</svg>'
    )
