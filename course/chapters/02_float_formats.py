# %% [markdown]
"""
# 02 · Float formats

After this chapter you can

- read the bits of a float: sign, exponent, fraction, and the exceptions at both ends;
- compute a format's range and its steps from two numbers, and say what bf16 gives up for what;
- round a number to any format as the hardware does, ties, subnormals and overflow included;
- explain why a sum, or a weight, stops growing, and choose among the three cures;
- find the fault in a conversion that is right for every number.

**Time**: 80 minutes to read and run, 165 for the eight exercises.
**Know before**: tensors and dtypes (chapter 00), powers of two.

**中文**: 本章讲浮点格式：符号位、指数与尾数，正规数与次正规数，fp16、bf16 与 fp8 的表示范围，舍入到最近偶数、随机舍入、Kahan 求和，以及 float32 主权重。
"""

# %% tags=["needed"] folded="Imports"
import math

import torch

from helpers import (
    COLORS,
    Check,
    digits,
    explore_bits,
    failing,
    hint,
    new_figure,
    probes,
    progress,
    show,
)

# %% [markdown]
r"""
## A weight that does not learn

A weight is $2^{-3}$. Each training step adds $2^{-14}$ to it. After a thousand steps it should have
grown by nearly half. The weight is stored in fp16, PyTorch's `float16`.
"""


# %%
def add_many_times(start, update, steps, dtype):
    number = torch.tensor(start, dtype=dtype)
    update = torch.tensor(update, dtype=dtype)
    for _ in range(steps):
        number = number + update
    return number.item()


print("right:  ", 2**-3 + 1000 * 2**-14)
for dtype in (torch.float32, torch.float16):
    print(f"{str(dtype).removeprefix('torch.'):<8}", add_many_times(2**-3, 2**-14, 1000, dtype))

# %% [markdown]
r"""
In fp16 nothing happened, a thousand times. No warning, no inf, no nan: a training run in which
this weight is frozen, and everything looks fine.

It is not a matter of 16 bits alone. Count by ones in float32, and start close to $2^{24}$.
"""

# %%
counter = torch.tensor(2.0**24 - 2)
for _ in range(5):
    counter = counter + 1
    print(int(counter))

# %% [markdown]
r"""
A counter of samples, of tokens or of steps kept in float32 ends here, at 16,777,216. Every format has
such a place; the 16-bit formats have it much earlier.
"""

# %% folded="Plot: Counting by ones"
ones = torch.arange(4097)
figure, axes = new_figure()
axes.plot(ones, ones, color=COLORS["black"], linestyle=":", label="right")
for dtype, color in ((torch.float16, "blue"), (torch.bfloat16, "vermilion")):
    count, counts = torch.zeros((), dtype=dtype), [0.0]
    for _ in range(4096):
        count = count + 1
        counts.append(count.item())
    name = str(dtype).removeprefix("torch.")
    axes.plot(ones, counts, color=COLORS[color], label=f"{name}, ends at {counts[-1]:.0f}")
axes.set(title="Counting by ones", xlabel="ones added", ylabel="the counter")
axes.legend()
show(
    figure,
    alt="The counter against the number of ones added. The right count is a diagonal to 4096. "
    "float16 follows it to 2048 and stays there, bfloat16 follows it to 256 and stays there.",
)

# %% [markdown]
r"""
256 is $2^8$, 2048 is $2^{11}$, and float32 stopped at $2^{24}$. The powers 8, 11 and 24
are not chance. To see where they come from we have to look at the bits.
"""

# %% [markdown]
r"""
## Sign, exponent, fraction

A float is scientific notation in base two. Three fields of bits tell it:

- one bit for the **sign**;
- $e$ bits for the **exponent**, how large the number is;
- $m$ bits for the **fraction**, which number of that size it is.

`view` reinterprets the memory of a tensor without changing a bit of it, so it shows them.
"""


# %%
def fields(value, dtype, exponent_bits):
    """Return the three fields of a 16-bit float as strings of bits."""
    pattern = torch.tensor(value, dtype=dtype).view(torch.int16).item() % 2**16
    bits = f"{pattern:016b}"
    return bits[0], bits[1 : 1 + exponent_bits], bits[1 + exponent_bits :]


print("float16, 5 bits of exponent and 10 of fraction")
for value in (1.0, 2.0, 0.5, 1.5, 1.25, -1.25, 0.1):
    print(f"{value:>6}  ", *fields(value, torch.float16, 5))

# %% [markdown]
r"""
The exponent of 1 is stored as `01111`, which is 15. That is the *bias*: what is stored is the
exponent plus $2^{e-1} - 1$, so that no sign is needed. Doubling a number adds one to the field.

The fraction of 1.5 is `1000000000`, one half. The 1 before the point is not stored. In base two the
leading digit of a number other than 0 is always 1, so it goes without saying. With the stored
exponent $E$ and the fraction read as an integer $F$:

$$\text{value} = (-1)^{\text{sign}} \cdot \left(1 + \frac{F}{2^m}\right) \cdot 2^{\,E - \text{bias}}$$

Check it on the last line: the sign is 0, $E$ is `01011`, that is 11, and $F$ is `1001100110`, that is 614.
"""

# %%
print((1 + 614 / 2**10) * 2.0 ** (11 - 15), "=", torch.tensor(0.1, dtype=torch.float16).item())

# %% [markdown]
r"""
So 0.1 is not in fp16. It is not in any binary format: one tenth has no end in base two. What is
stored is the nearest number that the format has.

Two values of the exponent field are set apart (IEEE 754-2019, section 3.4):

- **All zeros**: no hidden 1, and the exponent stays at its lowest, $1 - \text{bias}$. The value is
  $(-1)^{\text{sign}} \cdot \frac{F}{2^m} \cdot 2^{\,1 - \text{bias}}$. With $F = 0$ this is zero, and there are two of them. The
  others are the **subnormal** numbers. They fill the gap between zero and the smallest **normal** number.
- **All ones**: with $F = 0$ it is infinity, otherwise it is nan, "not a number". (One format is an exception,
  e4m3: the next section tells of it.)

Play with it. Toggle a bit, type a value and store it, or change the format: the number that you typed is then rounded anew.
Three things to try. What does the last bit of the fraction change? Which single bit turns 1 into
infinity? What is one step up from 0?

<details><summary>What you should have seen, in float16</summary>

The last bit changes the number by one step, at 1 by $2^{-10}$. The highest bit of the exponent makes all of its bits ones, and the
fraction of 1 is 0: infinity. One step up from 0 is $2^{-24}$, about 5.96e-8, the smallest subnormal number.
</details>
"""

# %%
explore_bits(0.1, "float16")

# %% [markdown] exercise="decode-bits" points=4 minutes=20 difficulty=2
r"""
### Decode any format

Write `decode_bits(bits, exponent_bits, fraction_bits)`: the values that patterns of bits stand for.

- **In**: `bits`, an int64 tensor of any shape, each entry a pattern of $1 + e + m$ bits read as an
  integer of at least 0: the sign is its highest bit, the last bit of the fraction its lowest. `exponent_bits` is from 2 to
  8, `fraction_bits` from 1 to 23. The format follows the rules above.
- **Out**: a float64 tensor of the same shape. All values fit into it exactly. Infinities and zeros have their sign.
- `bits` stays as it is. All of torch is **allowed**. No dtype of torch has, say, 3 bits of exponent and 4 of fraction.

<!-- hint: Three integers are packed into one. Which operations take bits out of the middle of an integer? And what do the formulas for all-zero and ordinary exponents have in common? -->
<!-- hint: Shift right by the number of bits behind a field, then keep as many bits as the field has with `&` and a mask of ones. For a subnormal number the hidden digit is 0 instead of 1, and the exponent counts as if it were 1. -->
<!-- hint: Compute the value of all entries by one formula, with `torch.where` for the hidden digit and the exponent. Then replace it where the exponent field is all ones. Turn the sign last, by multiplying: that makes -0 and -inf as well. -->
"""


# %% solution="decode-bits"
def decode_bits(bits, exponent_bits, fraction_bits):
    """Return the float64 values of ``bits``, patterns of 1 + exponent_bits + fraction_bits bits."""
    ### BEGIN SOLUTION
    sign = bits >> (exponent_bits + fraction_bits)
    ones = 2**exponent_bits - 1
    exponent = (bits >> fraction_bits) & ones
    fraction = bits & (2**fraction_bits - 1)
    hidden = (exponent > 0).double()
    power = exponent.clamp(min=1) - (2 ** (exponent_bits - 1) - 1)
    size = (hidden + fraction.double() / 2**fraction_bits) * torch.exp2(power.double())
    special = torch.where(fraction == 0, math.inf, math.nan).double()
    return torch.where(exponent == ones, special, size) * (1.0 - 2.0 * sign)
    ### END SOLUTION


# %% test="decode-bits"
check = Check("decode-bits")


def read_by_torch(bits, dtype):
    integers = torch.uint8 if dtype.itemsize == 1 else torch.int16
    return bits.to(integers).view(dtype).double()


def same_signs(got, expected):
    return torch.equal(torch.signbit(got), torch.signbit(expected))


with check.property("reads ordinary fp16 and bf16 numbers as torch does"):
    for dtype, widths in ((torch.float16, (5, 10)), (torch.bfloat16, (8, 7))):
        bits = check.draw.normal(3, 5, std=30.0, dtype=dtype).view(torch.int16).long() % 2**16
        got = check.call(decode_bits, bits, *widths)
        check.close(got, read_by_torch(bits, dtype), atol=0.0, what=f"{dtype}")
with check.property("reads subnormal numbers and zero", weight=2):
    bits = torch.cat([torch.tensor([0, 1, 1023, 1024]), check.draw.integers(5, low=2, high=1023)])
    got = check.call(decode_bits, bits, 5, 10)
    check.close(got, read_by_torch(bits, torch.float16), atol=0.0)
with check.property("reads infinity and nan"):
    nans = 0b11111_0000000000 + check.draw.integers(3, low=1, high=1024)
    edges = [0b11110_1111111111, 0b11111_0000000000, 0b11111_0000000001, 0b11111_1000000000]
    bits = torch.cat([torch.tensor(edges), nans])
    got = check.call(decode_bits, bits, 5, 10)
    check.close(got, read_by_torch(bits, torch.float16), atol=0.0)
with check.property("reads all 256 patterns of fp8 e5m2, 5 bits of exponent and 2 of fraction"):
    bits = torch.arange(256)
    got = check.call(decode_bits, bits, 5, 2)
    check.close(got, read_by_torch(bits, torch.float8_e5m2), atol=0.0)
with check.property("zeros and infinities have their sign"):
    bits = torch.tensor([0b1_00000_0000000000, 0b0_00000_0000000000, 0b1_11111_0000000000])
    got = check.call(decode_bits, bits, 5, 10)
    check.close(got, torch.tensor([-0.0, 0.0, -math.inf], dtype=torch.float64))
    check.true(
        same_signs(got, read_by_torch(bits, torch.float16)),
        f"the signs of {got.tolist()} are not those of [-0.0, 0.0, -inf]",
    )
with check.property("reads formats that torch does not have", weight=3):
    bits = torch.arange(8).reshape(2, 4)
    expected = torch.tensor([[0.0, 0.5, 1.0, 1.5], [2.0, 3.0, math.inf, math.nan]])
    got = check.call(decode_bits, bits, 2, 1)
    what = "2 bits of exponent, 1 of fraction"
    check.close(got, expected.double(), rtol=1e-14, atol=0.0, what=what)
    bits = torch.tensor([0b1_000_0001, 0b0_011_0000, 0b1_110_1111, 0b0_111_0000])
    expected = torch.tensor([-1 / 64, 1.0, -15.5, math.inf], dtype=torch.float64)
    got = check.call(decode_bits, bits, 3, 4)
    what = "3 bits of exponent, 4 of fraction"
    check.close(got, expected, rtol=1e-14, atol=0.0, what=what)
with check.property("leaves bits as it is"):
    bits = check.draw.integers(2, check.draw.integer(3, 9), low=0, high=0b11111_0000000000)
    bits[0, :2] = torch.tensor([0b1_00000_0000000001, 0b1_11111_1000000000])
    seen = check.call(probes.after_call, decode_bits, bits, 5, 10)
    check.close(seen["output"], read_by_torch(bits, torch.float16), atol=0.0)
    check.equal(seen["arguments"][0], bits, what="bits after the call")


# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
def value_of(pattern, exponent_bits, fraction_bits):
    sign, rest = divmod(pattern, 2 ** (exponent_bits + fraction_bits))
    exponent, fraction = divmod(rest, 2**fraction_bits)
    if exponent == 2**exponent_bits - 1:
        size = math.nan if fraction else math.inf
    else:
        digits_behind = fraction + (2**fraction_bits if exponent else 0)
        lowest = 2 - 2 ** (exponent_bits - 1)
        size = math.ldexp(digits_behind, lowest + max(exponent, 1) - 1 - fraction_bits)
    return -size if sign else size


