# %% wrong: the bug itself: everything is in training mode afterward
def validate(network, images, labels):
    network.eval()
    right = network(images).argmax(dim=1) == labels
    network.train()
    return right.float().mean().item()


# %% wrong: everything stays in eval mode
def validate(network, images, labels):
    network.eval()
    right = network(images).argmax(dim=1) == labels
    return right.float().mean().item()


# %% wrong: does not switch at all, so that batches are normalized and statistics move
def validate(network, images, labels):
    right = network(images).argmax(dim=1) == labels
    return right.float().mean().item()


# %% wrong: keeps one flag, that of the whole network
def validate(network, images, labels):
    mode = network.training
    network.eval()
    right = network(images).argmax(dim=1) == labels
    network.train(mode)
    return right.float().mean().item()


# %% wrong: keeps the flags of the network's children, and not of what is inside them
def validate(network, images, labels):
    modes = [(child, child.training) for child in network.children()]
    mode = network.training
    network.eval()
    right = network(images).argmax(dim=1) == labels
    network.train(mode)
    for child, mode in modes:
        child.train(mode)
    return right.float().mean().item()


# %% wrong: puts every BatchNorm into eval mode afterward, those in training too
def validate(network, images, labels):
    import torch

    network.eval()
    right = network(images).argmax(dim=1) == labels
    network.train()
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm1d):
            module.eval()
    return right.float().mean().item()


# %% wrong: takes what has no gradient for frozen
def validate(network, images, labels):
    network.eval()
    right = network(images).argmax(dim=1) == labels
    for module in network.modules():
        own = list(module.parameters())
        module.training = bool(own) and all(weight.requires_grad for weight in own)
    return right.float().mean().item()


# %% wrong: sets the flags from the inside out with train(), which reaches inside again
def validate(network, images, labels):
    modes = [(module, module.training) for module in network.modules()]
    network.eval()
    right = network(images).argmax(dim=1) == labels
    for module, mode in reversed(modes):
        module.train(mode)
    return right.float().mean().item()


# %% wrong: saves and loads the state_dict, which does not hold the modes
def validate(network, images, labels):
    state = {name: value.clone() for name, value in network.state_dict().items()}
    network.eval()
    right = network(images).argmax(dim=1) == labels
    network.train()
    network.load_state_dict(state)
    return right.float().mean().item()


# %% wrong: the statistics are put back, but the accuracy is that of training mode
def validate(network, images, labels):
    state = {name: value.clone() for name, value in network.state_dict().items()}
    right = network(images).argmax(dim=1) == labels
    network.load_state_dict(state)
    return right.float().mean().item()


# %% wrong: returns a count, not a share
def validate(network, images, labels):
    modes = [(module, module.training) for module in network.modules()]
    network.eval()
    right = network(images).argmax(dim=1) == labels
    for module, mode in modes:
        module.training = mode
    return float(right.sum())


# %% wrong: returns a tensor
def validate(network, images, labels):
    modes = [(module, module.training) for module in network.modules()]
    network.eval()
    right = network(images).argmax(dim=1) == labels
    for module, mode in modes:
        module.training = mode
    return right.float().mean()


# %% wrong: only the norms are put into eval mode; dropout goes on
def validate(network, images, labels):
    import torch

    norms = [m for m in network.modules() if isinstance(m, torch.nn.BatchNorm1d)]
    modes = [module.training for module in norms]
    for module in norms:
        module.training = False
    right = network(images).argmax(dim=1) == labels
    for module, mode in zip(norms, modes, strict=True):
        module.training = mode
    return right.float().mean().item()


# %% right: works on a copy
def validate(network, images, labels):
    import copy

    copied = copy.deepcopy(network).eval()
    return (copied(images).argmax(dim=1) == labels).double().mean().item()


# %% right: notes those in training, by name
def validate(network, images, labels):
    import torch

    training = {name for name, module in network.named_modules() if module.training}
    network.eval()
    with torch.inference_mode():
        predicted = network(images).argmax(dim=-1)
    for name, module in network.named_modules():
        module.training = name in training
    return int((predicted == labels).sum()) / len(labels)


# %% wrong: train() from the outside in: for a module in two places, the second part decides
def validate(network, images, labels):
    modes = [(module, module.training) for module in network.modules()]
    try:
        right = network.eval()(images).argmax(dim=1).eq(labels)
    finally:
        for module, mode in modes:
            module.train(mode)
    return right.float().mean().item()


# %% wrong: puts the innermost modules back, and leaves those that hold others in eval mode
def validate(network, images, labels):
    modes = [(m, m.training) for m in network.modules() if not list(m.children())]
    right = network.eval()(images).argmax(dim=1) == labels
    for module, mode in modes:
        module.training = mode
    return right.float().mean().item()


