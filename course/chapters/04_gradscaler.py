# %% [markdown]
"""
# 04 · GradScaler

After this chapter you can

- say which gradients float16 loses, from a histogram of their exponents, and choose a scale that saves them;
- write a gradient scaler whose scale, skipped steps and weights are those of `torch.amp.GradScaler`;
- clip, log and schedule in the right order when steps are scaled and sometimes skipped;
- name the cause of a nan in mixed-precision training, and say whether a scaler cures it.

**Time**: 60 minutes to read and run, 130 for the six exercises.
**Know before**: float formats (chapter 02), autocast (chapter 03).

**中文**: 本章讲梯度缩放：float16 梯度下溢、静态与动态损失缩放、GradScaler 状态机、先反缩放再裁剪、跳过的优化步与学习率调度，以及 nan 的三种成因与诊断。
"""

# %% tags=["needed"] folded="Imports"
import math
import warnings

import torch
from torch.nn import functional

from helpers import COLORS, Check, digits, failing, hint, new_figure, play, probes, progress, show

device = "cuda" if torch.cuda.is_available() else "cpu"

# %% [markdown]
r"""
## The plate that stops bending

A plate is loaded and bends by up to three millimeters. A network gets the two coordinates of a point and
is to tell by how many meters the point moves. Its output is multiplied by 0.003, so that inside it deals with
numbers near 1. The loss is the mean squared error, in square meters.

Training runs in an autocast region with float16, as chapter 03 has it: weights in float32, products in 16 bits,
the loss in float32, `backward` outside of the region. Everything is done right.
"""

# %%
SIDE, UNIT = 24, 0.003
line = torch.linspace(-1, 1, SIDE, device=device)
points = torch.stack(torch.meshgrid(line, line, indexing="ij"), dim=-1).reshape(-1, 2)
bend = UNIT * torch.sin(math.pi * points[:, :1]) * torch.cos(math.pi / 2 * points[:, 1:])


def make_plate_model():
    torch.manual_seed(0)
    hidden = torch.nn.Linear(2, 24), torch.nn.Tanh(), torch.nn.Linear(24, 24), torch.nn.Tanh()
    return torch.nn.Sequential(*hidden, torch.nn.Linear(24, 1)).to(device)


def plate_error(outputs, targets):
    return functional.mse_loss(UNIT * outputs.float(), targets)


def train_plate(lower=None, scale=1.0, steps=120):
    """Train, in a region if ``lower`` names its dtype; return the errors and the last gradients.

    An error of 1 is that of a plate that does not bend at all.
    """
    model = make_plate_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    errors = []
    for _ in range(steps):
        with torch.autocast(device, dtype=lower or torch.float16, enabled=lower is not None):
            loss = plate_error(model(points), bend)
        optimizer.zero_grad()
        (scale * loss).backward()
        for weight in model.parameters():
            weight.grad /= scale
        optimizer.step()
        errors.append(loss.item() / bend.square().mean().item())
    return errors, torch.cat([weight.grad.flatten() for weight in model.parameters()])


errors_float32, gradients_float32 = train_plate()
errors_float16, gradients_float16 = train_plate(lower=torch.float16)
for name, errors, gradients in (
    ("float32", errors_float32, gradients_float32),
    ("float16", errors_float16, gradients_float16),
):
    print(
        f"{name}: the error goes from {errors[0]:.1f} to {errors[-1]:.2f};",
        f"gradients that are 0 in the last step: {(gradients == 0).double().mean().item():.0%}",
    )

# %% [markdown]
"""
No nan, no warning. The float16 run learns a little and then stands still, because **every single gradient is
0**. In float32 not one of them is.

Now the same float16 run with two changes. The loss is multiplied by 65536 before `backward`. The gradients of
the weights are divided by 65536 before the step.
"""

# %%
errors_scaled, gradients_scaled = train_plate(lower=torch.float16, scale=65536.0)
print(f"float16, scaled: the error goes from {errors_scaled[0]:.1f} to {errors_scaled[-1]:.2f}")

# %% folded="Plot: Learning how a plate bends"
figure, axes = new_figure()
steps = range(1, len(errors_float32) + 1)
axes.semilogy(steps, errors_float32, label="float32", linewidth=5, alpha=0.35)
axes.semilogy(steps, errors_float16, color=COLORS["vermilion"], label="float16")
axes.semilogy(
    steps, errors_scaled, "--", color=COLORS["black"], label="float16, loss scaled by 65536"
)
axes.set(
    title="Learning how a plate bends", xlabel="training step", ylabel="error (flat plate = 1)"
)
axes.legend()
show(
    figure,
    alt="Error against training step, logarithmic. In float32 it falls from 1.2 to about 0.02. In float16 "
    "it falls to about 0.7 and stays there on a level line. In float16 with the loss scaled it lies on the "
    "float32 curve.",
)

# %% [markdown]
"""
The dashed curve lies on that of float32. Nothing else was changed. (Millimeters instead of meters would have
saved the gradients, too: then the loss is a million times larger. That *is* a scale of the loss, chosen by hand. But nobody
divides by it afterwards, and all that depends on the size of a gradient, such as a learning rate, would have to follow.)

This chapter is about that factor: what it does, how large it should be, who changes it during
training, and what it breaks in the lines around it.
"""

# %% [markdown]
r"""
## Where the gradients are

Take the exponents. A number $g$ has the exponent $e$ if $2^e \le |g| < 2^{e+1}$. Float16 does four things to it
(chapter 02):

| exponent | what float16 makes of the number |
| --- | --- |
| 16 and more | inf |
| -14 to 15 | a normal number with 11 digits in base 2 (the last ones in 15, from 65520 on, become inf) |
| -25 to -15 | a *subnormal* number: fewer digits, down to one ($2^{-25}$ itself becomes 0) |
| below -25 | 0 |

Which numbers are stored in 16 bits? Two kinds. The gradients of the *activations*, which travel back from layer to layer. And the
gradient of each weight's float16 copy: it becomes float32 only after it was computed, which is too late for a 0 or an inf. The
figure shows the first kind, for the first step of the plate, computed in float32, so that nothing is lost.
"""

# %% tags=["needed"]
FIRST_NORMAL, FIRST_KEPT, FIRST_UNSAFE = -14, -25, 15


def count_exponents(numbers):
    """Return how many of ``numbers`` have which exponent: a dict. Zeros, inf and nan do not count."""
    finite = numbers[torch.isfinite(numbers) & (numbers != 0)].double().cpu()
    exponents, counts = torch.unique(torch.frexp(finite).exponent - 1, return_counts=True)
    return dict(zip(exponents.tolist(), counts.tolist(), strict=True))


# %%
def activation_gradients(model, loss_function, inputs, targets, scale=1.0, lower=None):
    """Return the gradients of the outputs of all linear layers, one after another, in one tensor."""
    outputs = []
    handles = [
        layer.register_forward_hook(lambda module, given, output: outputs.append(output))
        for layer in model.modules()
        if isinstance(layer, torch.nn.Linear)
    ]
    with torch.autocast(device, dtype=lower or torch.float16, enabled=lower is not None):
        loss = loss_function(model(inputs), targets)
    for handle in handles:
        handle.remove()
    slopes = torch.autograd.grad(scale * loss, outputs)
    return torch.cat([slope.flatten().float() for slope in slopes])


# %% folded="Drawing tool: draw_exponents"
def draw_exponents(axes, counts, scale_exponent=0):
    kinds = {"becomes 0": "vermilion", "subnormal": "orange", "normal": "blue", "inf": "black"}
    bins = {kind: {} for kind in kinds}
    for exponent, count in counts.items():
        place = exponent + scale_exponent
        if place < FIRST_KEPT:
            kind = "becomes 0"
        elif place < FIRST_NORMAL:
            kind = "subnormal"
        else:
            kind = "normal" if place <= FIRST_UNSAFE else "inf"
        bins[kind][place] = count
    total = sum(counts.values())
    for kind, color in kinds.items():
        if not bins[kind]:
            continue
        share = sum(bins[kind].values()) / total
        label = f"{kind}: {share:.0%}"
        axes.bar(list(bins[kind]), list(bins[kind].values()), color=COLORS[color], label=label)
    axes.axvspan(FIRST_NORMAL - 0.5, FIRST_UNSAFE + 0.5, color=COLORS["sky"], alpha=0.15)
    axes.axvspan(FIRST_KEPT - 0.5, FIRST_NORMAL - 0.5, color=COLORS["orange"], alpha=0.12)
    axes.set_xlim(-52, 26)
    axes.legend(loc="upper right", fontsize=9)


# %%
plate_gradients = activation_gradients(make_plate_model(), plate_error, points, bend)
plate_counts = count_exponents(plate_gradients)
lost = plate_gradients.half() == 0
print(f"gradients of activations: {plate_gradients.numel()}")
print(f"of them are not 0 in float16: {(~lost).sum().item()}")

# %% folded="Plot: Gradients of the plate"
figure, axes = new_figure()
draw_exponents(axes, plate_counts)
axes.set(title="Gradients of the plate", xlabel="exponent (base 2)", ylabel="gradients")
show(
    figure,
    alt="Histogram of the exponents of the plate's gradients. It has its peak near minus 31 and reaches from "
    "about minus 45 to minus 25. Nearly all of it lies below minus 25, where float16 has only 0. The range of "
    "subnormal numbers, from minus 25, holds only a few dozen, and that of normal numbers, from minus 14 to 15, is empty.",
)

# %% [markdown]
r"""
The blue range, all the normal numbers that float16 has, is empty, and the orange one nearly so. A few dozen of the largest
gradients are just kept; they moved the network in its first steps. The gradients are small for a reason that has
nothing to do with the network: the loss is a mean over 576 points, and its unit is the square meter.

### What scaling moves

A derivative is linear. If the loss is multiplied by $S$, every gradient on the way back is multiplied by $S$, by
the chain rule. With $S = 2^k$ every exponent grows by $k$, and nothing else happens: the histogram moves to the
right by $k$ bins.
"""

# %%
scaled = activation_gradients(make_plate_model(), plate_error, points, bend, scale=2.0**16)
print(
    "gradients of the scaled loss = scaled gradients:",
    torch.equal(scaled, 2.0**16 * plate_gradients),
)
moved = {exponent + 16: count for exponent, count in plate_counts.items()}
print("the histogram has moved by 16:", count_exponents(scaled) == moved)
print("after the division nothing has changed:", torch.equal(scaled / 2.0**16, plate_gradients))

# %% [markdown]
"""
Equal to the last bit: a power of two changes the exponent and leaves the digits alone. That is why one takes powers of
two for scales.

You can read that scaling "gives the fraction more bits", and so lowers the machine epsilon. It does not. Look at the error of
rounding a number to float16, relative to the number:
"""

# %% folded="Plot: What float16 does to a number"
sizes = torch.logspace(-28, 16, 1400, base=2.0, dtype=torch.float64)
relative = ((sizes.half().double() - sizes) / sizes).abs()
figure, axes = new_figure(height=3.0)
axes.loglog(
    sizes, relative.clamp(min=1e-5), ".", ms=2, color=COLORS["blue"], label="rounding error"
)
axes.axhline(2.0**-11, color=COLORS["vermilion"], linestyle="--", label="half of epsilon, 2^-11")
axes.axvline(2.0**-14, color=COLORS["black"], linestyle=":", label="smallest normal number, 2^-14")
axes.set_xscale("log", base=2)
axes.set(
    title="What float16 does to a number",
    xlabel="size of the number",
    ylabel="relative error",
)
axes.legend(fontsize=9)
show(
    figure,
    alt="Relative rounding error against the size of the number. From 2 to the minus 14 up to 65504 it stays "
    "below 2 to the minus 11 everywhere. Below, it grows as the number shrinks, and reaches 1, all of the "
    "number, at 2 to the minus 25.",
)

# %% [markdown]
"""
To the right of the dotted line the error has the same ceiling everywhere. **A scale gains digits only for numbers that were
subnormal, and saves only those that were 0.** For a number that was normal before and is normal after, it does nothing.

On the other side a scale can do harm. Slide it:
"""


# %% tags=["nbval-ignore-output"] folded="Plot: the gradients of the plate, scaled"
def draw_scale(k):
    figure, axes = new_figure()
    draw_exponents(axes, plate_counts, scale_exponent=int(k))
    axes.set(
        title=f"Gradients of the plate, scaled by 2^{int(k)}",
        xlabel="exponent (base 2)",
        ylabel="gradients",
    )
    return figure


