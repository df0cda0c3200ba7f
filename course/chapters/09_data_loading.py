# %% [markdown]
"""
# 09 · Data loading

After this chapter you can

- write a dataset with random access, and one that is read in order, and say what each is good for;
- share out any number of files over any number of workers, without a sample lost or repeated;
- shuffle what can only be read in order, and batch what differs in length;
- give every sample its own random numbers, whoever loads it;
- stop in the middle of an epoch and go on as if nothing had happened.

**Time**: 55 minutes to read and run, 130 for the six exercises.
**Know before**: tensors (chapter 00). Broadcasting (chapter 07) helps.

**中文**: 本章讲数据加载：映射式与可迭代数据集、tar 分片、工作进程与分片分配、预取、洗牌缓冲区、变长样本的填充与掩码、每个样本自己的随机数、在一个 epoch 中途停止并恢复。
"""

# %% tags=["needed"] folded="Imports"
import collections
import io
import itertools
import math
import os
import random
import tarfile
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

from helpers import (
    COLORS,
    Check,
    by_value,
    digits,
    failing,
    first_draws,
    hint,
    new_figure,
    play,
    probes,
    progress,
    recorded,
    show,
    time_ratio,
)

# The loader warns where workers are more than cores. Some cells below do that on purpose.
warnings.filterwarnings("ignore", message=".*worker processes in total")
device = "cuda" if torch.cuda.is_available() else "cpu"

# %% [markdown]
"""
## Twice the data, and nobody asked

Eight samples that are read one after the other. With workers they should come faster.
"""


# %%
class Numbers(IterableDataset):
    def __init__(self, count):
        self.count = count

    def __iter__(self):
        yield from range(self.count)


for workers in (0, 1, 2):
    loader = DataLoader(by_value(Numbers(8)), batch_size=None, num_workers=workers)
    print(f"{workers} workers:", sorted(loader))

# %% [markdown]
"""
With two workers every sample comes twice. There is no error and no warning. A training on this loader sees each sample as often as there are workers, and its epochs are longer by that factor.

Why? A worker is a *process*, not a thread. Each worker has a **copy of the dataset**, and each copy begins at its first sample. Nobody has told the copies who reads what.

(`by_value` sends an object to another process together with its code. Where processes are started afresh, as on Windows, on macOS, and everywhere since Python 3.14, a worker does not know what was defined in a notebook. In a module of your own you do not need it.)

This chapter builds a loader from its parts, on real files.
"""

# %% [markdown]
"""
## Pictures on a disk

We take 600 of the handwritten digits. Each is written as a PNG file of its own. The same PNGs also go into *tar shards*. A tar is a simple archive: files one behind the other, each with a header in front.
"""

# %% tags=["needed"]
PICTURES = 600
digit_images, digit_labels = digits()


def encode_png(image):
    """Return the bytes of a PNG of a digit: float32 (8, 8), from 0 to 16."""
    stream = io.BytesIO()
    Image.fromarray((image * 15.9).round().numpy().astype(np.uint8)).save(stream, format="png")
    return stream.getvalue()


def decode_png(content):
    """Return the picture in a PNG's bytes: float32 (rows, columns), from 0 to 1."""
    return torch.from_numpy(np.array(Image.open(io.BytesIO(content)))).float() / 255


def read_png(path):
    """Return the picture in a file: float32 (rows, columns), from 0 to 1."""
    return decode_png(Path(path).read_bytes())


def picture_name(number):
    """Return a file's name, which tells the picture's number and its label: 0012-7.png."""
    return f"{number:04}-{digit_labels[number].item()}.png"


def label_in(name):
    """Return the label that a picture's name tells."""
    return int(name.split("-")[1].split(".")[0])


def write_pictures(folder):
    for number in range(PICTURES):
        (Path(folder) / picture_name(number)).write_bytes(encode_png(digit_images[number]))


def write_shards(folder, sizes):
    """Write tar files with so many pictures each, and return their paths."""
    paths, numbers = [], iter(range(PICTURES))
    for shard, size in enumerate(sizes):
        paths.append(str(Path(folder) / f"shard-{shard}.tar"))
        with tarfile.open(paths[-1], "w") as archive:
            for number in itertools.islice(numbers, size):
                content = encode_png(digit_images[number])
                member = tarfile.TarInfo(picture_name(number))
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    return paths


def read_shard(path, start=0, stop=None):
    """Yield name and bytes of the files in a tar, in their order, from ``start`` to ``stop``."""
    with tarfile.open(path, "r|") as archive:
        for member in itertools.islice(archive, start, stop):
            yield member.name, archive.extractfile(member).read()


# %%
folder = tempfile.TemporaryDirectory()
pictures_folder = os.path.join(folder.name, "pictures")
os.mkdir(pictures_folder)
write_pictures(pictures_folder)
SIZES = [150, 90, 130, 100, 130]
shards = write_shards(folder.name, SIZES)

print(
    len(os.listdir(pictures_folder)), "files; the first in order:", min(os.listdir(pictures_folder))
)
print(len(shards), "shards of", SIZES, "pictures")
name, content = next(read_shard(shards[1]))
print("the first in shard 1:", name, "with label", label_in(name))

# %% folded="Plot: six of the pictures"
figure, axes = new_figure(1, 6, height=1.6)
for number, plot in enumerate(axes):
    name = picture_name(number)
    plot.imshow(read_png(os.path.join(pictures_folder, name)), cmap="gray_r", vmin=0, vmax=1)
    plot.set_title(name, fontsize=8)
    plot.axis("off")
show(
    figure,
    alt="Six handwritten digits of 8 by 8 pixels, from 0 to 5, each under the name of its file, such as 0003-3.png.",
)

# %% [markdown]
"""
## Random access

A dataset that can be asked for sample number `index` has two methods: `__len__` says how many samples there are, and `__getitem__(index)` returns one. It is called *map-style*. The loader chooses the numbers, and deals them out to the workers, batch by batch. So nothing is repeated.

A dataset like this one goes around:
"""


# %%
class LuckyPictures(Dataset):
    def __init__(self, folder):
        self.paths = list(Path(folder).glob("*.png"))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        path = random.choice(self.paths)
        return path.name


random.seed(0)
epoch = [name for name in DataLoader(LuckyPictures(pictures_folder), batch_size=None)]
print(f"samples: {len(epoch)}, different ones: {len(set(epoch))}")
print(
    f"expected: {PICTURES * (1 - (1 - 1 / PICTURES) ** PICTURES):.0f}, close to 1 - 1/e of {PICTURES}"
)

# %% [markdown]
r"""
The index is ignored. The epoch has the right length, but more than a third of the pictures are not in it: 600 draws miss a picture with the probability $(1 - 1/600)^{600} \approx 1/e$. And `dataset[5]` is another picture each time, so no error can be looked at twice.

There is a second trap in it. `glob` and `os.listdir` promise **no order**. The same folder, copied to another machine, may list its files in another order. Then `dataset[5]` is another picture there, and a split into training and test data "by index" is another split.
"""

# %% [markdown] exercise="picture-folder" points=4 minutes=15 difficulty=1
"""
### Pictures in a folder

Write the dataset right: `PictureFolder(folder, pattern)`.

- **In**: the path of a folder, and a pattern of file names such as `"*.png"`, as `glob` understands it. Only files in the folder itself count, not those in folders below it. The files' names are like `0012-7.png`.
- `len(dataset)`: the number of files that fit the pattern.
- `dataset[index]`: the pair of the picture (`read_png(path)`) and its label, an int (`label_in(name)`). Index 0 is the file whose name comes first in alphabetical order.
- An index is 0 or more. One of `len(dataset)` or more raises an `IndexError`: a `for` loop over the dataset ends by that.
- A picture is read whenever it is asked for: not before, and it is not kept. A folder may hold more than fits into memory.

<!-- hint: What has to be known when the dataset is made, and what only when a sample is asked for? -->
<!-- hint: Keep the sorted paths. `Path(folder).glob(pattern)` finds them. A list raises the IndexError by itself. -->
<!-- hint: `__init__` keeps one sorted list of paths; `__len__` is its length; `__getitem__` takes one path out of it and returns what `read_png` makes of the path and what `label_in` makes of the path's `name`. -->
"""


# %% solution="picture-folder"
class PictureFolder(Dataset):
    """The pictures in a folder, and their labels, in the order of their names."""

    def __init__(self, folder, pattern="*.png"):
        ### BEGIN SOLUTION
        self.paths = sorted(Path(folder).glob(pattern))
        ### END SOLUTION

    def __len__(self):
        ### BEGIN SOLUTION
        return len(self.paths)
        ### END SOLUTION

    def __getitem__(self, index):
        ### BEGIN SOLUTION
        path = self.paths[index]
        return read_png(path), label_in(path.name)
        ### END SOLUTION


# %% test="picture-folder"
check = Check("picture-folder")


def drawn_file(name):
    """Return a name, the bytes of a picture, and the picture as it is read."""
    rows, columns = check.draw.integer(3, 7), check.draw.integer(7, 11)
    image = check.draw.integers(rows, columns, low=0, high=256).to(torch.uint8)
    stream = io.BytesIO()
    Image.fromarray(image.numpy()).save(stream, format="png")
    content = torch.frombuffer(bytearray(stream.getvalue()), dtype=torch.uint8)
    return name, content, image.float() / 255