with check.property("reads all 65,536 patterns of fp16 and of bf16"):
    bits = torch.arange(2**16)
    for dtype, widths in ((torch.float16, (5, 10)), (torch.bfloat16, (8, 7))):
        got = check.call(decode_bits, bits, *widths)
        expected = read_by_torch(bits, dtype)
        check.close(got, expected, rtol=1e-14, atol=0.0, what=f"{dtype}")
        numbers = ~expected.isnan()
        check.true(same_signs(got[numbers], expected[numbers]), "some signs are wrong")
with check.property("reads other formats, every pattern of them", weight=3):
    for exponent_bits, fraction_bits in ((2, 3), (3, 4), (6, 9), (7, 1)):
        width = 1 + exponent_bits + fraction_bits
        bits = torch.arange(2**width).reshape(2, -1)
        expected = torch.tensor(
            [value_of(pattern, exponent_bits, fraction_bits) for pattern in range(2**width)],
            dtype=torch.float64,
        ).reshape(2, -1)
        got = check.call(decode_bits, bits, exponent_bits, fraction_bits)
        what = f"{exponent_bits} bits of exponent, {fraction_bits} of fraction"
        check.close(got, expected, rtol=1e-14, atol=0.0, what=what)
with check.property("reads float32"):
    bits = torch.cat(
        [
            check.draw.integers(40, low=0, high=2**32),
            torch.tensor(
                [1, 2**23 - 1, 2**23, 2**31 + 1, 0x7F7FFFFF, 0x7F800000, 0xFF800000, 0x7F800001]
            ),
        ]
    )
    expected = torch.where(bits >= 2**31, bits - 2**32, bits).to(torch.int32).view(torch.float32)
    got = check.call(decode_bits, bits, 8, 23)
    check.close(got, expected.double(), rtol=1e-14, atol=0.0)
### END HIDDEN TESTS
check.score()

# %% [markdown]
r"""
## What two numbers decide

The widths $e$ and $m$ decide everything about a format. The largest number has the largest ordinary
exponent and a fraction of ones; the smallest normal number has the lowest exponent and no
fraction; the smallest subnormal has a single 1 in its last place. And the step from 1 to the next number, the *machine
epsilon*, is $2^{-m}$.
"""

# %% tags=["needed"]
FORMATS = {  # bits of exponent, bits of fraction
    "float64": (11, 52),
    "float32": (8, 23),
    "tf32": (8, 10),
    "float16": (5, 10),
    "bfloat16": (8, 7),
    "float8_e5m2": (5, 2),
    "float8_e4m3fn": (4, 3),
}


def limits(name):
    """Return a format's largest number, smallest normal and smallest subnormal number, and epsilon."""
    exponent_bits, fraction_bits = FORMATS[name]
    bias = 2 ** (exponent_bits - 1) - 1
    largest = (2 - 2.0**-fraction_bits) * 2.0**bias
    if name == "float8_e4m3fn":
        largest = 1.75 * 2.0 ** (bias + 1)  # explained below
    return largest, 2.0 ** (1 - bias), 2.0 ** (1 - bias - fraction_bits), 2.0**-fraction_bits


# %%
print(f"{'format':<15}{'e':>3}{'m':>4}{'largest':>12}{'least normal':>14}", end="")
print(f"{'least subnormal':>17}{'epsilon':>10}  as torch.finfo")
for name, (exponent_bits, fraction_bits) in FORMATS.items():
    largest, normal, subnormal, epsilon = limits(name)
    told = "not a dtype"
    if hasattr(torch, name):
        info = torch.finfo(getattr(torch, name))
        told = (info.max, info.smallest_normal, info.eps) == (largest, normal, epsilon)
    print(
        f"{name:<15}{exponent_bits:>3}{fraction_bits:>4}{largest:>12.5g}{normal:>14.3g}"
        f"{subnormal:>17.3g}{epsilon:>10.3g}  {told}"
    )

# %% folded="Plot: What the formats can hold"
figure, axes = new_figure(height=3.2)
names = list(FORMATS)[1:]
for row, name in enumerate(names):
    largest, normal, subnormal, _ = (math.log2(limit) for limit in limits(name))
    axes.barh(row, largest - normal, left=normal, height=0.55, color=COLORS["blue"])
    axes.barh(row, normal - subnormal, left=subnormal, height=0.55, color=COLORS["orange"])
axes.barh(0, 0, color=COLORS["blue"], label="normal")
axes.barh(0, 0, color=COLORS["orange"], label="subnormal")
axes.set_yticks(range(len(names)), names)
axes.invert_yaxis()
axes.set(
    title="What the formats can hold",
    xlabel="log2 of the number's size",
    ylabel="format",
    xlim=(-155, 175),
)
axes.legend(loc="lower right")
show(
    figure,
    alt="Horizontal bars of the sizes that formats hold, on a logarithmic axis. float32, tf32 and "
    "bfloat16 reach from about 2 to the minus 126 to 2 to the 128, float16 and e5m2 from 2 to the "
    "minus 14 to 2 to the 16, e4m3 from 2 to the minus 6 to just under 2 to the 9. Below each "
    "normal range lies a short subnormal range, as many powers of two wide as the format has fraction bits.",
)

# %% [markdown]
r"""
Read the table by rows that share something.

- **fp16 and bf16** (PyTorch's `bfloat16`) both have 16 bits. fp16 spends them on the fraction, bf16 on the exponent. bf16 is float32 with
  the last 16 bits cut off: the same range, but its epsilon is 0.0078. It has between two and three decimal digits.
- **Two smallest numbers.** Tables that say "float32 starts at 1.18e-38, fp16 at 5.96e-8" compare a smallest *normal* number with a
  smallest *subnormal* one. Fairly compared, fp16's are 6.1e-5 and 5.96e-8, float32's 1.18e-38 and 1.4e-45.
- **tf32** is no dtype. It is how some NVIDIA GPUs read float32 factors in a matrix product: the exponent
  of float32, the fraction of fp16, 19 bits in all, stored in 32 ([NVIDIA A100 whitepaper](https://images.nvidia.com/aem-dam/en-zz/Solutions/data-center/nvidia-ampere-architecture-whitepaper.pdf), "TF32").
- **fp8 e4m3** breaks the rule. With 8 bits, giving up a whole exponent for inf and nan is expensive. So this
  format, `float8_e4m3fn`, has no infinity, and a single nan (with either sign): all ones. The other patterns with an exponent of ones are
  ordinary numbers, up to 448 ([Micikevicius et al. 2022](https://arxiv.org/abs/2209.05433), section 3).
  The rule would have ended at $1.875 \cdot 2^7 = 240$. The letters `fn` say it: finite, and nan.
"""

# %% [markdown]
r"""
## The steps of the number line

A format has as many numbers between 1 and 2 as between 2 and 4, and between 4 and 8: one for each fraction. So the steps
double whenever the numbers do. A toy format, with 3 bits of exponent and 2 of fraction, shows all of it.
"""

# %% folded="Plot: the numbers of two toy formats"
toy_subnormal = [fraction / 4 * 2.0**-2 for fraction in range(4)]
toy_normal = [(1 + fraction / 4) * 2.0**power for power in range(-2, 4) for fraction in range(4)]
figure, (whole, near_zero) = new_figure(2, 1, height=3.0)
for axes, limit, title in (
    (whole, 14.5, "Every number from 0 up of the toy format: 3 bits of exponent, 2 of fraction"),
    (near_zero, 1.03, "The same near zero: the subnormal numbers keep the last step"),
):
    for numbers, color, label in (
        (toy_normal, "blue", "normal"),
        (toy_subnormal, "orange", "zero and subnormal"),
    ):
        inside = [number for number in numbers if number <= limit]
        axes.vlines(inside, 0, 1, color=COLORS[color], label=label)
    axes.set(title=title, xlabel="value", yticks=[], ylabel="numbers")
    axes.grid(False)
whole.set_ylim(0, 1.7)
whole.legend(loc="upper right", ncols=2)
show(
    figure,
    alt="Two number lines with a stroke for every number of a toy format. The upper one reaches to 14: "
    "the strokes are four to a power of two, and lie twice as far apart after each of them. The lower one is near zero: "
    "below a quarter, the subnormal numbers lie as far apart as the smallest normal ones.",
)

# %% [markdown]
r"""
The step at a number $x$ has a name, **ulp**: unit in the last place. For a normal number with
$2^k \le |x| < 2^{k+1}$ it is $2^{k-m}$. Below the smallest normal number the step stays what it is there.

This explains the counters. With $m$ bits of fraction, the step reaches 2 at $2^{m+1}$. There "one more" lies in
the middle between two numbers, and it is rounded back; the section on rounding says why back. That is 256 for bf16, 2048 for fp16, 16,777,216 for float32.
"""

# %%
print("      x   ulp in fp16   ulp in bf16")
for value in (0.001, 1.0, 100.0, 256.0, 2048.0, 30_000.0):
    steps = []
    for dtype in (torch.float16, torch.bfloat16):
        number = torch.tensor(value, dtype=dtype)
        # Positive floats are ordered as their patterns are: one more is the next number.
        following = (number.view(torch.int16) + 1).view(dtype)
        steps.append((following - number).item())
    print(f"{value:>7g}{steps[0]:>14.4g}{steps[1]:>14.4g}")

# %% [markdown]
r"""
So **integers do not belong in 16-bit floats**: not positions, not token numbers, not counts. It is done all the same, without being written
anywhere: a table of positions is converted along with the model. NVIDIA's Megatron-LM did it to the positions of its rotary embeddings
([issue 535](https://github.com/NVIDIA/Megatron-LM/issues/535)); so did transformers
([issue 25681](https://github.com/huggingface/transformers/issues/25681)).
"""

# %%
positions = torch.arange(4096)
for dtype in (torch.float16, torch.bfloat16):
    different = len(positions.to(dtype).unique())
    print(f"4096 positions, {different} of them different in {str(dtype).removeprefix('torch.')}")

# %% [markdown]
r"""
An ulp grows with the number. What rounding costs *in proportion* does not: at most half an ulp of
a number of that size, that is $2^{-m-1}$, for every normal number, large or small. Only below the smallest normal
number does it rise. The next figure rounds numbers of every size and shows the worst.
"""

# %%
powers = torch.arange(-46, 22)
within = 1 + torch.rand(4000, generator=torch.Generator().manual_seed(0)).double()
numbers = (within[None, :] * torch.exp2(powers.double())[:, None]).float()

# %% folded="Plot: The worst rounding error in proportion to the number"
figure, axes = new_figure(height=3.6)
for name, color in (
    ("float8_e5m2", "purple"),
    ("bfloat16", "vermilion"),
    ("float16", "blue"),
):
    rounded = numbers.to(getattr(torch, name)).double()
    worst = ((rounded - numbers.double()) / numbers.double()).abs().amax(dim=1)
    worst[worst.isinf()] = math.nan  # too large: nothing is drawn
    width = 4 if name == "float8_e5m2" else 2  # it lies under float16's line on the left
    axes.plot(powers, worst.log2(), color=COLORS[color], linewidth=width, label=name)
axes.axvspan(-24, -14, color=COLORS["orange"], alpha=0.18, label="subnormal in float16")
axes.set(
    title="The worst rounding error in proportion to the number",
    xlabel="log2 of the number's size",
    ylabel="log2 of the relative error",
)
axes.legend(loc=(0.02, 0.42))
show(
    figure,
    alt="The worst relative rounding error against the size of the number, both as powers of two. Within its "
    "normal range each format is flat: minus 11 for float16, minus 8 for bfloat16, just below minus 3 for e5m2. "
    "For float16 the error climbs to 1 from 2 to the minus 14 down to 2 to the minus 25, stays at 1 "
    "below that, and its line ends at 2 to the 14, beyond which numbers overflow; bfloat16 stays flat.",
)

# %% [markdown]
r"""
Two beliefs can be checked on it. *Multiplying small gradients by a scale gives more bits to the fraction and lowers
the machine epsilon*: no. The scale moves a number to the right in the picture. Where the curve is flat at the
bottom, nothing is gained. Something is gained on the slope, where the number was subnormal, and on the plateau at its top, where it
vanished, if the scale is large enough to bring it down from there.

*With bf16 a scale of 65536 easily overflows*: no. A gradient times the scale must stay below the largest number:
"""

# %%
for name in ("float16", "bfloat16"):
    print(f"{name:<9} gradients up to {limits(name)[0] / 65536:.4g} survive a scale of 65536")

# %% [markdown]
"""
In bf16 the scale does no harm, and no good either: chapter 04 tells what it is for.
"""

