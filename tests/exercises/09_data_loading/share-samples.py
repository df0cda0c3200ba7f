# %% wrong: every worker reads everything
def share_samples(sizes, worker, workers):
    return [(shard, 0, size) for shard, size in enumerate(sizes) if size]


# %% wrong: whole shards in turn, so the shares are as unequal as the shards
def share_samples(sizes, worker, workers):
    return [(i, 0, size) for i, size in enumerate(sizes) if i % workers == worker and size]


# %% wrong: the remainder of the division is lost
def share_samples(sizes, worker, workers):
    each = sum(sizes) // workers
    first, last = worker * each, (worker + 1) * each
    parts, offset = [], 0
    for shard, size in enumerate(sizes):
        start, stop = max(first - offset, 0), min(last - offset, size)
        if start < stop:
            parts.append((shard, start, stop))
        offset += size
    return parts


# %% wrong: the last worker gets the whole remainder
def share_samples(sizes, worker, workers):
    each = sum(sizes) // workers
    first, last = worker * each, (worker + 1) * each
    if worker == workers - 1:
        last = sum(sizes)
    parts, offset = [], 0
    for shard, size in enumerate(sizes):
        start, stop = max(first - offset, 0), min(last - offset, size)
        if start < stop:
            parts.append((shard, start, stop))
        offset += size
    return parts


