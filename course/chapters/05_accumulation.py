# %% [markdown]
"""
# 05 · Gradient accumulation, clipping, schedules

After this chapter you can

- accumulate a gradient over micro-batches so that it equals the full batch's, to rounding, whatever their sizes;
- name the divisor of a loss, and say why it belongs to all micro-batches of a step together;
- make the step of the last few micro-batches, and count what a schedule counts;
- put loss scaling, clipping, the step and the schedule into an order that works, and log what was optimized;
- say what accumulation cannot repair in BatchNorm, and repair the part that can be.

**Time**: 80 minutes to read and run, 145 for the seven exercises.
**Know before**: modules and autograd (chapter 00). BatchNorm (chapter 01) and the GradScaler (chapter 04) help;
what is needed of them is said again here.

**中文**: 本章讲梯度累积：微批次与整批的等价、按词元加权、最后的短窗口、梯度裁剪、按优化器步数计数的学习率调度，以及累积下的批归一化。
"""

# %% tags=["needed"] folded="Imports"
import itertools
import math

import torch
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

# The first optimizer loads a large part of PyTorch: here, and not while a check's clock runs.
first_optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)

# %% [markdown]
r"""
## The same pictures, another gradient

A small network learns handwritten digits, 100 pictures in a batch. Say that only 32 fit into memory.
So the batch is cut into *micro-batches*. Each makes its own forward and backward pass, the gradients add up in `.grad`,
and the optimizer steps once, at the end. That is *gradient accumulation*.

The loss is a mean, and a mean over the whole is wanted. So the loss of each micro-batch is divided by their number.
This is the loop of a thousand repositories:
"""

# %%
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


def accumulate_as_seen(model, micro_batches):
    for inputs, labels in micro_batches:
        loss = functional.cross_entropy(model(inputs), labels) / len(micro_batches)
        loss.backward()


def cut(sizes, count=100):
    """Return the first ``count`` pictures and labels in micro-batches of ``sizes``."""
    return list(zip(pixels[:count].split(sizes), digit_labels[:count].split(sizes), strict=True))


full = make_classifier()
functional.cross_entropy(full(pixels[:100]), digit_labels[:100]).backward()
true_gradient = gradient_of(full)

for size in (50, 25, 32):
    model = make_classifier()
    accumulate_as_seen(model, cut(size))
    error = relative_error(gradient_of(model), true_gradient)
    told = f"{error:.2f}" if error > 1e-6 else "below 1e-6"
    print(f"micro-batches of {[len(x) for x, _ in cut(size)]}: relative error {told}")

# %% [markdown]
r"""
With 50 or 25 pictures at a time the gradient is that of the full batch, to rounding. With 32 it is off by **70 percent**.
The same 100 pictures, the same weights, the same code. Nothing is printed, nothing overflows, and the training will run.

What happened? 100 is not a multiple of 32. The last micro-batch has 4 pictures. Its loss is a mean over 4, the others' is a
mean over 32. Each is divided by 4 micro-batches. So each of the last 4 pictures weighs $\frac{1}{4 \cdot 4}$, and each
of the others $\frac{1}{4 \cdot 32}$: eight times less.

There are three ways to do it, and two of them are common and wrong.
"""

# %%
RULES = {
    "not divided": lambda rows, total, count: 1.0,
    "divided by the number of micro-batches": lambda rows, total, count: 1 / count,
    "times its share of the rows": lambda rows, total, count: rows / total,
}


def accumulated_gradient(rule, micro_batches, model=None):
    """Return the gradient of the classifier, accumulated by one of the rules."""
    model = model or make_classifier()
    total = sum(len(inputs) for inputs, _ in micro_batches)
    for inputs, labels in micro_batches:
        loss = functional.cross_entropy(model(inputs), labels)
        (RULES[rule](len(inputs), total, len(micro_batches)) * loss).backward()
    return gradient_of(model)


cuts = {"25, 25, 25, 25": cut(25), "32, 32, 32, 4": cut(32)}
errors = {
    name: {rule: relative_error(accumulated_gradient(rule, parts), true_gradient) for rule in RULES}
    for name, parts in cuts.items()
}
print(f"{'the loss is':<40}{'25, 25, 25, 25':>16}{'32, 32, 32, 4':>16}")
for rule in RULES:
    told = [f"{e:.2f}" if e > 1e-6 else "below 1e-6" for e in (errors[name][rule] for name in cuts)]
    print(f"{rule:<40}{told[0]:>16}{told[1]:>16}")

# %% folded="Plot: Error of the accumulated gradient"
figure, axes = new_figure(height=3.0)
for offset, name, color in zip((-0.2, 0.2), cuts, ("blue", "vermilion"), strict=True):
    places = [row + offset for row in range(3)]
    axes.barh(
        places,
        errors[name].values(),
        height=0.38,
        color=COLORS[color],
        label=f"{name} rows",
        left=0,
    )
axes.set_yticks(range(3), RULES)
axes.set_xscale("log")
axes.set_xlim(1e-8, 10)
axes.axvline(2**-23, color=COLORS["black"], linestyle=":", label="epsilon of float32")
axes.invert_yaxis()
axes.grid(False, axis="y")
axes.set(title="Error of the accumulated gradient", xlabel="relative error", ylabel="the loss is")
figure.legend(loc="outside lower center", ncols=3, frameon=False)
show(
    figure,
    alt="Relative error of the gradient, logarithmic, for three rules and two ways to cut 100 rows. Not "
    "divided: 3 and 3.8. Divided by the number of micro-batches: a ten-millionth for four times 25 "
    "rows, 0.7 for 32, 32, 32 and 4. Times its share of the rows: about a ten-millionth for both.",
)

# %% [markdown]
r"""
Not divided, four means over 25 rows add up to four times the gradient (a relative error of 3). With SGD the step is four times too long. Adam divides such a factor away and
hides the fault, until clipping sees it.
Divided by the number, it is right by luck: only when all micro-batches have the same size. The third rule is
right for all sizes.

## Why `.grad` adds up

`backward()` does not write the gradient into `.grad`. It *adds* it.
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
The last line shows why one might want that. A weight that is used twice gets a gradient from each use, and the chain rule wants their sum, 5 + 7.
So autograd must add within a backward pass. From one pass to the next it goes on adding. This is a choice of PyTorch's, and
`torch.autograd.grad`, which returns gradients and leaves `.grad` alone, shows that it could be otherwise.

So whoever does *not* want the sum must clear it: `optimizer.zero_grad()`. Since version 2.0 this sets `.grad` to None, which frees its
memory, rather than filling it with zeros. And whoever wants the sum just leaves it there. Accumulation is what happens if you do nothing.

Why does it equal the full batch? Differentiation is linear. The gradient of a sum is the sum of the gradients. But a mean is not a sum:
let micro-batch $b$ have $n_b$ rows, $N$ in all, and let $\ell_i$ be the loss of row $i$. Then

$$\frac{1}{N} \sum_{i=1}^{N} \ell_i \;=\; \sum_b \frac{n_b}{N} \cdot \underbrace{\frac{1}{n_b} \sum_{i \in b} \ell_i}_{\text{mean over } b}$$

The factor of a micro-batch is $n_b / N$, its share of the rows. It is $1/k$ only if all $k$ of them are equally large.

*Equal to rounding* is a claim that can be tested: an error of rounding shrinks with the format.
"""


# %%
def error_in(dtype, size, rows=96):
    """Return the error of accumulation with every number of ``dtype``, against float64."""
    exact, model = make_classifier(torch.float64), make_classifier(dtype)
    # The same weights and pixels in both, those that ``dtype`` can hold.
    exact.load_state_dict(model.state_dict())
    given, labels = pixels[:rows].to(dtype), digit_labels[:rows]
    functional.cross_entropy(exact(given.double()), labels).backward()
    for part, wanted in zip(given.split(size), labels.split(size), strict=True):
        (functional.cross_entropy(model(part), wanted) * (len(part) / rows)).backward()
    return relative_error(gradient_of(model).double(), gradient_of(exact))


for dtype, bound in ((torch.float64, 1e-15), (torch.float32, 1e-6)):
    fits = [error_in(dtype, size) < bound for size in (96, 8, 1)]
    name = str(dtype).removeprefix("torch.")
    print(f"{name}: error below {bound:.0e} with 96, 8 and 1 rows at a time: {fits}")
at_once, one_by_one = (error_in(torch.bfloat16, size, rows=480) for size in (480, 1))
print(f"bfloat16 weights, 480 rows at once:  error below 1 percent: {at_once < 0.01}")
print(f"bfloat16 weights, one row at a time: error above 3 percent: {one_by_one > 0.03}")

# %% [markdown]
r"""
In float64 and float32 the error is a few epsilons, however the batch is cut. The sum is only taken in another order.

The last lines are a warning. There the *weights* are bfloat16, so `.grad` is bfloat16 as well, and 480 small
numbers are added up with two or three digits: a small number beside a large one is rounded away (chapter 02). Under autocast
the weights are float32 and so is `.grad`. A model that was converted as a whole wants a float32 buffer for its sums.

Two things break the equality for better reasons. Dropout draws other masks for other batches: then the two gradients agree
on average, not in each step. And rows may see each other, in BatchNorm or in a loss that compares all rows of a
batch: then the loss is no sum over rows, and nothing of this holds. BatchNorm gets a section below.

## What it saves, counted

Autograd keeps what the backward pass will need, the activations. Their number grows with the rows. The next cell counts their bytes,
for a wider network, the batch at once and in micro-batches of 8. Weights and data are there anyway and do not count.
"""


# %%
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


print("KiB that wait for a backward pass")
print(f"{'rows':>6}{'at once':>12}{'in 8s, backward after each':>30}{'in 8s, one backward':>24}")
for rows in (8, 32, 128, 512):
    counts = [
        saved_bytes(lambda rows=rows: loss_of(slice(rows)), except_for=there_anyway).bytes,
        saved_bytes(lambda: loss_of(slice(8)), except_for=there_anyway).bytes,
        saved_bytes(lambda rows=rows: loss_to_the_end(rows), except_for=there_anyway).bytes,
    ]
    print("{:>6}{:>12.0f}{:>30.0f}{:>24.0f}".format(rows, *(count / 1024 for count in counts)))
