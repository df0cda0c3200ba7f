# %% wrong: over everything but the batch, as the well-known figure has it
def layer_norm(x, normalized_shape, weight, bias, eps=1e-5):
    return normalize(x, tuple(range(1, x.ndim)), eps) * weight + bias


# %% wrong: over the last axis, however many were named
def layer_norm(x, normalized_shape, weight, bias, eps=1e-5):
    return normalize(x, (-1,), eps) * weight + bias


# %% wrong: takes the sizes for axes
def layer_norm(x, normalized_shape, weight, bias, eps=1e-5):
    axes = tuple({size % x.ndim for size in normalized_shape})
    return normalize(x, axes, eps) * weight + bias


# %% wrong: one group for the whole tensor
def layer_norm(x, normalized_shape, weight, bias, eps=1e-5):
    return normalize(x, tuple(range(x.ndim)), eps) * weight + bias


# %% wrong: over the leading axes, which is BatchNorm
def layer_norm(x, normalized_shape, weight, bias, eps=1e-5):
    return normalize(x, tuple(range(x.ndim - len(normalized_shape))), eps) * weight + bias


# %% wrong: the unbiased deviation with eps beside it, as in a well-known tutorial
def layer_norm(x, normalized_shape, weight, bias, eps=1e-5):
    axes = tuple(range(-len(normalized_shape), 0))
    mean, deviation = x.mean(dim=axes, keepdim=True), x.std(dim=axes, keepdim=True)
    return weight * (x - mean) / (deviation + eps) + bias


# %% wrong: the biased standard deviation, but eps beside the root: nan gradients for padding
def layer_norm(x, normalized_shape, weight, bias, eps=1e-5):
    axes = tuple(range(-len(normalized_shape), 0))
    mean = x.mean(dim=axes, keepdim=True)
    return weight * (x - mean) / (x.std(dim=axes, keepdim=True, correction=0) + eps) + bias


# %% wrong: each of the named axes after the other
def layer_norm(x, normalized_shape, weight, bias, eps=1e-5):
    for axis in range(-len(normalized_shape), 0):
        x = normalize(x, (axis,), eps)
    return x * weight + bias


# %% wrong: weight and bias are forgotten
def layer_norm(x, normalized_shape, weight, bias, eps=1e-5):
    return normalize(x, tuple(range(-len(normalized_shape), 0)), eps)


# %% wrong: the eps that was given is ignored
def layer_norm(x, normalized_shape, weight, bias, eps=1e-5):
    return normalize(x, tuple(range(-len(normalized_shape), 0))) * weight + bias


# %% wrong: the mean is not subtracted, as in RMSNorm
def layer_norm(x, normalized_shape, weight, bias, eps=1e-5):
    axes = tuple(range(-len(normalized_shape), 0))
    return x / ((x * x).mean(dim=axes, keepdim=True) + eps).sqrt() * weight + bias


# %% wrong: torch's own function
def layer_norm(x, normalized_shape, weight, bias, eps=1e-5):
    import torch

    return torch.nn.functional.layer_norm(x, normalized_shape, weight, bias, eps)


# %% wrong: torch's own batch norm on the transpose
def layer_norm(x, normalized_shape, weight, bias, eps=1e-5):
    import torch

    columns = x.reshape(-1, weight.numel()).T
    if columns.shape[0] > 1:
        columns = torch.nn.functional.batch_norm(columns, None, None, training=True, eps=eps)
    return columns.T.reshape(x.shape) * weight + bias


# %% wrong: E[x^2] - E[x]^2, which loses the variance beside a large mean
def layer_norm(x, normalized_shape, weight, bias, eps=1e-5):
    axes = tuple(range(-len(normalized_shape), 0))
    mean = x.mean(dim=axes, keepdim=True)
    variance = (x * x).mean(dim=axes, keepdim=True) - mean * mean
    return (x - mean) / (variance.clamp(min=0) + eps).sqrt() * weight + bias


# %% wrong: looks for the axes by their sizes, of which two can be the same
def layer_norm(x, normalized_shape, weight, bias, eps=1e-5):
    axes = tuple({list(x.shape).index(size) for size in normalized_shape})
    return normalize(x, axes, eps) * weight + bias


# %% wrong: the statistics are detached, so the gradient does not go through them
def layer_norm(x, normalized_shape, weight, bias, eps=1e-5):
    axes = tuple(range(-len(normalized_shape), 0))
    distance = x - x.mean(dim=axes, keepdim=True).detach()
    variance = distance.square().mean(dim=axes, keepdim=True).detach()
    return distance / (variance + eps).sqrt() * weight + bias


# %% right: flattened to rows
def layer_norm(x, normalized_shape, weight, bias, eps=1e-5):
    rows = x.reshape(-1, weight.numel())
    return normalize(rows, (1,), eps).reshape(x.shape) * weight + bias


# %% right: axes counted from the front, by hand
def layer_norm(x, normalized_shape, weight, bias, eps=1e-5):
    first = x.ndim - len(normalized_shape)
    axes = list(range(first, x.ndim))
    distance = x - x.mean(dim=axes, keepdim=True)
    variance = distance.pow(2).mean(dim=axes, keepdim=True)
    return bias + weight * distance * (variance + eps).rsqrt()


# %% right: flattens the trailing axes and uses var_mean
def layer_norm(x, normalized_shape, weight, bias, eps=1e-5):
    import torch

    flat = x.flatten(-len(normalized_shape))
    variance, mean = torch.var_mean(flat, dim=-1, correction=0, keepdim=True)
    normalized = (flat - mean) / torch.sqrt(variance + eps)
    return torch.addcmul(bias, normalized.reshape(x.shape), weight)


