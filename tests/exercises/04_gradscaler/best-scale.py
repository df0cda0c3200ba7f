# %% wrong: the largest safe scale, whether it is needed or not
def best_scale(counts, headroom):
    return 2.0 ** (14 - headroom - max(e for e, count in counts.items() if count))


# %% wrong: makes the smallest gradient normal, and lets the largest overflow
def best_scale(counts, headroom):
    return 2.0 ** (-14 - min(e for e, count in counts.items() if count))


# %% wrong: only asks that nothing becomes 0, and is content with subnormal numbers
def best_scale(counts, headroom):
    filled = [e for e, count in counts.items() if count]
    safe = [k for k in range(-80, 81) if max(filled) + k + headroom < 15]
    return 2.0 ** min(safe, key=lambda k: (sum(counts[e] for e in filled if e + k < -25), abs(k)))


# %% wrong: forgets the headroom
def best_scale(counts, headroom):
    filled = {e: count for e, count in counts.items() if count}

    def harm(k):
        zeros = sum(count for e, count in filled.items() if e + k < -25)
        subnormal = sum(count for e, count in filled.items() if -25 <= e + k < -14)
        return zeros, subnormal, abs(k)

    return 2.0 ** min((k for k in range(-80, 81) if max(filled) + k < 15), key=harm)


# %% wrong: lets the largest gradient reach exponent 15, where 65520 becomes inf
def best_scale(counts, headroom):
    filled = {e: count for e, count in counts.items() if count}

    def harm(k):
        zeros = sum(count for e, count in filled.items() if e + k < -25)
        subnormal = sum(count for e, count in filled.items() if -25 <= e + k < -14)
        return zeros, subnormal, abs(k)

    return 2.0 ** min((k for k in range(-80, 81) if max(filled) + k + headroom <= 15), key=harm)


# %% wrong: takes empty bins for gradients
def best_scale(counts, headroom):
    def harm(k):
        zeros = sum(count for e, count in counts.items() if e + k < -25)
        subnormal = sum(count for e, count in counts.items() if -25 <= e + k < -14)
        return zeros, subnormal, abs(k)

    return 2.0 ** min((k for k in range(-80, 81) if max(counts) + k + headroom < 15), key=harm)


# %% wrong: counts zeros and subnormal gradients alike
def best_scale(counts, headroom):
    filled = {e: count for e, count in counts.items() if count}

    def harm(k):
        return sum(count for e, count in filled.items() if e + k < -14), abs(k)

    return 2.0 ** min((k for k in range(-80, 81) if max(filled) + k + headroom < 15), key=harm)


# %% wrong: the fewest subnormal gradients first, though zeros are worse
def best_scale(counts, headroom):
    filled = {e: count for e, count in counts.items() if count}

    def harm(k):
        zeros = sum(count for e, count in filled.items() if e + k < -25)
        subnormal = sum(count for e, count in filled.items() if -25 <= e + k < -14)
        return subnormal, zeros, abs(k)

    return 2.0 ** min((k for k in range(-80, 81) if max(filled) + k + headroom < 15), key=harm)


# %% wrong: never scales down, though the largest gradient would overflow
def best_scale(counts, headroom):
    filled = {e: count for e, count in counts.items() if count}

    def harm(k):
        zeros = sum(count for e, count in filled.items() if e + k < -25)
        subnormal = sum(count for e, count in filled.items() if -25 <= e + k < -14)
        return zeros, subnormal, k

    safe = [k for k in range(81) if max(filled) + k + headroom < 15]
    return 2.0 ** min(safe, key=harm) if safe else 1.0


# %% wrong: the exponent of the scale instead of the scale
def best_scale(counts, headroom):
    filled = {e: count for e, count in counts.items() if count}

    def harm(k):
        zeros = sum(count for e, count in filled.items() if e + k < -25)
        subnormal = sum(count for e, count in filled.items() if -25 <= e + k < -14)
        return zeros, subnormal, abs(k)

    return float(min((k for k in range(-80, 81) if max(filled) + k + headroom < 15), key=harm))


# %% right: walks down from the largest safe scale as long as nothing is lost by it
def best_scale(counts, headroom):
    exponents = sorted(e for e in counts if counts[e] > 0)
    k = min(80, 14 - headroom - exponents[-1])
    zeros = [e for e in exponents if e + k < -25]
    normal = [e for e in exponents if e + k >= -14]
    while k > 0:
        lower = k - 1
        if [e for e in exponents if e + lower < -25] != zeros:
            break
        if [e for e in exponents if e + lower >= -14] != normal:
            break
        k = lower
    return 2.0**k


# %% right: without a search, by what each bin asks for
def best_scale(counts, headroom):
    exponents = [e for e, count in counts.items() if count]
    largest = min(80, FIRST_UNSAFE - 1 - headroom - max(exponents))
    asked = [0]
    for e in exponents:
        if FIRST_NORMAL - e <= largest:
            asked.append(FIRST_NORMAL - e)
        elif FIRST_KEPT - e <= largest:
            asked.append(FIRST_KEPT - e)
    return float(2 ** min(largest, max(asked))) if largest >= 0 else 2.0**largest


# %% wrong: looks no further than 40
def best_scale(counts, headroom):
    filled = [e for e, n in counts.items() if n]

    def harm(k):
        zeros = sum(counts[e] for e in filled if e + k < -25)
        small = sum(counts[e] for e in filled if -25 <= e + k < -14)
        return zeros, small, abs(k)

    safe = [k for k in range(-40, 41) if max(filled) + k + headroom < 15]
    return 2.0 ** min(safe or [-40], key=harm)


# %% right: counts bins instead of gradients, which comes to the same
def best_scale(counts, headroom):
    filled = [e for e, n in counts.items() if n]
    safe = [k for k in range(-80, 81) if max(filled) + k + headroom < 15]
    return 2.0 ** min(
        safe,
        key=lambda k: (
            sum(e + k < -25 for e in filled),
            sum(-25 <= e + k < -14 for e in filled),
            abs(k),
        ),
    )


# %% wrong: the smallest scale that does no harm, which need not be the closest to 1
def best_scale(counts, headroom):
    counts = {e: n for e, n in counts.items() if n}
    top = max(counts)
    fits = [k for k in range(-80, 81) if top + k + headroom < 15]

    def harm(k):
        zeros = sum(n for e, n in counts.items() if e + k < -25)
        return zeros, sum(n for e, n in counts.items() if -25 <= e + k < -14), k

    return 2.0 ** min(fits, key=harm)


# %% wrong: keeps the headroom free at the lower end as well
def best_scale(counts, headroom):
    counts = {exponent: count for exponent, count in counts.items() if count}

    def harm(k):
        zeros = sum(count for e, count in counts.items() if e + k - headroom < FIRST_KEPT)
        below = sum(count for e, count in counts.items() if e + k < FIRST_NORMAL)
        return zeros, below, abs(k)

    safe = [k for k in range(-80, 81) if max(counts) + k + headroom < FIRST_UNSAFE]
    return 2.0 ** min(safe, key=harm)


# %% wrong: looks for scales beyond 2^80, too
def best_scale(counts, headroom):
    filled = {e: n for e, n in counts.items() if n > 0}
    best = None
    for k in range(-200, 201):
        if max(filled) + k + headroom >= 15:
            continue
        zeros = sum(n for e, n in filled.items() if e + k < -25)
        sub = sum(n for e, n in filled.items() if -25 <= e + k < -14)
        key = (zeros, sub, abs(k))
        if best is None or key < best[0]:
            best = (key, k)
    return 2.0 ** best[1]
