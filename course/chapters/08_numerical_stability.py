# %% [markdown]
"""
# 08 · Numerical stability

After this chapter you can

- predict where `exp`, `log`, `sqrt` and a subtraction leave what a float can hold;
- write softmax, cross entropy and their gradients so that they hold for logits of any size;
- compute a variance in one pass without losing its digits;
- keep nan out of gradients behind `where`, `sqrt` and fully masked rows;
- find the first nan of a training run, forward and backward.

**Time**: 90 minutes to read and run, 155 for the eight exercises.
**Know before**: tensors, autograd and broadcasting (chapters 00 and 07). Float formats (chapter 02) help.

**中文**: 本章讲数值稳定性：上溢与下溢、灾难性抵消、log-sum-exp 与融合损失、掩码 softmax、梯度中的 nan 及其定位。
"""

# %% tags=["needed"] folded="Imports"
import math
import warnings

import torch
from torch.nn import functional

from helpers import COLORS, Check, digits, failing, hint, new_figure, play, probes, progress, show

# %% [markdown]
r"""
## A classifier that dies in its fourth step

The data: 1,797 handwritten digits, 8 × 8 pixels, each pixel from 0 to 16.
The model: one matrix $W$. A picture $x$ has ten *logits* $z = xW$, one for each digit.
Softmax turns them into probabilities, and the loss is the negative logarithm of the probability
of the right digit:

$$p_k = \frac{e^{z_k}}{\sum_j e^{z_j}} \qquad\qquad \text{loss} = -\log p_{\text{right}}$$

The function below is this formula, letter by letter.
"""

# %%
digit_images, digit_labels = digits()
pixels = digit_images.flatten(1)


def loss_by_the_book(logits, labels):
    exponentials = logits.exp()
    probabilities = exponentials / exponentials.sum(dim=1, keepdim=True)
    return -probabilities[torch.arange(len(labels)), labels].log().mean()


def train(loss_function, steps=60, step_size=0.1):
    weights = torch.zeros(64, 10, requires_grad=True)
    losses = []
    for _ in range(steps):
        loss = loss_function(pixels @ weights, digit_labels)
        losses.append(loss.item())
        (gradient,) = torch.autograd.grad(loss, weights)
        with torch.no_grad():
            weights -= step_size * gradient
    return losses, weights.detach()


def accuracy_of(weights):
    return ((pixels @ weights).argmax(dim=1) == digit_labels).float().mean().item()


losses_by_the_book, weights_by_the_book = train(loss_by_the_book)
print("by the book:", ", ".join(f"{loss:.1f}" for loss in losses_by_the_book[:6]))
print(f"accuracy after 60 steps: {accuracy_of(weights_by_the_book):.2f}")

# %% [markdown]
"""
Three ordinary losses, then `inf`, then `nan` forever. An accuracy of 0.10 is guessing.

Now the same model, the same data, the same step size, the same mathematics. Only the function
that computes the formula is another one.
"""

# %%
losses_fused, weights_fused = train(functional.cross_entropy)
print("cross_entropy:", ", ".join(f"{loss:.1f}" for loss in losses_fused[:6]))
print(f"accuracy after 60 steps: {accuracy_of(weights_fused):.2f}")

# %% folded="Plot: One formula, two ways to compute it"
figure, axes = new_figure()
axes.plot(range(1, 61), losses_fused, label="functional.cross_entropy")
axes.plot(range(1, 4), losses_by_the_book[:3], "o", color=COLORS["vermilion"], label="by the book")
axes.axvline(
    4, color=COLORS["vermilion"], linestyle=":", label="by the book: inf here, nan ever after"
)
axes.set(title="One formula, two ways to compute it", xlabel="training step", ylabel="loss (nats)")
axes.legend()
show(
    figure,
    alt="Loss against training step. Computed by the book, the loss has three points and ends in "
    "inf at step 4. Computed by cross_entropy it shoots up at the same place, stays finite, "
    "and falls close to zero by step 60.",
)

# %% [markdown]
r"""
A step of 0.1 is too large for this data, and the loss shoots up. That is a fault of the training,
and a small one: the second run recovers and gets 97 % of the digits right. The first one
cannot. Nearly everything computed from a nan is nan again, and one update writes it into every weight.

The smallest case of the same disease has three symbols. For every $y \ne 0$, $x \cdot y / y = x$.
"""

# %%
x = torch.tensor(1.0)
for y in (1e-5, 1e-50, 1e5, 1e39):
    stored = torch.tensor(y)
    print(
        f"y = {y:g} is stored as {stored.item():g}, and x * y / y = {(x * stored / stored).item():g}"
    )

# %% [markdown]
"""
Written as 1e-50, stored as 0: then 0 / 0 is nan. Written as 1e39, stored as inf: then inf / inf
is nan. The formula is right for real numbers. The machine does not have them.

**Mathematically equal expressions are different programs.** This chapter is about choosing the
program.
"""

# %% [markdown]
"""
## The range of a float

Every format has a largest number, a smallest *normal* number, and below that the *subnormal*
numbers, which reach further toward zero and pay for it with digits. `torch.finfo` knows the first
two. `torch.nextafter` goes from a number to its neighbor, so one step up from zero is the smallest
subnormal.
"""

# %%
formats = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
print(f"{'format':<10}{'largest':>11}{'smallest normal':>17}{'one step from 0':>17}{'epsilon':>10}")
for dtype in formats:
    info = torch.finfo(dtype)
    # The smallest subnormal is the smallest normal times epsilon; nextafter shows it below.
    smallest = math.ldexp(info.smallest_normal, int(math.log2(info.eps)))
    name = str(dtype).removeprefix("torch.")
    print(
        f"{name:<10}{info.max:>11.4g}{info.smallest_normal:>17.3g}{smallest:>17.3g}{info.eps:>10.2g}"
    )

zero, one = torch.tensor(0.0), torch.tensor(1.0)
print(
    f"after 0 comes {torch.nextafter(zero, one).item():.4g}, after 1 comes 1 + 2^-23:",
    torch.nextafter(one, 2 * one).item() == 1 + 2**-23,
)

# %% [markdown]
r"""
So float32 ends at 3.403e+38 on one side and at 1.4e-45 on the other. 1e39 lies beyond the first,
1e-50 beyond the second. Leaving the range upward is *overflow* and gives inf; leaving it toward
zero is *underflow* and gives 0 (IEEE 754-2019, section 7). Neither raises an error in PyTorch.

Where does `exp` leave the range? It overflows above $\ln(\text{largest})$ and reaches 0 a little
below $\ln(\text{smallest})$.
"""

# %%
print(f"{'format':<10}{'exp is 0 below about':>22}{'exp is inf above':>18}")
windows = {}
for dtype in formats:
    info = torch.finfo(dtype)
    windows[dtype] = (math.log(info.smallest_normal) + math.log(info.eps / 2), math.log(info.max))
    low, high = windows[dtype]
    print(f"{str(dtype).removeprefix('torch.'):<10}{low:>22.1f}{high:>18.2f}")
print(
    "exp(88.7) =",
    f"{torch.tensor(88.7).exp().item():.3g},",
    "exp(88.8) =",
    torch.tensor(88.8).exp().item(),
)

# %% folded="Plot: The arguments for which exp is neither 0 nor inf"
figure, axes = new_figure(height=2.6)
for row, dtype in enumerate(formats[1:]):
    low, high = windows[dtype]
    axes.barh(row, high - low, left=low, height=0.5, color=COLORS["blue"])
    axes.text(low - 2, row, f"{low:.0f}", ha="right", va="center")
    axes.text(high + 2, row, f"{high:.1f}", ha="left", va="center")
axes.set_yticks(range(3), [str(dtype).removeprefix("torch.") for dtype in formats[1:]])
axes.set_ylim(2.6, -0.6)
axes.set(
    title="The arguments for which exp is neither 0 nor inf",
    xlabel="x (no unit)",
    ylabel="format",
    xlim=(-125, 125),
)
axes.axvline(0, color=COLORS["black"], linewidth=0.8)
show(
    figure,
    alt="Three horizontal bars: the arguments that exp can take. float32 from about minus 104 to "
    "88.7, bfloat16 from about minus 93 to 88.7, float16 from about minus 17 to 11.1.",
)

# %% [markdown]
"""
Now the fourth step can be explained. Up to there both runs had the same losses, so three updates with
`cross_entropy` give the logits that broke the other one.
"""

# %%
_, weights_after_three = train(functional.cross_entropy, steps=3)
logits = pixels @ weights_after_three
right_logits = logits[torch.arange(len(digit_labels)), digit_labels]
gap = (logits.amax(dim=1) - right_logits).max().item()
print(f"the logits lie between {logits.min().item():.0f} and {logits.max().item():.0f}")
print(f"the right digit's logit is up to {gap:.0f} below the picture's largest")
print(f"and exp(-{gap:.0f}) is {torch.tensor(-gap).exp().item()}")

# %% [markdown]
r"""
Nothing overflowed: 42 is well below 88.7. But some picture's right digit lies 121 below its largest logit.
Its probability is about $e^{-121}$, which float32 stores as 0, and the loss of that picture is
$-\log 0 = \infty$. A single such picture is enough: the mean is inf, its gradient is nan.

So two things can go wrong: a large logit overflows, a small probability underflows. They need
two cures. In float16, where the window ends at 11.1, both come early.
"""

# %% [markdown]
"""
## Softmax: move the largest logit to zero
"""


# %%
def softmax_by_the_book(logits):
    return logits.exp() / logits.exp().sum()


logits = torch.tensor([1000.0, 0.0])
print("exp:    ", logits.exp().tolist())
print("softmax:", softmax_by_the_book(logits).tolist())
print("and for minus that:", softmax_by_the_book(torch.tensor([-1000.0, -1000.0])).tolist())

# %% [markdown]
r"""
The right answer to the first is (1, 0) to every digit that a float has. What failed is not the
result but a *number on the way*: $e^{1000}$ does not exist in float32, and inf / inf is nan.
In the last line everything underflows, and 0 / 0 is nan as well.

The cure uses a freedom that softmax has. Multiply above and below by $e^{-c}$:

$$\frac{e^{z_k}}{\sum_j e^{z_j}} = \frac{e^{z_k - c}}{\sum_j e^{z_j - c}} \quad\text{for every number } c$$

The result does not depend on $c$, so we may choose it. Take $c = \max_j z_j$. Every exponent is now
at most 0, so nothing overflows. One exponent is exactly 0, so the sum is at least 1, and the
division is safe. What underflows are terms smaller than $10^{-45}$ beside a sum of at least 1. The
sum does not notice them. (Their *logarithm* will; that is the next section.)

The same shift tames the sum itself. It is called *log-sum-exp*:

$$\log \sum_j e^{z_j} = c + \log \sum_j e^{z_j - c}$$

Blanchard, Higham and Higham (2021) prove that both shifted forms are accurate; and that
$e^{z_k - \text{lse}}$, softmax by way of log-sum-exp, loses a little more than the division.

In a batch, each row has its own maximum. A softmax without a `dim` normalizes over everything:
its rows do not sum to one, and a row of large logits takes the whole sum for itself.
"""

