# %% [markdown]
"""
# 11 · Looking inside: devices, dtypes, parameters, cost

After this chapter you can

- say where a card's memory is: used, allocated, reserved, and lost between blocks;
- read a report on several cards;
- predict the dtype of a result, and the bytes that a training takes;
- count a model's parameters and operations, layer by layer, and find the one that costs;
- find out why memory grows from step to step.

**Time**: 50 minutes to read and run, 130 for the six exercises.
**Know before**: modules and parameters (chapter 00), saved tensors (chapter 06).

**中文**: 本章讲如何查看内部：显存的占用、分配与保留，nvidia-smi 报告的解析，dtype 表与类型提升，模型摘要、参数量与运算量，训练所需字节的预测，性能分析器，以及内存为何逐步增长。
"""

# %% tags=["needed"] folded="Imports"
import math
import weakref

import torch
from torch import nn
from torch.nn import functional

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
    time_shares,
)

device = "cuda" if torch.cuda.is_available() else "cpu"

# %% [markdown]
"""
## Out of memory, on a card that looks empty

A card has 64 MiB. Eight blocks of 8 MiB fill it. Every second one is given back. Half of the card is free now. A block of 16 MiB is asked for.

PyTorch does not ask the driver for each tensor: that would take too long. It keeps what was freed, and hands it out again. Here is a model of such an allocator, in forty lines. It keeps the essentials and leaves out the rest; it also runs where there is no card.
"""

# %% tags=["needed"]
MIB = 2**20


class Card:
    """A model of a card's memory under a caching allocator: first block that fits, no moving."""

    def __init__(self, capacity):
        self.capacity = capacity
        self.blocks = []  # [start, size, whether it is in use], side by side

    @property
    def reserved(self):
        return sum(size for _, size, _ in self.blocks)

    @property
    def allocated(self):
        return sum(size for _, size, in_use in self.blocks if in_use)

    def allocate(self, size):
        """Return where the block is."""
        for place, (start, room, in_use) in enumerate(self.blocks):
            if not in_use and room >= size:
                self.blocks[place : place + 1] = [[start, size, True]]
                if room > size:
                    self.blocks.insert(place + 1, [start + size, room - size, False])
                return start
        if self.reserved + size > self.capacity:
            raise MemoryError(
                f"tried to allocate {size // MIB} MiB; of {self.capacity // MIB} MiB "
                f"{self.allocated // MIB} are allocated, and {self.reserved // MIB} reserved"
            )
        self.blocks.append([self.reserved, size, True])
        return self.blocks[-1][0]

    def free(self, start):
        """Keep the block for later; free neighbors become one."""
        for block in self.blocks:
            if block[0] == start:
                block[2] = False
        joined = []
        for block in self.blocks:
            if joined and not joined[-1][2] and not block[2]:
                joined[-1][1] += block[1]
            else:
                joined.append(block)
        self.blocks = joined


# %%
card = Card(64 * MIB)
starts = [card.allocate(8 * MIB) for _ in range(8)]
for start in starts[::2]:
    card.free(start)
