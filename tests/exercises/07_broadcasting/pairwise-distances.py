# %% wrong: the loop over the points of x
def pairwise_distances(x, y):
    return torch.stack([(point - y).square().sum(dim=1).sqrt() for point in x])


# %% wrong: torch's own function
def pairwise_distances(x, y):
    return torch.cdist(x, y)


# %% wrong: point by point, so n and m must be equal
def pairwise_distances(x, y):
    return (x - y).square().sum(dim=1).sqrt()


# %% wrong: the squares of the distances
def pairwise_distances(x, y):
    return (x[:, None] - y[None]).square().sum(dim=-1)


# %% wrong: the other way round, rows for y
def pairwise_distances(x, y):
    return (y[:, None] - x[None]).square().sum(dim=-1).sqrt()


# %% wrong: the sum of absolute differences
def pairwise_distances(x, y):
    return (x[:, None] - y[None]).abs().sum(dim=-1)


# %% wrong: the difference of large squares, which loses the digits of close points
def pairwise_distances(x, y):
    squares = x.square().sum(dim=1)[:, None] + y.square().sum(dim=1)[None] - 2 * x @ y.T
    return squares.clamp(min=0).sqrt()


# %% wrong: sums over the points and not over the features
def pairwise_distances(x, y):
    return (x[:, None] - y[None]).square().sum(dim=1).sqrt()


# %% wrong: the loop over the features
def pairwise_distances(x, y):
    total = 0
    for k in range(x.shape[1]):
        total = total + (x[:, k][:, None] - y[:, k][None]).square()
    return total.sqrt()


# %% right: unsqueeze and a vector norm
def pairwise_distances(x, y):
    return torch.linalg.vector_norm(x.unsqueeze(1) - y.unsqueeze(0), dim=2)


# %% right: expand by hand, and a power
def pairwise_distances(x, y):
    first = x.unsqueeze(1).expand(len(x), len(y), -1)
    second = y.unsqueeze(0).expand(len(x), len(y), -1)
    return ((first - second) ** 2).sum(-1) ** 0.5


# %% right: einsum over the differences
def pairwise_distances(x, y):
    d = x[:, None] - y
    return torch.einsum("nmd,nmd->nm", d, d).sqrt()


# %% wrong: the difference of large squares, in float64
def pairwise_distances(x, y):
    a, b = x.double(), y.double()
    squares = a.square().sum(dim=1)[:, None] + b.square().sum(dim=1)[None] - 2 * a @ b.T
    return squares.clamp(min=0).sqrt().to(x.dtype)


# %% wrong: a small number under the root, so equal points have a distance
def pairwise_distances(x, y):
    return ((x[:, None] - y[None]).square().sum(dim=-1) + 1e-12).sqrt()


# %% wrong: a loop in plain Python, which no call of torch shows
def pairwise_distances(x, y):
    rows = [[math.dist(a, b) for b in y.tolist()] for a in x.tolist()]
    return torch.tensor(rows, dtype=x.dtype)


# %% wrong: in NumPy, where autograd ends
def pairwise_distances(x, y):
    difference = x.detach().numpy()[:, None] - y.detach().numpy()
    return torch.from_numpy((difference**2).sum(-1) ** 0.5).to(x.dtype)


# %% wrong: the difference of large squares, after the mean is taken away
def pairwise_distances(x, y):
    center = x.mean(dim=0)
    a, b = (x - center).double(), (y - center).double()
    squares = a.square().sum(-1)[:, None] + b.square().sum(-1) - 2 * a @ b.T
    squares = torch.where((x[:, None] == y).all(dim=-1), 0.0, squares)
    return squares.clamp(min=0).sqrt().to(x.dtype)


# %% wrong: torch's own function under another name
def pairwise_distances(x, y):
    from torch import cdist as apart

    return apart(x, y, compute_mode="donot_use_mm_for_euclid_dist")


# %% wrong: torch's own function for the distances within one set of points
def pairwise_distances(x, y):
    within = torch.nn.functional.pdist(torch.cat([x, y]))
    everything = x.new_zeros(len(x) + len(y), len(x) + len(y))
    first, second = torch.triu_indices(*everything.shape, offset=1)
    everything[first, second] = within
    return everything[: len(x), len(x) :]


