# %% [markdown]
"""
# 01 · Normalization

After this chapter you can

- write BatchNorm, LayerNorm, InstanceNorm, GroupNorm and RMSNorm as one operation over different axes;
- tell from the batch size how far batch statistics are off, and see what that does to a network;
- keep running statistics, switch between training and evaluation, and freeze a layer so that it stays frozen;
- fold a BatchNorm into the convolution before it;
- choose a norm for a job by what must not matter and what must stay.

**Time**: 80 minutes to read and run, 145 for the eight exercises.
**Know before**: tensors, autograd and modules (chapter 00).

**中文**: 本章讲归一化：BatchNorm、LayerNorm、InstanceNorm、GroupNorm 与 RMSNorm 是同一运算在不同轴上的应用；批统计量的误差、训练与评估模式、滑动统计量、折叠到卷积，以及如何选择。
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
    failing,
    hint,
    new_figure,
    play,
    probes,
    progress,
    recorded,
    saved_bytes,
    show,
    time_ratio,
)

# %% [markdown]
"""
## A network that trains on pairs

The data: 1,797 handwritten digits of 8 × 8 pixels. The network: two hidden layers of 32 units, each
followed by a norm and a ReLU. The same weights to begin with, the same pictures in the same order, three
passes over them. Only two things differ: the norm, and how many pictures are in a batch. (The numbers are
float64 here, so that rounding is not to blame for what follows.)
"""

# %%
torch.set_num_threads(1)  # tensors as small as these are slower with several

digit_images, digit_labels = digits()
pixels = (digit_images.flatten(1) / 16).double()
order = torch.randperm(len(pixels), generator=torch.Generator().manual_seed(0))
training_set, test_set = order[:1500], order[1500:]


def train_network(norm, batch_size):
    """Return the trained network, and the length of the longest gradient on the way."""
    torch.manual_seed(0)
    hidden = [nn.Linear(64, 32), norm(32), nn.ReLU(), nn.Linear(32, 32), norm(32), nn.ReLU()]
    network = nn.Sequential(*hidden, nn.Linear(32, 10)).double()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05)
    longest = 0.0
    for _ in range(3):
        shuffled = training_set[torch.randperm(len(training_set))]
        for batch in shuffled.split(batch_size):
            optimizer.zero_grad()
            functional.cross_entropy(network(pixels[batch]), digit_labels[batch]).backward()
            gradient = torch.cat([weight.grad.flatten() for weight in network.parameters()])
            longest = max(longest, gradient.norm().item())
            optimizer.step()
    return network.eval(), longest


def test_accuracy(network):
    with torch.no_grad():
        right = network(pixels[test_set]).argmax(dim=1) == digit_labels[test_set]
    return right.double().mean().item()


# %% tags=["nbval-ignore-output"]
trained = {}
print(f"{'norm':<14}{'batch of':>9}{'accuracy in eval mode':>24}")
for norm, batch_size in (
    (nn.BatchNorm1d, 60),
    (nn.BatchNorm1d, 4),
    (nn.BatchNorm1d, 2),
    (nn.LayerNorm, 2),
):
    trained[norm, batch_size] = train_network(norm, batch_size)
    accuracy = test_accuracy(trained[norm, batch_size][0])
    print(f"{norm.__name__:<14}{batch_size:>9}{accuracy:>24.2f}")

# %% [markdown]
"""
With batches of 60, BatchNorm gets nine digits in ten right. With batches of 2 it takes thirty times as
many steps, and gets far fewer. LayerNorm does not mind. No warning, no nan, no error: the code is right.

The usual suspect is eval mode. In training BatchNorm uses the statistics of the batch; in eval mode it uses
running averages, and these could be poor. That can be tested. Throw them away, and take the exact
statistics of the whole training set in their place:
"""

# %% tags=["nbval-ignore-output"]
network, _ = trained[nn.BatchNorm1d, 2]
recalibrated = copy.deepcopy(network)
for layer in recalibrated:
    if isinstance(layer, nn.BatchNorm1d):
        layer.reset_running_stats()
        layer.momentum = None  # average over all batches; here there is one, and it is everything
with torch.no_grad():
    recalibrated.train()(pixels[training_set])
print(f"with the running averages:  {test_accuracy(network):.2f}")
print(f"with the exact statistics:  {test_accuracy(recalibrated.eval()):.2f}")

# %% [markdown]
"""
Better or worse by a little, and nowhere near 0.9. So the weights themselves were learned badly. Look at what
a hidden unit sees in training. A batch of 2 gives it two numbers, and BatchNorm makes this of them:
"""

# %%
for pair in ([3.0, 5.0], [3.0, 500.0], [-0.1, 0.1], [7.0, 3.0], [0.0, 0.01], [0.0, 0.001]):
    seen = functional.batch_norm(torch.tensor(pair)[:, None], None, None, training=True)
    print(f"{pair!s:>15} becomes", [round(value, 2) for value in seen.flatten().tolist()])

# %% [markdown]
r"""
Two numbers have their mean in the middle, and both are one standard deviation away from it. So a pair becomes
$(-1, 1)$ or $(1, -1)$, **whatever the numbers are**, unless they differ by about a hundredth or less. That is bad in
two ways.

- **Values.** Only the order is left. Which of two pictures has the larger value says little about either digit.
- **Slopes.** For most pairs the output is flat: no gradient passes. Where the two numbers change places it is
  steep: it runs from $-1$ to $1$ with the slope $1 / (2 \sqrt{\epsilon}) = 158$, where $\epsilon$ = 1e-5 is the norm's
  `eps`. (We come to it.) Every gradient that passes there is multiplied by that.

Which of the two did the damage? Keep the values, and take the slopes away. The norm below hands on what BatchNorm
hands on. On the way back it has the gentle slopes of $\epsilon = 1$, which are never above 0.5. "In pairs" is the
accuracy in training mode, with two pictures at a time.
"""


# %%
class GentleSlopes(nn.BatchNorm1d):
    def forward(self, x):
        exact = super().forward(x)
        if not self.training:
            return exact
        gentle = functional.batch_norm(x, None, None, self.weight, self.bias, True, eps=1.0)
        return gentle + (exact - gentle).detach()  # the value of exact, the gradient of gentle


def accuracy_in_pairs(network):
    torch.manual_seed(0)
    network, right = copy.deepcopy(network).train(), []
    with torch.no_grad():
        for pair in test_set[torch.randperm(len(test_set) - 1)].split(2):
            right.append(network(pixels[pair]).argmax(dim=1) == digit_labels[pair])
    return torch.cat(right).double().mean().item()


# %% tags=["nbval-ignore-output"]
trained[GentleSlopes, 2] = train_network(GentleSlopes, 2)
print("batches of 2   eval mode  in pairs  longest gradient  largest weight")
for norm in (nn.BatchNorm1d, GentleSlopes, nn.LayerNorm):
    network, longest = trained[norm, 2]
    largest = max(weight.abs().max().item() for weight in network.parameters())
    accuracies = f"{test_accuracy(network):>10.2f}{accuracy_in_pairs(network):>10.2f}"
    print(f"{norm.__name__:<14}{accuracies}{longest:>18.0f}{largest:>16.0f}")

# %% [markdown]
r"""
Mostly the slopes. BatchNorm's gradients go into the thousands, and its weights are thrown far away: the training
diverges. With the same values and gentle slopes, eval mode is nearly as good as LayerNorm. The values have their
price as well. In pairs, which is all that it sees in training, even that network gets little more than half right.

The slopes multiply rounding errors, too, step after step. So the accuracy of BatchNorm's row differs from machine to
machine.

BatchNorm is not a function of a picture. It is a function of a batch. The rest of this chapter is about which
numbers a norm puts together, and what follows from it.
"""

# %% [markdown]
r"""
## What a norm is for

An activation function does its work in a window. Far from 0, $\tanh$ is flat: its slope is nearly 0, and so is
every gradient that passes it. Very close to 0 it is a straight line, and a network of straight lines is one
straight line. So the numbers that enter it should have a sensible size, in every layer.

This is why a norm usually stands between a linear layer and its activation, as in the network above. Nothing else
guarantees that size. Each layer multiplies by a matrix, and the product of twenty factors, each a little too small or too
large, is far too small or too large. Below, 64 × 64 random matrices with entries of three magnitudes, twenty layers of $\tanh$, without and with
a norm. The left plot shows how far pictures lie apart when they enter $\tanh$, the right one the mean slope that they meet there.
"""


# %%
def through_layers(scale, with_norm, depth=20):
    """Return, for each layer, the spread between pictures in front of tanh, and the slope of tanh."""
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

# %% folded="Plot: How far pictures lie apart"
figure, (left, right) = new_figure(1, 2, height=3.6)
layers = range(1, 21)
for scale, (color, marker) in scales.items():
    style = {"color": COLORS[color], "marker": marker, "markersize": 3.5}
    for axes, values in zip((left, right), through_layers(scale, False), strict=True):
        axes.plot(layers, values, label=f"no norm, weights × {scale:g}", **style)
for scale in scales:
    for axes, values in zip((left, right), through_layers(scale, True), strict=True):
        label = "with a norm, all three" if scale == 0.5 else None
        axes.plot(layers, values, ":", color=COLORS["black"], label=label)
left.set_yscale("log")
left.set(title="How far pictures lie apart", xlabel="layer", ylabel="standard deviation")
right.set(title="Mean slope of tanh", xlabel="layer", ylabel="slope (no unit)", ylim=(0, 1.05))
left.legend(fontsize=8, loc="lower left")
show(
    figure,
    alt="Two plots over twenty layers. Without a norm, weights times 0.5 let the standard deviation fall "
    "below a millionth, and weights times 4 keep it large but leave tanh a mean slope of about 0.2. With a "
    "norm all three sizes of weights give the same curves: a standard deviation of 1 and a slope of about 0.6.",
)
for scale in scales:
    without, with_norm = through_layers(scale, False)[0][-1], through_layers(scale, True)[0][-1]
    print(
        f"weights × {scale:<4g} spread in layer 20: {without:.0e} without, {with_norm:.2f} with norm"
    )

# %% [markdown]
r"""
Without a norm, large weights drive $\tanh$ into its flat part. Small ones make all pictures alike; their slope of 1 is no gain, since
$\tanh$ is a straight line there. With a norm the three curves are one: it takes out the size of the weights. (Right behind it the spread is 1 by
construction.) Then the layer multiplies by a learned $\gamma$ and adds a
learned $\beta$, so that the network can choose size and center itself.

This much is fact. *Why* it makes training faster is less settled. Ioffe and Szegedy (2015) argued that layers no longer
have to follow the shifting distribution of their inputs. Santurkar and others (2018) put that to the test, added such
shifts on purpose, and training did not suffer; they explain the gain by a smoother loss.

A side effect: what the norm subtracts, the layer before it need not learn. In training mode a bias in front of a BatchNorm gets no
gradient, which is why one writes `bias=False` there.
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

All norms of this chapter do the same thing. (One leaves out the mean; we come to it.) A norm divides the entries of a tensor into groups, and for each group of $m$
entries computes

$$\mu = \frac{1}{m} \sum_i x_i \qquad \sigma^2 = \frac{1}{m} \sum_i (x_i - \mu)^2 \qquad y_i = \frac{x_i - \mu}{\sqrt{\sigma^2 + \epsilon}}$$

The small $\epsilon$ (`eps`, often 1e-5) stands *inside* the root. It keeps the division safe for a group of equal
numbers, whose variance is 0. The variance is the *biased* one, with $m$ and not $m - 1$ below.

