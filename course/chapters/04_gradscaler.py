# %% [markdown]
"""
# 04 · GradScaler

A loaded plate bends by up to three millimeters, and a network learns how far each point moves. It trains once in float32 and once in float16, under autocast. No exception, nan or warning tells the two runs apart.

**中文**: 本章讲梯度缩放：float16 梯度下溢、静态与动态损失缩放、GradScaler 状态机、先反缩放再裁剪、跳过的优化步与学习率调度，以及 nan 的三种成因与诊断。
"""

# %% tags=["needed"] folded="Imports"
import math
import warnings

import torch
from torch.nn import functional

from helpers import (
    COLORS,
    Check,
    digits,
    explore_scaler,
    failing,
    hint,
    new_figure,
    play,
    predict,
    predictions,
    probes,
    progress,
    show,
    show_drawing,
)

device = "cuda" if torch.cuda.is_available() else "cpu"

# %% folded="The plate, its model, and the autocast region"
SIDE, UNIT = 24, 0.003
line = torch.linspace(-1, 1, SIDE, device=device)
points = torch.stack(torch.meshgrid(line, line, indexing="ij"), dim=-1).reshape(-1, 2)
bend = UNIT * torch.sin(math.pi * points[:, :1]) * torch.cos(math.pi / 2 * points[:, 1:])
flat_error = bend.square().mean().item()  # the error of a flat plate


def make_plate_model():
    torch.manual_seed(0)
    hidden = torch.nn.Linear(2, 24), torch.nn.Tanh(), torch.nn.Linear(24, 24), torch.nn.Tanh()
    return torch.nn.Sequential(*hidden, torch.nn.Linear(24, 1)).to(device)


def plate_error(outputs, targets):
    return functional.mse_loss(UNIT * outputs.float(), targets)


def autocast_to(lower):
    """Return an autocast region that casts to ``lower``; no region if None."""
    return torch.autocast(device, dtype=lower or torch.float16, enabled=lower is not None)


def gradient_of(model):
    return torch.cat([weight.grad.flatten() for weight in model.parameters()])


# %%
def train_plate(lower=None, scale=1.0, steps=120):
    model = make_plate_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    errors = []
    for _ in range(steps):
        with autocast_to(lower):
            loss = plate_error(model(points), bend)
        optimizer.zero_grad()
        (scale * loss).backward()
        for weight in model.parameters():
            weight.grad /= scale
        optimizer.step()
        errors.append(loss.item() / flat_error)
    return errors, gradient_of(model)


# %% folded="Three runs"
errors_float32, gradients_float32 = train_plate()
errors_float16, gradients_float16 = train_plate(lower=torch.float16)
errors_scaled, gradients_scaled = train_plate(lower=torch.float16, scale=65536.0)
zeros_float32, zeros_float16 = (
    100 * (gradients == 0).double().mean().item()
    for gradients in (gradients_float32, gradients_float16)
)

# %% folded="Predict: gradients that are 0"
predict(
    "04/zeros",
    "The float16 run improves a little, then stalls. In its last step, what share of the gradients is exactly 0?",
    zeros_float16,
    "The plate moves by millimeters and the loss is in square meters, so the last step's float16 backward pass starts with zeros.",
    between=(0, 100),
    unit="%",
)

# %% folded="Figure 4.1: learning how a plate bends"
figure, axes = new_figure()
steps = range(1, len(errors_float32) + 1)
axes.semilogy(steps, errors_float32, label="float32", linewidth=5, alpha=0.35)
axes.semilogy(steps, errors_float16, color=COLORS["vermilion"], label="float16")
axes.semilogy(
    steps, errors_scaled, "--", color=COLORS["black"], label="float16, loss scaled by 65,536"
)
axes.set(
    title="Learning how a plate bends", xlabel="training step", ylabel="error (flat plate = 1)"
)
axes.legend()
show(
    figure,
    number="4.1",
    caption="Training in float16 stalls, but it matches float32 if the loss is multiplied by 65,536 before the backward pass and the gradients are divided by 65,536 afterward.",
    alt="Error against training step, logarithmic. In float32 it falls from 1.2 to about 0.02. In float16 "
    "it falls to about 0.7 and stays there. With the loss scaled, the float16 curve lies on that of "
    "float32.",
)

# %% [markdown]
"""
The factor 65,536 is the **loss scale**. This chapter explains what it does, how large it should be, and what it breaks in the surrounding code.
"""

# %%
print(f"gradients that are 0: float32 {zeros_float32:.0f}%, float16 {zeros_float16:.0f}%")
for name, errors in (("float16", errors_float16), ("scaled", errors_scaled)):
    print(f"{name}: the error falls from {errors[0]:.1f} to {errors[-1]:.2f}")

# %% [markdown]
"""
> **After this chapter, you will be able to**
>
> - tell from a histogram of exponents which gradients float16 loses, and choose a scale that saves them;
> - write a gradient scaler whose scale and skipped steps match those of `torch.amp.GradScaler`;
> - clip, log and schedule in the right order when gradients are scaled and some steps are skipped;
> - name the cause of a nan in mixed-precision training, and say whether a scaler cures it.
>
> **Time**: 60 minutes to read and run, 130 for the six exercises.
>
> **Prerequisites**: float formats (chapter 02), autocast (chapter 03).
"""

# %% [markdown]
r"""
## Where the gradients are

A number $g$ has the exponent $e$ if $2^e \le |g| < 2^{e+1}$. Float16 treats it in one of four ways (chapter 02):

| exponent | what float16 makes of the number |
| --- | --- |
| 16 or more | inf |
| −14 to 15 | a **normal** number with 11 binary digits (from 65,520 on, inf) |
| −25 to −15 | a **subnormal** number with fewer digits ($2^{-25}$ itself becomes 0) |
| below −25 | 0: **gradient underflow** |

Under autocast, float16 activations and the float16 copies of the weights have float16 gradients. The copies' gradients are cast to float32 too late to recover a number that became 0 or inf.
"""

# %% tags=["needed"]
FIRST_NORMAL, FIRST_KEPT, FIRST_UNSAFE = -14, -25, 15


def count_exponents(numbers):
    """Return a dict from each exponent to its count among ``numbers``, without 0, inf and nan."""
    finite = numbers[torch.isfinite(numbers) & (numbers != 0)].double().cpu()
    exponents, counts = torch.unique(torch.frexp(finite).exponent - 1, return_counts=True)
    return dict(zip(exponents.tolist(), counts.tolist(), strict=True))


# %% folded="Measuring tool: activation_gradients"
def activation_gradients(model, loss_function, inputs, targets, scale=1.0, lower=None):
    """Return the gradients of all linear layers' outputs, concatenated into one tensor."""
    outputs = []
    handles = [
        layer.register_forward_hook(lambda module, given, output: outputs.append(output))
        for layer in model.modules()
        if isinstance(layer, torch.nn.Linear)
    ]
    with autocast_to(lower):
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
    axes.set(xlabel="exponent (base 2)", ylabel="gradients")


# %%
plate_gradients = activation_gradients(make_plate_model(), plate_error, points, bend)
plate_counts = count_exponents(plate_gradients)
kept = (plate_gradients.half() != 0).sum().item()
print(f"{kept} of {plate_gradients.numel()} activation gradients are not 0 in float16")

# %% folded="Figure 4.2: gradients of the plate"
figure, axes = new_figure()
draw_exponents(axes, plate_counts)
axes.set(title="Gradients of the plate")
show(
    figure,
    number="4.2",
    caption="The activation gradients of the first step (those of the linear layers' outputs), computed in float32. Float16 makes nearly all of them 0; its normal range (blue background) stays empty.",
    alt="Histogram of the exponents of the plate's gradients. It peaks near minus 31 and extends from "
    "about minus 45 to minus 25. Nearly all of it lies below minus 25, where float16 has only 0. The "
    "subnormal range holds a few dozen gradients, and the normal range none.",
)

# %% [markdown]
r"""
The loss is a mean over 576 points, in square meters, so its gradients are small.

### What scaling moves

Differentiation is linear: multiplying the loss by $S = 2^k$ multiplies every gradient by $S$ and raises its exponent by $k$:
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
Can a scale also add digits?
"""

# %% folded="A gradient of 3e-4, in float16 and scaled"
gradient = torch.tensor(3e-4, dtype=torch.float64)
rounded = [(gradient * scale).half().double() / scale for scale in (1.0, 1024.0)]
gained = "the same" if rounded[0] == rounded[1] else "smaller"

# %% folded="Predict: the digits of a scaled gradient"
predict(
    "04/digits",
    "A gradient of 3e-4 is multiplied by 1024, rounded to float16, and divided by 1024 again. Is its rounding error smaller than without the scale, the same, or larger?",
    gained,
    "3e-4 is a normal number with and without the scale. Within the normal range, a power of two changes only the exponent.",
    choices=("smaller", "the same", "larger"),
)

# %% folded="Figure 4.3: what float16 does to a number"
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
    number="4.3",
    caption="Relative rounding error of float16. To the right of the dotted line, the bound on the error is constant, so a scale adds digits only to numbers that would be subnormal, and saves only numbers that would be 0.",
    alt="Relative rounding error against the size of the number. From 2 to the minus 14 up to 65504 it stays "
    "below 2 to the minus 11. For smaller numbers it grows, and it reaches 1 at 2 to the "
    "minus 25, where the number becomes 0.",
)

# %% [markdown]
"""
No scale lowers the machine epsilon, and too large a scale makes the largest gradients overflow. Move the scale:
"""


# %% tags=["nbval-ignore-output"] folded="Figure 4.4: the gradients of the plate, scaled"
def draw_scale(k):
    figure, axes = new_figure()
    draw_exponents(axes, plate_counts, scale_exponent=int(k))
    axes.set(title=f"Gradients of the plate, scaled by 2^{int(k)}")
    return figure


play(
    draw_scale,
    label="exponent of the scale",
    values=[0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44],
    start=16,
    number="4.4",
    caption="At 2^16, two thirds of the plate's gradients are still subnormal, yet the training in Figure 4.1 matched float32. From 2^24 on, nearly all are normal; at 2^44, the largest become inf.",
    alt="The histogram of Figure 4.2, moved 16 bins to the right. Two thirds of the gradients are now subnormal, one third "
    "are normal, and almost none become 0.",
)

# %% [markdown] exercise="best-scale" points=4 minutes=15 difficulty=1
r"""
### The best static scale for a histogram

A **static loss scale** is chosen once. Choose the best $2^k$ for float16, with an integer $k$ between −80 and 80.

`best_scale(counts, headroom) -> float`

- **In** `counts`: a dict from exponents, in any order, to numbers of gradients, as returned by `count_exponents`. A count of 0 means an empty bin; at least one bin is not empty. `headroom`: a nonnegative integer, how many times the scaled gradients must be able to double without overflow.
- **Out**: the scale. A gradient of exponent $e$ gets the exponent $e + k$. A scale is *safe* if $e + k$ plus the headroom stays **below** 15 (`FIRST_UNSAFE`; at 15, numbers from 65,520 on are inf) for every gradient. At least one scale is safe.
  1. Of the safe scales, keep those with the fewest gradients that become 0: $e + k$ below −25 (`FIRST_KEPT`).
  2. Of these, keep those with the fewest subnormal gradients: $e + k$ from −25 to −15.
  3. Of these, return the one whose $k$ is closest to 0.

`best_scale({-20: 5, -16: 9}, 0)` returns `64.0`: with $k = 6$, the smallest gradients have the exponent −14 and are normal.

<!-- hint: For one given k, how many gradients become 0, and how many are subnormal? Is that k safe? -->
<!-- hint: Try all k from −80 to 80. Discard those that are not safe, and compare the rest by three numbers; each breaks the ties of those before it. -->
<!-- hint: Python compares tuples this way: take the `min` over the safe k, with a key that returns (zeros, subnormals, abs(k)). Ignore empty bins everywhere. -->
"""


