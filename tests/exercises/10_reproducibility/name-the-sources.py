# %% wrong: fixes one alone, which never helps if there are two
def guilty_sources(run, sources):
    return [s for s in sources if all(run([s]) == run([s]) for _ in range(10))]


# %% wrong: two runs are too few
def guilty_sources(run, sources):
    guilty = []
    for source in sources:
        others = [other for other in sources if other != source]
        if run(others) != run(others):
            guilty.append(source)
    return guilty


# %% wrong: stops at the first one
def guilty_sources(run, sources):
    for source in sources:
        others = [other for other in sources if other != source]
        results = [run(others) for _ in range(15)]
        if any(result != results[0] for result in results):
            return [source]
    return []


# %% wrong: sets loose one after the other, and the earlier ones stay loose
def guilty_sources(run, sources):
    guilty, fixed = [], list(sources)
    for source in sources:
        fixed.remove(source)
        results = [run(list(fixed)) for _ in range(15)]
        if any(result != results[0] for result in results):
            guilty.append(source)
    return guilty


# %% wrong: the innocent ones
def guilty_sources(run, sources):
    innocent = []
    for source in sources:
        others = [other for other in sources if other != source]
        results = [run(others) for _ in range(15)]
        if all(result == results[0] for result in results):
            innocent.append(source)
    return innocent


# %% wrong: one loose run against the fixed one
def guilty_sources(run, sources):
    expected = run(sources)
    return [s for s in sources if run([o for o in sources if o != s]) != expected]


# %% wrong: far more runs than allowed
def guilty_sources(run, sources):
    guilty = []
    for source in sources:
        others = [other for other in sources if other != source]
        results = [run(others) for _ in range(1000)]
        if any(result != results[0] for result in results):
            guilty.append(source)
    return guilty


# %% wrong: in the order of the alphabet
def guilty_sources(run, sources):
    guilty = []
    for source in sorted(sources):
        others = [other for other in sources if other != source]
        results = [run(others) for _ in range(15)]
        if any(result != results[0] for result in results):
            guilty.append(source)
    return guilty


# %% wrong: what is close counts as equal
def guilty_sources(run, sources):
    expected = np.array(run(list(sources)))
    guilty = []
    for source in sources:
        others = [other for other in sources if other != source]
        if not all(np.allclose(np.array(run(others)), expected) for _ in range(20)):
            guilty.append(source)
    return guilty


# %% wrong: compares sums, in which differences cancel
def guilty_sources(run, sources):
    expected = sum(run(list(sources)))
    guilty = []
    for source in sources:
        others = [other for other in sources if other != source]
        if any(abs(sum(run(others)) - expected) > 1e-6 for _ in range(20)):
            guilty.append(source)
    return guilty


# %% right: sets of results
def guilty_sources(run, sources):
    def varies(source):
        others = [other for other in sources if other != source]
        return len({tuple(run(others)) for _ in range(30)}) > 1

    return [source for source in sources if varies(source)]


# %% right: against the result with all fixed, ten loose runs each
def guilty_sources(run, sources):
    expected = run(list(sources))
    guilty = []
    for place, source in enumerate(sources):
        others = sources[:place] + sources[place + 1 :]
        if any(run(others) != expected for _ in range(12)):
            guilty.append(source)
    return guilty


# %% wrong: nine runs, one too few to be sure
def guilty_sources(run, sources):
    guilty = []
    for source in sources:
        others = [other for other in sources if other != source]
        if len({tuple(run(others)) for _ in range(9)}) > 1:
            guilty.append(source)
    return guilty


# %% right: ten runs, as many as it takes
def guilty_sources(run, sources):
    guilty = []
    for source in sources:
        others = [other for other in sources if other != source]
        if len({tuple(run(others)) for _ in range(10)}) > 1:
            guilty.append(source)
    return guilty


# %% wrong: compares runs in pairs, between which the result changes
def guilty_sources(run, sources):
    guilty = []
    for source in sources:
        others = [other for other in sources if other != source]
        if any(run(others) != run(others) for _ in range(20)):
            guilty.append(source)
    return guilty


# %% wrong: the first run against the last alone
def guilty_sources(run, sources):
    guilty = []
    for source in sources:
        others = [other for other in sources if other != source]
        results = [run(others) for _ in range(20)]
        if results[0] != results[-1]:
            guilty.append(source)
    return guilty


