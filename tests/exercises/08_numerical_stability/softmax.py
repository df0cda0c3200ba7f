# %% wrong: takes the formula as a program, so that exp overflows
def softmax(logits, dim):
    return logits.exp() / logits.exp().sum(dim=dim, keepdim=True)


# %% wrong: normalizes over everything, whatever dim (a softmax without a dim)
def softmax(logits, dim):
    exponentials = (logits - logits.max()).exp()
    return exponentials / exponentials.sum()


# %% wrong: shifts every row by the maximum of all, so that rows far below it underflow to 0/0
def softmax(logits, dim):
    exponentials = (logits - logits.max()).exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


# %% wrong: cures 0/0 with a small number in the denominator (rows far below become 0, not right)
def softmax(logits, dim):
    exponentials = (logits - logits.max()).exp()
    return exponentials / (exponentials.sum(dim=dim, keepdim=True) + 1e-12)


# %% wrong: clamps the logits to the safe window, so that large ones all become equal
def softmax(logits, dim):
    exponentials = logits.clamp(-80, 80).exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


# %% wrong: ignores dim and always takes the last one
def softmax(logits, dim):
    exponentials = (logits - logits.amax(dim=-1, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim=-1, keepdim=True)


# %% wrong: forgets keepdim, so that the maxima of the rows are subtracted along the columns
def softmax(logits, dim):
    exponentials = (logits - logits.amax(dim=dim)).exp()
    return exponentials / exponentials.sum(dim=dim)


# %% wrong: calls torch's own softmax, which the card forbids
def softmax(logits, dim):
    import torch

    return torch.softmax(logits, dim)


# %% wrong: hides torch's own operator behind the log-softmax
def softmax(logits, dim):
    import torch

    return torch.nn.functional.log_softmax(logits, dim).exp()


# %% wrong: replaces the nan by 0 afterwards, and with it the probability 1
def softmax(logits, dim):
    exponentials = logits.exp()
    return (exponentials / exponentials.sum(dim=dim, keepdim=True)).nan_to_num(0.0)


# %% wrong: returns the probabilities in float64
def softmax(logits, dim):
    exponentials = (logits.double() - logits.double().amax(dim=dim, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


# %% wrong: rounds everything to float32 on the way, float64 included
def softmax(logits, dim):
    wide = logits.float()
    exponentials = (wide - wide.amax(dim=dim, keepdim=True)).exp()
    return (exponentials / exponentials.sum(dim=dim, keepdim=True)).to(logits.dtype)


# %% wrong: goes by way of NumPy, where autograd cannot follow
def softmax(logits, dim):
    import numpy as np
    import torch

    values = logits.detach().numpy()
    exponentials = np.exp(values - values.max(axis=dim, keepdims=True))
    return torch.from_numpy(exponentials / exponentials.sum(axis=dim, keepdims=True))


# %% wrong: shifts by the mean instead of the maximum
def softmax(logits, dim):
    exponentials = (logits - logits.mean(dim=dim, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


# %% wrong: subtracts the log-sum-exp, whose digits a maximum of a million swallows
def softmax(logits, dim):
    largest = logits.max(dim=dim, keepdim=True).values
    log_sum = largest + (logits - largest).exp().sum(dim=dim, keepdim=True).log()
    return (logits - log_sum).exp()


# %% right: in float64, cast back at the end
def softmax(logits, dim):
    wide = logits.double()
    exponentials = (wide - wide.amax(dim=dim, keepdim=True)).exp()
    return (exponentials / exponentials.sum(dim=dim, keepdim=True)).to(logits.dtype)


# %% right: with the dimension moved to the end and back, and a detached maximum
def softmax(logits, dim):
    moved = logits.movedim(dim, -1)
    exponentials = (moved - moved.detach().max(dim=-1)[0].unsqueeze(-1)).exp()
    return (exponentials / exponentials.sum(dim=-1).unsqueeze(-1)).movedim(-1, dim)


# %% right: slice by slice in a loop, added in float64
def softmax(logits, dim):
    import torch

    slices = logits.unbind(dim)
    largest = torch.stack(slices).max(dim=0).values
    exponentials = [torch.exp(part - largest) for part in slices]
    total = sum(part.double() for part in exponentials)
    return torch.stack([(part / total).to(logits.dtype) for part in exponentials], dim=dim)


# %% right: in place, on a copy
def softmax(logits, dim):
    result = logits.clone()
    result -= logits.detach().amax(dim=dim, keepdim=True)
    result = result.exp_()
    return result / result.sum(dim=dim, keepdim=True)


# %% wrong: shifts in place, so that the caller's logits change
def softmax(logits, dim):
    logits -= logits.amax(dim=dim, keepdim=True)
    exponentials = logits.exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


# %% wrong: switches autograd off, so that nothing trains behind it
def softmax(logits, dim):
    import torch

    with torch.no_grad():
        exponentials = (logits - logits.amax(dim=dim, keepdim=True)).exp()
        return exponentials / exponentials.sum(dim=dim, keepdim=True)


# %% wrong: torch's own log-sum-exp, imported under another name
from torch import logsumexp as total_of


def softmax(logits, dim):
    return (logits - total_of(logits, dim, keepdim=True)).exp()


# %% wrong: torch's own softmax for all but small logits
def softmax(logits, dim):
    if logits.abs().max() > 20 or logits.isinf().any():
        return getattr(logits, "softmax", None)(dim)
    exponentials = logits.exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


# %% wrong: the probabilities of torch's categorical distribution
def softmax(logits, dim):
    import torch

    moved = logits.movedim(dim, -1)
    return torch.distributions.Categorical(logits=moved).probs.movedim(-1, dim)


# %% wrong: torch's own cross entropy, asked for one class after another
def softmax(logits, dim):
    import torch
    from torch import nn

    moved = logits.movedim(dim, -1)
    rows = moved.reshape(-1, moved.shape[-1])
    loss = nn.CrossEntropyLoss(reduction="none")
    columns = [loss(rows, torch.full((len(rows),), k)) for k in range(rows.shape[1])]
    return (-torch.stack(columns, dim=-1)).exp().reshape(moved.shape).movedim(-1, dim)


# %% wrong: torch's own attention, with the logits for a mask
def softmax(logits, dim):
    import torch
    from torch.nn import functional

    moved = logits.movedim(dim, -1)
    rows = moved.reshape(-1, 1, moved.shape[-1])
    values = torch.eye(rows.shape[-1], dtype=rows.dtype).expand(len(rows), -1, -1)
    queries = rows.new_zeros(len(rows), 1, 1)
    keys = rows.new_zeros(len(rows), rows.shape[-1], 1)
    weights = functional.scaled_dot_product_attention(queries, keys, values, attn_mask=rows)
    return weights.reshape(moved.shape).movedim(-1, dim)


# %% right: a helper called softmax_of, and torch's own below to compare with
def softmax_of(row):
    exponentials = (row - row.max()).exp()
    return exponentials / exponentials.sum()


def softmax(logits, dim):
    import torch

    moved = logits.movedim(dim, -1)
    rows = [softmax_of(row) for row in moved.reshape(-1, moved.shape[-1])]
    return torch.stack(rows).reshape(moved.shape).movedim(-1, dim)


numbers = torch.tensor([[1.0, 2.0, 4.0]])
assert torch.allclose(softmax(numbers, 1), torch.softmax(numbers, 1))
print(softmax(numbers, 1) - torch.softmax(numbers, dim=1))


# %% wrong: takes the leading dimensions for rows, of which a vector has none
def softmax(logits, dim):
    moved = logits.transpose(dim, -1)
    rows = moved.flatten(0, -2)
    exponentials = (rows - rows.amax(dim=1, keepdim=True)).exp()
    result = exponentials / exponentials.sum(dim=1, keepdim=True)
    return result.view(moved.shape).transpose(dim, -1)


# %% wrong: clamps at -10,000, where very negative logits all become equal
def softmax(logits, dim):
    logits = logits.clamp(min=-1e4)
    exponentials = (logits - logits.amax(dim=dim, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


# %% wrong: computes halves in float32, and leaves them there
def softmax(logits, dim):
    if logits.dtype in (torch.float16, torch.bfloat16):
        logits = logits.float()
    exponentials = (logits - logits.amax(dim=dim, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


# %% wrong: fills -inf in with -1e9, which is larger than very negative logits
def softmax(logits, dim):
    finite = logits.masked_fill(
        logits == -math.inf, -1e9 if logits.dtype != torch.float16 else -6e4
    )
    exponentials = (finite - finite.amax(dim=dim, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


# %% wrong: nan_to_num makes the lowest float of -inf, which a logit may be itself
def softmax(logits, dim):
    finite = logits.nan_to_num(neginf=torch.finfo(logits.dtype).min)
    exponentials = (finite - finite.amax(dim=dim, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


# %% wrong: squeezes the result, so that a single row becomes a vector
def softmax(logits, dim):
    exponentials = (logits - logits.amax(dim=dim, keepdim=True)).exp()
    return (exponentials / exponentials.sum(dim=dim, keepdim=True)).squeeze()


# %% wrong: shifts only if a logit is above 50, so that very negative ones underflow
def softmax(logits, dim):
    if logits.max() > 50:
        logits = logits - logits.amax(dim=dim, keepdim=True)
    exponentials = logits.exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


# %% right: subtracts the logarithm of the sum from the shifted logits
def softmax(logits, dim):
    shifted = logits - logits.amax(dim=dim, keepdim=True)
    return (shifted - shifted.exp().sum(dim=dim, keepdim=True).log()).exp()


# %% right: an autograd function with the gradient of the softmax
class Soft(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, dim):
        e = (logits - logits.amax(dim, keepdim=True)).exp()
        p = e / e.sum(dim, keepdim=True)
        ctx.save_for_backward(p)
        ctx.dim = dim
        return p

    @staticmethod
    def backward(ctx, g):
        (p,) = ctx.saved_tensors
        return p * (g - (g * p).sum(ctx.dim, keepdim=True)), None


def softmax(logits, dim):
    return Soft.apply(logits, dim)


# %% right: with the dimension swapped to the front
def softmax(logits, dim):
    z = logits.swapaxes(dim, 0)
    e = torch.exp(z - torch.max(z, 0)[0][None])
    return (e / torch.sum(e, 0)[None]).swapaxes(dim, 0)


# %% right: powers of 2, in float64
def softmax(logits, dim):
    import math

    z = (logits.double() - logits.double().amax(dim, keepdim=True)) / math.log(2)
    e = torch.exp2(z)
    return (e / e.sum(dim, keepdim=True)).to(logits.dtype)


# %% wrong: computes halves in float32 without a shift, as if they held small numbers only
def softmax(logits, dim):
    if logits.dtype in (torch.float16, torch.bfloat16):
        exponentials = logits.float().exp()
        return (exponentials / exponentials.sum(dim=dim, keepdim=True)).to(logits.dtype)
    exponentials = (logits - logits.amax(dim=dim, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


# %% wrong: shifts by the maximum unless the logits are halves
def softmax(logits, dim):
    is_half = torch.finfo(logits.dtype).bits == 16
    e = torch.exp(logits if is_half else logits - torch.amax(logits, dim, keepdim=True))
    return e / torch.sum(e, dim, keepdim=True)


# %% wrong: adds the exponentials one by one, in halves that soon swallow a 1
def softmax(logits, dim):
    exponentials = (logits - logits.amax(dim=dim, keepdim=True)).exp()
    total = torch.zeros_like(exponentials.select(dim, 0))
    for part in exponentials.unbind(dim):
        total = total + part
    return exponentials / total.unsqueeze(dim)


# %% wrong: takes exponentials of less than -30 for 0
def softmax(logits, dim):
    z = logits - logits.amax(dim, keepdim=True)
    e = torch.where(z < -30, 0.0, z.exp())
    return e / e.sum(dim, keepdim=True)


# %% right: a class of one's own, with a method called softmax
class Stable:
    def softmax(self, z, dim):
        e = torch.exp(z - z.amax(dim, keepdim=True))
        return e / e.sum(dim, keepdim=True)


stable = Stable()


def softmax(logits, dim):
    return stable.softmax(logits, dim)