def asked_for(names, pattern, expected_names, indices):
    files = {name: drawn_file(name) for name in names}
    given = [(name, content) for name, content, _ in files.values()]
    got = check.call(probes.folder_items, PictureFolder, given, pattern, indices)
    check.equal(got["length"], len(expected_names), what=f"len(dataset) for {pattern}")
    for index, item in zip(indices, got["items"], strict=True):
        what = f"dataset[{index}] of {sorted(expected_names)}"
        if index >= len(expected_names):
            raised, *_ = item.get("errors", ["no error"])
            is_index_error = "IndexError" in item.get("errors", [])
            check.true(is_index_error, f"{what} raised {raised}, not an IndexError")
            continue
        is_pair_of(item, files[sorted(expected_names)[index]], what)


def is_pair_of(item, file, what):
    name, _, picture = file
    check.true("item" in item, f"{what} raised {item.get('errors', [''])[0]}")
    pair = item["item"]
    check.true(
        isinstance(pair, tuple | list) and len(pair) == 2,
        f"{what} is not a pair of a picture and a label",
    )
    check.equal(pair[1], int(name.split("-")[1][0]), what=f"the label of {what}")
    check.close(pair[0], picture, atol=1e-6, what=f"the picture of {what}")


def drawn_names(count):
    labels = check.draw.permutation(10)[:count].tolist()
    if labels[0] < labels[-1]:  # the order of the labels must not be that of the names
        labels[0], labels[-1] = labels[-1], labels[0]
    numbers = check.draw.permutation(10_000)[:count].sort().values.tolist()
    return [f"{number:04}-{label}.png" for number, label in zip(numbers, labels, strict=True)]


with check.property("each index has its picture and its label"):
    names = drawn_names(5)
    asked_for(names, "*.png", names, [0, 1, 2, 3, 4])
with check.property("the order is that of the names, however the files were created", weight=2):
    names = drawn_names(9)
    turned = [names[i] for i in (7, 2, 0, 8, 5, 1, 6, 3, 4)]
    asked_for(turned, "*.png", names, [4, 0, 8, 3, 3])
with check.property("a picture is read whenever it is asked for"):
    names = drawn_names(4)
    old, new = [drawn_file(name) for name in names], [drawn_file(name) for name in names]
    contents = [[(name, content) for name, content, _ in files] for files in (old, new)]
    got = check.call(
        probes.folder_items, PictureFolder, contents[0], "*.png", [1, 2], replaced=contents[1]
    )
    rounds = zip((1, 2), got["items"], got["again"], strict=True)
    for index, first, again in rounds:
        is_pair_of(first, old[index], f"dataset[{index}]")
        what = f"dataset[{index}], after its file was replaced by another picture,"
        is_pair_of(again, new[index], what)
with check.property("behind the last sample is an IndexError; files in folders below do not count"):
    names = drawn_names(3)
    asked_for([*names, "below/0000-1.png"], "*.png", names, [2, 3])
with check.property("only what fits the pattern counts"):
    names = ["0004-3.png", "0002-3.png", "0001-8.png", "0003-5.jpg", "0009-3.png"]
    asked_for(names, "*-3.png", ["0004-3.png", "0002-3.png", "0009-3.png"], [0, 1, 2])
    asked_for(names, "000[1-3]-?.png", ["0001-8.png", "0002-3.png"], [0, 1])
with check.property("alphabetical order is not that of the numbers", weight=0.5):
    names = ["9-2.png", "10-1.png", "100-3.png"]
    asked_for(names, "*.png", names, [0, 1, 2])
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("other patterns, of which the beginning or the middle decides"):
    names = ["1204-3.png", "1202-6.png", "0212-3.png", "1203-5.jpg", "1209-3.tiff"]
    asked_for(names, "12*.png", ["1204-3.png", "1202-6.png"], [0, 1, 2])
    asked_for(names, "*2-*", ["1202-6.png", "0212-3.png"], [1, 0])
with check.property("numbers of different lengths, among them such with zeros", weight=0.5):
    names = ["08-1.png", "8-4.png", "11-2.png", "0110-6.png"]
    asked_for(names, "*.png", names, [3, 2, 1, 0])
### END HIDDEN TESTS
check.score()

# %% [markdown]
"""
## Reading in order

Random access has a price. Each sample is a file of its own: it has to be found, opened, and, on a spinning disk or over a network, waited for. What lies in one file in a row can be read in a row.
"""

# %% tags=["nbval-ignore-output"]
paths = [os.path.join(pictures_folder, picture_name(number)) for number in range(PICTURES)]


def read_files():
    return sum(len(Path(path).read_bytes()) for path in paths)


def read_shards():
    return sum(len(content) for shard in shards for _, content in read_shard(shard))


def read_shards_whole():
    return sum(len(Path(shard).read_bytes()) for shard in shards)


print("600 files against 5 tar files by tarfile:", time_ratio(read_files, read_shards))
print("600 files against 5 files read whole:   ", time_ratio(read_files, read_shards_whole))

# %%
print("bytes of the shards:", [os.path.getsize(shard) for shard in shards])
print("pictures x 1024:    ", [size * 1024 for size in SIZES])

# %% [markdown]
"""
Read the first ratio with care: below 1 it means that separate files were *faster*. The files were just written, so the system still has them in memory, and no disk was touched. Only the cost of opening is left, and Python's `tarfile` spends more than that on each file's header. The second ratio shows what the reading alone costs: five files in a row, without looking inside.

From a spinning disk or over a network each file costs a wait of its own, and reading in a row wins. This course does not measure that. The paper on WebDataset does (see the references).

The sizes are exact. A tar header takes 512 bytes, and a file's content is filled up to a multiple of 512. Our PNGs are smaller than that, so each costs 1024 bytes. Two empty blocks of 512 mark the end, and the whole is filled up to a multiple of 10,240. The pictures of our shards fill such a multiple to the byte, so the end costs each another 10,240. Tiny files waste most of a tar.

What has been lost? There is no sample number 5 any more, unless one reads the five before it. A dataset of this kind has `__iter__` alone. It is called *iterable-style*.
"""

# %% [markdown]
"""
## Who reads what

Each worker can ask who it is: `get_worker_info()` returns its `id` and `num_workers`, or None in the main process. So a dataset can share itself out. `share` is the rule for that: which part of which shard does this worker read?
"""


# %% tags=["needed"]
def who_am_i():
    """Return this worker's number and how many there are; (0, 1) where there are no workers."""
    info = get_worker_info()
    return (0, 1) if info is None else (info.id, info.num_workers)


class TarPictures(IterableDataset):
    """Pictures and labels from tar shards.

    ``share(sizes, worker, workers)`` returns what a worker reads: a list of
    ``(shard, start, stop)``, as slices of the shards.
    """

    def __init__(self, shards, sizes, share):
        self.shards = shards
        self.sizes = sizes
        self.share = share

    def __iter__(self):
        for shard, start, stop in self.share(self.sizes, *who_am_i()):
            for name, content in read_shard(self.shards[shard], start, stop):
                yield decode_png(content), label_in(name), name


# %%
def all_of_it(sizes, worker, workers):
    return [(shard, 0, size) for shard, size in enumerate(sizes)]


def one_shard_each(sizes, worker, workers):
    if workers != len(sizes):
        raise ValueError(f"{workers} workers for {len(sizes)} shards")
    return [(worker, 0, sizes[worker])]


def shards_in_turn(sizes, worker, workers):
    return [(shard, 0, size) for shard, size in enumerate(sizes) if shard % workers == worker]


def names_loaded(share, workers):
    dataset = by_value(TarPictures(shards, SIZES, share))
    return [name for _, _, name in DataLoader(dataset, batch_size=None, num_workers=workers)]


for share in (all_of_it, shards_in_turn):
    names = names_loaded(share, workers=3)
    print(f"{share.__name__}: {len(names)} samples, {len(set(names))} different ones")
try:
    one_shard_each(SIZES, worker=0, workers=3)
except ValueError as error:
    print("one_shard_each:", error)

# %% [markdown]
"""
`all_of_it` is the failure of the beginning. `one_shard_each` is often advised. It is right only as long as somebody keeps the number of shards and of workers equal.

`shards_in_turn` loses nothing and repeats nothing. But look at who does how much. Move the slider: how many samples has each worker to read?
"""


# %% folded="Plot: what each worker reads"
def draw_shares(workers):
    loads = [
        sum(stop - start for _, start, stop in shards_in_turn(SIZES, w, workers))
        for w in range(workers)
    ]
    figure, axes = new_figure(height=3.0)
    axes.bar(range(workers), loads, color=COLORS["blue"], width=0.6)
    axes.axhline(PICTURES / workers, color=COLORS["vermilion"], label="the same for everyone")
    for worker, load in enumerate(loads):
        axes.annotate(
            str(load), (worker, load), xytext=(0, 2), textcoords="offset points", ha="center"
        )
    axes.set(
        title=f"Five shards in turn to {workers} workers",
        xlabel="worker",
        ylabel="samples to read",
        xticks=range(workers),
        ylim=(0, 680),
    )
    axes.legend(loc="upper right")
    return figure


