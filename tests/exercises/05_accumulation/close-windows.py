# %% wrong: drops the last, short window
def train_epoch(model, optimizer, loss_function, micro_batches, steps):
    losses, window = [], []
    for pair in micro_batches:
        window.append(pair)
        if len(window) == steps:
            losses.append(accumulate(model, loss_function, window))
            optimizer.step()
            window = []
    return losses


# %% wrong: divides by steps, also in the short window, and all micro-batches alike
def train_epoch(model, optimizer, loss_function, micro_batches, steps):
    losses, current, count = [], 0.0, 0
    optimizer.zero_grad()
    for inputs, targets in micro_batches:
        loss = loss_function(model(inputs), targets) / steps
        loss.backward()
        current, count = current + loss.item(), count + 1
        if count == steps:
            optimizer.step()
            optimizer.zero_grad()
            losses.append(current)
            current, count = 0.0, 0
    if count:
        optimizer.step()
        losses.append(current)
    return losses


# %% wrong: the mean of means in each window, by the number that is there
def train_epoch(model, optimizer, loss_function, micro_batches, steps):
    import itertools

    losses = []
    while window := list(itertools.islice(micro_batches, steps)):
        optimizer.zero_grad()
        current = 0.0
        for inputs, targets in window:
            loss = loss_function(model(inputs), targets) / len(window)
            loss.backward()
            current += loss.item()
        optimizer.step()
        losses.append(current)
    return losses


# %% wrong: the gradients are never cleared, each window adds to the last
def train_epoch(model, optimizer, loss_function, micro_batches, steps):
    import itertools

    losses = []
    while window := list(itertools.islice(micro_batches, steps)):
        total = sum(len(inputs) for inputs, _ in window)
        current = 0.0
        for inputs, targets in window:
            loss = loss_function(model(inputs), targets) * len(inputs) / total
            loss.backward()
            current += loss.item()
        optimizer.step()
        losses.append(current)
    return losses


# %% wrong: steps once more at the end, also when no window is open
def train_epoch(model, optimizer, loss_function, micro_batches, steps):
    losses, window = [], []
    for pair in micro_batches:
        window.append(pair)
        if len(window) == steps:
            losses.append(accumulate(model, loss_function, window))
            optimizer.step()
            window = []
    if window:
        losses.append(accumulate(model, loss_function, window))
    optimizer.step()
    return losses


# %% wrong: a step for each micro-batch
def train_epoch(model, optimizer, loss_function, micro_batches, steps):
    losses = []
    for pair in micro_batches:
        losses.append(accumulate(model, loss_function, [pair]))
        optimizer.step()
    return losses


# %% wrong: gradients are cleared after the step only, so old ones reach the first window
def train_epoch(model, optimizer, loss_function, micro_batches, steps):
    import itertools

    losses = []
    while window := list(itertools.islice(micro_batches, steps)):
        total = sum(len(inputs) for inputs, _ in window)
        current = 0.0
        for inputs, targets in window:
            loss = loss_function(model(inputs), targets) * len(inputs) / total
            loss.backward()
            current += loss.item()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(current)
    return losses


