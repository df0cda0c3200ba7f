# %% wrong: the smallest peak, whatever it makes run twice
def choose_segments(inputs, inside, budget):
    def within(limit):
        ways = {0: (inputs[0], [0])}
        for end in range(1, len(inputs)):
            found = [
                (kept + inputs[end], [*starts, end])
                for start, (kept, starts) in ways.items()
                if kept + sum(inside[start:end]) <= limit
            ]
            if found:
                ways[end] = min(found)
        for start, (kept, starts) in ways.items():
            if kept + sum(inside[start:]) <= limit:
                return starts
        return None

    least = next(k for k in range(1, 10**7, 50) if within(k) is not None)
    return within(least) if least <= budget else None


# %% wrong: equal segments only
def choose_segments(inputs, inside, budget):
    for count in range(1, len(inputs) + 1):
        starts = [k * len(inputs) // count for k in range(count)]
        if peak_bytes(starts, inputs, inside) <= budget:
            return starts
    return None


# %% wrong: as few segments as possible, which is not as few blocks
def choose_segments(inputs, inside, budget):
    ways = {0: (1, inputs[0], [0])}
    for end in range(1, len(inputs)):
        found = [
            (count + 1, kept + inputs[end], [*starts, end])
            for start, (count, kept, starts) in ways.items()
            if kept + sum(inside[start:end]) <= budget
        ]
        if found:
            ways[end] = min(found)
    fitting = [
        (count, start, starts)
        for start, (count, kept, starts) in ways.items()
        if kept + sum(inside[start:]) <= budget
    ]
    return min(fitting)[2] if fitting else None


# %% wrong: makes each segment as long as it fits, and goes on from there
def choose_segments(inputs, inside, budget):
    ways = {0: (inputs[0], [0])}
    for end in range(1, len(inputs)):
        for kept, starts in ways.values():
            if kept + sum(inside[starts[-1] : end]) <= budget:
                ways[end] = kept + inputs[end], [*starts, end]
                break
    for start, (kept, starts) in ways.items():
        if kept + sum(inside[start:]) <= budget:
            return starts
    return None


# %% wrong: as many segments as the square root of the blocks
def choose_segments(inputs, inside, budget):
    count = max(1, round(math.sqrt(len(inputs))))
    starts = [k * len(inputs) // count for k in range(count)]
    return starts if peak_bytes(starts, inputs, inside) <= budget else None


# %% wrong: the peak has to be below the budget
def choose_segments(inputs, inside, budget):
    ways = {0: (inputs[0], [0])}
    for end in range(1, len(inputs)):
        found = [
            (kept + inputs[end], [*starts, end])
            for start, (kept, starts) in ways.items()
            if kept + sum(inside[start:end]) < budget
        ]
        if found:
            ways[end] = min(found)
    for start, (kept, starts) in ways.items():
        if kept + sum(inside[start:]) < budget:
            return starts
    return None


# %% wrong: forgets the choice of wrapping nothing
def choose_segments(inputs, inside, budget):
    ways = {0: (inputs[0], [0])}
    for end in range(1, len(inputs)):
        found = [
            (kept + inputs[end], [*starts, end])
            for start, (kept, starts) in ways.items()
            if kept + sum(inside[start:end]) <= budget
        ]
        if found:
            ways[end] = min(found)
    for start, (kept, starts) in ways.items():
        if start > 0 and kept + sum(inside[start:]) <= budget:
            return starts
    return None


# %% wrong: fills each segment while its inside fits beside what is kept, from the front
def choose_segments(inputs, inside, budget):
    starts, kept, here = [0], inputs[0], 0
    for place in range(len(inputs)):
        if place and kept + here + inside[place] > budget:
            starts.append(place)
            kept, here = kept + inputs[place], 0
        here += inside[place]
    return starts if peak_bytes(starts, inputs, inside) <= budget else None


# %% wrong: an empty list where nothing fits
def choose_segments(inputs, inside, budget):
    ways = {0: (inputs[0], [0])}
    for end in range(1, len(inputs)):
        found = [
            (kept + inputs[end], [*starts, end])
            for start, (kept, starts) in ways.items()
            if kept + sum(inside[start:end]) <= budget
        ]
        if found:
            ways[end] = min(found)
    for start, (kept, starts) in ways.items():
        if kept + sum(inside[start:]) <= budget:
            return starts
    return []


# %% wrong: forgets that each segment keeps its input
def choose_segments(inputs, inside, budget):
    ways = {0: (0, [0])}
    for end in range(1, len(inputs)):
        found = [
            (kept, [*starts, end])
            for start, (kept, starts) in ways.items()
            if kept + sum(inside[start:end]) <= budget
        ]
        if found:
            ways[end] = min(found)
    for start, (kept, starts) in ways.items():
        if kept + sum(inside[start:]) <= budget:
            return starts
    return None


# %% wrong: counts the input of a segment only while the segment runs
def choose_segments(inputs, inside, budget):
    ways = {0: [0]}
    for end in range(1, len(inputs)):
        for start, starts in ways.items():
            if inputs[start] + sum(inside[start:end]) <= budget:
                ways[end] = [*starts, end]
                break
    for start, starts in ways.items():
        if inputs[start] + sum(inside[start:]) <= budget:
            return starts
    return None


# %% right: a tuple comes back, which is a list of places as well
def choose_segments(inputs, inside, budget):
    ways = {0: (inputs[0], [0])}
    for end in range(1, len(inputs)):
        found = [
            (kept + inputs[end], [*starts, end])
            for start, (kept, starts) in ways.items()
            if kept + sum(inside[start:end]) <= budget
        ]
        if found:
            ways[end] = min(found)
    for start, (kept, starts) in ways.items():
        if kept + sum(inside[start:]) <= budget:
            return tuple(starts)
    return None


# %% right: a table of the least kept bytes, walked from its end
def choose_segments(inputs, inside, budget):
    count = len(inputs)
    total = [0]
    for size in inside:
        total.append(total[-1] + size)
    least, before = [inputs[0]] + [math.inf] * (count - 1), [None] * count
    for end in range(1, count):
        for start in range(end):
            kept = least[start]
            if kept + total[end] - total[start] <= budget and kept + inputs[end] < least[end]:
                least[end], before[end] = kept + inputs[end], start
    for last in range(count):
        if least[last] + total[count] - total[last] <= budget:
            starts = [last]
            while starts[0]:
                starts.insert(0, before[starts[0]])
            return starts
    return None


# %% right: recursion from the last segment, with the results remembered
def choose_segments(inputs, inside, budget):
    known = {0: (inputs[0], (0,))}

    def reach(start):
        if start not in known:
            ways = ((*reach(earlier), earlier) for earlier in range(start))
            found = [
                (kept + inputs[start], (*starts, start))
                for kept, starts, earlier in ways
                if kept + sum(inside[earlier:start]) <= budget
            ]
            known[start] = min(found, default=(math.inf, ()))
        return known[start]

    for last in range(len(inputs)):
        kept, starts = reach(last)
        if kept + sum(inside[last:]) <= budget:
            return list(starts)
    return None


# %% wrong: at most as many segments as the square root of 60 blocks
def choose_segments(inputs, inside, budget):
    ways = {0: (inputs[0], [0])}
    for end in range(1, len(inputs)):
        found = [
            (kept + inputs[end], [*starts, end])
            for start, (kept, starts) in ways.items()
            if kept + sum(inside[start:end]) <= budget and len(starts) < math.ceil(math.sqrt(60))
        ]
        if found:
            ways[end] = min(found)
    for start, (kept, starts) in ways.items():
        if kept + sum(inside[start:]) <= budget:
            return starts
    return None


# %% wrong: takes the inputs of all blocks for as large as the first
def choose_segments(inputs, inside, budget):
    ways = {0: (inputs[0], [0])}
    for end in range(1, len(inputs)):
        found = [
            (kept + inputs[0], [*starts, end])
            for start, (kept, starts) in ways.items()
            if kept + sum(inside[start:end]) <= budget
        ]
        if found:
            ways[end] = min(found)
    for start, (kept, starts) in ways.items():
        if kept + sum(inside[start:]) <= budget:
            return starts
    return None


# %% wrong: for each start the smallest peak so far, which is not the least that is kept
def choose_segments(inputs, inside, budget):
    ways = {0: (0, inputs[0], [0])}
    for end in range(1, len(inputs)):
        found = [
            (max(peak, kept + sum(inside[start:end])), kept + inputs[end], [*starts, end])
            for start, (peak, kept, starts) in ways.items()
            if kept + sum(inside[start:end]) <= budget
        ]
        if found:
            ways[end] = min(found)
    for start, (_, kept, starts) in ways.items():
        if kept + sum(inside[start:]) <= budget:
            return starts
    return None


# %% wrong: equal segments before the last one
def choose_segments(inputs, inside, budget):
    for last in range(len(inputs)):
        for count in range(1, last + 1):
            starts = [*sorted({k * last // count for k in range(count)}), last]
            if peak_bytes(starts, inputs, inside) <= budget:
                return starts
        if last == 0 and peak_bytes([0], inputs, inside) <= budget:
            return [0]
    return None


# %% right: goes forward from each start as far as there is room, and follows the way back
def choose_segments(inputs, inside, budget):
    count = len(inputs)
    kept, before = {0: inputs[0]}, {0: None}
    for start in range(count):
        if start not in kept:
            return None
        room = budget - kept[start]
        if sum(inside[start:]) <= room:
            way = []
            while start is not None:
                way.append(start)
                start = before[start]
            return way[::-1]
        for end in range(start + 1, count):
            room -= inside[end - 1]
            if room >= 0 and kept[start] + inputs[end] < kept.get(end, math.inf):
                kept[end], before[end] = kept[start] + inputs[end], start
    return None


# %% right: the way with the least bytes comes out of a heap first
import heapq


def choose_segments(inputs, inside, budget):
    queue, best = [(inputs[0], (0,))], {}
    while queue:
        kept, starts = heapq.heappop(queue)
        here = starts[-1]
        if here in best:
            continue
        best[here] = starts
        if kept + sum(inside[here:]) > budget:
            best[here] = None
        else:
            continue
        for end in range(here + 1, len(inputs)):
            if kept + sum(inside[here:end]) <= budget:
                heapq.heappush(queue, (kept + inputs[end], (*starts, end)))
    fitting = [list(starts) for starts in best.values() if starts is not None]
    return min(fitting, key=lambda starts: starts[-1], default=None)


# %% right: sums and the least bytes as arrays of NumPy
import numpy as np


def choose_segments(inputs, inside, budget):
    count = len(inputs)
    total = np.concatenate([[0], np.cumsum(inside)])
    least = np.full(count, np.inf)
    least[0] = inputs[0]
    before = np.zeros(count, dtype=int)
    for end in range(1, count):
        fits = least[:end] + total[end] - total[:end] <= budget
        if fits.any():
            before[end] = np.where(fits, least[:end], np.inf).argmin()
            least[end] = least[before[end]] + inputs[end]
    (ends,) = np.nonzero(least + total[count] - total[:count] <= budget)
    if len(ends) == 0:
        return None
    starts = [int(ends[0])]
    while starts[0] > 0:
        starts.insert(0, int(before[starts[0]]))
    return starts


# %% wrong: takes the last segment with the least kept as well, which need not begin first
def choose_segments(inputs, inside, budget):
    count = len(inputs)
    kept, before = [0] + [math.inf] * (count - 1), [None] * count
    for start in range(count):
        for end in range(start + 1, count):
            total = kept[start] + inputs[start]
            if total + sum(inside[start:end]) <= budget and total < kept[end]:
                kept[end], before[end] = total, start
    fitting = [
        (kept[start] + inputs[start], start)
        for start in range(count)
        if kept[start] + inputs[start] + sum(inside[start:]) <= budget
    ]
    if not fitting:
        return None
    starts = [min(fitting)[1]]
    while starts[0]:
        starts.insert(0, before[starts[0]])
    return starts


# %% wrong: halves the places for the last segment, as if a later one always fitted better
def choose_segments(inputs, inside, budget):
    count = len(inputs)
    kept, before = [0] + [math.inf] * (count - 1), [None] * count
    for start in range(count):
        for end in range(start + 1, count):
            total = kept[start] + inputs[start]
            if total + sum(inside[start:end]) <= budget and total < kept[end]:
                kept[end], before[end] = total, start

    def fits(start):
        return kept[start] + inputs[start] + sum(inside[start:]) <= budget

    low, high = 0, count - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle + 1, high)
    if not fits(low):
        return None
    starts = [low]
    while starts[0]:
        starts.insert(0, before[starts[0]])
    return starts


# %% wrong: sums in float32, which is too coarse for gigabytes
def choose_segments(inputs, inside, budget):
    count = len(inputs)
    total = torch.cat([torch.zeros(1), torch.tensor(inside, dtype=torch.float32).cumsum(0)])
    least, before = torch.full((count,), math.inf), [None] * count
    least[0] = inputs[0]
    for end in range(1, count):
        for start in range(end):
            kept = least[start]
            if kept + total[end] - total[start] <= budget and kept + inputs[end] < least[end]:
                least[end], before[end] = kept + inputs[end], start
    for last in range(count):
        if least[last] + total[count] - total[last] <= budget:
            starts = [last]
            while starts[0]:
                starts.insert(0, before[starts[0]])
            return starts
    return None