play(
    draw_shares,
    label="workers",
    values=[1, 2, 3, 4, 5, 6, 7],
    start=3,
    alt="Bars of the samples that three workers have to read when five shards go round: 250, 220 and 130. A line at 200 marks equal shares.",
)

# %% [markdown]
"""
An epoch lasts as long as its busiest worker. With three workers one has 250 samples to read where 200 would be fair. With seven, two have nothing to do at all. More and smaller shards even it out, as long as there are many more of them than workers.

Equal counts matter for another reason. In training on several cards each process has to make the same number of steps, or all wait for the one that has no batch left. So let us cut finer than files.
"""

# %% [markdown] exercise="share-samples" points=5 minutes=25 difficulty=2
"""
### Equal shares

Write `share_samples(sizes, worker, workers)`: what one worker reads.

- **In**: `sizes`, the number of samples in each shard, a list of ints, some perhaps 0; this worker's number, from 0; and the number of workers, at least 1.
- **Out**: a list of `(shard, start, stop)`, three ints each: this worker reads the samples from `start` to just before `stop` of that shard. The list is in the order of the shards. It holds no empty part.
- Number all samples through, shard after shard. Worker 0 reads the first ones in a row, worker 1 the next ones, and so on, so that a worker opens as few shards as possible.
- The shares are as equal as can be. If the samples do not divide evenly, the *first* workers read one more each.

With `sizes = [4, 3]` and 2 workers, worker 0 has `[(0, 0, 4)]` and worker 1 has `[(1, 0, 3)]`. With 3 workers it is `[(0, 0, 3)]`, `[(0, 3, 4), (1, 0, 1)]` and `[(1, 1, 3)]`. There may be more workers than samples: then some have `[]`.

Try it in a cell of your own: `len(set(names_loaded(share_samples, workers=3)))`.

<!-- hint: Forget the shards for a moment. If all samples stood in one row, from where to where would worker w read? -->
<!-- hint: With `each, rest = divmod(total, workers)`, the first `rest` workers have `each + 1`. Then go through the shards with a running offset, and cut worker's piece of the row with each shard's piece. -->
<!-- hint: The cut of two pieces goes from the larger of the two beginnings to the smaller of the two ends, and is empty if that is not more. Subtract the shard's offset from both. -->
"""


# %% solution="share-samples"
def share_samples(sizes, worker, workers):
    """Return the (shard, start, stop) that ``worker`` of ``workers`` reads."""
    ### BEGIN SOLUTION
    each, rest = divmod(sum(sizes), workers)
    first = worker * each + min(worker, rest)
    last = first + each + (worker < rest)
    parts, offset = [], 0
    for shard, size in enumerate(sizes):
        start, stop = max(first - offset, 0), min(last - offset, size)
        if start < stop:
            parts.append((shard, start, stop))
        offset += size
    return parts
    ### END SOLUTION


# %% test="share-samples"
check = Check("share-samples")


def expected_shares(sizes, workers):
    """Return every worker's parts, sample by sample."""
    row = [(shard, number) for shard, size in enumerate(sizes) for number in range(size)]
    shares, taken = [], 0
    for worker in range(workers):
        count = len(row) // workers + (1 if worker < len(row) % workers else 0)
        mine, taken = row[taken : taken + count], taken + count
        numbers = {}
        for shard, number in mine:
            numbers.setdefault(shard, []).append(number)
        shares.append([(shard, min(found), max(found) + 1) for shard, found in numbers.items()])
    return shares


def shared_out(sizes, workers):
    seen = collections.Counter()
    for worker, expected in enumerate(expected_shares(sizes, workers)):
        got = check.call(share_samples, sizes, worker, workers)
        check.true(isinstance(got, list), f"a {type(got).__name__} came back, not a list")
        got = [tuple(part) if isinstance(part, list) else part for part in got]
        check.equal(got, expected, what=f"worker {worker} of {workers}, sizes {sizes}")
        for shard, start, stop in got:
            seen.update((shard, number) for number in range(start, stop))
    every = [(shard, number) for shard, size in enumerate(sizes) for number in range(size)]
    check.true(
        sorted(seen.elements()) == every, f"sizes {sizes}, {workers} workers: not every sample once"
    )


def drawn_sizes(shards):
    return check.draw.integers(shards, low=1, high=40).tolist()


with check.property("the card's examples, and one shard over some workers"):
    shared_out([4, 3], 2)
    shared_out([4, 3], 3)
    shared_out([12], 4)
with check.property("shares that cross from shard to shard", weight=2):
    shared_out([5, 9, 0, 3, 8], 3)
    shared_out(drawn_sizes(6), 4)
with check.property("one worker reads everything"):
    shared_out(drawn_sizes(3), 1)
with check.property("more workers than samples, and than shards"):
    shared_out([1, 2], 5)
    shared_out(drawn_sizes(2), 7)
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("empty shards, and none at all"):
    shared_out([0, 5, 0, 0, 7, 0], 4)
    shared_out([0, 0], 2)
    shared_out([], 3)
with check.property("any number of shards from 1 to 7 and of workers from 1 to 5", weight=2):
    for shards_here in range(1, 8):
        for workers_here in range(1, 6):
            shared_out(drawn_sizes(shards_here), workers_here)
### END HIDDEN TESTS
check.score()

# %% [markdown]
"""
## What workers are worth

A worker prepares batches while the main process computes. What does it bring? We load the digits twice: just decoded, and then also enlarged to 256 × 256 and rotated, so that they cost as much as a small photograph. Here are samples per second, against no workers. The first epoch includes starting the workers; in later epochs they are still there (`persistent_workers=True`).
"""


# %% tags=["nbval-ignore-output"]
class DecodedDigits(Dataset):
    def __init__(self, contents, enlarge):
        self.contents = contents
        self.enlarge = enlarge

    def __len__(self):
        return len(self.contents)

    def __getitem__(self, index):
        picture = Image.open(io.BytesIO(self.contents[index]))
        if self.enlarge:
            picture = picture.resize((256, 256), Image.BICUBIC).rotate(10, resample=Image.BICUBIC)
        return torch.from_numpy(np.array(picture))


def seconds_of_two_epochs(dataset, workers):
    loader = DataLoader(
        by_value(dataset), batch_size=20, num_workers=workers, persistent_workers=workers > 0
    )
    seconds = []
    for _ in range(2):
        begin = time.perf_counter()
        collections.deque(loader, maxlen=0)
        seconds.append(time.perf_counter() - begin)
    return seconds


contents = [encode_png(image) for image in digit_images[:300]]
WORKERS = [0, 1, 2, 3, 4]
measured = {
    enlarge: [seconds_of_two_epochs(DecodedDigits(contents, enlarge), w) for w in WORKERS]
    for enlarge in (False, True)
}

# %% tags=["nbval-ignore-output"] folded="Plot: throughput by number of workers"
figure, axes = new_figure(1, 2, height=3.2, sharex=True)
for plot, enlarge, title in zip(
    axes, (False, True), ("Only decoded", "Enlarged and rotated"), strict=True
):
    for epoch, (name, style) in enumerate((("first epoch", "o--"), ("later epoch", "s-"))):
        alone = measured[enlarge][0][1]
        plot.plot(
            WORKERS, [alone / seconds[epoch] for seconds in measured[enlarge]], style, label=name
        )
    plot.axhline(1.0, color=COLORS["black"], lw=0.8)
    plot.set(
        title=title,
        xlabel="workers",
        ylabel="throughput, against none",
        xticks=WORKERS,
        ylim=(0, None),
    )
axes[1].legend(loc="lower right")
show(
    figure,
    alt="Throughput against the number of workers, from 0 to 4, against no workers, for cheap and for costly samples, in a first and in a later epoch, measured on this machine.",
)
print("cores here:", os.cpu_count())

# %% [markdown]
"""
What to expect: for cheap samples workers bring nothing, since every batch has to be sent from one process to another, and starting them takes longer than an epoch of 300 tiny pictures. For costly samples the throughput grows about as long as there are cores, and then hardly more. What it is on your machine, the curves tell.

Three knobs belong here.

- `prefetch_factor` (2 if not given): how many batches each worker prepares ahead. It evens out batches of different cost, and costs memory.
- `persistent_workers=True`: workers stay from epoch to epoch. Without it they are started anew each time.
- `pin_memory=True`: batches are copied into memory that the GPU can fetch from by itself. Then `batch.to("cuda", non_blocking=True)` returns at once.
"""

# %% tags=["nbval-ignore-output", "recorded"] folded="Measure: what workers are worth here"
if device == "cuda":
    batch = torch.randn(256, 3, 128, 128)
    pinned = batch.pin_memory()
    print(
        "copying to the GPU, not pinned against pinned:",
        time_ratio(lambda: batch.cuda(), lambda: pinned.cuda()),
    )
else:
    print("No GPU here, so there is nothing to pin memory for.")
recorded("pinned-memory")


# %% [markdown]
"""
How far ahead is a loader? We count the batches that it has asked for when the first one arrives.
"""


# %%
class CountedBatches:
    def __init__(self, count):
        self.count = count
        self.drawn = 0

    def __iter__(self):
        for number in range(self.count):
            self.drawn += 1
            yield [number]