# %% [markdown] exercise="ulp" points=3 minutes=15 difficulty=2
r"""
### The unit in the last place

Write `ulp(x)`: for each number, the step of its own format at its size, as defined above.

- **In**: `x`, a tensor of any shape, of the dtype float64, float32, float16 or bfloat16.
- **Out**: a tensor of the same shape and dtype; all of it can be represented there.
- The sign of a number does not matter. At 0 and at every subnormal number it is the smallest subnormal number. At
  the largest number it is what it is at its neighbor below.
- Infinity has the ulp inf, nan has nan. (So says Python's `math.ulp`, too, which knows float64 alone.)
- `x` stays as it is.

<!-- hint: The step is a power of two. Which exponent does it have, for a number with the exponent k? And which exponent never gets smaller? -->
<!-- hint: `torch.log2` rounds, so that a number just below a power of two is taken for that power. `torch.frexp` takes a number apart without rounding; look up in which interval its mantissa lies. It wants float32 or float64. `torch.finfo(x.dtype)` has `eps`, which is 2 to the minus m, and `smallest_normal`. -->
<!-- hint: In float64: the exponent from frexp, less one, gives 2 to the k. Do not let that get below `smallest_normal`. Multiply by `eps`, convert to the dtype of x, and put in inf and nan with `torch.where`. -->
"""


# %% solution="ulp"
def ulp(x):
    """Return the step of ``x``'s dtype at each of its numbers, of the same shape and dtype."""
    ### BEGIN SOLUTION
    info = torch.finfo(x.dtype)
    exponent = torch.frexp(x.abs().double()).exponent - 1
    power = torch.exp2(exponent.double()).clamp(min=info.smallest_normal)
    power = torch.where(x == 0, info.smallest_normal, power)
    return torch.where(x.isfinite(), (power * info.eps).to(x.dtype), x.abs())
    ### END SOLUTION


# %% test="ulp"
check = Check("ulp")
with check.property("float64: what Python's math.ulp says"):
    x = check.draw.normal(3, 5, std=1000.0, dtype=torch.float64)
    expected = [[math.ulp(value) for value in row] for row in x.tolist()]
    got = check.call(ulp, x)
    check.close(got, torch.tensor(expected, dtype=torch.float64), rtol=1e-12, atol=0.0)
with check.property("each of the four dtypes has its own step at 1", weight=2):
    for dtype, fraction_bits in (
        (torch.float16, 10),
        (torch.bfloat16, 7),
        (torch.float32, 23),
        (torch.float64, 52),
    ):
        x = torch.tensor([1.0, -1.0, 1.5], dtype=dtype)
        got = check.call(ulp, x)
        check.close(got, torch.full((3,), 2.0**-fraction_bits, dtype=dtype), rtol=1e-3, atol=0.0)
with check.property("a number just below a power of two has half the step of that power", weight=2):
    for dtype in (torch.float32, torch.float64):
        powers = torch.tensor([4.0, 8.0, 1024.0], dtype=dtype)
        below = powers.nextafter(torch.zeros(3, dtype=dtype))
        steps = powers * torch.finfo(dtype).eps
        got = check.call(ulp, torch.cat([powers, below, -below]))
        what = f"at 4, 8, 1024, just below each, and minus those, in {dtype}"
        check.close(got, torch.cat([steps, steps / 2, steps / 2]), rtol=1e-6, atol=0.0, what=what)
with check.property("subnormal numbers and 0 have the smallest step"):
    x = torch.tensor([0.0, 2.0**-24, -(2.0**-20), 2.0**-15, 2.0**-14], dtype=torch.float16)
    got = check.call(ulp, x)
    check.close(got, torch.full((5,), 2.0**-24, dtype=torch.float16), rtol=1e-3, atol=0.0)
with check.property("bfloat16 and float64 have ends of their own", weight=2):
    powers = torch.tensor([-20.0, -100.0, -126.0, -130.0])
    x = torch.exp2(powers).bfloat16()
    expected = torch.exp2(torch.tensor([-27.0, -107.0, -133.0, -133.0])).bfloat16()
    got = check.call(ulp, x)
    check.close(got, expected, rtol=1e-3, atol=0.0, what="bfloat16, 2^-20, 2^-100, 2^-126, 2^-130")
    x = torch.tensor([1e300, -1e200, 1e-310, 0.0], dtype=torch.float64)
    expected = torch.tensor([math.ulp(value) for value in x.tolist()], dtype=torch.float64)
    got = check.call(ulp, x)
    check.close(got, expected, rtol=1e-12, atol=0.0, what="float64")
with check.property("the largest number, infinity and nan"):
    x = torch.tensor([65504.0, math.inf, -math.inf, math.nan, -1.5], dtype=torch.float16)
    expected = torch.tensor([32.0, math.inf, math.inf, math.nan, 2.0**-10], dtype=torch.float16)
    check.close(check.call(ulp, x), expected, rtol=1e-3)
with check.property("x stays as it is"):
    x = check.draw.normal(check.draw.integer(4, 9), std=100.0, dtype=torch.float64)
    x[:3] = torch.tensor([-1.5, -math.inf, -0.0])
    expected = torch.tensor([math.ulp(value) for value in x.tolist()], dtype=torch.float64)
    seen = check.call(probes.after_call, ulp, x)
    check.close(seen["output"], expected, rtol=1e-12, atol=0.0)
    check.equal(seen["arguments"][0], x, what="x after the call")
    check.equal(torch.signbit(seen["arguments"][0]), torch.signbit(x), what="the signs of x")


# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
def numbers_of_sizes(powers, dtype):
    fractions = check.draw.uniform(len(powers), 3, high=0.98)
    fractions[:, 0] = 0.0  # the power of two itself
    return ((1 + fractions) * torch.exp2(powers)[:, None]).to(dtype)


with check.property("numbers of every size, in float16 and bfloat16", weight=2):
    for dtype, fraction_bits, low, high in (
        (torch.float16, 10, -14, 16),
        (torch.bfloat16, 7, -126, 128),
    ):
        powers = torch.arange(low, high).double()
        x = numbers_of_sizes(powers, dtype)
        expected = torch.exp2(powers - fraction_bits)[:, None].expand(x.shape).to(dtype)
        got = check.call(ulp, x)
        check.close(got, expected, rtol=1e-3, atol=0.0)
with check.property("both ends of float32, bfloat16 and float64", weight=2):
    for dtype in (torch.float32, torch.bfloat16, torch.float64):
        info = torch.finfo(dtype)
        smallest = info.smallest_normal * info.eps
        x = torch.tensor([0.0, smallest, info.smallest_normal, -info.max, math.nan], dtype=dtype)
        top = 2.0 ** math.floor(math.log2(info.max) - 1e-9) * info.eps
        if dtype == torch.float64:
            top = math.ulp(info.max)
        expected = torch.tensor([smallest, smallest, smallest, top, math.nan], dtype=dtype)
        got = check.call(ulp, x)
        check.close(got, expected, rtol=1e-3, atol=0.0)
with check.property("a number just below a power of two, in float64 and bfloat16"):
    for dtype in (torch.float64, torch.bfloat16):
        power = torch.tensor([16.0, 2.0**40], dtype=dtype)
        below = power - power * torch.finfo(dtype).eps / 2
        got = check.call(ulp, below)
        check.close(got, power * torch.finfo(dtype).eps / 2, rtol=1e-3, atol=0.0)
### END HIDDEN TESTS
check.score()

# %% [markdown]
r"""
## Rounding to nearest, ties to even

Whatever is added, multiplied, divided or converted, the exact result is replaced by a number that the format has: the **nearest** one.
What if there are two? Then the one whose last bit is 0. This is *round to nearest, ties to even* (IEEE 754-2019, section 4.3.1),
what processors do unless they are told otherwise. (Functions like `exp` come close to that, and do not always hit the nearest.)

Now the frozen weight. The ulp of $2^{-3}$ in fp16 is $2^{-13}$, and the update $2^{-14}$ is exactly half of it: a tie.
"""

# %%
weight = torch.tensor(2**-3, dtype=torch.float16)
unit = torch.tensor(2**-14, dtype=torch.float16)
for halves in (1, 2, 3):
    total = weight + halves * unit
    steps = (total - weight).item() / 2**-13
    print(
        f"2^-3 + {halves} half ulps: went up by {steps:.0f} ulps, to ...{fields(total.item(), torch.float16, 5)[2][-4:]}"
    )

# %% [markdown]
r"""
One half is a tie between 0 and 1 steps, and the even one is 0. Three halves is a tie between 1 and 2, and the even one is 2.
So ties go up as often as down, and sums of many roundings do not drift. The frozen weight stood at an even
place and met the tie there a thousand times. One ulp higher, the first step would have moved it, once: to the next even place, where it would
have frozen. An update upwards that is a little smaller than half an ulp moves nothing from anywhere. (Downwards from a power of two it
can: below that number the steps are half as large.)

At the ends of the range rounding follows the same rule, as if the format went on.
"""

# %%
half = torch.float16
print(
    "65519 becomes",
    torch.tensor(65519.0).to(half).item(),
    "and 65520",
    torch.tensor(65520.0).to(half).item(),
)
print("2^-25 becomes", torch.tensor(2.0**-25).to(half).item(), end=", and a little more ")
print(torch.tensor(2.0**-25 * 1.001).to(half).item())
print("3.4e38 is finite in float32, and in bfloat16 it is", torch.tensor(3.4e38).bfloat16().item())

# %% [markdown]
r"""
After 65504 would come 65536. The middle is 65520, a tie; the fraction of 65504 is all ones, odd, so it goes up, and up is
infinity. The last line refutes a common sentence, *from float32 to bf16 numbers can underflow but never overflow*. The
exponents are the same, but bf16's largest number is 3.3895e38, float32's is 3.4028e38, and from the middle
on, numbers are rounded up to inf.

What about formats without an infinity? For e4m3, the standard of the Open Compute Project allows two answers for numbers that are too
large: nan, or the largest number, which is called *saturating*
([OFP8 specification 1.0](https://www.opencompute.org/documents/ocp-8-bit-floating-point-specification-ofp8-revision-1-0-2023-12-01-pdf-1), on conversion).
PyTorch's cast has given one or the other, depending on version and device
([pytorch pull request 178817](https://github.com/pytorch/pytorch/pull/178817)). Clamp before you cast, and you need not know.
"""

# %% tags=["nbval-ignore-output"]
print(
    f"torch {torch.__version__}:",
    torch.tensor([448.0, 464.0, 500.0]).to(torch.float8_e4m3fn).float().tolist(),
)

# %% [markdown] exercise="round-to-format" points=6 minutes=30 difficulty=3
r"""
### Round to any format

Write `round_to(x, exponent_bits, fraction_bits, largest)`: each number replaced by the nearest one of a format, ties to even.

- **In**: `x`, a float32 or float64 tensor of any shape. `exponent_bits` is from 2 to 8, `fraction_bits` from 1 to 23. `largest` is
  the format's largest number, a Python float. (It is given, so that e4m3 fits: 448. For fp16 it is 65504.)
- **Out**: a tensor of the same shape and dtype, every number exactly as the format has it.
- Subnormal numbers are rounded to the steps that they have. What is rounded to more than `largest` becomes infinity
  (in e4m3 as well, though it has none).
- Infinity and nan stay as they are. Every number keeps its sign, also when it becomes zero.
- `x` stays as it is. All of torch is **allowed**.

The next cell compares it with torch's casts, number by number.

<!-- hint: If the step at a number is known, how do you round to a multiple of that step? `torch.round` rounds to integers, ties to even. -->
<!-- hint: The step is the ulp in the *target* format: two to the power k minus m, with k the exponent of the number, but not below the format's lowest exponent, 1 minus the bias. Compute in float64: there the division by a step is exact. -->
<!-- hint: k is `torch.frexp(x.double()).exponent - 1`, clamped from below. Divide by the step, `torch.round`, multiply. Then, where the size exceeds `largest`, put an infinity of the same sign (`torch.copysign` gives it one). At the end put back what was not finite. -->
"""


# %% solution="round-to-format"
def round_to(x, exponent_bits, fraction_bits, largest):
    """Return ``x`` rounded to nearest even in a format of that many bits, in ``x``'s own dtype."""
    ### BEGIN SOLUTION
    wide = x.double()
    lowest = 2 - 2 ** (exponent_bits - 1)
    exponent = (torch.frexp(wide).exponent - 1).clamp(min=lowest)
    step = torch.exp2((exponent - fraction_bits).double())
    rounded = torch.round(wide / step) * step
    infinity = torch.copysign(torch.full_like(wide, math.inf), wide)
    rounded = torch.where(rounded.abs() > largest, infinity, rounded)
    return torch.where(wide.isfinite(), rounded, wide).to(x.dtype)
    ### END SOLUTION


# %% test="round-to-format"
check = Check("round-to-format")
KINDS = {
    torch.float16: (5, 10, 65504.0),
    torch.bfloat16: (8, 7, (2 - 2.0**-7) * 2.0**127),
    torch.float8_e5m2: (5, 2, 57344.0),
    torch.float8_e4m3fn: (4, 3, 448.0),
}


def numbers_of(dtype):
    width, integers = (8, torch.uint8) if dtype.itemsize == 1 else (16, torch.int16)
    numbers = torch.arange(2**width).to(integers).view(dtype).float()
    return numbers[numbers.isfinite()].unique()


