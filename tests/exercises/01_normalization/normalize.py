# %% wrong: the unbiased variance, which `var` computes by default
def normalize(x, axes, eps=1e-5):
    mean = x.mean(dim=axes, keepdim=True)
    return (x - mean) / (x.var(dim=axes, keepdim=True) + eps).sqrt()


# %% wrong: eps is added to the standard deviation, not to the variance
def normalize(x, axes, eps=1e-5):
    mean = x.mean(dim=axes, keepdim=True)
    return (x - mean) / (x.std(dim=axes, keepdim=True, correction=0) + eps)


# %% wrong: eps is left out
def normalize(x, axes, eps=1e-5):
    mean = x.mean(dim=axes, keepdim=True)
    return (x - mean) / x.std(dim=axes, keepdim=True, correction=0)


# %% wrong: divides by the variance
def normalize(x, axes, eps=1e-5):
    mean = x.mean(dim=axes, keepdim=True)
    return (x - mean) / (x.var(dim=axes, keepdim=True, correction=0) + eps)


# %% wrong: E[x^2] - E[x]^2, which loses the variance beside a large mean
def normalize(x, axes, eps=1e-5):
    mean = x.mean(dim=axes, keepdim=True)
    variance = (x * x).mean(dim=axes, keepdim=True) - mean * mean
    return (x - mean) / (variance.clamp(min=0) + eps).sqrt()


# %% wrong: one axis after the other is not all axes at once
def normalize(x, axes, eps=1e-5):
    for axis in axes:
        mean = x.mean(dim=axis, keepdim=True)
        x = (x - mean) / (x.var(dim=axis, keepdim=True, correction=0) + eps).sqrt()
    return x


# %% wrong: the axes are taken for those that keep statistics of their own
def normalize(x, axes, eps=1e-5):
    others = tuple(set(range(x.ndim)) - {axis % x.ndim for axis in axes})
    mean = x.mean(dim=others, keepdim=True)
    return (x - mean) / (x.var(dim=others, keepdim=True, correction=0) + eps).sqrt()


# %% wrong: one mean and one variance for the whole tensor
def normalize(x, axes, eps=1e-5):
    return (x - x.mean()) / (x.var(correction=0) + eps).sqrt()


# %% wrong: without keepdim the statistics broadcast along the wrong axis, or not at all
def normalize(x, axes, eps=1e-5):
    return (x - x.mean(dim=axes)) / (x.var(dim=axes, correction=0) + eps).sqrt()


# %% wrong: the statistics are detached, so the gradient does not go through them
def normalize(x, axes, eps=1e-5):
    mean = x.mean(dim=axes, keepdim=True).detach()
    variance = x.var(dim=axes, keepdim=True, correction=0).detach()
    return (x - mean) / (variance + eps).sqrt()


# %% wrong: works in place, on the caller's tensor
def normalize(x, axes, eps=1e-5):
    import torch

    variance, mean = torch.var_mean(x, dim=axes, correction=0, keepdim=True)
    if x.requires_grad:
        return (x - mean) / (variance + eps).sqrt()
    x -= mean
    x /= (variance + eps).sqrt()
    return x


# %% wrong: the eps that was given is ignored
def normalize(x, axes, eps=1e-5):
    import torch

    variance, mean = torch.var_mean(x, dim=axes, correction=0, keepdim=True)
    return (x - mean) / (variance + 1e-5).sqrt()


# %% wrong: the root of the variance alone, whose slope at 0 is infinite, then the larger one
def normalize(x, axes, eps=1e-5):
    import torch

    variance, mean = torch.var_mean(x, dim=axes, correction=0, keepdim=True)
    deviation = (variance.sqrt() ** 2 + eps).sqrt()
    return (x - mean) / deviation


# %% wrong: computed in float32, whatever came in
def normalize(x, axes, eps=1e-5):
    import torch

    variance, mean = torch.var_mean(x.float(), dim=axes, correction=0, keepdim=True)
    return ((x - mean) / (variance + eps).sqrt()).to(x.dtype)


# %% wrong: torch's own layer norm on rows, called by its short name
def normalize(x, axes, eps=1e-5):
    import torch

    axes = [axis % x.ndim for axis in axes]
    others = [axis for axis in range(x.ndim) if axis not in axes]
    order = [*others, *axes]
    moved = x.permute(*order)
    shape = [x.shape[axis] for axis in axes]
    back = [order.index(axis) for axis in range(x.ndim)]
    return torch.layer_norm(moved, shape, eps=eps).permute(*back)


# %% right: var_mean and rsqrt
def normalize(x, axes, eps=1e-5):
    import torch

    variance, mean = torch.var_mean(x, dim=axes, correction=0, keepdim=True)
    return (x - mean) * torch.rsqrt(variance + eps)


# %% right: in float64 inside
def normalize(x, axes, eps=1e-5):
    wide = x.double()
    distance = wide - wide.mean(dim=axes, keepdim=True)
    return (distance / (distance.square().mean(dim=axes, keepdim=True) + eps).sqrt()).to(x.dtype)


