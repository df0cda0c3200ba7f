# %% wrong: a plain checkpoint, whose second run updates the statistics
def checkpoint_once(block, x):
    return checkpoint(block, x, use_reentrant=False)


# %% wrong: does not wrap at all
def checkpoint_once(block, x):
    return block(x)


# %% wrong: eval mode for the second run, which then saves other tensors
def checkpoint_once(block, x):
    @contextlib.contextmanager
    def evaluating():
        modes = [(part, part.training) for part in block.modules()]
        block.eval()
        try:
            yield
        finally:
            for part, mode in modes:
                part.training = mode

    return checkpoint(
        block,
        x,
        use_reentrant=False,
        context_fn=lambda: (contextlib.nullcontext(), evaluating()),
    )


# %% wrong: a momentum that makes two updates one, and a count that is still two
def checkpoint_once(block, x):
    norms = [part for part in block.modules() if hasattr(part, "momentum")]

    @contextlib.contextmanager
    def slower():
        before = [norm.momentum for norm in norms]
        for norm, momentum in zip(norms, before, strict=True):
            if momentum is not None:
                norm.momentum = 1 - (1 - momentum) ** 0.5
        try:
            yield
        finally:
            for norm, momentum in zip(norms, before, strict=True):
                norm.momentum = momentum

    return checkpoint(block, x, use_reentrant=False, context_fn=lambda: (slower(), slower()))


# %% wrong: puts the buffers back behind a bare yield, which the early stop never reaches
def checkpoint_once(block, x):
    @contextlib.contextmanager
    def leaving_no_trace():
        before = [buffer.clone() for buffer in block.buffers()]
        yield
        for buffer, value in zip(block.buffers(), before, strict=True):
            buffer.copy_(value)

    return checkpoint(
        block,
        x,
        use_reentrant=False,
        context_fn=lambda: (contextlib.nullcontext(), leaving_no_trace()),
    )


# %% wrong: no statistics in the second run, which then saves fewer tensors
def checkpoint_once(block, x):
    norms = [part for part in block.modules() if hasattr(part, "track_running_stats")]

    @contextlib.contextmanager
    def without_statistics():
        for norm in norms:
            norm.track_running_stats = False
        try:
            yield
        finally:
            for norm in norms:
                norm.track_running_stats = True

    return checkpoint(
        block,
        x,
        use_reentrant=False,
        context_fn=lambda: (contextlib.nullcontext(), without_statistics()),
    )


# %% wrong: mean and variance are put back, the count of batches is not
def checkpoint_once(block, x):
    @contextlib.contextmanager
    def careful():
        kept = {n: b.clone() for n, b in block.named_buffers() if "running" in n}
        try:
            yield
        finally:
            for name, buffer in block.named_buffers():
                if name in kept:
                    buffer.copy_(kept[name])

    return checkpoint(
        block, x, use_reentrant=False, context_fn=lambda: (contextlib.nullcontext(), careful())
    )


# %% wrong: looks for batch norms among the direct children only
def checkpoint_once(block, x):
    @contextlib.contextmanager
    def careful():
        norms = [part for part in block.children() if hasattr(part, "running_mean")]
        kept = [[buffer.clone() for buffer in norm.buffers()] for norm in norms]
        try:
            yield
        finally:
            for norm, values in zip(norms, kept, strict=True):
                for buffer, value in zip(norm.buffers(), values, strict=True):
                    buffer.copy_(value)

    return checkpoint(
        block, x, use_reentrant=False, context_fn=lambda: (contextlib.nullcontext(), careful())
    )


# %% wrong: copies the buffers when the forward pass is done, and loses a later batch
def checkpoint_once(block, x):
    before = []

    @contextlib.contextmanager
    def leaving_no_trace():
        try:
            yield
        finally:
            for buffer, value in zip(block.buffers(), before, strict=True):
                buffer.copy_(value)

    output = checkpoint(
        block,
        x,
        use_reentrant=False,
        context_fn=lambda: (contextlib.nullcontext(), leaving_no_trace()),
    )
    before += [buffer.clone() for buffer in block.buffers()]
    return output


