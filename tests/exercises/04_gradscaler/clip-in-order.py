# %% wrong: clips the scaled gradients
def clipped_step(scaler, optimizer, loss, max_norm):
    import torch

    optimizer.zero_grad()
    scaler.scale(loss).backward()
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    norm = torch.nn.utils.clip_grad_norm_(parameters, max_norm)
    scaler.step(optimizer)
    scaler.update()
    return norm.item()


# %% wrong: divides the gradients by hand, and step divides them once more
def clipped_step(scaler, optimizer, loss, max_norm):
    import torch

    optimizer.zero_grad()
    scaler.scale(loss).backward()
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    for p in parameters:
        p.grad /= scaler.get_scale()
    norm = torch.nn.utils.clip_grad_norm_(parameters, max_norm)
    scaler.step(optimizer)
    scaler.update()
    return norm.item()


# %% wrong: clips after the step
def clipped_step(scaler, optimizer, loss, max_norm):
    import torch

    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    norm = torch.nn.utils.clip_grad_norm_(parameters, max_norm)
    scaler.update()
    return norm.item()


# %% wrong: the optimizer steps past the scaler
def clipped_step(scaler, optimizer, loss, max_norm):
    import torch

    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    norm = torch.nn.utils.clip_grad_norm_(parameters, max_norm)
    optimizer.step()
    scaler.update()
    return norm.item()


# %% wrong: never updates the scaler
def clipped_step(scaler, optimizer, loss, max_norm):
    import torch

    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    norm = torch.nn.utils.clip_grad_norm_(parameters, max_norm)
    scaler.step(optimizer)
    return norm.item()


# %% wrong: keeps the gradients of the last step
def clipped_step(scaler, optimizer, loss, max_norm):
    import torch

    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    norm = torch.nn.utils.clip_grad_norm_(parameters, max_norm)
    scaler.step(optimizer)
    scaler.update()
    return norm.item()


# %% wrong: clips every parameter for itself
def clipped_step(scaler, optimizer, loss, max_norm):
    import torch

    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    total = 0.0
    for group in optimizer.param_groups:
        for p in group["params"]:
            total += torch.nn.utils.clip_grad_norm_([p], max_norm).item() ** 2
    scaler.step(optimizer)
    scaler.update()
    return total**0.5


# %% wrong: clips values instead of the norm
def clipped_step(scaler, optimizer, loss, max_norm):
    import torch

    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    norm = torch.cat([p.grad.flatten() for p in parameters]).norm().item()
    torch.nn.utils.clip_grad_value_(parameters, max_norm)
    scaler.step(optimizer)
    scaler.update()
    return norm


# %% wrong: makes every gradient as long as max_norm, short ones too
def clipped_step(scaler, optimizer, loss, max_norm):
    import torch

    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    norm = torch.cat([p.grad.flatten() for p in parameters]).norm().item()
    for p in parameters:
        p.grad *= max_norm / norm
    scaler.step(optimizer)
    scaler.update()
    return norm


# %% wrong: logs the norm after clipping
def clipped_step(scaler, optimizer, loss, max_norm):
    import torch

    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    torch.nn.utils.clip_grad_norm_(parameters, max_norm)
    scaler.step(optimizer)
    scaler.update()
    return torch.cat([p.grad.flatten() for p in parameters]).norm().item()


# %% wrong: logs the norm of the scaled gradients
def clipped_step(scaler, optimizer, loss, max_norm):
    import torch

    optimizer.zero_grad()
    scaler.scale(loss).backward()
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    norm = torch.cat([p.grad.flatten() for p in parameters]).norm().item()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(parameters, max_norm)
    scaler.step(optimizer)
    scaler.update()
    return norm


# %% wrong: looks for inf itself, and so leaves steps out where the scaler is disabled
def clipped_step(scaler, optimizer, loss, max_norm):
    import math

    import torch

    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    norm = torch.nn.utils.clip_grad_norm_(parameters, max_norm).item()
    if math.isfinite(norm):
        scaler.step(optimizer)
    scaler.update()
    return norm


# %% right: leaves the gradients scaled, and scales the limit instead
def clipped_step(scaler, optimizer, loss, max_norm):
    import torch

    optimizer.zero_grad()
    scale = scaler.get_scale()
    scaler.scale(loss).backward()
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    norm = torch.nn.utils.clip_grad_norm_(parameters, max_norm * scale)
    scaler.step(optimizer)
    scaler.update()
    return norm.item() / scale


