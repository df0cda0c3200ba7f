# %% wrong: frozen parameters have gradients too
def training_bytes(model, x, optimizer):
    def bytes_of(tensors):
        return sum(t.numel() * t.element_size() for t in tensors)

    trained = list(model.parameters())
    states = {"sgd": 0, "momentum": 1, "adam": 2}[optimizer] * bytes_of(trained)
    return {
        "weights": bytes_of(model.parameters()) + bytes_of(model.buffers()),
        "gradients": bytes_of(trained),
        "optimizer": states + (4 * len(trained) if optimizer == "adam" else 0),
        "activations": saved_bytes(lambda: model(x), except_for=model.parameters()).bytes,
    }


# %% wrong: buffers are forgotten
def training_bytes(model, x, optimizer):
    def bytes_of(tensors):
        return sum(t.numel() * t.element_size() for t in tensors)

    trained = [p for p in model.parameters() if p.requires_grad]
    states = {"sgd": 0, "momentum": 1, "adam": 2}[optimizer] * bytes_of(trained)
    return {
        "weights": bytes_of(model.parameters()),
        "gradients": bytes_of(trained),
        "optimizer": states + (4 * len(trained) if optimizer == "adam" else 0),
        "activations": saved_bytes(lambda: model(x), except_for=model.parameters()).bytes,
    }


# %% wrong: four bytes for every number
def training_bytes(model, x, optimizer):
    def bytes_of(tensors):
        return sum(t.numel() * 4 for t in tensors)

    trained = [p for p in model.parameters() if p.requires_grad]
    states = {"sgd": 0, "momentum": 1, "adam": 2}[optimizer] * bytes_of(trained)
    return {
        "weights": bytes_of(model.parameters()) + bytes_of(model.buffers()),
        "gradients": bytes_of(trained),
        "optimizer": states + (4 * len(trained) if optimizer == "adam" else 0),
        "activations": saved_bytes(lambda: model(x), except_for=model.parameters()).bytes,
    }


# %% wrong: Adam's step counts are forgotten
def training_bytes(model, x, optimizer):
    def bytes_of(tensors):
        return sum(t.numel() * t.element_size() for t in tensors)

    trained = [p for p in model.parameters() if p.requires_grad]
    states = {"sgd": 0, "momentum": 1, "adam": 2}[optimizer] * bytes_of(trained)
    return {
        "weights": bytes_of(model.parameters()) + bytes_of(model.buffers()),
        "gradients": bytes_of(trained),
        "optimizer": states,
        "activations": saved_bytes(lambda: model(x), except_for=model.parameters()).bytes,
    }


# %% wrong: the parameters count as activations
def training_bytes(model, x, optimizer):
    def bytes_of(tensors):
        return sum(t.numel() * t.element_size() for t in tensors)

    trained = [p for p in model.parameters() if p.requires_grad]
    states = {"sgd": 0, "momentum": 1, "adam": 2}[optimizer] * bytes_of(trained)
    return {
        "weights": bytes_of(model.parameters()) + bytes_of(model.buffers()),
        "gradients": bytes_of(trained),
        "optimizer": states + (4 * len(trained) if optimizer == "adam" else 0),
        "activations": saved_bytes(lambda: model(x)).bytes,
    }


# %% wrong: numbers in the place of bytes
def training_bytes(model, x, optimizer):
    def bytes_of(tensors):
        return sum(t.numel() for t in tensors)

    trained = [p for p in model.parameters() if p.requires_grad]
    states = {"sgd": 0, "momentum": 1, "adam": 2}[optimizer] * bytes_of(trained)
    return {
        "weights": bytes_of(model.parameters()) + bytes_of(model.buffers()),
        "gradients": bytes_of(trained),
        "optimizer": states + (4 * len(trained) if optimizer == "adam" else 0),
        "activations": saved_bytes(lambda: model(x), except_for=model.parameters()).bytes,
    }


