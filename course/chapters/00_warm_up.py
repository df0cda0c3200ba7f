# %% [markdown]
r"""
# 00 · Warm-up: tensors, autograd, modules

A bug-free program fits $w_0 x^2 + w_1 x + w_2$ to noise-free points on the curve $y = 5x^2 + 3$, with 100 new points in each of 1000 steps.
The loss falls by a factor of more than a million, yet one of the three weights is still wrong.

**中文**: 本章热身：张量与数据类型、与 NumPy 共享内存、自动微分与差分检验、曲线拟合为何停滞与三种补救、模块的参数与缓冲区、调试两个网络的交替训练。
"""

# %% tags=["needed"] folded="Imports"
import math
import warnings

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from helpers import (
    COLORS,
    Check,
    explore_surface,
    failing,
    hint,
    new_figure,
    predict,
    predictions,
    probes,
    progress,
    show,
    show_drawing,
    time_ratio,
)

# With tensors this small, threads wait longer than they compute.
torch.set_num_threads(1)

# %% folded="The points, and the powers of x"
TRUE_WEIGHTS = torch.tensor([5.0, 0.0, 3.0])


def draw_points():
    x = torch.rand(100) * 20 - 10
    return x, 5 * x * x + 3


def powers(x):
    return torch.stack([x * x, x, torch.ones_like(x)], dim=1)


# %%
def fit_by_adam(steps, beta2=0.999):
    """Yield the loss, the weights, and Adam's state in each step."""
    torch.manual_seed(1)
    weights = torch.randn(3, requires_grad=True)
    optimizer = torch.optim.Adam([weights], lr=0.1, betas=(0.9, beta2))
    for _ in range(steps):
        x, y = draw_points()
        loss = functional.mse_loss(powers(x) @ weights, y)
        optimizer.zero_grad()  # discard the old gradients
        loss.backward()  # compute the new ones
        optimizer.step()  # let Adam change the weights
        yield loss, weights, optimizer.state[weights]


# %% folded="Run the fit"
def record(steps, beta2=0.999):
    """Return the losses, the weights' errors, their gradients, and Adam's divisors."""
    rows = []
    for step, (loss, weights, state) in enumerate(fit_by_adam(steps, beta2), start=1):
        divisor = (state["exp_avg_sq"] / (1 - beta2**step)).sqrt()
        rows.append((loss.item(), weights.detach() - TRUE_WEIGHTS, weights.grad.clone(), divisor))
    losses, *others = zip(*rows, strict=True)
    return losses, *map(torch.stack, others)


losses, errors, gradients, divisors = record(1000)
found = (TRUE_WEIGHTS + errors[-1]).tolist()

# %% folded="Predict: the constant that the fit finds"
predict(
    "00/constant",
    "The true weights are 5, 0, and 3. The fit gets the constant most wrong. What constant does it find in 1000 steps?",
    found[2],
    "The constant is off by several percent, although the loss looks converged.",
    between=(2, 4),
)

# %% folded="Figure 0.1: the loss, and the errors of the weights"
figure, (left, right) = new_figure(1, 2)
left.semilogy(range(1, 1001), losses, color=COLORS["blue"], linewidth=1)
left.set(title="The loss", xlabel="step", ylabel="mean squared error")
for place, (name, color) in enumerate((("x²", "blue"), ("x", "green"), ("1", "vermilion"))):
    right.semilogy(
        range(1, 1001), errors[:, place].abs(), color=COLORS[color], linewidth=1, label=name
    )
right.set(title="Errors of the weights", xlabel="step", ylabel="error", ylim=(1e-5, 1e2))
right.legend(title="weight of", fontsize=9, ncols=3, loc="upper right")
show(
    figure,
    number="0.1",
    caption="The fit by Adam with a learning rate of 0.1. The loss falls to about 0.02, but the weight of 1, the constant, is still off by about 0.2.",
    alt="Left: the loss falls from tens of thousands to a few hundredths over 1000 steps. Right: the error of the weight of x falls "
    "below a thousandth, that of x squared to a few thousandths. The error of the constant shrinks much more slowly and is still about 0.2 at the end.",
)

# %%
print("weights found:", [round(weight, 2) for weight in found])
print(f"loss at the first step {losses[0]:.0e}, at the last {losses[-1]:.0e}")

# %% [markdown]
"""
> **After this chapter, you will be able to**
>
> - tell which tensors share memory;
> - compute a derivative with autograd, and check it with a finite difference;
> - explain why a bug-free fit stalls, and fix it in three ways;
> - write a module whose parameters the optimizer finds, and count them;
> - debug a training step of two networks.
>
> **Time**: 50 minutes to read and run, 95 for the six exercises.
>
> **Prerequisites**: Python, NumPy arrays, Taylor's theorem, eigenvectors, and gradient descent.
"""

# %% [markdown]
"""
## Tensors

A **tensor** is an array of numbers of one type, its **dtype**. Its **shape** lists the length of each dimension, and its **rank** is the number of dimensions.
"""

# %%
for name, tensor in (
    ("one number", torch.tensor(3)),
    ("a vector", torch.tensor([1.0, 2.0])),
    ("a matrix of zeros", torch.zeros(2, 2)),
    ("random numbers", torch.rand(2, 3, 4)),
):
    print(f"{name:<18} rank {tensor.ndim}, shape {tuple(tensor.shape)!s:<10} {tensor.dtype}")

# %% [markdown]
"""
By default, a Python int becomes an int64 and a Python float a float32; `dtype=torch.float64` keeps all 64 bits.
`+` and `*` work entry by entry, on equal shapes or on shapes that *broadcast* (chapter 07). `@` is the **matrix product**, or the dot product of two vectors. In `x @ y`, the last dimension of `x` must be as long as the second-to-last (or only) dimension of `y`.
"""

# %%
print("0.1 as a float32:", torch.tensor(0.1).item())
x, y = torch.randn(3, 5), torch.randn(5, 4)
print("shape of x @ y:", tuple((x @ y).shape))
try:
    x + y
except RuntimeError as error:
    print("x + y:", error)

# %% [markdown]
"""
A float64 takes twice as much memory as a float32, and a matrix product takes longer:
"""

# %% tags=["nbval-ignore-output"]
single = torch.randn(512, 512)
double = single.double()
print("bytes per number:", single.element_size(), "and", double.element_size())
ratio = time_ratio(lambda: double @ double, lambda: single @ single, pairs=3, seconds=0.3)
print("time of a 512 x 512 matrix product in float64 against float32:", ratio)

# %% [markdown]
"""
### NumPy and shared memory

[`torch.from_numpy`](https://docs.pytorch.org/docs/stable/generated/torch.from_numpy.html) and a CPU tensor's `.numpy()` reuse existing memory; [`torch.tensor`](https://docs.pytorch.org/docs/stable/generated/torch.tensor.html) copies.
"""

# %% folded="Drawing: an array and two tensors"
show_drawing(
    "00/shared-memory",
    number="0.2",
    caption="`array` and `shared` use the same 24 bytes, so a change made through one shows in the other. `copied` has its own memory and keeps its zeros.",
    alt="Three names on the left point to memory on the right. The array and the tensor made by from_numpy point to the same three numbers, "
    "7, 8, and 0. The tensor made by torch.tensor points to three zeros of its own.",
)

# %%
array = np.zeros(3)
shared, copied = torch.from_numpy(array), torch.tensor(array)
array[0] = 7.0
shared[1] = 8.0
print("array: ", array.tolist())
print("shared:", shared.tolist(), shared.dtype)
print("copied:", copied.tolist(), copied.dtype)
try:
    shared @ torch.ones(3)
except RuntimeError as error:
    print("shared @ torch.ones(3):", error)

# %% [markdown]
"""
By default, NumPy's floats have 64 bits, and tensors made from them are float64. `@` does not mix dtypes; `.float()` converts to float32.
"""

# %% folded="Predict: NumPy's normal"
predict(
    "00/normal",
    "`torch.randn(3, 5)` draws a 3×5 matrix. How many numbers does `np.random.default_rng(0).normal([3, 5])` return?",
    f"{np.random.default_rng(0).normal([3, 5]).size}",
    "The first argument of `normal` is the mean, so NumPy draws one number around 3 and one around 5. For a matrix, write `normal(size=(3, 5))`.",
    choices=("1", "2", "8", "15"),
)

# %% [markdown]
r"""
## Autograd

Let $u = x^2$ and $g = -u$. By the chain rule $\frac{dg}{dx} = \frac{dg}{du} \cdot \frac{du}{dx} = -2x$, which is −2 at $x = 1$. **Automatic differentiation** computes this number from the code of the function; PyTorch's implementation is called autograd. The **forward pass** runs the function, and each operation on a tensor that *requires a gradient* adds a node to a **graph**.
The **backward pass** follows the graph from the output to the inputs, multiplies the derivatives along each path, and sums the products over all paths that reach the same input.
"""

# %% folded="Drawing: the graph of -(x * x)"
show_drawing(
    "00/graph",
    number="0.3",
    caption="The backward pass runs from the output back to the inputs. `x` is used twice, so two paths lead back to it, and their derivatives are added.",
    alt="Top row, from left to right: the input x with value 1, two arrows to u = x * x, and one arrow to g = -u. Each operation leaves a node in the bottom row. "
    "There the arrows run from right to left: the derivative 1 enters NegBackward0, -1 goes on to MulBackward0, and two arrows with -1 each lead to x, where they add up to -2.",
)

# %%
x = torch.tensor(1.0, requires_grad=True)
u = x * x
g = -u
print("nodes:", type(u.grad_fn).__name__, "and", type(g.grad_fn).__name__)
(slope,) = torch.autograd.grad(g, x)
print("dg/dx at 1:", slope.item())

# %% [markdown]
r"""
[`torch.autograd.grad(output, inputs)`](https://docs.pytorch.org/docs/stable/generated/torch.autograd.grad.html) returns a tuple with one gradient for each input. The output must be a single number unless you pass `grad_outputs`. `output.backward()` instead stores the gradients in the `.grad` of each leaf that requires one. A **leaf** is a tensor that autograd did not record as the result of an operation: weights are leaves, but losses are not. The gradient of $w \cdot x$ with respect to $w$ is $x$:
"""

# %%
w = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
x = torch.tensor([4.0, 5.0, 6.0])
product = (w * x).sum()
product.backward()
print("leaves: w", w.is_leaf, "x", x.is_leaf, "product", product.is_leaf)
print("w.grad:", w.grad.tolist(), "  x.grad:", x.grad)

# %% [markdown]
"""
`x` requires no gradient, so its `.grad` stays `None`. `w.detach()` returns a new leaf that shares the memory of `w`, `.clone()` copies a tensor, and `requires_grad_(True)` makes a leaf require a gradient. Passing a tensor to `torch.tensor` causes a warning:
"""

# %%
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    torch.randn(3, requires_grad=True)
    torch.tensor(torch.randn(3), requires_grad=True)
print("warnings:", [f"{w.message}"[:52] + "…" for w in caught])

# %% [markdown]
r"""
Write `torch.randn(3, requires_grad=True)` instead.

### Three backward passes
"""

# %% folded="Measure: three backward passes"
weight = torch.tensor(2.0, requires_grad=True)
stored = []
for _ in range(3):
    (weight * weight).backward()
    stored.append(weight.grad.item())

# %% folded="Predict: three backward passes"
predict(
    "00/three-passes",
    "`weight` is 2, so the derivative of its square is 4. What does `weight.grad` contain after three calls of `(weight * weight).backward()`?",
    f"{stored[-1]:g}",
    "Each call adds its 4 to what is already stored.",
    choices=("4", "8", "12", "64"),
)

# %%
weight = torch.tensor(2.0, requires_grad=True)
for _ in range(3):
    (weight * weight).backward()
    print("after a backward pass:", weight.grad.item())

# %% [markdown]
"""
[`backward()`](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.backward.html) *adds* to `.grad`, which is useful when a gradient is computed in parts (chapter 05). Otherwise, clear `.grad` first;
by default, [`optimizer.zero_grad()`](https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html) sets its parameters' `.grad` to `None`.
"""

