# %% wrong: the whole batch at once, whatever the budget is
def add_gradients(network, loss_function, needs, volumes, masks, budget):
    if needs(1, True) > budget:
        raise ValueError("too small")
    loss = loss_function(network(volumes, False), masks)
    loss.backward()
    return loss.item()


# %% wrong: one at a time, also where more fit
def add_gradients(network, loss_function, needs, volumes, masks, budget):
    checkpointed = needs(1, False) > budget
    if needs(1, checkpointed) > budget:
        raise ValueError("too small")
    total = 0.0
    for volume, mask in zip(volumes.split(1), masks.split(1), strict=True):
        loss = loss_function(network(volume, checkpointed), mask) / len(volumes)
        loss.backward()
        total += loss.item()
    return total


# %% wrong: always checkpointed, which is not needed where one sample fits
def add_gradients(network, loss_function, needs, volumes, masks, budget):
    fitting = [n for n in range(1, len(volumes) + 1) if needs(n, True) <= budget]
    if not fitting:
        raise ValueError("too small")
    total = 0.0
    for volume, mask in zip(volumes.split(fitting[-1]), masks.split(fitting[-1]), strict=True):
        loss = loss_function(network(volume, True), mask) * len(volume) / len(volumes)
        loss.backward()
        total += loss.item()
    return total


# %% wrong: the mean of the parts' means, though the last part is smaller
def add_gradients(network, loss_function, needs, volumes, masks, budget):
    checkpointed = needs(1, False) > budget
    fitting = [n for n in range(1, len(volumes) + 1) if needs(n, checkpointed) <= budget]
    if not fitting:
        raise ValueError("too small")
    parts = list(zip(volumes.split(fitting[-1]), masks.split(fitting[-1]), strict=True))
    total = 0.0
    for volume, mask in parts:
        loss = loss_function(network(volume, checkpointed), mask) / len(parts)
        loss.backward()
        total += loss.item()
    return total


# %% wrong: losses are added up before one backward, so that all graphs are there at once
def add_gradients(network, loss_function, needs, volumes, masks, budget):
    checkpointed = needs(1, False) > budget
    fitting = [n for n in range(1, len(volumes) + 1) if needs(n, checkpointed) <= budget]
    if not fitting:
        raise ValueError("too small")
    loss = 0.0
    for volume, mask in zip(volumes.split(fitting[-1]), masks.split(fitting[-1]), strict=True):
        loss = loss + loss_function(network(volume, checkpointed), mask) * len(volume)
    loss = loss / len(volumes)
    loss.backward()
    return loss.item()


# %% wrong: gradients that were there already are thrown away
def add_gradients(network, loss_function, needs, volumes, masks, budget):
    checkpointed = needs(1, False) > budget
    fitting = [n for n in range(1, len(volumes) + 1) if needs(n, checkpointed) <= budget]
    if not fitting:
        raise ValueError("too small")
    network.zero_grad()
    total = 0.0
    for volume, mask in zip(volumes.split(fitting[-1]), masks.split(fitting[-1]), strict=True):
        loss = loss_function(network(volume, checkpointed), mask) * len(volume) / len(volumes)
        loss.backward()
        total += loss.item()
    return total


# %% wrong: nothing is said when nothing fits
def add_gradients(network, loss_function, needs, volumes, masks, budget):
    checkpointed = needs(1, False) > budget
    samples = 1
    while samples < len(volumes) and needs(samples + 1, checkpointed) <= budget:
        samples += 1
    total = 0.0
    for volume, mask in zip(volumes.split(samples), masks.split(samples), strict=True):
        loss = loss_function(network(volume, checkpointed), mask) * len(volume) / len(volumes)
        loss.backward()
        total += loss.item()
    return total


# %% wrong: what autograd saves is moved into NumPy arrays, where it is memory as well
def add_gradients(network, loss_function, needs, volumes, masks, budget):
    if needs(1, True) > budget:
        raise ValueError("too small")

    def pack(tensor):
        return tensor.detach().numpy().copy()

    checkpointed = needs(1, False) > budget
    with torch.autograd.graph.saved_tensors_hooks(pack, torch.from_numpy):
        loss = loss_function(network(volumes, checkpointed), masks)
    loss.backward()
    return loss.item()