# %% wrong: every mode is put back, and the parameters stay frozen
def validate(network, images, labels):
    modes = [(module, module.training) for module in network.modules()]
    right = network.eval().requires_grad_(False)(images).argmax(dim=1) == labels
    for module, mode in modes:
        module.training = mode
    return right.float().mean().item()


# %% wrong: switches autograd off for good
def validate(network, images, labels):
    import torch

    modes = [(module, module.training) for module in network.modules()]
    torch.set_grad_enabled(False)
    right = network.eval()(images).argmax(dim=1) == labels
    for module, mode in modes:
        module.training = mode
    return right.float().mean().item()


# %% wrong: sets the modes of norms alone by hand, and takes dropout for a norm in training
def validate(network, images, labels):
    import torch

    norms = [m for m in network.modules() if isinstance(m, torch.nn.BatchNorm1d)]
    modes = [norm.training for norm in norms]
    right = network.eval()(images).argmax(dim=1) == labels
    network.train()
    for norm, mode in zip(norms, modes, strict=True):
        norm.training = mode
    return right.float().mean().item()


# %% right: without eval() and train(): every flag by hand
def validate(network, images, labels):
    import torch

    modes = {module: module.training for module in network.modules()}
    for module in modes:
        module.training = False
    with torch.no_grad():
        right = network(images).argmax(dim=1) == labels
    for module, mode in modes.items():
        module.training = mode
    return right.sum().item() / len(labels)


# %% wrong: train() for all, then eval() for those that were in it, which reaches inside
def validate(network, images, labels):
    modes = [(module, module.training) for module in network.modules()]
    right = network.eval()(images).argmax(dim=1) == labels
    network.train()
    for module, mode in modes:
        if not mode:
            module.eval()
    return right.float().mean().item()


# %% wrong: the innermost modules by themselves, the others by their first one
def validate(network, images, labels):
    modes = [(m, m.training) for m in network.modules() if not list(m.children())]
    right = network.eval()(images).argmax(dim=1) == labels
    for module, mode in modes:
        module.training = mode
    for module in network.modules():
        inside = [m for m in module.modules() if m is not module]
        if inside:
            module.training = inside[0].training
    return right.float().mean().item()


# %% wrong: unfreezes what was frozen
def validate(network, images, labels):
    import torch

    modes = [(module, module.training) for module in network.modules()]
    network.requires_grad_(False)
    network.eval()
    with torch.no_grad():
        right = network(images).argmax(dim=1) == labels
    for module, mode in modes:
        module.training = mode
    network.requires_grad_(True)
    return right.float().mean().item()


# %% wrong: discards gradients that were stored
def validate(network, images, labels):
    import torch

    modes = [(module, module.training) for module in network.modules()]
    network.eval()
    with torch.no_grad():
        right = network(images).argmax(dim=1) == labels
    for module, mode in modes:
        module.training = mode
    network.zero_grad()
    return right.float().mean().item()


# %% wrong: sets the global seed
def validate(network, images, labels):
    import torch

    modes = [(module, module.training) for module in network.modules()]
    torch.manual_seed(0)
    network.eval()
    with torch.no_grad():
        right = network(images).argmax(dim=1) == labels
    for module, mode in modes:
        module.training = mode
    return right.float().mean().item()


# %% wrong: draws a random number
def validate(network, images, labels):
    import torch

    modes = [(module, module.training) for module in network.modules()]
    network.eval()
    with torch.no_grad():
        right = network(images).argmax(dim=1) == labels
    for module, mode in modes:
        module.training = mode
    torch.rand(1)
    return right.float().mean().item()


# %% wrong: leaves a hook behind
def validate(network, images, labels):
    import torch

    modes = [(module, module.training) for module in network.modules()]
    network.register_forward_hook(lambda *given: None)
    network.eval()
    with torch.no_grad():
        right = network(images).argmax(dim=1) == labels
    for module, mode in modes:
        module.training = mode
    return right.float().mean().item()


# %% wrong: leaves zeros in the images
def validate(network, images, labels):
    import torch

    modes = [(module, module.training) for module in network.modules()]
    network.eval()
    with torch.no_grad():
        right = network(images).argmax(dim=1) == labels
    for module, mode in modes:
        module.training = mode
    images.zero_()
    return right.float().mean().item()


# %% wrong: leaves zeros in the labels
def validate(network, images, labels):
    import torch

    modes = [(module, module.training) for module in network.modules()]
    network.eval()
    with torch.no_grad():
        right = network(images).argmax(dim=1) == labels
    for module, mode in modes:
        module.training = mode
    labels.zero_()
    return right.float().mean().item()


# %% wrong: sets the layers that it knows, and no others
def validate(network, images, labels):
    import torch

    kinds = torch.nn.BatchNorm1d, torch.nn.Dropout
    modes = [(m, m.training) for m in network.modules() if isinstance(m, kinds)]
    for module, _ in modes:
        module.training = False
    with torch.no_grad():
        right = network(images).argmax(dim=1) == labels
    for module, mode in modes:
        module.training = mode
    return right.float().mean().item()


