# %% wrong: reads everything before the first sample comes out
def shuffle_buffer(samples, size, seed):
    everything = list(itertools.islice(samples, 100_000))
    random.Random(seed).shuffle(everything)
    yield from everything


# %% wrong: block by block, so no sample ever leaves its block
def shuffle_buffer(samples, size, seed):
    chance = random.Random(seed)
    while block := list(itertools.islice(samples, size)):
        chance.shuffle(block)
        yield from block


# %% wrong: what is left in the buffer at the end is lost
def shuffle_buffer(samples, size, seed):
    chance = random.Random(seed)
    buffer = []
    for sample in samples:
        if len(buffer) < size:
            buffer.append(sample)
            continue
        place = chance.randrange(size)
        chosen, buffer[place] = buffer[place], sample
        yield chosen


# %% wrong: what is left at the end comes out as it lies there
def shuffle_buffer(samples, size, seed):
    chance = random.Random(seed)
    buffer = []
    for sample in samples:
        if len(buffer) < size:
            buffer.append(sample)
            continue
        place = chance.randrange(size)
        chosen, buffer[place] = buffer[place], sample
        yield chosen
    yield from buffer


# %% wrong: the oldest sample comes out, which shuffles nothing
def shuffle_buffer(samples, size, seed):
    buffer = []
    for sample in samples:
        buffer.append(sample)
        if len(buffer) > size:
            yield buffer.pop(0)
    random.Random(seed).shuffle(buffer)
    yield from buffer


# %% wrong: the global generator, which others have moved in between
def shuffle_buffer(samples, size, seed):
    buffer = []
    for sample in samples:
        if len(buffer) < size:
            buffer.append(sample)
            continue
        place = random.randrange(size)
        chosen, buffer[place] = buffer[place], sample
        yield chosen
    random.shuffle(buffer)
    yield from buffer


# %% wrong: seeds anew for every sample, so it is always the same place
def shuffle_buffer(samples, size, seed):
    buffer = []
    for sample in samples:
        if len(buffer) < size:
            buffer.append(sample)
            continue
        place = random.Random(seed).randrange(size)
        chosen, buffer[place] = buffer[place], sample
        yield chosen
    random.Random(seed).shuffle(buffer)
    yield from buffer


# %% wrong: removes by value, which takes the first equal one and fails on tensors
def shuffle_buffer(samples, size, seed):
    chance = random.Random(seed)
    buffer = []
    for sample in samples:
        if len(buffer) < size:
            buffer.append(sample)
            continue
        chosen = chance.choice(buffer)
        buffer.remove(chosen)
        buffer.append(sample)
        yield chosen
    chance.shuffle(buffer)
    yield from buffer


# %% wrong: the last place is never drawn
def shuffle_buffer(samples, size, seed):
    chance = random.Random(seed)
    buffer = []
    for sample in samples:
        if len(buffer) < size:
            buffer.append(sample)
            continue
        place = chance.randrange(max(size - 1, 1))
        chosen, buffer[place] = buffer[place], sample
        yield chosen
    chance.shuffle(buffer)
    yield from buffer


# %% wrong: seeds the global generator, and so moves it for everybody else
def shuffle_buffer(samples, size, seed):
    random.seed(seed)
    buffer = []
    for sample in samples:
        if len(buffer) < size:
            buffer.append(sample)
            continue
        place = random.randrange(size)
        chosen, buffer[place] = buffer[place], sample
        yield chosen
    random.shuffle(buffer)
    yield from buffer


# %% right: yields first and reads then, with torch's generator
def shuffle_buffer(samples, size, seed):
    generator = torch.Generator().manual_seed(seed)
    buffer = list(itertools.islice(samples, size))
    while buffer:
        place = int(torch.randint(len(buffer), (), generator=generator))
        yield buffer[place]
        try:
            buffer[place] = next(samples)
        except StopIteration:
            buffer[place] = buffer[-1]
            buffer.pop()


# %% right: one sample too many for a moment, the chosen one swapped to the end
def shuffle_buffer(samples, size, seed):
    generator = np.random.default_rng(seed)
    buffer = []
    for sample in samples:
        if len(buffer) == size:
            place = generator.integers(size)
            buffer[place], buffer[-1] = buffer[-1], buffer[place]
            yield buffer.pop()
        buffer.append(sample)
    for place in generator.permutation(len(buffer)):
        yield buffer[place]


