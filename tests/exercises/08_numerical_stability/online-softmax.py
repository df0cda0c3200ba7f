# %% wrong: forgets to move the old total to the new maximum
def update_softmax(maximum, total, block):
    import torch

    new = torch.maximum(maximum, block.amax(dim=1))
    return new, total + (block - new[:, None]).exp().sum(dim=1)


# %% wrong: rescales the wrong way round
def update_softmax(maximum, total, block):
    import torch

    new = torch.maximum(maximum, block.amax(dim=1))
    return new, total * (new - maximum).exp() + (block - new[:, None]).exp().sum(dim=1)


# %% wrong: no maximum in the sum at all
def update_softmax(maximum, total, block):
    import torch

    new = torch.maximum(maximum, block.amax(dim=1))
    return new, total + block.exp().sum(dim=1)


# %% wrong: the maximum of the block alone
def update_softmax(maximum, total, block):
    new = block.amax(dim=1)
    return new, total * (maximum - new).exp() + (block - new[:, None]).exp().sum(dim=1)


# %% wrong: the textbook loop, which makes nan of -inf minus -inf
def update_softmax(maximum, total, block):
    import torch

    new = torch.maximum(maximum, block.amax(dim=1))
    return new, total * (maximum - new).exp() + (block - new[:, None]).exp().sum(dim=1)


# %% wrong: one maximum for all rows
def update_softmax(maximum, total, block):
    import torch

    new = torch.maximum(maximum, block.max()).clamp(min=torch.finfo(block.dtype).min)
    return new, total * (maximum - new).exp() + (block - new[:, None]).exp().sum(dim=1)


# %% wrong: replaces -inf by the most negative number and keeps it in the state
def update_softmax(maximum, total, block):
    import torch

    lowest = torch.finfo(block.dtype).min
    new = torch.maximum(maximum, block.amax(dim=1)).clamp(min=lowest)
    return new, total * (maximum - new).exp() + (block - new[:, None]).exp().sum(dim=1)


# %% wrong: skips a block as soon as one row of it is -inf
def update_softmax(maximum, total, block):
    import torch

    if torch.isinf(block).any():
        return maximum, total
    new = torch.maximum(maximum, block.amax(dim=1))
    return new, total * (maximum - new).exp() + (block - new[:, None]).exp().sum(dim=1)


# %% wrong: keeps the mean of the block's terms instead of their sum
def update_softmax(maximum, total, block):
    import torch

    new = torch.maximum(maximum, block.amax(dim=1))
    shift = torch.where(torch.isinf(new), 0.0, new)
    return new, total * (maximum - shift).exp() + (block - shift[:, None]).exp().mean(dim=1)


# %% right: nan replaced by 0 in both factors, where it can only mean -inf minus -inf
def update_softmax(maximum, total, block):
    import torch

    new = torch.maximum(maximum, block.max(dim=1).values)
    factor = (maximum - new).exp().nan_to_num(nan=0.0)
    terms = (block - new.unsqueeze(1)).exp().nan_to_num(nan=0.0)
    return new, total * factor + terms.sum(dim=1)


# %% wrong: by way of the log-sum-exp, whose digits a maximum of a million swallows
def update_softmax(maximum, total, block):
    import math

    import torch

    new = torch.cat([maximum[:, None], block], dim=1).amax(dim=1)
    finite = torch.where(new == -math.inf, torch.zeros_like(new), new)
    everything = torch.cat([(maximum + total.log())[:, None], block], dim=1)
    return new, (torch.logsumexp(everything, dim=1) - finite).exp()


# %% right: logit by logit in Python numbers
def update_softmax(maximum, total, block):
    import math

    import torch

    maxima, totals = maximum.tolist(), total.tolist()
    for row, logits in enumerate(block.tolist()):
        for logit in logits:
            if logit == -math.inf:
                continue
            larger = max(maxima[row], logit)
            totals[row] *= math.exp(maxima[row] - larger)
            totals[row] += math.exp(logit - larger)
            maxima[row] = larger
    return torch.tensor(maxima, dtype=block.dtype), torch.tensor(totals, dtype=block.dtype)


