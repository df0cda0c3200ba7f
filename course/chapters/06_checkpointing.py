# %% [markdown]
"""
# 06 · Activation checkpointing

A training script wraps two layers of its network with `torch.utils.checkpoint` to save memory. When peak memory is measured first with checkpointing and then without, checkpointing seems to halve it.
In the opposite order, checkpointing seems to *double* it.

**中文**: 本章讲激活检查点：autograd 为反向传播保存了什么、怎样按字节计数与预测、重计算与分段、√n 规则，以及 dropout、批归一化和随机数在重计算中的陷阱。
"""

# %% tags=["needed"] folded="Imports"
import contextlib
import math
import random
import tempfile
import warnings
import weakref
from functools import partial
from itertools import pairwise
from pathlib import Path

import torch
from torch.nn import functional
from torch.utils import checkpoint as checkpoint_module
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from helpers import (
    COLORS,
    Check,
    explore_segments,
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

# With tensors as small as these, threads wait longer than they compute.
torch.set_num_threads(1)

# The first call loads parts of torch, which takes seconds: better here than in a check.
_ = checkpoint(torch.sin, torch.zeros(1), use_reentrant=False)


# %% folded="Measuring tool: LiveBytes counts the bytes of all tensors that are alive"
class LiveBytes(TorchDispatchMode):
    """Counts the bytes of all storages that were made in its block and are still alive."""

    def __init__(self):
        super().__init__()
        self.now = 0
        self.curve = [0]
        self.alive = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        given = {a.untyped_storage()._cdata for a in args if isinstance(a, torch.Tensor)}
        for made in result if isinstance(result, list | tuple) else [result]:
            if isinstance(made, torch.Tensor):
                self.add(made.untyped_storage(), given)
        return result

    def add(self, storage, given):
        key, size = storage._cdata, storage.nbytes()
        if key not in given and key not in self.alive:
            self.alive[key] = weakref.ref(storage, lambda _: self.remove(key, size))
            self.change(size)

    def remove(self, key, size):
        self.alive.pop(key, None)
        self.change(-size)

    def change(self, size):
        self.now += size
        self.curve.append(self.now)

    @property
    def peak(self):
        return max(self.curve)


# %% folded="A classifier of four linear layers, two of them optionally checkpointed"
def make_classifier():
    layers = []
    for inputs, outputs in ((1024, 512), (512, 256), (256, 128)):
        layers += [torch.nn.Linear(inputs, outputs), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers, torch.nn.Linear(128, 10))


def classify(classifier, x, wrap):
    for place, layer in enumerate(classifier):
        wrapped = wrap and place in (2, 4)
        x = checkpoint(layer, x, use_reentrant=False) if wrapped else layer(x)
    return x


# %%
def measure(order):
    """Return the peak of each forward pass; each run reuses the names of the run before it."""
    peaks = {}
    with LiveBytes() as live:
        for wrap in order:
            classifier = make_classifier()
            x = torch.randn(1024, 1024)
            live.curve = [live.now]  # the peak counts from here
            output = classify(classifier, x, wrap)
            peaks[wrap] = live.peak
    del classifier, x, output
    return peaks


wrapped_first, plain_first = measure((True, False)), measure((False, True))

# %% folded="Predict: each run by itself"
alone = {wrap: measure((wrap,))[wrap] for wrap in (True, False)}
left_over = wrapped_first[False] - alone[False]
saving = 1 - alone[True] / alone[False]
OUTCOMES = ("It halves the peak", "It lowers the peak by a tenth", "It makes no difference")
predict(
    "06/measured-alone",
    "Each run is measured by itself. What does wrapping two `Linear` layers do to the peak?",
    OUTCOMES[0 if saving > 0.3 else 1 if saving > 0.05 else 2],
    'Both peaks are the same, so the order of the runs made the whole difference. The section "What to wrap" explains why checkpointing these two layers gains nothing.',
    choices=OUTCOMES,
)

# %% folded="Figure 6.1: one measurement in two orders"
figure, axes = new_figure(height=2.9)
for offset, wrap, color, label in (
    (-0.2, True, "blue", "with checkpointing"),
    (0.2, False, "orange", "without"),
):
    peaks = [found[wrap] / 1e6 for found in (wrapped_first, plain_first)]
    places = [k + offset for k in range(2)]
    bars = axes.bar(places, peaks, width=0.36, color=COLORS[color], label=label)
    axes.bar_label(bars, fmt="%.1f")
axes.set_xticks(range(2), ["first with, then without", "first without, then with"])
axes.set(
    title="Peak memory of a forward pass", xlabel="order of the two runs", ylabel="MB", ylim=(0, 30)
)
axes.legend(ncols=2, loc="upper center")
axes.grid(False, axis="x")
show(
    figure,
    number="6.1",
    caption="The same two measurements in opposite orders: whichever run comes second seems to need about twice the memory.",
    alt="Two pairs of bars. In both orders, the first run peaks at 11.1 MB and the second at 21.8 MB.",
)

# %% [markdown]
"""
> **After this chapter, you will be able to**
>
> - count the bytes that autograd saves for the backward pass, and predict them before anything runs;
> - explain which memory checkpointing frees, what it costs, and when it frees nothing;
> - choose which layers to checkpoint under a memory budget;
> - write a checkpoint function, and list what must be the same when a block runs twice;
> - choose among checkpointing, a smaller batch, accumulation, offloading and 16-bit formats.
>
> **Time**: 70 minutes to read and run, 165 for the six exercises.
>
> **Prerequisites**: autograd and modules (chapter 00). BatchNorm (chapter 01) helps.
"""

# %% [markdown]
"""
## The second run looks larger

Training keeps the **activations**, the intermediate results that the backward pass needs. **Activation checkpointing** discards some of them
and recomputes them during the backward pass. In PyTorch, `checkpoint(block, x, use_reentrant=False)` does this for one part of a network.

The measurement above adds the bytes of each new tensor and subtracts them when the tensor is freed. In each run, the loop assigns new objects to the names `classifier`, `x`
and `output`. Until the second forward pass returns, though, `output` still refers to the result of the first. That result keeps its graph alive, and the graph keeps everything that the first run saved, including its input and parameters.
So the second peak includes both runs. Here is each run by itself:
"""

# %%
print(f"alone: {alone[True] / 1e6:.2f} MB with, {alone[False] / 1e6:.2f} MB without checkpointing")
print(f"left over from the first run: {left_over / 1e6:.2f} MB")

# %% [markdown]
r"""
Wrapping these two layers does not change the peak. Always measure each run by itself, and include the backward pass.

## What autograd saves

The chain rule needs values from the forward pass, and each operation decides which ones. The next cell records what $y = x - 2$, $z = y^2$ and the sigmoid $p = \sigma(z)$ save. Inside the context manager `torch.autograd.graph.saved_tensors_hooks(pack, unpack)`, `pack` receives every tensor that autograd is about to save, and autograd keeps what `pack` returns.
During the backward pass, `unpack` receives that object and returns the tensor.

Let `pack` return `tensor.detach()`, which shares the tensor's memory. If `pack` returned the tensor itself, a saved result and the operation that made it would refer to each other,
and without a backward pass neither would be freed.
"""

# %%
seen = []


def pack(tensor):
    seen.append(tensor.detach())
    return tensor.detach()


x = torch.tensor([0.5, 1.0, 3.5], requires_grad=True)
with torch.autograd.graph.saved_tensors_hooks(pack, lambda kept: kept):
    y = x - 2
    z = y**2
    p = torch.sigmoid(z)

# %% folded="Predict: what sigmoid saves"
predict(
    "06/sigmoid",
    "Which tensor does `torch.sigmoid(z)` save for its backward pass?",
    "the result p" if torch.equal(seen[-1], p) else "the input z",
    "The derivative of the sigmoid is p (1 - p), so the result is enough.",
    choices=("the input z", "the result p", "both", "nothing"),
)

# %% folded="Drawing: what a chain of three operations saves"
show_drawing(
    "06/saved-tensors",
    number="6.2",
    caption="Subtracting a constant saves nothing, squaring saves its input, and the sigmoid saves its result. `z` is freed as soon as nothing refers to it.",
    alt="A chain from x through y and z to p. Below each operation are its derivative and what it saves: x minus 2 has derivative 1 and saves nothing; "
    "y squared has derivative 2y and saves its input y; the sigmoid has derivative p times 1 minus p and saves its result p.",
)

# %% folded="What was saved"
print("number of saved tensors:", len(seen))
print("the first is y:", torch.equal(seen[0], y), "  the second is p:", torch.equal(seen[1], p))

# %% [markdown]
"""
An operation may save its input, its result, new tensors, or nothing.
"""

# %% folded="Measure: what fifteen operations save"
OPERATIONS = {
    "x - 2": lambda h: h - 2,
    "3 * x": lambda h: 3 * h,
    "sum": lambda h: h.sum(dim=1),
    "relu": functional.relu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "exp": torch.exp,
    "softmax": lambda h: torch.softmax(h, dim=1),
    "x ** 2": lambda h: h**2,
    "log": torch.log,
    "gelu": functional.gelu,
    "silu": functional.silu,
    "softplus": functional.softplus,
    "layer_norm": lambda h: functional.layer_norm(h, (5,)),
    "dropout": lambda h: functional.dropout(h, 0.5),
}


def what_is_saved(operation):
    """Return "input", "result" and the shapes of what else is saved."""
    h = torch.rand(4, 5, requires_grad=True) * 1
    kept = []

    def keep(tensor):
        kept.append(tensor.detach())
        return kept[-1]

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
        result = operation(h)
    names = {h.untyped_storage().data_ptr(): "input", result.untyped_storage().data_ptr(): "result"}
    return [
        names.get(t.untyped_storage().data_ptr(), "new " + "×".join(map(str, t.shape)))
        for t in kept
    ]


saved_by = {name: what_is_saved(operation) for name, operation in OPERATIONS.items()}
for kind in ("nothing", "result", "input"):
    found = [name for name, kept in saved_by.items() if (kept or ["nothing"]) == [kind]]
    print(f"{kind + ':':<9}", ", ".join(found))
for name, kept in saved_by.items():
    if any(what.startswith("new") for what in kept):
        print(f"{name}, of a 4×5 tensor:", " and ".join(kept))

# %% [markdown]
r"""
A linear layer computes $xW^\mathsf{T} + b$. The gradient with respect to $W$ needs $x$, and the gradient with respect to $x$ needs $W$. Four rules apply:

1. A saved **parameter** costs nothing extra, because it stays in memory anyway.
2. If the layer is **frozen**, the gradient with respect to $W$ is not needed, so the input is not saved.
3. Where **nothing requires a gradient**, nothing is saved. If the data require no gradient, this holds for all layers before the first trainable one.
4. Each **storage**, the memory behind a tensor, **counts once**. If a ReLU saves its result and the next layer its input, both save the same storage.
"""

# %% folded="Six small stacks"
x = torch.randn(32, 64)
linear, frozen = torch.nn.Linear(64, 64), torch.nn.Linear(64, 64).requires_grad_(False)
relu, gelu = torch.nn.ReLU(), torch.nn.GELU()
CASES = {
    "one linear layer": (linear,),
    "a frozen one": (frozen,),
    "a ReLU on data": (relu,),
    "linear, ReLU, linear": (linear, relu, linear),
    "linear, GELU, linear": (linear, gelu, linear),
    "linear, ReLU, frozen": (linear, relu, frozen),
}
unit = x.numel() * x.element_size()
parameters = [*linear.parameters(), *frozen.parameters()]

# %%
for name, layers in CASES.items():
    stack = torch.nn.Sequential(*layers)
    counted = saved_bytes(lambda stack=stack: stack(x), except_for=parameters)
    print(f"{name:<22}{counted.bytes:>7} bytes = {counted.bytes // unit} × {unit}")

# %% [markdown]
"""
The ReLU and the next layer share one saved tensor. The GELU saves its input, so one more tensor stays in memory.
"""

# %% [markdown] exercise="count-saved-bytes" points=4 minutes=20 difficulty=2
"""
### Count the saved bytes

Write the counter that produced the results above.

`count_saved(run, left_out) -> int`

- **In** `run`: a function without arguments; it may contain a backward pass. `left_out`: a list of tensors, such as a model's parameters.
- **Out**: the number of bytes in all storages that autograd saves during one call of `run()`. Each storage counts once, and **all** of its bytes count, even if the saved tensor is only a part of it. The storages of tensors in `left_out` do not count.
  A storage counts even if it is freed before `run` returns; its address may then be reused for another storage.
- **Limits**: call `run` once. When your function has returned and the results of `run` are freed, no saved tensor may stay in memory. The helper `saved_bytes` is not allowed.

The function `storage_of` below returns the address and the size in bytes of a tensor's storage. If `run` sends a float32 tensor of shape (32, 64) through `Linear(64, 8)`, `count_saved(run, parameters)` returns `8192`.

<!-- hint: Which function sees each saved tensor, and what must it return so that the backward pass still works? -->
<!-- hint: Collect the storages in a dict whose keys are their addresses: a storage that is saved twice has only one entry. The addresses of `left_out` are known before `run` is called. -->
<!-- hint: While you hold a tensor, its storage is not freed and its address is not reused. So let the dict hold a detached tensor for each address until `run` has returned. Then add up `storage_of(...)[1]` over the values of the dict. -->
"""


# %% tags=["needed"]
def storage_of(tensor):
    """Return the address of the tensor's storage, and the storage's bytes."""
    storage = tensor.untyped_storage()
    return storage.data_ptr(), storage.nbytes()


# %% solution="count-saved-bytes"
def count_saved(run, left_out):
    """Return the bytes of the storages that autograd saves while ``run()`` runs."""
    ### BEGIN SOLUTION
    known = {storage_of(tensor)[0] for tensor in left_out}
    kept = {}

    def pack(tensor):
        place, _ = storage_of(tensor)
        if place not in known:
            kept[place] = tensor.detach()
        return tensor.detach()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        run()
    return sum(storage_of(tensor)[1] for tensor in kept.values())
    ### END SOLUTION


# %% test="count-saved-bytes"
check = Check("count-saved-bytes")


def counted_as(layers, data, left_out=("parameters",), **options):
    return check.call(probes.counted, count_saved, layers, data, left_out=list(left_out), **options)


rows = check.draw.integer(20, 40)
# All differ, and none is as large as the number of rows.
a, b, c, d = (5 + check.draw.permutation(12)[:4]).tolist()
with check.property("the input of each linear layer counts; parameters do not"):
    got = counted_as([["Linear", a, b], ["Linear", b, c]], check.draw.normal(rows, a))
    check.equal(got, 4 * rows * (a + b))
    check.written_without("saved_bytes", "SavedTensors", "saved_by_*")
with check.property("a storage that is saved twice counts once", weight=2):
    layers = [["Linear", a, b], ["ReLU"], ["Linear", b, c], ["Sigmoid"], ["Linear", c, d]]
    got = counted_as(layers, check.draw.normal(rows, a))
    check.equal(got, 4 * rows * (a + b + c))
with check.property("a storage counts with all of its bytes, and no more", weight=2):
    x, columns = check.draw.normal(rows, a), check.draw.integer(1, 5)
    got = counted_as([["Linear", a, b], ["Columns", columns], ["GELU"]], x)
    check.equal(got, 4 * rows * (a + b), what=f"the first {columns} of {b} columns are saved")
    got = counted_as([["Linear", a, c], ["Repeat", columns], ["GELU"]], x)
    check.equal(got, 4 * rows * (a + c), what="a tensor that is repeated without a copy is saved")
    got = counted_as([["Linear", a, 2 * d], ["Halves"]], x)
    what = "both halves of one storage are saved separately"
    check.equal(got, 4 * rows * (a + 2 * d), what=what)
with check.property("only what is in left_out is left out"):
    x = check.draw.normal(rows, a)
    layers = [["Linear", a, b], ["Tanh"], ["Linear", b, c]]
    got = counted_as(layers, x, left_out=())
    check.equal(got, 4 * rows * (a + b) + 4 * b * c, what="nothing is left out")
    got = counted_as(layers, x, left_out=("data", "parameters"))
    check.equal(got, 4 * rows * b, what="parameters and the data are left out")
    got = counted_as(layers, x, left_out=("parameters", "last rows"))
    check.equal(got, 4 * rows * b, what="parameters and a part of the data are left out")
    got = counted_as([["Linear", a, b], ["LastRows", b, c]], x)
    check.equal(got, 4 * rows * (a + b), what="a layer uses a part of its weight")
    # Tensors that count and tensors that are left out have the same shape and the same values.
    square = check.draw.normal(a, a, equal_sizes=True)
    layers, state = [["Linear", a, a], ["Tanh"], ["Linear", a, a]], {"0.weight": square}
    got = counted_as(layers, square, state=state)
    check.equal(got, 4 * a * (a + a), what="the data equal a weight that is left out")
    # What a norm saves differs between versions of torch: so it is counted here as well.
    norm = torch.nn.LayerNorm(a)
    got = counted_as([["LayerNorm", a]], x, left_out=("data",))
    expected = saved_bytes(lambda: norm(x), except_for=[x]).bytes
    check.equal(got, expected, what="a norm saves its weight, which is not left out")
with check.property("afterward, nothing that was saved stays in memory", weight=0.5):
    x, layers = check.draw.normal(rows, a), [["Linear", a, b], ["Sigmoid"], ["Linear", b, c]]
    got = check.call(probes.counted_and_freed, count_saved, layers, x)
    check.equal(got["count"], 4 * rows * (a + b))
    told = f"{got['kept']} bytes that the passes allocated are still in memory"
    check.true(got["kept"] == 0, told)
with check.property("where nothing is saved, the count is 0"):
    x = check.draw.normal(rows, a)
    cases = [([["Tanh"], ["GELU"]], 0), ([["Tanh"], ["Linear", a, b]], 4 * rows * a)]
    for place in check.draw.permutation(2):
        layers, expected = cases[place]
        check.equal(counted_as(layers, x), expected, what=" and ".join(name for name, *_ in layers))
with check.property("integers count with their own element size", weight=0.5):
    ids = check.draw.integers(rows, low=0, high=c)
    got = counted_as([["Embedding", c, a], ["Linear", a, b]], ids)
    check.equal(got, 8 * rows + 4 * rows * a)
with check.property("a storage counts even if it is freed before run returns"):
    x = check.draw.normal(rows, 50)
    # So many that a place is given away again, wherever the allocator looks first.
    got = counted_as([["Linear", 50, 60], ["GELU"]], x, passes=100)
    check.equal(got, 4 * rows * 50 + 100 * 4 * rows * 60, what="100 passes, their results dropped")
    got = counted_as([["Linear", 50, a], ["Sigmoid"], ["Linear", a, b]], x, backward=True)
    check.equal(got, 4 * rows * (50 + a), what="run contains the backward pass")
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("integers, a part of a storage, and results that are dropped", weight=0.5):
    ids, passes = check.draw.integers(rows, low=0, high=c), check.draw.integer(90, 120)
    layers = [["Embedding", c, 50], ["Linear", 50, 60], ["Columns", 20], ["GELU"]]
    got = counted_as(layers, ids, passes=passes)
    check.equal(got, 8 * rows + passes * 4 * rows * (50 + 60), what=f"{passes} passes")
### END HIDDEN TESTS
check.score()

# %% [markdown]
r"""
## Predict the saved bytes

From the four rules and what each operation saves, you can compute the saved bytes without running anything. The data and the results of a stack's layers are float32 tensors with $r$ rows. If the $k$-th of these has width $w_k$,

$$\text{bytes} = 4\,r \sum_{k\ \text{saved}} w_k .$$
"""

# %% folded="A stack: formula and count"
widths = (64, 96, 96, 32, 32, 48, 48)
names = ("data", "Linear", "ReLU", "Linear", "GELU", "Linear", "Sigmoid")
savers = ("the next Linear", "", "ReLU and Linear", "GELU", "the next Linear", "", "Sigmoid")
stack = torch.nn.Sequential(
    torch.nn.Linear(64, 96),
    torch.nn.ReLU(),
    torch.nn.Linear(96, 32),
    torch.nn.GELU(),
    torch.nn.Linear(32, 48),
    torch.nn.Sigmoid(),
)
x = torch.randn(32, 64)
counted = saved_bytes(lambda: stack(x), except_for=stack.parameters()).bytes
by_formula = 4 * 32 * sum(w for w, saver in zip(widths, savers, strict=True) if saver)
print(f"by the formula: {by_formula} bytes, counted: {counted} bytes")

# %% folded="Figure 6.3: which tensors of a stack are saved"
figure, axes = new_figure(height=3.2)
for place, (width, saver) in enumerate(zip(widths, savers, strict=True)):
    size = 4 * 32 * width / 1024
    axes.barh(place, size, color=COLORS["blue"] if saver else "#cccccc")
    axes.text(size + 0.15, place, f"saved by {saver}" if saver else "not saved", va="center")
axes.set_yticks(range(7), ["the data", *(f"result of {name}" for name in names[1:])])
axes.invert_yaxis()
axes.set(title="Saved tensors of a stack, 32 rows", xlabel="KiB", ylabel="tensor", xlim=(0, 18))
axes.grid(False, axis="y")
show(
    figure,
    number="6.3",
    caption="The result of the ReLU is saved twice but counts once. The GELU saves its input, and the next layer saves the GELU's result, so both stay in memory.",
    alt="Seven bars, one for each tensor of a stack. The data and the results of the ReLU, "
    "the Linear before the GELU, the GELU and the Sigmoid are saved; the results of the first and the last Linear are not.",
)

# %% [markdown] exercise="predict-saved-bytes" points=4 minutes=25 difficulty=2
"""
### Predict the saved bytes of a stack

You cannot measure a model that does not fit into memory, but you can predict what it saves. Write a function that does so for a stack of layers.

`predict_saved(layers, rows, width) -> int`

- **In** `layers`: a list of lists; see the table. `rows`, `width`: the shape of the data (float32, requiring no gradient). There may be more rows than any machine could hold.
- **Out**: the number of bytes that autograd saves, excluding parameters.

| layer | description |
| --- | --- |
| `["Linear", a, b]` | a trainable layer from width `a` to width `b` |
| `["Frozen", a, b]` | the same, frozen |
| `["ReLU"]`, `["Sigmoid"]`, `["Tanh"]` | save their result |
| `["GELU"]`, `["SiLU"]` | save their input |
| `["Shift"]` | adds a constant: a new tensor, nothing saved |
| `["Identity"]` | returns its input itself, the same storage |

The check builds the stack and counts the saved bytes (for a single row if there are too many rows). `predict_saved([["Linear", 4, 2], ["Tanh"]], 10, 4)` returns `240`, for the data and the result of the Tanh.

<!-- hint: As you walk from layer to layer, which three things do you need to know about the current tensor? -->
<!-- hint: Its width, whether it is saved already, and whether it requires a gradient. The last is False at first and True after the first trainable layer. A layer marks its input, its result, or neither. -->
<!-- hint: Keep a list of widths, one for each *new* tensor, and a set of the indices of those that are saved; a set holds each index only once. `Identity` adds nothing to the list. Activation functions add to the set only if a gradient is required. A trainable `Linear` always adds its input. -->
"""


# %% solution="predict-saved-bytes"
def predict_saved(layers, rows, width):
    """Return the bytes that autograd saves for a stack of ``layers`` on data of rows × width."""
    ### BEGIN SOLUTION
    widths, kept, needs_gradient = [width], set(), False
    for name, *sizes in layers:
        if name == "Identity":
            continue
        before, after = len(widths) - 1, len(widths)
        widths.append(sizes[1] if sizes else widths[-1])
        if name == "Linear":
            kept.add(before)
            needs_gradient = True
        elif needs_gradient and name in ("GELU", "SiLU"):
            kept.add(before)
        elif needs_gradient and name in ("ReLU", "Sigmoid", "Tanh"):
            kept.add(after)
    return 4 * rows * sum(widths[place] for place in kept)
    ### END SOLUTION


# %% test="predict-saved-bytes"
check = Check("predict-saved-bytes")


class Shift(torch.nn.Module):
    def forward(self, x):
        return x + 1.5


def count_for_real(layers, rows, width):
    parts = []
    for name, *sizes in layers:
        if name == "Shift":
            parts.append(Shift())
        elif sizes:
            linear = torch.nn.utils.skip_init(torch.nn.Linear, *sizes)
            parts.append(linear.requires_grad_(name == "Linear"))
        else:
            parts.append(getattr(torch.nn, name)())
    stack, x = torch.nn.Sequential(*parts), torch.zeros(rows, width)
    return saved_bytes(lambda: stack(x), except_for=stack.parameters()).bytes


def predicts(layers, rows, width, what=""):
    got = check.call(predict_saved, layers, rows, width)
    check.equal(got, count_for_real(layers, rows, width), what=what)


rows = check.draw.integer(10, 90)
# Each is more than four times the smaller ones together: no wrong sum comes out right.
widths = [size + check.draw.integer(0, 1) for size in (2, 13, 70, 360, 1850)]
order = check.draw.permutation(5)
a, b, c, d, _ = (widths[place] for place in order)
RESULTS, INPUTS = [["ReLU"], ["Sigmoid"], ["Tanh"]], [["GELU"], ["SiLU"]]
OTHERS = [*RESULTS, *INPUTS, ["Shift"], ["Identity"]]


def predicts_all(parts, *kinds, short, end=()):
    """Ask for long stacks: a layer of each of ``kinds``, to another width, and a part behind it.

    Where one is wrong, ask for the parts' short stacks, so that a student sees the first of these;
    where those are right, for the long one once more, so that the report is about that call.
    """
    sizes = [widths[place] for place in order]
    for first in range(0, len(parts), len(kinds)):
        some, layers = parts[first : first + len(kinds)], []
        for part, kind, (before, after) in zip(some, kinds, pairwise(sizes), strict=False):
            layers += [[kind, before, after], *part]
        layers += [[kind, sizes[len(some)], a] for kind in end]
        got, expected = check.call(predict_saved, layers, rows, a), count_for_real(layers, rows, a)
        if type(got) is not int or got != expected:
            for part in some:
                stack = short(*part)
                predicts(stack, rows, a, what=", ".join(name for name, *_ in stack))
            check.call(predict_saved, layers, rows, a)
        check.equal(got, expected, what=", ".join(name for name, *_ in layers))


def trained(*part):
    return [["Linear", a, b], *part, ["Linear", b, c]]


with check.property("a stack of linear layers saves each layer's input"):
    predicts([["Linear", a, b], ["Linear", b, c]], rows, a)
    predicts([["Linear", b, b], ["Linear", b, b], ["Linear", b, a]], rows, b)
with check.property("an activation that saves its result shares it with the next layer", weight=2):
    predicts([["Linear", a, b], ["ReLU"], ["Linear", b, c], ["Tanh"], ["Linear", c, d]], rows, a)
    for layer in RESULTS:
        predicts([["Linear", a, b], layer], rows, a, what=f"a {layer[0]} at the end")
    alone, two = [[layer] for layer in RESULTS], [[f, g] for f in RESULTS for g in RESULTS]
    predicts_all([*alone, *two], *4 * ["Linear"], short=trained)
with check.property("an activation that saves its input adds a saved tensor", weight=2):
    predicts([["Linear", a, b], ["GELU"], ["Linear", b, c]], rows, a)
    for layer in INPUTS:
        predicts([["Linear", a, b], layer], rows, a, what=f"a {layer[0]} at the end")
    alone, two = [[layer] for layer in INPUTS], [[f, g] for f in INPUTS for g in RESULTS + INPUTS]
    mixed = [[f, g] for f in RESULTS for g in INPUTS]
    predicts_all([*alone, *two, *mixed], *4 * ["Linear"], short=trained)
with check.property("nothing is saved before the first trainable layer"):
    predicts([["ReLU"], ["GELU"], ["Shift"], ["Linear", a, b]], rows, a)
    predicts([["Frozen", a, b], ["GELU"], ["Linear", b, c]], rows, a, what="a frozen layer first")
    predicts([["ReLU"], ["SiLU"]], rows, a, what="no linear layer at all")
    predicts([["Sigmoid"], ["GELU"], ["Linear", a, b], ["Tanh"]], rows, a)
    for layer in [*RESULTS, *INPUTS]:
        predicts([layer, ["Linear", a, b]], rows, a, what=f"{layer[0]}, Linear")
        layers = [["Frozen", a, b], layer, ["Linear", b, c]]
        predicts(layers, rows, a, what=", ".join(name for name, *_ in layers))
    predicts_all(
        [[layer, ["SiLU"]] for layer in OTHERS],
        *4 * ["Frozen"],
        short=lambda *part: [["Frozen", a, b], *part, ["Linear", b, c]],
        end=["Linear"],
    )
with check.property("a frozen layer saves nothing, but the gradient passes through it", weight=2):
    predicts([["Linear", a, b], ["Frozen", b, c], ["Tanh"], ["Linear", c, d]], rows, a)
    predicts(
        [["Linear", a, b], ["Frozen", b, c], ["GELU"]], rows, a, what="the GELU is the last layer"
    )
    layers = [["Linear", a, b], ["Frozen", b, c], ["Frozen", c, d], ["SiLU"]]
    predicts(layers, rows, a, what="two frozen layers in a row")
    predicts_all(
        [[], [], [], [["GELU"]]] + [[layer] for layer in [*OTHERS, *OTHERS]],
        *["Linear", "Frozen", "Frozen", "Frozen"],
        short=lambda *part: [["Linear", a, b], *part, ["Frozen", b, c], *part],
    )
with check.property("a shift makes a new tensor; an identity does not"):
    predicts([["Linear", a, b], ["Tanh"], ["Identity"], ["Linear", b, c], ["ReLU"]], rows, a)
    predicts([["Linear", a, b], ["Tanh"], ["Shift"], ["Linear", b, c]], rows, a)
    predicts([["Linear", a, b], ["Shift"], ["Linear", b, c]], rows, a)
    predicts([["Linear", a, b], ["Identity"], ["Linear", b, c]], rows, a)
    layers = [["Linear", a, b], ["Sigmoid"], ["Identity"], ["Identity"], ["Linear", b, c]]
    predicts(layers, rows, a, what="two identities in a row")
    for middle in (["Shift"], ["Identity"]):
        behind = [[f, middle, g] for f in [*RESULTS, *INPUTS] for g in (["Tanh"], ["SiLU"])]
        before = [[middle, g] for g in OTHERS]
        predicts_all([*behind, *before], *4 * ["Linear"], short=trained)
with check.property("more rows than any machine could hold"):
    layers, many = [["Linear", a, b], ["ReLU"], ["Linear", b, c]], 10**14
    got = check.call(predict_saved, layers, many, a)
    check.equal(got, many * count_for_real(layers, 1, a))
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("identities in several places"):
    predicts([["Identity"], ["Linear", a, b], ["Sigmoid"], ["Identity"]], rows, a)
    predicts([["Linear", a, b], ["Identity"], ["GELU"], ["Identity"], ["SiLU"]], rows, a)
with check.property("a longer stack with every kind of layer"):
    layers = [["Tanh"], ["Frozen", a, b], ["SiLU"], ["Linear", b, c], ["Shift"], ["Sigmoid"]]
    layers += [["Frozen", c, c], ["GELU"], ["Identity"], ["Linear", c, d], ["ReLU"], ["GELU"]]
    predicts(layers, rows, a)
with check.property("a stack in which nothing requires a gradient saves nothing"):
    predicts([["Frozen", a, b], ["ReLU"], ["Frozen", b, c], ["GELU"]], rows, a)
### END HIDDEN TESTS
check.score()

# %% [markdown]
"""
## Keep the input, run again

Checkpointing (`torch.utils.checkpoint`) trades time for memory in one **block**, a part of the network with an input and an output. The block runs without saving anything inside; only its input is kept. When the backward pass reaches the
block, the block runs **a second time** from that input and saves its activations; then the gradient passes through as usual. The second run is called **recomputation**.
"""

# %% folded="Drawing: a training step with one checkpointed block"
show_drawing(
    "06/recompute",
    number="6.4",
    caption="A training step with three blocks. In the forward pass, the checkpointed middle block keeps its input and the state of the random number generator, from which the backward pass runs the block again.",
    alt="Top row, the forward pass: blocks 1 and 3 save their activations, block 2 keeps its input and the generator's state. Bottom row, the backward pass, from right to left: "
    "backward through block 3; block 2 runs again from its input and saves its activations; backward through blocks 2 and 1.",
)

# %% [markdown]
"""
Blocks can be joined into a **segment** that is checkpointed as a unit. The next figure follows the memory of twelve blocks, each a linear layer and a Tanh, over a whole training step.
The last segment is not wrapped, because its backward pass follows immediately
([`checkpoint_sequential`](https://docs.pytorch.org/docs/stable/checkpoint.html) does not wrap it either).
"""

# %% tags=["needed"]
ROWS, WIDTH = 256, 64


def run_in_segments(blocks, x, starts, **options):
    """Run the blocks; each segment but the last is checkpointed. ``starts`` begins with 0."""
    for start, end in pairwise([*starts, len(blocks)]):
        segment = blocks[start:end]
        if end < len(blocks):
            x = checkpoint(segment, x, use_reentrant=False, **options)
        else:
            x = segment(x)
    return x


# %% tags=["needed"] folded="Equal blocks and equal segments"
def make_blocks(count):
    torch.manual_seed(0)
    blocks = (
        torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh()) for _ in range(count)
    )
    return torch.nn.Sequential(*blocks)