# %% solution="best-scale"
def best_scale(counts, headroom):
    """Return the power of two, a float, that best scales gradients with these ``counts``."""
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
    """Return a count of at least 1 for each exponent from low to high."""
    return {e: 1 + check.draw.integer(0, 50) for e in range(high, low - 1, -1)}


def gives(counts, headroom, k):
    got = check.call(best_scale, counts, headroom)
    check.equal(got, 2.0**k, what=f"the scale (2^{k} is expected)")


with check.property("all gradients are made normal, with the scale closest to 1"):
    shift = check.draw.integer(0, 6)
    gives(draw_counts(-26 - shift, -12 - shift), 0, 12 + shift)
with check.property("the scale is 1 if all are normal and safe, larger if some are subnormal"):
    low, low_before = check.draw.integer(-13, -9), check.draw.integer(-24, -18)
    cases = [(low, 0), (low_before, -14 - low_before)]
    for place in check.draw.permutation(2):
        low, k = cases[place]
        gives(draw_counts(low, low + 15), 2, k)
with check.property("the largest gradient stays safe, even if others become 0", weight=2):
    top = check.draw.integer(-9, -2)
    gives(draw_counts(top - 50, top), 0, 14 - top)
    top = check.draw.integer(18, 25)
    gives(draw_counts(3, top), 0, 14 - top)
with check.property("the headroom stays free", weight=2):
    for headroom in (2 + check.draw.integer(0, 4), 8 + check.draw.integer(0, 6)):
        top = check.draw.integer(-9, -2)
        gives(draw_counts(top - 50, top), headroom, 14 - headroom - top)
with check.property("empty bins do not count"):
    low = check.draw.integer(-35, -25)
    counts = {-2: 0, -60: 0, 9: 0, **draw_counts(low, low + 10)}
    gives(counts, 1, -14 - low)
    gives(dict(sorted(counts.items())), 1, -14 - low)
with check.property("a gradient that stays subnormal is better than one that becomes 0"):
    shift = check.draw.integer(0, 5)
    gives({-30 - shift: 1, -16 - shift: 10_000, -11 - shift: 5, 8 - shift: 1}, 0, 5 + shift)
    gives({-39 - shift: 1, -2 - shift: 9}, 2, 14 + shift)
with check.property("scales far from 1"):
    shift = check.draw.integer(0, 4)
    for k in (74 + shift, 80):
        gives({-14 - k: 1 + check.draw.integer(0, 9)}, 0, k)
    gives({-95: 1 + check.draw.integer(0, 9)}, 0, 70)  # normal only beyond 80
    for k in (-47 - shift, -80):
        gives({11 - k: 1 + check.draw.integer(0, 9)}, 3, k)
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("no larger than necessary: a gap in the histogram"):
    # The lone bin at -50 is kept as soon as k is 25; -5 allows 19, so it is lost anyway.
    counts = {-50: 1 + check.draw.integer(0, 9), -18: 20, -5: 7}
    gives(counts, 0, 4)
    # At -40 it can be kept (k of 15), never made normal; -18 is normal then as well.
    counts = {-40: 1 + check.draw.integer(0, 9), -18: 20, -5: 7}
    gives(counts, 0, 15)
with check.property("subnormal rather than 0, with headroom"):
    few = 1 + check.draw.integer(0, 3)
    gives({-33: few, -19: 1000 + check.draw.integer(0, 900), 3: 2}, 2, 8)
with check.property("the smallest and the largest scale allowed"):
    gives({-94: 1 + check.draw.integer(0, 9)}, 0, 80)
    gives({90: 1 + check.draw.integer(0, 9)}, 4, -80)
    gives({91: 1 + check.draw.integer(0, 9)}, 3, -80)
### END HIDDEN TESTS
check.score()

# %% [markdown]
r"""
## Dynamic loss scaling

A static scale must be chosen in advance, but gradients change during training. A **dynamic loss scale** adapts to them by two rules:

- **inf or nan in a gradient**: skip this step, and halve the scale;
- **neither of them for 2,000 steps in a row**: double the scale, because there may be room.

The rules need no histogram, because an overflow reveals the upper end of the range, at the cost of a skipped step. A **gradient scaler** applies both rules. PyTorch's is `torch.amp.GradScaler`, with the defaults `init_scale=2**16`, `growth_factor=2.0`, `backoff_factor=0.5`, `growth_interval=2000`.
"""

# %% folded="Figure 4.5: the lines that a scaler adds to a training step"
show_drawing(
    "04/step",
    number="4.5",
    caption="One training step at the scale S. The blue lines call the scaler. `unscale_` is optional: `step` calls it unless you have called it since the last `update`.",
    alt="The lines of a training step in order. zero_grad: grad is None. The loss in float32. Blue: scaler.scale(loss).backward(): grad holds S times the gradient. Blue: scaler.unscale_: grad holds the gradient, and inf or nan is recorded. "
    "Code that reads or changes grad: grad may have changed. Blue: scaler.step: the weights have moved, or the step is skipped. Blue: scaler.update: S is set for the next step.",
)

# %% [markdown]
"""
The growth interval below is 4, so the scale doubles after four *good* steps (without inf or nan) in a row. Five of the 36 steps have an infinite gradient.
"""

# %% folded="A scaler over 36 steps"
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


# %%
trace = watch_scaler(BAD_STEPS, init_scale=2.0**10, growth_interval=4)
scales, counters, kinds = zip(*trace[:18], strict=True)
print("step:         ", " ".join(f"{step:>2}" for step in range(18)))
print("log2 of scale:", " ".join(f"{int(math.log2(scale)):>2}" for scale in scales))
print("counter:      ", " ".join(f"{counter:>2}" for counter in counters))
marks = {"skip": " ✗", "grow": " ▲", "count": "  "}
print("              ", " ".join(marks[kind] for kind in kinds))

# %% folded="Figure 4.6: a scaler at work"
figure, (upper, lower) = new_figure(2, 1, height=4.4, sharex=True, height_ratios=(1.6, 1))
exponents = [math.log2(scale) for scale, *_ in trace]
upper.step(range(len(trace)), exponents, where="mid", color=COLORS["blue"], label="scale")
for kind, marker, color, label in (
    ("skip", "x", "vermilion", "inf: the step is skipped"),
    ("grow", "^", "green", "fourth good step in a row: growth"),
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
    number="4.6",
    caption="✗ marks a skipped step. After ▲, the fourth good step in a row, the scale doubles. Either event resets the counter to 0.",
    alt="Two plots over 36 steps. Above, the base-2 logarithm of the scale: it starts at 10, rises by one after "
    "every four good steps in a row, and falls by one after each of the five with inf. Below, the "
    "counter rises from 0 to at most 3 and returns to 0 after every growth and every inf.",
)

# %% folded="Figure 4.7: the scaler as a state machine"
show_drawing(
    "04/states",
    number="4.7",
    caption="The state of the scaler is the scale and the number of steps since the last inf or growth. The growth interval is 4.",
    alt="A grid of circles. The columns are counters 0 to 3, the rows are scales 2S, S and S/2. Blue arrows lead from counter to counter in row S. A green arrow leads from counter 3 to counter 0 in row 2S. "
    "Red arrows lead from each counter of row S to counter 0 in row S/2.",
)

# %% [markdown]
"""
The scaler is a **state machine**: from step to step, it remembers only the scale and the counter. A skip leaves the weights and the optimizer's momentum as they are. The next `zero_grad` must clear the gradients, or the inf stays in `.grad`.

Drive the machine yourself. Every step starts from the same gradients, and the open circle is the scale of the next step. A gradient *arrives* unless it becomes 0 or its step is skipped. Which values does the scale take in the long run if you only press *Step*? What share of the gradients becomes 0 after twenty presses of *Step with inf*?
"""

# %%
explore_scaler(scale=17, interval=4, events="..i.....")

# %% [markdown]
"""
Left alone, the scale climbs until the largest gradient overflows, then alternates between the last scale without overflow and its double. After enough infs from other causes, the scale is so small that gradients become 0, and the optimizer steps with those that remain.

### Several optimizers and losses

All losses are multiplied by *one* scale. Until `update`, the scaler keeps a record for each optimizer: whether its gradients have been unscaled, and whether they held an inf or a nan. `scaler.step` skips an optimizer only if *its own* gradients held one. A single `update` follows and halves the scale once if any optimizer was skipped.
"""

# %%
first, second = (torch.ones(2, device=device, requires_grad=True) for _ in range(2))
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

`torch.amp.GradScaler` does not report skipped steps. Write one that does, and otherwise behaves the same.

`LossScaler(init_scale, growth_factor, backoff_factor, growth_interval)`

- **In** `scale(loss)`: a loss. `unscale_(optimizer)`, `step(optimizer)`: an optimizer with `param_groups`, each with a list `"params"`. Ignore parameters whose `.grad` is None.
- **Out**
  - `get_scale()` returns the scale, a float. `scale(loss)` returns the loss times the scale, differentiable, and leaves `loss` unchanged.
  - `unscale_` divides the optimizer's gradients by the scale and records whether any held an inf or a nan. A second call for the same optimizer before `update()` raises a `RuntimeError`.
  - `step` calls `unscale_` first, unless it was called since the last update. Without a recorded inf or nan, it calls `optimizer.step()` and **returns True**; otherwise it **returns False** and leaves the optimizer alone. It clears no gradients.
  - `update()`, called after all steps, multiplies the scale by `backoff_factor` if `unscale_` recorded an inf or a nan (even without a `step`), or by `growth_factor` after `growth_interval` consecutive iterations without one. Either change restarts the count. Scales may fall below 1.
- **Limits**: using torch's scaler or `torch._amp_...` operators scores 0. Scales and their reciprocals stay in float32's range. `step` is called at most once per optimizer and update.

With `scaler = LossScaler(init_scale=8.0)`, `scaler.scale(torch.tensor(0.5))` returns `tensor(4.)`.

<!-- hint: What must the scaler remember from one iteration to the next, and what only until `update`? -->
<!-- hint: Two numbers stay: the scale and the counter. Until the update, the scaler must know which optimizers' gradients are unscaled and which of these held an inf or a nan: a dict from `id(optimizer)` to a bool is enough. -->
<!-- hint: `unscale_` loops over the groups, tests `torch.isfinite(p.grad).all()` and divides with `p.grad.div_(...)`. `step` calls `unscale_` if the optimizer is not in the dict. `update` checks whether any value in the dict is True, changes scale and counter, and empties the dict. -->
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
LETTERS = {".": "ordinary", "i": "inf", "m": "-inf", "n": "nan", "0": "zeros"}


