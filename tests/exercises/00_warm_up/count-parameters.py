# %% wrong: counts parameters instead of their entries
def count_parameters(model):
    trained = sum(1 for p in model.parameters() if p.requires_grad)
    return trained, sum(1 for p in model.parameters()) - trained


# %% wrong: by the state_dict, with buffers and tied parameters twice
def count_parameters(model):
    frozen = sum(p.numel() for p in model.parameters() if not p.requires_grad)
    return sum(value.numel() for value in model.state_dict().values()) - frozen, frozen


# %% wrong: looks only at the model's own children
def count_parameters(model):
    found = [p for child in model.children() for p in child.parameters(recurse=False)]
    trained = sum(p.numel() for p in found if p.requires_grad)
    return trained, sum(p.numel() for p in found) - trained


# %% wrong: all of them, and then the frozen ones once more
def count_parameters(model):
    return (
        sum(p.numel() for p in model.parameters()),
        sum(p.numel() for p in model.parameters() if not p.requires_grad),
    )


# %% wrong: module by module, a tied parameter as often as it is used
def count_parameters(model):
    trained = frozen = 0
    for module in model.modules():
        for p in module.parameters(recurse=False):
            trained += p.numel() * p.requires_grad
            frozen += p.numel() * (not p.requires_grad)
    return trained, frozen


# %% wrong: takes parameters of one shape for one
def count_parameters(model):
    trained = {tuple(p.shape): p.numel() for p in model.parameters() if p.requires_grad}
    frozen = {tuple(p.shape): p.numel() for p in model.parameters() if not p.requires_grad}
    return sum(trained.values()), sum(frozen.values())


# %% wrong: weights only, no biases
def count_parameters(model):
    found = [p for p in model.parameters() if p.dim() > 1]
    trained = sum(p.numel() for p in found if p.requires_grad)
    return trained, sum(p.numel() for p in found) - trained


# %% wrong: buffers count as frozen
def count_parameters(model):
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    frozen = sum(p.numel() for p in model.parameters() if not p.requires_grad)
    return trained, frozen + sum(b.numel() for b in model.buffers())


# %% wrong: trains everything first, and the frozen ones are gone
def count_parameters(model):
    frozen = sum(p.numel() for p in model.parameters() if not p.requires_grad)
    model.requires_grad_(True)
    return sum(p.numel() for p in model.parameters()) - frozen, frozen


# %% wrong: only modules that have no modules inside
def count_parameters(model):
    leaves = [m for m in model.modules() if not list(m.children())]
    found = {id(p): p for m in leaves for p in m.parameters()}
    trained = sum(p.numel() for p in found.values() if p.requires_grad)
    return trained, sum(p.numel() for p in found.values()) - trained


# %% wrong: only what is called weight or bias
def count_parameters(model):
    found = {}
    for m in model.modules():
        for p in (getattr(m, "weight", None), getattr(m, "bias", None)):
            if p is not None:
                found[id(p)] = p
    trained = sum(p.numel() for p in found.values() if p.requires_grad)
    return trained, sum(p.numel() for p in found.values()) - trained


# %% wrong: parameters with equal values are taken for one
def count_parameters(model):
    found = []
    for m in model.modules():
        for p in m.parameters(recurse=False):
            if not any(p.shape == q.shape and torch.equal(p, q) for q in found):
                found.append(p)
    trained = sum(p.numel() for p in found if p.requires_grad)
    return trained, sum(p.numel() for p in found) - trained


# %% wrong: puts the model into eval mode
def count_parameters(model):
    model.eval()
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    return trained, sum(p.numel() for p in model.parameters()) - trained


# %% right: in a dict by identity
def count_parameters(model):
    found = {}
    for module in model.modules():
        for p in module.parameters(recurse=False):
            found[id(p)] = (p.numel(), p.requires_grad)
    trained = sum(n for n, is_trained in found.values() if is_trained)
    return trained, sum(n for n, _ in found.values()) - trained


# %% right: by named_parameters and the shape
def count_parameters(model):
    counts = {True: 0, False: 0}
    for _, p in model.named_parameters():
        counts[p.requires_grad] += math.prod(p.shape)
    return counts[True], counts[False]


# %% wrong: freezes the model when it has counted
def count_parameters(model):
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    total = sum(p.numel() for p in model.parameters())
    model.requires_grad_(False)
    return trained, total - trained


# %% wrong: puts every module into training mode
def count_parameters(model):
    trained = sum(p.numel() for p in model.train().parameters() if p.requires_grad)
    return trained, sum(p.numel() for p in model.parameters()) - trained


# %% wrong: counts those that get a gradient, and leaves the gradients there
def count_parameters(model):
    learned = [p for p in model.parameters() if p.requires_grad]
    if learned:
        sum(p.sum() for p in learned).backward()
    trained = sum(p.grad.numel() for p in learned)
    return trained, sum(p.numel() for p in model.parameters()) - trained


