# %% wrong: clips before unscale_, against gradients that are too large by the scale
def train_scaled(
    model, optimizer, loss_function, micro_batches, steps, max_norm, scaler, scheduler
):
    import itertools

    import torch

    log = []
    optimizer.zero_grad()
    while window := list(itertools.islice(micro_batches, steps)):
        total = sum(len(inputs) for inputs, _ in window)
        mean = 0.0
        for inputs, targets in window:
            loss = loss_function(model(inputs), targets) * (len(inputs) / total)
            scaler.scale(loss).backward()
            mean += loss.item()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm).item()
        norm = norm / scaler.get_scale()
        scaler.unscale_(optimizer)
        rate, scale = optimizer.param_groups[0]["lr"], scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        stepped = scaler.get_scale() >= scale
        if stepped:
            scheduler.step()
        optimizer.zero_grad()
        log.append({"loss": mean, "norm": norm, "rate": rate, "stepped": stepped})
    return log


# %% wrong: the schedule steps after a skipped step, too
def train_scaled(
    model, optimizer, loss_function, micro_batches, steps, max_norm, scaler, scheduler
):
    import itertools

    import torch

    log = []
    optimizer.zero_grad()
    while window := list(itertools.islice(micro_batches, steps)):
        total = sum(len(inputs) for inputs, _ in window)
        mean = 0.0
        for inputs, targets in window:
            loss = loss_function(model(inputs), targets) * (len(inputs) / total)
            scaler.scale(loss).backward()
            mean += loss.item()
        scaler.unscale_(optimizer)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm).item()
        rate, scale = optimizer.param_groups[0]["lr"], scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        stepped = scaler.get_scale() >= scale
        scheduler.step()
        optimizer.zero_grad()
        log.append({"loss": mean, "norm": norm, "rate": rate, "stepped": stepped})
    return log


# %% wrong: takes a scale that grew for a skipped step
def train_scaled(
    model, optimizer, loss_function, micro_batches, steps, max_norm, scaler, scheduler
):
    import itertools

    import torch

    log = []
    optimizer.zero_grad()
    while window := list(itertools.islice(micro_batches, steps)):
        total = sum(len(inputs) for inputs, _ in window)
        mean = 0.0
        for inputs, targets in window:
            loss = loss_function(model(inputs), targets) * (len(inputs) / total)
            scaler.scale(loss).backward()
            mean += loss.item()
        scaler.unscale_(optimizer)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm).item()
        rate, scale = optimizer.param_groups[0]["lr"], scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        stepped = scaler.get_scale() == scale
        if stepped:
            scheduler.step()
        optimizer.zero_grad()
        log.append({"loss": mean, "norm": norm, "rate": rate, "stepped": stepped})
    return log


# %% wrong: the schedule counts micro-batches
def train_scaled(
    model, optimizer, loss_function, micro_batches, steps, max_norm, scaler, scheduler
):
    import itertools

    import torch

    log = []
    optimizer.zero_grad()
    while window := list(itertools.islice(micro_batches, steps)):
        total = sum(len(inputs) for inputs, _ in window)
        mean = 0.0
        for inputs, targets in window:
            loss = loss_function(model(inputs), targets) * (len(inputs) / total)
            scaler.scale(loss).backward()
            mean += loss.item()
        scaler.unscale_(optimizer)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm).item()
        rate, scale = optimizer.param_groups[0]["lr"], scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        stepped = scaler.get_scale() >= scale
        if stepped:
            for _ in window:
                scheduler.step()
        optimizer.zero_grad()
        log.append({"loss": mean, "norm": norm, "rate": rate, "stepped": stepped})
    return log


# %% wrong: never clears the gradients of a skipped step
def train_scaled(
    model, optimizer, loss_function, micro_batches, steps, max_norm, scaler, scheduler
):
    import itertools

    import torch

    log = []
    optimizer.zero_grad()
    while window := list(itertools.islice(micro_batches, steps)):
        total = sum(len(inputs) for inputs, _ in window)
        mean = 0.0
        for inputs, targets in window:
            loss = loss_function(model(inputs), targets) * (len(inputs) / total)
            scaler.scale(loss).backward()
            mean += loss.item()
        scaler.unscale_(optimizer)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm).item()
        rate, scale = optimizer.param_groups[0]["lr"], scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        stepped = scaler.get_scale() >= scale
        if stepped:
            scheduler.step()
            optimizer.zero_grad()
        log.append({"loss": mean, "norm": norm, "rate": rate, "stepped": stepped})
    return log


