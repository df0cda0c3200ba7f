# %% wrong: the old bias is not scaled
def fold_batch_norm(conv_weight, conv_bias, weight, bias, running_mean, running_var, eps):
    scale = weight / (running_var + eps).sqrt()
    old = 0 if conv_bias is None else conv_bias
    per_channel = scale.reshape(-1, *[1] * (conv_weight.ndim - 1))
    return conv_weight * per_channel, old - running_mean * scale + bias


# %% wrong: the running mean is not scaled
def fold_batch_norm(conv_weight, conv_bias, weight, bias, running_mean, running_var, eps):
    scale = weight / (running_var + eps).sqrt()
    old = 0 if conv_bias is None else conv_bias
    per_channel = scale.reshape(-1, *[1] * (conv_weight.ndim - 1))
    return conv_weight * per_channel, old * scale - running_mean + bias


# %% wrong: the running mean is forgotten
def fold_batch_norm(conv_weight, conv_bias, weight, bias, running_mean, running_var, eps):
    scale = weight / (running_var + eps).sqrt()
    old = running_mean * 0 if conv_bias is None else conv_bias
    per_channel = scale.reshape(-1, *[1] * (conv_weight.ndim - 1))
    return conv_weight * per_channel, old * scale + bias


# %% wrong: divides by the variance
def fold_batch_norm(conv_weight, conv_bias, weight, bias, running_mean, running_var, eps):
    scale = weight / (running_var + eps)
    old = 0 if conv_bias is None else conv_bias
    per_channel = scale.reshape(-1, *[1] * (conv_weight.ndim - 1))
    return conv_weight * per_channel, (old - running_mean) * scale + bias


# %% wrong: without eps, a dead channel becomes inf and nan
def fold_batch_norm(conv_weight, conv_bias, weight, bias, running_mean, running_var, eps):
    scale = weight / running_var.sqrt()
    old = 0 if conv_bias is None else conv_bias
    per_channel = scale.reshape(-1, *[1] * (conv_weight.ndim - 1))
    return conv_weight * per_channel, (old - running_mean) * scale + bias


# %% wrong: eps beside the root
def fold_batch_norm(conv_weight, conv_bias, weight, bias, running_mean, running_var, eps):
    scale = weight / (running_var.sqrt() + eps)
    old = 0 if conv_bias is None else conv_bias
    per_channel = scale.reshape(-1, *[1] * (conv_weight.ndim - 1))
    return conv_weight * per_channel, (old - running_mean) * scale + bias


# %% wrong: a fixed eps in the place of the one that was given
def fold_batch_norm(conv_weight, conv_bias, weight, bias, running_mean, running_var, eps):
    scale = weight / (running_var + 1e-5).sqrt()
    old = 0 if conv_bias is None else conv_bias
    per_channel = scale.reshape(-1, *[1] * (conv_weight.ndim - 1))
    return conv_weight * per_channel, (old - running_mean) * scale + bias


# %% wrong: a convolution without bias is not thought of
def fold_batch_norm(conv_weight, conv_bias, weight, bias, running_mean, running_var, eps):
    scale = weight / (running_var + eps).sqrt()
    per_channel = scale.reshape(-1, *[1] * (conv_weight.ndim - 1))
    return conv_weight * per_channel, (conv_bias - running_mean) * scale + bias


# %% wrong: no bias before, none afterward
def fold_batch_norm(conv_weight, conv_bias, weight, bias, running_mean, running_var, eps):
    scale = weight / (running_var + eps).sqrt()
    per_channel = scale.reshape(-1, *[1] * (conv_weight.ndim - 1))
    if conv_bias is None:
        return conv_weight * per_channel, None
    return conv_weight * per_channel, (conv_bias - running_mean) * scale + bias


# %% wrong: made for pictures alone
def fold_batch_norm(conv_weight, conv_bias, weight, bias, running_mean, running_var, eps):
    scale = weight / (running_var + eps).sqrt()
    old = 0 if conv_bias is None else conv_bias
    return conv_weight * scale[:, None, None, None], (old - running_mean) * scale + bias


# %% wrong: the factor is laid along the last axis of the kernel
def fold_batch_norm(conv_weight, conv_bias, weight, bias, running_mean, running_var, eps):
    scale = weight / (running_var + eps).sqrt()
    old = 0 if conv_bias is None else conv_bias
    return conv_weight * scale, (old - running_mean) * scale + bias


# %% wrong: the BatchNorm's weight is left out
def fold_batch_norm(conv_weight, conv_bias, weight, bias, running_mean, running_var, eps):
    scale = 1 / (running_var + eps).sqrt()
    old = 0 if conv_bias is None else conv_bias
    per_channel = scale.reshape(-1, *[1] * (conv_weight.ndim - 1))
    return conv_weight * per_channel, (old - running_mean) * scale + bias


