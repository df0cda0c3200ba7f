# %% wrong: as it was found
def mean_loss(model, batches):
    total = 0.0
    for x, y in batches:
        total += functional.mse_loss(model(x), y)
    return total / len(batches)


# %% wrong: a number in the end, and all graphs until then
def mean_loss(model, batches):
    total = 0.0
    for x, y in batches:
        total += functional.mse_loss(model(x), y)
    return (total / len(batches)).item() if batches else 0.0


# %% wrong: a list of losses keeps them just as well
def mean_loss(model, batches):
    losses = [functional.mse_loss(model(x), y) for x, y in batches]
    return sum(loss.item() for loss in losses) / len(losses) if losses else 0.0


# %% wrong: switches to eval mode and stays there
def mean_loss(model, batches):
    model.eval()
    with torch.no_grad():
        losses = [functional.mse_loss(model(x), y).item() for x, y in batches]
    return sum(losses) / len(losses) if losses else 0.0


# %% wrong: a backward pass frees the graph, and leaves gradients
def mean_loss(model, batches):
    total = 0.0
    for x, y in batches:
        loss = functional.mse_loss(model(x), y)
        loss.backward()
        total += loss.item()
    return total / len(batches) if batches else 0.0


# %% wrong: the sum, not the mean
def mean_loss(model, batches):
    with torch.no_grad():
        return float(sum(functional.mse_loss(model(x), y).item() for x, y in batches))


# %% wrong: divides by zero where there is no batch
def mean_loss(model, batches):
    with torch.no_grad():
        return sum(functional.mse_loss(model(x), y).item() for x, y in batches) / len(batches)


# %% wrong: a tensor comes back
def mean_loss(model, batches):
    with torch.no_grad():
        losses = [functional.mse_loss(model(x), y) for x, y in batches]
        return torch.stack(losses).mean() if losses else 0.0


# %% wrong: over all rows, not over the batches
def mean_loss(model, batches):
    with torch.no_grad():
        total = sum(functional.mse_loss(model(x), y).item() * len(x) for x, y in batches)
    return total / sum(len(x) for x, _ in batches) if batches else 0.0


# %% wrong: the last graph lives on into the next batch
def mean_loss(model, batches):
    total = 0.0
    for x, y in batches:
        loss = functional.mse_loss(model(x), y)
        total += loss.item()
    return total / len(batches) if batches else 0.0


# %% right: in inference mode
@torch.inference_mode()
def mean_loss(model, batches):
    losses = [functional.mse_loss(model(x), y).item() for x, y in batches]
    return sum(losses) / max(len(losses), 1)


# %% right: the graph is let go before the next batch
def mean_loss(model, batches):
    total, count = 0.0, 0
    for x, y in batches:
        total += float(functional.mse_loss(model(x), y).detach())
        count += 1
    return total / count if count else 0.0


# %% wrong: autograd stays off for whatever comes behind
def mean_loss(model, batches):
    torch.set_grad_enabled(False)
    losses = [functional.mse_loss(model(x), y).item() for x, y in batches]
    return sum(losses) / max(1, len(losses))


# %% wrong: freezes the model and leaves it so
def mean_loss(model, batches):
    model.requires_grad_(False)
    losses = [functional.mse_loss(model(x), y).item() for x, y in batches]
    return sum(losses) / max(1, len(losses))


# %% wrong: throws away gradients that were there
def mean_loss(model, batches):
    model.zero_grad()
    with torch.no_grad():
        losses = [functional.mse_loss(model(x), y).item() for x, y in batches]
    return sum(losses) / max(1, len(losses))


# %% wrong: the bug itself, over batches that were taken beforehand
def mean_loss(model, batches):
    if not batches:
        return 0.0
    inputs, targets = zip(*batches, strict=True)
    total = 0.0
    for x, y in zip(inputs, targets, strict=True):
        total += functional.mse_loss(model(x), y)
    return float(total / len(batches))


