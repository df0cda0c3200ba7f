# %% [markdown]
"""
# 10 · Reproducibility

A seed at the beginning of a script is meant to make two runs identical. The code below trains twice on the same machine, with the same seed.

**中文**: 本章讲可复现性：随机数的各个来源与归属、求和顺序与线程、确定性算法与 cuDNN 开关、逐一定位差异来源、带误差界的比较，以及逐位一致的断点续训。
"""

# %% tags=["needed"] folded="Imports"
import copy
import io
import itertools
import json
import math
import os
import platform
import random
import time
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader

from helpers import (
    COLORS,
    Check,
    digits,
    explore_streams,
    failing,
    first_draws,
    hint,
    new_figure,
    play,
    predict,
    predictions,
    probes,
    progress,
    recorded,
    seconds_of,
    show,
    show_drawing,
    time_ratio,
)

# %% folded="Data, and 30 steps of training with a seed"
digit_images, digit_labels = digits()


def train_with_a_seed(seed, steps=30):
    torch.manual_seed(seed)
    model = nn.Linear(64, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(steps):
        batch, labels = next_batch()
        loss = functional.cross_entropy(model(batch), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


# %%
def next_batch():
    index = np.random.permutation(len(digit_images))[:64]
    batch = digit_images[index].flatten(1) / 16
    if random.random() < 0.5:
        batch = batch + 0.1 * torch.randn(batch.shape)
    return batch, digit_labels[index]


first, second = train_with_a_seed(2021), train_with_a_seed(2021)
equal_losses = sum(a == b for a, b in zip(first, second, strict=True))

# %% folded="Predict: two runs with the seed 2021"
predict(
    "10/same-seed",
    "Both runs call `torch.manual_seed(2021)` before they create the model. In how many of the 30 steps are their losses the same, to the last bit?",
    "none" if equal_losses == 0 else "some",
    "The initial weights are equal, but even the first batches are not: NumPy draws them, and nobody seeded NumPy.",
    choices=("all 30", "some", "none"),
)

# %% tags=["nbval-ignore-output"] folded="Figure 10.1: two runs with the same seed"
figure, axes = new_figure(height=2.8)
for losses, name, color in ((first, "first run", "blue"), (second, "second run", "vermilion")):
    axes.plot(range(1, 31), losses, color=COLORS[color], label=name)
axes.set(title="The same seed, twice", xlabel="training step", ylabel="loss (nats)")
axes.legend()
show(
    figure,
    number="10.1",
    caption="Both runs begin with the same weights, yet their losses differ from the first step on.",
    alt="Loss against training step for two runs. Both fall from about 2.3 to about 1.7 and differ at every step.",
)

# %%
print("steps with the same loss:", equal_losses, "of", len(first))

# %% [markdown]
"""
Nobody seeded NumPy, which draws the batches, or Python's `random`, which flips a coin. Two runs are equal only if **everything** that varies between runs is fixed, and random numbers are only the first source of variation.

> **After this chapter, you will be able to**
>
> - name the generators that a program draws from, and seed, save and restore all of them;
> - explain why the same sum can give different results, and tell rounding from a mistake;
> - set the flags that make algorithms deterministic;
> - find the sources that make two runs differ;
> - kill a training run at any step and resume it bit for bit.
>
> **Time**: 50 minutes to read and run, 135 for the seven exercises.
>
> **Prerequisites**: rounding (chapter 02), scalers and schedules (chapters 04 and 05), data loading (chapter 09).
"""

# %% [markdown]
"""
## Who owns the random numbers

A **random number generator** computes numbers from a **state**; a **seed** sets the state. A process has several generators, and drawing from one does not advance the others:

| generator | seeded by | state |
| --- | --- | --- |
| Python's `random` | `random.seed(s)` | `random.getstate()`, `setstate` |
| NumPy's global one | `np.random.seed(s)`, s below 2³² | `np.random.get_state()`, `set_state` |
| torch's, on the CPU | `torch.manual_seed(s)` | `torch.get_rng_state()`, `set_rng_state` |
| torch's, one on each GPU | `torch.manual_seed(s)` as well | `torch.cuda.get_rng_state_all()`, an empty list without GPUs; `set_rng_state_all` |
| objects `g = torch.Generator()` | `g.manual_seed(s)` | `g.get_state()`, `g.set_state` |
| objects made by `np.random.default_rng(s)`, `random.Random(s)` | the `s` they are made with | `bit_generator.state`; `getstate()`, `setstate` |
| in a DataLoader's workers | the loader (chapter 09) | not saved: by default, the workers live for one epoch |

One more draw from a generator changes everything drawn from it later. Which of the lines below draw from torch's global generator?
"""

# %%
torch.manual_seed(0)
expected = torch.rand(1)
torch.manual_seed(0)
iter(DataLoader(range(3)))
after_a_loop = torch.rand(1)

# %% folded="Predict: a loop over a DataLoader"
predict(
    "10/loop",
    "The loader has no workers and does not shuffle. Is `after_a_loop` equal to `expected`?",
    "yes" if torch.equal(expected, after_a_loop) else "no",
    "When a loop begins, a DataLoader without a generator of its own draws a seed for its workers from torch's global one, even if it has no workers.",
    choices=("yes", "no"),
)

# %%
print("the same number after starting a loop:", torch.equal(expected, after_a_loop))

# %% [markdown]
"""
So one more loop over a validation loader changes the rest of the training. The remedy is **one generator per purpose**: pass `generator=g` to a DataLoader, and other generators to `torch.randperm` and `torch.utils.data.random_split`.

Below, a run draws one number from each of three generators in each of six steps. The upper numbers belong to an undisturbed run. After a kill, the same script starts again and sets the same seed. A **checkpoint** is a file from which a run can be resumed; a forked child process begins as a copy of its parent. Which states must a checkpoint hold, and which generators does a fork duplicate?
"""

# %%
explore_streams(0, "loop", killed=True, kept=("random", "NumPy"), children="fork")

# %% [markdown]
"""
<details><summary>What the picture shows</summary>

A generator whose state is not restored starts over: steps 4 to 6 repeat the upper numbers of steps 1 to 3. Forked children draw the *same* NumPy and torch numbers as their parent; Python's `random` [reseeds itself in every forked child](https://github.com/python/cpython/blob/v3.12.0/Lib/random.py). A loader's workers get their own seeds, derived from one **base seed**. If the loader draws its base seed from torch's global generator, torch's number in step 6 changes; if the loader has a generator `g` of its own, nothing changes.
</details>
"""

# %% [markdown] exercise="seed-everything" points=3 minutes=10 difficulty=1
"""
### Seed everything

Suppose that a recipe passes its seed to Python, NumPy and torch, but always seeds the GPUs with 0. Runs are repeatable, but a new seed leaves the GPUs' numbers unchanged. Treat Python, NumPy, torch and the GPUs alike.

`seed_everything(seed)`

- **In** `seed`: an int from 0 to 2⁶³ − 1.
- **Out**: nothing is returned. The global generators of `random`, NumPy and torch (including the GPUs) are seeded, whatever was drawn before. Seeds below 2³² are used unchanged.
- **Large seeds**: NumPy refuses seeds of 2³² and above, but your function must not. The same seed gives the same numbers in every process. Two different seeds give different numbers from each generator if both are below 2³² or if they differ by less than 10.

After `seed_everything(5)`, `random.random()` returns what `random.Random(5).random()` returns: `0.6229016948897019`.

<!-- hint: Which three calls in the table seed global generators? Which of them cannot take every allowed seed? -->
<!-- hint: Bring the seed into NumPy's range without making neighbors equal. What does the remainder of a division do? -->
<!-- hint: The remainder modulo `2**32` is in the range and differs for neighbors. Python and torch take the seed unchanged. -->
"""


# %% solution="seed-everything"
def seed_everything(seed):
    """Seed the global generators of Python, NumPy and torch."""
    ### BEGIN SOLUTION
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)
    ### END SOLUTION


# %% test="seed-everything"
check = Check("seed-everything")
GENERATORS = {"random": "random", "numpy": "NumPy", "torch": "torch"}


def seeded(*seeds):
    return check.call(probes.seeded_draws, seed_everything, list(seeds))


def rounds_after(seeds, before):
    """Return a uniform and a normal number of each generator, drawn after each seed."""
    salt = check.draw.integer(1, 10**6)
    seen = check.call(probes.seeded_rounds, seed_everything, list(seeds), before, salt)
    told = f"seed_everything returned a value of type {seen['returned']}, not None"
    check.true(seen["returned"] == "NoneType", told)
    return seen["drawn"]


def same_in_another_process(*seeds):
    first = rounds_after(seeds, before=1)
    check.restart()
    again = rounds_after(reversed(seeds), before=2)
    for seed, here, there in zip(seeds, first, reversed(again), strict=True):
        for name, called in GENERATORS.items():
            for place, kind in enumerate(("uniform", "normal")):
                what = f"the next {kind} number from {called}, seeded with {seed}"
                what += " in another process, after other draws"
                check.equal(there[name][place], here[name][place], what=what)


def differ(*seeds):
    seen = seeded(*seeds)
    for name, called in GENERATORS.items():
        found = {}
        for seed, draws in zip(seeds, seen, strict=True):
            other = found.setdefault(draws[name], seed)
            told = f"seeds {other} and {seed} give the same number from {called}, {draws[name]:g}"
            check.true(other == seed, told)


with check.property("seeds below 2**32 are used unchanged by each of the three generators"):
    small = [check.draw.integer(0, 2**32), 0, check.draw.integer(0, 1000), 2**32 - 1]
    for seed, seen in zip(small, seeded(*small), strict=True):
        expected = first_draws(seed)
        for name, called in GENERATORS.items():
            what = f"the next number from {called}, seeded with {seed}"
            check.equal(seen[name], expected[name], what=what)
with check.property(
    "the same seed gives the same numbers, in every process, whatever was drawn before; "
    "nothing is returned"
):
    same_in_another_process(check.draw.integer(0, 2**32), 2**32 - 1)
    same_in_another_process(2**32 + check.draw.integer(0, 2**20), 2**63 - 1, 2**32)
    same_in_another_process(check.draw.integer(2**33, 2**63 - 1))
with check.property("large seeds: different seeds give different numbers"):
    seed = check.draw.integer(2**33, 2**62)
    differ(*range(seed, seed + 10))
    differ(2**32 - 1, 2**32, 2**32 + 1)
with check.property("GPUs are seeded like the rest (two are simulated)", weight=0.5):
    seed = check.draw.integer(0, 2**32)
    for numbers in check.call(probes.seeded_gpus, seed_everything, [seed, seed]):
        for place, number in zip(("first", "second"), numbers, strict=True):
            what = f"the next number from the {place} GPU, seeded with {seed}"
            check.equal(number, first_draws(seed)["torch"], what=what)
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("neighbors differ, even among the largest"):
    differ(2**63 - 2, 2**63 - 1)
    differ(2**40, 2**40 + 1)
    differ(0, 1)
    differ(5, 1005, 100_005, 1_000_005)
### END HIDDEN TESTS
check.score()

# %% [markdown]
r"""
## Saving a generator's state

Seeding restarts a generator. To resume a run, you need the generators' states, and saving them has a catch:
"""

# %%
states = {"random": random.getstate(), "NumPy": np.random.get_state()}
states["torch"] = torch.get_rng_state()
for name, state in states.items():
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    try:
        torch.load(file, weights_only=True)
        print(f"{name:<7} saved and loaded")
    except Exception as error:
        print(f"{name:<7} saved, but not loaded: {type(error).__name__}")

# %%
kind, keys, place, *normal = np.random.get_state()
print("NumPy's state:", kind, keys.dtype, keys.shape, type(place).__name__, "and two more")

# %% [markdown]
"""
`torch.save` writes a pickle, and loading a pickle can run code. With `weights_only=True`, the default since PyTorch 2.6, `torch.load` accepts tensors, numbers, strings, None, and lists, tuples and dicts of these, but no NumPy arrays.

The last two entries of NumPy's state concern normally distributed numbers:
"""

# %% folded="Drawing: the number kept for the next call"
show_drawing(
    "10/kept-normal",
    number="10.2",
    caption="NumPy's `randn` and Python's `random.gauss` compute normally distributed numbers in pairs. They return one and keep the other for the next call. A state saved between the calls must include the kept number.",
    alt="A generator makes a pair of normally distributed numbers, a and b. The first call returns a, and b goes into a box called kept. The second call returns b from the box and draws nothing. The checkpoint lies between the two calls.",
)

# %% [markdown] exercise="random-states" points=5 minutes=20 difficulty=2
"""
### Capture and restore

A checkpoint needs the states of all global generators in a form that can be loaded safely.

`capture_random_states() -> states` and `restore_random_states(states)`

- **In** `states`: what `capture_random_states` returned, saved with `torch.save` and loaded with `weights_only=True`, perhaps in another process. The same `states` can be restored more than once.
- **Out**: `capture_random_states` returns the states of `random`, NumPy, torch and any GPUs as tensors, numbers, strings, None, and lists, tuples and dicts of these. Capturing draws nothing and changes nothing.
- After `restore_random_states(states)`, every generator continues, for uniform and normal numbers alike, as if nothing had happened since the capture.

After `states = capture_random_states(); a = random.gauss(0, 1); restore_random_states(states)`, `random.gauss(0, 1) == a` is `True`.

<!-- hint: Which of the three states cannot be loaded unchanged, and which part of it is to blame? -->
<!-- hint: Convert the array to a tensor or a list when capturing, and back to an array when restoring. Leave all other parts unchanged. -->
<!-- hint: `np.random.get_state()` is a tuple whose second part is the array: store its `tolist()` instead. `np.random.set_state` takes a tuple with an array of np.uint32 as its second part. `torch.cuda.get_rng_state_all()` is a list, empty where there is no GPU. -->
"""


# %% solution="random-states"
def capture_random_states():
    """Return the states of all global generators, as data that torch.load accepts."""
    ### BEGIN SOLUTION
    kind, keys, *rest = np.random.get_state()
    return {
        "random": random.getstate(),
        "numpy": (kind, keys.tolist(), *rest),
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }
    ### END SOLUTION


def restore_random_states(states):
    """Set all global generators to what ``capture_random_states`` returned."""
    ### BEGIN SOLUTION
    random.setstate(states["random"])
    kind, keys, *rest = states["numpy"]
    np.random.set_state((kind, np.array(keys, dtype=np.uint32), *rest))
    torch.set_rng_state(states["torch"])
    if states["cuda"]:
        torch.cuda.set_rng_state_all(states["cuda"])
    ### END SOLUTION


# %% test="random-states"
check = Check("random-states")
NAMES = {"random": "random", "numpy": "NumPy", "torch": "torch"}


def numbers_after(seed, rounds):
    """Return what the check's own generators draw in the round after ``rounds`` others."""
    python, numpys = random.Random(seed), np.random.RandomState(seed)
    torchs = torch.Generator(device="cpu").manual_seed(seed)
    plain = {"generator": torchs, "dtype": torch.float32, "device": "cpu"}
    for _ in range(rounds + 1):
        numbers = {
            "random": [python.random(), python.gauss(0.0, 1.0)],
            "numpy": [float(numpys.random_sample()), float(numpys.randn())],
            "torch": [torch.rand((), **plain).item(), torch.randn((), **plain).item()],
        }
    return numbers


def goes_on(generator, odd, least=1, later=0):
    """Require that in another process a generator continues from the captured state.

    ``odd``: whether an odd number of normal numbers was drawn before; ``least``: half of the
    smallest number of rounds; ``later``: how many rounds after the restoring are drawn, too.
    """
    seed = check.draw.integer(0, 2**31)
    rounds = 2 * check.draw.integer(least, least + 19) + odd
    expected = numbers_after(seed, rounds)[generator]
    seen = check.call(probes.captured_states, capture_random_states, seed, rounds)
    what = f"numbers from {NAMES[generator]} (uniform, normal) after the "
    check.equal(seen["next"][generator], expected, what=what + "capture")
    check.restart()
    other = check.draw.integer(0, 2**31)
    given = (seen["written"], other)
    seen = check.call(probes.restored_draws, restore_random_states, *given, later=later)
    check.equal(seen["got"][generator], expected, what=what + "restore")
    check.equal(seen["again"][generator], expected, what=what + "second restore")
    if later:
        expected = numbers_after(seed, rounds + later)[generator]
        what += f"restore and {later} more rounds"
        check.equal(seen["later"][generator], expected, what=what)


def gpus_go_on():
    """Require that two pretended GPUs continue from the captured states in another process."""
    seed, rounds = check.draw.integer(0, 2**31), check.draw.integer(1, 20)
    drawn = []
    for before in (0, 1):
        plain = {"generator": torch.Generator(device="cpu").manual_seed(seed), "device": "cpu"}
        numbers = torch.rand(before + rounds + 1, dtype=torch.float32, **plain)
        drawn.append(numbers[-1].item())
    seen = check.call(probes.captured_states, capture_random_states, seed, rounds, gpus=True)
    what = "numbers from the two GPUs after the "
    check.equal(seen["next"]["gpus"], drawn, what=what + "capture")
    check.restart()
    given = (seen["written"], check.draw.integer(0, 2**31))
    seen = check.call(probes.restored_draws, restore_random_states, *given, gpus=True)
    check.equal(seen["got"]["gpus"], drawn, what=what + "restore")


with check.property("torch's generator continues in a new process"):
    goes_on("torch", odd=False, later=400)
with check.property("Python's generator continues in a new process", weight=1.5):
    goes_on("random", odd=False, later=400)
with check.property("NumPy's generator continues in a new process", weight=1.5):
    goes_on("numpy", odd=False, later=400)
with check.property("a normal number that a generator keeps is not lost"):
    for generator in NAMES:
        goes_on(generator, odd=True)
with check.property("a capture draws nothing"):
    seed, rounds = check.draw.integer(0, 2**31), check.draw.integer(0, 9)
    seen = check.call(probes.captured_states, capture_random_states, seed, rounds)
    what = "the next numbers after a capture"
    check.equal(seen["next"], numbers_after(seed, rounds), what=what)
with check.property("states are plain data, and can be restored twice", weight=0.5):
    seed, rounds = check.draw.integer(0, 2**31), check.draw.integer(0, 9)
    seen = check.call(probes.captured_states, capture_random_states, seed, rounds)
    told = "; ".join(seen["others"])
    check.true(not told, f"{told}, not a tensor, number, string, None, list, tuple or dict")
    states = check.call(capture_random_states)
    check.call(probes.called_twice, restore_random_states, states)
with check.property("the generators of GPUs continue (two are simulated)", weight=0.5):
    gpus_go_on()
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property(
    "the same after hundreds of draws, when the generators have regenerated their states"
):
    for generator in NAMES:
        goes_on(generator, odd=True, least=250)
        goes_on(generator, odd=False, least=350)
### END HIDDEN TESTS
check.score()

# %% [markdown]
r"""
## The order of a sum

The next cell adds the same 100,000 float32 numbers from front to back and from back to front:
"""

# %%
torch.manual_seed(0)
numbers = (torch.rand(100_000) - 0.5).numpy()
forward = np.cumsum(numbers)[-1]
backward = np.cumsum(numbers[::-1])[-1]
exact = math.fsum(numbers.tolist())
for name, value in (("forward", forward), ("backward", backward), ("exact", exact)):
    print(f"{name:<9} {float(value):.6f}")

# %% [markdown]
r"""
Floating-point addition is not **associative**: rounding can make $(a + b) + c$ differ from $a + (b + c)$. So whatever changes the order can change the result: the number of threads, the width of the processor's registers, the tiles of a matrix product on a GPU, or the way several GPUs add their gradients. Move the slider to split the sum into parts, each added up separately:
"""


# %% folded="Figure 10.3: the sum in parts"
def sum_in_parts(count):
    parts = np.array([np.cumsum(part)[-1] for part in np.array_split(numbers, count)])
    return np.cumsum(parts)[-1]


PARTS = [2**power for power in range(11)]
ERRORS = [abs(float(sum_in_parts(count)) - exact) for count in PARTS]


def draw_parts(count):
    figure, axes = new_figure(height=2.8)
    axes.semilogx(PARTS, ERRORS, "o", color=COLORS["sky"], base=2)
    axes.plot([count], [ERRORS[PARTS.index(count)]], "o", ms=11, color=COLORS["vermilion"])
    axes.set(
        title=f"Parts: {count}, sum: {sum_in_parts(count):.6f}",
        xlabel="number of parts",
        ylabel="error of the sum",
        ylim=(-2e-5, None),
    )
    return figure


play(
    draw_parts,
    label="parts",
    values=PARTS,
    start=1,
    number="10.3",
    caption="Almost every choice gives a different sum. With a few dozen parts, the sum is also more accurate than with one, because partial sums stay small.",
    alt="Error of the sum of 100,000 numbers against the number of parts, from 1 to 1024. The error is largest for one part, falls by more than a factor of ten by a few dozen parts, and then stays low and uneven.",
)

# %% [markdown]
"""
Here is torch's own sum on one thread and on two:
"""

# %% tags=["nbval-ignore-output"]
threads = torch.get_num_threads()
many = torch.rand(3_000_001, generator=torch.Generator().manual_seed(0)) - 0.5
for count in (1, 2):
    torch.set_num_threads(count)
    print(f"{count} thread(s): {many.sum().item():.6f}")
torch.set_num_threads(threads)

# %% [markdown]
r"""
The two sums need not agree, because each of two threads adds up a part of the numbers.

How much can so small a difference grow? For each of two learning rates, two training runs start from the same weights, except that a single weight differs by one unit in the last place.
"""


# %% tags=["nbval-ignore-output"] folded="Train four times, with two learning rates"
def weights_along_the_way(nudge, rate, steps=400):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 10)
    )
    if nudge:
        with torch.no_grad():
            weight = model[0].weight
            weight[0, 20] = torch.nextafter(weight[0, 20], torch.tensor(2.0))
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
    inputs, seen = digit_images.flatten(1) / 16, []
    for step in range(steps):
        batch = torch.arange(step * 64, step * 64 + 64) % len(inputs)
        loss = functional.cross_entropy(model(inputs[batch]), digit_labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen.append(nn.utils.parameters_to_vector(model.parameters()).detach().clone())
    return torch.stack(seen)


torch.set_num_threads(1)
apart = {
    rate: (weights_along_the_way(False, rate) - weights_along_the_way(True, rate)).norm(dim=1)
    for rate in (0.2, 0.02)
}
torch.set_num_threads(threads)

# %% folded="Predict: one unit in the last place"
predict(
    "10/amplified",
    "With a learning rate of 0.2, the weights are about 0.00000001 apart after one step. How far apart are they after 400 steps?",
    "more than 1"
    if apart[0.2][-1] > 1
    else "about 0.0001"
    if apart[0.2][-1] > 1e-6
    else "still about 0.00000001",
    "The growth factors of single steps average only a little above 1, but 400 of them multiply to about 10⁹.",
    choices=("still about 0.00000001", "about 0.0001", "more than 1"),
)

# %% tags=["nbval-ignore-output"] folded="Figure 10.4: two runs that began one bit apart"
figure, axes = new_figure(height=2.8)
for rate, color in ((0.2, "vermilion"), (0.02, "blue")):
    axes.semilogy(range(1, 401), apart[rate].clamp(min=1e-10), color=COLORS[color])
    axes.text(
        395, 3 * apart[rate][-1], f"learning rate {rate}", ha="right", va="bottom"
    ) if rate == 0.02 else axes.text(
        310, apart[rate][-1], f"learning rate {rate}", ha="right", va="center"
    )
axes.set(
    title="Two runs that began one bit apart",
    xlabel="training step",
    ylabel="distance between weights",
)
show(
    figure,
    number="10.4",
    caption="How much training amplifies a rounding error depends on the learning rate.",
    alt="Distance between the weights of two runs against the training step, logarithmic. With a learning rate of 0.2, it grows from a hundred-millionth to more than 1. With 0.02, it rises to about a millionth and then grows only slowly.",
)

# %% [markdown]
r"""
So at the *end* of a training run, it is hard to judge whether results are "nearly the same". Compare them after *one* operation instead.
"""

# %% [markdown]
r"""
## Is a difference only rounding?

If $n$ numbers $x_i$ are added in any order, the computed sum $\hat s$ differs from the exact sum $s$ by at most

$$|s - \hat s| \;\le\; \gamma_{n-1} \sum_i |x_i|, \qquad \gamma_k = \frac{k u}{1 - k u},$$

where $u$ is half the machine epsilon: $2^{-24}$ for float32 (Higham, section 4.2). What counts is the size of the *numbers*, not that of the sum. Two correct results differ by at most twice this bound. The next cell adds the 100,000 numbers in 300 random orders:
"""

# %%
generator = np.random.default_rng(0)
orders = [float(np.cumsum(generator.permutation(numbers))[-1]) for _ in range(300)]
refused = 300 - int(np.isclose(orders, exact).sum())

# %% folded="The bound of these sums"
n, u = len(numbers), 2.0**-24
bound = (n - 1) * u / (1 - (n - 1) * u) * np.abs(numbers.astype(np.float64)).sum()
print(f"the largest error is {max(abs(s - exact) for s in orders):.0e}; the bound is {bound:.0f}")

# %% folded="Predict: a tolerance that nobody chose"
predict(
    "10/isclose",
    "`np.isclose(result, exact)`, with its default tolerances, compares each of the 300 sums with the exact one. How many of these correct results does it reject?",
    refused,
    "It allows 0.00001 times the exact sum, 27.6, plus 0.00000001. That sum is small because the numbers nearly cancel, but all of them contribute rounding errors.",
    between=(0, 300),
)

# %% folded="Figure 10.5: 300 orders of one sum"
figure, axes = new_figure(height=2.7)
errors = sorted(max(abs(s - exact), 1e-7) for s in orders)
axes.semilogx(errors, range(1, 301), ".", color=COLORS["blue"], label="300 orders, sorted")
for place, name, color in (
    (1e-8 + 1e-5 * abs(exact), "np.isclose", "vermilion"),
    (bound / n**0.5, "bound with √n", "orange"),
    (bound, "bound", "green"),
):
    axes.axvline(place, color=COLORS[color], linestyle="--", label=name)
axes.set(
    title="The sum of the same numbers in 300 orders",
    xlabel="distance from the exact sum",
    ylabel="number of orders",
    xlim=(1e-7, 3e3),
)
axes.legend(loc="upper left")
show(
    figure,
    number="10.5",
    caption="Each tolerance accepts the results to the left of its line. The default of `np.isclose` rejects many correct results; the bound accepts all of them.",
    alt="The sorted errors of 300 sums on a logarithmic axis, from a few millionths to a thousandth. The tolerance of np.isclose lies in their upper half. The bound with the square root of n lies near 0.5, the bound itself near 150.",
)

# %%
print("np.isclose(1e-9, 2e-9):", bool(np.isclose(1e-9, 2e-9)))

# %% [markdown]
"""
The bound describes the worst case, but rounding errors partly cancel. Under a probabilistic model, a modest multiple of √n can replace n, with high probability (Higham and Mary 2019). For tiny numbers, a fixed tolerance is too loose: `isclose` treats 1e-9 and 2e-9 as equal. **A meaningful tolerance comes from the operation: from the number of roundings and the size of what is rounded.**
"""

# %% [markdown] exercise="sums-agree" points=4 minutes=20 difficulty=2
r"""
### Do two sums agree?

A test that compares two sums needs a tolerance that nobody had to guess.

`sums_agree(first, second, x) -> bool`

- **In** `x`: a tensor of any shape, float16, bfloat16, float32 or float64, with $(n-1)\,u < 1$; it must not change. `first`, `second`: floats, finite or nan, supposedly the sums of all entries of `x` in two unknown orders, with every addition rounded to the dtype of `x`.
- **Out**: True if they are at most $2\,\gamma_{n-1} \sum_i |x_i|$ apart, with $u$ half the dtype's epsilon and $n$ the number of entries. Add the $|x_i|$ in float64. For one entry or none, the two must be equal; nan agrees with nothing.

For `x = torch.tensor([1.0, 1.0])`, the bound is about 2.4e-7: `sums_agree(2.0, 2.0000002, x)` returns `True`, and `sums_agree(2.0, 2.0000003, x)` returns `False`.

<!-- hint: Which three numbers does the bound need, and where does each come from? -->
<!-- hint: `torch.finfo(x.dtype).eps / 2` is u, and `x.numel()` is n. Sum the absolute values after a conversion. -->
<!-- hint: With `k = max(n - 1, 0)` the bound is `2 * k * u / (1 - k * u)` times the sum of absolute values. With nan, `<=` is False, so nan needs no special case. -->
"""


# %% solution="sums-agree"
def sums_agree(first, second, x):
    """Return whether two sums of ``x`` differ by no more than rounding."""
    ### BEGIN SOLUTION
    u = torch.finfo(x.dtype).eps / 2
    k = max(x.numel() - 1, 0)
    bound = 2 * k * u / (1 - k * u) * x.double().abs().sum().item()
    return abs(first - second) <= bound
    ### END SOLUTION


# %% test="sums-agree"
check = Check("sums-agree")


DIGITS = {torch.bfloat16: 8, torch.float16: 11, torch.float32: 24, torch.float64: 53}


def allowed(x):
    """Return how far apart two sums of ``x`` may be."""
    rounded = x.numel() - 1
    share = 2 * rounded / (2 ** DIGITS[x.dtype] - rounded)
    return share * math.fsum(map(abs, x.double().flatten().tolist()))


def judges(x, middle=None, near=0.1):
    """Require the right verdict at most ``near`` inside and outside the bound, on both sides."""
    middle = math.fsum(x.double().flatten().tolist()) if middle is None else middle
    shares = (0.0, 1 - near, 1 + near, 30.0)
    cases = [(share, side) for share in shares for side in (1, -1)]
    for number in check.draw.permutation(len(cases)).tolist():
        share, side = cases[number]
        second = middle + side * share * allowed(x)
        got = check.call(sums_agree, middle, second, x)
        what = f"{x.numel()} entries of {x.dtype}, {share:.7g} times the allowed distance apart"
        what += f" ({middle!r} and {second!r})"
        check.equal(got, share < 1, what=what)


def in_pairs(count, dtype):
    """Return numbers from 1 to 2 whose sum ``dtype`` holds: the denominator alone matters."""
    x = check.draw.uniform(count // 2, low=1.0, high=2.0, dtype=dtype)
    return torch.cat([x, 3 - x])


with check.property("just inside and just outside the bound, float32"):
    for _ in range(3):
        judges(check.draw.normal(check.draw.integer(50, 90)))
    judges(check.draw.normal(7, 11, 3, mean=5.0))
    judges(check.draw.normal(9, 6).T)
with check.property("large numbers that cancel", weight=2):
    half = check.draw.normal(40, std=1e6)
    judges(torch.cat([half, -half, torch.ones(1)]), middle=1.0)
with check.property("tiny numbers", weight=2):
    judges(check.draw.normal(30, std=1e-12))
with check.property("the dtype decides"):
    for dtype in (torch.float16, torch.bfloat16, torch.float64):
        judges(check.draw.normal(25, dtype=dtype))
with check.property("one entry, and nan"):
    for x in (check.draw.uniform(1, low=1.0, high=2.0), check.draw.uniform(low=1.0, high=2.0)):
        value, shape = x.item(), tuple(x.shape)
        what = f"one entry, shape {shape}, both sums equal to it"
        check.equal(check.call(sums_agree, value, value, x), True, what=what)
        for other in (value + 1e-9, value - 1e-9):
            for pair in ((value, other), (other, value)):
                what = f"one entry, shape {shape}, sums 1e-9 apart {pair}"
                check.equal(check.call(sums_agree, *pair, x), False, what=what)
    for size in (5, 1):
        x = check.draw.normal(size)
        for pair in ((math.nan, 1.0), (x.sum().item(), math.nan), (math.nan, math.nan)):
            what = f"number of entries: {size}, sums {pair}"
            check.equal(check.call(sums_agree, *pair, x), False, what=what)
with check.property("many entries in bfloat16 and float16, where the denominator matters"):
    judges(in_pairs(200, torch.bfloat16))
    for dtype in (torch.bfloat16, torch.float16):
        for count in (120, 160):
            judges(in_pairs(count, dtype), near=1e-6)
with check.property("no entries", weight=0.5):
    got = check.call(sums_agree, 0.0, 0.0, torch.zeros(0))
    check.equal(got, True, what="no entries, equal sums")
    for pair in ((0.0, 1e-30), (1e-30, 0.0), (math.nan, math.nan)):
        got = check.call(sums_agree, *pair, torch.zeros(0))
        check.equal(got, False, what=f"no entries, sums {pair}")
with check.property("two and three entries, where one addition matters; zeros"):
    judges(check.draw.normal(2, mean=3.0))
    judges(check.draw.normal(3, mean=-3.0))
    judges(torch.cat([torch.zeros(2), check.draw.normal(2, mean=3.0)]))
    check.equal(check.call(sums_agree, 0.0, 0.0, torch.zeros(3)), True, what="for three zeros")
with check.property("float64 beyond the range of float32", weight=0.5):
    judges(check.draw.normal(40, dtype=torch.float64) * 1e200)
    judges(check.draw.normal(40, dtype=torch.float64) * 1e-60)
with check.property("a sum of absolute values that the dtype cannot hold", weight=0.5):
    for size, dtype in ((5e3, torch.float16), (2e38, torch.bfloat16), (2e38, torch.float32)):
        x = torch.full((20,), size, dtype=dtype)  # so few that the denominator does not matter
        x[::2] = -size
        judges(x)
with check.property("x does not change", weight=0.5):
    for dtype in (torch.float64, torch.float32, torch.float16):
        x = check.draw.normal(4, 5, dtype=dtype)
        total = x.double().sum().item()
        seen = check.call(probes.after_call, sums_agree, total, total, x)
        check.equal(seen["output"], True, what="equal sums")
        check.equal(seen["arguments"][2], x, what=f"x of {dtype} after the call")
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("hundreds of entries in bfloat16 and float16, of either sign", weight=0.5):
    judges(check.draw.normal(180, mean=-2.0, dtype=torch.bfloat16))
    judges(check.draw.normal(700, mean=1.0, dtype=torch.float16))
with check.property("two, three and four entries in other dtypes", weight=0.5):
    judges(check.draw.normal(2, mean=-30.0, dtype=torch.bfloat16))
    judges(check.draw.normal(3, mean=2.0, dtype=torch.float16))
    judges(check.draw.normal(4, mean=7.0))
with check.property("the ends of the ranges of bfloat16 and float64", weight=0.5):
    judges(check.draw.uniform(20, low=1.0, high=2.0, dtype=torch.bfloat16) * 1e38)
    judges(check.draw.normal(50, dtype=torch.float64) * 1e-200)
### END HIDDEN TESTS
check.score()

# %% [markdown]
"""
## Deterministic algorithms

Some operations do not even fix the order of their additions: their threads add to the same place, in whatever order they get there.
"""

# %%
one, big = torch.tensor(1.0), torch.tensor(2.0**24)
print("1 + big - big:", (one + big - big).item(), "  1 - big + big:", (one - big + big).item())

# %% folded="Drawing: two threads, one place"
show_drawing(
    "10/two-orders",
    number="10.6",
    caption="Two threads update a place in memory that holds 1. Which one comes first is a matter of timing, and one order loses the 1 to rounding.",
    alt="Two rows. Above, thread A adds 16777216 first: the place holds 1, then 16777216, and after thread B has subtracted 16777216 it holds 0. Below, thread B comes first: the place holds 1, then minus 16777215, and after thread A it holds 1.",
)

# %% folded="Data: a million numbers for a thousand places"
places = torch.randint(1000, (1_000_000,), generator=torch.Generator().manual_seed(0))
values = torch.rand(1_000_000, generator=torch.Generator().manual_seed(1))


# %% tags=["nbval-ignore-output"]
def add_to_places(deterministic):
    torch.use_deterministic_algorithms(deterministic)
    result = torch.zeros(1000).index_put_((places,), values, accumulate=True)
    torch.use_deterministic_algorithms(False)
    return result


torch.set_num_threads(8)
for on in (False, True):
    same = sum(torch.equal(add_to_places(on), add_to_places(on)) for _ in range(10))
    print(f"deterministic {on!s:<5}: {same} of 10 pairs are equal")
torch.set_num_threads(threads)

# %% tags=["nbval-ignore-output"] folded="Measure: the time of both algorithms"
ratio = time_ratio(lambda: add_to_places(True), lambda: add_to_places(False))
print(f"deterministic takes {ratio} as long, with {torch.get_num_threads()} thread(s)")

# %% [markdown]
"""
`torch.use_deterministic_algorithms(True)` makes torch choose a deterministic algorithm, which need not be slower. Where there is none, torch raises an error. The flag also fills uninitialized memory with nan (integers: with the largest value) instead of leaving whatever was there:
"""

# %%
torch.use_deterministic_algorithms(True)
print("torch.empty:", torch.empty(3).tolist())
try:
    torch.zeros(3).put_(torch.tensor([0]), torch.tensor([1.0]))
except RuntimeError as error:
    print("put_:", str(error).partition(",")[0])
torch.use_deterministic_algorithms(False)

# %% [markdown]
r"""
More flags matter on a GPU, where cuDNN computes convolutions and cuBLAS matrix products:

| flag | what it does | default |
| --- | --- | --- |
| `torch.backends.cudnn.benchmark` | for each new shape, the **auto-tuner** times several algorithms and keeps the fastest | False |
| `torch.backends.cudnn.deterministic` | cuDNN may use only deterministic algorithms | False |
| `torch.backends.cudnn.enabled` | whether cuDNN is used at all | True |
| `torch.use_deterministic_algorithms(True)` | only deterministic algorithms for torch's operations and convolutions, else an error | off |
| `CUBLAS_WORKSPACE_CONFIG=:4096:8` in the environment, before CUDA is used | fixes cuBLAS's workspace; until [late 2025](https://github.com/pytorch/pytorch/pull/161749), torch required it if the previous flag was on | not set |
| `torch.set_float32_matmul_precision(...)`, `torch.backends.cudnn.allow_tf32` | whether float32 matrix products and convolutions may use TF32, with 11 significant bits (chapter 02); can make results differ between two kinds of GPU, but not between two runs on one GPU | "highest" (no TF32), True |
| `torch._inductor.config.deterministic` (recent versions only) | `torch.compile` skips benchmarks that could change numbers | False |
"""

# %% folded="Print the defaults"
import torch._inductor.config as compiler_config

print("matrix products:", torch.get_float32_matmul_precision())
print("convolutions in TF32:", torch.backends.cudnn.allow_tf32)
print("compiler deterministic:", getattr(compiler_config, "deterministic", "not in this version"))

# %% folded="Drawing: the auto-tuner"
show_drawing(
    "10/tuner",
    number="10.7",
    caption="The auto-tuner times several algorithms once per shape. It pays off for a fixed shape, costs time for each new shape, and lets a close race decide which rounding errors a run gets.",
    alt="Three rows. First call with shape A: three algorithms, drawn as bars of different lengths, are timed, and the shortest is kept. Next calls with shape A: the kept algorithm runs at once. First call with shape B: three bars again, two of them nearly equal; in another run, the last one may win.",
)

# %% [markdown]
"""
The next cell times convolutions of fixed and new shapes on a GPU, with the auto-tuner on and off:
"""


# %% tags=["nbval-ignore-output", "recorded"] folded="Measure: the auto-tuner with fixed and with changing shapes"
def convolve(sizes, tuned):
    torch.backends.cudnn.benchmark = tuned
    for size in sizes:
        convolution(torch.zeros(4, 16, size, size, device="cuda"))
    torch.backends.cudnn.benchmark = False


if torch.cuda.is_available():
    convolution = nn.Conv2d(16, 16, 3, padding=1).cuda()
    seconds = {size: seconds_of(partial(convolve, [size], False)) for size in (16, 32)}
    side = 128 if seconds[32] < 1e-3 else 16  # a slow device gets the small size
    new = itertools.count(side + 1)  # sizes that no call has had before

    def convolve_new(tuned):
        convolve([next(new) for _ in range(10)], tuned)

    fixed = partial(convolve, [side] * 10)
    ratio = time_ratio(partial(fixed, True), partial(fixed, False))
    print(f"one shape: {ratio} as long with the auto-tuner")
    ratio = seconds_of(partial(convolve_new, True)) / seconds_of(partial(convolve_new, False))
    print(f"ten new shapes: {ratio:.1f} times as long with the auto-tuner")
else:
    print("no GPU here: nothing to measure")
recorded("tuner")

# %% [markdown]
"""
## Bug hunt: the function that raised no error

The author of this function believes that it makes training reproducible:

```python
def set_reproducible(on):
    torch.backends.cudnn.enable = not on        # the auto-tuner
    torch.backends.cudnn.determinstic = on
    torch.use_deterministic_algorithms = on
```

After `set_reproducible(True)`, `put_` should raise an error, as above:
"""


# %% folded="Call the function and try put_"
def authors_version(on):
    torch.backends.cudnn.enable = not on  # the auto-tuner
    torch.backends.cudnn.determinstic = on
    torch.use_deterministic_algorithms = on


given = {"numbers": torch.ones(1), "places": torch.tensor([0]), "size": 3, "before": False}
seen = probes.deterministic_results(authors_version, True, **given)
print("put_:", seen["put"].tolist())

# %% [markdown] exercise="bug-hunt-flags" points=4 minutes=15 difficulty=1
"""
### Repair the function

In cells of your own, find out what each line does and how it affects code that runs later. (Restart the kernel to undo the damage.) Then write the function that the author meant.

`set_reproducible(on)`

- **In** `on`: True or False, whatever was set before.
- **Out**: nothing is returned. With True, the auto-tuner is off, and deterministic algorithms are required of cuDNN and of torch's own operations. With False, the auto-tuner is on, and deterministic algorithms are required of neither.
- **Limits**: `enabled`, and everything else in `torch.backends`, stays as it was.

After `set_reproducible(True)`, `torch.are_deterministic_algorithms_enabled()` returns `True`.

<!-- hint: Which of the three settings that you need are flags, and which one is a function? -->
<!-- hint: You need two assignments and a call. The auto-tuner's flag gets the opposite of `on`. -->
<!-- hint: The flags are `benchmark` and `deterministic` of `torch.backends.cudnn`; the function takes `on` as its argument. -->
"""


# %% solution="bug-hunt-flags"
def set_reproducible(on):
    """Require deterministic algorithms, or allow the fastest ones."""
    ### BEGIN SOLUTION
    torch.backends.cudnn.benchmark = not on
    torch.backends.cudnn.deterministic = on
    torch.use_deterministic_algorithms(on)
    ### END SOLUTION


# %% test="bug-hunt-flags"
check = Check("bug-hunt-flags")
# The first call loads modules, which takes seconds: call it before the check's clock starts.
if callable(torch.use_deterministic_algorithms):
    torch.use_deterministic_algorithms(torch.are_deterministic_algorithms_enabled())
MEANING = {
    "benchmark": "the auto-tuner",
    "deterministic": "deterministic algorithms of cuDNN",
    "enabled": "whether cuDNN is used",
}


def results_after(probe, on, before, **flags):
    """Require what torch computes after a call, with nan for what was never written."""
    count, size = check.draw.integer(2, 6), check.draw.integer(7, 12)
    dtype = (torch.float32, torch.float64)[check.draw.integer(0, 2)]
    numbers, places = check.draw.normal(count, dtype=dtype), check.draw.permutation(size)[:count]
    given = {"numbers": numbers, "places": places, "size": size, "before": before, **flags}
    seen = check.call(probe, set_reproducible, on, **given)
    told = f"on={on} (torch's deterministic algorithms {'on' if before else 'off'} before): "
    if not seen["callable"]:
        told += "torch.use_deterministic_algorithms can no longer be called; "
    if on:
        behind = torch.full((size - count,), math.nan, dtype=dtype)
        whole = torch.cat([numbers, behind])
        raised = seen.get("error", "nothing")
        after = f"the nondeterministic put_ raised {raised}, expected RuntimeError"
        check.true(raised == "RuntimeError", told + after)
        after = f"{count} numbers and resize_({size}), which adds uninitialized memory"
        check.equal(seen["longer"], whole, what=told + after)
    else:
        expected = torch.zeros(size, dtype=dtype)
        expected[places] = numbers
        check.true("put" in seen, told + "the nondeterministic put_ still raises an error")
        check.equal(seen["put"], expected, what=told + "what the nondeterministic put_ returns")
        only_warn = "torch.are_deterministic_algorithms_enabled() is still True"
        check.true(not seen["required"], told + only_warn)
    return seen


def flags_after(on, before, cudnn_before, asked=True, others=False):
    """Require the flags that are ``asked`` for after a call, or all ``others``, or both;
    ``cudnn_before`` has those of cuDNN, as in ``MEANING``.
    """
    seen = results_after(probes.backend_flags, on, before, cudnn_before=cudnn_before)
    pairs = zip(MEANING, cudnn_before, strict=True)
    told = f"on={on} (cuDNN before: {', '.join(f'{name}={flag}' for name, flag in pairs)}): "
    expected = {"benchmark": not on, "deterministic": on} if asked else {}
    expected |= {"enabled": cudnn_before[2]} if others else {}
    for name, value in expected.items():
        check.equal(seen[name], value, what=f"{told}{name}, {MEANING[name]}")
    if not others:
        return
    check.true(
        seen["callable"], f"on={on}: torch.use_deterministic_algorithms can no longer be called"
    )
    also = sorted({*seen["invented"], *seen["changed"]})
    check.true(not also, f"on={on}: also set: {', '.join(also)}")
    told = f"on={on}: set_reproducible returned a value of type {seen['returned']}, not None"
    check.true(seen["returned"] == "NoneType", told)


with check.property("torch's own deterministic algorithms: required if on, not if off", weight=3):
    for on in (True, False):
        for before in (False, True):
            results_after(probes.deterministic_results, on, before)
with check.property(
    "on: cuDNN's deterministic algorithms are required, and the auto-tuner is off", weight=0.75
):
    for before in (False, True):
        for cudnn_before in ((False, False, True), (True, True, True), (True, False, False)):
            flags_after(True, before, cudnn_before)
with check.property(
    "off: cuDNN's deterministic algorithms are not required, and the auto-tuner is on", weight=0.75
):
    for before in (False, True):
        for cudnn_before in ((False, False, True), (True, True, True), (False, True, False)):
            flags_after(False, before, cudnn_before)
with check.property(
    "everything else in torch.backends stays as it was, and nothing is returned", weight=0.5
):
    for on in (True, False):
        for before in (False, True):
            for enabled in (True, False):
                flags_after(on, before, (on, not on, enabled), asked=False, others=True)
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("the same when all flags were as they should be, or none", weight=0.5):
    for on in (False, True):
        flags_after(on, on, (not on, on, True), others=True)
        flags_after(on, not on, (on, not on, False), others=True)
### END HIDDEN TESTS
check.score()

# %% [markdown]
"""
<details><summary>The bug (open this once you have found it)</summary>

No line does what was meant: Python lets any code set new attributes on a module and overwrite its functions. `enable` and `determinstic` are new attributes that nothing reads. (Even spelled correctly, `enabled` would not control the auto-tuner; `benchmark` does.) The third line replaces the *function* `torch.use_deterministic_algorithms` with a bool, and later calls raise `TypeError: 'bool' object is not callable`.
</details>
"""

# %% [markdown]
"""
## Which source is it?

When two runs differ, there may be more than one cause. This pipeline has six sources of difference; `run_pipeline(fixed)` fixes those named in `fixed`.
"""

# %% tags=["needed"] folded="The pipeline and its six sources"
SOURCES = ["random", "numpy", "torch", "order of files", "threads", "clock"]


def run_pipeline(fixed):
    """Return the result of a small pipeline: a list of floats. ``fixed``: names from SOURCES."""
    luck = random.SystemRandom()
    if "random" in fixed:
        random.seed(1)
    if "numpy" in fixed:
        np.random.seed(1)
    if "torch" in fixed:
        torch.manual_seed(1)
    files = [f"{number:03}.png" for number in range(20)]
    if "order of files" not in fixed:
        luck.shuffle(files)  # as some file systems list them
    parts = 3 if "threads" in fixed else luck.randint(1, 12)
    seed = 7 if "clock" in fixed else time.time_ns() % 2**32

    flips = sum(random.random() < 0.5 for _ in files)
    noise = np.random.normal(size=50).sum()
    start = torch.randn(10).sum().item()
    first = float(files[0][:3])
    x = torch.rand(5000, generator=torch.Generator().manual_seed(3)) - 0.5
    total = sum(part.sum() for part in x.chunk(parts)).item()
    shift = np.random.default_rng(seed).random()
    return [float(flips), noise, start, first, total, shift]


# %%
def count_results(fixed):
    return len({tuple(run_pipeline(fixed)) for _ in range(12)})


print("different results in 12 runs, all fixed:    ", count_results(SOURCES))
print("different results in 12 runs, nothing fixed:", count_results([]))
alone = {source: count_results([source]) for source in SOURCES}

# %% folded="Predict: fix one source"
predict(
    "10/fix-one",
    "The obvious test fixes one source and runs the pipeline 12 times. For how many of the six sources are all 12 results equal?",
    sum(count == 1 for count in alone.values()),
    "Whichever source you fix, five others still vary, so no single test points to a source.",
    between=(0, 6),
)

# %% folded="Figure 10.8: one source fixed, five varying"
figure, axes = new_figure(height=2.5)
axes.barh(list(alone), list(alone.values()), color=COLORS["sky"])
axes.axvline(1, color=COLORS["vermilion"], linestyle="--", label="reproducible")
axes.invert_yaxis()
axes.set(
    title="Different results in 12 runs",
    xlabel="number of different results",
    ylabel="the fixed source",
    xlim=(0, 16),
)
axes.legend(loc="center right")
show(
    figure,
    number="10.8",
    caption="Fixing one source does not help as long as others vary.",
    alt="Six horizontal bars, one for each fixed source. All reach 12 different results in 12 runs; a line at 1 marks a reproducible pipeline.",
)

# %% [markdown]
"""
A source need not show up in every pair of runs: here, "threads" picks one of twelve part counts, and some of them give the same sum.
"""

# %% [markdown] exercise="name-the-sources" points=5 minutes=20 difficulty=2
"""
### Name the sources

Find all sources of difference in any pipeline, not just the one above.

`guilty_sources(run, sources) -> list`

- **In** `run(fixed)`: a function that takes a list of names and returns a list of floats, never nan. The named sources are fixed; all others vary. With all fixed, `run` always returns equal lists. `sources`: the list of all names; some may not affect `run`.
- **Out**: the names of all guilty sources (those that change the result when they vary), in the order of `sources`. There may be several, one or none. Compare results with `==`, without a tolerance.
- Of the runs in which a guilty source varies, any ten consecutive ones include at least two different results.
- **Limits**: the number of calls of `run` is at most 40 times the number of sources.

`guilty_sources(run_pipeline, SOURCES)` returns all of `SOURCES`: `["random", "numpy", "torch", "order of files", "threads", "clock"]`.

<!-- hint: In which experiment does a difference point to one source, and to no other? -->
<!-- hint: Fix all but one source, and run the pipeline again and again. Compare the results with each other. -->
<!-- hint: For each source, let `others` hold all names but this one. Run a dozen times with these fixed; if not all results are equal, the source is guilty. -->
"""


# %% solution="name-the-sources"
def guilty_sources(run, sources):
    """Return the sources that change the result of ``run``."""
    ### BEGIN SOLUTION
    guilty = []
    for source in sources:
        others = [other for other in sources if other != source]
        first = run(others)
        if any(run(others) != first for _ in range(19)):
            guilty.append(source)
    return guilty
    ### END SOLUTION


# %% test="name-the-sources"
check = Check("name-the-sources")
PLACES = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta"]
MOST_RUNS = 40


def varying_run(sources, varying, apart):
    """Return ``run``, and a list of its calls.

    ``varying`` maps a loose source to what ``finds`` describes: two numbers change by one unit in
    the last place, one up and one down. ``apart`` is as ``finds`` has it.
    """
    loose_runs, calls = dict.fromkeys(varying, 0), []
    constant = [check.draw.number(0.0, 1.0) for _ in range(9)]

    def run(fixed):
        calls.append(fixed)
        if len(calls) > MOST_RUNS * len(sources):
            raise RuntimeError(
                f"more than {MOST_RUNS} calls per source, {MOST_RUNS * len(sources)} in all"
            )
        if isinstance(fixed, torch.Tensor):
            raise TypeError("run takes a list of names, not a tensor")
        for number, name in enumerate(fixed):
            if number > 100 or not isinstance(name, str) or name not in sources:
                raise ValueError(f"there is no source called {name!r}")
        numbers = list(constant)
        for source, how in varying.items():
            loose_runs[source] += source not in fixed
            units = 0 if source in fixed else shown(how, loose_runs[source]) + apart
            shift = units * 2.0**-52
            numbers += [1.0 + shift, 3.0 - 2 * shift]
        return numbers

    return run, calls


def shown(how, number):
    """Return by how many units a source has changed the result in its run with that number."""
    if isinstance(how, int):
        return (number - 1) // how
    every, place = how
    return int(number % every == place)


def describe(source, how):
    if how == 1:
        return source
    if isinstance(how, int):
        return f"{source} (the result changes after every {how} runs)"
    every, place = how
    return f"{source} (run {place} of every {every} gives another result)"


def finds(*hows, count=6, apart=False):
    """Require that the guilty ones among ``count`` sources are named.

    Each of ``hows`` stands for a guilty source. A number n: after every n of its runs the result
    changes again. A pair (n, k): the kth of every n runs gives another result. ``apart``: whether
    no run with a loose guilty source gives the result with all fixed; else the first one does.
    """
    drawn = sorted(PLACES[place] for place in check.draw.permutation(8)[:count])
    # Neither up nor down the alphabet, nor are three guilty ones; two go down.
    sources = [drawn[0], *reversed(drawn[1:])]
    places = check.draw.permutation(count).tolist()
    if len(hows) > 1:
        places.remove(0)
        places.insert(0 if len(hows) > 2 else len(places), 0)
    guilty = {sources[place]: how for place, how in zip(places, hows, strict=False)}
    run, calls = varying_run(sources, guilty, apart)
    got = check.call(guilty_sources, check.lend(run), sources)
    expected = [source for source in sources if source in guilty]
    named = ", ".join(describe(source, guilty[source]) for source in expected) or "none of them"
    how = " (the results differ only in their last bits)" if hows else ""
    told = f"sources {sources}; guilty{how}: {named}"
    check.equal(got, expected, what=told)
    told = f"run was called {len(calls)} times for {count} sources"
    check.true(len(calls) <= MOST_RUNS * count, told)


with check.property("one guilty source, or none"):
    number = check.draw.integer(1, 4)
    for place in range(5):
        finds(*([] if place == number else [1]), apart=place % 2 == 1)
with check.property("several at once", weight=2):
    finds(1, 1)
    finds(1, 1, 1)
with check.property("all of them"):
    finds(1, 1, 1, 1, 1, 1)
with check.property("a source that shows up in only a few runs", weight=2):
    finds(5)
    finds(9, 1)
    finds(8)
    finds((10, 5), (10, 8))
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("rare ones beside frequent ones, and a list of one source"):
    finds(9, 2, 9)
    finds(9, (9, 2))
    finds((10, 1), 6, (10, 9))
    finds(9, count=1)
    finds(count=1)
### END HIDDEN TESTS
check.score()

# %% [markdown]
"""
## Record what a run used

Even with the same seeds, PyTorch [does not guarantee](https://docs.pytorch.org/docs/stable/notes/randomness.html) the same numbers on *another* machine or in another version. So keep a record with each result:
"""

# %% tags=["nbval-ignore-output", "recorded"]
record = {
    "python": platform.python_version(),
    "torch": torch.__version__,
    "numpy": np.__version__,
    "machine": platform.machine(),
    "cpu features": torch.backends.cpu.get_cpu_capability(),
    "threads": torch.get_num_threads(),
    "gpu": torch.cuda.get_device_name(0) if torch.cuda.is_available() else None,
    "cuda": torch.version.cuda,
    "cudnn": torch.backends.cudnn.version(),
    "deterministic": torch.are_deterministic_algorithms_enabled(),
}
print(json.dumps(record, indent=1))
recorded("note-of-a-run")

# %% [markdown]
"""
Add the code's version (`git rev-parse HEAD`), the seeds, the command line and the data's version. `python -m torch.utils.collect_env` prints a longer record.

## Kill and resume

A checkpoint must pass a strict test:
"""

# %% folded="Drawing: two runs on a timeline"
show_drawing(
    "10/timeline",
    number="10.9",
    caption="The lower run writes a checkpoint after step 3 and is killed in step 5. A new process loads the checkpoint and runs steps 4 to 6. Each of these must be bitwise equal to the step above it.",
    alt="Two rows of boxes for training steps. Above, an undisturbed run of six steps. Below, a run that is killed in step 5; an arrow leads from a checkpoint after step 3 to a new process with steps 4 to 6, below those of the first run.",
)

# %% [markdown]
"""
This training run has

- dropout, BatchNorm, AdamW, a schedule, and a scaler that skips steps with broken samples;
- augmentation with Python's and NumPy's random numbers, and a sample order from a separate generator;
- an **exponential moving average** of the weights: in each step, the average moves a tenth of the way to the weights.
"""


# %% tags=["needed"]
class Parts:
    def __init__(self):
        images, labels = digits()
        self.inputs, self.labels = images[:100].flatten(1) / 16, labels[:100]
        self.model = nn.Sequential(
            nn.Linear(64, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Dropout(0.2), nn.Linear(12, 10)
        )
        self.average = copy.deepcopy(self.model)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.01)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, step_size=3, gamma=0.7)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16, growth_interval=2)
        self.generator = torch.Generator().manual_seed(5)
        self.order = torch.randperm(100, generator=self.generator)
        self.place = 0


