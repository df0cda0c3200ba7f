# %% wrong: the defaults of isclose
def sums_agree(first, second, x):
    return bool(np.isclose(first, second))


# %% wrong: by the size of the result, which cancellation makes small
def sums_agree(first, second, x):
    u, k = torch.finfo(x.dtype).eps / 2, max(x.numel() - 1, 0)
    return abs(first - second) <= 2 * k * u / (1 - k * u) * abs(first)


# %% wrong: one result may have all the error, the other none
def sums_agree(first, second, x):
    u, k = torch.finfo(x.dtype).eps / 2, max(x.numel() - 1, 0)
    return abs(first - second) <= k * u / (1 - k * u) * x.double().abs().sum().item()


# %% wrong: epsilon in the place of its half
def sums_agree(first, second, x):
    u, k = torch.finfo(x.dtype).eps, max(x.numel() - 1, 0)
    return abs(first - second) <= 2 * k * u / (1 - k * u) * x.double().abs().sum().item()


# %% wrong: float32, whatever x is
def sums_agree(first, second, x):
    u, k = 2.0**-24, max(x.numel() - 1, 0)
    return abs(first - second) <= 2 * k * u / (1 - k * u) * x.double().abs().sum().item()


# %% wrong: adds up in the dtype of x, which overflows
def sums_agree(first, second, x):
    u, k = torch.finfo(x.dtype).eps / 2, max(x.numel() - 1, 0)
    return abs(first - second) <= 2 * k * u / (1 - k * u) * x.abs().cumsum(0)[-1].max().item()


# %% wrong: without the denominator
def sums_agree(first, second, x):
    u, k = torch.finfo(x.dtype).eps / 2, max(x.numel() - 1, 0)
    return abs(first - second) <= 2 * k * u * x.double().abs().sum().item()


# %% wrong: the comparison turned around, so that nan agrees
def sums_agree(first, second, x):
    u, k = torch.finfo(x.dtype).eps / 2, max(x.numel() - 1, 0)
    return not abs(first - second) > 2 * k * u / (1 - k * u) * x.double().abs().sum().item()


# %% wrong: the length of the first axis for the number of entries
def sums_agree(first, second, x):
    u, k = torch.finfo(x.dtype).eps / 2, max(len(x) - 1, 0)
    return abs(first - second) <= 2 * k * u / (1 - k * u) * x.double().abs().sum().item()


# %% wrong: adds a little, to be on the safe side
def sums_agree(first, second, x):
    u, k = torch.finfo(x.dtype).eps / 2, max(x.numel() - 1, 0)
    return abs(first - second) <= 2 * k * u / (1 - k * u) * x.double().abs().sum().item() + 1e-8


# %% wrong: the absolute value of the sum
def sums_agree(first, second, x):
    u, k = torch.finfo(x.dtype).eps / 2, max(x.numel() - 1, 0)
    return abs(first - second) <= 2 * k * u / (1 - k * u) * abs(x.double().sum().item())


# %% right: with fractions of Python, entry by entry
def sums_agree(first, second, x):
    if math.isnan(first) or math.isnan(second):
        return False
    if x.numel() < 2:
        return first == second
    total = math.fsum(abs(value) for value in x.double().flatten().tolist())
    roundings = (x.numel() - 1) * torch.finfo(x.dtype).eps / 2
    return abs(first - second) * (1 - roundings) <= 2 * roundings * total


# %% right: in NumPy, by isclose with an absolute tolerance
def sums_agree(first, second, x):
    roundings = (max(x.numel(), 1) - 1) * torch.finfo(x.dtype).eps / 2
    bound = 2 * roundings / (1 - roundings) * np.abs(x.double().numpy()).sum()
    return bool(np.isclose(first, second, rtol=0.0, atol=bound))


# %% wrong: one addition too many in the bound
def sums_agree(first, second, x):
    n, u = x.numel(), torch.finfo(x.dtype).eps / 2
    if n < 2:
        return first == second
    return abs(first - second) <= 2 * n * u / (1 - n * u) * x.double().abs().sum().item()