# %% [markdown] exercise="derivative" points=3 minutes=10 difficulty=1
"""
### A derivative at many points

To plot a derivative, compute it at many points at once.

`derivative(f, x) -> Tensor`

- **In** `f`: a function that autograd can differentiate and that acts on each entry of a tensor by itself. `x`: a float32 or float64 tensor of any shape, with at least one entry, with or without `requires_grad`.
- **Out**: the derivative of `f` at each entry, with the shape and dtype of `x`, as accurate as autograd's. The result requires no gradient.
- **Limits**: `x`, its `requires_grad`, and its `.grad` do not change.

`derivative(lambda x: x**3, torch.tensor([1.0, 2.0]))` returns `tensor([3., 12.])`.

<!-- hint: Autograd needs an output that is a single number and an input that requires a gradient. You have neither. How can you make both? -->
<!-- hint: A detached copy of x is a leaf of your own, which may require a gradient. The sum of f(leaf) is a single number, and each entry of its gradient depends on one entry of x alone. -->
<!-- hint: `x.detach().clone().requires_grad_(True)` is the leaf. `torch.autograd.grad(total, leaf)` returns a tuple with one entry; unlike `backward`, it stores nothing in `.grad`. -->
"""


# %% solution="derivative"
def derivative(f, x):
    """Return the derivative of ``f`` at each entry of ``x``."""
    ### BEGIN SOLUTION
    leaf = x.detach().clone().requires_grad_(True)
    (slope,) = torch.autograd.grad(f(leaf).sum(), leaf)
    return slope
    ### END SOLUTION


# %% test="derivative"
check = Check("derivative")


def slope_at(formula, x):
    return check.call(probes.with_formula, derivative, formula, x)


def stays_as_it_is(formula, slope, *sizes, dtype, by_way_of_a_copy=False):
    """Ask with a plain x, with the same one again, and with an x that requires a gradient."""
    factor, x = check.draw.number(0.5, 1.5), check.draw.normal(*sizes, dtype=dtype)
    name = formula[0][0]
    first, after, second = check.call(probes.with_formula_twice, derivative, formula, x, factor)
    check.equal(after, x, what="x after the call")
    check.close(first, slope(x), what=f"the derivative of {name}")
    check.close(second, slope(factor * x), what=f"the derivative of {name} at other numbers")
    factors, left_over = (check.draw.normal(*sizes, dtype=dtype) for _ in range(2))
    given = formula, x, factors, left_over
    seen = check.call(
        probes.with_formula_on_a_leaf, derivative, *given, by_way_of_a_copy=by_way_of_a_copy
    )
    check.equal(seen["after"], x, what="x after the call")
    check.close(seen["output"], slope(x), what=f"the derivative of {name}")
    check.true(not seen["graph"], "the result requires a gradient")
    grad = "the .grad of the tensor that x was computed from," if by_way_of_a_copy else "x.grad"
    check.equal(seen["stored"], left_over, what=f"{grad} after the call")
    stays = isinstance(seen["gradient"], torch.Tensor) and torch.equal(seen["gradient"], left_over)
    check.true(
        not stays, "after the call, x no longer requires a gradient, or autograd is switched off"
    )
    # The result counts as a constant.
    more = 2.0 * factors * x * slope(x)
    what = f"{grad} after a backward pass of sum(factor * x² * result)"
    check.close(seen["gradient"], left_over + more, what=what)


with check.property("the derivative at every entry"):
    x = check.draw.normal(7, dtype=torch.float64)
    got = slope_at([["sin"], ["times", 3.0]], x)
    check.close(got, 3.0 * x.cos(), what="the derivative of 3 sin(x)")
with check.property("a chain of several functions"):
    x = check.draw.normal(5, dtype=torch.float64)
    got = slope_at([["square"], ["times", -1.0], ["exp"]], x)
    check.close(got, -2.0 * x * (-x * x).exp(), what="the derivative of exp(-x²)")
    got = slope_at([["sin"], ["square"]], x)
    check.close(got, (2.0 * x).sin(), what="the derivative of sin(x)²")
with check.property("tensors of any shape, in their own dtype", weight=2):
    for shape, dtype in (((), torch.float64), ((3, 4), torch.float32), ((2, 1, 5), torch.float64)):
        x = check.draw.normal(*(shape or (1,)), dtype=dtype).reshape(shape)
        got = slope_at([["cos"], ["times", 2.0]], x)
        check.close(got, -2.0 * x.sin(), what=f"shape {shape}, {str(dtype)[6:]}")
    x = check.draw.normal(3, 4, dtype=torch.float64).T
    got = slope_at([["cos"], ["times", 2.0]], x)
    check.close(got, -2.0 * x.sin(), what="shape (4, 3), not contiguous")
with check.property("exact up to rounding, even where f changes fast or uses abs", weight=2):
    x = check.draw.uniform(6, low=1.0, high=2.0, dtype=torch.float64)
    got = slope_at([["square"], ["square"]], x)
    check.close(got, 4.0 * x**3, rtol=1e-12, atol=1e-12, what="the derivative of x to the fourth")
    got = slope_at([["times", 1e6], ["sin"]], x)
    check.close(got, 1e6 * (1e6 * x).cos(), atol=1e-6, what="the derivative of sin(1,000,000 x)")
    got = slope_at([["abs"], ["power", 3]], -x)
    check.close(got, -3.0 * x.square(), rtol=1e-12, what="the derivative of |x|³")
with check.property("x does not change, with or without requires_grad"):
    stays_as_it_is([["exp"]], torch.exp, check.draw.integer(3, 9), dtype=torch.float64)
    stays_as_it_is([["exp"]], torch.exp, 2, 3, dtype=torch.float64, by_way_of_a_copy=True)
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("a two-dimensional float32 x does not change either"):
    stays_as_it_is([["sin"]], torch.cos, 2, check.draw.integer(3, 9), dtype=torch.float32)
with check.property("where f is flat, the derivative is 0"):
    x = check.draw.normal(5, dtype=torch.float64)
    check.close(slope_at([["times", 0.0], ["cos"]], x), torch.zeros_like(x))
### END HIDDEN TESTS
check.score()

# %% [markdown]
r"""
## Checking a derivative

A **forward difference** checks a derivative without autograd:

$$f'(x) \approx \frac{f(x + h) - f(x)}{h}$$

Its limit as $h \to 0$ is $f'(x)$, but a program has to choose a step $h$. We try $f(x) = e^x$ at $x = 1$.
"""


# %% folded="Measure: the error of the forward difference"
def error_of_forward_difference(h, dtype):
    """Return the relative error for exp at 1, at each step of ``h``."""
    x, h = torch.tensor(1.0, dtype=dtype), h.to(dtype)
    slopes = ((x + h).exp() - x.exp()) / h
    return (slopes.double() / math.e - 1).abs()


tried_steps = torch.logspace(-14, 0, 57, dtype=torch.float64)
forward_errors = {
    dtype: error_of_forward_difference(tried_steps, dtype)
    for dtype in (torch.float32, torch.float64)
}

# %% folded="Measure: four steps in float32"
offered = {"0.1": 1e-1, "0.0003": 3e-4, "0.0000001": 1e-7, "0.0000000001": 1e-10}
offered_errors = error_of_forward_difference(
    torch.tensor(list(offered.values()), dtype=torch.float64), torch.float32
)

# %% folded="Predict: the best step"
predict(
    "00/best-step",
    "In float32, which of these steps gives the smallest error?",
    list(offered)[offered_errors.argmin().item()],
    "Larger steps make the formula less accurate; smaller ones let rounding errors dominate.",
    choices=tuple(offered),
)

# %% folded="Figure 0.4: the forward difference"
figure, axes = new_figure(height=3.2)
for dtype, color, marker in ((torch.float32, "vermilion", "s"), (torch.float64, "blue", "o")):
    name = str(dtype)[6:]
    shown = forward_errors[dtype].clamp(min=1e-10)
    axes.loglog(
        tried_steps, shown, marker + "-", ms=3, linewidth=1, color=COLORS[color], label=name
    )
    root = torch.finfo(dtype).eps ** 0.5
    axes.axvline(root, color=COLORS[color], linestyle=":", label=f"√ε of {name}")
axes.loglog(tried_steps[-36:], tried_steps[-36:] / 2, "--", color=COLORS["black"], label="h / 2")
axes.set(title="Error of the forward difference of exp at 1", xlabel="step h")
axes.set(ylabel="relative error", ylim=(1e-10, 3))
axes.legend(fontsize=9, loc="lower left")
show(
    figure,
    number="0.4",
    caption="From right to left, the error of the forward difference shrinks with the step, reaches its minimum near the dotted line, and grows again. At the smallest steps in float32, 1 + h rounds to 1, and the error is 100%.",
    alt="Relative error against the step, both logarithmic: a V for each dtype. From the right, the error falls in proportion to the step, along a dashed line. "
    "Its minimum lies near 3e-4 in float32 and near 1e-8 in float64. It rises again toward smaller steps, with much scatter, up to an error of 1 in float32.",
)

# %%
for dtype in (torch.float32, torch.float64):
    epsilon = torch.finfo(dtype).eps
    print(f"{str(dtype)[6:]}: epsilon {epsilon:.1e}, its square root {epsilon**0.5:.1e}")

# %% [markdown]
r"""
Two errors compete.

- **Truncation error**, to the right of the minimum: by Taylor's theorem, the error of the formula is about $\frac{h}{2} f''(x)$.
- **Rounding error**, to the left: $x + h$ and both values of $f$ are rounded. Each value is off by up to about $\epsilon\,|f(x)|$, where $\epsilon$ is the **machine epsilon**, the distance from 1 to the next larger number of the dtype. Dividing by $h$ magnifies these errors.

If $f$ and $f''$ have similar sizes, the two errors are equal near $h = \sqrt{\epsilon}$, where both are about $\sqrt{\epsilon}$: at best, about half of the digits are correct.

The **central difference** uses a point on each side:

$$f'(x) \approx \frac{f(x + h) - f(x - h)}{2h}$$

Its truncation error is only about $\frac{h^2}{6} f'''(x)$. Both formulas are **finite differences**.
"""

# %% [markdown] exercise="difference-errors" points=4 minutes=15 difficulty=2
"""
### The error of a central difference

To find the best step, measure the error of many.

`difference_errors(f, x, steps) -> list[float]`

- **In** `f`: as in the previous exercise. `x`: a float64 tensor of shape (n,). `steps`: a list of positive floats in any order; it may contain duplicates, or a step that is far too small or far too large.
- **Out**: a list with one Python float per step, in the order of `steps`: the largest absolute error of the central difference over the entries of `x`, compared with autograd. If `f` overflows, the difference is inf or nan, and so is the error. `x` and `steps` do not change.
- You may call your `derivative`.

`difference_errors(lambda x: x**3, torch.tensor([1.0, 2.0], dtype=torch.float64), [0.5, 0.25])` returns `[0.25, 0.0625]`.

<!-- hint: For one step, you need two calls of f. At which points? Then compare the result with autograd's. -->
<!-- hint: The derivative does not depend on the step, so compute it once. For each step, compute the central difference, subtract the derivative, take absolute values, and keep the largest. -->
<!-- hint: `(difference - slope).abs().max().item()` is a Python float. A list comprehension over the steps does the rest. -->
"""


# %% solution="difference-errors"
def difference_errors(f, x, steps):
    """Return the largest error of the central difference of ``f`` over ``x``, for each step."""
    ### BEGIN SOLUTION
    slope = derivative(f, x)
    differences = [(f(x + h) - f(x - h)) / (2 * h) for h in steps]
    return [(difference - slope).abs().max().item() for difference in differences]
    ### END SOLUTION


# %% test="difference-errors"
check = Check("difference-errors")


def errors_of(formula, x, steps):
    return check.call(probes.with_formula, difference_errors, formula, x, steps)