# %%
batch = torch.tensor([[1000.0, 999.0], [1.0, 0.0]])
shifted = (batch - batch.max()).exp()
print("one maximum, one sum for all:", (shifted / shifted.sum()).sum(dim=1).tolist())
print(
    "a sum per row, one maximum:  ",
    (shifted / shifted.sum(dim=1, keepdim=True)).sum(dim=1).tolist(),
)

# %% [markdown]
"""
The second line is the treacherous one. It is right as long as the rows are of similar size. The
row (1, 0) is a thousand below the other, all of its exponentials underflow, and 0 / 0 is nan.

Slide the largest logit. The other two logits follow it, one and three below, so the right answer
never changes.
"""


# %% tags=["nbval-ignore-output"] folded="Plot: exp of the largest logit"
def draw_softmax(largest):
    logits = torch.tensor([largest, largest - 1, largest - 3])
    rows = (
        ("by the book", softmax_by_the_book(logits), COLORS["vermilion"]),
        ("shifted", softmax_by_the_book(logits - logits.max()), COLORS["blue"]),
    )
    figure, (left, right) = new_figure(1, 2, width_ratios=(1, 1.3))
    line = torch.linspace(-20, max(130.0, 1.1 * largest), 300)
    left.plot(line, line / math.log(10), color=COLORS["black"], label="exp(x)")
    left.axhline(38.5, color=COLORS["vermilion"], linestyle="--", label="largest float32")
    left.plot([largest], [largest / math.log(10)], "o", color=COLORS["blue"], markersize=9)
    left.set(title="exp of the largest logit", xlabel="logit", ylabel="log10 of exp(logit)")
    left.legend(loc="upper left")
    for offset, (name, values, color) in zip((-0.2, 0.2), rows, strict=True):
        places = [k + offset for k in range(3)]
        right.bar(places, values.nan_to_num(0.0), width=0.36, color=color, label=name)
        for place, value in zip(places, values.tolist(), strict=True):
            right.text(
                place,
                max(0.0, value if value == value else 0.0) + 0.02,
                f"{value:.2f}",
                ha="center",
            )
    right.set(title="softmax", xlabel="class", ylabel="probability", ylim=(0, 1.05))
    right.set_xticks(range(3))
    right.legend()
    return figure


play(
    draw_softmax,
    label="largest logit",
    values=[0, 5, 10, 20, 40, 60, 80, 88, 89, 90, 92, 100, 200, 500, 1000],
    start=90,
    alt="Left: exp of the largest logit, 90, lies just above the largest float32. Right: the softmax "
    "of three logits; by the book it is nan, nan and 0, shifted it is 0.71, 0.26 and 0.04.",
)

# %% [markdown] exercise="softmax" points=4 minutes=15 difficulty=1
"""
### Softmax along a dimension

Write `softmax(logits, dim)`.

- **In**: `logits`, a floating-point tensor of any shape; `dim`, an integer, negative ones count
  from the back. Logits may be of any size. Some may be `-inf`: their probability is 0. At least
  one along `dim` is finite.
- **Out**: a tensor of the same shape and dtype. Along `dim` it sums to one.
- Autograd must be able to go through it, and `logits` stay as they are.
- **Not allowed**: torch's own `softmax`, `log_softmax`, `logsumexp`, under whatever name, and
  what is built on them: `logaddexp`, `cross_entropy`, attention, `torch.distributions`. The check
  reads your code for them.

<!-- hint: Which two numbers does the formula take from the whole of a row? Along which dimension must each be computed? -->
<!-- hint: Both of them, the maximum and the sum, have one entry per row. To subtract and divide, they must broadcast against the logits: the reduced dimension has to stay there, with size 1. -->
<!-- hint: `logits.amax(dim=..., keepdim=...)` is the shift. Subtract, take exp, then divide by the sum over the same dim with the same keepdim. -->
"""


# %% solution="softmax"
def softmax(logits, dim):
    """Return the softmax of ``logits`` along ``dim``, of the same shape and dtype."""
    ### BEGIN SOLUTION
    shifted = (logits - logits.amax(dim=dim, keepdim=True)).exp()
    return shifted / shifted.sum(dim=dim, keepdim=True)
    ### END SOLUTION


# %% test="softmax"
check = Check("softmax")
with check.property("agrees with exp over sum on ordinary logits"):
    logits = check.draw.normal(3, 5)
    got = check.call(softmax, logits, dim=1)
    check.close(got, torch.softmax(logits.double(), dim=1).float())
with check.property("works along every dim, counted from the front or from the back"):
    logits = check.draw.normal(2, 3, 5)
    for dim in (0, 1, 2, -1, -2):
        got = check.call(softmax, logits, dim=dim)
        check.close(got, torch.softmax(logits.double(), dim=dim).float(), what=f"dim={dim}")
with check.property("logits around a thousand and minus a thousand give no nan", weight=3):
    logits = check.draw.normal(4, 7, std=3.0)
    logits = logits + torch.tensor([1000.0, -1000.0, 0.0, 300.0])[:, None]
    logits[2, 4] = 1000.0
    got = check.call(softmax, logits, dim=1)
    check.close(got, torch.softmax(logits.double(), dim=1).float(), rtol=3e-4)
with check.property("is written without torch's own softmax"):
    logits = check.draw.normal(4, 5)
    got = check.call(softmax, logits, dim=1)
    check.close(got, torch.softmax(logits.double(), dim=1).float())
    check.written_without("*softmax*", "*softmin*", "*log*sumexp*", "*logaddexp*")
    check.written_without("*cross_entropy*", "*crossentropy*", "*attention*", "*transformer*")
    check.written_without("*distributions*", "*categorical*", "*multinomial*", "*to_probs*")
with check.property("a logit of -inf gets the probability 0"):
    logits = check.draw.normal(6, 4)
    logits[check.draw.integer(0, 6), 1:3] = -math.inf
    got = check.call(softmax, logits, dim=-1)
    check.close(got, torch.softmax(logits.double(), dim=-1).float())


def same_gradient(logits, dim):
    leaf = logits.clone().requires_grad_(True)
    grad_output = check.draw.normal(*logits.shape, dtype=logits.dtype)
    expected = torch.softmax(leaf, dim=dim)
    (slope,) = torch.autograd.grad(expected, leaf, grad_output)
    got = check.call(probes.gradient, softmax, logits, dim=dim, grad_output=grad_output)
    check.close(got["output"], expected.detach(), rtol=1e-8)
    check.close(got["gradient"], slope, rtol=1e-7, atol=1e-9, what="the gradient")


with check.property("autograd goes through it, and float64 stays float64", weight=0.5):
    same_gradient(check.draw.normal(3, 6, std=2.0, dtype=torch.float64) + 800, 1)
with check.property("leaves the logits as they are"):
    logits = check.draw.normal(check.draw.integer(2, 7), 7)
    seen = check.call(probes.after_call, softmax, logits, 0)
    check.close(seen["output"], torch.softmax(logits.double(), dim=0).float())
    check.equal(seen["arguments"][0], logits, what="the logits after the call")
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("the gradient along other dimensions, with logits of -inf", weight=0.5):
    logits = check.draw.normal(5, 2, 4, std=3.0, dtype=torch.float64) - 900
    logits[1:3, 0, check.draw.integer(0, 4)] = -math.inf
    logits[3] += 60.0
    for dim in (0, -1):
        same_gradient(logits, dim)
### END HIDDEN TESTS
check.score()

# %% [markdown]
"""
## Cross entropy: do not take the logarithm of a probability

A stable softmax is half of the cure. Put a logarithm behind it, as the formula says:
"""

# %%
logits = torch.tensor([1000.0, 0.0])
probabilities = torch.softmax(logits, dim=0)
print("softmax:    ", probabilities.tolist())
print("its log:    ", probabilities.log().tolist())
for right in ([0.5, 0.5], [1.0, 0.0]):
    print(f"loss for labels {right}:", -(torch.tensor(right) * probabilities.log()).sum().item())

# %% [markdown]
r"""
The second probability is $e^{-1000}$. It underflows to 0, and $\log 0 = -\infty$. With the labels
(0.5, 0.5) the loss is inf. With (1, 0) it is nan, though a model that is certain and right has the loss
0: the second term is $0 \cdot (-\infty)$.

The information was there before softmax threw it away. Simplify on paper first:

$$\log p_k = \log \frac{e^{z_k}}{\sum_j e^{z_j}} = z_k - \log \sum_j e^{z_j}$$

The logarithm and the exponential cancel, and what is left is a subtraction and a log-sum-exp.
As a program it still wants the shift first, or two numbers of a million are subtracted in the end:
$\log p_k = (z_k - c) - \log \sum_j e^{z_j - c}$. This is `torch.log_softmax`. Functions that simplify
before they compute are called *fused*: `cross_entropy` is `log_softmax`, followed by the sum over
the labels or, where the label is a class, by picking its entry.
"""

# %%
logits = torch.tensor([1000.0, 0.0], requires_grad=True)
loss = -(torch.tensor([0.5, 0.5]) * torch.log_softmax(logits, dim=0)).sum()
(gradient,) = torch.autograd.grad(loss, logits)
print("log_softmax:", torch.log_softmax(logits, dim=0).tolist())
print("loss:       ", loss.item())
print("gradient:   ", gradient.tolist())

# %% [markdown]
r"""
The loss is 500, and the gradient is (0.5, -0.5). Both are exact.

The gradient can be had by hand. For $L = -\sum_k y_k \left(z_k - \log \sum_j e^{z_j}\right)$, the
derivative of the log-sum-exp by $z_i$ is $p_i$. If the labels $y$ sum to one, then

$$\frac{\partial L}{\partial z_i} = p_i - y_i$$

Here $p = (1, 0)$ and $y = (0.5, 0.5)$. It is bounded, whatever the logits: no entry
exceeds 1. The unfused program computes the same derivative as a product of $1/p$, which can be inf,
and $p$, which can be 0.

One thing the fused form does not do for you. A logit may be $-\infty$ on purpose, to rule
a class out. Then its $\log p$ is $-\infty$ by right, and a label of 0 beside it still makes
$0 \cdot (-\infty)$:
"""

# %%
ruled_out = torch.tensor([[2.0, -math.inf]])
print(
    "labels as probabilities:",
    functional.cross_entropy(ruled_out, torch.tensor([[1.0, 0.0]])).item(),
)
print("labels as a class index:", functional.cross_entropy(ruled_out, torch.tensor([0])).item())

# %% [markdown]
r"""
In information theory $0 \log 0$ is *defined* as 0, the limit of $p \log p$. IEEE arithmetic
knows nothing of limits of formulas; it sees the two factors. The convention is the program's to keep.
"""