# %% wrong: momentum 0 and one batch less in the second run, also where none was counted
def checkpoint_once(block, x):
    norms = [part for part in block.modules() if hasattr(part, "momentum")]

    @contextlib.contextmanager
    def frozen():
        before = [norm.momentum for norm in norms]
        for norm in norms:
            norm.momentum = 0.0
        try:
            yield
        finally:
            for norm, momentum in zip(norms, before, strict=True):
                norm.momentum = momentum
                norm.num_batches_tracked -= 1

    return checkpoint(
        block, x, use_reentrant=False, context_fn=lambda: (contextlib.nullcontext(), frozen())
    )


# %% wrong: puts the buffers back in the first run, so that they never learn
def checkpoint_once(block, x):
    @contextlib.contextmanager
    def leaving_no_trace():
        before = [buffer.clone() for buffer in block.buffers()]
        try:
            yield
        finally:
            for buffer, value in zip(block.buffers(), before, strict=True):
                buffer.copy_(value)

    return checkpoint(
        block,
        x,
        use_reentrant=False,
        context_fn=lambda: (leaving_no_trace(), leaving_no_trace()),
    )


# %% wrong: momentum 0 for good
def checkpoint_once(block, x):
    norms = [part for part in block.modules() if hasattr(part, "momentum")]

    @contextlib.contextmanager
    def frozen():
        counts = [norm.num_batches_tracked.clone() for norm in norms]
        for norm in norms:
            norm.momentum = 0.0
        try:
            yield
        finally:
            for norm, count in zip(norms, counts, strict=True):
                norm.num_batches_tracked.copy_(count)

    return checkpoint(
        block, x, use_reentrant=False, context_fn=lambda: (contextlib.nullcontext(), frozen())
    )


# %% wrong: the reentrant variant, which trains nothing if the data need no gradient
def checkpoint_once(block, x):
    runs = []

    def run(x):
        runs.append(x)
        before = [buffer.clone() for buffer in block.buffers()]
        output = block(x)
        if len(runs) > 1:
            for buffer, value in zip(block.buffers(), before, strict=True):
                buffer.copy_(value)
        return output

    return checkpoint(run, x, use_reentrant=True)


# %% wrong: puts back what batch norms keep, and forgets that other layers have buffers, too
def checkpoint_once(block, x):
    kinds = torch.nn.BatchNorm1d, torch.nn.BatchNorm2d, torch.nn.BatchNorm3d

    @contextlib.contextmanager
    def leaving_batch_norms():
        buffers = [b for part in block.modules() if isinstance(part, kinds) for b in part.buffers()]
        before = [buffer.clone() for buffer in buffers]
        try:
            yield
        finally:
            for buffer, value in zip(buffers, before, strict=True):
                buffer.copy_(value)

    return checkpoint(
        block,
        x,
        use_reentrant=False,
        context_fn=lambda: (contextlib.nullcontext(), leaving_batch_norms()),
    )


# %% wrong: gives every norm the momentum 0.1 afterwards, whatever it was
def checkpoint_once(block, x):
    norms = [part for part in block.modules() if hasattr(part, "num_batches_tracked")]

    @contextlib.contextmanager
    def frozen():
        before = [(norm, 0.1, norm.num_batches_tracked.clone()) for norm in norms]
        for norm in norms:
            norm.momentum = 0.0
        try:
            yield
        finally:
            for norm, momentum, count in before:
                norm.momentum = momentum
                norm.num_batches_tracked.copy_(count)

    return checkpoint(
        block, x, use_reentrant=False, context_fn=lambda: (contextlib.nullcontext(), frozen())
    )


# %% wrong: looks after BatchNorm1d alone, and images have another one
def checkpoint_once(block, x):
    norms = [part for part in block.modules() if isinstance(part, torch.nn.BatchNorm1d)]

    @contextlib.contextmanager
    def frozen():
        before = [(norm, norm.momentum, norm.num_batches_tracked.clone()) for norm in norms]
        for norm in norms:
            norm.momentum = 0.0
        try:
            yield
        finally:
            for norm, momentum, count in before:
                norm.momentum = momentum
                norm.num_batches_tracked.copy_(count)

    return checkpoint(
        block, x, use_reentrant=False, context_fn=lambda: (contextlib.nullcontext(), frozen())
    )