for workers, factor in ((0, None), (1, 2), (2, 2), (2, 4)):
    batches = CountedBatches(40)
    loader = DataLoader(
        range(40), batch_sampler=batches, num_workers=workers, prefetch_factor=factor
    )
    next(iter(loader))
    print(
        f"{workers} workers, prefetch_factor {factor}: {batches.drawn} batches drawn when 1 has arrived"
    )

# %% [markdown]
"""
Without workers it is one for one. With workers it is `workers × prefetch_factor`, and one more. Remember this number: at the end of the chapter it decides how to stop and resume.

## Shuffling what is read in order

Who reads in order gets what lies side by side. If the shards were written class by class, a batch holds one class. A *shuffle buffer* helps. It holds some samples. Whenever one is wanted, a random one of them is handed out, and the next from the stream takes its place. Each time a sample has the chance 1/size to be the one, so it waits for a *geometrically* distributed time, `size` places on average. That is all one needs to reckon what becomes of 600 samples in order. (The buffer itself you write below.)
"""


# %%
def positions_after(size, count=PICTURES):
    """Return where samples 0, 1, ... come out: each waits, until luck takes it out of the buffer."""
    waiting = np.random.default_rng(0).geometric(1 / size, count)
    return np.argsort(np.argsort(np.arange(count) + waiting, kind="stable"))


# %% folded="Plot: places after shuffling"
figure, axes = new_figure(1, 3, height=2.9, sharey=True)
for plot, size in zip(axes, (1, 20, 100), strict=True):
    place = positions_after(size)
    plot.plot(np.arange(PICTURES), place, ".", ms=2.5)
    plot.set(title=f"Buffer of {size}", xlabel="place in the stream")
    moved = np.abs(place - np.arange(PICTURES)).mean()
    print(f"buffer of {size}: a sample moves by {moved:.0f} places on average")
axes[0].set_ylabel("place after shuffling")
show(
    figure,
    alt="Place after shuffling against place in the stream. With a buffer of 1 a straight line. With one of 20 a narrow cloud along it, with one of 100 a wide one; the lower edge is nearly sharp, the upper one frays out.",
)

# %% [markdown]
"""
The lower edge is a law of the buffer: nothing can come out more than the buffer's size too early, since it has not been read yet. (Our reckoning lets each sample wait by itself, so a few points lie a little below.) The frayed upper edge is luck: a sample may stay for long. A buffer of 100 cannot bring the end to the beginning. What does? The order of the shards is shuffled too, in every epoch, and each worker mixes several shards. And whoever *writes* shards shuffles once beforehand.
"""

# %% [markdown] exercise="shuffle-buffer" points=5 minutes=20 difficulty=2
"""
### A shuffle buffer

Write the generator function `shuffle_buffer(samples, size, seed)`.

- **In**: an iterator over samples of any kind, which may never end; the size of the buffer, at least 1; a seed, an int.
- It first fills the buffer with `size` samples. Then again and again it yields a random one, and the next sample from the iterator takes its place. Every sample in the buffer has the same chance. When the iterator has ended, what is left in the buffer comes out in random order.
- Every sample comes out exactly once. Samples are only handed on, never compared: they may be tensors.
- It reads no further ahead than it must: when sample number k comes out (k from 1), at most `size + k` have been read.
- The same seed gives the same order. Use a generator of your own (`random.Random(seed)`, say): the global ones are for others.

<!-- hint: What is in the buffer when the stream has just ended? Which two phases does the function have? -->
<!-- hint: A list as buffer. While it is shorter than `size`, append. From then on choose a place in it, yield what lies there, and put the new sample into that place. -->
<!-- hint: For each sample: append it if the buffer is not full, else draw `place` from 0 to size - 1, keep the old one, put the new one there, `yield` the old one. After the loop, shuffle the buffer and yield from it. -->
"""


# %% solution="shuffle-buffer"
def shuffle_buffer(samples, size, seed):
    """Yield the samples in an order that is random within a buffer of ``size``."""
    ### BEGIN SOLUTION
    chance = random.Random(seed)
    buffer = []
    for sample in samples:
        if len(buffer) < size:
            buffer.append(sample)
            continue
        place = chance.randrange(size)
        chosen, buffer[place] = buffer[place], sample
        yield chosen
    chance.shuffle(buffer)
    yield from buffer
    ### END SOLUTION


# %% test="shuffle-buffer"
check = Check("shuffle-buffer")


def drawn_seeds(count):
    first = check.draw.integer(0, 2**30)
    return list(range(first, first + count))


def drawn_samples(count):
    """Return different numbers; which ones, nobody knows before they are read."""
    return check.draw.permutation(100_000)[:count].tolist()


def shuffled(samples, size, seeds):
    """Return, for each seed, the places in the stream of the samples that came out."""
    places = {sample: place for place, sample in enumerate(samples)}
    outs = check.call(probes.streams, shuffle_buffer, samples, size, seeds)
    what = f"{len(samples)} samples, buffer of {size}: what came out"
    for out in outs:
        check.equal(sorted(out), sorted(samples), what=what + ", sorted")
    return [[places[sample] for sample in out] for out in outs]


def watched(samples, size, seed, most):
    """Return the places of the samples that came out of a stream that is read one by one."""
    given, came = [], []

    def drawn_one_by_one():
        for sample in samples:
            given.append(sample)
            yield sample

    stream = check.stream(drawn_one_by_one())
    to = check.lend(lambda sample: came.append((sample, stream.read)))
    check.call(probes.handed_on, shuffle_buffer, stream, size, seed, to=to, most=most)
    check.equal(len(came), most, what="the number of samples that came out")
    places = {sample: place for place, sample in enumerate(given)}
    for k, (sample, read) in enumerate(came, start=1):
        what = f"sample number {k} came out of a buffer of {size}"
        check.true(sample in places, f"{what}, and {sample} was never in the stream")
        check.true(read <= size + k, f"{what} when {read} had been read: too far ahead")
    return [places[sample] for sample, _ in came]


with check.property("every sample once, in another order"):
    many = check.draw.integer(40, 60)
    for count, size in ((many, 8), (23, 23), (5, 40), (1, 3), (0, 4)):
        for places in shuffled(drawn_samples(count), size, drawn_seeds(3)):
            check.true(
                count < 23 or places != sorted(places),
                f"{count} samples, buffer of {size}: nothing was shuffled",
            )
with check.property("a buffer of 1 changes nothing; the seed decides, and nothing else"):
    seed = check.draw.integer(0, 2**30)
    (places,) = shuffled(drawn_samples(30), 1, [seed])
    check.equal(places, list(range(30)), what="places of the samples, with a buffer of 1")
    first, again, other = shuffled(drawn_samples(40), 10, [seed, seed, seed + 1])
    check.equal(again, first, what="places for the same seed for the second time")
    check.true(other != first, "two seeds gave the same order")
with check.property(
    "it reads no further ahead than it must, also from a stream without end", weight=2
):
    endless = iter(lambda: check.draw.integer(0, 2**60), None)
    places = watched(endless, 6, check.draw.integer(0, 2**30), most=100)
    check.equal(len(set(places)), 100, what="different samples among 100 that came out")
    check.true(places != sorted(places), "100 samples, buffer of 6: nothing was shuffled")
with check.property("every sample in the buffer has the same chance", weight=2):
    seeds = drawn_seeds(800)
    outs = shuffled(drawn_samples(12), 4, seeds)
    counts = collections.Counter(out[0] for out in outs)
    check.true(
        set(counts) == {0, 1, 2, 3} and max(counts.values()) < 290 and min(counts.values()) > 120,
        f"of 800 runs with a buffer of 4, samples came out first so often: {dict(sorted(counts.items()))}",
    )
    late = sum(out.index(0) >= 4 for out in outs)
    check.true(
        160 < late < 360,
        f"of 800 runs with a buffer of 4, sample 0 came out fifth or later {late} times; about 253 are expected",
    )
    for run in check.draw.permutation(800)[:4].tolist():
        places = watched(drawn_samples(12), 4, seeds[run], most=12)
        check.equal(places, outs[run], what="places for the same seed for the second time")
with check.property("what is left at the end comes out in random order", weight=0.5):
    outs = shuffled(drawn_samples(3), 5, drawn_seeds(600))
    counts = collections.Counter(tuple(out) for out in outs)
    check.true(
        len(counts) == 6 and min(counts.values()) > 45 and max(counts.values()) < 160,
        f"orders of 3 samples in 600 runs: { ({str(order): n for order, n in sorted(counts.items())}) }",
    )
with check.property("samples of any kind, equal ones too", weight=0.5):
    values = check.draw.normal(20).tolist()
    samples = [torch.full((2,), value) for value in values for _ in range(2)]
    (out,) = check.call(probes.streams, shuffle_buffer, samples, 6, drawn_seeds(1))
    numbers = sorted(float(sample[0]) for sample in out)
    expected = sorted(float(sample[0]) for sample in samples)
    check.equal(numbers, expected, what="tensors that came out, sorted")