# %% wrong: a broadcast for small numbers of points, a loop for many
def pairwise_distances(x, y):
    if x.numel() + y.numel() < 500:
        return (x[:, None] - y[None]).square().sum(dim=-1).sqrt()
    return torch.stack([(point - y).square().sum(dim=1).sqrt() for point in x])


# %% wrong: a function that calls itself once for each point
def pairwise_distances(x, y):
    row = (x[:1] - y).square().sum(dim=1).sqrt()[None]
    return row if len(x) == 1 else torch.cat([row, pairwise_distances(x[1:], y)])


# %% wrong: one point at a time, by vmap
def pairwise_distances(x, y):
    return torch.vmap(lambda point: (point - y).square().sum(dim=1).sqrt())(x)


# %% right: a helper of its own, and a loop below that tries it out
def differences(x, y):
    return x.unsqueeze(1).sub(y.unsqueeze(0))


def pairwise_distances(x, y):
    return differences(x, y).pow(2).sum(dim=2).pow(0.5)


for count in (2, 3):
    print(torch.allclose(pairwise_distances(torch.eye(count), torch.eye(count)), torch.zeros(1)))


# %% wrong: a loop over lists, through itertools
def pairwise_distances(x, y):
    from itertools import product, starmap

    flat = list(starmap(math.dist, product(x.tolist(), y.tolist())))
    return torch.tensor(flat, dtype=x.dtype).reshape(len(x), len(y))


# %% wrong: a loop over lists, through functools
def pairwise_distances(x, y):
    from functools import reduce

    def one_more(rows, point):
        return [*rows, torch.tensor([*map(point.__class__, point)]).sub(y).norm(dim=1)]

    return torch.stack(reduce(one_more, x.tolist(), []))


# %% wrong: a small number under the root of the norm, in the differences
def pairwise_distances(x, y):
    return torch.nn.functional.pairwise_distance(x[:, None], y[None])


# %% right: repeated by hand, then a norm
def pairwise_distances(x, y):
    n, m = x.size(0), y.size(0)
    left, right = x.repeat_interleave(m, dim=0), y.repeat(n, 1)
    return (left - right).norm(dim=1).view(n, m)


# %% wrong: torch's own function for pairs, over axes that broadcast
def pairwise_distances(x, y):
    return functional.pairwise_distance(x[:, None], y[None], eps=0)


# %% wrong: torch's own function for pairs, as a module
def pairwise_distances(x, y):
    return nn.PairwiseDistance(p=2, eps=0)(x[:, None], y[None])


# %% right: a helper of its own, named like torch's function
def pairwise_distance(first, second):
    return (first - second).square().sum(dim=-1).sqrt()


def pairwise_distances(x, y):
    return pairwise_distance(x[:, None], y[None])


# %% wrong: float64 points rounded to float32 on the way
def pairwise_distances(x, y):
    d = (x[:, None] - y[None]).float()
    return d.square().sum(-1).sqrt().to(x.dtype)


# %% wrong: an output of the default dtype
def pairwise_distances(x, y):
    out = torch.zeros(len(x), len(y))
    out[:] = (x[:, None] - y[None]).square().sum(-1).sqrt()
    return out.to(x.dtype)


# %% right: a variable with the name of its function
def difference(x, y):
    difference = x[:, None] - y[None]
    return difference


def pairwise_distances(x, y):
    return difference(x, y).square().sum(-1).sqrt()


# %% right: a helper adds the axes, and calls what it is given
def for_pairs(function, x, y):
    return function(x.unsqueeze(1), y.unsqueeze(0))


def pairwise_distances(x, y):
    return for_pairs(lambda a, b: (a - b).pow(2).sum(-1).sqrt(), x, y)


# %% wrong: a loop of the check's, which the answer does without
def pairwise_distances(x, y):
    return distances_one_by_one(x, y)


# %% wrong: expands the square where there are more than 64 pairs
def pairwise_distances(x, y):
    if len(x) * len(y) <= 64:
        return (x[:, None] - y).square().sum(-1).sqrt()
    squares = x.square().sum(1)[:, None] + y.square().sum(1) - 2 * x @ y.T
    return squares.clamp(min=0).sqrt()
