# %% wrong: the formula from school, whose gradient is nan where the points coincide
def distances(a, b):
    return ((a - b) ** 2).sum(dim=-1).sqrt()


# %% wrong: a small number under the root, 1e-12
def distances(a, b):
    return (((a - b) ** 2).sum(dim=-1) + 1e-12).sqrt()


# %% wrong: clamps under the root
def distances(a, b):
    return ((a - b) ** 2).sum(dim=-1).clamp(min=1e-12).sqrt()


# %% wrong: pairwise_distance with its default eps of 1e-6 in every difference
def distances(a, b):
    from torch.nn import functional

    return functional.pairwise_distance(a, b)


# %% wrong: a single where, after the root
def distances(a, b):
    import torch

    squares = ((a - b) ** 2).sum(dim=-1)
    return torch.where(squares > 0, squares.sqrt(), 0.0)


# %% wrong: replaces nan in the value, where there is none
def distances(a, b):
    return ((a - b) ** 2).sum(dim=-1).sqrt().nan_to_num(0.0)


# %% wrong: returns the squared distance
def distances(a, b):
    return ((a - b) ** 2).sum(dim=-1)


# %% wrong: the sum of absolute differences
def distances(a, b):
    return (a - b).abs().sum(dim=-1)


# %% wrong: |a|² + |b|² - 2ab, which cancels for close points
def distances(a, b):
    import torch

    squares = ((a * a).sum(-1) + (b * b).sum(-1) - 2 * (a * b).sum(-1)).clamp(min=0)
    coincide = (a == b).all(dim=-1)
    return torch.where(coincide, 0.0, torch.where(squares > 0, squares, 1.0).sqrt())


# %% wrong: treats everything below a millionth as coinciding
def distances(a, b):
    import torch

    squares = ((a - b) ** 2).sum(dim=-1)
    apart = squares > 1e-11
    return torch.where(apart, torch.where(apart, squares, 1.0).sqrt(), 0.0)


# %% wrong: the double where with the wrong harmless value: coinciding points are 1 apart
def distances(a, b):
    import torch

    squares = ((a - b) ** 2).sum(dim=-1)
    return torch.where(squares > 0, squares, torch.ones_like(squares)).sqrt()


# %% wrong: detaches the second argument
def distances(a, b):
    import torch

    return torch.linalg.vector_norm(a - b.detach(), dim=-1)


# %% right: the double where
def distances(a, b):
    import torch

    squares = ((a - b) ** 2).sum(dim=-1)
    apart = squares > 0
    harmless = torch.where(apart, squares, torch.ones_like(squares))
    return torch.where(apart, harmless.sqrt(), torch.zeros_like(squares))


# %% right: only the points that are apart see the root
def distances(a, b):
    import torch

    squares = (a - b).pow(2).sum(-1)
    result = torch.zeros_like(squares)
    result[squares > 0] = squares[squares > 0].sqrt()
    return result


# %% right: the norm as a method of the tensor
def distances(a, b):
    return (a - b).norm(p=2, dim=-1)


# %% right: pairwise_distance without its eps
def distances(a, b):
    from torch.nn import functional

    return functional.pairwise_distance(a, b, p=2.0, eps=0.0)


# %% right: an autograd function that divides by the distance only where there is one
def distances(a, b):
    import torch

    class Length(torch.autograd.Function):
        @staticmethod
        def forward(ctx, difference):
            length = (difference * difference).sum(dim=-1).sqrt()
            ctx.save_for_backward(difference, length)
            return length

        @staticmethod
        def backward(ctx, grad):
            difference, length = ctx.saved_tensors
            slope = (grad / length.masked_fill(length == 0, 1.0)).unsqueeze(-1)
            return slope * difference

    return Length.apply(a - b)


# %% wrong: by way of float32, float64 included
def distances(a, b):
    import torch

    return torch.linalg.vector_norm(a.float() - b.float(), dim=-1).to(a.dtype)


# %% wrong: no gradient at all below a distance of a hundred-thousandth
def distances(a, b):
    import torch

    squares = ((a - b) ** 2).sum(dim=-1)
    apart = squares > 0
    root = torch.where(apart, squares, 1.0).sqrt()
    root = torch.where(root < 1e-5, root.detach(), root)
    return torch.where(apart, root, 0.0)


# %% right: differences relative to the largest of them, as hypot does it
def distances(a, b):
    import torch

    difference = a - b
    size = difference.detach().abs().amax(dim=-1, keepdim=True)
    size = torch.where(size > 0, size, 1.0)
    squares = ((difference / size) ** 2).sum(dim=-1)
    apart = squares > 0
    lengths = torch.where(apart, torch.where(apart, squares, 1.0).sqrt(), 0.0)
    return lengths * size.squeeze(-1)


# %% wrong: the smallest normal number under the root, which shows in no value
def distances(a, b):
    import torch

    return (((a - b) ** 2).sum(dim=-1) + torch.finfo(a.dtype).tiny).sqrt()