with check.property("the error for x³ is the square of the step; exp(20 x) also works"):
    x = check.draw.uniform(6, low=0.5, high=1.5, dtype=torch.float64)
    steps = [0.5, 0.25, 0.125]
    got = errors_of([["power", 3]], x, steps)
    check.close(got, [h * h for h in steps], rtol=1e-9, what="the errors")
    got = errors_of([["times", 20.0], ["exp"]], x, [0.005, 0.01, 0.005])
    slope = 20.0 * math.exp(20.0 * x.max().item())
    expected = [slope * (math.sinh(step) / step - 1.0) for step in (0.1, 0.2, 0.1)]
    check.close(got, expected, rtol=1e-8, what="the errors for exp(20 x), one step given twice")
with check.property("the largest error over all entries, even if tiny, not their mean", weight=2):
    x = check.draw.uniform(5, low=-0.1, high=0.1, dtype=torch.float64)
    x[check.draw.integer(0, 5)] = 2.0
    h = check.draw.number(0.3, 0.6)
    largest = (math.exp(2.0 + h) - math.exp(2.0 - h)) / (2 * h) - math.exp(2.0)
    for size in (1.0, 1e-9):
        got = errors_of([["exp"], ["times", size]], x, [h])
        what = f"the errors for {size:g} exp(x)"
        check.close(got, [size * largest], rtol=1e-11, atol=0.0, what=what)
with check.property(
    "errors are nonnegative, whether the difference is too large or too small", weight=2
):
    x = check.draw.uniform(4, low=0.5, high=1.0, dtype=torch.float64)
    # With a step of 4, the difference does not even have the sign of the derivative.
    steps = [check.draw.number(0.2, 0.5), 4.0]
    expected = [((1 - math.sin(h) / h) * x.cos()).max().item() for h in steps]
    check.close(errors_of([["sin"]], x, steps), expected, rtol=1e-8, what="the errors for sin")
    got = errors_of([["sin"], ["times", -1.0]], x, steps)
    check.close(got, expected, rtol=1e-8, what="the errors for -sin")
with check.property("steps in any order, far too small, or so large that f overflows"):
    x = check.draw.uniform(12, low=1.0, high=2.0, dtype=torch.float64)
    got = errors_of([["square"], ["square"]], x, [1e-13, 0.1, 1e-20, 1e-4])
    check.equal(len(got), 4, what="the number of errors")
    told = f"expected a visible rounding error at step 1e-13, got {got[0]:.1g}"
    check.true(1e-4 < abs(got[0]) < 0.5, told)
    check.close(got[1], 4 * 0.1**2 * x.max().item(), rtol=1e-8, what="the error at a step of 0.1")
    # With so small a step, both points are x, and the difference is 0.
    check.close(got[2], 4 * x.max().item() ** 3, rtol=1e-10, what="the error at a step of 1e-20")
    check.true(got[3] < 1e-6, f"expected an error below 1e-6 at step 1e-4, got {got[3]:.1g}")
    got = errors_of([["exp"]], x, [1000.0, 0.5])
    expected = [math.inf, math.exp(x.max().item()) * (2.0 * math.sinh(0.5) - 1.0)]
    check.close(got, expected, rtol=1e-8, what="the errors for exp, of which the first overflows")
    # Here f is inf on both sides.
    got = errors_of([["square"], ["exp"]], x, [30.0])
    check.close(got, [math.nan], what="the error for exp(x²), which overflows on both sides")
    for x in (torch.tensor(some, dtype=torch.float64) for some in ([1.0, 30.0], [30.0, 1.0])):
        got = errors_of([["square"], ["exp"]], x, [0.5])
        what = "the error for exp(x²), which overflows on both sides for one entry of x"
        check.close(got, [math.nan], what=what)
with check.property("x and steps do not change"):
    x = check.draw.uniform(3, low=1.0, high=2.0, dtype=torch.float64)
    given = [["power", 3]], x, [0.25, 0.5, 0.125]
    calls = check.call(probes.with_formula_again, difference_errors, *given)
    for got, what in zip(
        calls, ("the errors", "a second call with the same x and steps"), strict=True
    ):
        check.close(got, [0.0625, 0.25, 0.015625], rtol=1e-9, what=what)
    # An x that walks by the long step and back would become exactly 1.
    x = check.draw.uniform(4, low=1.04, high=1.06, dtype=torch.float64)
    got = errors_of([["sin"]], x, [1e15, 0.25])
    largest = x.cos().max().item()
    expected = [largest, largest * (1.0 - 4.0 * math.sin(0.25))]
    check.close(
        got, expected, rtol=1e-8, what="the errors for sin, with a far too large step first"
    )
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("steps in another order, including one that is far too small"):
    x = check.draw.uniform(6, low=1.0, high=2.0, dtype=torch.float64)
    steps = [0.125, 1e-13, 0.5, 0.25]
    for h, error in zip(steps, errors_of([["power", 3]], x, steps), strict=True):
        if h > 1e-3:
            check.close(error, h * h, rtol=1e-9, what=f"the error at a step of {h}")
        else:
            told = f"expected a visible rounding error at step {h}, got {error:.1g}"
            check.true(1e-5 < error < 0.5, told)
with check.property("an empty list of steps gives an empty list"):
    check.equal(errors_of([["exp"]], check.draw.normal(3, dtype=torch.float64), []), [])
### END HIDDEN TESTS
check.score()

# %% [markdown]
r"""
If $f$ and $f'''$ have similar sizes, the two errors of a central difference are equal near $h = \epsilon^{1/3}$, where $h^2 = \epsilon / h$. Both are then about $\epsilon^{2/3}$: at best, about two thirds of the digits are correct. Autograd can get all digits right, because it never subtracts two values of $f$.
[`torch.autograd.gradcheck`](https://docs.pytorch.org/docs/stable/generated/torch.autograd.gradcheck.html) compares autograd's gradients with central differences. It expects float64 inputs; its default step is $10^{-6}$.
"""

# %% folded="Figure 0.5: both differences"
x = torch.tensor(1.0, dtype=torch.float64)
central = ((x + tried_steps).exp() - (x - tried_steps).exp()) / (2 * tried_steps)
central_errors = (central / math.e - 1).abs()
figure, axes = new_figure(height=3.0)
for name, found, color, marker in (
    ("forward difference", forward_errors[torch.float64], "blue", "o"),
    ("central difference", central_errors, "green", "^"),
):
    axes.loglog(
        tried_steps, found, marker + "-", ms=3, linewidth=1, color=COLORS[color], label=name
    )
epsilon = torch.finfo(torch.float64).eps
for power, color in ((2, "blue"), (3, "green")):
    label = f"{'√' if power == 2 else '∛'}ε"
    axes.axvline(epsilon ** (1 / power), color=COLORS[color], linestyle=":", label=label)
axes.set(title="Error for exp at 1 in float64", xlabel="step h", ylabel="relative error")
axes.set_ylim(1e-13, 3)
axes.legend(fontsize=9, loc="lower left", ncols=2)
show(
    figure,
    number="0.5",
    caption="The error of the central difference has its minimum at a larger step, near the cube root of ε, and this minimum is far lower.",
    alt="Relative error against the step, both logarithmic, in float64. The forward difference is best near 1e-8, with an error near 1e-8. "
    "The central difference falls twice as steeply and reaches errors near 1e-11 at a step near 6e-6.",
)

# %%
print(f"cube root of epsilon: {epsilon ** (1 / 3):.0e}, squared: {epsilon ** (2 / 3):.0e}")

# %% [markdown]
r"""
## Why the fit stalls

Let $d_0, d_1, d_2$ be the errors of the three weights. Without noise, the loss is the mean of $(d_0 x^2 + d_1 x + d_2)^2$. As a function of the weights, it is an **error surface**, here a bowl whose minimum lies where all errors are 0.
Each **eigenvalue** of the **Hessian**, the matrix of second derivatives, is the curvature, or second derivative, along its eigenvector; in every other direction, the curvature lies between the smallest and the largest.
"""


# %% folded="The Hessian of the fit"
def hessian_of_fit(features, count=200_001):
    """Return the Hessian of the mean squared error over x from -10 to 10."""
    x = torch.linspace(-10, 10, count, dtype=torch.float64)
    columns = features(x)
    return 2 * columns.T @ columns / count


hessian = hessian_of_fit(powers)

# %%
values, vectors = torch.linalg.eigh(hessian)
for value, vector in zip(values.tolist(), vectors.T.tolist(), strict=True):
    direction = ", ".join(f"{abs(part):.2f}" for part in vector)
    print(f"eigenvalue {value:>7.1f}, direction (absolute values, for x², x, 1): {direction}")
print(f"largest / smallest: {values[-1] / values[0]:.0f}")
print(f"what an error of 0.2 along the flattest direction costs: {values[0] * 0.2**2 / 2:.2f}")

# %% folded="Figure 0.6: the bowl, seen from above"
grid0, grid2 = torch.meshgrid(
    torch.linspace(-0.06, 0.06, 121, dtype=torch.float64),
    torch.linspace(-4, 4, 121, dtype=torch.float64),
    indexing="ij",
)
places = torch.stack([grid0, torch.zeros_like(grid0), grid2], dim=-1)
bowl = 0.5 * torch.einsum("ija,ab,ijb->ij", places, hessian, places)
figure, axes = new_figure(width=4.6, height=4.2)
axes.set_box_aspect(1)
lines = {"colors": COLORS["black"], "linewidths": 0.7}
axes.contour(grid0, grid2, bowl, levels=[0.05, 0.3, 1, 3, 8, 15], **lines)
path = errors[200::25]
axes.plot(path[:, 0], path[:, 2], "o-", ms=3, color=COLORS["vermilion"], label="Adam from step 200")
axes.plot([0], [0], "*", ms=11, color=COLORS["blue"], label="minimum")
axes.set(title="The bowl, stretched sideways by a factor of 67", xlabel="error of the weight of x²")
axes.set(ylabel="error of the constant", xlim=(-0.06, 0.06), ylim=(-4, 4))
figure.legend(loc="outside lower center", ncols=2, fontsize=9)
show(
    figure,
    number="0.6",
    caption="Contour lines of the loss against two of the errors, for x spread evenly from −10 to 10. Even with the horizontal axis stretched by a factor of 67, which tilts the ellipses, the bowl is longer than it is wide. Adam's path follows the flattest direction and ends short of the minimum.",
    alt="Tilted ellipses, almost three times as long as wide although the horizontal axis is stretched by a factor of 67. Adam's path runs along the flattest direction toward the minimum and stops short of it.",
)

# %% [markdown]
r"""
The steepest direction is nearly that of the weight of $x^2$, and the flattest nearly that of the constant. The ratio of their curvatures, about 4500, is the **condition number** $\kappa$.
An error $d$ along an eigenvector with eigenvalue $\lambda$ costs $\frac{1}{2} \lambda d^2$: along the flattest direction, an error of 0.2 costs only about 0.02, while the loss started at about 30,000. The constant can be wrong while the loss is small, because **the loss depends far less on the constant** than on the other weights. [Effective PyTorch](https://github.com/vahidk/EffectivePyTorch), the source of this fit, ends with a constant of 3.45 and calls that close.

## Gradient descent in a valley

Drag the start of the optimizer's path over this error surface, or move it with the arrow keys. The solid arrow is the negative gradient at the start; the dashed line leads to the minimum. The plot on the right splits the loss between the two eigenvectors, whose eigenvalues are 1 and $1/\kappa$.
Set the condition number to 1, then raise it step by step: what happens to the arrow, the path, and the loss?
"""

# %%
explore_surface(condition=100, rate=1.8)

# %% [markdown]
r"""
With a condition number of 1, the arrow points to the minimum; in a long valley, it points across the valley from most starting points.
Gradient descent with learning rate $\eta$ multiplies the error along an eigenvector by $1 - \eta\lambda$ in each step. If $\eta > 2/\lambda_{\max}$, the factor for the steepest direction is below −1, and any error along it grows without bound (try a learning rate of 2.1).
At any smaller rate, the factor for the flattest direction exceeds $1 - 2/\kappa$: the steep part of the loss can disappear quickly, but the flat part shrinks slowly.
"""