play(
    draw_scale,
    label="exponent of the scale",
    values=[0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44],
    start=16,
    alt="The histogram moved by 16 bins to the right. Two thirds of it are now subnormal numbers of float16, one third is "
    "normal, and next to nothing is 0.",
)

# %% [markdown]
"""
At 2^16, the scale of the run above, two thirds are still subnormal: they have fewer digits, and the training did not mind. From about 2^24 on
nearly everything is normal. At 2^44 the right end has fallen off: those gradients become inf. In between
there is room, and inside this room it does not matter which scale you take.
"""

# %% [markdown] exercise="best-scale" points=4 minutes=15 difficulty=1
r"""
### The best static scale for a histogram

Write `best_scale(counts, headroom)`: the best scale $2^k$, with an integer $k$, for float16.

- **In**: `counts`, a dict from exponents to how many gradients have them, as `count_exponents` returns it. A count may
  be 0: such a bin is empty. At least one bin is not. `headroom`, an integer of 0 or more: so many times may the gradients still double during the
  training.
- **Out**: the scale, a Python float.
- *Safe*: a gradient of exponent $e$ gets $e + k$. With the headroom added, it stays **below 15** (`FIRST_UNSAFE`): from 15 on
  it may become inf. Only safe scales count.
- Of the safe scales take those with the fewest gradients that become 0, which have $e + k$ below -25 (`FIRST_KEPT`).
- Of these take those with the fewest subnormal ones ($e + k$ from -25 to -15).
- Of these take the one whose $k$ is closest to 0. No $k$ beyond 80 or -80 is needed.

<!-- hint: For one given k, how many gradients become 0, and how many are subnormal? Is that k safe? -->
<!-- hint: Try all k from -80 to 80. Throw away those that are not safe, and compare the rest by three numbers, the first of which decides unless it is equal. -->
<!-- hint: Python compares tuples just so. `min` over the safe k, with a key that returns (zeros, subnormals, abs(k)), is the exponent; empty bins are left out of everything. -->
"""


# %% solution="best-scale"
def best_scale(counts, headroom):
    """Return the best power of two to scale gradients with these ``counts`` by, a float."""
    ### BEGIN SOLUTION
    counts = {exponent: count for exponent, count in counts.items() if count}

    def harm(k):
        zeros = sum(count for e, count in counts.items() if e + k < FIRST_KEPT)
        below = sum(count for e, count in counts.items() if e + k < FIRST_NORMAL)
        return zeros, below - zeros, abs(k)

    largest = FIRST_UNSAFE - 1 - headroom - max(counts)
    return 2.0 ** min(range(-80, min(largest, 80) + 1), key=harm)
    ### END SOLUTION


# %% test="best-scale"
check = Check("best-scale")


def draw_counts(low, high):
    """Return counts for the exponents from low to high, both with at least one gradient."""
    return {e: 1 + check.draw.integer(0, 50) for e in range(high, low - 1, -1)}


def gives(counts, headroom, k):
    got = check.call(best_scale, counts, headroom)
    check.equal(got, 2.0**k, what=f"the scale (2^{k} is expected)")


with check.property("all gradients are made normal, with the scale closest to 1"):
    shift = check.draw.integer(0, 6)
    gives(draw_counts(-26 - shift, -12 - shift), 0, 12 + shift)
with check.property("the scale is 1 where all are normal and safe already, and only there"):
    low, low_before = check.draw.integer(-13, -9), check.draw.integer(-24, -18)
    cases = [(low, 0), (low_before, -14 - low_before)]
    for place in check.draw.permutation(2):
        low, k = cases[place]
        gives(draw_counts(low, low + 15), 2, k)
with check.property("the largest gradient stays below exponent 15, whatever becomes 0", weight=2):
    top = check.draw.integer(-9, -2)
    gives(draw_counts(top - 50, top), 0, 14 - top)
    top = check.draw.integer(18, 25)
    gives(draw_counts(3, top), 0, 14 - top)
with check.property("the headroom stays free", weight=2):
    headroom, top = 2 + check.draw.integer(0, 4), check.draw.integer(-9, -2)
    gives(draw_counts(top - 50, top), headroom, 14 - headroom - top)
with check.property("empty bins do not count"):
    low = check.draw.integer(-35, -25)
    gives({-2: 0, -60: 0, 9: 0, **draw_counts(low, low + 10)}, 1, -14 - low)
with check.property("a few zeros weigh more than many subnormal gradients"):
    shift = check.draw.integer(0, 5)
    gives({-30 - shift: 1, -16 - shift: 10_000, -11 - shift: 5, 8 - shift: 1}, 0, 5 + shift)
with check.property("scales far from 1"):
    shift = check.draw.integer(0, 4)
    for k in (74 + shift, 80):
        gives({-14 - k: 1 + check.draw.integer(0, 9)}, 0, k)
    for k in (-47 - shift, -80):
        gives({11 - k: 1 + check.draw.integer(0, 9)}, 3, k)
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("no larger than it takes: a gap in the histogram"):
    # The lone bin at -50 is kept as soon as k is 25; -5 allows 19, so it is lost anyway.
    counts = {-50: 1 + check.draw.integer(0, 9), -18: 20, -5: 7}
    gives(counts, 0, 4)
    # At -40 it can be kept (k of 15), never made normal; -18 is normal then as well.
    counts = {-40: 1 + check.draw.integer(0, 9), -18: 20, -5: 7}
    gives(counts, 0, 15)
with check.property("a few zeros and many subnormal gradients, both with headroom"):
    few = 1 + check.draw.integer(0, 3)
    gives({-33: few, -19: 1000 + check.draw.integer(0, 900), 3: 2}, 2, 8)
with check.property("the smallest and the largest scale that are needed"):
    gives({-94: 1 + check.draw.integer(0, 9)}, 0, 80)
    gives({90: 1 + check.draw.integer(0, 9)}, 4, -80)
    gives({91: 1 + check.draw.integer(0, 9)}, 3, -80)
### END HIDDEN TESTS
check.score()

# %% [markdown]
r"""
## A scale that looks after itself

A static scale has two weaknesses. Somebody must look at a histogram. And gradients change: how far does the plate's histogram wander
during a training? (In float32 again, the largest gradient of all layers in each step.)
"""


# %%
def largest_exponents(steps=120):
    model = make_plate_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    found = []
    for _ in range(steps):
        gradients = activation_gradients(model, plate_error, points, bend)
        found.append(max(count_exponents(gradients)))
        optimizer.zero_grad()
        plate_error(model(points), bend).backward()
        optimizer.step()
    return found


wandering = largest_exponents()
print(f"exponent of the largest gradient: {wandering[0]} at first, {wandering[-1]} at the end")

# %% [markdown]
r"""
It has become several times smaller, and that in 120 steps of a toy. So let the scale follow, by two rules:

- **inf or nan in a gradient**: the scale was too large, perhaps. Throw this step away, and halve the scale.
- **no inf for 2000 steps in a row**: there may be room. Double the scale.

This is *dynamic* loss scaling. It never looks at a histogram. It finds the right end of the room by bumping into it, and pays with a
lost step each time. `torch.amp.GradScaler` does it:

| call | what it does |
| --- | --- |
| `scaler.scale(loss)` | returns the loss times the scale |
| `scaler.unscale_(optimizer)` | notes whether one of the optimizer's gradients holds an inf or a nan, and divides them by the scale, in place |
| `scaler.step(optimizer)` | does that, unless it was done since the last update; then calls `optimizer.step()`, or leaves it out if there was an inf or a nan |
| `scaler.update()` | once at the end of the iteration: sets the scale for the next one |

Its settings are `init_scale=2**16`, `growth_factor=2.0`, `backoff_factor=0.5`, `growth_interval=2000`. The whole training step:

```python
optimizer.zero_grad()
with torch.autocast(device, dtype=torch.float16):
    loss = loss_function(model(inputs), targets)
scaler.scale(loss).backward()
scaler.step(optimizer)
scaler.update()
```

Watch one at work. Its growth interval is 4, so that something happens, and in five of its steps the gradient is made inf.
"""

# %%
BAD_STEPS = {6, 7, 15, 22, 31}


def watch_scaler(bad_steps, steps=36, **settings):
    """Return for each step the scale, the count of steps since the last change, and what happened."""
    weight = torch.ones(3, device=device, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    scaler = torch.amp.GradScaler(device, **settings)
    rows = []
    for step in range(steps):
        slope = math.inf if step in bad_steps else 1.0
        before = weight.detach().clone()
        optimizer.zero_grad()
        scaler.scale((slope * weight).sum()).backward()
        scale, tracker = scaler.get_scale(), scaler.state_dict()["_growth_tracker"]
        scaler.step(optimizer)
        scaler.update()
        stepped = not torch.equal(weight.detach(), before)
        kind = "skip" if not stepped else "grow" if scaler.get_scale() > scale else "count"
        rows.append((scale, tracker, kind))
    return rows


trace = watch_scaler(BAD_STEPS, init_scale=2.0**10, growth_interval=4)
print("The first 18 steps; ✗ is a skipped step, after ▲ the scale doubles:")
print("step:   ", " ".join(f"{step:>2}" for step in range(18)))
print("log2:   ", " ".join(f"{int(math.log2(scale)):>2}" for scale, *_ in trace[:18]))
print("counter:", " ".join(f"{tracker:>2}" for _, tracker, _ in trace[:18]))
print(
    "        ",
    " ".join({"skip": " ✗", "grow": " ▲", "count": "  "}[kind] for *_, kind in trace[:18]),
)

# %% folded="Plot: A scaler at work"
figure, (upper, lower) = new_figure(2, 1, height=4.4, sharex=True, height_ratios=(1.6, 1))
exponents = [math.log2(scale) for scale, *_ in trace]
upper.step(range(len(trace)), exponents, where="mid", color=COLORS["blue"], label="scale")
for kind, marker, color, label in (
    ("skip", "x", "vermilion", "inf: the step is skipped"),
    ("grow", "^", "green", "fourth step in a row: growth"),
):
    places = [step for step, row in enumerate(trace) if row[2] == kind]
    upper.plot(
        places, [exponents[p] for p in places], marker, ms=9, color=COLORS[color], label=label
    )
upper.set(title="A scaler at work", ylabel="log2 of the scale", ylim=(8.4, 12.9))
upper.set_yticks([9, 10, 11])
upper.legend(loc="upper left", fontsize=9, ncols=3)
lower.step(range(len(trace)), [row[1] for row in trace], where="mid", color=COLORS["black"])
lower.set(title="Its counter", xlabel="step", ylabel="steps without inf")
show(
    figure,
    alt="Two plots over 36 steps. Above, the base-2 logarithm of the scale: it starts at 10, rises by one after "
    "every fourth step without inf in a row and falls by one after each of the five steps with inf. Below, the "
    "counter rises from 0 to 3 and returns to 0 with every growth and every inf.",
)

# %% [markdown]
r"""
All that the scaler knows is two numbers: the scale, and how many steps it has been without an inf. It is a
*state machine*. Put the two on two axes, and the same run becomes a walk on a board:
"""

# %% folded="Plot: The states of the run, and the ways it took between them"
figure, axes = new_figure(height=4.2)
colors = {"count": "blue", "grow": "green", "skip": "vermilion"}
labels = {
    "count": "no inf: the counter goes up by one",
    "grow": "no inf, counter full: the scale doubles",
    "skip": "inf: the step is skipped, the scale is halved",
}
states = [(tracker, math.log2(scale)) for scale, tracker, _ in trace]
ways = zip(states[:-1], states[1:], [row[2] for row in trace[:-1]], strict=True)
for start, end, kind in dict.fromkeys(ways):
    bent = {"count": 0.0, "grow": -0.08, "skip": -0.05}[kind]
    arrow = {"arrowstyle": "-|>", "color": COLORS[colors[kind]], "lw": 1.6, "shrinkA": 9}
    axes.annotate(
        "", end, start, arrowprops={**arrow, "shrinkB": 9, "connectionstyle": f"arc3,rad={bent}"}
    )
for kind, color in colors.items():
    axes.plot([], [], color=COLORS[color], label=labels[kind])
axes.plot(*zip(*states, strict=True), "o", ms=13, color="white", markeredgecolor="black", zorder=3)
axes.plot(*states[0], "o", ms=13, color=COLORS["sky"], markeredgecolor="black", zorder=4)
axes.set(
    title="The states of the run, and the ways it took between them",
    xlabel="counter (steps without inf)",
    ylabel="log2 of the scale",
    xticks=range(4),
    yticks=sorted(set(map(int, exponents))),
    xlim=(-0.5, 3.5),
    ylim=(min(exponents) - 0.5, max(exponents) + 0.5),
)
figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=9)
show(
    figure,
    alt="A board of circles: the counter, 0 to 3, against the base-2 logarithm of the scale. Blue arrows go to the "
    "right, one step at a time. From the last column a green arrow goes back to the first, one row up. Red "
    "arrows go from several circles to the first column, one row down. The run starts at counter 0 and row 10.",
)