# %% wrong: puts the rows of a window together, so that nothing is accumulated
def train_epoch(model, optimizer, loss_function, micro_batches, steps):
    import itertools

    import torch

    losses = []
    while window := list(itertools.islice(micro_batches, steps)):
        inputs, targets = (torch.cat(parts) for parts in zip(*window, strict=True))
        optimizer.zero_grad()
        loss = loss_function(model(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


# %% wrong: one backward pass at the end of a window, for which all graphs wait
def train_epoch(model, optimizer, loss_function, micro_batches, steps):
    import itertools

    losses = []
    while window := list(itertools.islice(micro_batches, steps)):
        total = sum(len(inputs) for inputs, _ in window)
        optimizer.zero_grad()
        loss = sum(loss_function(model(x), y) * len(x) / total for x, y in window)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


# %% wrong: gradient descent by hand, the optimizer is never asked
def train_epoch(model, optimizer, loss_function, micro_batches, steps):
    import itertools

    import torch

    losses = []
    while window := list(itertools.islice(micro_batches, steps)):
        losses.append(accumulate(model, loss_function, window))
        with torch.no_grad():
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    parameter -= group["lr"] * parameter.grad
    return losses


# %% wrong: one more step at the end, with gradients of zero, which momentum and decay use
def train_epoch(model, optimizer, loss_function, micro_batches, steps):
    import itertools

    losses = []
    while window := list(itertools.islice(micro_batches, steps)):
        losses.append(accumulate(model, loss_function, window))
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
    optimizer.step()
    return losses


# %% wrong: switches the model to evaluation
def train_epoch(model, optimizer, loss_function, micro_batches, steps):
    import itertools

    model.eval()
    losses = []
    while window := list(itertools.islice(micro_batches, steps)):
        losses.append(accumulate(model, loss_function, window))
        optimizer.step()
    return losses


# %% right: a list that is filled and closed, and a last one behind the loop
def train_epoch(model, optimizer, loss_function, micro_batches, steps):
    losses, window = [], []

    def close():
        losses.append(accumulate(model, loss_function, window))
        optimizer.step()
        window.clear()

    for pair in micro_batches:
        window.append(pair)
        if len(window) == steps:
            close()
    if window:
        close()
    return losses


# %% right: sums without looking ahead, divided by the window's rows before the step
def train_epoch(model, optimizer, loss_function, micro_batches, steps):
    losses = []
    optimizer.zero_grad()
    summed, rows, count = 0.0, 0, 0
    pair = next(micro_batches, None)
    while pair is not None:
        inputs, targets = pair
        loss = loss_function(model(inputs), targets) * len(inputs)
        loss.backward()
        summed, rows, count = summed + loss.item(), rows + len(inputs), count + 1
        pair = next(micro_batches, None)
        if count == steps or pair is None:
            for parameter in model.parameters():
                parameter.grad /= rows
            optimizer.step()
            optimizer.zero_grad()
            losses.append(summed / rows)
            summed, rows, count = 0.0, 0, 0
    return losses


# %% wrong: the loss from a second pass without gradients
def train_epoch(model, optimizer, loss_function, micro_batches, steps):
    losses = []
    while window := list(itertools.islice(micro_batches, steps)):
        total = sum(len(inputs) for inputs, _ in window)
        optimizer.zero_grad()
        for inputs, targets in window:
            (loss_function(model(inputs), targets) * len(inputs) / total).backward()
        with torch.no_grad():
            sums = [loss_function(model(x), y).item() * len(x) for x, y in window]
        losses.append(sum(sums) / total)
        optimizer.step()
    return losses


# %% wrong: a loss of 0 where nothing comes
def train_epoch(model, optimizer, loss_function, micro_batches, steps):
    """Make one step per window of ``steps`` micro-batches; return the mean loss of each window."""
    losses = []
    while window := list(itertools.islice(micro_batches, steps)):
        losses.append(accumulate(model, loss_function, window))
        optimizer.step()
    return losses or [0.0]


# %% wrong: reads the whole stream before the first window
def train_epoch(model, optimizer, loss_function, micro_batches, steps):
    pairs = list(micro_batches)
    losses = []
    for start in range(0, len(pairs), steps):
        losses.append(accumulate(model, loss_function, pairs[start : start + steps]))
        optimizer.step()
    return losses


# %% wrong: a forward pass of the pair that was read ahead
def train_epoch(model, optimizer, loss_function, micro_batches, steps):
    def one(window):
        whole = sum(len(x) for x, _ in window)
        t = 0.0
        optimizer.zero_grad()
        for x, y in window:
            loss = loss_function(model(x), y) * len(x) / whole
            loss.backward()
            t += loss.item()
        return t

    out = []
    nxt = next(micro_batches, None)
    while nxt is not None:
        w = [nxt, *itertools.islice(micro_batches, steps - 1)]
        nxt = next(micro_batches, None)
        out.append(one(w))
        if nxt is not None:
            with torch.no_grad():
                model(nxt[0])
        optimizer.step()
    return out


# %% wrong: leaves the model in evaluation mode
def train_epoch(model, optimizer, loss_function, micro_batches, steps):
    def one(window):
        whole = sum(len(x) for x, _ in window)
        t = 0.0
        optimizer.zero_grad()
        for x, y in window:
            loss = loss_function(model(x), y) * len(x) / whole
            loss.backward()
            t += loss.item()
        return t

    out = []
    while w := list(itertools.islice(micro_batches, steps)):
        out.append(one(w))
        optimizer.step()
    model.eval()
    return out


# %% wrong: no window of a single pair
def train_epoch(model, optimizer, loss_function, micro_batches, steps):
    def one(window):
        whole = sum(len(x) for x, _ in window)
        t = 0.0
        optimizer.zero_grad()
        for x, y in window:
            loss = loss_function(model(x), y) * len(x) / whole
            loss.backward()
            t += loss.item()
        return t

    out = []
    w = []
    for p in micro_batches:
        w.append(p)
        if len(w) >= max(2, steps):
            out.append(one(w))
            optimizer.step()
            w = []
    if w:
        out.append(one(w))
        optimizer.step()
    return out


# %% right: by torch.func.grad_and_value
def train_epoch(model, optimizer, loss_function, micro_batches, steps):
    from torch.func import functional_call, grad_and_value

    def f(params, buffers, x, y):
        buffers = {k: b.clone() for k, b in buffers.items()}
        return loss_function(functional_call(model, (params, buffers), (x,)), y), buffers

    out = []
    while w := list(itertools.islice(micro_batches, steps)):
        whole = sum(len(x) for x, _ in w)
        acc = {k: torch.zeros_like(p) for k, p in model.named_parameters()}
        t = 0.0
        for x, y in w:
            params = {k: p.detach() for k, p in model.named_parameters()}
            g, (loss, new) = grad_and_value(f, has_aux=True)(
                params, dict(model.named_buffers()), x, y
            )
            for k in acc:
                acc[k] += g[k] * (len(x) / whole)
            for k, b in model.named_buffers():
                b.copy_(new[k])
            t += loss.item() * len(x) / whole
        for k, p in model.named_parameters():
            p.grad = acc[k]
        optimizer.step()
        out.append(t)
    return out