def equal_segments(count, segments):
    return [round(k * count / segments) for k in range(segments)]


# %% folded="Measure: live memory over a training step"
def memory_of_a_step(blocks, starts):
    """Return the curve of live bytes of a step, and where in it the backward pass begins."""
    blocks.zero_grad(set_to_none=True)
    with LiveBytes() as live:
        x = torch.randn(ROWS, WIDTH)
        loss = run_in_segments(blocks, x, starts).square().mean()
        turn = len(live.curve)
        loss.backward()
        curve = list(live.curve)
    return curve, turn


UNIT = 4 * ROWS * WIDTH
blocks = make_blocks(12)
STEPS = {
    "no checkpoint": [0],
    "12 segments of 1": equal_segments(12, 12),
    "3 segments of 4": equal_segments(12, 3),
}
curves = {title: memory_of_a_step(blocks, starts) for title, starts in STEPS.items()}
for title, (curve, turn) in curves.items():
    kept, peak = curve[turn - 1] / UNIT, max(curve) / UNIT
    print(
        f"{title:<18} after the forward pass {kept:5.1f}, peak {peak:5.1f} tensors of {UNIT} bytes"
    )

# %% folded="Figure 6.5: memory over a training step"
figure, grid = new_figure(1, 3, height=3.0, sharey=True)
for axes, (title, (curve, turn)) in zip(grid, curves.items(), strict=True):
    steps, in_units = range(len(curve)), [size / UNIT for size in curve]
    axes.fill_between(steps, in_units, step="post", alpha=0.25, color=COLORS["blue"])
    axes.step(steps, in_units, where="post", color=COLORS["blue"], linewidth=1.2)
    axes.axvline(turn, color=COLORS["vermilion"], linestyle=":")
    axes.set(title=title, xlabel="tensors made and freed", ylim=(0, 20))