# %% [markdown] exercise="soft-cross-entropy" points=4 minutes=20 difficulty=2
r"""
### Cross entropy with soft labels

Write `soft_cross_entropy(logits, labels)`: for each row, $-\sum_k y_k \log p_k$ with $p$ the softmax
of the row.

- **In**: `logits` and `labels`, both of shape (rows, classes) and of the same floating-point
  dtype. Labels are at least 0; rows need not sum to one. Logits are of any size, some may be `-inf`;
  at least one in a row is finite.
- **Out**: one loss per row, shape (rows,), of the logits' dtype. No mean.
- A label of 0 costs nothing, even on a logit of `-inf`. A label above 0 on a logit of `-inf` costs inf.
- Autograd must be able to go through it.
- All of torch is **allowed**, `log_softmax` and `cross_entropy` included. None of them does all
  of this alone.

<!-- hint: Which step of the computation makes inf out of a gap of a thousand between two logits? And which other step makes nan out of a label that is exactly 0? -->
<!-- hint: `log_softmax` settles the first. For the second, decide by the label which terms count at all, before or after the product, but before the sum. -->
<!-- hint: Where the label is 0, put 0 in the place of the logarithm with `torch.where` or `masked_fill`, then multiply, sum over the last dimension and turn the sign. -->
"""


# %% solution="soft-cross-entropy"
def soft_cross_entropy(logits, labels):
    """Return the cross entropy of each row, shape (rows,), of (rows, classes) ``logits`` and ``labels``."""
    ### BEGIN SOLUTION
    log_probabilities = torch.log_softmax(logits, dim=1)
    return -(labels * log_probabilities.masked_fill(labels == 0, 0.0)).sum(dim=1)
    ### END SOLUTION


# %% test="soft-cross-entropy"
check = Check("soft-cross-entropy")
with check.property("agrees with the definition on ordinary logits, one loss per row"):
    logits = check.draw.normal(4, 7)
    labels = torch.softmax(check.draw.normal(4, 7), dim=1)
    got = check.call(soft_cross_entropy, logits, labels)
    expected = functional.cross_entropy(logits.double(), labels.double(), reduction="none")
    check.close(got, expected.float())
with check.property("labels need not sum to one"):
    logits, labels = check.draw.normal(5, 3), check.draw.uniform(5, 3, low=0.1, high=2.0)
    got = check.call(soft_cross_entropy, logits, labels)
    expected = functional.cross_entropy(logits.double(), labels.double(), reduction="none")
    check.close(got, expected.float())
with check.property("logits a thousand apart cost hundreds, not inf or nan", weight=2):
    logits = check.draw.normal(6, 4, std=1000.0)
    labels = check.draw.uniform(6, 4, low=0.1, high=0.5)
    got = check.call(soft_cross_entropy, logits, labels)
    expected = functional.cross_entropy(logits.double(), labels.double(), reduction="none")
    check.close(got, expected.float(), rtol=1e-4)
with check.property("a class with the label 0 still counts in the softmax"):
    logits, labels = check.draw.normal(3, 6), check.draw.uniform(3, 6, low=0.1)
    logits[:, 2], labels[:, 2] = 4.0, 0.0
    got = check.call(soft_cross_entropy, logits, labels)
    expected = functional.cross_entropy(logits.double(), labels.double(), reduction="none")
    check.close(got, expected.float())
with check.property("a label of 0 on a logit of -inf costs nothing", weight=2):
    logits, labels = check.draw.normal(3, 5), check.draw.uniform(3, 5, low=0.1)
    logits[:, 1:3], labels[:, 1:3] = -math.inf, 0.0
    got = check.call(soft_cross_entropy, logits, labels)
    kept = [0, 3, 4]
    expected = functional.cross_entropy(
        logits[:, kept].double(), labels[:, kept].double(), reduction="none"
    )
    check.close(got, expected.float())
with check.property("a label above 0 on a logit of -inf costs inf, in its own row only"):
    logits, labels = check.draw.normal(4, 3), check.draw.uniform(4, 3, low=0.1)
    expected = functional.cross_entropy(logits.double(), labels.double(), reduction="none")
    row = check.draw.integer(0, 4)
    logits[row, 2], expected[row] = -math.inf, math.inf
    got = check.call(soft_cross_entropy, logits, labels)
    check.close(got, expected.float())


def same_gradient(rows, classes, std):
    """Compare the gradient, where some classes have the logit -inf and the label 0."""
    logits = check.draw.normal(rows, classes, std=std, dtype=torch.float64)
    labels = check.draw.uniform(rows, classes, low=0.1, dtype=torch.float64)
    logits[:, 0], labels[:, 0] = logits.amax(dim=1) + 1.0, 0.0
    closed = check.draw.integer(1, classes)
    leaf = logits.clone().requires_grad_(True)
    kept = [place for place in range(classes) if place != closed]
    losses = functional.cross_entropy(leaf[:, kept], labels[:, kept], reduction="none")
    grad_output = check.draw.normal(rows, dtype=torch.float64)
    (slope,) = torch.autograd.grad(losses, leaf, grad_output)
    logits[:, closed], labels[:, closed] = -math.inf, 0.0
    got = check.call(probes.gradient, soft_cross_entropy, logits, labels, grad_output=grad_output)
    check.close(got["output"], losses.detach(), rtol=1e-8, what="the losses, in float64")
    check.close(got["gradient"], slope, rtol=1e-7, atol=1e-9, what="the gradient")


with check.property("the gradient is right and finite, also where a logit is -inf", weight=0.5):
    same_gradient(5, 6, std=20.0)
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("the gradient of logits hundreds apart, in other rows and classes", weight=0.5):
    same_gradient(6, 9, std=300.0)
### END HIDDEN TESTS
check.score()

# %% [markdown] exercise="cross-entropy-gradient" points=4 minutes=20 difficulty=2
"""
### The gradient of cross entropy, by hand

Write `cross_entropy_gradient(logits, labels)`: the gradient, by the logits, of the *sum* over
all rows of the loss of the last exercise.

- **In**: as there: (rows, classes), labels at least 0. **Rows of labels need not sum to one**;
  a row of padding has labels that are all 0. A logit of `-inf` has the label 0.
- **Out**: a tensor of the logits' shape and dtype.
- `torch.softmax` is **allowed**. Autograd is **not**, in whatever form: `backward`, `grad`, `torch.func`, torch's own
  functions for a backward pass. The check reads your code for them.

The chapter's formula $p_i - y_i$ was derived for labels that sum to one. Take a pen.

<!-- hint: Write the loss as two sums: one with the labels times the logits, one with the labels times the log-sum-exp. In which of them did "the labels sum to one" come in? -->
<!-- hint: The log-sum-exp does not depend on k, so it comes out of the sum over k and takes the row's total of labels with it as a factor. Its derivative by a logit is that logit's probability. -->
<!-- hint: Per row: the probabilities, times the sum of the row's labels (`keepdim=True`), minus the labels. -->
"""


# %% solution="cross-entropy-gradient"
def cross_entropy_gradient(logits, labels):
    """Return the gradient by ``logits`` of the summed cross entropy, shape (rows, classes)."""
    ### BEGIN SOLUTION
    total = labels.sum(dim=1, keepdim=True)
    return torch.softmax(logits, dim=1) * total - labels
    ### END SOLUTION


# %% test="cross-entropy-gradient"
check = Check("cross-entropy-gradient")


def gradient_by_autograd(logits, labels):
    leaf = logits.double().requires_grad_(True)
    loss = functional.cross_entropy(leaf, labels.double(), reduction="sum")
    return torch.autograd.grad(loss, leaf)[0].to(logits.dtype)


with check.property("agrees with autograd for labels that sum to one"):
    logits = check.draw.normal(4, 3)
    labels = torch.softmax(check.draw.normal(4, 3), dim=1)
    got = check.call(cross_entropy_gradient, logits, labels)
    check.close(got, gradient_by_autograd(logits, labels))
with check.property("agrees with autograd for labels that do not sum to one"):
    logits, labels = check.draw.normal(5, 6), check.draw.uniform(5, 6, low=0.2, high=2.0)
    got = check.call(cross_entropy_gradient, logits, labels)
    check.close(got, gradient_by_autograd(logits, labels), rtol=1e-4, atol=1e-5)
with check.property("is right for logits of a thousand, too"):
    logits = check.draw.normal(3, 7, std=1000.0)
    labels = check.draw.uniform(3, 7, high=0.4)
    got = check.call(cross_entropy_gradient, logits, labels)
    check.close(got, gradient_by_autograd(logits, labels), rtol=3e-4, atol=1e-5)
with check.property("is written without autograd"):
    logits = check.draw.normal(4, 5)
    labels = torch.softmax(check.draw.normal(4, 5), dim=1)
    got = check.call(cross_entropy_gradient, logits, labels)
    check.close(got, gradient_by_autograd(logits, labels))
    check.written_without("*autograd*", "*backward*", "grad", "grad_fn", "*requires_grad*")
    check.written_without("enable_grad", "func", "functorch", "*grad_and_value*", "*make_dual*")
    check.written_without("*jac*", "*hess*", "*vjp*", "*jvp*", "*hvp*", "*vhp*", "linearize")
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("a row of padding, all labels 0, has the gradient 0"):
    logits, labels = check.draw.normal(5, 4), check.draw.uniform(5, 4, low=0.1, high=3.0)
    labels[check.draw.integer(0, 5)] = 0.0
    got = check.call(cross_entropy_gradient, logits, labels)
    check.close(got, gradient_by_autograd(logits, labels), rtol=1e-4, atol=1e-5)
with check.property("a logit of -inf with label 0 has the gradient 0, and float64 stays float64"):
    logits = check.draw.normal(6, 5, std=100.0, dtype=torch.float64)
    labels = check.draw.uniform(6, 5, low=0.1, dtype=torch.float64)
    logits[:, 2], labels[:, 2] = -math.inf, 0.0
    got = check.call(cross_entropy_gradient, logits, labels)
    kept = [0, 1, 3, 4]
    expected = torch.zeros_like(logits)
    expected[:, kept] = gradient_by_autograd(logits[:, kept], labels[:, kept])
    check.close(got, expected, rtol=1e-8)
### END HIDDEN TESTS
check.score()

# %% [markdown]
r"""
### Clamping is not a cure

With two classes, softmax becomes the sigmoid $\sigma(z) = 1/(1 + e^{-z})$, and the loss for
the label 0 is $-\log(1 - \sigma(z)) = \log(1 + e^{z})$, close to $z$ for large $z$.
`functional.binary_cross_entropy` takes the probability $\sigma(z)$. Its documentation says that it
replaces every logarithm below -100 by -100. `binary_cross_entropy_with_logits` takes $z$ itself.
"""


# %%
def loss_and_gradient(loss_function, logit):
    leaf = torch.tensor([float(logit)], requires_grad=True)
    loss = loss_function(leaf, torch.zeros(1))
    return loss.item(), torch.autograd.grad(loss, leaf)[0].item()


def clamped_loss(logits, labels):
    return functional.binary_cross_entropy(torch.sigmoid(logits), labels)


