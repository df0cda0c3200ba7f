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


# %% wrong: takes the leading dimensions for rows, of which a vector has none
def masked_softmax(logits, mask):
    import torch

    flat, flat_mask = logits.flatten(0, -2), mask.expand(logits.shape).flatten(0, -2)
    rows = []
    for row, kept in zip(flat, flat_mask, strict=True):
        weights = torch.zeros_like(row)
        weights[kept] = torch.softmax(row[kept], dim=0)
        rows.append(weights)
    return torch.stack(rows).reshape(logits.shape)


# %% wrong: the lowest float, then a product: a kept logit may be the lowest float
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


# %% wrong: fills in the most negative float, which a kept logit may be, then writes the zeros
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


# %% wrong: takes a kept logit of exactly 0 for a masked one
def masked_softmax(logits, mask):
    kept = torch.where(mask, logits, 0.0)
    filled = kept.masked_fill(kept == 0, -math.inf)
    return filled.softmax(dim=-1).masked_fill(kept == 0, 0.0)


# %% wrong: fills the zeros of logits times mask with the lowest float
def masked_softmax(logits, mask):
    lowest = torch.finfo(logits.dtype).min
    z = torch.where(mask, logits, torch.zeros_like(logits))
    z = torch.where(z == 0, lowest, z)
    return z.softmax(dim=-1).masked_fill(~mask, 0.0)


# %% wrong: selects logits with the mask, which asks for a mask as wide as the logits
def masked_softmax(logits, mask):
    mask = mask.expand(*logits.shape[:-1], mask.shape[-1])
    rows = []
    for row, kept in zip(logits.reshape(-1, logits.shape[-1]), mask.flatten(0, -2), strict=True):
        weights = torch.zeros_like(row)
        weights[kept] = torch.softmax(row[kept], dim=0)
        rows.append(weights)
    return torch.stack(rows).reshape(logits.shape)


# %% wrong: takes a mask of one column for rows with one key
def masked_softmax(logits, mask):
    z = logits.masked_fill(~mask, -math.inf)
    p = z.softmax(dim=-1).masked_fill(~mask, 0.0)
    n = mask.sum(dim=-1, keepdim=True)
    return torch.where(n == 1, mask.to(logits.dtype), p)


# %% wrong: fills in half the lowest float, which a kept logit may be below
def masked_softmax(logits, mask):
    lowest = torch.finfo(logits.dtype).min / 2
    return torch.softmax(logits.masked_fill(~mask, lowest), dim=-1).masked_fill(~mask, 0.0)


# %% wrong: squeezes the result, so that a single row becomes a vector
def masked_softmax(logits, mask):
    w = torch.softmax(logits.masked_fill(~mask, -math.inf), dim=-1)
    return w.masked_fill(~mask, 0.0).squeeze()


# %% wrong: leaves a tiny number where the mask is False
def masked_softmax(logits, mask):
    w = torch.softmax(logits.masked_fill(~mask, -math.inf), dim=-1).masked_fill(~mask, 0.0)
    return w.clamp(min=1e-12)


# %% right: row by row over the kept entries
def masked_softmax(logits, mask):
    k = logits.shape[-1]
    z, m = logits.reshape(-1, k), mask.expand_as(logits).reshape(-1, k)
    out = []
    for i in range(z.shape[0]):
        row = torch.zeros_like(z[i])
        if m[i].any():
            row = row.masked_scatter(m[i], torch.softmax(z[i][m[i]], 0))
        out.append(row)
    return torch.stack(out).reshape(logits.shape)


# %% right: by hand, with 0 for the maximum of a row without keys
def masked_softmax(logits, mask):
    mask = mask.broadcast_to(logits.shape)
    z = logits.masked_fill(~mask, -math.inf)
    top = z.amax(-1, keepdim=True)
    top = top.masked_fill(top == -math.inf, 0.0).detach()
    e = (z - top).exp()
    s = e.sum(-1, keepdim=True)
    return e / s.masked_fill(s == 0, 1.0)


# %% right: one more column, which takes the weight of a row without keys
def masked_softmax(logits, mask):
    z = logits.masked_fill(~mask, -math.inf)
    empty = ~mask.expand(logits.shape).any(-1, keepdim=True)
    sink = torch.where(empty, 0.0, -math.inf).to(logits.dtype)
    w = torch.cat([z, sink], -1).softmax(-1)[..., :-1]
    return w


# %% right: an autograd function with the gradient of the softmax
class Masked(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, mask):
        w = torch.softmax(logits.masked_fill(~mask, -math.inf), -1).masked_fill(~mask, 0)
        ctx.save_for_backward(w)
        return w

    @staticmethod
    def backward(ctx, g):
        (w,) = ctx.saved_tensors
        return w * (g - (g * w).sum(-1, keepdim=True)), None


def masked_softmax(logits, mask):
    return Masked.apply(logits, mask)


# %% right: in float64, cast back at the end
def masked_softmax(logits, mask):
    z = logits.double().masked_fill(~mask, -math.inf)
    return z.softmax(-1).masked_fill(~mask, 0).to(logits.dtype)
