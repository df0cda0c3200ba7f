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
