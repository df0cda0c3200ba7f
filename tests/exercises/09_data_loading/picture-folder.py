# %% wrong: a random picture, whatever the index
class PictureFolder(Dataset):
    def __init__(self, folder, pattern="*.png"):
        self.paths = sorted(Path(folder).glob(pattern))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        path = random.choice(self.paths)
        return read_png(path), label_in(path.name)


# %% wrong: __item__ in the place of __getitem__, so the dataset cannot be indexed
class PictureFolder(Dataset):
    def __init__(self, folder, pattern="*.png"):
        self.paths = sorted(Path(folder).glob(pattern))

    def __len__(self):
        return len(self.paths)

    def __item__(self, index):
        path = self.paths[index]
        return read_png(path), label_in(path.name)


# %% wrong: sorted by label, not by name
class PictureFolder(Dataset):
    def __init__(self, folder, pattern="*.png"):
        self.paths = sorted(Path(folder).glob(pattern), key=lambda path: label_in(path.name))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        path = self.paths[index]
        return read_png(path), label_in(path.name)


# %% wrong: reads every picture when it is made
class PictureFolder(Dataset):
    def __init__(self, folder, pattern="*.png"):
        paths = sorted(Path(folder).glob(pattern))
        self.items = [(read_png(path), label_in(path.name)) for path in paths]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return self.items[index]


# %% wrong: the pattern is ignored
class PictureFolder(Dataset):
    def __init__(self, folder, pattern="*.png"):
        self.paths = sorted(Path(folder).iterdir())

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        path = self.paths[index]
        return read_png(path), label_in(path.name)


# %% wrong: begins anew behind the last sample, so that a for loop never ends
class PictureFolder(Dataset):
    def __init__(self, folder, pattern="*.png"):
        self.paths = sorted(Path(folder).glob(pattern))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        path = self.paths[index % len(self.paths)]
        return read_png(path), label_in(path.name)


# %% wrong: the label as the text that stands in the name
class PictureFolder(Dataset):
    def __init__(self, folder, pattern="*.png"):
        self.paths = sorted(Path(folder).glob(pattern))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        path = self.paths[index]
        return read_png(path), path.name[5]


# %% wrong: the newest file first, as some folders are listed
class PictureFolder(Dataset):
    def __init__(self, folder, pattern="*.png"):
        self.paths = sorted(Path(folder).glob(pattern), reverse=True)

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        path = self.paths[index]
        return read_png(path), label_in(path.name)


# %% wrong: looks into folders below as well
class PictureFolder(Dataset):
    def __init__(self, folder, pattern="*.png"):
        self.paths = sorted(Path(folder).rglob(pattern))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        path = self.paths[index]
        return read_png(path), label_in(path.name)


# %% wrong: in the order of the numbers in the names
class PictureFolder(Dataset):
    def __init__(self, folder, pattern="*.png"):
        self.paths = sorted(
            Path(folder).glob(pattern), key=lambda path: int(path.name.split("-")[0])
        )

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        path = self.paths[index]
        return read_png(path), label_in(path.name)


# %% wrong: only the end of the pattern counts
class PictureFolder(Dataset):
    def __init__(self, folder, pattern="*.png"):
        self.paths = sorted(
            p
            for p in Path(folder).iterdir()
            if p.is_file() and p.name.endswith(pattern.replace("*", ""))
        )

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        path = self.paths[index]
        return read_png(path), label_in(path.name)


# %% wrong: keeps every picture that it has read
class PictureFolder(Dataset):
    def __init__(self, folder, pattern="*.png"):
        self.paths = sorted(Path(folder).glob(pattern))
        self.kept = {}

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        path = self.paths[index]
        if index not in self.kept:
            self.kept[index] = read_png(path), label_in(path.name)
        return self.kept[index]


# %% right: lists the folder by os, and keeps names
class PictureFolder(Dataset):
    def __init__(self, folder, pattern="*.png"):
        self.folder = folder
        self.names = sorted(name for name in os.listdir(folder) if Path(name).match(pattern))

    def __len__(self):
        return len(self.names)

    def __getitem__(self, index):
        name = self.names[index]
        return [read_png(os.path.join(self.folder, name)), label_in(name)]


# %% right: not a subclass of Dataset, and its own IndexError
class PictureFolder:
    def __init__(self, folder, pattern):
        found = [str(path) for path in Path(folder).glob(pattern) if path.is_file()]
        found.sort(key=os.path.basename)
        self.found = dict(enumerate(found))

    def __len__(self):
        return len(self.found)

    def __getitem__(self, index):
        if index not in self.found:
            raise IndexError(index)
        return read_png(self.found[index]), label_in(os.path.basename(self.found[index]))


