# %% wrong: the sums go over the whole batch
def dice_loss(logits, masks):
    p = logits.float().sigmoid()
    return 1 - (2 * (p * masks).sum() + 1) / (p.sum() + masks.sum() + 1)


# %% wrong: logits are taken for probabilities
def dice_loss(logits, masks):
    p, m = logits.float().flatten(1), masks.flatten(1)
    return (1 - (2 * (p * m).sum(1) + 1) / (p.sum(1) + m.sum(1) + 1)).mean()


# %% wrong: the sums are in half precision
def dice_loss(logits, masks):
    p, m = logits.sigmoid().flatten(1), masks.to(logits.dtype).flatten(1)
    return (1 - (2 * (p * m).sum(1) + 1) / (p.sum(1) + m.sum(1) + 1)).mean().float()


# %% wrong: the sigmoid is rounded to half precision
def dice_loss(logits, masks):
    p, m = logits.sigmoid().float().flatten(1), masks.flatten(1)
    return (1 - (2 * (p * m).sum(1) + 1) / (p.sum(1) + m.sum(1) + 1)).mean()


# %% wrong: yes and no in the place of probabilities, so that nothing can be learned from it
def dice_loss(logits, masks):
    p, m = (logits > 0).float().flatten(1), masks.flatten(1)
    return (1 - (2 * (p * m).sum(1) + 1) / (p.sum(1) + m.sum(1) + 1)).mean() + 0 * logits.sum()


# %% wrong: the coefficient, not one minus it
def dice_loss(logits, masks):
    p, m = logits.float().sigmoid().flatten(1), masks.flatten(1)
    return ((2 * (p * m).sum(1) + 1) / (p.sum(1) + m.sum(1) + 1)).mean()


# %% wrong: squares in the denominator, which is another loss
def dice_loss(logits, masks):
    p, m = logits.float().sigmoid().flatten(1), masks.flatten(1)
    return (1 - (2 * (p * m).sum(1) + 1) / ((p * p).sum(1) + (m * m).sum(1) + 1)).mean()


# %% wrong: without the ones, where there is nothing to find
def dice_loss(logits, masks):
    p, m = logits.float().sigmoid().flatten(1), masks.flatten(1)
    return (1 - 2 * (p * m).sum(1) / (p.sum(1) + m.sum(1))).mean()


# %% wrong: a fraction for each channel
def dice_loss(logits, masks):
    p, m = logits.float().sigmoid().flatten(2), masks.flatten(2)
    return (1 - (2 * (p * m).sum(2) + 1) / (p.sum(2) + m.sum(2) + 1)).mean()


# %% right: sample by sample, in float64
def dice_loss(logits, masks):
    losses = []
    for one, mask in zip(logits.double().sigmoid(), masks.double(), strict=True):
        losses.append(1 - (2 * (one * mask).sum() + 1) / (one.sum() + mask.sum() + 1))
    return torch.stack(losses).mean().float()


# %% right: with einsum, and the formula turned over
def dice_loss(logits, masks):
    p, m = torch.sigmoid(logits.to(torch.float32)).flatten(1), masks.float().flatten(1)
    common = torch.einsum("nv,nv->n", p, m)
    both = (p + m).sum(dim=1)
    return ((both - 2 * common) / (both + 1)).mean()


# %% wrong: the axes of a volume are written down, so that pictures fail
def dice_loss(logits, masks):
    p, axes = logits.float().sigmoid(), (1, 2, 3, 4)
    common = (p * masks).sum(axes)
    return (1 - (2 * common + 1) / (p.sum(axes) + masks.sum(axes) + 1)).mean()


# %% wrong: the sigmoid is a fraction of two exponentials, which overflow
def dice_loss(logits, masks):
    e = torch.exp(logits.float()).flatten(1)
    p, m = e / (1 + e), masks.flatten(1)
    return (1 - (2 * (p * m).sum(1) + 1) / (p.sum(1) + m.sum(1) + 1)).mean()


# %% wrong: the sigmoid divides by an exponential that overflows, so that its gradient is nan
def dice_loss(logits, masks):
    p, m = 1 / (1 + torch.exp(-logits.float().flatten(1))), masks.flatten(1)
    return (1 - (2 * (p * m).sum(1) + 1) / (p.sum(1) + m.sum(1) + 1)).mean()


# %% right: the sigmoid as a hyperbolic tangent
def dice_loss(logits, masks):
    p, m = 0.5 + 0.5 * torch.tanh(0.5 * logits.float().flatten(1)), masks.flatten(1)
    return 1 - ((2 * (p * m).sum(1) + 1) / (p.sum(1) + m.sum(1) + 1)).mean()
