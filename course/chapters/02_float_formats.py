# %% [markdown]
r"""
# 02 · Float formats

A weight starts at $2^{-3} = 0.125$, and each of a thousand training steps adds $2^{-14}$ to it. It should end at about 0.186. In float16 it is still 0.125, and PyTorch raises no exception.

**中文**: 本章讲浮点格式：符号位、指数与尾数，正规数与次正规数，fp16、bf16 与 fp8 的表示范围，舍入到最近偶数、随机舍入、Kahan 求和、float32 主权重，以及 fp8 的缩放因子。
"""

# %% tags=["needed"] folded="Imports"
import math

import torch

from helpers import (
    COLORS,
    Check,
    digits,
    explore_addition,
    explore_bits,
    failing,
    hint,
    new_figure,
    predict,
    predictions,
    probes,
    progress,
    recorded,
    seconds_of,
    show,
    show_drawing,
    time_ratio,
)


# %%
def add_many_times(start, update, steps, dtype):
    number = torch.tensor(start, dtype=dtype)
    update = torch.tensor(update, dtype=dtype)
    values = [number.item()]
    for _ in range(steps):
        number = number + update
        values.append(number.item())
    return values


weights = {
    dtype: add_many_times(2**-3, 2**-14, 1000, dtype) for dtype in (torch.float32, torch.float16)
}

# %% folded="Figure 2.1: a weight that does not learn"
figure, axes = new_figure(height=2.8)
for (dtype, values), color, style in zip(
    weights.items(), ("blue", "vermilion"), ("-", "--"), strict=True
):
    name = str(dtype).removeprefix("torch.")
    axes.plot(values, style, color=COLORS[color], label=f"{name}, ends at {values[-1]:.3f}")
axes.set(title="A thousand updates of one weight", xlabel="updates", ylabel="the weight")
axes.set_ylim(0.12, 0.19)
axes.legend(loc="center left")
show(
    figure,
    number="2.1",
    caption="The same weight and the same updates in two formats. In float16, none of the thousand updates changes the weight.",
    alt="A weight against the number of updates, from 0 to 1000. In float32 it rises along a straight line from 0.125 to 0.186. In float16 it stays at 0.125.",
)

# %% [markdown]
r"""
> **After this chapter, you will be able to**
>
> - read the bits of a float;
> - compute a format's range and spacing from its two widths;
> - round a number to any format, including ties, subnormal numbers and overflow;
> - explain why a sum or a weight stops changing, and choose among three remedies;
> - choose scales for 8-bit and 4-bit formats.
>
> **Time**: 80 minutes to read and run, 165 for the eight exercises.
>
> **Prerequisites**: tensors, dtypes, autograd and optimizers (chapter 00); powers of two, bit shifts and masks.
"""

# %% [markdown]
r"""
## Counting by ones

A wider format only postpones the problem. A float32 counter that grows by 1 stops at $2^{24}$:
"""

# %%
print([int(number) for number in add_many_times(2.0**24 - 2, 1.0, 4, torch.float32)])

# %% folded="Count to 4096 in three formats"
torch.set_num_threads(1)  # with tensors this small, threads wait longer than they compute
COUNTERS = {
    name: add_many_times(0.0, 1.0, 4096, getattr(torch, name))
    for name in ("float32", "float16", "bfloat16")
}

# %% folded="Predict: a counter in bfloat16"
predict(
    "02/counter",
    "A bfloat16 number has 8 significant binary digits. A bfloat16 counter starts at 0, and 1 is added to it 4,096 times. Where does it end?",
    COUNTERS["bfloat16"][-1],
    "At 256, the next bfloat16 number is 258. The sum 257 lies halfway and is rounded back to 256; the section on ties explains why.",
    between=(0, 4096),
)

# %% folded="Figure 2.2: counting by ones"
figure, axes = new_figure(height=3.0)
for (name, counts), color, style in zip(
    COUNTERS.items(), ("black", "blue", "vermilion"), (":", "-", "-"), strict=True
):
    axes.plot(counts, style, color=COLORS[color], label=f"{name}, ends at {counts[-1]:.0f}")
axes.set(title="Counting by ones", xlabel="ones added", ylabel="the counter")
axes.legend()
show(
    figure,
    number="2.2",
    caption="Each format counts correctly up to its own power of two. float32 would continue to 16,777,216.",
    alt="The counter against the number of ones added, from 0 to 4096. float32 follows the diagonal to the end. float16 follows it to 2048 and stays there; bfloat16 follows it to 256 and stays there.",
)

# %% [markdown]
r"""
bfloat16 stops at $2^8$, float16 at $2^{11}$, float32 at $2^{24}$. Each exponent is the number of the format's significant binary digits.

## Sign, exponent, fraction

A **floating-point number** is scientific notation in base two. Three bit fields encode it:

- one bit for the **sign**;
- $e$ bits for the **exponent**, which gives the order of magnitude;
- $m$ bits for the **fraction**, the digits after the leading 1.
"""

# %% folded="Drawing: the three fields of 13 in float16"
show_drawing(
    "02/fields",
    number="2.3",
    caption="The sixteen bits of 13 in float16, which has 5 exponent bits and 10 fraction bits.",
    alt="Sixteen boxes with the bits of 13 in float16: the sign 0, the exponent 10010 and the fraction 1010000000. Arrows lead to what the fields mean: plus; 18 minus 15 = 3; "
    "1 plus 640/1024 = 1.625. Arrows from these lead to plus 1.625 times 2 to the 3, which is 13.",
)


# %% folded="A function that returns the three fields of a 16-bit float"
def fields(value, dtype=torch.float16, exponent_bits=5):
    """Return the three fields of a 16-bit float as strings of bits."""
    pattern = torch.tensor(value, dtype=dtype).view(torch.int16).item() % 2**16
    bits = f"{pattern:016b}"
    return bits[0], bits[1 : 1 + exponent_bits], bits[1 + exponent_bits :]


# %%
for value in (1.0, 2.0, 0.5, 1.5, -1.25, 0.1):
    print(f"{value:>6} in float16:", *fields(value))

# %% [markdown]
r"""
The exponent is stored with an offset, the **bias** $2^{e-1} - 1$, so that the field needs no sign. In float16 the bias is 15, and the exponent of 1, which is 0, is stored as `01111`.
The leading 1 is not stored, because in base two every number other than 0 starts with it. If $E$ and $F$ are the exponent and fraction fields, read as integers, then

$$\text{value} = (-1)^{\text{sign}} \cdot \left(1 + \frac{F}{2^m}\right) \cdot 2^{\,E - \text{bias}}$$

For 0.1 (the last line above), $E$ is 11 and $F$ is 614:
"""

# %%
print((1 + 614 / 2**10) * 2.0 ** (11 - 15), "=", torch.tensor(0.1, dtype=torch.float16).item())

# %% [markdown]
r"""
No binary format contains 0.1, because one tenth has infinitely many digits in base two. float16 stores the nearest number that it contains.

Two values of the exponent field are special (IEEE 754-2019, section 3.4):

- **All zeros**: the leading digit is 0 instead of 1, and the exponent is the lowest one, $1 - \text{bias}$. The value is
  $(-1)^{\text{sign}} \cdot \frac{F}{2^m} \cdot 2^{\,1 - \text{bias}}$. With $F = 0$ it is zero, with either sign; otherwise it is **subnormal**. Subnormal numbers fill the gap between zero and the smallest **normal number**.
- **All ones**: with $F = 0$ the value is infinity, otherwise it is **nan**, "not a number".

Toggle bits below, store a value, or change the format. Which single bit turns 1 into infinity? What is one step up from 0?
"""

# %%
explore_bits(0.1, "float16", beside=True)

# %% [markdown]
r"""
<details><summary>What you should have seen, in float16</summary>

Of the exponent bits of 1, only the highest is 0; setting it makes the exponent all ones, which with a fraction of 0 means infinity. One step up from 0 is $2^{-24}$.
</details>
"""

# %% [markdown] exercise="decode-bits" points=4 minutes=20 difficulty=2
r"""
### Decode any format

PyTorch has no dtype with, say, 3 exponent bits and 4 fraction bits, so a file in such a format is read as integers. Write the function that decodes them.

`decode_bits(bits, exponent_bits, fraction_bits) -> Tensor`

- **In** `bits`: an int64 tensor of any shape, contiguous or not. Each entry is a pattern of `1 + exponent_bits + fraction_bits` bits, read as a nonnegative integer: from the highest bit down, sign, exponent and fraction.
  `exponent_bits` is 2 to 8, `fraction_bits` 1 to 23. The format follows the rules above, including those for special values.
- **Out**: the exact values, a float64 tensor of the same shape. Zeros and infinities keep their sign; the sign of a nan does not matter.
- **Limits**: `bits` does not change. All of PyTorch is allowed.

`decode_bits(torch.tensor([0b0_011_1000, 0b1_000_0001]), 3, 4)` returns `tensor([1.5, -0.015625])` in float64.

<!-- hint: Which operations take bits out of the middle of an integer? What do the formulas for all-zero and ordinary exponents have in common? -->
<!-- hint: Shift right by the number of bits behind a field, then keep the field with `&` and a mask of ones. For a subnormal number the hidden digit is 0, and the exponent counts as if it were 1. -->
<!-- hint: Use one formula, with `torch.where` for the hidden digit and the exponent. Replace the result where the exponent field is all ones. Multiply by the sign last: that produces -0 and -inf as well. -->
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
        for patterns in (bits, bits.flip(0)):
            got = check.call(decode_bits, patterns, *widths)
            check.close(got, read_by_torch(patterns, dtype), atol=0.0, what=f"{dtype}")
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
with check.property("reads all 256 patterns of float8 e5m2, 5 exponent bits and 2 fraction bits"):
    bits = torch.arange(256)
    got = check.call(decode_bits, bits, 5, 2)
    check.close(got, read_by_torch(bits, torch.float8_e5m2), atol=0.0)
with check.property("zeros and infinities keep their sign"):
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
    what = "2 exponent bits, 1 fraction bit"
    check.close(got, expected.double(), rtol=1e-14, atol=0.0, what=what)
    bits = torch.tensor([0b1_000_0001, 0b0_011_0000, 0b1_110_1111, 0b0_111_0000])
    expected = torch.tensor([-1 / 64, 1.0, -15.5, math.inf], dtype=torch.float64)
    got = check.call(decode_bits, bits, 3, 4)
    what = "3 exponent bits, 4 fraction bits"
    check.close(got, expected, rtol=1e-14, atol=0.0, what=what)
with check.property("1.0, the ends of the range, inf and nan, for every exponent width", weight=2):
    for exponent_bits in range(2, 9):
        fraction_bits = check.draw.integer(1, 24)
        bias, ones, power = 2 ** (exponent_bits - 1) - 1, 2**exponent_bits - 1, 2**fraction_bits
        least = 2.0 ** (1 - bias - fraction_bits)
        landmarks = {
            bias * power: 1.0,
            bias * power + 1: 1 + 2.0**-fraction_bits,
            1: least,
            power - 1: (power - 1) * least,
            power: power * least,
            ones * power - 1: (2 - 2.0**-fraction_bits) * 2.0**bias,
            ones * power: math.inf,
            ones * power + 1: math.nan,
            (2**exponent_bits + bias) * power: -1.0,
        }
        got = check.call(decode_bits, torch.tensor([*landmarks]), exponent_bits, fraction_bits)
        expected = torch.tensor([*landmarks.values()], dtype=torch.float64)
        what = f"{exponent_bits} exponent bits, {fraction_bits} fraction bits"
        check.close(got, expected, rtol=1e-14, atol=0.0, what=what)
with check.property("8 exponent bits and 23 fraction bits, as in float32"):
    bits = torch.tensor([1, 2**23 - 1, 2**23 + 1, 0x3F800001, 0x7F7FFFFF, 0x80000001, 0xFF800000])
    signed = torch.where(bits >= 2**31, bits - 2**32, bits).to(torch.int32)
    got = check.call(decode_bits, bits, 8, 23)
    check.close(got, signed.view(torch.float32).double(), rtol=1e-14, atol=0.0)
with check.property("the values are right, and bits does not change"):
    bits = check.draw.integers(2, check.draw.integer(3, 9), low=0, high=0b11111_0000000000)
    bits[0, :2] = torch.tensor([0b1_00000_0000000001, 0b1_11111_1000000000])
    bits[1, :2] = torch.tensor([0b1_00000_0000000000, 0b0_11111_0000000000])
    seen = check.call(probes.after_call, decode_bits, bits, 5, 10)
    check.close(seen["output"], read_by_torch(bits, torch.float16), atol=0.0)
    check.equal(seen["arguments"][0], bits, what="bits after the call")

with check.property("a single number; empty, transposed and three-dimensional tensors", weight=0.5):
    for bits in (
        torch.tensor(0b1_10010_1010000000),
        torch.zeros(0, 3, dtype=torch.int64),
        torch.tensor([[0x3C00, 0xC500, 0x0001], [0x7C00, 0x3555, 0x83FF]]).T,
        torch.tensor([[[0x3C00, 0xC500, 0x0001]], [[0x7C00, 0x3555, 0x83FF]]]),
    ):
        got = check.call(decode_bits, bits, 5, 10)
        check.close(got, read_by_torch(bits, torch.float16), atol=0.0)


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
with check.property("reads every pattern of other formats", weight=3):
    for exponent_bits, fraction_bits in ((2, 3), (3, 4), (6, 9), (7, 1)):
        width = 1 + exponent_bits + fraction_bits
        bits = torch.arange(2**width).reshape(2, -1)
        expected = torch.tensor(
            [value_of(pattern, exponent_bits, fraction_bits) for pattern in range(2**width)],
            dtype=torch.float64,
        ).reshape(2, -1)
        got = check.call(decode_bits, bits, exponent_bits, fraction_bits)
        what = f"{exponent_bits} exponent bits, {fraction_bits} fraction bits"
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
## From two widths to range and precision

For a format that follows the rules above, the widths $e$ and $m$ determine everything: the largest number has the largest ordinary exponent and a fraction of all ones, and the smallest subnormal number has only its last bit set. The distance from 1 to the next number, the **machine epsilon**, is $2^{-m}$.
"""