grid[0].set_ylabel("live memory (tensors of 64 KiB)")
show(
    figure,
    number="6.5",
    caption="Left: every block adds one tensor. Middle: each block is a segment, and nothing is gained, because the inputs that checkpointing keeps are the very tensors that the blocks would save. "
    "Right: when the backward pass begins (dotted line), memory holds the inputs of three segments and what the last segment saves inside.",
    alt="Three curves of live memory. Without checkpoints, memory climbs to 13 tensors at the end of the forward pass, peaks at 17 shortly after, and falls. "
    "With each block wrapped, the curve looks much the same. With 3 segments of 4 blocks, memory climbs to 7 tensors, peaks at 11, and forms two more hills during the backward pass.",
)


# %% folded="Measure: gradients, and how often blocks run"
def step_and_count(blocks, x, starts):
    """Return the gradients of a step, and how often a block ran in each pass."""
    runs = {"forward pass": 0, "backward pass": 0}
    phase = "forward pass"

    def count(*_):
        runs[phase] += 1

    handles = [block.register_forward_pre_hook(count) for block in blocks]
    blocks.zero_grad(set_to_none=True)
    loss = run_in_segments(blocks, x, starts).square().mean()
    phase = "backward pass"
    loss.backward()
    for handle in handles:
        handle.remove()
    return [p.grad.clone() for p in blocks.parameters()], runs


x = torch.randn(ROWS, WIDTH)
plain_gradients, plain_runs = step_and_count(blocks, x, [0])
gradients, runs = step_and_count(blocks, x, equal_segments(12, 3))

# %% folded="Predict: how many blocks run again"
predict(
    "06/run-again",
    "Twelve blocks in 3 segments of 4, the last one not wrapped: how many blocks run during the backward pass?",
    runs["backward pass"],
    "The blocks of the first two segments run again. The last segment's activations are still in memory.",
    between=(0, 24),
    unit="blocks",
)

# %%
print("no checkpoint:", plain_runs)
print("3 segments:   ", runs)
print("gradients equal to the last bit:", all(map(torch.equal, plain_gradients, gradients)))

# %% [markdown]
"""
## The second run must repeat the first

The gradients agree because the second run **does what the first run did**: same input, same weights, same code, same random numbers. Dropout shows what happens otherwise. It draws a mask, and if the
second run draws a different one, the gradient belongs to a network that never computed the loss. Therefore `checkpoint` stores the state of torch's random number generators, restores it for the second run, and
afterward puts back the state that it replaced. `preserve_rng_state=False` switches this off.
"""


# %%
def masks(**options):
    """Return where dropout kept numbers in the forward and in the backward pass."""
    torch.manual_seed(0)
    x = torch.ones(40, requires_grad=True)
    output = checkpoint(
        lambda x: functional.dropout(x, 0.5).square(), x, use_reentrant=False, **options
    )
    output.sum().backward()
    return (output > 0).tolist(), (x.grad > 0).tolist()


kept_state, no_state = masks(), masks(preserve_rng_state=False)

# %% folded="Figure 6.6: dropout masks in the two passes"
figure, grid = new_figure(2, 1, height=2.6, sharex=True)
for axes, (title, found) in zip(
    grid, (("state preserved", kept_state), ("preserve_rng_state=False", no_state)), strict=True
):
    forward, backward = found
    for row, mask in ((1, forward), (0, backward)):
        agrees = [a == b for a, b in zip(forward, backward, strict=True)]
        for same, color in ((True, "blue"), (False, "vermilion")):
            places = [k for k, m in enumerate(mask) if m and agrees[k] is same]
            axes.plot(places, [row] * len(places), "s", color=COLORS[color], markersize=6)
    axes.set_yticks([0, 1], ["backward", "forward"])
    axes.set(title=title, ylim=(-0.6, 1.6))
    axes.grid(False)
grid[1].set_xlabel("entry of the tensor")
for axes in grid:
    axes.set_ylabel("pass")
show(
    figure,
    number="6.6",
    caption="The entries that dropout lets through in each run of a checkpointed block. If the state is not preserved, the second run draws a different mask (vermilion: the runs disagree), and nothing reports the difference.",
    alt="Two panels of 40 entries with a row for each pass. With the state preserved, both rows are the same. With preserve_rng_state=False, about half of the entries differ.",
)
print("same mask:", kept_state[0] == kept_state[1], no_state[0] == no_state[1])

# %% [markdown]
"""
No warning appears, and the loss is right; only the gradient is wrong. OLMo-core had disabled `preserve_rng_state`, which did no harm until a model used dropout: after 150 steps, the loss was 2.49 with
checkpointing and 2.19 without ([pull request 828](https://github.com/allenai/OLMo-core/pull/828)).

`checkpoint` knows nothing about your own `torch.Generator` or the generators of Python and NumPy. The next function takes one of two branches, chosen by Python's `random`:
"""


# %%
def one_of_two(x):
    return x.sin() if random.random() < 0.5 else x.exp()


random.seed(2)
wrong = 0
for _ in range(100):
    x = torch.tensor(1.0, requires_grad=True)
    output = checkpoint(one_of_two, x, use_reentrant=False)
    (gradient,) = torch.autograd.grad(output, x)
    true_gradient = x.cos() if torch.equal(output, x.sin()) else x.exp()
    wrong += not torch.allclose(gradient, true_gradient)

# %% folded="Predict: wrong gradients out of 100"
predict(
    "06/other-branch",
    "In how many of 100 steps is the gradient wrong?",
    wrong,
    "The second run draws again and takes the other branch in about half of the steps. Both branches save one tensor of the same shape, so `checkpoint` cannot tell them apart.",
    between=(0, 100),
    unit="steps",
)

# %% [markdown]
"""
`checkpoint` raises a `CheckpointError` if the second run saves too few tensors, or tensors with a different shape, dtype or device. In both examples, the number of tensors and their shapes, dtypes and devices agree.

## A backward pass of your own

You will write a checkpoint function as an operation with its own backward pass, a `torch.autograd.Function`. Here is one that computes `factor * x**3`:
"""


# %%
class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor  # anything but tensors
        ctx.save_for_backward(x)  # tensors
        return factor * x**3

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return 3 * ctx.factor * x**2 * grad_output, None  # one gradient for each argument


x = torch.tensor([1.0, 2.0], requires_grad=True)
print("gradient of 5 x³ at 1 and 2:", torch.autograd.grad(Cube.apply(x, 5.0).sum(), x)[0].tolist())

# %% [markdown]
"""
Five facts from the documentation ([extending autograd](https://docs.pytorch.org/docs/stable/notes/extending.html), [`torch.autograd`](https://docs.pytorch.org/docs/stable/autograd.html), [`torch.random`](https://docs.pytorch.org/docs/stable/random.html)):

- Autograd is off while `forward` and `backward` run. `with torch.enable_grad():` switches it on.
- If a tensor kept by `save_for_backward` is changed in place before the backward pass, `ctx.saved_tensors` raises an error. A tensor stored as an attribute of `ctx` is not checked, which does no harm if nothing else refers to it.
- The output requires a gradient if at least one of the tensor **arguments** does. Weights that a function uses *inside* are invisible to autograd.
- `torch.autograd.backward(output, grad_output)` adds to the `.grad` of **all** leaves that it reaches. `torch.autograd.grad(output, tensors, grad_output)` returns gradients with respect to `tensors` and changes no `.grad`.
- `torch.get_rng_state()` and `torch.set_rng_state(state)` read and set the state of the CPU's generator. At the end of its block, `with torch.random.fork_rng(devices=[]):` restores the state that it found.
"""

# %% [markdown] exercise="own-checkpoint" points=6 minutes=40 difficulty=3
"""
### A checkpoint of your own

Write both methods of `Checkpoint`.

`own_checkpoint(run, *inputs) -> Tensor`

- **In** `run`: a module, or a function that may use modules, some of whose weights may be frozen; it returns one tensor, which depends on something that requires a gradient. `inputs`: tensors, at least one of which requires a gradient; some may hold integers or be results of other operations.
- **Out**: `run(*inputs)`, computed once, without saving anything inside `run`. In the backward pass, `run` runs **once more**, with the **same random numbers** from the CPU's generator, even if several calls come before one backward pass. Each input that requires a gradient gets one (None or zeros if unused); every other input still requires none and has no `.grad`. `backward()` adds the gradients of `run`'s trainable weights to their `.grad`.
- The generator continues as if nothing had run twice.
- If an input is changed in place between the passes, raise an error or compute the gradient for the old values.
- **Limits**: no checkpoint function from torch; using one forfeits all points.

To detect the second run, the check changes a number in a layer between the passes. With `x = torch.tensor([0.0], requires_grad=True)`, `own_checkpoint(torch.exp, x).item()` is `1.0`, and after `backward()`, `x.grad` is `tensor([1.])`.

<!-- hint: What must `forward` store so that `backward` can start again from the same point? There are three things. -->
<!-- hint: In `backward`: detach the inputs from the graph, restore the generator's old state, switch autograd on, and call `run` again. Then send the gradient through the new graph, to the weights as well as to the detached inputs, and put back the state that the generator had before. -->
<!-- hint: Detach with `x.detach().requires_grad_(x.requires_grad)`. Use `torch.autograd.backward`, not `grad`: it reaches the weights. Then return None for `run`, followed by the `.grad` of each detached input. -->
"""


# %% solution="own-checkpoint"
class Checkpoint(torch.autograd.Function):
    """Runs a function without saving what is inside, and again in the backward pass."""

    @staticmethod
    def forward(ctx, run, *inputs):
        ### BEGIN SOLUTION
        ctx.run = run
        ctx.generator_state = torch.get_rng_state()
        ctx.save_for_backward(*inputs)
        return run(*inputs)
        ### END SOLUTION

    @staticmethod
    def backward(ctx, grad_output):
        ### BEGIN SOLUTION
        inputs = [x.detach().requires_grad_(x.requires_grad) for x in ctx.saved_tensors]
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.set_rng_state(ctx.generator_state)
            output = ctx.run(*inputs)
        torch.autograd.backward(output, grad_output)
        return None, *(x.grad for x in inputs)
        ### END SOLUTION


def own_checkpoint(run, *inputs):
    return Checkpoint.apply(run, *inputs)


# %% test="own-checkpoint"
check = Check("own-checkpoint")


def forward_and_backward(layers, *inputs, **options):
    return check.call(probes.forward_and_backward, own_checkpoint, layers, *inputs, **options)


def draw_two_layers(inner=6):
    return {
        "0.weight": check.draw.normal(inner, 5, std=0.7),
        "0.bias": check.draw.normal(inner, std=0.5),
        "2.weight": check.draw.normal(4, inner, std=1.7 / math.sqrt(inner)),
        "2.bias": check.draw.normal(4, std=0.5),
    }


def draw_slopes(rows):
    return check.draw.normal(rows, 4)


def gradients_of(compute, grad_output, *leaves):
    """Return the output and the gradients with respect to ``leaves``, floating-point tensors."""
    leaves = [leaf.clone().requires_grad_(True) for leaf in leaves]
    output = compute(*leaves)
    return output.detach(), torch.autograd.grad(output, leaves, grad_output)


def dialed(position):
    """Two layers, and a dial after them."""

    def compute(x, first, first_bias, second, second_bias):
        hidden = torch.tanh(functional.linear(x, first, first_bias))
        return functional.linear(hidden, second, second_bias).sin().square() * position

    return compute


def bilinear(x, y, weight, bias):
    return functional.bilinear(x, y, weight, bias).sin().square() * 2.0


def plain_dropout(x, seed, grad_output, steps=1, uses=1):
    """Take steps, each with some uses of two dropouts that run once.

    Returns:
        the last output, the sum of the gradients, and two draws after each step.
    """

    def dropped(x):
        return functional.dropout(torch.tanh(functional.dropout(x, 0.5)), 0.3)

    def used(x):
        return torch.stack([dropped(x) for _ in range(uses)])

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        slopes, drawn = [], []
        for _ in range(steps):
            outputs, (slope,) = gradients_of(used, grad_output.expand(uses, *x.shape), x)
            slopes.append(slope)
            drawn += [torch.rand(3), torch.rand(3)]
    return outputs[-1], sum(slopes), drawn


def drops_the_same(got, output, slope, what=""):
    """Require the output and the gradient of dropouts whose entries are 0 where they are dropped."""
    found = got["output"]
    if isinstance(found, torch.Tensor) and found.shape == output.shape:
        told = f"{what}the forward pass drops different entries than `run(*inputs)` alone would"
        check.true(torch.equal(found == 0, output == 0), told)
    check.close(found, output, what=f"{what}the output")
    what = f"{what}the gradient with respect to the input"
    check.close(got["gradients"][0], slope, what=what)


def leaves_others_alone(got, names):
    for place, other in got["others"].items():
        told = f"{names[place]} requires no gradient, but its `.grad` is set afterward"
        check.true(other["grad"] is None, told)
        told = f"{names[place]} requires a gradient after the call, but did not before"
        check.true(not other["requires_grad"], told)


def same_gradients(got, names, expected, atol=1e-5, where=""):
    by_input, *by_weight = expected
    what = f"{where}the gradient with respect to"
    check.close(got["gradients"][0], by_input, atol=atol, what=f"{what} the input")
    for name, slope in zip(names, by_weight, strict=True):
        check.close(got["parameters"][name], slope, atol=atol, what=f"{what} {name}")


two_layers = [["Linear", 5, 6], ["Tanh"], ["Linear", 6, 4], ["Dial"]]
two_dropouts = [["Dropout", 0.5], ["Tanh"], ["Dropout", 0.3]]
with check.property(
    "the right output, and the gradient of a second run, without torch's checkpoint"
):
    rows, turned = check.draw.integer(7, 20), check.draw.number(2.0, 3.0)
    state, x, grad_output = draw_two_layers(), check.draw.normal(rows, 5), 0.1 * draw_slopes(rows)
    output, _ = gradients_of(dialed(1.0), grad_output, x, *state.values())
    _, slopes = gradients_of(dialed(turned), grad_output, x, *state.values())
    of_first_run = slopes[0] / turned
    for as_leaves in (True, False):
        options = {"as_leaves": as_leaves, "state": state, "grad_output": grad_output}
        got = forward_and_backward(two_layers, x, **options, dial_positions=(1.0, turned))
        check.close(got["output"], output, atol=1e-6, what="the output")
        found = got["gradients"][0]
        if isinstance(found, torch.Tensor) and found.shape == of_first_run.shape:
            is_old = (found - of_first_run).norm() < 0.01 * of_first_run.norm()
            what = "the gradient with respect to the input"
            check.true(not is_old, f"{what} is that of the first run: `run` does not run again")
        same_gradients(got, state, slopes, atol=1e-4)
    check.written_without(
        *("checkpoint", "_checkpoint", "checkpoint_module", "checkpoint_sequential"),
        *("*activation_checkpoint*", "run_in_segments"),
    )
with check.property("the backward pass runs the block again", weight=3):
    for inner in (6, check.draw.integer(350, 450)):
        rows, turned = check.draw.integer(7, 20), check.draw.number(2.0, 3.0)
        state, x = draw_two_layers(inner), check.draw.normal(rows, 5)
        grad_output = 0.1 * draw_slopes(rows)
        output, _ = gradients_of(dialed(0.5), grad_output, x, *state.values())
        _, slopes = gradients_of(dialed(turned), grad_output, x, *state.values())
        layers = [["Linear", 5, inner], ["Tanh"], ["Linear", inner, 4], ["Dial"]]
        options = {"dial_positions": (0.5, turned)}
        got = forward_and_backward(layers, x, state=state, grad_output=grad_output, **options)
        check.close(got["output"], output, atol=1e-5, what="the output")
        same_gradients(got, state, slopes, atol=1e-4)
with check.property("the block runs once in the forward pass and once in the backward pass"):
    rows, counted = check.draw.integer(8, 20), check.draw.integer(2, 9)
    norm = torch.nn.BatchNorm1d(5)
    norm.load_state_dict(
        {
            "weight": check.draw.uniform(5, low=0.5, high=2.0),
            "bias": check.draw.normal(5),
            "running_mean": check.draw.normal(5),
            "running_var": check.draw.uniform(5, low=0.5, high=3.0),
            "num_batches_tracked": torch.tensor(counted),
        }
    )
    state = {f"0.{name}": value.clone() for name, value in norm.state_dict().items()}
    x, grad_output = check.draw.normal(rows, 5), check.draw.normal(rows, 5)
    output, slopes = gradients_of(lambda leaf: norm(leaf).tanh(), grad_output, x)
    norm(x)
    layers = [["BatchNorm1d", 5], ["Tanh"]]
    got = forward_and_backward(layers, x, state=state, grad_output=grad_output)
    check.close(got["output"], output, rtol=1e-4, atol=1e-5, what="the output")
    check.close(
        got["gradients"],
        list(slopes),
        rtol=1e-3,
        atol=1e-5,
        what="the gradient with respect to the input",
    )
    what = "the batches that a BatchNorm inside has counted"
    check.equal(int(got["state"]["0.num_batches_tracked"]) - counted, 2, what=what)
    for name in ("running_mean", "running_var"):
        expected = getattr(norm, name)
        check.close(
            got["state"][f"0.{name}"],
            expected,
            rtol=1e-4,
            atol=1e-5,
            what=f"the BatchNorm's {name}",
        )
