# %% wrong: gives subnormal numbers the hidden 1 as well
def decode_bits(bits, exponent_bits, fraction_bits):
    import torch

    sign = bits >> (exponent_bits + fraction_bits)
    exponent = (bits >> fraction_bits) & (2**exponent_bits - 1)
    fraction = bits & (2**fraction_bits - 1)
    power = (exponent - (2 ** (exponent_bits - 1) - 1)).double()
    size = (1 + fraction.double() / 2**fraction_bits) * torch.exp2(power)
    size = torch.where((exponent == 0) & (fraction == 0), 0.0, size)
    special = torch.where(fraction == 0, float("inf"), float("nan")).double()
    size = torch.where(exponent == 2**exponent_bits - 1, special, size)
    return torch.where(sign == 1, -size, size)


# %% wrong: lets the exponent of subnormal numbers go one too low
def decode_bits(bits, exponent_bits, fraction_bits):
    import torch

    sign = bits >> (exponent_bits + fraction_bits)
    exponent = (bits >> fraction_bits) & (2**exponent_bits - 1)
    fraction = bits & (2**fraction_bits - 1)
    power = (exponent - (2 ** (exponent_bits - 1) - 1)).double()
    size = ((exponent > 0) + fraction.double() / 2**fraction_bits) * torch.exp2(power)
    special = torch.where(fraction == 0, float("inf"), float("nan")).double()
    size = torch.where(exponent == 2**exponent_bits - 1, special, size)
    return torch.where(sign == 1, -size, size)


# %% wrong: a bias of 2 to the power e minus 1, without the last subtraction
def decode_bits(bits, exponent_bits, fraction_bits):
    import torch

    sign = bits >> (exponent_bits + fraction_bits)
    exponent = (bits >> fraction_bits) & (2**exponent_bits - 1)
    fraction = bits & (2**fraction_bits - 1)
    power = (exponent.clamp(min=1) - 2 ** (exponent_bits - 1)).double()
    size = ((exponent > 0) + fraction.double() / 2**fraction_bits) * torch.exp2(power)
    special = torch.where(fraction == 0, float("inf"), float("nan")).double()
    size = torch.where(exponent == 2**exponent_bits - 1, special, size)
    return torch.where(sign == 1, -size, size)


# %% wrong: knows no infinity and no nan
def decode_bits(bits, exponent_bits, fraction_bits):
    import torch

    sign = bits >> (exponent_bits + fraction_bits)
    exponent = (bits >> fraction_bits) & (2**exponent_bits - 1)
    fraction = bits & (2**fraction_bits - 1)
    power = (exponent.clamp(min=1) - (2 ** (exponent_bits - 1) - 1)).double()
    size = ((exponent > 0) + fraction.double() / 2**fraction_bits) * torch.exp2(power)
    return size * (1 - 2 * sign)


# %% wrong: every pattern with an exponent of ones is infinity
def decode_bits(bits, exponent_bits, fraction_bits):
    import torch

    sign = bits >> (exponent_bits + fraction_bits)
    exponent = (bits >> fraction_bits) & (2**exponent_bits - 1)
    fraction = bits & (2**fraction_bits - 1)
    power = (exponent.clamp(min=1) - (2 ** (exponent_bits - 1) - 1)).double()
    size = ((exponent > 0) + fraction.double() / 2**fraction_bits) * torch.exp2(power)
    size = torch.where(exponent == 2**exponent_bits - 1, float("inf"), size)
    return size * (1 - 2 * sign)


# %% wrong: reads the sign as a number in two's complement
def decode_bits(bits, exponent_bits, fraction_bits):
    import torch

    width = exponent_bits + fraction_bits
    sign = torch.where(bits >= 2**width, -1.0, 1.0).double()
    pattern = torch.where(bits >= 2**width, 2 ** (width + 1) - bits, bits)
    exponent = (pattern >> fraction_bits) & (2**exponent_bits - 1)
    fraction = pattern & (2**fraction_bits - 1)
    power = (exponent.clamp(min=1) - (2 ** (exponent_bits - 1) - 1)).double()
    size = ((exponent > 0) + fraction.double() / 2**fraction_bits) * torch.exp2(power)
    special = torch.where(fraction == 0, float("inf"), float("nan")).double()
    return sign * torch.where(exponent == 2**exponent_bits - 1, special, size)


# %% wrong: the minus zero comes out as zero
def decode_bits(bits, exponent_bits, fraction_bits):
    import torch

    sign = bits >> (exponent_bits + fraction_bits)
    exponent = (bits >> fraction_bits) & (2**exponent_bits - 1)
    fraction = bits & (2**fraction_bits - 1)
    power = (exponent.clamp(min=1) - (2 ** (exponent_bits - 1) - 1)).double()
    significand = (exponent > 0) * 2**fraction_bits + fraction
    size = torch.where(sign == 1, -significand, significand).double()
    size = size * torch.exp2(power - fraction_bits)
    special = torch.where(fraction == 0, float("inf"), float("nan")).double()
    return torch.where(exponent == 2**exponent_bits - 1, special * (1 - 2 * sign), size)