def same_signs(got, expected):
    return torch.equal(torch.signbit(got), torch.signbit(expected))


with check.property("ordinary numbers come out as torch's casts have them, in four formats"):
    odd = 2 * check.draw.integers(5, 7, low=2**16, high=2**22) + 1  # too many digits for a tie
    x = odd / 2.0**18 * (1 - 2 * check.draw.booleans(5, 7).float())
    for dtype, kind in KINDS.items():
        got = check.call(round_to, x, *kind)
        check.equal(got, x.to(dtype).float(), what=f"{dtype}")
with check.property("ties go to the even neighbor", weight=2):
    for dtype in (torch.float16, torch.bfloat16):
        line = numbers_of(dtype)
        line = line[(line >= 1) & (line <= 64)]
        start = check.draw.integer(0, len(line) - 12)
        middles = (line[start : start + 11] + line[start + 1 : start + 12]) / 2
        got = check.call(round_to, middles, *KINDS[dtype])
        check.equal(got, middles.to(dtype).float(), what=f"{dtype}")
with check.property("numbers below the smallest normal one, down to zero", weight=2):
    x = check.draw.normal(3, 8, std=2.0**-16)
    x[0, 0], x[1, 2], x[2, 3] = 2.0**-25, 2.0**-14 - 2.0**-25, 1e-30
    got = check.call(round_to, x, *KINDS[torch.float16])
    check.equal(got, x.to(torch.float16).float())
with check.property("too large becomes infinity, and what is rounded down to the largest does not"):
    x = torch.tensor([65504.0, 65519.0, 65520.0, 70000.0, -65519.0, -65520.0, -1e30])
    got = check.call(round_to, x, *KINDS[torch.float16])
    check.equal(got, x.to(torch.float16).float(), what="fp16")
    x = torch.tensor([300.0, 448.0, 464.0, 465.0, -500.0])
    got = check.call(round_to, x, *KINDS[torch.float8_e4m3fn])
    expected = torch.tensor([288.0, 448.0, 448.0, math.inf, -math.inf])
    check.equal(got, expected, what="fp8 e4m3, up to 448")
with check.property("the toy format: 3 bits of exponent, 2 of fraction, up to 14", weight=3):
    x = torch.tensor([1.1, -1.125, 1.375, 5.5, -9.0, 11.0, 13.0, 14.9, 15.0, -20.0, 0.2, 0.09375])
    expected = [1.0, -1.0, 1.5, 6.0, -8.0, 12.0, 12.0, 14.0, math.inf, -math.inf, 0.1875, 0.125]
    got = check.call(round_to, x, 3, 2, 14.0)
    check.equal(got, torch.tensor(expected))
with check.property(
    "each number is rounded once, float64 ones too, and numbers of the format stay"
):
    tie = 1 + 2.0**-11  # of fp16
    near_ties = [tie + 2.0**-40, tie - 2.0**-40, tie + 2.0**-10 - 2.0**-40]
    x = torch.tensor(near_ties, dtype=torch.float64)
    got = check.call(round_to, x, *KINDS[torch.float16])
    step = 2.0**-10
    check.equal(got, torch.tensor([1 + step, 1.0, 1 + step], dtype=x.dtype), what="to fp16")
    x = torch.tensor([1.0, 4.0, 1024.0]).nextafter(torch.zeros(3))
    got = check.call(round_to, x, 8, 23, torch.finfo(torch.float32).max)
    check.equal(got, x, what="float32 numbers to float32")
with check.property("infinity and nan stay, zeros keep their sign"):
    x = torch.tensor([math.inf, -math.inf, math.nan, 0.0, -0.0, -1e-20, 1e-20])
    got = check.call(round_to, x, *KINDS[torch.float16])
    expected = x.to(torch.float16).float()
    check.equal(got, expected)
    check.true(
        same_signs(got[3:], expected[3:]),
        f"the signs of {got[3:].tolist()} are not those of {expected[3:].tolist()}",
    )
with check.property("leaves x as it is"):
    x = check.draw.normal(2, check.draw.integer(3, 9), std=100.0)
    x[:, 0], x[:, 1] = torch.tensor([math.nan, -math.inf]), torch.tensor([-70000.0, 1e-9])
    seen = check.call(probes.after_call, round_to, x, *KINDS[torch.float16])
    check.equal(seen["output"], x.to(torch.float16).float())
    check.equal(seen["arguments"][0], x, what="x after the call")
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
from fractions import Fraction


def nearest(number, fraction_bits, lowest, largest):
    exponent = max(math.frexp(number)[1] - 1, lowest)
    size = round(Fraction(number) / Fraction(2) ** (exponent - fraction_bits))  # ties to even
    rounded = float(size * Fraction(2) ** (exponent - fraction_bits))
    return math.copysign(math.inf if abs(rounded) > largest else rounded, number)


with check.property("every number of the four formats, its float32 neighbors, and every tie"):
    for dtype, kind in KINDS.items():
        line = numbers_of(dtype)
        exact = torch.cat([line, (line[1:] + line[:-1]) / 2])
        infinity = torch.full_like(exact, math.inf)
        x = torch.cat([exact, exact.nextafter(infinity), exact.nextafter(-infinity)])
        got = check.call(round_to, x, *kind)
        check.equal(got, x.to(dtype).float(), what=f"{dtype}")
with check.property("formats that torch does not have, from float64", weight=3):
    for exponent_bits, fraction_bits in ((2, 1), (3, 4), (6, 9), (8, 12)):
        lowest, top = 2 - 2 ** (exponent_bits - 1), 2 ** (exponent_bits - 1) - 1
        largest = (2 - 2.0**-fraction_bits) * 2.0**top
        powers = check.draw.uniform(50, low=lowest - fraction_bits - 2, high=top + 1.5).double()
        x = torch.exp2(powers) * (1 - 2 * check.draw.booleans(50).double())
        least, step = 2.0 ** (lowest - fraction_bits), 2.0 ** (top - fraction_bits)
        edges = [least * share for share in (0.4, 0.5, 0.6, 1.5, 2.4, 2.5)]
        edges += [
            largest,
            largest + 0.4 * step,
            largest + 0.5 * step,
            -largest - step,
            1.25,
            1 + 2.0 ** (-fraction_bits - 1),
        ]
        edges += [1 + 2.0 ** (-fraction_bits - 1) + 2.0**-40]
        x = torch.cat([x, torch.tensor(edges, dtype=torch.float64)])
        expected = [nearest(v, fraction_bits, lowest, largest) for v in x.tolist()]
        got = check.call(round_to, x, exponent_bits, fraction_bits, largest)
        check.equal(got, torch.tensor(expected, dtype=torch.float64))
with check.property("from float64 to float32, as torch casts; and float32 numbers stay"):
    top = torch.finfo(torch.float32).max
    scales = 10.0 ** check.draw.integers(9, 1, low=-44, high=38)
    x = check.draw.normal(9, 4, dtype=torch.float64) * scales
    x[:3, 0] = torch.tensor([1 + 2.0**-24, 1 + 3 * 2.0**-24, 3.5e38], dtype=torch.float64)
    x[3:6, 0] = torch.tensor([3e-41, 1e-46, top * (1 + 2.0**-26)], dtype=torch.float64)
    x[6, 0] = -3.5e38
    got = check.call(round_to, x, 8, 23, top)
    check.equal(got, x.float().double())
    powers = torch.exp2(torch.tensor([0.0, 40.0, -40.0, 100.0]))
    x = torch.cat([powers, powers.nextafter(torch.zeros(4)), -powers])
    got = check.call(round_to, x, 8, 23, top)
    check.equal(got, x, what="float32 numbers")
### END HIDDEN TESTS
check.score()

# %% [markdown]
"""
Every number that a format has, every middle between two of them, and the float32 numbers just above and just below each: where does
`round_to` differ from torch's cast? (For e4m3 only up to 464: beyond, the versions of torch differ.)
"""


# %% folded="Compare round_to with PyTorch, pattern by pattern"
def count_differences(rounding):
    for name in ("float16", "bfloat16", "float8_e5m2", "float8_e4m3fn"):
        dtype, (exponent_bits, fraction_bits) = getattr(torch, name), FORMATS[name]
        width, integers = (8, torch.uint8) if dtype.itemsize == 1 else (16, torch.int16)
        line = torch.arange(2**width).to(integers).view(dtype).float()
        line = line[line.isfinite()].unique()
        exact = torch.cat([line, (line[1:] + line[:-1]) / 2])
        infinity = torch.full_like(exact, math.inf)
        x = torch.cat([exact, exact.nextafter(infinity), exact.nextafter(-infinity)])
        if name != "float8_e4m3fn":
            x = torch.cat([x, 1.2 * line, infinity[:1], -infinity[:1]])
        got = rounding(x.clone(), exponent_bits, fraction_bits, limits(name)[0])
        different = int((got != x.to(dtype).float()).sum())
        print(
            f"{name:<14}{2**width:>6,} patterns, {len(x):>7,} numbers rounded, {different} differ"
        )


try:
    count_differences(round_to)
except NotImplementedError:
    print("Write round_to above, then run this cell again.")

# %% [markdown] exercise="first-overflow" points=3 minutes=15 difficulty=2
r"""
### The first number that overflows

Write `first_overflow(fraction_bits, largest)`: the smallest positive float32 number that is too large for a format.

- **In**: `fraction_bits`, from 2 to 10; `largest`, the format's largest number, a Python float with at most that many bits of fraction.
- **Out**: a Python float. It is the smallest of all float32 numbers that, rounded to nearest even with `fraction_bits` bits of
  fraction, come out above `largest`.
- For bf16, `first_overflow(7, 3.3895313892515355e+38)` tells from where on float32 numbers become inf.
- The largest number need not have a fraction of ones. In e4m3 it does not.
- Work it out instead of trying one float32 number after another: up to $2^{20}$ lie on the way.

<!-- hint: Which two numbers stand on either side of the border? The upper one is not in the format; where would it be? -->
<!-- hint: The border is half an ulp above the largest number. It is a tie. To which side it goes depends on the last bit of the largest number. -->
<!-- hint: Divide `largest` by its ulp: an integer. Odd, and the tie itself is rounded up. Even, and it is rounded down; then it is the float32 number after the tie, which `torch.nextafter` finds. -->
"""


# %% solution="first-overflow"
def first_overflow(fraction_bits, largest):
    """Return the smallest positive float32 number that is rounded to more than ``largest``."""
    ### BEGIN SOLUTION
    step = 2.0 ** (math.frexp(largest)[1] - 1 - fraction_bits)
    tie = largest + step / 2
    if (largest / step) % 2 == 1:
        return tie
    return torch.nextafter(torch.tensor(tie), torch.tensor(math.inf)).item()
    ### END SOLUTION


# %% test="first-overflow"
check = Check("first-overflow")


def number_before(number):
    return torch.tensor(number).nextafter(torch.tensor(0.0))


def require_border(got, dtype):
    check.true(type(got) is float, f"{type(got).__name__} came back, expected a float")
    this, before = torch.tensor(got), number_before(got)
    check.true(this.item() == got, f"{got!r} is not a float32 number")
    check.true(
        bool(this.to(dtype).float().isinf()),
        f"{got!r} does not overflow: it becomes {this.to(dtype).item()!r}",
    )
    check.true(
        bool(before.to(dtype).float().isfinite()),
        f"{before.item()!r}, the float32 number before it, overflows too",
    )


with check.property("fp16: it overflows, and the float32 number before it does not"):
    require_border(check.call(first_overflow, 10, 65504.0), torch.float16)
with check.property("bf16, whose largest number is near float32's own"):
    require_border(check.call(first_overflow, 7, torch.finfo(torch.bfloat16).max), torch.bfloat16)


def require_border_of_steps(got, step, largest):
    check.true(type(got) is float, f"{type(got).__name__} came back, expected a float")
    check.true(torch.tensor(got).item() == got, f"{got!r} is not a float32 number")
    for number, is_too_large in ((got, True), (number_before(got).item(), False)):
        rounded = round(number / step) * step
        where = f"{number!r} is rounded to {rounded!r}"
        if not is_too_large:
            where = f"the float32 number before {got!r}, {where}"
        check.true(
            (rounded > largest) == is_too_large,
            f"{where}, which is {'not' if is_too_large else 'already'} above {largest!r}",
        )


with check.property("fp8 e4m3, whose largest number 448 has an even fraction"):
    # From 256 to 512 the numbers of e4m3 lie 32 apart.
    require_border_of_steps(check.call(first_overflow, 3, 448.0), 32, 448.0)
with check.property("formats with 2 bits of fraction, or 6, and an odd or an even end", weight=2):
    # From 8 to 16 the numbers with 2 bits of fraction lie 2 apart, those with 6 an eighth.
    require_border_of_steps(check.call(first_overflow, 6, 10.125), 0.125, 10.125)
    require_border_of_steps(check.call(first_overflow, 6, 10.25), 0.125, 10.25)
    require_border_of_steps(check.call(first_overflow, 2, 10.0), 2, 10.0)
    require_border_of_steps(check.call(first_overflow, 2, 12.0), 2, 12.0)
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("fp8 e5m2, by the same two conditions"):
    require_border(check.call(first_overflow, 2, 57344.0), torch.float8_e5m2)