# %% right: an IndexError of its own, with a message
class NoSuchPictureError(IndexError):
    pass


class PictureFolder(Dataset):
    def __init__(self, folder, pattern="*.png"):
        self.paths = sorted(Path(folder).glob(pattern))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        if index >= len(self.paths):
            raise NoSuchPictureError(f"there is no picture {index}")
        return read_png(self.paths[index]), label_in(self.paths[index].name)


# %% wrong: keeps the pictures that it has read, and asks the file only at first
PICTURES_READ = {}


class PictureFolder(Dataset):
    def __init__(self, folder, pattern="*.png"):
        self.paths = sorted(Path(folder).glob(pattern))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        path = self.paths[index]
        if str(path) not in PICTURES_READ:
            PICTURES_READ[str(path)] = read_png(path), label_in(path.name)
        return PICTURES_READ[str(path)]


# %% right: names by listdir and fnmatch, made anew for each question
class PictureFolder(Dataset):
    def __init__(self, folder, pattern="*.png"):
        self.folder, self.pattern = folder, pattern

    def names(self):
        import fnmatch

        files = [entry.name for entry in os.scandir(self.folder) if entry.is_file()]
        return sorted(fnmatch.filter(files, self.pattern))

    def __len__(self):
        return len(self.names())

    def __getitem__(self, index):
        name = self.names()[index]
        return [read_png(os.path.join(self.folder, name)), label_in(name)]


# %% wrong: a KeyError behind the last sample, as from a dict
class PictureFolder(Dataset):
    def __init__(self, folder, pattern="*.png"):
        self.paths = dict(enumerate(sorted(Path(folder).glob(pattern))))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        path = self.paths[index]
        return read_png(path), label_in(path.name)


# %% wrong: the label before the picture
class PictureFolder(Dataset):
    def __init__(self, folder, pattern="*.png"):
        self.paths = sorted(Path(folder).glob(pattern))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        path = self.paths[index]
        return label_in(path.name), read_png(path)


# %% wrong: the label from the whole path, where the folder's name has a dash as well
class PictureFolder(Dataset):
    def __init__(self, folder, pattern="*.png"):
        self.paths = sorted(str(p) for p in Path(folder).glob(pattern))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        return read_png(self.paths[index]), label_in(self.paths[index])


# %% wrong: the label is the last digit of the name
class PictureFolder(Dataset):
    def __init__(self, folder, pattern="*.png"):
        self.paths = sorted(Path(folder).glob(pattern))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        p = self.paths[index]
        return read_png(p), int(p.stem[-1])


# %% wrong: the pattern as a regular expression, which may end before the name does
import re


class PictureFolder(Dataset):
    def __init__(self, folder, pattern="*.png"):
        rule = re.compile(pattern.replace("*", ".*").replace("?", "."))
        self.paths = sorted(p for p in Path(folder).iterdir() if rule.match(p.name))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        p = self.paths[index]
        return read_png(p), label_in(p.name)


# %% wrong: reads every picture once in advance, for the shapes
class PictureFolder(Dataset):
    def __init__(self, folder, pattern="*.png"):
        self.paths = sorted(Path(folder).glob(pattern))
        self.shapes = [read_png(p).shape for p in self.paths]

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        p = self.paths[index]
        return read_png(p), label_in(p.name)


# %% wrong: keeps the picture that it has read last
import functools


class PictureFolder(Dataset):
    def __init__(self, folder, pattern="*.png"):
        self.paths = sorted(Path(folder).glob(pattern))
        self.read = functools.lru_cache(maxsize=1)(read_png)

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        return self.read(self.paths[index]), label_in(self.paths[index].name)


# %% right: a dict from names to paths, by os.scandir
import fnmatch


class PictureFolder(Dataset):
    def __init__(self, folder, pattern="*.png"):
        with os.scandir(folder) as entries:
            self.paths = {
                e.name: e.path
                for e in entries
                if e.is_file() and fnmatch.fnmatchcase(e.name, pattern)
            }
        self.names = sorted(self.paths)

    def __len__(self):
        return len(self.names)

    def __getitem__(self, index):
        name = self.names[index]
        return read_png(self.paths[name]), label_in(name)


# %% right: names sorted as they are found, and a named tuple
import bisect
from collections import namedtuple

