# %% wrong: the groups are interleaved, channel 0 with channel C / groups
def group_norm(x, groups, weight, bias, eps=1e-5):
    sizes = x.shape
    grouped = x.reshape(sizes[0], sizes[1] // groups, groups, -1)
    normalized = normalize(grouped, (1, 3), eps).reshape(sizes)
    per_channel = (1, -1) + (1,) * (x.ndim - 2)
    return normalized * weight.reshape(per_channel) + bias.reshape(per_channel)


# %% wrong: takes the number of groups for the number of channels in each
def group_norm(x, groups, weight, bias, eps=1e-5):
    grouped = x.reshape(len(x), x.shape[1] // groups, -1)
    normalized = normalize(grouped, (2,), eps).reshape(x.shape)
    per_channel = (1, -1) + (1,) * (x.ndim - 2)
    return normalized * weight.reshape(per_channel) + bias.reshape(per_channel)


# %% wrong: over the channels of a group, pixel by pixel
def group_norm(x, groups, weight, bias, eps=1e-5):
    grouped = x.reshape(len(x), groups, x.shape[1] // groups, *x.shape[2:])
    normalized = normalize(grouped, (2,), eps).reshape(x.shape)
    per_channel = (1, -1) + (1,) * (x.ndim - 2)
    return normalized * weight.reshape(per_channel) + bias.reshape(per_channel)


# %% wrong: over the positions alone, which is InstanceNorm whatever the groups
def group_norm(x, groups, weight, bias, eps=1e-5):
    normalized = normalize(x.reshape(len(x), x.shape[1], -1), (2,), eps).reshape(x.shape)
    per_channel = (1, -1) + (1,) * (x.ndim - 2)
    return normalized * weight.reshape(per_channel) + bias.reshape(per_channel)


# %% wrong: the pictures of the batch share their statistics
def group_norm(x, groups, weight, bias, eps=1e-5):
    normalized = normalize(x.reshape(len(x), groups, -1), (0, 2), eps).reshape(x.shape)
    per_channel = (1, -1) + (1,) * (x.ndim - 2)
    return normalized * weight.reshape(per_channel) + bias.reshape(per_channel)


# %% wrong: made for pictures alone, with four axes written out
def group_norm(x, groups, weight, bias, eps=1e-5):
    pictures, channels, rows, columns = x.shape
    grouped = x.reshape(pictures, groups, channels // groups, rows, columns)
    normalized = normalize(grouped, (2, 3, 4), eps).reshape(x.shape)
    return normalized * weight[:, None, None] + bias[:, None, None]


# %% wrong: one weight per group, the first channel's
def group_norm(x, groups, weight, bias, eps=1e-5):
    grouped = normalize(x.reshape(len(x), groups, -1), (2,), eps)
    step = x.shape[1] // groups
    grouped = grouped * weight[::step, None] + bias[::step, None]
    return grouped.reshape(x.shape)


# %% wrong: weight and bias are forgotten
def group_norm(x, groups, weight, bias, eps=1e-5):
    return normalize(x.reshape(len(x), groups, -1), (2,), eps).reshape(x.shape)


# %% wrong: weight and bias come before the normalization, which takes most of them out again
def group_norm(x, groups, weight, bias, eps=1e-5):
    per_channel = (1, -1) + (1,) * (x.ndim - 2)
    x = x * weight.reshape(per_channel) + bias.reshape(per_channel)
    return normalize(x.reshape(len(x), groups, -1), (2,), eps).reshape(x.shape)


# %% wrong: the bias is multiplied by the weight as well
def group_norm(x, groups, weight, bias, eps=1e-5):
    normalized = normalize(x.reshape(len(x), groups, -1), (2,), eps).reshape(x.shape)
    per_channel = (1, -1) + (1,) * (x.ndim - 2)
    return (normalized + bias.reshape(per_channel)) * weight.reshape(per_channel)


# %% wrong: the eps that was given is ignored
def group_norm(x, groups, weight, bias, eps=1e-5):
    normalized = normalize(x.reshape(len(x), groups, -1), (2,)).reshape(x.shape)
    per_channel = (1, -1) + (1,) * (x.ndim - 2)
    return normalized * weight.reshape(per_channel) + bias.reshape(per_channel)


# %% wrong: torch's own function
def group_norm(x, groups, weight, bias, eps=1e-5):
    import torch

    return torch.nn.functional.group_norm(x, groups, weight, bias, eps)


# %% wrong: the unbiased variance
def group_norm(x, groups, weight, bias, eps=1e-5):
    import torch

    grouped = x.reshape(len(x), groups, -1)
    variance, mean = torch.var_mean(grouped, dim=2, keepdim=True)
    normalized = ((grouped - mean) / (variance + eps).sqrt()).reshape(x.shape)
    per_channel = (1, -1) + (1,) * (x.ndim - 2)
    return normalized * weight.reshape(per_channel) + bias.reshape(per_channel)


# %% wrong: E[x^2] - E[x]^2, which loses the variance beside a large mean
def group_norm(x, groups, weight, bias, eps=1e-5):
    grouped = x.reshape(len(x), groups, -1)
    mean = grouped.mean(dim=2, keepdim=True)
    variance = (grouped * grouped).mean(dim=2, keepdim=True) - mean * mean
    normalized = (grouped - mean) / (variance.clamp(min=0) + eps).sqrt()
    per_channel = (1, -1) + (1,) * (x.ndim - 2)
    return normalized.reshape(x.shape) * weight.reshape(per_channel) + bias.reshape(per_channel)


# %% wrong: the statistics are detached, so the gradient does not go through them
def group_norm(x, groups, weight, bias, eps=1e-5):
    grouped = x.reshape(len(x), groups, -1)
    distance = grouped - grouped.mean(dim=2, keepdim=True).detach()
    variance = distance.square().mean(dim=2, keepdim=True).detach()
    normalized = (distance / (variance + eps).sqrt()).reshape(x.shape)
    per_channel = (1, -1) + (1,) * (x.ndim - 2)
    return normalized * weight.reshape(per_channel) + bias.reshape(per_channel)


# %% right: group by group, glued together again
def group_norm(x, groups, weight, bias, eps=1e-5):
    import torch

    parts = []
    for part in x.split(x.shape[1] // groups, dim=1):
        parts.append(normalize(part, tuple(range(1, x.ndim)), eps))
    normalized = torch.cat(parts, dim=1)
    per_channel = (-1,) + (1,) * (x.ndim - 2)
    return normalized * weight.reshape(per_channel) + bias.reshape(per_channel)


# %% right: by hand, with the channels last for weight and bias
def group_norm(x, groups, weight, bias, eps=1e-5):
    import torch

    grouped = x.reshape(len(x), groups, x.shape[1] // groups, -1)
    variance, mean = torch.var_mean(grouped, dim=(2, 3), correction=0, keepdim=True)
    normalized = ((grouped - mean) * (variance + eps).rsqrt()).reshape(x.shape)
    return (normalized.movedim(1, -1) * weight + bias).movedim(-1, 1)


# %% right: unflatten, and weights that are unflattened with it
def group_norm(x, groups, weight, bias, eps=1e-5):
    flat = x.unflatten(1, (groups, -1)).flatten(3) if x.ndim > 2 else None
    if flat is None:
        flat = x.unflatten(1, (groups, -1)).unsqueeze(-1)
    normalized = normalize(flat, (-1, -2), eps)
    scaled = normalized * weight.view(groups, -1, 1) + bias.view(groups, -1, 1)
    return scaled.reshape(x.shape)


# %% right: with view, in float64 inside
def group_norm(x, groups, weight, bias, eps=1e-5):
    normalized = normalize(x.double().reshape(len(x), groups, -1), (2,), eps).view(x.shape)
    per_channel = (1, -1) + (1,) * (x.ndim - 2)
    return (normalized * weight.view(per_channel) + bias.view(per_channel)).to(x.dtype)


# %% wrong: torch's own class
def group_norm(x, groups, weight, bias, eps=1e-5):
    per_channel = (1, -1) + (1,) * (x.ndim - 2)
    norm = nn.GroupNorm(groups, x.shape[1], eps=eps, affine=False)
    return norm(x) * weight.reshape(per_channel) + bias.reshape(per_channel)


# %% wrong: torch's own operator, by the name that it has inside
def group_norm(x, groups, weight, bias, eps=1e-5):
    pictures, channels = x.shape[:2]
    positions = x[0, 0].numel()
    given = x.contiguous(), weight, bias, pictures, channels, positions, groups, eps
    return torch.native_group_norm(*given)[0]


# %% wrong: computed in float32, whatever came in
def group_norm(x, groups, weight, bias, eps=1e-5):
    rows = x.float().reshape(len(x), groups, -1)
    rows = rows - rows.mean(dim=-1, keepdim=True)
    rows = rows / (rows.square().mean(dim=-1, keepdim=True) + eps).sqrt()
    shape = (1, -1) + (1,) * (x.ndim - 2)
    return (rows.reshape(x.shape) * weight.reshape(shape) + bias.reshape(shape)).to(x.dtype)


# %% wrong: the bias gets no gradient
def group_norm(x, groups, weight, bias, eps=1e-5):
    rows = x.reshape(len(x), groups, -1)
    rows = rows - rows.mean(dim=-1, keepdim=True)
    rows = rows / (rows.square().mean(dim=-1, keepdim=True) + eps).sqrt()
    shape = (1, -1) + (1,) * (x.ndim - 2)
    return rows.reshape(x.shape) * weight.reshape(shape) + bias.detach().reshape(shape)


# %% right: one group after another
def group_norm(x, groups, weight, bias, eps=1e-5):
    import torch

    parts = []
    for part in x.chunk(groups, dim=1):
        axes = tuple(range(1, x.ndim))
        distance = part - part.mean(dim=axes, keepdim=True)
        parts.append(distance / (distance.square().mean(dim=axes, keepdim=True) + eps) ** 0.5)
    shape = (-1,) + (1,) * (x.ndim - 2)
    return torch.cat(parts, dim=1) * weight.view(shape) + bias.view(shape)


# %% wrong: a group of equal numbers becomes nan
def group_norm(x, groups, weight, bias, eps=1e-5):
    import torch

    rows = x.reshape(len(x), groups, -1)
    variance, mean = torch.var_mean(rows, dim=-1, correction=0, keepdim=True)
    rows = (rows - mean) / (variance + eps).sqrt()
    shape = (1, -1) + (1,) * (x.ndim - 2)
    rows = torch.where(variance > 0, rows, torch.nan)
    return rows.reshape(x.shape) * weight.view(shape) + bias.view(shape)


# %% wrong: five groups at most
def group_norm(x, groups, weight, bias, eps=1e-5):
    import torch

    groups = min(groups, 5)
    rows = x.reshape(len(x), groups, -1)
    variance, mean = torch.var_mean(rows, dim=-1, correction=0, keepdim=True)
    rows = (rows - mean) / (variance + eps).sqrt()
    shape = (1, -1) + (1,) * (x.ndim - 2)
    return rows.reshape(x.shape) * weight.view(shape) + bias.view(shape)


# %% wrong: changes the caller's x
def group_norm(x, groups, weight, bias, eps=1e-5):
    import torch

    with torch.no_grad():
        x.add_(1e-3)
    rows = x.reshape(len(x), groups, -1)
    variance, mean = torch.var_mean(rows, dim=-1, correction=0, keepdim=True)
    rows = (rows - mean) / (variance + eps).sqrt()
    shape = (1, -1) + (1,) * (x.ndim - 2)
    return rows.reshape(x.shape) * weight.view(shape) + bias.view(shape)


# %% wrong: view, which fails on images in channels_last format
def group_norm(x, groups, weight, bias, eps=1e-5):
    normalized = normalize(x.view(len(x), groups, -1), (2,), eps).view(x.shape)
    per_channel = (1, -1) + (1,) * (x.ndim - 2)
    return normalized * weight.view(per_channel) + bias.view(per_channel)


# %% wrong: squeeze, which drops the batch of a single example too
def group_norm(x, groups, weight, bias, eps=1e-5):
    grouped = x.reshape(len(x), groups, -1)
    normalized = normalize(grouped, (2,), eps).reshape(x.shape).squeeze()
    return (normalized.transpose(1, -1) * weight + bias).transpose(1, -1)


# %% wrong: refuses a group of a single number
def group_norm(x, groups, weight, bias, eps=1e-5):
    rows = x.reshape(len(x), groups, -1)
    if rows.shape[-1] == 1:
        raise ValueError("one value per group")
    s = (1, -1) + (1,) * (x.ndim - 2)
    return normalize(rows, (2,), eps).reshape(x.shape) * weight.view(s) + bias.view(s)


# %% wrong: weight and bias are reshaped for two to five axes, each written out
def group_norm(x, groups, weight, bias, eps=1e-5):
    n = normalize(x.reshape(len(x), groups, -1), (2,), eps).reshape(x.shape)
    if x.ndim == 4:
        return n * weight[:, None, None] + bias[:, None, None]
    if x.ndim == 3:
        return n * weight[:, None] + bias[:, None]
    if x.ndim == 2:
        return n * weight + bias
    return n * weight[:, None, None, None] + bias[:, None, None, None]


# %% right: each entry divided by the count before the sum
def group_norm(x, groups, weight, bias, eps=1e-5):
    r = x.reshape(x.shape[0], groups, x.shape[1] // groups, -1)
    n = r.shape[2] * r.shape[3]
    d = r - (r / n).sum((2, 3), keepdim=True)
    v = (d / n * d).sum((2, 3), keepdim=True)
    return ((d / (v + eps).sqrt()) * weight.view(groups, -1, 1) + bias.view(groups, -1, 1)).reshape(
        x.shape
    )


# %% right: loops over examples, groups and channels
def group_norm(x, groups, weight, bias, eps=1e-5):
    step = x.shape[1] // groups
    out = torch.zeros_like(x)
    for n in range(x.shape[0]):
        for g in range(groups):
            part = x[n, g * step : (g + 1) * step]
            m = part.mean()
            v = ((part - m) ** 2).mean()
            for c in range(step):
                k = g * step + c
                out[n, k] = (part[c] - m) / torch.sqrt(v + eps) * weight[k] + bias[k]
    return out


# %% right: each group is a row of contiguous memory
def group_norm(x, groups, weight, bias, eps=1e-5):
    rows = x.contiguous().view(x.shape[0] * groups, -1)
    y = normalize(rows, (-1,), eps).view(x.shape)
    return torch.addcmul(
        bias.view(-1, *[1] * (x.ndim - 2)), y, weight.view(-1, *[1] * (x.ndim - 2))
    )