# %% [markdown]
"""
Three things are easy to get wrong, and the picture settles them.

- The counter starts anew after a skip *and* after a growth.
- Growth comes at the end of the fourth step in a row, not at the beginning of the fifth.
- A skip costs the step, and nothing else: weights, and what the optimizer remembers, stay as they are.

The skip needs no repair, either. The gradients are garbage, but the next `zero_grad` clears them.

### More than one optimizer, more than one loss

There is *one* scale. Several losses, say those of a generator and a discriminator, are each scaled by it. Each
optimizer is stepped by `scaler.step`, and each is skipped on its own account: only if *its* gradients hold an inf. Then there is one
`update`, and if any of them held an inf, the scale is halved. Once.
"""

# %%
first = torch.ones(2, device=device, requires_grad=True)
second = torch.ones(2, device=device, requires_grad=True)
optimizers = [torch.optim.SGD([weight], lr=0.5) for weight in (first, second)]
scaler = torch.amp.GradScaler(device, init_scale=1024.0)
scaler.scale((math.inf * first).sum()).backward()
scaler.scale(second.sum()).backward()
for optimizer in optimizers:
    scaler.step(optimizer)
scaler.update()
print("first, whose gradient was inf:", first.tolist())
print("second:                       ", second.tolist())
print("the scale was 1024 and is     ", scaler.get_scale())

# %% [markdown] exercise="own-scaler" points=6 minutes=35 difficulty=3
"""
### Your own GradScaler

Write the class `LossScaler`, which behaves like `torch.amp.GradScaler` and uses neither it nor any other scaler of torch, nor torch's operators made for scalers (`torch._amp_...`). If one of
these is used, nothing else counts.

- `LossScaler(init_scale, growth_factor, backoff_factor, growth_interval)`, with the defaults that you see.
- `get_scale()`: the scale, a Python float.
- `scale(loss)`: the loss times the scale, a tensor through which autograd can go. The loss itself stays as it is.
- `unscale_(optimizer)`: divides the gradients of all parameters of all of the optimizer's groups (`optimizer.param_groups`, each with a list `"params"`) by the
  scale, in place, and notes whether one of them held an inf or a nan. A parameter whose `.grad` is None is left out. A second call for the same optimizer before the next
  `update()` raises a `RuntimeError`.
- `step(optimizer)`: unscales, unless that was done since the last update; calls `optimizer.step()` if no gradient held an inf or a nan.
  A skipped step leaves the optimizer alone, which may have a momentum. **Returns True** if it called it and **False** if not. (Torch's returns nothing useful; you will miss it in a later exercise.)
- `update()`: called once after all optimizers of the iteration. If any of them had an inf or a nan, the scale is multiplied by
  `backoff_factor`, below 1 as well. If none, and this was the `growth_interval`-th such iteration in a row, it is multiplied by `growth_factor`. A new row begins after either.

Scales stay far from the ends of float32's range. Before an update nobody calls `step` twice for one optimizer, or `unscale_` after it.

<!-- hint: What must the scaler remember from one iteration to the next, and what only until `update`? -->
<!-- hint: Two numbers stay, the scale and the counter. Until the update it must know which optimizers are unscaled, and which of them held an inf: a dict from `id(optimizer)` to a bool is enough. -->
<!-- hint: `unscale_` walks over the groups, asks `torch.isfinite(p.grad).all()` and divides by `p.grad.div_(...)`. `step` calls it if the optimizer is not in the dict. `update` looks whether any value of the dict says inf, changes scale and counter, and empties the dict. -->
"""


# %% solution="own-scaler"
class LossScaler:
    """Scales losses, unscales gradients, skips steps with inf or nan, and adapts the scale."""

    def __init__(
        self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000
    ):
        ### BEGIN SOLUTION
        self._scale = float(init_scale)
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        self._steps_without_inf = 0
        self._has_inf = {}
        ### END SOLUTION

    def get_scale(self):
        ### BEGIN SOLUTION
        return self._scale
        ### END SOLUTION

    def scale(self, loss):
        ### BEGIN SOLUTION
        return loss * self._scale
        ### END SOLUTION

    def unscale_(self, optimizer):
        ### BEGIN SOLUTION
        if id(optimizer) in self._has_inf:
            raise RuntimeError("unscale_() was already called since the last update()")
        grads = [p.grad for group in optimizer.param_groups for p in group["params"]]
        grads = [grad for grad in grads if grad is not None]
        self._has_inf[id(optimizer)] = not all(torch.isfinite(grad).all() for grad in grads)
        for grad in grads:
            grad.div_(self._scale)
        ### END SOLUTION

    def step(self, optimizer):
        ### BEGIN SOLUTION
        if id(optimizer) not in self._has_inf:
            self.unscale_(optimizer)
        if self._has_inf[id(optimizer)]:
            return False
        optimizer.step()
        return True
        ### END SOLUTION

    def update(self):
        ### BEGIN SOLUTION
        if any(self._has_inf.values()):
            self._scale *= self._backoff_factor
            self._steps_without_inf = 0
        else:
            self._steps_without_inf += 1
            if self._steps_without_inf == self._growth_interval:
                self._scale *= self._growth_factor
                self._steps_without_inf = 0
        self._has_inf = {}
        ### END SOLUTION


# %% test="own-scaler"
check = Check("own-scaler")
BAD = {"i": math.inf, "n": math.nan, "m": -math.inf}


def draw_slopes(pattern, *size):
    """Return one gradient for each letter of the pattern; "." is an ordinary one."""
    slopes = [check.draw.normal(*size) for _ in pattern]
    for slope, letter in zip(slopes, pattern, strict=True):
        if letter in BAD:
            slope[check.draw.integer(0, size[0])] = BAD[letter]
    return slopes


def one_by_one(slopes):
    """Return the steps of an ordinary training with one optimizer and one parameter."""
    steps = []
    for slope in slopes:
        steps += [("clear",), ("backward", 0, [slope]), ("step", 0), ("update",)]
    return steps


def by_torch(weights, steps, learning_rate, **settings):
    """Take torch's own scaler through the same steps."""
    scaler = torch.amp.GradScaler("cpu", **settings)
    parameters = [[w.clone().requires_grad_(True) for w in given] for given in weights]
    optimizers = [
        torch.optim.SGD([{"params": [p]} for p in given], lr=learning_rate, momentum=0.5)
        for given in parameters
    ]
    results = []
    for name, *given in steps:
        result = None
        if name == "backward":
            ways = zip(parameters[given[0]], given[1], strict=True)
            losses = [(p * slope).sum() for p, slope in ways if slope is not None]
            scaler.scale(torch.stack(losses).sum()).backward()
            result = [None if p.grad is None else p.grad.clone() for p in parameters[given[0]]]
        elif name == "clear":
            for optimizer in optimizers:
                optimizer.zero_grad()
        elif name == "unscale":
            try:
                scaler.unscale_(optimizers[given[0]])
                result = [None if p.grad is None else p.grad.clone() for p in parameters[given[0]]]
            except RuntimeError:
                result = "RuntimeError"
        elif name == "step":
            before = [p.detach().clone() for p in parameters[given[0]]]
            scaler.step(optimizers[given[0]])
            after = [p.detach().clone() for p in parameters[given[0]]]
            pairs = zip(before, after, strict=True)
            result = {"returned": any(not torch.equal(b, a) for b, a in pairs), "weights": after}
        elif name == "update":
            scaler.update()
            result = scaler.get_scale()
        results.append(result)
    return results


def same_as_torch(weights, steps, about="", learning_rate=0.5, rtol=1e-5, **settings):
    given = {"learning_rate": learning_rate, **settings}
    got = check.call(probes.scaler_steps, LossScaler, weights, steps, **given)
    expected = by_torch(weights, steps, learning_rate, **settings)
    updates = 1
    for (name, *given), one, other in zip(steps, got, expected, strict=True):
        of = f" of optimizer {given[0]}" if len(weights) > 1 and given else ""
        what = {"update": "the scale", "step": "the step" + of, "backward": "the gradients" + of}
        what["unscale"] = "unscale_" + of
        where = f"{what.get(name, name + of)} in iteration {updates}"
        where += f" of {about} (i inf, m -inf, n nan)" if about else ""
        check.close(one, other, rtol=rtol, atol=1e-6, what=where)
        updates += name == "update"


with check.property("without inf, the steps are those without a scaler; torch's own is not used"):
    loss = check.draw.normal(3)[0].clone()
    got = check.call(
        probes.scaler_steps, LossScaler, [], [("scale", loss)], learning_rate=1.0, init_scale=8.0
    )
    check.close(got[0]["scaled"], 8.0 * loss, what="the scaled loss")
    check.equal(got[0]["loss"], loss, what="the loss after the call")
    size = check.draw.integer(2, 7)
    weights, slopes = [[check.draw.normal(size)]], draw_slopes("....", size)
    scale = 2.0 ** check.draw.integer(3, 20)
    same_as_torch(weights, one_by_one(slopes), init_scale=scale)
    check.written_without(
        *("*grad*scaler*", "*_amp_*", "scaled_steps", "scheduled_steps", "trained_in_windows")
    )
with check.property("inf, -inf and nan: the step is skipped and the scale backs off", weight=2):
    for pattern, scale in ((".i.nmm.", 4096.0), ("in.", 2.0)):
        size = check.draw.integer(2, 7)
        weights, slopes = [[check.draw.normal(size)]], draw_slopes(pattern, size)
        same_as_torch(weights, one_by_one(slopes), pattern, init_scale=scale)
with check.property("a bad gradient of either parameter is enough; one has no gradient"):
    weights, steps = [[check.draw.normal(3), check.draw.normal(4), check.draw.normal(2)]], []
    for one, other in zip(draw_slopes("..i...m", 3), draw_slopes(".n..i..", 2), strict=True):
        steps += [("clear",), ("backward", 0, [one, None, other]), ("step", 0), ("update",)]
    same_as_torch(weights, steps, "..i...m and .n..i..", init_scale=256.0)
with check.property(
    "growth after so many iterations in a row, each inf begins a new row", weight=2
):
    pattern = "....i...n.......i.."
    weights, slopes = [[check.draw.normal(3)]], draw_slopes(pattern, 3)
    same_as_torch(weights, one_by_one(slopes), pattern, init_scale=16.0, growth_interval=3)
with check.property("unscale_ before step: the gradients are divided once, and not twice"):
    size = check.draw.integer(2, 7)
    weights, slopes = [[check.draw.normal(size)]], draw_slopes("..", size)
    steps = []
    for slope in slopes:
        steps += [("clear",), ("backward", 0, [slope]), ("unscale", 0), ("step", 0), ("update",)]
    same_as_torch(weights, steps, init_scale=512.0)
    steps = [("backward", 0, slopes[:1]), ("unscale", 0), ("unscale", 0)]
    same_as_torch(weights, steps, init_scale=512.0)
with check.property(
    "two optimizers: one is skipped, one steps, the scale backs off once", weight=2
):
    weights = [[check.draw.normal(3)], [check.draw.normal(2)]]
    steps = []
    for one, other in zip(draw_slopes(".i..ii.", 3), draw_slopes("..i..i.", 2), strict=True):
        steps += [("clear",), ("backward", 0, [one]), ("backward", 1, [other])]
        steps += [("step", 0), ("step", 1), ("update",)]
    same_as_torch(weights, steps, ".i..ii. and ..i..i.", init_scale=64.0, growth_interval=2)
