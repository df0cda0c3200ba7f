# %% wrong: rounds to nearest and ignores the noise
def round_stochastically(x, fraction_bits, noise):
    import torch

    step = torch.exp2((torch.frexp(x).exponent - 1 - fraction_bits).double())
    return (torch.round(x.double() / step) * step).float()


# %% wrong: up or down with equal chances, wherever the number lies
def round_stochastically(x, fraction_bits, noise):
    import torch

    step = torch.exp2((torch.frexp(x).exponent - 1 - fraction_bits).double())
    scaled = x.double() / step
    return (torch.where(noise < 0.5, scaled.floor(), scaled.ceil()) * step).float()


# %% wrong: adds the noise and rounds to nearest: half a step too high on average
def round_stochastically(x, fraction_bits, noise):
    import torch

    step = torch.exp2((torch.frexp(x).exponent - 1 - fraction_bits).double())
    return (torch.round(x.double() / step + noise) * step).float()


# %% wrong: adds the noise and cuts toward zero: negative numbers come out too small
def round_stochastically(x, fraction_bits, noise):
    import torch

    step = torch.exp2((torch.frexp(x).exponent - 1 - fraction_bits).double())
    return (torch.trunc(x.double() / step + noise) * step).float()


# %% wrong: the shares exchanged: up when the lower neighbor is near
def round_stochastically(x, fraction_bits, noise):
    import torch

    step = torch.exp2((torch.frexp(x).exponent - 1 - fraction_bits).double())
    scaled = x.double() / step
    rest = scaled - scaled.floor()
    up = (noise < 1 - rest) & (rest > 0)
    return ((scaled.floor() + up) * step).float()


# %% wrong: rolls dice of its own
def round_stochastically(x, fraction_bits, noise):
    import torch

    step = torch.exp2((torch.frexp(x).exponent - 1 - fraction_bits).double())
    return (torch.floor(x.double() / step + torch.rand_like(noise)) * step).float()


# %% wrong: one step for the whole tensor, that of its largest number
def round_stochastically(x, fraction_bits, noise):
    import torch

    step = torch.exp2((torch.frexp(x.abs().max()).exponent - 1 - fraction_bits).double())
    return (torch.floor(x.double() / step + noise) * step).float()


# %% wrong: one noise for the whole tensor
def round_stochastically(x, fraction_bits, noise):
    import torch

    step = torch.exp2((torch.frexp(x).exponent - 1 - fraction_bits).double())
    return (torch.floor(x.double() / step + noise.flatten()[0]) * step).float()


# %% wrong: a step twice as wide, with frexp's exponent as it is
def round_stochastically(x, fraction_bits, noise):
    import torch

    step = torch.exp2((torch.frexp(x).exponent - fraction_bits).double())
    return (torch.floor(x.double() / step + noise) * step).float()


# %% wrong: adds the noise in float32, where almost 1 becomes 1
def round_stochastically(x, fraction_bits, noise):
    import torch

    step = torch.exp2((torch.frexp(x).exponent - 1 - fraction_bits).float())
    return torch.floor(x / step + noise) * step


# %% wrong: bf16 whatever the number of bits
def round_stochastically(x, fraction_bits, noise):
    import torch

    step = torch.exp2((torch.frexp(x).exponent - 8).double())
    return (torch.floor(x.double() / step + noise) * step).float()


# %% wrong: computes in the tensor that was handed in
def round_stochastically(x, fraction_bits, noise):
    import torch

    shift = 23 - fraction_bits
    bits = x.view(torch.int32)
    bits += (noise * 2**shift).int()
    bits.bitwise_and_(-(1 << shift))
    return x


# %% wrong: the exponent limited to about that of fp16
def round_stochastically(x, fraction_bits, noise):
    import torch

    exponent = (torch.frexp(x).exponent - 1 - fraction_bits).clamp(-40, 40)
    step = torch.exp2(exponent.double())
    return (torch.floor(x.double() / step + noise) * step).float()


# %% wrong: random bits that never reach the highest value
def round_stochastically(x, fraction_bits, noise):
    import torch

    shift = 23 - fraction_bits
    bits = x.view(torch.int32) + (noise * (2**shift - 1)).to(torch.int32)
    return (bits >> shift << shift).view(torch.float32)


# %% wrong: the exponent by a rounded logarithm: wrong just below a power of two
def round_stochastically(x, fraction_bits, noise):
    import torch

    step = torch.exp2(x.abs().log2().floor() - fraction_bits)
    scaled = x / step
    return (scaled.floor() + (noise < scaled - scaled.floor()).float()) * step


# %% wrong: goes up for the middle of the noise, which is neither its lowest nor its highest share
def round_stochastically(x, fraction_bits, noise):
    import torch

    step = torch.exp2((torch.frexp(x).exponent - 1 - fraction_bits).double())
    scaled = x.double() / step
    down = scaled.floor()
    return ((down + ((noise - 0.5).abs() < (scaled - down) / 2)) * step).float()


# %% wrong: uses four bits of the noise
def round_stochastically(x, fraction_bits, noise):
    import torch

    step = torch.exp2((torch.frexp(x).exponent - 1 - fraction_bits).double())
    coarse = torch.floor(noise.double() * 16) / 16
    return (torch.floor(x.double() / step + coarse) * step).float()


# %% right: compares the noise with the part behind the point
def round_stochastically(x, fraction_bits, noise):
    import torch

    step = torch.exp2((torch.frexp(x).exponent - 1 - fraction_bits).double())
    scaled = x.double() / step
    down = scaled.floor()
    return ((down + (noise < scaled - down)) * step).float()