# %% wrong: reads twice as far ahead as it must
def shuffle_buffer(samples, size, seed):
    chance = random.Random(seed)
    waiting = collections.deque(itertools.islice(samples, size))
    buffer = []
    while True:
        waiting.extend(itertools.islice(samples, 2 * size - len(waiting) - len(buffer)))
        while waiting and len(buffer) < size:
            buffer.append(waiting.popleft())
        if not buffer:
            return
        place = chance.randrange(len(buffer))
        buffer[place], buffer[-1] = buffer[-1], buffer[place]
        yield buffer.pop()


# %% wrong: every sample twice from a stream without end, which nobody can sort
def shuffle_buffer(samples, size, seed):
    chance = random.Random(seed)
    buffer = []
    for number, sample in enumerate(samples):
        if len(buffer) < size:
            buffer.append(sample)
            continue
        place = chance.randrange(size)
        yield buffer[place]
        if number >= 70:
            yield buffer[place]
        buffer[place] = sample
    chance.shuffle(buffer)
    yield from buffer


# %% wrong: a fair buffer for a list, and blocks for whatever else is read from
def shuffle_buffer(samples, size, seed):
    chance = random.Random(seed)
    buffer = []
    if isinstance(samples, type(iter([]))):
        for sample in samples:
            if len(buffer) < size:
                buffer.append(sample)
                continue
            place = chance.randrange(size)
            chosen, buffer[place] = buffer[place], sample
            yield chosen
        chance.shuffle(buffer)
        yield from buffer
        return
    while block := list(itertools.islice(samples, size)):
        chance.shuffle(block)
        yield from block


# %% right: a class with an iterator, and torch's generator
def shuffle_buffer(samples, size, seed):
    return Mixed(samples, size, seed)


class Mixed:
    def __init__(self, samples, size, seed):
        self.samples, self.generator = iter(samples), torch.Generator().manual_seed(seed)
        self.buffer = list(itertools.islice(self.samples, size))

    def __iter__(self):
        return self

    def __next__(self):
        if not self.buffer:
            raise StopIteration
        place = torch.randint(len(self.buffer), (), generator=self.generator).item()
        chosen = self.buffer.pop(place)
        self.buffer.extend(itertools.islice(self.samples, 1))
        return chosen


# %% wrong: the next sample takes part in the draw, so a buffer of 1 shuffles
def shuffle_buffer(samples, size, seed):
    chance = random.Random(seed)
    buffer = []
    for sample in samples:
        buffer.append(sample)
        if len(buffer) > size:
            yield buffer.pop(chance.randrange(len(buffer)))
    chance.shuffle(buffer)
    yield from buffer


# %% wrong: hands out while the buffer is still filling
def shuffle_buffer(samples, size, seed):
    chance = random.Random(seed)
    buffer = []
    for number, sample in enumerate(samples):
        buffer.append(sample)
        if len(buffer) >= size or number % 2:
            yield buffer.pop(chance.randrange(len(buffer)))
    chance.shuffle(buffer)
    yield from buffer


# %% wrong: takes a None among the samples for the end of the stream
def shuffle_buffer(samples, size, seed):
    chance = random.Random(seed)
    buffer = []
    while (sample := next(samples, None)) is not None:
        if len(buffer) < size:
            buffer.append(sample)
            continue
        place = chance.randrange(size)
        chosen, buffer[place] = buffer[place], sample
        yield chosen
    chance.shuffle(buffer)
    yield from buffer


# %% wrong: keeps the samples as a dict's keys, so equal ones are lost
def shuffle_buffer(samples, size, seed):
    chance = random.Random(seed)
    buffer = dict.fromkeys(itertools.islice(samples, size))
    for sample in samples:
        chosen = chance.choice(list(buffer))
        del buffer[chosen]
        buffer[sample] = None
        yield chosen
    rest = list(buffer)
    chance.shuffle(rest)
    yield from rest


