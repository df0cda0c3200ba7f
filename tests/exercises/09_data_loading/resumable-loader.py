# %% wrong: counts after the yield, so the batch that the loop is at is repeated
class ResumableLoader:
    def __init__(self, count, batch_size, seed, fetch):
        self.count, self.batch_size, self.seed, self.fetch = count, batch_size, seed, fetch
        self.epoch = self.done = 0

    def __iter__(self):
        order = np.random.default_rng([self.seed, self.epoch]).permutation(self.count).tolist()
        starts = range(0, self.count, self.batch_size)
        batches = [order[start : start + self.batch_size] for start in starts]
        for batch in self.fetch(batches[self.done :]):
            yield batch
            self.done += 1
        self.epoch, self.done = self.epoch + 1, 0

    def state_dict(self):
        return {"epoch": self.epoch, "done": self.done}

    def load_state_dict(self, state):
        self.epoch, self.done = state["epoch"], state["done"]


# %% wrong: counts what was handed to fetch, which is ahead
class ResumableLoader:
    def __init__(self, count, batch_size, seed, fetch):
        self.count, self.batch_size, self.seed, self.fetch = count, batch_size, seed, fetch
        self.epoch = self.done = 0

    def handed_out(self, batches):
        for batch in batches:
            self.done += 1
            yield batch

    def __iter__(self):
        order = np.random.default_rng([self.seed, self.epoch]).permutation(self.count).tolist()
        starts = range(0, self.count, self.batch_size)
        batches = [order[start : start + self.batch_size] for start in starts]
        yield from self.fetch(self.handed_out(batches[self.done :]))
        self.epoch, self.done = self.epoch + 1, 0

    def state_dict(self):
        return {"epoch": self.epoch, "done": self.done}

    def load_state_dict(self, state):
        self.epoch, self.done = state["epoch"], state["done"]


# %% wrong: the same order in every epoch
class ResumableLoader:
    def __init__(self, count, batch_size, seed, fetch):
        self.count, self.batch_size, self.seed, self.fetch = count, batch_size, seed, fetch
        self.epoch = self.done = 0

    def __iter__(self):
        order = np.random.default_rng(self.seed).permutation(self.count).tolist()
        starts = range(0, self.count, self.batch_size)
        batches = [order[start : start + self.batch_size] for start in starts]
        for batch in self.fetch(batches[self.done :]):
            self.done += 1
            yield batch
        self.epoch, self.done = self.epoch + 1, 0

    def state_dict(self):
        return {"epoch": self.epoch, "done": self.done}

    def load_state_dict(self, state):
        self.epoch, self.done = state["epoch"], state["done"]


# %% wrong: one generator that goes on, and starts anew when the run is resumed
class ResumableLoader:
    def __init__(self, count, batch_size, seed, fetch):
        self.count, self.batch_size, self.fetch = count, batch_size, fetch
        self.generator = np.random.default_rng(seed)
        self.epoch = self.done = 0

    def __iter__(self):
        order = self.generator.permutation(self.count).tolist()
        starts = range(0, self.count, self.batch_size)
        batches = [order[start : start + self.batch_size] for start in starts]
        for batch in self.fetch(batches[self.done :]):
            self.done += 1
            yield batch
        self.epoch, self.done = self.epoch + 1, 0

    def state_dict(self):
        return {"epoch": self.epoch, "done": self.done}

    def load_state_dict(self, state):
        self.epoch, self.done = state["epoch"], state["done"]


# %% wrong: seed plus epoch, so that one run's second epoch is the next run's first
class ResumableLoader:
    def __init__(self, count, batch_size, seed, fetch):
        self.count, self.batch_size, self.seed, self.fetch = count, batch_size, seed, fetch
        self.epoch = self.done = 0

    def __iter__(self):
        order = np.random.default_rng(self.seed + self.epoch).permutation(self.count).tolist()
        starts = range(0, self.count, self.batch_size)
        batches = [order[start : start + self.batch_size] for start in starts]
        for batch in self.fetch(batches[self.done :]):
            self.done += 1
            yield batch
        self.epoch, self.done = self.epoch + 1, 0

    def state_dict(self):
        return {"epoch": self.epoch, "done": self.done}

    def load_state_dict(self, state):
        self.epoch, self.done = state["epoch"], state["done"]