# %% wrong: works for the formats that torch has, guessed from the width
def decode_bits(bits, exponent_bits, fraction_bits):
    import torch

    if exponent_bits + fraction_bits == 15:
        dtype = torch.float16 if exponent_bits == 5 else torch.bfloat16
        return bits.to(torch.int16).view(dtype).double()
    if exponent_bits + fraction_bits == 7:
        return bits.to(torch.uint8).view(torch.float8_e5m2).double()
    return bits.to(torch.int32).view(torch.float32).double()


# %% wrong: the values as float32
def decode_bits(bits, exponent_bits, fraction_bits):
    import torch

    sign = bits >> (exponent_bits + fraction_bits)
    exponent = (bits >> fraction_bits) & (2**exponent_bits - 1)
    fraction = bits & (2**fraction_bits - 1)
    power = (exponent.clamp(min=1) - (2 ** (exponent_bits - 1) - 1)).float()
    size = ((exponent > 0) + fraction.float() / 2**fraction_bits) * torch.exp2(power)
    special = torch.where(fraction == 0, float("inf"), float("nan"))
    return torch.where(exponent == 2**exponent_bits - 1, special, size) * (1.0 - 2.0 * sign)


# %% wrong: looks the bias up, for the widths that it has heard of
def decode_bits(bits, exponent_bits, fraction_bits):
    import torch

    sign = bits >> (exponent_bits + fraction_bits)
    exponent = (bits >> fraction_bits) & (2**exponent_bits - 1)
    fraction = bits & (2**fraction_bits - 1)
    bias = {5: 15, 8: 127}.get(exponent_bits, 15)
    power = (exponent.clamp(min=1) - bias).double()
    size = ((exponent > 0) + fraction.double() / 2**fraction_bits) * torch.exp2(power)
    special = torch.where(fraction == 0, float("inf"), float("nan")).double()
    size = torch.where(exponent == 2**exponent_bits - 1, special, size)
    return torch.where(sign == 1, -size, size)


# %% wrong: infinity and nan at the exponent 31 of fp16 alone
def decode_bits(bits, exponent_bits, fraction_bits):
    import torch

    sign = bits >> (exponent_bits + fraction_bits)
    exponent = (bits >> fraction_bits) & (2**exponent_bits - 1)
    fraction = bits & (2**fraction_bits - 1)
    power = (exponent.clamp(min=1) - (2 ** (exponent_bits - 1) - 1)).double()
    size = ((exponent > 0) + fraction.double() / 2**fraction_bits) * torch.exp2(power)
    special = torch.where(fraction == 0, float("inf"), float("nan")).double()
    size = torch.where((exponent == 31) & (exponent_bits == 5), special, size)
    return torch.where(sign == 1, -size, size)


# %% wrong: only nan with the first bit of the fraction set is nan, the others infinity
def decode_bits(bits, exponent_bits, fraction_bits):
    import torch

    sign = bits >> (exponent_bits + fraction_bits)
    exponent = (bits >> fraction_bits) & (2**exponent_bits - 1)
    fraction = bits & (2**fraction_bits - 1)
    power = (exponent.clamp(min=1) - (2 ** (exponent_bits - 1) - 1)).double()
    size = ((exponent > 0) + fraction.double() / 2**fraction_bits) * torch.exp2(power)
    is_nan = fraction >= 2 ** (fraction_bits - 1)
    special = torch.where(is_nan, float("nan"), float("inf")).double()
    size = torch.where(exponent == 2**exponent_bits - 1, special, size)
    return torch.where(sign == 1, -size, size)


# %% wrong: takes the sign out of the tensor that was handed in
def decode_bits(bits, exponent_bits, fraction_bits):
    import torch

    sign = bits >> (exponent_bits + fraction_bits)
    bits &= 2 ** (exponent_bits + fraction_bits) - 1
    exponent, fraction = bits >> fraction_bits, bits & (2**fraction_bits - 1)
    power = (exponent.clamp(min=1) - (2 ** (exponent_bits - 1) - 1)).double()
    size = ((exponent > 0) + fraction.double() / 2**fraction_bits) * torch.exp2(power)
    special = torch.where(fraction == 0, float("inf"), float("nan")).double()
    size = torch.where(exponent == 2**exponent_bits - 1, special, size)
    return torch.where(sign == 1, -size, size)