# %% folded="Measure: gradient descent on the bowl of the fit"
rate = 1.9 / values[-1]  # 95 percent of the largest stable rate
factors = (1 - rate * values).abs()
steps_needed = math.log(0.01) / math.log(factors[0])

# %% folded="Predict: steps of gradient descent"
predict(
    "00/steps",
    "The bowl of our fit has a condition number of about 4500. At 95% of the largest stable learning rate, how many steps of gradient descent reduce the error along the flattest direction to 1% of its initial value?",
    steps_needed,
    "Each step leaves 1 − 1.9/κ of the error, and that factor is very close to 1.",
    between=(0, 20_000),
)

# %% folded="Figure 0.7: three errors under gradient descent"
figure, axes = new_figure(height=3.0)
counts = torch.arange(12_001)
for place, (name, color, style) in enumerate(
    (("flattest", "vermilion", "-"), ("middle", "green", "--"), ("steepest", "blue", "-."))
):
    label = f"{name}, λ = {values[place]:.1f}"
    axes.plot(counts, factors[place] ** counts, style, color=COLORS[color], label=label)
axes.set(title="Errors along the three eigenvectors", xlabel="step of gradient descent")
axes.set(ylabel="fraction of the initial error", ylim=(0, 1.05))
axes.set_xlim(-300, 12_000)
axes.legend(fontsize=9)
show(
    figure,
    number="0.7",
    caption="Gradient descent on the bowl of the fit, at 95% of the largest stable rate. Two of the errors vanish within a few hundred steps, while the third takes more than ten thousand to fall to 1%.",
    alt="The fraction of each error that is left, against the step, up to 12,000. The errors along the steepest and the middle eigenvector drop to 0 at the left edge. "
    "The error along the flattest one decreases slowly, to about 0.4 after 2000 steps and to a hundredth after nearly 11,000.",
)

# %% [markdown]
r"""
## Adam's memory

Adam, which our fit uses, moves each weight against a running average of its gradients, divided by the square root of a running average of their squares (Kingma and Ba). So weights with large and small gradients move at similar speeds. This offsets a large condition number if the steep and flat directions lie along the axes, as they nearly do in our fit.
In the interactive figure, choose Adam, condition number 4500, learning rate 0.05, and 200 steps. From the default start, the error along the flat direction falls from 1 to below 0.0001 if the valley has a tilt of 0°, but only from 0.86 to 0.65 at 25°.

The valley hides the error of our fit, but what stalls Adam is its divisor, that square root. With $\beta_2 = 0.999$, PyTorch's default, the average under the root remembers roughly the last $1/(1 - \beta_2) = 1000$ steps.
"""

# %% folded="Figure 0.8: gradients, and Adam's divisor"
runs = {0.999: (losses, errors, gradients, divisors), 0.99: record(1000, beta2=0.99)}
figure, (left, right) = new_figure(1, 2, sharey=True, height=3.2)
for axes, (beta2, (_, _, slopes, sizes)) in zip((left, right), runs.items(), strict=True):
    counts = range(1, 1001)
    axes.semilogy(counts, slopes[:, 2].abs(), color=COLORS["sky"], linewidth=0.7, label="gradient")
    axes.semilogy(counts, sizes[:, 2], color=COLORS["vermilion"], label="Adam's divisor")
    axes.set(title=f"β₂ = {beta2}", xlabel="step", ylim=(1e-7, 1e3))
left.set_ylabel("absolute value, for the constant")
left.legend(fontsize=9, loc="lower left")
show(
    figure,
    number="0.8",
    caption="With β₂ = 0.999, the divisor still remembers the huge first gradients after 1000 steps, so the steps are far too short. With β₂ = 0.99, it forgets them, and the gradient can fall to almost 0.",
    alt="Two plots of the absolute gradient of the constant and of Adam's divisor against the step. Left, with beta2 0.999: the gradient falls from hundreds to below one, while the divisor falls only to about 30. "
    "Right, with beta2 0.99: the divisor falls to below 1, and the gradient falls further, to a tiny fraction of that.",
)

# %%
early, late = (part.square().mean(dim=0).sqrt() for part in (gradients[:20], gradients[200:]))
for name, ratio in zip(("x²", "x", "1"), (early / late).tolist(), strict=True):
    print(f"{name:>2}: gradients of steps 1 to 20, divided by those after step 200: {ratio:.0e}")
print(f"Adam's divisor for the constant after 1000 steps: {divisors[-1, 2]:.0f}")
for beta2, steps in ((0.999, 1000), (0.99, 1000), (0.999, 2500)):
    worst = record(steps, beta2)[1][-1].abs().max().item()
    print(f"beta2 {beta2}, {steps} steps: all errors below 0.001: {worst < 1e-3}")

# %% [markdown]
r"""
The first gradients are hundreds or, for $x^2$, thousands of times as large as the late ones. The last two lines show two cures: forget faster, or wait. But how would you choose $\beta_2$ or the number of steps when the loss already looks converged?

## Three repairs

**1. Scale the features.** $x^2$ goes up to 100. With $x$ divided by 10, all features lie between −1 and 1, and the bowl is much rounder.
"""

# %%
scaled = torch.linalg.eigvalsh(hessian_of_fit(lambda x: powers(x / 10)))
print(f"condition number with x / 10: {scaled[-1] / scaled[0]:.0f}")
print(f"largest learning rate for gradient descent: {2 / scaled[-1]:.2f}")

# %% [markdown]
"""
Now plain gradient descent is fast enough (Figure 0.9):
"""


# %%
def fit_by_scaled_features(steps=200):
    torch.manual_seed(0)
    weights = torch.randn(3, requires_grad=True)
    optimizer = torch.optim.SGD([weights], lr=0.8)
    for _ in range(steps):
        x, y = draw_points()
        # With the targets divided by 500, the largest true weight is 1.
        loss = functional.mse_loss(powers(x / 10) @ weights, y / 500)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield weights.detach() * 500 / torch.tensor([100.0, 10.0, 1.0])  # in the original units


# %% [markdown]
"""
**2. Let the optimizer learn the shape of the bowl.** [L-BFGS](https://docs.pytorch.org/docs/stable/generated/torch.optim.LBFGS.html) approximates the inverse of the Hessian from past steps and gradients; here, a line search (`strong_wolfe`) chooses the step length. As needed, L-BFGS calls a **closure**, a function that recomputes the loss and its gradient on the same points:
"""


# %%
def fit_by_lbfgs():
    x, y = draw_points()
    weights = torch.randn(3, requires_grad=True)
    optimizer = torch.optim.LBFGS([weights], max_iter=100, line_search_fn="strong_wolfe")
    tried = []

    def closure():
        tried.append(weights.detach().clone())
        optimizer.zero_grad()
        loss = functional.mse_loss(powers(x) @ weights, y)
        loss.backward()
        return loss

    optimizer.step(closure)
    return tried


# %% folded="Figure 0.9: Adam and two repairs"
def worst_errors(fit):
    return [(weights - TRUE_WEIGHTS).abs().max().item() for weights in fit]


torch.manual_seed(0)
by_lbfgs = worst_errors(fit_by_lbfgs())
ways = {
    "the original fit by Adam": errors.abs().amax(dim=1).tolist()[:200],
    "gradient descent, scaled features": worst_errors(fit_by_scaled_features()),
    "L-BFGS": by_lbfgs,
}
for name, worst in ways.items():
    print(f"{name}: below 0.001 within 200 gradients: {min(worst) < 1e-3}")
figure, axes = new_figure(height=3.0)
for (name, worst), color, style in zip(
    ways.items(), ("vermilion", "green", "blue"), ("-", "--", "o-"), strict=True
):
    axes.semilogy(range(1, len(worst) + 1), worst, style, ms=3, color=COLORS[color], label=name)
axes.axhline(1e-3, color=COLORS["black"], linestyle=":", label="0.001")
axes.set(title="The largest error of the three weights", xlabel="gradients computed")
axes.set(ylabel="error", ylim=(1e-6, 1e4))
axes.legend(fontsize=9, ncols=2, loc="upper right")
show(
    figure,
    number="0.9",
    caption="The original fit by Adam, and two repaired fits. A rounder bowl, or an optimizer that learns the bowl's shape, brings the errors of all three weights below 0.001.",
    alt="The largest error of the three weights, logarithmic, against the number of gradients computed, up to 200. Adam falls below 2 and levels off. "
    "Gradient descent with scaled features falls steadily and levels off below 1e-4. L-BFGS drops to about 1e-5 after about a dozen gradients.",
)

# %% [markdown]
r"""
**3. Take no steps at all.** The loss is a quadratic function of the weights, so a formula gives the best weights (**least squares**). [`torch.linalg.lstsq`](https://docs.pytorch.org/docs/stable/generated/torch.linalg.lstsq.html) takes a matrix with one column per feature and a one-column matrix of targets. On a CPU, it silently drops directions that are too small for the dtype (see `rcond`), so it can lose a weight if the columns have very different sizes.
For $y = 2 \sin t - 0.5 \cos t$, the call is:
"""

# %%
t = torch.linspace(0, 6, 40, dtype=torch.float64)
columns = torch.stack([t.sin(), t.cos()], dim=1)
y = 2 * t.sin() - 0.5 * t.cos()
solution = torch.linalg.lstsq(columns, y[:, None]).solution
print("shape:", tuple(solution.shape), " weights:", [round(w, 6) for w in solution[:, 0].tolist()])

# %% [markdown] exercise="fit-polynomial" points=5 minutes=20 difficulty=2
"""
### Fit a polynomial

Write a function that finds every coefficient, even one that hardly affects the loss.

`fit_polynomial(x, y, degree) -> Tensor`

- **In** `x`, `y`: float32 tensors of shape (n,), with at least 50 distinct values of x. Up to rounding, y is a polynomial in x that is not 0 everywhere. The values of x are spread over an interval that contains 0, perhaps as an endpoint; none need be 0. The largest |x| is between 0.1 and 100. `degree`: an integer from 0 to 3.
- **Out**: the coefficients, highest power first, in a float32 tensor of shape (degree + 1,). **Each term by itself**, coefficient times power of x, is accurate to 0.2% of the largest |y|, even where the term is largest. `x` and `y` do not change.
- **Limits**: at most 10 seconds; any method is allowed.

With 100 values of x from −10 to 10, `fit_polynomial(x, 5 * x**2 + 3, degree=2)` returns about `tensor([5., 0., 3.])`.

<!-- hint: Which of the three repairs needs neither a learning rate nor steps? What happens to the columns when x goes up to 100, or only up to 0.1? -->
<!-- hint: Divide x by its largest absolute value, and all columns lie between -1 and 1. Fit with these columns, then divide each coefficient by the matching power of that value. -->
<!-- hint: In float64: `columns = torch.stack([u**k for k in range(degree, -1, -1)], dim=1)`, then `torch.linalg.lstsq(columns, y[:, None]).solution`. -->
"""


# %% solution="fit-polynomial"
def fit_polynomial(x, y, degree):
    """Return the coefficients of the polynomial through the points, the highest power first."""
    ### BEGIN SOLUTION
    size = x.double().abs().max()
    exponents = range(degree, -1, -1)
    columns = torch.stack([(x.double() / size) ** k for k in exponents], dim=1)
    solution = torch.linalg.lstsq(columns, y.double()[:, None]).solution.flatten()
    return torch.stack([c / size**k for c, k in zip(solution, exponents, strict=True)]).float()
    ### END SOLUTION


# %% test="fit-polynomial"
check = Check("fit-polynomial")


def shown(coefficients):
    return ", ".join(f"{c:.5g}" for c in coefficients.tolist())