# %% wrong: the absolute values are added in float32
def sums_agree(first, second, x):
    k, u = max(x.numel() - 1, 0), torch.finfo(x.dtype).eps / 2
    return abs(first - second) <= 2 * k * u / (1 - k * u) * x.float().abs().sum().item()


# %% wrong: changes x, which belongs to the caller
def sums_agree(first, second, x):
    k, u = max(x.numel() - 1, 0), torch.finfo(x.dtype).eps / 2
    return abs(first - second) <= 2 * k * u / (1 - k * u) * x.abs_().double().sum().item()


# %% wrong: a view along one axis, which a transposed tensor has none of
def sums_agree(first, second, x):
    values = x.view(-1).double()
    k, u = max(len(values) - 1, 0), torch.finfo(x.dtype).eps / 2
    return abs(first - second) <= 2 * k * u / (1 - k * u) * values.abs().sum().item()


# %% right: one entry is compared with both sums
def sums_agree(first, second, x):
    if x.numel() == 1:
        return first == second == x.item()
    k, u = max(x.numel() - 1, 0), torch.finfo(x.dtype).eps / 2
    return abs(first - second) <= 2 * k * u / (1 - k * u) * x.double().abs().sum().item()


# %% wrong: abs_ on what double() returns, which is x itself if x is float64
def sums_agree(first, second, x):
    k, u = max(x.numel() - 1, 0), torch.finfo(x.dtype).eps / 2
    return abs(first - second) <= 2 * k * u / (1 - k * u) * x.double().abs_().sum().item()


# %% wrong: NumPy writes the absolute values into the memory of a float64 x
def sums_agree(first, second, x):
    k, u = max(x.numel() - 1, 0), torch.finfo(x.dtype).eps / 2
    a = x.double().numpy()
    np.abs(a, out=a)
    return bool(abs(first - second) <= 2 * k * u / (1 - k * u) * a.sum())


# %% wrong: less than, where equal is enough
def sums_agree(first, second, x):
    k, u = max(x.numel() - 1, 0), torch.finfo(x.dtype).eps / 2
    return abs(first - second) < 2 * k * u / (1 - k * u) * x.double().abs().sum().item()


# %% wrong: only one direction of the difference
def sums_agree(first, second, x):
    k, u = max(x.numel() - 1, 0), torch.finfo(x.dtype).eps / 2
    b = 2 * k * u / (1 - k * u) * x.double().abs().sum().item()
    return first - second <= b


# %% right: by the norm that adds absolute values
def sums_agree(first, second, x):
    n = x.nelement()
    u = torch.finfo(x.dtype).eps * 0.5
    gamma = max(0, n - 1) * u / (1 - max(0, n - 1) * u)
    size = torch.linalg.vector_norm(x, 1, dtype=torch.float64)
    return torch.le(torch.tensor(abs(first - second), dtype=torch.float64), 2 * gamma * size).item()


# %% right: exactly, with fractions
from fractions import Fraction


def sums_agree(first, second, x):
    if math.isnan(first) or math.isnan(second):
        return False
    n, u = x.numel(), Fraction(torch.finfo(x.dtype).eps) / 2
    if n < 2:
        return first == second
    total = sum((Fraction(abs(v)) for v in x.flatten().tolist()), Fraction(0))
    return abs(Fraction(first) - Fraction(second)) <= 2 * (n - 1) * u / (1 - (n - 1) * u) * total


# %% right: positive and negative entries by themselves
def sums_agree(first, second, x):
    y = x.double()
    size = (y[y > 0].sum() - y[y < 0].sum()).item()
    k, u = max(math.prod(x.shape) - 1, 0), torch.finfo(x.dtype).eps / 2
    bound = 2 * k * u / (1 - k * u) * size
    return -bound <= first - second <= bound


# %% right: in place, on a copy
def sums_agree(first, second, x):
    own = x.detach().clone().double()
    own.abs_()
    k, u = max(own.numel() - 1, 0), torch.finfo(x.dtype).eps / 2
    distance = first - second if first > second else second - first
    return distance <= 2 * k * u / (1 - k * u) * float(own.sum())


