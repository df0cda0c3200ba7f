# %% wrong: divides by all tokens
def masked_mean(x, mask):
    return torch.where(mask[:, :, None], x, 0.0).mean(dim=1)


# %% wrong: multiplies padding away, and nan stays nan
def masked_mean(x, mask):
    counts = mask.sum(dim=1, keepdim=True).clamp(min=1)
    return (x * mask[:, :, None]).sum(dim=1) / counts


# %% wrong: the mask on the features
def masked_mean(x, mask):
    counts = mask.sum(dim=1, keepdim=True).clamp(min=1)
    return torch.where(mask[:, None, :], x, 0.0).sum(dim=1) / counts


# %% wrong: 0 / 0 for a text without tokens
def masked_mean(x, mask):
    total = torch.where(mask[:, :, None], x, 0.0).sum(dim=1)
    return total / mask.sum(dim=1, keepdim=True)


# %% wrong: one mean over the tokens of all texts
def masked_mean(x, mask):
    total = torch.where(mask[:, :, None], x, 0.0).sum(dim=(0, 1))
    return (total / mask.sum().clamp(min=1)).expand(len(x), -1)


# %% wrong: one more in every denominator
def masked_mean(x, mask):
    total = torch.where(mask[:, :, None], x, 0.0).sum(dim=1)
    return total / (mask.sum(dim=1, keepdim=True) + 1)


# %% wrong: the mean of the padding instead
def masked_mean(x, mask):
    total = torch.where(mask[:, :, None], 0.0, x).sum(dim=1)
    return total / (~mask).sum(dim=1, keepdim=True).clamp(min=1)


# %% wrong: repairs nan and forgets inf
def masked_mean(x, mask):
    clean = torch.where(x.isnan(), 0.0, x) * mask[:, :, None]
    return clean.sum(dim=1) / mask.sum(dim=1, keepdim=True).clamp(min=1)


# %% right: by masked_fill and a sum
def masked_mean(x, mask):
    total = x.masked_fill(~mask.unsqueeze(-1), 0.0).sum(1)
    return total / torch.clamp(mask.sum(1), min=1)[:, None]


# %% right: one text after another
def masked_mean(x, mask):
    means = []
    for text, real in zip(x, mask, strict=False):
        means.append(text[real].mean(dim=0) if real.any() else 0.0 * torch.nan_to_num(text[0]))
    return torch.stack(means)


# %% right: weights for a product, after the padding is replaced
def masked_mean(x, mask):
    clean = torch.where(mask[..., None], x, torch.zeros_like(x))
    weights = mask.to(x.dtype) / mask.sum(dim=1, keepdim=True).clamp(min=1)
    return torch.einsum("bt,btd->bd", weights, clean)


# %% wrong: repairs all nan and inf, the real ones too
def masked_mean(x, mask):
    clean = torch.nan_to_num(x) * mask[:, :, None]
    return clean.sum(dim=1) / mask.sum(dim=1, keepdim=True).clamp(min=1)


# %% wrong: torch's nanmean, which hides a real nan
def masked_mean(x, mask):
    hidden = torch.where(mask[:, :, None], x, torch.nan)
    return hidden.nanmean(dim=1).nan_to_num(0.0)


# %% wrong: counts in float16, and the mean with them
def masked_mean(x, mask):
    total = torch.where(mask[:, :, None], x, 0.0).sum(dim=1)
    return (total.half() / mask.sum(dim=1, keepdim=True).clamp(min=1)).to(x.dtype)


# %% wrong: writes zeros into the padding of the caller's tensor
def masked_mean(x, mask):
    x[~mask] = 0.0
    return x.sum(dim=1) / mask.sum(dim=1, keepdim=True).clamp(min=1)


# %% right: the padding is selected away, and sums are added up by text
def masked_mean(x, mask):
    texts, _ = mask.nonzero(as_tuple=True)
    total = x.new_zeros(len(x), x.shape[2]).index_add(0, texts, x[mask])
    return total / mask.sum(dim=1, keepdim=True).clamp(min=1)


# %% wrong: zeros times the padding, for a text without real tokens
def masked_mean(x, mask):
    count = mask.sum(dim=1, keepdim=True)
    mean = torch.where(mask[:, :, None], x, 0.0).sum(dim=1) / count.clamp(min=1)
    return torch.where(count > 0, mean, 0 * x.mean(dim=1))