buffer = sum(weight.numel() * weight.element_size() for weight in weights)
print(f"the buffer of gradients: {buffer / 1024:.0f} KiB, whatever the rows")

# %% [markdown]
"""
At once, 64 times the rows are 64 times the bytes. With a backward pass after each micro-batch the activations are those of *one*
micro-batch. The buffer of gradients comes on top. Here it is 46 times as large: in a network this small, accumulation saves little.

The last column is a trap: add up the losses, call `backward()` once at the end, and all graphs wait for it together. The
gradient is right, and nothing is saved.

Watch it over time. The ledger below adds the bytes of what autograd packs away, and takes them off when the backward pass has fetched
them.
"""


# %% folded="Measuring tool: a ledger of the bytes that wait for the backward pass"
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
    """Return the bytes that wait, after each tensor that was packed away or fetched."""
    ledger = Ledger(there_anyway)
    with torch.autograd.graph.saved_tensors_hooks(ledger.pack, ledger.unpack):
        run()
    wide.zero_grad()
    return ledger.history


# %%
def backward_after_each():
    for k in range(0, 32, 8):
        loss_of(slice(k, k + 8)).backward()


histories = {
    "32 rows at once": account(lambda: loss_of(slice(32)).backward()),
    "8 rows, one backward at the end": account(lambda: loss_to_the_end(32).backward()),
    "8 rows, backward after each": account(backward_after_each),
}

# %% folded="Plot: What waits for the backward pass"
figure, axes = new_figure()
for (name, history), color, style in zip(
    histories.items(), ("black", "vermilion", "blue"), (":", "--", "-"), strict=True
):
    places = [k / (len(history) - 1) for k in range(len(history))]
    sizes = [size / 1024 for size in history]
    above = 3 if style == "--" else 2  # two curves share a part of their way
    axes.step(places, sizes, style, where="post", color=COLORS[color], label=name, zorder=above)
axes.set(
    title="What waits for the backward pass",
    xlabel="time (tensors packed or fetched, 1 is the end of the step)",
    ylabel="KiB",
)
axes.set_ylim(0, 1.5 * max(max(history) for history in histories.values()) / 1024)
axes.legend(loc="upper left", ncols=1)
show(
    figure,
    alt="KiB that wait for the backward pass, over one step. With 32 rows at once, and with four times 8 rows "
    "and one backward pass at the end, the curve climbs to its peak in the middle and falls to zero. With a "
    "backward pass after each 8 rows there are four small teeth, each a quarter as high.",
)
print(
    "peaks, against 32 rows at once:",
    ", ".join(f"{max(h) / max(histories['32 rows at once']):.2f}" for h in histories.values()),
)

# %% [markdown]
"""
This is no invention of ours. torchtune corrected the weights of its accumulation in October 2024 and moved the backward pass to the
end of the window to do so ([pull request 1875](https://github.com/meta-pytorch/torchtune/pull/1875)). Nine days later the memory was found,
and the backward pass went back to where it belongs
([pull request 1917](https://github.com/meta-pytorch/torchtune/pull/1917)).

What does it cost? No arithmetic: every row is computed once in either case. But small products use the hardware less well, and the
buffer of gradients stays in memory while the next micro-batch runs forward. Measured where this ran:
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
So: micro-batches as large as memory allows, and as many as the batch needs.
"""

# %% [markdown] exercise="accumulate-rows" points=4 minutes=15 difficulty=1
"""
### Accumulate to the full batch's gradient

Write `accumulate(model, loss_function, micro_batches)`.

- **In**: `loss_function(outputs, targets)` returns the *mean* over the rows, a tensor without dimensions; `micro_batches`, a list of pairs
  `(inputs, targets)`. The first dimension of both is the rows. **The number of rows differs** from pair to pair and is at least 1.
- **Out**: the mean loss over all rows of all pairs, a Python float. Afterwards the `.grad` of each parameter is the gradient of this mean. What
  lay in `.grad` before the call does not count.
- The memory is that of one micro-batch: the model sees one pair at a time, and each forward pass has had its backward pass before
  the next one begins. The model's mode, training or evaluation, stays as it is.

<!-- hint: Which factor turns the mean over one micro-batch into its part of the mean over all rows? What do you need to know before the first backward pass? -->
<!-- hint: Count the rows of all pairs first. Clear the old gradients once, before the loop. In the loop: forward, loss, its factor, backward. -->
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


def stays_in_eval_mode(rows, features, old=None):
    state, fresh = draw_batch_norm(features), check.draw.normal(11, features)
    pairs = draw_pairs(rows, features, features)
    options = {"training": False, "afterwards": fresh}
    if old:
        names = ("0.weight", "0.bias")
        options["old_gradients"] = {name: old + state[name].abs() for name in names}
    layers = [["BatchNorm1d", features], ["Tanh"]]
    got = call_accumulate(layers, state, pairs, **options)
    x, y = (torch.cat(parts) for parts in zip(*pairs, strict=True))
    loss = functional.cross_entropy(with_batch_norm(state, x, training=False), y)
    check.close(got["output"], loss.item(), rtol=1e-4, what="the loss")
    what = "what the model makes of new rows after the call"
    expected = with_batch_norm(state, fresh, training=False)
    check.close(got["outputs"], expected, rtol=1e-4, atol=1e-5, what=what)


with check.property("equal micro-batches give the loss and the gradient of the full batch"):
    (model, state), pairs = draw_network(5, 4, 3), draw_pairs([6, 6, 6], 5, 3)
    got = call_accumulate(model, state, pairs)
    loss, slopes = of_full_batch(state, pairs)
    check.close(got["output"], loss, rtol=1e-4, what="the loss")
    same_gradients(got["gradients"], slopes)
with check.property("so do micro-batches of 7, 1 and 3 rows", weight=2):
    (model, state), pairs = draw_network(4, 6, 5), draw_pairs([7, 1, 3], 4, 5)
    pairs = make_one_pair_hard(pairs, 0, lambda x: outputs_by_hand(state, x))
    got = call_accumulate(model, state, pairs)
    loss, slopes = of_full_batch(state, pairs)
    same_gradients(got["gradients"], slopes)
    check.close(got["output"], loss, rtol=1e-4, what="the loss")
with check.property("what lay in .grad before does not count"):
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
    what = "what the model makes of new rows after the call"
    expected = with_batch_norm(state, fresh)
    check.close(got["outputs"], expected, rtol=1e-4, atol=1e-5, what=what)
with check.property("each forward pass has had its backward pass before the next one begins"):
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
with check.property("a model in eval mode is used in eval mode, and stays in it"):
    stays_in_eval_mode((1 + check.draw.permutation(6)[:2]).tolist(), 3)
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
## A token is not a text

With texts the same mistake does not wait for the last micro-batch. Each text has its own length, and the loss is a mean over *tokens*.
So micro-batches with the same number of texts have different numbers of tokens, in every step.

Let us see what it does to a model, the smallest there is: one number, the logit of "yes". The micro-batches between two optimizer steps
are called a *window*; here it has two. The first is a text of 4 tokens, all "yes". The second is a text of 60 tokens, all "no". Of 64 tokens 4 are "yes", and a model that knows
nothing else should say so: $4/64 = 0.0625$.
"""


# %%
def learn_share_of_yes(mean_of_means, steps=120, learning_rate=2.0):
    texts = torch.ones(4), torch.zeros(60)
    total = sum(len(text) for text in texts)
    logit = torch.zeros((), requires_grad=True)
    shares = []
    for _ in range(steps):
        shares.append(torch.sigmoid(logit).item())
        for text in texts:
            logits = logit.expand(len(text))
            loss = functional.binary_cross_entropy_with_logits(logits, text, reduction="sum")
            (loss / (2 * len(text) if mean_of_means else total)).backward()
        with torch.no_grad():
            logit -= learning_rate * logit.grad
            logit.grad = None
    return shares


shares = {
    "mean of the two means": learn_share_of_yes(True),
    "mean over all tokens": learn_share_of_yes(False),
}
for name, values in shares.items():
    print(f"{name}: P(yes) is {values[-1]:.4f} at the end")

# %% folded="Plot: What is learned"
figure, axes = new_figure(height=3.0)
for (name, values), color in zip(shares.items(), ("vermilion", "blue"), strict=True):
    axes.plot(values, color=COLORS[color], label=name)
axes.axhline(4 / 64, color=COLORS["black"], linestyle=":", label="4 of 64 tokens")
axes.set(title="What is learned", xlabel="optimizer step", ylabel="P(yes)", ylim=(0, 0.6))
axes.legend(loc="center right")
show(
    figure,
    alt="Probability of yes against the optimizer step. With the mean of the two means it stays at 0.5. With the mean "
    "over all tokens it falls from 0.5 to 0.0625, the share of yes among the tokens.",
)

# %% [markdown]
r"""
The mean of the means learns 0.5. It is not slow, it has arrived: it minimizes another loss, in which a token of the short text
weighs 15 times as much as one of the long text.

One may *want* that each text counts the same. It is a choice. But then it must hold for every way of cutting. Put both texts into
one micro-batch, padded, and the mean over its tokens gives 0.0625 again. With the mean of means, what the model learns depends on how much memory the
machine had.

$$\text{loss} = \frac{1}{T} \sum_b \sum_{t \in b} \ell_t \qquad T = \text{all tokens of the window that count}$$

The divisor $T$ belongs to the whole window. No micro-batch knows it. There are two ways out:

- look at the labels of the whole window first, count, and divide each *sum* by $T$ before its backward pass;
- let the sums accumulate and multiply each `.grad` by $1/T$ at the end, before anybody looks at it.

Labels are small. To have those of a whole window in memory costs nothing beside one activation.

Which tokens count? In PyTorch the label -100 says "ignore me": padding, or a prompt that is not to be learned. `cross_entropy` leaves such
positions out of the sum and out of the count. If nothing is left, the mean is 0 / 0:
"""

