# %% wrong: cuts off instead of rounding
def round_to(x, exponent_bits, fraction_bits, largest):
    import torch

    wide = x.double()
    exponent = (torch.frexp(wide).exponent - 1).clamp(min=2 - 2 ** (exponent_bits - 1))
    step = torch.exp2((exponent - fraction_bits).double())
    rounded = torch.trunc(wide / step) * step
    infinity = torch.copysign(torch.full_like(wide, torch.inf), wide)
    rounded = torch.where(rounded.abs() > largest, infinity, rounded)
    return torch.where(wide.isfinite(), rounded, wide).to(x.dtype)


# %% wrong: rounds ties away from zero, by adding one half
def round_to(x, exponent_bits, fraction_bits, largest):
    import torch

    wide = x.double()
    exponent = (torch.frexp(wide).exponent - 1).clamp(min=2 - 2 ** (exponent_bits - 1))
    step = torch.exp2((exponent - fraction_bits).double())
    rounded = torch.copysign(torch.floor(wide.abs() / step + 0.5) * step, wide)
    infinity = torch.copysign(torch.full_like(wide, torch.inf), wide)
    rounded = torch.where(rounded.abs() > largest, infinity, rounded)
    return torch.where(wide.isfinite(), rounded, wide).to(x.dtype)


# %% wrong: no subnormal numbers, as if the exponent had no lower end
def round_to(x, exponent_bits, fraction_bits, largest):
    import torch

    wide = x.double()
    exponent = torch.frexp(wide).exponent - 1
    step = torch.exp2((exponent - fraction_bits).double())
    rounded = torch.round(wide / step) * step
    infinity = torch.copysign(torch.full_like(wide, torch.inf), wide)
    rounded = torch.where(rounded.abs() > largest, infinity, rounded)
    return torch.where(wide.isfinite(), rounded, wide).to(x.dtype)


# %% wrong: flushes subnormal numbers to zero
def round_to(x, exponent_bits, fraction_bits, largest):
    import torch

    wide = x.double()
    lowest = 2 - 2 ** (exponent_bits - 1)
    exponent = (torch.frexp(wide).exponent - 1).clamp(min=lowest)
    step = torch.exp2((exponent - fraction_bits).double())
    rounded = torch.round(wide / step) * step
    rounded = torch.where(rounded.abs() < 2.0**lowest, torch.copysign(0 * wide, wide), rounded)
    infinity = torch.copysign(torch.full_like(wide, torch.inf), wide)
    rounded = torch.where(rounded.abs() > largest, infinity, rounded)
    return torch.where(wide.isfinite(), rounded, wide).to(x.dtype)


# %% wrong: whatever exceeds the largest number before rounding is infinite
def round_to(x, exponent_bits, fraction_bits, largest):
    import torch

    wide = x.double()
    exponent = (torch.frexp(wide).exponent - 1).clamp(min=2 - 2 ** (exponent_bits - 1))
    step = torch.exp2((exponent - fraction_bits).double())
    rounded = torch.round(wide / step) * step
    infinity = torch.copysign(torch.full_like(wide, torch.inf), wide)
    rounded = torch.where(wide.abs() > largest, infinity, rounded)
    return torch.where(wide.isfinite(), rounded, wide).to(x.dtype)


# %% wrong: saturates: too large becomes the largest number
def round_to(x, exponent_bits, fraction_bits, largest):
    import torch

    wide = x.double()
    exponent = (torch.frexp(wide).exponent - 1).clamp(min=2 - 2 ** (exponent_bits - 1))
    step = torch.exp2((exponent - fraction_bits).double())
    rounded = (torch.round(wide / step) * step).clamp(-largest, largest)
    return torch.where(wide.isfinite(), rounded, wide).to(x.dtype)


