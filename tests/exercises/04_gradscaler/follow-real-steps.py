# %% wrong: every scheduler steps in every iteration
def follow_steps(scaler, optimizers, schedulers):
    for optimizer in optimizers:
        scaler.step(optimizer)
    scaler.update()
    for scheduler in schedulers:
        scheduler.step()


# %% wrong: asks the scale, which is one for all
def follow_steps(scaler, optimizers, schedulers):
    before = scaler.get_scale()
    for optimizer in optimizers:
        scaler.step(optimizer)
    scaler.update()
    if scaler.get_scale() >= before:
        for scheduler in schedulers:
            scheduler.step()


# %% wrong: updates once for each optimizer, to ask the scale about each
def follow_steps(scaler, optimizers, schedulers):
    for optimizer, scheduler in zip(optimizers, schedulers, strict=True):
        before = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        if scaler.get_scale() >= before:
            scheduler.step()


# %% wrong: a changed scale counts as a skip, also when it has grown
def follow_steps(scaler, optimizers, schedulers):
    import torch

    before = scaler.get_scale()
    finite = []
    for optimizer in optimizers:
        scaler.unscale_(optimizer)
        grads = [p.grad for group in optimizer.param_groups for p in group["params"]]
        finite.append(all(bool(torch.isfinite(grad).all()) for grad in grads))
        scaler.step(optimizer)
    scaler.update()
    if scaler.get_scale() == before or not all(finite):
        for ok, scheduler in zip(finite, schedulers, strict=True):
            if ok:
                scheduler.step()


# %% wrong: looks for nan, and forgets inf
def follow_steps(scaler, optimizers, schedulers):
    for optimizer, scheduler in zip(optimizers, schedulers, strict=True):
        scaler.unscale_(optimizer)
        grads = [p.grad for group in optimizer.param_groups for p in group["params"]]
        scaler.step(optimizer)
        if not any(bool(grad.isnan().any()) for grad in grads):
            scheduler.step()
    scaler.update()


# %% wrong: takes a weight that did not move for a skipped step
def follow_steps(scaler, optimizers, schedulers):
    import torch

    for optimizer, scheduler in zip(optimizers, schedulers, strict=True):
        weights = [p for group in optimizer.param_groups for p in group["params"]]
        before = [w.detach().clone() for w in weights]
        scaler.step(optimizer)
        if any(not torch.equal(w, b) for w, b in zip(weights, before, strict=True)):
            scheduler.step()
    scaler.update()


# %% wrong: steps the optimizers itself, past the scaler, and never unscales
def follow_steps(scaler, optimizers, schedulers):
    import torch

    for optimizer, scheduler in zip(optimizers, schedulers, strict=True):
        grads = [p.grad for group in optimizer.param_groups for p in group["params"]]
        if all(bool(torch.isfinite(grad).all()) for grad in grads):
            optimizer.step()
            scheduler.step()
    scaler.update()


# %% wrong: if one optimizer is skipped, nobody steps
def follow_steps(scaler, optimizers, schedulers):
    import torch

    for optimizer in optimizers:
        scaler.unscale_(optimizer)
    params = [p for o in optimizers for group in o.param_groups for p in group["params"]]
    if all(bool(torch.isfinite(p.grad).all()) for p in params):
        for optimizer, scheduler in zip(optimizers, schedulers, strict=True):
            scaler.step(optimizer)
            scheduler.step()
    scaler.update()


# %% wrong: the schedulers step before their optimizers
def follow_steps(scaler, optimizers, schedulers):
    import torch

    for optimizer, scheduler in zip(optimizers, schedulers, strict=True):
        scaler.unscale_(optimizer)
        grads = [p.grad for group in optimizer.param_groups for p in group["params"]]
        if all(bool(torch.isfinite(grad).all()) for grad in grads):
            scheduler.step()
        scaler.step(optimizer)
    scaler.update()


# %% wrong: forgets the update
def follow_steps(scaler, optimizers, schedulers):
    import torch

    for optimizer, scheduler in zip(optimizers, schedulers, strict=True):
        scaler.unscale_(optimizer)
        grads = [p.grad for group in optimizer.param_groups for p in group["params"]]
        scaler.step(optimizer)
        if all(bool(torch.isfinite(grad).all()) for grad in grads):
            scheduler.step()


# %% right: looks at the gradients after unscale_
def follow_steps(scaler, optimizers, schedulers):
    import torch

    for optimizer, scheduler in zip(optimizers, schedulers, strict=True):
        scaler.unscale_(optimizer)
        grads = [p.grad for group in optimizer.param_groups for p in group["params"]]
        finite = all(bool(torch.isfinite(grad).all()) for grad in grads if grad is not None)
        scaler.step(optimizer)
        if finite:
            scheduler.step()
    scaler.update()