# %% wrong: takes a text whose features are all nan for one without real tokens
def masked_mean(x, mask):
    mean = torch.where(mask[:, :, None], x, 0.0).sum(dim=1) / mask.sum(dim=1, keepdim=True)
    return torch.where(mean.isnan().all(dim=1, keepdim=True), 0.0, mean)


# %% wrong: takes features of 0 for padding
def masked_mean(x, mask):
    clean = torch.where(mask[:, :, None], x, 0.0)
    return clean.sum(dim=1) / (clean != 0).sum(dim=1).clamp(min=1)


# %% wrong: squeezes the mean
def masked_mean(x, mask):
    total = torch.where(mask[:, :, None], x, 0.0).sum(dim=1)
    return (total / mask.sum(dim=1, keepdim=True).clamp(min=1)).squeeze()


# %% wrong: counts in a byte, which ends at 255
def masked_mean(x, mask):
    total = torch.where(mask[:, :, None], x, 0.0).sum(dim=1)
    return total / mask.sum(dim=1, keepdim=True, dtype=torch.uint8).clamp(min=1)


# %% wrong: a text of one token counts, whatever the mask says
def masked_mean(x, mask):
    if x.shape[1] == 1:
        return x[:, 0]
    total = torch.where(mask[:, :, None], x, 0.0).sum(dim=1)
    return total / mask.sum(dim=1, keepdim=True).clamp(min=1)


# %% wrong: a batch of one text is averaged without a look at an empty one
def masked_mean(x, mask):
    if len(x) == 1:
        return x[mask].mean(dim=0, keepdim=True)
    total = torch.where(mask[:, :, None], x, 0.0).sum(dim=1)
    return total / mask.sum(dim=1, keepdim=True).clamp(min=1)


# %% wrong: writes zeros into the padding, out of autograd's sight
def masked_mean(x, mask):
    x.detach().masked_fill_(~mask[:, :, None], 0.0)
    return (x * mask[:, :, None]).sum(dim=1) / mask.sum(dim=1, keepdim=True).clamp(min=1)


# %% right: a small number beside the count, which float32 does not keep
def masked_mean(x, mask):
    total = torch.where(mask[:, :, None], x, 0.0).sum(dim=1)
    return total / (mask.sum(dim=1, keepdim=True) + 1e-8)


# %% wrong: zeros of the default dtype, with no gradient, where no text has a real token
def masked_mean(x, mask):
    if not mask.any():
        return torch.zeros(x.shape[0], x.shape[2])
    return torch.where(mask[..., None], x, 0).sum(1) / mask.sum(1, keepdim=True).clamp(min=1)


# %% wrong: counts the tokens that are not all zeros
def masked_mean(x, mask):
    filled = torch.where(mask[..., None], x, 0)
    n = filled.abs().sum(-1).ne(0).sum(1, keepdim=True).clamp(min=1)
    return filled.sum(1) / n


# %% wrong: counts in bfloat16, which has no 281
def masked_mean(x, mask):
    count = mask.bfloat16().sum(1, keepdim=True).clamp(min=1)
    return torch.where(mask[..., None], x, 0).sum(1) / count.to(x.dtype)


# %% wrong: float32 weights, also for float64
def masked_mean(x, mask):
    weights = mask.float() / mask.sum(1, keepdim=True).clamp(min=1).float()
    return (torch.where(mask[..., None], x, 0) * weights[..., None].to(x.dtype)).sum(1)


# %% wrong: where all tokens are real, nan is passed over
def masked_mean(x, mask):
    if mask.all():
        return x.nanmean(1)
    total = torch.where(mask[:, :, None], x, 0.0).sum(dim=1)
    return total / mask.sum(dim=1, keepdim=True).clamp(min=1)


# %% wrong: weights in float32, whatever the dtype of the features
def masked_mean(x, mask):
    weights = mask.float() / mask.sum(dim=1, keepdim=True).clamp(min=1)
    return (torch.where(mask[:, :, None], x, 0.0) * weights[:, :, None]).sum(dim=1)


# %% right: counts in float32, which are exact
def masked_mean(x, mask):
    counts = mask.float().sum(dim=1, keepdim=True).clamp(min=1)
    return x.masked_fill(~mask[:, :, None], 0.0).sum(dim=1) / counts


# %% right: text by text, with new zeros where nothing is real
def masked_mean(x, mask):
    means = [
        text[real].mean(dim=0) if real.any() else text.new_zeros(text.shape[1])
        for text, real in zip(x, mask, strict=True)
    ]
    return torch.stack(means)
