# %% [markdown]
"""
# 05 · Gradient accumulation, clipping, schedules

Suppose that a batch of 100 images does not fit into memory. A training loop splits it into smaller batches, divides the loss of each by the
number of smaller batches, and adds up the gradients. If the smaller batches are all the same size, the result is the gradient of the loss over all 100 images. With any other split, the result is a different
gradient, and PyTorch raises no exception.

**中文**: 本章讲梯度累积：微批次与整批的等价、按词元加权、最后的短窗口、梯度裁剪、按优化器步数计数的学习率调度，以及累积下的批归一化。
"""

# %% tags=["needed"] folded="Imports"
import contextlib
import itertools
import math

import torch
from torch.nn import functional

from helpers import (
    COLORS,
    Check,
    by_value,
    digits,
    explore_steps,
    explore_window,
    failing,
    hint,
    new_figure,
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

# Creating the first optimizer loads a large part of PyTorch; do it here, not while a check is being timed.
first_optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)

# %% folded="Data, a small classifier, and its gradient"
torch.set_num_threads(1)  # with tensors this small, threads wait longer than they compute
digit_images, digit_labels = digits()
pixels = digit_images.flatten(1) / 16


def make_classifier(dtype=torch.float32):
    torch.manual_seed(0)
    layers = torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10)
    return torch.nn.Sequential(*layers).to(dtype)


def gradient_of(model):
    """Return all gradients of a model as one long vector."""
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


def relative_error(gradient, truth):
    return ((gradient - truth).norm() / truth.norm()).item()


def cut(sizes, count=100):
    """Return the first ``count`` images and labels in micro-batches of ``sizes``."""
    return list(zip(pixels[:count].split(sizes), digit_labels[:count].split(sizes), strict=True))


full = make_classifier()
functional.cross_entropy(full(pixels[:100]), digit_labels[:100]).backward()
true_gradient = gradient_of(full)

# %% [markdown]
"""
The smaller batches are called **micro-batches**. Each goes through its own forward and backward pass, the gradients add up in `.grad`, and the optimizer
steps once, after the last micro-batch. This is **gradient accumulation**. The loss of the whole batch is a mean over the images. To keep it a mean, the loop divides each micro-batch's mean
by the number of micro-batches, as the [example in PyTorch's documentation](https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-accumulation) does.
Below, the true gradient is that of the whole batch. The **relative error** of an accumulated gradient is the norm of its difference from the true gradient, divided by the norm of the true gradient.
"""


# %%
def accumulate_as_seen(model, micro_batches):
    for inputs, labels in micro_batches:
        loss = functional.cross_entropy(model(inputs), labels) / len(micro_batches)
        loss.backward()


errors = {}
for size in range(1, 101):
    model = make_classifier()
    accumulate_as_seen(model, cut(size))
    errors[size] = relative_error(gradient_of(model), true_gradient)

# %% folded="Predict: the gradient of uneven micro-batches"
predict(
    "05/last-batch",
    "100 images, in micro-batches of 32, 32, 32 and 4: what is the relative error of the accumulated gradient?",
    100 * errors[32],
    "Dividing by the number of micro-batches gives the last 4 images, taken together, as much weight as each group of 32.",
    between=(0, 100),
    unit="%",
)

# %% folded="Figure 5.1: which sizes give the gradient of the whole batch"
figure, axes = new_figure(height=3.2)
even = [size for size in errors if 100 % size == 0]
uneven = [size for size in errors if 100 % size]
for sizes, color, label in (
    (uneven, "vermilion", "the last micro-batch is smaller"),
    (even, "blue", "all micro-batches have the same size"),
):
    floor = [max(errors[size], 1e-8) for size in sizes]
    axes.plot(sizes, floor, "o", color=COLORS[color], markersize=4, label=label)
axes.axhline(2**-23, color=COLORS["black"], linestyle=":", label="epsilon of float32")
axes.set_yscale("log")
axes.set_ylim(3e-9, 20)
axes.set(title="Error of the accumulated gradient", xlabel="images in a micro-batch")
axes.set_ylabel("relative error")
axes.legend(loc="center right", fontsize=9)
show(
    figure,
    number="5.1",
    caption="Relative error of the accumulated gradient for 100 images, split into micro-batches of a fixed size from 1 to 100. "
    "Only the nine sizes that divide 100 give the gradient of the whole batch.",
    alt="Relative error of the accumulated gradient, logarithmic, against the size of a micro-batch from 1 to 100. At the sizes "
    "that divide 100 the error is about a ten-millionth or less. At all other sizes it lies between 0.01 and 2.",
)

# %% [markdown]
"""
> **After this chapter, you will be able to**
>
> - accumulate a gradient over micro-batches of any size so that it equals the gradient of the whole batch up to rounding;
> - choose the divisor of a loss that is a mean over tokens;
> - step correctly on the last, shorter group of micro-batches, and advance a learning-rate schedule once per optimizer step;
> - put loss scaling, clipping, the optimizer step and the schedule in the right order, and log the loss that is minimized;
> - accumulate in data-parallel training, and explain why accumulation changes the result of a network with BatchNorm.
>
> **Time**: 75 minutes to read and run, 145 for the seven exercises.
>
> **Prerequisites**: modules and autograd (chapter 00). BatchNorm (chapter 01) and the GradScaler (chapter 04) help, but this
> chapter reviews what it needs from them.
"""

# %% [markdown]
r"""
## The last four images

100 is not a multiple of 32, so the last micro-batch holds 4 images. Its loss is a mean over 4 images; the losses of the other three are means over 32.
The loop divides each of these means by 4, the number of micro-batches. So each of the last 4 images has the weight $\frac{1}{4 \cdot 4}$ in the gradient, and each of
the others has the weight $\frac{1}{4 \cdot 32}$: an eighth of that.

In the drawing below, each bar is a micro-batch, and a **row** is one example of the batch, here one image. The width of a bar is the number of rows in its micro-batch, and its height is the weight of a single row. The dashed line is
the weight of a row in the whole batch. Drag the boundaries between micro-batches and switch between the rules for weighting: which rule keeps every bar at the dashed line?
"""

# %%
explore_window([32, 32, 32, 4])

# %% [markdown]
r"""
Let micro-batch $b$ have $n_b$ rows, let $N = \sum_b n_b$, and let $\ell_i$ be the loss of row $i$. Differentiation is linear, so the gradient of a
sum is the sum of the gradients. The mean over all rows is a *weighted* sum of the micro-batches' means:

$$\frac{1}{N} \sum_{i=1}^{N} \ell_i \;=\; \sum_b \frac{n_b}{N} \cdot \underbrace{\frac{1}{n_b} \sum_{i \in b} \ell_i}_{\text{mean over } b}$$

The weight of a micro-batch is $n_b / N$, its **share** of the rows. With $k$ micro-batches, all weights equal $1/k$ only if the micro-batches have the same size.
Two other rules occur in the libraries that this chapter cites: dividing every mean by $k$, which gives the **mean of means**, and not dividing at all.
"""

# %% folded="Measure: the gradient that each rule gives"
RULES = {  # what one row weighs in a micro-batch of n rows, of k micro-batches and N rows in all
    "not divided": lambda n, k, total: 1 / n,
    "mean of means": lambda n, k, total: 1 / (k * n),
    "share of the rows": lambda n, k, total: 1 / total,
}


def error_of(rule, sizes):
    """Return how far the gradient is from the whole batch's, if rows weigh what ``rule`` says."""
    total = sum(sizes)
    weights = [RULES[rule](n, len(sizes), total) for n in sizes for _ in range(n)]
    weighted, whole = make_classifier(), make_classifier()
    losses = functional.cross_entropy(
        weighted(pixels[:total]), digit_labels[:total], reduction="none"
    )
    (losses * torch.tensor(weights)).sum().backward()
    functional.cross_entropy(whole(pixels[:total]), digit_labels[:total]).backward()
    return relative_error(gradient_of(weighted), gradient_of(whole))


def told(error):
    return f"{error:.2f}" if error > 1e-5 else "rounding"


# %%
for sizes in ([25, 25, 25, 25], [32, 32, 32, 4]):
    found = {rule: told(error_of(rule, sizes)) for rule in RULES}
    print(f"micro-batches of {sizes}: {found}")

# %% [markdown]
r"""
Without a divisor, the gradients of four means over 25 rows add up to four times the true gradient, a relative error of 3. With micro-batches of 32, 32, 32 and 4, neither this rule nor the mean of means gives the right gradient; only the shares do.
With four equal micro-batches and SGD, an undivided gradient makes the step four times as long as it should be. Adam cancels a constant factor almost completely, so the bug stays hidden until something, such as clipping, depends on the norm of the gradient.

## Why .grad accumulates

`backward()` does not write a gradient into `.grad`. It *adds* the gradient to what is stored there:
"""

# %%
weight = torch.tensor(2.0, requires_grad=True)
for _ in range(3):
    (5 * weight).backward()
    print("after a backward pass:", weight.grad.item())
weight.grad = None
(5 * weight + 7 * weight).backward()
print("used twice in one graph:", weight.grad.item())

# %% [markdown]
r"""
The last line shows why. A weight that is used twice receives a gradient from each use, and the chain rule demands their sum, $5 + 7$, so autograd has to add within one
backward pass. From one backward pass to the next, adding is PyTorch's choice: `torch.autograd.grad` returns the gradients and leaves `.grad` alone.

If you do not want the sum, call `optimizer.zero_grad()` before the next backward pass. Since PyTorch 2.0, `zero_grad()` sets `.grad` to `None` by default, which frees the memory, instead of filling the tensors with zeros
([`zero_grad`](https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html)).
If you want the sum, do not call `zero_grad()` until the optimizer has stepped: accumulation is what happens if you do nothing. The micro-batches between two optimizer steps form an accumulation window, or **window** for short.
"""

# %% folded="Drawing: one window"
show_drawing(
    "05/gradient-adds-up",
    number="5.2",
    caption="One window of four micro-batches. The intermediate results of a micro-batch, its activations, stay in memory from its forward pass to its backward pass; `.grad` stays until `zero_grad`.",
    alt="A timeline of one window. Four times, the memory for activations rises during a forward pass and falls to zero during a backward pass, "
    "while the accumulated gradient grows with each backward pass. After the fourth the optimizer steps, and zero_grad frees .grad.",
)

# %% [markdown]
"""
The claim that the accumulated gradient and the gradient of the whole batch are *equal up to rounding* can be tested, because a rounding error shrinks as the precision of the number format grows. The next figure compares the accumulated gradient with one that is computed in float64
from the same weights and images.
"""


# %% folded="Figure 5.3: equal up to rounding"
def error_in(dtype, size, rows=480):
    """Return the error of accumulation with all tensors in ``dtype``, against float64."""
    exact, model = make_classifier(torch.float64), make_classifier(dtype)
    # The same weights and pixels in both, those that ``dtype`` can hold.
    exact.load_state_dict(model.state_dict())
    given, labels = pixels[:rows].to(dtype), digit_labels[:rows]
    functional.cross_entropy(exact(given.double()), labels).backward()
    for part, wanted in zip(given.split(size), labels.split(size), strict=True):
        (functional.cross_entropy(model(part), wanted, reduction="sum") / rows).backward()
    return relative_error(gradient_of(model).double(), gradient_of(exact))


SIZES = [480, 160, 48, 16, 4, 1]
rounding = {
    str(dtype).removeprefix("torch."): [error_in(dtype, size) for size in SIZES]
    for dtype in (torch.bfloat16, torch.float32, torch.float64)
}
figure, axes = new_figure(height=3.0)
for (name, found), color in zip(rounding.items(), ("vermilion", "blue", "green"), strict=True):
    shown = [(size, error) for size, error in zip(SIZES, found, strict=True) if error]
    axes.plot(*zip(*shown, strict=True), "o-", color=COLORS[color], label=name)
axes.set_xscale("log")
axes.set_yscale("log")
axes.invert_xaxis()
axes.set_xticks(SIZES, SIZES)
axes.minorticks_off()
axes.set_ylim(1e-17, 10)
axes.set(title="Accumulation over 480 images", xlabel="images in a micro-batch")
axes.set_ylabel("relative error")
axes.legend(loc="center left", ncols=3, fontsize=9)
show(
    figure,
    number="5.3",
    caption="In float32 and float64 the error stays within a few machine epsilons for every size. In bfloat16 it grows as the micro-batches get smaller, because small gradients are added to a large sum.",
    alt="Relative error of the accumulated gradient, logarithmic, against the size of a micro-batch, from 480 images down to one. In "
    "float64 it stays near 1e-16 and in float32 near 1e-7. In bfloat16 it grows from below one percent to several percent.",
)

# %% [markdown]
r"""
For the bfloat16 curve the whole model was converted, so its weights and therefore `.grad` are bfloat16. This format has 8 significant bits, and a number that is small enough disappears when it is added to a large one (chapter 02). Under autocast, which casts the inputs of individual operations and not the model, the weights stay float32, and so does `.grad`. If you convert a whole model to bfloat16, accumulate its gradients in a float32 buffer.

Two mechanisms break the equality altogether. With dropout, the whole batch and the micro-batches draw different masks, so the two gradients have the same expected value but differ in every step.
And rows can depend on each other, as in BatchNorm or in a loss that compares all rows of a batch. Then the loss is not a mean of terms that depend on one row each, and accumulation no longer gives the gradient of the whole batch. A section below returns to BatchNorm.

## What accumulation saves

Autograd keeps **activations**, the intermediate results that the backward pass needs, and their size grows with the number of rows. The next two cells count the bytes *saved for backward*, that is, kept in memory until the backward pass, in three cases: the whole batch at once; micro-batches of 8 with a backward pass after each (memory never holds more than one micro-batch's activations); and micro-batches of 8 whose losses are added up for a single backward pass. The network is wider than the classifier above. Weights and inputs
need the same memory in all three cases and are not counted.
"""


# %% folded="A wider network, and its loss on some rows"
def make_wide():
    torch.manual_seed(0)
    layers = [torch.nn.Linear(64, 512), torch.nn.Tanh()]
    for _ in range(2):
        layers += [torch.nn.Linear(512, 512), torch.nn.Tanh()]
    return torch.nn.Sequential(*layers, torch.nn.Linear(512, 10))


wide = make_wide()
weights = list(wide.parameters())
there_anyway = [*weights, pixels, digit_labels]


def loss_of(rows):
    return functional.cross_entropy(wide(pixels[rows]), digit_labels[rows], reduction="sum")


def loss_to_the_end(rows):
    return sum(loss_of(slice(k, k + 8)) for k in range(0, rows, 8))


def kept(compute_loss):
    return saved_bytes(compute_loss, except_for=there_anyway).bytes / 1024


# %%
print("KiB saved for backward")
print("  rows   at once       8, backward after each  8, one backward at the end")
for rows in (8, 32, 128, 512):
    at_once = kept(lambda rows=rows: loss_of(slice(rows)))
    after_each = kept(lambda: loss_of(slice(8)))
    at_the_end = kept(lambda rows=rows: loss_to_the_end(rows))
    print(f"{rows:>6}{at_once:>10.0f}{after_each:>29.0f}{at_the_end:>28.0f}")
in_grad = sum(weight.numel() * weight.element_size() for weight in weights)
print(f".grad takes {in_grad / 1024:.0f} KiB, whatever the number of rows")

# %% [markdown]
"""
With a backward pass after each micro-batch, memory holds the activations of *one* micro-batch at a time. In addition, `.grad` needs as much memory as the weights. Accumulation therefore saves a lot of memory only where activations need more memory than weights.
This network has many weights and few activations per row: even 512 rows at once need only 1.4 times the memory of `.grad`. In a convolutional network, the reverse is true: its filters are small and its activations large (chapter 12 measures one).

The last column shows a trap. If you add up the losses and call `backward()` once at the end, the gradient is right, but autograd keeps all graphs until that call, so no memory is saved.
"""


# %% folded="Measuring tool: a ledger of the bytes saved for backward"
class Ledger:
    """Keeps account of the bytes that wait for a backward pass, each storage once."""

    def __init__(self, left_out):
        self.left_out = {tensor.untyped_storage().data_ptr() for tensor in left_out}
        self.held, self.total, self.history = {}, 0, [0]

    def pack(self, tensor):
        self.book(tensor, 1)
        return tensor.detach()  # not the tensor itself: chapter 06 says why

    def unpack(self, tensor):
        self.book(tensor, -1)
        return tensor

    def book(self, tensor, change):
        storage = tensor.untyped_storage()
        address = storage.data_ptr()
        if address not in self.left_out:
            before = self.held.get(address, 0)
            self.held[address] = before + change
            if 0 in (before, before + change):
                self.total += change * storage.nbytes()
        self.history.append(self.total)


def account(run):
    """Return the bytes that wait, after each tensor that was saved or fetched."""
    ledger = Ledger(there_anyway)
    with torch.autograd.graph.saved_tensors_hooks(ledger.pack, ledger.unpack):
        run()
    wide.zero_grad()
    return ledger.history


def backward_after_each():
    for k in range(0, 32, 8):
        loss_of(slice(k, k + 8)).backward()


histories = {
    "32 rows at once": account(lambda: loss_of(slice(32)).backward()),
    "8 rows, one backward at the end": account(lambda: loss_to_the_end(32).backward()),
    "8 rows, backward after each": account(backward_after_each),
}
peaks = {name: max(history) for name, history in histories.items()}

# %% folded="Figure 5.4: activations over one step"
figure, axes = new_figure()
for (name, history), color, style in zip(
    histories.items(), ("black", "vermilion", "blue"), (":", "--", "-"), strict=True
):
    places = [k / (len(history) - 1) for k in range(len(history))]
    sizes = [size / 1024 for size in history]
    above = 3 if style == "--" else 2  # two curves coincide part of the way
    axes.step(places, sizes, style, where="post", color=COLORS[color], label=name, zorder=above)
axes.set(
    title="Memory saved for backward",
    xlabel="fraction of the step, counted in tensors saved or fetched",
    ylabel="KiB",
)
axes.set_ylim(0, 1.5 * max(peaks.values()) / 1024)
axes.legend(loc="upper left")
show(
    figure,
    number="5.4",
    caption="Memory for activations during one step of 32 rows. Only a backward pass after each micro-batch lowers the peak, here to a quarter.",
    alt="KiB saved for backward, over one step. With 32 rows at once, and with four micro-batches of 8 rows "
    "and one backward pass at the end, the curve climbs to its peak in the middle and falls to zero. With a "
    "backward pass after each 8 rows there are four small peaks, each a quarter as high.",
)

