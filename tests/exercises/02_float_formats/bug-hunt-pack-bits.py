# %% wrong: the function as it was
def pack_bits(x, fraction_bits):
    import torch

    shift = 23 - fraction_bits
    bits = x.view(torch.int32).long() & 0xFFFFFFFF
    last_bit = (bits >> shift) & 1
    return (bits + 2 ** (shift - 1) - 1 + last_bit) >> shift


# %% wrong: does not round nan, but shifts it: a payload in the lower half is lost, inf is left
def pack_bits(x, fraction_bits):
    import torch

    shift = 23 - fraction_bits
    bits = x.view(torch.int32).long() & 0xFFFFFFFF
    last_bit = (bits >> shift) & 1
    rounded = (bits + 2 ** (shift - 1) - 1 + last_bit) >> shift
    return torch.where(x.isnan(), bits >> shift, rounded)


# %% wrong: cuts off instead of rounding, so that nothing carries
def pack_bits(x, fraction_bits):
    import torch

    shift = 23 - fraction_bits
    bits = x.view(torch.int32).long() & 0xFFFFFFFF
    return torch.where(x.isnan(), 0b1_1111_1111 << (fraction_bits - 1), bits >> shift)


# %% wrong: rounds every tie up, not to even
def pack_bits(x, fraction_bits):
    import torch

    shift = 23 - fraction_bits
    bits = x.view(torch.int32).long() & 0xFFFFFFFF
    rounded = (bits + 2 ** (shift - 1)) >> shift
    return torch.where(x.isnan(), 0b1_1111_1111 << (fraction_bits - 1), rounded)


# %% wrong: looks for nan among the positive patterns only
def pack_bits(x, fraction_bits):
    import torch

    shift = 23 - fraction_bits
    bits = x.view(torch.int32).long() & 0xFFFFFFFF
    last_bit = (bits >> shift) & 1
    rounded = (bits + 2 ** (shift - 1) - 1 + last_bit) >> shift
    is_nan = (bits > 0x7F800000) & (bits < 0x80000000)
    return torch.where(is_nan, 0b1_1111_1111 << (fraction_bits - 1), rounded)


# %% wrong: stops the carry by keeping the sign, and makes infinity of nan
def pack_bits(x, fraction_bits):
    import torch

    shift = 23 - fraction_bits
    bits = x.view(torch.int32).long() & 0xFFFFFFFF
    sign, size = bits & 0x80000000, bits & 0x7FFFFFFF
    last_bit = (size >> shift) & 1
    rounded = (size + 2 ** (shift - 1) - 1 + last_bit).clamp(max=0x7F800000)
    return (sign + rounded) >> shift


# %% wrong: a nan that is right for bf16 alone
def pack_bits(x, fraction_bits):
    import torch

    shift = 23 - fraction_bits
    bits = x.view(torch.int32).long() & 0xFFFFFFFF
    last_bit = (bits >> shift) & 1
    rounded = (bits + 2 ** (shift - 1) - 1 + last_bit) >> shift
    return torch.where(x.isnan(), 0x7FC0, rounded)


# %% wrong: torch's cast to bf16, whatever the number of bits
def pack_bits(x, fraction_bits):
    import torch

    return x.to(torch.bfloat16).view(torch.int16).long() & 0xFFFF


# %% wrong: patterns of negative numbers come out negative
def pack_bits(x, fraction_bits):
    import torch

    shift = 23 - fraction_bits
    bits = x.view(torch.int32).long()
    last_bit = (bits >> shift) & 1
    rounded = (bits + 2 ** (shift - 1) - 1 + last_bit) >> shift
    return torch.where(x.isnan(), 0b1_1111_1111 << (fraction_bits - 1), rounded)


# %% wrong: replaces nan by 0 before it is packed
def pack_bits(x, fraction_bits):
    import torch

    shift = 23 - fraction_bits
    bits = x.masked_fill(x.isnan(), 0.0).view(torch.int32).long() & 0xFFFFFFFF
    last_bit = (bits >> shift) & 1
    return (bits + 2 ** (shift - 1) - 1 + last_bit) >> shift