print("allocated:", card.allocated // MIB, "MiB of", card.capacity // MIB)
try:
    card.allocate(16 * MIB)
except MemoryError as error:
    print("MemoryError:", error)

# %% [markdown]
"""
32 MiB are free and 16 are not to be had. No two free blocks lie side by side. That is *fragmentation*. The message of a real card has such numbers too: how much was tried, how much is **allocated** (by tensors that live), and how much is "reserved by PyTorch but unallocated": got from the driver, not given back, and in no use. `torch.cuda.memory_allocated()` and `torch.cuda.memory_reserved()` tell at any time; the second counts both.

(What the model leaves out: PyTorch takes memory in segments, joins free blocks only inside one segment, and before it gives up it returns segments that are wholly free to the driver, and tries again.)

Here is the card as a picture. The slider frees more and more of the blocks.
"""


# %% folded="Plot: the blocks on the card"
def draw_card(freed):
    card = Card(64 * MIB)
    starts = [card.allocate(8 * MIB) for _ in range(8)]
    order = [0, 2, 4, 6, 1, 3, 5, 7]
    for place in order[: int(freed)]:
        card.free(starts[place])
    largest = max((size for _, size, in_use in card.blocks if not in_use), default=0)
    figure, axes = new_figure(height=2.1)
    for start, size, in_use in card.blocks:
        color = COLORS["blue"] if in_use else "white"
        axes.barh(0, size / MIB, left=start / MIB, height=0.6, color=color, edgecolor="black")
    free = (card.capacity - card.allocated) // MIB
    axes.set(
        title=f"{free} MiB are free, {largest // MIB} of them in one piece",
        xlabel="place on the card (MiB); blue is in use",
        ylabel="card",
        xlim=(0, 64),
        yticks=[],
    )
    axes.grid(False)
    return figure


play(
    draw_card,
    label="blocks freed",
    values=[0, 1, 2, 3, 4, 5, 6, 7, 8],
    start=4,
    alt="A card of 64 MiB in eight blocks of 8. Every second one is free, 32 MiB in all, and the largest free piece has 8 MiB.",
)

# %% [markdown]
"""
What helps?

- Allocate what lives long first, and use few different sizes: sequences padded to one length, the last short batch left out.
- `PYTORCH_ALLOC_CONF=expandable_segments:True` in the environment (`PYTORCH_CUDA_ALLOC_CONF` in older versions) lets the allocator put pieces together that are not neighbors.
- `torch.cuda.empty_cache()` gives reserved and *unused* memory back to the driver, so that **other** programs can have it. Your own program could have used it anyway. It frees no tensor.
- `del tensor`, and no other name for it, frees a tensor. What autograd saved goes with the graph.

A widespread note says that `nvidia-smi --gpu-reset` clears the memory. It resets the *card*, needs rights that users seldom have, and refuses while anybody uses it. Whoever wants the memory back ends the process that has it.

## Reading a report

How much of which card is taken? `nvidia-smi` tells, and counts what everybody on the machine has taken. The table it prints is made for eyes and changes from version to version. For scripts it has this form (and `--query-compute-apps=pid,process_name,used_memory` names the processes):

`nvidia-smi --query-gpu=index,name,memory.used,memory.total,utilization.gpu --format=csv`

Here are four cards, of which one is in use. (The figures are those of a real machine with driver 418, in 2021.)
"""

# %% tags=["needed"]
FOUR_CARDS = """index, name, memory.used [MiB], memory.total [MiB], utilization.gpu [%]
0, GeForce GTX 1080 Ti, 611 MiB, 11178 MiB, 0 %
1, GeForce GTX 1080 Ti, 0 MiB, 11178 MiB, 0 %
2, GeForce GTX 1080 Ti, 0 MiB, 11178 MiB, 0 %
3, GeForce GTX 1080 Ti, 0 MiB, 11178 MiB, 0 %
"""

# %%
print(FOUR_CARDS)
print("the device is written", torch.device(device), "and shown as", repr(torch.device(device)))

# %% tags=["nbval-ignore-output", "recorded"]
if torch.cuda.is_available():
    for number in range(torch.cuda.device_count()):
        print(number, torch.cuda.get_device_name(number), torch.cuda.mem_get_info(number))
else:
    print("here: no card that PyTorch can use")
recorded("cards-of-a-machine")

# %% [markdown]
"""
Two columns are easily mixed up. *Utilization* says for how much of the last moment the card was **computing**. *Memory* says how much is **taken**. Card 0 computes nothing at all, and somebody holds 611 MiB of it. A card that "does nothing" may be full.

To use some of the cards, set `CUDA_VISIBLE_DEVICES=1,2` before the program starts. Inside, they are called `cuda:0` and `cuda:1`. Set from within Python it counts only *before* CUDA is used for the first time, and even `torch.cuda.is_available()` may be such a use; afterwards it is silently ignored. Set it in the shell. (By default CUDA may count the cards in another order than `nvidia-smi`: the fastest first. `CUDA_DEVICE_ORDER=PCI_BUS_ID` makes the two agree.)

`nvidia-smi -L` lists the cards with a name that stays theirs, the UUID; `CUDA_VISIBLE_DEVICES` takes that, too. Of two cards side by side, one may be hotter and therefore slower: look at `temperature.gpu` in the report, not at the slot's number.

The first call of CUDA on an idle machine can take seconds: the driver is loaded for it. *Persistence mode* (`nvidia-smi -pm 1`, as administrator) keeps the driver loaded. Then the next program starts faster.
"""

# %% [markdown] exercise="parse-report" points=4 minutes=20 difficulty=1
"""
### Read the report

Write `parse_report(text)`.

- **In**: what `nvidia-smi --query-gpu=... --format=csv` printed: a line of column names, then a line for each card. Columns are separated by a comma and any number of blanks, none included. Which columns there are, and in which order, may differ.
- **Out**: a list with a dict for each card, in the order of the lines.
- A key is the column's name without its unit: `memory.used [MiB]` becomes `memory.used`.
- A value with a unit, such as `611 MiB`, `0 %` or `29.50 W`, becomes a number without it; and so does a bare number. The unit is a single word, whichever. A number is digits, perhaps with one dot and more digits: an int without the dot, else a float. (`535.104.05` is text, and so is `nan`.) `[N/A]`, `[Not Supported]`, `N/A` and everything else in square brackets become None. Any other text stays text.
- Without a card the program prints `No devices were found`: then, and for a text with nothing but blanks, the list is empty. There may be empty lines at the end.

<!-- hint: Which line tells how many columns there are? What is cut off from its names? -->
<!-- hint: Split the lines at commas and strip the blanks. For a value: in brackets, or not? Its first word a number, or not? `"1080".isdigit()` tells for digits. -->
<!-- hint: `name.split(" [")[0]` is a key. A value is a number with a unit if it has one word or two, and the first is digits once a single dot is taken out; a card's name has a number in the middle at most. -->
"""


# %% solution="parse-report"
def parse_report(text):
    """Return a dict for each card in a report of nvidia-smi in CSV."""
    ### BEGIN SOLUTION
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines or lines[0].startswith("No devices"):
        return []
    names = [name.strip().split(" [")[0] for name in lines[0].split(",")]
    return [dict(zip(names, map(read_value, line.split(",")), strict=True)) for line in lines[1:]]


def read_value(text):
    text = text.strip()
    if text == "N/A" or (text.startswith("[") and text.endswith("]")):
        return None
    words = text.split()
    number = words[0] if words else ""
    if len(words) > 2 or not number.replace(".", "", 1).isdigit():
        return text
    return float(number) if "." in number else int(number)
    ### END SOLUTION


# %% test="parse-report"
check = Check("parse-report")
MODELS = [
    "Tesla T4",
    "NVIDIA A100-SXM4-80GB",
    "GeForce GTX 1080 Ti",
    "NVIDIA H100 80GB HBM3",
    "Quadro RTX 6000",
]


def reads(columns, rows, expected):
    text = "\n".join([", ".join(columns), *[", ".join(row) for row in rows]]) + "\n"
    check.equal(check.call(parse_report, text), expected, what=f"for {text!r}")


def drawn_card():
    total = check.draw.integer(8000, 90_000)
    return (
        MODELS[check.draw.integer(0, 5)],
        check.draw.integer(0, total),
        total,
        check.draw.integer(0, 101),
    )


def reads_cards(count):
    cards = [drawn_card() for _ in range(count)]
    columns = ["index", "name", "memory.used [MiB]", "memory.total [MiB]", "utilization.gpu [%]"]
    rows = [
        [str(i), name, f"{used} MiB", f"{total} MiB", f"{busy} %"]
        for i, (name, used, total, busy) in enumerate(cards)
    ]
    expected = [
        {
            "index": i,
            "name": name,
            "memory.used": used,
            "memory.total": total,
            "utilization.gpu": busy,
        }
        for i, (name, used, total, busy) in enumerate(cards)
    ]
    reads(columns, rows, expected)


with check.property("one card, and several"):
    reads_cards(1)
    reads_cards(4)
with check.property("other columns, in another order", weight=2):
    name, used, _, _ = drawn_card()
    watts = f"{check.draw.integer(20, 300)}.{check.draw.integer(10, 99)}"
    reads(
        ["power.draw [W]", "memory.used [MiB]", "uuid", "name"],
        [[f"{watts} W", f"{used} MiB", "GPU-5da6e67e-0001", name]],
        [
            {
                "power.draw": float(watts),
                "memory.used": used,
                "uuid": "GPU-5da6e67e-0001",
                "name": name,
            }
        ],
    )
with check.property("what a card does not tell is None"):
    warm, busy = check.draw.integer(20, 90), check.draw.integer(0, 101)
    reads(
        ["index", "fan.speed [%]", "utilization.gpu [%]", "temperature.gpu"],
        [
            ["0", "[N/A]", "[Not Supported]", f"{warm}"],
            ["1", "[Unknown Error]", f"{busy} %", "N/A"],
        ],
        [
            {"index": 0, "fan.speed": None, "utilization.gpu": None, "temperature.gpu": warm},
            {"index": 1, "fan.speed": None, "utilization.gpu": busy, "temperature.gpu": None},
        ],
    )
    reads(["name", "uuid"], [["[half", "open]"]], [{"name": "[half", "uuid": "open]"}])
with check.property("any blanks, any unit; versions are text"):
    warm, clock = check.draw.integer(20, 90), check.draw.integer(300, 2000)
    version = f"{check.draw.integer(400, 600)}.{check.draw.integer(10, 200)}.05"
    text = "name,driver_version ,  temperature.gpu [C], clocks.sm [MHz]\n"
    text += f"3080 Laptop GPU,{version},{warm} C ,  {clock} MHz\n"
    expected = {"name": "3080 Laptop GPU", "driver_version": version}
    expected |= {"temperature.gpu": warm, "clocks.sm": clock}
    check.equal(check.call(parse_report, text), [expected], what=f"for {text!r}")
with check.property("no card"):
    for text in ("No devices were found\n", "", "\n \n"):
        check.equal(check.call(parse_report, text), [], what=f"for {text!r}")
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("what is no number, and what no unit, as the card has it"):
    text = (
        "a, b, c, d, e, f, g\n1e5, inf, 1_000, 60.00 W, 7 MB/s, [Insufficient Permissions], 1.5.0\n"
    )
    expected = {"a": "1e5", "b": "inf", "c": "1_000", "d": 60.0, "e": 7, "f": None, "g": "1.5.0"}
    check.equal(check.call(parse_report, text), [expected], what=f"for {text!r}")
with check.property("names that begin or end with a number, and empty lines"):
    text = "name, index, memory.free [MiB]\n\n4090 Laptop GPU, 3, 100 MiB\nA 100, 4, 0 MiB\n\n\n"
    expected = [
        {"name": "4090 Laptop GPU", "index": 3, "memory.free": 100},
        {"name": "A 100", "index": 4, "memory.free": 0},
    ]
    check.equal(check.call(parse_report, text), expected, what=f"for {text!r}")
with check.property("a header alone, and many cards"):
    check.equal(check.call(parse_report, "index, name\n"), [])
    reads_cards(11)
### END HIDDEN TESTS
check.score()

# %% [markdown]
"""
## dtypes, from the library itself

How many dtypes are there? Old tables say nine. Ask.
"""

# %%
every_dtype = sorted({v for v in vars(torch).values() if isinstance(v, torch.dtype)}, key=str)
USUAL = ("bool", "uint8", "int8", "int16", "int32", "int64", "float", "bfloat", "complex")
print("dtypes in all:", len(every_dtype))
print(f"{'dtype':<18}{'bytes':>6}  {'NumPy':<12}")
for dtype in every_dtype:
    name = str(dtype).removeprefix("torch.")
    if not name.startswith(USUAL) or name in ("complex32", "float4_e2m1fn_x2"):
        continue
    try:
        numpy_name = str(torch.zeros(1, dtype=dtype).numpy().dtype)
    except TypeError:
        numpy_name = "none"
    print(f"{name:<18}{dtype.itemsize:>6}  {numpy_name:<12}")

# %% [markdown]
"""
The others are for packed bits, integers of 1 to 7 bits, wider unsigned ones, quantization, a float of 4 bits and a complex number in half precision; most operations do not know them. `bfloat16` and the 8-bit floats have no partner in NumPy: convert to float32 first. (That int8 cannot be converted is an old tale.)

`.to(dtype)`, `.float()`, `.half()`, `.long()` convert. `torch.zeros`, `torch.randn` and Python's floats make float32, unless `torch.set_default_dtype` says otherwise; `torch.set_default_device` does the same for the place. The older `set_default_tensor_type` is deprecated, and *named tensors* (`names=...`) are gone from newer versions. Who wants names for axes writes `einops.rearrange(x, "n c h w -> n (h w) c")` or einsum.

What comes out if two dtypes meet?
"""

# %%
PAIRS = [
    (
        "int64 tensor + int8 tensor",
        torch.ones(2, dtype=torch.int64),
        torch.ones(2, dtype=torch.int8),
    ),
    ("int8 tensor + 2.5", torch.ones(2, dtype=torch.int8), 2.5),
    ("float16 tensor + bfloat16 tensor", torch.ones(2).half(), torch.ones(2).bfloat16()),
    ("float16 tensor + float64 without axes", torch.ones(2).half(), torch.tensor(1.0).double()),
    ("int64 tensor + float16 without axes", torch.ones(2).long(), torch.tensor(1.0).half()),
    ("float32 tensor + 1j", torch.ones(2), 1j),
]
for text, first, second in PAIRS:
    print(f"{text:<40} {str((first + second).dtype).removeprefix('torch.')}")

# %% [markdown]
"""
The rule has two levels. There are four **categories**: bool, integer, floating, complex, in this order.

1. Tensors with axes count most, tensors without axes (one number) less, and Python's numbers least.
2. Take the highest category of all operands. The dtype comes from those that count *most* among the operands of that category: they are promoted with each other. What counts less does not change a dtype within the same category. It only lifts the result to its own category if that is higher than all that counts more.
3. If a Python number decides (because its category is higher), the result has the default dtype of its category: float32 for a float, complex64 for a complex number, int64 for an int. (Where something complex that counts less lifts a floating dtype, the digits of the floats are kept: beside a float64 it gives complex128, beside float32 complex64, beside float16 complex32.)

Two dtypes of one category promote to the smallest one that holds both: int8 and int64 give int64, uint8 and int8 give int16, float16 and bfloat16 give float32. `torch.promote_types(a, b)` knows these.
"""

# %% [markdown] exercise="result-dtype" points=4 minutes=20 difficulty=2
"""
### Which dtype comes out?

Write `result_dtype(operands)`.

- **In**: a list of one or more pairs: what an operand is, and its dtype or kind, both as text. `("axes", "float16")` is a tensor with axes; `("point", "int64")` a tensor without axes; `("number", "float")` a number of Python, of the kind bool, int or float. There are no complex ones, and no unsigned ones but uint8.
- **Out**: the dtype of the sum as text, `"float32"`, say (no `torch.dtype`; two bools give bool): what `torch.result_type` would give for all of them at once, with the usual default dtype.

There are two ways: from the rule above, or by asking the library with small tensors. (`torch.promote_types` takes two dtypes, and `torch.result_type` two operands; neither takes a list. Adding up from left to right is not the same.)

<!-- hint: Which operands decide? First the category, then who counts most in it. -->
<!-- hint: For each of the three levels, promote the dtypes of its operands with each other. Then you have at most three dtypes. Which one wins, if the category of a lower level is not higher? -->
<!-- hint: Begin with the level of tensors with axes. Go down: a lower level replaces what you have only if its category is higher. Numbers stand for bool, int64 and float32. -->
"""


# %% solution="result-dtype"
def result_dtype(operands):
    """Return the dtype that comes out when all operands are added."""
    ### BEGIN SOLUTION
    numbers = {"bool": "bool", "int": "int64", "float": "float32"}

    def category(dtype):
        return 2 if dtype.is_floating_point else int(dtype != torch.bool)

    result = None
    for level in ("axes", "point", "number"):
        names = [name for kind, name in operands if kind == level]
        dtypes = [getattr(torch, numbers[name] if level == "number" else name) for name in names]
        if not dtypes:
            continue
        promoted = dtypes[0]
        for dtype in dtypes[1:]:
            promoted = torch.promote_types(promoted, dtype)
        if result is None or category(promoted) > category(result):
            result = promoted
    return str(result).removeprefix("torch.")
    ### END SOLUTION


# %% test="result-dtype"
check = Check("result-dtype")


def gives(*operands, result):
    operands = list(operands)
    check.equal(check.call(result_dtype, operands), result, what=f"for {operands}")


DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64"]
DTYPES += ["float16", "bfloat16", "float32", "float64"]
KINDS = {"bool": True, "int": 1, "float": 1.0}


def drawn(level):
    names = list(KINDS) if level == "number" else DTYPES
    return level, names[check.draw.integer(0, len(names))]


def by_torch(first, second):
    """What torch says of two operands, made of small tensors and numbers."""
    made = [
        KINDS[name]
        if level == "number"
        else torch.ones([1] if level == "axes" else [], dtype=getattr(torch, name))
        for level, name in (first, second)
    ]
    return str(torch.result_type(*made)).removeprefix("torch.")


def pairs_of(level, *others):
    """Ask for drawn pairs, in either order."""
    for number in range(10):
        pair = [drawn(level), drawn(others[number % len(others)])]
        pair = pair if check.draw.integer(0, 2) else pair[::-1]
        gives(*pair, result=by_torch(*pair))


with check.property("two tensors with axes"):
    gives(("axes", "int64"), ("axes", "int8"), result="int64")
    gives(("axes", "float16"), ("axes", "bfloat16"), result="float32")
    gives(("axes", "uint8"), ("axes", "int8"), result="int16")
    gives(("axes", "bool"), ("axes", "int16"), result="int16")
    gives(("axes", "float16"), ("axes", "int64"), result="float16")
    pairs_of("axes", "axes")
with check.property("a number of Python", weight=2):
    gives(("axes", "int8"), ("number", "float"), result="float32")
    gives(("axes", "float16"), ("number", "float"), result="float16")
    gives(("number", "int"), ("axes", "bool"), result="int64")
    gives(("number", "int"), ("axes", "int16"), result="int16")
    gives(("number", "bool"), ("axes", "uint8"), result="uint8")
    pairs_of("number", "axes", "point")
with check.property("a tensor without axes", weight=2):
    gives(("axes", "float16"), ("point", "float64"), result="float16")
    gives(("point", "float16"), ("axes", "int64"), result="float16")
    gives(("point", "int64"), ("axes", "int8"), result="int8")
    gives(("point", "float64"), ("number", "float"), result="float64")
    gives(("point", "uint8"), ("point", "int8"), result="int16")
    pairs_of("point", "axes", "point")
with check.property("several operands", weight=2):
    gives(
        ("axes", "int8"),
        ("point", "float64"),
        ("axes", "int16"),
        ("number", "float"),
        result="float64",
    )
    gives(("point", "bfloat16"), ("axes", "int8"), ("point", "float16"), result="float32")
    gives(("number", "float"), ("point", "int32"), ("axes", "bool"), result="float32")
    gives(("axes", "uint8"), ("number", "int"), ("axes", "int8"), result="int16")
with check.property("one operand"):
    gives(("axes", "bfloat16"), result="bfloat16")
    gives(("number", "int"), result="int64")


# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
def by_definition(operands):
    """Return the answer by the rule, with the categories spelled out."""
    table = {name: int(number > 0) + int(number > 5) for number, name in enumerate(DTYPES)}
    result = ""
    for level in ("axes", "point", "number"):
        here = [n for kind, n in operands if kind == level]
        here = (
            [{"int": "int64", "float": "float32"}.get(n, n) for n in here]
            if level == "number"
            else here
        )
        if here:
            promoted = getattr(torch, here[0])
            for name in here[1:]:
                promoted = torch.promote_types(promoted, getattr(torch, name))
            name = str(promoted)[6:]
            result = name if not result or table[name] > table[result] else result
    return result


def asks(*operands):
    operands = list(operands)
    check.equal(check.call(result_dtype, operands), by_definition(operands), what=f"for {operands}")


with check.property("any operands", weight=2):
    for _ in range(60):
        levels = [
            ("axes", "point", "number")[check.draw.integer(0, 3)]
            for _ in range(check.draw.integer(1, 5))
        ]
        asks(*[drawn(level) for level in levels])
    asks(("point", "float64"), ("axes", "int8"), ("number", "float"), ("axes", "bool"))
    asks(("point", "int64"), ("number", "int"), ("axes", "uint8"))
    asks(("axes", "int8"), ("point", "float16"), ("number", "float"))
    asks(("axes", "int8"), ("axes", "float16"), ("point", "float64"))
    asks(("number", "bool"), ("number", "bool"))
    asks(("number", "int"), ("point", "bool"), ("point", "int32"))
    asks(("point", "float16"), ("axes", "int8"), ("point", "float64"))
### END HIDDEN TESTS
check.score()

# %% [markdown]
"""
## A model, layer by layer

`print(model)` shows what a model is made of, not what happens in it. For shapes one has to run it. A *forward hook* is called after a module's forward, with the module, its inputs and its output:
"""

# %%
torch.manual_seed(0)
small = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 6 * 6, 10))