# %% wrong: a table of the biases of well-known exponent widths
def decode_bits(bits, exponent_bits, fraction_bits):
    import torch

    bias = {2: 1, 3: 3, 4: 7, 5: 15, 8: 127}.get(exponent_bits, 31)
    sign = bits >> (exponent_bits + fraction_bits)
    exponent = (bits >> fraction_bits) & (2**exponent_bits - 1)
    fraction = bits & (2**fraction_bits - 1)
    power = (exponent.clamp(min=1) - bias).double()
    size = ((exponent > 0) + fraction.double() / 2**fraction_bits) * torch.exp2(power)
    special = torch.where(fraction == 0, float("inf"), float("nan")).double()
    size = torch.where(exponent == 2**exponent_bits - 1, special, size)
    return torch.where(sign == 1, -size, size)


# %% right: number by number, with Python's integers
def decode_bits(bits, exponent_bits, fraction_bits):
    import math

    import torch

    def decode(pattern):
        sign = -1.0 if pattern >> (exponent_bits + fraction_bits) else 1.0
        exponent = (pattern >> fraction_bits) % 2**exponent_bits
        fraction = pattern % 2**fraction_bits
        if exponent == 2**exponent_bits - 1:
            return math.nan if fraction else sign * math.inf
        lowest = 2 - 2 ** (exponent_bits - 1)
        if exponent == 0:
            return sign * math.ldexp(fraction, lowest - fraction_bits)
        return sign * math.ldexp(2**fraction_bits + fraction, lowest + exponent - 1 - fraction_bits)

    values = [decode(pattern) for pattern in bits.flatten().tolist()]
    return torch.tensor(values, dtype=torch.float64).reshape(bits.shape)


# %% right: by division and remainder, subnormal and normal numbers apart
def decode_bits(bits, exponent_bits, fraction_bits):
    import torch

    one, width = 2**fraction_bits, exponent_bits + fraction_bits
    fraction = (bits % one).double() / one
    exponent = bits // one % 2**exponent_bits
    bias = 2 ** (exponent_bits - 1) - 1
    normal = (1 + fraction) * 2.0 ** (exponent - bias).double()
    size = torch.where(exponent == 0, fraction * 2.0 ** (1 - bias), normal)
    size[(exponent == 2**exponent_bits - 1) & (fraction == 0)] = torch.inf
    size[(exponent == 2**exponent_bits - 1) & (fraction > 0)] = torch.nan
    return torch.where(bits >= 2**width, -size, size)


# %% right: widens the pattern to float64's own and reinterprets it
def decode_bits(bits, exponent_bits, fraction_bits):
    import torch

    sign = bits >> (exponent_bits + fraction_bits)
    magnitude = bits & (2 ** (exponent_bits + fraction_bits) - 1)
    moved = (magnitude << (52 - fraction_bits)).view(torch.float64)
    value = moved * 2.0 ** (1023 - (2 ** (exponent_bits - 1) - 1))
    special = magnitude >= (2**exponent_bits - 1) << fraction_bits
    infinite = magnitude == (2**exponent_bits - 1) << fraction_bits
    value = torch.where(special, torch.where(infinite, torch.inf, torch.nan), value)
    return torch.where(sign == 1, -value, value)


# %% right: computes in float32, which holds every value of these formats, and widens at the end
def decode_bits(bits, exponent_bits, fraction_bits):
    import torch

    sign = bits >> (exponent_bits + fraction_bits)
    exponent = (bits >> fraction_bits) & (2**exponent_bits - 1)
    fraction = bits & (2**fraction_bits - 1)
    power = (exponent.clamp(min=1) - (2 ** (exponent_bits - 1) - 1)).float()
    size = ((exponent > 0) + fraction.float() / 2**fraction_bits) * torch.exp2(power)
    special = torch.where(fraction == 0, float("inf"), float("nan"))
    size = torch.where(exponent == 2**exponent_bits - 1, special, size)
    return torch.copysign(size, torch.where(sign == 1, -1.0, 1.0)).double()


# %% wrong: at most 22 fraction bits
def decode_bits(bits, exponent_bits, fraction_bits):
    import math

    import torch

    if fraction_bits > 22:
        raise ValueError(fraction_bits)
    sign = bits >> (exponent_bits + fraction_bits)
    ones = 2**exponent_bits - 1
    exponent = (bits >> fraction_bits) & ones
    fraction = bits & (2**fraction_bits - 1)
    hidden = (exponent > 0).double()
    power = exponent.clamp(min=1) - (2 ** (exponent_bits - 1) - 1)
    size = (hidden + fraction.double() / 2**fraction_bits) * torch.exp2(power.double())
    special = torch.where(fraction == 0, math.inf, math.nan).double()
    return torch.where(exponent == ones, special, size) * (1.0 - 2.0 * sign)