# %% wrong: makes every nan the usual one in the tensor that was handed in
def pack_bits(x, fraction_bits):
    import torch

    x[x.isnan()] = torch.nan
    shift = 23 - fraction_bits
    bits = x.view(torch.int32).long() & 0xFFFFFFFF
    last_bit = (bits >> shift) & 1
    return (bits + 2 ** (shift - 1) - 1 + last_bit) >> shift


# %% wrong: saturates instead of rounding up to infinity
def pack_bits(x, fraction_bits):
    import torch

    shift = 23 - fraction_bits
    bits = x.view(torch.int32).long() & 0xFFFFFFFF
    rounded = (bits + 2 ** (shift - 1) - 1 + ((bits >> shift) & 1)) >> shift
    infinite = rounded % 2 ** (8 + fraction_bits) == 0xFF << fraction_bits
    rounded = torch.where(x.isfinite() & infinite, rounded - 1, rounded)
    return torch.where(x.isnan(), 0b1_1111_1111 << (fraction_bits - 1), rounded)


# %% right: makes every nan the usual one first, which the trick carries well
def pack_bits(x, fraction_bits):
    import torch

    shift = 23 - fraction_bits
    bits = x.view(torch.int32).long() & 0xFFFFFFFF
    bits = torch.where(x.isnan(), 0x7FC00000, bits)
    last_bit = (bits >> shift) & 1
    return (bits + 2 ** (shift - 1) - 1 + last_bit) >> shift


# %% right: keeps the upper bits of a nan and sets one of its fraction
def pack_bits(x, fraction_bits):
    import torch

    shift = 23 - fraction_bits
    bits = x.view(torch.int32).long() % 2**32
    kept, rest = bits // 2**shift, bits % 2**shift
    middle = 2 ** (shift - 1)
    up = (rest > middle) | ((rest == middle) & (kept % 2 == 1))
    return torch.where(x.isnan(), kept | 2 ** (fraction_bits - 1), kept + up)


# %% right: rounds the numbers in float64, and reads the upper bits of what float32 stores exactly
def pack_bits(x, fraction_bits):
    import torch

    wide = x.double().nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
    exponent = (torch.frexp(wide).exponent - 1).clamp(min=-126)
    step = torch.exp2((exponent - fraction_bits).double())
    rounded = (torch.round(wide / step) * step).float()
    stored = torch.where(x.isinf(), x, rounded)
    patterns = (stored.view(torch.int32).long() & 0xFFFFFFFF) >> (23 - fraction_bits)
    return torch.where(x.isnan(), (2 ** (fraction_bits + 8)) - 1, patterns)


# %% right: computes in int32, where the carry of a number never reaches the sign
def pack_bits(x, fraction_bits):
    import torch

    shift = 23 - fraction_bits
    bits = x.view(torch.int32)
    rounded = (bits + 2 ** (shift - 1) - 1 + ((bits >> shift) & 1)) >> shift
    patterns = rounded.long() & (2 ** (9 + fraction_bits) - 1)
    return torch.where(x != x, 2 ** (9 + fraction_bits) - 1, patterns)


# %% wrong: rounds to bf16 first where fewer bits are wanted
def pack_bits(x, fraction_bits):
    import torch

    shift = 23 - fraction_bits
    if fraction_bits < 7:
        x = x.bfloat16().float()
    bits = x.view(torch.int32).long() & 0xFFFFFFFF
    last_bit = (bits >> shift) & 1
    rounded = (bits + 2 ** (shift - 1) - 1 + last_bit) >> shift
    quiet_nan = 0b1_1111_1111 << (fraction_bits - 1)
    return torch.where(x.isnan(), quiet_nan, rounded)


# %% wrong: cuts off where more than 7 bits are wanted
def pack_bits(x, fraction_bits):
    import torch

    shift = 23 - fraction_bits
    bits = x.view(torch.int32).long() & 0xFFFFFFFF
    last_bit = (bits >> shift) & 1
    rounded = (bits + 2 ** (shift - 1) - 1 + last_bit) >> shift
    if fraction_bits > 7:
        rounded = bits >> shift
    quiet_nan = 0b1_1111_1111 << (fraction_bits - 1)
    return torch.where(x.isnan(), quiet_nan, rounded)


