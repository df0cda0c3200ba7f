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
