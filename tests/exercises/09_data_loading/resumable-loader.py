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
        self.samples += self.batch_size
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


# %% wrong: seed and epoch in sorted order, so their roles are exchanged
class ResumableLoader:
    def __init__(self, count, batch_size, seed, fetch):
        self.count, self.batch_size, self.seed, self.fetch = count, batch_size, seed, fetch
        self.epoch = self.done = 0

    def batches(self):
        order = (
            np.random.default_rng(sorted([self.seed, self.epoch])).permutation(self.count).tolist()
        )
        return [order[i : i + self.batch_size] for i in range(0, self.count, self.batch_size)]

    def __iter__(self):
        for batch in self.fetch(self.batches()[self.done :]):
            self.done += 1
            yield batch
        self.epoch += 1
        self.done = 0

    def state_dict(self):
        return {"epoch": self.epoch, "done": self.done}

    def load_state_dict(self, state):
        self.epoch, self.done = state["epoch"], state["done"]


# %% wrong: the digits of seed and epoch joined, so (1, 11) is (11, 1)
class ResumableLoader:
    def __init__(self, count, batch_size, seed, fetch):
        self.count, self.batch_size, self.seed, self.fetch = count, batch_size, seed, fetch
        self.epoch = self.done = 0

    def batches(self):
        order = random.Random(f"{self.seed}{self.epoch}").sample(range(self.count), self.count)
        return [order[i : i + self.batch_size] for i in range(0, self.count, self.batch_size)]

    def __iter__(self):
        for batch in self.fetch(self.batches()[self.done :]):
            self.done += 1
            yield batch
        self.epoch += 1
        self.done = 0

    def state_dict(self):
        return {"epoch": self.epoch, "done": self.done}

    def load_state_dict(self, state):
        self.epoch, self.done = state["epoch"], state["done"]


# %% wrong: the product of seed and epoch, each counted from 1
class ResumableLoader:
    def __init__(self, count, batch_size, seed, fetch):
        self.count, self.batch_size, self.seed, self.fetch = count, batch_size, seed, fetch
        self.epoch = self.done = 0

    def batches(self):
        order = (
            np.random.default_rng((self.seed + 1) * (self.epoch + 1))
            .permutation(self.count)
            .tolist()
        )
        return [order[i : i + self.batch_size] for i in range(0, self.count, self.batch_size)]

    def __iter__(self):
        for batch in self.fetch(self.batches()[self.done :]):
            self.done += 1
            yield batch
        self.epoch += 1
        self.done = 0

    def state_dict(self):
        return {"epoch": self.epoch, "done": self.done}

    def load_state_dict(self, state):
        self.epoch, self.done = state["epoch"], state["done"]


# %% wrong: shuffles inside each batch only
class ResumableLoader:
    def __init__(self, count, batch_size, seed, fetch):
        self.count, self.batch_size, self.seed, self.fetch = count, batch_size, seed, fetch
        self.epoch = self.done = 0

    def batches(self):
        order = [
            i
            for b in range(0, self.count, self.batch_size)
            for i in random.Random(f"{self.seed}/{self.epoch}/{b}").sample(
                range(b, min(b + self.batch_size, self.count)), min(self.batch_size, self.count - b)
            )
        ]
        return [order[i : i + self.batch_size] for i in range(0, self.count, self.batch_size)]

    def __iter__(self):
        for batch in self.fetch(self.batches()[self.done :]):
            self.done += 1
            yield batch
        self.epoch += 1
        self.done = 0

    def state_dict(self):
        return {"epoch": self.epoch, "done": self.done}

    def load_state_dict(self, state):
        self.epoch, self.done = state["epoch"], state["done"]


# %% wrong: keeps the loaded dict and counts in it
class ResumableLoader:
    def __init__(self, count, batch_size, seed, fetch):
        self.count, self.batch_size, self.seed, self.fetch = count, batch_size, seed, fetch
        self.epoch = 0
        self.state = {"epoch": 0, "done": 0}

    def batches(self):
        order = (
            np.random.default_rng([self.seed, self.state["epoch"]]).permutation(self.count).tolist()
        )
        return [order[i : i + self.batch_size] for i in range(0, self.count, self.batch_size)]

    def __iter__(self):
        for batch in self.fetch(self.batches()[self.state["done"] :]):
            self.state["done"] += 1
            yield batch
        self.epoch += 1
        self.state["epoch"] += 1
        self.state["done"] = 0

    def state_dict(self):
        return dict(self.state)

    def load_state_dict(self, state):
        self.state = state