# %% wrong: the BatchNorm's bias is scaled too
def fold_batch_norm(conv_weight, conv_bias, weight, bias, running_mean, running_var, eps):
    scale = weight / (running_var + eps).sqrt()
    old = 0 if conv_bias is None else conv_bias
    per_channel = scale.reshape(-1, *[1] * (conv_weight.ndim - 1))
    return conv_weight * per_channel, (old - running_mean + bias) * scale


# %% wrong: scales the convolution's own weight, in place
def fold_batch_norm(conv_weight, conv_bias, weight, bias, running_mean, running_var, eps):
    scale = weight / (running_var + eps).sqrt()
    old = 0 if conv_bias is None else conv_bias
    conv_weight *= scale.reshape(-1, *[1] * (conv_weight.ndim - 1))
    return conv_weight, (old - running_mean) * scale + bias


# %% wrong: a new bias of shape (channels, 1, 1)
def fold_batch_norm(conv_weight, conv_bias, weight, bias, running_mean, running_var, eps):
    scale = weight / (running_var + eps).sqrt()
    old = 0 if conv_bias is None else conv_bias
    per_channel = scale.reshape(-1, *[1] * (conv_weight.ndim - 1))
    return conv_weight * per_channel, ((old - running_mean) * scale + bias)[:, None, None]


# %% wrong: eps only where the variance is 0
def fold_batch_norm(conv_weight, conv_bias, weight, bias, running_mean, running_var, eps):
    import torch

    scale = weight / torch.where(running_var > 0, running_var, running_var + eps).sqrt()
    old = 0 if conv_bias is None else conv_bias
    per_channel = scale.reshape(-1, *[1] * (conv_weight.ndim - 1))
    return conv_weight * per_channel, (old - running_mean) * scale + bias


# %% wrong: the larger of eps and the variance
def fold_batch_norm(conv_weight, conv_bias, weight, bias, running_mean, running_var, eps):
    scale = weight / running_var.clamp(min=eps).sqrt()
    old = 0 if conv_bias is None else conv_bias
    per_channel = scale.reshape(-1, *[1] * (conv_weight.ndim - 1))
    return conv_weight * per_channel, (old - running_mean) * scale + bias


# %% wrong: works in place on the convolution's bias
def fold_batch_norm(conv_weight, conv_bias, weight, bias, running_mean, running_var, eps):
    scale = weight / (running_var + eps).sqrt()
    per_channel = scale.reshape(-1, *[1] * (conv_weight.ndim - 1))
    if conv_bias is None:
        conv_bias = running_mean * 0
    conv_bias -= running_mean
    return conv_weight * per_channel, conv_bias * scale + bias


# %% wrong: torch's own function does all of it
def fold_batch_norm(conv_weight, conv_bias, weight, bias, running_mean, running_var, eps):
    from torch.nn.utils import fuse_conv_bn_weights

    folded = fuse_conv_bn_weights(
        conv_weight, conv_bias, running_mean, running_var, eps, weight, bias
    )
    return tuple(tensor.detach() for tensor in folded)


# %% right: rows of a matrix
def fold_batch_norm(conv_weight, conv_bias, weight, bias, running_mean, running_var, eps):
    import torch

    scale = torch.rsqrt(running_var + eps) * weight
    rows = torch.diag(scale) @ conv_weight.flatten(1)
    shift = bias - running_mean * scale
    if conv_bias is not None:
        shift = shift + conv_bias * scale
    return rows.reshape(conv_weight.shape), shift


# %% right: the factor by einsum, whatever the kernel's axes
def fold_batch_norm(conv_weight, conv_bias, weight, bias, running_mean, running_var, eps):
    import torch

    scale = weight * (running_var + eps) ** -0.5
    old = torch.zeros_like(bias) if conv_bias is None else conv_bias
    return torch.einsum("o,o...->o...", scale, conv_weight), bias + scale * (old - running_mean)


# %% right: channel by channel
def fold_batch_norm(conv_weight, conv_bias, weight, bias, running_mean, running_var, eps):
    import torch

    kernels, shifts = [], []
    for channel, kernel in enumerate(conv_weight):
        scale = weight[channel] / torch.sqrt(running_var[channel] + eps)
        old = 0.0 if conv_bias is None else conv_bias[channel]
        kernels.append(kernel * scale)
        shifts.append((old - running_mean[channel]) * scale + bias[channel])
    return torch.stack(kernels), torch.stack(shifts)


# %% wrong: torch's own function, from the module where it is written
def fold_batch_norm(conv_weight, conv_bias, weight, bias, running_mean, running_var, eps):
    import torch.nn.utils.fusion as ours

    given = conv_weight, conv_bias, running_mean, running_var, eps, weight, bias
    return tuple(tensor.detach() for tensor in ours.fuse_conv_bn_weights(*given))


