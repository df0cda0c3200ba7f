# %% [markdown]
"""
# 10 · Reproducibility

A seed at the beginning of a script is meant to make two runs equal. The training below sets one, runs twice on the same machine, and gives two different models.

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
    "Both runs call `torch.manual_seed(2021)` before they make the model. In how many of the 30 steps is their loss the same, to the last bit?",
    "none" if equal_losses == 0 else "some",
    "The first weights are equal, but already the first batch is not: NumPy draws it, and nobody seeded NumPy.",
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
    caption="Both runs begin with the same weights. No loss is the same, not even the first.",
    alt="Loss against training step for two runs. Both curves fall from about 2.3 to about 1.7, and they differ in every step.",
)

# %%
print("steps with the same loss:", equal_losses, "of", len(first))

# %% [markdown]
"""
`torch.manual_seed` seeds torch's generators. NumPy draws the batches and Python flips the coin, and nobody seeded those. Two runs are equal only if **everything** that varies between runs is fixed, and random numbers are only the first item on the list.

> **After this chapter, you will be able to**
>
> - say who owns which random numbers, and seed, save and restore all of them;
> - explain why the same sum gives different results, and tell rounding from a mistake;
> - set the flags that make algorithms deterministic;
> - find the source that makes two runs differ;
> - kill a training run at any step and resume it, equal to the last bit.
>
> **Time**: 50 minutes to read and run, 135 for the seven exercises.
>
> **Prerequisites**: rounding (chapter 02), scalers and schedules (chapters 04 and 05), data loading (chapter 09).
"""

# %% [markdown]
"""
## Who owns the random numbers

A **random number generator** computes numbers from a **state**; a **seed** sets the state. A process has several generators, and drawing from one does not move the others:

| generator | seeded by | state |
| --- | --- | --- |
| Python's `random` | `random.seed(s)` | `random.getstate()`, `setstate` |
| NumPy's global one | `np.random.seed(s)`, s below 2³² | `np.random.get_state()`, `set_state` |
| torch's, on the CPU | `torch.manual_seed(s)` | `torch.get_rng_state()`, `set_rng_state` |
| torch's, one on each GPU | `torch.manual_seed(s)` as well | `torch.cuda.get_rng_state_all()`, `set_rng_state_all` |
| objects: `torch.Generator`, `np.random.default_rng(s)`, `random.Random(s)` | when they are made | their own methods |
| in a DataLoader's workers | by the loader (chapter 09) | none: they live for an epoch |

One more draw from a generator changes everything drawn from it later. Not every draw is visible:
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
    "Whenever a loop over a DataLoader begins, it draws a seed for its workers from torch's global generator, even if there are none.",
    choices=("yes", "no"),
)

# %%
print("the same number after a loop was begun:", torch.equal(expected, after_a_loop))

# %% [markdown]
"""
So one more evaluation changes the rest of the training. The remedy is **one generator per purpose**: `DataLoader(..., generator=g)`, `torch.randperm(n, generator=g)`, `torch.utils.data.random_split(..., generator=g)`. Whatever draws from `g` moves nobody else.

Below, a run draws one number from each generator in each of six steps. The upper numbers are those of a run that nothing disturbs. A killed run starts the same script again, so it sets the same seed. Which generators does a fork copy, and which states must a checkpoint hold?
"""

# %%
explore_streams(0, "loop", killed=True, kept=("random", "NumPy"), children="fork")

# %% [markdown]
"""
<details><summary>What there is to find</summary>

A generator whose state is not restored starts again: steps 4 to 6 repeat the undisturbed steps 1 to 3. Forked children draw the *same* NumPy and torch numbers as their parent; Python's `random` [seeds itself anew in every forked child](https://github.com/python/cpython/blob/v3.12.0/Lib/random.py). A loader's workers get their own seeds, derived from one **base seed**. If that comes from torch's global generator, step 6 of the main process changes; if it comes from `g`, nothing does.
</details>
"""

# %% [markdown] exercise="seed-everything" points=3 minutes=10 difficulty=1
"""
### Seed everything

A recipe in circulation seeds Python, NumPy and torch with 2021 and the GPUs with 0. Runs repeat, but another seed changes only three of the four. Treat all four alike.

`seed_everything(seed)`

- **In** `seed`: an int from 0 to 2⁶³ − 1.
- **Out**: nothing is returned. The global generators of `random`, NumPy and torch (with those of the GPUs) are seeded, whatever was drawn before. Each gets a seed below 2³² as it is.
- **Large seeds**: NumPy refuses seeds of 2³² and above, but your function must not. The same seed gives the same numbers in every process. Two seeds give different numbers from each generator if both are below 2³², or if they differ by less than 10.

After `seed_everything(5)`, `random.random()` returns what `random.Random(5).random()` returns: `0.6229016948897019`.

<!-- hint: Which three calls does the table name? Which of them cannot take every allowed seed? -->
<!-- hint: Bring the seed into NumPy's range without losing what tells neighbors apart. What does the remainder of a division do? -->
<!-- hint: The remainder by `2**32` is in the range, and differs for neighbors. Python and torch take the seed as it is. -->
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


def same_in_another_process(*seeds):
    first = seeded(*seeds)
    check.restart()
    again = seeded(*reversed(seeds))
    for seed, here, there in zip(seeds, first, reversed(again), strict=True):
        for name, called in GENERATORS.items():
            what = f"the next number of {called}, seeded by {seed} in another process"
            check.equal(there[name], here[name], what=what)


def differ(*seeds):
    seen = seeded(*seeds)
    for name, called in GENERATORS.items():
        numbers = [draws[name] for draws in seen]
        told = f"seeds {seeds} give {called} the numbers {numbers}, and these are not all different"
        check.true(len(set(numbers)) == len(numbers), told)


with check.property("seeds below 2**32: each of the three begins where that seed begins"):
    small = [check.draw.integer(0, 2**32), 0, check.draw.integer(0, 1000), 2**32 - 1]
    for seed, seen in zip(small, seeded(*small), strict=True):
        expected = first_draws(seed)
        for name, called in GENERATORS.items():
            what = f"the next number of {called}, seeded by {seed}"
            check.equal(seen[name], expected[name], what=what)
with check.property("large seeds: the same numbers for the same seed, in every process"):
    same_in_another_process(2**32 + check.draw.integer(0, 2**20), 2**63 - 1, 2**32)
    same_in_another_process(check.draw.integer(2**33, 2**63 - 1))
with check.property("large seeds: other seeds give other numbers"):
    seed = check.draw.integer(2**33, 2**62)
    differ(seed - 1, seed, seed + 1)
    differ(2**32 - 1, 2**32, 2**32 + 1)
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("neighbors differ, also among the largest"):
    differ(2**63 - 2, 2**63 - 1)
    differ(2**40, 2**40 + 1)
    differ(0, 1)
    differ(5, 1005, 100_005, 1_000_005)
### END HIDDEN TESTS
check.score()

# %% [markdown]
r"""
## Saving where a generator stands

