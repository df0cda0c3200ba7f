# %% wrong: divides the momentum by the count
def adjust_batch_norms(model, count):
    import torch

    for module in model.modules():
        if type(module).__name__.startswith("BatchNorm") and module.momentum:
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


# %% wrong: whatever has a momentum, InstanceNorm too
def adjust_batch_norms(model, count):
    for module in model.modules():
        if getattr(module, "momentum", None) is not None:
            module.momentum = 1 - (1 - module.momentum) ** (1 / count)


# %% wrong: begins to count the batches anew
def adjust_batch_norms(model, count):
    import torch

    kinds = torch.nn.BatchNorm1d, torch.nn.BatchNorm2d, torch.nn.BatchNorm3d
    for module in model.modules():
        if isinstance(module, kinds):
            module.num_batches_tracked.zero_()
            if module.momentum is not None:
                module.momentum = 1 - (1 - module.momentum) ** (1 / count)


# %% wrong: leaves the model in evaluation mode
def adjust_batch_norms(model, count):
    import torch

    kinds = torch.nn.BatchNorm1d, torch.nn.BatchNorm2d, torch.nn.BatchNorm3d
    for module in model.modules():
        if isinstance(module, kinds) and module.momentum is not None:
            module.momentum = 1 - (1 - module.momentum) ** (1 / count)
    model.eval()


# %% wrong: goes down to the children, and never looks at the model itself
def adjust_batch_norms(model, count):
    import torch

    kinds = torch.nn.BatchNorm1d, torch.nn.BatchNorm2d, torch.nn.BatchNorm3d
    for module in list(model.modules())[1:]:
        if isinstance(module, kinds) and module.momentum is not None:
            module.momentum = 1 - (1 - module.momentum) ** (1 / count)


# %% wrong: goes down by itself, and meets a layer in two places twice
def adjust_batch_norms(model, count):
    import torch

    for part in model.children():
        adjust_batch_norms(part, count)
    match model:
        case torch.nn.BatchNorm1d() | torch.nn.BatchNorm2d() | torch.nn.BatchNorm3d():
            if model.momentum is not None:
                kept = (1.0 - model.momentum) ** (1.0 / count)
                model.momentum = 1.0 - kept


# %% wrong: by logarithms, which there are none of for a momentum of 1
def adjust_batch_norms(model, count):
    import math

    import torch

    kinds = torch.nn.BatchNorm1d, torch.nn.BatchNorm2d, torch.nn.BatchNorm3d
    for module in model.modules():
        if isinstance(module, kinds) and module.momentum is not None:
            module.momentum = -math.expm1(math.log1p(-module.momentum) / count)


# %% wrong: puts the model into training mode, whatever it was in
def adjust_batch_norms(model, count):
    import torch

    model.train()
    kinds = torch.nn.BatchNorm1d, torch.nn.BatchNorm2d, torch.nn.BatchNorm3d
    for module in model.modules():
        if isinstance(module, kinds) and module.momentum is not None:
            module.momentum = 1 - (1 - module.momentum) ** (1 / count)


# %% right: by logarithms, which keep the digits of a small momentum
def adjust_batch_norms(model, count):
    import math

    for module in model.modules():
        name = type(module).__name__
        if name.startswith("BatchNorm") and module.momentum is not None and module.momentum < 1:
            module.momentum = -math.expm1(math.log1p(-module.momentum) / count)


# %% right: goes down by itself, and remembers where it was
def adjust_batch_norms(model, count):
    import torch

    done = set()

    def adjust(module):
        kinds = torch.nn.BatchNorm1d, torch.nn.BatchNorm2d, torch.nn.BatchNorm3d
        if id(module) in done:
            return
        done.add(id(module))
        if isinstance(module, kinds) and module.momentum is not None:
            kept = (1.0 - module.momentum) ** (1.0 / count)
            module.momentum = 1.0 - kept

    model.apply(adjust)


# %% right: by the class that all of them inherit from
def adjust_batch_norms(model, count):
    import torch

    for module in model.modules():
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
            if module.momentum is None:
                continue
            module.momentum = 1 - (1 - module.momentum) ** (1 / count)


# %% wrong: skips layers in evaluation mode
def adjust_batch_norms(model, count):
    kinds = (torch.nn.BatchNorm1d, torch.nn.BatchNorm2d, torch.nn.BatchNorm3d)
    for m in model.modules():
        if isinstance(m, kinds) and m.momentum is not None and m.training:
            m.momentum = 1 - (1 - m.momentum) ** (1 / count)


# %% wrong: skips layers without weights
def adjust_batch_norms(model, count):
    kinds = (torch.nn.BatchNorm1d, torch.nn.BatchNorm2d, torch.nn.BatchNorm3d)
    for m in model.modules():
        if isinstance(m, kinds) and m.momentum is not None and m.affine:
            m.momentum = 1 - (1 - m.momentum) ** (1 / count)


# %% wrong: sets all layers to training mode meanwhile
def adjust_batch_norms(model, count):
    was = model.training
    model.train()
    kinds = (torch.nn.BatchNorm1d, torch.nn.BatchNorm2d, torch.nn.BatchNorm3d)
    for m in model.modules():
        if isinstance(m, kinds) and m.momentum is not None:
            m.momentum = 1 - (1 - m.momentum) ** (1 / count)
    model.train(was)


# %% wrong: sets all layers to the mode of the model
def adjust_batch_norms(model, count):
    kinds = (torch.nn.BatchNorm1d, torch.nn.BatchNorm2d, torch.nn.BatchNorm3d)
    for m in model.modules():
        if isinstance(m, kinds) and m.momentum is not None:
            m.momentum = 1 - (1 - m.momentum) ** (1 / count)
    model.train(model.training)


# %% wrong: resets weights and biases
def adjust_batch_norms(model, count):
    kinds = (torch.nn.BatchNorm1d, torch.nn.BatchNorm2d, torch.nn.BatchNorm3d)
    for m in model.modules():
        if isinstance(m, kinds) and m.momentum is not None:
            keep = {k: v.clone() for k, v in m.named_buffers()}
            m.reset_parameters()
            for k, v in m.named_buffers():
                v.copy_(keep[k])
            m.momentum = 1 - (1 - m.momentum) ** (1 / count)


# %% wrong: adjusts InstanceNorm2d and InstanceNorm3d, too
def adjust_batch_norms(model, count):
    for m in model.modules():
        if (
            isinstance(m, torch.nn.modules.batchnorm._NormBase)
            and not isinstance(m, torch.nn.InstanceNorm1d)
            and m.momentum is not None
        ):
            m.momentum = 1 - (1 - m.momentum) ** (1 / count)


# %% wrong: changes eps, too
def adjust_batch_norms(model, count):
    kinds = (torch.nn.BatchNorm1d, torch.nn.BatchNorm2d, torch.nn.BatchNorm3d)
    for m in model.modules():
        if isinstance(m, kinds) and m.momentum is not None:
            m.momentum = 1 - (1 - m.momentum) ** (1 / count)
            m.eps = m.eps / count