def tell(module, inputs, output):
    print(f"{type(module).__name__:<8} {tuple(inputs[0].shape)!s:<15} -> {tuple(output.shape)}")


handles = [layer.register_forward_hook(tell) for layer in small]
small(torch.randn(2, 3, 8, 8))
for handle in handles:
    handle.remove()

# %% [markdown]
"""
A hook stays until its handle is removed. Who forgets that tells everything twice the next time, and three times after that.

`model.named_modules()` gives every module with its name, the model itself first, under the name "". `module.parameters(recurse=False)` are the parameters of that module alone. The library *torchinfo* prints such a table; let us make one.
"""

# %% [markdown] exercise="summarize" points=5 minutes=25 difficulty=2
"""
### A summary

Write `summarize(model, x)`.

- **In**: a module and an input for it.
- **Out**: a list with a row for each call of a *leaf* (a module without modules inside), in the order in which they are called: a list `[name, class, shape, parameters]`. `name` is that of `model.named_modules()`, `class` the name of its class, `shape` the shape of its output as a list, and `parameters` the number of entries of its own parameters, frozen ones included. A leaf that is called twice has two rows, and its parameters are counted in the first one only: the second says 0. (Every leaf here returns one tensor, and no two leaves share a parameter.)
- The model stays as it is: mode, weights, buffers, what is trained, and no hook of yours is left. It is run once, in eval mode, so that BatchNorm does not learn from the summary, and with autograd off. Afterwards autograd is on again.

<!-- hint: At which moment is the output's shape known? Who can be told the module's name there? -->
<!-- hint: Hook all leaves; a hook function can be made for each name. Keep the modes of all modules before `model.eval()`, and give them back afterwards, also if the model raises an error. -->
<!-- hint: `modes = [m.training for m in model.modules()]`; in a `finally`: remove all handles, and set `training` of each module to what it was. A set of names tells which leaves were counted already. -->
"""