# %% right: adds random bits below the last one that stays, and cuts them off
def round_stochastically(x, fraction_bits, noise):
    import torch

    shift = 23 - fraction_bits
    bits = x.view(torch.int32) + (noise * 2**shift).to(torch.int32)
    return (bits >> shift << shift).view(torch.float32)


# %% right: works on the size, and turns the sign at the end
def round_stochastically(x, fraction_bits, noise):
    import torch

    mantissa, exponent = torch.frexp(x.abs().double())
    scaled = mantissa * 2 ** (fraction_bits + 1)
    rounded = scaled.ceil() - (noise > 1 - (scaled.ceil() - scaled)).double()
    size = rounded * torch.exp2((exponent - fraction_bits - 1).double())
    return torch.copysign(size, x.double()).float()


# %% right: the upper neighbor for the largest noise instead of the smallest
def round_stochastically(x, fraction_bits, noise):
    import torch

    step = torch.exp2((torch.frexp(x).exponent - 1 - fraction_bits).double())
    scaled = x.double() / step
    down = scaled.floor()
    return ((down + (noise.double() >= 1 - (scaled - down))) * step).float()


# %% right: the neighbors on either side as patterns, and the share of the way between them
def round_stochastically(x, fraction_bits, noise):
    import torch

    shift = 23 - fraction_bits
    pattern = x.view(torch.int32) >> shift
    inner = (pattern << shift).view(torch.float32)
    outer = ((pattern + 1) << shift).view(torch.float32)
    return torch.where(noise < (x - inner) / (outer - inner), outer, inner)


# %% wrong: an exponent between -60 and 60
def round_stochastically(x, fraction_bits, noise):
    import torch

    exponent = torch.frexp(x).exponent.clamp(-60, 60) - 1
    step = torch.exp2((exponent - fraction_bits).double())
    return (torch.floor(x.double() / step + noise.double()) * step).float()


# %% wrong: no exponent below -50
def round_stochastically(x, fraction_bits, noise):
    import torch

    exponent = torch.frexp(x).exponent.clamp(min=-50) - 1
    step = torch.exp2((exponent - fraction_bits).double())
    return (torch.floor(x.double() / step + noise.double()) * step).float()


# %% wrong: flattens with view, which a transposed tensor refuses
def round_stochastically(x, fraction_bits, noise):
    import torch

    shape, x = x.shape, x.view(-1)
    noise = noise.view(-1)
    exponent = torch.frexp(x).exponent - 1
    step = torch.exp2((exponent - fraction_bits).double())
    return ((torch.floor(x.double() / step + noise.double()) * step).float()).view(shape)


# %% wrong: makes a list of one number of a single number
def round_stochastically(x, fraction_bits, noise):
    import torch

    x = torch.atleast_1d(x)
    exponent = torch.frexp(x).exponent - 1
    step = torch.exp2((exponent - fraction_bits).double())
    return (torch.floor(x.double() / step + noise.double()) * step).float()


# %% wrong: asks for the largest entry, which an empty tensor does not have
def round_stochastically(x, fraction_bits, noise):
    import math

    import torch

    if x.double().max() == math.inf:
        x = x.clone()
    exponent = torch.frexp(x).exponent - 1
    step = torch.exp2((exponent - fraction_bits).double())
    return (torch.floor(x.double() / step + noise.double()) * step).float()


# %% wrong: the noise of the first row for every row
def round_stochastically(x, fraction_bits, noise):
    import torch

    if noise.dim() > 1:
        noise = noise[:1].expand_as(noise)
    step = torch.exp2((torch.frexp(x).exponent - 1 - fraction_bits).double())
    return (torch.floor(x.double() / step + noise.double()) * step).float()


# %% wrong: compares the noise with a share in steps of 1/1024: the smallest updates are lost
def round_stochastically(x, fraction_bits, noise):
    import torch

    step = torch.exp2((torch.frexp(x).exponent - 1 - fraction_bits).double())
    scaled = x.double() / step
    down = scaled.floor()
    return ((down + (noise < ((scaled - down) * 1024).round() / 1024)) * step).float()


# %% right: flattens x with reshape, and the noise with view
def round_stochastically(x, fraction_bits, noise):
    import torch

    shift = 23 - fraction_bits
    bits = x.reshape(-1).view(torch.int32)
    bits = bits + (noise.view(-1).double() * 2**shift).floor().int()
    return (bits >> shift << shift).view(torch.float32).view(x.shape)


# %% wrong: the share of the way up in float16, where almost 1 becomes 1
def round_stochastically(x, fraction_bits, noise):
    import torch

    exponent = torch.frexp(x).exponent - 1
    step = torch.exp2((exponent - fraction_bits).double())
    lower = torch.floor(x.double() / step)
    share = (x.double() / step - lower).half()
    return ((lower + (noise < share.float())) * step).float()


# %% wrong: the share of the way up plus the noise in float32, which rounds the sum up to 1
def round_stochastically(x, fraction_bits, noise):
    exponent = torch.frexp(x).exponent - 1
    scaled = x.double() / torch.exp2((exponent - fraction_bits).double())
    lower = scaled.floor()
    share = (scaled - lower).float()
    up = (share + noise) >= 1
    return ((lower + up) * torch.exp2((exponent - fraction_bits).double())).float()


# %% right: up where the noise is at most the share, except for numbers that need no rounding
def round_stochastically(x, fraction_bits, noise):
    step = torch.exp2((torch.frexp(x).exponent - 1 - fraction_bits).double())
    lower = torch.floor(x.double() / step)
    share = x.double() / step - lower
    up = (noise.double() <= share) & (share > 0)
    return ((lower + up) * step).float()