# %% wrong: Adam has one state only
def training_bytes(model, x, optimizer):
    def bytes_of(tensors):
        return sum(t.numel() * t.element_size() for t in tensors)

    trained = [p for p in model.parameters() if p.requires_grad]
    states = {"sgd": 0, "momentum": 1, "adam": 1}[optimizer] * bytes_of(trained)
    return {
        "weights": bytes_of(model.parameters()) + bytes_of(model.buffers()),
        "gradients": bytes_of(trained),
        "optimizer": states + (4 * len(trained) if optimizer == "adam" else 0),
        "activations": saved_bytes(lambda: model(x), except_for=model.parameters()).bytes,
    }


# %% wrong: states of the frozen ones as well
def training_bytes(model, x, optimizer):
    def bytes_of(tensors):
        return sum(t.numel() * t.element_size() for t in tensors)

    trained = [p for p in model.parameters() if p.requires_grad]
    states = {"sgd": 0, "momentum": 1, "adam": 2}[optimizer] * bytes_of(model.parameters())
    return {
        "weights": bytes_of(model.parameters()) + bytes_of(model.buffers()),
        "gradients": bytes_of(trained),
        "optimizer": states + (4 * len(trained) if optimizer == "adam" else 0),
        "activations": saved_bytes(lambda: model(x), except_for=model.parameters()).bytes,
    }


# %% wrong: a backward pass leaves gradients behind
def training_bytes(model, x, optimizer):
    def bytes_of(tensors):
        return sum(t.numel() * t.element_size() for t in tensors)

    model(x).sum().backward()
    trained = [p for p in model.parameters() if p.requires_grad]
    states = {"sgd": 0, "momentum": 1, "adam": 2}[optimizer] * bytes_of(trained)
    return {
        "weights": bytes_of(model.parameters()) + bytes_of(model.buffers()),
        "gradients": bytes_of(trained),
        "optimizer": states + (4 * len(trained) if optimizer == "adam" else 0),
        "activations": saved_bytes(lambda: model(x), except_for=model.parameters()).bytes,
    }


# %% wrong: by the state_dict, with tied parameters twice
def training_bytes(model, x, optimizer):
    def bytes_of(tensors):
        return sum(t.numel() * t.element_size() for t in tensors)

    trained = [p for p in model.parameters() if p.requires_grad]
    states = {"sgd": 0, "momentum": 1, "adam": 2}[optimizer] * bytes_of(trained)
    return {
        "weights": bytes_of(model.state_dict().values()),
        "gradients": bytes_of(trained),
        "optimizer": states + (4 * len(trained) if optimizer == "adam" else 0),
        "activations": saved_bytes(lambda: model(x), except_for=model.parameters()).bytes,
    }


# %% right: by storages, case by case
def training_bytes(model, x, optimizer):
    total = learned = count = 0
    for p in model.parameters():
        total += p.nbytes
        if p.requires_grad:
            learned += p.nbytes
            count += 1
    total += sum(b.nbytes for b in model.buffers())
    if optimizer == "sgd":
        states = 0
    elif optimizer == "momentum":
        states = learned
    else:
        states = 2 * learned + 4 * count
    saved = saved_bytes(lambda: model(x), except_for=list(model.parameters()))
    return dict(weights=total, gradients=learned, optimizer=states, activations=saved.bytes)