# %% right: momentum 0 and the old count during the second run alone
def checkpoint_once(block, x):
    @contextlib.contextmanager
    def frozen():
        norms = [part for part in block.modules() if hasattr(part, "num_batches_tracked")]
        before = [(norm, norm.momentum, norm.num_batches_tracked.clone()) for norm in norms]
        for norm in norms:
            norm.momentum = 0.0
        try:
            yield
        finally:
            for norm, momentum, count in before:
                norm.momentum = momentum
                norm.num_batches_tracked.copy_(count)

    return checkpoint(
        block, x, use_reentrant=False, context_fn=lambda: (contextlib.nullcontext(), frozen())
    )


# %% right: a class of contexts, with the state dict
class Undone:
    def __init__(self, block):
        self.block = block

    def __enter__(self):
        self.state = {name: buffer.clone() for name, buffer in self.block.named_buffers()}

    def __exit__(self, *_):
        self.block.load_state_dict(self.state, strict=False)


def checkpoint_once(block, x):
    def contexts():
        return contextlib.nullcontext(), Undone(block)

    return checkpoint(block, x, use_reentrant=False, context_fn=contexts)


# %% right: counts the runs inside of the wrapped function, without a context
def checkpoint_once(block, x):
    runs = 0

    def run(x):
        nonlocal runs
        runs += 1
        if runs == 1:
            return block(x)
        before = [buffer.clone() for buffer in block.buffers()]
        try:
            return block(x)
        finally:
            for buffer, value in zip(block.buffers(), before, strict=True):
                buffer.copy_(value)

    return checkpoint(run, x, use_reentrant=False)


# %% right: copies of the buffers in the second run, put in their place by functional_call
def checkpoint_once(block, x):
    runs = []

    def run(x):
        runs.append(x.shape)
        if len(runs) == 1:
            return block(x)
        copies = {name: buffer.clone() for name, buffer in block.named_buffers()}
        return torch.func.functional_call(block, copies, (x,))

    return checkpoint(run, x, use_reentrant=False)


# %% wrong: the backward pass is what moves the statistics, in the order in which it comes by
def checkpoint_once(block, x):
    runs = []

    def run(x):
        runs.append(x.shape)
        if len(runs) > 1:
            return block(x)
        copies = {name: buffer.clone() for name, buffer in block.named_buffers()}
        return torch.func.functional_call(block, copies, (x,))

    return checkpoint(run, x, use_reentrant=False)


# %% wrong: lets the second run draw masks of its own
def checkpoint_once(block, x):
    @contextlib.contextmanager
    def leaving_no_trace():
        before = [buffer.clone() for buffer in block.buffers()]
        try:
            yield
        finally:
            for buffer, value in zip(block.buffers(), before, strict=True):
                buffer.copy_(value)

    return checkpoint(
        block,
        x,
        use_reentrant=False,
        preserve_rng_state=False,
        context_fn=lambda: (contextlib.nullcontext(), leaving_no_trace()),
    )


# %% wrong: makes the caller's data require a gradient
def checkpoint_once(block, x):
    @contextlib.contextmanager
    def leaving_no_trace():
        before = [buffer.clone() for buffer in block.buffers()]
        try:
            yield
        finally:
            for buffer, value in zip(block.buffers(), before, strict=True):
                buffer.copy_(value)

    return checkpoint(
        block,
        x.requires_grad_(),
        use_reentrant=False,
        context_fn=lambda: (contextlib.nullcontext(), leaving_no_trace()),
    )


# %% wrong: counts one less in the second run wherever the block trains, also where a norm does not
def checkpoint_once(block, x):
    norms = [part for part in block.modules() if hasattr(part, "momentum")]

    @contextlib.contextmanager
    def frozen():
        before = [norm.momentum for norm in norms]
        for norm in norms:
            norm.momentum = 0.0
        try:
            yield
        finally:
            for norm, momentum in zip(norms, before, strict=True):
                norm.momentum = momentum
                if block.training and not isinstance(norm, torch.nn.InstanceNorm1d):
                    norm.num_batches_tracked -= 1

    return checkpoint(
        block, x, use_reentrant=False, context_fn=lambda: (contextlib.nullcontext(), frozen())
    )