# %% solution="summarize"
def summarize(model, x):
    """Return [name, class, output shape, parameters] for each call of a leaf module."""
    ### BEGIN SOLUTION
    rows, counted = [], set()

    def hook_of(name):
        def note(module, inputs, output):
            own = 0 if name in counted else sum(p.numel() for p in module.parameters())
            counted.add(name)
            rows.append([name, type(module).__name__, list(output.shape), own])

        return note

    modes = [module.training for module in model.modules()]
    leaves = [(n, m) for n, m in model.named_modules() if not list(m.children())]
    handles = [module.register_forward_hook(hook_of(name)) for name, module in leaves]
    model.eval()
    try:
        with torch.no_grad():
            model(x)
    finally:
        for handle in handles:
            handle.remove()
        for module, mode in zip(model.modules(), modes, strict=True):
            module.training = mode
    return rows
    ### END SOLUTION


# %% test="summarize"
check = Check("summarize")


def same_rows(output, expected):
    rows = [list(row) if isinstance(row, tuple) else row for row in output]
    check.equal(rows, expected)


def summary_of(layers, x, expected, **options):
    same_rows(check.call(probes.with_network, summarize, layers, x, **options), expected)


def stays(modes, frozen=()):
    """Summarize, and let the model learn afterwards: it does so as if nobody had looked."""
    inner = nn.Sequential(nn.Linear(b, 2))
    model = nn.Sequential(nn.Linear(a, b), nn.BatchNorm1d(b), nn.Dropout(0.5), inner)
    state = {n: check.draw.uniform(*v.shape, low=0.1) for n, v in model.state_dict().items()}
    state["1.num_batches_tracked"] = torch.tensor(check.draw.integer(3, 90))
    x, inputs = check.draw.normal(6, a, equal_sizes=True), check.draw.normal(c, a)
    slope, seed = check.draw.normal(c, 2), check.draw.integer(0, 2**31)
    got = check.call(
        probes.network_then_trained,
        summarize,
        [["Linear", a, b], ["BatchNorm1d", b], ["Dropout", 0.5], [["Linear", b, 2]]],
        x,
        **{"inputs": inputs, "slope": slope, "seed": seed},
        **{"state": state, "training": modes, "frozen": frozen},
    )
    expected = [
        ["0", "Linear", [6, b], a * b + b],
        ["1", "BatchNorm1d", [6, b], 2 * b],
        ["2", "Dropout", [6, b], 0],
        ["3.0", "Linear", [6, 2], 2 * b + 2],
    ]
    same_rows(got["output"], expected)
    model.load_state_dict(state)
    for part, mode in zip(model.modules(), modes, strict=True):
        part.training = mode
    output = check.with_seed(seed, model, inputs)
    told = f"modes {modes}; afterwards, in those modes, "
    check.close(got["next"], output.detach(), rtol=1e-3, atol=1e-4, what=told + "the output")
    (output * slope).sum().backward()
    after = dict(model.state_dict())
    for name, weight in model.named_parameters():
        after[name] = (weight - 0.5 * weight.grad * (name not in frozen)).detach()
    what = told + "the state after a step of training"
    check.close(got["state"], after, rtol=1e-3, atol=1e-3, what=what)


a, b, c = check.draw.integer(3, 6), check.draw.integer(7, 11), check.draw.integer(12, 20)
with check.property("name, class, output shape and parameters of each leaf"):
    layers = [["Linear", a, b], ["ReLU"], ["Linear", b, c]]
    expected = [
        ["0", "Linear", [2, b], a * b + b],
        ["1", "ReLU", [2, b], 0],
        ["2", "Linear", [2, c], b * c + c],
    ]
    summary_of(layers, check.draw.normal(2, a, equal_sizes=True), expected)
with check.property("leaves inside of modules, and pictures", weight=2):
    layers = [
        [["Conv2d", 3, a, 3], ["Tanh"]],
        [[["Conv2d", a, 2, 1, 1, 0, 1, 1, False]]],
        ["Flatten"],
    ]
    expected = [
        ["0.0", "Conv2d", [4, a, 5, 7], 27 * a + a],
        ["0.1", "Tanh", [4, a, 5, 7], 0],
        ["1.0.0", "Conv2d", [4, 2, 5, 7], 2 * a],
        ["2", "Flatten", [4, 70], 0],
    ]
    summary_of(layers, check.draw.normal(4, 3, 7, 9), expected)
with check.property("the model stays as it is: it goes on as if nobody had looked", weight=1.5):
    stays([True, False, True, False, True, True])
    stays([False, True, False, True, False, False])
with check.property("frozen parameters count, and stay frozen; the others are still trained"):
    stays([True] * 6, frozen=["0.weight", "3.0.bias"])
with check.property("no hook is left, and autograd is off while the model runs", weight=0.5):
    layers, rows = [["Linear", a, b], ["ReLU"]], check.draw.integer(2, 20)
    x = check.draw.normal(rows, a, equal_sizes=True)
    seen = check.call(probes.network, summarize, layers, x)
    same_rows(seen["output"], [["0", "Linear", [rows, b], a * b + b], ["1", "ReLU", [rows, b], 0]])
    check.equal(seen["hooks"], 0, what="the number of hooks that are left")
    what = "for each run of the model, whether autograd was on"
    check.equal(seen["autograd"], [False], what=what)
with check.property("a module that is used twice"):
    layers = [["Linear", a, a], ["ReLU"], ["Linear", a, 2]]
    expected = [
        ["0", "Linear", [5, a], a * a + a],
        ["1", "ReLU", [5, a], 0],
        ["0", "Linear", [5, a], 0],
        ["1", "ReLU", [5, a], 0],
        ["2", "Linear", [5, 2], 2 * a + 2],
    ]
    summary_of(layers, check.draw.normal(5, a, equal_sizes=True), expected, order=[0, 1, 0, 1, 2])
with check.property("a model that is a leaf itself", weight=0.5):
    summary_of(
        ["Linear", a, b],
        check.draw.normal(3, a, equal_sizes=True),
        [["", "Linear", [3, b], a * b + b]],
    )
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("modules that are used twice and have others inside", weight=0.5):
    layers = [[["Linear", a, a], ["Tanh"]], ["Linear", a, b]]
    expected = [
        ["0.0", "Linear", [4, a], a * a + a],
        ["0.1", "Tanh", [4, a], 0],
        ["0.0", "Linear", [4, a], 0],
        ["0.1", "Tanh", [4, a], 0],
        ["1", "Linear", [4, b], a * b + b],
    ]
    summary_of(layers, check.draw.normal(4, a, equal_sizes=True), expected, order=[0, 0, 1])
### END HIDDEN TESTS
check.score()

