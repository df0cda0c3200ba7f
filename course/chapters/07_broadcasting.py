# %% [markdown]
"""
# 07 · Broadcasting and vectorization

The points below lie near a line. A linear layer with one weight and one bias is trained on them for 300 steps, without an error or a warning. Does it find the line?

**中文**: 本章讲广播与向量化：广播规则、零步长与 expand、以广播代替平铺与拼接、运算符重载、循环与向量化的代价、批量 gather、带掩码的均值、图中断（graph break），以及对形状的检查。
"""

# %% tags=["needed"] folded="Imports"
import logging
import math
import time
import warnings

import torch
from torch import nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from helpers import (
    COLORS,
    Check,
    explore_broadcast,
    failing,
    hint,
    new_figure,
    peak_bytes,
    predict,
    predictions,
    probes,
    progress,
    saved_bytes,
    show,
    show_drawing,
    time_ratio,
)

device = "cuda" if torch.cuda.is_available() else "cpu"
# One thread, so that the measured ratios do not depend on what the other cores are doing.
torch.set_num_threads(1)


# %% folded="Data, and a training loop"
def draw_line(count=200):
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(count, 1, generator=generator) * 4 - 2
    y = 1.5 * x[:, 0] + 0.5 + 0.2 * torch.randn(count, generator=generator)
    return x, y


