# %% wrong: adds up tensors as they come, so that a shared storage counts twice
def count_saved(run, left_out):
    known = {storage_of(tensor)[0] for tensor in left_out}
    total = 0

    def pack(tensor):
        nonlocal total
        place, size = storage_of(tensor)
        total += 0 if place in known else size
        return tensor.detach()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        run()
    return total


# %% wrong: counts the entries that a tensor shows, not the storage behind them
def count_saved(run, left_out):
    known = {storage_of(tensor)[0] for tensor in left_out}
    kept = {}

    def pack(tensor):
        place, _ = storage_of(tensor)
        if place not in known:
            kept[place] = tensor
        return tensor.detach()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        run()
    return sum(tensor.numel() * tensor.element_size() for tensor in kept.values())


# %% wrong: tells tensors apart as Python objects, so that parameters are never recognized
def count_saved(run, left_out):
    known = [id(tensor) for tensor in left_out]
    kept = {}

    def pack(tensor):
        if id(tensor) not in known:
            kept[storage_of(tensor)[0]] = tensor
        return tensor.detach()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        run()
    return sum(storage_of(tensor)[1] for tensor in kept.values())


# %% wrong: remembers places alone, which are given away again when a storage is freed
def count_saved(run, left_out):
    sizes = {}

    def pack(tensor):
        place, size = storage_of(tensor)
        sizes[place] = size
        return tensor.detach()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        run()
    for tensor in left_out:
        sizes.pop(storage_of(tensor)[0], None)
    return sum(sizes.values())


# %% wrong: leaves nothing out
def count_saved(run, left_out):
    kept = {}

    def pack(tensor):
        kept[storage_of(tensor)[0]] = tensor
        return tensor.detach()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        run()
    return sum(storage_of(tensor)[1] for tensor in kept.values())


# %% wrong: takes every entry for four bytes
def count_saved(run, left_out):
    known = {storage_of(tensor)[0] for tensor in left_out}
    kept = {}

    def pack(tensor):
        place, size = storage_of(tensor)
        if place not in known:
            kept[place] = (4 * size // tensor.element_size(), tensor)
        return tensor.detach()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        run()
    return sum(size for size, _ in kept.values())


# %% wrong: counts the storage of what run returns
def count_saved(run, left_out):
    return storage_of(run())[1]


# %% wrong: leaves out whatever requires a gradient and has no history, taking it for a parameter
def count_saved(run, left_out):
    kept = {}

    def pack(tensor):
        if tensor.grad_fn is None or not tensor.requires_grad:
            kept[storage_of(tensor)[0]] = tensor
        return tensor.detach()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        run()
    return sum(storage_of(tensor)[1] for tensor in kept.values())


# %% wrong: tells storages apart by where their tensors begin, which two parts of one do not share
def count_saved(run, left_out):
    known = {tensor.data_ptr() for tensor in left_out}
    kept = {}

    def pack(tensor):
        if tensor.data_ptr() not in known:
            kept[tensor.data_ptr()] = tensor.detach()
        return tensor.detach()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        run()
    return sum(storage_of(tensor)[1] for tensor in kept.values())


# %% wrong: leaves out every parameter, also those that are not in left_out
def count_saved(run, left_out):
    known = {storage_of(tensor)[0] for tensor in left_out}
    kept = {}

    def pack(tensor):
        place, _ = storage_of(tensor)
        if place not in known and not isinstance(tensor, torch.nn.Parameter):
            kept[place] = tensor.detach()
        return tensor.detach()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        run()
    return sum(storage_of(tensor)[1] for tensor in kept.values())


# %% wrong: leaves out every leaf that requires a gradient, also those that are not in left_out
def count_saved(run, left_out):
    known = {storage_of(tensor)[0] for tensor in left_out}
    kept = {}

    def pack(tensor):
        place, _ = storage_of(tensor)
        if place not in known and not (tensor.is_leaf and tensor.requires_grad):
            kept[place] = tensor.detach()
        return tensor.detach()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        run()
    return sum(storage_of(tensor)[1] for tensor in kept.values())


# %% wrong: calls the counter of the helpers
def count_saved(run, left_out):
    return saved_bytes(run, except_for=left_out).bytes


# %% wrong: counts what is still saved when the run is over, and misses what was freed before
def count_saved(run, left_out):
    known = {storage_of(tensor)[0] for tensor in left_out}
    saved = []

    def pack(tensor):
        kept = tensor.detach()
        saved.append(weakref.ref(kept))
        return kept

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = run()
    alive = [tensor for tensor in (reference() for reference in saved) if tensor is not None]
    sizes = dict(storage_of(tensor) for tensor in alive)
    del result
    return sum(size for place, size in sizes.items() if place not in known)


# %% right: a list of storages first, told apart by their places at the end
def count_saved(run, left_out):
    storages = []

    def keep(tensor):
        storages.append(tensor.untyped_storage())
        return tensor.detach()

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda kept: kept):
        run()
    sizes = {storage.data_ptr(): storage.nbytes() for storage in storages}
    for tensor in left_out:
        sizes.pop(tensor.untyped_storage().data_ptr(), None)
    return sum(sizes.values())