# %% wrong: fetches everything again and throws away what is done
class ResumableLoader:
    def __init__(self, count, batch_size, seed, fetch):
        self.count, self.batch_size, self.seed, self.fetch = count, batch_size, seed, fetch
        self.epoch = self.done = 0

    def __iter__(self):
        order = np.random.default_rng([self.seed, self.epoch]).permutation(self.count).tolist()
        starts = range(0, self.count, self.batch_size)
        batches = [order[start : start + self.batch_size] for start in starts]
        for batch in itertools.islice(self.fetch(batches), self.done, None):
            self.done += 1
            yield batch
        self.epoch, self.done = self.epoch + 1, 0

    def state_dict(self):
        return {"epoch": self.epoch, "done": self.done}

    def load_state_dict(self, state):
        self.epoch, self.done = state["epoch"], state["done"]


# %% wrong: a resumed loader counts from where it was resumed
class ResumableLoader:
    def __init__(self, count, batch_size, seed, fetch):
        self.count, self.batch_size, self.seed, self.fetch = count, batch_size, seed, fetch
        self.epoch = self.done = self.skip = 0

    def __iter__(self):
        order = np.random.default_rng([self.seed, self.epoch]).permutation(self.count).tolist()
        starts = range(0, self.count, self.batch_size)
        batches = [order[start : start + self.batch_size] for start in starts]
        for batch in self.fetch(batches[self.skip :]):
            self.done += 1
            yield batch
        self.epoch, self.done, self.skip = self.epoch + 1, 0, 0

    def state_dict(self):
        return {"epoch": self.epoch, "done": self.done}

    def load_state_dict(self, state):
        self.epoch, self.skip = state["epoch"], state["done"]


# %% wrong: after the resumed epoch, every epoch lacks its beginning
class ResumableLoader:
    def __init__(self, count, batch_size, seed, fetch):
        self.count, self.batch_size, self.seed, self.fetch = count, batch_size, seed, fetch
        self.epoch = self.done = self.skip = 0

    def __iter__(self):
        order = np.random.default_rng([self.seed, self.epoch]).permutation(self.count).tolist()
        starts = range(0, self.count, self.batch_size)
        batches = [order[start : start + self.batch_size] for start in starts]
        self.done = self.skip
        for batch in self.fetch(batches[self.skip :]):
            self.done += 1
            yield batch
        self.epoch, self.done = self.epoch + 1, 0

    def state_dict(self):
        return {"epoch": self.epoch, "done": self.done}

    def load_state_dict(self, state):
        self.epoch, self.done, self.skip = state["epoch"], state["done"], state["done"]


# %% wrong: the last, smaller batch is left out
class ResumableLoader:
    def __init__(self, count, batch_size, seed, fetch):
        self.count, self.batch_size, self.seed, self.fetch = count, batch_size, seed, fetch
        self.epoch = self.done = 0

    def __iter__(self):
        order = np.random.default_rng([self.seed, self.epoch]).permutation(self.count).tolist()
        starts = range(0, self.count - self.batch_size + 1, self.batch_size)
        batches = [order[start : start + self.batch_size] for start in starts]
        for batch in self.fetch(batches[self.done :]):
            self.done += 1
            yield batch
        self.epoch, self.done = self.epoch + 1, 0

    def state_dict(self):
        return {"epoch": self.epoch, "done": self.done}

    def load_state_dict(self, state):
        self.epoch, self.done = state["epoch"], state["done"]