What differs is which entries form a group. That need not be taken from a table, it can be measured: two entries share
statistics if the output at the one depends on the input at the other, and autograd knows about that. Below, a tensor
of 3 pictures and 4 channels of 2 × 3 pixels.
"""


# %%
def entries_that_matter(norm):
    """Return where a change of the input changes the very first entry of the output."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(3, 4, 2, 3, generator=generator, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(norm(x)[0, 0, 0, 0], x)
    return slope != 0


def layer_norm_of_channels(x):
    return functional.layer_norm(x.movedim(1, -1), (x.shape[1],)).movedim(-1, 1)


panels = {
    "BatchNorm2d(4)": lambda x: functional.batch_norm(x, None, None, training=True),
    "InstanceNorm2d(4)": functional.instance_norm,
    "GroupNorm(2, 4)": lambda x: functional.group_norm(x, 2),
    "LayerNorm((4, 2, 3))": lambda x: functional.layer_norm(x, (4, 2, 3)),
    "LayerNorm(4), channels last": layer_norm_of_channels,
}
colors = torch.tensor([[0.88, 0.88, 0.88], [0.0, 0.45, 0.70], [0.84, 0.37, 0.0]])

# %% folded="Plot: the entries that matter to each norm"
figure, grid = new_figure(2, 3, height=4.2, sharex=True, sharey=True)
for axes, (name, norm) in zip(grid.flat, panels.items(), strict=False):
    kind = entries_that_matter(norm).long()
    print(f"{name:<28}{int(kind.sum()):>3} of 72 entries share their statistics")
    kind[0, 0, 0, 0] = 2
    axes.imshow(colors[kind.permute(0, 2, 1, 3).reshape(6, 12)], aspect="auto")
    axes.grid(False)
    for boundary in range(1, 12):
        axes.axvline(boundary - 0.5, color="white", linewidth=4 if boundary % 3 == 0 else 0.7)
    for boundary in range(1, 6):
        axes.axhline(boundary - 0.5, color="white", linewidth=4 if boundary % 2 == 0 else 0.7)
    axes.set_xticks([1, 4, 7, 10], ["0", "1", "2", "3"])
    axes.set_yticks([0.5, 2.5, 4.5], ["0", "1", "2"])
    axes.set(title=name, xlabel="channel", ylabel="picture")
    axes.tick_params(labelbottom=True)
legend = grid.flat[5]
legend.axis("off")
for row, (text, color) in enumerate((("one entry", 2), ("shares statistics", 1), ("does not", 0))):
    legend.plot([1], [1.0 + 1.2 * row], "s", color=colors[color].tolist(), markersize=11)
    legend.text(2.0, 1.0 + 1.2 * row, text, va="center", fontsize=9)
figure.suptitle("Which entries share their mean and variance", x=0.02, ha="left", fontsize=11)
show(
    figure,
    alt="Five grids of three pictures by four channels, each cell with two by three pixels. BatchNorm: the "
    "statistics are shared by channel 0 of all pictures. InstanceNorm: by channel 0 of picture 0. GroupNorm "
    "with two groups: by channels 0 and 1 of picture 0. LayerNorm over (4, 2, 3): by all of picture 0. "
    "LayerNorm over the channels: by one pixel of picture 0 in all four channels.",
)

# %% [markdown]
r"""
BatchNorm is the only one that looks at other pictures. All others treat a picture by itself, so the size of the batch
cannot matter to them, and training and eval mode are the same (unless an InstanceNorm is asked to keep running statistics).

A point on which many notes are wrong, since a well-known figure shows it that way: LayerNorm does not mean "over channels,
rows and columns". `nn.LayerNorm` normalizes over the *trailing* axes whose sizes you name. A transformer names the features
alone, so each token has its own statistics. The last two grids are both LayerNorm.
"""

# %% [markdown] exercise="normalize" points=4 minutes=15 difficulty=1
"""
### One function for all of them

Write `normalize(x, axes, eps=1e-5)`: the operation above, for groups along any axes.

- **In**: `x`, a float32 or float64 tensor of any shape; `axes`, a tuple of integers, negative ones count from the back.
  Entries that differ only in their position along these axes form one group.
- **Out**: a tensor of the same shape and dtype. `x` stays as it is.
- The variance is the biased one, and `eps` is added to it under the root.
- Autograd goes through all of it, through mean and variance too. In a group of equal numbers the values are 0 and
  the gradient is finite.
- In float32, groups with a mean of ten thousand and a standard deviation of 1 come out right to two decimals.
- **Not allowed**: torch's own norms, functions and classes, such as `layer_norm` and `BatchNorm2d`. The check reads your code for
  their names; if it finds one, nothing else counts.

<!-- hint: Which two numbers does each group need? A tensor of pictures, channels, rows and columns that is normalized over rows and columns has how many groups, and which shape should its means have? -->
<!-- hint: Reduce over all the axes in one go, and keep the reduced axes with size 1, so that the result broadcasts against x. The variance is the mean of the squared distances from that mean. -->
<!-- hint: `mean` takes `dim=axes` and `keepdim=True`. So does `var`, which by default divides by one less than the count: look for its `correction`. -->
"""


# %% solution="normalize"
def normalize(x, axes, eps=1e-5):
    """Return ``x`` with mean 0 and variance 1 in each group along ``axes``, of the same shape and dtype."""
    ### BEGIN SOLUTION
    distance = x - x.mean(dim=axes, keepdim=True)
    variance = (distance * distance).mean(dim=axes, keepdim=True)
    return distance / (variance + eps).sqrt()
    ### END SOLUTION


# %% test="normalize"
check = Check("normalize")


def normalized_in_float64(x, axes, eps=1e-5):
    last = tuple(range(-len(axes), 0))
    moved = x.double().movedim(axes, last)
    return functional.layer_norm(moved, moved.shape[-len(axes) :], eps=eps).movedim(last, axes)


def require_no_norm():
    """Read the code for torch's own norms, functions and classes."""
    kinds = ("batch", "group", "layer", "instance")
    names = [f"*{kind}{between}norm*" for kind in (*kinds, "rms") for between in ("", "_")]
    check.written_without(*names, "*norm*base*", "*normalization*", "*transformer*")


with check.property("each group has mean 0 and variance 1, without torch's own norms"):
    x = check.draw.normal(6, 8, 7, mean=2.0, std=3.0)
    for axes in ((0, 2), (1, 2), (2,), (1,), (0, 1, 2)):
        got = check.call(normalize, x, axes)
        expected = normalized_in_float64(x, axes).float()
        check.close(got, expected, rtol=1e-4, atol=1e-4, what=f"axes={axes}")
    require_no_norm()
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
with check.property("a small variance: eps counts, and stands under the root"):
    x = check.draw.normal(4, 6, 3, std=3e-3)
    for given in ((), (1e-4,)):
        got = check.call(normalize, x, (1,), *given)
        expected = normalized_in_float64(x, (1,), *given).float()
        check.close(got, expected, rtol=1e-3, atol=1e-3, what=f"eps={(*given, 1e-5)[0]:g}")
with check.property("a mean of ten thousand leaves the digits of the rest", weight=2):
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
with check.property("leaves x as it is", weight=0.5):
    x = check.draw.normal(check.draw.integer(5, 12), 4, mean=3.0)
    seen = check.call(probes.after_call, normalize, x, (0,))
    check.close(seen["output"], normalized_in_float64(x, (0,)).float(), rtol=1e-4, atol=1e-4)
    check.equal(seen["arguments"][0], x, what="x after the call")
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
"""
## The norms are relatives

If they are one operation, some of them must coincide. And each must be a BatchNorm of the same numbers in another shape:
write each group as a column of a matrix, and let BatchNorm normalize the columns. The next cell compares
torch's own functions, in roundings: the distance from 1 to the next number of the format, which is called its epsilon and has
nothing to do with the $\epsilon$ under the root. The values go up to about 3, so a few roundings are to be expected.
"""


# %%
def batch_norm(x):
    return functional.batch_norm(x, None, None, training=True)


def compare_relatives(dtype):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(6, 4, 5, 3, generator=generator, dtype=torch.float64).to(dtype)
    centered = x - x.mean(dim=-1, keepdim=True)
    pairs = {
        "GroupNorm, 1 group    = LayerNorm over (C, H, W)": (
            functional.group_norm(x, 1),
            functional.layer_norm(x, (4, 5, 3)),
        ),
        "GroupNorm, C groups   = InstanceNorm": (
            functional.group_norm(x, 4),
            functional.instance_norm(x),
        ),
        "InstanceNorm          = BatchNorm of (1, N * C, H, W)": (
            functional.instance_norm(x),
            batch_norm(x.reshape(1, 24, 5, 3)).reshape(x.shape),
        ),
        "GroupNorm, 2 groups   = BatchNorm of (1, N * 2, C / 2, H, W)": (
            functional.group_norm(x, 2),
            batch_norm(x.reshape(1, 12, 2, 5, 3)).reshape(x.shape),
        ),
        "LayerNorm over W      = BatchNorm of the transposed matrix": (
            functional.layer_norm(x, (3,)),
            batch_norm(x.reshape(-1, 3).T).T.reshape(x.shape),
        ),
        "LayerNorm over W      = RMSNorm of x - mean": (
            functional.layer_norm(x, (3,), eps=1e-5),
            functional.rms_norm(centered, (3,), eps=1e-5),
        ),
    }
    epsilon = torch.finfo(dtype).eps
    return {
        name: (one - other).abs().max().item() / epsilon for name, (one, other) in pairs.items()
    }


differences = {dtype: compare_relatives(dtype) for dtype in (torch.float32, torch.float64)}
for dtype, found in differences.items():
    print(f"{dtype}: all six hold to 20 roundings: {max(found.values()) <= 20}")

# %% tags=["nbval-ignore-output"]
print(f"{'largest difference, in roundings':<62}{'float32':>8}{'float64':>8}")
for name in differences[torch.float32]:
    row = "".join(f"{differences[dtype][name]:>8.1f}" for dtype in differences)
    print(f"{name:<62}{row}")

# %% [markdown]
r"""
The identities hold for the normalization. The learned $\gamma$ and $\beta$ are another matter: GroupNorm and BatchNorm have
one pair per *channel*, LayerNorm one per *entry* of the shape that it normalizes. `GroupNorm(1, C)` and
`LayerNorm((C, H, W))` compute the same numbers, and learn different things.

GroupNorm (Wu and He 2018) lies between the two ends: channels in groups, each with its neighbors. It was made for
detection and segmentation, where pictures are large and batches are small.
"""

# %% [markdown] exercise="group-norm" points=4 minutes=15 difficulty=2
r"""
### GroupNorm

Write `group_norm(x, groups, weight, bias, eps=1e-5)`.

- **In**: `x` of shape (pictures, channels, ...) with any number of axes behind, none included, float32 or float64; `groups`, an
  integer that divides the channels; `weight` and `bias` of shape (channels,), of the same dtype.
- Neighboring channels form a group: with 6 channels and 2 groups, channels 0, 1, 2 are the first one. A group of one
  picture has one mean and one variance, over its channels and over all axes behind.
- Then each channel is multiplied by its weight, and its bias is added.
- **Out**: a tensor of the shape and dtype of `x`, as precise as `normalize` beside a mean of ten thousand. Autograd goes through.
- **Not allowed**: torch's own norms, functions and classes; if your code names one, nothing else counts. Your `normalize` is
  welcome, once its own check is green.

<!-- hint: Your normalize can do all of it, if only the channels of one group had an axis of their own. Which shape has such an axis? -->
<!-- hint: Split the axis of channels in two: groups first, then the channels within a group. Normalize over everything behind the groups, and go back to the old shape before weight and bias come in. -->
<!-- hint: `x.reshape(len(x), groups, -1)` has three axes, and only the last one is normalized over. For weight and bias, a view of shape (1, channels, 1, ...) with as many axes as x. -->
"""