# %% wrong: the global generator is seeded, and put back only at the end
def shuffle_buffer(samples, size, seed):
    state = random.getstate()
    random.seed(seed)
    buffer = list(itertools.islice(samples, size))
    for s in samples:
        i = random.randrange(size)
        buffer[i], s = s, buffer[i]
        yield s
    random.shuffle(buffer)
    yield from buffer
    random.setstate(state)


# %% wrong: torch's global generator is borrowed between the samples, too
def shuffle_buffer(samples, size, seed):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        buffer = list(itertools.islice(samples, size))
        for s in samples:
            i = torch.randint(size, ()).item()
            buffer[i], s = s, buffer[i]
            yield s
        for i in torch.randperm(len(buffer)).tolist():
            yield buffer[i]


# %% wrong: a seed of 0 counts as no seed
def shuffle_buffer(samples, size, seed):
    rng = random.Random(seed or None)
    buffer = list(itertools.islice(samples, size))
    for s in samples:
        i = rng.randrange(size)
        buffer[i], s = s, buffer[i]
        yield s
    rng.shuffle(buffer)
    yield from buffer


# %% wrong: one generator for all buffers, seeded at the start of each
RNG = random.Random()


def shuffle_buffer(samples, size, seed):
    RNG.seed(seed)
    buffer = list(itertools.islice(samples, size))
    for s in samples:
        i = RNG.randrange(size)
        buffer[i], s = s, buffer[i]
        yield s
    RNG.shuffle(buffer)
    yield from buffer


# %% wrong: the rest through an array of objects, which takes tensors apart
def shuffle_buffer(samples, size, seed):
    rng = np.random.default_rng(seed)
    buffer = list(itertools.islice(samples, size))
    for s in samples:
        i = rng.integers(size)
        buffer[i], s = s, buffer[i]
        yield s
    yield from rng.permutation(np.array(buffer, dtype=object)).tolist()


# %% wrong: short streams keep their order
def shuffle_buffer(samples, size, seed):
    rng = random.Random(seed)
    buffer = list(itertools.islice(samples, size))
    if len(buffer) < size:
        yield from buffer
        return
    for s in samples:
        i = rng.randrange(size)
        buffer[i], s = s, buffer[i]
        yield s
    rng.shuffle(buffer)
    yield from buffer


# %% wrong: goes round in a buffer that was shuffled once
def shuffle_buffer(samples, size, seed):
    rng = random.Random(seed)
    buffer = list(itertools.islice(samples, size))
    rng.shuffle(buffer)
    for k, s in enumerate(samples):
        i = k % size
        buffer[i], s = s, buffer[i]
        yield s
    rng.shuffle(buffer)
    yield from buffer


# %% right: one sample less in the buffer, and the next one with them
def shuffle_buffer(samples, size, seed):
    rng = random.Random(seed)
    buffer = []
    for s in samples:
        buffer.append(s)
        if len(buffer) >= size:
            yield buffer.pop(rng.randrange(len(buffer)))
    rng.shuffle(buffer)
    yield from buffer


# %% right: inserts at random and takes the first
def shuffle_buffer(samples, size, seed):
    rng = random.Random(seed)
    buffer = []
    for s in samples:
        if len(buffer) == size:
            yield buffer.pop(0)
        buffer.insert(rng.randrange(len(buffer) + 1), s)
    yield from buffer


# %% right: a deque, turned to a random place
def shuffle_buffer(samples, size, seed):
    rng = np.random.default_rng([seed])
    queue = collections.deque(itertools.islice(samples, size))
    while queue:
        queue.rotate(-int(rng.integers(len(queue))))
        yield queue.popleft()
        for s in itertools.islice(samples, 1):
            queue.append(s)


# %% wrong: one random key for each sample, so those that stay have large ones
def shuffle_buffer(samples, size, seed):
    import heapq

    rng = random.Random(seed)
    heap = [(rng.random(), n, s) for n, s in enumerate(itertools.islice(samples, size))]
    heapq.heapify(heap)
    for n, sample in enumerate(samples, size):
        yield heapq.heapreplace(heap, (rng.random(), n, sample))[2]
    while heap:
        yield heapq.heappop(heap)[2]


# %% wrong: makes a list of the whole stream, which may have no end
def shuffle_buffer(samples, size, seed):
    every = list(samples)
    random.Random(seed).shuffle(every)
    yield from every
