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


# %% right: by way of log-sum-exp of old state and block
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