# %% tags=["needed"] folded="Training: next_batch() and step()"
BATCH = 16


class Training(Parts):
    """A small training run. ``step()`` takes one step and returns what can be observed."""

    def next_batch(self):
        if self.place + BATCH > len(self.order):
            self.order = torch.randperm(100, generator=self.generator)
            self.place = 0
        index = self.order[self.place : self.place + BATCH]
        self.place += BATCH
        batch = self.inputs[index]
        if random.random() < 0.5:
            batch = batch.flip(1)
        return batch + torch.from_numpy(np.random.normal(0, 0.1, batch.shape)).float(), index

    def step(self):
        batch, index = self.next_batch()
        loss = functional.cross_entropy(self.model(batch), self.labels[index])
        if (index < 2).any():  # two of the samples are broken: the scaler skips their steps
            loss = loss * math.inf
        self.optimizer.zero_grad()
        self.scaler.scale(loss).backward()
        before = self.scaler.get_scale()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        if self.scaler.get_scale() >= before:  # not skipped
            self.scheduler.step()
        with torch.no_grad():
            pairs = zip(self.average.parameters(), self.model.parameters(), strict=True)
            for mean, weight in pairs:
                mean.lerp_(weight, 0.1)
        return {
            "samples": index.tolist(),
            "loss": loss.item(),
            "learning rate": self.scheduler.get_last_lr()[0],
            "scale": self.scaler.get_scale(),
            "weights": [value.detach().clone() for value in self.model.state_dict().values()],
            "average": [weight.detach().clone() for weight in self.average.parameters()],
        }


