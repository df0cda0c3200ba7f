# %% wrong: the smallest peak, whatever it makes run twice
def choose_segments(inputs, inside, budget):
    places = range(1, len(inputs))
    choices = [[0, *cuts] for count in range(len(inputs)) for cuts in combinations(places, count)]
    best = min(choices, key=lambda starts: peak_bytes(starts, inputs, inside))
    return best if peak_bytes(best, inputs, inside) <= budget else None


# %% wrong: equal segments only
def choose_segments(inputs, inside, budget):
    for count in range(1, len(inputs) + 1):
        starts = [k * len(inputs) // count for k in range(count)]
        if peak_bytes(starts, inputs, inside) <= budget:
            return starts
    return None


# %% wrong: as few segments as possible, which is not as few blocks
def choose_segments(inputs, inside, budget):
    for count in range(len(inputs)):
        for cuts in combinations(range(1, len(inputs)), count):
            if peak_bytes([0, *cuts], inputs, inside) <= budget:
                return [0, *cuts]
    return None


# %% wrong: as few segments as possible, and among those the earliest last one
def choose_segments(inputs, inside, budget):
    places = range(1, len(inputs))
    for count in range(len(inputs)):
        choices = [[0, *cuts] for cuts in combinations(places, count)]
        fitting = [starts for starts in choices if peak_bytes(starts, inputs, inside) <= budget]
        if fitting:
            return min(fitting, key=lambda starts: starts[-1])
    return None


# %% wrong: as many segments as the square root of the blocks
def choose_segments(inputs, inside, budget):
    count = max(1, round(math.sqrt(len(inputs))))
    starts = [k * len(inputs) // count for k in range(count)]
    return starts if peak_bytes(starts, inputs, inside) <= budget else None


# %% wrong: the peak has to be below the budget
def choose_segments(inputs, inside, budget):
    places = range(1, len(inputs))
    choices = ([0, *cuts] for count in range(len(inputs)) for cuts in combinations(places, count))
    fitting = [starts for starts in choices if peak_bytes(starts, inputs, inside) < budget]
    return min(fitting, key=lambda starts: starts[-1], default=None)


# %% wrong: forgets the choice of wrapping nothing
def choose_segments(inputs, inside, budget):
    places = range(1, len(inputs))
    choices = (
        [0, *cuts] for count in range(1, len(inputs)) for cuts in combinations(places, count)
    )
    fitting = [starts for starts in choices if peak_bytes(starts, inputs, inside) <= budget]
    return min(fitting, key=lambda starts: starts[-1], default=None)


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
    places = range(1, len(inputs))
    choices = ([0, *cuts] for count in range(len(inputs)) for cuts in combinations(places, count))
    fitting = [starts for starts in choices if peak_bytes(starts, inputs, inside) <= budget]
    return min(fitting, key=lambda starts: starts[-1], default=[])


# %% wrong: counts the inputs of all segments at every moment
def choose_segments(inputs, inside, budget):
    def peak(starts):
        ends = [*starts[1:], len(inputs)]
        largest = max(sum(inside[a:b]) for a, b in zip(starts, ends, strict=True))
        return sum(inputs[a] for a in starts) + largest

    places = range(1, len(inputs))
    choices = ([0, *cuts] for count in range(len(inputs)) for cuts in combinations(places, count))
    fitting = [starts for starts in choices if peak(starts) <= budget]
    return min(fitting, key=lambda starts: starts[-1], default=None)


# %% right: tries the last start from the front, and all subsets before it by bits
def choose_segments(inputs, inside, budget):
    for last in range(len(inputs)):
        for bits in range(2 ** max(0, last - 1)):
            starts = [0, *(k + 1 for k in range(last - 1) if bits >> k & 1), last]
            if peak_bytes(starts if last else [0], inputs, inside) <= budget:
                return starts if last else [0]
    return None


# %% right: a tuple comes back, which is a list of places as well
def choose_segments(inputs, inside, budget):
    for last in range(len(inputs)):
        for count in range(last + 1):
            for cuts in combinations(range(1, last), count):
                starts = tuple(sorted({0, *cuts, last}))
                if peak_bytes(starts, inputs, inside) <= budget:
                    return starts
    return None


# %% right: goes back from each state, with the least that is kept for each start
def choose_segments(inputs, inside, budget):
    count = len(inputs)
    # ways[s]: the starts up to s, all of them with peaks within the budget, that keep least.
    ways = {0: (inputs[0], (0,))}
    for end in range(1, count):
        found = [
            (kept + inputs[end], (*starts, end))
            for start, (kept, starts) in ways.items()
            if kept + sum(inside[start:end]) <= budget
        ]
        if found:
            ways[end] = min(found)
    for start in sorted(ways):
        kept, starts = ways[start]
        if kept + sum(inside[start:]) <= budget:
            return list(starts)
    return None