with check.property(
    "dropout drops in both passes what it drops in `run(*inputs)` alone", weight=1.5
):
    rows = check.draw.integer(10, 20)
    x, grad_output = check.draw.normal(rows, 9), check.draw.normal(rows, 9)
    seed = check.draw.integer(0, 1_000_000)
    output, slope, drawn = plain_dropout(x, seed, grad_output)
    options = {"state": {}, "grad_output": grad_output, "seed": seed}
    got = forward_and_backward(two_dropouts, x, **options)
    drops_the_same(got, output, slope)
    check.equal(got["drawn"][0], drawn[0], what="random numbers drawn after the forward pass")
    layers = [["FunctionalDropout", 0.5], ["Tanh"], ["FunctionalDropout", 0.3]]
    got = forward_and_backward(layers, x, **options)
    drops_the_same(got, output, slope, "modules that call functional.dropout: ")
    got = forward_and_backward(two_dropouts, x, **options, as_function=True)
    drops_the_same(got, output, slope, "run is a function that uses a module: ")
with check.property("over two steps, the generator continues as if nothing had run twice"):
    rows = check.draw.integer(10, 20)
    x, grad_output = check.draw.normal(rows, 9), check.draw.normal(rows, 9)
    seed = check.draw.integer(0, 1_000_000)
    output, slope, drawn = plain_dropout(x, seed, grad_output, steps=2)
    got = forward_and_backward(
        two_dropouts, x, state={}, grad_output=grad_output, seed=seed, steps=2
    )
    check.close(got["output"], output, what="the output of the second step")
    what = "the gradient with respect to the input, of two steps"
    check.close(got["gradients"][0], slope, atol=1e-6, what=what)
    check.equal(
        got["drawn"], drawn, what="random numbers drawn after each forward and each backward pass"
    )
with check.property(
    "two calls before one backward pass, each with its own block and random numbers"
):
    rows, turned = check.draw.integer(7, 20), check.draw.number(2.0, 3.0)
    state, x, grad_output = draw_two_layers(), check.draw.normal(rows, 5), 0.1 * draw_slopes(rows)
    _, (by_input, *slopes) = gradients_of(dialed(turned), grad_output, x, *state.values())
    options = {"dial_positions": (1.0, turned), "uses": 2, "own_networks": True}
    got = forward_and_backward(two_layers, x, state=state, grad_output=grad_output, **options)
    same_gradients(got, state, (2 * by_input, *slopes), atol=1e-4)
    rows = check.draw.integer(10, 20)
    x, grad_output = check.draw.normal(rows, 9), check.draw.normal(rows, 9)
    seed = check.draw.integer(0, 1_000_000)
    output, slope, drawn = plain_dropout(x, seed, grad_output, uses=2)
    got = forward_and_backward(
        two_dropouts, x, state={}, grad_output=grad_output, seed=seed, uses=2
    )
    check.close(got["output"], output, what="the output of the second call")
    what = "the gradient with respect to the input of both calls"
    check.close(got["gradients"][0], slope, atol=1e-6, what=what)
    check.equal(
        got["drawn"], drawn, what="random numbers drawn after the forward and the backward pass"
    )
with check.property("nothing inside is saved in the forward pass"):
    inner, rows = check.draw.integer(350, 450), check.draw.integer(7, 20)
    state, x = draw_two_layers(inner), check.draw.normal(rows, 5)
    turned = check.draw.number(2.0, 3.0)
    grad_output = 0.1 * draw_slopes(rows)
    output, _ = gradients_of(dialed(0.5), grad_output, x, *state.values())
    _, slopes = gradients_of(dialed(turned), grad_output, x, *state.values())
    got = check.call(
        probes.bytes_kept,
        own_checkpoint,
        [["Linear", 5, inner], ["Tanh"], ["Linear", inner, 4], ["Dial"]],
        x,
        state=state,
        grad_output=grad_output,
        dial_positions=(0.5, turned),
    )
    check.close(got["output"], output, atol=1e-5, what="the output")
    same_gradients(got, state, slopes, atol=1e-4)
    bytes_inside = 4 * rows * inner
    check.true(
        got["kept"] < bytes_inside / 2,
        f"after the forward pass, {got['kept']} bytes that it allocated are still in memory; "
        f"the result of the first layer inside takes {bytes_inside} bytes",
    )
    # Six results of the same size, of which a run that saves nothing needs two at once.
    layers = [["Linear", 5, inner], *5 * [["Tanh"]], ["Linear", inner, 4], ["Dial"]]
    state = {name.replace("2.", "6."): value for name, value in state.items()}
    got = check.call(
        probes.bytes_kept, own_checkpoint, layers, x, state=state, grad_output=grad_output
    )
    check.true(
        got["peak"] < 4 * bytes_inside,
        f"during the forward pass, up to {got['peak']} bytes were in memory at once; one result of "
        f"the layers inside takes {bytes_inside} bytes, and no more than two are needed at once",
    )
with check.property(
    "several inputs: those that require a gradient get one, and the others stay as they were"
):
    state = {"0.weight": check.draw.normal(4, 3, 5), "0.bias": check.draw.normal(4)}
    rows = check.draw.integer(6, 20)
    x, y, grad_output = (check.draw.normal(rows, size) for size in (3, 5, 4))
    _, slopes = gradients_of(bilinear, grad_output, x, y, *state.values())
    layers, options = [["Bilinear", 3, 5, 4], ["Dial"]], {"dial_positions": (1.0, 2.0)}
    got = forward_and_backward(
        layers, x, y, state=state, grad_output=grad_output, with_respect_to=(0, 1), **options
    )
    check.close(
        got["gradients"][0],
        slopes[0],
        atol=1e-4,
        what="the gradient with respect to the first input",
    )
    check.close(
        got["gradients"][1],
        slopes[1],
        atol=1e-4,
        what="the gradient with respect to the second input",
    )
    check.close(
        got["parameters"]["0.weight"],
        slopes[2],
        atol=1e-4,
        what="the gradient with respect to the weight",
    )
    got = forward_and_backward(
        layers, x, y, state=state, grad_output=grad_output, with_respect_to=(1,), **options
    )
    check.close(
        got["gradients"][0],
        slopes[1],
        atol=1e-4,
        what="the gradient with respect to the second input alone",
    )
    leaves_others_alone(got, ["the first input"])
    state = {"1.weight": check.draw.normal(4, 5), "1.bias": check.draw.normal(4)}

    def from_second(y, weight, bias):
        return functional.linear(y, weight, bias).sin().square() * 2.0

    _, (_, *slopes) = gradients_of(from_second, grad_output, y, *state.values())
    layers, where = [["Second"], ["Linear", 5, 4], ["Dial"]], "run does not use its first input: "
    got = forward_and_backward(layers, x, y, state=state, grad_output=grad_output, **options)
    unused = got["gradients"][0]
    same_gradients(got, state, (unused, *slopes), atol=1e-4, where=where)
    if unused is not None:
        what = f"{where}the gradient with respect to it"
        check.close(unused, torch.zeros_like(x), atol=0.0, what=what)
    leaves_others_alone(got, ["", "the second input"])
with check.property("integers among the inputs"):
    table, grad_output = check.draw.normal(6, 4), check.draw.normal(9, 4)
    places = check.draw.integers(9, low=0, high=6)
    _, slopes = gradients_of(lambda t: t[places].sin().square() * 3.0, grad_output, table)
    layers = [["Rows"], ["Dial"]]
    got = forward_and_backward(
        layers, table, places, state={}, grad_output=grad_output, dial_positions=(1.0, 3.0)
    )
    check.close(
        got["gradients"][0],
        slopes[0],
        atol=1e-5,
        what="the gradient with respect to the floating-point input",
    )
with check.property(
    "no wrong gradient if an input is changed in place, and no error if the change came before the call",
    weight=0.5,
):
    rows, turned = check.draw.integer(7, 20), check.draw.number(2.0, 3.0)
    state, x, grad_output = draw_two_layers(), check.draw.normal(rows, 5), 0.1 * draw_slopes(rows)
    _, slopes = gradients_of(dialed(turned), grad_output, x, *state.values())
    options = {"state": state, "grad_output": grad_output, "dial_positions": (1.0, turned)}
    got = check.call(probes.changed_between, own_checkpoint, two_layers, x, **options)
    if not got["error"]:
        same_gradients(got, state, slopes, atol=1e-4)
    options |= {"changed": (), "changed_before": True}
    got = check.call(probes.changed_between, own_checkpoint, two_layers, x, **options)
    told = f"{got['error']} is raised, but the input was changed in place only before the call"
    check.true(not got["error"], told)
    same_gradients(got, state, slopes, atol=1e-4, where="the input changed before the call: ")
    state = {"0.weight": check.draw.normal(4, 3, 5), "0.bias": check.draw.normal(4)}
    x, y, grad_output = (check.draw.normal(rows, size) for size in (3, 5, 4))
    _, slopes = gradients_of(bilinear, grad_output, x, y, *state.values())
    options = {"state": state, "grad_output": grad_output, "dial_positions": (1.0, 2.0)}
    for learned in ((0, 1), (0,)):
        options |= {"with_respect_to": learned, "changed": (1,)}
        layers = [["Bilinear", 3, 5, 4], ["Dial"]]
        got = check.call(probes.changed_between, own_checkpoint, layers, x, y, **options)
        if not got["error"]:
            expected = (slopes[0], *slopes[2:])
            same_gradients(got, state, expected, atol=1e-4, where="the second input changed: ")
    table, grad_output = check.draw.normal(6, 4), check.draw.normal(9, 4)
    places = check.draw.integers(9, low=0, high=6)
    _, slopes = gradients_of(lambda t: t[places].sin().square() * 3.0, grad_output, table)
    options = {"state": {}, "grad_output": grad_output, "dial_positions": (1.0, 3.0)}
    layers = [["Rows"], ["Dial"]]
    got = check.call(
        probes.changed_between, own_checkpoint, layers, table, places, changed=(1,), **options
    )
    if not got["error"]:
        same_gradients(got, (), slopes, atol=1e-4, where="an integer input changed: ")
with check.property(
    "the gradients of two steps add up, even if run is a function or partly frozen", weight=0.5
):
    rows = check.draw.integer(7, 20)
    state, x, grad_output = draw_two_layers(), check.draw.normal(rows, 5), draw_slopes(rows)
    _, slopes = gradients_of(dialed(1.5), 2 * grad_output, x, *state.values())
    options = {"state": state, "grad_output": grad_output, "dial_positions": (1.0, 1.5), "steps": 2}
    same_gradients(forward_and_backward(two_layers, x, **options), state, slopes)
    cases = [
        (True, (), "run is a function that uses a module: "),
        (False, ("0.bias",), "a bias is frozen: "),
        (True, ("0.weight", "2.weight"), "run is a function that uses frozen weights: "),
    ]
    by_input, *by_weight = slopes
    for as_function, frozen, where in cases:
        options |= {"as_function": as_function, "frozen": frozen}
        got = forward_and_backward(two_layers, x, **options)
        learned = zip(state, by_weight, strict=True)
        expected = [None if name in frozen else slope for name, slope in learned]
        same_gradients(got, state, (by_input, *expected), where=where)
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("two calls and two steps, with an integer input and weights", weight=0.5):
    table, places = check.draw.normal(6, 4), check.draw.integers(9, low=0, high=6)
    state = {"2.weight": check.draw.normal(3, 4), "2.bias": check.draw.normal(3)}
    grad_output = check.draw.normal(9, 3)

    def looked_up(table, weight, bias):
        return functional.linear(table[places].sin().square() * 1.5, weight, bias)

    _, slopes = gradients_of(looked_up, 4 * grad_output, table, *state.values())
    layers, options = [["Rows"], ["Dial"], ["Linear", 4, 3]], {"dial_positions": (0.5, 1.5)}
    inputs = {"state": state, "grad_output": grad_output}
    got = forward_and_backward(layers, table, places, **inputs, **options, steps=2, uses=2)
    same_gradients(got, state, slopes, atol=1e-4)
### END HIDDEN TESTS
check.score()

# %% [markdown]
"""
<details><summary>What PyTorch's version adds (open it when yours works)</summary>

PyTorch's version also stores the GPU generators' states and the autocast state (chapter 03), and it accepts arguments other than tensors.
</details>

## What to wrap

Checkpointing frees what is saved **inside** a block and keeps the block's input. Apart from parameters, the `Linear` layers of the opening example save only their inputs, so wrapping them gained nothing. The transformer block below has the parts of a real one: attention, in which each token of a text takes a weighted mean over all tokens (chapter 08), and an MLP whose hidden layer is four times as wide as its input. Each has a LayerNorm before it and a residual connection around it.
"""


# %% folded="A transformer block"
class Block(torch.nn.Module):
    def __init__(self, width, heads, fused=True):
        super().__init__()
        self.heads, self.fused = heads, fused
        self.norm_1, self.norm_2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.to_qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        wide, back = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)
        self.mlp = torch.nn.Sequential(wide, torch.nn.GELU(), back)

    def attend(self, x):
        count, length, width = x.shape
        q, k, v = (
            part.view(count, length, self.heads, -1).transpose(1, 2)
            for part in self.to_qkv(x).chunk(3, dim=-1)
        )
        if self.fused:
            mixed = functional.scaled_dot_product_attention(q, k, v)
        else:
            mixed = torch.softmax(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5, dim=-1) @ v
        return self.out(mixed.transpose(1, 2).reshape(count, length, width))

    def forward(self, x):
        x = x + self.attend(self.norm_1(x))
        return x + self.mlp(self.norm_2(x))


# %% folded="Measure: what is saved inside four kinds of block"
BLOCKS = {
    "Linear": torch.nn.Linear(128, 128),
    "Linear, Tanh": torch.nn.Sequential(torch.nn.Linear(128, 128), torch.nn.Tanh()),
    "MLP, 4 × as wide": Block(128, 4).mlp,
    "transformer block": Block(128, 4),
}
shares = []
for name, block in BLOCKS.items():
    x = torch.randn(2, 256, 128, requires_grad=True)
    inside = saved_bytes(lambda b=block, x=x: b(x), except_for=[*block.parameters(), x]).bytes
    shares.append(inside / (4 * x.numel()))
    print(f"{name:<20} saved inside: {shares[-1]:5.2f} tensors of the input's size")

# %% folded="Figure 6.7: what a checkpoint frees, and what it keeps"
figure, axes = new_figure(height=2.9)
axes.barh(range(4), shares, color=COLORS["orange"], height=0.36, label="saved inside: freed")
places = [k + 0.38 for k in range(4)]
axes.barh(places, [1] * 4, color=COLORS["blue"], height=0.36, label="input: kept")
axes.set_yticks([k + 0.19 for k in range(4)], list(BLOCKS))
axes.invert_yaxis()
axes.set(
    title="What a checkpoint frees and keeps", xlabel="tensors of the input's size", ylabel="block"
)
axes.legend()
axes.grid(False, axis="y")
show(
    figure,
    number="6.7",
    caption="Checkpointing a `Linear` frees nothing, and the Tanh's result stays if the next block saves it (Figure 6.5). A transformer block saves about fifteen times its input's size inside; its checkpoint keeps only the input.",
    alt="Four kinds of block. Saved inside, in tensors of the input's size: Linear 0, Linear and Tanh 1, the MLP 8, the transformer block 15. The kept input is 1 for each.",
)

# %% [markdown]
r"""
So wrap **blocks that save a lot inside and have a small input**.

### Segments, and the square root

Longer segments keep fewer inputs, but each segment saves more when it runs again. Take $n$ equal blocks in $k$ equal segments; each block has an input of $b$ bytes and saves $a$ bytes inside. When the backward pass begins, memory holds $k$ inputs and what $n/k$ blocks save inside:

$$\text{peak}(k) = k \cdot b + \frac{n}{k} \cdot a, \qquad\text{smallest at}\qquad k = \sqrt{n\,a/b}.$$

For $a = b$, the minimum is $2\sqrt{n}$ tensors instead of $n + 1$. This is the **square-root rule** of
[Chen et al. (2016)](https://arxiv.org/abs/1604.06174). The next cell tests it on 36 blocks:
"""

# %% folded="Measure: 36 equal blocks, in segments"
COUNT = 36
blocks = make_blocks(COUNT)
ks = [1, 2, 3, 4, 6, 9, 12, 18, 36]
formula, measured, counted = [], [], []
x = torch.randn(ROWS, WIDTH)
for k in ks:
    starts = equal_segments(COUNT, k)
    formula.append(k + COUNT / k)
    measured.append(max(memory_of_a_step(blocks, starts)[0]) / UNIT)
    kept = saved_bytes(
        lambda s=starts: run_in_segments(blocks, x, s), except_for=blocks.parameters()
    )
    counted.append(kept.bytes / UNIT)