# %% [markdown]
"""
torchtune fell into this trap. In October 2024, to weight all tokens (the units of text, defined below) equally, it moved the backward pass to the
end of the window ([pull request 1875](https://github.com/meta-pytorch/torchtune/pull/1875)). A second pull request, opened nine days after the first, moved it back into the loop because memory use had grown
([pull request 1917](https://github.com/meta-pytorch/torchtune/pull/1917)).

Accumulation adds almost no arithmetic: every row is processed once in either case, and only the additions to `.grad` are new. But small matrix products use the hardware less efficiently, and
`.grad` occupies memory during all later forward passes of the window. The next cell measures the time on the machine where it runs; the range in parentheses shows how much individual runs differ.
"""


# %% tags=["nbval-ignore-output", "recorded"] folded="Measure: what micro-batches cost in time and memory"
device = "cuda" if torch.cuda.is_available() else "cpu"
wide_there = make_wide().to(device)
pixels_there, labels_there = pixels[:256].to(device), digit_labels[:256].to(device)


def in_micro_batches(size):
    for inputs, labels in zip(pixels_there.split(size), labels_there.split(size), strict=True):
        functional.cross_entropy(wide_there(inputs), labels, reduction="sum").backward()


print(f"torch {torch.__version__} on {device}")
for size in (64, 16, 4):
    ratio = time_ratio(
        lambda size=size: in_micro_batches(size),
        lambda: in_micro_batches(256),
        pairs=3,
        seconds=0.4,
    )
    print(f"256 rows, {size:>2} at a time, against all at once: {ratio}")
if device == "cuda":
    for size in (256, 4):
        wide_there.zero_grad()
        torch.cuda.reset_peak_memory_stats()
        in_micro_batches(size)
        peak = torch.cuda.max_memory_allocated() / 2**20
        print(f"peak of the allocator with {size:>3} rows at a time: {peak:.1f} MiB")
recorded("micro-batches")
del wide_there

# %% [markdown]
"""
So choose the largest micro-batch that fits into memory, and accumulate as many as the batch needs.
"""

# %% [markdown] exercise="accumulate-rows" points=4 minutes=15 difficulty=1
"""
### Accumulate the gradient of the whole batch

If the batch size is not a multiple of the micro-batch size, the last micro-batch is smaller. Write the loop that gives the gradient of the whole batch for micro-batches of any size.

`accumulate(model, loss_function, micro_batches) -> float`

- **In** `micro_batches`: a list of one or more pairs `(inputs, targets)` of tensors whose first dimension counts the rows. **The number of rows differs** between pairs and is at least 1.
  `loss_function(outputs, targets)` returns the mean over the rows, a zero-dimensional tensor that depends on every parameter.
- **Out**: the mean loss over all rows of all pairs, a Python float. Afterwards each parameter's `.grad` is the gradient of that mean; gradients stored before the call are discarded.
- **Limits**: one forward pass for each pair, followed by its backward pass before the next forward pass begins. Each layer stays in its mode, training or evaluation.

With one pair of 3 rows (mean loss 1.0) and one pair of 1 row (loss 5.0), `accumulate(model, loss_function, pairs)` returns `2.0`, not `3.0`.

<!-- hint: Which factor turns the mean over one micro-batch into its part of the mean over all rows? What do you need to know before the first backward pass? -->
<!-- hint: Count the rows of all pairs first. Clear the old gradients once, before the loop. In the loop: forward pass, loss, its factor, backward pass. -->
<!-- hint: The factor is the pair's number of rows over all rows, `len(inputs)` over the total. The factors add up to one, so the sum of the products, each as `.item()`, is the loss to return. -->
"""


# %% solution="accumulate-rows"
def accumulate(model, loss_function, micro_batches):
    """Leave the gradient of the mean loss over all rows in ``.grad``; return that loss, a float."""
    ### BEGIN SOLUTION
    total = sum(len(inputs) for inputs, _ in micro_batches)
    model.zero_grad()
    mean = 0.0
    for inputs, targets in micro_batches:
        loss = loss_function(model(inputs), targets) * (len(inputs) / total)
        loss.backward()
        mean += loss.item()
    return mean
    ### END SOLUTION


# %% test="accumulate-rows"
check = Check("accumulate-rows")


def draw_network(inputs, hidden, outputs):
    state = {
        "0.weight": check.draw.normal(hidden, inputs),
        "0.bias": check.draw.normal(hidden),
        "2.weight": check.draw.normal(outputs, hidden),
        "2.bias": check.draw.normal(outputs),
    }
    return [["Linear", inputs, hidden], ["Tanh"], ["Linear", hidden, outputs]], state


def draw_pairs(rows, inputs, classes):
    return [
        (check.draw.normal(n * inputs).view(n, inputs), check.draw.integers(n, low=0, high=classes))
        for n in rows
    ]


def make_one_pair_hard(pairs, number, outputs_of):
    # The least likely class for one pair, the most likely one for the others: their losses differ.
    return [
        (x, outputs_of(x).argmin(dim=1) if k == number else outputs_of(x).argmax(dim=1))
        for k, (x, _) in enumerate(pairs)
    ]


def outputs_by_hand(state, x):
    hidden = functional.linear(x, state["0.weight"], state["0.bias"]).tanh()
    return functional.linear(hidden, state["2.weight"], state["2.bias"])


def of_full_batch(state, pairs, loss_function=functional.cross_entropy):
    leaves = {name: value.double().requires_grad_(True) for name, value in state.items()}
    x, y = (torch.cat(parts) for parts in zip(*pairs, strict=True))
    outputs = outputs_by_hand(leaves, x.double())
    loss = loss_function(outputs, y.double() if y.is_floating_point() else y)
    slopes = torch.autograd.grad(loss, list(leaves.values()))
    return loss.item(), dict(zip(leaves, slopes, strict=True))


def same_gradients(got, slopes):
    # What cancels in one parameter does not in all: the largest slope tells how rounding shows.
    atol = 1e-6 + 1e-4 * max(slope.abs().max().item() for slope in slopes.values())
    for name, slope in slopes.items():
        check.close(got[name], slope.float(), rtol=0.0, atol=atol, what=f"the gradient of {name}")


def draw_batch_norm(features):
    return {
        "0.weight": check.draw.normal(features),
        "0.bias": check.draw.normal(features),
        "0.running_mean": check.draw.normal(features),
        "0.running_var": check.draw.uniform(features, low=0.5, high=3.0),
        "0.num_batches_tracked": torch.tensor(4),
    }


def with_batch_norm(state, x, training=True):
    """Return what a BatchNorm1d and a Tanh make of x; the running statistics stay."""
    if training:
        mean, variance = x.mean(dim=0), x.var(dim=0, correction=0)
    else:
        mean, variance = state["0.running_mean"], state["0.running_var"]
    x = (x - mean) / (variance + 1e-5).sqrt()
    return (x * state["0.weight"] + state["0.bias"]).tanh()


def call_accumulate(model, state, pairs, loss="cross_entropy", **options):
    return check.call(
        probes.accumulated,
        accumulate,
        model,
        pairs,
        loss_function=loss,
        state_dict=state,
        **options,
    )


def stays_in_eval_mode(rows, features, old=None, **modes):
    state, fresh = draw_batch_norm(features), check.draw.normal(11, features)
    pairs = draw_pairs(rows, features, features)
    options = {"afterwards": fresh, **(modes or {"training": False})}
    if old:
        names = ("0.weight", "0.bias")
        options["old_gradients"] = {name: old + state[name].abs() for name in names}
    layers = [["BatchNorm1d", features], ["Tanh"]]
    got = call_accumulate(layers, state, pairs, **options)
    x, y = (torch.cat(parts) for parts in zip(*pairs, strict=True))
    loss = functional.cross_entropy(with_batch_norm(state, x, training=False), y)
    check.close(got["output"], loss.item(), rtol=1e-4, what="the loss")
    what = "the model's outputs on new rows after the call"
    expected = with_batch_norm(state, fresh, training=False)
    check.close(got["outputs"], expected, rtol=1e-4, atol=1e-5, what=what)
    is_training = bool(modes)
    expected = {"": is_training, "0": False, "1": is_training}
    check.equal(
        got["modes"], expected, what="whether each layer is in training mode after the call"
    )


with check.property("equal micro-batches give the loss and the gradient of the whole batch"):
    (model, state), pairs = draw_network(5, 4, 3), draw_pairs([6, 6, 6], 5, 3)
    got = call_accumulate(model, state, pairs)
    loss, slopes = of_full_batch(state, pairs)
    check.close(got["output"], loss, rtol=1e-4, what="the loss")
    same_gradients(got["gradients"], slopes)
with check.property(
    "micro-batches of 7, 1 and 3 rows give the loss and the gradient of the whole batch", weight=2
):
    (model, state), pairs = draw_network(4, 6, 5), draw_pairs([7, 1, 3], 4, 5)
    pairs = make_one_pair_hard(pairs, 0, lambda x: outputs_by_hand(state, x))
    got = call_accumulate(model, state, pairs)
    loss, slopes = of_full_batch(state, pairs)
    same_gradients(got["gradients"], slopes)
    check.close(got["output"], loss, rtol=1e-4, what="the loss")
with check.property("gradients stored before the call are discarded"):
    (model, state), pairs = draw_network(3, 4, 2), draw_pairs([2, 5], 3, 2)
    old = {name: 1 + value.abs() for name, value in state.items()}
    got = call_accumulate(model, state, pairs, old_gradients=old)
    same_gradients(got["gradients"], of_full_batch(state, pairs)[1])
with check.property("works with another loss that is a mean over rows"):
    model, state = draw_network(4, 5, 2)
    pairs = [(check.draw.normal(n, 4), check.draw.normal(n, 2)) for n in (1, 8, 3)]
    pairs[1] = (pairs[1][0], pairs[1][1] + 9.0)
    got = call_accumulate(model, state, pairs, "mse_loss")
    loss, slopes = of_full_batch(state, pairs, functional.mse_loss)
    check.close(got["output"], loss, rtol=1e-4, what="the loss")
    same_gradients(got["gradients"], slopes)
with check.property("a network with BatchNorm sees each micro-batch by itself, in training mode"):
    pairs = draw_pairs((3 + check.draw.permutation(6)[:4]).tolist(), 3, 3)
    state = draw_batch_norm(3)
    pairs = make_one_pair_hard(pairs, 1, lambda x: with_batch_norm(state, x))
    fresh = check.draw.normal(5, 3)
    got = call_accumulate([["BatchNorm1d", 3], ["Tanh"]], state, pairs, afterwards=fresh)
    weights = {name: state[name] for name in ("0.weight", "0.bias")}
    leaves = {name: value.double().requires_grad_(True) for name, value in weights.items()}
    count = sum(len(x) for x, _ in pairs)
    loss = sum(
        functional.cross_entropy(with_batch_norm(leaves, x.double()), y, reduction="sum") / count
        for x, y in pairs
    )
    slopes = torch.autograd.grad(loss, list(leaves.values()))
    check.close(got["output"], loss.item(), rtol=1e-4, what="the loss")
    same_gradients(got["gradients"], dict(zip(leaves, slopes, strict=True)))
    what = "the model's outputs on new rows after the call"
    expected = with_batch_norm(state, fresh)
    check.close(got["outputs"], expected, rtol=1e-4, atol=1e-5, what=what)
with check.property(
    "each forward pass is followed by its backward pass before the next one begins"
):
    rows = (2 + check.draw.permutation(7)[: check.draw.integer(2, 6)]).tolist()
    inputs, hidden, classes = (2 + check.draw.permutation(5)[:3]).tolist()
    model, state = draw_network(inputs, hidden, classes)
    pairs = draw_pairs(rows, inputs, classes)
    seen = check.call(
        probes.forward_passes,
        accumulate,
        model,
        pairs,
        loss_function="cross_entropy",
        state_dict=state,
    )
    loss, slopes = of_full_batch(state, pairs)
    check.close(seen["output"], loss, rtol=1e-4, what="the loss")
    same_gradients(seen["gradients"], slopes)
    check.true(
        seen["rows"] <= max(rows),
        f"a forward pass saw {seen['rows']} rows, and the largest micro-batch has {max(rows)}",
    )
    check.true(
        seen["waiting"] <= 1,
        f"{seen['waiting']} forward passes were waiting for their backward pass at the same time",
    )
    check.equal(seen["passes"], len(pairs), what="the number of forward passes")
with check.property("a layer in eval mode is used in eval mode, and stays in it"):
    stays_in_eval_mode((1 + check.draw.permutation(6)[:2]).tolist(), 3)
    stays_in_eval_mode((1 + check.draw.permutation(6)[:2]).tolist(), 3, in_eval=("0",))
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("a model in eval mode, many micro-batches, and old gradients"):
    stays_in_eval_mode((1 + check.draw.permutation(9)[:5]).tolist(), 4, old=3.0)
with check.property("a single micro-batch, and old gradients once more"):
    (model, state), pairs = draw_network(6, 3, 2), draw_pairs([5], 6, 2)
    old = {name: 2 + value.abs() for name, value in state.items()}
    got = call_accumulate(model, state, pairs, old_gradients=old)
    loss, slopes = of_full_batch(state, pairs)
    check.close(got["output"], loss, rtol=1e-4, what="the loss")
    same_gradients(got["gradients"], slopes)
### END HIDDEN TESTS
check.score()

# %% [markdown]
r"""
## When to accumulate

Accumulate when a recipe asks for a batch that does not fit into memory. The recipe's learning rate was tuned for that batch size. If you change the batch size instead of accumulating, the learning rate has to change as well, because the number of steps per epoch (a pass over the data) changes. For SGD, Goyal et al. (2017, sections 2.1 and 2.2) give the **linear scaling
rule**: if the batch size grows by a factor, multiply the learning rate by the same factor, and raise it gradually over the first steps (a **warm-up**). For Adam, Malladi et al. (2022) derive
a square-root rule: multiply the learning rate by the square root of that factor, and adjust Adam's $\beta_1$, $\beta_2$ and $\epsilon$ accordingly. Both rules are approximations. Goyal et al. find that theirs fails for batches of more than about 8,000 images.

The next cell trains the classifier on 1,536 images for six epochs, once with batches of 32 and twice, at two learning rates, with batches of 256, the size of a window of 8 micro-batches of 32.
"""


# %% folded="Train: three pairs of batch size and learning rate"
def losses_of_run(batch, learning_rate, epochs=6, rows=1536):
    """Return the training loss on all rows, before each epoch and at the end."""
    model = make_classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate)
    shuffle = torch.Generator().manual_seed(0)
    seen = []
    for epoch in range(epochs + 1):
        with torch.no_grad():
            seen.append(functional.cross_entropy(model(pixels[:rows]), digit_labels[:rows]).item())
        for part in torch.randperm(rows, generator=shuffle).split(batch):
            if epoch < epochs:
                optimizer.zero_grad()
                functional.cross_entropy(model(pixels[part]), digit_labels[part]).backward()
                optimizer.step()
    return seen


runs = {
    "batch 32, rate 0.1": losses_of_run(32, 0.1),
    "batch 256, rate 0.1": losses_of_run(256, 0.1),
    "batch 256, rate 0.8": losses_of_run(256, 0.8),
}

# %% folded="Figure 5.5: a larger batch needs a larger rate"
figure, axes = new_figure(height=3.0)
for (name, losses), color, style in zip(
    runs.items(), ("blue", "vermilion", "green"), ("-", "--", "-."), strict=True
):
    axes.plot(losses, style, color=COLORS[color], label=name)
axes.set(title="Loss of the classifier", xlabel="epochs", ylabel="cross entropy", ylim=(0, 2.5))
axes.legend()
show(
    figure,
    number="5.5",
    caption="With eight times the batch size and the same learning rate, training takes an eighth of the steps and lags behind. Eight times the learning rate almost closes the gap.",
    alt="Training loss against epochs for three runs. With batches of 32 and a rate of 0.1 it falls fast. With batches of 256 and the "
    "same rate it falls much more slowly. With batches of 256 and a rate of 0.8 it follows the first curve closely.",
)

# %%
for name, losses in runs.items():
    print(f"{name}: loss {losses[-1]:.1f} after 6 epochs")

# %% [markdown]
"""
After the same number of images, the larger batch is no better here. Accumulate to reproduce a recipe whose batch does not fit into memory. Accumulation does not improve a run that already fits, and it does not help a loss or a layer that needs many rows at once, because each forward pass still sees only one micro-batch.
"""

# %% [markdown]
r"""
## A token is not a text

A **token** is a unit of text that a language model reads and predicts, such as a word or a part of one. The model's loss is a mean over tokens. With text, the mean of means goes wrong even if every micro-batch holds the same number of texts: texts differ in length, so two micro-batches
with the same number of texts rarely hold the same number of tokens.

The smallest possible model shows the effect. It has a single parameter, the logit of "yes", whose sigmoid is the probability. A window holds two micro-batches. One is a text of 4 tokens, all "yes". The
other is a text of 60 tokens, all "no". The model sees no input, so it should predict "yes" with probability $4/64 = 0.0625$.
"""


# %% folded="Train: one logit, two ways to average"
def learn_share_of_yes(mean_of_means, steps=120, learning_rate=2.0):
    """Return the model's P(yes) before each step."""
    short, long = torch.ones(4), torch.zeros(60)
    logit = torch.zeros((), requires_grad=True)
    shares = []
    for _ in range(steps):
        shares.append(torch.sigmoid(logit).item())
        losses = [
            functional.binary_cross_entropy_with_logits(logit.expand(len(text)), text)
            for text in (short, long)
        ]
        whole = (
            losses[0] / 2 + losses[1] / 2 if mean_of_means else losses[0] / 16 + losses[1] * 15 / 16
        )
        (slope,) = torch.autograd.grad(whole, [logit])
        with torch.no_grad():
            logit -= learning_rate * slope
    return shares


shares = {
    "mean of the two means": learn_share_of_yes(True),
    "mean over all tokens": learn_share_of_yes(False),
}