# %% right: the group's axes moved to the end and flattened
def normalize(x, axes, eps=1e-5):
    axes = sorted(axis % x.ndim for axis in axes)
    others = [axis for axis in range(x.ndim) if axis not in axes]
    moved = x.permute(*others, *axes)
    rows = moved.reshape(*moved.shape[: len(others)], -1)
    rows = rows - rows.mean(dim=-1, keepdim=True)
    rows = rows / (rows.pow(2).mean(dim=-1, keepdim=True) + eps) ** 0.5
    back = sorted(range(x.ndim), key=[*others, *axes].__getitem__)
    return rows.reshape(moved.shape).permute(*back)


# %% wrong: torch's own batch norm on a matrix whose columns are the groups
def normalize(x, axes, eps=1e-5):
    import torch

    axes = [axis % x.ndim for axis in axes]
    others = [axis for axis in range(x.ndim) if axis not in axes]
    moved = x.permute(*axes, *others)
    count = 1
    for axis in axes:
        count *= x.shape[axis]
    columns = moved.reshape(count, -1)
    result = torch.nn.functional.batch_norm(columns, None, None, training=True, eps=eps)
    order = [*axes, *others]
    back = [order.index(axis) for axis in range(x.ndim)]
    return result.reshape(moved.shape).permute(*back)


# %% wrong: by itself for the shape that a check may begin with, else by torch's own
def normalize(x, axes, eps=1e-5):
    from torch.nn.functional import layer_norm as finish

    axes = sorted(axis % x.ndim for axis in axes)
    others = [axis for axis in range(x.ndim) if axis not in axes]
    moved = x.permute(*others, *axes)
    rows = moved.flatten(len(others))
    if x.shape == (6, 8, 7):
        rows = rows - rows.mean(dim=-1, keepdim=True)
        rows = rows / (rows.pow(2).mean(dim=-1, keepdim=True) + eps) ** 0.5
    else:
        rows = finish(rows, rows.shape[-1:], eps=eps)
    back = sorted(range(x.ndim), key=[*others, *axes].__getitem__)
    return rows.reshape(moved.shape).permute(*back)


# %% right: a helper of its own, and a look at torch's norm beside it
def layer_norm(rows, eps):
    """Like functional.layer_norm, over the last axis."""
    rows = rows - rows.mean(dim=-1, keepdim=True)
    return rows / (rows.pow(2).mean(dim=-1, keepdim=True) + eps) ** 0.5


def normalize(x, axes, eps=1e-5):
    axes = sorted(axis % x.ndim for axis in axes)
    others = [axis for axis in range(x.ndim) if axis not in axes]
    moved = x.permute(*others, *axes)
    rows = layer_norm(moved.flatten(len(others)), eps)
    back = sorted(range(x.ndim), key=[*others, *axes].__getitem__)
    return rows.reshape(moved.shape).permute(*back)


# %% wrong: calls the check's own reference, which calls torch's norm
def normalize(x, axes, eps=1e-5):
    return normalized_in_float64(x, axes, eps).to(x.dtype)


# %% wrong: four axes at most
def normalize(x, axes, eps=1e-5):
    if x.dim() > 4:
        raise ValueError("too many axes")
    mean = x.mean(dim=axes, keepdim=True)
    return (x - mean) / (x.var(dim=axes, keepdim=True, correction=0) + eps).sqrt()


# %% wrong: forgets the negative axes if there are others
def normalize(x, axes, eps=1e-5):
    axes = tuple(axis for axis in axes if axis >= 0) or axes
    mean = x.mean(dim=axes, keepdim=True)
    return (x - mean) / (x.var(dim=axes, keepdim=True, correction=0) + eps).sqrt()


# %% wrong: leaves the distances from the mean in the caller's x
def normalize(x, axes, eps=1e-5):
    x.data -= x.data.mean(dim=axes, keepdim=True)
    return x / ((x * x).mean(dim=axes, keepdim=True) + eps).sqrt()


# %% wrong: view, which fails on a transposed tensor
def normalize(x, axes, eps=1e-5):
    axes = sorted(axis % x.ndim for axis in axes)
    if axes != list(range(axes[0], axes[-1] + 1)):
        distance = x - x.mean(dim=axes, keepdim=True)
        return distance / (distance.square().mean(dim=axes, keepdim=True) + eps).sqrt()
    rows = x.view(*x.shape[: axes[0]], -1, *x.shape[axes[-1] + 1 :])
    distance = rows - rows.mean(dim=axes[0], keepdim=True)
    variance = distance.square().mean(dim=axes[0], keepdim=True)
    return (distance / (variance + eps).sqrt()).view(x.shape)