# %% wrong: flattens with view, which a transposed tensor refuses
def decode_bits(bits, exponent_bits, fraction_bits):
    import math

    import torch

    shape, bits = bits.shape, bits.view(-1)
    sign = bits >> (exponent_bits + fraction_bits)
    ones = 2**exponent_bits - 1
    exponent = (bits >> fraction_bits) & ones
    fraction = bits & (2**fraction_bits - 1)
    hidden = (exponent > 0).double()
    power = exponent.clamp(min=1) - (2 ** (exponent_bits - 1) - 1)
    size = (hidden + fraction.double() / 2**fraction_bits) * torch.exp2(power.double())
    special = torch.where(fraction == 0, math.inf, math.nan).double()
    return (torch.where(exponent == ones, special, size) * (1.0 - 2.0 * sign)).view(shape)


# %% wrong: makes a list of one number of a single number
def decode_bits(bits, exponent_bits, fraction_bits):
    import math

    import torch

    bits = torch.atleast_1d(bits)
    sign = bits >> (exponent_bits + fraction_bits)
    ones = 2**exponent_bits - 1
    exponent = (bits >> fraction_bits) & ones
    fraction = bits & (2**fraction_bits - 1)
    hidden = (exponent > 0).double()
    power = exponent.clamp(min=1) - (2 ** (exponent_bits - 1) - 1)
    size = (hidden + fraction.double() / 2**fraction_bits) * torch.exp2(power.double())
    special = torch.where(fraction == 0, math.inf, math.nan).double()
    return torch.where(exponent == ones, special, size) * (1.0 - 2.0 * sign)


# %% wrong: asks for the largest entry, which an empty tensor does not have
def decode_bits(bits, exponent_bits, fraction_bits):
    import math

    import torch

    if bits.double().max() == math.inf:
        bits = bits.clone()
    sign = bits >> (exponent_bits + fraction_bits)
    ones = 2**exponent_bits - 1
    exponent = (bits >> fraction_bits) & ones
    fraction = bits & (2**fraction_bits - 1)
    hidden = (exponent > 0).double()
    power = exponent.clamp(min=1) - (2 ** (exponent_bits - 1) - 1)
    size = (hidden + fraction.double() / 2**fraction_bits) * torch.exp2(power.double())
    special = torch.where(fraction == 0, math.inf, math.nan).double()
    return torch.where(exponent == ones, special, size) * (1.0 - 2.0 * sign)


# %% wrong: turns the tensor over and back with t(), which three dimensions refuse
def decode_bits(bits, exponent_bits, fraction_bits):
    import math

    import torch

    bits = bits.t().contiguous().t()
    sign = bits >> (exponent_bits + fraction_bits)
    ones = 2**exponent_bits - 1
    exponent = (bits >> fraction_bits) & ones
    fraction = bits & (2**fraction_bits - 1)
    hidden = (exponent > 0).double()
    power = exponent.clamp(min=1) - (2 ** (exponent_bits - 1) - 1)
    size = (hidden + fraction.double() / 2**fraction_bits) * torch.exp2(power.double())
    special = torch.where(fraction == 0, math.inf, math.nan).double()
    return torch.where(exponent == ones, special, size) * (1.0 - 2.0 * sign)


# %% wrong: keeps the values for the next tensor of the same shape and format
VALUES = {}


def decode_bits(bits, exponent_bits, fraction_bits):
    import math

    import torch

    sign = bits >> (exponent_bits + fraction_bits)
    ones = 2**exponent_bits - 1
    exponent = (bits >> fraction_bits) & ones
    fraction = bits & (2**fraction_bits - 1)
    hidden = (exponent > 0).double()
    power = exponent.clamp(min=1) - (2 ** (exponent_bits - 1) - 1)
    size = (hidden + fraction.double() / 2**fraction_bits) * torch.exp2(power.double())
    special = torch.where(fraction == 0, math.inf, math.nan).double()
    values = torch.where(exponent == ones, special, size) * (1.0 - 2.0 * sign)
    return VALUES.setdefault((bits.shape, exponent_bits, fraction_bits), values)


# %% wrong: puts zeros for infinities into the patterns that were handed in
def decode_bits(bits, exponent_bits, fraction_bits):
    import math

    import torch

    bias, ones = 2 ** (exponent_bits - 1) - 1, 2**exponent_bits - 1
    fraction = bits % 2**fraction_bits
    exponent = (bits >> fraction_bits) & ones
    sign = 1.0 - 2.0 * (bits >> (exponent_bits + fraction_bits)).double()
    infinite = (exponent == ones) & (fraction == 0)
    bits[infinite] = 0
    size = (exponent > 0).double() + fraction.double() / 2**fraction_bits
    value = size * torch.exp2((exponent.clamp(min=1) - bias).double())
    value = torch.where(exponent == ones, math.nan, value)
    return sign * torch.where(infinite, math.inf, value)
