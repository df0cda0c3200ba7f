# %% [markdown]
"""
# 09 · Data loading

A dataset yields eight samples. A `DataLoader` with one worker delivers each of them once. With two workers, the same loader delivers sixteen, and nothing reports an error.

**中文**: 本章讲数据加载：映射式与可迭代数据集、tar 分片、工作进程与分片分配、预取、洗牌缓冲区、变长样本的填充与掩码、每个样本自己的随机数、在一个 epoch 中途停止并恢复。
"""

# %% tags=["needed"] folded="Imports"
import collections
import io
import itertools
import json
import math
import os
import pickle
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
    explore_shards,
    failing,
    first_draws,
    hint,
    new_figure,
    places_after_buffer,
    predict,
    predictions,
    probes,
    progress,
    recorded,
    show,
    show_drawing,
    time_ratio,
)

# The loader warns if there are more workers than cores. Some cells below do that on purpose.
warnings.filterwarnings("ignore", message=".*worker processes in total")
device = "cuda" if torch.cuda.is_available() else "cpu"
# A worker computes with one thread; so does the main process here, for a fair comparison.
torch.set_num_threads(1)


# %%
class Numbers(IterableDataset):
    def __init__(self, count):
        self.count = count

    def __iter__(self):
        yield from range(self.count)


arrived = {}
for workers in (0, 1, 2):
    loader = DataLoader(by_value(Numbers(8)), batch_size=None, num_workers=workers)
    arrived[workers] = list(loader)

# %% folded="Predict: the first eight samples"
predict(
    "09/first-eight",
    "Someone notices and stops each two-worker epoch after eight samples. How many different samples are among them?",
    len(set(arrived[2][:8])),
    "The loader takes samples from the two workers in turn, and both begin at sample 0. Samples 4 to 7 never arrive.",
    between=(0, 8),
    unit="samples",
)

# %% folded="Figure 9.1: eight samples, read by 0, 1 and 2 workers"
figure, axes = new_figure(height=2.4)
for row, samples in enumerate(arrived.values()):
    for place, sample in enumerate(samples):
        again = sample in samples[:place]
        color = COLORS["vermilion" if again else "blue"]
        axes.barh(row, 0.9, left=place - 0.45, height=0.7, color=color)
        axes.text(place, row, str(sample), ha="center", va="center", color="white")
axes.invert_yaxis()
axes.set(
    title="Samples in the order in which they arrive",
    xlabel="place in the epoch",
    ylabel="workers",
    yticks=(0, 1, 2),
    xticks=range(16),
)
axes.grid(False)
show(
    figure,
    number="9.1",
    caption="A dataset of eight samples. Without workers and with one worker, each sample arrives once. With two, each arrives a second time (red).",
    alt="Three rows of numbered boxes. Without workers and with one worker: 0 to 7. With two workers: 0, 0, 1, 1 and so on to 7, 7; every other box is marked as a repetition.",
)

# %% [markdown]
"""
> **After this chapter, you will be able to**
>
> - write datasets with random access and datasets that are read in order, and choose between them;
> - divide any number of files among any number of workers, without losing or repeating a sample;
> - shuffle a stream, and batch samples of different lengths;
> - give every sample its own random numbers, whichever worker loads it;
> - stop in the middle of an epoch and resume without losing or repeating a batch.
>
> **Time**: 55 minutes to read and run, 130 for the six exercises.
>
> **Prerequisites**: tensors (chapter 00), `yield`, batches and epochs. Broadcasting (chapter 07) helps.
"""

# %% [markdown]
"""
## Every worker has a copy

A **worker** is a process, not a thread. It loads samples while the main process trains, and it has its own copy of the dataset. `batch_size=None` above makes the loader deliver single samples.
"""

# %% folded="Drawing: two workers and their copies"
show_drawing(
    "09/copies",
    number="9.2",
    caption="Each worker reads its own copy from the beginning, and neither knows about the other. The loader takes samples from them in turn.",
    alt="The main process has a dataset. It is copied into the processes of worker 0 and worker 1. Each copy yields 0, 1, 2 and so on to 7. The training loop receives 0, 0, 1, 1 and so on to 7, 7.",
)

# %%
for workers, samples in arrived.items():
    print(f"num_workers={workers}: {len(samples)} samples, {len(set(samples))} different ones")

# %% [markdown]
"""
Training with these two workers would make every epoch twice as long. The cure is a dataset that asks which worker it is in, or one that loads only the samples that it is asked for.

`by_value` sends a dataset to a worker together with its code. On Windows and macOS, and by default everywhere since Python 3.14, [worker processes start afresh](https://docs.python.org/3/library/multiprocessing.html#contexts-and-start-methods), so they cannot find classes that were defined in a notebook. Datasets imported from a module do not need `by_value`.

## Random access

In the next sections, the data are files: 600 handwritten digits, each in its own PNG file. The same PNGs are also stored in five **shards**, files that hold many samples each (here, tar archives).
"""

# %% tags=["needed"] folded="Tools: write and read pictures and tar shards"
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
    """Return a file's name, which holds the picture's number and its label: 0012-7.png."""
    return f"{number:04}-{digit_labels[number].item()}.png"


def label_in(name):
    """Return the label in a picture's name."""
    return int(name.split("-")[1].split(".")[0])


def write_pictures(folder):
    for number in range(PICTURES):
        (Path(folder) / picture_name(number)).write_bytes(encode_png(digit_images[number]))


def write_shards(folder, sizes):
    """Write tar files with these numbers of pictures, and return their paths."""
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
    """Yield the name and the bytes of each file in a tar, in order, from ``start`` to ``stop``."""
    with tarfile.open(path, "r|") as archive:
        for number, member in enumerate(archive):
            if stop is not None and number >= stop:
                break
            if number >= start:
                yield member.name, archive.extractfile(member).read()
            archive.members.clear()  # or the archive keeps a record of each


# %% folded="Data: 600 files and five shards"
folder = tempfile.TemporaryDirectory()
pictures_folder = os.path.join(folder.name, "pictures")
os.mkdir(pictures_folder)
write_pictures(pictures_folder)
SIZES = [150, 90, 130, 100, 130]
shards = write_shards(folder.name, SIZES)
name, content = next(read_shard(shards[1]))
print(len(os.listdir(pictures_folder)), "files;", len(shards), "shards of", SIZES, "pictures")
print("the first in shard 1:", name, "with label", label_in(name))

# %% folded="Figure 9.3: six of the pictures"
figure, axes = new_figure(1, 6, height=1.6)
for number, plot in enumerate(axes):
    name = picture_name(number)
    plot.imshow(read_png(os.path.join(pictures_folder, name)), cmap="gray_r", vmin=0, vmax=1)
    plot.set_title(name, fontsize=8)
    plot.axis("off")
show(
    figure,
    number="9.3",
    caption="The first six pictures. A file's name holds the picture's number and its label.",
    alt="Six handwritten digits of 8 by 8 pixels, from 0 to 5, each under the name of its file, such as 0003-3.png.",
)

# %% [markdown]
"""
A **map-style dataset** has two methods: `__len__` returns the number of samples, and `__getitem__(index)` loads one of them. The loader's **sampler** draws the indices, by default each once, and the loader gives each batch of them to one worker, so no sample comes twice. The next dataset does repeat samples:
"""


# %%
class LuckyPictures(Dataset):
    def __init__(self, folder):
        self.paths = list(Path(folder).glob("*.png"))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        return random.choice(self.paths).name


random.seed(0)
epoch = list(DataLoader(LuckyPictures(pictures_folder), batch_size=None))

# %% folded="Predict: a random picture for each index"
predict(
    "09/lucky",
    "An epoch of `LuckyPictures` has 600 samples. How many different pictures are among them?",
    len(set(epoch)),
    "The index is ignored. Each picture is missed by 600 random draws with probability (1 - 1/600)^600, close to 1/e.",
    between=(0, 600),
    unit="pictures",
)

# %% folded="Different pictures: counted and expected"
print(f"samples: {len(epoch)}, different ones: {len(set(epoch))}")
missed = (1 - 1 / PICTURES) ** PICTURES
print(f"expected: {PICTURES * (1 - missed):.0f} = 600 × {1 - missed:.3f}")

# %% [markdown]
"""
Each access to `dataset[5]` draws a picture at random, so nobody can look at a bad sample again. A second trap is in `__init__`: `glob` and [`os.listdir`](https://docs.python.org/3/library/os.html#os.listdir) return names in arbitrary order.
"""

