# %% [markdown]
"""
# 06 · Activation checkpointing

After this chapter you can

- count the bytes that autograd saves for the way back, and predict them before anything runs;
- say what checkpointing a block spares, what it costs, and when it spares nothing;
- choose segments for a budget of bytes;
- write a checkpoint of your own, and say what must be the same when a block runs twice;
- recognize the bugs that recomputation brings: random numbers, batch norm, names that have changed.

**Time**: 70 minutes to read and run, 160 for the six exercises.
**Know before**: autograd and modules (chapter 00). Batch norm (chapter 01) helps.

**中文**: 本章讲激活检查点：autograd 为反向传播保存了什么、怎样按字节计数与预测、重计算与分段、√n 规则，以及 dropout、批归一化和闭包在重计算中的陷阱。
"""

# %% tags=["needed"] folded="Imports"
import contextlib
import math
import random
import tempfile
import warnings
import weakref
from functools import partial
from itertools import combinations, pairwise
from pathlib import Path

import torch
from torch.nn import functional
from torch.utils import checkpoint as checkpoint_module
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from helpers import (
    COLORS,
    Check,
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

# With tensors as small as here, threads wait longer than they compute.
torch.set_num_threads(1)

# The first call loads parts of torch that take seconds: better here than in a check.
_ = checkpoint(torch.sin, torch.zeros(1), use_reentrant=False)

# %% [markdown]
"""
## A gain that changes sides

Training keeps intermediate results, the *activations*, because the way back needs them. *Checkpointing* throws some
of them away and computes them a second time. PyTorch has it as `torch.utils.checkpoint.checkpoint(block, x)`.

Training notes show what it is worth. (We have them as a copy without an address: take their numbers as a riddle, not as a source.) A classifier of four linear layers gets 1024 rows. Its inner linear
layers are wrapped with `checkpoint`. The notes print the highest count of bytes that PyTorch's allocator reached on their GPU:

| | peak, as the notes print it |
| --- | --- |
| with checkpointing | 19.67 MB |
| without | 30.34 MB |

A third less, for one line of code. Let us count the bytes ourselves. That needs no GPU. The class below (you need not read it) listens to every
operation, adds the bytes of each new storage (the memory behind a tensor), and subtracts them when the storage is freed.
"""


# %% folded="Measuring tool: LiveBytes counts the bytes that are alive"
class LiveBytes(TorchDispatchMode):
    """Counts the bytes that are alive of all that was made inside of the block.

    You need not read this class, and no exercise needs the names with an underscore in it.
    """

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


# %%
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


def peaks_as_in_the_notes(order):
    """Return the peak of each run; names are given anew, as in cells that follow each other."""
    peaks = []
    with LiveBytes() as live:
        for wrap in order:
            classifier = make_classifier()
            x = torch.randn(1024, 1024)
            live.curve = [live.now]  # the peak is counted from here
            output = classify(classifier, x, wrap)
            peaks.append(live.peak)
    del classifier, x, output  # only now
    return peaks


wrapped_first = peaks_as_in_the_notes((True, False))
plain_first = peaks_as_in_the_notes((False, True))
for name, (wrapped, plain) in (
    ("wrapped first, then plain", wrapped_first),
    ("plain first, then wrapped", plain_first[::-1]),
):
    print(f"{name}:  wrapped {wrapped / 1e6:5.2f} MB,  plain {plain / 1e6:5.2f} MB")

# %% [markdown]
"""
In the first line checkpointing seems to spare half. In the second line the runs have changed places, and checkpointing seems to
cost twice as much. **The second run is the large one, whichever it is.**

Why? When the second run begins, the names `classifier`, `x` and `output` still hold the first one's things. The old model and the
old input go when their names are given to new ones. But `output` keeps its graph, the graph keeps what autograd
saved, and it keeps the parameters that it would send gradients to.

Is that what happened in the notes? Their numbers are larger than ours by the same amount. On a GPU, matrix
products come from cuBLAS, and PyTorch gives it a workspace from the same allocator. Its default size is
[documented](https://docs.pytorch.org/docs/stable/notes/cuda.html#cublas-workspaces): two pieces of 4096 KiB and eight of 16 KiB.
"""

# %%
workspace = (2 * 4096 + 8 * 16) * 1024
held = {
    "parameters of the first model": sum(p.numel() for p in make_classifier().parameters()),
    "its input": 1024 * 1024,
    "the results of its ReLUs": 1024 * (512 + 256 + 128),
    "its output": 1024 * 10,
}
print(f"workspace:            {workspace / 1e6:6.3f} MB")
print(f"first run  + workspace: {(wrapped_first[0] + workspace) / 1e6:.2f} MB (the notes: 19.67)")
print(f"second run + workspace: {(wrapped_first[1] + workspace) / 1e6:.2f} MB (the notes: 30.34)")
print("the difference, held by the first run:")
for name, entries in held.items():
    print(f"  {name:<32}{4 * entries / 1e6:6.3f} MB")
print(f"  {'together':<32}{4 * sum(held.values()) / 1e6:6.3f} MB")
print(f"  {'second peak - first peak':<32}{(wrapped_first[1] - wrapped_first[0]) / 1e6:6.3f} MB")

# %% [markdown]
"""
Both numbers of the notes come out, to all of their digits. (We did not see their machine; this is arithmetic. On some kinds of GPU the workspace has another
size, and the sum would not fit.) The 10.67 MB between them are the first run, which was still there. Checkpointing had nothing to do with it.

So measure again, and this time let go of the first run before the second begins:
"""

# %%
fair = [peaks_as_in_the_notes((wrap,))[0] for wrap in (True, False)]
print(f"wrapped: {fair[0] / 1e6:.2f} MB, plain: {fair[1] / 1e6:.2f} MB")

# %% folded="Plot: Peak of the forward pass, counted"
figure, axes = new_figure(height=2.9)
labels = ("the notes' way,\nwrapped first", "the notes' way,\nplain first", "each run\nby itself")
for offset, name, color, values in (
    (-0.2, "wrapped", "blue", (wrapped_first[0], plain_first[1], fair[0])),
    (0.2, "plain", "orange", (wrapped_first[1], plain_first[0], fair[1])),
):
    bars = axes.bar(
        [k + offset for k in range(3)],
        [value / 1e6 for value in values],
        width=0.36,
        color=COLORS[color],
        label=name,
    )
    axes.bar_label(bars, fmt="%.1f")
axes.set_xticks(range(3), labels)
axes.set(
    title="Peak of the forward pass, counted",
    xlabel="how it was measured",
    ylabel="MB",
    ylim=(0, 29),
)
axes.legend(ncols=2, loc="upper right")
axes.grid(False, axis="x")
show(
    figure,
    alt="Three pairs of bars. Measured as in the notes with the wrapped run first: wrapped 11.1 MB, plain 21.8. "
    "With the plain run first: wrapped 21.8, plain 11.1. Each by itself: both 11.1.",
)

# %% [markdown]
"""
**No difference at all.** Two things went wrong in one measurement. The runs were not separated. And wrapping a single
`Linear` is pointless, as we shall see when we look at what autograd really keeps.

A third thing: the notes stop after the forward pass. Half of what checkpointing does happens on the way back.

From here on, bytes are counted, and each count says of what.
"""

# %% [markdown]
r"""
## What autograd saves

The chain rule needs numbers from the way there. Which ones? It depends on the operation. Take a chain of three:
$y = x - 2$, $z = y^2$, $p = \sigma(z)$.

Autograd asks before it saves a tensor, if somebody listens: `torch.autograd.graph.saved_tensors_hooks(pack, unpack)`. Inside
of the block, `pack` gets each tensor that is about to be saved, and whatever it returns is kept in its place. On the way back `unpack` gets that
and returns the tensor.

One caution: let `pack` return `tensor.detach()`, not the tensor itself. (It is the same storage.) A result that is saved *by the operation that made it* would hold that operation, and the operation
the result, and neither would ever be freed.
"""

# %%
seen = []


def pack(tensor):
    seen.append(tensor.detach())
    return tensor.detach()


x = torch.tensor([0.5, 1.0, 3.5], requires_grad=True)
with torch.autograd.graph.saved_tensors_hooks(pack, lambda kept: kept):
    y = x - 2
    print("x - 2 saves:     ", [kept.tolist() for kept in seen])
    seen.clear()
    z = y**2
    print("y ** 2 saves y:  ", [torch.equal(kept, y) for kept in seen])
    seen.clear()
    p = torch.sigmoid(z)
    print("sigmoid saves z: ", [torch.equal(kept, z) for kept in seen])
    print("sigmoid saves p: ", [torch.equal(kept, p) for kept in seen])

# %% [markdown]
r"""
The derivative of $x - 2$ is 1: nothing to save. That of $y^2$ is $2y$: it saves its **input**. That of the sigmoid is
$\sigma(z)(1 - \sigma(z)) = p(1-p)$: the **result** is enough, and that is what it saves. (One often reads that $z$ is
kept. It is not.)

So an operation saves nothing, or its result, or its input; and some save things of their own. Let the machine sort some:
"""

# %%
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
`layer_norm` keeps a mean and a scale for each row besides its input. `dropout` keeps its mask. (On a CPU the mask is float32. CUDA's own
kernel keeps one byte for each entry.)

And a linear layer, $xW^\mathsf{T} + b$? The gradient by $W$ needs $x$. The gradient by $x$ needs $W$. So it saves its input and its weight. Four
rules make this exact:

1. A **parameter** that is saved costs nothing extra: it is there anyway.
2. If the layer is **frozen**, no gradient by $W$ is wanted, and its input is not saved.
3. Where **nothing needs a gradient**, nothing is saved. That holds for all that happens before the first trainable layer, if the
   data themselves need none.
4. A **storage counts once**, however often it is saved. The result of a ReLU is the input of the next layer: one storage.
"""

# %%
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
print(f"one tensor of 32×64 float32 has {unit} bytes")
for name, layers in CASES.items():
    stack = torch.nn.Sequential(*layers)
    counted = saved_bytes(lambda stack=stack: stack(x), except_for=parameters)
    print(f"{name:<22}{counted.bytes:>7} bytes = {counted.bytes // unit} × {unit}")

# %% [markdown]
"""
Read the fourth line and the fifth. Linear, ReLU, linear: the first input, and one tensor that the ReLU and the second layer share. With a
GELU there are three: the first input, the input of the GELU, and its result, which the second layer saves. An activation function costs a tensor, or nothing,
depending on what its derivative is made of.

And now the riddle of the beginning is solved as well. The wrapped `Linear` would have saved its input. `checkpoint` saves *the input of what
it wraps*, to start again from there. The same tensor. Here are the classifier's bytes, parameters left out:
"""

# %%
classifier, x = make_classifier(), torch.randn(1024, 1024)
for wrap in (False, True):
    counted = saved_bytes(
        lambda wrap=wrap: classify(classifier, x, wrap), except_for=classifier.parameters()
    )
    print(
        f"{'wrapped' if wrap else 'plain':<8} {counted.bytes / 1e6:.2f} MB in {counted.tensors} storages"
    )

# %% [markdown] exercise="count-saved-bytes" points=4 minutes=20 difficulty=1
"""
### Count the bytes that are saved

Write `count_saved(run, left_out)`, the counter that the last two cells used.

- **In**: `run`, a function without arguments; `left_out`, a list of tensors, of a model's parameters for instance.
- **Out**: an int. Call `run()`, and add up the bytes of all storages that autograd saves while it runs.
- Each storage counts **once**, and with **all of its bytes**, also if the tensor that is saved shows a part of it only, or shows it several times over.
- The storages of the tensors of `left_out` do not count.
- What is saved counts even if it is freed before `run` ends. (A storage that is freed may leave its place in memory to another one.)
- Afterwards nothing that was saved stays in memory, nor the graph behind it.
- `saved_bytes` of the helpers does this. Use neither it nor another counter of the helpers: if you do, nothing else counts.

The check makes a stack of `layers`; `run` sends `data` through it. The function below tells storages apart. It returns a number, the place of the storage in memory, and the storage's bytes.

<!-- hint: Who tells you about each saved tensor, and what must it return so that nothing changes? -->
<!-- hint: Collect in a dict, from the place of a storage to what you know about it: then a storage that comes twice is there once. The places of `left_out` are known before `run` is called. -->
<!-- hint: While you hold a tensor, its storage is not freed, and its place is not given away. So detach each saved tensor, let the dict hold it under its place until `run` is done, and hand the detached one back. Then add up `storage_of(...)[1]` over the values of the dict. -->
"""


# %% tags=["needed"]
def storage_of(tensor):
    """Return the place of the tensor's storage in memory, and the storage's bytes."""
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


def counted_as(layers, data, left_out=("parameters",), passes=1):
    return check.call(
        probes.counted, count_saved, layers, data, left_out=list(left_out), passes=passes
    )


rows = check.draw.integer(20, 40)
# All differ, and none is as large as the number of rows.
a, b, c, d = (5 + check.draw.permutation(12)[:4]).tolist()
with check.property("the input of each linear layer counts, parameters do not"):
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
    what = "both halves of one storage are saved, one by one"
    check.equal(got, 4 * rows * (a + 2 * d), what=what)
with check.property("only what is in left_out is left out"):
    x = check.draw.normal(rows, a)
    layers = [["Linear", a, b], ["Tanh"], ["Linear", b, c]]
    got = counted_as(layers, x, left_out=())
    check.equal(got, 4 * rows * (a + b) + 4 * b * c, what="nothing is left out")
    got = counted_as(layers, x, left_out=("data", "parameters"))
    check.equal(got, 4 * rows * b, what="parameters and the data are left out")
    # What a norm saves differs between versions of torch: so it is counted here as well.
    norm = torch.nn.LayerNorm(a)
    got = counted_as([["LayerNorm", a]], x, left_out=("data",))
    expected = saved_bytes(lambda: norm(x), except_for=[x]).bytes
    check.equal(got, expected, what="a norm saves its weight; it is not left out")
with check.property("afterwards nothing that was saved stays in memory", weight=0.5):
    x, layers = check.draw.normal(rows, a), [["Linear", a, b], ["Sigmoid"], ["Linear", b, c]]
    got = check.call(probes.counted_and_freed, count_saved, layers, x)
    check.equal(got["count"], 4 * rows * (a + b))
    told = f"{got['kept']} bytes that the passes made are still there"
    check.true(got["kept"] == 0, told)
with check.property("where nothing is saved the count is 0"):
    x = check.draw.normal(rows, a)
    cases = [([["Tanh"], ["GELU"]], 0), ([["Tanh"], ["Linear", a, b]], 4 * rows * a)]
    for place in check.draw.permutation(2):
        layers, expected = cases[place]
        check.equal(counted_as(layers, x), expected, what=" and ".join(name for name, *_ in layers))
with check.property("integers have bytes of their own size", weight=0.5):
    ids = check.draw.integers(rows, low=0, high=c)
    got = counted_as([["Embedding", c, a], ["Linear", a, b]], ids)
    check.equal(got, 8 * rows + 4 * rows * a)
with check.property("what is freed before the end of run counts, too"):
    x = check.draw.normal(rows, 50)
    # So many that a place is given away again, wherever the allocator looks first.
    got = counted_as([["Linear", 50, 60], ["GELU"]], x, passes=100)
    check.equal(got, 4 * rows * 50 + 100 * 4 * rows * 60, what="100 passes, their results dropped")
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
### Predict, then count

If the rules are right, they give the bytes without running anything. A stack of layers for $r$ rows is a chain of tensors. The
$k$-th has $r \cdot w_k$ entries of 4 bytes, where $w_k$ is its width. Some of these tensors are kept by the layer before them, some by the layer behind
them, some by both:

$$\text{bytes} = 4\,r \sum_{k\ \text{kept}} w_k$$

The figure shows a stack tensor by tensor.
"""

# %%
widths = (64, 96, 96, 32, 32, 48, 48)
names = ("data", "Linear", "ReLU", "Linear", "GELU", "Linear", "Sigmoid")
keepers = (
    "the Linear behind it",
    "",
    "ReLU and Linear",
    "GELU",
    "the Linear behind it",
    "",
    "Sigmoid",
)
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
by_formula = 4 * 32 * sum(w for w, keeper in zip(widths, keepers, strict=True) if keeper)
print(f"by the formula: {by_formula} bytes, counted: {counted} bytes")

# %% folded="Plot: Which tensors of a stack are kept, for 32 rows"
figure, axes = new_figure(height=3.2)
for place, (width, keeper) in enumerate(zip(widths, keepers, strict=True)):
    color = COLORS["blue"] if keeper else "#cccccc"
    axes.barh(place, 4 * 32 * width / 1024, color=color)
    axes.text(
        4 * 32 * width / 1024 + 0.15,
        place,
        f"kept by {keeper}" if keeper else "not kept",
        va="center",
    )
axes.set_yticks(range(7), ["the data", *(f"result of {name}" for name in names[1:])])
axes.invert_yaxis()
axes.set(
    title="Which tensors of a stack are kept, for 32 rows",
    xlabel="KiB",
    ylabel="tensor",
    xlim=(0, 18),
)
axes.grid(False, axis="y")
show(
    figure,
    alt="Seven bars, one for each tensor of a stack. Kept are the data, the result of the ReLU, the result of the "
    "Linear before the GELU, the result of the GELU and that of the Sigmoid. The results of the first and the last Linear are not kept.",
)

# %% [markdown] exercise="predict-saved-bytes" points=4 minutes=25 difficulty=2
"""
### Predict the saved bytes of a stack

Write `predict_saved(layers, rows, width)`: the bytes that autograd saves for a stack, before it runs.

- **In**: `layers`, a list of lists; `rows` and `width`, the shape of the data, which need no gradient. All is float32. A layer is one of

| layer | what it is |
| --- | --- |
| `["Linear", a, b]` | from width `a` to width `b`, trainable |
| `["Frozen", a, b]` | the same, frozen |
| `["ReLU"]`, `["Sigmoid"]`, `["Tanh"]` | save their result |
| `["GELU"]`, `["SiLU"]` | save their input |
| `["Shift"]` | adds a constant: a new tensor, nothing saved |
| `["Identity"]` | returns its input itself, the same storage |

- **Out**: an int, the bytes that are saved, parameters left out. All four rules count. There may be more rows than any machine could hold.

The check builds the stack, runs it, counts, and compares with yours.

<!-- hint: While you go from layer to layer, which three things do you need to know about the tensor that you stand at? -->
<!-- hint: Its width, whether it is kept already, and whether it needs a gradient. The last begins as False and becomes True behind the first trainable layer. A layer either marks the tensor in front of it, or the one behind it, or none. -->
<!-- hint: Keep a list of widths, one for each *new* tensor, and a set of the places in it that are kept. A set takes a place only once. `Identity` adds nothing to the list; activation functions add to the set only if a gradient is needed; a trainable `Linear` always adds the tensor in front of it. -->
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
        else:
            kind = "Linear" if name == "Frozen" else name
            parts.append(getattr(torch.nn, kind)(*sizes).requires_grad_(name != "Frozen"))
    stack, x = torch.nn.Sequential(*parts), torch.zeros(rows, width)
    return saved_bytes(lambda: stack(x), except_for=stack.parameters()).bytes


def predicts(layers, rows, width, what=""):
    got = check.call(predict_saved, layers, rows, width)
    check.equal(got, count_for_real(layers, rows, width), what=what)


rows = check.draw.integer(10, 90)
# Each is more than five times the smaller ones together: no wrong sum comes out right.
widths = [size + check.draw.integer(0, 3) for size in (2, 24, 160, 1000)]
a, b, c, d = (widths[place] for place in check.draw.permutation(4))
with check.property("linear layers alone keep their inputs"):
    predicts([["Linear", a, b], ["Linear", b, c]], rows, a)
with check.property("an activation that saves its result shares it with the next layer", weight=2):
    predicts([["Linear", a, b], ["ReLU"], ["Linear", b, c], ["Tanh"], ["Linear", c, d]], rows, a)
    predicts([["Linear", a, b], ["Sigmoid"]], rows, a, what="a Sigmoid at the end")
    predicts([["Linear", a, b], ["Sigmoid"], ["Linear", b, c]], rows, a, what="and in the middle")
with check.property("an activation that saves its input keeps a tensor of its own", weight=2):
    predicts([["Linear", a, b], ["GELU"], ["Linear", b, c]], rows, a)
    predicts([["Linear", a, b], ["SiLU"]], rows, a, what="a SiLU at the end")
    predicts([["Linear", a, b], ["SiLU"], ["Linear", b, c]], rows, a, what="and in the middle")
    predicts([["Linear", a, b], ["Tanh"], ["GELU"]], rows, a, what="a GELU behind a Tanh")
with check.property("nothing is kept before the first trainable layer"):
    predicts([["ReLU"], ["GELU"], ["Shift"], ["Linear", a, b]], rows, a)
    predicts([["Frozen", a, b], ["GELU"], ["Linear", b, c]], rows, a, what="frozen at first")
with check.property("a frozen layer keeps nothing, and passes the gradient on", weight=2):
    predicts([["Linear", a, b], ["Frozen", b, c], ["Tanh"], ["Linear", c, d]], rows, a)
    predicts([["Linear", a, b], ["Frozen", b, c], ["GELU"]], rows, a, what="nothing behind it")
with check.property("a shift makes a new tensor, an identity none"):
    predicts([["Linear", a, b], ["Tanh"], ["Identity"], ["Linear", b, c], ["ReLU"]], rows, a)
    predicts([["Linear", a, b], ["Tanh"], ["Shift"], ["Linear", b, c]], rows, a)
with check.property("more rows than any machine could hold"):
    layers, many = [["Linear", a, b], ["ReLU"], ["Linear", b, c]], 10**14
    got = check.call(predict_saved, layers, many, a)
    check.equal(got, many * count_for_real(layers, 1, a))
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("identities in several places"):
    predicts([["Identity"], ["Linear", a, b], ["Sigmoid"], ["Identity"]], rows, a)
    predicts([["Linear", a, b], ["Identity"], ["GELU"], ["Identity"], ["SiLU"]], rows, a)
with check.property("a longer stack of everything"):
    layers = [["Tanh"], ["Frozen", a, b], ["SiLU"], ["Linear", b, c], ["Shift"], ["Sigmoid"]]
    layers += [["Frozen", c, c], ["GELU"], ["Identity"], ["Linear", c, d], ["ReLU"], ["GELU"]]
    predicts(layers, rows, a)
with check.property("a stack in which nothing needs a gradient keeps nothing"):
    predicts([["Frozen", a, b], ["ReLU"], ["Frozen", b, c], ["GELU"]], rows, a)
### END HIDDEN TESTS
check.score()

# %% [markdown]
"""
## Keep the input, run again

Checkpointing is a bargain about a *block*, a part of the network with an input and an output. On the way there the block runs without
saving anything inside. Its **input** is kept. On the way back the block runs **a second time**, from that input, now saving all, and then the
gradient goes through it as ever.

Take twelve blocks, each a linear layer and a tanh, and watch the memory over a whole step. We wrap nothing, then each block by
itself, then segments of four blocks. What is counted is everything that the step makes: saved tensors, what is in use for a
moment, gradients.
"""

# %% tags=["needed"]
ROWS, WIDTH = 256, 64


def make_blocks(count):
    torch.manual_seed(0)
    blocks = (
        torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh()) for _ in range(count)
    )
    return torch.nn.Sequential(*blocks)


def run_in_segments(blocks, x, starts, **options):
    """Run the blocks; each segment but the last is checkpointed. ``starts`` begins with 0."""
    ends = [*starts[1:], len(blocks)]
    for start, end in zip(starts, ends, strict=True):
        segment = blocks[start:end]
        if end < len(blocks):
            x = checkpoint(segment, x, use_reentrant=False, **options)
        else:
            x = segment(x)
    return x


def equal_segments(count, segments):
    return [round(k * count / segments) for k in range(segments)]


# %%
def memory_of_a_step(blocks, starts):
    """Return the curve of live bytes of a step, and the place in it where the way back begins."""
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

# %% folded="Plot: live memory over a training step"
figure, grid = new_figure(1, 3, height=3.0, sharey=True)
for axes, (title, starts) in zip(
    grid,
    (
        ("nothing wrapped", [0]),
        ("12 segments of 1", equal_segments(12, 12)),
        ("3 segments of 4", equal_segments(12, 3)),
    ),
    strict=True,
):
    curve, turn = memory_of_a_step(blocks, starts)
    steps = range(len(curve))
    in_units = [size / UNIT for size in curve]
    axes.fill_between(steps, in_units, step="post", alpha=0.25, color=COLORS["blue"])
    axes.step(steps, in_units, where="post", color=COLORS["blue"], linewidth=1.2)
    axes.axvline(turn, color=COLORS["vermilion"], linestyle=":")
    axes.text(turn - 2, 18.2, "there ", ha="right", color=COLORS["vermilion"])
    axes.text(turn + 2, 18.2, " back", ha="left", color=COLORS["vermilion"])
    axes.set(
        title=f"{title}\npeak {max(in_units):.1f}", xlabel="allocations and frees", ylim=(0, 20)
    )
    print(
        f"{title:<18} at the turn {in_units[turn - 1]:5.1f}, peak {max(in_units):5.1f}, in tensors of {UNIT} bytes"
    )
grid[0].set_ylabel("live memory (tensors of 64 KiB)")
show(
    figure,
    alt="Three curves of live memory over a training step. With nothing wrapped the memory climbs to 13 tensors at the "
    "turn, peaks at 17 right behind it, and falls. With each block wrapped it looks much the same. With 3 segments of 4 blocks it "
    "climbs to 7, peaks at 11, and makes two more hills on the way back, one for each segment that runs again.",
)

# %% [markdown]
"""
On the left, the mountain: every block adds a tensor on the way there, and the way back takes them away one by one (and leaves gradients of the
weights, which are smaller). In the middle each block is a segment of its own, and **nothing is gained**: here a block keeps its tanh's result, which is the next
block's input, and the inputs are what checkpointing keeps. On the right, three segments: the way there keeps three inputs and the inside of the last segment,
which nobody needs to run twice, since its way back begins at once. Then come two hills: the other segments, run again.

Is the result the same? To the last bit, on one machine. And how often did the blocks run?
"""


# %%
def step_and_count(blocks, x, starts):
    """Return the gradients of a step, and how often a block ran there and back."""
    runs = {"there": 0, "back": 0}
    phase = "there"

    def count(*_):
        runs[phase] += 1

    handles = [block.register_forward_pre_hook(count) for block in blocks]
    blocks.zero_grad(set_to_none=True)
    loss = run_in_segments(blocks, x, starts).square().mean()
    phase = "back"
    loss.backward()
    for handle in handles:
        handle.remove()
    return [p.grad.clone() for p in blocks.parameters()], runs


x = torch.randn(ROWS, WIDTH)
plain_gradients, plain_runs = step_and_count(blocks, x, [0])
gradients, runs = step_and_count(blocks, x, equal_segments(12, 3))
print("plain:     ", plain_runs)
print("3 segments:", runs)
print("same gradients:", all(map(torch.equal, plain_gradients, gradients)))

# %% [markdown]
"""
Eight runs on the way back: the blocks of the first two segments. The last segment ran once.

### What has to be the same

The bargain rests on one sentence: **the second run does what the first run did.** Same input, same weights, same random numbers, same code. Take dropout: it draws a mask.
If the second run draws another mask, the gradient belongs to a network that never computed the loss.

So `checkpoint` writes down the state of torch's random number generator when the first run begins, sets it for the second run, and afterwards puts back what was there. With
`preserve_rng_state=False` it does not.
"""


# %%
def mask_there_and_back(**options):
    """Return where dropout let numbers through on the way there, and where on the way back."""
    torch.manual_seed(0)
    x = torch.ones(10, requires_grad=True)

    def dropped(x):
        return functional.dropout(x, 0.5).square()

    output = checkpoint(dropped, x, use_reentrant=False, **options)
    output.sum().backward()
    return "".join(".x"[int(o > 0)] for o in output), "".join(".x"[int(g > 0)] for g in x.grad)


for options in ({}, {"preserve_rng_state": False}):
    there, back = mask_there_and_back(**options)
    print(f"there {there}   back {back}   same mask: {there == back!s:<5}  {options or ''}")

# %% [markdown]
"""
Nothing warns. The shapes are right, the loss is right, only the gradient is not. It happens: OLMo-core had the switch off, which did no harm until a model
with dropout came, and then a comparison of two runs, with checkpointing and without, showed losses of 2.49 and 2.19 after 150 steps
([pull request 828](https://github.com/allenai/OLMo-core/pull/828)).

What `checkpoint` cannot know are generators of *your own*, and those of Python and NumPy:
"""

# %%
generator = torch.Generator().manual_seed(0)


def noise_from_my_generator(x):
    return x * torch.rand(x.shape, generator=generator)


def skip_by_python(x):
    return x.sin() if random.random() < 0.5 else x.exp()


x = torch.ones(3, requires_grad=True)
output = checkpoint(noise_from_my_generator, x, use_reentrant=False)
(gradient,) = torch.autograd.grad(output.sum(), x)
print("generator of one's own: factors there", [round(v, 2) for v in output.tolist()])
print("                        factors back ", [round(v, 2) for v in gradient.tolist()])

random.seed(2)
wrong = 0
for _ in range(100):
    x = torch.tensor(1.0, requires_grad=True)
    output = checkpoint(skip_by_python, x, use_reentrant=False)
    (gradient,) = torch.autograd.grad(output, x)
    true_gradient = x.cos() if torch.equal(output, x.sin()) else x.exp()
    wrong += not torch.allclose(gradient, true_gradient)
print(f"a branch by Python's random: wrong gradients in {wrong} of 100 cases")

# %% [markdown]
"""
(The second one is a network that skips layers at random, drawn with the wrong generator.) `checkpoint` compares the number, the shapes and the dtypes of the saved tensors of both runs, and raises a
`CheckpointError` where they differ. Here they agree.

### How a function of autograd is written

To write a checkpoint, you need an operation with a way back of its own. That is a `torch.autograd.Function`. This one computes a cube, and knows the derivative:
"""


# %%
class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor  # anything that is no tensor
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
Five facts that you will need:

- While `forward` runs, autograd is off: nothing inside is saved. It is off in `backward`, too; `with torch.enable_grad():` switches it on.
- `save_for_backward` keeps tensors. If someone changes one in place before the way back, `ctx.saved_tensors` raises an error. A tensor in `ctx.x` would be taken as it is then.
- The output requires a gradient if one of the tensors among the **arguments** does. What a function *inside* uses, the weights of a module for instance, autograd does not see.
- `torch.autograd.backward(output, grad_output)` goes back through a graph and adds to the `.grad` of **all** leaves that it reaches: weights, and tensors that were
  detached and told `requires_grad_(True)`. `torch.autograd.grad(output, tensors, grad_output)` returns the gradients by `tensors` and touches no `.grad`.
- `torch.get_rng_state()` returns the state of the CPU's generator, `torch.set_rng_state(state)` sets it. What happens to it inside of
  `with torch.random.fork_rng(devices=[]):` is undone at its end.
"""

# %% [markdown] exercise="own-checkpoint" points=6 minutes=40 difficulty=3
"""
### A checkpoint of your own

Write the two methods of `Checkpoint`, so that `own_checkpoint(run, *inputs)` is `run(*inputs)` with recomputation.

- **In**: `run`, a module or function, with or without weights of its own, that returns one tensor; `inputs`, tensors, of which at least one requires a gradient.
  They may be results of other operations, and some may be integers.
- **Out**: what `run` returns. On the way there it runs once, saving nothing inside.
- On the way back `run` runs **once more**, and the gradient goes through this second run. Gradients reach the weights of `run` (in `.grad`, where they add up, by `backward()`; `autograd.grad` by a weight need not work) and
  each input that requires one. An input that requires none gets None.
- The second run draws the **same random numbers** as the first, from the CPU's generator. After the way back this generator stands where it would stand without checkpointing.
- `torch.utils.checkpoint` and other checkpoints of torch are **not** to be used. If one is, nothing else counts.

How the check sees that `run` runs again: one layer inside multiplies by a number, and the check turns that number between the way there and the way
back. The gradient of a second run knows the new one. (A real training step would never do this.) A batch norm inside counts the runs. And the bytes that are still there at the turn are counted.

<!-- hint: What must `forward` write down, so that `backward` can start again from the same point? There are three things. -->
<!-- hint: In `backward`: inputs that are cut off from the graph behind them, the generator set back, autograd on, `run` again. Then the gradient goes through the new graph, to the weights as well as to the inputs that were cut off, and the generator gets its present state back. -->
<!-- hint: Cut off with `x.detach().requires_grad_(x.requires_grad)`. Use `torch.autograd.backward`, not `grad`: it reaches the weights. Afterwards the `.grad` of each cut-off input is what to return, behind a None for `run`. -->
"""


# %% solution="own-checkpoint"
class Checkpoint(torch.autograd.Function):
    """Runs a function without saving what is inside, and again on the way back."""

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


def there_and_back(layers, *inputs, **options):
    return check.call(probes.there_and_back, own_checkpoint, layers, *inputs, **options)


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
    """Return the output and the gradients by ``leaves``, floating-point tensors."""
    leaves = [leaf.clone().requires_grad_(True) for leaf in leaves]
    output = compute(*leaves)
    return output.detach(), torch.autograd.grad(output, leaves, grad_output)


def dialed(position):
    """Two layers and a dial behind them."""

    def compute(x, first, first_bias, second, second_bias):
        hidden = torch.tanh(functional.linear(x, first, first_bias))
        return functional.linear(hidden, second, second_bias).sin().square() * position

    return compute


def bilinear(x, y, weight, bias):
    return functional.bilinear(x, y, weight, bias).sin().square() * 2.0


def plain_dropout(x, seed, grad_output, steps=1):
    """Take steps through two dropouts that run once.

    Returns:
        the last output, the sum of the gradients, and two draws behind each step.
    """

    def dropped(x):
        return functional.dropout(torch.tanh(functional.dropout(x, 0.5)), 0.3)

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        slopes, drawn = [], []
        for _ in range(steps):
            output, (slope,) = gradients_of(dropped, grad_output, x)
            slopes.append(slope)
            drawn += [torch.rand(3), torch.rand(3)]
    return output, sum(slopes), drawn


def same_gradients(got, names, expected, atol=1e-5):
    by_input, *by_weight = expected
    check.close(got["gradients"][0], by_input, atol=atol, what="the gradient by the input")
    for name, slope in zip(names, by_weight, strict=True):
        check.close(got["parameters"][name], slope, atol=atol, what=f"the gradient by {name}")


two_layers = [["Linear", 5, 6], ["Tanh"], ["Linear", 6, 4], ["Dial"]]
two_dropouts = [["Dropout", 0.5], ["Tanh"], ["Dropout", 0.3]]
with check.property("output and gradients are those of a plain run, without torch's checkpoint"):
    rows = check.draw.integer(7, 20)
    state, x, grad_output = draw_two_layers(), check.draw.normal(rows, 5), draw_slopes(rows)
    output, slopes = gradients_of(dialed(1.0), grad_output, x, *state.values())
    for as_leaves in (True, False):
        options = {"state": state, "grad_output": grad_output, "as_leaves": as_leaves}
        got = there_and_back(two_layers, x, **options)
        check.close(got["output"], output, atol=1e-6, what="the output")
        same_gradients(got, state, slopes)
    check.written_without(
        *("checkpoint", "_checkpoint", "checkpoint_module", "checkpoint_sequential"),
        *("*activation_checkpoint*", "run_in_segments"),
    )
with check.property("the way back runs the block again", weight=3):
    for inner in (6, check.draw.integer(350, 450)):
        rows, turned = check.draw.integer(7, 20), check.draw.number(2.0, 3.0)
        state, x = draw_two_layers(inner), check.draw.normal(rows, 5)
        grad_output = 0.1 * draw_slopes(rows)
        output, _ = gradients_of(dialed(0.5), grad_output, x, *state.values())
        _, slopes = gradients_of(dialed(turned), grad_output, x, *state.values())
        layers = [["Linear", 5, inner], ["Tanh"], ["Linear", inner, 4], ["Dial"]]
        options = {"dial_positions": (0.5, turned)}
        got = there_and_back(layers, x, state=state, grad_output=grad_output, **options)
        check.close(got["output"], output, atol=1e-5, what="the output")
        same_gradients(got, state, slopes, atol=1e-4)
with check.property("the block runs once on the way there, and once on the way back"):
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
    got = there_and_back(layers, x, state=state, grad_output=grad_output)
    check.close(got["output"], output, rtol=1e-4, atol=1e-5, what="the output")
    check.close(
        got["gradients"], list(slopes), rtol=1e-3, atol=1e-5, what="the gradient by the input"
    )
    what = "the batches that a norm inside has counted"
    check.equal(int(got["state"]["0.num_batches_tracked"]) - counted, 2, what=what)
    for name in ("running_mean", "running_var"):
        expected = getattr(norm, name)
        check.close(got["state"][f"0.{name}"], expected, rtol=1e-4, atol=1e-5, what=f"its {name}")
with check.property("dropout drops the same numbers on the way back", weight=2):
    rows = check.draw.integer(10, 20)
    x, grad_output = check.draw.normal(rows, 9), check.draw.normal(rows, 9)
    seed = check.draw.integer(0, 1_000_000)
    output, slope, drawn = plain_dropout(x, seed, grad_output)
    got = there_and_back(two_dropouts, x, state={}, grad_output=grad_output, seed=seed)
    check.close(got["output"], output, what="the output")
    check.close(got["gradients"][0], slope, what="the gradient by the input")
    check.equal(got["drawn"][0], drawn[0], what="random numbers drawn after the way there")
with check.property("the generator goes on as if nothing had run twice, in two steps"):
    rows = check.draw.integer(10, 20)
    x, grad_output = check.draw.normal(rows, 9), check.draw.normal(rows, 9)
    seed = check.draw.integer(0, 1_000_000)
    output, slope, drawn = plain_dropout(x, seed, grad_output, steps=2)
    got = there_and_back(two_dropouts, x, state={}, grad_output=grad_output, seed=seed, steps=2)
    check.close(got["output"], output, what="the output of the second step")
    what = "the gradient by the input, of two steps"
    check.close(got["gradients"][0], slope, atol=1e-6, what=what)
    check.equal(got["drawn"], drawn, what="random numbers drawn after each way there, and back")
with check.property("nothing of the inside is kept until the way back"):
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
        f"at the turn {got['kept']} bytes that were made on the way there are still there; "
        f"the results of the layers inside have {bytes_inside} bytes each",
    )
with check.property("several inputs, each with its gradient"):
    state = {"0.weight": check.draw.normal(4, 3, 5), "0.bias": check.draw.normal(4)}
    rows = check.draw.integer(6, 20)
    x, y, grad_output = (check.draw.normal(rows, size) for size in (3, 5, 4))
    _, slopes = gradients_of(bilinear, grad_output, x, y, *state.values())
    layers, options = [["Bilinear", 3, 5, 4], ["Dial"]], {"dial_positions": (1.0, 2.0)}
    got = there_and_back(
        layers, x, y, state=state, grad_output=grad_output, with_respect_to=(0, 1), **options
    )
    check.close(got["gradients"][0], slopes[0], atol=1e-4, what="the gradient by the first")
    check.close(got["gradients"][1], slopes[1], atol=1e-4, what="the gradient by the second")
    check.close(got["parameters"]["0.weight"], slopes[2], atol=1e-4, what="by the weight")
    got = there_and_back(
        layers, x, y, state=state, grad_output=grad_output, with_respect_to=(1,), **options
    )
    check.close(got["gradients"][0], slopes[1], atol=1e-4, what="the first needs no gradient")
with check.property("integers among the inputs"):
    table, grad_output = check.draw.normal(6, 4), check.draw.normal(9, 4)
    places = check.draw.integers(9, low=0, high=6)
    _, slopes = gradients_of(lambda t: t[places].sin().square() * 3.0, grad_output, table)
    layers = [["Rows"], ["Dial"]]
    got = there_and_back(
        layers, table, places, state={}, grad_output=grad_output, dial_positions=(1.0, 3.0)
    )
    check.close(got["gradients"][0], slopes[0], atol=1e-5, what="the gradient by the floats")
with check.property("the gradients of two steps add up", weight=0.5):
    rows = check.draw.integer(7, 20)
    state, x, grad_output = draw_two_layers(), check.draw.normal(rows, 5), draw_slopes(rows)
    _, slopes = gradients_of(dialed(1.5), 2 * grad_output, x, *state.values())
    got = there_and_back(
        two_layers, x, state=state, grad_output=grad_output, dial_positions=(1.0, 1.5), steps=2
    )
    same_gradients(got, state, slopes)
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
    got = there_and_back(layers, table, places, **inputs, **options, steps=2, uses=2)
    same_gradients(got, state, slopes, atol=1e-4)
### END HIDDEN TESTS
check.score()

# %% [markdown]
"""
<details><summary>What PyTorch does besides (open it when yours works)</summary>

Yours is, in its bones, the *reentrant* variant of `torch.utils.checkpoint`, whose `backward` calls `backward` again. PyTorch's also keeps the state of the GPUs'
generators and the autocast region (chapter 03), lets other arguments than tensors through, and says so when no input requires a gradient.
</details>
"""

# %% [markdown]
r"""
## What to wrap

You saw that wrapping each of the twelve blocks gained nothing. What a wrap gains is what is saved **inside** the block, without the block's own input. For a linear layer and a tanh that is
one tensor, and one tensor is the price. A block of a transformer is another thing: a norm, a linear layer to four times the width, a GELU, a linear layer back.
"""

# %%
rows, width = 64, 96
BLOCKS = {
    "Linear": torch.nn.Sequential(torch.nn.Linear(width, width)),
    "Linear, Tanh": torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.Tanh()),
    "Norm, Linear ×4,\nGELU, Linear": torch.nn.Sequential(
        torch.nn.LayerNorm(width),
        torch.nn.Linear(width, 4 * width),
        torch.nn.GELU(),
        torch.nn.Linear(4 * width, width),
    ),
    "the same and\nDropout": torch.nn.Sequential(
        torch.nn.LayerNorm(width),
        torch.nn.Linear(width, 4 * width),
        torch.nn.GELU(),
        torch.nn.Linear(4 * width, width),
        torch.nn.Dropout(0.1),
    ),
}
one = 4 * rows * width
shares = []
for name, block in BLOCKS.items():
    x = torch.randn(rows, width, requires_grad=True)
    total = saved_bytes(lambda b=block, x=x: b(x), except_for=[*block.parameters(), x]).bytes
    shares.append(total / one)
    print(
        f"{' '.join(name.split()):<32} saved inside: {total / one:5.2f} tensors of the input's size"
    )

# %% folded="Plot: What a wrap gains, and what it keeps"
figure, axes = new_figure(height=3.0)
axes.barh(
    range(4), shares, color=COLORS["orange"], height=0.36, label="saved inside: what a wrap gains"
)
axes.barh(
    [k + 0.38 for k in range(4)],
    [1] * 4,
    color=COLORS["blue"],
    height=0.36,
    label="its input: what a wrap keeps",
)
axes.set_yticks([k + 0.19 for k in range(4)], list(BLOCKS))
axes.invert_yaxis()
axes.set(
    title="What a wrap gains, and what it keeps",
    xlabel="tensors of the input's size",
    ylabel="block",
)
axes.legend()
axes.grid(False, axis="y")
show(
    figure,
    alt="Four blocks. Saved inside: Linear 0, Linear and Tanh 1, norm with two linear layers and GELU about 9, the same with dropout about 10 "
    "tensors of the input's size. The input that a wrap keeps is 1 for each.",
)

# %% [markdown]
r"""
So wrap **blocks whose inside is large and whose input is small**, and leave lone layers alone. Nine tensors against one: that is why whole transformer blocks are what libraries wrap.

### Segments, and the square root

Blocks can be joined into a *segment*. Long segments have few inputs to keep, and a large inside when they run again. Short ones are the other way round. Where is the middle?

Let there be $n$ equal blocks with inputs of $b$ bytes and an inside of $a$ bytes each, in $k$ equal segments. When a segment goes back, these are alive: the inputs of the segments up to it (those behind it have gone back already, and
are freed), and its own inside. For what is saved the worst moment is the turn, in the last segment:

$$\text{peak}(k) = k \cdot b + \frac{n}{k} \cdot a \qquad\text{which is smallest at}\qquad k = \sqrt{n\,a/b}$$

For $a = b$ that is $2\sqrt{n}$ tensors where plain training keeps $n + 1$. This is the square-root rule of Chen and others (2016). Measure it, on 36 blocks: the first curve is the formula, the second is the
peak of all live bytes of a step, gradients and what is in use for a moment included.
"""

# %%
COUNT = 36
blocks = make_blocks(COUNT)
ks = [1, 2, 3, 4, 6, 9, 12, 18, 36]
formula, measured, counted, done = [], [], [], []
x = torch.randn(ROWS, WIDTH)
for k in ks:
    starts = equal_segments(COUNT, k)
    formula.append(k + COUNT / k)
    curve, turn = memory_of_a_step(blocks, starts)
    measured.append(max(curve) / UNIT)
    done.append((curve.index(max(curve)) - turn) / (len(curve) - turn))
    kept = saved_bytes(
        lambda s=starts: run_in_segments(blocks, x, s), except_for=blocks.parameters()
    )
    counted.append(kept.bytes / UNIT)
print("segments:               ", *(f"{k:>5}" for k in ks))
print("formula:                ", *(f"{value:5.1f}" for value in formula))
print("saved at the turn:      ", *(f"{value:5.1f}" for value in counted))
print("the same, to the byte:  ", formula == counted)
print("live at the peak:       ", *(f"{value:5.1f}" for value in measured))
above = [peak - value for peak, value in zip(measured, formula, strict=True)]
print("peak minus formula:     ", *(f"{value:5.1f}" for value in above))
print("way back done by then:  ", *(f"{share:5.0%}" for share in done))
print("smallest with", ks[measured.index(min(measured))], "segments; the square root of 36 is 6")

# %% folded="Plot: 36 equal blocks, in segments"
figure, axes = new_figure()
axes.plot(ks, measured, "o-", color=COLORS["blue"], label="live at the peak, measured")
axes.plot(ks, counted, "s", color=COLORS["orange"], label="saved at the turn, counted")
axes.plot(ks, formula, "--", color=COLORS["black"], label="k + n / k")
axes.set_xscale("log")
axes.set_xticks(ks, [str(k) for k in ks])
axes.minorticks_off()
axes.set(
    title="36 equal blocks, in segments",
    xlabel="segments k",
    ylabel="tensors of 64 KiB",
    ylim=(0, 46),
)
axes.legend(loc="upper center")
show(
    figure,
    alt="Memory against the number of segments, from 1 to 36. The formula k plus 36 over k and the saved bytes at the turn are one curve: it falls from "
    "37 at one segment to 12 at six and rises again to 37 at 36. The measured peak has the same form, four to six tensors higher.",
)

# %% [markdown]
"""
What autograd has saved at the turn is what the formula says. The measured peak has the same valley, four to six tensors higher. Four are there right behind the turn: gradients on their way back, and what is in use for a
moment. The rest are gradients of weights. They pile up, so for 2 to 6 segments the peak is not at the turn but late on the way back, as the last line shows.

Slide the number of segments and watch the hills. The black line is the formula.
"""


# %% tags=["nbval-ignore-output"] folded="Plot: a step of 36 blocks, in segments"
def draw_hills(segments):
    segments = int(segments)
    curve, turn = memory_of_a_step(make_blocks(COUNT), equal_segments(COUNT, segments))
    sizes = [size / UNIT for size in curve]
    figure, axes = new_figure(height=3.2)
    axes.fill_between(range(len(sizes)), sizes, step="post", alpha=0.3, color=COLORS["blue"])
    axes.step(range(len(sizes)), sizes, where="post", color=COLORS["blue"], linewidth=1)
    axes.axvline(turn, color=COLORS["vermilion"], linestyle=":", label="the way back begins")
    axes.axhline(segments + COUNT / segments, color=COLORS["black"], linewidth=1, label="k + n / k")
    axes.set(
        title=f"A step of 36 blocks in {segments} segments, peak {max(sizes):.0f}",
        xlabel="allocations and frees",
        ylabel="live memory (tensors of 64 KiB)",
        ylim=(0, 50),
    )
    axes.legend(loc="upper right")
    return figure


play(
    draw_hills,
    label="segments",
    values=ks,
    start=6,
    alt="Live memory over a step of 36 blocks in 6 segments. It climbs slowly through five segments, then steeply to 12 tensors at the turn and to 16 right behind it. On the way back "
    "there are five more hills of about the same height, the last one the highest: inputs of segments go, gradients of the weights come.",
)

# %% [markdown]
r"""
Real blocks are not equal. In a network for pictures the first ones have large inputs, in another the last ones do. The function below is the same account without that assumption. `inputs[i]` are the bytes of the
input of block $i$, `inside[i]` those saved inside. A segment from block $s$ up to block $e$ (not included) keeps `inputs[s]`, and when it goes back, its inside is there as well, with all the inputs up to it.
"""


# %% tags=["needed"]
def peak_bytes(starts, inputs, inside):
    """Return the most bytes that are saved at once, for segments that begin at ``starts``."""
    peak, kept = 0, 0
    for start, end in zip(starts, [*starts[1:], len(inputs)], strict=True):
        kept += inputs[start]
        peak = max(peak, kept + sum(inside[start:end]))
    return peak


# %%
print("12 equal blocks, 3 segments:", peak_bytes([0, 4, 8], 12 * [1], 12 * [1]))
print("12 equal blocks, unwrapped: ", peak_bytes([0], 12 * [1], 12 * [1]))
uneven = {"inputs": [8, 8, 4, 4, 2, 2], "inside": [16, 16, 8, 8, 4, 4]}
for starts in ([0], [0, 3], [0, 1, 2], [0, 1, 2, 3, 4, 5]):
    print(f"uneven blocks, segments at {starts!s:<19} {peak_bytes(starts, **uneven)}")

# %% [markdown]
"""
### The cost

The last segment never runs twice: its way back follows at once, so it is not wrapped (PyTorch's `checkpoint_sequential` does the same). All others do. So what a choice of segments costs is the number of blocks **in front of the
last segment**, however they are cut.

In arithmetic: the way back of a linear layer is two products, one for the gradient by the input and one for that by the weight. The way there is one. A plain step is three products per layer, and a step that runs every layer a second time is four:
a third more. If the weights are frozen and only the input needs a gradient, it is three where two were: half more. Counted and then timed:
"""


# %% folded="Measuring tool: count the products of a step"
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


x = torch.randn(ROWS, WIDTH, requires_grad=True)
for trained in (True, False):
    blocks.requires_grad_(trained)
    print("all weights trained:" if trained else "all weights frozen:")
    plain_products = products_of_a_step(blocks, x, [0])
    for k in (1, 2, 6, 36):
        products = products_of_a_step(blocks, x, equal_segments(COUNT, k))
        more = products / plain_products
        print(f"  {k:>2} segments: {products:>3} products, {more:.2f} times a plain step's")

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
The printed times are those of the machine that ran this. What comes on top of the products is the work of each wrap (the generator's state is
written down, hooks are called) and the tanh; the smaller the blocks, the more of it.

So at most a third more products, or half more for a frozen network, for a memory of twice the square root of the number of blocks, in tensors. And often it is no loss at all: what is freed lets the batch grow.
"""

# %% [markdown] exercise="choose-segments" points=4 minutes=25 difficulty=2
"""
### Segments under a budget

Write `choose_segments(inputs, inside, budget)`: where to begin segments, so that the peak stays within the budget and as few blocks as possible run twice.

- **In**: `inputs` and `inside`, lists of ints as in `peak_bytes`, equally long, from 1 to 12 blocks; `budget`, an int.
- **Out**: a list of Python ints, the places where segments begin, rising, the first 0, such that `peak_bytes(starts, inputs, inside)` is **at most** the budget.
- Among all those, one whose **last segment begins as early as possible**: the blocks in front of it are the ones that run twice. If nothing needs to be wrapped, that is `[0]`.
- If several choices are equally good, any of them is right. If no choice fits, return None.

With 12 blocks there are 2048 choices. You may try them all.

<!-- hint: How can all choices of starts be listed, and in which order would you like to see them? -->
<!-- hint: The 0 is always there. Each other place, from 1 to n - 1, is a start or is not. If choices are tried in the order of their last start, the first that fits is the answer. -->
<!-- hint: `itertools.combinations(range(1, n), count)` lists all choices of `count` places. Collect those that fit, for all counts from 0 to n - 1, and take the `min` by the last entry. -->
"""


# %% solution="choose-segments"
def choose_segments(inputs, inside, budget):
    """Return the places where segments begin, or None if nothing fits into ``budget`` bytes."""
    ### BEGIN SOLUTION
    places = range(1, len(inputs))
    choices = ([0, *cuts] for count in range(len(inputs)) for cuts in combinations(places, count))
    fitting = [starts for starts in choices if peak_bytes(starts, inputs, inside) <= budget]
    return min(fitting, key=lambda starts: starts[-1], default=None)
    ### END SOLUTION


# %% test="choose-segments"
check = Check("choose-segments")


def all_choices(count):
    for cuts in range(2 ** (count - 1)):
        yield [0, *(place for place in range(1, count) if cuts >> (place - 1) & 1)]


def is_good(inputs, inside, budget, what=""):
    fitting = [s for s in all_choices(len(inputs)) if peak_bytes(s, inputs, inside) <= budget]
    got = check.call(choose_segments, inputs, inside, budget)
    where = f"{what}: " if what else ""
    if not fitting:
        check.equal(got, None, what=f"{where}nothing fits")
        return
    is_list = isinstance(got, list | tuple) and all(type(start) is int for start in got)
    example = f"{fitting[-1]} fits, with a peak of {peak_bytes(fitting[-1], inputs, inside)}"
    check.true(is_list and len(got) > 0, f"{where}a list of ints was expected: {example}")
    rising = all(a < b for a, b in pairwise(got))
    within = got[0] == 0 and got[-1] < len(inputs)
    check.true(rising and within, f"{where}the places must rise from 0 and be blocks")
    peak = peak_bytes(list(got), inputs, inside)
    check.true(peak <= budget, f"{where}the peak is {peak}, the budget {budget}")
    earliest = min(starts[-1] for starts in fitting)
    check.true(
        got[-1] == earliest,
        f"{where}{got[-1]} blocks run twice, and {earliest} would do",
    )


def is_good_in_all(*cases):
    """Ask for all cases, in random order: no answer is known beforehand."""
    for place in check.draw.permutation(len(cases)):
        is_good(*cases[place])


unit = check.draw.integer(100, 1000)
with check.property("equal blocks, a budget between the smallest peak and no wrap at all"):
    blocks = 9 * [unit], 9 * [unit]
    is_good_in_all((*blocks, 6 * unit), (*blocks, 7 * unit + unit // 2), (*blocks, 10 * unit))
with check.property("if all fits, nothing is wrapped"):
    inside = [unit, 2 * unit, unit, 3 * unit, unit]
    is_good_in_all(
        (5 * [unit], inside, 9 * unit, "a budget to the byte"),
        (5 * [unit], inside, 9 * unit - 1, "a byte less"),
        ([unit], [unit], 3 * unit, "a single block"),
    )
with check.property("as few blocks as possible run twice", weight=3):
    first = [3, 3, 2, 1, 1, 3, 2], [2, 4, 2, 2, 3, 3, 1]
    # Three segments fit with five in front of the last one, four segments with four.
    second = [1, 1, 4, 1, 1, 1], [3, 6, 3, 3, 1, 6]
    is_good_in_all(
        # Halves would fit as well, and so would the smallest peak: they run more blocks twice.
        (8 * [unit], 8 * [unit], 8 * unit),
        ([unit] * 6, [5 * unit, unit, unit, unit, unit, unit], 8 * unit),
        *((*([unit * k for k in part] for part in parts), 12 * unit) for parts in (first, second)),
    )
with check.property("blocks of different sizes", weight=2):
    sizes = [unit * s for s in (8, 8, 4, 4, 2, 2, 1, 1)]
    is_good_in_all(
        (sizes, [2 * s for s in sizes], 36 * unit),
        (sizes[::-1], [2 * s for s in sizes[::-1]], 32 * unit),
    )
with check.property("None where nothing fits"):
    is_good_in_all((6 * [unit], 6 * [4 * unit], 5 * unit), (6 * [unit], 6 * [4 * unit], 9 * unit))
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("blocks of all sizes, several budgets"):
    inputs, inside = [2, 2, 1, 2, 2, 1], [4, 2, 3, 1, 1, 3]
    is_good([unit * k for k in inputs], [unit * k for k in inside], 10 * unit)
    inputs = [unit * (2 + k) for k in check.draw.permutation(12).tolist()]
    inside = [unit * (1 + k) for k in check.draw.permutation(12).tolist()]
    peaks = sorted({peak_bytes(s, inputs, inside) for s in all_choices(12)})
    for share in (0.0, 0.03, 0.1, 0.3):
        is_good(inputs, inside, peaks[int(share * (len(peaks) - 1))])
with check.property("one byte too little, and a block that is larger than all others"):
    inside = [unit, unit, 30 * unit, unit, unit]
    is_good_in_all(
        (5 * [unit], inside, 33 * unit),
        (5 * [unit], inside, 33 * unit - 1),
        ([3 * unit, unit, unit, unit], [unit, 9 * unit, unit, 9 * unit], 14 * unit),
    )
### END HIDDEN TESTS
check.score()

# %% [markdown]
r"""
## Batch norm counts twice

The second run does what the first one did. That is the trouble with a layer that *writes something down* when it runs. Batch norm, in training, moves its running mean and variance toward those of the
batch, $r \leftarrow (1-m)\,r + m\,s$, and counts its batches. Wrapped, it does so twice:
"""

# %%
norm_block = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))
start = {name: value.clone() for name, value in norm_block.state_dict().items()}
x = torch.randn(16, 4, generator=torch.Generator().manual_seed(0)) + 2
means = {}
for name in ("plain", "wrapped"):
    norm_block.load_state_dict(start)
    output = norm_block(x) if name == "plain" else checkpoint(norm_block, x, use_reentrant=False)
    output.square().sum().backward()
    means[name] = norm_block[1].running_mean.clone()
    print(
        f"{name + ':':<9} batches counted in one step: {norm_block[1].num_batches_tracked.item()}"
    )
share = (means["wrapped"] / means["plain"]).mean().item()
print(
    f"the wrapped mean moved {share:.2f} times as far: 1 - (1 - m)² = {1 - 0.9**2:.2f} for m = 0.1"
)

# %% [markdown]
r"""
Loss and gradients are right, since batch norm in training uses the batch's own statistics. What is wrong are the numbers for *later*: the running statistics follow the last batches nearly twice as fast, and are noisier. A model that
is trained so can behave otherwise in eval mode, and nothing says why. ([PyTorch issue 96136](https://github.com/pytorch/pytorch/issues/96136) has been open since 2023.)

A repair needs to know which run is the second. `checkpoint` offers a place for that: `context_fn` is a function without arguments that returns two context managers. The first run happens inside of the first,
the second run inside of the second.
"""


# %%
@contextlib.contextmanager
def announced(text):
    print("  before", text)
    try:
        yield
    finally:
        print("  after", text)


x = torch.ones(3, requires_grad=True)
output = checkpoint(
    torch.sin,
    x,
    use_reentrant=False,
    context_fn=lambda: (announced("the first run"), announced("the second run")),
)
print("and back")
output.sum().backward()

# %% [markdown]
"""
Why `try` and `finally`? The early stop. The second run ends, as soon as the last tensor that is needed has been saved, with an exception that `checkpoint` catches outside. It
passes through your context manager. What stands behind a bare `yield` would never be done:
"""


# %%
@contextlib.contextmanager
def without_finally(done):
    yield
    done.append("tidied up")


done = []
output = checkpoint(
    torch.sin,
    x,
    use_reentrant=False,
    context_fn=lambda: (without_finally(done), without_finally(done)),
)
output.sum().backward()
print("two runs, tidied up:", len(done), "time")

# %% [markdown]
"""
A tempting repair fails loudly. Let the second run compute batch norm without its running statistics (`track_running_stats = False`), and it saves fewer tensors than the first run did:
"""


# %%
@contextlib.contextmanager
def without_statistics(norm):
    norm.track_running_stats = False
    try:
        yield
    finally:
        norm.track_running_stats = True


x = torch.randn(16, 4)
output = checkpoint(
    norm_block,
    x,
    use_reentrant=False,
    context_fn=lambda: (contextlib.nullcontext(), without_statistics(norm_block[1])),
)
try:
    output.sum().backward()
    print("no error")
except RuntimeError as error:
    print(type(error).__name__ + ":", str(error).splitlines()[0])

# %% [markdown] exercise="checkpoint-batch-norm" points=4 minutes=25 difficulty=2
"""
### A second run that leaves no trace

Write `checkpoint_once(block, x)`: the block, checkpointed, so that its batch norms see each batch once.

- **In**: `block`, a module that holds any number of batch norms, and perhaps other layers with buffers, at any depth, with any momentum, None included, in training mode or in eval mode; `x`, a tensor.
- **Out**: `block(x)`. On the way back the block runs again, as with `checkpoint`.
- After the way back all **buffers** of the block, the count of batches included, are what they are after a plain step, and the gradients are those of a plain step.
- Modes and settings of the layers are what they were before. A second step is as right as the first, also if the block is used twice before the way back. (When the buffers are written is up to you; they are looked at
  behind the way back.)
- `torch.utils.checkpoint` is **allowed**, and so is your own `own_checkpoint` where `x` requires a gradient. (It need not.)

As in Exercise 3, the check turns a number inside of the block between the way there and the way back.

<!-- hint: Is it easier to keep batch norm from writing in the second run, or to undo what it wrote? Which of them works for every kind of layer that keeps notes? -->
<!-- hint: A context manager around the second run alone can copy all buffers of the block before, and put their values back afterwards. -->
<!-- hint: `block.buffers()` lists them; keep a `clone()` of each, `yield` inside of try, and in finally `copy_` the clones into the buffers. `context_fn` returns `contextlib.nullcontext()` for the first run and yours for the second. -->
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


def in_norm_block(layers, *inputs, **options):
    return check.call(probes.there_and_back, checkpoint_once, layers, *inputs, **options)


def draw_norm(name, features):
    return {
        f"{name}.weight": check.draw.uniform(features, low=0.5, high=2.0),
        f"{name}.bias": check.draw.normal(features),
        f"{name}.running_mean": check.draw.normal(features, mean=1.0),
        f"{name}.running_var": check.draw.uniform(features, low=0.5, high=3.0),
        f"{name}.num_batches_tracked": torch.tensor(check.draw.integer(2, 6)),
    }


def plain_steps(block, state, x, grad_output, dial_positions, steps=1):
    """Return the state after plain steps, the output, and the gradients that a second run gives."""
    block.load_state_dict(state)
    for _ in range(steps):
        output = block(x).sin().square() * dial_positions[0]
    after = {name: value.clone() for name, value in block.state_dict().items()}
    block.load_state_dict(state)
    leaf = x.clone().requires_grad_(True)
    again = block(leaf).sin().square() * dial_positions[1]
    slopes = torch.autograd.grad(again, [leaf, *block.parameters()], steps * grad_output)
    names = [name for name, _ in block.named_parameters()]
    return after, output.detach(), slopes[0], dict(zip(names, slopes[1:], strict=True))


def same_step(got, expected, *, by_input=True):
    _, output, slope, slopes = expected
    check.close(got["output"], output, rtol=1e-4, atol=1e-5, what="the output")
    if by_input:
        check.close(got["gradients"][0], slope, rtol=1e-3, atol=1e-4, what="the gradient by x")
    for name, value in slopes.items():
        what = f"the gradient by {name}"
        check.close(got["parameters"][name], value, rtol=1e-3, atol=1e-3, what=what)


def same_buffers(got, expected):
    # The count first: it says best whether a batch was counted twice.
    for name, value in sorted(expected[0].items(), key=lambda item: "num_batches" not in item[0]):
        if "running" in name or "num_batches" in name:
            check.close(got["state"][name], value, rtol=1e-5, atol=1e-6, what=name)


def draw_rows(mean=0.0):
    rows = check.draw.integer(8, 20)
    return check.draw.normal(rows, 4, mean=mean), check.draw.normal(rows, 6)


def linear_and_norm(momentum=0.1):
    """Return a block, the same as a list for the probe, with a dial behind it, and a state."""
    block = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.BatchNorm1d(6, momentum=momentum))
    layers = [["Linear", 4, 6], ["BatchNorm1d", 6, 1e-5, momentum], ["Dial"]]
    state = {"0.weight": check.draw.normal(6, 4), "0.bias": check.draw.normal(6)}
    return block, layers, state | draw_norm("1", 6)


def convolution_and_norm(momentum):
    norm = torch.nn.BatchNorm2d(3, momentum=momentum)
    block = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3), norm)
    layers = [["Conv2d", 2, 3, 3], ["BatchNorm2d", 3, 1e-5, momentum], ["Dial"]]
    state = {"0.weight": check.draw.normal(3, 2, 9).reshape(3, 2, 3, 3)}
    return block, layers, state | {"0.bias": check.draw.normal(3)} | draw_norm("1", 3)