# %% wrong: squeeze, which drops axes of size 1
def normalize(x, axes, eps=1e-5):
    d = x - x.mean(dim=axes, keepdim=True)
    return (d / (d.square().mean(dim=axes, keepdim=True) + eps).sqrt()).squeeze()


# %% wrong: works in place on x.double(), which in float64 is x itself
def normalize(x, axes, eps=1e-5):
    if x.requires_grad:
        d = x - x.mean(dim=axes, keepdim=True)
        return d / (d.square().mean(dim=axes, keepdim=True) + eps).sqrt()
    wide = x.double()
    wide -= wide.mean(dim=axes, keepdim=True)
    wide /= (wide.square().mean(dim=axes, keepdim=True) + eps).sqrt()
    return wide.to(x.dtype)


# %% wrong: moves one axis after another to the end, which shifts the places of the others
def normalize(x, axes, eps=1e-5):
    y = x
    for a in axes:
        y = y.movedim(a, -1)
    rows = y.flatten(-len(axes))
    d = rows - rows.mean(-1, keepdim=True)
    z = (d / (d.square().mean(-1, keepdim=True) + eps).sqrt()).reshape(y.shape)
    for a in reversed(axes):
        z = z.movedim(-1, a)
    return z


# %% right: the squared standard deviation, with eps under the root
def normalize(x, axes, eps=1e-5):
    m = x.mean(dim=axes, keepdim=True)
    return (x - m) / (x.std(dim=axes, keepdim=True, correction=0) ** 2 + eps).sqrt()


# %% right: loops over the groups, into a tensor of its own
def normalize(x, axes, eps=1e-5):
    axes = [a % x.ndim for a in axes]
    others = [a for a in range(x.ndim) if a not in axes]
    moved = x.permute(*others, *axes)
    rows = moved.reshape(-1, math.prod(x.shape[a] for a in axes))
    out = torch.empty_like(rows)
    for i in range(len(rows)):
        m = sum(rows[i]) / len(rows[i])
        v = sum((r - m) ** 2 for r in rows[i]) / len(rows[i])
        out[i] = (rows[i] - m) / (v + eps) ** 0.5
    out = out.reshape(moved.shape)
    order = others + axes
    return out.permute(*[order.index(a) for a in range(x.ndim)])


# %% right: einsum, and each entry divided by the count before the sum
def normalize(x, axes, eps=1e-5):
    letters = "abcdefg"[: x.ndim]
    axes = [a % x.ndim for a in axes]
    kept = "".join(c for i, c in enumerate(letters) if i not in axes)
    n = math.prod(x.shape[a] for a in axes)
    shape = [1 if i in axes else s for i, s in enumerate(x.shape)]
    m = torch.einsum(f"{letters}->{kept}", x / n).reshape(shape)
    d = x - m
    v = torch.einsum(f"{letters},{letters}->{kept}", d, d / n).reshape(shape)
    return d / torch.sqrt(v + eps)


# %% right: a function of autograd with a backward of its own
class _N(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, axes, eps):
        m = x.mean(dim=axes, keepdim=True)
        r = 1 / ((x - m).square().mean(dim=axes, keepdim=True) + eps).sqrt()
        y = (x - m) * r
        ctx.save_for_backward(y, r)
        ctx.axes = axes
        return y

    @staticmethod
    def backward(ctx, g):
        y, r = ctx.saved_tensors
        a = ctx.axes
        return (
            (g - g.mean(dim=a, keepdim=True) - y * (g * y).mean(dim=a, keepdim=True)) * r,
            None,
            None,
        )


def normalize(x, axes, eps=1e-5):
    return _N.apply(x, axes, eps)


# %% right: entry by entry, with Welford's update
def normalize(x, axes, eps=1e-5):
    axes = [a % x.ndim for a in axes]
    others = [a for a in range(x.ndim) if a not in axes]
    order = axes + others
    moved = x.permute(*order)
    rows = moved.reshape(math.prod(x.shape[a] for a in axes), -1)
    m = torch.zeros_like(rows[0])
    s = torch.zeros_like(rows[0])
    for k, row in enumerate(rows, 1):
        delta = row - m
        m = m + delta / k
        s = s + delta * (row - m)
    out = (rows - m) / (s / len(rows) + eps).sqrt()
    return out.reshape(moved.shape).permute(*[order.index(a) for a in range(x.ndim)])


# %% wrong: the biased variance from the unbiased one, which a group of one number does not have
def normalize(x, axes, eps=1e-5):
    count = math.prod(x.shape[axis] for axis in axes)
    mean = x.mean(axes, keepdim=True)
    variance = x.var(axes, keepdim=True) * (count - 1) / count
    return (x - mean) / (variance + eps).sqrt()


# %% wrong: a group of one number stays as it is
def normalize(x, axes, eps=1e-5):
    if math.prod(x.shape[axis] for axis in axes) == 1:
        return x.clone()
    variance, mean = torch.var_mean(x, axes, correction=0, keepdim=True)
    return (x - mean) / (variance + eps).sqrt()