# %% [markdown] exercise="picture-folder" points=4 minutes=15 difficulty=1
"""
### Pictures in a folder

If two machines list a folder in different orders, `dataset[5]` and every split by index differ between them. Write a dataset whose order depends only on the files' names.

The class `PictureFolder(folder, pattern)`, a map-style dataset

- **In** `folder`: a path, a `str`. `pattern`: which files count, in `glob`'s syntax; their names look like `0012-7.png`. Files in subfolders do not count. An `index` is an int ≥ 0.
- **Out** `len(dataset)`: the number of files that match. `dataset[index]`: the pair `(read_png(path), label_in(name))` for the file whose name comes at place `index` in alphabetical order. An index of `len(dataset)` or more raises an `IndexError`, which ends a `for` loop over the dataset.
- **Limits**: each access reads the picture from its file; none is read in advance or kept, because a folder may hold more than fits in memory.

With two files, `9-2.png` and `10-1.png`, `PictureFolder(folder, "*.png")[0][1]` returns `1`.

<!-- hint: What has to be known when the dataset is made, and what only when a sample is asked for? -->
<!-- hint: Keep the sorted paths. `Path(folder).glob(pattern)` finds them. A list raises the IndexError by itself. -->
<!-- hint: `__init__` keeps one sorted list of paths; `__len__` is its length; `__getitem__` looks up one path and returns two things: `read_png` of the path, and `label_in` of the path's `name`. -->
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


def own_label(name):
    return int(name.split("-")[1].split(".")[0])


def drawn_file(name):
    """Return a name, the bytes of a picture, and the picture as it is read."""
    rows, columns = check.draw.integer(3, 7), check.draw.integer(7, 11)
    image = check.draw.integers(rows, columns, low=0, high=256).to(torch.uint8)
    stream = io.BytesIO()
    Image.fromarray(image.numpy()).save(stream, format="png")
    content = torch.frombuffer(bytearray(stream.getvalue()), dtype=torch.uint8)
    return name, content, image.float() / 255


def asked_for(names, pattern, expected_names, indices, in_order=True):
    """Require the samples of a folder; which one has which index counts only with ``in_order``."""
    files = {name: drawn_file(name) for name in names}
    given = [(name, content) for name, content, _ in files.values()]
    got = check.call(probes.folder_items, PictureFolder, given, pattern, indices)
    check.equal(got["length"], len(expected_names), what=f"len(dataset) for {pattern}")
    came = []
    for index, item in zip(indices, got["items"], strict=True):
        what = f"dataset[{index}] of {sorted(expected_names)}"
        if index >= len(expected_names):
            raised, *_ = item.get("errors", ["nothing"])
            is_index_error = "IndexError" in item.get("errors", [])
            check.true(is_index_error, f"{what} raised {raised}; expected an IndexError")
            continue
        expected = files[sorted(expected_names)[index]]
        file = expected if in_order else file_of(item, files.values(), what)
        is_pair_of(item, file, what)
        came.append(file[0])
    if not in_order:
        what = "the names of the files whose pictures came, sorted"
        check.equal(sorted(came), sorted(expected_names), what=what)


def pair_in(item, what):
    check.true("item" in item, f"{what} raised {item.get('errors', [''])[0]}")
    pair = item["item"]
    check.true(
        isinstance(pair, tuple | list) and len(pair) == 2,
        f"{what} is not a pair of a picture and a label",
    )
    return pair


def file_of(item, files, what):
    """Return the file whose picture came, wherever the order puts it."""
    picture = pair_in(item, what)[0]
    for file in files:
        if picture.shape == file[2].shape and picture.allclose(file[2], atol=1e-6):
            return file
    check.true(False, f"the picture of {what} is in none of the files")


def is_pair_of(item, file, what):
    name, _, picture = file
    pair = pair_in(item, what)
    check.equal(pair[1], own_label(name), what=f"the label of {what}")
    check.close(pair[0], picture, atol=1e-6, what=f"the picture of {what}")


def drawn_names(count):
    labels = check.draw.permutation(10)[:count].tolist()
    if labels[0] < labels[-1]:  # the order of the labels must not be that of the names
        labels[0], labels[-1] = labels[-1], labels[0]
    numbers = check.draw.permutation(10_000)[:count].sort().values.tolist()
    return [f"{number:04}-{label}.png" for number, label in zip(numbers, labels, strict=True)]


with check.property("each index has a picture and its label"):
    for names in (drawn_names(5), ["9-2.png", "10-1.png", "12345-8.png"]):
        count = len(names)
        files = {own_label(name): drawn_file(name) for name in names}
        given = [(name, content) for name, content, _ in files.values()]
        indices = [*range(count), *range(count)]
        got = check.call(probes.folder_items, PictureFolder, given, "*.png", indices)
        check.equal(got["length"], count, what=f"len(dataset) of {count} pictures")
        items = zip(indices, got["items"], strict=True)
        pairs = [pair_in(item, f"dataset[{index}]") for index, item in items]
        for index, (_, label) in zip(indices, pairs, strict=True):  # in any order: that comes next
            what = f"the label of dataset[{index}]"
            check.true(isinstance(label, int), f"{what} is of type {type(label).__name__}, not int")
            told = f"{what} is {label}, which no file in folder pictures-90-… has"
            check.true(label in files, told)
            check.close(pairs[index][0], files[label][2], atol=1e-6, what=f"the picture of {label}")
        labels = [label for _, label in pairs]
        check.equal(sorted(labels[:count]), sorted(files), what="all labels, sorted")
        check.equal(labels[count:], labels[:count], what="all labels, read a second time")
with check.property("the names decide the order, not when the files were created", weight=2):
    names = drawn_names(9)
    turned = [names[i] for i in (7, 2, 0, 8, 5, 1, 6, 3, 4)]
    asked_for(turned, "*.png", names, [4, 0, 8, 3, 3])
with check.property("every access reads the picture from its file, and no other file is read"):
    names = drawn_names(4)
    old, new = [drawn_file(name) for name in names], [drawn_file(name) for name in names]
    contents = [[(name, content) for name, content, _ in files] for files in (old, new)]
    contents[0][3] = (names[3], torch.zeros(7, dtype=torch.uint8))
    indices, given = [0, 1, 2, 3, 0], (contents[0], "*.png", [0, 1, 2, 3, 0])
    got = check.call(
        probes.outcome, probes.folder_items, PictureFolder, *given, replaced=contents[1]
    )
    told = "one file holds no picture, and nobody has asked for that sample. Still, "
    check.true("output" in got, f"{told}{got.get('error')} was raised: {got.get('message')}")
    got = got["output"]
    raised = [f"dataset[{i}]" for i, item in enumerate(got["items"][:4]) if "errors" in item]
    told = f"{len(raised)} of 4 samples raised an error, {', '.join(raised)}, though only one file holds no picture"
    check.true(len(raised) <= 1, told)
    rounds = zip(indices, got["items"], got["again"], strict=True)
    for index, first, again in rounds:  # in any order: that is tried above
        what = f"dataset[{index}]"
        if what in raised:
            file = old[3]  # the one that is left
        else:
            file = file_of(first, old[:3], what)
            is_pair_of(first, file, what)
        what += " after its file was replaced by another picture"
        is_pair_of(again, new[names.index(file[0])], what)
    told = f"making the dataset opened {got['opened']}, which nobody had asked for yet"
    check.true(not got["opened"], told)
    check.true(not got["kept"], "the dataset keeps a picture that it has read")
with check.property("an index past the end raises an IndexError; files in subfolders do not count"):
    names = drawn_names(3)
    asked_for([*names, "below/0000-1.png"], "*.png", names, [0, 1, 2, 3], in_order=False)
with check.property("only files that match the pattern count"):
    names = ["0004-3.png", "0002-3.png", "0001-8.png", "0003-5.jpg", "0009-3.png"]
    names += ["0006-3.png.part", "0003-3.png~"]
    asked_for(
        names, "*-3.png", ["0004-3.png", "0002-3.png", "0009-3.png"], [0, 1, 2], in_order=False
    )
    asked_for(names, "000[1-3]-?.png", ["0001-8.png", "0002-3.png"], [0, 1], in_order=False)
with check.property(
    "the order is alphabetical, not numerical; a label may have several digits", weight=0.5
):
    names = ["9-2.png", "10-1.png", "100-13.png"]
    asked_for(names, "*.png", names, [0, 1, 2])
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("patterns that restrict the beginning or the middle of a name"):
    names = ["1204-3.png", "1202-6.png", "0212-3.png", "1203-5.jpg", "1209-3.tiff"]
    asked_for(names, "12*.png", ["1204-3.png", "1202-6.png"], [0, 1, 2])
    asked_for(names, "*2-*", ["1202-6.png", "0212-3.png"], [1, 0])
with check.property("numbers of different lengths, some with leading zeros", weight=0.5):
    names = ["08-1.png", "8-4.png", "11-2.png", "0110-6.png"]
    asked_for(names, "*.png", names, [3, 2, 1, 0])
### END HIDDEN TESTS
check.score()

# %% [markdown]
"""
## Reading in order