print("                             clamped            with logits")
print("logit   1 - sigmoid      loss  gradient      loss  gradient")
for logit in (5, 10, 20, 50, 200):
    values = [
        1 - torch.sigmoid(torch.tensor(float(logit))).item(),
        *loss_and_gradient(clamped_loss, logit),
        *loss_and_gradient(functional.binary_cross_entropy_with_logits, logit),
    ]
    print("{:>5}{:>14.0e}{:>10.1f}{:>10.2f}{:>10.1f}{:>10.2f}".format(logit, *values))

# %% folded="Plot: The loss of a wrong answer, label 0"
line = torch.linspace(0, 130, 400)
figure, axes = new_figure()
for loss_function, name, color in (
    (clamped_loss, "sigmoid, then binary_cross_entropy", "vermilion"),
    (functional.binary_cross_entropy_with_logits, "binary_cross_entropy_with_logits", "blue"),
):
    axes.plot(
        line,
        [loss_and_gradient(loss_function, z)[0] for z in line.tolist()],
        color=COLORS[color],
        label=name,
    )
axes.set(
    title="The loss of a wrong answer, label 0",
    xlabel="logit (no unit)",
    ylabel="loss (nats)",
)
axes.legend(loc="lower right")
show(
    figure,
    alt="Loss against logit for the label 0. With logits the loss is a straight line of slope one. "
    "Sigmoid followed by the clamped loss follows it up to about 17, then jumps to 100 and stays flat.",
)

# %% [markdown]
r"""
At 20 the float32 sigmoid is exactly 1. The clamped loss jumps to 100, five times the truth, and from
there on its gradient is **0**. The model is confidently wrong, and it learns nothing from
it: the worst examples are the silent ones.

The advice to write -100 in place of $\log 0$ is widespread, since a well-known function does so. It repairs
the number that is printed. The digits were lost one step before, in the sigmoid. The cure is to
give the loss the logits.
"""

# %% [markdown]
"""
## Cancellation: small differences of large numbers

Overflow is loud. This one is silent. Add a small number to 1 and take it away again:
"""

# %%
print("      x   (1 + x) - 1    log(1 + x)      log1p(x)    exp(x) - 1      expm1(x)")
for value in (1e-3, 1e-5, 1e-7, 1e-9):
    x = torch.tensor(value)
    row = ((1 + x) - 1, (1 + x).log(), x.log1p(), x.exp() - 1, x.expm1())
    print(f"{value:>7.0e}" + "".join(f"{entry.item():>14.4e}" for entry in row))

# %% [markdown]
r"""
The addition 1 + x rounds to a multiple of $2^{-23} \approx 1.2 \cdot 10^{-7}$, so a
small $x$ keeps few digits or none. The subtraction that follows is exact. It only *shows* the damage, because
the leading digits cancel and what is left is what was rounded. This is *catastrophic cancellation*
(Goldberg 1991, "Cancellation").

`log1p(x)` computes $\log(1 + x)$ and `expm1(x)` computes $e^x - 1$ without ever forming the sum. They
keep all digits. The softplus $\log(1 + e^z)$ of the last section needs both cures, the shift and
`log1p`: it is computed as $\max(z, 0) + \text{log1p}(e^{-|z|})$.

The roots of $x^2 - bx + 1 = 0$ show the same. Their product is 1, so the small one is
$1 / \text{large}$:

$$x_{\text{small}} = \frac{b - \sqrt{b^2 - 4}}{2} = \frac{2}{b + \sqrt{b^2 - 4}}$$

On the left two nearly equal numbers are subtracted. On the right they are added. (Higham 2002,
section 1.8.)
"""

# %%
print("      b     by the formula     by the product")
for value in (10.0, 1_000.0, 10_000.0):
    b = torch.tensor(value)
    root = (b * b - 4).sqrt()
    print(f"{value:>7.0f}{((b - root) / 2).item():>19.4g}{(2 / (b + root)).item():>19.4g}")

# %% [markdown]
"""
At $b = 10000$ the school formula answers 0. That is an error of 100 %, and a single rounding made it:
$b^2 - 4 = 99999996$ lies between two float32 numbers that are 8 apart, and becomes $10^8$. The root and
the subtraction that follow are exact.

### Variance

The variance is the mean squared distance from the mean. It equals $E[x^2] - E[x]^2$, and this form is
tempting: it needs one pass over the data. Three numbers suffice to see what it costs.
"""

# %%
x = torch.tensor([10_000.0, 10_001.0, 10_002.0])
print("E[x^2] - E[x]^2:     ", ((x * x).mean() - x.mean() ** 2).item())
print("mean of (x - E[x])^2:", f"{((x - x.mean()) ** 2).mean().item():.4f}")

# %%
generator = torch.Generator().manual_seed(0)
noise = torch.randn(10_000, generator=generator, dtype=torch.float64)
offsets = [10 ** (k / 4) for k in range(25)]
errors = {"E[x²] − E[x]²": [], "mean of (x − E[x])²": []}
for offset in offsets:
    x = (noise + offset).float()
    true_variance = x.double().var(correction=0).item()
    found = ((x * x).mean() - x.mean() ** 2, ((x - x.mean()) ** 2).mean())
    for name, variance in zip(errors, found, strict=True):
        errors[name].append(max(abs(variance.item() / true_variance - 1), 1e-9))

# %% folded="Plot: Variance of 10,000 numbers with standard deviation 1, in float32"
figure, axes = new_figure()
for (name, values), color, marker in zip(errors.items(), ("vermilion", "blue"), "os", strict=True):
    axes.loglog(offsets, values, marker, linestyle="-", color=COLORS[color], ms=4, label=name)
axes.axhline(1, color=COLORS["black"], linestyle=":")
axes.text(1.1, 1.6, "no digit is right above this line", va="bottom")
axes.set(
    title="Variance of 10,000 numbers with standard deviation 1, in float32",
    xlabel="mean of the numbers (no unit)",
    ylabel="relative error",
)
axes.legend(loc="upper left")
show(
    figure,
    alt="Relative error of the variance against the mean of the numbers, both axes logarithmic. "
    "E of x squared minus the square of E of x grows with the square of the mean and has no "
    "right digit from a mean of a few thousand on; at a million it is off by more than ten thousand "
    "times. The mean of squared distances stays at a millionth or less up to a mean of ten thousand and "
    "rises to about a hundredth at a million.",
)

# %% [markdown]
r"""
The true variance of the three numbers is 2/3, and the one-pass form says 0: squares near $10^8$ are
rounded to multiples of 8. In the figure the error grows as the *square* of the mean. Points on the dotted
line are variances of exactly 0; above it lie results that are far too large, or negative, and the square
root of a negative one is nan. Activations and sensor readings with a mean far from zero are not rare.
The stable form rises late, and not through cancellation: near a million, the float32 mean of ten thousand
numbers is itself a little off, and the square of that error is added.

The stable form subtracts the mean first, and so needs the mean before it starts: two passes. What if
the data come as a stream? Keep three things: the count $n$, the mean $\mu$, and the sum of squared distances
from the mean, $M = \sum (x - \mu)^2$. Two groups $A$ and $B$, each with its own three, are merged
without touching the data again. With $\delta = \mu_B - \mu_A$ and $n = n_A + n_B$:

$$\mu = \mu_A + \delta \, \frac{n_B}{n} \qquad\qquad M = M_A + M_B + \delta^2 \, \frac{n_A n_B}{n}$$

The last term is there because each group measured its distances from its own mean. Welford (1962)
found the case of one new number, Chan, Golub and LeVeque (1983) the general one. The means themselves are
never squared, only their difference. (It is large in the first call alone, where its factor $n_A$ is 0.)
"""

# %% [markdown] exercise="running-variance" points=5 minutes=20 difficulty=2
"""
### Variance in one pass

Write `merge_moments(count, mean, m2, batch)`: take in one more block of rows. The check feeds
the blocks one by one and keeps nothing but what you return: the rows so far may have been taken in by
another process.

- **In**: `count`, the rows seen so far, a Python int; `mean` and `m2`, tensors of shape (features,): the
  mean of each feature so far and the sum of squared distances from it; `batch`, of shape (rows,
  features), with at least one row. The first call gets a count of 0 and zeros.
- **Out**: the new `(count, mean, m2)`, a tuple of an int and two tensors of the batch's dtype, float32 or
  float64.
- `m2 / count` is then the (biased) variance of all rows so far. It must hold for a mean of a
  hundred thousand and a standard deviation of 1, in float32 to within 5 percent.

<!-- hint: What are the three numbers n, mean and M of the new block alone? Which of them is a two-pass computation, and why is that allowed here? -->
<!-- hint: The block is in memory, so its own mean and its own sum of squared distances can be computed the stable way. What is left is to merge group A (the past) with group B (the block). -->
<!-- hint: Let delta be the block's mean minus the old one. The new mean adds delta times the block's share of all rows; the new m2 is the sum of both m2 and delta squared times count times rows over the total. With a count of 0 the last term is 0 by itself. -->
"""


# %% solution="running-variance"
def merge_moments(count, mean, m2, batch):
    """Return (count, mean, m2) after ``batch``: an int and two tensors of shape (features,)."""
    ### BEGIN SOLUTION
    rows = len(batch)
    total = count + rows
    block_mean = batch.mean(dim=0)
    block_m2 = ((batch - block_mean) ** 2).sum(dim=0)
    delta = block_mean - mean
    mean = mean + delta * (rows / total)
    m2 = m2 + block_m2 + delta**2 * (count * rows / total)
    return total, mean, m2
    ### END SOLUTION


# %% test="running-variance"
check = Check("running-variance")


def after_all_blocks(data, sizes, known=0):
    """Return what the blocks behind the first ``known`` rows come to, which are in the state."""
    features, dtype = data.shape[1], data.dtype
    state = (0, torch.zeros(features, dtype=dtype), torch.zeros(features, dtype=dtype))
    if known:
        variance, mean = torch.var_mean(data[:known].double(), dim=0, correction=0)
        state = (known, mean.to(dtype), (known * variance).to(dtype))
    for block in data[known:].split(sizes):
        state = check.call(merge_moments, *state, block)
        check.true(type(state) is tuple and len(state) == 3, "not a tuple of three came back")
    return state


with check.property("three blocks of different sizes give mean and variance of the whole"):
    data = check.draw.normal(16, 3, mean=1.0, std=2.0)
    count, mean, m2 = after_all_blocks(data, [7, 4, 5])
    check.close(count, 16, what="count")
    check.close(mean, data.double().mean(dim=0).float(), atol=1e-5, what="mean")
    check.close(m2, (16 * data.double().var(dim=0, correction=0)).float(), rtol=1e-4, what="m2")
with check.property("blocks of a single row work, the first one included"):
    data = check.draw.normal(9, 4, mean=-3.0)
    count, mean, m2 = after_all_blocks(data, [1, 1, 3, 1, 2, 1])
    check.close(count, 9, what="count")
    check.close(mean, data.double().mean(dim=0).float(), atol=1e-5, what="mean")
    check.close(m2, (9 * data.double().var(dim=0, correction=0)).float(), rtol=1e-4, what="m2")