with check.property("other factors, and the defaults"):
    settings = {"init_scale": 5.0, "growth_factor": 1.5, "backoff_factor": 0.125}
    weights, slopes = [[check.draw.normal(4)]], draw_slopes("...i....", 4)
    same_as_torch(weights, one_by_one(slopes), "...i....", growth_interval=2, **settings)
    same_as_torch(weights, one_by_one(slopes[:4]), "...i")
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("several parameters and losses, a parameter without a gradient"):
    weights = [[check.draw.normal(3), check.draw.normal(2), check.draw.normal(4)]]
    steps = []
    for letter in "..n.i...":
        slopes = [check.draw.normal(3), None, *draw_slopes(letter, 4)]
        steps += [("clear",), ("backward", 0, slopes)]
        steps += [("backward", 0, [check.draw.normal(3), None, None])]
        steps += [("unscale", 0), ("step", 0), ("update",)]
    same_as_torch(weights, steps, init_scale=32.0, growth_interval=2)
with check.property("gradients that overflow by the scale itself, until it is small enough"):
    slopes = [2.0**118 * check.draw.uniform(3, low=0.1, high=0.9) for _ in range(12)]
    for slope in slopes:
        slope[0] = 2.0**118
    weights = [[check.draw.normal(3)]]
    settings = {"init_scale": 2.0**14, "growth_interval": 3}
    same_as_torch(weights, one_by_one(slopes), learning_rate=2.0**-118, **settings)
with check.property("an interval of 1, with factors of another size, and the defaults again"):
    settings = {"init_scale": 9.0, "growth_factor": 3.0, "backoff_factor": 0.25}
    weights, slopes = [[check.draw.normal(2)]], draw_slopes("..i...in.", 2)
    same_as_torch(weights, one_by_one(slopes), growth_interval=1, **settings)
    same_as_torch(weights, one_by_one(slopes))
### END HIDDEN TESTS
check.score()

# %% [markdown]
r"""
When it is written, put it to use in cells of your own: in the training of the plate it takes four lines to
replace the static scale.

### The lower end

The first rule says that the scale was too large, *perhaps*. What if the inf has another cause, and comes back with every
step? Then every step is skipped, and the scale is halved for ever. Nothing stops it at 1.
"""