print("segments:                  ", *(f"{k:>5}" for k in ks))
print("formula:                   ", *(f"{value:5.1f}" for value in formula))
print("saved after forward pass:  ", *(f"{value:5.1f}" for value in counted))
print("live at the peak, measured:", *(f"{value:5.1f}" for value in measured))
print("formula is right to the byte:", formula == counted)

# %% folded="Figure 6.8: the square-root rule"
figure, axes = new_figure(height=3.2)
axes.plot(ks, measured, "o-", color=COLORS["blue"], label="live at the peak, measured")
axes.plot(ks, counted, "s", color=COLORS["orange"], label="saved after the forward pass")
axes.plot(ks, formula, "--", color=COLORS["black"], label="k + n / k")
axes.set_xscale("log")
axes.set_xticks(ks, [str(k) for k in ks])
axes.minorticks_off()
axes.set(title="36 equal blocks", xlabel="segments k", ylabel="tensors of 64 KiB", ylim=(0, 46))
axes.legend(loc="upper center")
show(
    figure,
    number="6.8",
    caption="The saved bytes match the formula exactly, and six segments are best. The measured peak is four to six tensors higher, because gradients and temporary results of the backward pass are in memory, too.",
    alt="Memory against the number of segments, from 1 to 36. The formula k plus 36 over k and the saved bytes form one curve, which falls from "
    "37 at one segment to 12 at six and rises again to 37 at 36. The measured peak has the same shape, four to six tensors higher.",
)

# %% [markdown]
r"""
## Checkpoints under a budget

In an image network, the first blocks can have the largest activations, so equal segments may not be best. Let `inputs[i]` be the number of bytes in block $i$'s input and `inside[i]` the number that the block saves inside. A segment from block $s$ up to, but not including, block $e$ keeps
`inputs[s]`. While the backward pass is in that segment, memory holds what its blocks save and the inputs of this and all earlier segments.

In the diagram, the blocks are called layers and numbered from 1. Click or tap between two of them to set or remove a checkpoint. The "tent" shows the saved bytes over one training step, and orange layers run twice. In each of the three chains, compare the square-root rule's peak with the smallest possible one.
"""

# %%
explore_segments("equal", [0, 4, 8], budget=9)


# %% tags=["needed"]
def peak_bytes(starts, inputs, inside):
    """Return the top of the tent: the most bytes saved at once, if segments begin at ``starts``."""
    peak, kept = 0, 0
    for start, end in pairwise([*starts, len(inputs)]):
        kept += inputs[start]
        peak = max(peak, kept + sum(inside[start:end]))
    return peak


# %%
for starts in ([0], [0, 4, 8], [0, 5, 9]):
    print(f"12 equal blocks, segments from {starts}: peak", peak_bytes(starts, 12 * [1], 12 * [1]))

# %% [markdown]
"""
Segments of different lengths can beat the rule even for equal blocks. The first segment may be longer than the last, because its backward pass comes after the inputs of all later segments have been freed.
"""

# %% [markdown] exercise="choose-segments" points=4 minutes=30 difficulty=3
"""
### Segments under a budget

The machine sets the budget; the price is the number of blocks that run twice. Find the cheapest choice that fits.

`choose_segments(inputs, inside, budget) -> list or None`

- **In** `inputs`, `inside`: as in `peak_bytes`: equally long lists of positive ints up to 10¹⁰, for 1 to 60 blocks. `budget`: an int.
- **Out**: a list `starts` of ints: the blocks at which segments begin, increasing from 0. `peak_bytes(starts, inputs, inside)` must be **at most** the budget. All blocks before the last segment run twice, so the **last segment must begin as early as possible**. Any of several equally good choices is right. If none fits, return None.
- **Limits**: 10 seconds for each call. For 60 blocks, there are 2⁵⁹ choices, too many to try.

`choose_segments([1, 1, 1, 1], [1, 1, 1, 1], 4)` returns `[0, 2]`: two blocks run twice, and the peak is 4.

<!-- hint: Suppose that a segment begins at block s, and everything before it fits. Of all choices for the blocks before s, which one leaves the most room for what follows? -->
<!-- hint: Dynamic programming solves the problem block by block. Only one number from the past matters: the bytes of the inputs kept so far. For each block, find the smallest such number with which a segment can begin there, and remember how it was reached. -->
<!-- hint: Go through the blocks from the first to the last. From a start s with `kept` bytes, a segment may end before block e if `kept + sum(inside[s:e])` is at most the budget; then `kept + inputs[e]` is a candidate for e. The last segment begins at the first start from which the rest of the chain fits. -->
"""


# %% solution="choose-segments"
def choose_segments(inputs, inside, budget):
    """Return the places where segments begin, or None if nothing fits into ``budget`` bytes."""
    ### BEGIN SOLUTION
    # For each start: the fewest bytes of inputs kept so far, and the starts that lead there.
    ways = {0: (inputs[0], [0])}
    for end in range(1, len(inputs)):
        found = [
            (kept + inputs[end], [*starts, end])
            for start, (kept, starts) in ways.items()
            if kept + sum(inside[start:end]) <= budget
        ]
        if found:
            ways[end] = min(found)
    for start, (kept, starts) in ways.items():
        if kept + sum(inside[start:]) <= budget:
            return starts
    return None
    ### END SOLUTION


# %% test="choose-segments"
check = Check("choose-segments")


def all_choices(count):
    for cuts in range(2 ** (count - 1)):
        yield [0, *(place for place in range(1, count) if cuts >> (place - 1) & 1)]


def is_good(inputs, inside, budget, earliest, what=""):
    """Require a choice whose last segment begins at ``earliest``; None means that nothing fits."""
    got = check.call(choose_segments, inputs, inside, budget)
    where = f"{what}: " if what else ""
    if earliest is None:
        check.equal(got, None, what=f"{where}nothing fits")
        return
    check.true(got is not None, f"{where}got None, but there is a choice that fits")
    is_list = isinstance(got, list | tuple) and all(type(start) is int for start in got)
    check.true(is_list and len(got) > 0, f"{where}expected a list of ints, got {got!r}")
    rising = all(a < b for a, b in pairwise(got))
    within = got[0] == 0 and got[-1] < len(inputs)
    check.true(rising and within, f"{where}the starts must be block numbers, increasing from 0")
    peak = peak_bytes(list(got), inputs, inside)
    check.true(peak <= budget, f"{where}the peak is {peak}, the budget {budget}")
    runs = "block runs" if got[-1] == 1 else "blocks run"
    told = f"{where}{got[-1]} {runs} twice, but {earliest} would be enough"
    check.true(got[-1] == earliest, told)


def by_trying(inputs, inside, budget, what=""):
    """Return what ``is_good`` takes; a short chain has few choices."""
    choices = all_choices(len(inputs))
    fitting = [starts[-1] for starts in choices if peak_bytes(starts, inputs, inside) <= budget]
    return inputs, inside, budget, min(fitting, default=None), what


def is_good_in_all(*cases):
    """Ask for all cases, in random order: no answer is known beforehand."""
    for place in check.draw.permutation(len(cases)):
        is_good(*cases[place])


unit = check.draw.integer(100, 1000)
with check.property(
    "equal blocks, a budget between the smallest peak and the peak without checkpoints"
):
    blocks = 9 * [unit], 9 * [unit]
    budgets = 6 * unit, 7 * unit + unit // 2, 10 * unit
    is_good_in_all(*(by_trying(*blocks, budget) for budget in budgets))
with check.property("if everything fits, nothing is wrapped"):
    inside = [unit, 2 * unit, unit, 3 * unit, unit]
    # Odd, and far beyond 2²⁴: no float32 is its sum.
    large = 10**9 + 2 * check.draw.integer(1, 10**9) + 1
    in_gigabytes = [large, 2 * large, large, 3 * large, large]
    is_good_in_all(
        by_trying(5 * [unit], inside, 9 * unit, "a budget that is just enough"),
        by_trying(5 * [unit], inside, 9 * unit - 1, "one byte less"),
        by_trying(5 * [large], in_gigabytes, 9 * large, "gigabytes, and just enough of them"),
        by_trying(5 * [large], in_gigabytes, 9 * large - 1, "gigabytes, and one byte less"),
        by_trying([unit], [unit], 3 * unit, "a single block"),
        # From the second block, the rest of the chain does not fit; from the third it does.
        by_trying([4 * unit, 4 * unit, 6 * unit], [2 * unit, 5 * unit, 2 * unit], 14 * unit),
    )
with check.property("as few blocks as possible run twice", weight=2):
    first = [3, 3, 2, 1, 1, 3, 2], [2, 4, 2, 2, 3, 3, 1]
    # Three segments fit if the last one begins at block 5, four segments if it begins at block 4.
    second = [1, 1, 4, 1, 1, 1], [3, 6, 3, 3, 1, 6]
    # The last segment fits from block 1 on, though less is kept if it begins at block 2.
    third = [3, 2, 1], [6, 3, 7]
    is_good_in_all(
        # Halves would fit as well, and so would the smallest peak: they run more blocks twice.
        by_trying(8 * [unit], 8 * [unit], 8 * unit),
        by_trying([unit] * 6, [5 * unit, unit, unit, unit, unit, unit], 8 * unit),
        *(
            by_trying(*([unit * k for k in part] for part in parts), budget * unit)
            for parts, budget in ((first, 12), (second, 12), (third, 17))
        ),
    )
with check.property("blocks of different sizes"):
    sizes = [unit * s for s in (8, 8, 4, 4, 2, 2, 1, 1)]
    is_good_in_all(
        by_trying(sizes, [2 * s for s in sizes], 36 * unit),
        by_trying(sizes[::-1], [2 * s for s in sizes[::-1]], 32 * unit),
    )
with check.property("None if nothing fits"):
    is_good_in_all(
        by_trying(6 * [unit], 6 * [4 * unit], 5 * unit),
        by_trying(6 * [unit], 6 * [4 * unit], 9 * unit),
        by_trying(10 * [unit], 10 * [9 * unit], 19 * unit, "ten segments"),
        by_trying([unit], [unit], 0, "no budget at all"),
    )
with check.property("60 equal blocks", weight=2):
    cases = [(11, None), (12, 56), (13, 54), (20, 44), (40, 22), (60, 2), (61, 0)]
    # With as much inside, a segment holds one block or two: 30 or 60 segments.
    full = [(159, None), (160, 59), (230, 58)]
    is_good_in_all(
        *((60 * [unit], 60 * [unit], budget * unit, last) for budget, last in cases),
        *((60 * [unit], 60 * [100 * unit], budget * unit, last) for budget, last in full),
    )
with check.property("40 blocks of different sizes", weight=2):
    inputs = [2, 1, 5, 1, 9, 2, 1, 5, 5, 9, 2, 9, 1, 9, 2, 9, 5, 5, 2, 9]
    inputs += [1, 1, 5, 1, 9, 1, 1, 1, 5, 9, 2, 9, 1, 1, 1, 1, 5, 1, 2, 1]
    inside = [4, 2, 2, 2, 7, 2, 3, 7, 2, 3, 3, 3, 4, 3, 4, 4, 4, 3, 7, 7]
    inside += [3, 2, 2, 2, 7, 3, 4, 2, 3, 7, 7, 7, 4, 4, 4, 4, 2, 2, 4, 4]
    long = [unit * k for k in inputs], [unit * k for k in inside]
    is_good_in_all((*long, 33 * unit, 34), (*long, 26 * unit - 1, None))
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS


def earliest_last_start(inputs, inside, budget):
    kept = {0: inputs[0]}
    for end in range(1, len(inputs)):
        ways = [size for start, size in kept.items() if size + sum(inside[start:end]) <= budget]
        if ways:
            kept[end] = min(ways) + inputs[end]
    fitting = (start for start, size in kept.items() if size + sum(inside[start:]) <= budget)
    return min(fitting, default=None)


with check.property("60 blocks of all sizes, several budgets"):
    inputs = [1, 1, 5, 1, 5, 9, 1, 5, 1, 5, 5, 1, 2, 9, 5, 1, 1, 1, 1, 1]
    inputs += [2, 1, 2, 1, 9, 2, 2, 9, 1, 9, 9, 1, 9, 5, 5, 9, 9, 1, 2, 5]
    inputs += [2, 5, 9, 9, 2, 2, 5, 1, 2, 5, 5, 1, 5, 9, 2, 1, 2, 2, 2, 1]
    inside = [3, 7, 4, 7, 4, 3, 2, 2, 7, 7, 2, 4, 2, 4, 4, 7, 4, 7, 2, 7]
    inside += [2, 4, 7, 3, 4, 2, 7, 2, 3, 2, 2, 4, 3, 2, 4, 2, 7, 4, 2, 2]
    inside += [2, 7, 2, 3, 2, 4, 7, 7, 4, 2, 3, 7, 2, 2, 3, 3, 3, 3, 4, 7]
    long = [unit * k for k in inputs], [unit * k for k in inside]
    for budget in (29, 30, 33, 73, 235):
        is_good(*long, budget * unit, earliest_last_start(*long, budget * unit))
with check.property("one byte too little, and a block that is larger than all others"):
    inside = [unit, unit, 30 * unit, unit, unit]
    is_good_in_all(
        by_trying(5 * [unit], inside, 33 * unit),
        by_trying(5 * [unit], inside, 33 * unit - 1),
        by_trying([3 * unit, unit, unit, unit], [unit, 9 * unit, unit, 9 * unit], 14 * unit),
    )
### END HIDDEN TESTS
check.score()

# %% [markdown]
"""
## What recomputation costs

The forward pass of a linear layer takes one matrix product. The backward pass takes two, one each for the gradients with respect to the input and the weight. So a step takes three products per layer, or four if the layer runs twice:
a third more. With frozen weights, a step takes two products per layer, and recomputation makes it three: 50% more.
"""