# %% [markdown]
r"""
## A graph, drawn

Modules are what was written. What autograd will go through is the *graph*. Every result knows the function it came from, `grad_fn`, and each function knows those before it. The library *torchviz* draws that. Here it is in a few lines; `Addmm` is a layer's product and sum, `T` the transposed weight, and parameters are orange, for $\text{Linear} \to \tanh \to \text{Linear}$:
"""

# %%
net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
loss = net(torch.randn(1, 8)).mean()
names = {id(p): name for name, p in net.named_parameters()}


# %% folded="Plot: What backward will go through, from the top"
def draw_graph(root):
    figure, axes = new_figure(height=4.4)
    places, waiting, columns = {}, [(root, 0)], {}
    while waiting:
        node, depth = waiting.pop(0)
        if node in places:
            continue
        columns[depth] = columns.get(depth, -1) + 1
        places[node] = (columns[depth], -depth)
        waiting += [(before, depth + 1) for before, _ in node.next_functions if before is not None]
    for node, (x, y) in places.items():
        variable = getattr(node, "variable", None)
        label = type(node).__name__.removesuffix("0").removesuffix("Backward")
        label = names.get(id(variable), label) if variable is not None else label
        color = COLORS["orange"] if variable is not None else COLORS["sky"]
        for before, _ in node.next_functions:
            if before is not None:
                arrow = {"arrowstyle": "->", "color": "gray", "shrinkA": 9, "shrinkB": 9}
                axes.annotate("", places[before], (x, y), arrowprops=arrow)
        axes.text(
            x,
            y,
            label,
            ha="center",
            va="center",
            fontsize=8,
            bbox={"boxstyle": "round", "fc": color, "ec": "none"},
        )
    widest = max(columns.values())
    axes.set(
        title="What backward will go through, from the top",
        xlim=(-0.6, widest + 0.6),
        ylim=(-max(columns) - 0.6, 0.6),
    )
    axes.set_axis_off()
    return figure


show(
    draw_graph(loss.grad_fn),
    alt="A graph from the mean at the top down through addmm, tanh and addmm to the weights and biases of two layers; parameters are orange.",
)

# %% [markdown]
r"""
## What a training takes

Four things fill the memory while a model trains (besides what the CUDA library itself takes, and what single operations need for a moment).

| what | how much |
| --- | --- |
| weights (and buffers) | their bytes |
| gradients | the bytes of what is trained |
| the optimizer's states | SGD: none. With momentum: one tensor as large as each trained weight. Adam: two, and a step count of 4 bytes for each weight tensor. |
| activations | what autograd saves (chapter 06); it grows with the batch |

Counted for one model:
"""

# %%
torch.manual_seed(0)
wide = nn.Sequential(
    nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
)
weights = sum(p.numel() * p.element_size() for p in wide.parameters())
batches = [16, 256, 4096]
activations = [
    saved_bytes(lambda n=n: wide(torch.randn(n, 256)), except_for=wide.parameters()).bytes
    for n in batches
]
for n, size in zip(batches, activations, strict=True):
    print(f"weights {weights} bytes, activations of a batch of {n:>4}: {size:>9} bytes")

# %% folded="Plot: Bytes of a training with Adam"
figure, axes = new_figure(height=3.0)
shares = {"weights": 1, "gradients": 1, "Adam": 2}
for row, size in enumerate(activations):
    left = 0.0
    parts = {**{name: share * weights for name, share in shares.items()}, "activations": size}
    for (name, part), color in zip(
        parts.items(), ("blue", "sky", "orange", "vermilion"), strict=True
    ):
        axes.barh(row, part / MIB, left=left, color=COLORS[color], label=name if row == 0 else None)
        left += part / MIB
axes.set(
    title="Bytes of a training with Adam",
    xlabel="MiB",
    ylabel="batch",
    yticks=range(3),
    yticklabels=batches,
)
axes.legend()
show(
    figure,
    alt="Stacked bars for batches of 16, 256 and 4096. Weights, gradients and Adam's states are the same in all three; activations are a sliver at 16 and by far the largest part at 4096.",
)

# %% [markdown] exercise="training-bytes" points=5 minutes=25 difficulty=2
"""
### The bytes of a training

Write `training_bytes(model, x, optimizer)`.

- **In**: a module, whose parameters have one dtype, not always float32, and may be frozen or tied; an input; and the optimizer's name: "sgd", "momentum" or "adam", as in the table.
- **Out**: a dict of four ints. `"weights"`: bytes of all parameters and buffers. `"gradients"`: bytes of the gradients after a backward pass. `"optimizer"`: bytes of the optimizer's states after its first step; each has its weight's dtype, and Adam's step counts are float32, one for each trained weight tensor. `"activations"`: what autograd saves in `model(x)`, without the model's parameters.
- It is *predicted*: no optimizer is made, and there is no backward pass, neither by `backward` nor by `torch.autograd.grad`. The check reads your code for them. For the activations the model may be run once, in the mode in which it is. (A BatchNorm may learn from that.) All trained parameters are used in it.

`saved_bytes(function, except_for=...)` counts what autograd saves while a function runs; `.bytes` is the number.

<!-- hint: Which of the four need the frozen parameters, and which do not? -->
<!-- hint: `p.numel() * p.element_size()` are a tensor's bytes, whatever its dtype. Sum over `model.parameters()`, which has tied ones once, and over `model.buffers()`. -->
<!-- hint: The optimizer's part is a factor of 0, 1 or 2 on the bytes of trained parameters, and for Adam 4 bytes for each trained tensor on top. -->
"""


# %% solution="training-bytes"
def training_bytes(model, x, optimizer):
    """Return the bytes that a training of ``model`` takes, as a dict of four."""

    ### BEGIN SOLUTION
    def bytes_of(tensors):
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)

    trained = [p for p in model.parameters() if p.requires_grad]
    states = {"sgd": 0, "momentum": 1, "adam": 2}[optimizer] * bytes_of(trained)
    return {
        "weights": bytes_of(model.parameters()) + bytes_of(model.buffers()),
        "gradients": bytes_of(trained),
        "optimizer": states + (4 * len(trained) if optimizer == "adam" else 0),
        "activations": saved_bytes(lambda: model(x), except_for=model.parameters()).bytes,
    }
    ### END SOLUTION


# %% test="training-bytes"
check = Check("training-bytes")


def counted(model, x, optimizer):
    """Return the bytes of a real training, after its first step."""
    kinds = {
        "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
        "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
        "adam": lambda p: torch.optim.Adam(p, lr=0.1),
    }
    trained = [p for p in model.parameters() if p.requires_grad]
    stepper = kinds[optimizer](trained)
    saved = saved_bytes(lambda: model(x), except_for=model.parameters())
    model(x).sum().backward()
    stepper.step()
    states = [
        v for state in stepper.state.values() for v in state.values() if isinstance(v, torch.Tensor)
    ]

    def size(tensors):
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)

    return {
        "weights": size(model.parameters()) + size(model.buffers()),
        "gradients": size(p.grad for p in model.parameters() if p.grad is not None),
        "optimizer": size(states),
        "activations": saved.bytes,
    }


def predicts(model, layers, x, optimizers=("sgd", "momentum", "adam"), **options):
    for optimizer in optimizers:
        got = check.call(probes.with_network, training_bytes, layers, x, optimizer, **options)
        expected = counted(model(), x, optimizer)
        for name, number in expected.items():
            check.true(isinstance(got, dict) and name in got, f'there is no "{name}"')
            what = f"{name} with {optimizer}, {layers}, x of shape {tuple(x.shape)}"
            check.equal(got[name], number, what=what)


a, b, c = check.draw.integer(3, 6), check.draw.integer(7, 11), check.draw.integer(12, 20)
with check.property("weights, gradients, optimizer and activations of a small network"):
    predicts(
        lambda: nn.Sequential(nn.Linear(a, b), nn.Tanh(), nn.Linear(b, c)),
        [["Linear", a, b], ["Tanh"], ["Linear", b, c]],
        check.draw.normal(9, a, equal_sizes=True),
    )
with check.property("frozen parameters have neither gradients nor states", weight=2):

    def half_frozen():
        model = nn.Sequential(nn.Linear(a, b), nn.ReLU(), nn.Linear(b, c))
        model[0].requires_grad_(False)
        return model

    layers = [["Linear", a, b], ["ReLU"], ["Linear", b, c]]
    predicts(
        half_frozen,
        layers,
        check.draw.normal(13, a, equal_sizes=True),
        frozen=["0.weight", "0.bias"],
    )

    def end_frozen():
        model = nn.Sequential(nn.Linear(a, b), nn.ReLU(), nn.Linear(b, c))
        model[2].requires_grad_(False)
        return model

    predicts(
        end_frozen,
        layers,
        check.draw.normal(11, a, equal_sizes=True),
        frozen=["2.weight", "2.bias"],
    )