# %% folded="Predict: what the mean of means learns"
predict(
    "05/share-of-yes",
    'The loss is the mean of the two texts\' mean losses. What probability of "yes" does the model learn?',
    shares["mean of the two means"][-1],
    "Both texts have the same weight, so the 4 tokens that say yes count as much as the 60 that say no.",
    between=(0, 1),
)

# %% folded="Figure 5.6: what is learned"
figure, axes = new_figure(height=2.8)
for (name, values), color in zip(shares.items(), ("vermilion", "blue"), strict=True):
    axes.plot(values, color=COLORS[color], label=name)
axes.axhline(4 / 64, color=COLORS["black"], linestyle=":", label="4 of 64 tokens")
axes.set(title="What the model learns", xlabel="optimizer step", ylabel="P(yes)", ylim=(0, 0.7))
axes.legend(loc="upper right", ncols=3, fontsize=9)
show(
    figure,
    number="5.6",
    caption="Both runs have converged, but to the minima of two different losses, at P(yes) = 0.5 and P(yes) = 0.0625.",
    alt="Probability of yes against the optimizer step. With the mean of the two means it stays at 0.5. With the mean "
    "over all tokens it falls from 0.5 to 0.0625, the share of yes among the tokens.",
)

# %%
for name, values in shares.items():
    print(f"{name}: P(yes) is {values[-1]:.4f} at the end")

# %% [markdown]
r"""
Training on the mean of means has converged, but to the minimum of a different loss: one in which a token of the short text weighs 15 times as much as a token of the long one.

You may *want* every text to have the same weight. Then it must have that weight however the window is split. If both texts are in one micro-batch, the mean over its tokens
gives 0.0625 again. With a mean of means, the split decides what the model learns, and the memory of the machine decides the split. To give every token of the window the same weight, whatever the split, minimize this loss (which labels are ignored is explained below):

$$\text{loss} = \frac{1}{T} \sum_b \sum_{t \in b} \ell_t \qquad T = \text{the number of labels in the window that are not ignored}$$

The divisor $T$ depends on the whole window, so it cannot be computed from one micro-batch. There are two ways to apply it:

- Count the labels of the whole window first, and divide each micro-batch's *sum* of losses by $T$ before its backward pass. Keeping the labels in memory is cheap, because they are much smaller than activations.
- Accumulate the gradients of the sums, count the labels along the way, and multiply each `.grad` by $1/T$ at the end, before anything else reads it.

`cross_entropy` ignores positions with the label −100, its default `ignore_index`: it leaves them out of the sum and out of the count. The label −100 marks **padding** (tokens that only bring the texts of a batch to the same length) and prompts,
which open a text and which the model should not learn to produce. If no label is left, the mean is 0/0:
"""

# %%
ignored = torch.full((3,), -100)
for reduction in ("mean", "sum"):
    logits = torch.zeros(3, 5, requires_grad=True)
    loss = functional.cross_entropy(logits, ignored, reduction=reduction)
    loss.backward()
    print(
        f"{reduction}: the loss is {loss.item()}, the norm of its gradient is {logits.grad.norm().item()}"
    )

# %% [markdown]
"""
One micro-batch whose labels are all ignored makes the window's loss nan, and a running mean in the log stays nan from then on. With `cross_entropy`, the micro-batch's gradient is 0, so training goes on. But a mean of means
still counts the micro-batch in its divisor, which makes the window's gradient too small. Sums of losses have neither problem.

A training run shows how well the mean-of-means bug hides. A small model learns to spell. Its tokens are characters, and from each character of a word it predicts the next one. A window holds two micro-batches, one of short words and one of
long words, as a loader that groups texts by length would build them.
"""


# %% folded="Train: a model that spells"
SHORT = ["a", "no", "an", "on", "in", "at", "to"]
LONG = [
    *("accumulation", "normalization", "checkpointing", "reproducibility", "broadcasting"),
    *("stability", "initialization", "regularization", "differentiation", "approximation"),
]
LETTERS = ".abcdefghijklmnopqrstuvwxyz"  # the dot begins and ends a word


def as_tokens(words):
    """Return the index of each character, and that of the character after it."""
    numbers = [[LETTERS.index(letter) for letter in f".{word}."] for word in words]
    now = torch.tensor([number for word in numbers for number in word[:-1]])
    following = torch.tensor([number for word in numbers for number in word[1:]])
    return now, following


def length_of_words(logits):
    """Return the average number of letters in a word drawn from a model."""
    chances = torch.softmax(logits, dim=1)
    stay = torch.linalg.inv(torch.eye(26) - chances[1:, 1:])  # visits to each letter
    return (chances[0, 1:] @ stay).sum().item()


def spell(mean_of_means, steps=300, learning_rate=10.0):
    """Return the loss that each step minimizes, the mean loss of a token, and the words' length."""
    short, long = as_tokens(SHORT), as_tokens(LONG)
    total = len(short[0]) + len(long[0])
    logits = torch.zeros(27, 27, requires_grad=True)  # of the next character, for each character
    minimized, true = [], []
    for _ in range(steps):
        means = [functional.cross_entropy(logits[now], after) for now, after in (short, long)]
        of_a_token = sum(m * len(t[0]) / total for m, t in zip(means, (short, long), strict=True))
        loss = sum(means) / 2 if mean_of_means else of_a_token
        (slope,) = torch.autograd.grad(loss, [logits])
        minimized.append(loss.item())
        true.append(of_a_token.item())
        with torch.no_grad():
            logits -= learning_rate * slope
    return minimized, true, length_of_words(logits.detach())


spelled = {"mean of means": spell(True), "mean over all tokens": spell(False)}

# %% folded="Figure 5.7: a loss that falls, and the loss that counts"
figure, (left, right) = new_figure(1, 2, height=3.0, sharey=True)
for axes, number, title in (
    (left, 0, "What each run minimizes"),
    (right, 1, "Mean loss per token"),
):
    for (name, run), color, style in zip(
        spelled.items(), ("vermilion", "blue"), ("--", "-"), strict=True
    ):
        axes.plot(run[number], style, color=COLORS[color], label=name)
    axes.set(title=title, xlabel="optimizer step", ylabel="cross entropy", ylim=(1.2, 2.6))
left.legend()
show(
    figure,
    number="5.7",
    caption="Judged by the loss that each run logs (left), the mean of means looks slightly better. Judged by the mean loss per token (right), it is clearly worse.",
    alt="Two plots of loss against optimizer step. Left, what each run minimizes: both curves fall and end close together, that of the mean of means a little lower. "
    "Right, the mean loss per token in both runs: the mean of means ends clearly higher.",
)

# %%
true_length = sum(map(len, SHORT + LONG)) / len(SHORT + LONG)
print(f"the words have {true_length:.1f} letters on average")
for name, (minimized, true, length) in spelled.items():
    print(
        f"{name}: logged loss {minimized[-1]:.2f}, loss per token {true[-1]:.2f}, letters per word {length:.1f}"
    )

# %% [markdown]
"""
The model that was trained on the mean of means ends its words after fewer than four letters on average, because the tokens of short words have too much weight. Yet its log shows the lower loss, because the two runs log different quantities.

The `Trainer` in Hugging Face Transformers averaged means until October 2024 ([pull request 34191](https://github.com/huggingface/transformers/pull/34191)), and so did torchtune ([pull request 1875](https://github.com/meta-pytorch/torchtune/pull/1875)).
OpenNMT-py had a related bug in 2018: its divisor was not the number of tokens, even if the user asked for normalization by tokens ([pull request 526](https://github.com/OpenNMT/OpenNMT-py/pull/526)).
"""

# %% [markdown] exercise="accumulate-tokens" points=4 minutes=20 difficulty=2
"""
### Weighted by tokens

A training loop that averages the micro-batches' mean losses minimizes a different loss whenever texts differ in length. Write a loop that minimizes the mean over all labels instead.

`accumulate_tokens(model, micro_batches) -> float`

- **In** `micro_batches`: a list of pairs `(tokens, labels)`, int64, both of shape (texts, length); sizes differ between pairs.
  `model(tokens)` returns logits of shape (texts, length, classes). A label of −100 is ignored. All labels of a pair may be −100, but at least one label in the list is not.
- **Out**: the mean cross entropy over all labels that are not ignored, a Python float. Afterwards each parameter's `.grad` is the gradient of that mean; gradients
  stored before the call are discarded. Tokens and labels do not change.
- **Limits**: keep the activations of only one micro-batch in memory at a time.

With one pair of 4 labels (mean loss 2.0) and one pair of 60 labels (mean loss 1.0), `accumulate_tokens(model, pairs)` returns `1.0625`, not `1.5`.

<!-- hint: Over what is the mean taken, and where does that number come from before the first backward pass? -->
<!-- hint: Count the labels that are not -100 in all pairs. Then each pair gives a sum, divided by that count, and needs no factor of its own. -->
<!-- hint: `cross_entropy` takes the classes in dimension 1: flatten the logits to (positions, classes) with `flatten(0, 1)` and the labels to (positions,). `reduction="sum"` gives the sum, and leaves -100 out. -->
"""


# %% solution="accumulate-tokens"
def accumulate_tokens(model, micro_batches):
    """Leave the gradient of the mean loss over all labels in ``.grad``; return that loss, a float."""
    ### BEGIN SOLUTION
    count = sum(int((labels != -100).sum()) for _, labels in micro_batches)
    model.zero_grad()
    mean = 0.0
    for tokens, labels in micro_batches:
        logits = model(tokens).flatten(0, 1)
        loss = functional.cross_entropy(logits, labels.flatten(), reduction="sum") / count
        loss.backward()
        mean += loss.item()
    return mean
    ### END SOLUTION


# %% test="accumulate-tokens"
check = Check("accumulate-tokens")


def draw_model(words, features):
    state = {
        "0.weight": check.draw.normal(words, features),
        "1.weight": check.draw.normal(words, features),
        "1.bias": check.draw.normal(words),
    }
    return [["Embedding", words, features], ["Linear", features, words]], state


def draw_texts(shapes, words):
    return [
        tuple(check.draw.integers(*shape, low=0, high=words) for _ in range(2)) for shape in shapes
    ]


def over_all_tokens(state, pairs):
    leaves = {name: value.double().requires_grad_(True) for name, value in state.items()}
    tokens, labels = (torch.cat([p.flatten() for p in parts]) for parts in zip(*pairs, strict=True))
    logits = functional.linear(
        leaves["0.weight"][tokens[labels >= 0]], leaves["1.weight"], leaves["1.bias"]
    )
    loss = functional.cross_entropy(logits, labels[labels >= 0])
    slopes = torch.autograd.grad(loss, list(leaves.values()))
    return loss.item(), dict(zip(leaves, slopes, strict=True))


def agrees_with_all_tokens(model, state, pairs, probe=probes.accumulated, **old):
    got = check.call(probe, accumulate_tokens, model, pairs, state_dict=state, **old)
    loss, slopes = over_all_tokens(state, pairs)
    atol = 1e-6 + 1e-4 * max(slope.abs().max().item() for slope in slopes.values())
    for name, slope in slopes.items():
        what, value = f"the gradient of {name}", slope.float()
        check.close(got["gradients"][name], value, rtol=0.0, atol=atol, what=what)
    check.close(got["output"], loss, rtol=1e-4, what="the loss")
    return got


with check.property("two micro-batches of equal shape, in which every label counts"):
    agrees_with_all_tokens(*draw_model(7, 4), draw_texts([(3, 5), (3, 5)], 7))
with check.property("texts of different lengths", weight=2):
    agrees_with_all_tokens(*draw_model(6, 5), draw_texts([(3, 4), (2, 13), (1, 2)], 6))
with check.property("labels of -100 do not count", weight=2):
    pairs = draw_texts([(3, 8), (2, 5)], 9)
    pairs[0][1][0, 2:], pairs[0][1][2, 1:4], pairs[1][1][1, 4:] = -100, -100, -100
    agrees_with_all_tokens(*draw_model(9, 3), pairs)
with check.property("a micro-batch in which no label counts does no harm"):
    pairs = draw_texts([(2, 6), (3, 4), (1, 5)], 5)
    pairs[1][1][:] = -100
    agrees_with_all_tokens(*draw_model(5, 3), pairs)
with check.property("gradients stored before the call are discarded"):
    (model, state), pairs = draw_model(7, 3), draw_texts([(2, 6), (4, 3)], 7)
    old = {name: 2 + value.abs() for name, value in state.items()}
    agrees_with_all_tokens(model, state, pairs, old_gradients=old)
with check.property("tokens and labels do not change"):
    pairs = draw_texts([(1 + check.draw.integer(0, 4), 6), (2, 3 + check.draw.integer(0, 5))], 7)
    pairs[0][1][0, 1:3] = -100
    seen = agrees_with_all_tokens(*draw_model(7, 4), pairs, probe=probes.forward_passes)
    check.equal(seen["micro_batches"], pairs, what="the micro-batches after the call")
with check.property("one micro-batch at a time, forward and backward"):
    lengths = (5 + check.draw.permutation(6)[: check.draw.integer(3, 6)]).tolist()
    shapes = [(1 + check.draw.integer(0, 4), length) for length in lengths]
    most = max(texts * length for texts, length in shapes)
    words, features = (3 + check.draw.permutation(6)[:2]).tolist()
    model, pairs = draw_model(words, features), draw_texts(shapes, words)
    seen = agrees_with_all_tokens(*model, pairs, probe=probes.forward_passes)
    check.true(
        seen["entries"] <= most,
        f"a forward pass saw {seen['entries']} tokens, and the largest micro-batch has {most}",
    )
    check.true(
        seen["waiting"] <= 1,
        f"{seen['waiting']} forward passes were waiting for their backward pass at the same time",
    )
    check.true(
        seen["held"] <= 1,
        f"the logits of {seen['held']} earlier micro-batches were still in memory",
    )
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("many micro-batches of a single text, a few tokens of each"):
    pairs = draw_texts([(1, 3), (1, 9), (1, 6), (1, 2), (1, 17)], 8)
    for number, (_, labels) in enumerate(pairs):
        labels[0, : min(number, labels.shape[1] - 1)] = -100
    agrees_with_all_tokens(*draw_model(8, 5), pairs)
with check.property("old gradients do not count, the first micro-batch may be empty"):
    (model, state), pairs = draw_model(5, 4), draw_texts([(2, 3), (3, 6)], 5)
    pairs[0][1][:] = -100
    old = {name: 1 + value.abs() for name, value in state.items()}
    agrees_with_all_tokens(model, state, pairs, old_gradients=old)
### END HIDDEN TESTS
check.score()

# %% [markdown]
"""
## The last, incomplete window

Suppose that a loop counts micro-batches and lets the optimizer step whenever the count is a multiple of $k$. Here is an epoch of 10 micro-batches with $k = 4$:
"""