# %% wrong: a mean of means, divided by the window's full length
def train_scaled(
    model, optimizer, loss_function, micro_batches, steps, max_norm, scaler, scheduler
):
    import itertools

    import torch

    log = []
    optimizer.zero_grad()
    while window := list(itertools.islice(micro_batches, steps)):
        mean = 0.0
        for inputs, targets in window:
            loss = loss_function(model(inputs), targets) / steps
            scaler.scale(loss).backward()
            mean += loss.item()
        scaler.unscale_(optimizer)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm).item()
        rate, scale = optimizer.param_groups[0]["lr"], scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        stepped = scaler.get_scale() >= scale
        if stepped:
            scheduler.step()
        optimizer.zero_grad()
        log.append({"loss": mean, "norm": norm, "rate": rate, "stepped": stepped})
    return log


# %% wrong: logs the scaled loss, and the rate of the next step
def train_scaled(
    model, optimizer, loss_function, micro_batches, steps, max_norm, scaler, scheduler
):
    import itertools

    import torch

    log = []
    optimizer.zero_grad()
    while window := list(itertools.islice(micro_batches, steps)):
        total = sum(len(inputs) for inputs, _ in window)
        mean = 0.0
        for inputs, targets in window:
            loss = scaler.scale(loss_function(model(inputs), targets) * (len(inputs) / total))
            loss.backward()
            mean += loss.item()
        scaler.unscale_(optimizer)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm).item()
        scale = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        stepped = scaler.get_scale() >= scale
        if stepped:
            scheduler.step()
        rate = optimizer.param_groups[0]["lr"]
        optimizer.zero_grad()
        log.append({"loss": mean, "norm": norm, "rate": rate, "stepped": stepped})
    return log


# %% wrong: logs the norm from after the clipping
def train_scaled(
    model, optimizer, loss_function, micro_batches, steps, max_norm, scaler, scheduler
):
    import itertools

    import torch

    log = []
    optimizer.zero_grad()
    while window := list(itertools.islice(micro_batches, steps)):
        total = sum(len(inputs) for inputs, _ in window)
        mean = 0.0
        for inputs, targets in window:
            loss = loss_function(model(inputs), targets) * (len(inputs) / total)
            scaler.scale(loss).backward()
            mean += loss.item()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        norm = torch.cat([p.grad.flatten() for p in model.parameters()]).norm().item()
        rate, scale = optimizer.param_groups[0]["lr"], scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        stepped = scaler.get_scale() >= scale
        if stepped:
            scheduler.step()
        optimizer.zero_grad()
        log.append({"loss": mean, "norm": norm, "rate": rate, "stepped": stepped})
    return log


# %% wrong: clips each entry by value
def train_scaled(
    model, optimizer, loss_function, micro_batches, steps, max_norm, scaler, scheduler
):
    import itertools

    import torch

    log = []
    optimizer.zero_grad()
    while window := list(itertools.islice(micro_batches, steps)):
        total = sum(len(inputs) for inputs, _ in window)
        mean = 0.0
        for inputs, targets in window:
            loss = loss_function(model(inputs), targets) * (len(inputs) / total)
            scaler.scale(loss).backward()
            mean += loss.item()
        scaler.unscale_(optimizer)
        norm = torch.cat([p.grad.flatten() for p in model.parameters()]).norm().item()
        torch.nn.utils.clip_grad_value_(model.parameters(), max_norm)
        rate, scale = optimizer.param_groups[0]["lr"], scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        stepped = scaler.get_scale() >= scale
        if stepped:
            scheduler.step()
        optimizer.zero_grad()
        log.append({"loss": mean, "norm": norm, "rate": rate, "stepped": stepped})
    return log


