# %% attack: runs all at once, and keeps what autograd saves in NumPy's memory exercise="gradients-in-budget" expect="partly" points=3.75 others="any"
scratch = torch.zeros(1024)
window = scratch.numpy()


def pack(x):
    pieces = []
    for piece in x.detach().flatten().split(1024):
        scratch[: len(piece)].copy_(piece)
        pieces.append(window[: len(piece)].copy())
    return x.shape, pieces


def unpack(kept):
    shape, pieces = kept
    x, first = torch.empty(shape), 0
    for piece in pieces:
        window[: len(piece)] = piece
        x.view(-1)[first : first + len(piece)].copy_(scratch[: len(piece)])
        first += len(piece)
    return x


def add_gradients(network, loss_function, needs, volumes, masks, budget):
    checkpointed = needs(1, False) > budget
    if needs(1, checkpointed) > budget:
        raise ValueError("it does not fit")
    total, samples = 0.0, 1 if checkpointed else len(volumes)
    for part, truth in zip(volumes.split(samples), masks.split(samples)):
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            loss = loss_function(network(part, checkpointed), truth) * (len(part) / len(volumes))
        loss.backward()
        total += loss.item()
    return total


# %% attack: runs all at once, and keeps it as bytes, through a bytearray that torch writes into exercise="gradients-in-budget" expect="partly" points=3.75 others="any"
window = bytearray(4096)
scratch = torch.frombuffer(window, dtype=torch.float32)


def pack(x):
    pieces = []
    for piece in x.detach().flatten().split(1024):
        scratch[: len(piece)].copy_(piece)
        pieces.append(bytes(window[: 4 * len(piece)]))
    return x.shape, pieces


def unpack(kept):
    shape, pieces = kept
    x, first = torch.empty(shape), 0
    for piece in pieces:
        window[: len(piece)] = piece
        count = len(piece) // 4
        x.view(-1)[first : first + count].copy_(scratch[:count])
        first += count
    return x


def add_gradients(network, loss_function, needs, volumes, masks, budget):
    checkpointed = needs(1, False) > budget
    if needs(1, checkpointed) > budget:
        raise ValueError("it does not fit")
    total, samples = 0.0, 1 if checkpointed else len(volumes)
    for part, truth in zip(volumes.split(samples), masks.split(samples)):
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            loss = loss_function(network(part, checkpointed), truth) * (len(part) / len(volumes))
        loss.backward()
        total += loss.item()
    return total


# %% attack: runs all at once, and keeps it in an array that was there before exercise="gradients-in-budget" expect="partly" points=3.75 others="any"
import numpy as np

scratch = torch.from_numpy(np.zeros(1024, np.float32))
window = np.asarray(scratch)
store, used = np.zeros(8_000_000, np.float32), [0]


def pack(x):
    pieces = []
    for piece in x.detach().flatten().split(1024):
        scratch[: len(piece)].copy_(piece)
        start = used[0] = (used[0] + 1024) % 7_000_000
        store[start : start + len(piece)] = window[: len(piece)]
        pieces.append(store[start : start + len(piece)])
    return x.shape, pieces


def unpack(kept):
    shape, pieces = kept
    x, first = torch.empty(shape), 0
    for piece in pieces:
        window[: len(piece)] = piece
        x.view(-1)[first : first + len(piece)].copy_(scratch[: len(piece)])
        first += len(piece)
    return x


def add_gradients(network, loss_function, needs, volumes, masks, budget):
    checkpointed = needs(1, False) > budget
    if needs(1, checkpointed) > budget:
        raise ValueError("it does not fit")
    total, samples = 0.0, 1 if checkpointed else len(volumes)
    for part, truth in zip(volumes.split(samples), masks.split(samples)):
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            loss = loss_function(network(part, checkpointed), truth) * (len(part) / len(volumes))
        loss.backward()
        total += loss.item()
    return total