# %% wrong: what autograd saves is moved into lists of Python's numbers
def add_gradients(network, loss_function, needs, volumes, masks, budget):
    if needs(1, True) > budget:
        raise ValueError("too small")
    checkpointed = needs(1, False) > budget
    hooks = torch.autograd.graph.saved_tensors_hooks(lambda x: x.tolist(), torch.tensor)
    with hooks:
        loss = loss_function(network(volumes, checkpointed), masks)
    loss.backward()
    return loss.item()


# %% wrong: what autograd saves is moved into a buffer that was made beforehand
BUFFER = torch.empty(20_000_000)


def add_gradients(network, loss_function, needs, volumes, masks, budget):
    if needs(1, True) > budget:
        raise ValueError("too small")
    used = [0]

    def pack(tensor):
        if tensor.dtype != torch.float32:
            return tensor
        start = used[0]
        used[0] += tensor.numel()
        BUFFER[start : used[0]] = tensor.detach().flatten()
        return start, tensor.shape

    def unpack(packed):
        if isinstance(packed, torch.Tensor):
            return packed
        start, shape = packed
        return BUFFER[start : start + math.prod(shape)].view(shape)

    checkpointed = needs(1, False) > budget
    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        loss = loss_function(network(volumes, checkpointed), masks)
    loss.backward()
    return loss.item()


# %% wrong: what autograd saves is rounded to 16 bits, and so is the gradient
def add_gradients(network, loss_function, needs, volumes, masks, budget):
    if needs(1, True) > budget:
        raise ValueError("too small")
    checkpointed = needs(1, False) > budget

    def pack(tensor):
        return (tensor.dtype, tensor.half() if tensor.is_floating_point() else tensor)

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda kept: kept[1].to(kept[0])):
        loss = loss_function(network(volumes, checkpointed), masks)
    loss.backward()
    return loss.item()


# %% wrong: measures by trial, and the trial itself leaves the budget
def add_gradients(network, loss_function, needs, volumes, masks, budget):
    if needs(1, True) > budget:
        raise ValueError("too small")
    samples, checkpointed = len(volumes), False
    while needs(samples, checkpointed) > budget and samples > 1:
        loss_function(network(volumes[:samples], checkpointed), masks[:samples])
        samples -= 1
    if needs(samples, checkpointed) > budget:
        checkpointed = True
    total = 0.0
    for volume, mask in zip(volumes.split(samples), masks.split(samples), strict=True):
        loss = loss_function(network(volume, checkpointed), mask) * len(volume) / len(volumes)
        loss.backward()
        total += loss.item()
    return total


# %% right: parts of equal length, as few as possible
def add_gradients(network, loss_function, needs, volumes, masks, budget):
    for checkpointed in (False, True):
        fitting = [n for n in range(1, len(volumes) + 1) if needs(n, checkpointed) <= budget]
        if fitting:
            break
    else:
        raise ValueError("not even one sample fits")
    parts = math.ceil(len(volumes) / fitting[-1])
    cut = zip(volumes.tensor_split(parts), masks.tensor_split(parts), strict=True)
    losses = []
    for x, y in cut:
        share = len(x) / len(volumes)
        loss = share * loss_function(network(x, checkpointed), y)
        loss.backward()
        losses.append(loss.detach())
    return float(sum(losses))


# %% right: the biggest part that fits is found by halving
def add_gradients(network, loss_function, needs, volumes, masks, budget):
    checkpointed = not needs(1, False) <= budget
    if checkpointed and needs(1, True) > budget:
        raise ValueError(f"{budget} bytes are too few")
    low, high = 1, len(volumes)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if needs(middle, checkpointed) <= budget else (low, middle - 1)
    total, start = 0.0, 0
    while start < len(volumes):
        x = volumes[start : start + low]
        loss = loss_function(network(x, checkpointed), masks[start : start + low])
        torch.autograd.backward(loss, torch.tensor(len(x) / len(volumes)))
        total += loss.item() * len(x) / len(volumes)
        start += low
        del loss
    return total


# %% wrong: what autograd saves is moved into a buffer of NumPy's, through views of it
KEPT = np.zeros(20_000_000, np.float32)