def draw_pictures():
    grad_output = check.draw.normal(4, 1, 12, 3).reshape(4, 3, 4, 3)
    return check.draw.normal(4, 2, 6, 5), grad_output


with check.property("output and gradients are those of a block that runs again"):
    block, layers, state = linear_and_norm()
    x, grad_output = draw_rows()
    positions = (1.0, check.draw.number(2.0, 3.0))
    expected = plain_steps(block, state, x, grad_output, positions)
    got = in_norm_block(layers, x, state=state, grad_output=grad_output, dial_positions=positions)
    same_step(got, expected)
with check.property("the running statistics move once", weight=2):
    block, layers, state = linear_and_norm()
    x, grad_output = draw_rows(mean=3.0)
    expected = plain_steps(block, state, x, grad_output, (1.0, 2.0))
    got = in_norm_block(layers, x, state=state, grad_output=grad_output, dial_positions=(1.0, 2.0))
    for name in ("1.running_mean", "1.running_var"):
        check.close(got["state"][name], expected[0][name], rtol=1e-5, atol=1e-6, what=name)
    same_step(got, expected)
with check.property("the batch is counted once, also where the momentum is None"):
    block, layers, state = linear_and_norm(momentum=None)
    x, grad_output = draw_rows(mean=-2.0)
    expected = plain_steps(block, state, x, grad_output, (1.0, 2.0))
    got = in_norm_block(layers, x, state=state, grad_output=grad_output, dial_positions=(1.0, 2.0))
    same_buffers(got, expected)
    same_step(got, expected)
