# %% wrong: keeps the sum of squares, E[x²] - E[x]², and loses it to a large mean
def merge_moments(count, mean, m2, batch):
    total = count + len(batch)
    squares = m2 + count * mean**2 + (batch**2).sum(dim=0)
    mean = (count * mean + batch.sum(dim=0)) / total
    return total, mean, squares - total * mean**2


# %% wrong: forgets that the two groups have different means
def merge_moments(count, mean, m2, batch):
    total = count + len(batch)
    block_mean = batch.mean(dim=0)
    new_mean = (count * mean + len(batch) * block_mean) / total
    return total, new_mean, m2 + ((batch - block_mean) ** 2).sum(dim=0)


# %% wrong: measures the block from the new mean, and leaves the past with the old one
def merge_moments(count, mean, m2, batch):
    total = count + len(batch)
    new_mean = mean + (batch - mean).sum(dim=0) / total
    return total, new_mean, m2 + ((batch - new_mean) ** 2).sum(dim=0)


# %% wrong: averages the means without weights
def merge_moments(count, mean, m2, batch):
    block_mean = batch.mean(dim=0)
    new_mean = block_mean if count == 0 else (mean + block_mean) / 2
    delta, total = block_mean - mean, count + len(batch)
    m2 = m2 + ((batch - block_mean) ** 2).sum(dim=0) + delta**2 * count * len(batch) / total
    return total, new_mean, m2


# %% wrong: counts blocks instead of rows
def merge_moments(count, mean, m2, batch):
    block_mean = batch.mean(dim=0)
    delta, total = block_mean - mean, count + 1
    m2 = m2 + ((batch - block_mean) ** 2).sum(dim=0) + delta**2 * count / total
    return total, mean + delta / total, m2


# %% wrong: unbiased variances times n, which is nan for a block of one row
def merge_moments(count, mean, m2, batch):
    rows, block_mean = len(batch), batch.mean(dim=0)
    delta, total = block_mean - mean, count + len(batch)
    m2 = m2 + (rows - 1) * batch.var(dim=0) + delta**2 * count * rows / total
    return total, mean + delta * rows / total, m2


# %% wrong: the weight of the last term is the block's share alone
def merge_moments(count, mean, m2, batch):
    rows, block_mean = len(batch), batch.mean(dim=0)
    delta, total = block_mean - mean, count + len(batch)
    m2 = m2 + ((batch - block_mean) ** 2).sum(dim=0) + delta**2 * rows / total
    return total, mean + delta * rows / total, m2


# %% wrong: one mean for all features
def merge_moments(count, mean, m2, batch):
    rows, block_mean = len(batch), batch.mean()
    delta, total = block_mean - mean, count + len(batch)
    m2 = m2 + ((batch - block_mean) ** 2).sum(dim=0) + delta**2 * count * rows / total
    return total, mean + delta * rows / total, m2


# %% wrong: a running mean with momentum, as BatchNorm keeps it
def merge_moments(count, mean, m2, batch):
    total = count + len(batch)
    new_mean = 0.9 * mean + 0.1 * batch.mean(dim=0)
    return total, new_mean, m2 + ((batch - new_mean) ** 2).sum(dim=0)


# %% right: Welford, one row at a time
def merge_moments(count, mean, m2, batch):
    for row in batch:
        count += 1
        delta = row - mean
        mean = mean + delta / count
        m2 = m2 + delta * (row - mean)
    return count, mean, m2


# %% right: in float64 by way of NumPy, cast back
def merge_moments(count, mean, m2, batch):
    import numpy as np
    import torch

    x, old = batch.numpy().astype(np.float64), mean.numpy().astype(np.float64)
    rows, total = len(x), count + len(x)
    delta = x.mean(axis=0) - old
    spread = ((x - x.mean(axis=0)) ** 2).sum(axis=0)
    new_m2 = m2.numpy() + spread + delta**2 * count * rows / total
    new_mean = old + delta * rows / total
    return (
        total,
        torch.from_numpy(new_mean).to(batch.dtype),
        torch.from_numpy(new_m2).to(batch.dtype),
    )


# %% right: through var_mean, with the first block as a case of its own
def merge_moments(count, mean, m2, batch):
    import torch

    rows = batch.shape[0]
    block_var, block_mean = torch.var_mean(batch, dim=0, correction=0)
    if count == 0:
        return rows, block_mean, block_var * rows
    shift = block_mean - mean
    new_mean = mean + shift * rows / (count + rows)
    return count + rows, new_mean, m2 + rows * (block_var + shift * (block_mean - new_mean))