# %% wrong: the epoch is not in the state
class ResumableLoader:
    def __init__(self, count, batch_size, seed, fetch):
        self.count, self.batch_size, self.seed, self.fetch = count, batch_size, seed, fetch
        self.epoch = self.done = 0

    def __iter__(self):
        order = np.random.default_rng([self.seed, self.epoch]).permutation(self.count).tolist()
        starts = range(0, self.count, self.batch_size)
        batches = [order[start : start + self.batch_size] for start in starts]
        for batch in self.fetch(batches[self.done :]):
            self.done += 1
            yield batch
        self.epoch, self.done = self.epoch + 1, 0

    def state_dict(self):
        return {"done": self.done}

    def load_state_dict(self, state):
        self.done = state["done"]


# %% wrong: fetches one batch at a time, so nothing is read ahead
class ResumableLoader:
    def __init__(self, count, batch_size, seed, fetch):
        self.count, self.batch_size, self.seed, self.fetch = count, batch_size, seed, fetch
        self.epoch = self.done = 0

    def __iter__(self):
        order = np.random.default_rng([self.seed, self.epoch]).permutation(self.count).tolist()
        starts = range(0, self.count, self.batch_size)
        batches = [order[start : start + self.batch_size] for start in starts]
        for batch in itertools.chain.from_iterable(self.fetch([b]) for b in batches[self.done :]):
            self.done += 1
            yield batch
        self.epoch, self.done = self.epoch + 1, 0

    def state_dict(self):
        return {"epoch": self.epoch, "done": self.done}

    def load_state_dict(self, state):
        self.epoch, self.done = state["epoch"], state["done"]


# %% wrong: waits for the whole epoch
class ResumableLoader:
    def __init__(self, count, batch_size, seed, fetch):
        self.count, self.batch_size, self.seed, self.fetch = count, batch_size, seed, fetch
        self.epoch = self.done = 0

    def __iter__(self):
        order = np.random.default_rng([self.seed, self.epoch]).permutation(self.count).tolist()
        starts = range(0, self.count, self.batch_size)
        batches = [order[start : start + self.batch_size] for start in starts]
        for batch in list(self.fetch(batches[self.done :])):
            self.done += 1
            yield batch
        self.epoch, self.done = self.epoch + 1, 0

    def state_dict(self):
        return {"epoch": self.epoch, "done": self.done}

    def load_state_dict(self, state):
        self.epoch, self.done = state["epoch"], state["done"]


# %% wrong: hands out its own state, which goes on changing
class ResumableLoader:
    def __init__(self, count, batch_size, seed, fetch):
        self.count, self.batch_size, self.seed, self.fetch = count, batch_size, seed, fetch
        self.state = {"epoch": 0, "done": 0}

    def __iter__(self):
        order = np.random.default_rng([self.seed, self.state["epoch"]]).permutation(self.count)
        starts = range(0, self.count, self.batch_size)
        batches = [order[start : start + self.batch_size].tolist() for start in starts]
        for batch in self.fetch(batches[self.state["done"] :]):
            self.state["done"] += 1
            yield batch
        self.state["epoch"] += 1
        self.state["done"] = 0

    def state_dict(self):
        return self.state

    def load_state_dict(self, state):
        self.state = dict(state)


# %% wrong: the whole order is in the state
class ResumableLoader:
    def __init__(self, count, batch_size, seed, fetch):
        self.count, self.batch_size, self.seed, self.fetch = count, batch_size, seed, fetch
        self.epoch, self.done, self.order = 0, 0, None

    def __iter__(self):
        self.order = np.random.default_rng([self.seed, self.epoch]).permutation(self.count).tolist()
        starts = range(0, self.count, self.batch_size)
        batches = [self.order[start : start + self.batch_size] for start in starts]
        for batch in self.fetch(batches[self.done :]):
            self.done += 1
            yield batch
        self.epoch, self.done = self.epoch + 1, 0

    def state_dict(self):
        return {"epoch": self.epoch, "done": self.done, "order": list(self.order or ())}

    def load_state_dict(self, state):
        self.epoch, self.done, self.order = state["epoch"], state["done"], state["order"]