A seed leads back to the beginning. To resume a run you need the generators' states, and saving them has a catch:
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
Loading a pickle can run code. With `weights_only=True`, the default since PyTorch 2.6, `torch.load` accepts tensors, numbers, strings, and lists, tuples and dicts of them, but not NumPy's array.

The last two entries of NumPy's state concern normally distributed numbers:
"""

# %% folded="Drawing: the number that is kept"
show_drawing(
    "10/kept-normal",
    number="10.2",
    caption="NumPy's `randn` and Python's `random.gauss` compute normally distributed numbers in pairs. They return one and keep the other for the next call. A state that is saved in between must hold it.",
    alt="A generator makes a pair of normally distributed numbers, a and b. The first call returns a, and b goes into a box called kept. The second call returns b from the box and draws nothing. The checkpoint lies between the two calls.",
)

# %% [markdown] exercise="random-states" points=5 minutes=20 difficulty=2
"""
### Capture and restore

A checkpoint needs the states of all global generators in a form that can be loaded safely.

`capture_random_states() -> states` and `restore_random_states(states)`

- **In** `states`: what `capture_random_states` returned, after it went through a file, perhaps in another process. It can be restored more than once.
- **Out**: `capture_random_states` returns the states of `random`, NumPy, torch and, where there are any, the GPUs, arranged as you like. The result can be saved with `torch.save` and loaded with `weights_only=True`. Capturing draws nothing and changes nothing.
- After `restore_random_states(states)`, every generator continues, for uniform and normal numbers alike, as if nothing had happened in between.

After `states = capture_random_states(); a = random.gauss(0, 1); restore_random_states(states)`, the call `random.gauss(0, 1) == a` returns `True`.

<!-- hint: Which of the three states cannot be loaded as it is, and which part of it is to blame? -->
<!-- hint: Turn the array into a tensor or a list on the way out, and back into an array on the way in. All other parts go along unchanged. -->
<!-- hint: `np.random.get_state()` is a tuple whose second part is the array: keep its `tolist()` among the others. `np.random.set_state` takes a tuple, with an array of np.uint32 as its second part. `torch.cuda.get_rng_state_all()` is a list, empty where there is no GPU. -->
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
    """What generators of the check's own draw in the round after so many."""
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


def goes_on(generator, odd, least=1):
    """Require that in another process a generator goes on from the captured state.

    ``odd``: whether an odd number of normal numbers was drawn before; ``least``: half of how many
    there were at least.
    """
    seed = check.draw.integer(0, 2**31)
    rounds = 2 * check.draw.integer(least, least + 19) + odd
    expected = numbers_after(seed, rounds)[generator]
    seen = check.call(probes.captured_states, capture_random_states, seed, rounds)
    what = f"numbers of {NAMES[generator]} (evenly distributed, normal) after the "
    check.equal(seen["next"][generator], expected, what=what + "capture")
    check.restart()
    other = check.draw.integer(0, 2**31)
    seen = check.call(probes.restored_draws, restore_random_states, seen["written"], other)
    check.equal(seen["got"][generator], expected, what=what + "restore")
    check.equal(seen["again"][generator], expected, what=what + "restore, once more")


with check.property("torch's generator goes on"):
    goes_on("torch", odd=False)
with check.property("Python's goes on", weight=1.5):
    goes_on("random", odd=False)
with check.property("NumPy's goes on", weight=1.5):
    goes_on("numpy", odd=False)
with check.property("a normal number that a generator keeps back is not lost"):
    for generator in NAMES:
        goes_on(generator, odd=True)
with check.property("a capture draws nothing"):
    seed, rounds = check.draw.integer(0, 2**31), check.draw.integer(0, 9)
    seen = check.call(probes.captured_states, capture_random_states, seed, rounds)
    what = "the next numbers after a capture"
    check.equal(seen["next"], numbers_after(seed, rounds), what=what)
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("the same after hundreds of numbers, which need the generators' states anew"):
    for generator in NAMES:
        goes_on(generator, odd=True, least=250)
        goes_on(generator, odd=False, least=350)
### END HIDDEN TESTS
check.score()

# %% [markdown]
r"""
## The order of a sum

Suppose all random numbers are fixed. Add the same 100,000 float32 numbers from the front and from the back:
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
Addition with rounding is not **associative** (chapter 02), so whatever changes the order changes the result: the number of threads, the width of the processor's registers, the tiles of a matrix product on a GPU, or several GPUs that add their gradients. Move the slider to cut the sum into parts, which are added first:
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
        title=f"Number of parts {count}: the sum is {sum_in_parts(count):.6f}",
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
    caption="Every number of parts gives another sum. Some tens of parts are also more exact than one, because partial sums stay small; libraries add in blocks.",
    alt="Error of the sum of 100,000 numbers against the number of parts in which it is added, from 1 to 1024. It is largest for one part, falls by more than a factor of ten up to some tens of parts, and then stays low and uneven.",
)

# %% [markdown]
"""
The same with torch's own sum, on one thread and on two:
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
Nothing guarantees that the two lines agree.

How far does such a difference spread? Two training runs differ in *one* weight, by one unit in the last place. Everything else is equal.
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
    "With the learning rate 0.2, the weights are 0.00000001 apart after one step. How far apart are they after 400 steps?",
    "more than 1"
    if apart[0.2][-1] > 1
    else "about 0.0001"
    if apart[0.2][-1] > 1e-6
    else "still about 0.00000001",
    "This training amplifies differences: 400 factors that are, on average, a little above 1 make nearly nine powers of ten.",
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
    title="Two runs that began one bit apart", xlabel="training step", ylabel="distance of weights"
)
show(
    figure,
    number="10.4",
    caption="The distance of the weights of two runs. Whether training amplifies a rounding error depends on the training.",
    alt="Distance of the weights of two runs against the training step, logarithmic. With the learning rate 0.2 it grows from a hundred-millionth to more than 1 within 400 steps. With 0.02 it rises to about a millionth and stays there.",
)