# %% wrong: gives all layers the block's own mode afterwards, also a norm in evaluation mode
def checkpoint_once(block, x):
    @contextlib.contextmanager
    def leaving_no_trace():
        before = [buffer.clone() for buffer in block.buffers()]
        try:
            yield
        finally:
            for buffer, value in zip(block.buffers(), before, strict=True):
                buffer.copy_(value)
            block.train(block.training)

    return checkpoint(
        block,
        x,
        use_reentrant=False,
        context_fn=lambda: (contextlib.nullcontext(), leaving_no_trace()),
    )


# %% wrong: a block in evaluation mode is not checkpointed at all
def checkpoint_once(block, x):
    @contextlib.contextmanager
    def leaving_no_trace():
        before = [buffer.clone() for buffer in block.buffers()]
        try:
            yield
        finally:
            for buffer, value in zip(block.buffers(), before, strict=True):
                buffer.copy_(value)

    if not block.training:
        return block(x)
    return checkpoint(
        block,
        x,
        use_reentrant=False,
        context_fn=lambda: (contextlib.nullcontext(), leaving_no_trace()),
    )


# %% wrong: takes every other run of all calls for a second one
RUNS = []


def checkpoint_once(block, x):
    def run(x):
        RUNS.append(x.shape)
        is_second = len(RUNS) % 2 == 0
        before = [buffer.clone() for buffer in block.buffers()]
        try:
            return block(x)
        finally:
            for buffer, value in zip(block.buffers(), before, strict=True):
                if is_second:
                    buffer.copy_(value)

    return checkpoint(run, x, use_reentrant=False)


# %% wrong: puts the momentum back, and takes None for no momentum at all
def checkpoint_once(block, x):
    norms = [part for part in block.modules() if hasattr(part, "num_batches_tracked")]

    @contextlib.contextmanager
    def frozen():
        before = [(norm, norm.momentum, norm.num_batches_tracked.clone()) for norm in norms]
        for norm in norms:
            norm.momentum = 0.0
        try:
            yield
        finally:
            for norm, momentum, count in before:
                norm.momentum = momentum or 0.1
                norm.num_batches_tracked.copy_(count)

    return checkpoint(
        block, x, use_reentrant=False, context_fn=lambda: (contextlib.nullcontext(), frozen())
    )


# %% wrong: sets all counters to one, as the example says of a fresh block
def checkpoint_once(block, x):
    @contextlib.contextmanager
    def leaving_no_trace():
        before = {name: buffer.clone() for name, buffer in block.named_buffers()}
        try:
            yield
        finally:
            for name, buffer in block.named_buffers():
                if name.endswith("num_batches_tracked"):
                    buffer.fill_(1)
                else:
                    buffer.copy_(before[name])

    return checkpoint(
        block,
        x,
        use_reentrant=False,
        context_fn=lambda: (contextlib.nullcontext(), leaving_no_trace()),
    )


# %% right: a stack of callbacks, one for each buffer
def checkpoint_once(block, x):
    class Undo:
        def __enter__(self):
            self.stack = contextlib.ExitStack()
            for buffer in block.buffers():
                self.stack.callback(buffer.copy_, buffer.clone())

        def __exit__(self, *error):
            self.stack.close()

    return checkpoint(
        block, x, use_reentrant=False, context_fn=lambda: (contextlib.nullcontext(), Undo())
    )


# %% right: hooks for saved tensors in the place of a checkpoint, and a second run of its own
def checkpoint_once(block, x):
    state, given, again, count = torch.get_rng_state(), x.detach(), [], 0

    def pack(tensor):
        nonlocal count
        count += 1
        return count - 1

    def pack_again(tensor):
        again.append(tensor.detach())
        return again[-1]

    def unpack(place):
        if not again:
            before = [buffer.clone() for buffer in block.buffers()]
            hooks = torch.autograd.graph.saved_tensors_hooks(pack_again, lambda tensor: tensor)
            with torch.random.fork_rng(devices=[]), torch.enable_grad(), hooks:
                torch.set_rng_state(state)
                block(given.clone().requires_grad_(x.requires_grad))
            for buffer, value in zip(block.buffers(), before, strict=True):
                buffer.copy_(value)
        return again[place]

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        return block(x)


# %% wrong: looks for norms in what is Sequential, and not in modules of other kinds
def find_norms(block):
    if hasattr(block, "running_mean"):
        return [block]
    if not isinstance(block, torch.nn.Sequential):
        return []
    return [norm for part in block for norm in find_norms(part)]


