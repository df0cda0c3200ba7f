# %% [markdown]
"""
# 10 · Reproducibility

After this chapter you can

- say who owns which random numbers, and seed, save and restore all of them;
- explain why the same sum comes out differently, and tell rounding from a mistake;
- set the flags that make algorithms deterministic, under their right names;
- find which source makes two runs differ;
- kill a training at any step and resume it, equal to the last bit.

**Time**: 50 minutes to read and run, 135 for the seven exercises.
**Know before**: rounding (chapter 02), scalers and schedules (chapters 04 and 05), data loading (chapter 09).

**中文**: 本章讲可复现性：随机数的各个来源与归属、求和顺序与线程、确定性算法与 cuDNN 开关、逐一定位差异来源、带误差界的比较，以及逐位一致的断点续训。
"""

# %% tags=["needed"] folded="Imports"
import copy
import io
import json
import math
import os
import platform
import random
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from helpers import (
    COLORS,
    Check,
    digits,
    failing,
    first_draws,
    hint,
    new_figure,
    play,
    probes,
    progress,
    recorded,
    show,
    time_ratio,
)

device = "cuda" if torch.cuda.is_available() else "cpu"

# %% [markdown]
"""
## The same seed, another result

A small training with a seed at its beginning. Twice.
"""


# %%
def train_with_a_seed(seed):
    torch.manual_seed(seed)
    images, labels = digits()
    model = nn.Linear(64, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(30):
        index = np.random.permutation(len(images))[:64]
        batch = images[index].flatten(1) / 16
        if random.random() < 0.5:
            batch = batch + 0.1 * torch.randn(batch.shape)
        loss = functional.cross_entropy(model(batch), labels[index])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


first, second = train_with_a_seed(2021), train_with_a_seed(2021)
print("the same loss:", first == second)

# %% [markdown]
"""
The seed is set, and yet the two differ. `torch.manual_seed` seeds *torch's* generators. The batches are drawn by NumPy and the coin is thrown by Python. Nobody seeded those.

Two runs are equal only if **everything** that differs from run to run is held fast. This chapter goes through the list.

## Who owns the random numbers

| generator | seeded by | state |
| --- | --- | --- |
| Python's `random` | `random.seed(s)` | `random.getstate()`, `setstate` |
| NumPy's global one | `np.random.seed(s)`, s below 2³² | `np.random.get_state()`, `set_state` |
| torch's, on the CPU | `torch.manual_seed(s)` | `torch.get_rng_state()`, `set_rng_state` |
| torch's, one on each GPU | `torch.manual_seed(s)` as well | `torch.cuda.get_rng_state_all()`, `set_rng_state_all` |
| objects: `torch.Generator`, `np.random.default_rng(s)`, `random.Random(s)` | when they are made | their own methods |
| in the workers of a DataLoader | by the loader, from torch's (chapter 09) | none: they live for an epoch |

A call of one does not move the others. A call of one moves *itself*, and with it everything that draws from it later:
"""

# %%
torch.manual_seed(0)
weights = nn.Linear(4, 1).weight
torch.manual_seed(0)
torch.rand(1)  # somebody draws one number more
moved = nn.Linear(4, 1).weight
print("the same first weights after one more draw:", torch.equal(weights, moved))

torch.manual_seed(0)
expected = torch.rand(1)
torch.manual_seed(0)
iter(DataLoader(range(3)))
print("the same number after a loader was begun:  ", torch.equal(expected, torch.rand(1)))

# %% [markdown]
"""
The second line is a trap. A DataLoader draws a seed for its workers from the global generator whenever a loop over it begins, even without workers. Evaluate once more, and the training goes on with other numbers.

The cure is **a generator for each purpose**: `DataLoader(..., generator=g)`, `torch.randperm(n, generator=g)`, `torch.utils.data.random_split(..., generator=g)`. What draws from a generator of its own moves nobody else.

A widespread recipe seeds Python, NumPy and torch with 2021 and the GPUs with 0, by `torch.cuda.manual_seed_all(0)`. That is not wrong. It is reproducible, but whoever tries another seed changes three of the four.
"""

# %% [markdown] exercise="seed-everything" points=3 minutes=10 difficulty=1
"""
### Seed everything

Write `seed_everything(seed)`.

- **In**: an int, from 0 to 2⁶³ - 1.
- It seeds the global generators of `random`, NumPy and torch (with it those of the GPUs), whatever was drawn before. A seed below 2³² goes to each of the three as it is: afterwards `random.random()` returns what `random.Random(seed).random()` returns.
- NumPy's takes numbers below 2³² only. Larger seeds must not fail, and the same seed gives the same numbers in every process. Two different seeds give different numbers from each generator if both are below 2³², or less than 10 apart.

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
## States

A seed brings a generator to its *beginning*. Whoever resumes a run needs the place where it *stood*: the state. Each generator can tell it and take it back. Saving it has a snag:
"""

# %%
for name, state in (
    ("random", random.getstate()),
    ("NumPy", np.random.get_state()),
    ("torch", torch.get_rng_state()),
):
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    try:
        torch.load(file, weights_only=True)
        print(f"{name:<7} saved and loaded")
    except Exception as error:
        print(f"{name:<7} saved, and not loaded: {type(error).__name__}")
kind, keys, place, *normal = np.random.get_state()
print("what NumPy's consists of:", kind, keys.dtype, keys.shape, type(place).__name__, normal[:1])

# %% [markdown]
"""
A file that is loaded could run code: pickle works so. Therefore `torch.load` takes only *weights* since PyTorch 2.6 (`weights_only=True`): tensors, numbers, strings, and lists, tuples and dicts of them. A NumPy array is not among them. (Do not switch the guard off for files that others wrote.)

What are the last two entries of NumPy's state? A generator of normal numbers makes two at a time, hands out one and **keeps the other**. Python's `random.gauss` does so too. (Whether there is one, and which.) Who saves only the key and the place of the generator loses that one number, and all normal numbers after it are shifted.
"""

# %% [markdown] exercise="random-states" points=5 minutes=20 difficulty=2
"""
### Capture and restore

Write `capture_random_states()` and `restore_random_states(states)`.

- `capture_random_states()` returns the states of the global generators of `random`, NumPy and torch, and of the GPUs where there are any. It draws nothing and changes nothing.
- What it returns can be saved with `torch.save`, and loaded with `weights_only=True`. How it is arranged is up to you.
- `restore_random_states(states)` takes that, after it went through a file, perhaps in another process. All generators go on from there, with every kind of number, as if nothing had been in between. States can be restored more than once.

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

All random numbers are held fast. Is everything equal now? Add the same 100,000 numbers from the front and from the back, in float32:
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
Addition with rounding is not associative (chapter 02). Each order rounds differently. So whatever changes the order changes the result: the number of threads that share a sum, the width of the processor's registers, the tiles of a matrix product on a GPU, several cards that add up their gradients.

Cut the sum into parts, add up each part, then the parts. Move the slider.
"""


# %%
def sum_in_parts(count):
    parts = np.array([np.cumsum(part)[-1] for part in np.array_split(numbers, count)])
    return np.cumsum(parts)[-1]


PARTS = [2**power for power in range(11)]
ERRORS = [abs(float(sum_in_parts(count)) - exact) for count in PARTS]


# %% folded="Plot: the sum, by number of parts"
def draw_parts(count):
    figure, axes = new_figure(height=3.0)
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
    alt="Error of the sum of 100,000 numbers against the number of parts in which it is added, from 1 to 1024. It is largest for one part, falls by more than a factor of ten up to some tens of parts, and then stays low and uneven.",
)