# %% wrong: the infinity has always the sign plus
def round_to(x, exponent_bits, fraction_bits, largest):
    import torch

    wide = x.double()
    exponent = (torch.frexp(wide).exponent - 1).clamp(min=2 - 2 ** (exponent_bits - 1))
    step = torch.exp2((exponent - fraction_bits).double())
    rounded = torch.round(wide / step) * step
    rounded = torch.where(rounded.abs() > largest, torch.inf, rounded)
    return torch.where(wide.isfinite(), rounded, wide).to(x.dtype)


# %% wrong: computes the step by a rounded logarithm
def round_to(x, exponent_bits, fraction_bits, largest):
    import torch

    exponent = torch.floor(torch.log2(x.abs())).clamp(min=2 - 2 ** (exponent_bits - 1))
    step = torch.exp2(exponent.double() - fraction_bits)
    wide = x.double()
    rounded = torch.round(wide / step) * step
    infinity = torch.copysign(torch.full_like(wide, torch.inf), wide)
    rounded = torch.where(rounded.abs() > largest, infinity, rounded)
    return torch.where(wide.isfinite(), rounded, wide).to(x.dtype)


# %% wrong: loses the sign of zero
def round_to(x, exponent_bits, fraction_bits, largest):
    import torch

    wide = x.double()
    exponent = (torch.frexp(wide).exponent - 1).clamp(min=2 - 2 ** (exponent_bits - 1))
    step = torch.exp2((exponent - fraction_bits).double())
    rounded = torch.round(wide / step) * step + 0.0
    infinity = torch.copysign(torch.full_like(wide, torch.inf), wide)
    rounded = torch.where(rounded.abs() > largest, infinity, rounded)
    return torch.where(wide.isfinite(), rounded, wide).to(x.dtype)


# %% wrong: rounds to float32 first, so that some numbers are rounded twice
def round_to(x, exponent_bits, fraction_bits, largest):
    import torch

    wide = x.float().double()
    exponent = (torch.frexp(wide).exponent - 1).clamp(min=2 - 2 ** (exponent_bits - 1))
    step = torch.exp2((exponent - fraction_bits).double())
    rounded = torch.round(wide / step) * step
    infinity = torch.copysign(torch.full_like(wide, torch.inf), wide)
    rounded = torch.where(rounded.abs() > largest, infinity, rounded)
    return torch.where(wide.isfinite(), rounded, wide).to(x.dtype)


# %% wrong: torch's casts, which know four formats
def round_to(x, exponent_bits, fraction_bits, largest):
    import torch

    if (exponent_bits, fraction_bits) == (5, 10):
        return x.to(torch.float16).to(x.dtype)
    if (exponent_bits, fraction_bits) == (8, 7):
        return x.to(torch.bfloat16).to(x.dtype)
    if (exponent_bits, fraction_bits) == (5, 2):
        return x.to(torch.float8_e5m2).to(x.dtype)
    if (exponent_bits, fraction_bits) == (4, 3):
        return x.to(torch.float8_e4m3fn).to(x.dtype)
    return x.float().to(x.dtype)


# %% wrong: fp16's lowest exponent for every format
def round_to(x, exponent_bits, fraction_bits, largest):
    import torch

    wide = x.double()
    exponent = (torch.frexp(wide).exponent - 1).clamp(min=-14)
    step = torch.exp2((exponent - fraction_bits).double())
    rounded = torch.round(wide / step) * step
    infinity = torch.copysign(torch.full_like(wide, torch.inf), wide)
    rounded = torch.where(rounded.abs() > largest, infinity, rounded)
    return torch.where(wide.isfinite(), rounded, wide).to(x.dtype)


# %% wrong: computes the largest number by the rule, and ignores the one that is given
def round_to(x, exponent_bits, fraction_bits, largest):
    import torch

    largest = (2 - 2.0**-fraction_bits) * 2.0 ** (2 ** (exponent_bits - 1) - 1)
    wide = x.double()
    exponent = (torch.frexp(wide).exponent - 1).clamp(min=2 - 2 ** (exponent_bits - 1))
    step = torch.exp2((exponent - fraction_bits).double())
    rounded = torch.round(wide / step) * step
    infinity = torch.copysign(torch.full_like(wide, torch.inf), wide)
    rounded = torch.where(rounded.abs() > largest, infinity, rounded)
    return torch.where(wide.isfinite(), rounded, wide).to(x.dtype)