# %% folded="Measure: products of a step"
class CountProducts(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += func.overloadpacket.__name__ in ("mm", "addmm")
        return func(*args, **(kwargs or {}))


def products_of_a_step(blocks, x, starts):
    with CountProducts() as products:
        run_in_segments(blocks, x, starts).sum().backward()
    return products.count


many_blocks = make_blocks(COUNT)
x = torch.randn(ROWS, WIDTH, requires_grad=True)
for trained in (True, False):
    many_blocks.requires_grad_(trained)
    print("all weights trained:" if trained else "all weights frozen:")
    plain_products = products_of_a_step(many_blocks, x, [0])
    for k in (1, 2, 6, 36):
        products = products_of_a_step(many_blocks, x, equal_segments(COUNT, k))
        more = products / plain_products
        print(f"  k = {k:>2}: {products:>3} products, {more:.2f} times as many as a plain step")

# %% tags=["nbval-ignore-output"] folded="Measure: products and time, by segments"
large = torch.nn.Sequential(
    *(torch.nn.Sequential(torch.nn.Linear(384, 384), torch.nn.Tanh()) for _ in range(12))
)
large_x = torch.randn(256, 384)


def timed_step(segments):
    run_in_segments(large, large_x, equal_segments(12, segments)).sum().backward()


plain_products = products_of_a_step(large, large_x, [0])
for k in (3, 12):
    more = products_of_a_step(large, large_x, equal_segments(12, k)) / plain_products
    longer = time_ratio(partial(timed_step, k), partial(timed_step, 1), pairs=5)
    print(f"12 blocks in {k:>2} segments: {more:.2f} times the products, {longer} the time")

# %% [markdown]
"""
The Tanh takes time, and so does checkpointing itself. Whether a larger batch, which now fits, makes up for this cost depends on the machine, so measure.

## A whole model in one table

Activations are one of four things that training keeps in memory. The example is a small language model: an embedding, four of the transformer blocks above, and an output layer over a vocabulary of 2,000 tokens. In float32, the model takes an Adam step on 8 × 128 random tokens; only the last printed line uses bfloat16 autocast.
"""


# %% folded="A small language model"
class LanguageModel(torch.nn.Module):
    def __init__(self, words=2000, width=128, depth=4):
        super().__init__()
        self.embedding = torch.nn.Embedding(words, width)
        self.blocks = torch.nn.ModuleList(Block(width, 4) for _ in range(depth))
        self.head = torch.nn.Linear(width, words)

    def forward(self, tokens, wrap=False):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if wrap else block(x)
        return functional.cross_entropy(self.head(x).flatten(0, 1), tokens.flatten())


# %% folded="Measure: what training keeps in memory"
torch.manual_seed(0)
model, tokens = LanguageModel(), torch.randint(2000, (8, 128))
adam = torch.optim.Adam(model.parameters())
model(tokens).backward()
adam.step()
states = [t for state in adam.state.values() for t in state.values() if t.dim() > 0]
MB = {
    "parameters": sum(p.nbytes for p in model.parameters()) / 1e6,
    "gradients": sum(p.grad.nbytes for p in model.parameters()) / 1e6,
    "Adam's state": sum(t.nbytes for t in states) / 1e6,
}
activations = {
    wrap: saved_bytes(lambda w=wrap: model(tokens, w), except_for=model.parameters()).bytes / 1e6
    for wrap in (False, True)
}
with torch.autocast("cpu", dtype=torch.bfloat16):
    in_16_bits = saved_bytes(lambda: model(tokens), except_for=model.parameters()).bytes / 1e6
one_input = torch.randn(8, 128, 128, requires_grad=True)
one_block = model.blocks[0]
inside = saved_bytes(
    lambda: one_block(one_input), except_for=[*one_block.parameters(), one_input]
).bytes
for name, size in MB.items():
    print(f"{name:<34}{size:5.1f} MB")
print(f"{'activations, no checkpoint':<34}{activations[False]:5.1f} MB")
print(f"{'activations, each block wrapped':<34}{activations[True]:5.1f} MB")
print(f"{'and one recomputed block':<34}{inside / 1e6:5.1f} MB")
print(f"{'activations, bfloat16 autocast':<34}{in_16_bits:5.1f} MB")

# %% folded="Figure 6.9: memory of a small language model"
figure, axes = new_figure(height=2.9)
for place, wrap in enumerate((False, True)):
    left = 0
    parts = {**MB, "activations": activations[wrap], "one recomputed block": wrap * inside / 1e6}
    colors = ("blue", "green", "orange", "vermilion", "black")
    for (name, size), color in zip(parts.items(), colors, strict=True):
        axes.barh(
            place, size, left=left, color=COLORS[color], height=0.5, label=name if wrap else ""
        )
        left += size
axes.set_yticks([0, 1], ["no checkpoint", "each block\nwrapped"])
axes.invert_yaxis()
axes.set(title="What a training step holds in memory", xlabel="MB", ylabel="", ylim=(1.5, -1.4))
axes.legend(ncols=3, loc="upper center", fontsize=9)
axes.grid(False, axis="y")
axes.set_ylabel("run")
show(
    figure,
    number="6.9",
    caption="Checkpointing reduces only the activations. Most of those that remain are the log-probabilities that the loss saves. The parts are not all in memory at the same time.",
    alt="Two stacked bars. In both, parameters take about 5 MB, gradients 5 MB and Adam's state 10 MB. Activations take about 42 MB without a checkpoint "
    "and 11 MB with each block wrapped; one recomputed block takes 8 MB.",
)

# %% [markdown]
"""
Explicit attention computes the attention weights as a softmax of a matrix product and saves them: one number per head for each pair of tokens. (Each head runs attention on its own part of the width.) The blocks above use the fused operation `scaled_dot_product_attention`, which computes the same result
up to rounding and recomputes the weights in its backward pass.
"""


# %%
def saved_by_attention(length, fused, heads=4, size=32):
    q, k, v = (torch.randn(1, heads, length, size, requires_grad=True) for _ in range(3))

    def attend():
        if fused:
            return functional.scaled_dot_product_attention(q, k, v)
        return torch.softmax(q @ k.transpose(-1, -2) / size**0.5, dim=-1) @ v

    return saved_bytes(attend, except_for=[q, k, v]).bytes / 1e6


lengths = (128, 256, 512, 1024)
explicit, fused = ([saved_by_attention(n, f) for n in lengths] for f in (False, True))

# %% folded="Predict: what explicit attention saves"
predict(
    "06/attention",
    "With 4 heads of size 32 and 1024 tokens, explicit attention saves how many times as many bytes as the fused operation?",
    explicit[-1] / fused[-1],
    "Explicit attention saves 1024 × 1024 weights per head. The fused operation saves its result, 1024 × 32 numbers per head, and one more number per head and token.",
    between=(1, 100),
    unit="times",
)

# %% folded="Figure 6.10: what attention saves"
figure, axes = new_figure(height=2.9)
axes.plot(lengths, explicit, "o-", color=COLORS["vermilion"], label="explicit attention")
axes.plot(lengths, fused, "s-", color=COLORS["blue"], label="scaled_dot_product_attention")
axes.set_xscale("log", base=2)
axes.set_yscale("log")
axes.set_xticks(lengths, [str(n) for n in lengths])
axes.set(title="Bytes that attention saves", xlabel="tokens", ylabel="MB")
axes.legend()
show(
    figure,
    number="6.10",
    caption="Bytes saved by attention with 4 heads of size 32, excluding inputs. They grow with the square of the length in explicit attention, and linearly in the fused operation.",
    alt="Saved MB on logarithmic axes. Explicit attention rises from 0.26 MB at 128 tokens to 16.8 MB at 1024, the fused operation from 0.07 to 0.54 MB.",
)
print(f"1024 tokens: explicit {explicit[-1]:.1f} MB, fused {fused[-1]:.2f} MB")

# %% [markdown]
r"""
## BatchNorm counts a batch twice

Recomputation causes trouble in a layer that *records something* when it runs. In training mode, BatchNorm moves its running mean and variance $r$ toward the batch's statistics $s$, $r \leftarrow (1-m)\,r + m\,s$ with momentum $m$, and counts its batches. Inside a checkpointed block, it does both twice.
"""

# %% folded="Measure: running statistics with a checkpoint"
norm_block = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))
start = {name: value.clone() for name, value in norm_block.state_dict().items()}
draw = torch.Generator().manual_seed(0)
batches = [torch.randn(16, 4, generator=draw) + 2 for _ in range(30)]
traces, counts = {}, {}
for name in ("plain", "checkpointed"):
    norm_block.load_state_dict(start)
    traces[name] = []
    for x in batches:
        run = (
            norm_block if name == "plain" else partial(checkpoint, norm_block, use_reentrant=False)
        )
        run(x).square().sum().backward()
        traces[name].append(norm_block[1].running_mean[0].item())
    counts[name] = norm_block[1].num_batches_tracked.item()
print("batches counted in 30 steps:", counts)
first = traces["checkpointed"][0] / traces["plain"][0]
print(f"first step: {first:.2f} times as far; 1 - (1 - 0.1)² = {1 - 0.9**2:.2f} against 0.10")

# %% folded="Figure 6.11: a running mean with a checkpoint"
figure, axes = new_figure(height=2.7)
for (name, trace), color in zip(traces.items(), ("blue", "vermilion"), strict=True):
    axes.plot(range(1, 31), trace, "o-", markersize=3, color=COLORS[color], label=name)
axes.set(title="Running mean of one channel", xlabel="training step", ylabel="running mean")
axes.legend()
show(
    figure,
    number="6.11",
    caption="Over the same 30 batches, the running mean moves toward the batches' means almost twice as fast with a checkpoint.",
    alt="Two curves over 30 steps, plain and checkpointed. The checkpointed one approaches its level about twice as fast.",
)

# %% [markdown]
r"""
The loss and the gradients are right, because in training mode BatchNorm uses the batch's own statistics. Evaluation changes, because it uses the running statistics ([PyTorch issue 96136](https://github.com/pytorch/pytorch/issues/96136)).
Setting `track_running_stats` to False during the second run is no remedy: in training mode, BatchNorm then saves fewer tensors, which `checkpoint` reports as an error, while InstanceNorm still updates its statistics.

To tell the two runs apart, pass `checkpoint` a `context_fn`, a function that returns two context managers, one for each run:
"""


# %%
@contextlib.contextmanager
def announced(text):
    print("  before", text)
    try:
        yield
    finally:
        print("  after", text)


# %%
x = torch.ones(3, requires_grad=True)
both = announced("the first run"), announced("the second run")
output = checkpoint(torch.sin, x, use_reentrant=False, context_fn=lambda: both)
print("backward pass")
output.sum().backward()

# %% [markdown]
"""
`try` and `finally` are necessary. By default, `checkpoint` stops the second run once it has the last tensor it needs (**early stop**): it raises an exception that passes through your context manager and is caught outside. Code after a bare `yield` would not run.
"""

# %% [markdown] exercise="checkpoint-batch-norm" points=4 minutes=25 difficulty=2
"""
### A second run that leaves no trace

A network with BatchNorm can use checkpointing if the second run does not change the statistics. Write a checkpoint function that guarantees this.

`checkpoint_once(block, x) -> Tensor`

- **In** `block`: a module. At any depth, it may contain dropout, InstanceNorms with running statistics, and BatchNorms with any momentum (including None), each 1d, 2d or 3d. Block and layers may each be in training or evaluation mode, the same in both passes. `x`: a tensor, with or without `requires_grad`.
- **Out**: `block(x)`, computed once. In the backward pass, the block runs once more, and the gradients are those of a step without checkpointing. After the backward pass, all running statistics and counters, which are buffers of these norms, have the values that such a step would leave, even if the block is used several times, on different data, before the backward pass.
- The layers' modes and settings stay as they were, and so does `x`, including its `requires_grad`. The next step must be correct, too.
- **Limits**: `torch.utils.checkpoint` is allowed.

As before, the check changes a number in a layer between the passes. After `checkpoint_once(block, x).sum().backward()` with a fresh block, the counter `num_batches_tracked` of each BatchNorm in training mode is `1`, not `2`.

<!-- hint: Is it easier to keep BatchNorm from writing in the second run, or to undo what it wrote? Which of the two works for every kind of layer that has buffers? -->
<!-- hint: A context manager around the second run alone can copy all buffers of the block before it, and put their values back after it. -->
<!-- hint: `block.buffers()` lists them; keep a `clone()` of each, `yield` inside try, and in finally `copy_` the clones into the buffers. `context_fn` returns `contextlib.nullcontext()` for the first run and yours for the second. -->
"""


# %% solution="checkpoint-batch-norm"
def checkpoint_once(block, x):
    """Return ``block(x)``, checkpointed; the second run leaves the block's buffers alone."""

    ### BEGIN SOLUTION
    @contextlib.contextmanager
    def leaving_no_trace():
        before = [buffer.clone() for buffer in block.buffers()]
        try:
            yield
        finally:
            for buffer, value in zip(block.buffers(), before, strict=True):
                buffer.copy_(value)

    return checkpoint(
        block,
        x,
        use_reentrant=False,
        context_fn=lambda: (contextlib.nullcontext(), leaving_no_trace()),
    )
    ### END SOLUTION


# %% test="checkpoint-batch-norm"
check = Check("checkpoint-batch-norm")


class Residual(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return x + self.inner(x)


def in_norm_block(layers, *inputs, **options):
    return check.call(probes.forward_and_backward, checkpoint_once, layers, *inputs, **options)


def draw_norm(name, features):
    return {
        f"{name}.weight": check.draw.uniform(features, low=0.5, high=2.0),
        f"{name}.bias": check.draw.normal(features),
        f"{name}.running_mean": check.draw.normal(features, mean=1.0),
        f"{name}.running_var": check.draw.uniform(features, low=0.5, high=3.0),
        f"{name}.num_batches_tracked": torch.tensor(check.draw.integer(2, 6)),
    }


def plain_steps(block, state, x, grad_output, dial_positions, steps=1, *, fading=1.0, seed=0):
    """Return the state after plain steps, the output, and the gradients that second runs give.

    After each step, x is multiplied by ``fading``; the seed is the same for both runs.
    """
    data = [x * fading**step for step in range(steps)]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        block.load_state_dict(state)
        for batch in data:
            output = block(batch).sin().square() * dial_positions[0]
        after = {name: value.clone() for name, value in block.state_dict().items()}
        torch.manual_seed(seed)
        block.load_state_dict(state)
        slopes = []
        for batch in data:
            leaf = batch.clone().requires_grad_(True)
            again = block(leaf).sin().square() * dial_positions[1]
            leaves = [leaf, *block.parameters()]
            slopes.append(torch.autograd.grad(again, leaves, grad_output))
    by_input, *by_weight = (sum(each) for each in zip(*slopes, strict=True))
    names = [name for name, _ in block.named_parameters()]
    return after, output.detach(), by_input, dict(zip(names, by_weight, strict=True))


def same_step(got, expected, *, by_input=True, what="", positions=None):
    _, output, slope, slopes = expected
    check.close(got["output"], output, rtol=1e-4, atol=1e-5, what=f"{what}the output")
    gradient = f"{what}the gradient with respect to"
    found = got["gradients"][0] if positions else None
    if isinstance(found, torch.Tensor) and found.shape == slope.shape:
        of_first_run = slope * positions[0] / positions[1]
        is_old = (found - of_first_run).norm() < 0.01 * of_first_run.norm()
        check.true(
            not is_old, f"{gradient} x is that of the first run: the block does not run again"
        )
    if by_input:
        check.close(got["gradients"][0], slope, rtol=1e-3, atol=1e-4, what=f"{gradient} x")
    for name, value in slopes.items():
        close = {"rtol": 1e-3, "atol": 1e-3}
        check.close(got["parameters"][name], value, **close, what=f"{gradient} {name}")


def same_buffers(got, expected, what=""):
    # The count first: it says best whether a batch was counted twice.
    for name, value in sorted(expected[0].items(), key=lambda item: "num_batches" not in item[0]):
        if "running" in name or "num_batches" in name:
            check.close(got["state"][name], value, rtol=1e-5, atol=1e-6, what=f"{what}{name}")


def same_settings(got, block, what=""):
    for name, part in block.named_modules():
        kind, was, found = type(part).__name__, part.extra_repr(), got["settings"][name]
        told = f"{what}a layer's settings have changed from {kind}({was}) to {kind}({found})"
        check.true(found == was, told)
        mode = "training" if got["modes"][name] else "evaluation"
        told = f"{what}afterward, the {kind} is in {mode} mode, but was not before"
        check.true(got["modes"][name] == part.training, told)


def draw_rows(width=4, result=6, mean=0.0):
    rows = check.draw.integer(8, 20)
    return check.draw.normal(rows, width, mean=mean), check.draw.normal(rows, result)


def linear_and_norm(momentum=0.1, dropout=False):
    """Return a block, the same as a list for the probe, with a dial after it, and a state."""
    block = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.BatchNorm1d(6, 1e-3, momentum))
    layers = [["Linear", 4, 6], ["BatchNorm1d", 6, 1e-3, momentum]]
    if dropout:
        block.append(torch.nn.Dropout(0.3))
        layers.append(["Dropout", 0.3])
    layers.append(["Dial"])
    state = {"0.weight": check.draw.normal(6, 4), "0.bias": check.draw.normal(6)}
    return block, layers, state | draw_norm("1", 6)


def two_norms():
    norm = torch.nn.BatchNorm1d(5, momentum=0.3)
    inner = torch.nn.Sequential(norm, torch.nn.Tanh(), torch.nn.Linear(5, 3))
    deep = Residual(torch.nn.Sequential(Residual(torch.nn.BatchNorm1d(3))))
    block = torch.nn.Sequential(torch.nn.Linear(7, 5), inner, deep)
    layers = [["Linear", 7, 5], [["BatchNorm1d", 5, 1e-5, 0.3], ["Tanh"], ["Linear", 5, 3]]]
    layers += [["Residual", [["Residual", ["BatchNorm1d", 3]]]], ["Dial"]]
    state = {"0.weight": check.draw.normal(5, 7), "0.bias": check.draw.normal(5)}
    state |= {"1.2.weight": check.draw.normal(3, 5), "1.2.bias": check.draw.normal(3)}
    return block, layers, state | draw_norm("1.0", 5) | draw_norm("2.inner.0.inner", 3)


def convolution_and_norm(momentum, kind="BatchNorm", dimensions=2):
    has_weights = kind == "BatchNorm"  # InstanceNorms have none by default
    layers = [[f"Conv{dimensions}d", 2, 3, 3]]
    layers += [[f"{kind}{dimensions}d", 3, 1e-5, momentum, has_weights, True]]
    block = torch.nn.Sequential(*(getattr(torch.nn, name)(*given) for name, *given in layers))
    weight = check.draw.normal(3, 2 * 3**dimensions).reshape(3, 2, *dimensions * [3])
    state = {"0.weight": weight, "0.bias": check.draw.normal(3)} | draw_norm("1", 3)
    return block, [*layers, ["Dial"]], {name: state[name] for name in block.state_dict()}


def draw_pictures(dimensions=2):
    sizes = (11, 5, 6)[:dimensions]
    inner = [size - 2 for size in sizes]
    grad_output = check.draw.normal(4, 3 * math.prod(inner)).reshape(4, 3, *inner)
    return check.draw.normal(4, 2, *sizes), grad_output


with check.property("the right output, and the gradients of a second run"):
    block, layers, state = linear_and_norm()
    x, grad_output = draw_rows()
    positions = (1.0, check.draw.number(2.0, 3.0))
    expected = plain_steps(block, state, x, grad_output, positions)
    got = in_norm_block(layers, x, state=state, grad_output=grad_output, dial_positions=positions)
    same_step(got, expected, positions=positions)
    block, layers, state = linear_and_norm(dropout=True)
    options = {"dial_positions": positions, "seed": check.draw.integer(0, 1_000_000)}
    expected = plain_steps(block, state, x, grad_output, **options)
    got = in_norm_block(layers, x, state=state, grad_output=grad_output, **options)
    same_step(got, expected, what="with dropout inside, ")
with check.property("the running statistics move once", weight=2):
    block, layers, state = linear_and_norm()
    x, grad_output = draw_rows(mean=3.0)
    expected = plain_steps(block, state, x, grad_output, (1.0, 2.0))
    got = in_norm_block(layers, x, state=state, grad_output=grad_output, dial_positions=(1.0, 2.0))
    for name in ("1.running_mean", "1.running_var"):
        check.close(got["state"][name], expected[0][name], rtol=1e-5, atol=1e-6, what=name)
    same_step(got, expected)