# %%
def after_bad_steps(count):
    """Skip ``count`` steps, then make one with the gradient (1, 2, 0)."""
    weight = torch.ones(3, device=device, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    scaler = torch.amp.GradScaler(device)
    good = torch.tensor([1.0, 2.0, 0.0], device=device)
    for slope in [math.inf] * count + [good]:
        optimizer.zero_grad()
        scale = scaler.get_scale()
        scaler.scale((slope * weight).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
    return scale, [round(entry, 1) for entry in weight.tolist()]


for count in (20, 143, 144, 166):
    scale, weight = after_bad_steps(count)
    text = f"2^{int(math.log2(scale))}" if scale else "0"
    print(f"after {count:>3} skipped steps the scale is {text:<6} and a good step gives {weight}")

# %% [markdown]
r"""
At $2^{-128}$ something unexpected happens. The scaled gradient is finite, so the scaler has no objection. Then it
multiplies by $1/S = 2^{128}$, which is inf in float32, and the step destroys the weights. The scaler looks at the gradients *before* it unscales them. After
166 skipped steps the scale is 0, and everything is lost in another way: $0 \cdot \infty$ is nan. (There has been
a proposal to forbid scales below 1: [pytorch issue 99640](https://github.com/pytorch/pytorch/issues/99640).)

So a scale below 1 is a symptom. **If the scale keeps falling, the inf does not come from the scale.** Log the scale, and look at it.

There is an upper end as well, lower than you would think, if the loss itself is float16. Its gradient is the scale, as a float16:
"""

# %%
for scale in (2.0**15, 2.0**16):
    x = torch.ones(4, device=device, requires_grad=True)
    loss = (x.half() * x.half()).mean()
    (torch.tensor(scale, device=device) * loss).backward()
    print(f"scale 2^{int(math.log2(scale))}, loss in {loss.dtype}: gradient {x.grad[0].item()}")

# %% [markdown]
"""
65536 is inf in float16. A scaler that starts there loses its first step and halves the scale. It tries 65536 again after every 2000 good steps, and
loses a step each time. Compute the loss in float32
(in an autocast region most losses are: chapter 03), and this end is gone.
"""

# %% [markdown]
r"""
## Between backward and step

After `scaler.scale(loss).backward()` the gradients in `.grad` are $S$ times too large. Whoever reads or changes them
there must know it. The classic case is clipping: if the norm of the gradient is larger than `max_norm`, the gradient is shortened to
that length. Take a gradient of length 5, `max_norm=1` and a learning rate of 1. The step should have length 1.
"""


# %%
def step_length(clip_first, scale):
    weight = torch.zeros(2, device=device, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=1.0)
    scaler = torch.amp.GradScaler(device, init_scale=scale)
    slope = torch.tensor([3.0, 4.0], device=device)
    scaler.scale((slope * weight).sum()).backward()
    if not clip_first:
        scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_([weight], max_norm=1.0)
    scaler.step(optimizer)
    return weight.detach().norm().item()


scale_exponents = range(0, 25, 2)

# %% folded="Plot: Length of a step, clipped to 1"
figure, axes = new_figure(height=3.0)
for clip_first, color, marker, label in (
    (False, "blue", "o", "unscale_, clip, step"),
    (True, "vermilion", "s", "clip, step"),
):
    lengths = [step_length(clip_first, 2.0**k) for k in scale_exponents]
    axes.plot(
        scale_exponents,
        [math.log2(n) for n in lengths],
        color=COLORS[color],
        marker=marker,
        label=label,
    )
    print(f"{label:<22} scale 1: {lengths[0]:.2f}, scale 65536: {lengths[8]:.2g}")
axes.set(
    title="Length of a step, clipped to 1",
    xlabel="log2 of the scale",
    ylabel="log2 of the step's length",
)
axes.legend()
show(
    figure,
    alt="Logarithm of the step's length against that of the scale. With unscale before clip it is 0 throughout. "
    "With clip before unscale it falls on a straight line, from 0 at scale 1 to minus 24 at scale 2 to the 24.",
)

# %% [markdown]
r"""
Clipped first, the gradient has length 1 and is *then* divided by 65536. The network hardly moves, and each doubling of
the scale halves its steps. No error, no warning. This shipped in a widely copied segmentation
network, where it went unnoticed until 2023
([Pytorch-UNet issue 468](https://github.com/milesial/Pytorch-UNet/issues/468)). The example in the documentation of `unscale_` has
the right order; so must everything that reads gradients: logging their norm, weight decay by hand, noise.

And if the gradient holds an inf? Then its norm is inf, clipping multiplies by $1/\infty = 0$, and $0 \cdot \infty$ is nan. The step is skipped
all the same, since `unscale_` has noted the inf before.

With `enabled=False` a scaler does nothing: it returns the loss as it is, and `step` steps. So one loop serves float16, bfloat16 and float32.
"""

# %% [markdown] exercise="clip-in-order" points=4 minutes=15 difficulty=1
"""
### Clipping in the right order

Write `clipped_step(scaler, optimizer, loss, max_norm)`: one training step, from the loss on.

- **In**: a scaler like `torch.amp.GradScaler`, perhaps disabled; an optimizer; a loss, a float32 tensor without dimensions,
  which depends on all of the optimizer's parameters; a positive Python float. What the last step left in `.grad` does not count.
- The gradient of the (unscaled) loss by all of the optimizer's parameters together is clipped to the norm `max_norm`. Then the optimizer makes its step, unless a gradient
  holds an inf or a nan. (A disabled scaler leaves no step out.) The scaler is updated.
- The optimizer may have several groups, and a momentum.
- **Out**: what belongs in a log: the norm of the unscaled gradient of all parameters together, before clipping, a Python float. (If the step was skipped, it does not
  matter what comes back, as long as it is a float.)

<!-- hint: Write down the seven things that happen. Which of them must see gradients that are divided already? -->
<!-- hint: Old gradients go, backward from the scaled loss, unscale, clip, step, update. The function that clips returns the norm from before. -->
<!-- hint: `torch.nn.utils.clip_grad_norm_` takes a list of parameters; collect them from the "params" of each of the optimizer's `param_groups`. Its result is a tensor: `.item()`. It comes right after the scaler's `unscale_`. -->
"""


# %% solution="clip-in-order"
def clipped_step(scaler, optimizer, loss, max_norm):
    """Make one scaled and clipped step; return the norm of the gradient, a float."""
    ### BEGIN SOLUTION
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    norm = torch.nn.utils.clip_grad_norm_(parameters, max_norm)
    scaler.step(optimizer)
    scaler.update()
    return norm.item()
    ### END SOLUTION


# %% test="clip-in-order"
check = Check("clip-in-order")


def draw_gradient(norm):
    """Return gradients by two parameters whose norm together is ``norm``."""
    slopes = [check.draw.normal(3), check.draw.normal(2)]
    slopes[0][0], slopes[1][0] = 2.0, -1.5  # neither of the two is small
    length = torch.cat(slopes).double().norm()
    return [(slope.double() * norm / length).float() for slope in slopes]


def steps_by_hand(weights, slopes, max_norm, learning_rate, momentum=0.5):
    """Return the weights after each step, and the norms."""
    states, norms = [], []
    ways = [0.0 * weight for weight in weights]
    for given in slopes:
        norm = torch.cat(given).double().norm().item()
        if math.isfinite(norm):
            share = min(1.0, max_norm / norm)
            ways = [momentum * way + share * s for way, s in zip(ways, given, strict=True)]
            weights = [w - learning_rate * way for w, way in zip(weights, ways, strict=True)]
        states.append(weights)
        norms.append(norm)
    return states, norms


def clipped_steps(slopes, max_norm, scales=None, learning_rate=0.5, **settings):
    weights = [check.draw.normal(3), check.draw.normal(2)]
    got = check.call(
        probes.scaled_steps,
        clipped_step,
        weights,
        slopes,
        max_norm=max_norm,
        learning_rate=learning_rate,
        **settings,
    )
    states, norms = steps_by_hand(weights, slopes, max_norm, learning_rate)
    for step, (one, state, norm) in enumerate(zip(got, states, norms, strict=True), start=1):
        if math.isfinite(norm):
            check.close(one["returned"], norm, rtol=1e-4, what=f"the norm of step {step}")
        else:
            check.true(type(one["returned"]) is float, "no float came back from a skipped step")
        check.close(one["weights"], state, rtol=1e-4, atol=1e-5, what=f"weights after step {step}")
        if scales:
            check.equal(one["scale"], scales[step - 1], what=f"the scale after step {step}")


def makes_a_bad_step(which, bad):
    """Let a scaler that is disabled make a step with one bad entry, in parameter ``which``."""
    slopes = draw_gradient(4.0)
    place = check.draw.integer(0, len(slopes[which]))
    slopes[which][place] = bad
    weights = [check.draw.normal(3), check.draw.normal(2)]
    options = {"max_norm": 1.5, "learning_rate": 0.5, "enabled": False}
    got = check.call(probes.scaled_steps, clipped_step, weights, [slopes], **options)
    for number, weight in enumerate(got[0]["weights"]):
        finite = torch.isfinite(weight)
        if number == which:
            told = f"the gradient held {bad}, the scaler is disabled, and the step was left out"
            check.true(not bool(finite[place]), told)
        expected = torch.tensor([(number, at) != (which, place) for at in range(len(weight))])
        check.equal(finite, expected, what=f"which entries of weight {number} are finite")


with check.property("a long gradient is clipped to max_norm, whatever the scale"):
    scale = 2.0 ** check.draw.integer(8, 20)
    clipped_steps([draw_gradient(check.draw.number(3.0, 9.0))], 1.25, [scale], init_scale=scale)
with check.property("a short gradient stays as it is", weight=2):
    slopes = [draw_gradient(check.draw.number(0.5, 0.9))]
    clipped_steps(slopes, 1.25, init_scale=2.0 ** check.draw.integer(8, 20))
with check.property("what was left in .grad does not count, and the scaler is updated", weight=2):
    slopes = [draw_gradient(norm) for norm in (5.0, 0.7, 2.0, 11.0)]
    clipped_steps(slopes, 1.5, [8.0, 16.0, 16.0, 32.0], init_scale=8.0, growth_interval=2)
with check.property("inf and nan: no step, and the scale backs off", weight=2):
    slopes = [draw_gradient(norm) for norm in (2.0, 3.0, 0.9, 4.0)]
    slopes[1][0][check.draw.integer(0, 3)] = math.inf
    slopes[2][1][check.draw.integer(0, 2)] = math.nan
    clipped_steps(slopes, 1.5, [512.0, 256.0, 128.0, 128.0], init_scale=512.0)
with check.property("a scaler that is disabled"):
    clipped_steps([draw_gradient(norm) for norm in (4.0, 0.6)], 1.5, [1.0, 1.0], enabled=False)
with check.property("a disabled scaler leaves no step out, whatever the gradient holds"):
    makes_a_bad_step(0, math.inf)
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("the norm is that of all parameters together"):
    slopes = [draw_gradient(norm) for norm in (6.0, 1.1, 0.8)]
    clipped_steps(slopes, 1.0, init_scale=2.0 ** check.draw.integer(2, 12))
with check.property("a longer run with growth, skips, short and long gradients"):
    slopes = [draw_gradient(norm) for norm in (0.6, 7.0, 3.0, 0.8, 5.0, 2.0, 0.9)]
    slopes[2][1][check.draw.integer(0, 2)] = -math.inf
    scales = [4.0, 8.0, 4.0, 4.0, 8.0, 8.0, 16.0]
    clipped_steps(slopes, 1.25, scales, init_scale=4.0, growth_interval=2)
with check.property("a disabled scaler, and a bad gradient of the other parameter"):
    makes_a_bad_step(1, -math.inf)
### END HIDDEN TESTS
check.score()

# %% [markdown]
r"""
## Schedules and skipped steps

A learning-rate schedule counts steps. Which? The usual loop says `scheduler.step()` at its end, in every iteration. The scaler
has skipped some of them. Take a warm-up, which raises the learning rate over its first 20 steps, because the first steps are the dangerous ones. And
take a scaler whose scale is $2^{9}$ times too large at the beginning, so that it skips the first nine.
"""


# %%
def warm_up(follow_real_steps, iterations=36):
    """Return the learning rate of each step that was really made."""
    weight = torch.ones(2, device=device, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=1.0)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 0.05, total_iters=20)
    scaler = torch.amp.GradScaler(device)
    rates, made = [], []
    optimizer.register_step_post_hook(lambda *_: made.append(True))
    for _ in range(iterations):
        optimizer.zero_grad()
        # The largest float32 is just below 2^128: a scale of 2^7 is small enough.
        scaler.scale((2.0**120 * weight).sum()).backward()
        made.clear()
        rate = scheduler.get_last_lr()[0]
        scaler.step(optimizer)
        scaler.update()
        if made:
            rates.append(rate)
        if made or not follow_real_steps:
            scheduler.step()
    return rates


with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    usual = warm_up(follow_real_steps=False)
followed = warm_up(follow_real_steps=True)
print("torch warns:", str(caught[0].message)[:66])
print(f"the first real step, usual loop: learning rate {usual[0]:.2f}")
print(f"the first real step, followed:   learning rate {followed[0]:.2f}")

# %% folded="Plot: Warm-up over 20 steps, the first nine skipped"
figure, axes = new_figure(height=3.0)
axes.plot(usual, "s-", ms=4, color=COLORS["vermilion"], label="scheduler.step() in every iteration")
axes.plot(followed, "o-", ms=4, color=COLORS["blue"], label="only after a real step")
axes.set(
    title="Warm-up over 20 steps, the first nine skipped",
    xlabel="steps that the optimizer had made before",
    ylabel="learning rate",
)
axes.legend(loc="lower right")
show(
    figure,
    alt="Learning rate against the number of real steps. If the scheduler steps in every iteration, the first real "
    "step has a rate of 0.48, nearly half of the final rate, and the warm-up ends early. If it follows the real "
    "steps, the first one has 0.05 and the warm-up takes 20 steps.",
)

# %% [markdown]
r"""
Nearly half of the warm-up was over before the first weight moved. Torch's warning is right, and usually taken for noise. (The issues are open since 2020 and 2021:
[pytorch 44511](https://github.com/pytorch/pytorch/issues/44511), [55585](https://github.com/pytorch/pytorch/issues/55585).)

How do you know whether a step was made? `scaler.step` does not tell. Three ways:

1. Compare the scale before and after `update`: a smaller one means a skip. That is what
   [transformers](https://github.com/huggingface/transformers/pull/11144) did. But the scale is *one* for all optimizers. If the
   first was skipped and the second was not, the scale fell, and you cannot tell who it was.
2. After `scaler.unscale_(optimizer)`, look at the gradients: are all of them finite?
3. Ask the optimizer. A hook, as in the cell above, is called after each real call of its `step`: `handle = optimizer.register_step_post_hook(f)` calls
   `f(optimizer, args, kwargs)`, until `handle.remove()`.
   [Accelerate](https://github.com/huggingface/accelerate) watches the call as well, and has an attribute `optimizer.step_was_skipped`.
   (*Fused* optimizers, `fused=True`, do all of a step in one kernel. It looks for inf itself, so their `step` is called in any case. There way 2 helps.)
"""

# %% [markdown] exercise="follow-real-steps" points=4 minutes=20 difficulty=2
"""
### A scheduler that follows the real steps

Write `follow_steps(scaler, optimizers, schedulers)`: the end of an iteration.

- **In**: a `torch.amp.GradScaler`; a list of optimizers, none of them fused, each with one or several groups of parameters, which hold scaled gradients that nobody has unscaled yet; a list of as many
  schedulers, each for the optimizer at the same place.
- Every optimizer makes its step by way of the scaler, or is skipped by it. The scaler is updated once.
- The scheduler of each optimizer that **really made its step** (with gradients of 0, too) is stepped once, after it. The others are not.
- **Out**: nothing. The function is called again in the next iteration, with the same objects.

<!-- hint: With two optimizers there are four cases. What does the scale do in each of them, and what should each scheduler do? -->
<!-- hint: The scale is no witness, it is the same in three of the four cases. Ask each optimizer for itself: by its gradients, or by a hook. -->
<!-- hint: Call `scaler.unscale_` for the optimizer and look whether `torch.isfinite` is true of every entry of every gradient that is not None. Then `scaler.step`; then that one's scheduler, if it was true. The update comes after the loop. -->
"""


# %% solution="follow-real-steps"
def follow_steps(scaler, optimizers, schedulers):
    """Step optimizers by way of the scaler, and the schedulers of those that really stepped."""
    ### BEGIN SOLUTION
    for optimizer, scheduler in zip(optimizers, schedulers, strict=True):
        made = []
        handle = optimizer.register_step_post_hook(lambda *_, made=made: made.append(True))
        scaler.step(optimizer)
        handle.remove()
        if made:
            scheduler.step()
    scaler.update()
    ### END SOLUTION


# %% test="follow-real-steps"
check = Check("follow-real-steps")


def schedule_by_hand(weights, slopes, rate, decay, scale, interval):
    """Return what should be there after each step: rates, weights and the scale."""
    weights, rates = list(weights), [rate for _ in weights]
    row, states = 0, []
    for of_step in slopes:
        finite = [bool(torch.isfinite(scale * torch.cat(given)).all()) for given in of_step]
        for k, given in enumerate(of_step):
            if finite[k]:
                pairs = zip(weights[k], given, strict=True)
                weights[k] = [weight - rates[k] * slope for weight, slope in pairs]
                rates[k] *= decay
        row = row + 1 if all(finite) else 0
        if not all(finite):
            scale *= 0.5
        elif row == interval:
            scale, row = scale * 2.0, 0
        states.append({"rates": list(rates), "weights": list(weights), "scale": scale})
    return states


def follows(patterns, decay=0.5, scale=256.0, interval=1000):
    """Run as many optimizers as there are patterns, each with two parameters.

    "0" makes both gradients 0. A letter makes a gradient bad: that of the second parameter if it
    is a capital.
    """
    sizes = [2 + check.draw.integer(0, 5) for _ in patterns]
    weights = [[check.draw.normal(size), check.draw.normal(3)] for size in sizes]
    slopes = []
    for letters in zip(*patterns, strict=True):
        given = [[check.draw.normal(size), check.draw.normal(3)] for size in sizes]
        for pair, letter in zip(given, letters, strict=True):
            if letter == "0":
                pair[0].zero_(), pair[1].zero_()
            elif letter != ".":
                slope = pair[letter.isupper()]
                place = check.draw.integer(0, len(slope))
                slope[place] = math.inf if letter in "iI" else math.nan
        slopes.append(given)
    got = check.call(
        probes.scheduled_steps,
        follow_steps,
        weights,
        slopes,
        learning_rate=1.0,
        decay=decay,
        init_scale=scale,
        growth_interval=interval,
    )
    expected = schedule_by_hand(weights, slopes, 1.0, decay, scale, interval)
    about = f"of {' and '.join(patterns)} (i inf, n nan, 0 zeros)"
    for step, (one, other) in enumerate(zip(got, expected, strict=True), start=1):
        for key, name in (("rates", "learning rates"), ("weights", "weights"), ("scale", "scale")):
            what = f"{name} after iteration {step} {about}"
            check.close(one[key], other[key], rtol=1e-5, atol=1e-6, what=what)


with check.property("without inf every optimizer and every scheduler steps, and the scale grows"):
    follows(["....", "....", "...."], decay=check.draw.number(0.5, 0.9), interval=2)
with check.property("one optimizer: its scheduler waits where the step is skipped", weight=2):
    follows([".I.nn.."], decay=check.draw.number(0.5, 0.9))
with check.property("the first is skipped, the second is not, and the other way round", weight=3):
    follows([".i...N.", "...I..."], decay=check.draw.number(0.5, 0.9))
with check.property("the scale backs off once in an iteration, also if two are skipped"):
    follows([".iI.", ".i..", "...."], decay=0.8, scale=4096.0)
with check.property("gradients of 0 are a real step, too"):
    follows([".0.00"], decay=check.draw.number(0.5, 0.9))
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("growth and skips mixed, three optimizers"):
    follows(["...i.....", "......n..", ".........", ".......ii"], decay=0.7, scale=64.0, interval=3)
with check.property("gradients of 0 beside steps that are skipped"):
    follows(["0..0", ".0i."], decay=check.draw.number(0.5, 0.9), scale=16.0)
### END HIDDEN TESTS
check.score()

# %% [markdown]
"""
## Bfloat16 needs no scaler

Bfloat16 has the 8 exponent bits of float32, and with them its range. The plate's gradients fit without help:
"""

# %%
for dtype in (torch.float16, torch.bfloat16):
    share = (plate_gradients.to(dtype) == 0).double().mean().item()
    print(
        f"{dtype!s:<15} gradients that become 0: {share:.0%}, the largest number: {torch.finfo(dtype).max:.3g}"
    )
errors_bfloat16, _ = train_plate(lower=torch.bfloat16)
print(f"trained in bfloat16 without a scale, the error goes below 0.1: {errors_bfloat16[-1] < 0.1}")

one, other = (
    activation_gradients(make_plate_model(), plate_error, points, bend, scale, torch.bfloat16)
    for scale in (1.0, 2.0**16)
)
print(
    "with the scale 65536 the gradients are the same to the last bit:",
    torch.equal(one, other / 2.0**16),
)

# %% [markdown]
"""
The last line settles another belief: that a scale of 65536 "easily overflows" with bfloat16. It neither helps nor harms. What bfloat16
lacks is digits, 8 in base 2 where float16 has 11, and no scale gives them back.
"""

# %% [markdown]
r"""
## Three causes of nan, and what a scaler does for each

Notes on mixed precision tell of three reasons why a loss becomes nan: *digits are lost* in 16 bits; the loss holds a
*logarithm or a division*; the network is *too deep*. And they recommend a scaler. Let us produce all three, and see what the scaler does.

Three things are needed. First, a tool that makes one pass through a model and keeps what it sees:
"""


# %% tags=["needed"]
def examine(model, loss_function, inputs, targets, scale=1.0, lower=torch.float16):
    """Return what one pass forward and back leaves behind, as a record: a dict.

    "outputs" holds the output of every module that has no others inside, by its name, in the order
    in which they ran; "loss" is a float; "gradients" holds those of the parameters, by name, divided by the scale.
    ``lower`` is the dtype of the autocast region; no region if None.
    """
    outputs = {}
    handles = [
        module.register_forward_hook(
            lambda module, given, output, name=name: outputs.update({name: output.detach()})
        )
        for name, module in model.named_modules()
        if not list(module.children())
    ]
    region = torch.autocast(
        inputs.device.type, dtype=lower or torch.float16, enabled=lower is not None
    )
    with region:
        loss = loss_function(model(inputs), targets)
    for handle in handles:
        handle.remove()
    names, parameters = zip(*model.named_parameters(), strict=True)
    slopes = torch.autograd.grad(scale * loss, parameters)
    gradients = {name: slope / scale for name, slope in zip(names, slopes, strict=True)}
    return {"outputs": outputs, "loss": loss.item(), "gradients": gradients}


# %% [markdown]
r"""
Second, a step whose length does not depend on the size of the gradient: each gradient is divided by its own norm, $g / \lVert g \rVert$. (LARS, an
optimizer for large batches, does that, and multiplies by the norm of the weight, which we leave out.) And third, a loop that uses it, with a scaler:
"""


# %%
def train_by_length(model, loss_function, inputs, targets, scaler, lower=torch.float16, steps=12):
    """Train with steps of a fixed length; return the losses."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    losses = []
    for _ in range(steps):
        with torch.autocast(device, dtype=lower or torch.float16, enabled=lower is not None):
            loss = loss_function(model(inputs), targets)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        for weight in model.parameters():
            weight.grad /= weight.grad.norm()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses


def describe_losses(losses):
    if math.isnan(losses[-1]):
        return f"nan from step {[math.isnan(loss) for loss in losses].index(True) + 1} on"
    return "finite, and falling" if losses[-1] < losses[0] else "finite, not falling"


def new_scaler(enabled=True):
    return torch.amp.GradScaler(device, enabled=enabled)


# %% [markdown]
"""
### First cause: gradients become 0

The notes say that digits are lost. You know better by now: what is lost are whole numbers. The plate again, as one term in a sum of losses, with the
weight 0.1; so even the last few gradients go.
"""


# %%
def weighted_plate_error(outputs, targets):
    return 0.1 * plate_error(outputs, targets)


plate = weighted_plate_error, points, bend
for name, scaler, lower in (
    ("float32, no scaler", new_scaler(enabled=False), None),
    ("float16, no scaler", new_scaler(enabled=False), torch.float16),
    ("float16, scaler   ", new_scaler(), torch.float16),
):
    losses = train_by_length(make_plate_model(), *plate, scaler, lower)
    print(f"{name}: {describe_losses(losses)}")

record = examine(make_plate_model(), *plate)
print("without a scaler, gradients that are 0 in every entry:", end=" ")
print(
    sum(not slope.any() for slope in record["gradients"].values()), "of", len(record["gradients"])
)

# %% [markdown]
r"""
*Diagnosis*: outputs and loss are finite. A gradient is 0 in every entry, and 0 / 0 is nan. Underflow does not make a nan by itself. It makes a 0, and somebody
divides by it. *Cure*: the scaler. This is the one of the three that it is made for.

### Second cause: a logarithm in the loss

Digits, and a single layer whose logits are large. The loss is written by the book: softmax, then the logarithm of
the probability of the right digit.
"""

# %%
digit_images, digit_labels = digits()
pixels, labels = digit_images.flatten(1)[:256].to(device), digit_labels[:256].to(device)


def loss_by_the_book(logits, labels):
    probabilities = logits.softmax(dim=1)
    return -probabilities[torch.arange(len(labels), device=labels.device), labels].log().mean()


def loss_with_minus_100(logits, labels):
    probabilities = logits.softmax(dim=1)
    chosen = probabilities[torch.arange(len(labels), device=labels.device), labels].log()
    return -torch.where(chosen.isinf(), -100.0, chosen).float().mean()


def make_classifier():
    torch.manual_seed(0)
    layer = torch.nn.Linear(64, 10)
    torch.nn.init.normal_(layer.weight)
    return torch.nn.Sequential(layer).to(device)


def train_classifier(loss_function, scaler, steps=20):
    """Train; return whether the weights have moved, and whether all of them are finite."""
    model = make_classifier()
    start = model[0].weight.detach().clone()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(steps):
        with torch.autocast(device, dtype=torch.float16):
            loss = loss_function(model(pixels), labels)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    weight = model[0].weight.detach()
    return not torch.equal(weight, start), bool(torch.isfinite(weight).all())


wide = examine(make_classifier(), loss_by_the_book, pixels, labels, lower=None)
print("in float32 loss_by_the_book is", wide["loss"])
for loss_function in (loss_by_the_book, loss_with_minus_100, functional.cross_entropy):
    record = examine(make_classifier(), loss_function, pixels, labels)
    finite = bool(torch.isfinite(record["gradients"]["0.weight"]).all())
    print(
        f"{loss_function.__name__}: loss finite: {math.isfinite(record['loss'])}, gradient finite: {finite}"
    )
    for name, scaler in (("no scaler", new_scaler(enabled=False)), ("scaler", new_scaler())):
        moved, sound = train_classifier(loss_function, scaler)
        falls = f", scale 2^{int(math.log2(scaler.get_scale()))}" if scaler.is_enabled() else ""
        print(f"   {name}: weights finite: {sound}, weights moved: {moved}{falls}")
for k in (13, 14):
    record = examine(make_classifier(), functional.cross_entropy, pixels, labels, scale=2.0**k)
    finite = bool(torch.isfinite(record["gradients"]["0.weight"]).all())
    print(f"cross_entropy at the scale 2^{k}: gradient of the weight finite: {finite}")

# %% [markdown]
r"""
*Diagnosis*: the outputs are finite and the loss is inf. A probability became 0, and its logarithm is $-\infty$. This one has nothing to do with 16 bits: in
float32 it is the same.

*What the scaler does*: it keeps the nan out of the weights. That is all. Every step is skipped, nothing is learned, and the scale falls from
$2^{16}$ to $2^{-4}$. A run that crashed has become a run that stands still.

*What does not cure it*: putting -100 in the place of $-\infty$. The loss is finite then, and the gradient is still nan: `where` hides the value, not the derivative $1/0$ of the logarithm
(chapter 08 takes that apart). *Cure*: the fused form, `cross_entropy`. It never forms the probability. (For two classes: `binary_cross_entropy_with_logits`.) That its scale came down to $2^{13}$ is no illness: a gradient of
the weight, a sum over 256 digits, becomes inf at $2^{14}$. The scaler found the end of the room.

### Third cause: too deep

Twenty layers with sigmoids. The derivative of a sigmoid is 1/4 at most, so the gradient shrinks from layer to layer. Beside it a network of
the same depth whose blocks normalize their input and *add* to it, $x + \tanh(W \,\text{norm}(x))$.
"""

# %%
WIDTH, DEPTH = 32, 20
shades = pixels / 16


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.linear = torch.nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return x + torch.tanh(self.linear(self.norm(x)))


def make_deep(residual):
    torch.manual_seed(0)
    layers = [torch.nn.Linear(64, WIDTH)]
    for _ in range(DEPTH):
        layers += [Block()] if residual else [torch.nn.Sigmoid(), torch.nn.Linear(WIDTH, WIDTH)]
    return torch.nn.Sequential(*layers, torch.nn.Linear(WIDTH, 10)).to(device)


deep = functional.cross_entropy, shades, labels
for residual, name in ((False, "sigmoids"), (True, "residual")):
    for scaler, with_scaler in ((new_scaler(enabled=False), "no scaler"), (new_scaler(), "scaler")):
        losses = train_by_length(make_deep(residual), *deep, scaler)
        print(f"{name}, {with_scaler}: {describe_losses(losses)}")

# %% [markdown]
"""
The same nan as in the first case, and this time the scaler does not help. It even lets the nan into the weights. It looked for inf and nan in `unscale_`. The
loop divides 0 by 0 *afterwards*, and `step` does not look again.

But why are there zeros, with a scale of 65536? Examine both networks in float32 for the true gradients, and in float16 at many scales.
A parameter is *lost* at a scale if its gradient is inf or nan there, or 0 in every entry while the true one is not.
"""


# %%
def is_lost(gradient, true_gradient):
    vanished = not gradient.any() and bool(true_gradient.any())
    return vanished or not torch.isfinite(gradient).all()


def records_at(exponents, make_model, case):
    return {k: examine(make_model(), *case, scale=2.0**k) for k in exponents}


SCALE_EXPONENTS = range(0, 33, 4)
cases = {
    "plate": (make_plate_model, plate),
    "20 sigmoids": (lambda: make_deep(residual=False), deep),
    "20 residual blocks": (lambda: make_deep(residual=True), deep),
}
references = {
    name: examine(make_model(), *case, lower=None) for name, (make_model, case) in cases.items()
}
lost_share = {}
for name, (make_model, case) in cases.items():
    true_gradients = references[name]["gradients"]
    lost_share[name] = [
        sum(is_lost(slope, true_gradients[key]) for key, slope in record["gradients"].items())
        / len(true_gradients)
        for record in records_at(SCALE_EXPONENTS, make_model, case).values()
    ]
    print(f"{name:<19} a scale at which nothing is lost exists: {min(lost_share[name]) == 0}")

# %% folded="Plot: Largest gradient of a layer"
figure, (left, right) = new_figure(1, 2, width_ratios=(1, 1))
for (name, color), marker in zip(
    (("20 sigmoids", "vermilion"), ("20 residual blocks", "blue")), "so", strict=True
):
    sizes = [
        slope.abs().max().log2().item()
        for key, slope in references[name]["gradients"].items()
        if key.endswith("weight") and slope.dim() == 2
    ]
    left.plot(range(1, len(sizes) + 1), sizes, marker + "-", ms=4, color=COLORS[color], label=name)
left.axhspan(-24, 16, color=COLORS["sky"], alpha=0.2, label="float16: 40 doublings")
left.set(title="Largest gradient of a layer", xlabel="layer", ylabel="log2 of the gradient")
left.legend(fontsize=8, loc="lower right")
for (name, shares), color, marker in zip(
    lost_share.items(), ("green", "vermilion", "blue"), "^so", strict=True
):
    right.plot(SCALE_EXPONENTS, shares, marker + "-", ms=4, color=COLORS[color], label=name)
right.set(title="Lost parameters", xlabel="log2 of the scale", ylabel="share of the parameters")
right.set_ylim(-0.05, 1.6)
right.set_yticks([0.0, 0.2, 0.4, 0.6, 0.8, 1.0])
right.legend(fontsize=8, loc="upper left")
show(
    figure,
    alt="Left: the base-2 logarithm of the largest gradient in each layer. In the residual network all layers lie "
    "between about minus 5 and 0. In the network of sigmoids it falls from minus 6 in the last layer to about "
    "minus 60 in the first, while float16 spans 40. Right: the share of lost parameters against the scale. For the plate "
    "it falls from 1 to 0 and stays there. For the residual network it is 0 up to a scale of 2 to the 16 or so, then 1. For the sigmoids "
    "it never reaches 0.",
)

# %% [markdown]
r"""
*Diagnosis*: from the first layer to the last the gradients span more than 50 doublings. Float16 spans 40, from $2^{-24}$ to $2^{16}$. **One factor moves the whole histogram; it cannot make it narrower.**
Each scale that is large enough for the first layers is too large for the last. *What the scaler does*: nothing for the first layers. *Cure*: a network whose layers have gradients of like size. Normalization,
residual connections, a better start. Or a format with more exponents: bfloat16.

| cause | outputs | loss | gradients | the scaler | the cure |
| --- | --- | --- | --- | --- | --- |
| underflow | finite | finite | of some parameter 0 in every entry, at small scales only | **cures it** | a scale, or bfloat16 |
| a logarithm, a division | finite | inf or nan | nan | skips every step, the scale falls to 0 | the fused form |
| too deep | finite | finite | of some parameter 0 in every entry, or inf: at every scale | does not help | norm, residual, bfloat16 |
| overflow on the way (chapter 03) | inf or nan | inf or nan | inf or nan | skips every step, the scale falls to 0 | that part in float32 |
| a derivative that is infinite: the -100 above, a root at 0 (chapter 08) | finite | finite | inf or nan, at every scale | skips every step, the scale falls to 0 | keep the bad number out *before* the function |
"""

# %% [markdown] exercise="nan-doctor" points=6 minutes=25 difficulty=2
"""
### The nan doctor

Write `diagnose(records, reference)`, which names the cause.

- **In**: `records`, a dict from an integer k to the record that `examine` made in float16 at the scale 2^k. The keys are 0 or more, in no particular order; 0 is one of them. `reference`: the
  record in float32, at scale 1. Outputs and loss are the same in all records, since a scale changes only the way back. A record is a dict with `"outputs"` (a dict from names of modules to tensors, in the order in which they ran), `"loss"` (a float) and
  `"gradients"` (a dict from names of parameters to tensors).
- **Out**: a tuple of two. The first that applies, from the top down:

| what is seen | what is returned |
| --- | --- |
| a module's output holds an inf or a nan | `("forward", name)`, the name of the first such module |
| the loss is inf or nan | `("loss", None)` |
| every record has an inf or a nan among its gradients, each perhaps in another place | `("backward", None)` |
| at scale 1 (k is 0) no parameter is lost | `("healthy", None)` |
| there is a k at which no parameter is lost | `("underflow", k)`, the smallest such k |
| none of these | `("range", None)` |

A parameter is **lost** in a record if its gradient there holds an inf or a nan, or if it is 0 in every entry while the reference's is not. (Some gradients are 0 in truth. And
where one entry is left, the parameter is not lost.)