# %% tags=["needed"] folded="Seven formats, and their limits computed from the two widths"
FORMATS = {  # exponent bits, fraction bits
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


# %% folded="Print the limits, and compare them with torch.finfo"
print(f"{'format':<15}{'e':>3}{'m':>4}{'largest':>12}{'least normal':>14}", end="")
print(f"{'least subnormal':>17}{'epsilon':>10}  as torch.finfo")
for name, (exponent_bits, fraction_bits) in FORMATS.items():
    largest, normal, subnormal, epsilon = limits(name)
    told = "not a dtype"
    if hasattr(torch, name):
        info = torch.finfo(getattr(torch, name))
        theirs = (info.max, info.smallest_normal, info.smallest_normal * info.eps, info.eps)
        told = theirs == (largest, normal, subnormal, epsilon)
    print(
        f"{name:<15}{exponent_bits:>3}{fraction_bits:>4}{largest:>12.5g}{normal:>14.3g}"
        f"{subnormal:>17.3g}{epsilon:>10.3g}  {told}"
    )

# %% folded="Figure 2.4: the ranges of the formats"
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
    title="The range of each format",
    xlabel="log2 of the absolute value",
    ylabel="format",
    xlim=(-155, 190),
)
axes.legend(loc="lower right")
show(
    figure,
    number="2.4",
    caption="The number of exponent bits determines the length of the blue part. For normal numbers, bfloat16 has nearly the range of float32.",
    alt="Horizontal bars for the absolute values of each format, on a logarithmic axis. float32, tf32 and "
    "bfloat16 reach from about 2 to the minus 126 to 2 to the 128, float16 and e5m2 from 2 to the "
    "minus 14 to 2 to the 16, e4m3 from 2 to the minus 6 to just under 2 to the 9. Below each "
    "normal range is a shorter subnormal range.",
)

# %% [markdown]
r"""
- **bfloat16** ("bf16") is float32 without its last 16 bits, so it has the same exponents, but only two to three decimal digits. float16 is also called "fp16".
- **Each format has two lower limits.** In float16, the smallest *normal* number is 6.10e-5, the smallest *subnormal* number 5.96e-8.
- **tf32** is not a dtype: some NVIDIA GPUs can read the float32 factors of a matrix product in this 19-bit format ([NVIDIA A100 whitepaper](https://images.nvidia.com/aem-dam/en-zz/Solutions/data-center/nvidia-ampere-architecture-whitepaper.pdf), "TF32").
- **float8 e4m3** breaks the all-ones rule, because reserving one exponent out of 16 for infinity and nan is expensive. In PyTorch's `float8_e4m3fn`, `fn` means "finite" and "nan": no infinity, and one nan per sign, with all other bits set.
  The other patterns whose exponent is all ones are ordinary numbers, up to 448 ([Micikevicius et al. 2022](https://arxiv.org/abs/2209.05433), section 3). Under the rule, the largest number would be 240.

## The spacing of the numbers

A format has as many numbers between 1 and 2 as between 2 and 4: one for each fraction. So the distance between neighbors doubles at each power of two.
"""

# %% folded="Figure 2.5: every number of a toy format"
toy_subnormal = [fraction / 4 * 2.0**-2 for fraction in range(4)]
toy_normal = [(1 + fraction / 4) * 2.0**power for power in range(-2, 4) for fraction in range(4)]
figure, (whole, near_zero) = new_figure(2, 1, height=3.0)
for axes, limit, title in (
    (whole, 14.5, "All numbers from 0 up: 3 exponent bits, 2 fraction bits"),
    (near_zero, 1.03, "The same numbers near zero"),
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
    number="2.5",
    caption="The spacing doubles at each power of two. Near zero it stops shrinking.",
    alt="Two number lines with a tick for every number of a toy format. The upper one reaches to 14; "
    "the distance between ticks doubles at each power of two. The lower one shows that below a quarter, "
    "the subnormal numbers are as far apart as the smallest normal ones.",
)

# %% [markdown]
r"""
The distance from one number to the next is the **ulp**, the unit in the last place. For a normal number $x$ with $2^k \le |x| < 2^{k+1}$ it is $2^{k-m}$; for a subnormal number it is the ulp of the smallest normal number.
"""

# %% folded="Figure 2.6: the spacing of three formats"
figure, axes = new_figure(height=3.2)
for name, color in (("bfloat16", "vermilion"), ("float16", "blue"), ("float32", "green")):
    powers = [k for k in range(-30, 25) if name != "float16" or k < 16]
    lowest = round(math.log2(limits(name)[1]))
    levels = [max(k, lowest) - FORMATS[name][1] for k in powers]
    axes.step([*powers, powers[-1] + 1], [*levels, levels[-1]], where="post", color=COLORS[color])
    axes.plot([], [], color=COLORS[color], label=name)
axes.axhline(1, color=COLORS["black"], linestyle=":", label="an ulp of 2")
axes.set(title="The distance to the next number", xlabel="log2 of the number")
axes.set_ylabel("log2 of the ulp")
axes.legend()
show(
    figure,
    number="2.6",
    caption="A counter stops where its format's line reaches an ulp of 2: at 256, 2048 and 16,777,216.",
    alt="Log2 of the ulp against log2 of the number, from minus 30 to 25. Three staircases that rise by one at each power of two: at 0, bfloat16 is highest, then float16, then float32. "
    "That of float16 is flat below minus 14 and ends at 16. A dotted line marks an ulp of 2; the staircases reach it at 8, 11 and 24.",
)

# %% [markdown]
r"""
With $m$ fraction bits, the ulp becomes 2 at $2^{m+1}$. Beyond that point the format lacks some integers. A table of token positions, cast to 16 bits along with the weights, runs into this limit:
"""

# %%
positions = torch.arange(4096)
for dtype in (torch.float16, torch.bfloat16):
    print(f"{dtype}: 4096 positions become {len(positions.to(dtype).unique())} different numbers")

# %% [markdown]
r"""
Keep positions, token IDs and counts in integer dtypes. Both Megatron-LM ([issue 535](https://github.com/NVIDIA/Megatron-LM/issues/535)) and Hugging Face Transformers ([issue 25681](https://github.com/huggingface/transformers/issues/25681)) once converted token positions to 16 bits.

The next exercise needs the $k$ in $2^k \le |x| < 2^{k+1}$. `log2` rounds, so just below a power of two, its floor can be 1 too large. `torch.frexp` splits a number exactly into its *mantissa*, with absolute value in $[\frac12, 1)$, and an exponent (both 0 for 0); `torch.ldexp` combines them again. In PyTorch 2.4, `ldexp` multiplies even float64 numbers by a power of two that is computed in float32, where it overflows from $2^{128}$ on and becomes 0 below $2^{-149}$ ([issue 133267](https://github.com/pytorch/pytorch/issues/133267)).
"""

# %%
x = torch.tensor([0.75, 1.0, 6.0, 8.0]).nextafter(torch.tensor(0.0))  # the float32 number before
mantissa, exponent = torch.frexp(x)
print("floor(log2):", torch.floor(torch.log2(x)).int().tolist())
print("frexp - 1:  ", (exponent - 1).tolist(), "with mantissas near", [0.75, 1.0, 0.75, 1.0])
print("ldexp gives the numbers back:", torch.equal(torch.ldexp(mantissa, exponent), x))

# %% [markdown] exercise="ulp" points=3 minutes=15 difficulty=2
r"""
### The unit in the last place

Errors counted in ulps can be compared across formats, but Python's `math.ulp` handles only float64. Write a version for tensors.

`ulp(x) -> Tensor`

- **In** `x`: a tensor of any shape, contiguous or not, of dtype float64, float32, float16 or bfloat16.
- **Out**: the ulp of each number in the tensor's own format, as a tensor of the same shape and dtype. A number and its negative have the same ulp. For 0 and every subnormal number, the ulp is the smallest subnormal number;
  for the largest number, it is the distance to the neighbor below. The ulp of infinity is inf; that of nan is nan.
- **Limits**: `x` does not change.

`ulp(torch.tensor([1.0, -3.0, 0.0], dtype=torch.float16))` returns `tensor([9.7656e-04, 1.9531e-03, 5.9605e-08])` in float16, that is, $2^{-10}$, $2^{-9}$ and $2^{-24}$.

<!-- hint: The ulp is a power of two. What is its exponent, for a number with the exponent k? And below which exponent does it stop shrinking? -->
<!-- hint: `torch.finfo(x.dtype)` has `eps`, which is 2 to the minus m, and `smallest_normal`. Use `torch.frexp` in float64. -->
<!-- hint: In float64, compute 2 to the k; k is the exponent from frexp minus one. Clamp it to at least `smallest_normal`. Multiply by `eps`, convert to the dtype of x, and insert inf and nan with `torch.where`. -->
"""


# %% solution="ulp"
def ulp(x):
    """Return the ulp at each entry of ``x``, as a tensor of the same shape and dtype."""
    ### BEGIN SOLUTION
    info = torch.finfo(x.dtype)
    exponent = torch.frexp(x.abs().double()).exponent - 1
    power = torch.exp2(exponent.double()).clamp(min=info.smallest_normal)
    power = torch.where(x == 0, info.smallest_normal, power)
    return torch.where(x.isfinite(), (power * info.eps).to(x.dtype), x.abs())
    ### END SOLUTION


# %% test="ulp"
check = Check("ulp")
with check.property("float64: the same results as Python's math.ulp"):
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
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        powers = torch.tensor([4.0, 8.0, 1024.0], dtype=dtype)
        below = powers - powers * (torch.finfo(dtype).eps / 2)
        steps = powers * torch.finfo(dtype).eps
        got = check.call(ulp, torch.cat([powers, below, -below]))
        what = f"at 4, 8, 1024, just below each, and minus those, in {dtype}"
        check.close(got, torch.cat([steps, steps / 2, steps / 2]), rtol=1e-6, atol=0.0, what=what)
with check.property("subnormal numbers and 0 have the smallest step"):
    x = torch.tensor([0.0, 2.0**-24, -(2.0**-20), 2.0**-15, 2.0**-14], dtype=torch.float16)
    got = check.call(ulp, x)
    check.close(got, torch.full((5,), 2.0**-24, dtype=torch.float16), rtol=1e-3, atol=0.0)
    x = torch.tensor([0.01, -0.3, 3000.0, 40000.0], dtype=torch.float16)
    expected = torch.tensor([2.0**-17, 2.0**-12, 2.0, 32.0], dtype=torch.float16)
    check.close(check.call(ulp, x), expected, rtol=1e-3, atol=0.0, what="normal numbers")
with check.property("bfloat16 and float64 have their own limits", weight=2):
    powers = torch.tensor([-20.0, -100.0, -126.0, -130.0])
    x = torch.exp2(powers).bfloat16()
    expected = torch.exp2(torch.tensor([-27.0, -107.0, -133.0, -133.0])).bfloat16()
    got = check.call(ulp, x)
    check.close(got, expected, rtol=1e-3, atol=0.0, what="bfloat16, 2^-20, 2^-100, 2^-126, 2^-130")
    x = torch.tensor([1e300, -1e200, 1e-310, 0.0], dtype=torch.float64)
    expected = torch.tensor([math.ulp(value) for value in x.tolist()], dtype=torch.float64)
    got = check.call(ulp, x)
    check.close(got, expected, rtol=1e-12, atol=0.0, what="float64")
    x = torch.tensor([0.0, 2.0**-149, -(2.0**-130), 2.0**-126, 1.5 * 2.0**30])
    expected = torch.exp2(torch.tensor([-149.0, -149.0, -149.0, -149.0, 7.0]))
    check.close(check.call(ulp, x), expected, rtol=1e-3, atol=0.0, what="float32")
    for dtype, power in ((torch.bfloat16, 120), (torch.float32, 104), (torch.float64, 971)):
        x = torch.tensor([1.0, -1.0], dtype=dtype) * torch.finfo(dtype).max
        expected = torch.tensor([2.0**power, 2.0**power], dtype=dtype)
        what = f"the largest number of {dtype}, and minus that"
        check.close(check.call(ulp, x), expected, rtol=1e-3, atol=0.0, what=what)
with check.property("the largest number, infinity and nan"):
    x = torch.tensor([65504.0, -65504.0, math.inf, -math.inf, math.nan, -1.5], dtype=torch.float16)
    expected = [32.0, 32.0, math.inf, math.inf, math.nan, 2.0**-10]
    expected = torch.tensor(expected, dtype=torch.float16)
    check.close(check.call(ulp, x), expected, rtol=1e-3, what="float16")
    for dtype, fraction_bits in ((torch.bfloat16, 7), (torch.float32, 23), (torch.float64, 52)):
        x = torch.tensor([math.inf, -math.inf, math.nan, -1.5], dtype=dtype)
        expected = [math.inf, math.inf, math.nan, 2.0**-fraction_bits]
        got = check.call(ulp, x)
        check.close(got, torch.tensor(expected, dtype=dtype), rtol=1e-3, what=f"{dtype}")
with check.property("the values are right, and x does not change"):
    x = check.draw.normal(check.draw.integer(4, 9), std=100.0, dtype=torch.float64)
    x[:4] = torch.tensor([-1.5, -math.inf, -0.0, math.nan])
    expected = torch.tensor([math.ulp(value) for value in x.tolist()], dtype=torch.float64)
    seen = check.call(probes.after_call, ulp, x)
    check.close(seen["output"], expected, rtol=1e-12, atol=0.0)
    check.equal(seen["arguments"][0], x, what="x after the call")
    check.equal(torch.signbit(seen["arguments"][0]), torch.signbit(x), what="the signs of x")
    for dtype, power in ((torch.float32, 104), (torch.float16, 5), (torch.bfloat16, 120)):
        info = torch.finfo(dtype)
        x = torch.tensor([-1.5, -math.inf, math.nan, info.max], dtype=dtype)
        expected = torch.tensor([info.eps, math.inf, math.nan, 2.0**power], dtype=dtype)
        seen = check.call(probes.after_call, ulp, x)
        check.close(seen["output"], expected, rtol=1e-3, atol=0.0, what=f"{dtype}")
        check.equal(seen["arguments"][0], x, what=f"x after the call, {dtype}")

with check.property("a single number; empty, transposed and three-dimensional tensors", weight=0.5):
    for x in (
        torch.tensor(-6.5),
        torch.zeros(0, 3),
        torch.tensor([[4.0, -5.5, 6.25], [7.9, -7.0, 4.1]]).T,
        torch.tensor([[[4.0, -5.5, 6.25]], [[7.9, -7.0, 4.1]]]),
    ):
        got = check.call(ulp, x)
        check.close(got, torch.full_like(x, 2.0**-21), rtol=1e-3, atol=0.0)


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
## The relative error of rounding

