# %% [markdown]
"""
# 00 · Warm-up: tensors, autograd, modules

After this chapter you can

- make tensors of any rank, and say which dtype they have and with whom they share their memory;
- let autograd compute a derivative, and check it by differences, with a step of the right size;
- say why a fit stalls though its code is right, and repair it in three ways;
- write a module whose parameters are found by everybody who must find them;
- say where `zero_grad` belongs when two networks are trained in turn.

**Time**: 45 minutes to read and run, 95 for the six exercises.
**Know before**: Python, what a derivative is and what a matrix product is. Eigenvectors appear once, and are explained in a sentence.

**中文**: 本章热身：张量与数据类型、与 NumPy 共享内存、自动微分与差分检验、曲线拟合为何停滞（条件数）与三种补救、模块的参数与缓冲区、梯度清零的位置。
"""

# %% tags=["needed"] folded="Imports"
import math
import warnings

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from helpers import COLORS, Check, failing, hint, new_figure, play, probes, progress, show

# With tensors as small as here, threads wait longer than they compute.
torch.set_num_threads(1)

# %% [markdown]
r"""
## A fit that is nearly right

A curve, $y = 5x^2 + 3$. Somebody has 100 points of it in each step, drawn anew between -10 and 10, and looks for three numbers, $w_0 x^2 + w_1 x + w_2$.
The optimizer is Adam, with a learning rate of 0.1; there are 1000 steps. Every line of the code is right, and there is no noise at all.
"""


# %%
def draw_points():
    x = torch.rand(100) * 20 - 10
    return x, 5 * x * x + 3


def powers(x):
    return torch.stack([x * x, x, torch.ones_like(x)], dim=1)