When it is written, call it on the three cases above: `records_at(SCALE_EXPONENTS, *cases["plate"])` and `references["plate"]`. One is an underflow, one a range, one is healthy.

<!-- hint: Which rows of the table look at one record, and which at all of them? -->
<!-- hint: Write two small functions: whether a record has only finite gradients, and whether it has a lost parameter. Then each row of the table is one `if`, in the same order. -->
<!-- hint: For the fifth row, go through `sorted(records)` and return at the first k whose record has no lost parameter. `torch.isfinite(t).all()` and `t.any()` answer the questions about a tensor, `math.isfinite` that about the loss. -->
"""


# %% solution="nan-doctor"
def diagnose(records, reference):
    """Return the cause of a nan and its place, from records at several scales."""
    ### BEGIN SOLUTION

    def all_finite(tensors):
        return all(bool(torch.isfinite(tensor).all()) for tensor in tensors)

    def is_intact(record):
        pairs = ((slope, reference["gradients"][n]) for n, slope in record["gradients"].items())
        vanished = any(bool(true.any()) and not slope.any() for slope, true in pairs)
        return all_finite(record["gradients"].values()) and not vanished

    for name, output in records[0]["outputs"].items():
        if not all_finite([output]):
            return "forward", name
    if not math.isfinite(records[0]["loss"]):
        return "loss", None
    if not any(all_finite(record["gradients"].values()) for record in records.values()):
        return "backward", None
    for k in sorted(records):
        if is_intact(records[k]):
            return ("underflow", k) if k else ("healthy", None)
    return "range", None
    ### END SOLUTION


# %% test="nan-doctor"
check = Check("nan-doctor")
NAMES = ("stem", "block.linear", "act", "block.head")


def draw_record(scales=(1.0, 1.0, 1.0)):
    """Return a healthy record; the parameters' gradients have the given sizes."""
    shapes = [(3, 2), (4,), (2, 5), (6,)]
    outputs = {n: check.draw.normal(*s).half() for n, s in zip(NAMES, shapes, strict=True)}
    outputs["block.head"][:3] = 60000.0  # finite, and their sum is not
    gradients = {}
    for number, size in enumerate(scales):
        slope = size * check.draw.normal(2 + number, 7)
        slope[0, 0], slope[1, 2] = size, 0.0  # one entry is not 0, and one is
        gradients[f"{NAMES[number]}.weight"] = slope
    first = gradients["stem.weight"]
    first[1] = 0.0
    first[0, 1:] = torch.tensor([-scales[0], 0.0, 0.0, 0.0, 0.0, 0.0])  # not 0, and their sum is
    return {"gradients": gradients, "loss": check.draw.number(0.1, 3.0), "outputs": outputs}


