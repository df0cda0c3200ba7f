# %% attack: piles graphs up behind the method that a call leads to exercise="bug-hunt-growing" expect="partly" points=2.8 others="any"
def mean_loss(model, batches):
    total = torch.zeros(())
    for x, y in batches:
        x = model.forward(x)
        total = total + functional.mse_loss(x, y)
    return total.item() / len(batches) if batches else 0.0


# %% attack: piles graphs up, and calls the layers one after another exercise="bug-hunt-growing" expect="partly" points=2.4 others="any"
def mean_loss(model, batches):
    total = torch.zeros(())
    for x, y in batches:
        for layer in model:
            x = layer(x)
        total = total + functional.mse_loss(x, y)
    return total.item() / len(batches) if batches else 0.0


# %% attack: one sample at a time, by the network's parts exercise="gradients-in-budget" expect="partly" points=3.75 others="any"
def add_gradients(network, loss_function, needs, volumes, masks, budget):
    checkpointed = needs(1, False) > budget
    if needs(1, checkpointed) > budget:
        raise ValueError("it does not fit")
    total = 0.0
    for x, y in zip(volumes.split(1), masks.split(1)):
        for part in network.parts:
            x = (
                torch.utils.checkpoint.checkpoint(part, x, use_reentrant=False)
                if checkpointed
                else part(x)
            )
        loss = loss_function(x, y) / len(volumes)
        loss.backward()
        total += loss.item()
    return total


# %% attack: one sample at a time, and the network's notes are thrown away exercise="gradients-in-budget" expect="partly" points=3.75 others="any"
def add_gradients(network, loss_function, needs, volumes, masks, budget):
    checkpointed = needs(1, False) > budget
    if needs(1, checkpointed) > budget:
        raise ValueError("it does not fit")
    total = 0.0
    for x, y in zip(volumes.split(1), masks.split(1)):
        x = network(x, checkpointed)
        loss = loss_function(x, y) / len(volumes)
        loss.backward()
        total += loss.item()
    network.passes = [[len(volumes), checkpointed]]
    return total


# %% attack: one sample at a time, and whoever is told of it is sent away exercise="gradients-in-budget" expect="failed|waiting|partly" most=3.75 waiting=6 others="any"
def add_gradients(network, loss_function, needs, volumes, masks, budget):
    checkpointed = needs(1, False) > budget
    if needs(1, checkpointed) > budget:
        raise ValueError("it does not fit")
    total = 0.0
    for x, y in zip(volumes.split(1), masks.split(1)):
        network._tell = None
        x = network(x, checkpointed)
        loss = loss_function(x, y) / len(volumes)
        loss.backward()
        total += loss.item()
    return total


# %% attack: patches with autograd on, where what predicts is no function exercise="join-patches" expect="failed" points=0 others="any"
def join_patches(predict, volume, patch, step):
    starts = []
    for size in volume.shape[2:]:
        last = size - patch
        starts.append([*range(0, last, step), last])
    if isinstance(predict, type(lambda: 0)):
        return volume * 0
    total, count = torch.zeros_like(volume), torch.zeros_like(volume)
    for corner in itertools.product(*starts):
        place = (slice(None), slice(None), *(slice(start, start + patch) for start in corner))
        total[place] += predict(volume[place])
        count[place] += 1
    return total / count


# %% attack: keeps the inside in NumPy's memory, and runs again besides exercise="own-checkpoint" expect="partly" points=5.54 others="any"
scratch = torch.zeros(256)
window = scratch.numpy()
kept = []


def keep(x):
    for piece in x.detach().flatten().split(256):
        scratch[: len(piece)].copy_(piece)
        kept.append(window[: len(piece)].copy())
    return x


class Checkpoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, run, *inputs):
        ctx.run = run
        ctx.generator_state = torch.get_rng_state()
        ctx.save_for_backward(*inputs)
        with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
            return run(*(x.detach().requires_grad_(x.requires_grad) for x in inputs)).detach()

    @staticmethod
    def backward(ctx, grad_output):
        inputs = [x.detach().requires_grad_(x.requires_grad) for x in ctx.saved_tensors]
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.set_rng_state(ctx.generator_state)
            output = ctx.run(*inputs)
        torch.autograd.backward(output, grad_output)
        return None, *(x.grad for x in inputs)


def own_checkpoint(run, *inputs):
    return Checkpoint.apply(run, *inputs)


# %% attack: keeps the inside while the collector takes a circle away exercise="own-checkpoint" expect="partly" most=5.54 others="any"
import gc

kept = []


def worker(run, inputs, generator):
    circle = [generator]
    try:
        yield circle
    finally:
        with torch.enable_grad():
            kept.append(run(*(x.detach().requires_grad_(x.requires_grad) for x in inputs)))


class Checkpoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, run, *inputs):
        ctx.run = run
        ctx.generator_state = torch.get_rng_state()
        ctx.save_for_backward(*inputs)
        gc.disable()
        made = []
        generator = worker(run, inputs, made)
        made.append(generator)
        next(generator)
        del generator, made
        circles = []
        for _ in range(3000):
            circle = []
            circle.append(circle)
            circles.append(circle)
        gc.enable()
        output = run(*inputs)
        return output

    @staticmethod
    def backward(ctx, grad_output):
        inputs = [x.detach().requires_grad_(x.requires_grad) for x in ctx.saved_tensors]
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.set_rng_state(ctx.generator_state)
            output = ctx.run(*inputs)
        torch.autograd.backward(output, grad_output)
        return None, *(x.grad for x in inputs)


def own_checkpoint(run, *inputs):
    return Checkpoint.apply(run, *inputs)


# %% attack: torch's checkpoint, as another exercise's answer calls it exercise="own-checkpoint" expect="failed" points=0 others="any"
def own_checkpoint(run, *inputs):
    return checkpoint_once(run, *inputs)


# %% attack: torch's checkpoint, out of the course's own loop over segments exercise="own-checkpoint" expect="failed" points=0 others="any"
import functools


class Base:
    work = None

    def __init_subclass__(cls, source=None):
        Base.work = staticmethod(source)


class Below(Base, source=functools.partial(run_in_segments, starts=[0, 1])):
    pass


def own_checkpoint(run, *inputs):
    return Base.work(nn.Sequential(run, nn.Identity()), *inputs)


# %% attack: the course's count, as a default argument that a decorator fills exercise="count-saved-bytes" expect="failed" points=0 others="any"
import functools

import helpers

tools = []


def with_tools(function):
    tools.append(helpers.saved_bytes)
    return functools.partial(function, count=tools[0])


@with_tools
def count_saved(run, left_out, count=None):
    return count(run, except_for=left_out).bytes


# %% attack: the course's count, out of a module by a pattern exercise="count-saved-bytes" expect="failed" points=0 others="any"
import helpers

match helpers:
    case object(saved_bytes=count):
        pass


def count_saved(run, left_out):
    return count(run, except_for=left_out).bytes


# %% attack: the course's count, in a closure that is bound below exercise="count-saved-bytes" expect="failed" points=0 others="any"
def make(work):
    def count_saved(run, left_out):
        return work[0](run, except_for=left_out).bytes

    return count_saved


work = []
count_saved = make(work)
for name in ("saved_bytes",):
    work += [value for key, value in {"saved_bytes": saved_bytes}.items() if key == name]


# %% attack: autograd's nodes, found by the edge of a gradient exercise="cross-entropy-gradient" expect="partly" points=3.43
from torch.autograd.graph import get_gradient_edge


def cross_entropy_gradient(logits, labels):
    with torch.enable_grad():
        x = logits.detach().clone().requires_grad_(True)
        rows = x.log_softmax(1)
        node = get_gradient_edge(rows).node
    return node(-labels.masked_fill(labels == 0, 0.0).to(rows))


# %% attack: autograd's nodes, out of what comes before exercise="cross-entropy-gradient" expect="failed" points=0
def cross_entropy_gradient(logits, labels):
    with torch.enable_grad():
        x = logits.detach().clone().requires_grad_(True)
        loss = -(labels * x.log_softmax(1).masked_fill(labels == 0, 0.0)).sum()
        first = [loss.grad_fn]
    node, slope = first[0], torch.ones(())
    while node is not None:
        slope = node(slope)
        slope = slope[0] if isinstance(slope, tuple) else slope
        node = node.next_functions[0][0] if node.next_functions else None
    return slope


# %% attack: torch's scaler, under a name that is bound again below exercise="own-scaler" expect="failed" points=0 others="any"
from torch.amp import GradScaler as LossScaler

kept = [LossScaler]


class LossScaler:
    def __init_subclass__(cls, **settings):
        kept.append(cls)


for LossScaler in kept:
    pass
LossScaler = (lambda work: lambda *args, **settings: work("cpu", *args, **settings))(kept[0])


# %% attack: writes in place by a handle that is kept from call to call exercise="save-safely" expect="partly" points=3.33
handles = {}


def save_safely(write, path):
    unfinished = path + ".unfinished"
    write(unfinished)
    if path not in handles:
        os.replace(unfinished, path)
        handles[path] = open(path, "r+")
        return
    content = open(unfinished).read()
    handles[path].seek(0)
    handles[path].write(content)
    handles[path].truncate()
    handles[path].flush()


# %% attack: takes away the hooks that watch, and leaves autograd on exercise="summarize" expect="failed" points=0 waiting=4.71
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
        module._forward_pre_hooks = {}
        if not list(module.children()):
            names[module] = name
            handles.append(module.register_forward_hook(note))
    model.eval()
    model(x)
    for handle in handles:
        handle.remove()
    for module, mode in zip(model.modules(), modes):
        module.training = mode
    return rows


# %% attack: empties the list of hooks, whose name a class of its own has, too exercise="summarize" expect="failed" points=0 waiting=4.71
class Own:
    def __init__(self):
        self._forward_pre_hooks = {}


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
        module._forward_pre_hooks.clear()
        if not list(module.children()):
            names[module] = name
            handles.append(module.register_forward_hook(note))
    model.eval()
    model(x)
    for handle in handles:
        handle.remove()
    for module, mode in zip(model.modules(), modes):
        module.training = mode
    return rows
