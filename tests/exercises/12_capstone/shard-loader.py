# %% wrong: the rest that fills no batch is dropped
class ShardLoader:
    def __init__(self, paths, batch_size, seed):
        self.paths, self.batch_size, self.seed = paths, batch_size, seed
        self.epoch = self.done = 0

    def __iter__(self):
        order = np.random.default_rng([self.seed, self.epoch]).permutation(len(self.paths))
        waiting, number = [], 0
        for place in order:
            for sample in read_shard(self.paths[place]):
                waiting.append(sample)
                if len(waiting) == self.batch_size:
                    number += 1
                    if number > self.done:
                        self.done += 1
                        names, volumes, masks = zip(*waiting, strict=True)
                        yield list(names), torch.stack(volumes), torch.stack(masks)
                    waiting = []
        self.epoch, self.done = self.epoch + 1, 0

    def state_dict(self):
        return {"epoch": self.epoch, "done": self.done}

    def load_state_dict(self, state):
        self.epoch, self.done = state["epoch"], state["done"]


# %% wrong: a batch ends where a shard ends
class ShardLoader:
    def __init__(self, paths, batch_size, seed):
        self.paths, self.batch_size, self.seed = paths, batch_size, seed
        self.epoch = self.done = 0

    def __iter__(self):
        order = np.random.default_rng([self.seed, self.epoch]).permutation(len(self.paths))
        number = 0
        for place in order:
            samples = list(read_shard(self.paths[place]))
            for start in range(0, len(samples), self.batch_size):
                number += 1
                if number > self.done:
                    self.done += 1
                    names, volumes, masks = zip(
                        *samples[start : start + self.batch_size], strict=True
                    )
                    yield list(names), torch.stack(volumes), torch.stack(masks)
        self.epoch, self.done = self.epoch + 1, 0

    def state_dict(self):
        return {"epoch": self.epoch, "done": self.done}

    def load_state_dict(self, state):
        self.epoch, self.done = state["epoch"], state["done"]


# %% wrong: counts a batch after it was handed on, and repeats it when resumed
class ShardLoader:
    def __init__(self, paths, batch_size, seed):
        self.paths, self.batch_size, self.seed = paths, batch_size, seed
        self.epoch = self.done = 0

    def __iter__(self):
        order = np.random.default_rng([self.seed, self.epoch]).permutation(len(self.paths))
        samples = [sample for place in order for sample in read_shard(self.paths[place])]
        starts = range(0, len(samples), self.batch_size)
        for start in starts[self.done :]:
            names, volumes, masks = zip(*samples[start : start + self.batch_size], strict=True)
            yield list(names), torch.stack(volumes), torch.stack(masks)
            self.done += 1
        self.epoch, self.done = self.epoch + 1, 0

    def state_dict(self):
        return {"epoch": self.epoch, "done": self.done}

    def load_state_dict(self, state):
        self.epoch, self.done = state["epoch"], state["done"]


# %% wrong: the epoch is not in the state
class ShardLoader:
    def __init__(self, paths, batch_size, seed):
        self.paths, self.batch_size, self.seed = paths, batch_size, seed
        self.epoch = self.done = 0

    def __iter__(self):
        order = np.random.default_rng([self.seed, self.epoch]).permutation(len(self.paths))
        samples = [sample for place in order for sample in read_shard(self.paths[place])]
        starts = range(0, len(samples), self.batch_size)
        for start in starts[self.done :]:
            names, volumes, masks = zip(*samples[start : start + self.batch_size], strict=True)
            self.done += 1
            yield list(names), torch.stack(volumes), torch.stack(masks)
        self.epoch, self.done = self.epoch + 1, 0

    def state_dict(self):
        return {"done": self.done}

    def load_state_dict(self, state):
        self.done = state["done"]