# %% wrong: a module that is not in training mode counts as frozen
def count_parameters(model):
    trained = frozen = 0
    for module in model.modules():
        for p in module.parameters(recurse=False):
            if module.training and p.requires_grad:
                trained += p.numel()
            else:
                frozen += p.numel()
    return trained, frozen


# %% wrong: a list comes back
def count_parameters(model):
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    return [trained, sum(p.numel() for p in model.parameters()) - trained]


# %% right: a set of the parameters themselves
def count_parameters(model):
    found = set(model.parameters())
    trained = sum(p.nelement() for p in found if p.requires_grad)
    return trained, sum(p.nelement() for p in found if not p.requires_grad)


# %% wrong: clears the gradients
def count_parameters(model):
    model.zero_grad()
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    return trained, sum(p.numel() for p in model.parameters() if not p.requires_grad)


# %% wrong: gradients become zeros
def count_parameters(model):
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    return trained, sum(p.numel() for p in model.parameters() if not p.requires_grad)


# %% wrong: a frozen parameter as often as it is used
def count_parameters(model):
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    named = model.named_parameters(remove_duplicate=False)
    return trained, sum(p.numel() for _, p in named if not p.requires_grad)


# %% wrong: only layers from a list of well-known ones
def count_parameters(model):
    known = (nn.Linear, nn.Conv2d, nn.BatchNorm1d, nn.LayerNorm, nn.Embedding)
    known = (*known, nn.MultiheadAttention)
    found = {}
    for module in model.modules():
        if isinstance(module, known):
            found.update({id(p): p for p in module.parameters()})
    trained = sum(p.numel() for p in found.values() if p.requires_grad)
    return trained, sum(p.numel() for p in found.values() if not p.requires_grad)


# %% wrong: runs the model, whose running statistics move
def count_parameters(model):
    if any(isinstance(module, nn.BatchNorm1d) for module in model.modules()):
        model(torch.zeros(4, model[0].weight.shape[1]))
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    return trained, sum(p.numel() for p in model.parameters() if not p.requires_grad)


# %% wrong: looks only into the modules inside
def count_parameters(model):
    found = {id(p): p for child in model.children() for p in child.parameters()}.values()
    trained = sum(p.numel() for p in found if p.requires_grad)
    return trained, sum(p.numel() for p in found) - trained


# %% wrong: counts bytes, at four for each entry
def count_parameters(model):
    sizes = [(p.numel() * p.element_size() // 4, p.requires_grad) for p in model.parameters()]
    trained = sum(size for size, learns in sizes if learns)
    return trained, sum(size for size, _ in sizes) - trained


# %% wrong: asks an optimizer, which takes no empty list
def count_parameters(model):
    learned = [p for p in model.parameters() if p.requires_grad]
    groups = torch.optim.SGD(learned, lr=0.1).param_groups
    trained = sum(p.numel() for group in groups for p in group["params"])
    return trained, sum(p.numel() for p in model.parameters()) - trained


# %% wrong: no embeddings, only what computes
def count_parameters(model):
    found = {
        id(p): p
        for module in model.modules()
        if not isinstance(module, nn.Embedding)
        for p in module.parameters(recurse=False)
    }
    trained = sum(p.numel() for p in found.values() if p.requires_grad)
    return trained, sum(p.numel() for p in found.values()) - trained


# %% wrong: a parameter of shape () has no entries
def count_parameters(model):
    counts = {True: 0, False: 0}
    for p in model.parameters():
        counts[p.requires_grad] += math.prod(p.shape) if p.shape else 0
    return counts[True], counts[False]


# %% right: the product of the lengths, which is 1 for no lengths
def count_parameters(model):
    counts = [0, 0]
    for p in model.parameters():
        counts[not p.requires_grad] += math.prod(p.shape)
    return tuple(counts)


# %% wrong: looks only into the modules inside, where there are any
def count_parameters(model):
    inside = list(model.children()) or [model]
    found = {id(p): p for child in inside for p in child.parameters()}.values()
    trained = sum(p.numel() for p in found if p.requires_grad)
    return trained, sum(p.numel() for p in found) - trained


# %% wrong: remembers what it has counted
import functools


@functools.cache
def count_parameters(model):
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    return trained, sum(p.numel() for p in model.parameters()) - trained


# %% wrong: takes a model in eval mode for a frozen one
def count_parameters(model):
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad and model.training)
    return trained, sum(p.numel() for p in model.parameters()) - trained


# %% wrong: gives each trained parameter a gradient, to count its entries
def count_parameters(model):
    trained = frozen = 0
    for parameter in model.parameters():
        if parameter.requires_grad:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            trained += parameter.grad.numel()
        else:
            frozen += parameter.numel()
    return trained, frozen


# %% wrong: keeps the counts as attributes of the model
def count_parameters(model):
    model.trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    model.frozen = sum(p.numel() for p in model.parameters() if not p.requires_grad)
    return model.trained, model.frozen


# %% wrong: converts the model itself, so that all entries count in one dtype
def count_parameters(model):
    counts = [0, 0]
    for p in model.double().parameters():
        counts[not p.requires_grad] += p.numel()
    return tuple(counts)