with check.property("each batch is counted once, even if the momentum is None"):
    block, layers, state = linear_and_norm(momentum=None)
    x, grad_output = draw_rows(mean=-2.0)
    options = {"dial_positions": (1.0, 2.0), "steps": 2}
    expected = plain_steps(block, state, x, grad_output, **options)
    got = in_norm_block(layers, x, state=state, grad_output=grad_output, **options)
    same_buffers(got, expected)
    same_step(got, expected)
with check.property(
    "the block is used twice or more before the backward pass, and each use runs it twice in all"
):
    block, layers, state = linear_and_norm()
    x, grad_output = draw_rows(mean=2.0)
    expected = plain_steps(block, state, x, grad_output, (1.0, 2.0), steps=2)
    got = in_norm_block(
        layers, x, state=state, grad_output=grad_output, dial_positions=(1.0, 2.0), uses=2
    )
    same_buffers(got, expected)
    same_step(got, expected)
    told = f"a block used twice has run {got['runs']} times, counting both passes, instead of 4"
    check.true(got["runs"] <= 4, told)  # Fewer are counted if a copy of the block runs.
    # Each use has other data: the statistics depend on the order.
    options = {"state": state, "grad_output": grad_output, "dial_positions": (1.0, 2.0)}
    expected = plain_steps(block, state, x, grad_output, (1.0, 2.0), steps=3, fading=0.5)
    got = in_norm_block(layers, x, uses=3, growing=0.5, with_respect_to=(), **options)
    same_buffers(got, expected, what="used three times, on different data: ")
    same_step(got, expected, by_input=False, what="used three times, on different data: ")
with check.property(
    "BatchNorms at any depth, also in modules of other kinds, each with its own momentum; two steps",
    weight=2,
):
    block, layers, state = two_norms()
    x, grad_output = draw_rows(7, 3)
    options = {"dial_positions": (1.0, 2.0), "steps": 2}
    expected = plain_steps(block, state, x, grad_output, **options)
    got = in_norm_block(layers, x, state=state, grad_output=grad_output, **options)
    same_buffers(got, expected)
    same_step(got, expected)
with check.property(
    "in eval mode, the statistics do not change; in both modes, all settings stay the same",
    weight=0.5,
):
    block, layers, state = linear_and_norm(dropout=True)
    x, grad_output = draw_rows()
    got = in_norm_block(layers, x, state=state, grad_output=grad_output)
    same_settings(got, block)
    options = {"dial_positions": (1.0, 2.5), "steps": 2}
    expected = plain_steps(block.eval(), state, x, grad_output, **options)
    got = in_norm_block(layers, x, state=state, grad_output=grad_output, training=False, **options)
    same_buffers(got, expected)
    same_step(got, expected)
    same_settings(got, block)
    what = "a BatchNorm in eval mode inside a block in training mode: "
    block, layers, state = two_norms()
    block[1][0].eval()
    x, grad_output = draw_rows(7, 3)
    expected = plain_steps(block, state, x, grad_output, **options)
    got = in_norm_block(
        layers, x, state=state, grad_output=grad_output, in_eval=("1.0",), **options
    )
    same_buffers(got, expected, what=what)
    same_step(got, expected, what=what)
    same_settings(got, block, what=what)
    what = "a BatchNorm in training mode inside a block in evaluation mode: "
    block.eval()[1][0].train()
    expected = plain_steps(block, state, x, grad_output, **options)
    options |= {"state": state, "grad_output": grad_output}
    got = in_norm_block(layers, x, training=False, in_training=("1.0",), **options)
    same_buffers(got, expected, what=what)
    same_step(got, expected, what=what)
    same_settings(got, block, what=what)
with check.property("images, volumes, and data that need no gradient", weight=0.5):
    # Between the steps, the data change in place: only those can that require no gradient.
    options = {"dial_positions": (1.0, 2.0), "steps": 2, "fading": 0.5}
    for dimensions, what in ((2, ""), (3, "with volumes, ")):
        block, layers, state = convolution_and_norm(momentum=0.3, dimensions=dimensions)
        x, grad_output = draw_pictures(dimensions)
        expected = plain_steps(block, state, x, grad_output, **options)
        got = in_norm_block(
            layers, x, state=state, grad_output=grad_output, with_respect_to=(), **options
        )
        told = "x requires a gradient after the call, but did not before"
        check.true(not got["others"][0]["requires_grad"], told)
        same_buffers(got, expected, what=what)
        same_step(got, expected, by_input=False, what=what)
with check.property(
    "the running statistics of an InstanceNorm move once, too, and not at all in eval mode"
):
    for dimensions, in_eval in ((1, False), (2, False), (3, False), (2, True)):
        block, layers, state = convolution_and_norm(0.3, "InstanceNorm", dimensions)
        block[1].train(not in_eval)
        x, grad_output = draw_pictures(dimensions)
        expected = plain_steps(block, state, x, grad_output, (1.0, 2.0))
        options = {"dial_positions": (1.0, 2.0), "in_eval": ("1",) if in_eval else ()}
        got = in_norm_block(layers, x, state=state, grad_output=grad_output, **options)
        what = f"an InstanceNorm{dimensions}d in {'eval' if in_eval else 'training'} mode: "
        same_buffers(got, expected, what=what)
        same_step(got, expected, what=what)
        same_settings(got, block, what=what)
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("images, a momentum of None, used twice in two steps", weight=0.5):
    block, layers, state = convolution_and_norm(momentum=None)
    x, grad_output = draw_pictures()
    options = {"dial_positions": (1.0, 2.5), "steps": 2}
    expected = plain_steps(block, state, x, grad_output, (1.0, 2.5), steps=4)
    got = in_norm_block(layers, x, state=state, grad_output=grad_output, uses=2, **options)
    same_buffers(got, expected)
    same_step(got, expected)
with check.property("in eval mode, with data that need no gradient", weight=0.5):
    block, layers, state = convolution_and_norm(momentum=0.2)
    x, grad_output = draw_pictures()
    expected = plain_steps(block.eval(), state, x, grad_output, (1.0, 1.5))
    options = {"dial_positions": (1.0, 1.5), "training": False, "with_respect_to": ()}
    got = in_norm_block(layers, x, state=state, grad_output=grad_output, **options)
    same_buffers(got, expected)
    same_step(got, expected, by_input=False)
### END HIDDEN TESTS
check.score()

# %% [markdown]
r"""
<details><summary>A workaround, and what it leaves wrong (open it when yours works)</summary>

Two updates with momentum $m'$ and the same batch equal one update with momentum $1 - (1-m')^2$. So $m' = 1 - \sqrt{1 - m}$ repairs the mean and the variance up to rounding, as in
[pytorch-pfn-extras](https://github.com/pfnet/pytorch-pfn-extras/pull/117). The counter is still wrong, and without a backward pass, the statistics move too little.
[fairscale](https://github.com/facebookresearch/fairscale)'s `patch_batchnorm` updates the statistics in the second run only.
</details>

## Two kinds of checkpoint

`use_reentrant` chooses between two implementations. The older, **reentrant** one is an autograd function whose `backward` method calls `torch.autograd.backward`. The newer one uses saved-tensor hooks:
in the forward pass, `pack` replaces each tensor with a placeholder; in the backward pass, the first `unpack` runs the block again, and each `unpack` returns the recomputed tensor for its placeholder. The two kinds differ in these four cases:
"""


# %% folded="Four questions for both kinds"
def outcome(action):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return action()
    except RuntimeError as error:
        return f"{type(error).__name__}"


def weights_learn_from_data(use_reentrant):
    layer = torch.nn.Linear(3, 3)
    output = checkpoint(layer, torch.ones(2, 3), use_reentrant=use_reentrant)
    return "yes" if output.requires_grad else "NO: the output requires no gradient"


def grad_by_weights(use_reentrant):
    layer, x = torch.nn.Linear(3, 3), torch.ones(2, 3, requires_grad=True)
    output = checkpoint(layer, x, use_reentrant=use_reentrant).sum()
    torch.autograd.grad(output, layer.weight)
    return "yes"


def keywords(use_reentrant):
    x = torch.ones(2, 3, requires_grad=True)
    try:
        checkpoint(torch.softmax, x, dim=1, use_reentrant=use_reentrant)
        return "yes"
    except ValueError:
        return "no: ValueError"


def second_run_that_differs(use_reentrant):
    calls = []

    def changing(x):
        calls.append(x)
        return x.sin().sin() if len(calls) == 1 else x.sin()

    x = torch.ones(3, requires_grad=True)
    checkpoint(changing, x, use_reentrant=use_reentrant).sum().backward()
    true_gradient = torch.ones(3).sin().cos() * torch.ones(3).cos()
    return "yes" if torch.allclose(x.grad, true_gradient) else "NO: a wrong gradient, silently"


QUESTIONS = {
    "weights learn if the data need no gradient": weights_learn_from_data,
    "autograd.grad with respect to a weight inside": grad_by_weights,
    "keyword arguments": keywords,
    "a second run that does less is noticed": second_run_that_differs,
}
print(f"{'':<48}{'reentrant':<36}not reentrant")
for question, ask in QUESTIONS.items():
    print(f"{question:<48}{outcome(lambda a=ask: a(True)):<36}{outcome(lambda a=ask: a(False))}")

# %% [markdown]
"""
In the first case, no tensor argument of the autograd function requires a gradient, so neither does its output. The wrapped
block is **not trained at all**, while the rest of the network learns and the loss falls. PyTorch warns once ("None of the inputs have requires_grad=True"). This happened to
[OpenCLIP](https://github.com/mlfoundations/open_clip/issues/573), and it also happens when all layers before the block are frozen
([transformers issue 21381](https://github.com/huggingface/transformers/issues/21381)).

In the fourth case, only the newer kind notices that tensors are missing. Write `use_reentrant=False` explicitly; PyTorch warns if you omit it.

## Between all and nothing

**Selective checkpointing** keeps the results of some operations in a block and recomputes the others. A policy function decides operation by operation. The one below keeps matrix products, which are expensive, and recomputes GELU and Tanh, which are cheap:
"""


# %%
def keep_products(ctx, operation, *args, **kwargs):
    if operation == torch.ops.aten.addmm.default:
        return checkpoint_module.CheckpointPolicy.MUST_SAVE
    return checkpoint_module.CheckpointPolicy.PREFER_RECOMPUTE


def selective():
    return checkpoint_module.create_selective_checkpoint_contexts(keep_products)


# %% folded="Measure: bytes and products of three kinds of step"
wide = torch.nn.Sequential(
    torch.nn.Linear(64, 256),
    torch.nn.GELU(),
    torch.nn.Linear(256, 256),
    torch.nn.GELU(),
    torch.nn.Linear(256, 64),
    torch.nn.Tanh(),
)
x = torch.randn(256, 64, requires_grad=True)
RUNS = {
    "no checkpoint": wide,
    "checkpointed": partial(checkpoint, wide, use_reentrant=False),
    "selective": partial(checkpoint, wide, use_reentrant=False, context_fn=selective),
}
if not hasattr(checkpoint_module, "create_selective_checkpoint_contexts"):
    del RUNS["selective"]
    print(f"torch {torch.__version__} has no selective checkpointing: a newer version is needed")
for name, run in RUNS.items():
    with LiveBytes() as live, CountProducts() as products:
        output = run(x)
        kept = live.now
        output.sum().backward()
    print(f"{name:<14} kept: {kept / 1024:5.0f} KiB, products in the step: {products.count}")

# %% [markdown]
"""
For attention, [Korthikanti et al. (2022)](https://arxiv.org/abs/2205.05198) recompute even
matrix products, because the attention weights are large but cheap to recompute.

`torch.compile` makes such a choice automatically. Its activation memory budget is a fraction: 1 keeps what the compiler would keep anyway, and 0 checkpoints the whole compiled region
([PyTorch blog, 2025](https://pytorch.org/blog/activation-checkpointing-techniques/)).
"""

# %% folded="Measure: torch.compile with a memory budget"
import torch._functorch.config as functorch_config

if hasattr(functorch_config, "activation_memory_budget"):
    for budget in (1.0, 0.5, 0.0):
        torch._dynamo.reset()
        with functorch_config.patch(activation_memory_budget=budget):
            # This backend divides the work between the passes as the default one does, without generating code.
            compiled = torch.compile(wide, backend="aot_eager_decomp_partition")
            compiled(x)  # compiles, before anything is counted
            saved = saved_bytes(lambda run=compiled: run(x), except_for=[*wide.parameters(), x])
        print(f"budget {budget:.1f}: {saved.bytes / 1024:5.0f} KiB saved")

# %% [markdown]
"""
### Offloading

`pack` may return *anything*, so saved tensors can be kept elsewhere (**offloading**). `torch.autograd.graph.save_on_cpu(pin_memory=True)` moves them from a GPU to CPU memory. Storing them in files or in lower precision takes a few lines:
"""


# %%
def to_files(folder):
    def pack(tensor):
        path = Path(folder) / f"{len(list(Path(folder).iterdir()))}.pt"
        torch.save(tensor.detach(), path)
        return path

    return pack, lambda path: torch.load(path, weights_only=True)


def to_bfloat16():
    return (lambda tensor: tensor.detach().bfloat16()), (lambda tensor: tensor.float())


# %% folded="Measure: saved tensors in files and in bfloat16"
def gradient_with(hooks):
    """Return the bytes kept after the forward pass, and the gradient with respect to the input."""
    leaf = x.detach().clone().requires_grad_(True)
    with LiveBytes() as live:
        with hooks:
            output = wide(leaf)
        kept = live.now
        output.square().sum().backward()
    return kept, leaf.grad


Hooks = torch.autograd.graph.saved_tensors_hooks
kept, true_gradient = gradient_with(contextlib.nullcontext())
print(f"{'in memory':<12} kept: {kept / 1024:5.0f} KiB")
with tempfile.TemporaryDirectory() as folder:
    kept, gradient = gradient_with(Hooks(*to_files(folder)))
same = torch.equal(gradient, true_gradient)
print(f"{'in files':<12} kept: {kept / 1024:5.0f} KiB, same gradient: {same}")
kept, gradient = gradient_with(Hooks(*to_bfloat16()))
error = ((gradient - true_gradient).norm() / true_gradient.norm()).item()
print(
    f"{'in bfloat16':<12} kept: {kept / 1024:5.0f} KiB, error of the gradient: {100 * error:.1f}%"
)

# %% [markdown]
"""
Offloading preserves every bit but costs transfer time. Lower precision loses some bits permanently. Here bfloat16 frees less than half, because the hook also copies the input, the weights and the output, whose originals stay in memory.
On a GPU, the next cell measures the peak of the 36 blocks (`torch.cuda.max_memory_allocated`) and what `save_on_cpu` leaves there:
"""

# %% tags=["nbval-ignore-output", "recorded"] folded="Measure: the peak on a GPU, by segments"
if torch.cuda.is_available():
    cuda_blocks = make_blocks(COUNT).cuda()
    # The first matrix product of a thread allocates cuBLAS's workspace: not to be measured.
    run_in_segments(cuda_blocks, torch.randn(ROWS, WIDTH, device="cuda"), [0]).mean().backward()
    cuda_blocks.zero_grad(set_to_none=True)
    for k in (1, 6, 36):
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        data = torch.randn(ROWS, WIDTH, device="cuda")
        run_in_segments(cuda_blocks, data, equal_segments(COUNT, k)).square().mean().backward()
        torch.cuda.synchronize()
        peak = torch.cuda.max_memory_allocated() - before
        cuda_blocks.zero_grad(set_to_none=True)
        del data
        print(f"k = {k:>2}: {peak / UNIT:.1f} tensors of 64 KiB")
    data = torch.randn(ROWS, WIDTH, device="cuda")
    before = torch.cuda.memory_allocated()
    with torch.autograd.graph.save_on_cpu(pin_memory=True):
        output = cuda_blocks(data)
    kept = torch.cuda.memory_allocated() - before
    print(f"save_on_cpu: {kept / UNIT:.1f} tensors stay on the GPU")
else:
    print("no GPU here: nothing to show")
recorded("segments-on-a-card")

# %% [markdown]
"""
## Which method when

The last column below is for data-parallel training, in which each process (**rank**) trains on its share of the batch; DDP copies the model to every rank, and FSDP2 splits it.

| method | use it when | price | in data-parallel training |
| --- | --- | --- | --- |
| smaller batch | training tolerates it | noisier gradient | what matters is the total batch over all ranks |
| accumulation (chapter 05) | the batch size must not change | smaller matrix products; `.grad` stays in memory | DDP: `no_sync()`. FSDP2: `set_requires_gradient_sync(False)`, but each rank then holds full gradients |
| fused attention | texts are long | attention weights are recomputed | no change |
| bfloat16 autocast | activations dominate | 8 significant bits, casts | FSDP2: `MixedPrecisionPolicy` |
| selective checkpointing | cheap operations save a lot | a little recomputation | FSDP2: wrap first, then `fully_shard` |
| checkpointing | activations still dominate | up to a third more products, or 50% more with frozen weights | FSDP2: as above. DDP: no limitations with `use_reentrant=False` |
| offloading | the transfer overlaps with computation | pinned memory | FSDP2's `CPUOffloadPolicy` moves parameters, gradients and optimizer state, not activations |

If parameters, gradients and Adam's state dominate, reducing activations helps little. Shard all three with FSDP2, offload them with `CPUOffloadPolicy`, or choose a smaller model. The last column follows the documentation of
[DDP](https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html) and [FSDP2](https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html); the order of wrapping follows [torchtitan](https://github.com/pytorch/torchtitan).

## Bug hunt: the half-trained network

Each residual block scales its result by a factor of its own, its *share*, and adds the product to its input. The author added checkpointing to use less memory. The first step's loss agrees with that of the old code to the last digit, and no warning appears. Yet training is worse:
"""