# %% wrong: seed plus epoch, so that one seed's second epoch is the next one's first
class ShardLoader:
    def __init__(self, paths, batch_size, seed):
        self.paths, self.batch_size, self.seed = paths, batch_size, seed
        self.epoch = self.done = 0

    def __iter__(self):
        order = np.random.default_rng(self.seed + self.epoch).permutation(len(self.paths))
        samples = [sample for place in order for sample in read_shard(self.paths[place])]
        starts = range(0, len(samples), self.batch_size)
        for start in starts[self.done :]:
            names, volumes, masks = zip(*samples[start : start + self.batch_size], strict=True)
            self.done += 1
            yield list(names), torch.stack(volumes), torch.stack(masks)
        self.epoch, self.done = self.epoch + 1, 0

    def state_dict(self):
        return {"epoch": self.epoch, "done": self.done}

    def load_state_dict(self, state):
        self.epoch, self.done = state["epoch"], state["done"]


# %% wrong: the same order in every epoch
class ShardLoader:
    def __init__(self, paths, batch_size, seed):
        self.paths, self.batch_size, self.seed = paths, batch_size, seed
        self.epoch = self.done = 0

    def __iter__(self):
        order = np.random.default_rng(self.seed).permutation(len(self.paths))
        samples = [sample for place in order for sample in read_shard(self.paths[place])]
        starts = range(0, len(samples), self.batch_size)
        for start in starts[self.done :]:
            names, volumes, masks = zip(*samples[start : start + self.batch_size], strict=True)
            self.done += 1
            yield list(names), torch.stack(volumes), torch.stack(masks)
        self.epoch, self.done = self.epoch + 1, 0

    def state_dict(self):
        return {"epoch": self.epoch, "done": self.done}

    def load_state_dict(self, state):
        self.epoch, self.done = state["epoch"], state["done"]


# %% wrong: counts samples as if every batch were full, which the last one is not
class ShardLoader:
    def __init__(self, paths, batch_size, seed):
        self.paths, self.batch_size, self.seed = paths, batch_size, seed
        self.samples_done = 0

    def __iter__(self):
        every = [sample for path in self.paths for sample in read_shard(path)]
        epoch, first = divmod(self.samples_done, len(every))
        order = np.random.default_rng([self.seed, epoch]).permutation(len(self.paths))
        samples = [sample for place in order for sample in read_shard(self.paths[place])]
        for start in range(first, len(samples), self.batch_size):
            names, volumes, masks = zip(*samples[start : start + self.batch_size], strict=True)
            self.samples_done += self.batch_size
            yield list(names), torch.stack(volumes), torch.stack(masks)

    def state_dict(self):
        return {"samples": self.samples_done}

    def load_state_dict(self, state):
        self.samples_done = state["samples"]


# %% wrong: the state is the loader's own dict, which goes on changing
class ShardLoader:
    def __init__(self, paths, batch_size, seed):
        self.paths, self.batch_size, self.seed = paths, batch_size, seed
        self.state = {"epoch": 0, "done": 0}

    def __iter__(self):
        random_order = np.random.default_rng([self.seed, self.state["epoch"]])
        order = random_order.permutation(len(self.paths))
        samples = [sample for place in order for sample in read_shard(self.paths[place])]
        starts = range(0, len(samples), self.batch_size)
        for start in starts[self.state["done"] :]:
            names, volumes, masks = zip(*samples[start : start + self.batch_size], strict=True)
            self.state["done"] += 1
            yield list(names), torch.stack(volumes), torch.stack(masks)
        self.state["epoch"] += 1
        self.state["done"] = 0

    def state_dict(self):
        return self.state

    def load_state_dict(self, state):
        self.state["epoch"], self.state["done"] = state["epoch"], state["done"] + 1


# %% wrong: the state is the loader's own dict, which goes on changing, and is taken over as it is
class ShardLoader:
    def __init__(self, paths, batch_size, seed):
        self.paths, self.batch_size, self.seed = paths, batch_size, seed
        self.state = {"epoch": 0, "done": 0}

    def __iter__(self):
        random_order = np.random.default_rng([self.seed, self.state["epoch"]])
        order = random_order.permutation(len(self.paths))
        samples = [sample for place in order for sample in read_shard(self.paths[place])]
        starts = range(0, len(samples), self.batch_size)
        for start in starts[self.state["done"] :]:
            names, volumes, masks = zip(*samples[start : start + self.batch_size], strict=True)
            self.state["done"] += 1
            yield list(names), torch.stack(volumes), torch.stack(masks)
        self.state["epoch"] += 1
        self.state["done"] = 0

    def state_dict(self):
        return self.state

    def load_state_dict(self, state):
        self.state = state


