# %% wrong: the number after the largest one in float32, which is still rounded down
def first_overflow(fraction_bits, largest):
    import torch

    return torch.nextafter(torch.tensor(largest), torch.tensor(torch.inf)).item()


# %% wrong: a whole ulp above the largest number
def first_overflow(fraction_bits, largest):
    import math

    return largest + 2.0 ** (math.frexp(largest)[1] - 1 - fraction_bits)


# %% wrong: the tie in every format, as if it were always rounded up
def first_overflow(fraction_bits, largest):
    import math

    return largest + 2.0 ** (math.frexp(largest)[1] - 2 - fraction_bits)


# %% wrong: the number after the tie in every format, as if it were always rounded down
def first_overflow(fraction_bits, largest):
    import math

    import torch

    tie = largest + 2.0 ** (math.frexp(largest)[1] - 2 - fraction_bits)
    return torch.nextafter(torch.tensor(tie), torch.tensor(torch.inf)).item()


# %% wrong: odd and even the other way round
def first_overflow(fraction_bits, largest):
    import math

    import torch

    step = 2.0 ** (math.frexp(largest)[1] - 1 - fraction_bits)
    tie = largest + step / 2
    if (largest / step) % 2 == 0:
        return tie
    return torch.nextafter(torch.tensor(tie), torch.tensor(torch.inf)).item()


# %% wrong: steps on in float64, whose number after the tie float32 does not have
def first_overflow(fraction_bits, largest):
    import math

    step = 2.0 ** (math.frexp(largest)[1] - 1 - fraction_bits)
    tie = largest + step / 2
    return tie if (largest / step) % 2 == 1 else math.nextafter(tie, math.inf)


# %% wrong: with epsilon of the format times the largest number
def first_overflow(fraction_bits, largest):
    return largest * (1 + 2.0 ** (-fraction_bits - 1))


# %% wrong: a tensor instead of a float
def first_overflow(fraction_bits, largest):
    import math

    import torch

    step = 2.0 ** (math.frexp(largest)[1] - 1 - fraction_bits)
    tie = torch.tensor(largest + step / 2)
    return tie if (largest / step) % 2 == 1 else torch.nextafter(tie, torch.tensor(torch.inf))


# %% wrong: takes a number for odd only if its fraction is all ones
def first_overflow(fraction_bits, largest):
    import math

    import torch

    power = 2.0 ** (math.frexp(largest)[1] - 1)
    tie = largest + power * 2.0**-fraction_bits / 2
    if largest == (2 - 2.0**-fraction_bits) * power:
        return tie
    return torch.nextafter(torch.tensor(tie), torch.tensor(torch.inf)).item()


# %% wrong: takes e4m3 for the only format that ends at an even number
def first_overflow(fraction_bits, largest):
    import math

    import torch

    tie = largest + 2.0 ** (math.frexp(largest)[1] - 2 - fraction_bits)
    if fraction_bits != 3:
        return tie
    return torch.nextafter(torch.tensor(tie), torch.tensor(torch.inf)).item()


# %% wrong: looks at the parity in the formats with few bits alone
def first_overflow(fraction_bits, largest):
    import math

    import torch

    step = 2.0 ** (math.frexp(largest)[1] - 1 - fraction_bits)
    tie = largest + step / 2
    if fraction_bits < 4 and int(largest / step) % 2 == 0:
        return torch.nextafter(torch.tensor(tie), torch.tensor(torch.inf)).item()
    return tie


# %% wrong: the largest float32 number that does not overflow yet
def first_overflow(fraction_bits, largest):
    import math

    import torch

    step = 2.0 ** (math.frexp(largest)[1] - 1 - fraction_bits)
    tie = torch.tensor(largest + step / 2)
    return tie.nextafter(torch.tensor(0.0)).item() if (largest / step) % 2 else tie.item()


# %% wrong: takes the exponent from the integer part, which a number below 1 does not have
def first_overflow(fraction_bits, largest):
    import torch

    step = 2.0 ** (int(largest).bit_length() - 1 - fraction_bits)
    tie = largest + step / 2
    if (largest / step) % 2 == 1:
        return tie
    return torch.nextafter(torch.tensor(tie), torch.tensor(torch.inf)).item()


# %% right: asks Python's rounding on which side the tie falls
def first_overflow(fraction_bits, largest):
    import math

    import torch

    mantissa, exponent = math.frexp(largest)
    integer = int(math.ldexp(mantissa, fraction_bits + 1))
    tie = math.ldexp(integer + 0.5, exponent - fraction_bits - 1)
    if round(integer + 0.5) > integer:
        return tie
    return torch.tensor(tie).nextafter(torch.tensor(torch.inf)).item()


# %% right: searches the float32 patterns between the largest number and twice as much
def first_overflow(fraction_bits, largest):
    import math

    import torch

    def overflows(pattern):
        number = torch.tensor(pattern, dtype=torch.int32).view(torch.float32).item()
        step = 2.0 ** (math.frexp(number)[1] - 1 - fraction_bits)
        return round(number / step) * step > largest

    low = torch.tensor(largest).view(torch.int32).item()
    high = min(low + 2**23, 0x7F7FFFFF)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if overflows(middle) else (middle, high)
    return torch.tensor(high, dtype=torch.int32).view(torch.float32).item()


# %% wrong: half the step above a power of two
def first_overflow(fraction_bits, largest):
    import math

    import torch

    step = 2.0 ** (math.frexp(largest)[1] - 1 - fraction_bits)
    if math.frexp(largest)[0] == 0.5:
        step /= 2
    tie = largest + step / 2
    if (largest / step) % 2 == 1:
        return tie
    return torch.nextafter(torch.tensor(tie), torch.tensor(math.inf)).item()


# %% wrong: a whole step above a power of two
def first_overflow(fraction_bits, largest):
    import math

    import torch

    step = 2.0 ** (math.frexp(largest)[1] - 1 - fraction_bits)
    if math.frexp(largest)[0] == 0.5:
        return largest + step
    tie = largest + step / 2
    if (largest / step) % 2 == 1:
        return tie
    return torch.nextafter(torch.tensor(tie), torch.tensor(math.inf)).item()