# %% wrong: rounds up, so the last workers starve
def share_samples(sizes, worker, workers):
    each = -(-sum(sizes) // workers)
    first, last = worker * each, (worker + 1) * each
    parts, offset = [], 0
    for shard, size in enumerate(sizes):
        start, stop = max(first - offset, 0), min(last - offset, size)
        if start < stop:
            parts.append((shard, start, stop))
        offset += size
    return parts


# %% wrong: an equal piece of each shard, so the remainders add up
def share_samples(sizes, worker, workers):
    parts = []
    for shard, size in enumerate(sizes):
        start, stop = worker * size // workers, (worker + 1) * size // workers
        if start < stop:
            parts.append((shard, start, stop))
    return parts


# %% wrong: places in the row of all samples, not in the shard
def share_samples(sizes, worker, workers):
    each, rest = divmod(sum(sizes), workers)
    first = worker * each + min(worker, rest)
    last = first + each + (worker < rest)
    parts, offset = [], 0
    for shard, size in enumerate(sizes):
        start, stop = max(first, offset), min(last, offset + size)
        if start < stop:
            parts.append((shard, start, stop))
        offset += size
    return parts


# %% wrong: empty parts are in the list
def share_samples(sizes, worker, workers):
    each, rest = divmod(sum(sizes), workers)
    first = worker * each + min(worker, rest)
    last = first + each + (worker < rest)
    parts, offset = [], 0
    for shard, size in enumerate(sizes):
        start = min(max(first - offset, 0), size)
        stop = max(min(last - offset, size), start)
        parts.append((shard, start, stop))
        offset += size
    return parts


# %% right: sample by sample, then put together
def share_samples(sizes, worker, workers):
    row = [(shard, number) for shard, size in enumerate(sizes) for number in range(size)]
    counts = [len(range(w, len(row), workers)) for w in range(workers)]
    begin = sum(counts[:worker])
    parts = []
    for shard, group in itertools.groupby(row[begin : begin + counts[worker]], lambda p: p[0]):
        numbers = [number for _, number in group]
        parts.append((shard, numbers[0], numbers[-1] + 1))
    return parts


# %% right: by the ends of the shards in the row, with tensors
def share_samples(sizes, worker, workers):
    ends = torch.tensor([0, *sizes]).cumsum(0).tolist()
    total = ends[-1]
    bounds = [w * (total // workers) + min(w, total % workers) for w in range(workers + 1)]
    first, last = bounds[worker], bounds[worker + 1]
    return [
        (shard, max(first, begin) - begin, min(last, end) - begin)
        for shard, (begin, end) in enumerate(itertools.pairwise(ends))
        if max(first, begin) < min(last, end)
    ]


# %% wrong: no shard at all is an error
def share_samples(sizes, worker, workers):
    each, rest = divmod(sum(sizes), workers)
    first = worker * each + min(worker, rest)
    last = first + each + (worker < rest)
    ends = list(itertools.accumulate(sizes))
    begins = [end - size for end, size in zip(ends, sizes, strict=True)]
    assert last <= ends[-1]
    return [
        (shard, max(first - begin, 0), min(last, end) - begin)
        for shard, (begin, end) in enumerate(zip(begins, ends, strict=True))
        if max(first, begin) < min(last, end)
    ]


# %% right: NumPy's array_split, then runs
def share_samples(sizes, worker, workers):
    row = [(shard, number) for shard, size in enumerate(sizes) for number in range(size)]
    mine = np.array_split(np.arange(len(row)), workers)[worker].tolist()
    parts = {}
    for place in mine:
        shard, number = row[place]
        start, _ = parts.get(shard, (number, None))
        parts[shard] = start, number + 1
    return [(shard, *part) for shard, part in parts.items()]


# %% wrong: every n-th sample, so each worker goes through every shard
def share_samples(sizes, worker, workers):
    row = [(shard, n, n + 1) for shard, size in enumerate(sizes) for n in range(size)]
    return row[worker::workers]


# %% wrong: the last workers read one more
def share_samples(sizes, worker, workers):
    total = sum(sizes)
    first, last = worker * total // workers, (worker + 1) * total // workers
    parts, offset = [], 0
    for shard, size in enumerate(sizes):
        start, stop = max(first - offset, 0), min(last - offset, size)
        if start < stop:
            parts.append((shard, start, stop))
        offset += size
    return parts


# %% wrong: the stop is the last sample, not the one behind it
def share_samples(sizes, worker, workers):
    each, rest = divmod(sum(sizes), workers)
    first = worker * each + min(worker, rest)
    last = first + each + (worker < rest)
    parts, offset = [], 0
    for shard, size in enumerate(sizes):
        start, stop = max(first - offset, 0), min(last - offset, size)
        if start < stop:
            parts.append((shard, start, stop - 1))
        offset += size
    return parts


# %% wrong: takes the sizes out of the list that it was given
def share_samples(sizes, worker, workers):
    each, rest = divmod(sum(sizes), workers)
    first = worker * each + min(worker, rest)
    last = first + each + (worker < rest)
    parts, offset, shard = [], 0, 0
    while sizes:
        size = sizes.pop(0)
        start, stop = max(first - offset, 0), min(last - offset, size)
        if start < stop:
            parts.append((shard, start, stop))
        offset, shard = offset + size, shard + 1
    return parts


# %% wrong: lists in place of tuples
def share_samples(sizes, worker, workers):
    total = sum(sizes)
    q, r = divmod(total, workers)
    lo = worker * q + min(worker, r)
    hi = lo + q + (worker < r)
    out, seen = [], 0
    for s, k in enumerate(sizes):
        a, b = max(lo - seen, 0), min(hi - seen, k)
        if a < b:
            out.append([s, a, b])
        seen += k
    return out


# %% wrong: an empty shard is appended to the list that it was given
def share_samples(sizes, worker, workers):
    sizes.append(0)
    total = sum(sizes)
    q, r = divmod(total, workers)
    lo = worker * q + min(worker, r)
    hi = lo + q + (worker < r)
    out, seen = [], 0
    for s, k in enumerate(sizes):
        a, b = max(lo - seen, 0), min(hi - seen, k)
        if a < b:
            out.append((s, a, b))
        seen += k
    return out


# %% wrong: cuts at multiples of the mean, so others than the first workers read one more
def share_samples(sizes, worker, workers):
    total = sum(sizes)
    lo, hi = worker * total // workers, (worker + 1) * total // workers
    out, seen = [], 0
    for s, n in enumerate(sizes):
        a, b = max(lo - seen, 0), min(hi - seen, n)
        if a < b:
            out.append((s, a, b))
        seen += n
    return out


# %% wrong: a beginning and an end, and no shard between
def share_samples(sizes, worker, workers):
    total = sum(sizes)
    q, r = divmod(total, workers)
    lo = worker * q + min(worker, r)
    hi = lo + q + (worker < r)
    starts = [0, *itertools.accumulate(sizes)]
    if lo == hi:
        return []
    import bisect

    a = bisect.bisect_right(starts, lo) - 1
    b = bisect.bisect_right(starts, hi - 1) - 1
    if a == b:
        return [(a, lo - starts[a], hi - starts[a])]
    return [(a, lo - starts[a], sizes[a]), (b, 0, hi - starts[b])]


# %% right: the first worker's share, then the rest by recursion
def share_samples(sizes, worker, workers):
    def go(parts, workers_left, w):
        total = sum(b - a for _, a, b in parts)
        n = -(-total // workers_left)
        mine, rest = [], []
        for s, a, b in parts:
            t = min(n, b - a)
            n -= t
            if t:
                mine.append((s, a, a + t))
            if a + t < b:
                rest.append((s, a + t, b))
        return mine if w == 0 else go(rest, workers_left - 1, w - 1)

    return go([(s, 0, n) for s, n in enumerate(sizes)], workers, worker)


# %% right: NumPy's integers come back
def share_samples(sizes, worker, workers):
    sizes = np.array(sizes, dtype=np.int64)
    ends = np.cumsum(sizes)
    begins = ends - sizes
    total = sizes.sum()
    q, r = total // workers, total % workers
    lo = worker * q + np.minimum(worker, r)
    hi = lo + q + (worker < r)
    start = np.clip(lo - begins, 0, sizes)
    stop = np.clip(hi - begins, 0, sizes)
    return [(i, start[i], stop[i]) for i in range(len(sizes)) if start[i] < stop[i]]


# %% right: takes parts from a queue, worker after worker
def share_samples(sizes, worker, workers):
    total = sum(sizes)
    left = collections.deque((s, 0, n) for s, n in enumerate(sizes) if n)
    for w in range(worker + 1):
        want = -(-(total - 0) // workers) if w < total % workers else total // workers
        mine = []
        while want:
            s, a, b = left.popleft()
            take = min(want, b - a)
            mine.append((s, a, a + take))
            want -= take
            if a + take < b:
                left.appendleft((s, a + take, b))
    return mine


# %% right: NumPy's integers in the tuples
def share_samples(sizes, worker, workers):
    edges = np.concatenate([[0], np.cumsum(np.array(sizes, dtype=int))])
    each, rest = divmod(sum(sizes), workers)
    first = worker * each + min(worker, rest)
    last = first + each + (worker < rest)
    start = np.clip(first, edges[:-1], edges[1:]) - edges[:-1]
    stop = np.clip(last, edges[:-1], edges[1:]) - edges[:-1]
    return [(s, start[s], stop[s]) for s in range(len(sizes)) if start[s] < stop[s]]