# %% [markdown]
r"""
So "nearly the same" is a hard question at the *end* of a training run, and an easy one after *one* operation.
"""

# %% [markdown]
r"""
## Is a difference only rounding?

A sum $\hat s$ of $n$ numbers, computed in any order, has an error of at most

$$|s - \hat s| \;\le\; \gamma_{n-1} \sum_i |x_i|, \qquad \gamma_k = \frac{k u}{1 - k u},$$

where $u$ is half the machine epsilon: $2^{-24}$ for float32 (Higham, section 4.2). The size of the *numbers* counts, not that of the sum. Two correct results are at most twice that far apart. Here are 300 random orders of the 100,000 numbers:
"""

# %%
generator = np.random.default_rng(0)
orders = [float(np.cumsum(generator.permutation(numbers))[-1]) for _ in range(300)]
refused = 300 - int(np.isclose(orders, exact).sum())
n, u = len(numbers), 2.0**-24
bound = (n - 1) * u / (1 - (n - 1) * u) * np.abs(numbers.astype(np.float64)).sum()
print(f"the error is at most {max(abs(s - exact) for s in orders):.0e}; the bound is {bound:.0f}")
print("np.isclose(1e-9, 2e-9):", bool(np.isclose(1e-9, 2e-9)))

# %% folded="Predict: a tolerance that nobody chose"
predict(
    "10/isclose",
    "`np.isclose(result, exact)`, with its default tolerances, compares each of the 300 sums with the exact one. How many of these correct results does it refuse?",
    refused,
    "It allows 0.00001 of the result, plus 0.00000001. The result, 27.6, is small because thousands of numbers canceled, but the errors come from all of them.",
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
    caption="Left of a line, a result is accepted. The default of `np.isclose` cuts through correct results; the bound accepts all of them, with room to spare.",
    alt="The errors of 300 sums, sorted, on a logarithmic axis, from a millionth to a thousandth. The tolerance of np.isclose lies in the upper half of them. The bound with the root of n lies near 0.5, the bound near 150.",
)

# %% [markdown]
"""
The bound describes the worst case, but rounding errors partly cancel. Under a probabilistic model of them, √n may take the place of n (Higham and Mary 2019). For tiny numbers a fixed tolerance errs on the other side: `isclose` takes 1e-9 for 2e-9. **A tolerance means something if it comes from the operation: from the number of roundings and the size of what is rounded.**
"""

# %% [markdown] exercise="sums-agree" points=4 minutes=20 difficulty=2
r"""
### Do two sums agree?

A test that compares two sums needs a tolerance that nobody had to guess.

`sums_agree(first, second, x) -> bool`

- **In** `x`: a tensor of any shape, float16, bfloat16, float32 or float64, with $(n-1)\,u < 1$. `first`, `second`: floats, the sums of all its entries in two unknown orders, where every addition was rounded to the dtype of `x`.
- **Out**: True if they are at most $2\,\gamma_{n-1} \sum_i |x_i|$ apart, with $u$ half the dtype's epsilon and $n$ the number of entries. Add the $|x_i|$ in float64. For one entry or none, the two must be equal; nan agrees with nothing.

For `x = torch.tensor([1.0, 1.0])`, the bound is about 2.4e-7: `sums_agree(2.0, 2.0000002, x)` returns `True`, and `sums_agree(2.0, 2.0000003, x)` returns `False`.

<!-- hint: Which three numbers does the bound need, and where does each come from? -->
<!-- hint: `torch.finfo(x.dtype).eps / 2` is u, `x.numel()` is n. Sum the absolute values after a conversion. -->
<!-- hint: With `k = max(n - 1, 0)` the bound is `2 * k * u / (1 - k * u)` times the sum of absolute values. A comparison with nan is False by itself, as long as you ask for "at most". -->
"""


# %% solution="sums-agree"
def sums_agree(first, second, x):
    """Return whether two sums of ``x`` differ by rounding at most."""
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
    """Return how far two sums of ``x`` may be apart."""
    rounded = x.numel() - 1
    share = 2 * rounded / (2 ** DIGITS[x.dtype] - rounded)
    return share * math.fsum(map(abs, x.double().flatten().tolist()))


def judges(x, middle=None):
    """Require the right verdict just inside and just outside of the bound, on both sides."""
    middle = math.fsum(x.double().flatten().tolist()) if middle is None else middle
    cases = [(share, side) for share in (0.0, 0.9, 1.1, 30.0) for side in (1, -1)]
    for number in check.draw.permutation(len(cases)).tolist():
        share, side = cases[number]
        second = middle + side * share * allowed(x)
        got = check.call(sums_agree, middle, second, x)
        what = f"{x.numel()} entries of {x.dtype}, {share:g} times the allowed distance apart"
        check.equal(got, share < 1, what=what)


with check.property("just inside and just outside of the bound, float32"):
    for _ in range(3):
        judges(check.draw.normal(check.draw.integer(50, 90)))
    judges(check.draw.normal(7, 11, 3, mean=5.0))
with check.property("large numbers that cancel", weight=2):
    half = check.draw.normal(40, std=1e6)
    judges(torch.cat([half, -half, torch.ones(1)]), middle=1.0)
with check.property("tiny numbers", weight=2):
    judges(check.draw.normal(30, std=1e-12))
with check.property("the dtype decides"):
    for dtype in (torch.float16, torch.bfloat16, torch.float64):
        judges(check.draw.normal(25, dtype=dtype))
with check.property("one entry, and nan"):
    value = check.draw.number(1.0, 2.0)
    check.equal(check.call(sums_agree, value, value, torch.tensor([value])), True)
    check.equal(check.call(sums_agree, value, value + 1e-9, torch.tensor([value])), False)
    x = check.draw.normal(5)
    check.equal(check.call(sums_agree, math.nan, 1.0, x), False, what="nan against a number")
    check.equal(check.call(sums_agree, math.nan, math.nan, x), False, what="nan against nan")
with check.property("many entries in bfloat16, where the denominator counts"):
    judges(check.draw.uniform(200, low=1.0, high=2.0, dtype=torch.bfloat16))
with check.property("no entries", weight=0.5):
    check.equal(check.call(sums_agree, 0.0, 0.0, torch.zeros(0)), True)
    check.equal(check.call(sums_agree, 0.0, 1e-30, torch.zeros(0)), False)
with check.property("two and three entries, where one addition less counts; only zeros"):
    judges(check.draw.normal(2, mean=3.0))
    judges(check.draw.normal(3, mean=-3.0))
    check.equal(check.call(sums_agree, 0.0, 0.0, torch.zeros(3)), True, what="for three zeros")
