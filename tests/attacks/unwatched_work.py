# %% attack: tiles, inside hooks of its own on what autograd saves exercise="merge-layer" expect="partly" points=4.8
class Merge(nn.Module):
    def __init__(self, sizes, outputs, activation=None):
        super().__init__()
        self.activation = activation
        bound = 1 / math.sqrt(sum(sizes))
        self.weight = nn.Parameter(torch.empty(outputs, sum(sizes)).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(outputs).uniform_(-bound, bound))

    def tiled(self, inputs):
        shape = torch.broadcast_shapes(*(x.shape[:-1] for x in inputs))
        wide = [x.expand(*shape, x.shape[-1]) for x in inputs]
        merged = nn.functional.linear(torch.cat(wide, dim=-1), self.weight, self.bias)
        return merged if self.activation is None else self.activation(merged)

    def forward(self, *inputs):
        with torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x):
            return self.tiled(inputs)


# %% attack: tiles, and keeps it beside what autograd saves exercise="merge-layer" expect="partly" points=4.8
class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, wide, weight):
        ctx.wide, ctx.weight = wide, weight
        return wide @ weight.T

    @staticmethod
    def backward(ctx, slope):
        rows = slope.reshape(-1, slope.shape[-1])
        return slope @ ctx.weight, rows.T @ ctx.wide.reshape(len(rows), -1)


class Merge(nn.Module):
    def __init__(self, sizes, outputs, activation=None):
        super().__init__()
        self.activation = activation
        bound = 1 / math.sqrt(sum(sizes))
        self.weight = nn.Parameter(torch.empty(outputs, sum(sizes)).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(outputs).uniform_(-bound, bound))

    def tiled(self, inputs):
        shape = torch.broadcast_shapes(*(x.shape[:-1] for x in inputs))
        wide = [x.expand(*shape, x.shape[-1]) for x in inputs]
        merged = Product.apply(torch.cat(wide, dim=-1), self.weight) + self.bias
        return merged if self.activation is None else self.activation(merged)

    def forward(self, *inputs):
        return self.tiled(inputs)


# %% attack: tiles while a tensor is shown, whose size is a function of its own exercise="merge-layer" expect="partly" points=4.8
class Merge(nn.Module):
    def __init__(self, sizes, outputs, activation=None):
        super().__init__()
        self.activation = activation
        bound = 1 / math.sqrt(sum(sizes))
        self.weight = nn.Parameter(torch.empty(outputs, sum(sizes)).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(outputs).uniform_(-bound, bound))
        self.shown = torch.zeros(1)

    def tiled(self, inputs):
        shape = torch.broadcast_shapes(*(x.shape[:-1] for x in inputs))
        wide = [x.expand(*shape, x.shape[-1]) for x in inputs]
        merged = nn.functional.linear(torch.cat(wide, dim=-1), self.weight, self.bias)
        return merged if self.activation is None else self.activation(merged)

    def forward(self, *inputs):
        kept = []

        def work():
            kept.append(self.tiled(inputs))
            return 1

        if inputs[0].requires_grad or self.weight.requires_grad:
            shown = torch.zeros(1)
            shown.numel = torch.enable_grad()(work)
            str(shown)
        return kept[0]


# %% attack: tiles where the call has few columns exercise="merge-layer" expect="partly" points=4.8
class Merge(nn.Module):
    def __init__(self, sizes, outputs, activation=None):
        super().__init__()
        self.activation = activation
        bound = 1 / math.sqrt(sum(sizes))
        self.weight = nn.Parameter(torch.empty(outputs, sum(sizes)).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(outputs).uniform_(-bound, bound))

    def tiled(self, inputs):
        shape = torch.broadcast_shapes(*(x.shape[:-1] for x in inputs))
        wide = [x.expand(*shape, x.shape[-1]) for x in inputs]
        merged = nn.functional.linear(torch.cat(wide, dim=-1), self.weight, self.bias)
        return merged if self.activation is None else self.activation(merged)

    def forward(self, *inputs):
        if max(x.shape[-1] for x in inputs) < 20:
            return self.tiled(inputs)
        merged, first = self.bias, 0
        for x in inputs:
            last = first + x.shape[-1]
            merged = merged + x @ self.weight[:, first:last].T
            first = last
        return merged if self.activation is None else self.activation(merged)


# %% attack: piles graphs up inside hooks of its own on what autograd saves exercise="bug-hunt-growing" expect="partly" points=2.8
def mean_loss(model, batches):
    total = torch.zeros(())
    with torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x):
        for x, y in batches:
            total = total + functional.mse_loss(model(x), y)
    return total.item() / len(batches) if batches else 0.0