def draw_slopes(pattern, *size):
    """Return one gradient for each letter of the pattern; "." is an ordinary one, "0" is zeros."""
    slopes = [check.draw.normal(*size) for _ in pattern]
    for slope, letter in zip(slopes, pattern, strict=True):
        if letter in BAD:
            slope[check.draw.integer(0, size[0])] = BAD[letter]
        elif letter == "0":
            slope.zero_()
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
    optimizers = [torch.optim.SGD(given, lr=learning_rate, momentum=0.5) for given in parameters]
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


def same_as_torch(weights, steps, about="", note="", learning_rate=0.5, rtol=1e-5, **settings):
    given = {"learning_rate": learning_rate, **settings}
    got = check.call(probes.scaler_steps, LossScaler, weights, steps, **given)
    expected = by_torch(weights, steps, learning_rate, **settings)
    letters, updates = about.replace("and", ""), 1
    told = [f"{letter} {kind}" for letter, kind in LETTERS.items() if letter in letters]
    for (name, *given), one, other in zip(steps, got, expected, strict=True):
        if name == "clear":
            continue
        of = f" of optimizer {given[0]}" if len(weights) > 1 and given else ""
        what = {"update": "the scale", "step": "the step" + of, "backward": "the gradients" + of}
        what["unscale"] = "unscale_" + of
        where = f"{what.get(name, name + of)} in iteration {updates}"
        where += f" of {about} ({', '.join(told)})" if about else ""
        where += note if name == "update" else ""
        if isinstance(other, str):
            check.true(isinstance(one, str), f"{where}: the second call raised no RuntimeError")
        else:
            early = f"{where}: a RuntimeError was raised, but this was the first call since the last update"
            check.true(not isinstance(one, str), early)
            check.close(one, other, rtol=rtol, atol=1e-6, what=where)
        updates += name == "update"


with check.property(
    "without inf, the steps match those without a scaler; torch's scaler is not used"
):
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
    # Finite, scaled and unscaled, but neither their sum nor their norm is.
    huge = [2.0**126 * check.draw.uniform(5, low=0.9, high=0.99) for _ in range(2)]
    weights = [[check.draw.normal(5)]]
    same_as_torch(weights, one_by_one(huge), learning_rate=2.0**-126, init_scale=2.0)
    check.written_without(
        *("*grad*scaler*", "*_amp_*", "scaled_steps", "scheduled_steps", "trained_in_windows")
    )
with check.property("inf, -inf and nan: the step is skipped and the scale backs off", weight=2):
    for pattern, scale in ((".i.nmm.", 4096.0), ("in.", 2.0)):
        size = check.draw.integer(2, 7)
        weights, slopes = [[check.draw.normal(size)]], draw_slopes(pattern, size)
        same_as_torch(weights, one_by_one(slopes), pattern, init_scale=scale)
with check.property("two groups of two parameters; one parameter has no gradient"):
    weights, steps = [[check.draw.normal(size) for size in (3, 4, 5, 2)]], []
    patterns = "..i....", ".n..i..", "...n..m"
    drawn = [draw_slopes(p, size) for p, size in zip(patterns, (3, 4, 2), strict=True)]
    for one, other, last in zip(*drawn, strict=True):
        steps += [("clear",), ("backward", 0, [one, other, None, last]), ("step", 0), ("update",)]
    steps += [("clear",), ("backward", 0, [one, other, None, last]), ("unscale", 0)]
    same_as_torch(weights, steps, " and ".join(patterns), init_scale=256.0)
with check.property(
    "growth after growth_interval good iterations; inf or nan restarts the count", weight=2
):
    pattern = ".0..i...n....0..i.."
    weights, slopes = [[check.draw.normal(3)]], draw_slopes(pattern, 3)
    same_as_torch(weights, one_by_one(slopes), pattern, init_scale=16.0, growth_interval=3)
    # An iteration without a step is a good one, too, if unscale_ found nothing.
    steps = []
    for slope in draw_slopes("...", 3):
        steps += [("clear",), ("backward", 0, [slope]), ("unscale", 0), ("update",)]
    note = ", with unscale_ and no step"
    same_as_torch(weights, steps, note=note, init_scale=16.0, growth_interval=2)
with check.property(
    "unscale_ before step: gradients are divided once, and an inf that it records counts"
):
    size = check.draw.integer(2, 7)
    weights, slopes = [[check.draw.normal(size)]], draw_slopes("..i.n", size)
    steps = []
    for slope in slopes:
        steps += [("clear",), ("backward", 0, [slope]), ("unscale", 0), ("step", 0), ("update",)]
    same_as_torch(weights, steps, "..i.n", init_scale=512.0)
    # A second unscale_, then one after step; nobody clears the gradients, not even the inf.
    steps = [("backward", 0, slopes[:1]), ("unscale", 0), ("unscale", 0), ("step", 0), ("update",)]
    steps += [("backward", 0, slopes[1:2]), ("step", 0), ("unscale", 0), ("update",)]
    for slope in slopes[2:4]:
        steps += [("backward", 0, [slope]), ("step", 0), ("update",)]
    same_as_torch(weights, steps, init_scale=512.0)
    # An inf that keeps the optimizer from being stepped at all counts at the update. So does one
    # that is replaced before the step.
    steps = [("backward", 0, slopes[2:3]), ("unscale", 0), ("update",), ("clear",)]
    steps += [("backward", 0, slopes[2:3]), ("unscale", 0), ("clear",), ("backward", 0, slopes[:1])]
    steps += [("step", 0), ("update",), *one_by_one(slopes[1:2])]
    same_as_torch(weights, steps, init_scale=512.0)
with check.property(
    "two optimizers: one is skipped, one steps, the scale backs off once", weight=2
):
    weights = [[check.draw.normal(3)], [check.draw.normal(2)]]
    steps = []
    patterns = ".i...ii.", "..i...i."
    for one, other in zip(*map(draw_slopes, patterns, (3, 2)), strict=True):
        steps += [("clear",), ("backward", 0, [one]), ("backward", 1, [other])]
        steps += [("step", 0), ("step", 1), ("update",)]
    same_as_torch(weights, steps, " and ".join(patterns), init_scale=64.0, growth_interval=2)
with check.property("two optimizers: both, or only one, unscaled before step"):
    weights, steps = [[check.draw.normal(3)], [check.draw.normal(2)]], []
    drawn = draw_slopes("..i.", 3), draw_slopes("...i", 2)
    for one, other, first in zip(*drawn, ((0, 1), (0,), (1,), (1, 0)), strict=True):
        steps += [("clear",), ("backward", 0, [one]), ("backward", 1, [other])]
        steps += [("unscale", k) for k in first] + [("step", 0), ("step", 1), ("update",)]
    same_as_torch(weights, steps, "..i. and ...i", init_scale=128.0)
with check.property("other factors, tiny and huge scales, and the defaults"):
    settings = {"init_scale": 5.0, "growth_factor": 1.5, "backoff_factor": 0.125}
    weights, slopes = [[check.draw.normal(4)]], draw_slopes("...i....", 4)
    same_as_torch(weights, one_by_one(slopes), "...i....", growth_interval=2, **settings)
    same_as_torch(weights, one_by_one(slopes[:4]), "...i")
    settings = {"init_scale": 1.0, "growth_factor": 2.0**20, "backoff_factor": 2.0**-20}
    for pattern in ("....", "inmi."):  # the last step at 2^60, and at 2^-80
        slopes = draw_slopes(pattern, 4)
        same_as_torch(weights, one_by_one(slopes), pattern, growth_interval=1, **settings)
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
with check.property("gradients that overflow because of the scale, until it is small enough"):
    slopes = [2.0**118 * check.draw.uniform(3, low=0.1, high=0.9) for _ in range(12)]
    for slope in slopes:
        slope[0] = 2.0**118
    weights = [[check.draw.normal(3)]]
    settings = {"init_scale": 2.0**14, "growth_interval": 3}
    same_as_torch(weights, one_by_one(slopes), learning_rate=2.0**-118, **settings)
with check.property("an interval of 1, with other factors, and the defaults again"):
    settings = {"init_scale": 9.0, "growth_factor": 3.0, "backoff_factor": 0.25}
    weights, slopes = [[check.draw.normal(2)]], draw_slopes("..i...in.", 2)
    same_as_torch(weights, one_by_one(slopes), growth_interval=1, **settings)
    same_as_torch(weights, one_by_one(slopes))
### END HIDDEN TESTS
check.score()

# %% [markdown]
r"""
### The lower end

If an inf that does not come from the scale recurs in every step, every step is skipped, and the scale is halved again and again, even below 1.
"""


# %% folded="Skipped steps, and then a good one"
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


_, weight_after_144 = after_bad_steps(144)
sound = all(math.isfinite(entry) for entry in weight_after_144)

# %% folded="Predict: the scale falls below 1"
predict(
    "04/lower-end",
    "After 144 skipped steps the scale is 2^−128. The next gradient is finite, and the optimizer steps. What are the weights afterward?",
    "correct" if sound else "inf or nan",
    "The scaler looks for inf and nan before it multiplies the gradients by 1/S = 2^128, which is inf in float32.",
    choices=("correct", "unchanged", "inf or nan"),
)

# %%
for count in (20, 143, 144, 166):
    scale, weight = after_bad_steps(count)
    text = f"2^{int(math.log2(scale))}" if scale else "0"
    print(f"after {count:>3} skipped steps the scale is {text:<6} and a good step gives {weight}")

# %% [markdown]
r"""
At a scale of 0, all scaled gradients are 0 and $1/S$ is inf, so every gradient becomes $0 \cdot \infty$, which is nan. Log the scale: **if it keeps falling, the inf does not come from the scale.**

A float16 loss limits the scale from above, because its backward pass starts with the scale in float16:
"""

# %%
for scale in (2.0**15, 2.0**16):
    x = torch.ones(4, device=device, requires_grad=True)
    loss = (x.half() * x.half()).mean()
    (torch.tensor(scale, device=device) * loss).backward()
    print(f"scale 2^{int(math.log2(scale))}, loss in {loss.dtype}: gradient {x.grad[0].item()}")

# %% [markdown]
"""
65,536 is inf in float16, so with such a loss, a scaler skips every step that it tries at 65,536, its default scale. Compute the loss in float32 (chapter 03).

### One scaler per run

PyTorch's [recipe](https://docs.pytorch.org/tutorials/recipes/recipes/amp_recipe.html) recommends one scaler for a whole training run, saved with its checkpoints (`scaler.state_dict()`), and a fresh one for the next run. Below, the plate's model inherits a scaler that skipped 40 steps:
"""


# %% folded="The plate, trained with a given scaler"
def train_plate_with(scaler, steps=120):
    model = make_plate_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(steps):
        with autocast_to(torch.float16):
            loss = plate_error(model(points), bend)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    return loss.item() / flat_error