# %% right: by einsum with the signs, and multiplied by the denominator
def sums_agree(first, second, x):
    y = x.double().flatten()
    size = torch.einsum("i,i->", y, y.sign()).item()
    k, u = max(y.shape[0] - 1, 0), torch.finfo(x.dtype).eps / 2
    return (
        not (math.isnan(first) or math.isnan(second))
        and abs(first - second) * (1 - k * u) <= 2 * k * u * size
    )


# %% wrong: of one entry or none, neither is less than the other, so that nan agrees
def sums_agree(first, second, x):
    k, u = x.numel() - 1, torch.finfo(x.dtype).eps / 2
    if k < 1:
        return not (first < second or first > second)
    return abs(first - second) <= 2 * k * u / (1 - k * u) * x.double().abs().sum().item()


# %% wrong: compares one entry with the second sum alone
def sums_agree(first, second, x):
    k, u = max(x.numel() - 1, 0), torch.finfo(x.dtype).eps / 2
    if k == 0:
        return second == x.sum().item()
    return abs(first - second) <= 2 * k * u / (1 - k * u) * x.double().abs().sum().item()


# %% wrong: one entry is rounded down by nothing, so one sum may be smaller
def sums_agree(first, second, x):
    k, u = max(x.numel() - 1, 0), torch.finfo(x.dtype).eps / 2
    if k == 0:
        return second <= first
    return abs(first - second) <= 2 * k * u / (1 - k * u) * x.double().abs().sum().item()


# %% wrong: 16-bit numbers are added in float32, and all others in their own dtype
def sums_agree(first, second, x):
    k, u = max(x.numel() - 1, 0), torch.finfo(x.dtype).eps / 2
    y = x if x.dtype == torch.float64 else x.float()
    return abs(first - second) <= 2 * k * u / (1 - k * u) * y.abs().sum().item()


# %% wrong: the bound is rounded to float16 if x is
def sums_agree(first, second, x):
    k, u = max(x.numel() - 1, 0), torch.finfo(x.dtype).eps / 2
    bound = 2 * k * u / (1 - k * u) * x.double().abs().sum().item()
    if x.dtype == torch.float16:
        bound = float(np.float16(bound))
    return abs(first - second) <= bound


# %% wrong: the bound is rounded to bfloat16 if x is
def sums_agree(first, second, x):
    k, u = max(x.numel() - 1, 0), torch.finfo(x.dtype).eps / 2
    bound = 2 * k * u / (1 - k * u) * x.double().abs().sum()
    if x.dtype == torch.bfloat16:
        bound = bound.to(x.dtype)
    return abs(first - second) <= bound.item()


# %% wrong: counts the entries that are not zero
def sums_agree(first, second, x):
    k, u = max(int(torch.count_nonzero(x)) - 1, 0), torch.finfo(x.dtype).eps / 2
    return abs(first - second) <= 2 * k * u / (1 - k * u) * x.double().abs().sum().item()


# %% right: the factor of the bound as a float32 tensor
def sums_agree(first, second, x):
    k, u = max(x.numel() - 1, 0), torch.finfo(x.dtype).eps / 2
    factor = torch.tensor(2 * k * u / (1 - k * u))
    return bool(abs(first - second) <= factor * x.double().abs().sum())


# %% right: asks for nan, and for equal sums of one entry, first of all
def sums_agree(first, second, x):
    if math.isnan(first) or math.isnan(second):
        return False
    if x.numel() <= 1:
        return first == second
    k, u = x.numel() - 1, torch.finfo(x.dtype).eps / 2
    size = torch.sum(x.abs(), dtype=torch.float64).item()
    return abs(first - second) <= 2 * k * u / (1 - k * u) * size


# %% wrong: adds the absolute values in the dtype of x
def sums_agree(first, second, x):
    k, u = max(x.numel() - 1, 0), torch.finfo(x.dtype).eps / 2
    return abs(first - second) <= 2 * k * u / (1 - k * u) * x.abs().sum().item()
