# %% wrong: divides the momentum by the count
def adjust_batch_norms(model, count):
    import torch

    for module in model.modules():
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm) and module.momentum:
            module.momentum = module.momentum / count


# %% wrong: the power in place of the root
def adjust_batch_norms(model, count):
    import torch

    kinds = torch.nn.BatchNorm1d, torch.nn.BatchNorm2d, torch.nn.BatchNorm3d
    for module in model.modules():
        if isinstance(module, kinds) and module.momentum is not None:
            module.momentum = 1 - (1 - module.momentum) ** count


# %% wrong: the root of the momentum itself, as if it were what is kept
def adjust_batch_norms(model, count):
    import torch

    kinds = torch.nn.BatchNorm1d, torch.nn.BatchNorm2d, torch.nn.BatchNorm3d
    for module in model.modules():
        if isinstance(module, kinds) and module.momentum is not None:
            module.momentum = module.momentum ** (1 / count)


# %% wrong: looks at the top level only
def adjust_batch_norms(model, count):
    import torch

    kinds = torch.nn.BatchNorm1d, torch.nn.BatchNorm2d, torch.nn.BatchNorm3d
    for module in model.children():
        if isinstance(module, kinds) and module.momentum is not None:
            module.momentum = 1 - (1 - module.momentum) ** (1 / count)


# %% wrong: one momentum for all, that of the default
def adjust_batch_norms(model, count):
    import torch

    kinds = torch.nn.BatchNorm1d, torch.nn.BatchNorm2d, torch.nn.BatchNorm3d
    for module in model.modules():
        if isinstance(module, kinds) and module.momentum is not None:
            module.momentum = 1 - 0.9 ** (1 / count)


# %% wrong: takes None for the default momentum
def adjust_batch_norms(model, count):
    import torch

    kinds = torch.nn.BatchNorm1d, torch.nn.BatchNorm2d, torch.nn.BatchNorm3d
    for module in model.modules():
        if isinstance(module, kinds):
            old = 0.1 if module.momentum is None else module.momentum
            module.momentum = 1 - (1 - old) ** (1 / count)


# %% wrong: forgets the third dimension
def adjust_batch_norms(model, count):
    import torch

    for module in model.modules():
        if isinstance(module, (torch.nn.BatchNorm1d, torch.nn.BatchNorm2d)) and module.momentum:
            module.momentum = 1 - (1 - module.momentum) ** (1 / count)


# %% right: by logarithms, which keep the digits of a small momentum
def adjust_batch_norms(model, count):
    import math

    import torch

    def adjust(module):
        name = type(module).__name__
        if name.startswith("BatchNorm") and module.momentum is not None and module.momentum < 1:
            module.momentum = -math.expm1(math.log1p(-module.momentum) / count)

    model.apply(adjust)


# %% right: goes down by itself
def adjust_batch_norms(model, count):
    import torch

    for part in model.children():
        adjust_batch_norms(part, count)
    match model:
        case torch.nn.BatchNorm1d() | torch.nn.BatchNorm2d() | torch.nn.BatchNorm3d():
            if model.momentum is not None:
                kept = (1.0 - model.momentum) ** (1.0 / count)
                model.momentum = 1.0 - kept