# %% solution="group-norm"
def group_norm(x, groups, weight, bias, eps=1e-5):
    """Return ``x``, (pictures, channels, ...), normalized in groups of channels, scaled and shifted."""
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
    """Read the code for torch's own norms, functions and classes."""
    kinds = ("batch", "group", "layer", "instance")
    names = [f"*{kind}{between}norm*" for kind in (*kinds, "rms") for between in ("", "_")]
    check.written_without(*names, "*norm*base*", "*normalization*", "*transformer*")


def require_gradients(names, x, *given):
    """Compare the gradients by x, the weight or the bias with those of torch's own function."""
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
        what = f"the gradient by {name}"
        check.close(got["gradient"], slope.to(x.dtype), rtol=1e-3, atol=1e-3, what=what)


with check.property("2 and 3 groups, by definition, without torch's own norms"):
    x = check.draw.normal(4, 6, 5, 3, mean=1.0)
    weight, bias = check.draw.normal(6), check.draw.normal(6)
    for groups in (2, 3):
        got = check.call(group_norm, x, groups, weight, bias)
        expected = group_norm_in_float64(x, groups, weight, bias)
        check.close(got, expected, rtol=1e-4, atol=1e-5, what=f"groups={groups}")
    require_no_norm()
with check.property("one group is LayerNorm over (C, H, W), C groups are InstanceNorm"):
    x, unit, zero = check.draw.normal(3, 5, 2, 4), torch.ones(5), torch.zeros(5)
    got = check.call(group_norm, x, 1, unit, zero)
    expected = functional.layer_norm(x.double(), (5, 2, 4)).float()
    check.close(got, expected, rtol=1e-4, atol=1e-5, what="one group")
    got = check.call(group_norm, x, 5, unit, zero)
    expected = functional.instance_norm(x.double()).float()
    check.close(got, expected, rtol=1e-4, atol=1e-5, what="five groups")
with check.property("works for vectors, sequences and volumes", weight=2):
    weight, bias = check.draw.normal(8), check.draw.normal(8)
    for sizes in ((5, 8), (3, 8, 7), (2, 8, 3, 4, 5)):
        x = check.draw.normal(*sizes)
        got = check.call(group_norm, x, 2, weight, bias)
        expected = group_norm_in_float64(x, 2, weight, bias)
        check.close(got, expected, rtol=1e-4, atol=1e-5, what=f"shape {sizes}")
with check.property("a mean of ten thousand leaves the digits of the rest; another eps is taken"):
    x, unit, zero = check.draw.normal(3, 6, 7, mean=1e4), torch.ones(6), torch.zeros(6)
    for eps in (1e-5, 0.5):
        got = check.call(group_norm, x, 2, unit, zero, eps=eps)
        expected = group_norm_in_float64(x, 2, unit, zero, eps)
        check.close(got, expected, rtol=0.0, atol=5e-3, what=f"eps={eps}")
with check.property("the gradient by x, and by the weight"):
    require_gradients(("x", "the weight"), check.draw.normal(3, 4, 5), 2)
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("all digits of float64, with another eps too"):
    x = check.draw.normal(2, 6, 5, mean=3.0, dtype=torch.float64)
    weight = check.draw.normal(6, dtype=torch.float64)
    bias = check.draw.normal(6, dtype=torch.float64)
    for eps in (1e-5, 0.2):
        got = check.call(group_norm, x, 3, weight, bias, eps=eps)
        expected = group_norm_in_float64(x, 3, weight, bias, eps)
        check.close(got, expected, rtol=1e-9, atol=1e-9, what=f"eps={eps}")
with check.property("the gradient by x, and by the bias, for pictures in float64"):
    x = check.draw.normal(2, 6, 5, 3, dtype=torch.float64)
    require_gradients(("x", "the bias"), x, 2 + check.draw.integer(0, 2))
### END HIDDEN TESTS
check.score()

# %% [markdown]
r"""
## LayerNorm and RMSNorm: one token at a time

Text is a tensor of shape (texts, tokens, features). A model that writes it produces one token after another, so a token
must not see the ones that come later. A norm can break that rule without anybody noticing. Below, the last of
five tokens is replaced. Which of the first four come out differently?
"""

# %%
generator = torch.Generator().manual_seed(0)
text = torch.randn(1, 5, 8, generator=generator)
other_text = text.clone()
other_text[0, 4] = 10 * torch.randn(8, generator=generator)
for name, norm in (
    ("LayerNorm(8)", lambda x: functional.layer_norm(x, (8,))),
    ("LayerNorm((5, 8))", lambda x: functional.layer_norm(x, (5, 8))),
    ("InstanceNorm1d over the tokens", lambda x: functional.instance_norm(x.mT).mT),
):
    change = (norm(text) - norm(other_text))[0, :4].abs().amax(dim=1)
    print(f"{name:<32} changes by", [round(value, 1) for value in change.tolist()])

# %% [markdown]
"""
LayerNorm was made for recurrent networks (Ba, Kiros and Hinton 2016), where BatchNorm would have to keep statistics for every time
step. Only the norm over the features alone keeps the past as it was. The other two leak the future into the past: the model
trains well, and writes badly.
"""

# %% [markdown] exercise="layer-norm" points=3 minutes=10 difficulty=1
"""
### LayerNorm

Write `layer_norm(x, normalized_shape, weight, bias, eps=1e-5)`.

- **In**: `x`, float32 or float64, of any shape; two axes may have the same size; `normalized_shape`, a tuple: the sizes of the
  last one or more axes of `x`; `weight` and `bias`, of that shape and of the dtype of `x`.
- The entries of the last `len(normalized_shape)` axes form a group. Then multiply by the weight and add the bias, entry by
  entry.
- **Out**: a tensor of the shape and dtype of `x`, as precise as `normalize` beside a mean of ten thousand. Autograd goes through,
  and a row of equal numbers has a finite gradient.
- **Not allowed**: torch's own norms, functions and classes; if your code names one, nothing else counts. Your `normalize` is
  welcome, once its own check is green.

<!-- hint: `normalized_shape` tells sizes. Your normalize wants axes. How many of them are meant, and at which end of the shape? -->
<!-- hint: Counted from the back, they are -1, -2 and so on, as many as the shape has entries. -->
<!-- hint: `tuple(range(-count, 0))` are the last axes. Weight and bias broadcast from the back by themselves. -->
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
    """Read the code for torch's own norms, functions and classes."""
    kinds = ("batch", "group", "layer", "instance")
    names = [f"*{kind}{between}norm*" for kind in (*kinds, "rms") for between in ("", "_")]
    check.written_without(*names, "*norm*base*", "*normalization*", "*transformer*")


def require_gradients(names, x, *given):
    """Compare the gradients by x, the weight or the bias with those of torch's own function."""
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
        what = f"the gradient by {name}"
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
with check.property("two or three trailing axes form one group, two of them of the same size"):
    x = check.draw.normal(2, 5, 4, 3, std=2.0)[:, :4].contiguous()
    weights, biases = check.draw.normal(5, 4, 3)[:4], check.draw.normal(5, 4, 3)[:4]
    for weight, bias in ((weights[0], biases[0]), (weights, biases)):
        shape = tuple(weight.shape)
        got = check.call(layer_norm, x, shape, weight, bias)
        expected = layer_norm_in_float64(x, shape, weight, bias)
        check.close(got, expected, rtol=1e-4, atol=1e-4, what=f"normalized_shape={shape}")
with check.property("the biased variance, with eps under the root, the usual one or another"):
    x, weight, bias = check.draw.normal(6, 3, std=3e-3), check.draw.normal(3), check.draw.normal(3)
    got = check.call(layer_norm, x, (3,), weight, bias)
    expected = layer_norm_in_float64(x, (3,), weight, bias)
    check.close(got, expected, rtol=1e-3, atol=1e-4, what="the usual eps")
    got = check.call(layer_norm, x, (3,), weight, bias, eps=1e-4)
    expected = layer_norm_in_float64(x, (3,), weight, bias, 1e-4)
    check.close(got, expected, rtol=1e-3, atol=1e-4, what="eps=0.0001")
with check.property("a mean of ten thousand leaves the digits of the rest"):
    x, unit, zero = check.draw.normal(4, 30, mean=1e4), torch.ones(30), torch.zeros(30)
    got = check.call(layer_norm, x, (30,), unit, zero)
    check.close(got, layer_norm_in_float64(x, (30,), unit, zero), rtol=0.0, atol=5e-3)
with check.property("the gradient by x, finite in a row of zeros, and by the weight"):
    x = check.draw.normal(2, 5, 6)
    x[1, check.draw.integer(0, 5)] = 0.0
    require_gradients(("x", "the weight"), x, (6,))
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("float64 keeps its digits, without leading axes too, and eps is taken"):
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
RMSNorm (Zhang and Sennrich 2019) leaves the mean alone. It divides by the root of the mean *square*:

$$y_i = \frac{x_i}{\sqrt{\frac{1}{m} \sum_j x_j^2 + \epsilon}} \, \gamma_i$$

There is one statistic less to compute and no $\beta$. Llama uses it, and many language models after it. It also has a trap, which the
next cell shows. In float16 the largest number is 65504.
"""

# %%
features = torch.tensor([300.0, 400.0, -200.0, 100.0], dtype=torch.float16)
squares = features * features
print("the features:", features.tolist())
print("their squares:", squares.tolist())
print("1 / root of the mean square:", torch.rsqrt(squares.mean()).item())
print("all features times that:", (features * torch.rsqrt(squares.mean())).tolist())

small = torch.tensor([1e-4, 2e-4], dtype=torch.float16)
mean_square = (small * small).mean()
print("mean square of 1e-4 and 2e-4:", mean_square.item())
for eps in (1e-6, 1e-8):
    factor = torch.rsqrt(mean_square + eps).item()
    wide_factor = torch.rsqrt(small.double().square().mean() + eps).item()
    print(f"with eps={eps:.0e} the factor is {factor:.0f}, in float64 {wide_factor:.0f}")

# %% [markdown]
r"""
The features are ordinary. The square of 300 is not: it is inf in float16, so the factor is 0, and the whole token
disappears. There is no inf and no nan in the result. At the other end small squares become 0. That is harmless as long as
$\epsilon$ is much larger than they are; a smaller $\epsilon$ becomes 0 as well, and nothing is left to divide by.