# %% right: distances from the old mean, corrected for the move of the mean
def merge_moments(count, mean, m2, batch):
    if count == 0:
        mean = batch[0]
    total = count + len(batch)
    distances = batch - mean
    move = distances.sum(dim=0) / total
    return total, mean + move, m2 + (distances**2).sum(dim=0) - total * move**2


# %% wrong: keeps all rows in its process, and does not need what it returned
SEEN = []


def merge_moments(count, mean, m2, batch):
    if count == 0:
        SEEN.clear()
    SEEN.append(batch)
    rows = torch.cat(SEEN).double()
    variance, mean = torch.var_mean(rows, dim=0, correction=0)
    return len(rows), mean.to(batch.dtype), (variance * len(rows)).to(batch.dtype)


# %% wrong: the squares of the means, which float32 cannot hold exactly
def merge_moments(count, mean, m2, batch):
    rows, block_mean = len(batch), batch.mean(dim=0)
    total = count + rows
    new_mean = mean + (block_mean - mean) * rows / total
    between = count * mean**2 + rows * block_mean**2 - total * new_mean**2
    return total, new_mean, m2 + ((batch - block_mean) ** 2).sum(dim=0) + between


# %% wrong: by way of float32, float64 included
def merge_moments(count, mean, m2, batch):
    dtype, rows = batch.dtype, len(batch)
    batch, mean, m2 = batch.float(), mean.float(), m2.float()
    total, block_mean = count + rows, batch.mean(dim=0)
    delta = block_mean - mean
    m2 = m2 + ((batch - block_mean) ** 2).sum(dim=0) + delta**2 * (count * rows / total)
    return total, (mean + delta * (rows / total)).to(dtype), m2.to(dtype)


# %% wrong: adds to its arguments in place
def merge_moments(count, mean, m2, batch):
    rows = len(batch)
    total = count + rows
    block_mean = batch.mean(dim=0)
    delta = block_mean - mean
    mean += delta * (rows / total)
    m2 += ((batch - block_mean) ** 2).sum(dim=0) + delta**2 * (count * rows / total)
    return total, mean, m2


# %% wrong: centers the caller's block in place
def merge_moments(count, mean, m2, batch):
    total = count + len(batch)
    block_mean = batch.mean(dim=0)
    delta = block_mean - mean
    batch -= block_mean
    m2 = m2 + (batch**2).sum(dim=0) + delta**2 * (count * len(batch) / total)
    return total, mean + delta * (len(batch) / total), m2


# %% wrong: the mean from a sum of all rows, which float32 rounds a little in each block
def merge_moments(count, mean, m2, batch):
    rows = len(batch)
    total = count + rows
    block_mean = batch.mean(dim=0)
    m2 = m2 + ((batch - block_mean) ** 2).sum(dim=0)
    m2 = m2 + (block_mean - mean) ** 2 * (count * rows / total)
    return total, (count * mean + batch.sum(dim=0)) / total, m2


# %% wrong: squeezes mean and m2, so that a single feature loses its dimension
def merge_moments(count, mean, m2, batch):
    rows = len(batch)
    total = count + rows
    block_mean = batch.mean(dim=0).squeeze()
    delta = block_mean - mean
    m2 = m2 + ((batch - block_mean) ** 2).sum(dim=0).squeeze() + delta**2 * (count * rows / total)
    return total, (mean + delta * (rows / total)).squeeze(), m2.squeeze()


# %% wrong: keeps the last state in float64, and takes it for every state of the same count
STATE = {}


def merge_moments(count, mean, m2, batch):
    if count in STATE:
        mean, m2 = STATE[count]
    rows = len(batch)
    total = count + rows
    wide = batch.double()
    block_mean = wide.mean(dim=0)
    delta = block_mean - mean.double()
    m2 = m2.double() + ((wide - block_mean) ** 2).sum(dim=0) + delta**2 * (count * rows / total)
    mean = mean.double() + delta * (rows / total)
    STATE.clear()
    STATE[total] = mean, m2
    return total, mean.to(batch.dtype), m2.to(batch.dtype)


# %% wrong: keeps every state in its process, by its count
STATE = {}