With a folder of pictures, every epoch has to find and open 600 files. A shard is opened once.
"""

# %% folded="Drawing: files, and a tar shard"
show_drawing(
    "09/tar",
    number="9.4",
    caption="A tar archive is a sequence of 512-byte blocks: for each file, a header, then the content, padded to whole blocks.",
    alt="Above: files, each with a box labeled 'open' before its content. Below: a tar shard, opened once; then, again and again, a header of 512 bytes and the content with its padding; at the end two empty blocks, filled up to a multiple of 10,240 bytes.",
)

# %%
contents = [encode_png(image) for image in digit_images[:PICTURES]]
print(f"600 PNGs: {sum(map(len, contents)):,} bytes, the largest {max(map(len, contents))}")
print(f"5 shards: {sum(map(os.path.getsize, shards)):,} bytes = 600 × 1024 + 5 × 10,240")

# %% [markdown]
"""
Every PNG is smaller than a block, so each takes 1,024 bytes, mostly header and padding. `tarfile` pads a tar to a multiple of 10,240 bytes. Ten pictures take exactly 10,240 bytes, and each shard here holds a multiple of ten, so the two empty blocks at its end take another 10,240. The next cell times both ways of reading, and simulates a slower disk or network by calling `time.sleep` before a file is opened.
"""

# %% tags=["nbval-ignore-output"] folded="Measure: 150 files against one shard, with a wait for each open"
WAITS = (0.0, 0.0005, 0.001, 0.002)
paths = [os.path.join(pictures_folder, picture_name(number)) for number in range(SIZES[0])]


def read_files(wait):
    total = 0
    for path in paths:
        if wait:
            time.sleep(wait)
        total += len(Path(path).read_bytes())
    return total


def read_one_shard(wait):
    if wait:
        time.sleep(wait)
    return sum(len(content) for _, content in read_shard(shards[0]))


ratios = [
    time_ratio(lambda w=wait: read_files(w), lambda w=wait: read_one_shard(w), pairs=3, seconds=0.6)
    for wait in WAITS
]

# %% tags=["nbval-ignore-output"] folded="Predict: files or a shard, without a wait"
predict(
    "09/no-wait",
    "Without any wait, which is read faster: 150 separate files, or the shard of the same pictures, with Python's `tarfile`?",
    "the separate files" if ratios[0].median < 1 else "the shard",
    "Files that were just written are still in memory, so opening one can take less time than `tarfile` needs for a header. Waiting for each open makes the shard win.",
    choices=("the separate files", "the shard"),
)

# %% tags=["nbval-ignore-output"] folded="Figure 9.5: files against a shard, by the wait for each open"
figure, axes = new_figure(height=2.9)
milliseconds = [1000 * wait for wait in WAITS]
axes.plot(milliseconds, [ratio.median for ratio in ratios], "o-")
axes.axhline(1.0, color=COLORS["black"], lw=0.8)
axes.set(
    title="150 separate files against one shard",
    xlabel="wait for each open (ms)",
    ylabel="time for files / time for shard",
    yscale="log",
)
show(
    figure,
    number="9.5",
    caption="Time for 150 separate files, divided by that for one shard of the same pictures. Below the line, separate files are faster. Measured on this machine, with simulated waits.",
    alt="A rising curve: time for separate files divided by time for one shard, against a simulated wait of 0 to 2 milliseconds for each open.",
)
for wait, ratio in zip(milliseconds, ratios, strict=True):
    print(f"wait of {wait} ms: files take {ratio} as long as the shard")

# %% [markdown]
"""
The mode `"r|"` reads a tar as a stream. Even so, `tarfile` keeps a record of every file that it has read:
"""

# %% folded="An archive of 3,000 files in memory"
stream = io.BytesIO()
with tarfile.open(fileobj=stream, mode="w") as archive:
    for number in range(3000):
        archive.addfile(tarfile.TarInfo(f"{number}.txt"))

# %%
for clear in (False, True):
    stream.seek(0)
    with tarfile.open(fileobj=stream, mode="r|") as archive:
        for _ in archive:
            if clear:
                archive.members.clear()
        print(f"members.clear(): {clear!s:<6} records kept: {len(archive.members)}")

# %% [markdown]
"""
`read_shard` above clears these records. Since Python 3.13, [`stream=True`](https://docs.python.org/3/library/tarfile.html#tarfile.TarFile) avoids them.

A stream has a price: to reach sample 5, a reader must pass the five before it. An **iterable-style dataset**, a subclass of `IterableDataset`, is such a stream, read through `__iter__`.

## Who reads what

In a worker, `get_worker_info()` returns an object with `id` and `num_workers`; in the main process, it returns None. From these two numbers, a dataset can work out its share. The simplest rule deals out whole shards:
"""


# %% tags=["needed"]
def who_am_i():
    """Return this worker's number and how many there are; (0, 1) where there are no workers."""
    info = get_worker_info()
    return (0, 1) if info is None else (info.id, info.num_workers)


def shards_in_turn(sizes, worker, workers):
    """Return what a worker reads: a list of (shard, start, stop)."""
    return [(shard, 0, size) for shard, size in enumerate(sizes) if shard % workers == worker]


# %% tags=["needed"] folded="TarPictures: a dataset over shards, with a rule of your choice"
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


# %% folded="Two other rules, and the names that a rule loads"
def all_of_it(sizes, worker, workers):
    return [(shard, 0, size) for shard, size in enumerate(sizes)]


def one_shard_each(sizes, worker, workers):
    if workers != len(sizes):
        raise ValueError(f"{workers} workers for {len(sizes)} shards")
    return [(worker, 0, sizes[worker])]


def names_loaded(share, workers):
    dataset = by_value(TarPictures(shards, SIZES, share))
    return [name for _, _, name in DataLoader(dataset, batch_size=None, num_workers=workers)]


loads = [sum(stop for *_, stop in shards_in_turn(SIZES, worker, 3)) for worker in range(3)]

# %% folded="Predict: the busiest of three workers"
predict(
    "09/busiest",
    "Shards of 150, 90, 130, 100 and 130 pictures go to three workers in turn. How many pictures does the busiest worker read?",
    max(loads),
    "Worker 0 reads the first and the fourth shard. An equal share would be 200 pictures, and the epoch takes as long as the busiest worker.",
    between=(100, 600),
    unit="pictures",
)

# %% folded="What three workers load under these rules"
for share in (all_of_it, shards_in_turn):
    names = names_loaded(share, workers=3)
    print(f"{share.__name__}: {len(names)} samples, {len(set(names))} different ones")
print("shards_in_turn, samples for each worker:", loads)
try:
    one_shard_each(SIZES, worker=0, workers=3)
except ValueError as error:
    print("one_shard_each:", error)

# %% [markdown]
"""
`all_of_it` repeats this chapter's first failure. `one_shard_each` works only with as many workers as shards. `shards_in_turn` neither loses nor repeats a sample, but its shares are unequal.

In the next drawing, batches of two arrive from workers that read 24 samples in five shards. Compare its three rules, and step through batch by batch. Red frames mark what was read or arrived more than once. The buffer is for the next section.
"""

# %% folded="Explore: shards, workers and what arrives"
explore_shards("turn", workers=3, step=4)

# %% [markdown]
"""
Equal shares need a finer cut than whole files. They matter even more in training on several GPUs: with [uneven inputs](https://docs.pytorch.org/docs/stable/distributed.algorithms.join.html), one process runs out of samples while the others still wait for it.
"""

# %% [markdown] exercise="share-samples" points=5 minutes=25 difficulty=2
"""
### Equal shares

Write the rule whose shares differ by at most one sample.

`share_samples(sizes, worker, workers) -> list`

- **In** `sizes`: a list of ints, the number of samples in each shard. It may contain zeros or be empty, and must not change. `worker`: from 0 to `workers` − 1. `workers`: at least 1.
- **Out**: a list of tuples `(shard, start, stop)` of integers: this worker reads the samples of that shard from `start` up to but not including `stop`. The tuples follow the order of the shards, and in each, `start` < `stop`. A worker without samples gets `[]`.
- **The rule**: number all samples consecutively, across shards. Worker 0 reads the first ones, worker 1 the next ones, and so on, so each worker opens few shards. If the samples do not divide evenly, the first workers read one more each.

`share_samples([4, 3], 1, 3)` returns `[(0, 3, 4), (1, 0, 1)]`; workers 0 and 2 get `[(0, 0, 3)]` and `[(1, 1, 3)]`. In a cell of your own, `len(set(names_loaded(share_samples, 3)))` is `600`.

<!-- hint: Forget the shards for a moment. If all samples stood in one row, from where to where would worker w read? -->
<!-- hint: With `each, rest = divmod(total, workers)`, the first `rest` workers have `each + 1`. Then go through the shards with a running offset, and intersect the worker's piece of the row with each shard's piece. -->
<!-- hint: The intersection of two pieces goes from the larger of the two beginnings to the smaller of the two ends, and is empty unless the end exceeds the beginning. Subtract the shard's offset from both. -->
"""


# %% solution="share-samples"
def share_samples(sizes, worker, workers):
    """Return the list of (shard, start, stop) that ``worker`` of ``workers`` reads."""
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
        odd = [part for part in got if not isinstance(part, tuple)]
        check.true(not odd, f"a part is {odd[:1]}, not a tuple")
        check.equal(got, expected, what=f"worker {worker} of {workers}, sizes {sizes}")
        for shard, start, stop in got:
            seen.update((shard, number) for number in range(start, stop))
    every = [(shard, number) for shard, size in enumerate(sizes) for number in range(size)]
    check.true(
        sorted(seen.elements()) == every,
        f"sizes {sizes}, {workers} workers: not every sample is read exactly once",
    )


def drawn_sizes(shards):
    return check.draw.integers(shards, low=1, high=40).tolist()


with check.property("the card's examples, and one shard divided among several workers"):
    shared_out([4, 3], 2)
    shared_out([4, 3], 3)
    shared_out([12], 4)
with check.property("shares that extend over several shards", weight=2):
    shared_out([5, 9, 0, 3, 8], 3)
    shared_out(drawn_sizes(6), 4)
with check.property("one worker reads everything"):
    shared_out(drawn_sizes(3), 1)
with check.property("more workers than samples or shards; empty shards, and no shard at all"):
    shared_out([1, 2], 5)
    shared_out(drawn_sizes(2), 7)
    shared_out([0, 3, 0], 2)
    shared_out([], 2)
with check.property("the list of sizes does not change", weight=0.5):
    sizes = drawn_sizes(5)
    first, again = check.call(probes.called_twice, share_samples, sizes, 1, 3)
    expected = check.call(share_samples, sizes, 1, 3)
    check.equal(first, expected, what=f"worker 1 of 3, sizes {sizes}")
    check.equal(again, expected, what=f"a second call with the same list, originally {sizes}")
    seen = check.call(probes.after_call, share_samples, sizes, 1, 3)
    check.equal(seen["output"], expected, what=f"worker 1 of 3, sizes {sizes}")
    check.equal(seen["arguments"][0], sizes, what="the list of sizes after the call")
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("more empty shards"):
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
## Shuffling a stream

If shards are written class by class, most batches hold only one class. A **shuffle buffer** holds some samples of the stream. Whenever a sample is wanted, the buffer hands out a random one, and the next sample of the stream takes its place.

How far can a sample travel? Give the worker below a larger buffer and compare the places forward with the places back.
"""

# %% folded="Explore: one worker with a shuffle buffer"
explore_shards("equal", workers=1, buffer=4, step=5)

# %% [markdown]
"""
A sample cannot come out before it is read, so it moves forward by at most the buffer's size minus 1. How long it stays is random: each draw picks it with probability 1/`size`, so while the stream lasts, its wait is geometrically distributed, with a mean of `size` draws. The next cells send 600 pictures, sorted by label, through buffers of three sizes.
"""

# %% folded="600 sorted pictures through three buffers"
places = {size: np.array(places_after_buffer(PICTURES, size)) for size in (1, 20, 100)}
by_label = digit_labels[:PICTURES].sort().values
labels_out = by_label[np.argsort(places[100])]
for size, place in places.items():
    moved = np.arange(PICTURES) - place
    print(
        f"buffer of {size}: forward by at most {moved.max()}, back by at most {-moved.min()} places"
    )

# %% folded="Predict: labels in the first batch"
predict(
    "09/labels",
    "600 pictures, sorted by label, pass through a buffer of 100. How many of the ten digits are in the first batch of 20?",
    len(set(labels_out[:20].tolist())),
    "Only the first 120 pictures have been read when the batch is full, and each digit has about 60.",
    between=(1, 10),
    unit="digits",
)

# %% folded="Figure 9.6: places after shuffling"
figure, axes = new_figure(1, 3, height=2.9, sharey=True)
for plot, (size, place) in zip(axes, places.items(), strict=True):
    plot.plot(np.arange(PICTURES), place, ".", ms=2.5)
    plot.set(title=f"Buffer of {size}", xlabel="place in the stream")
axes[0].set_ylabel("place after shuffling")
show(
    figure,
    number="9.6",
    caption="The lower edge is sharp: nothing comes out before it is read. The upper edge is random.",
    alt="Place after shuffling against place in the stream. With a buffer of 1 a straight line. With one of 20 a narrow cloud along it, with one of 100 a wide one; the lower edge is sharp, the upper one frays.",
)

# %% [markdown]
"""
So a buffer of 100 cannot bring the last class to the beginning. Other measures can: shuffle the order of the shards in every epoch, let each worker mix several shards, and shuffle the samples before writing the shards.
"""

# %% [markdown] exercise="shuffle-buffer" points=5 minutes=20 difficulty=2
"""
### A shuffle buffer

A stream may be larger than memory, or never end, so it cannot be shuffled as a whole. Write the buffer that shuffles it as it passes.

`shuffle_buffer(samples, size, seed)`, a generator function

- **In** `samples`: an iterator over samples of any kind, perhaps endless. `size`: at least 1. `seed`: an int ≥ 0.
- **Out**: the same samples, each exactly once. First, `size` samples fill the buffer. Then, again and again, one of the samples in the buffer is yielded, each with the same chance, and the next sample of the stream takes its place. When `samples` ends, the rest comes out in random order. The same seed gives the same order.
- **Limits**: when sample number k comes out (k from 1), at most `size + k` have been read. Samples are passed on and never compared: they may be tensors or None. The global generators of `random`, NumPy and torch stay as they are.

`list(shuffle_buffer(iter("abcd"), 1, seed=0))` returns `['a', 'b', 'c', 'd']`; with a buffer of 2, `'a'` or `'b'` is first.

<!-- hint: What is in the buffer when the stream has just ended? Which two phases does the function have? -->
<!-- hint: Use a list as the buffer. While it is shorter than `size`, append. From then on choose a place in it, yield what lies there, and put the new sample into that place. -->
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
    """Return different numbers that nobody can know before reading them."""
    return check.draw.permutation(100_000)[:count].tolist()


def shuffled(samples, size, seeds, in_turn=False):
    """Return, for each seed, the places in the stream of the samples that came out."""
    places = {sample: place for place, sample in enumerate(samples)}
    outs = check.call(probes.streams, shuffle_buffer, samples, size, seeds, in_turn=in_turn)
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
        check.true(sample in places, f"{what}, but {sample} was never in the stream")
        check.true(read <= size + k, f"{what} when {read} had been read: too far ahead")
    return [places[sample] for sample, _ in came]


with check.property("every sample once, in another order"):
    many = check.draw.integer(40, 60)
    for count, size in ((many, 8), (23, 23), (5, 40), (1, 3), (0, 4)):
        for places in shuffled(drawn_samples(count), size, drawn_seeds(3)):
            check.true(
                count <= size or count < 23 or places != sorted(places),
                f"{count} samples, buffer of {size}: nothing was shuffled",
            )
with check.property("a buffer of 1 changes nothing; otherwise, the order depends only on the seed"):
    seed = check.draw.integer(0, 2**30)
    (places,) = shuffled(drawn_samples(30), 1, [seed])
    check.equal(places, list(range(30)), what="places of the samples, with a buffer of 1")
    first, again, other = shuffled(drawn_samples(40), 10, [seed, seed, seed + 1])
    check.equal(again, first, what="places in a second run with the same seed")
    check.true(other != first, "two seeds gave the same order")
    samples, seeds = drawn_samples(40), [0, seed, 0]
    first, other, again = shuffled(samples, 10, seeds)
    check.equal(again, first, what="places in a second run with a seed of 0")
    what = "places from two buffers, with the seeds 0 and {}, that were used in turn, against each one alone"
    check.equal(
        shuffled(samples, 10, seeds[:2], in_turn=True), [first, other], what=what.format(seed)
    )
with check.property("it reads no further ahead than allowed, even in an endless stream", weight=2):
    # No right buffer comes to the end of it, and one that reads all there is does not hang.
    endless = (check.draw.integer(0, 2**60) for _ in range(2000))
    places = watched(endless, 6, check.draw.integer(0, 2**30), most=100)
    check.equal(len(set(places)), 100, what="different samples among 100 that came out")
    check.true(places != sorted(places), "100 samples, buffer of 6: nothing was shuffled")
with check.property("every sample in the buffer has the same chance", weight=2):
    seeds = drawn_seeds(800)
    outs = shuffled(drawn_samples(12), 4, seeds)
    counts = collections.Counter(out[0] for out in outs)
    check.true(
        set(counts) == {0, 1, 2, 3} and max(counts.values()) < 290 and min(counts.values()) > 120,
        f"how often each of samples 0 to 3 came out first in 800 runs, expected about 200: {dict(sorted(counts.items()))}",
    )
    late = sum(out.index(0) >= 4 for out in outs)
    check.true(
        160 < late < 360,
        f"in {late} of 800 runs with a buffer of 4, sample 0 came out fifth or later; about 253 are expected",
    )
    at_once = sum(out[k] == k + 3 for out in outs for k in range(1, 9))
    told = "of 6400 samples that were read after the buffer of 4 was full, {} came out next; about 1600 are expected"
    check.true(1400 < at_once < 1800, told.format(at_once))
    for run in check.draw.permutation(800)[:4].tolist():
        places = watched(drawn_samples(12), 4, seeds[run], most=12)
        check.equal(places, outs[run], what="places in a second run with the same seed")
with check.property("what is left at the end comes out in random order", weight=0.5):
    outs = shuffled(drawn_samples(3), 5, drawn_seeds(600))
    counts = collections.Counter(tuple(out) for out in outs)
    check.true(
        len(counts) == 6 and min(counts.values()) > 45 and max(counts.values()) < 160,
        f"how often each of 6 orders of 3 samples came out in 600 runs, expected about 100: { ({str(order): n for order, n in sorted(counts.items())}) }",
    )
with check.property("samples of any kind, equal ones too", weight=0.5):
    values = check.draw.normal(20).tolist()
    samples = [torch.full((2,), value) for value in values for _ in range(2)]
    (out,) = check.call(probes.streams, shuffle_buffer, samples, 6, drawn_seeds(1))
    odd = [type(sample).__name__ for sample in out if not isinstance(sample, torch.Tensor)]
    check.true(not odd, f"a stream of tensors came out with other things, {odd[:1]}")
    numbers = sorted(float(sample[0]) for sample in out)
    expected = sorted(float(sample[0]) for sample in samples)
    check.equal(numbers, expected, what="tensors that came out, sorted")
    number = check.draw.integer(1, 1000)
    samples = ["a", None, 0, number, number, "", "a", None, number, 0, "b"]
    for out in check.call(probes.streams, shuffle_buffer, samples, 3, drawn_seeds(4)):
        told = f"a stream of {samples} came out as {out}"
        check.true(sorted(map(repr, out)) == sorted(map(repr, samples)), told)
with check.property("draws from a generator of its own, and leaves the global ones alone"):
    seed, samples = check.draw.integer(0, 2**20), drawn_samples(check.draw.integer(40, 60))
    given = check.stream(iter(samples)), 8, check.draw.integer(0, 2**30)
    draws = check.call(probes.draws_between, shuffle_buffer, *given, seed=seed, most=len(samples))
    check.equal(len(draws), len(samples) + 1, what="how often others drew, between samples")
    own = random.Random(seed), np.random.RandomState(seed), torch.Generator().manual_seed(seed)
    for k, seen in enumerate(draws, start=1):
        drawn = own[0].random(), float(own[1].random_sample()), torch.rand((), generator=own[2])
        for name, number in zip(("random", "numpy", "torch"), drawn, strict=True):
            what = f"what others drew from the global generator of {name} after {k} samples"
            check.equal(seen[name], float(number), what=what)
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("the last samples of a longer stream come out in random order", weight=0.5):
    outs = shuffled(drawn_samples(5), 2, drawn_seeds(600))
    last = sum(out[-1] == 4 for out in outs)
    told = f"in 600 runs the last of 5 samples came out last {last} times; about 300 are expected"
    check.true(220 < last < 380, told)
with check.property("strings, lists and None, some of them twice", weight=0.5):
    samples = ["a", None, [1, 2], "a", None, [1, 2], "b"]
    for out in check.call(probes.streams, shuffle_buffer, samples, 3, drawn_seeds(4)):
        check.equal(sorted(map(str, out)), sorted(map(str, samples)), what="what came out, sorted")
### END HIDDEN TESTS
check.score()

# %% [markdown]
"""
## What workers are worth

The next figure shows how much workers help when the digits are only decoded, and when they are also enlarged to 256 × 256 pixels and rotated.
"""


# %% tags=["nbval-ignore-output"] folded="Measure: throughput by number of workers"
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


WORKERS = [0, 1, 2, 3, 4]
measured = {
    enlarge: [seconds_of_two_epochs(DecodedDigits(contents[:200], enlarge), w) for w in WORKERS]
    for enlarge in (False, True)
}

# %% tags=["nbval-ignore-output"] folded="Figure 9.7: throughput by number of workers"
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
        ylabel="throughput relative to 0 workers",
        xticks=WORKERS,
        ylim=(0, None),
    )