with check.property("buffers count as weights, and have no gradients"):
    predicts(
        lambda: nn.Sequential(nn.Linear(a, b), nn.BatchNorm1d(b)),
        [["Linear", a, b], ["BatchNorm1d", b]],
        check.draw.normal(6, a, equal_sizes=True),
    )
with check.property("it is predicted: no optimizer, no backward pass"):
    predicts(
        lambda: nn.Sequential(nn.Linear(c, a), nn.Sigmoid()),
        [["Linear", c, a], ["Sigmoid"]],
        check.draw.normal(check.draw.integer(2, 30), c, equal_sizes=True),
    )
    check.written_without("*backward*", "grad", "vjp", "jac*", "optim")
with check.property("the batch counts for the activations alone"):
    for batch in (2, 33):
        predicts(
            lambda: nn.Sequential(nn.Linear(b, c), nn.Sigmoid()),
            [["Linear", b, c], ["Sigmoid"]],
            check.draw.normal(batch, b, equal_sizes=True),
            optimizers=("adam",),
        )
with check.property("float64, eval mode, and a tied parameter", weight=0.5):
    predicts(
        lambda: nn.Sequential(nn.Linear(a, b), nn.ReLU()).double(),
        [["Linear", a, b], ["ReLU"]],
        check.draw.normal(5, a, dtype=torch.float64, equal_sizes=True),
        dtype="float64",
    )

    predicts(
        lambda: nn.Sequential(nn.Linear(a, b), nn.Dropout(0.5), nn.Linear(b, 2)).eval(),
        [["Linear", a, b], ["Dropout", 0.5], ["Linear", b, 2]],
        check.draw.normal(5, a, equal_sizes=True),
        training=[False] * 4,
    )

    def tied():
        model = nn.Sequential(nn.Linear(a, a), nn.Tanh(), nn.Linear(a, a))
        model[2].weight = model[0].weight
        return model

    layers = [["Linear", a, a], ["Tanh"], ["Linear", a, a]]
    predicts(
        tied, layers, check.draw.normal(4, a, equal_sizes=True), tied=[("0.weight", "2.weight")]
    )
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("a tied parameter that is frozen; float64 with buffers", weight=0.5):

    def tied_and_frozen():
        model = nn.Sequential(nn.Linear(b, b), nn.Tanh(), nn.Linear(b, b), nn.Linear(b, a))
        model[2].weight = model[0].weight
        model[0].weight.requires_grad_(False)
        return model

    predicts(
        tied_and_frozen,
        [["Linear", b, b], ["Tanh"], ["Linear", b, b], ["Linear", b, a]],
        check.draw.normal(3, b),
        tied=[("0.weight", "2.weight")],
        frozen=["0.weight"],
    )
    predicts(
        lambda: nn.Sequential(nn.Linear(a, b), nn.BatchNorm1d(b)).double(),
        [["Linear", a, b], ["BatchNorm1d", b]],
        check.draw.normal(c, a, dtype=torch.float64),
        dtype="float64",
    )
### END HIDDEN TESTS
check.score()

# %% [markdown]
r"""
## What an answer costs

A *flop* is one multiplication or one addition of floating-point numbers. A linear layer multiplies and adds once for each weight and each row: $2 \cdot \text{rows} \cdot \text{in} \cdot \text{out}$. A convolution does it for each weight and each *place of its output*. So a layer with few weights may cost most:
"""

# %%
from torch.utils.flop_counter import FlopCounterMode

torch.manual_seed(0)
vision = nn.Sequential(
    nn.Conv2d(3, 16, 3, padding=1),
    nn.ReLU(),
    nn.MaxPool2d(4),
    nn.Flatten(),
    nn.Linear(16 * 16 * 16, 32),
)
picture = torch.randn(1, 3, 64, 64)
with FlopCounterMode(display=False) as counter:
    vision(picture)
flops = {
    name.rpartition(".")[2]: sum(ops.values())
    for name, ops in counter.get_flop_counts().items()
    if "." in name
}
print(f"{'layer':<8}{'weights':>9}{'flops':>10}")
for name, layer in vision.named_children():
    if name in flops:
        print(f"{type(layer).__name__:<8}{layer.weight.numel():>9}{flops[name]:>10}")

# %% [markdown]
"""
The linear layer has 300 times as many weights, and the convolution needs 13 times as many operations. (Both counts leave out the bias and everything that works entry by entry.)

And time? Operations are not time: memory has to be moved, calls cost. For that there is the *profiler*. `time_shares` runs a function under `torch.profiler.profile` and adds up the time of each operation by itself:
"""

# %% tags=["nbval-ignore-output"]
with torch.no_grad():
    for operation in time_shares(lambda: vision(picture))[:5]:
        print(
            f"{operation.name:<28}{operation.share:>5.0%} of the time, {operation.calls:>3} calls"
        )

# %% [markdown]
"""
Look at the pooling: it has no weights and no flops by this count, and yet takes its part of the time. It compares, which the count does not know, and it walks through memory in strides.
"""

# %% [markdown] exercise="costliest-layer" points=5 minutes=25 difficulty=2
r"""
### The layer that costs

Write `layer_flops(model, x)`.

- **In**: a module and an input for it.
- **Out**: a dict: for each `nn.Linear` and `nn.Conv2d` in the model, its name (that of `named_modules()`) and its flops for this input, an int. Layers that are not called have 0.
- A linear layer: 2 · rows · in · out, where the rows are all axes before the last one, multiplied. A convolution: 2 · (entries of the output) · (weights that belong to *one* output channel). The bias does not count. Grouped convolutions have fewer weights for each output channel.
- A layer that is called several times adds up. The model is run once, in the mode in which it is, which stays (a BatchNorm in training may learn from it). No hook is left behind, and autograd is on afterwards, as before.

<!-- hint: What must be known about the output? Where does a weight tensor of a convolution tell how many weights belong to one output channel? -->
<!-- hint: Hook the layers. `output.numel()` is known there. For both kinds of layer the flops are 2 times the entries of the output times the entries of the weight divided by its first axis. -->
<!-- hint: `2 * output.numel() * module.weight[0].numel()` holds for both. Begin with 0 for each name, and add. -->
"""


# %% solution="costliest-layer"
def layer_flops(model, x):
    """Return the flops of each linear and convolutional layer for the input ``x``."""
    ### BEGIN SOLUTION
    layers = {n: m for n, m in model.named_modules() if isinstance(m, (nn.Linear, nn.Conv2d))}
    flops = dict.fromkeys(layers, 0)

    def hook_of(name):
        def count(module, inputs, output):
            flops[name] += 2 * output.numel() * module.weight[0].numel()

        return count

    handles = [layer.register_forward_hook(hook_of(name)) for name, layer in layers.items()]
    try:
        with torch.no_grad():
            model(x)
    finally:
        for handle in handles:
            handle.remove()
    return flops
    ### END SOLUTION


# %% test="costliest-layer"
check = Check("costliest-layer")


def flops_of(layers, x, expected, **options):
    got = check.call(probes.with_network, layer_flops, layers, x, **options)
    check.equal(got, expected, what=f"for {layers}, x of shape {tuple(x.shape)}")


def stays(modes):
    """Count, and let the model learn afterwards: it does so as if it had run once, as it is."""
    inner = nn.Sequential(nn.Linear(b, 2), nn.Dropout(0.5))
    model = nn.Sequential(nn.Linear(a, b), nn.BatchNorm1d(b), inner)
    state = {n: check.draw.uniform(*v.shape, low=0.1) for n, v in model.state_dict().items()}
    state["1.num_batches_tracked"] = torch.tensor(check.draw.integer(3, 90))
    x, inputs = check.draw.normal(4, a, equal_sizes=True), check.draw.normal(c, a)
    slope, seed = check.draw.normal(c, 2), check.draw.integer(0, 2**31)
    got = check.call(
        probes.network_then_trained,
        layer_flops,
        [["Linear", a, b], ["BatchNorm1d", b], [["Linear", b, 2], ["Dropout", 0.5]]],
        x,
        **{"inputs": inputs, "slope": slope, "seed": seed, "state": state, "training": modes},
    )
    check.equal(got["output"], {"0": 2 * 4 * a * b, "2.0": 2 * 4 * b * 2})
    model.load_state_dict(state)
    for part, mode in zip(model.modules(), modes, strict=True):
        part.training = mode
    check.with_seed(seed, model, x)
    output = check.with_seed(seed, model, inputs)
    told = f"modes {modes}; run once, and then, in those modes, "
    check.close(got["next"], output.detach(), rtol=1e-3, atol=1e-4, what=told + "the output")
    (output * slope).sum().backward()
    after = dict(model.state_dict())
    for name, weight in model.named_parameters():
        after[name] = (weight - 0.5 * weight.grad).detach()
    what = told + "the state after a step of training"
    check.close(got["state"], after, rtol=1e-3, atol=1e-3, what=what)