This happened. PyTorch's own `rms_norm` did it until somebody put it into a Llama and got wrong answers
([pull request 134106](https://github.com/pytorch/pytorch/pull/134106), 2024), while Llama's code in the transformers
library casts to float32.
"""

# %% [markdown] exercise="rms-norm" points=3 minutes=15 difficulty=2
"""
### RMSNorm

Write `rms_norm(x, weight, eps=1e-6)`: over the last axis.

- **In**: `x`, a floating-point tensor of shape (..., features); `weight`, of shape (features,) and of the same dtype.
- **Out**: a tensor of the shape and dtype of `x`.
- Right to rounding in float32 and float64. In float16 and bfloat16, the two *half formats* of 16 bits (chapter 02), right to within a few roundings of that format, for
  entries of any size between a ten-thousandth and ten thousand.
- Autograd goes through the mean square, too. A row of zeros gives zeros, and a finite gradient.
- **Not allowed**: torch's own norms, functions and classes; if your code names one, nothing else counts. (`x.norm()`, the length
  of a vector, is none of them.)

<!-- hint: Which number on the way leaves the range of float16, though neither the input nor the result does? -->
<!-- hint: Do the squares, their mean and the division in a wider format, and go back to the format of x at the end. Float64 is wide enough already and must not become narrower. -->
<!-- hint: `x.to(torch.promote_types(x.dtype, torch.float32))` widens the half formats and leaves float64 alone. Then square, mean over the last axis with keepdim, add eps, rsqrt. -->
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
    """Read the code for torch's own norms, functions and classes."""
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
    what = f"the gradient by {name}"
    check.close(got["gradient"], slope.to(x.dtype), rtol=1e-4, atol=1e-5, what=what)


def require_in_half_formats(x, eps):
    for dtype in (torch.float16, torch.bfloat16):
        rows, weight = x.to(dtype), check.draw.uniform(x.shape[-1], low=0.5, high=2.0, dtype=dtype)
        got = check.call(rms_norm, rows, weight, eps=eps)
        expected = rms_norm_in_float64(rows, weight, eps)
        check.close(got, expected, what=str(dtype).removeprefix("torch."))


with check.property("the mean stays, the root mean square goes, without torch's own norms"):
    x, weight = check.draw.normal(3, 5, 8, mean=4.0), check.draw.normal(8)
    got = check.call(rms_norm, x, weight)
    check.close(got, rms_norm_in_float64(x, weight))
    require_no_norm()
with check.property("float16 features of hundreds and thousands do not disappear", weight=2):
    x = check.draw.uniform(4, 6, low=300.0, high=9000.0, dtype=torch.float16)
    weight = check.draw.uniform(6, low=0.5, high=2.0, dtype=torch.float16)
    got = check.call(rms_norm, x, weight)
    check.close(got, rms_norm_in_float64(x, weight))
with check.property("float32 features of a thousandth: eps counts, and stands under the root"):
    x, weight = check.draw.normal(6, 5, std=1e-3), check.draw.normal(5)
    got = check.call(rms_norm, x, weight)
    check.close(got, rms_norm_in_float64(x, weight))
with check.property("float64 keeps its digits, and eps is taken"):
    x = check.draw.normal(2, 3, 5, dtype=torch.float64)
    weight = check.draw.normal(5, dtype=torch.float64)
    got = check.call(rms_norm, x, weight, eps=0.25)
    check.close(got, rms_norm_in_float64(x, weight, 0.25), rtol=1e-9)
with check.property("half formats: small features too"):
    require_in_half_formats(check.draw.uniform(3, 5, low=1e-4, high=1.6e-4), 1e-12)
with check.property("the gradient is right, and finite in a row of zeros"):
    x, weight = check.draw.normal(4, 6, std=2.0), check.draw.normal(6)
    x[check.draw.integer(0, 4)] = 0.0
    require_gradient("x", x, weight)
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("half formats: rows of every size"):
    sizes = torch.exp2(torch.tensor([5.0, -13.0, 12.0, -6.0]))[:, None]
    require_in_half_formats(check.draw.uniform(4, 7, low=1.0, high=1.5) * sizes, 1e-10)
with check.property("the gradient by the weight, and in float64"):
    require_gradient("the weight", check.draw.normal(5, 3, 4), check.draw.normal(4))
    x, weight = (check.draw.normal(*sizes, dtype=torch.float64) for sizes in ((2, 7), (7,)))
    require_gradient("x", x, weight)
### END HIDDEN TESTS
check.score()

# %% [markdown]
r"""
## How far off are the statistics of a batch?

A batch is a sample, and its mean and variance are estimates. For $n$ independent values the mean is typically off by
$\sigma / \sqrt{n}$. A hidden unit gives one value per picture. A channel of 8 × 8 positions gives 64, and seems better off. But are these
independent? Draw 2,000 batches of each size, of a hidden unit, of the pictures themselves, and of differently exposed pictures.
If the mean of a single picture is off by $e$ standard deviations, its values count as $1 / e^2$ independent ones.
"""

# %%
generator = torch.Generator().manual_seed(0)
unit = pixels @ torch.randn(64, generator=torch.Generator().manual_seed(1)).double()
unit = (unit - unit.mean()) / unit.std(correction=0)
channel = digit_images[:, None].double() / 16
exposures = 2 ** (4 * torch.rand(len(channel), 1, 1, 1, generator=generator).double() - 2)
kinds = {
    "a unit, 1 value per picture": unit[:, None],
    "a channel, 64 values per picture": channel.flatten(1),
    "the same, each picture exposed differently": (channel * exposures).flatten(1),
}
batch_sizes = [1, 2, 4, 8, 16, 32, 64, 128, 256]


def errors_of_batch_mean(values):
    """Return, for each batch size, by how many standard deviations the mean is typically off."""
    errors = []
    for size in batch_sizes:
        chosen = torch.randint(len(values), (2000, size), generator=generator)
        means = values.mean(dim=1)[chosen].mean(dim=1)
        errors.append((means - values.mean()).square().mean().sqrt() / values.std(correction=0))
    return torch.stack(errors)


# %% folded="Plot: The typical error of a batch's mean"
figure, axes = new_figure()
for (name, values), marker in zip(kinds.items(), "os^", strict=True):
    errors = errors_of_batch_mean(values)
    axes.loglog(batch_sizes, errors, f"{marker}-", label=name)
    print(f"{name}: counts as {1 / errors[0].item() ** 2:.0f}")
for count, style in ((1, "--"), (64, ":")):
    line = [(count * size) ** -0.5 for size in batch_sizes]
    label = f"{count} independent value{'s' if count > 1 else ''} per picture"
    axes.loglog(batch_sizes, line, style, color=COLORS["black"], linewidth=1, label=label)
axes.set(
    title="The typical error of a batch's mean",
    xlabel="pictures in the batch",
    ylabel="error (standard deviations)",
)
axes.set_xticks(batch_sizes, [str(size) for size in batch_sizes])
axes.minorticks_off()
axes.legend(fontsize=8)
for size in (4, 16, 64, 256):
    chosen = torch.randint(len(unit), (2000, size), generator=generator)
    variances = unit[chosen].var(dim=1, correction=1)  # the variance of the whole unit is 1
    error = (variances - 1).square().mean().sqrt().item()
    print(f"variance of a unit in batches of {size}: off by {error:.0%}")
show(
    figure,
    alt="Error of the mean against batch size, both axes logarithmic: three parallel falling lines. A unit with one value per "
    "picture lies on the dashed line for one independent value. A channel with 64 values per picture lies a little below the "
    "dotted line for 64. The same channel with a different exposure for each picture lies between the two.",
)

# %% [markdown]
r"""
All lines fall with $\sqrt{n}$: half the error takes four times the batch. The variance does the same. How high a line lies depends on the
pictures. The digits all have about the same ink, so the mean of one picture is nearly that of all, and its 64 values are worth 130
independent ones. But let each picture be exposed differently, by a factor between 1/4 and 4, and they are worth 5. What a whole picture
has in common does not average out within the picture, however many pixels it has. Remember that when we come to scans.

Slide the size of the batch. One picture stays the same, and the hidden unit of the last figure gives it the value 1.5. It is put into 400
different batches. On the right is what BatchNorm makes of that value.
"""

# %%
picture = int((unit - 1.5).abs().argmin())


def put_into_batches(size):
    """Return means and variances of 400 batches with the picture in them, and its normalized values."""
    generator = torch.Generator().manual_seed(0)
    others = unit[torch.randint(len(unit), (400, int(size) - 1), generator=generator)]
    batches = torch.cat([unit[picture].expand(400, 1), others], dim=1)
    variances, means = torch.var_mean(batches, dim=1, correction=0)
    return means, variances, (unit[picture] - means) / (variances + 1e-5).sqrt()


for size in (2, 4, 64, 256):
    values = put_into_batches(size)[2]
    low, high = values.quantile(0.05).item(), values.quantile(0.95).item()
    print(f"in batches of {size}: nine times in ten between {low:.1f} and {high:.1f}")


# %% tags=["nbval-ignore-output"] folded="Plot: Statistics of the batches"
def draw_batches(size):
    means, variances, seen = put_into_batches(size)
    figure, (left, right) = new_figure(1, 2, width_ratios=(1, 1.3))
    left.plot(means, variances.sqrt(), ".", markersize=4, label="one batch")
    left.plot([0], [1], "*", color=COLORS["vermilion"], markersize=13, label="all pictures")
    left.set(title="Statistics of the batches", xlabel="mean", ylabel="standard deviation")
    left.set(xlim=(-1.2, 1.8), ylim=(0, 2.7))
    left.legend(fontsize=8, loc="upper left", ncols=2)
    bins = [k / 10 - 3.05 for k in range(62)]
    right.hist(seen.clamp(-3, 3), bins=bins, color=COLORS["blue"])
    right.axvline(
        unit[picture].item(), color=COLORS["vermilion"], linestyle="--", label="in eval mode"
    )
    right.set(title="The same picture, normalized", xlabel="value", ylabel="batches", xlim=(-3, 3))
    right.legend(fontsize=8, loc="upper left")
    return figure


play(
    draw_batches,
    label="pictures in the batch",
    values=[2, 3, 4, 6, 8, 16, 32, 64, 128, 256],
    start=4,
    alt="Left: means and standard deviations of 400 batches of 4, widely scattered around the true point. Right: a "
    "histogram of what becomes of one picture's value, spread from below 0 to about 1.7, which is the most that a batch "
    "of four allows; the value in eval mode, 1.5, lies near the right end.",
)

# %% [markdown]
r"""
At 2 there are hardly any values but $-1$ and $1$: the failure of the beginning. In a batch of $n$ no value can come
out larger than $\sqrt{n - 1}$. (If one value lies $d$ from the mean, the others lie $-d$ from it together, so
$\sigma^2 \ge \frac{1}{n} (d^2 + \frac{d^2}{n - 1}) = \frac{d^2}{n - 1}$.) From 64 on the histogram is narrow around the dashed line, and
then training and eval mode mean nearly the same.

A little of this noise can help, as dropout does. That is an observation, and how much is good depends on the task. Wu and
Johnson (2021) collect what else goes wrong when batches are not what one takes them for.
"""

# %% [markdown]
r"""
## Training and evaluation: two functions in one module

A single picture must be predicted without a batch. So BatchNorm keeps running averages, and in eval mode it
uses them. After each training batch:

$$\text{running} \leftarrow (1 - \text{momentum}) \cdot \text{running} + \text{momentum} \cdot \text{batch}$$

with a momentum of 0.1 in PyTorch. Four numbers show what is stored.
"""

# %%
layer = nn.BatchNorm1d(1)
numbers = torch.tensor([1.0, 2.0, 3.0, 6.0])[:, None]
output = layer(numbers)
biased, unbiased = numbers.var(correction=0).item(), numbers.var(correction=1).item()
print(f"mean {numbers.mean().item()}, variance {biased} with 4 below, {unbiased:.4f} with 3 below")
print(f"variance of the output: {output.var(correction=0).item():.4f}")
for name, value in layer.state_dict().items():
    print(f"{name:<20}{value.tolist()}")
print(f"0.9 * 1 + 0.1 * {unbiased:.4f} = {0.9 + 0.1 * unbiased:.4f}")

# %% [markdown]
r"""
Three things to notice.

- The batch is normalized with the **biased** variance, 3.5. The running average takes the **unbiased** one, 4.6667. The batch's
  own spread is what must become 1; the running one is an estimate for numbers not yet seen.
- The running averages are *buffers*: they are in the `state_dict`, they move with `.to(...)`, and the optimizer does not
  know them. They start at 0 and 1, whatever the data.
- "Momentum" is the weight of the *new* batch. In Keras it is the weight of the *old* average, 0.99 by default. Whoever copies the number
  from one to the other gets an average that forgets nearly everything at once.

How much do these averages remember? The start's share shrinks by 0.9 in each step. With a momentum of $p$, the batch of $k$ steps ago has the
weight $p (1 - p)^k$. The squares of these weights sum to $p / (2 - p)$, so the noise of single batches is averaged over $(2 - p) / p = 19$ of them.
With batches of 2, that is 38 pictures.
"""


# %%
def running_means(batch_size, steps=150, momentum=0.1):
    generator = torch.Generator().manual_seed(0)
    running, history = 3.0, []  # far off on purpose; the true mean is 0
    for _ in range(steps):
        chosen = torch.randint(len(unit), (batch_size,), generator=generator)
        running = (1 - momentum) * running + momentum * unit[chosen].mean().item()
        history.append(running)
    return history


# %% folded="Plot: A running mean that begins at 3; the true mean is 0"
figure, axes = new_figure()
for size, color, style in ((2, "vermilion", "-"), (64, "blue", "-")):
    axes.plot(
        range(1, 151), running_means(size), style, color=COLORS[color], label=f"batches of {size}"
    )
axes.plot(
    range(1, 151),
    [3 * 0.9**k for k in range(1, 151)],
    ":",
    color=COLORS["black"],
    label="what is left of the 3",
)
axes.axhline(0, color=COLORS["black"], linewidth=0.8)
axes.set(
    title="A running mean that begins at 3; the true mean is 0",
    xlabel="training step",
    ylabel="running mean (standard deviations)",
)
axes.legend()
show(
    figure,
    alt="Running mean against training step. Both curves start near 3 and follow a dotted exponential to 0 within about 50 "
    "steps. With batches of 64 the curve then stays close to 0; with batches of 2 it wanders between about minus 0.3 and 0.2.",
)
wandering = torch.tensor(running_means(2, steps=20_000)[100:]).square().mean().sqrt().item()
print(f"with batches of 2 it is typically off by {wandering:.2f}; 1 / root of 38 is {38**-0.5:.2f}")
print("share of the start:", ", ".join(f"{0.9**k:.2g} after {k} steps" for k in (10, 50, 100)))

# %% [markdown]
"""
One more edge. With one value per channel the variance is 0, and everything would come out as 0. In
training PyTorch refuses; the last, short batch of an epoch is where people meet it.
"""

# %%
try:
    nn.BatchNorm1d(3)(torch.randn(1, 3))
except ValueError as error:
    print("ValueError:", error)
print("in eval mode one picture is fine:", nn.BatchNorm1d(3).eval()(torch.ones(1, 3)).shape)

# %% [markdown] exercise="batch-norm" points=6 minutes=35 difficulty=3
"""
### BatchNorm as a module

Write the class `BatchNorm`, for inputs of shape (pictures, channels, ...) with any number of axes behind, none included.

- `x` is float32 or float64. In training there are at least two values per channel.
- `BatchNorm(channels, eps=1e-5, momentum=0.1)` has the *parameters* `weight` (ones) and `bias` (zeros), and the *buffers*
  `running_mean` (zeros), `running_var` (ones) and `num_batches_tracked` (an int64 tensor without dimensions, 0). The
  first four have the shape (channels,).
- **In training** it normalizes with the batch's mean and biased variance, as precisely as `normalize` beside a mean of ten thousand.
  It updates the buffers: the running average of the mean and of the unbiased variance, and one more batch counted.
- **In eval mode** it normalizes with the running averages, and updates nothing. In both modes `eps` stands under the root.
- In both it multiplies by the weight and adds the bias, channel by channel. The gradient by the input goes through the batch's
  mean and variance. No graph is kept in the buffers.
- Its `state_dict` can be loaded into torch's own BatchNorm and the other way round. `.to(torch.float64)` converts all but the
  counter.
- **Not allowed**: torch's own norms, functions and classes, also to inherit from. The check reads your code for their names; if
  it finds one, nothing else counts.

<!-- hint: Three kinds of attributes: numbers, parameters, buffers. Which of the names above is which, and how does a module learn about the last two? -->
<!-- hint: `self.training` tells the mode. Get mean and variance either from the batch, over axis 0 and all axes from 2 on, or from the buffers. What follows is the same for both: a view of shape (1, channels, 1, ...) for each of the four, and the formula. -->
<!-- hint: Update under `torch.no_grad()` and in place: `old.lerp_(new, momentum)` is the formula of the running averages. The unbiased variance is the biased one times m / (m - 1), where m is the number of values per channel. -->
"""


# %% solution="batch-norm"
class BatchNorm(nn.Module):
    """BatchNorm for inputs of shape (pictures, channels, ...)."""

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
    """Read the code for torch's own norms, functions and classes."""
    kinds = ("batch", "group", "layer", "instance")
    names = [f"*{kind}{between}norm*" for kind in (*kinds, "rms") for between in ("", "_")]
    check.written_without(*names, "*norm*base*", "*normalization*", "*transformer*")


def backpropagated_together(channels, *batches):
    """Call it on one batch after another, in the modes given, and backpropagate through all."""
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
    for place in reversed(range(len(batches))):
        mode = {"train": "training", "eval": "eval mode"}[batches[place][0]]
        what = f"the gradient by batch {place}, in {mode}, backpropagated with the other ones,"
        slope = expected[place].float()
        check.close(slopes[place], slope, rtol=1e-3, atol=1e-4, what=what)
    output = reference(last, training=batches[-1][0] == "train")
    check.close(got, output.float(), rtol=1e-3, atol=1e-4)


def same_as_torchs(torchs, x, y):
    """Load the state of torch's own module in float64, train on x, and call it on y in eval mode."""
    channels, torchs = x.shape[1], torchs.double()
    torchs(x)
    before = {name: value.clone() for name, value in torchs.state_dict().items()}
    options = {"eps": torchs.eps, "momentum": torchs.momentum}
    steps = [("to", "float64"), ("load", before), ("call", x), ("state",), ("eval",), ("call", y)]
    _, _, *got = check.call(probes.module, BatchNorm, channels, **options, steps=steps)
    for what, seen, expected in (
        ("the output in training", got[0], torchs(x).detach()),
        ("the state", got[1], dict(torchs.state_dict())),
        ("the output in eval mode", got[3], torchs.eval()(y).detach()),
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
with check.property("training updates the running averages, with the unbiased variance", weight=2):
    batches = [check.draw.normal(rows, 4, 3, mean=1.0, std=2.0) for rows in (5, 2)]
    steps = [*(("call", batch) for batch in batches), ("state",)]
    *_, state = check.call(probes.module, BatchNorm, 4, steps=steps)
    reference = ByDefinition(fresh_state(4))
    for batch in batches:
        reference(batch)
    check.close(state, reference.state_as(torch.float32), rtol=1e-4, what="the state")
with check.property("eval mode uses the running averages, and updates nothing", weight=2):
    before, x = drawn_state(5), check.draw.normal(3, 5, 2, 4, mean=-1.0)
    steps = [("load", before), ("eval",), ("call", x), ("state",)]
    _, _, got, state = check.call(probes.module, BatchNorm, 5, steps=steps)
    check.close(got, ByDefinition(before)(x, training=False).float(), rtol=1e-3, atol=1e-3)
    check.equal(state, before, what="the state after the call")
with check.property("works for vectors, sequences and volumes, with weight and bias"):
    for sizes in ((6, 4), (3, 4, 5), (2, 4, 3, 6, 5)):
        before, x = drawn_state(4), check.draw.normal(*sizes)
        steps = [("load", before), ("call", x), ("eval",), ("load", before), ("call", x)]
        _, got, _, _, got_in_eval = check.call(probes.module, BatchNorm, 4, steps=steps)
        name = f"shape {sizes}, in "
        expected = ByDefinition(before)(x).float()
        check.close(got, expected, rtol=1e-3, atol=1e-3, what=name + "training")
        expected = ByDefinition(before)(x, training=False).float()
        check.close(got_in_eval, expected, rtol=1e-3, atol=1e-3, what=name + "eval mode")
with check.property("eps stands under the root, and is taken; momentum is taken, too"):
    x = check.draw.normal(5, 4, 3, std=3e-3)
    small = drawn_state(4) | {"running_var": check.draw.uniform(4, low=1e-5, high=9e-5)}
    for given in ({}, {"eps": 1e-2, "momentum": 0.4}):
        steps, reference = [("call", x), ("state",)], ByDefinition(fresh_state(4), **given)
        got, state = check.call(probes.module, BatchNorm, 4, **given, steps=steps)
        name = f"with {given or 'the usual ones'}, in "
        check.close(got, reference(x).float(), rtol=1e-3, atol=1e-4, what=name + "training")
        check.close(state, reference.state_as(torch.float32), rtol=1e-4, what="the state")
        steps, reference = [("load", small), ("eval",), ("call", x)], ByDefinition(small, **given)
        *_, got = check.call(probes.module, BatchNorm, 4, **given, steps=steps)
        expected = reference(x, training=False).float()
        check.close(got, expected, rtol=1e-3, atol=1e-3, what=name + "eval mode")
with check.property("in training, a mean of ten thousand leaves the digits of the rest"):
    x = check.draw.normal(6, 3, 5, mean=1e4)
    (got,) = check.call(probes.module, BatchNorm, 3, steps=[("call", x)])
    check.close(got, ByDefinition(fresh_state(3))(x).float(), rtol=0.0, atol=5e-3)
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
    check.close(got["gradient"], by_x, rtol=1e-6, atol=1e-8, what="the gradient by x")
    expected = {"weight": by_weight, "bias": by_bias}
    check.close(got["parameters"], expected, rtol=1e-6, atol=1e-8, what="by the parameters")
with check.property("no graph is kept in the buffers; gradients in eval mode"):
    x, y = check.draw.normal(5, 2, 3), check.draw.normal(4, 2, 3, std=2.0)
    backpropagated_together(2, ("train", x), ("eval", y))
with check.property("takes torch's own state; float64 stays float64"):
    x, y = (check.draw.normal(5, 6, 2, std=0.5, dtype=torch.float64) for _ in range(2))
    same_as_torchs(nn.BatchNorm1d(6, eps=0.1, momentum=0.3), x, y)
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("gradients through several batches in training, and one in eval mode"):
    batches = [check.draw.normal(rows, 3, 4) for rows in (5, 2, 6)]
    backpropagated_together(3, *zip(("train", "train", "eval"), batches, strict=True))
with check.property("torch's own state for pictures, in float64"):
    x, y = (check.draw.normal(4, 3, 5, 2, mean=1.0, dtype=torch.float64) for _ in range(2))
    eps, momentum = check.draw.number(1e-3, 1e-2), check.draw.number(0.1, 0.9)
    same_as_torchs(nn.BatchNorm2d(3, eps=eps, momentum=momentum), x, y)
### END HIDDEN TESTS
check.score()

# %% [markdown]
r"""
## Folding: the norm that costs nothing

In eval mode the running averages are constants. Then BatchNorm is, for each channel, one multiplication and one
addition:

$$y = \gamma \, \frac{z - \mu}{\sqrt{\sigma^2 + \epsilon}} + \beta = s z + (\beta - s \mu) \qquad\text{with}\qquad s = \frac{\gamma}{\sqrt{\sigma^2 + \epsilon}}$$

And if $z$ comes from a convolution, $z = w * x + b$, which is linear as well, the two are one convolution:

$$y = (s w) * x + (s b + \beta - s \mu)$$

So before a network is used, its BatchNorms can be *folded* into the convolutions before them, and they are gone. PyTorch
has a function for it. Here is a small network, trained on the digits and folded.
"""


# %%
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


def fold_network(network):
    fuse = nn.utils.fuse_conv_bn_eval
    first, second = fuse(network[0], network[1]), fuse(network[3], network[4])
    return nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), *network[6:]).eval()