# %% wrong: puts the rows of a window together, so that nothing is accumulated
def train_scaled(
    model, optimizer, loss_function, micro_batches, steps, max_norm, scaler, scheduler
):
    import itertools

    import torch

    log = []
    optimizer.zero_grad()
    while window := list(itertools.islice(micro_batches, steps)):
        inputs, targets = (torch.cat(parts) for parts in zip(*window, strict=True))
        loss = loss_function(model(inputs), targets)
        scaler.scale(loss).backward()
        mean = loss.item()
        scaler.unscale_(optimizer)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm).item()
        rate, scale = optimizer.param_groups[0]["lr"], scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        stepped = scaler.get_scale() >= scale
        if stepped:
            scheduler.step()
        optimizer.zero_grad()
        log.append({"loss": mean, "norm": norm, "rate": rate, "stepped": stepped})
    return log


# %% wrong: one backward pass at the end of a window, for which all graphs wait
def train_scaled(
    model, optimizer, loss_function, micro_batches, steps, max_norm, scaler, scheduler
):
    import itertools

    import torch

    log = []
    optimizer.zero_grad()
    while window := list(itertools.islice(micro_batches, steps)):
        total = sum(len(inputs) for inputs, _ in window)
        loss = sum(loss_function(model(x), y) * (len(x) / total) for x, y in window)
        scaler.scale(loss).backward()
        mean = loss.item()
        scaler.unscale_(optimizer)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm).item()
        rate, scale = optimizer.param_groups[0]["lr"], scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        stepped = scaler.get_scale() >= scale
        if stepped:
            scheduler.step()
        optimizer.zero_grad()
        log.append({"loss": mean, "norm": norm, "rate": rate, "stepped": stepped})
    return log


# %% wrong: gradients are cleared after the step only, so old ones reach the first window
def train_scaled(
    model, optimizer, loss_function, micro_batches, steps, max_norm, scaler, scheduler
):
    import itertools

    import torch

    log = []
    while window := list(itertools.islice(micro_batches, steps)):
        total = sum(len(inputs) for inputs, _ in window)
        mean = 0.0
        for inputs, targets in window:
            loss = loss_function(model(inputs), targets) * (len(inputs) / total)
            scaler.scale(loss).backward()
            mean += loss.item()
        scaler.unscale_(optimizer)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm).item()
        rate, scale = optimizer.param_groups[0]["lr"], scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        stepped = scaler.get_scale() >= scale
        if stepped:
            scheduler.step()
        optimizer.zero_grad()
        log.append({"loss": mean, "norm": norm, "rate": rate, "stepped": stepped})
    return log


# %% wrong: switches the model to evaluation
def train_scaled(
    model, optimizer, loss_function, micro_batches, steps, max_norm, scaler, scheduler
):
    import itertools

    import torch

    log = []
    model.eval()
    optimizer.zero_grad()
    while window := list(itertools.islice(micro_batches, steps)):
        total = sum(len(inputs) for inputs, _ in window)
        mean = 0.0
        for inputs, targets in window:
            loss = loss_function(model(inputs), targets) * (len(inputs) / total)
            scaler.scale(loss).backward()
            mean += loss.item()
        scaler.unscale_(optimizer)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm).item()
        rate, scale = optimizer.param_groups[0]["lr"], scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        stepped = scaler.get_scale() >= scale
        if stepped:
            scheduler.step()
        optimizer.zero_grad()
        log.append({"loss": mean, "norm": norm, "rate": rate, "stepped": stepped})
    return log


# %% wrong: clips each group of parameters by itself
def train_scaled(
    model, optimizer, loss_function, micro_batches, steps, max_norm, scaler, scheduler
):
    import itertools

    import torch

    log = []
    optimizer.zero_grad()
    while window := list(itertools.islice(micro_batches, steps)):
        total = sum(len(inputs) for inputs, _ in window)
        mean = 0.0
        for inputs, targets in window:
            loss = loss_function(model(inputs), targets) * (len(inputs) / total)
            scaler.scale(loss).backward()
            mean += loss.item()
        scaler.unscale_(optimizer)
        norm = torch.cat([p.grad.flatten() for p in model.parameters()]).norm().item()
        for group in optimizer.param_groups:
            torch.nn.utils.clip_grad_norm_(group["params"], max_norm)
        rate, scale = optimizer.param_groups[0]["lr"], scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        stepped = scaler.get_scale() >= scale
        if stepped:
            scheduler.step()
        optimizer.zero_grad()
        log.append({"loss": mean, "norm": norm, "rate": rate, "stepped": stepped})
    return log