# %% wrong: a double where for each feature: features that agree add 1 under the root
def distances(a, b):
    import torch

    difference = torch.where(a != b, a - b, 1.0)
    lengths = (difference**2).sum(dim=-1).sqrt()
    return torch.where((a != b).any(dim=-1), lengths, 0.0)


# %% wrong: takes points closer than a hundred-millionth for the same
def distances(a, b):
    import torch

    squares = ((a - b) ** 2).sum(dim=-1)
    apart = squares > 1e-16
    return torch.where(apart, torch.where(apart, squares, 1.0).sqrt(), 0.0)


# %% wrong: takes distances below 1e-12 for 0
def distances(a, b):
    squares = ((a - b) ** 2).sum(dim=-1)
    zero = squares <= 1e-24
    return torch.where(zero, 0.0, torch.where(zero, 1.0, squares).sqrt())


# %% wrong: squeezes the distances, so that a single pair loses its dimension
def distances(a, b):
    return torch.linalg.vector_norm(a - b, dim=-1).squeeze()


# %% wrong: squeezes the difference, so that a single feature is lost
def distances(a, b):
    return torch.linalg.vector_norm((a - b).squeeze(), dim=-1)


# %% wrong: no gradient to points closer than a ten-millionth
def distances(a, b):
    squares = ((a - b) ** 2).sum(dim=-1)
    apart = squares > 0
    root = torch.where(apart, squares, 1.0).sqrt()
    root = torch.where(root < 1e-7, root.detach(), root)
    return torch.where(apart, root, 0.0)


# %% wrong: no gradient to points closer than a billionth
def distances(a, b):
    d = torch.linalg.vector_norm(a - b, dim=-1)
    return torch.where(d < 1e-9, d.detach(), d)


# %% wrong: divides by a billionth at least in the backward pass
class Length2(torch.autograd.Function):
    @staticmethod
    def forward(ctx, difference):
        length = (difference * difference).sum(dim=-1).sqrt()
        ctx.save_for_backward(difference, length)
        return length

    @staticmethod
    def backward(ctx, grad):
        difference, length = ctx.saved_tensors
        return (grad / length.clamp(min=1e-9)).unsqueeze(-1) * difference


def distances(a, b):
    return Length2.apply(a - b)


# %% wrong: leaves a tiny gradient to points that coincide
class Length3(torch.autograd.Function):
    @staticmethod
    def forward(ctx, difference):
        length = (difference * difference).sum(dim=-1).sqrt()
        ctx.save_for_backward(difference, length)
        return length

    @staticmethod
    def backward(ctx, grad):
        difference, length = ctx.saved_tensors
        safe = length.masked_fill(length == 0, 1.0)
        return (grad / safe).unsqueeze(-1) * torch.where(difference == 0, 1e-9, difference)


def distances(a, b):
    return Length3.apply(a - b)


# %% wrong: flattens the leading dimensions, of which one pair has none
def distances(a, b):
    flat = (a - b).flatten(0, -2)
    return torch.stack([torch.linalg.vector_norm(d) for d in flat]).reshape(a.shape[:-1])


# %% wrong: hypot, feature after feature, whose gradient is nan where the first two agree
def distances(a, b):
    d = a - b
    same = (d == 0).all(-1, keepdim=True)
    d = torch.where(same, 1.0, d)
    out = d[..., 0].abs()
    for k in range(1, d.shape[-1]):
        out = torch.hypot(out, d[..., k])
    return torch.where(same[..., 0], 0.0, out)


# %% right: the detached direction times the difference
def distances(a, b):
    d = a - b
    n = d.detach().norm(dim=-1, keepdim=True)
    u = d.detach() / torch.where(n > 0, n, 1.0)
    return (u * d).sum(-1)


# %% right: pair by pair, in a loop
def distances(a, b):
    d = (a - b).reshape(-1, a.shape[-1])
    out = []
    for row in d:
        out.append(row.square().sum().sqrt() if (row != 0).any() else (row * 0).sum())
    return torch.stack(out).reshape(a.shape[:-1])


# %% right: cdist of single points
def distances(a, b):
    return torch.cdist(
        a.unsqueeze(-2), b.unsqueeze(-2), compute_mode="donot_use_mm_for_euclid_dist"
    )[..., 0, 0]


# %% right: einsum, and two fills around the root
def distances(a, b):
    d = a - b
    s = torch.einsum("...f,...f->...", d, d)
    z = s == 0
    return s.masked_fill(z, 1.0).sqrt().masked_fill(z, 0.0)


# %% wrong: the diagonal of all distances, which cdist takes from products beyond 25 points
def distances(a, b):
    if a.dim() == 1:
        return torch.cdist(a[None], b[None])[0, 0]
    return torch.diagonal(torch.cdist(a, b), dim1=-2, dim2=-1)


# %% wrong: takes points whose features have equal sums for the same point
def distances(a, b):
    squares = (a - b).square().sum(-1)
    same = a.sum(-1) == b.sum(-1)
    return squares.masked_fill(same, 1.0).sqrt().masked_fill(same, 0.0)