convolutions = train_convolutions()
test_pictures = digit_images[test_set, None] / 16
fold_errors = {}
for dtype in (torch.float32, torch.float64):
    network = copy.deepcopy(convolutions).to(dtype)
    with torch.no_grad():
        before = network(test_pictures.to(dtype))
        after = fold_network(network)(test_pictures.to(dtype))
    same = bool((before.argmax(dim=1) == after.argmax(dim=1)).all())
    fold_errors[dtype] = ((before - after).abs().max() / before.abs().max()).item()
    roundings = fold_errors[dtype] / torch.finfo(dtype).eps
    print(
        f"{dtype}: the same digit for all pictures: {same}; within 20 roundings: {roundings < 20}"
    )
print(f"layers before: {len(convolutions)}, after: {len(fold_network(convolutions))}")

# %% tags=["nbval-ignore-output", "recorded"] folded="Measure: the time that folding saves"
device = "cuda" if torch.cuda.is_available() else "cpu"
with torch.no_grad():
    for dtype, error in fold_errors.items():
        print(f"largest difference, relative to the largest score, {dtype}: {error:.0e}")
    pictures = test_pictures.repeat(1, 1, 4, 4).to(device)  # large ones, and no linear layer
    unfolded, folded = convolutions[:6].to(device), fold_network(convolutions)[:4].to(device)
    ratio = time_ratio(lambda: unfolded(pictures), lambda: folded(pictures))
    convolutions.cpu()
