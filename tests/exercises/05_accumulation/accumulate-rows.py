# %% wrong: divides by the number of micro-batches, whatever their sizes
def accumulate(model, loss_function, micro_batches):
    model.zero_grad()
    mean = 0.0
    for inputs, targets in micro_batches:
        loss = loss_function(model(inputs), targets) / len(micro_batches)
        loss.backward()
        mean += loss.item()
    return mean


# %% wrong: does not divide at all, so the gradient is as many times too long
def accumulate(model, loss_function, micro_batches):
    model.zero_grad()
    losses = []
    for inputs, targets in micro_batches:
        loss = loss_function(model(inputs), targets)
        loss.backward()
        losses.append(loss.item())
    return sum(losses) / len(losses)


# %% wrong: divides the mean by the rows of all, without multiplying by its own
def accumulate(model, loss_function, micro_batches):
    total = sum(len(inputs) for inputs, _ in micro_batches)
    model.zero_grad()
    mean = 0.0
    for inputs, targets in micro_batches:
        loss = loss_function(model(inputs), targets) / total
        loss.backward()
        mean += loss.item()
    return mean


# %% wrong: clears the gradients in the loop, so only the last micro-batch is left
def accumulate(model, loss_function, micro_batches):
    total = sum(len(inputs) for inputs, _ in micro_batches)
    mean = 0.0
    for inputs, targets in micro_batches:
        model.zero_grad()
        loss = loss_function(model(inputs), targets) * len(inputs) / total
        loss.backward()
        mean += loss.item()
    return mean


# %% wrong: never clears the gradients that lay there
def accumulate(model, loss_function, micro_batches):
    total = sum(len(inputs) for inputs, _ in micro_batches)
    mean = 0.0
    for inputs, targets in micro_batches:
        loss = loss_function(model(inputs), targets) * len(inputs) / total
        loss.backward()
        mean += loss.item()
    return mean


# %% wrong: adds up the losses and goes back once, so all graphs wait
def accumulate(model, loss_function, micro_batches):
    total = sum(len(inputs) for inputs, _ in micro_batches)
    model.zero_grad()
    loss = sum(
        loss_function(model(inputs), targets) * len(inputs) / total
        for inputs, targets in micro_batches
    )
    loss.backward()
    return loss.item()


# %% wrong: puts all rows together, which is what memory does not allow
def accumulate(model, loss_function, micro_batches):
    import torch

    inputs, targets = (torch.cat(parts) for parts in zip(*micro_batches, strict=True))
    model.zero_grad()
    loss = loss_function(model(inputs), targets)
    loss.backward()
    return loss.item()


# %% wrong: the gradient is weighted, the loss that is returned is a mean of means
def accumulate(model, loss_function, micro_batches):
    total = sum(len(inputs) for inputs, _ in micro_batches)
    model.zero_grad()
    losses = []
    for inputs, targets in micro_batches:
        loss = loss_function(model(inputs), targets)
        (loss * len(inputs) / total).backward()
        losses.append(loss.item())
    return sum(losses) / len(losses)


# %% wrong: takes the cross entropy, whatever loss function is handed over
def accumulate(model, loss_function, micro_batches):
    from torch.nn import functional

    total = sum(len(inputs) for inputs, _ in micro_batches)
    model.zero_grad()
    mean = 0.0
    for inputs, targets in micro_batches:
        loss = functional.cross_entropy(model(inputs), targets) * (len(inputs) / total)
        loss.backward()
        mean += loss.item()
    return mean


# %% wrong: switches the model to evaluation
def accumulate(model, loss_function, micro_batches):
    total = sum(len(inputs) for inputs, _ in micro_batches)
    model.eval()
    model.zero_grad()
    mean = 0.0
    for inputs, targets in micro_batches:
        loss = loss_function(model(inputs), targets) * (len(inputs) / total)
        loss.backward()
        mean += loss.item()
    return mean


# %% wrong: puts the model into training mode, whatever it was in
def accumulate(model, loss_function, micro_batches):
    model.train()
    total = sum(len(inputs) for inputs, _ in micro_batches)
    model.zero_grad()
    mean = 0.0
    for inputs, targets in micro_batches:
        loss = loss_function(model(inputs), targets) * (len(inputs) / total)
        loss.backward()
        mean += loss.item()
    return mean


# %% right: sums first, and divides every gradient at the end
def accumulate(model, loss_function, micro_batches):
    import torch

    for parameter in model.parameters():
        parameter.grad = None
    rows, summed = 0, 0.0
    for inputs, targets in micro_batches:
        loss = loss_function(model(inputs), targets) * inputs.shape[0]
        loss.backward()
        rows += inputs.shape[0]
        summed += loss.item()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.grad /= rows
    return summed / rows