with check.property("float64 beyond the range of float32", weight=0.5):
    judges(check.draw.normal(40, dtype=torch.float64) * 1e200)
    judges(check.draw.normal(40, dtype=torch.float64) * 1e-60)
with check.property("a sum of absolute values that float16 cannot hold", weight=0.5):
    x = torch.full((30,), 5000.0, dtype=torch.float16)
    x[::2] = -5000.0
    judges(x)
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

Some operations do not even fix their order of additions. Their threads add to the same place, and the fastest comes first:
"""

# %%
one, big = torch.tensor(1.0), torch.tensor(2.0**24)
print("1 + big - big:", (one + big - big).item(), "  1 - big + big:", (one - big + big).item())

# %% folded="Drawing: two threads, one place"
show_drawing(
    "10/two-orders",
    number="10.6",
    caption="Two threads add to a place in memory that holds 1. Which comes first is up to the machine, and one order loses the 1 to rounding.",
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


for on in (False, True):
    same = sum(torch.equal(add_to_places(on), add_to_places(on)) for _ in range(10))
    print(f"deterministic {on!s:<5}: {same} of 10 pairs are equal")

# %% tags=["nbval-ignore-output"] folded="Measure: what it costs"
ratio = time_ratio(lambda: add_to_places(True), lambda: add_to_places(False))
print(f"deterministic takes {ratio} as long, with {torch.get_num_threads()} thread(s)")

# %% [markdown]
"""
`torch.use_deterministic_algorithms(True)` makes torch choose another algorithm, or raise an error where it has none. It also fills uninitialized memory, which holds whatever was there before, with nan:
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
(`torch.utils.deterministic.fill_uninitialized_memory = False` saves the time that filling takes.) More flags matter on a GPU, where cuDNN computes convolutions and cuBLAS matrix products:

| flag | what it does | default |
| --- | --- | --- |
| `torch.backends.cudnn.benchmark` | for each new shape, the **auto-tuner** times several algorithms and keeps the fastest | False |
| `torch.backends.cudnn.deterministic` | cuDNN may only use deterministic algorithms | False |
| `torch.backends.cudnn.enabled` | whether cuDNN is used at all | True |
| `torch.use_deterministic_algorithms(True)` | the same for torch's operations and for convolutions; or an error | off |
| `CUBLAS_WORKSPACE_CONFIG=:4096:8` in the environment, before CUDA is used | fixes cuBLAS's workspace; older versions of torch insist on it with the line above | not set |
| `torch.set_float32_matmul_precision(...)`, `torch.backends.cudnn.allow_tf32` | whether float32 products may use TF32, with 11 significant bits (chapter 02): a difference between GPUs, not between runs | "highest" (no TF32), True |
| `torch._inductor.config.deterministic` (not in torch 2.4) | `torch.compile` skips benchmarks that would change numbers | False |
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
    caption="The auto-tuner times every algorithm once per shape. It pays off for a fixed shape, costs time whenever the shape changes, and lets a close race decide which rounding errors a run gets.",
    alt="Three rows. First call with shape A: three bars for algorithms of different length are timed, and the shortest is kept. Next calls with shape A: the kept algorithm runs at once. First call with shape B: three bars again, two of them nearly equal; in another run the other one may win.",
)

# %% [markdown]
"""
On a GPU, the next cell times both cases, with the tuner on and off:
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
    print(f"one shape: with the tuner {ratio} as long")
    ratio = seconds_of(partial(convolve_new, True)) / seconds_of(partial(convolve_new, False))
    print(f"ten new shapes: with the tuner {ratio:.1f} times as long")
else:
    print("no GPU here: nothing to measure")
recorded("tuner")

# %% [markdown]
"""
## Bug hunt: the function that raised no error

The author of this function believes that it makes training reproducible. It was called, and nothing complained.

```python
def set_reproducible(on):
    torch.backends.cudnn.enable = not on        # the auto-tuner
    torch.backends.cudnn.determinstic = on
    torch.use_deterministic_algorithms = on
```

After `set_reproducible(True)`, `put_` should raise an error, as above:
"""

# %% folded="Call it, try put_, and undo everything"
kept_function = torch.use_deterministic_algorithms
try:
    torch.backends.cudnn.enable = False
    torch.backends.cudnn.determinstic = True
    torch.use_deterministic_algorithms = True
    print("put_:", torch.zeros(3).put_(torch.tensor([0]), torch.tensor([1.0])).tolist())
finally:
    torch.use_deterministic_algorithms = kept_function
    del torch.backends.cudnn.enable, torch.backends.cudnn.determinstic

# %% [markdown] exercise="bug-hunt-flags" points=4 minutes=15 difficulty=1
"""
### Repair the function

Find out in cells of your own what each line does, and what code that runs afterwards will notice. (Restart the kernel to undo the damage.) Then write the function that the author meant.

`set_reproducible(on)`

- **In** `on`: True or False, whatever was set before.
- **Out**: nothing is returned. With True, the auto-tuner is off, and deterministic algorithms are required of cuDNN and of torch's own operations. With False, the auto-tuner is on, and neither is required.
- **Limits**: cuDNN stays enabled; nothing else in `torch.backends` is set.

After `set_reproducible(True)`, `torch.are_deterministic_algorithms_enabled()` returns `True`.

<!-- hint: Which names in the table are flags, and which one is a function? -->
<!-- hint: Two assignments and a call. The auto-tuner is the one whose value is the opposite of `on`. -->
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
# Loads what the first call would load, which takes seconds: not while the check's clock runs.
if callable(torch.use_deterministic_algorithms):
    torch.use_deterministic_algorithms(torch.are_deterministic_algorithms_enabled())
MEANING = {
    "benchmark": "the auto-tuner",
    "deterministic": "deterministic algorithms of cuDNN",
    "enabled": "cuDNN",
}