a, b, c = check.draw.integer(3, 6), check.draw.integer(7, 11), check.draw.integer(12, 20)
with check.property("linear layers"):
    layers = [["Linear", a, b], ["ReLU"], ["Linear", b, c]]
    flops_of(
        layers, check.draw.normal(2, a, equal_sizes=True), {"0": 2 * 2 * a * b, "2": 2 * 2 * b * c}
    )
with check.property("rows are all axes before the last"):
    x = check.draw.normal(2, 11, a)
    flops_of([["Linear", a, b, False]], x, {"0": 2 * 22 * a * b})
    flops_of([["Linear", a, 1]], x, {"0": 2 * 22 * a})
with check.property("convolutions, with stride and padding", weight=2):
    layers = [["Conv2d", 3, a, 3], ["ReLU"], [["Conv2d", a, b, 5, 2, 2]]]
    expected = {"0": 2 * 4 * a * 6 * 8 * 27, "2.0": 2 * 4 * b * 3 * 4 * a * 25}
    flops_of(layers, check.draw.normal(4, 3, 8, 10), expected)
    flops_of(
        [["Conv2d", 3, a, [1, 5]]], check.draw.normal(2, 3, 8, 10), {"0": 2 * 2 * a * 8 * 6 * 15}
    )
with check.property("grouped convolutions", weight=2):
    layers = [["Conv2d", 4, 6, 3, 1, 0, 1, 2], ["Conv2d", 6, 6, 3, 1, 1, 1, 6]]
    expected = {"0": 2 * 2 * 6 * 5 * 7 * 18, "1": 2 * 2 * 6 * 5 * 7 * 9}
    flops_of(layers, check.draw.normal(2, 4, 7, 9), expected)
with check.property("the model's modes are kept, autograd is on afterwards; it is run once"):
    stays([False, True, True, False, True, False])
with check.property("no hook is left behind", weight=0.5):
    rows = check.draw.integer(2, 20)
    x = check.draw.normal(rows, a, equal_sizes=True)
    seen = check.call(probes.network, layer_flops, [["Linear", a, b], ["ReLU"]], x)
    check.equal(seen["output"], {"0": 2 * rows * a * b})
    check.equal(seen["hooks"], 0, what="the number of hooks that are left")
with check.property("a layer that is called three times, and one that is never called"):
    layers = [["Linear", a, a], ["Linear", a, b], ["Linear", b, c]]
    expected = {"0": 3 * 2 * 5 * a * a, "1": 2 * 5 * a * b, "2": 0}
    flops_of(layers, check.draw.normal(5, a, equal_sizes=True), expected, order=[0, 0, 0, 1])
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("other modes are kept as well"):
    stays([True, True, False, True, False, True])
    stays([True, False, True, False, True, False])
with check.property("a convolution with dilation"):
    layers = [["Conv2d", 2, a, 3, 1, 0, 2]]
    flops_of(layers, check.draw.normal(3, 2, 9, 11), {"0": 2 * 3 * a * 5 * 7 * 18})
with check.property("a model that is one layer; a model without any"):
    flops_of(["Linear", a, b], check.draw.normal(3, a, equal_sizes=True), {"": 2 * 3 * a * b})
    flops_of([["ReLU"], ["Tanh"]], check.draw.normal(3, a, equal_sizes=True), {})
### END HIDDEN TESTS
check.score()

# %% [markdown]
"""
## Memory that grows

A loop as it stands in many scripts. It is to report the mean loss of an epoch. Before each batch we count the tensors that autograd keeps alive.
"""


# %% tags=["needed"] folded="Measuring tool: Alive counts the saved tensors that are still alive"
class Alive:
    """Counts tensors that autograd has saved and that are still alive."""

    def __init__(self):
        self.packed = weakref.WeakSet()

    class Kept:
        def __init__(self, tensor):
            self.tensor = tensor

    def hooks(self):
        def pack(tensor):
            kept = Alive.Kept(tensor.detach())
            self.packed.add(kept)
            return kept

        return torch.autograd.graph.saved_tensors_hooks(pack, lambda kept: kept.tensor)


# %%
def mean_loss_from_the_wild(model, batches):
    total = 0.0
    for x, y in batches:
        loss = functional.mse_loss(model(x), y)
        total += loss
    return total / len(batches)


def counted_batches(count, alive, seen):
    generator = torch.Generator().manual_seed(0)
    for _ in range(count):
        seen.append(len(alive.packed))
        yield torch.randn(8, 4, generator=generator), torch.randn(8, 1, generator=generator)


class Batches(list):
    """A list that notes how many saved tensors are alive whenever a batch is taken."""

    def __iter__(self):
        yield from counted_batches(6, alive, seen)


alive, seen = Alive(), []
little = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
with alive.hooks():
    mean = mean_loss_from_the_wild(little, Batches([None] * 6))
print("saved tensors alive before each batch:", seen)
print("and the result:", type(mean).__name__, "that requires a gradient:", mean.requires_grad)

# %% [markdown] exercise="bug-hunt-growing" points=4 minutes=15 difficulty=1
"""
### Bug hunt: the loop that grows

Every batch keeps its tensors until the end. On a large model the fourth or fifth batch is one too many, though each of them fits. Find out in cells of your own what `total` is, and what hangs on it. Then write `mean_loss(model, batches)`.

- **In**: a module and a list of pairs (x, y). **Out**: a Python float: the mean over the *batches* of `functional.mse_loss(model(x), y)`; for an empty list 0.0.
- What autograd saves for a batch is gone before the next batch begins: nothing piles up. No graph is needed at all.
- The model stays as it is, while it runs and afterwards: its modes, what is trained, and gradients that are there from before. Afterwards autograd is on, as it was.

<!-- hint: What does the sum of a float and a tensor with a graph hold on to? -->
<!-- hint: A Python number has no graph. Which method of a tensor with one entry gives it? And who says that no graph is wanted in the first place? -->
<!-- hint: Under `torch.no_grad()`, add `loss.item()`. Divide by the number of batches, unless there is none. -->
"""


# %% solution="bug-hunt-growing"
def mean_loss(model, batches):
    """Return the mean loss over the batches, without keeping any graph."""
    ### BEGIN SOLUTION
    total = 0.0
    with torch.no_grad():
        for x, y in batches:
            total += functional.mse_loss(model(x), y).item()
    return total / len(batches) if batches else 0.0
    ### END SOLUTION


# %% test="bug-hunt-growing"
check = Check("bug-hunt-growing")
LAYERS = [["Linear", 4, 7], ["BatchNorm1d", 7], ["Tanh"], ["Linear", 7, 2]]


def drawn_batches(count):
    sizes = [check.draw.integer(5, 12) for _ in range(count)]
    return [(check.draw.normal(n, 4), check.draw.normal(n, 2)) for n in sizes]


def drawn_network(modes):
    """Return a network of the check's own, and its state."""
    model = nn.Sequential(nn.Linear(4, 7), nn.BatchNorm1d(7), nn.Tanh(), nn.Linear(7, 2))
    state = {n: check.draw.uniform(*v.shape, low=0.1) for n, v in model.state_dict().items()}
    state["1.num_batches_tracked"] = torch.tensor(check.draw.integer(3, 90))
    model.load_state_dict(state)
    for part, mode in zip(model.modules(), modes, strict=True):
        part.training = mode
    return model, state


def is_mean(got, model, batches):
    losses = [(model(x) - y).square().mean().item() for x, y in batches]
    what = f"the mean loss, number of batches: {len(batches)}"
    check.close(got, math.fsum(losses) / len(losses), rtol=1e-4, what=what)


def losses_of(count, modes=(True,) * 5):
    model, state = drawn_network(modes)
    batches = drawn_batches(count)
    given = {"state": state, "training": list(modes)}
    got = check.call(probes.with_network, mean_loss, LAYERS, batches, **given)
    is_mean(got, model, batches)