# %% wrong: puts zeros for inf and nan into the tensor that was handed in
def round_to(x, exponent_bits, fraction_bits, largest):
    import torch

    special, given = ~x.isfinite(), x.double()
    x[special] = 0
    wide = x.double()
    exponent = (torch.frexp(wide).exponent - 1).clamp(min=2 - 2 ** (exponent_bits - 1))
    step = torch.exp2((exponent - fraction_bits).double())
    rounded = torch.round(wide / step) * step
    infinity = torch.copysign(torch.full_like(wide, torch.inf), wide)
    rounded = torch.where(rounded.abs() > largest, infinity, rounded)
    return torch.where(special, given, rounded).to(x.dtype)


# %% wrong: the integer trick on float32's bits, also where x is float64
def round_to(x, exponent_bits, fraction_bits, largest):
    import torch

    shift = 23 - fraction_bits
    bits = x.float().view(torch.int32).long() & 0xFFFFFFFF
    if shift > 0:
        bits = ((bits + 2 ** (shift - 1) - 1 + ((bits >> shift) & 1)) >> shift) << shift
    bits = torch.where(bits >= 2**31, bits - 2**32, bits).to(torch.int32)
    rounded = bits.view(torch.float32).to(x.dtype)
    lowest = 2.0 ** (2 - 2 ** (exponent_bits - 1))
    step = lowest * 2.0**-fraction_bits
    rounded = torch.where(x.abs() < lowest, (x / step).round() * step, rounded)
    infinity = torch.copysign(torch.full_like(x, torch.inf), x)
    rounded = torch.where(rounded.abs() > largest, infinity, rounded)
    return torch.where(x.isfinite(), rounded, x)


# %% wrong: a table of the lowest exponents of well-known formats
def round_to(x, exponent_bits, fraction_bits, largest):
    import torch

    wide = x.double()
    lowest = {3: -2, 4: -6, 5: -14, 8: -126}.get(exponent_bits, -30)
    exponent = (torch.frexp(wide).exponent - 1).clamp(min=lowest)
    step = torch.exp2((exponent - fraction_bits).double())
    rounded = torch.round(wide / step) * step
    infinity = torch.copysign(torch.full_like(wide, torch.inf), wide)
    rounded = torch.where(rounded.abs() > largest, infinity, rounded)
    return torch.where(wide.isfinite(), rounded, wide).to(x.dtype)


# %% right: adds and takes away a large power of two, which rounds by itself
def round_to(x, exponent_bits, fraction_bits, largest):
    import torch

    size = x.abs().double()
    exponent = (torch.frexp(size).exponent - 1).clamp(min=2 - 2 ** (exponent_bits - 1))
    large = 1.5 * torch.exp2((exponent - fraction_bits + 52).double())
    rounded = (size + large) - large
    rounded[rounded > largest] = torch.inf
    rounded = torch.where(x.isfinite(), rounded, size)
    return torch.copysign(rounded, x.double()).to(x.dtype)


# %% right: rounds by hand: floor, and the even neighbor at a tie
def round_to(x, exponent_bits, fraction_bits, largest):
    import torch

    size = x.abs().double()
    lowest = 2.0 ** (2 - 2 ** (exponent_bits - 1))
    power = torch.exp2((torch.frexp(size).exponent - 1).double()).clamp(min=lowest)
    scaled = size / power * 2**fraction_bits
    down = scaled.floor()
    rest = scaled - down
    up = (rest > 0.5) | ((rest == 0.5) & (down % 2 == 1))
    rounded = (down + up) * power / 2**fraction_bits
    rounded = rounded.masked_fill(rounded > largest, torch.inf)
    rounded = torch.where(size.isfinite(), rounded, size)
    return (rounded * torch.where(torch.signbit(x), -1.0, 1.0)).to(x.dtype)