# %%
class FromTheWild:
    def shared(self, h):
        return self.share * self.block(h)

    def __call__(self, blocks, x, shares):
        for self.block, self.share in zip(blocks, shares, strict=True):
            x = x + checkpoint(self.shared, x, use_reentrant=False)
        return x


def run_plain(blocks, x, shares):
    for block, share in zip(blocks, shares, strict=True):
        x = x + share * block(x)
    return x


# %% folded="Train both"
SHARES = torch.tensor([1.0, 1.0, 1.0, 0.1])
points = torch.randn(256, WIDTH, generator=torch.Generator().manual_seed(1))
goals = torch.roll(points, 1, dims=1).sin()


def learn(run, steps=60):
    blocks = make_blocks(4)
    optimizer = torch.optim.SGD(blocks.parameters(), lr=3.0)
    losses = []
    for _ in range(steps):
        loss = functional.mse_loss(run(blocks, points, SHARES), goals)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


losses_plain, losses_wild = learn(run_plain), learn(FromTheWild())
print("same loss in the first step:", losses_plain[0] == losses_wild[0])
print(f"loss in the last step: {losses_plain[-1]:.2f} and {losses_wild[-1]:.2f}")

# %% folded="Figure 6.12: two training runs"
figure, axes = new_figure(height=2.7)
axes.plot(range(1, 61), losses_plain, color=COLORS["blue"], label="run_plain")
axes.plot(range(1, 61), losses_wild, color=COLORS["vermilion"], label="FromTheWild")
axes.set(title="One network, two loops", xlabel="training step", ylabel="mean squared error")
axes.legend()
show(
    figure,
    number="6.12",
    caption="Both runs start with the same weights, data and loss, but with the author's code, the loss falls much more slowly.",
    alt="Two loss curves begin at 2.2 and fall. With run_plain, the loss is 0.1 after 60 steps; with FromTheWild, it is still above 0.4.",
)

# %% [markdown] exercise="bug-hunt-shares" points=4 minutes=25 difficulty=2
"""
### Repair the loop

In cells of your own, compare the gradients of `run_plain` and `FromTheWild()` block by block. Then write a loop that trains correctly and still checkpoints every block.

`run_blocks(blocks, x, shares) -> Tensor`

- **In** `blocks`: a `Sequential` of one or more modules, in training or evaluation mode, which may contain dropout. `x`: a tensor, with or without `requires_grad`. `shares`: a float32 tensor with one number for each block, which may be negative or 0.
- **Out**: what `run_plain` returns, with the same gradients with respect to `x`, `shares` and all weights that require them. `x` and `shares` stay as they are, including their `requires_grad`.
- **Each block is checkpointed by itself**: nothing inside is kept, and in the backward pass, the block runs again from its own input and does the same as before.
- **Limits**: `torch.utils.checkpoint` is allowed.

The check changes a number in the blocks between the passes. With shares 1 and 0.5 and two blocks that double their input, `run_blocks(blocks, torch.ones(1, 1), shares)` returns `tensor([[6.]])`: 1 + 2 = 3, then 3 + 0.5 · 6 = 6.

<!-- hint: When does the body of `shared` run, and how often? What do its names refer to each time? -->
<!-- hint: It runs a second time long after the loop has ended. Attributes, like all names in a function, are looked up when it runs. The second run needs the block and the share from the iteration in which the first run happened. -->
<!-- hint: Give `checkpoint` something that reads nothing that the loop changes: the block itself is the function to wrap, and you can multiply by the share outside. -->
"""


# %% solution="bug-hunt-shares"
def run_blocks(blocks, x, shares):
    """Return x after all blocks, each checkpointed, each adding its share times its result."""
    ### BEGIN SOLUTION
    for block, share in zip(blocks, shares, strict=True):
        x = x + share * checkpoint(block, x, use_reentrant=False)
    return x
    ### END SOLUTION


# %% test="bug-hunt-shares"
check = Check("bug-hunt-shares")


def draw_blocks(count, width, inner, tail):
    layers = [
        [["Linear", width, inner], ["Dial"], ["Linear", inner, width], *tail] for _ in range(count)
    ]
    state = {}
    for place in range(count):
        state[f"{place}.0.weight"] = check.draw.normal(inner, width, std=0.7)
        state[f"{place}.0.bias"] = check.draw.normal(inner)
        state[f"{place}.2.weight"] = check.draw.normal(width, inner, std=0.7)
        state[f"{place}.2.bias"] = check.draw.normal(width)
    return layers, state


def block_by_block(state, x, shares, grad_output, positions, masks):
    """Run forward with one position of the dials, and backward with another, each block by itself.

    Returns:
        the output, the gradient with respect to x, those by the shares, and those by the weights' names.
    """

    def run(h, share, weights, mask, position):
        inside = functional.linear(h, *weights[:2]).sin().square() * position
        return h + share * functional.linear(inside, *weights[2:]) * mask

    of_blocks = [
        {name: value for name, value in state.items() if name.startswith(f"{place}.")}
        for place in range(len(shares))
    ]
    turns = list(zip(of_blocks, shares, masks, strict=True))
    inputs = [x]
    for weights, share, mask in turns:
        inputs.append(run(inputs[-1], share, list(weights.values()), mask, positions[0]))
    slope, by_shares, slopes = grad_output, [], {}
    for (weights, share, mask), h in reversed(list(zip(turns, inputs[:-1], strict=True))):
        leaves = [tensor.clone().requires_grad_(True) for tensor in (h, share, *weights.values())]
        again = run(*leaves[:2], leaves[2:], mask, positions[1])
        slope, by_share, *by_weights = torch.autograd.grad(again, leaves, slope)
        by_shares.insert(0, by_share)
        slopes |= dict(zip(weights, by_weights, strict=True))
    return inputs[-1], slope, torch.stack(by_shares), slopes


def draw_masks(count, shape, seed):
    """Return what dropout multiplies with in ``count`` blocks that run one after another."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return [functional.dropout(torch.ones(shape), 0.5) for _ in range(count)]


def goes_through(
    count, width, inner, positions, *, needed=True, dropout=False, training=True, least_share=1
):
    rows = check.draw.integer(7, 20)
    layers, state = draw_blocks(count, width, inner, [["Dropout", 0.5]] if dropout else [])
    shares = (least_share + check.draw.permutation(count)) / (count + 1)
    x, grad_output = check.draw.normal(rows, width), check.draw.normal(rows, width)
    seed = check.draw.integer(0, 1_000_000)
    drops, where = dropout and training, "" if training else "in evaluation mode, "
    where = where if least_share > 0 else "with a negative share and one that is 0, "
    masks = draw_masks(count, x.shape, seed) if drops else [torch.ones(x.shape)] * count
    faded = 0.5 * x, 0.5 * shares
    output, by_x, by_shares, slopes = block_by_block(
        state, x, shares, grad_output, positions, masks
    )
    got = check.call(
        probes.forward_and_backward,
        run_blocks,
        layers,
        x,
        shares,
        state=state,
        grad_output=grad_output,
        with_respect_to=(0, 1) if needed else (),
        dial_positions=positions,
        seed=seed,
        training=training,
        **({} if needed else {"steps": 2, "fading": 0.5}),
    )
    for place, other in got["others"].items():
        told = f"{('x', 'shares')[place]} requires a gradient after the call, but did not before"
        check.true(not other["requires_grad"], told)
    if not needed:
        again = block_by_block(state, *faded, grad_output, positions, masks)
        output, slopes = again[0], {name: slopes[name] + again[3][name] for name in slopes}
    check.close(got["output"], output, rtol=1e-4, atol=1e-4, what=f"{where}the output")
    if needed:
        what = f"{where}the gradient with respect to x"
        _, of_first_run, *_ = block_by_block(
            state, x, shares, grad_output, (positions[0], positions[0]), masks
        )
        found, close = got["gradients"][0], {"rtol": 1e-3, "atol": 1e-3}
        if positions[0] != positions[1] and isinstance(found, torch.Tensor):
            is_old = torch.allclose(found, of_first_run, **close)
            check.true(not is_old, f"{what} is that of the first run: no block runs again")
        check.close(found, by_x, **close, what=what)
    # Where the dials are turned, it depends on whether a share is multiplied inside or outside.
    if needed and positions[0] == positions[1]:
        what = f"{where}the gradient with respect to shares"
        check.close(got["gradients"][1], by_shares, rtol=1e-3, atol=1e-3, what=what)
    for name, value in slopes.items():
        what = f"{where}the gradient with respect to {name}"
        check.close(got["parameters"][name], value, rtol=1e-3, atol=1e-3, what=what)


with check.property("one block, which runs again in the backward pass"):
    goes_through(1, 4, 6, (0.5, check.draw.number(1.5, 2.0)))
with check.property(
    "three blocks with the gradients of a plain run, whatever the signs of the shares", weight=3
):
    goes_through(3, 5, 7, (1.0, 1.0))
    goes_through(3, 4, 6, (1.0, 1.0), least_share=-1)
with check.property("each block runs again in the backward pass, from its own input", weight=2):
    goes_through(3, 5, 4, (0.5, check.draw.number(1.5, 2.0)))
with check.property(
    "dropout drops the same entries in the backward pass, and none in evaluation mode"
):
    goes_through(2, 6, 5, (1.0, check.draw.number(1.5, 2.0)), dropout=True)
    positions = (1.0, check.draw.number(1.5, 2.0))
    goes_through(3, 4, 6, positions, dropout=True, training=False)
with check.property(
    "blocks learn from data that require no gradient and change in place after each step",
    weight=0.5,
):
    goes_through(2, 6, 4, (1.0, 1.5), needed=False)
with check.property("nothing inside a block is kept until the backward pass", weight=0.5):
    rows, inner = check.draw.integer(7, 20), check.draw.integer(350, 450)
    layers, state = draw_blocks(2, 4, inner, [])
    x, grad_output = check.draw.normal(rows, 4), check.draw.normal(rows, 4)
    shares = (1 + check.draw.permutation(2)) / 3
    inputs = {"state": state, "grad_output": grad_output, "with_respect_to": (0, 1)}
    got = check.call(probes.bytes_kept, run_blocks, layers, x, shares, **inputs)
    output, *_ = block_by_block(state, x, shares, grad_output, (1.0, 1.0), 2 * [torch.ones(1)])
    check.close(got["output"], output, rtol=1e-3, atol=1e-3, what="the output")
    bytes_inside = 4 * rows * inner
    check.true(
        got["kept"] < bytes_inside / 2,
        f"after the forward pass, {got['kept']} bytes that it allocated are still in memory; "
        f"the result of the first layer in a block takes {bytes_inside} bytes",
    )
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("five blocks"):
    goes_through(5, 3, 4, (1.0, 0.5))
with check.property("four blocks, and data that need no gradient", weight=0.5):
    goes_through(4, 5, 3, (0.5, 2.0), needed=False)
### END HIDDEN TESTS
check.score()

# %% [markdown]
"""
<details><summary>The bug (open this once you have found it)</summary>

`shared` reads `self.block` and `self.share` when it **runs**. Each block's first run happens in that block's iteration of the loop, so the loss is right. The second run happens in the
backward pass, after the loop has ended, when both attributes belong to the **last** block. Every block is recomputed as if it were the last one. The shapes fit, so no error is raised, and only the last
block's gradient is right.

The same happens with `checkpoint(lambda h: share * block(h), x)`, because names in a `lambda` are also looked up when it runs (**late binding**). Ruff finds that form ([B023](https://docs.astral.sh/ruff/rules/function-uses-loop-variable/)). Older versions of transformers avoided this with a function
`create_custom_forward(module)` that [bound the module](https://github.com/huggingface/transformers/blob/v4.30.0/src/transformers/models/llama/modeling_llama.py). Anything else that a block reads from outside is
read again, too; the adapters library had to restore its forward context for the second run ([pull request 759](https://github.com/adapter-hub/adapters/pull/759)).

So apart from its arguments, a checkpointed function should **use nothing that can change before the second run**.
</details>
"""

# %% [markdown]
r"""
## In the wild

| where | what it is called |
| --- | --- |
| PyTorch | [`torch.utils.checkpoint`](https://docs.pytorch.org/docs/stable/checkpoint.html): `checkpoint(function, *args, use_reentrant=, preserve_rng_state=, context_fn=, determinism_check=, debug=)`; `debug=True` adds the operators of both runs to the error message |
| PyTorch, offloading | [`save_on_cpu`](https://docs.pytorch.org/docs/stable/autograd.html#torch.autograd.graph.save_on_cpu)`(pin_memory=)` |
| transformers | `model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})`, or `TrainingArguments(gradient_checkpointing=True)` ([guide](https://huggingface.co/docs/transformers/perf_train_gpu_one)) |
| timm | `model.set_grad_checkpointing()` |
| DeepSpeed | [`activation_checkpointing`](https://www.deepspeed.ai/docs/config-json/#activation-checkpointing): `partition_activations`, `cpu_checkpointing`, `number_checkpoints` |
| Megatron-LM | `--recompute-granularity full` or `selective` ([repository](https://github.com/NVIDIA/Megatron-LM)) |
| JAX | [`jax.checkpoint`](https://docs.jax.dev/en/latest/gradient-checkpointing.html) with `policy=` |
"""

# %% [markdown]
r"""
## Recap

1. Autograd saves the inputs of some operations and the results of others; a storage counts once, and parameters are in memory anyway.
2. A checkpoint keeps a block's input and runs the block again in the backward pass. It frees what is saved inside, so checkpointing a single `Linear` gains nothing.
3. The peak is the kept inputs plus what one segment saves; if $n$ equal blocks each save as much as their input, $\sqrt n$ equal segments are best.
4. The price is a second forward pass through all segments but the last: up to a third more products, or 50% more if the weights are frozen.
5. The second run must repeat the first: same random numbers, same code and state, and no second update of running statistics.

### Test yourself

<details><summary>1. Linear, Sigmoid, Linear, all trainable, no checkpointing. Which tensors are saved, apart from parameters?</summary>

Two: the data, for the first layer, and the result of the sigmoid, which the sigmoid and the second Linear share.
</details>

<details><summary>2. Every Linear of a network is wrapped by itself. What does that gain?</summary>

Nothing. Without checkpointing, the layer saves its input; the checkpoint keeps the same input.
</details>

<details><summary>3. 100 equal blocks, each of which saves as much as its input, form equal segments. How many segments are best, and what is the peak in tensors?</summary>

Ten segments of ten blocks, 10 + 10 = 20 tensors instead of 101.
</details>

<details><summary>4. A model with dropout was trained with checkpointing and preserve_rng_state=False. The losses are right. What is wrong?</summary>

The gradients: the second run draws dropout masks that differ from those of the first run.
</details>

<details><summary>5. The embeddings are frozen, and every block is wrapped with use_reentrant=True. The loss falls, but slowly. Why?</summary>

The first wrapped block's input requires no gradient, so neither does its output, and so on: no wrapped block is trained.
</details>

### References

- PyTorch documentation, ["torch.utils.checkpoint"](https://docs.pytorch.org/docs/stable/checkpoint.html), and ["Autograd mechanics"](https://docs.pytorch.org/docs/stable/notes/autograd.html): saved tensors and their hooks.
- T. Chen, B. Xu, C. Zhang, C. Guestrin, "Training Deep Nets with Sublinear Memory Cost", [arXiv:1604.06174](https://arxiv.org/abs/1604.06174), 2016, sections 4.1 to 4.3.
- A. Griewank, A. Walther, "Algorithm 799: revolve", *ACM Transactions on Mathematical Software* 26(1), 2000.
- V. Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models", [arXiv:2205.05198](https://arxiv.org/abs/2205.05198), 2022, section 5.
- P. Jain et al., "Checkmate: Breaking the Memory Wall with Optimal Tensor Rematerialization", [arXiv:1910.02653](https://arxiv.org/abs/1910.02653), 2019.

### Glossary

| English | 中文 | meaning |
| --- | --- | --- |
| activation | 激活值 | an intermediate result that autograd keeps for the backward pass |
| activation checkpointing | 激活检查点 | keeps a block's input and recomputes the rest in the backward pass |
| recomputation | 重计算 | the second run of a block |
| saved tensor | 保存的张量 | what autograd keeps for an operation's derivative |
| storage | 存储 | the memory behind a tensor; several tensors can share one |
| segment | 分段 | neighboring blocks that are checkpointed as a unit |
| square-root rule | √n 规则 | if n equal blocks each save as much as their input, √n equal segments need the least memory |
| reentrant | 可重入 | here: running a backward pass inside a backward pass |
| early stop | 提前停止 | the second run ends once the last needed tensor is recomputed |
| selective checkpointing | 选择性检查点 | keeps the results of some operations of a block and recomputes the others |
| offloading | 卸载 | keeps saved tensors elsewhere, such as in CPU memory or a file |
| late binding | 延迟绑定 | a name in a function is looked up when the function runs |
| running statistics | 运行统计量 | BatchNorm's averages, used in evaluation mode |
"""

# %% [markdown]
"""
Here is what you predicted in this chapter.
"""

# %% folded="What you predicted"
predictions("06")

# %%
progress("06")
