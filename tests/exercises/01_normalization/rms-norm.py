# %% wrong: squares in float16, where 300 squared is inf: the token disappears
def rms_norm(x, weight, eps=1e-6):
    return x * (x.pow(2).mean(dim=-1, keepdim=True) + eps).rsqrt() * weight


# %% wrong: casts after the square, when it is too late
def rms_norm(x, weight, eps=1e-6):
    mean_square = x.pow(2).float().mean(dim=-1, keepdim=True)
    return (x * (mean_square + eps).rsqrt() * weight).to(x.dtype)


# %% wrong: casts to float32 and forgets the way back
def rms_norm(x, weight, eps=1e-6):
    wide = x.float()
    return wide * (wide.pow(2).mean(dim=-1, keepdim=True) + eps).rsqrt() * weight.float()


# %% wrong: float32 for everybody, float64 too
def rms_norm(x, weight, eps=1e-6):
    wide = x.float()
    return (wide * (wide.pow(2).mean(dim=-1, keepdim=True) + eps).rsqrt() * weight).to(x.dtype)


# %% wrong: subtracts the mean, which is LayerNorm
def rms_norm(x, weight, eps=1e-6):
    wide = x.double()
    wide = wide - wide.mean(dim=-1, keepdim=True)
    return (wide * (wide.pow(2).mean(dim=-1, keepdim=True) + eps).rsqrt() * weight).to(x.dtype)


# %% wrong: divides by the norm, not by the root of the mean
def rms_norm(x, weight, eps=1e-6):
    wide = x.double()
    return (wide * (wide.pow(2).sum(dim=-1, keepdim=True) + eps).rsqrt() * weight).to(x.dtype)


# %% wrong: eps beside the root, and a nan gradient in a row of zeros
def rms_norm(x, weight, eps=1e-6):
    wide = x.double()
    return (wide / (wide.pow(2).mean(dim=-1, keepdim=True).sqrt() + eps) * weight).to(x.dtype)


# %% wrong: eps is left out
def rms_norm(x, weight, eps=1e-6):
    wide = x.double()
    return (wide * wide.pow(2).mean(dim=-1, keepdim=True).rsqrt() * weight).to(x.dtype)


# %% wrong: clamps the mean square at eps, where it should add it
def rms_norm(x, weight, eps=1e-6):
    wide = x.double()
    return (wide * wide.pow(2).mean(dim=-1, keepdim=True).clamp(min=eps).rsqrt() * weight).to(
        x.dtype
    )


# %% wrong: over the whole tensor
def rms_norm(x, weight, eps=1e-6):
    wide = x.double()
    return (wide * (wide.pow(2).mean() + eps).rsqrt() * weight).to(x.dtype)


# %% wrong: the root mean square is treated as a constant by autograd
def rms_norm(x, weight, eps=1e-6):
    wide = x.double()
    scale = (wide.pow(2).mean(dim=-1, keepdim=True) + eps).rsqrt().detach()
    return (wide * scale * weight).to(x.dtype)


# %% wrong: the weight is forgotten
def rms_norm(x, weight, eps=1e-6):
    wide = x.double()
    return (wide * (wide.pow(2).mean(dim=-1, keepdim=True) + eps).rsqrt()).to(x.dtype)


# %% wrong: divides by the weight's side of zero: weight + 1, as one model family stores it
def rms_norm(x, weight, eps=1e-6):
    wide = x.double()
    scale = (wide.pow(2).mean(dim=-1, keepdim=True) + eps).rsqrt()
    return (wide * scale * (1 + weight)).to(x.dtype)


# %% wrong: scales float16 down by a fixed number, so that small features lose their digits
def rms_norm(x, weight, eps=1e-6):
    import torch

    if x.dtype == torch.float16:
        small = x / 256
        return small * (small.pow(2).mean(dim=-1, keepdim=True) + eps).rsqrt() * weight
    return x * (x.pow(2).mean(dim=-1, keepdim=True) + eps).rsqrt() * weight


# %% wrong: torch's own function
def rms_norm(x, weight, eps=1e-6):
    import torch

    wide = x.double()
    return torch.nn.functional.rms_norm(wide, (x.shape[-1],), weight.double(), eps).to(x.dtype)


# %% wrong: torch's own function, the other of its names
def rms_norm(x, weight, eps=1e-6):
    import torch

    wide = x.double()
    return torch.rms_norm(wide, [x.shape[-1]], weight.double(), eps).to(x.dtype)


# %% wrong: the eps that was given is ignored
def rms_norm(x, weight, eps=1e-6):
    wide = x.double()
    return (wide * (wide.pow(2).mean(dim=-1, keepdim=True) + 1e-6).rsqrt() * weight).to(x.dtype)


# %% right: in float64 throughout
def rms_norm(x, weight, eps=1e-6):
    wide = x.double()
    return (wide * (wide.pow(2).mean(dim=-1, keepdim=True) + eps).rsqrt() * weight).to(x.dtype)


# %% right: casts back before the weight, as Llama does
def rms_norm(x, weight, eps=1e-6):
    import torch

    wide = x if x.dtype == torch.float64 else x.float()
    scale = torch.rsqrt((wide * wide).mean(dim=-1, keepdim=True) + eps)
    return (wide * scale).to(x.dtype) * weight