def train_line(loss_function, steps=300):
    """Return a trained linear layer and the loss of each step."""
    torch.manual_seed(0)
    x, y = draw_line()
    model = nn.Linear(1, 1)
    nn.init.constant_(model.weight, -1.5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(steps):
        loss = loss_function(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return model, losses


# %%
def loss_from_the_wild(prediction, target):
    return ((prediction - target) ** 2).mean()


wild_model, wild_losses = train_line(loss_from_the_wild)
x, y = draw_line()

# %% folded="Predict: what the layer learns"
KINDS = (
    "the line through the points",
    "a horizontal line",
    "a falling line",
    "nothing: the loss is nan",
)
slope = wild_model.weight.item()
predict(
    "07/flat-line",
    "The points rise with a slope of 1.5. What has the layer learned after 300 steps?",
    KINDS[1 if abs(slope) < 0.1 else 0 if slope > 0.1 else 2],
    "The layer has learned a horizontal line. This chapter's bug hunt asks why.",
    choices=KINDS,
)

# %% folded="Figure 7.1: what the layer learned"
figure, (left, right) = new_figure(1, 2, height=3.0)
left.plot(x[:, 0], y, ".", ms=4, color=COLORS["sky"], label="points")
ends = torch.tensor([[-2.0], [2.0]])
left.plot(
    ends[:, 0], wild_model(ends).detach()[:, 0], color=COLORS["vermilion"], label="learned line"
)
left.set(title="A flat line", xlabel="x (no unit)", ylabel="y (no unit)")
left.legend()
right.plot(range(1, len(wild_losses) + 1), wild_losses, color=COLORS["vermilion"])
right.set(title="Training loss", xlabel="training step", ylabel="loss", ylim=(0, None))
show(
    figure,
    number="7.1",
    caption="The learned line is horizontal. The loss falls, then levels off at about 3.",
    alt="Left, points along a rising line, from minus 2.5 at the left to 3.5 at the right; the learned line is horizontal and passes through their middle. "
    "Right, the loss falls within the first 20 of 300 steps and stays at about 3.",
)

# %%
print(
    f"slope {round(slope, 2) + 0.0:.2f}, intercept {wild_model.bias.item():.2f}, loss {wild_losses[-1]:.1f}"
)

# %% [markdown]
"""
> **After this chapter, you will be able to**
>
> - predict the shape of `x + y`, and explain why neither operand is copied;
> - replace tiling and concatenation with a layer that broadcasts;
> - compute distances, gathers and masked means without a loop over rows;
> - explain what a graph break is, and find one;
> - find the flaw in the loss above, and guard against it.
>
> **Time**: 55 minutes to read and run, 120 for the six exercises.
>
> **Prerequisites**: tensors and modules (chapter 00).
"""

# %% [markdown]
"""
## The rule

Add a column and a row that both hold the numbers 1 and 2, and sum the result.
"""

# %%
column = torch.tensor([[1.0], [2.0]])
row = torch.tensor([1.0, 2.0])
total = (column + row).sum()

# %% folded="Predict: the sum"
predict(
    "07/sum",
    "The column holds 1 and 2, and so does the row. What is `(column + row).sum()`?",
    f"{total.item():g}",
    "PyTorch adds every entry of the column to every entry of the row: 2, 3, 3 and 4.",
    choices=("4", "6", "12", "an error"),
)

# %% folded="Drawing: column and row"
show_drawing(
    "07/four-sums",
    number="7.2",
    caption="Shapes (2, 1) and (2,) give shape (2, 2). Dashed boxes are not stored: the addition reads the same number again.",
    alt="A column with 1 above 2, and beside each number a dashed box with the same number. A row with 1 and 2, and below each number a dashed box with the same number. Their sum is a table of four numbers: 2 and 3 above 3 and 4.",
)

# %%
print("the sum of all entries:", total.item())
print("the sum over axis 0:   ", (column + row).sum(0).tolist())

# %% [markdown]
"""
`sum()` alone hides the fact that the result is a table; summing over axis 0 reveals it.

### Aligned at the right

**Broadcasting** is PyTorch's rule for operands of different shapes. Write one shape below the other, **aligned on the right**, and put a 1 where the shorter one has no axis. Then, for each axis:

- if the sizes are equal, the result has that size;
- if one size is 1, the result has the other size, and the entries along that axis are repeated;
- otherwise, PyTorch raises an error.

Change the sizes below, or the number of axes. Filled squares are stored; outlined ones stand for copies that an element-wise operation never makes. The next section explains the strides. For which shapes would copying increase memory use by the largest factor?
"""

# %%
explore_broadcast((8, 30, 64), (64,))

# %% [markdown] exercise="broadcast-shape" points=4 minutes=15 difficulty=1
"""
### The shape of a result

Two tensors can be checked before anything is computed. Write a function that says which shape their sum would have.

`broadcast_shape(*shapes) -> tuple or None`

- **In**: one or more shapes, each a tuple of nonnegative integers, perhaps in the millions; a shape may be empty.
- **Out**: a tuple of integers, the shape that tensors of all these shapes broadcast to; **None** if they do not fit. A size of 0 is a size like any other: 0 and 1 give 0; 0 and 3 do not fit.
- **Limits**: all of torch is allowed, including any function that implements the rule.

`broadcast_shape((5, 1, 4), (3, 1))` returns `(5, 3, 4)`, and `broadcast_shape((3, 2), (3, 4))` returns `None`.

<!-- hint: At which end do you begin? What replaces an axis that a shorter shape lacks? -->
<!-- hint: Pad every shape with ones on the left, up to the longest length. Then treat each axis by itself: which sizes other than 1 occur in it? -->
<!-- hint: For each axis, take the set of its sizes without the 1. It is empty (the result is 1), or it has one member (the result) or several (None). `zip(*padded)` walks through the axes of the padded shapes. -->
"""


# %% solution="broadcast-shape"
def broadcast_shape(*shapes):
    """Return the shape that tensors of these shapes broadcast to, or None."""
    ### BEGIN SOLUTION
    longest = max(len(shape) for shape in shapes)
    filled = [(1,) * (longest - len(shape)) + tuple(shape) for shape in shapes]
    result = []
    for sizes in zip(*filled, strict=True):
        others = {size for size in sizes if size != 1}
        if len(others) > 1:
            return None
        result.append(others.pop() if others else 1)
    return tuple(result)
    ### END SOLUTION


# %% test="broadcast-shape"
check = Check("broadcast-shape")


def gives(expected, *shapes):
    check.equal(check.call(broadcast_shape, *shapes), expected)


# None of the three divides another.
a, b, c = ((4, 6, 9), (5, 7, 9), (4, 7, 10), (6, 8, 11))[check.draw.integer(0, 4)]
with check.property("equal sizes, and a 1 on either side"):
    gives((a, b), (a, b), (a, b))
    gives((a, b), (a, 1), (a, b))
    gives((a, b), (1, b), (a, 1))
with check.property("shapes of different lengths are aligned at the right", weight=2):
    gives((a, b, c), (a, b, c), (c,))
    gives((a, b, c), (b, 1), (a, 1, c))
    gives((1, a, 1), (a, 1), (1, 1, 1))
    gives((a, b, c), (c,), (a, b, 1))
with check.property("sizes that do not fit give None", weight=2):
    gives(None, (a, b), (a, c))
    gives(None, (a, b), (a,))
    gives(None, (4, a), (2, a))
    gives(None, (1,), (a,), (b,))
    gives(None, (a,), (1,), (b,))
    gives(None, (a,), (b,), (1,))
with check.property("the empty shape, one shape, several shapes, many axes, and sizes of 0"):
    gives((a, b), (), (a, b))
    gives((), ())
    gives((1, 1), (1,), (1, 1))
    gives((a, 1, b), (a, 1, b))
    gives((a, b, c), (a, 1, 1), (b, 1), (c,))
    gives((a, b, c), (c,), (b, 1), (), (a, 1, 1))
    gives((a, 1, b, 1, 1, c), (a, 1, 1, 1, 1, c), (b, 1, 1, 1))
    gives((0, a), (0, 1), (1, a), (1, 1))
    gives((a, 0), (a, 0), (1, 0), (0,))
    gives((10**7, 10**7), (10**7, 1), (1, 10**7))  # of zeros, 400 terabytes
    gives(None, (0,), (a,))
    gives(None, (a,), (0,))
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("three and four shapes; two of them fit and the third does not"):
    gives(None, (1, 1), (b, 1), (c, 1))
    gives((c, 1, a, b), (1,), (a, 1), (1, 1, b), (c, 1, 1, 1))
    gives(None, (a, 1), (1, b), (c, b))
    gives(None, (1, b), (a, 1), (1, c))
with check.property("sizes of 0 in other positions"):
    gives(None, (a, 0), (a, b))
    gives((a, 0), (a, 0), (0,))
    gives((0, 1), (0, 1), (1,))
### END HIDDEN TESTS
check.score()

# %% [markdown]
"""
## Repeated without a copy

For each axis, a tensor has a **stride**: the distance in memory, in entries, to the next entry along it. Along a repeated axis, the stride can be **0**. `expand` and `repeat` both repeat an axis, but only one of them copies.
"""

# %%
small = torch.tensor([[1.0], [2.0], [3.0]])
wide = small.expand(3, 1000)
tiled = small.repeat(1, 1000)

# %% folded="Predict: a thousand columns"
predict(
    "07/expanded",
    "A float32 takes 4 bytes. How many bytes of memory hold the entries of `wide`?",
    f"{wide.untyped_storage().nbytes():,}",
    "`wide` is a view: all of its 3,000 entries are read from the three numbers of `small`. `repeat` copies.",
    choices=("12", "4,000", "12,000"),
)

# %% folded="Drawing: strides of an expanded tensor"
show_drawing(
    "07/strides",
    number="7.3",
    caption="The view `small.expand(3, 4)`. One step down is one number further in memory; one step across is the same number.",
    alt="Left, three numbers in memory: 1, 2 and 3. Right, a table of three rows and four columns of dashed boxes; each row repeats one number, and an arrow leads from the row to that number in memory. Below: down plus 1, across plus 0.",
)

# %%
for name, tensor in (("small", small), ("expand", wide), ("repeat", tiled)):
    size = tensor.untyped_storage().nbytes()
    print(f"{name:<7} {tuple(tensor.shape)!s:<10} stride {tensor.stride()!s:<10} {size:>6} bytes")

# %% [markdown]
r"""
### Many entries, one memory location

Do not write into an expanded tensor, because many of its entries share one memory location:
"""

# %%
wide[0, 0] = 9.0
print("one entry written:", wide[0, :3].tolist(), "and small is", small.flatten().tolist())
try:
    wide += 1.0
except RuntimeError as error:
    print("wide += 1.0:", str(error)[:67], "…")
wide.zero_()
print("zero_() runs, and small is", small.flatten().tolist())

# %% [markdown]
"""
Writing one entry changed a whole row and also `small`. PyTorch refuses `wide += 1.0`, but not `wide.zero_()`.

### Repeated forward, summed backward

The gradient with respect to a repeated entry is **summed** over all its uses.
"""

# %%
bias = torch.zeros(4, requires_grad=True)
(torch.ones(10, 3, 4) + bias).sum().backward()

# %% folded="Predict: the gradient of a bias"
predict(
    "07/bias",
    "The result is summed, so each of its entries has the gradient 1. What is each entry of `bias.grad`?",
    bias.grad[0].item(),
    "Each entry of the bias was used 10 × 3 times. The gradient has the bias's own shape, (4,).",
    between=(0, 120),
)

# %%
print("gradient of the bias:", bias.grad.tolist())

# %% [markdown]
r"""
## Instead of tiling and concatenating

Each of a text's 30 words has 50 features of its own, and the text has 200. A linear layer should see both. The obvious way repeats the text's features for each word (**tiling**) and concatenates them with the word's own. But

$$W \begin{bmatrix} a \\ b \end{bmatrix} = W_a a + W_b b,$$

where the blocks $W_a$ and $W_b$ hold the columns of $W$ that multiply the word's features $a$ and the text's features $b$. Multiply each input by its own block, then add the products. The addition broadcasts, and the product with the text's features is computed once for each text.
"""

# %% folded="Drawing: concatenate, or split the weight"
show_drawing(
    "07/merge",
    number="7.4",
    caption="Both ways compute the same numbers for the 30 words of a text. Concatenating copies the text's features 30 times; the sum of two products does not.",
    alt="Above, words of shape (30, 50) beside 30 copies of the text, together of shape (30, 200), multiplied by the transposed W, give (30, 64). Below, words times the first block give (30, 64), the text of shape (1, 200) times the second block gives (1, 64), and their sum has the shape (30, 64).",
)

# %% [markdown]
"""
A linear layer saves its input for the backward pass, to compute the gradient of its weight. How many bytes does each way store? `saved_bytes` counts them, excluding the parameters.
"""

# %% folded="Measure: what both ways save for the backward pass"
torch.manual_seed(0)
linear, of_words, of_text = nn.Linear(250, 64), nn.Linear(50, 64), nn.Linear(200, 64, bias=False)
with torch.no_grad():  # the same weights in one layer and in two
    linear.weight.copy_(torch.cat([of_words.weight, of_text.weight], dim=1))
    linear.bias.copy_(of_words.bias)
parameters = [p for layer in (linear, of_words, of_text) for p in layer.parameters()]


def by_tiles(words, text):
    tiled = text.repeat(1, words.shape[1], 1)
    return torch.relu(linear(torch.cat([words, tiled], dim=2)))


def by_blocks(words, text):
    return torch.relu(of_words(words) + of_text(text))


counts = (1, 10, 30, 100, 300)
text = torch.randn(8, 1, 200)
kept = {by_tiles: [], by_blocks: []}
for count in counts:
    words = torch.randn(8, count, 50)
    for way, sizes in kept.items():
        saved = saved_bytes(lambda w=way, x=words: w(x, text), except_for=parameters)
        sizes.append(saved.bytes / 1e6)
words = torch.randn(8, 30, 50)
is_same = torch.allclose(by_tiles(words, text), by_blocks(words, text), atol=1e-5)
print("equal up to rounding:", is_same)
for way, sizes in kept.items():
    print(
        f"{way.__name__:<10} stores {sizes[2]:.3f} MB for 8 × 30 words, {sizes[4]:.3f} MB for 8 × 300"
    )
multiplications = 8 * 30 * 250 * 64, 8 * 30 * 50 * 64 + 8 * 200 * 64
print("multiplications for 8 × 30 words: by_tiles {:,}, by_blocks {:,}".format(*multiplications))

# %% folded="Figure 7.5: bytes saved for the backward pass"
figure, axes = new_figure(height=2.9)
for sizes, label, color, marker in zip(
    kept.values(),
    ("tile, concatenate", "split the weight"),
    ("vermilion", "blue"),
    "os",
    strict=True,
):
    axes.loglog(counts, sizes, marker, linestyle="-", color=COLORS[color], label=label)
axes.set_xticks(counts, [str(count) for count in counts])
axes.minorticks_off()
axes.set(title="Saved for the backward pass", xlabel="words in each of 8 texts", ylabel="MB")
axes.legend()
show(
    figure,
    number="7.5",
    caption="Memory that the layer and its ReLU save for the backward pass, excluding the parameters. Most of what tiling stores is copies of the text's features.",
    alt="Saved MB against the number of words, both logarithmic. From 10 words on, tiling stores about two to three times as much as splitting the weight; for 300 words, 3.0 versus 1.1 MB.",
)

# %% tags=["nbval-ignore-output"] folded="Measure: how long each way takes"
print(
    "by_tiles takes",
    time_ratio(lambda: by_tiles(words, text), lambda: by_blocks(words, text)),
    end=" ",
)
print("as long as by_blocks")

# %% [markdown] exercise="merge-layer" points=6 minutes=30 difficulty=3
"""
### A layer that merges

A model may combine the features of a word, its sentence, its text and its author. Write a linear layer that broadcasts any number of inputs.

`Merge(sizes, outputs, activation=None)`, an `nn.Module`

- **In** `sizes`: a nonempty list with the number of features of each input. `activation`: a function of a tensor, or None. `forward(*inputs)` takes one tensor of shape (..., size) for each size; the leading axes broadcast.
- **Out**: the result of concatenation, a linear layer and then the activation, of shape (..., outputs). Gradients reach the inputs, the weight and the bias.
- **Parameters**: `weight`, of shape (outputs, sum of the sizes), and `bias`, of shape (outputs,), as in `nn.Linear(sum(sizes), outputs)`, with the columns in the order of the inputs. Set them to initial values of your choice, but no two outputs may start with the same weights, because they could then stay equal in training.
- **Limits**: no input is tiled, and no copy of a contiguous input is saved for the backward pass.

`Merge([50, 200], 64)(torch.randn(8, 30, 50), torch.randn(8, 1, 200)).shape` is `torch.Size([8, 30, 64])`.

<!-- hint: Which columns of the weight belong to which input? Which terms do you add, and why do their shapes fit? -->
<!-- hint: `split` cuts the weight along axis 1 into blocks of the given sizes. Each input times its own block, transposed, has the outputs as its last axis. Add these products and the bias, then apply the activation if there is one. -->
<!-- hint: Loop over `zip(inputs, blocks)`, and start the sum with the bias. Every term broadcasts against the sum so far. -->
"""


# %% solution="merge-layer"
class Merge(nn.Module):
    """A linear layer over inputs that broadcast instead of being tiled and concatenated."""

    def __init__(self, sizes, outputs, activation=None):
        ### BEGIN SOLUTION
        super().__init__()
        self.sizes = list(sizes)
        self.activation = activation
        bound = 1 / math.sqrt(sum(sizes))
        self.weight = nn.Parameter(torch.empty(outputs, sum(sizes)).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(outputs).uniform_(-bound, bound))
        ### END SOLUTION

    def forward(self, *inputs):
        ### BEGIN SOLUTION
        blocks = self.weight.split(self.sizes, dim=1)
        merged = self.bias
        for x, block in zip(inputs, blocks, strict=True):
            merged = merged + x @ block.T
        return merged if self.activation is None else self.activation(merged)
        ### END SOLUTION


# %% test="merge-layer"
check = Check("merge-layer")


def drawn_state(sizes, outputs):
    return {"weight": drawn(outputs, sum(sizes)), "bias": drawn(outputs)}


def by_concatenation(inputs, state):
    shape = torch.broadcast_shapes(*(x.shape[:-1] for x in inputs))
    wide = [x.double().expand(*shape, x.shape[-1]) for x in inputs]
    result = functional.linear(
        torch.cat(wide, dim=-1), state["weight"].double(), state["bias"].double()
    )
    return result.float()


def drawn(*shape):
    return check.draw.normal(*shape, equal_sizes=True)


def drawn_inputs(sizes, shapes):
    return [drawn(*shape, size) for shape, size in zip(shapes, sizes, strict=True)]


def merges(sizes, outputs, *shapes, another=()):
    state, inputs = drawn_state(sizes, outputs), drawn_inputs(sizes, shapes)
    steps = [("load", state), *another, ("call", *inputs), ("call", *inputs)]
    *_, got, again = check.call(probes.module, Merge, sizes, outputs, steps=steps)
    what = f"leading axes {' and '.join(map(str, shapes))}"
    what += ", once another layer was made" if another else ""
    expected = by_concatenation(inputs, state)
    check.close(got, expected, rtol=1e-4, atol=1e-4, what=what)
    check.close(again, expected, rtol=1e-4, atol=1e-4, what=what + ", in a second call")


def saves_its_inputs(sizes, *inputs):
    state = drawn_state(sizes, 3)
    got = check.call(probes.saved_by_module, Merge, sizes, 3, inputs=list(inputs), state=state)
    check.close(got["output"], by_concatenation(inputs, state), rtol=1e-4, atol=1e-4)
    told = f"besides inputs and parameters, {got['bytes']} bytes were saved for the backward pass"
    # Some bytes, for copies of the weight's blocks and for the places at which it is cut.
    check.true(got["bytes"] <= 4 * state["weight"].numel() + 64, told)


def tiles_nothing_without_gradients(sizes, widest, *inputs):
    """Without gradients nothing is saved: look at the memory that is in use at once."""
    state = drawn_state(sizes, 3)
    got = check.call(probes.saved_by_module, Merge, sizes, 3, inputs=list(inputs), state=state)
    shape = torch.broadcast_shapes(*(x.shape[:-1] for x in inputs))
    tiled = 4 * math.prod(shape) * widest
    told = "under torch.no_grad(), as much memory was in use as for a tiled input: "
    told += f"{got['peak']} bytes; {widest} features, tiled, take {tiled}"
    check.true(got["peak"] < tiled, told)


with check.property(
    "weight and bias have the shapes of a single linear layer; no two outputs start equal"
):
    for sizes, outputs in (([4, 2, 3], 5), ([1, 2], 6)):
        (parameters,) = check.call(probes.module, Merge, sizes, outputs, steps=[("parameters",)])
        shapes = {name: list(value.shape) for name, value in parameters.items()}
        check.equal(shapes, {"weight": [outputs, sum(sizes)], "bias": [outputs]})
        different = len(parameters["weight"].unique(dim=0))
        for name, value in parameters.items():
            finite = bool(value.isfinite().all())
            told = (
                f"the initial {name} contains inf or nan; memory that nothing has set counts as nan"
            )
            check.true(finite, told)
        told = f"distinct rows of the initial weight: {different} of {outputs}"
        check.true(different == outputs, told)
with check.property(
    "two inputs with equal leading axes: the result of concatenation and a linear layer"
):
    merges([3, 5], 4, (6, 7), (6, 7))
with check.property("leading axes broadcast", weight=2):
    merges([3, 5], 4, (6, 7), (6, 1))
    merges([2, 4], 3, (5, 1), (1, 8))
    merges([3, 2], 5, (4, 6, 7), (7,))
    merges([4, 2], 3, (), (6, 1))
    merges([2, 5], 1, (1, 8), (1,))
with check.property("one input, and three to five, without an activation; two layers at once"):
    merges([4], 6, (3, 5))
    merges([2, 5, 3], 4, (6, 1), (1, 7), (6, 7))
    merges([3, 2, 3], 5, (6, 1), (7,), (6, 7))
    merges([2, 3, 1, 4], 3, (6, 1), (7,), (6, 7), (1,))
    merges([1, 3, 2, 3, 2], 4, (7,), (6, 1), (), (5, 1, 1), (6, 7))
    merges([3, 5], 4, (6, 7), (6, 1), another=[("another", [5, 3], 4), ("another", [2], 6)])
with check.property("nothing is tiled: no copies of inputs are saved", weight=2):
    saves_its_inputs([6, 8], drawn(5, 30, 6), drawn(5, 30, 8))
    saves_its_inputs([7, 7], drawn(5, 30, 7), drawn(5, 1, 7))
    n = check.draw.integer(41, 60)
    saves_its_inputs([6, 40], check.draw.normal(5, n, 6), check.draw.normal(5, 1, 40))
    saves_its_inputs([40, 6], check.draw.normal(5, 1, 40), check.draw.normal(5, n, 6))
    saves_its_inputs([3, 5], drawn(6, 7, 3), drawn(6, 1, 5))
    saves_its_inputs([2, 4], drawn(5, 1, 2), drawn(1, 8, 4))
    n = check.draw.integer(9, 16)
    narrow = [check.draw.normal(1, n, 20), check.draw.normal(8, 1, 30)]
    saves_its_inputs([20, 30, 2], *narrow, check.draw.normal(8, n, 2))
    sizes = [20, 8, 30, 2, 9]  # fewer axes, and more inputs
    leading = [(5, n), (n,), (), (5, n), (5, 1)]
    saves_its_inputs(sizes, *drawn_inputs(sizes, leading))
    saves_its_inputs(sizes[:2], *drawn_inputs(sizes[:2], leading[:2]))
    n = check.draw.integer(41, 60)
    word, text = check.draw.normal(5, n, 2), check.draw.normal(5, 1, 80)
    tiles_nothing_without_gradients([2, 80], 80, word, text)
with check.property("gradients reach weight, bias and every input, even after an update"):
    of_two, of_four = ((7,), (4, 1)), ((4, 1), (7,), (), (4, 7))
    for sizes, shapes in (([5, 2], of_two), ([2, 4, 3, 4], of_four), ([3], ((4, 7),))):
        inputs, grad_output = drawn_inputs(sizes, shapes), drawn(4, 7, 3)
        states = drawn_state(sizes, 3), drawn_state(sizes, 3)
        steps = [
            step
            for state in states
            for step in (("load", state), ("gradients", inputs, grad_output))
        ]
        _, *seen = check.call(probes.module, Merge, sizes, 3, steps=steps)
        for state, got, when in zip(states, seen[::2], ("", ", after an update"), strict=True):
            leaves = [x.clone().requires_grad_(True) for x in (*inputs, *state.values())]
            output = by_concatenation(leaves[:-2], dict(zip(state, leaves[-2:], strict=True)))
            *expected, weight, bias = torch.autograd.grad(output, leaves, grad_output)
            what = f"gradients with respect to the inputs, {len(sizes)} in number{when}"
            check.close(got["gradients"], expected, rtol=1e-4, atol=1e-4, what=what)
            what = f"gradients with respect to the parameters{when}"
            expected = {"weight": weight, "bias": bias}
            check.close(got["parameters"], expected, rtol=1e-4, atol=1e-4, what=what)
with check.property("the activation is applied last"):
    for sizes, name in (([3, 4], "tanh"), ([4], "sin"), ([3, 4, 2], "sigmoid")):
        state, inputs = drawn_state(sizes, 5), [drawn(6, size) for size in sizes]
        grad_output = drawn(6, 5)
        steps = [("load", state), ("call", *inputs), ("gradients", inputs, grad_output)]
        functions = {"activation": name}
        _, got, seen = check.call(probes.module, Merge, sizes, 5, steps=steps, functions=functions)
        weight = state["weight"].clone().requires_grad_(True)
        expected = getattr(torch, name)(by_concatenation(inputs, state | {"weight": weight}))
        check.close(
            got, expected.detach(), rtol=1e-4, atol=1e-4, what=f"number of inputs: {len(sizes)}"
        )
        (slope,) = torch.autograd.grad(expected, weight, grad_output)
        what = "the weight's gradient through the activation"
        check.close(seen["parameters"]["weight"], slope, rtol=1e-4, atol=1e-4, what=what)
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("inputs without leading axes, and different numbers of leading axes"):
    merges([3, 4], 5, (), ())
    merges([3, 4], 5, (), (6, 2))
    merges([2, 2], 3, (7,), (4, 7))
### END HIDDEN TESTS
check.score()

# %% [markdown]
"""
## Operators, and what they call

Operators on tensors are **overloaded**: `x + y` does what `torch.add(x, y)` does. A `TorchFunctionMode` intercepts each torch call from Python and can record the function's name. Some recorded names, such as `__and__`, are Python's own names for operators.
"""


# %% folded="Names, a record of the functions called"
class Names(TorchFunctionMode):
    """Records the name of every torch function that is called."""

    def __init__(self):
        super().__init__()
        self.heard = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.heard.append(function.__name__)
        return function(*args, **(kwargs or {}))


x, y = torch.tensor([5, 3]), torch.tensor([2, 3])
yes, no = torch.tensor([True, True]), torch.tensor([True, False])
EXPRESSIONS = {
    "-x": lambda: -x,
    "x + y": lambda: x + y,
    "x / y": lambda: x / y,
    "x // y": lambda: x // y,
    "x % y": lambda: x % y,
    "x ** y": lambda: x**y,
    "x == y": lambda: x == y,
    "x < y": lambda: x < y,
    "x & y": lambda: x & y,
    "x ^ y": lambda: x ^ y,
    "~x": lambda: ~x,
    "yes ^ no": lambda: yes ^ no,
    "~no": lambda: ~no,
    "x[0:1]": lambda: x[0:1],
}

# %%
print("x is", x.tolist(), " y is", y.tolist(), " yes is", yes.tolist(), " no is", no.tolist())
for text_of_it, expression in EXPRESSIONS.items():
    with Names() as names:
        result = expression()
    print(f"{text_of_it:<9} {', '.join(names.heard):<20} {result.tolist()}")
try:
    yes and no
except RuntimeError as error:
    print("yes and no:", error)

# %% [markdown]
"""
`&`, `|`, `^` and `~` work on *bits*. For Booleans, the result is the logical one; for integers, it is not: `~5` is −6. `torch.logical_xor` and `torch.logical_not` treat every nonzero number as true.

`and`, `or` and `not` cannot be overloaded. They ask for *one* truth value, which a tensor with several entries does not have.
"""

# %% [markdown]
"""
## What a call costs

Indexing and slicing are calls, too. Sum the 500 rows of a matrix in three ways: with the two functions below and with `matrix.sum(dim=0)`. `unbind` returns all rows in one call.
"""

# %%
matrix = torch.rand(500, 10)


def by_indexing():
    total = torch.zeros(10)
    for place in range(500):
        total += matrix[place]


def by_unbind():
    total = torch.zeros(10)
    for vector in matrix.unbind():
        total += vector


# %% folded="Measure: how often each way calls torch"
def by_sum():
    return matrix.sum(dim=0)


calls = {}
for function in (by_indexing, by_unbind, by_sum):
    with Names() as names:
        function()
    calls[function.__name__] = len(names.heard)

# %% folded="Predict: calls with unbind"
predict(
    "07/calls",
    "`by_indexing` makes 1,001 calls: one `zeros`, 500 lookups and 500 additions. How many does `by_unbind` make?",
    calls["by_unbind"],
    "It makes one call to `zeros`, one to `unbind`, and still 500 additions.",
    between=(1, 1001),
)

# %% tags=["nbval-ignore-output"] folded="Measure: how long each way of summing takes"
print("indexing takes", time_ratio(by_indexing, by_unbind, seconds=0.5), "as long as unbind")
print("unbind takes", time_ratio(by_unbind, by_sum, seconds=0.5), "as long as sum")


def shortest(function, rounds=150):
    """Return the seconds that one call takes, in the fastest of many rounds."""
    start = time.perf_counter()
    function()
    repeats = max(1, int(2e-3 / (time.perf_counter() - start + 1e-6)))
    rounds_took = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(repeats):
            function()
        rounds_took.append((time.perf_counter() - start) / repeats)
    return min(rounds_took)


entries, ratios = (1, 10, 100, 1000, 10_000, 100_000), []
several = [torch.ones(count) for count in entries]
seconds = [shortest(lambda t=t: t + t) for t in several]
for count, ratio in zip(entries, (took / seconds[0] for took in seconds), strict=True):
    ratios.append(ratio)
    print(f"entries to add: {count:>7,}   time, relative to one entry: {ratio:.1f}")

# %% tags=["nbval-ignore-output"] folded="Figure 7.6: what an addition costs"
figure, axes = new_figure(height=2.9)
axes.loglog(entries, ratios, "o-", color=COLORS["blue"])
axes.set_yticks([1, 2, 5, 10, 20], ["1", "2", "5", "10", "20"])
axes.minorticks_off()
axes.set_xticks(entries, [f"{count:,}" for count in entries])
axes.set(title="One call of t + t", xlabel="entries of t", ylabel="time, relative to one entry")
show(
    figure,
    number="7.6",
    caption="The time that one call takes on this machine. Where the curve is flat, the call itself costs more than its additions.",
    alt="Time of an addition against the number of entries, relative to one entry, both logarithmic. The curve is flat at first and rises for large tensors.",
)

# %%
for name, count in calls.items():
    print(f"{name:<11} {count:>5} calls")

# %% [markdown]
"""
All three ways add the same 5,000 numbers. They differ in the number of calls, and each call has a fixed cost: Python looks up the method, and PyTorch checks the arguments and selects the compiled code to run. So replace a loop over rows with one operation on the whole tensor. This is **vectorization**.

### Index tensors broadcast

Square brackets can take one index tensor for each axis. Below, two of them broadcast, and each pair of indices selects one entry.
"""

# %%
square = torch.arange(16).reshape(4, 4)
chosen_rows, chosen_columns = torch.tensor([[0], [3]]), torch.tensor([1, 2])
print("shapes:", tuple(chosen_rows.shape), "and", tuple(chosen_columns.shape))
print("entries:", square[chosen_rows, chosen_columns].tolist())

# %% [markdown]
"""
The pairs are (0, 1), (0, 2), (3, 1) and (3, 2).
"""

# %% [markdown] exercise="batch-gather" points=5 minutes=20 difficulty=2
"""
### Gather in a batch

For each text, a model keeps its few best candidates, at indices that differ from text to text. Write the function that selects them.

`batch_gather(table, index) -> Tensor`

- **In** `table`: shape (b, n, ...), any dtype, with any number of further axes, or none. `index`: shape (b, k), int64, entries from 0 to n − 1. Neither need be contiguous. b, n and k may be equal.
- **Out**: shape (b, k, ...), `output[i, j] = table[i, index[i, j]]`. Gradients flow to the table. `table` and `index` do not change.
- **Limits**: **no loop** in any form: no `for` or `while`, no comprehension, no recursion, no `map` or `torch.vmap`, and no library function that calls one of yours. Nor use the functions `gather_by_...` below. The check reads the code that your function uses; if it finds any of these, nothing else counts. If your code has a special method, such as `__getitem__`, a person looks at it before the points count.

`batch_gather(torch.tensor([[10, 11, 12], [20, 21, 22]]), torch.tensor([[2], [0]]))` returns `tensor([[12], [20]])`.

<!-- hint: Square brackets with two index tensors select one entry for each pair. Which index tensor must go with `index`, and what is its shape? -->
<!-- hint: Take the row numbers 0, 1, ..., b - 1 as a column: (b, 1) broadcasts against (b, k). The axes after the two indexed ones are kept. -->
<!-- hint: `torch.arange(len(table))[:, None]` is the column; it goes first inside the brackets, `index` second. -->
"""


# %% solution="batch-gather"
def batch_gather(table, index):
    """Return ``table[i, index[i, j]]`` for all i and j, of shape (b, k, ...)."""
    ### BEGIN SOLUTION
    rows = torch.arange(len(table), device=table.device)[:, None]
    return table[rows, index]
    ### END SOLUTION


# %% test="batch-gather"
check = Check("batch-gather")


def drawn(*shape):
    return check.draw.normal(*shape, equal_sizes=True)


def drawn_index(b, k, n):
    return check.draw.integers(b, k, low=0, high=n, equal_sizes=True)


def is_gathered(got, table, index, what=""):
    """Compare what came back with the entries, looked up one by one."""
    picked = [table[i, j] for i in range(len(table)) for j in index[i].tolist()]
    check.equal(got, torch.stack(picked).reshape(*index.shape, *table.shape[2:]), what=what)


def gathers(b, n, k, *behind, dtype=torch.float32, transposed=None):
    table, index = drawn(b, n, *behind), drawn_index(b, k, n)
    table = table > 0 if dtype is torch.bool else table.mul(100).to(dtype)
    what = f"table {tuple(table.shape)}, index {(b, k)}"
    if transposed:
        table = table.transpose(*transposed).contiguous().transpose(*transposed)
        what += ", table not contiguous"
    got = check.call(batch_gather, table, index)
    is_gathered(got, table, index, what)


with check.property("each row by its own index, without a loop"):
    gathers(3, 5, 4)
    gathers(17, 9, 6)
    check.written_without("gather_by_*", loops=True)
with check.property("further axes are kept, whatever the dtype and the memory layout", weight=2):
    gathers(4, 6, 3, 5)
    gathers(3, 5, 7, 2, 4, dtype=torch.int64)
    gathers(3, 4, 9, dtype=torch.bool)
    gathers(4, 6, 3, 5, transposed=(0, 1))
    table, index = drawn(4, 6, 2), drawn_index(3, 4, 6).T
    is_gathered(check.call(batch_gather, table, index), table, index, "index not contiguous")
    gathers(3, 4, 5, 2, 6, transposed=(2, 3))
    gathers(2, 3, 4, 2, 3, 2)
    index = drawn_index(4, 5, 5)
    table = check.draw.normal(4, 6, 3, dtype=torch.float64)
    table[:, 5] = math.inf  # no index asks for it
    is_gathered(check.call(batch_gather, table, index), table, index, "float64")
    table = check.draw.integers(4, 6, 3, low=1 << 60, high=1 << 61)
    is_gathered(check.call(batch_gather, table, index), table, index, "int64")
with check.property("n equal to b, smaller than b, and larger; sizes of 1", weight=2):
    gathers(5, 5, 5)
    gathers(5, 5, 5, 5)
    gathers(6, 3, 8, 2)
    gathers(1, 7, 2, 3)
    gathers(5, 7, 1)
    gathers(4, 6, 1, 3)
    gathers(3, 5, 2, 1)
    gathers(4, 1, 3)
with check.property("gradients are summed where an entry was selected twice"):
    table = check.draw.normal(3, 4, 2)
    index = torch.tensor([[1, 1, 3], [0, 2, 2], [3, 0, 3]])
    grad_output = drawn(3, 3, 2)
    got = check.call(probes.gradient, batch_gather, table, index, grad_output=grad_output)
    expected = torch.zeros_like(table)
    for i in range(3):
        for j, place in enumerate(index[i].tolist()):
            expected[i, place] += grad_output[i, j]
    what = "the gradient with respect to the table"
    check.close(got["gradient"], expected, atol=1e-6, what=what)
with check.property("table and index do not change"):
    b, n = check.draw.integer(3, 7), check.draw.integer(5, 9)
    table, index = drawn(b, n, 2), drawn_index(b, 3, n)
    seen = check.call(probes.after_call, batch_gather, table, index)
    is_gathered(seen["output"], table, index)
    check.equal(seen["arguments"], [table, index], what="table and index after the call")
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("integers and Booleans, with further axes and without"):
    gathers(4, 5, 6, 3, dtype=torch.int64)
    gathers(3, 4, 9, 2, dtype=torch.bool)
    gathers(1, 5, 8, dtype=torch.bool)
    gathers(5, 3, 4, transposed=(0, 1))
    gathers(3, 5, 4, 6, 2, transposed=(1, 2))
### END HIDDEN TESTS
check.score()

# %% [markdown]
r"""
### Gather, four ways

The next cells time this job four ways: a loop, indexing, `gather`, and the loop compiled with `torch.compile` (a later section explains it). The compiled loop gets only 16 of the 512 rows.
"""

# %% folded="A table, and the gather in three ways"
table = torch.rand(512, 64, device=device)
index = torch.randint(64, (512, 8), device=device)


def gather_by_loop(table, index):
    return torch.stack([table[place][index[place]] for place in range(len(table))])


def gather_by_index(table, index):
    return table[torch.arange(len(table), device=table.device)[:, None], index]


def gather_by_gather(table, index):
    return table.gather(1, index)


expected = gather_by_loop(table, index)
print(
    "the same:",
    torch.equal(expected, gather_by_index(table, index)),
    torch.equal(expected, gather_by_gather(table, index)),
)

# %% tags=["nbval-ignore-output"] folded="Measure: the loop, indexing, gather and a compiled loop"
NEEDS = "Triton" if device == "cuda" else "a C++ compiler"


def time_compiled(function, *inputs):
    """Return the compiled function, or None, and print how long its first call took."""
    try:
        compiled = torch.compile(function)
        start = time.perf_counter()
        compiled(*inputs)
    except Exception as error:
        print(f"torch.compile needs {NEEDS}, which does not work here: {type(error).__name__}")
        return None
    print(
        f"the first call of the compiled {function.__name__}: {time.perf_counter() - start:.0f} s"
    )
    return compiled


for function in (gather_by_index, gather_by_gather):
    ratio = time_ratio(lambda: gather_by_loop(table, index), lambda f=function: f(table, index))
    print(f"512 rows: the loop takes {ratio} as long as {function.__name__}")
    print("    at least 50 times as long:", ratio.median >= 50)
operations = []


def count_operations(graph, inputs):
    operations.append(sum(node.op.startswith("call") for node in graph.graph.nodes))
    return graph.forward


for rows in (16, 32):
    counting_loop = torch.compile(gather_by_loop, backend=count_operations)
    counting_loop(table[:rows].cpu(), index[:rows].cpu())
    print(f"{rows} rows: {operations[-1]} operations, compilation {len(operations)}")
torch._dynamo.reset()
part = table[:16], index[:16]
compiled_loop = time_compiled(gather_by_loop, *part)
if compiled_loop:
    ratio = time_ratio(lambda: gather_by_loop(*part), lambda: compiled_loop(*part), seconds=0.5)
    print(f"16 rows: the loop takes {ratio} as long as the compiled loop")
    ratio = time_ratio(lambda: compiled_loop(*part), lambda: gather_by_gather(*part), seconds=0.5)
    print(f"16 rows: the compiled loop takes {ratio} as long as gather")

# %% [markdown]
r"""
The compiler unrolls the loop: it records three operations for each row, and one `stack`. For another number of rows, it compiles again.

## All pairs at once

`None` in square brackets adds an axis of size 1. With such axes in the right places, one operation pairs all entries. Four trains leave at the hours below. How many hours are there from each departure to each of the others?
"""

# %%
hours = torch.tensor([6, 9, 10, 14])
print((hours[None, :] - hours[:, None]).tolist())

# %% [markdown]
"""
The price is memory. An element-wise operation copies no operand, but its **result** is stored in full.
"""

# %% folded="Count: bytes of all pairs"
widths = (1, 4, 16, 64)
before = [4 * math.prod(torch.broadcast_shapes((300, 1, w), (400, w))) / 1e6 for w in widths]
after = [4 * 300 * 400 / 1e6 for _ in widths]

# %% folded="Figure 7.7: memory of all pairs"
figure, axes = new_figure(height=2.9)
axes.loglog(widths, before, "o-", color=COLORS["vermilion"], label="300 × 400 × features")
axes.loglog(widths, after, "s-", color=COLORS["blue"], label="summed over the features: 300 × 400")
axes.set_xticks(widths, [str(width) for width in widths])
axes.minorticks_off()
axes.set(title="300 rows paired with 400 rows, float32", xlabel="features", ylabel="MB")
axes.legend()
show(
    figure,
    number="7.7",
    caption="Memory for one number per pair and feature, and for the sums over the features. The first tensor is stored before the second is computed.",
    alt="MB against the number of features, both logarithmic. The tensor with all features rises from 0.5 MB at 1 feature to 31 MB at 64; the sums stay at 0.5 MB.",
)

# %% [markdown] exercise="pairwise-distances" points=5 minutes=20 difficulty=2
r"""
### All distances at once

Nearest-neighbor search and clustering can start from the distances between all pairs of points.

`pairwise_distances(x, y) -> Tensor`

- **In** `x`: shape (n, d), `y`: shape (m, d), both float32 or both float64. n, m and d may be equal, and each may be 1.
- **Out**: shape (n, m), the same dtype: in row $i$ and column $j$ the Euclidean distance $\sqrt{\sum_k (x_{ik} - y_{jk})^2}$. The distance between equal points is exactly 0. Distances between nearby points far from the origin are accurate up to rounding, so do not expand the square. Gradients flow to `x` and `y`, which do not change.
- **Limits**: **no loop** in any form, as in Exercise 3, and none of torch's pairwise-distance functions, such as `torch.cdist`. The check reads the code that your function uses; if it finds either, nothing else counts.

`pairwise_distances(torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 4.0], [0.0, 1.0]]))` returns `tensor([[5., 1.]])`.

<!-- hint: What is the shape of the tensor of all differences, before you sum over the features? Where do x and y need an axis of size 1? -->
<!-- hint: x gets a new axis between points and features, y one at the front. Their difference has three axes: points of x, points of y, features. -->
<!-- hint: Take `x[:, None, :] - y[None, :, :]`, square it, sum over the last axis, and take the square root. -->
"""


# %% solution="pairwise-distances"
def pairwise_distances(x, y):
    """Return the distances from all rows of ``x`` to all rows of ``y``, of shape (n, m)."""
    ### BEGIN SOLUTION
    difference = x[:, None, :] - y[None, :, :]
    return difference.square().sum(dim=-1).sqrt()
    ### END SOLUTION


# %% test="pairwise-distances"
check = Check("pairwise-distances")


def is_distances(got, x, y, what="", **tolerances):
    """Compare what came back with the distances, computed one by one."""
    rows = [[math.dist(a, b) for b in y.tolist()] for a in x.tolist()]
    check.close(got, torch.tensor(rows, dtype=torch.float64).to(x.dtype), what=what, **tolerances)


def drawn(*shape):
    return check.draw.normal(*shape, equal_sizes=True)


def gives_distances(n, m, d):
    x, y = drawn(n, d), drawn(m, d)
    got = check.call(pairwise_distances, x, y)
    is_distances(got, x, y, f"n={n}, m={m}, d={d}", atol=1e-3)


with check.property(
    "every point of x paired with every point of y, without a loop and without cdist"
):
    gives_distances(3, 4, 2)
    gives_distances(13, 24, 9)
    names = "*cdist*", "*pdist*", "*euclidean_dist*", "pairwise*distance"
    check.written_without(*names, loops=True)
with check.property("equal points have distance 0, and nearby points the right distance", weight=2):
    x = check.draw.normal(5, 3, mean=100.0)
    y = torch.cat([x[:3] + 1e-3 * drawn(3, 3), x[3:]])
    got = check.call(pairwise_distances, x, y)
    is_distances(got, x, y, rtol=1e-4, atol=1e-6)
    same = [got[3, 3].item(), got[4, 4].item()]
    check.true(same == [0.0, 0.0], f"the distances of two pairs of equal points: {same}")
    x = 100 + 1e-7 * check.draw.normal(4, 3, dtype=torch.float64)
    got = check.call(pairwise_distances, x, x[:2].clone())
    is_distances(got, x, x[:2], "in float64", rtol=1e-6, atol=1e-15)
    x = torch.cat([x - 1e4, x + 1e4])
    y = x + 1e-6 * check.draw.normal(8, 3, dtype=torch.float64)
    got = check.call(pairwise_distances, x, y).diagonal()
    pairs = zip(x.tolist(), y.tolist(), strict=True)
    expected = torch.tensor([math.dist(a, b) for a, b in pairs], dtype=torch.float64)
    check.close(got, expected, rtol=1e-4, atol=1e-12, what="close pairs in two clusters far apart")
    x = check.draw.normal(30, 4, mean=100.0)
    y = torch.cat([x[:20] + 1e-3 * drawn(20, 4), x[20:]])
    got = check.call(pairwise_distances, x, y)
    is_distances(got, x, y, "30 points and 30 others", rtol=1e-4, atol=1e-6)
    x, y = drawn(5, 3).double() / 3, drawn(4, 3).double() / 3
    got = check.call(pairwise_distances, x, y)
    is_distances(got, x, y, "ordinary points in float64", rtol=1e-12)
with check.property("as many points as features, one point, or one feature", weight=2):
    gives_distances(4, 4, 4)
    gives_distances(1, 5, 3)
    gives_distances(6, 1, 2)
    gives_distances(3, 5, 1)
with check.property("the gradients with respect to x and to y"):
    x, y, grad_output = drawn(3, 2), drawn(5, 2) + 6.0, drawn(3, 5)
    directions = torch.stack([functional.normalize(point - y, dim=1) for point in x])
    expected = (grad_output[:, :, None] * directions).sum(dim=1)
    got = check.call(probes.gradient, pairwise_distances, x, y, grad_output=grad_output)
    check.close(got["gradient"], expected, rtol=1e-3, atol=1e-4, what="gradient with respect to x")
    expected = -(grad_output[:, :, None] * directions).sum(dim=0)
    got = check.call(
        probes.gradient, pairwise_distances, x, y, with_respect_to=1, grad_output=grad_output
    )
    check.close(got["gradient"], expected, rtol=1e-3, atol=1e-4, what="gradient with respect to y")
with check.property("x and y do not change", weight=0.5):
    x, y = drawn(check.draw.integer(3, 9), 4), drawn(check.draw.integer(3, 9), 4)
    seen = check.call(probes.after_call, pairwise_distances, x, y)
    is_distances(seen["output"], x, y, atol=1e-3)
    check.equal(seen["arguments"], [x, y], what="x and y after the call")
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("float64 keeps its digits", weight=0.5):
    x = check.draw.normal(4, 6, dtype=torch.float64)
    y = check.draw.normal(7, 6, dtype=torch.float64)
    got = check.call(pairwise_distances, x, y)
    is_distances(got, x, y, rtol=1e-12)
### END HIDDEN TESTS
check.score()

# %% [markdown]
r"""
Where two points are equal, the root has an infinite slope and the gradient of this formula is nan. Chapter 08 explains why, and gives a remedy.

### Einsum

Attention compares every query with every key, in every head; each result is a score. `torch.einsum` names the axes with letters, such as `h` for heads and `q` for queries, and sums over each letter that does not appear to the right of the arrow.
"""

# %%
queries, keys = torch.randn(3, 2, 5, 8), torch.randn(3, 2, 7, 8)
ways = {
    "einsum": lambda: torch.einsum("bhqd,bhkd->bhqk", queries, keys),
    "matrix product": lambda: queries @ keys.mT,
    "broadcast": lambda: (queries[:, :, :, None, :] * keys[:, :, None, :, :]).sum(dim=-1),
}
for name, way in ways.items():
    is_same = torch.allclose(way(), ways["einsum"](), atol=1e-5)
    most = peak_bytes(way, except_for=[queries, keys])
    print(f"{name:<15} the same: {is_same}, {most} bytes at the peak, {way().nbytes} of scores")

# %% [markdown]
"""
Broadcasting stores all products before it sums them: eight numbers per score. `einsum` stores only the scores.
"""

# %% [markdown]
r"""
## Masks

Texts of different lengths can share a tensor if **padding** extends the shorter ones. A Boolean **mask** says which tokens are real.
"""

# %% folded="Drawing: texts, padding and their mask"
show_drawing(
    "07/padding",
    number="7.8",
    caption="Three texts of 4, 2 and 3 tokens in a tensor that is 4 tokens wide. A mean over all positions includes the padding, whatever values it holds.",
    alt="Left, three rows of four boxes: blue ones for the tokens of a text, dashed ones for padding; the rows have 4, 2 and 3 tokens. Right, the mask: a table of the same size with T for a token and F for padding.",
)

# %% [markdown] exercise="masked-mean" points=4 minutes=15 difficulty=1
"""
### The mean of what counts

A simple text classifier averages the features of a text's real tokens.

`masked_mean(x, mask) -> Tensor`

- **In** `x`: shape (texts, tokens, features), float32 or float64. `mask`: shape (texts, tokens), bool, True where a token is real; padding may be anywhere. Sizes may be equal.
- **Out**: shape (texts, features), the same dtype: the mean over the real tokens of each text. A text without real tokens gives zeros. Padding may hold anything, **inf and nan included**, and has no effect. A nan or inf in a *real* token makes the text's mean of that feature nan or inf. The gradient is 0 at padding. `x` and `mask` do not change.

`masked_mean(torch.tensor([[[1.0], [3.0], [9.0]]]), torch.tensor([[True, True, False]]))` returns `tensor([[2.]])`.

<!-- hint: Which axis does the mask lack, and on which side must it be added? What is nan times 0? -->
<!-- hint: nan times 0 is nan, so padding has to be *replaced*, not multiplied away. Then divide the sum over the tokens by the number of real ones, or by 1 if there are none. -->
<!-- hint: `mask[:, :, None]` broadcasts over the features. Use `x.masked_fill(~..., 0.0)` or `torch.where`, then `sum(dim=1)`. Clamp the counts, `mask.sum(dim=1, keepdim=True)`, from below. -->
"""


# %% solution="masked-mean"
def masked_mean(x, mask):
    """Return the mean of ``x`` over its real tokens, of shape (texts, features)."""
    ### BEGIN SOLUTION
    total = torch.where(mask[:, :, None], x, 0.0).sum(dim=1)
    return total / mask.sum(dim=1, keepdim=True).clamp(min=1)
    ### END SOLUTION


# %% test="masked-mean"
check = Check("masked-mean")


def draw_mask(texts, tokens):
    """Return a mask with at least one real and one padding token in each text."""
    mask = torch.zeros(texts, tokens, dtype=torch.bool)
    for row in mask:
        row[check.draw.permutation(tokens)[: check.draw.integer(1, tokens)]] = True
    return mask


def text_by_text(x, mask):
    means = []
    for text, real in zip(x.tolist(), mask.tolist(), strict=True):
        kept = [token for token, counts in zip(text, real, strict=True) if counts]
        columns = zip(*kept or [[0.0] * x.shape[2]], strict=True)
        means.append([sum(column) / max(1, len(kept)) for column in columns])
    return torch.tensor(means, dtype=x.dtype)


def gradient_text_by_text(dirty, mask):
    """Compare the gradient for ``dirty``, whose padding may hold anything."""
    grad_output = check.draw.normal(len(dirty), dirty.shape[2], dtype=dirty.dtype)
    expected = torch.zeros_like(dirty)
    for text, real in enumerate(mask):
        expected[text, real] = grad_output[text] / max(1, int(real.sum()))
    got = check.call(probes.gradient, masked_mean, dirty, mask, grad_output=grad_output)
    if mask.any() or got["gradient"] is not None:  # without a real token, none is zeros as well
        check.close(got["gradient"], expected, atol=1e-6, what="the gradient with respect to x")


def gives_means(x, mask, given=None, what=""):
    """Ask for means of ``given``, which may differ from ``x`` in its padding alone."""
    got = check.call(masked_mean, x if given is None else given, mask)
    check.close(got, text_by_text(x, mask), rtol=1e-5, atol=1e-6, what=what)


with check.property("the mean over real tokens"):
    gives_means(check.draw.normal(5, 7, 3, mean=2.0), draw_mask(5, 7))
    x, mask = check.draw.normal(4, 8, 6).relu(), draw_mask(4, 8)
    x[0, :2], x[1], mask[0, :3] = 0.0, 0.0, True
    gives_means(x, mask, what="some features are 0; some real tokens are all 0")
    x, mask = check.draw.normal(2, 300, 3, mean=2.0), torch.ones(2, 300, dtype=torch.bool)
    mask[0, check.draw.permutation(300)[:19]] = False
    gives_means(x, mask, what="281 and 300 tokens")
with check.property("equal sizes: the axes of the mask are texts and tokens; sizes of 1", weight=2):
    for sizes in ((4, 4, 4), (1, 5, 3), (4, 6, 1)):
        x = check.draw.normal(*sizes, equal_sizes=True)
        gives_means(x, draw_mask(*sizes[:2]), what=f"shape {sizes}")
with check.property("padding may hold inf and nan", weight=2):
    x, mask = check.draw.normal(3, 6, 2), draw_mask(3, 6)
    dirty = torch.where(mask[:, :, None], x, torch.nan)
    dirty[0][~mask[0]] = math.inf
    gives_means(x, mask, dirty)
with check.property("a text without real tokens gives zeros; x and mask do not change"):
    mask = torch.tensor([[True], [False], [True]])
    gives_means(check.draw.normal(3, 1, 2), mask, what="one token in each text")
    x, mask = check.draw.normal(1, 4, 3), torch.zeros(1, 4, dtype=torch.bool)
    for given in (x, x.double()):
        got = check.call(masked_mean, given, mask)
        check.equal(got, torch.zeros(1, 3).to(given), what="no text has a real token")
    x, mask = check.draw.normal(4, 5, 3), draw_mask(4, 5)
    mask[check.draw.integer(0, 4)] = False
    seen = check.call(probes.after_call, masked_mean, x, mask)
    check.close(seen["output"], text_by_text(x, mask), rtol=1e-5, atol=1e-6)
    check.equal(seen["arguments"], [x, mask], what="x and mask after the call")
    for padding in (math.inf, math.nan):
        dirty = torch.where(mask[:, :, None], x, padding)
        gives_means(x, mask, dirty, what=f"{padding} as padding")
with check.property("the gradient is finite, and 0 at padding", weight=0.5):
    x, mask = check.draw.normal(3, 5, 2), draw_mask(3, 5)
    mask[1] = False
    gradient_text_by_text(torch.where(mask[:, :, None], x, torch.nan), mask)
    gradient_text_by_text(check.draw.normal(2, 4, 3), torch.zeros(2, 4, dtype=torch.bool))
with check.property(
    "nan and inf in real tokens are not hidden, and float64 is not rounded", weight=0.5
):
    x, mask = check.draw.normal(4, 6, 5, dtype=torch.float64), draw_mask(4, 6)
    x[0, int(mask[0].long().argmax()), 1] = math.nan
    x[1, int(mask[1].long().argmax()), 2] = -math.inf
    x[2, int(mask[2].long().argmax())] = math.nan
    x[3, int(mask[3].long().argmax()), 0] = math.inf
    check.close(check.call(masked_mean, x, mask), text_by_text(x, mask), rtol=1e-12, atol=1e-12)
    x, mask = check.draw.normal(2, 8, 3, dtype=torch.float64), torch.zeros(2, 8, dtype=torch.bool)
    mask[0, :3], mask[1, 1:] = True, True
    got = check.call(masked_mean, x, mask)
    check.close(
        got, text_by_text(x, mask), rtol=1e-12, atol=1e-12, what="3 and 7 tokens in float64"
    )
    mask[:], x[0, check.draw.integer(0, 8), 1] = True, math.nan
    got = check.call(masked_mean, x, mask)
    what = "all tokens are real, and one is nan"
    check.close(got, text_by_text(x, mask), rtol=1e-12, atol=1e-12, what=what)
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("everything at once, in float64", weight=0.5):
    x, mask = check.draw.normal(5, 6, 3, dtype=torch.float64), draw_mask(5, 6)
    mask[3] = False
    dirty = torch.where(mask[:, :, None], x, -math.inf)
    dirty[0, int(mask[0].long().argmax()), 1] = math.inf
    dirty[4, int(mask[4].long().argmax()), 2] = math.nan
    got = check.call(masked_mean, dirty, mask)
    check.close(got, text_by_text(dirty, mask), rtol=1e-12, atol=1e-12)
with check.property("the gradient where padding is inf, in float64", weight=0.5):
    x, mask = check.draw.normal(4, 7, 3, dtype=torch.float64), draw_mask(4, 7)
    mask[check.draw.integer(0, 4)] = False
    dirty = torch.where(mask[:, :, None], x, math.inf)
    gradient_text_by_text(dirty, mask)
### END HIDDEN TESTS
check.score()

# %% [markdown]
r"""
## Compile a training step

`torch.compile` records the torch calls of a function in a **graph**, and a **backend** generates code for the whole graph. Several element-wise operations can then run in one pass over memory. The backward pass of the graph is compiled, too.

A **graph break** is a place where the recording has to stop, because Python needs a value or does something that the compiler cannot follow ([PyTorch: graph breaks](https://docs.pytorch.org/docs/stable/compile/programming_model.graph_breaks_index.html)). Here are two ways to compute a loss; the second one inspects the predictions:
"""


# %%
def loss_of(x, y):
    return functional.mse_loss(network(x), y)


def loss_with_a_look(x, y):
    prediction = network(x)
    if prediction.abs().max().item() > 1000:
        print("large predictions")
    return functional.mse_loss(prediction, y)


# %% folded="Measure: graphs of two losses"
graphs = []


def count_graphs(graph, inputs):
    """Count the graphs that PyTorch passes to this backend, and compile nothing."""
    graphs.append(graph)
    return graph.forward


torch._logging.set_logs(dynamo=logging.ERROR)
torch.manual_seed(0)
network = nn.Sequential(nn.Linear(20, 20), nn.GELU(), nn.Linear(20, 1))
inputs, targets = torch.randn(32, 20), torch.randn(32, 1)
counted = {}
for function in (loss_of, loss_with_a_look):
    graphs.clear()
    torch._dynamo.reset()
    torch.compile(function, backend=count_graphs)(inputs, targets).backward()
    counted[function.__name__] = len(graphs)

# %% folded="Predict: a look at the predictions"
predict(
    "07/graphs",
    "`loss_of` becomes one graph. How many graphs does `loss_with_a_look` become?",
    f"{counted['loss_with_a_look']}",
    "`.item()` hands a number to Python, which branches on it. There the first graph ends, Python runs, and a second graph begins.",
    choices=("0", "1", "2", "4"),
)

# %% folded="Drawing: a graph break"
show_drawing(
    "07/graph-break",
    number="7.9",
    caption="One graph for the whole loss, or two graphs with Python between them. Values are stored at the break, and no generated code spans it.",
    alt="Above, one box: linear, gelu, linear, loss. Below, a box with linear, gelu, linear, abs and max, an arrow to a red box in which Python reads the number, and an arrow to a box with the loss: graph 1, graph break, graph 2.",
)

# %% folded="Count: graphs, fullgraph, and batch sizes"
for name, count in counted.items():
    print(f"{name:<17} graphs: {count}")
torch._dynamo.reset()
try:
    torch.compile(loss_with_a_look, backend=count_graphs, fullgraph=True)(inputs, targets)
    print("fullgraph=True: no error")
except Exception:
    print("fullgraph=True: an error instead of a second graph")
torch._dynamo.reset()
graphs.clear()
counting = torch.compile(loss_of, backend=count_graphs)
for size in (32, 32, 48, 64, 80):
    counting(torch.randn(size, 20), torch.randn(size, 1))
    print(f"batch of {size}: {len(graphs)} compiled so far")
torch._dynamo.reset()

# %% [markdown]
"""
`fullgraph=True` turns a graph break into an error. A new batch size made PyTorch compile again, but only once: the second graph serves all three new sizes.

### A loss, compiled

Now use the default backend on a loss that calls this activation:
"""


# %%
def activate_by_hand(x):
    return 0.5 * x * (1 + torch.tanh(0.8 * (x + 0.045 * x**3)))


# %% tags=["nbval-ignore-output"] folded="Measure: forward and backward pass, compiled"
scale = torch.ones(512, device=device, requires_grad=True)
activations = torch.randn(512, 512, device=device)


def step_loss(x):
    return activate_by_hand(x * scale).square().mean()


compiled_loss = time_compiled(step_loss, activations)
if compiled_loss:
    compiled_loss(activations).backward()
    ratio = time_ratio(
        lambda: step_loss(activations).backward(),
        lambda: compiled_loss(activations).backward(),
        seconds=0.5,
    )
    print(f"forward and backward pass: the loss takes {ratio} as long as the compiled loss")

# %% [markdown]
r"""
Some older code uses an earlier compiler, TorchScript (`torch.jit.script`), now deprecated.

## Bug hunt: the flat line

`loss_from_the_wild` is one line of code, and it looks right. The optimizer, the learning rate and the data are fine. Find the cause in cells of your own before you read the exercise, which gives it away. What are this loss and its gradient if every prediction is exactly right?
"""

# %%
x, y = draw_line()
# Look at loss_from_the_wild here.

# %% [markdown] exercise="bug-hunt-flat-line" points=4 minutes=20 difficulty=2
"""
### A loss that finds the line

A loss should refuse what it cannot compare. Write one that does so and lets the layer find the line.

`squared_error(prediction, target) -> Tensor`

- **In**: two nonempty tensors, both float32 or both float64, which need not be contiguous and do not change.
- **Out**: a scalar tensor of the same dtype, the mean squared difference between entries *in the same position*. Two tensors fit if their shapes are equal once all **trailing** axes of size 1 are dropped. Gradients flow to both.
- **Otherwise**: a `ValueError` whose message contains both shapes as tuples, `(3, 4)` and not `torch.Size([3, 4])`.

`squared_error(torch.zeros(7, 3), torch.ones(7, 3, 1))` returns `tensor(1.)`; `squared_error(torch.zeros(7), torch.zeros(1))` raises `ValueError: (7,) and (1,) do not fit`. `train_line(squared_error)[0].weight.item()` is about `1.5`.

<!-- hint: If trailing axes of size 1 do not count, which shapes do you compare? -->
<!-- hint: Take each shape as a tuple, and drop its last entry as long as that is 1. If the two are then equal, reshape one tensor to the other's shape. -->
<!-- hint: While a tuple is not empty and ends in 1, drop that 1. If the two differ, raise the error; otherwise, take `prediction.reshape(target.shape)` before you subtract. -->
"""


# %% solution="bug-hunt-flat-line"
def squared_error(prediction, target):
    """Return the mean squared error, position by position; raise if the shapes do not fit."""
    ### BEGIN SOLUTION
    shapes = []
    for tensor in (prediction, target):
        shape = tuple(tensor.shape)
        while shape and shape[-1] == 1:
            shape = shape[:-1]
        shapes.append(shape)
    if shapes[0] != shapes[1]:
        given = f"{tuple(prediction.shape)} and {tuple(target.shape)}"
        raise ValueError(f"prediction and target have the shapes {given}")
    return (prediction.reshape(target.shape) - target).square().mean()
    ### END SOLUTION


# %% test="bug-hunt-flat-line"
check = Check("bug-hunt-flat-line")


def drawn(*shape, **kwargs):
    return check.draw.normal(*shape, equal_sizes=True, **kwargs)


def fits(first, second, transposed="", dtype=torch.float32, offset=0.0):
    shapes = {"prediction": first, "target": second}
    tensors = {name: drawn(*shape, dtype=dtype) + offset for name, shape in shapes.items()}
    what = f"shapes {first} and {second}" + (", float64" if dtype is torch.float64 else "")
    if transposed:
        tensors[transposed] = tensors[transposed].transpose(0, 1).contiguous().transpose(0, 1)
        what += f", {transposed} not contiguous"
    prediction, target = (tensor.flatten().double() for tensor in tensors.values())
    expected = (prediction - target).square().mean().to(dtype)
    got = check.call(squared_error, *tensors.values())
    check.close(got, expected, rtol=1e-5 if dtype is torch.float32 else 1e-12, what=what)


def same_gradients(first, second):
    tensors = [drawn(*first), drawn(*second)]
    leaves = [tensor.flatten().requires_grad_(True) for tensor in tensors]
    slopes = torch.autograd.grad(functional.mse_loss(*leaves), leaves)
    for place, name in enumerate(("prediction", "target")):
        got = check.call(probes.gradient, squared_error, *tensors, with_respect_to=place)
        expected = slopes[place].reshape(tensors[place].shape)
        what = f"shapes {first} and {second}: the gradient with respect to the {name}"
        check.close(got["gradient"], expected, rtol=1e-5, atol=1e-6, what=what)


def does_not_fit(first, second):
    prediction, target = drawn(*first), drawn(*second)
    got = check.call(probes.outcome, squared_error, prediction, target)
    what = f"shapes {first} and {second}: "
    check.true("error" in got, what + "no error was raised")
    told = f"{what}{got['error']} was raised instead of ValueError"
    check.true("ValueError" in got["errors"], told)
    for shape in (first, second):
        check.true(
            str(shape) in got["message"],
            what + f"the message does not contain {shape}: {got['message']}",
        )


n, m = check.draw.integer(5, 9), check.draw.integer(10, 15)
with check.property("equal shapes, and one trailing axis of size 1"):
    fits((n,), (n,))
    fits((n, 3), (n, 3))
    fits((n, 1), (n,))
    fits((n,), (n, 1), offset=1000.0)
with check.property("shapes that would broadcast: an error that names both shapes", weight=2):
    does_not_fit((n, 1), (1, n))
    does_not_fit((n,), (1,))
    does_not_fit((n, 3), (3,))
    does_not_fit((n, m), (n, 1))
    does_not_fit((1, m), (n, m))
    does_not_fit((n,), ())
    does_not_fit((), (n, 1))
with check.property("different sizes raise the same error"):
    does_not_fit((n,), (m,))
    does_not_fit((n, 2), (n,))
    does_not_fit((n, m), (m, n))
    does_not_fit((2, 3, 4, n, m), (2, 3, 4, m, n))
with check.property("several trailing axes of size 1; others at the beginning and in the middle"):
    fits((n, 1, 1), (n,))
    fits((n, 3), (n, 3, 1, 1, 1))
    fits((n, 1, 1, 1, 1, 1, 1), (n,))
    fits((n, 1, 1), (n, 1))
    fits((n, m, 1), (n, m), transposed="target")
    fits((n, m, 1), (n, m), transposed="prediction")
    fits((n, m), (n, m, 1), dtype=torch.float64)
    fits((1,), ())
    fits((1, 1), (1,))
    does_not_fit((1, n), (n,))
    does_not_fit((n, 1, 3), (n, 3))
with check.property(
    "the gradients are those of entries in the same position; the tensors do not change", weight=0.5
):
    same_gradients((n, 1), (n,))
    same_gradients((n, m), (n, m))
    prediction, target = drawn(n, 1), drawn(n)
    seen = check.call(probes.after_call, squared_error, prediction, target)
    check.equal(seen["arguments"], [prediction, target], what="the tensors after the call")
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("shapes with more axes, and ones at their end or in their middle"):
    fits((n, m), (n, m, 1, 1))
    fits((n, 1, m, 1), (n, 1, m))
    does_not_fit((n, 1, m), (n, m))
    does_not_fit((n, n), (n, n, n))
    does_not_fit((n, 2, 1), (n, 3, 1))
with check.property("the gradients where the target has the ones", weight=0.5):
    same_gradients((n, m), (n, m, 1))
    same_gradients((m,), (m, 1, 1))
### END HIDDEN TESTS
check.score()

# %% [markdown]
"""
<details><summary>The bug (open this once you have found it)</summary>

The layer's output has shape (200, 1), and the targets have shape (200,). Their difference has 200 × 200 entries, one for each pair of a prediction and a target. If every prediction is right, this loss is twice the variance of the targets, and its gradient pulls each prediction toward the mean of all targets. The loss is smallest if every prediction is that mean.

PyTorch's own `assert_allclose` once broadcast its second argument, so it accepted tensors of different shapes as equal ([issue 47449](https://github.com/pytorch/pytorch/issues/47449)).
</details>
"""

# %% folded="After the hunt: the loss of two answers"
_, y = draw_line()
right_answer = loss_from_the_wild(y[:, None], y).item()
level_answer = loss_from_the_wild(y.mean().expand(200, 1), y).item()
print(f"variance of the targets: {y.var(correction=0).item():.2f}")
print(
    f"loss if every prediction is right: {right_answer:.2f}, if all are the mean: {level_answer:.2f}"
)

# %% [markdown]
r"""
## Guards

An unwanted broadcast raises no error. Three habits help:

- **Pass the axis** to `sum` and `squeeze`. `squeeze()` removes *every* axis of size 1, even the batch axis of a single image.
- **Keep the axis** with `keepdim=True` if you later combine the result with the original tensor.
- **Compare shapes** that must be equal, such as those of predictions and targets, or of a result and its reference in a test.
"""

# %%
prediction, target = torch.zeros(200, 1), torch.zeros(200)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    functional.mse_loss(prediction, target)
print("mse_loss:", str(caught[0].message).split(". ")[1])
print("allclose of shapes (200, 1) and (200,):", torch.allclose(prediction, target))
print("one image, squeezed:", tuple(torch.zeros(1, 1, 28, 28).squeeze().shape))

# %% [markdown]
"""
## In the wild

| what | where |
| --- | --- |
| the rule | [PyTorch](https://docs.pytorch.org/docs/stable/notes/broadcasting.html), [NumPy](https://numpy.org/doc/stable/user/basics.broadcasting.html), the [array API standard](https://data-apis.org/array-api/latest/API_specification/broadcasting.html) |
| shapes and views | [`torch.broadcast_shapes`](https://docs.pytorch.org/docs/stable/generated/torch.broadcast_shapes.html); [`Tensor.expand`](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.expand.html) |
| distances | [`torch.cdist`](https://docs.pytorch.org/docs/stable/generated/torch.cdist.html): `compute_mode=` chooses whether large inputs use a matrix product |
| gathering | [`torch.gather`](https://docs.pytorch.org/docs/stable/generated/torch.gather.html); [`torch.take_along_dim`](https://docs.pytorch.org/docs/stable/generated/torch.take_along_dim.html), which broadcasts |
| many axes | [`torch.einsum`](https://docs.pytorch.org/docs/stable/generated/torch.einsum.html); [einops](https://einops.rocks) lets you name axes in `rearrange`, `reduce` and `repeat` |
| mapping a function over rows | [`torch.vmap`](https://docs.pytorch.org/docs/stable/generated/torch.vmap.html), [`jax.vmap`](https://docs.jax.dev/en/latest/automatic-vectorization.html) |
| guards | [jaxtyping](https://docs.kidger.site/jaxtyping/) states shapes in type hints, for a run-time type checker; JAX has `jax_numpy_rank_promotion="raise"`; [`torch.testing.assert_close`](https://docs.pytorch.org/docs/stable/testing.html) rejects different shapes |
| compilers | [`torch.compile`](https://docs.pytorch.org/docs/stable/generated/torch.compile.html); `TORCH_LOGS="graph_breaks"` lists the breaks; [`torch.export`](https://docs.pytorch.org/docs/stable/export.html) |
"""

# %% [markdown]
"""
## Recap

1. Shapes are aligned on the right; an axis of size 1, or a missing one, is repeated; any other difference is an error.
2. An expanded axis has stride 0 and needs no extra memory. The result of an element-wise operation is stored in full, and the backward pass sums over what was repeated.
3. A linear layer after a concatenation is a sum of linear layers. The sum broadcasts, so nothing has to be tiled.
4. A call has a fixed cost: replace loops over rows with one operation on the whole tensor.
5. (N, 1) and (N,) give (N, N): pass the axes to `sum` and `squeeze`, and compare shapes that must be equal.

### Test yourself

<details><summary>1. What is the shape of the sum of tensors of shapes (4, 1, 6) and (5, 1)?</summary>

(4, 5, 6).
</details>

<details><summary>2. <code>x</code> has the shape (32, 10). You want to subtract each row's mean from that row. What is wrong with <code>x - x.mean(1)</code>, and what if the shape were (32, 32)?</summary>

The mean's shape (32,) is aligned with the axis of size 10, so PyTorch raises an error. With shape (32, 32), the code would run but subtract the mean of row j from *column* j. `keepdim=True` gives the mean the shape (32, 1).
</details>

<details><summary>3. A bias of shape (64,) was added to activations of shape (8, 100, 64). What is the shape of its gradient, and how many numbers were summed for each entry?</summary>

(64,), and 800.
</details>

<details><summary>4. You compute the distances from 10,000 points x to 10,000 others, with 100 features, by broadcasting. Why does this fail on a laptop, and what works instead?</summary>

The differences are 10,000 × 10,000 × 100 numbers, 40 GB in float32. Process x in blocks of rows, or use `cdist`, which does not store the differences.
</details>

<details><summary>5. An accuracy is computed as <code>(predicted == labels).float().mean()</code> with predictions of shape (1000, 1) and labels of shape (1000,). Ten classes are equally frequent and the model is perfect. What is the result?</summary>

0.1: every prediction is compared with every label.
</details>

### References

- PyTorch documentation, ["Broadcasting semantics"](https://docs.pytorch.org/docs/stable/notes/broadcasting.html).
- C. R. Harris et al., "Array programming with NumPy", *Nature* 585, 2020, [doi:10.1038/s41586-020-2649-2](https://doi.org/10.1038/s41586-020-2649-2), Fig. 1e.
- S. van der Walt, S. C. Colbert, G. Varoquaux, "The NumPy Array: A Structure for Efficient Numerical Computation", [arXiv:1102.1523](https://arxiv.org/abs/1102.1523), 2011 (strides).
- J. Ansel et al., "PyTorch 2: Faster Machine Learning Through Dynamic Python Bytecode Transformation and Graph Compilation", ASPLOS 2024, [doi:10.1145/3620665.3640366](https://doi.org/10.1145/3620665.3640366).

### Glossary

| English | 中文 | meaning |
| --- | --- | --- |
| broadcasting | 广播 | repeating axes of size 1, or missing ones, to make shapes equal |
| shape, axis | 形状、轴 | the sizes of a tensor; one of its dimensions |
| stride | 步长 | the distance in memory to the next entry along an axis |
| to expand | 扩展 | to repeat an axis of size 1 with a stride of 0 |
| to tile (`repeat`) | 平铺 | to repeat by copying |
| to concatenate | 拼接 | to put tensors side by side along an axis |
| vectorization | 向量化 | one operation on many numbers in place of a loop |
| operator overloading | 运算符重载 | giving `+` and other operators a meaning for new types |
| to gather | 聚集（按索引取值） | to select entries by an index |
| pairwise distances | 两两距离 | the distances between all pairs of points |
| mask | 掩码 | a Boolean tensor that says which entries count |
| padding | 填充 | filler that makes the sequences of a batch equally long |
| Einstein summation | 爱因斯坦求和 | sums of products of tensors, with axes named by letters |
| graph break | 图中断 | a place where `torch.compile` ends one graph and begins another |
| to squeeze | 压缩（去掉长度为 1 的轴） | to remove axes of size 1 |
"""

# %% [markdown]
"""
Here is what you predicted in this chapter.
"""

# %% folded="What you predicted"
predictions("07")

# %%
progress("07")