def fit_by_adam(steps, memory=0.999):
    """Return the weights after each step, and the losses."""
    torch.manual_seed(1)
    weights = torch.randn(3, requires_grad=True)
    optimizer = torch.optim.Adam([weights], lr=0.1, betas=(0.9, memory))
    history, losses = [], []
    for _ in range(steps):
        x, y = draw_points()
        loss = functional.mse_loss(powers(x) @ weights, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history.append(weights.detach().clone())
        losses.append(loss.item())
    return torch.stack(history), losses


history, losses = fit_by_adam(1000)
print("found:", [round(weight, 2) for weight in history[-1].tolist()])
print("truth: [5.0, 0.0, 3.0]")

# %% folded="Plot: The loss"
figure, (left, right) = new_figure(1, 2, width_ratios=(1, 1))
left.semilogy(range(1, 1001), losses, color=COLORS["blue"], linewidth=1, label="loss")
left.set(title="The loss", xlabel="step", ylabel="mean squared error")
for place, (name, color) in enumerate((("x²", "blue"), ("x", "green"), ("1", "vermilion"))):
    errors = (history[:, place] - torch.tensor([5.0, 0.0, 3.0])[place]).abs()
    right.semilogy(
        range(1, 1001), errors, color=COLORS[color], linewidth=1, label=f"weight of {name}"
    )
right.set(title="How far the weights are off", xlabel="step", ylabel="error", ylim=(1e-5, 1e2))
right.legend(fontsize=9)
show(
    figure,
    alt="Left: the loss falls from tens of thousands to a few hundredths over 1000 steps. Right: the error of the weight of x falls "
    "below a thousandth, that of x squared to a few thousandths. The error of the constant shrinks much more slowly and is still about 0.2 at the end.",
)

# %% [markdown]
"""
Two of the numbers are good. The third one is off by several percent, while the loss has fallen by a factor of a million. One would take this fit for finished.

Many tutorials stop here and call it close. It is not a matter of luck, and the code has no bug. By the end of the chapter you can say what it is, and get all three numbers right, in three ways.
First the tools.
"""

# %% [markdown]
"""
## Tensors

A tensor is a block of numbers of one type, with a shape. Its *rank* is the number of axes.
"""

# %%
for name, tensor in (
    ("one number", torch.tensor(3)),
    ("a list of two", torch.tensor([1.0, 2.0])),
    ("a matrix of zeros", torch.zeros(2, 2)),
    ("a block of random numbers", torch.rand(2, 3, 4)),
):
    print(
        f"{name:<27} rank {tensor.ndim}, shape {tuple(tensor.shape)!s:<10} {tensor.numel():>2} entries, {tensor.dtype}"
    )

# %% [markdown]
"""
The type of the numbers is the *dtype*. A Python int makes int64, a Python float makes float32. Python's own floats have 64 bits: on the way into a tensor
half of them go, unless you ask for `dtype=torch.float64`.

Operations work entry by entry, or they are products. `@` is the matrix product: the last axis of the first must be as long as the last but one of the second (its only one, if it is a vector). An addition
wants equal shapes (or shapes that *broadcast*: chapter 07).
"""

# %%
x, y = torch.randn(3, 5), torch.randn(5, 4)
print("x @ y has the shape", tuple((x @ y).shape))
try:
    x + y
except RuntimeError as error:
    print("x + y:", error)
print("0.1 as a float32 is", torch.tensor(0.1).item())

# %% [markdown]
"""
### NumPy, and who shares what

`from_numpy` and `.numpy()` copy nothing. Both names mean the same memory, and what one writes the other reads. `torch.tensor` copies.
"""

# %%
array = np.zeros(3)
shared, copied = torch.from_numpy(array), torch.tensor(array)
array[0] = 7.0
shared[1] = 8.0
print("the array:         ", array.tolist(), array.dtype)
print("torch.from_numpy:  ", shared.tolist(), shared.dtype)
print("torch.tensor:      ", copied.tolist(), copied.dtype)

pair = np.random.default_rng(0).normal([3, 5])
print("normal([3, 5]) has the shape", pair.shape)
print("normal(size=(3, 5)) has the shape", np.random.default_rng(0).normal(size=(3, 5)).shape)

# %% [markdown]
"""
Two things to notice. NumPy's floats have 64 bits, and a tensor made of them has them, too. A float64 that gets into a float32 network raises an error at the first matrix product.

And the last two lines: `np.random.normal([3, 5])` looks as if it made a matrix of 3 × 5. It draws *two* numbers, one with the mean 3 and one with the mean 5. A shape has to be given
as `size=`.
"""

# %% [markdown]
r"""
## Autograd

Take $u(x) = x^2$ and $g(u) = -u$. By the chain rule the derivative of $g(u(x))$ is $-2x$, which is -2 at 1. Autograd gets there without a formula. While an operation runs on a tensor
that *requires a gradient*, autograd notes which operation it was. On the way back it multiplies the derivatives of the notes, from the last to the first.
"""

# %%
x = torch.tensor(1.0, requires_grad=True)
u = x * x
g = -u
print("noted for u:", type(u.grad_fn).__name__)
print("noted for g:", type(g.grad_fn).__name__)
(slope,) = torch.autograd.grad(g, x)
print("dg/dx at 1:", slope.item())

# %% [markdown]
r"""
`torch.autograd.grad(outputs, inputs)` returns a tuple, one gradient for each input. The output must be a single number. What if there are many, $y_i = f(x_i)$, each with its own $x_i$? Sum them. The derivative of $\sum_i f(x_i)$
by $x_k$ is $f'(x_k)$: no other term contains it.

The other way is `backward()`. It puts the gradient into `.grad`, and only into that of the *leaves*: tensors that you made yourself, and not by an operation on one that requires a gradient. (A tensor made from another one by `torch.tensor` is a leaf, too, and warns: below.)
"""

# %%
x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
y = x.sin()
y.sum().backward()
print("x is a leaf:", x.is_leaf, "  y is a leaf:", y.is_leaf)
print("x.grad is cos(x):", torch.equal(x.grad, x.detach().cos()))

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    torch.tensor(torch.randn(3), requires_grad=True)
print("a warning:", str(caught[0].message)[:52], "…")
print("without one:", torch.randn(3, requires_grad=True).is_leaf)

# %% [markdown] exercise="derivative" points=3 minutes=10 difficulty=1
"""
### A derivative at many places

Write `derivative(f, x)`: the derivative of `f` at every entry of `x`.

- **In**: `f`, a function that takes a tensor and returns one of the same shape; each entry of its result depends on the entry at the same place alone. `x`, a floating-point tensor of any
  shape, which may require a gradient or not.
- **Out**: a tensor of the shape and dtype of `x`, with $f'$ at each of its entries, as exact as autograd makes it.
- `x` stays as it is: it does not begin to require a gradient, and its `.grad` does not change. What comes back has no graph.

<!-- hint: Autograd needs an output that is one number, and an input that requires a gradient. You have neither. What can you make of what you have? -->
<!-- hint: A detached copy of x is a leaf of your own, which may require a gradient. The sum of f of it is one number, and no entry of its gradient knows of the others. -->
<!-- hint: `x.detach().clone().requires_grad_(True)` is the leaf. `torch.autograd.grad(total, leaf)` returns a tuple of one; unlike `backward` it writes into nobody's `.grad`. -->
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


def stays_as_it_is(formula, slope, *sizes, dtype):
    """Ask with a plain x, with the same one again, and with an x that requires a gradient."""
    factor, x = check.draw.number(0.5, 1.5), check.draw.normal(*sizes, dtype=dtype)
    name = formula[0][0]
    first, second = check.call(probes.with_formula_twice, derivative, formula, x, factor)
    check.close(first, slope(x), what=f"the derivative of {name}")
    check.close(second, slope(factor * x), what=f"the derivative of {name} at other numbers")
    factors, left_over = (check.draw.normal(*sizes, dtype=dtype) for _ in range(2))
    given = formula, x, factors, left_over
    seen = check.call(probes.with_formula_on_a_leaf, derivative, *given)
    check.close(seen["output"], slope(x), what=f"the derivative of {name}")
    # What came back counts as a constant.
    leaf = x.clone().requires_grad_(True)
    (more,) = torch.autograd.grad((factors * leaf.square() * slope(x)).sum(), leaf)
    what = "x.grad, once the sum of factor * x² * (what came back) was backpropagated"
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
    for shape, dtype in (((), torch.float64), ((3, 4), torch.float32), ((2, 3, 5), torch.float64)):
        x = check.draw.normal(*(shape or (1,)), dtype=dtype).reshape(shape)
        got = slope_at([["cos"], ["times", 2.0]], x)
        check.close(got, -2.0 * x.sin(), what=f"shape {shape}, {str(dtype)[6:]}")
with check.property("as exact as autograd: no differences", weight=2):
    x = check.draw.uniform(6, low=1.0, high=2.0, dtype=torch.float64)
    got = slope_at([["square"], ["square"]], x)
    check.close(got, 4.0 * x**3, rtol=1e-12, atol=1e-12, what="the derivative of x to the fourth")
with check.property("x may require a gradient, and stays as it is"):
    stays_as_it_is([["exp"]], torch.exp, check.draw.integer(3, 9), dtype=torch.float64)
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("an x of two axes, in float32, stays as it is as well"):
    stays_as_it_is([["sin"]], torch.cos, 2, check.draw.integer(3, 9), dtype=torch.float32)
with check.property("where f is flat the derivative is 0"):
    x = check.draw.normal(5, dtype=torch.float64)
    check.close(slope_at([["times", 0.0], ["cos"]], x), torch.zeros_like(x))
### END HIDDEN TESTS
check.score()

# %% [markdown]
r"""
### Do you believe it? Differences

A derivative can be checked without autograd:

$$f'(x) \approx \frac{f(x + h) - f(x - h)}{2h}$$

This is the *central difference*. How small should the step $h$ be? One would say: as small as possible. Look, for $f = e^x$ at 1, in two formats.
"""

# %% folded="Plot: Error of the central difference of exp at 1"
steps = torch.logspace(-14, 0, 57, dtype=torch.float64)
figure, axes = new_figure()
for dtype, color, marker in ((torch.float32, "vermilion", "s"), (torch.float64, "blue", "o")):
    x, h = torch.tensor(1.0, dtype=dtype), steps.to(dtype)
    slopes = ((x + h).exp() - (x - h).exp()) / (2 * h)
    errors = (slopes.double() / math.e - 1).abs().clamp(min=1e-13)
    name = str(dtype)[6:]
    axes.loglog(steps, errors, marker + "-", ms=3, linewidth=1, color=COLORS[color], label=name)
    best = torch.finfo(dtype).eps ** (1 / 3)
    axes.axvline(best, color=COLORS[color], linestyle=":", label=f"third root of {name}'s epsilon")
    print(f"{name}: the third root of epsilon is {best:.1g}")
axes.loglog(steps[-24:], steps[-24:] ** 2 / 6, "--", color=COLORS["black"], label="h² / 6")
axes.set(
    title="Error of the central difference of exp at 1",
    xlabel="step h",
    ylabel="relative error",
    ylim=(1e-13, 3),
)
axes.legend(fontsize=8)
show(
    figure,
    alt="Relative error against the step, both logarithmic: a V for each format. From the right the error falls with the square of the step, along a dashed line. "
    "It turns near 5e-3 in float32 and near 6e-6 in float64, and rises again toward smaller steps, with much scatter, up to an error of 1.",
)

# %% [markdown]
r"""
A V, and it turns long before 0. Two errors work against each other.

- **Right of the turn** the formula is only approximate. Its error is $\frac{h^2}{6} f'''(x)$: a tenth of the step, a hundredth of the error.
- **Left of it** the two values are nearly equal, and their difference has few digits left. Each value is rounded, by about $\epsilon f(x)$, where $\epsilon$ is the format's
  *epsilon*, the distance from 1 to the next number. Divided by $2h$, that is $\epsilon f / h$, which grows as $h$ shrinks.

The sum is smallest where both are about equal: $h^3 \approx \epsilon$. That is the dotted line. At best, the error is near $\epsilon^{2/3}$: a central difference is right to two thirds of the digits. Autograd has them all.
"""

# %% [markdown] exercise="difference-errors" points=4 minutes=15 difficulty=2
"""
### The error of a difference

Write `difference_errors(f, x, steps)`: how far the central differences of `f` are from its derivative.

- **In**: `f` as in the exercise before; `x`, a float64 tensor of shape (n,); `steps`, a list of positive floats, some of them perhaps far too small.
- **Out**: a list of floats, one for each step, in the order of the steps: the *largest* absolute difference, over the entries of `x`, between the central difference and the derivative by autograd.

Your `derivative` is welcome, once its own check is green. When it is written, draw its result for other functions in a cell of your own: the curve turns for each of them.

<!-- hint: For one step: two calls of f, at which places? Then one comparison with what autograd says. -->
<!-- hint: The derivative does not depend on the step: it is needed once. For each step compute (f(x + h) - f(x - h)) / (2 h), subtract, take absolute values, and the largest. -->
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


with check.property("for a cubic the error is the square of the step"):
    x = check.draw.uniform(6, low=0.5, high=1.5, dtype=torch.float64)
    steps = [0.5, 0.25, 0.125]
    got = errors_of([["power", 3]], x, steps)
    check.close(got, [h * h for h in steps], rtol=1e-9, what="the errors")
with check.property("the largest error over all entries, not their mean", weight=2):
    x = check.draw.uniform(5, low=-0.1, high=0.1, dtype=torch.float64)
    x[check.draw.integer(0, 5)] = 2.0
    h = check.draw.number(0.3, 0.6)
    largest = (math.exp(2.0 + h) - math.exp(2.0 - h)) / (2 * h) - math.exp(2.0)
    check.close(errors_of([["exp"]], x, [h]), [largest], rtol=1e-9)
with check.property("errors are positive, on whichever side the difference lies", weight=2):
    x = check.draw.uniform(4, low=0.5, high=1.0, dtype=torch.float64)
    h = check.draw.number(0.2, 0.5)
    expected = ((1 - math.sin(h) / h) * x.cos()).max().item()
    check.close(errors_of([["sin"]], x, [h]), [expected], rtol=1e-8, what="the errors for sin")
    check.close(
        errors_of([["sin"], ["times", -1.0]], x, [h]), [expected], rtol=1e-8, what="for -sin"
    )
with check.property("steps in any order, and one that is far too small"):
    x = check.draw.uniform(3, low=1.0, high=2.0, dtype=torch.float64)
    got = errors_of([["square"], ["square"]], x, [1e-13, 0.1, 1e-4])
    check.true(
        abs(got[0]) > 1e-6, f"at a step of 1e-13 rounding leaves an error, {got[0]:.1g} came back"
    )
    check.close(got[1], 4 * 0.1**2 * x.max().item(), rtol=1e-9, what="the error at a step of 0.1")
    check.true(got[2] < 1e-6, f"at a step of 1e-4 the error is small, {got[2]:.1g} came back")
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("steps in another order, the one that is far too small among them"):
    x = check.draw.uniform(6, low=1.0, high=2.0, dtype=torch.float64)
    steps = [0.125, 1e-13, 0.5, 0.25]
    for h, error in zip(steps, errors_of([["power", 3]], x, steps), strict=True):
        if h > 1e-3:
            check.close(error, h * h, rtol=1e-9, what=f"the error at a step of {h}")
        else:
            told = f"at a step of {h} rounding leaves an error, {error:.1g} came back"
            check.true(error > 1e-6, told)
with check.property("no steps, no errors"):
    check.equal(errors_of([["exp"]], check.draw.normal(3, dtype=torch.float64), []), [])
### END HIDDEN TESTS
check.score()

# %% [markdown]
"""
### `.grad` adds up

`backward` does not replace what is in `.grad`. It *adds*. That is of use (chapter 05 is built on it), and it is why training loops say `zero_grad`.
"""

# %%
weight = torch.tensor(2.0, requires_grad=True)
for _ in range(3):
    (weight * weight).backward()
    print("after backward:", weight.grad.item())

# %% [markdown]
r"""
The derivative of $w^2$ at 2 is 4. The second time 8 is there, then 12. `optimizer.zero_grad()` sets `.grad` to None for the optimizer's own parameters. Remember the last four words; they are this chapter's bug hunt.
"""

# %% [markdown]
r"""
## Why the fit stalls

Back to the curve. Let $d_0, d_1, d_2$ be the errors of the three weights. The loss is the mean of $(d_0 x^2 + d_1 x + d_2)^2$, a bowl over the three errors. Is it round? Cut through it: go away from the minimum in
each direction, and see how fast it rises. The directions in which a bowl rises most and least are the *eigenvectors* of its second derivative, the *Hessian*, and the *eigenvalues* tell how fast.
"""


# %%
def hessian_of_fit(features, count=200_001):
    """Return the Hessian of the mean squared error over x from -10 to 10."""
    x = torch.linspace(-10, 10, count, dtype=torch.float64)
    columns = features(x)
    return 2 * columns.T @ columns / count


hessian = hessian_of_fit(powers)
values, vectors = torch.linalg.eigh(hessian)
for value, vector in zip(values.tolist(), vectors.T.tolist(), strict=True):
    direction = ", ".join(f"{abs(part):.2f}" for part in vector)
    print(f"eigenvalue {value:>7.1f}, direction (sizes, for x², x, 1): {direction}")
print(f"the largest is {values[-1] / values[0]:.0f} times the smallest")

# %% [markdown]
r"""
Along the steepest direction, nearly that of $x^2$, the bowl curves 4500 times as strongly as along the flattest, nearly that of the constant. This ratio is the *condition number*. It says what the third weight suffers from: **the loss hardly notices it.** An error of 0.2 along the flattest
direction costs half of its eigenvalue times $0.2^2$, about 0.02, and the targets go up to 503.

Plain gradient descent shows it most clearly. Each error shrinks in each step by the factor $1 - \text{rate} \cdot \text{eigenvalue}$. The largest eigenvalue limits the rate: beyond $2/4001$ the error along $x^2$ grows without end. At such a
rate the smallest one needs thousands of steps.

Adam is another matter. It divides each weight's gradient by its usual size. Here the steep and the flat direction lie nearly along the axes, so that takes most of the 4500 away. What stalls it in our fit is its *memory*: the usual size is an average over about the last 1000 steps (0.999 of the old, a thousandth of the new), and the first gradients
were hundreds of times as large as the later ones, along $x^2$ ten thousand times. Let it forget ten times as fast:
"""

# %%
slopes = (history.double() - torch.tensor([5.0, 0.0, 3.0], dtype=torch.float64)) @ hessian
early, late = (part.square().mean(dim=0).sqrt() for part in (slopes[:20], slopes[200:]))
for name, ratio in zip(("x²", "x", "1"), (early / late).tolist(), strict=True):
    print(f"{name:>2}: gradients of steps 1 to 20 are {ratio:.0e} times those from step 201 on")
for memory in (0.999, 0.99):
    last = fit_by_adam(1000, memory)[0][-1]
    error = (last - torch.tensor([5.0, 0.0, 3.0])).abs().max().item()
    print(f"Adam with a memory of {1 / (1 - memory):.0f} steps: all within 0.001: {error < 1e-3}")

# %% [markdown]
"""
That is a cure for this fit. It works since the directions lie along the axes. Who knows beforehand? The repairs below ask the bowl itself.
"""

# %% folded="Plot: The bowl, stretched 67 times sideways"
figure, (left, right) = new_figure(1, 2, sharey=False)
grid0, grid2 = torch.meshgrid(
    torch.linspace(-0.06, 0.06, 121, dtype=torch.float64),
    torch.linspace(-4, 4, 121, dtype=torch.float64),
    indexing="ij",
)
errors = torch.stack([grid0, torch.zeros_like(grid0), grid2], dim=-1)
bowl = 0.5 * torch.einsum("ija,ab,ijb->ij", errors, hessian, errors)
left.contour(
    grid0, grid2, bowl, levels=[0.05, 0.3, 1, 3, 8, 15], colors=COLORS["black"], linewidths=0.7
)
path = history[200::25].double() - torch.tensor([5.0, 0.0, 3.0], dtype=torch.float64)
left.plot(
    path[:, 0],
    path[:, 2],
    "o-",
    ms=3,
    linewidth=1,
    color=COLORS["vermilion"],
    label="Adam, from step 200 on",
)
left.plot([0], [0], "*", ms=11, color=COLORS["blue"], label="the truth")
left.set(
    title="The bowl, stretched 67 times sideways",
    xlabel="error of the weight of x²",
    ylabel="error of the constant",
)
left.set(xlim=(-0.06, 0.06), ylim=(-4, 4))
left.legend(fontsize=8, loc="upper right")
for start, name, color in ((0, "rate 2.1 / 4001", "vermilion"), (1, "rate 1.9 / 4001", "blue")):
    rate = (2.1, 1.9)[start] / values[-1]
    error, curve = torch.tensor([1.0, 1.0, 1.0], dtype=torch.float64), []
    for _ in range(400):
        error = error - rate * (hessian @ error)
        curve.append(error.norm().item())
    right.semilogy(range(1, 401), curve, color=COLORS[color], label=name)
right.set(
    title="Plain gradient descent", xlabel="step", ylabel="length of the error", ylim=(1e-1, 1e6)
)
right.legend(fontsize=8)
show(
    figure,
    alt="Left: contour lines of the loss over the errors of two weights: tilted ellipses, almost three times as long as wide although the axis of x squared is stretched 67 times. Adam's path runs along the long axis toward the truth and stops short of it. "
    "Right: the length of the error under plain gradient descent. With a rate just above the limit it grows without end; with one just below, it falls quickly to about 1 and then very slowly.",
)

# %% [markdown]
r"""
### Three repairs

1. **Features of one size.** $x^2$ goes up to 100, $x$ up to 10, the constant is 1. Divide: fit $v_0 (x/10)^2 + v_1 (x/10) + v_2$ to $y / 500$, and calculate back. The bowl becomes much rounder, and plain gradient descent is enough (its rate of 0.8 is just below the limit of 2 by the largest eigenvalue).
2. **No steps at all.** The loss is a quadratic function of the weights, so its minimum has a formula, *least squares*: `torch.linalg.lstsq`.
3. **An optimizer that learns the bowl's form.** LBFGS guesses the Hessian from the gradients that it has seen. It wants a function that computes the loss anew, a *closure*, and the same data each time.
"""

# %%
scaled = hessian_of_fit(lambda x: powers(x / 10))
scaled_values = torch.linalg.eigvalsh(scaled)
print(f"condition number with scaled features: {scaled_values[-1] / scaled_values[0]:.0f}")


def fit_by_scaled_features(steps=200):
    torch.manual_seed(0)
    weights = torch.randn(3, requires_grad=True)
    optimizer = torch.optim.SGD([weights], lr=0.8)
    for _ in range(steps):
        x, y = draw_points()
        loss = functional.mse_loss(powers(x / 10) @ weights, y / 500)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return weights.detach() * 500 / torch.tensor([100.0, 10.0, 1.0])


def fit_by_formula():
    x, y = (values.double() for values in draw_points())
    return torch.linalg.lstsq(powers(x), y[:, None]).solution.flatten()


def fit_by_lbfgs():
    torch.manual_seed(0)
    x, y = draw_points()
    weights = torch.randn(3, requires_grad=True)
    optimizer = torch.optim.LBFGS([weights], max_iter=100, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = functional.mse_loss(powers(x) @ weights, y)
        loss.backward()
        return loss

    optimizer.step(closure)
    return weights.detach()


for fit in (fit_by_scaled_features, fit_by_formula, fit_by_lbfgs):
    error = (fit().double() - torch.tensor([5.0, 0.0, 3.0], dtype=torch.float64)).abs().max().item()
    print(f"{fit.__name__:<23} largest error below 0.001: {error < 1e-3}")

# %% [markdown]
"""
All three. There is a fourth one, patience: with many more steps Adam gets there as well, though at a constant rate it may jump away again. And who knows beforehand how many, when the loss looks finished after a thousand?

Slide the size that $x$ is divided by. The contour lines are the bowl over the weights of $x^2$ and of the constant, each measured in its own unit; the dots are 30 steps of gradient descent at half of the largest possible rate.
"""


# %% folded="Plot: the bowl, for features of another size"
def draw_bowl(size):
    def features(x):
        return powers(x / size)[:, [0, 2]]

    bowl_hessian = hessian_of_fit(features, count=2001)
    bowl_values = torch.linalg.eigvalsh(bowl_hessian)
    error, path = torch.tensor([0.9, 0.9], dtype=torch.float64), []
    for _ in range(31):
        path.append(error)
        error = error - (bowl_hessian @ error) / bowl_values[-1]
    path = torch.stack(path)
    first, second = torch.meshgrid(
        *[torch.linspace(-1.2, 1.2, 81, dtype=torch.float64)] * 2, indexing="ij"
    )
    errors = torch.stack([first, second], dim=-1)
    heights = 0.5 * torch.einsum("ija,ab,ijb->ij", errors, bowl_hessian, errors)
    figure, axes = new_figure(width=4.6, height=3.6)
    levels = [0.003, 0.01, 0.03, 0.1, 0.3, 0.6]
    lines = {"colors": COLORS["black"], "linewidths": 0.6}
    axes.contour(first, second, heights / heights.max(), levels=levels, **lines)
    axes.plot(
        path[:, 0], path[:, 1], "o-", ms=3, linewidth=1, color=COLORS["vermilion"], label="30 steps"
    )
    axes.plot([0], [0], "*", ms=11, color=COLORS["blue"], label="the truth")
    condition = bowl_values[-1] / bowl_values[0]
    axes.set(
        title=f"x / {size:g}: condition number {condition:.3g}",
        xlabel="error of the weight of x²",
        ylabel="error of the constant",
    )
    axes.legend(fontsize=8, loc="lower right")
    return figure


play(
    draw_bowl,
    label="x is divided by",
    values=[1, 2, 4, 6, 8, 10, 15, 20],
    start=10,
    alt="Contour lines of the loss over two weights, with x divided by 10: tilted ellipses, almost four times as long as wide. Gradient descent goes down the steep side in one step, and then along the valley in ever shorter steps.",
)

# %% [markdown] exercise="fit-polynomial" points=5 minutes=20 difficulty=2
"""
### Fit a polynomial

Write `fit_polynomial(x, y, degree)`: the coefficients of the polynomial through points without noise.

- **In**: `x` and `y`, float32 tensors of shape (n,), where the y are a polynomial of the x to float32's rounding. There are at least 50 different x; they lie within an interval around 0, as short as from -0.1 to 0.1 or as long as from
  -100 to 100, not always symmetrical. `degree`, an integer from 0 to 3.
- **Out**: a float32 tensor of shape (degree + 1,): the coefficients, that of the highest power first. Calculated with them, the polynomial is right to a thousandth of the largest y, and so is **each term by itself**, at the x where it is largest:
  a coefficient that hardly shows in the loss has to be right, too, in that measure.
- By which means is up to you. It may take a few seconds.

<!-- hint: Which of the three repairs needs no learning rate, and no steps? What becomes of the columns when x goes up to 100, or only up to 0.1? -->
<!-- hint: Divide x by its largest absolute value, and all columns lie between -1 and 1. Fit in these, and each coefficient is then divided by the power of that value. -->
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


def fits(coefficients, low, high, what):
    """Ask for a fit, and compare term by term, each at the x where it is largest."""
    coefficients = torch.tensor(coefficients, dtype=torch.float64)
    count = 60 + check.draw.integer(0, 30)
    x = check.draw.uniform(count, low=low, high=high)
    x[:3] = torch.tensor([low, high, 0.0])
    exponents = range(len(coefficients) - 1, -1, -1)
    y = sum(c * x.double() ** k for c, k in zip(coefficients, exponents, strict=True)).float()
    got = check.call(fit_polynomial, x, y, len(coefficients) - 1)
    is_tensor = isinstance(got, torch.Tensor)
    kind = f"a {got.dtype} of shape {tuple(got.shape)}" if is_tensor else type(got).__name__
    expected = f"a torch.float32 of shape ({len(coefficients)},)"
    check.true(kind == expected, f"{what}: {kind} came back, expected {expected}")
    largest = torch.tensor([max(abs(low), abs(high)) ** k for k in exponents], dtype=torch.float64)
    allowed = 1e-3 * y.abs().max().item()
    off = ((got.double() - coefficients).abs() * largest).max().item()
    told = f"{what}: {shown(got)} came back, expected {shown(coefficients)}"
    check.true(off <= allowed, f"{told}; a term is off by {off:.3g}, {allowed:.3g} is allowed")


def draw_coefficients(*sizes):
    signs = [1 - 2 * check.draw.integer(0, 2) for _ in sizes]
    return [s * size * check.draw.number(0.5, 1.5) for s, size in zip(signs, sizes, strict=True)]


with check.property("the curve of this chapter, and its like"):
    fits([5.0, 0.0, 3.0], -10.0, 10.0, "5 x² + 3")
    fits(draw_coefficients(5.0, 20.0, 300.0), -10.0, 10.0, "degree 2, from -10 to 10")
with check.property("constants, lines and cubics"):
    fits(draw_coefficients(2.0, 3.0), -4.0, 3.0, "degree 1, from -4 to 3")
    fits(draw_coefficients(1.0, 2.0, 5.0, 8.0), -3.0, 2.0, "degree 3, from -3 to 2")
    fits(draw_coefficients(9.0), -3.0, 7.0, "degree 0, from -3 to 7")
with check.property("x up to 100", weight=2):
    fits(draw_coefficients(1e-3, 0.1, 9.0), -100.0, 60.0, "degree 2, from -100 to 60")
    fits(draw_coefficients(1e-4, 1e-2, 1.0, 90.0), -100.0, 100.0, "degree 3, from -100 to 100")
with check.property("x below a tenth", weight=2):
    fits(draw_coefficients(300.0, 30.0, 2.0), -0.1, 0.08, "degree 2, from -0.1 to 0.08")
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

With three weights one can carry them around by hand. A network has hundreds of tensors. A *module* holds them, and finds them again: for the optimizer, for saving, for moving to a GPU. Here is a line, $y = ax + b$:
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
x = torch.arange(100, dtype=torch.float32) / 100
y = 5 * x + 3 + torch.rand(100) * 0.3
line = Line()
optimizer = torch.optim.SGD(line.parameters(), lr=0.3)
for _ in range(2000):
    optimizer.zero_grad()
    functional.mse_loss(line(x), y).backward()
    optimizer.step()
print("parameters:", [name for name, _ in line.named_parameters()])
print(f"found: a = {line.a.item():.1f}, b = {line.b.item():.2f}")

# %% [markdown]
"""
The line was 5x + 3 plus noise. The 3 has become 3.14 or so, and no longer training changes that. It is the right answer: `torch.rand` draws between 0 and 1, so this noise has a mean near 0.15. A fit finds what is in the data. (Noise around 0 would be
`torch.randn`.)

A `Parameter` is a tensor that requires a gradient and makes itself known to its module when it is *assigned to an attribute*. What is not a Parameter, or sits in a plain list, is not found:
"""


# %%
class Forgetful(nn.Module):
    def __init__(self):
        super().__init__()
        self.found = nn.Parameter(torch.zeros(2))
        self.plain_tensor = torch.zeros(2, requires_grad=True)
        self.plain_list = [nn.Linear(2, 2)]
        self.module_list = nn.ModuleList([nn.Linear(2, 2)])
        self.register_buffer("a_buffer", torch.zeros(2))


forgetful = Forgetful()
print("parameters:", [name for name, _ in forgetful.named_parameters()])
print("state_dict:", list(forgetful.state_dict()))

# %% [markdown]
"""
No error and no warning: the tensor and the list are simply never trained. A *buffer* is the third kind: it is saved and moved with the module, and not trained. (Running averages are buffers: chapter 01.)

Modules hold modules. `parameters()` walks through all of them. `nn.Sequential` calls them one after another:
"""

# %%
model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
for name, parameter in model.named_parameters():
    print(f"{name:<9} {tuple(parameter.shape)!s:<9} {parameter.numel():>5}")
print("together: ", sum(parameter.numel() for parameter in model.parameters()))
print("an input of shape (7, 64) becomes", tuple(model(torch.zeros(7, 64)).shape))

# %% [markdown] exercise="linear-module" points=5 minutes=20 difficulty=2
r"""
### A linear layer

Write the class `Linear`, for $y = xW^\mathsf{T} + b$.

- `Linear(inputs, outputs, bias=True)`. The parameters are `weight`, of shape (outputs, inputs), and `bias`, of shape (outputs,). Both are float32 and begin with independent random numbers, uniform between $-1/\sqrt{\text{inputs}}$ and $1/\sqrt{\text{inputs}}$.
- With `bias=False` there is no such parameter: `layer.bias` is None, and the `state_dict` holds the weight alone.
- `forward(x)`: `x` of shape (..., inputs), with any number of axes before, none included. The result has the shape (..., outputs). Gradients reach `x` and both parameters.
- Its `state_dict` can be loaded into `nn.Linear`, and the other way round. `.to(torch.float64)` converts it.
- **Not allowed**: `nn.Linear`, `functional.linear` and their relatives, for whatever purpose. The check reads your code for their names; if it finds one, nothing else counts.

<!-- hint: What makes a tensor known to its module, and what is the last step that forgets it? -->
<!-- hint: A Parameter wraps a tensor of random numbers: `torch.rand` is uniform between 0 and 1, so stretch and shift it. `@` takes any number of axes in front, and a bias of shape (outputs,) fits the last axis by itself. -->
<!-- hint: A module that shall know of a bias and have none calls `register_parameter` with the value None. In forward: `x @ self.weight.T`, and the bias only if it is not None. -->
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


def require_gradients(*rows, bias=True):
    state, x, grad_output = (
        drawn_state(5, 3),
        check.draw.normal(*rows, 5),
        check.draw.normal(*rows, 3),
    )
    state = state if bias else {"weight": state["weight"]}
    steps = [("load", state), ("gradient", x, grad_output)]
    _, got = check.call(probes.module, Linear, 5, 3, bias=bias, steps=steps)
    leaves = [value.double().requires_grad_(True) for value in (x, *state.values())]
    slopes = torch.autograd.grad(functional.linear(*leaves), leaves, grad_output.double())
    by_x, *by_parameters = (slope.float() for slope in slopes)
    check.close(got["gradient"], by_x, atol=1e-5, what="by x")
    expected = dict(zip(state, by_parameters, strict=True))
    check.close(got["parameters"], expected, atol=1e-5, what="by the parameters")


def require_float64(*rows):
    state, x = drawn_state(5, 3, torch.float64), check.draw.normal(*rows, 5, dtype=torch.float64)
    steps = [("to", "float64"), ("load", state), ("call", x)]
    *_, got = check.call(probes.module, Linear, 5, 3, steps=steps)
    check.close(got, by_definition(x, state), rtol=1e-12)


with check.property("x Wᵀ + b, and neither nn.Linear nor functional.linear"):
    state, x = drawn_state(5, 3), check.draw.normal(4, 5)
    _, got = check.call(probes.module, Linear, 5, 3, steps=[("load", state), ("call", x)])
    check.close(got, by_definition(x, state))
    check.written_without("*linear*")
with check.property("parameters: names, shapes, dtypes", weight=2):
    (parameters,) = check.call(probes.module, Linear, 7, 4, steps=[("parameters",)])
    shapes = {name: [*value.shape, str(value.dtype)[6:]] for name, value in parameters.items()}
    check.equal(shapes, {"weight": [4, 7, "float32"], "bias": [4, "float32"]})
with check.property("they begin with uniform random numbers between -1/√inputs and 1/√inputs"):
    (parameters,) = check.call(probes.module, Linear, 400, 300, steps=[("parameters",)])
    for name, value in parameters.items():
        scaled = value.detach().double() * math.sqrt(400)
        low, high = scaled.min().item(), scaled.max().item()
        check.true(
            -1.0001 < low < -0.9, f"the smallest {name}, times √inputs, is {low:.2f}, not about -1"
        )
        check.true(
            0.9 < high < 1.0001, f"the largest {name}, times √inputs, is {high:.2f}, not about 1"
        )
        spread = scaled.std().item()
        check.true(
            0.5 < spread < 0.65,
            f"the spread of {name}, times √inputs, is {spread:.2f}, not about 0.58",
        )
        different = value.unique().numel() / value.numel()
        check.true(different > 0.9, f"only {different:.0%} of the numbers in {name} are different")
    shared = torch.isin(parameters["bias"], parameters["weight"][:, 0]).all().item()
    check.true(not shared, "the bias has the same numbers as a column of weight")
with check.property("without a bias"):
    x, weight = check.draw.normal(3, 6), check.draw.normal(2, 6)
    steps = [("state",), ("load", {"weight": weight}), ("call", x)]
    state, _, got = check.call(probes.module, Linear, 6, 2, bias=False, steps=steps)
    check.equal(list(state), ["weight"], what="the names in the state_dict")
    check.close(got, by_definition(x, {"weight": weight}))
with check.property("the attribute bias is None then", weight=0.5):
    is_none = check.call(probes.is_none, Linear, "bias", 6, 2, bias=False)
    check.true(is_none, "layer.bias is not None, or there is no such attribute")
with check.property("inputs with any number of axes in front"):
    state = drawn_state(4, 6)
    for shape in ((4,), (5, 4), (2, 3, 4), (2, 1, 3, 4)):
        x = check.draw.normal(*shape)
        _, got = check.call(probes.module, Linear, 4, 6, steps=[("load", state), ("call", x)])
        check.close(got, by_definition(x, state), what=f"for x of shape {shape}")
with check.property("gradients reach weight, bias and input"):
    require_gradients(7)
with check.property("two layers begin with different numbers; float64 stays float64"):
    first, second = (
        check.call(probes.module, Linear, 30, 20, steps=[("state",)])[0] for _ in range(2)
    )
    check.true(not torch.equal(first["weight"], second["weight"]), "two layers begin alike")
    require_float64(4)
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("gradients through several axes, without a bias"):
    require_gradients(2, 4, bias=False)
with check.property("float64 with several axes"):
    require_float64(2, 1, 4)
### END HIDDEN TESTS
check.score()

# %% [markdown]
"""
### What counts as a parameter?

How large is a model? One counts the entries of its parameters. Three things make that less simple than a sum: a parameter that is *frozen* (`requires_grad_(False)`) is there and is not trained; a buffer is no parameter; and one
parameter may be used in two places. Language models often use one matrix to read words and to write them: it is *tied*.
"""

# %%
reader, writer = nn.Embedding(1000, 16), nn.Linear(16, 1000, bias=False)
writer.weight = reader.weight
model = nn.Sequential(reader, nn.LayerNorm(16), writer)
print("names in the state_dict:", list(model.state_dict()))
print("names of parameters:    ", [name for name, _ in model.named_parameters()])
print("entries, by state_dict:", sum(value.numel() for value in model.state_dict().values()))
print("entries, by parameters:", sum(value.numel() for value in model.parameters()))

# %% [markdown] exercise="count-parameters" points=4 minutes=10 difficulty=1
"""
### Count the parameters

Write `count_parameters(model)`.

- **In**: an `nn.Module` with any modules inside; some parameters may be frozen, some tied.
- **Out**: a tuple of two integers: how many entries are *trained*, and how many are *frozen*. A parameter that is used in several places counts once. Buffers do not count.
- The model stays as it is, and so does the mode of each module in it.

<!-- hint: Which method of a module walks through all modules inside, and names each parameter once? -->
<!-- hint: `model.parameters()` gives every parameter once, also a tied one, and no buffers. Each has a flag that tells whether it is trained. -->
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


def leaves_alone(modes):
    """Count, and let the model learn afterwards: it does so as if nobody had counted."""
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
    )
    check.equal(got["output"], (5 * b, a * b + 2), what="trained and frozen entries")
    model.load_state_dict(state)
    output = check.with_seed(seed, model, inputs)
    (output * slope).sum().backward()
    check.close(got["next"], output.detach(), rtol=1e-3, atol=1e-4, what="what it returns then")
    expected = dict(model.state_dict())
    for name, weight in model.named_parameters():
        expected[name] = (weight - 0.5 * weight.grad * (name not in frozen)).detach()
    check.close(got["state"], expected, rtol=1e-3, atol=1e-3, what="its state after a step")


a, b, c = (check.draw.integer(3, 6), check.draw.integer(7, 11), check.draw.integer(12, 20))
with check.property("weights and biases of all layers, also of layers inside of layers"):
    counts([["Linear", a, b], ["ReLU"], ["Linear", b, c]], a * b + b + b * c + c, 0)
    counts(
        [[["Linear", a, b], [["Linear", b, c]]], ["Conv2d", 2, 5, 3]], a * b + b + b * c + c + 95, 0
    )
    # A module that has parameters of its own, under other names, and a layer inside.
    counts([["MultiheadAttention", 4 * a, 2]], 4 * (4 * a) ** 2 + 4 * (4 * a), 0)
with check.property("frozen parameters are counted by themselves", weight=2):
    layers = [["Linear", a, b], ["Linear", b, c]]
    counts(layers, b * c + c, a * b + b, frozen=["0.weight", "0.bias"])
    counts(layers, a * b + b + c, b * c, frozen=["1.weight"])
with check.property("buffers do not count"):
    counts([["Linear", a, b], ["BatchNorm1d", b]], a * b + 3 * b, 0)
with check.property("a tied parameter counts once", weight=2):
    layers = [["Embedding", c, a], ["Linear", a, b], ["Linear", b, a], ["Linear", a, c]]
    counts(layers, c * a + 2 * a * b + b + a + c, 0, tied=[("0.weight", "3.weight")])
with check.property("equal sizes or equal values do not make parameters tied"):
    counts([["Linear", a, a], ["Linear", a, a]], 2 * (a * a + a), 0)
    counts([["BatchNorm1d", b], ["BatchNorm1d", b]], 4 * b, 0)
with check.property("the model stays as it is, all modes too: it learns afterwards as before"):
    # The model itself, then its layers: a BatchNorm in eval mode, all others in training.
    leaves_alone([True, True, False, True, True])
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
## Bug hunt: the judge that stops halfway

Two networks against each other. The losses are in *nats*: the logarithm of a probability to the base e. `softplus(-s)`, which is log(1 + e⁻ˢ), is what a score s costs if "real" is right: close to 0 for a large score, and ln 2, about 0.69, for a score of 0, a guess.

The *generator* makes numbers out of noise. The *discriminator* says how real a number looks: a large output means real. In each step the generator is trained to look real, and the discriminator to tell real numbers from made ones.
"""


# %% tags=["needed"]
def generator_loss(made_scores):
    return functional.softplus(-made_scores).mean()


def discriminator_loss(real_scores, made_scores):
    return functional.softplus(-real_scores).mean() + functional.softplus(made_scores).mean()


# %% [markdown]
"""
The step as somebody wrote it. The gradients are cleared at the beginning, once for each optimizer. To look at the discriminator alone, the generator's learning rate is 0 here: it always makes numbers around -1, and real ones lie around 1. That
is easy to tell.
"""


# %%
def step_from_the_wild(
    generator, discriminator, generator_optimizer, discriminator_optimizer, noise, real
):
    generator_optimizer.zero_grad()
    discriminator_optimizer.zero_grad()

    made = generator(noise)
    generator_loss(discriminator(made)).backward()
    generator_optimizer.step()

    made = generator(noise).detach()
    discriminator_loss(discriminator(real), discriminator(made)).backward()
    discriminator_optimizer.step()


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


wild = watch_discriminator(step_from_the_wild)
print(f"a discriminator that guesses has a loss of {2 * math.log(2):.2f}")
print(f"this one has {wild[-1]:.1f} after 200 steps")

# %% folded="Plot: A discriminator with an easy task"
figure, axes = new_figure(height=2.8)
axes.plot(range(1, 201), wild, color=COLORS["vermilion"], label="as found")
axes.axhline(2 * math.log(2), color=COLORS["black"], linestyle=":", label="guessing, 2 ln 2")
axes.set(
    title="A discriminator with an easy task", xlabel="step", ylabel="loss (nats)", ylim=(0, 2.2)
)
axes.legend()
show(
    figure,
    alt="The discriminator's loss against the step. It falls below the line of guessing, 1.39, and then levels off near 0.8 although the task is easy.",
)

# %% [markdown] exercise="bug-hunt-two-players" points=4 minutes=20 difficulty=2
"""
### Bug hunt: whose gradient is it?

The discriminator stays far from 0, though real and made numbers hardly overlap. Look in cells of your own what is in the `.grad` of the discriminator's weight when its optimizer makes its step, and what its own loss alone would give. Then write
`adversarial_step(generator, discriminator, generator_optimizer, discriminator_optimizer, noise, real)`.

- **In**: two modules, an optimizer for each, and two tensors that the modules take. What is in any `.grad` before the call does not count.
- First the generator makes a step, by the gradient of `generator_loss(discriminator(generator(noise)))` and nothing else.
- Then the discriminator makes a step, by the gradient of `discriminator_loss` and nothing else: of its scores for `real`, and for what the *new* generator makes of the same noise.
- **Out**: nothing. Neither step changes the other network, and both networks can be trained afterwards: every parameter still requires a gradient, and no module has changed its mode (train or eval).
- The steps are those of the optimizers, whichever they are.

When it is written, `watch_discriminator(adversarial_step)` should end below 0.1.

<!-- hint: The generator's loss goes *through* the discriminator on its way back. What does `backward` leave behind in every leaf that it passes? -->
<!-- hint: `zero_grad` clears the parameters of its own optimizer, at the moment when it is called. Between the discriminator's zero_grad and its backward there must be no other backward that reaches it. -->
<!-- hint: Move the line that clears the discriminator's gradients down, to right before the backward pass of the discriminator's own loss. -->
"""


# %% solution="bug-hunt-two-players"
def adversarial_step(
    generator, discriminator, generator_optimizer, discriminator_optimizer, noise, real
):
    """Make one step of the generator, then one of the discriminator."""
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
    """One player of the reference game: SGD with momentum."""

    def __init__(self, state, rate, momentum):
        self.state, self.rate, self.momentum = state, rate, momentum
        self.velocity = {name: torch.zeros_like(value) for name, value in state.items()}

    def move(self, loss_of):
        leaves = {name: value.clone().requires_grad_(True) for name, value in self.state.items()}
        slopes = torch.autograd.grad(loss_of(leaves), list(leaves.values()))
        for name, slope in zip(leaves, slopes, strict=True):
            self.velocity[name] = self.momentum * self.velocity[name] + slope
            self.state[name] = self.state[name] - self.rate * self.velocity[name]


def step_by_hand(generator, discriminator, noise, real):
    generator.move(
        lambda state: generator_loss(output_of(discriminator.state, output_of(state, noise)))
    )
    made = output_of(generator.state, noise)
    discriminator.move(
        lambda state: discriminator_loss(output_of(state, real), output_of(state, made))
    )


def as_module(layers, state, training):
    network = nn.Sequential(*(getattr(nn, name)(*sizes) for name, *sizes in layers))
    network.load_state_dict(state)
    return network.train(training)


def plays(rounds, rates, left_over=None, momentum=0.0, training=True, dropout=()):
    layers = {name: [*kind, *dropout] for name, kind in PLAYERS.items()}
    states = {name: draw_player(kind) for name, kind in PLAYERS.items()}
    batches = [(check.draw.normal(8, 2), check.draw.normal(6, 3, mean=1.0)) for _ in range(rounds)]
    # Afterwards each learns something else, for itself: a row of inputs and a gradient for each.
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
        training=training,
        then=then,
        seed=seed,
    )
    rates = dict(zip(PLAYERS, rates, strict=True))
    players = {name: ByHand(state, rates[name], momentum) for name, state in states.items()}
    pairs = zip(got["states"], batches, strict=True)
    for number, (seen, (noise, real)) in enumerate(pairs, start=1):
        step_by_hand(*players.values(), noise, real)
        for name, player in players.items():
            what = f"the {name} after step {number}"
            check.close(seen[name], player.state, rtol=1e-3, atol=1e-4, what=what)
    for name, (inputs, slope) in zip(PLAYERS, then, strict=True):
        network = as_module(layers[name], got["states"][-1][name], training)
        output = check.with_seed(seed, network, inputs)
        (output * slope).sum().backward()
        mode = "training" if training else "eval mode"
        what = f"what the {name}, handed over in {mode}, makes of other inputs afterwards"
        check.close(got["then"][name]["next"], output.detach(), rtol=1e-3, atol=1e-4, what=what)
        expected = {n: (w - 0.5 * w.grad).detach() for n, w in network.named_parameters()}
        what = f"the {name} after one more step, with another loss"
        check.close(got["then"][name]["state"], expected, rtol=1e-3, atol=1e-3, what=what)


with check.property("one step of both"):
    plays(1, [0.5, 0.5])
with check.property("several steps: nobody keeps gradients from before", weight=2):
    plays(3, [0.3, 0.4])
with check.property("a generator that stands still leaves the discriminator alone", weight=2):
    plays(2, [0.0, 0.5])
with check.property("what was in .grad before does not count; optimizers with momentum"):
    plays(1, [0.4, 0.3], left_over=5.0)
    plays(3, [0.2, 0.3], momentum=0.6)
with check.property("both networks can be trained afterwards, in the mode that they had"):
    # With rates of 0 nobody moves, whatever dropout leaves out.
    for training in (True, False):
        plays(1, [0.0, 0.0], training=training, dropout=[["Dropout", 0.5]])
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("a discriminator that stands still, and a longer game"):
    plays(2, [0.5, 0.0], left_over=-3.0)
    plays(6, [0.2, 0.2])
with check.property("networks that were handed over in eval mode stay so, step by step"):
    plays(2, [0.3, 0.3], training=False, dropout=[["Dropout", 0.5]])
### END HIDDEN TESTS
check.score()

# %% [markdown]
"""
<details><summary>What it was (open it when you have found it)</summary>

The generator's loss is computed through the discriminator, so its `backward` fills the discriminator's `.grad` as well. `generator_optimizer.zero_grad()` does not clear that: it knows only its own parameters. The discriminator's optimizer had been cleared *before*. So each of its
steps contained the wish of the generator: to find made numbers real. For the made numbers the two wishes together pull the score to 0, undecided; about ln 2 = 0.69 of the loss remains.

Three cures are right: clear right before each backward; let the generator's loss go back by `torch.autograd.grad`, which writes into nobody's `.grad`; or freeze the discriminator while the generator is trained. PyTorch's own
[DCGAN tutorial](https://docs.pytorch.org/tutorials/beginner/dcgan_faces_tutorial.html) trains the discriminator first and says `netD.zero_grad()` at its beginning, which clears what the generator left in the step before.
</details>
"""

# %% [markdown]
"""
## In the wild

| what | where it is settled |
| --- | --- |
| tensors and NumPy | [`torch.from_numpy`](https://docs.pytorch.org/docs/stable/generated/torch.from_numpy.html) shares, [`torch.tensor`](https://docs.pytorch.org/docs/stable/generated/torch.tensor.html) copies, `torch.as_tensor` shares where it can |
| autograd | [`torch.autograd.grad`](https://docs.pytorch.org/docs/stable/generated/torch.autograd.grad.html), and [how it works](https://docs.pytorch.org/docs/stable/notes/autograd.html) |
| checking gradients | [`torch.autograd.gradcheck`](https://docs.pytorch.org/docs/stable/generated/torch.autograd.gradcheck.html): central differences, `eps=1e-6`, for float64 |
| derivatives of functions | [`torch.func.grad`, `torch.func.vmap`](https://docs.pytorch.org/docs/stable/func.html); JAX has [`jax.grad`](https://docs.jax.dev/en/latest/automatic-differentiation.html) |
| least squares | [`torch.linalg.lstsq`](https://docs.pytorch.org/docs/stable/generated/torch.linalg.lstsq.html); [`numpy.polynomial.Polynomial.fit`](https://numpy.org/doc/stable/reference/generated/numpy.polynomial.polynomial.Polynomial.fit.html) scales x to -1 to 1 by itself |
| LBFGS | [`torch.optim.LBFGS`](https://docs.pytorch.org/docs/stable/generated/torch.optim.LBFGS.html): `line_search_fn="strong_wolfe"` |
| modules | [`torch.nn.Module`](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html): `parameters`, `buffers`, `state_dict`; `zero_grad(set_to_none=True)` is the default |
| scaling inputs | scikit-learn's [`StandardScaler`](https://scikit-learn.org/stable/modules/generated/sklearn.preprocessing.StandardScaler.html), Keras' [`Normalization`](https://keras.io/api/layers/preprocessing_layers/numerical/normalization/) |
"""

# %% [markdown]
r"""
## Recap

1. A tensor has a shape and a dtype; `from_numpy` and `.numpy()` share memory, `torch.tensor` copies.
2. Autograd notes operations and multiplies their derivatives on the way back; it is exact to rounding, while a central difference is right to two thirds of the digits at best, with a step near $\epsilon^{1/3}$.
3. A small loss does not mean right weights: where the bowl is much steeper in one direction than in another, the flat one is learned last. The ratio is the condition number.
4. Scale the features, solve in one go where that is possible, or use an optimizer that learns the bowl's form.
5. What is assigned as a Parameter, buffer or module is found; what is not, is not trained, mostly without an error. `backward` adds into every leaf that it passes, and `zero_grad` clears only its optimizer's own.

### Test yourself

<details><summary>1. A central difference is computed in float32 with h = 1e-6 at a place where f and x are near 1. How good is it?</summary>

Hardly at all. The rounding of f alone, about 1e-7, divided by h is 0.1; and x + h itself is rounded to steps of 1e-7.
</details>

<details><summary>2. <code>a = torch.zeros(3); b = a.numpy(); a += 1</code>. What is in b? And after <code>a = a + 1</code>?</summary>

Ones: the addition in place writes into the shared memory. After `a = a + 1` b still holds ones: a is a new tensor now.
</details>

<details><summary>3. A module holds its layers in a Python list. Which symptom do you see?</summary>

They are missing in `parameters()` and in the `state_dict`. If the module has no other parameters, the optimizer refuses ("got an empty parameter list"). If it has, there is no error: the others learn alone, and the loss falls less far than it could.
</details>

<details><summary>4. One feature is in millimeters and goes up to 5000, another is a share between 0 and 1. Which weight is learned last by gradient descent?</summary>

That of the share. The bowl is flat along it: its eigenvalue is smaller by a factor of 5000² and more, and the rate is limited by the other one.
</details>

<details><summary>5. A loss is computed through a network B in order to train A, and only A's optimizer steps. Does B change? Is all as before?</summary>

B's weights stay. But its `.grad` now holds the gradients of that loss, and B's next step takes them along unless they are cleared before its own backward.
</details>

### References

- PyTorch documentation, ["Autograd mechanics"](https://docs.pytorch.org/docs/stable/notes/autograd.html).
- A. G. Baydin, B. A. Pearlmutter, A. A. Radul, J. M. Siskind, "Automatic Differentiation in Machine Learning: a Survey", [arXiv:1502.05767](https://arxiv.org/abs/1502.05767), 2018.
- W. H. Press and others, *Numerical Recipes*, 3rd edition, Cambridge 2007, section 5.7 (numerical derivatives and their best step).
- J. Nocedal, S. J. Wright, *Numerical Optimization*, 2nd edition, Springer 2006, chapters 3 (conditioning and steepest descent) and 7 (LBFGS).
- D. P. Kingma, J. Ba, "Adam: A Method for Stochastic Optimization", [arXiv:1412.6980](https://arxiv.org/abs/1412.6980), 2014.
- I. Goodfellow and others, "Generative Adversarial Networks", [arXiv:1406.2661](https://arxiv.org/abs/1406.2661), 2014.

### Glossary

| English | 中文 | meaning |
| --- | --- | --- |
| tensor | 张量 | a block of numbers of one type, with a shape |
| rank | 阶（维数） | the number of axes |
| dtype | 数据类型 | the type of a tensor's numbers |
| automatic differentiation | 自动微分 | derivatives from the operations that ran, by the chain rule |
| leaf tensor | 叶子张量 | not the result of an operation on a tensor that requires a gradient; the place where `.grad` is filled |
| central difference | 中心差分 | the slope between two points left and right |
| machine epsilon | 机器精度 | the distance from 1 to the next number of a format |
| Hessian | 黑塞矩阵 | the matrix of second derivatives |
| eigenvalue | 特征值 | how steep a bowl is along one of its axes |
| condition number | 条件数 | the largest eigenvalue by the smallest |
| least squares | 最小二乘 | the weights with the smallest sum of squared errors |
| closure | 闭包 | a function without arguments that an optimizer calls for the loss |
| module | 模块 | what holds parameters, buffers and other modules |
| parameter, buffer | 参数、缓冲区 | a tensor that is trained; one that is only saved and moved along |
| tied parameter | 共享参数 | one parameter that is used in several places |
| generator, discriminator | 生成器、判别器 | the network that makes, the network that judges |
"""

# %%
progress("00")