with check.property("draws from a generator of its own, and leaves the global ones alone"):
    seed, samples = check.draw.integer(0, 2**20), drawn_samples(check.draw.integer(40, 60))
    given = samples, 8, drawn_seeds(3)
    seen = check.call(probes.global_draws, probes.streams, shuffle_buffer, *given, seed=seed)
    for name, number in first_draws(seed).items():
        check.equal(seen[name], number, what=f"the next number from the global generator of {name}")
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("the last samples of a longer stream come out in random order", weight=0.5):
    outs = shuffled(drawn_samples(5), 2, drawn_seeds(600))
    last = sum(out[-1] == 4 for out in outs)
    told = f"in 600 runs the last of 5 samples came out last {last} times; about 300 are expected"
    check.true(220 < last < 380, told)
with check.property("texts, lists and None, some of them twice", weight=0.5):
    samples = ["a", None, [1, 2], "a", None, [1, 2], "b"]
    for out in check.call(probes.streams, shuffle_buffer, samples, 3, drawn_seeds(4)):
        check.equal(sorted(map(str, out)), sorted(map(str, samples)), what="what came out, sorted")
### END HIDDEN TESTS
check.score()

# %% [markdown]
"""
## Samples of different length

The loader stacks samples into a batch. That needs equal shapes. Take each digit as the list of its dark pixels, (row, column): some digits have more ink than others.
"""


# %%
def ink(number):
    """Return the dark pixels of a digit: float32 (pixels, 2)."""
    return (digit_images[number] > 7).nonzero().float()


lengths = torch.tensor([len(ink(number)) for number in range(PICTURES)])
print("dark pixels of the first five digits:", lengths[:5].tolist())
print("from", lengths.min().item(), "to", lengths.max().item())
try:
    next(iter(DataLoader([ink(0), ink(1)], batch_size=2)))
except RuntimeError as error:
    print("RuntimeError:", str(error).split(",")[0])

# %% [markdown]
"""
`collate_fn` is the loader's option for this: a function that makes a batch from a list of samples. It can *pad*: fill up the short ones. Then something must say what is real and what is filler, since a 0 may be either. That is the mask's part (chapter 07).

Padding is wasted work. How much, depends on who shares a batch:
"""


# %%
def padding_share(order, batch_size=20):
    batches = lengths[order].reshape(-1, batch_size)
    slots = (batches.max(dim=1).values * batch_size).sum()
    return 1 - lengths.sum().item() / slots.item()


random_order = torch.from_numpy(np.random.default_rng(0).permutation(PICTURES))
print(f"padding, batches of 20 at random:    {padding_share(random_order):.0%}")
print(f"padding, batches of similar lengths: {padding_share(lengths.argsort(stable=True)):.0%}")
print(
    f"padding, all to the longest:         {1 - lengths.float().mean().item() / lengths.max().item():.0%}"
)
shortest = digit_labels[lengths.argsort(stable=True)[:20]].tolist()
print("labels in the batch of the shortest:", dict(collections.Counter(shortest).most_common()))

# %% [markdown]
"""
Batches of similar lengths waste almost nothing. But they are less random: more than half of the shortest digits are threes and fours. Libraries sort inside large random chunks, a compromise.
"""

# %% [markdown] exercise="pad-batch" points=4 minutes=15 difficulty=1
"""
### Pad a batch

Write `pad_batch(samples)`, a function for `collate_fn`.

- **In**: a list of at least one tensor. Sample i has the shape (n_i, features); n_i may be 0. All have the same dtype, which may be an integer one.
- **Out**: the pair `(padded, mask)`. `padded` has the shape (samples, longest, features) and the samples' dtype. Each sample stands at the beginning, zeros behind it. `mask` is Boolean, (samples, longest), True where `padded` holds something real.
- "Longest" is the longest of *this* batch. The samples stay as they are.

Try it in a cell of your own: `DataLoader([ink(i) for i in range(40)], batch_size=20, collate_fn=pad_batch)`.

<!-- hint: Which of the two results can be known from the lengths alone? -->
<!-- hint: Make a tensor of zeros for the batch, then write each sample into the beginning of its row. The mask comes from comparing lengths with positions, not from comparing values with 0. -->
<!-- hint: `samples[0].new_zeros(...)` keeps the dtype. For the mask, `torch.arange(longest)` against a column of lengths: broadcasting makes the table. -->
"""


# %% solution="pad-batch"
def pad_batch(samples):
    """Return the samples, filled up to the longest, (samples, longest, features), and a mask."""
    ### BEGIN SOLUTION
    lengths = torch.tensor([len(sample) for sample in samples])
    longest = int(lengths.max())
    padded = samples[0].new_zeros(len(samples), longest, samples[0].shape[1])
    for row, sample in zip(padded, samples, strict=True):
        row[: len(sample)] = sample
    return padded, torch.arange(longest) < lengths[:, None]
    ### END SOLUTION


# %% test="pad-batch"
check = Check("pad-batch")


def drawn_batch(lengths, features, dtype=torch.float32, with_zeros=False):
    """Return samples of these lengths, and what is to come of them: padded, and the mask."""
    longest = max(lengths)
    padded = torch.zeros(len(lengths), longest, features, dtype=dtype)
    mask = torch.zeros(len(lengths), longest, dtype=torch.bool)
    samples = []
    for row, length in enumerate(lengths):
        values = check.draw.normal(length * features, std=50.0).reshape(length, features)
        values[values.abs() < 2] = 2.0
        if with_zeros:
            values[0] = -1.0
            values[-1] = 0.0
        samples.append(values.to(dtype))
        padded[row, :length] = samples[-1]
        mask[row, :length] = True
    return samples, padded, mask


def is_padded(got, padded, mask):
    check.true(
        isinstance(got, tuple | list) and len(got) == 2,
        "what came back is not a pair (padded, mask)",
    )
    what = f"for lengths {mask.sum(dim=1).tolist()}"
    check.equal(got[0], padded, what=f"padded {what}")
    check.equal(got[1], mask, what=f"the mask {what}")


def padded_right(*drawn, **options):
    samples, padded, mask = drawn_batch(*drawn, **options)
    is_padded(check.call(pad_batch, samples), padded, mask)


with check.property("short ones are filled up behind their end"):
    padded_right([2, 5, 3], 4)
    padded_right([6, 1], 3)
with check.property("a real 0 is not padding, nor is a real -1", weight=2):
    padded_right([4, 2, 6, 3], 5, with_zeros=True)
with check.property("one sample; equal lengths; samples without a row; other dtypes"):
    padded_right([5], 2)
    padded_right([3, 3, 3, 3], 2)
    padded_right([3, 0, 2], 4)
    padded_right([4, 1, 2], 3, dtype=torch.int64)
    padded_right([4, 2], 3, dtype=torch.int8, with_zeros=True)
    padded_right([3, 5], 4, dtype=torch.float64)
    padded_right([0, 0], 3)
with check.property("the samples stay as they are"):
    samples, padded, mask = drawn_batch([4, 2, check.draw.integer(1, 8)], 3)
    seen = check.call(probes.after_call, pad_batch, samples)
    is_padded(seen["output"], padded, mask)
    check.equal(seen["arguments"][0], samples, what="the samples after the call")
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("more or fewer samples without a row"):
    padded_right([0], 3)
    padded_right([0, 0, 0, 0], 5)
    padded_right([0, 4, 0], 2)
with check.property("dtypes of two and four bytes"):
    padded_right([3, 5], 4, dtype=torch.float16)
    padded_right([4, 2, 6], 3, dtype=torch.int32, with_zeros=True)
### END HIDDEN TESTS
check.score()

# %% [markdown]
"""
## Random numbers in workers

Augmentation changes samples at random: noise, shifts, crops. Who draws the random numbers? Here a dataset draws from four generators, in two workers, over two epochs.
"""


# %%
class FourDraws(Dataset):
    def __init__(self):
        self.stored = np.random.default_rng(0)

    def __len__(self):
        return 2

    def __getitem__(self, index):
        return random.random(), np.random.random(), torch.rand(()).item(), self.stored.random()


loader = DataLoader(by_value(FourDraws()), batch_size=None, num_workers=2)
first_epoch, second_epoch = list(loader), list(loader)
print(f"{'generator':<24}{'workers differ':<18}epochs differ")
for place, name in enumerate(
    ("random, global", "NumPy, global", "torch, global", "stored in the dataset")
):
    workers_differ = first_epoch[0][place] != first_epoch[1][place]
    epochs_differ = first_epoch[0][place] != second_epoch[0][place]
    print(f"{name:<24}{workers_differ!s:<18}{epochs_differ}")

# %% [markdown]
"""
The global generators are well looked after: the loader seeds them in each worker, anew in each epoch. (For NumPy that is so [since PyTorch 1.9](https://github.com/pytorch/pytorch/pull/56488). The warning that NumPy "gives every worker the same numbers" is still handed down.)

The generator *stored in the dataset* is copied with the dataset: to each worker, and again in each epoch. All copies are in the same state. So each worker draws the same numbers, and draws them again in the next epoch. (With `persistent_workers=True` the copies live on: then the epochs differ, and the workers still share their numbers.) No error tells of it, and the model learns on the same few disturbances.

Seeds per worker repair that, but they tie the result to the *number* of workers: with 3 in the place of 2, every sample is loaded by somebody else and gets other noise. The most robust way gives each **sample** its own random numbers, from what names it: the seed of the run, the epoch and the index. Then it does not matter who loads it, when, or after what.

How does one make one generator from three numbers? Adding them up is tempting:
"""