print(f"time with BatchNorm, in terms of without, on {device}: {ratio}")
recorded("folded-batch-norm")

# %% [markdown]
"""
Folding changes the network's output by rounding and nothing else, in either format. How much time it saves depends on the machine; if the
interval includes 1, this run shows no gain. It is one of the reasons for which BatchNorm is still the norm of small and fast vision networks:
at inference the others have to compute statistics, and it can be gone.
"""

# %% [markdown] exercise="fold-batch-norm" points=4 minutes=20 difficulty=2
"""
### Fold a BatchNorm into a convolution

Write `fold_batch_norm(conv_weight, conv_bias, weight, bias, running_mean, running_var, eps)`: the weight and the bias of the one
convolution that does what convolution and BatchNorm did, in eval mode.

- **In**: `conv_weight`, of shape (out channels, ...) with one, two, three or four axes behind: of a linear layer, or of a
  convolution over lines, pictures or volumes; `conv_bias`, of shape (out channels,) or None; the BatchNorm's `weight`, `bias`,
  `running_mean` and `running_var`, of the same shape; `eps`, a number.
- **Out**: a tuple of two tensors, the new weight in the shape of `conv_weight` and the new bias of shape (out channels,), of the
  dtype of `conv_weight`.
- A channel that has died has a `running_var` of 0, and `eps` is added under the root in all channels. What was given in stays as
  it was.
- **Not allowed**: torch's own functions for it, the `fuse_…` ones. If your code names one, nothing else counts.

<!-- hint: The formula above has all of it. Which of its factors has one entry per out channel, and along which axis of the convolution's weight do these channels lie? -->
<!-- hint: Compute s, of shape (out channels,). It multiplies axis 0 of the weight, however many axes follow. A bias that is None counts as zeros. -->
<!-- hint: `s.view(-1, *[1] * (conv_weight.ndim - 1))` has the right shape for the product. The new bias is s times (old bias minus running_mean) plus the BatchNorm's bias. -->
"""


# %% solution="fold-batch-norm"
def fold_batch_norm(conv_weight, conv_bias, weight, bias, running_mean, running_var, eps):
    """Return the weight and the bias of the convolution that includes the BatchNorm behind it."""
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


def require_folded(got, layer, convolve, x, rtol=1e-4, atol=1e-4):
    check.true(type(got) is tuple and len(got) == 2, "not a tuple of two came back")
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


with check.property("one convolution does what both did, without torch's own functions for it"):
    require_same_output(drawn_layer(5, 3, 2, 4), over_pictures, check.draw.normal(2, 3, 7, 6))
    check.written_without("*fuse*", "*fusion*")
with check.property("a convolution without bias"):
    layer = drawn_layer(4, 2, 3, 5) | {"conv_bias": None}
    require_same_output(layer, over_pictures, check.draw.normal(3, 2, 6, 7))
with check.property("one channel's running_var is 0, one's is as small as eps", weight=2):
    layer = drawn_layer(6, 2, 3, 4) | {"eps": 1e-3}
    special = check.draw.permutation(6)[:2]
    layer["running_var"][special] = torch.tensor([0.0, 1e-3])
    layer["weight"][special] = check.draw.uniform(2, low=0.5, high=2.0)
    require_same_output(layer, over_pictures, check.draw.normal(3, 2, 6, 7), atol=1e-3)
with check.property("linear layers, and convolutions over lines and volumes", weight=2):
    require_same_output(drawn_layer(4, 3), functional.linear, check.draw.normal(5, 3))
    require_same_output(drawn_layer(3, 4, 2), functional.conv1d, check.draw.normal(2, 4, 6))
    volumes = check.draw.normal(2, 3, 7, 6, 5)
    require_same_output(drawn_layer(6, 3, 2, 4, 5), functional.conv3d, volumes)
with check.property("a layer in float64 is folded with all its digits"):
    layer = drawn_layer(3, 5, 2, 4, dtype=torch.float64)
    x = check.draw.normal(2, 5, 6, 7, dtype=torch.float64)
    require_same_output(layer, over_pictures, x, rtol=1e-9, atol=1e-9)
with check.property("what was given in stays as it was", weight=0.5):
    layer = drawn_layer(4, check.draw.integer(5, 9), 2, 3)
    given = list(layer.values())
    seen = check.call(probes.after_call, fold_batch_norm, *given)
    x = check.draw.normal(2, layer["conv_weight"].shape[1], 10, 11)
    require_folded(seen["output"], layer, over_pictures, x)
    for name, old, new in zip(layer, given, seen["arguments"], strict=True):
        check.equal(new, old, what=f"{name} after the call")
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
## Volumes: when the batch is two

Medical images in three dimensions are where batches are smallest. What a network saves for a whole scan does not fit into memory, so one cuts cubes
out of it, *patches*. Memory then buys either larger patches or more of them. How much does each cost? Count what autograd saves
for a small block: two 3-D convolutions of 8 channels, each with a norm and a ReLU.
"""


# %%
def block(norm):
    return nn.Sequential(
        *(nn.Conv3d(1, 8, 3, padding=1), norm, nn.ReLU()),
        *(nn.Conv3d(8, 8, 3, padding=1), copy.deepcopy(norm), nn.ReLU()),
    )


def mebibytes(network, width, batch_size):
    volume = torch.zeros(batch_size, 1, width, width, width)
    counted = saved_bytes(lambda: network(volume), except_for=network.parameters())
    return counted.bytes / 2**20


for name, norm in (
    ("no norm", nn.Identity()),
    ("BatchNorm3d", nn.BatchNorm3d(8)),
    ("InstanceNorm3d", nn.InstanceNorm3d(8)),
):
    print(f"{name:<16}one patch of 32 × 32 × 32: {mebibytes(block(norm), 32, 1):.1f} MiB")

# %%
widths = range(16, 57, 2)
network, budget = block(nn.InstanceNorm3d(8)), 20
measured = {size: [mebibytes(network, width, size) for width in widths] for size in (1, 2, 4)}

# %% folded="Plot: What autograd saves for one block of a 3-D network"
figure, axes = new_figure()
for (size, values), marker in zip(measured.items(), "os^", strict=True):
    axes.plot(widths, values, f"{marker}-", markevery=4, label=f"batch of {size}")
axes.axhline(budget, linestyle="--", color=COLORS["black"], label=f"a budget of {budget} MiB")
axes.set(
    title="What autograd saves for one block of a 3-D network",
    xlabel="width of the patch (voxels)",
    ylabel="saved (MiB)",
    ylim=(0, 60),
)
axes.set_xticks(widths[::4])
axes.legend()
show(
    figure,
    alt="Saved mebibytes against patch width from 16 to 56 for batches of 1, 2 and 4: three curves that grow with the cube of the "
    "width, each twice the one before. A dashed line marks a budget of 20; a batch of 1 crosses it behind 54, a batch of 2 "
    "behind 42, a batch of 4 behind 34.",
)
for size, values in measured.items():
    width = max(w for w, value in zip(widths, values, strict=True) if value <= budget)
    share = (width / 128) ** 3
    print(f"batch of {size}: patches of {width}, which see {share:.1%} of a volume 128 wide")

# %% [markdown]
r"""
Two facts. A norm nearly doubles what is saved: it needs its own input for the way back, besides the output that the ReLU keeps. And bytes
grow with batch × width³, so a patch of twice the width costs as much as a batch eight times as large.

What to do with that is a rule of practice. nnU-Net, which has won many segmentation challenges (Isensee et al. 2021, *Methods*), gives the
patch priority: it starts from patches as large as the typical scan and shrinks them until a batch of **two** fits, and only if the whole
scan fits does the batch grow. A larger patch lets the network see what surrounds a voxel. A batch of one
makes gradients noisier still. The norm that goes with it is InstanceNorm. Here is the reason, on invented scans. MRI intensities have no unit:
each scanner, each day has its own gain. (Scaling each scan before the network takes that out of its input; differences between patches, and
what the layers make of them, remain.) One patient's ball is normalized beside three different partners.
"""


# %%
def make_scan(gain, seed):
    generator = torch.Generator().manual_seed(seed)
    axis = torch.linspace(-1, 1, 24)
    radius = (axis[:, None, None] ** 2 + axis[:, None] ** 2 + axis**2).sqrt()
    ball = (radius < 0.6).float()
    return gain * (0.3 + ball + 0.1 * torch.randn(24, 24, 24, generator=generator)), ball.bool()


patient, ball = make_scan(gain=1.0, seed=0)
print(f"{'gain of the partner':<22}{'BatchNorm':>22}{'InstanceNorm':>22}")
print(f"{'':<22}" + f"{'ball':>14}{'rest':>8}" * 2)
for gain in (0.1, 1.0, 10.0):
    batch = torch.stack([patient, make_scan(gain, seed=1)[0]])[:, None]
    row = ""
    for normalized in (batch_norm(batch), functional.instance_norm(batch)):
        own = normalized[0, 0]
        row += f"{own[ball].mean().item():>14.2f}{own[~ball].mean().item():>8.2f}"
    print(f"{gain:<22g}{row}")

# %% [markdown]
r"""
Beside a partner with ten times the gain, BatchNorm leaves about a tenth of the difference between the patient's ball and the rest. With InstanceNorm the partner does
not exist.