# %% [markdown]
"""
The next cells save the model's and the optimizer's `state_dict()` after 3 steps, resume in a new object, and compare what each step returns:
"""


# %% folded="Run ten steps undisturbed, and stop another run after three"
def seed_all_by_hand(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def is_same(there, here):
    if isinstance(there, list) and isinstance(there[0], torch.Tensor):
        return all(torch.equal(a, b) for a, b in zip(there, here, strict=True))
    return there == here


seed_all_by_hand(0)
whole = Training()
whole_trace = [whole.step() for _ in range(10)]
seed_all_by_hand(0)
stopped = Training()
for _ in range(3):
    stopped.step()

# %%
saved = copy.deepcopy([stopped.model.state_dict(), stopped.optimizer.state_dict()])
seed_all_by_hand(1)  # a new process has other random numbers
resumed = Training()
resumed.model.load_state_dict(saved[0])
resumed.optimizer.load_state_dict(saved[1])
pairs = [(there, resumed.step()) for there in whole_trace[3:]]
same = [{name: is_same(there[name], here[name]) for name in there} for there, here in pairs]

# %% folded="Predict: the first step after resuming"
predict(
    "10/resumed",
    "A step returns six things: samples, loss, learning rate, scale, weights and average. How many of them agree with the undisturbed run in the first step after resuming?",
    sum(same[0].values()),
    "Only the learning rate agrees, because the optimizer's state includes it. But two steps later the rate differs, too: a broken sample makes the undisturbed run skip a step, and the resumed run, on other samples, takes it.",
    between=(0, 6),
)

# %% folded="Figure 10.10: what agrees after resuming"
figure, axes = new_figure(height=2.7)
names = list(same[0])
for agrees, marker, color in ((True, "o", "blue"), (False, "x", "vermilion")):
    spots = [(k + 4, n) for k, row in enumerate(same) for n in names if row[n] is agrees]
    axes.plot(
        [k for k, _ in spots],
        [names.index(n) for _, n in spots],
        marker,
        color=COLORS[color],
        ms=9,
        label="same" if agrees else "differs",
    )
axes.set_yticks(range(6), names)
axes.set(
    title="Resumed from weights and optimizer",
    xlabel="training step",
    ylabel="returned",
    ylim=(5.6, -0.6),
    xlim=(3.5, 12.5),
)
axes.legend(loc="center right")
show(
    figure,
    number="10.10",
    caption="The resumed run agrees with the undisturbed run in few values, yet nothing raised an error.",
    alt="A grid of marks: six returned values against steps 4 to 10. Samples, weights and average differ in every step. The learning rate and the scale agree in some steps, and the loss agrees once, when both are inf.",
)

# %% [markdown] exercise="resume-training" points=6 minutes=35 difficulty=3
"""
### Kill and resume, to the last bit

A run on a shared machine can be killed at any time. Write a training class that can be resumed.

`ResumableTraining`, a subclass of `Training` with two more methods: `state_dict() -> state` and `load_state_dict(state)`

- **In** `state`: what `state_dict` returned, possibly in another process, after `torch.save` and `torch.load(..., weights_only=True)`.
- **Out**: `state_dict()` returns everything that a new object in a new process needs to continue. After `load_state_dict(state)`, a new `ResumableTraining()` takes **bit for bit** the steps that the saved object would have taken: samples, loss, learning rate, scale, weights, average.
- A run may be killed before the first step or after any step, and again once resumed.
- The images themselves need not be in the state. You may use your `capture_random_states` once its check passes.

Save `old.state_dict()` to a file, and let `a = old.step()["loss"]`. After `new.load_state_dict(state)` with the `state` from the file, `new.step()["loss"] == a` is `True`.

<!-- hint: Go through `__init__` line by line: which attributes change during training? What changes that is not an attribute at all? -->
<!-- hint: Model, average, optimizer, scheduler and scaler have a `state_dict` each. A generator has `get_state()` and `set_state(...)`. Two more attributes are plain data. The global generators change, too. -->
<!-- hint: Return a dict with nine entries: five state dicts, the generator's state, order, place, and what `capture_random_states()` returns. Load the same nine, and draw nothing after restoring the global generators. -->
"""


# %% solution="resume-training"
class ResumableTraining(Training):
    """A training run that can be killed after any step and resumed."""

    def state_dict(self):
        ### BEGIN SOLUTION
        return {
            "model": self.model.state_dict(),
            "average": self.average.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(),
            "scaler": self.scaler.state_dict(),
            "generator": self.generator.get_state(),
            "order": self.order,
            "place": self.place,
            "random": capture_random_states(),
        }
        ### END SOLUTION

    def load_state_dict(self, state):
        ### BEGIN SOLUTION
        self.model.load_state_dict(state["model"])
        self.average.load_state_dict(state["average"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scheduler.load_state_dict(state["scheduler"])
        self.scaler.load_state_dict(state["scaler"])
        self.generator.set_state(state["generator"])
        self.order, self.place = state["order"], state["place"]
        restore_random_states(state["random"])
        ### END SOLUTION


# %% test="resume-training"
check = Check("resume-training")
Training()  # the first optimizer loads modules: make it before the check's clock starts


SEED = check.draw.integer(0, 2**30)


def trained(seed, steps, state=None, **how):
    """Train; return what the steps returned, and the state."""
    seen = check.call(probes.trained_part, ResumableTraining, seed, steps, state, **how)
    return seen["trace"], seen["state"]


def by_the_course(steps):
    random.gauss(0, 1), np.random.normal(), torch.randn(1)
    training = Training()
    return [training.step() for _ in range(steps)]


def undisturbed(steps):
    """Return the trace of a run that is not killed; require that it matches Training's."""
    trace, _ = trained(SEED, steps, ends=True)
    pairs = zip(trace, check.with_seed(SEED, by_the_course, steps), strict=True)
    for number, (here, there) in enumerate(pairs, start=1):
        for name, value in there.items():
            is_rounded = name in ("loss", "weights", "average")
            rtol, atol = (1e-3, 1e-3) if is_rounded else (0.0, 0.0)
            what = f"not killed: {name} in step {number}"
            check.close(here[name], value, rtol=rtol, atol=atol, what=what)
    return trace


def killed(total, all_stops):
    """Return the traces of runs of ``total`` steps that are killed after each of their stops.

    Each part runs in a new process, from nothing but the state of the part before it.
    """
    traces, states = [[] for _ in all_stops], [None for _ in all_stops]
    for number in range(max(map(len, all_stops)) + 1):
        if number:
            check.restart()
        for place, stops in enumerate(all_stops):
            if len(stops) >= number:
                steps = [*stops, total][number] - len(traces[place])
                how = {"ends": len(stops) == number}
                trace, states[place] = trained(SEED + number, steps, states[place], **how)
                traces[place] += trace
    return traces


def equal(told, trace, whole, only=None, first=1):
    """Require that a run takes the same steps as ``whole``, from step ``first``, bit for bit."""
    for number, (here, there) in enumerate(zip(trace, whole, strict=True), start=first):
        for name in only or there:
            check.equal(here[name], there[name], what=f"{told}: {name} in step {number}")


def go_on(whole, total, all_stops, only=None):
    """Require that killed runs of ``total`` steps take the same steps as ``whole``."""
    for stops, trace in zip(all_stops, killed(total, all_stops), strict=True):
        told = "killed after step " + ", then ".join(map(str, stops))
        before = stops[0]
        equal(told, trace[before:], whole[before:total], only, first=before + 1)


with check.property(
    "an undisturbed run matches Training; after a kill, the sample order continues"
):
    whole = undisturbed(14)
    go_on(whole, 14, [[4], [8]], only=["samples"])
with check.property("learning rate and scale continue"):
    go_on(whole, 9, [[3], [4]], only=["samples", "learning rate", "scale"])
with check.property("loss and weights are equal to the last bit", weight=2):
    saving, _ = trained(SEED, 7, saves=True, ends=True)
    equal("state_dict called before each step, not killed", saving, whole[:7])
    go_on(whole, 7, [[0], [4]], only=["loss", "weights"])
with check.property("the average is equal to the last bit"):
    go_on(whole, 7, [[5], [6]], only=["average"])
with check.property("killed again once resumed"):
    go_on(whole, 11, [[8, 10]])
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("killed after other steps"):
    go_on(whole, 9, [[2], [7]])
with check.property("killed four times in one run"):
    go_on(whole, 14, [[1, 3, 7, 10]])
### END HIDDEN TESTS
check.score()

# %% [markdown]
"""
## The moving average

`torch.optim.swa_utils.AveragedModel` can keep an exponential moving average of the weights. Its state has one entry that the model's lacks, a counter:
"""


# %%
def average_of(model):
    return AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))


def drift(model, generator):
    with torch.no_grad():
        model.weight += 0.1 * torch.randn(2, 4, generator=generator)


generator, model = torch.Generator().manual_seed(0), nn.Linear(4, 2)
average = average_of(model)
print("state:", ", ".join(average.state_dict()))

# %% folded="Run 40 steps; resume two averages after step 20"
by_hand, averages, restored = None, {"undisturbed": average}, []
distances = {"all of state_dict()": [], "the weights only": []}
for step in range(1, 41):
    drift(model, generator)
    for one in averages.values():
        one.update_parameters(model)
    weight = model.weight.detach().clone()
    by_hand = weight if by_hand is None else by_hand.lerp(weight, 0.1)
    if step == 20:
        averages |= {name: average_of(nn.Linear(4, 2)) for name in distances}
        averages["all of state_dict()"].load_state_dict(average.state_dict())
        averages["the weights only"].module.load_state_dict(average.module.state_dict())
    for name, found in distances.items():
        other = averages.get(name, average).module.weight
        found.append((other - average.module.weight).norm().item())
    if step == 21:
        is_copy = torch.equal(averages["the weights only"].module.weight, model.weight)
error_by_hand = (by_hand - average.module.weight).abs().max().item()

# %% folded="Predict: an average without its counter"
predict(
    "10/averaged",
    "A checkpoint holds the averaged weights but not the counter. What is the average after the first update of the resumed run?",
    "the model's weights" if is_copy else "the old average, moved a tenth of the way",
    "A new AveragedModel counts from 0, and its first update copies the model's weights over the loaded average.",
    choices=(
        "the old average, moved a tenth of the way",
        "the model's weights",
        "the initial weights",
    ),
)

# %% folded="Figure 10.11: an average, resumed with and without its counter"
figure, axes = new_figure(height=2.6)
for (name, found), color in zip(distances.items(), ("blue", "vermilion"), strict=True):
    axes.plot(range(1, 41), found, color=COLORS[color], label=name)
axes.set(
    title="Distance from the undisturbed average",
    xlabel="training step",
    ylabel="distance between weights",
)
axes.legend(title="the checkpoint holds")
show(
    figure,
    number="10.11",
    caption="Both averages resume after step 20. Without the counter, the history is lost at once, and the difference fades only as fast as the average forgets.",
    alt="Distance from the undisturbed average against the training step. It is 0 throughout if all of state_dict was saved. With only the weights, it jumps up at step 21 and then decays slowly.",
)

# %%
print(f"AveragedModel and lerp_ by hand differ by less than 1e-6: {error_by_hand < 1e-6}")

# %% [markdown]
"""
By default, the average covers only parameters; buffers such as BatchNorm's running statistics are copied. `use_buffers=True` averages them, too.

## Killed while saving

The kill may come while the checkpoint is being written:
"""

# %% folded="Drawing: a torn checkpoint"
show_drawing(
    "10/torn",
    number="10.12",
    caption="This save overwrites the old file. The kill leaves half a checkpoint, and the intact old one is gone.",
    alt="The content of one file over time: first, a whole checkpoint of step 3, then a growing part of the new one, of step 6. The kill comes in the middle, and half a file remains.",
)

# %% [markdown] exercise="save-safely" points=4 minutes=15 difficulty=1
"""
### A file that is never torn

A checkpoint torn by a crash is worthless, so saving must be **atomic**: done completely or not at all.

`save_safely(write, path)`

- **In** `write(target)`: a function that writes the checkpoint to the path `target`, such as `lambda target: torch.save(state, target)`. It may be killed halfway or raise an exception. `path`: a string that says where the checkpoint belongs; the file may have any name, with any extension or none.
- **Out**: nothing is returned. `path` **always** holds a whole checkpoint: the old one (or nothing, if there was none) until the new one is complete, then the new one. Exceptions from `write` reach the caller.
- **Limits**: call `write` once, with a target in the same folder as `path`. Another folder may be on another disk; moving between disks means copying, which is not atomic. After a failure, the unfinished file may stay. The target may overwrite a file that happens to have its name, but never `path`.

[`os.replace(src, dst)`](https://docs.python.org/3/library/os.html#os.replace) renames `src` to `dst` in a single step, replacing any file called `dst`.

After `save_safely(lambda target: Path(target).write_text("new"), "a.txt")`, `Path("a.txt").read_text()` returns `"new"`.

<!-- hint: If nobody may see a half-written file under `path`, what name can the file have until it is complete? -->
<!-- hint: Let `write` write to a second name in the same folder, for example `path` plus a suffix. Change the name only after `write` has returned. -->
<!-- hint: Two lines suffice: call `write` with the other name, then `os.replace` from that name to `path`. An exception in the first line skips the second. -->
"""


# %% solution="save-safely"
def save_safely(write, path):
    """Let ``write`` write a file, and put it at ``path`` when it is complete."""
    ### BEGIN SOLUTION
    unfinished = path + ".unfinished"
    write(unfinished)
    os.replace(unfinished, path)
    ### END SOLUTION


# %% test="save-safely"
check = Check("save-safely")


class Disk:
    """What is to be written, given out in two halves, and where."""

    def __init__(self, fates):
        self.fates = fates
        self.contents = [
            f"checkpoint {number}: {check.draw.integer(0, 10**9)}, {check.draw.integer(0, 10**9)}"
            for number, _ in enumerate(fates, start=1)
        ]
        self.targets = []

    def begin(self, target):
        self.targets.append(target)
        if self.fates[self.place()] == "refused":
            self.refuse()
        return self.contents[self.place()][:15]

    def refuse(self):
        raise OSError(f"no space left for {self.contents[self.place()][15:]}")

    def place(self):
        return min(len(self.targets), len(self.contents)) - 1

    def go_on(self):
        place = self.place()
        if self.fates[place] == "failed":
            self.refuse()
        ends = {"killed": None, "interrupted": False}
        return ends.get(self.fates[place], self.contents[place][15:])


RAISED = {
    "written": "",
    "failed": "OSError",
    "refused": "OSError",  # before there is a file
    "killed": "KilledError",
    "interrupted": "KeyboardInterrupt",
}


def saves(*fates, probe=probes.writes, path=".../run.pt"):
    """Save contents one after another, and require that ``path`` only holds whole ones.

    Return what the probe saw of each save, and the targets.
    """
    disk, held = Disk(fates), None
    lent = check.lend(disk.begin), check.lend(disk.go_on)
    results = check.call(probe, save_safely, *lent, len(fates), path=path)
    told = f"write was called {len(disk.targets)} times in {len(fates)} calls of save_safely"
    check.true(len(disk.targets) <= len(fates), told)
    for number, (fate, seen) in enumerate(zip(fates, results, strict=True), start=1):
        what = f'save {number} of {" → ".join(fates)} (path="{path}")'
        told = f"{what}: write was never called; {seen['raised'] or 'nothing'} was raised"
        check.true(len(disk.targets) >= number, told)
        content, target = disk.contents[number - 1], disk.targets[number - 1]
        told = f"{what}: the target {target} is not directly in the folder of path"
        check.true(os.path.dirname(target) == os.path.dirname(seen["path"]), told)
        both = (held, content) if fate == "written" else (held,)
        for moment in seen.get("moments", []):
            torn = f"path held {moment!r}, not a whole checkpoint"
            told = "there was no file at path" if moment is None else torn
            check.true(moment in both, f"{what}: meanwhile {told}")
        held = content if fate == "written" else held
        check.equal(seen["after"], held, what=f"{what}: what path holds afterwards")
        told = f"{what}: {seen['raised'] or 'no exception'} reached the caller, "
        check.true(seen["raised"] == RAISED[fate], told + f"expected {RAISED[fate] or 'none'}")
        said = f"no space left for {content[15:]}" if RAISED[fate] == "OSError" else ""
        told = f"{what}: the exception that reached the caller says {seen['said']!r}, "
        check.true(seen["said"] == said, told + f"expected {said!r}")
        told = f"{what}: path holds a copy of what was written, not the file itself"
        check.true(seen.get("moved", True), told)
    return results, disk.targets


with check.property("checkpoints are written and replaced"):
    saves("written", "written", "written")
    saves("written", "written", path="a.txt")
with check.property("interrupted halfway: the old one stays", weight=2):
    _, targets = saves("written", "killed", "written", "interrupted")
    saves("written", "killed", path=".../runs.v2/best")
    saves("written", "killed", path="b.txt")
    saves("written", "killed", path=".../latest.tmp")
    # path may have any name, even that of another path's target
    saves("written", "killed", path=f".../{os.path.basename(targets[-1])}")
with check.property("an error reaches the caller, and the old one stays; nothing is returned"):
    results, _ = saves("written", "failed", "refused", "failed", "written")
    for seen in results:
        told = f"save_safely returned a value of type {seen['returned']}, not None"
        check.true(seen["returned"] == "NoneType", told)
with check.property("at every moment path holds a whole checkpoint"):
    saves("written", "written", "killed", "failed", "written", probe=probes.writes_watched)
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("nothing was there yet"):
    saves("killed", "failed", "written")
    saves("killed", "written", path="c.state")
### END HIDDEN TESTS
check.score()

# %% [markdown]
"""
Renaming does not protect against a *power* loss: the content may still be in memory after the rename. `os.fsync`, on the file before the rename and on the folder after it, writes both to disk.

## In the wild

| what | where to find it |
| --- | --- |
| deterministic algorithms, with the list of operations | [`torch.use_deterministic_algorithms`](https://docs.pytorch.org/docs/stable/generated/torch.use_deterministic_algorithms.html): `warn_only=` |
| seeding | Lightning: [`seed_everything(seed, workers=True)`](https://lightning.ai/docs/pytorch/stable/api/lightning.fabric.utilities.seed.html); Transformers: `TrainingArguments(seed=, data_seed=, full_determinism=)` |
| resuming | Transformers: [`Trainer.train(resume_from_checkpoint=)`](https://huggingface.co/docs/transformers/main_classes/trainer), which also restores the generators' states; Accelerate: [`save_state`, `load_state`](https://huggingface.co/docs/accelerate/usage_guides/checkpoint) |
| moving averages | [`torch.optim.swa_utils`](https://docs.pytorch.org/docs/stable/optim.html#weight-averaging-swa-and-ema) |
| checkpoints of many processes | [`torch.distributed.checkpoint`](https://docs.pytorch.org/docs/stable/distributed.checkpoint.html) |
| generator states as values | [JAX: keys](https://docs.jax.dev/en/latest/random-numbers.html), with no global state to capture |
| comparing in tests | [`torch.testing.assert_close`](https://docs.pytorch.org/docs/stable/testing.html): tolerances by dtype |

## Recap

1. Python, NumPy and torch have generators of their own. Seed, save and restore each, including any normal number it keeps.
2. One more draw changes all later ones; separate generators keep purposes apart.
3. Threads change the order of a sum, the order changes its last bits, and training can turn those bits into a different model.
4. A tolerance comes from the operation: it grows with the number of roundings and the size of the numbers, not of their sum.
5. A run can be resumed bit for bit if the checkpoint holds everything that a step changes. Write the checkpoint atomically.

### Test yourself

<details><summary>1. On one machine, two runs with <code>torch.manual_seed(0)</code> are equal if both validate every 100 steps. If one validates every 200 instead, they differ, although validation runs under <code>torch.no_grad()</code> in eval mode. Why?</summary>

Each loop over the validation loader draws a seed from torch's global generator. Give the loader a generator of its own.
</details>

<details><summary>2. Why does <code>torch.use_deterministic_algorithms(True)</code> not make two machines agree?</summary>

It fixes the algorithm on one machine and version. Another processor, with other registers, threads and libraries, may add in another order.
</details>

<details><summary>3. You fix each source alone, one after another, and nothing helps. What follows?</summary>

At least two sources vary, or one is not on your list. Fix all; if the runs are then equal, let one vary at a time.
</details>

<details><summary>4. x holds 1,000 float32 numbers of size about 1, half of them negative, and the exact sum is 0. How far apart may two correct sums be?</summary>

At most 2 · 999 · 2⁻²⁴ · 1000, about 0.12. A tolerance relative to the exact sum would be 0.
</details>

<details><summary>5. A run is stopped in the middle of an epoch and resumed from weights, optimizer, scheduler, scaler and all generators' states. The loader shuffles with its own generator. What still differs?</summary>

The sample order: it was drawn when the epoch began, and the generator's state yields only the *next* epoch's order. Save the order and the place.
</details>

### References

- N. J. Higham, *Accuracy and Stability of Numerical Algorithms*, 2nd edition, SIAM, 2002, [doi:10.1137/1.9780898718027](https://doi.org/10.1137/1.9780898718027), section 4.2 (errors of summation).
- N. J. Higham, T. Mary, "A New Approach to Probabilistic Rounding Error Analysis", *SIAM Journal on Scientific Computing* 41, 2019, [doi:10.1137/18M1226312](https://doi.org/10.1137/18M1226312).
- PyTorch documentation, ["Reproducibility"](https://docs.pytorch.org/docs/stable/notes/randomness.html) and ["Numerical accuracy"](https://docs.pytorch.org/docs/stable/notes/numerical_accuracy.html).
- G. Marsaglia, T. A. Bray, "A Convenient Method for Generating Normal Variables", *SIAM Review* 6, 1964, [doi:10.1137/1006063](https://doi.org/10.1137/1006063) (two at a time).

### Glossary

| English | 中文 | meaning |
| --- | --- | --- |
| reproducible | 可复现 | giving the same result again |
| deterministic | 确定性 | always giving the same result for the same input |
| seed | 随机种子 | the number that a generator starts from |
| random number generator | 随机数生成器 | computes numbers that look random, from a state |
| state | 状态 | all that a generator needs to continue |
| base seed | 基础种子 | the number from which a loader derives its workers' seeds |
| associative | 结合律 | (a + b) + c equals a + (b + c) |
| tolerance | 容差 | how far apart two results may be |
| auto-tuner | 自动调优器 | tries algorithms and keeps the fastest |
| checkpoint (of a run) | 检查点 | a file from which a run can be resumed |
| to resume | 恢复（续训） | to continue a run from where it was stopped |
| exponential moving average | 指数移动平均 | an average that weights recent values more |
| atomic | 原子的 | done completely or not at all, as any observer sees it |
| bitwise equal | 逐位相等 | equal to the last bit |
"""

# %% folded="What you predicted"
predictions("10")

# %%
progress("10")