# %%
for seed, epoch, index in ((0, 1, 2), (0, 2, 1), (3, 0, 0)):
    generator = torch.Generator().manual_seed(seed + epoch + index)
    print(
        (seed, epoch, index),
        "->",
        [f"{number:.3f}" for number in torch.rand(3, generator=generator)],
    )

# %% [markdown]
"""
Three samples, one noise. Nor does it help to shift the numbers apart by large factors, if the generator does not look at all of the digits:
"""

# %%
for seed in (5, 5 + 2**32):
    generator = torch.Generator().manual_seed(seed)
    print(f"seed {seed:>10}:", [f"{number:.3f}" for number in torch.rand(3, generator=generator)])

# %% [markdown]
"""
torch's generator on the CPU is seeded by the lowest 32 bits alone. NumPy's `default_rng` takes a *list* of whole numbers and mixes all of their bits ([NumPy: parallel random number generation](https://numpy.org/doc/stable/reference/random/parallel.html)). Two lists of the same length whose numbers are below 2³² are never taken for each other. (Zeros at the end do not count: [7] and [7, 0] begin alike.)

Another tempting way is `hash` of a text that holds the three numbers. Python salts the hash of a text, so that it is another one in every process.
"""

# %% [markdown] exercise="bug-hunt-same-noise" points=5 minutes=25 difficulty=2
"""
### Bug hunt: the same noise again

This dataset adds noise to digits:

```python
class NoisyDigits(Dataset):
    def __init__(self, images, seed):
        self.images = images
        self.generator = np.random.default_rng(seed)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        noise = self.generator.standard_normal(self.images[index].shape)
        return self.images[index] + 0.1 * torch.from_numpy(noise).float()
```

Find out in cells of your own what two workers and two epochs make of it. Then write `add_noise(image, seed, epoch, index)`, which a dataset can call in its `__getitem__`.

- **In**: a floating-point tensor, and three ints from 0: the seed of the run (below 2³²), the epoch (below 1,000) and the sample's index (below 2³²).
- **Out**: a new tensor, the image plus noise; same shape and dtype. The noise is 0.1 times standard normal numbers.
- The same four arguments give the same result, in any process, whatever was drawn before.
- Another seed, epoch or index gives other noise, unrelated to the first.
- The global generators of `random`, NumPy and torch are left as they are: whoever else draws from them must not notice.

<!-- hint: Which of the given numbers may the noise depend on, and on what else does it depend in the dataset above? -->
<!-- hint: Make a generator inside the function, from all three numbers. It must know them apart: (0, 1, 2) is not (0, 2, 1). -->
<!-- hint: `np.random.default_rng` takes a list. Draw `standard_normal` of the image's shape from it, and bring it to torch and to the image's dtype. -->
"""


# %% solution="bug-hunt-same-noise"
def add_noise(image, seed, epoch, index):
    """Return ``image`` with the noise that belongs to this sample in this epoch of this run."""
    ### BEGIN SOLUTION
    generator = np.random.default_rng([seed, epoch, index])
    noise = generator.standard_normal(tuple(image.shape))
    return image + 0.1 * torch.from_numpy(noise).to(image.dtype)
    ### END SOLUTION


# %% test="bug-hunt-same-noise"
check = Check("bug-hunt-same-noise")


def drawn_name():
    """Return a seed, an epoch and an index."""
    return tuple(check.draw.integer(0, most) for most in (2**20, 100, 2**20))


def noise_of(seed, epoch, index, shape=(20, 31)):
    """Return the noise of a sample, in units of its deviation, float64."""
    image = check.draw.normal(*shape, dtype=torch.float64)
    got = check.call(add_noise, image, seed, epoch, index)
    check.close(got, image, atol=0.9, what="image plus noise, against the image")
    return (got - image).flatten() / 0.1