Rounding to nearest moves a number by at most half an ulp, so the *relative* error of a normal number is at most $2^{-m-1}$. Below the smallest normal number, this bound no longer holds.
"""

# %% folded="Measure: the largest relative error at each order of magnitude"
powers = torch.arange(-46, 22)
within = 1 + torch.rand(4000, generator=torch.Generator().manual_seed(0)).double()
numbers = (within[None, :] * torch.exp2(powers.double())[:, None]).float()
WORST = {}
for name in ("float8_e5m2", "bfloat16", "float16"):
    rounded = numbers.to(getattr(torch, name)).double()
    worst = ((rounded - numbers.double()) / numbers.double()).abs().amax(dim=1)
    WORST[name] = worst.masked_fill(worst.isinf(), math.nan)  # too large: nothing is drawn

# %% folded="Predict: a small gradient in float16"
stored = torch.tensor(1e-7).half().item()
predict(
    "02/small-gradient",
    "A gradient of 1e-7 is converted to float16. How large is the relative error?",
    100 * abs(stored - 1e-7) / 1e-7,
    "1e-7 is subnormal in float16: the nearest number is two steps of 5.96e-8.",
    between=(0, 100),
    unit="%",
)

# %% folded="Figure 2.7: the largest relative error"
figure, axes = new_figure(height=3.6)
for (name, worst), color in zip(WORST.items(), ("purple", "vermilion", "blue"), strict=True):
    width = 4 if name == "float8_e5m2" else 2  # it lies under float16's line on the left
    axes.plot(powers, worst.log2(), color=COLORS[color], linewidth=width, label=name)
axes.axvspan(-24, -14, color=COLORS["orange"], alpha=0.18, label="subnormal in float16")
axes.set(title="Largest relative error of rounding", xlabel="log2 of the absolute value")
axes.set_ylabel("log2 of the relative error")
axes.legend(loc=(0.02, 0.42))
show(
    figure,
    number="2.7",
    caption="The largest of 4,000 rounding errors at each power of two. Over a format's normal numbers the line is flat. To the left, through the subnormal numbers, it climbs to a relative error of 1 (0 on this axis).",
    alt="The largest relative rounding error against the absolute value of the number, both as powers of two. Within its "
    "normal range each format is flat: minus 11 for float16, minus 8 for bfloat16, just below minus 3 for e5m2. "
    "Below 2 to the minus 14, float16 climbs, and from 2 to the minus 25 down it is 0. Its line ends at 2 to the 14: "
    "from 2 to the 15 on, some numbers overflow. bfloat16 stays flat.",
)

# %% [markdown]
r"""
**Loss scaling** (chapter 04) multiplies the loss, and with it every gradient, by a large number such as 65536. Scaling by a power of two moves a gradient to the right in the figure. On the flat part, the move gains nothing. Only a gradient that would be subnormal or 0 gains bits.

Does such a scale make bfloat16 gradients overflow?
"""

# %%
for name in ("float16", "bfloat16"):
    print(f"{name:<9} gradients up to {limits(name)[0] / 65536:.4g} do not overflow at scale 65536")

# %% [markdown]
r"""
In bfloat16, no gradient below 5e33 overflows. But bfloat16's normal numbers begin at 1.2e-38, so a gradient above that gains nothing from the scale.
"""

# %% [markdown]
r"""
## Rounding to nearest, ties to even

Addition, multiplication, division and conversion replace the exact result with the nearest number of the format, as long as the result lies within its range. If two numbers are equally near (a **tie**), the one whose last bit is 0 is chosen. This is **round to nearest, ties to even**, the default of IEEE 754 (section 4.3.1).
"""

# %% folded="Drawing: three ties in float16"
show_drawing(
    "02/ties",
    number="2.8",
    caption="In float16 the numbers from 2048 to 4096 are 2 apart. Ties go down as well as up, always to the number whose last bit is 0.",
    alt="A number line with 2048, 2050, 2052 and 2054, whose last two fraction bits are 00, 01, 10 and 11. Arrows show where ties go: 2049 to 2048, 2051 to 2052, and 2053 to 2052.",
)

# %% [markdown]
r"""
The sum at the start of this chapter is such a tie. The ulp of $2^{-3}$ in float16 is $2^{-13}$, so the update $2^{-14}$ is half an ulp, and since the last bit of $2^{-3}$ is 0, the sum is rounded back. Start the weight one ulp higher, and the same update moves it, but only once:
"""

# %%
values = add_many_times(2**-3 + 2**-13, 2**-14, 3, torch.float16)
print("in ulps above 2^-3:", [(value - 2**-3) / 2**-13 for value in values])

# %% [markdown]
r"""
Below, b is added to a. Move b left until its bit is kept. Then try each tie button, adding b twice. Which values of b change a?
"""

# %%
explore_addition(2**-3, 2**-14, "float16")

# %% [markdown]
r"""
<details><summary>What you should have seen</summary>

Just above a tie, b changes a; just below, it does not. A tie changes a only if the last bit of a is 1; afterward that bit is 0. At a tie, b is half an ulp of a, or a quarter if a is a power of two and b has the opposite sign, because the numbers below a are twice as dense.
</details>

