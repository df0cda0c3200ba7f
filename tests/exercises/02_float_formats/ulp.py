# %% wrong: epsilon times the number, which is no power of two
def ulp(x):
    import torch

    return x.abs() * torch.finfo(x.dtype).eps


# %% wrong: takes the exponent by a rounded logarithm: too large just below a power of two
def ulp(x):
    import torch

    info = torch.finfo(x.dtype)
    power = torch.exp2(torch.floor(torch.log2(x.abs())).double())
    step = (power.clamp(min=info.smallest_normal) * info.eps).to(x.dtype)
    return torch.where(x.isfinite(), step, x.abs())


# %% wrong: forgets that the step stops shrinking below the smallest normal number
def ulp(x):
    import torch

    info = torch.finfo(x.dtype)
    power = torch.exp2((torch.frexp(x.double()).exponent - 1).double())
    return torch.where(x.isfinite(), (power * info.eps).to(x.dtype), x.abs())


# %% wrong: the distance to the next number, which is infinite at the largest
def ulp(x):
    import torch

    integers = {2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()]
    size = x.abs()
    step = (size.view(integers) + 1).view(x.dtype) - size
    return torch.where(x.isfinite(), step, size)


# %% wrong: the distance to the number below, half as much at a power of two
def ulp(x):
    import torch

    integers = {2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()]
    size = x.abs()
    smallest = torch.finfo(x.dtype).smallest_normal * torch.finfo(x.dtype).eps
    step = size - (size.view(integers) - 1).view(x.dtype)
    step = torch.where(size == 0, torch.full_like(size, smallest), step)
    return torch.where(x.isfinite(), step, size)


# %% wrong: the step of float32 for every dtype
def ulp(x):
    import torch

    exponent = torch.frexp(x.double()).exponent - 1
    power = torch.exp2(exponent.double()).clamp(min=2.0**-126)
    step = (power * 2.0**-23).to(x.dtype)
    return torch.where(x.isfinite(), step, x.abs())


# %% wrong: with frexp's exponent as it is, one too high
def ulp(x):
    import torch

    info = torch.finfo(x.dtype)
    power = torch.exp2(torch.frexp(x.double()).exponent.double()).clamp(min=info.smallest_normal)
    power = torch.where(x == 0, info.smallest_normal, power)
    return torch.where(x.isfinite(), (power * info.eps).to(x.dtype), x.abs())


# %% wrong: knows nothing of infinity and nan
def ulp(x):
    import torch

    info = torch.finfo(x.dtype)
    exponent = torch.frexp(x.double()).exponent - 1
    power = torch.exp2(exponent.double()).clamp(min=info.smallest_normal)
    power = torch.where(x == 0, info.smallest_normal, power)
    return (power * info.eps).to(x.dtype)


# %% wrong: the result as float64
def ulp(x):
    import torch

    info = torch.finfo(x.dtype)
    exponent = torch.frexp(x.double()).exponent - 1
    power = torch.exp2(exponent.double()).clamp(min=info.smallest_normal)
    power = torch.where(x == 0, info.smallest_normal, power)
    return torch.where(x.isfinite(), power * info.eps, x.abs().double())


# %% wrong: takes the logarithm in float64, which rounds just below a power of two as well
def ulp(x):
    import torch

    info = torch.finfo(x.dtype)
    size = x.abs().double().clamp(min=info.smallest_normal)
    step = (torch.exp2(size.log2().floor()) * info.eps).to(x.dtype)
    return torch.where(x.isfinite(), step, x.abs())


# %% wrong: fp16's smallest subnormal number for every dtype
def ulp(x):
    import torch

    info = torch.finfo(x.dtype)
    power = torch.exp2((torch.frexp(x.double()).exponent - 1).double())
    step = torch.where(x.abs() < 2.0**-14, 2.0**-24, power * info.eps).to(x.dtype)
    return torch.where(x.isfinite(), step, x.abs())


# %% wrong: goes through float32, which does not hold float64's range
def ulp(x):
    import torch

    info = torch.finfo(x.dtype)
    fraction_bits = -int(torch.tensor(info.eps).log2())
    size = x.abs().float().clamp(min=info.smallest_normal)
    exponent = torch.frexp(size).exponent - 1 - fraction_bits
    step = torch.ldexp(torch.ones_like(size), exponent).to(x.dtype)
    return torch.where(x.isfinite(), step, x.abs())


