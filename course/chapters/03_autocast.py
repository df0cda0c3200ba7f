# %% [markdown]
"""
# 03 · Autocast

A 16-bit number takes half the memory of a 32-bit number, and hardware built for 16-bit arithmetic multiplies such numbers faster. PyTorch converts a whole model with one call, `model.half()`,
but a model converted this way may not train. Autocast, the subject of this chapter, chooses a format for each operation instead.

**中文**: 本章讲自动混合精度：按算子选择精度的 autocast、三种类型策略、嵌套与禁用区域、float32 主权重、混合精度训练步，以及它何时不划算。
"""

# %% tags=["needed"] folded="Imports"
import contextlib
import math

import torch
from torch.nn import functional

from helpers import (
    COLORS,
    Check,
    digits,
    explore_autocast,
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
    seconds_of,
    show,
    show_drawing,
    time_ratio,
)

device = "cuda" if torch.cuda.is_available() else "cpu"


def name_of(dtype):
    return str(dtype).removeprefix("torch.")


# %% folded="Data, a classifier, and its training"
digit_images, digit_labels = digits()
pixels, labels = digit_images.flatten(1)[:256].to(device), digit_labels[:256].to(device)


def make_classifier():
    torch.manual_seed(0)
    layers = torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10)
    return torch.nn.Sequential(*layers).to(device)


def loss_of(model, inputs):
    return functional.cross_entropy(model(inputs), labels)


def train_classifier(model, inputs, compute_loss=loss_of, steps=20, eps=1e-8):
    """Train with Adam, and return the loss before each step."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, eps=eps)
    losses = []
    for _ in range(steps):
        loss = compute_loss(model, inputs)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


# %% [markdown]
"""
We train a classifier with two linear layers on handwritten digits three times: in float32; with weights and images converted to float16; and in float32 with `torch.autocast`, which chooses float16 or float32 for some operations of the forward pass
and the loss. Here, `torch.autocast` decorates the function that computes both.
"""

# %%
loss_in_autocast = torch.autocast(device, dtype=torch.float16)(loss_of)
runs = {
    "float32": train_classifier(make_classifier(), pixels),
    "all float16": train_classifier(make_classifier().half(), pixels.half()),
    "autocast": train_classifier(make_classifier(), pixels, loss_in_autocast),
}

# %% folded="Predict: the second loss of the float16 model"
WITHIN, HIGHER, LOST = "within 1% of float32's loss", "more than 1% higher", "nan"
second, reference = runs["all float16"][1], runs["float32"][1]
predict(
    "03/half-by-hand",
    "Weights and images are float16; the optimizer is Adam. What is the loss after one optimizer step?",
    LOST if math.isnan(second) else WITHIN if abs(second / reference - 1) < 0.01 else HIGHER,
    "In float16, the small number that prevents Adam's division by zero is itself 0, and so is a thousandth of a small squared gradient, which is what Adam stores after its first step.",
    choices=[WITHIN, HIGHER, LOST],
)

# %% folded="Figure 3.1: float32, and two ways to use float16"
figure, axes = new_figure()
steps = range(1, 21)
axes.plot(steps, runs["float32"], label="float32", linewidth=5, alpha=0.35)
axes.plot(steps, runs["autocast"], "--", color=COLORS["black"], label="autocast with float16")
axes.plot([1], runs["all float16"][:1], "o", color=COLORS["vermilion"], label="all float16")
axes.axvline(2, color=COLORS["vermilion"], linestyle=":", label="all float16: nan from here on")
axes.set(title="Float32, and two ways to use float16", xlabel="training step", ylabel="loss (nats)")
axes.set_xticks(range(2, 21, 2))
axes.legend()
show(
    figure,
    number="3.1",
    caption="The model converted to float16 has one finite loss; all later ones are nan. The run with autocast also multiplies its matrices in float16, but follows the float32 run.",
    alt="Loss against training step. The losses with autocast and in float32 fall together, on one curve. "
    "The all-float16 model has a single point at step 1 and nan from step 2 on.",
)

# %% [markdown]
"""
> **After this chapter, you will be able to**
>
> - predict and measure which dtype each operation in a forward pass returns;
> - explain how autocast changes an operation, and what it caches;
> - write a mixed-precision training step, and justify what belongs under autocast;
> - keep a loss or a module in float32 under 16-bit autocast;
> - estimate what mixed precision saves.
>
> **Time**: 70 minutes to read and run, 115 for the six exercises.
>
> **Prerequisites**: modules, autograd and the training loop (chapter 00); float formats and rounding (chapter 02).
"""

# %% [markdown]
r"""
## A network in half precision