# %%
ignored = torch.full((3,), -100)
for reduction in ("mean", "sum"):
    logits = torch.zeros(3, 5, requires_grad=True)
    loss = functional.cross_entropy(logits, ignored, reduction=reduction)
    loss.backward()
    print(f"{reduction}: the loss is {loss.item()}, its gradient {logits.grad.norm().item()}")

# %% [markdown]
"""
One such micro-batch, and the window's loss is nan; a running mean in the log is nan from then on. The gradient is 0, and that hides it: the micro-batch is
counted in the divisor, and the window's gradient is too short by its share. The sum does not mind.

The mean of means was in the Trainer of transformers until October 2024 ([pull request 34191](https://github.com/huggingface/transformers/pull/34191)), and in
torchtune until the same week. A relative was in OpenNMT-py in 2018: another divisor than the tokens that had been asked for
([pull request 526](https://github.com/OpenNMT/OpenNMT-py/pull/526)). It is easy to miss: the loss goes down all the same.

Slide the length of the short one and see how far the gradient is off. (Rows of digits here: 96 in three micro-batches, and a last one.)
"""


# %% tags=["nbval-ignore-output"] folded="Plot: What one row weighs"
def draw_last(last):
    sizes = [32, 32, 32, last]
    count = sum(sizes)
    parts = cut(sizes, count)
    figure, (left, right) = new_figure(1, 2, width_ratios=(1.2, 1))
    per_row = {"mean of means": [1 / (4 * n) for n in sizes], "wanted": [1 / count] * 4}
    for offset, (name, values), color in zip(
        (-0.2, 0.2), per_row.items(), ("vermilion", "blue"), strict=True
    ):
        places = [k + offset for k in range(4)]
        left.bar(places, [100 * v for v in values], width=0.38, color=COLORS[color], label=name)
    left.set_xticks(range(4), [f"{n} rows" for n in sizes])
    left.set(title="What one row weighs", xlabel="micro-batch", ylabel="percent of the gradient")
    left.legend(loc="upper left")
    truth = accumulated_gradient("times its share of the rows", [*cut([count], count)])
    for row, (rule, color) in enumerate(
        (
            ("divided by the number of micro-batches", "vermilion"),
            ("times its share of the rows", "blue"),
        )
    ):
        error = relative_error(accumulated_gradient(rule, parts), truth)
        right.barh(row, max(error, 1e-8), color=COLORS[color], height=0.5, left=0)
        right.text(1.5 * max(error, 1e-8), row, f"{error:.1g}", va="center")
    right.set_xscale("log")
    right.set_xlim(1e-8, 100)
    right.set_yticks(range(2), ["mean of\nmeans", "share"])
    right.invert_yaxis()
    right.grid(False, axis="y")
    right.set(title="The gradient is off by", xlabel="relative error", ylabel="rule")
    return figure


play(
    draw_last,
    label="rows of the last micro-batch",
    values=[1, 2, 4, 8, 16, 24, 31, 32],
    start=4,
    alt="Left: what one row weighs in four micro-batches of 32, 32, 32 and 4 rows. By the mean of means a row "
    "of the last one weighs 6.25 percent and each other 0.8; wanted is 1 percent for all. Right: the gradient "
    "is off by 0.7 for the mean of means, and by a ten-millionth with shares.",
)

# %% [markdown] exercise="accumulate-tokens" points=4 minutes=20 difficulty=2
"""
### Weighted by tokens

Write `accumulate_tokens(model, micro_batches)`.

- **In**: `micro_batches`, a list of pairs `(tokens, labels)`, int64, both of shape (texts, length). Texts and length differ from pair to pair.
  `model(tokens)` returns logits of shape (texts, length, classes). A label of -100 does not count. In some pairs no label
  counts at all; at least one label in the whole list does.
- **Out**: the mean cross entropy over all labels that count, in all pairs, a Python float. Afterwards the `.grad` of each parameter is the
  gradient of this mean. What lay in `.grad` before does not count.
- The memory is that of one micro-batch, as in the last exercise.

<!-- hint: Over what is the mean taken, and where does that number come from before the first backward pass? -->
<!-- hint: Count the labels that are not -100 in all pairs. Then each pair gives a sum, divided by that count, and needs no factor of its own. -->
<!-- hint: `cross_entropy` wants the classes in dimension 1: flatten the logits to (positions, classes) with `flatten(0, 1)` and the labels to (positions,). `reduction="sum"` gives the sum, and leaves -100 out. -->
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
with check.property("what lay in .grad before does not count"):
    (model, state), pairs = draw_model(7, 3), draw_texts([(2, 6), (4, 3)], 7)
    old = {name: 2 + value.abs() for name, value in state.items()}
    agrees_with_all_tokens(model, state, pairs, old_gradients=old)
with check.property("one micro-batch at a time, forward and backward"):
    lengths = (5 + check.draw.permutation(6)[: check.draw.integer(2, 5)]).tolist()
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
## The window that does not close

A training loop counts micro-batches and steps when the count is a multiple of $k$. With 10 micro-batches and $k = 4$:
"""


# %%
def draw_windows(count, steps):
    """Return the window of each micro-batch, None for those that no window closes."""
    windows, current = [], 1
    for number in range(count):
        windows.append(current)
        if (number + 1) % steps == 0:
            current += 1
    return [window if window < current else None for window in windows]


windows = draw_windows(10, 4)
print("window of each micro-batch:", windows)
for pictures, rows, steps in ((1797, 32, 8), (1797, 32, 40)):
    count = math.ceil(pictures / rows)
    lost = draw_windows(count, steps).count(None)
    print(f"{count} micro-batches, windows of {steps}: {lost} are in no window")

# %% folded="Plot: One epoch: 10 micro-batches, a step after every 4"
figure, axes = new_figure(height=1.9)
for number, window in enumerate(windows):
    color = COLORS["vermilion"] if window is None else COLORS["blue" if window % 2 else "sky"]
    axes.barh(0, 0.9, left=number + 0.55, height=0.6, color=color)
    told = "no step" if window is None else f"window {window}"
    ink = "black" if window is not None and window % 2 == 0 else "white"
    axes.text(number + 1, 0, told, ha="center", va="center", color=ink, fontsize=8)
axes.set_yticks([])
axes.set_xticks(range(1, 11))
axes.set_xlim(0.45, 10.55)
axes.set_ylim(-0.4, 0.4)
axes.grid(False)
axes.set(
    title="One epoch: 10 micro-batches, a step after every 4", xlabel="micro-batch", ylabel="epoch"
)
show(
    figure,
    alt="Ten boxes in a row. Micro-batches 1 to 4 are window 1, 5 to 8 are window 2. Micro-batches 9 and 10 are "
    "marked no step.",
)

# %% [markdown]
r"""
The last two have their forward and their backward pass, and no step. What becomes of their gradient depends on where `zero_grad` stands:

- at the beginning of each epoch: it is thrown away, and these rows were computed for nothing;
- only after a step: it *stays*, and is added to the first window of the next epoch. Those are six micro-batches, each divided by 4: a gradient one and a
  half times too long. After the last epoch it is lost.

And if one does close the window, the divisor must be that of *this* window. Two micro-batches, each divided by $k = 4$, give half the
gradient:
"""

# %%
last_two = cut([25, 25], 50)
full = make_classifier()
functional.cross_entropy(full(pixels[:50]), digit_labels[:50]).backward()
for name, divisor in (("k = 4", 4), ("the two that are there", 2)):
    model = make_classifier()
    for inputs, labels in last_two:
        (functional.cross_entropy(model(inputs), labels) / divisor).backward()
    length = gradient_of(model).norm() / gradient_of(full).norm()
    print(f"divided by {name}: {length:.2f} of the gradient's length")

# %% [markdown]
"""
Lightning closes the window and divides by $k$ there, too ([issue 19987](https://github.com/Lightning-AI/pytorch-lightning/issues/19987), open).

Why not know the length beforehand? `len(loader)` tells it, mostly. A stream has no length. What always works is to take micro-batches from the
iterator until there are $k$ of them *or no more come*, and only then to begin with the window. `itertools.islice` takes up to
$k$ from an iterator:
"""

# %%
stream = iter("abcdefghij")
while window := list(itertools.islice(stream, 4)):
    print(window)

# %% [markdown] exercise="close-windows" points=4 minutes=20 difficulty=2
"""
### An epoch with a short window

Write `train_epoch(model, optimizer, loss_function, micro_batches, steps)`: one optimizer step for each window of `steps` micro-batches.

- **In**: `loss_function` as in the first exercise, a mean over rows; `micro_batches`, an **iterator** over pairs `(inputs, targets)`, which can be gone
  through once and has no length. The number of rows differs from pair to pair. `steps` is at least 1.
- **Out**: a list of Python floats, the mean loss over the rows of each window, computed with the weights before its step.
- The last window may have fewer micro-batches than `steps`, and steps all the same. Each window's gradient is that of the mean over
  *its* rows. If nothing comes from the iterator, there is no step and the list is empty.
- What lies in `.grad` before the call does not count.
- The memory is that of one micro-batch, as in the first exercise. The model is in training mode, and every forward pass is made in it.
- `optimizer` is one of torch's. It may have a momentum, a weight decay and several groups of parameters.

You may use your `accumulate`.

<!-- hint: How do you find out that a window is the last one, without asking for the length? When do you know its number of rows? -->
<!-- hint: Collect the pairs of one window in a list first. Then the window is a little full batch of its own, and the first exercise does the rest. -->
<!-- hint: `while window := list(itertools.islice(micro_batches, steps))` gives one list after the other, the last one shorter. In the loop: `accumulate`, keep what it returns, then let the optimizer step. -->
"""


# %% solution="close-windows"
def train_epoch(model, optimizer, loss_function, micro_batches, steps):
    """Make one step per window of ``steps`` micro-batches; return the mean loss of each window."""
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
    same_training(got, state, pairs, steps)