# %% right: the whole epoch in a list, shuffled sample by sample, too
class ShardLoader:
    def __init__(self, paths, batch_size, seed):
        self.paths, self.batch_size, self.seed = paths, batch_size, seed
        self.place = [0, 0]

    def __iter__(self):
        epoch, done = self.place
        samples = [sample for path in self.paths for sample in read_shard(path)]
        order = np.random.default_rng([self.seed, epoch]).permutation(len(samples)).tolist()
        for start in range(done * self.batch_size, len(order), self.batch_size):
            batch = [samples[i] for i in order[start : start + self.batch_size]]
            self.place[1] += 1
            yield (
                [name for name, _, _ in batch],
                torch.stack([volume for _, volume, _ in batch]),
                torch.stack([mask for _, _, mask in batch]),
            )
        self.place = [epoch + 1, 0]

    def state_dict(self):
        return {"epoch": self.place[0], "done": self.place[1]}

    def load_state_dict(self, state):
        self.place = [state["epoch"], state["done"]]


# %% right: counts samples, and turns to the next epoch at once
class ShardLoader:
    def __init__(self, paths, batch_size, seed):
        self.paths = list(paths)
        self.batch_size = batch_size
        self.seed = seed
        self.epoch, self.samples = 0, 0
        self.total = sum(1 for path in paths for _ in read_shard(path))

    def __iter__(self):
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + self.epoch * 7919)
        paths = [self.paths[i] for i in torch.randperm(len(self.paths), generator=generator)]
        left = self.samples
        names, volumes, masks, read = [], [], [], 0
        for path in paths:
            for name, volume, mask in read_shard(path):
                read += 1
                if read <= left:
                    continue
                names.append(name)
                volumes.append(volume)
                masks.append(mask)
                if len(names) == self.batch_size or read == self.total:
                    self.samples = read
                    if read == self.total:
                        self.epoch, self.samples = self.epoch + 1, 0
                    yield names, torch.stack(volumes), torch.stack(masks)
                    names, volumes, masks = [], [], []

    def state_dict(self):
        return dict(epoch=self.epoch, samples=self.samples)

    def load_state_dict(self, state):
        self.epoch, self.samples = state["epoch"], state["samples"]


# %% wrong: the seed times the epoch, so that pairs share an order, and seed 0 has one only
class ShardLoader:
    def __init__(self, paths, batch_size, seed):
        self.paths = list(paths)
        self.batch_size = batch_size
        self.seed = seed
        self.epoch = 0
        self.done = 0

    def order(self):
        return (
            np.random.default_rng(self.seed * (self.epoch + 1))
            .permutation(len(self.paths))
            .tolist()
        )

    def samples(self):
        for place in self.order():
            yield from read_shard(self.paths[place])

    def __iter__(self):
        samples = self.samples()
        for _ in range(self.done * self.batch_size):
            next(samples, None)
        while batch := list(itertools.islice(samples, self.batch_size)):
            self.done += 1
            names, volumes, masks = zip(*batch, strict=True)
            yield list(names), torch.stack(volumes), torch.stack(masks)
        self.epoch += 1
        self.done = 0

    def state_dict(self):
        return {"epoch": self.epoch, "done": self.done}

    def load_state_dict(self, state):
        self.epoch = state["epoch"]
        self.done = state["done"]


# %% wrong: twice the seed, plus the epoch, so that the third epoch is the next seed's first
class ShardLoader:
    def __init__(self, paths, batch_size, seed):
        self.paths = list(paths)
        self.batch_size = batch_size
        self.seed = seed
        self.epoch = 0
        self.done = 0

    def order(self):
        return (
            np.random.default_rng(2 * self.seed + self.epoch).permutation(len(self.paths)).tolist()
        )

    def samples(self):
        for place in self.order():
            yield from read_shard(self.paths[place])

    def __iter__(self):
        samples = self.samples()
        for _ in range(self.done * self.batch_size):
            next(samples, None)
        while batch := list(itertools.islice(samples, self.batch_size)):
            self.done += 1
            names, volumes, masks = zip(*batch, strict=True)
            yield list(names), torch.stack(volumes), torch.stack(masks)
        self.epoch += 1
        self.done = 0

    def state_dict(self):
        return {"epoch": self.epoch, "done": self.done}

    def load_state_dict(self, state):
        self.epoch = state["epoch"]
        self.done = state["done"]