with check.property("formats that torch does not have, of every size, odd and even", weight=2):
    for parity, (fewest, most) in ((0, (2, 3)), (1, (2, 3)), (0, (4, 10)), (1, (4, 10))):
        fraction_bits = check.draw.integer(fewest, most + 1)
        power = check.draw.integer(-60, 100)
        significand = (
            2**fraction_bits + 2 * check.draw.integer(1, 2 ** (fraction_bits - 1)) - 2 + parity
        )
        step = 2.0 ** (power - fraction_bits)
        got = check.call(first_overflow, fraction_bits, significand * step)
        check.true(type(got) is float, f"{type(got).__name__} came back, expected a float")
        tie = torch.tensor((significand + 0.5) * step)
        expected = tie if parity else tie.nextafter(torch.tensor(math.inf))
        check.equal(got, expected.item())
### END HIDDEN TESTS
check.score()

# %% [markdown]
r"""
## Sums that lose what is small

Add a tenth ten thousand times.
"""

# %%
print("right: 1000")
for dtype in (torch.float32, torch.float16, torch.bfloat16):
    total = add_many_times(0.0, 0.1, 10_000, dtype)
    print(f"{str(dtype).removeprefix('torch.'):<9}{total:.6g}")

# %% [markdown]
r"""
float32 has lost a tenth on the way. The 16-bit sums stopped early, at the place where a tenth is less than half an ulp of the
total. Whoever adds one number after another into a total of the same format gets this.

Libraries do not add like that. They add blocks and then the blocks' sums, so that a total is seldom much larger than what is added to it
(*pairwise summation*; Higham 2002, section 4.2), and in a matrix product of 16-bit factors they keep the total in float32.
"""

# %%
many = torch.ones(1).expand(2**25)  # 33,554,432 ones that share one place in memory
print(
    "2^25 ones, torch.sum in float32:  ", int(many.sum()), "; one after another it ends at", 2**24
)
row = torch.ones(1, 4096, dtype=torch.float16)
print(
    "4096 products of ones, fp16 matmul:", int(row @ row.T), "; one after another it ends at", 2**11
)

# %% [markdown]
r"""
Where numbers come one at a time, blocks do not help: a running mean, an optimizer's state, a weight. For that there is *compensated
summation*, found by Kahan in 1965. Its idea: when the total is rounded, what was rounded away **can be computed**, exactly, and kept for
the next time.

Say the total is 2048 in fp16 and 1.5 is to be added. The rounded sum is 2050, the steps being 2. Take the old total away from
it: 2. That is what really went in, and the subtraction is exact. It should have been 1.5, so 0.5 too much: the *rest* is -0.5. Add
the rest to the next number before that number is added. Very little is lost then: only what rounding that small sum costs, half an ulp
*of the rest*.
"""

# %%
total, value = torch.tensor(2048.0, dtype=torch.float16), torch.tensor(1.5, dtype=torch.float16)
rounded = total + value
went_in = rounded - total
print(
    f"2048 + 1.5 = {rounded.item():g} in fp16: {went_in.item():g} went in, the rest is {(value - went_in).item():g}"
)

# %% [markdown] exercise="kahan-add" points=4 minutes=20 difficulty=2
r"""
### A sum that keeps the rest

Write `kahan_add(total, rest, value)`: one step of a compensated sum. It returns the new `(total, rest)`.

- **In**: three tensors of the same shape and of the same dtype: float32, float16 or bfloat16. The sum so far is `total + rest`, where `rest` is
  what the rounded total is short of. No value is larger than the total in size.
- **Out**: two tensors of that shape and dtype. The new total is `total + (value + rest)`, rounded, so that the rest is used up.
  The new rest is what was rounded away in that, **with this sign**: total + rest is the sum, up to the rounding of `value + rest`.
  (Some books keep the rest with the opposite sign.)
- The three tensors stay as they are.

The check calls it again and again, each time with what came back the last time.

<!-- hint: Two things are to be added to the total in each step. Which of the two was left over from the step before? -->
<!-- hint: First add the rest to the value: both are small, so that little is lost. Then add this to the total. How much went in? The difference of the new and the old total tells it. -->
<!-- hint: With `wanted` for value plus rest, and the new total, the new rest is `wanted` less what went in. Mind the brackets: the new total minus the old one comes first. -->
"""


# %% solution="kahan-add"
def kahan_add(total, rest, value):
    """Return the new total and the new rest, after ``value`` has been added."""
    ### BEGIN SOLUTION
    wanted = value + rest
    new_total = total + wanted
    return new_total, wanted - (new_total - total)
    ### END SOLUTION


# %% test="kahan-add"
check = Check("kahan-add")


def summed_exactly(start, values):
    return start.double() + sum(value.double() for value in values)


with check.property("adds a few ordinary numbers"):
    start = check.draw.uniform(5, low=50.0, high=90.0)
    values = list(check.draw.normal(4, 5))
    states = check.call(probes.fold, kahan_add, [start, torch.zeros(5)], values)
    total, rest = states[-1]
    check.close(total, summed_exactly(start, values).float(), rtol=2e-6, what="the total")
    check.close(rest.abs() < 1e-4, torch.ones(5, dtype=torch.bool), what="the rest is small")
with check.property("goes on counting by ones after 2^24", weight=2):
    start = 2.0**24 + 2 * check.draw.integers(3, low=0, high=50).float()
    values = [torch.ones(3)] * 100
    total, _ = check.call(probes.fold, kahan_add, [start, torch.zeros(3)], values)[-1]
    check.equal(total, start + 100, what="the total after 100 ones")
with check.property("total + rest is the sum, to more digits than the total has", weight=2):
    start = check.draw.uniform(4, low=40_000.0, high=60_000.0)
    values = list(check.draw.uniform(200, 4, low=0.0005, high=0.0015))
    total, rest = check.call(probes.fold, kahan_add, [start, torch.zeros(4)], values)[-1]
    exact = summed_exactly(start, values)
    check.close(total, exact.float(), rtol=2e-7, what="the total")
    check.close(total.double() + rest.double(), exact, rtol=1e-10, atol=0.0, what="total + rest")
with check.property("a weight in bf16 takes updates far smaller than its ulp, and stays bf16"):
    start = check.draw.uniform(6, low=1.0, high=1.9, dtype=torch.bfloat16)
    values = [torch.full((6,), 2.0**-11, dtype=torch.bfloat16)] * 400
    states = check.call(probes.fold, kahan_add, [start, torch.zeros_like(start)], values)
    total, rest = states[-1]
    expected = (start.double() + 400 * 2.0**-11).bfloat16()
    check.close(total, expected, rtol=0.01, atol=0.0, what="the total")
    check.close(rest, torch.zeros_like(rest, dtype=start.dtype), atol=0.01, what="the rest")
with check.property("leaves its arguments as they are", weight=0.5):
    size = check.draw.integer(4, 12)
    given = [check.draw.uniform(size, low=50.0, high=90.0) for _ in range(3)]
    given[1:] = [given[1] * 1e-7, given[2] / 100]  # a rest and a value, neither of them 0
    seen = check.call(probes.after_call, kahan_add, *given)
    total, rest = seen["output"]
    exact = sum(numbers.double() for numbers in given)
    check.close(total.double() + rest.double(), exact, rtol=1e-9, atol=0.0, what="total + rest")
    check.equal(seen["arguments"], given, what="the arguments after the call")
with check.property("a sum of negative numbers in fp16"):
    start = check.draw.uniform(4, low=-90.0, high=-70.0, dtype=torch.float16)
    values = [torch.full((4,), -(2.0**-8), dtype=torch.float16)] * 60
    total, rest = check.call(probes.fold, kahan_add, [start, torch.zeros_like(start)], values)[-1]
    exact = summed_exactly(start, values)
    check.close(total, exact.half(), rtol=1e-3, atol=0.0, what="the total")
    check.close(total.double() + rest.double(), exact, rtol=0.0, atol=2e-3, what="total + rest")
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("negative numbers, fp16, and a rest from before", weight=2):
    start = -check.draw.uniform(3, low=1100.0, high=1900.0, dtype=torch.float16)
    before = torch.full((3,), -0.375, dtype=torch.float16)
    values = [torch.full((3,), -0.3125, dtype=torch.float16)] * 50
    states = check.call(probes.fold, kahan_add, [start, before], values)
    total, rest = states[-1]
    exact = start.double() - 0.375 - 50 * 0.3125
    check.close(total, exact.half(), rtol=1e-3, atol=0.0, what="the total")
    check.close(total.double() + rest.double(), exact, rtol=0.0, atol=0.02, what="total + rest")
### END HIDDEN TESTS
check.score()

# %% [markdown]
r"""
## Rounding by dice

The second cure needs no second number. Rounding to nearest always sends the same number to the same side, and an update of a
quarter of an ulp is lost every time. *Stochastic rounding* sends it up with probability one quarter, and down with three quarters. It is
wrong each time, and right on average: the expected value is the exact one.
"""

# %%
generator = torch.Generator().manual_seed(0)
ulp_at_1, update = 2.0**-7, 2.0**-9  # of bf16, and a quarter of it
nearest, dice = torch.ones(2, 1000, dtype=torch.bfloat16)  # a thousand weights each
paths = []
for _ in range(400):
    nearest = (nearest.float() + update).bfloat16()
    following = (dice.view(torch.int16) + 1).view(torch.bfloat16)
    goes_up = torch.rand(1000, generator=generator) < 0.25
    dice = torch.where(goes_up, following, dice)
    paths.append(torch.stack([nearest, dice]).double().sub(1) / ulp_at_1)
paths = torch.stack(paths)

# %% folded="Plot: Updates of a quarter of an ulp, on bf16 weights that start at 1"
figure, axes = new_figure()
steps = torch.arange(1, 401)
axes.plot(steps, steps / 4, color=COLORS["black"], linestyle=":", label="exact")
axes.plot(steps, paths[:, 1, 0], color=COLORS["blue"], label="rounded by dice, three weights")
axes.plot(steps, paths[:, 1, 1:3], color=COLORS["blue"])
axes.plot(steps, paths[:, 0, 0], color=COLORS["vermilion"], label="rounded to nearest")
axes.set(
    title="Updates of a quarter of an ulp, on bf16 weights that start at 1",
    xlabel="updates",
    ylabel="how far the weight went (ulps)",
)
axes.legend()
show(
    figure,
    alt="How far weights went in ulps, against the number of updates. Rounded to nearest they stay at 0. Rounded by "
    "dice, three weights follow the exact line up to 100, within some fifteen ulps on one side or the other.",
)
ends = paths[-1, 1]
print(f"a thousand weights after 400 updates: {ends.mean():.0f} ulps on average, ", end="")
print(f"with a standard deviation of {ends.std():.1f}; sqrt(400 * 3/16) = {math.sqrt(75):.1f}")

# %% [markdown]
r"""
The blue lines stray, by about $\sqrt{n \cdot \frac14 \cdot \frac34}$ ulps after $n$ steps: that is the price (a fact of the binomial
distribution). Gupta et al. (2015, section 4) trained networks in 16-bit fixed point this way that did not train with rounding to nearest.
"""

# %% [markdown] exercise="stochastic-rounding" points=4 minutes=20 difficulty=2
r"""
### Stochastic rounding

Write `round_stochastically(x, fraction_bits, noise)`.

- **In**: `x`, a float32 tensor of any shape, with numbers from $2^{-100}$ to $2^{100}$ in size. `fraction_bits`, from 1 to 20. `noise`, a
  float32 tensor of the same shape, uniform: at least 0 and less than 1.
- **Out**: a float32 tensor of the same shape. Each number becomes one of its two neighbors with `fraction_bits` bits of fraction. The exponent is not
  limited further.
- A number that lies at 30 % of the way from its lower neighbor to its upper one, the larger, becomes the upper one for 30 % of the noise, and the lower one for the rest. Whether
  these are the lowest 30 % of the noise or the highest is yours to choose. A number that has no more bits than that stays as it is, whatever the noise.
- It uses no randomness of its own: the same noise gives the same result. `x` and `noise` stay as they are.

<!-- hint: Divide by the step, as in rounding to nearest. What remains is an integer and a part behind the point. What does the noise have to do with that part? -->
<!-- hint: Rounding to nearest is: add one half, then cut off what is behind the point. What if you add something else in its place? -->
<!-- hint: `torch.floor` of the scaled number plus the noise goes up for just the right share. Compute in float64, where the sum with the noise loses nothing. The step comes from frexp, as before. -->
"""