# %% right: ldexp instead of multiplying by a power of two
def round_to(x, exponent_bits, fraction_bits, largest):
    import torch

    mantissa, exponent = torch.frexp(x.double())
    missing = (3 - 2 ** (exponent_bits - 1) - exponent).clamp(min=0)
    kept = (fraction_bits + 1 - missing).double()
    rounded = torch.round(mantissa * torch.exp2(kept)) * torch.exp2(exponent - kept)
    too_large = rounded.abs() > largest
    rounded = torch.where(too_large, rounded.sign() * torch.inf, rounded)
    return torch.where(x.isfinite(), rounded.to(x.dtype), x)


# %% right: the logarithm in float64, exact enough for at most 23 bits
def round_to(x, exponent_bits, fraction_bits, largest):
    import torch

    wide = x.double()
    exponent = wide.abs().log2().floor().clamp(min=2 - 2 ** (exponent_bits - 1))
    step = torch.exp2(exponent - fraction_bits)
    rounded = torch.round(wide / step) * step
    infinity = torch.copysign(torch.full_like(wide, torch.inf), wide)
    rounded = torch.where(rounded.abs() > largest, infinity, rounded)
    return torch.where(wide.isfinite(), rounded, wide).to(x.dtype)


# %% wrong: a largest number below the one that the widths allow is ignored
def round_to(x, exponent_bits, fraction_bits, largest):
    import math

    import torch

    largest = max(largest, (2 - 2.0**-fraction_bits) * 2.0 ** (2 ** (exponent_bits - 1) - 1))
    wide = x.double()
    lowest = 2 - 2 ** (exponent_bits - 1)
    exponent = (torch.frexp(wide).exponent - 1).clamp(min=lowest)
    step = torch.exp2((exponent - fraction_bits).double())
    rounded = torch.round(wide / step) * step
    infinity = torch.copysign(torch.full_like(wide, math.inf), wide)
    rounded = torch.where(rounded.abs() > largest, infinity, rounded)
    return torch.where(wide.isfinite(), rounded, wide).to(x.dtype)


# %% wrong: nan becomes infinity in float64
def round_to(x, exponent_bits, fraction_bits, largest):
    import math

    import torch

    wide = x.double()
    lowest = 2 - 2 ** (exponent_bits - 1)
    exponent = (torch.frexp(wide).exponent - 1).clamp(min=lowest)
    step = torch.exp2((exponent - fraction_bits).double())
    rounded = torch.round(wide / step) * step
    infinity = torch.copysign(torch.full_like(wide, math.inf), wide)
    rounded = torch.where(rounded.abs() > largest, infinity, rounded)
    if x.dtype == torch.float64:
        wide = wide.nan_to_num(nan=math.inf, posinf=math.inf, neginf=-math.inf)
    return torch.where(wide.isfinite(), rounded, wide).to(x.dtype)


# %% wrong: flattens with view, which a transposed tensor refuses
def round_to(x, exponent_bits, fraction_bits, largest):
    import math

    import torch

    shape, x = x.shape, x.view(-1)
    wide = x.double()
    lowest = 2 - 2 ** (exponent_bits - 1)
    exponent = (torch.frexp(wide).exponent - 1).clamp(min=lowest)
    step = torch.exp2((exponent - fraction_bits).double())
    rounded = torch.round(wide / step) * step
    infinity = torch.copysign(torch.full_like(wide, math.inf), wide)
    rounded = torch.where(rounded.abs() > largest, infinity, rounded)
    return (torch.where(wide.isfinite(), rounded, wide).to(x.dtype)).view(shape)


# %% wrong: makes a list of one number of a single number
def round_to(x, exponent_bits, fraction_bits, largest):
    import math

    import torch

    x = torch.atleast_1d(x)
    wide = x.double()
    lowest = 2 - 2 ** (exponent_bits - 1)
    exponent = (torch.frexp(wide).exponent - 1).clamp(min=lowest)
    step = torch.exp2((exponent - fraction_bits).double())
    rounded = torch.round(wide / step) * step
    infinity = torch.copysign(torch.full_like(wide, math.inf), wide)
    rounded = torch.where(rounded.abs() > largest, infinity, rounded)
    return torch.where(wide.isfinite(), rounded, wide).to(x.dtype)