def results_after(probe, on, before):
    """Require what torch computes after a call; nan in the place of what was never written."""
    count, size = check.draw.integer(2, 6), check.draw.integer(7, 12)
    dtype = (torch.float32, torch.float64)[check.draw.integer(0, 2)]
    numbers, places = check.draw.normal(count, dtype=dtype), check.draw.permutation(size)[:count]
    given = {"numbers": numbers, "places": places, "size": size, "before": before}
    seen = check.call(probe, set_reproducible, on, **given)
    told = f"on={on}, and {'on' if before else 'off'} before: "
    if not seen["callable"]:
        told += "torch.use_deterministic_algorithms can no longer be called; "
    if on:
        behind = torch.full((size - count,), math.nan, dtype=dtype)
        whole = torch.cat([numbers, behind])
        check.equal(seen["longer"], whole, what=told + "numbers with unwritten memory behind them")
        what = told + "the exception of put_, which has no deterministic algorithm"
        check.equal(seen.get("error", "none"), "RuntimeError", what=what)
    else:
        expected = torch.zeros(size, dtype=dtype)
        expected[places] = numbers
        what = told + "what put_ returns, which has no deterministic algorithm"
        check.equal(seen.get("put", "an exception"), expected, what=what)
    return seen


def flags_after(on, before):
    seen = results_after(probes.backend_flags, on, before)
    for name, value in {"benchmark": not on, "deterministic": on, "enabled": True}.items():
        check.equal(seen[name], value, what=f"on={on}: {MEANING[name]}")
    check.true(
        seen["callable"], f"on={on}: torch.use_deterministic_algorithms can no longer be called"
    )
    told = f"on={on}: also set in torch.backends: {', '.join(seen['invented'])}"
    check.true(not seen["invented"], told)


with check.property("torch's own: required if on, not required if off", weight=3):
    for on in (True, False):
        for before in (False, True):
            results_after(probes.deterministic_results, on, before)
with check.property("on: cuDNN's are required, the auto-tuner is off"):
    flags_after(True, before=False)
    flags_after(True, before=True)
with check.property("off: cuDNN's are not required, the auto-tuner is on"):
    flags_after(False, before=True)
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("off, and it was off before", weight=0.5):
    flags_after(False, before=False)
### END HIDDEN TESTS
check.score()

# %% [markdown]
"""
<details><summary>The bug (open this once you have found it)</summary>

No line does what was meant, because Python lets anybody set any attribute. `enable` and `determinstic` are new attributes that nobody reads. (The flag `enabled` is not the auto-tuner either; that is `benchmark`.) The third line replaces the *function* `torch.use_deterministic_algorithms` by a bool, and whoever calls it later gets `TypeError: 'bool' object is not callable`.
</details>
"""

# %% [markdown]
"""
## Which source is it?

Two runs differ, and there may be more than one cause. This pipeline has six sources that really vary from run to run; `run_pipeline(fixed)` fixes those named in `fixed`.
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
    x = torch.rand(5000, generator=torch.Generator().manual_seed(3))
    total = sum(part.sum() for part in x.chunk(parts)).item()
    shift = np.random.default_rng(seed).random()
    return [float(flips), noise, start, first, total, shift]


# %%
def count_results(fixed):
    return len({tuple(run_pipeline(fixed)) for _ in range(12)})


print("results in 12 runs, all fixed:    ", count_results(SOURCES))
print("results in 12 runs, nothing fixed:", count_results([]))
alone = {source: count_results([source]) for source in SOURCES}

# %% folded="Predict: fix one source"
predict(
    "10/fix-one",
    "The obvious test fixes one source and runs the pipeline 12 times. For how many of the six sources do the 12 results become equal?",
    sum(count == 1 for count in alone.values()),
    "Whichever source you fix, five others still vary. The test says no six times, and you have learned nothing.",
    between=(0, 6),
)

# %% folded="Figure 10.8: one source fixed, five loose"
figure, axes = new_figure(height=2.5)
axes.barh(list(alone), list(alone.values()), color=COLORS["sky"])
axes.axvline(1, color=COLORS["vermilion"], linestyle="--", label="reproducible")
axes.invert_yaxis()
axes.set(
    title="Different results in 12 runs",
    xlabel="number of results",
    ylabel="the fixed source",
    xlim=(0, 16),
)
axes.legend(loc="center right")
show(
    figure,
    number="10.8",
    caption="Fixing one source at a time never helps as long as a second one varies. All six bars look the same.",
    alt="Six horizontal bars, one for each source that is fixed alone. All reach 12 different results in 12 runs; a line at 1 marks a reproducible pipeline.",
)

# %% [markdown]
"""
A source need not show in every pair of runs: "threads" is drawn from twelve numbers here, and some of them give the same sum.
"""

# %% [markdown] exercise="name-the-sources" points=5 minutes=20 difficulty=2
"""
### Name the sources

Find all sources of difference in any pipeline, not only in the one above.

`guilty_sources(run, sources) -> list`

- **In** `run(fixed)`: a function that takes a list of names and returns a list of floats, never nan. The named sources are fixed, all others vary. With all fixed, it always returns the same. `sources`: the list of all names; some may have nothing to do with `run`.
- **Out**: the names of all sources that change the result when they vary, in the order of `sources`. There may be several, one or none. Results differ if they are not equal to the last bit.
- Among any ten runs in a row in which a guilty source varies, at least one differs from the one before it.
- **Limits**: call `run` at most 40 times per source.

`guilty_sources(run_pipeline, SOURCES)` returns all of `SOURCES`: `["random", "numpy", "torch", "order of files", "threads", "clock"]`.

<!-- hint: In which experiment does a difference point to one source, and to no other? -->
<!-- hint: Fix all but one, and run it again and again. Compare with what comes out when all are fixed, or with each other. -->
<!-- hint: For each source: `others` holds all names but this one. Some twelve runs with these fixed; if not all results are equal, the source is guilty. -->
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