# %% wrong: the shards begin at a random one, and follow each other as ever
class ShardLoader:
    def __init__(self, paths, batch_size, seed):
        self.paths = list(paths)
        self.batch_size = batch_size
        self.seed = seed
        self.epoch = 0
        self.done = 0

    def order(self):
        k = int(np.random.default_rng([self.seed, self.epoch]).integers(len(self.paths)))
        return [*range(k, len(self.paths)), *range(k)]

    def samples(self):
        for place in self.order():
            yield from read_shard(self.paths[place])

    def __iter__(self):
        samples = self.samples()
        for _ in range(self.done * self.batch_size):
            next(samples, None)
        while batch := list(itertools.islice(samples, self.batch_size)):
            self.done += 1
            names, volumes, masks = zip(*batch, strict=True)
            yield list(names), torch.stack(volumes), torch.stack(masks)
        self.epoch += 1
        self.done = 0

    def state_dict(self):
        return {"epoch": self.epoch, "done": self.done}

    def load_state_dict(self, state):
        self.epoch = state["epoch"]
        self.done = state["done"]


# %% wrong: the state holds the names that came, which are no numbers
class ShardLoader:
    def __init__(self, paths, batch_size, seed):
        self.paths, self.batch_size, self.seed = list(paths), batch_size, seed
        self.epoch = 0
        self.seen = []

    def __iter__(self):
        order = np.random.default_rng([self.seed, self.epoch]).permutation(len(self.paths))
        samples = (s for i in order for s in read_shard(self.paths[i]) if s[0] not in self.seen)
        while batch := list(itertools.islice(samples, self.batch_size)):
            n, v, m = zip(*batch, strict=True)
            self.seen += n
            yield list(n), torch.stack(v), torch.stack(m)
        self.epoch += 1
        self.seen = []

    def state_dict(self):
        return {"epoch": self.epoch, "seen": list(self.seen)}

    def load_state_dict(self, state):
        self.epoch, self.seen = state["epoch"], list(state["seen"])


# %% wrong: the state holds hundreds of numbers of a generator
import random


class ShardLoader:
    def __init__(self, paths, batch_size, seed):
        self.paths, self.batch_size, self.seed = list(paths), batch_size, seed
        self.rng = random.Random(seed)
        self.done = 0
        self.before = self.rng.getstate()

    def __iter__(self):
        self.before = self.rng.getstate()
        order = list(range(len(self.paths)))
        self.rng.shuffle(order)
        samples = (s for i in order for s in read_shard(self.paths[i]))
        for _ in range(self.done * self.batch_size):
            next(samples, None)
        while batch := list(itertools.islice(samples, self.batch_size)):
            n, v, m = zip(*batch, strict=True)
            self.done += 1
            yield list(n), torch.stack(v), torch.stack(m)
        self.done = 0

    def state_dict(self):
        return {"rng": [self.before[0], list(self.before[1]), None], "done": self.done}

    def load_state_dict(self, state):
        a, b, c = state["rng"]
        self.rng.setstate((a, tuple(b), c))
        self.done = state["done"]


# %% wrong: there is no state before the first batch
class ShardLoader:
    """state_dict() of a loader that has not begun raises."""

    def __init__(self, paths, batch_size, seed):
        self.paths, self.batch_size, self.seed = list(paths), batch_size, seed
        self.start = (0, 0)

    def __iter__(self):
        self.epoch, self.done = self.start
        self.start = (self.epoch + 1, 0)
        order = np.random.default_rng([self.seed, self.epoch]).permutation(len(self.paths))
        samples = (s for i in order for s in read_shard(self.paths[i]))
        for _ in range(self.done * self.batch_size):
            next(samples, None)
        while batch := list(itertools.islice(samples, self.batch_size)):
            n, v, m = zip(*batch, strict=True)
            self.done += 1
            yield list(n), torch.stack(v), torch.stack(m)

    def state_dict(self):
        return {"epoch": self.epoch, "done": self.done}

    def load_state_dict(self, state):
        self.start = state["epoch"], state["done"]