def stays(modes, frozen=(), left_over=None):
    """Ask for the mean, and let the model learn afterwards: it does so as if it had only run."""
    model, state = drawn_network(modes)
    batches, seed = drawn_batches(3), check.draw.integer(0, 2**31)
    inputs, slope = check.draw.normal(9, 4), check.draw.normal(9, 2)
    got = check.call(
        probes.network_then_trained,
        mean_loss,
        LAYERS,
        batches,
        **{"inputs": inputs, "slope": slope, "seed": seed, "state": state},
        **{"training": list(modes), "frozen": frozen, "left_over": left_over},
    )
    is_mean(got["output"], model, batches)
    told = f"modes {list(modes)}, {list(frozen) or 'nothing'} frozen, gradients of {left_over} "
    told += "before; then, in those modes, "
    output = model(inputs)
    check.close(got["next"], output.detach(), rtol=1e-3, atol=1e-4, what=told + "the output")
    (output * slope).sum().backward()
    after = dict(model.state_dict())
    for name, weight in model.named_parameters():
        grad = weight.grad * (name not in frozen) + (left_over or 0.0)
        after[name] = (weight - 0.5 * grad).detach()
    what = told + "the state after a step of training, to which all gradients count"
    check.close(got["state"], after, rtol=1e-3, atol=1e-3, what=what)


with check.property("the mean over the batches, as a Python float", weight=1.5):
    losses_of(1)
    losses_of(check.draw.integer(3, 8))
with check.property("nothing piles up", weight=1.5):
    (model, state), batches = drawn_network([True] * 5), drawn_batches(6)
    got = check.call(probes.alive_while_looping, mean_loss, LAYERS, batches, state=state)
    is_mean(got["output"], model, batches)
    told = f"saved tensors alive when the model ran for each of 6 batches, and there should be none: {got['alive']}"
    told += " (growing: the sum holds graphs; always the same: a name still holds the last graph)"
    check.true(max(got["alive"]) == 0, told)
with check.property("modes, gradients and what is trained stay as they are"):
    for modes in ((True,) * 5, (False,) * 5, (True, False, False, True, True)):
        losses_of(2, modes)
        stays(modes)
    stays((False, True, True, False, False), frozen=["0.weight"])
    stays((True,) * 5, left_over=0.5)
with check.property("no batches", weight=0.5):
    check.equal(check.call(probes.with_network, mean_loss, LAYERS, []), 0.0)
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("more batches than before, one of them with a single row", weight=0.5):
    (model, state), batches = drawn_network([False] * 5), drawn_batches(14)
    batches[3] = check.draw.normal(1, 4), check.draw.normal(1, 2)
    given = {"state": state, "training": [False] * 5}
    got = check.call(probes.with_network, mean_loss, LAYERS, batches, **given)
    is_mean(got, model, batches)
### END HIDDEN TESTS
check.score()

# %% [markdown]
"""
<details><summary>What it was (open it when you have found it)</summary>

`total += loss` makes a tensor, and its graph reaches back through every loss before it, each with all that its batch has saved. PyTorch's own FAQ has named this as the first reason for running out of memory for years. `.item()` stops the growth, and so does `loss.detach()`. But as long as the name `loss` stands, it holds the last graph into the next batch. Under `torch.no_grad()` there is none.
</details>
"""

# %% [markdown]
"""
## In the wild

| what | where it is settled |
| --- | --- |
| memory of a card, and its allocator | [CUDA semantics: memory management](https://docs.pytorch.org/docs/stable/notes/cuda.html#memory-management): `PYTORCH_ALLOC_CONF=`, `expandable_segments:True`, `max_split_size_mb:` |
| a picture of every allocation | [Understanding CUDA memory usage](https://docs.pytorch.org/docs/stable/torch_cuda_memory.html): `torch.cuda.memory._record_memory_history()`, `_dump_snapshot()` |
| out of memory, asked often | [PyTorch FAQ](https://docs.pytorch.org/docs/stable/notes/faq.html) |
| reports for programs | [nvidia-smi](https://docs.nvidia.com/deploy/nvidia-smi/index.html): `--query-gpu=`, `--format=csv,noheader,nounits` |
| type promotion | [tensor attributes: torch.dtype](https://docs.pytorch.org/docs/stable/tensor_attributes.html#type-promotion-doc), `torch.result_type`, `torch.promote_types`, `torch.can_cast` |
| summaries | [torchinfo](https://github.com/TylerYep/torchinfo): `summary(model, input_size=)`; graphs: [torchviz](https://github.com/szagoruyko/pytorchviz) |
| flops | `torch.utils.flop_counter.FlopCounterMode`; [fvcore](https://github.com/facebookresearch/fvcore) |
| time | [torch.profiler](https://docs.pytorch.org/docs/stable/profiler.html): `schedule=`, `record_shapes=`, `profile_memory=`, `export_chrome_trace` |
| versions and machine | `python -m torch.utils.collect_env` |

## Recap

1. Reserved is what PyTorch has taken from the card, allocated is what tensors use; free memory in small pieces is not free for a large tensor.
2. Utilization is computing, not memory: a card that does nothing may be full.
3. A result's dtype comes from the highest category, and in it from those that count most: tensors with axes, then tensors without, then Python's numbers.
4. A training takes weights, gradients, the optimizer's states and activations; only the last grow with the batch.
5. Weights, flops and time are three different things; and a loss that is summed as a tensor keeps all graphs alive.

### Test yourself

<details><summary>1. <code>nvidia-smi</code> shows 9 GiB used by your process, <code>torch.cuda.memory_allocated()</code> says 3 GiB. Where are the other 6?</summary>

Mostly reserved: freed by tensors and kept by the allocator for later. `torch.cuda.memory_reserved()` tells. A few hundred MiB are the CUDA context itself.
</details>

<details><summary>2. Your program sets <code>os.environ["CUDA_VISIBLE_DEVICES"] = "1"</code> after <code>model.cuda()</code>, and goes on on card 0. Why is there no error?</summary>

The variable is read when CUDA is initialized, for which asking whether it is available may be enough. After that it is an entry in a dict that nobody looks at.
</details>

<details><summary>3. <code>x</code> is float16 with axes. Which dtype have <code>x * 0.1</code>, <code>x * torch.tensor(0.1)</code> and <code>x * torch.tensor([0.1])</code>?</summary>

float16, float16 and float32. The last one has an axis, and counts as much as x.
</details>

<details><summary>4. A model has 7 billion weights in float32, trained with Adam. How many bytes before the first activation?</summary>

Weights, gradients and two states: 16 bytes for each weight, 112 GB.
</details>

<details><summary>5. A 1 × 1 convolution and a 3 × 3 one have the same number of weights, since the first has nine times as many output channels. Which costs more on the same input, with padding that keeps the size?</summary>

Both cost the same: each weight is used once for each place of the output, and there are equally many places.
</details>

### References

- PyTorch documentation, ["CUDA semantics"](https://docs.pytorch.org/docs/stable/notes/cuda.html), ["Tensor attributes"](https://docs.pytorch.org/docs/stable/tensor_attributes.html), ["Frequently asked questions"](https://docs.pytorch.org/docs/stable/notes/faq.html), ["torch.profiler"](https://docs.pytorch.org/docs/stable/profiler.html).
- NVIDIA, [nvidia-smi documentation](https://docs.nvidia.com/deploy/nvidia-smi/index.html).
- S. Rajbhandari, J. Rasley, O. Ruwase, Y. He, "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", SC 2020, [arXiv:1910.02054](https://arxiv.org/abs/1910.02054), section 3 (where the bytes of a training are).
- S. Williams, A. Waterman, D. Patterson, "Roofline: An Insightful Visual Performance Model", *Communications of the ACM* 52, 2009, [doi:10.1145/1498765.1498785](https://doi.org/10.1145/1498765.1498785) (operations against memory).

### Glossary

| English | 中文 | meaning |
| --- | --- | --- |
| device, card | 设备、显卡 | where a tensor lies and is computed on |
| allocated, reserved | 已分配、已保留 | used by tensors; taken from the card |
| caching allocator | 缓存分配器 | keeps freed memory in order to hand it out again |
| fragmentation | 碎片化 | free memory in pieces that are too small |
| utilization | 利用率 | the share of time in which a card computes |
| type promotion | 类型提升 | which dtype a result has if operands differ |
| category | 类别 | bool, integer, floating or complex |
| hook | 钩子 | a function that is called when something happens |
| leaf module | 叶模块 | a module without modules inside |
| optimizer state | 优化器状态 | what an optimizer keeps for each weight |
| activations | 激活值 | what autograd saves on the way there |
| flop | 浮点运算 | one multiplication or addition |
| profiler | 性能分析器 | measures where time goes |
| memory leak | 内存泄漏 | memory that is held though nobody needs it |
"""

# %%
progress("11")