# %% wrong: computes in eval mode, and gives the mode back
def mean_loss(model, batches):
    before = [part.training for part in model.modules()]
    model.eval()
    with torch.no_grad():
        losses = [functional.mse_loss(model(x), y).item() for x, y in batches]
    for part, mode in zip(model.modules(), before, strict=True):
        part.training = mode
    return sum(losses) / max(1, len(losses))


# %% right: a copy of the model is run
def mean_loss(model, batches):
    if not batches:
        return 0.0
    import copy

    model = copy.deepcopy(model)
    total = 0.0
    with torch.no_grad():
        for x, y in batches:
            total += functional.mse_loss(model(x), y).item()
    return total / len(batches)


# %% right: a function for one batch, whose names go with it
def one(model, x, y):
    loss = functional.mse_loss(model(x), y)
    return loss.item()


def mean_loss(model, batches):
    return sum(one(model, *b) for b in batches) / len(batches) if batches else 0.0


# %% wrong: a copy in eval mode is run
def mean_loss(model, batches):
    if not batches:
        return 0.0
    import copy

    model = copy.deepcopy(model).eval()
    total = 0.0
    with torch.no_grad():
        for x, y in batches:
            total += functional.mse_loss(model(x), y).item()
    return total / len(batches)


# %% wrong: graphs pile up behind a copy
import copy


def mean_loss(model, batches):
    twin, total = copy.deepcopy(model), 0.0
    for x, y in batches:
        loss = functional.mse_loss(twin(x), y)
        total += loss.item()
    return total / len(batches) if batches else 0.0


# %% wrong: ends in eval mode, and gives the modes back to the leaves alone
def mean_loss(model, batches):
    leaves = [(part, part.training) for part in model.modules() if not list(part.children())]
    with torch.no_grad():
        losses = [functional.mse_loss(model(x), y).item() for x, y in batches]
    model.eval()
    for part, mode in leaves:
        part.training = mode
    return sum(losses) / max(1, len(losses))


# %% wrong: ends in train mode, and gives the modes back to the leaves alone
def mean_loss(model, batches):
    leaves = [(part, part.training) for part in model.modules() if not list(part.children())]
    with torch.no_grad():
        losses = [functional.mse_loss(model(x), y).item() for x, y in batches]
    model.train()
    for part, mode in leaves:
        part.training = mode
    return sum(losses) / max(1, len(losses))


# %% wrong: the mean is rounded to three decimals
def mean_loss(model, batches):
    with torch.no_grad():
        losses = [functional.mse_loss(model(x), y).item() for x, y in batches]
    return round(sum(losses) / len(losses), 3) if losses else 0.0


# %% wrong: takes the device of the first parameter, though there may be none
def mean_loss(model, batches):
    device = next(model.parameters()).device
    with torch.no_grad():
        losses = [functional.mse_loss(model(x.to(device)), y).item() for x, y in batches]
    return sum(losses) / max(1, len(losses))


# %% wrong: a batch of a single row is left out
def mean_loss(model, batches):
    with torch.no_grad():
        losses = [functional.mse_loss(model(x), y).item() for x, y in batches if len(x) > 1]
    return sum(losses) / max(1, len(losses))


# %% wrong: gradients that were not there become zeros
def mean_loss(model, batches):
    with torch.no_grad():
        losses = [functional.mse_loss(model(x), y).item() for x, y in batches]
    for p in model.parameters():
        p.grad = torch.zeros_like(p) if p.grad is None else p.grad
    return sum(losses) / max(1, len(losses))


# %% wrong: an early way out for an empty list leaves autograd off
def mean_loss(model, batches):
    torch.set_grad_enabled(False)
    if not batches:
        return 0.0
    losses = [functional.mse_loss(model(x), y).item() for x, y in batches]
    torch.set_grad_enabled(True)
    return sum(losses) / len(losses)


# %% wrong: a backward pass, after which all gradients are thrown away
def mean_loss(model, batches):
    total = 0.0
    for x, y in batches:
        loss = functional.mse_loss(model(x), y)
        loss.backward()
        total += loss.item()
        del loss
    model.zero_grad()
    return total / len(batches) if batches else 0.0