with check.property("the block is used twice before the way back"):
    block, layers, state = linear_and_norm()
    x, grad_output = draw_rows(mean=2.0)
    expected = plain_steps(block, state, x, grad_output, (1.0, 2.0), steps=2)
    got = in_norm_block(
        layers, x, state=state, grad_output=grad_output, dial_positions=(1.0, 2.0), uses=2
    )
    same_buffers(got, expected)
    same_step(got, expected)
with check.property(
    "batch norms at any depth, each with its own momentum, and two steps", weight=2
):
    norm = torch.nn.BatchNorm1d(5, momentum=0.3)
    inner = torch.nn.Sequential(norm, torch.nn.Tanh(), torch.nn.Linear(5, 3))
    block = torch.nn.Sequential(torch.nn.Linear(7, 5), inner, torch.nn.BatchNorm1d(3))
    layers = [["Linear", 7, 5], [["BatchNorm1d", 5, 1e-5, 0.3], ["Tanh"], ["Linear", 5, 3]]]
    layers += [["BatchNorm1d", 3], ["Dial"]]
    state = {"0.weight": check.draw.normal(5, 7), "0.bias": check.draw.normal(5)}
    state |= {"1.2.weight": check.draw.normal(3, 5), "1.2.bias": check.draw.normal(3)}
    state |= draw_norm("1.0", 5) | draw_norm("2", 3)
    rows = check.draw.integer(8, 20)
    x, grad_output = check.draw.normal(rows, 7), check.draw.normal(rows, 3)
    options = {"dial_positions": (1.0, 2.0), "steps": 2}
    expected = plain_steps(block, state, x, grad_output, **options)
    got = in_norm_block(layers, x, state=state, grad_output=grad_output, **options)
    same_buffers(got, expected)
    same_step(got, expected)