# %% right: counts batches through all epochs, with torch's generator
class ResumableLoader:
    def __init__(self, count, batch_size, seed, fetch):
        self.count, self.batch_size, self.fetch = count, batch_size, fetch
        self.seed = seed
        self.total = 0

    def __iter__(self):
        per_epoch = -(-self.count // self.batch_size)
        epoch, done = divmod(self.total, per_epoch)
        mixed = np.random.SeedSequence([self.seed, epoch]).generate_state(1)
        generator = torch.Generator().manual_seed(int(mixed[0]))
        order = torch.randperm(self.count, generator=generator)
        for batch in self.fetch([part.tolist() for part in order.split(self.batch_size)][done:]):
            self.total += 1
            yield batch

    def state_dict(self):
        return {"total": self.total}

    def load_state_dict(self, state):
        self.total = state["total"]


# %% right: an iterator of its own, counts samples, and hands fetch a generator
class ResumableLoader:
    def __init__(self, count, batch_size, seed, fetch):
        self.count, self.batch_size, self.seed, self.fetch = count, batch_size, seed, fetch
        self.epoch, self.samples = 0, 0
        self.running = None

    def remaining(self):
        order = list(range(self.count))
        random.Random(f"{self.seed} {self.epoch}").shuffle(order)
        for start in range(self.samples, self.count, self.batch_size):
            yield order[start : start + self.batch_size]

    def __iter__(self):
        self.running = iter(self.fetch(self.remaining()))
        return self

    def __next__(self):
        try:
            batch = next(self.running)
        except StopIteration:
            self.epoch, self.samples = self.epoch + 1, 0
            raise
        self.samples += len(batch)
        return batch

    def state_dict(self):
        return {"epoch": self.epoch, "samples": self.samples}

    def load_state_dict(self, state):
        self.epoch, self.samples = state["epoch"], state["samples"]


# %% right: turns to the next epoch with the last batch
class ResumableLoader:
    def __init__(self, count, batch_size, seed, fetch):
        self.count, self.batch_size, self.seed, self.fetch = count, batch_size, seed, fetch
        self.state = {"epoch": 0, "done": 0}

    def __iter__(self):
        order = np.random.default_rng([self.seed, self.state["epoch"]]).permutation(self.count)
        starts = range(0, self.count, self.batch_size)
        batches = [order[start : start + self.batch_size].tolist() for start in starts]
        for batch in self.fetch(batches[self.state["done"] :]):
            self.state["done"] += 1
            if self.state["done"] == len(batches):
                self.state = {"epoch": self.state["epoch"] + 1, "done": 0}
            yield batch

    def state_dict(self):
        return dict(self.state)

    def load_state_dict(self, state):
        self.state = dict(state)


# %% wrong: forgets after a loop which epoch it was, and begins the first one again
class ResumableLoader:
    def __init__(self, count, batch_size, seed, fetch):
        self.count, self.batch_size, self.seed, self.fetch = count, batch_size, seed, fetch
        self.epoch, self.done, self.running = -1, 0, False

    def __iter__(self):
        if not self.running:
            self.epoch, self.done = self.epoch + 1, 0
        self.running = True
        order = np.random.default_rng([self.seed, self.epoch]).permutation(self.count).tolist()
        starts = range(0, self.count, self.batch_size)
        batches = [order[start : start + self.batch_size] for start in starts]
        for batch in self.fetch(batches[self.done :]):
            self.done += 1
            yield batch
        self.running = False

    def state_dict(self):
        if not self.running:
            return {"epoch": 0, "done": 0}
        return {"epoch": self.epoch, "done": self.done}

    def load_state_dict(self, state):
        self.epoch, self.done, self.running = state["epoch"], state["done"], True


# %% wrong: collects everything that fetch yields before the first batch is handed on
class ResumableLoader:
    def __init__(self, count, batch_size, seed, fetch):
        self.count, self.batch_size, self.seed, self.fetch = count, batch_size, seed, fetch
        self.epoch, self.done = 0, 0

    def __iter__(self):
        order = np.random.default_rng([self.seed, self.epoch]).permutation(self.count).tolist()
        starts = range(0, self.count, self.batch_size)
        batches = [order[start : start + self.batch_size] for start in starts]
        for batch in list(self.fetch(batches[self.done :])):
            self.done += 1
            yield batch
        self.epoch, self.done = self.epoch + 1, 0

    def state_dict(self):
        return {"epoch": self.epoch, "done": self.done}

    def load_state_dict(self, state):
        self.epoch, self.done = state["epoch"], state["done"]


# %% wrong: the last, smaller batch is dropped
class ResumableLoader:
    def __init__(self, count, batch_size, seed, fetch):
        self.count, self.batch_size, self.seed, self.fetch = count, batch_size, seed, fetch
        self.epoch, self.done = 0, 0

    def __iter__(self):
        order = np.random.default_rng([self.seed, self.epoch]).permutation(self.count).tolist()
        starts = range(0, self.count - self.batch_size + 1, self.batch_size)
        batches = [order[start : start + self.batch_size] for start in starts]
        for batch in self.fetch(batches[self.done :]):
            self.done += 1
            yield batch
        self.epoch, self.done = self.epoch + 1, 0

    def state_dict(self):
        return {"epoch": self.epoch, "done": self.done}

    def load_state_dict(self, state):
        self.epoch, self.done = state["epoch"], state["done"]


# %% wrong: turns to the next epoch however the loop ends, so a break loses the rest
class ResumableLoader:
    def __init__(self, count, batch_size, seed, fetch):
        self.count, self.batch_size, self.seed, self.fetch = count, batch_size, seed, fetch
        self.epoch, self.done = 0, 0

    def __iter__(self):
        order = np.random.default_rng([self.seed, self.epoch]).permutation(self.count).tolist()
        starts = range(0, self.count, self.batch_size)
        batches = [order[start : start + self.batch_size] for start in starts]
        try:
            for batch in self.fetch(batches[self.done :]):
                self.done += 1
                yield batch
        finally:
            self.epoch, self.done = self.epoch + 1, 0

    def state_dict(self):
        return {"epoch": self.epoch, "done": self.done}

    def load_state_dict(self, state):
        self.epoch, self.done = state["epoch"], state["done"]


# %% wrong: shuffles batches whose samples are always the same
class ResumableLoader:
    def __init__(self, count, batch_size, seed, fetch):
        self.count, self.batch_size, self.seed, self.fetch = count, batch_size, seed, fetch
        self.epoch, self.done = 0, 0

    def __iter__(self):
        starts = np.arange(0, self.count, self.batch_size)
        np.random.default_rng([self.seed, self.epoch]).shuffle(starts[:-1])
        batches = [
            list(range(start, min(start + self.batch_size, self.count)))
            for start in starts.tolist()
        ]
        for batch in self.fetch(batches[self.done :]):
            self.done += 1
            yield batch
        self.epoch, self.done = self.epoch + 1, 0

    def state_dict(self):
        return {"epoch": self.epoch, "done": self.done}

    def load_state_dict(self, state):
        self.epoch, self.done = state["epoch"], state["done"]


# %% wrong: a multiple of the seed plus the epoch, which the next seed has as well
class ResumableLoader:
    def __init__(self, count, batch_size, seed, fetch):
        self.count, self.batch_size, self.seed, self.fetch = count, batch_size, seed, fetch
        self.epoch, self.done = 0, 0

    def __iter__(self):
        chance = np.random.default_rng(self.seed * 1000 + self.epoch)
        order = chance.permutation(self.count).tolist()
        starts = range(0, self.count, self.batch_size)
        batches = [order[start : start + self.batch_size] for start in starts]
        for batch in self.fetch(batches[self.done :]):
            self.done += 1
            yield batch
        self.epoch, self.done = self.epoch + 1, 0

    def state_dict(self):
        return {"epoch": self.epoch, "done": self.done}

    def load_state_dict(self, state):
        self.epoch, self.done = state["epoch"], state["done"]
