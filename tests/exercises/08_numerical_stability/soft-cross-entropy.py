# %% wrong: softmax, then log: a gap of a thousand costs inf
def soft_cross_entropy(logits, labels):
    return -(labels * logits.softmax(dim=1).log()).sum(dim=1)


# %% wrong: log_softmax, but 0 times -inf is left to be nan
def soft_cross_entropy(logits, labels):
    return -(labels * logits.log_softmax(dim=1)).sum(dim=1)


# %% wrong: trusts the fused function with the labels of 0 on -inf
def soft_cross_entropy(logits, labels):
    from torch.nn import functional

    return functional.cross_entropy(logits, labels, reduction="none")


# %% wrong: takes the mean over the batch
def soft_cross_entropy(logits, labels):
    from torch.nn import functional

    return functional.cross_entropy(logits, labels)


# %% wrong: takes the mean over the classes
def soft_cross_entropy(logits, labels):
    logs = logits.log_softmax(dim=1).masked_fill(labels == 0, 0.0)
    return -(labels * logs).mean(dim=1)


# %% wrong: makes hard labels out of soft ones
def soft_cross_entropy(logits, labels):
    from torch.nn import functional

    return functional.cross_entropy(logits, labels.argmax(dim=1), reduction="none")


# %% wrong: clamps the logarithm at -100, as BCELoss does
def soft_cross_entropy(logits, labels):
    return -(labels * logits.log_softmax(dim=1).clamp(min=-100)).sum(dim=1)


# %% wrong: adds a small number inside the logarithm
def soft_cross_entropy(logits, labels):
    return -(labels * (logits.softmax(dim=1) + 1e-12).log()).sum(dim=1)


# %% wrong: uses xlogy on probabilities, which settles 0 log 0 but not the underflow
def soft_cross_entropy(logits, labels):
    import torch

    return -torch.special.xlogy(labels, logits.softmax(dim=1)).sum(dim=1)


# %% wrong: turns every -inf into a large number, also where a label asks for it
def soft_cross_entropy(logits, labels):
    logs = logits.log_softmax(dim=1).nan_to_num(neginf=-1e4)
    return -(labels * logs).sum(dim=1)


# %% wrong: makes the labels sum to one first
def soft_cross_entropy(logits, labels):
    logs = logits.log_softmax(dim=1).masked_fill(labels == 0, 0.0)
    return -(labels / labels.sum(dim=1, keepdim=True) * logs).sum(dim=1)


# %% wrong: counts the log-sum-exp once, whatever the labels sum to
def soft_cross_entropy(logits, labels):
    chosen = (labels * logits.masked_fill(labels == 0, 0.0)).sum(dim=1)
    return logits.logsumexp(dim=1) - chosen


# %% wrong: the other way round, without the minus sign
def soft_cross_entropy(logits, labels):
    logs = logits.log_softmax(dim=1).masked_fill(labels == 0, 0.0)
    return (labels * logs).sum(dim=1)


# %% right: where, on the product
def soft_cross_entropy(logits, labels):
    import torch

    products = labels * torch.log_softmax(logits, dim=-1)
    return -torch.where(labels > 0, products, torch.zeros_like(products)).sum(dim=-1)


# %% right: the labels' sum times the log-sum-exp, minus labels times logits, both shifted
def soft_cross_entropy(logits, labels):
    import math

    import torch

    shifted = logits - logits.amax(dim=1, keepdim=True)
    chosen = (labels * shifted.masked_fill(labels == 0, 0.0)).sum(dim=1)
    impossible = ((labels > 0) & (logits == -math.inf)).any(dim=1)
    chosen = torch.where(impossible, -math.inf, chosen)
    return labels.sum(dim=1) * shifted.logsumexp(dim=1) - chosen


