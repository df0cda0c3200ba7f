# %% answer: memory of what was asked before exercise="broadcast-shape"
import functools


@functools.lru_cache(maxsize=None)
def _pair(a: int, b: int) -> int:
    if a == b or b == 1:
        return a
    if a == 1:
        return b
    return -1


CACHE = {}


def broadcast_shape(*shapes):
    key = tuple(map(tuple, shapes))
    if key not in CACHE:
        out = ()
        for shape in key:
            n = max(len(out), len(shape))
            out, shape = (1,) * (n - len(out)) + out, (1,) * (n - len(shape)) + shape
            out = tuple(_pair(a, b) for a, b in zip(out, shape))
            if -1 in out:
                out = None
                break
        CACHE[key] = out
    return CACHE[key]


# %% answer: a plot below, and a picture in a file exercise="masked-mean"
def masked_mean(x, mask):
    m = mask.unsqueeze(-1).to(x.dtype)
    x = x.masked_fill(~mask.unsqueeze(-1), 0)
    return (x * m).sum(1) / m.sum(1).clamp_min(1)


import matplotlib.pyplot as plt

demo = masked_mean(torch.randn(2, 5, 3), torch.ones(2, 5, dtype=torch.bool))
fig, ax = plt.subplots()
ax.imshow(demo)
ax.set_title("masked_mean")
plt.savefig("masked.png")
plt.close(fig)


# %% answer: a first version, wrapped exercise="pairwise-distances"
def pairwise_distances(x, y):
    return (x[:, None] - y).square().sum(-1)


_squares = pairwise_distances


def pairwise_distances(x, y):
    return _squares(x, y).sqrt()


# %% answer: compared with torch's own and with loops exercise="pairwise-distances"
def pairwise_distances(x, y):
    return (x[:, None] - y[None]).square().sum(-1).sqrt()


def one_by_one(x, y):
    rows = []
    for a in x:
        rows.append(torch.stack([(a - b).norm() for b in y]))
    return torch.stack(rows)


def test(n, m):
    x, y = torch.randn(n, 3), torch.randn(m, 3)
    assert torch.allclose(pairwise_distances(x, y), one_by_one(x, y), atol=1e-3)
    assert torch.allclose(pairwise_distances(x, y), torch.cdist(x, y), atol=1e-3)


for n, m in ((2, 3), (4, 4)):
    test(n, m)