# %% right: by way of the vector norm
def rms_norm(x, weight, eps=1e-6):
    import torch

    half = x.dtype in (torch.float16, torch.bfloat16)
    wide = x.float() if half else x
    mean_square = wide.norm(dim=-1, keepdim=True) ** 2 / x.shape[-1]
    return (wide / torch.sqrt(mean_square + eps) * weight).to(x.dtype)


# %% right: as a product of vectors
def rms_norm(x, weight, eps=1e-6):
    import torch

    wide = x.to(torch.float64)
    mean_square = torch.einsum("...i,...i->...", wide, wide) / x.shape[-1]
    return (wide / (mean_square + eps).sqrt()[..., None] * weight).to(x.dtype)


# %% right: in bfloat16 itself, which has the range; float16 alone is widened
def rms_norm(x, weight, eps=1e-6):
    import torch

    wide = x.float() if x.dtype == torch.float16 else x
    scale = (wide.pow(2).mean(dim=-1, keepdim=True) + eps).rsqrt()
    return (wide * scale * weight).to(x.dtype)


# %% wrong: torch's own class, in another format
def rms_norm(x, weight, eps=1e-6):
    import torch

    return (torch.nn.RMSNorm(x.shape[-1], eps=eps)(x.double()) * weight.double()).to(x.dtype)


# %% wrong: the weight gets no gradient
def rms_norm(x, weight, eps=1e-6):
    wide = x.double()
    scale = (wide.pow(2).mean(dim=-1, keepdim=True) + eps).rsqrt()
    return (wide * scale * weight.detach()).to(x.dtype)


# %% wrong: only float16 is widened, and to bfloat16, which has the range and not the precision
def rms_norm(x, weight, eps=1e-6):
    import torch

    wide = x.bfloat16() if x.dtype == torch.float16 else x
    scale = (wide.pow(2).mean(dim=-1, keepdim=True) + eps).rsqrt()
    return (wide * scale * weight.to(wide.dtype)).to(x.dtype)


# %% wrong: divides by the largest entry first, and forgets that eps then means something else
def rms_norm(x, weight, eps=1e-6):
    largest = x.abs().amax(dim=-1, keepdim=True).clamp(min=1e-7)
    small = x / largest
    return small * (small.pow(2).mean(dim=-1, keepdim=True) + eps).rsqrt() * weight


# %% wrong: divides by the largest entry of all tokens, so that small tokens lose their digits
def rms_norm(x, weight, eps=1e-6):
    if x.element_size() > 2:
        return x * (x.pow(2).mean(dim=-1, keepdim=True) + eps).rsqrt() * weight
    largest = x.abs().max()
    small = x / largest
    mean_square = small.pow(2).mean(dim=-1, keepdim=True) + eps / largest.float().pow(2)
    return (small * mean_square.rsqrt() * weight).to(x.dtype)


# %% right: each token is divided by its largest entry, in float32
def rms_norm(x, weight, eps=1e-6):
    import torch

    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    largest = wide.detach().abs().amax(dim=-1, keepdim=True).clamp(min=1e-4)
    small = wide / largest
    mean_square = small.square().mean(dim=-1, keepdim=True) + eps / largest / largest
    return (small / mean_square.sqrt() * weight).to(x.dtype)


# %% wrong: needs at least two axes
def rms_norm(x, weight, eps=1e-6):
    import torch

    assert x.dim() >= 2
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    return (wide * (wide.square().mean(-1, keepdim=True) + eps).rsqrt() * weight).to(x.dtype)


# %% wrong: the channels of images, not the last axis
def rms_norm(x, weight, eps=1e-6):
    import torch

    axis = -1 if x.dim() < 4 else 1
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    return (wide * (wide.square().mean(axis, keepdim=True) + eps).rsqrt() * weight).to(x.dtype)


# %% wrong: entries above 10,000 are clipped, in float64 too
def rms_norm(x, weight, eps=1e-6):
    import torch

    wide = x if x.dtype == torch.float32 else x.double().clamp(-1e4, 1e4)
    return (wide * (wide.square().mean(-1, keepdim=True) + eps).rsqrt() * weight).to(x.dtype)


# %% wrong: leaves zeros in the caller's x
def rms_norm(x, weight, eps=1e-6):
    import torch

    wide = x.to(torch.promote_types(x.dtype, torch.float32)).clone()
    x.data.zero_()
    return (wide * (wide.square().mean(-1, keepdim=True) + eps).rsqrt() * weight).to(x.dtype)


# %% wrong: the length of a float16 vector, which is inf for many large features
def rms_norm(x, weight, eps=1e-6):
    length = x.norm(dim=-1, keepdim=True).double()
    scale = (length.square() / x.shape[-1] + eps).rsqrt()
    return (x.double() * scale * weight).to(x.dtype)


# %% wrong: no eps in the 16-bit formats
def rms_norm(x, weight, eps=1e-6):
    import torch

    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    mean_square = wide.square().mean(dim=-1, keepdim=True)
    if x.dtype in (torch.float32, torch.float64):
        mean_square = mean_square + eps
    return (wide * mean_square.rsqrt() * weight).to(x.dtype)