# %% solution="stochastic-rounding"
def round_stochastically(x, fraction_bits, noise):
    """Return ``x`` rounded up or down, up in proportion to how near the upper neighbor is."""
    ### BEGIN SOLUTION
    exponent = torch.frexp(x).exponent - 1
    step = torch.exp2((exponent - fraction_bits).double())
    return (torch.floor(x.double() / step + noise.double()) * step).float()
    ### END SOLUTION


# %% test="stochastic-rounding"
check = Check("stochastic-rounding")
even_noise = (torch.arange(1000) + 0.5) / 1000  # what uniform noise is like, without chance


def round_often(x, fraction_bits):
    wide = x[:, None].expand(len(x), 1000).contiguous()
    noise = even_noise[None].expand(len(x), 1000).contiguous()
    return check.call(round_stochastically, wide, fraction_bits, noise)


def require_neighbors(got, x, fraction_bits, noises=1000):
    check.close(got.isfinite(), torch.ones(len(x), noises, dtype=torch.bool), what="is finite")
    # Scaled to lie between 1 and 2, a number with that many bits of fraction is a multiple of 2^-bits.
    scaled = got.double() / torch.exp2(torch.frexp(x).exponent.double() - 1)[:, None]
    multiples = scaled * 2**fraction_bits
    check.true(
        torch.equal(multiples, multiples.round()),
        "a number came back that has more bits of fraction",
    )
    size = torch.exp2(torch.frexp(x).exponent.double() - 1 - fraction_bits)[:, None]
    gap = (got.double() - x.double()[:, None]).abs() / size
    check.true(
        bool((gap < 1).all()), f"a number came back that is {gap.max().item():.3g} steps away"
    )


def require_unbiased(got, x, fraction_bits):
    size = torch.exp2(torch.frexp(x).exponent.double() - 1 - fraction_bits)
    share = (got.double().mean(dim=1) - x.double()) / size
    check.true(
        bool((share.abs() < 0.0021).all()),
        f"over 1000 evenly spread noises the mean is up to {share.abs().max().item():.3g} steps off",
    )


with check.property("positive numbers come out as a neighbor, and as themselves on average"):
    x = check.draw.uniform(6, low=1.0, high=60.0)
    x[:2] = torch.tensor([1.37, 51.3])
    got = round_often(x, 7)
    check.close(got.double().mean(dim=1), x.double(), rtol=0.01, what="the mean over the noise")
    require_neighbors(got, x, 7)
    require_unbiased(got, x, 7)
with check.property("so do negative ones", weight=2):
    x = -check.draw.uniform(5, low=1.0, high=60.0)
    x[:2] = torch.tensor([-1.37, -51.3])
    got = round_often(x, 7)
    require_neighbors(got, x, 7)
    require_unbiased(got, x, 7)
with check.property("what needs no rounding stays, whatever the noise"):
    x = check.draw.normal(8, std=50.0).bfloat16().float()
    x[2], x[3] = 4.0, -8.0
    wide = x[:, None].expand(8, 5).contiguous()
    noise = torch.tensor([0.0, 0.25, 0.5, 0.75, 1 - 2.0**-24]).expand(8, 5).contiguous()
    got = check.call(round_stochastically, wide, 7, noise)
    check.close(got, wide, rtol=1.0, atol=1e3)  # shape and dtype
    for number, chance, came in zip(wide.flatten(), noise.flatten(), got.flatten(), strict=True):
        told = f"{number.item()!r} became {came.item()!r} with the noise {chance.item()!r}"
        check.true(bool(came == number), told)
with check.property("other numbers of bits, and numbers of other sizes", weight=2):
    for fraction_bits in (3, 18):
        x = torch.tensor([1.3, -5.7, 1 + 2.0**-22, 1.7 * 2.0**50, -1.1 * 2.0**-50])
        got = round_often(x, fraction_bits)
        require_neighbors(got, x, fraction_bits)
        require_unbiased(got, x, fraction_bits)
with check.property(
    "just below a power of two the neighbors are that power and the number before it"
):
    x = torch.tensor([4.0, -8.0, 2.0**20]).nextafter(torch.zeros(3))
    noise = torch.tensor([0.0, 1 - 2.0**-24]).expand(3, 2).contiguous()
    got = check.call(round_stochastically, x[:, None].expand(3, 2).contiguous(), 7, noise)
    require_neighbors(got, x, 7, noises=2)
with check.property("the same noise gives the same result, in a new process too"):
    x, noise = check.draw.normal(3, 4), check.draw.uniform(3, 4)
    first = check.call(round_stochastically, x, 3, noise)
    check.equal(check.call(round_stochastically, x, 3, noise), first, what="the second call")
    check.restart()
    again = check.call(round_stochastically, x, 3, noise)
    check.equal(again, first, what="the call in a new process")
with check.property("x and noise stay as they are", weight=0.5):
    columns = check.draw.integer(4, 9)
    x, noise = check.draw.normal(3, columns), check.draw.uniform(3, columns)
    expected = check.call(round_stochastically, x, 3, noise)
    seen = check.call(probes.after_call, round_stochastically, x, 3, noise)
    check.equal(seen["output"], expected, what="the second call")
    check.equal(seen["arguments"], [x, 3, noise], what="the arguments after the call")
with check.property(
    "the noise for which a number becomes the upper one is the lowest or the highest"
):
    x = check.draw.uniform(7, low=-60.0, high=60.0)
    got = round_often(x, 5)
    changes = (got.diff(dim=1) != 0).sum(dim=1)
    told = "with growing noise {!r} goes to its other neighbor {} times, not once"
    check.true(
        changes.max().item() <= 1, told.format(x[changes.argmax()].item(), changes.max().item())
    )
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("other numbers of bits, numbers of every size"):
    for fraction_bits in (1, 4, 10, 18):
        x = check.draw.uniform(9, low=1.0, high=2.0) * torch.exp2(
            check.draw.integers(9, low=-60, high=60).float()
        )
        x[4:] = -x[4:]
        got = round_often(x, fraction_bits)
        require_neighbors(got, x, fraction_bits)
        require_unbiased(got, x, fraction_bits)
with check.property("below a power of two, where the upper neighbor is that power"):
    x = torch.tensor([2.0 - 2.0**-10, -(4.0 - 2.0**-9)])
    got = round_often(x, 7)
    require_neighbors(got, x, 7)
    require_unbiased(got, x, 7)
with check.property("each number follows its own noise"):
    x = torch.full((2, 5), 1 + 2.0**-8) * check.draw.integers(2, 1, low=1, high=2).float()
    noise = torch.tensor([0.01, 0.99, 0.02, 0.98, 0.03]).expand(2, 5).contiguous()
    got = check.call(round_stochastically, x, 7, noise)
    check.equal(
        got[:, 0] == got[:, 1], torch.tensor([False, False]), what="the same for both noises"
    )
    check.equal(
        got[:, 0::2] == got[:, :1],
        torch.ones(2, 3, dtype=torch.bool),
        what="the same for like noises",
    )
### END HIDDEN TESTS
check.score()

# %% [markdown]
r"""
## A model that stops learning

Now for real weights. The digits again, a matrix of weights for ten classes, plain gradient descent with a small step. The loss is the cross entropy in nats, that is,
with natural logarithms. It is computed in float32 in every run; what differs is the dtype in which the weights and their gradients are stored. PyTorch's own
`torch.optim.SGD` does the updates.
"""

# %%
digit_images, digit_labels = (kept[::3] for kept in digits())  # every third picture
pixels = digit_images.flatten(1) / 16
seen = pixels.amax(dim=0) > 0  # a pixel that is never lit has no gradient


def train_digits(dtype, make_optimizer, steps=800, step_size=0.05):
    """Train from small random weights stored in ``dtype``.

    Returns for each step the loss, and the share of the weights that it left as they were.
    """
    start = 0.1 * torch.randn(64, 10, generator=torch.Generator().manual_seed(0))
    weights = start.to(dtype).requires_grad_(True)
    optimizer, losses, still = make_optimizer([weights], step_size), [], []
    for _ in range(steps):
        before = weights.detach().clone()
        loss = torch.nn.functional.cross_entropy(pixels @ weights.float(), digit_labels)
        (weights.grad,) = torch.autograd.grad(loss, weights)
        optimizer.step()
        losses.append(loss.item())
        still.append((weights == before)[seen].float().mean().item())
    return losses, still


def plain_sgd(parameters, step_size):
    return torch.optim.SGD(parameters, lr=step_size)


losses_float32, still_float32 = train_digits(torch.float32, plain_sgd)
losses_bf16, still_bf16 = train_digits(torch.bfloat16, plain_sgd, steps=1200)
print("loss after 800 steps:")
print(f"    float32 {losses_float32[799]:.1f}, bf16 {losses_bf16[799]:.1f}")
print("weights that step 800 left as they were:")
share = 5 * int(20 * still_bf16[799])
print(f"    float32 {100 * still_float32[799]:.0f} %, bf16 more than {share} %")
print(f"another 400 steps lower the bf16 loss by {losses_bf16[799] - losses_bf16[1199]:.2f}")

# %% [markdown]
r"""
The losses begin together and part when the gradients get small. At step 800 nearly all weights stayed where they were: their updates were less
than half an ulp. This training does not go slowly; it is over.

The third cure is the one in everyday use: **master weights**. The optimizer keeps a copy of each weight in float32 and updates that. What the
model computes with is the copy's 16-bit rounding, made anew after each step. Small updates add up in the master until they show (Micikevicius et al. 2018,
section 3.1). It costs memory:
"""

# %%
sizes = {
    name: torch.tensor(0.0, dtype=getattr(torch, name)).element_size()
    for name in ("float32", "bfloat16")
}
print("bytes per weight, float32 alone:           ", sizes["float32"])
print("bytes per weight, bf16 alone:              ", sizes["bfloat16"])
print("bytes per weight, bf16 with float32 master:", sizes["bfloat16"] + sizes["float32"])

# %% [markdown]
r"""
So mixed precision does not halve the memory of the weights; with masters they take half as much again. What it halves are activations and
what is sent between devices (chapter 03). The paper has three measures in all: master weights; a loss scale, against fp16's narrow range (chapter 04); and
matrix products whose total is kept in float32, which the libraries see to (with one exception, in the table below).
"""

# %% [markdown] exercise="master-weights" points=5 minutes=25 difficulty=2
r"""
### Master weights

Write the class `MasterSGD(parameters, learning_rate)` with a method `step()`: gradient descent for parameters in 16 bits, with float32 masters.

- **In**: `parameters`, an iterable of tensors of dtype bfloat16 or float16 that require gradients, such as `model.parameters()`, which is a
  generator: it can be gone through only once. `learning_rate`, a Python float.
- `step()` subtracts the learning rate times the gradient (`.grad`, of the parameter's dtype) from each master. The product, too, is
  computed in float32. Then the parameter, the very tensor that the model holds, gets the master's rounding.
- Each master starts as its parameter's value.
- A parameter whose `.grad` is None is left alone in that step. Gradients stay as they are, and the parameters go on requiring them.
- torch's own optimizers are **allowed** inside. How the object keeps its masters is yours to choose.

The cell below trains with it.

<!-- hint: What must the object remember from one step to the next, that cannot be had from the 16-bit parameter any more? -->
<!-- hint: Make a list of the parameters and a list of float32 clones in `__init__`. In `step`, go through both lists together. A tensor that requires gradients may only be changed in place inside `torch.no_grad()`; the decorator above `step` sees to that. -->
<!-- hint: Per pair: skip it if the gradient is None; update the master with the gradient converted to float32; then the parameter's `copy_` from the master rounds and writes in place. -->
"""


# %% solution="master-weights"
class MasterSGD:
    """Gradient descent for 16-bit parameters: small updates add up in float32 masters."""

    def __init__(self, parameters, learning_rate):
        ### BEGIN SOLUTION
        self.parameters = list(parameters)
        self.masters = [parameter.detach().float() for parameter in self.parameters]
        self.learning_rate = learning_rate
        ### END SOLUTION

    @torch.no_grad()
    def step(self):
        """Update the masters, and write their rounding into the parameters."""
        ### BEGIN SOLUTION
        for parameter, master in zip(self.parameters, self.masters, strict=True):
            if parameter.grad is not None:
                master -= self.learning_rate * parameter.grad.float()
                parameter.copy_(master)
        ### END SOLUTION


# %% test="master-weights"
check = Check("master-weights")


def trained(weights, steps, learning_rate):
    masters = [weight.float() for weight in weights]
    for gradients in steps:
        for master, gradient in zip(masters, gradients, strict=True):
            if gradient is not None:
                master.sub_(learning_rate * gradient.float())
    return [master.to(weight.dtype) for master, weight in zip(masters, weights, strict=True)]


def grid(*size, dtype):
    """Numbers with few bits: whatever is computed with them in float32 is exact."""
    return (check.draw.integers(*size, low=-127, high=128) / 64).to(dtype)