# %% wrong: by itself with a bias, by torch's own function without one
def fold_batch_norm(conv_weight, conv_bias, weight, bias, running_mean, running_var, eps):
    if conv_bias is None:
        norm = running_mean, running_var, eps, weight, bias
        folded = nn.utils.fuse_conv_bn_weights(conv_weight, None, *norm)
        return folded[0].detach(), folded[1].detach()
    scale = weight / (running_var + eps).sqrt()
    per_channel = scale.reshape(-1, *[1] * (conv_weight.ndim - 1))
    return conv_weight * per_channel, (conv_bias - running_mean) * scale + bias


# %% wrong: makes the new layer float32, whatever it was
def fold_batch_norm(conv_weight, conv_bias, weight, bias, running_mean, running_var, eps):
    """Return the weight and the bias of the convolution that includes the BatchNorm behind it."""
    scale = weight / (running_var + eps).sqrt()
    if conv_bias is None:
        conv_bias = torch.zeros_like(running_mean)
    per_channel = scale.reshape(-1, *[1] * (conv_weight.ndim - 1))
    bias = (conv_bias - running_mean) * scale + bias
    return (conv_weight * per_channel).float(), bias.float()


# %% wrong: takes an eps of 0 for none at all
def fold_batch_norm(conv_weight, conv_bias, weight, bias, running_mean, running_var, eps):
    scale = weight / (running_var + (eps or 1e-5)).sqrt()
    old = 0.0 if conv_bias is None else conv_bias
    per_channel = scale.reshape(-1, *[1] * (conv_weight.ndim - 1))
    return conv_weight * per_channel, (old - running_mean) * scale + bias


# %% wrong: view, which fails on a weight in channels_last format
def fold_batch_norm(conv_weight, conv_bias, weight, bias, running_mean, running_var, eps):
    scale = weight / (running_var + eps).sqrt()
    old = 0.0 if conv_bias is None else conv_bias
    rows = conv_weight.view(len(scale), -1) * scale[:, None]
    return rows.view(conv_weight.shape), (old - running_mean) * scale + bias


# %% wrong: without a conv_bias, works in place on the BatchNorm's bias
def fold_batch_norm(conv_weight, conv_bias, weight, bias, running_mean, running_var, eps):
    scale = weight / (running_var + eps).sqrt()
    per = scale.reshape(-1, *[1] * (conv_weight.ndim - 1))
    if conv_bias is None:
        bias -= running_mean * scale
        return conv_weight * per, bias
    return conv_weight * per, (conv_bias - running_mean) * scale + bias


# %% wrong: without a conv_bias, negates the running mean in place
def fold_batch_norm(conv_weight, conv_bias, weight, bias, running_mean, running_var, eps):
    scale = weight / (running_var + eps).sqrt()
    per = scale.reshape(-1, *[1] * (conv_weight.ndim - 1))
    old = running_mean.neg_() if conv_bias is None else conv_bias - running_mean
    return conv_weight * per, old * scale + bias


# %% wrong: works in place on conv_weight.double(), which in float64 is conv_weight itself
def fold_batch_norm(conv_weight, conv_bias, weight, bias, running_mean, running_var, eps):
    scale = weight.double() / (running_var.double() + eps).sqrt()
    w = conv_weight.double()
    w *= scale.reshape(-1, *[1] * (conv_weight.ndim - 1))
    old = 0 if conv_bias is None else conv_bias
    b = (old - running_mean) * scale + bias
    return w.to(conv_weight.dtype), b.to(bias.dtype)


# %% right: in NumPy from beginning to end
def fold_batch_norm(conv_weight, conv_bias, weight, bias, running_mean, running_var, eps):
    import numpy as np

    w, b, m, v = (t.numpy() for t in (weight, bias, running_mean, running_var))
    s = w / np.sqrt(v + eps)
    old = np.zeros_like(m) if conv_bias is None else conv_bias.numpy()
    k = conv_weight.numpy() * s.reshape((-1,) + (1,) * (conv_weight.ndim - 1))
    return torch.from_numpy(k.astype(w.dtype)), torch.from_numpy(
        ((old - m) * s + b).astype(w.dtype)
    )


# %% right: the factor and the shift of a channel from what the norm makes of 0 and 1
def fold_batch_norm(conv_weight, conv_bias, weight, bias, running_mean, running_var, eps):
    def norm(z):
        return (z - running_mean) / torch.sqrt(running_var + eps) * weight + bias

    zero = norm(torch.zeros_like(bias))
    slope = norm(torch.ones_like(bias)) - zero
    old = torch.zeros_like(bias) if conv_bias is None else conv_bias
    return torch.stack([k * s for k, s in zip(conv_weight, slope, strict=True)]), zero + slope * old


# %% right: in place on clones
def fold_batch_norm(conv_weight, conv_bias, weight, bias, running_mean, running_var, eps):
    k = conv_weight.clone()
    b = torch.zeros_like(bias) if conv_bias is None else conv_bias.clone()
    s = weight / torch.sqrt(running_var + eps)
    for i in range(len(k)):
        k[i] *= s[i]
    b.sub_(running_mean).mul_(s).add_(bias)
    return k, b
