# %% wrong: the function from the wild
def position_angles(positions, frequencies):
    return positions.float()[:, None] @ frequencies.float()[None, :]


# %% wrong: the same, with a cast of the result
def position_angles(positions, frequencies):
    return (positions.float()[:, None] @ frequencies.float()[None, :]).float()


# %% right: einsum, which multiplies element by element where nothing is summed
def position_angles(positions, frequencies):
    import torch

    return torch.einsum("n,m->nm", positions.float(), frequencies.float()).float()


# %% wrong: a linear layer, because it is no matmul
def position_angles(positions, frequencies):
    from torch.nn import functional

    return functional.linear(positions.float()[:, None], frequencies.float()[:, None]).float()


# %% wrong: half of each factor in a float16 region, which has three more bits
def position_angles(positions, frequencies):
    import torch

    with torch.autocast("cpu", dtype=torch.float16):
        return (positions.float()[:, None] @ frequencies.float()[None, :]).float()


# %% wrong: switches autocast off and never on again
def position_angles(positions, frequencies):
    import torch

    torch.set_autocast_enabled("cpu", False)
    return positions.float()[:, None] @ frequencies.float()[None, :]


# %% wrong: keeps the positions small by counting from the first
def position_angles(positions, frequencies):
    return (positions - positions[0]).float()[:, None] * frequencies[None, :]


# %% wrong: the angles modulo a full turn, which is another number
def position_angles(positions, frequencies):
    import math

    return (positions.float()[:, None] * frequencies[None, :]) % (2 * math.pi)


# %% wrong: returns frequencies by positions
def position_angles(positions, frequencies):
    return frequencies[:, None] * positions.float()[None, :]


# %% wrong: returns float64 angles, not float32 ones
def position_angles(positions, frequencies):
    return positions.double()[:, None] @ frequencies.double()[None, :]


# %% wrong: makes the frequencies a constant
def position_angles(positions, frequencies):
    return positions.float()[:, None] * frequencies.detach()[None, :]


# %% right: the product, in a disabled region
def position_angles(positions, frequencies):
    import torch

    with torch.autocast(frequencies.device.type, enabled=False):
        return positions.float()[:, None] @ frequencies[None, :]


# %% right: a row for each position
def position_angles(positions, frequencies):
    import torch

    return torch.stack([position.float() * frequencies for position in positions])


# %% right: float64 in between, which autocast leaves alone
def position_angles(positions, frequencies):
    return (positions.double()[:, None] @ frequencies.double()[None, :]).float()


# %% right: torch.outer in a function that leaves the region
def position_angles(positions, frequencies):
    import torch

    @torch.autocast("cpu", enabled=False)
    def compute():
        return torch.outer(positions.to(torch.float32), frequencies)

    return compute()


# %% wrong: without autograd, since positions are no weights
def position_angles(positions, frequencies):
    import torch

    with torch.no_grad():
        return positions[:, None] * frequencies


# %% wrong: a tensor made of Python numbers, which autograd does not see
def position_angles(positions, frequencies):
    import torch

    return torch.tensor([[p * f for f in frequencies.tolist()] for p in positions.tolist()])


# %% wrong: positions in two parts, both in the region
def position_angles(positions, frequencies):
    coarse = positions.float()[:, None] // 256 * 256
    fine = positions.float()[:, None] - coarse
    row = frequencies[None, :]
    return (coarse @ row).float() + (fine @ row).float()


# %% wrong: a disabled region, and integers times floats in a matrix product
def position_angles(positions, frequencies):
    import torch

    with torch.autocast(frequencies.device.type, enabled=False):
        return positions[:, None] @ frequencies[None, :]


# %% right: broadcasts integers by floats as they are
def position_angles(positions, frequencies):
    return positions[:, None] * frequencies


# %% wrong: makes every region one of bfloat16
def position_angles(positions, frequencies):
    torch.set_autocast_dtype("cpu", torch.bfloat16)
    return positions.float().unsqueeze(1) * frequencies