# %% wrong: asks for the largest entry, which an empty tensor does not have
def round_to(x, exponent_bits, fraction_bits, largest):
    import math

    import torch

    if x.double().max() == math.inf:
        x = x.clone()
    wide = x.double()
    lowest = 2 - 2 ** (exponent_bits - 1)
    exponent = (torch.frexp(wide).exponent - 1).clamp(min=lowest)
    step = torch.exp2((exponent - fraction_bits).double())
    rounded = torch.round(wide / step) * step
    infinity = torch.copysign(torch.full_like(wide, math.inf), wide)
    rounded = torch.where(rounded.abs() > largest, infinity, rounded)
    return torch.where(wide.isfinite(), rounded, wide).to(x.dtype)


# %% wrong: very small numbers are flushed to zero
def round_to(x, exponent_bits, fraction_bits, largest):
    import math

    import torch

    wide = x.double()
    lowest = 2 - 2 ** (exponent_bits - 1)
    exponent = (torch.frexp(wide).exponent - 1).clamp(min=lowest)
    step = torch.exp2((exponent - fraction_bits).double())
    rounded = torch.round(wide / step) * step
    infinity = torch.copysign(torch.full_like(wide, math.inf), wide)
    rounded = torch.where(rounded.abs() > largest, infinity, rounded)
    rounded = torch.where(rounded.abs() < 2.0**-140, 0 * rounded, rounded)
    return torch.where(wide.isfinite(), rounded, wide).to(x.dtype)


# %% wrong: scales float32 numbers in float32, which overflows near the smallest ones of bfloat16
def round_to(x, exponent_bits, fraction_bits, largest):
    import torch

    exponent = (torch.frexp(x.double()).exponent - 1).clamp(min=2 - 2 ** (exponent_bits - 1))
    up = torch.exp2((fraction_bits - exponent).to(x.dtype))
    rounded = torch.round(x * up) / up
    infinity = torch.copysign(torch.full_like(x, torch.inf), x)
    rounded = torch.where(rounded.abs() > largest, infinity, rounded)
    return torch.where(x.isfinite(), rounded, x)


# %% wrong: works in place on a float64 tensor, because double() does not copy it
def round_to(x, exponent_bits, fraction_bits, largest):
    import torch

    given, sign = x.dtype, x.double().clone()
    exponent = (torch.frexp(x.double()).exponent - 1).clamp(min=2 - 2 ** (exponent_bits - 1))
    step = torch.exp2((exponent - fraction_bits).double())
    wide = x.double()
    rounded = wide.div_(step).round_().mul_(step)
    infinity = torch.copysign(torch.full_like(sign, torch.inf), sign)
    rounded = torch.where(rounded.abs() > largest, infinity, rounded)
    return torch.where(sign.isfinite(), rounded, sign).to(given)


# %% wrong: turns the tensor over and back with t(), which three dimensions refuse
def round_to(x, exponent_bits, fraction_bits, largest):
    import math

    import torch

    x = x.t().contiguous().t()
    wide = x.double()
    lowest = 2 - 2 ** (exponent_bits - 1)
    exponent = (torch.frexp(wide).exponent - 1).clamp(min=lowest)
    step = torch.exp2((exponent - fraction_bits).double())
    rounded = torch.round(wide / step) * step
    infinity = torch.copysign(torch.full_like(wide, math.inf), wide)
    rounded = torch.where(rounded.abs() > largest, infinity, rounded)
    return torch.where(wide.isfinite(), rounded, wide).to(x.dtype)


# %% wrong: keeps the steps for the next tensor of the same shape and format
STEPS = {}