with check.property("two full windows of equal micro-batches"):
    agrees_with_full_windows([4] * 6, 3, (5, 4, 3))
with check.property("a short last window steps, by its own number of rows", weight=3):
    agrees_with_full_windows([4] * 7, 3, (4, 5, 3))
with check.property("micro-batches of different sizes", weight=2):
    agrees_with_full_windows([2, 7, 1, 5, 3, 8, 1, 6], 3, (6, 4, 5))
with check.property("fewer micro-batches than a window takes: one step; none at all: no step"):
    agrees_with_full_windows([5, 2], 4, (3, 5, 4))
    agrees_with_full_windows([], 2, (3, 4, 5))
with check.property("what lies in .grad before the call does not count"):
    agrees_with_full_windows([3, 1, 4, 2], 2, (4, 6, 3), old=1.0)
with check.property("a network with BatchNorm sees each micro-batch by itself, in training mode"):
    rows, steps = (4 + check.draw.permutation(8)[:5]).tolist(), check.draw.integer(2, 4)
    (model, state), pairs = draw_normed(4, 3), draw_pairs(rows, 4, 3)
    got = train(probes.trained_in_windows, model, state, pairs, steps)
    weights = {name: state[name] for name in ("0.weight", "0.bias", "1.weight", "1.bias")}
    same_training(got, weights, pairs, steps, normed)
with check.property("each forward pass has had its backward pass before the next one begins"):
    steps, windows = check.draw.integer(2, 4), check.draw.integer(1, 3)
    # Any two of these are more than the largest, and one is left for a short window.
    rows = (7 + check.draw.permutation(7)[: windows * steps + 1]).tolist()
    inputs, hidden, classes = (3 + check.draw.permutation(4)[:3]).tolist()
    model, state = draw_network(inputs, hidden, classes)
    pairs = draw_pairs(rows, inputs, classes)
    seen = train(probes.forward_passes, model, state, pairs, steps)
    same_training(seen, state, pairs, steps)
    check.true(
        seen["rows"] <= max(rows),
        f"a forward pass saw {seen['rows']} rows, and the largest micro-batch has {max(rows)}",
    )
    check.true(
        seen["waiting"] <= 1,
        f"{seen['waiting']} forward passes were waiting for their backward pass at the same time",
    )
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
## Clipping: one length for all

Sometimes a gradient is a hundred times longer than those before it: a strange text, a recurrent network, the first steps of a
deep one. One step along it may undo a day. *Clipping* bounds the length of the step.

Take a gradient of two weights, $g = (4, 1)$, and the bound 1. Three ways to bound it:

- **by norm**: if $\lVert g \rVert > c$, multiply $g$ by $c / \lVert g \rVert$. It gets shorter and keeps its direction.
- **by value**: bring each entry into $[-c, c]$.
- **by norm, each tensor for itself**: as the first, but with the norm of each parameter alone.
"""

# %%
gradient = torch.tensor([4.0, 1.0])
clipped = {
    "by norm": gradient / gradient.norm(),
    "by value": gradient.clamp(-1, 1),
    "each tensor for itself": gradient.sign(),  # two tensors of one entry: each norm becomes 1
}
print(f"the gradient: {gradient.tolist()}, norm {gradient.norm().item():.3f}")
for name, vector in clipped.items():
    cosine = functional.cosine_similarity(vector, gradient, dim=0).item()
    told = ", ".join(f"{entry:.2f}" for entry in vector.tolist())
    print(f"{name:<23} ({told}), norm {vector.norm().item():.2f}, cosine {cosine:.3f}")

# %% folded="Plot: A gradient of two weights, clipped at 1"
figure, axes = new_figure(height=3.5)
arrow = {"angles": "xy", "scale_units": "xy", "scale": 1, "width": 0.007}
axes.quiver(0, 0, 4, 1, color="#bbbbbb", label="the gradient", **arrow)
axes.quiver(0, 0, *clipped["by norm"], color=COLORS["blue"], label="by norm", **arrow)
axes.quiver(
    *(0, 0, *clipped["by value"]),
    color=COLORS["vermilion"],
    label="by value, and each tensor for itself",
    **arrow,
)
angles = torch.linspace(0, math.pi / 2, 60)
axes.plot(angles.cos(), angles.sin(), ":", color=COLORS["black"], label="norm 1")
axes.set(title="A gradient of two weights, clipped at 1", xlim=(0, 4.6), ylim=(0, 1.3))
axes.set(xlabel="gradient of weight 1", ylabel="gradient of weight 2")
axes.set_aspect("equal")
figure.legend(loc="outside lower center", ncols=2, frameon=False)
show(
    figure,
    alt="Arrows from the origin. The gradient points to (4, 1). Clipped by norm it is short and points the same way, and ends on "
    "the circle of radius 1. Clipped by value, or each tensor for itself, it points to (1, 1), another direction.",
)

# %% [markdown]
r"""
By value the direction is lost: the weight that mattered four times as much now matters as much as the other. The same happens if
each parameter is clipped by its own norm. The *global* norm is that of all gradients as one long vector:

$$\lVert g \rVert = \sqrt{\textstyle\sum_p \sum_i g_{p,i}^2} \qquad g_p \leftarrow g_p \cdot \min\!\left(1, \frac{c}{\lVert g \rVert}\right)$$

There is one factor for all of them, and it is never above 1. Pascanu, Mikolov and Bengio proposed it in 2013 (section 3.2 of their paper).
`torch.nn.utils.clip_grad_norm_(parameters, max_norm)` does it in place and **returns the norm from before**: log it. Its small print:
"""


# %%
def after_clipping(entries, max_norm):
    weight = torch.nn.Parameter(torch.zeros(len(entries)))
    weight.grad = torch.tensor(entries)
    norm = torch.nn.utils.clip_grad_norm_([weight], max_norm).item()
    return f"norm {norm:.3g}, afterwards {[float(f'{g:.3g}') for g in weight.grad.tolist()]}"


print("(3, 4) at 1:         ", after_clipping([3.0, 4.0], 1.0))
print("(0.3, 0.4) at 1:     ", after_clipping([0.3, 0.4], 1.0))
print("(1, 2, inf) at 1:    ", after_clipping([1.0, 2.0, math.inf], 1.0))
print("(0, 3e-6) at 1e-6:   ", after_clipping([0.0, 3e-6], 1e-6))

# %% [markdown]
r"""
- An inf makes the norm inf and the factor 0: the inf becomes nan (inf × 0), and everything else becomes **0**. Clipping is no cure for
  inf and nan. `error_if_nonfinite=True` raises an error instead.
- It divides by $\lVert g \rVert + 10^{-6}$. You see it at tiny norms only: 7.5e-7 came back where the bound was 1e-6.