axes[1].legend(loc="lower right")
show(
    figure,
    number="9.7",
    caption="Throughput (samples per second) relative to that without workers, measured on this machine. Each process computes with one thread.",
    alt="Throughput relative to that without workers, against the number of workers from 0 to 4, for cheap and costly samples, in a first and a later epoch.",
)
print("cores here:", os.cpu_count())

# %% [markdown]
"""
Two costs reduce the gain: the first epoch starts the workers, and every batch is sent from one process to another. Workers also share the cores; the cell above prints how many there are. Three options of `DataLoader` are worth knowing:

- `persistent_workers=True` keeps the workers alive from epoch to epoch.
- `pin_memory=True` copies batches into **pinned memory**, from which a GPU can copy data by itself; `batch.to("cuda", non_blocking=True)` then returns at once.
- `prefetch_factor` (2 by default) says how far workers **prefetch**, that is, how many batches each prepares ahead. A larger factor hides slow batches, but takes memory.
"""

# %% tags=["nbval-ignore-output", "recorded"] folded="Measure: pinned memory"
if device == "cuda":
    batch = torch.randn(256, 3, 128, 128)
    pinned = batch.pin_memory()
    print(
        "time to copy to the GPU, unpinned relative to pinned:",
        time_ratio(lambda: batch.cuda(), lambda: pinned.cuda()),
    )
else:
    print("No GPU here, so there is nothing to pin memory for.")
recorded("pinned-memory")


# %%
class CountedBatches:
    def __init__(self, batches):
        self.batches = batches
        self.drawn = 0

    def __iter__(self):
        for batch in self.batches:
            self.drawn += 1
            yield batch


# %% folded="Measure: batches drawn when the first one arrives"
drawn = {}
for workers, factor in ((0, None), (1, 2), (2, 2), (2, 4)):
    batches = CountedBatches([[number] for number in range(40)])
    loader = DataLoader(
        range(40), batch_sampler=batches, num_workers=workers, prefetch_factor=factor
    )
    next(iter(loader))
    drawn[workers, factor] = batches.drawn

# %% folded="Predict: how far ahead the loader is"
predict(
    "09/drawn-ahead",
    "The first batch arrives from a loader with `num_workers=2` and `prefetch_factor=2`. How many batches has the loader drawn from its sampler by then?",
    drawn[2, 2],
    "Each worker is given two batches at the start, and when one arrives, the loader hands out the next at once: 2 × 2 + 1.",
    between=(0, 40),
    unit="batches",
)

# %%
for (workers, factor), count in drawn.items():
    print(f"num_workers={workers}, prefetch_factor={factor}: {count} drawn when 1 has arrived")