# %% right: gradients by autograd.grad, added up in float64 by hand
def accumulate(model, loss_function, micro_batches):
    import torch

    parameters = list(model.parameters())
    sums = [torch.zeros_like(parameter, dtype=torch.float64) for parameter in parameters]
    total = sum(len(targets) for _, targets in micro_batches)
    mean = torch.zeros((), dtype=torch.float64)
    for inputs, targets in micro_batches:
        share = len(targets) / total
        loss = loss_function(model(inputs), targets)
        slopes = torch.autograd.grad(loss, parameters)
        for number, slope in enumerate(slopes):
            sums[number] += share * slope.double()
        mean += share * loss.detach().double()
    for parameter, slope in zip(parameters, sums, strict=True):
        parameter.grad = slope.to(parameter.dtype)
    return float(mean)


# %% right: a running mean, so that the total need not be known
def accumulate(model, loss_function, micro_batches):
    model.zero_grad(set_to_none=False)
    seen, mean = 0, 0.0
    for inputs, targets in micro_batches:
        before, seen = seen, seen + len(inputs)
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.grad.mul_(before / seen)
        loss = loss_function(model(inputs), targets)
        loss.backward(loss.new_tensor(len(inputs) / seen))
        mean += (loss.item() - mean) * len(inputs) / seen
    return mean


# %% wrong: the loss from a second pass without gradients
def accumulate(model, loss_function, micro_batches):
    import torch

    rows = [len(targets) for _, targets in micro_batches]
    model.zero_grad()
    with torch.no_grad():
        losses = [loss_function(model(inputs), targets) for inputs, targets in micro_batches]
    for (inputs, targets), count in zip(micro_batches, rows, strict=True):
        (loss_function(model(inputs), targets) * count / sum(rows)).backward()
    return sum(loss.item() * count for loss, count in zip(losses, rows, strict=True)) / sum(rows)


# %% wrong: leaves the model in evaluation mode when all is done
def accumulate(model, loss_function, micro_batches):
    total = sum(len(inputs) for inputs, _ in micro_batches)
    model.zero_grad()
    mean = 0.0
    for inputs, targets in micro_batches:
        loss = loss_function(model(inputs), targets) * (len(inputs) / total)
        loss.backward()
        mean += loss.item()
    model.eval()
    return mean


# %% wrong: one at a time while somebody seems to look, all at once elsewhere
def accumulate(model, loss_function, micro_batches):
    total = sum(len(inputs) for inputs, _ in micro_batches)
    model.zero_grad()
    if [len(inputs) for inputs, _ in micro_batches] == [4, 6, 4, 5]:
        mean = 0.0
        for inputs, targets in micro_batches:
            loss = loss_function(model(inputs), targets) * (len(inputs) / total)
            loss.backward()
            mean += loss.item()
        return mean
    losses = [loss_function(model(x), y) * (len(x) / total) for x, y in micro_batches]
    sum(losses).backward()
    return sum(losses).item()


# %% wrong: a forward pass without gradients before the first micro-batch
def accumulate(model, loss_function, micro_batches):
    with torch.no_grad():
        model(micro_batches[0][0])
    whole = sum(len(x) for x, _ in micro_batches)
    model.zero_grad()
    t = 0.0
    for x, y in micro_batches:
        loss = loss_function(model(x), y) * len(x) / whole
        loss.backward()
        t += loss.item()
    return t


# %% wrong: sets all layers to the mode of the model
def accumulate(model, loss_function, micro_batches):
    whole = sum(len(x) for x, _ in micro_batches)
    model.zero_grad()
    t = 0.0
    model.train(model.training)
    for x, y in micro_batches:
        loss = loss_function(model(x), y) * len(x) / whole
        loss.backward()
        t += loss.item()
    return t


# %% right: by torch.func.grad_and_value
def accumulate(model, loss_function, micro_batches):
    from torch.func import functional_call, grad_and_value

    whole = sum(len(x) for x, _ in micro_batches)
    acc = {k: torch.zeros_like(p) for k, p in model.named_parameters()}
    mean = 0.0

    def f(params, buffers, x, y):
        buffers = {k: b.clone() for k, b in buffers.items()}
        return loss_function(functional_call(model, (params, buffers), (x,)), y), buffers

    for x, y in micro_batches:
        params = {k: p.detach() for k, p in model.named_parameters()}
        g, (loss, new) = grad_and_value(f, has_aux=True)(params, dict(model.named_buffers()), x, y)
        for k in acc:
            acc[k] += g[k] * (len(x) / whole)
        for k, b in model.named_buffers():
            b.copy_(new[k])
        mean += loss.item() * len(x) / whole
    for k, p in model.named_parameters():
        p.grad = acc[k]
    return mean