def checkpoint_once(block, x):
    norms = find_norms(block)

    @contextlib.contextmanager
    def careful():
        kept = [[buffer.clone() for buffer in norm.buffers()] for norm in norms]
        try:
            yield
        finally:
            for norm, values in zip(norms, kept, strict=True):
                for buffer, value in zip(norm.buffers(), values, strict=True):
                    buffer.copy_(value)

    return checkpoint(
        block, x, use_reentrant=False, context_fn=lambda: (contextlib.nullcontext(), careful())
    )


# %% right: children by children, down to the norms, in modules of any kind
def find_norms(block):
    yield from [block] if isinstance(getattr(block, "running_mean", None), torch.Tensor) else []
    for part in block.children():
        yield from find_norms(part)


def checkpoint_once(block, x):
    norms = list(find_norms(block))

    @contextlib.contextmanager
    def careful():
        kept = [norm.state_dict() for norm in norms]
        kept = [{name: value.clone() for name, value in state.items()} for state in kept]
        try:
            yield
        finally:
            for norm, state in zip(norms, kept, strict=True):
                for name, buffer in norm.named_buffers():
                    buffer.copy_(state[name])

    return checkpoint(
        block, x, use_reentrant=False, context_fn=lambda: (contextlib.nullcontext(), careful())
    )


# %% wrong: gives each dropout the usual p afterwards, whatever it was
def checkpoint_once(block, x):
    @contextlib.contextmanager
    def leaving_no_trace():
        before = [buffer.clone() for buffer in block.buffers()]
        try:
            yield
        finally:
            for buffer, value in zip(block.buffers(), before, strict=True):
                buffer.copy_(value)
            for part in block.modules():
                if isinstance(part, torch.nn.Dropout):
                    part.p = 0.5

    return checkpoint(
        block,
        x,
        use_reentrant=False,
        context_fn=lambda: (contextlib.nullcontext(), leaving_no_trace()),
    )


# %% wrong: gives each norm the usual eps afterwards, whatever it was
def checkpoint_once(block, x):
    @contextlib.contextmanager
    def leaving_no_trace():
        before = [buffer.clone() for buffer in block.buffers()]
        try:
            yield
        finally:
            for buffer, value in zip(block.buffers(), before, strict=True):
                buffer.copy_(value)
            for part in block.modules():
                if hasattr(part, "eps"):
                    part.eps = 1e-5

    return checkpoint(
        block,
        x,
        use_reentrant=False,
        context_fn=lambda: (contextlib.nullcontext(), leaving_no_trace()),
    )


# %% wrong: norms in evaluation mode track no statistics any more, in no mode
def checkpoint_once(block, x):
    @contextlib.contextmanager
    def leaving_no_trace():
        before = [buffer.clone() for buffer in block.buffers()]
        try:
            yield
        finally:
            for buffer, value in zip(block.buffers(), before, strict=True):
                buffer.copy_(value)
            for part in block.modules():
                if hasattr(part, "track_running_stats"):
                    part.track_running_stats = part.training

    return checkpoint(
        block,
        x,
        use_reentrant=False,
        context_fn=lambda: (contextlib.nullcontext(), leaving_no_trace()),
    )


# %% wrong: no InstanceNorm tracks statistics in the second run, in evaluation mode neither
def checkpoint_once(block, x):
    norms = [part for part in block.modules() if type(part).__name__.startswith("InstanceNorm")]

    @contextlib.contextmanager
    def leaving_no_trace():
        before = [buffer.clone() for buffer in block.buffers()]
        for norm in norms:
            norm.track_running_stats = False
        try:
            yield
        finally:
            for norm in norms:
                norm.track_running_stats = True
            for buffer, value in zip(block.buffers(), before, strict=True):
                buffer.copy_(value)

    return checkpoint(
        block,
        x,
        use_reentrant=False,
        context_fn=lambda: (contextlib.nullcontext(), leaving_no_trace()),
    )


# %% wrong: leaves every InstanceNorm in training mode after the second run
def checkpoint_once(block, x):
    @contextlib.contextmanager
    def leaving_no_trace():
        before = [buffer.clone() for buffer in block.buffers()]
        try:
            yield
        finally:
            for buffer, value in zip(block.buffers(), before, strict=True):
                buffer.copy_(value)
            for part in block.modules():
                if "InstanceNorm" in type(part).__name__:
                    part.train()

    return checkpoint(
        block,
        x,
        use_reentrant=False,
        context_fn=lambda: (contextlib.nullcontext(), leaving_no_trace()),
    )