Rounding works as if the numbers continued beyond the largest; a result that would round beyond it becomes infinity. A result of at most half the smallest subnormal number becomes 0:
"""

# %%
for value in (65519.0, 65520.0, 2.0**-25, 2.0**-25 * 1.001):
    print(f"{value:.6g} becomes {torch.tensor(value).half().item():.6g} in float16")

# %% folded="Predict: from float32 to bfloat16"
predict(
    "02/overflow",
    "3.4e38 is a finite float32 number, and bfloat16 has as many exponent bits as float32. What does `torch.tensor(3.4e38).bfloat16()` store?",
    "inf" if torch.tensor(3.4e38).bfloat16().isinf() else "a finite number",
    "bfloat16's fraction is shorter than float32's, so its largest number is 3.3895e38. 3.4e38 is more than half an ulp above it.",
    choices=["a finite number", "inf", "nan"],
)

# %% [markdown]
r"""
For a number that is too large for e4m3, the OFP8 specification allows two results: nan, or, with a **saturating** cast, the largest number
([OFP8 specification 1.0](https://www.opencompute.org/documents/ocp-8-bit-floating-point-specification-ofp8-revision-1-0-2023-12-01-pdf-1), on conversion).
PyTorch's cast to e4m3 has given one or the other, depending on version and device ([pull request 178817](https://github.com/pytorch/pytorch/pull/178817)). If you clamp before casting, the result depends on neither.
"""

# %% tags=["nbval-ignore-output"]
large = torch.tensor([448.0, 464.0, 500.0])
print(f"torch {torch.__version__}:", large.to(torch.float8_e4m3fn).float().tolist())

# %% [markdown]
r"""
464 is a tie between 448 and 480 (which would be the next number) and goes to 448. Only 500 is too large.

`torch.round` rounds to integers, ties to even. To round to a **fixed-point** format, whose numbers are the multiples of a step, divide by the step first and multiply by it afterward:
"""

# %%
step = 0.25
x = torch.tensor([0.3, 0.375, 0.625, -0.125])
print((x / step).tolist(), "steps are rounded to", torch.round(x / step).tolist())
print("fixed point:", (torch.round(x / step) * step).tolist())

# %% [markdown] exercise="round-to-format" points=6 minutes=30 difficulty=3
r"""
### Round to any format

To try a format before any hardware supports it, researchers compute in float32 and round every result. Write the function that rounds.

`round_to(x, exponent_bits, fraction_bits, largest) -> Tensor`

- **In** `x`: a float32 or float64 tensor of any shape, contiguous or not; finite numbers are at most $10^{200}$ in absolute value. `exponent_bits` is 2 to 8, `fraction_bits` 1 to 23. `largest`: a Python float, the format's largest number (448 for e4m3), which the widths do not always determine. The bias follows from `exponent_bits`, whatever `largest` is.
- **Out**: a tensor of the same shape and dtype, with each number replaced by the nearest number of the format, subnormal ones included, ties to even.
  A number that would round to more than `largest` becomes infinity, even for e4m3, which has no infinity. Infinity and nan stay as they are. Every number keeps its sign, even if it becomes zero.
- **Limits**: `x` does not change. All of PyTorch is allowed.

`round_to(torch.tensor([1.1, -9.0, 0.09375, 15.0]), 3, 2, 14.0)` returns `tensor([1.0, -8.0, 0.125, inf])`.

<!-- hint: From each power of two to the next, a float format is fixed point, with the ulp as its step. How do you round to a multiple of a step? -->
<!-- hint: The step is the ulp in the *target* format: two to the power k minus m, with k the exponent of the number, but not below the format's lowest exponent, 1 minus the bias. In float64, the division by a step is exact. -->
<!-- hint: k is `torch.frexp(x.double()).exponent - 1`, clamped from below. Divide by the step, `torch.round`, multiply. Where the absolute value exceeds `largest`, insert an infinity with the sign of x (`torch.copysign`). Restore the entries that were not finite. -->
"""


# %% solution="round-to-format"
def round_to(x, exponent_bits, fraction_bits, largest):
    """Round ``x`` to the nearest number of the format, ties to even; keep the dtype of ``x``."""
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


with check.property("rounds ordinary numbers as torch's casts do, in four formats"):
    odd = 2 * check.draw.integers(5, 7, low=2**16, high=2**22) + 1  # too many digits for a tie
    x = odd / 2.0**18 * (1 - 2 * check.draw.booleans(5, 7).float())
    for dtype, kind in KINDS.items():
        for numbers in (x, 4 * x):
            got = check.call(round_to, numbers, *kind)
            check.equal(got, numbers.to(dtype).float(), what=f"{dtype}")
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
    x = torch.tensor([1e-38, -2e-37, 3e-39, 2.0**-133, 1e-41])
    got = check.call(round_to, x, *KINDS[torch.bfloat16])
    check.equal(got, x.bfloat16().float(), what="bfloat16, from float32")
    x = check.draw.normal(3, 8, std=2.0**-7)
    x[0, 0], x[1, 2], x[2, 3] = 2.0**-10, 2.0**-6 - 2.0**-10, 3 * 2.0**-10
    got = check.call(round_to, x, *KINDS[torch.float8_e4m3fn])
    check.equal(got, x.to(torch.float8_e4m3fn).float(), what="fp8 e4m3, up to 448")
    for exponent_bits, fraction_bits in ((5, 10), (8, 7), (4, 3), (3, 4)):
        least = 2.0 ** (2 - 2 ** (exponent_bits - 1) - fraction_bits)
        x = least * torch.tensor([0.4, -0.5, 0.6, 1.5, -2.5, 3.4], dtype=torch.float64)
        expected = least * torch.tensor([0.0, 0.0, 1.0, 2.0, -2.0, 3.0], dtype=torch.float64)
        for largest in (12.0, 1.0):
            got = check.call(round_to, x, exponent_bits, fraction_bits, largest)
            widths = f"{exponent_bits} exponent bits, {fraction_bits} fraction bits"
            check.equal(got, expected, what=f"up to {largest:g}, {widths}")
with check.property("numbers that round to more than the largest become infinity, and no others"):
    x = torch.tensor([65504.0, 65519.0, 65520.0, 70000.0, -65519.0, -65520.0, -1e30])
    got = check.call(round_to, x, *KINDS[torch.float16])
    check.equal(got, x.to(torch.float16).float(), what="fp16")
    x = torch.tensor([300.0, 448.0, 464.0, 465.0, -500.0])
    got = check.call(round_to, x, *KINDS[torch.float8_e4m3fn])
    expected = torch.tensor([288.0, 448.0, 448.0, math.inf, -math.inf])
    check.equal(got, expected, what="fp8 e4m3, up to 448")
    x = torch.tensor([1e100, -1e200, 1e-100, 3.0], dtype=torch.float64)
    expected = torch.tensor([math.inf, -math.inf, 0.0, 3.0], dtype=torch.float64)
    for exponent_bits, fraction_bits, largest in KINDS.values():
        got = check.call(round_to, x, exponent_bits, fraction_bits, largest)
        check.equal(got, expected, what="float64 numbers that float32 does not have")
        shares = torch.tensor([-1.0, 0.0, 0.25, 0.5, 0.75])  # 12 is even in all four formats
        numbers = 12 + shares * 2.0 ** (3 - fraction_bits)
        got = check.call(round_to, numbers, exponent_bits, fraction_bits, 12.0)
        ends = torch.tensor([numbers[0], 12.0, 12.0, 12.0, math.inf])
        what = f"up to 12, {exponent_bits} exponent bits, {fraction_bits} fraction bits"
        check.equal(got, ends, what=what)
with check.property("3 exponent bits, 2 fraction bits, up to 14", weight=3):
    x = torch.tensor([1.1, -1.125, 1.375, 5.5, -9.0, 11.0, 13.0, 14.9, 15.0, -20.0, 0.2, 0.09375])
    expected = [1.0, -1.0, 1.5, 6.0, -8.0, 12.0, 12.0, 14.0, math.inf, -math.inf, 0.1875, 0.125]
    got = check.call(round_to, x, 3, 2, 14.0)
    check.equal(got, torch.tensor(expected))
    x = torch.tensor([10.0, 10.9, 11.0, 12.0, -13.0])
    expected = torch.tensor([10.0, 10.0, math.inf, math.inf, -math.inf])
    check.equal(check.call(round_to, x, 3, 2, 10.0), expected, what="up to 10")
    expected = torch.tensor([10.0, math.inf, math.inf, math.inf, -math.inf], dtype=torch.float64)
    got = check.call(round_to, x.double(), 8, 23, 10.0)
    check.equal(got, expected, what="up to 10, as in float32")
with check.property(
    "every number, in float64 too, is rounded only once; numbers of the format stay as they are"
):
    top = torch.finfo(torch.float32).max
    for kind in (*KINDS.values(), (8, 23, top), (4, 23, 240.0)):
        step = 2.0 ** -kind[1]
        near_ties = [step / 2 + 2.0**-40, step / 2 - 2.0**-40, 1.5 * step - 2.0**-40]
        x = 1 + torch.tensor(near_ties, dtype=torch.float64)
        expected = torch.tensor([1 + step, 1.0, 1 + step], dtype=torch.float64)
        check.equal(check.call(round_to, x, *kind), expected, what=f"float64 to {kind}")
    x = torch.tensor([1.0, 4.0, 1024.0]).nextafter(torch.zeros(3))
    got = check.call(round_to, x, 8, 23, top)
    check.equal(got, x, what="float32 numbers to float32")
with check.property("infinity and nan stay; zeros keep their sign"):
    x = torch.tensor([math.inf, -math.inf, math.nan, 0.0, -0.0, -1e-20, 1e-20])
    got = check.call(round_to, x, *KINDS[torch.float16])
    expected = x.to(torch.float16).float()
    check.equal(got, expected)
    check.true(
        same_signs(got[3:], expected[3:]),
        f"the signs of {got[3:].tolist()} are not those of {expected[3:].tolist()}",
    )
    x = torch.tensor([math.nan, math.inf, -math.inf, 1.0, 0.0, -0.0], dtype=torch.float64)
    got = check.call(round_to, x, *KINDS[torch.float16])
    check.equal(got, x, what="the values, float64")
    check.true(
        same_signs(got[4:], x[4:]),
        f"float64: the signs of {got[4:].tolist()} are not those of {x[4:].tolist()}",
    )
with check.property("every exponent width, at both ends of the range", weight=2):
    for exponent_bits in range(2, 9):
        fraction_bits = 22 if exponent_bits == 8 else check.draw.integer(1, 23)
        top = 2 ** (exponent_bits - 1) - 1
        step, largest = 2.0 ** (top - fraction_bits), (2 - 2.0**-fraction_bits) * 2.0**top
        least = 2.0 ** (1 - top - fraction_bits)
        rounded = {0.4: 0, 0.5: 0, 0.6: 1, 1.5: 2, -2.5: -2, 3.4: 3, -3.7: -4}  # in steps of least
        beyond = {0: largest, 0.3: largest, 0.5: math.inf, 0.7: math.inf}  # in steps above largest
        x = [share * least for share in rounded] + [largest + share * step for share in beyond]
        expected = [steps * least for steps in rounded.values()] + [*beyond.values()]
        got = check.call(
            round_to,
            torch.tensor(x, dtype=torch.float64),
            exponent_bits,
            fraction_bits,
            largest,
        )
        what = f"{exponent_bits} exponent bits, {fraction_bits} fraction bits"
        check.equal(got, torch.tensor(expected, dtype=torch.float64), what=what)
with check.property("the values are right, and x does not change"):
    x = check.draw.normal(2, check.draw.integer(3, 9), std=100.0)
    x[:, 0], x[:, 1] = torch.tensor([math.nan, -math.inf]), torch.tensor([-70000.0, 1e-9])
    x[:, 2] = torch.tensor([0.0, -0.0])
    seen = check.call(probes.after_call, round_to, x, *KINDS[torch.float16])
    check.equal(seen["output"], x.to(torch.float16).float())
    check.equal(seen["arguments"][0], x, what="x after the call")
    seen = check.call(probes.after_call, round_to, x.double(), *KINDS[torch.float16])
    check.equal(seen["arguments"][0], x.double(), what="x after the call, float64")
with check.property("a single number; empty, transposed and three-dimensional tensors", weight=0.5):
    for x in (
        torch.tensor(-1.3),
        torch.zeros(0, 3),
        torch.tensor([[1.3, -70.1, 2.5], [1e-6, 333.3, -8.0]]).T,
        torch.tensor([[[1.3, -70.1, 2.5]], [[1e-6, 333.3, -8.0]]]),
    ):
        check.equal(check.call(round_to, x, *KINDS[torch.float16]), x.half().float())
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
        exact = torch.cat([line, line[1:] / 2 + line[:-1] / 2])
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
    x[6:8, 0] = torch.tensor([-3.5e38, 2e-44], dtype=torch.float64)
    got = check.call(round_to, x, 8, 23, top)
    check.equal(got, x.float().double())
    powers = torch.exp2(torch.tensor([0.0, 40.0, -40.0, 100.0]))
    x = torch.cat([powers, powers.nextafter(torch.zeros(4)), -powers])
    got = check.call(round_to, x, 8, 23, top)
    check.equal(got, x, what="float32 numbers")
### END HIDDEN TESTS
check.score()

# %% [markdown]
r"""
The next cell compares `round_to` with PyTorch's casts on every number of four formats, every tie, and the float32 numbers just below and above each (for e4m3, up to 448).
"""


# %% folded="Compare round_to with PyTorch, pattern by pattern"
def count_differences(rounding):
    for name in ("float16", "bfloat16", "float8_e5m2", "float8_e4m3fn"):
        dtype, (exponent_bits, fraction_bits) = getattr(torch, name), FORMATS[name]
        largest = limits(name)[0]
        width, integers = (8, torch.uint8) if dtype.itemsize == 1 else (16, torch.int16)
        line = torch.arange(2**width).to(integers).view(dtype).float()
        line = line[line.isfinite()].unique()
        exact = torch.cat([line, line[1:] / 2 + line[:-1] / 2])
        infinity = torch.full_like(exact, math.inf)
        x = torch.cat([exact, exact.nextafter(infinity), exact.nextafter(-infinity)])
        if name == "float8_e4m3fn":
            x = x[x.abs() <= largest]
        else:
            x = torch.cat([x, 1.2 * line, infinity[:1], -infinity[:1]])
        got = rounding(x.clone(), exponent_bits, fraction_bits, largest)
        different = int((got != x.to(dtype).float()).sum())
        print(f"{name:<14}{len(x):>8,} numbers rounded, {different} differ")


try:
    count_differences(round_to)
except NotImplementedError:
    print("Write round_to above, then run this cell again.")

# %% [markdown] exercise="first-overflow" points=3 minutes=15 difficulty=2
r"""
### The first number that overflows

To count the entries that a cast would turn into infinity, you need to know where overflow begins.

`first_overflow(fraction_bits, largest) -> float`

- **In** `fraction_bits`: 2 to 10. `largest`: a Python float, the format's largest number, which is normal, has at most `fraction_bits` fraction bits, and lies between $2^{-60}$ and the largest bfloat16 number. Its fraction need not be all ones: 448 in e4m3 has the fraction `110`.
- **Out**: a Python float, the smallest positive *float32* number that becomes larger than `largest` when rounded to `fraction_bits` fraction bits, to nearest, ties to even.
- **Limits**: 10 seconds of computing for each call. There can be $2^{20}$ float32 numbers between `largest` and the answer.

`first_overflow(10, 65504.0)` returns `65520.0`.

<!-- hint: Which two numbers lie on either side of the boundary? The upper one is not in the format; where would it be? -->
<!-- hint: The boundary is half an ulp above the largest number. It is a tie; its side depends on the last bit of the largest number. -->
<!-- hint: `largest` divided by its ulp is an integer. If it is odd, the tie itself is rounded up. If it is even, the answer is the float32 number after the tie, which `torch.nextafter` finds. -->
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
        f"{before.item()!r}, the float32 number before {got!r}, overflows too",
    )


with check.property("fp16: the answer overflows, and the float32 number before it does not"):
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
            where = f"just before {got!r} in float32, {where}"
        check.true(
            (rounded > largest) == is_too_large,
            f"{where}, which is {'not' if is_too_large else 'already'} above {largest!r}",
        )


with check.property("fp8 e4m3, whose largest number 448 has an even fraction"):
    # From 256 to 512, the numbers of e4m3 are 32 apart.
    require_border_of_steps(check.call(first_overflow, 3, 448.0), 32, 448.0)
with check.property(
    "2, 4 or 6 fraction bits, and a largest number with an odd or an even fraction", weight=2
):
    # From 8 to 16, numbers with 2, 4 and 6 fraction bits are 2, a half and an eighth apart.
    require_border_of_steps(check.call(first_overflow, 6, 10.125), 0.125, 10.125)
    require_border_of_steps(check.call(first_overflow, 6, 10.25), 0.125, 10.25)
    require_border_of_steps(check.call(first_overflow, 2, 10.0), 2, 10.0)
    require_border_of_steps(check.call(first_overflow, 4, 12.0), 0.5, 12.0)
with check.property("a largest number that is a power of two"):
    # From 8 to 16, numbers with 6 fraction bits are an eighth apart.
    require_border_of_steps(check.call(first_overflow, 6, 8.0), 0.125, 8.0)
    power, fraction_bits = check.draw.integer(100, 120), check.draw.integer(5, 11)
    got = check.call(first_overflow, fraction_bits, 2.0**power)
    require_border_of_steps(got, 2.0 ** (power - fraction_bits), 2.0**power)
with check.property("largest numbers of any size, with an odd and with an even fraction", weight=2):
    for power in (
        check.draw.integer(-60, -20),
        check.draw.integer(-9, 0),
        check.draw.integer(40, 99),
    ):
        for odd in (0, 1):
            fraction_bits = check.draw.integer(5, 11)
            steps = 2**fraction_bits + 2 * check.draw.integer(1, 2 ** (fraction_bits - 1)) + odd
            step = 2.0 ** (power - fraction_bits)
            got = check.call(first_overflow, fraction_bits, steps * step)
            require_border_of_steps(got, step, steps * step)
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("fp8 e5m2, by the same two conditions"):
    require_border(check.call(first_overflow, 2, 57344.0), torch.float8_e5m2)
with check.property("formats that torch does not have, of every size, odd and even", weight=2):
    for parity, (fewest, most) in ((0, (2, 3)), (1, (2, 3)), (0, (4, 10)), (1, (4, 10))):
        fraction_bits = check.draw.integer(fewest, most + 1)
        power = check.draw.integer(-60, 100)
        # Neither a power of two nor a fraction of all ones: these are tried elsewhere.
        significand = (
            2**fraction_bits + 2 * check.draw.integer(1, 2 ** (fraction_bits - 1)) - parity
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
## Sums that lose small numbers

Add a tenth ten thousand times. The exact sum is 1000.
"""

# %% folded="Add a tenth ten thousand times, in three formats"
SUMS = {
    name: add_many_times(0.0, 0.1, 10_000, getattr(torch, name))
    for name in ("float32", "float16", "bfloat16")
}

# %% folded="Predict: ten thousand tenths in bfloat16"
predict(
    "02/tenths",
    "What is the sum of ten thousand tenths in bfloat16, added one after another?",
    SUMS["bfloat16"][-1],
    "At 32 the ulp is 0.25, so a tenth is less than half of it, and every further tenth is rounded away.",
    between=(0, 1000),
)

# %% folded="Figure 2.9: the running totals"
figure, axes = new_figure(height=3.0)
for (name, totals), color, style in zip(
    SUMS.items(), ("black", "blue", "vermilion"), (":", "-", "-"), strict=True
):
    axes.plot(totals, style, color=COLORS[color], label=f"{name}, ends at {totals[-1]:.6g}")
axes.set(title="A tenth, added ten thousand times", xlabel="additions", ylabel="the total")
axes.legend()
show(
    figure,
    number="2.9",
    caption="Both 16-bit totals go wrong before they stop: between 128 and 256, for example, each tenth adds 0.125 to the float16 total.",
    alt="The total against the number of additions. float32 rises along a straight line to 999.903. float16 rises, more steeply than float32 above 64, and stops at 256. bfloat16 stops at 32.",
)

# %% [markdown]
r"""
Even the float32 total is off by about 0.1: ten thousand small rounding errors have added up.

`torch.sum` sums blocks and then adds up the block sums (**pairwise summation**; Higham 2002, section 4.2), so it adds numbers of similar magnitude. A matrix product of 16-bit factors usually keeps its total in float32; the table at the end of the chapter names exceptions.
"""

# %%
ones = torch.ones(1).expand(2**25)  # 33,554,432 ones that share one place in memory
print(f"torch.sum of 2^25 float32 ones: {int(ones.sum()):,}; one by one, as above: {2**24:,}")
row = torch.ones(1, 4096, dtype=torch.float16)
print(
    f"a float16 dot product of 4096 ones with themselves: {int(row @ row.T):,}; one by one, as above: {2**11:,}"
)

# %% [markdown]
r"""
When numbers arrive one at a time, as a weight's updates do, **compensated summation** helps (Kahan 1965). If $|a| \ge |b|$ and the sum does not overflow, the exact sum $a + b$ minus the rounded one is itself a number of the format, and a few additions and subtractions in that format compute it exactly (Dekker 1971). Keep this difference, the **rest** (elsewhere "compensation"), and include it in the next addition. Then the only error comes from rounding the sum of the next number and the rest.

For example, add 1.5 to a float16 total of 2048, where the ulp is 2. The total becomes 2050, so the rest is −0.5. If the next number is 1.5 again, add $1.5 - 0.5 = 1$ instead. The sum 2051 is a tie and goes to 2052, so the rest is −1, and total plus rest is again the exact sum.
"""

# %% folded="Figure 2.10: a total and its rest"
exact = [2048 + 1.5 * k for k in range(13)]
totals = [2.0 * round(number / 2) for number in exact]  # to multiples of the ulp, 2
figure, axes = new_figure(height=3.0)
axes.plot(exact, ":", color=COLORS["black"], label="exact sum")
axes.step(range(13), totals, where="mid", color=COLORS["blue"], label="total in float16")
for k in range(13):
    axes.plot([k, k], [totals[k], exact[k]], color=COLORS["vermilion"], linewidth=3)
axes.plot([], [], color=COLORS["vermilion"], linewidth=3, label="rest")
axes.set(title="Twelve additions of 1.5 to 2048", xlabel="additions", ylabel="sum")
axes.legend()
show(
    figure,
    number="2.10",
    caption="The total moves in steps of 2. The rest is the distance from the total to the exact sum, up or down.",
    alt="The sum against the number of additions, from 2048 to 2066. The exact sum is a dotted line, the float16 total a staircase with steps of 2 around it. "
    "At each addition a short bar, the rest, connects the two.",
)

# %% [markdown] exercise="kahan-add" points=4 minutes=20 difficulty=2
r"""
### A sum that keeps the rest

Write one step of a compensated sum, which keeps growing where a 16-bit total stops.

`kahan_add(total, rest, value) -> (total, rest)`

- **In**: three tensors of the same shape and dtype, float32, float16 or bfloat16. The sum so far is `total + rest`. `value + rest` is never larger in absolute value than `total`.
- **Out**: a pair of tensors of the same shape and dtype. The new total is the sum of `total` and `value + rest`, rounded. The new rest makes new total + new rest equal to total + (value + rest), except that `value + rest` or the new rest may be rounded. (Some books use the opposite sign.)
- **Limits**: the three tensors do not change.

In float16, `kahan_add` of the tensors `[4096.]`, `[0.]` and `[1.]` returns `[4096.]` and `[1.]`.

<!-- hint: Each step adds two things to the total. Which of them is left over from the step before? -->
<!-- hint: Add the rest to the value first: both are small, so little is lost. Then add this sum to the total. What went in is the new total minus the old one. -->
<!-- hint: With `wanted` for value plus rest, the new rest is `wanted` minus what went in. Mind the parentheses: the new total minus the old one comes first. -->
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
with check.property("keeps counting by ones after 2^24", weight=2):
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
with check.property("a value so small that no float32 number holds the sum", weight=0.5):
    smallest = 2.0 ** -check.draw.integer(60, 80)
    for dtype, large, small in (
        (torch.float32, 1.0, smallest),
        (torch.bfloat16, 1.0, smallest),
        (torch.float16, 2048.0, 2.0**-20),  # their sum has more digits than float32
    ):
        total, value = (torch.full((2,), number, dtype=dtype) for number in (large, small))
        got, rest = check.call(kahan_add, total, torch.zeros_like(total), value)
        given = f"total {large}, rest 0.0 and value {small:.3g}, {dtype}"
        check.equal(got, total, what=f"the total for {given}")
        check.equal(rest, value, what=f"the rest for {given}")
with check.property(
    "a bfloat16 weight accumulates updates far smaller than its ulp, and stays bfloat16"
):
    start = check.draw.uniform(6, low=1.0, high=1.9, dtype=torch.bfloat16)
    values = [torch.full((6,), 2.0**-11, dtype=torch.bfloat16)] * 400
    states = check.call(probes.fold, kahan_add, [start, torch.zeros_like(start)], values)
    check.close(states[0][1], torch.zeros_like(start), atol=0.01, what="the first rest")
    total, rest = states[-1]
    expected = (start.double() + 400 * 2.0**-11).bfloat16()
    check.close(total, expected, rtol=0.01, atol=0.0, what="the total")
    check.close(rest, torch.zeros_like(rest, dtype=start.dtype), atol=0.01, what="the rest")
with check.property(
    "float16: total and rest are exact, and the total is the sum rounded once", weight=2
):
    # From 2048 on, the numbers of float16 are 2 apart.
    for value, expected in ((1.0, 2050.0), (0.0, 2048.0)):
        total, rest, added = (
            torch.tensor([number, -number], dtype=torch.float16) for number in (2048.0, 0.5, value)
        )
        got, left = check.call(kahan_add, total, rest, added)
        came, exact = got[0].item() + left[0].item(), 2048.5 + value
        check.true(
            came == exact,
            f"for total 2048, rest 0.5 and value {value}, new total + new rest is "
            f"{got[0].item()} + {left[0].item()} = {came}, but the sum is {exact}",
        )
        right = torch.tensor([expected, -expected], dtype=torch.float16)
        check.equal(got, right, what=f"the total, value {value}")
with check.property("total + rest is exact, and the arguments do not change", weight=0.5):
    size = check.draw.integer(4, 12)
    given = [check.draw.uniform(size, low=50.0, high=90.0) for _ in range(3)]
    given[1:] = [given[1] * 1e-7, given[2] / 100]  # a rest and a value, neither of them 0
    seen = check.call(probes.after_call, kahan_add, *given)
    total, rest = seen["output"]
    exact = sum(numbers.double() for numbers in given)
    check.close(total.double() + rest.double(), exact, rtol=1e-9, atol=0.0, what="total + rest")
    check.equal(seen["arguments"], given, what="the arguments after the call")
    given = [torch.tensor([number], dtype=torch.float16) for number in (2047.0, 0.5, 1.0)]
    seen = check.call(probes.after_call, kahan_add, *given)
    check.equal(seen["arguments"], given, what="the arguments after the call, float16")
with check.property("a sum of negative numbers in fp16, two rows of them"):
    start = check.draw.uniform(2, 3, low=-90.0, high=-70.0, dtype=torch.float16)
    values = [torch.full((2, 3), -(2.0**-8), dtype=torch.float16)] * 60
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
## Stochastic rounding

When you round to nearest, an update of a quarter of an ulp is lost every time. **Stochastic rounding** rounds the sum up with probability $\frac14$ and down with $\frac34$. In general, the probability of going up is the distance from the lower neighbor divided by the distance between the neighbors, so the expected value is exact.
"""

# %% folded="Figure 2.11: updates of a quarter of an ulp"
generator = torch.Generator().manual_seed(0)
chances = torch.full((400, 1000), 0.25)  # 400 updates of a thousand weights
paths = torch.bernoulli(chances, generator=generator).cumsum(dim=0)
figure, axes = new_figure(height=3.0)
updates = torch.arange(1, 401)
axes.plot(updates, updates / 4, color=COLORS["black"], linestyle=":", label="exact")
axes.plot(updates, paths[:, 0], color=COLORS["blue"], label="stochastic rounding, three weights")
axes.plot(updates, paths[:, 1:3], color=COLORS["blue"])
axes.plot(updates, 0 * updates, color=COLORS["vermilion"], label="rounding to nearest")
axes.set(title="Updates of a quarter of an ulp", xlabel="updates", ylabel="change (ulps)")
axes.legend()
show(
    figure,
    number="2.11",
    caption="Simulated updates. Rounded to nearest, the weight never moves. Rounded stochastically, weights stray from the exact line at random.",
    alt="The change of weights in ulps against the number of updates. Rounded to nearest, it stays at 0. With stochastic rounding, three weights follow the exact line up to 100, within some fifteen ulps.",
)

# %%
ends = paths[-1]
print(f"a thousand weights after 400 updates: {ends.mean():.0f} ulps on average, ", end="")
print(f"standard deviation {ends.std():.1f}; sqrt(400 * 1/4 * 3/4) = {math.sqrt(75):.1f}")

# %% [markdown]
r"""
The price is noise. After $n$ such updates within one power of two, its standard deviation is $\sqrt{n \cdot \frac14 \cdot \frac34}$ ulps, that of a binomial distribution. With stochastic rounding, Gupta et al. (2015) trained networks in 16-bit fixed point with little or no loss of accuracy.
"""

# %% [markdown] exercise="stochastic-rounding" points=4 minutes=20 difficulty=2
r"""
### Stochastic rounding

An optimizer that rounds stochastically can keep its weights in 16 bits. Write its rounding function, which takes its random numbers as an argument so that you can test it. Work in float64: in float32, an intermediate result would itself be rounded.

`round_stochastically(x, fraction_bits, noise) -> Tensor`

- **In** `x`: a float32 tensor of any shape, contiguous or not, with absolute values from $2^{-100}$ to $2^{100}$. `fraction_bits`: 1 to 20. `noise`: a float32 tensor of the same shape, uniformly distributed, at least 0 and less than 1.
- **Out**: a float32 tensor of the same shape. Each number becomes one of its neighbors with `fraction_bits` fraction bits; the exponent is not limited. A number that lies 30% of the way up from its lower neighbor to its upper one (toward $+\infty$) becomes the upper one for 30% of all noise values: the lowest 30% or the highest, as you prefer.
  A number that has no more than `fraction_bits` fraction bits stays as it is, whatever the noise.
- **Limits**: the same noise gives the same result. `x` and `noise` do not change.

With 2 fraction bits, 1.3 lies between 1.25 and 1.5, 20% of the way up. `round_stochastically(torch.tensor([1.3, 1.3]), 2, torch.tensor([0.5, 0.7]))` returns `tensor([1.25, 1.25])`.

<!-- hint: Divide by the step, as in rounding to nearest. What does the noise have to do with the fractional part? -->
<!-- hint: Rounding to nearest adds one half, then drops the fractional part. What if you add something else instead? -->
<!-- hint: `torch.floor` of the scaled number plus the noise goes up for the right share of noise values. Compute in float64, where the sum loses nothing. -->
"""


# %% solution="stochastic-rounding"
def round_stochastically(x, fraction_bits, noise):
    """Round ``x`` up or down, up with the probability given by its distance from the lower neighbor."""
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
    check.close(
        got.isfinite(), torch.ones(len(x), noises, dtype=torch.bool), what="which values are finite"
    )
    # Scaled to lie between 1 and 2, a number with that many bits of fraction is a multiple of 2^-bits.
    scaled = got.double() / torch.exp2(torch.frexp(x).exponent.double() - 1)[:, None]
    multiples = scaled * 2**fraction_bits
    check.true(
        torch.equal(multiples, multiples.round()),
        "a returned number has too many fraction bits",
    )
    size = torch.exp2(torch.frexp(x).exponent.double() - 1 - fraction_bits)[:, None]
    gap = (got.double() - x.double()[:, None]).abs() / size
    check.true(bool((gap < 1).all()), f"a returned number is {gap.max().item():.3g} steps away")


def require_unbiased(got, x, fraction_bits):
    size = torch.exp2(torch.frexp(x).exponent.double() - 1 - fraction_bits)
    share = (got.double().mean(dim=1) - x.double()) / size
    check.true(
        bool((share.abs() < 0.0021).all()),
        f"over 1000 evenly spaced noise values, the mean is off by up to {share.abs().max().item():.3g} steps",
    )


with check.property("the same noise gives the same result, in a new process too"):
    x, noise = check.draw.normal(3, 4), check.draw.uniform(3, 4)
    first = check.call(round_stochastically, x, 3, noise)
    check.equal(check.call(round_stochastically, x, 3, noise), first, what="the second call")
    check.restart()
    again = check.call(round_stochastically, x, 3, noise)
    check.equal(again, first, what="the call in a new process")
with check.property(
    "positive numbers: the result is a neighbor, and the mean is the number itself"
):
    x = check.draw.uniform(6, low=1.0, high=60.0)
    x[:2] = torch.tensor([1.37, 51.3])
    got = round_often(x, 7)
    require_neighbors(got, x, 7)
    require_unbiased(got, x, 7)
with check.property(
    "negative numbers: the result is a neighbor, and the mean is the number itself", weight=2
):
    x = -check.draw.uniform(5, low=1.0, high=60.0)
    x[:2] = torch.tensor([-1.37, -51.3])
    got = round_often(x, 7)
    require_neighbors(got, x, 7)
    require_unbiased(got, x, 7)
with check.property("a number that needs no rounding stays as it is, whatever the noise"):
    x = check.draw.normal(8, std=50.0).bfloat16().float()
    x[2], x[3] = 4.0, -8.0
    wide = x[:, None].expand(8, 5).contiguous()
    noise = torch.tensor([0.0, 0.25, 0.5, 0.75, 1 - 2.0**-24]).expand(8, 5).contiguous()
    got = check.call(round_stochastically, wide, 7, noise)
    check.close(got, wide, rtol=1.0, atol=1e3)  # shape and dtype
    for number, chance, came in zip(wide.flatten(), noise.flatten(), got.flatten(), strict=True):
        told = f"{number.item()!r} became {came.item()!r} with the noise {chance.item()!r}"
        check.true(bool(came == number), told)
with check.property("other widths of the fraction, and numbers of other sizes", weight=2):
    for fraction_bits in (1, 3, 20):
        x = torch.tensor([1.3, -5.7, 1 + 2.0**-22, 1.7 * 2.0**99, -1.1 * 2.0**-100])
        got = round_often(x, fraction_bits)
        require_neighbors(got, x, fraction_bits)
        require_unbiased(got, x, fraction_bits)
with check.property(
    "just below a power of two, the neighbors are that power and the format's number below it"
):
    x = torch.tensor([4.0, -8.0, 2.0**20]).nextafter(torch.zeros(3))
    noise = torch.tensor([0.0, 1 - 2.0**-24]).expand(3, 2).contiguous()
    got = check.call(round_stochastically, x[:, None].expand(3, 2).contiguous(), 7, noise)
    require_neighbors(got, x, 7, noises=2)
with check.property("the values stay the same, and so do x and noise", weight=0.5):
    columns = check.draw.integer(4, 9)
    x, noise = check.draw.normal(3, columns), check.draw.uniform(3, columns)
    expected = check.call(round_stochastically, x, 3, noise)
    seen = check.call(probes.after_call, round_stochastically, x, 3, noise)
    check.equal(seen["output"], expected, what="the second call")
    check.equal(seen["arguments"], [x, 3, noise], what="the arguments after the call")
with check.property(
    "a number becomes its upper neighbor for the lowest or for the highest noise values"
):
    x = check.draw.uniform(7, low=-60.0, high=60.0)
    got = round_often(x, 5)
    changes = (got.diff(dim=1) != 0).sum(dim=1)
    # One number alone must move, whichever end of the noise moves it.
    wide, low = torch.full((3, 4), 1 + 2.0**-8), torch.full((3, 4), 0.75)
    low[1, 2] = 0.25
    upper = check.call(round_stochastically, wide, 7, low) > 1
    moved = upper != upper[0, 0]
    expected = torch.zeros(3, 4, dtype=torch.bool)
    expected[1, 2] = True
    check.equal(moved, expected, what="the entry that has a noise of its own")
    # A share of 2^-13 of the way up, or all but that: one of the two noises goes up.
    ends = torch.tensor([2.0**-14, 1 - 2.0**-14])
    for name, number in (("1 + 2^-20", 1 + 2.0**-20), ("1 + 2^-7 - 2^-20", 1 + 2.0**-7 - 2.0**-20)):
        came = (check.call(round_stochastically, torch.full((2,), number), 7, ends) > 1).sum()
        what = f"{name} with noise 2^-14 and 1 - 2^-14: how many go up"
        check.equal(came, torch.tensor(1), what=what)
    # Half of the noise values, counted to float32's last bit: a sum in float32 would round to 1.
    near_half = torch.tensor([0.5 - 2.0**-25, 0.5 + 2.0**-24])
    half_way = torch.full((2,), 1 + 2.0**-8)
    came = (check.call(round_stochastically, half_way, 7, near_half) > 1).sum()
    what = "1 + 2^-8 with noise 0.5 - 2^-25 and 0.5 + 2^-24: how many go up"
    check.equal(came, torch.tensor(1), what=what)
    told = "as the noise increases, the result for {!r} switches {} times; it may switch only once"
    check.true(
        changes.max().item() <= 1, told.format(x[changes.argmax()].item(), changes.max().item())
    )
with check.property("a single number; empty, transposed and three-dimensional tensors", weight=0.5):
    for x in (
        torch.tensor(-1.25),
        torch.zeros(0, 3),
        torch.tensor([[1.5, -70.0, 2.5], [0.375, 3.0, -8.0]]).T,
        torch.tensor([[[1.5, -70.0, 2.5]], [[0.375, 3.0, -8.0]]]),
    ):
        got = check.call(round_stochastically, x, 7, torch.full(x.shape, 0.25))
        check.equal(got, x)  # none of these numbers needs to be rounded
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
## Training with 16-bit weights

To show what lost updates do to training, the next two cells train a small linear classifier on handwritten digits with `torch.optim.SGD`. The cross-entropy loss is always computed in float32; the two runs differ only in length and in the dtype of the weights and their gradients.
"""

# %% folded="Train: a linear classifier whose weights are stored in a given dtype"
digit_images, digit_labels = (kept[::3] for kept in digits())  # every third picture
pixels = digit_images.flatten(1) / 16
seen = pixels.amax(dim=0) > 0  # a pixel that is never lit has no gradient


def train_digits(dtype, make_optimizer, steps=800, learning_rate=0.05):
    """Return for each step the loss, and the share of the weights that the step did not change."""
    start = 0.1 * torch.randn(64, 10, generator=torch.Generator().manual_seed(0))
    weights = start.to(dtype).requires_grad_(True)
    optimizer, losses, unchanged = make_optimizer([weights], learning_rate), [], []
    for _ in range(steps):
        before = weights.detach().clone()
        loss = torch.nn.functional.cross_entropy(pixels @ weights.float(), digit_labels)
        (weights.grad,) = torch.autograd.grad(loss, weights)
        optimizer.step()
        losses.append(loss.item())
        unchanged.append((weights == before)[seen].float().mean().item())
    return losses, unchanged


def plain_sgd(parameters, learning_rate):
    return torch.optim.SGD(parameters, lr=learning_rate)


# %%
losses_float32, unchanged_float32 = train_digits(torch.float32, plain_sgd)
losses_bfloat16, unchanged_bfloat16 = train_digits(torch.bfloat16, plain_sgd, steps=1200)

# %% folded="Predict: the weights that a step leaves unchanged"
SHARES = {"more than 90%": 0.9, "50 to 90%": 0.5, "less than 50%": 0.0}
predict(
    "02/unchanged",
    "What share of the bfloat16 weights does step 800 leave exactly as they were? (Count only weights whose pixel is lit in at least one image.)",
    next(told for told, least in SHARES.items() if unchanged_bfloat16[799] >= least),
    "Their updates are smaller than half an ulp of the weight. In float32, the same step changes nearly all weights.",
    choices=[*SHARES][::-1],
)

# %% folded="Figure 2.12: a training run that stalls"
figure, (left, right) = new_figure(1, 2, height=3.0)
for losses, unchanged, color, style, name in (
    (losses_float32, unchanged_float32, "blue", "-", "float32"),
    (losses_bfloat16, unchanged_bfloat16, "vermilion", "--", "bfloat16"),
):
    left.plot(losses, style, color=COLORS[color], label=f"{name} weights")
    right.plot([100 * share for share in unchanged], style, color=COLORS[color])
left.set(title="Loss", xlabel="training step", ylabel="cross entropy", ylim=(0, 2.5))
right.set(title="Weights left unchanged", xlabel="training step")
right.set_ylabel("percent (lit pixels)")
left.legend()
show(
    figure,
    number="2.12",
    caption="The two runs begin alike. As the gradients shrink, more and more bfloat16 weights stay where they are, and the loss stops falling.",
    alt="Two plots against the training step. Left, the loss: the float32 run falls to below 0.5, the bfloat16 run levels off near 0.9. "
    "Right, the percentage of weights that a step leaves unchanged: near 0 in float32; in bfloat16 it rises from 30 to nearly 100.",
)

# %%
print(f"loss at step 800: float32 {losses_float32[799]:.1f}, bfloat16 {losses_bfloat16[799]:.1f}")
change = losses_bfloat16[799] - losses_bfloat16[1199]
print(f"another 400 steps lower the bfloat16 loss by {change:.2f}")

# %% [markdown]
r"""
A third remedy is **master weights** (Micikevicius et al. 2018, section 3.1). The optimizer updates a float32 copy of each weight, in which small updates add up. After each step, it rounds the copy to the 16-bit weight with which the model computes.
"""

# %% folded="Drawing: one step with a master weight"
show_drawing(
    "02/master-weights",
    number="2.13",
    caption="One training step. The weight is 16 bits wide wherever the model uses it; only the optimizer sees the master weight.",
    alt="A cycle of three boxes. A bfloat16 weight of 2 bytes leads, through the forward and backward passes, to a bfloat16 gradient of 2 bytes. The gradient is converted to float32, multiplied by the learning rate and subtracted from a "
    "float32 master weight of 4 bytes. Rounding the master weight gives the new bfloat16 weight.",
)

# %%
size = {dtype: torch.zeros(1, dtype=dtype).nbytes for dtype in (torch.float32, torch.bfloat16)}
print("bytes per weight, float32:             ", size[torch.float32])
print("bytes per weight, bfloat16 with master:", size[torch.bfloat16] + size[torch.float32])

# %% [markdown]
r"""
With master weights, training in **mixed precision**, that is, in more than one format, needs more memory for the weights than training in float32. But mixed precision can halve the memory for activations (chapter 03) and the amount of data sent between devices.
"""

# %% [markdown] exercise="master-weights" points=5 minutes=25 difficulty=2
r"""
### Master weights

Write an optimizer that lets this model keep learning.

`MasterSGD(parameters, learning_rate)`, a class with a method `step()`

- **In** `parameters`: an iterable, perhaps a generator like `model.parameters()`, of bfloat16 or float16 tensors that require gradients. `learning_rate`: a positive Python float.
- **Out**: each parameter has a float32 master, which starts at the parameter's value. `step()` subtracts the learning rate times `.grad` from the master, with learning rate, gradient and product in float32 or float64, and writes the rounded master into the parameter.
- **Limits**: `step()` skips a parameter whose `.grad` is None. Gradients do not change, and the parameters still require them. PyTorch's own optimizers are allowed inside.

With one bfloat16 weight of 1.0, `learning_rate` 0.25 and the gradient −0.0078125 in every step, the weight is 1.0 after one step and after two, and `1.0078125` after three.

<!-- hint: What must the object remember from one step to the next that the 16-bit parameter cannot hold? -->
<!-- hint: Make a list of the parameters and a list of float32 clones in `__init__`. In `step`, go through both together. The decorator above `step` allows changing a tensor that requires gradients in place. -->
<!-- hint: Skip a pair if the gradient is None. Update the master with the gradient converted to float32; then the parameter's `copy_` rounds and writes in place. -->
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
        """Update the masters, and write the rounded masters into the parameters."""
        ### BEGIN SOLUTION
        for parameter, master in zip(self.parameters, self.masters, strict=True):
            if parameter.grad is not None:
                master -= self.learning_rate * parameter.grad.float()
                parameter.copy_(master)
        ### END SOLUTION


# %% test="master-weights"
check = Check("master-weights")


def after_each(weights, steps, learning_rate):
    """Return the parameters after each step. Float32 holds every number here exactly."""
    totals, after = [torch.zeros_like(weight, dtype=torch.float64) for weight in weights], []
    for gradients in steps:
        pairs = zip(totals, gradients, strict=True)
        totals = [total if g is None else total + g.double() for total, g in pairs]
        pairs = zip(weights, totals, strict=True)
        after.append([(w.double() - learning_rate * t).float().to(w.dtype) for w, t in pairs])
    return after


def grid(*size, dtype):
    """Draw numbers with few bits."""
    return (check.draw.integers(*size, low=-127, high=128) / 64).to(dtype)


with check.property("one step of ordinary size"):
    weights, gradient = [grid(3, 4, dtype=torch.bfloat16)], grid(3, 4, dtype=torch.bfloat16)
    weights[0][0, 0], gradient[0, 0] = 1 + 2.0**-7, -(2.0**-5)  # leads to a tie
    states = check.call(probes.optimizer_steps, MasterSGD, weights, [[gradient]], 0.125)
    expected = after_each(weights, [[gradient]], 0.125)[-1]
    came = states[-1]["weights"]
    kept = len(came) == 1 and came[0].dtype == torch.bfloat16 and came[0].equal(weights[0])
    check.true(not kept, "step() left the parameters as they were")
    check.equal(came, expected, what="the parameters")
    weights[0][0, 1], gradient[0, 1] = 6.0, 127 / 64  # three times that has more than 8 bits
    states = check.call(probes.optimizer_steps, MasterSGD, weights, [[gradient]], 3.0)
    expected = after_each(weights, [[gradient]], 3.0)[-1]
    check.equal(states[-1]["weights"], expected, what="the parameters, learning rate 3")
with check.property("updates far smaller than half an ulp add up", weight=3):
    weights = [check.draw.uniform(2, 5, low=1.0, high=1.9, dtype=torch.bfloat16)]
    # Each update is 1, 2 or 3 times 2^-12; half an ulp is 2^-8.
    counts = check.draw.integers(200, 2, 5, low=1, high=4)
    steps = [[(-count / 256).bfloat16()] for count in counts]
    states = check.call(probes.optimizer_steps, MasterSGD, weights, steps, 2.0**-4)
    for at in (99, 199):
        expected = after_each(weights, steps, 2.0**-4)[at]
        what = f"the parameters after {at + 1} steps"
        check.equal(states[at]["weights"], expected, what=what)
with check.property("float16: updates that would round to 0 still add up", weight=3):
    weights = [check.draw.uniform(7, low=2.0**-10, high=1.9 * 2.0**-10, dtype=torch.float16)]
    # The learning rate times the gradient is 2^-26 or 2^-25, which float16 rounds to 0.
    counts = check.draw.integers(300, 7, low=1, high=3)
    steps = [[(-count * 2.0**-16).half()] for count in counts]
    states = check.call(probes.optimizer_steps, MasterSGD, weights, steps, 2.0**-10)
    expected = after_each(weights, steps, 2.0**-10)[-1]
    check.equal(states[-1]["weights"], expected, what="the parameters after 300 steps")
with check.property("the learning rate and the product keep their digits", weight=2):
    # Each update takes a weight to one side of a tie. Rounded to 16 bits it would end on the tie.
    for dtype, fraction_bits in ((torch.bfloat16, 7), (torch.float16, 10)):
        step = 2.0**-fraction_bits
        for rate, slope, start, end in (
            (step / 2 * (1 + step / 4), 1.0, 1.0, 1.0 + step),
            (step / 2 * (1 - step / 4), 1.0, 1.0 + step, 1.0 + step),
            (step / 2 * (1 - 2.0**-6), 1.0 + 2.0**-6, 1.0 + step, 1.0 + step),
        ):
            weights = [torch.tensor([start, -start], dtype=dtype)]
            gradient = torch.tensor([-slope, slope], dtype=dtype)
            states = check.call(probes.optimizer_steps, MasterSGD, weights, [[gradient]], rate)
            expected = [torch.tensor([end, -end], dtype=dtype)]
            check.equal(states[-1]["weights"], expected, what=f"the parameters, {dtype}")
    weights = [torch.zeros(2, dtype=torch.float16)]
    gradient = torch.tensor([1 + 2.0**-10, -1 - 2.0**-9], dtype=torch.float16)
    states = check.call(probes.optimizer_steps, MasterSGD, weights, [[gradient]], 1.0)
    check.equal(states[-1]["weights"], [-gradient], what="the parameters, all digits of fp16")
    weights = [torch.tensor([0.0, 2.0**20, 2.0**-30], dtype=torch.bfloat16)]
    gradient = torch.tensor([2.0**18, 0.0, 2.0**-31], dtype=torch.bfloat16)
    states = check.call(probes.optimizer_steps, MasterSGD, weights, [[gradient]], 0.5)
    expected = after_each(weights, [[gradient]], 0.5)[-1]
    check.equal(states[-1]["weights"], expected, what="numbers that fp16 does not have")
with check.property("a master is float32: it does not keep what is below half of its own ulp"):
    weights = [torch.tensor([1.0, -1.0], dtype=torch.bfloat16)]
    sizes = [1.0] + 4 * [2.0**-17]
    steps = [[torch.tensor([-size, size], dtype=torch.bfloat16)] for size in sizes]
    # The first step leads to a tie, and a float32 number near 1 does not keep the others.
    states = check.call(probes.optimizer_steps, MasterSGD, weights, steps, 2.0**-8)
    for number, state in enumerate(states, start=1):
        check.equal(state["weights"], weights, what=f"the parameters after step {number}")
with check.property(
    "several parameters from a generator, without a gradient in some steps; a second optimizer"
):
    kinds = (((3, 4), torch.bfloat16), ((5,), torch.float16), ((5,), torch.bfloat16))
    weights = [grid(*size, dtype=dtype) for size, dtype in kinds]
    first, second, third = (grid(*size, dtype=dtype) for size, dtype in kinds)
    weights[0][0, 0], first[0, 0] = 1 + 2.0**-7, -(2.0**-6)  # two of these make half an ulp
    steps = [[first, None, third], [None, None, third], [first, second, None]]
    states = check.call(probes.optimizer_steps, MasterSGD, weights, steps, 0.125)
    for at in range(3):
        expected = after_each(weights, steps, 0.125)[at]
        what = f"the parameters after step {at + 1}"
        check.equal(states[at]["weights"], expected, what=what)
        what = f"the gradients after step {at + 1}"
        check.equal(states[at]["gradients"], steps[at], what=what)
    other = [grid(4, dtype=torch.bfloat16)]
    states = check.call(
        probes.optimizer_steps, MasterSGD, weights, steps, 0.125, second_optimizer=(other, 2.0)
    )
    what = "the parameters after step 3, while there is a second optimizer"
    check.equal(states[-1]["weights"], expected, what=what)
    what = "the parameters of a second optimizer, which takes no step"
    check.equal(states[-1]["others"], other, what=what)
with check.property("gradients do not change, and the parameters still require them"):
    sizes = ((4, 3), (5,))
    weights, gradients, slopes = (
        [grid(*size, dtype=torch.bfloat16) for size in sizes] for _ in range(3)
    )
    for given in (gradients, [gradients[0], None]):
        (state,) = check.call(
            probes.optimizer_steps, MasterSGD, weights, [given], 0.5, slopes=slopes
        )
        check.equal(state["weights"], after_each(weights, [given], 0.5)[-1], what="the parameters")
        left = state["gradients"][0]
        check.true(
            left is None or left.dtype != given[0].dtype or not torch.equal(left, given[0]),
            "a backward pass after step() adds nothing to .grad: the parameters no longer require "
            "gradients, or step() leaves gradient tracking switched off",
        )
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
        expected = after_each(weights, steps, 2.0**-12)[at]
        what = f"the parameters after {at + 1} steps"
        check.equal(states[at]["weights"], expected, what=what)
with check.property("a small gradient in every other step, none in the others"):
    weights = [check.draw.uniform(3, low=1.0, high=1.9, dtype=torch.bfloat16)]
    gradient = torch.full((3,), -1.0, dtype=torch.bfloat16)
    steps = [[gradient], [None]] * 100
    states = check.call(probes.optimizer_steps, MasterSGD, weights, steps, 2.0**-9)
    expected = after_each(weights, steps, 2.0**-9)[-1]
    check.equal(states[-1]["weights"], expected, what="the parameters")
with check.property("forty steps with another learning rate"):
    weights = [grid(4, 3, dtype=torch.bfloat16)]
    counts = check.draw.integers(40, 4, 3, low=-31, high=32)
    steps = [[(count / 8).bfloat16()] for count in counts]
    states = check.call(probes.optimizer_steps, MasterSGD, weights, steps, 3 / 32)
    expected = after_each(weights, steps, 3 / 32)[-1]
    check.equal(states[-1]["weights"], expected, what="the parameters")
### END HIDDEN TESTS
check.score()

# %% folded="Figure 2.14: the same training with your MasterSGD"
figure, axes = new_figure(height=3.0)
axes.plot(losses_float32, color=COLORS["black"], linestyle=":", zorder=3, label="float32 weights")
axes.plot(losses_bfloat16[:800], color=COLORS["vermilion"], label="bfloat16 weights")
caption = "With bfloat16 weights alone, the loss stops falling too early."
told = "Loss against training step. With float32 weights it keeps falling. With bfloat16 weights it levels off well above that."
try:
    losses_master, _ = train_digits(torch.bfloat16, MasterSGD)
    axes.plot(losses_master, color=COLORS["blue"], label="bfloat16 weights, float32 masters")
    caption = "With master weights, bfloat16 weights learn as float32 weights do."
    told += " With bfloat16 weights and float32 masters it follows the float32 line."
except NotImplementedError:
    print("Write MasterSGD above, then run this cell again: a third line appears.")
axes.set(title="Digits, gradient descent", xlabel="training step", ylabel="cross entropy")
axes.legend()
show(
    figure,
    number="2.14",
    caption=caption,
    alt=told,
)

# %% [markdown]
r"""
The next cell applies 500 updates of about an eighth of an ulp to a thousand bfloat16 weights, first with no remedy and then with each of yours.
"""


# %% folded="Compare the remedies"
def compare_remedies(updates=500):
    generator = torch.Generator().manual_seed(0)
    start = (1 + torch.rand(1000, generator=generator) / 4).bfloat16()
    update = (2.0**-10 * (0.5 + torch.rand(1000, generator=generator))).bfloat16()
    nearest, total, rest, random = start, start, torch.zeros_like(start), start
    weights = start.clone().requires_grad_(True)
    weights.grad = -update
    optimizer = MasterSGD([weights], 1.0)
    for _ in range(updates):
        nearest = nearest + update
        total, rest = kahan_add(total, rest, update)
        noise = torch.rand(1000, generator=generator)
        random = round_stochastically(random.float() + update.float(), 7, noise).bfloat16()
        optimizer.step()
    exact = start.double() + updates * update.double()
    print("remedy                 bytes per weight   rms error (ulps)   mean error (ulps)")
    for name, size, got in (
        ("none", 2, nearest),
        ("stochastic rounding", 2, random),
        ("Kahan, bfloat16 rest", 2 + 2, total),
        ("float32 masters", 2 + 4, weights.detach()),
    ):
        errors = (got.double() - exact) / 2.0**-7
        rms, mean = errors.square().mean().sqrt(), round(errors.mean().item(), 1) + 0.0
        print(f"{name:<23}{size:>16}{rms:>19.1f}{mean:>20.1f}")


try:
    compare_remedies()
except NotImplementedError:
    print("Write kahan_add, round_stochastically and MasterSGD first, then run this cell again.")

# %% [markdown]
r"""
- **Master weights** leave an error of at most about half an ulp, and any optimizer can update them.
- **Compensated summation** leaves nearly the same error for less memory, but the optimizer must be written for it.
- **Stochastic rounding** needs no extra memory, but leaves noise that grows with the square root of the number of updates.

## Scales for eight bits

Including its subnormal numbers, float8 e4m3 covers only 18 powers of two. They lie too high for the gradient of the digits model's loss with respect to the logits: the loss is a mean over 599 images, so no entry exceeds 1/599 in absolute value, and the smallest positive number of e4m3 is 1/512.
"""

# %% folded="A gradient, and the product in which it is used"
E4M3_LARGEST = torch.finfo(torch.float8_e4m3fn).max
start = 0.1 * torch.randn(64, 10, generator=torch.Generator().manual_seed(0))
logits = (pixels @ start).requires_grad_(True)
loss = torch.nn.functional.cross_entropy(logits, digit_labels)
(gradient,) = torch.autograd.grad(loss, logits)
exact_product = pixels.double().T @ gradient.double()  # the gradient with respect to the weights


def relative_error(x, exact):
    return ((x.double() - exact.double()).norm() / exact.double().norm()).item()


# %%
def to_e4m3(x):
    """Clamp, then cast: every version of PyTorch gives the same result."""
    return x.clamp(-E4M3_LARGEST, E4M3_LARGEST).to(torch.float8_e4m3fn).float()


zeros = (to_e4m3(gradient) == 0).float().mean().item()
error = relative_error(to_e4m3(pixels).T @ to_e4m3(gradient), exact_product)
print(f"gradient entries that become 0 in e4m3: {100 * zeros:.0f}%")
print(f"relative error of the product pixels.T @ gradient: {error:.1f}")
survivors = to_e4m3(gradient).nonzero()
share = (digit_labels[survivors[:, 0]] == survivors[:, 1]).float().mean().item()
print(f"survivors that belong to the right class: {100 * share:.0f}%")

# %% [markdown]
r"""
Each image has one negative entry, that of the correct class. The nine positive entries that balance it are lost, and every negative one becomes −1/512. A **scale** for each tensor moves its largest absolute value to the largest number of the format. The product is computed in float32, and then the scales are divided out:

$$s_A = \frac{448}{\max |A|} \qquad A B \approx \frac{1}{s_A s_B}\, \text{e4m3}(s_A A)\; \text{e4m3}(s_B B)$$
"""


# %%
def scaled_product(a, b, cast):
    scale_a, scale_b = E4M3_LARGEST / a.abs().max(), E4M3_LARGEST / b.abs().max()
    return cast(a * scale_a) @ cast(b * scale_b) / (scale_a * scale_b)


by_torch = scaled_product(pixels.T, gradient, to_e4m3)
print(f"relative error with one scale per tensor: {relative_error(by_torch, exact_product):.3f}")

# %% folded="The same with your round_to"
try:
    by_hand = scaled_product(
        pixels.T,
        gradient,
        lambda x: round_to(x.clamp(-E4M3_LARGEST, E4M3_LARGEST), 4, 3, E4M3_LARGEST),
    )
    print("bit for bit the same with round_to:", torch.equal(by_hand, by_torch))
except NotImplementedError:
    print("Write round_to above, then run this cell again.")

# %% [markdown]
r"""
torchao's float8 training computes a scale in the same way, except that it replaces a maximum below 1e-12 with 1e-12 to avoid a division by zero. It then multiplies, clamps and casts ([`float8_utils.py`](https://github.com/pytorch/ao/blob/main/torchao/float8/float8_utils.py)). Such a scale depends on a single entry, the largest.
"""

# %% folded="Three formats with scales: one per tensor, one per 32 numbers, one per 16 numbers"
E2M1 = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])  # all sizes that 4 bits can store


def to_e2m1(x):
    nearest = (x.abs().clamp(max=6.0)[..., None] - E2M1).abs().argmin(dim=-1)
    return torch.copysign(E2M1[nearest], x)


def one_scale(x):
    scale = E4M3_LARGEST / x.abs().max()
    return to_e4m3(x * scale) / scale


def mxfp8(x):
    blocks = x.view(-1, 32)
    exponent = blocks.abs().amax(dim=1, keepdim=True).log2().floor() - 8  # 448 is 1.75 * 2^8
    return (to_e4m3(blocks / exponent.exp2()) * exponent.exp2()).view(-1)


def nvfp4(x):
    blocks, of_tensor = x.view(-1, 16), x.abs().max() / (6 * E4M3_LARGEST)
    scales = to_e4m3(blocks.abs().amax(dim=1, keepdim=True) / 6 / of_tensor) * of_tensor
    return torch.where(scales > 0, to_e2m1(blocks / scales) * scales, 0.0).view(-1)


ordinary = torch.randn(4096, generator=torch.Generator().manual_seed(0))


def with_outlier(size):
    return torch.cat([torch.tensor([size]), ordinary[1:]])


# %% folded="Predict: one outlier among 4,096 numbers"
predict(
    "02/outlier",
    "4,095 standard normal numbers and the number 1,000,000 share one scale in e4m3. What percentage of the 4,095 become 0?",
    100 * (one_scale(with_outlier(1e6))[1:] == 0).float().mean().item(),
    "With the scale 448/1,000,000, every number below 2.18 in absolute value becomes less than half the smallest subnormal number of e4m3.",
    between=(0, 100),
    unit="%",
)

# %% [markdown]
r"""
**Block scales** limit the damage to a few neighbors. MXFP8 stores one power of two for every 32 numbers, in 8 bits ([OCP Microscaling Formats specification 1.0](https://www.opencompute.org/documents/ocp-microscaling-formats-mx-v1-0-spec-final-pdf), section 5). NVFP4 stores 4-bit numbers in e2m1 (absolute values 0, 0.5, 1, 1.5, 2, 3, 4 and 6), with an e4m3 scale for every 16 numbers and a float32 scale for the tensor
([NVIDIA 2025](https://developer.nvidia.com/blog/introducing-nvfp4-for-efficient-and-accurate-low-precision-inference/)).
"""

# %% folded="Drawing: what a scale costs"
show_drawing(
    "02/block-scales",
    number="2.15",
    caption="Three ways to scale small formats. A block scale costs 8 bits for every 32 or 16 numbers.",
    alt="Three rows of boxes. float8 e4m3 with one scale: 4 bytes for the whole tensor, each number 1 byte. MXFP8: 1 byte of scale and 32 bytes for 32 numbers, 8.25 bits each. "
    "NVFP4: 1 byte of scale and 8 bytes for 16 numbers, 4.5 bits each, and 4 bytes for the tensor.",
)

# %% folded="Figure 2.16: the error of the other numbers, when one is an outlier"
figure, axes = new_figure(height=3.2)
exponents = range(2, 23)
for name, cast, color, style in (
    ("e4m3, one scale", one_scale, "vermilion", "-"),
    ("MXFP8", mxfp8, "blue", "--"),
    ("NVFP4", nvfp4, "green", "-."),
):
    errors = []
    for exponent in exponents:
        x = with_outlier(2.0**exponent)
        errors.append(relative_error(cast(x)[1:], x[1:]))
    axes.plot(exponents, errors, style, color=COLORS[color], label=name)
axes.set_yscale("log")
axes.set(title="4,095 ordinary numbers and one outlier", xlabel="log2 of the outlier")
axes.set_ylabel("relative error of the others")
axes.legend()
show(
    figure,
    number="2.16",
    caption="With one scale for the tensor, a large outlier ruins all the other numbers. With MXFP8 it affects only its own block.",
    alt="Relative error of the ordinary numbers, logarithmic, against log2 of the outlier from 2 to 22. e4m3 with one scale starts at 0.03 and, from about 14 on, climbs to 1. "
    "MXFP8 starts at 0.03 and stays below 0.1. NVFP4 starts at about 0.1, stays there up to 16 and climbs to 1 after that.",
)

# %% [markdown]
r"""
e4m3 is itself a floating-point format, so moderate outliers do it no harm. NVFP4 has larger errors from the start, because a number has only 4 bits. It also fails for large outliers: its block scales are stored in e4m3, relative to a scale that the outlier sets, and become 0 in blocks of small values.

## Where a format pays off

A billion numbers take this much memory:
"""

# %%
for name, bits in (("float32", 32), ("bfloat16", 16), ("MXFP8", 8 + 8 / 32), ("NVFP4", 4 + 8 / 16)):
    print(f"{name:<9}{bits:>6.2f} bits each, {bits / 8:.2f} GB")

# %% [markdown]
r"""
How much *time* a format saves has to be measured. Adding long vectors is limited by the bytes that have to be moved; the speed of a large matrix product depends on whether the hardware has fast instructions for the format. Below, ranges in parentheses show the spread between runs.
"""

# %% tags=["nbval-ignore-output", "recorded"] folded="Measure: matrix products and additions in three formats"
device = "cuda" if torch.cuda.is_available() else "cpu"
matrix = torch.randn(256, 256, device=device)
vector = torch.randn(2**26 if device == "cuda" else 2**22, device=device)


def seconds_of_product(dtype):
    half = matrix.to(dtype)
    return seconds_of(lambda: half @ half)


# A product of four times the side takes 64 times as long.
while (
    len(matrix) < 4096 and 64 * max(map(seconds_of_product, (torch.bfloat16, torch.float16))) < 0.1
):
    matrix = torch.randn(4 * len(matrix), 4 * len(matrix), device=device)
side = len(matrix)
print(f"torch {torch.__version__} on {device}; time compared with float32")
for dtype in (torch.bfloat16, torch.float16):
    small_matrix, small_vector = matrix.to(dtype), vector.to(dtype)
    for what, small, wide in (
        (f"product of {side} x {side}", lambda m=small_matrix: m @ m, lambda: matrix @ matrix),
        (f"addition of {len(vector):,}", lambda v=small_vector: v + v, lambda: vector + vector),
    ):
        ratio = time_ratio(small, wide, pairs=5, seconds=0.5)
        print(f"{str(dtype).removeprefix('torch.'):<9}{what:<25}{ratio}")
recorded("formats")
del matrix, vector, small_matrix, small_vector

# %% [markdown]
r"""
## Bug hunt: from float32 to bfloat16

A logger stores losses as bfloat16 to save space. It reads the 32 bits of a float32 number as an integer, adds an amount that carries into the upper bits exactly when the number must be rounded up, and shifts the lower bits out.
"""


# %% tags=["needed"]
def pack_quickly(x, fraction_bits):
    shift = 23 - fraction_bits
    bits = x.view(torch.int32).long() & 0xFFFFFFFF
    last_bit = (bits >> shift) & 1
    return (bits + 2 ** (shift - 1) - 1 + last_bit) >> shift


# %% [markdown]
r"""
The author compared `pack_quickly` with PyTorch's cast. If both conversions are monotonic, each result changes only once as the lower 16 bits increase, so six values of the lower half suffice for each upper half:
"""


# %% folded="The author's test"
def patterns_by_torch(x):
    return x.bfloat16().view(torch.int16).long() & 0xFFFF


upper = torch.arange(2**16)[:, None] << 16
lower = torch.tensor([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF])
x = (upper + lower - 2**32 * (upper >= 2**31)).to(torch.int32).view(torch.float32)
x = x[x.isfinite()]
wrong = int((pack_quickly(x, 7) != patterns_by_torch(x)).sum())
print(f"{len(x):,} patterns tried, {wrong} wrong")

# %% [markdown]
r"""
Then a training run on a GPU failed. The last entry of its log is −0.0, right after the largest bfloat16 number. Replay the last losses with the bits that they had on the GPU:
"""

# %%
bits_of_losses = torch.tensor([0x4013D70A, 0x41200000, 0x7F7F0000, 0x7FFFFFFF], dtype=torch.int32)
losses = bits_of_losses.view(torch.float32)
print("in the log:", pack_quickly(losses, 7).to(torch.int16).view(torch.bfloat16).tolist())

# %% [markdown] exercise="bug-hunt-pack-bits" points=4 minutes=20 difficulty=2
r"""
### Bug hunt: from float32 to bfloat16

Find out what becomes of the last loss, `0x7fffffff`. Then replace the function.

`pack_bits(x, fraction_bits) -> Tensor`

- **In** `x`: a float32 tensor of any shape, contiguous or not, with any bits. `fraction_bits`: 1 to 22. The format has a sign bit and 8 exponent bits.
- **Out**: an int64 tensor of the same shape. Each entry encodes the entry of `x` in `1 + 8 + fraction_bits` bits, read as a nonnegative integer: numbers are rounded to nearest, ties to even; infinities and numbers that are too large become infinity, with their sign; a nan becomes any nan of the format, with either sign.
- **Limits**: not one bit of `x` changes. All of PyTorch is allowed.

`pack_bits(torch.tensor([1.0, -1.5]), 7)` returns `tensor([16256, 49088])`, that is, `0x3f80` and `0xbfc0`.

<!-- hint: Write down the 32 bits of the lost value. What does the addition do to them? And which bits of 0x7f800001, another such value, are left after the shift? -->
<!-- hint: A nan needs no rounding. Decide by `x.isnan()`, not by the bits after the addition. -->
<!-- hint: In a nan of the new format, all exponent bits and at least one fraction bit are ones. Make one such integer, and choose between it and the rounded pattern with `torch.where`. -->
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
from fractions import Fraction

check = Check("bug-hunt-pack-bits")


def bf16_patterns(x):
    return x.bfloat16().view(torch.int16).long() & 0xFFFF


def from_patterns(*patterns):
    numbers = torch.tensor(patterns)
    return (
        torch.where(numbers >= 2**31, numbers - 2**32, numbers).to(torch.int32).view(torch.float32)
    )


def require_same_values(got, patterns, fraction_bits):
    expected = torch.zeros(len(patterns), dtype=torch.int64)
    check.close(got * 0, expected, what="shape and dtype")
    exponents, fractions = (got >> fraction_bits) & 0xFF, got % 2**fraction_bits
    fits = (got >= 0) & (got < 2 ** (9 + fraction_bits))
    kept = fits & (exponents == 0xFF) & (fractions > 0)
    pairs = zip(patterns, got.tolist(), kept.tolist(), strict=True)
    lost = [
        f"{given:#x} became {came:#x}, not a nan" for given, came, is_kept in pairs if not is_kept
    ]
    check.true(not lost, f"with {fraction_bits} bits of fraction: {'; '.join(lost[:4])}")


with check.property("ordinary numbers have the bits of torch's bfloat16"):
    x = check.draw.normal(5, 6, std=100.0)
    got = check.call(pack_bits, x, 7)
    check.equal(got, bf16_patterns(x))
with check.property(
    "ties, zeros, infinities and the ends of the range have the bits of torch's bfloat16"
):
    ties = from_patterns(0x3F808000, 0x3F818000, 0xBF818000, 0x00008000, 0x00018000, 0x7F7F8000)
    above = from_patterns(0x3F808001, 0xBF808001, 0x3FFFFFFF, 0xBFFFC000)  # two of them carry
    ends = torch.tensor([0.0, -0.0, math.inf, -math.inf, 3.4e38, -3.4e38, 1e-40, -1e-45])
    x = torch.cat([ties, above, ends])
    got = check.call(pack_bits, x, 7)
    check.equal(got, bf16_patterns(x))
with check.property("the last loss in the log (0x7fffffff) and similar bits", weight=2):
    special = [0x7FC00000, 0x7FFFFFFF, 0xFFFFFFFF, 0x7F800001, 0xFF800001, 0x7FFF8000]
    require_same_values(check.call(pack_bits, from_patterns(*special), 7), special, 7)
with check.property("other fraction widths, with all of these values", weight=2):
    x = torch.tensor([1.0, 1.0625, 1.1875, -3.3, math.inf, -math.inf, 3.4e38])
    got = check.call(pack_bits, x, 3)
    expected = [0x3F8, 0x3F8, 0x3FA, 0xC05, 0x7F8, 0xFF8, 0x7F8]
    check.equal(got, torch.tensor(expected), what="3 bits of fraction")
    numbers = [0x3F880001, 0xBF912345, 0x00345678, 0x7F7FFFFF, 0x40000001, 0x3FFFFFFF]
    for fraction_bits in (3, 1, 10, 22):
        got = check.call(pack_bits, from_patterns(*numbers), fraction_bits)
        expected = [round(Fraction(n, 2 ** (23 - fraction_bits))) for n in numbers]
        check.equal(got, torch.tensor(expected), what=f"{fraction_bits} bits of fraction")
        got = check.call(pack_bits, from_patterns(*special), fraction_bits)
        require_same_values(got, special, fraction_bits)
with check.property("the values are right, and x does not change", weight=0.5):
    numbers = check.draw.normal(check.draw.integer(4, 9), std=100.0)
    x = torch.cat([numbers, from_patterns(0xFF800000, 0x80000001, 0x7FFFFFFF, 0x7F800001)])
    seen = check.call(probes.after_call, pack_bits, x, 7)
    check.equal(seen["output"][:-2], bf16_patterns(x[:-2]))
    after = seen["arguments"][0].view(torch.int32)
    check.equal(after, x.view(torch.int32), what="the bits of x after the call")

with check.property("a single number; empty, transposed and three-dimensional tensors", weight=0.5):
    for x in (
        torch.tensor(-3.3),
        torch.zeros(0, 3),
        torch.tensor([[1.3, -70.1, 2.5], [1e-6, 333.3, -8.0]]).T,
        torch.tensor([[[1.3, -70.1, 2.5]], [[1e-6, 333.3, -8.0]]]),
    ):
        check.equal(check.call(pack_bits, x, 7), bf16_patterns(x))


# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
def packed_by_hand(pattern, fraction_bits):
    shift = 23 - fraction_bits
    kept, rest = divmod(pattern, 2**shift)
    middle = 2 ** (shift - 1)
    return kept + (rest > middle or (rest == middle and kept % 2 == 1))


with check.property("other fraction widths, with many numbers", weight=2):
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
with check.property("such bits in any of these formats, among numbers"):
    for fraction_bits in (1, 7, 10, 22):
        payloads = (0x7F800000 + check.draw.integers(20, low=1, high=2**23)).tolist()
        nans = [0x7FFFFFFF, 0xFFFFFFFF, 0x7F800001, *payloads, *(p + 2**31 for p in payloads)]
        x = from_patterns(*nans, 0x3F800000).reshape(4, -1)
        got = check.call(pack_bits, x, fraction_bits)
        check.true(
            got.shape == x.shape,
            f"the shape {tuple(got.shape)} came back, expected {tuple(x.shape)}",
        )
        require_same_values(got.flatten()[:-1], nans, fraction_bits)
        check.equal(
            got.flatten()[-1:], torch.tensor([127 << fraction_bits]), what="the pattern of 1"
        )
### END HIDDEN TESTS
check.score()

# %% [markdown]
r"""
<details><summary>The bug (open this once you have found it)</summary>

Rounding up can cause a carry. In an ordinary number, the carry goes from the fraction into the exponent, as it should, and turns the largest number into infinity. `0x7fffffff` is a nan, and its carry runs into the sign: the result is `0x8000`, which is −0. `0x7f800001` is a nan whose only set fraction bit is shifted out, which leaves infinity. The author's test had no nans.

Nearly $2^{24}$ patterns of float32 are nans. Where a CPU writes `0x7fc00000` or `0xffc00000`, an NVIDIA GPU writes `0x7fffffff` ([NVIDIA's forum](https://forums.developer.nvidia.com/t/static-constexpr-quiet-nan-for-device-code/57047)). So nans computed on a CPU hide the bug.

TileLang turned `0x7fff8c22` into −0 until 2026 ([issue 2481](https://github.com/tile-ai/tilelang/issues/2481)). .NET ([pull request 130583](https://github.com/dotnet/runtime/pull/130583)) and a library in Intel's compiler ([pull request 22114](https://github.com/intel/llvm/pull/22114)) turned `0x7f800001` into infinity.
</details>
"""

# %% [markdown]
r"""
## In the wild

| What | Where |
| --- | --- |
| limits of a dtype | [`torch.finfo`](https://docs.pytorch.org/docs/stable/type_info.html), [`numpy.finfo`](https://numpy.org/doc/stable/reference/generated/numpy.finfo.html); the ulp: [`math.ulp`](https://docs.python.org/3/library/math.html#math.ulp), [`numpy.spacing`](https://numpy.org/doc/stable/reference/generated/numpy.spacing.html); the next number: [`torch.nextafter`](https://docs.pytorch.org/docs/stable/generated/torch.nextafter.html) |
| small formats outside PyTorch | [ml_dtypes](https://github.com/jax-ml/ml_dtypes) for NumPy and JAX |
| tf32 | [`torch.set_float32_matmul_precision`](https://docs.pytorch.org/docs/stable/generated/torch.set_float32_matmul_precision.html): `"high"` allows tf32; `"highest"`, the default, does not |
| fp8 training | [Transformer Engine](https://docs.nvidia.com/deeplearning/transformer-engine/user-guide/index.html): `Format.HYBRID` uses e4m3 in the forward pass, e5m2 for gradients; [torchao](https://github.com/pytorch/ao)'s `float8` |
| block scales | [torchao's `mx_formats`](https://github.com/pytorch/ao/tree/main/torchao/prototype/mx_formats): MXFP8, MXFP4 and NVFP4 |
| master weights | NVIDIA's Apex called them `master_weights`; [DeepSpeed](https://www.deepspeed.ai/docs/config-json/) keeps them with `"bf16": {"enabled": true}`; under [autocast](https://docs.pytorch.org/docs/stable/amp.html) the parameters themselves stay float32 |
| stochastic rounding | torchao's low-bit optimizers have [`bf16_stochastic_round=True`](https://github.com/pytorch/ao/tree/main/torchao/optim); oneDNN has a [rounding mode](https://oneapi-src.github.io/oneDNN/dev_guide_attributes_rounding_mode.html) `stochastic` |
| compensated summation | Python's [`math.fsum`](https://docs.python.org/3/library/math.html#math.fsum) rounds only once, and since 3.12 `sum` of floats is compensated; [optimī](https://optimi.benjaminwarner.dev/kahan_summation/) has `kahan_sum=True` for bfloat16 weights |
| the total in a 16-bit matrix product | float32; cuBLAS may reduce partial sums in float16 or bfloat16 unless [`allow_fp16_reduced_precision_reduction` and `allow_bf16_reduced_precision_reduction`](https://docs.pytorch.org/docs/stable/notes/numerical_accuracy.html) are off; `allow_fp16_accumulation`, off by default, keeps the total in float16 |
"""

# %% [markdown]
r"""
## Recap

1. The $e$ exponent bits of a float determine its range, the $m$ fraction bits its number of digits.
2. The ulp doubles at each power of two, so the bound on the relative error is the same for all normal numbers.
3. Rounding picks the nearest number, and at a tie the one whose last bit is 0.
4. An update smaller than half an ulp (a quarter, when it shrinks a power of two) is lost; so is one of exactly that size, if the weight's last bit is 0.
5. Three remedies help: keeping the rest (Kahan), rounding stochastically, and holding the total in a wider format (master weights).
6. Formats of 8 and 4 bits need scales. A scale per block limits what an outlier can ruin.

### Test yourself

<details><summary>1. A gradient is multiplied by 1024 before it is stored in float16. How does this help a gradient of 0.01, and one of 1e-7?</summary>

0.01 gains nothing: it is normal before and after. 1e-7 is subnormal and would have an error of 19%; scaled, it is normal.
</details>

<details><summary>2. Updates are too small for bfloat16 weights. Which remedies need 2, 4 and 6 bytes per weight, and what is the disadvantage of each?</summary>

2: stochastic rounding, which adds noise. 4: compensated summation, which must be built into the optimizer. 6: float32 masters, which need more memory than float32 weights.
</details>

<details><summary>3. How many bytes do 1,024 numbers need in MXFP8, and how many in NVFP4?</summary>

MXFP8: 1,024 bytes plus 32 one-byte scales, 1,056 in all. NVFP4: 512 bytes, 64 one-byte scales and 4 bytes for the tensor's scale, 580 in all.
</details>

### References

- IEEE 754-2019, *Standard for Floating-Point Arithmetic*, sections 3.4 (formats) and 4.3 (rounding).
- N. J. Higham, *Accuracy and Stability of Numerical Algorithms*, 2nd edition, SIAM, 2002, section 4.2.
- W. Kahan, "Further remarks on reducing truncation errors", *Communications of the ACM* 8(1), 1965.
- T. J. Dekker, "A floating-point technique for extending the available precision", *Numerische Mathematik* 18, 1971.
- P. Micikevicius et al., "Mixed Precision Training", [arXiv:1710.03740](https://arxiv.org/abs/1710.03740), 2018, section 3.
- P. Micikevicius et al., "FP8 Formats for Deep Learning", [arXiv:2209.05433](https://arxiv.org/abs/2209.05433), 2022, section 3.
- Open Compute Project, *OCP 8-bit Floating Point Specification (OFP8)*, revision 1.0, 2023; *OCP Microscaling Formats (MX) Specification*, version 1.0, 2023.
- S. Gupta, A. Agrawal, K. Gopalakrishnan, P. Narayanan, "Deep Learning with Limited Numerical Precision", [arXiv:1502.02551](https://arxiv.org/abs/1502.02551), 2015, section 4.

### Glossary

| English | 中文 | meaning |
| --- | --- | --- |
| floating-point number | 浮点数 | a number as sign, exponent and fraction |
| exponent | 指数（阶码） | the field that gives the order of magnitude |
| bias | 偏置 | the offset added to the exponent |
| fraction, significand | 尾数 | the digits after the leading 1 (the significand includes the 1) |
| normal number | 正规数 | a number with a leading 1 |
| subnormal number | 次正规数 | a nonzero number without a leading 1, closer to zero than every normal number |
| infinity | 无穷大 | the value for overflow and for 1 / 0 |
| nan (not a number) | 非数 | the value for undefined results such as 0 / 0 |
| machine epsilon | 机器精度 | the distance from 1 to the next larger number |
| ulp (unit in the last place) | 最后一位单位 | the distance to the next number of a format |
| tie | 平局（中点） | a result halfway between two numbers |
| round to nearest, ties to even | 舍入到最近偶数 | of two equally near numbers, to the one whose last bit is 0 |
| saturating cast | 饱和转换 | a cast that turns overflow into the largest number |
| fixed point | 定点数 | a format whose numbers are the multiples of one step |
| stochastic rounding | 随机舍入 | up or down at random, right on average |
| compensated (Kahan) summation | 补偿求和 | a sum that keeps the error of each addition |
| rest | 余项 | the exact sum minus the rounded total |
| pairwise summation | 成对求和 | summation of blocks, then of the block sums |
| master weights | 主权重 | the float32 weights that the optimizer updates; forward and backward pass compute with 16-bit copies |
| mixed precision | 混合精度 | several float formats in one training run, each where it suffices |
| loss scaling | 损失缩放 | multiplying the loss before the backward pass, and dividing the gradients after it, so that small gradients do not vanish |
| scale | 缩放因子 | a factor that moves a tensor into the range of its format |
| block scale | 分块缩放 | a scale for a few neighboring numbers |
"""

# %% folded="What you predicted"
predictions("02")

# %%
progress("02")
