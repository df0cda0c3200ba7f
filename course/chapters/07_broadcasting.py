# %% [markdown]
"""
# 07 · Broadcasting and vectorization

After this chapter you can

- say the shape of `x + y` before you run it, and why it costs no memory;
- replace tiling and concatenating by a layer that broadcasts, and count what that spares;
- write distances and gathers without a loop over rows, and a mean that padding cannot spoil;
- find the places where a broadcast nobody wanted hides a bug, and guard them.

**Time**: 55 minutes to read and run, 120 for the six exercises.
**Know before**: tensors and modules (chapter 00).

**中文**: 本章讲广播与向量化：广播规则、零步长与 expand、以广播代替平铺与拼接、运算符重载、循环与向量化的代价、批量 gather、带掩码的均值，以及静默的 (N,1) 错误。
"""

# %% tags=["needed"] folded="Imports"
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
    ask,
    failing,
    hint,
    new_figure,
    probes,
    progress,
    saved_bytes,
    show,
    time_ratio,
)

device = "cuda" if torch.cuda.is_available() else "cpu"
# One thread, so that the measured ratios do not hang on what else the other cores are doing.
torch.set_num_threads(1)

# %% [markdown]
"""
## A sum, and a line that stays flat

Add a column and a row, both of two numbers, and sum everything:
"""

# %%
column = torch.tensor([[1.0], [2.0]])
row = torch.tensor([1.0, 2.0])
print("the sum of all entries:", (column + row).sum().item())
print("the sum over axis 0:   ", (column + row).sum(0).tolist())

# %% [markdown]
"""
Whoever thinks of 1 + 1 and 2 + 2 expects 6. It is 12. The second line gives it away: it should be one number, and it is two. Between the two tensors PyTorch has formed all *four* sums.

That looks harmless. Here is what it does to a training. The points lie on a line with a little noise. A linear layer is to find it, by the mean squared error.
"""


# %%
def draw_line(count=200):
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(count, 1, generator=generator) * 4 - 2
    y = 1.5 * x[:, 0] + 0.5 + 0.2 * torch.randn(count, generator=generator)
    return x, y