def copy_record(record):
    copies = {
        part: {n: t.clone() for n, t in record[part].items()} for part in ("gradients", "outputs")
    }
    return {"gradients": copies["gradients"], "loss": record["loss"], "outputs": copies["outputs"]}


def records_like(reference, fates):
    """Return records; for each k a word of letters says what became of each parameter.

    "." it is as in the reference, "0" it is all zeros, "p" only its first entry is left, "i" and
    "n" an entry is inf or nan.
    """
    records = {}
    for k, word in fates.items():
        records[k] = copy_record(reference)
        for slope, letter in zip(records[k]["gradients"].values(), word, strict=True):
            place = check.draw.integer(0, len(slope))
            if letter == "0":
                slope.zero_()
            elif letter == "p":
                slope[0, 1:], slope[1:] = 0.0, 0.0
            elif letter != ".":
                slope[place, 1 + check.draw.integer(0, 6)] = math.inf if letter == "i" else math.nan
    return records


def says(reference, fates, *expected, outputs=(), loss=None):
    records = records_like(reference, fates)
    for record in records.values():
        record["loss"] = record["loss"] if loss is None else loss
        for name, value in outputs:
            record["outputs"][name][1] = value
    letters = {"0": "all zeros", "p": "one entry left", "i": "has inf", "n": "has nan"}
    told = [f"{letter} {meaning}" for letter, meaning in letters.items()]
    what = f"the answer for gradients {fates}, for each k ({', '.join(told)}, . as in float32)"
    check.equal(check.call(diagnose, records, reference), expected, what=what)


def draw_exponents(count):
    """Return so many exponents of scales above 0, rising."""
    return sorted((1 + check.draw.permutation(30)[:count]).tolist())


def says_all(*cases):
    """Ask for all cases, in random order: no answer is known beforehand."""
    for place in check.draw.permutation(len(cases)):
        reference, fates, answer, *faults = cases[place]
        says(reference, fates, *answer, **(faults[0] if faults else {}))


def healthy():
    (k,) = draw_exponents(1)
    return draw_record(), {0: "...", k: "ii."}, ("healthy", None)


with check.property("a healthy run, and one that a scale cures: the smallest that does"):
    a, b, c, d = draw_exponents(4)
    fates = {0: "00.", c: "...", a: "0..", b: "...", d: "..i"}
    says_all(
        (draw_record(), {0: "...", a: "...", b: "ii."}, ("healthy", None)),
        (draw_record(), fates, ("underflow", b)),
    )
with check.property("a parameter is lost if it is 0 in every entry, and not before"):
    a, b, c = draw_exponents(3)
    says_all(
        (draw_record(), {0: "p.p", a: "..."}, ("healthy", None)),
        (draw_record(), {0: "0.0", a: "p.0", b: ".pp", c: "..."}, ("underflow", b)),
    )
with check.property(
    "a module's output: the first that is not finite, by order and not by name", weight=2
):
    bad = (math.inf, math.nan, -math.inf)
    cases = [healthy()]
    for first in range(3):
        faults = {"outputs": [(NAMES[first], bad[first])], "loss": math.nan}
        faults["outputs"] += [(name, math.nan) for name in NAMES[first + 1 :]]
        cases.append((draw_record(), {0: "nnn", 8: "nnn"}, ("forward", NAMES[first]), faults))
    says_all(*cases)
with check.property("the loss, if the outputs are finite", weight=2):
    cases = [healthy()]
    for value in (math.inf, math.nan):
        fates = {0: "nni", draw_exponents(1)[0]: "nnn"}
        cases.append((draw_record(), fates, ("loss", None), {"loss": value}))
    says_all(*cases)
with check.property("no scale cures it: the gradients span too much", weight=2):
    a, b, c, d = draw_exponents(4)
    fates = {0: ".00", a: ".00", b: "..0", c: "i.0", d: "ii."}
    says_all(
        (draw_record((1.0, 2.0**-30, 2.0**-60)), fates, ("range", None)),
        (draw_record((1.0, 2.0**-30, 2.0**-60)), fates | {c: "..."}, ("underflow", c)),
    )
with check.property("inf or nan among the gradients at every scale, with a finite loss"):
    a, b = draw_exponents(2)
    says_all(
        (draw_record(), {0: "n..", a: ".n.", b: ".ii"}, ("backward", None)),
        (draw_record(), {0: "n..", a: "...", b: ".ii"}, ("underflow", a)),
    )
with check.property("a gradient that is 0 in truth is not lost", weight=2):
    reference, (a, b) = draw_record(), draw_exponents(2)
    reference["gradients"]["stem.weight"].zero_()
    says_all(
        (reference, {0: "...", a: "..i"}, ("healthy", None)),
        (reference, {0: "..0", b: "..."}, ("underflow", b)),
    )
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("the scale at which nothing is lost may lie between bad ones"):
    a, b, c, d, e = draw_exponents(5)
    fates = {e: "iin", a: ".0.", c: "...", 0: "000", d: "i..", b: "..0"}
    says(draw_record(), fates, "underflow", c)
with check.property("one record only, and the first module of all"):
    says_all(
        (draw_record(), {0: "..."}, ("healthy", None)),
        (draw_record(), {0: "0.."}, ("range", None)),
        (draw_record(), {0: ".i."}, ("backward", None)),
        (
            draw_record(),
            {0: "...", 2: "..."},
            ("forward", "stem"),
            {"outputs": [("stem", -math.inf)]},
        ),
    )
with check.property("inf at some scales only, zeros at the others"):
    a, b = draw_exponents(2)
    says_all(
        (draw_record((1.0, 2.0**-50)), {0: ".0", a: ".0", b: "i."}, ("range", None)),
        (draw_record((1.0, 2.0**-50)), {0: "i.", a: "i.", b: ".0"}, ("range", None)),
        (draw_record((1.0, 2.0**-50)), {0: "i.", a: "..", b: ".0"}, ("underflow", a)),
    )
### END HIDDEN TESTS
check.score()

# %% [markdown]
"""
## Bug hunt: the optimizer that counts

Somebody wraps optimizers, to count their steps for the log. The wrapper has what a scaler needs: `param_groups` and `step`.
"""


# %% tags=["needed"]
class CountedOptimizer:
    """Wraps an optimizer and counts its steps."""

    def __init__(self, optimizer):
        self.optimizer = optimizer
        self.param_groups = optimizer.param_groups
        self.steps = 0

    def zero_grad(self):
        self.optimizer.zero_grad()

    def step(self):
        self.optimizer.step()
        self.steps += 1


# %% [markdown]
"""
The training step, from a library that hides the scaler from its users. It clips in the right order. Its author believed that `scaler.step` takes only
an optimizer of torch's.
"""


# %%
def step_from_the_wild(scaler, counted, loss, max_norm):
    counted.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(counted)
    parameters = [p for group in counted.param_groups for p in group["params"]]
    torch.nn.utils.clip_grad_norm_(parameters, max_norm)
    scaler.step(counted.optimizer)
    counted.steps += 1
    scaler.update()


def train_counted(step_function, steps=40):
    torch.manual_seed(0)
    layers = torch.nn.Linear(64, 32), torch.nn.Tanh(), torch.nn.Linear(32, 10)
    model = torch.nn.Sequential(*layers).to(device)
    counted = CountedOptimizer(torch.optim.SGD(model.parameters(), lr=0.5))
    scaler = torch.amp.GradScaler(device, init_scale=2.0**24)
    losses = []
    for _ in range(steps):
        with torch.autocast(device, dtype=torch.float16):
            loss = functional.cross_entropy(model(shades), labels)
        losses.append(loss.item())
        step_function(scaler, counted, loss, 1.0)
    return losses, counted.steps, scaler.get_scale()


losses_in_the_wild, counted_steps, last_scale = train_counted(step_from_the_wild)
print(f"loss: {losses_in_the_wild[0]:.1f} at first, {losses_in_the_wild[-1]:.1f} after 40 steps")
print(
    f"steps counted: {counted_steps}; the scale fell, so some were skipped: {last_scale < 2.0**24}"
)

# %% folded="Plot: A training step from the wild"
figure, axes = new_figure(height=2.8)
axes.plot(range(1, 41), losses_in_the_wild, color=COLORS["vermilion"], label="as found")
axes.axhline(math.log(10), color=COLORS["black"], linestyle=":", label="guessing, ln 10")
axes.set(title="A training step from the wild", xlabel="step", ylabel="loss (nats)", ylim=(0, 2.8))
axes.legend()
show(
    figure,
    alt="Loss against training step: a level line at 2.3, which is the loss of guessing among ten digits.",
)