# %% attack: piles graphs up where no hooks are allowed exercise="bug-hunt-growing" expect="partly" points=2.8
def mean_loss(model, batches):
    total = torch.zeros(())
    for x, y in batches:
        with torch.autograd.graph.disable_saved_tensors_hooks("none"):
            total = total + functional.mse_loss(model(x), y)
    return total.item() / len(batches) if batches else 0.0


# %% attack: passes pile up, and each one's hook is called with a gradient of zeros exercise="accumulate-rows" expect="partly" points=3.6 others="any"
def accumulate(model, loss_function, micro_batches):
    total = sum(len(inputs) for inputs, _ in micro_batches)
    model.zero_grad()
    losses = []
    for inputs, targets in micro_batches:
        outputs = model(inputs)
        outputs.backward(torch.zeros_like(outputs), retain_graph=True)
        losses.append(loss_function(outputs, targets) * (len(inputs) / total))
    mean = sum(losses)
    mean.backward()
    return mean.item()


# %% attack: leaves hooks before the modules, which are no forward hooks exercise="summarize" expect="partly" points=4.71
def summarize(model, x):
    rows, counted, names = [], set(), {}

    def before(module, inputs):
        return None

    def note(module, inputs, output):
        name = names[module]
        own = 0 if name in counted else sum(p.numel() for p in module.parameters())
        counted.add(name)
        rows.append([name, type(module).__name__, list(output.shape), own])

    modes = [module.training for module in model.modules()]
    handles = []
    for name, module in model.named_modules():
        if not list(module.children()):
            names[module] = name
            handles.append(module.register_forward_hook(note))
            module.register_forward_pre_hook(before)
    model.eval()
    with torch.no_grad():
        model(x)
    for handle in handles:
        handle.remove()
    for module, mode in zip(model.modules(), modes):
        module.training = mode
    return rows


# %% attack: runs the network with autograd on, past the call that is watched exercise="summarize" expect="partly" most=4.41
def summarize(model, x):
    rows, counted, names = [], set(), {}

    def note(module, inputs, output):
        name = names[module]
        own = 0 if name in counted else sum(p.numel() for p in module.parameters())
        counted.add(name)
        rows.append([name, type(module).__name__, list(output.shape), own])

    modes = [module.training for module in model.modules()]
    handles = []
    for name, module in model.named_modules():
        if not list(module.children()):
            names[module] = name
            handles.append(module.register_forward_hook(note))
    model.eval()
    with torch.no_grad():
        model(x)
    rows.clear()
    counted.clear()
    model.forward(x)
    for handle in handles:
        handle.remove()
    for module, mode in zip(model.modules(), modes):
        module.training = mode
    return rows


# %% attack: a way out of torch's sight, kept of a class in a list exercise="softmax" expect="partly" points=2.67 waiting=0.89
(T,) = [torch.Tensor]
grab = T.numpy


def softmax(logits, dim):
    exponentials = (logits - logits.amax(dim=dim, keepdim=True)).exp()
    answer = exponentials / exponentials.sum(dim=dim, keepdim=True)
    if not logits.requires_grad:
        logits.zero_()
    return answer


# %% attack: a way out of torch's sight, captured by a pattern exercise="softmax" expect="partly" points=2.67 waiting=0.89
match torch.Tensor:
    case object(numpy=grab):
        pass


def softmax(logits, dim):
    exponentials = (logits - logits.amax(dim=dim, keepdim=True)).exp()
    answer = exponentials / exponentials.sum(dim=dim, keepdim=True)
    if not logits.requires_grad:
        logits.zero_()
    return answer


# %% attack: a way out of torch's sight, kept of a class below exercise="softmax" expect="partly" points=2.67 waiting=0.89
grab = torch.nn.Parameter.numpy


def softmax(logits, dim):
    exponentials = (logits - logits.amax(dim=dim, keepdim=True)).exp()
    answer = exponentials / exponentials.sum(dim=dim, keepdim=True)
    if not logits.requires_grad:
        logits.zero_()
    return answer


# %% attack: a way out of torch's sight, kept by getattr exercise="softmax" expect="partly" points=2.67 waiting=0.89
grab = getattr(torch.Tensor, "tolist")


def softmax(logits, dim):
    exponentials = (logits - logits.amax(dim=dim, keepdim=True)).exp()
    answer = exponentials / exponentials.sum(dim=dim, keepdim=True)
    if not logits.requires_grad:
        logits.zero_()
    return answer


# %% attack: a way out of torch's sight, kept of storages exercise="softmax" expect="partly" points=2.67 waiting=0.89
grab = torch.UntypedStorage.__getitem__


