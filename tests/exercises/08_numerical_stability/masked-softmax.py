# %% wrong: fills with -inf and softmaxes: a fully masked row is nan
def masked_softmax(logits, mask):
    return logits.masked_fill(~mask, float("-inf")).softmax(dim=-1)


# %% wrong: fills with the most negative number: a fully masked row attends evenly
def masked_softmax(logits, mask):
    import torch

    return logits.masked_fill(~mask, torch.finfo(logits.dtype).min).softmax(dim=-1)


# %% wrong: adds -1e9, as many a transformer did: large logits show through the mask
def masked_softmax(logits, mask):
    return (logits + (~mask) * -1e9).softmax(dim=-1) * mask


# %% wrong: masks the softmax without making it sum to one again
def masked_softmax(logits, mask):
    return logits.softmax(dim=-1) * mask


# %% wrong: divides by the masked sum, which is 0 for a fully masked row
def masked_softmax(logits, mask):
    weights = logits.softmax(dim=-1) * mask
    return weights / weights.sum(dim=-1, keepdim=True)


# %% wrong: the same with a small number: a large logit under the mask leaves nothing of the others
def masked_softmax(logits, mask):
    weights = logits.softmax(dim=-1) * mask
    return weights / (weights.sum(dim=-1, keepdim=True) + 1e-9)


# %% wrong: adds -inf and replaces the nan afterwards: the value is right, the gradient is nan
def masked_softmax(logits, mask):
    import torch

    bias = torch.zeros_like(logits).masked_fill(~mask, float("-inf"))
    return (logits + bias).softmax(dim=-1).nan_to_num(0.0)


# %% wrong: multiplies the logits by the mask: a logit of 0 is not a weight of 0
def masked_softmax(logits, mask):
    return (logits * mask).softmax(dim=-1) * mask


# %% wrong: takes the mask the other way round
def masked_softmax(logits, mask):
    import torch

    lowest = torch.finfo(logits.dtype).min
    return logits.masked_fill(mask, lowest).softmax(dim=-1).masked_fill(mask, 0.0)


# %% wrong: unstable exponentials, masked
def masked_softmax(logits, mask):
    import torch

    exponentials = torch.where(mask, logits.exp(), 0.0)
    total = exponentials.sum(dim=-1, keepdim=True)
    return exponentials / torch.where(total == 0, 1.0, total)


# %% wrong: the maximum of the whole row, the masked part included
def masked_softmax(logits, mask):
    import torch

    exponentials = torch.where(mask, (logits - logits.amax(dim=-1, keepdim=True)).exp(), 0.0)
    total = exponentials.sum(dim=-1, keepdim=True)
    return exponentials / torch.where(total == 0, 1.0, total)


# %% right: fully masked rows are unmasked before the softmax and zeroed after it
def masked_softmax(logits, mask):
    mask = mask.expand(logits.shape)
    empty = ~mask.any(dim=-1, keepdim=True)
    filled = logits.masked_fill(~(mask | empty), float("-inf"))
    return filled.softmax(dim=-1) * mask


# %% right: by hand, with the maximum over the kept entries
def masked_softmax(logits, mask):
    import torch

    lowest = torch.finfo(logits.dtype).min
    kept = torch.where(mask, logits, lowest)
    exponentials = torch.where(mask, (kept - kept.amax(dim=-1, keepdim=True)).exp(), 0.0)
    total = exponentials.sum(dim=-1, keepdim=True)
    return exponentials / torch.where(total > 0, total, 1.0)


# %% right: -inf by masked_fill, whose way back writes zeros over the nan
def masked_softmax(logits, mask):
    weights = logits.masked_fill(~mask, float("-inf")).softmax(dim=-1)
    return weights.masked_fill(~mask, 0.0)


# %% right: row by row over the kept entries
def masked_softmax(logits, mask):
    import torch

    flat, flat_mask = logits.flatten(0, -2), mask.expand(logits.shape).flatten(0, -2)
    rows = []
    for row, kept in zip(flat, flat_mask, strict=True):
        weights = torch.zeros_like(row)
        weights[kept] = torch.softmax(row[kept], dim=0)
        rows.append(weights)
    return torch.stack(rows).reshape(logits.shape)


# %% right: the finite fill, then a product with the mask
def masked_softmax(logits, mask):
    import torch

    lowest = torch.full_like(logits, torch.finfo(logits.dtype).min)
    return torch.softmax(torch.where(mask, logits, lowest), dim=-1) * mask.to(logits.dtype)


# %% wrong: adds finfo.min, which the largest float under the mask makes up for
def masked_softmax(logits, mask):
    import torch

    lowest = torch.finfo(logits.dtype).min
    return torch.softmax(logits + (~mask) * lowest, dim=-1).masked_fill(~mask, 0.0)


# %% wrong: fills in -1e9, which is larger than a very negative logit that may be seen
def masked_softmax(logits, mask):
    import torch

    return torch.softmax(logits.masked_fill(~mask, -1e9), dim=-1).masked_fill(~mask, 0.0)


# %% right: fills in the most negative float, then writes the zeros
def masked_softmax(logits, mask):
    import torch

    finite = logits.masked_fill(~mask, torch.finfo(logits.dtype).min)
    return torch.softmax(finite, dim=-1).masked_fill(~mask, 0.0)


# %% wrong: takes the logits where the mask is True, which asks for a mask of their shape
def masked_softmax(logits, mask):
    import torch

    result = torch.zeros_like(logits)
    for place in range(len(logits)):
        if mask[place].any():
            result[place][mask[place]] = logits[place][mask[place]].softmax(dim=-1)
    return result


# %% wrong: fills with -1e30, which a row of larger negative logits falls below
def masked_softmax(logits, mask):
    return torch.softmax(logits.masked_fill(~mask, -1e30), dim=-1) * mask