# %% right: seeded with a text of both numbers
import random


class ShardLoader:
    def __init__(self, paths, batch_size, seed):
        self.paths = list(paths)
        self.batch_size = batch_size
        self.seed = seed
        self.epoch = 0
        self.done = 0

    def order(self):
        return [
            p
            for p in random.Random(f"{self.seed}/{self.epoch}").sample(
                range(len(self.paths)), len(self.paths)
            )
        ]

    def samples(self):
        for place in self.order():
            yield from read_shard(self.paths[place])

    def __iter__(self):
        samples = self.samples()
        for _ in range(self.done * self.batch_size):
            next(samples, None)
        while batch := list(itertools.islice(samples, self.batch_size)):
            self.done += 1
            names, volumes, masks = zip(*batch, strict=True)
            yield list(names), torch.stack(volumes), torch.stack(masks)
        self.epoch += 1
        self.done = 0

    def state_dict(self):
        return {"epoch": self.epoch, "done": self.done}

    def load_state_dict(self, state):
        self.epoch = state["epoch"]
        self.done = state["done"]


# %% right: a batch is a list, and its names a tuple
class ShardLoader:
    def __init__(self, paths, batch_size, seed):
        self.paths = list(paths)
        self.batch_size = batch_size
        self.seed = seed
        self.epoch = 0
        self.done = 0

    def order(self):
        return np.random.default_rng([self.seed, self.epoch]).permutation(len(self.paths)).tolist()

    def samples(self):
        for place in self.order():
            yield from read_shard(self.paths[place])

    def __iter__(self):
        samples = self.samples()
        for _ in range(self.done * self.batch_size):
            next(samples, None)
        while batch := list(itertools.islice(samples, self.batch_size)):
            self.done += 1
            names, volumes, masks = zip(*batch, strict=True)
            yield [names, torch.stack(volumes), torch.stack(masks)]
        self.epoch += 1
        self.done = 0

    def state_dict(self):
        return {"epoch": self.epoch, "done": self.done}

    def load_state_dict(self, state):
        self.epoch = state["epoch"]
        self.done = state["done"]


# %% wrong: seeded with the hash of a text, which is another one in each process
class ShardLoader:
    def __init__(self, paths, batch_size, seed):
        self.paths = list(paths)
        self.batch_size = batch_size
        self.seed = seed
        self.epoch = 0
        self.done = 0

    def order(self):
        seed = hash(f"{self.seed}/{self.epoch}") % 2**32
        return np.random.default_rng(seed).permutation(len(self.paths))

    def samples(self):
        for place in self.order():
            yield from read_shard(self.paths[place])

    def __iter__(self):
        samples = self.samples()
        for _ in range(self.done * self.batch_size):
            next(samples, None)
        while batch := list(itertools.islice(samples, self.batch_size)):
            self.done += 1
            names, volumes, masks = zip(*batch, strict=True)
            yield list(names), torch.stack(volumes), torch.stack(masks)
        self.epoch += 1
        self.done = 0

    def state_dict(self):
        return {"epoch": self.epoch, "done": self.done}

    def load_state_dict(self, state):
        self.epoch = state["epoch"]
        self.done = state["done"]


# %% wrong: the seed plus 1000 times the epoch, which another seed has as well
class ShardLoader:
    def __init__(self, paths, batch_size, seed):
        self.paths, self.batch_size, self.seed = list(paths), batch_size, seed
        self.epoch = self.done = 0

    def __iter__(self):
        order = np.random.default_rng(self.seed + 1000 * self.epoch).permutation(len(self.paths))
        samples = [sample for place in order for sample in read_shard(self.paths[place])]
        starts = range(0, len(samples), self.batch_size)
        for start in starts[self.done :]:
            names, *parts = zip(*samples[start : start + self.batch_size], strict=True)
            self.done += 1
            yield list(names), *map(torch.stack, parts)
        self.epoch, self.done = self.epoch + 1, 0

    def state_dict(self):
        return {"epoch": self.epoch, "done": self.done}

    def load_state_dict(self, state):
        self.epoch, self.done = state["epoch"], state["done"]