It has a price, too. InstanceNorm forgets how bright and how varied a patch was. A patch of nothing but noise comes out as loud as one with
an organ in it. Where the absolute number means something, as in CT, that is information thrown away; and in a layer with a
single position per channel there is nothing left to normalize: PyTorch refuses.
"""

# %% [markdown]
r"""
## Which norm for which job

Forget the names for a moment. For each axis of the tensor there is one question: shall differences along it *stay*, or shall they *not
matter*?

- An axis that is **normalized over** keeps its differences. All its entries are shifted and scaled by the same numbers, so what was
  larger stays larger.
- An axis that is **not** normalized over loses them: each position has statistics of its own, and comes out with mean 0 and
  variance 1, however large and however varied it was.

The digits show it. Make one picture brighter than the others, and ask whether that is still to be seen:
"""

# %%
brighter = channel[:4].clone()
brighter[0] += 5.0
for name, normalized in (
    ("BatchNorm, over (0, 2, 3)", functional.batch_norm(brighter, None, None, training=True)),
    ("InstanceNorm, over (2, 3)", functional.instance_norm(brighter)),
):
    means = [round(value, 1) + 0.0 for value in normalized.mean(dim=(1, 2, 3)).tolist()]
    print(f"{name:<28}means of the four pictures: {means}")

# %% [markdown] exercise="axes-for-a-job" points=3 minutes=15 difficulty=2
"""
### Choose the axes for a job

Write `axes_for(job)`: for the name of a job, a tuple of the axes to normalize over. Their order does not matter, negative ones count
from the back. These are the jobs:

| job | tensor | what shall stay, what shall not matter |
| --- | --- | --- |
| `"photos"` | (photo, channel, row, column) | In each channel, a bright photo stays brighter than a dark one, and a bright spot brighter than a dark one. In which unit a channel counts does not matter. |
| `"style"` | (photo, channel, row, column) | A filter of color or contrast over a photo changes each of its channels by a factor and a shift. It must not matter. The drawing within a channel stays. |
| `"text"` | (text, token, feature) | What a model makes of a token must not depend on any other token, so that it can write one after another. The features of a token stay distinct. |
| `"exposure"` | (photo, channel, row, column) | How long a photo was exposed, a factor for all of it, must not matter. Its colors stay: a channel that was stronger than another is so afterward. Its bright and dark spots stay, too. |
| `"volumes"` | (patient, channel, depth, row, column) | The partner in a batch of two must not matter. Each channel was recorded with a gain of its own for each patient: it must not matter either. The anatomy within a channel stays. |
| `"sensors"` | (run, time, sensor) | One sensor counts in volts, one in degrees: that must not matter. Runs stay comparable with each other, and so do times. |

- **In**: one of the six names. **Out**: a tuple of integers.

<!-- hint: Take the job's axes one by one, and ask of each: are differences along it to stay? Then normalize over it. -->
<!-- hint: A factor "for each patient and each channel" names two axes that are not normalized over. "Any other token" names the axis of tokens, and that of texts as well. -->
<!-- hint: Photos are BatchNorm2d's case. For the sensors, look where the channel stands: here the axis that has its own statistics is the last one. -->
"""


# %% solution="axes-for-a-job"
def axes_for(job):
    """Return the axes to normalize over for the ``job``, a tuple of integers."""
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


def try_job(job, names, sizes, stays):
    """Ask for the job's axes, normalize over them, and look along every axis whether a difference stays."""
    got = check.call(axes_for, job)
    check.true(type(got) is tuple, f"{type(got).__name__} came back, expected a tuple")
    whole = all(type(axis) is int and -len(sizes) <= axis < len(sizes) for axis in got)
    check.true(whole, f"axes of a tensor with {len(sizes)} axes are integers below {len(sizes)}")
    over = tuple({axis % len(sizes) for axis in got})
    check.true(len(over) == len(got), "an axis stands in it twice")
    check.true(len(over) > 0, "there is no axis in it: every entry would become 0")
    x = check.draw.normal(*sizes, dtype=torch.float64)
    for axis, name in enumerate(names):
        larger = x.transpose(0, axis).clone()
        larger[0] = 8.0 * larger[0] + 50.0
        larger = larger.transpose(0, axis)
        variance, mean = torch.var_mean(larger, dim=over, correction=0, keepdim=True)
        seen = ((larger - mean) / variance.sqrt()).transpose(0, axis)
        gap = (seen[0].mean() - seen[1:].mean()).item()
        told = f"{name} 0 was made larger than the others; normalized over your axes, it "
        if axis in stays:
            check.true(abs(gap) > 0.5, told + "is like the others, and should have stayed larger")
        else:
            check.true(
                abs(gap) < 1e-6, told + f"is still {gap:.1f} larger, which should not matter"
            )


with check.property("photos: the channel's unit does not matter, bright photos and spots stay"):
    try_job("photos", ("photo", "channel", "row", "column"), (6, 3, 5, 4), {0, 2, 3})
with check.property("style: a photo's color and contrast do not matter, the drawing stays"):
    try_job("style", ("photo", "channel", "row", "column"), (5, 3, 4, 7), {2, 3})
with check.property("text: no other token matters, the features stay"):
    try_job("text", ("text", "token", "feature"), (3, 5, 8), {2})
with check.property("exposure: a photo's exposure does not matter, its colors stay"):
    try_job("exposure", ("photo", "channel", "row", "column"), (4, 3, 6, 5), {1, 2, 3})
with check.property("volumes: neither the partner nor a channel's gain matters, the anatomy stays"):
    names = ("patient", "channel", "depth", "row", "column")
    try_job("volumes", names, (2, 3, 6, 5, 4), {2, 3, 4})
with check.property("sensors: the unit does not matter, runs and times stay comparable"):
    try_job("sensors", ("run", "time", "sensor"), (4, 7, 3), {0, 1})
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("the jobs once more, in tensors of other sizes"):
    pictures = "photo", "channel", "row", "column"
    try_job("photos", pictures, (3, 5, 4, 6), {0, 2, 3})
    try_job("style", pictures, (4, 6, 5, 3), {2, 3})
    try_job("text", ("text", "token", "feature"), (5, 3, 7), {2})
    try_job("exposure", pictures, (5, 4, 3, 7), {1, 2, 3})
    names = ("patient", "channel", "depth", "row", "column")
    try_job("volumes", names, (2, 4, 5, 3, 6), {2, 3, 4})
    try_job("sensors", ("run", "time", "sensor"), (7, 5, 3), {0, 1})
### END HIDDEN TESTS
check.score()

# %% [markdown]
"""
<details><summary>The six jobs by the names of their norms (open it when you have chosen)</summary>

BatchNorm2d; InstanceNorm2d; LayerNorm over the features, or RMSNorm; LayerNorm over (C, H, W) or GroupNorm with one group;
InstanceNorm3d; and BatchNorm1d, with the axes moved first, since `nn.BatchNorm1d` takes (run, sensor, time). If a tensor happens to have as
many times as sensors, it normalizes the wrong axis and says nothing.
</details>
"""

# %% [markdown]
"""
## A backbone that was frozen, and drifted

One more story, and it is a detective's. A network has learned the digits. Its first half, the *backbone*, is to be used for a second
task: the same digits in negative, dark on a bright ground. So the backbone is frozen, by the book: its parameters get no
gradient, and it is put into eval mode, so that its running statistics stay as they are. Only a new head is trained. The old task must
not suffer, since the backbone stays what it was.
"""


# %%
def accuracy_in_eval_mode(network, images, labels):
    network.eval()
    with torch.no_grad():
        right = network(images).argmax(dim=1) == labels
    network.train()
    return right.float().mean().item()


def train_task(network, images, validate, epochs, watch=lambda: None):
    """Train on ``images``; after each epoch validate, then call ``watch``."""
    trainable = [weight for weight in network.parameters() if weight.requires_grad]
    optimizer = torch.optim.Adam(trainable, lr=3e-3)
    for _ in range(epochs):
        for batch in training_set[torch.randperm(len(training_set))].split(50):
            optimizer.zero_grad()
            functional.cross_entropy(network(images[batch]), digit_labels[batch]).backward()
            optimizer.step()
        validate(network, images[test_set], digit_labels[test_set])
        watch()


def tune_second_task(validate):
    """Return the old task's accuracy before, and after each epoch of the new one."""
    torch.manual_seed(0)
    old_images = digit_images.flatten(1) / 16
    backbone = nn.Sequential(nn.Linear(64, 48), nn.BatchNorm1d(48), nn.ReLU())
    old_network = nn.Sequential(backbone, nn.Linear(48, 10))
    train_task(old_network, old_images, accuracy_in_eval_mode, epochs=4)

    backbone.requires_grad_(False)
    new_network = nn.Sequential(backbone, nn.Linear(48, 10))
    new_network.train()
    backbone.eval()
    kept, history = copy.deepcopy(old_network).eval(), []

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


history = tune_second_task(accuracy_in_eval_mode)
print("the old network gets nine in ten right:", [value > 0.9 for value in history])
print("it gets less than half right:          ", [value < 0.5 for value in history])

# %% tags=["nbval-ignore-output"]
print("its accuracy, before and after each epoch:", [round(value, 2) for value in history])

# %% [markdown]
"""
The first entry is before the second task, the next is after its first epoch: all is well. Then the old network collapses. Every
parameter of it is the same to the last bit, and no line of the loop writes into the backbone.

You have the tools. `state_dict` holds more than parameters, and each module knows its mode.
"""

# %% [markdown] exercise="bug-hunt-frozen-backbone" points=4 minutes=20 difficulty=2
"""
### Bug hunt: a frozen backbone that drifts

Something above undoes the freezing. Find out, in cells of your own: what of the backbone changes, and when for the first time? Then write
`validate(network, images, labels)`.

- **In**: `network`, an `nn.Module` with any modules inside, some of them in training mode, some in eval mode; `images`, a batch for it; `labels`,
  an int64 tensor with the right class of each.
- **Out**: the share of images that the network gets right, a Python float. All of the network is in eval mode while that is computed.
- Afterward the network is as it was: its parameters, its buffers, and the mode of *every* module in it.

When it is written, run `tune_second_task(validate)` in a cell of your own, with `validate` in the place of `accuracy_in_eval_mode`: the
accuracy of the old network should stay what it was.

<!-- hint: `network.train()` is said to one module. What does it do to the modules inside, and what had the owner of the network told some of them before? -->
<!-- hint: One flag for the whole network cannot hold what was. Each module inside has a flag of its own, and each may have been in another mode. -->
<!-- hint: `network.modules()` gives all of them, the network itself included. Note every module's `training` before eval, and set it again afterward, flag by flag: `train(mode)` would reach into the modules inside, also into those that two parts share. -->
"""


# %% solution="bug-hunt-frozen-backbone"
def validate(network, images, labels):
    """Return the share of ``images`` that ``network`` gets right in eval mode, and leave it as it was."""
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
# In the order of network.modules(): the network, the first part and its three, the second, the head.
all_training = [True] * 10
backbone_frozen = [True, False, False, False, False, True, True, True, True, True]
one_norm_frozen = [True, True, True, True, True, True, True, False, True, True]
mixed_up = [False, True, True, False, True, False, False, True, False, True]