# %% wrong: a list as state, not a dict
class ResumableLoader:
    def __init__(self, count, batch_size, seed, fetch):
        self.count, self.batch_size, self.seed, self.fetch = count, batch_size, seed, fetch
        self.epoch = self.done = 0

    def batches(self):
        order = np.random.default_rng([self.seed, self.epoch]).permutation(self.count).tolist()
        return [order[i : i + self.batch_size] for i in range(0, self.count, self.batch_size)]

    def __iter__(self):
        for batch in self.fetch(self.batches()[self.done :]):
            self.done += 1
            yield batch
        self.epoch += 1
        self.done = 0

    def state_dict(self):
        return [self.epoch, self.done]

    def load_state_dict(self, state):
        self.epoch, self.done = state


# %% wrong: a text as state, not a dict
class ResumableLoader:
    def __init__(self, count, batch_size, seed, fetch):
        self.count, self.batch_size, self.seed, self.fetch = count, batch_size, seed, fetch
        self.epoch = self.done = 0

    def batches(self):
        order = np.random.default_rng([self.seed, self.epoch]).permutation(self.count).tolist()
        return [order[i : i + self.batch_size] for i in range(0, self.count, self.batch_size)]

    def __iter__(self):
        for batch in self.fetch(self.batches()[self.done :]):
            self.done += 1
            yield batch
        self.epoch += 1
        self.done = 0

    def state_dict(self):
        return json.dumps({"epoch": self.epoch, "done": self.done})

    def load_state_dict(self, state):
        state = json.loads(state)
        self.epoch, self.done = state["epoch"], state["done"]


# %% wrong: what was loaded counts from the next loop on only
class ResumableLoader:
    def __init__(self, count, batch_size, seed, fetch):
        self.count, self.batch_size, self.seed, self.fetch = count, batch_size, seed, fetch
        self.epoch = self.done = self.resume = 0

    def batches(self):
        order = np.random.default_rng([self.seed, self.epoch]).permutation(self.count).tolist()
        return [order[i : i + self.batch_size] for i in range(0, self.count, self.batch_size)]

    def __iter__(self):
        self.done, self.resume = self.resume, 0
        for batch in self.fetch(self.batches()[self.done :]):
            self.done += 1
            yield batch
        self.epoch += 1
        self.done = 0

    def state_dict(self):
        return {"epoch": self.epoch, "done": self.done}

    def load_state_dict(self, state):
        self.epoch, self.resume = state["epoch"], state["done"]


# %% wrong: takes what fetch returns for an iterator
class ResumableLoader:
    def __init__(self, count, batch_size, seed, fetch):
        self.count, self.batch_size, self.seed, self.fetch = count, batch_size, seed, fetch
        self.epoch = self.done = 0

    def batches(self):
        order = np.random.default_rng([self.seed, self.epoch]).permutation(self.count).tolist()
        return [order[i : i + self.batch_size] for i in range(0, self.count, self.batch_size)]

    def __iter__(self):
        fetched = self.fetch(self.batches()[self.done :])
        while True:
            try:
                batch = next(fetched)
            except StopIteration:
                break
            self.done += 1
            yield batch
        self.epoch += 1
        self.done = 0

    def state_dict(self):
        return {"epoch": self.epoch, "done": self.done}

    def load_state_dict(self, state):
        self.epoch, self.done = state["epoch"], state["done"]


# %% wrong: counts by the batch's length, which is the number of its parts
class ResumableLoader:
    def __init__(self, count, batch_size, seed, fetch):
        self.count, self.batch_size, self.seed, self.fetch = count, batch_size, seed, fetch
        self.epoch = self.done = 0

    def batches(self):
        order = np.random.default_rng([self.seed, self.epoch]).permutation(self.count).tolist()
        return [order[i : i + self.batch_size] for i in range(0, self.count, self.batch_size)]

    def __iter__(self):
        order = list(itertools.chain(*self.batches()))[self.done :]
        for batch in self.fetch(
            [order[i : i + self.batch_size] for i in range(0, len(order), self.batch_size)]
        ):
            self.done += len(batch)
            yield batch
        self.epoch += 1
        self.done = 0

    def state_dict(self):
        return {"epoch": self.epoch, "done": self.done}

    def load_state_dict(self, state):
        self.epoch, self.done = state["epoch"], state["done"]