# %% wrong: scales math.ulp, and forgets that other formats end before float64
def ulp(x):
    import math

    import torch

    scale = torch.finfo(x.dtype).eps / 2**-52
    steps = [math.ulp(value) * scale for value in x.double().flatten().tolist()]
    return torch.tensor(steps, dtype=x.dtype).reshape(x.shape)


# %% wrong: makes the numbers positive in the tensor that was handed in
def ulp(x):
    import torch

    info = torch.finfo(x.dtype)
    exponent = torch.frexp(x.abs_().double()).exponent - 1
    power = torch.exp2(exponent.double()).clamp(min=info.smallest_normal)
    power = torch.where(x == 0, info.smallest_normal, power)
    return torch.where(x.isfinite(), (power * info.eps).to(x.dtype), x)


# %% wrong: the rounded logarithm in 16 bits alone
def ulp(x):
    import torch

    info = torch.finfo(x.dtype)
    if x.dtype in (torch.float16, torch.bfloat16):
        exponent = torch.floor(torch.log2(x.abs())).clamp(min=-1000)
    else:
        exponent = torch.frexp(x).exponent - 1
    power = torch.exp2(exponent.double()).clamp(min=info.smallest_normal)
    power = torch.where(x == 0, info.smallest_normal, power)
    return torch.where(x.isfinite(), (power * info.eps).to(x.dtype), x.abs())


# %% right: masks the fraction out of the bits, which leaves the power of two
def ulp(x):
    import torch

    info = torch.finfo(x.dtype)
    integers = {2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()]
    fraction_bits = -int(torch.tensor(info.eps).log2())
    power = ((x.abs().view(integers) >> fraction_bits) << fraction_bits).view(x.dtype)
    step = power.double().clamp(min=info.smallest_normal) * info.eps
    return torch.where(x.isfinite(), step.to(x.dtype), x.abs())


# %% right: the distance to the next number, at the largest to the one before
def ulp(x):
    import torch

    info = torch.finfo(x.dtype)
    integers = {2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()]
    size = torch.where(x.abs() == info.max, torch.full_like(x, info.max / 2), x.abs())
    step = (size.view(integers) + 1).view(x.dtype) - size
    step = torch.where(x.abs() == info.max, 2 * step, step)
    return torch.where(x.isfinite(), step, x.abs())


# %% right: number by number
def ulp(x):
    import math

    import torch

    info = torch.finfo(x.dtype)

    def step(number):
        if not math.isfinite(number):
            return abs(number)
        power = 2.0 ** (math.frexp(number)[1] - 1) if number else 0.0
        return max(power, info.smallest_normal) * info.eps

    values = [step(number) for number in x.double().flatten().tolist()]
    return torch.tensor(values, dtype=torch.float64).reshape(x.shape).to(x.dtype)


# %% right: math.ulp, with a floor for the formats that end before float64
def ulp(x):
    import math

    import torch

    info = torch.finfo(x.dtype)
    least = info.smallest_normal * info.eps

    def step(number):
        scaled = math.ulp(number) * (info.eps / 2**-52)
        return max(scaled, least) if math.isfinite(number) else abs(number)

    steps = [step(number) for number in x.double().flatten().tolist()]
    return torch.tensor(steps, dtype=x.dtype).reshape(x.shape)


# %% wrong: the smallest subnormal number of float32 is one step too small
def ulp(x):
    import torch

    info = torch.finfo(x.dtype)
    exponent = torch.frexp(x.abs().double()).exponent - 1
    power = torch.exp2(exponent.double()).clamp(
        min=info.smallest_normal / (2 if x.dtype == torch.float32 else 1)
    )
    power = torch.where(x == 0, info.smallest_normal, power)
    return torch.where(x.isfinite(), (power * info.eps).to(x.dtype), x.abs())


# %% wrong: infinity at the largest number, except in fp16
def ulp(x):
    import torch

    info = torch.finfo(x.dtype)
    exponent = torch.frexp(x.abs().double()).exponent - 1
    power = torch.exp2(exponent.double()).clamp(min=info.smallest_normal)
    power = torch.where(x == 0, info.smallest_normal, power)
    return torch.where(
        x.isfinite() & ((x.abs() < info.max) | (x.dtype == torch.float16)),
        (power * info.eps).to(x.dtype),
        x.abs(),
    )