# %% wrong: the seed plus 7919 times the epoch, which another seed has as well
class ShardLoader:
    def __init__(self, paths, batch_size, seed):
        self.paths, self.batch_size, self.seed = list(paths), batch_size, seed
        self.epoch = self.done = 0

    def __iter__(self):
        order = np.random.default_rng(self.seed + 7919 * self.epoch).permutation(len(self.paths))
        samples = [sample for place in order for sample in read_shard(self.paths[place])]
        starts = range(0, len(samples), self.batch_size)
        for start in starts[self.done :]:
            names, *parts = zip(*samples[start : start + self.batch_size], strict=True)
            self.done += 1
            yield list(names), *map(torch.stack, parts)
        self.epoch, self.done = self.epoch + 1, 0

    def state_dict(self):
        return {"epoch": self.epoch, "done": self.done}

    def load_state_dict(self, state):
        self.epoch, self.done = state["epoch"], state["done"]


# %% wrong: the seed plus 3571 times the epoch, which another seed has as well
class ShardLoader:
    def __init__(self, paths, batch_size, seed):
        self.paths, self.batch_size, self.seed = list(paths), batch_size, seed
        self.epoch = self.done = 0

    def __iter__(self):
        order = np.random.default_rng(self.seed + 3571 * self.epoch).permutation(len(self.paths))
        samples = [sample for place in order for sample in read_shard(self.paths[place])]
        starts = range(0, len(samples), self.batch_size)
        for start in starts[self.done :]:
            names, *parts = zip(*samples[start : start + self.batch_size], strict=True)
            self.done += 1
            yield list(names), *map(torch.stack, parts)
        self.epoch, self.done = self.epoch + 1, 0

    def state_dict(self):
        return {"epoch": self.epoch, "done": self.done}

    def load_state_dict(self, state):
        self.epoch, self.done = state["epoch"], state["done"]


# %% wrong: the number of batches that are done is not reset when an epoch ends
class ShardLoader:
    def __init__(self, paths, batch_size, seed):
        self.paths, self.batch_size, self.seed = paths, batch_size, seed
        self.epoch = self.done = 0

    def __iter__(self):
        order = np.random.default_rng([self.seed, self.epoch]).permutation(len(self.paths))
        samples = [sample for place in order for sample in read_shard(self.paths[place])]
        for start in range(self.done * self.batch_size, len(samples), self.batch_size):
            names, volumes, masks = zip(*samples[start : start + self.batch_size], strict=True)
            self.done += 1
            yield list(names), torch.stack(volumes), torch.stack(masks)
        self.epoch += 1

    def state_dict(self):
        return {"epoch": self.epoch, "done": self.done}

    def load_state_dict(self, state):
        self.epoch, self.done = state["epoch"], state["done"]


# %% wrong: torch's generator gets a seed of more than 32 bits, of which it keeps only the low ones
class ShardLoader:
    def __init__(self, paths, batch_size, seed):
        self.paths, self.batch_size, self.seed = paths, batch_size, seed
        self.epoch = self.done = 0

    def __iter__(self):
        generator = torch.Generator().manual_seed(self.seed * 2**20 + self.epoch)
        samples = [
            sample
            for place in torch.randperm(len(self.paths), generator=generator).tolist()
            for sample in read_shard(self.paths[place])
        ]
        for start in range(self.done * self.batch_size, len(samples), self.batch_size):
            names, volumes, masks = zip(*samples[start : start + self.batch_size], strict=True)
            self.done += 1
            yield list(names), torch.stack(volumes), torch.stack(masks)
        self.epoch, self.done = self.epoch + 1, 0

    def state_dict(self):
        return {"epoch": self.epoch, "done": self.done}

    def load_state_dict(self, state):
        self.epoch, self.done = state["epoch"], state["done"]