with check.property("a mean of ten thousand leaves the variance its digits"):
    data = check.draw.normal(300, 5, mean=1e4)
    count, mean, m2 = after_all_blocks(data, [100, 1, 60, 139])
    check.close(count, 300, what="count")
    check.close(mean, data.double().mean(dim=0).float(), rtol=1e-5, what="mean")
    expected = data.double().var(dim=0, correction=0)
    check.close(m2 / count, expected.float(), rtol=1e-2, what="m2 / count")
with check.property("it goes on from moments of rows that this process has never seen", weight=2):
    data = check.draw.normal(300, 5, mean=1e4)
    count, mean, m2 = after_all_blocks(data, [60, 139], known=101)
    check.close(count, 300, what="count")
    check.close(mean, data.double().mean(dim=0).float(), rtol=1e-5, what="mean")
    expected = data.double().var(dim=0, correction=0)
    check.close(m2 / count, expected.float(), rtol=1e-2, what="m2 / count")
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("a mean of minus a hundred thousand leaves it its first digits"):
    data = check.draw.normal(400, 3, mean=-1e5)
    count, mean, m2 = after_all_blocks(data, [1, 150, 49, 200])
    check.close(count, 400, what="count")
    expected = data.double().var(dim=0, correction=0)
    check.close(m2 / count, expected.float(), rtol=0.05, what="m2 / count")
with check.property("float64 keeps float64's digits"):
    data = check.draw.normal(90, 2, mean=1e6, dtype=torch.float64)
    count, mean, m2 = after_all_blocks(data, [30, 1, 59])
    check.close(count, 90, what="count")
    check.close(mean, data.mean(dim=0), rtol=1e-12, what="mean")
    check.close(m2 / count, data.var(dim=0, correction=0), rtol=1e-7, what="m2 / count")
### END HIDDEN TESTS
check.score()

# %% [markdown]
r"""
## Gradients: the branch that was not taken

The natural protection against $\log 0$ is `torch.where`. It works, for the value:
"""


# %%
def rounded(tensor):
    """Return the values of ``tensor`` as lists, to two decimals."""
    if tensor.ndim == 0:
        return round(tensor.item(), 2) + 0.0  # makes 0.0 of -0.0
    return [rounded(part) for part in tensor]


def value_and_gradient(function, points):
    leaf = torch.tensor(points, requires_grad=True)
    values = function(leaf)
    (gradient,) = torch.autograd.grad(values.sum(), leaf)
    return f"value {rounded(values)}, gradient {rounded(gradient)}"


points = [0.0, -1.0, 4.0]
print("log: ", value_and_gradient(lambda x: torch.where(x > 0, x.log(), 0.0), points))
print("sqrt:", value_and_gradient(lambda x: torch.where(x > 0, x.sqrt(), 0.0), points))

# %% [markdown]
r"""
The values are fine. The gradient of `log` is nan at 0, that of `sqrt` at 0 *and* at -1.

Why? `where` computes both branches and picks. On the way back it sends the gradient 1 to
the branch that was picked and 0 to the other. The chain rule then multiplies that 0 by the
branch's own derivative:

| | derivative | at 0 | 0 × that | at -1 | 0 × that |
| --- | --- | --- | --- | --- | --- |
| `log` | $1/x$ | inf | **nan** | -1 | 0 |
| `sqrt` | $1/(2\sqrt{x})$ | inf | **nan** | nan | **nan** |

Autograd has no way of telling "zero" from "not used". Reports of it are closed with this explanation
([pytorch issue 23395](https://github.com/pytorch/pytorch/issues/23395), and many after it).

So it is not enough to drop the bad value afterwards: the nan arises on the way from that `where` back to
$x$. A second `where` must stand there, *in front of* the function, and put a harmless constant in the place of
the bad input. On the way back it does not multiply, it selects: $x$ gets the gradient where $x$ was used, and 0
where the constant was. And since the constant is harmless, no nan arises in the first place. This is known as the
**double where**.
"""


# %%
def safe_square_root(x):
    harmless = torch.where(x > 0, x, 1.0)
    return torch.where(x > 0, harmless.sqrt(), 0.0)


print("sqrt:", value_and_gradient(safe_square_root, points))

# %% [markdown] exercise="safe-log" points=3 minutes=10 difficulty=1
r"""
### A logarithm without nan

Write `safe_log(x)`: $\log x$ where $x > 0$, and 0 elsewhere.

- **In**: a floating-point tensor of any shape. Entries may be 0, negative, `-inf`, or as small as the
  smallest normal number.
- **Out**: a tensor of the same shape and dtype.
- The gradient is $1/x$ where $x > 0$ and exactly 0 elsewhere. Neither value nor gradient is ever nan.

<!-- hint: What does the logarithm itself get to see at the entries that you do not want? -->
<!-- hint: Give it a harmless number at these entries, one whose logarithm and derivative are finite. -->
<!-- hint: Two steps with the same condition: replace what is not above 0 by 1, take the log, then replace by 0 at these entries (log 1 is 0 already). -->
"""


# %% solution="safe-log"
def safe_log(x):
    """Return log(x) where x > 0 and 0 elsewhere, of the same shape and dtype."""
    ### BEGIN SOLUTION
    # log(1) is 0, and no gradient flows through the constant: one where does both jobs.
    return torch.where(x > 0, x, 1.0).log()
    ### END SOLUTION


# %% test="safe-log"
check = Check("safe-log")
with check.property("is the logarithm where x is positive"):
    x = check.draw.uniform(4, 3, low=0.5, high=9.0)
    x[2] = check.draw.uniform(3, low=0.1, high=0.9)  # its logarithms are negative
    got = check.call(safe_log, x)
    check.close(got, x.double().log().float())
with check.property("is exactly 0 where x is 0 or negative"):
    x = check.draw.normal(5, 6)
    x[1, 2:4] = 0.0
    got = check.call(safe_log, x)
    check.equal(got[x <= 0], torch.zeros(int((x <= 0).sum())), what="the value where x <= 0")
with check.property("the gradient is 1/x where x is positive, exactly 0 elsewhere", weight=3):
    x, grad_output = check.draw.normal(6, 4), check.draw.normal(6, 4)
    x[2:4, 1], x[0, 0] = 0.0, 1e-4
    got = check.call(probes.gradient, safe_log, x, grad_output=grad_output)
    expected = torch.zeros_like(x)
    expected[x > 0] = grad_output[x > 0] / x[x > 0]
    check.close(got["gradient"], expected, atol=0.0, what="the gradient")
with check.property("holds from the smallest normal number on, and for -inf, in either dtype"):
    for dtype in (torch.float32, torch.float64):
        smallest = torch.finfo(dtype).smallest_normal
        x = torch.tensor([smallest, 1e-30, 1e-12, 1.0, -math.inf], dtype=dtype)
        got = check.call(probes.gradient, safe_log, x)
        expected = torch.tensor([math.log(value) for value in x[:4]] + [0.0], dtype=dtype)
        check.close(got["output"], expected, what="the value")
        slope = torch.tensor([1 / float(value) for value in x[:4]] + [0.0], dtype=dtype)
        check.close(got["gradient"], slope, what="the gradient")
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("float64 stays float64, in any shape"):
    x = check.draw.normal(2, 5, 3, dtype=torch.float64)
    x[0, 1], x[1, 0, 0] = 0.0, 1e-4
    got = check.call(probes.gradient, safe_log, x)
    positive = x > 0
    expected, slope = torch.zeros_like(x), torch.zeros_like(x)
    expected[positive], slope[positive] = x[positive].log(), 1 / x[positive]
    check.close(got["output"], expected, what="the value")
    check.close(got["gradient"], slope, what="the gradient")
### END HIDDEN TESTS
check.score()

# %% [markdown]
r"""
## Attention: the row that may look at nothing

In attention, each query gives weights to the keys by a softmax of scores. A mask says which keys it may
see. The usual way to exclude a key is to add $-\infty$ to its score, so that its weight is
$e^{-\infty} = 0$. In a batch with padding, some query may see no key at all:
"""

# %%
scores = torch.tensor([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]], requires_grad=True)
mask = torch.tensor([[True, True, False], [False, False, False]])
minus_infinity = torch.zeros(2, 3).masked_fill(~mask, -math.inf)
most_negative = torch.zeros(2, 3).masked_fill(~mask, torch.finfo(scores.dtype).min)
added = torch.softmax(scores + minus_infinity, dim=1)
filled = torch.softmax(scores.masked_fill(~mask, -math.inf), dim=1)


def gradient_after_repair(weights):
    repaired = torch.where(mask, weights, 0.0)
    return torch.autograd.grad(repaired[:, 0].sum(), scores)[0]


for name, rows in (
    ("scores + (0 or -inf):       ", added),
    ("scores + (0 or finfo.min):  ", torch.softmax(scores + most_negative, dim=1)),
    ("-inf, nan replaced by 0:    ", torch.where(mask, added, 0.0)),
    ("its gradient, -inf added:   ", gradient_after_repair(added)),
    ("its gradient, -inf filled in:", gradient_after_repair(filled)),
):
    print(f"{name:<29}", rounded(rows))

# %% [markdown]
r"""
The first row is right each time. Look at the second:

- With $-\infty$, the maximum is $-\infty$ too, and $-\infty - (-\infty)$ is nan.
- With the most negative finite number there is no nan. All three scores are equal, so the weights are 1/3
  each: **the query attends, evenly, to exactly the keys that it must not see.** Nothing warns you.
- Replacing the nan afterwards repairs the value. Where $-\infty$ was *added*, the gradient is nan: the
  derivative of softmax contains its own result, 0 × nan is nan, and an addition hands on what it gets.
- Where it was *filled in*, the gradient is right. `masked_fill`, like `where`, selects on the way back, and
  it stands in front of the softmax. This is the double where again.

What should a fully masked row be? Zero weights are a convention, and a useful one: the query takes
nothing, and gives no gradient. PyTorch's `scaled_dot_product_attention` once returned nan here
([issue 103749](https://github.com/pytorch/pytorch/issues/103749)). Version 2.13 returns zeros; the next cell
shows what yours does. (In its mask, as in ours, True means that the key may be seen.)
"""

# %%
generator = torch.Generator().manual_seed(0)
queries = torch.randn(1, 2, 4, generator=generator)
keys, values = torch.randn(2, 1, 3, 4, generator=generator)
attended = functional.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)
print("the fully masked query's output:", attended[0, 1].tolist())

# %% [markdown] exercise="masked-softmax" points=5 minutes=25 difficulty=3
"""
### Masked softmax

Write `masked_softmax(logits, mask)`: a softmax along the last dimension over the entries where the
mask is True.

- **In**: `logits`, a floating-point tensor of shape (..., keys), of any size; `mask`, booleans that broadcast to
  that shape. Under the mask, where it is False, the logits may hold any finite number, also the largest of the
  row: it must not matter.
- **Out**: a tensor of the logits' shape and dtype. Where the mask is False it is exactly 0. A row that is
  masked throughout is all zeros.
- The gradient by the logits is never nan, and exactly 0 where the mask is False.
- `torch.softmax` is **allowed**.

<!-- hint: What does softmax see in a row that is masked throughout? Which input would leave it, and its derivative, without nan? -->
<!-- hint: Two masks, as in the double where: one before the softmax, so that it sees only finite numbers in such a row, and one after it, that writes the zeros. -->
<!-- hint: Before: fill in minus infinity where the mask is False, rather than adding it. After: write 0 where the mask is False, which also takes the nan of a row without any True. Which of the two steps stops the nan on the way back? -->
"""