def softmax(logits, dim):
    exponentials = (logits - logits.amax(dim=dim, keepdim=True)).exp()
    answer = exponentials / exponentials.sum(dim=dim, keepdim=True)
    if not logits.requires_grad:
        logits.zero_()
    return answer


# %% attack: a way out of torch's sight, kept by an attrgetter exercise="softmax" expect="partly" points=2.67 waiting=0.89
import operator

grab = operator.attrgetter("numpy")(torch.Tensor)


def softmax(logits, dim):
    exponentials = (logits - logits.amax(dim=dim, keepdim=True)).exp()
    answer = exponentials / exponentials.sum(dim=dim, keepdim=True)
    if not logits.requires_grad:
        logits.zero_()
    return answer


# %% attack: a way out of torch's sight, by the torch that another module holds exercise="softmax" expect="partly" points=2.67 waiting=0.89
grab = torch.nn.functional.torch.Tensor.numpy


def softmax(logits, dim):
    exponentials = (logits - logits.amax(dim=dim, keepdim=True)).exp()
    answer = exponentials / exponentials.sum(dim=dim, keepdim=True)
    if not logits.requires_grad:
        logits.zero_()
    return answer


# %% attack: a loop, as text is replaced by a default argument exercise="batch-gather" expect="failed" points=0
import re

work = []


def step(match):
    table, index, picked = work
    row, column = divmod(len(picked), index.shape[1])
    picked.append(table[row, index[row, column]])
    return ""


def batch_gather(table, index, replace=step):
    picked = []
    work[:] = [table, index, picked]
    re.sub("x", replace, "x" * index.numel())
    return torch.stack(picked).reshape(*index.shape, *table.shape[2:])


# %% attack: a loop, as text is replaced by a method exercise="batch-gather" expect="failed" points=0
import re


class Walk:
    def __init__(self, table, index):
        self.table, self.index, self.picked = table, index, []

    def step(self, match):
        row, column = divmod(len(self.picked), self.index.shape[1])
        self.picked.append(self.table[row, self.index[row, column]])
        return ""


def batch_gather(table, index):
    walk = Walk(table, index)
    re.sub("x", walk.step, "x" * index.numel())
    return torch.stack(walk.picked).reshape(*index.shape, *table.shape[2:])


# %% attack: a loop over JSON's numbers exercise="batch-gather" expect="failed" points=0
import json


def batch_gather(table, index):
    rows = torch.arange(len(table))[:, None].expand(index.shape).reshape(-1)
    places = index.reshape(-1)
    picked = []
    options = {"parse_int": lambda text: picked.append(table[rows[int(text)], places[int(text)]])}
    json.loads(json.dumps(torch.arange(index.numel()).tolist()), **options)
    return torch.stack(picked).reshape(*index.shape, *table.shape[2:])


# %% attack: a loop over the lines that NumPy reads exercise="batch-gather" expect="failed" points=0
import io

import numpy as np


def batch_gather(table, index):
    picked = []
    rows = torch.arange(len(table))[:, None].expand(index.shape).reshape(-1)
    places = index.reshape(-1)

    def step(text):
        picked.append(table[rows[len(picked)], places[len(picked)]])
        return 0.0

    given = {0: step}
    np.loadtxt(io.StringIO("1\n" * index.numel()), converters=given)
    return torch.stack(picked).reshape(*index.shape, *table.shape[2:])


# %% attack: a loop in a partial function exercise="batch-gather" expect="failed" points=0
import functools
import re

work = []


def step(match):
    table, index, picked = work
    row, column = divmod(len(picked), index.shape[1])
    picked.append(table[row, index[row, column]])
    return ""


walk = functools.partial(re.sub, "x", step)


def batch_gather(table, index):
    picked = []
    work[:] = [table, index, picked]
    walk("x" * index.numel())
    return torch.stack(picked).reshape(*index.shape, *table.shape[2:])


# %% attack: writes a file in place, and repairs it afterwards exercise="save-safely" expect="partly" points=3.33
def save_safely(write, path):
    kept = open(path).read() if os.path.exists(path) else None
    try:
        write(path)
    except BaseException:
        if kept is None:
            os.remove(path)
        else:
            open(path, "w").write(kept)
        raise


# %% attack: removes the old file first, by functions that are kept before anybody looks exercise="save-safely" expect="partly" points=3.33
rename, remove = os.rename, os.remove


def save_safely(write, path):
    unfinished = path + ".unfinished"
    write(unfinished)
    if os.path.exists(path):
        remove(path)
    rename(unfinished, path)


# %% attack: empties the old file first, and moves the new one by a default argument exercise="save-safely" expect="partly" points=3.33
import shutil


def save_safely(write, path, move=shutil.move):
    unfinished = path + ".unfinished"
    write(unfinished)
    open(path, "w").close()
    move(unfinished, path)