# %% right: looks at the scaled gradients before, and steps all schedulers at the end
def follow_steps(scaler, optimizers, schedulers):
    will_step = []
    for optimizer in optimizers:
        total = 0.0
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    total += (p.grad * 0.0).sum().item()
        will_step.append(total == 0.0)
    for optimizer in optimizers:
        scaler.step(optimizer)
    scaler.update()
    for made, scheduler in zip(will_step, schedulers, strict=True):
        if made:
            scheduler.step()


# %% right: a hook for each, which stays until the loop is done
def follow_steps(scaler, optimizers, schedulers):
    made = set()
    handles = [
        optimizer.register_step_post_hook(lambda o, args, kwargs: made.add(id(o)))
        for optimizer in optimizers
    ]
    for optimizer in optimizers:
        scaler.step(optimizer)
    for handle in handles:
        handle.remove()
    scaler.update()
    for optimizer, scheduler in zip(optimizers, schedulers, strict=True):
        if id(optimizer) in made:
            scheduler.step()


# %% wrong: looks only at the first group's gradients
def follow_steps(scaler, optimizers, schedulers):
    for optimizer, scheduler in zip(optimizers, schedulers, strict=True):
        scaler.unscale_(optimizer)
        made = all(torch.isfinite(p.grad).all() for p in optimizer.param_groups[0]["params"])
        scaler.step(optimizer)
        if made:
            scheduler.step()
    scaler.update()


# %% wrong: every scheduler steps as soon as one optimizer did
def follow_steps(scaler, optimizers, schedulers):
    made = []
    handles = [o.register_step_post_hook(lambda *_: made.append(1)) for o in optimizers]
    for optimizer in optimizers:
        scaler.step(optimizer)
    for handle in handles:
        handle.remove()
    if made:
        for scheduler in schedulers:
            scheduler.step()
    scaler.update()


# %% wrong: looks only at the first parameter of each group
def follow_steps(scaler, optimizers, schedulers):
    for optimizer, scheduler in zip(optimizers, schedulers, strict=True):
        scaler.unscale_(optimizer)
        params = [p for group in optimizer.param_groups for p in group["params"][:1]]
        made = all(torch.isfinite(p.grad).all() for p in params)
        scaler.step(optimizer)
        if made:
            scheduler.step()
    scaler.update()


# %% wrong: one more hook in each iteration, and none is removed
def follow_steps(scaler, optimizers, schedulers):
    for optimizer, scheduler in zip(optimizers, schedulers, strict=True):
        made = []
        optimizer.register_step_post_hook(lambda *_, made=made: made.append(True))
        scaler.step(optimizer)
        if made:
            scheduler.step()
    scaler.update()


# %% wrong: the hook stays after a skipped step
def follow_steps(scaler, optimizers, schedulers):
    for optimizer, scheduler in zip(optimizers, schedulers, strict=True):
        made = []
        handle = optimizer.register_step_post_hook(lambda *_, made=made: made.append(True))
        scaler.step(optimizer)
        if made:
            scheduler.step()
            handle.remove()
    scaler.update()


# %% wrong: empties the lists, which are empty in the next iteration
def follow_steps(scaler, optimizers, schedulers):
    while optimizers:
        optimizer, scheduler = optimizers.pop(0), schedulers.pop(0)
        scaler.unscale_(optimizer)
        params = [p for group in optimizer.param_groups for p in group["params"]]
        made = all(torch.isfinite(p.grad).all() for p in params)
        scaler.step(optimizer)
        if made:
            scheduler.step()
    scaler.update()


# %% wrong: takes a norm that overflows for an inf
def follow_steps(scaler, optimizers, schedulers):
    good = []
    for optimizer in optimizers:
        scaler.unscale_(optimizer)
        grads = [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
        good.append(all(math.isfinite(x.norm().item()) for x in grads))
        scaler.step(optimizer)
    scaler.update()
    for ok, scheduler in zip(good, schedulers, strict=True):
        if ok:
            scheduler.step()


# %% wrong: takes a sum that overflows for an inf
def follow_steps(scaler, optimizers, schedulers):
    good = []
    for optimizer in optimizers:
        scaler.unscale_(optimizer)
        grads = [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
        good.append(all(math.isfinite(x.sum().item()) for x in grads))
        scaler.step(optimizer)
    scaler.update()
    for ok, scheduler in zip(good, schedulers, strict=True):
        if ok:
            scheduler.step()


# %% wrong: halves the scale itself after a skip, whatever the backoff factor
def follow_steps(scaler, optimizers, schedulers):
    skipped = False
    for optimizer, scheduler in zip(optimizers, schedulers, strict=True):
        scaler.unscale_(optimizer)
        grads = [p.grad for group in optimizer.param_groups for p in group["params"]]
        finite = all(bool(torch.isfinite(grad).all()) for grad in grads)
        scaler.step(optimizer)
        if finite:
            scheduler.step()
        skipped = skipped or not finite
    scaler.update(scaler.get_scale() / 2 if skipped else None)
