# %% [markdown]
"""
# 01 · Normalization

BatchNorm uses the mean and variance of the current batch to normalize the values that enter a layer. A small network for handwritten digits trains well with BatchNorm and batches of 4.
Not every batch size is safe.

**中文**: 本章讲归一化：BatchNorm、LayerNorm、InstanceNorm 与 GroupNorm 是同一运算在不同轴上的应用，RMSNorm 省去均值；批统计量的误差、训练与评估模式、运行统计量、折叠到卷积，以及如何选择。
"""

# %% tags=["needed"] folded="Imports"
import copy
import math

import torch
from torch import nn
from torch.nn import functional

from helpers import (
    COLORS,
    Check,
    digits,
    explore_norms,
    failing,
    hint,
    new_figure,
    play,
    predict,
    predictions,
    probes,
    progress,
    recorded,
    saved_bytes,
    show,
    show_drawing,
    time_ratio,
)

# %% folded="Data: 1,797 handwritten digits, 297 of them for testing"
torch.set_num_threads(1)  # tensors as small as these are slower with several

digit_images, digit_labels = digits()
pixels = (digit_images.flatten(1) / 16).double()
order = torch.randperm(len(pixels), generator=torch.Generator().manual_seed(0))
training_set, test_set = order[:1500], order[1500:]


# %% folded="Training: two hidden layers of 32 units, each with a normalization layer; three passes over 1,500 images"
def train_network(norm, batch_size):
    """Return the trained network, and the largest length of a gradient with batches of 2."""
    torch.manual_seed(0)
    hidden = [nn.Linear(64, 32), norm(32), nn.ReLU(), nn.Linear(32, 32), norm(32), nn.ReLU()]
    network = nn.Sequential(*hidden, nn.Linear(32, 10)).double()
    weights, largest = list(network.parameters()), 0.0
    optimizer = torch.optim.SGD(weights, lr=0.05)
    for _ in range(3):
        shuffled = training_set[torch.randperm(len(training_set))]
        for batch in shuffled.split(batch_size):
            optimizer.zero_grad()
            functional.cross_entropy(network(pixels[batch]), digit_labels[batch]).backward()
            if batch_size == 2:
                gradient = torch.cat([weight.grad.flatten() for weight in weights])
                largest = max(largest, gradient.norm().item())
            optimizer.step()
    return network.eval(), largest


def test_accuracy(network):
    with torch.no_grad():
        right = network(pixels[test_set]).argmax(dim=1) == digit_labels[test_set]
    return right.double().mean().item()


# %% tags=["nbval-ignore-output"]
trained, accuracies = {}, {nn.BatchNorm1d: {}, nn.LayerNorm: {}}
for norm, found in accuracies.items():
    for batch_size in (2, 3, 4, 10, 60):
        trained[norm, batch_size] = train_network(norm, batch_size)
        found[batch_size] = test_accuracy(trained[norm, batch_size][0])
with_pairs = accuracies[nn.BatchNorm1d][2]

# %% folded="Predict: batches of 2"
predict(
    "01/pairs",
    "With BatchNorm and batches of 3, the network recognizes about nine test images in ten. What share does it recognize if trained with batches of 2?",
    "more than 85%" if with_pairs > 0.85 else "70 to 85%" if with_pairs > 0.7 else "less than 70%",
    "The next section shows why.",
    choices=["more than 85%", "70 to 85%", "less than 70%"],
)

# %% folded="Figure 1.1: the accuracy for different batch sizes"
figure, axes = new_figure(height=3.0)
for (norm, found), color, marker in zip(
    accuracies.items(), ("vermilion", "blue"), "os", strict=True
):
    curve = zip(*found.items(), strict=True)
    axes.plot(*curve, f"{marker}-", color=COLORS[color], label=norm.__name__)
axes.set_xscale("log")
axes.set_xticks([2, 3, 4, 10, 60], ["2", "3", "4", "10", "60"])
axes.minorticks_off()
axes.set(title="Accuracy in evaluation mode", xlabel="images in a batch")
axes.set(ylabel="share of test images", ylim=(0, 1))
axes.legend(loc="lower right")
show(
    figure,
    number="1.1",
    caption="Accuracy on 297 test images after three passes over the training images. With pairs, BatchNorm fails; LayerNorm, which normalizes each image by itself, does not.",
    alt="Share of test images recognized, against the batch size from 2 to 60. It is about 0.9 or more, "
    "except with BatchNorm and batches of 2, where it is far lower.",
)

# %% [markdown]
"""
> **After this chapter, you will be able to**
>
> - write BatchNorm, LayerNorm, InstanceNorm and GroupNorm as one operation over different axes, and RMSNorm as a variant;
> - estimate the error of batch statistics and its effect on a network;
> - keep running statistics, and train one part of a network without changing what is frozen;
> - fold a BatchNorm into the convolution before it;
> - choose a norm by asking which differences must be preserved and which must not matter.
>
> **Time**: 60 minutes to read and run, 145 for the eight exercises.
>
> **Prerequisites**: tensors, autograd and modules (chapter 00); convolutions, ReLU, dropout, cross-entropy, SGD and Adam.
"""

# %% [markdown]
r"""
## What happens to a pair

In evaluation mode, BatchNorm uses **running averages** of the batches' statistics. To see whether they are the problem, replace them with the exact statistics of the training set (*PreciseBN*, Wu and Johnson 2021):
"""

# %% tags=["nbval-ignore-output"]
network, _ = trained[nn.BatchNorm1d, 2]
recalibrated = copy.deepcopy(network)
for layer in recalibrated:
    if isinstance(layer, nn.BatchNorm1d):
        layer.reset_running_stats()
        layer.momentum = None  # average over all batches; here one batch holds everything
with torch.no_grad():
    recalibrated.train()(pixels[training_set])
print(f"with the running averages:  {test_accuracy(network):.2f}")
print(f"with the exact statistics:  {test_accuracy(recalibrated.eval()):.2f}")

# %% [markdown]
"""
The exact statistics do not restore the accuracy, so the learned weights must be bad. To see why, consider one hidden unit, which produces two numbers for a batch of 2.
"""

# %% folded="Predict: 3 and 500"
predict(
    "01/three-and-500",
    "BatchNorm gets a batch of two numbers, 3 and 500. What does it turn the 500 into?",
    functional.batch_norm(torch.tensor([[3.0], [500.0]]), None, None, training=True)[1].item(),
    "The mean lies halfway between the two numbers, and each of them is exactly one standard deviation away from it.",
    between=(0, 500),
)

# %%
for pair in ([3.0, 5.0], [3.0, 500.0], [-0.1, 0.1], [7.0, 3.0], [0.0, 0.01], [0.0, 0.001]):
    seen = functional.batch_norm(torch.tensor(pair)[:, None], None, None, training=True)
    print(f"{pair!s:>15} becomes", [round(value, 2) for value in seen.flatten().tolist()])

# %% [markdown]
r"""
BatchNorm keeps little more than the order of two numbers: a pair becomes $(-1, 1)$ or $(1, -1)$, **whatever the numbers are**, unless they differ by only a few hundredths or less. Then the constant $\epsilon = 10^{-5}$ (the argument `eps`), which BatchNorm adds to the variance, is no longer negligible.
"""

# %% folded="Figure 1.2: the output for one number of a pair"
figure, (left, right) = new_figure(1, 2, height=3.0)
first = torch.linspace(-0.05, 0.05, 801, dtype=torch.float64)[:, None].requires_grad_(True)
pairs = torch.cat([first, torch.zeros_like(first)], dim=1).T
outputs = functional.batch_norm(pairs, None, None, training=True)[0]
(slopes,) = torch.autograd.grad(outputs.sum(), first)
left.plot(first.detach(), outputs.detach())
left.set(title="Output for the first number", xlabel="first number", ylabel="output")
right.plot(first.detach(), slopes, color=COLORS["vermilion"])
right.set(title="Its derivative", xlabel="first number", ylabel="derivative")
show(
    figure,
    number="1.2",
    caption="BatchNorm on a batch of two numbers, the second of which is 0. The output is almost a step: flat where the numbers clearly differ, and very steep where they cross.",
    alt="Left: the output for the first number of a pair, against that number from minus 0.05 to 0.05, with the second number at 0. It is "
    "close to minus 1 until 0, where it rises steeply, and then close to 1. Right: its derivative, near 0 except for a narrow peak of about 158 at 0.",
)
print(f"largest derivative: {slopes.max():.1f}; 1 / (2 * sqrt(1e-5)) = {0.5 / math.sqrt(1e-5):.1f}")

# %% [markdown]
r"""
An output so close to a step does damage in two ways. Only the order of the **values** survives. The **derivatives** are almost 0 over most of the range, so hardly any gradient passes; but where the two numbers cross, derivatives reach $1 / (2 \sqrt{\epsilon}) = 158$ in absolute value.

To separate the two effects, `GentleSlopes` returns the values of BatchNorm, but its backward pass uses the derivatives for $\epsilon = 1$, which are at most 0.5 (times a learned factor).
"""


# %%
class GentleSlopes(nn.BatchNorm1d):
    def forward(self, x):
        exact = super().forward(x)
        if not self.training:
            return exact
        gentle = functional.batch_norm(x, None, None, self.weight, self.bias, True, eps=1.0)
        return gentle + (exact - gentle).detach()  # exact's value; detach leaves gentle's gradient


# %% folded="Measure: accuracy in training mode, two images at a time"
def accuracy_in_pairs(network):
    torch.manual_seed(0)
    network, right = copy.deepcopy(network).train(), []
    with torch.no_grad():
        for pair in test_set[torch.randperm(len(test_set) - 1)].split(2):
            right.append(network(pixels[pair]).argmax(dim=1) == digit_labels[pair])
    return torch.cat(right).double().mean().item()


# %% tags=["nbval-ignore-output"] folded="Compare three norms, trained with batches of 2"
trained[GentleSlopes, 2] = train_network(GentleSlopes, 2)
print("batches of 2   evaluation mode   in pairs   largest gradient   largest weight")
for norm in (nn.BatchNorm1d, GentleSlopes, nn.LayerNorm):
    network, largest = trained[norm, 2]
    weight = max(weight.abs().max().item() for weight in network.parameters())
    shares = f"{test_accuracy(network):>15.2f}{accuracy_in_pairs(network):>11.2f}"
    print(f"{norm.__name__:<14}{shares}{largest:>19.0f}{weight:>17.0f}")

# %% [markdown]
r"""
Most of the damage seen in evaluation mode comes from the derivatives: very large gradients have driven the weights to very large values. With gentle derivatives, the network does well. Tested in training mode, two images at a time ("in pairs"), even this network recognizes far fewer images: BatchNorm is then a function of a batch, not of a single image.
"""

# %% [markdown]
r"""
## What a norm is for

Above, a normalization layer (a *norm*) precedes each activation function. Take $\tanh$: far from 0, it is flat, so gradients vanish; very close to 0, it is almost a straight line, and several linear layers in a row are no more powerful than one. If every layer shrinks its values somewhat, twenty layers make them far too small; if the weights are large, $\tanh$ stays in its flat parts.

For the next figure, 256 images pass through twenty layers of 64 units with $\tanh$ and random weights of standard deviation $s / \sqrt{64}$.
"""


# %% folded="Twenty layers of tanh, with and without a norm"
def through_layers(scale, with_norm, depth=20):
    """Return, for each layer, the spread between images before tanh, and the derivative of tanh."""
    generator = torch.Generator().manual_seed(0)
    x, spreads, slopes = pixels[training_set[:256]], [], []
    for _ in range(depth):
        x = x @ torch.randn(64, 64, generator=generator, dtype=torch.float64) * (scale / 8)
        if with_norm:
            x = functional.batch_norm(x, None, None, training=True)
        spreads.append(x.std(dim=0).mean().item())
        x = x.tanh()
        slopes.append((1 - x * x).mean().item())
    return spreads, slopes


scales = {0.5: ("blue", "o"), 1.0: ("green", "^"), 4.0: ("vermilion", "s")}

# %% folded="Figure 1.3: spread and derivative in twenty layers"
figure, (left, right) = new_figure(1, 2, height=3.6)
layers = range(1, 21)
for scale, (color, marker) in scales.items():
    style = {"color": COLORS[color], "marker": marker, "markersize": 3.5}
    for axes, values in zip((left, right), through_layers(scale, False), strict=True):
        axes.plot(layers, values, label=f"no norm, s = {scale:g}", **style)
for scale in scales:
    for axes, values in zip((left, right), through_layers(scale, True), strict=True):
        label = "with a norm, all three" if scale == 0.5 else None
        axes.plot(layers, values, ":", color=COLORS["black"], label=label)
left.set_yscale("log")
left.set(title="Spread between images before tanh", xlabel="layer", ylabel="standard deviation")
right.set(title="Mean derivative of tanh", xlabel="layer", ylabel="derivative", ylim=(0, 1.05))
left.legend(fontsize=8, loc="lower left")
show(
    figure,
    number="1.3",
    caption="Without a norm, small weights make all images alike, and large weights drive tanh into its flat parts. With a norm, the three curves coincide.",
    alt="Two plots over twenty layers. Without a norm, weights with s = 0.5 let the standard deviation fall "
    "below a millionth, and weights with s = 4 keep it large but leave tanh a mean derivative of about 0.2. With a "
    "norm, all three sizes of weights give the same curves: a standard deviation of 1 and a derivative of about 0.6.",
)
for scale in scales:
    without, with_norm = through_layers(scale, False)[0][-1], through_layers(scale, True)[0][-1]
    print(f"s = {scale:<4g} spread in layer 20: {without:.0e} without, {with_norm:.2f} with norm")

# %% [markdown]
r"""
The norm removes the effect of the size of the weights. It then multiplies by a learned $\gamma$ and adds a learned $\beta$, so the network can still choose the size and center of its values.

Ioffe and Szegedy (2015) found that BatchNorm also speeds up training, and argued that, with it, layers no longer have to follow the shifting distribution of their inputs. Santurkar et al. (2018) added such shifts after the norm on purpose, and training did not suffer; they credit a smoother loss instead.

BatchNorm subtracts the mean, so in training mode a bias before it has no effect and gets only rounding errors as its gradient. Therefore, the layer before a BatchNorm can have `bias=False`.
"""

# %%
torch.manual_seed(0)
layer = nn.Linear(64, 32).double()
output = functional.batch_norm(layer(pixels[training_set]), None, None, training=True)
output.tanh().square().sum().backward()
share = layer.bias.grad.abs().max() / layer.weight.grad.abs().max()
print("the bias's gradient is below 1e-9 of the weight's:", bool(share < 1e-9))

# %% [markdown]
r"""
## One operation, many axes

All norms in this chapter perform the same operation, except that RMSNorm leaves out the mean. A norm divides the entries of a tensor into groups, and for each group of $m$ entries it computes

$$\mu = \frac{1}{m} \sum_i x_i \qquad \sigma^2 = \frac{1}{m} \sum_i (x_i - \mu)^2 \qquad y_i = \frac{x_i - \mu}{\sqrt{\sigma^2 + \epsilon}}$$

The small $\epsilon$ is *inside* the root and keeps the division safe for a group of equal numbers. Because the sum is divided by $m$ rather than $m - 1$, $\sigma^2$ is the **biased variance**.

Below is a tensor of shape (N, C, L): N examples (blocks), each with C = 6 channels (rows) and L = 3 positions (columns). **Entries of one color share their statistics.** Choose a norm and an entry.

- Set the entry to 50. How many other outputs change with each norm?
- Switch BatchNorm to evaluation mode. What happens to the outputs?
- Reduce the batch size. With which norms do the remaining outputs change?
"""

# %%
explore_norms("batch", batch=4, entry=(0, 1, 1))

# %% [markdown]
r"""
Of these norms, only BatchNorm combines different examples, and only in training. In evaluation mode, it uses stored statistics, so an extreme entry changes no other output.
Batch size and mode do not matter to the other norms (unless an InstanceNorm keeps running statistics).

For 3 images of 4 channels and 2 × 3 pixels, the function below uses autograd to count the entries on which the first output depends.
"""


