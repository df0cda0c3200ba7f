# %% [markdown]
r"""
# 08 · Numerical stability

The classifier below is one matrix $W$. Its input $x$ is an image of a handwritten digit, and $z = xW$ holds ten **logits**, one for each digit. Softmax turns them
into probabilities, and the loss is the negative logarithm of the probability of the right digit:

$$p_k = \frac{e^{z_k}}{\sum_j e^{z_j}} \qquad\qquad \text{loss} = -\log p_{\text{right}}$$

The function `loss_by_the_book` implements this formula. Training with it fails in the fourth step.

**中文**: 本章讲数值稳定性：上溢与下溢、灾难性抵消、log-sum-exp 与融合损失、掩码 softmax、梯度中的 nan 及其定位。
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
    explore_logits,
    failing,
    hint,
    new_figure,
    predict,
    predictions,
    probes,
    progress,
    show,
    show_drawing,
)

# %% folded="Data, and a training loop"
digit_images, digit_labels = digits()
pixels = digit_images.flatten(1)


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


# %%
def loss_by_the_book(logits, labels):
    exponentials = logits.exp()
    probabilities = exponentials / exponentials.sum(dim=1, keepdim=True)
    return -probabilities[torch.arange(len(labels)), labels].log().mean()


losses_by_the_book, weights_by_the_book = train(loss_by_the_book)
losses_fused, weights_fused = train(functional.cross_entropy)

# %% folded="Predict: the fourth step"
predict(
    "08/fourth-step",
    "The losses of the first three steps are ordinary numbers. What is the loss of the fourth?",
    f"{losses_by_the_book[3]:g}",
    "For some images, the probability of the right digit is so small that float32 stores it as 0, and −log 0 is inf. The backward pass multiplies inf by 0, so the gradient is nan, and so are all weights after the step.",
    choices=("a number near 10", "a number above 1,000", "inf", "nan"),
)

# %% folded="Figure 8.1: one formula, two programs"
figure, axes = new_figure()
axes.plot(range(1, 61), losses_fused, label="functional.cross_entropy")
axes.plot(range(1, 4), losses_by_the_book[:3], "o", color=COLORS["vermilion"], label="by the book")
axes.axvline(4, color=COLORS["vermilion"], linestyle=":", label="by the book: inf here, then nan")
axes.set(title="One formula, two programs", xlabel="training step", ylabel="loss (nats)")
axes.legend()
show(
    figure,
    number="8.1",
    caption="Both runs use the same model, data and step size. The loss is in nats because its logarithm is natural. With `cross_entropy`, another program for the same formula, training recovers.",
    alt="Loss against training step. Computed by the book, the loss has three points and ends in "
    "inf at step 4. Computed by cross_entropy, it shoots up at the same place, stays finite, "
    "and falls close to zero by step 60.",
)

# %%
for name, losses, weights in (
    ("by the book", losses_by_the_book, weights_by_the_book),
    ("cross_entropy", losses_fused, weights_fused),
):
    first = ", ".join(f"{loss:.1f}" for loss in losses[:6])
    print(f"{name:>13}: {first}; accuracy after 60 steps: {accuracy_of(weights):.2f}")

# %% [markdown]
"""
A step size of 0.1 is too large for these data, so the loss rises in both runs. One recovers. The other cannot, because nearly everything computed from a nan is nan. Its accuracy of 0.10 is no better than guessing.

> **After this chapter, you will be able to**
>
> - predict where `exp`, `log` and subtraction leave the range of a format or lose digits;
> - compute softmax, cross entropy and their gradients for logits of any magnitude;
> - compute a variance in one pass without losing its digits;
> - keep nan out of the gradients of `where` and of fully masked rows;
> - find the first nan of a training run, in the forward or the backward pass.
>
> **Time**: 80 minutes to read and run, 155 for the eight exercises.
>
> **Prerequisites**: tensors, autograd and broadcasting (chapters 00 and 07). Chapter 02 (float formats) helps.
"""

# %% [markdown]
r"""
## The range of a float

For every number $y \ne 0$, $x \cdot y / y = x$. With floats, the result can depend on $y$:
"""

# %%
x = torch.tensor(1.0)
for y in (1e-5, 1e-50, 1e5, 1e39):
    stored = torch.tensor(y)
    result = (x * stored / stored).item()
    print(f"y = {y:g} is stored as {stored.item():g}, and x * y / y = {result:g}")

# %% [markdown]
"""
Both 0 / 0 and inf / inf are nan. **Mathematically equal expressions are different programs.**