# %% solution="masked-softmax"
def masked_softmax(logits, mask):
    """Return the softmax over the last dimension of the entries where ``mask`` is True, 0 elsewhere."""
    ### BEGIN SOLUTION
    # Both fills select on the way back, so the nan of a fully masked row stays between them.
    weights = torch.softmax(logits.masked_fill(~mask, -math.inf), dim=-1)
    return weights.masked_fill(~mask, 0.0)
    ### END SOLUTION


# %% test="masked-softmax"
check = Check("masked-softmax")


def by_the_book_in_float64(logits, mask):
    """Good for logits of a few hundred; the check needs no more than that here."""
    exponentials = (logits.double() * mask).exp() * mask
    return exponentials / exponentials.sum(dim=-1, keepdim=True).clamp(min=1e-300)


def mask_with_a_key_per_row(rows, keys):
    mask = check.draw.booleans(rows, keys)
    mask[torch.arange(rows), check.draw.integers(rows, low=0, high=keys)] = True
    return mask


with check.property("is the softmax over the unmasked entries, and 0 at the others"):
    logits, mask = check.draw.normal(4, 6), mask_with_a_key_per_row(4, 6)
    mask[0, 1:3] = False
    mask[0, 0] = True
    got = check.call(masked_softmax, logits, mask)
    check.close(got, by_the_book_in_float64(logits, mask).float())
with check.property("a fully masked row is all zeros", weight=2):
    logits, mask = check.draw.normal(5, 3), mask_with_a_key_per_row(5, 3)
    mask[check.draw.integer(0, 5)] = False
    got = check.call(masked_softmax, logits, mask)
    check.close(got, by_the_book_in_float64(logits, mask).float())
with check.property("what stands under the mask does not matter, however large"):
    logits, mask = check.draw.normal(3, 7), mask_with_a_key_per_row(3, 7)
    mask[:, 2], mask[:, 3] = False, True
    expected = by_the_book_in_float64(logits, mask).float()
    logits[:, 2] = torch.tensor([500.0, torch.finfo(torch.float32).max, -1e30])
    got = check.call(masked_softmax, logits, mask)
    check.close(got, expected)
with check.property("no nan in the gradient, and exactly 0 under the mask", weight=2):
    logits, grad_output = check.draw.normal(6, 5), check.draw.normal(6, 5)
    mask = mask_with_a_key_per_row(6, 5)
    logits[:, 3], mask[:, 3] = 5.0, False  # the largest logit of each row is under the mask
    mask[check.draw.integer(0, 6)] = False
    got = check.call(probes.gradient, masked_softmax, logits, mask, grad_output=grad_output)
    weights = by_the_book_in_float64(logits, mask)
    slope = weights * (grad_output - (grad_output * weights).sum(dim=1, keepdim=True))
    check.close(got["gradient"], slope.float(), what="the gradient")
    under_mask = got["gradient"][~mask]
    check.equal(under_mask, torch.zeros_like(under_mask), what="the gradient under the mask")


def softmax_of_kept(logits, mask):
    """Row by row over the entries that are kept, in float64."""
    result = torch.zeros(logits.shape, dtype=torch.float64)
    for row, kept in enumerate(mask):
        if kept.any():
            result[row, kept] = torch.softmax(logits[row, kept].double(), dim=0)
    return result


with check.property("the mask broadcasts over leading dimensions", weight=0.5):
    logits, mask = check.draw.normal(2, 4, 3), mask_with_a_key_per_row(4, 3)
    mask[check.draw.integer(0, 4)] = False
    got = check.call(masked_softmax, logits, mask)
    expected = torch.stack([softmax_of_kept(head, mask) for head in logits])
    check.close(got, expected.float())
with check.property("logits of thousands, in float64, value and gradient", weight=0.5):
    logits = check.draw.normal(5, 6, std=3.0, dtype=torch.float64)
    logits = logits + torch.tensor([[2000.0], [-1e10], [900.0], [-900.0], [0.0]])
    mask = mask_with_a_key_per_row(5, 6)
    logits[:, 1] += 30.0
    mask[:, 1], mask[:, 2], mask[4] = False, True, False
    grad_output = check.draw.normal(5, 6, dtype=torch.float64)
    got = check.call(probes.gradient, masked_softmax, logits, mask, grad_output=grad_output)
    weights = softmax_of_kept(logits, mask)
    slope = weights * (grad_output - (grad_output * weights).sum(dim=1, keepdim=True))
    check.close(got["output"], weights, rtol=1e-8, what="the value")
    check.close(got["gradient"], slope, rtol=1e-7, atol=1e-9, what="the gradient")
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("a mask for all rows and heads, and logits of thousands", weight=0.5):
    logits, keys = check.draw.normal(2, 3, 5, mean=-3000.0), mask_with_a_key_per_row(1, 5)
    got = check.call(masked_softmax, logits, keys[0])
    expected = torch.stack([softmax_of_kept(head, keys.expand(3, 5)) for head in logits])
    check.close(got, expected.float(), rtol=1e-3)
with check.property("the gradient where a row of thousands is masked throughout", weight=0.5):
    logits = check.draw.normal(4, 7, dtype=torch.float64)
    logits = logits + torch.tensor([[-1e12], [1e5], [-5e3], [5e3]])
    mask, grad_output = mask_with_a_key_per_row(4, 7), check.draw.normal(4, 7, dtype=torch.float64)
    logits[:, 4] += 30.0
    mask[:, 4], mask[:, 5] = False, True
    mask[check.draw.integer(1, 4)] = False
    got = check.call(probes.gradient, masked_softmax, logits, mask, grad_output=grad_output)
    weights = softmax_of_kept(logits, mask)
    slope = weights * (grad_output - (grad_output * weights).sum(dim=1, keepdim=True))
    check.close(got["gradient"], slope, rtol=1e-7, atol=1e-9, what="the gradient")
### END HIDDEN TESTS
check.score()

# %% [markdown]
r"""
## Softmax of a row that never is in memory at once

The shift needs the maximum of the whole row first. For attention over a long text the row of scores
is too large to be stored, and comes in blocks. It seems to take two passes: one for
the maximum, one for the sum. One is enough (Milakov and Gimelshein 2018, section 3).

Keep the largest logit so far, $m$, and the sum of exponentials *relative to it*, $s = \sum_j e^{z_j - m}$. A new
block may raise the maximum to $m'$. The old sum was measured from the old maximum; move it to the new one:

$$\sum_{j \text{ old}} e^{z_j - m'} = s \cdot e^{m - m'}$$

and add the block's own terms $e^{z_j - m'}$. The factor is at most 1, so nothing overflows. Watch it on
one row of eight logits, taken one at a time:
"""

# %%
row = [2.0, 1.0, 4.0, 3.0, 100.0, 98.0, 101.0, 5.0]
maximum, total = -math.inf, 0.0
print("logit  maximum      sum relative to it")
for logit in row:
    larger = max(maximum, logit)
    total = total * math.exp(maximum - larger) + math.exp(logit - larger)
    maximum = larger
    print(f"{logit:>5.0f}{maximum:>9.0f}{total:>12.4f}")
print(
    "log-sum-exp:",
    f"{maximum + math.log(total):.4f},",
    "torch:",
    f"{torch.tensor(row).logsumexp(0).item():.4f}",
)

# %% [markdown]
r"""
At the fifth logit the sum so far, 1.5, is multiplied by $e^{-96}$ and vanishes beside 1, as it
should. FlashAttention carries one more quantity by the same rule, the weighted sum of the values (Dao et al. 2022,
section 3.1). That is how it computes exact attention without storing the matrix of scores.

In this loop the first logit was finite. With a mask, whole blocks can be $-\infty$.
"""

# %% [markdown] exercise="online-softmax" points=5 minutes=25 difficulty=3
r"""
### Online softmax

Write `update_softmax(maximum, total, block)`: take in one more block of each row. The check feeds blocks one
by one and keeps nothing but what you return: the blocks so far may have been taken in by another process. At the end, $e^{z - \text{maximum}} / \text{total}$ must be the softmax
of the whole row.

- **In**: `maximum`, of shape (rows,): the largest logit of each row so far; `total`, of shape (rows,): the
  sum of `exp(logit - maximum)` so far; `block`, of shape (rows, width), the next logits, with a width of
  at least 1. The first call gets a maximum of `-inf` and a total of 0. Logits are of any size, or `-inf`.
- **Out**: the new `(maximum, total)`, a tuple of two tensors of shape (rows,) and of the block's dtype.
- As long as a row has seen nothing but `-inf`, its maximum is `-inf` and its total is 0.
- Autograd need not go through it.

<!-- hint: What happens to the old total when the block brings a larger maximum? And what is -inf minus -inf? -->
<!-- hint: Rescale the old total by exp(old maximum - new maximum), then add the block's exponentials relative to the new maximum. Where the new maximum is still -inf, subtract a harmless number in its place. -->
<!-- hint: `shift = torch.where(new_maximum == -inf, 0, new_maximum)`. Then exp(-inf - 0) is 0, in both terms, and everything else is as in the loop above. -->
"""


# %% solution="online-softmax"
def update_softmax(maximum, total, block):
    """Return (maximum, total), each of shape (rows,), after ``block`` of shape (rows, width)."""
    ### BEGIN SOLUTION
    new_maximum = torch.maximum(maximum, block.amax(dim=1))
    # -inf minus -inf is nan: rows without a finite logit so far are shifted by 0.
    shift = new_maximum.masked_fill(new_maximum == -math.inf, 0.0)
    rescaled = total * (maximum - shift).exp()
    return new_maximum, rescaled + (block - shift[:, None]).exp().sum(dim=1)
    ### END SOLUTION


# %% test="online-softmax"
check = Check("online-softmax")


def after_blocks_of(logits, widths, known=0):
    """Return what the blocks behind the first ``known`` columns come to, which are in the state."""
    maximum = torch.full((len(logits),), -math.inf, dtype=logits.dtype)
    total = torch.zeros(len(logits), dtype=logits.dtype)
    if known:
        maximum, total = logits[:, :known].amax(dim=1), total_of(logits[:, :known])
    for block in logits[:, known:].split(widths, dim=1):
        state = check.call(update_softmax, maximum, total, block)
        check.true(type(state) is tuple and len(state) == 2, "not a tuple of two came back")
        maximum, total = state
    return maximum, total


def total_of(logits):
    largest = logits.max(dim=1, keepdim=True).values
    return (logits.double() - largest).exp().sum(dim=1).to(logits.dtype)