def make_used_scaler(skips=40):
    weight = torch.ones(1, device=device, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    scaler = torch.amp.GradScaler(device)
    for _ in range(skips):
        weight.grad = scaler.scale(torch.full_like(weight, math.inf))
        scaler.step(optimizer)
        scaler.update()
    return scaler


# %%
for name, scaler in (("fresh", torch.amp.GradScaler(device)), ("inherited", make_used_scaler())):
    start = int(math.log2(scaler.get_scale()))
    error = train_plate_with(scaler)
    print(
        f"{name:<9} scaler: it starts at 2^{start} and ends at 2^{int(math.log2(scaler.get_scale()))}, error {error:.2f}"
    )

# %% [markdown]
"""
With the inherited scaler, the gradients underflow, and the network learns nothing. Zeros are finite, so the scaler counts these steps as good and doubles its scale only after 2,000 of them.
"""

# %% [markdown]
r"""
## Between backward and step

After `scaler.scale(loss).backward()`, the gradients in `.grad` are $S$ times as large as any code that reads or changes them expects. The classic case is clipping: a gradient whose norm exceeds `max_norm` is shortened to `max_norm`. Below, the gradient has length 5, and both `max_norm` and the learning rate are 1.
"""


# %% folded="A step, clipped before unscale_"
def step_length(scale):
    """Return the length of a step whose gradient is clipped while it is still scaled."""
    weight = torch.zeros(2, device=device, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=1.0)
    scaler = torch.amp.GradScaler(device, init_scale=scale)
    slope = torch.tensor([3.0, 4.0], device=device)
    scaler.scale((slope * weight).sum()).backward()
    torch.nn.utils.clip_grad_norm_([weight], max_norm=1.0)
    scaler.step(optimizer)
    return weight.detach().norm().item()


# %% folded="Predict: clipped before unscale_"
clipped_first = step_length(65536.0)
told_length = next(
    text
    for text, length in (("1", 1.0), ("5", 5.0), ("1/65536", 1 / 65536), ("5/65536", 5 / 65536))
    if math.isclose(length, clipped_first, rel_tol=0.01)
)
predict(
    "04/clip-first",
    "The scale is 65536, and the gradients are clipped before `unscale_`. How long is the step?",
    told_length,
    "Clipping shortens the scaled gradient to length 1. `step` then divides it by the scale.",
    choices=("1", "5", "1/65536", "5/65536"),
)

# %% folded="Figure 4.8: length of a step, clipped to 1"
scale_exponents = range(0, 25, 2)
figure, axes = new_figure(height=3.0)
lengths_before = [step_length(2.0**k) for k in scale_exponents]
# Once unscaled, a gradient no longer depends on the scale: the step is that of scale 1.
lengths_after = [step_length(1.0)] * len(scale_exponents)
for lengths, color, marker, label in (
    (lengths_after, "blue", "o", "clipped after unscale_"),
    (lengths_before, "vermilion", "s", "clipped before unscale_"),
):
    axes.plot(
        scale_exponents,
        [math.log2(n) for n in lengths],
        color=COLORS[color],
        marker=marker,
        label=label,
    )
axes.set(
    title="Length of a step, clipped to 1",
    xlabel="log2 of the scale",
    ylabel="log2 of the step's length",
)
axes.legend()
show(
    figure,
    number="4.8",
    caption="In the wrong order, each doubling of the scale halves the step. No exception is raised.",
    alt="Logarithm of the step's length against that of the scale. Clipped after unscale_, it is 0 throughout. "
    "Clipped before, it falls along a straight line, from 0 at scale 1 to minus 24 at scale 2 to the 24.",
)

# %% [markdown]
r"""
Pytorch-UNet clipped too early ([issue 468](https://github.com/milesial/Pytorch-UNet/issues/468), 2023). Logging the norm and adding gradient noise also require unscaled gradients.

If the gradient holds an inf, its norm is inf, clipping multiplies by $1/\infty = 0$, and $0 \cdot \infty$ is nan. The step is still skipped, because `unscale_` has already recorded the inf.

With `enabled=False`, `scale` returns the loss unchanged, and `step` always steps, so one loop serves float16, bfloat16 and float32.
"""

# %% [markdown] exercise="clip-in-order" points=4 minutes=15 difficulty=1
"""
### Clipping in the right order

Write the part of a training step that follows the computation of the loss, with correct clipping.

`clipped_step(scaler, optimizer, loss, max_norm) -> float`

- **In** `scaler`: a `torch.amp.GradScaler`, possibly disabled. `optimizer`: has one or several groups and possibly momentum. `loss`: a scalar float32 tensor that depends on all of the optimizer's parameters. `max_norm`: a positive float.
- **What happens**: the call ignores gradients already stored in `.grad`. The gradient of the *unscaled* loss with respect to all parameters together is clipped to norm `max_norm`. If the scaler is enabled and a gradient holds an inf or a nan, the step is skipped (not if only the norm is inf); a disabled scaler skips none. The scaler is updated.
- **Out**: the norm of the unscaled gradient before clipping, a Python float; after a skipped step, any float.

With the gradient (3, 4), a learning rate of 1 and no momentum, `clipped_step(scaler, optimizer, loss, 1.0)` moves the weights by (−0.6, −0.8) and returns `5.0`.

<!-- hint: List, in order, everything that happens. Which of these operations need unscaled gradients? -->
<!-- hint: Clear the old gradients, call backward on the scaled loss, unscale, clip, step, update. The clipping function returns the norm before clipping. -->
<!-- hint: `torch.nn.utils.clip_grad_norm_` takes a list of parameters; collect them from the "params" of each of the optimizer's `param_groups`. Call it right after the scaler's `unscale_`. It returns a tensor: use `.item()`. -->
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
    """Return gradients with respect to three parameters whose norm together is ``norm``."""
    slopes = [check.draw.normal(3), check.draw.normal(2), check.draw.normal(4)]
    slopes[0][0], slopes[1][0], slopes[2][0] = 2.0, -1.5, 1.75  # none of the three is small
    length = torch.cat(slopes).double().norm()
    return [(slope.double() * norm / length).float() for slope in slopes]


def steps_by_hand(weights, slopes, max_norm, learning_rate, momentum=0.5):
    """Return the weights after each step, and the norms."""
    states, norms = [], []
    ways = [0.0 * weight for weight in weights]
    for given in slopes:
        norm = torch.cat(given).double().norm().item()
        if math.isfinite(norm):
            share = max_norm / max(max_norm, norm)  # the norm may be 0
            ways = [momentum * way + share * s for way, s in zip(ways, given, strict=True)]
            weights = [w - learning_rate * way for w, way in zip(weights, ways, strict=True)]
        states.append(weights)
        norms.append(norm)
    return states, norms


def clipped_steps(slopes, max_norm, scales=None, learning_rate=0.5, **settings):
    weights = [check.draw.normal(len(slope)) for slope in slopes[0]]
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
            check.true(type(one["returned"]) is float, "a skipped step did not return a float")
        check.close(one["weights"], state, rtol=1e-4, atol=1e-5, what=f"weights after step {step}")
        if scales:
            check.equal(one["scale"], scales[step - 1], what=f"the scale after step {step}")


def makes_a_huge_step():
    """Make two steps; the second one's gradients are finite, and their norm is not."""
    weights = [check.draw.uniform(size, low=0.01, high=0.02) for size in (3, 2, 4)]
    huge = [torch.full_like(weight, 2.0**127) for weight in weights]
    options = {"max_norm": 1.5, "learning_rate": 2.0**-6, "init_scale": 1.0}
    slopes = [draw_gradient(0.9), huge]
    got = check.call(probes.scaled_steps, clipped_step, weights, slopes, **options)
    about = "a step with finite gradients, each 2^127, whose norm is inf"
    pairs = zip(got[0]["weights"], got[1]["weights"], strict=True)
    told = f"{about}: no weight moved, despite the momentum, so the step was skipped"
    check.true(any(not torch.equal(before, after) for before, after in pairs), told)
    check.equal(got[1]["scale"], 1.0, what=f"the scale after {about}")


def makes_a_bad_step(which, bad):
    """Make a step with a disabled scaler and one bad entry, in parameter ``which``."""
    slopes = draw_gradient(4.0)
    place = check.draw.integer(0, len(slopes[which]))
    slopes[which][place] = bad
    weights = [check.draw.normal(len(slope)) for slope in slopes]
    options = {"max_norm": 1.5, "learning_rate": 0.5, "enabled": False}
    got = check.call(probes.scaled_steps, clipped_step, weights, [slopes], **options)
    for number, weight in enumerate(got[0]["weights"]):
        finite = torch.isfinite(weight)
        if number == which:
            told = f"the scaler is disabled, and a gradient held {bad}: "
            told += "its weight is finite, so the step was skipped, or the gradient was changed"
            check.true(not bool(finite[place]), told)
        if math.isnan(bad):  # clipping may have multiplied every gradient by nan
            continue
        expected = torch.tensor([(number, at) != (which, place) for at in range(len(weight))])
        check.equal(finite, expected, what=f"which entries of weight {number} are finite")


with check.property("a long gradient is clipped to max_norm, whatever the scale"):
    scale = 2.0 ** check.draw.integer(8, 20)
    slopes = [draw_gradient(check.draw.number(3.0, 9.0))]
    clipped_steps(slopes, 1.25, [scale], init_scale=scale, left_over=False)
with check.property("a short gradient stays as it is", weight=2):
    for norm in (check.draw.number(0.5, 0.9), 0.0):
        scale = 2.0 ** check.draw.integer(8, 20)
        clipped_steps([draw_gradient(norm)], 1.25, init_scale=scale, left_over=False)
with check.property("gradients left in .grad are ignored, and the scaler is updated", weight=2):
    slopes = [draw_gradient(norm) for norm in (5.0, 0.7, 2.0, 11.0)]
    clipped_steps(slopes, 1.5, [8.0, 16.0, 16.0, 32.0], init_scale=8.0, growth_interval=2)
with check.property(
    "inf and nan: no step, and the scale backs off, even below 1; a norm of inf: a step", weight=2
):
    slopes = [draw_gradient(norm) for norm in (2.0, 3.0, 0.9, 4.0, 1.0, 2.0)]
    slopes[1][0][check.draw.integer(0, 3)] = math.inf
    slopes[2][1][check.draw.integer(0, 2)] = math.nan
    slopes[4][2][check.draw.integer(0, 4)] = -math.inf
    scales = [512.0, 16.0, 0.5, 0.5, 2.0**-6, 2.0**-6]
    clipped_steps(slopes, 1.5, scales, init_scale=512.0, backoff_factor=2.0**-5)
    makes_a_huge_step()
with check.property("a disabled scaler"):
    clipped_steps([draw_gradient(norm) for norm in (4.0, 0.6)], 1.5, [1.0, 1.0], enabled=False)
with check.property("a disabled scaler skips no step, whatever the gradient holds"):
    makes_a_bad_step(0, math.inf)
    makes_a_bad_step(2, math.nan)
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
with check.property("a disabled scaler, and -inf in another parameter"):
    makes_a_bad_step(1, -math.inf)
### END HIDDEN TESTS
check.score()

# %% [markdown]
r"""
## Schedules and skipped steps

A learning-rate schedule counts steps, even skipped ones if `scheduler.step()` is called in every iteration. Take a warm-up, which raises the learning rate over the first 20 steps, and a first scale that is $2^9$ times as large as it should be, so the first nine steps are skipped.
"""


# %% folded="A warm-up with skipped steps"
def warm_up(iterations=36):
    """Return for each iteration the learning rate, and whether its step was really made."""
    weight = torch.ones(2, device=device, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=1.0)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 0.05, total_iters=20)
    scaler = torch.amp.GradScaler(device)
    rows = []
    for _ in range(iterations):
        optimizer.zero_grad()
        # The largest float32 is just below 2^128: a scale of 2^7 is small enough.
        scaler.scale((2.0**120 * weight).sum()).backward()
        rate, before = scheduler.get_last_lr()[0], weight.detach().clone()
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()
        rows.append((rate, not torch.equal(weight.detach(), before)))
    return rows