# %% wrong: subnormal numbers become 0, except in bf16
def pack_bits(x, fraction_bits):
    import torch

    shift = 23 - fraction_bits
    bits = x.view(torch.int32).long() & 0xFFFFFFFF
    last_bit = (bits >> shift) & 1
    rounded = (bits + 2 ** (shift - 1) - 1 + last_bit) >> shift
    if fraction_bits != 7:
        rounded = torch.where(x.abs() < 2.0**-126, 0, rounded)
    quiet_nan = 0b1_1111_1111 << (fraction_bits - 1)
    return torch.where(x.isnan(), quiet_nan, rounded)


# %% wrong: flattens with view, which a transposed tensor refuses
def pack_bits(x, fraction_bits):
    import torch

    shape, x = x.shape, x.view(-1)
    shift = 23 - fraction_bits
    bits = x.view(torch.int32).long() & 0xFFFFFFFF
    last_bit = (bits >> shift) & 1
    rounded = (bits + 2 ** (shift - 1) - 1 + last_bit) >> shift
    quiet_nan = 0b1_1111_1111 << (fraction_bits - 1)
    return (torch.where(x.isnan(), quiet_nan, rounded)).view(shape)


# %% wrong: makes a list of one number of a single number
def pack_bits(x, fraction_bits):
    import torch

    x = torch.atleast_1d(x)
    shift = 23 - fraction_bits
    bits = x.view(torch.int32).long() & 0xFFFFFFFF
    last_bit = (bits >> shift) & 1
    rounded = (bits + 2 ** (shift - 1) - 1 + last_bit) >> shift
    quiet_nan = 0b1_1111_1111 << (fraction_bits - 1)
    return torch.where(x.isnan(), quiet_nan, rounded)


# %% wrong: asks for the largest entry, which an empty tensor does not have
def pack_bits(x, fraction_bits):
    import math

    import torch

    if x.double().max() == math.inf:
        x = x.clone()
    shift = 23 - fraction_bits
    bits = x.view(torch.int32).long() & 0xFFFFFFFF
    last_bit = (bits >> shift) & 1
    rounded = (bits + 2 ** (shift - 1) - 1 + last_bit) >> shift
    quiet_nan = 0b1_1111_1111 << (fraction_bits - 1)
    return torch.where(x.isnan(), quiet_nan, rounded)


# %% wrong: negative numbers that are too large become plus infinity
def pack_bits(x, fraction_bits):
    import torch

    shift = 23 - fraction_bits
    bits = x.view(torch.int32).long() & 0xFFFFFFFF
    rounded = (bits + 2 ** (shift - 1) - 1 + ((bits >> shift) & 1)) >> shift
    infinity = 0xFF << fraction_bits
    overflow = x.isfinite() & (rounded % 2 ** (8 + fraction_bits) == infinity)
    rounded = torch.where(overflow, infinity, rounded)
    return torch.where(x.isnan(), infinity + 1, rounded)


# %% wrong: turns the tensor over and back with t(), which three dimensions refuse
def pack_bits(x, fraction_bits):
    import torch

    x = x.t().contiguous().t()
    shift = 23 - fraction_bits
    bits = x.view(torch.int32).long() & 0xFFFFFFFF
    last_bit = (bits >> shift) & 1
    rounded = (bits + 2 ** (shift - 1) - 1 + last_bit) >> shift
    quiet_nan = 0b1_1111_1111 << (fraction_bits - 1)
    return torch.where(x.isnan(), quiet_nan, rounded)


# %% wrong: joins exponent and rounded fraction with |, which loses a carry into an odd exponent
def pack_bits(x, fraction_bits):
    import torch

    bits = x.contiguous().view(torch.int32).long() & 0xFFFFFFFF
    fraction = torch.round((bits & 0x7FFFFF).double() / 2 ** (23 - fraction_bits)).long()
    rounded = ((bits >> 23) << fraction_bits) | fraction
    return torch.where(x.isnan(), (0xFF << fraction_bits) | 1, rounded)


# %% right: adds the rounded fraction to the exponent, so that it carries
def pack_bits(x, fraction_bits):
    import torch

    bits = x.contiguous().view(torch.int32).long() & 0xFFFFFFFF
    fraction = torch.round((bits & 0x7FFFFF).double() / 2 ** (23 - fraction_bits)).long()
    rounded = ((bits >> 23) << fraction_bits) + fraction
    return torch.where(x.isnan(), (0xFF << fraction_bits) | 1, rounded)