with check.property("three blocks give the maximum and the sum of the whole row"):
    logits = check.draw.normal(4, 12)
    logits[:, 6] += 6.0  # the maximum comes in the second block
    maximum, total = after_blocks_of(logits, [5, 3, 4])
    check.equal(maximum, logits.max(dim=1).values, what="maximum")
    check.close(total, total_of(logits), rtol=1e-4, what="total")
with check.property("logits of a thousand, rising and falling, give no nan, no inf"):
    logits = check.draw.normal(3, 10, std=2.0)
    logits = logits + torch.tensor([1.0, -1.0, 0.0])[:, None] * torch.linspace(-1000, 1000, 10)
    maximum, total = after_blocks_of(logits, [3, 1, 4, 2])
    check.equal(maximum, logits.max(dim=1).values, what="maximum")
    check.close(total, total_of(logits), rtol=1e-3, what="total")
with check.property("it goes on from logits that this process has never seen", weight=2):
    logits = check.draw.normal(4, 12, std=2.0)
    logits[1] += torch.linspace(0, 90, 12)
    maximum, total = after_blocks_of(logits, [1, 3, 2], known=6)
    check.equal(maximum, logits.max(dim=1).values, what="maximum")
    check.close(total, total_of(logits), rtol=1e-4, what="total")
with check.property("rows may begin with blocks of -inf"):
    logits = check.draw.normal(5, 9)
    logits[1, :4], logits[3, :7] = -math.inf, -math.inf
    maximum, total = after_blocks_of(logits, [2, 1, 3, 3])
    check.equal(maximum, logits.max(dim=1).values, what="maximum")
    check.close(total, total_of(logits), rtol=1e-4, what="total")
with check.property("a row of nothing but -inf keeps the maximum -inf and the total 0"):
    logits = check.draw.normal(4, 6)
    empty = check.draw.integer(0, 4)
    logits[empty] = -math.inf
    maximum, total = after_blocks_of(logits, [1, 3, 2])
    expected = total_of(logits)
    expected[empty] = 0.0
    check.equal(maximum, logits.max(dim=1).values, what="maximum")
    check.close(total, expected, rtol=1e-4, what="total")
with check.property("very negative logits are not taken for -inf", weight=0.5):
    logits = check.draw.normal(4, 6, mean=-2e4, dtype=torch.float64)
    logits[1, :3] = -math.inf
    maximum, total = after_blocks_of(logits, [2, 1, 3])
    check.equal(maximum, logits.max(dim=1).values, what="maximum")
    check.close(total, total_of(logits), rtol=1e-8, what="total")
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("logits far from 0 on either side, behind blocks of -inf", weight=0.5):
    logits = check.draw.normal(5, 7, mean=-3e5, dtype=torch.float64)
    logits[1] += 6e5
    logits[2, :4], logits[3, 5:] = -math.inf, -math.inf
    maximum, total = after_blocks_of(logits, [2, 4, 1])
    check.equal(maximum, logits.max(dim=1).values, what="maximum")
    check.close(total, total_of(logits), rtol=1e-8, what="total")
with check.property("blocks of width 1 in float64 give the softmax of the whole row"):
    logits = check.draw.normal(3, 8, mean=800.0, dtype=torch.float64)
    logits[0, :2], logits[1, 3:5] = -math.inf, -math.inf
    maximum, total = after_blocks_of(logits, [1] * 8)
    check.equal(maximum, logits.max(dim=1).values, what="maximum")
    check.close(total, total_of(logits), rtol=1e-9, what="total")
    weights = (logits - maximum[:, None]).exp() / total[:, None]
    check.close(weights, torch.softmax(logits, dim=1), rtol=1e-9, what="the softmax")
### END HIDDEN TESTS
check.score()

# %% [markdown]
"""
## Finding the first nan

A nan spreads to everything behind it. What you see is a loss of nan; what you need is where it began.
There are two directions to search.

**Forward.** A hook on every module looks at what the module returns and remembers the first output that is not
finite. A module's parts return before it does, so the innermost is named. A page of code makes a tool that you
can keep:
"""


# %%
def first_nonfinite_module(model, *inputs):
    """Run ``model`` and return the name of the first module with a nan or inf in its output, or None."""
    found = []

    def look(name):
        def hook(module, arguments, output):
            outputs = output if isinstance(output, tuple | list) else (output,)
            tensors = [part for part in outputs if isinstance(part, torch.Tensor)]
            if not found and not all(torch.isfinite(tensor).all() for tensor in tensors):
                found.append(name or "the model itself")

        return hook

    handles = [module.register_forward_hook(look(name)) for name, module in model.named_modules()]
    try:
        model(*inputs)
    finally:
        for handle in handles:
            handle.remove()
    return found[0] if found else None


class Exponential(torch.nn.Module):
    def forward(self, x):
        return x.exp()


torch.manual_seed(0)
model = torch.nn.Sequential()
model.add_module("hidden", torch.nn.Linear(64, 32))
model.add_module("rates", Exponential())
model.add_module("output", torch.nn.Linear(32, 10))
print("on the digits:", first_nonfinite_module(model, pixels))
print(
    "on digits scaled up by 16 twice, by mistake:", first_nonfinite_module(model, pixels * 16 * 16)
)
print("the loss alone says:", model(pixels * 16 * 16).mean().item())

# %% [markdown]
"""
**Backward.** A loss can be finite while its gradient is nan; you have seen it with `where`. Then forward
hooks find nothing. `torch.autograd.detect_anomaly` checks every gradient in the backward pass and stops at the
first nan. It also prints where in the forward pass the operation was created. (That trace is left out below; in a
notebook your own line is near its end. Anomaly mode is slow: switch it on to search, not to train.)
"""

# %%
points = torch.tensor([[3.0, 4.0], [0.0, 0.0]], requires_grad=True)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # the trace of the forward pass, with this machine's paths
    try:
        with torch.autograd.detect_anomaly():
            lengths = (points**2).sum(dim=1).sqrt()
            print("lengths:", lengths.tolist())
            lengths.sum().backward()
    except RuntimeError as error:
        print("anomaly:", error)

# %% [markdown]
"""
The culprit has a name, `PowBackward0`, and it is the power in `points**2`. Read one step further: the power only
multiplied. It got an inf from the square root, whose derivative at 0 is infinite, and its own derivative
$2x$ is 0 there. 0 × inf is nan. **Anomaly mode names the first nan, and the first nan is often one
step after the first inf.** A hook on the tensor between them shows it:
"""

# %%
points = torch.tensor([[3.0, 4.0], [0.0, 0.0]], requires_grad=True)
squares = (points**2).sum(dim=1)
squares.register_hook(
    lambda gradient: print("gradient that arrives at the squares:", rounded(gradient))
)
squares.sqrt().sum().backward()
print("gradient of the points:     ", rounded(points.grad))
(gradient,) = torch.autograd.grad(torch.linalg.vector_norm(points, dim=1).sum(), points)
print("by torch.linalg.vector_norm:", rounded(gradient))

# %% [markdown]
"""
A length has no derivative at 0: it is a cone, and 0 is its tip. But it has *subgradients*, the slopes of the
planes that touch the tip from below, and 0 is one of them. `vector_norm` returns that one. PyTorch's rule for
such points is written down in its documentation ("Gradients for non-differentiable functions").
"""

# %% [markdown]
"""
## Bug hunt: the loss is fine, the weights are gone

A network maps pictures to points. Pictures of the same digit shall lie close together, others at least 1
apart. Pairs are drawn at random. The distance is the formula from school.
"""


# %%
def distances_from_school(a, b):
    return ((a - b) ** 2).sum(dim=-1).sqrt()


def draw_pairs(generator, count):
    """Return indices of ``count`` anchors, of partners of the same digit, and of other digits."""

    def draw_from(candidates):
        places = candidates.nonzero().flatten()
        return places[torch.randint(len(places), (), generator=generator)]

    anchors = torch.randint(len(digit_labels), (count,), generator=generator)
    digits_of_anchors = digit_labels[anchors]
    partners = torch.stack([draw_from(digit_labels == digit) for digit in digits_of_anchors])
    others = torch.stack([draw_from(digit_labels != digit) for digit in digits_of_anchors])
    return anchors, partners, others


def train_embedding(distances, steps=100):
    """Train, and return the losses up to the first step that leaves a weight that is not finite."""
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
    generator = torch.Generator().manual_seed(0)
    losses, pairs = [], None
    for _ in range(steps):
        pairs = draw_pairs(generator, 16)
        near, same, other = (network(pixels[indices] / 16) for indices in pairs)
        loss = (distances(near, same) + functional.relu(1 - distances(near, other))).mean()
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if not all(torch.isfinite(weight).all() for weight in network.parameters()):
            break
    return losses, pairs


losses, (anchors, partners, others) = train_embedding(distances_from_school)
print(f"the weights were lost in step {len(losses)}")
print(f"the losses up to that step are all finite: {all(map(math.isfinite, losses))}")

# %% [markdown]
"""
Every loss is an ordinary number, that of the fatal step included. Then the weights are nan, and nothing was
printed that could have warned you. The data are fine, and so is the formula.

You have the tools. `anchors`, `partners` and `others` hold the picture numbers of the fatal step.
"""

# %% [markdown] exercise="bug-hunt-distances" points=4 minutes=20 difficulty=2
"""
### Bug hunt: distances that can be trained

The function `distances_from_school` breaks the training above. Find out, in cells of your own: what is
special about one of the pairs of the fatal step? Which derivative is infinite there? Then write
`distances(a, b)`, which keeps the values of the old function and is safe to train.

- **In**: `a` and `b`, floating-point tensors of the same shape (..., features).
- **Out**: the Euclidean distance over the last dimension, shape (...), of the same dtype. It is exact to rounding,
  also for a distance of a millionth or a hundred-millionth, and exactly 0 where the two coincide.
- The gradient by `a`, and by `b`, is that of the distance; where the two coincide it is exactly 0.
- All of torch is **allowed**.

When it is written, run `len(train_embedding(distances)[0])` in a cell of your own: all 100 steps should be done.

<!-- hint: Of the three operations (difference, sum of squares, root), which derivative is infinite when the points coincide? What does that infinity meet on its way back? -->
<!-- hint: A number added under the root changes every small distance, so it is out. Either keep the zero away from the root, as the double where does, or use a function whose authors have settled what happens at 0. -->
<!-- hint: The chapter shows such a function, just after anomaly mode. It takes the difference and a `dim`. -->
"""


# %% solution="bug-hunt-distances"
def distances(a, b):
    """Return the Euclidean distances over the last dimension of ``a`` and ``b``, shape (...)."""
    ### BEGIN SOLUTION
    return torch.linalg.vector_norm(a - b, dim=-1)
    ### END SOLUTION


# %% test="bug-hunt-distances"
check = Check("bug-hunt-distances")


def distances_in_float64(a, b):
    return ((a.double() - b.double()) ** 2).sum(dim=-1).sqrt()


def slopes(a, b):
    lengths = distances_in_float64(a, b)[..., None]
    return torch.where(lengths > 0, (a.double() - b.double()) / lengths, 0.0)