# %% wrong: row by row, the log-sum-exp minus the logit, which have few digits at a million
def soft_cross_entropy(logits, labels):
    import torch

    losses = []
    for row, label in zip(logits, labels, strict=True):
        log_sum = row.max() + (row - row.max()).exp().sum().log()
        kept = label > 0
        losses.append((label[kept] * (log_sum - row[kept])).sum())
    return torch.stack(losses)


# %% right: in float64 and cast back
def soft_cross_entropy(logits, labels):
    logs = logits.double().log_softmax(dim=1)
    logs = logs.masked_fill(labels == 0, 0.0)
    return -(labels.double() * logs).sum(dim=1).to(logits.dtype)


# %% wrong: rules the classes with label 0 out of the softmax, so that they cost nothing at all
def soft_cross_entropy(logits, labels):
    import torch

    kept = logits.masked_fill(labels == 0, float("-inf"))
    log_probabilities = torch.log_softmax(kept, dim=1).masked_fill(labels == 0, 0.0)
    return -(labels * log_probabilities).sum(dim=1)


# %% wrong: replaces every nan and inf of the product, also the inf that is the right loss
def soft_cross_entropy(logits, labels):
    import torch

    return -(labels * torch.log_softmax(logits, dim=1)).nan_to_num(0.0).sum(dim=1)


# %% wrong: makes the labels sum to one and multiplies again, 0/0 in a row without labels
def soft_cross_entropy(logits, labels):
    total = labels.sum(dim=1, keepdim=True)
    logs = logits.log_softmax(dim=1).masked_fill(labels == 0, 0.0)
    return -(total * (labels / total) * logs).sum(dim=1)


# %% wrong: fills every -inf in with a finite number, which a label above 0 does not notice
def soft_cross_entropy(logits, labels):
    import torch

    finite = logits.clamp(min=torch.finfo(logits.dtype).min / 4)
    return -(labels * torch.log_softmax(finite, dim=1)).sum(dim=1)


# %% right: nan alone is replaced, which only 0 times -inf can be
def soft_cross_entropy(logits, labels):
    import math

    terms = labels * logits.log_softmax(dim=-1)
    return -terms.nan_to_num(nan=0.0, neginf=-math.inf).sum(dim=-1)


# %% wrong: makes inf of a finite loss by dividing by 0, which makes nan of its gradient
def soft_cross_entropy(logits, labels):
    import math

    import torch

    lowest = torch.finfo(logits.dtype).min / 2
    possible = ~((labels > 0) & (logits == -math.inf)).any(dim=1)
    logs = logits.masked_fill(logits == -math.inf, lowest).log_softmax(dim=1)
    return -(labels * torch.where(labels > 0, logs, 0.0)).sum(dim=1) / possible


# %% wrong: takes tiny labels for 0
def soft_cross_entropy(logits, labels):
    logarithms = torch.log_softmax(logits, dim=1).masked_fill(labels < 1e-6, 0.0)
    return -(labels * logarithms).sum(dim=1)


# %% wrong: squeezes the losses, so that a single row loses its dimension
def soft_cross_entropy(logits, labels):
    logs = torch.log_softmax(logits, dim=1).masked_fill(labels == 0, 0.0)
    return -(labels * logs).sum(dim=1).squeeze()


# %% wrong: squeezes the products before the sum, so that a single row becomes one number
def soft_cross_entropy(logits, labels):
    logs = torch.log_softmax(logits, dim=1).masked_fill(labels == 0, 0.0)
    return -(labels * logs).squeeze().sum(dim=-1)


# %% wrong: shares of the labels, 0/0 in a row without any, and nan in its gradient
def soft_cross_entropy(logits, labels):
    total = labels.sum(dim=1, keepdim=True)
    logs = torch.log_softmax(logits, dim=1)
    impossible = torch.where(labels > 0, -math.inf, 0.0)
    terms = torch.where(logs > -math.inf, labels / total * logs, impossible)
    return torch.where(total > 0, -total * terms, 0.0).sum(dim=1)


