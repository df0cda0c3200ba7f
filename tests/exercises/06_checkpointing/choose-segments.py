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