with check.property("is the Euclidean distance over the last dimension"):
    a, b = check.draw.normal(4, 2, 3), check.draw.normal(4, 2, 3)
    got = check.call(distances, a, b)
    check.close(got, distances_in_float64(a, b).float())
with check.property("points that coincide have distance 0 and gradient 0", weight=3):
    a, b = check.draw.normal(12, 3), check.draw.normal(12, 3)
    b[2:10] = a[2:10]
    got = check.call(probes.gradient, distances, a, b)
    check.close(got["output"], distances_in_float64(a, b).float(), atol=0.0, what="the value")
    check.close(got["gradient"], slopes(a, b).float(), what="the gradient by a")
    got = check.call(probes.gradient, distances, a, b, with_respect_to=1)
    check.close(got["gradient"], -slopes(a, b).float(), what="the gradient by b")
with check.property("a distance of a millionth comes out as a millionth"):
    a, b = check.draw.normal(6, 4, std=1e-6), check.draw.normal(6, 4, std=1e-6)
    b[2] = a[2] + 1e-8
    got = check.call(distances, a, b)
    check.close(got, distances_in_float64(a, b).float(), atol=0.0)
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("close points far from the origin keep their distance"):
    a = check.draw.normal(7, 5, mean=100.0)
    b = a + check.draw.normal(7, 5, std=1e-3)
    got = check.call(probes.gradient, distances, a, b)
    check.close(got["output"], distances_in_float64(a, b).float(), atol=0.0, what="the value")
    check.close(got["gradient"], slopes(a, b).float(), what="the gradient by a")
with check.property("the gradient by b, small distances, float64"):
    a = check.draw.normal(4, 6, std=1e-9, dtype=torch.float64)
    b = check.draw.normal(4, 6, std=1e-9, dtype=torch.float64)
    b[2] = a[2]
    grad_output = check.draw.normal(4, dtype=torch.float64)
    got = check.call(probes.gradient, distances, a, b, with_respect_to=1, grad_output=grad_output)
    check.close(got["output"], distances_in_float64(a, b), atol=0.0, what="the value")
    expected = -slopes(a, b) * grad_output[:, None]
    check.close(got["gradient"], expected, rtol=1e-8, what="the gradient by b")
### END HIDDEN TESTS
check.score()

# %% [markdown]
"""
<details><summary>What it was (open it when you have found it)</summary>

Partners are drawn at random from the pictures of the same digit, and once in a while a picture is drawn as its own
partner. Its distance is 0, which is right. Its gradient is nan, which is the end of all weights.
</details>

This is how it happens in the world. A user of Keras met it in a siamese network in 2018
([keras issue 9097](https://github.com/keras-team/keras/issues/9097)). `torch.cdist` of PyTorch 1.5 did
it to torchvision's own example of similarity learning
([pytorch issue 37154](https://github.com/pytorch/pytorch/issues/37154)). The norm's own gradient had been
repaired in 2017 ([pytorch issue 2421](https://github.com/pytorch/pytorch/issues/2421)), and everybody who
writes the formula out meets it anew: in 2026 it was found in sentence-transformers
([pull request 4033](https://github.com/huggingface/sentence-transformers/pull/4033)).

The folk remedy adds a small number under the root. Look at what it does to two points that are a millionth apart,
and to two that coincide:
"""

# %%
millionth = torch.tensor([1e-6, 0.0])
for epsilon in (1e-6, 1e-8, 1e-12):
    apart = ((millionth**2).sum() + epsilon).sqrt().item()
    print(
        f"epsilon {epsilon:.0e}: 1e-06 becomes {apart:.1e}, and 0 becomes {math.sqrt(epsilon):.0e}"
    )

# %% [markdown]
"""
The nan is gone, and so are the small distances. Whether that matters depends on the task. That it happens silently is
the point: a number chosen to stop a nan has become a parameter of the model.
"""

# %% [markdown]
r"""
## In the wild

| what | where it is settled |
| --- | --- |
| log-sum-exp | [`torch.logsumexp`](https://docs.pytorch.org/docs/stable/generated/torch.logsumexp.html), [`scipy.special.logsumexp`](https://docs.scipy.org/doc/scipy/reference/generated/scipy.special.logsumexp.html) (its `b=` takes weights), [`jax.nn.logsumexp`](https://docs.jax.dev/en/latest/_autosummary/jax.nn.logsumexp.html) |
| fused losses | [`cross_entropy`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.cross_entropy.html) (class indices or probabilities; `label_smoothing=`, `ignore_index=`), [`BCEWithLogitsLoss`](https://docs.pytorch.org/docs/stable/generated/torch.nn.BCEWithLogitsLoss.html), [`logsigmoid`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.logsigmoid.html); in Keras the option is called `from_logits=True` |
| the clamp at -100 | [`BCELoss`](https://docs.pytorch.org/docs/stable/generated/torch.nn.BCELoss.html) says so in its documentation |
| $0 \log 0 = 0$ | [`torch.special.xlogy`](https://docs.pytorch.org/docs/stable/special.html#torch.special.xlogy), [`scipy.special.xlogy`](https://docs.scipy.org/doc/scipy/reference/generated/scipy.special.xlogy.html) |
| near 1 and near 0 | `log1p`, `expm1` in torch, [NumPy](https://numpy.org/doc/stable/reference/generated/numpy.log1p.html), JAX and the C library |
| running variance | [`torch.var_mean`](https://docs.pytorch.org/docs/stable/generated/torch.var_mean.html) for a whole tensor; scikit-learn's [`StandardScaler.partial_fit`](https://scikit-learn.org/stable/modules/generated/sklearn.preprocessing.StandardScaler.html) merges blocks, after Chan, Golub and LeVeque |
| masked rows | [`scaled_dot_product_attention`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html) (`attn_mask=`), [`jax.nn.softmax`](https://docs.jax.dev/en/latest/_autosummary/jax.nn.softmax.html) (`where=`); version 4 of transformers fills with `torch.finfo(dtype).min`, and `AttentionMaskConverter` has a function for rows that see nothing |
| online softmax | [FlashAttention](https://arxiv.org/abs/2205.14135), one of the kernels behind `scaled_dot_product_attention` |
| where and gradients | the [JAX FAQ](https://docs.jax.dev/en/latest/faq.html) on gradients that are nan behind `where`; PyTorch's [rules for points without a derivative](https://docs.pytorch.org/docs/stable/notes/autograd.html#gradients-for-non-differentiable-functions) |
| finding nan | [`torch.autograd.detect_anomaly`](https://docs.pytorch.org/docs/stable/autograd.html#anomaly-detection), JAX's flag `jax_debug_nans` |
"""

# %% [markdown]
"""
## Recap

1. A formula that is right for real numbers is one of many programs, and only some of them stay within range and
   keep their digits.
2. Softmax and log-sum-exp are computed after subtracting the row's own maximum; cross entropy is computed
   from logits, never from probabilities.
3. Subtracting nearly equal numbers shows the rounding of what came before: `log1p`, `expm1`, and squared
   distances from the mean avoid it.
4. A value that is masked after the fact still has a gradient, and 0 × inf is nan: mask what goes in, not only what comes out.
5. Adding a small number, clamping, and replacing nan hide the symptom and leave wrong values or silent zeros.

### Test yourself

<details><summary>1. Why does softmax of (1000, 1000) by the book give nan, though the answer is (0.5, 0.5)?</summary>

Both exponentials overflow to inf, and inf / inf is nan. The result is in range; the numbers on the way are not.
</details>

<details><summary>2. Softmax is stable now. Why is its logarithm not?</summary>

A probability below about 1e-45 has underflowed to 0 before the logarithm sees it. `log_softmax` never forms it.
</details>

<details><summary>3. With labels whose rows sum to 3, what is the gradient of cross entropy by the logits?</summary>

$3p - y$: the log-sum-exp is counted once for each unit of label.
</details>

<details><summary>4. Why is (1 + x) - 1 wrong for x = 1e-9, though the subtraction is exact?</summary>

The addition rounds 1 + 1e-9 to 1. The digits are lost there; the subtraction only uncovers it.
</details>

<details><summary>5. The loss is finite and the weights are nan after one step. Which tool do you take, and what do you look for next to the line that it names?</summary>

Anomaly mode, because the nan is in the backward pass. Then the operation that comes next in the forward pass: a derivative that is
infinite there, such as that of a root or a logarithm at 0.
</details>

### References

- IEEE 754-2019, *Standard for Floating-Point Arithmetic*, sections 6 (infinity, nan) and 7 (exceptions).
- D. Goldberg, "What Every Computer Scientist Should Know About Floating-Point Arithmetic", *ACM Computing Surveys* 23(1), 1991.
- N. J. Higham, *Accuracy and Stability of Numerical Algorithms*, 2nd edition, SIAM, 2002, sections 1.7 to 1.9.
- P. Blanchard, D. J. Higham, N. J. Higham, "Accurately computing the log-sum-exp and softmax functions", *IMA Journal of Numerical Analysis* 41(4), 2021.
- B. P. Welford, "Note on a Method for Calculating Corrected Sums of Squares and Products", *Technometrics* 4(3), 1962.
- T. F. Chan, G. H. Golub, R. J. LeVeque, "Algorithms for Computing the Sample Variance: Analysis and Recommendations", *The American Statistician* 37(3), 1983.
- M. Milakov, N. Gimelshein, "Online normalizer calculation for softmax", [arXiv:1805.02867](https://arxiv.org/abs/1805.02867), 2018.
- T. Dao, D. Y. Fu, S. Ermon, A. Rudra, C. Ré, "FlashAttention: Fast and Memory-Efficient Exact Attention with IO-Awareness", [arXiv:2205.14135](https://arxiv.org/abs/2205.14135), 2022.

### Glossary

| English | 中文 | meaning |
| --- | --- | --- |
| numerical stability | 数值稳定性 | small roundings stay small on the way to the result |
| overflow | 上溢 | a result beyond the largest number; it becomes inf |
| underflow | 下溢 | a result too close to zero; it becomes subnormal or 0 |
| subnormal number | 次正规数 | a number below the smallest normal one, with fewer digits |
| machine epsilon | 机器精度 | the gap between 1 and the next number |
| logit | 未归一化得分 | the score of a class before softmax |
| log-sum-exp | 对数-求和-指数 | the logarithm of a sum of exponentials, computed by a shift |
| fused loss | 融合损失函数 | a loss that is simplified on paper before it is computed |
| catastrophic cancellation | 灾难性抵消 | a subtraction of nearly equal numbers leaves only their rounding |
| one-pass algorithm | 单遍算法 | reads the data once and keeps a state of fixed size |
| double where | 双重 where | masks the input as well as the result, so that gradients stay finite |
| subgradient | 次梯度 | a slope that supports a convex function at a point without a derivative |
| masked softmax | 掩码 softmax | a softmax over the allowed entries only |
| online softmax | 在线 softmax | a softmax over blocks, with a running maximum and sum |
| anomaly mode | 异常检测模式 | autograd checks each gradient of a backward pass for nan |
"""

# %%
progress("08")