def merge_moments(count, mean, m2, batch):
    if count == 0:
        STATE.clear()
    mean, m2 = STATE.get(count, (mean, m2))
    rows = len(batch)
    total = count + rows
    block_mean = batch.mean(dim=0)
    delta = block_mean - mean
    m2 = m2 + ((batch - block_mean) ** 2).sum(dim=0) + delta**2 * (count * rows / total)
    mean = mean + delta * (rows / total)
    STATE[total] = mean, m2
    return total, mean, m2


# %% wrong: keeps the digits that float32 cannot hold in its process, by the state that it returned
CACHE = {}


def merge_moments(count, mean, m2, batch):
    key = (count, tuple(mean.tolist()), tuple(m2.tolist()))
    mean, m2 = CACHE.get(key, (mean, m2))
    rows = len(batch)
    total = count + rows
    wide = batch.double()
    block_mean = wide.mean(dim=0)
    delta = block_mean - mean.double()
    m2 = m2.double() + ((wide - block_mean) ** 2).sum(dim=0) + delta**2 * (count * rows / total)
    mean = mean.double() + delta * (rows / total)
    out = total, mean.to(batch.dtype), m2.to(batch.dtype)
    CACHE[(total, tuple(out[1].tolist()), tuple(out[2].tolist()))] = mean, m2
    return out


# %% wrong: sums of squares in float64, enough for float32 batches and too few digits for float64
def merge_moments(count, mean, m2, batch):
    wide, old = batch.double(), mean.double()
    total = count + len(batch)
    squares = m2.double() + count * old**2 + (wide**2).sum(dim=0)
    new = (count * old + wide.sum(dim=0)) / total
    return total, new.to(batch.dtype), (squares - total * new**2).to(batch.dtype)


# %% right: sums of squares in float64 for float32 batches, distances from the mean for float64
def merge_moments(count, mean, m2, batch):
    wide, old = batch.double(), mean.double()
    total = count + len(batch)
    if batch.dtype == torch.float32:
        squares = m2.double() + count * old**2 + (wide**2).sum(dim=0)
        new = (count * old + wide.sum(dim=0)) / total
        return total, new.float(), (squares - total * new**2).float()
    block = wide.mean(dim=0)
    d = block - old
    return (
        total,
        old + d * len(batch) / total,
        m2 + ((wide - block) ** 2).sum(0) + d**2 * count * len(batch) / total,
    )


# %% right: feature by feature, in Python numbers
def merge_moments(count, mean, m2, batch):
    n = batch.size(0)
    means, ms = [], []
    for k in range(batch.size(1)):
        col = batch[:, k].tolist()
        mu = math.fsum(col) / n
        d = mu - mean[k].item()
        means.append(mean[k].item() + d * n / (count + n))
        ms.append(
            m2[k].item() + math.fsum((v - mu) ** 2 for v in col) + d * d * count * n / (count + n)
        )
    return count + n, torch.tensor(means, dtype=batch.dtype), torch.tensor(ms, dtype=batch.dtype)


# %% right: the block's halves merged like two groups, again and again
def merge_two(a, b):
    (na, ma, sa), (nb, mb, sb) = a, b
    n = na + nb
    d = mb - ma
    return n, ma + d * (nb / n), sa + sb + d * d * (na * nb / n)


def merge_moments(count, mean, m2, batch):
    parts = [(1, row, torch.zeros_like(row)) for row in batch]
    while len(parts) > 1:
        parts = [
            merge_two(*parts[i : i + 2]) if i + 1 < len(parts) else parts[i]
            for i in range(0, len(parts), 2)
        ]
    return merge_two((count, mean, m2), parts[0])


# %% right: both groups measured from the new mean
def merge_moments(count, mean, m2, batch):
    total = count + batch.shape[0]
    new = mean + (batch - mean).sum(0) / total
    return total, new, m2 + count * (mean - new) ** 2 + ((batch - new) ** 2).sum(0)


# %% right: a mean between the two means, and squares by einsum
def merge_moments(count, mean, m2, batch):
    n, total = batch.shape[0], count + batch.shape[0]
    bm = batch.mean(0)
    c = batch - bm
    bm2 = torch.einsum("rf,rf->f", c, c)
    w = n / total
    return total, torch.lerp(mean, bm, w), m2 + bm2 + (bm - mean).square() * (count * w)