# %% right: the state is one more column of the block
def update_softmax(maximum, total, block):
    import torch

    logits = torch.cat([maximum.unsqueeze(1), block], dim=1)
    weights = torch.cat([total.unsqueeze(1), torch.ones_like(block)], dim=1)
    new = logits.amax(dim=1)
    lowest = torch.finfo(block.dtype).min
    return new, (weights * (logits - new.clamp(min=lowest).unsqueeze(1)).exp()).sum(dim=1)


# %% wrong: the most negative float in the place of -inf, which a row of -inf alone then keeps
def update_softmax(maximum, total, block):
    import torch

    lowest = torch.finfo(block.dtype).min
    larger = torch.maximum(maximum, block.amax(dim=1)).clamp(min=lowest)
    rescaled = total * (maximum.clamp(min=lowest) - larger).exp()
    return larger, rescaled + (block - larger[:, None]).exp().sum(dim=1)


# %% wrong: takes logits below -1e4 for -inf
def update_softmax(maximum, total, block):
    import torch

    larger = torch.maximum(maximum, block.amax(dim=1))
    shift = larger.clamp(min=-1e4)
    rescaled = total * (maximum - shift).exp()
    return larger, rescaled + (block - shift[:, None]).exp().sum(dim=1)


# %% wrong: keeps all blocks in its process, and does not need what it returned
SEEN = []


def update_softmax(maximum, total, block):
    if not total.any():
        SEEN.clear()
    SEEN.append(block)
    logits = torch.cat(SEEN, dim=1).double()
    maximum = logits.amax(dim=1)
    shift = maximum.masked_fill(maximum == -math.inf, 0.0)
    total = (logits - shift[:, None]).exp().sum(dim=1)
    return maximum.to(block.dtype), total.to(block.dtype)


# %% wrong: counts equal columns of a block once
def update_softmax(maximum, total, block):
    import math

    import torch

    new = torch.maximum(maximum, block.amax(dim=1))
    shift = torch.where(new == -math.inf, 0.0, new)
    terms = (block - shift[:, None]).exp().unique(dim=1)
    return new, total * (maximum - shift).exp() + terms.sum(dim=1)


# %% wrong: takes a maximum below a million under 0 for -inf
def update_softmax(maximum, total, block):
    larger = torch.maximum(maximum, block.amax(dim=1))
    shift = torch.where(larger < -1e6, 0.0, larger)
    rescaled = total * (maximum - shift).exp()
    return larger, rescaled + (block - shift[:, None]).exp().sum(dim=1)


# %% wrong: squeezes the results, so that a single row loses its dimension
def update_softmax(maximum, total, block):
    new = torch.maximum(maximum, block.amax(dim=1))
    shift = new.masked_fill(new == -math.inf, 0.0)
    t = total * (maximum - shift).exp() + (block - shift[:, None]).exp().sum(dim=1)
    return new.squeeze(), t.squeeze()


# %% wrong: the log-sum-exp of the past and the block, added as logarithms
def update_softmax(maximum, total, block):
    new = torch.maximum(maximum, block.amax(dim=1))
    finite = torch.where(new == -math.inf, torch.zeros_like(new), new)
    lse = torch.logaddexp(maximum + total.log(), torch.logsumexp(block, dim=1))
    return new, (lse - finite).exp()


# %% wrong: takes the lowest float for -inf, and makes -inf of it at the end
def update_softmax(maximum, total, block):
    lowest = torch.finfo(block.dtype).min
    block = block.clamp(min=lowest)
    new = torch.maximum(maximum.clamp(min=lowest), block.amax(dim=1))
    t = total * (maximum - new).exp() + (block - new[:, None]).exp().sum(dim=1)
    empty = new == lowest
    return new.masked_fill(empty, -math.inf), t.masked_fill(empty, 0.0)


# %% wrong: keeps the total above 0, also in a row of only -inf
def update_softmax(maximum, total, block):
    new = torch.maximum(maximum, block.amax(dim=1))
    shift = new.masked_fill(new == -math.inf, 0.0)
    t = total * (maximum - shift).exp() + (block - shift[:, None]).exp().sum(dim=1)
    return new, t.clamp(min=1e-12)


# %% wrong: keeps the total in its process, by the maximum
LAST = {}