with check.property("in eval mode the statistics are used and stay", weight=0.5):
    block, layers, state = linear_and_norm()
    x, grad_output = draw_rows()
    options = {"dial_positions": (1.0, 2.5), "steps": 2}
    expected = plain_steps(block.eval(), state, x, grad_output, **options)
    got = in_norm_block(layers, x, state=state, grad_output=grad_output, training=False, **options)
    same_buffers(got, expected)
    same_step(got, expected)
with check.property("pictures, and data that need no gradient", weight=0.5):
    block, layers, state = convolution_and_norm(momentum=0.3)
    x, grad_output = draw_pictures()
    expected = plain_steps(block, state, x, grad_output, (1.0, 2.0))
    got = in_norm_block(
        layers,
        x,
        state=state,
        grad_output=grad_output,
        with_respect_to=(),
        dial_positions=(1.0, 2.0),
    )
    same_buffers(got, expected)
    same_step(got, expected, by_input=False)
with check.property("another layer that keeps notes, an instance norm"):
    norm = torch.nn.InstanceNorm1d(3, momentum=0.3, track_running_stats=True)
    block = torch.nn.Sequential(torch.nn.Conv1d(2, 3, 1), norm)
    layers = [["Conv1d", 2, 3, 1], ["InstanceNorm1d", 3, 1e-5, 0.3, False, True], ["Dial"]]
    state = {"0.weight": check.draw.normal(3, 2)[..., None], "0.bias": check.draw.normal(3)}
    kept = {"1.running_mean", "1.running_var", "1.num_batches_tracked"}
    state |= {name: value for name, value in draw_norm("1", 3).items() if name in kept}
    x, grad_output = check.draw.normal(4, 2, 9), check.draw.normal(4, 3, 9)
    expected = plain_steps(block, state, x, grad_output, (1.0, 2.0))
    got = in_norm_block(layers, x, state=state, grad_output=grad_output, dial_positions=(1.0, 2.0))
    same_buffers(got, expected)
    same_step(got, expected)
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("pictures, a momentum of None, used twice in two steps", weight=0.5):
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
<details><summary>A folk remedy, and what it leaves (open it when yours works)</summary>

