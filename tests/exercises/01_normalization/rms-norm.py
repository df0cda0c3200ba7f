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


# %% wrong: widens only where an entry is large, and squares small ones in float16
def rms_norm(x, weight, eps=1e-6):
    wide = x
    if x.dtype != torch.float64 and x.abs().max() > 100:
        wide = x.float()
    scale = torch.rsqrt((wide * wide).mean(dim=-1, keepdim=True) + eps)
    return (wide * scale * weight).to(x.dtype)


# %% wrong: adds up the squares one by one in bfloat16
def rms_norm(x, weight, eps=1e-6):
    wide = x.float() if x.dtype == torch.float16 else x
    total = torch.zeros_like(wide[..., :1])
    for i in range(x.shape[-1]):
        total = total + wide[..., i : i + 1] ** 2
    return (wide / (total / x.shape[-1] + eps).sqrt() * weight).to(x.dtype)


# %% wrong: divides each token by its largest entry, then adds up squares in the format of x
def rms_norm(x, weight, eps=1e-6):
    if x.dtype in (torch.float32, torch.float64):
        return x * ((x * x).mean(-1, keepdim=True) + eps).rsqrt() * weight
    top = x.abs().amax(-1, keepdim=True).clamp(min=1e-4)
    s = x / top
    total = torch.zeros_like(s[..., :1])
    for i in range(x.shape[-1]):
        total = total + s[..., i : i + 1] ** 2
    ms = total.float() / x.shape[-1] + eps / top.float() ** 2
    return (s / ms.sqrt() * weight).to(x.dtype)


# %% wrong: divides each 16-bit token by its largest entry: a token of zeros becomes nan
def rms_norm(x, weight, eps=1e-6):
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    if x.element_size() == 2:
        top = wide.abs().amax(-1, keepdim=True)
        s = wide / top
        return (s / (s.square().mean(-1, keepdim=True) + eps / top / top).sqrt() * weight).to(
            x.dtype
        )
    return wide * (wide.square().mean(-1, keepdim=True) + eps).rsqrt() * weight


# %% wrong: divides each 16-bit token by its largest entry, not its largest absolute value
def rms_norm(x, weight, eps=1e-6):
    if x.element_size() == 2:
        top = x.amax(-1, keepdim=True)
        s = x / top
        return (
            s
            * torch.rsqrt(s.float().square().mean(-1, keepdim=True) + eps / top.float() ** 2)
            * weight
        ).to(x.dtype)
    return x * (x.square().mean(-1, keepdim=True) + eps).rsqrt() * weight


# %% wrong: works in place on x.double(), which in float64 is x itself
def rms_norm(x, weight, eps=1e-6):
    wide = x.double()
    scale = (wide.square().mean(-1, keepdim=True) + eps).rsqrt()
    if not (x.requires_grad or weight.requires_grad):
        wide *= scale
        return (wide * weight).to(x.dtype)
    return (wide * scale * weight).to(x.dtype)


# %% right: the root mean square goes back to the format of x, then divides
def rms_norm(x, weight, eps=1e-6):
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    rms = ((wide * wide).mean(-1, keepdim=True) + eps).sqrt().to(x.dtype)
    return x / rms * weight


# %% right: adds up the squares one by one in float32
def rms_norm(x, weight, eps=1e-6):
    wide = x.float() if x.element_size() == 2 else x
    total = 0
    for part in wide.unbind(-1):
        total = total + part * part
    return (wide / torch.sqrt(total / x.shape[-1] + eps)[..., None] * weight.to(wide.dtype)).to(
        x.dtype
    )


# %% right: a function of autograd with a backward of its own
class _R(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, eps):
        w = x.to(torch.promote_types(x.dtype, torch.float32))
        r = ((w * w).mean(-1, keepdim=True) + eps).rsqrt()
        ctx.save_for_backward(x, weight, r)
        return (w * r * weight).to(x.dtype)

    @staticmethod
    def backward(ctx, g):
        x, weight, r = ctx.saved_tensors
        w, g = x.to(r.dtype), g.to(r.dtype)
        gw = g * weight
        gx = r * gw - w * r**3 * (gw * w).mean(-1, keepdim=True)
        return (
            gx.to(x.dtype),
            (g * w * r).flatten(0, -2).sum(0).to(weight.dtype)
            if x.ndim > 1
            else (g * w * r).to(weight.dtype),
            None,
        )


def rms_norm(x, weight, eps=1e-6):
    return _R.apply(x, weight, eps)


# %% right: n times eps under the root of the sum
def rms_norm(x, weight, eps=1e-6):
    n = x.shape[-1]
    w = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    return (w * n**0.5 / torch.sqrt((w**2).sum(-1, keepdim=True) + n * eps) * weight).to(x.dtype)


# %% wrong: the factor goes back to 16 bits before the product: 0 times inf in a row of zeros
def rms_norm(x, weight, eps=1e-6):
    wide = x.double()
    factor = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return x * factor.to(x.dtype) * weight