with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    rows = warm_up()
usual = [rate for rate, made in rows if made]
# A schedule that counts only real steps gives them its first rates, in order.
followed = [rate for rate, _ in rows[: len(usual)]]

# %% folded="Predict: the first real step of a warm-up"
predict(
    "04/warm-up",
    "The warm-up starts at a learning rate of 0.05 and ends at 1. The scheduler steps in every iteration. What is the learning rate of the first step that is not skipped?",
    usual[0],
    "The schedule has counted the nine skipped steps, so nearly half of the warm-up is over.",
    between=(0, 1),
)

# %% folded="Figure 4.9: a warm-up over 20 steps, the first nine skipped"
figure, axes = new_figure(height=3.0)
axes.plot(usual, "s-", ms=4, color=COLORS["vermilion"], label="scheduler.step() in every iteration")
axes.plot(followed, "o-", ms=4, color=COLORS["blue"], label="only after a real step")
axes.set(
    title="Warm-up over 20 steps, the first nine skipped",
    xlabel="steps the optimizer has taken so far",
    ylabel="learning rate",
)
axes.legend(loc="lower right")
show(
    figure,
    number="4.9",
    caption="The learning rate of each step that was not skipped. A schedule that counts iterations skips the cautious part of the warm-up.",
    alt="Learning rate against the number of real steps. If the scheduler steps in every iteration, the first real "
    "step has a rate of 0.48, and the warm-up ends early. If it follows the real "
    "steps, the first one has 0.05 and the warm-up takes 20 steps.",
)

# %%
print("PyTorch warns:", str(caught[0].message)[:66])

# %% [markdown]
r"""
`scaler.step` does not report whether it stepped. There are three ways to find out:

1. **Compare the scale before and after `update`**: if it fell, a step was skipped. [Transformers](https://github.com/huggingface/transformers/pull/11144) did this. But all optimizers share the scale, so it does not tell which of two was skipped.
2. **Look at the gradients** after `scaler.unscale_(optimizer)`: are they all finite?
3. **Ask the optimizer.** After `handle = optimizer.register_step_post_hook(f)`, each call of `optimizer.step` ends by calling `f(optimizer, args, kwargs)`, until `handle.remove()`.

The third way fails with a **fused** optimizer (`fused=True`), which does the whole step in one kernel. The scaler always calls its `step`, and the kernel unscales the gradients and, if there is an inf, leaves the weights alone:
"""


# %% folded="A step of SGD, fused or not"
def fused_step(slope, fused):
    """Return the weight afterward, how often the hook was called, and the scale."""
    weight = torch.ones(1, device=device, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.5, fused=fused)
    calls = []
    optimizer.register_step_post_hook(lambda *_: calls.append(True))
    scaler = torch.amp.GradScaler(device, init_scale=1024.0)
    scaler.scale((slope * weight).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    return weight.item(), len(calls), scaler.get_scale()


# %%
for fused in (False, True):
    for slope in (1.0, math.inf):
        weight, calls, scale = fused_step(slope, fused)
        print(
            f"fused={fused!s:<5} gradient {slope:<3}: weight {weight}, calls of step: {calls}, scale {scale:g}"
        )

# %% [markdown] exercise="follow-real-steps" points=4 minutes=20 difficulty=2
"""
### A scheduler that follows the actual steps

Write the part of an iteration that follows `backward`, for any number of optimizers.

`follow_steps(scaler, optimizers, schedulers) -> None`

- **In** `scaler`: a `torch.amp.GradScaler`, enabled. `optimizers`: a list; none is fused, each has one or several groups, and all their parameters have gradients, still scaled. `schedulers`: a list with one scheduler per optimizer, in the same order.
- **Out**: nothing. The scaler steps or skips every optimizer, and is updated once. The scheduler of each optimizer that **actually stepped** (even with gradients of 0) steps once; the other schedulers do not. The function is called in every iteration with the same objects, so hooks must not pile up.

If the gradients of `a` hold an inf and those of `b` do not, `follow_steps(scaler, [a, b], [for_a, for_b])` steps `b` and `for_b` and, by default, halves the scale.

<!-- hint: With two optimizers there are four cases. What does the scale do in each of them, and what should each scheduler do? -->
<!-- hint: The scale falls in three of the four cases, so it cannot tell them apart. Ask each optimizer separately, through its gradients or a hook. -->
<!-- hint: For each optimizer, call `scaler.unscale_` and check that `torch.isfinite` is true of every entry of every gradient. Then call `scaler.step`, and step the scheduler if the check passed. Update after the loop. -->
"""


# %% solution="follow-real-steps"
def follow_steps(scaler, optimizers, schedulers):
    """Step the optimizers through the scaler, and the schedulers of those that really stepped."""
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


def schedule_by_hand(weights, slopes, rate, decay, scale, interval, backoff):
    """Return the expected rates, weights and scale after each step."""
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
            scale *= backoff
        elif row == interval:
            scale, row = scale * 2.0, 0
        states.append({"rates": list(rates), "weights": list(weights), "scale": scale})
    return states


def follows(patterns, decay=0.5, scale=256.0, interval=1000, backoff=0.5):
    """Run as many optimizers as there are patterns, each with three parameters.

    "0" makes all gradients 0; "h" makes them so large that their sum and norm overflow when scaled,
    though they do not. Another letter makes one parameter's gradient bad, each time another's.
    Return how many hooks each optimizer has after each iteration.
    """
    sizes = [2 + check.draw.integer(0, 5) for _ in patterns]
    weights = [[check.draw.normal(n) for n in (size, 3, 2)] for size in sizes]
    turns = [[1, 2, 0] for _ in patterns]  # fixed: the points must not hang on luck
    slopes = []
    for letters in zip(*patterns, strict=True):
        given = [[check.draw.normal(n) for n in (size, 3, 2)] for size in sizes]
        for own, letter, turn in zip(given, letters, turns, strict=True):
            if letter == "0":
                for slope in own:
                    slope.zero_()
            elif letter == "h":
                for slope in own:
                    slope.fill_(2.0**127 / scale)
            elif letter != ".":
                slope = own[turn[0]]
                turn.append(turn.pop(0))
                slope[check.draw.integer(0, len(slope))] = math.inf if letter == "i" else math.nan
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
        backoff_factor=backoff,
    )
    expected = schedule_by_hand(weights, slopes, 1.0, decay, scale, interval, backoff)
    about = f"of {' and '.join(patterns)}"
    letters = {".": "ordinary", "i": "inf", "n": "nan", "0": "zeros", "h": "huge"}
    told = [f"{letter} {kind}" for letter, kind in letters.items() if letter in "".join(patterns)]
    about += f" ({', '.join(told)})"
    for step, (one, other) in enumerate(zip(got, expected, strict=True), start=1):
        for key, name in (("rates", "learning rates"), ("weights", "weights"), ("scale", "scale")):
            what = f"{name} after iteration {step} {about}"
            check.close(one[key], other[key], rtol=1e-5, atol=1e-6, what=what)
    return [one["hooks"] for one in got]


with check.property("without inf every optimizer and every scheduler steps, and the scale grows"):
    follows(["....", "....", "...."], decay=check.draw.number(0.5, 0.9), interval=2)
with check.property("one optimizer: its scheduler waits when a step is skipped", weight=2):
    follows([".i.nn.."], decay=check.draw.number(0.5, 0.9))
with check.property("two optimizers: only the first is skipped, or only the second", weight=3):
    follows([".i...n.", "...i..."], decay=check.draw.number(0.5, 0.9))
with check.property("the scale backs off once per iteration, even if two optimizers are skipped"):
    follows([".ii.", ".i..", "...."], decay=0.8, scale=4096.0)
    follows([".i", ".n"], decay=0.8, backoff=0.125)
with check.property("a step with gradients of 0, or with huge ones, is a real step, too"):
    follows([".0.00"], decay=check.draw.number(0.5, 0.9))
    follows([".h"], scale=1.0)
with check.property("hooks do not pile up from iteration to iteration", weight=0.5):
    hooks = follows([".i.n.", "..i.."], decay=check.draw.number(0.5, 0.9))
    for first, last in zip(hooks[0], hooks[-1], strict=True):
        told = f"hooks of an optimizer after the first iteration: {first}, after the fifth: {last}"
        check.true(last <= first, told)
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("growth and skips mixed, three optimizers"):
    follows(["...i.....", "......n..", ".........", ".......ii"], decay=0.7, scale=64.0, interval=3)
with check.property("gradients of 0 next to skipped steps"):
    follows(["0..0", ".0i."], decay=check.draw.number(0.5, 0.9), scale=16.0, backoff=0.75)
### END HIDDEN TESTS
check.score()

# %% [markdown]
"""
## Loss scaling in bfloat16

Does training in bfloat16 also need a loss scale?
"""

# %% folded="The plate in bfloat16"
bfloat16_pair = [
    activation_gradients(make_plate_model(), plate_error, points, bend, scale, torch.bfloat16)
    for scale in (1.0, 2.0**16)
]
bfloat16_is_same = torch.equal(bfloat16_pair[0], bfloat16_pair[1] / 2.0**16)
errors_bfloat16, _ = train_plate(lower=torch.bfloat16)

# %% folded="Predict: a scale for bfloat16"
predict(
    "04/bfloat16",
    "The plate's gradients are computed in bfloat16, once without a scale and once with the scale 65536, which is then divided out. How do the results differ?",
    "not at all" if bfloat16_is_same else "some digits differ",
    "bfloat16 has eight exponent bits, as float32 does, so nothing underflows without the scale or overflows with it, and a power of two leaves the digits alone.",
    choices=(
        "not at all",
        "some digits differ",
        "without the scale they are 0",
        "with the scale they are inf",
    ),
)

# %% folded="Figure 4.10: the plate's gradients, and the ranges of three formats"
figure, axes = new_figure(height=2.6)
for row, dtype in enumerate((torch.float16, torch.bfloat16, torch.float32)):
    info = torch.finfo(dtype)
    low, high = math.log2(info.smallest_normal), math.log2(info.max)
    axes.barh(row, high - low, left=low, height=0.5, color=COLORS["blue"])
    subnormal = math.log2(info.eps)
    axes.barh(row, subnormal, left=low, height=0.5, color=COLORS["orange"])