Two updates with momentum $m'$ and the same batch are one update with $1 - (1-m')^2$. So $m' = 1 - \sqrt{1 - m}$ repairs mean and variance to rounding, and some libraries do this
([pytorch-pfn-extras](https://github.com/pfnet/pytorch-pfn-extras/pull/117)). The count of batches is still wrong, which matters where the momentum is None. And a block that runs once, since its way back never comes (validation in training mode, a frozen part), then moves too
little. Another way is `patch_batchnorm` of [fairscale](https://github.com/facebookresearch/fairscale): no update in the run without gradients. Then, too, the update comes only with the way back.
</details>

## Two kinds of checkpoint

`use_reentrant` chooses between two programs of different age. The older one, *reentrant*, is what you wrote: an autograd function whose `backward` calls `backward`. The newer one works with the hooks of the beginning:
on the way there `pack` throws each tensor away and leaves a number in its place; on the way back the first `unpack` runs the block again, picks up what is saved this time, and hands it out by number. The graph is that of the first run.

Both have been taught to do what a user expects. They differ where something does *not* fit. Ask them:
"""


# %%
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
    return "yes" if output.requires_grad else "NO: the output needs no gradient"


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
    "weights learn though the data need no gradient": weights_learn_from_data,
    "autograd.grad by a weight inside": grad_by_weights,
    "keyword arguments": keywords,
    "a second run that does less": second_run_that_differs,
}
print(f"{'':<48}{'reentrant':<36}not reentrant")
for question, ask in QUESTIONS.items():
    print(f"{question:<48}{outcome(lambda a=ask: a(True)):<36}{outcome(lambda a=ask: a(False))}")

# %% [markdown]
"""
The first line is the one that has cost people most. Data need no gradient. An autograd function whose tensor arguments need none has an output that needs none (you met this above), so the wrapped
block is **not trained at all**. A network has other parts that do learn, so the loss still falls. PyTorch warns, once: "None of the inputs have requires_grad=True. Gradients will be None". It happened to
[OpenCLIP](https://github.com/mlfoundations/open_clip/issues/573), where one user reports better losses and retrieval by one keyword, and it happens whenever the layers in front are frozen
([transformers issue 21381](https://github.com/huggingface/transformers/issues/21381)), which is the usual case in fine-tuning. Libraries that kept the older variant make the output of the embedding require a gradient by a hook (`enable_input_require_grads`).

In the fourth line the error is the better answer. The newer variant compares what both runs saved; the older one has nothing to compare. (What has the same shapes in both runs escapes both of them, as the dropout masks above did.)

Take `use_reentrant=False`, and always write it down: PyTorch warns where nothing is said.
"""

# %% [markdown]
"""
## Between all and nothing

A block is run again as a whole, cheap operations and expensive ones. A **selective** checkpoint keeps the results of the expensive ones, and computes only the others again. In a linear layer with a GELU behind it the product
is expensive, and the GELU is nearly free. Newer versions of PyTorch have this, as a `context_fn`:
"""


# %%
def selective(operations):
    """Return a ``context_fn`` that keeps the results of ``operations``, or None if torch is older."""
    create = getattr(checkpoint_module, "create_selective_checkpoint_contexts", None)
    return None if create is None else partial(create, operations)


def cost_of(run, x):
    """Return the bytes alive at the turn beyond the input's, and the products of the whole step."""
    with LiveBytes() as live, CountProducts() as products:
        output = run(x)
        kept = live.now
        output.sum().backward()
    return kept, products.count


wide = torch.nn.Sequential(
    torch.nn.Linear(64, 256),
    torch.nn.GELU(),
    torch.nn.Linear(256, 256),
    torch.nn.GELU(),
    torch.nn.Linear(256, 64),
    torch.nn.Tanh(),
)
x = torch.randn(256, 64, requires_grad=True)
keep_products = selective([torch.ops.aten.addmm.default])
RUNS = {"plain": wide, "checkpointed": partial(checkpoint, wide, use_reentrant=False)}
if keep_products is not None:
    RUNS["selective"] = partial(checkpoint, wide, use_reentrant=False, context_fn=keep_products)
for name, run in RUNS.items():
    kept, products = cost_of(run, x)
    print(f"{name:<14} alive at the turn: {kept / 1024:5.0f} KiB, products in the step: {products}")

# %% [markdown]
"""
Selective checkpointing keeps the three products' results, lets go of what the GELUs made, and computes no product twice. It lies between the two others in memory. (It has to look at each operation from Python. With products as small as these, that eats up the time it gains.) Which operations to keep is a policy; Korthikanti and others (2022) choose the
opposite for attention, whose score matrices are large and cheap.

### Somewhere else

The hooks allow more. `pack` may return *anything*. What it returns stays, the tensor itself goes. Three ideas for a place: the CPU's memory, a file, fewer bits. `torch.autograd.graph.save_on_cpu(pin_memory=True)` is the first, made
for GPUs. The other two are a few lines each:
"""


# %%
def to_files(folder):
    """Return hooks that keep saved tensors in files of ``folder``."""

    def pack(tensor):
        path = Path(folder) / f"{len(list(Path(folder).iterdir()))}.pt"
        torch.save(tensor.detach(), path)
        return path

    return pack, lambda path: torch.load(path, weights_only=True)


def to_bfloat16():
    return (lambda tensor: tensor.detach().bfloat16()), (lambda tensor: tensor.float())


def gradient_with(hooks):
    """Return the bytes alive at the turn, and the gradient of the input."""
    leaf = x.detach().clone().requires_grad_(True)
    with LiveBytes() as live:
        with hooks:
            output = wide(leaf)
        kept = live.now
        output.square().sum().backward()
    return kept, leaf.grad


Hooks = torch.autograd.graph.saved_tensors_hooks
kept, true_gradient = gradient_with(contextlib.nullcontext())
print(f"{'in memory':<12} alive at the turn: {kept / 1024:5.0f} KiB")
with tempfile.TemporaryDirectory() as folder:
    kept, gradient = gradient_with(Hooks(*to_files(folder)))
    in_files = sum(file.stat().st_size for file in Path(folder).iterdir())
    print(
        f"{'in files':<12} alive at the turn: {kept / 1024:5.0f} KiB, same gradient:",
        torch.equal(gradient, true_gradient),
    )
    print(f"{'':<12} in files, weights included: {in_files / 2**20:.1f} MiB")
kept, gradient = gradient_with(Hooks(*to_bfloat16()))
error = ((gradient - true_gradient).norm() / true_gradient.norm()).item()
print(
    f"{'in bfloat16':<12} alive at the turn: {kept / 1024:5.0f} KiB, same gradient:",
    torch.equal(gradient, true_gradient),
)
print(f"{'':<12} relative error of the gradient: {100 * error:.1f} %")

# %% [markdown]
"""
Files and the CPU's memory give back what they got, to the bit, and cost the time of the transfer. Fewer bits are for ever. (The hooks get *all* that is saved, the weights too. Those stay where they are, so copies of them in files or in bfloat16 only cost. A serious
program leaves them out.)

On a GPU, and only there, this cell shows what is reserved for tensors at the peak, each run by itself:
"""

# %% tags=["nbval-ignore-output", "recorded"] folded="Measure: the peak on a GPU, by segments"
if torch.cuda.is_available():
    cuda_blocks = make_blocks(COUNT).cuda()
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
        print(f"{k:>2} segments: {peak / UNIT:.1f} tensors of 64 KiB")
    data = torch.randn(ROWS, WIDTH, device="cuda")
    before = torch.cuda.memory_allocated()
    with torch.autograd.graph.save_on_cpu(pin_memory=True):
        output = cuda_blocks(data)
    print(
        f"save_on_cpu: {(torch.cuda.memory_allocated() - before) / UNIT:.1f} tensors stay on the GPU"
    )
else:
    print("no GPU here: nothing to show")
recorded("segments-on-a-card")

# %% [markdown]
"""
## Bug hunt: the network that learned half

A network of residual blocks: each adds to its input a share of what it computes, and each has a share of its own. The author wanted to need less memory. `checkpoint` wants
a function of the input, so the block and its share of the moment went into attributes. The loss of the first step is the same as before, to the last digit. No warning, no error. And yet:
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
print(f"loss in the last step: {losses_plain[-1]:.2f} plain, {losses_wild[-1]:.2f} from the wild")

# %% folded="Plot: One network, with and without checkpointing"
figure, axes = new_figure(height=3.0)
axes.plot(range(1, 61), losses_plain, color=COLORS["blue"], label="without checkpointing")
axes.plot(range(1, 61), losses_wild, color=COLORS["vermilion"], label="from the wild")
axes.set(
    title="One network, with and without checkpointing",
    xlabel="training step",
    ylabel="mean squared error",
)
axes.legend()
show(
    figure,
    alt="Loss against training step. Both curves begin at 2.2 and fall. Without checkpointing the loss is at 0.1 after 60 steps, from the wild it is "
    "still above 0.4.",
)

# %% [markdown] exercise="bug-hunt-shares" points=4 minutes=25 difficulty=2
"""
### Bug hunt: the network that learned half

Find out, in cells of your own, which gradients are wrong, and why. (The gradients of one step, with `run_plain` and with `FromTheWild()`, block by block, tell a lot.) Then write `run_blocks(blocks, x, shares)`.

- **In**: `blocks`, several modules; `x`, a tensor, which may be data that need no gradient; `shares`, a float32 tensor with one number for each block.
- **Out**: what `run_plain` returns, and its gradients: by `x`, by `shares` and by all weights, wherever one is wanted. `x` and `shares` themselves stay as they are: data that need no gradient need none afterwards.
- **Each block is checkpointed by itself**: nothing inside of it is kept, it runs again on the way back, from its own input, and does the same as before. Blocks may hold dropout. (The check turns a number in the blocks, as in Exercise 3.)
- `torch.utils.checkpoint` is **allowed**.

<!-- hint: When does the body of `shared` run, and how often? What do `self.block` and `self.share` mean each time? -->
<!-- hint: It runs a second time when the loop is long over. Attributes, like all names in a function, are looked up when it runs. The second run has to get the block and the share of its own turn of the loop. -->
<!-- hint: Give `checkpoint` something that reads nothing that the loop changes: the block itself is the function to wrap, and the share can be multiplied outside. -->
"""


# %% solution="bug-hunt-shares"
def run_blocks(blocks, x, shares):
    """Return x after all blocks, each checkpointed, each adding its share of what it computes."""
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
    """Go there with one position of the dials, and back with another, each block by itself.

    Returns:
        the output, the gradient by x, those by the shares, and those by the weights' names.
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


def goes_through(count, width, inner, positions, *, needed=True, dropout=False):
    rows = check.draw.integer(7, 20)
    layers, state = draw_blocks(count, width, inner, [["Dropout", 0.5]] if dropout else [])
    shares = (1 + check.draw.permutation(count)) / (count + 1)
    x, grad_output = check.draw.normal(rows, width), check.draw.normal(rows, width)
    seed = check.draw.integer(0, 1_000_000)
    masks = draw_masks(count, x.shape, seed) if dropout else [torch.ones(x.shape)] * count
    faded = 0.5 * x, 0.5 * shares
    output, by_x, by_shares, slopes = block_by_block(
        state, x, shares, grad_output, positions, masks
    )
    got = check.call(
        probes.there_and_back,
        run_blocks,
        layers,
        x,
        shares,
        state=state,
        grad_output=grad_output,
        with_respect_to=(0, 1) if needed else (),
        dial_positions=positions,
        seed=seed,
        **({} if needed else {"steps": 2, "fading": 0.5}),
    )
    if not needed:
        again = block_by_block(state, *faded, grad_output, positions, masks)
        output, slopes = again[0], {name: slopes[name] + again[3][name] for name in slopes}
    check.close(got["output"], output, rtol=1e-4, atol=1e-4, what="the output")
    if needed:
        what = "the gradient by x"
        check.close(got["gradients"][0], by_x, rtol=1e-3, atol=1e-3, what=what)
    # Where the dials are turned, it depends on whether a share is multiplied inside or outside.
    if needed and positions[0] == positions[1]:
        what = "the gradient by shares"
        check.close(got["gradients"][1], by_shares, rtol=1e-3, atol=1e-3, what=what)
    for name, value in slopes.items():
        what = f"the gradient by {name}"
        check.close(got["parameters"][name], value, rtol=1e-3, atol=1e-3, what=what)


with check.property("one block"):
    goes_through(1, 4, 6, (1.0, 1.0))
with check.property("three blocks with the gradients of a plain run", weight=3):
    goes_through(3, 5, 7, (1.0, 1.0))
with check.property("each block runs again on the way back, from its own input", weight=2):
    goes_through(3, 5, 4, (0.5, check.draw.number(1.5, 2.0)))
with check.property("dropout in a block drops the same numbers on the way back"):
    goes_through(2, 6, 5, (1.0, check.draw.number(1.5, 2.0)), dropout=True)
with check.property(
    "blocks learn from data that need no gradient and are changed in place later", weight=0.5
):
    goes_through(2, 6, 4, (1.0, 1.5), needed=False)
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
<details><summary>What it was (open it when you have found it)</summary>

`shared` reads `self.block` and `self.share` when it **runs**. The first run happens in its own turn of the loop, and the loss is right. The second run happens on the
way back, after the loop: both attributes hold what the **last** turn left there. Every block is recomputed as if it were the last one, and its gradient is made of another block's numbers. The shapes fit, so nothing is noticed. Only the last
block's gradient is right.
</details>

The loop needs no class for this. `checkpoint(lambda h: share * block(h), x)` does the same, since names in a `lambda` are looked up when it runs, too (*late binding*). That form a linter can find: it is rule B023 of flake8-bugbear and ruff. For years nearly
each model of transformers had a small function `create_custom_forward(module)`, whose whole purpose was to bind the module. And it need not be a loop: whatever a block reads from outside (a mask in `self`, a global setting) is
read again later. The adapters library had to carry such a context over to the second run ([pull request 759](https://github.com/adapter-hub/adapters/pull/759)).

So the rule for a checkpointed function: **what it needs comes in through its arguments**, or does not change before the way back is done.
"""

# %% [markdown]
r"""
## In the wild

| what | where it is settled |
| --- | --- |
| PyTorch | [`torch.utils.checkpoint`](https://docs.pytorch.org/docs/stable/checkpoint.html): `checkpoint(function, *args, use_reentrant=, preserve_rng_state=, context_fn=, determinism_check=, debug=)`; `debug=True` tells which operations differed between the runs |
| segments | `checkpoint_sequential(functions, segments, input, use_reentrant=)`; it leaves the last segment unwrapped |
| selective | `create_selective_checkpoint_contexts` with a list of operations or a function that returns a `CheckpointPolicy` |
| somewhere else | [`torch.autograd.graph.save_on_cpu`](https://docs.pytorch.org/docs/stable/autograd.html#torch.autograd.graph.save_on_cpu)`(pin_memory=)`, and a [tutorial on the hooks](https://docs.pytorch.org/tutorials/intermediate/autograd_saved_tensors_hooks_tutorial.html) |
| transformers | `model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})`, or `TrainingArguments(gradient_checkpointing=True)` ([performance guide](https://huggingface.co/docs/transformers/perf_train_gpu_one)) |
| timm | `model.set_grad_checkpointing()` |
| DeepSpeed | [`activation_checkpointing`](https://www.deepspeed.ai/docs/config-json/#activation-checkpointing) in the configuration: `partition_activations`, `cpu_checkpointing`, `number_checkpoints` |
| Megatron-LM | `--recompute-granularity full` or `selective`, `--recompute-num-layers` ([repository](https://github.com/NVIDIA/Megatron-LM)) |
| torch.compile | decides by itself which results of a compiled region to compute again; an [activation memory budget](https://pytorch.org/blog/activation-checkpointing-techniques/) makes it decide for less memory |
| JAX, Flax | [`jax.checkpoint`](https://docs.jax.dev/en/latest/gradient-checkpointing.html) (also called `jax.remat`) with `policy=`; random numbers are arguments there, so they are the same twice |
"""

# %% [markdown]
r"""
## Recap

1. Autograd saves inputs of some operations, results of others, nothing for the rest; storages count once, and parameters are there anyway.
2. A checkpoint keeps a block's input and runs the block again on the way back: it gains what is saved inside, so a lone layer gains nothing.
3. In segments the peak is the inputs of the segments plus the inside of one; with inside and input equally large, about $\sqrt n$ segments of $\sqrt n$ blocks are best.
4. The price is a second way there for all but the last segment: at most a third more products where all weights are trained, at most half more where they are frozen, and the time that the wraps take.
5. The second run must do what the first did: the same random numbers, the same names, and no second entry in a running statistic.

### Test yourself

<details><summary>1. Linear, Sigmoid, Linear, all trainable, no checkpointing. Which tensors are kept, parameters left out?</summary>

Two: the data, for the first layer, and the result of the sigmoid, which the sigmoid and the second layer share.
</details>

<details><summary>2. Every Linear of a network is wrapped by itself. What does that gain?</summary>

Nothing. A linear layer keeps its input and its weight; the wrap keeps its input, and the weight is there anyway.
</details>

<details><summary>3. 100 equal blocks whose inside is as large as their input. How many segments, and which peak, in tensors?</summary>

Ten segments of ten blocks, 10 + 10 = 20 tensors where plain training has 101: the insides and one input.
</details>

<details><summary>4. A model has dropout inside of its checkpointed blocks, and was trained with preserve_rng_state=False. The losses printed are right. What is wrong?</summary>

The gradients: they belong to other masks than those of the loss.
</details>

<details><summary>5. Fine-tuning with frozen embeddings and use_reentrant=True: the loss falls, but slowly. Why?</summary>

The first wrapped block gets an input that needs no gradient, so its output needs none, and so on. No wrapped block is trained; only what is not wrapped learns, the head for instance.
</details>

### References

- PyTorch documentation, ["torch.utils.checkpoint"](https://docs.pytorch.org/docs/stable/checkpoint.html), and ["Autograd mechanics"](https://docs.pytorch.org/docs/stable/notes/autograd.html), "Saved tensors" and "Hooks for saved tensors".
- PyTorch documentation, ["CUDA semantics"](https://docs.pytorch.org/docs/stable/notes/cuda.html), "Memory management" and "cuBLAS workspaces".
- T. Chen, B. Xu, C. Zhang, C. Guestrin, "Training Deep Nets with Sublinear Memory Cost", [arXiv:1604.06174](https://arxiv.org/abs/1604.06174), 2016, sections 4.1 to 4.3.
- A. Griewank, A. Walther, "Algorithm 799: revolve: an implementation of checkpointing for the reverse or adjoint mode of computational differentiation", *ACM Transactions on Mathematical Software* 26(1), 2000.
- V. Korthikanti and others, "Reducing Activation Recomputation in Large Transformer Models", [arXiv:2205.05198](https://arxiv.org/abs/2205.05198), 2022, section 5.
- P. Jain and others, "Checkmate: Breaking the Memory Wall with Optimal Tensor Rematerialization", [arXiv:1910.02653](https://arxiv.org/abs/1910.02653), 2019.

### Glossary

| English | 中文 | meaning |
| --- | --- | --- |
| activation | 激活值 | an intermediate result that is kept for the way back |
| activation checkpointing | 激活检查点 | keep a block's input, compute its inside again on the way back |
| recomputation | 重计算 | the second run of a block |
| saved tensor | 保存的张量 | what autograd keeps for an operation's derivative |
| storage | 存储 | the memory behind a tensor; several tensors can share one |
| peak memory | 峰值内存 | the most bytes that are alive at once |
| workspace | 工作区 | memory that a library keeps for itself |
| segment | 分段 | neighboring blocks that are checkpointed as one |
| hook | 钩子 | a function of yours that is called when something happens |
| reentrant | 可重入 | here: a way back inside of a way back |
| early stop | 提前停止 | a second run ends when the last needed tensor is there |
| selective checkpointing | 选择性检查点 | keep the results of some operations of a block, compute the others again |
| offloading | 卸载 | keep saved tensors elsewhere, in the CPU's memory or a file |
| late binding | 延迟绑定 | a name in a function is looked up when the function runs |
| running statistics | 运行统计量 | the averages that batch norm uses in eval mode |
"""

# %%
progress("06")
