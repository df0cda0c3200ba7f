# %% wrong: a single where repairs the value; the gradient at 0 is inf times 0
def safe_log(x):
    import torch

    return torch.where(x > 0, x.log(), torch.zeros_like(x))


# %% wrong: clamps with a small number and returns its logarithm
def safe_log(x):
    return x.clamp(min=1e-12).log()


# %% wrong: clamps, then masks: right but for small numbers above 0
def safe_log(x):
    import torch

    return torch.where(x > 0, x.clamp(min=1e-8).log(), 0.0)


# %% wrong: adds a small number inside the logarithm
def safe_log(x):
    import torch

    return torch.where(x > 0, (x.clamp(min=0) + 1e-12).log(), 0.0)


# %% wrong: replaces nan and inf afterwards: the value is 0, the gradient is not
def safe_log(x):
    return x.log().nan_to_num(nan=0.0, neginf=0.0)


# %% wrong: multiplies by the mask: 0 times -inf
def safe_log(x):
    return (x > 0) * x.log()


# %% wrong: xlogy knows that 0 log x is 0, its gradient does not
def safe_log(x):
    import torch

    return torch.special.xlogy((x > 0).to(x.dtype), x)


# %% wrong: the logarithm of the absolute value
def safe_log(x):
    import torch

    size = torch.where(x == 0, torch.ones_like(x), x.abs())
    return size.log()


# %% wrong: log1p, a different function
def safe_log(x):
    return x.clamp(min=0).log1p()


# %% wrong: detaches, so that no gradient comes back at all
def safe_log(x):
    import torch

    return torch.where(x > 0, x.detach().log(), 0 * x)


# %% wrong: fills after the logarithm
def safe_log(x):
    return x.log().masked_fill(x <= 0, 0.0)


# %% right: the double where, both of them written out
def safe_log(x):
    import torch

    harmless = torch.where(x > 0, x, torch.ones_like(x))
    return torch.where(x > 0, harmless.log(), torch.zeros_like(x))


# %% right: only the positive entries are touched
def safe_log(x):
    import torch

    positive = x > 0
    result = torch.zeros_like(x)
    result[positive] = torch.log(x[positive])
    return result


# %% right: an autograd function with a gradient of its own
def safe_log(x):
    import torch

    class SafeLog(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.clamp(min=0).log().masked_fill(x <= 0, 0.0)

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return (grad / x.masked_fill(x <= 0, 1.0)).masked_fill(x <= 0, 0.0)

    return SafeLog.apply(x)


# %% right: by way of the logarithm to base 2
def safe_log(x):
    import math

    return x.masked_fill(~(x > 0), 1.0).log2() * math.log(2.0)


# %% wrong: clamps at a small number of its own before the logarithm
def safe_log(x):
    import torch

    return torch.where(x > 0, x.clamp(min=1e-12).log(), 0.0)


# %% wrong: only logarithms above 0, as if 1 were the border
def safe_log(x):
    return torch.where(x > 1, x, torch.ones_like(x)).log()


# %% wrong: iterates over the tensor, which a tensor without dimensions does not allow
def safe_log(x):
    return torch.stack([torch.where(row > 0, row, 1.0).log() for row in x])


# %% wrong: squeezes the result, so that dimensions of size 1 are lost
def safe_log(x):
    return torch.where(x > 0, x, 1.0).log().squeeze()


# %% wrong: clamps the gradient, so that small numbers get too little
def safe_log(x):
    y = torch.where(x > 0, x, 1.0)
    if y.requires_grad:
        y.register_hook(lambda g: g.clamp(-1e5, 1e5))
    return y.log()


# %% right: a rectified x plus the mask, whose sum is x or 1
def safe_log(x):
    return (torch.relu(x) + (x <= 0)).log()


# %% right: logarithms of the positive entries, scattered into zeros
def safe_log(x):
    keep = x > 0
    return torch.zeros_like(x).masked_scatter(keep, x[keep].log())


# %% right: entry by entry, in a loop
def safe_log(x):
    parts = [v.log() if v > 0 else torch.zeros_like(v) for v in x.reshape(-1)]
    return torch.stack(parts).reshape(x.shape)


# %% right: clamps at the smallest normal number, then masks
def safe_log(x):
    y = x.clamp(min=torch.finfo(x.dtype).tiny).log()
    return torch.where(x > 0, y, torch.zeros_like(y))


# %% right: a module instead of a function
class SafeLog(torch.nn.Module):
    def forward(self, x):
        return torch.log(torch.where(torch.gt(x, 0), x, torch.ones_like(x)))


safe_log = SafeLog()