def add_gradients(network, loss_function, needs, volumes, masks, budget):
    if needs(1, True) > budget:
        raise ValueError("too small")
    used = [0]

    def pack(tensor):
        if tensor.dtype != torch.float32:
            return tensor
        start = used[0]
        used[0] += tensor.numel()
        torch.from_numpy(KEPT[start : used[0]]).copy_(tensor.detach().flatten())
        return start, tensor.shape

    def unpack(packed):
        if isinstance(packed, torch.Tensor):
            return packed
        start, shape = packed
        return torch.from_numpy(KEPT[start : start + math.prod(shape)]).view(shape)

    checkpointed = needs(1, False) > budget
    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        loss = loss_function(network(volumes, checkpointed), masks)
    loss.backward()
    return loss.item()


# %% wrong: needs are taken for a straight line through those of one sample and of two
def add_gradients(network, loss_function, needs, volumes, masks, budget):
    checkpointed = needs(1, False) > budget
    if needs(1, checkpointed) > budget:
        raise ValueError("too small")
    each = needs(2, checkpointed) - needs(1, checkpointed)
    samples = 1 + int((budget - needs(1, checkpointed)) // each)
    total = 0.0
    for volume, mask in zip(volumes.split(samples), masks.split(samples), strict=True):
        loss = loss_function(network(volume, checkpointed), mask) * len(volume) / len(volumes)
        loss.backward()
        total += loss.item()
    return total


# %% wrong: the budget divided by what one sample needs, as if weights needed nothing
def add_gradients(network, loss_function, needs, volumes, masks, budget):
    checkpointed = needs(1, False) > budget
    if checkpointed and needs(1, True) > budget:
        raise ValueError("not even one sample fits")
    count = len(volumes)
    samples = min(count, int(budget // needs(1, checkpointed)))
    total = 0.0
    for start in range(0, count, samples):
        x, y = volumes[start : start + samples], masks[start : start + samples]
        loss = loss_function(network(x, checkpointed), y) * (len(x) / count)
        loss.backward()
        total += loss.item()
        del loss
    return total


# %% wrong: a budget that is needed to the byte is not used
def add_gradients(network, loss_function, needs, volumes, masks, budget):
    checkpointed = needs(1, False) > budget
    if checkpointed and needs(1, True) > budget:
        raise ValueError("not even one sample fits")
    count = len(volumes)
    samples = 1
    while samples < count and needs(samples + 1, checkpointed) < budget:
        samples += 1
    total = 0.0
    for start in range(0, count, samples):
        x, y = volumes[start : start + samples], masks[start : start + samples]
        loss = loss_function(network(x, checkpointed), y) * (len(x) / count)
        loss.backward()
        total += loss.item()
        del loss
    return total


# %% wrong: checkpointed where one sample fits to the byte
def add_gradients(network, loss_function, needs, volumes, masks, budget):
    checkpointed = needs(1, False) >= budget
    if checkpointed and needs(1, True) > budget:
        raise ValueError("not even one sample fits")
    count = len(volumes)
    samples = 1
    while samples < count and needs(samples + 1, checkpointed) <= budget:
        samples += 1
    total = 0.0
    for start in range(0, count, samples):
        x, y = volumes[start : start + samples], masks[start : start + samples]
        loss = loss_function(network(x, checkpointed), y) * (len(x) / count)
        loss.backward()
        total += loss.item()
        del loss
    return total


# %% wrong: nothing fits where one checkpointed sample needs just the budget
def add_gradients(network, loss_function, needs, volumes, masks, budget):
    checkpointed = needs(1, False) > budget
    if checkpointed and needs(1, True) >= budget:
        raise ValueError("not even one sample fits")
    count = len(volumes)
    samples = 1
    while samples < count and needs(samples + 1, checkpointed) <= budget:
        samples += 1
    total = 0.0
    for start in range(0, count, samples):
        x, y = volumes[start : start + samples], masks[start : start + samples]
        loss = loss_function(network(x, checkpointed), y) * (len(x) / count)
        loss.backward()
        total += loss.item()
        del loss
    return total


# %% wrong: the batch is halved until a part fits
def add_gradients(network, loss_function, needs, volumes, masks, budget):
    checkpointed = needs(1, False) > budget
    if checkpointed and needs(1, True) > budget:
        raise ValueError("not even one sample fits")
    count = len(volumes)
    samples = count
    while needs(samples, checkpointed) > budget:
        samples = (samples + 1) // 2 if samples > 2 else samples - 1
    total = 0.0
    for start in range(0, count, samples):
        x, y = volumes[start : start + samples], masks[start : start + samples]
        loss = loss_function(network(x, checkpointed), y) * (len(x) / count)
        loss.backward()
        total += loss.item()
        del loss
    return total


# %% wrong: a part is doubled while that fits
def add_gradients(network, loss_function, needs, volumes, masks, budget):
    checkpointed = needs(1, False) > budget
    if checkpointed and needs(1, True) > budget:
        raise ValueError("not even one sample fits")
    count = len(volumes)
    samples = 1
    while samples < count and needs(2 * samples, checkpointed) <= budget:
        samples *= 2
    total = 0.0
    for start in range(0, count, samples):
        x, y = volumes[start : start + samples], masks[start : start + samples]
        loss = loss_function(network(x, checkpointed), y) * (len(x) / count)
        loss.backward()
        total += loss.item()
        del loss
    return total


# %% wrong: checkpointed samples are counted by what plain ones need
def add_gradients(network, loss_function, needs, volumes, masks, budget):
    checkpointed = needs(1, False) > budget
    if checkpointed and needs(1, True) > budget:
        raise ValueError("not even one sample fits")
    count = len(volumes)
    samples = 1
    while samples < count and needs(samples + 1, False) <= budget:
        samples += 1
    total = 0.0
    for start in range(0, count, samples):
        x, y = volumes[start : start + samples], masks[start : start + samples]
        loss = loss_function(network(x, checkpointed), y) * (len(x) / count)
        loss.backward()
        total += loss.item()
        del loss
    return total


# %% wrong: begins with a copy of the batch
def add_gradients(network, loss_function, needs, volumes, masks, budget):
    checkpointed = needs(1, False) > budget
    if checkpointed and needs(1, True) > budget:
        raise ValueError("not even one sample fits")
    volumes, masks = volumes.clone(), masks.clone()
    count = len(volumes)
    samples = 1
    while samples < count and needs(samples + 1, checkpointed) <= budget:
        samples += 1
    total = 0.0
    for start in range(0, count, samples):
        x, y = volumes[start : start + samples], masks[start : start + samples]
        loss = loss_function(network(x, checkpointed), y) * (len(x) / count)
        loss.backward()
        total += loss.item()
        del loss
    return total


# %% right: gradients by torch.autograd.grad, added by hand
def add_gradients(network, loss_function, needs, volumes, masks, budget):
    checkpointed = needs(1, False) > budget
    if checkpointed and needs(1, True) > budget:
        raise ValueError("not even one sample fits")
    count = len(volumes)
    samples = 1
    while samples < count and needs(samples + 1, checkpointed) <= budget:
        samples += 1
    total = 0.0
    for start in range(0, count, samples):
        x, y = volumes[start : start + samples], masks[start : start + samples]
        loss = loss_function(network(x, checkpointed), y) * (len(x) / count)
        weights = [w for w in network.parameters() if w.requires_grad]
        for w, g in zip(weights, torch.autograd.grad(loss, weights), strict=True):
            w.grad = g if w.grad is None else w.grad.add_(g)
        total += loss.item()
        del loss
    return total


# %% wrong: the samples are counted in twos
def add_gradients(network, loss_function, needs, volumes, masks, budget):
    checkpointed = needs(1, False) > budget
    if checkpointed and needs(1, True) > budget:
        raise ValueError("not even one sample fits")
    count = len(volumes)
    samples = 1
    while samples < count and needs(samples + 1, checkpointed) <= budget:
        samples += 2
    total = 0.0
    for start in range(0, count, samples):
        x, y = volumes[start : start + samples], masks[start : start + samples]
        loss = loss_function(network(x, checkpointed), y) * (len(x) / count)
        loss.backward()
        total += loss.item()
        del loss
    return total