axes.axvspan(min(plate_counts), max(plate_counts) + 1, color=COLORS["vermilion"], alpha=0.35)
axes.set_yticks(range(3), ["float16", "bfloat16", "float32"])
axes.set_ylim(2.6, -0.6)
axes.set(title="Ranges of three formats", xlabel="exponent (base 2)", ylabel="format")
show(
    figure,
    number="4.10",
    caption="The ranges of normal (blue) and subnormal (orange) numbers in three formats. The red band holds the activation gradients of the plate.",
    alt="Three horizontal bars over exponents. float16 reaches from minus 24 to 16, bfloat16 from minus 133 to 128, float32 from minus 149 to 128. A band from about minus 45 to minus 25 lies left of float16's bar and within the other two.",
)

# %%
for dtype in (torch.float16, torch.bfloat16):
    share = (plate_gradients.to(dtype) == 0).double().mean().item()
    print(
        f"{dtype!s:<15} {share:.1%} of the gradients become 0; largest number {torch.finfo(dtype).max:.3g}"
    )
print(f"in bfloat16 without a scale, the error goes below 0.1: {errors_bfloat16[-1] < 0.1}")
print("bfloat16 gradients, without and with the scale 65536, are equal:", bfloat16_is_same)

# %% [markdown]
"""
Here, the scale neither helps nor harms. But bfloat16 has only 8 binary digits to float16's 11, and no scale adds any.
"""

# %% [markdown]
r"""
## Three causes of nan, and what a scaler does for each

This section tries a scaler on three of the five causes of nan in its closing table: gradient underflow, a logarithm in the loss, and a network that is too deep.

`examine` makes one forward and backward pass and records outputs, loss and gradients. After `unscale_`, `train_by_length` divides each gradient by its own norm, much as the optimizer LARS does.
"""


# %% tags=["needed"] folded="Measuring tool: examine"
def examine(model, loss_function, inputs, targets, scale=1.0, lower=torch.float16):
    """Return a record of one forward and backward pass, a dict.

    "outputs" maps the name of each module without submodules to its output, in the order in which
    they ran; "loss" is a float; "gradients" maps each parameter's name to its gradient, unscaled.
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


# %% folded="Training loop: train_by_length"
def train_by_length(model, loss_function, inputs, targets, scaler, lower=torch.float16, steps=12):
    """Train with steps of a fixed length; return the losses."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    losses = []
    for _ in range(steps):
        with autocast_to(lower):
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


def weighted_plate_error(outputs, targets):
    return 0.1 * plate_error(outputs, targets)


# %% [markdown]
"""
### First cause: gradients become 0

The plate's loss gets a weight of 0.1, as a term in a sum of losses might, so float16 makes all gradients 0.
"""

# %%
plate = weighted_plate_error, points, bend
for name, enabled, lower in (
    ("float32, no scaler", False, None),
    ("float16, no scaler", False, torch.float16),
    ("float16, scaler", True, torch.float16),
):
    losses = train_by_length(make_plate_model(), *plate, new_scaler(enabled), lower)
    print(f"{name:<18}: {describe_losses(losses)}")

gradients = examine(make_plate_model(), *plate)["gradients"]
zero = sum(not slope.any() for slope in gradients.values())
print(f"no scaler: {zero} of {len(gradients)} gradients are 0 in every entry")

# %% [markdown]
r"""
*Diagnosis*: outputs and loss are finite, and a gradient is 0 in every entry. Underflow makes a 0, not a nan; the nan arises when the loop divides by a norm of 0. *Cure*: the scaler.

### Second cause: a logarithm in the loss

A single layer with large logits classifies digits. `loss_by_the_book` takes the softmax, then the mean negative log-probability of the correct digit. `loss_with_minus_100` replaces infinite logarithms with −100.
"""

# %% folded="Digits, a classifier with large logits, and two losses"
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
        with autocast_to(torch.float16):
            loss = loss_function(model(pixels), labels)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    weight = model[0].weight.detach()
    return not torch.equal(weight, start), bool(torch.isfinite(weight).all())


def weight_gradient_is_finite(loss_function, scale=1.0):
    record = examine(make_classifier(), loss_function, pixels, labels, scale=scale)
    return bool(torch.isfinite(record["gradients"]["0.weight"]).all())


moved_by_the_book, sound_by_the_book = train_classifier(loss_by_the_book, new_scaler())
told_by_the_book = (
    "they have not moved" if not moved_by_the_book else "they have moved, and are finite"
)
told_by_the_book = told_by_the_book if sound_by_the_book else "they are nan"

# %% folded="Predict: a scaler and an infinite loss"
predict(
    "04/infinite-loss",
    "`loss_by_the_book` is inf, and a scaler is in use. What has happened to the weights after 20 steps?",
    told_by_the_book,
    "The gradient is nan at every scale, so every step is skipped, and the scale is halved 20 times.",
    choices=("they are nan", "they have not moved", "they have moved, and are finite"),
)

# %%
wide = examine(make_classifier(), loss_by_the_book, pixels, labels, lower=None)
print("in float32, loss_by_the_book is", wide["loss"])
for loss_function in (loss_by_the_book, loss_with_minus_100, functional.cross_entropy):
    finite = weight_gradient_is_finite(loss_function)
    print(f"{loss_function.__name__}: gradient finite: {finite}")
    for scaler in (new_scaler(enabled=False), new_scaler()):
        moved, sound = train_classifier(loss_function, scaler)
        end = (
            f"scale 2^{int(math.log2(scaler.get_scale()))}" if scaler.is_enabled() else "no scaler"
        )
        print(f"   {end:<11}: weights moved: {moved}, weights finite: {sound}")
for k in (13, 14):
    finite = weight_gradient_is_finite(functional.cross_entropy, 2.0**k)
    print(f"cross_entropy at the scale 2^{k}: gradient finite: {finite}")

# %% [markdown]
r"""
*Diagnosis*: the outputs are finite and the loss is inf, in float32 as well, because the correct digit of some images has probability 0, and $\log 0 = -\infty$. *The scaler* keeps the nan out of the weights, so training stalls instead of ending in nan. The −100 is *no cure*: the loss is finite, but `where` hides only the logarithm's value, not its derivative $1/0$ (chapter 08). *Cure*: a loss that fuses the logarithm with the softmax (`cross_entropy`) or the sigmoid (`binary_cross_entropy_with_logits`). With `cross_entropy`, the scaler rightly backs off to $2^{13}$, because the weight's gradient overflows at $2^{14}$.

### Third cause: too deep

One network has twenty sigmoids. Their derivatives are at most 1/4 and the weights are small, so the gradient shrinks from layer to layer in the backward pass. Another network, equally deep, has **residual connections**: each block adds its result to its input, $x + \tanh(W \,\text{norm}(x))$, where norm is a layer norm (chapter 01).
"""

# %% folded="Two deep networks"
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

# %%
for residual, name in ((False, "sigmoids"), (True, "residual")):
    for enabled, with_scaler in ((False, "no scaler"), (True, "scaler")):
        losses = train_by_length(make_deep(residual), *deep, new_scaler(enabled))
        print(f"{name}, {with_scaler}: {describe_losses(losses)}")

# %% [markdown]
"""
The scaler looks for inf and nan in `unscale_`. The loop divides 0 by 0 *afterward*, so the nan reaches the weights.

Why are there zeros at a scale of 65,536? The next cells examine the plate and both networks in float32 and, at many scales, in float16. A parameter is *lost* at a scale if its gradient there holds an inf or a nan, or is 0 in every entry although the true gradient is not.
"""


# %% folded="Lost parameters at many scales"
def share_lost(gradients):
    """Return the share of parameters that are lost; here, no true gradient is 0."""
    sizes = torch.stack([gradient.abs().max() for gradient in gradients.values()])
    return 1.0 - ((sizes > 0) & (sizes < math.inf)).double().mean().item()


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
    lost_share[name] = [
        share_lost(record["gradients"])
        for record in records_at(SCALE_EXPONENTS, make_model, case).values()
    ]
weight_sizes = {
    name: [
        slope.abs().max().log2().item()
        for key, slope in references[name]["gradients"].items()
        if key.endswith("weight") and slope.dim() == 2
    ]
    for name in ("20 sigmoids", "20 residual blocks")
}

# %%
for name, shares in lost_share.items():
    print(f"{name:<19} a scale at which nothing is lost exists: {min(shares) == 0}")
for name, sizes in weight_sizes.items():
    print(
        f"{name:<19} the largest gradients of its layers span {max(sizes) - min(sizes):.0f} doublings"
    )

# %% folded="Figure 4.11: gradients of two deep networks, and lost parameters"
figure, (left, right) = new_figure(1, 2, width_ratios=(1, 1))
for (name, sizes), color, marker in zip(
    weight_sizes.items(), ("vermilion", "blue"), "so", strict=True
):
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
    number="4.11",
    caption="Left: the sigmoids' gradients span more than float16 does. Right: a scale saves the plate, no scale saves the sigmoids, and the residual blocks need none.",
    alt="Left: the base-2 logarithm of the largest gradient in each layer. In the residual network all layers lie "
    "between minus 4 and 0. In the network of sigmoids it falls from minus 6 in the last layer to about "
    "minus 60 in the first, while float16 spans 40. Right: the share of lost parameters against the scale. For the plate "
    "it falls from 1 to 0 and stays there. For the residual network it is 0 up to 2 to the 16, about 0.5 at 2 to the 20, then 1. For the sigmoids "
    "it never reaches 0.",
)

# %% [markdown]
r"""
*Diagnosis*: float16 spans 40 doublings, from $2^{-24}$ to $2^{16}$; the sigmoids' gradients span more. **One factor moves the histogram but cannot make it narrower**: a scale that is large enough for the first layers is too large for the last. *Cure*: layers whose gradients have similar sizes (normalization, residual connections), or bfloat16.

| cause | outputs | loss | gradients | the scaler | the cure |
| --- | --- | --- | --- | --- | --- |
| underflow | finite | finite | all 0 for some parameter, at small scales only | **cures it** | a scale, or bfloat16 |
| a logarithm in the loss | finite | inf or nan | inf or nan | skips every step | a fused loss, such as `cross_entropy` |
| too deep | finite | finite | all 0, or partly inf, for some parameter at every scale | does not help | normalization, residual connections, bfloat16 |
| overflow in the forward pass (chapter 03) | inf or nan | inf or nan | inf or nan | skips every step | that part in float32 |
| an infinite derivative (the logarithm behind `where`, a square root at 0; chapter 08) | finite | finite | inf or nan at every scale | skips every step | replace the bad number *before* the function |
"""

# %% [markdown] exercise="nan-doctor" points=6 minutes=25 difficulty=2
"""
### The nan doctor

Write the function that names the cause.

`diagnose(records, reference) -> tuple`

- **In** `records`: a dict from nonnegative integers k, in any order and including 0, to `examine`'s records in float16 at the scale 2^k. All have the same outputs and loss. `reference`: the record in float32. A record is a dict of `"outputs"` (a dict from module names to tensors, in execution order), `"loss"` (a float) and `"gradients"` (a dict from parameter names to tensors, in any order).
- **Out**: the first answer that applies.
  1. `("forward", name)`: the first module whose output holds inf, −inf or nan.
  2. `("loss", None)`: the loss is inf, −inf or nan.
  3. `("backward", None)`: every record has inf, −inf or nan among its gradients, possibly in different places.
  4. `("healthy", None)`: at k = 0, no parameter is lost.
  5. `("underflow", k)`: the smallest k at which no parameter is lost.
  6. `("range", None)`: none of the above.

A parameter is **lost** in a record if its gradient holds inf, −inf or nan, or is 0 in every entry while the reference's is not.

If all gradients are 0 at k = 0 and match the reference at k = 8, `diagnose({8: a, 0: b}, reference)` returns `("underflow", 8)`.

<!-- hint: Which lines of the list look at one record, and which at all of them? -->
<!-- hint: Write two small functions: whether a record has only finite gradients, and whether it has a lost parameter. Then each line of the list is one `if`, in the same order. -->
<!-- hint: For the fifth line, go through `sorted(records)` and return at the first k whose record has no lost parameter. `torch.isfinite(t).all()` and `t.any()` test a tensor, and `math.isfinite` tests the loss. -->
"""