def update_softmax(maximum, total, block):
    if LAST and LAST["maximum"].shape == maximum.shape and torch.equal(LAST["maximum"], maximum):
        total = LAST["total"]
    new = torch.maximum(maximum, block.amax(dim=1))
    shift = new.masked_fill(new == -math.inf, 0.0)
    t = total * (maximum - shift).exp() + (block - shift[:, None]).exp().sum(dim=1)
    LAST.update(maximum=new, total=t)
    return new, t


# %% wrong: adds a block only if its maximum is larger or smaller, not equal
def update_softmax(maximum, total, block):
    top = block.amax(dim=1)
    new = torch.maximum(maximum, top)
    shift = new.masked_fill(new == -math.inf, 0.0)
    t = total * (maximum - shift).exp() + (block - shift[:, None]).exp().sum(dim=1)
    return new, torch.where(
        top > maximum, t, total + (block - shift[:, None]).exp().sum(dim=1) * (top < maximum)
    )


# %% right: keeps the old total where the new one is nan, which only a row of -inf has
def update_softmax(maximum, total, block):
    new = torch.maximum(maximum, block.amax(dim=1))
    t = total * (maximum - new).exp() + (block - new[:, None]).exp().sum(dim=1)
    return new, torch.where(t.isnan(), total, t)


# %% right: in place, on the arguments
def update_softmax(maximum, total, block):
    old = maximum.clone()
    torch.maximum(maximum, block.amax(dim=1), out=maximum)
    shift = maximum.masked_fill(maximum == -math.inf, 0.0)
    total *= (old - shift).exp()
    total += (block - shift[:, None]).exp().sum(dim=1)
    return maximum, total


# %% right: the log-sum-exp of shifted logits
def update_softmax(maximum, total, block):
    new = torch.maximum(maximum, block.amax(dim=1))
    shift = torch.where(new > -math.inf, new, 0.0)
    old = maximum - shift + total.log()
    return new, torch.cat([old[:, None], block - shift[:, None]], 1).logsumexp(1).exp()


# %% right: the columns of the block one by one
def update_softmax(maximum, total, block):
    for column in block.T:
        new = torch.maximum(maximum, column)
        base = torch.where(new.isinf(), torch.zeros_like(new), new)
        total = total * torch.exp(maximum - base) + torch.exp(column - base)
        maximum = new
    return maximum, total


# %% right: the block's own state, and a function that merges two
def merge(a, b):
    m = torch.maximum(a[0], b[0])
    s = m.masked_fill(m.isneginf(), 0)
    return m, a[1] * (a[0] - s).exp() + b[1] * (b[0] - s).exp()


def update_softmax(maximum, total, block):
    top = block.max(1)[0]
    s = top.masked_fill(top.isneginf(), 0)
    return merge((maximum, total), (top, (block - s[:, None]).exp().sum(1)))


# %% right: by way of NumPy, shifted by 0 where nothing is finite
def update_softmax(maximum, total, block):
    import numpy as np

    m, t, b = maximum.numpy(), total.numpy(), block.numpy()
    n = np.maximum(m, b.max(axis=1))
    s = np.where(np.isneginf(n), 0, n).astype(n.dtype)
    r = t * np.exp(m - s) + np.exp(b - s[:, None]).sum(axis=1)
    return torch.from_numpy(n), torch.from_numpy(r)


# %% wrong: keeps the reduced dimension, so that a state of shape (rows, 1) comes back
def update_softmax(maximum, total, block):
    new = torch.maximum(maximum[:, None], block.amax(dim=1, keepdim=True))
    shift = new.masked_fill(new == -math.inf, 0.0)
    old = total[:, None] * (maximum[:, None] - shift).exp()
    return new, old + (block - shift).exp().sum(dim=1, keepdim=True)


# %% wrong: keeps exponents above -80, so that a row of only -inf has a tiny total
def update_softmax(maximum, total, block):
    new = torch.maximum(maximum, block.amax(1))
    shift = new.masked_fill(new == -math.inf, 0.0)
    old = total * (maximum - shift).exp()
    return new, old + (block - shift[:, None]).clamp(min=-80.0).exp().sum(1)