# %% [markdown]
"""
## Samples of different lengths

To make a batch, the loader stacks samples, which must have equal shapes. Describe each digit by the positions of its dark pixels, and the shapes differ:
"""


# %%
def ink(number):
    """Return the dark pixels of a digit: float32 (pixels, 2)."""
    return (digit_images[number] > 7).nonzero().float()


lengths = torch.tensor([len(ink(number)) for number in range(PICTURES)])
print("dark pixels: from", lengths.min().item(), "to", lengths.max().item())
try:
    next(iter(DataLoader([ink(0), ink(1)], batch_size=2)))
except RuntimeError as error:
    print("RuntimeError:", str(error).split(",")[0])

# %% [markdown]
"""
The option `collate_fn` takes a function that **collates** samples, that is, turns a list into one batch. This function can add **padding**, filler after the end of short samples. A mask then says which values are real, because a 0 may be real or padding (chapter 07). Padding wastes computation, and how much depends on which samples share a batch:
"""

# %% folded="Padding in batches of 20, at random and by length"
BATCH = 20


def padding_share(order):
    batches = lengths[order].reshape(-1, BATCH)
    slots = (batches.max(dim=1).values * BATCH).sum()
    return 1 - lengths.sum().item() / slots.item()


random_order = torch.from_numpy(np.random.default_rng(0).permutation(PICTURES))
sorted_order = lengths.argsort(stable=True)
shares = {
    name: padding_share(o) for name, o in (("random", random_order), ("sorted", sorted_order))
}

# %% folded="Predict: padding in random batches"
predict(
    "09/padding",
    f"The digits have {lengths.min()} to {lengths.max()} dark pixels. In random batches of 20, each padded to its own longest sample, how much of a batch is padding?",
    100 * shares["random"],
    "Among 20 random samples there is nearly always a long one, which sets the batch's length.",
    between=(0, 100),
    unit="%",
)

# %% folded="Figure 9.8: two padded batches"
figure, grid = new_figure(1, 2, height=2.8, sharey=True)
for axes, (title, order) in zip(
    grid, (("Random", random_order), ("Similar lengths", sorted_order)), strict=True
):
    batch_lengths = lengths[order[5 * BATCH : 6 * BATCH]].tolist()
    longest = max(batch_lengths)
    rows = range(BATCH)
    axes.barh(rows, [longest] * BATCH, color=COLORS["orange"], height=0.8, label="padding")
    axes.barh(rows, batch_lengths, color=COLORS["blue"], height=0.8, label="samples")
    axes.set(title=title, xlabel="dark pixels", ylabel="sample in the batch", xlim=(0, 30))
    axes.grid(False)
grid[1].legend(loc="lower right")
show(
    figure,
    number="9.8",
    caption="The sixth batch of 20, once in random order and once after sorting all samples by length. Orange is padding.",
    alt="Two stacks of 20 horizontal bars, padded to the longest of the batch. In the random batch about a fifth of the area is padding; in the sorted batch there is none.",
)
for name, share in shares.items():
    print(f"padding, batches in {name} order: {share:.0%}")
shortest = digit_labels[sorted_order[:BATCH]].tolist()
print("labels in the batch of the shortest:", dict(collections.Counter(shortest).most_common()))

# %% [markdown]
"""
Sorting removes nearly all padding, but batches of similar lengths are less random: more than half of the 20 shortest digits are threes and fours. Sorting within large random chunks is a compromise.
"""

# %% [markdown] exercise="pad-batch" points=4 minutes=15 difficulty=1
"""
### Pad a batch

Write a `collate_fn` that lets `DataLoader` batch samples of different lengths.

`pad_batch(samples) -> (padded, mask)`

- **In** `samples`: a list of at least one tensor. Sample i has the shape (n_i, features); n_i may be 0. All have the same dtype, perhaps an integer one.
- **Out** `padded`, in the samples' dtype: (samples, longest, features), where longest is this batch's largest n_i; each sample from the beginning of its row, then zeros. `mask`: Boolean, (samples, longest), True where `padded` holds a real value, even a real 0. The samples and their list do not change.

With samples of shapes (2, 4) and (1, 4), `pad_batch(samples)[1]` returns `tensor([[True, True], [True, False]])`.

<!-- hint: Which of the two results can be known from the lengths alone? -->
<!-- hint: Make a tensor of zeros for the batch, then write each sample into the beginning of its row. The mask comes from comparing lengths with positions, not from comparing values with 0. -->
<!-- hint: `samples[0].new_zeros(...)` keeps the dtype. For the mask, compare `torch.arange(longest)` with a column of lengths; broadcasting does the rest. -->
"""


# %% solution="pad-batch"
def pad_batch(samples):
    """Return the samples, padded to (samples, longest, features), and their mask."""
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
    """Return samples of these lengths, and the expected result: padded, and the mask."""
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


def padded_beside(values):
    """Try a long sample, with a row for each of these values, and a short one."""
    rows = values[check.draw.permutation(len(values))][:, None].repeat(1, 2)
    padded = torch.stack([rows, torch.zeros_like(rows)])
    padded[1, :3] = rows[:3]
    mask = torch.arange(len(rows)) < torch.tensor([[len(rows)], [3]])
    is_padded(check.call(pad_batch, [rows, rows[:3].clone()]), padded, mask)


with check.property("short samples are padded after their end"):
    padded_right([2, 5, 3], 4)
    padded_right([6, 1], 3)
with check.property("a real 0 is not padding, nor is a real -1", weight=2):
    padded_right([4, 2, 6, 3], 5, with_zeros=True)
    # Whatever number fills up, a real row holds it as well.
    usual = [sign * number for number in (999.0, 1000.0, 9999.0, 1e6, 1e9) for sign in (1, -1)]
    padded_beside(torch.cat([torch.arange(-128.0, 128.0), torch.tensor(usual)]))
with check.property("one sample; equal lengths; samples of length 0; other dtypes"):
    padded_right([5], 2)
    padded_right([3, 3, 3, 3], 2)
    padded_right([3, 0, 2], 4)
    padded_right([4, 1, 2], 3, dtype=torch.int64)
    padded_right([4, 2], 3, dtype=torch.int8, with_zeros=True)
    padded_beside(torch.arange(-128, 128, dtype=torch.int8))
    padded_right([3, 5], 4, dtype=torch.float64)
    padded_right([0, 0], 3)
    large = torch.tensor([[2**62 + check.draw.integer(1, 1000)], [2**24 + 1]])
    padded = torch.stack([large, torch.zeros_like(large)])
    padded[1, 0] = large[1]
    got = check.call(pad_batch, [large, large[1:].clone()])
    is_padded(got, padded, torch.tensor([[True, True], [True, False]]))
with check.property("the samples do not change"):
    samples, padded, mask = drawn_batch([4, 2, check.draw.integer(1, 8)], 3)
    seen = check.call(probes.after_call, pad_batch, samples)
    is_padded(seen["output"], padded, mask)
    check.equal(seen["arguments"][0], samples, what="the samples after the call")
# Hidden tests run here when your work is graded.
### BEGIN HIDDEN TESTS
with check.property("other numbers of samples of length 0"):
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
## One generator from several numbers