# %% wrong: ends at a batch that counts as False
class ResumableLoader:
    def __init__(self, count, batch_size, seed, fetch):
        self.count, self.batch_size, self.seed, self.fetch = count, batch_size, seed, fetch
        self.epoch = self.done = 0

    def batches(self):
        order = np.random.default_rng([self.seed, self.epoch]).permutation(self.count).tolist()
        return [order[i : i + self.batch_size] for i in range(0, self.count, self.batch_size)]

    def __iter__(self):
        for batch in self.fetch(self.batches()[self.done :]):
            if not batch:
                break
            self.done += 1
            yield batch
        self.epoch += 1
        self.done = 0

    def state_dict(self):
        return {"epoch": self.epoch, "done": self.done}

    def load_state_dict(self, state):
        self.epoch, self.done = state["epoch"], state["done"]


# %% wrong: makes a list of each batch
class ResumableLoader:
    def __init__(self, count, batch_size, seed, fetch):
        self.count, self.batch_size, self.seed, self.fetch = count, batch_size, seed, fetch
        self.epoch = self.done = 0

    def batches(self):
        order = np.random.default_rng([self.seed, self.epoch]).permutation(self.count).tolist()
        return [order[i : i + self.batch_size] for i in range(0, self.count, self.batch_size)]

    def __iter__(self):
        for batch in self.fetch(self.batches()[self.done :]):
            self.done += 1
            yield list(batch)
        self.epoch += 1
        self.done = 0

    def state_dict(self):
        return {"epoch": self.epoch, "done": self.done}

    def load_state_dict(self, state):
        self.epoch, self.done = state["epoch"], state["done"]


# %% wrong: one batch late, to know whether it is the last
class ResumableLoader:
    def __init__(self, count, batch_size, seed, fetch):
        self.count, self.batch_size, self.seed, self.fetch = count, batch_size, seed, fetch
        self.epoch = self.done = 0

    def batches(self):
        order = np.random.default_rng([self.seed, self.epoch]).permutation(self.count).tolist()
        return [order[i : i + self.batch_size] for i in range(0, self.count, self.batch_size)]

    def __iter__(self):
        held = None
        for batch in self.fetch(self.batches()[self.done :]):
            if held is not None:
                self.done += 1
                yield held
            held = batch
        self.done += 1
        if held is not None:
            yield held
        self.epoch += 1
        self.done = 0

    def state_dict(self):
        return {"epoch": self.epoch, "done": self.done}

    def load_state_dict(self, state):
        self.epoch, self.done = state["epoch"], state["done"]


# %% right: turns to the next epoch at the next for
class ResumableLoader:
    def __init__(self, count, batch_size, seed, fetch):
        self.count, self.batch_size, self.seed, self.fetch = count, batch_size, seed, fetch
        self.epoch = self.done = 0

    def batches(self):
        order = np.random.default_rng([self.seed, self.epoch]).permutation(self.count).tolist()
        return [order[i : i + self.batch_size] for i in range(0, self.count, self.batch_size)]

    def __iter__(self):
        batches = self.batches()
        if self.done == len(batches):
            self.epoch, self.done = self.epoch + 1, 0
            batches = self.batches()
        fetched = self.fetch(batches[self.done :])
        for batch in fetched:
            self.done += 1
            yield batch

    def state_dict(self):
        return {"epoch": self.epoch, "done": self.done}

    def load_state_dict(self, state):
        self.epoch, self.done = state["epoch"], state["done"]


# %% right: an object with __next__, over an iterator made at once
class Running:
    def __init__(self, loader):
        self.loader = loader
        self.it = iter(loader.fetch(loader.batches()[loader.done :]))

    def __iter__(self):
        return self

    def __next__(self):
        try:
            batch = next(self.it)
        except StopIteration:
            self.loader.epoch += 1
            self.loader.done = 0
            raise
        self.loader.done += 1
        return batch