# %% wrong: the mean of the shares in chunks of 100, the last of which is smaller
def validate(network, images, labels):
    import torch

    modes = [(module, module.training) for module in network.modules()]
    network.eval()
    shares = []
    with torch.no_grad():
        for some, answers in zip(images.split(100), labels.split(100), strict=True):
            shares.append((network(some).argmax(dim=1) == answers).float().mean().item())
    for module, mode in modes:
        module.training = mode
    return sum(shares) / len(shares)


# %% wrong: the network itself is always in training mode afterward, whatever it was
def validate(network, images, labels):
    import torch

    modes = [(module, module.training) for module in network.modules()]
    network.eval()
    with torch.no_grad():
        right = network(images).argmax(dim=1) == labels
    for module, mode in modes:
        module.training = mode
    network.training = True
    return right.double().mean().item()


# %% wrong: only modules without modules inside are put into evaluation mode
def validate(network, images, labels):
    modes = [(m, m.training) for m in network.modules() if not list(m.children())]
    for m, _ in modes:
        m.eval()
    with torch.no_grad():
        right = network(images).argmax(1) == labels
    for m, mode in modes:
        m.training = mode
    return right.float().mean().item()


# %% wrong: switches autograd off and then on, whatever it was before
def validate(network, images, labels):
    modes = [(m, m.training) for m in network.modules()]
    network.eval()
    torch.set_grad_enabled(False)
    right = network(images).argmax(1) == labels
    torch.set_grad_enabled(True)
    for m, mode in modes:
        m.training = mode
    return right.float().mean().item()


# %% wrong: in chunks of 64 images, each with its own statistics in a norm that keeps none
def validate(network, images, labels):
    modes = [(m, m.training) for m in network.modules()]
    network.train(False)
    correct = 0
    with torch.inference_mode():
        for i in range(0, len(labels), 64):
            correct += int((network(images[i : i + 64]).argmax(1) == labels[i : i + 64]).sum())
    for m, mode in modes:
        m.training = mode
    return correct / len(labels)


# %% right: a context manager of its own
from contextlib import contextmanager


@contextmanager
def evaluating(network):
    was = {m for m in network.modules() if m.training}
    network.eval()
    try:
        yield network
    finally:
        for m in was:
            m.training = True


@torch.no_grad()
def validate(network, images, labels):
    with evaluating(network):
        return (network(images).argmax(-1) == labels).sum().item() / labels.numel()


# %% right: autograd switched off and put back by hand, images cloned
def validate(network, images, labels):
    modes = [(m, m.training) for m in network.modules()]
    previous = torch.is_grad_enabled()
    torch.set_grad_enabled(False)
    network.eval()
    right = network(images.clone()).topk(1, dim=1).indices[:, 0] == labels
    torch.set_grad_enabled(previous)
    for m, mode in modes:
        m.training = mode
    return right.float().mean().item()


# %% wrong: in chunks of 512 images
def validate(network, images, labels):
    modes = [(m, m.training) for m in network.modules()]
    network.eval()
    right = 0
    with torch.no_grad():
        for some, answers in zip(images.split(512), labels.split(512), strict=True):
            right += (network(some).argmax(dim=1) == answers).sum().item()
    for m, mode in modes:
        m.training = mode
    return right / len(labels)


# %% wrong: restores three levels of modes, and the network may have more
def validate(network, images, labels):
    parts = [network]
    for part in network.children():
        parts += [part, *part.children()]
    modes = [part.training for part in parts]
    network.eval()
    with torch.no_grad():
        accuracy = (network(images).argmax(dim=1) == labels).float().mean().item()
    network.train()
    for part, mode in zip(parts, modes, strict=True):
        part.training = mode
    return accuracy


# %% wrong: the images require a gradient afterwards
def validate(network, images, labels):
    modes = [(part, part.training) for part in network.modules()]
    network.eval()
    images.requires_grad_(True)
    accuracy = (network(images).argmax(dim=1) == labels).float().mean().item()
    for part, mode in modes:
        part.training = mode
    return accuracy


# %% wrong: parameters without a gradient have zeros afterwards
def validate(network, images, labels):
    modes = [(part, part.training) for part in network.modules()]
    network.eval()
    for parameter in network.parameters():
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    with torch.no_grad():
        accuracy = (network(images).argmax(dim=1) == labels).float().mean().item()
    for part, mode in modes:
        part.training = mode
    return accuracy


# %% wrong: notes the old flag of each module in the module itself
def validate(network, images, labels):
    for module in network.modules():
        module.was_training = module.training
    network.eval()
    with torch.no_grad():
        right = network(images).argmax(dim=1) == labels
    for module in network.modules():
        module.training = module.was_training
    return right.float().mean().item()