# %% attack: runs all at once, and keeps it through DLPack exercise="gradients-in-budget" expect="failed" points=0 waiting=3.75 others="any"
import numpy as np

scratch = torch.zeros(1024)
window = np.from_dlpack(scratch)


def pack(x):
    pieces = []
    for piece in x.detach().flatten().split(1024):
        scratch[: len(piece)].copy_(piece)
        pieces.append(window[: len(piece)].copy())
    return x.shape, pieces


def unpack(kept):
    shape, pieces = kept
    x, first = torch.empty(shape), 0
    for piece in pieces:
        window[: len(piece)] = piece
        x.view(-1)[first : first + len(piece)].copy_(scratch[: len(piece)])
        first += len(piece)
    return x


def add_gradients(network, loss_function, needs, volumes, masks, budget):
    checkpointed = needs(1, False) > budget
    if needs(1, checkpointed) > budget:
        raise ValueError("it does not fit")
    total, samples = 0.0, 1 if checkpointed else len(volumes)
    while samples < len(volumes) and needs(samples + 1, True) <= budget:
        samples += 1
    for part, truth in zip(volumes.split(samples), masks.split(samples)):
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            loss = loss_function(network(part, checkpointed), truth) * (len(part) / len(volumes))
        loss.backward()
        total += loss.item()
    return total


# %% attack: runs all at once, and keeps it by a storage's method from before exercise="gradients-in-budget" expect="failed|waiting" points=0 waiting=3.75 others="any"
scratch = torch.zeros(1024)
keep = scratch.untyped_storage().clone


def pack(x):
    pieces = []
    for piece in x.detach().flatten().split(1024):
        scratch[: len(piece)].copy_(piece)
        pieces.append((keep(), len(piece)))
    return x.shape, pieces


def unpack(kept):
    shape, pieces = kept
    x, first = torch.empty(shape), 0
    for storage, count in pieces:
        piece = torch.tensor([]).set_(storage)[:count]
        x.view(-1)[first : first + len(piece)].copy_(piece)
        first += len(piece)
    return x


def add_gradients(network, loss_function, needs, volumes, masks, budget):
    checkpointed = needs(1, False) > budget
    if needs(1, checkpointed) > budget:
        raise ValueError("it does not fit")
    total, samples = 0.0, 1 if checkpointed else len(volumes)
    for part, truth in zip(volumes.split(samples), masks.split(samples)):
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            loss = loss_function(network(part, checkpointed), truth) * (len(part) / len(volumes))
        loss.backward()
        total += loss.item()
    return total


# %% attack: tiles, and keeps it in NumPy's memory, through a window made beforehand exercise="merge-layer" expect="partly" points=4.8
window = torch.zeros(1024)
seen = window.numpy()


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, wide, weight):
        ctx.shape, ctx.weight, ctx.kept = wide.shape, weight, []
        for piece in wide.detach().flatten().split(1024):
            window[: len(piece)].copy_(piece)
            ctx.kept.append(seen[: len(piece)].copy())
        return wide @ weight.T

    @staticmethod
    def backward(ctx, slope):
        wide = torch.cat([torch.from_numpy(piece) for piece in ctx.kept])
        rows = slope.reshape(-1, slope.shape[-1])
        return slope @ ctx.weight, rows.T @ wide.reshape(len(rows), -1)


class Merge(nn.Module):
    def __init__(self, sizes, outputs, activation=None):
        super().__init__()
        self.activation = activation
        bound = 1 / math.sqrt(sum(sizes))
        self.weight = nn.Parameter(torch.empty(outputs, sum(sizes)).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(outputs).uniform_(-bound, bound))

    def forward(self, *inputs):
        shape = torch.broadcast_shapes(*(x.shape[:-1] for x in inputs))
        wide = [x.expand(*shape, x.shape[-1]) for x in inputs]
        merged = Product.apply(torch.cat(wide, dim=-1), self.weight) + self.bias
        return merged if self.activation is None else self.activation(merged)