# %% wrong: looks for norms down to the children's children, and no deeper
def checkpoint_once(block, x):
    parts = [block, *block.children()]
    parts += [inner for part in block.children() for inner in part.children()]
    norms = [part for part in parts if hasattr(part, "running_mean")]

    @contextlib.contextmanager
    def careful():
        kept = [[buffer.clone() for buffer in norm.buffers()] for norm in norms]
        try:
            yield
        finally:
            for norm, values in zip(norms, kept, strict=True):
                for buffer, value in zip(norm.buffers(), values, strict=True):
                    buffer.copy_(value)

    return checkpoint(
        block, x, use_reentrant=False, context_fn=lambda: (contextlib.nullcontext(), careful())
    )


# %% wrong: a list of kinds of norms by hand, without InstanceNorm2d
KINDS = tuple(
    getattr(torch.nn, name)
    for name in ("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "InstanceNorm1d", "InstanceNorm3d")
)


def checkpoint_once(block, x):
    norms = [part for part in block.modules() if isinstance(part, KINDS)]

    @contextlib.contextmanager
    def without_writing():
        kept = [{name: value.clone() for name, value in norm.named_buffers()} for norm in norms]
        try:
            yield
        finally:
            for norm, state in zip(norms, kept, strict=True):
                norm.load_state_dict(state, strict=False)

    return checkpoint(
        block,
        x,
        use_reentrant=False,
        context_fn=lambda: (contextlib.nullcontext(), without_writing()),
    )


# %% wrong: a list of kinds of norms by hand, without BatchNorm3d
def is_norm(part):
    flat = isinstance(part, torch.nn.BatchNorm1d | torch.nn.BatchNorm2d)
    return flat or isinstance(part, torch.nn.modules.instancenorm._InstanceNorm)


def checkpoint_once(block, x):
    @contextlib.contextmanager
    def without_writing():
        norms = filter(is_norm, block.modules())
        kept = [(buffer, buffer.clone()) for norm in norms for buffer in norm.buffers()]
        try:
            yield
        finally:
            for buffer, value in kept:
                buffer.copy_(value)

    return checkpoint(
        block,
        x,
        use_reentrant=False,
        context_fn=lambda: (contextlib.nullcontext(), without_writing()),
    )


# %% wrong: a run of its own for the statistics, which draws and computes a third time
def checkpoint_once(block, x):
    @contextlib.contextmanager
    def leaving_no_trace():
        before = [buffer.clone() for buffer in block.buffers()]
        try:
            yield
        finally:
            for buffer, value in zip(block.buffers(), before, strict=True):
                buffer.copy_(value)

    output = checkpoint(
        block,
        x,
        use_reentrant=False,
        context_fn=lambda: (leaving_no_trace(), leaving_no_trace()),
    )
    with torch.no_grad():
        block(x)
    return output


# %% wrong: puts nothing back where the block is in evaluation mode, also if a norm inside trains
def checkpoint_once(block, x):
    @contextlib.contextmanager
    def leaving_no_trace():
        before = [buffer.clone() for buffer in block.buffers()]
        try:
            yield
        finally:
            for buffer, value in zip(block.buffers(), before, strict=True):
                buffer.copy_(value)

    def contexts():
        second = leaving_no_trace() if block.training else contextlib.nullcontext()
        return contextlib.nullcontext(), second

    return checkpoint(block, x, use_reentrant=False, context_fn=contexts)


# %% right: copies of the norms' own buffers, of all kinds of norms, in the state of the first run
def checkpoint_once(block, x):
    kinds = torch.nn.modules.batchnorm._NormBase
    first = True

    def run(x):
        nonlocal first
        norms = [] if first else [part for part in block.modules() if isinstance(part, kinds)]
        kept = [(buffer, buffer.clone()) for norm in norms for buffer in norm.buffers()]
        first = False
        try:
            return block(x)
        finally:
            for buffer, value in kept:
                buffer.copy_(value)

    return checkpoint(run, x, use_reentrant=False)