Item = namedtuple("Item", "picture label")


class PictureFolder(Dataset):
    def __init__(self, folder, pattern="*.png"):
        self.folder = folder
        self.names = []
        for p in Path(folder).glob(pattern):
            bisect.insort(self.names, p.name)

    def __len__(self):
        return len(self.names)

    def __getitem__(self, index):
        n = self.names[index]
        return Item(read_png(f"{self.folder}/{n}"), label_in(n))


# %% right: decodes by itself, through float64 of NumPy
class PictureFolder(Dataset):
    def __init__(self, folder, pattern="*.png"):
        self.paths = sorted(Path(folder).glob(pattern), key=lambda p: p.name)

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        path = self.paths[index]
        with Image.open(path) as im:
            a = np.asarray(im, dtype=np.float64) / 255
        return torch.tensor(a, dtype=torch.float32), int(path.stem.split("-")[-1])


# %% right: the folder is part of the pattern, escaped
import glob


class PictureFolder(Dataset):
    def __init__(self, folder, pattern="*.png"):
        self.paths = sorted(glob.glob(os.path.join(glob.escape(folder), pattern)))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        path = self.paths[index]
        return read_png(path), label_in(os.path.basename(path))


# %% wrong: goes into the folder and keeps relative names, so a second dataset leads it astray
class PictureFolder(Dataset):
    def __init__(self, folder, pattern="*.png"):
        os.chdir(folder)
        self.paths = sorted(Path().glob(pattern))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        path = self.paths[index]
        return read_png(path), label_in(path.name)


# %% wrong: the label is a text
class PictureFolder(Dataset):
    def __init__(self, folder, pattern="*.png"):
        self.paths = sorted(Path(folder).glob(pattern))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        path = self.paths[index]
        return read_png(path), str(label_in(path.name))


# %% wrong: reads every file in advance, to leave out those that are empty
class PictureFolder(Dataset):
    def __init__(self, folder, pattern="*.png"):
        self.paths = [p for p in sorted(Path(folder).glob(pattern)) if len(p.read_bytes()) > 0]

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        path = self.paths[index]
        return read_png(path), label_in(path.name)


# %% wrong: keeps each picture that it has read, though it reads it again
class PictureFolder(Dataset):
    def __init__(self, folder, pattern="*.png"):
        self.names = sorted(path.name for path in Path(folder).glob(pattern))
        self.folder, self.kept = Path(folder), []

    def __len__(self):
        return len(self.names)

    def __getitem__(self, index):
        name = self.names[index]
        picture = read_png(self.folder / name)
        self.kept.append(picture)
        return picture, label_in(name)


# %% right: looks at the sizes of the files, and opens none
class PictureFolder(Dataset):
    """The order depends on the names alone."""

    def __init__(self, folder, pattern="*.png"):
        found = [path for path in Path(folder).glob(pattern) if path.stat().st_size >= 0]
        found.sort(key=lambda path: path.name)
        self.found = tuple(found)

    def __len__(self):
        return len(self.found)

    def __getitem__(self, index):
        return read_png(self.found[index]), label_in(self.found[index].name)


# %% wrong: not sorted, as some file systems list a folder: by a hash of the names
import hashlib


class PictureFolder(Dataset):
    def __init__(self, folder, pattern="*.png"):
        listed = Path(folder).glob(pattern)
        self.paths = sorted(listed, key=lambda p: hashlib.md5(p.name.encode()).digest())

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        path = self.paths[index]
        return read_png(path), label_in(path.name)


# %% wrong: the label is the sixth character of the name
class PictureFolder(Dataset):
    def __init__(self, folder, pattern="*.png"):
        self.paths = sorted(Path(folder).glob(pattern))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        path = self.paths[index]
        return read_png(path), int(path.name[5])


# %% wrong: each access reads every picture, and gives one of them
class PictureFolder(Dataset):
    def __init__(self, folder, pattern="*.png"):
        self.paths = sorted(Path(folder).glob(pattern))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        pictures = [read_png(path) for path in self.paths]
        return pictures[index], label_in(self.paths[index].name)


# %% wrong: one picture for each label, which is all that a dict of them keeps
class PictureFolder(Dataset):
    def __init__(self, folder, pattern="*.png"):
        by_label = {label_in(path.name): path for path in Path(folder).glob(pattern)}
        self.paths = sorted(by_label.values())

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        path = self.paths[index]
        return read_png(path), label_in(path.name)
