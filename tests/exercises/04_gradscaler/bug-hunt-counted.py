# %% wrong: as it was found
def counted_step(scaler, counted, loss, max_norm):
    import torch

    counted.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(counted)
    parameters = [p for group in counted.param_groups for p in group["params"]]
    torch.nn.utils.clip_grad_norm_(parameters, max_norm)
    scaler.step(counted.optimizer)
    counted.steps += 1
    scaler.update()


# %% wrong: the other way round, which unscales twice as well
def counted_step(scaler, counted, loss, max_norm):
    import torch

    counted.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(counted.optimizer)
    parameters = [p for group in counted.param_groups for p in group["params"]]
    torch.nn.utils.clip_grad_norm_(parameters, max_norm)
    scaler.step(counted)
    scaler.update()


# %% wrong: one object for both, but every iteration is counted
def counted_step(scaler, counted, loss, max_norm):
    import torch

    counted.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(counted.optimizer)
    parameters = [p for group in counted.param_groups for p in group["params"]]
    torch.nn.utils.clip_grad_norm_(parameters, max_norm)
    scaler.step(counted.optimizer)
    counted.steps += 1
    scaler.update()


# %% wrong: the wrapper for both, and a count on top
def counted_step(scaler, counted, loss, max_norm):
    import torch

    counted.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(counted)
    parameters = [p for group in counted.param_groups for p in group["params"]]
    torch.nn.utils.clip_grad_norm_(parameters, max_norm)
    scaler.step(counted)
    counted.steps += 1
    scaler.update()


# %% wrong: leaves unscale_ out, so that the scaled gradients are clipped
def counted_step(scaler, counted, loss, max_norm):
    import torch

    counted.zero_grad()
    scaler.scale(loss).backward()
    parameters = [p for group in counted.param_groups for p in group["params"]]
    torch.nn.utils.clip_grad_norm_(parameters, max_norm)
    scaler.step(counted)
    scaler.update()


# %% wrong: unscales twice and makes up for it, then an inf passes unseen
def counted_step(scaler, counted, loss, max_norm):
    import torch

    counted.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(counted.optimizer)
    parameters = [p for group in counted.param_groups for p in group["params"]]
    torch.nn.utils.clip_grad_norm_(parameters, max_norm)
    counted.step()
    scaler.update()


# %% wrong: inner optimizer for both, and nobody counts
def counted_step(scaler, counted, loss, max_norm):
    import torch

    counted.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(counted.optimizer)
    parameters = [p for group in counted.param_groups for p in group["params"]]
    torch.nn.utils.clip_grad_norm_(parameters, max_norm)
    scaler.step(counted.optimizer)
    scaler.update()


# %% wrong: counts by comparing the scale, and takes growth for a skip
def counted_step(scaler, counted, loss, max_norm):
    import torch

    counted.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(counted.optimizer)
    parameters = [p for group in counted.param_groups for p in group["params"]]
    torch.nn.utils.clip_grad_norm_(parameters, max_norm)
    before = scaler.get_scale()
    scaler.step(counted.optimizer)
    scaler.update()
    if scaler.get_scale() == before:
        counted.steps += 1


# %% right: the inner optimizer for both, and a count if the gradients are finite
def counted_step(scaler, counted, loss, max_norm):
    import torch

    counted.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(counted.optimizer)
    parameters = [p for group in counted.param_groups for p in group["params"]]
    finite = all(bool(torch.isfinite(p.grad).all()) for p in parameters)
    torch.nn.utils.clip_grad_norm_(parameters, max_norm)
    scaler.step(counted.optimizer)
    counted.steps += int(finite)
    scaler.update()


# %% right: no unscale_, the limit is scaled
def counted_step(scaler, counted, loss, max_norm):
    import torch

    counted.zero_grad()
    scaler.scale(loss).backward()
    parameters = [p for group in counted.param_groups for p in group["params"]]
    torch.nn.utils.clip_grad_norm_(parameters, max_norm * scaler.get_scale())
    scaler.step(counted)
    scaler.update()