# %% right: a class with a method for the hook
class Ledger:
    def __init__(self, left_out):
        self.seen = set()
        self.held = list(left_out)
        self.total = 0
        for tensor in left_out:
            self.seen.add(storage_of(tensor)[0])

    def enter(self, tensor):
        place, size = storage_of(tensor)
        if place not in self.seen:
            self.seen.add(place)
            self.held.append(tensor.detach())
            self.total += size
        return tensor.detach()


def count_saved(run, left_out):
    ledger = Ledger(left_out)
    with torch.autograd.graph.saved_tensors_hooks(ledger.enter, lambda tensor: tensor):
        run()
    return ledger.total


# %% wrong: the counter of the helpers by another name
def count_saved(run, left_out):
    from operator import attrgetter

    import helpers

    return attrgetter("saved_bytes")(helpers)(run, except_for=left_out).bytes


# %% wrong: keeps the saved tensors themselves, whose graph then holds them for good
def count_saved(run, left_out):
    known = {storage_of(tensor)[0] for tensor in left_out}
    kept = {}

    def pack(tensor):
        place, _ = storage_of(tensor)
        if place not in known:
            kept[place] = tensor
        return tensor.detach()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        run()
    return sum(storage_of(tensor)[1] for tensor in kept.values())


# %% wrong: recognizes what is left out by its shape
def count_saved(run, left_out):
    shapes = {frozenset(tensor.shape) for tensor in left_out}
    kept = {}

    def pack(tensor):
        if frozenset(tensor.shape) not in shapes:
            kept[storage_of(tensor)[0]] = tensor.detach()
        return tensor.detach()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        run()
    return sum(storage_of(tensor)[1] for tensor in kept.values())


# %% wrong: recognizes what is left out by its values
def count_saved(run, left_out):
    known = [
        tensor for given in left_out for tensor in (given, given.mT if given.dim() > 1 else given)
    ]
    kept = {}

    def pack(tensor):
        if not any(torch.equal(tensor, other) for other in known):
            kept[storage_of(tensor)[0]] = tensor.detach()
        return tensor.detach()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        run()
    return sum(storage_of(tensor)[1] for tensor in kept.values())


# %% wrong: recognizes what is left out by its first entry's address, which a part does not share
def count_saved(run, left_out):
    known = {tensor.data_ptr() for tensor in left_out}
    kept = {}

    def pack(tensor):
        if tensor.data_ptr() not in known:
            kept[storage_of(tensor)[0]] = tensor.detach()
        return tensor.detach()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        run()
    return sum(storage_of(tensor)[1] for tensor in kept.values())


# %% wrong: takes the address of the first entry of what is left out for that of its storage
def count_saved(run, left_out):
    known = {tensor.data_ptr() for tensor in left_out}
    kept = {}

    def pack(tensor):
        place, _ = storage_of(tensor)
        if place not in known:
            kept[place] = tensor.detach()
        return tensor.detach()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        run()
    return sum(storage_of(tensor)[1] for tensor in kept.values())


# %% wrong: hands autograd None to keep, so that a backward pass inside run fails
def count_saved(run, left_out):
    known = {storage_of(tensor)[0] for tensor in left_out}
    kept = {}

    def pack(tensor):
        place, _ = storage_of(tensor)
        if place not in known:
            kept[place] = tensor.detach()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        run()
    return sum(storage_of(tensor)[1] for tensor in kept.values())


# %% right: autograd keeps numbers, and the rows of an array are told apart at the end
import numpy as np


def count_saved(run, left_out):
    known = [storage_of(tensor)[0] for tensor in left_out]
    kept = []

    def pack(tensor):
        kept.append(tensor.detach())
        return len(kept) - 1

    with torch.autograd.graph.saved_tensors_hooks(pack, kept.__getitem__):
        run()
    pairs = [storage_of(tensor) for tensor in kept if storage_of(tensor)[0] not in known]
    different = np.unique(np.array(pairs, dtype=np.int64).reshape(-1, 2), axis=0)
    return int(different[:, 1].sum())


# %% right: loops over lists in the place of a dict, and copies for autograd
def count_saved(run, left_out):
    addresses = [tensor.untyped_storage().data_ptr() for tensor in left_out]
    held = []
    total = 0

    def pack(tensor):
        nonlocal total
        storage = tensor.untyped_storage()
        for address in addresses:
            if address == storage.data_ptr():
                break
        else:
            addresses.append(storage.data_ptr())
            held.append(storage)
            total += len(storage)
        return tensor.detach().clone()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        run()
    return total


# %% wrong: calls run twice, once to warm up
def count_saved(run, left_out):
    known = {storage_of(tensor)[0] for tensor in left_out}
    kept = {}

    def pack(tensor):
        if storage_of(tensor)[0] not in known:
            kept[storage_of(tensor)[0]] = tensor.detach()
        return tensor.detach()

    run()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        run()
    return sum(storage_of(tensor)[1] for tensor in kept.values())