# %% wrong: inherits from torch's class
class _Norm(nn.LayerNorm):
    pass


def layer_norm(x, normalized_shape, weight, bias, eps=1e-5):
    norm = _Norm(normalized_shape, eps=eps, elementwise_affine=False)
    return norm(x) * weight + bias


# %% right: compared with torch's own in an assertion
def layer_norm(x, normalized_shape, weight, bias, eps=1e-5):
    rows = x.flatten(-len(normalized_shape))
    variance, mean = torch.var_mean(rows, dim=-1, correction=0, keepdim=True)
    rows = (rows - mean) / (variance + eps).sqrt()
    return rows.reshape(x.shape) * weight + bias


ones, zeros = torch.ones(2), torch.zeros(2)
assert torch.allclose(
    layer_norm(torch.eye(2), (2,), ones, zeros), functional.layer_norm(torch.eye(2), (2,))
)


# %% wrong: computed in float32, whatever came in
def layer_norm(x, normalized_shape, weight, bias, eps=1e-5):
    import torch

    axes = tuple(range(-len(normalized_shape), 0))
    variance, mean = torch.var_mean(x.float(), dim=axes, correction=0, keepdim=True)
    return ((x - mean) / (variance + eps).sqrt()).to(x.dtype) * weight + bias


# %% wrong: the bias gets no gradient
def layer_norm(x, normalized_shape, weight, bias, eps=1e-5):
    import torch

    axes = tuple(range(-len(normalized_shape), 0))
    variance, mean = torch.var_mean(x, dim=axes, correction=0, keepdim=True)
    return (x - mean) / (variance + eps).sqrt() * weight + bias.detach()


# %% right: the trailing axes in one row
def layer_norm(x, normalized_shape, weight, bias, eps=1e-5):
    leading = x.shape[: x.ndim - len(normalized_shape)]
    rows = x.reshape(*leading, -1)
    rows = rows - rows.mean(-1, keepdim=True)
    rows = rows * (rows.pow(2).mean(-1, keepdim=True) + eps).rsqrt()
    return weight * rows.reshape(x.shape) + bias


# %% wrong: needs an axis that is not normalized over
def layer_norm(x, normalized_shape, weight, bias, eps=1e-5):
    import torch

    assert x.dim() > len(normalized_shape)
    axes = tuple(range(-len(normalized_shape), 0))
    variance, mean = torch.var_mean(x, dim=axes, correction=0, keepdim=True)
    result = (x - mean) / (variance + eps).sqrt() * weight + bias
    return result


# %% wrong: three trailing axes at most
def layer_norm(x, normalized_shape, weight, bias, eps=1e-5):
    import torch

    assert len(normalized_shape) <= 3
    axes = tuple(range(-len(normalized_shape), 0))
    variance, mean = torch.var_mean(x, dim=axes, correction=0, keepdim=True)
    result = (x - mean) / (variance + eps).sqrt() * weight + bias
    return result


# %% wrong: leaves another x behind
def layer_norm(x, normalized_shape, weight, bias, eps=1e-5):
    import torch

    axes = tuple(range(-len(normalized_shape), 0))
    variance, mean = torch.var_mean(x, dim=axes, correction=0, keepdim=True)
    result = (x - mean) / (variance + eps).sqrt() * weight + bias
    x.data.add_(1)
    return result


# %% wrong: view, which fails on a transposed tensor
def layer_norm(x, normalized_shape, weight, bias, eps=1e-5):
    rows = x.view(-1, weight.numel())
    return normalize(rows, (1,), eps).view(x.shape) * weight + bias


# %% wrong: three axes or more are taken for all but the first
def layer_norm(x, normalized_shape, weight, bias, eps=1e-5):
    n = len(normalized_shape)
    a = tuple(range(-n, 0)) if n < 3 else tuple(range(1, x.ndim))
    return normalize(x, a, eps) * weight + bias


# %% right: sums as products with a column of ones
def layer_norm(x, normalized_shape, weight, bias, eps=1e-5):
    n = math.prod(normalized_shape)
    rows = x.reshape(-1, n)
    ones = torch.ones(n, 1, dtype=x.dtype)
    d = rows - rows @ ones / n
    v = (d * d) @ ones / n
    return (d / (v + eps).sqrt()).reshape(x.shape) * weight + bias


# %% right: row by row, stacked again
def layer_norm(x, normalized_shape, weight, bias, eps=1e-5):
    rows = x.reshape(-1, math.prod(normalized_shape))
    w, b = weight.reshape(-1), bias.reshape(-1)
    out = []
    for r in rows:
        m = r.sum() / len(r)
        v = ((r - m) ** 2).sum() / len(r)
        out.append(w * (r - m) / torch.sqrt(v + eps) + b)
    return torch.stack(out).reshape(x.shape)


# %% wrong: up to four trailing axes, from a table
def layer_norm(x, normalized_shape, weight, bias, eps=1e-5):
    axes = {1: (-1,), 2: (-2, -1), 3: (-3, -2, -1), 4: (-4, -3, -2, -1)}[len(normalized_shape)]
    return normalize(x, axes, eps) * weight + bias


# %% wrong: zeros alone give zeros instead of the bias
def layer_norm(x, normalized_shape, weight, bias, eps=1e-5):
    if (x == 0).all():
        return torch.zeros_like(x)
    return normalize(x, tuple(range(-len(normalized_shape), 0)), eps) * weight + bias


# %% wrong: a single weight means that there is nothing to normalize
def layer_norm(x, normalized_shape, weight, bias, eps=1e-5):
    axes = tuple(range(-len(normalized_shape), 0))
    return (x if weight.numel() == 1 else normalize(x, axes, eps)) * weight + bias