def round_to(x, exponent_bits, fraction_bits, largest):
    import math

    import torch

    wide = x.double()
    lowest = 2 - 2 ** (exponent_bits - 1)
    exponent = (torch.frexp(wide).exponent - 1).clamp(min=lowest)
    step = torch.exp2((exponent - fraction_bits).double())
    step = STEPS.setdefault((x.shape, exponent_bits, fraction_bits), step)
    rounded = torch.round(wide / step) * step
    infinity = torch.copysign(torch.full_like(wide, math.inf), wide)
    rounded = torch.where(rounded.abs() > largest, infinity, rounded)
    return torch.where(wide.isfinite(), rounded, wide).to(x.dtype)


# %% wrong: torch's cast where it rounds float64 to float32 first: some numbers are rounded twice
def round_to(x, exponent_bits, fraction_bits, largest):
    import torch

    if (exponent_bits, fraction_bits) == (8, 7):
        rounded = x.to(torch.bfloat16).double()
    else:
        wide = x.double()
        exponent = (torch.frexp(wide).exponent - 1).clamp(min=2 - 2 ** (exponent_bits - 1))
        step = torch.exp2((exponent - fraction_bits).double())
        rounded = torch.round(wide / step) * step
    infinity = torch.copysign(torch.full_like(rounded, torch.inf), rounded)
    rounded = torch.where(rounded.abs() > largest, infinity, rounded)
    return torch.where(x.isfinite(), rounded.to(x.dtype), x)


# %% wrong: torch's cast to fp8, which rounds float64 twice
def round_to(x, exponent_bits, fraction_bits, largest):
    import torch

    if (exponent_bits, fraction_bits) == (5, 2):
        rounded = x.to(torch.float8_e5m2).double()
    else:
        wide = x.double()
        exponent = (torch.frexp(wide).exponent - 1).clamp(min=2 - 2 ** (exponent_bits - 1))
        step = torch.exp2((exponent - fraction_bits).double())
        rounded = torch.round(wide / step) * step
    infinity = torch.copysign(torch.full_like(rounded, torch.inf), rounded)
    rounded = torch.where(rounded.abs() > largest, infinity, rounded)
    return torch.where(x.isfinite(), rounded.to(x.dtype), x)


# %% wrong: torch's casts from float32, whatever the largest number
def round_to(x, exponent_bits, fraction_bits, largest):
    import torch

    known = {(5, 10): torch.float16, (8, 7): torch.bfloat16, (5, 2): torch.float8_e5m2}
    dtype = known.get((exponent_bits, fraction_bits))
    if dtype is not None and x.dtype == torch.float32:
        return x.to(dtype).float()
    wide = x.double()
    exponent = (torch.frexp(wide).exponent - 1).clamp(min=2 - 2 ** (exponent_bits - 1))
    step = torch.exp2((exponent - fraction_bits).double())
    rounded = torch.round(wide / step) * step
    infinity = torch.copysign(torch.full_like(wide, torch.inf), wide)
    rounded = torch.where(rounded.abs() > largest, infinity, rounded)
    return torch.where(wide.isfinite(), rounded, wide).to(x.dtype)


# %% wrong: a step in float32, which is infinite for a large float64 number
def round_to(x, exponent_bits, fraction_bits, largest):
    import torch

    wide = x.double()
    exponent = (torch.frexp(wide).exponent - 1).clamp(min=2 - 2 ** (exponent_bits - 1))
    step = torch.exp2((exponent - fraction_bits).float())
    rounded = torch.round(wide / step) * step
    infinity = torch.copysign(torch.full_like(wide, torch.inf), wide)
    rounded = torch.where(rounded.abs() > largest, infinity, rounded)
    return torch.where(wide.isfinite(), rounded, wide).to(x.dtype)