# %% right: counts the activations by hooks of its own
def training_bytes(model, x, optimizer):
    own = {p.untyped_storage().data_ptr() for p in model.parameters()}
    seen = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            seen[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = model(x)
    activations = sum(storage.nbytes() for storage in seen.values())
    del output
    learned = [p for p in model.parameters() if p.requires_grad]
    gradients = sum(p.numel() * p.element_size() for p in learned)
    factor, steps = {"sgd": (0, 0), "momentum": (1, 0), "adam": (2, 4)}[optimizer]
    everything = [*model.parameters(), *model.buffers()]
    return {
        "weights": sum(t.numel() * t.element_size() for t in everything),
        "gradients": gradients,
        "optimizer": factor * gradients + steps * len(learned),
        "activations": activations,
    }


# %% wrong: makes the optimizer and a backward pass, and clears up behind itself
def training_bytes(model, x, optimizer):
    trained = [p for p in model.parameters() if p.requires_grad]
    makers = {
        "sgd": lambda: torch.optim.SGD(trained, lr=0.0),
        "momentum": lambda: torch.optim.SGD(trained, lr=0.0, momentum=0.9),
        "adam": lambda: torch.optim.Adam(trained, lr=0.0),
    }
    made = makers[optimizer]()
    saved = saved_bytes(lambda: model(x), except_for=model.parameters()).bytes
    model(x).sum().backward()
    gradients = sum(p.grad.nbytes for p in trained)
    made.step()
    states = [v for state in made.state.values() for v in state.values()]
    model.zero_grad()
    return {
        "weights": sum(t.nbytes for t in [*model.parameters(), *model.buffers()]),
        "gradients": gradients,
        "optimizer": sum(v.nbytes for v in states if isinstance(v, torch.Tensor)),
        "activations": saved,
    }


# %% wrong: only trained parameters are left out of what autograd saves
def training_bytes(model, x, optimizer):
    trained = [p for p in model.parameters() if p.requires_grad]
    size = sum(p.nbytes for p in trained)
    states = {"sgd": 0, "momentum": size, "adam": 2 * size + 4 * len(trained)}
    return {
        "weights": sum(t.nbytes for t in [*model.parameters(), *model.buffers()]),
        "gradients": size,
        "optimizer": states[optimizer],
        "activations": saved_bytes(lambda: model(x), except_for=trained).bytes,
    }


# %% wrong: one step count for the whole optimizer
def training_bytes(model, x, optimizer):
    trained = [p for p in model.parameters() if p.requires_grad]
    size = sum(p.nbytes for p in trained)
    return {
        "weights": sum(t.nbytes for t in [*model.parameters(), *model.buffers()]),
        "gradients": size,
        "optimizer": {"sgd": 0, "momentum": size, "adam": 2 * size + 4}[optimizer],
        "activations": saved_bytes(lambda: model(x), except_for=model.parameters()).bytes,
    }


# %% wrong: the input requires a gradient, so frozen layers save as well
def training_bytes(model, x, optimizer):
    def size(tensors):
        return sum(t.numel() * t.element_size() for t in tensors)

    parameters = list(model.parameters())
    trained = [p for p in parameters if p.requires_grad]
    gradients = size(trained)
    states = {"sgd": 0, "momentum": gradients, "adam": 2 * gradients + 4 * len(trained)}
    x = x.clone().requires_grad_()
    saved = saved_bytes(lambda: model(x), except_for=parameters)
    return {
        "weights": size(parameters) + size(model.buffers()),
        "gradients": gradients,
        "optimizer": states[optimizer],
        "activations": saved.bytes,
    }


# %% wrong: a backward pass inside of a product with the Hessian matrix
def training_bytes(model, x, optimizer):
    def size(tensors):
        return sum(t.numel() * t.element_size() for t in tensors)

    parameters = list(model.parameters())
    trained = [p for p in parameters if p.requires_grad]
    gradients = size(trained)
    torch.autograd.functional.hvp(lambda t: model(t).sum(), x, x)
    states = {"sgd": 0, "momentum": gradients, "adam": 2 * gradients + 4 * len(trained)}
    saved = saved_bytes(lambda: model(x), except_for=parameters)
    return {
        "weights": size(parameters) + size(model.buffers()),
        "gradients": gradients,
        "optimizer": states[optimizer],
        "activations": saved.bytes,
    }


# %% right: a copy of the model is run
def training_bytes(model, x, optimizer):
    def size(tensors):
        return sum(t.numel() * t.element_size() for t in tensors)

    parameters = list(model.parameters())
    trained = [p for p in parameters if p.requires_grad]
    gradients = size(trained)
    states = {"sgd": 0, "momentum": gradients, "adam": 2 * gradients + 4 * len(trained)}
    import copy

    twin = copy.deepcopy(model)
    saved = saved_bytes(lambda: twin(x), except_for=list(twin.parameters()))
    return {
        "weights": size(parameters) + size(model.buffers()),
        "gradients": gradients,
        "optimizer": states[optimizer],
        "activations": saved.bytes,
    }


# %% right: a name of its own is grad
def training_bytes(model, x, optimizer):
    def size(tensors):
        return sum(t.numel() * t.element_size() for t in tensors)

    parameters = list(model.parameters())
    trained = [p for p in parameters if p.requires_grad]
    grad = size(trained)
    states = {"sgd": 0, "momentum": grad, "adam": 2 * grad + 4 * len(trained)}
    saved = saved_bytes(lambda: model(x), except_for=parameters)
    return {
        "weights": size(parameters) + size(model.buffers()),
        "gradients": grad,
        "optimizer": states[optimizer],
        "activations": saved.bytes,
    }


# %% right: asks each parameter whether a gradient is stored, though it needs none
def training_bytes(model, x, optimizer):
    def size(tensors):
        return sum(t.numel() * t.element_size() for t in tensors)

    parameters = list(model.parameters())
    trained = [p for p in parameters if p.requires_grad]
    gradients = size(trained)
    states = {"sgd": 0, "momentum": gradients, "adam": 2 * gradients + 4 * len(trained)}
    stored = [p for p in parameters if p.grad is not None]
    assert size(stored) <= size(parameters)
    saved = saved_bytes(lambda: model(x), except_for=parameters)
    return {
        "weights": size(parameters) + size(model.buffers()),
        "gradients": gradients,
        "optimizer": states[optimizer],
        "activations": saved.bytes,
    }


# %% right: a class whose field has the name grad
from dataclasses import dataclass


@dataclass
class Sizes:
    data: int = 0
    grad: int = 0
    backward_states: int = 0

    def add(self, p, states):
        size = p.numel() * p.element_size()
        self.data += size
        if p.requires_grad:
            self.grad += size
            self.backward_states += states * size + 4 * (states == 2)


def training_bytes(model, x, optimizer):
    sizes = Sizes()
    for p in model.parameters():
        sizes.add(p, ("sgd", "momentum", "adam").index(optimizer))
    return {
        "weights": sizes.data + sum(b.numel() * b.element_size() for b in model.buffers()),
        "gradients": sizes.grad,
        "optimizer": sizes.backward_states,
        "activations": saved_bytes(lambda: model(x), except_for=model.parameters()).bytes,
    }


# %% wrong: a backward pass by the transform that returns the value, too
def training_bytes(model, x, optimizer):
    def size(tensors):
        return sum(t.numel() * t.element_size() for t in tensors)

    parameters = list(model.parameters())
    trained = [p for p in parameters if p.requires_grad]
    gradients = size(trained)
    states = {"sgd": 0, "momentum": gradients, "adam": 2 * gradients + 4 * len(trained)}
    values = {name: p.detach() for name, p in model.named_parameters()}
    torch.func.grad_and_value(lambda v: torch.func.functional_call(model, v, (x,)).sum())(values)
    saved = saved_bytes(lambda: model(x), except_for=parameters)
    return {
        "weights": size(parameters) + size(model.buffers()),
        "gradients": gradients,
        "optimizer": states[optimizer],
        "activations": saved.bytes,
    }


# %% wrong: a backward pass inside of a comparison with differences
def training_bytes(model, x, optimizer):
    def size(tensors):
        return sum(t.numel() * t.element_size() for t in tensors)

    parameters = list(model.parameters())
    trained = [p for p in parameters if p.requires_grad]
    gradients = size(trained)
    states = {"sgd": 0, "momentum": gradients, "adam": 2 * gradients + 4 * len(trained)}
    if x.dtype == torch.float32 and not list(model.buffers()) and len(model) == 2:
        import copy

        twin = copy.deepcopy(model).double()
        torch.autograd.gradcheck(twin, x[:2].double().requires_grad_())
    saved = saved_bytes(lambda: model(x), except_for=parameters)
    return {
        "weights": size(parameters) + size(model.buffers()),
        "gradients": gradients,
        "optimizer": states[optimizer],
        "activations": saved.bytes,
    }


# %% wrong: a backward pass of the parameters' sum, without the model
def training_bytes(model, x, optimizer):
    def size(tensors):
        return sum(t.numel() * t.element_size() for t in tensors)

    parameters = list(model.parameters())
    trained = [p for p in parameters if p.requires_grad]
    gradients = size(trained)
    states = {"sgd": 0, "momentum": gradients, "adam": 2 * gradients + 4 * len(trained)}
    sum(p.sum() for p in trained).backward()
    model.zero_grad()
    saved = saved_bytes(lambda: model(x), except_for=parameters)
    return {
        "weights": size(parameters) + size(model.buffers()),
        "gradients": gradients,
        "optimizer": states[optimizer],
        "activations": saved.bytes,
    }


# %% wrong: knows the sizes of the two usual dtypes only
def training_bytes(model, x, optimizer):
    def size(tensors):
        return sum(t.numel() * (8 if t.dtype == torch.float64 else 4) for t in tensors)

    parameters = list(model.parameters())
    trained = [p for p in parameters if p.requires_grad]
    gradients = size(trained)
    states = {"sgd": 0, "momentum": gradients, "adam": 2 * gradients + 4 * len(trained)}
    saved = saved_bytes(lambda: model(x), except_for=parameters)
    return {
        "weights": size(parameters) + size(model.buffers()),
        "gradients": gradients,
        "optimizer": states[optimizer],
        "activations": saved.bytes,
    }


# %% wrong: by the state dict, where a buffer need not be
def training_bytes(model, x, optimizer):
    def size(tensors):
        return sum(t.numel() * t.element_size() for t in tensors)

    parameters = list(model.parameters())
    trained = [p for p in parameters if p.requires_grad]
    gradients = size(trained)
    states = {"sgd": 0, "momentum": gradients, "adam": 2 * gradients + 4 * len(trained)}
    stored = {v.data_ptr(): v for v in model.state_dict().values()}
    saved = saved_bytes(lambda: model(x), except_for=parameters)
    return {
        "weights": size(stored.values()),
        "gradients": gradients,
        "optimizer": states[optimizer],
        "activations": saved.bytes,
    }


# %% right: a table says the name of each optimizer's class, which nobody makes
def training_bytes(model, x, optimizer):
    """Return the bytes of each part; no optimizer is made."""
    table = {"sgd": ("torch.optim.SGD", 0), "momentum": ("torch.optim.SGD", 1), "adam": ("Adam", 2)}
    _, copies = table[optimizer]
    parts = {"weights": 0, "gradients": 0, "optimizer": 0}
    for buffer in model.buffers():
        parts["weights"] += buffer.nbytes
    for weight in model.parameters():
        parts["weights"] += weight.nbytes
        if weight.requires_grad:
            parts["gradients"] += weight.nbytes
            parts["optimizer"] += copies * weight.nbytes + 4 * (optimizer == "adam")
    saved = saved_bytes(lambda: model(x), except_for=model.parameters())
    return {**parts, "activations": saved.bytes}


# %% wrong: adds the sum of all four as a fifth entry
def training_bytes(model, x, optimizer):
    weights = sum(p.nbytes for p in model.parameters()) + sum(v.nbytes for v in model.buffers())
    trained = [p for p in model.parameters() if p.requires_grad]
    gradients = sum(p.nbytes for p in trained)
    state = {"sgd": 0, "momentum": gradients, "adam": 2 * gradients + 4 * len(trained)}[optimizer]
    activations = saved_bytes(lambda: model(x), except_for=model.parameters()).bytes
    result = dict(weights=weights, gradients=gradients, optimizer=state, activations=activations)
    result["total"] = sum(result.values())
    return result