class ResumableLoader:
    def __init__(self, count, batch_size, seed, fetch):
        self.count, self.batch_size, self.seed, self.fetch = count, batch_size, seed, fetch
        self.epoch = self.done = 0

    def batches(self):
        order = np.random.default_rng([self.seed, self.epoch]).permutation(self.count).tolist()
        return [order[i : i + self.batch_size] for i in range(0, self.count, self.batch_size)]

    def __iter__(self):
        return Running(self)

    def state_dict(self):
        return {"epoch": self.epoch, "done": self.done}

    def load_state_dict(self, state):
        self.epoch, self.done = state["epoch"], state["done"]


# %% right: arrays of indices as batches
class ResumableLoader:
    def __init__(self, count, batch_size, seed, fetch):
        self.count, self.batch_size, self.seed, self.fetch = count, batch_size, seed, fetch
        self.epoch = self.done = 0

    def batches(self):
        order = np.random.default_rng([self.seed, self.epoch]).permutation(self.count)
        return [order[i : i + self.batch_size] for i in range(0, self.count, self.batch_size)]

    def __iter__(self):
        for batch in self.fetch(self.batches()[self.done :]):
            self.done += 1
            yield batch
        self.epoch += 1
        self.done = 0

    def state_dict(self):
        return {"epoch": self.epoch, "done": self.done}

    def load_state_dict(self, state):
        self.epoch, self.done = state["epoch"], state["done"]


# %% right: seeds the global generator and puts it back
class ResumableLoader:
    def __init__(self, count, batch_size, seed, fetch):
        self.count, self.batch_size, self.seed, self.fetch = count, batch_size, seed, fetch
        self.epoch = self.done = 0

    def batches(self):
        order = self.drawn()
        return [order[i : i + self.batch_size] for i in range(0, self.count, self.batch_size)]

    def __iter__(self):
        for batch in self.fetch(self.batches()[self.done :]):
            self.done += 1
            yield batch
        self.epoch += 1
        self.done = 0

    def state_dict(self):
        return dict(epoch=self.epoch, done=self.done)

    def drawn(self):
        state = random.getstate()
        random.seed(f"{self.seed}:{self.epoch}")
        order = list(range(self.count))
        random.shuffle(order)
        random.setstate(state)
        return order

    def load_state_dict(self, state):
        self.epoch, self.done = state["epoch"], state["done"]


# %% wrong: the seed plus 1000 times the epoch, which another seed has as well
class ResumableLoader:
    def __init__(self, count, batch_size, seed, fetch):
        self.count, self.batch_size, self.seed, self.fetch = count, batch_size, seed, fetch
        self.epoch = self.done = 0

    def __iter__(self):
        generator = np.random.default_rng(self.seed + 1000 * self.epoch)
        order = generator.permutation(self.count).tolist()
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


# %% wrong: the exclusive or of the seed and the shifted epoch
class ResumableLoader:
    def __init__(self, count, batch_size, seed, fetch):
        self.count, self.batch_size, self.seed, self.fetch = count, batch_size, seed, fetch
        self.epoch = self.done = 0

    def __iter__(self):
        generator = np.random.default_rng(self.seed ^ (self.epoch << 8))
        order = generator.permutation(self.count).tolist()
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


# %% wrong: a state with NumPy's numbers, which JSON does not know
class ResumableLoader:
    def __init__(self, count, batch_size, seed, fetch):
        self.count, self.batch_size, self.seed, self.fetch = count, batch_size, seed, fetch
        self.epoch = self.done = 0

    def __iter__(self):
        generator = np.random.default_rng([self.seed, self.epoch])
        order = generator.permutation(self.count).tolist()
        starts = range(0, self.count, self.batch_size)
        batches = [order[start : start + self.batch_size] for start in starts]
        for batch in self.fetch(batches[self.done :]):
            self.done += 1
            yield batch
        self.epoch, self.done = self.epoch + 1, 0

    def state_dict(self):
        return {"epoch": self.epoch, "done": np.int64(self.done)}

    def load_state_dict(self, state):
        self.epoch, self.done = state["epoch"], state["done"]