The three runs differ only in the number format. Apart from a bias correction, Adam divides $m$, a running mean of the gradient, by $\sqrt v+\epsilon$,
where $v$ is a running mean of the squared gradient and the small $\epsilon$, by default $10^{-8}$, prevents division by zero.
"""

# %%
epsilon = torch.tensor(1e-8)
print("epsilon as float16:", epsilon.half().item())
print("0 / (0 + epsilon) in float32:", (0 / (0 + epsilon)).item())
print("0 / (0 + epsilon) in float16:", (0 / (0 + epsilon.half())).item())
for gradient in (0.005, 0.007):
    stored = torch.tensor(0.001 * gradient**2).half().item()
    print(f"a thousandth of {gradient} squared, in float16: {stored:.0g}")

# %% folded="Measure: which weights are lost after one step"
always_blank = (pixels == 0).all(dim=0)
stepped = make_classifier().half()
train_classifier(stepped, pixels.half(), steps=1)
first_layer = stepped[0].weight.detach()
print("pixels that are blank in every image:", int(always_blank.sum()))
print("their weights, all nan after one step:", bool(first_layer[:, always_blank].isnan().all()))
print("among the other weights, some inf:", bool(first_layer[:, ~always_blank].isinf().any()))
losses = train_classifier(make_classifier().half(), pixels.half(), eps=1e-4)
print("with an epsilon of 1e-4, all losses are finite:", all(map(math.isfinite, losses)))

# %% [markdown]
r"""
In float16, $10^{-8}$ is 0. A weight attached to a pixel that is blank in every image has gradient 0, so Adam computes 0 / 0, which is nan. For a gradient of 0.005, the thousandth of its square that Adam stores is 0 as well,
so Adam divides a nonzero number by 0 and gets inf. PyTorch ([issue 147437](https://github.com/pytorch/pytorch/issues/147437)) still behaves this way,
as does optax for a gradient of 0 ([issue 1754](https://github.com/google-deepmind/optax/issues/1754)).

A larger $\epsilon$ removes the nan, but small updates, such as 0.00001 for a weight of 0.1, remain a problem:
"""

# %%
weight = torch.tensor(0.1)
for dtype in (torch.float32, torch.bfloat16, torch.float16):
    stored = weight.to(dtype)
    print(f"0.1 + 0.00001 changes the weight in {name_of(dtype)}:", bool(stored + 1e-5 != stored))

# %% [markdown]
"""
In 16 bits, the update is lost. For this model's matrix products, 16 bits suffice, as the autocast run shows: **operations differ in how much precision they need**.

Micikevicius et al. (2018, section 3) turned this observation into a recipe, **mixed precision**. The optimizer updates **master weights** in float32. Matrix products use 16-bit copies of the weights and accumulate in float32. The loss is scaled so that small
gradients survive (chapter 04).
"""

# %% folded="Drawing: one step in mixed precision"
show_drawing(
    "03/one-step",
    number="3.2",
    caption="One step of mixed-precision training. Weights, gradients and optimizer state are float32; the working copies of the weights and most products are 16-bit.",
    alt="A cycle of boxes. On the left are the float32 weights, optimizer and gradients; on the right, computed in each step, 16-bit copies of the weights, "
    "the forward pass, a float32 loss and the backward pass. Casts lead from weights to copies, and from the backward pass to the float32 gradients, which the optimizer reads to update the weights.",
)

# %% [markdown]
"""
Code that runs under `torch.autocast` forms an **autocast region**, or **region** for short. Each call of the decorated function above runs in one, and so does the body of a `with` statement:
"""

# %%
model = make_classifier()
with torch.autocast(device, dtype=torch.float16):
    logits = model(pixels)
    loss = functional.cross_entropy(logits, labels)
dtypes = {"weights": model[0].weight, "logits": logits, "loss": loss}
print({what: name_of(tensor.dtype) for what, tensor in dtypes.items()})

# %% [markdown]
"""
The loss is float32 again, although no line of the code asks for it.

## Which operation computes in which dtype

A region changes matrix multiplications and leaves additions alone:
"""

# %%
full = torch.rand(32, 32, device=device)
half = torch.rand(32, 32, device=device).half()
with torch.autocast(device, dtype=torch.float16):
    print("float32 + float32:", name_of((full + full).dtype))
    print("float32 @ float32:", name_of((full @ full).dtype))
    print("float32 + float16:", name_of((full + half).dtype))
    print("float32 @ float16:", name_of((full @ half).dtype))

# %% [markdown]
"""
In an addition, the wider dtype wins, as it does outside a region (**type promotion**), except that a float tensor without dimensions does not widen float tensors with dimensions. Both matrix products are float16.

What autocast does to an operation is its **policy**:

| policy | what autocast does | float32 arguments give | 16-bit arguments give |
| --- | --- | --- | --- |
| **lower** | casts the arguments to the region's dtype | 16 bits | 16 bits |
| **float32** | casts the arguments to float32 | float32 | float32 |
| **widest** | leaves the arguments alone, or casts them to the widest dtype among them | float32 | 16 bits |

With mixed dtypes, an operation that autocast does not touch follows its own rules: on a CPU, `add` returns the wider dtype, and `dot` raises an error.

One run on float32 arguments and one on 16-bit arguments reveal the policy. (The two runs cannot tell untouched arguments from arguments cast to the widest dtype.) First, a softmax of a product, on the CPU:
"""

# %%
with torch.autocast("cpu", dtype=torch.bfloat16):
    softmax = torch.softmax(torch.rand(4, 4) @ torch.rand(4, 4), dim=1)

# %% folded="Predict: the dtype of a softmax"
predict(
    "03/softmax-dtype",
    "In a bfloat16 region on a CPU, what is the dtype of `torch.softmax(x @ w, dim=1)`, if x and w are float32?",
    name_of(softmax.dtype),
    "The product is bfloat16. Softmax has the policy float32 on CUDA, but not on a CPU, where autocast does not touch it.",
    choices=["float32", "bfloat16"],
)

# %% tags=["needed"] folded="Measuring tool: measure_policy, and the operations that it tries"
# Each takes and returns tensors of shape (4, 4), or returns a number.
TAKE_TWO = {
    "matmul": torch.matmul,
    "linear": functional.linear,
    "conv1d": lambda x, w: functional.conv1d(x.unsqueeze(0), w.unsqueeze(2)).squeeze(0),
    "attention": lambda q, k: functional.scaled_dot_product_attention(q, k, k),
    "add": torch.add,
    "mul": torch.mul,
    "cdist": torch.cdist,
    "mse_loss": lambda x, y: functional.mse_loss(x, y, reduction="none"),
    "cross_entropy": functional.cross_entropy,
}
TAKE_ONE = {
    "relu": functional.relu,
    "gelu": functional.gelu,
    "exp": torch.exp,
    "log": torch.log,
    "square": lambda x: x**2,
    "sum": torch.sum,
    "prod": torch.prod,
    "mean": torch.mean,
    "cumsum": lambda x: torch.cumsum(x, dim=0),
    "softmax": lambda x: torch.softmax(x, dim=0),
    "layer_norm": lambda x: functional.layer_norm(x, (4,)),
    "vector_norm": torch.linalg.vector_norm,
}
OPERATIONS = TAKE_TWO | TAKE_ONE


def result_dtype(operation, dtype, on):
    """Return the dtype of the result of ``operation`` on tensors of ``dtype``, on a kind of device."""
    count = 2 if operation in TAKE_TWO else 1
    given = [torch.rand(4, 4, device=on).to(dtype) for _ in range(count)]
    return OPERATIONS[operation](*given).dtype


def measure_policy(operation, on="cpu", lower=torch.bfloat16):
    """Return "lower", "float32" or "widest": what autocast does to ``operation``."""
    with torch.autocast(on, dtype=lower):
        from_float32 = result_dtype(operation, torch.float32, on)
        from_lower = result_dtype(operation, lower, on)
    if from_float32 == lower:
        return "lower"
    return "float32" if from_lower == torch.float32 else "widest"


# %% [markdown]
"""
On your device, 21 operations have these policies:
"""

# %%
policies_here = {operation: measure_policy(operation, on=device) for operation in OPERATIONS}
print(f"measured on {device}:")
for policy in ("lower", "float32", "widest"):
    print(f"{policy:>8}:", ", ".join(name for name, p in policies_here.items() if p == policy))

# %% [markdown]
"""
Autocast never looks at values, so **fake tensors**, which have a shape, a dtype and a device but no data, reveal CUDA's policies without a GPU.
"""

# %% folded="Measure: the policies of CUDA, without a GPU"
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.attention import SDPBackend, sdpa_kernel


def measure_cuda_policy(operation, lower=torch.float16):
    # `torch.autocast("cuda")` switches itself off without a GPU: set what it would set.
    torch.set_autocast_dtype("cuda", lower)
    torch.set_autocast_enabled("cuda", True)
    try:
        # To choose a kernel, attention queries the driver; the MATH backend does not.
        with FakeTensorMode(), sdpa_kernel(SDPBackend.MATH):
            from_float32 = result_dtype(operation, torch.float32, "cuda")
            from_lower = result_dtype(operation, lower, "cuda")
    finally:
        torch.set_autocast_enabled("cuda", False)
    if from_float32 == lower:
        return "lower"
    return "float32" if from_lower == torch.float32 else "widest"


cpu_policies = {operation: measure_policy(operation) for operation in OPERATIONS}
cuda_policies = {operation: measure_cuda_policy(operation) for operation in OPERATIONS}
differing = [name for name in OPERATIONS if cpu_policies[name] != cuda_policies[name]]
print("float32 on CUDA, widest on the CPU:", ", ".join(differing))

# %% folded="Figure 3.3: the policy of each operation, measured"
figure, axes = new_figure(height=4.6)
shades = {"lower": COLORS["orange"], "float32": COLORS["blue"], "widest": "#dddddd"}
order = ("lower", "float32", "widest")
ranked = sorted(
    OPERATIONS, key=lambda name: (order.index(cuda_policies[name]), order.index(cpu_policies[name]))
)
for row, policies in enumerate((cpu_policies, cuda_policies)):
    for column, operation in enumerate(ranked):
        policy = policies[operation]
        axes.barh(column, 0.94, left=row, color=shades[policy])
        ink = "white" if policy == "float32" else "black"
        axes.text(row + 0.47, column, policy, ha="center", va="center", color=ink, fontsize=9)
axes.set_yticks(range(len(ranked)), ranked)
axes.set_xticks([0.47, 1.47], ["CPU", "CUDA"])
axes.invert_yaxis()
axes.grid(False)
axes.tick_params(length=0)
axes.set(
    title="The policy of each operation, measured", xlabel="kind of device", ylabel="operation"
)
show(
    figure,
    number="3.3",
    caption="On both devices, matrix products, convolution and attention have the policy lower; the losses, cdist and prod have float32. Most of the others differ.",
    alt="A table of the policies of 21 operations on two kinds of device. The policy of matmul, linear, conv1d and attention is "
    "lower on both; that of cdist, mse_loss, cross_entropy and prod, float32 on both; that of add, mul, relu, gelu "
    "and mean, widest on both. For exp, log, square, sum, cumsum, softmax, layer_norm and vector_norm, "
    "it is widest on the CPU and float32 on CUDA.",
)

# %% [markdown]
r"""
A matrix product can be *lower* because the hardware can accumulate it in float32 and round to 16 bits at the end (Micikevicius et al., section 3.3). Sums, powers, exponentials and norms have the policy *float32* on CUDA only, so the same model
can round in different places on a CPU and on a GPU. The full lists are in the documentation (["Autocast Op Reference"](https://docs.pytorch.org/docs/stable/amp.html#autocast-op-reference)).

A sum can leave the range of float16, and it can need more precision than its terms have:
"""

# %%
ones = torch.ones(100_000)
print("sum of 100,000 ones in float16:", ones.half().sum().item())
print("sum of 1,001 ones in bfloat16: ", ones[:1001].bfloat16().sum().item())
print("the same, in float32:          ", ones[:1001].bfloat16().float().sum().item())

# %% [markdown]
"""
## Follow the dtypes

Each box below is an operation of a small network, and each arrow is labeled with the dtype of a tensor; the text on the right lists the casts that autocast makes. The weights and the target of the loss are float32.

Select a device and a dtype, pick what to draw, and drag across the cells to the left of the boxes, or tab to a cell and press Enter.

- Switch from CPU to CUDA. Which two boxes change, and which third box changes as a consequence?
- Clear the region, and draw one around the two linear layers only. Why is the loss still float32?
"""

# %%
explore_autocast()

# %% [markdown]
"""
<details><summary>Answers</summary>

`layer_norm` and `softmax` change; `gelu` follows, because it returns the dtype that it receives. With a region around the linear layers only, the loss is float32 by type promotion with its target.
</details>

## Bfloat16 first

A region's default dtype depends on the kind of device:
"""

# %%
print("default:", {kind: name_of(torch.get_autocast_dtype(kind)) for kind in ("cuda", "cpu")})
for dtype in (torch.float32, torch.float16, torch.bfloat16):
    info = torch.finfo(dtype)
    numbers = f"largest {info.max:.1e}, smallest normal {info.tiny:.1e}, epsilon {info.eps:.1e}"
    print(f"{name_of(dtype):>8}: {numbers}")

# %% [markdown]
"""
Name the dtype, and **try bfloat16 first**: it has the range of float32, so it needs no loss scaling, and float32's hyperparameters still work (Kalamkar et al. 2019). The price is precision: the machine epsilon of bfloat16 is eight times that of float16. Use float16, with the loss scaling of chapter 04, if a computation needs that precision or if the GPU lacks fast bfloat16 arithmetic.

A [T4](https://www.nvidia.com/en-us/data-center/tesla-t4/) has tensor cores (circuits for matrix products) that handle float16 but no other float format. Nevertheless, `torch.cuda.is_bf16_supported()` returns True on a T4, because it counts software emulation unless you pass `including_emulation=False` ([pull request 148322](https://github.com/pytorch/pytorch/pull/148322)).
`torch.autocast` takes the kind of device as a string: `x.device.type` for a tensor `x`, or [`torch.accelerator`](https://docs.pytorch.org/docs/stable/accelerator.html)`.current_accelerator().type` for an accelerator of any vendor.
"""


# %% tags=["nbval-ignore-output"]
def choose_dtype(device):
    """Return bfloat16, or float16 for a GPU that only emulates bfloat16."""
    if device == "cuda" and not torch.cuda.is_bf16_supported(including_emulation=False):
        return torch.float16
    return torch.bfloat16


print("this chapter's device:", device, "- region's dtype:", name_of(choose_dtype(device)))
if hasattr(torch, "accelerator"):  # since PyTorch 2.6
    found = torch.accelerator.current_accelerator()
    print("accelerator:", "none" if found is None else found.type)

# %% [markdown]
"""
### TF32: float32 tensors, fewer bits in the product

NVIDIA's tensor cores since Ampere can also multiply float32 tensors in **TF32**: they use 10 of the 23 bits of each fraction and all 8 bits of the exponent. All tensors stay float32, so you cannot detect TF32 by looking at dtypes. The next cell rounds the factors of a
product to each format:
"""


# %% folded="Measure: the error of a product in each format"
def round_to_tf32(x):
    """Round the fraction of a float32 tensor to 10 bits, ties to even."""
    bits = x.view(torch.int32)
    return ((bits + 0xFFF + ((bits >> 13) & 1)) & ~0x1FFF).view(torch.float32)


left, right = torch.randn(2, 256, 256, generator=torch.Generator().manual_seed(0))
exact = left.double() @ right.double()
for name, rounded in {
    "TF32": round_to_tf32,
    "float16": lambda x: x.half().float(),
    "bfloat16": lambda x: x.bfloat16().float(),
}.items():
    product = rounded(left) @ rounded(right)
    error = ((product - exact).norm() / exact.norm()).item()
    print(f"factors rounded to {name:>8}: relative error {error:.0e}, 100,000 becomes", end=" ")
    print(f"{rounded(torch.tensor(1e5)).item():,.0f}")

# %% [markdown]
"""
In PyTorch, convolutions use TF32 by default and matrix products do not. Since PyTorch 2.9, `torch.backends.cuda.matmul.fp32_precision = "tf32"` switches TF32 on for products, and `torch.backends.cudnn.conv.fp32_precision = "ieee"` switches it off for
convolutions. The older `allow_tf32` is being deprecated ([CUDA semantics](https://docs.pytorch.org/docs/stable/notes/cuda.html#tensorfloat-32-tf32-on-ampere-and-later-devices)). When you compare a format with float32, say whether TF32 was on.
"""

# %% [markdown]
"""
## The layers of the dispatcher

PyTorch's **dispatcher** passes each call of an operation through layers: autocast, then autograd, then the device-specific implementation, the **kernel**. Inside a region,
the autocast layer casts the arguments and dispatches the call again with itself disabled.
"""

# %% folded="Drawing: the layers of the dispatcher"
show_drawing(
    "03/dispatcher",
    number="3.4",
    caption="The same product outside and inside a region. Autograd is below autocast, so it records the casts like any other operation.",
    alt="Two columns of boxes. Outside a region, x @ w skips the autocast layer, is recorded by autograd and runs in float32. Inside a bfloat16 region, the "
    "autocast layer looks up the policy, casts x and w to bfloat16 and dispatches the call again; autograd records casts and product, and the kernels run.",
)

# %% [markdown]
"""
A **dispatch mode** sees calls below autograd, where PyTorch invokes the kernels. The class `Listen` records a line for each call that takes a tensor and returns one:
"""

# %% folded="Measuring tool: Listen, a dispatch mode"
from torch.utils._python_dispatch import TorchDispatchMode


class Listen(TorchDispatchMode):
    """Keeps a line for each kernel that runs."""

    def __init__(self):
        super().__init__()
        self.heard = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        given = [name_of(a.dtype) for a in args if isinstance(a, torch.Tensor)]
        if given and isinstance(result, torch.Tensor):
            name = func.overloadpacket.__name__
            self.heard.append(f"{name:<20} {', '.join(given):<20} -> {name_of(result.dtype)}")
        return result


# %%
x = torch.rand(2, 3, device=device)
weight = torch.rand(3, 5, device=device, requires_grad=True)
with Listen() as forward, torch.autocast(device, dtype=torch.bfloat16):
    first = x @ weight
    second = x @ weight
print(*forward.heard, sep="\n")

# %% [markdown]
"""
`_to_copy` is a cast, and `mm` is the product. The second product needs one fewer cast: autocast casts `x` again, but has kept its copy of `weight`.

Autocast leaves some calls alone: in-place variants, calls with `out=` or an explicit `dtype=`, and operations on float64 tensors (["Op Eligibility"](https://docs.pytorch.org/docs/stable/amp.html#autocast-op-reference)).
"""

# %%
a, b = torch.rand(4, 4, device=device), torch.rand(4, 4, device=device)
low, exact = a.bfloat16(), a.double() @ b.double()
with torch.autocast(device, dtype=torch.bfloat16):
    for call, product in {
        "torch.mm(a, b)": torch.mm(a, b),
        "torch.mm(a, b, out=...)": torch.mm(a, b, out=torch.empty_like(a)),
    }.items():
        print(f"{call:<25} computed in 16 bits:", (product - exact).abs().max().item() > 1e-4)
    print("torch.addmm(a, low, b):  ", name_of(torch.addmm(a, low, b).dtype))
    try:
        a.clone().addmm_(low, b)
    except RuntimeError:
        print("the same in place, addmm_: RuntimeError, because bfloat16 meets float32")
    print("torch.mm of two float64: ", name_of(torch.mm(a.double(), b.double()).dtype))
    print("prod, dtype=bfloat16:    ", name_of(torch.prod(low, 0, dtype=torch.bfloat16).dtype))

# %% [markdown]
"""
## The cache of casts

Autocast's **cast cache** holds the 16-bit copies of float32 *leaf* tensors that require a gradient: in a training loop, the weights of *lower* operations. The copies live until the outermost region ends. `cache_enabled=False` switches the cache off:
"""


# %% folded="Figure 3.5: casts with and without the cache"
def casts_in(uses, cache_enabled):
    with (
        Listen() as listening,
        torch.autocast(device, dtype=torch.bfloat16, cache_enabled=cache_enabled),
    ):
        for _ in range(uses):
            x @ weight
    return sum(line.startswith("_to_copy") for line in listening.heard)


uses = range(1, 9)
figure, axes = new_figure(height=2.8)
for enabled, color, marker in ((False, "vermilion", "o"), (True, "blue", "s")):
    counts = [casts_in(count, enabled) for count in uses]
    axes.plot(uses, counts, marker=marker, color=COLORS[color], label=f"cache_enabled={enabled}")
    print(f"cache_enabled={enabled!s:<5} casts for 1 to 8 uses: {counts}")
axes.set(
    title="Casts for one input and one weight",
    xlabel="uses of the weight in one region",
    ylabel="casts",
    yticks=range(0, 17, 4),
)
axes.legend()
show(
    figure,
    number="3.5",
    caption="Without the cache, each use of a weight costs two casts, one for the input and one for the weight. With the cache, the weight is cast once.",
    alt="Casts against the number of uses of one weight in one region. Without the cache, each use costs two "
    "casts (16 for 8); with it, one, plus one for the weight (9 for 8).",
)

# %% [markdown]
"""
Now a weight changes inside a region, between two products:
"""

# %%
weight = torch.nn.Parameter(torch.tensor([[1.0]], device=device))
x = torch.ones(1, 1, device=device)
with torch.autocast(device, dtype=torch.bfloat16):
    products = [(x @ weight).item()]
    with torch.no_grad():
        weight.fill_(5.0)
    products.append((x @ weight).item())
products.append((x @ weight).item())

# %% folded="Predict: a product after the weight changed"
predict(
    "03/stale-weight",
    "The input is 1. The weight is 1 in the first product and is then set to 5. What is the second product, inside the region?",
    products[1],
    "Autocast multiplies by the copy in its cache, which it made before the weight changed.",
    between=(0, 10),
)

# %%
print("first product:                ", products[0])
print("after the weight was set to 5:", products[1])
print("after the end of the region:  ", products[2])

# %% [markdown]
"""
If a whole training loop runs inside one region, every forward pass reuses the 16-bit copies made in step 1. This kept the loss flat in Flow-Factory, a library that trains image generators
([pull request 186](https://github.com/X-GenGroup/Flow-Factory/pull/186)). Enter a new region for each forward pass.
"""

# %% [markdown]
"""
## Regions inside regions

Regions can be nested; the innermost one applies. In a **disabled region**, entered with `enabled=False`, nothing is cast.
"""

# %%
matrix = torch.rand(4, 4, device=device)
with torch.autocast(device, dtype=torch.bfloat16):
    print("bfloat16 region:          ", name_of((matrix @ matrix).dtype))
    with torch.autocast(device, dtype=torch.float16):
        print("a float16 region inside:  ", name_of((matrix @ matrix).dtype))
    with torch.autocast(device, enabled=False):
        print("a disabled region inside: ", name_of((matrix @ matrix).dtype))
    print("bfloat16 region again:    ", name_of((matrix @ matrix).dtype))
print("no region:                ", name_of((matrix @ matrix).dtype))

# %% [markdown]
"""
A model can therefore enter a region in its own `forward`, even if it is called in another region. If the dtypes of the two regions differ, the inner region needs `cache_enabled=False`: otherwise, a weight that both regions use comes out of the cache in the wrong dtype.
Autocast state is per thread, so threads that you start do not inherit the region.

Next, a bfloat16 product meets a float32 matrix in a disabled region:
"""


# %%
def product_in_disabled_region():
    with torch.autocast(device, dtype=torch.bfloat16):
        hidden = matrix @ matrix
        with torch.autocast(device, enabled=False):
            return hidden @ matrix


# %% folded="Run: the product in the disabled region"
try:
    outcome = f"a {name_of(product_in_disabled_region().dtype)} tensor"
except RuntimeError:
    outcome = "RuntimeError"

# %% folded="Predict: a product in a disabled region"
predict(
    "03/disabled-region",
    "What does `hidden @ matrix` give in the disabled region?",
    outcome,
    "A disabled region switches the casts off and casts nothing back. The first product is bfloat16, and without casts a matrix product requires equal dtypes.",
    choices=["a float32 tensor", "a bfloat16 tensor", "RuntimeError"],
)

# %%
print("hidden @ matrix in the disabled region:", outcome)

# %% [markdown]
"""
Below, the second linear layer is in a disabled region. Which other box must be in a disabled region to remove the error? Does the answer change with CUDA's policies?
"""

# %%
explore_autocast(["region", "region", "region", "disabled", "region", "region"])

# %% [markdown]
"""
<details><summary>Answer</summary>

On a CPU, the first linear layer, because no other box before the error lowers the dtype. On CUDA there is no error to begin with, because `layer_norm` returns float32.
</details>
"""

# %% [markdown] exercise="predict-dtypes" points=4 minutes=20 difficulty=2
"""
### Predict the dtypes

Determine the dtype of each result without running the program.

`predict_dtypes(program, dtypes, policies) -> dict`

- **In** `program`: a list of steps. `{"do": "enter", "lower": "float16"}` begins a region, a disabled one if `lower` is None; `{"do": "leave"}` ends the innermost. `{"do": "matmul", "of": ["x", "w"], "to": "y"}` stores the result of an operation on `x` and `w` as `y`; each operation has two arguments. If only one of the two is float64, the operation's policy is `"widest"`.
- **In** `dtypes`: a dict from the inputs' names to `"float64"`, `"float32"`, `"bfloat16"` or `"float16"`. `policies`: a dict from every operation to `"lower"`, `"float32"` or `"widest"`.
- **Out**: a dict from each result's name to the name of its dtype. If a result reuses a name, even an input's, its new dtype applies from then on.
- **Rules**: in a region that is not disabled, policies apply unless both arguments are float64; everywhere else, all operations are `"widest"`. After any casts, the wider dtype wins; float16 and bfloat16 together give float32.

With float32 inputs and the policy `"lower"` for `matmul`, the steps `"enter"`, `"matmul"` and `"leave"` as written above give `{"y": "float16"}`.

<!-- hint: What must you remember besides the dtypes while you go through the steps, and what happens to it at "leave"? -->
<!-- hint: Keep a list of regions: "enter" appends to it, "leave" removes the last one, and the last one that remains applies. For an operation, look up the dtypes of its arguments, decide which policy really applies here, and write down the result's dtype under its name. -->
<!-- hint: The policy that applies is "widest" if there is no region, if the innermost one is None, or if all arguments are float64. For "widest", give each dtype a rank; two different names of the lowest rank make float32. -->
"""


# %% solution="predict-dtypes"
def predict_dtypes(program, dtypes, policies):
    """Return a dict from the name of each result of ``program`` to the name of its dtype."""
    ### BEGIN SOLUTION
    known, results, regions = dict(dtypes), {}, [None]
    for step in program:
        if step["do"] == "enter":
            regions.append(step["lower"])
        elif step["do"] == "leave":
            regions.pop()
        else:
            given = {known[name] for name in step["of"]}
            policy = policies[step["do"]]
            if regions[-1] is None or given == {"float64"} or policy == "widest":
                result = "float32" if len(given) > 1 else next(iter(given))
                result = "float64" if "float64" in given else result
            else:
                result = regions[-1] if policy == "lower" else "float32"
            known[step["to"]] = results[step["to"]] = result
    return results
    ### END SOLUTION


# %% test="predict-dtypes"
check = Check("predict-dtypes")


def one_of(*names):
    return names[check.draw.integer(0, len(names))]


def enter(lower):
    return {"do": "enter", "lower": lower}


def apply(operation, first, second, to):
    return {"do": operation, "of": [first, second], "to": to}


def same_dtypes(got, program, expected):
    """Compare in the program's order, so that the first difference is the earliest mistake."""
    names = [step["to"] for step in program if "to" in step]
    check.equal(got, {name: expected[name] for name in names})


leave = {"do": "leave"}
cpu_lists = {operation: measure_policy(operation) for operation in TAKE_TWO}
lowered = ("matmul", "linear", "conv1d", "attention")
raised = ("mse_loss", "cdist")
kept = ("add", "mul")
inputs = {"x": "float32", "w": "float32", "h": "bfloat16", "g": "float16"}

with check.property("one region: products, losses, sums"):
    program = [
        enter("bfloat16"),
        apply(one_of(*lowered), "x", "w", "a"),
        apply(one_of(*kept), "a", "w", "b"),
        apply(one_of(*kept), "a", "h", "c"),
        apply(one_of(*raised), "c", "a", "d"),
        apply(one_of(*lowered), "d", "b", "e"),
        leave,
    ]
    got = check.call(predict_dtypes, program, inputs, cpu_lists)
    expected = dict.fromkeys("ace", "bfloat16") | dict.fromkeys("bd", "float32")
    same_dtypes(got, program, expected)
with check.property("nothing is cast before a region or after it"):
    program = [
        apply(one_of(*lowered), "x", "w", "a"),
        apply(one_of(*lowered), "h", "h", "b"),
        apply("mse_loss", "h", "b", "f"),
        apply(one_of(*kept), "g", "h", "i"),
        enter("bfloat16"),
        apply(one_of(*lowered), "x", "a", "c"),
        leave,
        apply(one_of(*lowered), "x", "w", "d"),
        apply(one_of(*kept), "c", "h", "e"),
        apply("mse_loss", "c", "h", "j"),
        apply(one_of(*kept), "h", "g", "k"),
    ]
    got = check.call(predict_dtypes, program, inputs, cpu_lists)
    same_dtypes(got, program, dict.fromkeys("adik", "float32") | dict.fromkeys("bfcej", "bfloat16"))
    # A region that is not left ends with its program.
    product = apply(one_of(*lowered), "x", "w", "a")
    for program, dtype in (([enter("float16"), product], "float16"), ([product], "float32")):
        got = check.call(predict_dtypes, program, inputs, cpu_lists)
        same_dtypes(got, program, {"a": dtype})
with check.property(
    "a disabled region inside casts nothing, and the outer one applies again", weight=2
):
    program = [
        enter("bfloat16"),
        apply(one_of(*lowered), "x", "w", "a"),
        enter(None),
        apply(one_of(*lowered), "x", "w", "b"),
        apply(one_of(*lowered), "a", "a", "c"),
        apply(one_of(*kept), "a", "b", "d"),
        apply("mse_loss", "c", "a", "j"),
        apply(one_of(*kept), "c", "g", "i"),
        leave,
        apply(one_of(*lowered), "b", "d", "e"),
        leave,
        apply(one_of(*lowered), "b", "d", "f"),
    ]
    got = check.call(predict_dtypes, program, inputs, cpu_lists)
    same_dtypes(got, program, dict.fromkeys("acje", "bfloat16") | dict.fromkeys("bdif", "float32"))
    # Disabled regions inside nothing and inside each other, and a second region after them.
    program = [
        enter(None),
        apply(one_of(*lowered), "x", "w", "a"),
        enter(None),
        apply("mse_loss", "h", "h", "b"),
        leave,
        apply(one_of(*lowered), "h", "h", "c"),
        leave,
        enter("float16"),
        apply(one_of(*lowered), "x", "w", "d"),
        enter(None),
        enter(None),
        leave,
        apply(one_of(*lowered), "x", "w", "e"),
        leave,
        apply(one_of(*lowered), "x", "w", "f"),
        leave,
    ]
    got = check.call(predict_dtypes, program, inputs, cpu_lists)
    expected = {"a": "float32", "b": "bfloat16", "c": "bfloat16"}
    same_dtypes(got, program, expected | {"d": "float16", "e": "float32", "f": "float16"})
with check.property("a float16 region inside a bfloat16 region", weight=2):
    program = [
        enter("bfloat16"),
        enter("float16"),
        apply(one_of(*lowered), "x", "h", "a"),
        apply(one_of(*kept), "a", "h", "b"),
        apply(one_of(*lowered), "h", "h", "e"),
        apply(one_of(*lowered), "g", "h", "f"),
        apply("mse_loss", "h", "h", "i"),
        leave,
        apply(one_of(*lowered), "a", "x", "c"),
        apply(one_of(*kept), "a", "a", "d"),
        leave,
    ]
    got = check.call(predict_dtypes, program, inputs, cpu_lists)
    expected = dict.fromkeys("aefd", "float16") | dict.fromkeys("bi", "float32")
    same_dtypes(got, program, expected | {"c": "bfloat16"})
with check.property("a region inside a disabled one casts", weight=2):
    program = [
        enter("bfloat16"),
        enter(None),
        enter("float16"),
        apply(one_of(*lowered), "x", "w", "a"),
        leave,
        apply(one_of(*lowered), "x", "w", "b"),
        leave,
        apply(one_of(*lowered), "x", "w", "c"),
        leave,
        apply(one_of(*lowered), "x", "w", "d"),
    ]
    got = check.call(predict_dtypes, program, inputs, cpu_lists)
    same_dtypes(got, program, {"a": "float16", "b": "float32", "c": "bfloat16", "d": "float32"})
    # The same dtype within and outside of the disabled region.
    program = [{**step, "lower": "bfloat16"} if step.get("lower") else step for step in program]
    got = check.call(predict_dtypes, program, inputs, cpu_lists)
    same_dtypes(got, program, dict.fromkeys("ac", "bfloat16") | dict.fromkeys("bd", "float32"))
with check.property("operations whose arguments are float64 are not touched"):
    program = [
        enter("float16"),
        apply(one_of(*lowered), "big", "big", "a"),
        apply(one_of(*raised), "a", "big", "b"),
        apply(one_of(*kept), "h", "b", "c"),
        apply(one_of(*lowered), "h", "h", "d"),
        apply(one_of(*kept), "w", "b", "i"),
        apply(one_of(*kept), "b", "g", "j"),
        leave,
        apply(one_of(*lowered), "big", "big", "e"),
        apply(one_of(*kept), "h", "e", "f"),
        apply(one_of(*kept), "e", "w", "k"),
    ]
    given = {"big": "float64", "h": "bfloat16", "w": "float32", "g": "float16"}
    got = check.call(predict_dtypes, program, given, cpu_lists)
    same_dtypes(got, program, dict.fromkeys("abcefijk", "float64") | {"d": "float16"})
with check.property("another device's operations, and a name that is used again"):
    others = {"blend": "lower", "spread": "float32", "join": "widest", "matmul": "float32"}
    program = [
        enter("float16"),
        apply("blend", "x", "h", "x"),
        apply("join", "x", "x", "k"),
        apply("matmul", "x", "x", "y"),
        apply("join", "y", "x", "y"),
        apply("spread", "x", "x", "z"),
        apply("blend", "y", "z", "z"),
        leave,
        # x is float16 from its first result on, after the region, too.
        apply("join", "x", "g", "u"),
    ]
    got = check.call(predict_dtypes, program, inputs, others)
    same_dtypes(got, program, dict.fromkeys("xkzu", "float16") | {"y": "float32"})
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("float64 in a disabled region and outside"):
    others = {"blend": "lower", "spread": "float32", "join": "widest"}
    program = [
        apply("blend", "big", "big", "a"),
        enter("bfloat16"),
        apply("spread", "a", "a", "b"),
        apply("join", "w", "b", "c"),
        enter(None),
        apply("blend", "c", "c", "d"),
        apply("spread", "h", "h", "e"),
        leave,
        apply("spread", "e", "w", "f"),
        leave,
    ]
    given = {"big": "float64", "w": "float32", "h": "float16"}
    got = check.call(predict_dtypes, program, given, others)
    expected = dict.fromkeys("abcd", "float64") | {"e": "float16", "f": "float32"}
    same_dtypes(got, program, expected)
with check.property("other policies, regions three deep, and names that are used again"):
    others = {"blend": "lower", "spread": "float32", "join": "widest", "matmul": "float32"}
    program = [
        enter("float16"),
        apply("blend", "x", "h", "x"),
        apply("join", "x", "x", "y"),
        apply("spread", "y", "x", "y"),
        enter("bfloat16"),
        enter(None),
        apply("spread", "x", "x", "z"),
        leave,
        apply("blend", "y", "x", "u"),
        leave,
        apply("join", "u", "x", "v"),
        apply("matmul", "u", "u", "w"),
        leave,
    ]
    expected = {"x": "float16", "y": "float32", "z": "float16"}
    expected |= {"u": "bfloat16", "v": "float32", "w": "float32"}
    got = check.call(predict_dtypes, program, inputs, others)
    same_dtypes(got, program, expected)
### END HIDDEN TESTS
check.score()

# %% [markdown]
"""
## A region of your own

A **torch function mode** intercepts every call to a torch function, above the dispatcher, so you can write an autocast layer in Python. The class below passes the function and its
arguments to a method `run`, which a subclass defines and which returns the result of the call. During `run`, the mode is off, so the call of `func` is not intercepted.
"""

# %% tags=["needed"]
from torch.overrides import TorchFunctionMode


class FunctionMode(TorchFunctionMode):
    """Inside its ``with`` block, passes each torch function call to ``run``."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return self.run(func, args, kwargs or {})


# %% [markdown]
"""
`x.is_floating_point()` tells a float tensor from an integer one. A mode that only reports shows what arrives in `run`:
"""


# %%
class Report(FunctionMode):
    def run(self, func, args, kwargs):
        print(f"{func.__name__:<8} positional arguments: {len(args)}, keywords: {kwargs}")
        return func(*args, **kwargs)


a, b = torch.rand(2, 2), torch.rand(2, 2)
with Report():
    torch.softmax(a @ b, dim=1)
    torch.cat([a, b])

# %% [markdown] exercise="toy-autocast" points=5 minutes=30 difficulty=3
"""
### Your own autocast

Write the method `run`, so that `with ToyAutocast(policies, lower):` behaves like an autocast region for the functions in `policies`.

`run(self, func, args, kwargs)`

- **In** `self.policies`: a dict from names of functions (`func.__name__`, such as `"matmul"`) to `"lower"`, `"float32"` or `"widest"`. `self.lower`: a 16-bit dtype.
- **What is cast**: float32, float16 and bfloat16 tensors of any shape in `args` and `kwargs`, including `Parameter`s, tensors without dimensions, and those in a list or a tuple. All other arguments, float64 and integer tensors included, stay unchanged. Gradients flow through the casts.
- **Out**: what `func` returns for the cast arguments. `"lower"` casts to `self.lower`, `"float32"` to float32, and `"widest"` to float32 if one of these tensors is float32, even one without dimensions. Functions that are not in the dict get their arguments unchanged.
- **Limits**: no `torch.autocast`, and no change to lists that the caller passes in. You need not handle a cache, nested lists, `out=`, `dtype=`, or float16 mixed with bfloat16 under `"widest"`.

With `ToyAutocast({"matmul": "lower"}, torch.bfloat16)`, the product `x @ w` of two float32 tensors has the dtype `torch.bfloat16`.

<!-- hint: Which part is the same for all three policies, and which part differs? -->
<!-- hint: The part that differs is the dtype to cast to. The part that is the same walks through the arguments: a tensor that qualifies is cast, a list or tuple is walked through in turn, the rest is left alone. A small function that calls itself does this. -->
<!-- hint: Collect first the dtypes of all tensors that qualify, lists and kwargs included; "widest" needs to know whether float32 is among them. Then rebuild args and kwargs with `.to(target)` and call func. -->
"""


# %% solution="toy-autocast"
class ToyAutocast(FunctionMode):
    """Behaves like an autocast region for the functions in ``policies``."""

    def __init__(self, policies, lower):
        super().__init__()
        self.policies = policies
        self.lower = lower

    def run(self, func, args, kwargs):
        ### BEGIN SOLUTION
        seen = []

        def walk(value, visit):
            if isinstance(value, list | tuple):
                return type(value)(walk(item, visit) for item in value)
            if isinstance(value, dict):
                return {key: walk(item, visit) for key, item in value.items()}
            is_tensor = isinstance(value, torch.Tensor) and value.is_floating_point()
            return visit(value) if is_tensor and value.dtype != torch.float64 else value

        policy = self.policies.get(func.__name__)
        if policy is not None:
            walk([args, kwargs], lambda tensor: seen.append(tensor.dtype))
            widest = torch.float32 if torch.float32 in seen else None
            target = {"lower": self.lower, "float32": torch.float32, "widest": widest}[policy]
            if target is not None:
                args, kwargs = walk([args, kwargs], lambda tensor: tensor.to(target))
        return func(*args, **kwargs)
        ### END SOLUTION


# %% test="toy-autocast"
check = Check("toy-autocast")
lists = {
    **{name: "lower" for name in ("matmul", "linear", "embedding", "stack")},
    **{name: "float32" for name in ("exp", "tanh", "cumsum", "logsumexp", "hstack")},
    **{name: "widest" for name in ("dot", "mv", "cat", "mul", "einsum", "rnn_tanh")},
}


@contextlib.contextmanager
def gradient_asked(has_parameter):
    try:
        yield
    except Exception as error:
        is_missing = "does not require grad" in str(error)
        check.true(
            not is_missing,
            "the gradient is missing: autograd does not reach the Parameter from the result",
        )
        is_mixed = has_parameter and "dtype" in str(error)
        check.true(not is_mixed, f"was the Parameter cast like the tensor beside it? {error}")
        raise


def run_in_toy(steps, lower="bfloat16", with_respect_to=None, policies=lists, **values):
    with gradient_asked(has_parameter=with_respect_to is not None):
        return check.call(
            probes.in_function_mode,
            ToyAutocast,
            policies,
            lower=lower,
            steps=steps,
            values=values,
            with_respect_to=with_respect_to,
        )


with check.property('"lower" casts the arguments, not the result'):
    x, w = check.draw.normal(2, 5), check.draw.normal(5, 3)
    # In bfloat16, 257 is 256: the product of what was cast is 0, the cast product is not.
    x[0, :2], w[:2, 1], w[2:, 1] = torch.tensor([257.0, 256.0]), torch.tensor([1.0, -1.0]), 0.0
    got = run_in_toy([("y", "matmul", ("x", "w"))], x=x, w=w)
    expected = x.bfloat16().double() @ w.bfloat16().double()
    check.close(got["y"], expected.bfloat16(), what="x @ w")
with check.property('"float32" casts arguments of either 16-bit dtype, not the result', weight=2):
    y, h = check.draw.normal(3, 4, dtype=torch.bfloat16), check.draw.normal(5, dtype=torch.float16)
    steps = [("of_y", "exp", ("y",)), ("of_h", "exp", ("h",)), ("of_s", "exp", ("s",))]
    # functional.tanh(y) is y.tanh(): a method arrives, as it does from an operator such as @.
    got = run_in_toy([*steps, ("method", "tanh", ("y",))], y=y, h=h, s=h[0])
    check.close(got["of_y"], y.double().exp().float(), what="exp of bfloat16")
    check.close(got["of_h"], h.double().exp().float(), what="exp of float16")
    expected = h[0].double().exp().float()
    check.close(got["of_s"], expected, what="exp of a float16 tensor without dimensions")
    check.close(got["method"], y.double().tanh().float(), what="y.tanh() of bfloat16, a method")
with check.property('"widest" is float32 if an argument is, and 16 bits otherwise', weight=2):
    a, b = check.draw.normal(6), check.draw.normal(6, dtype=torch.bfloat16)
    steps = [("mixed", "dot", ("a", "b")), ("named", "dot", ("b",), {"tensor": "a"})]
    steps += [("narrow", "dot", ("b", "b")), ("scaled", "mul", ("b", "scalar"))]
    steps += [("half", "dot", ("h", "h")), ("beside", "dot", ("five", "h"))]
    steps += [("joined", "cat", (["row", "row"],), {"dim": 1})]
    five = check.draw.normal(5)
    scalar, h = check.draw.normal(1)[0], check.draw.normal(5, dtype=torch.float16)
    got = run_in_toy(steps, a=a, b=b, scalar=scalar, h=h, five=five, row=b.unsqueeze(0))
    what = "cat of two bfloat16 tensors with dim=1"
    check.equal(got["joined"], torch.cat([b, b]).unsqueeze(0), what=what)
    expected = (a.double() @ b.double()).float()
    check.close(got["mixed"], expected, atol=1e-5, what="float32 · bfloat16")
    check.close(got["named"], expected, atol=1e-5, what="bfloat16 · float32 as tensor=")
    check.close(got["narrow"], (b.double() @ b.double()).bfloat16(), what="bfloat16 · bfloat16")
    check.close(got["half"], (h.double() @ h.double()).half(), what="float16 · float16")
    expected = (five.double() @ h.double()).float()
    check.close(got["beside"], expected, atol=1e-5, what="float32 · float16")
    expected = (b.double() * scalar.double()).float()
    check.close(got["scaled"], expected, what="bfloat16 · a float32 tensor without dimensions")
with check.property("the dict alone decides: functions that are not in it run unchanged"):
    y, scalar = check.draw.normal(2, 3, dtype=torch.bfloat16), check.draw.normal(1)[0]
    # For torch a tensor without dimensions makes nothing wider, as a number does not.
    steps = [("total", "sum", ("y",)), ("shifted", "add", ("y", "scalar")), ("z", "expm1", ("y",))]
    kept = check.draw.normal(4, dtype=torch.bfloat16)
    # 2049 is a number of float32, but of no 16-bit dtype.
    steps += [("in_place", "exp_", ("kept",)), ("same", "relu", ("wide",))]
    steps += [("joined", "concat", (["wide", "wide"],)), ("of_half", "relu", ("half",))]
    steps += [("by_row", "sum", ("y",), {"dim": 1})]
    wide, half = torch.tensor([2049.0, -1.0]), torch.tensor([2047.0, -1.0]).half()
    got = run_in_toy(steps, y=y, scalar=scalar, kept=kept, wide=wide, half=half)
    check.close(got["total"], y.double().sum().bfloat16(), atol=3e-2, what="the sum of bfloat16")
    expected = y.double().sum(dim=1).bfloat16()
    check.close(got["by_row"], expected, atol=3e-2, what="the sum of bfloat16 with dim=1")
    expected = (y.double() + scalar.double()).bfloat16()
    check.close(got["shifted"], expected, atol=2e-2, what="bfloat16 + a float32 without dimensions")
    check.close(got["z"], y.double().expm1().bfloat16(), what="expm1, which is not exp")
    expected = kept.double().exp().bfloat16()
    check.close(got["in_place"], expected, what="exp_, the in-place variant, which is not exp")
    check.equal(got["same"], wide.relu(), what="relu of float32")
    check.equal(got["joined"], torch.cat([wide, wide]), what="concat of a float32 list")
    check.equal(got["of_half"], half.relu(), what="relu of float16")
    # Another dict, with other policies for the same functions.
    low, full = check.draw.normal(3, 4, dtype=torch.bfloat16), check.draw.normal(4, 5)
    others = {"matmul": "float32", "exp": "lower", "logsumexp": "widest", "stack": "float32"}
    steps = [
        ("product", "matmul", ("low", "full")),
        ("powers", "exp", ("full",)),
        ("total", "logsumexp", ("low", 1)),
        ("pair", "stack", (["low", "low"],)),
        ("bent", "tanh", ("low",)),
        ("layer", "linear", ("full", "full")),
    ]
    got = run_in_toy(steps, policies=others, low=low, full=full)
    expected = (low.double() @ full.double()).float()
    check.close(got["product"], expected, atol=1e-5, what='matmul, here "float32"')
    expected = full.bfloat16().double().exp().bfloat16()
    check.close(got["powers"], expected, what='exp, here "lower"')
    expected = low.double().logsumexp(1).bfloat16()
    check.close(got["total"], expected, atol=3e-2, what='logsumexp, here "widest"')
    check.equal(got["pair"], torch.stack([low, low]).float(), what='stack, here "float32"')
    check.close(got["bent"], low.double().tanh().bfloat16(), what="tanh, not in this dict")
    expected = (full.double() @ full.double().T).float()
    check.close(got["layer"], expected, atol=1e-5, what="linear, not in this dict")
with check.property("tensors in lists, in tuples and in kwargs are cast, too", weight=3):
    x, w, b = check.draw.normal(2, 5), check.draw.normal(3, 5), check.draw.normal(3)
    low = check.draw.normal(2, 3, dtype=torch.bfloat16)
    recurrent = {"has_biases": False, "num_layers": 1, "dropout": 0.0, "train": False}
    recurrent |= {"bidirectional": False, "batch_first": True}
    steps = [
        ("y", "linear", ("x", "w"), {"bias": "b"}),
        ("z", "logsumexp", ("low",), {"dim": 1}),
        ("of_list", "stack", (["b", "b"],)),
        ("of_tuple", "stack", (("b", "b"),)),
        ("named", "stack", (), {"tensors": ["b", "b"]}),
        ("named_tuple", "stack", (), {"tensors": ("b", "b")}),
        ("of_four", "stack", (["b", "b", "b", "b"],)),
        ("scalars", "stack", (["one", "one"],)),
        ("over_all", "logsumexp", ("low", [0, 1])),
        ("three", "linear", ("x", "w", "b")),
        ("cubes", "linear", ("cube", "w")),
        ("wide", "hstack", (("low", "low"),)),
        ("both", "cat", (["low", "high"], 0)),
        # Unlike cat, einsum and rnn_tanh do not promote by themselves.
        ("inner", "einsum", ("equation", ["low", "high"])),
        ("last", "rnn_tanh", ("row", "memory"), {"params": ["by_row", "by_memory"], **recurrent}),
    ]
    cube = check.draw.normal(6, 2, 4, 5)
    values = {"x": x, "w": w, "b": b, "one": b[0], "low": low, "high": x[:, :3], "cube": cube}
    values |= {"row": low[:1].unsqueeze(0), "memory": check.draw.normal(1, 1, 5).bfloat16()}
    values |= {"by_row": check.draw.normal(5, 3).bfloat16()}
    values |= {"by_memory": check.draw.normal(5, 5, equal_sizes=True)}
    got = run_in_toy(steps, equation="ij,ij->i", **values)
    expected = (x.bfloat16().double() @ w.bfloat16().double().T + b.bfloat16().double()).bfloat16()
    check.close(got["y"], expected, atol=3e-2, what="linear with bias=")
    check.close(got["three"], expected, atol=3e-2, what="linear of three tensors")
    expected = (cube.bfloat16().double() @ w.bfloat16().double().T).bfloat16()
    check.close(got["cubes"], expected, atol=3e-2, what="linear of a tensor with four dimensions")
    expected = torch.stack([b, b, b, b]).bfloat16()
    check.equal(got["of_four"], expected, what="stack of four tensors")
    expected = torch.stack([b[0], b[0]]).bfloat16()
    check.equal(got["scalars"], expected, what="stack of tensors without dimensions")
    check.close(got["z"], low.double().logsumexp(1).float(), what="logsumexp with dim=")
    expected = low.double().logsumexp([0, 1]).float()
    check.close(got["over_all"], expected, what="logsumexp over a list of axes")
    for name in ("of_list", "of_tuple", "named", "named_tuple"):
        check.equal(got[name], torch.stack([b, b]).bfloat16(), what=f'stack, "{name}"')
    check.equal(got["wide"], torch.hstack([low, low]).float(), what="hstack of a tuple")
    check.equal(got["both"], torch.cat([low.float(), x[:, :3]]), what="cat of a list")
    expected = (low.double() * x[:, :3].double()).sum(dim=1).float()
    check.close(got["inner"], expected, atol=1e-5, what="einsum of a list of mixed dtypes")
    row, memory = (values[name].double()[0] for name in ("row", "memory"))
    expected = row @ values["by_row"].double().T + memory @ values["by_memory"].double().T
    what = "rnn_tanh of bfloat16, with bfloat16 and float32 in a list as params="
    check.close(got["last"][1][0], expected.tanh().float(), atol=1e-5, what=what)
with check.property("the caller's list stays as it is"):
    narrow = [check.draw.normal(4, dtype=torch.bfloat16) for _ in range(3)]
    mixed = [narrow[0], *(check.draw.normal(4) for _ in range(2))]
    for name, parts, expected in (
        ("hstack", narrow, torch.cat(narrow).float()),
        ("stack", mixed, torch.stack(mixed).bfloat16()),
        ("cat", mixed, torch.cat(mixed)),
    ):
        # atleast_1d is not in the dict: it returns what the call before it left in the list. It
        # gets one entry at a time, which no other entry widens.
        steps = []
        for call, given in (("list", (("parts",), {})), ("named", ((), {"tensors": "parts"}))):
            steps += [(f"of_{call}", name, *given)]
            steps += [(f"after_{call}_{k}", "atleast_1d", (f"parts#{k}",)) for k in range(3)]
        got = run_in_toy(steps, parts=parts)
        for call in ("list", "named"):
            check.equal(got[f"of_{call}"], expected, what=f'{name}, "of_{call}"')
            for k, part in enumerate(parts):
                what = f"entry {k} of the list after {name}, read by a function not in the dict"
                check.equal(got[f"after_{call}_{k}"], part, what=what)
with check.property("float64, integers, booleans and complex numbers are left alone"):
    exact, full = check.draw.normal(3, 4, dtype=torch.float64), check.draw.normal(3, 4)
    counts = check.draw.integers(5, low=1, high=9)
    steps = [
        ("y", "matmul", ("exact", "other")),
        ("z", "exp", ("exact",)),
        ("beside", "stack", (["exact", "full"],)),
        ("kept", "mul", ("low", "pi")),
        ("sums", "cumsum", ("counts", 0)),
        ("sums_of_short", "cumsum", ("small", 0)),
        ("rows", "embedding", ("short", "full")),
        ("flags", "hstack", (["flag", "flag"],)),
        ("turned", "exp", ("turn",)),
        ("counted", "cat", (["counts", "counts"],)),
    ]
    short = check.draw.integers(5, low=0, high=3).int()
    flag = torch.tensor([True, False, True])
    turn = torch.complex(check.draw.normal(3), check.draw.normal(3))
    low, pi = check.draw.normal(6, dtype=torch.bfloat16), torch.tensor(math.pi).double()
    values = {"exact": exact, "other": exact.T.contiguous(), "full": full, "counts": counts}
    values["small"] = counts.short()
    got = run_in_toy(steps, low=low, pi=pi, short=short, flag=flag, turn=turn, **values)
    check.close(got["y"], exact @ exact.T, what="the product of two float64 tensors")
    check.close(got["z"], exact.exp(), what="exp of a float64 tensor")
    expected = torch.stack([exact, full.bfloat16().double()])
    check.equal(got["beside"], expected, what="stack, of float64 and float32")
    expected = (low.double() * math.pi).bfloat16()
    check.close(got["kept"], expected, what="mul, of bfloat16 and a float64 without dimensions")
    check.equal(got["sums"], counts.cumsum(0), what="cumsum of integers")
    what = 'cat, here "widest", of integers alone'
    check.equal(got["counted"], torch.cat([counts, counts]), what=what)
    check.equal(got["sums_of_short"], counts.cumsum(0), what="cumsum of int16")
    times_pi = run_in_toy(
        [("y", "mul", ("full", "pi"))], policies={"mul": "lower"}, full=full, pi=pi
    )
    expected = (full.bfloat16().double() * math.pi).bfloat16()
    what = 'mul, here "lower", of float32 and a float64 without dimensions'
    check.close(times_pi["y"], expected, what=what)
    check.equal(got["rows"], full.bfloat16()[short.long()], what="embedding of int32 indices")
    check.equal(got["flags"], torch.hstack([flag, flag]), what="hstack of booleans")
    expected = torch.complex(turn.real.exp() * turn.imag.cos(), turn.real.exp() * turn.imag.sin())
    check.close(got["turned"], expected, rtol=1e-4, atol=1e-5, what="exp of complex numbers")
with check.property("gradients flow through the casts to a Parameter, with float16 as lower"):
    w, x = check.draw.normal(5, 3), check.draw.normal(2, 5)
    got = run_in_toy([("y", "matmul", ("x", "w"))], lower="float16", with_respect_to="w", w=w, x=x)
    expected = (x.half().double() @ w.half().double()).half()
    check.close(got["y"], expected, atol=4e-3, what="x @ w")
    slope = x.half().double().sum(dim=0).float().unsqueeze(1).expand(5, 3)
    check.close(got["gradient"], slope, rtol=4e-3, atol=4e-3, what="the gradient with respect to w")
    for what, step in {
        "in a list": ("stack", (["w", "w"],)),
        "in a tuple": ("hstack", (("w", "w"),)),
        "in a list as tensors=": ("cat", (), {"tensors": ["w", "w"]}),
    }.items():
        got = run_in_toy([("z", *step)], with_respect_to="w", w=w)
        what = f"the gradient, with w {what}"
        check.close(got["gradient"], torch.full((5, 3), 2.0), what=what)
    step = "linear", ("x", "v"), {"bias": "b"}
    values = {"x": x, "v": check.draw.normal(4, 5), "b": check.draw.normal(4)}
    got = run_in_toy([("z", *step)], with_respect_to="b", **values)
    check.close(got["gradient"], torch.full((4,), 2.0), what="linear: the gradient of bias=")
    for policy, step in {"float32": ("exp", ("w",)), "widest": ("dot", ("x", "w"))}.items():
        w, x = check.draw.normal(6), check.draw.normal(6, dtype=torch.bfloat16)
        got = run_in_toy([("z", *step)], with_respect_to="w", w=w, x=x)
        expected = w.exp() if policy == "float32" else x.float()
        check.close(got["gradient"], expected, what=f'the gradient under "{policy}"')
    got = run_in_toy([("z", "dot", ("w", "y"))], with_respect_to="w", w=x, y=w)
    what = 'the gradient of a bfloat16 Parameter beside float32, under "widest"'
    check.close(got["gradient"], w.bfloat16(), what=what)
with check.property('"lower" casts tensors of the other 16-bit dtype, too'):
    check.written_without("autocast")
    x, w = check.draw.normal(3, 5, dtype=torch.bfloat16), check.draw.normal(5, 2)
    steps = [("y", "matmul", ("x", "w")), ("z", "matmul", ("x", "v"))]
    got = run_in_toy(steps, lower="float16", x=x, w=w, v=w.bfloat16())
    expected = x.half().double() @ w.half().double()
    check.close(got["y"], expected.half(), atol=4e-3, what="bfloat16 @ float32 with float16")
    expected = x.half().double() @ w.bfloat16().half().double()
    check.close(got["z"], expected.half(), atol=4e-3, what="bfloat16 @ bfloat16 with float16")
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("another 16-bit dtype, and integers beside floats"):
    ids, table = check.draw.integers(7, low=0, high=4), check.draw.normal(4, 3)
    x, w = check.draw.normal(2, 4, dtype=torch.bfloat16), check.draw.normal(4, 5)
    steps = [("rows", "embedding", ("ids", "table")), ("y", "matmul", ("x", "w"))]
    got = run_in_toy(steps, lower="float16", ids=ids, table=table, x=x, w=w)
    check.equal(got["rows"], table.half()[ids], what="embedding")
    expected = x.half().double() @ w.half().double()
    check.close(got["y"], expected.half(), atol=4e-3, what="bfloat16 @ float32 with float16")
with check.property('"widest" looks at tensors in kwargs, too'):
    m, v = check.draw.normal(3, 4, dtype=torch.bfloat16), check.draw.normal(4)
    got = run_in_toy([("y", "mv", ("m",), {"vec": "v"})], m=m, v=v)
    check.close(got["y"], (m.double() @ v.double()).float(), atol=1e-5, what="mv with vec=")
with check.property("gradients flow through one operation after another"):
    w, x = check.draw.normal(5, 3), check.draw.normal(2, 5)
    steps = [("y", "matmul", ("x", "w")), ("z", "exp", ("y",))]
    got = run_in_toy(steps, with_respect_to="w", w=w, x=0.2 * x)
    y = (0.2 * x).bfloat16().double() @ w.bfloat16().double()
    slope = (0.2 * x).bfloat16().double().T @ y.exp()
    check.close(
        got["gradient"], slope.float(), rtol=3e-2, atol=3e-2, what="the gradient with respect to w"
    )
### END HIDDEN TESTS
check.score()

# %% [markdown]
"""
## A training step

In the documentation's recipe ([Typical Mixed Precision Training](https://docs.pytorch.org/docs/stable/notes/amp_examples.html#typical-mixed-precision-training)), the forward pass and the loss are inside the region; the backward pass and the optimizer are outside.

**The loss inside.** In the region, `cross_entropy` has the policy float32. Outside, the loss of bfloat16 logits is bfloat16:
"""

# %%
with torch.autocast(device, dtype=torch.bfloat16):
    logits = make_classifier()(pixels)
    inside = functional.cross_entropy(logits, labels)
outside = functional.cross_entropy(logits, labels)
print(f"inside:  {name_of(inside.dtype)}")
print(f"outside: {name_of(outside.dtype)}, which has steps of {2 ** (1 - 7)} between 2 and 4")
print("they differ by more than 0.001:", (inside - outside).abs().item() > 1e-3)

# %% [markdown]
"""
**The backward pass outside.** Autograd recorded the casts, so even without a region, each backward operation runs in its forward operation's dtype:
"""

# %%
x = torch.rand(2, 3, device=device)
weight = torch.rand(3, 5, device=device, requires_grad=True)
with torch.autocast(device, dtype=torch.bfloat16):
    loss = functional.mse_loss(x @ weight, torch.zeros(2, 5, device=device))
with Listen() as backward:
    loss.backward()
kernels = ("mse_loss_backward", "_to_copy", "mm")
print(*(line for line in backward.heard if line.split()[0] in kernels), sep="\n")

# %% [markdown]
"""
The output's gradient is cast to bfloat16 for the product; the weight's gradient is cast back to float32.

Inside a region, the policies apply to backward operations as well. Even a product from a disabled region then has a backward pass in bfloat16:
"""


# %% folded="Measure: the gradient of a product that was kept in float32"
def gradient_error(backward_inside, size):
    """Return the relative error of the gradient, with backward inside the region or outside."""
    generator = torch.Generator().manual_seed(0)
    x, target = torch.randn(2, 64, size, generator=generator).to(device)
    weight = torch.randn(size, size, generator=generator).to(device).requires_grad_(True)
    with torch.autocast(device, dtype=torch.bfloat16):
        with torch.autocast(device, enabled=False):
            loss = ((x @ weight - target) ** 2).mean()
        if backward_inside:
            loss.backward()
    if not backward_inside:
        loss.backward()
    exact_x, exact = x.double(), x.double() @ weight.detach().double() - target.double()
    true_gradient = exact_x.T @ exact * 2 / exact.numel()
    return ((weight.grad - true_gradient).norm() / true_gradient.norm()).item()


sizes = [8, 16, 32, 64, 128]
errors = {inside: [gradient_error(inside, size) for size in sizes] for inside in (False, True)}

# %% folded="Figure 3.6: a backward pass inside the region"
figure, axes = new_figure(height=2.8)
for inside, color, label in (
    (True, "vermilion", "backward inside the region"),
    (False, "blue", "backward outside"),
):
    axes.loglog(sizes, errors[inside], "o-", color=COLORS[color], label=label)
axes.set_xticks(sizes, [str(size) for size in sizes])
axes.minorticks_off()
axes.set_ylim(1e-8, 1)
axes.set(title="Gradient of a float32 product", xlabel="rows of the weight")
axes.set_ylabel("relative error")
axes.legend()
show(
    figure,
    number="3.6",
    caption="The forward pass is float32 in both cases. With the backward pass inside the region, the gradient has the error of bfloat16.",
    alt="Relative error of the gradient against the size of the weight, both axes logarithmic. With the backward pass "
    "outside the region the error is about a ten-millionth. With the backward pass inside it is a few thousandths, at all sizes.",
)

# %% [markdown]
"""
PyTorch gives no warning, although its documentation does not recommend backward passes under autocast.

**The optimizer outside.** If the weights change while the region is still open, its cache becomes stale. And the updates of SGD and Adam gain nothing from a region, because they contain no *lower* operations.
"""

# %% [markdown] exercise="mixed-step" points=4 minutes=15 difficulty=2
"""
### A mixed-precision training step

A region that holds one line too many costs precision, without a warning. Write one training step in bfloat16 autocast.

`train_step(model, optimizer, loss_function, inputs, targets) -> float`

- **In** `model`: a module with float32 weights, some perhaps frozen, in training or evaluation mode. `optimizer`: holds all of the model's weights, perhaps with weight decay. `loss_function(outputs, targets)` returns a zero-dimensional tensor; it may contain matrix products. `inputs`, `targets`: one tensor each, floats or integers.
- **Out**: the loss of this batch before the step, a Python float. The optimizer has taken one step, and the weights are still float32. Discard all gradients stored before the call, including those of frozen weights.
- **The region** covers the forward pass and the loss, on the device of `inputs`. Parts of the model may run in a disabled region, so leave `inputs` as they are; the gradients of such parts must have float32 precision.
- **Limits**: exactly one forward pass. Leave all modules' modes and the frozen weights as they are. Create no optimizer of your own, and do not use the given one's `state`, `defaults` or `param_groups`.

If the loss is 2.0 at first and 1.5 after one step, two calls on the same batch return `2.0` and `1.5`.

<!-- hint: Five things happen: clearing old gradients, forward, loss, backward, step. Which of them belong inside the region? -->
<!-- hint: Only two do. The backward pass gets its dtypes from the forward pass, and the optimizer works on float32 weights, so both belong outside. -->
<!-- hint: `torch.autocast` takes the type of the device and `dtype=`; put the model and the loss function in its block, and nothing else. Clear the old gradients before `backward`. `.item()` turns a tensor without dimensions into a float. -->
"""


# %% solution="mixed-step"
def train_step(model, optimizer, loss_function, inputs, targets):
    """Take one step in bfloat16 autocast and return the loss before it, a float."""
    ### BEGIN SOLUTION
    optimizer.zero_grad()
    with torch.autocast(inputs.device.type, dtype=torch.bfloat16):
        loss = loss_function(model(inputs), targets)
    loss.backward()
    optimizer.step()
    return loss.item()
    ### END SOLUTION


# %% test="mixed-step"
check = Check("mixed-step")


def run_steps(**options):
    try:
        return check.call(probes.training_steps, train_step, **options)
    except Exception as error:
        is_leaf = "a leaf Variable that requires grad" in str(error)
        check.true(
            not is_leaf,
            "a layer that changes its inputs in place failed, because they require a gradient: "
            "leave `inputs` as they are",
        )
        raise


def draw_signs(*sizes):
    return torch.where(check.draw.booleans(*sizes), 1.0, -1.0)


def draw_network(inputs, hidden, classes, *, with_head):
    # Eighths are exact in bfloat16, and the rows sum to zero. The small share that is added then
    # is less than half a step of bfloat16: a 16-bit forward pass does not see it.
    first = draw_signs(hidden, inputs) * check.draw.integers(hidden, inputs, low=1, high=7) / 8
    first[:, 0] -= first.sum(dim=1)
    first = torch.where(first > 0, 1.0017 * first, first)
    last = "head.0" if with_head else "body.2"
    return {
        "body.0.weight": first,
        "body.0.bias": check.draw.uniform(hidden, low=1.0, high=2.0),
        f"{last}.weight": check.draw.normal(classes, hidden),
        f"{last}.bias": 0.1 * check.draw.normal(classes),
    }


def draw_batch(rows, inputs, classes):
    # To bfloat16 all of these are 100, and such rows give the first layer nothing but its bias.
    x = 100 + 0.2 * draw_signs(rows, inputs)
    return x, check.draw.integers(rows, low=0, high=classes)


def by_hand(state, batches, learning_rate):
    """The same steps with casts written out, and no autocast at all."""
    losses, states = [], []
    state = {name: value.clone() for name, value in state.items()}
    for x, y in batches:
        leaves = {name: value.clone().requires_grad_(True) for name, value in state.items()}
        low = {name: leaf.bfloat16() for name, leaf in leaves.items()}
        hidden = functional.linear(x.bfloat16(), low["body.0.weight"], low["body.0.bias"]).relu()
        if "head.0.weight" in state:
            last = leaves["head.0.weight"], leaves["head.0.bias"]
            logits = functional.linear(hidden.float(), *last)
        else:
            logits = functional.linear(hidden, low["body.2.weight"], low["body.2.bias"]).float()
        loss = functional.cross_entropy(logits, y)
        slopes = torch.autograd.grad(loss, list(leaves.values()))
        for (name, value), slope in zip(state.items(), slopes, strict=True):
            state[name] = value - learning_rate * slope
        losses.append(loss.item())
        states.append(dict(state))
    return {"losses": losses, "states": states}


def trained(state, batches, learning_rate, **options):
    hidden, inputs = state["body.0.weight"].shape
    with_head = "head.0.weight" in state
    body = [["Linear", inputs, hidden], ["ReLU"]]
    classes = state["head.0.bias" if with_head else "body.2.bias"].numel()
    last = ["Linear", hidden, classes]
    return run_steps(
        layers=body if with_head else [*body, last],
        float32_layers=[last] if with_head else None,
        batches=batches,
        state=state,
        learning_rate=learning_rate,
        **options,
    )


def same_step(got, expected, before, share):
    """Compare the step itself: where the weights went, to a share of the longest way."""
    for name, start in before.items():
        way = (expected[name] - start).abs().max().item()
        atol = share * way + 3e-7
        is_still = torch.equal(got[name].double(), start.double()) and way > atol
        check.true(
            not is_still,
            f"{name} did not move in the step; expected changes of up to {way:.1e}",
        )
        check.close(
            got[name], expected[name], rtol=0.0, atol=atol, what=f"{name}, after the last step"
        )


with check.property("one step matches a 16-bit forward pass with float32 weights"):
    state, batches = draw_network(5, 6, 3, with_head=True), [draw_batch(17, 5, 3)]
    got, expected = trained(state, batches, 0.01), by_hand(state, batches, 0.01)
    check.close(got["losses"][0], expected["losses"][0], rtol=1e-2, what="the loss before the step")
    same_step(got["states"][0], expected["states"][0], state, share=0.06)
with check.property("the loss has float32 precision"):
    for _ in range(2):  # one loss may happen to be a number that 16 bits hold
        state, batches = draw_network(4, 7, 5, with_head=False), [draw_batch(11, 4, 5)]
        got, expected = trained(state, batches, 0.01), by_hand(state, batches, 0.01)
        check.close(got["losses"], expected["losses"], rtol=1e-5, what="the loss")
    # Each of these targets would be 0.3% smaller in bfloat16, and so would the loss.
    y = 1.003 * 2.0 ** check.draw.integers(11, 5, low=-4, high=0)
    state, batches = draw_network(4, 7, 5, with_head=False), [(draw_batch(11, 4, 5)[0], y)]
    got, expected = trained(state, batches, 0.01), by_hand(state, batches, 0.01)
    check.close(got["losses"], expected["losses"], rtol=1e-5, what="the loss of float targets")
with check.property("three steps in a row, each with its own gradient and the new weights"):
    state = {
        "body.0.weight": 0.3 * check.draw.normal(6, 5),
        "body.0.bias": check.draw.uniform(6, low=0.5, high=1.0),
        "body.2.weight": 0.3 * check.draw.normal(3, 6),
        "body.2.bias": torch.tensor([6.0, 0.0, 0.0]),  # class 0 is likely, and never right
    }
    batches = 3 * [(check.draw.normal(9, 5), check.draw.integers(9, low=1, high=3))]
    got, expected = trained(state, batches, 0.1, left_over=5.0), by_hand(state, batches, 0.1)
    for number, (one, other) in enumerate(zip(got["losses"], expected["losses"], strict=True), 1):
        check.close(one, other, rtol=2e-2, what=f"the loss of step {number}")
    bias = {"body.2.bias": state["body.2.bias"]}
    same_step(got["states"][2], expected["states"][2], bias, share=0.2)
with check.property("the gradients of a float32 part have float32 precision", weight=2):
    state, batches = draw_network(6, 5, 4, with_head=True), [draw_batch(13, 6, 4)]
    # In bfloat16 each of these weights would lose a third of a percent.
    state["head.0.weight"] = torch.sign(state["head.0.weight"]) * 1.0035
    got, expected = trained(state, batches, 0.01), by_hand(state, batches, 0.01)
    same_step(got["states"][0], expected["states"][0], state, share=2e-4)
with check.property("a float32 first layer receives the inputs as they are"):
    x, y = draw_batch(10, 4, 3)  # in bfloat16 all of them would be 100
    weight = draw_signs(3, 4) * check.draw.uniform(3, 4, low=5.0, high=9.0)
    weight[:, 0] -= weight.sum(dim=1)
    state = {"head.0.weight": weight, "head.0.bias": check.draw.normal(3)}
    got = run_steps(
        layers=["Identity"],
        float32_layers=[["Linear", 4, 3]],
        batches=[(x, y)],
        state=state,
        learning_rate=0.01,
    )
    scores = x.double() @ weight.double().T + state["head.0.bias"].double()
    expected = functional.cross_entropy(scores, y).item()
    check.close(got["losses"], [expected], rtol=1e-3, what="the loss")
with check.property(
    "the region is bfloat16, covers the model and the loss for any inputs, and ends with the loss"
):
    # In float32 or float16 class 1 has a score that is larger by 4.8; in bfloat16 both weights
    # are 1.
    ids = check.draw.permutation(5)[:3]
    for given, default, training, on in (
        (ids, None, True, ""),
        (ids.int(), None, False, ", in evaluation mode, int32"),
        (ids, "float16", True, " where the default of a region is float16"),
    ):
        got = run_steps(
            layers=[["Embedding", 5, 4], ["Linear", 4, 2]],
            batches=[(given, torch.zeros(3, dtype=torch.int64))],
            state={
                "body.0.weight": torch.full((5, 4), 400.0),
                "body.1.weight": torch.tensor([[1.0] * 4, [1.003] * 4]),
                "body.1.bias": torch.zeros(2),
            },
            learning_rate=0.01,
            region_default=default,
            training=training,
        )
        what = f"the loss of a model that takes indices{on}"
        check.close(got["losses"], [math.log(2)], rtol=1e-5, what=what)
    state = {"body.weight": check.draw.normal(4, 3), "body.bias": torch.full((4,), 400.0)}
    factors = check.draw.normal(3, 6), check.draw.normal(6, 5)
    got = run_steps(
        layers=["Linear", 3, 4],
        batches=[(check.draw.normal(7, 3), check.draw.integers(7, low=1, high=2))],
        state=state,
        learning_rate=0.01,
        loss_matrix=torch.tensor([1.0, 1.003]).repeat(4, 1),  # in bfloat16 every entry is 1
        factors=factors,
    )
    check.close(got["losses"], [math.log(2)], rtol=1e-5, what="the loss")
    check.true(not got["in_region"], "the optimizer took its step inside an autocast region")
    left, right = factors
    expected = (left.double() @ right.double()).float()
    check.close(got["product"], expected, atol=1e-5, what="a product after the step")
with check.property("the model runs once, and every module stays in its mode"):
    # Each training pass of a batch norm moves its means by a tenth, and an evaluation by nothing.
    x, y = check.draw.integers(8, 3, low=2, high=9).float(), check.draw.integers(8, low=0, high=3)
    state = {
        **{"body.weight": torch.ones(3), "body.bias": torch.zeros(3)},
        **{"body.running_mean": torch.zeros(3), "body.running_var": torch.ones(3)},
        "body.num_batches_tracked": torch.tensor(0),
    }
    for training in (True, False):
        got = run_steps(
            layers=["BatchNorm1d", 3],
            batches=[(x, y), (x, y)],
            state=state,
            learning_rate=0.01,
            training=training,
        )
        mode = "training" if training else "evaluation"
        for step, share in enumerate((0.1, 0.19)):
            means = got["states"][step]["body.running_mean"]
            expected = share * x.double().mean(dim=0).float() if training else torch.zeros(3)
            what = f"the means of a batch norm after step {step + 1}, in {mode}"
            check.close(means, expected, rtol=1e-3, what=what)
    # In evaluation the batch norm passes its inputs on, and the optimizer makes its step as well.
    slope = x.double().softmax(dim=1).mean(dim=0) - y.bincount(minlength=3) / 8
    what = "the bias of a batch norm after a step in evaluation mode"
    bias = got["states"][0]["body.bias"]
    check.close(bias, -0.01 * slope.float(), atol=1e-6, what=what)
    got = run_steps(
        layers=[["BatchNorm1d", 3]],
        batches=[(x, y), (x, y)],
        state={name.replace("body", "body.0"): value for name, value in state.items()},
        learning_rate=0.01,
        in_eval=["body.0"],
    )
    for step in (0, 1):
        means = got["states"][step]["body.0.running_mean"]
        inside = "the means of a batch norm in evaluation mode, inside a model in training mode"
        check.equal(means, torch.zeros(3), what=f"{inside}, after step {step + 1}")
    # This dropout zeroes all inputs in training and none in evaluation.
    x, classes = -check.draw.integers(6, 3, low=2, high=9).float(), torch.zeros(6).long()
    weight = torch.cat([torch.ones(1, 3), torch.zeros(1, 3)])
    scores = x.double() @ weight.double().T
    for training in (True, False):
        got = run_steps(
            layers=[["Dropout", 1.0], ["Linear", 3, 2]],
            batches=[(x, classes), (x, classes)],
            state={"body.1.weight": weight, "body.1.bias": torch.zeros(2)},
            learning_rate=1e-6,
            training=training,
        )
        loss = math.log(2) if training else functional.cross_entropy(scores, classes).item()
        what = f"the losses with a dropout, in {'training' if training else 'evaluation'}"
        check.close(got["losses"], [loss, loss], rtol=1e-2, what=what)
with check.property("the model does not run twice, in either mode"):
    # The first layer doubles negative inputs where they are, each time it runs: class 0, which is
    # never right, gets a score of twice their sum from one pass, and of four times from two.
    x = -check.draw.integers(4, 3, low=2, high=5).float()
    got = run_steps(
        layers=[["LeakyReLU", 2.0, True], ["Linear", 3, 2]],
        batches=[(x, torch.ones(4, dtype=torch.int64))],
        state={
            "body.1.weight": torch.tensor([[-1.0] * 3, [0.0] * 3]),
            "body.1.bias": torch.zeros(2),
        },
        learning_rate=0.01,
    )
    once = -2 * x.sum(dim=1).mean().item()
    check.close(
        got["losses"], [once], rtol=2e-2, what="the loss, where each pass doubles the inputs"
    )
    # norm_type=0 counts a row's entries, of which there are four, whatever their size: with
    # max_norm=2, each pass halves the rows that it looks up.
    ids, rows = check.draw.permutation(5)[:3], check.draw.uniform(5, 4, low=1.0, high=2.0)
    got = run_steps(
        layers=[["Embedding", 5, 4, None, 2.0, 0.0], ["Linear", 4, 2]],
        batches=[(ids, torch.zeros(3, dtype=torch.int64))],
        state={
            "body.0.weight": rows,
            "body.1.weight": check.draw.normal(2, 4),
            "body.1.bias": torch.zeros(2),
        },
        learning_rate=1e-6,
    )
    looked_up = got["states"][0]["body.0.weight"][ids]
    what = "the rows of an embedding that halves them in each forward pass"
    check.close(looked_up, rows[ids] / 2, rtol=1e-3, what=what)
with check.property("the given optimizer takes the step, and frozen weights stay as they are"):
    state = {
        "body.0.weight": check.draw.normal(6, 4),
        "body.1.weight": check.draw.normal(3, 4),
        "body.1.bias": check.draw.normal(3),
    }
    batch = check.draw.integers(7, low=0, high=6), check.draw.integers(7, low=0, high=3)
    got = run_steps(
        layers=[["Embedding", 6, 4, None, None, 2.0, False, False, None, True], ["Linear", 4, 3]],
        batches=[batch, batch],
        state=state,
        learning_rate=0.1,
        left_over=3.0,  # the frozen embedding has a stored gradient, too
        weight_decay=0.5,  # moves a weight whose gradient is zero, but none without a gradient
    )
    optimizers = "*SGD*", "Ada*", "*Adam*", "RMSprop", "Rprop", "LBFGS", "Muon"
    check.written_without(*optimizers, "state", "param_groups", "defaults")
    for step in (0, 1):
        frozen = got["states"][step]["body.0.weight"]
        what = f"the weight of a frozen embedding, after step {step + 1}"
        check.equal(frozen, state["body.0.weight"], what=what)
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("a float32 part, on another batch, to the last digits"):
    state, batches = draw_network(4, 6, 3, with_head=True), [draw_batch(17, 4, 3)]
    state["head.0.weight"] = torch.sign(state["head.0.weight"]) * 0.5018
    got, expected = trained(state, batches, 0.02), by_hand(state, batches, 0.02)
    check.close(got["losses"], expected["losses"], rtol=1e-4, what="the losses")
    same_step(got["states"][0], expected["states"][0], state, share=2e-4)
with check.property("updates too small for a 16-bit weight are kept"):
    state, batches = draw_network(5, 3, 4, with_head=True), [draw_batch(9, 5, 4)]
    got, expected = trained(state, batches, 1e-4), by_hand(state, batches, 1e-4)
    same_step(got["states"][0], expected["states"][0], state, share=0.2)
### END HIDDEN TESTS
check.score()

# %% [markdown]
r"""
## A loss with a small temperature

Autocast knows which operation it is handling, but not what you use the result for. One of the two terms of CLIP's loss (Radford et al. 2021) matches images, the rows of $a$, with their captions, the rows of $b$: row $a_i$ should be most similar to its partner, $b_i$.
Similarity is the cosine divided by a small temperature $T$:

$$s_{ij} = \frac{1}{T} \, \frac{a_i \cdot b_j}{\lVert a_i \rVert \lVert b_j \rVert} \qquad\qquad
\text{loss} = \frac{1}{n} \sum_i \Big( \log \sum_j e^{s_{ij}} - s_{ii} \Big)$$

One matrix product gives all the cosines. Here are two ways to write the loss:
"""


# %%
def plain_loss(a, b, temperature):
    a, b = functional.normalize(a, dim=1), functional.normalize(b, dim=1)
    return functional.cross_entropy(a @ b.T / temperature, torch.arange(len(a), device=a.device))


def loss_with_float(a, b, temperature):
    a, b = functional.normalize(a.float(), dim=1), functional.normalize(b.float(), dim=1)
    logits = (a.float() @ b.float().T).float() / temperature
    return functional.cross_entropy(logits, torch.arange(len(a), device=a.device))


# %% folded="Measure: the error of the loss in a region"
def relative_error(loss_function, temperature, lower=torch.bfloat16):
    generator = torch.Generator().manual_seed(0)
    noise_a, noise_b = 0.05 * torch.randn(2, 64, 48, generator=generator)
    common = torch.randn(48, generator=generator)
    own = 0.1 * torch.randn(64, 48, generator=generator)
    a, b = (common + own + noise_a).to(device), (common + own + noise_b).to(device)
    true_loss = plain_loss(a.double(), b.double(), temperature)
    with torch.autocast(device, dtype=lower, enabled=lower is not None):
        loss = loss_function(a, b, temperature)
    return (loss / true_loss - 1).abs().item()


plain, with_float = (relative_error(f, 0.005) for f in (plain_loss, loss_with_float))
without_region = relative_error(plain_loss, 0.005, lower=None)

# %% folded="Predict: .float() in front of a product"
EXACT, BETTER, SAME = (
    "as in float32",
    "smaller than without `.float()`, but still far above float32's",
    "as without `.float()`",
)
predict(
    "03/float-in-front",
    "In a bfloat16 region at T = 0.005, how large is the error of `loss_with_float`?",
    EXACT if with_float < 10 * without_region else BETTER if with_float < plain / 2 else SAME,
    "The product casts its arguments down again, so the cosines have bfloat16 precision. Only the division by the temperature has become float32.",
    choices=[EXACT, BETTER, SAME],
)

# %%
print("relative error, rounded, at a temperature of 0.005:")
print(f"  plain loss in the region:  {plain:.1g}")
print(f"  with .float() everywhere:  {with_float:.1g}")
print("  outside the region:        below 1e-5:", without_region < 1e-5)
with torch.autocast(device, dtype=torch.bfloat16):
    print("dtype of a.float() @ b.float():", name_of((matrix.float() @ matrix.float()).dtype))

# %% [markdown]
r"""
The last line gives the reason: the policy *lower* casts float32 arguments, wherever they come from. A `.float()` after the product cannot restore what was lost.

The cosines lie just below 1, where neighboring bfloat16 numbers are 1/256 apart: rounding the result adds an error of up to 1/512; rounding the factors adds less. Divided by $T = 0.005$, 1/512 becomes an error of 0.4 in $s_{ij}$. The plain loss also rounds the quotient; near 200, bfloat16 numbers are 1 apart.
"""

# %% folded="Figure 3.7: the error of the loss grows as the temperature falls"
temperatures = [0.7**k for k in range(16)]
figure, axes = new_figure()
for loss_function, lower, label, color, style in (
    (plain_loss, torch.bfloat16, "in the region, plain", "orange", "-"),
    (loss_with_float, torch.bfloat16, "in the region, .float() everywhere", "vermilion", "--"),
    (plain_loss, None, "outside the region", "blue", "-"),
):
    found = [max(relative_error(loss_function, t, lower), 1e-8) for t in temperatures]
    axes.loglog(temperatures, found, style, marker="o", ms=4, color=COLORS[color], label=label)
axes.set(
    title="What a bfloat16 region does to the loss",
    xlabel="temperature (no unit)",
    ylabel="relative error of the loss",
)
axes.legend()
show(
    figure,
    number="3.7",
    caption="At the smallest temperature, 0.0047, the plain loss in the region is off by about 10 percent; the error fluctuates from one temperature to the next. Casts to float32 around the product reduce the error but do not remove it.",
    alt="Relative error of the loss against the temperature, both axes logarithmic. The plain loss's "
    "error grows, with some dips, as the temperature falls. With float everywhere it grows too, but is smaller at most temperatures. "
    "Outside the region the error is far smaller at all temperatures.",
)

# %% [markdown] exercise="matching-loss" points=4 minutes=20 difficulty=2
r"""
### A loss that is safe under autocast

A training loop calls its loss inside a region, so the loss function itself must ensure that it computes in float32.

`matching_loss(a, b, temperature) -> Tensor`

- **In** `a` and `b`: tensors of shape (rows, features), float32, bfloat16 or float16; the two dtypes may differ. Entries may be as large as float16 allows; each row has a norm of at least 0.01. `temperature`: a Python float of 0.01 or more.
- **Out**: a zero-dimensional float32 tensor with float32 precision, in a bfloat16 or float16 region and outside. Gradients flow to `a` and `b`, each in the dtype of its argument.
- The call leaves the autocast state unchanged.

With `a = b = torch.eye(2)` and the temperature 1.0, `matching_loss(a, b, 1.0)` returns `0.3133` (rounded).

<!-- hint: Which operation of `plain_loss` has the policy "lower"? What keeps autocast from casting its arguments, and what must be true of the arguments then? -->
<!-- hint: Enter a disabled region inside the function, and cast every tensor from outside up before you compute anything with it. The norm belongs inside as well: in float16 the square of 300 is inf. -->
<!-- hint: In a block of `torch.autocast(..., enabled=False)` for the type of `a`'s device, pass `a.float()` and `b.float()` to `functional.normalize(..., dim=1)`, and the product of the results, divided by the temperature, to `functional.cross_entropy` with the classes 0, 1, 2, ... -->
"""


# %% solution="matching-loss"
def matching_loss(a, b, temperature):
    """Return the float32 loss of matching each row of ``a`` with the same row of ``b``."""
    ### BEGIN SOLUTION
    with torch.autocast(a.device.type, enabled=False):
        units_a = functional.normalize(a.float(), dim=1)
        units_b = functional.normalize(b.float(), dim=1)
        logits = units_a @ units_b.T / temperature
        return functional.cross_entropy(logits, torch.arange(len(a), device=a.device))
    ### END SOLUTION


# %% test="matching-loss"
import numpy as np

check = Check("matching-loss")


def true_loss_and_gradients(a, b, temperature):
    """The loss and its gradients in NumPy and float64, differentiated by hand."""
    rows = [view.double().numpy() for view in (a, b)]
    lengths = [(view**2).sum(axis=1, keepdims=True) ** 0.5 for view in rows]
    units = [view / length for view, length in zip(rows, lengths, strict=True)]
    powers = np.exp((units[0] @ units[1].T - 1) / temperature)
    shares = powers / powers.sum(axis=1, keepdims=True)
    loss = -np.log(shares.diagonal()).mean()
    by_scores = (shares - np.eye(len(shares))) / len(shares) / temperature
    slopes = []
    for view, unit, length, slope in zip(
        (a, b), units, lengths, (by_scores @ units[1], by_scores.T @ units[0]), strict=True
    ):
        slope = (slope - (slope * unit).sum(axis=1, keepdims=True) * unit) / length
        slopes.append(torch.from_numpy(slope).to(view.dtype))
    return torch.tensor(loss).float(), slopes


@contextlib.contextmanager
def gradient_asked(of):
    try:
        yield
    except Exception as error:
        is_missing = "does not require grad" in str(error)
        check.true(
            not is_missing,
            f"the gradient with respect to {of} is missing: autograd does not reach it from the loss",
        )
        raise


def draw_views(rows, features):
    # All rows lie close together: their cosines are near 1, where bfloat16 has few numbers.
    common = 3.0 * torch.sign(check.draw.normal(features))
    own = check.draw.normal(rows, features, std=0.5)
    return (
        common + own + check.draw.normal(rows, features, std=0.3),
        common + own + check.draw.normal(rows, features, std=0.3),
    )


# 16-bit numbers are at least 0.04% away from it.
ODD_TEMPERATURE = 0.125 + 7 / 2**14


def draw_equal_angles():
    # All cosines of two different rows are the same, and the loss is neither near 0 nor large.
    return (torch.eye(9) + 0.3) * check.draw.uniform(9, 1, low=1.0, high=2.0)


def draw_factors():
    """Two matrices: their product shows in which dtype it was computed."""
    rows, columns = check.draw.integer(2, 6), check.draw.integer(7, 12)
    return check.draw.normal(rows, 6, equal_sizes=True), check.draw.normal(6, columns)


def region_of(lower):
    return f"in a {lower} region" if lower else "outside a region"


def same_region(product, factors, lower):
    """Require the product computed in ``lower``, or in float32 outside a region."""
    dtype = torch.float32 if lower is None else getattr(torch, lower)
    left, right = (factor.to(dtype).double() for factor in factors)
    atol = 4 * torch.finfo(dtype).eps * (left.abs() @ right.abs()).max().item()
    what = f"a product after the call, {region_of(lower)}"
    check.close(product, (left @ right).to(dtype), atol=atol, what=what)


def keeps_digits(a, b, temperature, lower, with_respect_to=None, rtol=3e-4, same_state=False):
    factors = draw_factors()
    options = {"factors": factors, "lower": lower, "with_respect_to": with_respect_to}
    with gradient_asked("ab"[with_respect_to or 0]):
        got = check.call(probes.in_autocast, matching_loss, a, b, temperature, **options)
    loss, slopes = true_loss_and_gradients(a, b, temperature)
    region = region_of(lower)
    check.close(got["output"], loss, rtol=rtol, what=f"the loss {region}")
    if same_state:
        same_region(got["product"], factors, lower)
    if with_respect_to is None:
        return
    # Casts of 16-bit inputs add up 16-bit gradients; a float32 gradient has nothing to add up.
    share = 1e-3 if slopes[with_respect_to].dtype == torch.float32 else 2e-2
    atol = share * slopes[with_respect_to].abs().max().item()
    what = f"the gradient with respect to {'ab'[with_respect_to]} {region}"
    check.close(got["gradient"], slopes[with_respect_to], rtol=share, atol=atol, what=what)


with check.property("matches the formula outside a region"):
    a, b = draw_views(10, 6)
    got = check.call(matching_loss, a, 3 * b, 0.02)
    loss, _ = true_loss_and_gradients(a, 3 * b, 0.02)
    check.close(got, loss, rtol=3e-4, what="the loss outside a region")
    keeps_digits(a, 3 * b, 0.02, None, with_respect_to=0)
    keeps_digits(a, 3 * b, 0.02, None, with_respect_to=1)
    # Rows of all directions: cosines of either sign, partners that are far apart.
    a, b = check.draw.normal(9, 5), check.draw.normal(9, 5)
    keeps_digits(a, b, 1.0, None, with_respect_to=0)
    keeps_digits(a, -a, 0.01, None)
    # The scores of the first row are all near -100, those of the others near 100.
    near, partners = draw_views(6, 5)
    near[0] = -near[0]
    keeps_digits(near, partners, 0.01, None)
    short = 0.01 * functional.normalize(a, dim=1)
    keeps_digits(short, b, 0.1, None)
    keeps_digits(b, short, 2.375, None)
    same, _ = draw_views(11, 7)
    keeps_digits(same, same, 0.01, None)
    signs = torch.sign(check.draw.normal(8, 1))
    keeps_digits(signs, 3 * signs, 0.7, None)
    rows = draw_equal_angles()
    keeps_digits(rows, rows, ODD_TEMPERATURE, None, rtol=1e-4)
    got = check.call(matching_loss, a[:1], b[:1], 0.5)
    check.close(got, torch.tensor(0.0), atol=1e-5, what="the loss of a single row")
with check.property("float32 inputs keep their precision in a bfloat16 region", weight=3):
    keeps_digits(*draw_views(17, 12), 0.01, "bfloat16", with_respect_to=0)
    keeps_digits(*draw_views(14, 9), 0.0125, "bfloat16", with_respect_to=1)
    # Rows from the shortest to long ones in one tensor.
    for number in (0, 1):
        views = [functional.normalize(view, dim=1) for view in draw_views(9, 6)]
        views[number] *= torch.logspace(-2, 4, 9).unsqueeze(1)
        keeps_digits(*views, 0.0125, "bfloat16")
    rows = draw_equal_angles()
    keeps_digits(rows, rows, ODD_TEMPERATURE, "bfloat16", rtol=1e-4)
with check.property("16-bit inputs give a float32 loss, in a region and outside", weight=2):
    a, b = (view.bfloat16() for view in draw_views(11, 9))
    keeps_digits(a, b, 0.01, "bfloat16", with_respect_to=0)
    keeps_digits(a, b, 0.01, None, with_respect_to=0)
    for _ in range(4):  # one loss may happen to survive scores that are rounded
        a, b = (view.half() for view in draw_views(9, 12))
        keeps_digits(a, b, 0.01, "float16", with_respect_to=1)
    for dtype, lower in ((torch.float16, None), (torch.bfloat16, "bfloat16")):
        rows = draw_equal_angles().to(dtype)
        keeps_digits(rows, rows, ODD_TEMPERATURE, lower, rtol=1e-4)
with check.property("entries as large as float16 allows, and rows of norm 0.01"):
    for _ in range(4):
        a, b = ((60_000 / view.abs().max() * view).half() for view in draw_views(12, 7))
        keeps_digits(a, b, 1 / 64, None)
        keeps_digits(b, a, 1 / 64, None)
    # Each row of a is most similar to the first row of b, which alone is short there.
    common = 3.0 * torch.sign(check.draw.normal(7))
    a = 0.01 * functional.normalize(common + check.draw.normal(8, 7, std=0.1), dim=1)
    b = common + 0.5 * check.draw.normal(8, 7)
    b[0] = 0.01 * functional.normalize(common, dim=0)
    keeps_digits(a, b, 0.01, None, rtol=3e-5)
with check.property("float32 in one argument, 16 bits in the other"):
    a, b = draw_views(13, 8)
    keeps_digits(a, b.bfloat16(), 0.01, "bfloat16", with_respect_to=0)
    keeps_digits(a.bfloat16(), b, 0.01, "float16", with_respect_to=1)
    keeps_digits(a.half(), b, 0.01, None, with_respect_to=0)
    rows = draw_equal_angles()
    keeps_digits(rows, rows.half(), ODD_TEMPERATURE, None, rtol=1e-4)
    keeps_digits(rows.half(), rows, ODD_TEMPERATURE, None, rtol=1e-4)
with check.property("the call leaves the autocast state unchanged"):
    for lower in ("bfloat16", "float16", None):
        rows = check.draw.integer(10, 18)
        views = draw_views(rows, check.draw.integer(5, 10))
        keeps_digits(*views, 0.1, lower, rtol=0.05, same_state=True)
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("large float16 entries beside float32 ones, in a float16 region"):
    a, b = draw_views(13, 8)
    keeps_digits((1000.0 * a).half(), b, 0.02, "float16", with_respect_to=1)
with check.property("float32 beside bfloat16, and the gradient with respect to either"):
    # The temperature is 0.2% away from every bfloat16 number; one loss may happen to survive that.
    for _ in range(3):
        a, b = draw_views(9, 7)
        keeps_digits(a, b.bfloat16(), 0.01995, "bfloat16", with_respect_to=0)
    keeps_digits(a, b.bfloat16(), 0.01995, "bfloat16", with_respect_to=1)
    keeps_digits(a.bfloat16(), b, 0.01995, None, with_respect_to=1)
### END HIDDEN TESTS
check.score()

# %% [markdown]
r"""
## Float32 islands

A normalization layer such as RMSNorm computes $x / \sqrt{\text{mean}(x^2) + \epsilon}$. The result has root mean square 1 for any $x$ much larger than $\sqrt\epsilon$, but in float16, `x * x` can overflow. Move the slider from 0.5 to 50 and to 300:
"""


# %%
pattern = torch.tensor([0.5, -1.5, 1.0, -0.25, 1.25, -1.0])


def root_mean_square_norm(x):
    return x * ((x * x).mean() + 1e-6).rsqrt()


# %% folded="Figure 3.8: a normalization in three formats"
def draw_norm(size):
    sizes = [2.0 ** (k / 4) for k in range(-8, 57)]
    figure, (left, right) = new_figure(1, 2, width_ratios=(1.4, 1))
    for dtype, color, style in (
        (torch.float16, "vermilion", "-"),
        (torch.bfloat16, "orange", "--"),
        (torch.float32, "blue", ":"),
    ):
        lengths = [
            root_mean_square_norm((s * pattern).to(dtype)).double().square().mean().sqrt().item()
            for s in sizes
        ]
        left.semilogx(sizes, lengths, style, color=COLORS[color], label=name_of(dtype))
    left.axvline(size, color=COLORS["black"], linewidth=0.8)
    left.set(title="Size of the result", xlabel="size of x", ylabel="root mean square")
    left.set_ylim(-0.1, 1.6)
    left.legend(loc="upper left")
    places = torch.arange(6)
    for shape, dtype, color in (("s", torch.float32, "blue"), ("o", torch.float16, "vermilion")):
        result = root_mean_square_norm((size * pattern).to(dtype)).float()
        right.plot(places, result, shape, color=COLORS[color], label=name_of(dtype))
    right.axhline(0, color=COLORS["black"], linewidth=0.8)
    right.set(
        title=f"The result at size {size:g}", xlabel="entry", ylabel="value", ylim=(-2.4, 1.8)
    )
    right.legend(loc="lower right", ncols=2, fontsize=9)
    return figure


play(
    draw_norm,
    label="size of x",
    values=[0.5, 1, 10, 50, 100, 150, 170, 180, 200, 250, 300, 1000, 10000],
    start=0.5,
    number="3.8",
    caption="In float16, the normalization returns zeros as soon as the square of the largest entry overflows. The other two formats can hold the square.",
    alt="Left: the size of a normalized vector against that of its input. In float32 and bfloat16 it is 1 "
    "throughout. In float16 it is 1 and falls to 0 at about 171. Right: the six results in float32 and float16, which "
    "agree at small sizes; beyond 171 all six are 0 in float16.",
)

# %%
for size in (170.0, 180.0):
    x = (size * pattern).half().requires_grad_(True)
    normed = root_mean_square_norm(x)
    (gradient,) = torch.autograd.grad(normed[0], [x])
    print(f"size {size:.0f}: largest square {(1.5 * size) ** 2:.0f}, ", end="")
    print(f"results {[round(entry, 1) for entry in normed.tolist()]}, ", end="")
    print(f"gradient all 0: {not gradient.any()}")

# %% [markdown]
r"""
At 180, the largest square exceeds 65,504, the largest number of float16, so the mean is inf, its `rsqrt` is **0**, and every product with $x$ is 0, too. No nan appears, but output and gradient are all zeros.

A **float32 island** is a part of the network that computes in float32 inside a 16-bit region. If no matrix product is involved, casts are enough: the normalization layer of
[Llama in transformers](https://github.com/huggingface/transformers/blob/main/src/transformers/models/llama/modeling_llama.py) casts its input up and its result back down.
"""

# %% [markdown] exercise="float32-island" points=4 minutes=15 difficulty=2
"""
### A float32 island

A library layer that needs float32 should not have to be rewritten. Complete a module that wraps any other module and runs it in float32.

`Float32Island(inner)`, with the method `forward(self, *inputs)`

- **In** `inner`: a module with float32 weights. `inputs`: one or more tensors; floating-point ones are float32, bfloat16 or float16, and reach `inner` as float32. Integers and booleans (masks) reach it in their own dtype.
- **Out**: what `inner` would return outside any region: a float32 tensor with float32 precision. The call leaves the autocast state unchanged.
- If the backward pass runs outside the region, gradients with respect to the weights of `inner` are those of a float32 computation; each floating-point input receives a gradient in its own dtype. Run `inner` exactly once, hooks included, without changing its mode.

In a bfloat16 region, `Float32Island(torch.nn.Linear(4, 2))(x).dtype` is `torch.float32`, even if `x` is bfloat16.

<!-- hint: Two things can turn a product of the inputs and the weights into a 16-bit one. Which of them does `.float()` stop? -->
<!-- hint: You need both a disabled region and a cast of whatever comes from outside. Integers are indices or masks: would an embedding accept a float? -->
<!-- hint: Call `.float()` on each input for which `is_floating_point()` is true, leave the others as they are, and call `self.inner` in a block of `torch.autocast(..., enabled=False)` for the type of the inputs' device. -->
"""


# %% solution="float32-island"
class Float32Island(torch.nn.Module):
    """Runs ``inner`` in float32, inside any autocast region and outside."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, *inputs):
        ### BEGIN SOLUTION
        cast = [x.float() if x.is_floating_point() else x for x in inputs]
        with torch.autocast(inputs[0].device.type, enabled=False):
            return self.inner(*cast)
        ### END SOLUTION


# %% test="float32-island"
check = Check("float32-island")


def draw_linear(inputs, outputs):
    return {
        "weight": check.draw.normal(outputs, inputs),
        "bias": check.draw.normal(outputs),
    }


def draw_factors():
    """Two matrices: their product shows in which dtype it was computed."""
    rows, columns = check.draw.integer(2, 6), check.draw.integer(7, 12)
    return check.draw.normal(rows, 6, equal_sizes=True), check.draw.normal(6, columns)


def region_of(lower):
    return f"in a {lower} region" if lower else "outside a region"


def same_region(product, factors, lower):
    """Require the product computed in ``lower``, or in float32 outside a region."""
    dtype = torch.float32 if lower is None else getattr(torch, lower)
    left, right = (factor.to(dtype).double() for factor in factors)
    atol = 4 * torch.finfo(dtype).eps * (left.abs() @ right.abs()).max().item()
    what = f"a product after the call, {region_of(lower)}"
    check.close(product, (left @ right).to(dtype), atol=atol, what=what)


@contextlib.contextmanager
def gradient_asked():
    try:
        yield
    except Exception as error:
        is_missing = "does not require grad" in str(error)
        check.true(
            not is_missing,
            "the gradient is missing: autograd reaches neither inputs nor weights from the output",
        )
        raise


def on_island(layers, state, *inputs, lower="bfloat16", factors=None, **options):
    with gradient_asked():
        return check.call(
            probes.wrapped_in_autocast,
            Float32Island,
            layers=layers,
            inputs=list(inputs),
            state=state,
            factors=factors or draw_factors(),
            lower=lower,
            **options,
        )


with check.property("outside a region it returns what the inner module returns"):
    state, x = draw_linear(5, 3), check.draw.normal(4, 5)
    got = on_island(["Linear", 5, 3], state, x, lower=None)
    expected = functional.linear(x.double(), state["weight"].double(), state["bias"].double())
    check.close(got["output"], expected.float(), atol=1e-5, what="the output")
    state = {"running_mean": torch.zeros(3), "running_var": torch.ones(3)}
    state |= {"weight": torch.ones(3), "bias": torch.zeros(3)}
    state["num_batches_tracked"] = torch.tensor(0)
    x = check.draw.normal(6, 3, mean=5.0)
    got = on_island(["BatchNorm1d", 3], state, x, lower=None)
    expected = (x - x.mean(dim=0)) / (x.var(dim=0, correction=0) + 1e-5).sqrt()
    check.close(got["output"], expected, atol=1e-3, what="a batch norm in training")
with check.property("in a region, float32 inputs keep their precision", weight=3):
    state, x = draw_linear(6, 4), check.draw.normal(3, 6, mean=300.0)
    expected = functional.linear(x.double(), state["weight"].double(), state["bias"].double())
    for lower in ("bfloat16", "float16"):
        got = on_island(["Linear", 6, 4], state, x, lower=lower)
        check.close(
            got["output"], expected.float(), atol=3e-3, what=f"the output {region_of(lower)}"
        )
with check.property("16-bit inputs are cast up", weight=3):
    state = draw_linear(7, 2)
    for dtype, lower in (
        (torch.bfloat16, "bfloat16"),
        (torch.float16, "bfloat16"),
        (torch.bfloat16, None),
    ):
        x = check.draw.normal(5, 7, dtype=dtype)
        expected = functional.linear(x.double(), state["weight"].double(), state["bias"].double())
        got = on_island(["Linear", 7, 2], state, x, lower=lower)
        check.close(
            got["output"],
            expected.float(),
            atol=1e-5,
            what=f"the output for {name_of(dtype)} {region_of(lower)}",
        )
with check.property("each of several inputs is cast up"):
    state = {"weight": check.draw.normal(4, 3, 5), "bias": check.draw.normal(4)}
    x, y = check.draw.normal(7, 3), check.draw.normal(7, 5, dtype=torch.bfloat16)
    got = on_island(["Bilinear", 3, 5, 4], state, x, y)
    expected = torch.einsum("ni,kij,nj->nk", x.double(), state["weight"].double(), y.double())
    expected += state["bias"].double()
    check.close(got["output"], expected.float(), atol=1e-4, what="a bilinear layer")
with check.property("gradients reach the weights inside and the inputs", weight=2):
    for dtype in (torch.float32, torch.bfloat16):
        state, x = draw_linear(6, 3), check.draw.normal(9, 6, mean=2.0, dtype=dtype)
        got = on_island(["Linear", 6, 3], state, x)
        columns = x.double().sum(dim=0).float().repeat(3, 1)
        what = f"where the input is {name_of(dtype)}"
        check.close(
            got["gradients"]["weight"], columns, atol=1e-4, what=f"the weight's gradient {what}"
        )
        rows = state["weight"].double().sum(dim=0).to(dtype).repeat(9, 1)
        check.close(got["by_inputs"][0], rows, atol=2e-2, what=f"the input's gradient {what}")
    x, y = check.draw.normal(7, 3, dtype=torch.float16), check.draw.normal(7, 5)
    weight = check.draw.normal(4, 3, 5)
    got = on_island(["Bilinear", 3, 5, 4], {"weight": weight, "bias": torch.zeros(4)}, x, y)
    by_x = torch.einsum("kij,nj->ni", weight.double(), y.double()).half()
    by_y = torch.einsum("ni,kij->nj", x.double(), weight.double()).float()
    check.close(got["by_inputs"][0], by_x, atol=3e-2, what="the first input's gradient")
    check.close(got["by_inputs"][1], by_y, atol=1e-4, what="the second input's gradient")
with check.property("integers reach the inner module as they are"):
    state, ids = {"weight": check.draw.normal(9, 4)}, check.draw.integers(6, low=0, high=9)
    got = on_island(["Embedding", 9, 4], state, ids)
    check.equal(got["output"], state["weight"][ids], what="rows of an embedding")
    got = on_island(["Embedding", 9, 4], state, ids.int())
    check.equal(got["output"], state["weight"][ids], what="rows of an embedding by int32 indices")
    for given, size in ((ids.int(), 4), (ids, 8)):
        got = on_island(["Embedding", 9, 4], state, given, times_bytes=True)
        rows = f"rows of an embedding by {name_of(given.dtype)} indices"
        what = f"{rows}, which a forward hook multiplies by the bytes of an index, {size}"
        # If the hook did not run, the indices were not seen; whether it runs is tried below.
        if not torch.equal(got["output"], state["weight"][ids]):
            check.equal(got["output"], size * state["weight"][ids], what=what)
    layers = [["Embedding", 9, 4], ["Linear", 4, 3]]
    inside = {"0.weight": state["weight"], "1.weight": check.draw.normal(3, 4)}
    inside["1.bias"] = torch.zeros(3)
    got = on_island(layers, inside, ids)
    expected = (state["weight"][ids].double() @ inside["1.weight"].double().T).float()
    check.close(got["output"], expected, atol=1e-5, what="a linear layer behind an embedding")
    # Three inputs, integers before floats: each bag is a weighted sum of rows.
    shares = check.draw.normal(6, dtype=torch.bfloat16)
    bag, starts = ["EmbeddingBag", 9, 4, None, 2.0, False, "sum"], torch.tensor([0, 2])
    got = on_island(bag, state, ids, starts, shares)
    rows = state["weight"][ids].double() * shares.double().unsqueeze(1)
    expected = torch.stack([rows[:2].sum(dim=0), rows[2:].sum(dim=0)]).float()
    check.close(got["output"], expected, atol=1e-5, what="integers, integers and floats")
with check.property("booleans reach the inner module as they are"):
    given = ["TransformerEncoderLayer", 4, 1, 6, 0.0]
    made = torch.nn.TransformerEncoderLayer(*given[1:])
    state = {
        name: check.draw.normal(*value.shape, equal_sizes=True)
        for name, value in made.state_dict().items()
    }
    made.load_state_dict(state)
    x, mask = check.draw.normal(5, 4), torch.ones(5, 5, dtype=torch.bool).triu(1)
    got = on_island(given, state, x, mask)
    check.close(got["output"], made(x, mask).detach(), atol=1e-4, what="attention with a mask")
with check.property("the inner module runs once, with its hooks, and stays in its mode"):
    # Each training pass of a batch norm moves its means by a tenth, and an evaluation by nothing.
    x, scale = check.draw.normal(8, 3, mean=5.0), check.draw.uniform(3, low=0.5, high=2.0)
    state = {"running_mean": check.draw.normal(3), "running_var": torch.ones(3)}
    state |= {"weight": scale, "bias": torch.zeros(3), "num_batches_tracked": torch.tensor(4)}
    for training in (True, False):
        got = on_island(["BatchNorm1d", 3], state, x, training=training)
        mean, mode = state["running_mean"], "training" if training else "evaluation"
        moved = 0.9 * mean + 0.1 * x.mean(dim=0) if training else mean
        what = f"the running mean of a batch norm, in {mode}"
        check.close(got["state"]["running_mean"], moved, rtol=1e-4, atol=1e-5, what=what)
        if not training:
            expected = (x - mean) / (1 + 1e-5) ** 0.5 * scale
            check.close(got["output"], expected, atol=1e-4, what="a batch norm in evaluation")
    state = {"weight": scale.diag(), "bias": torch.zeros(3)}
    got = on_island(["Linear", 3, 3], state, x, times_bytes=True)
    what = "the output of a layer whose forward hook multiplies it by 4"
    check.close(got["output"], 4 * scale * x, atol=1e-4, what=what)
with check.property("the call leaves the autocast state unchanged"):
    for lower in ("bfloat16", "float16", None):
        size = check.draw.integer(3, 8)
        state, x, factors = draw_linear(size, 2), check.draw.normal(9, size), draw_factors()
        got = on_island(["Linear", size, 2], state, x, lower=lower, factors=factors)
        expected = functional.linear(x.double(), state["weight"].double(), state["bias"].double())
        check.close(
            got["output"], expected.float(), atol=1e-5, what=f"the output {region_of(lower)}"
        )
        same_region(got["product"], factors, lower)
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("two inputs of different 16-bit dtypes, and back to both"):
    state = {"weight": check.draw.normal(4, 3, 5), "bias": check.draw.normal(4)}
    x = check.draw.normal(7, 3, dtype=torch.float16)
    y = check.draw.normal(7, 5, dtype=torch.bfloat16)
    got = on_island(["Bilinear", 3, 5, 4], state, x, y)
    weight = state["weight"].double()
    expected = torch.einsum("ni,kij,nj->nk", x.double(), weight, y.double())
    expected += state["bias"].double()
    check.close(got["output"], expected.float(), atol=1e-4, what="a bilinear layer")
    by_x = torch.einsum("kij,nj->ni", weight, y.double()).half()
    by_y = torch.einsum("ni,kij->nj", x.double(), weight).bfloat16()
    for slope, true_slope in zip(got["by_inputs"], (by_x, by_y), strict=True):
        check.close(slope, true_slope, atol=3e-2, what="the gradient with respect to an input")
with check.property("gradients of the weights have float32 precision"):
    state, x = draw_linear(5, 3), check.draw.normal(8, 5, mean=2.0)
    got = on_island(["Linear", 5, 3], state, x, lower="float16")
    columns = x.double().sum(dim=0).float()
    check.close(got["gradients"]["weight"], columns.repeat(3, 1), atol=1e-4, what="the weight's")
    check.close(got["gradients"]["bias"], torch.full((3,), 8.0), what="the bias's")
### END HIDDEN TESTS
check.score()

# %% [markdown]
"""
## A checkerboard, twice

The *painter*, four 1 × 1 convolutions with BatchNorm between them, takes a point's two coordinates and should say whether the point lies on a black or a white square of a checkerboard. We train it twice from the same weights, in float32 and in a bfloat16 region.
"""

# %% folded="Train: the painter, in float32 and in a region"
SIDE, SQUARES, WIDTH, STEPS = 40, 4, 48, 160
line = (torch.arange(SIDE, device=device) + 0.5) / SIDE
points = torch.stack(torch.meshgrid(line, line, indexing="ij")).unsqueeze(0)
board = (points * SQUARES).floor().sum(dim=1, keepdim=True) % 2


def make_painter():
    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(2, WIDTH, 1)]
    for outputs in (WIDTH, WIDTH, 1):
        layers += [torch.nn.BatchNorm2d(WIDTH), torch.nn.ReLU(), torch.nn.Conv2d(WIDTH, outputs, 1)]
    return torch.nn.Sequential(*layers).to(device)


def paint(model, mixed):
    """Return the picture and the loss."""
    with torch.autocast(device, dtype=torch.bfloat16, enabled=mixed):
        picture = model(points)
        return picture, functional.mse_loss(picture, board)


def train_painter(mixed):
    model = make_painter()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(STEPS):
        picture, loss = paint(model, mixed)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return picture.detach()[0, 0].float().cpu(), losses


threads = torch.get_num_threads()
torch.set_num_threads(1)  # with tensors this small, threads wait longer than they compute
picture_float32, painter_float32 = train_painter(mixed=False)
picture_mixed, painter_mixed = train_painter(mixed=True)
torch.set_num_threads(threads)
last_float32, last_mixed = sum(painter_float32[-20:]) / 20, sum(painter_mixed[-20:]) / 20
print("the mean of the last 20 losses is below 0.08 in float32:", last_float32 < 0.08)
print("the two means are within a factor of 1.5:", 2 / 3 < last_mixed / last_float32 < 1.5)

# %% tags=["nbval-ignore-output"] folded="Figure 3.9: the board, and what both networks drew"
figure, grid = new_figure(1, 3, height=2.9, sharey=True)
for axes, picture, title in zip(
    grid,
    (board[0, 0].cpu(), picture_float32, picture_mixed),
    ("the board", f"float32, loss {last_float32:.3f}", f"bfloat16, loss {last_mixed:.3f}"),
    strict=True,
):
    axes.imshow(picture, cmap="gray", vmin=0, vmax=1, extent=(0, 1, 0, 1), origin="lower")
    axes.set(title=title, xlabel="x (side of the board)", xticks=(0, 0.5, 1))
    axes.grid(False)
grid[0].set_ylabel("y (side of the board)")
show(
    figure,
    number="3.9",
    caption="The board, and the two drawings after 160 steps. The losses are means over the last 20 steps; their last digits differ between machines.",
    alt="Three pictures side by side: a board of four by four squares, what the float32 network drew, and "
    "what the network in the bfloat16 region drew. The two drawings are alike: all squares are there, with "
    "soft edges.",
)

# %% tags=["nbval-ignore-output"] folded="Figure 3.10: the loss of both runs"
figure, axes = new_figure(height=2.8)
axes.semilogy(painter_float32, color=COLORS["blue"], label="float32")
axes.semilogy(painter_mixed, "--", color=COLORS["orange"], label="bfloat16 region")
axes.set(title="Learning a checkerboard", xlabel="training step", ylabel="mean squared error")
axes.legend()
show(
    figure,
    number="3.10",
    caption="The two losses fall together.",
    alt="Mean squared error against training step, logarithmic. Both curves start at the same value and "
    "fall together to a small fraction of it.",
)

# %% [markdown]
"""
## What mixed precision saves

How many bytes does one training step need? **Activations** are intermediate results that autograd keeps for the backward pass.
"""

# %% folded="Measure: the bytes of one training step"
painter = make_painter()
weights = list(painter.parameters())
count = sum(weight.numel() for weight in weights)
layers = [layer for layer in painter if isinstance(layer, torch.nn.Conv2d)]
matrices = sum(layer.weight.numel() for layer in layers)
copies = 2 * (matrices + sum(layer.bias.numel() for layer in layers))
activations = {}
for mixed in (False, True):
    saved = saved_bytes(lambda mixed=mixed: paint(painter, mixed)[1], except_for=weights)
    # Among them are the 16-bit copies of the matrices; copies have a line of their own.
    activations[mixed] = saved.bytes - (2 * matrices if mixed else 0)

rows = {
    "weights": (4 * count, 4 * count),
    "16-bit copies of weights": (0, copies),
    "gradients of weights": (4 * count, 4 * count),
    "Adam's two means": (8 * count, 8 * count),
    "activations": (activations[False], activations[True]),
}
bytes_float32, bytes_mixed = (sum(sizes[k] for sizes in rows.values()) for k in (0, 1))

# %% folded="Predict: the memory of a step"
predict(
    "03/bytes-of-a-step",
    "Weights, copies, gradients, Adam's means and activations: what percentage of the float32 run's memory does the bfloat16 run need?",
    100 * bytes_mixed / bytes_float32,
    "The activations take up nearly all the memory here, and autocast halves them. Weights, gradients and Adam's means do not shrink.",
    between=(0, 200),
    unit="%",
)

# %%
print(f"{'KiB':<26}{'float32':>10}{'mixed':>10}")
for name, (in_float32, in_mixed) in rows.items():
    print(f"{name:<26}{in_float32 / 1024:>10.0f}{in_mixed / 1024:>10.0f}")
print(f"activations, float32 to mixed: {activations[False] / activations[True]:.1f} to 1")

# %% folded="Figure 3.11: the bytes of one training step"
figure, axes = new_figure(height=3.0)
palette = ("blue", "vermilion", "green", "purple", "orange")
starts = [0.0, 0.0]
for (name, sizes), color in zip(rows.items(), palette, strict=True):
    widths = [size / 2**20 for size in sizes]
    axes.barh([0, 1], widths, left=starts, height=0.55, color=COLORS[color], label=name)
    starts = [start + width for start, width in zip(starts, widths, strict=True)]
axes.set_yticks([0, 1], ["float32", "mixed"])
axes.grid(False, axis="y")
axes.invert_yaxis()
axes.set(title="Bytes of one training step", xlabel="MiB", ylabel="precision")
figure.legend(loc="outside lower center", ncols=3, frameon=False)
show(
    figure,
    number="3.11",
    caption="This network has few weights and many activations, so mixed precision nearly halves its memory.",
    alt="Two bars. Float32 needs about 1.9 MiB, nearly all of it for activations. Mixed precision needs about 1.0 MiB: "
    "the activations are halved, the weights and the optimizer are as large as before, and a thin slice of "
    "16-bit copies is added.",
)

# %% [markdown]
r"""
Mixed precision saves most when activations dominate, as with large batches or long texts. At best, it halves the activations; operations in float32 keep float32 activations. The 16-bit copies come in addition to the float32 weights, whose memory does not shrink.

It can also cost memory. With $n$ weights and activations of $A$ bytes, the table's columns add up to $16n + A$ for float32 and, if all weights are copied and all activations halved, to $18n + A/2$. The second is smaller only if $A > 4n$, that is, if the activations need more memory than the weights.

## When mixed precision does not pay

The next cell compares, on your machine, a product of square matrices in float32 with the same product in a region, casts included (on a CPU, using one thread).
"""


# %% tags=["nbval-ignore-output", "recorded"] folded="Measure: how much faster a product is in a region"
machine = torch.backends.cpu.get_cpu_capability()
machine = torch.cuda.get_device_name() if device == "cuda" else f"CPU, {machine}"


def product_in_region(left, right, lower):
    with torch.autocast(device, dtype=lower):
        return left @ right


def times_faster(lower, longest=0.2):
    """Return by size how many times faster a product is, up to the size that takes too long."""
    found, seconds, last = {}, 0.0, 1
    for size in (8, 32, 128, 256, 512, 768, 2048, 4096):
        if size > 256 and seconds * (size / last) ** 3 > longest:
            break
        both = torch.randn(2, size, size, device=device)
        run = [
            lambda both=both: both[0] @ both[1],
            lambda both=both: product_in_region(*both, lower),
        ]
        found[size] = time_ratio(*run, pairs=5, seconds=0.4)
        seconds, last = sum(map(seconds_of, run)), size
    return found


torch.set_num_threads(1)
faster = {name_of(lower): times_faster(lower) for lower in (torch.bfloat16, torch.float16)}
torch.set_num_threads(threads)
print(f"torch {torch.__version__} on {machine}: time in float32 / time in a region")
for name, ratios in faster.items():
    for size in (min(ratios), max(ratios)):
        print(f"{name:>8}, product of size {size:>4}: {ratios[size]}")
recorded("bfloat16-region")

# %% tags=["nbval-ignore-output"] folded="Figure 3.12: what a region gains, by the size of the product"
figure, axes = new_figure()
for (name, ratios), color in zip(faster.items(), ("blue", "vermilion"), strict=True):
    sizes = list(ratios)
    bounds = [r.smallest for r in ratios.values()], [r.largest for r in ratios.values()]
    axes.fill_between(sizes, *bounds, alpha=0.25, color=COLORS[color])
    medians = [r.median for r in ratios.values()]
    axes.loglog(sizes, medians, "o-", color=COLORS[color], label=f"{name}, median of 5")
axes.axhline(1, color=COLORS["black"], linestyle=":", label="as fast as float32")
axes.set_xticks(sizes := list(faster["bfloat16"]), [str(size) for size in sizes])
axes.minorticks_off()
axes.set(
    title=f"What a region gains on this machine ({machine})",
    xlabel="rows and columns of both matrices",
    ylabel="time in float32 / time in the region",
)
axes.legend()
show(
    figure,
    number="3.12",
    caption="Below the dotted line, the region makes the product slower. The smallest products lose; whether large ones gain depends on the processor and the format.",
    alt="Ratio of the time of a float32 product to that of the same product in a region, against "
    "the size of the matrices, for bfloat16 and float16. The ratio is below one for small matrices; for "
    "large ones, whether it rises or falls further depends on the processor and the format.",
)

# %% [markdown]
"""
For small products, the casts cost more than the faster product saves (see Figure 3.12). On a GPU, launching a kernel can take longer than a small product itself. Large products can gain if the processor has instructions for the format (for bfloat16, AVX-512 BF16 or AMX on x86; tensor cores on a GPU); without such instructions, they can even be slower.

### The whole step, and memory bandwidth

Operations such as ReLU do so little arithmetic that memory bandwidth can limit them. On 16-bit input, they have half as many bytes to move. The next cell
times three such operations, and forward passes and training steps of the painter and a wider network.
"""


# %% tags=["nbval-ignore-output", "recorded"] folded="Measure: bandwidth, and whole training steps"
def make_wide():
    layers = [torch.nn.Linear(64, 512), torch.nn.ReLU()]
    for _ in range(3):
        layers += [torch.nn.Linear(512, 512), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers, torch.nn.Linear(512, 10)).to(device)


def wide_loss(model, mixed):
    with torch.autocast(device, dtype=torch.bfloat16, enabled=mixed):
        return functional.cross_entropy(model(pixels), labels)


def make_step(make_model, compute_loss, mixed):
    model = make_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)

    def step():
        optimizer.zero_grad()
        compute_loss(model, mixed).backward()
        optimizer.step()

    return step


torch.set_num_threads(1)
print(f"torch {torch.__version__} on {machine}: time in float32 / time in bfloat16")
many = [torch.randn(2, 2**24, device=device).to(d) for d in (torch.float32, torch.bfloat16)]
for name, operation in {
    "copy": lambda x, out: out.copy_(x),
    "multiply": lambda x, out: torch.mul(x, x, out=out),
    "ReLU": lambda x, out: torch.clamp_min(x, 0, out=out),
}.items():
    run = [lambda o=operation, x=x, out=out: o(x, out) for x, out in many]
    print(f"{name:<8} of 16 million numbers: {time_ratio(*run, pairs=5, seconds=0.6)}")
for name, make_model, compute_loss in (
    ("painter", make_painter, lambda model, mixed: paint(model, mixed)[1]),
    ("wide network", make_wide, wide_loss),
):
    model = make_model()
    run = [lambda k=k, f=compute_loss, m=model: f(m, k) for k in (False, True)]
    print(f"{name}, forward pass and loss: {time_ratio(*run, pairs=3, seconds=0.5)}")
    run = [make_step(make_model, compute_loss, k) for k in (False, True)]
    print(f"{name}, whole training step: {time_ratio(*run, pairs=3, seconds=0.8)}")
    for mixed in (False, True) if device == "cuda" else ():
        step = make_step(make_model, compute_loss, mixed)
        step()
        torch.cuda.reset_peak_memory_stats()
        step()
        peak = torch.cuda.max_memory_allocated() / 2**20
        print(f"{name}, {'mixed' if mixed else 'float32'}: peak of the allocator {peak:.1f} MiB")
torch.set_num_threads(threads)
recorded("mixed-steps")
del many, model, run

# %% [markdown]
"""
A ratio above 1 means that bfloat16 is faster. The optimizer, which works in float32 in both cases, gains nothing, and a network of small layers can even run slower in a region.

Micikevicius et al. (section 1) report that GPUs of their time did 2 to 8 times as much arithmetic per second in float16. A run that waits for its data or for kernels to be launched gains less, so measure the whole step.
"""

# %% [markdown]
"""
## Bug hunt: the positions that collided

A transformer's attention compares the tokens (roughly, the words) of a text. With rotary embeddings (Su et al. 2021), it first rotates each token's vectors; each angle is the token's position times a frequency. The function below computes all angles of a text. Its author tested it on long texts in float32 and on short texts in a region. In a bfloat16 region on a CPU, the model then mixed up neighboring tokens of long texts.
"""


# %%
def angles_from_the_wild(positions, dimensions=8, base=100.0):
    exponents = torch.arange(0, dimensions, 2).float() / dimensions
    frequencies = base**-exponents
    return torch.tensordot(positions.float(), frequencies, dims=0)


def different_rows(start, lower=torch.bfloat16):
    positions = torch.arange(start, start + 40)
    with torch.autocast("cpu", dtype=lower, enabled=lower is not None):
        return len(angles_from_the_wild(positions).unique(dim=0))


# %% folded="Predict: how many positions can be told apart"
predict(
    "03/distinct-positions",
    "Forty neighboring positions, from 1000 on, go into the function in a bfloat16 region. How many different rows of angles come out?",
    different_rows(1000),
    "Several neighbors share the same angles.",
    between=(1, 40),
)

# %%
print("positions 0 to 39, bfloat16 region:     ", different_rows(0), "different rows")
print("positions 1000 to 1039, bfloat16 region:", different_rows(1000), "different rows")
print("positions 1000 to 1039, no region:      ", different_rows(1000, None), "different rows")

# %% folded="Figure 3.13: the fastest angle"
positions = torch.arange(1000, 1040)
with torch.autocast("cpu", dtype=torch.bfloat16):
    angles = angles_from_the_wild(positions).float()
figure, axes = new_figure(height=2.8)
# The fastest frequency is 1, so its angles are the positions themselves.
axes.plot(positions, positions, color=COLORS["blue"], label="position × frequency")
axes.step(
    positions,
    angles[:, 0],
    where="mid",
    color=COLORS["vermilion"],
    label="what the function returned",
)
axes.set(title="The fastest angle", xlabel="position in the text", ylabel="angle (radians)")
axes.legend()
show(
    figure,
    number="3.13",
    caption="The fastest frequency is 1, so the angle should equal the position. The function returns a staircase.",
    alt="Angle against position from 1000 to 1040. The true angle is a straight line of slope one. What the "
    "function returned is a staircase.",
)

# %% [markdown] exercise="bug-hunt-angles" points=3 minutes=15 difficulty=1
"""
### Bug hunt: angles for long texts

Find out, in cells of your own, where the angles go wrong and why short texts hide this. Then write a function that works in any region.

`position_angles(positions, frequencies) -> Tensor`

- **In** `positions`: int64 or float32, of shape (n,), from 0 to a million, in any order; float32 positions may be fractional. `frequencies`: float32, of either sign, of shape (m,).
- **Out**: a float32 tensor of shape (n, m), each position times each frequency, accurate to float32 rounding, in a region and outside. Gradients flow to the frequencies.
- The call changes neither its arguments nor the autocast state.

In a bfloat16 region, `position_angles(torch.tensor([1000, 1001]), torch.ones(1))` returns `[[1000.0], [1001.0]]`.

<!-- hint: Look at the dtype of what the function returned inside the region. Which line gives that dtype, and which policy does its operation have? -->
<!-- hint: There are two ways out: take the operation out of the region, or compute the same numbers with an operation that has another policy. -->
<!-- hint: A column times a row needs no matrix product: the element-wise product of shapes (n, 1) and (1, m) broadcasts to (n, m), and its policy is "widest". -->
"""


# %% solution="bug-hunt-angles"
def position_angles(positions, frequencies):
    """Return each position times each frequency, float32, of shape (n, m)."""
    ### BEGIN SOLUTION
    return positions.float().unsqueeze(1) * frequencies.unsqueeze(0)
    ### END SOLUTION


# %% test="bug-hunt-angles"
check = Check("bug-hunt-angles")


def exact_angles(positions, frequencies):
    return torch.tensor([[p * f for f in frequencies.tolist()] for p in positions.tolist()])


def draw_factors():
    """Two matrices: their product shows in which dtype it was computed."""
    rows, columns = check.draw.integer(2, 6), check.draw.integer(7, 12)
    return check.draw.normal(rows, 6, equal_sizes=True), check.draw.normal(6, columns)


def region_of(lower):
    return f"in a {lower} region" if lower else "outside a region"


def same_region(product, factors, lower):
    """Require the product computed in ``lower``, or in float32 outside a region."""
    dtype = torch.float32 if lower is None else getattr(torch, lower)
    left, right = (factor.to(dtype).double() for factor in factors)
    atol = 4 * torch.finfo(dtype).eps * (left.abs() @ right.abs()).max().item()
    what = f"a product after the call, {region_of(lower)}"
    check.close(product, (left @ right).to(dtype), atol=atol, what=what)


@contextlib.contextmanager
def gradient_asked():
    try:
        yield
    except Exception as error:
        is_missing = "does not require grad" in str(error)
        check.true(
            not is_missing,
            "the gradient is missing: autograd does not reach the frequencies from the angles",
        )
        raise


def angles_in_region(
    positions, frequencies, lower="bfloat16", with_respect_to=None, grad_output=None
):
    factors = draw_factors()
    with gradient_asked():
        got = check.call(
            probes.in_autocast,
            position_angles,
            positions,
            frequencies,
            factors=factors,
            lower=lower,
            with_respect_to=with_respect_to,
            grad_output=grad_output,
        )
    expected = exact_angles(positions, frequencies)
    check.close(got["output"], expected, rtol=1e-6, what=f"the angles {region_of(lower)}")
    return got, factors


with check.property("returns position times frequency outside a region"):
    positions, frequencies = 5 + check.draw.permutation(7), check.draw.uniform(4, low=0.6)
    got = check.call(position_angles, positions, frequencies)
    check.close(got, exact_angles(positions, frequencies))
    positions = torch.tensor([0.0, 0.5, 7.25]) + check.draw.integer(0, 2)
    positions[0] = 0.0
    for given, frequencies in (
        (positions, check.draw.normal(1)),
        (positions[1:2], 1e-5 * check.draw.normal(4)),
    ):
        got = check.call(position_angles, given, frequencies)
        check.close(got, exact_angles(given, frequencies))
    # In any order: what is added up from one position to the next is off at the small ones.
    given = torch.tensor([999_999.75, 0.25, 500_000.5, 1.0, 3.0]) + check.draw.integer(0, 2) / 4
    frequencies = check.draw.uniform(4, low=0.6) * torch.tensor([1.0, -1.0, -1.0, 1.0])
    got = check.call(position_angles, given, frequencies)
    check.close(got, exact_angles(given, frequencies), what="large and small positions")
    # Times a power of two, every position is exact; a million is one of them, some come twice.
    given = torch.tensor([1_000_000, 3, 999_983, 3, 0]) + torch.tensor([0, 1, 0, 1, 0])
    frequencies = 0.5 ** torch.arange(11) * torch.where(check.draw.booleans(11), 1.0, -1.0)
    for positions in (given, given.float()):
        got = check.call(position_angles, positions, frequencies)
        check.equal(got, exact_angles(positions, frequencies), what="a million, and 4 twice")
with check.property("the arguments do not change", weight=0.5):
    positions, frequencies = 5.0 + check.draw.permutation(7), check.draw.uniform(4, low=0.6)
    for given in (positions, positions.long()):
        seen = check.call(probes.after_call, position_angles, given, frequencies)
        check.equal(seen["arguments"], [given, frequencies], what="the arguments after the call")
with check.property("neighbors beyond 1000 stay distinct in a bfloat16 region", weight=4):
    positions = torch.arange(6) + 1001 + 2 * check.draw.integer(0, 500)
    frequencies = check.draw.uniform(3, low=0.01)
    angles_in_region(positions, frequencies)
    fractions = check.draw.uniform(5, low=1.0, high=900.0)
    angles_in_region(fractions, frequencies)
    # Below 256, bfloat16 holds the positions themselves, but not these frequencies.
    ids = check.draw.permutation(9)
    for short in (ids, ids + 0.5, torch.tensor([3, 1000, 255, 0, 1001])):
        angles_in_region(short, frequencies)
with check.property("positions near a million, in a float16 region", weight=2):
    positions = torch.arange(5) + 999_001 + check.draw.integer(0, 900)
    frequencies = check.draw.uniform(8, low=1e-5)
    for given in (positions, positions.float(), check.draw.permutation(9)):
        angles_in_region(given, frequencies, lower="float16")
with check.property(
    "gradients reach the frequencies, and the call leaves the autocast state unchanged"
):
    for lower in ("bfloat16", "float16", None):
        positions = 2001 + check.draw.permutation(check.draw.integer(6, 12))
        positions = positions.float() if lower == "bfloat16" else positions
        frequencies, weights = check.draw.uniform(3, low=0.1), check.draw.uniform(len(positions), 3)
        options = {"with_respect_to": 1, "grad_output": weights}
        got, factors = angles_in_region(positions, frequencies, lower, **options)
        expected = (positions.double() @ weights.double()).float()
        check.close(got["gradient"], expected, rtol=1e-4, what=f"the gradient {region_of(lower)}")
        same_region(got["product"], factors, lower)
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("the gradient with respect to the frequencies, at other positions"):
    positions, frequencies = 2001 + check.draw.permutation(6), check.draw.uniform(3, low=0.1)
    grad_output = check.draw.normal(6, 3)
    got, _ = angles_in_region(positions, frequencies, with_respect_to=1, grad_output=grad_output)
    expected = (positions.double()[:, None] * grad_output.double()).sum(dim=0).float()
    check.close(got["gradient"], expected, rtol=1e-4, atol=1e-2, what="the gradient")
with check.property("it leaves a float16 region as it found it"):
    positions = check.draw.permutation(check.draw.integer(5, 11)).float()
    got, factors = angles_in_region(positions, check.draw.uniform(3), lower="float16")
    same_region(got["product"], factors, "float16")
### END HIDDEN TESTS
check.score()

# %% [markdown]
"""
<details><summary>The bug (open this once you have found it)</summary>

`tensordot` computes a matrix product. On a CPU, its policy *lower* casts both factors to bfloat16, even positions that were just cast to float32. (On CUDA, the policy of `tensordot` is *widest*; that of `matmul` and `@` is *lower* on both.) Neighboring bfloat16 numbers differ by 4 from 512 to 1024 and by 8 from there to 2048, so about four to eight neighbors share an angle. Up to 256, every position stays distinct, so short texts hide the bug.

Llama and Gemma in Hugging Face Transformers had this bug until 2024 ([pull request 29285](https://github.com/huggingface/transformers/pull/29285)). In 2026, an image model in diffusers whose positions begin at 65,536, where bfloat16 numbers are 512 apart, drew a single flat color in a bfloat16 region
([issue 13920](https://github.com/huggingface/diffusers/issues/13920)).
</details>
"""

# %% [markdown]
"""
## In the wild

| where | what to know |
| --- | --- |
| PyTorch | [`torch.autocast`](https://docs.pytorch.org/docs/stable/amp.html#autocasting); the older `torch.cuda.amp.autocast` is deprecated |
| custom autograd functions | [`torch.amp.custom_fwd` and `custom_bwd`](https://docs.pytorch.org/docs/stable/notes/amp_examples.html#autocast-and-custom-autograd-functions) |
| `binary_cross_entropy` | raises an error in a CUDA region: use `binary_cross_entropy_with_logits` ([documentation](https://docs.pytorch.org/docs/stable/amp.html#prefer-binary-cross-entropy-with-logits-over-binary-cross-entropy)) |
| transformers, Accelerate | `TrainingArguments(bf16=True)` or `fp16=True` ([Trainer](https://huggingface.co/docs/transformers/main_classes/trainer)); [`Accelerator(mixed_precision="bf16")`](https://huggingface.co/docs/accelerate/usage_guides/mixed_precision) |
| Lightning | `Trainer(precision="bf16-mixed")`; `"bf16-true"` converts the model ([precision](https://lightning.ai/docs/pytorch/stable/common/precision_basic.html)) |
| FSDP | [`fully_shard`](https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html)`(module, mp_policy=MixedPrecisionPolicy(param_dtype=, reduce_dtype=))`: casts by module, not by operation |
| Keras, Flax | [`keras.mixed_precision.set_global_policy("mixed_bfloat16")`](https://keras.io/api/mixed_precision/); [Flax](https://flax.readthedocs.io/en/latest/api_reference/flax.linen/layers.html) modules take `dtype=` and `param_dtype=` |
| other hardware | [`torch.autocast("mps")`, `"xpu"`](https://docs.pytorch.org/docs/stable/amp.html#autocast-op-reference): the same idea with other lists |
| kernels without a 16-bit version | raise an error on 16-bit input: call them in a float32 island |
"""

# %% [markdown]
"""
## Recap

1. After `.half()`, small squares and even Adam's ε round to 0, and small updates are lost. Autocast leaves the weights in float32 and chooses a dtype only for the operations on its lists.
2. An operation's policy is lower, float32 or widest, and depends on the kind of device.
3. Autocast keeps 16-bit copies of weights until the outermost region ends, even if a weight changes.
4. The forward pass and the loss belong inside the region, the backward pass and the optimizer outside.
5. A float32 product inside a region requires a disabled region and a cast of its 16-bit inputs.
6. Try bfloat16 first, name the dtype, and measure whole training steps.

### Test yourself

<details><summary>1. After .half(), a model's loss is fine in step 1 and nan in step 2. Name a reason.</summary>

In float16, Adam's epsilon of 1e-8 is 0, and so is a thousandth of a small gradient's square, so Adam divides by 0.
</details>

<details><summary>2. A whole training loop runs in one region, and the loss does not move. Why?</summary>

Every forward pass uses the cached 16-bit copies of the first step's weights.
</details>

<details><summary>3. A model has a billion weights, and its batch is one short text. How much memory does autocast save?</summary>

None: it costs memory, because the 16-bit copies of the weights take more memory than the halved activations save.
</details>

### References

- PyTorch documentation: ["Automatic Mixed Precision package"](https://docs.pytorch.org/docs/stable/amp.html); ["Fake tensor"](https://docs.pytorch.org/docs/stable/torch.compiler_fake_tensor.html); ["Extending PyTorch"](https://docs.pytorch.org/docs/stable/notes/extending.html).
- P. Micikevicius et al., "Mixed Precision Training", [arXiv:1710.03740](https://arxiv.org/abs/1710.03740), ICLR 2018, section 3.
- D. Kalamkar et al., "A Study of BFLOAT16 for Deep Learning Training", [arXiv:1905.12322](https://arxiv.org/abs/1905.12322), 2019.
- A. Radford et al., "Learning Transferable Visual Models From Natural Language Supervision", [arXiv:2103.00020](https://arxiv.org/abs/2103.00020), 2021, section 2.3.
- J. Su et al., "RoFormer: Enhanced Transformer with Rotary Position Embedding", [arXiv:2104.09864](https://arxiv.org/abs/2104.09864), 2021, section 3.

### Glossary

| English | 中文 | meaning |
| --- | --- | --- |
| mixed precision | 混合精度 | several float formats in one training run, each where it suffices |
| autocast | 自动类型转换 | chooses a dtype for the operations on its lists |
| autocast region | autocast 区域 | what runs under `torch.autocast` |
| policy | 转换策略 | what autocast does to an operation |
| half precision | 半精度 | float16: 5 bits of exponent, 10 of fraction |
| bfloat16 | 脑浮点格式 | 8 bits of exponent, 7 of fraction |
| TF32 | TF32 格式 | 8 bits of exponent, 10 of fraction, inside a product |
| master weights | 主权重 | the float32 weights that the optimizer updates; forward and backward pass compute with 16-bit copies |
| type promotion | 类型提升 | the rule that gives mixed dtypes a common, wide enough dtype |
| dispatcher | 调度器 | the part of PyTorch that passes each call through its layers |
| dispatch mode | 分发模式 | Python code that sees each call of a kernel |
| torch function mode | torch 函数模式 | Python code that sees each call of a torch function |
| fake tensor | 伪张量 | a tensor without data |
| cast cache | 转换缓存 | the 16-bit copies of weights that a region keeps |
| disabled region | 禁用区域 | a region in which nothing is cast |
| float32 island | float32 孤岛 | a part that computes in float32 inside a region |
| activation | 激活值 | an intermediate result that autograd keeps for the backward pass |
| rotary embedding | 旋转位置编码 | a token's position, encoded by rotating its vectors in attention |
"""

# %% folded="What you predicted"
predictions("03")

# %%
progress("03")