# %% solution="nan-doctor"
def diagnose(records, reference):
    """Return the diagnosis, and with it a module's name, an exponent or None."""
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
SIZES = {"stem.weight": (2, 7), "block.linear.bias": (9,), "block.head.weight": (3, 2, 1, 4)}


def draw_record(scales=(1.0, 1.0, 1.0)):
    """Return a healthy record; the parameters' gradients have the given sizes."""
    shapes = [(3, 2), (4,), (2, 5), (6,)]
    outputs = {n: check.draw.normal(*s).half() for n, s in zip(NAMES, shapes, strict=True)}
    outputs["block.head"][:3] = 60000.0  # finite, and their sum is not
    gradients = {}
    for (name, shape), size in zip(SIZES.items(), scales, strict=False):
        slope = size * check.draw.normal(*shape)
        slope.view(-1)[0], slope.view(-1)[-3] = 0.0, size  # one entry is 0, and one is not
        gradients[name] = slope
    first = gradients["stem.weight"]
    first.zero_()
    first[0, 1], first[0, 2] = scales[0], -scales[0]  # not 0, and their sum is
    return {"gradients": gradients, "loss": check.draw.number(0.1, 3.0), "outputs": outputs}


def copy_record(record):
    copies = {
        part: {n: t.clone() for n, t in record[part].items()} for part in ("gradients", "outputs")
    }
    return {"gradients": copies["gradients"], "loss": record["loss"], "outputs": copies["outputs"]}


def records_like(reference, fates):
    """Return records; for each k, a word has one letter for each parameter's gradient.

    ".": as in the reference; "0": all zeros; "p": all zeros but one entry; "i", "m" or "n": an
    entry is inf, -inf or nan.
    """
    records, bad = {}, {"i": math.inf, "m": -math.inf, "n": math.nan}
    for k, word in fates.items():
        records[k] = copy_record(reference)
        for slope, letter in zip(records[k]["gradients"].values(), word, strict=True):
            entries = slope.view(-1)
            if letter == "0":
                slope.zero_()
            elif letter == "p":
                place = entries.nonzero()[-1].item()
                kept = entries[place].item()
                slope.zero_()
                entries[place] = kept
            elif letter in bad:
                entries[1 + check.draw.integer(0, len(entries) - 1)] = bad[letter]
    return records


def says(reference, fates, *expected, outputs=(), loss=None, backwards=False):
    records = records_like(reference, fates)
    for record in records.values():
        record["loss"] = record["loss"] if loss is None else loss
        for name, value in outputs:
            record["outputs"][name][1] = value
    letters = {".": "as in float32", "0": "all zeros", "p": "one entry left"}
    letters |= {"i": "has inf", "m": "has -inf", "n": "has nan"}
    used = "".join(fates.values())
    told = [f"{letter} {meaning}" for letter, meaning in letters.items() if letter in used]
    what = f"the answer for gradients {fates}, for each k ({', '.join(told)})"
    what += f", bad outputs of {', '.join(name for name, _ in outputs)}" if outputs else ""
    what += f", loss {loss}" if loss is not None else ""
    if backwards:
        slopes = dict(reversed(reference["gradients"].items()))
        reference = reference | {"gradients": slopes}
        what += ", the reference's gradients in reverse order"
    check.equal(check.call(diagnose, records, reference), expected, what=what)


def draw_scale_exponents(count):
    """Return ``count`` exponents of scales, all above 0, in ascending order."""
    return sorted((1 + check.draw.permutation(60)[:count]).tolist())


def says_all(*cases):
    """Try all cases in random order, so that no answer is known in advance."""
    for place in check.draw.permutation(len(cases)):
        reference, fates, answer, *faults = cases[place]
        says(reference, fates, *answer, **(faults[0] if faults else {}))


def healthy():
    (k,) = draw_scale_exponents(1)
    return draw_record(), {0: "...", k: "ii."}, ("healthy", None)


with check.property("a healthy run, and runs that a scale cures: the smallest such scale"):
    a, b, c, d = draw_scale_exponents(4)
    far = 61 + check.draw.integer(0, 30)
    fates = {c: "...", a: "0..", 0: "00.", b: "...", d: "..i"}
    says_all(
        (draw_record(), {0: "...", a: "...", b: "ii."}, ("healthy", None)),
        (draw_record(), fates, ("underflow", b)),
        (draw_record(), {0: "0..", far: "..."}, ("underflow", far)),
    )
with check.property("a parameter is lost if its gradient is 0 in every entry, not just in some"):
    a, b, c = draw_scale_exponents(3)
    says_all(
        (draw_record(), {0: "p.p", a: "..."}, ("healthy", None)),
        (draw_record(), {0: "0.0", a: "p.0", b: ".pp", c: "..."}, ("underflow", b)),
        (draw_record(), {0: ".0.", a: "p0p", b: "..."}, ("underflow", b)),
    )
with check.property(
    "the first module whose output is not finite, in execution order and not by name", weight=2
):
    bad = (math.inf, math.nan, -math.inf)
    cases = [healthy()]
    for first in range(3):
        faults = {"outputs": [(NAMES[first], bad[first])], "loss": math.nan}
        faults["outputs"] += [(name, math.nan) for name in NAMES[first + 1 :]]
        cases.append((draw_record(), {0: "nnn", 8: "nnn"}, ("forward", NAMES[first]), faults))
    says_all(*cases)
with check.property("a loss that is inf or nan, with finite outputs", weight=2):
    cases = [healthy()]
    for value in (math.inf, math.nan, -math.inf):
        fates = {0: "nni", draw_scale_exponents(1)[0]: "nnn"}
        cases.append((draw_record(), fates, ("loss", None), {"loss": value}))
    says_all(*cases)
with check.property("no scale cures it: the gradients span too wide a range", weight=2):
    a, b, c, d = draw_scale_exponents(4)
    fates = {0: ".00", a: ".00", b: "..0", c: "m.0", d: "im."}
    says_all(
        (draw_record((1.0, 2.0**-30, 2.0**-80)), fates, ("range", None)),
        (draw_record((1.0, 2.0**-30, 2.0**-80)), fates | {c: "..."}, ("underflow", c)),
        (draw_record(), {0: ".0."}, ("range", None)),
    )
with check.property("inf or nan among the gradients at every scale, with a finite loss"):
    a, b = draw_scale_exponents(2)
    says_all(
        (draw_record(), {0: "n..", a: ".m.", b: ".im"}, ("backward", None)),
        (draw_record(), {0: "n..", a: "...", b: ".ii"}, ("underflow", a)),
        (draw_record(), {0: ".i."}, ("backward", None)),
        (draw_record(), {0: "..."}, ("healthy", None)),
    )
with check.property(
    "a gradient whose true value is 0 is lost only if it holds an inf or a nan", weight=2
):
    reference, (a, b) = draw_record(), draw_scale_exponents(2)
    reference["gradients"]["stem.weight"].zero_()
    says_all(
        (reference, {0: "...", a: "..i"}, ("healthy", None)),
        (reference, {0: "..0", b: "..."}, ("underflow", b)),
        (reference, {0: "i..", a: "n..", b: "..."}, ("underflow", b)),
        (reference, {0: "...", a: "..0"}, ("healthy", None), {"backwards": True}),
        (reference, {0: "..0", b: "..."}, ("underflow", b), {"backwards": True}),
    )
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("the scale at which nothing is lost may lie between bad ones"):
    a, b, c, d, e = draw_scale_exponents(5)
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
    a, b = draw_scale_exponents(2)
    says_all(
        (draw_record((1.0, 2.0**-50)), {0: ".0", a: ".0", b: "i."}, ("range", None)),
        (draw_record((1.0, 2.0**-50)), {0: "i.", a: "i.", b: ".0"}, ("range", None)),
        (draw_record((1.0, 2.0**-50)), {0: "i.", a: "..", b: ".0"}, ("underflow", a)),
    )
### END HIDDEN TESTS
check.score()

# %% [markdown]
"""
## A step that counts

A library wraps optimizers to count their steps. `CountedOptimizer` has `zero_grad` and what a scaler needs: `param_groups` and `step`. The library takes its steps with `step_from_the_wild`:
"""


# %% tags=["needed"] folded="CountedOptimizer: an optimizer that counts its steps"
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


# %% folded="Training with this step"
def train_counted(step_function, steps=40):
    torch.manual_seed(0)
    layers = torch.nn.Linear(64, 32), torch.nn.Tanh(), torch.nn.Linear(32, 10)
    model = torch.nn.Sequential(*layers).to(device)
    counted = CountedOptimizer(torch.optim.SGD(model.parameters(), lr=0.5))
    scaler = torch.amp.GradScaler(device, init_scale=2.0**24)
    losses = []
    for _ in range(steps):
        with autocast_to(torch.float16):
            loss = functional.cross_entropy(model(shades), labels)
        losses.append(loss.item())
        step_function(scaler, counted, loss, 1.0)
    return losses, counted.steps, scaler.get_scale()


losses_in_the_wild, counted_steps, last_scale = train_counted(step_from_the_wild)

# %% folded="Figure 4.12: a training step from the wild"
figure, axes = new_figure(height=2.8)
axes.plot(range(1, 41), losses_in_the_wild, color=COLORS["vermilion"], label="as found")
axes.axhline(math.log(10), color=COLORS["black"], linestyle=":", label="guessing, ln 10")
axes.set(title="A training step from the wild", xlabel="step", ylabel="loss (nats)", ylim=(0, 2.8))
axes.legend()
show(
    figure,
    number="4.12",
    caption="The loss stays at its first value, just above ln 10, the loss of guessing among ten digits.",
    alt="Loss against training step: a level line at 2.34, just above the dotted line at 2.30.",
)

# %%
print(f"loss: {losses_in_the_wild[0]:.1f} at first, {losses_in_the_wild[-1]:.1f} in step 40")
skipped = last_scale < 2.0**24
print(f"steps counted: {counted_steps}; the scale fell, so some were skipped: {skipped}")