def fits(coefficients, low, high, what, *, zero=True, even=False, repeats=None):
    """Ask for a fit, and compare term by term, each at the x where it is largest."""
    coefficients = torch.tensor(coefficients, dtype=torch.float64)
    count = 60 + check.draw.integer(0, 30)
    if even:
        # Without 0 in the middle: the two values next to it are half a gap away.
        x = torch.linspace(low, high, count + count % 2)
        if zero:
            x[x.abs().argmin()] = 0.0
    else:
        x = check.draw.uniform(count, low=low, high=high)
        x[-3:] = torch.tensor([low, high, 0.0])
    if repeats:
        in_a_row, in_turn = repeats
        x = x.sort().values.repeat_interleave(in_a_row).repeat(in_turn)
    exponents = range(len(coefficients) - 1, -1, -1)
    y = sum(c * x.double() ** k for c, k in zip(coefficients, exponents, strict=True)).float()
    got = check.call(fit_polynomial, x, y, len(coefficients) - 1)
    is_tensor = isinstance(got, torch.Tensor)
    kind = type(got).__name__
    if is_tensor:
        kind = f"a {str(got.dtype)[6:]} tensor of shape {tuple(got.shape)}"
    expected = f"a float32 tensor of shape ({len(coefficients)},)"
    check.true(kind == expected, f"{what}: {kind} came back, expected {expected}")
    largest = torch.tensor([max(abs(low), abs(high)) ** k for k in exponents], dtype=torch.float64)
    allowed = 2e-3 * y.abs().max().item()
    off = ((got.double() - coefficients).abs() * largest).max().item()
    told = f"{what}: {shown(got)} came back, expected {shown(coefficients)}"
    check.true(off <= allowed, f"{told} (a term is off by {off:.3g}; {allowed:.3g} is allowed)")


def draw_coefficients(*sizes):
    signs = [1 - 2 * check.draw.integer(0, 2) for _ in sizes]
    return [s * size * check.draw.number(0.5, 1.5) for s, size in zip(signs, sizes, strict=True)]


with check.property("the curve of this chapter and similar ones"):
    fits([5.0, 0.0, 3.0], -10.0, 10.0, "5 x² + 3")
    fits(draw_coefficients(5.0, 20.0, 300.0), -10.0, 10.0, "degree 2, from -10 to 10")
with check.property("x and y do not change", weight=0.5):
    x = check.draw.uniform(500, low=-7.0, high=5.0)
    y = check.draw.number(0.5, 1.5) * x.square() - check.draw.number(0.5, 1.5) * x + 2.0
    seen = check.call(probes.after_call, fit_polynomial, x, y, 2)
    check.equal(seen["arguments"][:2], [x, y], what="x and y after the call")
with check.property("constants, lines, and cubics"):
    fits(draw_coefficients(2.0, 3.0), -4.0, 3.0, "degree 1, from -4 to 3")
    fits(draw_coefficients(1.0, 2.0, 5.0, 8.0), -3.0, 2.0, "degree 3, from -3 to 2")
    fits(draw_coefficients(9.0), -3.0, 7.0, "degree 0, from -3 to 7")
    fits(draw_coefficients(0.1, 3.0, 40.0), -50.0, 0.0, "degree 2, from -50 to 0")
    fits(draw_coefficients(0.1, 3.0, 40.0), 0.0, 50.0, "degree 2, from 0 to 50")
    fits(draw_coefficients(0.008, 0.1, 3.0, 40.0), -4.0, 50.0, "degree 3, from -4 to 50")
    sizes = 1.0, 2.0, 5.0, 8.0
    for repeats in ((10, 3), (60, 1)):
        fits(
            draw_coefficients(*sizes), -2.0, 3.0, "degree 3, each x several times", repeats=repeats
        )
    fits(draw_coefficients(2e-9, 3e-9, 5e-9), -3.0, 2.0, "degree 2, with tiny y")
    (constant,) = draw_coefficients(20.0)
    others = [part * 0.02 * constant / 50.0**k for part, k in ((-1, 3), (-1, 2), (1, 1))]
    fits([*others, constant], -8.0, 50.0, "degree 3, y nearly constant", even=True)
    for _ in range(6):  # one of them alone may be lucky
        (size,) = draw_coefficients(1.0)
        terms = [size * part / 50.0**k for part, k in ((32, 3), (-48, 2), (18, 1), (-1, 0))]
        fits(terms, 0.0, 50.0, "degree 3, from 0 to 50, terms that nearly cancel")
    (size,) = draw_coefficients(2.0)
    fits([size, 0.0, 0.0], 0.0, 3.0, "degree 2, x and y begin with 0", even=True)
    fits([-abs(size), 0.0, 0.0], -2.0, 3.0, "degree 2, no y is above 0")
with check.property("|x| up to 100", weight=2):
    fits(draw_coefficients(1e-3, 0.1, 9.0), -100.0, 60.0, "degree 2, from -100 to 60")
    fits(draw_coefficients(1e-4, 1e-2, 1.0, 90.0), -100.0, 100.0, "degree 3, from -100 to 100")
    fits(draw_coefficients(1e-6, 1e-4, 1e-2, 1.0), 0.0, 100.0, "degree 3, from 0 to 100")
    fits(
        draw_coefficients(1.0, 9.0), -100.0, 100.0, "degree 1, without x = 0", even=True, zero=False
    )
with check.property("|x| at most 0.1", weight=2):
    fits(draw_coefficients(300.0, 30.0, 2.0), -0.1, 0.08, "degree 2, from -0.1 to 0.08")
    fits(draw_coefficients(1500.0, 200.0, 25.0, 2.0), -0.09, 0.1, "degree 3, from -0.09 to 0.1")
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("a constant, and a cubic on a short interval"):
    fits(draw_coefficients(7.0), -2.0, 5.0, "degree 0")
    fits(draw_coefficients(2000.0, 100.0, 20.0, 3.0), -0.1, 0.1, "degree 3, from -0.1 to 0.1")
with check.property("intervals that lie mostly on one side"):
    fits(draw_coefficients(0.02, 1.0, 30.0), -5.0, 80.0, "degree 2, from -5 to 80")
### END HIDDEN TESTS
check.score()

# %% [markdown]
r"""
## Modules

A [**module**](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html) registers the parameters of a network so that they can be trained, saved, and moved to a GPU together. This one is a line, $y = ax + b$:
"""