And where does it stand under accumulation? Behind the window's last backward pass. Clip after every micro-batch, and you clip sums that are not
done yet. Two micro-batches whose gradients point against each other show it:
"""

# %%
first, second = torch.tensor([30.0, 1.0]), torch.tensor([-30.0, 1.0])


def clip(vector, bound=1.0):
    return vector * min(1.0, bound / vector.norm().item())


in_the_end = clip((first + second) / 2)
after_each = clip(clip(first / 2) + second / 2)
for name, vector in (("clipped in the end:", in_the_end), ("clipped after each:", after_each)):
    print(name, [round(entry, 3) for entry in vector.tolist()])

# %% [markdown]
r"""
The large parts cancel, and the mean is (0, 1). Clipped on the way, the first micro-batch has lost its length, nothing cancels, and what is left is the
direction of the second. (Lightning once had step and clipping before the division:
[issue 87](https://github.com/Lightning-AI/pytorch-lightning/issues/87).)

(Clipping each *row* by itself, before the mean, is another algorithm on purpose. Differential privacy needs it: Abadi and others, 2016.)
"""

# %% [markdown] exercise="clip-global-norm" points=4 minutes=20 difficulty=2
"""
### Clipping by the global norm

Write `clip_by_global_norm(gradients, max_norm)`, without changing anything in place.

- **In**: `gradients`, a list whose items are tensors of any shape, float32 or float64, or None (a parameter that got no gradient);
  `max_norm`, a Python float above 0.
- **Out**: a tuple `(clipped, norm)`. `norm` is the global norm of all gradients, a Python float. `clipped` is a list of the same length: None
  where None was, and a tensor of the same shape and dtype elsewhere.
- If the norm is above `max_norm`, all tensors are multiplied by one factor, so that the global norm becomes `max_norm`, to rounding,
  also for norms of a millionth. There is no need for a small number in the divisor.
- Otherwise the values come back unchanged, to the last bit, in the same tensors or in copies. They do, too, if the norm is inf or nan: who skips the step is
  decided elsewhere. (Finite entries are small enough for a sum of their squares in float32.)
- No gradients at all have the norm 0. The tensors in `gradients` stay as they are.

<!-- hint: Which numbers go into the norm? How many factors are there? -->
<!-- hint: The squares of all entries of all tensors under one root. The factor is used only if the norm is finite and above the bound. -->
<!-- hint: The squared norms of the tensors add up: sum `(g.double() ** 2).sum().item()` over those that are not None, then `math.sqrt`. `math.isfinite` tells the rest. -->
"""


# %% solution="clip-global-norm"
def clip_by_global_norm(gradients, max_norm):
    """Return the gradients, scaled so that their global norm is at most ``max_norm``, and that norm."""
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
    check.true(type(got) is tuple and len(got) == 2, "not a tuple of two came back")
    check.true(type(got[0]) is list, "the first item that came back is not a list")
    return got


def draw_gradients():
    return [check.draw.normal(3, 4), check.draw.normal(5, std=20.0), check.draw.normal(2, 3, 4)]


with check.property("a long gradient gets the norm max_norm, by one factor for all"):
    gradients, bound = draw_gradients(), check.draw.number(0.3, 3.0)
    clipped, norm = call_clip(gradients, bound)
    expected = norm_of(gradients)
    check.close(norm, expected, rtol=1e-5, atol=0.0, what="the norm")
    check.close(clipped, [g * (bound / expected) for g in gradients], what="the clipped gradients")
with check.property("a short gradient comes back to the last bit", weight=2):
    gradients = draw_gradients()
    bound = 1.5 * norm_of(gradients)
    clipped, norm = call_clip(gradients, bound)
    check.close(norm, norm_of(gradients), rtol=1e-5, atol=0.0, what="the norm")
    check.equal(clipped, gradients, what="the gradients")
with check.property("None stays None and counts for nothing, each tensor keeps its dtype"):
    first, second, third = draw_gradients()
    second = second.double()
    clipped, norm = call_clip([None, first, second, None, third], 0.5)
    expected = norm_of([first, second, third])
    check.close(norm, expected, rtol=1e-5, atol=0.0, what="the norm")
    scaled = [g if g is None else g * (0.5 / expected) for g in (None, first, second, None, third)]
    check.close(clipped, scaled, rtol=1e-5, atol=0.0, what="the clipped gradients")
with check.property("nothing is changed if the norm is inf or nan", weight=2):
    for bad in (math.inf, math.nan):
        gradients = draw_gradients()
        gradients[1][3] = bad
        clipped, norm = call_clip(gradients, 1.0)
        check.close(norm, bad, what="the norm")
        check.equal(clipped, gradients, what="the gradients")
with check.property("norms of a millionth are clipped as exactly as others"):
    gradients = [check.draw.normal(4, 3, std=1e-6), check.draw.normal(6, std=1e-6)]
    expected = norm_of(gradients)
    clipped, norm = call_clip(gradients, 1e-7)
    check.close(norm, expected, rtol=1e-5, atol=0.0, what="the norm")
    scaled = [g * (1e-7 / expected) for g in gradients]
    check.close(clipped, scaled, atol=0.0, rtol=1e-4, what="the clipped gradients")
with check.property("no gradients at all have the norm 0"):
    for empty in ([], [None, None]):
        clipped, norm = call_clip(empty, 1.0)
        check.close(norm, 0.0, what="the norm of no gradients")
        check.equal(clipped, empty, what="no gradients")
with check.property("the tensors that went in stay as they are"):
    gradients, bound = draw_gradients(), check.draw.number(0.3, 3.0)
    seen = check.call(probes.after_call, clip_by_global_norm, gradients, bound)
    expected = norm_of(gradients)
    answer = [g * (bound / expected) for g in gradients], expected
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

A schedule changes the learning rate over the training. Three that you will meet:

- `StepLR(optimizer, step_size=10, gamma=0.1)`: every 10 steps the rate is multiplied by 0.1;
- `CosineAnnealingLR(optimizer, T_max=n)`: half a cosine, from the first rate down to 0 in $n$ steps (Loshchilov and Hutter 2017);
- *warm-up and decay*: a line up, then a line or a cosine down. `LambdaLR` takes any function of the step, and `OneCycleLR` is a ready-made one.

A scheduler does not know what a step is. It counts its own calls. `scheduler.step()` belongs behind `optimizer.step()`, *once for each of
these*. In a loop with accumulation it is easily called for every micro-batch:
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


schedules = {
    "StepLR": lambda o: torch.optim.lr_scheduler.StepLR(o, step_size=10, gamma=0.1),
    "CosineAnnealingLR": lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, T_max=40),
    "warm-up of 16 steps, then a line": lambda o: torch.optim.lr_scheduler.LambdaLR(
        o, lambda step: min((step + 1) / 16, max(0.0, (40 - step) / 24))
    ),
}

# %% folded="Plot: three schedules"
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
    alt="Learning rate against optimizer step for three schedules. Stepped once per optimizer step: StepLR falls "
    "by ten every 10 steps; the cosine falls to 0 at step 40; the warm-up rises for 16 steps and then falls to 0. Stepped once "
    "per micro-batch with k of 2: StepLR falls every 5 steps, the cosine falls to 0 at 20 and rises to 1 again, the "
    "warm-up lasts 8 steps and the rate is 0 from step 20 on.",
)

# %%
cosine = rates(schedules["CosineAnnealingLR"], 40, 2)
print(f"cosine, once per micro-batch: {cosine[19]:.2f} at step 19, {cosine[-1]:.2f} at step 39")
early = rates(schedules["warm-up of 16 steps, then a line"], 3, 16)
print("warm-up with k = 16: the rates of the first three steps are", [round(r, 2) for r in early])
try:
    rates(lambda o: torch.optim.lr_scheduler.OneCycleLR(o, max_lr=1.0, total_steps=40), 40, 2)
except ValueError as error:
    print("OneCycleLR:", str(error).split(".")[0])

# %% [markdown]
r"""
Of the three, one falls too early, one is over at half of the training, and the cosine *comes up again*: it is periodic, and at the end of the training the
rate is as high as at the beginning. A fourth, `OneCycleLR`, complains. With $k = 16$ a warm-up of 16 steps lasts one step. A user of
Lightning found it so ([issue 1476](https://github.com/Lightning-AI/pytorch-lightning/issues/1476)).

Whoever makes the scheduler must count in the same unit. With $m$ micro-batches in an epoch, an epoch has $\lceil m / k \rceil$ optimizer
steps; rounded up, since the short window steps too. (A schedule that is meant to count *epochs* is called once per epoch, whatever $k$ is.)
"""

# %% [markdown]
r"""
## Everything in order

With float16 there is a scaler (chapter 04): it multiplies the loss by a large power of two, so that small gradients do not vanish on
the way back. Before the step the gradients are divided by it again. If one of them is inf or nan, the step is left out and the scale is
halved. Now each call has its place:

| for each **micro-batch** | once for each **window**, in this order |
| --- | --- |
| forward pass and loss | `scaler.unscale_(optimizer)`: divide by the scale |
| the loss's share of the window | `clip_grad_norm_(...)`: now the norm means something |
| `scaler.scale(loss).backward()` | `scaler.step(optimizer)`: steps, or skips |
| | `scaler.update()`: may change the scale |
| | `scheduler.step()`, *if the optimizer did step* |
| | `optimizer.zero_grad()`, also after a skipped step |

Why `update` once for each window? It may change the scale. Within a window, gradients of two scales would be added up in one `.grad`, and no
single division could undo both. Why `unscale_` once? It divides in place, and a second call is an error:
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
Most other orders raise nothing. So let us compare: one step of the full batch, with scaler and clipping, against one step of four micro-batches
(32, 32, 32 and 4), right and in four wrong ways. What is compared is the *update*, the way that the weights went.
"""


# %%
def update_of(sizes, order="right", bound=0.1):
    """Return how far the weights went in one step of 100 pictures."""
    model = make_classifier()
    before = torch.nn.utils.parameters_to_vector(model.parameters()).detach().clone()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)

    def clip_now():
        torch.nn.utils.clip_grad_norm_(model.parameters(), bound)

    for inputs, labels in cut(sizes):
        share = 1 / len(cut(sizes)) if order == "mean of means" else len(inputs) / 100
        scaler.scale(share * functional.cross_entropy(model(inputs), labels)).backward()
        if order == "clip after each micro-batch":
            for parameter in model.parameters():
                parameter.grad /= scaler.get_scale()
            clip_now()
            for parameter in model.parameters():
                parameter.grad *= scaler.get_scale()
    if order == "clip before unscale_":
        clip_now()
    scaler.unscale_(optimizer)
    if order in ("right", "mean of means"):
        clip_now()
    scaler.step(optimizer)
    if order == "clip after step":
        clip_now()
    scaler.update()
    return torch.nn.utils.parameters_to_vector(model.parameters()).detach() - before


full_update = update_of([100])
print(f"norm of the gradient: {true_gradient.norm().item():.2f}, clipped at 0.1")
for order in (
    *("right", "mean of means", "clip after each micro-batch"),
    *("clip before unscale_", "clip after step"),
):
    update = update_of([32, 32, 32, 4], order)
    error = relative_error(update, full_update)
    length = update.norm() / full_update.norm()
    told = f"{error:.3f}" if error > 2e-6 else "below 2e-6"
    print(f"{order:<28} off by {told:<11} length {length:.3f}")

# %% [markdown]
r"""
The right order gives the full batch's step, to rounding. (The scale is a power of two, so multiplying by it rounds nothing.) Read the others:

- *Clip before `unscale_`* compares a norm that is 1024 times too large with the bound, clips, and then divides by 1024. The step is a
  thousandth of what it should be. With SGD the model hardly learns, and the loss curve is beautifully smooth.
- *Clip after each micro-batch* bounds sums that are not done, as above. The length is the bound here, and the direction is another.
- *Clip after the step* clips what nobody reads any more. The step is three times too long.
- *Mean of means* has the right length here, since clipping gives every long gradient the same. Its direction is wrong.

### Did it step?

`scaler.step` does not tell. But a skipped step halves the scale, and only that makes it smaller. After many good steps in a row it *grows*: 2000 by default,
`growth_interval` of them if you say so.
So compare the scale before and after `update()`: it was skipped if the scale is smaller now. A disabled scaler always says 1.
"""

# %%
weight = torch.nn.Parameter(torch.tensor([1.0]))
optimizer = torch.optim.SGD([weight], lr=0.1)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=1)
print("gradient  scale before and after  weight  next rate")
for slope in (1.0, math.inf, 1.0):
    before = scaler.get_scale()
    scaler.scale((slope * weight).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    if scaler.get_scale() >= before:
        scheduler.step()
    optimizer.zero_grad()
    rate = optimizer.param_groups[0]["lr"]
    print(
        f"{slope:>8}{before:>10.0f}{scaler.get_scale():>11.0f}{weight.item():>12.2f}{rate:>10.3f}"
    )

# %% [markdown]
"""
Step the schedule after a skipped step, and it runs ahead of the optimizer. At the beginning of a float16 training, when the scale is still too high, the first steps of
a warm-up pass without one step of the optimizer. An issue on it is open in PyTorch since 2020
([44511](https://github.com/pytorch/pytorch/issues/44511)), another since 2021 ([55585](https://github.com/pytorch/pytorch/issues/55585)). Most compare
scales, as above. On a GPU each look at the scale waits for the device. So Accelerate watches whether `optimizer.step` was called
([pull request 1720](https://github.com/huggingface/accelerate/pull/1720)).

### What to log

Log what was optimized: the loss over the *window*, with the same weights as the gradient. The loss of the last micro-batch is a noisy part of it, and
the sum of the losses is something else:
"""

# %%
model = make_classifier()
with torch.no_grad():
    parts = [(functional.cross_entropy(model(x), y).item(), len(y)) for x, y in cut(32)]
print(f"{len(parts)} micro-batches, the last one of {parts[-1][1]} rows")
print(f"sum of their losses:  {sum(loss for loss, _ in parts):.2f}")
print(f"mean of their losses: {sum(loss for loss, _ in parts) / len(parts):.2f}")
print(f"the window's loss:    {sum(loss * rows for loss, rows in parts) / 100:.2f}")

# %% [markdown]
"""
The sum is $k$ times too high. It may be only the log. But in nanoGPT the loss had not been divided before `backward` either: Adam hid it, and the bound of
the clipping was $k$ times too tight ([issue 168](https://github.com/karpathy/nanoGPT/issues/168)). In axolotl 8 micro-batches gave a loss of 84 in place of
10.5, and the norm of the gradient differed, too ([issue 2262](https://github.com/axolotl-ai-cloud/axolotl/issues/2262)). So look at both.

The mean of the losses is hardly off, as long as all rows are about equally hard. Yet these are the micro-batches of the beginning, and their mean of means has
a gradient that is off by 70 percent. A loss that looks right proves nothing about the gradient.

Beside the loss, log the norm *before* clipping (it tells of trouble before the loss does), the rate of the step, whether it was skipped, and the tokens seen. On a
GPU each `.item()` waits for the device. Add up detached tensors, and ask once for each window.
"""

# %% [markdown] exercise="full-loop" points=6 minutes=35 difficulty=3
"""
### The full loop

Write `train_scaled(model, optimizer, loss_function, micro_batches, steps, max_norm, scaler, scheduler)`: the epoch of `train_epoch`, with scaler, clipping
and schedule.

- **In**: as for `train_epoch`; `max_norm`, the bound of the global norm; `scaler`, a `torch.amp.GradScaler`, which may be disabled
  (`enabled=False`; then no inf and no nan comes); `scheduler`, whose rate is meant to change after each step that the optimizer *really* made. All groups of
  parameters have the same rate. No autocast region is needed: the model brings what it needs.
- **Out**: a list with a dict for each window:
  `"loss"`, the mean loss over its rows, a float; `"norm"`, the global norm of its gradient, unscaled, before clipping, a float; `"rate"`, the
  learning rate of this step, made or skipped, a float; `"stepped"`, a bool.
- As for `train_epoch`: the memory is that of one micro-batch, every forward pass is made in training mode, what lies in `.grad` before the call does not count.
- The gradient is clipped by its global norm, that of all parameters; you may use torch's function. A window with an inf or a nan in its gradient is skipped by the scaler. Then
  `"stepped"` is False, the schedule waits, `"loss"` and `"norm"` may be any float, and the next window must not notice.
- The scaler is updated once for each window. The scale may shrink, stay or grow there.

<!-- hint: Go through the table of this section: which calls stand in the inner loop, which behind it? What must be asked before `update`, and what after it? -->
<!-- hint: Start from `train_epoch`. `accumulate` cannot be used as it is, since each loss must go through `scaler.scale` on its way to `backward`; what you log is the loss before that. -->
<!-- hint: Behind the inner loop: unscale, clip (keep the norm), note the rate and the scale, step, update. It stepped if the scale is not smaller than noted. Then the schedule, and the gradients are cleared in any case. -->
"""


# %% solution="full-loop"
def train_scaled(
    model, optimizer, loss_function, micro_batches, steps, max_norm, scaler, scheduler
):
    """Make one scaled, clipped step per window; return a dict of what happened in each."""
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
    check.close(got["scale"], scale, what="the scale at the end")


def same_training(got, weights, log, after):
    """The log first: in it a mistake has a name, and in the weights all look alike."""
    check.true(type(got["output"]) is list, "not a list came back")
    check.close(len(got["output"]), len(log), what="the number of windows in the list")
    for number, (entry, expected) in enumerate(zip(got["output"], log, strict=True)):
        what = f"window {number}"
        check.true(type(entry) is dict, f"{what}: not a dict is in the list")
        check.true(set(entry) == set(expected), f"{what}: the keys are {sorted(map(str, entry))}")
        check.close(entry["stepped"], expected["stepped"], what=f'{what}, "stepped"')
        check.close(entry["rate"], expected["rate"], rtol=1e-6, what=f'{what}, "rate"')
        if expected["stepped"]:
            check.close(entry["loss"], expected["loss"], rtol=1e-3, what=f'{what}, "loss"')
            check.close(entry["norm"], expected["norm"], rtol=1e-3, what=f'{what}, "norm"')
    for name, start in weights.items():
        way = (after[name] - start).abs().max().item()
        what, value = f"{name} at the end", after[name].float()
        check.close(got["state_dict"][name], value, rtol=0.0, atol=2e-3 * way + 1e-5, what=what)


with check.property("two full windows, nothing to clip and nothing to skip"):
    agrees_by_hand(draw_task([3, 3, 3, 3], 5, 4, 3), 2, 1e4)
with check.property("the gradient is clipped, unscaled, in the end of the window", weight=2):
    agrees_by_hand(draw_task([4] * 6, 4, 6, 3), 3, 0.05)
with check.property("the schedule counts optimizer steps"):
    agrees_by_hand(draw_task([2] * 8, 6, 4, 5), 2, 1e4, schedule=(2, 0.25))
with check.property("a short last window, and micro-batches of different sizes", weight=2):
    agrees_by_hand(draw_task([1, 6, 3, 2, 7, 4, 1, 5], 3, 5, 4), 3, 0.2)
with check.property("a window with an inf is skipped, and the next one does not notice", weight=2):
    task = draw_task([3] * 8, 5, 3, 4)
    task[2][3][0][1, 2] = math.inf
    agrees_by_hand(task, 2, 0.3, schedule=(1, 0.5))
with check.property("a scale that grows is no skipped step"):
    agrees_by_hand(draw_task([2, 5, 1, 4, 3], 4, 3, 5), 2, 0.3, growth=1, schedule=(1, 0.5))
with check.property("what lies in .grad before the call does not count"):
    task = draw_task([2, 3, 1, 4], 3, 4, 5)
    old = {name: 256 * (1 + value.abs()) for name, value in task[1].items()}
    agrees_by_hand(task, 2, 1e4, old=old)
with check.property("a network with BatchNorm sees each micro-batch by itself, in training mode"):
    rows, steps = (4 + check.draw.permutation(8)[:5]).tolist(), check.draw.integer(2, 4)
    agrees_by_hand(draw_normed_task(rows, 4, 3), steps, 0.5)
with check.property("each forward pass has had its backward pass before the next one begins"):
    steps, windows = check.draw.integer(2, 4), check.draw.integer(1, 3)
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
## BatchNorm does not know the window

BatchNorm normalizes each row with the mean and the variance of its batch (chapter 01). Its batch is the *micro*-batch. So a row's output
depends on who is with it, and no weighting of losses makes the gradient that of the full batch:
"""


# %%
def error_with(norm, size, rows=96):
    """Return the error of the accumulated gradient of a network with a norm layer."""

    def gradient(step):
        torch.manual_seed(0)
        model = torch.nn.Sequential(
            *(torch.nn.Linear(64, 32), norm(32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
        )
        for start in range(0, rows, step):
            part = slice(start, start + step)
            loss = functional.cross_entropy(model(pixels[part]), digit_labels[part])
            (loss * step / rows).backward()
        return gradient_of(model)

    return relative_error(gradient(size), gradient(rows))


print("rows at a time:          48       16        8        4")
for name, norm in (("BatchNorm1d", torch.nn.BatchNorm1d), ("LayerNorm", torch.nn.LayerNorm)):
    told = [
        f"{e:.2f}" if e > 1e-6 else "< 1e-6" for e in (error_with(norm, s) for s in (48, 16, 8, 4))
    ]
    print(f"{name:<18}" + "".join(f"{t:>9}" for t in told))

# %% [markdown]
r"""
This part cannot be repaired from outside. Norms that look at one row only (layer, group, instance norm) do not have the problem, which is one
reason to take them where memory is short: 3-D networks, with their tiny batches, mostly do (chapter 01).

The other part can be repaired. BatchNorm keeps *running* statistics for the evaluation: with the momentum $m$, each forward pass in
training mode does

$$\text{running} \leftarrow (1 - m) \cdot \text{running} + m \cdot \text{batch}$$

The momentum was chosen for one forward pass per optimizer step. With $k$ micro-batches there are $k$. What was known before the step keeps
$(1 - m)^k$ of its weight, where it should keep $1 - m$:
"""

# %%
layer = torch.nn.BatchNorm1d(1, momentum=0.1)
for k in (1, 8, 32):
    layer.reset_running_stats()
    layer.running_mean.fill_(1.0)
    for _ in range(k):
        layer(torch.tensor([[-1.0], [1.0]]))  # the mean is 0: what is left of 1 is the old share
    print(f"k = {k:>2}: {layer.running_mean.item():.3f} of the old mean is left after one step")

# %% [markdown]
r"""
With $k = 32$ the running statistics are those of the last few micro-batches, and as noisy as these. The memory shrank from about ten steps to
less than one.

The cure is a smaller momentum $m'$, one for which $k$ small steps forget as much as one large one: $(1 - m')^k = 1 - m$. Solve it for $m'$.
"""

# %% folded="Plot: What is left of the running mean"
figure, axes = new_figure(height=3.0)
ages = list(range(25))
for k, color, style in ((1, "blue", "-"), (8, "vermilion", "--"), (32, "orange", ":")):
    left = [0.9 ** (k * age) for age in ages]
    axes.plot(ages, left, style, color=COLORS[color], label=f"k = {k}, momentum 0.1")
axes.set(
    title="What is left of the running mean",
    xlabel="optimizer steps since then",
    ylabel="share",
    ylim=(0, 1.05),
)
axes.legend()
show(
    figure,
    alt="Share that is left of the running mean against optimizer steps. With one micro-batch per step it falls slowly, to "
    "a third after ten steps. With 8 it is below a half after one step and near 0 after five. With 32 it is near 0 after one.",
)

# %% [markdown]
r"""
What the smaller momentum does not do: within a window the later micro-batches still weigh a little more than the earlier ones, and the running
variance is a mean of the micro-batches' variances, which leaves out how far their means lie apart. In BatchNorm1d, with rows drawn independently, both are
right on average: the running variance is fed with the *unbiased* variance of each. In 2d and 3d the pixels of one image are alike. With few images in a
micro-batch the variance between images is left out in part, with a single one entirely, and no momentum brings it back. (A request to let BatchNorm know of accumulation is open since 2020,
[pytorch issue 46516](https://github.com/pytorch/pytorch/issues/46516).)
"""

# %% [markdown] exercise="batch-norm-momentum" points=4 minutes=15 difficulty=2
"""
### The momentum that makes up for it

Write `adjust_batch_norms(model, count)`: prepare a model for `count` micro-batches per optimizer step.

- **In**: `model`, a module that may hold `BatchNorm1d`, `BatchNorm2d` and `BatchNorm3d` at any depth, or be one; `count`, an int of at least 1. The momenta were chosen
  for one forward pass per step, and need not be the same in all layers. They lie between 0 and 1, both included.
- **Out**: nothing. Afterwards the momentum of each of these layers is such that its running statistics keep the same share over `count` forward passes
  as they kept over one before the call. A layer that stands in two places is one layer: it is adjusted once.
- A momentum of `None` stays: it means a plain average over all batches so far, which forgets nothing.
- Nothing else changes: no layer of another kind, no weight, no running statistic and its count of batches, no mode.

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


def normal_each(batch):
    """What an InstanceNorm without weights makes of a batch, in training mode."""
    return functional.instance_norm(batch, eps=1e-5)


def after_passes(state, prefix, batches, momentum):
    """The running statistics after the batches, each of shape (rows, features, ...)."""
    mean, variance = (state[prefix + name].double() for name in ("running_mean", "running_var"))
    for batch in batches:
        columns = batch.double().transpose(0, 1).flatten(1)
        mean = (1 - momentum) * mean + momentum * columns.mean(dim=1)
        variance = (1 - momentum) * variance + momentum * columns.var(dim=1)
    return mean.float(), variance.float()


def same_statistics(got, state, prefix, batches, momentum):
    mean, variance = after_passes(state, prefix, batches, momentum)
    tolerance = {"rtol": 2e-5, "atol": 1e-5}
    for name, value in (("running_mean", mean), ("running_var", variance)):
        check.close(got["state_dict"][prefix + name], value, **tolerance, what=prefix + name)


with check.property("four micro-batches forget as much as one batch did"):
    state = draw_buffers("0.", 3)
    batches = [check.draw.normal(5, 3) for _ in range(4)]
    got = call_adjust([["BatchNorm1d", 3]], 4, state, batches)
    same_statistics(got, state, "0.", batches, 1 - 0.9**0.25)
with check.property(
    "each layer has its own momentum, at any depth, in 1, 2 and 3 dimensions", weight=2
):
    for kind, sizes, momentum in (
        ("BatchNorm1d", (4, 2, 3), 0.3),
        ("BatchNorm2d", (3, 2, 4, 5), 0.02),
        ("BatchNorm3d", (6, 2, 3, 4, 5), 0.75),
    ):
        state = {**draw_buffers("0.", 2), **draw_buffers("1.1.0.", 2)}
        batches = [check.draw.normal(*sizes) for _ in range(3)]
        inner = ["Identity"], [[kind, 2, 1e-5, momentum]]
        model = [[kind, 2, 1e-5, momentum / 2], list(inner)]
        got = call_adjust(model, 3, state, batches)
        same_statistics(got, state, "0.", batches, 1 - (1 - momentum / 2) ** (1 / 3))
        passed_on = [normal(batch) for batch in batches]
        same_statistics(got, state, "1.1.0.", passed_on, 1 - (1 - momentum) ** (1 / 3))
with check.property("a momentum of None stays an average over all batches"):
    state = draw_buffers("0.", 4)
    batches = [check.draw.normal(6, 4) for _ in range(3)]
    got = call_adjust([["BatchNorm1d", 4, 1e-5, None]], 3, state, batches)
    # Seven batches had been counted before.
    total = 7 * state["0.running_mean"].double() + sum(b.double().mean(dim=0) for b in batches)
    mean = got["state_dict"]["0.running_mean"]
    check.close(mean, (total / 10).float(), rtol=2e-5, what="0.running_mean")
with check.property("momenta of 0 and 1"):
    for momentum in (0.0, 1.0):
        state = draw_buffers("0.", 2)
        batches = [check.draw.normal(5, 2) for _ in range(4)]
        got = call_adjust([["BatchNorm1d", 2, 1e-5, momentum]], 4, state, batches)
        same_statistics(got, state, "0.", batches, momentum)
with check.property("a model that is a BatchNorm itself; a count of 1 changes nothing"):
    for count, momentum in ((2, 1 - 0.6**0.5), (1, 0.4)):
        state = draw_buffers("", 3)
        batches = [check.draw.normal(5, 3) for _ in range(2)]
        got = call_adjust(["BatchNorm1d", 3, 1e-5, 0.4], count, state, batches)
        same_statistics(got, state, "", batches, momentum)
with check.property("a model in eval mode stays in eval mode"):
    rows = 4 + check.draw.integer(0, 5)
    state, batches = draw_buffers("0.", 3), [check.draw.normal(rows, 3) for _ in range(2)]
    got = call_adjust([["BatchNorm1d", 3]], 2, state, batches, training=False)
    mean, deviation = state["0.running_mean"], (state["0.running_var"] + 1e-5).sqrt()
    what = "what the model makes of the batches, one after another"
    expected = [(batch - mean) / deviation for batch in batches]
    check.close(got["outputs"], expected, rtol=1e-4, atol=1e-5, what=what)
    same_statistics(got, state, "0.", [], 0.1)
with check.property("a layer that stands in two places is adjusted once"):
    state = draw_buffers("0.", 3)
    state |= {name.replace("0.", "1.1.", 1): value for name, value in state.items()}
    batches = [check.draw.normal(6, 3) for _ in range(2)]
    model = [["BatchNorm1d", 3, 1e-5, 0.5], [["Identity"], ["Identity"]]]
    got = call_adjust(model, 3, state, batches, also_at={"1.1": "0"})
    passes = [seen for batch in batches for seen in (batch, normal(batch))]
    same_statistics(got, state, "0.", passes, 1 - 0.5 ** (1 / 3))
with check.property("a layer of another kind, the count of batches and the mode stay as they are"):
    state = draw_buffers("0.", 2)
    for name in ("running_mean", "running_var", "num_batches_tracked"):
        state[f"1.{name}"] = state[f"0.{name}"].clone()
    batches = [check.draw.normal(5, 2, 3) for _ in range(3)]
    model = [["BatchNorm1d", 2, 1e-5, 0.2], ["InstanceNorm1d", 2, 1e-5, 0.3, False, True]]
    got = call_adjust(model, 3, state, batches)
    same_statistics(got, state, "0.", batches, 1 - 0.8 ** (1 / 3))
    mean, _ = after_passes(state, "1.", [normal(batch) for batch in batches], 0.3)
    after = got["state_dict"]
    check.close(after["1.running_mean"], mean, rtol=2e-5, what="1.running_mean, InstanceNorm1d")
    # Seven before, and the three.
    check.equal(after["0.num_batches_tracked"], torch.tensor(10), what="0.num_batches_tracked")
    expected = [normal_each(normal(batch)) for batch in batches]
    what = "what the model makes of the batches, one after another"
    check.close(got["outputs"], expected, rtol=1e-3, atol=1e-4, what=what)
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
## Bug hunt: the divisor that was too large

A language model reads tokens and predicts, at each position, the *next* one. So what it returns at position 0 belongs to the label at position 1, and so on: the
model's last output and the first label have no partner. That is the *shift*.

The author of the function below has read about accumulation. It counts the labels of the whole window, it adds up sums, it divides each by the count. Padding
and prompts have the label -100. And yet its gradient is not that of the full batch.
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


for name, pairs in {
    "texts of 4 tokens": draw_texts([(6, 4), (6, 4)]),
    "texts of 40 tokens": draw_texts([(6, 40), (6, 40)]),
    "texts of 4 tokens, the first is a prompt": draw_texts([(6, 4), (6, 4)], prompt=1),
}.items():
    by_hand_model, wild_model = make_language_model(), make_language_model()
    true_loss = mean_by_hand(by_hand_model, pairs)
    true_loss.backward()
    ratio = accumulate_from_the_wild(wild_model, pairs) / true_loss.item()
    error = relative_error(gradient_of(wild_model), gradient_of(by_hand_model))
    told = f"{error:.3f}" if error > 2e-6 else "below 2e-6"
    print(f"{name:<42} loss {ratio:.3f} of the true one, gradient off by {told}")

# %% [markdown] exercise="bug-hunt-shift" points=4 minutes=20 difficulty=2
"""
### Bug hunt: next tokens, counted right

Find out why short texts are hit hardest, and why the last line is fine. Then write `accumulate_next_tokens(model, micro_batches)`, which replaces the function above.

- **In**: pairs `(tokens, labels)` as above, int64, of shape (texts, length), length at least 2. The logits at a position predict the label at the next one. A label of -100 does not
  count; it may stand anywhere, at the first position of some texts and not of others. In some pairs no label is predicted; in the whole list at least one is.
- **Out**: the mean cross entropy over all labels that are predicted and count, a Python float. Afterwards the `.grad` of each parameter is the gradient of this mean. What lay in
  `.grad` before does not count.
- The memory is that of one micro-batch, as in the first exercise. `tokens` and `labels` stay as they are.

<!-- hint: How many terms does the sum have for one text of 4 tokens? How many does the count have? -->
<!-- hint: The first label of a text is predicted by nothing. It is in the count unless it is -100. So what is counted and what is summed are not the same labels. -->
<!-- hint: Count in what is left after the shift: `labels[:, 1:]`. Subtracting one for each text is not the same, as some first labels were not counted anyway. -->
"""


# %% solution="bug-hunt-shift"
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


# %% test="bug-hunt-shift"
check = Check("bug-hunt-shift")


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
    read = torch.cat([tokens[:, :-1].flatten() for tokens, _ in pairs])
    wanted = torch.cat([labels[:, 1:].flatten() for _, labels in pairs])
    features = leaves["0.weight"][read[wanted >= 0]]
    logits = functional.linear(features, leaves["1.weight"], leaves["1.bias"])
    loss = functional.cross_entropy(logits, wanted[wanted >= 0])
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
    lengths = (5 + check.draw.permutation(6)[: check.draw.integer(2, 5)]).tolist()
    return [(1 + check.draw.integer(0, 4), length) for length in lengths]


with check.property("texts of 4 tokens whose every label counts", weight=2):
    agrees_with_all_predictions(*draw_model(7, 4), draw_labeled([(3, 4), (5, 4)], 7))
with check.property("texts of 4 tokens whose first is a prompt, as before"):
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
with check.property("what lay in .grad before does not count"):
    (model, state), pairs = draw_model(7, 3), draw_labeled([(2, 6), (4, 3)], 7)
    old = {name: 2 + value.abs() for name, value in state.items()}
    agrees_with_all_predictions(model, state, pairs, old_gradients=old)
with check.property("a micro-batch in which no label is predicted does no harm"):
    pairs = draw_labeled([(2, 6), (3, 5), (1, 4)], 6)
    pairs[1][1][:, 1:] = -100
    agrees_with_all_predictions(*draw_model(6, 4), pairs)
with check.property("tokens and labels stay as they are"):
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
<details><summary>What it was (open it when you have found it)</summary>

The count was taken before the shift, the sum after it. A text of $L$ tokens gives $L - 1$ terms and was counted as $L$, so the loss and the gradient were $(L-1)/L$ of what they should be:
three quarters for 4 tokens. Where the first label is -100 it was not counted in the first place, which is why prompts hid it.
</details>

The Trainer of transformers did this until 2026 ([pull request 46204](https://github.com/huggingface/transformers/pull/46204)). An example of
Accelerate's still did in September 2026 ([pull request 4303](https://github.com/huggingface/accelerate/pull/4303)). Both had tests, and the tests
passed: a loss that is 2.5 percent too small is nobody's first suspicion. What finds such bugs is the comparison that this chapter makes again and again:
**the accumulated gradient against that of the full batch, as a number, on a tiny case with uneven sizes.** Keep one such test beside each training loop.
"""

# %% [markdown]
"""
## In the wild

| what | how it is called |
| --- | --- |
| PyTorch | the loop itself, with scaler: [gradient accumulation](https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-accumulation) (it divides by the number of micro-batches: right for equal ones) |
| clipping | [`clip_grad_norm_`](https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_norm_.html)`(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False)`, [`clip_grad_value_`](https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_value_.html) |
| schedules | [`torch.optim.lr_scheduler`](https://docs.pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate); `SequentialLR` puts one behind another |
| several GPUs | [`DistributedDataParallel.no_sync()`](https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html) leaves the communication out for all micro-batches but the last. It *averages* over the processes: the count of tokens must be added up over them, too, and the loss multiplied by their number |
| Accelerate | `Accelerator(gradient_accumulation_steps=)`, `accelerator.accumulate(model)`, `accelerator.sync_gradients`; its scheduler waits for real steps. [How to count tokens](https://huggingface.co/docs/accelerate/usage_guides/gradient_accumulation) |
| transformers | [`TrainingArguments`](https://huggingface.co/docs/transformers/main_classes/trainer)`(gradient_accumulation_steps=, max_grad_norm=1.0, average_tokens_across_devices=, warmup_steps=)`; the count is called `num_items_in_batch` |
| Lightning | [`Trainer`](https://lightning.ai/docs/pytorch/stable/common/trainer.html)`(accumulate_grad_batches=, gradient_clip_val=, gradient_clip_algorithm="norm")`; it closes the short window, and divides by `accumulate_grad_batches` there, too |
| DeepSpeed | [`"gradient_accumulation_steps"`, `"gradient_clipping"`](https://www.deepspeed.ai/docs/config-json/) in its configuration |
| Keras | [optimizers](https://keras.io/api/optimizers/) take `gradient_accumulation_steps=`, `global_clipnorm=`, and also `clipnorm=`, which clips *each variable for itself* |
| JAX | [`optax.MultiSteps`](https://optax.readthedocs.io/en/latest/_collections/examples/gradient_accumulation.html), `optax.clip_by_global_norm` |
"""

# %% [markdown]
"""
## Recap

1. `backward()` adds to `.grad`, so accumulation is what happens if nobody clears it; it equals the full batch if each micro-batch has the factor that it has in the
   full mean.
2. The divisor belongs to the window: all its rows, or all its tokens that are really predicted. A mean of means is another loss as soon as sizes differ.
3. Memory is that of one micro-batch only if each has its backward pass before the next begins.
4. Once for each window, the short last one included: unscale, clip by the global norm, step, update, schedule if it did step, clear.
5. What mixes rows, as BatchNorm does, is not made equal by any weighting; its running statistics want a smaller momentum.

### Test yourself

<details><summary>1. k = 4, and for the last window there are only two micro-batches, of 20 and of 10 rows. With which factors do their mean losses go into its loss? What if both are divided by k?</summary>

2/3 and 1/3. Divided by 4 each, they give a row of the second twice the weight of one of the first, and together half of what the factors should add up to.
</details>

<details><summary>2. Somebody adds up the losses of 8 micro-batches and calls backward once. Is the gradient right? What is not?</summary>

It is right, if the factors are. But all eight graphs wait until the end, so the memory is that of the full batch.
</details>

<details><summary>3. With a scaler and accumulation, where does clip_grad_norm_ stand, and what happens if it stands one line earlier?</summary>

After `unscale_`, before `step`. In front of `unscale_` it clips gradients that are too large by the scale; after the division the step is far too short, by up to that factor.
</details>

<details><summary>4. CosineAnnealingLR has T_max equal to the number of optimizer steps, and is stepped once per micro-batch, k = 2. What is the rate at the end of the training?</summary>

That of the beginning. It reaches 0 in the middle, and the cosine goes up again.
</details>

<details><summary>5. k = 4 and a BatchNorm with momentum 0.2. Which momentum makes up for it, and what does it leave as it is?</summary>

1 - 0.8^(1/4) = 0.054. The normalization in training still uses the statistics of each micro-batch, and so the gradient is not that of the full batch.
</details>

### References

- PyTorch documentation, ["Automatic Mixed Precision examples"](https://docs.pytorch.org/docs/stable/notes/amp_examples.html): "Gradient clipping", "Gradient accumulation".
- PyTorch documentation, ["Autograd mechanics"](https://docs.pytorch.org/docs/stable/notes/autograd.html): how `.grad` is accumulated; hooks for saved tensors.
- PyTorch documentation, [`torch.optim`](https://docs.pytorch.org/docs/stable/optim.html): "How to adjust learning rate".
- R. Pascanu, T. Mikolov, Y. Bengio, "On the difficulty of training recurrent neural networks", [arXiv:1211.5063](https://arxiv.org/abs/1211.5063), ICML 2013, section 3.2 (clipping the norm).
- I. Loshchilov, F. Hutter, "SGDR: Stochastic Gradient Descent with Warm Restarts", [arXiv:1608.03983](https://arxiv.org/abs/1608.03983), ICLR 2017, section 3 (the cosine).
- P. Goyal and others, "Accurate, Large Minibatch SGD: Training ImageNet in 1 Hour", [arXiv:1706.02677](https://arxiv.org/abs/1706.02677), 2017, sections 2 and 3 (warm-up; weighting; BatchNorm's statistics).
- S. Ioffe, C. Szegedy, "Batch Normalization", [arXiv:1502.03167](https://arxiv.org/abs/1502.03167), ICML 2015, section 3.1 (moving averages).
- M. Abadi and others, "Deep Learning with Differential Privacy", [arXiv:1607.00133](https://arxiv.org/abs/1607.00133), 2016, section 3.1 (clipping each row).

### Glossary

| English | 中文 | meaning |
| --- | --- | --- |
| gradient accumulation | 梯度累积 | gradients of several backward passes add up before one step |
| micro-batch | 微批次 | the rows of one forward and backward pass |
| window | 累积窗口 | the micro-batches between two optimizer steps |
| full batch | 整批（有效批次） | all rows of a window, as if they were one batch |
| mean of means | 均值的均值 | the mean of the micro-batches' losses; not the mean if sizes differ |
| token | 词元 | the unit of a text that a language model reads and predicts |
| padding | 填充 | positions that only make texts equally long; they do not count |
| shift | 错位 | output at one position, label at the next |
| gradient clipping | 梯度裁剪 | bounds the length of the gradient before the step |
| global norm | 全局范数 | the norm of all gradients as one vector |
| loss scaling | 损失缩放 | a factor on the loss that keeps small float16 gradients from vanishing |
| skipped step | 跳过的优化步 | the scaler found inf or nan and left the step out |
| learning-rate schedule | 学习率调度 | the learning rate as a function of the optimizer step |
| warm-up | 学习率预热 | raise the learning rate over the first steps |
| running statistics | 运行统计量 | BatchNorm's averages, used in evaluation |
"""

# %%
progress("05")