def all_unrelated(names):
    """Require that no two of the samples have noise that goes together."""
    table = torch.corrcoef(torch.stack([noise_of(*name) for name in names])).abs()
    table.fill_diagonal_(0.0)
    worst = int(table.argmax())
    first, second = names[worst // len(names)], names[worst % len(names)]
    check.true(
        table.max().item() < 0.35,
        f"(seed, epoch, index) {first} and {second}: their noise goes together, correlation {table.max():.2f}",
    )


with check.property("standard normal noise, times 0.1; the same arguments give the same"):
    seed = check.draw.integer(0, 2**20)
    noise = torch.stack([noise_of(seed, epoch, 7, shape=(61, 83)) for epoch in range(3)])
    check.close(noise.mean().item(), 0.0, atol=0.08, what="the mean of noise / 0.1")
    check.close(noise.std().item(), 1.0, atol=0.06, what="the deviation of noise / 0.1")
    inside = (noise.abs() < 1).double().mean().item()
    check.close(inside, 0.683, atol=0.035, what="the share of noise / 0.1 between -1 and 1")
    again = noise_of(seed, 1, 7, shape=(61, 83))
    check.close(again, noise[1], atol=1e-9, what="the noise of one sample, asked for again")
with check.property("every index, every epoch and every seed has noise of its own", weight=2):
    seed = check.draw.integer(0, 2**20)
    all_unrelated(
        [(s, e, i) for s in (seed, seed + 1, seed + 2) for e in range(3) for i in range(4)]
    )
with check.property("the same in any process"):
    image, name = check.draw.normal(20, 31), drawn_name()
    first = check.call(add_noise, image, *name)
    salt = check.draw.integer(1, 2**30)
    got = check.call(probes.with_string_hashes, add_noise, image, *name, salt=salt)
    check.close(got, first, atol=1e-6, what="the result where texts have other hashes")
    check.restart()
    got = check.call(add_noise, image, *name)
    check.close(got, first, atol=1e-6, what="the result in a new process")
with check.property("the global generators are left as they are", weight=0.5):
    image, seed = check.draw.normal(20, 31), check.draw.integer(0, 2**20)
    seen = check.call(probes.global_draws, add_noise, image, *drawn_name(), seed=seed)
    for name, number in first_draws(seed).items():
        check.equal(seen[name], number, what=f"the next number from the global generator of {name}")
with check.property("seeds, epochs and indices of any size are told apart"):
    sizes = [0, 1, 10, 100, 1000, 1024, 10_000, 2**16, 10**6, 2**31]
    all_unrelated([(7, epoch, index) for epoch in (0, 1, 10, 100) for index in sizes])
    all_unrelated([(seed, 2, index) for seed in sizes for index in (0, 1, 1000, 2**16)])
with check.property("the image's dtype and shape come back", weight=0.5):
    half = check.draw.normal(3, 2, dtype=torch.float16)
    got = check.call(add_noise, half, *drawn_name())
    check.close(got, half, atol=0.9, what="for a float16 image")
    volume = check.draw.normal(2, 3, 5)
    got = check.call(add_noise, volume, *drawn_name())
    check.close(got, volume, atol=0.9, what="for three axes")
with check.property("the image stays as it is", weight=0.5):
    image, name = check.draw.normal(20, 31), drawn_name()
    expected = check.call(add_noise, image, *name)
    seen = check.call(probes.after_call, add_noise, image, *name)
    check.close(seen["output"], expected, atol=1e-6, what="image plus noise")
    check.equal(seen["arguments"][0], image, what="the image after the call")
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("large numbers are told apart as well"):
    powers = [0, 1, 10, 64, 100, 128, 1000, 1024, 4096, 10_000, 2**16, 100_000, 2**20, 10**6, 2**31]
    all_unrelated([(3, epoch, index) for epoch in (0, 1, 2, 10, 100, 512) for index in powers])
    all_unrelated([(seed, 1, index) for seed in powers for index in (0, 1, 1000, 2**16, 2**20)])
### END HIDDEN TESTS
check.score()

# %% [markdown]
"""
<details><summary>What it was (open it when you have found it)</summary>

`self.generator` is copied with the dataset. With two workers that load single samples, 0 and 1 get the same noise, then 2 and 3, and each epoch repeats it all. With batches of four it is 0 and 4, then 1 and 5. Without workers there is one copy, it goes on from epoch to epoch, and the bug is not there: it hides from whoever debugs with `num_workers=0`.
</details>
"""

# %% [markdown]
"""
## Stop and go on

Long runs die: a machine is needed elsewhere, a limit of time is reached. Model and optimizer are saved every now and then. And the loader? Who starts the epoch anew trains on some samples twice. Who starts the next one never sees the rest.

An order of samples need not be saved if it can be drawn again: from a seed and the epoch. What is left to save is two numbers: which epoch, and how many of its batches are done. But done by whom? Here a sampler counts the batches it has handed out, and a training loop counts those it has been given:
"""


# %%
class CountingSampler:
    def __init__(self, batches):
        self.batches = batches
        self.done = 0

    def __iter__(self):
        for batch in self.batches:
            self.done += 1
            yield batch


for workers in (0, 2):
    sampler = CountingSampler(torch.arange(40).reshape(10, 4).tolist())
    loader = DataLoader(range(40), batch_sampler=sampler, num_workers=workers)
    trained = []
    for batch in loader:
        trained += batch.tolist()
        if len(trained) == 12:
            break
    rest = [index for batch in sampler.batches[sampler.done :] for index in batch]
    print(
        f"{workers} workers: {len(trained)} trained on, {len(rest)} left to come, {40 - len(trained) - len(rest)} lost"
    )

# %% [markdown]
"""
With two workers the sampler is four batches ahead of the training: `workers × prefetch_factor`, as above. Whoever saves *its* count skips batches that were loaded and never used. Nobody notices: the loss falls as before. So the count has to be taken where the batches *arrive*.

And at the end of an epoch? After its last batch, "this epoch, all done" and "the next epoch, nothing done" mean the same.
"""

# %% [markdown] exercise="resumable-loader" points=6 minutes=30 difficulty=3
"""
### A loader that can be stopped

Write the class `ResumableLoader(count, batch_size, seed, fetch)`.

- `fetch(batches)` is given. It takes batches of indices (a list of lists, or any other iterable of lists) and yields the loaded batches in the same order. It draws from `batches` ahead of what it yields, as a loader with workers does.
- `for batch in loader` runs one epoch: what `fetch` yields for all `count` indices, in a random order, in batches of `batch_size`; the last one may be smaller. The next `for` is the next epoch, with another order. The order of an epoch depends on `seed` and on the epoch alone. Each pair of the two has an order of its own: epoch 1 of seed 5 is not epoch 0 of seed 6.
- `fetch` is called once in a `for`, and each batch is handed on when it comes: nothing undoes the reading ahead.
- `loader.state_dict()` returns where it stands: a new dict of a few numbers, which goes into JSON and stays as it is while the loader goes on. It may be asked for at any time: before the first batch, inside the loop, after it. **The batch that the loop is just at counts as done.**
- `loader.load_state_dict(state)` sets a new loader, made with the same arguments and perhaps in another process, to where the other one stood. The next `for` yields the rest of that epoch; if nothing is left of it, it may yield nothing or begin the next one. What is done is not fetched again.
- A loader that was resumed can be stopped and resumed again. What a second `for` over the *same* loader does after a `break` is up to you.

<!-- hint: At which line does your `__iter__` know that a batch has arrived? When is the state asked for, before or after what follows the `yield`? -->
<!-- hint: Two numbers are enough: the epoch, and the batches done in it. Draw the epoch's order from seed and epoch, cut it into batches, leave out those that are done, and hand the rest to `fetch`. -->
<!-- hint: Count a batch *before* you yield it. After the loop over `fetch(...)`, the epoch grows by one and the count goes back to zero. `np.random.default_rng([seed, epoch])` draws the order. -->
"""


# %% solution="resumable-loader"
class ResumableLoader:
    """Batches epoch after epoch; it can be stopped after any batch, and resumed."""

    def __init__(self, count, batch_size, seed, fetch):
        ### BEGIN SOLUTION
        self.count = count
        self.batch_size = batch_size
        self.seed = seed
        self.fetch = fetch
        self.epoch = 0
        self.done = 0
        ### END SOLUTION

    def __iter__(self):
        ### BEGIN SOLUTION
        order = np.random.default_rng([self.seed, self.epoch]).permutation(self.count).tolist()
        starts = range(0, self.count, self.batch_size)
        batches = [order[start : start + self.batch_size] for start in starts]
        for batch in self.fetch(batches[self.done :]):
            self.done += 1
            yield batch
        self.epoch += 1
        self.done = 0
        ### END SOLUTION

    def state_dict(self):
        ### BEGIN SOLUTION
        return {"epoch": self.epoch, "done": self.done}
        ### END SOLUTION

    def load_state_dict(self, state):
        ### BEGIN SOLUTION
        self.epoch = state["epoch"]
        self.done = state["done"]
        ### END SOLUTION


# %% test="resumable-loader"
check = Check("resumable-loader")


# Batches of indices, those that came and those that were loaded; how many were when each came.
Run = collections.namedtuple("Run", "batches loaded loaded_by_then state")


def run_loader(count, batch_size, seed, total, *, ahead=0, stop=None, state=None):
    content = check.draw.permutation(100_000)[:count].tolist()
    loaded, came, by_then = [], [], []

    def load(indices):
        loaded.append(indices)
        return [content[index] for index in indices]

    def to(batch):
        came.append(batch)
        by_then.append(len(loaded))

    state = check.call(
        probes.loader_run,
        ResumableLoader,
        count,
        batch_size,
        seed,
        load=check.lend(load),
        to=check.lend(to),
        total=total,
        stop=stop,
        ahead=ahead,
        state=state,
    )
    check.equal(len(came), total, what="the number of batches that came")
    given = {tuple(content[index] for index in indices): indices for indices in loaded}
    for number, batch in enumerate(came):
        told = f"batch {number} is {batch}, which is nothing that fetch has yielded"
        check.true(isinstance(batch, list) and tuple(batch) in given, told)
    return Run([given[tuple(batch)] for batch in came], loaded, by_then, state)


def in_epochs(batches, count, batch_size):
    each = math.ceil(count / batch_size)
    starts = range(0, len(batches), each)
    return [list(itertools.chain(*batches[start : start + each])) for start in starts]


def resumed_equally(count, batch_size, ahead, all_stops, epochs=2):
    """Require the same batches with and without stops; return all, and the last run.

    Every stretch from stop to stop runs in another process, of which only the state gets there.
    """
    seed = check.draw.integer(0, 2**30)
    total = epochs * math.ceil(count / batch_size)
    whole = run_loader(count, batch_size, seed, total, ahead=ahead).batches
    states, run = [None] * len(all_stops), None
    for stretch in range(max(map(len, all_stops)) + 1):
        if stretch:
            check.restart()
        for number, stops in enumerate(all_stops):
            if stretch > len(stops):
                continue
            start, end = [0, *stops, total][stretch : stretch + 2]
            run = run_loader(
                count, batch_size, seed, end - start, ahead=ahead, state=states[number]
            )
            states[number] = run.state
            what = f"{count} samples in batches of {batch_size}, {ahead} loaded ahead, "
            what += f"stopped after {stops[:stretch]} batches" if stretch else "once more"
            check.equal(run.batches, whole[start:end], what=what)
    return whole, run


with check.property("an epoch holds every index once, in batches, in an order of its own"):
    batches = run_loader(23, 5, check.draw.integer(0, 2**30), 15).batches
    check.equal(
        [len(batch) for batch in batches],
        [5, 5, 5, 5, 3] * 3,
        what="sizes of the batches of three epochs",
    )
    epochs = in_epochs(batches, 23, 5)
    for number, epoch in enumerate(epochs):
        check.equal(sorted(epoch), list(range(23)), what=f"the indices of epoch {number}, sorted")
        check.true(epoch != sorted(epoch), f"epoch {number} is in no random order")
    check.true(epochs[0] != epochs[1] != epochs[2] != epochs[0], "two epochs have the same order")
with check.property("the order depends on the seed, and on nothing else"):
    seed = check.draw.integer(0, 2**30)
    first = run_loader(17, 4, seed, 10).batches
    check.equal(
        run_loader(17, 4, seed, 10, ahead=3).batches,
        first,
        what="the same seed for the second time",
    )
    other = run_loader(17, 4, seed + 1, 10).batches
    both = in_epochs(first, 17, 4), in_epochs(other, 17, 4)
    check.true(both[0][0] != both[1][0], "two seeds gave the same order")
    check.true(both[0][1] != both[1][0], f"epoch 1 of seed {seed} is epoch 0 of seed {seed + 1}")
with check.property(
    "stopped, it goes on where it was, also in a second epoch and for a second time", weight=2
):
    resumed_equally(14, 4, 0, [[0], [1], [2], [3], [6], [2, 3], [1, 5]])
with check.property("batches that were only drawn ahead do not count as done", weight=2):
    resumed_equally(29, 4, 5, [[1], [3], [5]])
with check.property("fetch may read ahead, and its batches are handed on as they come"):
    run = run_loader(check.draw.integer(29, 33), 4, check.draw.integer(0, 2**30), 8, ahead=3)
    check.equal(
        run.loaded_by_then,
        [4, 5, 6, 7, 8, 8, 8, 8],
        what="batches that fetch had drawn when each of 8 came, with 3 read ahead",
    )
with check.property("what is done is not fetched again"):
    whole, rest = resumed_equally(21, 4, 0, [[4]], epochs=1)
    check.equal(
        rest.loaded, whole[4:], what="the batches that were drawn after stopping at batch 4 of 6"
    )
with check.property("a state that was taken stays as it is; it holds a few numbers"):
    seed = check.draw.integer(0, 2**30)
    runs = [run_loader(500, 4, seed, stop + 2, ahead=2, stop=stop) for stop in (3, 128)]
    for run in runs:
        told = f"a state has {len(run.state)} characters as JSON: {run.state[:60]}"
        check.true(len(run.state) < 300, told)
    check.restart()
    for run in runs:
        got = run_loader(500, 4, seed, 2, ahead=2, state=run.state)
        what = "the batches after a state, which was written when the loader had gone on by two"
        check.equal(got.batches, run.batches[-2:], what=what)
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property(
    "stopped at any batch of two epochs, before the first and at the last", weight=2
):
    resumed_equally(19, 4, 4, [[stop] for stop in range(0, 10)])
    resumed_equally(12, 4, 0, [[stop] for stop in range(0, 6)])
with check.property("stopped and resumed again and again", weight=2):
    resumed_equally(26, 4, 2, [[1, 2, 3], [2, 5], [3, 8, 12], [6, 7, 7, 10]])
### END HIDDEN TESTS
check.score()

# %% [markdown]
"""
With a real loader, `fetch` is one line. When your class is written, try this in a cell of your own:

```python
dataset = PictureFolder(pictures_folder, "*.png")
loader = ResumableLoader(
    len(dataset),
    32,
    seed=0,
    fetch=lambda batches: DataLoader(by_value(dataset), batch_sampler=batches, num_workers=2),
)
```

### And on shards?

What is read in order can be resumed too, at a price: whoever resumes has to read up to the place again. That is cheap as long as only bytes are read and nothing is decoded.

The loader takes batches from its workers in turn: batch b comes from worker b mod W. If the shares are equal, or the first ones larger by one sample, that holds to the end. So from the number of batches that are done each worker knows how many of its samples to leave out. It also has to know whose turn it is: a new loader always begins with worker 0, so worker 0 now reads the share of the one whose turn it was. Such a state fits only the same number of workers and the same batch size; the one of the last exercise fits any number of workers.
"""


# %%
class ResumableShards(IterableDataset):
    """The samples of shards, beginning after ``done`` batches of all workers together."""

    def __init__(self, shards, sizes, share, batch_size, done=0):
        self.shards, self.sizes, self.share = shards, sizes, share
        self.batch_size, self.done = batch_size, done

    def __iter__(self):
        worker, workers = who_am_i()
        part = (worker + self.done) % workers
        batches_done = len(range(part, self.done, workers))
        files = itertools.chain.from_iterable(
            read_shard(self.shards[shard], start, stop)
            for shard, start, stop in self.share(self.sizes, part, workers)
        )
        for name, content in itertools.islice(files, batches_done * self.batch_size, None):
            yield decode_png(content), label_in(name), name


def every_nth(sizes, worker, workers):
    """Give the samples out in turn. Right, but every worker goes through every shard."""
    row = [(shard, n, n + 1) for shard, size in enumerate(sizes) for n in range(size)]
    return row[worker::workers]


FEW = [9, 5, 7]
os.mkdir(os.path.join(folder.name, "few"))
few_shards = write_shards(os.path.join(folder.name, "few"), FEW)


def batches_from_shards(done=0):
    dataset = by_value(ResumableShards(few_shards, FEW, every_nth, batch_size=4, done=done))
    return [list(names) for _, _, names in DataLoader(dataset, batch_size=4, num_workers=2)]


whole = batches_from_shards()
print(len(whole), "batches; the first:", ", ".join(whole[0]))
for done in range(1, len(whole)):
    print(f"resumed after {done}: the rest is the same:", batches_from_shards(done) == whole[done:])
folder.cleanup()

# %% [markdown]
"""
## In the wild

| what | where it is settled |
| --- | --- |
| both kinds of dataset, workers, collating | [`torch.utils.data`](https://docs.pytorch.org/docs/stable/data.html): `num_workers=`, `prefetch_factor=`, `persistent_workers=`, `pin_memory=`, `collate_fn=`, `worker_init_fn=`, `batch_sampler=`, `multiprocessing_context=` |
| stopping and resuming | [torchdata's `StatefulDataLoader`](https://meta-pytorch.org/data/main/torchdata.stateful_dataloader.html): `state_dict()` and `load_state_dict()`, with workers; it asks each worker's dataset for its state, every `snapshot_every_n_steps=` |
| tar shards | [WebDataset](https://webdataset.github.io/webdataset/): `split_by_node`, `split_by_worker`, `shuffle=` for a buffer, `resampled=True`, which draws shards at random and gives up "each sample once" |
| shards, buffers and resuming over a network | [Hugging Face Datasets, streaming](https://huggingface.co/docs/datasets/stream): `IterableDataset.shuffle(buffer_size=)`, `split_dataset_by_node`, `state_dict()` |
| training on several cards | [`DistributedSampler`](https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.distributed.DistributedSampler): **repeats** samples until the shares are equal, or with `drop_last=True` leaves some out; `set_epoch(epoch)` must be called, or every epoch has the same order |
| padding | [`torch.nn.utils.rnn.pad_sequence`](https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.rnn.pad_sequence.html) (it makes no mask) |
| random numbers that follow the sample | JAX: [keys and `fold_in`](https://docs.jax.dev/en/latest/random-numbers.html); [Grain](https://google-grain.readthedocs.io/en/latest/) gives each sample a generator of its own |
| other loaders | TensorFlow: [`tf.data`](https://www.tensorflow.org/guide/data_performance), `shuffle(buffer_size)`, `prefetch`, `padded_batch` |

## Recap

1. Workers are processes with a copy of the dataset each; an iterable dataset must share itself out, or every sample comes once per worker.
2. Map-style datasets are asked by index: keep an order that does not depend on the file system, and use the index.
3. Reading in order is cheap, and random order is then bought with a buffer, with the order of shards, and with how they were written.
4. Random numbers that belong to a sample come from the seed, the epoch and the index; a generator stored in the dataset is copied to every worker in every epoch.
5. A loader's state is what has *arrived*, not what was drawn ahead; epoch and number of batches are enough if the order can be drawn again.

### Test yourself

<details><summary>1. An iterable dataset without sharing is used with 4 workers, and the epoch is cut off after as many batches as one pass over the data has. Are all samples seen once?</summary>

No. The workers deliver in turn, each from the beginning. After a quarter of its copy each has delivered the same first quarter: every sample there comes four times, the rest never.
</details>

<details><summary>2. 8 shards of 1,000 samples, 3 workers, shards in turn. How long is the epoch, against equal shares?</summary>

Two workers have 3 shards, one has 2. The busiest reads 3,000 samples where 8,000 / 3 would be about 2,667: longer by one eighth.
</details>

<details><summary>3. The shards are sorted by class, 10 classes of 1,000 samples, read by one worker through a buffer of 500. What is in the first batch of 100?</summary>

Only the first class: sample 1,000 has not been read yet. The order of the shards, or who writes them, has to mix.
</details>

<details><summary>4. Augmentation draws from torch's global generator in the worker. Training is repeated with the same seed, but with 4 workers in the place of 2. Is it the same?</summary>

No. Each worker has a seed of its own, and with 4 workers a sample is loaded by another one, after other draws. Numbers from (seed, epoch, index) would be the same.
</details>

<details><summary>5. A run with 4 workers and prefetch_factor 2 saves the number of batches that its sampler has handed out, is killed, and resumes from it. What goes wrong, and how many batches are concerned?</summary>

The sampler is ahead of the training by 4 × 2 = 8 batches: they are skipped in that epoch, without an error. (Close to the end of the epoch there are fewer.)
</details>

### References

- PyTorch documentation, [`torch.utils.data`](https://docs.pytorch.org/docs/stable/data.html), sections "Map-style datasets", "Iterable-style datasets", "Multi-process data loading" and "Randomness in multi-process data loading"; the notes on [reproducibility](https://docs.pytorch.org/docs/stable/notes/randomness.html#dataloader).
- Python documentation, [`multiprocessing`, contexts and start methods](https://docs.python.org/3/library/multiprocessing.html#contexts-and-start-methods).
- The Open Group, [POSIX `pax`](https://pubs.opengroup.org/onlinepubs/9799919799/utilities/pax.html), section "ustar Interchange Format" (headers and blocks of 512 bytes).
- A. Aizman, G. Maltby, T. Breuel, "High Performance I/O For Large Scale Deep Learning", [arXiv:2001.01858](https://arxiv.org/abs/2001.01858), 2020 (tar shards, WebDataset).
- J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011, [doi:10.1145/2063384.2063405](https://doi.org/10.1145/2063384.2063405) (random numbers from a key and a counter).
- E. Alpaydin, C. Kaynak, "Optical Recognition of Handwritten Digits", UCI Machine Learning Repository, 1998, [doi:10.24432/C50P49](https://doi.org/10.24432/C50P49) (the digits; CC BY 4.0).

### Glossary

| English | 中文 | meaning |
| --- | --- | --- |
| dataset, map-style | 映射式数据集 | is asked for samples by their index |
| dataset, iterable-style | 可迭代数据集 | hands out samples one after the other |
| data loader | 数据加载器 | makes batches of samples, with workers |
| worker process | 工作进程 | a process that loads samples, with a copy of the dataset |
| shard | 分片 | one of the files into which a dataset is cut |
| sampler | 采样器 | says which indices come in which order |
| to prefetch | 预取 | to load batches before they are asked for |
| pinned memory | 锁页内存 | memory that a GPU can fetch from by itself |
| throughput | 吞吐量 | samples per second |
| shuffle buffer | 洗牌缓冲区 | holds some samples of a stream, and hands out a random one |
| to collate | 整理成批 | to make one batch of several samples |
| padding | 填充 | filler behind the end of what is shorter |
| data augmentation | 数据增强 | random changes to samples |
| seed | 随机种子 | the number that a generator starts from |
| epoch | 轮次 | one pass over all samples |
| to resume | 恢复（续训） | to go on where something was stopped |
"""

# %%
progress("09")