Every format has a largest number and a smallest positive **normal** number (one with all of the format's significant bits). **Subnormal** numbers reach closer to zero, with fewer digits (chapter 02). `torch.finfo` lists the limits, and `torch.nextafter` steps from one number to the next.
"""

# %%
formats = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
print(f"{'format':<10}{'largest':>11}{'smallest normal':>17}{'smallest subnormal':>20}")
for dtype in formats:
    info = torch.finfo(dtype)
    subnormal = info.smallest_normal * info.eps
    name = str(dtype).removeprefix("torch.")
    print(f"{name:<10}{info.max:>11.4g}{info.smallest_normal:>17.3g}{subnormal:>20.3g}")
zero, one = torch.tensor(0.0), torch.tensor(1.0)
print(f"the first float32 after 0 is {torch.nextafter(zero, one).item():.4g}")

# %% [markdown]
r"""
A result that would round to more than the largest number **overflows** to inf. A result too close to zero **underflows**: it becomes subnormal or, if it is at most half the smallest subnormal, 0 (IEEE 754-2019, section 7). PyTorch raises no exception for either.
"""

# %% folded="Where exp leaves the range of each format"
windows = {}
for dtype in formats:
    info = torch.finfo(dtype)
    windows[dtype] = (math.log(info.smallest_normal) + math.log(info.eps / 2), math.log(info.max))

# %% folded="Predict: exp in float16"
predict(
    "08/window",
    "The largest float16 is 65,504. What is the largest x for which exp(x) is finite in float16?",
    windows[torch.float16][1],
    "It is about the logarithm of 65,504. A logit of 12 is enough to overflow.",
    between=(0, 100),
)

# %% folded="Figure 8.2: exp in three formats"
figure, axes = new_figure(height=2.6)
for row, dtype in enumerate(formats[1:]):
    low, high = windows[dtype]
    axes.barh(row, high - low, left=low, height=0.5, color=COLORS["blue"])
    axes.text(low - 2, row, f"{low:.0f}", ha="right", va="center")
    axes.text(high + 2, row, f"{high:.2f}", ha="left", va="center")
axes.set_yticks(range(3), [str(dtype).removeprefix("torch.") for dtype in formats[1:]])
axes.set_ylim(2.6, -0.6)
axes.set(
    title="The arguments for which exp is neither 0 nor inf",
    xlabel="x (no unit)",
    ylabel="format",
    xlim=(-130, 125),
)
axes.grid(visible=False)
axes.axvline(0, color=COLORS["black"], linewidth=0.8)
show(
    figure,
    number="8.2",
    caption="To the left of a bar, exp(x) underflows to 0; to the right, it overflows to inf. bfloat16 has the exponent range of float32, so its bar is nearly as long.",
    alt="Three horizontal bars: float32 from about minus 104 to "
    "88.72, bfloat16 from about minus 93 to 88.72, float16 from about minus 17 to 11.09.",
)

# %% [markdown]
"""
These limits explain the fourth step. Until then, both runs had the same weights up to rounding, so three steps with `cross_entropy` produce the logits that broke the other run:
"""

# %%
_, weights_after_three = train(functional.cross_entropy, steps=3)
logits = pixels @ weights_after_three
right_logits = logits[torch.arange(len(digit_labels)), digit_labels]
gap = (logits.amax(dim=1) - right_logits).max().item()
print(f"the largest logit is {logits.max().item():.0f}")
print(f"for one image, the right digit's logit lies {gap:.0f} below the largest")
print(f"and exp(-{gap:.0f}) is {torch.tensor(-gap).exp().item()}")

# %% [markdown]
r"""
Nothing overflowed: 42 is well below 88.7, the limit in Figure 8.2. But for one image, the probability of the right digit is about $e^{-121}$, which float32 stores as 0, and $-\log 0 = \infty$.
"""

# %% [markdown]
"""
## Softmax: move the largest logit to zero

Take the softmax of three pairs of logits:
"""


# %%
def softmax_by_the_book(logits):
    return logits.exp() / logits.exp().sum()


for pair in ([1.0, 0.0], [1000.0, 0.0], [-1000.0, -1000.0]):
    logits = torch.tensor(pair)
    print(pair, "exp:", logits.exp().tolist(), "softmax:", softmax_by_the_book(logits).tolist())

# %% [markdown]
r"""
To float precision, the softmax of (1000, 0) is (1, 0). The result is in range, but an intermediate result, $e^{1000}$, is not, and inf / inf is nan. In the last line, both exponentials underflow, and 0 / 0 is nan.

Multiply the numerator and the denominator by $e^{-c}$:

$$\frac{e^{z_k}}{\sum_j e^{z_j}} = \frac{e^{z_k - c}}{\sum_j e^{z_j - c}} \quad\text{for every number } c$$

Choose $c = \max_j z_j$. The largest exponent is then 0, so nothing overflows and the sum is at least 1. In float32, terms that underflow are smaller than $1.2 \cdot 10^{-38}$ and do not change such a sum. The same shift works for the logarithm of the sum, the **log-sum-exp**:

$$\log \sum_j e^{z_j} = c + \log \sum_j e^{z_j - c}$$

Both shifted forms are accurate (Blanchard, Higham and Higham 2021).

Drag the three logits along the number line. Inside the blue window, exp is neither 0 nor inf; in the strip at its left edge, exp is subnormal. How many logits have to leave the window on the right before softmax *by the book* fails, and how many on the left? When does only its logarithm fail?
"""

# %%
explore_logits([92, 91, 89])

# %% [markdown]
"""
<details><summary>How many logits it takes</summary>

On the right, one is enough; even if no exponential overflows, their sum can. On the left, softmax is nan only if all three exponentials are 0, but a logit in the strip costs digits. Its logarithm is −inf as soon as one probability is 0.
</details>

In a batch, each row has its own maximum and sum; a softmax over the whole batch is a different function:
"""

# %%
batch = torch.tensor([[1000.0, 999.0], [1.0, 0.0]])
over_everything = torch.softmax(batch.flatten(), dim=0).view(2, 2)
print("softmax over the batch: its rows sum to", over_everything.sum(dim=1).tolist())
print("softmax of each row:    its rows sum to", torch.softmax(batch, dim=1).sum(dim=1).tolist())

# %% [markdown] exercise="softmax" points=4 minutes=15 difficulty=1
"""
### Softmax along a dimension

Attention layers compute a softmax along one dimension of a larger tensor. Write a softmax that is accurate for logits of any magnitude.

`softmax(logits, dim) -> Tensor`

- **In** `logits`: a tensor of any shape and any floating-point dtype, float16 and bfloat16 included. Some logits may be `-inf`, but every slice along `dim` has a finite one and at most 10,000 entries. `dim`: an integer; negative values count from the back.
- **Out**: a tensor of the same shape and dtype that sums to 1 along `dim`; a logit of `-inf` has probability 0. Gradients flow through the result, and `logits` is left unchanged.
- **Limits**: do not use torch's own `softmax`, `log_softmax` or `logsumexp`, nor related ones such as `logaddexp`, `cross_entropy`, attention or `torch.distributions`. The check searches your code for them.

`softmax(torch.tensor([[1000.0, 1000.0], [0.0, -math.inf]]), dim=1)` returns `tensor([[0.5, 0.5], [1.0, 0.0]])`.

<!-- hint: Which two numbers does the formula take from a whole row? Along which dimension must each be computed? -->
<!-- hint: The maximum and the sum have one entry per row. To broadcast against the logits, they must keep the reduced dimension, with size 1. -->
<!-- hint: `logits.amax(dim=..., keepdim=...)` is the shift. Subtract it, take exp, then divide by the sum over the same dim with the same keepdim. -->
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
with check.property("agrees with the formula on ordinary logits"):
    logits = check.draw.normal(3, 5)
    got = check.call(softmax, logits, dim=1)
    check.close(got, torch.softmax(logits.double(), dim=1).float())
    for dtype, tolerance in ((torch.float16, 0.02), (torch.bfloat16, 0.1)):
        half = logits.to(dtype)
        got = check.call(softmax, half, dim=1)
        expected = torch.softmax(half.double(), dim=1).to(dtype)
        check.close(got, expected, rtol=tolerance, what=f"for {dtype}")
with check.property("works along every dim, short or long, counted from the front or the back"):
    logits = check.draw.normal(2, 3, 5)
    for dim in (0, 1, 2, -1, -2):
        got = check.call(softmax, logits, dim=dim)
        check.close(got, torch.softmax(logits.double(), dim=dim).float(), what=f"dim={dim}")
    got = check.call(softmax, logits[0, 1], dim=0)
    check.close(got, torch.softmax(logits[0, 1].double(), dim=0).float(), what="for a vector")
    logits = check.draw.normal(1, 4)
    got = check.call(softmax, logits, dim=1)
    check.close(got, torch.softmax(logits.double(), dim=1).float(), what="for a single row")
    # Equal logits: a sum that is rounded to a half after each of them stops growing.
    for dtype in (torch.float16, torch.bfloat16):
        logits = check.draw.normal(1, 2).to(dtype).repeat(3000, 1)
        got = check.call(softmax, logits, dim=0)
        expected = torch.full((3000, 2), 1 / 3000, dtype=dtype)
        check.close(got, expected, rtol=0.1, atol=0.0, what=f"for 3,000 equal logits of {dtype}")
with check.property(
    "logits in the thousands and millions give accurate probabilities, no nan", weight=3
):
    logits = check.draw.normal(4, 7, std=3.0)
    logits = logits + torch.tensor([1000.0, -1000.0, 0.0, 300.0])[:, None]
    logits[2, 4] = 1000.0
    got = check.call(softmax, logits, dim=1)
    check.close(got, torch.softmax(logits.double(), dim=1).float(), rtol=3e-4)
    logits = check.draw.normal(5, 3) + torch.tensor([1e6, -1e6, 3e6, -4e6, 1e7])[:, None]
    got = check.call(softmax, logits, dim=1)
    expected = torch.softmax(logits.double(), dim=1).float()
    check.close(got, expected, rtol=1e-4, what="for logits in the millions")
    logits = check.draw.normal(3, 5, std=3.0, dtype=torch.float64)
    logits = logits + torch.tensor([20_000.0, -20_000.0, -5_000.0])[:, None]
    got = check.call(softmax, logits, dim=1)
    check.close(got, torch.softmax(logits, dim=1), rtol=1e-8, what="in float64")
    for dtype, tolerance, large in ((torch.float16, 0.02, 6e4), (torch.bfloat16, 0.1, 1e30)):
        logits = check.draw.normal(5, 7, std=3.0)
        logits = logits + torch.tensor([1000.0, -1000.0, large, -large, 0.0])[:, None]
        logits[4, check.draw.integer(0, 7)] = large
        half = logits.to(dtype)
        got = check.call(softmax, half, dim=1)
        expected = torch.softmax(half.double(), dim=1).to(dtype)
        check.close(got, expected, rtol=tolerance, what=f"for logits up to {large:g} in {dtype}")
    logits = check.draw.normal(3, 5)
    logits[:, 1] -= 40.0
    logits[1, 3] -= 60.0
    got = check.call(softmax, logits, dim=1)
    expected = torch.softmax(logits.double(), dim=1).float()
    check.close(got, expected, rtol=1e-4, atol=0.0, what="for logits 40 and 60 below the others")
with check.property("is written without torch's own softmax"):
    logits = check.draw.normal(4, 5)
    got = check.call(softmax, logits, dim=1)
    check.close(got, torch.softmax(logits.double(), dim=1).float())
    check.written_without("*softmax*", "*softmin*", "*log*sumexp*", "*logaddexp*")
    check.written_without("*cross_entropy*", "*crossentropy*", "*attention*", "*transformer*")
    check.written_without("*distributions*", "*categorical*", "*multinomial*", "*to_probs*")
with check.property("a logit of -inf gets probability 0"):
    logits = check.draw.normal(6, 4)
    logits[check.draw.integer(0, 6), 1:3] = -math.inf
    got = check.call(softmax, logits, dim=-1)
    check.close(got, torch.softmax(logits.double(), dim=-1).float())
    lowest = torch.finfo(torch.float32).min
    logits = torch.tensor([-2e4, -1e10, lowest])[:, None] + torch.zeros(4)
    logits[:, 1], logits[2, 3], logits[2, 0] = -math.inf, -math.inf, -math.inf
    got = check.call(softmax, logits, dim=1)
    expected = torch.softmax(logits.double(), dim=1).float()
    check.close(got, expected, what="beside very negative logits")


def same_gradient(logits, dim):
    leaf = logits.clone().requires_grad_(True)
    grad_output = check.draw.normal(*logits.shape, dtype=logits.dtype)
    expected = torch.softmax(leaf, dim=dim)
    (slope,) = torch.autograd.grad(expected, leaf, grad_output)
    got = check.call(probes.gradient, softmax, logits, dim=dim, grad_output=grad_output)
    check.close(got["output"], expected.detach(), rtol=1e-8)
    check.close(got["gradient"], slope, rtol=1e-7, atol=1e-9, what="the gradient")


with check.property("the gradient is right, and float64 stays float64", weight=0.5):
    logits = check.draw.normal(3, 6, std=2.0, dtype=torch.float64) + 800
    logits[1, 2] = -math.inf
    same_gradient(logits, 1)
with check.property("leaves the logits as they are"):
    logits = check.draw.normal(check.draw.integer(2, 7), 7)
    seen = check.call(probes.after_call, softmax, logits, 1)
    check.close(seen["output"], torch.softmax(logits.double(), dim=1).float())
    check.equal(seen["arguments"][0], logits, what="the logits after the call")
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property(
    "the gradient is right along other dimensions, with logits of -inf", weight=0.5
):
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

The loss needs the logarithm of the softmax:
"""

# %%
logits = torch.tensor([1000.0, 0.0])
probabilities = torch.softmax(logits, dim=0)
print("softmax:", probabilities.tolist(), "its logarithm:", probabilities.log().tolist())
losses = {}
for labels in ([0.5, 0.5], [1.0, 0.0]):
    losses[labels[0]] = -(torch.tensor(labels) * probabilities.log()).sum().item()

# %% folded="Predict: certain and right"
predict(
    "08/certain-and-right",
    "Suppose a model is certain and right: the probabilities are (1, 0) and the labels are (1, 0). What does `-(labels * probabilities.log()).sum()` return?",
    f"{losses[1.0]:g}",
    "The second term is 0 · log 0 = 0 · (−inf), which is nan: a label of 0 does not remove its term.",
    choices=("0", "inf", "nan"),
)

# %%
print("labels (0.5, 0.5):", losses[0.5])
print("labels (1, 0):    ", losses[1.0])

# %% [markdown]
r"""
Softmax has lost what the logarithm needs: the second probability, $e^{-1000}$, is stored as 0. Simplify before you compute:

$$\log p_k = \log \frac{e^{z_k}}{\sum_j e^{z_j}} = z_k - \log \sum_j e^{z_j} = (z_k - c) - \log \sum_j e^{z_j - c}$$

In the last form, the logarithm is small, and so is its rounding error. `torch.log_softmax` computes this form. A loss that computes softmax and its logarithm as one simplified operation is called **fused**: `cross_entropy` computes `log_softmax`, negates the label-weighted sum (or one entry if the label is a class), and averages over the rows.
"""

# %% folded="Drawing: two programs for one loss"
show_drawing(
    "08/two-programs",
    number="8.3",
    caption="The loss for logits (1000, 0) and labels (0.5, 0.5). Softmax returns 1 and 0, and the logarithm cannot recover what was lost. `log_softmax` keeps −1000 itself, not its exponential.",
    alt="Two rows of boxes. Above, separate steps: logits 1000 and 0; softmax gives 1 and 0; log gives 0 and minus infinity; the loss is inf. Below, fused: logits 1000 and 0; subtracting the largest gives 0 and minus 1000; subtracting log-sum-exp, "
    "which is 0, changes neither; the loss is 500.",
)

# %%
logits = torch.tensor([1000.0, 0.0], requires_grad=True)
loss = -(torch.tensor([0.5, 0.5]) * torch.log_softmax(logits, dim=0)).sum()
(gradient,) = torch.autograd.grad(loss, logits)
print("loss:", loss.item(), "gradient:", gradient.tolist())

# %% [markdown]
r"""
One case remains: a logit may be $-\infty$ on purpose, to rule out a class. Then $\log p = -\infty$ is right, but a label of 0 multiplies it, and $0 \cdot (-\infty)$ is nan again:
"""

# %%
ruled_out = torch.tensor([[2.0, -math.inf]])
as_probabilities = functional.cross_entropy(ruled_out, torch.tensor([[1.0, 0.0]]))
as_class = functional.cross_entropy(ruled_out, torch.tensor([0]))
print("labels as probabilities:", as_probabilities.item(), "as a class:", as_class.item())

# %% [markdown]
r"""
Information theory defines $0 \log 0$ as 0, the limit of $p \log p$ as $p \to 0$. IEEE arithmetic sees only the two factors, so your program must enforce this convention.
"""

# %% [markdown] exercise="soft-cross-entropy" points=4 minutes=20 difficulty=2
r"""
### Cross entropy with soft labels

Some models learn from soft labels, such as another model's probabilities. A row that only pads a batch has no label at all. Compute the loss of each row, $-\sum_k y_k \log p_k$, where $p$ is the softmax of its logits.

`soft_cross_entropy(logits, labels) -> Tensor`

- **In**: two tensors of shape (rows, classes), both float32 or both float64. Labels are at least 0; a row of labels need not sum to 1 and may be all 0. Logits may have any magnitude or be `-inf`; at least one in each row is finite.
- **Out**: one loss per row, shape (rows,), of the same dtype, accurate even for logits in the millions. A label of 0 costs nothing, even if the logit is `-inf`. A positive label with a logit of `-inf` costs inf. The gradient with respect to the logits is never nan.
- All of torch is **allowed**, but no single function does all of this.

`soft_cross_entropy(torch.tensor([[1000.0, 0.0, -math.inf]]), torch.tensor([[0.5, 0.5, 0.0]]))` returns `tensor([500.])`.

<!-- hint: Which step of the computation turns a gap of a thousand between two logits into inf? And which step turns a label of exactly 0 into nan? -->
<!-- hint: `log_softmax` takes care of the first. For the second, let the label decide which terms count, before or after the product, but before the sum. -->
<!-- hint: Where the label is 0, replace the logarithm with 0, using `torch.where` or `masked_fill`, then multiply, sum over the last dimension and flip the sign. -->
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
with check.property("labels need not sum to 1, and a row of labels may be all 0"):
    logits, labels = check.draw.normal(5, 3), check.draw.uniform(5, 3, low=0.1, high=2.0)
    labels[check.draw.integer(0, 5)] = 0.0
    got = check.call(soft_cross_entropy, logits, labels)
    expected = functional.cross_entropy(logits.double(), labels.double(), reduction="none")
    check.close(got, expected.float() + 0.0)  # makes 0.0 of -0.0
    for rows, classes, what in ((1, 5, "for a single row"), (1, 1, "for one row and one class")):
        logits = check.draw.normal(rows, classes)
        labels = check.draw.uniform(rows, classes, low=0.1)
        got = check.call(soft_cross_entropy, logits, labels)
        expected = functional.cross_entropy(logits.double(), labels.double(), reduction="none")
        check.close(got, expected.float(), what=what)
with check.property(
    "logits a thousand apart or in the millions give accurate, finite losses", weight=2
):
    logits = check.draw.normal(6, 4, std=1000.0)
    labels = check.draw.uniform(6, 4, low=0.1, high=0.5)
    got = check.call(soft_cross_entropy, logits, labels)
    expected = functional.cross_entropy(logits.double(), labels.double(), reduction="none")
    check.close(got, expected.float(), rtol=1e-4)
    logits = check.draw.normal(6, 4) + torch.tensor([1e6, -1e6, 3e6, -4e6, 1e7, 1e4])[:, None]
    got = check.call(soft_cross_entropy, logits, labels)
    expected = functional.cross_entropy(logits.double(), labels.double(), reduction="none")
    check.close(got, expected.float(), rtol=1e-4, what="for logits in the millions")
with check.property("a class with label 0 still counts in the softmax"):
    logits, labels = check.draw.normal(3, 6), check.draw.uniform(3, 6, low=0.1)
    logits[:, 2], labels[:, 2] = 4.0, 0.0
    got = check.call(soft_cross_entropy, logits, labels)
    expected = functional.cross_entropy(logits.double(), labels.double(), reduction="none")
    check.close(got, expected.float())
with check.property("a label of 0 with a logit of -inf costs nothing", weight=2):
    logits, labels = check.draw.normal(3, 5), check.draw.uniform(3, 5, low=0.1)
    logits[:, 1:3], labels[:, 1:3] = -math.inf, 0.0
    got = check.call(soft_cross_entropy, logits, labels)
    kept = [0, 3, 4]
    expected = functional.cross_entropy(
        logits[:, kept].double(), labels[:, kept].double(), reduction="none"
    )
    check.close(got, expected.float())
    logits[:, kept] = torch.tensor([-2e4, -1e10, 0.0])[:, None]
    logits[2, kept], labels[2, kept] = -math.inf, 0.0
    logits[2, 3], labels[2, 3] = torch.finfo(torch.float32).min, 1.0
    expected = labels.sum(dim=1) * torch.tensor([3.0, 3.0, 1.0]).log()
    got = check.call(soft_cross_entropy, logits, labels)
    check.close(got, expected, what="beside very negative logits")
with check.property("a positive label with a logit of -inf costs inf, in its own row only"):
    logits, labels = check.draw.normal(4, 3), check.draw.uniform(4, 3, low=0.1)
    expected = functional.cross_entropy(logits.double(), labels.double(), reduction="none")
    row = check.draw.integer(0, 4)
    logits[row, 2], labels[row, 2], expected[row] = -math.inf, 1e-20, math.inf
    got = check.call(soft_cross_entropy, logits, labels)
    check.close(got, expected.float())
    got = check.call(probes.gradient, soft_cross_entropy, logits, labels)
    slope = got["gradient"]
    check.true(slope is not None, "no gradient reaches the logits")
    check.true(not slope.isnan().any(), "nan in the gradient with respect to the logits")


def same_gradient(rows, classes, std):
    """Compare the gradient, where some classes have the logit -inf and the label 0."""
    logits = check.draw.normal(rows, classes, std=std, dtype=torch.float64)
    labels = check.draw.uniform(rows, classes, low=0.1, dtype=torch.float64)
    logits[:, 0], labels[:, 0] = logits.amax(dim=1) + 1.0, 0.0
    labels[check.draw.integer(0, rows)] = 0.0
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


with check.property("the gradient is right and finite, even where a logit is -inf", weight=0.5):
    same_gradient(5, 6, std=20.0)
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("the gradient is right for logits hundreds apart", weight=0.5):
    same_gradient(6, 9, std=300.0)
### END HIDDEN TESTS
check.score()

# %% [markdown]
r"""
## The gradient of the fused loss

In $L = -\sum_k y_k \left(z_k - \log \sum_j e^{z_j}\right)$, the derivative of the log-sum-exp with respect to $z_i$ is $p_i$. If the labels $y$ sum to 1, then

$$\frac{\partial L}{\partial z_i} = p_i - y_i$$

With $p = (1, 0)$ and $y = (0.5, 0.5)$, this is $(0.5, -0.5)$, as autograd found. No entry exceeds 1 in magnitude, whatever the logits are. The unfused program multiplies $1/p$, which can be inf, by $p$, which can be 0.
"""

# %% [markdown] exercise="cross-entropy-gradient" points=4 minutes=20 difficulty=2
"""
### The gradient of cross entropy, by hand

The formula above holds for labels that sum to 1. With pen and paper, derive the one for arbitrary labels.

`cross_entropy_gradient(logits, labels) -> Tensor`

- **In**: as in the previous exercise, except that a logit of `-inf` always has label 0.
- **Out**: the gradient, with respect to the logits, of the *sum* of the losses of all rows; a tensor of the logits' shape and dtype.
- **Limits**: `torch.softmax` is allowed. Autograd is not, in any form: `backward`, `grad`, `torch.func`, torch's own backward functions. The check watches whether autograd records anything, and searches your code for `torch.autograd` and what leaves no record. Names of your own are free.

`cross_entropy_gradient(torch.tensor([[1000.0, 0.0]]), torch.tensor([[0.5, 0.5]]))` returns `tensor([[0.5, -0.5]])`.

<!-- hint: Write the loss as two sums: one with the labels times the logits, one with the labels times the log-sum-exp. Which of them is simpler when the labels sum to 1? -->
<!-- hint: The log-sum-exp does not depend on k, so the second sum is the sum of the row's labels times the log-sum-exp, whose derivative with respect to a logit is that logit's probability. -->
<!-- hint: For each row: the probabilities times the sum of the row's labels (`keepdim=True`), minus the labels. -->
"""


# %% solution="cross-entropy-gradient"
def cross_entropy_gradient(logits, labels):
    """Return the gradient, with respect to ``logits``, of the summed cross entropy, shape (rows, classes)."""
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


with check.property("agrees with autograd for labels that sum to 1"):
    logits = check.draw.normal(4, 3)
    labels = torch.softmax(check.draw.normal(4, 3), dim=1)
    got = check.call(cross_entropy_gradient, logits, labels)
    check.close(got, gradient_by_autograd(logits, labels))
with check.property("agrees with autograd for labels that do not sum to 1"):
    logits, labels = check.draw.normal(5, 6), check.draw.uniform(5, 6, low=0.2, high=2.0)
    labels[check.draw.integer(0, 5)] = 0.0
    got = check.call(cross_entropy_gradient, logits, labels)
    check.close(got, gradient_by_autograd(logits, labels), rtol=1e-4, atol=1e-5)
    for rows, classes, what in ((1, 4, "for a single row"), (5, 1, "for a single class")):
        logits = check.draw.normal(rows, classes)
        labels = check.draw.uniform(rows, classes, low=0.1)
        got = check.call(cross_entropy_gradient, logits, labels)
        check.close(got, gradient_by_autograd(logits, labels), atol=1e-5, what=what)
with check.property("a class with label 0 has a gradient, too"):
    logits, labels = check.draw.normal(4, 5), check.draw.uniform(4, 5, low=0.1, high=2.0)
    labels[:3, 1:3], labels[3] = 0.0, torch.eye(5)[check.draw.integer(0, 5)]
    got = check.call(cross_entropy_gradient, logits, labels)
    check.close(got, gradient_by_autograd(logits, labels), rtol=1e-4, atol=1e-5)
with check.property("is right for logits in the thousands and for -inf, in float32 and float64"):
    logits = check.draw.normal(3, 7, std=1000.0)
    labels = check.draw.uniform(3, 7, high=0.4)
    got = check.call(cross_entropy_gradient, logits, labels)
    check.close(got, gradient_by_autograd(logits, labels), rtol=3e-4, atol=1e-5)
    logits = check.draw.normal(5, 3) + torch.tensor([1e6, -1e6, 3e6, -4e6, 1e7])[:, None]
    labels = check.draw.uniform(5, 3, low=0.1)
    got = check.call(cross_entropy_gradient, logits, labels)
    expected = gradient_by_autograd(logits, labels)
    check.close(got, expected, rtol=1e-4, atol=1e-5, what="for logits in the millions")
    logits = check.draw.normal(4, 6, std=2.0, dtype=torch.float64)
    logits = logits + torch.tensor([0.0, -3e4, 900.0, -1e10])[:, None]
    labels = check.draw.uniform(4, 6, low=0.1, dtype=torch.float64)
    expected = torch.zeros_like(logits)
    expected[:, 1:] = gradient_by_autograd(logits[:, 1:], labels[:, 1:])
    logits[:, 0], labels[:, 0] = -math.inf, 0.0
    logits[3, 1:], labels[3, 1:], expected[3] = -math.inf, 0.0, 0.0
    logits[3, 2], labels[3, 2] = torch.finfo(torch.float64).min, 1.5
    got = check.call(cross_entropy_gradient, logits, labels)
    check.close(got, expected, what="with logits of -inf, in float64")
with check.property("is written without autograd"):
    logits = check.draw.normal(4, 5)
    labels = torch.softmax(check.draw.normal(4, 5), dim=1)
    seen = check.call(probes.autograd_watched, cross_entropy_gradient, logits, labels)
    check.close(seen["output"], gradient_by_autograd(logits, labels))
    # What leaves no record: forward mode, torch's own backward functions, and what leads to them.
    check.written_without("*autograd*", "*_backward*", "func", "*functorch*", any_text=False)
    check.written_without("*grad_and_value*", "*make_dual*", "linearize", any_text=False)
    check.written_without("*jac*", "*hess*", "*vjp*", "*jvp*", "*hvp*", "*vhp*", any_text=False)
    recorded = "autograd recorded what the function did: this exercise asks you to do without it"
    check.true(not seen["recorded"], recorded)
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("a padded row, with all labels 0, has gradient 0"):
    logits, labels = check.draw.normal(5, 4), check.draw.uniform(5, 4, low=0.1, high=3.0)
    labels[check.draw.integer(0, 5)] = 0.0
    got = check.call(cross_entropy_gradient, logits, labels)
    check.close(got, gradient_by_autograd(logits, labels), rtol=1e-4, atol=1e-5)
with check.property("a logit of -inf with label 0 has gradient 0, and float64 stays float64"):
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
### Clamping the logarithm

For two classes, one logit is enough: $z = z_1 - z_0$. Its sigmoid, $\sigma(z) = 1/(1 + e^{-z})$, is the probability of class 1. The loss for label 0 is $-\log(1 - \sigma(z)) = \log(1 + e^{z})$, which is close to $z$ for large $z$. `binary_cross_entropy_with_logits` takes $z$. `binary_cross_entropy` takes the
probability $\sigma(z)$ and, according to [its documentation](https://docs.pytorch.org/docs/stable/generated/torch.nn.BCELoss.html), replaces every logarithm below −100 with −100.
"""


# %% folded="The loss and its gradient, both ways"
def loss_and_gradient(loss_function, logit):
    leaf = torch.tensor([float(logit)], requires_grad=True)
    loss = loss_function(leaf, torch.zeros(1))
    return loss.item(), torch.autograd.grad(loss, leaf)[0].item()


def clamped_loss(logits, labels):
    return functional.binary_cross_entropy(torch.sigmoid(logits), labels)


ways = {
    "clamped": clamped_loss,
    "with logits": functional.binary_cross_entropy_with_logits,
}
clamped = {
    name: [loss_and_gradient(way, logit) for logit in (5, 10, 20, 200)]
    for name, way in ways.items()
}

# %% folded="Predict: a model that is certain and wrong"
predict(
    "08/clamped",
    "The label is 0 and the logit is 20. What is the gradient of the clamped loss with respect to the logit?",
    f"{clamped['clamped'][2][1]:g}",
    "In float32, p = σ(20) is exactly 1, so the sigmoid's derivative, p(1 − p), is 0, and so is the gradient.",
    choices=("1", "0", "100", "nan"),
)

# %% folded="Figure 8.4: the loss of a wrong answer"
line = torch.linspace(0, 60, 241)
figure, (left, right) = new_figure(1, 2, height=3.0)
for (name, way), color in zip(ways.items(), ("vermilion", "blue"), strict=True):
    values = [loss_and_gradient(way, z) for z in line.tolist()]
    for axes, column in ((left, 0), (right, 1)):
        axes.plot(line, [value[column] for value in values], color=COLORS[color], label=name)
left.set(title="Loss, label 0", xlabel="logit (no unit)", ylabel="loss (nats)")
right.set(title="Gradient", xlabel="logit (no unit)", ylabel="gradient")
right.legend(loc="center right")
show(
    figure,
    number="8.4",
    caption="Above a logit of about 17, the clamped loss is 100 and its gradient is 0.",
    alt="Two plots against the logit, for label 0. Left, the loss with logits soon becomes a straight line of slope 1; the clamped loss "
    "follows it up to about 17, then jumps to 100 and stays flat. Right, the gradient with logits rises from 0.5 to 1 and stays there; that of the clamped loss falls to 0.",
)

# %%
print("logit        5          10          20           200  (loss, gradient)")
for name, values in clamped.items():
    print(f"{name:<12}", "  ".join(f"{loss:.1f}, {slope:.2f}" for loss, slope in values))

# %% [markdown]
r"""
The model is certain and wrong, and it learns nothing from its error. Clamping only made the printed number finite; the digits were lost one step earlier, in the sigmoid. Pass logits to the loss, not probabilities.
"""

# %% [markdown]
"""
## Cancellation: small differences of large numbers

Cancellation produces neither inf nor nan. Add a small number to 1, then subtract 1:
"""

# %%
print("      x   (1 + x) - 1    log(1 + x)      log1p(x)    exp(x) - 1      expm1(x)")
for value in (1e-3, 1e-5, 1e-7, 1e-9):
    x = torch.tensor(value)
    row = ((1 + x) - 1, (1 + x).log(), x.log1p(), x.exp() - 1, x.expm1())
    print(f"{value:>7.0e}" + "".join(f"{entry.item():>14.4e}" for entry in row))

# %% [markdown]
r"""
The sum $1 + x$ is rounded to a multiple of $2^{-23} \approx 1.2 \cdot 10^{-7}$, so a small $x$ keeps few digits or none. The subtraction that follows is exact and only *shows* the damage: the leading digits cancel, and the rounding error remains. This is
**catastrophic cancellation** (Goldberg 1991). `log1p(x)` and `expm1(x)` compute $\log(1 + x)$ and $e^x - 1$ without rounding a number near 1, so they keep their digits.

The roots of $x^2 - bx + 1 = 0$ have the product 1, so the small root is 1 divided by the large one:

$$x_{\text{small}} = \frac{b - \sqrt{b^2 - 4}}{2} = \frac{2}{b + \sqrt{b^2 - 4}}$$

For large $b$, the first form subtracts two nearly equal numbers; the second adds them (Higham 2002, section 1.8).
"""

# %%
print("      b         first form        second form")
for value in (10.0, 1_000.0, 10_000.0):
    b = torch.tensor(value)
    root = (b * b - 4).sqrt()
    print(f"{value:>7.0f}{((b - root) / 2).item():>19.4g}{(2 / (b + root)).item():>19.4g}")

# %% [markdown]
r"""
At $b = 10000$, the first form returns 0: $b^2 - 4$ is rounded to $10^8$, because float32 numbers are 8 apart there.

The variance is the mean squared distance from the mean. It equals $E[x^2] - E[x]^2$, a tempting form because it takes only one pass over the data.
"""

# %% folded="Measure: the variance of three numbers, by both forms"
x = torch.tensor([10_000.0, 10_001.0, 10_002.0])
one_pass = ((x * x).mean() - x.mean() ** 2).item()
two_passes = ((x - x.mean()) ** 2).mean().item()

# %% folded="Predict: a variance in float32"
predict(
    "08/one-pass",
    "The variance of 10000, 10001 and 10002 is 2/3. What does `(x * x).mean() - x.mean() ** 2` return in float32?",
    f"{one_pass:g}",
    "Near 10⁸, float32 numbers are 8 apart. Both terms are rounded to the same multiple of 8.",
    choices=("0.667", "0.5", "0", "a negative number"),
)

# %% folded="Figure 8.5: the error of two forms of the variance"
generator = torch.Generator().manual_seed(0)
noise = torch.randn(10_000, generator=generator, dtype=torch.float64)
offsets = [10 ** (k / 4) for k in range(25)]
errors = {"E[x²] − E[x]²": [], "mean of (x − E[x])²": []}
for offset in offsets:
    shifted = (noise + offset).float()
    true_variance = shifted.double().var(correction=0).item()
    found = (
        (shifted * shifted).mean() - shifted.mean() ** 2,
        ((shifted - shifted.mean()) ** 2).mean(),
    )
    for name, variance in zip(errors, found, strict=True):
        errors[name].append(max(abs(variance.item() / true_variance - 1), 1e-9))
figure, axes = new_figure()
for (name, values), color, marker in zip(errors.items(), ("vermilion", "blue"), "os", strict=True):
    axes.loglog(offsets, values, marker, linestyle="-", color=COLORS[color], ms=4, label=name)
axes.axhline(1, color=COLORS["black"], linestyle=":")
axes.text(1.1, 1.6, "above this line, no digit is correct", va="bottom")
axes.set(
    title="Variance of 10,000 numbers with standard deviation 1, in float32",
    xlabel="mean of the numbers (no unit)",
    ylabel="relative error",
)
axes.legend(loc="upper left")
show(
    figure,
    number="8.5",
    caption="The error of the one-pass form grows with the square of the mean. On the dotted line, the computed variance is 0 or about twice the true one; above the line, it is even larger, or negative. The error of the other form rises only once the mean's rounding error is noticeable.",
    alt="Relative error of the variance against the mean of the numbers, both axes logarithmic. "
    "The error of the one-pass form grows with the square of the mean; from a few thousand on, no digit is correct, "
    "and at a million the error is above a hundred thousand. The error of the other form stays at a millionth or "
    "less up to a mean of ten thousand and rises to about a hundredth at a million.",
)

# %%
print(f"E[x^2] - E[x]^2: {one_pass:.4f}, mean of (x - E[x])^2: {two_passes:.4f}")

# %% [markdown]
r"""
## Variance in one pass

The stable form needs the mean first, so it takes two passes. A stream of data allows only one. Keep the count $n$, the mean $\mu$, and the sum of squared distances from the mean, $M = \sum (x - \mu)^2$. Two groups $A$ and $B$ can then be merged without another look at the data (Welford 1962, for one new number; Chan, Golub and LeVeque 1983). With $\delta = \mu_B - \mu_A$ and $n = n_A + n_B$:

$$\mu = \mu_A + \delta \, \frac{n_B}{n} \qquad\qquad M = M_A + M_B + \delta^2 \, \frac{n_A n_B}{n}$$
"""

# %% folded="Drawing: two groups become one"
show_drawing(
    "08/merge",
    number="8.6",
    caption="Each group measures distances from its own mean. The last term of M accounts for the move to the combined mean. The merge squares only δ, the difference of the means, never a mean.",
    alt="A number line with two groups of dots. Group A has 3 dots around its mean, group B has 2 dots around its own mean, to the right. "
    "The combined mean lies between them, nearer to A. An arrow marks the difference delta between the two means.",
)

# %% [markdown] exercise="running-variance" points=5 minutes=20 difficulty=2
"""
### Variance in one pass

A data set that does not fit in memory arrives in blocks, perhaps at several processes. Write the update for one more block of rows.

`merge_moments(count, mean, m2, batch) -> (count, mean, m2)`

- **In** `count`: the number of rows so far, a Python int. `mean`, `m2`: the mean of each feature so far and the sum of squared distances from it, tensors of shape (features,) and the batch's dtype. `batch`: the next block, of shape (rows, features), at least one row, float32 or float64. The first call gets a count of 0 and tensors of zeros. Do not modify the arguments.
- **Out**: count, mean and m2 for all rows so far, as a tuple of an int and two tensors of the batch's dtype. For data with a standard deviation of 1, `m2 / count` is close to the variance: in float32, within 5 percent after a thousand blocks, even for a mean of a hundred thousand; in float64, within a relative error of 1e-7, even for a mean of a million.
- **Limits**: keep nothing between calls; another process may have merged the earlier blocks.

With `zeros = torch.zeros(1)` and `batch = torch.tensor([[1.0], [3.0]])`, `merge_moments(0, zeros, zeros, batch)` returns `(2, tensor([2.]), tensor([2.]))`.

<!-- hint: What are the three numbers n, mean and M of the new block alone? Which of them takes two passes, and why is that allowed here? -->
<!-- hint: The block is in memory, so its mean and sum of squared distances can be computed in the stable way. Then merge group A (the past) with group B (the block). -->
<!-- hint: Let delta be the block's mean minus the old one. The new mean is the old one plus `delta * rows / total`. The new m2 is the sum of the two m2, plus `delta**2 * count * rows / total`. -->
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
    """Merge the blocks into a state that starts with the first ``known`` rows."""
    features, dtype = data.shape[1], data.dtype
    state = (0, torch.zeros(features, dtype=dtype), torch.zeros(features, dtype=dtype))
    if known:
        variance, mean = torch.var_mean(data[:known].double(), dim=0, correction=0)
        state = (known, mean.to(dtype), (known * variance).to(dtype))
    for block in data[known:].split(sizes):
        state = check.call(merge_moments, *state, block)
        check.true(type(state) is tuple and len(state) == 3, "expected a tuple of three")
    return state


with check.property("three blocks of different sizes give the mean and variance of the whole"):
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
    data = check.draw.normal(6, 1, mean=2.0)
    count, mean, m2 = after_all_blocks(data, [1, 2, 3])
    check.close(mean, data.double().mean(dim=0).float(), atol=1e-5, what="mean of one feature")
    expected = (6 * data.double().var(dim=0, correction=0)).float()
    check.close(m2, expected, rtol=1e-4, what="m2 of one feature")
with check.property("the variance keeps its digits despite a large mean, in float32 and float64"):
    for size, dtype, tolerance in (
        (1e4, torch.float32, 1e-2),
        (1e5, torch.float32, 5e-2),
        (1e6, torch.float64, 1e-7),
    ):
        data = check.draw.normal(300, 5, mean=size, dtype=dtype)
        count, mean, m2 = after_all_blocks(data, [100, 1, 60, 139])
        check.close(count, 300, what="count")
        expected = data.double().mean(dim=0).to(dtype)
        check.close(mean, expected, rtol=1e-3 * tolerance, what=f"the mean, near {size:g}")
        expected = data.double().var(dim=0, correction=0).to(dtype)
        what = f"m2 / count, with a mean of {size:g}"
        check.close(m2 / count, expected, rtol=tolerance, what=what)
    data = check.draw.normal(50_000, 2, mean=1e5, equal_sizes=True)
    # One message to the student's process: a thousand would take its time on a busy machine.
    blocks, start = list(data.split(50)), [0, torch.zeros(2), torch.zeros(2)]
    count, mean, m2 = check.call(probes.fold, merge_moments, start, blocks)[-1]
    expected = data.double().var(dim=0, correction=0).float()
    # A fold's arguments are told by names of its own.
    what = "m2 / count after 1,000 blocks of 50 rows (state is count, mean, m2; items are batches)"
    check.close(m2 / count, expected, rtol=0.05, what=what)
with check.property("it continues from moments of rows that this process has never seen", weight=2):
    data = check.draw.normal(300, 5, mean=1e4)
    other = check.draw.normal(101, 5)  # as many rows as are known of the data
    after_all_blocks(other, [61, 40])
    count, mean, m2 = after_all_blocks(data, [60, 139], known=101)
    check.close(count, 300, what="count")
    check.close(mean, data.double().mean(dim=0).float(), rtol=1e-5, what="mean")
    expected = data.double().var(dim=0, correction=0)
    check.close(m2 / count, expected.float(), rtol=1e-2, what="m2 / count")
    # Rows that equal the mean as it was returned, rounded, add nothing to m2.
    first = torch.tensor([[131_072.0], [131_072.0 + 2**-6]])
    count, mean, m2 = after_all_blocks(first, [2])
    state = check.call(merge_moments, count, mean, m2, mean.expand(2, 1))
    check.true(type(state) is tuple and len(state) == 3, "expected a tuple of three")
    check.close(state[2], m2, atol=0.0, what="m2 after two rows that equal the mean handed over")
with check.property(
    "the arguments are not modified, so a repeated call returns the same result", weight=0.5
):
    data = check.draw.normal(12, 3, mean=3.0)
    variance, mean = torch.var_mean(data[:5], dim=0, correction=0)
    both = check.call(probes.called_twice, merge_moments, 5, mean, 5 * variance, data[5:])
    for got, what in zip(both, ("", " of the second call"), strict=True):
        check.true(type(got) is tuple and len(got) == 3, "expected a tuple of three")
        check.close(got[1], data.double().mean(dim=0).float(), atol=1e-5, what="mean" + what)
        expected = 12 * data.double().var(dim=0, correction=0)
        check.close(got[2], expected.float(), rtol=1e-4, what="m2" + what)
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("the variance keeps its first digits with a mean of minus a hundred thousand"):
    data = check.draw.normal(400, 3, mean=-1e5)
    count, mean, m2 = after_all_blocks(data, [1, 150, 49, 200])
    check.close(count, 400, what="count")
    expected = data.double().var(dim=0, correction=0)
    check.close(m2 / count, expected.float(), rtol=0.05, what="m2 / count")
with check.property("a result in float64 has the precision of float64"):
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

The backward pass can leave the range, too. `torch.where` seems to protect against the logarithm of 0, and it does protect the value:
"""


# %% folded="Measuring tool: a function's values and gradients"
def rounded(tensor):
    """Return the values of ``tensor`` as lists, to two decimals."""
    if tensor.ndim == 0:
        return round(tensor.item(), 2) + 0.0  # makes 0.0 of -0.0
    return [rounded(part) for part in tensor]


def value_and_gradient(function, points):
    leaf = torch.tensor(points, requires_grad=True)
    values = function(leaf)
    (gradient,) = torch.autograd.grad(values.sum(), leaf)
    return rounded(values), rounded(gradient)


# %%
points = [0.0, -1.0, 4.0]
found = {
    "log": value_and_gradient(lambda x: torch.where(x > 0, x.log(), 0.0), points),
    "1/x": value_and_gradient(lambda x: torch.where(x > 0, 1 / x, 0.0), points),
}
print("values at", points, {name: values for name, (values, _) in found.items()})

# %% folded="Predict: the gradient behind where"
predict(
    "08/where",
    "At x = 0, `torch.where(x > 0, x.log(), 0.0)` returns the constant 0.0. What is the gradient with respect to x there?",
    f"{found['log'][1][0]:g}",
    "The logarithm receives the gradient 0 and multiplies it by its derivative, 1/0 = inf; 0 · inf is nan.",
    choices=("0", "inf", "nan"),
)

# %%
print("gradients at", points, {name: slopes for name, (_, slopes) in found.items()})

# %% [markdown]
r"""
Both branches are computed before `where` chooses. The backward pass of `where` sends the incoming gradient to the chosen branch and 0 to the other, and the chain rule multiplies this 0 by the derivative of that branch (here $1/x$ or $-1/x^2$), which is infinite at 0. Autograd cannot tell "zero" from "not used"
([pytorch issue 23395](https://github.com/pytorch/pytorch/issues/23395)).

A second `where` must therefore stand *in front of* the function and replace the bad input with a harmless constant. The backward pass of this `where` selects instead of multiplying: $x$ gets the gradient where $x$ was used, and 0 elsewhere. This is the **double where**, here for $\log(1 + e^x)$. For large $x$, $e^x$ overflows, but the result rounds to $x$:
"""


# %%
def softplus(x):
    harmless = torch.where(x < 20, x, 0.0)
    return torch.where(x < 20, harmless.exp().log1p(), x)


points = [-1.0, 10.0, 1000.0]
one_where = value_and_gradient(lambda x: torch.where(x < 20, x.exp().log1p(), x), points)
print("one where:   ", one_where)
print("double where:", value_and_gradient(softplus, points))

# %% folded="Drawing: the backward pass of where"
show_drawing(
    "08/where",
    number="8.7",
    caption="Above: `where` sends the gradient 0 into the branch that it did not choose, and 0 × inf is nan. Below: a second `where` in front of the functions replaces the input, so no derivative is infinite.",
    alt="Two graphs of a backward pass at x = 1000. Above, where sends gradient 1 directly to x and gradient 0 to log1p and on to exp; exp multiplies 0 by its derivative, inf, and nan arrives at x. "
    "Below, the added where has put 0 in place of x; exp multiplies 0 by 1, that where sends 0 to x, and 1 still arrives directly.",
)

# %% [markdown] exercise="safe-log" points=3 minutes=10 difficulty=1
r"""
### A logarithm without nan

One logarithm of 0 can make every weight nan. Write a logarithm that tolerates zeros.

`safe_log(x) -> Tensor`

- **In** `x`: a float32 or float64 tensor of any shape. Entries may be 0, negative, `-inf`, or just above the smallest normal number.
- **Out**: a tensor of the same shape and dtype, $\log x$ where $x > 0$ and 0 elsewhere. Its gradient is $1/x$ where $x > 0$ and exactly 0 elsewhere.

`safe_log(torch.tensor([1.0, 0.0, -math.inf]))` returns `tensor([0., 0., 0.])`, and its gradient is `[1, 0, 0]`.

<!-- hint: What does the logarithm itself receive where x is not positive? -->
<!-- hint: Give it a harmless number at these entries, one where the logarithm and its derivative are finite. -->
<!-- hint: Replace every entry that is not above 0 with 1, then take the logarithm. At these entries, the result is log 1, which is 0 already. -->
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
    for part in (x[:4].view(3, 1, 8), x[1:2], x[1, 2]):
        got = check.call(safe_log, part)
        expected = part.double().where(part > 0, 1.0).log().float()
        check.close(got, expected, what=f"for the shape {tuple(part.shape)}")
with check.property("the gradient is 1/x where x is positive and exactly 0 elsewhere", weight=3):
    x, grad_output = check.draw.normal(6, 4), check.draw.normal(6, 4)
    x[2:4, 1], x[0, 0] = 0.0, 1e-4
    got = check.call(probes.gradient, safe_log, x, grad_output=grad_output)
    expected = torch.zeros_like(x)
    expected[x > 0] = grad_output[x > 0] / x[x > 0]
    check.close(got["gradient"], expected, atol=0.0, what="the gradient")
with check.property("works just above the smallest normal number, and for -inf, in either dtype"):
    for dtype in (torch.float32, torch.float64):
        # Not that number itself: where x is at clamp's limit, torch 2.13's gradient is 1, 2.14's 0.
        limit = torch.tensor(torch.finfo(dtype).smallest_normal, dtype=dtype)
        smallest = limit.nextafter(torch.ones_like(limit)).item()
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
## Attention: the row that sees no keys

In attention, the matrix of scores has a row for each *query* and a column for each *key*; the softmax of a row gives the weights with which the query averages the *values* that belong to the keys. A mask says which keys each query may see. Adding $-\infty$ to a score makes its exponential 0. In a batch whose shorter texts are padded to the length of the longest, a query may have no key to see. Compare two ways to exclude keys:
"""

# %%
scores = torch.tensor([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]], requires_grad=True)
mask = torch.tensor([[True, True, False], [False, False, False]])
lowest = torch.finfo(scores.dtype).min
weights = {
    "-inf": torch.softmax(scores + torch.zeros(2, 3).masked_fill(~mask, -math.inf), dim=1),
    "finfo.min": torch.softmax(scores + torch.zeros(2, 3).masked_fill(~mask, lowest), dim=1),
}

# %% folded="Predict: the most negative number instead of −inf"
predict(
    "08/finfo-min",
    "To avoid nan, a program adds `torch.finfo(dtype).min` instead of −inf. What weights does a query get if the mask hides all three keys from it?",
    {"[0.0, 0.0, 0.0]": "0, 0, 0", "[0.33, 0.33, 0.33]": "1/3, 1/3, 1/3"}.get(
        str(rounded(weights["finfo.min"][1])), "nan, nan, nan"
    ),
    "Added to −3.4·10³⁸, the scores are rounded away, so all three sums are equal. The query attends evenly to exactly the keys that it must not see.",
    choices=("0, 0, 0", "1/3, 1/3, 1/3", "0.09, 0.24, 0.67", "nan, nan, nan"),
)

# %% folded="Figure 8.8: weights of a masked row"
figure, panels = new_figure(1, 2, height=2.5)
for axes, (name, rows) in zip(panels, weights.items(), strict=True):
    shown = rows.detach()
    axes.imshow(shown.nan_to_num(0.0), cmap="Blues", vmin=0, vmax=1.6, aspect="auto")
    for row, column in ((r, c) for r in range(2) for c in range(3)):
        value = shown[row, column].item()
        color = COLORS["vermilion" if value != value else "black"]
        axes.text(column, row, f"{value:.2f}", ha="center", va="center", color=color)
    axes.set_xticks(range(3), ["key 1", "key 2", "key 3"])
    axes.set_yticks(range(2), ["sees 1, 2", "sees none"])
    axes.grid(False)
    axes.set(title=f"adding {name}", xlabel="key", ylabel="query")
show(
    figure,
    number="8.8",
    caption="Attention weights of two queries with the scores 1, 2, 3. Both ways give the right weights to the query that sees two keys. For the query that sees none, −inf gives nan, and finfo.min gives plausible weights.",
    alt="Two tables of attention weights. Adding minus infinity: the first query has 0.27, 0.73, 0; the second has nan three times. "
    "Adding finfo.min: the first query has the same weights; the second has 0.33 three times.",
)


# %%
def gradient_after_repair(weights):
    repaired = torch.where(mask, weights, 0.0)
    return torch.autograd.grad(repaired[:, 0].sum(), scores)[0]


print("gradient with respect to the scores:", rounded(gradient_after_repair(weights["-inf"])))

# %% [markdown]
r"""
With $-\infty$, a fully masked row's maximum is $-\infty$, and $-\infty - (-\infty)$ is nan. Replacing the nan weights with 0 repairs the value but not the gradient: the derivative of softmax contains its result, 0 × nan is nan, and the addition of the mask passes that nan on to the scores. (With `masked_fill` instead of the addition, the nan would stop at the mask.)

Giving a fully masked row zero weights is a useful convention. PyTorch's `scaled_dot_product_attention` used to return nan for such a row ([issue 103749](https://github.com/pytorch/pytorch/issues/103749)). The next cell shows what your version of PyTorch returns.
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

Write a softmax over the entries of the last dimension where the mask is True. It must handle fully masked rows.

`masked_softmax(logits, mask) -> Tensor`

- **In** `logits`: finite numbers of any magnitude, float32 or float64, shape (..., keys). `mask`: booleans that broadcast to that shape. Where the mask is False, a logit may even be the largest of its row; it must not affect the result.
- **Out**: a tensor of the logits' shape and dtype, exactly 0 where the mask is False. A fully masked row is all 0. The gradient with respect to the logits is never nan and is exactly 0 where the mask is False.
- `torch.softmax` is **allowed**.

`masked_softmax(torch.tensor([[2.0, 2.0, 9.0]]), torch.tensor([[True, True, False]]))` returns `tensor([[0.5, 0.5, 0.0]])`.

<!-- hint: What does softmax see in a fully masked row? What can stop the resulting nan, in the value and in the gradient? -->
<!-- hint: Two masks, as in the double where: one before the softmax, which keeps the masked logits out of it, and one after it, which writes the zeros. -->
<!-- hint: Before softmax, fill in minus infinity where the mask is False, rather than adding it. After softmax, write 0 where the mask is False, which also removes the nan of a fully masked row. -->
"""


# %% solution="masked-softmax"
def masked_softmax(logits, mask):
    """Return the softmax over the last dimension of the entries where ``mask`` is True, 0 elsewhere."""
    ### BEGIN SOLUTION
    # Both fills select in the backward pass, so the nan of a fully masked row stays between them.
    weights = torch.softmax(logits.masked_fill(~mask, -math.inf), dim=-1)
    return weights.masked_fill(~mask, 0.0)
    ### END SOLUTION


# %% test="masked-softmax"
check = Check("masked-softmax")


def by_the_book_in_float64(logits, mask):
    """Return the masked softmax of logits up to a few hundred."""
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
    logits[0, 0], logits[1:, 4], mask[1:, 4] = 0.0, 0.0, True
    got = check.call(masked_softmax, logits, mask)
    check.close(got, by_the_book_in_float64(logits, mask).float())
with check.property("a fully masked row is all zeros", weight=2):
    logits, mask = check.draw.normal(5, 3), mask_with_a_key_per_row(5, 3)
    mask[check.draw.integer(0, 5)] = False
    got = check.call(masked_softmax, logits, mask)
    check.close(got, by_the_book_in_float64(logits, mask).float())
    check.equal(got[~mask], torch.zeros(int((~mask).sum())), what="the weights of masked logits")
with check.property("a masked logit does not matter, however large"):
    logits, mask = check.draw.normal(3, 7), mask_with_a_key_per_row(3, 7)
    mask[:, 2], mask[:, 3] = False, True
    expected = by_the_book_in_float64(logits, mask).float()
    logits[:, 2] = torch.tensor([500.0, torch.finfo(torch.float32).max, -1e30])
    got = check.call(masked_softmax, logits, mask)
    check.close(got, expected)
    logits = torch.full((3, 4), torch.finfo(torch.float32).min)
    logits[0], mask = -1e30, torch.tensor([True, False, True, False])
    got = check.call(masked_softmax, logits, mask)
    expected = mask.expand(3, 4) / 2.0
    check.close(got, expected, what="beside kept logits that are very negative")
with check.property("the gradient has no nan and is exactly 0 where the mask is False", weight=2):
    logits, grad_output = check.draw.normal(6, 5), check.draw.normal(6, 5)
    mask = mask_with_a_key_per_row(6, 5)
    logits[:, 3], mask[:, 3] = 5.0, False  # the largest logit of each row is masked
    mask[check.draw.integer(0, 6)] = False
    got = check.call(probes.gradient, masked_softmax, logits, mask, grad_output=grad_output)
    weights = by_the_book_in_float64(logits, mask)
    slope = weights * (grad_output - (grad_output * weights).sum(dim=1, keepdim=True)) + 0.0
    check.close(got["gradient"], slope.float(), what="the gradient")
    masked_out = got["gradient"][~mask]
    check.equal(masked_out, torch.zeros_like(masked_out), what="the gradient of masked logits")


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
    (keys,) = mask_with_a_key_per_row(1, 3)
    got = check.call(masked_softmax, logits, keys)
    expected = torch.stack([softmax_of_kept(head, keys.expand(4, 3)) for head in logits])
    check.close(got, expected.float(), what="with one mask for all rows")
    whole_rows = check.draw.booleans(4, 1)
    whole_rows[:2, 0] = torch.tensor([True, False])
    got = check.call(masked_softmax, logits, whole_rows)
    expected = torch.softmax(logits.double(), dim=-1) * whole_rows
    check.close(got, expected.float(), what="with a mask of shape (4, 1)")
    for shape in ((5,), (1, 5), (4, 1)):
        logits = check.draw.normal(*shape)
        mask = torch.arange(logits.numel()).view(shape) != 2
        got = check.call(masked_softmax, logits, mask)
        expected = by_the_book_in_float64(logits, mask).float()
        check.close(got, expected, what=f"for logits of shape {shape}")
with check.property("value and gradient are right for float64 logits in the thousands", weight=0.5):
    logits = check.draw.normal(5, 6, std=3.0, dtype=torch.float64)
    logits = logits + torch.tensor([[2000.0], [-1e10], [-1e35], [-900.0], [0.0]])
    mask = mask_with_a_key_per_row(5, 6)
    logits[:, 1] += 30.0
    mask[:, 1], mask[:, 2], mask[4] = False, True, False
    grad_output = check.draw.normal(5, 6, dtype=torch.float64)
    got = check.call(probes.gradient, masked_softmax, logits, mask, grad_output=grad_output)
    weights = softmax_of_kept(logits, mask)
    slope = weights * (grad_output - (grad_output * weights).sum(dim=1, keepdim=True)) + 0.0
    check.close(got["output"], weights, rtol=1e-8, what="the value")
    check.close(got["gradient"], slope, rtol=1e-7, atol=1e-9, what="the gradient")
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("one mask for all rows and heads, with logits in the thousands", weight=0.5):
    logits, keys = check.draw.normal(2, 3, 5, mean=-3000.0), mask_with_a_key_per_row(1, 5)
    got = check.call(masked_softmax, logits, keys[0])
    expected = torch.stack([softmax_of_kept(head, keys.expand(3, 5)) for head in logits])
    check.close(got, expected.float(), rtol=1e-3)
with check.property("the gradient is right for large logits and a fully masked row", weight=0.5):
    logits = check.draw.normal(4, 7, dtype=torch.float64)
    logits = logits + torch.tensor([[-1e12], [1e5], [-5e3], [5e3]])
    mask, grad_output = mask_with_a_key_per_row(4, 7), check.draw.normal(4, 7, dtype=torch.float64)
    logits[:, 4] += 30.0
    mask[:, 4], mask[:, 5] = False, True
    mask[check.draw.integer(1, 4)] = False
    got = check.call(probes.gradient, masked_softmax, logits, mask, grad_output=grad_output)
    weights = softmax_of_kept(logits, mask)
    slope = weights * (grad_output - (grad_output * weights).sum(dim=1, keepdim=True)) + 0.0
    check.close(got["gradient"], slope, rtol=1e-7, atol=1e-9, what="the gradient")
### END HIDDEN TESTS
check.score()


# %% [markdown]
r"""
## Softmax in blocks, and FlashAttention

The shift requires the maximum of the whole row. In attention over a long text, the scores arrive in blocks, because the whole matrix would need too much memory. **Online softmax** computes the maximum and the sum in one pass over the blocks (Milakov and Gimelshein 2018, section 3).

Keep the largest logit so far, $m$, and the sum $s = \sum_j e^{z_j - m}$ of the exponentials relative to it. A new block may raise the maximum to $m'$. Rescale the old sum to the new maximum,

$$\sum_{j \text{ old}} e^{z_j - m'} = s \cdot e^{m - m'}$$

and add the block's own terms, $e^{z_j - m'}$. The factor $e^{m - m'}$ is at most 1, so nothing overflows.
"""

# %% folded="Figure 8.9: eight logits, one at a time"
row = torch.tensor([2.0, 1.0, 4.0, 3.0, 100.0, 98.0, 101.0, 5.0])
prefixes = [row[:count] for count in range(1, 9)]
maxima = [prefix.max().item() for prefix in prefixes]
totals = [(prefix - prefix.max()).exp().sum().item() for prefix in prefixes]
figure, (left, right) = new_figure(1, 2, height=2.8)
left.plot(range(1, 9), row, "o", color=COLORS["sky"], label="logit")
left.step(range(1, 9), maxima, where="post", color=COLORS["blue"], label="m")
left.set(title="Maximum", xlabel="logits so far", ylabel="logit (no unit)")
left.legend(loc="upper left")
right.step(range(1, 9), totals, "o-", where="post", color=COLORS["vermilion"])
right.set(title="s, the sum relative to m", xlabel="logits so far", ylabel="s", ylim=(0, 2))
show(
    figure,
    number="8.9",
    caption="At the fifth logit, 100, the maximum jumps. The old sum, about 1.6, is multiplied by a factor near 0.",
    alt="Left, eight logits from 1 to 101 and their maximum so far, which jumps from 4 to 100 at the fifth logit. Right, the sum relative to the maximum: "
    "it stays between 1 and 1.6 and falls back to 1 at the fifth logit.",
)

# %%
print(f"m + log(s) = {maxima[-1] + math.log(totals[-1]):.4f}, torch: {row.logsumexp(0):.4f}")

# %% [markdown]
"""
FlashAttention computes exact attention tile by tile, without storing the matrix of scores (Dao et al. 2022, section 3.1). FlashAttention-2 also keeps $o$, the sum of the values weighted by the exponentials, and updates it by the same rule as $s$ (Dao 2023, section 3.1.1).
"""

# %% folded="Drawing: attention in tiles"
show_drawing(
    "08/tiles",
    number="8.10",
    caption="One block of queries meets the blocks of keys and values in turn. Only one tile of scores exists at a time. When m grows, s and o are multiplied by the same factor; at the end, o / s is the output.",
    alt="The matrix of scores as a grid of 4 by 4 tiles, queries down and keys across. In the second row, two tiles are finished and discarded, the third is in fast memory, and the fourth is still to come. "
    "Below, the state that passes from tile to tile: maximum m, sum s, and weighted values o.",
)

# %% [markdown] exercise="online-softmax" points=5 minutes=25 difficulty=3
r"""
### Online softmax

A mask can set whole blocks to $-\infty$. Write the update that adds one more block to each row.

`update_softmax(maximum, total, block) -> (maximum, total)`

- **In** `maximum`, `total`: float32 or float64 tensors of shape (rows,), the largest logit of each row so far and the sum of `exp(logit - maximum)`. `block`: logits of shape (rows, width), width at least 1, of the same dtype, of any magnitude or `-inf`. The first call gets a maximum of `-inf` and a total of 0.
- **Out**: (maximum, total) for all logits so far, two tensors of shape (rows,) and the block's dtype, accurate even for logits in the millions. After the last block, $e^{z - \text{maximum}} / \text{total}$ is the softmax. As long as a row has had only `-inf`, its maximum is `-inf` and its total is 0. Gradients are not needed.
- **Limits**: keep nothing between calls; another process may have seen the earlier blocks.

`update_softmax(torch.tensor([0.0]), torch.tensor([2.0]), torch.tensor([[1000.0, 1000.0]]))` returns `(tensor([1000.]), tensor([2.]))`.

<!-- hint: What happens to the old total when the block brings a larger maximum? And what is -inf minus -inf? -->
<!-- hint: Rescale the old total by exp(old maximum - new maximum), then add the block's exponentials relative to the new maximum. Where the new maximum is still -inf, subtract a harmless number instead. -->
<!-- hint: `shift = torch.where(new_maximum == -math.inf, 0.0, new_maximum)`. Then `exp(-inf - 0)` is 0 in both terms. -->
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
    """Add the blocks to a state that starts with the first ``known`` columns."""
    maximum = torch.full((len(logits),), -math.inf, dtype=logits.dtype)
    total = torch.zeros(len(logits), dtype=logits.dtype)
    if known:
        maximum, total = logits[:, :known].amax(dim=1), total_of(logits[:, :known])
    for block in logits[:, known:].split(widths, dim=1):
        state = check.call(update_softmax, maximum, total, block)
        check.true(type(state) is tuple and len(state) == 2, "expected a tuple of two")
        for value, what in zip(state, ("maximum", "total"), strict=True):
            came = tuple(value.shape) if isinstance(value, torch.Tensor) else type(value).__name__
            expected = (len(logits),)
            check.true(came == expected, f"{what}: expected shape {expected}, {came} came back")
        maximum, total = state
    return maximum, total


def total_of(logits):
    largest = logits.max(dim=1, keepdim=True).values
    return (logits.double() - largest).exp().sum(dim=1).to(logits.dtype)


with check.property("three blocks give the maximum and the sum of the whole row"):
    logits = check.draw.normal(4, 12)
    logits[:, 6] += 6.0  # the maximum comes in the second block
    # Equal logits count each time, in the same block and in the next.
    logits[:, 1], logits[:, 7], logits[:, 9] = logits[:, 0], logits[:, 6], logits[:, 6]
    maximum, total = after_blocks_of(logits, [5, 3, 4])
    check.equal(maximum, logits.max(dim=1).values, what="maximum")
    check.close(total, total_of(logits), rtol=1e-4, what="total")
with check.property(
    "logits from -1000 to 1000 or in the millions give accurate totals, no nan or inf"
):
    logits = check.draw.normal(3, 10, std=2.0)
    logits = logits + torch.tensor([1.0, -1.0, 0.0])[:, None] * torch.linspace(-1000, 1000, 10)
    maximum, total = after_blocks_of(logits, [3, 1, 4, 2])
    check.equal(maximum, logits.max(dim=1).values, what="maximum")
    check.close(total, total_of(logits), rtol=1e-3, what="total")
    maximum, total = after_blocks_of(logits[:1], [3, 1, 4, 2])
    check.equal(maximum, logits[:1].max(dim=1).values, what="maximum of a single row")
    check.close(total, total_of(logits[:1]), rtol=1e-3, what="total of a single row")
    logits = check.draw.normal(5, 6) + torch.tensor([1e6, -1e6, 3e6, -4e6, 1e7])[:, None]
    maximum, total = after_blocks_of(logits, [3, 1, 2])
    check.equal(maximum, logits.max(dim=1).values, what="maximum, in the millions")
    check.close(total, total_of(logits), rtol=1e-3, what="total, for logits in the millions")
with check.property("it continues from logits that this process has never seen", weight=2):
    logits = check.draw.normal(4, 12, std=2.0)
    logits[1] += torch.linspace(0, 90, 12)
    maximum, total = after_blocks_of(logits, [1, 3, 2], known=6)
    check.equal(maximum, logits.max(dim=1).values, what="maximum")
    check.close(total, total_of(logits), rtol=1e-4, what="total")
    # Another process has seen other logits, with the same maximum.
    state = check.call(update_softmax, maximum, total + 2.0, logits[:, :3])
    check.true(type(state) is tuple and len(state) == 2, "expected a tuple of two")
    check.equal(state[0], maximum, what="maximum after another total")
    expected = total + 2.0 + (logits[:, :3].double() - maximum[:, None]).exp().sum(dim=1)
    check.close(state[1], expected.float(), rtol=1e-4, what="total after another total")
with check.property("rows may begin with blocks of -inf"):
    logits = check.draw.normal(5, 9)
    logits[1, :4], logits[3, :7] = -math.inf, -math.inf
    maximum, total = after_blocks_of(logits, [2, 1, 3, 3])
    check.equal(maximum, logits.max(dim=1).values, what="maximum")
    check.close(total, total_of(logits), rtol=1e-4, what="total")
with check.property("a row of only -inf keeps a maximum of -inf and a total of 0"):
    logits = check.draw.normal(4, 6)
    empty = check.draw.integer(0, 4)
    logits[empty] = -math.inf
    maximum, total = after_blocks_of(logits, [1, 3, 2])
    expected = total_of(logits)
    expected[empty] = 0.0
    check.equal(maximum, logits.max(dim=1).values, what="maximum")
    check.equal(total[empty], expected[empty], what="total of the row of only -inf")
    check.close(total, expected, rtol=1e-4, what="total")
with check.property("very negative logits are not mistaken for -inf", weight=0.5):
    logits = check.draw.normal(4, 6, mean=-2e4, dtype=torch.float64)
    logits[3] -= 3e6
    logits[0, 1:], logits[0, 4] = torch.finfo(torch.float64).min, -math.inf
    logits[0, 0] = -math.inf
    logits[1, :3] = -math.inf
    maximum, total = after_blocks_of(logits, [2, 1, 3])
    check.equal(maximum, logits.max(dim=1).values, what="maximum")
    check.close(total, total_of(logits), rtol=1e-8, what="total")
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("logits far from 0 on either side, after blocks of -inf", weight=0.5):
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
r"""
## The same formulas in 16 and 8 bits

bfloat16 has almost the range of float32, so exp overflows at nearly the same point. But with only 8 significant bits, a running sum loses terms much earlier:
"""


# %% folded="Measure: a running sum, and one logarithm, in bfloat16"
def running_sum(count, dtype):
    total = torch.zeros((), dtype=dtype)
    for _ in range(count):
        total = total + 1  # the exponential of a logit that equals the maximum
    return total.item()


sums = {dtype: running_sum(1000, dtype) for dtype in (torch.float32, torch.bfloat16)}
log_sum = torch.tensor([100.0, 100.0]).logsumexp(0)

# %% folded="Predict: online softmax in bfloat16"
predict(
    "08/running-sum",
    "A row of 1,000 equal logits arrives one logit at a time, and the total is kept in bfloat16. What is the final total?",
    sums[torch.bfloat16],
    "Above 256, bfloat16 numbers are 2 apart. 256 + 1 is a tie and is rounded to 256, again and again.",
    between=(0, 1000),
)

# %%
for dtype, total in sums.items():
    print(f"{dtype!s:<15} total {total:g}, log-sum-exp of (100, 100): {log_sum.to(dtype):.4f}")

# %% [markdown]
r"""
So keep the total and the log-sum-exp in float32 even if the logits are bfloat16: near 100, bfloat16 numbers are 0.5 apart. On CUDA, autocast computes softmax, `log_softmax` and `cross_entropy` in float32 (chapter 03).

### Eight bits

The float8 format e4m3 (chapter 02) holds nothing between 0 and $2^{-9}$, and its largest number is 448. FlashAttention-3 can hold the attention weights, not yet divided by $s$, in this format when it multiplies them by the values. If the largest weight were 1, the range above 1 would be wasted. The kernel, which works in powers of 2, therefore shifts by the maximum *minus 8*, so its weights lie between 0 and $2^8 = 256$ ([`softmax.h`](https://github.com/Dao-AILab/flash-attention/blob/main/hopper/softmax.h)).
"""

# %% folded="Figure 8.11: which weights 8 bits can hold"
below = torch.linspace(-16, 0, 6401, dtype=torch.float64)[:-1]
stored = {
    "e4m3, largest weight 1": below.exp().float().to(torch.float8_e4m3fn).double(),
    "e4m3, largest weight 256": (256 * below.exp()).float().to(torch.float8_e4m3fn).double() / 256,
    "bfloat16": below.exp().float().to(torch.bfloat16).double(),
}
figure, axes = new_figure(height=3.0)
for (name, weight), color in zip(stored.items(), ("vermilion", "blue", "green"), strict=True):
    error = (weight / below.exp() - 1).abs().view(64, 100).amax(dim=1)
    axes.step(below.view(64, 100)[:, 0], error, where="post", color=COLORS[color], label=name)
axes.set_yscale("log")
axes.set_ylim(1e-5, 3)
axes.set(
    title="Largest error of a stored attention weight",
    xlabel="score minus the largest score (no unit)",
    ylabel="relative error",
)
axes.legend(loc="lower left", fontsize=9)
show(
    figure,
    number="8.11",
    caption="An error of 1 means that the weight has become 0. With a largest weight of 256, this happens about 12.5 below the largest score instead of about 7.",
    alt="Relative error of a stored weight, logarithmic, against the score minus the largest score. In e4m3 with the largest weight 1, the error is a few percent near 0 and reaches 1 at about minus 7. "
    "With the largest weight 256, it reaches 1 at about minus 12.5. In bfloat16, it stays below half a percent.",
)

# %%
for name in ("e4m3, largest weight 1", "e4m3, largest weight 256"):
    print(f"{name:<25} lowest score kept, minus the largest: {below[stored[name] > 0].min():.1f}")

# %% [markdown]
"""
## Finding the first nan

**In the forward pass**, a hook, a function that PyTorch calls with each module's output, finds the first one that is not finite:
"""


# %% folded="A tool to keep: the first module whose output is not finite"
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

# %%
too_large = pixels * 16 * 16  # scaled up twice, by mistake
print("the digits:         ", first_nonfinite_module(model, pixels))
print("scaled up by mistake:", first_nonfinite_module(model, too_large))
print("the mean output:     ", model(too_large).mean().item())

# %% [markdown]
r"""
**In the backward pass**, forward hooks do not help: as with `where`, a finite loss can have a nan gradient. **Anomaly mode**, `torch.autograd.detect_anomaly`, checks each gradient, stops at the first nan, and prints where the forward pass called the operation. It is slow, so use it only for debugging. Our example is $\arccos(\cos x)$.
"""


# %% folded="Anomaly mode, without its trace"
def anomaly_of(compute_loss):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the trace, with this machine's paths
        try:
            with torch.autograd.detect_anomaly():
                compute_loss().backward()
        except RuntimeError as error:
            return str(error)


# %%
angles = torch.tensor([math.pi / 2, 0.0], requires_grad=True)
message = anomaly_of(lambda: angles.cos().acos().sum())

# %% folded="Predict: the first nan"
predict(
    "08/first-nan",
    "The forward pass applies `cos`, `acos` and `sum`, and one angle is 0. Which operation returns the first nan in the backward pass?",
    next(name for name in ("CosBackward0", "AcosBackward0", "SumBackward0") if name in message),
    "`AcosBackward0` returns −inf, which is not nan. `CosBackward0` multiplies −inf by the derivative of `cos` at 0, which is 0, and returns nan.",
    choices=("SumBackward0", "AcosBackward0", "CosBackward0"),
)

# %%
print(message)
cosines = angles.cos()
cosines.register_hook(lambda gradient: print("gradient that arrives at cos:", gradient.tolist()))
cosines.acos().sum().backward()
print("angles.grad:                 ", angles.grad.tolist())

# %% folded="Drawing: first inf, then nan"
show_drawing(
    "08/first-nan",
    number="8.12",
    caption="Anomaly mode names the operation that returns the first nan. The cause can be the operation before it in the backward pass, which returned the first inf.",
    alt="The backward pass of sum, acos and cos at an angle of 0, from right to left. Sum sends 1 to acos; acos multiplies by minus 1 over 0 and sends minus inf to cos; cos multiplies by 0 and returns nan. Anomaly mode stops at cos.",
)

# %% [markdown]
"""
So look at the operation that anomaly mode names, and at those that follow it in the forward pass. A hook on a tensor between them shows the inf.

## Bug hunt: finite losses, nan weights

A network maps images to points. Points of the same digit should lie close together, and points of different digits at least 1 apart. Pairs are drawn at random; the distance is Euclidean, computed by the textbook formula.
"""


# %%
def distances_by_the_book(a, b):
    return ((a - b) ** 2).sum(dim=-1).sqrt()


# %% folded="Pairs of images, and the training loop"
def draw_pairs(generator, count):
    """Return the indices of ``count`` anchors, of partners of the same digit, and of images of other digits."""

    def draw_from(candidates):
        places = candidates.nonzero().flatten()
        return places[torch.randint(len(places), (), generator=generator)]

    anchors = torch.randint(len(digit_labels), (count,), generator=generator)
    digits_of_anchors = digit_labels[anchors]
    partners = torch.stack([draw_from(digit_labels == digit) for digit in digits_of_anchors])
    others = torch.stack([draw_from(digit_labels != digit) for digit in digits_of_anchors])
    return anchors, partners, others


def train_embedding(distances, steps=100):
    """Train until a weight is not finite, and return the losses and the last step's pairs."""
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


# %%
losses, (anchors, partners, others) = train_embedding(distances_by_the_book)
print(f"some weights became nan or inf in step {len(losses)}")
print(f"the losses up to that step are all finite: {all(map(math.isfinite, losses))}")

# %% folded="Figure 8.13: the losses of the training run"
figure, axes = new_figure(height=2.4)
axes.plot(range(1, len(losses) + 1), losses, "o-", color=COLORS["blue"])
axes.set(title="A loss without warning", xlabel="training step", ylabel="loss")
axes.set_ylim(0, 1.2)
show(
    figure,
    number="8.13",
    caption="Every loss is an ordinary number, but after the last step, many weights are nan.",
    alt="Loss against training step, up to the step that made weights nan. Nothing distinguishes the last loss.",
)

# %% [markdown]
"""
`anchors`, `partners` and `others` hold the indices of the images in the fatal step.
"""

# %% [markdown] exercise="bug-hunt-distances" points=4 minutes=20 difficulty=2
"""
### Bug hunt: the fatal step

In cells of your own, find out what broke the training above: which pair, and which derivative. Then write a function with the same values and usable gradients.

`distances(a, b) -> Tensor`

- **In** `a`, `b`: float32 or float64 tensors of the same shape (..., features), finite; squared differences neither overflow nor underflow.
- **Out**: the Euclidean distances over the last dimension, shape (...), of the same dtype. They are accurate to rounding error, even near 1e-10. The gradients with respect to `a` and `b` are those of the distance, and exactly 0 wherever the distance has no derivative.
- All of torch is **allowed**.

`distances(torch.tensor([[3.0, 0.0]]), torch.tensor([[0.0, 4.0]]))` returns `tensor([5.])`, and `len(train_embedding(distances)[0])` returns `100`.

<!-- hint: Run the fatal step's pairs through each operation that follows the difference. Which derivative is infinite, for which pair? What does that infinity meet in the backward pass? -->
<!-- hint: A number added under the root changes every small distance, so it is not an option. Either keep the zero away from the root, as the double where does, or use a function that defines its gradient at 0. -->
<!-- hint: `torch.linalg.vector_norm` is such a function; it takes the difference and a `dim`. -->
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
    b[1:3, 0, 2] = a[1:3, 0, 2]  # equal in one feature only
    got = check.call(distances, a, b)
    check.close(got, distances_in_float64(a, b).float())
with check.property("value and gradients are right for all pairs, in either dtype", weight=3):
    a, b = check.draw.normal(12, 3), check.draw.normal(12, 3)
    b[2:10], b[10, :2] = a[2:10], a[10, :2]
    got = check.call(probes.gradient, distances, a, b)
    check.close(got["output"], distances_in_float64(a, b).float(), atol=0.0, what="the value")
    check.close(got["gradient"], slopes(a, b).float(), what="the gradient with respect to a")
    same = got["gradient"][2:10]
    check.equal(same, torch.zeros(8, 3), what="the gradient for points that coincide")
    got = check.call(probes.gradient, distances, a, b, with_respect_to=1)
    check.close(got["gradient"], -slopes(a, b).float(), what="the gradient with respect to b")
    swapped = a[:, :2].flip(-1)  # other points, of the same sum and the same norm
    got = check.call(distances, a[:, :2], swapped)
    expected = distances_in_float64(a[:, :2], swapped).float()
    check.close(got, expected, atol=0.0, what="the value, for points with their features swapped")
    a, b = a.double() * 1e-6, b.double() * 1e-6
    grad_output = check.draw.normal(12, std=5.0, dtype=torch.float64)
    got = check.call(probes.gradient, distances, a, b, grad_output=grad_output)
    check.close(got["output"], distances_in_float64(a, b), atol=0.0, what="the value, in float64")
    expected = slopes(a, b) * grad_output[:, None]
    check.close(
        got["gradient"], expected, rtol=1e-8, what="the gradient with respect to a, in float64"
    )
    a, b = check.draw.normal(5, 4, std=1e-6), check.draw.normal(5, 4, std=1e-8)
    a[2:4] = b[2:4]
    a[2, 1] += 1e-10
    a[4], b[4] = 0.0, 1e-15
    got = check.call(probes.gradient, distances, a, b)
    what = "the gradient with respect to a, for points close together"
    check.close(got["gradient"], slopes(a, b).float(), what=what)
with check.property("distances of a millionth and far less keep their digits"):
    a, b = check.draw.normal(6, 4, std=1e-6), check.draw.normal(6, 4, std=1e-6)
    b[2], b[3:5] = a[2] + 1e-8, a[3:5]
    b[3, 1] += 1e-10
    a[5], b[5] = 0.0, 1e-15
    got = check.call(distances, a, b)
    check.close(got, distances_in_float64(a, b).float(), atol=0.0)
    for one, other in ((a[:1, :1], b[:1, :1]), (a[:, :1], b[:, :1]), (a[0], b[0])):
        got = check.call(distances, one, other)
        what = f"for points of shape {tuple(one.shape)}"
        check.close(got, distances_in_float64(one, other).float(), atol=0.0, what=what)
    a = check.draw.normal(40, 3, mean=100.0)
    b = a + check.draw.normal(40, 3, std=1e-3)
    got = check.call(distances, a, b)
    what = "for 40 pairs far from the origin"
    check.close(got, distances_in_float64(a, b).float(), atol=0.0, what=what)
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("the distance between close points far from the origin is right"):
    a = check.draw.normal(7, 5, mean=100.0)
    b = a + check.draw.normal(7, 5, std=1e-3)
    got = check.call(probes.gradient, distances, a, b)
    check.close(got["output"], distances_in_float64(a, b).float(), atol=0.0, what="the value")
    check.close(got["gradient"], slopes(a, b).float(), what="the gradient with respect to a")
with check.property("the gradient with respect to b is right for small distances in float64"):
    a = check.draw.normal(4, 6, std=1e-9, dtype=torch.float64)
    b = check.draw.normal(4, 6, std=1e-9, dtype=torch.float64)
    b[2] = a[2]
    grad_output = check.draw.normal(4, dtype=torch.float64)
    got = check.call(probes.gradient, distances, a, b, with_respect_to=1, grad_output=grad_output)
    check.close(got["output"], distances_in_float64(a, b), atol=0.0, what="the value")
    expected = -slopes(a, b) * grad_output[:, None]
    check.close(got["gradient"], expected, rtol=1e-8, what="the gradient with respect to b")
### END HIDDEN TESTS
check.score()

# %% [markdown]
r"""
<details><summary>The bug (open this once you have found it)</summary>

Now and then, an image is drawn as its own partner, at distance 0. There, the derivative of the root is inf, that of the square is 0, and their product is nan.

As a function of $a - b$, the distance is a cone. At its tip, the cone has no derivative, but it has **subgradients**, the slopes of the planes that touch it there from below; `torch.linalg.vector_norm` uses one of them, 0, as its gradient
([PyTorch's rules](https://docs.pytorch.org/docs/stable/notes/autograd.html#gradients-for-non-differentiable-functions)). A small number under the root avoids the nan, too, but changes the result: with 1e-12, a distance of 1e-6 grows by 41%.

`torch.cdist` had this bug in PyTorch 1.5 ([issue 37154](https://github.com/pytorch/pytorch/issues/37154)), and so did sentence-transformers in 2026
([pull request 4033](https://github.com/huggingface/sentence-transformers/pull/4033)).
</details>
"""

# %% folded="After the hunt: what a small number under the root does"
millionth = torch.tensor([1e-6, 0.0])
for epsilon in (1e-6, 1e-8, 1e-12):
    apart = ((millionth**2).sum() + epsilon).sqrt().item()
    print(
        f"epsilon {epsilon:.0e}: distance 1e-06 becomes {apart:.2e}, 0 becomes {math.sqrt(epsilon):.0e}"
    )

# %% [markdown]
r"""
## In the wild

| what | where |
| --- | --- |
| log-sum-exp | [`torch.logsumexp`](https://docs.pytorch.org/docs/stable/generated/torch.logsumexp.html), [`scipy.special.logsumexp`](https://docs.scipy.org/doc/scipy/reference/generated/scipy.special.logsumexp.html), [`jax.nn.logsumexp`](https://docs.jax.dev/en/latest/_autosummary/jax.nn.logsumexp.html) |
| fused losses | [`cross_entropy`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.cross_entropy.html), [`BCEWithLogitsLoss`](https://docs.pytorch.org/docs/stable/generated/torch.nn.BCEWithLogitsLoss.html), [`logsigmoid`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.logsigmoid.html); in Keras, `from_logits=True` |
| running variance | [`torch.var_mean`](https://docs.pytorch.org/docs/stable/generated/torch.var_mean.html) of a whole tensor; [`StandardScaler.partial_fit`](https://scikit-learn.org/stable/modules/generated/sklearn.preprocessing.StandardScaler.html) merges blocks |
| masked rows | [`scaled_dot_product_attention`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html) (`attn_mask=`), [`jax.nn.softmax`](https://docs.jax.dev/en/latest/_autosummary/jax.nn.softmax.html) (`where=`) |
| online softmax | FlashAttention, one of the kernels behind `scaled_dot_product_attention` |
| any mask or bias, in tiles | [FlexAttention](https://docs.pytorch.org/docs/stable/nn.attention.flex_attention.html): `score_mod=` changes a score, `block_mask=` lists the tiles that are not fully masked |
| double where | the [JAX FAQ](https://docs.jax.dev/en/latest/faq.html) |
| finding nan | [`torch.autograd.detect_anomaly`](https://docs.pytorch.org/docs/stable/autograd.html#anomaly-detection), JAX's `jax_debug_nans` |
"""

# %% [markdown]
"""
## Recap

1. Many programs compute the same formula, but only some stay in range and keep their digits.
2. In softmax and log-sum-exp, subtract each row's maximum first. Compute cross entropy from logits, never from probabilities.
3. Subtracting nearly equal numbers exposes earlier rounding errors: use `log1p`, `expm1` and distances from the mean.
4. A masked value is still differentiated, and 0 × inf is nan: mask what goes in, not only what comes out.
5. Adding a small number, clamping, or replacing a nan hides the symptom and can leave wrong values or gradients.

### Test yourself

<details><summary>1. Why does the softmax of (1000, 1000), computed by the book, give nan?</summary>

Both exponentials overflow, and inf / inf is nan.
</details>

<details><summary>2. The shifted softmax is stable. Why is its logarithm not?</summary>

A small probability has underflowed to 0 before the logarithm sees it.
</details>

<details><summary>3. The labels of a row sum to 3. What is the gradient of its cross entropy with respect to the logits?</summary>

3p − y: the sum of the labels multiplies the log-sum-exp.
</details>

<details><summary>4. In float32, why is (1 + x) − 1 wrong for x = 1e-9, although the subtraction is exact?</summary>

The addition has rounded 1 + 1e-9 to 1.
</details>

<details><summary>5. The loss is finite, and after one step the weights are nan. Which tool do you use?</summary>

Anomaly mode, and then a hook that shows the inf before the nan.
</details>

### References

- IEEE 754-2019, *Standard for Floating-Point Arithmetic*, sections 6 and 7.
- D. Goldberg, "What Every Computer Scientist Should Know About Floating-Point Arithmetic", *ACM Computing Surveys* 23(1), 1991.
- N. J. Higham, *Accuracy and Stability of Numerical Algorithms*, 2nd edition, SIAM, 2002, sections 1.7 to 1.9.
- P. Blanchard, D. J. Higham, N. J. Higham, "Accurately computing the log-sum-exp and softmax functions", *IMA Journal of Numerical Analysis* 41(4), 2021.
- B. P. Welford, "Note on a Method for Calculating Corrected Sums of Squares and Products", *Technometrics* 4(3), 1962.
- T. F. Chan, G. H. Golub, R. J. LeVeque, "Algorithms for Computing the Sample Variance", *The American Statistician* 37(3), 1983.
- M. Milakov, N. Gimelshein, "Online normalizer calculation for softmax", [arXiv:1805.02867](https://arxiv.org/abs/1805.02867), 2018.
- T. Dao et al., "FlashAttention", [arXiv:2205.14135](https://arxiv.org/abs/2205.14135), 2022; T. Dao, "FlashAttention-2", [arXiv:2307.08691](https://arxiv.org/abs/2307.08691), 2023; J. Shah et al., "FlashAttention-3", [arXiv:2407.08608](https://arxiv.org/abs/2407.08608), 2024.

### Glossary

| English | 中文 | meaning |
| --- | --- | --- |
| numerical stability | 数值稳定性 | the property that rounding errors stay small on the way to the result |
| overflow | 上溢 | a result beyond the largest number; it becomes inf |
| underflow | 下溢 | a result too close to zero; it becomes subnormal or 0 |
| subnormal number | 次正规数 | a nonzero number without a leading 1, closer to zero than every normal number |
| logit | 未归一化得分 | the score of a class before softmax |
| log-sum-exp | 对数-求和-指数 | the logarithm of a sum of exponentials |
| fused loss | 融合损失函数 | a loss that is simplified before it is computed |
| catastrophic cancellation | 灾难性抵消 | a subtraction of nearly equal numbers that leaves mostly their rounding errors |
| double where | 双重 where | masking the input as well as the result, so that gradients stay finite |
| subgradient | 次梯度 | the slope of a line or plane that touches a convex function from below |
| masked softmax | 掩码 softmax | a softmax over the allowed entries only |
| online softmax | 在线 softmax | a softmax over blocks, with a running maximum and sum |
| anomaly mode | 异常检测模式 | a mode in which autograd checks each gradient for nan |
"""

# %% [markdown]
"""
Here is what you predicted in this chapter.
"""

# %% folded="What you predicted"
predictions("08")

# %%
progress("08")