# %% [markdown]
"""
(Some tens of parts are also much *more exact* than one, since partial sums stay small; more gain nothing here. That is why libraries add in blocks.)

And here it is with torch's own sum, on one thread and on two:
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
If the two lines are equal on your machine, its library cuts the sum in the same way for both. Nothing promises that they are.

How far does such a difference go? Two trainings start with weights of which *one* differs by one unit in the last place. All else is equal.
"""

# %%
images, labels = digits()
inputs = images.flatten(1) / 16


def weights_along_the_way(nudge, steps=400):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 10)
    )
    if nudge:
        with torch.no_grad():
            weight = model[0].weight
            weight[0, 20] = torch.nextafter(weight[0, 20], torch.tensor(2.0))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    seen = []
    for step in range(steps):
        batch = torch.arange(step * 64, step * 64 + 64) % len(inputs)
        loss = functional.cross_entropy(model(inputs[batch]), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen.append(nn.utils.parameters_to_vector(model.parameters()).detach().clone())
    return torch.stack(seen)


# %% tags=["nbval-ignore-output"] folded="Plot: Two trainings that began one bit apart"
apart = (weights_along_the_way(False) - weights_along_the_way(True)).norm(dim=1)
figure, axes = new_figure(height=3.0)
axes.semilogy(range(1, 401), apart.clamp(min=1e-10))
axes.set(
    title="Two trainings that began one bit apart",
    xlabel="step",
    ylabel="distance of the weights",
)
show(
    figure,
    alt="Distance of the weights of two trainings against the step, logarithmic. It begins at about a hundred-millionth and grows by nine powers of ten within 400 steps.",
)
print(f"after 1 step {apart[0]:.0e}, after 400 steps {apart[-1]:.0e}")

# %% [markdown]
r"""
Training can amplify differences; a learning rate as high as this one makes it quick. Here, two runs that differ by one bit end as two different models. They may be equally good, but they are not the same. (How far apart they end depends on the training. Try half the learning rate in the cell above.) So "nearly the same" is a hard question at the *end* of a training and an easy one after *one* operation.

### When is a difference only rounding?

A sum of n numbers, in any order, has an error of at most

$$|s - \hat s| \;\le\; \gamma_{n-1} \sum_i |x_i|, \qquad \gamma_k = \frac{k u}{1 - k u},$$

where $u$ is half of epsilon, $2^{-24}$ for float32 (Higham, section 4.2). The size of the *numbers* counts, not that of the sum. Two honest results are at most twice as far apart. So the bound can be computed, and needs no guessing:
"""

# %%
n, u = len(numbers), 2.0**-24
bound = 2 * (n - 1) * u / (1 - (n - 1) * u) * np.abs(numbers.astype(np.float64)).sum()
print(f"forward and backward are {abs(float(forward) - float(backward)):.1e} apart")
print(f"allowed at worst: {bound:.1e}; with the root of n in the place of n: {bound / n**0.5:.1e}")
print("np.isclose with its defaults:", bool(np.isclose(forward, backward)))
print("and for 1e-9 against 2e-9:   ", bool(np.isclose(1e-9, 2e-9)))

# %% [markdown]
"""
The bound is for the worst case, and generous: rounding errors go up and down, and mostly cancel. Higham and Mary show that the root of n may usually take the place of n. It is still a bound that nobody had to guess.

The defaults mislead. `isclose` allows 1e-5 *of the result*, plus a fixed 1e-8. If a sum is small because large numbers cancel, the first is too strict. If all numbers are tiny, the second accepts anything. **A tolerance means something if it comes from the operation: how many roundings, of numbers how large.**
"""

# %% [markdown] exercise="sums-agree" points=4 minutes=20 difficulty=2
r"""
### Do two sums agree?

Write `sums_agree(first, second, x)`.

- **In**: two floats, results of adding up all entries of `x` in two unknown orders; and `x`, a tensor of any shape, of dtype float16, bfloat16, float32 or float64. Every addition was rounded to x's dtype.
- **Out**: a bool. True if the two are no further apart than $2\,\gamma_{n-1} \sum_i |x_i|$, with $u$ half of the dtype's epsilon and $n$ the number of entries; x is such that $(n-1) u < 1$.
- For a single entry, or none, they have to be equal. If one of the two is nan, they do not agree.
- Sum up the $|x_i|$ in float64.

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

Some operations do not even fix their order. Several threads add to the same place, and who comes first is luck. This happens on the CPU too:
"""

# %% tags=["nbval-ignore-output"]
places = torch.randint(1000, (1_000_000,), generator=torch.Generator().manual_seed(0))
values = torch.rand(1_000_000, generator=torch.Generator().manual_seed(1))


def add_to_places():
    return torch.zeros(1000).index_put_((places,), values, accumulate=True)


def add_to_places_deterministically():
    torch.use_deterministic_algorithms(True)
    try:
        return add_to_places()
    finally:
        torch.use_deterministic_algorithms(False)


for function in (add_to_places, add_to_places_deterministically):
    same = sum(torch.equal(function(), function()) for _ in range(10))
    print(f"{function.__name__}: {same} of 10 pairs of runs are equal")
print(
    "deterministic takes",
    time_ratio(add_to_places_deterministically, add_to_places),
    "as long",
)
print("threads here:", torch.get_num_threads())

# %% [markdown]
"""
Where there is more than one thread, the same call on the same numbers may give different results, within one process. `torch.use_deterministic_algorithms(True)` makes torch choose another algorithm, and raise an error where it has none. What that costs depends on the operation: a lot, nothing, or it may even gain. Here the last line but one tells.

It does something else as well. Memory that nobody has written to holds whatever was there before. That is a source of differences too:
"""

# %%
torch.use_deterministic_algorithms(True)
print("torch.empty, deterministic:", torch.empty(3).tolist())
torch.use_deterministic_algorithms(False)

# %% [markdown]
r"""
Filling with nan costs time, but whoever reads what was never written notices. (`torch.utils.deterministic.fill_uninitialized_memory = False` switches it off.)

On a GPU there is more to hold fast:

| flag | what it does | if not set |
| --- | --- | --- |
| `torch.backends.cudnn.benchmark` | tries several algorithms for each new shape and keeps the fastest (the *auto-tuner*). Timing decides, so another run may choose another one. Pays if shapes do not change. | False |
| `torch.backends.cudnn.deterministic` | cuDNN may only use deterministic algorithms | False |
| `torch.backends.cudnn.enabled` | whether cuDNN is used at all | True |
| `torch.use_deterministic_algorithms(True)` | the same for torch's own operations, and for the convolutions that it hands to cuDNN; or an error | off |
| `CUBLAS_WORKSPACE_CONFIG=:4096:8` in the environment, before CUDA is used | fixes cuBLAS's work space; older versions of torch insist on it when the line above is set | not set |

Python lets anybody set any attribute. That is how this recipe could go around for years:
"""

# %%
torch.backends.cudnn.enable = True
print("is the auto-tuner on?", torch.backends.cudnn.benchmark)
del torch.backends.cudnn.enable

# %% [markdown] exercise="bug-hunt-flags" points=4 minutes=15 difficulty=1
"""
### Bug hunt: the flags that do nothing

The function below stood in a project. Its author believes that it makes training reproducible, and that it was tested: it raises no error.

```python
def set_reproducible(on):
    torch.backends.cudnn.enable = not on        # the auto-tuner
    torch.backends.cudnn.determinstic = on
    torch.use_deterministic_algorithms = on
```

Find out in cells of your own which of the three lines has any effect, and what the last one breaks. (Undo it with `import importlib; importlib.reload(torch)`? No: restart the kernel.) Then write `set_reproducible(on)`.

- `on=True`: the auto-tuner is off, cuDNN's deterministic algorithms are required, and so are torch's own.
- `on=False`: the auto-tuner is on, and neither is required.
- cuDNN stays enabled, and no attribute is set that means nothing.

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
        told += "this code put something else in the place of torch.use_deterministic_algorithms; "
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
    check.true(seen["callable"], f"on={on}: torch.use_deterministic_algorithms is no function")
    told = f"attributes that were set and mean nothing: {', '.join(seen['invented'])}"
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
<details><summary>What it was (open it when you have found it)</summary>

None does what was meant. `enable` and `determinstic` are new attributes that nobody reads. The third line replaces the *function* `torch.use_deterministic_algorithms` by a bool: whoever calls it later gets `TypeError: 'bool' object is not callable`.
</details>
"""

# %% [markdown]
"""
## Which source is it?

Two runs differ. Who is to blame? Guessing takes long, and there may be more than one culprit. Here is a pipeline with six sources that really differ from run to run. `fixed` says which of them are held fast.
"""

# %% tags=["needed"]
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
everything_fixed = run_pipeline(SOURCES)
print("all fixed:    ", run_pipeline(SOURCES) == everything_fixed)
print("nothing fixed:", run_pipeline([]) == everything_fixed)
print("only 'torch' fixed:", run_pipeline(["torch"]) == run_pipeline(["torch"]))

# %% [markdown]
"""
The last line shows why the obvious test fails. "Fix this one and see whether it helps" says no for *every* source, as long as a second one is loose. Turn it around.

One more difficulty: "threads" is drawn from twelve here, and some numbers of parts give the same sum. A source need not show in every pair of runs.
"""

# %% [markdown] exercise="name-the-sources" points=5 minutes=20 difficulty=2
"""
### Name the sources

Write `guilty_sources(run, sources)`: which of the sources make the results of `run` differ.

- **In**: `run(fixed)`, a function that takes a list of names and returns a list of floats; the sources in it are held fast, all others are loose. And `sources`, a list of all names.
- **Out**: a list of the names, in the order of `sources`, of all that change the result when they are loose. If all are fixed, `run` always returns the same.
- There may be several, one, or none. Some of `sources` may have nothing to do with `run` at all.
- Results count as different if they are not equal to the last bit (no nan occurs). Among any ten runs in a row in which a guilty source is loose, one differs from the one before it. Do not call `run` more than 40 times for each source.

Try it in a cell of your own: `guilty_sources(run_pipeline, SOURCES)`. (There "threads" has luck in it, too: about one time in fifty, ten runs are all equal.)

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

The same code with the same seeds on *another* machine or version need not give the same numbers: PyTorch promises it for neither. So a result that others are to repeat comes with a note.
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
Add the code's version (`git rev-parse HEAD`, and whether anything was changed since), the seeds, the command line, and the data's version. `python -m torch.utils.collect_env` prints more than anybody wants to type.

## Kill and resume

Here is a training with everything that a real one has: dropout, BatchNorm, AdamW, a schedule, a scaler that skips steps with broken samples, augmentation by Python's and NumPy's random numbers, an order of samples from a generator of its own, and a moving average of the weights.
"""

# %% tags=["needed"]
BATCH = 16


class Training:
    """A small training. ``step()`` makes one step, and returns what can be seen of it."""

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
A checkpoint in many a script holds the weights and the optimizer. Save that after 3 steps, resume in a new object, and compare the next step with that of a run that was not stopped.
"""


# %%
def seed_all_by_hand(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


seed_all_by_hand(0)
whole = Training()
whole_trace = [whole.step() for _ in range(10)]

seed_all_by_hand(0)
stopped = Training()
for _ in range(3):
    stopped.step()
saved = copy.deepcopy([stopped.model.state_dict(), stopped.optimizer.state_dict()])

seed_all_by_hand(1)  # a new process begins with other random numbers
resumed = Training()
resumed.model.load_state_dict(saved[0])
resumed.optimizer.load_state_dict(saved[1])
resumed_step = resumed.step()
for name in whole_trace[0]:
    there, here = whole_trace[3][name], resumed_step[name]
    if isinstance(there, list) and isinstance(there[0], torch.Tensor):
        same = all(torch.equal(a, b) for a, b in zip(there, here, strict=True))
    else:
        same = there == here
    print(f"first step after resuming, {name:<14} the same: {same}")

# %% [markdown]
"""
It is another run from the very first step on, and there was no error. (Only the learning rate agrees, by luck: the new schedule counts from zero, and two steps later it is another.)
"""

# %% [markdown] exercise="resume-training" points=6 minutes=35 difficulty=3
"""
### Kill and resume, to the last bit

Write `ResumableTraining`, a `Training` with two methods more.

- `state_dict()` returns everything that a new object, in a new process, needs in order to go on: as data that `torch.save` writes and `torch.load(..., weights_only=True)` reads.
- `load_state_dict(state)` brings a new `ResumableTraining()` to that place. Its steps from then on are **equal to the last bit** to those that the first one would have made: samples, loss, learning rate, scale, weights, average.
- A training may be killed after any step, also before the first one, and again after it was resumed.
- The samples themselves need not be in the state.

Your `capture_random_states` is welcome, once its own check is green.

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
### Killed while it saves

One moment is left: the kill may come in the middle of writing the checkpoint. Then the file is torn, and the old one, which was good, is gone.
"""

# %% [markdown] exercise="save-safely" points=4 minutes=15 difficulty=2
"""
### A file that is never torn

Write `save_safely(write, path)`.

- **In**: `write(target)`, a function that writes the checkpoint to the path `target` (`torch.save(state, target)`, say) and may be killed halfway, or raise an exception; and `path`, a string: where the checkpoint belongs.
- At **every** moment, also while `write` is at work, `path` holds a whole checkpoint: the old one until the new one is complete, then the new one. If there was none yet, there is none until the new one is complete.
- An exception of `write` reaches the caller, and the old checkpoint stays.
- Write directly into the folder of `path`, not elsewhere: another folder may be on another disk, and moving a file between disks is copying. A copy is not atomic.

`os.replace(source, target)` puts a file in the place of another one in a single step: whoever looks sees either the old one or the new one ([Python: os.replace](https://docs.python.org/3/library/os.html#os.replace)).

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
(Against a loss of *power* that is not quite enough: the file's content may still be in the system's memory when its name has changed already. Databases call `os.fsync` on the file before they replace, and on the folder after it.)

## In the wild

| what | where it is settled |
| --- | --- |
| what PyTorch promises, and what not | [Reproducibility](https://docs.pytorch.org/docs/stable/notes/randomness.html) |
| deterministic algorithms, with the list of operations | [`torch.use_deterministic_algorithms`](https://docs.pytorch.org/docs/stable/generated/torch.use_deterministic_algorithms.html): `warn_only=` |
| loading without running code | [`torch.load`](https://docs.pytorch.org/docs/stable/generated/torch.load.html): `weights_only=` |
| seeding all | Lightning: [`seed_everything(seed, workers=True)`](https://lightning.ai/docs/pytorch/stable/api/lightning.fabric.utilities.seed.html); Transformers: `TrainingArguments(seed=, data_seed=, full_determinism=)` |
| resuming | Transformers: [`Trainer.train(resume_from_checkpoint=)`](https://huggingface.co/docs/transformers/main_classes/trainer), which also saves the states of the generators; Accelerate: [`save_state`, `load_state`](https://huggingface.co/docs/accelerate/usage_guides/checkpoint) |
| checkpoints of many processes | [`torch.distributed.checkpoint`](https://docs.pytorch.org/docs/stable/distributed.checkpoint.html) |
| random numbers as values | [JAX: keys](https://docs.jax.dev/en/latest/random-numbers.html): no global state, so nothing to capture |
| comparing in tests | [`torch.testing.assert_close`](https://docs.pytorch.org/docs/stable/testing.html): tolerances by dtype |

## Recap

1. Python, NumPy and torch have generators of their own; each has to be seeded, saved and restored, together with the normal number that it keeps back.
2. One draw more shifts all that follows; a generator for each purpose keeps purposes apart.
3. The order of a sum changes its last bits, threads change the order, and training can amplify bits to other models.
4. A tolerance comes from the operation: roundings times the size of what was added, not of the result.
5. A run can be resumed to the last bit if the state holds everything that a step changes, and is written so that it is never torn.

### Test yourself

<details><summary>1. Two runs with <code>torch.manual_seed(0)</code> on the same machine are equal as long as both validate equally often. One validates every 100 steps, the other every 200, and they differ. The validation is under <code>torch.no_grad()</code> and in eval mode. Why?</summary>

The loop over the validation loader draws a seed from torch's global generator each time it begins. Give the loader a generator of its own.
</details>

<details><summary>2. Why does <code>torch.use_deterministic_algorithms(True)</code> not make two machines agree?</summary>

It fixes the algorithm within one machine and one version. Another processor has registers of another width, another number of threads, other libraries: the orders of summation differ.
</details>

<details><summary>3. You find the guilty source by fixing one after the other, each alone, and no single one helps. What follows?</summary>

Either there are at least two, or a source is not in your list. Fix all. If the runs are equal then, set loose one at a time.
</details>

<details><summary>4. x holds 1,000 float32 numbers of a size of about 1, half of them negative, and the exact sum is 0. By how much may two honest sums differ?</summary>

By at most 2 · 999 · 2⁻²⁴ · 1000, about 0.12. That is a bound for the worst case; typically it is far less. A *relative* tolerance would ask for equality.
</details>

<details><summary>5. A training is resumed from weights, optimizer, scheduler, scaler and all random states. Which difference is left if the loader shuffles by a generator of its own, and the run was stopped in the middle of an epoch?</summary>

The order of the epoch was drawn at its beginning. The generator's state alone gives the order of the *next* epoch: order and place belong in the checkpoint, or the generator's state from before the epoch and the place.
</details>

### References

- N. J. Higham, *Accuracy and Stability of Numerical Algorithms*, 2nd edition, SIAM, 2002, [doi:10.1137/1.9780898718027](https://doi.org/10.1137/1.9780898718027), section 4.2 (errors of summation).
- PyTorch documentation, ["Reproducibility"](https://docs.pytorch.org/docs/stable/notes/randomness.html) and ["Numerical accuracy"](https://docs.pytorch.org/docs/stable/notes/numerical_accuracy.html).
- J. Demmel, H. D. Nguyen, "Fast Reproducible Floating-Point Summation", ARITH 2013, [doi:10.1109/ARITH.2013.9](https://doi.org/10.1109/ARITH.2013.9).
- N. J. Higham, T. Mary, "A New Approach to Probabilistic Rounding Error Analysis", *SIAM Journal on Scientific Computing* 41, 2019, [doi:10.1137/18M1226312](https://doi.org/10.1137/18M1226312).
- Python documentation, [`os.replace`](https://docs.python.org/3/library/os.html#os.replace) and [`random.gauss`](https://docs.python.org/3/library/random.html#random.gauss).
- G. Marsaglia, T. A. Bray, "A Convenient Method for Generating Normal Variables", *SIAM Review* 6, 1964, [doi:10.1137/1006063](https://doi.org/10.1137/1006063) (two at a time).

### Glossary

| English | 中文 | meaning |
| --- | --- | --- |
| reproducible | 可复现 | gives the same result again |
| deterministic | 确定性 | the same input always gives the same result |
| seed | 随机种子 | the number that a generator starts from |
| random number generator | 随机数生成器 | makes numbers that look random from a state |
| state | 状态 | all that a generator needs in order to go on |
| associative | 结合律 | (a + b) + c equals a + (b + c) |
| rounding error | 舍入误差 | what is lost when a result is rounded |
| tolerance | 容差 | how far two results may be apart |
| auto-tuner | 自动调优器 | tries algorithms and keeps the fastest |
| thread | 线程 | one of several strands of work in a process |
| checkpoint (of a run) | 检查点 | a file from which a run can be resumed |
| to resume | 恢复（续训） | to go on where something was stopped |
| atomic | 原子的 | done whole or not at all, for whoever looks |
| bitwise equal | 逐位相等 | equal to the last bit |
"""

# %%
progress("10")