# %%
def entries_that_matter(norm):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(3, 4, 2, 3, generator=generator, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(norm(x)[0, 0, 0, 0], x)
    return int((slope != 0).sum())


# %% folded="Count: the entries on which the first output depends"
def layer_norm_of_channels(x):
    return functional.layer_norm(x.movedim(1, -1), (x.shape[1],)).movedim(-1, 1)


norms = {
    "BatchNorm2d(4)": lambda x: functional.batch_norm(x, None, None, training=True),
    "InstanceNorm2d(4)": functional.instance_norm,
    "GroupNorm(2, 4)": lambda x: functional.group_norm(x, 2),
    "LayerNorm((4, 2, 3))": lambda x: functional.layer_norm(x, (4, 2, 3)),
    "LayerNorm(4), channels last": layer_norm_of_channels,
}
for name, norm in norms.items():
    print(f"{name:<28} the first output depends on {entries_that_matter(norm):>2} of 72 entries")

# %% [markdown]
r"""
The last two lines both show LayerNorm: `nn.LayerNorm` normalizes over the **trailing axes** whose sizes you pass.
"""

# %% [markdown] exercise="normalize" points=4 minutes=15 difficulty=1
"""
### One function for all norms

One function can do the work of several norms if it knows the axes.

`normalize(x, axes, eps=1e-5) -> Tensor`

- **In** `x`: a float32 or float64 tensor of any shape, contiguous or not. `axes`: a tuple of one or more different integers; negative ones count from the end. Entries that differ only in their position along these axes form a group.
- **Out**: a tensor of the shape and dtype of `x`, with each group normalized by the formula above; `x` itself does not change. For float32 groups with a mean of 10,000 and a standard deviation of 1, the result is accurate to within 0.005.
- **Gradient**: passes through the mean and the variance. For a group of equal numbers whose mean has no rounding error (all 2, for example), the output is 0, and the gradient is finite, as given by the formula.
- **Limits**: torch's own norms, such as `layer_norm` and `BatchNorm2d`, are forbidden; if your code names one, the exercise earns no points.

`normalize(torch.tensor([[1.0, 3.0], [10.0, 30.0]]), (1,))` returns about `[[-1, 1], [-1, 1]]`; with `(0,)` it returns about `[[-1, -1], [1, 1]]`.

<!-- hint: Which two numbers does each group need? If a tensor of images, channels, rows and columns is normalized over rows and columns, how many groups are there, and what shape should their means have? -->
<!-- hint: Reduce over all the axes at once, and keep the reduced axes with size 1, so that the result broadcasts against x. The variance is the mean of the squared distances from that mean. -->
<!-- hint: `mean` takes `dim=axes` and `keepdim=True`. So does `var`, which by default divides by one less than the count: look up its argument `correction`. -->
"""


# %% solution="normalize"
def normalize(x, axes, eps=1e-5):
    """Return a tensor like ``x``, with mean 0 and variance 1 in each group along ``axes``."""
    ### BEGIN SOLUTION
    distance = x - x.mean(dim=axes, keepdim=True)
    variance = (distance * distance).mean(dim=axes, keepdim=True)
    return distance / (variance + eps).sqrt()
    ### END SOLUTION


# %% test="normalize"
check = Check("normalize")
OWN = "normalized_in_float64"  # calls torch's own norm


def normalized_in_float64(x, axes, eps=1e-5):
    last = tuple(range(-len(axes), 0))
    moved = x.double().movedim(axes, last)
    return functional.layer_norm(moved, moved.shape[-len(axes) :], eps=eps).movedim(last, axes)


def require_no_norm():
    """Search the code for torch's own norms, functions and classes."""
    kinds = ("batch", "group", "layer", "instance")
    names = [f"*{kind}{between}norm*" for kind in (*kinds, "rms") for between in ("", "_")]
    check.written_without(*names, "*norm*base*", "*normalization*", "*transformer*", OWN)


with check.property("each group has mean 0 and variance 1, without torch's own norms"):
    x = check.draw.normal(6, 8, 7, mean=2.0, std=3.0)
    for axes in ((0, 2), (1, 2), (2,), (1,), (0, 1, 2)):
        got = check.call(normalize, x, axes)
        expected = normalized_in_float64(x, axes).float()
        check.close(got, expected, rtol=1e-4, atol=1e-4, what=f"axes={axes}")
    require_no_norm()
with check.property("x does not change", weight=0.5):
    for dtype in (torch.float32, torch.float64):
        x = check.draw.normal(check.draw.integer(5, 12), 4, mean=0.3, dtype=dtype)
        seen = check.call(probes.after_call, normalize, x, (0,))
        check.equal(seen["arguments"][0], x, what=f"x, in {dtype}, after the call")
        expected = normalized_in_float64(x, (0,)).to(dtype)
        check.close(seen["output"], expected, rtol=1e-4, atol=1e-4)
with check.property("x of 1, 4 or 5 axes, counted from either end; x not contiguous; sizes of 1"):
    five, ones = (3, 2, 4, 6, 5), (1, 4, 1, 3)
    for sizes, axes in (
        *(((9,), (0,)), (five, (1, -2)), (five, (-3, 0, 4)), (five, (3, 2)), (five, (3, 0))),
        *((ones, (1,)), (ones, (2, -1)), (ones, (0,)), ((7, 1), (-1,))),
    ):
        x = check.draw.normal(*reversed(sizes), mean=1.0).permute(*reversed(range(len(sizes))))
        got = check.call(normalize, x, axes)
        expected = normalized_in_float64(x, axes).float()
        check.close(got, expected, rtol=1e-4, atol=1e-4, what=f"shape {sizes}, axes={axes}")
with check.property("equals torch's own norms, in float32 and in float64"):
    for dtype in (torch.float32, torch.float64):
        x = check.draw.normal(5, 4, 3, 2, dtype=dtype)
        for name, axes, expected in (
            ("batch_norm", (0, 2, 3), functional.batch_norm(x, None, None, training=True)),
            ("instance_norm", (-1, -2), functional.instance_norm(x)),
            ("layer_norm", (1, 2, 3), functional.layer_norm(x, (4, 3, 2))),
        ):
            got = check.call(normalize, x, axes)
            few = 64 * torch.finfo(dtype).eps
            check.close(got, expected, rtol=few, atol=few, what=f"{name} in {dtype}")
with check.property("a small variance: eps is added under the root"):
    x = check.draw.normal(4, 6, 3, std=3e-3)
    for given in ((), (1e-4,)):
        got = check.call(normalize, x, (1,), *given)
        expected = normalized_in_float64(x, (1,), *given).float()
        check.close(got, expected, rtol=1e-3, atol=1e-3, what=f"eps={(*given, 1e-5)[0]:g}")
with check.property("with a mean of 10,000, accurate to within 0.005", weight=2):
    x = check.draw.normal(6, 50, mean=1e4)
    got = check.call(normalize, x, (1,))
    check.close(got, normalized_in_float64(x, (1,)).float(), rtol=0.0, atol=5e-3)
with check.property("the gradient goes through mean and variance", weight=2):
    x = check.draw.normal(4, 3, 5, dtype=torch.float64)
    grad_output = check.draw.normal(4, 3, 5, dtype=torch.float64)
    got = check.call(probes.gradient, normalize, x, (0, 2), grad_output=grad_output)
    leaf = x.clone().requires_grad_(True)
    (slope,) = torch.autograd.grad(normalized_in_float64(leaf, (0, 2)), leaf, grad_output)
    check.close(got["gradient"], slope, rtol=1e-9, atol=1e-10, what="the gradient")
with check.property("a group of equal numbers gives 0, and a finite gradient"):
    x = check.draw.normal(3, 8)
    x[check.draw.integer(0, 3)] = 2.0
    grad_output = check.draw.normal(3, 8)
    got = check.call(probes.gradient, normalize, x, (-1,), grad_output=grad_output)
    check.close(got["output"], normalized_in_float64(x, (-1,)).float(), atol=1e-5, what="the value")
    leaf = x.double().requires_grad_(True)
    (slope,) = torch.autograd.grad(normalized_in_float64(leaf, (-1,)), leaf, grad_output.double())
    check.close(got["gradient"], slope.float(), rtol=1e-4, atol=1e-3, what="the gradient")
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("several groups of equal numbers, over two axes, in float64"):
    x, grad_output = (check.draw.normal(3, 5, 4, dtype=torch.float64) for _ in range(2))
    x[:, check.draw.permutation(5)[:2]] = (-4.0, 0.0, 7.0)[check.draw.integer(0, 3)]
    got = check.call(probes.gradient, normalize, x, (2, 0), grad_output=grad_output)
    leaf = x.clone().requires_grad_(True)
    output = normalized_in_float64(leaf, (2, 0))
    (slope,) = torch.autograd.grad(output, leaf, grad_output)
    check.close(got["output"], output.detach(), atol=1e-9, what="the value")
    check.close(got["gradient"], slope, rtol=1e-8, atol=1e-8, what="the gradient")
with check.property("takes another eps"):
    x, eps = check.draw.normal(5, 2, 4), check.draw.number(0.2, 0.5)
    got = check.call(normalize, x, (0, -1), eps)
    check.close(got, normalized_in_float64(x, (0, -1), eps).float(), atol=1e-5)
### END HIDDEN TESTS
check.score()

# %% [markdown]
r"""
## The same norm in another shape

Each norm except RMSNorm can be written as a BatchNorm of the same numbers in another shape. InstanceNorm, for example, is BatchNorm with every channel of every example treated as a separate channel.
"""

# %% folded="Drawing: InstanceNorm as a BatchNorm"
show_drawing(
    "01/other-shape",
    number="1.4",
    caption="InstanceNorm of a tensor of shape (2, 3, L) is BatchNorm of the same numbers in the shape (1, 6, L): each group keeps its entries.",
    alt="Left: a tensor with two examples of three channels. Right: the same six rows, as one example of six channels. BatchNorm of the "
    "tensor on the right has one mean for each row, as does InstanceNorm of the tensor on the left. Arrows lead from left to right.",
)


# %% folded="GroupNorm, and three other norms"
def batch_norm(x):
    return functional.batch_norm(x, None, None, training=True)


generator = torch.Generator().manual_seed(0)
x = torch.randn(6, 4, 5, 3, generator=generator)
as_many = functional.group_norm(x, 4)
others = {
    "InstanceNorm": functional.instance_norm(x),
    "LayerNorm over (C, H, W)": functional.layer_norm(x, (4, 5, 3)),
    "BatchNorm in training": functional.batch_norm(x, None, None, training=True),
}

# %% folded="Predict: GroupNorm with as many groups as channels"
predict(
    "01/as-many-groups",
    "GroupNorm divides the channels of each example into groups. With 4 channels in 4 groups, which other norm gives the same result?",
    min(others, key=lambda name: (others[name] - as_many).abs().max().item()),
    "Each group is a single channel of a single example.",
    choices=list(others),
)


# %% folded="Four identities"
def compare_relatives(dtype):
    """Return, for each identity, the largest difference of two entries, in machine epsilons."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(6, 4, 5, 3, generator=generator, dtype=torch.float64).to(dtype)
    centered = x - x.mean(dim=-1, keepdim=True)
    pairs = {
        "GroupNorm, 1 group = LayerNorm over (C, H, W)": (
            functional.group_norm(x, 1),
            functional.layer_norm(x, (4, 5, 3)),
        ),
        "GroupNorm, C groups = InstanceNorm": (
            functional.group_norm(x, 4),
            functional.instance_norm(x),
        ),
        "InstanceNorm = BatchNorm of (1, N * C, H, W)": (
            functional.instance_norm(x),
            batch_norm(x.reshape(1, 24, 5, 3)).reshape(x.shape),
        ),
        "LayerNorm over W = RMSNorm of x minus its mean": (
            functional.layer_norm(x, (3,), eps=1e-5),
            functional.rms_norm(centered, (3,), eps=1e-5),
        ),
    }
    epsilon = torch.finfo(dtype).eps
    return {
        name: (one - other).abs().max().item() / epsilon for name, (one, other) in pairs.items()
    }


# %%
identities = {dtype: compare_relatives(dtype) for dtype in (torch.float32, torch.float64)}
for name in identities[torch.float32]:
    largest = max(found[name] for found in identities.values())
    print(f"{name:<48} up to rounding: {largest <= 20}")

# %% [markdown]
r"""
"Up to rounding" means that no entry differs by more than 20 **machine epsilons**; the machine epsilon of a format is the distance from 1 to the next larger number. The identities hold for the normalization but not for what is learned: GroupNorm and BatchNorm have one $\gamma$ and one $\beta$ for each *channel*, while LayerNorm has one of each for every *entry* of a group.
"""

# %% [markdown] exercise="group-norm" points=4 minutes=15 difficulty=2
r"""
### GroupNorm

Wu and He (2018) proposed GroupNorm for tasks in which memory limits the batch size, such as detection and segmentation.

`group_norm(x, groups, weight, bias, eps=1e-5) -> Tensor`

- **In** `x`: float32 or float64, contiguous or not, of shape (N, C, ...) with any number of further axes, including none. `groups`: an integer that divides C. `weight` and `bias`: of shape (C,), with the dtype of `x`.
  Neighboring channels form a group: with C = 6 and 2 groups, channels 0, 1 and 2 form the first. Each group of each example has one mean and one biased variance, over its channels and all further axes.
- **Out**: `x` normalized, with the precision of `normalize`; each channel is then multiplied by its weight, and its bias is added. Shape and dtype are those of `x`; the arguments do not change.
- **Gradient**: with respect to `x`, `weight` and `bias`, also for a group of equal numbers whose mean has no rounding error, where it is finite.
- **Limits**: if your code names one of torch's own norms, the exercise earns no points. You may call your `normalize`.

With `x = torch.tensor([[1.0, 3.0, 10.0, 30.0]])`, 2 groups, weights of 1 and biases of 0, `group_norm` returns about `[[-1, 1, -1, 1]]`.

<!-- hint: Your normalize could do all of it if the channels of one group had an axis of their own. Which shape has such an axis? -->
<!-- hint: Split the channel axis in two: groups first, then the channels within a group. Normalize over everything after the groups, and return to the old shape before applying weight and bias. -->
<!-- hint: `x.reshape(len(x), groups, -1)` has three axes; normalize over the last one alone. For weight and bias, use a view of shape (1, C, 1, ...) with as many axes as x. -->
"""


# %% solution="group-norm"
def group_norm(x, groups, weight, bias, eps=1e-5):
    """Return ``x``, (N, C, ...), normalized in groups of channels, scaled and shifted."""
    ### BEGIN SOLUTION
    normalized = normalize(x.reshape(len(x), groups, -1), (2,), eps).reshape(x.shape)
    per_channel = (1, -1) + (1,) * (x.ndim - 2)
    return normalized * weight.reshape(per_channel) + bias.reshape(per_channel)
    ### END SOLUTION


# %% test="group-norm"
check = Check("group-norm")


def group_norm_in_float64(x, groups, weight, bias, eps=1e-5):
    result = functional.group_norm(x.double(), groups, weight.double(), bias.double(), eps)
    return result.to(x.dtype)


def require_no_norm():
    """Search the code for torch's own norms, functions and classes."""
    kinds = ("batch", "group", "layer", "instance")
    names = [f"*{kind}{between}norm*" for kind in (*kinds, "rms") for between in ("", "_")]
    check.written_without(*names, "*norm*base*", "*normalization*", "*transformer*")


def require_gradients(names, x, *given):
    """Compare the gradients with respect to x, the weight or the bias with those of torch's own function."""
    weight, bias = (check.draw.normal(x.shape[1], dtype=x.dtype) for _ in range(2))
    grad_output = check.draw.normal(*x.shape, dtype=x.dtype)
    values = {"x": x, "the weight": weight, "the bias": bias}
    for name in names:
        got = check.call(
            probes.gradient,
            group_norm,
            *(x, *given, weight, bias),
            with_respect_to={"x": 0, "the weight": 2, "the bias": 3}[name],
            grad_output=grad_output,
        )
        leaves = {n: v.double().clone().requires_grad_(True) for n, v in values.items()}
        leaf, *learned = leaves.values()
        output = functional.group_norm(leaf, *given, *learned)
        (slope,) = torch.autograd.grad(output, leaves[name], grad_output.double())
        expected = output.detach().to(x.dtype)
        check.close(got["output"], expected, rtol=1e-4, atol=1e-5, what="the value")
        what = f"the gradient with respect to {name}"
        check.close(got["gradient"], slope.to(x.dtype), rtol=1e-3, atol=1e-3, what=what)


with check.property("2 and 3 groups, by definition, without torch's own norms"):
    x = check.draw.normal(4, 6, 5, 3, mean=1.0)
    weight, bias = check.draw.normal(6), check.draw.normal(6)
    for groups in (2, 3):
        got = check.call(group_norm, x, groups, weight, bias)
        expected = group_norm_in_float64(x, groups, weight, bias)
        check.close(got, expected, rtol=1e-4, atol=1e-5, what=f"groups={groups}")
    require_no_norm()
with check.property("float64, correct up to rounding; the arguments do not change", weight=0.5):
    x = check.draw.normal(2, 6, 5, 3, dtype=torch.float64)
    weight, bias = (check.draw.normal(6, dtype=torch.float64) for _ in range(2))
    seen = check.call(probes.after_call, group_norm, x, 2, weight, bias)
    for name, old, place in (("x", x, 0), ("weight", weight, 2), ("bias", bias, 3)):
        check.equal(seen["arguments"][place], old, what=f"{name} after the call")
    expected = group_norm_in_float64(x, 2, weight, bias)
    check.close(seen["output"], expected, rtol=1e-9, atol=1e-9)
with check.property("one group is LayerNorm over (C, H, W), C groups are InstanceNorm"):
    x, unit, zero = check.draw.normal(3, 7, 2, 4), torch.ones(7), torch.zeros(7)
    got = check.call(group_norm, x, 1, unit, zero)
    expected = functional.layer_norm(x.double(), (7, 2, 4)).float()
    check.close(got, expected, rtol=1e-4, atol=1e-5, what="one group")
    got = check.call(group_norm, x, 7, unit, zero)
    expected = functional.instance_norm(x.double()).float()
    check.close(got, expected, rtol=1e-4, atol=1e-5, what="seven groups")
with check.property(
    "works for vectors, sequences, one volume, and images in channels_last format", weight=2
):
    weight, bias = check.draw.normal(8), check.draw.normal(8)
    for sizes, groups in (
        *(((5, 8), 2), ((5, 8), 8), ((3, 8, 7), 2), ((1, 8, 3, 4, 5), 2), ((3, 8, 2, 5), 2)),
        ((3, 8, 2, 1, 4, 5), 4),
    ):
        x = check.draw.normal(*sizes)
        if len(sizes) == 4:
            x = x.contiguous(memory_format=torch.channels_last)
        got = check.call(group_norm, x, groups, weight, bias)
        expected = group_norm_in_float64(x, groups, weight, bias)
        what = f"shape {sizes}, groups={groups}"
        check.close(got, expected, rtol=1e-4, atol=1e-5, what=what)
with check.property("with a mean of 10,000, accurate to within 0.005; another eps is used"):
    x, unit, zero = check.draw.normal(3, 6, 7, mean=1e4), torch.ones(6), torch.zeros(6)
    for eps in (1e-5, 0.5):
        got = check.call(group_norm, x, 2, unit, zero, eps=eps)
        expected = group_norm_in_float64(x, 2, unit, zero, eps)
        check.close(got, expected, rtol=0.0, atol=5e-3, what=f"eps={eps}")
with check.property(
    "the gradients with respect to x (finite in a group of equal numbers), the weight and the bias"
):
    x = check.draw.normal(3, 4, 8)
    x[1, 2:] = 3.0  # their mean is exact, in whichever order it is computed
    require_gradients(("x", "the weight", "the bias"), x, 2)
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("float64 keeps its precision, with another eps too"):
    x = check.draw.normal(2, 6, 5, mean=3.0, dtype=torch.float64)
    weight = check.draw.normal(6, dtype=torch.float64)
    bias = check.draw.normal(6, dtype=torch.float64)
    for eps in (1e-5, 0.2):
        got = check.call(group_norm, x, 3, weight, bias, eps=eps)
        expected = group_norm_in_float64(x, 3, weight, bias, eps)
        check.close(got, expected, rtol=1e-9, atol=1e-9, what=f"eps={eps}")
with check.property("the gradient with respect to x and the bias, for images in float64"):
    x = check.draw.normal(2, 6, 5, 3, dtype=torch.float64)
    require_gradients(("x", "the bias"), x, 2 + check.draw.integer(0, 2))
### END HIDDEN TESTS
check.score()

# %% [markdown]
r"""
## One token at a time

A language model turns text into a tensor of shape (texts, tokens, features); a **token** is the unit that the model reads and writes. If the model writes one token after another, the result for a token must not depend on later tokens.
"""

# %% folded="Replace the last of five tokens"
generator = torch.Generator().manual_seed(0)
text = torch.randn(1, 5, 8, generator=generator)
other_text = text.clone()
other_text[0, 4] = 10 * torch.randn(8, generator=generator)
token_norms = {
    "LayerNorm(8)": lambda x: functional.layer_norm(x, (8,)),
    "LayerNorm((5, 8))": lambda x: functional.layer_norm(x, (5, 8)),
    "InstanceNorm1d over the tokens": lambda x: functional.instance_norm(x.mT).mT,
}
changes = {
    name: (norm(text) - norm(other_text))[0].abs().amax(dim=1) for name, norm in token_norms.items()
}

# %% folded="Predict: when a later token changes"
predict(
    "01/future",
    "The last of five tokens, each with 8 features, is replaced. Which norm leaves the outputs for the first four tokens unchanged?",
    min(changes, key=lambda name: changes[name][:4].max().item()),
    "It is the only one in which a group lies within a single token.",
    choices=list(changes),
)

# %% folded="Figure 1.5: outputs that change with a later token"
figure, axes = new_figure(height=2.4)
shown = torch.stack(list(changes.values()))
axes.imshow(shown, aspect="auto", cmap="Blues", vmin=0, vmax=4)
axes.grid(False)
for row, found in enumerate(shown.tolist()):
    for column, change in enumerate(found):
        color = "white" if change > 2.2 else "0.15"
        axes.text(column, row, f"{change:.1f}", ha="center", va="center", color=color)
axes.set_xticks(range(5), ["0", "1", "2", "3", "4 (replaced)"])
axes.set_yticks(range(3), list(changes))
axes.set(title="Largest change of an output", xlabel="token", ylabel="norm")
show(
    figure,
    number="1.5",
    caption="Token 4 was replaced. Only with `LayerNorm(8)`, which normalizes over the features of a token, do the outputs for the earlier tokens stay the same.",
    alt="A table with one row for each norm and one column for each of five tokens. With LayerNorm over the features, the changes of the "
    "first four tokens are 0. With LayerNorm over tokens and features and with InstanceNorm over the tokens, all tokens change.",
)

# %% [markdown]
"""
The other two norms leak the future into the past. During training, a model can exploit this leak; when it generates text, the later tokens do not exist yet.

Ba, Kiros and Hinton (2016) had recurrent networks in mind when they introduced LayerNorm; there, BatchNorm would need separate statistics for every time step.
"""

# %% [markdown] exercise="layer-norm" points=3 minutes=10 difficulty=1
"""
### LayerNorm

Many language models use LayerNorm over one trailing axis. Write it for any number of trailing axes.

`layer_norm(x, normalized_shape, weight, bias, eps=1e-5) -> Tensor`

- **In** `x`: a float32 or float64 tensor of any shape, contiguous or not; two axes may have the same size. `normalized_shape`: a tuple with the sizes of the last one or more axes of `x`. `weight` and `bias`: of that shape, with the dtype of `x`.
- **Out**: `x` normalized over its last `len(normalized_shape)` axes, with the precision of `normalize`; each entry is then multiplied by its weight, and its bias is added. Shape and dtype are those of `x`; the arguments do not change.
- **Gradient**: with respect to `x`, `weight` and `bias`, also for a group of equal numbers whose mean has no rounding error, where it is finite.
- **Limits**: if your code names one of torch's own norms, the exercise earns no points. You may call your `normalize`.

With `x = torch.tensor([[1.0, 3.0], [10.0, 30.0]])`, weights of 2 and biases of 5, `layer_norm(x, (2,), weight, bias)` returns about `[[3, 7], [3, 7]]`.

<!-- hint: `normalized_shape` gives sizes, but your normalize expects axes. How many axes are meant, and at which end of the shape? -->
<!-- hint: Counted from the end, the axes are -1, -2 and so on; there are as many as `normalized_shape` has entries. -->
<!-- hint: `tuple(range(-count, 0))` gives the last axes. Weight and bias broadcast by themselves. -->
"""


# %% solution="layer-norm"
def layer_norm(x, normalized_shape, weight, bias, eps=1e-5):
    """Return ``x`` normalized over its trailing axes ``normalized_shape``, scaled and shifted."""
    ### BEGIN SOLUTION
    axes = tuple(range(-len(normalized_shape), 0))
    return normalize(x, axes, eps) * weight + bias
    ### END SOLUTION


# %% test="layer-norm"
check = Check("layer-norm")


def layer_norm_in_float64(x, shape, weight, bias, eps=1e-5):
    result = functional.layer_norm(x.double(), shape, weight.double(), bias.double(), eps)
    return result.to(x.dtype)


def require_no_norm():
    """Search the code for torch's own norms, functions and classes."""
    kinds = ("batch", "group", "layer", "instance")
    names = [f"*{kind}{between}norm*" for kind in (*kinds, "rms") for between in ("", "_")]
    check.written_without(*names, "*norm*base*", "*normalization*", "*transformer*")


def require_gradients(names, x, *given):
    """Compare the gradients with respect to x, the weight or the bias with those of torch's own function."""
    weight, bias = (check.draw.normal(*given[0], dtype=x.dtype) for _ in range(2))
    grad_output = check.draw.normal(*x.shape, dtype=x.dtype)
    values = {"x": x, "the weight": weight, "the bias": bias}
    for name in names:
        got = check.call(
            probes.gradient,
            layer_norm,
            *(x, *given, weight, bias),
            with_respect_to={"x": 0, "the weight": 2, "the bias": 3}[name],
            grad_output=grad_output,
        )
        leaves = {n: v.double().clone().requires_grad_(True) for n, v in values.items()}
        leaf, *learned = leaves.values()
        output = functional.layer_norm(leaf, *given, *learned)
        (slope,) = torch.autograd.grad(output, leaves[name], grad_output.double())
        expected = output.detach().to(x.dtype)
        check.close(got["output"], expected, rtol=1e-4, atol=1e-5, what="the value")
        what = f"the gradient with respect to {name}"
        check.close(got["gradient"], slope.to(x.dtype), rtol=1e-3, atol=1e-3, what=what)


with check.property("each token has its own statistics, without torch's own norms"):
    x, weight, bias = (
        check.draw.normal(3, 5, 8, mean=2.0),
        check.draw.normal(8),
        check.draw.normal(8),
    )
    x = x * torch.tensor([2.0, 4.0, 3.0, 5.0, 7.0])[:, None]
    got = check.call(layer_norm, x, (8,), weight, bias)
    check.close(got, layer_norm_in_float64(x, (8,), weight, bias), rtol=1e-4, atol=1e-3)
    require_no_norm()
with check.property("float64, correct up to rounding; the arguments do not change", weight=0.5):
    x = check.draw.normal(3, 4, 5, dtype=torch.float64)
    weight, bias = (check.draw.normal(5, dtype=torch.float64) for _ in range(2))
    seen = check.call(probes.after_call, layer_norm, x, (5,), weight, bias)
    for name, old, place in (("x", x, 0), ("weight", weight, 2), ("bias", bias, 3)):
        check.equal(seen["arguments"][place], old, what=f"{name} after the call")
    expected = layer_norm_in_float64(x, (5,), weight, bias)
    check.close(seen["output"], expected, rtol=1e-9, atol=1e-9)
with check.property("two or three trailing axes, two of the same size, and x not contiguous"):
    x = check.draw.normal(4, 2, 4, 3, std=2.0, equal_sizes=True).transpose(0, 1)
    weights, biases = (check.draw.normal(4, 4, 3, equal_sizes=True) for _ in range(2))
    for weight, bias in ((weights[0], biases[0]), (weights, biases)):
        shape = tuple(weight.shape)
        got = check.call(layer_norm, x, shape, weight, bias)
        expected = layer_norm_in_float64(x, shape, weight, bias)
        check.close(got, expected, rtol=1e-4, atol=1e-4, what=f"normalized_shape={shape}")
with check.property("all axes, three to five of six, and one axis of size 1"):
    six = (2, 1, 3, 5, 6, 4)
    some = [(six, six[-count:]) for count in (3, 4, 5)]
    for sizes, shape in (((5,), (5,)), ((4, 3), (4, 3)), ((5, 1), (1,)), *some):
        x = check.draw.normal(*sizes, std=2.0)
        weight, bias = check.draw.normal(*shape), check.draw.normal(*shape)
        got = check.call(layer_norm, x, shape, weight, bias)
        expected = layer_norm_in_float64(x, shape, weight, bias)
        what = f"shape {sizes}, normalized_shape={shape}"
        check.close(got, expected, rtol=1e-4, atol=1e-4, what=what)
with check.property("the biased variance, with eps under the root, the default or another"):
    x, weight, bias = check.draw.normal(6, 3, std=3e-3), check.draw.normal(3), check.draw.normal(3)
    got = check.call(layer_norm, x, (3,), weight, bias)
    expected = layer_norm_in_float64(x, (3,), weight, bias)
    check.close(got, expected, rtol=1e-3, atol=1e-4, what="the default eps")
    got = check.call(layer_norm, x, (3,), weight, bias, eps=1e-4)
    expected = layer_norm_in_float64(x, (3,), weight, bias, 1e-4)
    check.close(got, expected, rtol=1e-3, atol=1e-4, what="eps=0.0001")
with check.property("with a mean of 10,000, accurate to within 0.005"):
    x, unit, zero = check.draw.normal(4, 30, mean=1e4), torch.ones(30), torch.zeros(30)
    got = check.call(layer_norm, x, (30,), unit, zero)
    check.close(got, layer_norm_in_float64(x, (30,), unit, zero), rtol=0.0, atol=5e-3)
with check.property(
    "the gradients with respect to x (finite in a row of zeros), the weight and the bias"
):
    x = check.draw.normal(2, 5, 6)
    x[1, check.draw.integer(0, 5)] = 0.0
    require_gradients(("x", "the weight", "the bias"), x, (6,))
    require_gradients(("x", "the bias"), torch.zeros(3, 4), (4,))
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("float64 keeps its precision, without leading axes too, and eps is used"):
    for sizes, shape in (((4, 2, 5), (2, 5)), ((7,), (7,))):
        x = check.draw.normal(*sizes, dtype=torch.float64)
        weight = check.draw.normal(*shape, dtype=torch.float64)
        bias = check.draw.normal(*shape, dtype=torch.float64)
        got = check.call(layer_norm, x, shape, weight, bias, eps=0.1)
        expected = layer_norm_in_float64(x, shape, weight, bias, 0.1)
        check.close(got, expected, rtol=1e-9, atol=1e-9, what=f"shape {sizes}")
with check.property("the gradient over two axes, beside a row of equal numbers"):
    x = check.draw.normal(5, 4, 2)
    x[check.draw.integer(0, 5)] = 3.0
    require_gradients(("x", "the bias"), x, (4, 2))
### END HIDDEN TESTS
check.score()

# %% [markdown]
r"""
## RMSNorm, and squares in 16 bits

RMSNorm (Zhang and Sennrich 2019) does not subtract the mean. It divides by the **root mean square** (RMS):

$$y_i = \frac{x_i}{\sqrt{\frac{1}{m} \sum_j x_j^2 + \epsilon}} \, \gamma_i$$

RMSNorm computes only one statistic and has no $\beta$. Llama uses it (Touvron et al. 2023, section 2.2). In float16, it can go wrong:
"""

# %%
features = torch.tensor([300.0, 400.0, -200.0, 100.0], dtype=torch.float16)
squares = features * features
print("the features:", features.tolist())
print("their squares:", squares.tolist())
factor = torch.rsqrt(squares.mean())
print("1 / root mean square:", factor.item())
print("the features times that:", (features * factor).tolist())


# %% folded="Figure 1.6: RMSNorm in float16 and in float64"
def size_after(scale, dtype, eps):
    x = (scale * torch.tensor([1.0, 2.0, -1.5, 0.5], dtype=torch.float64)).to(dtype)
    output = x * torch.rsqrt((x * x).mean() + eps)
    return output.double().square().mean().sqrt().item()


powers = [2.0**k for k in range(-16, 15)]
figure, grid = new_figure(1, 2, height=3.0, sharey=True)
for axes, eps in zip(grid, (1e-6, 1e-8), strict=True):
    for dtype, color, style in ((torch.float64, "blue", "-"), (torch.float16, "vermilion", "--")):
        sizes = [min(size_after(power, dtype, eps), 3.0) for power in powers]
        label = str(dtype).removeprefix("torch.")
        axes.plot(powers, sizes, style, color=COLORS[color], label=label)
    axes.set_xscale("log", base=2)
    axes.set(title=f"ε = {eps:.0e}", xlabel="size of the features")
    axes.set_ylim(-0.1, 2.4)
grid[0].set_ylabel("RMS of the output")
grid[0].legend()
show(
    figure,
    number="1.6",
    caption="The root mean square of RMSNorm's output when every step is computed in the same format. In float16, large features come out as 0. With ε = 1e-8, small features come out as inf, outside the plot.",
    alt="Two plots of the root mean square of the output against the size of the features, from 2 to the minus 16 to 2 to the 14. In float64, the curves rise to 1 and stay there. "
    "In float16, both are 0 from 2 to the 7 on. With an epsilon of 1e-8, the float16 curve leaves the plot for small features.",
)
print("1e-8 in float16:", torch.tensor(1e-8, dtype=torch.float16).item())

# %% [markdown]
r"""
The square of 300 exceeds float16's largest number, 65504, and becomes inf. The factor becomes 0, and the token disappears without an inf or nan in the result. Small squares become 0, which is harmless
as long as $\epsilon$ is much larger than the squares; but an $\epsilon$ of $10^{-8}$ also becomes 0, and then RMSNorm divides by 0.

PyTorch's own `rms_norm` overflowed like this at first: in 2024, it made a user's Llama model give wrong answers in float16 ([pull request 134106](https://github.com/pytorch/pytorch/pull/134106)).
"""

# %% [markdown] exercise="rms-norm" points=3 minutes=15 difficulty=2
"""
### RMSNorm

Write an RMSNorm that is also accurate in 16-bit formats: in float16, and in bfloat16, which has float32's range but only 8 bits of precision.

`rms_norm(x, weight, eps=1e-6) -> Tensor`

- **In** `x`: a floating-point tensor of shape (..., features). `weight`: of shape (features,), with the same dtype. `rms_norm` normalizes over the last axis.
- **Out**: a tensor of the shape and dtype of `x`. In float32 and float64, it is correct up to rounding if the sum of the squares fits the format. In float16 and bfloat16, it is accurate to within a few machine epsilons for entries of any size from 0.0001 to 10,000 and weights from 0.5 to 2. A row of zeros gives zeros. The arguments do not change.
- **Gradient**: in float32 and float64, with respect to `x` and `weight`; it passes through the mean square. For a row of zeros, it is finite, as given by the formula.
- **Limits**: if your code names one of torch's own norms, the exercise earns no points. (`x.norm()`, the length of a vector, is allowed.)

With `x = torch.tensor([300.0, 400.0], dtype=torch.float16)` and weights of 1, `rms_norm(x, weight)` returns about `[0.849, 1.131]`, in float16.

<!-- hint: Which intermediate number leaves the range of float16, though neither the input nor the result does? -->
<!-- hint: Compute the squares, their mean and the division in a wider format, and return to the format of x at the end. Float64 is wide enough already and must not become narrower. -->
<!-- hint: `x.to(torch.promote_types(x.dtype, torch.float32))` widens the 16-bit formats and leaves float64 alone. Then square, take the mean over the last axis with keepdim, add eps, and apply rsqrt. -->
"""


# %% solution="rms-norm"
def rms_norm(x, weight, eps=1e-6):
    """Return ``x`` divided by the root mean square of its last axis, times ``weight``."""
    ### BEGIN SOLUTION
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    scale = torch.rsqrt((wide * wide).mean(dim=-1, keepdim=True) + eps)
    return (wide * scale * weight).to(x.dtype)
    ### END SOLUTION


# %% test="rms-norm"
check = Check("rms-norm")


def rms_norm_in_float64(x, weight, eps=1e-6):
    return functional.rms_norm(x.double(), x.shape[-1:], weight.double(), eps).to(x.dtype)


def require_no_norm():
    """Search the code for torch's own norms, functions and classes."""
    kinds = ("batch", "group", "layer", "instance")
    names = [f"*{kind}{between}norm*" for kind in (*kinds, "rms") for between in ("", "_")]
    check.written_without(*names, "*norm*base*", "*normalization*", "*transformer*")


def require_gradient(name, x, weight):
    grad_output = check.draw.normal(*x.shape, dtype=x.dtype)
    with_respect_to = {"x": 0, "the weight": 1}[name]
    got = check.call(
        probes.gradient,
        rms_norm,
        x,
        weight,
        with_respect_to=with_respect_to,
        grad_output=grad_output,
    )
    leaves = [value.double().clone().requires_grad_(True) for value in (x, weight)]
    output = functional.rms_norm(leaves[0], x.shape[-1:], leaves[1], 1e-6)
    (slope,) = torch.autograd.grad(output, leaves[with_respect_to], grad_output.double())
    expected = output.detach().to(x.dtype)
    check.close(got["output"], expected, rtol=1e-4, atol=1e-5, what="the value")
    what = f"the gradient with respect to {name}"
    check.close(got["gradient"], slope.to(x.dtype), rtol=1e-4, atol=1e-5, what=what)


def require_in_half_formats(x, eps):
    for dtype in (torch.float16, torch.bfloat16):
        rows, weight = x.to(dtype), check.draw.uniform(x.shape[-1], low=0.5, high=2.0, dtype=dtype)
        got = check.call(rms_norm, rows, weight, eps=eps)
        expected = rms_norm_in_float64(rows, weight, eps)
        what = f"{dtype}, shape {tuple(rows.shape)}, eps={eps:g}".removeprefix("torch.")
        check.close(got, expected, what=what)


with check.property("divides by the root mean square, without torch's own norms"):
    x, weight = check.draw.normal(3, 5, 8, mean=4.0), check.draw.normal(8)
    check.close(check.call(rms_norm, x, weight), rms_norm_in_float64(x, weight))
    require_no_norm()
with check.property("one, four and five axes; the arguments do not change"):
    sizes_and_dtypes = (
        ((6,), torch.float32),
        ((2, 3, 5, 4), torch.float64),
        ((2, 1, 3, 5, 4), torch.float32),
    )
    for sizes, dtype in sizes_and_dtypes:
        x = check.draw.normal(*sizes, mean=2.0, dtype=dtype)
        weight = check.draw.normal(sizes[-1], dtype=dtype)
        seen = check.call(probes.after_call, rms_norm, x, weight)
        check.equal(seen["arguments"], [x, weight], what="x and weight after the call")
        expected = rms_norm_in_float64(x, weight)
        check.close(seen["output"], expected, rtol=1e-5, atol=1e-6, what=f"shape {sizes}")
with check.property("float16 features from 300 to 9,000 do not disappear", weight=2):
    for count, low in ((6, 300.0), (150, 5000.0)):
        x = check.draw.uniform(4, count, low=low, high=9000.0, dtype=torch.float16)
        weight = check.draw.uniform(count, low=0.5, high=2.0, dtype=torch.float16)
        got = check.call(rms_norm, x, weight)
        check.close(got, rms_norm_in_float64(x, weight), what=f"{count} features")
with check.property("float32 features of 0.001: eps is added under the root"):
    x, weight = check.draw.normal(6, 5, std=1e-3), check.draw.normal(5)
    got = check.call(rms_norm, x, weight)
    check.close(got, rms_norm_in_float64(x, weight))
with check.property("float64 keeps its precision, for large entries too, and eps is used"):
    sizes = torch.tensor([1.0, 1e6, 1e3], dtype=torch.float64)[:, None]
    x = check.draw.normal(2, 3, 5, dtype=torch.float64) * sizes
    weight = check.draw.normal(5, dtype=torch.float64)
    got = check.call(rms_norm, x, weight, eps=0.25)
    check.close(got, rms_norm_in_float64(x, weight, 0.25), rtol=1e-9)
with check.property(
    "float16 and bfloat16: small features, alone and beside large ones; zeros; many features"
):
    sizes = torch.tensor([-1.0, 2.0**10, -(2.0**25)])[:, None]
    for eps in (1e-12, 1e-6):
        tokens = check.draw.uniform(3, 5, low=1e-4, high=1.6e-4) * sizes
        require_in_half_formats(tokens, eps)
        require_in_half_formats(tokens[:1], eps)
    for eps in (1e-8, 1e-12):
        require_in_half_formats(torch.cat([torch.zeros(1, 5), tokens]), eps)
    require_in_half_formats(check.draw.uniform(2, 5000, low=0.5, high=2.0), 1e-6)
with check.property("the gradients with respect to x (finite in a row of zeros) and the weight"):
    x, weight = check.draw.normal(4, 6, std=2.0), check.draw.normal(6)
    x[check.draw.integer(0, 4)] = 0.0
    require_gradient("x", x, weight)
    require_gradient("the weight", x, weight)
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("float16 and bfloat16: rows of every size"):
    sizes = torch.exp2(torch.tensor([5.0, -13.0, 12.0, -6.0]))[:, None]
    require_in_half_formats(check.draw.uniform(4, 7, low=1.0, high=1.5) * sizes, 1e-10)
with check.property("the gradient with respect to the weight, and in float64"):
    require_gradient("the weight", check.draw.normal(5, 3, 4), check.draw.normal(4))
    x, weight = (check.draw.normal(*sizes, dtype=torch.float64) for sizes in ((2, 7), (7,)))
    require_gradient("x", x, weight)
### END HIDDEN TESTS
check.score()

# %% [markdown]
r"""
## How far off are the statistics of a batch?

The mean and variance of a batch are estimates. The **RMS error** of an estimate is the root mean square of its errors. For the mean of $n$ independent values, it is $\sigma / \sqrt{n}$. A hidden unit gives BatchNorm one value per image, but a channel of 8 × 8 positions gives it 64. Are these worth 64 independent values?

The next figure compares batches of three kinds of values: a hidden unit's outputs, the images' pixels, and the same pixels with each image multiplied by its own random exposure factor between 1/4 and 4. If the mean of one image has an RMS error of $r$ standard deviations, its values are worth $1 / r^2$ independent ones.
"""

# %% folded="Three kinds of values, and the RMS error of a batch's mean"
generator = torch.Generator().manual_seed(0)
unit = pixels @ torch.randn(64, generator=torch.Generator().manual_seed(1)).double()
unit = (unit - unit.mean()) / unit.std(correction=0)
channel = digit_images[:, None].double() / 16
exposures = 2 ** (4 * torch.rand(len(channel), 1, 1, 1, generator=generator).double() - 2)
kinds = {
    "a unit, 1 value per image": unit[:, None],
    "a channel, 64 values per image": channel.flatten(1),
    "the same, each image exposed differently": (channel * exposures).flatten(1),
}
batch_sizes = [1, 2, 4, 8, 16, 32, 64, 128, 256]


def errors_of_batch_mean(values):
    """Return, for each batch size, the RMS error of the mean in standard deviations."""
    errors = []
    for size in batch_sizes:
        chosen = torch.randint(len(values), (2000, size), generator=generator)
        means = values.mean(dim=1)[chosen].mean(dim=1)
        errors.append((means - values.mean()).square().mean().sqrt() / values.std(correction=0))
    return torch.stack(errors)


# %% folded="Figure 1.7: the RMS error of a batch's mean"
figure, axes = new_figure()
for (name, values), marker in zip(kinds.items(), "os^", strict=True):
    errors = errors_of_batch_mean(values)
    error_of_one = (values.mean(dim=1) - values.mean()).square().mean() / values.var(correction=0)
    axes.loglog(batch_sizes, errors, f"{marker}-", label=name)
    print(f"{name}; independent values: {1 / error_of_one.item():.0f}")
for count, style in ((1, "--"), (64, ":")):
    line = [(count * size) ** -0.5 for size in batch_sizes]
    label = f"{count} independent value{'s' if count > 1 else ''} per image"
    axes.loglog(batch_sizes, line, style, color=COLORS["black"], linewidth=1, label=label)
axes.set(
    title="The RMS error of a batch's mean",
    xlabel="images in the batch",
    ylabel="error (standard deviations)",
)
axes.set_xticks(batch_sizes, [str(size) for size in batch_sizes])
axes.minorticks_off()
axes.legend(fontsize=8)
for size in (4, 16, 64, 256):
    chosen = torch.randint(len(unit), (2000, size), generator=generator)
    variances = unit[chosen].var(dim=1, correction=1)  # the variance of the whole unit is 1
    error = (variances - 1).square().mean().sqrt().item()
    print(f"variance of a unit in batches of {size}: RMS error {error:.0%}")
show(
    figure,
    number="1.7",
    caption="All lines fall as one over the square root of the batch size. The height of a line depends on what the images show, not only on their number of pixels.",
    alt="Error of the mean against batch size, both axes logarithmic: three parallel falling lines. A unit with one value per "
    "image lies on the dashed line for one independent value. A channel with 64 values per image lies below the "
    "dotted line for 64. The same channel with a different exposure for each image lies between the two.",
)

# %% [markdown]
r"""
Halving the error of the mean takes a batch four times as large. In very small batches, the error of the variance falls slightly faster than that of the mean. The digits apparently contain similar amounts of ink, so the 64 values of one image are worth about 125 independent ones. With different exposures, they are worth only 5: a factor shared by all pixels of an image does not average out within that image.
"""

# %% folded="Predict: one extreme value in a batch of 4"
predict(
    "01/extreme",
    "A batch has 4 values: 0, 1, 2 and 10,000. What does BatchNorm turn the 10,000 into?",
    batch_norm(torch.tensor([[0.0], [1.0], [2.0], [1e4]]))[3].item(),
    "In a batch of n values, no output can exceed the square root of n − 1: an extreme value raises the standard deviation that it is divided by.",
    between=(0, 100),
)

# %% [markdown]
r"""
If one of $n$ values deviates from the mean by $d$, the deviations of the others add up to $-d$. The sum of their squares is smallest when these deviations are equal, so $\sigma^2 \ge \frac{1}{n} \left(d^2 + \frac{d^2}{n - 1}\right) = \frac{d^2}{n - 1}$. Hence no output is larger than $\sqrt{n - 1}$ in absolute value: 1 in a pair, and 1.73 in a batch of 4.

One image, for which the unit's value is 1.5, is put into 400 batches.
"""

# %% folded="One image in 400 batches"
image = int((unit - 1.5).abs().argmin())


def put_into_batches(size):
    """Return means and variances of 400 batches with the image in them, and its normalized values."""
    generator = torch.Generator().manual_seed(0)
    others = unit[torch.randint(len(unit), (400, int(size) - 1), generator=generator)]
    batches = torch.cat([unit[image].expand(400, 1), others], dim=1)
    variances, means = torch.var_mean(batches, dim=1, correction=0)
    return means, variances, (unit[image] - means) / (variances + 1e-5).sqrt()


for size in (2, 4, 64, 256):
    values = put_into_batches(size)[2]
    low, high = values.quantile(0.05).item(), values.quantile(0.95).item()
    print(f"in batches of {size}, 90% of the values lie between {low:.1f} and {high:.1f}")


# %% tags=["nbval-ignore-output"] folded="Figure 1.8: the same image in different batches"
def draw_batches(size):
    means, variances, seen = put_into_batches(size)
    figure, (left, right) = new_figure(1, 2, width_ratios=(1, 1.3))
    left.plot(means, variances.sqrt(), ".", markersize=4, label="one batch")
    left.plot([0], [1], "*", color=COLORS["vermilion"], markersize=13, label="all images")
    left.set(title="Statistics of the batches", xlabel="mean", ylabel="standard deviation")
    left.set(xlim=(-1.2, 1.8), ylim=(0, 2.7))
    left.legend(fontsize=8, loc="upper left", ncols=2)
    bins = [k / 10 - 3.05 for k in range(62)]
    right.hist(seen.clamp(-3, 3), bins=bins, color=COLORS["blue"])
    right.axvline(
        unit[image].item(), color=COLORS["vermilion"], linestyle="--", label="in evaluation mode"
    )
    right.set(title="The same image, normalized", xlabel="value", ylabel="batches", xlim=(-3, 3))
    right.legend(fontsize=8, loc="upper left")
    return figure


play(
    draw_batches,
    label="images in the batch",
    values=[2, 3, 4, 6, 8, 16, 32, 64, 128, 256],
    start=4,
    number="1.8",
    caption="Left: mean and standard deviation of 400 batches that all contain the same image. Right: the value that BatchNorm gives to this image in each batch.",
    alt="Left: means and standard deviations of 400 batches of 4, widely scattered around the true point. Right: a "
    "histogram of the normalized values of one image, spread from below 0 to about 1.7, which is the most that a batch "
    "of four allows; the value in evaluation mode, 1.5, lies near the right end.",
)

# %% [markdown]
r"""
With batches of 2, the value is −1 or 1, as at the start of the chapter. With batches of 256, 90% of the values are within about 0.14 of evaluation mode's 1.5.

## Training and evaluation: two functions in one module

In use, a network must be able to classify a single image. So in training, BatchNorm keeps running averages of the batches' statistics, the **running statistics**, for evaluation mode. After each training batch,

$$\text{running} \leftarrow (1 - p) \cdot \text{running} + p \cdot \text{batch}$$

where $p$ is the **momentum**, by default 0.1.
"""

# %% folded="Drawing: the two modes"
show_drawing(
    "01/two-modes",
    number="1.9",
    caption="In training, the batch's statistics normalize the batch and update the running statistics. In evaluation mode, the running statistics are used but not updated.",
    alt="Two flows side by side. In training: the batch gives a mean and a variance; they go to the normalization, and a share of "
    "them to the running statistics. In evaluation mode, an arrow leads from the running statistics to the normalization, and no arrow leads to them.",
)

# %%
layer = nn.BatchNorm1d(1)
numbers = torch.tensor([1.0, 2.0, 3.0, 6.0])[:, None]
output = layer(numbers)
biased, unbiased = numbers.var(correction=0).item(), numbers.var(correction=1).item()
print(f"mean {numbers.mean().item()}, variance {biased} (divisor 4) or {unbiased:.4f} (divisor 3)")
print(f"variance of the output: {output.var(correction=0).item():.4f}")
for name, value in layer.state_dict().items():
    print(f"{name:<20}{value.tolist()}")
print(f"0.9 * 1 + 0.1 * {unbiased:.4f} = {0.9 + 0.1 * unbiased:.4f}")

# %% [markdown]
r"""
- BatchNorm normalizes the batch with the biased variance, 3.5, but updates the running variance with the **unbiased variance**, 4.6667, whose divisor is $n - 1$, so that on average it does not underestimate the variance of unseen values.
- The running statistics are **buffers**: they are part of the `state_dict` and move with `.to(...)`, but the optimizer does not see them.
- In PyTorch, momentum is the weight of the *new* batch; in Keras, it is that of the *old* average, 0.99 by default. If you copy a default from one to the other, the running average forgets almost everything at each step.

The batch from $k$ steps ago has the weight $p (1 - p)^k$. In the variance of a weighted sum of independent values, the weights are squared. Their squares add up to $p / (2 - p)$, so the noise is that of an average over $(2 - p) / p = 19$ batches or, with batches of 2, over 38 images.
"""


# %% folded="A running mean that starts far off"
def running_means(batch_size, steps=150, momentum=0.1):
    generator = torch.Generator().manual_seed(0)
    running, history = 3.0, []  # far off on purpose; the true mean is 0
    for _ in range(steps):
        chosen = torch.randint(len(unit), (batch_size,), generator=generator)
        running = (1 - momentum) * running + momentum * unit[chosen].mean().item()
        history.append(running)
    return history


# %% folded="Figure 1.10: a running mean that starts at 3 although the true mean is 0"
figure, axes = new_figure(height=3.2)
for size, color in ((2, "vermilion"), (64, "blue")):
    axes.plot(range(1, 151), running_means(size), color=COLORS[color], label=f"batches of {size}")
start = [3 * 0.9**k for k in range(1, 151)]
axes.plot(range(1, 151), start, ":", color=COLORS["black"], label="what is left of the initial 3")
axes.axhline(0, color=COLORS["black"], linewidth=0.8)
axes.set(title="A running mean", xlabel="training step", ylabel="standard deviations")
axes.legend()
show(
    figure,
    number="1.10",
    caption="A running mean that starts at 3 although the true mean is 0. The initial value is forgotten in about 50 steps; after that, the noise of small batches remains.",
    alt="Running mean against training step. Both curves start near 3 and follow a dotted exponential to 0 within about 50 "
    "steps. With batches of 64, the curve then stays close to 0; with batches of 2, it wanders between about minus 0.3 and 0.2.",
)
wandering = torch.tensor(running_means(2, steps=20_000)[100:]).square().mean().sqrt().item()
print(f"RMS error with batches of 2: {wandering:.2f}; 1 / sqrt(38) is {38**-0.5:.2f}")
print(
    "weight of the initial value:",
    ", ".join(f"{0.9**k:.2g} after {k} steps" for k in (10, 50, 100)),
)

# %% [markdown]
"""
With one value per channel, the variance is 0, and so is every normalized value. In training, PyTorch raises an error for such a batch, which can be the last, smaller batch of an epoch:
"""

# %%
try:
    nn.BatchNorm1d(3)(torch.randn(1, 3))
except ValueError as error:
    print("ValueError:", error)
print("in evaluation mode one image is fine:", nn.BatchNorm1d(3).eval()(torch.ones(1, 3)).shape)

# %% [markdown]
"""
Give your own module a buffer with `register_buffer`. Update it without a graph, or the graphs of all earlier batches stay in memory.
"""


# %%
class LargestSeen(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("largest", torch.tensor(-math.inf))

    def forward(self, x):
        with torch.no_grad():
            self.largest.copy_(torch.maximum(self.largest, x.max()))
        return x


layer = LargestSeen()
layer(torch.tensor([2.0, 7.0], requires_grad=True))
print(layer.state_dict(), "parameters:", list(layer.parameters()))

# %% [markdown] exercise="batch-norm" points=6 minutes=35 difficulty=3
"""
### BatchNorm as a module

Write a BatchNorm that exchanges `state_dict`s with torch's.

`BatchNorm(channels, eps=1e-5, momentum=0.1)`, then `layer(x) -> Tensor`

- **In** `x`: float32 or float64, like the module, contiguous or not, of shape (N, C) or (N, C, ...); in training, at least two values per channel.
- **State**: *parameters* `weight` (ones) and `bias` (zeros); *buffers* `running_mean` (zeros), `running_var` (ones), all of shape (channels,), and `num_batches_tracked` (int64, no axes, 0).
  `.to(torch.float64)` converts all but the counter.
- **Out**: in training, `x` normalized by the batch's mean and biased variance; in evaluation mode, by the running statistics. In both, `eps` is under the root; each channel is then multiplied by its weight, and its bias is added.
- **Updates**: in training, also under `torch.no_grad()`, the running statistics move toward the batch's mean and unbiased variance; the counter goes up by 1. Evaluation mode updates nothing; `x` never changes. In training, outputs and buffers have `normalize`'s precision.
- **Gradient**: in both modes with respect to `x`, `weight` and `bias`; in training, through mean and variance. Buffers keep no graph.
- **Limits**: if your code names one of torch's own norms, the exercise earns no points. You may call your `normalize`.

After `layer = BatchNorm(1); layer(torch.tensor([[1.0], [2.0], [3.0], [6.0]]))`, `layer.running_var` is about `[1.3667]`.

<!-- hint: There are three kinds of attributes: numbers, parameters, buffers. Which of the names above is which, and how does a module learn about the last two? -->
<!-- hint: `self.training` is the mode. Get mean and variance either from the batch, over axis 0 and all axes from 2 on, or from the buffers. What follows is the same for both: a view of shape (1, C, 1, ...) for each of the four tensors, and the formula. -->
<!-- hint: Update under `torch.no_grad()` and in place: `old.lerp_(new, momentum)` is the formula of the running averages. The unbiased variance is the biased one times m / (m - 1), where m is the number of values per channel. -->
"""


# %% solution="batch-norm"
class BatchNorm(nn.Module):
    """BatchNorm for inputs of shape (N, C, ...)."""

    def __init__(self, channels, eps=1e-5, momentum=0.1):
        ### BEGIN SOLUTION
        super().__init__()
        self.eps = eps
        self.momentum = momentum
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.register_buffer("num_batches_tracked", torch.tensor(0))
        ### END SOLUTION

    def forward(self, x):
        ### BEGIN SOLUTION
        if self.training:
            axes = (0, *range(2, x.ndim))
            variance, mean = torch.var_mean(x, dim=axes, correction=0)
            values = x.numel() // x.shape[1]
            with torch.no_grad():
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(variance * (values / (values - 1)), self.momentum)
                self.num_batches_tracked += 1
        else:
            mean, variance = self.running_mean, self.running_var
        scale = self.weight / (variance + self.eps).sqrt()
        per_channel = (1, -1) + (1,) * (x.ndim - 2)
        return (x - mean.view(per_channel)) * scale.view(per_channel) + self.bias.view(per_channel)
        ### END SOLUTION


# %% test="batch-norm"
check = Check("batch-norm")


def fresh_state(channels):
    return {
        "weight": torch.ones(channels),
        "bias": torch.zeros(channels),
        "running_mean": torch.zeros(channels),
        "running_var": torch.ones(channels),
        "num_batches_tracked": torch.tensor(0),
    }


def drawn_state(channels, dtype=torch.float32):
    return {
        "weight": check.draw.normal(channels, dtype=dtype),
        "bias": check.draw.normal(channels, dtype=dtype),
        "running_mean": check.draw.normal(channels, dtype=dtype),
        "running_var": check.draw.uniform(channels, low=0.5, high=4.0, dtype=dtype),
        "num_batches_tracked": torch.tensor(check.draw.integer(3, 90)),
    }


class ByDefinition:
    """BatchNorm in float64, from torch's own function; holds its state as torch's module does."""

    def __init__(self, state, eps=1e-5, momentum=0.1):
        self.state = {
            name: value.double() if value.is_floating_point() else value.clone()
            for name, value in state.items()
        }
        self.eps, self.momentum = eps, momentum

    def __call__(self, x, training=True):
        names = ("running_mean", "running_var", "weight", "bias")
        given = [self.state[name] for name in names]
        if training:
            self.state["num_batches_tracked"] += 1
        return functional.batch_norm(x.double(), *given, training, self.momentum, self.eps)

    def state_as(self, dtype):
        return {
            name: value.to(dtype) if value.is_floating_point() else value
            for name, value in self.state.items()
        }


def require_no_norm():
    """Search the code for torch's own norms, functions and classes."""
    kinds = ("batch", "group", "layer", "instance")
    names = [f"*{kind}{between}norm*" for kind in (*kinds, "rms") for between in ("", "_")]
    check.written_without(*names, "*norm*base*", "*normalization*", "*transformer*", "ByDefinition")


def backpropagated_together(channels, *batches, only=None):
    """Call it on one batch after another, in the modes given, and backpropagate through all.

    Compare the gradients with respect to all batches, and a further output, or one gradient only.
    """
    before = drawn_state(channels)
    calls = [(mode, x, check.draw.normal(*x.shape)) for mode, x in batches]
    last = batches[-1][1]
    steps = [("load", before), ("together", calls), ("call", last)]
    _, slopes, got = check.call(probes.module, BatchNorm, channels, steps=steps)
    reference, leaves, loss = ByDefinition(before), [x.double() for _, x in batches], 0.0
    for leaf, (mode, _, grad_output) in zip(leaves, calls, strict=True):
        output = reference(leaf.requires_grad_(True), training=mode == "train")
        loss = loss + (output * grad_output).sum()
    expected = torch.autograd.grad(loss, leaves)
    for place in reversed(range(len(batches))) if only is None else (only,):
        mode = {"train": "training", "eval": "evaluation mode"}[batches[place][0]]
        what = f"one backward pass through all batches: the gradient with respect to batch {place}, in {mode}"
        slope = expected[place].float()
        check.close(slopes[place], slope, rtol=1e-3, atol=1e-4, what=what)
    if only is None:
        output = reference(last, training=batches[-1][0] == "train")
        check.close(got, output.float(), rtol=1e-3, atol=1e-4)


def same_as_torchs(torchs, x, y):
    """Load the state of torch's own module in float64, train on x, and call it on y in evaluation mode."""
    channels, torchs = x.shape[1], torchs.double()
    torchs(x)
    before = {name: value.clone() for name, value in torchs.state_dict().items()}
    options = {"eps": torchs.eps, "momentum": torchs.momentum}
    steps = [("to", "float64"), ("load", before), ("call", x), ("state",), ("eval",), ("call", y)]
    _, _, *got = check.call(probes.module, BatchNorm, channels, **options, steps=steps)
    for what, seen, expected in (
        ("the output in training", got[0], torchs(x).detach()),
        ("the state", got[1], dict(torchs.state_dict())),
        ("the output in evaluation mode", got[3], torchs.eval()(y).detach()),
    ):
        check.close(seen, expected, rtol=1e-8, atol=1e-9, what=what)


with check.property("in training, mean 0 and variance 1, without torch's own norms"):
    x = check.draw.normal(5, 3, 4, 2, mean=2.0, std=3.0)
    (got,) = check.call(probes.module, BatchNorm, 3, steps=[("call", x)])
    check.close(got, ByDefinition(fresh_state(3))(x).float(), rtol=1e-4, atol=1e-5)
    require_no_norm()
with check.property("parameters and buffers: names, shapes, dtypes and first values"):
    parameters, state = check.call(probes.module, BatchNorm, 7, steps=[("parameters",), ("state",)])
    expected = fresh_state(7)
    check.equal(state, expected, what="the state_dict")
    learned = {name: expected[name] for name in ("weight", "bias")}
    check.equal(parameters, learned, what="the parameters")
with check.property(
    "training updates the running statistics, with the unbiased variance", weight=2
):
    batches = [check.draw.normal(rows, 4, 3, mean=1.0, std=2.0) for rows in (5, 2)]
    steps = [*(("call", batch) for batch in batches), ("state",)]
    *_, state = check.call(probes.module, BatchNorm, 4, steps=steps)
    reference = ByDefinition(fresh_state(4))
    for batch in batches:
        reference(batch)
    check.close(state, reference.state_as(torch.float32), rtol=1e-4, what="the state")
    x, reference = check.draw.normal(6, 1, mean=1.0, std=2.0), ByDefinition(fresh_state(1))
    steps = [("no_grad", x), ("state",)]
    got, state = check.call(probes.module, BatchNorm, 1, steps=steps)
    one_channel = "with one channel and under no_grad, the "
    check.close(got, reference(x).float(), rtol=1e-4, atol=1e-4, what=one_channel + "output")
    expected = reference.state_as(torch.float32)
    check.close(state, expected, rtol=1e-4, atol=1e-5, what=one_channel + "state")
with check.property("evaluation mode uses the running statistics and updates nothing", weight=2):
    before, x = drawn_state(5), check.draw.normal(3, 5, 2, 4, mean=-1.0)
    wide = check.draw.integer(0, 5)
    before["running_var"][wide], before["weight"][wide] = 1e4, 2.0
    steps = [("load", before), ("eval",), ("call", x), ("state",)]
    _, _, got, state = check.call(probes.module, BatchNorm, 5, steps=steps)
    check.close(got, ByDefinition(before)(x, training=False).float(), rtol=1e-3, atol=1e-3)
    check.equal(state, before, what="the state after the call")
    other = drawn_state(5)
    steps = [("load", before), ("eval",), ("call", x), ("load", other), ("call", x)]
    *_, later = check.call(probes.module, BatchNorm, 5, steps=steps)
    expected = ByDefinition(other)(x, training=False).float()
    check.close(later, expected, rtol=1e-3, atol=1e-3, what="the output with another state")
with check.property("a call does not change x", weight=0.5):
    x = check.draw.normal(4, 3, 2, mean=1.0)
    steps = [("after_call", x), ("eval",), ("after_call", x)]
    trained, _, evaluated = check.call(probes.module, BatchNorm, 3, steps=steps)
    for mode, (_, after) in (("training", trained), ("evaluation mode", evaluated)):
        check.equal(after, x, what=f"x after a call in {mode}")
with check.property("works for vectors, sequences, one volume, and transposed images"):
    for sizes in ((6, 4), (3, 4, 5), (5, 4, 3, 2), (1, 4, 3, 6, 5), (2, 4, 1, 3, 6, 5)):
        before, x = drawn_state(4), check.draw.normal(*sizes)
        if len(sizes) == 4:
            x = x.mT
        trained = [("load", before), ("call", x)]
        _, got, state = check.call(probes.module, BatchNorm, 4, steps=[*trained, ("state",)])
        steps = [*trained, ("eval",), ("load", before), ("call", x), ("call", x[-1:])]
        *_, in_eval, one = check.call(probes.module, BatchNorm, 4, steps=steps)
        name, reference = f"shape {tuple(x.shape)}, ", ByDefinition(before)
        expected = reference(x).float()
        check.close(got, expected, rtol=1e-3, atol=1e-3, what=name + "in training")
        expected = reference.state_as(torch.float32)
        check.close(state, expected, rtol=1e-4, atol=1e-5, what=name + "the state after training")
        expected = ByDefinition(before)(x, training=False).float()
        check.close(in_eval, expected, rtol=1e-3, atol=1e-3, what=name + "in evaluation mode")
        name = f"shape {tuple(x[-1:].shape)}, "
        expected = expected[-1:]
        check.close(one, expected, rtol=1e-3, atol=1e-3, what=name + "in evaluation mode")
with check.property("eps is under the root; other values of eps and momentum are used"):
    x = check.draw.normal(5, 4, 3, std=3e-3)
    small = drawn_state(4) | {"running_var": check.draw.uniform(4, low=1e-5, high=9e-5)}
    for given in ({}, {"eps": 1e-2, "momentum": 0.4}, {"momentum": 0.0}):
        steps, reference = [("call", x), ("state",)], ByDefinition(fresh_state(4), **given)
        got, state = check.call(probes.module, BatchNorm, 4, **given, steps=steps)
        name = f"with {given or 'the defaults'}, in "
        check.close(got, reference(x).float(), rtol=1e-3, atol=1e-4, what=name + "training")
        check.close(state, reference.state_as(torch.float32), rtol=1e-4, what="the state")
        steps, reference = [("load", small), ("eval",), ("call", x)], ByDefinition(small, **given)
        *_, got = check.call(probes.module, BatchNorm, 4, **given, steps=steps)
        expected = reference(x, training=False).float()
        check.close(got, expected, rtol=1e-3, atol=1e-3, what=name + "evaluation mode")
with check.property("in training, with a mean of 10,000, accurate to within 0.005"):
    x, reference = check.draw.normal(6, 3, 5, mean=1e4), ByDefinition(fresh_state(3))
    got, state = check.call(probes.module, BatchNorm, 3, steps=[("call", x), ("state",)])
    check.close(got, reference(x).float(), rtol=0.0, atol=5e-3)
    expected = reference.state_as(torch.float32)
    check.close(state, expected, rtol=1e-6, atol=5e-3, what="the state")
with check.property("the gradients go through the batch's mean and variance", weight=2):
    before = drawn_state(3, torch.float64)
    x = check.draw.normal(4, 3, 5, dtype=torch.float64)
    grad_output = check.draw.normal(4, 3, 5, dtype=torch.float64)
    steps = [("to", "float64"), ("load", before), ("gradient", x, grad_output)]
    *_, got = check.call(probes.module, BatchNorm, 3, steps=steps)
    leaves = [x, before["weight"].clone(), before["bias"].clone()]
    for leaf in leaves:
        leaf.requires_grad_(True)
    output = functional.batch_norm(leaves[0], None, None, *leaves[1:], training=True)
    by_x, by_weight, by_bias = torch.autograd.grad(output, leaves, grad_output)
    check.close(got["output"], output.detach(), rtol=1e-8, atol=1e-9, what="the output")
    check.close(got["gradient"], by_x, rtol=1e-6, atol=1e-8, what="the gradient with respect to x")
    expected = {"weight": by_weight, "bias": by_bias}
    check.close(
        got["parameters"],
        expected,
        rtol=1e-6,
        atol=1e-8,
        what="the gradient with respect to the parameters",
    )
with check.property("no graph is kept in the buffers", weight=0.5):
    x, y = check.draw.normal(5, 2, 3), check.draw.normal(4, 2, 3, std=2.0)
    # The gradient with respect to y depends on the running statistics.
    backpropagated_together(2, ("train", x), ("eval", y), only=0)
with check.property("gradients in evaluation mode", weight=0.5):
    y = check.draw.normal(4, 2, 3, std=2.0)
    before, grad_output = drawn_state(2), check.draw.normal(4, 2, 3)
    steps = [("load", before), ("eval",), ("gradient", y, grad_output)]
    *_, got = check.call(probes.module, BatchNorm, 2, steps=steps)
    reference = ByDefinition(before)
    leaves = {name: reference.state[name].requires_grad_(True) for name in ("weight", "bias")}
    leaves["x"] = y.double().requires_grad_(True)
    slopes = torch.autograd.grad(
        reference(leaves["x"], training=False), list(leaves.values()), grad_output.double()
    )
    expected = {name: slope.float() for name, slope in zip(leaves, slopes, strict=True)}
    what = "in evaluation mode, the gradient with respect to "
    check.close(got["gradient"], expected.pop("x"), rtol=1e-3, atol=1e-3, what=what + "x")
    check.close(got["parameters"], expected, rtol=1e-3, atol=1e-3, what=what + "the parameters")
with check.property("takes torch's own state; float64 stays float64"):
    x, y = (check.draw.normal(5, 6, 2, std=0.5, dtype=torch.float64) for _ in range(2))
    same_as_torchs(nn.BatchNorm1d(6, eps=0.1, momentum=0.3), x, y)
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("gradients through several batches in training, and one in evaluation mode"):
    batches = [check.draw.normal(rows, 3, 4) for rows in (5, 2, 6)]
    backpropagated_together(3, *zip(("train", "train", "eval"), batches, strict=True))
with check.property("torch's own state for images, in float64"):
    x, y = (check.draw.normal(4, 3, 5, 2, mean=1.0, dtype=torch.float64) for _ in range(2))
    eps, momentum = check.draw.number(1e-3, 1e-2), check.draw.number(0.1, 0.9)
    same_as_torchs(nn.BatchNorm2d(3, eps=eps, momentum=momentum), x, y)
### END HIDDEN TESTS
check.score()

# %% [markdown]
r"""
## Folding: a norm that costs nothing in evaluation mode

In evaluation mode, the running statistics are constants, so BatchNorm multiplies each value by one factor and adds one shift, both constant within a channel:

$$y = \gamma \, \frac{z - \mu}{\sqrt{\sigma^2 + \epsilon}} + \beta = s z + (\beta - s \mu) \qquad\text{with}\qquad s = \frac{\gamma}{\sqrt{\sigma^2 + \epsilon}}$$

If $z$ comes from a convolution or a linear layer, that layer can take over the factor and the shift. Merging the two layers is called **folding**.
"""

# %% folded="Drawing: two layers become one"
show_drawing(
    "01/folding",
    number="1.11",
    caption="Folding. In evaluation mode, BatchNorm multiplies and shifts each output channel of the convolution, so one convolution with new parameters does both jobs.",
    alt="Above: a chain of a convolution with weight w and bias b, a BatchNorm with factor s and shift beta minus s mu, and a ReLU. "
    "Below: a chain of one convolution, with a new weight and a new bias, and a ReLU.",
)


# %% folded="A small convolutional network for the digits"
def train_convolutions():
    torch.manual_seed(0)
    network = nn.Sequential(
        *(nn.Conv2d(1, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU()),
        *(nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(256, 10)),
    )
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    for _ in range(2):
        for batch in training_set[torch.randperm(len(training_set))].split(50):
            optimizer.zero_grad()
            scores = network(digit_images[batch, None] / 16)
            functional.cross_entropy(scores, digit_labels[batch]).backward()
            optimizer.step()
    return network.eval()


convolutions = train_convolutions()
test_images = digit_images[test_set, None] / 16


# %%
def fold_network(network):
    fuse = nn.utils.fuse_conv_bn_eval
    first, second = fuse(network[0], network[1]), fuse(network[3], network[4])
    return nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), *network[6:]).eval()


# %% folded="Compare: the network before and after folding"
for dtype in (torch.float32, torch.float64):
    network = copy.deepcopy(convolutions).to(dtype)
    with torch.no_grad():
        before = network(test_images.to(dtype))
        after = fold_network(network)(test_images.to(dtype))
    same = bool((before.argmax(dim=1) == after.argmax(dim=1)).all())
    error = ((before - after).abs().max() / before.abs().max()).item() / torch.finfo(dtype).eps
    print(f"{dtype}: each image keeps its digit: {same}; within 20 machine epsilons: {error < 20}")
print(f"layers before: {len(convolutions)}, after: {len(fold_network(convolutions))}")

# %% tags=["nbval-ignore-output", "recorded"] folded="Measure: the time that folding saves"
device = "cuda" if torch.cuda.is_available() else "cpu"
with torch.no_grad():
    images = test_images.repeat(1, 1, 4, 4).to(device)  # large ones, and no linear layer
    unfolded, folded = convolutions[:6].to(device), fold_network(convolutions)[:4].to(device)
    ratio = time_ratio(lambda: unfolded(images), lambda: folded(images))
    convolutions.cpu()
print(f"time with BatchNorm, divided by the time without, on {device}: {ratio}")
recorded("folded-batch-norm")

# %% [markdown]
"""
Folding changes the output only by rounding errors. If the range in parentheses includes 1, this run shows no gain in speed. The other norms, except for an InstanceNorm that keeps running statistics, cannot be folded, because they compute their statistics anew from every input. Nor can a BatchNorm be folded exactly into a zero-padded convolution *after* it.
"""

# %% [markdown] exercise="fold-batch-norm" points=4 minutes=20 difficulty=2
"""
### Fold a BatchNorm into a convolution

A folded BatchNorm costs no time and no memory in evaluation mode. Write the function that folds it.

`fold_batch_norm(conv_weight, conv_bias, weight, bias, running_mean, running_var, eps)`

- **In** `conv_weight`: the weight of a linear layer or a convolution, contiguous or not, of shape (out channels, ...) with one to four further axes. `conv_bias`: of shape (out channels,), or None. `weight`, `bias`, `running_mean`, `running_var`: the tensors of the BatchNorm that follows, each of shape (out channels,). All are float32 or all are float64. `eps`: a number, added under the root in every channel; `running_var` may be 0 in some channels.
- **Out**: a tuple `(new_weight, new_bias)` of the single layer that computes what both layers compute in evaluation mode, with the shapes of `conv_weight` and `bias` and their dtype. The arguments do not change.
- **Limits**: if your code names one of torch's own `fuse_…` functions, the exercise earns no points.

With `conv_weight = torch.tensor([[2.0]])`, `conv_bias=None`, `eps=0.0`, and tensors of shape (1,) that hold the weight 3, the bias 1, the running mean 5 and the running variance 4, `fold_batch_norm` returns `(tensor([[3.]]), tensor([-6.5]))`.

<!-- hint: In the formula above, write z in terms of the convolution's weight and bias. Which factor has one entry per out channel, and along which axis of the convolution's weight do these channels lie? -->
<!-- hint: Compute s, of shape (out channels,). It multiplies axis 0 of the weight, however many axes follow. A bias that is None counts as zeros. -->
<!-- hint: `s.view(-1, *[1] * (conv_weight.ndim - 1))` has the right shape for the product. The new bias is s times (old bias minus running_mean) plus the BatchNorm's bias. -->
"""


# %% solution="fold-batch-norm"
def fold_batch_norm(conv_weight, conv_bias, weight, bias, running_mean, running_var, eps):
    """Return the weight and the bias of the convolution that includes the BatchNorm after it."""
    ### BEGIN SOLUTION
    scale = weight / (running_var + eps).sqrt()
    if conv_bias is None:
        conv_bias = torch.zeros_like(running_mean)
    per_channel = scale.reshape(-1, *[1] * (conv_weight.ndim - 1))
    return conv_weight * per_channel, (conv_bias - running_mean) * scale + bias
    ### END SOLUTION


# %% test="fold-batch-norm"
check = Check("fold-batch-norm")


def drawn_layer(*sizes, dtype=torch.float32):
    channels = sizes[0]
    return {
        "conv_weight": check.draw.normal(*sizes, dtype=dtype),
        "conv_bias": check.draw.normal(channels, dtype=dtype),
        "weight": check.draw.normal(channels, dtype=dtype),
        "bias": check.draw.normal(channels, dtype=dtype),
        "running_mean": check.draw.normal(channels, dtype=dtype),
        "running_var": check.draw.uniform(channels, low=0.3, high=5.0, dtype=dtype),
        "eps": 1e-5,
    }


def require_same_kind(got, expected, what):
    def kind(value):
        is_tensor = isinstance(value, torch.Tensor)
        return f"{value.dtype}, {tuple(value.shape)}" if is_tensor else type(value).__name__

    wrong_kind = f"{what} is {kind(got)}; expected {kind(expected)}"
    check.true(kind(got) == kind(expected), wrong_kind)


def require_same_output(layer, convolve, x, rtol=1e-4, atol=1e-4):
    require_folded(check.call(fold_batch_norm, **layer), layer, convolve, x, rtol, atol)


def require_same_arguments(layer, convolve, x):
    given = list(layer.values())
    seen = check.call(probes.after_call, fold_batch_norm, *given)
    for name, old, new in zip(layer, given, seen["arguments"], strict=True):
        check.equal(new, old, what=f"{name} after the call")
    require_folded(seen["output"], layer, convolve, x)


def require_folded(got, layer, convolve, x, rtol=1e-4, atol=1e-4):
    check.true(type(got) is tuple and len(got) == 2, "expected a tuple of two tensors")
    weight, bias = got
    require_same_kind(weight, layer["conv_weight"], "the new weight")
    require_same_kind(bias, layer["running_mean"], "the new bias")
    wide = {
        name: value.double() if isinstance(value, torch.Tensor) else value
        for name, value in layer.items()
    }
    unfolded = functional.batch_norm(
        convolve(x.double(), wide["conv_weight"], wide["conv_bias"]),
        *(wide[name] for name in ("running_mean", "running_var", "weight", "bias")),
        eps=layer["eps"],
    )
    folded = convolve(x.double(), weight.double(), bias.double())
    check.close(folded, unfolded, rtol=rtol, atol=atol, what="the output of the new convolution")


def over_pictures(x, weight, bias):
    return functional.conv2d(x, weight, bias, padding=1)


with check.property(
    "one layer does what convolution and BatchNorm did, without torch's fusing functions"
):
    require_same_output(drawn_layer(5, 3, 2, 4), over_pictures, check.draw.normal(2, 3, 7, 6))
    check.written_without("*fuse*", "*fusion*")
with check.property("the arguments do not change", weight=0.25):
    for dtype in (torch.float32, torch.float64):
        layer = drawn_layer(4, check.draw.integer(5, 9), 2, 3, dtype=dtype)
        x = check.draw.normal(2, layer["conv_weight"].shape[1], 10, 11)
        require_same_arguments(layer, over_pictures, x)
with check.property("a convolution without bias, its weight in channels_last format"):
    layer = drawn_layer(4, 2, 3, 5) | {"conv_bias": None}
    layer["conv_weight"] = layer["conv_weight"].contiguous(memory_format=torch.channels_last)
    require_same_output(layer, over_pictures, check.draw.normal(3, 2, 6, 7))
with check.property("a convolution without bias: the arguments do not change", weight=0.25):
    for dtype in (torch.float32, torch.float64):
        layer = drawn_layer(4, check.draw.integer(5, 9), 2, 3, dtype=dtype) | {"conv_bias": None}
        x = check.draw.normal(2, layer["conv_weight"].shape[1], 10, 11)
        require_same_arguments(layer, over_pictures, x)
with check.property("one channel's running_var is 0, another's is as small as eps", weight=2):
    layer = drawn_layer(6, 2, 3, 4) | {"eps": 1e-3}
    special = check.draw.permutation(6)[:2]
    layer["running_var"][special] = torch.tensor([0.0, 1e-3])
    layer["weight"][special] = check.draw.uniform(2, low=0.5, high=2.0)
    require_same_output(layer, over_pictures, check.draw.normal(3, 2, 6, 7), atol=1e-3)
with check.property(
    "linear layers, also with eps=0, and convolutions in one and three dimensions", weight=2
):
    for eps in (1e-5, 0.0):
        layer = drawn_layer(4, 3) | {"eps": eps}
        small = check.draw.integer(0, 4)
        layer["running_var"][small], layer["weight"][small] = 1e-4, 1.0
        require_same_output(layer, functional.linear, check.draw.normal(5, 3), atol=1e-3)
    one_by_one = drawn_layer(4, 3, 1, 1)
    require_same_output(one_by_one, functional.conv2d, check.draw.normal(2, 3, 5, 6))
    require_same_output(drawn_layer(3, 4, 2), functional.conv1d, check.draw.normal(2, 4, 6))
    volumes = check.draw.normal(2, 3, 7, 6, 5)
    require_same_output(drawn_layer(6, 3, 2, 4, 5), functional.conv3d, volumes)
with check.property("float64 keeps its precision"):
    layer = drawn_layer(3, 5, 2, 4, dtype=torch.float64)
    x = check.draw.normal(2, 5, 6, 7, dtype=torch.float64)
    require_same_output(layer, over_pictures, x, rtol=1e-9, atol=1e-9)
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("volumes in float64, without bias, and a channel that has died"):
    layer = drawn_layer(3, 4, 2, 5, 6, dtype=torch.float64) | {"conv_bias": None, "eps": 1e-2}
    layer["running_var"][check.draw.integer(0, 3)] = 0.0
    x = check.draw.normal(2, 4, 5, 7, 8, dtype=torch.float64)
    require_same_output(layer, functional.conv3d, x, rtol=1e-9, atol=1e-9)
### END HIDDEN TESTS
check.score()

# %% [markdown]
r"""
<details><summary>The folded convolution as a formula (open this once you have written the function)</summary>

With $z = w * x + b$, where $*$ denotes the convolution, $y = (s w) * x + (s b + \beta - s \mu)$.
</details>
"""

# %% [markdown]
r"""
## Volumes: when the batch is two

Batches are small where examples are large, as with three-dimensional medical images. What autograd saves for a whole scan can exceed memory, so training uses **patches**, pieces cut out of the scan. Their width is given in voxels (pixels in three dimensions). Memory can be spent on a larger patch size or on a larger batch size. The cells below count the bytes that two 3-D convolutions (8 channels), each followed by a norm and a ReLU, save for backward.
"""


# %% folded="A block of a 3-D network, and what autograd saves for it"
def block(norm):
    return nn.Sequential(
        *(nn.Conv3d(1, 8, 3, padding=1), norm, nn.ReLU()),
        *(nn.Conv3d(8, 8, 3, padding=1), copy.deepcopy(norm), nn.ReLU()),
    )


def mebibytes(network, width, batch_size):
    volume = torch.zeros(batch_size, 1, width, width, width)
    counted = saved_bytes(lambda: network(volume), except_for=network.parameters())
    return counted.bytes / 2**20


widths = range(16, 57, 2)
network, budget = block(nn.InstanceNorm3d(8)), 20
measured = {size: [mebibytes(network, width, size) for width in widths] for size in (1, 2, 4)}

# %%
for name, norm in (
    ("no norm", nn.Identity()),
    ("BatchNorm3d", nn.BatchNorm3d(8)),
    ("InstanceNorm3d", nn.InstanceNorm3d(8)),
):
    print(f"{name:<16}one patch of 32 × 32 × 32: {mebibytes(block(norm), 32, 1):.1f} MiB")

# %% folded="Predict: twice the width"
predict(
    "01/twice-the-width",
    "You double the width of a cubic patch. How many patches of the original width would need the same amount of memory?",
    mebibytes(network, 48, 1) / mebibytes(network, 24, 1),
    "The volume of a cube grows with the third power of its width.",
    between=(1, 20),
)

# %% folded="Figure 1.12: patch size or batch size"
figure, axes = new_figure(height=3.2)
for (size, values), marker in zip(measured.items(), "os^", strict=True):
    axes.plot(widths, values, f"{marker}-", markevery=4, label=f"batch of {size}")
axes.axhline(budget, linestyle="--", color=COLORS["black"], label=f"a budget of {budget} MiB")
axes.set(
    title="Saved for backward by a block of a 3-D network", xlabel="width of the patch (voxels)"
)
axes.set(ylabel="saved (MiB)", ylim=(0, 60))
axes.set_xticks(widths[::4])
axes.legend()
show(
    figure,
    number="1.12",
    caption="Memory grows with the batch size and with the third power of the patch width. A fixed budget buys one large patch or several small ones.",
    alt="The saved mebibytes, against patch width from 16 to 56, for batches of 1, 2 and 4: three curves that grow with the cube of the "
    "width, each twice the one before. A dashed line marks a budget of 20; a batch of 1 crosses it after 54, a batch of 2 "
    "after 42, a batch of 4 after 34.",
)
for size, values in measured.items():
    width = max(w for w, value in zip(widths, values, strict=True) if value <= budget)
    share = (width / 128) ** 3
    print(f"batch of {size}: patches of width {width}, {share:.1%} of a volume 128 wide")

# %% [markdown]
r"""
A norm nearly doubles what this block saves for backward, because the norm keeps its own input, in addition to the output that the ReLU keeps.

nnU-Net, a segmentation method (Isensee et al. 2021), gives the patch priority: it starts from patches as large as the median scan and shrinks them until a batch of **two** fits; the batch grows beyond two only if memory is left over. A larger patch shows the network more of the surroundings of each voxel. The gradient is a mean over the batch, so a smaller batch makes it noisier. The next cell measures this noise with random weights:
"""

# %% folded="Measure: the RMS error of a gradient in small batches"
torch.manual_seed(0)
small_network = nn.Sequential(nn.Linear(64, 32), nn.LayerNorm(32), nn.ReLU(), nn.Linear(32, 10))
small_network, gradients = small_network.double(), []
for number in training_set[:400]:
    scores = small_network(pixels[number][None])
    loss = functional.cross_entropy(scores, digit_labels[number][None])
    slopes = torch.autograd.grad(loss, list(small_network.parameters()))
    gradients.append(torch.cat([slope.flatten() for slope in slopes]))
gradients = torch.stack(gradients)
generator = torch.Generator().manual_seed(0)
for size in (1, 2, 4):
    chosen = torch.randint(400, (500, size), generator=generator)
    errors = (gradients[chosen].mean(dim=1) - gradients.mean(dim=0)).norm(dim=1)
    error = errors.square().mean().sqrt() / gradients.mean(dim=0).norm()
    print(f"batch of {size}: RMS error divided by the length of the full gradient: {error:.1f}")

# %% [markdown]
r"""
nnU-Net uses InstanceNorm. MRI intensities have no unit: each scan has its own factor, the *gain*. In the next figure, a synthetic scan shares a batch of two with another, its *partner*, whose gain is 0.1, 1 or 10.
"""


# %% folded="Synthetic scans: a bright ball, noise, and a gain"
def make_scan(gain, seed):
    generator = torch.Generator().manual_seed(seed)
    axis = torch.linspace(-1, 1, 24)
    radius = (axis[:, None, None] ** 2 + axis[:, None] ** 2 + axis**2).sqrt()
    ball = (radius < 0.6).float()
    return gain * (0.3 + ball + 0.1 * torch.randn(24, 24, 24, generator=generator)), ball.bool()


patient, ball = make_scan(gain=1.0, seed=0)

# %% folded="Figure 1.13: one patient's scan beside different partners"
figure, grid = new_figure(2, 3, height=4.6, sharex=True, sharey=True)
found = {}
for row, (name, norm) in zip(
    grid, (("BatchNorm", batch_norm), ("InstanceNorm", functional.instance_norm)), strict=True
):
    contrasts = []
    for axes, gain in zip(row, (0.1, 1.0, 10.0), strict=True):
        own = norm(torch.stack([patient, make_scan(gain, seed=1)[0]])[:, None])[0, 0]
        contrasts.append(own[ball].mean().item() - own[~ball].mean().item())
        axes.imshow(own[12], cmap="gray", vmin=-2, vmax=3)
        axes.grid(False)
        axes.set(title=f"partner × {gain:g}", xlabel="column", ylabel=f"{name}\nrow")
    found[name] = contrasts
show(
    figure,
    number="1.13",
    caption="A slice of one patient's scan after the norm, in a batch of two, beside a partner with a gain of 0.1, 1 or 10. With BatchNorm, a bright partner destroys the contrast; with InstanceNorm, the partner does not matter.",
    alt="Six gray slices of a ball. With BatchNorm, the ball is bright beside a partner with a tenth of the gain, clear beside one with the same "
    "gain, and almost invisible beside one with ten times the gain. With InstanceNorm, the three slices are the same.",
)
for name, contrasts in found.items():
    told = ", ".join(f"{contrast:.2f}" for contrast in contrasts)
    print(f"{name:<13} mean of the ball minus mean of the rest: {told}")

# %% [markdown]
r"""
InstanceNorm forgets how bright and how varied a patch was: pure noise comes out with the same variance as an organ. nnU-Net also uses InstanceNorm for CT, where absolute values carry meaning; there, each channel's level and spread are lost.

InstanceNorm was introduced for style transfer (Ulyanov et al. 2016), which should discard a photo's contrast.
"""

# %% [markdown]
r"""
## Which norm for which job

Ask one question of each axis: must differences along it **stay** or **vanish**? Take temperatures of shape (station, hour); the stations differ in mean and daily swing.
"""

# %% folded="Figure 1.14: temperatures, normalized over either axis"
generator = torch.Generator().manual_seed(0)
hours = torch.arange(24)
base = torch.tensor([22.0, 14.0, 6.0, -2.0])[:, None]
swing = torch.tensor([8.0, 5.0, 3.0, 2.0])[:, None]
noise = 0.4 * torch.randn(4, 24, generator=generator)
temperatures = base - swing * torch.cos((hours - 3) * math.tau / 24) + noise


def normalized_over(axis):
    variance, mean = torch.var_mean(temperatures, dim=axis, correction=0, keepdim=True)
    return (temperatures - mean) / variance.sqrt()


figure, grid = new_figure(1, 3, height=3.0)
shown = (temperatures, normalized_over(1), normalized_over(0))
titles = ("Temperatures", "Over hours", "Over stations")
for axes, values, title in zip(grid, shown, titles, strict=True):
    for station, (row, color) in enumerate(
        zip(values, ("vermilion", "orange", "green", "blue"), strict=True)
    ):
        axes.plot(hours, row, color=COLORS[color], label=f"station {station}")
    axes.set(title=title, xlabel="hour")
grid[0].set_ylabel("degrees")
for axes in grid[1:]:
    axes.set_ylabel("normalized")
grid[0].legend(fontsize=7, loc="upper left", ncols=2)
grid[0].set_ylim(-8, 42)
show(
    figure,
    number="1.14",
    caption="Left: temperatures of four stations. Middle: normalized over hours. The hours of a station still differ, but the stations look alike. Right: normalized over stations. The stations still differ, but the hours look alike.",
    alt="Three plots of four stations over 24 hours. The temperatures differ in level and in daily swing. Normalized over hours, all four curves "
    "nearly coincide and show the daily course. Normalized over stations, the four curves are almost flat lines, one above the other.",
)

# %% [markdown]
r"""
- An axis that is **normalized over** keeps its differences: all its entries are shifted and scaled by the same numbers, so what was larger stays larger.
- An axis that is **not normalized over** loses differences in level and spread: at each of its positions, the result has mean 0 and variance 1.

| job | tensor | what must stay, and what must not matter |
| --- | --- | --- |
| `"photos"` | (photo, channel, row, column) | In each channel, bright photos and bright spots stay brighter than dark ones. A channel's scale must not matter. |
| `"style"` | (photo, channel, row, column) | A filter, which changes each channel of a photo by a factor and a shift, must not matter. The pattern within a channel stays. |
| `"text"` | (text, token, feature) | The result for a token must not depend on any other token. The features of a token stay different. |
| `"exposure"` | (photo, channel, row, column) | The exposure, one factor for a whole photo, must not matter. A channel that was stronger than another stays stronger. Bright and dark spots stay, too. |
| `"volumes"` | (patient, channel, depth, row, column) | The partner in a batch of two must not matter, nor must the gain, which differs for each channel of each patient. The anatomy within a channel stays. |
| `"sensors"` | (run, time, sensor) | The unit of a sensor, volts or degrees, must not matter. Differences between runs and between times stay. |
"""

# %% [markdown] exercise="axes-for-a-job" points=3 minutes=15 difficulty=2
"""
### Choose the axes for a job

To choose a norm, decide which differences it has to keep. Do so for the six jobs in the table.

`axes_for(job) -> tuple`

- **In** `job`: one of the six names in the table.
- **Out**: a tuple of the axes to normalize over: at least one, each at most once, in any order; negative ones count from the end.

For the temperatures, if differences between hours must stay and the level of a station must not matter, the answer is `(1,)` or `(-1,)`.

<!-- hint: Take the job's axes one by one, and ask of each: must differences along it stay? Then normalize over it. -->
<!-- hint: A factor "for each channel of each patient" names two axes that are not normalized over. "Any other token" names the axis of tokens, and that of texts as well. -->
<!-- hint: For the photos, think of BatchNorm2d. For the sensors, look at where the channels are: here the axis that keeps its own statistics is the last one. -->
"""


# %% solution="axes-for-a-job"
def axes_for(job):
    """Return a tuple of integers, the axes to normalize over for the ``job``."""
    ### BEGIN SOLUTION
    return {
        "photos": (0, 2, 3),
        "style": (2, 3),
        "text": (2,),
        "exposure": (1, 2, 3),
        "volumes": (2, 3, 4),
        "sensors": (0, 1),
    }[job]
    ### END SOLUTION


# %% test="axes-for-a-job"
check = Check("axes-for-a-job")


def try_job(job, sizes, names, staying):
    """Ask for the job's axes, normalize over them, and check along every axis whether a difference stays."""
    names, staying = names.split(), staying.split()
    got = check.call(axes_for, job)
    check.true(type(got) is tuple, f"returned {type(got).__name__}, expected a tuple")
    count = len(sizes)
    for axis in got:
        kind = type(axis).__name__
        check.true(kind == "int", f"{axis!r} in the tuple is of type {kind}, expected int")
        told = f"axis {axis} in the tuple: a tensor with {count} axes has the axes {-count} to {count - 1}"
        check.true(-count <= axis < count, told)
    over = tuple({axis % len(sizes) for axis in got})
    check.true(len(over) == len(got), "an axis occurs twice")
    check.true(len(over) > 0, "the tuple is empty: every entry would become 0")
    x = check.draw.normal(*sizes, dtype=torch.float64)
    for axis, name in enumerate(names):
        larger = x.transpose(0, axis).clone()
        larger[0] = 8.0 * larger[0] + 50.0
        larger = larger.transpose(0, axis)
        variance, mean = torch.var_mean(larger, dim=over, correction=0, keepdim=True)
        seen = ((larger - mean) / variance.sqrt()).transpose(0, axis)
        gap = (seen[0].mean() - seen[1:].mean()).item()
        told = f"{name} 0 was larger than the others; after normalization over your axes, it "
        if name in staying:
            check.true(abs(gap) > 0.5, told + "is no longer larger, but it should be")
        else:
            still = f"is still larger by {gap:.1f}, but this difference should vanish"
            check.true(abs(gap) < 1e-6, told + still)


PHOTO = "photo channel row column"
VOLUME = "patient channel depth row column"
SENSOR = "run time sensor"
with check.property("photos: the channel's scale does not matter, bright photos and spots stay"):
    try_job("photos", (6, 3, 5, 4), PHOTO, "photo row column")
with check.property("style: a photo's color and contrast do not matter, the pattern stays"):
    try_job("style", (5, 3, 4, 7), PHOTO, "row column")
with check.property("text: no other token matters, the features stay"):
    try_job("text", (3, 5, 8), "text token feature", "feature")
with check.property("exposure: a photo's exposure does not matter, its colors stay"):
    try_job("exposure", (4, 3, 6, 5), PHOTO, "channel row column")
with check.property("volumes: neither the partner nor a channel's gain matters, the anatomy stays"):
    try_job("volumes", (2, 3, 6, 5, 4), VOLUME, "depth row column")
with check.property("sensors: the unit does not matter, runs and times stay different"):
    try_job("sensors", (4, 7, 3), SENSOR, "run time")
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("the jobs once more, in tensors of other sizes"):
    try_job("photos", (3, 5, 4, 6), PHOTO, "photo row column")
    try_job("style", (4, 6, 5, 3), PHOTO, "row column")
    try_job("text", (5, 3, 7), "text token feature", "feature")
    try_job("exposure", (5, 4, 3, 7), PHOTO, "channel row column")
    try_job("volumes", (2, 4, 5, 3, 6), VOLUME, "depth row column")
    try_job("sensors", (7, 5, 3), SENSOR, "run time")
### END HIDDEN TESTS
check.score()

# %% [markdown]
"""
<details><summary>The norms for the six jobs (open this once you have chosen)</summary>

BatchNorm2d; InstanceNorm2d; LayerNorm over the features, or RMSNorm; LayerNorm over (C, H, W), or GroupNorm with one group;
InstanceNorm3d; and BatchNorm1d, with the axes moved first, since `nn.BatchNorm1d` takes (run, sensor, time).
</details>
"""

# %% [markdown]
"""
## A frozen backbone

A network has learned the digits. Its first half, the **backbone**, will also serve a second task: the same digits as negatives, dark on a bright background. The backbone is **frozen**: its parameters get no gradient, and it is put into evaluation mode. Only a new **head**, the last layer, is trained, and after each epoch
the new network is validated.
"""


# %%
def validate_from_the_wild(network, images, labels):
    network.eval()
    with torch.no_grad():
        right = network(images).argmax(dim=1) == labels
    network.train()
    return right.float().mean().item()


# %% [markdown]
"""
After each epoch, `train_task` calls `watch`, which records the accuracy of the old network.
"""


# %%
def train_task(network, images, validate, epochs, watch=lambda: None):
    trainable = [weight for weight in network.parameters() if weight.requires_grad]
    optimizer = torch.optim.Adam(trainable, lr=3e-3)
    for _ in range(epochs):
        for batch in training_set[torch.randperm(len(training_set))].split(50):
            optimizer.zero_grad()
            functional.cross_entropy(network(images[batch]), digit_labels[batch]).backward()
            optimizer.step()
        validate(network, images[test_set], digit_labels[test_set])
        watch()


# %% folded="The two tasks, one after the other"
def tune_second_task(validate):
    """Return the old task's accuracy before, and after each epoch of the new one."""
    torch.manual_seed(0)
    old_images = digit_images.flatten(1) / 16
    backbone = nn.Sequential(nn.Linear(64, 48), nn.BatchNorm1d(48), nn.ReLU())
    old_network = nn.Sequential(backbone, nn.Linear(48, 10))
    train_task(old_network, old_images, validate_from_the_wild, epochs=4)

    backbone.requires_grad_(False)
    new_network = nn.Sequential(backbone, nn.Linear(48, 10))
    new_network.train()
    backbone.eval()
    kept, history = copy.deepcopy(old_network), []

    def watch():
        # A copy, so that looking changes nothing.
        copied = copy.deepcopy(old_network).eval()
        right = copied(old_images[test_set]).argmax(dim=1) == digit_labels[test_set]
        history.append(right.float().mean().item())

    watch()
    train_task(new_network, 1 - old_images, validate, epochs=4, watch=watch)
    same = [
        torch.equal(a, b) for a, b in zip(kept.parameters(), old_network.parameters(), strict=True)
    ]
    print("all parameters of the old network are the same to the last bit:", all(same))
    return history


# %% tags=["nbval-ignore-output"] folded="Figure 1.15: the old task while the new one is trained"
history = tune_second_task(validate_from_the_wild)
figure, axes = new_figure(height=2.8)
axes.plot(range(5), history, "o-")
axes.set(
    title="Accuracy of the old network",
    xlabel="epochs of the new task",
    ylabel="share of test images",
)
axes.set_xticks(range(5))
axes.set_ylim(0, 1)
show(
    figure,
    number="1.15",
    caption="The old network collapses in the second epoch, although only the head of the new network is trained.",
    alt="Accuracy of the old network after 0 to 4 epochs of the new task. It is above 0.9 before and after the first epoch, and below 0.5 from the second epoch on.",
)

# %% [markdown] exercise="bug-hunt-frozen-backbone" points=4 minutes=20 difficulty=2
"""
### Bug hunt: the old task

Find out what changed in the old network, and why nothing changed in the first epoch. Then write a validation function that changes nothing.

`validate(network, images, labels) -> float`

- **In** `network`: an `nn.Module` built from any modules, each configured in any way; a module may occur in several places. In evaluation mode, no module changes `images` or itself, or draws random numbers; `copy.deepcopy` can copy the network. `images`: the network's input, as one batch. `labels`: an int64 tensor with the right classes.
- **Out**: the share of images that the network classifies correctly in evaluation mode, a Python float. The call changes neither `images` nor `labels`. Afterward, every part of the network is exactly as before, including stored gradients and hooks, and all later results, including random numbers, are as they would be without the call.

With 3 of 4 images classified correctly, `validate(network, images, labels)` returns `0.75`. With `tune_second_task(validate)`, the accuracy of the old network stays the same.

<!-- hint: Compare the `state_dict` of the old network before and after; it holds more than parameters. Which module updates the rest, and when? -->
<!-- hint: `network.train()` is called on one module. What does it do to the modules inside, and how had some of them been set before? Each module inside has a flag of its own. -->
<!-- hint: `network.modules()` gives all modules, the network itself included. Note every module's `training` before the evaluation, and set it again afterward, flag by flag: `train(mode)` would also set the modules inside. -->
"""


# %% solution="bug-hunt-frozen-backbone"
def validate(network, images, labels):
    """Return the share of ``images`` that ``network`` gets right in evaluation mode; leave it as it was."""
    ### BEGIN SOLUTION
    modes = [(module, module.training) for module in network.modules()]
    network.eval()
    with torch.no_grad():
        right = network(images).argmax(dim=1) == labels
    for module, mode in modes:
        module.training = mode
    return right.float().mean().item()
    ### END SOLUTION


# %% test="bug-hunt-frozen-backbone"
check = Check("bug-hunt-frozen-backbone")
layers = [
    [["Linear", 5, 7], ["BatchNorm1d", 7], ["Dropout", 0.5]],
    [["Linear", 7, 6], ["BatchNorm1d", 6], ["ReLU"]],
    ["Linear", 6, 4],
]
# In the order of network.modules(): the network, the first part and its three modules, the second part and its three, the head.
# With a norm in two parts, the second part has two modules of its own.
all_training = [True] * 10
backbone_frozen = [True, False, False, False, False, True, True, True, True, True]
one_norm_frozen = [True, True, True, True, True, True, True, False, True, True]
mixed_up = [False, True, True, False, True, False, False, True, False, True]
twice = [
    [["Linear", 5, 7], ["BatchNorm1d", 7], ["Dropout", 0.5]],
    [["Linear", 7, 7], ["BatchNorm1d", 7], ["ReLU"]],
    ["Linear", 7, 4],
]
for_images = [
    [["Conv2d", 2, 3, [1, 4]], ["BatchNorm2d", 3], ["Dropout2d", 0.5]],
    [["Flatten"], ["Linear", 60, 6], ["RReLU"]],
    ["Linear", 6, 4],
]
# Its norm keeps no statistics, so that the batch counts in evaluation mode, too.
without_statistics = [
    [["Linear", 5, 7], ["BatchNorm1d", 7, 1e-5, 0.1, True, False], ["ReLU"]],
    [["Linear", 7, 6], ["Tanh"], ["Dropout", 0.5]],
    ["Linear", 6, 4],
]
for_text = [
    [["TransformerEncoderLayer", 6, 2, 9, 0.5, "relu", 1e-5, True]],
    [["Flatten"], ["Linear", 18, 7]],
    ["Linear", 7, 4],
]


def drawn_network(layers, shared=()):
    network = nn.Sequential(
        *(nn.Sequential(*map(make, part)) for part in layers[:2]), make(layers[2])
    )
    if shared:
        network[1][1] = network[0][1]
    state = {}
    for name, value in network.state_dict().items():
        first = name.replace("1.1.", "0.1.")
        if shared and first in state:
            state[name] = state[first].clone()
            continue
        if name.endswith("num_batches_tracked"):
            state[name] = torch.tensor(check.draw.integer(5, 50))
        elif name.endswith("running_var"):
            state[name] = check.draw.uniform(*value.shape, low=0.3, high=3.0)
        else:
            state[name] = check.draw.normal(*value.shape, equal_sizes=True)
    network.load_state_dict(state)
    return network.eval(), state


def make(layer):
    return getattr(nn, layer[0])(*layer[1:])


def require_sound_validation(
    modes,
    rows=307,
    layers=layers,
    sizes=(5,),
    shared=(),
    frozen=(),
    left_over=None,
    seed_first=False,
    autograd=True,
    drift=0.0,
):
    images, most = check.draw.normal(rows, *sizes, mean=1.0), rows
    if drift:  # from the first image to the last
        images = images + torch.linspace(-drift, drift, rows)[:, None]
    while most > 0.7 * rows:  # a network that tells several classes apart
        network, state = drawn_network(layers, shared)
        labels = network(images).argmax(dim=1)
        most = int(labels.bincount().max())
    wrong = check.draw.permutation(rows)[: check.draw.integer(5, rows // 10)]
    labels[wrong] = (labels[wrong] + 1) % 4
    accuracy = 1 - len(wrong) / rows
    # Afterward, the network learns from another batch, which shows whether the call changed it.
    inputs, slope = check.draw.normal(50, *sizes), check.draw.normal(50, 4)
    then = {"inputs": inputs, "slope": slope, "seed": check.draw.integer(0, 2**31)}
    given = {"state": state, "training": modes, "shared": shared}
    then |= {"frozen": frozen, "left_over": left_over, "seed_first": seed_first}
    then |= {"autograd": autograd}
    got = check.call(
        probes.network_then_trained,
        validate,
        layers,
        images,
        labels,
        **then,
        **given,
        untouched=True,
    )
    check.equal(got["arguments"], [images, labels], what="images and labels after the call")
    check.close(got["output"], accuracy, atol=1e-6, what="the accuracy")
    for name in frozen:
        network.get_parameter(name).requires_grad_(False)
    for module, mode in zip(network.modules(), modes, strict=True):
        module.training = mode
    output = check.with_seed(then["seed"], network, inputs)
    if autograd:
        (output * slope).sum().backward()
    what = "the network's output for the next batch, after the call"
    check.close(got["next"], output.detach(), rtol=1e-3, atol=1e-3, what=what)
    expected = dict(network.state_dict())
    for name, weight in network.named_parameters(remove_duplicate=False):
        gradient = 0.0 if weight.grad is None else weight.grad
        expected[name] = (weight - 0.5 * (gradient + (left_over or 0.0))).detach()
    what = "the network's state after a training step on the next batch"
    check.close(got["state"], expected, rtol=1e-3, atol=1e-2, what=what)
    return images, labels, given, accuracy


with check.property("the share of right answers; training continues as it would without the call"):
    require_sound_validation(all_training)
with check.property("a network whose backbone is frozen, as in this section", weight=2):
    backbone = ("0.0.weight", "0.0.bias", "0.1.weight", "0.1.bias")
    require_sound_validation(backbone_frozen, frozen=backbone)
with check.property("a network with a single frozen layer, stored gradients and a random seed"):
    require_sound_validation(one_norm_frozen, left_over=0.25, seed_first=True)
with check.property("networks for images and for text, with other kinds of layers"):
    require_sound_validation(all_training, layers=for_images, sizes=(2, 5, 7))
    require_sound_validation([True] * 16, layers=for_text, sizes=(3, 6))
    # Two dropouts deep inside are in evaluation mode.
    modes = [number not in (6, 10) for number in range(16)]
    require_sound_validation(modes, layers=for_text, sizes=(3, 6))
    require_sound_validation(all_training, layers=without_statistics, rows=1100, drift=5.0)
with check.property("a network in evaluation mode; a call while autograd is off"):
    require_sound_validation([False] * 10, rows=211)
    require_sound_validation(all_training, autograd=False)
with check.property("a module that occurs in two places"):
    # The first part and its norm, which is also the second part's, differ in mode from the second part.
    modes = [True, False, False, False, True, True, True, False, True]
    require_sound_validation(modes, layers=twice, shared=[("0.1", "1.1")])
with check.property("a network whose parts were set up one by one", weight=0.5):
    modes = check.draw.booleans(10).tolist()
    modes[0], modes[1], modes[5] = True, False, True  # of the network and its two parts
    *inputs, given, accuracy = require_sound_validation(modes)
    for flags in (modes, [not mode for mode in modes]):
        given["training"] = flags
        seen = check.call(probes.network, validate, layers, *inputs, **given)
        check.close(seen["output"], accuracy, atol=1e-6, what="the accuracy")
        check.equal(seen["training"], flags, what="the training flag of each part after the call")
        check.equal(seen["hooks"], 0, what="the number of hooks after the call")
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("other networks, set up part by part"):
    require_sound_validation(mixed_up)
    require_sound_validation([not mode for mode in mixed_up], rows=251)
### END HIDDEN TESTS
check.score()

# %% [markdown]
r"""
<details><summary>The bug (open this once you have found it)</summary>

`network.train()` reaches every module inside, including the frozen backbone. From the second epoch on, its BatchNorm uses batch statistics and moves its running statistics toward the new task's. No validation precedes the first epoch.

PyTorch Lightning, whose validation loop ended with `model.train()`, had this bug in 2020 ([issue 2551](https://github.com/Lightning-AI/pytorch-lightning/issues/2551)). Since version 2.2, it restores the mode of every submodule
([pull request 18951](https://github.com/Lightning-AI/pytorch-lightning/pull/18951)). Do not restore a mode with `module.train(mode)`: the call also sets all modules inside, so a BatchNorm that two parts share gets the mode restored last. Set the flag `training` of each module instead.

`requires_grad_(False)` alone does not freeze a BatchNorm, because the running statistics are not updated by gradients
([PyTorch issue 86590](https://github.com/pytorch/pytorch/issues/86590)). Several of torchvision's pretrained detection networks use `FrozenBatchNorm2d`, whose statistics, weight and bias are fixed.
</details>
"""

# %% [markdown]
r"""
## In the wild

| what | where |
| --- | --- |
| BatchNorm | [`torch.nn.BatchNorm2d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.BatchNorm2d.html): `momentum=None` averages all batches with equal weights; `track_running_stats=False` keeps no statistics |
| across GPUs | [`torch.nn.SyncBatchNorm`](https://docs.pytorch.org/docs/stable/generated/torch.nn.SyncBatchNorm.html) and `convert_sync_batchnorm`: one mean and variance for all GPUs |
| frozen | [`torchvision.ops.FrozenBatchNorm2d`](https://docs.pytorch.org/vision/stable/generated/torchvision.ops.FrozenBatchNorm2d.html); in Keras, `trainable = False` also freezes the statistics |
| new statistics | [`torch.optim.swa_utils.update_bn`](https://docs.pytorch.org/docs/stable/optim.html): for averaged weights, which the old statistics do not fit |
| folding | [`torch.nn.utils.fuse_conv_bn_eval`](https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.fuse_conv_bn_eval.html) |
| GroupNorm | [`torch.nn.GroupNorm(groups, channels)`](https://docs.pytorch.org/docs/stable/generated/torch.nn.GroupNorm.html) |
| InstanceNorm | [`torch.nn.InstanceNorm3d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.InstanceNorm3d.html): weight and bias only with `affine=True`, nnU-Net's setting |
| LayerNorm | [`torch.nn.LayerNorm`](https://docs.pytorch.org/docs/stable/generated/torch.nn.LayerNorm.html): `elementwise_affine=`, `bias=` |
| RMSNorm | [`torch.nn.RMSNorm`](https://docs.pytorch.org/docs/stable/generated/torch.nn.RMSNorm.html): `eps=None` is the machine epsilon of the format that it computes in, float32 for the 16-bit formats; `rms_norm_eps` in Hugging Face's Llama configurations |
| Keras | [`BatchNormalization`](https://keras.io/api/layers/normalization_layers/batch_normalization/): `epsilon=0.001` |
| Flax | [`nnx.BatchNorm`](https://flax.readthedocs.io/en/latest/api_reference/flax.nnx/nn/normalization.html): `momentum=0.99` as in Keras, `use_running_average=`, which `train()` and `eval()` also set |
"""

# %% [markdown]
r"""
## Recap

1. Norms differ in which entries share their statistics.
2. In training mode, BatchNorm is a function of the batch. The errors of its statistics shrink roughly as one over the square root of the batch size; of two values, it keeps little more than the order.
3. In evaluation mode, BatchNorm uses running averages, kept in buffers. It is then one factor and one shift per channel, and can be folded into the convolution before it.
4. Normalizing over an axis keeps the differences along it; along every other axis, differences in level and spread are lost.

### Test yourself

<details><summary>1. What does GroupNorm with as many groups as channels return for a tensor of shape (images, channels) with five images?</summary>

Only the bias: each group is a single number, which equals its own mean, so every normalized value is 0.
</details>

<details><summary>2. Why can't a BatchNorm be folded exactly into a zero-padded convolution that follows it?</summary>

The padding is applied *after* the norm, so the norm's shift never reaches it. Folding moves the shift into the convolution's bias, as if the padding had been shifted as well.
</details>

### References

- S. Ioffe, C. Szegedy, "Batch Normalization: Accelerating Deep Network Training by Reducing Internal Covariate Shift", [arXiv:1502.03167](https://arxiv.org/abs/1502.03167), 2015.
- J. L. Ba, J. R. Kiros, G. E. Hinton, "Layer Normalization", [arXiv:1607.06450](https://arxiv.org/abs/1607.06450), 2016.
- D. Ulyanov, A. Vedaldi, V. Lempitsky, "Instance Normalization: The Missing Ingredient for Fast Stylization", [arXiv:1607.08022](https://arxiv.org/abs/1607.08022), 2016.
- Y. Wu, K. He, "Group Normalization", [arXiv:1803.08494](https://arxiv.org/abs/1803.08494), 2018.
- S. Santurkar, D. Tsipras, A. Ilyas, A. Madry, "How Does Batch Normalization Help Optimization?", [arXiv:1805.11604](https://arxiv.org/abs/1805.11604), 2018, section 2.1.
- B. Zhang, R. Sennrich, "Root Mean Square Layer Normalization", [arXiv:1910.07467](https://arxiv.org/abs/1910.07467), 2019.
- H. Touvron et al., "LLaMA: Open and Efficient Foundation Language Models", [arXiv:2302.13971](https://arxiv.org/abs/2302.13971), 2023, section 2.2.
- Y. Wu, J. Johnson, "Rethinking 'Batch' in BatchNorm", [arXiv:2105.07576](https://arxiv.org/abs/2105.07576), 2021.
- F. Isensee, P. F. Jaeger, S. A. A. Kohl, J. Petersen, K. H. Maier-Hein, "nnU-Net: a self-configuring method for deep learning-based biomedical image segmentation", *Nature Methods* 18, 2021.

### Glossary

| English | 中文 | meaning |
| --- | --- | --- |
| normalization | 归一化 | shifting or scaling numbers by statistics, for example to mean 0 and variance 1 |
| batch, layer, instance, group normalization | 批归一化、层归一化、实例归一化、组归一化 | normalization over different axes |
| trailing axes | 末尾的轴 | the last axes of a tensor |
| root mean square | 均方根 | the root of the mean of squares |
| biased, unbiased variance | 有偏方差、无偏方差 | the sum of squared deviations from the mean, divided by the count or by one less |
| RMS error | 均方根误差 | the root mean square of the errors of an estimate |
| running average | 滑动平均 | an average that forgets a fixed share at each step |
| running statistics | 运行统计量 | BatchNorm's averages, used in evaluation mode |
| momentum (of BatchNorm) | 动量 | the weight of the new batch; in Keras, of the old average |
| buffer | 缓冲区 | a tensor saved and moved with its module, but not trained |
| training mode, evaluation mode | 训练模式、评估模式 | the two values of a flag that BatchNorm and dropout obey |
| machine epsilon | 机器精度 | the distance from 1 to the next larger number |
| token | 词元 | the unit of text that a language model reads and predicts |
| folding | 折叠 | merging a BatchNorm into the layer before it |
| patch | 图像块 | a piece cut out of a volume |
| backbone, head | 骨干网络、任务头 | the shared part of a network; the part for one task |
| frozen | 冻结 | of a parameter or a part of a network: kept fixed during training |
"""

# %% folded="What you predicted"
predictions("01")

# %%
progress("01")