# %% wrong: each comparison overwrites the one before
def guilty_sources(run, sources):
    guilty = []
    for source in sources:
        others = [other for other in sources if other != source]
        first = run(others)
        for _ in range(19):
            varies = run(others) != first
        if varies:
            guilty.append(source)
    return guilty


# %% wrong: two different results do not count yet
def guilty_sources(run, sources):
    guilty = []
    for source in sources:
        others = [other for other in sources if other != source]
        results = {tuple(run(others)) for _ in range(20)}
        if len(results) > 2:
            guilty.append(source)
    return guilty


# %% wrong: a standard deviation, which rounding makes positive for equal numbers
def guilty_sources(run, sources):
    guilty = []
    for source in sources:
        others = [other for other in sources if other != source]
        if np.std([run(others) for _ in range(20)], axis=0).any():
            guilty.append(source)
    return guilty


# %% wrong: looks at every other run only
def guilty_sources(run, sources):
    guilty = []
    for source in sources:
        others = [other for other in sources if other != source]
        results = [run(others) for _ in range(20)]
        if any(r != results[0] for r in results[::2]):
            guilty.append(source)
    return guilty


# %% wrong: the first half of the runs against the second
def guilty_sources(run, sources):
    guilty = []
    for source in sources:
        others = [other for other in sources if other != source]
        results = [run(others) for _ in range(20)]
        if results[:10] != results[10:]:
            guilty.append(source)
    return guilty


# %% wrong: stops at the first run that is like the first one
def guilty_sources(run, sources):
    guilty = []
    for source in sources:
        others = [other for other in sources if other != source]
        first = run(others)
        for _ in range(19):
            if run(others) == first:
                break
        else:
            guilty.append(source)
    return guilty


# %% right: each run against the one before it
def guilty_sources(run, sources):
    guilty = []
    for source in sources:
        others = [other for other in sources if other != source]
        results = [run(others) for _ in range(12)]
        if any(a != b for a, b in itertools.pairwise(results)):
            guilty.append(source)
    return guilty


# %% right: the spread of all runs, in torch
def guilty_sources(run, sources):
    def spread(source):
        others = [name for name in sources if name is not source]
        results = torch.tensor([run(others) for _ in range(25)], dtype=torch.float64)
        return (results.amax(0) - results.amin(0)).max() > 0

    return [source for source in sources if spread(source)]


# %% right: halves of the sources, and halves of these
def guilty_sources(run, sources):
    def search(part):
        others = [s for s in sources if s not in part]
        results = [run(others) for _ in range(10)]
        if all(r == results[0] for r in results):
            return []
        if len(part) == 1:
            return part
        middle = len(part) // 2
        return search(part[:middle]) + search(part[middle:])

    return search(list(sources))


# %% right: round after round, against the result with all fixed
def guilty_sources(run, sources):
    expected = run(list(sources))
    suspects = set()
    for _ in range(30):
        for source in sources:
            if source not in suspects and run([o for o in sources if o != source]) != expected:
                suspects.add(source)
    return sorted(suspects, key=sources.index)


# %% right: different rows in NumPy
def guilty_sources(run, sources):
    guilty = []
    for source in sources:
        others = list(filter(source.__ne__, sources))
        results = np.array([run(others) for _ in range(10)])
        if len(np.unique(results, axis=0)) > 1:
            guilty.append(source)
    return guilty


# %% wrong: takes the run with nothing fixed for the result with all fixed
def guilty_sources(run, sources):
    expected = run([])
    guilty = []
    for source in sources:
        others = [other for other in sources if other != source]
        if any(run(others) != expected for _ in range(20)):
            guilty.append(source)
    return guilty


# %% wrong: fixes one alone, and compares with a run with nothing fixed
def guilty_sources(run, sources):
    base = run([])
    return [source for source in sources if run([source]) != base]


# %% wrong: from the end of the alphabet to its beginning
def guilty_sources(run, sources):
    guilty = []
    for source in sources:
        others = [other for other in sources if other != source]
        if len({tuple(run(others)) for _ in range(20)}) > 1:
            guilty.append(source)
    return sorted(guilty, reverse=True)