# %%
class Line(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Parameter(torch.rand(1))
        self.b = nn.Parameter(torch.rand(1))

    def forward(self, x):
        return self.a * x + self.b


torch.manual_seed(0)
line = Line()
print("parameters:", [name for name, _ in line.named_parameters()])

# %% [markdown]
"""
Train it on 100 noisy points from the line $5x + 3$:
"""

# %%
x = torch.arange(100, dtype=torch.float32) / 100
y = 5 * x + 3 + torch.rand(100) * 0.3
optimizer = torch.optim.SGD(line.parameters(), lr=0.3)
for _ in range(2000):
    optimizer.zero_grad()
    functional.mse_loss(line(x), y).backward()
    optimizer.step()

# %% folded="Predict: the intercept"
predict(
    "00/intercept",
    "Training converges. What is `line.b` at the end?",
    round(line.b.item(), 2),
    "`torch.rand` draws numbers between 0 and 1, so this noise lies between 0 and 0.3. The intercept absorbs the mean of the noise, about 0.15. `torch.randn` draws noise centered on 0.",
    between=(2.5, 3.5),
)

# %%
print(f"a = {line.a.item():.1f}, b = {line.b.item():.2f}")

# %% [markdown]
r"""
### What a module registers

An `nn.Parameter` is a tensor that requires a gradient by default. Assigning a parameter or a module to an attribute of a module **registers** it, and `register_buffer` registers a **buffer**: a tensor that is saved and moved with the module but not trained, such as a running average (chapter 01). `state_dict()` holds parameters and buffers by name. `nn.Linear(2, 2)` is a layer that computes $xW^\mathsf{T} + b$; its parameters are the 2×2 matrix $W$ and the vector $b$.
"""


# %%
class Five(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Parameter(torch.zeros(2))
        self.b = nn.ModuleList([nn.Linear(2, 2)])
        self.register_buffer("c", torch.zeros(2))
        self.d = torch.zeros(2, requires_grad=True)
        self.e = [nn.Linear(2, 2)]


five = Five()
seen = [name for name, _ in five.named_parameters()]

# %% folded="Predict: what the optimizer gets"
predict(
    "00/registered",
    "Which of the five attributes does `torch.optim.SGD(five.parameters(), lr=0.1)` train?",
    " and ".join(dict.fromkeys(f"`{name.split('.')[0]}`" for name in seen)),
    "Only registered parameters count, whether registered directly or through a registered module.",
    choices=(
        "all five",
        "all but `c`",
        "`a`, `b`, and `d`",
        "`a` and `b`",
        "`a` alone",
    ),
)

# %% folded="Drawing: what is registered, and what is not"
show_drawing(
    "00/module",
    number="0.10",
    caption="PyTorch sees only what a module registers. A plain tensor and a Python list of layers are mere attributes of the Python object.",
    alt="Five attributes of a module. A Parameter and a ModuleList lead to parameters, which the optimizer trains, and to `state_dict` and `to`. A registered buffer leads only to state_dict and to `to`. "
    "A plain tensor and a Python list lead nowhere: they are not trained, not saved, and not moved.",
)

# %%
print("parameters:", seen)
print("state_dict:", list(five.state_dict()))

# %% [markdown]
"""
PyTorch does not warn about `d` and `e`. Put layers in an `nn.ModuleList` or an `nn.Sequential`, which calls its modules one after another. Here, `nn.ReLU` replaces negative numbers with 0:
"""

# %%
model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
for name, parameter in model.named_parameters():
    print(f"{name:<9} shape {tuple(parameter.shape)!s:<9} {parameter.numel():>5} entries")
print("an input of shape (7, 64) becomes", tuple(model(torch.zeros(7, 64)).shape))

# %% [markdown] exercise="linear-module" points=5 minutes=20 difficulty=2
r"""
### A linear layer

To see what a module has to register, write a class that computes $y = xW^\mathsf{T} + b$.

`Linear(inputs, outputs, bias=True)`

- **In** `forward(x)`: `x` of shape (..., inputs), with any number of leading dimensions, even none.
- **Out**: a tensor of shape (..., outputs). Gradients reach `x` and all parameters.
- **Parameters**: `weight`, of shape (outputs, inputs), and `bias`, of shape (outputs,), both float32. Both start with independent random numbers, uniform between $-1/\sqrt{\text{inputs}}$ and $1/\sqrt{\text{inputs}}$ and different in each layer. With `bias=False`, `layer.bias` is `None`, and the `state_dict` holds only `weight`.
- `layer.to(torch.float64)` converts the layer, and its `state_dict` can be loaded into an `nn.Linear`.
- **Limits**: use nothing from PyTorch whose name contains `linear`, such as `nn.Linear` or `functional.linear`, not even in `__init__`. The check reads your code.

If `layer = Linear(2, 1)` has weight `[[1., 2.]]` and bias `[3.]`, `layer(torch.tensor([1.0, 1.0]))` returns `tensor([6.])`.

<!-- hint: What registers a tensor with its module? Which operations on a parameter return a plain tensor? -->
<!-- hint: A Parameter wraps a tensor of random numbers: `torch.rand` is uniform between 0 and 1, so scale and shift it. `@` takes any number of leading dimensions, and a bias of shape (outputs,) broadcasts along the last one. -->
<!-- hint: A module without a bias still needs the attribute: assign None to it, or call `register_parameter` with None. In `forward`, compute `x @ self.weight.T`, and add the bias only if it is not None. -->
"""


# %% solution="linear-module"
class Linear(nn.Module):
    """A linear layer for inputs of shape (..., inputs)."""

    def __init__(self, inputs, outputs, bias=True):
        ### BEGIN SOLUTION
        super().__init__()
        bound = 1 / math.sqrt(inputs)
        self.weight = nn.Parameter(torch.empty(outputs, inputs).uniform_(-bound, bound))
        if bias:
            self.bias = nn.Parameter(torch.empty(outputs).uniform_(-bound, bound))
        else:
            self.register_parameter("bias", None)
        ### END SOLUTION

    def forward(self, x):
        ### BEGIN SOLUTION
        product = x @ self.weight.T
        return product if self.bias is None else product + self.bias
        ### END SOLUTION


# %% test="linear-module"
check = Check("linear-module")


def drawn_state(inputs, outputs, dtype=torch.float32):
    weight = check.draw.normal(outputs, inputs, dtype=dtype)
    return {"weight": weight, "bias": check.draw.normal(outputs, dtype=dtype)}


def by_definition(x, state):
    return functional.linear(x.double(), *(value.double() for value in state.values())).to(x.dtype)


def require_gradients(*rows, bias=True, scale=1.0):
    state, x, grad_output = (
        drawn_state(5, 3),
        check.draw.normal(*rows, 5),
        check.draw.normal(*rows, 3),
    )
    state["bias"] *= scale
    state = state if bias else {"weight": state["weight"]}
    steps = [("load", state), ("gradient", x, grad_output)]
    _, got = check.call(probes.module, Linear, 5, 3, bias=bias, steps=steps)
    leaves = [value.double().requires_grad_(True) for value in (x, *state.values())]
    slopes = torch.autograd.grad(functional.linear(*leaves), leaves, grad_output.double())
    by_x, *by_parameters = (slope.float() for slope in slopes)
    check.close(got["gradient"], by_x, atol=1e-5, what="the gradient with respect to x")
    expected = dict(zip(state, by_parameters, strict=True))
    check.close(
        got["parameters"], expected, atol=1e-5, what="the gradients with respect to the parameters"
    )


def require_float64(*rows):
    state, x = drawn_state(5, 3, torch.float64), check.draw.normal(*rows, 5, dtype=torch.float64)
    steps = [("call", x.float()), ("to", "float64"), ("load", state), ("call", x)]
    *_, got = check.call(probes.module, Linear, 5, 3, steps=steps)
    check.close(got, by_definition(x, state), rtol=1e-12)


def starts_uniform(inputs, outputs, near):
    """Return a new layer's parameters; the largest, times √inputs, lies between ``near`` and 1."""
    (parameters,) = check.call(probes.module, Linear, inputs, outputs, steps=[("parameters",)])
    names = ", ".join(sorted(parameters))
    check.equal(names, "bias, weight", what="the names of the parameters")
    is_long = outputs >= 20_000
    for name, value in parameters.items():
        different = value.unique().numel() / value.numel()
        check.true(different > 0.9, f"only {different:.0%} of the numbers in {name} are distinct")
        scaled = value.detach().double() * math.sqrt(inputs)
        low, high = scaled.min().item(), scaled.max().item()
        check.true(
            -1.0001 < low < -near, f"the smallest {name}, times √inputs, is {low:.3f}, not about -1"
        )
        check.true(
            near < high < 1.0001, f"the largest {name}, times √inputs, is {high:.3f}, not about 1"
        )
        spread = scaled.std().item()
        check.true(
            0.5 < spread < 0.65,
            f"the spread of {name}, times √inputs, is {spread:.2f}, not about 0.58",
        )
        gaps = value.detach().flatten().double().sort().values.diff()
        check.true(
            (gaps.std() > 0.5 * gaps.mean()).item(), f"the numbers in {name} are evenly spaced"
        )
        for start in (-1.0, -0.5, 0.0, 0.5) if is_long else ():
            share = ((scaled >= start) & (scaled < start + 0.5)).double().mean().item()
            told = (
                f"{share:.1%} of the numbers in {name}, times √inputs, lie between {start:g} and "
            )
            check.true(abs(share - 0.25) < 0.018, f"{told}{start + 0.5:g}, not about 25%")
    if is_long:
        columns = torch.cat([parameters["bias"][None], parameters["weight"].T]).detach().double()
        alike = torch.corrcoef(columns).fill_diagonal_(0.0).abs().max().item()
        told = "of bias and the columns of weight, two have a correlation of"
        check.true(alike < 0.1, f"{told} {alike:.2f}, not about 0")
    return parameters


with check.property("computes x Wᵀ + b without nn.Linear or functional.linear"):
    state, x = drawn_state(5, 3), check.draw.normal(4, 5)
    (own,) = check.call(probes.module, Linear, 5, 3, steps=[("state",)])
    check.equal(sorted(own), sorted(state), what="the names in the state_dict")
    _, got = check.call(probes.module, Linear, 5, 3, steps=[("load", state), ("call", x)])
    check.close(got, by_definition(x, state))
    state = {**drawn_state(5, 4), "weight": check.draw.normal(4, 4, equal_sizes=True)}
    x = check.draw.normal(3, 4)
    _, got = check.call(probes.module, Linear, 4, 4, steps=[("load", state), ("call", x)])
    check.close(got, by_definition(x, state), what="with as many outputs as inputs")
    check.written_without("*linear*", any_text=False)
with check.property("parameters: names, shapes, dtypes", weight=2):
    (parameters,) = check.call(probes.module, Linear, 7, 4, steps=[("parameters",)])
    shapes = {name: [*value.shape, str(value.dtype)[6:]] for name, value in parameters.items()}
    check.equal(shapes, {"weight": [4, 7, "float32"], "bias": [4, "float32"]})
with check.property("parameters start as uniform random numbers between -1/√inputs and 1/√inputs"):
    starts_uniform(check.draw.integer(4, 9), 20_000, 0.995)
    parameters = starts_uniform(400, 300, 0.9)
    sizes = {name: value.detach().abs() for name, value in parameters.items()}
    shared = torch.isin(sizes["bias"], sizes["weight"]).double().mean().item()
    check.true(
        shared < 0.5, f"{shared:.0%} of the bias's numbers, up to sign, also occur in weight"
    )
    alike = torch.corrcoef(parameters["weight"].detach().double()).fill_diagonal_(0.0).abs().max()
    alike = alike.item()
    check.true(alike < 0.5, f"two rows of weight have a correlation of {alike:.2f}, not about 0")
with check.property("without a bias"):
    x, weight = check.draw.normal(3, 6), check.draw.normal(2, 6)
    steps = [("state",), ("load", {"weight": weight}), ("call", x)]
    state, _, got = check.call(probes.module, Linear, 6, 2, bias=False, steps=steps)
    check.equal(list(state), ["weight"], what="the names in the state_dict")
    check.close(got, by_definition(x, {"weight": weight}))
with check.property("bias=False leaves bias None", weight=0.5):
    # By position first; then by name, for the report to say what was called.
    check.call(probes.module, Linear, 6, 2, False, steps=[("state",)])
    is_none = check.call(probes.is_none, Linear, "bias", inputs=6, outputs=2, bias=False)
    told = "Linear(6, 2, bias=False).bias is not None, or there is no such attribute"
    check.true(is_none, told)
with check.property("inputs with any number of leading dimensions"):
    state = drawn_state(4, 6)
    for shape in ((4,), (5, 4), (2, 3, 4), (2, 1, 3, 4)):
        x = check.draw.normal(*shape)
        _, got = check.call(probes.module, Linear, 4, 6, steps=[("load", state), ("call", x)])
        check.close(got, by_definition(x, state), what=f"for x of shape {shape}")
    one, wide = drawn_state(4, 1), drawn_state(1, 3)
    for shape in ((4,), (5, 4), (2, 3, 4)):
        x = check.draw.normal(*shape)
        _, got = check.call(probes.module, Linear, 4, 1, steps=[("load", one), ("call", x)])
        check.close(got, by_definition(x, one), what=f"with one output, for x of shape {shape}")
    x = check.draw.normal(5, 1)
    _, got = check.call(probes.module, Linear, 1, 3, steps=[("load", wide), ("call", x)])
    check.close(got, by_definition(x, wide), what="with one input")
    x = check.draw.normal(2, 3, 4).transpose(0, 1)
    _, got = check.call(probes.module, Linear, 4, 6, steps=[("load", state), ("call", x)])
    check.close(got, by_definition(x, state), what="for x of shape (3, 2, 4), not contiguous")
with check.property("gradients reach weight, bias, and input, even with a bias of zeros"):
    require_gradients(7)
    require_gradients(7, scale=0.0)
with check.property("two layers start with different numbers; float64 stays float64"):
    first, second = (
        check.call(probes.module, Linear, 30, 20, steps=[("state",)])[0] for _ in range(2)
    )
    for name in first:
        same = torch.equal(first[name], second[name])
        check.true(not same, f"two layers start with the same {name}")
    require_float64(4)
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("gradients through several dimensions, without a bias"):
    require_gradients(2, 4, bias=False)
with check.property("float64 with several dimensions"):
    require_float64(2, 1, 4)
### END HIDDEN TESTS
check.score()

# %% [markdown]
"""
## Counting parameters

A **frozen** parameter (`requires_grad_(False)`) is not trained, and a buffer is not a parameter. A **tied** parameter is used in several places: some language models use one matrix for both input embeddings and output scores
([Press and Wolf, 2017](https://arxiv.org/abs/1608.05859)). `nn.Embedding` looks up a row of its weight for each word.
"""

# %%
reader, writer = nn.Embedding(1000, 16), nn.Linear(16, 1000, bias=False)
writer.weight = reader.weight
model = nn.Sequential(reader, writer)
print("state_dict:", {name: tuple(value.shape) for name, value in model.state_dict().items()})
print("both names refer to one tensor:", reader.weight is writer.weight)

# %% [markdown]
"""
Counting the `state_dict`'s entries would count the matrix twice.
"""

# %% [markdown] exercise="count-parameters" points=4 minutes=10 difficulty=1
"""
### Count the parameters

Each trained parameter needs memory for its gradient and, with Adam, for the optimizer's state (chapter 11).

`count_parameters(model) -> tuple[int, int]`

- **In** `model`: an `nn.Module` with any modules inside; parameters may be frozen or tied.
- **Out**: how many entries are trained, and how many are frozen. A tied parameter counts once; buffers do not count.
- **Limits**: do not change the model, its gradients, what is frozen, or any module's mode (training or evaluation, set by `train()` and `eval()`; chapter 01).

`count_parameters(nn.Linear(3, 2))` returns `(8, 0)`. Once its weight is frozen, the result is `(2, 6)`.

<!-- hint: Which method of a module walks through all modules inside and yields each parameter once? -->
<!-- hint: `model.parameters()` gives every parameter once, even a tied one, and no buffers. Each has a flag that tells whether it is trained. -->
<!-- hint: Two sums of `p.numel()` over `model.parameters()`, one where `p.requires_grad` is true and one where it is not. -->
"""


# %% solution="count-parameters"
def count_parameters(model):
    """Return how many entries of the model's parameters are trained, and how many are frozen."""
    ### BEGIN SOLUTION
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    return trained, sum(p.numel() for p in model.parameters()) - trained
    ### END SOLUTION


# %% test="count-parameters"
check = Check("count-parameters")


def counts(layers, *expected, **options):
    got = check.call(probes.with_network, count_parameters, layers, **options)
    check.equal(got, expected, what="trained and frozen entries")


def leaves_alone(modes, left_over=0.25):
    """Count, and train the model afterward: the call must leave no trace in it."""
    model = nn.Sequential(nn.Linear(a, b), nn.BatchNorm1d(b), nn.Dropout(0.3), nn.Linear(b, 2))
    state = {n: check.draw.uniform(*v.shape, low=0.1) for n, v in model.state_dict().items()}
    state["1.num_batches_tracked"] = torch.tensor(check.draw.integer(3, 90))
    for part, mode in zip(model.modules(), modes, strict=True):
        part.training = mode
    inputs, slope = check.draw.normal(c, a), check.draw.normal(c, 2)
    seed, frozen = check.draw.integer(0, 2**31), ["0.weight", "3.bias"]
    got = check.call(
        probes.network_then_trained,
        count_parameters,
        [["Linear", a, b], ["BatchNorm1d", b], ["Dropout", 0.3], ["Linear", b, 2]],
        **{"inputs": inputs, "slope": slope, "seed": seed},
        **{"state": state, "training": modes, "frozen": frozen},
        **{"left_over": left_over, "untouched": True},
    )
    check.equal(got["output"], (5 * b, a * b + 2), what="trained and frozen entries")
    model.load_state_dict(state)
    output = check.with_seed(seed, model, inputs)
    (output * slope).sum().backward()
    check.close(
        got["next"],
        output.detach(),
        rtol=1e-3,
        atol=1e-4,
        what="the model's output afterward, in the modes its modules had before",
    )
    expected = dict(model.state_dict())
    for name, weight in model.named_parameters():
        # Each has what was left over in .grad, whether frozen or not.
        start = weight - 0.5 * (left_over or 0.0)
        still, moved = ((start - by * weight.grad).detach() for by in (0.0, 0.5))
        expected[name], other = (still, moved) if name in frozen else (moved, still)
        was, does = ("was", "learns") if name in frozen else ("was not", "does not learn")
        told = f"{name} {was} frozen before the call, but {does} after it"
        shows = (still - moved).abs().max().item() > 0.05  # a bias before a BatchNorm never moves
        check.true(not (shows and torch.allclose(got["state"][name], other, atol=1e-3)), told)
    check.close(
        got["state"],
        expected,
        rtol=1e-3,
        atol=1e-3,
        what="the model's state after a step on its old gradients plus new ones",
    )


a, b, c = (check.draw.integer(3, 6), check.draw.integer(7, 11), check.draw.integer(12, 20))
with check.property("weights and biases of all layers, including nested ones"):
    counts([["Linear", a, b], ["ReLU"], ["Linear", b, c]], a * b + b + b * c + c, 0)
    # The card's own model, which has no modules inside, and one in float64.
    counts(["Linear", 3, 2], 8, 0)
    layers = [["Embedding", c, a], ["Linear", a, b], ["Linear", b, c]]
    counts(layers, c * a + a * b + b + b * c + c, 0, dtype="float64")
    counts(
        [[["Linear", a, b], [["Linear", b, c]]], ["Conv2d", 2, 5, 3]], a * b + b + b * c + c + 95, 0
    )
    # A module that has parameters of its own, under other names, and a layer inside.
    counts([["MultiheadAttention", 4 * a, 2]], 4 * (4 * a) ** 2 + 4 * (4 * a), 0)
    counts(["MultiheadAttention", 4 * a, 2], 4 * (4 * a) ** 2 + 4 * (4 * a), 0)
    # A parameter of shape () has one entry.
    counts([["ParameterList", [torch.tensor(2.0), torch.ones(a, 1, b)]]], 1 + a * b, 0)
with check.property("frozen parameters are counted separately, whenever frozen", weight=2):
    layers = [["Linear", a, b], ["Linear", b, c]]
    counts(layers, b * c + c, a * b + b, frozen=["0.weight", "0.bias"])
    counts(layers, a * b + b + c, b * c, frozen=["1.weight"])
    counts(["Linear", 3, 2], 2, 6, frozen=["weight"])
    first, second = check.call(
        probes.with_network_twice, count_parameters, ["Linear", a, b], frozen_later=["weight"]
    )
    check.equal(first, (a * b + b, 0), what="trained and frozen entries")
    what = "trained and frozen entries of the same model, once its weight is frozen"
    check.equal(second, (b, a * b), what=what)
    counts(["Linear", a, b], 0, a * b + b, frozen=["weight", "bias"])
    counts([["PReLU", a], ["GRU", a, b]], 3 * b * (a + b + 2), a, frozen=["0.weight"])
with check.property("buffers do not count"):
    counts([["Linear", a, b], ["BatchNorm1d", b]], a * b + 3 * b, 0)
    # Without its weight and bias, a BatchNorm has buffers alone.
    counts([["BatchNorm1d", b, 1e-5, 0.1, False]], 0, 0)
with check.property("a tied parameter counts once", weight=2):
    layers = [["Embedding", c, a], ["Linear", a, b], ["Linear", b, a], ["Linear", a, c]]
    tied = [("0.weight", "3.weight")]
    counts(layers, c * a + 2 * a * b + b + a + c, 0, tied=tied)
    counts(layers, 2 * a * b + b + a + c, c * a, tied=tied, frozen=["0.weight"])
with check.property("equal sizes or equal values do not make parameters tied"):
    counts([["Linear", a, a], ["Linear", a, a]], 2 * (a * a + a), 0)
    counts([["BatchNorm1d", b], ["BatchNorm1d", b]], 4 * b, 0)
with check.property(
    "the model, its gradients, and its modes do not change, nor does later training"
):
    # The model itself, then its layers: a BatchNorm in eval mode, or a Linear and the dropout.
    leaves_alone([True, True, False, True, True])
    leaves_alone([True, False, True, False, True])
    leaves_alone([False, False, True, True, False], left_over=None)  # eval() freezes nothing
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("a model in eval mode stays so, and its frozen parameters stay frozen"):
    leaves_alone([False] * 5)
with check.property("equal sizes and values, frozen and tied"):
    layers = [["Linear", a, a], ["Linear", a, a], ["Linear", a, a]]
    counts(layers, 3 * (a * a + a), 0)
    counts([["LayerNorm", c], ["Tanh"], ["LayerNorm", c]], 4 * c, 0)
    tied = [("0.weight", "2.weight")]
    counts(layers, a * a + 3 * a, a * a, tied=tied, frozen=["0.weight"])
with check.property("a model without parameters"):
    counts([["ReLU"], ["Tanh"]], 0, 0)
### END HIDDEN TESTS
check.score()

# %% [markdown]
r"""
## Bug hunt: two players

A **generator** turns noise into numbers. A **discriminator** learns to give high scores to real numbers and low scores to generated ones (Goodfellow et al.). A score $s$ costs the discriminator $\ln(1 + e^{-s})$, or `softplus(-s)`, for a real number and $\ln(1 + e^s)$ for a generated one. A score of 0, a guess, costs $\ln 2 \approx 0.69$.
The generator learns to get high scores: its loss is $\ln(1 + e^{-s})$ for each generated number.
"""


# %% tags=["needed"]
def generator_loss(made_scores):
    return functional.softplus(-made_scores).mean()


def discriminator_loss(real_scores, made_scores):
    return functional.softplus(-real_scores).mean() + functional.softplus(made_scores).mean()


# %% [markdown]
"""
Each training step updates the generator, then the discriminator:
"""


# %%
def first_step(generator, discriminator, generator_optimizer, discriminator_optimizer, noise, real):
    generator_optimizer.zero_grad()
    discriminator_optimizer.zero_grad()

    made = generator(noise)
    generator_loss(discriminator(made)).backward()
    generator_optimizer.step()

    made = generator(noise).detach()
    discriminator_loss(discriminator(real), discriminator(made)).backward()
    discriminator_optimizer.step()


# %% [markdown]
"""
With a learning rate of 0 for the generator, its numbers stay around −1, easy to tell from the real ones around 1. The discriminator's loss should approach 0.
"""


# %% folded="Watch the discriminator for 200 steps"
def watch_discriminator(step, steps=200):
    """Return the discriminator's loss before each step."""
    torch.manual_seed(0)
    generator, discriminator = nn.Linear(1, 1), nn.Linear(1, 1)
    with torch.no_grad():
        generator.weight.fill_(0.3)
        generator.bias.fill_(-1.0)
    generator_optimizer = torch.optim.SGD(generator.parameters(), lr=0.0)
    discriminator_optimizer = torch.optim.SGD(discriminator.parameters(), lr=0.2)
    found = []
    for _ in range(steps):
        noise, real = torch.randn(64, 1), 1 + 0.3 * torch.randn(64, 1)
        with torch.no_grad():
            made_scores = discriminator(generator(noise))
            found.append(discriminator_loss(discriminator(real), made_scores).item())
        step(generator, discriminator, generator_optimizer, discriminator_optimizer, noise, real)
    return found


# %%
wild = watch_discriminator(first_step)
print(f"loss of a discriminator that guesses: {2 * math.log(2):.2f}")
print(f"loss of this discriminator before step 200: {wild[-1]:.1f}")

# %% folded="Figure 0.11: a discriminator with an easy task"
figure, axes = new_figure(height=2.8)
axes.plot(range(1, 201), wild, color=COLORS["vermilion"], label="the step above")
axes.axhline(2 * math.log(2), color=COLORS["black"], linestyle=":", label="guessing, 2 ln 2")
axes.set(title="A discriminator with an easy task", xlabel="step", ylabel="loss", ylim=(0, 2.7))
axes.legend()
show(
    figure,
    number="0.11",
    caption="The discriminator's loss falls below that of guessing and then levels off, far from 0.",
    alt="The discriminator's loss against the step. It falls below the dotted line for guessing, 1.39, and then levels off near 0.8.",
)

# %% [markdown] exercise="bug-hunt-two-players" points=4 minutes=20 difficulty=2
"""
### Bug hunt: two players

Find out why the discriminator's loss levels off. Then correct the step so that both networks learn.

`adversarial_step(generator, discriminator, generator_optimizer, discriminator_optimizer, noise, real) -> None`

- **In**: two modules, each with trainable and perhaps frozen parameters; for each, an optimizer of all its parameters, with any settings (momentum, weight decay, parameter groups), that needs no closure; `noise`, the generator's input; `real`, the real numbers.
- **Out**: nothing.
  1. The generator takes one optimizer step on `generator_loss(discriminator(generator(noise)))`.
  2. The discriminator takes one on `discriminator_loss`, from its scores for `real` and for the updated generator's output on the same `noise`.
- **Limits**: neither step changes the other network's parameters. Every module runs in its own mode (training or evaluation). Afterward, every mode and every `requires_grad` is as before. Ignore any gradients already stored, even those of frozen parameters.

`watch_discriminator(adversarial_step)[-1]` returns about `0.05`, not `0.8`.

<!-- hint: Print the gradient of the discriminator's weight just before its optimizer steps. Then compute the gradient of the discriminator's loss alone. Where does the difference come from? -->
<!-- hint: The generator's loss goes through the discriminator. What does `backward` leave behind in every leaf that it reaches, and when is that cleared? -->
<!-- hint: Move the line that clears the discriminator's gradients to just before the backward pass of its own loss. -->
"""


# %% solution="bug-hunt-two-players"
def adversarial_step(
    generator, discriminator, generator_optimizer, discriminator_optimizer, noise, real
):
    """Update the generator once, then the discriminator."""
    ### BEGIN SOLUTION
    generator_optimizer.zero_grad()
    generator_loss(discriminator(generator(noise))).backward()
    generator_optimizer.step()

    made = generator(noise).detach()
    discriminator_optimizer.zero_grad()
    discriminator_loss(discriminator(real), discriminator(made)).backward()
    discriminator_optimizer.step()
    ### END SOLUTION


# %% test="bug-hunt-two-players"
check = Check("bug-hunt-two-players")
PLAYERS = {
    "generator": [["Linear", 2, 4], ["Tanh"], ["Linear", 4, 3]],
    "discriminator": [["Linear", 3, 5], ["Tanh"], ["Linear", 5, 1]],
}


def draw_player(layers):
    sizes = [layer[1:] for layer in layers if layer[0] == "Linear"]
    state = {}
    for place, (inputs, outputs) in zip((0, 2), sizes, strict=True):
        state[f"{place}.weight"] = check.draw.normal(outputs, inputs)
        state[f"{place}.bias"] = check.draw.normal(outputs)
    return state


def output_of(state, x):
    hidden = torch.tanh(functional.linear(x, state["0.weight"], state["0.bias"]))
    return functional.linear(hidden, state["2.weight"], state["2.bias"])


class ByHand:
    """One player of the reference game: SGD with momentum, for what is not frozen."""

    def __init__(self, state, rates, momentum, decay, frozen):
        self.state, self.momentum, self.decay = state, momentum, decay
        rates = rates if isinstance(rates, list) else [rates] * len(state)
        self.rates = dict(zip(state, rates, strict=True))
        self.learned = [name for name in state if name not in frozen]
        self.velocity = {name: torch.zeros_like(value) for name, value in state.items()}

    def move(self, loss_of):
        learned = {name: self.state[name] for name in self.learned}
        slopes = torch.func.grad(lambda given: loss_of({**self.state, **given}))(learned)
        for name, slope in slopes.items():
            slope = slope + self.decay * self.state[name]
            self.velocity[name] = self.momentum * self.velocity[name] + slope
            self.state[name] = self.state[name] - self.rates[name] * self.velocity[name]


def step_by_hand(generator, discriminator, noise, real, silent):
    if silent == "discriminator":
        return  # its scores are 0, whatever the parameters are
    if not silent:
        generator.move(
            lambda state: generator_loss(output_of(discriminator.state, output_of(state, noise)))
        )
    made = torch.zeros_like(real) if silent else output_of(generator.state, noise)
    discriminator.move(
        lambda state: discriminator_loss(output_of(state, real), output_of(state, made))
    )


def as_module(layers, state, training, in_eval, frozen):
    network = nn.Sequential(*(getattr(nn, name)(*sizes) for name, *sizes in layers))
    network.load_state_dict(state)
    for name, weight in network.named_parameters():
        weight.requires_grad_(name not in frozen)
    network.train(training)
    for name in in_eval:
        network.get_submodule(name).eval()
    return network


def plays(
    rounds,
    rates,
    left_over=None,
    momentum=0.0,
    decay=0.0,
    training=True,
    in_eval=(),
    dropout=(),
    frozen=(),
    silent=None,
):
    """Play, and compare; a silent player drops out all that it makes, so it never learns."""
    layers = {name: [*kind, *dropout] for name, kind in PLAYERS.items()}
    if silent:
        layers[silent].append(["Dropout", 1.0])
    states = {name: draw_player(kind) for name, kind in PLAYERS.items()}
    batches = [(check.draw.normal(8, 2), check.draw.normal(6, 3, mean=1.0)) for _ in range(rounds)]
    # Afterward each learns something else, for itself: a row of inputs and a gradient for each.
    then = [(check.draw.normal(40, 2), check.draw.normal(40, 3))]
    then += [(check.draw.normal(50, 3), check.draw.normal(50, 1))]
    seed = check.draw.integer(0, 2**31)
    got = check.call(
        probes.adversarial_steps,
        adversarial_step,
        *layers.values(),
        batches,
        states=list(states.values()),
        learning_rates=rates,
        left_over=left_over,
        momentum=momentum,
        weight_decay=decay,
        training=training,
        in_eval=list(in_eval),
        frozen=list(frozen),
        then=then,
        seed=seed,
    )
    rates = dict(zip(PLAYERS, rates, strict=True))
    players = {n: ByHand(state, rates[n], momentum, decay, frozen) for n, state in states.items()}
    pairs = zip(got["states"], batches, strict=True)
    for number, (seen, (noise, real)) in enumerate(pairs, start=1):
        step_by_hand(*players.values(), noise, real, silent)
        for name, player in players.items():
            # The frozen ones first: they must not move at all.
            for key in sorted(player.state, key=lambda key: key not in frozen):
                kind = "frozen " if key in frozen else ""
                what = f"the {name}'s {kind}{key} after step {number}"
                check.close(seen[name][key], player.state[key], rtol=1e-3, atol=1e-4, what=what)
    for name, (inputs, slope) in zip(PLAYERS, then, strict=True):
        before, after = got["states"][-1][name], got["then"][name]["state"]
        network = as_module(layers[name], before, training, in_eval, frozen)
        output = check.with_seed(seed, network, inputs)
        (output * slope).sum().backward()
        mode = f"{'training' if training else 'evaluation'} mode"
        mode += " (its dropout in evaluation mode)" if in_eval else ""
        what = f"the output for new inputs of the {name}, which started in {mode}"
        check.close(got["then"][name]["next"], output.detach(), rtol=1e-3, atol=1e-4, what=what)
        for key, weight in network.named_parameters():
            moved = not torch.equal(after[key], before[key])
            was, does = ("was", "learns") if moved else ("was not", "does not learn")
            told = f"the {name}'s {key} {was} frozen before your steps, but {does} after them"
            learns = key not in frozen and name != silent
            check.true(moved == learns, told)
            expected = (weight if key in frozen else weight - 0.5 * weight.grad).detach()
            what = f"the {name}'s {key} after one more step, on another loss"
            check.close(after[key], expected, rtol=1e-3, atol=1e-3, what=what)
    return got


with check.property("one step of each network"):
    returned = plays(1, [0.5, 0.5])["returned"]
    check.true(returned == "NoneType", f"a {returned} came back, expected nothing")
with check.property("three steps in a row", weight=2):
    plays(3, [0.3, 0.4])
with check.property("a generator with a learning rate of 0", weight=2):
    plays(2, [0.0, 0.5])
with check.property(
    "gradients stored before the call are ignored; momentum, and a learning rate for each group"
):
    plays(1, [0.4, 0.3], left_over=5.0)
    plays(3, [0.2, 0.3], momentum=0.6)
    plays(2, [[0.0, 0.4, 0.3, 0.2], [0.0, 0.3, 0.2, 0.4]])
with check.property("frozen parameters do not move, and stay frozen"):
    plays(2, [0.3, 0.4], momentum=0.5, frozen=["0.weight"])
    plays(1, [0.3, 0.4], frozen=["0.bias", "2.bias"])
    plays(2, [0.3, 0.4], left_over=5.0, decay=0.1, frozen=["0.bias"])
with check.property("both networks can be trained afterward, in the modes they had before"):
    # With rates of 0, no parameter moves, whatever dropout leaves out.
    for training, in_eval in ((True, []), (False, []), (True, ["3"])):
        plays(1, [0.0, 0.0], training=training, in_eval=in_eval, dropout=[["Dropout", 0.5]])
    # In training mode, a silent player makes only zeros; in evaluation mode, it does not.
    plays(1, [0.4, 0.3], silent="generator")
    plays(1, [0.4, 0.3], silent="discriminator")
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("a discriminator with a learning rate of 0, and a longer game"):
    plays(2, [0.5, 0.0], left_over=-3.0)
    plays(6, [0.2, 0.2])
with check.property("networks in evaluation mode, and other frozen parameters"):
    plays(2, [0.3, 0.3], training=False, dropout=[["Dropout", 0.5]])
    plays(2, [0.2, 0.3], momentum=0.4, frozen=["2.weight"])
### END HIDDEN TESTS
check.score()

# %% [markdown]
"""
<details><summary>The bug (open this once you have found it)</summary>

The generator's backward pass goes through the discriminator and adds to its `.grad`, which was cleared *before* that pass. So the discriminator also follows the gradient of the generator's loss. For generated numbers, the two gradients pull in opposite directions and balance around a score of 0. That score by itself costs $\ln 2$.

Clear a network's gradients right before the backward pass or passes of its own loss, as PyTorch's [DCGAN tutorial](https://docs.pytorch.org/tutorials/beginner/dcgan_faces_tutorial.html) does. Or pass the generator's unfrozen parameters to `torch.autograd.grad` or `backward(inputs=...)`. Or freeze the discriminator while the generator learns, and afterward unfreeze only what was not frozen before.
</details>
"""

# %% [markdown]
"""
## In the wild

| what | where to look it up |
| --- | --- |
| derivatives | [`torch.func.grad`, `torch.func.vmap`](https://docs.pytorch.org/docs/stable/func.html); JAX has [`jax.grad`](https://docs.jax.dev/en/latest/automatic-differentiation.html) |
| tensors and NumPy | [`torch.as_tensor`](https://docs.pytorch.org/docs/stable/generated/torch.as_tensor.html) shares memory where it can |
| least squares | [`numpy.polynomial.Polynomial.fit`](https://numpy.org/doc/stable/reference/generated/numpy.polynomial.polynomial.Polynomial.fit.html) scales x to the interval from −1 to 1 |
| scaling inputs | scikit-learn's [`StandardScaler`](https://scikit-learn.org/stable/modules/generated/sklearn.preprocessing.StandardScaler.html), Keras's [`Normalization`](https://keras.io/api/layers/preprocessing_layers/numerical/normalization/) |
"""

# %% [markdown]
r"""
## Recap

1. `from_numpy` and `.numpy()` share memory; `torch.tensor` copies.
2. Even at the best step, a central difference loses about a third of the digits.
3. A small loss does not mean correct weights: gradient descent learns the flattest direction last.
4. Scale the features, let the optimizer learn the shape of the surface, or solve for the minimum.
5. PyTorch sees only what a module registers.
6. `backward` adds to the `.grad` of every leaf that it reaches; `zero_grad` clears only the `.grad` of its own optimizer's parameters.

### Test yourself

<details><summary>1. A forward difference is computed in float32 with h = 1e-6 where f, x, and the derivative are near 1. How accurate is it?</summary>

It has one or two correct digits: dividing f's rounding error, up to about 1e-7, by h gives up to 0.1.
</details>

<details><summary>2. <code>a = torch.zeros(3); b = a.numpy(); a += 1</code>. What does b contain? And after <code>a = a + 1</code>?</summary>

Ones: the in-place addition writes into the shared memory. Still ones: `a` is now a new tensor.
</details>

<details><summary>3. One feature goes up to 5000; another is a fraction between 0 and 1. Which weight does gradient descent learn last?</summary>

The fraction's weight: its eigenvalue is smaller by a factor of about 5000².
</details>

### References

- PyTorch documentation, ["Autograd mechanics"](https://docs.pytorch.org/docs/stable/notes/autograd.html).
- V. Kazemi, ["Effective PyTorch"](https://github.com/vahidk/EffectivePyTorch).
- A. G. Baydin, B. A. Pearlmutter, A. A. Radul, J. M. Siskind, "Automatic Differentiation in Machine Learning: a Survey", [arXiv:1502.05767](https://arxiv.org/abs/1502.05767), 2018.
- W. H. Press et al., *Numerical Recipes*, 3rd edition, Cambridge 2007, section 5.7.
- J. Nocedal, S. J. Wright, *Numerical Optimization*, 2nd edition, Springer 2006, chapters 3 (conditioning and steepest descent) and 7 (L-BFGS).
- D. P. Kingma, J. Ba, "Adam: A Method for Stochastic Optimization", [arXiv:1412.6980](https://arxiv.org/abs/1412.6980), 2014.
- I. Goodfellow et al., "Generative Adversarial Networks", [arXiv:1406.2661](https://arxiv.org/abs/1406.2661), 2014.
- O. Press, L. Wolf, "Using the Output Embedding to Improve Language Models", [arXiv:1608.05859](https://arxiv.org/abs/1608.05859), EACL 2017.

### Glossary

| English | 中文 | meaning |
| --- | --- | --- |
| tensor | 张量 | an array of numbers of one type |
| shape | 形状 | the lengths of a tensor's dimensions |
| rank | 阶（维数） | the number of dimensions |
| dtype | 数据类型 | the type of a tensor's numbers |
| automatic differentiation | 自动微分 | derivatives computed from code by the chain rule |
| graph | 计算图 | the recorded operations |
| forward pass | 前向传播 | running the function and recording the graph |
| backward pass | 反向传播 | computing the gradients along the graph |
| leaf | 叶子张量 | a tensor that is not the result of a recorded operation |
| finite difference | 有限差分 | a slope between nearby points |
| forward difference | 前向差分 | the slope from x to x + h |
| central difference | 中心差分 | the slope from x − h to x + h |
| truncation error | 截断误差 | the error of a formula in exact arithmetic |
| rounding error | 舍入误差 | the error due to limited precision |
| machine epsilon | 机器精度 | the distance from 1 to the next larger number |
| error surface | 误差曲面 | the loss as a function of the weights |
| Hessian | 黑塞矩阵 | the matrix of second derivatives |
| eigenvalue | 特征值 | of a Hessian: the curvature along an eigenvector |
| condition number | 条件数 | the largest eigenvalue over the smallest |
| least squares | 最小二乘 | minimizing the sum of squared errors |
| closure | 闭包 | a function that recomputes the loss and its gradient |
| module | 模块 | an object that holds parameters, buffers, and other modules |
| parameter | 参数 | a registered tensor to be trained |
| buffer | 缓冲区 | a tensor saved and moved with its module, but not trained |
| frozen | 冻结 | of a parameter or a part of a network: kept fixed during training |
| tied | 共享（权重绑定） | of a parameter: used in several places |
| generator | 生成器 | the network that produces data |
| discriminator | 判别器 | the network that scores data |
"""

# %% folded="What you predicted"
predictions("00")

# %%
progress("00")