**Data augmentation** changes samples at random: noise, shifts, crops. Any process can reproduce a sample's noise if the generator is made from the run's seed, the epoch and the sample's index. But how do three numbers become one seed?
"""

# %%
names = {"(0, 1, 2), added": 0 + 1 + 2, "(0, 2, 1), added": 0 + 2 + 1, "(3, 0, 0), added": 3}
names |= {"5": 5, "5 + 2**32": 5 + 2**32}
for name, seed in names.items():
    generator = torch.Generator().manual_seed(seed)
    print(f"{name:<18}", [f"{number:.3f}" for number in torch.rand(3, generator=generator)])
for name, seed in (("Random(2)", 2), ("Random(2 + 2**32)", 2 + 2**32)):
    generator = random.Random(seed)
    print(f"{name:<18}", [f"{generator.random():.3f}" for _ in range(3)])

# %% [markdown]
"""
Different samples can have the same sum, even if the epoch is first multiplied by 1000: with a seed of 0, 1000 × 1 + 0 = 1000 × 0 + 1000. Large multipliers do not always help: torch's CPU generator uses only the lowest 32 bits of its seed, and Python's `Random(2)` and `Random(2 + 2**32)` draw the same numbers. The `hash` of a string such as `"0-1-2"` [differs from run to run](https://docs.python.org/3/reference/datamodel.html#object.__hash__).

[NumPy's documentation](https://numpy.org/doc/stable/reference/random/parallel.html) describes how to make a seed of several numbers.

## Bug hunt: noise that stays

The next dataset adds noise to digits. If the noise is new in each epoch, the average of one image over n epochs approaches the clean image, and the remaining noise falls as 1/√n. The author tested the dataset without workers, then added two for speed.
"""


# %%
class NoisyDigits(Dataset):
    def __init__(self, images, seed):
        self.images = images
        self.generator = np.random.default_rng(seed)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        noise = self.generator.standard_normal(self.images[index].shape)
        return self.images[index] + 0.1 * torch.from_numpy(noise).float()


# %% folded="Measure: the noise that is left in the average of several epochs"
EPOCHS = 8
images = digit_images[:8] / 16
left = {}
for workers in (0, 2):
    loader = DataLoader(by_value(NoisyDigits(images, 0)), batch_size=None, num_workers=workers)
    noises = torch.stack([torch.stack(list(loader)) - images for _ in range(EPOCHS)])
    left[workers] = [noises[:n].mean(dim=0).std().item() for n in range(1, EPOCHS + 1)]

# %% folded="Figure 9.9: the noise that is left"
figure, axes = new_figure(height=2.9)
count = np.arange(1, EPOCHS + 1)
axes.plot(count, left[0], "o-", label="num_workers=0")
axes.plot(count, left[2], "s-", label="num_workers=2")
axes.plot(count, 0.1 / np.sqrt(count), ":", color=COLORS["black"], label="0.1 / √n")
axes.set(
    title="Noise left in the average of n epochs",
    xlabel="epochs n",
    ylabel="standard deviation",
    ylim=(0, 0.12),
)
axes.legend(loc="lower left")
show(
    figure,
    number="9.9",
    caption="The same dataset, twice. Without workers, the noise averages out. With two workers, all of it stays.",
    alt="Two curves over 1 to 8 epochs. Without workers the noise that is left falls from 0.1 to 0.035, along the dotted curve. With two workers it stays at 0.1.",
)

# %% [markdown] exercise="bug-hunt-same-noise" points=5 minutes=25 difficulty=2
"""
### Bug hunt: noise that stays

Find out, in cells of your own, what the two workers return in each epoch. Then write a function for `__getitem__` that works with any number of workers.

`add_noise(image, seed, epoch, index) -> Tensor`

- **In** `image`: a floating-point tensor with one or more axes. `seed`, `index`: nonnegative ints below 2³². `epoch`: a nonnegative int below 1,000.
- **Out**: a new tensor, the image plus 0.1 times standard normal noise; same shape and dtype. The same four arguments give the same result in any process, whatever was drawn before. Another seed, epoch or index gives unrelated noise.
- **Limits**: neither the image nor the global generators of `random`, NumPy and torch change.

The noise of `add_noise(image, 0, 1, 2)` is unrelated to that of `add_noise(image, 0, 2, 1)`.

<!-- hint: Which of the given numbers may the noise depend on, and on what else does it depend in the dataset above? -->
<!-- hint: Make a generator inside the function, from all three numbers. It must tell any two triples apart: (0, 1, 2) is not (0, 2, 1). -->
<!-- hint: `np.random.default_rng` takes a list. Draw `standard_normal` of the image's shape from it, and convert it to a tensor of the image's dtype. -->
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


def is_noisy(got, image, what):
    # Nobody but the student knows the right numbers, so none are shown as expected.
    kind = "None" if got is None else f"a {type(got).__name__}"
    check.true(isinstance(got, torch.Tensor), f"{what}: {kind} came back, not a tensor")
    shapes = tuple(got.shape), tuple(image.shape)
    for name, (came, wanted) in (("dtype", (got.dtype, image.dtype)), ("shape", shapes)):
        told = f"{what}: the {name} of the result is {came}, that of the image {wanted}"
        check.true(came == wanted, told)
    bad = (~got.isfinite()).sum().item()
    check.true(bad == 0, f"{what}: {bad} of {got.numel()} values are nan or inf")
    most = (got.double() - image.double()).abs().max().item()
    told = f"{what}: a difference of {most:.3g}; 0.1 times standard normal noise rarely exceeds 0.5"
    check.true(most < 0.9, told)


def noise_of(seed, epoch, index, shape=(20, 31)):
    """Return the noise of a sample, in units of its standard deviation, float64."""
    image = check.draw.normal(*shape, dtype=torch.float64)
    got = check.call(add_noise, image, seed, epoch, index)
    is_noisy(got, image, "image plus noise, against the image")
    return (got - image).flatten() / 0.1


def all_unrelated(names):
    """Require that no two of the samples have correlated noise."""
    table = torch.corrcoef(torch.stack([noise_of(*name) for name in names])).abs()
    table.fill_diagonal_(0.0)
    worst = int(table.argmax())
    first, second = names[worst // len(names)], names[worst % len(names)]
    if table.max().item() >= 0.35:  # called again, so that failing(...) has this case
        told = beginnings(first, noise_of(*first), second, noise_of(*second))
        check.true(False, f"{told}: correlated, {table.max():.2f}")


def beginnings(first, noise, second, other):
    both = (", ".join(f"{number:.2f}" for number in some[:3].tolist()) for some in (noise, other))
    told = "(seed, epoch, index) = {}: noise / 0.1 begins with {}; {}: with {}"
    begin, again = both
    return told.format(first, begin, second, again)


def all_different(names):
    """Require that no two of the samples have the very same noise."""
    image, seen = check.draw.normal(3, 4, dtype=torch.float64), {}
    names = list(dict.fromkeys(names))
    # One message to the student's process: a thousand would take its time on a busy machine.
    results = check.call(probes.for_each, add_noise, [(image, *name) for name in names])
    for name, got in zip(names, results, strict=True):
        is_noisy(got, image, "image plus noise, against the image")
        noise = ((got - image) / 0.1).flatten()
        first = seen.setdefault(tuple(noise.tolist()), name)
        if first != name:  # called again, so that failing(...) has this case
            check.call(add_noise, image, *name)
            check.true(False, beginnings(first, noise, name, noise) + ": the same noise")


def no_linear_key():
    """Require noise that no sum of multiples of seed, epoch and index determines.

    Nor does an exclusive or of shifted ones: every bit has noise of its own.

    With the multiplier of 1 for the index, (0, 1, i) is (0, 0, m + i) for the epoch's multiplier m.
    For any m up to 160,000, one i below 400 makes m + i a multiple of 400; the same holds
    for the seed's. The second call tries sums of the epoch and a multiple, below 1000, of the seed
    or the index.
    """
    near = [10**k for k in range(5, 10)] + [2**k for k in range(17, 32)] + [2654435761]
    indices = [400 * k for k in range(401)] + [n + more for n in near for more in (0, 399)]
    bits = [(2**k, 0, 0) for k in range(32)] + [(0, 2**k, 0) for k in range(10)]
    bits += [(0, 0, 2**k) for k in range(1, 32)]
    # Python's Random(2) and Random(2 + 2**32) draw the same numbers: as (0, 0, 2) and (0, 1, 2) do
    # where the index has the lowest bits, and as these do where the seed has.
    bits += [(2, 1, 0), (2, 0, 1)]
    all_different(
        [(0, 0, index) for index in indices]
        + bits
        + [(seed, 1 - seed, index) for seed in (0, 1) for index in range(400)]
    )
    epochs = [2] + [32 * k for k in range(32)] + list(range(993, 1000))
    all_different(
        [(0, epoch, 0) for epoch in epochs]
        + [(seed, epoch, 1 - seed) for seed in (0, 1) for epoch in range(32)]
    )


with check.property("standard normal noise, times 0.1; the same arguments give the same noise"):
    seed = check.draw.integer(0, 2**20)
    noise = torch.stack([noise_of(seed, epoch, 7, shape=(61, 83)) for epoch in range(3)])
    check.close(noise.mean().item(), 0.0, atol=0.08, what="the mean of noise / 0.1")
    check.close(noise.std().item(), 1.0, atol=0.06, what="the standard deviation of noise / 0.1")
    inside = (noise.abs() < 1).double().mean().item()
    check.close(inside, 0.683, atol=0.035, what="the share of noise / 0.1 between -1 and 1")
    again = noise_of(seed, 1, 7, shape=(61, 83))
    check.close(again, noise[1], atol=1e-9, what="the noise of one sample, asked for again")
with check.property("every index, every epoch and every seed has noise of its own", weight=2):
    seed = check.draw.integer(0, 2**20)
    all_unrelated(
        [(s, e, i) for s in (seed, seed + 1, seed + 2) for e in range(3) for i in range(4)]
    )
with check.property("the result does not depend on the process or the global generators"):
    image, name = check.draw.normal(20, 31), drawn_name()
    first = check.call(add_noise, image, *name)
    salt = check.draw.integer(1, 2**30)
    for worker, where in ((False, "another process"), (True, "a worker")):
        got = check.call(
            probes.as_another_process, add_noise, image, *name, salt=salt, worker=worker
        )
        what = f"the result in {where}, where strings hash differently"
        check.close(got, first, atol=1e-6, what=what)
    check.restart()  # a new process where work is graded; here, the generators are seeded afresh
    got = check.call(add_noise, image, *name)
    check.close(got, first, atol=1e-6, what="the result with other global generators")
with check.property("the global generators do not change", weight=0.5):
    image, seed = check.draw.normal(20, 31), check.draw.integer(0, 2**20)
    seen = check.call(probes.global_draws, add_noise, image, *drawn_name(), seed=seed)
    for name, number in first_draws(seed).items():
        check.equal(seen[name], number, what=f"the next number from the global generator of {name}")
with check.property("seeds, epochs and indices of any size are told apart"):
    sizes = [0, 1, 10, 100, 1000, 1024, 10_000, 2**16, 10**6, 2**31]
    all_unrelated([(7, epoch, index) for epoch in (0, 1, 10, 100) for index in sizes])
    all_unrelated([(seed, 2, index) for seed in sizes for index in (0, 1, 1000, 2**16)])
    all_unrelated([(1, 1, 11), (1, 11, 1), (11, 1, 1)])
    no_linear_key()
with check.property("the result has the image's dtype and shape", weight=0.5):
    half = check.draw.normal(3, 2, dtype=torch.float16)
    got = check.call(add_noise, half, *drawn_name())
    is_noisy(got, half, "for a float16 image")
    brain = check.draw.normal(3, 2, dtype=torch.bfloat16)
    got = check.call(add_noise, brain, *drawn_name())
    is_noisy(got, brain, "for a bfloat16 image")
    volume = check.draw.normal(2, 3, 5)
    got = check.call(add_noise, volume, *drawn_name())
    is_noisy(got, volume, "for three axes")
    noise = got - volume
    told = "both parts of an image of shape (2, 3, 5) have the same noise"
    check.true((noise[0] - noise[1]).abs().max().item() > 1e-4, told)
    row = check.draw.normal(9, dtype=torch.float64)
    got = check.call(add_noise, row, *drawn_name())
    is_noisy(got, row, "for one axis")
with check.property("the image does not change", weight=0.5):
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
    all_unrelated([(12, 3, 4), (1, 23, 4), (1, 2, 34)])
### END HIDDEN TESTS
check.score()

# %% [markdown]
"""
<details><summary>The bug (open this once you have found it)</summary>

`self.generator` is copied with the dataset: to each worker, and again in each epoch, always in its initial state. So both workers draw the same numbers, in every epoch. Without workers there is one copy, which goes on from epoch to epoch, so anyone who debugs with `num_workers=0` never sees the bug.

NumPy's `default_rng` takes a *list* of integers and mixes all of their bits, so (0, 1, 2) and (0, 2, 1) start unrelated streams.
</details>

## Random numbers in workers

Workers have other generators, too. The next dataset draws from three global ones and from one that it stores.
"""


# %%
class FourDraws(Dataset):
    def __init__(self):
        self.stored = np.random.default_rng(0)

    def __len__(self):
        return 4

    def __getitem__(self, index):
        return random.random(), np.random.random(), torch.rand(()).item(), self.stored.random()


# %% folded="Two epochs in two workers"
def two_epochs(workers, **options):
    torch.manual_seed(0)
    loader = DataLoader(by_value(FourDraws()), batch_size=None, num_workers=workers, **options)
    return list(loader), list(loader)


GENERATORS = ("random, global", "NumPy, global", "torch, global", "stored in the dataset")


def tell(first, second):
    print(f"{'generator':<24}{'workers differ':<18}epochs differ")
    for place, name in enumerate(GENERATORS):
        workers_differ = first[0][place] != first[1][place]
        print(f"{name:<24}{workers_differ!s:<18}{first[0][place] != second[0][place]}")


first_epoch, second_epoch = two_epochs(2)

# %% folded="Predict: NumPy's global generator"
predict(
    "09/numpy",
    "Two workers draw from NumPy's global generator, which the dataset does not seed. What do they get?",
    "different numbers" if first_epoch[0][1] != first_epoch[1][1] else "the same numbers",
    "The loader seeds the global generators of every worker that it starts, here in each epoch.",
    choices=("the same numbers", "different numbers"),
)

# %%
tell(first_epoch, second_epoch)
print("with persistent_workers=True:")
tell(*two_epochs(2, persistent_workers=True))

# %% [markdown]
"""
The loader takes care of the global generators, NumPy's included [since PyTorch 1.9](https://github.com/pytorch/pytorch/pull/56488), but not of a stored one. With `persistent_workers=True`, the workers keep their copies: the epochs then differ, but both workers still draw the same numbers.

Each worker calls `worker_init_fn` when it starts. This function can give a stored generator its own seed:
"""


# %%
def reseed(worker):
    info = get_worker_info()
    info.dataset.stored = np.random.default_rng(info.seed)


two = two_epochs(2, worker_init_fn=by_value(reseed))
three = two_epochs(3, worker_init_fn=by_value(reseed))
tell(*two)
for index in range(4):
    print(f"sample {index}: 2 workers {two[0][index][3]:.3f}, 3 workers {three[0][index][3]:.3f}")

# %% [markdown]
"""
Now the workers draw different numbers, but a sample's number depends on how many workers there are: with three, sample 2 goes to another worker and gets another number. A generator made from seed, epoch and index gives the same numbers, whichever worker loads the sample.

## Stop and resume

Long runs may be cut short. The model and the optimizer have been saved, but where was the loader? Starting the epoch again repeats some samples; starting the next one loses the rest.

An order need not be saved if it can be drawn again from the seed and the epoch. Besides these two, the state needs only a count of batches. Should it count those that the sampler has handed out, or those that have arrived in the training loop?
"""

# %% folded="Stop after three batches, resume from the sampler's count"
lost = {}
for workers in (0, 2):
    batches = torch.arange(40).reshape(10, 4).tolist()
    sampler = CountedBatches(batches)
    for done, _ in enumerate(DataLoader(range(40), batch_sampler=sampler, num_workers=workers), 1):
        if done == 3:
            break
    lost[workers] = len(batches) - 3 - len(batches[sampler.drawn :])

# %% folded="Predict: batches lost"
predict(
    "09/lost",
    "An epoch has 10 batches. With 2 workers and `prefetch_factor=2`, training stops after 3 of them and saves the sampler's count. How many batches are never trained on?",
    lost[2],
    "The sampler is ahead by 2 × 2 batches, which were in workers and queues when the run stopped.",
    between=(0, 10),
    unit="batches",
)

# %% folded="Drawing: two counts of batches"
show_drawing(
    "09/in-flight",
    number="9.10",
    caption="An epoch of ten batches, stopped after three. A run that resumes from the sampler's count never trains on batches 3 to 6.",
    alt="Ten boxes. 0 to 2 are trained on, 3 to 6 are in workers and queues, 7 to 9 are not drawn. A run that resumes from 3, the number of arrived batches, goes on with box 3. One that resumes from 7, the sampler's count, skips boxes 3 to 6.",
)

# %%
for workers, count in lost.items():
    print(f"{workers} workers: {count} batches lost")

# %% [markdown]
"""
Nothing reports the missing batches, so count batches when they *arrive*. After the last batch, "this epoch, all done" and "the next epoch, nothing done" mean the same.

The loader that you write next calls a function that takes batches of indices and loads their samples. With real workers, that function could be:

```python
dataset = PictureFolder(pictures_folder, "*.png")


def fetch(batches):
    return DataLoader(by_value(dataset), batch_sampler=batches, num_workers=2)
```

Your loader's state is saved and restored like a model's, by `state_dict` and `load_state_dict`.
"""

# %% [markdown] exercise="resumable-loader" points=6 minutes=30 difficulty=3
"""
### A loader that can be stopped

A killed run should resume without losing or repeating batches.

The class `ResumableLoader(count, batch_size, seed, fetch)`

- **In** `count`: the number of samples. `seed`: a nonnegative int below 2³². `fetch(batches)` takes an iterable of index lists, may read ahead, and returns an iterable of their batches (of any kind), in order.
- **Out** `for batch in loader` runs one epoch: it hands `fetch` all indices, shuffled, in batches of `batch_size` (the last may be smaller), and yields what comes. The next `for` runs the next epoch. Each (seed, epoch) pair has its own order: epoch 1 of seed 5 is not epoch 0 of seed 6.
- `loader.state_dict()`, at any time, also inside a loop: a new, JSON-ready dict of a few numbers. The batch in the loop's body counts as done.
- `loader.load_state_dict(state)`, in any process, leaves `state` unchanged; a new loader's next `for` fetches and yields only the rest of that epoch; if nothing is left, it may begin the next.
- **Limits**: a loop calls `fetch` once and passes each batch on as it comes. After a `break`, the next `for` may do anything.

`ResumableLoader(10, 4, 0, fetch)` has three batches; stopped in the second, it resumes with the last 2 samples.

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


# Batches of indices that came and that were loaded, and how many were loaded when each came.
Run = collections.namedtuple("Run", "batches loaded loaded_by_then state")


def run_loader(count, batch_size, seed, total, *, numbered=False, salt=None, **options):
    """Run a loader. A batch is a dict, or the number in which order it was loaded, 0 at first."""
    content = check.draw.permutation(100_000)[:count].tolist()
    loaded, given, came, by_then = [], [], [], []

    def load(indices):
        contents = [content[index] for index in indices]
        given.append(len(loaded) if numbered else {"contents": contents})
        loaded.append(indices)
        return given[-1]

    def to(batch):
        came.append(batch)
        by_then.append(len(loaded))

    asked = (count, batch_size, seed)
    options |= {"load": check.lend(load), "to": check.lend(to), "total": total}
    if salt is None:
        state = check.call(probes.loader_run, ResumableLoader, *asked, **options)
    else:
        salted = probes.as_another_process
        state = check.call(salted, probes.loader_run, ResumableLoader, *asked, salt=salt, **options)
    what = (
        f"the number of batches of {batch_size} that came, epoch after epoch, with {count} samples"
    )
    check.equal(len(came), total, what=what)
    named = {json.dumps(batch): indices for batch, indices in zip(given, loaded, strict=True)}
    for number, batch in enumerate(came):
        told = f"batch {number} is {batch}, which fetch has not yielded"
        is_given = isinstance(batch, int if numbered else dict)
        check.true(is_given and json.dumps(batch) in named, told)
    return Run([named[json.dumps(batch)] for batch in came], loaded, by_then, state)


def state_after_loop(count, batch_size, seed):
    def load(indices):
        return indices

    def to(batch):
        pass

    options = {"load": check.lend(load), "to": check.lend(to), "epochs": 1}
    return check.call(probes.loader_epochs, ResumableLoader, count, batch_size, seed, **options)


def in_epochs(batches, count, batch_size):
    each = math.ceil(count / batch_size)
    starts = range(0, len(batches), each)
    return [list(itertools.chain(*batches[start : start + each])) for start in starts]


def resumed_equally(count, batch_size, ahead, all_stops, epochs=2):
    """Require the same batches with and without stops; return all, and the last run.

    Every stretch from stop to stop has a new loader, which only the state reaches. Where work is
    graded, it also has a new process.
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
            what += f"stopped after {stops[:stretch]} batches" if stretch else "in a second run"
            check.equal(run.batches, whole[start:end], what=what)
    return whole, run


def neighbors(order):
    return {frozenset(pair) for pair in itertools.pairwise(order)}


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
    orders = {"sorted order": list(range(23))}
    orders |= {f"epoch {number}": epoch for number, epoch in enumerate(epochs)}
    for (one, order), (other, later) in itertools.combinations(orders.items(), 2):
        check.true(order != later, f"{one} and {other} are the same: {order}")
        kept = len(neighbors(order) & neighbors(later))
        told = f"not in random order: {kept} of 22 neighbor pairs are the same in {other} as in {one}: "
        check.true(kept < 17, f"{told}{later} and {order}")  # about 2 are expected
        both = (
            {frozenset(some[start : start + 5]) for start in range(0, 23, 5)}
            for some in (order, later)
        )
        kept = len(set.intersection(*both))
        told = f"not in random order: {kept} of 5 batches hold the same samples in {other} as in {one}: "
        check.true(kept < 3, f"{told}{later} and {order}")
with check.property("the same seed gives the same orders; any other seed or epoch, another order"):
    seed = check.draw.integer(0, 2**30)
    first = run_loader(17, 4, seed, 10).batches
    check.equal(
        run_loader(17, 4, seed, 10, ahead=3).batches,
        first,
        what="the batches of a second run with the same seed",
    )
    salted = run_loader(17, 4, seed, 10, salt=check.draw.integer(1, 2**30))
    check.equal(salted.batches, first, what="the batches when strings hash differently")
    other = run_loader(17, 4, seed + 1, 10).batches
    both = in_epochs(first, 17, 4), in_epochs(other, 17, 4)
    told = f"seeds {seed} and {seed + 1} gave the same order: {both[0][0]}"
    check.true(both[0][0] != both[1][0], told)
    named = {}
    few = [0, 1, 2, 11, 100, 128, 256, 1000, 1024, 4096, 10_000, 2**16, 10**5, 2**20, 10**6, 2**31]
    for s, epochs in ((seed + 1, 1), (seed, 1100), *((s, 12) for s in few)):
        for number, order in enumerate(run_loader(20, 20, s, epochs).batches):
            first = named.setdefault(tuple(order), (s, number))
            told = f"(seed, epoch) = {first} and {(s, number)} have the same order: {order}"
            check.true(first == (s, number), told)
with check.property(
    "after a stop it resumes where it was, also in a second epoch and after a second stop", weight=2
):
    resumed_equally(14, 4, 0, [[0], [1], [2], [4], [6], [2, 3], [1, 5], [3, 3]])
with check.property("batches that were only drawn ahead do not count as done", weight=2):
    resumed_equally(29, 4, 5, [[1], [3], [5]])
with check.property("fetch may read ahead, and its batches are passed on as they come"):
    count, seed = check.draw.integer(29, 33), check.draw.integer(0, 2**30)
    run = run_loader(count, 4, seed, 8, ahead=3, numbered=True)
    told = "fetch was called for each batch, so it could not read ahead: call it once per `for`"
    check.true(run.loaded_by_then[:4] != [1, 2, 3, 4], told)
    told = "the first batch came when all 8 had been loaded: pass each batch on as it comes"
    check.true(run.loaded_by_then[0] != 8, told)
    check.equal(
        run.loaded_by_then,
        [4, 5, 6, 7, 8, 8, 8, 8],
        what="batches that fetch had loaded when each of 8 came, with 3 read ahead",
    )
with check.property("batches that are done are not fetched again"):
    whole, rest = resumed_equally(21, 4, 0, [[4]], epochs=1)
    what = "the batches that fetch loaded in a run that resumed after 4 of 6"
    check.equal(rest.loaded, whole[4:], what=what)
with check.property(
    "a state holds a few numbers and does not change; one taken after a loop or a break is also right"
):
    seed = check.draw.integer(0, 2**30)
    runs = [run_loader(500, 4, seed, stop + 2, ahead=2, stop=stop) for stop in (3, 128)]
    for run in runs:
        told = f"a state has {len(run.state)} characters as JSON: {run.state[:60]}"
        check.true(len(run.state) < 300, told)
        kind = type(json.loads(run.state)).__name__
        check.true(kind == "dict", f"a state is a {kind}, not a dict: {run.state[:60]}")
    whole = run_loader(10, 4, seed, 6).batches
    after_loop = state_after_loop(10, 4, seed)
    # Asked for a batch more than there are, the probe leaves the loop, as a break does.
    after_break = [run_loader(10, 4, seed, done, stop=done + 1).state for done in (1, 2, 5)]
    check.restart()
    for run in runs:
        got = run_loader(500, 4, seed, 2, ahead=2, state=run.state)
        what = "the batches resumed from a state that was saved two batches after it was taken"
        check.equal(got.batches, run.batches[-2:], what=what)
    got = run_loader(500, 4, seed, 2, ahead=2, state=runs[1].state, loaded_before=True)
    what = "the batches resumed from a dict that another loader had already loaded and run from"
    check.equal(got.batches, runs[1].batches[-2:], what=what)
    got = run_loader(10, 4, seed, 3, state=after_loop)
    what = "the batches after a state that was taken when the loop over epoch 0 had ended"
    check.equal(got.batches, whole[3:], what=what)
    for done, state in zip((1, 2, 5), after_break, strict=True):
        got = run_loader(10, 4, seed, 6 - done, state=state)
        what = f"the batches resumed from {state}, after a break in batch number {done}"
        check.equal(got.batches, whole[done:], what=what)
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
torchdata's [`StatefulDataLoader`](https://meta-pytorch.org/data/main/torchdata.stateful_dataloader.html) is a `DataLoader` with the same two methods. The next cell stops yours and, where torchdata is installed, torchdata's after three of ten batches.
"""


# %% tags=["nbval-ignore-output"] folded="Compare: your loader and torchdata's StatefulDataLoader"
def stop_and_resume(make_loader):
    """Return whether a new loader yields the rest, and the bytes of the state."""
    first = make_loader()
    batches = iter(first)
    for _ in range(3):
        next(batches)
    state = pickle.dumps(first.state_dict())
    rest = [batch.tolist() for batch in batches]
    resumed = make_loader()
    resumed.load_state_dict(pickle.loads(state))
    same = [batch.tolist() for batch in resumed] == rest
    return f"{len(rest)} batches left, the same after resuming: {same}; state of {len(state)} bytes"


def make_own():
    def fetch(batches):
        return DataLoader(range(40), batch_sampler=batches, num_workers=2)

    return ResumableLoader(40, 4, 0, fetch)


def make_torchdatas():
    return StatefulDataLoader(range(40), batch_size=4, shuffle=True, num_workers=2)


try:
    print("yours:    ", stop_and_resume(make_own))
except NotImplementedError:
    print("yours:     not written yet")
try:
    from torchdata.stateful_dataloader import StatefulDataLoader
except ImportError:
    print("torchdata is not installed. Recorded with torchdata 0.11.0 and torch 2.13.0 (CPU):")
    print("torchdata: 7 batches left, the same after resuming: True; state of 5934 bytes")
else:
    print("torchdata:", stop_and_resume(make_torchdatas))

# %% [markdown]
"""
torchdata stores the state of a random generator, and can ask each worker's dataset for its state. Your loader draws the order again.

### Streams

A stream can be resumed, too: samples that are done are read but not decoded. Workers deliver batches in turn: with 2 workers, the first 3 batches are two from worker 0 and one from worker 1, so each worker can skip its own. A new loader always begins with worker 0, so worker 0 now takes the share of worker 1, whose turn it was. All shares must be equal, except that the first ones may have one sample more; the batch size and the number of workers must stay the same.
"""


# %% folded="ResumableShards, stopped after every batch"
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
    """Deal out the samples in turn. Correct, but it reopens a shard for every sample."""
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
    print(f"resumed after {done}, the rest is the same:", batches_from_shards(done) == whole[done:])

# %% [markdown]
"""
## In the wild

| what | where |
| --- | --- |
| datasets, workers, collating | [`torch.utils.data`](https://docs.pytorch.org/docs/stable/data.html) |
| stopping and resuming | `StatefulDataLoader`: each worker's dataset is asked for its state every `snapshot_every_n_steps` steps |
| tar shards | [WebDataset](https://webdataset.github.io/webdataset/): `split_by_node`, `split_by_worker`, `shardshuffle=`, `.shuffle(size)`; `resampled=True` draws shards with replacement, so samples may repeat or be missing |
| record files | TensorFlow's [`TFRecordDataset`](https://www.tensorflow.org/api_docs/python/tf/data/TFRecordDataset); in PyTorch, the package [`tfrecord`](https://github.com/vahidk/tfrecord) splits a file among workers by an index; without one, records may come twice |
| streams over a network | [Hugging Face Datasets](https://huggingface.co/docs/datasets/stream): `IterableDataset.shuffle(buffer_size=)`, `split_dataset_by_node`, `state_dict()` |
| several GPUs | [`DistributedSampler`](https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.distributed.DistributedSampler) **repeats** samples until shares are equal, or drops some (`drop_last=True`); without `set_epoch(epoch)`, every epoch has the same order |
| padding | [`torch.nn.utils.rnn.pad_sequence`](https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.rnn.pad_sequence.html), without a mask |
| a generator for each sample | JAX: [keys and `fold_in`](https://docs.jax.dev/en/latest/random-numbers.html); [Grain](https://google-grain.readthedocs.io/en/latest/) |
| pipelines | [`tf.data`](https://www.tensorflow.org/guide/data_performance): `shuffle(buffer_size)`, `prefetch`, `padded_batch` |
"""

# %% [markdown]
"""
## Recap

1. Workers are processes, each with a copy of the dataset. An iterable-style dataset must choose its share, or every sample comes once per worker.
2. A map-style dataset is read by index: keep its order independent of the file system.
3. Reading in order pays off where opening files is slow; randomness then comes from a buffer, the order of shards and shuffling before writing.
4. A sample's random numbers come from seed, epoch and index; a generator stored in the dataset is copied to every worker, by default in every epoch.
5. A loader's state counts the batches that have *arrived*, not those drawn ahead.

### Test yourself

<details><summary>1. An iterable-style dataset ignores its worker's number. With 4 workers, an epoch is cut to the length of one pass. Is each sample seen once?</summary>

No. The workers deliver in turn, each from the beginning: the first quarter comes four times, the rest never.
</details>

<details><summary>2. Eight shards of 1,000 samples go to 3 workers in turn. How long is the epoch, compared with equal shares?</summary>

The busiest worker reads 3 shards, 3,000 samples instead of about 2,667: an eighth longer.
</details>

<details><summary>3. Shards are sorted by class, 10 classes of 1,000. One worker reads them through a buffer of 500. What is in the first batch of 100?</summary>

Only the first class: sample 1,000 has not been read yet.
</details>

<details><summary>4. Augmentation draws from torch's global generator. A run is repeated with the same seed and 4 workers instead of 2. Is it the same?</summary>

No. Most samples go to a worker with another seed, or come at another point in its stream. Numbers made from seed, epoch and index would be the same.
</details>

<details><summary>5. A run with 4 workers and <code>prefetch_factor=2</code> saves its sampler's count and is killed. What is lost?</summary>

4 × 2 = 8 batches, fewer near the end of the epoch, without an error.
</details>

### References

- PyTorch documentation, [`torch.utils.data`](https://docs.pytorch.org/docs/stable/data.html) and [reproducibility](https://docs.pytorch.org/docs/stable/notes/randomness.html#dataloader).
- The Open Group, [POSIX `pax`](https://pubs.opengroup.org/onlinepubs/9799919799/utilities/pax.html), section "ustar Interchange Format".
- A. Aizman, G. Maltby, T. Breuel, "High Performance I/O For Large Scale Deep Learning", [arXiv:2001.01858](https://arxiv.org/abs/2001.01858), 2020 (WebDataset).
- J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011, [doi:10.1145/2063384.2063405](https://doi.org/10.1145/2063384.2063405).
- E. Alpaydin, C. Kaynak, "Optical Recognition of Handwritten Digits", UCI Machine Learning Repository, 1998, [doi:10.24432/C50P49](https://doi.org/10.24432/C50P49) (CC BY 4.0).

### Glossary

| English | 中文 | meaning |
| --- | --- | --- |
| map-style dataset | 映射式数据集 | returns samples by their index |
| iterable-style dataset | 可迭代数据集 | yields samples one after the other |
| data loader | 数据加载器 | makes batches of samples, with or without workers |
| worker | 工作进程 | a process that loads samples, with a copy of the dataset |
| shard | 分片 | one of the files into which a dataset is divided |
| sampler | 采样器 | decides which indices come in which order |
| prefetching | 预取 | loading batches before they are asked for |
| pinned memory | 锁页内存 | memory from which a GPU can copy data by itself |
| throughput | 吞吐量 | samples per second |
| shuffle buffer | 洗牌缓冲区 | holds some samples of a stream, and hands out a random one |
| collating | 整理成批 | making one batch out of several samples |
| padding | 填充 | filler that makes the sequences of a batch equally long |
| data augmentation | 数据增强 | random changes to samples |
| seed | 随机种子 | the number that a generator starts from |
| epoch | 轮次 | one pass over all samples |
| to resume | 恢复（续训） | to continue a run from where it was stopped |
"""

# %% folded="What you predicted"
predictions("09")

# %%
progress("09")