# %% wrong: fills -inf in with -1e9, which is larger than very negative logits
def soft_cross_entropy(logits, labels):
    impossible = ((labels > 0) & (logits == -math.inf)).any(dim=1)
    finite = logits.masked_fill(logits == -math.inf, -1e9)
    losses = -(labels * torch.log_softmax(finite, dim=1)).sum(dim=1)
    return losses.masked_fill(impossible, math.inf)


# %% wrong: fills -inf in with the lowest float, which a logit may be itself
def soft_cross_entropy(logits, labels):
    impossible = ((labels > 0) & (logits == -math.inf)).any(dim=1)
    finite = logits.clamp(min=torch.finfo(logits.dtype).min)
    logs = torch.log_softmax(finite, dim=1).masked_fill(labels == 0, 0.0)
    return -(labels * logs).sum(dim=1).masked_fill(impossible, -math.inf)


# %% wrong: subtracts the log-sum-exp, whose digits a maximum of a million swallows
def soft_cross_entropy(logits, labels):
    logs = logits - torch.logsumexp(logits, dim=1, keepdim=True)
    return -(labels * logs.masked_fill(labels == 0, 0.0)).sum(dim=1)


# %% wrong: the labels' sum times the log-sum-exp, minus labels times logits, neither shifted
def soft_cross_entropy(logits, labels):
    products = torch.where(labels > 0, labels * logits, 0.0)
    return labels.sum(dim=1) * torch.logsumexp(logits, dim=1) - products.sum(dim=1)


# %% wrong: passes a gradient on to the logits of a padded row
def soft_cross_entropy(logits, labels):
    logs = torch.log_softmax(logits, dim=1)
    loss = -(labels * logs.masked_fill(labels == 0, 0.0)).sum(dim=1)
    empty = (labels.sum(dim=1) == 0).to(logits.dtype)
    z = logits.masked_fill(logits == -math.inf, 0.0).sum(dim=1)
    return loss + empty * (z - z.detach())


# %% right: nansum, which leaves out 0 times -inf
def soft_cross_entropy(logits, labels):
    return -torch.nansum(labels * torch.log_softmax(logits, dim=1), dim=1)


# %% right: the terms of the labels above 0, added to their rows
def soft_cross_entropy(logits, labels):
    log_p = torch.log_softmax(logits, dim=1)
    rows, classes = labels.nonzero(as_tuple=True)
    terms = -labels[rows, classes] * log_p[rows, classes]
    return torch.zeros(len(logits), dtype=logits.dtype).index_add(0, rows, terms)


# %% right: the divergence plus the entropy of the labels
def soft_cross_entropy(logits, labels):
    from torch.nn import functional

    logs = torch.log_softmax(logits, 1)
    inf = ((labels > 0) & logs.isinf()).any(1)
    logs = logs.masked_fill(logs.isinf(), 0.0)
    loss = functional.kl_div(logs, labels, reduction="none").sum(1) + torch.special.entr(
        labels
    ).sum(1)
    return torch.where(inf, math.inf, loss)


# %% right: a batched product of rows and columns
def soft_cross_entropy(logits, labels):
    s = (-torch.log_softmax(logits, -1)).masked_fill(labels.eq(0), 0)
    return torch.bmm(labels[:, None, :], s[:, :, None]).flatten()


# %% right: a function of one row, mapped over the rows
def soft_cross_entropy(logits, labels):
    def one(z, y):
        logs = torch.log_softmax(z, 0)
        return -(y * torch.where(y > 0, logs, 0.0)).sum()

    return torch.func.vmap(one)(logits, labels)


# %% right: the definition by hand, row by row, over the classes with a label
def soft_cross_entropy(logits, labels):
    losses = []
    for row, label in zip(logits, labels, strict=True):
        row = row - row.max()
        kept = label > 0
        losses.append((label[kept] * (row.exp().sum().log() - row[kept])).sum())
    return torch.stack(losses)