# %% folded="Figure 5.8: one epoch of ten micro-batches"
def window_of_each(count, steps):
    """Return the window of each micro-batch, None for those that no step follows."""
    closed = count // steps * steps
    return [number // steps + 1 if number < closed else None for number in range(count)]


figure, axes = new_figure(height=1.9)
for number, window in enumerate(window_of_each(10, 4)):
    color = COLORS["vermilion"] if window is None else COLORS["blue" if window % 2 else "green"]
    axes.barh(0, 0.9, left=number + 0.55, height=0.6, color=color)
    words = "no step" if window is None else f"window {window}"
    axes.text(number + 1, 0, words, ha="center", va="center", color="white", fontsize=8)
axes.set_yticks([])
axes.set_xticks(range(1, 11))
axes.set_xlim(0.45, 10.55)
axes.set_ylim(-0.4, 0.4)
axes.grid(False)
axes.set(title="A step after every 4 micro-batches", xlabel="micro-batch", ylabel="one epoch")
show(
    figure,
    number="5.8",
    caption="With k = 4, no optimizer step follows the last two of ten micro-batches.",
    alt="Ten boxes in a row. Micro-batches 1 to 4 are window 1, and 5 to 8 are window 2. Micro-batches 9 and 10 are "
    "marked no step.",
)

# %%
for rows, size, steps in ((1797, 32, 8), (1797, 32, 40)):
    count = math.ceil(rows / size)
    lost = window_of_each(count, steps).count(None)
    print(f"{count} micro-batches in windows of {steps}: no step follows the last {lost}")

# %% [markdown]
r"""
Micro-batches 9 and 10 go through a forward and a backward pass, but no step follows. What becomes of their gradient depends on where `zero_grad` is called:

- If it is called at the beginning of each epoch, the call discards their gradient, and their forward and backward passes are wasted.
- If it is called only after a step, their gradient stays in `.grad`, and the first window of the next epoch adds to it. The weights of these six micro-batches add up
  to 1.5 instead of 1. After the last epoch, the leftover gradient is lost.

A loop that does step on the incomplete window must use the weights of *that* window, and they must add up to 1. If the losses of two micro-batches are each divided by $k = 4$, the weights add up to only one half. If the sizes differ, each micro-batch must again be weighted by its share of the window's rows:
"""

# %%
for name, factors in {
    "four micro-batches, divided by 4": [1 / 4] * 4,
    "two micro-batches, divided by 4": [1 / 4] * 2,
    "two micro-batches of 32 and 5 rows, by their shares": [32 / 37, 5 / 37],
}.items():
    print(f"{name}: the weights add up to {sum(factors)}")

# %% [markdown]
"""
Lightning does step on the incomplete window, but it divides by $k$ there, too ([issue 19987](https://github.com/Lightning-AI/pytorch-lightning/issues/19987), open).

A loop could ask `len(loader)` how many micro-batches will come, but a stream has no length. The following always works: collect micro-batches from the iterator until there are $k$ *or the iterator ends*, and only then process the window. `itertools.islice` takes up to
$k$ items from an iterator, and returns fewer at its end:
"""

# %%
stream = iter("abcdefg")
for _ in range(3):
    print(list(itertools.islice(stream, 4)))


# %% [markdown]
"""
Until the window's step, all of its inputs occupy memory. In a deep network they are small compared with the activations of one micro-batch, and they can stay in CPU memory until their forward pass.
"""

# %% [markdown] exercise="close-windows" points=4 minutes=20 difficulty=2
"""
### An epoch with a short window

The last window of an epoch may be incomplete, and a stream does not announce its end. Write a loop for one epoch that handles both.

`train_epoch(model, optimizer, loss_function, micro_batches, steps) -> list[float]`

- **In** `micro_batches`: an **iterator** over pairs as in exercise 1. `steps`: the number of pairs in a full window, at least 1. `optimizer`: an SGD optimizer, possibly with momentum, weight decay and parameter groups. The model is in training mode.
- **Out**: for each window, including the shorter last one, the mean loss over its rows before its step. The optimizer steps once per window, with the gradient of that mean. Without pairs, it does not step and the list is empty.
- **Limits**: those of exercise 1, and before a window's step, read at most one pair beyond that window. Gradients stored before the call are discarded.

With 10 pairs and `steps=4` the list has 3 entries; the last one covers 2 pairs. You may call your `accumulate`.

<!-- hint: How do you find out that a window is the last one, without asking for the length? When do you know its number of rows? -->
<!-- hint: Collect the pairs of one window in a list first. Then the window is a little full batch of its own, and the first exercise does the rest. -->
<!-- hint: `while window := list(itertools.islice(micro_batches, steps))` gives one list after the other, the last one shorter. In the loop: `accumulate`, keep what it returns, then let the optimizer step. -->
"""


# %% solution="close-windows"
def train_epoch(model, optimizer, loss_function, micro_batches, steps):
    """Take one step per window of ``steps`` micro-batches; return the mean loss of each window."""
    ### BEGIN SOLUTION
    losses = []
    while window := list(itertools.islice(micro_batches, steps)):
        losses.append(accumulate(model, loss_function, window))
        optimizer.step()
    return losses
    ### END SOLUTION


# %% test="close-windows"
check = Check("close-windows")
sgd = {"lr": 0.3, "momentum": 0.9, "weight_decay": 0.1}


def draw_network(inputs, hidden, classes):
    state = {
        "0.weight": check.draw.normal(hidden, inputs),
        "0.bias": check.draw.normal(hidden),
        "2.weight": check.draw.normal(classes, hidden),
        "2.bias": check.draw.normal(classes),
    }
    return [["Linear", inputs, hidden], ["Tanh"], ["Linear", hidden, classes]], state


def draw_pairs(rows, inputs, classes):
    return [
        (check.draw.normal(n * inputs).view(n, inputs), check.draw.integers(n, low=0, high=classes))
        for n in rows
    ]


def draw_normed(features, classes):
    """Return a BatchNorm and a linear layer, and their state: its weights come first."""
    state = {
        "0.weight": check.draw.uniform(features, low=0.5, high=2.0),
        "0.bias": check.draw.normal(features),
        "1.weight": check.draw.normal(classes, features),
        "1.bias": check.draw.normal(classes),
        "0.running_mean": check.draw.normal(features),
        "0.running_var": check.draw.uniform(features, low=0.5, high=3.0),
        "0.num_batches_tracked": torch.tensor(check.draw.integer(2, 9)),
    }
    return [["BatchNorm1d", features], ["Linear", features, classes]], state


def two_layers(leaves, x):
    hidden = functional.linear(x, leaves["0.weight"], leaves["0.bias"]).tanh()
    return functional.linear(hidden, leaves["2.weight"], leaves["2.bias"])


def normed(leaves, x):
    x = (x - x.mean(dim=0)) / (x.var(dim=0, correction=0) + 1e-5).sqrt()
    return functional.linear(
        x * leaves["0.weight"] + leaves["0.bias"], leaves["1.weight"], leaves["1.bias"]
    )


def by_hand(state, pairs, steps, compute=two_layers):
    """The same steps on all rows of each window, in float64."""
    state = {name: value.double() for name, value in state.items()}
    losses, speed = [], dict.fromkeys(state, 0.0)
    for start in range(0, len(pairs), steps):
        leaves = {name: value.clone().requires_grad_(True) for name, value in state.items()}
        window = pairs[start : start + steps]
        outputs = torch.cat([compute(leaves, x.double()) for x, _ in window])
        loss = functional.cross_entropy(outputs, torch.cat([y for _, y in window]))
        slopes = torch.autograd.grad(loss, list(leaves.values()))
        losses.append(loss.item())
        for name, slope in zip(state, slopes, strict=True):
            decay = sgd["weight_decay"] if state[name].dim() > 1 else 0.0  # none for a bias
            speed[name] = sgd["momentum"] * speed[name] + slope + decay * state[name]
            state[name] = state[name] - sgd["lr"] * speed[name]
    return losses, state


def train(probe, model, state, pairs, steps, **options):
    given = {"steps": steps, "optimizer": sgd, "state_dict": state, **options}
    return check.call(probe, train_epoch, model, pairs, **given)


def same_training(got, weights, pairs, steps, compute=two_layers):
    losses, after = by_hand(weights, pairs, steps, compute)
    check.close(got["output"], losses, rtol=1e-3, what="the losses")
    for name, start in weights.items():
        way = (after[name] - start).abs().max().item()
        what, value = f"{name} at the end", after[name].float()
        check.close(got["state_dict"][name], value, rtol=0.0, atol=1e-3 * way + 1e-5, what=what)


def agrees_with_full_windows(rows, steps, sizes, old=None):
    (model, state), pairs = draw_network(*sizes), draw_pairs(rows, sizes[0], sizes[2])
    given = {name: value.abs() + old for name, value in state.items()} if old else None
    options = {"old_gradients": given} if old else {}
    got = train(probes.trained_in_windows, model, state, pairs, steps, **options)
    check.equal(got["steps"], math.ceil(len(pairs) / steps), what="the number of optimizer steps")
    same_training(got, state, pairs, steps)


with check.property("two full windows of equal micro-batches"):
    agrees_with_full_windows([4] * 6, 3, (5, 4, 3))
with check.property(
    "the optimizer steps on a short last window, with that window's own weights", weight=3
):
    agrees_with_full_windows([4] * 7, 3, (4, 5, 3))
with check.property("micro-batches of different sizes", weight=2):
    agrees_with_full_windows([2, 7, 1, 5, 3, 8, 1, 6], 3, (6, 4, 5))
with check.property("windows of one micro-batch; a single short window; no micro-batches, no step"):
    agrees_with_full_windows([3, 6, 2], 1, (4, 3, 5))
    agrees_with_full_windows([5, 2], 4, (3, 5, 4))
    agrees_with_full_windows([], 2, (3, 4, 5))
with check.property("gradients stored before the call are discarded"):
    agrees_with_full_windows([3, 1, 4, 2], 2, (4, 6, 3), old=1.0)
with check.property("a network with BatchNorm sees each micro-batch by itself, in training mode"):
    rows, steps = (4 + check.draw.permutation(8)[:5]).tolist(), check.draw.integer(2, 4)
    (model, state), pairs = draw_normed(4, 3), draw_pairs(rows, 4, 3)
    got = train(probes.trained_in_windows, model, state, pairs, steps)
    weights = {name: state[name] for name in ("0.weight", "0.bias", "1.weight", "1.bias")}
    same_training(got, weights, pairs, steps, normed)
    check.true(all(got["modes"].values()), "the model is not in training mode after the call")
with check.property("one forward pass for each micro-batch, and no reading ahead"):
    steps, windows = check.draw.integer(2, 4), 2
    # Any two of these are more than the largest, and one is left for a short window.
    rows = (7 + check.draw.permutation(7)[: windows * steps + 1]).tolist()
    inputs, hidden, classes = (3 + check.draw.permutation(4)[:3]).tolist()
    model, state = draw_network(inputs, hidden, classes)
    pairs = draw_pairs(rows, inputs, classes)
    seen = train(probes.forward_passes, model, state, pairs, steps)
    same_training(seen, state, pairs, steps)
    check.true(
        seen["ahead"] <= 1,
        f"{seen['ahead']} pairs of later windows had been taken from the iterator before a step",
    )
    check.true(
        seen["rows"] <= max(rows),
        f"a forward pass saw {seen['rows']} rows, and the largest micro-batch has {max(rows)}",
    )
    check.true(
        seen["waiting"] <= 1,
        f"{seen['waiting']} forward passes were waiting for their backward pass at the same time",
    )
    check.equal(seen["passes"], len(pairs), what="the number of forward passes")
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("windows of one micro-batch, and old gradients at the start"):
    agrees_with_full_windows([3, 6, 2], 1, (4, 3, 5), old=1.0)
with check.property("an iterator that yields nothing, and old gradients"):
    agrees_with_full_windows([], 3, (4, 6, 2), old=0.5)
with check.property("old gradients do not reach the first window, nor one window the next"):
    agrees_with_full_windows([4, 1, 3, 5, 2], 2, (5, 3, 4), old=2.0)
### END HIDDEN TESTS
check.score()

# %% [markdown]
r"""
## Gradient clipping

The norm of the gradient can jump by orders of magnitude from one step to the next, for example in a recurrent network (Pascanu et al. 2013). A single step along such a gradient can undo many
earlier steps. **Gradient clipping** bounds the gradient before the step. Take a gradient of two weights, $g = (4, 2)$, and the bound 1:

- **By norm**: if $\lVert g \rVert > 1$, divide $g$ by $\lVert g \rVert$.
- **By value**: clamp each entry to $[-1, 1]$.
- **Each tensor by its own norm**: apply the first rule to the gradient of each parameter separately.
- **By the maximum norm** (`norm_type=inf` in PyTorch's function, below): apply the first rule with the largest absolute value of an entry in place of the norm.
"""

# %%
gradient = torch.tensor([4.0, 2.0])
clipped = {
    "by norm": gradient / gradient.norm(),
    "by value": gradient.clamp(-1, 1),
    "each tensor by its own norm": gradient.sign(),  # two tensors of one entry: each norm becomes 1
    "by the maximum norm": gradient / gradient.abs().max(),
}
for name, vector in clipped.items():
    cosine = functional.cosine_similarity(vector, gradient, dim=0).item()
    entries = ", ".join(f"{entry:.2f}" for entry in vector.tolist())
    print(f"{name:<28} ({entries}), norm {vector.norm().item():.2f}, cosine {cosine:.3f}")

# %% folded="Figure 5.9: a gradient of two weights, clipped"
figure, axes = new_figure(height=3.3)
arrow = {"angles": "xy", "scale_units": "xy", "scale": 1, "width": 0.007}
for name, color, label in (
    (None, "#999999", "the gradient"),
    ("by the maximum norm", COLORS["green"], "by the maximum norm"),
    ("by norm", COLORS["blue"], "by norm"),
    ("by value", COLORS["vermilion"], "by value, and each tensor by its own norm"),
):
    axes.quiver(
        0, 0, *(gradient if name is None else clipped[name]), color=color, label=label, **arrow
    )
angles = torch.linspace(0, math.pi / 2, 60)
axes.plot(angles.cos(), angles.sin(), ":", color=COLORS["black"], label="norm 1")
axes.set(title="A gradient of two weights, clipped at 1", xlim=(0, 4.6), ylim=(0, 2.3))
axes.set(xlabel="gradient of weight 1", ylabel="gradient of weight 2")
axes.set_aspect("equal")
figure.legend(loc="outside lower center", ncols=2, frameon=False)
show(
    figure,
    number="5.9",
    caption="One factor for all entries keeps the direction of the gradient. A bound for each entry or each tensor does not.",
    alt="Arrows from the origin. The gradient points to (4, 2). Clipped by norm it points the same way and ends on "
    "the circle of radius 1. By the maximum norm it points the same way too and ends at (1, 0.5). Clipped by value, or each tensor "
    "by its own norm, it points to (1, 1), a different direction.",
)

# %% [markdown]
r"""
Clipping by value changes the direction: the first entry was twice the second, and now they are equal. The **global norm** is the norm of the gradients of all parameters, taken as one long vector. With the bound $c$ (`max_norm`):

$$\lVert g \rVert = \sqrt{\textstyle\sum_p \sum_i g_{p,i}^2} \qquad g_p \leftarrow g_p \cdot \min\!\left(1, \frac{c}{\lVert g \rVert}\right)$$

There is one factor for all parameters, and it is never above 1. Pascanu, Mikolov and Bengio (2013, section 3.2) proposed clipping by the norm.
`torch.nn.utils.clip_grad_norm_(parameters, max_norm)` scales the gradients in place and returns the norm *before* clipping, which you should log. The next cell shows two details:
"""


# %%
def after_clipping(entries, max_norm):
    weight = torch.nn.Parameter(torch.zeros(len(entries)))
    weight.grad = torch.tensor(entries)
    norm = torch.nn.utils.clip_grad_norm_([weight], max_norm).item()
    return f"norm {norm:.3g}, afterwards {[float(f'{g:.3g}') for g in weight.grad.tolist()]}"


print("(3, 4) at 1:      ", after_clipping([3.0, 4.0], 1.0))
print("(1, 2, inf) at 1: ", after_clipping([1.0, 2.0, math.inf], 1.0))
print("(0, 3e-6) at 1e-6:", after_clipping([0.0, 3e-6], 1e-6))

# %% [markdown]
r"""
- An inf makes the norm inf and the factor 0. The inf itself becomes nan (inf × 0), and all the other entries become **0**. A single nan makes every entry nan. Clipping does not cure
  inf or nan. `error_if_nonfinite=True` raises an error instead.
- The function divides by $\lVert g \rVert + 10^{-6}$, which matters only for tiny norms: with the bound 1e-6, a gradient of norm 3e-6 is clipped to norm 7.5e-7.

Clipping bounds the *gradient*. For plain SGD, the learning rate times $c$ also bounds the step. With momentum $m$, the bound is $1/(1-m)$ times as large, because clipped gradients add up. And the length of Adam's steps barely depends on the scale of the gradient. In the next cell, 1,000 weights have the same gradient in every step:
"""


# %% folded="Measure: how long steps are with and without clipping"
def longest_step(make_optimizer, bound, steps=60, length=100.0, entries=1000):
    """Return the length of the longest step along a gradient that never changes."""
    weight = torch.nn.Parameter(torch.zeros(entries, dtype=torch.float64))
    optimizer = make_optimizer([weight])
    longest = 0.0
    for _ in range(steps):
        weight.grad = torch.full_like(weight, length / math.sqrt(entries))
        if bound is not None:
            torch.nn.utils.clip_grad_norm_([weight], bound)
        before = weight.detach().clone()
        optimizer.step()
        longest = max(longest, (weight.detach() - before).norm().item())
    return longest


optimizers = {
    "SGD, rate 1": lambda weights: torch.optim.SGD(weights, lr=1.0),
    "SGD, rate 1, momentum 0.9": lambda weights: torch.optim.SGD(weights, lr=1.0, momentum=0.9),
    "Adam, rate 0.001": lambda weights: torch.optim.Adam(weights, lr=0.001),
}

# %%
print("the longest of 60 steps, for a gradient of norm 100")
for name, make_optimizer in optimizers.items():
    without, clipped_at_one = longest_step(make_optimizer, None), longest_step(make_optimizer, 1.0)
    print(f"{name:<26} without clipping {without:>8.3g}, clipped at 1 {clipped_at_one:>7.3g}")

# %% [markdown]
r"""
Here Adam takes the same steps with and without clipping, because clipping scales all gradients alike and Adam divides by the root of a running mean of their squares. With Adam, clipping is useful against a *single* huge gradient, whose effect on the running means it limits.

Under accumulation, clip after the window's last backward pass. Clipping after every micro-batch would clip partial sums. Two micro-batches whose gradients nearly cancel show the difference:
"""

# %% folded="Clip two gradients that nearly cancel"
first, second = torch.tensor([30.0, 1.0]), torch.tensor([-30.0, 1.0])


def clip(vector, bound=1.0):
    return vector * min(1.0, bound / vector.norm().item())


at_the_end = clip((first + second) / 2)
after_each = clip(clip(first / 2) + second / 2)
for name, vector in (("clipped at the end:", at_the_end), ("clipped after each:", after_each)):
    print(name, [round(entry, 3) for entry in vector.tolist()])

# %% [markdown]
r"""
The large parts cancel, and the mean is (0, 1). Clipped early, the first gradient shrinks to norm 1, so it cancels almost nothing, and the result points almost in the direction of the second. Clipping the gradient of each *row* by itself, before the mean, is a different algorithm with a different purpose: differential privacy (Abadi et al. 2016).

Clipping reads every gradient twice, once to compute the norm and once to apply the factor. With `foreach`, `clip_grad_norm_` handles many tensors in one call instead of one after another. The next cell measures the time on the machine where it runs, for 200 parameters of 1,000 entries each:
"""

# %% tags=["nbval-ignore-output", "recorded"] folded="Measure: what clipping costs"
device = "cuda" if torch.cuda.is_available() else "cpu"
many = [torch.nn.Parameter(torch.zeros(1000, device=device)) for _ in range(200)]
for parameter in many:
    parameter.grad = torch.full_like(parameter, 1e-3)
stepping = torch.optim.SGD(many, lr=1e-6)


def clip_all(foreach):
    torch.nn.utils.clip_grad_norm_(many, 1e6, foreach=foreach)


print(f"torch {torch.__version__} on {device}")
for name, slow, fast in (
    ("one tensor at a time, against foreach", lambda: clip_all(False), lambda: clip_all(True)),
    ("clipping with foreach, against a step of SGD", lambda: clip_all(True), stepping.step),
):
    print(f"{name}: {time_ratio(slow, fast, pairs=3, seconds=0.4)}")
recorded("clipping")
del many, stepping

# %% [markdown] exercise="clip-global-norm" points=4 minutes=20 difficulty=2
"""
### Clipping by the global norm

Code that uses `torch.func` passes gradients as values and does not store them in parameters, so clipping must not change its input. Write a clipping function for such code.

`clip_by_global_norm(gradients, max_norm) -> tuple[list, float]`

- **In** `gradients`: a list, possibly empty, whose entries are float32 or float64 tensors of any shape, or None (for a parameter without a gradient). The list and its tensors must not change. `max_norm`: a float above 0.
- **Out**: `(clipped, norm)`. `norm` is the global norm of all gradients, a Python float, 0 if there are none. `clipped` has None where None was, and elsewhere a tensor of the same shape and dtype.
  If `norm` is finite and above `max_norm`, one factor for all tensors makes the global norm equal to `max_norm`, up to rounding. Otherwise (including when `norm` is inf or nan), the values are the same to the last bit, in the same tensors or in copies.
- **Limits**: the result must be right for norms as small as 1e-6. Finite entries are small enough that no sum of squares overflows in their dtype.

With `[torch.tensor([3.0]), None, torch.tensor([4.0])]` and `1.0`, the norm is `5.0` and the list is `[tensor([0.6]), None, tensor([0.8])]`.

<!-- hint: Which numbers go into the norm? How many factors are there? -->
<!-- hint: The squares of all entries of all tensors under one root. The factor is used only if the norm is finite and above the bound. -->
<!-- hint: The squared norms of the tensors add up: sum `(g.double() ** 2).sum().item()` over those that are not None, then `math.sqrt`. `math.isfinite` answers whether the factor may be used. -->
"""


# %% solution="clip-global-norm"
def clip_by_global_norm(gradients, max_norm):
    """Return the gradients, scaled so that their global norm is at most ``max_norm``, and the norm before clipping."""
    ### BEGIN SOLUTION
    squares = [(g.double() ** 2).sum().item() for g in gradients if g is not None]
    norm = math.sqrt(sum(squares))
    factor = max_norm / norm if math.isfinite(norm) and norm > max_norm else 1.0
    return [None if g is None else g * factor for g in gradients], norm
    ### END SOLUTION


# %% test="clip-global-norm"
check = Check("clip-global-norm")


def norm_of(gradients):
    return math.sqrt(sum(g.double().square().sum().item() for g in gradients if g is not None))


def call_clip(gradients, max_norm):
    got = check.call(clip_by_global_norm, gradients, max_norm)
    check.true(
        type(got) is tuple and len(got) == 2, "the function did not return a tuple of two items"
    )
    check.true(type(got[0]) is list, "the first item returned is not a list")
    return got


def draw_gradients():
    return [check.draw.normal(3, 4), check.draw.normal(5, std=20.0), check.draw.normal(2, 3, 4)]


def draw_of_norm_one():
    gradients = [check.draw.normal(3, 4), check.draw.normal(6), check.draw.normal(2, 3, 4)]
    return [gradient / gradient.norm() for gradient in gradients]


with check.property("one factor scales a gradient that is too long to the norm max_norm"):
    gradients, bound = draw_gradients(), check.draw.number(0.3, 3.0)
    clipped, norm = call_clip(gradients, bound)
    expected = norm_of(gradients)
    check.close(norm, expected, rtol=1e-5, atol=0.0, what="the norm")
    check.close(clipped, [g * (bound / expected) for g in gradients], what="the clipped gradients")
    # Each tensor alone is shorter than the bound.
    gradients, bound = draw_of_norm_one(), check.draw.number(1.35, 1.6)
    clipped, norm = call_clip(gradients, bound)
    expected = norm_of(gradients)
    check.close(norm, expected, rtol=1e-5, atol=0.0, what="the norm")
    check.close(clipped, [g * (bound / expected) for g in gradients], what="the clipped gradients")
with check.property("a gradient within the bound is returned unchanged, to the last bit", weight=2):
    first, second, third = draw_gradients()
    gradients = [first, None, second.double(), third]
    bound = 1.5 * norm_of(gradients)
    clipped, norm = call_clip(gradients, bound)
    check.close(norm, norm_of(gradients), rtol=1e-5, atol=0.0, what="the norm")
    check.equal(clipped, gradients, what="the gradients")
with check.property("None stays None and does not count; each tensor keeps its dtype and shape"):
    first, second, _ = draw_gradients()
    second = second.double()
    third = 20 + check.draw.normal(4).sum()  # without dimensions
    clipped, norm = call_clip([None, first, second, None, third], 0.5)
    expected = norm_of([first, second, third])
    check.close(norm, expected, rtol=1e-5, atol=0.0, what="the norm")
    scaled = [g if g is None else g * (0.5 / expected) for g in (None, first, second, None, third)]
    check.close(clipped, scaled, rtol=1e-5, atol=0.0, what="the clipped gradients")
    _, norm = call_clip([second], 0.5)
    check.close(norm, norm_of([second]), rtol=1e-9, what="the norm of a float64 gradient")
with check.property("nothing is changed if the norm is inf or nan", weight=2):
    for bad in (math.inf, math.nan):
        gradients = draw_gradients()
        gradients[1][3] = bad
        clipped, norm = call_clip(gradients, 1.0)
        check.close(norm, bad, what="the norm")
        check.equal(clipped, gradients, what="the gradients")
with check.property("gradients with norms near 1e-6 are clipped as accurately as others"):
    gradients = [check.draw.normal(4, 3, std=1e-6), check.draw.normal(6, std=1e-6)]
    expected = norm_of(gradients)
    clipped, norm = call_clip(gradients, 1e-7)
    check.close(norm, expected, rtol=1e-5, atol=0.0, what="the norm")
    scaled = [g * (1e-7 / expected) for g in gradients]
    check.close(clipped, scaled, atol=0.0, rtol=1e-4, what="the clipped gradients")
with check.property("no gradients at all, and gradients of zeros, have the norm 0"):
    for empty in ([], [None, None], [torch.zeros(2, 3), None, torch.zeros(4)]):
        clipped, norm = call_clip(empty, 1.0)
        check.close(norm, 0.0, what="the norm")
        check.equal(clipped, empty, what="the gradients")
with check.property("the input tensors do not change"):
    for factor in (check.draw.number(0.1, 0.9), check.draw.number(1.1, 3.0), math.inf):
        gradients = draw_gradients()
        bound = norm_of(gradients) * min(factor, 0.5 + check.draw.number(0.0, 3.0))
        if factor == math.inf:
            gradients[1][check.draw.integer(0, 5)] = -math.inf
        seen = check.call(probes.after_call, clip_by_global_norm, gradients, bound)
        expected = norm_of(gradients)
        share = bound / expected if bound < expected < math.inf else 1.0
        answer = [g * share for g in gradients], expected
        check.close(seen["output"], answer, rtol=1e-5, what="the clipped gradients, and the norm")
        check.equal(seen["arguments"][0], gradients, what="the gradients after the call")
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("float64 stays float64"):
    gradients = [check.draw.normal(3, 2, dtype=torch.float64), None]
    expected = norm_of(gradients)
    clipped, norm = call_clip(gradients, 0.01)
    check.close(norm, expected, rtol=1e-9, what="the norm")
    check.close(clipped, [gradients[0] * (0.01 / expected), None], rtol=1e-7, what="float64")
with check.property("a tensor without dimensions, and one without entries"):
    gradients = [check.draw.normal(4)[0] + 5.0, torch.zeros(0, 3), check.draw.normal(2, 5)]
    expected = norm_of(gradients)
    clipped, norm = call_clip(gradients, 0.3)
    check.close(norm, expected, rtol=1e-5, atol=0.0, what="the norm")
    check.close(clipped, [g * (0.3 / expected) for g in gradients], what="the clipped gradients")
### END HIDDEN TESTS
check.score()

# %% [markdown]
r"""
## Schedules count optimizer steps

A **learning-rate schedule** changes the learning rate during training. Three examples:

- `StepLR(optimizer, step_size=10, gamma=0.1)` multiplies the rate by 0.1 every 10 steps.
- `CosineAnnealingLR(optimizer, T_max=n)` follows half a cosine period from the initial learning rate down to 0 in $n$ steps (Loshchilov and Hutter 2017).
- Warm-up and decay: the rate rises and then falls, in each phase linearly or along a cosine. `OneCycleLR` implements one such schedule; `LambdaLR` multiplies the initial learning rate by any function of the step.

A scheduler does not count optimizer steps. It counts calls to `scheduler.step()`, so call that method once after every `optimizer.step()`. In a loop with accumulation, it is easy to call `scheduler.step()` after every micro-batch instead. The function below can do either:
"""


# %%
def rates(make_scheduler, optimizer_steps, calls_per_step):
    """Return the learning rate of each optimizer step."""
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    scheduler = make_scheduler(optimizer)
    seen = []
    for _ in range(optimizer_steps):
        seen.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        for _ in range(calls_per_step):
            scheduler.step()
    return seen


# %% folded="Three schedules"
schedules = {
    "StepLR": lambda o: torch.optim.lr_scheduler.StepLR(o, step_size=10, gamma=0.1),
    "CosineAnnealingLR": lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, T_max=40),
    "warm-up of 16 steps, then linear decay": lambda o: torch.optim.lr_scheduler.LambdaLR(
        o, lambda step: min((step + 1) / 16, max(0.0, (40 - step) / 24))
    ),
}
cosine = rates(schedules["CosineAnnealingLR"], 40, 2)

