# %% wrong: plain addition, with a rest of nothing
def kahan_add(total, rest, value):
    return total + value, rest * 0


# %% wrong: forgets to add the rest from before
def kahan_add(total, rest, value):
    new_total = total + value
    return new_total, value - (new_total - total)


# %% wrong: the rest with the sign that Kahan's own has
def kahan_add(total, rest, value):
    wanted = value - rest
    new_total = total + wanted
    return new_total, (new_total - total) - wanted


# %% wrong: brackets the other way: the rest is computed from rounded sums
def kahan_add(total, rest, value):
    wanted = value + rest
    new_total = total + wanted
    return new_total, (wanted - new_total) + total


# %% wrong: adds the rest to the total, where it is lost again
def kahan_add(total, rest, value):
    start = total + rest
    new_total = start + value
    return new_total, value - (new_total - start)


# %% wrong: measures the rest against the value alone
def kahan_add(total, rest, value):
    wanted = value + rest
    new_total = total + wanted
    return new_total, value - (new_total - total)


# %% wrong: keeps all rests and never gives them back
def kahan_add(total, rest, value):
    new_total = total + value
    return new_total, rest + (value - (new_total - total))


# %% wrong: a total in float64
def kahan_add(total, rest, value):
    exact = total.double() + rest.double() + value.double()
    return exact, exact * 0


# %% wrong: changes its arguments in place
def kahan_add(total, rest, value):
    value += rest
    new_total = total + value
    rest.copy_(value - (new_total - total))
    return new_total, rest


# %% wrong: changes the value in place
def kahan_add(total, rest, value):
    value += rest
    new_total = total + value
    return new_total, value - (new_total - total)


# %% wrong: changes the total in place
def kahan_add(total, rest, value):
    wanted, before = value + rest, total.clone()
    total += wanted
    return total, wanted - (total - before)


# %% wrong: a total in float32, whatever the dtype
def kahan_add(total, rest, value):
    exact = total.double() + rest.double() + value.double()
    return exact.float(), (exact - exact.float().double()).float()


# %% wrong: Neumaier's sum, whose rest does not go into the next total
def kahan_add(total, rest, value):
    new_total = total + value
    return new_total, rest + ((total - new_total) + value)


# %% right: Knuth's two-sum, which needs no order of sizes
def kahan_add(total, rest, value):
    wanted = rest + value
    new_total = total + wanted
    back = new_total - total
    return new_total, (total - (new_total - back)) + (wanted - back)


# %% wrong: adds in float64, which holds 53 bits at most, and splits the sum in two
def kahan_add(total, rest, value):
    exact = total.double() + rest.double() + value.double()
    new_total = exact.to(total.dtype)
    return new_total, (exact - new_total.double()).to(total.dtype)


# %% right: the same with subtractions
def kahan_add(total, rest, value):
    import torch

    missing = torch.add(value, rest)
    new_total = torch.add(total, missing)
    return new_total, torch.sub(missing, torch.sub(new_total, total))


# %% right: splits the sum with the value first, then the rest; returns a list
def kahan_add(total, rest, value):
    def split(a, b):
        rounded = a + b
        back = rounded - a
        return rounded, (a - (rounded - back)) + (b - back)

    rounded, lost = split(total, value)
    return [*split(rounded, lost + rest)]


# %% wrong: adds the value to the total first, where it is lost before the rest arrives
def kahan_add(total, rest, value):
    new_total = total + value + rest
    return new_total, rest + (value - (new_total - total))


# %% wrong: drops the old rest when there is nothing to add
def kahan_add(total, rest, value):
    import torch

    if not value.any():
        return total.clone(), torch.zeros_like(rest)
    wanted = value + rest
    new_total = total + wanted
    return new_total, wanted - (new_total - total)


# %% wrong: changes the rest in place in 16-bit formats
def kahan_add(total, rest, value):
    if rest.dtype.itemsize == 2:
        rest += value
        wanted = rest
    else:
        wanted = value + rest
    new_total = total + wanted
    return new_total, wanted - (new_total - total)


# %% wrong: entry by entry, as if there were one dimension
def kahan_add(total, rest, value):
    import torch

    new_total, new_rest = torch.empty(len(total)), torch.empty(len(total))
    for place in range(len(total)):
        wanted = value[place] + rest[place]
        new_total[place] = total[place] + wanted
        new_rest[place] = wanted - ((total[place] + wanted) - total[place])
    return new_total.to(total.dtype), new_rest.to(total.dtype)


# %% wrong: adds in place and subtracts again, which does not always give the old total back
def kahan_add(total, rest, value):
    wanted, old = value + rest, total.clone()
    total += wanted
    new_total = total.clone()
    total -= wanted
    return new_total, wanted - (new_total - old)


# %% wrong: adds in float32 and splits the sum in two, which is exact only where 24 bits are enough
def kahan_add(total, rest, value):
    if total.dtype == torch.float32:
        wanted = value + rest
        new_total = total + wanted
        return new_total, wanted - (new_total - total)
    exact = total.float() + (value.float() + rest.float())
    new_total = exact.to(total.dtype)
    return new_total, (exact - new_total.float()).to(total.dtype)


# %% wrong: bfloat16 by way of float64, which has too few bits for 1 and 2^-60
def kahan_add(total, rest, value):
    if total.dtype != torch.bfloat16:
        wanted = value + rest
        new_total = total + wanted
        return new_total, wanted - (new_total - total)
    exact = total.double() + (value.double() + rest.double())
    new_total = exact.bfloat16()
    return new_total, (exact - new_total.double()).bfloat16()


# %% right: float16 by way of float64, which has bits enough for every sum of float16 numbers
def kahan_add(total, rest, value):
    if total.dtype != torch.float16:
        wanted = value + rest
        new_total = total + wanted
        return new_total, wanted - (new_total - total)
    exact = total.double() + (value.double() + rest.double())
    new_total = exact.half()
    return new_total, (exact - new_total.double()).half()