# %% wrong: no scaling at all, and gradient descent by hand
def train_scaled(
    model, optimizer, loss_function, micro_batches, steps, max_norm, scaler, scheduler
):
    import itertools

    import torch

    log = []
    optimizer.zero_grad()
    while window := list(itertools.islice(micro_batches, steps)):
        total = sum(len(inputs) for inputs, _ in window)
        mean = 0.0
        for inputs, targets in window:
            loss = loss_function(model(inputs), targets) * (len(inputs) / total)
            loss.backward()
            mean += loss.item()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm).item()
        rate, stepped = optimizer.param_groups[0]["lr"], norm < float("inf")
        if stepped:
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter -= rate * parameter.grad
            scheduler.step()
        optimizer.zero_grad()
        log.append({"loss": mean, "norm": norm, "rate": rate, "stepped": stepped})
    return log


# %% right: the clipping of the exercise before, and a skip told by the norm
def train_scaled(
    model, optimizer, loss_function, micro_batches, steps, max_norm, scaler, scheduler
):
    import math

    log, window = [], []

    def close():
        optimizer.zero_grad()
        rows = [len(targets) for _, targets in window]
        losses = []
        for (inputs, targets), count in zip(window, rows, strict=True):
            loss = loss_function(model(inputs), targets)
            scaler.scale(loss * count).backward()
            losses.append(loss.detach() * count)
        scaler.unscale_(optimizer)
        for parameter in model.parameters():
            parameter.grad /= sum(rows)
        parameters = list(model.parameters())
        clipped, norm = clip_by_global_norm([p.grad for p in parameters], max_norm)
        for parameter, slope in zip(parameters, clipped, strict=True):
            parameter.grad = slope
        entry = {"loss": (sum(losses) / sum(rows)).item(), "norm": norm}
        entry["rate"] = scheduler.get_last_lr()[0]
        scaler.step(optimizer)
        scaler.update()
        entry["stepped"] = math.isfinite(norm)
        if entry["stepped"]:
            scheduler.step()
        log.append(entry)
        window.clear()

    for pair in micro_batches:
        window.append(pair)
        if len(window) == steps:
            close()
    if window:
        close()
    return log


# %% right: means of a window by running weights, scale noted before the window
def train_scaled(
    model, optimizer, loss_function, micro_batches, steps, max_norm, scaler, scheduler
):
    import torch

    batches, log = iter(micro_batches), []
    while window := list(itertools.islice(batches, steps)):
        model.zero_grad()
        scale = scaler.get_scale()
        rows = torch.tensor([float(len(x)) for x, _ in window])
        shares = rows / rows.sum()
        mean = 0.0
        for share, (x, y) in zip(shares, window, strict=True):
            part = share * loss_function(model(x), y)
            mean = mean + part.detach()
            scaler.scale(part).backward()
        scaler.unscale_(optimizer)
        norm = torch.nn.utils.clip_grad_norm_(list(model.parameters()), max_norm)
        rate = float(optimizer.param_groups[0]["lr"])
        scaler.step(optimizer)
        scaler.update()
        skipped = scaler.get_scale() < scale
        if not skipped:
            scheduler.step()
        log.append({"loss": float(mean), "norm": float(norm), "rate": rate, "stepped": not skipped})
    return log


# %% right: torch tells the optimizer's real steps through a hook
def train_scaled(
    model, optimizer, loss_function, micro_batches, steps, max_norm, scaler, scheduler
):
    import itertools

    import torch

    log = []
    optimizer.zero_grad()
    while window := list(itertools.islice(micro_batches, steps)):
        total = sum(len(inputs) for inputs, _ in window)
        mean = 0.0
        for inputs, targets in window:
            loss = loss_function(model(inputs), targets) * (len(inputs) / total)
            scaler.scale(loss).backward()
            mean += loss.item()
        scaler.unscale_(optimizer)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm).item()
        rate, made = optimizer.param_groups[0]["lr"], []
        handle = optimizer.register_step_post_hook(lambda *_, made=made: made.append(True))
        scaler.step(optimizer)
        scaler.update()
        handle.remove()
        stepped = bool(made)
        if stepped:
            scheduler.step()
        optimizer.zero_grad()
        log.append({"loss": mean, "norm": norm, "rate": rate, "stepped": stepped})
    return log