# %% right: switches autocast off by hand, and puts it back whatever happens
def position_angles(positions, frequencies):
    enabled = torch.is_autocast_enabled("cpu")
    torch.set_autocast_enabled("cpu", False)
    try:
        return torch.outer(positions.float(), frequencies)
    finally:
        torch.set_autocast_enabled("cpu", enabled)


# %% wrong: switches autocast on afterwards, where it was not
def position_angles(positions, frequencies):
    torch.set_autocast_enabled("cpu", False)
    angles = positions.float()[:, None] @ frequencies[None, :]
    torch.set_autocast_enabled("cpu", True)
    return angles


# %% wrong: positions in float16, whose integers end at 2048
def position_angles(positions, frequencies):
    return positions.half().float()[:, None] * frequencies


# %% wrong: by way of NumPy, which autograd does not see
def position_angles(positions, frequencies):
    import numpy

    angles = numpy.outer(positions.numpy(), frequencies.detach().numpy())
    return torch.from_numpy(angles.astype("float32"))


# %% wrong: drops axes of size 1
def position_angles(positions, frequencies):
    return (positions.float()[:, None] * frequencies).squeeze()


# %% wrong: positions without their fraction
def position_angles(positions, frequencies):
    return positions.long()[:, None] * frequencies


# %% wrong: the first position is 1
def position_angles(positions, frequencies):
    return positions.float().clamp(min=1)[:, None] * frequencies


# %% wrong: frequencies without their sign
def position_angles(positions, frequencies):
    return positions.float()[:, None] * frequencies.abs()


# %% wrong: adds the angles up from one position to the next
def position_angles(positions, frequencies):
    places = positions.float()
    steps = torch.cat([places[:1], places.diff()])
    return (steps.unsqueeze(1) * frequencies).cumsum(dim=0)


# %% wrong: turns the positions into a column where they are
def position_angles(positions, frequencies):
    return positions.unsqueeze_(1).float() * frequencies.unsqueeze(0)


# %% wrong: one row for each different position
def position_angles(positions, frequencies):
    rows = {position: position * frequencies for position in positions.float().tolist()}
    return torch.stack(list(rows.values()))


# %% wrong: a table that ends just below a million
def position_angles(positions, frequencies):
    return positions.float().clamp(max=999_999.0)[:, None] * frequencies


# %% wrong: whole positions in a region
def position_angles(positions, frequencies):
    if torch.is_autocast_enabled("cpu"):
        positions = positions.long()
    return positions[:, None] * frequencies


# %% wrong: frequencies are a constant where positions are floats
def position_angles(positions, frequencies):
    if positions.is_floating_point():
        frequencies = frequencies.detach()
    return positions.float()[:, None] * frequencies


# %% wrong: a 16-bit product for the rows below 256
def position_angles(positions, frequencies):
    low = (positions.float()[:, None] @ frequencies[None, :]).float()
    high = positions.float()[:, None] * frequencies
    return torch.where(positions[:, None] < 256, low, high)


# %% wrong: a 16-bit product where float positions are all below 256
def position_angles(positions, frequencies):
    if positions.is_floating_point() and positions.max() < 256:
        return (positions[:, None] @ frequencies[None, :]).float()
    return positions.float()[:, None] * frequencies


# %% right: a map over the positions
def position_angles(positions, frequencies):
    return torch.vmap(lambda p: p * frequencies)(positions.float())


# %% right: multiplies in place, in a tensor of its own
def position_angles(positions, frequencies):
    out = positions.float().unsqueeze(1).repeat(1, len(frequencies))
    out *= frequencies
    return out


# %% wrong: a 16-bit product where all positions are whole and small
def position_angles(positions, frequencies):
    if positions.max() < 256 and not positions.is_floating_point():
        return (positions.float()[:, None] @ frequencies[None, :]).float()
    return positions.float()[:, None] * frequencies


# %% wrong: the caller's frequencies require a gradient afterwards
def position_angles(positions, frequencies):
    frequencies.requires_grad_(True)
    return positions.float()[:, None] * frequencies


# %% wrong: the caller's integer positions become floats
def position_angles(positions, frequencies):
    positions.data = positions.data.float()
    return positions[:, None] * frequencies