# %% folded="Predict: a schedule that is called twice"
predict(
    "05/cosine-at-the-end",
    "A cosine schedule with `T_max=40` should fall from 1 to 0 in 40 optimizer steps, but `scheduler.step()` is called twice per optimizer step. What is the learning rate in the last of the 40 optimizer steps?",
    cosine[-1],
    "The scheduler has been called 78 times by then. The cosine reaches 0 at the 40th call and then rises again.",
    between=(0, 1),
)

# %% folded="Figure 5.10: three schedules, called once and twice per step"
figure, grid = new_figure(1, 3, height=3.1, sharey=True)
for axes, (name, make_scheduler) in zip(grid, schedules.items(), strict=True):
    axes.plot(rates(make_scheduler, 40, 1), color=COLORS["blue"], label="once per step")
    axes.plot(
        *(rates(make_scheduler, 40, 2), "--"),
        color=COLORS["vermilion"],
        label="once per micro-batch, k = 2",
    )
    axes.set(title=name.replace(", ", ",\n"), xlabel="optimizer step")
grid[0].set_ylabel("rate (1 is the base rate)")
figure.legend(
    *grid[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False
)
show(
    figure,
    number="5.10",
    caption="If `scheduler.step()` is called after every micro-batch (k = 2), StepLR falls too early, the cosine climbs back almost to its initial value, and the schedule with a warm-up reaches 0 halfway through training.",
    alt="Learning rate against optimizer step for three schedules. Stepped once per optimizer step: StepLR falls "
    "by a factor of ten every 10 steps; the cosine falls to 0 at step 40; the rate with the warm-up rises for 16 steps and then falls to 0. Stepped once "
    "per micro-batch with k of 2: StepLR falls every 5 steps, the cosine falls to 0 at step 20 and rises almost to 1 again, the "
    "warm-up lasts 8 steps and the rate is 0 from step 20 on.",
)

# %% [markdown]
"""
The next cell prints two values of the cosine, and then tries a warm-up with $k = 16$ and `OneCycleLR` with $k = 2$:
"""

# %%
print(f"cosine, once per micro-batch: {cosine[19]:.2f} at step 19, {cosine[-1]:.2f} at step 39")
early = rates(schedules["warm-up of 16 steps, then linear decay"], 3, 16)
print("warm-up with k = 16: the rates of the first three steps are", [round(r, 2) for r in early])
try:
    rates(lambda o: torch.optim.lr_scheduler.OneCycleLR(o, max_lr=1.0, total_steps=40), 40, 2)
except ValueError as error:
    print("OneCycleLR:", str(error).split(".")[0])

# %% [markdown]
r"""
`CosineAnnealingLR` is periodic: with $k = 2$ it goes through a full period, and training ends almost at the initial learning rate. `OneCycleLR` raises an error at the first call beyond `total_steps`. With $k = 16$, a warm-up of 16 steps is over after one optimizer step, and by the third step the decay has already cut the rate by two thirds.
A Lightning user ran into this bug with a warm-up of 16,000 steps ([issue 1476](https://github.com/Lightning-AI/pytorch-lightning/issues/1476)).

The length that you pass to the scheduler must also be counted in optimizer steps. With $M$ micro-batches in an epoch, an epoch has $\lceil M / k \rceil$ optimizer
steps, rounded up because the optimizer also steps on the incomplete window. A scheduler that counts *epochs* is called once per epoch, whatever $k$ is.

## Everything in order

Training in float16 uses a **gradient scaler** (chapter 04). It multiplies the loss by a large power of two, so that small gradients do not vanish in
the backward pass. Before the optimizer step it divides the gradients by the same number. If a gradient is inf or nan, `scaler.step` skips the optimizer's step, and `scaler.update` halves the scale. Each call has its place:

For each **micro-batch**:

1. forward pass and mean loss
2. the mean loss times the micro-batch's share of the window
3. `scaler.scale(loss).backward()`

Then, once for the **window**:

1. `scaler.unscale_(optimizer)`: divides by the scale
2. `clip_grad_norm_(...)`: now the norm is that of the true gradient
3. `scaler.step(optimizer)`: steps, or skips
4. `scaler.update()`: may change the scale
5. `scheduler.step()`, *if the optimizer stepped*
6. `optimizer.zero_grad()`, also after a skipped step

Call `update` once per window, because it may change the scale. Otherwise `.grad` would hold a sum of gradients with two scales, which no single division can undo. Call `unscale_` once, because it divides in place; a second call raises an error:
"""

# %%
model = make_classifier()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
try:
    for inputs, labels in cut(50):
        scaler.scale(functional.cross_entropy(model(inputs), labels) / 2).backward()
        scaler.unscale_(optimizer)
except RuntimeError as error:
    print("RuntimeError:", error)

# %% [markdown]
"""
Many other wrong orders raise no error. In the table below, each row is one call, and each column is one window of a model with a single weight. A
cell shows the state after its call, and its bar shows the size of `.grad` on a logarithmic scale. Drag a call to another
row, or move it with the arrow keys, and choose the window in which an inf occurs. Which orders give the right step in every window?
"""

# %%
explore_steps(["backward", "clip", "unscale", "step", "schedule", "update", "clear"], inf=2)

# %% [markdown]
"""
The next cells test the right order and four mistakes on the classifier with PyTorch. One scaled and clipped step on the whole batch is the reference for one step over four micro-batches
(32, 32, 32 and 4). The cells compare the *updates*, that is, the changes in the weights.
"""


# %% folded="Measure: one step, with its calls in a given order"
def take_steps(order, sizes=(32, 32, 32, 4), mean_of_means=False, steps=1, bound=0.1):
    """Return a classifier after ``steps`` of 100 images, its calls in ``order``."""
    model = make_classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    calls = {
        "unscale": lambda: scaler.unscale_(optimizer),
        "clip": lambda: torch.nn.utils.clip_grad_norm_(model.parameters(), bound),
        "clip as if unscaled": lambda: torch.nn.utils.clip_grad_norm_(
            model.parameters(), bound * scaler.get_scale()
        ),
        "step": lambda: scaler.step(optimizer),
        "update": scaler.update,
        "clear": optimizer.zero_grad,
    }
    for _ in range(steps):
        for part, labels in cut(sizes):
            losses = functional.cross_entropy(model(part), labels, reduction="sum")
            scaler.scale(losses / (len(part) * len(sizes) if mean_of_means else 100)).backward()
            for call in order.get("after each", ()):
                calls[call]()
        for call in order["at the end"]:
            calls[call]()
    return model


def weights_of(model):
    return torch.nn.utils.parameters_to_vector(model.parameters()).detach()


RIGHT = {"at the end": ["unscale", "clip", "step", "update", "clear"]}
ORDERS = {
    "right": RIGHT,
    "mean of means": RIGHT,
    "clip after each micro-batch": {
        "after each": ["clip as if unscaled"],
        "at the end": ["unscale", "step", "update", "clear"],
    },
    "clip before unscale_": {"at the end": ["clip", "unscale", "step", "update", "clear"]},
    "clip after step": {"at the end": ["unscale", "step", "clip", "update", "clear"]},
}
start = weights_of(make_classifier())
full_update = weights_of(take_steps(RIGHT, sizes=(100,))) - start
updates = {
    name: weights_of(take_steps(order, mean_of_means=name == "mean of means")) - start
    for name, order in ORDERS.items()
}
furthest = max(updates, key=lambda name: relative_error(updates[name], full_update))

# %% folded="Predict: the step that is furthest off"
predict(
    "05/longest-step",
    "Which mistake gives the update with the largest relative error?",
    furthest,
    "An update that is not clipped at all is about three times as long as it should be. An update that is far too short has an error of at most 1.",
    choices=[name for name in updates if name != "right"],
)

# %%
print(f"norm of the gradient: {true_gradient.norm().item():.2f}, clipped at 0.1")
for name, update in updates.items():
    error = relative_error(update, full_update)
    length = update.norm() / full_update.norm()
    print(f"{name:<28} off by {told(error):<9} length {length:.3f}")

# %% [markdown]
r"""
The right order gives the step of the whole batch up to rounding. (The scale is a power of two, so multiplying by it causes no rounding.) The mistakes:

- *Clip before `unscale_`* compares the bound with a norm that is 1024 times as large as the true one, clips, and then divides by 1024. The step is about a
  thousandth of what it should be.
- *Clip after each micro-batch* clips partial sums. The last clipping gives the right norm, but the direction is wrong.
- *Clip after step* changes gradients that are no longer used. The step is three times as long as it should be.
- *Mean of means* has the right length here, because clipping gives every long gradient the same length. Its direction is wrong.

Over many steps, clipping before `unscale_` looks like a learning rate that is far too small:
"""

# %%
for name in ("right", "clip before unscale_"):
    model = take_steps(ORDERS[name], steps=100, bound=1.0)
    with torch.no_grad():
        loss = functional.cross_entropy(model(pixels[:100]), digit_labels[:100])
    print(f"{name}: loss {loss.item():.2f} after 100 steps")

# %% [markdown]
r"""
### Did the optimizer step?

`scaler.step` does not say whether the optimizer stepped. But after a skipped step, `update()` lowers the scale, and with one optimizer nothing else lowers it. After `growth_interval` (2,000 by default) steps in a row without inf or nan, the scale *grows*.
So compare the scale before and after `update()`: if it is smaller now, the step was skipped. With a disabled scaler, `get_scale()` always returns 1.
"""

# %%
weight = torch.nn.Parameter(torch.tensor([1.0]))
optimizer = torch.optim.SGD([weight], lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=1)
print("gradient  scale before and after  weight")
for slope in (1.0, math.inf, 1.0):
    before = scaler.get_scale()
    scaler.scale((slope * weight).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    print(f"{slope:>8}{before:>10.0f}{scaler.get_scale():>11.0f}{weight.item():>12.2f}")
    optimizer.zero_grad()

# %% [markdown]
"""
If the schedule advances after a skipped step, it runs ahead of the optimizer. At the beginning of a float16 run the scale may be too high; then the first steps of a
warm-up are used up without a single optimizer step. If the very first step is skipped, PyTorch warns of a "call of `lr_scheduler.step()` before `optimizer.step()`"; later it is silent. Two PyTorch issues on this problem have been open since 2020 and 2021
([44511](https://github.com/pytorch/pytorch/issues/44511), [55585](https://github.com/pytorch/pytorch/issues/55585)). On a GPU, `get_scale()` waits for the device, so Accelerate checks instead whether `optimizer.step` was called
([pull request 1720](https://github.com/huggingface/accelerate/pull/1720)).

### What to log

Log the loss that is minimized: the loss over the *window*, computed before its step. The loss of the last micro-batch is only a noisy estimate of that loss, and
the sum of the micro-batches' losses is a different number:
"""

# %%
model = make_classifier()
with torch.no_grad():
    parts = [(functional.cross_entropy(model(x), y).item(), len(y)) for x, y in cut(32)]
    whole = functional.cross_entropy(model(pixels[:100]), digit_labels[:100]).item()
print(f"sum of the losses:  {sum(loss for loss, _ in parts):.2f}")
print(f"mean of the losses: {sum(loss for loss, _ in parts) / len(parts):.2f}")
print(f"the window's loss:  {whole:.2f}")

# %% [markdown]
"""
The sum is about $k$ times the window's loss. Sometimes only the log is wrong. In nanoGPT, however, the loss was not divided before `backward` either. Adam hid the bug, but the gradient was $k$ times as large as it should have been, so the clipping bound was effectively
only $1/k$ of its nominal value ([issue 168](https://github.com/karpathy/nanoGPT/issues/168)). In axolotl, 8 micro-batches gave a loss of 84 instead of
10.5, and the norm of the gradient was wrong too ([issue 2262](https://github.com/axolotl-ai-cloud/axolotl/issues/2262)).

The mean of the losses is nearly right, because all rows are about equally hard here. Yet these micro-batches correspond to one of the points in figure 5.1, the one for size 32, and the gradient of their mean of means
has a relative error of 70 percent. A loss that looks right proves nothing about the gradient.

Also log the norm *before* clipping, the learning rate, whether the step was skipped, and the number of tokens seen so far. On a
GPU each `.item()` waits for the device, so add up detached tensors and call `.item()` once per window.
"""

# %% [markdown] exercise="full-loop" points=6 minutes=35 difficulty=3
"""
### The full loop

A full float16 training loop adds a scaler, clipping, a schedule and a log to `train_epoch`. Write that loop.

`train_scaled(model, optimizer, loss_function, micro_batches, steps, max_norm, scaler, scheduler) -> list[dict]`

- **In**: as for `train_epoch`, with one learning rate for all parameter groups; `max_norm`, the bound on the global norm over all parameters; `scaler`, a `torch.amp.GradScaler` (if it is disabled, all gradients are finite); `scheduler`, to advance once after every step that was not skipped.
- **Out**: a list with one dict per window: `"loss"`, the mean loss over its rows; `"norm"`, the global norm of its unscaled gradient before clipping; `"rate"`, the learning rate of this step, even if the step was skipped (all three are floats); and `"stepped"`, a bool.
- The scaler skips a window with an inf or nan in its gradient: `"stepped"` is False, the schedule waits, `"loss"` and `"norm"` may be any float, and the next window is not affected. Update the scaler once per window; its scale may shrink or grow.
- **Limits**: those of `train_epoch`. No autocast; `clip_grad_norm_` is allowed.

With two windows, the second with an inf, and `StepLR(optimizer, 1, 0.5)` starting at 0.4, `"rate"` is 0.4 and then 0.2, and `"stepped"` is True and then False.

<!-- hint: Go through the two lists of this section: which calls stand in the inner loop, which after it? What must be asked before `update`, and what after it? -->
<!-- hint: Start from `train_epoch`. `accumulate` cannot be used as it is, since each loss must go through `scaler.scale` before `backward`. Before that it is multiplied by its share of the window's rows, and the sum of these products is the loss to log. -->
<!-- hint: After the inner loop: unscale, clip (keep the norm), note the rate and the scale, step, update. It stepped if the scale is not smaller than noted. Then the schedule, and the gradients are cleared in any case. -->
"""


# %% solution="full-loop"
def train_scaled(
    model, optimizer, loss_function, micro_batches, steps, max_norm, scaler, scheduler
):
    """Take one scaled, clipped step per window; return a dict of what happened in each."""
    ### BEGIN SOLUTION
    log = []
    optimizer.zero_grad()
    while window := list(itertools.islice(micro_batches, steps)):
        total = sum(len(inputs) for inputs, _ in window)
        mean = 0.0
        for inputs, targets in window:
            loss = loss_function(model(inputs), targets) * (len(inputs) / total)
            scaler.scale(loss).backward()
            mean += loss.item()
        scaler.unscale_(optimizer)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm).item()
        rate, scale = optimizer.param_groups[0]["lr"], scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        stepped = scaler.get_scale() >= scale
        if stepped:
            scheduler.step()
        optimizer.zero_grad()
        log.append({"loss": mean, "norm": norm, "rate": rate, "stepped": stepped})
    return log
    ### END SOLUTION


# %% test="full-loop"
check = Check("full-loop")
sgd = {"lr": 0.4, "momentum": 0.9, "weight_decay": 0.1}


def draw_task(rows, inputs, hidden, classes):
    state = {
        "0.weight": check.draw.normal(hidden, inputs),
        "0.bias": check.draw.normal(hidden),
        "2.weight": check.draw.normal(classes, hidden),
        "2.bias": check.draw.normal(classes),
    }
    model = [["Linear", inputs, hidden], ["Tanh"], ["Linear", hidden, classes]]
    pairs = [
        (check.draw.normal(n * inputs).view(n, inputs), check.draw.integers(n, low=0, high=classes))
        for n in rows
    ]
    return model, state, pairs


def draw_normed_task(rows, features, classes):
    """Return a BatchNorm and a linear layer, with their state: its weights come first."""
    state = {
        "0.weight": check.draw.uniform(features, low=0.5, high=2.0),
        "0.bias": check.draw.normal(features),
        "1.weight": check.draw.normal(classes, features),
        "1.bias": check.draw.normal(classes),
        "0.running_mean": check.draw.normal(features),
        "0.running_var": check.draw.uniform(features, low=0.5, high=3.0),
        "0.num_batches_tracked": torch.tensor(check.draw.integer(2, 9)),
    }
    _, _, pairs = draw_task(rows, features, 2, classes)
    return [["BatchNorm1d", features], ["Linear", features, classes]], state, pairs


def two_layers(leaves, x):
    hidden = functional.linear(x, leaves["0.weight"], leaves["0.bias"]).tanh()
    return functional.linear(hidden, leaves["2.weight"], leaves["2.bias"])


def normed(leaves, x):
    x = (x - x.mean(dim=0)) / (x.var(dim=0, correction=0) + 1e-5).sqrt()
    return functional.linear(
        x * leaves["0.weight"] + leaves["0.bias"], leaves["1.weight"], leaves["1.bias"]
    )


def by_hand(state, pairs, steps, bounds, scale, growth, scheduler, enabled, compute):
    """All rows of each window, in float64, with the scaler's and the schedule's rules."""
    state = {name: value.double() for name, value in state.items()}
    log, made, good, rate, speed = [], 0, 0, sgd["lr"], dict.fromkeys(state, 0.0)
    for start in range(0, len(pairs), steps):
        leaves = {name: value.clone().requires_grad_(True) for name, value in state.items()}
        window = pairs[start : start + steps]
        outputs = torch.cat([compute(leaves, x.double()) for x, _ in window])
        loss = functional.cross_entropy(outputs, torch.cat([y for _, y in window]))
        slopes = torch.autograd.grad(loss, list(leaves.values()))
        norm = torch.cat([slope.flatten() for slope in slopes]).norm().item()
        stepped = math.isfinite(norm)
        log.append({"loss": loss.item(), "norm": norm, "rate": rate, "stepped": stepped})
        if stepped:
            for name, slope in zip(state, slopes, strict=True):
                decay = sgd["weight_decay"] if state[name].dim() > 1 else 0.0  # none for a bias
                slope = slope * min(1.0, bounds / norm) + decay * state[name]
                speed[name] = sgd["momentum"] * speed[name] + slope
                state[name] = state[name] - rate * speed[name]
            made, good = made + 1, good + 1
            rate = sgd["lr"] * scheduler["gamma"] ** (made // scheduler["step_size"])
            if good == growth and enabled:
                scale, good = 2 * scale, 0
        else:
            scale, good = scale / 2, 0
    return log, state, rate, scale


def agrees_by_hand(task, steps, bound, growth=1000, schedule=(1000, 0.5), enabled=True, old=None):
    model, state, pairs = task
    scale = 256.0 if enabled else 1.0
    scheduler = {"step_size": schedule[0], "gamma": schedule[1]}
    got = check.call(
        probes.trained_in_windows,
        train_scaled,
        model,
        pairs,
        steps=steps,
        max_norm=bound,
        optimizer=sgd,
        scaler={"init_scale": 256.0, "growth_interval": growth, "enabled": enabled},
        scheduler=scheduler,
        state_dict=state,
        **({"old_gradients": old} if old else {}),
    )
    compute = normed if "0.running_mean" in state else two_layers
    weights = {name: value for name, value in state.items() if name.endswith(("weight", "bias"))}
    rules = bound, scale, growth, scheduler, enabled
    log, after, rate, scale = by_hand(weights, pairs, steps, *rules, compute)
    same_training(got, weights, log, after)
    check.close(got["learning_rate"], rate, rtol=1e-6, what="the rate at the end")
    check.true(all(got["modes"].values()), "the model is not in training mode after the call")
    check.close(got["scale"], scale, what="the scale at the end")


def same_training(got, weights, log, after):
    """The log first: in it a mistake has a name, and in the weights all look alike."""
    check.true(type(got["output"]) is list, "the function did not return a list")
    check.close(len(got["output"]), len(log), what="the number of windows in the list")
    for number, (entry, expected) in enumerate(zip(got["output"], log, strict=True)):
        what = f"[{number}]"
        check.true(type(entry) is dict, f"{what} of the list is not a dict")
        check.true(set(entry) == set(expected), f"{what}: the keys are {sorted(map(str, entry))}")
        check.close(entry["stepped"], expected["stepped"], what=f'{what}["stepped"]')
        check.close(entry["rate"], expected["rate"], rtol=1e-6, what=f'{what}["rate"]')
        if expected["stepped"]:
            check.close(entry["loss"], expected["loss"], rtol=1e-3, what=f'{what}["loss"]')
            check.close(entry["norm"], expected["norm"], rtol=1e-3, what=f'{what}["norm"]')
    for name, start in weights.items():
        way = (after[name] - start).abs().max().item()
        what, value = f"{name} at the end", after[name].float()
        check.close(got["state_dict"][name], value, rtol=0.0, atol=2e-3 * way + 1e-5, what=what)


with check.property("two full windows, nothing to clip and nothing to skip"):
    agrees_by_hand(draw_task([3, 3, 3, 3], 5, 4, 3), 2, 1e4)
with check.property("the gradient is unscaled, then clipped, at the end of the window", weight=2):
    agrees_by_hand(draw_task([4] * 6, 4, 6, 3), 3, 0.05)
with check.property("the schedule counts optimizer steps"):
    agrees_by_hand(draw_task([2] * 8, 6, 4, 5), 2, 1e4, schedule=(2, 0.25))
with check.property("micro-batches of different sizes, in full windows"):
    agrees_by_hand(draw_task([1, 6, 3, 2, 7, 4], 3, 5, 4), 3, 0.2)
with check.property("the optimizer steps on a short last window, too"):
    agrees_by_hand(draw_task([4] * 5, 4, 3, 5), 3, 0.2)
with check.property("a window with an inf is skipped, and the next one is not affected", weight=2):
    task = draw_task([3] * 8, 5, 3, 4)
    task[2][3][0][1, 2] = math.inf
    agrees_by_hand(task, 2, 0.3, schedule=(1, 0.5))
with check.property("a growing scale is not mistaken for a skipped step"):
    agrees_by_hand(draw_task([2, 5, 1, 4, 3], 4, 3, 5), 2, 0.3, growth=1, schedule=(1, 0.5))
with check.property("gradients stored before the call are discarded"):
    task = draw_task([2, 3, 1, 4], 3, 4, 5)
    old = {name: 256 * (1 + value.abs()) for name, value in task[1].items()}
    agrees_by_hand(task, 2, 1e4, old=old)
with check.property("a network with BatchNorm sees each micro-batch by itself, in training mode"):
    rows, steps = (4 + check.draw.permutation(8)[:5]).tolist(), 3
    agrees_by_hand(draw_normed_task(rows, 4, 3), steps, 0.5)
with check.property(
    "each forward pass is followed by its backward pass before the next one begins"
):
    steps, windows = check.draw.integer(2, 4), 2
    # Any two of these are more than the largest, and one is left for a short window.
    rows = (7 + check.draw.permutation(7)[: windows * steps + 1]).tolist()
    model, state, pairs = draw_task(rows, *(3 + check.draw.permutation(4)[:3]).tolist())
    scheduler = {"step_size": 2, "gamma": 0.5}
    seen = check.call(
        probes.forward_passes,
        train_scaled,
        model,
        pairs,
        steps=steps,
        max_norm=0.5,
        optimizer=sgd,
        scaler={"init_scale": 256.0},
        scheduler=scheduler,
        state_dict=state,
    )
    rules = 0.5, 256.0, 1000, scheduler, True
    log, after, *_ = by_hand(state, pairs, steps, *rules, two_layers)
    same_training(seen, state, log, after)
    check.true(
        seen["rows"] <= max(rows),
        f"a forward pass saw {seen['rows']} rows, and the largest micro-batch has {max(rows)}",
    )
    check.true(
        seen["waiting"] <= 1,
        f"{seen['waiting']} forward passes were waiting for their backward pass at the same time",
    )
    check.equal(seen["passes"], len(pairs), what="the number of forward passes")
    check.true(
        seen["ahead"] <= 1,
        f"{seen['ahead']} pairs of later windows had been taken from the iterator before a step",
    )
with check.property("the scaler may be disabled"):
    agrees_by_hand(draw_task([4, 1, 6], 3, 4, 5), 2, 0.1, schedule=(1, 0.5), enabled=False)
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("a disabled scaler in a longer run, where one that is not would grow"):
    task = draw_task([2, 5, 1, 4, 3, 6, 2], 4, 5, 3)
    agrees_by_hand(task, 2, 0.3, growth=1, schedule=(2, 0.25), enabled=False)
with check.property("the first and the last window are skipped, the scale grows between"):
    task = draw_task([2, 4, 1, 3, 5, 2, 3, 1, 6], 4, 5, 3)
    task[2][0][0][1, 0], task[2][8][0][2, 3] = math.nan, math.inf
    agrees_by_hand(task, 2, 0.2, growth=2, schedule=(2, 0.1))
### END HIDDEN TESTS
check.score()

# %% [markdown]
r"""
## The same sum over processes

Accumulation spreads a batch over time. **Data-parallel training** spreads it over processes. Each process has a number, its **rank**, and the process itself is also called a rank. It has a copy of the model and computes the gradient of its own rows, and an
**all-reduce** then averages the gradients over all ranks. `DistributedDataParallel` (DDP) does so in every backward pass, with one all-reduce for each bucket (a group of gradients that are sent together); the small model here needs only one bucket.

If you combine the two, all but the last of these all-reduces are wasted, because nothing needs the average before the window is complete. Inside `no_sync()`, DDP skips the all-reduce, so each rank only adds to its own `.grad`.
Run the forward and backward passes of all micro-batches but the last inside `no_sync()`. All ranks must synchronize the same number of times: if one rank has no micro-batch in a window, the others wait until the process group times out.
"""

# %% folded="Drawing: two ranks, with and without no_sync"
show_drawing(
    "05/no-sync",
    number="5.11",
    caption="Two ranks with three micro-batches each. Without `no_sync` the ranks wait for each other three times; with `no_sync`, once.",
    alt="Two panels with two ranks each, and three micro-batches per rank. In the first panel an all-reduce connects the ranks after each "
    "backward pass. In the second panel it does so only after the third backward pass.",
)


# %%
def accumulate_on_rank(model, micro_batches, whole, use_no_sync):
    """Accumulate the gradient of the mean over the ``whole`` rows of all ranks."""
    ranks = torch.distributed.get_world_size()
    for number, (inputs, labels) in enumerate(micro_batches, start=1):
        is_early = use_no_sync and number < len(micro_batches)
        with model.no_sync() if is_early else contextlib.nullcontext():
            losses = functional.cross_entropy(model(inputs), labels, reduction="sum")
            (losses * ranks / whole).backward()  # DDP divides by the number of ranks


# %% folded="Run the loop in two processes on this machine (gloo), and count the all-reduces"
import datetime
import gc
import os
import socket
import tempfile
from pathlib import Path

from torch.distributed.algorithms.ddp_comm_hooks import default_hooks


def measure_on_rank(micro_batches, whole, use_no_sync):
    """Return the gradient and the number of all-reduces."""
    model = torch.nn.parallel.DistributedDataParallel(make_classifier())
    count = []

    def count_and_reduce(count, bucket):
        count.append(1)
        return default_hooks.allreduce_hook(None, bucket)

    model.register_comm_hook(count, count_and_reduce)
    accumulate_on_rank(model, micro_batches, whole, use_no_sync)
    return gradient_of(model), len(count)


def run_rank(rank, folder, micro_batches, whole):
    """Be one of two ranks; save what was measured without and with no_sync."""
    loopback = [name for _, name in socket.if_nameindex() if name.startswith("lo")]
    if loopback:
        os.environ["GLOO_SOCKET_IFNAME"] = loopback[0]
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo",
        init_method=(Path(folder) / "rendezvous").as_uri(),
        rank=rank,
        world_size=2,
        timeout=datetime.timedelta(minutes=2),
    )
    seen = [measure_on_rank(micro_batches[rank], whole, use) for use in (False, True)]
    torch.save(seen, Path(folder) / f"rank{rank}.pt")
    gc.collect()  # a DDP model that outlives the process group may wait for it forever
    torch.distributed.destroy_process_group()


def run_on_two_ranks():
    """Return what each of two ranks saved."""
    parts = cut([32, 8, 20, 16, 20, 4])
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(
            by_value(run_rank), args=(folder, [parts[:3], parts[3:]], 100), nprocs=2
        )
        return [torch.load(Path(folder) / f"rank{rank}.pt") for rank in range(2)]


# %% [markdown]
"""
Two processes on this machine run the function, first without and then with `no_sync`:
"""

# %%
first_rank, second_rank = run_on_two_ranks()
for name, (gradient, count), (other, _) in zip(
    ("without no_sync", "with no_sync"), first_rank, second_rank, strict=True
):
    error = told(relative_error(gradient, true_gradient))
    same = (
        "the same gradient on both ranks" if torch.equal(gradient, other) else "different gradients"
    )
    print(f"{name}: {count} all-reduces, {same}")
    print(f"    relative error against the gradient of all 100 images: {error}")

# %% [markdown]
r"""
Rank 0 has micro-batches of 32, 8 and 20 images, and rank 1 has micro-batches of 16, 20 and 4. The result is still the gradient of the whole batch, because each summed loss is divided by the number of rows
*on all ranks*. DDP then averages over the ranks, so the code multiplies the loss by the number of ranks first. A mean over each rank's own rows would be a mean of means again, this time across ranks.

With tokens, the ranks also have to add up their label counts with `torch.distributed.all_reduce`, before they divide the losses or, at the latest, before they divide `.grad`.

## BatchNorm does not know about the window

BatchNorm normalizes each row with the mean and the variance of its batch (chapter 01), and its batch is the *micro*-batch. So the output of a row
depends on the other rows of its micro-batch, and no weighting of losses gives the gradient of the whole batch. (In training mode, inputs of shape (N, C) with a single row raise an error.) `SyncBatchNorm` computes the statistics over all ranks, but PyTorch has no layer that computes them over the micro-batches of a window.
"""


# %% folded="Measure: accumulation with BatchNorm and with LayerNorm"
def error_with(norm, size, rows=96):
    """Return the error of the accumulated gradient of a network with a norm layer."""

    def gradient(step):
        torch.manual_seed(0)
        model = torch.nn.Sequential(
            *(torch.nn.Linear(64, 32), norm(32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
        )
        for start in range(0, rows, step):
            part = slice(start, start + step)
            losses = functional.cross_entropy(
                model(pixels[part]), digit_labels[part], reduction="sum"
            )
            (losses / rows).backward()
        return gradient_of(model)

    return relative_error(gradient(size), gradient(rows))


norm_errors = {
    name: [error_with(getattr(torch.nn, name), size) for size in (48, 16, 8, 4)]
    for name in ("BatchNorm1d", "LayerNorm")
}

# %% folded="Predict: BatchNorm in two halves"
predict(
    "05/batch-norm",
    "A loop processes 96 rows, 48 at a time, and weights every loss by its share: what is the relative error of the gradient of a network with `BatchNorm1d`?",
    100 * norm_errors["BatchNorm1d"][0],
    "Each half of the batch is normalized by its own mean and variance, which differ from those of the whole.",
    between=(0, 100),
    unit="%",
)

# %%
print("rows at a time:          48       16        8        4")
for name, found in norm_errors.items():
    print(f"{name:<18}" + "".join(f"{told(error):>9}" for error in found))

# %% [markdown]
r"""
No choice of weights for the losses can repair this. Layers that normalize each row by itself (layer norm, group norm, instance norm) do not have the problem, which is one
reason to prefer them when memory forces tiny batches (chapter 01).

Accumulation has a second effect on BatchNorm, and this one can be repaired. BatchNorm keeps **running statistics** for evaluation. With momentum $m$, each forward pass in
training mode computes

$$\text{running} \leftarrow (1 - m) \cdot \text{running} + m \cdot \text{batch}$$

The momentum was chosen for one forward pass per optimizer step. With $k$ micro-batches there are $k$ forward passes, so the running statistics from before the step keep the weight $(1 - m)^k$ instead of $1 - m$:
"""

# %%
layer = torch.nn.BatchNorm1d(1, momentum=0.1)
for k in (1, 8, 32):
    layer.reset_running_stats()
    layer.running_mean.fill_(1.0)
    for _ in range(k):
        layer(torch.tensor([[-1.0], [1.0]]))  # the mean is 0: what is left of 1 is the old share
    print(f"k = {k:>2}: {layer.running_mean.item():.3f} of the old mean is left after one step")

# %% folded="Figure 5.12: what is left of the running mean"
figure, axes = new_figure(height=2.8)
ages = list(range(25))
for k, color, style in ((1, "blue", "-"), (8, "vermilion", "--"), (32, "orange", ":")):
    left = [0.9 ** (k * age) for age in ages]
    axes.plot(ages, left, style, color=COLORS[color], label=f"k = {k}, momentum 0.1")
axes.set(
    title="What is left of the old running mean",
    xlabel="optimizer steps",
    ylabel="fraction left",
    ylim=(0, 1.05),
)
axes.legend()
show(
    figure,
    number="5.12",
    caption="With one micro-batch per step, about a third of the old running mean is left after ten steps. With 32 micro-batches per step, almost nothing is left after one step.",
    alt="Fraction of the old running mean that is left, against optimizer steps. With one micro-batch per step it falls slowly, to "
    "a third after ten steps. With 8 it is below a half after one step and near 0 after five. With 32 it is near 0 after one.",
)

# %% [markdown]
r"""
With $k = 32$, the running statistics come almost entirely from the last step's micro-batches, so they average over fewer rows and are noisier. Choose a smaller momentum $m'$, so that $k$ updates forget as much as one update did.

Two smaller effects remain. Within a window, later micro-batches still have slightly more weight. And the running variance is a mean of the variances *within* micro-batches.
For inputs of shape (N, C) with independent rows, this mean has the right expected value, because PyTorch takes the *unbiased* variance of each micro-batch. In `BatchNorm2d` and `BatchNorm3d`, however, the pixels of an image are correlated, so a micro-batch of few images underestimates the variance *between* images, and a micro-batch of one image misses it entirely. No momentum corrects that.

A request for a BatchNorm that takes accumulation into account has been open since 2020
([pytorch issue 46516](https://github.com/pytorch/pytorch/issues/46516)).
"""

# %% [markdown] exercise="batch-norm-momentum" points=4 minutes=15 difficulty=2
"""
### A momentum that corrects for accumulation

If the BatchNorm momenta of a model were tuned without accumulation, accumulation makes the running statistics forget too fast. Write the function that prepares such a model for accumulation.

`adjust_batch_norms(model, count) -> None`

- **In** `model`: a module that may contain `BatchNorm1d`, `BatchNorm2d` and `BatchNorm3d` at any depth, or be one. Their momenta differ; each is `None` or a number from 0 to 1, inclusive. `count`: the number of forward passes per optimizer step, at least 1.
- **Out**: nothing. Afterwards, `count` forward passes leave the old running statistics of each of these layers with the same weight as one forward pass did before the call, even if a layer is registered in two places. A momentum of `None` stays: it selects a plain average over all batches.
- **Limits**: nothing else may change, neither other layers (`InstanceNorm1d` has a momentum, too; `SyncBatchNorm` does not occur) nor weights, running statistics, `num_batches_tracked` or the mode.

After `adjust_batch_norms(model, 2)`, a layer whose momentum was 0.19 has the momentum 0.1, up to rounding.

<!-- hint: Over `count` passes the old statistics keep one minus the momentum, to the power of `count`. What should that be equal to? -->
<!-- hint: One minus the new momentum is the `count`-th root of one minus the old one. `model.modules()` goes through all modules, at every depth. -->
<!-- hint: For each module that is an instance of one of the three classes and whose momentum is not None: the new momentum is `1 - (1 - m) ** (1 / count)`, with m the old one. -->
"""


# %% solution="batch-norm-momentum"
def adjust_batch_norms(model, count):
    """Set the momentum of each BatchNorm for ``count`` forward passes per optimizer step."""
    ### BEGIN SOLUTION
    kinds = torch.nn.BatchNorm1d, torch.nn.BatchNorm2d, torch.nn.BatchNorm3d
    for module in model.modules():
        if isinstance(module, kinds) and module.momentum is not None:
            module.momentum = 1 - (1 - module.momentum) ** (1 / count)
    ### END SOLUTION


# %% test="batch-norm-momentum"
check = Check("batch-norm-momentum")


def draw_buffers(prefix, features):
    return {
        f"{prefix}weight": torch.ones(features),
        f"{prefix}bias": torch.zeros(features),
        f"{prefix}running_mean": check.draw.uniform(features, low=90.0, high=110.0),
        f"{prefix}running_var": check.draw.uniform(features, low=90.0, high=110.0),
        f"{prefix}num_batches_tracked": torch.tensor(7),
    }


def call_adjust(model, count, state, batches, **places):
    return check.call(
        probes.after_batches,
        adjust_batch_norms,
        model,
        count,
        state_dict=state,
        batches=batches,
        **places,
    )


def normal(batch):
    """What a BatchNorm with weights of 1 makes of a batch."""
    return functional.batch_norm(batch, None, None, training=True, eps=1e-5)


def after_passes(state, prefix, batches, momentum):
    """The running statistics after the batches, each of shape (rows, features, ...)."""
    mean, variance = (state[prefix + name].double() for name in ("running_mean", "running_var"))
    for batch in batches:
        columns = batch.double().transpose(0, 1).flatten(1)
        mean = (1 - momentum) * mean + momentum * columns.mean(dim=1)
        variance = (1 - momentum) * variance + momentum * columns.var(dim=1)
    return mean.float(), variance.float()


def same_momentum(got, name, momentum, count):
    what = f"the momentum of layer {name!r}" if name else "the momentum"
    expected = 1 - (1 - momentum) ** (1 / count)
    check.close(got["settings"][name]["momentum"], expected, rtol=1e-4, what=what)


def same_statistics(got, state, prefix, batches, momentum):
    mean, variance = after_passes(state, prefix, batches, momentum)
    tolerance = {"rtol": 2e-5, "atol": 1e-5}
    for name, value in (("running_mean", mean), ("running_var", variance)):
        check.close(got["state_dict"][prefix + name], value, **tolerance, what=prefix + name)


with check.property("four micro-batches forget as much as one batch did"):
    state = draw_buffers("0.", 3)
    batch = check.draw.normal(5, 3)
    got = call_adjust([["BatchNorm1d", 3]], 4, state, [batch] * 4)
    same_momentum(got, "0", 0.1, 4)
    same_statistics(got, state, "0.", [batch], 0.1)
with check.property(
    "each layer has its own momentum, at any depth, in 1, 2 and 3 dimensions", weight=2
):
    for kind, sizes, momentum in (
        ("BatchNorm1d", (4, 2, 3), 0.3),
        ("BatchNorm2d", (3, 2, 4, 5), 0.02),
        ("BatchNorm3d", (6, 2, 3, 4, 5), 0.75),
    ):
        state = {**draw_buffers("0.", 2), **draw_buffers("1.1.0.", 2)}
        batch = check.draw.normal(*sizes)
        del state["1.1.0.weight"], state["1.1.0.bias"]
        inner = ["Identity"], [[kind, 2, 1e-5, momentum, False]]  # without weight and bias
        model = [[kind, 2, 1e-5, momentum / 2], list(inner)]
        got = call_adjust(model, 3, state, [batch] * 3)
        same_momentum(got, "0", momentum / 2, 3)
        same_momentum(got, "1.1.0", momentum, 3)
        same_statistics(got, state, "0.", [batch], momentum / 2)
        same_statistics(got, state, "1.1.0.", [normal(batch)], momentum)
with check.property("a momentum of None stays an average over all batches"):
    state = draw_buffers("0.", 4)
    batches = [check.draw.normal(6, 4) for _ in range(3)]
    got = call_adjust([["BatchNorm1d", 4, 1e-5, None]], 3, state, batches)
    check.equal(got["settings"]["0"]["momentum"], None, what="the momentum")
    # Seven batches had been counted before.
    total = 7 * state["0.running_mean"].double() + sum(b.double().mean(dim=0) for b in batches)
    mean = got["state_dict"]["0.running_mean"]
    check.close(mean, (total / 10).float(), rtol=2e-5, what="0.running_mean")
with check.property("momenta of 0 and 1"):
    for momentum in (0.0, 1.0):
        state = draw_buffers("0.", 2)
        batches = [check.draw.normal(5, 2) for _ in range(4)]
        got = call_adjust([["BatchNorm1d", 2, 1e-5, momentum]], 4, state, batches)
        same_momentum(got, "0", momentum, 4)
        same_statistics(got, state, "0.", batches, momentum)
with check.property("a model that is a BatchNorm itself; a count of 1 changes nothing"):
    for count in (2, 1):
        state = draw_buffers("", 3)
        batch = check.draw.normal(5, 3)
        got = call_adjust(["BatchNorm1d", 3, 1e-5, 0.4], count, state, [batch] * count)
        same_momentum(got, "", 0.4, count)
        same_statistics(got, state, "", [batch], 0.4)
with check.property("a layer in eval mode is adjusted, too, and stays in eval mode"):
    rows = 4 + check.draw.integer(0, 5)
    state, batches = draw_buffers("0.", 3), [check.draw.normal(rows, 3) for _ in range(2)]
    got = call_adjust([["BatchNorm1d", 3]], 2, state, batches, training=False)
    mean, deviation = state["0.running_mean"], (state["0.running_var"] + 1e-5).sqrt()
    what = "the model's outputs on the batches, one after another"
    expected = [(batch - mean) / deviation for batch in batches]
    check.close(got["outputs"], expected, rtol=1e-4, atol=1e-5, what=what)
    same_momentum(got, "0", 0.1, 2)
    same_statistics(got, state, "0.", [], 0.1)
    state |= draw_buffers("1.", 3)
    model = [["BatchNorm1d", 3, 1e-5, 0.2], ["BatchNorm1d", 3, 1e-5, 0.6]]
    got = call_adjust(model, 3, state, batches, in_eval=("0",))
    same_momentum(got, "0", 0.2, 3)
    same_momentum(got, "1", 0.6, 3)
    what = "whether each layer is in training mode after the call"
    check.equal(got["modes"], {"": True, "0": False, "1": True}, what=what)
with check.property("a layer that is registered in two places is adjusted once"):
    state = draw_buffers("0.", 3)
    state |= {name.replace("0.", "1.1.", 1): value for name, value in state.items()}
    # What is normal already comes out as it went in: both places see the same batch.
    batch = functional.batch_norm(check.draw.normal(6, 3), None, None, training=True, eps=1e-12)
    model = [["BatchNorm1d", 3, 1e-12, 0.5], [["Identity"], ["Identity"]]]
    got = call_adjust(model, 4, state, [batch] * 2, also_at={"1.1": "0"})
    same_statistics(got, state, "0.", [batch], 0.5)
with check.property("other layers, weights, the count of batches and the modes stay as they are"):
    for dimensions, sizes in ((1, (5, 2, 3)), (2, (4, 2, 3, 5)), (3, (6, 2, 3, 4, 5))):
        state = draw_buffers("0.", 2)
        for name in ("running_mean", "running_var", "num_batches_tracked"):
            state[f"1.{name}"] = state[f"0.{name}"].clone()
        weight, bias = check.draw.uniform(2, low=0.5, high=2.0), check.draw.normal(2)
        state["0.weight"], state["0.bias"] = weight, bias
        batch = check.draw.normal(*sizes)
        kinds = f"BatchNorm{dimensions}d", f"InstanceNorm{dimensions}d"
        model = [[kinds[0], 2, 1e-5, 0.2], [kinds[1], 2, 1e-4, 0.3, False, True]]
        got = call_adjust(model, 3, state, [batch] * 3)
        same_momentum(got, "0", 0.2, 3)
        what = f"the momentum of layer '1', an {kinds[1]}"
        check.equal(got["settings"]["1"]["momentum"], 0.3, what=what)
        for name, eps in (("0", 1e-5), ("1", 1e-4)):
            check.equal(got["settings"][name]["eps"], eps, what=f"eps of layer {name!r}")
        what = "whether each layer is in training mode after the call"
        check.equal(got["modes"], dict.fromkeys(("", "0", "1"), True), what=what)
        after = got["state_dict"]
        for name in ("0.weight", "0.bias"):
            check.equal(after[name], state[name], what=name)
        same_statistics(got, state, "0.", [batch], 0.2)
        shape = (2, *[1] * dimensions)
        hidden = normal(batch) * weight.view(shape) + bias.view(shape)
        mean, _ = after_passes(state, "1.", [hidden] * 3, 0.3)
        check.close(after["1.running_mean"], mean, rtol=2e-5, what=f"1.running_mean, {kinds[1]}")
        # Seven before, and the three.
        check.equal(after["0.num_batches_tracked"], torch.tensor(10), what="0.num_batches_tracked")
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("64 micro-batches, and the model beside them stays as it is"):
    state = {
        "0.weight": check.draw.normal(3, 4),
        "0.bias": check.draw.normal(3),
        **draw_buffers("1.", 3),
    }
    state["1.weight"], state["1.bias"] = check.draw.normal(3), check.draw.normal(3)
    x = [check.draw.normal(7, 4) for _ in range(64)]
    batches = [functional.linear(b, state["0.weight"], state["0.bias"]) for b in x]
    got = call_adjust([["Linear", 4, 3], ["BatchNorm1d", 3]], 64, state, x)
    same_statistics(got, state, "1.", batches, 1 - 0.9 ** (1 / 64))
    for name in ("0.weight", "0.bias", "1.weight", "1.bias"):
        check.equal(got["state_dict"][name], state[name], what=name)
### END HIDDEN TESTS
check.score()

# %% [markdown]
"""
## Bug hunt: next tokens

A language model reads tokens and predicts, at each position, the *next* one: its output at position $i$ predicts the label at position $i + 1$. As before, the label −100 marks padding and prompts.

The function below passes its author's test, in which every text begins with a prompt. On other texts, its gradient differs from that of the whole batch.
"""

# %%
WORDS = 12


def accumulate_from_the_wild(model, micro_batches):
    count = sum(int((labels != -100).sum()) for _, labels in micro_batches)
    model.zero_grad()
    mean = 0.0
    for tokens, labels in micro_batches:
        logits, labels = model(tokens)[:, :-1], labels[:, 1:]
        loss = functional.cross_entropy(
            logits.flatten(0, 1), labels.flatten(), ignore_index=-100, reduction="sum"
        )
        (loss / count).backward()
        mean += loss.item() / count
    return mean


# %% folded="A small language model, its texts, and the mean by hand"
def make_language_model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Embedding(WORDS, 8), torch.nn.Linear(8, WORDS))


def draw_texts(shapes, prompt=0):
    generator = torch.Generator().manual_seed(1)
    texts = [torch.randint(WORDS, shape, generator=generator) for shape in shapes]
    pairs = [(tokens, tokens.clone()) for tokens in texts]
    for _, labels in pairs:
        labels[:, :prompt] = -100
    return pairs


def mean_by_hand(model, pairs):
    """Go through all texts, position by position, and average over what was predicted."""
    losses = []
    for tokens, labels in pairs:
        for text, wanted in zip(model(tokens), labels, strict=True):
            for position in range(1, len(wanted)):
                if wanted[position] != -100:
                    losses.append(functional.cross_entropy(text[position - 1], wanted[position]))
    return torch.stack(losses).mean()


# %% [markdown]
"""
The next cell compares the function's gradient with that of a mean computed position by position:
"""

# %%
for name, pairs in {
    "texts of 4 tokens": draw_texts([(6, 4), (6, 4)]),
    "texts of 40 tokens": draw_texts([(6, 40), (6, 40)]),
    "texts of 4 tokens with a prompt of 1 token": draw_texts([(6, 4), (6, 4)], prompt=1),
}.items():
    by_hand_model, wild_model = make_language_model(), make_language_model()
    mean_by_hand(by_hand_model, pairs).backward()
    accumulate_from_the_wild(wild_model, pairs)
    error = relative_error(gradient_of(wild_model), gradient_of(by_hand_model))
    print(f"{name:<42} gradient off by {error:.3f}")

# %% [markdown] exercise="next-tokens" points=4 minutes=20 difficulty=2
"""
### Bug hunt: next tokens

Find out why the gradient is wrong, why short texts suffer most, and why a prompt hides the error. Then replace the function.

`accumulate_next_tokens(model, micro_batches) -> float`

- **In** `micro_batches`: a list of pairs `(tokens, labels)`, int64, of shape (texts, length), length at least 2; sizes differ between pairs. The logits at a position predict the label at the next one. A label of −100 is
  ignored, wherever it stands; some texts begin with one and others do not. A pair need not contain any predicted label that counts, but the list contains at least one.
- **Out**: the mean cross entropy over all labels that are predicted and not ignored, a Python float. Afterwards each parameter's `.grad` is the gradient of that mean; gradients stored before the call are discarded.
  Tokens and labels do not change.
- **Limits**: keep the activations of only one micro-batch in memory at a time.

If every predicted label has the loss 1.0, `accumulate_next_tokens(model, pairs)` returns `1.0`, for texts of any length.

<!-- hint: How many terms does the sum have for one text of 4 tokens? How many does the count have? -->
<!-- hint: The first label of a text is predicted by nothing. It is in the count unless it is -100. So what is counted and what is summed are not the same labels. -->
<!-- hint: Count in what is left after the shift: `labels[:, 1:]`. Subtracting one for each text is not the same, as some first labels were not counted anyway. -->
"""


# %% solution="next-tokens"
def accumulate_next_tokens(model, micro_batches):
    """Leave the gradient of the mean loss over all predicted labels in ``.grad``; return that loss."""
    ### BEGIN SOLUTION
    count = sum(int((labels[:, 1:] != -100).sum()) for _, labels in micro_batches)
    model.zero_grad()
    mean = 0.0
    for tokens, labels in micro_batches:
        logits, wanted = model(tokens)[:, :-1], labels[:, 1:]
        loss = functional.cross_entropy(
            logits.flatten(0, 1), wanted.flatten(), ignore_index=-100, reduction="sum"
        )
        (loss / count).backward()
        mean += loss.item() / count
    return mean
    ### END SOLUTION


# %% test="next-tokens"
check = Check("next-tokens")


def draw_model(words, features):
    state = {
        "0.weight": check.draw.normal(words, features),
        "1.weight": check.draw.normal(words, features),
        "1.bias": check.draw.normal(words),
    }
    return [["Embedding", words, features], ["Linear", features, words]], state


def draw_labeled(shapes, words):
    return [
        tuple(check.draw.integers(*shape, low=0, high=words) for _ in range(2)) for shape in shapes
    ]


def over_all_predictions(state, pairs):
    leaves = {name: value.double().requires_grad_(True) for name, value in state.items()}
    terms = [
        (text[position - 1], wanted[position])
        for tokens, labels in pairs
        for text, wanted in zip(tokens, labels, strict=True)
        for position in range(1, len(wanted))
        if wanted[position] >= 0
    ]
    read, wanted = (torch.stack(parts) for parts in zip(*terms, strict=True))
    logits = functional.linear(leaves["0.weight"][read], leaves["1.weight"], leaves["1.bias"])
    loss = functional.cross_entropy(logits, wanted)
    slopes = torch.autograd.grad(loss, list(leaves.values()))
    return loss.item(), dict(zip(leaves, slopes, strict=True))


def agrees_with_all_predictions(model, state, pairs, probe=probes.accumulated, **old):
    got = check.call(probe, accumulate_next_tokens, model, pairs, state_dict=state, **old)
    loss, slopes = over_all_predictions(state, pairs)
    atol = 1e-6 + 1e-4 * max(slope.abs().max().item() for slope in slopes.values())
    for name, slope in slopes.items():
        what, value = f"the gradient of {name}", slope.float()
        check.close(got["gradients"][name], value, rtol=0.0, atol=atol, what=what)
    check.close(got["output"], loss, rtol=1e-4, what="the loss")
    return got


def draw_shapes():
    lengths = (5 + check.draw.permutation(6)[: check.draw.integer(3, 6)]).tolist()
    return [(1 + check.draw.integer(0, 4), length) for length in lengths]


with check.property("texts of 4 tokens in which every label counts", weight=2):
    agrees_with_all_predictions(*draw_model(7, 4), draw_labeled([(3, 4), (5, 4)], 7))
with check.property("texts of 4 tokens with a prompt of 1 token"):
    pairs = draw_labeled([(3, 4), (5, 4)], 6)
    for _, labels in pairs:
        labels[:, 0] = -100
    agrees_with_all_predictions(*draw_model(6, 3), pairs)
with check.property(
    "some texts with a prompt and padding, some without, of different lengths", weight=2
):
    pairs = draw_labeled([(3, 5), (2, 9), (4, 2)], 8)
    pairs[0][1][1, 0], pairs[1][1][0, :3], pairs[2][1][3] = -100, -100, -100
    # More texts end with a label that does not count than begin with one.
    pairs[0][1][2, 3:], pairs[1][1][1, 6:], pairs[2][1][0, 1] = -100, -100, -100
    agrees_with_all_predictions(*draw_model(8, 5), pairs)
with check.property("gradients stored before the call are discarded"):
    (model, state), pairs = draw_model(7, 3), draw_labeled([(2, 6), (4, 3)], 7)
    old = {name: 2 + value.abs() for name, value in state.items()}
    agrees_with_all_predictions(model, state, pairs, old_gradients=old)
with check.property("a micro-batch in which no label is predicted does no harm"):
    pairs = draw_labeled([(2, 6), (3, 5), (1, 4)], 6)
    pairs[1][1][:, 1:] = -100
    agrees_with_all_predictions(*draw_model(6, 4), pairs)
with check.property("tokens and labels do not change"):
    words, features = (3 + check.draw.permutation(6)[:2]).tolist()
    model, pairs = draw_model(words, features), draw_labeled(draw_shapes(), words)
    seen = agrees_with_all_predictions(*model, pairs, probe=probes.forward_passes)
    check.equal(seen["micro_batches"], pairs, what="the micro-batches after the call")
with check.property("one micro-batch at a time, forward and backward"):
    shapes = draw_shapes()
    most = max(texts * length for texts, length in shapes)
    words, features = (3 + check.draw.permutation(6)[:2]).tolist()
    model, pairs = draw_model(words, features), draw_labeled(shapes, words)
    seen = agrees_with_all_predictions(*model, pairs, probe=probes.forward_passes)
    check.true(
        seen["entries"] <= most,
        f"a forward pass saw {seen['entries']} tokens, and the largest micro-batch has {most}",
    )
    check.true(
        seen["waiting"] <= 1,
        f"{seen['waiting']} forward passes were waiting for their backward pass at the same time",
    )
    check.true(
        seen["held"] <= 1,
        f"the logits of {seen['held']} earlier micro-batches were still in memory",
    )
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("texts of two tokens, one of them in each pair without a label"):
    pairs = draw_labeled([(3, 2), (6, 2), (4, 2)], 5)
    for _, labels in pairs:
        labels[1, 1], labels[2, 0] = -100, -100
    old = {"1.bias": torch.ones(5)}
    agrees_with_all_predictions(*draw_model(5, 3), pairs, old_gradients=old)
### END HIDDEN TESTS
check.score()

# %% [markdown]
"""
<details><summary>The bug (open this once you have found it)</summary>

The function counts the labels before the **shift**, the step that pairs each output with the next label, and sums the losses after it. A text of $L$ tokens gives $L - 1$ terms and is counted as $L$. If all texts have $L$ tokens, the loss and the gradient are $(L-1)/L$ of what they should be:
three quarters for 4 tokens. If the first label of a text is −100, the function does not count it, so a prompt hides the bug.

The `Trainer` in Hugging Face Transformers had this bug until 2026 ([pull request 46204](https://github.com/huggingface/transformers/pull/46204)), and an example in
Accelerate still had it in September 2026 ([pull request 4303](https://github.com/huggingface/accelerate/pull/4303)). The error is easy to miss: for texts of 40 tokens, the loss is only 2.5 percent too small.
</details>

One test finds every wrong divisor in this chapter: on a tiny case with uneven sizes, compare the accumulated gradient with that of a whole-batch loss that you compute independently. Keep such a test beside every training loop.
"""

# %% [markdown]
"""
## In the wild

| where | what it is called |
| --- | --- |
| PyTorch | the loop itself, with scaler: [gradient accumulation](https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-accumulation) (it divides by the number of micro-batches: right if they are the same size) |
| clipping | [`clip_grad_norm_`](https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_norm_.html)`(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None)`, [`clip_grad_value_`](https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_value_.html) |
| schedules | [`torch.optim.lr_scheduler`](https://docs.pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate); `SequentialLR` chains several |
| several GPUs | [`DistributedDataParallel.no_sync()`](https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html) |
| Accelerate | `Accelerator(gradient_accumulation_steps=)`, `accelerator.accumulate(model)`, `accelerator.sync_gradients`; its scheduler advances only when the optimizer stepped. [How to count tokens](https://huggingface.co/docs/accelerate/usage_guides/gradient_accumulation) |
| transformers | [`TrainingArguments`](https://huggingface.co/docs/transformers/main_classes/trainer)`(gradient_accumulation_steps=, max_grad_norm=1.0, average_tokens_across_devices=, warmup_steps=)`; the token count is called `num_items_in_batch` |
| Lightning | [`Trainer`](https://lightning.ai/docs/pytorch/stable/common/trainer.html)`(accumulate_grad_batches=, gradient_clip_val=, gradient_clip_algorithm="norm")`; it steps on the incomplete window, and divides by `accumulate_grad_batches` there too |
| DeepSpeed | [`"gradient_accumulation_steps"`, `"gradient_clipping"`](https://www.deepspeed.ai/docs/config-json/) in its configuration |
| Keras | [optimizers](https://keras.io/api/optimizers/) take `gradient_accumulation_steps=`, `global_clipnorm=`, and also `clipnorm=`, which clips *each variable by its own norm* |
| JAX | [`optax.MultiSteps`](https://optax.readthedocs.io/en/latest/_collections/examples/gradient_accumulation.html), `optax.clip_by_global_norm` |
"""

# %% [markdown]
"""
## Recap

1. `backward()` adds to `.grad`. The sum over micro-batches equals the gradient of the whole batch if each micro-batch's mean loss is weighted by its share of the rows.
2. Divide the summed losses by the number of rows, or of labels that count, in the whole window. A mean of means is a different loss as soon as sizes differ.
3. Memory holds the activations of a single micro-batch only if every backward pass comes before the next forward pass.
4. In every window, including the last, incomplete one: unscale, clip by the global norm, step, update the scale, advance the schedule if the optimizer stepped, and clear the gradients.
5. Across processes, divide by the rows or tokens of all ranks, and synchronize once per window.
6. No weighting makes accumulation exact for layers that mix rows, such as BatchNorm. Under accumulation, BatchNorm's running statistics also need a smaller momentum.

### Test yourself

<details><summary>1. k = 4, and the last window holds only two micro-batches, of 20 and of 10 rows. How must their mean losses be weighted in the loss of the window? What if both are divided by k?</summary>

2/3 and 1/3. If both are divided by 4, a row of the second gets twice the weight of a row of the first, and the weights add up to one half instead of one.
</details>

<details><summary>2. Somebody adds up the losses of 8 micro-batches and calls backward once. Is the gradient right? What goes wrong?</summary>

The gradient is right if the losses are weighted correctly. But all eight graphs are kept until the end, so the memory needed is that of the whole batch.
</details>

<details><summary>3. With a scaler and accumulation, where do you call clip_grad_norm_, and what happens if you call it before unscale_?</summary>

After `unscale_` and before `step`. Before `unscale_`, clipping sees a norm that is too large by a factor equal to the scale. After the division the gradient is too small by up to that factor, and with SGD so is the step.
</details>

<details><summary>4. CosineAnnealingLR has T_max equal to the number of optimizer steps, and is stepped once per micro-batch, k = 2. What is the learning rate at the end?</summary>

Almost the initial learning rate: the cosine reaches 0 halfway through and rises again.
</details>

<details><summary>5. Two ranks hold 30 and 10 rows, and each takes the mean over its own. What does DDP compute?</summary>

The mean of the two means. A row of the second rank has three times the weight of a row of the first. To get the mean over all rows, divide the summed losses by 40 and multiply by the number of ranks, 2.
</details>

<details><summary>6. A BatchNorm layer has momentum 0.2. Which momentum corrects for accumulation with k = 4, and what does this correction leave wrong?</summary>

0.054. The normalization in training still uses the statistics of each micro-batch, so the gradient is not that of the whole batch.
</details>

### References

- PyTorch documentation, ["Automatic Mixed Precision examples"](https://docs.pytorch.org/docs/stable/notes/amp_examples.html): "Gradient clipping", "Gradient accumulation".
- PyTorch documentation, ["Autograd mechanics"](https://docs.pytorch.org/docs/stable/notes/autograd.html): how `.grad` is accumulated; hooks for saved tensors.
- PyTorch documentation, [`torch.optim`](https://docs.pytorch.org/docs/stable/optim.html): "How to adjust learning rate".
- PyTorch documentation, [`DistributedDataParallel`](https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html): averaging over ranks, `no_sync`.
- R. Pascanu, T. Mikolov, Y. Bengio, "On the difficulty of training recurrent neural networks", [arXiv:1211.5063](https://arxiv.org/abs/1211.5063), ICML 2013, section 3.2 (clipping the norm).
- I. Loshchilov, F. Hutter, "SGDR: Stochastic Gradient Descent with Warm Restarts", [arXiv:1608.03983](https://arxiv.org/abs/1608.03983), ICLR 2017, section 3 (the cosine).
- P. Goyal et al., "Accurate, Large Minibatch SGD: Training ImageNet in 1 Hour", [arXiv:1706.02677](https://arxiv.org/abs/1706.02677), 2017, sections 2 and 3 (linear scaling, warm-up; weighting; BatchNorm's statistics).
- S. Malladi, K. Lyu, A. Panigrahi, S. Arora, "On the SDEs and Scaling Rules for Adaptive Gradient Algorithms", [arXiv:2205.10287](https://arxiv.org/abs/2205.10287), NeurIPS 2022 (the square root for Adam).
- S. Ioffe, C. Szegedy, "Batch Normalization: Accelerating Deep Network Training by Reducing Internal Covariate Shift", [arXiv:1502.03167](https://arxiv.org/abs/1502.03167), ICML 2015, section 3.1 (moving averages).
- M. Abadi et al., "Deep Learning with Differential Privacy", [arXiv:1607.00133](https://arxiv.org/abs/1607.00133), 2016, section 3.1 (clipping each row).

### Glossary

| English | 中文 | meaning |
| --- | --- | --- |
| gradient accumulation | 梯度累积 | gradients of several backward passes add up before one step |
| row | 行 | one example of a batch |
| micro-batch | 微批次 | a part of a batch that goes through one forward and backward pass |
| window | 累积窗口 | the micro-batches between two optimizer steps |
| share | 占比 | a micro-batch's part of all rows or tokens of its window |
| mean of means | 均值的均值 | the mean of the micro-batches' mean losses; if sizes differ, it is not the mean over all rows or tokens |
| activation | 激活值 | an intermediate result that autograd keeps for the backward pass |
| token | 词元 | the unit of text that a language model reads and predicts |
| padding | 填充 | filler that makes the sequences of a batch equally long |
| shift | 错位 | pairs the output at one position with the label at the next |
| linear scaling rule | 线性缩放规则 | when the batch size grows by a factor, the learning rate is multiplied by the same factor |
| gradient clipping | 梯度裁剪 | shortening a gradient that is longer than a limit |
| global norm | 全局范数 | the norm of all gradients as one vector |
| gradient scaler | 梯度缩放器 | the object that scales the loss, unscales the gradients, skips steps and adapts the scale |
| learning-rate schedule | 学习率调度 | the learning rate as a function of the optimizer step |
| warm-up | 学习率预热 | raising the learning rate over the first steps |
| data-parallel training | 数据并行训练 | each process computes the gradient of its own rows |
| rank | 进程序号 | the number of a process in data-parallel training, and the process itself |
| relative error | 相对误差 | the norm of the difference, divided by the norm of the true value |
| all-reduce | 全归约 | adds up or averages tensors over all ranks and gives every rank the result |
| running statistics | 运行统计量 | BatchNorm's averages, used in evaluation mode |
"""

# %% [markdown]
"""
Here is what you predicted in this chapter.
"""

# %% folded="What you predicted"
predictions("05")

# %%
progress("05")
