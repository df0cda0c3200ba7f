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


# %% right: the loss from a second pass without gradients
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