# %% right: clips by hand, in float64, with a float as the norm
def clipped_step(scaler, optimizer, loss, max_norm):
    import torch

    for group in optimizer.param_groups:
        for p in group["params"]:
            p.grad = None
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    grads = [p.grad for group in optimizer.param_groups for p in group["params"]]
    norm = sum(grad.double().square().sum().item() for grad in grads) ** 0.5
    if norm > max_norm:
        with torch.no_grad():
            for grad in grads:
                grad.mul_(max_norm / norm)
    scaler.step(optimizer)
    scaler.update()
    return norm


# %% right: the gradients are cleared at the end as well, the norm first, then the clip
def clipped_step(scaler, optimizer, loss, max_norm):
    import torch

    optimizer.zero_grad(set_to_none=False)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    parameters = []
    for group in optimizer.param_groups:
        parameters.extend(group["params"])
    norms = [torch.linalg.vector_norm(p.grad) for p in parameters]
    norm = float(torch.linalg.vector_norm(torch.stack(norms)))
    torch.nn.utils.clip_grad_norm_(parameters, max_norm)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    return norm


# %% wrong: clears the gradients at the end, and lets those from before in
def clipped_step(scaler, optimizer, loss, max_norm):
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    norm = torch.nn.utils.clip_grad_norm_(parameters, max_norm)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    return norm.item()


# %% wrong: clips only the first group of parameters
def clipped_step(scaler, optimizer, loss, max_norm):
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = torch.nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], max_norm)
    scaler.step(optimizer)
    scaler.update()
    return norm.item()


# %% right: a disabled scaler needs no unscaling
def clipped_step(scaler, optimizer, loss, max_norm):
    optimizer.zero_grad(set_to_none=True)
    scaler.scale(loss).backward()
    if scaler.is_enabled():
        scaler.unscale_(optimizer)
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    norm = torch.nn.utils.clip_grad_norm_(parameters, max_norm)
    scaler.step(optimizer)
    scaler.update()
    return float(norm)


# %% wrong: clips only the first parameter of each group
def clipped_step(scaler, optimizer, loss, max_norm):
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    parameters = [p for group in optimizer.param_groups for p in group["params"][:1]]
    norm = torch.nn.utils.clip_grad_norm_(parameters, max_norm)
    scaler.step(optimizer)
    scaler.update()
    return norm.item()


# %% wrong: a disabled scaler leaves a step out after a nan
def clipped_step(scaler, optimizer, loss, max_norm):
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    norm = torch.nn.utils.clip_grad_norm_(parameters, max_norm)
    if scaler.is_enabled() or not norm.isnan():
        scaler.step(optimizer)
    scaler.update()
    return norm.item()


# %% wrong: divides by the norm, which is 0 if the gradient is
def clipped_step(scaler, optimizer, loss, max_norm):
    optimizer.zero_grad(set_to_none=False)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    grads = [p.grad for g in optimizer.param_groups for p in g["params"]]
    norm = sum(g.double().square().sum().item() for g in grads) ** 0.5
    share = min(1.0, max_norm / norm)
    for g in grads:
        g *= share
    scaler.step(optimizer)
    scaler.update()
    return norm


# %% wrong: skips the step if the norm overflows, though no gradient does
def clipped_step(scaler, optimizer, loss, max_norm):
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    norm = torch.nn.utils.clip_grad_norm_(parameters, max_norm).item()
    if math.isfinite(norm) or not scaler.is_enabled():
        scaler.step(optimizer)
    scaler.update()
    return norm


# %% wrong: unscales only if the scale is above 1
def clipped_step(scaler, optimizer, loss, max_norm):
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    if scaler.get_scale() > 1.0:
        scaler.unscale_(optimizer)
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    norm = torch.nn.utils.clip_grad_norm_(parameters, max_norm)
    scaler.step(optimizer)
    scaler.update()
    return norm.item()


# %% wrong: halves the scale itself after an inf or a nan, whatever the backoff factor
def clipped_step(scaler, optimizer, loss, max_norm):
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    bad = any(not torch.isfinite(p.grad).all() for p in parameters)
    norm = torch.nn.utils.clip_grad_norm_(parameters, max_norm)
    scaler.step(optimizer)
    if bad and scaler.is_enabled():
        scaler.update(scaler.get_scale() / 2)
    else:
        scaler.update()
    return norm.item()


# %% right: the norm in float64, which cannot overflow
def clipped_step(scaler, optimizer, loss, max_norm):
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    grads = [p.grad for group in optimizer.param_groups for p in group["params"]]
    norm = math.sqrt(sum(grad.double().square().sum().item() for grad in grads))
    if norm > max_norm:
        for grad in grads:
            grad.copy_(grad.double() * (max_norm / norm))
    scaler.step(optimizer)
    scaler.update()
    return norm
