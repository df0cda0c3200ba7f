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
