# %% [markdown]
"""
# 11 · Looking inside: devices, dtypes, parameters, cost

A program holds eight tensors of 8 MiB on a graphics card with 80 MiB of memory. It frees four of them and requests 16 MiB. Although 48 MiB is free, the request may fail.

**中文**: 本章讲如何查看内部：显存的占用、分配与保留，nvidia-smi 报告的解析，dtype 表与类型提升，模型摘要、参数量与运算量，训练所需字节的预测，性能分析器，以及内存为何逐步增长。
"""

# %% tags=["needed"] folded="Imports"
import copy
import math
import os
import subprocess
import sys
import warnings
import weakref

import torch
from torch import nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from helpers import (
    COLORS,
    Check,
    SimulatedCard,
    allocations_of,
    explore_allocator,
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
    time_shares,
    trace_of_snapshot,
)

device = "cuda" if torch.cuda.is_available() else "cpu"

# %% tags=["needed"]
MIB = 2**20


def card_with_four_freed(freed):
    card = SimulatedCard(80 * MIB)
    blocks = [card.allocate(8 * MIB) for _ in range(8)]
    for number in freed:
        card.free(blocks[number])
    return card


# %% folded="Ask both cards for 16 MiB"
cards = {
    "every second tensor is freed": card_with_four_freed([0, 2, 4, 6]),
    "the first four are freed": card_with_four_freed([0, 1, 2, 3]),
}
free_before = {name: (c.capacity - c.allocated) // MIB for name, c in cards.items()}
largest = {name: c.largest_free // MIB for name, c in cards.items()}
before = {
    name: [[(b.size // MIB, b.is_free) for b in segment.blocks] for segment in card.segments]
    for name, card in cards.items()
}
given_back = cards["every second tensor is freed"].empty_cache() // MIB
answers = {}
for name, card in cards.items():
    try:
        card.allocate(16 * MIB)
        answers[name] = "there is room"
    except MemoryError as error:
        answers[name] = f"{error}".replace(". ", ".\n")
fitting = [name for name, answer in answers.items() if answer == "there is room"]

# %% folded="Predict: 16 MiB of 48"
predict(
    "11/first",
    "On one card, every second tensor was freed; on the other, the first four. Where does a request for 16 MiB succeed?",
    "on both"
    if len(fitting) == 2
    else {
        "every second tensor is freed": "only where every second was freed",
        "the first four are freed": "only where the first four were freed",
    }[fitting[0]],
    "PyTorch got the memory in segments of 20 MiB, each with two of the tensors. Only a segment whose tensors were both freed has 16 MiB in one piece.",
    choices=(
        "on both",
        "only where every second was freed",
        "only where the first four were freed",
    ),
)


# %% folded="Figure 11.1: two cards with 48 MiB free"
def draw_cards(cards, titles):
    figure, panels = new_figure(columns=2, height=2.4)
    for axes, segments, title in zip(panels, cards, titles, strict=True):
        for row, blocks in enumerate(segments):
            left = 0
            for size, is_free in blocks:
                color = "none" if is_free else COLORS["blue"]
                bar = {"left": left, "height": 0.7, "color": color, "edgecolor": COLORS["black"]}
                axes.barh(row, size, **bar)
                left += size
        axes.set(title=title, xlabel="MiB", ylabel="segment", ylim=(3.6, -0.6))
        axes.set_yticks(range(4), range(1, 5))
    return figure


show(
    draw_cards(
        before.values(),
        [f"{name}:\nlargest free block: {largest[name]} MiB" for name in before],
    ),
    number="11.1",
    caption="Each row is a segment, a piece of memory from the driver; filled blocks are in use. Both cards have 48 MiB free, in blocks of different sizes.",
    alt="Two cards, each with four segments of 20 MiB. On the left, each holds a free block of 8 MiB, a used one "
    "of 8 and a free remainder of 4. On the right, two are wholly free and two hold two used blocks each.",
)

# %%
for name, answer in answers.items():
    print(f"{name}: {answer}")

# %% [markdown]
"""
`SimulatedCard` follows the rules of [PyTorch's GPU memory allocator](https://github.com/pytorch/pytorch/blob/v2.6.0/c10/cuda/CUDACachingAllocator.cpp), so this chapter needs no GPU.

> **After this chapter, you will be able to**
>
> - distinguish allocated from reserved memory, recognize fragmentation, and read a memory snapshot;
> - parse a report from `nvidia-smi`;
> - predict a result's dtype and the memory that training takes;
> - count a model's parameters and operations, layer by layer;
> - find out why memory grows from step to step.
>
> **Time**: 50 minutes to read and run, 130 for the six exercises.
>
> **Prerequisites**: modules and parameters (chapter 00), saved tensors (chapter 06).
"""

# %% [markdown]
"""
## Out of memory, although memory is free

PyTorch keeps the memory of deleted tensors, because [freeing memory through the driver would make the program wait for the GPU](https://docs.pytorch.org/docs/stable/notes/cuda.html#memory-management). Its **caching allocator** gets **segments** from the driver, cuts them into **blocks**, and hands freed blocks out again.
"""

# %% folded="Drawing: what happens to a request"
show_drawing(
    "11/request",
    number="11.2",
    caption="Tensors of up to 1 MiB come from a pool with segments of 2 MiB, larger ones from a second pool. A new segment there is 20 MiB or, for a tensor of 10 MiB or more, the tensor's size rounded up to a multiple of 2 MiB. Only a segment without tensors can go back to the driver.",
    alt="A flow chart. A request, rounded up to a multiple of 512 bytes, gets the smallest free block of its pool that is large enough; the rest is split off. "
    "Otherwise a new segment comes from the driver, if necessary after wholly free segments are returned. Without room, the program is out of memory.",
)

# %% [markdown]
"""
Neighboring free blocks merge only within a segment. **Fragmentation** is free memory in blocks that are too small for the next tensor. Below, click a block in use to free it. Which one makes room for 16 MiB?
"""

# %%
explore_allocator("second", step=12)

# %% [markdown]
"""
<details><summary>What there is to find</summary>

Any of them: its segment is then wholly free. Try other events, too: in "batches that grow", each batch needs a new segment; for the last one, the allocator first returns the old ones. In "small tensors", each remaining tensor of 600 KiB keeps a segment of 2 MiB reserved.
</details>

| number | what it counts |
| --- | --- |
| `torch.cuda.memory_allocated()` | blocks in use: **allocated** |
| `torch.cuda.memory_reserved()` | segments, in use or not: **reserved** |
| used memory in `nvidia-smi` | segments, the CUDA context (what CUDA itself keeps for a program), and other programs |

`torch.cuda.empty_cache()` returns cached memory to the driver.
"""

# %% folded="Predict: emptying the cache"
predict(
    "11/cache",
    "Every second tensor was freed (figure 11.1, left). How many of the 48 free MiB does `empty_cache()` return to the driver?",
    given_back,
    "Each segment still holds a tensor, and only wholly free segments can go back.",
    between=(0, 80),
)

# %%
for name, freed in (("every second", [0, 2, 4, 6]), ("the first four", [0, 1, 2, 3])):
    card = card_with_four_freed(freed)
    reserved = card.reserved // MIB
    card.empty_cache()
    print(f"{name}: reserved {reserved} MiB, after empty_cache() {card.reserved // MIB} MiB")

# %% tags=["nbval-ignore-output", "recorded"] folded="The same on your GPU, if there is one"
if torch.cuda.is_available():
    tensors = [torch.empty(8 * MIB, dtype=torch.uint8, device="cuda") for _ in range(8)]
    del tensors[:4]
    reserved = torch.cuda.memory_reserved()
    torch.cuda.empty_cache()
    print("reserved on the GPU:", reserved, "bytes, then", torch.cuda.memory_reserved())
    del tensors
else:
    print("here: no GPU that PyTorch can use")
recorded("empty-cache")

# %% [markdown]
"""
The allocator returns wholly free segments by itself before it gives up, so `empty_cache()` mainly helps **other** programs. In your own program, `del tensor` frees the tensor's block if no other reference and no graph holds it. With `PYTORCH_ALLOC_CONF=expandable_segments:True` in the environment (in older versions `PYTORCH_CUDA_ALLOC_CONF`), segments can grow, and free pages inside them can go back to the driver.

<details><summary>Does <code>nvidia-smi --gpu-reset</code> clear the memory?</summary>

It resets the whole GPU, which requires administrator rights and [a GPU that no program uses](https://docs.nvidia.com/deploy/nvidia-smi/index.html). End the process that holds the memory instead.
</details>
"""

# %% [markdown]
"""
## A snapshot, replayed

On a GPU, PyTorch can record the allocator's events in a **memory snapshot**, which [a viewer in the browser](https://docs.pytorch.org/memory_viz) draws:

`torch.cuda.memory._record_memory_history()` … `torch.cuda.memory._dump_snapshot("snapshot.pickle")`

The trace below is simulated: `allocations_of` records when the tensors of a training run are created and freed. They are on the device `meta`, with shapes but no data. Temporary memory inside operations is not recorded.
"""


# %%
def train_on_batches_that_grow(where="meta"):
    layers = [nn.Linear(1024, 1024, device=where) for _ in range(4)]
    model = nn.Sequential(*[part for layer in layers for part in (layer, nn.GELU())])
    optimizer = torch.optim.Adam(model.parameters(), foreach=False)
    for rows in (3000, 3750, 4500, 5250, 6000):
        optimizer.zero_grad()
        model(torch.randn(rows, 1024, device=where)).sum().backward()
        optimizer.step()


trace = allocations_of(train_on_batches_that_grow)
print(len(trace), "events; the first:", trace[0])


# %% folded="Replay the trace on cards of different sizes"
def replay_on(megabytes):
    """Return what is reserved and allocated after each event, in MiB; None if a request fails."""
    card, reserved, allocated = SimulatedCard(megabytes * MIB), [], []
    for sign, name, *size in trace:
        try:
            card.allocate(*size, name) if sign == "+" else card.free(name)
        except MemoryError:
            return None
        reserved.append(card.reserved / MIB)
        allocated.append(card.allocated / MIB)
    return reserved, allocated


reserved, allocated = replay_on(2000)
most_reserved, most_allocated = max(reserved), max(allocated)
smallest = next(m for m in range(int(most_allocated), 2000) if replay_on(m) is not None)

# %% folded="Predict: the smallest card"
predict(
    "11/smallest",
    f"On a large card, this training reserves {most_reserved:.0f} MiB. What is the smallest card, in MiB, on which it runs?",
    smallest,
    "A program can need much less than it reserves: most of this memory is in segments of earlier batches, which the allocator returns when the driver has no memory left.",
    between=(0, 1000),
)

# %% folded="Figure 11.3: one trace on two cards"
figure, panels = new_figure(columns=2, height=2.6)
for axes, megabytes in zip(panels, (2000, smallest), strict=True):
    for sizes, name, color in zip(
        replay_on(megabytes), ("reserved", "allocated"), ("orange", "blue"), strict=True
    ):
        axes.plot(sizes, label=name, color=COLORS[color])
    axes.set(title=f"a card of {megabytes} MiB", xlabel="event", ylabel="MiB", ylim=(0, 900))
panels[0].legend()
show(
    figure,
    number="11.3",
    caption="On the large card, each larger batch adds new segments; on the small one, the allocator returns old ones first.",
    alt="Memory over the events. Allocated memory rises to about 270 MiB on both cards. "
    "Reserved memory climbs to 850 MiB on the large card, and follows allocated memory on the small one.",
)

# %%
print(f"allocated at most {most_allocated:.0f} MiB, reserved {most_reserved:.0f} MiB")
print(f"the smallest card on which it runs: {smallest} MiB")

# %% [markdown]
"""
Here is the same trace, event by event. Make the card smaller until a request fails:
"""

# %%
explore_allocator(trace, capacity=smallest + 6, step=200)

# %% tags=["nbval-ignore-output"] folded="A snapshot of your own GPU, if there is one"
if torch.cuda.is_available() and hasattr(torch._C, "_cuda_record_memory_history"):
    torch.cuda.memory._record_memory_history()
    train_on_batches_that_grow("cuda")
    snapshot = torch.cuda.memory._snapshot()
    torch.cuda.memory._record_memory_history(enabled=None)
    print("reserved on the GPU:", torch.cuda.max_memory_reserved() // MIB, "MiB at most")
    explore_allocator(trace_of_snapshot(snapshot)[:2000], capacity=1000)
else:
    print("here: no GPU whose history PyTorch can record")

# %% [markdown]
"""
## Reading a report

`nvidia-smi` shows how much memory of each GPU is in use. For scripts, it prints columns of your choice for each process (`--query-compute-apps=pid,process_name,used_memory`) or GPU:

`nvidia-smi --query-gpu=index,name,memory.used,memory.total,utilization.gpu --format=csv`

A real machine (driver 418, in 2021) reported:
"""

# %% tags=["needed"] folded="Data: a report on four GPUs"
FOUR_CARDS = """index, name, memory.used [MiB], memory.total [MiB], utilization.gpu [%]
0, GeForce GTX 1080 Ti, 611 MiB, 11178 MiB, 0 %
1, GeForce GTX 1080 Ti, 0 MiB, 11178 MiB, 0 %
2, GeForce GTX 1080 Ti, 0 MiB, 11178 MiB, 0 %
3, GeForce GTX 1080 Ti, 0 MiB, 11178 MiB, 0 %
"""

# %%
print(FOUR_CARDS)

# %% tags=["nbval-ignore-output", "recorded"] folded="The GPUs of your machine"
if torch.cuda.is_available():
    for number in range(torch.cuda.device_count()):
        print(number, torch.cuda.get_device_name(number), torch.cuda.mem_get_info(number))
else:
    print("here: no GPU that PyTorch can use")
recorded("cards-of-a-machine")

# %% [markdown]
"""
**Utilization** is the share of recent time in which the GPU was computing. GPU 0 computed nothing, yet 611 MiB of its memory was in use.

<details><summary>The columns of the table that <code>nvidia-smi</code> prints</summary>

| column | meaning |
| --- | --- |
| `CUDA Version` | the highest version that the *driver* supports; PyTorch was built with `torch.version.cuda` |
| `Persistence-M` | whether the driver stays loaded between programs, so that the next one [starts faster](https://docs.nvidia.com/deploy/driver-persistence/index.html) |
| `Bus-Id`, `Disp.A` | the PCI address; whether a display uses the GPU |
| `Volatile Uncorr. ECC` | uncorrected memory errors since the driver was loaded |
| `Fan`, `Temp` | intended fan speed in percent; temperature in °C |
| `Perf` | performance state, from P0 (fastest) to P12 |
| `Pwr:Usage/Cap` | power draw and its limit, in watts |
| `Compute M.` | how many programs may use the GPU: Default (any number), `E. Process` (one), Prohibited (none) |

Source: [NVIDIA](https://docs.nvidia.com/deploy/nvidia-smi/index.html).
</details>

On an idle machine, the first CUDA call of a program loads the driver, which can take seconds. In *persistence mode* (`nvidia-smi -pm 1`), the driver stays loaded.

A program sees only the GPUs that `CUDA_VISIBLE_DEVICES` lists (by number, or by UUID from `nvidia-smi -L`), in the order of the list:
"""

# %% folded="Drawing: two of four GPUs"
show_drawing(
    "11/visible-devices",
    number="11.4",
    caption="The program numbers its GPUs from 0. CUDA puts the fastest GPU first unless `CUDA_DEVICE_ORDER=PCI_BUS_ID` makes it number them as nvidia-smi does.",
    alt="Four GPUs as nvidia-smi numbers them. With CUDA_VISIBLE_DEVICES=3,1, GPU 3 is the program's first, and GPU 1 its second.",
)

# %% [markdown]
"""
CUDA reads the variable when a program first uses CUDA. The last of these four programs sets it afterwards, without effect (with no GPU, all print 0):
"""

# %% tags=["nbval-ignore-output", "recorded"]
COUNT = "print(torch.cuda.device_count())"
TOO_LATE = "torch.cuda.is_available() and torch.cuda.init(); torch.cuda.device_count(); "
TOO_LATE += "os.environ['CUDA_VISIBLE_DEVICES'] = ''; "
for visible, code in ((None, COUNT), ("0", COUNT), ("", COUNT), (None, TOO_LATE + COUNT)):
    environment = {k: v for k, v in os.environ.items() if k != "CUDA_VISIBLE_DEVICES"}
    if visible is not None:
        environment["CUDA_VISIBLE_DEVICES"] = visible
    program = [sys.executable, "-c", f"import os, torch; {code}"]
    done = subprocess.run(program, env=environment, capture_output=True, text=True)
    print(f"{visible!s:>4} {'(set too late)' * (code != COUNT):<14} GPUs: {done.stdout.strip()}")
recorded("visible-devices")

# %% [markdown]
r"""
`torch.device("cuda:0")` is the program's first GPU. A device prints differently in a list:
"""

# %%
print("the device prints as", torch.device(device), "and in a list as", [torch.device(device)])

# %% [markdown] exercise="parse-report" points=4 minutes=20 difficulty=1
r"""
### Read the report

A script that looks for a free GPU must read any such report.

`parse_report(text)`

- **In** `text`: what `nvidia-smi --query-gpu=... --format=csv` printed: a line of column names, then one for each GPU. Columns and their order vary; a comma and any number of spaces (or none) separate them. Ignore empty lines.
- **Out**: a list with a dict for each GPU, in order; an empty list for `No devices were found` and for blank text. A key is the column's name without its unit. A value becomes None if it is `N/A` or is entirely in square brackets. A number (digits, optionally a dot and more digits), alone or followed by a space and a unit of one word (`MiB`, `%`), becomes an int, or a float if it has a dot. Everything else stays text, such as `535.104.05`, `80GB`, `-5`, `nan` or nothing at all.

`parse_report("name, memory.used [MiB]\nTesla T4, 611 MiB\n")` returns `[{"name": "Tesla T4", "memory.used": 611}]`.

<!-- hint: Which line names the columns? What do you cut off from each name? -->
<!-- hint: Split each line at the commas and strip the blanks. Is a value in brackets? Is its first word a number? `isdigit()` is true for a string of digits. -->
<!-- hint: `name.split(" [")[0]` is a key. A value is a number if it has one word or two and the first consists of digits, with at most one dot between them. -->
"""


# %% solution="parse-report"
def parse_report(text):
    """Return a dict for each GPU in a CSV report from nvidia-smi."""
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
    number, _, unit = text.partition(" ")
    whole, dot, rest = number.partition(".")
    if " " in unit or not whole.isdigit() or not (rest.isdigit() or not dot):
        return text
    return float(number) if dot else int(number)
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


with check.property("one GPU, and several"):
    reads_cards(1)
    reads_cards(4)
with check.property("other columns, in another order", weight=2):
    name, used, _, _ = drawn_card()
    watts = f"{check.draw.integer(20, 300)}.{check.draw.integer(10, 99)}"
    card = {"memory.used": used, "uuid": "GPU-5da6e67e-0001", "name": name}
    reads(
        ["power.draw [W]", "memory.used [MiB]", "uuid", "name"],
        [
            [f"{watts} W", f"{used} MiB", "GPU-5da6e67e-0001", name],
            ["60.00 W", f"{used} MiB", "GPU-5da6e67e-0001", name],
        ],
        [card | {"power.draw": float(watts)}, card | {"power.draw": 60.0}],
    )
    # Seven columns with capitals, a unit with digits, and GPUs in an order that is not their index.
    columns = ["index", "PCI.Bus", "ecc [b64]", "fan [%]", "pstate", "encoder.sessions", "name"]
    reads(
        columns,
        [
            ["1", "0000:65", "3 b64", "40 %", "P8", "2", name],
            ["0", "A1", "4 b64", "9 %", "P0", "5", "T4"],
        ],
        [
            dict(zip((c.split(" ")[0] for c in columns), values, strict=True))
            for values in ([1, "0000:65", 3, 40, "P8", 2, name], [0, "A1", 4, 9, "P0", 5, "T4"])
        ],
    )


def drawn_word():
    return "".join(chr(97 + check.draw.integer(0, 26)) for _ in range(check.draw.integer(3, 8)))


with check.property("a value that the GPU does not report is None"):
    warm, busy = check.draw.integer(20, 90), check.draw.integer(0, 101)
    reads(
        ["index", "pstate", "mig.mode.current", "fan.speed [%]"],
        [["0", "[GPU is lost]", f"[{drawn_word()} {drawn_word()}]", f"[{drawn_word()}]"]],
        [{"index": 0, "pstate": None, "mig.mode.current": None, "fan.speed": None}],
    )
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
    names = {"name": "[half", "uuid": "open]", "serial": "GPU [old] 3"}
    reads([*names], [[*names.values()]], [names])
with check.property("any number of spaces, any unit or none, text that stays text, empty lines"):
    whole, parts = check.draw.integer(1, 300), check.draw.integer(10, 99)
    reads(
        ["power.draw", "energy [mJ]", "link", "serial", "pci.width [lanes]"],
        [[f"{whole}.{parts}", f"{whole}.{parts} mJ", f"{parts} {drawn_word()}", "", "16"]],
        [
            {
                **{"power.draw": float(f"{whole}.{parts}"), "energy": float(f"{whole}.{parts}")},
                **{"link": parts, "serial": "", "pci.width": 16},
            }
        ],
    )
    reads(
        ["speed", "count", "serial", "bus"],
        [["12 MB/s", "007", "1320620123456789123", "41 °C"]],
        [{"speed": 12, "count": 7, "serial": 1320620123456789123, "bus": 41}],
    )
    texts = (
        ["nan", "inf", "1e5", "1_000"],
        ["-5", "5.", ".5", "80GB"],
        ["n/a", "GPU N/A 3", "A", ""],
    )
    for words in texts:
        reads(["a", "b", "c", "d"], [words], [dict(zip("abcd", words, strict=True))])
    warm, clock = check.draw.integer(20, 90), check.draw.integer(300, 2000)
    version = f"{check.draw.integer(400, 600)}.{check.draw.integer(10, 200)}.05"
    text = "\nname,driver_version ,  temperature.gpu [C], clocks.sm [MHz]\n"
    text += f"\n3080 Laptop GPU,{version},{warm} C ,  {clock} MHz\n\nnan,inf,1e5,7 W\n"
    expected = {"name": "3080 Laptop GPU", "driver_version": version}
    expected |= {"temperature.gpu": warm, "clocks.sm": clock}
    words = {"name": "nan", "driver_version": "inf", "temperature.gpu": "1e5", "clocks.sm": 7}
    check.equal(check.call(parse_report, text), [expected, words], what=f"for {text!r}")
with check.property("no GPU"):
    for text in ("No devices were found\n", "", "\n \n", "index, name\n"):
        check.equal(check.call(parse_report, text), [], what=f"for {text!r}")
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("values that are not numbers, and unusual units"):
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
with check.property("a header alone, and many GPUs"):
    check.equal(check.call(parse_report, "index, name\n"), [])
    reads_cards(11)
### END HIDDEN TESTS
check.score()

# %% [markdown]
"""
## dtypes, from the library itself

How many dtypes are there? Ask torch.
"""

# %% folded="Count the dtypes, and list the main ones"
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
NumPy has no bfloat16 or 8-bit floats: convert them to float32 first. `.to(dtype)`, `.float()`, `.half()` and `.long()` convert a tensor; `torch.set_default_dtype` and `torch.set_default_device` set the defaults of functions such as `torch.zeros`.

Old code uses tensor types: `torch.FloatTensor` is float32 on the CPU, `torch.cuda.HalfTensor` float16 on a GPU, `torch.CharTensor` int8. Two more features of old code:
"""

# %% tags=["nbval-ignore-output"]
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    torch.set_default_tensor_type(torch.DoubleTensor)
    print("torch.zeros(1) is now", torch.zeros(1).dtype)
    torch.set_default_tensor_type(torch.FloatTensor)
    try:
        named = torch.zeros(2, 3, names=("N", "C"))
        print("align_to('C', 'N'):", named.align_to("C", "N").shape)
    except TypeError as error:
        print("named tensors:", str(error).splitlines()[0])
print("warned:", str(caught[0].message).partition(",")[0])

# %% [markdown]
"""
Newer versions of PyTorch have no named tensors; `einops.rearrange(x, "n c h w -> n (h w) c")` and einsum name the axes in the call.

When operands differ in dtype, **type promotion** picks the result's dtype by their **category** (the columns below) and their kind (the rows):
"""

# %% folded="Drawing: type promotion"
show_drawing(
    "11/promotion",
    number="11.5",
    caption="The sum of a float16 tensor with axes, a float64 tensor without axes (zero-dimensional), and the Python number 3.",
    alt="A grid of categories (bool, integer, floating, complex) and kinds of operands. In the floating column, float16 stands in the first row "
    "and float64 below it; 3 stands in the integer column of the last row. The result is float16.",
)

# %% folded="Add operands of different dtypes"
ones = torch.ones(2)
PAIRS = [
    ("int64 tensor + int8 tensor", ones.long(), ones.to(torch.int8)),
    ("int8 tensor + 2.5", ones.to(torch.int8), 2.5),
    ("float16 tensor + bfloat16 tensor", ones.half(), ones.bfloat16()),
    ("float16 tensor + float64 without axes", ones.half(), torch.tensor(1.0).double()),
    ("int64 tensor + float16 without axes", ones.long(), torch.tensor(1.0).half()),
    ("float16 tensor + 1j", ones.half(), 1j),
    ("float32 tensor + 1j", ones, 1j),
    ("float64 tensor + 1j", ones.double(), 1j),
]
results = {text: str(torch.result_type(a, b)).removeprefix("torch.") for text, a, b in PAIRS}

# %% folded="Predict: integers and one float16"
predict(
    "11/promotion",
    "You add an int64 tensor with axes and a float16 tensor without. Which dtype does the sum have?",
    results["int64 tensor + float16 without axes"],
    "Floating is the higher category, and its only operand is float16. Axes count only among operands of the same category.",
    choices=("int64", "float16", "float32", "float64"),
)

# %%
for text, result in results.items():
    print(f"{text:<40} {result}")

# %% [markdown]
"""
1. Take the operands of the highest category. Of those, one kind decides: tensors with axes if there are any, else tensors without axes, else Python numbers.
2. Several deciding operands promote to the smallest dtype that holds them all: int8 and uint8 to int16, float16 and bfloat16 to float32 (`torch.promote_types`).
3. A Python number that decides has its category's default dtype: int64, float32 or complex64. (With float16 or float64 tensors, a complex number gives complex32 or complex128.)
"""

# %% [markdown] exercise="result-dtype" points=4 minutes=20 difficulty=2
"""
### Which dtype comes out?

One stray operand can turn a whole formula into float64. Predict the dtype of a sum.

`result_dtype(operands)`

- **In** `operands`: a list of one or more pairs of strings. `("axes", "float16")` is a tensor with axes, `("point", "int64")` a tensor without axes, `("number", "float")` a Python number: bool, int or float. No operand is complex; uint8 is the only unsigned dtype.
- **Out**: the dtype of the sum of all operands as a string without `torch.`, under the usual default dtype. For bools alone, it is `"bool"`.

Apply the rules to all operands at once: adding from left to right can give another dtype.

`result_dtype([("axes", "int8"), ("number", "float")])` returns `"float32"`.

<!-- hint: Which operands decide? Look at the category first, then at the kind of operand. -->
<!-- hint: For each of the three kinds, promote the dtypes of its operands with each other, which leaves at most three dtypes. Which of them wins if the tensors with axes have the highest category? -->
<!-- hint: Begin with the tensors with axes, then take the tensors without, then the numbers. Each replaces what you have only if its category is higher. Python numbers count as bool, int64 and float32. -->
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
    """Return the dtype that torch gives for two operands, made as small tensors and numbers."""
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
    gives(("axes", "uint8"), ("axes", "int32"), result="int32")
    gives(("axes", "uint8"), ("axes", "int16"), result="int16")
    gives(("axes", "bool"), ("axes", "bool"), result="bool")
    pairs_of("axes", "axes")
with check.property("a tensor and a Python number", weight=2):
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
several = [
    ["axes int8", "point float64", "axes int16", "number float", "float64"],
    ["point bfloat16", "axes int8", "point float16", "float32"],
    ["number float", "point int32", "axes bool", "float32"],
    ["axes uint8", "number int", "axes int8", "int16"],
    ["number float", "point int64", "point float16", "float16"],
    ["axes int8", "point int64", "number int", "int8"],
    ["axes int8", "axes int64", "axes int16", "int64"],
    ["axes int16", "axes int8", "axes int32", "int32"],
    ["axes uint8", "axes int8", "axes int32", "int32"],
    ["point int8", "point int64", "point uint8", "number int", "int64"],
    ["point float16", "point float64", "point bfloat16", "float64"],
    ["number int", "point int8", "axes bool", "point float16", "axes int16", "float16"],
]
with check.property("several operands", weight=2):
    for *operands, result in several:
        pairs = [tuple(operand.split()) for operand in operands]
        gives(*pairs, result=result)
        gives(*pairs[::-1], result=result)
with check.property("one operand; bools alone"):
    gives(("axes", "bfloat16"), result="bfloat16")
    gives(("number", "int"), result="int64")
    gives(("number", "bool"), result="bool")
    gives(("number", "bool"), ("point", "bool"), ("number", "bool"), result="bool")


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
    asks(("axes", "uint8"), ("axes", "int8"), ("axes", "int32"))
    asks(("axes", "int8"), ("axes", "int32"), ("axes", "int16"))
    asks(("number", "bool"), ("axes", "bool"), ("axes", "int8"), ("axes", "int64"))
    asks(("axes", "uint8"), ("point", "int64"), ("number", "int"))
    asks(("number", "float"), ("point", "int32"), ("point", "bfloat16"))
    asks(("number", "int"), ("point", "bool"), ("point", "int32"))
    asks(("point", "float16"), ("axes", "int8"), ("point", "float64"))
### END HIDDEN TESTS
check.score()

# %% [markdown]
"""
## A model, layer by layer

`print(model)` shows a model's modules. To see shapes, run the model. A **forward hook** is a function that a module calls after its forward pass, with the module, its inputs and its output:
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
A hook stays until you call its handle's `remove()`. `model.named_modules()` yields each module with its name; the model itself comes first, named `""`. A **leaf module** contains no modules. *torchinfo* prints a table of names, shapes and parameter counts.
"""

# %% [markdown] exercise="summarize" points=5 minutes=25 difficulty=2
"""
### A summary

A table of output shapes shows where a model was wired wrongly.

`summarize(model, x)`

- **In**: a module and an input. Every leaf returns one tensor, and no two leaves share a parameter. A forward pass in eval mode changes no weights or buffers.
- **Out**: a list with a row `[name, class, shape, parameters]` for each *call* of a leaf, in order: its name in `named_modules()`, its class's name, its output's shape as a list, and the number of entries in its parameters, frozen ones included, or 0 if the leaf was called before.
- **Limits**: run the model once, or a copy of it, in eval mode and without autograd. Afterwards the model is as before (modes, weights, buffers, stored gradients, `requires_grad`), without hooks of yours, and autograd is on.

`summarize(nn.Sequential(nn.Linear(3, 2), nn.ReLU()), torch.ones(4, 3))` returns `[["0", "Linear", [4, 2], 8], ["1", "ReLU", [4, 2], 0]]`.

<!-- hint: When is an output's shape known? How does the code that runs at that moment know the module's name? -->
<!-- hint: Register a hook on every leaf; you can make a function for each name. Store the modes of all modules before `model.eval()`, and restore them afterwards, even if the model raises an error. -->
<!-- hint: Begin with `modes = [m.training for m in model.modules()]`. In a `finally` block, remove all handles and set each module's `training` to what it was. In a set, keep the names of the leaves that you have counted. -->
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


def rows_of(output):
    return [list(row) if isinstance(row, tuple) else row for row in output]


def same_rows(output, expected):
    check.equal(rows_of(output), expected)


def summary_of(layers, x, expected, **options):
    same_rows(check.call(probes.with_network, summarize, layers, x, **options), expected)


def stays(modes, frozen=(), left_over=None):
    """Summarize, then train for one step: the outcome is the same as without the summary."""
    inner = nn.Sequential(nn.Linear(b, 2), nn.Dropout(0.5))
    model = nn.Sequential(nn.Linear(a, b), nn.BatchNorm1d(b), nn.Dropout(0.5), inner)
    state = {n: check.draw.uniform(*v.shape, low=0.1) for n, v in model.state_dict().items()}
    state["1.num_batches_tracked"] = torch.tensor(check.draw.integer(3, 90))
    x, inputs = check.draw.normal(6, a, equal_sizes=True), check.draw.normal(c, a)
    slope, seed = check.draw.normal(c, 2), check.draw.integer(0, 2**31)
    got = check.call(
        probes.network_then_trained,
        summarize,
        [
            ["Linear", a, b],
            ["BatchNorm1d", b],
            ["Dropout", 0.5],
            [["Linear", b, 2], ["Dropout", 0.5]],
        ],
        x,
        **{"inputs": inputs, "slope": slope, "seed": seed},
        **{"state": state, "training": modes, "frozen": frozen, "left_over": left_over},
    )
    expected = [
        ["0", "Linear", [6, b], a * b + b],
        ["1", "BatchNorm1d", [6, b], 2 * b],
        ["2", "Dropout", [6, b], 0],
        ["3.0", "Linear", [6, 2], 2 * b + 2],
        ["3.1", "Dropout", [6, 2], 0],
    ]
    told = "the model ran again after summarize and the result grew: hooks are left"
    again = [[name, kind, [len(inputs), *sizes[1:]]] for name, kind, sizes, _ in expected]
    rest = rows_of(got["output"][len(expected) :])
    # Rows of another run may count the parameters again, or no more.
    rest = [row[:3] if isinstance(row, list) else row for row in rest]
    check.true(not rest or rest != again[: len(rest)], told)
    same_rows(got["output"], expected)
    model.load_state_dict(state)
    for part, mode in zip(model.modules(), modes, strict=True):
        part.training = mode
    output = check.with_seed(seed, model, inputs)
    told = f"(modes {modes}, stored gradients: {left_over})"
    what = f"the model's output after summarize {told}"
    check.close(got["next"], output.detach(), rtol=1e-3, atol=1e-4, what=what)
    learned = [name for name, _ in model.named_parameters() if name not in frozen]
    told_why = "a training step after summarize changed no parameter: autograd is off, or no "
    told_why += f"parameter requires a gradient {told}"
    check.true(any(not torch.equal(got["state"][n], state[n]) for n in learned), told_why)
    (output * slope).sum().backward()
    after = dict(model.state_dict())
    for name, weight in model.named_parameters():
        grad = weight.grad * (name not in frozen) + (left_over or 0.0)
        after[name] = (weight - 0.5 * grad).detach()
    what = "the model's state after summarize and a training step "
    what += f"with the new plus the stored gradients {told}"
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
    expected = [[name, "Linear", [4, a], a * a + a] for name in "01"]
    layers = [["Linear", a, a], ["Linear", a, a]]
    summary_of(layers, check.draw.normal(4, a, equal_sizes=True), expected)
with check.property("leaves of any class, leaves inside other modules, and images", weight=2):
    entries = 3 * b * (a + b) + 6 * b
    expected = [["0.0", "GRUCell", [c, b], entries], ["0.1", "Softsign", [c, b], 0]]
    summary_of([[["GRUCell", a, b], ["Softsign"]]], check.draw.normal(c, a), expected)
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
with check.property("the model then trains as if it had not been summarized", weight=1.5):
    stays([True, False, True, False, True, True, True])
    stays([False, True, False, True, False, False, True])
    stays([False] * 7, left_over=0.5)
with check.property("frozen parameters count and stay frozen; the others stay trainable"):
    stays([True] * 7, frozen=["0.weight", "3.0.bias"])
with check.property("nothing stays behind; one run, in eval mode, autograd off", weight=0.5):
    layers, rows = [["Linear", a, b], [["ReLU"]]], check.draw.integer(12, 20)
    x, modes = check.draw.normal(rows, a), [True, False, True, False]
    seen = check.call(probes.network, summarize, layers, x, training=modes)
    expected = [["0", "Linear", [rows, b], a * b + b], ["1.0", "ReLU", [rows, b], 0]]
    same_rows(seen["output"], expected)
    check.equal(seen["hooks"], 0, what="the number of hooks that are left")
    runs = len(seen["autograd"])
    check.true(runs == 1, f"the model or a copy ran {runs} times, expected 1")
    check.equal(seen["autograd"], [False], what="whether autograd was on when the model ran")
    what = "for each run of the model or of a copy, the mode of each module"
    check.equal(seen["modes"], [[False] * 4], what=what)
    what = "the modes of the model and of each module inside, after summarize"
    check.equal(seen["training"], modes, what=what)
    what = "the number of parameters with a stored gradient, after summarize (before: none)"
    check.equal(seen["gradients"], 0, what=what)
    rows_again = check.call(probes.with_network, summarize, layers, x, again=True)
    check.equal(rows_of(rows_again), expected, what="a second summary of the same model")
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
with check.property("one module in two places of the model", weight=0.5):
    layers = [["Linear", a, a], ["ReLU"], ["Linear", a, a]]
    expected = [
        ["0", "Linear", [5, a], a * a + a],
        ["1", "ReLU", [5, a], 0],
        ["0", "Linear", [5, a], 0],
    ]
    x = check.draw.normal(5, a, equal_sizes=True)
    summary_of(layers, x, expected, shared=[("0", "2")])
with check.property("a model that is a leaf itself", weight=0.5):
    summary_of(
        ["Linear", a, b],
        check.draw.normal(3, a, equal_sizes=True),
        [["", "Linear", [3, b], a * b + b]],
    )
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("a module that contains others and is used twice", weight=0.5):
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

You wrote modules; the backward pass follows the **graph** that autograd recorded. A result's `grad_fn` is its node in the graph; the node's `next_functions` lead to earlier nodes (*torchviz* draws them). A node keeps what it saves for backward in attributes whose names begin with `_saved_` (figure 11.6).
"""

# %%
net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
loss = net(torch.randn(4, 8)).square().mean()
names = {id(p): name for name, p in net.named_parameters()}
print(loss.grad_fn.name(), "comes from", loss.grad_fn.next_functions[0][0].name())


# %% folded="Figure 11.6: the graph, with what it saves"
def bytes_saved_by(node, parameters):
    """Return the bytes of the tensors that ``node`` has saved, without parameters."""
    saved = [getattr(node, name) for name in dir(node) if name.startswith("_saved_")]
    tensors = [tensor for tensor in saved if isinstance(tensor, torch.Tensor)]
    own = {p.untyped_storage().data_ptr() for p in parameters}
    return sum(t.nbytes for t in tensors if t.untyped_storage().data_ptr() not in own)


def draw_graph(root, parameters):
    figure, axes = new_figure(height=6.0)
    places, waiting, columns = {}, [(root, 0)], {}
    while waiting:
        node, depth = waiting.pop(0)
        if node in places:
            continue
        columns[depth] = columns.get(depth, -1) + 1
        places[node] = (columns[depth], -depth)
        waiting += [(before, depth + 1) for before, _ in node.next_functions if before is not None]
    boxes = {}
    for node, (x, y) in places.items():
        variable = getattr(node, "variable", None)
        label = type(node).__name__.removesuffix("0").removesuffix("Backward")
        saved = 0 if variable is not None else bytes_saved_by(node, parameters)
        label += f"\n{saved} bytes" if saved else ""
        label = names.get(id(variable), label) if variable is not None else label
        color = COLORS["orange"] if variable is not None else COLORS["sky"] if saved else "#dddddd"
        frame = {"boxstyle": "round", "fc": color, "ec": "gray"}
        text = axes.text(x, y, label, ha="center", va="center", fontsize=12, bbox=frame, color="k")
        boxes[node] = text.get_bbox_patch()
    for node, place in places.items():
        for before, _ in node.next_functions:
            if before is not None:
                arrow = {"arrowstyle": "->", "color": "gray", "shrinkA": 2, "shrinkB": 2}
                arrow |= {"patchA": boxes[node], "patchB": boxes[before]}
                axes.annotate("", places[before], place, arrowprops=arrow)
    widest = max(columns.values())
    axes.set(
        title="The graph: backward starts at the top",
        xlim=(-0.6, widest + 0.6),
        ylim=(-max(columns) - 0.6, 0.6),
    )
    axes.set_axis_off()
    return figure


show(
    draw_graph(loss.grad_fn, list(net.parameters())),
    number="11.6",
    caption="Blue nodes save tensors; parameters are orange. Addmm saves its layer's input, Tanh its output: the upper Addmm and Tanh save the same tensor.",
    alt="A graph from Mean at the top through Pow, Addmm, Tanh and Addmm to the weights and biases of two layers. "
    "Pow, Tanh and both Addmm nodes have saved bytes; Mean and the transposes T have not.",
)

# %% [markdown]
"""
Under `torch.no_grad()`, no graph is recorded. `torch.inference_mode()` also drops the version counters by which autograd notices in-place changes, so autograd refuses to save tensors made under it:
"""

# %%
with torch.inference_mode():
    features = net[0](torch.ones(1, 8))
try:
    net[2](features)
except RuntimeError as error:
    print("RuntimeError:", str(error).partition(".")[0])

# %% [markdown]
r"""
## What training takes

Training stores weights, gradients, optimizer states and **activations**, which autograd saves in the forward pass (chapter 06). Only activations grow with the batch. Optimizers keep different states:

| optimizer | states for each trained weight |
| --- | --- |
| SGD | none |
| SGD with momentum | one, of the weight's dtype |
| Adam | two, and a float32 step count for each tensor |
| Muon (`torch.optim.Muon`, matrices only) | one, the momentum |
| 8-bit Adam | two of 1 byte, each with a float32 scale for each block of 2,048 weights ([Dettmers et al.](https://arxiv.org/abs/2110.02861)) |
"""

# %% folded="Bytes of a model's activations, and of optimizers' states"
torch.manual_seed(0)
wide = nn.Sequential(
    nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
)
weights = sum(p.nbytes for p in wide.parameters())
batches = [16, 256, 4096]
activations = [
    saved_bytes(lambda n=n: wide(torch.randn(n, 256)), except_for=wide.parameters()).bytes
    for n in batches
]


def state_bytes(optimizer):
    """Return the bytes of an optimizer's states after a step."""
    for group in optimizer.param_groups:
        for p in group["params"]:
            p.grad = torch.zeros_like(p)
    optimizer.step()
    states = (v for state in optimizer.state.values() for v in state.values())
    return sum(v.nbytes for v in states if isinstance(v, torch.Tensor))


matrices = [layer.weight for layer in wide[::2]]
entries = sum(p.numel() for p in matrices)
states = {
    "SGD": state_bytes(torch.optim.SGD(matrices, lr=0.0)),
    "momentum": state_bytes(torch.optim.SGD(matrices, lr=0.0, momentum=0.9)),
    "Adam": state_bytes(torch.optim.Adam(matrices, lr=0.0)),
}
if hasattr(torch.optim, "Muon"):
    states["Muon"] = state_bytes(torch.optim.Muon(matrices, lr=0.0))
states["8-bit Adam, computed"] = sum(
    2 * (n + 4 * -(-n // 2048)) for n in map(torch.numel, matrices)
)

# %%
for name, size in states.items():
    print(f"{name:<22}{size / entries:.3f} bytes for each entry of the weight matrices")

# %% folded="Predict: a batch of 4,096"
predict(
    "11/activations",
    f"Linear layers 256 → 512 → 512 → 10 with ReLUs between them have {weights / MIB:.1f} MiB of weights. How many MiB do the activations of a batch of 4,096 rows take?",
    activations[-1] / MIB,
    "For each row, autograd saves the 256 inputs and the 512 outputs of each ReLU, which the ReLU and the next layer share.",
    between=(0, 60),
)

# %% folded="Figure 11.7: the memory of training with Adam"
figure, axes = new_figure(height=2.8)
for row, size in enumerate(activations):
    left = 0.0
    parts = {"weights": weights, "gradients": weights, "Adam": 2 * weights, "activations": size}
    colors = ("blue", "sky", "orange", "vermilion")
    for (name, part), color in zip(parts.items(), colors, strict=True):
        axes.barh(row, part / MIB, left=left, color=COLORS[color], label=name if row == 0 else None)
        left += part / MIB
axes.set(title="The memory of training with Adam", xlabel="MiB", ylabel="rows in a batch")
axes.set_yticks(range(3), batches)
axes.legend()
show(
    figure,
    number="11.7",
    caption="With few rows, Adam's states take the most memory; with many, the activations do.",
    alt="Stacked bars for batches of 16, 256 and 4096. Only the activations differ: they are a sliver at 16 and by far the largest part at 4096.",
)

# %%
for n, size in zip(batches, activations, strict=True):
    print(f"weights {weights} bytes, activations of a batch of {n:>4}: {size:>9} bytes")

# %% [markdown]
"""
A function given to `register_post_accumulate_grad_hook` runs as soon as a parameter's gradient is complete. An optimizer that steps there can drop the gradient at once ([PyTorch's tutorial](https://docs.pytorch.org/tutorials/intermediate/optimizer_step_in_backward_tutorial.html)):
"""


# %%
def gradient_bytes_during_backward(step_inside):
    model, alive = nn.Sequential(*[nn.Linear(256, 256) for _ in range(8)]), []

    def hook(parameter):
        alive.append(sum(p.grad.nbytes for p in model.parameters() if p.grad is not None))
        if step_inside:
            torch.optim.SGD([parameter], lr=0.1).step()
            parameter.grad = None

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(hook)
    model(torch.ones(4, 256)).sum().backward()
    return alive


# %% folded="Figure 11.8: gradients during backward"
figure, axes = new_figure(height=2.6)
inside, outside = (gradient_bytes_during_backward(step_inside=inside) for inside in (True, False))
axes.plot([size / MIB for size in outside], label="step after backward", color=COLORS["vermilion"])
axes.plot([size / MIB for size in inside], label="step inside backward", color=COLORS["blue"])
axes.set(title="Gradients that are alive", xlabel="gradients completed before", ylabel="MiB")
axes.legend()
show(
    figure,
    number="11.8",
    caption="With a step inside backward, at most one gradient is alive, but gradients can be neither clipped by their total norm nor accumulated.",
    alt="Bytes of gradients against the gradients completed. With a step after backward, the curve climbs to 2 MiB; with a step inside, it stays at a quarter of a MiB or below.",
)

# %%
print(f"at most {max(outside)} bytes of gradients; with a step inside backward {max(inside)}")

# %% [markdown] exercise="training-bytes" points=5 minutes=25 difficulty=2
"""
### The bytes of a training run

Find out whether a model fits before the job waits in a queue.

`training_bytes(model, x, optimizer)`

- **In**: a module, whose parameters share one dtype (not always float32) and may be frozen or tied (each trained one gets a gradient); an input; and `"sgd"`, `"momentum"` or `"adam"`.
- **Out**: a dict of four ints, in bytes. `"weights"`: parameters and buffers. `"gradients"`: all gradients after backward. `"optimizer"`: states after the first step, as in the table, in the weights' dtype (Adam's step counts in float32). `"activations"`: what autograd saves in `model(x)`, buffers included, without the parameters.
- **Limits**: make no optimizer (the check reads your code) and run no backward pass, in any form. The model may run, in its current mode.

`saved_bytes(function, except_for=tensors).bytes` counts what autograd saves while `function()` runs.

`training_bytes(nn.Linear(3, 2), torch.ones(4, 3), "adam")` returns `{"weights": 32, "gradients": 32, "optimizer": 72, "activations": 48}`.

<!-- hint: Which of the four numbers include frozen parameters, and which do not? -->
<!-- hint: A tensor `p` has `p.numel() * p.element_size()` bytes, whatever its dtype. Sum over `model.parameters()`, which yields a tied parameter once, and over `model.buffers()`. -->
<!-- hint: The optimizer's states take 0, 1 or 2 times the bytes of the trained parameters. Adam adds 4 bytes for each trained tensor. -->
"""


# %% solution="training-bytes"
def training_bytes(model, x, optimizer):
    """Return the bytes that training ``model`` takes, as a dict of four."""

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


TOLD = {"dtype": "in {}", "frozen": "frozen: {}", "tied": "tied: {}", "unsaved": "unsaved: {}"}


def predicts(model, layers, x, optimizers=("sgd", "momentum", "adam"), **options):
    told = [words.format(options[name]) for name, words in TOLD.items() if name in options]
    told += ["in eval mode"] if "training" in options else []
    for optimizer in optimizers:
        got = check.call(probes.with_network, training_bytes, layers, x, optimizer, **options)
        expected = counted(model(), x, optimizer)
        others = sorted(set(got) - set(expected)) if isinstance(got, dict) else []
        check.true(not others, f"the result has other keys as well: {others}")
        for name, number in expected.items():
            check.true(isinstance(got, dict) and name in got, f'the result has no key "{name}"')
            what = ", ".join([f"{name} with {optimizer}", *told, f"{layers}"])
            what += f", x of shape {tuple(x.shape)}"
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

    def all_but_the_end_frozen():
        model = nn.Sequential(nn.Linear(a, b), nn.Tanh(), nn.Linear(b, c), nn.Sigmoid())
        return nn.Sequential(*model.requires_grad_(False), nn.Linear(c, a))

    layers = [["Linear", a, b], ["Tanh"], ["Linear", b, c], ["Sigmoid"], ["Linear", c, a]]
    predicts(
        all_but_the_end_frozen,
        layers,
        check.draw.normal(10, a),
        optimizers=("adam",),
        frozen=["0.weight", "0.bias", "2.weight", "2.bias"],
    )
with check.property("buffers count as weights, and have no gradients"):
    predicts(
        lambda: nn.Sequential(nn.Linear(a, b), nn.BatchNorm1d(b)),
        [["Linear", a, b], ["BatchNorm1d", b]],
        check.draw.normal(6, a, equal_sizes=True),
    )
    predicts(
        lambda: nn.Sequential(nn.Linear(a, b), nn.BatchNorm1d(b)),
        [["Linear", a, b], ["BatchNorm1d", b]],
        check.draw.normal(7, a, equal_sizes=True),
        optimizers=("adam",),
        unsaved=["1.running_mean"],
    )
with check.property("no optimizer and no backward pass"):
    layers, x = [["Linear", c, a], ["Sigmoid"]], check.draw.normal(check.draw.integer(21, 30), c)
    predicts(lambda: nn.Sequential(nn.Linear(c, a), nn.Sigmoid()), layers, x)
    seen = check.call(probes.network, training_bytes, layers, x, "adam")
    told = "a backward pass ran: it computed gradients of the model's output or of its parameters"
    check.true(seen["backward"] is False, told)
    check.written_without("optim", any_text=False)
with check.property("only the activations grow with the batch"):
    for batch in (2, 33):
        predicts(
            lambda: nn.Sequential(nn.Linear(b, c), nn.Sigmoid()),
            [["Linear", b, c], ["Sigmoid"]],
            check.draw.normal(batch, b, equal_sizes=True),
            optimizers=("adam",),
        )
with check.property("float64 and 16-bit floats, eval mode, and a tied parameter", weight=0.5):
    for dtype, optimizer in ((torch.bfloat16, "adam"), (torch.float16, "momentum")):
        predicts(
            lambda dtype=dtype: nn.Sequential(nn.Linear(a, b), nn.ReLU()).to(dtype),
            [["Linear", a, b], ["ReLU"]],
            check.draw.normal(c, a).to(dtype),
            optimizers=(optimizer,),
            dtype=str(dtype).removeprefix("torch."),
        )
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
## What one input costs

A **flop** is one multiplication or addition of floats. A linear layer takes $2 \cdot \text{rows} \cdot \text{in} \cdot \text{out}$ of them. A convolution uses each weight at every output position:
"""

# %% folded="Drawing: how often a weight is used"
show_drawing(
    "11/uses",
    number="11.9",
    caption="Each use is one multiplication and one addition.",
    alt="A weight of a linear layer leads to one entry of the output. A weight of a convolution leads to all 24 positions of its output.",
)

# %% folded="Count the flops of two layers"
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

# %% folded="Predict: a convolution with few weights"
predict(
    "11/flops",
    f"A convolution has {vision[0].weight.numel()} weights and keeps the image's size of 64 × 64; a later linear layer has {vision[4].weight.numel():,} weights. How many flops does the convolution take for each flop of the linear layer?",
    flops["0"] / flops["4"],
    "Each weight of the convolution is used at 4,096 positions, each weight of the linear layer only once.",
    between=(0, 30),
)

# %%
print(f"{'layer':<8}{'weights':>9}{'flops':>10}")
for name, layer in vision.named_children():
    if name in flops:
        print(f"{type(layer).__name__:<8}{layer.weight.numel():>9}{flops[name]:>10}")

# %% [markdown]
"""
Flops are not time: moving data and calling operations take time, too. The **profiler** measures time; `time_shares` adds up what `torch.profiler.profile` records for each operation. Time can also depend on the memory format; `channels_last` stores the channels of each pixel side by side:
"""

# %% tags=["nbval-ignore-output"]
with torch.no_grad():
    for operation in time_shares(lambda: vision(picture))[:4]:
        print(
            f"{operation.name:<28}{operation.share:>5.0%} of the time, {operation.calls:>3} calls"
        )
    images = torch.randn(8, 16, 64, 64)
    last = images.to(memory_format=torch.channels_last)
    print("strides:", images.stride(), "and", last.stride(), "with channels_last")
    layer = nn.Conv2d(16, 16, 3)
    layer_last = nn.Conv2d(16, 16, 3).to(memory_format=torch.channels_last)
    ratio = time_ratio(lambda: layer(images), lambda: layer_last(last), seconds=0.5)
print("a convolution takes", ratio, "as long as with channels_last")

# %% [markdown] exercise="costliest-layer" points=5 minutes=25 difficulty=2
r"""
### The costliest layer

Before you make a model smaller, find the layer that costs most.

`layer_flops(model, x)`

- **In**: a module and an input, with or without an axis for the batch.
- **Out**: a dict with the flops, an int, for each `nn.Linear` and `nn.Conv2d` under its name in `named_modules()`; 0 if it is not called, the sum if it is called several times.
- A linear layer: 2 · rows · in · out, where rows is the product of the sizes of all axes but the last. A convolution: 2 · (entries of the output) · (weights of *one* output channel; fewer in a grouped convolution). The bias does not count.
- **Limits**: run the model once, or a copy of it, in its current modes, and leave the modes unchanged. (A BatchNorm may update its running statistics.) Afterwards no hook of yours is left, and autograd is on.

`layer_flops(nn.Sequential(nn.Linear(3, 2)), torch.ones(4, 3))` returns `{"0": 48}`.

<!-- hint: What do you need to know about the output? Which axis of a convolution's weight tensor counts its output channels? -->
<!-- hint: Register a hook on each layer; the hook receives the output. For both kinds of layer, the flops are twice the entries of the output times the entries of the weight, divided by the size of the weight's first axis. -->
<!-- hint: `2 * output.numel() * module.weight[0].numel()` holds for both. Begin with 0 for each name, and add at each call. -->
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
    told = [f", {name}: {options[name]}" for name in ("frozen", "shared") if name in options]
    check.equal(got, expected, what=f"for {layers}, x of shape {tuple(x.shape)}{''.join(told)}")


def stays(modes):
    """Count, then train for one step: the outcome is as if the model, or a copy, had run once."""
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
    told = "the model ran again after layer_flops and the result grew: hooks are left"
    once, again = ({"0": 2 * rows * a * b, "2.0": 2 * rows * b * 2} for rows in (4, 4 + c))
    partly = [{**once, name: again[name]} for name in once]
    check.true(got["output"] not in (again, *partly), told)
    check.equal(got["output"], once)
    model.load_state_dict(state)
    for part, mode in zip(model.modules(), modes, strict=True):
        part.training = mode
    check.with_seed(seed, model, x)
    tracked = "1.num_batches_tracked"
    if modes[2] and got["state"][tracked] == state[tracked] + 1:  # a copy ran
        model.load_state_dict(state)
    output = check.with_seed(seed, model, inputs)
    what = f"the model's output after layer_flops ran it, or a copy, once (modes {modes})"
    check.close(got["next"], output.detach(), rtol=1e-3, atol=1e-4, what=what)
    told = "a training step after layer_flops changed no parameter: autograd is off, or no "
    told += "parameter requires a gradient"
    stuck = [torch.equal(got["state"][n], state[n]) for n, _ in model.named_parameters()]
    check.true(not all(stuck), told)
    (output * slope).sum().backward()
    after = dict(model.state_dict())
    for name, weight in model.named_parameters():
        after[name] = (weight - 0.5 * weight.grad).detach()
    what = "the model's state after layer_flops ran it, or a copy, once, "
    what += f"and after a training step (modes {modes})"
    check.close(got["state"], after, rtol=1e-3, atol=1e-3, what=what)


a, b, c = check.draw.integer(3, 6), check.draw.integer(7, 11), check.draw.integer(12, 20)
with check.property("linear layers"):
    layers = [["Linear", a, b], ["ReLU"], ["Linear", b, c]]
    flops_of(
        layers, check.draw.normal(2, a, equal_sizes=True), {"0": 2 * 2 * a * b, "2": 2 * 2 * b * c}
    )
    flops_of(["Linear", a, b], check.draw.normal(12, a), {"": 2 * 12 * a * b})
with check.property("rows span all axes but the last; only the two kinds of layers count"):
    x = check.draw.normal(2, 11, a)
    flops_of([["Linear", a, b, False]], x, {"0": 2 * 22 * a * b})
    flops_of([["Linear", a, 1]], x, {"0": 2 * 22 * a}, frozen=["0.weight", "0.bias"])
    flops_of([["Linear", a, b]], check.draw.normal(a), {"0": 2 * a * b})
    layers = [["Conv1d", 3, 4, 3], ["Linear", 11, b]]
    flops_of(layers, check.draw.normal(2, 3, 13), {"1": 2 * 8 * 11 * b})
    # The weights of these have as many axes as those of the two kinds.
    layers = [["Embedding", 5, a], ["Linear", a, b]]
    ids = check.draw.integers(9, low=0, high=5)
    flops_of(layers, ids, {"1": 2 * 9 * a * b})
    layers = [["ConvTranspose2d", 2, 3, 2], ["Conv2d", 3, a, 1]]
    flops_of(layers, check.draw.normal(2, 4, 6), {"1": 2 * a * 5 * 7 * 3})
with check.property("convolutions, with stride, padding and dilation", weight=2):
    layers = [["Conv2d", 3, a, 3], ["ReLU"], [["Conv2d", a, b, 5, 2, 2]]]
    expected = {"0": 2 * 4 * a * 6 * 8 * 27, "2.0": 2 * 4 * b * 3 * 4 * a * 25}
    flops_of(layers, check.draw.normal(4, 3, 8, 10), expected)
    flops_of(
        [["Conv2d", 3, a, [1, 5]]], check.draw.normal(2, 3, 8, 10), {"0": 2 * 2 * a * 8 * 6 * 15}
    )
    flops_of([["Conv2d", 3, a, 3]], check.draw.normal(3, 8, 10), {"0": 2 * a * 6 * 8 * 27})
    x = check.draw.normal(3, 2, 9, 11)
    layers = [["Conv2d", 2, a, [3, 5], [2, 1], [0, 2], [1, 2]]]
    flops_of(layers, x, {"0": 2 * 3 * a * 4 * 7 * 30})
    flops_of([["Conv2d", 2, a, 5, 1, "same"]], x, {"0": 2 * 3 * a * 9 * 11 * 50})
with check.property("grouped convolutions", weight=2):
    layers = [["Conv2d", 4, 6, 3, 1, 0, 1, 2], ["Conv2d", 6, 6, 3, 1, 1, 1, 6]]
    expected = {"0": 2 * 2 * 6 * 5 * 7 * 18, "1": 2 * 2 * 6 * 5 * 7 * 9}
    flops_of(layers, check.draw.normal(2, 4, 7, 9), expected)
with check.property("the model runs once and keeps its modes; autograd is on afterwards"):
    stays([False, True, True, False, True, False])
    stays([True, True, False, True, False, True])
with check.property("no hook is left; the model runs once, in its current modes", weight=0.5):
    rows = check.draw.integer(2, 20)
    x = check.draw.normal(rows, a, equal_sizes=True)
    layers = [["Linear", a, b], [["BatchNorm1d", b]]]
    for modes in ([True, False, True, False], [False, True, False, True]):
        seen = check.call(probes.network, layer_flops, layers, x, training=modes)
        check.equal(seen["output"], {"0": 2 * rows * a * b})
        check.equal(seen["hooks"], 0, what="the number of hooks that are left")
        runs = len(seen["modes"])
        check.true(runs == 1, f"the model or a copy ran {runs} times, expected 1")
        what = "the mode of each module when the model ran"
        check.equal(seen["modes"], [modes], what=what)
        what = "the modes of the model and of each module inside, after layer_flops"
        check.equal(seen["training"], modes, what=what)
with check.property("a layer that is called three times, and one that is never called"):
    layers = [["Linear", a, a], ["Linear", a, b], ["Linear", b, c]]
    expected = {"0": 3 * 2 * 5 * a * a, "1": 2 * 5 * a * b, "2": 0}
    flops_of(layers, check.draw.normal(5, a, equal_sizes=True), expected, order=[0, 0, 0, 1])
with check.property("one layer in two places of the model", weight=0.5):
    layers = [["Linear", a, a], ["ReLU"], ["Linear", a, a]]
    x = check.draw.normal(5, a, equal_sizes=True)
    flops_of(layers, x, {"0": 2 * 2 * 5 * a * a}, shared=[("0", "2")])
    layers = [[["Linear", a, a], ["ReLU"]], [["Linear", a, a]]]
    flops_of(layers, x, {"0.0": 2 * 2 * 5 * a * a}, shared=[("0.0", "1.0")])
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("other modes are kept as well"):
    stays([True, True, False, True, False, True])
    stays([True, False, True, False, True, False])
with check.property("a convolution with dilation"):
    layers = [["Conv2d", 2, a, 3, 1, 0, 2]]
    flops_of(layers, check.draw.normal(3, 2, 9, 11), {"0": 2 * 3 * a * 5 * 7 * 18})
with check.property("a model that is one layer; a model without layers that count"):
    flops_of(["Linear", a, b], check.draw.normal(3, a, equal_sizes=True), {"": 2 * 3 * a * b})
    flops_of([["ReLU"], ["Tanh"]], check.draw.normal(3, a, equal_sizes=True), {})
### END HIDDEN TESTS
check.score()

# %% [markdown]
"""
## Memory that grows

This loop reports the mean loss of an epoch. With a large model, the first batches fit on the GPU, but a later one of the same size does not. Figure 11.10 counts the saved tensors that are alive before each batch.
"""


# %%
def mean_loss_from_the_wild(model, batches):
    total = 0.0
    for x, y in batches:
        loss = functional.mse_loss(model(x), y)
        total += loss
    return total / len(batches)


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


# %% folded="Run the loop on eight batches"
class CountedBatches(list):
    """Eight batches that note how many saved tensors are alive whenever one is taken."""

    def __iter__(self):
        generator = torch.Generator().manual_seed(0)
        for _ in range(8):
            seen.append(len(alive.packed))
            yield torch.randn(8, 4, generator=generator), torch.randn(8, 1, generator=generator)


alive, seen = Alive(), []
little = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
with alive.hooks():
    mean = mean_loss_from_the_wild(little, CountedBatches([None] * 8))

# %% folded="Figure 11.10: saved tensors before each batch"
figure, axes = new_figure(height=2.4)
axes.bar(range(1, 9), seen, color=COLORS["vermilion"])
axes.set(title="Saved tensors that are alive", xlabel="before batch", ylabel="tensors")
show(
    figure,
    number="11.10",
    caption="Each batch leaves six saved tensors behind.",
    alt="Bars for batches 1 to 8. No saved tensors are alive before batch 1; each batch adds six.",
)

# %%
print("saved tensors alive before each batch:", seen)

# %% [markdown] exercise="bug-hunt-growing" points=4 minutes=15 difficulty=1
"""
### Bug hunt: the loop that grows

In cells of your own, find out what keeps the tensors alive. Then write a loop that keeps none of them.

`mean_loss(model, batches)`

- **In**: a module and a list of pairs (x, y).
- **Out**: a Python float, the mean over the *batches* of `functional.mse_loss(model(x), y)`; 0.0 for an empty list.
- **Limits**: no tensor that autograd saved for a batch is alive when the model runs for the next one. Run the model, or a copy of it, in its current modes, and leave its modes, `requires_grad` and stored gradients unchanged. (A BatchNorm may update its running statistics.) Afterwards autograd is on.

`mean_loss(nn.Identity(), [(torch.ones(2, 1), torch.zeros(2, 1)), (torch.ones(1, 1), torch.ones(1, 1))])` returns `0.5`.

<!-- hint: What is the type of `total` after the first batch, and which attributes does it have? -->
<!-- hint: A Python number has no graph. Which method turns a tensor with one entry into a number? And does this loop need a graph at all? -->
<!-- hint: Under `torch.no_grad()`, add `loss.item()`. Divide by the number of batches, unless there is none. -->
"""


# %% solution="bug-hunt-growing"
def mean_loss(model, batches):
    """Return the mean loss over the batches."""
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


def mean_of(model, batches):
    losses = [(model(x) - y).square().mean().item() for x, y in batches]
    return math.fsum(losses) / max(len(losses), 1)


def is_mean(got, model, batches):
    check.true(isinstance(got, float), f"{type(got).__name__} came back, expected a float")
    in_eval = mean_of(copy.deepcopy(model).eval(), batches)
    mean = mean_of(model, batches)
    if not math.isclose(mean, in_eval, rel_tol=1e-2):
        told = f"{got:.4g} is the mean loss with every module in evaluation mode, not in its own"
        check.true(not math.isclose(got, in_eval, rel_tol=1e-4), told)
    check.close(got, mean, rtol=1e-4, what=f"the mean loss (batches: {len(batches)})")


def losses_of(count, modes=(True,) * 5):
    model, state = drawn_network(modes)
    batches = drawn_batches(count)
    given = {"state": state, "training": list(modes)}
    got = check.call(probes.with_network, mean_loss, LAYERS, batches, **given)
    is_mean(got, model, batches)


def stays(modes, frozen=(), left_over=None, count=3):
    """Ask for the mean, then train for one step: as if the model, or a copy, had only run."""
    model, state = drawn_network(modes)
    batches, seed = drawn_batches(count), check.draw.integer(0, 2**31)
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
    told = f"(modes {list(modes)}, frozen: {list(frozen) or 'nothing'}, "
    told += f"stored gradients: {left_over})"
    tracked = "1.num_batches_tracked"
    if modes[2] and got["state"][tracked] == state[tracked] + 1:  # a copy ran
        model.load_state_dict(state)
    output = model(inputs)
    what = f"the model's output after mean_loss {told}"
    check.close(got["next"], output.detach(), rtol=1e-3, atol=1e-4, what=what)
    learned = [name for name, _ in model.named_parameters() if name not in frozen]
    told_why = "a training step after mean_loss changed no parameter: autograd is off, or no "
    told_why += f"parameter requires a gradient {told}"
    check.true(any(not torch.equal(got["state"][n], state[n]) for n in learned), told_why)
    (output * slope).sum().backward()
    after = dict(model.state_dict())
    for name, weight in model.named_parameters():
        grad = weight.grad * (name not in frozen) + (left_over or 0.0)
        after[name] = (weight - 0.5 * grad).detach()
    what = "the model's state after mean_loss and a training step "
    what += f"with the new plus the stored gradients {told}"
    check.close(got["state"], after, rtol=1e-3, atol=1e-3, what=what)


with check.property("the mean over the batches, as a Python float", weight=1.5):
    losses_of(1)
    losses_of(check.draw.integer(3, 8))
with check.property("no saved tensors accumulate", weight=1.5):
    (model, state), batches = drawn_network([True] * 5), drawn_batches(6)
    got = check.call(probes.alive_while_looping, mean_loss, LAYERS, batches, state=state)
    is_mean(got["output"], model, batches)
    told = (
        f"saved tensors alive when the model ran for each of 6 batches: {got['alive']}, expected "
    )
    told += "0 each time"
    check.true(max(got["alive"]) == 0, told)
with check.property(
    "modes, stored gradients and requires_grad do not change, and autograd is on afterwards"
):
    for modes in ((True,) * 5, (False,) * 5, (True, False, False, True, True)):
        losses_of(2, modes)
        left = check.call(probes.network, mean_loss, LAYERS, drawn_batches(2), training=list(modes))
        what = "the modes of the model and of each module inside, after mean_loss"
        check.equal(left["training"], list(modes), what=what)
        what = "the number of parameters with a stored gradient, after mean_loss (before: none)"
        check.equal(left["gradients"], 0, what=what)
        stays(modes)
    stays((False, True, True, False, False), frozen=["0.weight"])
    left = check.call(probes.network, mean_loss, LAYERS, drawn_batches(2), left_over=0.5)
    what = "the number of parameters with a stored gradient, after mean_loss (before: 6)"
    check.equal(left["gradients"], 6, what=what)
    stays((True,) * 5, left_over=0.5)
with check.property("no batches; batches of few rows, small losses, no layers", weight=0.5):
    got = check.call(probes.with_network, mean_loss, LAYERS, [])
    is_mean(got, nn.Identity(), [])
    stays((True,) * 5, count=0)
    inputs = [check.draw.normal(rows, 5) for rows in (2, 1, 3)]
    batches = [(x, x + 0.001 * check.draw.normal(*x.shape)) for x in inputs]
    got = check.call(probes.with_network, mean_loss, ["Identity"], batches)
    is_mean(got, nn.Identity(), batches)
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("more batches, one of them with a single row", weight=0.5):
    (model, state), batches = drawn_network([False] * 5), drawn_batches(14)
    batches[3] = check.draw.normal(1, 4), check.draw.normal(1, 2)
    given = {"state": state, "training": [False] * 5}
    got = check.call(probes.with_network, mean_loss, LAYERS, batches, **given)
    is_mean(got, model, batches)
### END HIDDEN TESTS
check.score()

# %% [markdown]
"""
<details><summary>Diagnosis (open this once you have found it)</summary>

`total += loss` makes `total` a tensor whose graph contains the graphs of all earlier losses, with everything that autograd saved for them. [PyTorch's FAQ](https://docs.pytorch.org/docs/stable/notes/faq.html) names this first among the causes of running out of memory. `.item()` stops the growth, but the name `loss` keeps the last graph alive during the next batch; under `torch.no_grad()`, there is no graph.
</details>
"""

# %% [markdown]
"""
## In the wild

| topic | where to look |
| --- | --- |
| a GPU's memory and its allocator | [CUDA semantics](https://docs.pytorch.org/docs/stable/notes/cuda.html#memory-management): `expandable_segments:True`, `max_split_size_mb:` |
| memory snapshots | [Understanding CUDA memory usage](https://docs.pytorch.org/docs/stable/torch_cuda_memory.html) |
| reports for scripts | [nvidia-smi](https://docs.nvidia.com/deploy/nvidia-smi/index.html): `--format=csv,noheader,nounits` |
| type promotion | [torch.dtype](https://docs.pytorch.org/docs/stable/tensor_attributes.html#type-promotion-doc), `torch.result_type`, `torch.can_cast` |
| summaries, graphs | [torchinfo](https://github.com/TylerYep/torchinfo): `summary(model, input_size=)`; [torchviz](https://github.com/szagoruyko/pytorchviz): `make_dot` |
| 8-bit optimizers | [bitsandbytes](https://huggingface.co/docs/bitsandbytes/optimizers) |
| flops | `torch.utils.flop_counter`; [fvcore](https://github.com/facebookresearch/fvcore) |
| time | [torch.profiler](https://docs.pytorch.org/docs/stable/profiler.html): `profile_memory=`, `export_chrome_trace` |
| versions and machine | `python -m torch.utils.collect_env` |

## Recap

1. Tensors use allocated memory; PyTorch holds reserved memory. Small free blocks are of no use to a large tensor.
2. A GPU at 0% utilization can still have memory in use.
3. Within the highest category, tensors with axes take precedence in deciding a result's dtype, then tensors without axes, then Python numbers.
4. In training, only the memory of the activations grows with the batch.
5. A layer with few weights can take many flops, and flops are not time.
6. A sum of loss tensors keeps the graphs of all batches alive.

### Test yourself

<details><summary>1. <code>nvidia-smi</code> shows 9 GiB used by your process, and <code>torch.cuda.memory_allocated()</code> says 3 GiB. Where are the other 6?</summary>

In cached blocks and in the CUDA context; `torch.cuda.memory_reserved()` shows what PyTorch holds.
</details>

<details><summary>2. <code>x</code> is a float16 tensor with axes. What are the dtypes of <code>x * 0.1</code>, <code>x * torch.tensor(0.1)</code> and <code>x * torch.tensor([0.1])</code>?</summary>

float16, float16 and float32: the last factor has an axis, so it counts as much as <code>x</code>.
</details>

<details><summary>3. A model with 7 billion float32 weights is trained with Adam. How many bytes does training take without the activations?</summary>

Weights, gradients and two states: 16 bytes for each weight, 112 GB.
</details>

<details><summary>4. A 1 × 1 convolution with nine times as many output channels has as many weights as a 3 × 3 convolution. Which takes more flops on the same input if both keep its size?</summary>

Neither: both use each weight once at each output position.
</details>

### References

- PyTorch documentation, ["CUDA semantics"](https://docs.pytorch.org/docs/stable/notes/cuda.html), ["Tensor attributes"](https://docs.pytorch.org/docs/stable/tensor_attributes.html).
- T. Dettmers, M. Lewis, S. Shleifer, L. Zettlemoyer, "8-bit Optimizers via Block-wise Quantization", ICLR 2022, [arXiv:2110.02861](https://arxiv.org/abs/2110.02861).
- S. Rajbhandari, J. Rasley, O. Ruwase, Y. He, "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", SC 2020, [arXiv:1910.02054](https://arxiv.org/abs/1910.02054), section 3.

### Glossary

| English | 中文 | meaning |
| --- | --- | --- |
| caching allocator | 缓存分配器 | keeps freed memory in order to hand it out again |
| segment, block | 段、块 | memory from the driver; a piece of it |
| allocated, reserved | 已分配、已保留 | used by tensors; held by PyTorch |
| fragmentation | 碎片化 | free memory in blocks that are too small |
| memory snapshot | 显存快照 | a record of the allocator's events |
| utilization | 利用率 | the share of recent time in which a GPU computed |
| type promotion | 类型提升 | the rule that gives mixed dtypes a common, wide enough dtype |
| category | 类别 | bool, integer, floating or complex |
| forward hook | 前向钩子 | a function that a module calls after its forward pass |
| leaf module | 叶模块 | a module without modules inside |
| activation | 激活值 | an intermediate result that autograd keeps for the backward pass |
| flop | 浮点运算 | one multiplication or addition |
| profiler | 性能分析器 | measures where time goes |
"""

# %% [markdown]
"""
Here is what you predicted in this chapter.
"""

# %% folded="What you predicted"
predictions("11")

# %%
progress("11")