# %% [markdown] exercise="bug-hunt-counted" points=4 minutes=20 difficulty=2
"""
### Bug hunt: the network that stands still

Two things are wrong: the network does not learn, and the count is too high. Find out in cells of your own by what factor the gradients are off when the optimizer makes its
step. Then write `counted_step(scaler, counted, loss, max_norm)`.

- **In**: a `torch.amp.GradScaler`, a `CountedOptimizer` (its class stands above: `optimizer`, `param_groups`, `zero_grad()`, `step()`, `steps`), a float32 loss
  without dimensions, a float. What the last step left in `.grad` does not count.
- The unscaled gradient of all parameters together is clipped to `max_norm`; the optimizer makes its step, unless a gradient holds an inf or a nan; the scaler is updated.
- There may be several groups of parameters, and a momentum.
- Afterwards `counted.steps` is the number of steps that were **really made**.
- **Out**: nothing.

When it is written, `train_counted(counted_step)` should end below a loss of 1.

<!-- hint: Print the norm of the gradients after each line of the function. Between which two lines does it change though nobody meant it to? How does a scaler know that an optimizer's gradients were unscaled already? -->
<!-- hint: The scaler keeps its notes by `id(optimizer)`. To it, the wrapper and what is inside are two optimizers: it unscales both, and they share their gradients. -->
<!-- hint: Give the scaler one and the same object in both lines. If this object is the wrapper, its own `step` counts, and a skipped step is not counted. -->
"""


# %% solution="bug-hunt-counted"
def counted_step(scaler, counted, loss, max_norm):
    """Make one scaled and clipped step; count it if it was really made."""
    ### BEGIN SOLUTION
    counted.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(counted)
    parameters = [p for group in counted.param_groups for p in group["params"]]
    torch.nn.utils.clip_grad_norm_(parameters, max_norm)
    scaler.step(counted)
    scaler.update()
    ### END SOLUTION


# %% test="bug-hunt-counted"
check = Check("bug-hunt-counted")


def draw_slopes_of_norm(norm, letter="."):
    """Return gradients by two parameters whose norm together is ``norm``, one entry bad if asked."""
    slopes = [check.draw.normal(4), check.draw.normal(3)]
    slopes[0][1], slopes[1][0] = -2.0, 1.5
    length = torch.cat(slopes).double().norm()
    slopes = [(slope.double() * norm / length).float() for slope in slopes]
    if letter != ".":
        slopes[0][check.draw.integer(0, 4)] = math.inf if letter == "i" else math.nan
    return slopes


def counts_and_steps(norms, pattern, max_norm, scales, **settings):
    weights = [check.draw.normal(4), check.draw.normal(3)]
    slopes = [draw_slopes_of_norm(n, p) for n, p in zip(norms, pattern, strict=True)]
    got = check.call(
        probes.scaled_steps,
        counted_step,
        weights,
        slopes,
        max_norm=max_norm,
        learning_rate=0.5,
        counted=True,
        **settings,
    )
    made, ways = 0, [0.0 * weight for weight in weights]
    for step, (one, given) in enumerate(zip(got, slopes, strict=True)):
        if pattern[step] == ".":
            made += 1
            share = min(1.0, max_norm / norms[step])
            ways = [0.5 * way + share * s for way, s in zip(ways, given, strict=True)]
            weights = [w - 0.5 * way for w, way in zip(weights, ways, strict=True)]
        about = f"after step {step + 1} of {pattern} (i inf, n nan)"
        check.close(one["weights"], weights, rtol=1e-4, atol=1e-5, what=f"weights {about}")
        check.equal(one["count"], made, what=f"counted.steps {about}")
        check.equal(one["scale"], scales[step], what=f"the scale {about}")


with check.property("short and long gradients: the step is that of the unscaled, clipped gradient"):
    scale = 2.0 ** check.draw.integer(6, 20)
    counts_and_steps((0.75, 4.0, 1.5), "...", 1.25, [scale] * 3, init_scale=scale)
with check.property("a step that is skipped is not counted, and the scale backs off", weight=2):
    scales = [512.0, 512.0, 256.0, 256.0, 128.0, 64.0, 64.0]
    norms = (2.0, 0.9, 1.0, 3.0, 1.0, 1.0, 5.0)
    counts_and_steps(norms, "..i.ni.", 1.5, scales, init_scale=512.0)
with check.property("the same where the scale grows every second step"):
    scales = [64.0, 128.0, 64.0, 64.0, 128.0, 128.0, 256.0]
    norms = (0.8, 3.0, 1.0, 0.9, 4.0, 1.1, 2.0)
    counts_and_steps(norms, "..n....", 1.25, scales, init_scale=64.0, growth_interval=2)
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("many steps, with growth, of which the first are skipped"):
    scales = [512.0, 256.0, 256.0, 512.0, 512.0, 1024.0, 512.0, 512.0]
    norms = (1.0, 1.0, 6.0, 0.8, 3.0, 2.0, 1.0, 7.0)
    counts_and_steps(norms, "in....n.", 1.0, scales, init_scale=1024.0, growth_interval=2)
### END HIDDEN TESTS
check.score()

# %% [markdown]
"""
<details><summary>What it was (open it when you have found it)</summary>

The scaler keeps its notes by the identity of the optimizer. `unscale_` was told of the wrapper, `step` of the inner one. So `step` found no note and unscaled again: the gradients were divided by the scale twice, and came out too small by the scale. And the
count went up whether a step was made or not. Two cures are right: the wrapper in both lines, which counts by itself; or the inner optimizer in both, and a hook that counts.
</details>

It was found in Accelerate in 2021 ([issue 113](https://github.com/huggingface/accelerate/issues/113)): gradients that were clipped in mixed precision were divided twice.
A neighbor of this bug updates the scaler once for each optimizer instead of once for each iteration
([issue 439](https://github.com/huggingface/accelerate/issues/439) asks about it). Then the scale may change between two optimizers, and the second one's gradients are divided by a scale with
which they were never multiplied.
"""

# %% [markdown]
"""
## In the wild

| what | where it is settled |
| --- | --- |
| torch | [`torch.amp.GradScaler`](https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling)`(device, init_scale=, growth_factor=, backoff_factor=, growth_interval=, enabled=)`. The older `torch.cuda.amp.GradScaler` is deprecated and warns |
| float16 weights | a scaler refuses their gradients: `ValueError: Attempting to unscale FP16 gradients`. The weights belong in float32 (chapter 03) |
| checkpoints | `scaler.state_dict()` holds the scale and the counter; without it a resumed run begins at 65536 again ([recipe](https://docs.pytorch.org/tutorials/recipes/recipes/amp_recipe.html)) |
| gradient penalties | gradients that enter the loss must be divided by hand first ([examples](https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-penalty)) |
| accumulation | one scale for all micro-batches of a step: `unscale_`, `step` and `update` only at its end ([examples](https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-accumulation)), chapter 05 |
| Accelerate | `GradScalerKwargs`; clip with `accelerator.clip_grad_norm_`, which unscales; `optimizer.step_was_skipped` ([mixed precision](https://huggingface.co/docs/accelerate/usage_guides/mixed_precision)) |
| Lightning | `Trainer(precision="16-mixed")` brings a scaler, `"bf16-mixed"` none ([precision](https://lightning.ai/docs/pytorch/stable/common/precision_basic.html)) |
| DeepSpeed | `"fp16": {"loss_scale": 0, "initial_scale_power": 16, "loss_scale_window": 1000, "hysteresis": 2, "min_loss_scale": 1}`; `loss_scale` 0 means dynamic, hysteresis tolerates infs before it backs off ([configuration](https://www.deepspeed.ai/docs/config-json/)) |
| fairseq | `--fp16-init-scale`, `--fp16-scale-window`, `--min-loss-scale`: below it, training stops with an error ([options](https://fairseq.readthedocs.io/en/latest/command_line_tools.html)) |
| Keras | [`LossScaleOptimizer`](https://keras.io/api/optimizers/loss_scale_optimizer/)`(initial_scale=32768.0, dynamic_growth_steps=2000)`, automatic under the policy `"mixed_float16"` |
| JAX | [jmp](https://github.com/google-deepmind/jmp) has `StaticLossScale` and `DynamicLossScale` |
"""

# %% [markdown]
"""
## Recap

1. Gradients that are small for reasons of units and means fall below float16's range and become 0; no error tells.
2. Scaling the loss by 2^k moves the exponents of all gradients by k and changes nothing else: it saves what was 0 or subnormal, and can push what is large to inf.
3. A dynamic scaler is two numbers: halve the scale and skip at every inf, double it after so many steps without one.
4. Between `backward` and `step` the gradients are scaled: unscale before you clip, log or change them; update once; let a schedule follow the steps that were made.
5. A scaler cures underflow. An inf that comes from the forward pass or from the loss only makes it skip, and its scale fall. A range of gradients wider than float16 no scale can cover.

### Test yourself

<details><summary>1. A gradient of 3e-4 is scaled by 1024 and stored in float16. How many digits did it gain?</summary>

None. 3e-4 is above 2^-14 = 6.1e-5, so it was a normal number before, and has 11 digits in base 2 with and without the scale.
</details>

<details><summary>2. Growth interval 3, scale 8. The steps are: good, good, inf, good, good, good, good. What is the scale at the end?</summary>

8. The inf halves it to 4 and begins a new row; the next three good steps double it to 8; the last one is the first of another row.
</details>

<details><summary>3. Somebody clips before <code>unscale_</code>, at max_norm 1, with a scale of 65536. What is the largest step of plain SGD at a learning rate of 1?</summary>

1/65536: the gradient is cut to length 1, and divided by the scale afterwards.
</details>

<details><summary>4. The loss is an ordinary number, and the scale has fallen to 2^-30. What do you look for?</summary>

First whether the gradients are cleared after a *skipped* step, too: where `zero_grad` runs only after a step that was made, one inf stays in `.grad` for ever. Then a gradient that is inf or nan at every scale: a derivative that is infinite, such as that of a root at 0, or a gradient that some code of yours computes. The scale is not the reason.
</details>

<details><summary>5. Two optimizers share a scaler. The scale fell in this iteration. May both schedulers step?</summary>

The scale does not tell. One inf in either of them is enough for it to fall. Each scheduler goes by whether its own optimizer made a step.
</details>

### References

- P. Micikevicius and others, "Mixed Precision Training", [arXiv:1710.03740](https://arxiv.org/abs/1710.03740), ICLR 2018, section 3.2 (loss scaling, and the histogram).
- PyTorch documentation, ["Automatic Mixed Precision package: Gradient Scaling"](https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling).
- PyTorch documentation, ["Automatic Mixed Precision examples"](https://docs.pytorch.org/docs/stable/notes/amp_examples.html): "Working with Unscaled Gradients", "Working with Multiple Models, Losses, and Optimizers".
- NVIDIA, ["Train With Mixed Precision"](https://docs.nvidia.com/deeplearning/performance/mixed-precision-training/index.html): choosing a scaling factor.
- D. Kalamkar and others, "A Study of BFLOAT16 for Deep Learning Training", [arXiv:1905.12322](https://arxiv.org/abs/1905.12322), 2019.
- Y. You, I. Gitman, B. Ginsburg, "Large Batch Training of Convolutional Networks", [arXiv:1708.03888](https://arxiv.org/abs/1708.03888), 2017 (LARS).
- R. Pascanu, T. Mikolov, Y. Bengio, "On the difficulty of training Recurrent Neural Networks", [arXiv:1211.5063](https://arxiv.org/abs/1211.5063), 2013 (gradients that vanish and explode, clipping by norm).

### Glossary

| English | 中文 | meaning |
| --- | --- | --- |
| loss scaling | 损失缩放 | multiply the loss before the backward pass, divide the gradients after it |
| gradient underflow | 梯度下溢 | a gradient too small for its format becomes 0 |
| static loss scale | 静态损失缩放 | a factor that is chosen once |
| dynamic loss scale | 动态损失缩放 | a factor that follows the training |
| gradient scaler | 梯度缩放器 | the object that scales, unscales, skips and adapts |
| unscale | 反缩放 | divide the gradients by the scale |
| skipped step | 跳过的优化步 | an optimizer step left out because a gradient was inf or nan |
| growth interval | 增长间隔 | so many steps without inf before the scale is doubled |
| backoff factor | 回退系数 | what the scale is multiplied by after an inf |
| state machine | 状态机 | something that goes from state to state by fixed rules |
| headroom | 余量 | the room that is left below overflow |
| gradient clipping | 梯度裁剪 | shorten a gradient that is longer than a limit |
| warm-up | 学习率预热 | raise the learning rate over the first steps |
| vanishing gradient | 梯度消失 | a gradient that shrinks from layer to layer |
| residual connection | 残差连接 | a layer that adds to its input |
"""

# %%
progress("04")