with check.property("one step of ordinary size"):
    weights, gradient = [grid(3, 4, dtype=torch.bfloat16)], grid(3, 4, dtype=torch.bfloat16)
    weights[0][0, 0], gradient[0, 0] = 1 + 2.0**-7, -(2.0**-5)  # leads to a tie
    states = check.call(probes.optimizer_steps, MasterSGD, weights, [[gradient]], 0.125)
    expected = trained(weights, [[gradient]], 0.125)
    check.equal(states[-1]["weights"], expected, what="the parameters")
with check.property("updates far smaller than half an ulp add up", weight=3):
    weights = [check.draw.uniform(2, 5, low=1.0, high=1.9, dtype=torch.bfloat16)]
    # Each update is 1, 2 or 3 times 2^-12; half an ulp is 2^-8.
    counts = check.draw.integers(200, 2, 5, low=1, high=4)
    steps = [[(-count / 256).bfloat16()] for count in counts]
    states = check.call(probes.optimizer_steps, MasterSGD, weights, steps, 2.0**-4)
    for at in (99, 199):
        expected = trained(weights, steps[: at + 1], 2.0**-4)
        what = f"the parameters after {at + 1} steps"
        check.equal(states[at]["weights"], expected, what=what)
with check.property("fp16: updates add up that would be 0 if fp16 held them", weight=3):
    weights = [check.draw.uniform(7, low=2.0**-10, high=1.9 * 2.0**-10, dtype=torch.float16)]
    # The learning rate times the gradient is 2^-26 or 2^-25, and fp16 rounds both to 0.
    counts = check.draw.integers(300, 7, low=1, high=3)
    steps = [[(-count * 2.0**-16).half()] for count in counts]
    states = check.call(probes.optimizer_steps, MasterSGD, weights, steps, 2.0**-10)
    expected = trained(weights, steps, 2.0**-10)
    check.equal(states[-1]["weights"], expected, what="the parameters after 300 steps")
with check.property("several parameters from a generator, without a gradient in some steps"):
    sizes = ((3, 4), (5,), (2, 7))
    weights = [grid(*size, dtype=torch.bfloat16) for size in sizes]
    first, second, third = (grid(*size, dtype=torch.bfloat16) for size in sizes)
    weights[0][0, 0], first[0, 0] = 1 + 2.0**-7, -(2.0**-6)  # two of these make half an ulp
    steps = [[first, None, third], [None, None, third], [first, second, None]]
    states = check.call(probes.optimizer_steps, MasterSGD, weights, steps, 0.125)
    for at in range(3):
        expected = trained(weights, steps[: at + 1], 0.125)
        what = f"the parameters after step {at + 1}"
        check.equal(states[at]["weights"], expected, what=what)
with check.property("the gradients stay as they are, and the parameters go on requiring them"):
    sizes = ((4, 3), (5,))
    weights, gradients, slopes = (
        [grid(*size, dtype=torch.bfloat16) for size in sizes] for _ in range(3)
    )
    for given in (gradients, [gradients[0], None]):
        (state,) = check.call(
            probes.optimizer_steps, MasterSGD, weights, [given], 0.5, slopes=slopes
        )
        check.equal(state["weights"], trained(weights, [given], 0.5), what="the parameters")
        sums = [s if g is None else g + s for g, s in zip(given, slopes, strict=True)]
        check.equal(state["gradients"], sums, what=".grad after one more backward pass")
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("fp16 parameters, updates that change their sign on the way"):
    weights = [check.draw.uniform(7, low=2.0, high=3.9, dtype=torch.float16)]
    up, down = (torch.full((7,), sign, dtype=torch.float16) for sign in (-1.0, 1.0))
    steps = [[up]] * 150 + [[down]] * 50
    states = check.call(probes.optimizer_steps, MasterSGD, weights, steps, 2.0**-12)
    for at in (149, 199):
        expected = trained(weights, steps[: at + 1], 2.0**-12)
        what = f"the parameters after {at + 1} steps"
        check.equal(states[at]["weights"], expected, what=what)
with check.property("a small gradient in every other step, none in the others"):
    weights = [check.draw.uniform(3, low=1.0, high=1.9, dtype=torch.bfloat16)]
    gradient = torch.full((3,), -1.0, dtype=torch.bfloat16)
    steps = [[gradient], [None]] * 100
    states = check.call(probes.optimizer_steps, MasterSGD, weights, steps, 2.0**-9)
    expected = trained(weights, steps, 2.0**-9)
    check.equal(states[-1]["weights"], expected, what="the parameters")
with check.property("forty steps with another learning rate"):
    weights = [grid(4, 3, dtype=torch.bfloat16)]
    counts = check.draw.integers(40, 4, 3, low=-31, high=32)
    steps = [[(count / 8).bfloat16()] for count in counts]
    states = check.call(probes.optimizer_steps, MasterSGD, weights, steps, 3 / 32)
    expected = trained(weights, steps, 3 / 32)
    check.equal(states[-1]["weights"], expected, what="the parameters")
### END HIDDEN TESTS
check.score()

# %% folded="Plot: Digits, gradient descent with a small step"
figure, axes = new_figure()
axes.plot(losses_float32, color=COLORS["black"], linestyle=":", zorder=3, label="float32 weights")
axes.plot(losses_bf16[:800], color=COLORS["vermilion"], label="bf16 weights")
told = (
    "Loss against training step. With float32 weights it falls all the way. With bf16 weights it falls "
    "at first and then becomes a flat line well above."
)
try:
    losses_master, _ = train_digits(torch.bfloat16, MasterSGD)
    axes.plot(losses_master, color=COLORS["blue"], label="bf16 weights, float32 masters")
    told += " With bf16 weights and float32 masters it follows the float32 line."
except NotImplementedError:
    print("Write MasterSGD above, then run this cell again: a third line appears.")
axes.set(
    title="Digits, gradient descent with a small step",
    xlabel="training step",
    ylabel="loss (nats)",
)
axes.legend()
show(figure, alt=told)

# %% [markdown]
r"""
Three cures, then. What does each cost, and what does it leave? A thousand bf16 weights get 500 updates of about an eighth of an ulp. The next
cell uses your `kahan_add`, `round_stochastically` and `MasterSGD`.
"""


# %%
def compare_cures(updates=500):
    generator = torch.Generator().manual_seed(0)
    start = (1 + torch.rand(1000, generator=generator) / 4).bfloat16()
    update = (2.0**-10 * (0.5 + torch.rand(1000, generator=generator))).bfloat16()
    nearest, total, rest, dice = start, start, torch.zeros_like(start), start
    weights = start.clone().requires_grad_(True)
    weights.grad = -update
    optimizer = MasterSGD([weights], 1.0)
    for _ in range(updates):
        nearest = nearest + update
        total, rest = kahan_add(total, rest, update)
        noise = torch.rand(1000, generator=generator)
        dice = round_stochastically(dice.float() + update.float(), 7, noise).bfloat16()
        optimizer.step()
    exact = start.double() + updates * update.double()
    print("cure             bytes per weight   typical error (ulps)   mean error (ulps)")
    for name, size, got in (
        ("none", 2, nearest),
        ("Kahan, bf16 rest", 2 + 2, total),
        ("dice", 2, dice),
        ("float32 masters", 2 + 4, weights.detach()),
    ):
        errors = (got.double() - exact) / 2.0**-7
        typical, mean = errors.square().mean().sqrt(), round(errors.mean().item(), 1) + 0.0
        print(f"{name:<17}{size:>16}{typical:>23.1f}{mean:>20.1f}")


try:
    compare_cures()
except NotImplementedError:
    print("Write the three above, then run this cell again.")

# %% [markdown]
r"""
- **Masters** leave one rounding, half an ulp at most, and every optimizer works on them as it is. They are the usual choice where
  the memory for them is there.
- **Kahan's sum** leaves the same for less memory. The optimizer must be written for it; and its rest is rounded as well, so that in
  bf16 an update below 1/256 of half an ulp of the weight can be lost in it.
- **Dice** need no memory. They leave noise, which grows with the root of the number of updates. They are for where memory decides; the noise
  of the gradients is often larger anyway.
"""

# %% [markdown]
r"""
## Bug hunt: a conversion that is right for every number

bf16 is the upper half of float32. So it seems that no arithmetic is needed to convert: take the 32 bits as an integer and shift the lower
half out. That cuts off, where rounding is wanted; and rounding is one addition before the shift. Half a unit of the last bit that stays,
less one, plus that bit itself: this goes over the edge just when the nearest number is the upper one, or when there is a tie and
the lower one is odd. A carry runs into the exponent, as it should.

The same trick serves every format with float32's exponent. `pack_quickly` does it for any number of fraction bits, and returns patterns.
"""


# %% tags=["needed"]
def pack_quickly(x, fraction_bits):
    shift = 23 - fraction_bits
    bits = x.view(torch.int32).long() & 0xFFFFFFFF
    last_bit = (bits >> shift) & 1
    return (bits + 2 ** (shift - 1) - 1 + last_bit) >> shift


# %%
def patterns_by_torch(x):
    return x.bfloat16().view(torch.int16).long() & 0xFFFF


generator = torch.Generator().manual_seed(0)
patterns = torch.randint(-(2**31), 2**31, (1_000_000,), generator=generator).to(torch.int32)
samples = patterns.view(torch.float32)
samples = samples[~samples.isnan()]
wrong = int((pack_quickly(samples, 7) != patterns_by_torch(samples)).sum())
print(f"{len(samples):,} numbers of every size, subnormal ones among them, no nan: {wrong} wrong")

losses = torch.tensor([math.inf, -math.inf, math.nan])
print([f"{pattern:#06x}" for pattern in pack_quickly(losses, 7).tolist()], "for inf, -inf, nan")

# %% [markdown]
r"""
It is right for every one of them. inf is `0x7f80`, and nan is `0x7fc0`, a nan. Code like this passes review.

Then a loss became nan, on a GPU. Nearly $2^{24}$ patterns of float32 mean nan, and where a CPU writes
`0x7fc00000` or `0xffc00000`, an NVIDIA GPU writes `0x7fffffff` ([NVIDIA's forum](https://forums.developer.nvidia.com/t/static-constexpr-quiet-nan-for-device-code/57047)). Here is that loss, packed and read again.
"""

# %%
gpu_nan = torch.tensor([0x7FFFFFFF], dtype=torch.int32).view(torch.float32)
pattern = pack_quickly(gpu_nan, 7)
print("packed: ", gpu_nan.item())
print("read:   ", pattern.to(torch.int16).view(torch.bfloat16).item())

# %% [markdown] exercise="bug-hunt-pack-bits" points=4 minutes=20 difficulty=2
r"""
### Bug hunt: where did the nan go?

The loss is nan, and what was stored says that all is well. Find out, in cells of your own, what becomes of the 32 bits on their way, and what becomes
of `0x7f800001`. Then write `pack_bits(x, fraction_bits)`, which is right for everything.

- **In**: `x`, a float32 tensor of any shape; `fraction_bits`, from 1 to 22. The format has 8 bits of exponent.
- **Out**: an int64 tensor of the same shape: the patterns of `1 + 8 + fraction_bits` bits, read as integers of at least 0.
- Numbers are rounded to nearest, ties to even; infinities stay, and what is too large becomes one.
- Every nan becomes *a* nan. Which one, and with which sign, is yours to choose.
- `x` stays as it is, to the last bit. All of torch is **allowed**.

<!-- hint: Write the 32 bits of the lost nan down. What does the addition do to them? And which bits of 0x7f800001 are left after the shift? -->
<!-- hint: A nan needs no rounding. Decide by `x.isnan()`, not by the bits after the addition, and give nan a pattern of its own. -->
<!-- hint: A nan in the new format: all eight bits of the exponent are ones and at least one bit of the fraction is. Make one such integer of `fraction_bits`, and choose between it and the rounded pattern with `torch.where`. -->
"""


# %% solution="bug-hunt-pack-bits"
def pack_bits(x, fraction_bits):
    """Return ``x`` rounded to 8 bits of exponent and ``fraction_bits`` of fraction, as patterns."""
    ### BEGIN SOLUTION
    shift = 23 - fraction_bits
    bits = x.view(torch.int32).long() & 0xFFFFFFFF
    last_bit = (bits >> shift) & 1
    rounded = (bits + 2 ** (shift - 1) - 1 + last_bit) >> shift
    quiet_nan = 0b1_1111_1111 << (fraction_bits - 1)
    return torch.where(x.isnan(), quiet_nan, rounded)
    ### END SOLUTION


# %% test="bug-hunt-pack-bits"
check = Check("bug-hunt-pack-bits")


def bf16_patterns(x):
    return x.bfloat16().view(torch.int16).long() & 0xFFFF


def from_patterns(*patterns):
    numbers = torch.tensor(patterns)
    return (
        torch.where(numbers >= 2**31, numbers - 2**32, numbers).to(torch.int32).view(torch.float32)
    )