def train_line(loss_function, steps=300):
    torch.manual_seed(0)
    x, y = draw_line()
    model = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        loss = loss_function(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model, loss.item()


def loss_from_the_wild(prediction, target):
    return ((prediction - target) ** 2).mean()


wild_model, wild_loss = train_line(loss_from_the_wild)
x, y = draw_line()
print(
    f"slope {wild_model.weight.item():.2f}, intercept {wild_model.bias.item():.2f}, loss {wild_loss:.1f}"
)
print("prediction:", tuple(wild_model(x).shape), "  target:", tuple(y.shape))
print("difference:", tuple((wild_model(x) - y).shape))

# %% folded="Plot: A line that stays flat"
figure, axes = new_figure(height=3.0)
axes.plot(x[:, 0], y, ".", ms=4, color=COLORS["sky"], label="points")
ends = torch.tensor([[-2.0], [2.0]])
axes.plot(
    ends[:, 0], wild_model(ends).detach()[:, 0], color=COLORS["vermilion"], label="what was learned"
)
axes.set(title="A line that stays flat", xlabel="x", ylabel="y")
axes.legend()
show(
    figure,
    alt="Points along a rising line, from minus 2.5 at the left to 3.5 at the right. What was learned is a level line through their middle.",
)

# %% [markdown]
"""
The layer returns (200, 1), the targets are (200,). Their difference has 200 × 200 entries: every prediction against every target. The best answer to *that* is the mean of all targets, for every x. So the line is level. Nothing failed, the loss
fell and stopped, and one would look for the fault in the learning rate.

This is the price of a rule that is worth its price. First the rule.
"""

# %% [markdown]
"""
## The rule

Write the two shapes below each other, **aligned at the right**. Where the shorter one has no axis, put a 1. Then, axis by axis:

- equal sizes: that is the size of the result;
- one of them is 1: the other one is; the 1 is repeated as often as needed;
- anything else is an error.
"""


# %% folded="Plot: two shapes and their broadcast"
def draw_rule(first, second):
    """Draw two shapes and their broadcast, aligned at the right."""
    try:
        result = tuple(torch.broadcast_shapes(first, second))
    except RuntimeError:
        result = None
    axes_count = max(len(first), len(second))
    figure, axes = new_figure(height=2.4)
    rows = (("first", first), ("second", second), ("result", result))
    for height, (name, shape) in zip((2, 1, 0), rows, strict=True):
        axes.text(-0.15, height, name, ha="right", va="center")
        if shape is None:
            axes.text(0, height, "an error", va="center", color=COLORS["vermilion"])
            continue
        for place in range(axes_count):
            own = place - (axes_count - len(shape))
            size = shape[own] if own >= 0 else 1
            repeated = result is not None and size != result[place]
            is_missing = own < 0
            color = COLORS["orange"] if repeated else COLORS["blue"]
            fill = "none" if is_missing else color
            axes.barh(height, 0.9, left=place, height=0.8, color=fill, edgecolor=color, alpha=0.85)
            axes.text(
                place + 0.45,
                height,
                f"{size}",
                ha="center",
                va="center",
                color="black" if is_missing or repeated else "white",
            )
    axes.set(xlim=(-0.9, max(axes_count, 4)), ylim=(-0.6, 2.6))
    axes.set(
        title=f"{first} and {second}",
        xlabel="axis, aligned at the right (orange is repeated)",
        ylabel="shape",
    )
    axes.set_xticks([])
    axes.set_yticks([])
    axes.grid(False)
    return figure


show(
    draw_rule((5, 1, 4), (3, 1)),
    alt="Three rows of boxes, aligned at the right. First: 5, 1, 4. Second: an empty box with 1, then 3 and 1. Result: 5, 3, 4. Boxes whose 1 is repeated are orange: the middle one of the first, the first and the last of the second.",
)

# %%
for first, second in (
    ((2, 1), (2,)),
    ((200, 1), (200,)),
    ((3, 2), (3, 4)),
    ((3, 2), (3, 1)),
    ((), (7,)),
    ((0, 3), (1, 3)),
):
    try:
        shape = tuple(torch.broadcast_shapes(first, second))
    except RuntimeError:
        shape = "an error"
    print(f"{first!s:<9} and {second!s:<7} give {shape}")

# %% [markdown]
"""
Type two shapes, with a semicolon between them.
"""


# %% folded="Try it: two shapes"
def draw_typed(text):
    parts = [part.replace("(", "").replace(")", "").split(",") for part in text.split(";")]
    try:
        first, second = (tuple(int(size) for size in part if size.strip()) for part in parts)
    except ValueError:
        raise ValueError("write two shapes with a semicolon between them, (2, 1); (2,)") from None
    return draw_rule(first, second)


ask(
    draw_typed,
    label="two shapes",
    start="(200, 1); (200,)",
    alt="Boxes for the shapes 200, 1 and 200. The second one is filled up with a 1 on its left. Result: 200, 200.",
)

# %% [markdown] exercise="broadcast-shape" points=4 minutes=15 difficulty=1
"""
### The shape of a result

Write `broadcast_shape(*shapes)`: the shape that tensors of these shapes have together.

- **In**: one or more shapes, each a tuple of integers of 0 or more; it may be empty.
- **Out**: a tuple of integers by the rule above; **None** if they do not fit.
- A size of 0 is a size like any other: 0 and 1 give 0, 0 and 3 do not fit.

<!-- hint: At which end do you begin? What stands for an axis that a shorter shape does not have? -->
<!-- hint: Fill every shape with ones on its left, up to the longest length. Then each axis can be decided by itself: which sizes other than 1 occur in it? -->
<!-- hint: The set of the sizes of one axis without the 1 has no member (then the result is 1), one member (that is the result), or more (None). `zip(*filled)` walks through the axes. -->
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


def gives(*shapes):
    try:
        expected = tuple(torch.broadcast_shapes(*shapes))
    except RuntimeError:
        expected = None
    check.equal(check.call(broadcast_shape, *shapes), expected)


# None of the three divides another.
a, b, c = ((4, 6, 9), (5, 7, 9), (4, 7, 10), (6, 8, 11))[check.draw.integer(0, 4)]
with check.property("equal sizes, and a 1 on either side"):
    gives((a, b), (a, b))
    gives((a, 1), (a, b))
    gives((1, b), (a, 1))
with check.property("shapes of different lengths are aligned at the right", weight=2):
    gives((a, b, c), (c,))
    gives((b, 1), (a, 1, c))
    gives((c,), (a, b, 1))
with check.property("sizes that do not fit give None", weight=2):
    gives((a, b), (a, c))
    gives((a, b), (a,))
    gives((4, a), (2, a))
    gives((1,), (a,), (b,))
with check.property("the empty shape, a shape alone, three shapes, and a size of 0"):
    gives((), (a, b))
    gives(())
    gives((a, 1, b))
    gives((a, 1, 1), (b, 1), (c,))
    gives((0, a), (1, a))
    gives((0,), (a,))
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("three and four shapes; two of them fit and the third does not"):
    gives((1, 1), (b, 1), (c, 1))
    gives((1,), (a, 1), (1, 1, b), (c, 1, 1, 1))
    gives((a, 1), (1, b), (c, b))
    gives((1, b), (a, 1), (1, c))
with check.property("sizes of 0 in other places"):
    gives((a, 0), (a, b))
    gives((a, 0), (0,))
    gives((0, 1), (1,))
### END HIDDEN TESTS
check.score()

# %% [markdown]
"""
### Repeated, and yet not there

"The 1 is repeated" is how one thinks of it. Nothing is copied. A tensor knows for each axis its *stride*: how far in memory the next entry along that axis is. A repeated axis has stride **0**: the next entry is the same one. `expand` makes such a tensor.
"""

# %%
small = torch.tensor([[1.0], [2.0], [3.0]])
wide = small.expand(3, 1000)
tiled = small.repeat(1, 1000)
for name, tensor in (("small", small), ("expand", wide), ("repeat", tiled)):
    size = tensor.untyped_storage().nbytes()
    print(
        f"{name:<7} shape {tuple(tensor.shape)!s:<10} stride {tensor.stride()!s:<10} {size:>6} bytes"
    )
wide[0, 0] = 9.0
print("one entry written:", wide[0, :3].tolist(), "and small is", small.flatten().tolist())
try:
    wide += 1.0
except RuntimeError as error:
    print("all entries written:", str(error)[:67], "…")

# %% [markdown]
r"""
A thousand columns for the price of one. That is why one does not write into an expanded tensor: a thousand entries are one place. One entry written changes the whole row, and `small`, without a word. PyTorch refuses most operations that would write several times
to one place, and not all: `zero_()` runs.

On the way back the rule turns around. What was repeated on the way there is **summed** on the way back, since the one number was used a thousand times. A gradient always has the shape of the tensor that it belongs to.
"""

# %%
bias = torch.zeros(4, requires_grad=True)
(torch.ones(10, 3, 4) + bias).sum().backward()
print("gradient of the bias:", bias.grad.tolist())

# %% [markdown]
r"""
## Instead of tile and concatenate

A common pattern: each of 30 words has features of its own, and the text has some features as a whole. Both go into a linear layer. The usual way repeats the text's features for each word, puts them beside the word's, and multiplies:

$$W \begin{bmatrix} a \\ b \end{bmatrix} = W_a a + W_b b$$

The equation says how to do without. The matrix falls into two blocks of columns. Multiply each input by its own block, and *add*. The addition broadcasts. Nothing needs to be repeated, and the product with the text's features is done once and not 30 times. `saved_bytes` counts what autograd keeps for the way back.
"""

# %%
torch.manual_seed(0)
words, text = torch.randn(8, 30, 50), torch.randn(8, 1, 200)
linear = nn.Linear(250, 64)


def by_tiles():
    tiled = text.repeat(1, 30, 1)
    return torch.relu(linear(torch.cat([words, tiled], dim=2)))


def by_blocks():
    word_block, text_block = linear.weight.split([50, 200], dim=1)
    return torch.relu(words @ word_block.T + text @ text_block.T + linear.bias)


difference = (by_tiles() - by_blocks()).abs().max().item()
print("the same to rounding:", difference < 1e-5)
for function in (by_tiles, by_blocks):
    counted = saved_bytes(function, except_for=linear.parameters())
    print(f"{function.__name__:<10} saves {counted.bytes:>7} bytes for the way back")
products = {"by_tiles": 8 * 30 * 250 * 64, "by_blocks": 8 * 30 * 50 * 64 + 8 * 200 * 64}
print(f"products: {products['by_tiles']} and {products['by_blocks']}")

# %% tags=["nbval-ignore-output"]
print("by_tiles takes", time_ratio(by_tiles, by_blocks), "as long as by_blocks")

# %% [markdown] exercise="merge-layer" points=6 minutes=30 difficulty=3
"""
### A layer that merges

Write the class `Merge`, a linear layer over several inputs that broadcast.

- `Merge(sizes, outputs, activation=None)`: `sizes` is a list of the inputs' numbers of features, one or more; `activation` is a function of a tensor, or None for none.
- The parameters are `weight`, of shape (outputs, sum of the sizes), and `bias`, of shape (outputs,): those of the one linear layer that would follow on the concatenation, in the order of the inputs. So its `state_dict` can be loaded into
  `nn.Linear(sum(sizes), outputs)`, and the other way round. With which numbers they begin is up to you, but no two outputs may begin with the same weights, because they would always stay alike.
- `forward(*inputs)`: as many tensors, the last axis of each as long as its size says. The axes before it broadcast, by the rule. The result has the shape that these give together, then `outputs`: what concatenation, linear layer and activation
  would give.
- Nothing is tiled: what is saved for the way back are the inputs themselves, and what the activation keeps. Autograd goes through, to the inputs, the weight and the bias.

<!-- hint: Which columns of the weight belong to which input? What has to be added, and why does it fit? -->
<!-- hint: `split` cuts the weight along axis 1 into blocks of the given sizes. Each input times its own block, transposed, has the outputs as its last axis. Add them up, the bias last, then the activation if there is one. -->
<!-- hint: `zip(inputs, blocks)`, and a sum that begins with the bias. Every term broadcasts against what is there already, whatever its axes are. -->
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


def merges(sizes, outputs, *shapes):
    state = drawn_state(sizes, outputs)
    inputs = [drawn(*shape, size) for shape, size in zip(shapes, sizes, strict=True)]
    steps = [("load", state), ("call", *inputs)]
    _, got = check.call(probes.module, Merge, sizes, outputs, steps=steps)
    what = f"leading axes {' and '.join(map(str, shapes))}"
    check.close(got, by_concatenation(inputs, state), rtol=1e-4, atol=1e-4, what=what)


def saves_its_inputs(sizes, *inputs):
    state = drawn_state(sizes, 3)
    got = check.call(probes.saved_by_module, Merge, sizes, 3, inputs=list(inputs), state=state)
    check.close(got["output"], by_concatenation(inputs, state), rtol=1e-4, atol=1e-4)
    most = sum(4 * x.numel() for x in inputs)
    told = f"{got['bytes']} bytes were saved; the inputs have {most}"
    check.true(got["bytes"] <= most, told)


with check.property("two inputs of equal leading axes: concatenation and linear layer"):
    merges([3, 5], 4, (6, 7), (6, 7))
with check.property("weight and bias are those of the one linear layer"):
    (parameters,) = check.call(probes.module, Merge, [4, 2, 3], 5, steps=[("parameters",)])
    shapes = {name: list(value.shape) for name, value in parameters.items()}
    check.equal(shapes, {"weight": [5, 9], "bias": [5]})
    different = len(parameters["weight"].unique(dim=0))
    told = f"the weights of the 5 outputs begin as {different} different ones"
    check.true(different == 5, told)
with check.property("leading axes broadcast", weight=2):
    merges([3, 5], 4, (6, 7), (6, 1))
    merges([2, 4], 3, (5, 1), (1, 8))
    merges([3, 2], 5, (4, 6, 7), (7,))
with check.property("nothing is tiled: what is saved are the inputs", weight=2):
    n = check.draw.integer(41, 60)
    saves_its_inputs([6, 40], check.draw.normal(5, n, 6), check.draw.normal(5, 1, 40))
    saves_its_inputs([40, 6], check.draw.normal(5, 1, 40), check.draw.normal(5, n, 6))
    saves_its_inputs([3, 5], drawn(6, 7, 3), drawn(6, 1, 5))
    saves_its_inputs([2, 4], drawn(5, 1, 2), drawn(1, 8, 4))
    n = check.draw.integer(9, 16)
    narrow = [check.draw.normal(1, n, 20), check.draw.normal(8, 1, 30)]
    saves_its_inputs([20, 30, 2], *narrow, check.draw.normal(8, n, 2))
with check.property("one input, and three; no activation is none"):
    merges([4], 6, (3, 5))
    merges([2, 5, 3], 4, (6, 1), (1, 7), (6, 7))
with check.property("gradients reach weight, bias and every input"):
    state, inputs = drawn_state([5, 2], 3), [drawn(7, 5), drawn(4, 1, 2)]
    grad_output = drawn(4, 7, 3)
    steps = [("load", state), ("gradients", inputs, grad_output)]
    _, got = check.call(probes.module, Merge, [5, 2], 3, steps=steps)
    wide = torch.cat([inputs[0].expand(4, 7, 5), inputs[1].expand(4, 7, 2)], dim=-1)
    back = grad_output @ state["weight"]
    expected = [back[..., :5].sum(dim=0), back[..., 5:].sum(dim=1, keepdim=True)]
    check.close(got["gradients"], expected, rtol=1e-4, atol=1e-4, what="by the inputs")
    expected = {
        "weight": torch.einsum("bwo,bwi->oi", grad_output, wide),
        "bias": grad_output.sum(dim=(0, 1)),
    }
    check.close(got["parameters"], expected, rtol=1e-4, atol=1e-4, what="by the parameters")
with check.property("an activation comes last"):
    state, inputs = drawn_state([3, 4], 5), [check.draw.normal(6, 3), check.draw.normal(6, 4)]
    steps = [("load", state), ("call", *inputs)]
    functions = {"activation": "tanh"}
    _, got = check.call(probes.module, Merge, [3, 4], 5, steps=steps, functions=functions)
    expected = torch.tanh(by_concatenation(inputs, state))
    check.close(got, expected, rtol=1e-4, atol=1e-4)
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("inputs without leading axes, and leading axes of a single one"):
    merges([3, 4], 5, (), ())
    merges([3, 4], 5, (), (6, 2))
    merges([2, 2], 3, (7,), (4, 7))
### END HIDDEN TESTS
check.score()

# %% [markdown]
"""
<details><summary>A line from a tutorial (open it when yours works)</summary>

A version of this class that still goes around ends in `return self.activation(pa + pb)`, with `activation=None` as the default. Called with the default it raises `TypeError: 'NoneType' object is not callable`. A default has to be tried like any other value.
</details>
"""

# %% [markdown]
"""
## Operators, and what they call

`x + y` does what `torch.add(x, y)` does. Which operator calls what? Ask: a function mode hears every call. Names such as `__and__` are Python's own for an operator; `//`, `==` and others come under theirs.
"""


# %%
class Names(TorchFunctionMode):
    """Notes the name of every function of torch that is called."""

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
for text, expression in EXPRESSIONS.items():
    with Names() as names:
        result = expression()
    print(f"{text:<9} {', '.join(names.heard):<20} {result.tolist()}")
try:
    yes and no
except RuntimeError as error:
    print("yes and no:", str(error)[:60], "…")

# %% [markdown]
"""
Two traps. `&`, `|`, `^` and `~` work on the *bits*: for Booleans that is the logic that one expects, for integers it is not (`~5` is -6). `torch.logical_xor` and its kin ask whether a number is 0. And `and`, `or`, `not` belong to Python; nobody can redefine
them. They ask for *one* truth value, which a tensor of several entries does not have.

The last row is an operator as well: `x[0:1]` is a call, and a call costs.

## What a call costs

Sum the rows of a matrix in three ways: by slicing 500 times, by `unbind`, which makes all 500 rows in one call, and by `sum`.
"""

# %%
matrix = torch.rand(500, 10)


def by_slicing():
    total = torch.zeros(10)
    for place in range(500):
        total += matrix[place]
    return total


def by_unbind():
    total = torch.zeros(10)
    for vector in matrix.unbind():
        total += vector
    return total


def by_sum():
    return matrix.sum(dim=0)


for function in (by_slicing, by_unbind, by_sum):
    with Names() as names:
        function()
    print(f"{function.__name__:<11} {len(names.heard):>5} calls")

# %% tags=["nbval-ignore-output"]
print("slicing takes", time_ratio(by_slicing, by_unbind), "as long as unbind")
print("unbind takes", time_ratio(by_unbind, by_sum), "as long as sum")

# %% [markdown]
"""
The additions are the same 5000 in all three. What differs is the number of calls. Each costs something before anything is computed: Python looks up the method, PyTorch looks for the kernel, makes a tensor for the result. Ten additions take far
less than that. **The loop over rows is not slow because Python adds slowly; it is slow because it calls at least 500 times.** How many additions does a call cost? Add tensors of one entry and of more, and see when it begins to take longer:
"""

# %% tags=["nbval-ignore-output"]
single = torch.ones(1)
for entries in (10, 100, 1000, 10_000):
    several = torch.ones(entries)
    ratio = time_ratio(lambda t=several: t + t, lambda: single + single, seconds=0.3)
    print(f"{entries:>6} entries take {ratio} as long as one entry")

# %% [markdown]
r"""
A thousand additions hardly take longer than one. So a call costs as much as thousands of them.
"""

# %% [markdown]
r"""
### Gather, four ways

Take from each row of a table the entries that an index names: `output[i, j] = table[i, index[i, j]]`. First in a loop, then all at once by indexing, by `gather`, and the loop again, compiled by `torch.compile`.
"""

# %%
table = torch.rand(512, 64, device=device)
index = torch.randint(64, (512, 8), device=device)
numbers = torch.arange(512, device=device)


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
for function in (gather_by_index, gather_by_gather):
    ratio = time_ratio(lambda: gather_by_loop(table, index), lambda f=function: f(table, index))
    print(f"the loop takes {ratio} as long as {function.__name__}")
    print("    that is at least 50 times:", ratio.median >= 50)

small_table, small_index = table[:16], index[:16]
try:
    compiled = torch.compile(gather_by_loop)
    start = time.perf_counter()
    compiled(small_table, small_index)
    print(f"compiling for 16 rows: {time.perf_counter() - start:.0f} s")
    ratio = time_ratio(
        lambda: gather_by_loop(small_table, small_index),
        lambda: compiled(small_table, small_index),
    )
    print(f"16 rows: the loop takes {ratio} as long as the compiled loop")
    ratio = time_ratio(
        lambda: compiled(small_table, small_index),
        lambda: gather_by_gather(small_table, small_index),
    )
    print(f"16 rows: the compiled loop takes {ratio} as long as gather")
except Exception as error:
    print("torch.compile does not work here (it wants a C++ compiler):", type(error).__name__)

# %% [markdown]
r"""
In the indexing version the two indices broadcast: a column of row numbers, (512, 1), and the index, (512, 8). Each pair names one entry. That is broadcasting at work inside of square brackets.

The compiler unrolls the loop and writes one kernel for 16 rows. The first call takes as long as the line above says, and another number of rows is compiled anew. It helps a little, and gather is still far ahead. (Older tutorials use TorchScript, `torch.jit.script`, here. It is
deprecated; `torch.compile` is its successor for speed, `torch.export` for taking a model elsewhere.)

### Einsum

Where a product has many axes, `torch.einsum` says which are summed. Each letter is an axis; a letter that is missing behind the arrow is summed over; the others broadcast against each other. Compare attention scores for 2 heads: every query with every key.
"""

# %%
queries, keys = torch.randn(3, 2, 5, 8), torch.randn(3, 2, 7, 8)
scores = torch.einsum("bhqd,bhkd->bhqk", queries, keys)
by_matmul = queries @ keys.mT
by_broadcast = (queries[:, :, :, None, :] * keys[:, :, None, :, :]).sum(dim=-1)
print("shape:", tuple(scores.shape))
print("matmul says the same:   ", torch.allclose(scores, by_matmul, atol=1e-5))
print("broadcasting says so too:", torch.allclose(scores, by_broadcast, atol=1e-5))
for name, shape in (("einsum", scores.shape), ("broadcasting, before the sum", (3, 2, 5, 7, 8))):
    print(f"{name}: {4 * math.prod(shape)} bytes")

# %% [markdown]
"""
The last way forms all products before it sums them: eight times the memory here, and a thousand times with a thousand features. **Broadcasting costs nothing while nothing is written down.** Its result is written down.
"""

# %% [markdown] exercise="pairwise-distances" points=5 minutes=20 difficulty=2
r"""
### All distances at once

Write `pairwise_distances(x, y)`: the Euclidean distance of every point of `x` to every point of `y`.

- **In**: `x` of shape (n, d) and `y` of shape (m, d), float32 or float64; n, m and d may be equal, and they may be 1.
- **Out**: a tensor of shape (n, m) of that dtype: $\sqrt{\sum_k (x_{ik} - y_{jk})^2}$ in row $i$ and column $j$.
- Autograd goes through, to x and to y.
- Equal points have the distance 0 exactly, and close points are right to rounding: do not take the difference of large squares.
- **No loop**, in whatever form: neither `for` nor `while`, no comprehension, no recursion, no `map` or `torch.vmap`. And none of torch's functions for all distances at once, `torch.cdist` and its kin: write it with a broadcast. The check reads your code for both; if it finds either, nothing else counts.

<!-- hint: Which shape has a tensor of all differences, before the features are summed? Where do x and y need an axis of size 1? -->
<!-- hint: x gets a new axis between points and features, y one at the front. Their difference has three axes: points of x, points of y, features. -->
<!-- hint: `x[:, None, :] - y[None, :, :]`, then squares, their sum over the last axis, and the root. -->
"""


# %% solution="pairwise-distances"
def pairwise_distances(x, y):
    """Return the distances of all rows of ``x`` to all rows of ``y``, (n, m)."""
    ### BEGIN SOLUTION
    difference = x[:, None, :] - y[None, :, :]
    return difference.square().sum(dim=-1).sqrt()
    ### END SOLUTION


# %% test="pairwise-distances"
check = Check("pairwise-distances")


def distances_one_by_one(x, y):
    rows = [[math.dist(a, b) for b in y.double().tolist()] for a in x.double().tolist()]
    return torch.tensor(rows, dtype=torch.float64).to(x.dtype)


def drawn(*shape):
    return check.draw.normal(*shape, equal_sizes=True)


def gives_distances(n, m, d):
    x, y = drawn(n, d), drawn(m, d)
    got = check.call(pairwise_distances, x, y)
    check.close(got, distances_one_by_one(x, y), atol=1e-3, what=f"n={n}, m={m}, d={d}")


with check.property("every point of x with every point of y, without a loop and without cdist"):
    gives_distances(3, 4, 2)
    gives_distances(13, 24, 9)
    check.written_without("*cdist*", "*pdist*", "*euclidean_dist*", loops=True)
with check.property("equal points have the distance 0, close points are right", weight=2):
    x = check.draw.normal(5, 3, mean=100.0)
    y = torch.cat([x[:3] + 1e-3 * drawn(3, 3), x[3:]])
    got = check.call(pairwise_distances, x, y)
    check.close(got, distances_one_by_one(x, y), rtol=1e-4, atol=1e-6)
    same = [got[3, 3].item(), got[4, 4].item()]
    check.true(same == [0.0, 0.0], f"the distances of two equal points to themselves: {same}")
    x = 100 + 1e-7 * check.draw.normal(4, 3, dtype=torch.float64)
    got = check.call(pairwise_distances, x, x[:2].clone())
    check.close(got, distances_one_by_one(x, x[:2]), rtol=1e-6, atol=1e-15, what="in float64")
    x = torch.cat([x - 1e4, x + 1e4])
    y = x + 1e-6 * check.draw.normal(8, 3, dtype=torch.float64)
    got = check.call(pairwise_distances, x, y).diagonal()
    expected = distances_one_by_one(x, y).diagonal()
    check.close(got, expected, rtol=1e-4, atol=1e-12, what="close pairs in two clusters far apart")
with check.property("as many points as features, or a single one", weight=2):
    gives_distances(4, 4, 4)
    gives_distances(1, 5, 3)
    gives_distances(6, 1, 2)
    gives_distances(3, 5, 1)
with check.property("the gradient by x and by y"):
    x, y, grad_output = drawn(3, 2), drawn(5, 2) + 6.0, drawn(3, 5)
    directions = (x[:, None] - y) / distances_one_by_one(x, y)[:, :, None]
    expected = (grad_output[:, :, None] * directions).sum(dim=1)
    got = check.call(probes.gradient, pairwise_distances, x, y, grad_output=grad_output)
    check.close(got["gradient"], expected, rtol=1e-3, atol=1e-4, what="by x")
    expected = -(grad_output[:, :, None] * directions).sum(dim=0)
    got = check.call(
        probes.gradient, pairwise_distances, x, y, with_respect_to=1, grad_output=grad_output
    )
    check.close(got["gradient"], expected, rtol=1e-3, atol=1e-4, what="by y")
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("float64 keeps its digits", weight=0.5):
    x = check.draw.normal(4, 6, dtype=torch.float64)
    y = check.draw.normal(7, 6, dtype=torch.float64)
    got = check.call(pairwise_distances, x, y)
    check.close(got, distances_one_by_one(x, y), rtol=1e-12)
with check.property("x and y stay as they are", weight=0.5):
    x, y = drawn(check.draw.integer(3, 9), 4), drawn(check.draw.integer(3, 9), 4)
    seen = check.call(probes.after_call, pairwise_distances, x, y)
    check.close(seen["output"], distances_one_by_one(x, y), atol=1e-3)
    check.equal(seen["arguments"], [x, y], what="x and y after the call")
### END HIDDEN TESTS
check.score()

# %% [markdown]
"""
One thing is left open. Where two points are equal, the root has an infinite slope, and the gradient of this formula is nan. Chapter 08 shows why, and what helps.
"""

# %% [markdown] exercise="batch-gather" points=5 minutes=20 difficulty=2
"""
### Gather in a batch

Write `batch_gather(table, index)`: from each row of a table, what its own index names.

- **In**: `table` of shape (b, n, ...), any dtype, with any number of axes behind, none included; `index` of shape (b, k), int64, with entries from 0 to n - 1. Sizes may be equal.
- **Out**: a tensor of shape (b, k, ...): `output[i, j] = table[i, index[i, j]]`.
- **No loop**, in whatever form: neither `for` nor `while`, no comprehension, no recursion, no `map` or `torch.vmap`. The check reads your code for it; if it finds one, nothing else counts.
- Autograd goes through. `table` and `index` stay as they are.

<!-- hint: Square brackets with two index tensors take one entry for each pair. Which second index tensor goes with yours, and which shape must it have? -->
<!-- hint: The rows' numbers 0, 1, ..., b - 1, as a column: (b, 1) broadcasts against (b, k). What stands behind the two indexed axes comes along by itself. -->
<!-- hint: `torch.arange(len(table))[:, None]` is the column; it goes first inside of the brackets, `index` second. -->
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


def one_by_one(table, index):
    picked = [table[i, j] for i in range(len(table)) for j in index[i].tolist()]
    return torch.stack(picked).reshape(*index.shape, *table.shape[2:])


def drawn(*shape):
    return check.draw.normal(*shape, equal_sizes=True)


def drawn_index(b, k, n):
    return check.draw.integers(b, k, low=0, high=n, equal_sizes=True)


def gathers(b, n, k, *behind, dtype=torch.float32):
    table, index = drawn(b, n, *behind), drawn_index(b, k, n)
    table = table > 0 if dtype is torch.bool else table.mul(100).to(dtype)
    got = check.call(batch_gather, table, index)
    check.equal(got, one_by_one(table, index), what=f"table {tuple(table.shape)}, index {(b, k)}")


with check.property("each row by its own index, without a loop"):
    gathers(3, 5, 4)
    gathers(17, 9, 6)
    check.written_without(loops=True)
with check.property("axes behind come along, whatever the dtype", weight=2):
    gathers(4, 6, 3, 5)
    gathers(3, 5, 7, 2, 4, dtype=torch.int64)
    gathers(3, 4, 9, dtype=torch.bool)
with check.property("more places than rows, fewer, or as many", weight=2):
    gathers(5, 5, 5)
    gathers(5, 5, 5, 5)
    gathers(6, 3, 8, 2)
    gathers(1, 7, 2, 3)
with check.property("the gradient adds up where a place was asked for twice"):
    table = check.draw.normal(3, 4, 2)
    index = torch.tensor([[1, 1, 3], [0, 2, 2], [3, 0, 3]])
    grad_output = drawn(3, 3, 2)
    got = check.call(probes.gradient, batch_gather, table, index, grad_output=grad_output)
    expected = torch.zeros_like(table)
    for i in range(3):
        for j, place in enumerate(index[i].tolist()):
            expected[i, place] += grad_output[i, j]
    check.close(got["gradient"], expected, atol=1e-6)
with check.property("table and index stay as they are"):
    b, n = check.draw.integer(3, 7), check.draw.integer(5, 9)
    table, index = drawn(b, n, 2), drawn_index(b, 3, n)
    seen = check.call(probes.after_call, batch_gather, table, index)
    check.equal(seen["output"], one_by_one(table, index))
    check.equal(seen["arguments"], [table, index], what="table and index after the call")
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("integers and Booleans, with axes behind and without"):
    gathers(4, 5, 6, 3, dtype=torch.int64)
    gathers(3, 4, 9, 2, dtype=torch.bool)
    gathers(1, 5, 8, dtype=torch.bool)
### END HIDDEN TESTS
check.score()

# %% [markdown] exercise="masked-mean" points=4 minutes=15 difficulty=1
"""
### The mean of what counts

Texts of different lengths are filled up with padding. Write `masked_mean(x, mask)`: the mean over the tokens that are real.

- **In**: `x` of shape (texts, tokens, features), float32 or float64; `mask` of shape (texts, tokens), bool, True where a token is real. Sizes may be equal.
- **Out**: a tensor of shape (texts, features): for each text and feature the mean over its real tokens. A text without any has zeros.
- Padding may hold anything, **inf and nan included**: it does not matter. A *real* nan or inf makes the mean of its text and feature nan or inf. Autograd goes through, and the gradient by padding is 0.

<!-- hint: Which axis does the mask lack, and on which side must it be added? What is nan times 0? -->
<!-- hint: nan times 0 is nan, so padding has to be *replaced*, not multiplied away. Then a sum over the tokens, divided by how many there are: at least by 1. -->
<!-- hint: `mask[:, :, None]` broadcasts over the features. `x.masked_fill(~..., 0.0)` or `torch.where`, then `sum(dim=1)`; the counts, `mask.sum(dim=1, keepdim=True)`, are clamped from below. -->
"""


# %% solution="masked-mean"
def masked_mean(x, mask):
    """Return the mean of ``x`` over its real tokens, (texts, features)."""
    ### BEGIN SOLUTION
    total = torch.where(mask[:, :, None], x, 0.0).sum(dim=1)
    return total / mask.sum(dim=1, keepdim=True).clamp(min=1)
    ### END SOLUTION


# %% test="masked-mean"
check = Check("masked-mean")


def draw_mask(texts, tokens):
    """Return a mask with at least one real token and one of padding in each text."""
    mask = torch.zeros(texts, tokens, dtype=torch.bool)
    for row in mask:
        row[check.draw.permutation(tokens)[: check.draw.integer(1, tokens)]] = True
    return mask


def text_by_text(x, mask):
    zeros = torch.zeros(x.shape[2], dtype=torch.float64)
    means = [t[m].double().mean(dim=0) if m.any() else zeros for t, m in zip(x, mask, strict=True)]
    return torch.stack(means).to(x.dtype)


def gradient_text_by_text(x, mask, dirty):
    """Compare the gradient for ``dirty``, which is ``x`` with anything as padding."""
    leaf = x.clone().requires_grad_(True)
    grad_output = check.draw.normal(len(x), x.shape[2], dtype=x.dtype)
    (expected,) = torch.autograd.grad(text_by_text(leaf, mask), leaf, grad_output)
    got = check.call(probes.gradient, masked_mean, dirty, mask, grad_output=grad_output)
    check.close(got["gradient"], expected, atol=1e-6, what="the gradient by x")


with check.property("the mean over real tokens"):
    x, mask = check.draw.normal(5, 7, 3, mean=2.0), draw_mask(5, 7)
    check.close(check.call(masked_mean, x, mask), text_by_text(x, mask), rtol=1e-5, atol=1e-6)
with check.property("equal sizes: the mask belongs to texts and tokens", weight=2):
    x, mask = check.draw.normal(4, 4, 4, equal_sizes=True), draw_mask(4, 4)
    check.close(check.call(masked_mean, x, mask), text_by_text(x, mask), rtol=1e-5, atol=1e-6)
with check.property("padding may hold inf and nan", weight=2):
    x, mask = check.draw.normal(3, 6, 2), draw_mask(3, 6)
    dirty = torch.where(mask[:, :, None], x, torch.nan)
    dirty[0][~mask[0]] = math.inf
    check.close(check.call(masked_mean, dirty, mask), text_by_text(x, mask), rtol=1e-5, atol=1e-6)
with check.property("a text without real tokens has zeros"):
    x, mask = check.draw.normal(4, 5, 3), draw_mask(4, 5)
    mask[check.draw.integer(0, 4)] = False
    check.close(check.call(masked_mean, x, mask), text_by_text(x, mask), rtol=1e-5, atol=1e-6)
with check.property("the gradient is 0 at padding, and finite", weight=0.5):
    x, mask = check.draw.normal(3, 5, 2), draw_mask(3, 5)
    mask[1] = False
    gradient_text_by_text(x, mask, torch.where(mask[:, :, None], x, torch.nan))
with check.property(
    "a real nan and a real inf are not hidden, and float64 is not rounded", weight=0.5
):
    x, mask = check.draw.normal(4, 6, 5, dtype=torch.float64), draw_mask(4, 6)
    x[0, int(mask[0].long().argmax()), 1] = math.nan
    x[1, int(mask[1].long().argmax()), 2] = -math.inf
    check.close(check.call(masked_mean, x, mask), text_by_text(x, mask), rtol=1e-12, atol=1e-12)
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("in float64, with everything at once, by text and feature", weight=0.5):
    x, mask = check.draw.normal(5, 6, 3, dtype=torch.float64), draw_mask(5, 6)
    mask[3] = False
    dirty = torch.where(mask[:, :, None], x, -math.inf)
    dirty[0, int(mask[0].long().argmax()), 1] = math.inf
    dirty[4, int(mask[4].long().argmax()), 2] = math.nan
    got = check.call(masked_mean, dirty, mask)
    check.close(got, text_by_text(dirty, mask), rtol=1e-12, atol=1e-12)
with check.property("the gradient by padding of inf, in float64", weight=0.5):
    x, mask = check.draw.normal(4, 7, 3, dtype=torch.float64), draw_mask(4, 7)
    mask[check.draw.integer(0, 4)] = False
    dirty = torch.where(mask[:, :, None], x, math.inf)
    gradient_text_by_text(x, mask, dirty)
### END HIDDEN TESTS
check.score()

# %% [markdown]
r"""
## Guards

A broadcast that nobody wanted makes no noise. What helps?

- **Name the axis you sum over.** `sum(0)` at the beginning of this chapter gave two numbers where one was expected. `sum()` swallowed them.
- **Name the axis you squeeze.** `squeeze()` takes out *every* axis of size 1, also that of a batch with one picture in it.
- **Compare shapes where two things must be of one kind**: predictions and targets, a tensor and its reference in a test. `torch.nn.functional.mse_loss` warns if they differ. `(a - b) ** 2` does not, and neither does `torch.allclose`.
"""

# %%
prediction, target = torch.zeros(200, 1), torch.zeros(200)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    functional.mse_loss(prediction, target)
print("mse_loss:", str(caught[0].message)[:78], "…")
print("allclose of shapes (200, 1) and (200,):", torch.allclose(prediction, target))
print("one picture, squeezed:", tuple(torch.zeros(1, 1, 28, 28).squeeze().shape))

# %% [markdown] exercise="bug-hunt-flat-line" points=4 minutes=20 difficulty=2
"""
### Bug hunt: the line that stays flat

Back to the beginning: `loss_from_the_wild` teaches a layer the mean of all targets. Whoever compares results makes the same mistake easily: for a time, [PyTorch's own `assert_allclose`](https://github.com/pytorch/pytorch/issues/47449) found tensors of different shapes equal, as it broadcast them first. Find out in cells of your own what its
value and its gradient are where the prediction is exactly right. Then write `squared_error(prediction, target)`.

- **In**: two tensors. **Out**: the mean squared error of entries *at the same place*, a tensor without dimensions; autograd goes through, to both.
- The two fit if their shapes are equal, or if they are equal once axes of size 1 **at the end** are left out: (200, 1) and (200,), (7, 3) and (7, 3, 1), and (1,) and (). Which of the two has them does not matter.
- Anything else raises a `ValueError` whose message holds both shapes as tuples, `(200, 1)` and not `torch.Size([200, 1])`; also for what would broadcast, such as (200,) and (1,).

When it is written, `train_line(squared_error)` should find the slope 1.5.

<!-- hint: Which shape decides whether two tensors fit, once axes of size 1 at the end do not count? -->
<!-- hint: Take the shape as a tuple, and cut the last axis off as long as it is a 1. If the two are equal then, one of the tensors can be reshaped to the other's shape, entry by entry. -->
<!-- hint: A loop: while the tuple is not empty and ends in 1, leave its end out. Compare, raise, and otherwise take `prediction.reshape(target.shape)` before you subtract. -->
"""


# %% solution="bug-hunt-flat-line"
def squared_error(prediction, target):
    """Return the mean squared error of entries at the same place; other shapes are an error."""
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


def drawn(*shape):
    return check.draw.normal(*shape, equal_sizes=True)


def fits(first, second):
    prediction, target = drawn(*first), drawn(*second)
    expected = (prediction.flatten().double() - target.flatten().double()).square().mean().float()
    got = check.call(squared_error, prediction, target)
    check.close(got, expected, rtol=1e-5, what=f"shapes {first} and {second}")


def same_gradients(first, second):
    tensors = [drawn(*first), drawn(*second)]
    leaves = [tensor.flatten().requires_grad_(True) for tensor in tensors]
    slopes = torch.autograd.grad(functional.mse_loss(*leaves), leaves)
    for place, name in enumerate(("prediction", "target")):
        got = check.call(probes.gradient, squared_error, *tensors, with_respect_to=place)
        expected = slopes[place].reshape(tensors[place].shape)
        what = f"shapes {first} and {second}: the gradient by the {name}"
        check.close(got["gradient"], expected, rtol=1e-5, atol=1e-6, what=what)


def does_not_fit(first, second):
    prediction, target = drawn(*first), drawn(*second)
    got = check.call(probes.outcome, squared_error, prediction, target)
    what = f"shapes {first} and {second}: "
    check.true("error" in got, what + "no error was raised")
    check.true("ValueError" in got["errors"], what + f"{got['error']} was raised, not ValueError")
    for shape in (first, second):
        check.true(
            str(shape) in got["message"],
            what + f"the message does not hold {shape}: {got['message']}",
        )


n, m = check.draw.integer(5, 9), check.draw.integer(10, 15)
with check.property("equal shapes, and (n, 1) against (n,)"):
    fits((n,), (n,))
    fits((n, 3), (n, 3))
    fits((n, 1), (n,))
    fits((n,), (n, 1))
with check.property("what would only broadcast is an error that tells both shapes", weight=2):
    does_not_fit((n, 1), (1, n))
    does_not_fit((n,), (1,))
    does_not_fit((n, 3), (3,))
with check.property("what does not fit at all is the same error"):
    does_not_fit((n,), (m,))
    does_not_fit((n, 2), (n,))
with check.property("ones at the end, more than one; ones at the beginning are something else"):
    fits((n, 1, 1), (n,))
    does_not_fit((1, n), (n,))
with check.property("the gradients are those of entries at the same place", weight=0.5):
    same_gradients((n, 1), (n,))
    same_gradients((n, m), (n, m))
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("ones at the end of shapes with more axes, and ones in their middle"):
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
<details><summary>What it was (open it when you have found it)</summary>

Where the prediction is exactly right, the mean over all pairs is twice the variance of the targets, far from 0, and its gradient pulls every prediction toward the mean of all targets. Unless all targets are equal, this loss dislikes a right answer.

Equal shapes are the strictest guard. The rule of this exercise also lets through what layers like `nn.Linear(…, 1)` return: ones at the end.
</details>
"""

# %% [markdown]
"""
## In the wild

| what | where it is settled |
| --- | --- |
| the rule | [PyTorch: broadcasting semantics](https://docs.pytorch.org/docs/stable/notes/broadcasting.html), [NumPy: broadcasting](https://numpy.org/doc/stable/user/basics.broadcasting.html), the [array API standard](https://data-apis.org/array-api/latest/API_specification/broadcasting.html) |
| shapes in advance | [`torch.broadcast_shapes`](https://docs.pytorch.org/docs/stable/generated/torch.broadcast_shapes.html); [`Tensor.expand`](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.expand.html) and `expand_as`, without a copy |
| distances | [`torch.cdist`](https://docs.pytorch.org/docs/stable/generated/torch.cdist.html): `compute_mode=` chooses whether large inputs go by matrix products, which is faster and less exact |
| gathering | [`torch.gather`](https://docs.pytorch.org/docs/stable/generated/torch.gather.html), [`torch.take_along_dim`](https://docs.pytorch.org/docs/stable/generated/torch.take_along_dim.html), which broadcasts |
| many axes | [`torch.einsum`](https://docs.pytorch.org/docs/stable/generated/torch.einsum.html); [einops](https://einops.rocks) names the axes of `rearrange`, `reduce` and `repeat` |
| a function for one row, for all | [`torch.vmap`](https://docs.pytorch.org/docs/stable/generated/torch.vmap.html), [`jax.vmap`](https://docs.jax.dev/en/latest/automatic-vectorization.html) |
| guards | [jaxtyping](https://docs.kidger.site/jaxtyping/) checks shapes in type hints; JAX has the option `jax_numpy_rank_promotion="raise"` |
| comparing in tests | [`torch.testing.assert_close`](https://docs.pytorch.org/docs/stable/testing.html) refuses tensors of different shapes |
| compilers | [`torch.compile`](https://docs.pytorch.org/docs/stable/generated/torch.compile.html), [`torch.export`](https://docs.pytorch.org/docs/stable/export.html) |
"""

# %% [markdown]
"""
## Recap

1. Shapes are aligned at the right; a 1, or a missing axis, is repeated; anything else that differs is an error.
2. Repeating is a stride of 0 and costs nothing; the result of an operation is written down, and on the way back what was repeated is summed.
3. A linear layer of a concatenation is a sum of linear layers: the sum broadcasts, and nothing has to be tiled.
4. A call costs as much as thousands of additions: replace loops over rows by one operation with an axis more.
5. (N, 1) against (N,) is N × N: name the axes you sum and squeeze, and compare shapes where they must be equal.

### Test yourself

<details><summary>1. Which shape has the sum of tensors of shapes (4, 1, 6) and (5, 1)?</summary>

(4, 5, 6).
</details>

<details><summary>2. <code>x</code> has the shape (32, 10). You want to subtract from each row its own mean. What is wrong with <code>x - x.mean(1)</code>, and when does it run without an error?</summary>

The mean has the shape (32,), which is aligned with the axis of size 10: an error. If x were (32, 32), it would run, and subtract the mean of row j from *column* j. `keepdim=True` gives (32, 1).
</details>

<details><summary>3. A bias of shape (64,) was added to activations of shape (8, 100, 64). Which shape has its gradient, and how many numbers were added up for one entry?</summary>

(64,), and 800.
</details>

<details><summary>4. Distances of 10,000 points to 10,000 others with 100 features, by broadcasting. Why does it fail on a laptop, and what helps?</summary>

The differences are 10,000 × 10,000 × 100 numbers, 40 GB in float32. Go through x in blocks of rows, or use `cdist`, which does not write them down.
</details>

<details><summary>5. An accuracy is computed as <code>(predicted == labels).float().mean()</code> with predictions of shape (1000, 1) and labels of shape (1000,). Ten classes are equally frequent and the model is perfect. What comes out?</summary>

About 0.1: every prediction is compared with every label.
</details>

### References

- PyTorch documentation, ["Broadcasting semantics"](https://docs.pytorch.org/docs/stable/notes/broadcasting.html).
- C. R. Harris and others, "Array programming with NumPy", *Nature* 585, 2020, [doi:10.1038/s41586-020-2649-2](https://doi.org/10.1038/s41586-020-2649-2), section on broadcasting.
- S. van der Walt, S. C. Colbert, G. Varoquaux, "The NumPy Array: A Structure for Efficient Numerical Computation", [arXiv:1102.1523](https://arxiv.org/abs/1102.1523), 2011 (strides).
- J. Ansel and others, "PyTorch 2: Faster Machine Learning Through Dynamic Python Bytecode Transformation and Graph Compilation", ASPLOS 2024, [doi:10.1145/3620665.3640366](https://doi.org/10.1145/3620665.3640366).

### Glossary

| English | 中文 | meaning |
| --- | --- | --- |
| broadcasting | 广播 | axes of size 1 are repeated, without a copy, until shapes fit |
| shape, axis | 形状、轴 | the sizes of a tensor; one of its directions |
| stride | 步长 | how far in memory the next entry along an axis is |
| to expand | 扩展 | to repeat an axis of size 1 by a stride of 0 |
| to tile, to repeat | 平铺 | to repeat by copying |
| to concatenate | 拼接 | to put tensors side by side along an axis |
| vectorization | 向量化 | one operation on many numbers in the place of a loop |
| operator overloading | 运算符重载 | giving `+` and its kin a meaning for new types |
| gather | 聚集（按索引取值） | to take entries that an index names |
| pairwise distances | 两两距离 | the distances of all pairs of points |
| mask | 掩码 | a Boolean tensor that says what counts |
| padding | 填充 | filler behind the end of what is shorter |
| Einstein summation | 爱因斯坦求和 | a product of many axes, written with letters |
| to squeeze | 压缩（去掉长度为 1 的轴） | to take out axes of size 1 |
"""

# %%
progress("07")