def varying_run(sources, varying):
    """Return ``run``, and a list of its calls.

    A source of ``varying`` that is loose changes two numbers by one unit in the last place, one up
    and one down, in every so many of its runs.
    """
    loose_runs, calls = dict.fromkeys(varying, 0), []

    def run(fixed):
        calls.append(fixed)
        if len(calls) > MOST_RUNS * len(sources):
            raise RuntimeError(f"run was called more than {MOST_RUNS * len(sources)} times")
        for number, name in enumerate(fixed):
            if number > 100 or not isinstance(name, str) or name not in sources:
                raise ValueError(f"there is no source called {name!r}")
        numbers = []
        for source, every in varying.items():
            loose_runs[source] += source not in fixed
            shift = 0 if source in fixed else (loose_runs[source] // every) * 2.0**-52
            numbers += [1.0 + shift, 3.0 - 2 * shift]
        return numbers

    return run, calls


def finds(*every, count=6):
    """Require that the guilty ones of ``count`` sources are named.

    There are as many as numbers are given, and each shows in every so many runs.
    """
    drawn = [PLACES[place] for place in check.draw.permutation(8)[:count]]
    sources = sorted(drawn, reverse=True)  # so that no other order is the right one by chance
    guilty = [sources[place] for place in check.draw.permutation(count)[: len(every)]]
    run, calls = varying_run(sources, dict(zip(guilty, every, strict=True)))
    got = check.call(guilty_sources, check.lend(run), sources)
    expected = [source for source in sources if source in guilty]
    told = f"sources {sources}; it is {', '.join(guilty) or 'none of them'}"
    check.equal(got, expected, what=told)
    told = f"run was called {len(calls)} times for {count} sources"
    check.true(len(calls) <= MOST_RUNS * count, told)


with check.property("one source, and none"):
    number = check.draw.integer(1, 4)
    for place in range(5):
        finds(*([] if place == number else [1]))
with check.property("several at once", weight=2):
    finds(1, 1)
    finds(1, 1, 1)
with check.property("all of them"):
    finds(1, 1, 1, 1, 1, 1)
with check.property("a source that shows in few runs only", weight=2):
    finds(5)
    finds(8, 1)
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("rare ones beside frequent ones, and a list of one source"):
    finds(9, 2, 9)
    finds(10, 10)
    finds(9, count=1)
    finds(count=1)
### END HIDDEN TESTS
check.score()

# %% [markdown]
"""
## Write down what it ran on

On *another* machine or version, the same code with the same seeds need not give the same numbers: [PyTorch guarantees neither](https://docs.pytorch.org/docs/stable/notes/randomness.html). So keep a record with each result.
"""

# %% tags=["nbval-ignore-output", "recorded"]
record = {
    "python": platform.python_version(),
    "torch": torch.__version__,
    "numpy": np.__version__,
    "machine": platform.machine(),
    "processor can": torch.backends.cpu.get_cpu_capability(),
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

A **checkpoint** is a file from which a run can be resumed. The test for it is strict:
"""

# %% folded="Drawing: two runs on a line of time"
show_drawing(
    "10/timeline",
    number="10.9",
    caption="The lower run writes a checkpoint after step 3 and is killed in step 5. A new process loads the checkpoint and makes steps 4 to 6 again. Each must equal, bit for bit, the step above it.",
    alt="Two rows of boxes for training steps. Above, an undisturbed run with steps 1 to 6. Below, a run with steps 1 to 4 that is killed in step 5; an arrow leads from a checkpoint after step 3 to a new process with steps 4 to 6, which stand below those of the first run.",
)

# %% [markdown]
"""
This training has dropout, BatchNorm, AdamW, a schedule, a scaler that skips steps with broken samples, augmentation with Python's and NumPy's random numbers, an order of samples from its own generator, and an exponential moving average of the weights. Open the folded cell to see a step.
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
    """A small training. ``step()`` makes one step, and returns what can be seen of it."""

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
Save the weights and the optimizer after 3 steps, resume in a new object, and compare what each step returns:
"""


# %% folded="Run it whole, and run it stopped and resumed"
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
    "A step returns six things: samples, loss, learning rate, scale, weights and average. How many of them agree in the first step after resuming?",
    sum(same[0].values()),
    "Only the learning rate agrees, by luck: the new schedule counts from zero, and two steps later it differs, too.",
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
    caption="What a resumed run has in common with the undisturbed one: little, and by luck. No error was raised.",
    alt="A grid of marks: six returned values against steps 4 to 10. Samples, weights and average differ in every step. The learning rate and the scale agree in some steps, and once the loss, which is inf in both.",
)

# %% [markdown] exercise="resume-training" points=6 minutes=35 difficulty=3
"""
### Kill and resume, to the last bit

A run on a shared machine can be killed at any time. Write a training that survives it.

`ResumableTraining`, a subclass of `Training` with two more methods: `state_dict() -> state` and `load_state_dict(state)`

- **In** `state`: what `state_dict` returned, possibly in another process, after `torch.save` and `torch.load(..., weights_only=True)`.
- **Out**: `state_dict()` returns everything that a new object in a new process needs to continue. After `load_state_dict(state)`, the steps of a new `ResumableTraining()` are **equal to the last bit** to those that the first one would have made: samples, loss, learning rate, scale, weights, average.
- A run may be killed after any step, before the first one, and again after it was resumed.
- The images themselves need not be in the state. Your `capture_random_states` is welcome once its check is green.

After `new = ResumableTraining(); new.load_state_dict(state)`, the call `new.step()["loss"] == old.step()["loss"]` returns `True`.

<!-- hint: Go through `__init__` line by line: what does each attribute change while training goes on? What is used that is no attribute at all? -->
<!-- hint: Model, average, optimizer, scheduler and scaler have a `state_dict` each. A generator has `get_state()` and `set_state(...)`. Then there are two attributes that are plain data, and the global generators. -->
<!-- hint: A dict with nine entries: five state dicts, the generator's state, order, place, and what `capture_random_states()` returns. Loading goes through the same nine; nothing that draws random numbers may come after the global generators are restored. -->
"""


# %% solution="resume-training"
class ResumableTraining(Training):
    """A training that can be killed after any step and resumed."""

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
Training()  # loads what the first optimizer loads: not while the check's clock runs


def trained(seed, steps, state=None):
    """Train; return what the steps gave, and the state."""
    seen = check.call(probes.trained_part, ResumableTraining, seed, steps, state)
    return seen["trace"], seen["state"]


def by_the_course(steps):
    random.gauss(0, 1), np.random.normal(), torch.randn(1)
    training = Training()
    return [training.step() for _ in range(steps)]


def undisturbed(seed, steps):
    """Return a run that was not killed; require that it is that of Training."""
    trace, _ = trained(seed, steps)
    pairs = zip(trace, check.with_seed(seed, by_the_course, steps), strict=True)
    for number, (here, there) in enumerate(pairs, start=1):
        for name, value in there.items():
            is_rounded = name in ("loss", "weights", "average")
            rtol, atol = (1e-3, 1e-3) if is_rounded else (0.0, 0.0)
            what = f"not killed: {name} in step {number}"
            check.close(here[name], value, rtol=rtol, atol=atol, what=what)
    return trace


def killed(seeds, all_stops, total):
    """Return the traces of runs that are killed after each of their stops.

    Each part runs in a new process, from nothing but the state of the part before it.
    """
    traces, states = [[] for _ in seeds], [None for _ in seeds]
    for number in range(max(map(len, all_stops)) + 1):
        if number:
            check.restart()
        for place, stops in enumerate(all_stops):
            if len(stops) >= number:
                steps = [*stops, total][number] - len(traces[place])
                trace, states[place] = trained(seeds[place] + number, steps, states[place])
                traces[place] += trace
    return traces


def equal_to_undisturbed(total, all_stops, only=None):
    """Require that killed runs make the steps of those that were not, to the last bit."""
    seeds = [check.draw.integer(0, 2**30) for _ in all_stops]
    whole = [undisturbed(seed, total) for seed in seeds]
    got = killed(seeds, all_stops, total)
    for stops, trace, expected in zip(all_stops, got, whole, strict=True):
        for number, (here, there) in enumerate(zip(trace, expected, strict=True), start=1):
            for name in only or there:
                what = f"killed after step {stops}: {name} in step {number}"
                check.equal(here[name], there[name], what=what)


with check.property("a run that is not killed is that of Training; after a kill its samples go on"):
    equal_to_undisturbed(14, [[4], [8]], only=["samples"])
with check.property("learning rate and scale go on"):
    equal_to_undisturbed(9, [[4], [5]], only=["samples", "learning rate", "scale"])
with check.property("loss and weights are equal to the last bit", weight=2):
    equal_to_undisturbed(7, [[4]], only=["loss", "weights"])
with check.property("so is the average"):
    equal_to_undisturbed(7, [[5], [6]], only=["average"])
with check.property("killed again, after it was resumed"):
    equal_to_undisturbed(11, [[8, 10]])
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("killed at each place of nine steps"):
    equal_to_undisturbed(9, [[stop] for stop in range(9)])
with check.property("killed three times in one run"):
    equal_to_undisturbed(9, [[1, 2, 3], [4, 6, 7]])
    equal_to_undisturbed(14, [[7, 8, 10]])
### END HIDDEN TESTS
check.score()

# %% [markdown]
"""
## The moving average

`torch.optim.swa_utils.AveragedModel` keeps the average that `Training` computes by hand. Its state has an entry that the model's does not have, a counter:
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
    ylabel="distance of weights",
)
axes.legend(title="the checkpoint holds")
show(
    figure,
    number="10.11",
    caption="Resumed after step 20. Without the counter, the history is lost at once, and the difference fades only as fast as the average forgets.",
    alt="Distance from the undisturbed average against the training step. It is 0 throughout if all of state_dict was saved. With the weights only it jumps up at step 21 and decays slowly until step 40.",
)

# %%
print(f"AveragedModel and lerp_ by hand differ by less than 1e-6: {error_by_hand < 1e-6}")

# %% [markdown]
"""
The average covers parameters; with `use_buffers=True`, also buffers such as BatchNorm's running statistics, which are otherwise copied.

## Killed while it saves

The kill may come while the checkpoint is being written:
"""

# %% folded="Drawing: a torn checkpoint"
show_drawing(
    "10/torn",
    number="10.12",
    caption="Writing straight into the old file. The kill leaves half a checkpoint, and the old one, which was good, is gone.",
    alt="The content of one file over time. First a whole checkpoint of step 3. When the write of step 6 begins, the file holds a growing part of the new checkpoint. The kill comes in the middle, and half a file remains.",
)

# %% [markdown] exercise="save-safely" points=4 minutes=15 difficulty=2
"""
### A file that is never torn

A checkpoint that is torn by a crash is worth nothing, so saving must be **atomic**: done whole or not at all.

`save_safely(write, path)`

- **In** `write(target)`: a function that writes the checkpoint to the path `target`, such as `lambda target: torch.save(state, target)`. It may be killed halfway or raise an exception. `path`: a string, where the checkpoint belongs.
- **Out**: nothing is returned. At **every** moment, `path` holds a whole checkpoint: the old one until the new one is complete, then the new one; none if there was none. An exception of `write` reaches the caller.
- **Limits**: call `write` once, and let it write directly into the folder of `path`. Another folder may be on another disk, where moving means copying, and copying is not atomic.

[`os.replace(source, target)`](https://docs.python.org/3/library/os.html#os.replace) renames a file in a single step; a file called `target` is replaced.

After `save_safely(lambda target: Path(target).write_text("new"), "a.txt")`, `Path("a.txt").read_text()` returns `"new"`.

<!-- hint: If nobody may see a half-written file under `path`, under which name is it written? -->
<!-- hint: Let `write` write to a second name in the same folder, for example the path with something behind it. Only when it has returned, the name changes. -->
<!-- hint: Two lines: call `write` with the other name, then `os.replace` from that name to `path`. An exception in the first line skips the second one by itself. -->
"""


# %% solution="save-safely"
def save_safely(write, path):
    """Let ``write`` write a file, and put it under ``path`` when it is complete."""
    ### BEGIN SOLUTION
    unfinished = path + ".unfinished"
    write(unfinished)
    os.replace(unfinished, path)
    ### END SOLUTION


# %% test="save-safely"
check = Check("save-safely")


class Disk:
    """What is to be written, told half by half; and where."""

    def __init__(self, fates):
        self.fates = fates
        self.contents = [
            f"checkpoint {number}: {check.draw.integer(0, 10**9)}, {check.draw.integer(0, 10**9)}"
            for number, _ in enumerate(fates, start=1)
        ]
        self.targets = []

    def begin(self, target):
        self.targets.append(target)
        return self.contents[len(self.targets) - 1][:15]

    def go_on(self):
        place = len(self.targets) - 1
        if self.fates[place] == "failed":
            raise OSError(f"no space left for {self.contents[place][15:]}")
        return None if self.fates[place] == "killed" else self.contents[place][15:]


def saves(*fates, probe=probes.writes):
    """Save contents one after another; require that only those that were written are there."""
    disk, held = Disk(fates), None
    lent = check.lend(disk.begin), check.lend(disk.go_on)
    results = check.call(probe, save_safely, *lent, len(fates))
    for number, (fate, seen) in enumerate(zip(fates, results, strict=True), start=1):
        what = f"write {number} of {', '.join(fates)}"
        told = f"{what}: write was never called; {seen['raised'] or 'nothing'} was raised"
        check.true(len(disk.targets) >= number, told)
        content, target = disk.contents[number - 1], disk.targets[number - 1]
        both = (held, content) if fate == "written" else (held,)
        for moment in seen.get("moments", []):
            check.true(moment in both, f"{what}: what path held meanwhile: {moment!r}")
        held = content if fate == "written" else held
        check.equal(seen["after"], held, what=f"{what}: what path holds afterwards")
        raised = {"written": "", "failed": "OSError", "killed": "KilledError"}[fate]
        check.equal(seen["raised"], raised, what=f"{what}: the exception that reaches the caller")
        told = f"{what}: it was not written directly into the folder of path"
        check.true(os.path.dirname(target) == os.path.dirname(seen["path"]), told)
        told = f"{what}: path holds a copy of what was written, not the file itself"
        check.true(seen.get("moved", True), told)
    told = f"write was called {len(disk.targets)} times in {len(fates)} calls"
    check.equal(len(disk.targets), len(fates), what=told)


with check.property("checkpoints are written and replaced"):
    saves("written", "written", "written")
with check.property("killed halfway: the old one stays", weight=2):
    saves("written", "killed", "written", "killed")
with check.property("an error reaches the caller, and the old one stays"):
    saves("written", "failed", "failed", "written")
with check.property("at every moment path holds a whole checkpoint"):
    saves("written", "written", "killed", "failed", "written", probe=probes.writes_watched)
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("nothing was there yet"):
    saves("killed", "failed", "written")
### END HIDDEN TESTS
check.score()

# %% [markdown]
"""
Against a loss of *power* that is not enough: the content may still be in the system's memory when the name has changed. `os.fsync`, on the file before and on the folder afterwards, writes both to disk.

## In the wild

| what | where it is settled |
| --- | --- |
| deterministic algorithms, with the list of operations | [`torch.use_deterministic_algorithms`](https://docs.pytorch.org/docs/stable/generated/torch.use_deterministic_algorithms.html): `warn_only=` |
| seeding | Lightning: [`seed_everything(seed, workers=True)`](https://lightning.ai/docs/pytorch/stable/api/lightning.fabric.utilities.seed.html); Transformers: `TrainingArguments(seed=, data_seed=, full_determinism=)` |
| resuming | Transformers: [`Trainer.train(resume_from_checkpoint=)`](https://huggingface.co/docs/transformers/main_classes/trainer), which also saves the generators' states; Accelerate: [`save_state`, `load_state`](https://huggingface.co/docs/accelerate/usage_guides/checkpoint) |
| moving averages | [`torch.optim.swa_utils`](https://docs.pytorch.org/docs/stable/optim.html#weight-averaging-swa-and-ema) |
| checkpoints of many processes | [`torch.distributed.checkpoint`](https://docs.pytorch.org/docs/stable/distributed.checkpoint.html) |
| random numbers as values | [JAX: keys](https://docs.jax.dev/en/latest/random-numbers.html), with no global state to capture |
| comparing in tests | [`torch.testing.assert_close`](https://docs.pytorch.org/docs/stable/testing.html): tolerances by dtype |

## Recap

1. Python, NumPy and torch have generators of their own; seed, save and restore each, with the normal number that it keeps.
2. One more draw changes all later ones; a generator per purpose keeps purposes apart.
3. The order of a sum changes its last bits, threads change the order, and training can amplify bits to different models.
4. A tolerance comes from the operation: roundings times the size of what was added, not of the result.
5. A run can be resumed to the last bit if the checkpoint holds everything that a step changes, and is written atomically.

### Test yourself

<details><summary>1. Two runs with <code>torch.manual_seed(0)</code> on one machine are equal as long as both validate equally often. One validates every 100 steps, the other every 200, and they differ, although validation runs under <code>torch.no_grad()</code> in eval mode. Why?</summary>

Each loop over the validation loader draws a seed from torch's global generator. Give the loader its own.
</details>

<details><summary>2. Why does <code>torch.use_deterministic_algorithms(True)</code> not make two machines agree?</summary>

It fixes the algorithm on one machine and version. Another processor, with other registers, threads and libraries, adds in another order.
</details>

<details><summary>3. You fix one source after the other, each alone, and none helps. What follows?</summary>

There are at least two, or one is not on your list. Fix all; if the runs are then equal, set one loose at a time.
</details>

<details><summary>4. x holds 1,000 float32 numbers of size 1, half of them negative, and the exact sum is 0. How far apart can two correct sums be?</summary>

At most 2 · 999 · 2⁻²⁴ · 1000, about 0.12, in the worst case. A *relative* tolerance would demand equality.
</details>

<details><summary>5. A run is stopped in the middle of an epoch and resumed from weights, optimizer, scheduler, scaler and all generators' states. The loader shuffles with its own generator. What still differs?</summary>

The order of the epoch was drawn at its beginning; the generator's state leads to that of the *next* one. Save order and place.
</details>

### References

- N. J. Higham, *Accuracy and Stability of Numerical Algorithms*, 2nd edition, SIAM, 2002, [doi:10.1137/1.9780898718027](https://doi.org/10.1137/1.9780898718027), section 4.2 (errors of summation).
- N. J. Higham, T. Mary, "A New Approach to Probabilistic Rounding Error Analysis", *SIAM Journal on Scientific Computing* 41, 2019, [doi:10.1137/18M1226312](https://doi.org/10.1137/18M1226312).
- PyTorch documentation, ["Reproducibility"](https://docs.pytorch.org/docs/stable/notes/randomness.html) and ["Numerical accuracy"](https://docs.pytorch.org/docs/stable/notes/numerical_accuracy.html).
- G. Marsaglia, T. A. Bray, "A Convenient Method for Generating Normal Variables", *SIAM Review* 6, 1964, [doi:10.1137/1006063](https://doi.org/10.1137/1006063) (two at a time).

### Glossary

| English | 中文 | meaning |
| --- | --- | --- |
| reproducible | 可复现 | gives the same result again |
| deterministic | 确定性 | the same input always gives the same result |
| seed | 随机种子 | the number that a generator starts from |
| random number generator | 随机数生成器 | makes numbers that look random from a state |
| state | 状态 | all that a generator needs in order to go on |
| base seed | 基础种子 | the number from which a loader derives its workers' seeds |
| associative | 结合律 | (a + b) + c equals a + (b + c) |
| tolerance | 容差 | how far two results may be apart |
| auto-tuner | 自动调优器 | tries algorithms and keeps the fastest |
| checkpoint (of a run) | 检查点 | a file from which a run can be resumed |
| to resume | 恢复（续训） | to go on where something was stopped |
| exponential moving average | 指数移动平均 | an average that weights recent values more |
| atomic | 原子的 | done whole or not at all, for whoever looks |
| bitwise equal | 逐位相等 | equal to the last bit |
"""

# %% [markdown]
"""
Here is what you predicted in this chapter.
"""

# %% folded="What you predicted"
predictions("10")

# %%
progress("10")