# %% right: one optimizer, so the scale does tell: it falls at every skip
def counted_step(scaler, counted, loss, max_norm):
    import torch

    inner = counted.optimizer
    inner.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(inner)
    torch.nn.utils.clip_grad_norm_([p for g in inner.param_groups for p in g["params"]], max_norm)
    before = scaler.get_scale()
    scaler.step(inner)
    scaler.update()
    if not scaler.get_scale() < before:
        counted.steps = counted.steps + 1


# %% wrong: clips only the first group of parameters
def counted_step(scaler, counted, loss, max_norm):
    counted.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(counted)
    torch.nn.utils.clip_grad_norm_(counted.param_groups[0]["params"], max_norm)
    scaler.step(counted)
    scaler.update()


# %% wrong: clears the gradients at the end, and lets those from before in
def counted_step(scaler, counted, loss, max_norm):
    scaler.scale(loss).backward()
    scaler.unscale_(counted)
    parameters = [p for group in counted.param_groups for p in group["params"]]
    torch.nn.utils.clip_grad_norm_(parameters, max_norm)
    scaler.step(counted)
    scaler.update()
    counted.zero_grad()


# %% right: the inner optimizer for both, and a hook that counts
def counted_step(scaler, counted, loss, max_norm):
    import torch

    def count(*_):
        counted.steps += 1

    inner = counted.optimizer
    handle = inner.register_step_post_hook(count)
    inner.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(inner)
    parameters = [p for group in inner.param_groups for p in group["params"]]
    torch.nn.utils.clip_grad_norm_(parameters, max_norm)
    scaler.step(inner)
    scaler.update()
    handle.remove()


# %% wrong: clips only the first parameter of each group
def counted_step(scaler, counted, loss, max_norm):
    counted.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(counted)
    parameters = [p for group in counted.param_groups for p in group["params"][:1]]
    torch.nn.utils.clip_grad_norm_(parameters, max_norm)
    scaler.step(counted)
    scaler.update()


# %% wrong: counts by the first parameter's gradient
def counted_step(scaler, counted, loss, max_norm):
    counted.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(counted.optimizer)
    parameters = [p for group in counted.param_groups for p in group["params"]]
    good = bool(parameters[0].grad.isfinite().all())
    torch.nn.utils.clip_grad_norm_(parameters, max_norm)
    scaler.step(counted.optimizer)
    if good:
        counted.steps += 1
    scaler.update()


# %% wrong: does not count a step with gradients of 0
def counted_step(scaler, counted, loss, max_norm):
    counted.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(counted.optimizer)
    parameters = [p for group in counted.param_groups for p in group["params"]]
    norm = torch.nn.utils.clip_grad_norm_(parameters, max_norm)
    scaler.step(counted.optimizer)
    counted.steps += int(0 < norm < math.inf)
    scaler.update()


# %% wrong: counts a step if the norm is finite, which it need not be
def counted_step(scaler, counted, loss, max_norm):
    counted.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(counted.optimizer)
    parameters = [p for group in counted.param_groups for p in group["params"]]
    norm = torch.nn.utils.clip_grad_norm_(parameters, max_norm)
    scaler.step(counted.optimizer)
    scaler.update()
    if math.isfinite(norm):
        counted.steps += 1


# %% wrong: counts unless the scale was halved, whatever the backoff factor
def counted_step(scaler, counted, loss, max_norm):
    counted.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(counted.optimizer)
    parameters = [p for group in counted.param_groups for p in group["params"]]
    torch.nn.utils.clip_grad_norm_(parameters, max_norm)
    before = scaler.get_scale()
    scaler.step(counted.optimizer)
    scaler.update()
    if scaler.get_scale() != before / 2:
        counted.steps += 1