# %% wrong: takes 23 bits of fraction for float32, whose numbers need no rounding
def round_to(x, exponent_bits, fraction_bits, largest):
    import torch

    if fraction_bits == 23:
        return x.clone()
    wide = x.double()
    exponent = (torch.frexp(wide).exponent - 1).clamp(min=2 - 2 ** (exponent_bits - 1))
    step = torch.exp2((exponent - fraction_bits).double())
    rounded = torch.round(wide / step) * step
    infinity = torch.copysign(torch.full_like(wide, torch.inf), wide)
    rounded = torch.where(rounded.abs() > largest, infinity, rounded)
    return torch.where(wide.isfinite(), rounded, wide).to(x.dtype)


# %% wrong: torch's cast to float32, whatever the largest number
def round_to(x, exponent_bits, fraction_bits, largest):
    import torch

    if (exponent_bits, fraction_bits) == (8, 23):
        return x.float().to(x.dtype)
    wide = x.double()
    exponent = (torch.frexp(wide).exponent - 1).clamp(min=2 - 2 ** (exponent_bits - 1))
    step = torch.exp2((exponent - fraction_bits).double())
    rounded = torch.round(wide / step) * step
    infinity = torch.copysign(torch.full_like(wide, torch.inf), wide)
    rounded = torch.where(rounded.abs() > largest, infinity, rounded)
    return torch.where(wide.isfinite(), rounded, wide).to(x.dtype)


# %% wrong: takes the bias from the largest number, which need not have the largest exponent
def round_to(x, exponent_bits, fraction_bits, largest):
    import math

    import torch

    bias = math.frexp(largest)[1] - 1
    wide = x.double()
    exponent = (torch.frexp(wide).exponent - 1).clamp(min=1 - bias)
    step = torch.exp2((exponent - fraction_bits).double())
    rounded = torch.round(wide / step) * step
    infinity = torch.copysign(torch.full_like(wide, torch.inf), wide)
    rounded = torch.where(rounded.abs() > largest, infinity, rounded)
    return torch.where(wide.isfinite(), rounded, wide).to(x.dtype)


# %% wrong: takes 8 for the bias of e4m3, because its largest exponent is 8
def round_to(x, exponent_bits, fraction_bits, largest):
    import torch

    bias = 8 if largest == 448.0 else 2 ** (exponent_bits - 1) - 1
    wide = x.double()
    exponent = (torch.frexp(wide).exponent - 1).clamp(min=1 - bias)
    step = torch.exp2((exponent - fraction_bits).double())
    rounded = torch.round(wide / step) * step
    infinity = torch.copysign(torch.full_like(wide, torch.inf), wide)
    rounded = torch.where(rounded.abs() > largest, infinity, rounded)
    return torch.where(wide.isfinite(), rounded, wide).to(x.dtype)


# %% wrong: restores the sign of zero in float32 alone
def round_to(x, exponent_bits, fraction_bits, largest):
    import torch

    size = x.abs().double()
    exponent = (torch.frexp(size).exponent - 1).clamp(min=2 - 2 ** (exponent_bits - 1))
    step = torch.exp2((exponent - fraction_bits).double())
    rounded = torch.round(size / step) * step
    rounded = torch.where(size.isfinite(), rounded.masked_fill(rounded > largest, torch.inf), size)
    if x.dtype == torch.float32:
        return torch.copysign(rounded.float(), x)
    return torch.where(x < 0, -rounded, rounded)


# %% wrong: puts a 1 in the place of every zero of x, and a zero into the result
def round_to(x, exponent_bits, fraction_bits, largest):
    sign = torch.where(torch.signbit(x), -1.0, 1.0).to(x.dtype)
    is_zero = x == 0
    x[is_zero] = 1.0
    y = x.double().abs()
    exponent = (torch.frexp(y)[1] - 1).clamp(min=2 - 2 ** (exponent_bits - 1))
    step = torch.ldexp(torch.ones_like(y), exponent - fraction_bits)
    rounded = torch.round(y / step) * step
    rounded[rounded > largest] = math.inf
    rounded = torch.where(y.isfinite(), rounded, y).to(x.dtype)
    rounded[is_zero] = 0.0
    return torch.copysign(rounded, sign)