# %% wrong: makes 16-bit numbers positive in the tensor that was handed in
def ulp(x):
    import torch

    if x.dtype.itemsize == 2:
        x.abs_()
    info = torch.finfo(x.dtype)
    exponent = torch.frexp(x.abs().double()).exponent - 1
    power = torch.exp2(exponent.double()).clamp(min=info.smallest_normal)
    power = torch.where(x == 0, info.smallest_normal, power)
    return torch.where(x.isfinite(), (power * info.eps).to(x.dtype), x.abs())


# %% wrong: flattens with view, which a transposed tensor refuses
def ulp(x):
    import torch

    shape, x = x.shape, x.view(-1)
    info = torch.finfo(x.dtype)
    exponent = torch.frexp(x.abs().double()).exponent - 1
    power = torch.exp2(exponent.double()).clamp(min=info.smallest_normal)
    power = torch.where(x == 0, info.smallest_normal, power)
    return (torch.where(x.isfinite(), (power * info.eps).to(x.dtype), x.abs())).view(shape)


# %% wrong: makes a list of one number of a single number
def ulp(x):
    import torch

    x = torch.atleast_1d(x)
    info = torch.finfo(x.dtype)
    exponent = torch.frexp(x.abs().double()).exponent - 1
    power = torch.exp2(exponent.double()).clamp(min=info.smallest_normal)
    power = torch.where(x == 0, info.smallest_normal, power)
    return torch.where(x.isfinite(), (power * info.eps).to(x.dtype), x.abs())


# %% wrong: asks for the largest entry, which an empty tensor does not have
def ulp(x):
    import math

    import torch

    if x.double().max() == math.inf:
        x = x.clone()
    info = torch.finfo(x.dtype)
    exponent = torch.frexp(x.abs().double()).exponent - 1
    power = torch.exp2(exponent.double()).clamp(min=info.smallest_normal)
    power = torch.where(x == 0, info.smallest_normal, power)
    return torch.where(x.isfinite(), (power * info.eps).to(x.dtype), x.abs())


# %% wrong: takes numbers whose ulp is subnormal for subnormal numbers
def ulp(x):
    import torch

    info, wide = torch.finfo(x.dtype), x.abs().double()
    power = torch.exp2((torch.frexp(wide).exponent - 1).double())
    small = wide < info.smallest_normal / info.eps
    power = torch.where(small, info.smallest_normal, power)
    return torch.where(x.isfinite(), (power * info.eps).to(x.dtype), x.abs())


# %% wrong: turns the tensor over and back with t(), which three dimensions refuse
def ulp(x):
    import torch

    x = x.t().contiguous().t()
    info = torch.finfo(x.dtype)
    exponent = torch.frexp(x.abs().double()).exponent - 1
    power = torch.exp2(exponent.double()).clamp(min=info.smallest_normal)
    power = torch.where(x == 0, info.smallest_normal, power)
    return torch.where(x.isfinite(), (power * info.eps).to(x.dtype), x.abs())


# %% wrong: puts a number for nan into the tensor that was handed in
def ulp(x):
    import math

    import torch

    missing = x.isnan()
    x[missing] = 1.0
    info = torch.finfo(x.dtype)
    size = x.abs().double()
    power = torch.exp2((torch.frexp(size).exponent - 1).double())
    power = torch.where(size < info.smallest_normal, info.smallest_normal, power)
    step = torch.where(size.isinf(), math.inf, power * info.eps)
    return torch.where(missing, math.nan, step).to(x.dtype)


# %% wrong: treats the largest number apart, and forgets minus the largest number
def ulp(x):
    import torch

    info = torch.finfo(x.dtype)
    following = torch.nextafter(x.abs(), torch.full_like(x, torch.inf))
    step = following - x.abs()
    before = torch.nextafter(torch.full_like(x, info.max), torch.zeros_like(x))
    step = torch.where(x == info.max, info.max - before, step)
    return torch.where(x.isfinite(), step, x.abs())


# %% wrong: the step of the largest number for infinity and nan, except in fp16 and float64
def ulp(x):
    import torch

    info = torch.finfo(x.dtype)
    size = x.abs().double()
    if x.dtype in (torch.float32, torch.bfloat16):
        size = size.nan_to_num(nan=info.max, posinf=info.max)
    power = torch.exp2((torch.frexp(size).exponent - 1).double()).clamp(min=info.smallest_normal)
    power = torch.where(size == 0, info.smallest_normal, power)
    return torch.where(size.isfinite(), power * info.eps, size).to(x.dtype)