# %% [markdown] exercise="bug-hunt-counted" points=4 minutes=20 difficulty=2
"""
### Bug hunt: the network that stands still

The network does not learn, and the count is too high. Find out why, then write a step that works.

`counted_step(scaler, counted, loss, max_norm) -> None`

- **In** `scaler`: a `torch.amp.GradScaler`, enabled. `counted`: a `CountedOptimizer`, whose optimizer may have several groups and momentum. `loss`: a scalar float32 tensor that depends on all parameters. `max_norm`: a positive float.
- **Out**: nothing. Gradients already stored in `.grad` are ignored. The unscaled gradient of all parameters together is clipped to `max_norm`; the optimizer steps, unless a gradient holds an inf or a nan; the scaler is updated. `counted.steps` is the number of steps **actually made**, including those with gradients of 0 or with huge ones.

With the right step, `train_counted(counted_step)` returns losses that end below `1.0`.

<!-- hint: Print the norm of the gradients after each line of the function. Which line changes it unexpectedly? -->
<!-- hint: How does a scaler know that an optimizer's gradients were unscaled already? It keeps its records by `id(optimizer)`. Which objects does it see here? -->
<!-- hint: Pass the scaler the same object in both calls. If this object is the wrapper, its own `step` counts, and a skipped step is not counted. -->
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


def draw_slopes_of_norm(norm, letter, which):
    """Return gradients with respect to three parameters whose norm together is ``norm``.

    "0" makes them 0; "i" and "n" make an entry bad, in parameter ``which``.
    """
    slopes = [check.draw.normal(4), check.draw.normal(3), check.draw.normal(2)]
    slopes[0][1], slopes[1][0], slopes[2][1] = -2.0, 1.5, 1.75
    length = torch.cat(slopes).double().norm()
    slopes = [(slope.double() * norm / length).float() for slope in slopes]
    if letter == "0":
        return [0.0 * slope for slope in slopes]
    if letter != ".":
        place = check.draw.integer(0, len(slopes[which]))
        slopes[which][place] = math.inf if letter == "i" else math.nan
    return slopes


def counts_and_steps(norms, pattern, max_norm, scales, **settings):
    weights = [check.draw.normal(4), check.draw.normal(3), check.draw.normal(2)]
    turn, slopes = [1, 2, 0], []
    for norm, letter in zip(norms, pattern, strict=True):
        slopes.append(draw_slopes_of_norm(norm, letter, turn[0]))
        if letter in "in":  # the next bad entry is in another parameter
            turn.append(turn.pop(0))
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
        if pattern[step] in ".0":
            made += 1
            share = min(1.0, max_norm / norms[step])
            ways = [0.5 * way + share * s for way, s in zip(ways, given, strict=True)]
            weights = [w - 0.5 * way for w, way in zip(weights, ways, strict=True)]
        about = f"after step {step + 1} of {pattern}"
        about += " (. ordinary, i inf, n nan, 0 zeros)" if pattern.strip(".") else " (. ordinary)"
        check.close(one["weights"], weights, rtol=1e-4, atol=1e-5, what=f"weights {about}")
        check.equal(one["count"], made, what=f"counted.steps {about}")
        check.equal(one["scale"], scales[step], what=f"the scale {about}")


with check.property("short and long gradients: the step uses the unscaled, clipped gradient"):
    scale = 2.0 ** check.draw.integer(6, 20)
    for norm in (0.75, 4.0):
        counts_and_steps((norm,), ".", 1.25, [scale], init_scale=scale, left_over=False)
with check.property("gradients left in .grad are ignored"):
    scale = 2.0 ** check.draw.integer(6, 20)
    counts_and_steps((0.75, 4.0, 1.5), "...", 1.25, [scale] * 3, init_scale=scale)
with check.property("a skipped step is not counted, and the scale backs off", weight=2):
    scales = [512.0, 512.0, 128.0, 128.0, 32.0, 8.0, 8.0]
    norms = (2.0, 0.9, 1.0, 3.0, 1.0, 1.0, 5.0)
    counts_and_steps(norms, "..i.ni.", 1.5, scales, init_scale=512.0, backoff_factor=0.25)
with check.property(
    "steps with gradients of 0 or huge ones count; the scale grows after two good steps"
):
    scales = [64.0, 128.0, 64.0, 64.0, 128.0, 128.0, 256.0]
    norms = (0.8, 3.0, 1.0, 0.9, 4.0, 1.1, 2.0)
    counts_and_steps(norms, "0.n.0..", 1.25, scales, init_scale=64.0, growth_interval=2)
    huge = [torch.full((size,), 2.0**126) for size in (4, 3, 2)]  # float32's norm of it is inf
    given = {"max_norm": 1.25, "learning_rate": 0.5, "counted": True, "init_scale": 1.0}
    weights = [check.draw.normal(4), check.draw.normal(3), check.draw.normal(2)]
    got = check.call(probes.scaled_steps, counted_step, weights, [huge], **given)
    told = "counted.steps after a step with finite gradients, each 2^126"
    check.equal(got[0]["count"], 1, what=told)
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("many steps with growth; the first two are skipped"):
    scales = [512.0, 256.0, 256.0, 512.0, 512.0, 1024.0, 512.0, 512.0]
    norms = (1.0, 1.0, 6.0, 0.8, 3.0, 2.0, 1.0, 7.0)
    counts_and_steps(norms, "in....n.", 1.0, scales, init_scale=1024.0, growth_interval=2)
### END HIDDEN TESTS
check.score()

# %% [markdown]
"""
<details><summary>The bug (open this once you have found it)</summary>

The scaler identifies optimizers by `id`. `unscale_` received the wrapper and `step` the inner optimizer, so `step` found no record and unscaled again: the gradients were divided by the scale twice. The count also rose in skipped steps. Either pass the wrapper, which counts by itself, in both calls, or pass the inner optimizer in both and count in a hook.

Accelerate had this bug in 2021 ([issue 113](https://github.com/huggingface/accelerate/issues/113)). In a related bug, the scaler was updated once per optimizer ([issue 439](https://github.com/huggingface/accelerate/issues/439)), so the second optimizer's gradients could be divided by the wrong scale.
</details>
"""

# %% [markdown]
"""
## In the wild

| what | where |
| --- | --- |
| PyTorch | [`torch.amp.GradScaler`](https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling)`(device, init_scale=, growth_factor=, backoff_factor=, growth_interval=, enabled=)`. `torch.cuda.amp.GradScaler` is deprecated |
| float16 weights | a scaler refuses their gradients: `ValueError: Attempting to unscale FP16 gradients`. Keep the weights in float32 (chapter 03) |
| gradient penalties | unscale any gradients before they enter the loss ([examples](https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-penalty)) |
| accumulation | `unscale_`, `step` and `update` only at the end of a window ([examples](https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-accumulation), chapter 05) |
| Accelerate | `GradScalerKwargs`; `accelerator.clip_grad_norm_`, which unscales; `optimizer.step_was_skipped` ([mixed precision](https://huggingface.co/docs/accelerate/usage_guides/mixed_precision)) |
| Lightning | `Trainer(precision="16-mixed")` uses a scaler, `"bf16-mixed"` none ([precision](https://lightning.ai/docs/pytorch/stable/common/precision_basic.html)) |
| DeepSpeed | `"fp16": {"loss_scale": 0, "loss_scale_window": 1000, "min_loss_scale": 1}`; a `loss_scale` of 0 is dynamic ([configuration](https://www.deepspeed.ai/docs/config-json/)) |
| Keras | [`LossScaleOptimizer`](https://keras.io/api/optimizers/loss_scale_optimizer/), automatic under the policy `"mixed_float16"` |
| JAX | [jmp](https://github.com/google-deepmind/jmp): `StaticLossScale`, `DynamicLossScale` |
"""

# %% [markdown]
"""
## Recap

1. Gradients below float16's range become 0, without an error.
2. Scaling the loss by 2^k moves the exponents of all gradients by k. It saves numbers that would be 0, adds digits to subnormal ones, and can make large ones inf.
3. A dynamic scaler remembers a scale and a counter: it halves the scale and skips the step at every inf or nan, and doubles the scale after enough good steps in a row. Each run gets a fresh scaler.
4. Unscale before you clip, log or change gradients; update once per iteration; let a schedule count only steps that were made.
5. A scaler cures underflow. If an inf comes from the forward pass or the loss, the scaler only skips steps. No scale saves gradients that span a wider range than float16.

### Test yourself

<details><summary>1. The growth interval is 3 and the scale 8. The steps are: good, good, inf, good, good, good, good. What is the scale at the end?</summary>

8. The inf halves it to 4 and restarts the count; the next three good steps double it to 8; the last one starts a new count.
</details>

<details><summary>2. The loss is finite, and the scale has fallen to 2^−30. What do you look for?</summary>

First, gradients that are not cleared after a *skipped* step, so that one inf stays in `.grad`. Then, a derivative that is infinite at every scale, such as that of a square root at 0.
</details>

<details><summary>3. Two optimizers share a scaler. The scale fell in this iteration. May both schedulers step?</summary>

No. At least one optimizer was skipped, and the scale does not tell which.
</details>

### References

- P. Micikevicius et al., "Mixed Precision Training", [arXiv:1710.03740](https://arxiv.org/abs/1710.03740), ICLR 2018, section 3.2 (loss scaling, and the histogram).
- PyTorch documentation, ["Automatic Mixed Precision package: Gradient Scaling"](https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling) and ["Automatic Mixed Precision examples"](https://docs.pytorch.org/docs/stable/notes/amp_examples.html).
- D. Kalamkar et al., "A Study of BFLOAT16 for Deep Learning Training", [arXiv:1905.12322](https://arxiv.org/abs/1905.12322), 2019.
- Y. You, I. Gitman, B. Ginsburg, "Large Batch Training of Convolutional Networks", [arXiv:1708.03888](https://arxiv.org/abs/1708.03888), 2017 (LARS).
- R. Pascanu, T. Mikolov, Y. Bengio, "On the difficulty of training Recurrent Neural Networks", [arXiv:1211.5063](https://arxiv.org/abs/1211.5063), 2013 (vanishing and exploding gradients, clipping by norm).

### Glossary

| English | 中文 | meaning |
| --- | --- | --- |
| loss scaling | 损失缩放 | multiplying the loss before the backward pass, and dividing the gradients after it, so that small gradients do not vanish |
| gradient underflow | 梯度下溢 | a gradient too small for its format becomes 0 |
| static loss scale | 静态损失缩放 | a factor that is chosen once |
| dynamic loss scale | 动态损失缩放 | a factor that adapts during training |
| gradient scaler | 梯度缩放器 | the object that scales the loss, unscales the gradients, skips steps and adapts the scale |
| to unscale | 反缩放 | to divide the gradients by the scale |
| skipped step | 跳过的优化步 | an optimizer step left out because a gradient was inf or nan |
| growth interval | 增长间隔 | number of steps in a row, without inf or nan, after which the scale grows |
| backoff factor | 回退系数 | the factor that multiplies the scale after an inf or a nan |
| state machine | 状态机 | a system that moves from state to state by fixed rules |
| headroom | 余量 | room left below overflow |
| gradient clipping | 梯度裁剪 | shortening a gradient that is longer than a limit |
| fused optimizer | 融合优化器 | an optimizer that does its whole step in one kernel |
| warm-up | 学习率预热 | raising the learning rate over the first steps |
| residual connection | 残差连接 | a path that adds a layer's input to its output |
"""

# %% [markdown]
"""
Here is what you predicted in this chapter.
"""

# %% folded="What you predicted"
predictions("04")

# %%
progress("04")