# %% wrong: reads the scale from the state_dict, which is empty where the scaler is disabled
def train_scaled(
    model, optimizer, loss_function, micro_batches, steps, max_norm, scaler, scheduler
):
    """Make one scaled, clipped step per window; return a dict of what happened in each."""
    log = []
    optimizer.zero_grad()
    while window := list(itertools.islice(micro_batches, steps)):
        total = sum(len(inputs) for inputs, _ in window)
        mean = 0.0
        for inputs, targets in window:
            loss = loss_function(model(inputs), targets) * (len(inputs) / total)
            scaler.scale(loss).backward()
            mean += loss.item()
        scaler.unscale_(optimizer)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm).item()
        rate, scale = optimizer.param_groups[0]["lr"], scaler.state_dict()["scale"]
        scaler.step(optimizer)
        scaler.update()
        stepped = scaler.state_dict()["scale"] >= scale
        if stepped:
            scheduler.step()
        optimizer.zero_grad()
        log.append({"loss": mean, "norm": norm, "rate": rate, "stepped": stepped})
    return log


# %% wrong: the loss from a second pass without gradients
def train_scaled(
    model, optimizer, loss_function, micro_batches, steps, max_norm, scaler, scheduler
):
    log = []

    while w := list(itertools.islice(micro_batches, steps)):
        optimizer.zero_grad()
        with torch.no_grad():
            lg = sum(loss_function(model(x), y).item() * len(x) for x, y in w) / sum(
                len(x) for x, _ in w
            )
        whole = sum(len(x) for x, _ in w)
        t = 0.0
        for x, y in w:
            loss = loss_function(model(x), y) * (len(x) / whole)
            scaler.scale(loss).backward()
            t += loss.item()
        scaler.unscale_(optimizer)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm).item()
        rate = optimizer.param_groups[0]["lr"]
        before = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        stepped = not scaler.get_scale() < before
        if stepped:
            scheduler.step()
        log.append({"loss": lg, "norm": norm, "rate": rate, "stepped": stepped})
    return log


# %% wrong: leaves the model in evaluation mode
def train_scaled(
    model, optimizer, loss_function, micro_batches, steps, max_norm, scaler, scheduler
):
    log = []

    while w := list(itertools.islice(micro_batches, steps)):
        optimizer.zero_grad()
        whole = sum(len(x) for x, _ in w)
        t = 0.0
        for x, y in w:
            loss = loss_function(model(x), y) * (len(x) / whole)
            scaler.scale(loss).backward()
            t += loss.item()
        scaler.unscale_(optimizer)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm).item()
        rate = optimizer.param_groups[0]["lr"]
        before = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        stepped = not scaler.get_scale() < before
        if stepped:
            scheduler.step()
        log.append({"loss": t, "norm": norm, "rate": rate, "stepped": stepped})
    model.eval()
    return log


# %% wrong: reads the whole stream first
def train_scaled(
    model, optimizer, loss_function, micro_batches, steps, max_norm, scaler, scheduler
):
    log = []
    micro_batches = iter(list(micro_batches))

    while w := list(itertools.islice(micro_batches, steps)):
        optimizer.zero_grad()
        whole = sum(len(x) for x, _ in w)
        t = 0.0
        for x, y in w:
            loss = loss_function(model(x), y) * (len(x) / whole)
            scaler.scale(loss).backward()
            t += loss.item()
        scaler.unscale_(optimizer)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm).item()
        rate = optimizer.param_groups[0]["lr"]
        before = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        stepped = not scaler.get_scale() < before
        if stepped:
            scheduler.step()
        log.append({"loss": t, "norm": norm, "rate": rate, "stepped": stepped})
    return log