def require_nans(got, patterns, fraction_bits):
    expected = torch.zeros(len(patterns), dtype=torch.int64)
    check.close(got * 0, expected, what="what came back for nan")  # shape and dtype
    exponents, fractions = (got >> fraction_bits) & 0xFF, got % 2**fraction_bits
    fits = (got >= 0) & (got < 2 ** (9 + fraction_bits))
    kept = fits & (exponents == 0xFF) & (fractions > 0)
    pairs = zip(patterns, got.tolist(), kept.tolist(), strict=True)
    lost = [f"{given:#x} became {came:#x}" for given, came, is_nan in pairs if not is_nan]
    check.true(
        not lost, f"with {fraction_bits} bits of fraction {', '.join(lost[:4])}: no nan any more"
    )


with check.property("ordinary numbers have the bits of torch's bf16"):
    x = check.draw.normal(5, 6, std=100.0)
    got = check.call(pack_bits, x, 7)
    check.equal(got, bf16_patterns(x))
with check.property("so have ties, zeros, infinities, and numbers at both ends"):
    ties = from_patterns(0x3F808000, 0x3F818000, 0xBF818000, 0x00008000, 0x00018000, 0x7F7F8000)
    above = from_patterns(0x3F808001, 0xBF808001)
    ends = torch.tensor([0.0, -0.0, math.inf, -math.inf, 3.4e38, 1e-40, -1e-45])
    x = torch.cat([ties, above, ends])
    got = check.call(pack_bits, x, 7)
    check.equal(got, bf16_patterns(x))
with check.property("nan stays nan, whatever its bits", weight=2):
    nans = [0x7FC00000, 0x7FFFFFFF, 0xFFFFFFFF, 0x7F800001, 0xFF800001, 0x7FFF8000]
    require_nans(check.call(pack_bits, from_patterns(*nans), 7), nans, 7)
with check.property("other numbers of fraction bits: numbers, infinities, nan", weight=2):
    x = torch.tensor([1.0, 1.0625, 1.1875, -3.3, math.inf, -math.inf, 3.4e38])
    got = check.call(pack_bits, x, 3)
    expected = [0x3F8, 0x3F8, 0x3FA, 0xC05, 0x7F8, 0xFF8, 0x7F8]
    check.equal(got, torch.tensor(expected), what="3 bits of fraction")
    for fraction_bits in (3, 1, 22):
        got = check.call(pack_bits, from_patterns(*nans), fraction_bits)
        require_nans(got, nans, fraction_bits)
with check.property("leaves x as it is", weight=0.5):
    numbers = check.draw.normal(check.draw.integer(4, 9), std=100.0)
    x = torch.cat([numbers, from_patterns(0xFF800000, 0x80000001, 0x7FFFFFFF, 0x7F800001)])
    seen = check.call(probes.after_call, pack_bits, x, 7)
    check.equal(seen["output"][:-2], bf16_patterns(x[:-2]))
    after = seen["arguments"][0].view(torch.int32)
    check.equal(after, x.view(torch.int32), what="the bits of x after the call")


# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
def packed_by_hand(pattern, fraction_bits):
    shift = 23 - fraction_bits
    kept, rest = divmod(pattern, 2**shift)
    middle = 2 ** (shift - 1)
    return kept + (rest > middle or (rest == middle and kept % 2 == 1))


with check.property("other numbers of fraction bits, many numbers", weight=2):
    for fraction_bits in (1, 3, 10, 22):
        patterns = check.draw.integers(200, low=0, high=0x7F800000).tolist()
        patterns += [p + 2**31 for p in patterns[:50]] + [
            0x7F800000,
            0xFF800000,
            0x7F7FFFFF,
            0x3F800001,
        ]
        got = check.call(pack_bits, from_patterns(*patterns), fraction_bits)
        expected = torch.tensor([packed_by_hand(p, fraction_bits) for p in patterns])
        check.equal(got, expected, what=f"{fraction_bits} bits of fraction")
with check.property("any nan, in any of these formats, among numbers"):
    for fraction_bits in (1, 7, 10, 22):
        payloads = (0x7F800000 + check.draw.integers(20, low=1, high=2**23)).tolist()
        nans = [0x7FFFFFFF, 0xFFFFFFFF, 0x7F800001, *payloads, *(p + 2**31 for p in payloads)]
        x = from_patterns(*nans, 0x3F800000).reshape(4, -1)
        got = check.call(pack_bits, x, fraction_bits)
        check.true(
            got.shape == x.shape,
            f"the shape {tuple(got.shape)} came back, expected {tuple(x.shape)}",
        )
        require_nans(got.flatten()[:-1], nans, fraction_bits)
        check.equal(
            got.flatten()[-1:], torch.tensor([127 << fraction_bits]), what="the pattern of 1"
        )
### END HIDDEN TESTS
check.score()

# %% [markdown]
r"""
<details><summary>What it was (open it when you have found it)</summary>

Rounding carries. In a number the carry runs from the fraction into the exponent, and from the largest number to infinity. In a nan with many ones it runs on through the exponent
into the sign: `0x7fffffff` becomes `0x8000`, which is -0. And `0x7f800001` has its only bit of fraction in the half that is shifted out: what is left is infinity.
</details>

It shipped, in many places. The carry into the sign: TileLang made -0 of `0x7fff8c22` until 2026
([issue 2481](https://github.com/tile-ai/tilelang/issues/2481)). The lost half: .NET's conversion did not round nan, but shifted it, and made infinity
of `0x7f800001` ([dotnet/runtime pull request 130583](https://github.com/dotnet/runtime/pull/130583)); so did a library of Intel's
compiler ([intel/llvm pull request 22114](https://github.com/intel/llvm/pull/22114)). tinygrad's conversion had to learn of nan as well
([pull request 11843](https://github.com/tinygrad/tinygrad/pull/11843)). A bug of this kind shows when something else goes wrong, and hides it.
"""

# %% [markdown]
r"""
## In the wild

| what | where it is settled |
| --- | --- |
| limits of a dtype | [`torch.finfo`](https://docs.pytorch.org/docs/stable/type_info.html), [`numpy.finfo`](https://numpy.org/doc/stable/reference/generated/numpy.finfo.html); the step at a number: [`math.ulp`](https://docs.python.org/3/library/math.html#math.ulp), [`numpy.spacing`](https://numpy.org/doc/stable/reference/generated/numpy.spacing.html), [`torch.nextafter`](https://docs.pytorch.org/docs/stable/generated/torch.nextafter.html) |
| small formats outside torch | [ml_dtypes](https://github.com/jax-ml/ml_dtypes): bfloat16, fp8, fp6 and fp4 for NumPy and JAX |
| tf32 | [`torch.set_float32_matmul_precision`](https://docs.pytorch.org/docs/stable/generated/torch.set_float32_matmul_precision.html): `"highest"`, `"high"`, `"medium"` |
| fp8 training | [Transformer Engine](https://docs.nvidia.com/deeplearning/transformer-engine/user-guide/index.html): its `Format.HYBRID` is e4m3 forward and e5m2 for gradients; [torchao](https://github.com/pytorch/ao)'s `float8` |
| master weights | NVIDIA's Apex called it `master_weights`; [DeepSpeed](https://www.deepspeed.ai/docs/config-json/) keeps them with `"bf16": {"enabled": true}`; under [autocast](https://docs.pytorch.org/docs/stable/amp.html) the parameters themselves stay float32 |
| stochastic rounding | torchao's low-bit optimizers have [`bf16_stochastic_round=True`](https://github.com/pytorch/ao/tree/main/torchao/optim); oneDNN has it as a [rounding mode](https://oneapi-src.github.io/oneDNN/dev_guide_attributes_rounding_mode.html), `stochastic` |
| compensated summation | Python's [`math.fsum`](https://docs.python.org/3/library/math.html#math.fsum) is exact, and since 3.12 `sum` of floats is compensated; [optimī](https://optimi.benjaminwarner.dev/kahan_summation/) uses Kahan's sum for bf16 weights (`kahan_sum=True`) |
| the total in a 16-bit matrix product | float32; cuBLAS may reduce in fp16 between blocks unless [`allow_fp16_reduced_precision_reduction`](https://docs.pytorch.org/docs/stable/notes/numerical_accuracy.html) is switched off |
"""

# %% [markdown]
r"""
## Recap

1. A float is a sign, an exponent of $e$ bits and a fraction of $m$ bits; $e$ decides the range, $m$ the digits.
2. The steps between numbers double with the numbers, so that rounding costs the same *in proportion* everywhere, except among the subnormal numbers,
   where it costs more.
3. Rounding goes to the nearest number, a tie goes to the even one, and at the upper end up means infinity, where the format has one.
4. What is added to a total and is less than half the step there is lost, every time: sums stop, and so do weights.
5. The cures are to keep the rest (Kahan), to round by dice, or to hold the total in a wider format (master weights); they differ in
   memory and in what they leave.

### Test yourself

<details><summary>1. Why does a bf16 counter stop at 256 and an fp16 counter at 2048?</summary>

With $m$ bits of fraction the step becomes 2 at $2^{m+1}$. One more is then a tie, rounded to even, which is back: $m$ is 7 in bf16 and 10 in fp16.
</details>

<details><summary>2. What is the smallest positive number of fp16? Two answers are right, to two questions.</summary>

The smallest normal number is $2^{-14}$, about 6.1e-5. The smallest subnormal number is $2^{-24}$, about 5.96e-8.
</details>

<details><summary>3. Can a finite float32 number become infinite in bf16?</summary>

Yes. The exponents are the same, but from half an ulp above bf16's largest number on, rounding goes up to infinity; 3.4e38 is such a number.
</details>

<details><summary>4. A gradient is multiplied by 1024 before it is stored in fp16. What is gained if it is 0.01, and if it is 1e-7?</summary>

For 0.01 nothing. It was normal before and after, and in the normal range the relative error is the same everywhere. A power of two does not even change the fraction.
For 1e-7 much: it was subnormal, two steps of $2^{-24}$, about a fifth off; afterwards it is normal. In bf16 nothing is gained for either.
</details>

<details><summary>5. Updates are too small for bf16 weights. Which cures fit into 2, 4 and 6 bytes per weight, and what is the catch of each?</summary>

2: rounding by dice. It is right on average, because the errors cancel over many updates; each weight strays by the root of their number.
4: Kahan's sum with a bf16 rest. The optimizer must be written for it. 6: float32 masters. They cost more memory than float32 weights alone.
</details>

### References

- IEEE 754-2019, *Standard for Floating-Point Arithmetic*, sections 3.3 and 3.4 (formats), 4.3 (rounding), 7.4 (overflow).
- D. Goldberg, "What Every Computer Scientist Should Know About Floating-Point Arithmetic", *ACM Computing Surveys* 23(1), 1991.
- N. J. Higham, *Accuracy and Stability of Numerical Algorithms*, 2nd edition, SIAM, 2002, sections 2.1, 4.2 and 4.3.
- W. Kahan, "Further remarks on reducing truncation errors", *Communications of the ACM* 8(1), 1965.
- P. Micikevicius et al., "Mixed Precision Training", [arXiv:1710.03740](https://arxiv.org/abs/1710.03740), 2018, section 3.
- P. Micikevicius et al., "FP8 Formats for Deep Learning", [arXiv:2209.05433](https://arxiv.org/abs/2209.05433), 2022, section 3.
- Open Compute Project, *OCP 8-bit Floating Point Specification (OFP8)*, revision 1.0, 2023.
- S. Gupta, A. Agrawal, K. Gopalakrishnan, P. Narayanan, "Deep Learning with Limited Numerical Precision", [arXiv:1502.02551](https://arxiv.org/abs/1502.02551), 2015, section 4.
- D. Kalamkar et al., "A Study of BFLOAT16 for Deep Learning Training", [arXiv:1905.12322](https://arxiv.org/abs/1905.12322), 2019.

### Glossary

| English | 中文 | meaning |
| --- | --- | --- |
| floating-point number | 浮点数 | a number as sign, exponent and fraction |
| exponent | 指数（阶码） | the field that tells the size, stored with a bias |
| bias | 偏置 | what is added to the exponent so that the field needs no sign |
| fraction, significand | 尾数 | the digits behind the leading 1; with the 1 they are the significand |
| normal number | 正规数 | a number with the hidden 1 |
| subnormal number | 次正规数 | a number below the smallest normal one, without the hidden 1 |
| infinity | 无穷大 | what is rounded beyond the largest number |
| nan (not a number) | 非数 | the result where there is none, such as 0 / 0 |
| machine epsilon | 机器精度 | the step from 1 to the next number, $2^{-m}$ |
| ulp (unit in the last place) | 最后一位单位 | the step of a format at a number |
| round to nearest, ties to even | 舍入到最近偶数 | the nearest number; of two, the one whose last bit is 0 |
| saturating cast | 饱和转换 | what is too large becomes the largest number |
| stochastic rounding | 随机舍入 | up or down by chance, right on average |
| compensated (Kahan) summation | 补偿求和 | a sum that keeps what was rounded away |
| pairwise summation | 成对求和 | adds blocks, then the sums of blocks |
| master weights | 主权重 | float32 copies that take the updates |
| mixed precision | 混合精度 | training in more than one format |
"""

# %%
progress("02")