def drawn_network(layers):
    network = nn.Sequential(
        *(nn.Sequential(*map(make, part)) for part in layers[:2]), make(layers[2])
    )
    state = {}
    for name, value in network.state_dict().items():
        if name.endswith("num_batches_tracked"):
            state[name] = torch.tensor(check.draw.integer(5, 50))
        elif name.endswith("running_var"):
            state[name] = check.draw.uniform(*value.shape, low=0.3, high=3.0)
        else:
            state[name] = check.draw.normal(*value.shape)
    network.load_state_dict(state)
    return network.eval(), state


def make(layer):
    return getattr(nn, layer[0])(*layer[1:])


def require_sound_validation(modes, rows=300):
    images, most = check.draw.normal(rows, 5, mean=1.0), rows
    while most > 0.7 * rows:  # a network that tells several classes apart
        network, state = drawn_network(layers)
        labels = network(images).argmax(dim=1)
        most = int(labels.bincount().max())
    wrong = check.draw.permutation(rows)[: check.draw.integer(5, rows // 10)]
    labels[wrong] = (labels[wrong] + 1) % 4
    accuracy = 1 - len(wrong) / rows
    # Afterwards the network learns from another batch: its modes and its state show in that.
    inputs, slope = check.draw.normal(50, 5), check.draw.normal(50, 4)
    then = {"inputs": inputs, "slope": slope, "seed": check.draw.integer(0, 2**31)}
    given = {"state": state, "training": modes}
    got = check.call(probes.network_then_trained, validate, layers, images, labels, **then, **given)
    check.close(got["output"], accuracy, atol=1e-6, what="the accuracy")
    for module, mode in zip(network.modules(), modes, strict=True):
        module.training = mode
    output = check.with_seed(then["seed"], network, inputs)
    (output * slope).sum().backward()
    what = "what the network makes of another batch afterwards, each module in its own mode"
    check.close(got["next"], output.detach(), rtol=1e-3, atol=1e-3, what=what)
    expected = dict(network.state_dict())
    for name, weight in network.named_parameters():
        expected[name] = (weight - 0.5 * weight.grad).detach()
    what = "its state, once it has learned from that batch"
    check.close(got["state"], expected, rtol=1e-3, atol=1e-2, what=what)
    return images, labels, given, accuracy


with check.property("the accuracy in eval mode; a network in training is so afterward"):
    require_sound_validation(all_training)
with check.property("a frozen backbone stays in eval mode", weight=2):
    require_sound_validation(backbone_frozen)
with check.property("a single frozen norm stays in eval mode, and its neighbors in training"):
    require_sound_validation(one_norm_frozen)
with check.property("a network in eval mode stays there"):
    require_sound_validation([False] * 10, rows=200)
with check.property("every module has its own mode, those that hold others, too", weight=0.5):
    modes = check.draw.booleans(10).tolist()
    modes[0], modes[1], modes[5] = True, False, True  # of the network and its two parts
    *inputs, given, accuracy = require_sound_validation(modes)
    seen = check.call(probes.network, validate, layers, *inputs, **given)
    check.close(seen["output"], accuracy, atol=1e-6, what="the accuracy")
    check.equal(seen["training"], modes, what="the modules' modes after the call")
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("any mixture of modes comes back as it was"):
    require_sound_validation(mixed_up)
    require_sound_validation([not mode for mode in mixed_up], rows=250)
### END HIDDEN TESTS
check.score()

# %% [markdown]
r"""
<details><summary>What it was (open it when you have found it)</summary>

`network.train()` reaches every module inside, the frozen backbone too. So from the second epoch on its BatchNorm normalizes with the batch and
moves its running averages toward the new task's pictures. Parameters do not change; buffers do. The first epoch is innocent, since no
validation had been run before it.

PyTorch Lightning shipped this in 2020: its validation loop ended in `model.train()`
([issue 2551](https://github.com/Lightning-AI/pytorch-lightning/issues/2551)). People found that layers which they had set to eval mode
with their own hands had new statistics. Since version 2.2 it notes the mode of every submodule and brings it back
([pull request 18951](https://github.com/Lightning-AI/pytorch-lightning/pull/18951)). The half of the mistake that everybody can make is older: `requires_grad_(False)`
alone does not freeze a BatchNorm, because what drifts has no gradient
([pytorch issue 86590](https://github.com/pytorch/pytorch/issues/86590)). Detection code therefore brings a class of its own, whose
statistics cannot move; torchvision's once lacked the $\epsilon$, and some networks exploded
([vision pull request 1947](https://github.com/pytorch/vision/pull/1947), finished in [2190](https://github.com/pytorch/vision/pull/2190)).
</details>
"""

# %% [markdown]
r"""
## In the wild

| what | where it is settled |
| --- | --- |
| BatchNorm | [`torch.nn.BatchNorm2d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.BatchNorm2d.html): `momentum=0.1` is the weight of the new batch, `momentum=None` averages all batches alike, `track_running_stats=False` keeps none |
| across GPUs | [`torch.nn.SyncBatchNorm`](https://docs.pytorch.org/docs/stable/generated/torch.nn.SyncBatchNorm.html) and its `convert_sync_batchnorm`: statistics of all GPUs' batches together |
| frozen | [`torchvision.ops.FrozenBatchNorm2d`](https://docs.pytorch.org/vision/stable/generated/torchvision.ops.FrozenBatchNorm2d.html); in Keras `trainable = False` freezes the statistics as well |
| statistics anew | [`torch.optim.swa_utils.update_bn`](https://docs.pytorch.org/docs/stable/optim.html): after weights were averaged, their statistics fit no more |
| folding | [`torch.nn.utils.fuse_conv_bn_eval`](https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.fuse_conv_bn_eval.html); inference compilers do it by themselves |
| GroupNorm | [`torch.nn.GroupNorm(groups, channels)`](https://docs.pytorch.org/docs/stable/generated/torch.nn.GroupNorm.html) |
| InstanceNorm | [`torch.nn.InstanceNorm3d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.InstanceNorm3d.html): has *no* weight and bias unless `affine=True`; nnU-Net's plans set it |
| LayerNorm | [`torch.nn.LayerNorm`](https://docs.pytorch.org/docs/stable/generated/torch.nn.LayerNorm.html): `elementwise_affine=`, `bias=` |
| RMSNorm | [`torch.nn.RMSNorm`](https://docs.pytorch.org/docs/stable/generated/torch.nn.RMSNorm.html): `eps=None` takes the epsilon of the type that it computes in, float32 for the half formats (older versions may differ); Llama's configurations call it `rms_norm_eps` |
| Keras | [`BatchNormalization`](https://keras.io/api/layers/normalization_layers/batch_normalization/): `momentum=0.99` is the weight of the old average, `epsilon=0.001` |
| Flax | [`nnx.BatchNorm`](https://flax.readthedocs.io/en/latest/api_reference/flax.nnx/nn/normalization.html): `momentum=0.99` as in Keras, `use_running_average=` in the place of a mode |
"""

# %% [markdown]
r"""
## Recap

1. Every norm subtracts a mean and divides by a standard deviation (RMSNorm only divides); they differ in which entries share the statistics.
2. BatchNorm is a function of the batch: with two values per channel it hands on little more than their order, at slopes that are 0 or far too
   large; the error of mean and variance falls with the root of the batch size.
3. In training it uses the batch and the biased variance; for eval mode it keeps running averages, of the unbiased one, in buffers.
4. In eval mode it is one factor and one summand per channel, and disappears in the convolution before it.
5. An axis that is normalized over keeps its differences, and one that is not loses them: that chooses the norm.

### Test yourself

<details><summary>1. A batch of two, one value per channel: what does BatchNorm make of 1 and 1000?</summary>

-1 and 1, as of any other two numbers that differ by more than a few hundredths. Only their order is left.
</details>

<details><summary>2. GroupNorm with as many groups as channels, on a tensor of shape (pictures, channels) with five pictures: what comes out?</summary>

Zeros. Each group is a single number, its own mean. Only the bias is left after that.
</details>

<details><summary>3. All parameters are frozen and the network still changes while the head is trained. What does, and what stops it?</summary>

The running averages of its BatchNorms, which are buffers and are updated in training mode. Eval mode for these modules stops it, for as long as nobody
calls `train()` on a module that contains them.
</details>

<details><summary>4. Why can a BatchNorm in front of a padded convolution not be folded into it exactly?</summary>

The padding is 0 *after* the norm. Folded, the norm's shift goes into the convolution's bias, which assumes that the shift was at the border as
well, and there it was not.
</details>

<details><summary>5. A model of language is normalized with LayerNorm((tokens, features)). Its training loss is excellent. What is wrong?</summary>

Each token's mean and variance contain all later tokens, so the past knows the future. When it writes, there is no future.
</details>

### References

- S. Ioffe, C. Szegedy, "Batch Normalization: Accelerating Deep Network Training by Reducing Internal Covariate Shift", [arXiv:1502.03167](https://arxiv.org/abs/1502.03167), 2015; section 3.1 has the inference form.
- J. L. Ba, J. R. Kiros, G. E. Hinton, "Layer Normalization", [arXiv:1607.06450](https://arxiv.org/abs/1607.06450), 2016.
- D. Ulyanov, A. Vedaldi, V. Lempitsky, "Instance Normalization: The Missing Ingredient for Fast Stylization", [arXiv:1607.08022](https://arxiv.org/abs/1607.08022), 2016.
- Y. Wu, K. He, "Group Normalization", [arXiv:1803.08494](https://arxiv.org/abs/1803.08494), 2018; its figure 2 is the well-known one.
- S. Santurkar, D. Tsipras, A. Ilyas, A. Madry, "How Does Batch Normalization Help Optimization?", [arXiv:1805.11604](https://arxiv.org/abs/1805.11604), 2018; section 2.1 has the experiment with added shifts.
- B. Zhang, R. Sennrich, "Root Mean Square Layer Normalization", [arXiv:1910.07467](https://arxiv.org/abs/1910.07467), 2019.
- Y. Wu, J. Johnson, "Rethinking 'Batch' in BatchNorm", [arXiv:2105.07576](https://arxiv.org/abs/2105.07576), 2021.
- F. Isensee, P. F. Jaeger, S. A. A. Kohl, J. Petersen, K. H. Maier-Hein, "nnU-Net: a self-configuring method for deep learning-based biomedical image segmentation", *Nature Methods* 18, 2021.

### Glossary

| English | 中文 | meaning |
| --- | --- | --- |
| normalization | 归一化 | shifts and scales a group of numbers to mean 0 and variance 1 |
| batch normalization | 批归一化 | statistics per channel, over the whole batch |
| layer normalization | 层归一化 | statistics over the trailing axes of one sample |
| instance normalization | 实例归一化 | statistics per channel of one sample |
| group normalization | 组归一化 | statistics over a group of channels of one sample |
| root mean square | 均方根 | the root of the mean of squares; what RMSNorm divides by |
| biased, unbiased variance | 有偏方差、无偏方差 | with the count below, with one less |
| running average | 滑动平均 | an average that forgets the past by a fixed share in each step |
| momentum (of BatchNorm) | 动量 | the weight of the new batch in the running average; in Keras of the old |
| buffer | 缓冲区 | a tensor of a module that is saved and moved with it, and not trained |
| training mode, eval mode | 训练模式、评估模式 | a flag of each module; BatchNorm and dropout obey it |
| folding | 折叠 | merging a BatchNorm in eval mode into the layer before it |
| patch | 图像块 | a piece cut out of a volume, for training |
| backbone, head | 骨干网络、任务头 | the part of a network that is shared, the part for one task |
| to freeze | 冻结 | to keep a part of a network as it is while the rest is trained |
"""

# %%
progress("01")
