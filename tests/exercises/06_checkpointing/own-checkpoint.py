# %% wrong: keeps the graph of the first run, so that nothing runs twice
class Checkpoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, run, *inputs):
        with torch.enable_grad():
            ctx.inputs = [x.detach().requires_grad_(x.requires_grad) for x in inputs]
            ctx.output = run(*ctx.inputs)
        return ctx.output.detach()

    @staticmethod
    def backward(ctx, grad_output):
        torch.autograd.backward(ctx.output, grad_output)
        return None, *(x.grad for x in ctx.inputs)


def own_checkpoint(run, *inputs):
    return Checkpoint.apply(run, *inputs)


# %% wrong: no checkpoint at all
def own_checkpoint(run, *inputs):
    return run(*inputs)


# %% wrong: the inputs are not cut off, so that the gradient runs on into the graph behind them
class Checkpoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, run, *inputs):
        ctx.run, ctx.state = run, torch.get_rng_state()
        ctx.save_for_backward(*inputs)
        return run(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        inputs = ctx.saved_tensors
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.set_rng_state(ctx.state)
            output = ctx.run(*inputs)
        torch.autograd.backward(output, grad_output)
        return None, *(x.grad for x in inputs)


def own_checkpoint(run, *inputs):
    return Checkpoint.apply(run, *inputs)


# %% wrong: asks for the gradients with respect to the inputs alone, and the weights get none
class Checkpoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, run, *inputs):
        ctx.run, ctx.state = run, torch.get_rng_state()
        ctx.save_for_backward(*inputs)
        return run(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        inputs = [x.detach().requires_grad_(x.requires_grad) for x in ctx.saved_tensors]
        wanted = [x for x in inputs if x.requires_grad]
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.set_rng_state(ctx.state)
            output = ctx.run(*inputs)
        slopes = iter(torch.autograd.grad(output, wanted, grad_output))
        return None, *(next(slopes) if x.requires_grad else None for x in inputs)


def own_checkpoint(run, *inputs):
    return Checkpoint.apply(run, *inputs)


# %% wrong: the second run draws random numbers of its own
class Checkpoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, run, *inputs):
        ctx.run = run
        ctx.save_for_backward(*inputs)
        return run(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        inputs = [x.detach().requires_grad_(x.requires_grad) for x in ctx.saved_tensors]
        with torch.enable_grad():
            output = ctx.run(*inputs)
        torch.autograd.backward(output, grad_output)
        return None, *(x.grad for x in inputs)


def own_checkpoint(run, *inputs):
    return Checkpoint.apply(run, *inputs)


# %% wrong: sets the generator back and leaves it there
class Checkpoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, run, *inputs):
        ctx.run, ctx.state = run, torch.get_rng_state()
        ctx.save_for_backward(*inputs)
        return run(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        inputs = [x.detach().requires_grad_(x.requires_grad) for x in ctx.saved_tensors]
        torch.set_rng_state(ctx.state)
        with torch.enable_grad():
            output = ctx.run(*inputs)
        torch.autograd.backward(output, grad_output)
        return None, *(x.grad for x in inputs)


def own_checkpoint(run, *inputs):
    return Checkpoint.apply(run, *inputs)


# %% wrong: writes the generator's state down when the first run is over
class Checkpoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, run, *inputs):
        output = run(*inputs)
        ctx.run, ctx.state = run, torch.get_rng_state()
        ctx.save_for_backward(*inputs)
        return output

    @staticmethod
    def backward(ctx, grad_output):
        inputs = [x.detach().requires_grad_(x.requires_grad) for x in ctx.saved_tensors]
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.set_rng_state(ctx.state)
            output = ctx.run(*inputs)
        torch.autograd.backward(output, grad_output)
        return None, *(x.grad for x in inputs)


def own_checkpoint(run, *inputs):
    return Checkpoint.apply(run, *inputs)


# %% wrong: seeds both runs, so that the masks agree and every step drops the same
class Checkpoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, run, *inputs):
        ctx.run = run
        ctx.save_for_backward(*inputs)
        torch.manual_seed(0)
        return run(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        inputs = [x.detach().requires_grad_(x.requires_grad) for x in ctx.saved_tensors]
        torch.manual_seed(0)
        with torch.enable_grad():
            output = ctx.run(*inputs)
        torch.autograd.backward(output, grad_output)
        return None, *(x.grad for x in inputs)


def own_checkpoint(run, *inputs):
    return Checkpoint.apply(run, *inputs)


# %% wrong: forgets that autograd is off in backward
class Checkpoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, run, *inputs):
        ctx.run, ctx.state = run, torch.get_rng_state()
        ctx.save_for_backward(*inputs)
        return run(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        inputs = [x.detach().requires_grad_(x.requires_grad) for x in ctx.saved_tensors]
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(ctx.state)
            output = ctx.run(*inputs)
        torch.autograd.backward(output, grad_output)
        return None, *(x.grad for x in inputs)


def own_checkpoint(run, *inputs):
    return Checkpoint.apply(run, *inputs)


# %% wrong: gives the first input a gradient and no other
class Checkpoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, run, *inputs):
        ctx.run, ctx.state = run, torch.get_rng_state()
        ctx.save_for_backward(*inputs)
        return run(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        first, *others = ctx.saved_tensors
        first = first.detach().requires_grad_(True)
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.set_rng_state(ctx.state)
            output = ctx.run(first, *others)
        torch.autograd.backward(output, grad_output)
        return None, first.grad, *(None for _ in others)


def own_checkpoint(run, *inputs):
    return Checkpoint.apply(run, *inputs)


# %% wrong: makes every input require a gradient, integers too
class Checkpoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, run, *inputs):
        ctx.run, ctx.state = run, torch.get_rng_state()
        ctx.save_for_backward(*inputs)
        return run(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        inputs = [x.detach().requires_grad_(True) for x in ctx.saved_tensors]
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.set_rng_state(ctx.state)
            output = ctx.run(*inputs)
        torch.autograd.backward(output, grad_output)
        return None, *(x.grad for x in inputs)


def own_checkpoint(run, *inputs):
    return Checkpoint.apply(run, *inputs)


# %% wrong: runs again as it should, and keeps the graph of the first run all the same
class Checkpoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, run, *inputs):
        ctx.run, ctx.state = run, torch.get_rng_state()
        ctx.save_for_backward(*inputs)
        with torch.enable_grad():
            ctx.wasted = run(*(x.detach().requires_grad_(x.requires_grad) for x in inputs))
        return ctx.wasted.detach()

    @staticmethod
    def backward(ctx, grad_output):
        inputs = [x.detach().requires_grad_(x.requires_grad) for x in ctx.saved_tensors]
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.set_rng_state(ctx.state)
            output = ctx.run(*inputs)
        torch.autograd.backward(output, grad_output)
        return None, *(x.grad for x in inputs)


def own_checkpoint(run, *inputs):
    return Checkpoint.apply(run, *inputs)


# %% wrong: runs twice in the backward pass
class Checkpoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, run, *inputs):
        ctx.run, ctx.state = run, torch.get_rng_state()
        ctx.save_for_backward(*inputs)
        return run(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        inputs = [x.detach().requires_grad_(x.requires_grad) for x in ctx.saved_tensors]
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.set_rng_state(ctx.state)
            ctx.run(*inputs)
            torch.set_rng_state(ctx.state)
            output = ctx.run(*inputs)
        torch.autograd.backward(output, grad_output)
        return None, *(x.grad for x in inputs)


def own_checkpoint(run, *inputs):
    return Checkpoint.apply(run, *inputs)


# %% wrong: hands the work to torch's own checkpoint
def own_checkpoint(run, *inputs):
    return checkpoint(run, *inputs, use_reentrant=False)


# %% wrong: seeds the second run as the generator was seeded once, however much was drawn since
class Checkpoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, run, *inputs):
        ctx.run, ctx.seed = run, torch.initial_seed()
        ctx.save_for_backward(*inputs)
        return run(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        inputs = [x.detach().requires_grad_(x.requires_grad) for x in ctx.saved_tensors]
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.manual_seed(ctx.seed)
            output = ctx.run(*inputs)
        torch.autograd.backward(output, grad_output)
        return None, *(x.grad for x in inputs)


def own_checkpoint(run, *inputs):
    return Checkpoint.apply(run, *inputs)


# %% wrong: the weights' gradients take the place of those that are there already
class Checkpoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, run, *inputs):
        ctx.run, ctx.state = run, torch.get_rng_state()
        ctx.save_for_backward(*inputs)
        return run(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        inputs = [x.detach().requires_grad_(x.requires_grad) for x in ctx.saved_tensors]
        if isinstance(ctx.run, torch.nn.Module):
            ctx.run.zero_grad()
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.set_rng_state(ctx.state)
            output = ctx.run(*inputs)
        torch.autograd.backward(output, grad_output)
        return None, *(x.grad for x in inputs)


def own_checkpoint(run, *inputs):
    return Checkpoint.apply(run, *inputs)


# %% wrong: keeps the inputs as an attribute, where nobody notices that they change in place
class Checkpoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, run, *inputs):
        ctx.run, ctx.state = run, torch.get_rng_state()
        ctx.inputs = inputs
        return run(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        inputs = [x.detach().requires_grad_(x.requires_grad) for x in ctx.inputs]
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.set_rng_state(ctx.state)
            output = ctx.run(*inputs)
        torch.autograd.backward(output, grad_output)
        return None, *(x.grad for x in inputs)


def own_checkpoint(run, *inputs):
    return Checkpoint.apply(run, *inputs)


# %% right: puts the generator's state back by hand, and asks which gradients are wanted
class Checkpoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, run, *inputs):
        ctx.run = run
        ctx.before = torch.get_rng_state()
        ctx.save_for_backward(*inputs)
        with torch.no_grad():
            return run(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        now = torch.get_rng_state()
        torch.set_rng_state(ctx.before)
        copies = []
        for tensor, wanted in zip(ctx.saved_tensors, ctx.needs_input_grad[1:], strict=True):
            copy = tensor.detach()
            copy.requires_grad = wanted
            copies.append(copy)
        try:
            with torch.enable_grad():
                output = ctx.run(*copies)
        finally:
            torch.set_rng_state(now)
        output.backward(grad_output)
        return (None, *[copy.grad for copy in copies])


def own_checkpoint(run, *inputs):
    return Checkpoint.apply(run, *inputs)


# %% right: keeps copies of its inputs, and asks which of them need a gradient
class Checkpoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, run, *inputs):
        ctx.run, ctx.state = run, torch.get_rng_state()
        ctx.inputs = [x.detach().clone() for x in inputs]
        return run(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        needs = ctx.needs_input_grad[1:]
        inputs = [x.requires_grad_(n) for x, n in zip(ctx.inputs, needs, strict=True)]
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.set_rng_state(ctx.state)
            output = ctx.run(*inputs)
        torch.autograd.backward(output, grad_output)
        return None, *(x.grad for x in inputs)


def own_checkpoint(run, *inputs):
    return Checkpoint.apply(run, *inputs)


# %% right: a product and a sum in the place of the gradient that comes in
class Checkpoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, run, *inputs):
        ctx.run, ctx.state = run, torch.get_rng_state()
        ctx.save_for_backward(*inputs)
        return run(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        inputs = [x.detach().requires_grad_(x.requires_grad) for x in ctx.saved_tensors]
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.set_rng_state(ctx.state)
            output = ctx.run(*inputs)
            (output * grad_output).sum().backward()
        return None, *(x.grad for x in inputs)


def own_checkpoint(run, *inputs):
    return Checkpoint.apply(run, *inputs)


# %% right: with hooks in the place of a function, a number for each tensor and a second run
def own_checkpoint(run, *inputs):
    before = torch.get_rng_state()
    kept = [x.detach().clone() for x in inputs]
    needs = [x.requires_grad for x in inputs]
    count = 0
    again = []

    def pack(tensor):
        nonlocal count
        count += 1
        return count - 1

    def pack_again(tensor):
        again.append(tensor.detach())
        return tensor.detach()

    def unpack(number):
        if not again:
            with torch.random.fork_rng(devices=[]), torch.enable_grad():
                torch.set_rng_state(before)
                hooks = torch.autograd.graph.saved_tensors_hooks(pack_again, lambda kept: kept)
                copies = [x.requires_grad_(n) for x, n in zip(kept, needs, strict=True)]
                with hooks:
                    run(*copies)
        return again[number]

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        return run(*inputs)


# %% wrong: torch's own checkpoint by a way round
import torch.utils.checkpoint as saving


def own_checkpoint(run, *inputs):
    return saving.CheckpointFunction.apply(run, True, *inputs)


# %% wrong: torch's own checkpoint, which a function of the chapter calls
class Both(torch.nn.Module):
    def __init__(self, run):
        super().__init__()
        self.run = run

    def forward(self, x):
        return self.run(x)


def own_checkpoint(run, *inputs):
    blocks = torch.nn.Sequential(Both(run), torch.nn.Identity())
    return run_in_segments(blocks, inputs[0], [0, 1])


# %% wrong: one state of the generator for all calls, which a second call overwrites
class Checkpoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, run, *inputs):
        global STATE
        STATE = torch.get_rng_state()
        ctx.run = run
        ctx.save_for_backward(*inputs)
        return run(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        inputs = [x.detach().requires_grad_(x.requires_grad) for x in ctx.saved_tensors]
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.set_rng_state(STATE)
            output = ctx.run(*inputs)
        torch.autograd.backward(output, grad_output)
        return None, *(x.grad for x in inputs)


def own_checkpoint(run, *inputs):
    return Checkpoint.apply(run, *inputs)


# %% wrong: keeps the block on the class, so that the last call's block runs again for all
class Checkpoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, run, *inputs):
        Checkpoint.run = run
        ctx.generator_state = torch.get_rng_state()
        ctx.save_for_backward(*inputs)
        return run(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        inputs = [x.detach().requires_grad_(x.requires_grad) for x in ctx.saved_tensors]
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.set_rng_state(ctx.generator_state)
            output = Checkpoint.run(*inputs)
        torch.autograd.backward(output, grad_output)
        return None, *(x.grad for x in inputs)


def own_checkpoint(run, *inputs):
    return Checkpoint.apply(run, *inputs)


# %% wrong: asks run for its parameters, which no function has
class Checkpoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, run, *inputs):
        ctx.run = run
        ctx.generator_state = torch.get_rng_state()
        ctx.save_for_backward(*inputs)
        return run(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        inputs = [x.detach().requires_grad_(x.requires_grad) for x in ctx.saved_tensors]
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.set_rng_state(ctx.generator_state)
            output = ctx.run(*inputs)
        wanted = [x for x in inputs if x.requires_grad]
        weights = [weight for weight in ctx.run.parameters() if weight.requires_grad]
        slopes = torch.autograd.grad(output, [*wanted, *weights], grad_output)
        for weight, slope in zip(weights, slopes[len(wanted) :], strict=True):
            weight.grad = slope if weight.grad is None else weight.grad + slope
        of_inputs = iter(slopes)
        return None, *(next(of_inputs) if x.requires_grad else None for x in inputs)


def own_checkpoint(run, *inputs):
    return Checkpoint.apply(run, *inputs)


# %% wrong: looks for weights in a module alone, not in what a function uses
class Checkpoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, run, *inputs):
        ctx.run = run
        ctx.generator_state = torch.get_rng_state()
        ctx.save_for_backward(*inputs)
        return run(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        inputs = [x.detach().requires_grad_(x.requires_grad) for x in ctx.saved_tensors]
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.set_rng_state(ctx.generator_state)
            output = ctx.run(*inputs)
        wanted = [x for x in inputs if x.requires_grad]
        weights = [
            weight for weight in getattr(ctx.run, "parameters", list)() if weight.requires_grad
        ]
        slopes = torch.autograd.grad(output, [*wanted, *weights], grad_output)
        for weight, slope in zip(weights, slopes[len(wanted) :], strict=True):
            weight.grad = slope if weight.grad is None else weight.grad + slope
        of_inputs = iter(slopes)
        return None, *(next(of_inputs) if x.requires_grad else None for x in inputs)


def own_checkpoint(run, *inputs):
    return Checkpoint.apply(run, *inputs)


# %% wrong: asks for the gradients of a module's weights, also of frozen ones
class Checkpoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, run, *inputs):
        ctx.run = run
        ctx.generator_state = torch.get_rng_state()
        ctx.save_for_backward(*inputs)
        return run(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        inputs = [x.detach().requires_grad_(x.requires_grad) for x in ctx.saved_tensors]
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.set_rng_state(ctx.generator_state)
            output = ctx.run(*inputs)
        if not isinstance(ctx.run, torch.nn.Module):
            torch.autograd.backward(output, grad_output)
            return None, *(x.grad for x in inputs)
        wanted = [x for x in inputs if x.requires_grad]
        weights = list(ctx.run.parameters())
        slopes = torch.autograd.grad(output, [*wanted, *weights], grad_output)
        for weight, slope in zip(weights, slopes[len(wanted) :], strict=True):
            weight.grad = slope if weight.grad is None else weight.grad + slope
        of_inputs = iter(slopes)
        return None, *(next(of_inputs) if x.requires_grad else None for x in inputs)


def own_checkpoint(run, *inputs):
    return Checkpoint.apply(run, *inputs)


# %% wrong: keeps the first input as it was, and all others as attributes
class Checkpoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, run, *inputs):
        ctx.run = run
        ctx.generator_state = torch.get_rng_state()
        ctx.save_for_backward(inputs[0])
        ctx.others = inputs[1:]
        return run(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        inputs = (*ctx.saved_tensors, *ctx.others)
        inputs = [x.detach().requires_grad_(x.requires_grad) for x in inputs]
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.set_rng_state(ctx.generator_state)
            output = ctx.run(*inputs)
        torch.autograd.backward(output, grad_output)
        return None, *(x.grad for x in inputs)


def own_checkpoint(run, *inputs):
    return Checkpoint.apply(run, *inputs)


# %% wrong: keeps inputs with a gradient as they were, and all others as attributes
class Checkpoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, run, *inputs):
        ctx.run = run
        ctx.generator_state = torch.get_rng_state()
        ctx.rest = [None if x.requires_grad else x for x in inputs]
        ctx.save_for_backward(*(x for x in inputs if x.requires_grad))
        return run(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        saved = iter(ctx.saved_tensors)
        inputs = [next(saved) if x is None else x for x in ctx.rest]
        inputs = [x.detach().requires_grad_(x.requires_grad) for x in inputs]
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.set_rng_state(ctx.generator_state)
            output = ctx.run(*inputs)
        torch.autograd.backward(output, grad_output)
        return None, *(x.grad for x in inputs)


def own_checkpoint(run, *inputs):
    return Checkpoint.apply(run, *inputs)


# %% wrong: keeps floating-point inputs as they were, and integers as attributes
class Checkpoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, run, *inputs):
        ctx.run = run
        ctx.generator_state = torch.get_rng_state()
        ctx.rest = [None if x.is_floating_point() else x for x in inputs]
        ctx.save_for_backward(*(x for x in inputs if x.is_floating_point()))
        return run(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        saved = iter(ctx.saved_tensors)
        inputs = [next(saved) if x is None else x for x in ctx.rest]
        inputs = [x.detach().requires_grad_(x.requires_grad) for x in inputs]
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.set_rng_state(ctx.generator_state)
            output = ctx.run(*inputs)
        torch.autograd.backward(output, grad_output)
        return None, *(x.grad for x in inputs)


def own_checkpoint(run, *inputs):
    return Checkpoint.apply(run, *inputs)


# %% right: the function of autograd is defined anew for each call, and reads the block from outside
def own_checkpoint(run, *inputs):
    class Checkpoint(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *inputs):
            ctx.state = torch.get_rng_state()
            ctx.save_for_backward(*inputs)
            return run(*inputs)

        @staticmethod
        def backward(ctx, grad_output):
            inputs = [x.detach().requires_grad_(x.requires_grad) for x in ctx.saved_tensors]
            now = torch.get_rng_state()
            torch.set_rng_state(ctx.state)
            with torch.set_grad_enabled(True):
                output = run(*inputs)
            torch.set_rng_state(now)
            torch.autograd.backward([output], [grad_output])
            return tuple(x.grad for x in inputs)

    return Checkpoint.apply(*inputs)


# %% right: every floating-point input gets a gradient, which autograd drops where nobody asked
class Checkpoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, run, *inputs):
        ctx.run = run
        ctx.generator_state = torch.get_rng_state()
        ctx.save_for_backward(*inputs)
        return run(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        inputs = [x.detach().requires_grad_(x.is_floating_point()) for x in ctx.saved_tensors]
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.set_rng_state(ctx.generator_state)
            output = ctx.run(*inputs)
        torch.autograd.backward(output, grad_output)
        return None, *(x.grad for x in inputs)


def own_checkpoint(run, *inputs):
    return Checkpoint.apply(run, *inputs)


# %% right: compares the inputs with copies, and raises an error of its own
class Checkpoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, run, *inputs):
        ctx.run = run
        ctx.generator_state = torch.get_rng_state()
        ctx.inputs, ctx.copies = inputs, [x.clone() for x in inputs]
        return run(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        if not all(map(torch.equal, ctx.inputs, ctx.copies)):
            raise ValueError("an input was changed between the passes")
        inputs = [x.detach().requires_grad_(x.requires_grad) for x in ctx.inputs]
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.set_rng_state(ctx.generator_state)
            output = ctx.run(*inputs)
        torch.autograd.backward(output, grad_output)
        return None, *(x.grad for x in inputs)


def own_checkpoint(run, *inputs):
    return Checkpoint.apply(run, *inputs)


# %% wrong: writes a gradient into inputs that require none
class Checkpoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, run, *inputs):
        ctx.run, ctx.state = run, torch.get_rng_state()
        ctx.save_for_backward(*inputs)
        return run(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        inputs = [x.detach().requires_grad_(x.is_floating_point()) for x in ctx.saved_tensors]
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.set_rng_state(ctx.state)
            output = ctx.run(*inputs)
        torch.autograd.backward(output, grad_output)
        for x, copy in zip(ctx.saved_tensors, inputs, strict=True):
            if not x.requires_grad:
                x.grad = copy.grad
        return None, *(x.grad for x in inputs)


def own_checkpoint(run, *inputs):
    return Checkpoint.apply(run, *inputs)


# %% wrong: makes the caller's floating-point inputs require a gradient
class Checkpoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, run, *inputs):
        ctx.run, ctx.state = run, torch.get_rng_state()
        for x in inputs:
            if x.is_floating_point() and not x.requires_grad:
                x.requires_grad_(True)
        ctx.save_for_backward(*inputs)
        return run(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        inputs = [x.detach().requires_grad_(x.requires_grad) for x in ctx.saved_tensors]
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.set_rng_state(ctx.state)
            output = ctx.run(*inputs)
        torch.autograd.backward(output, grad_output)
        return None, *(x.grad for x in inputs)


def own_checkpoint(run, *inputs):
    return Checkpoint.apply(run, *inputs)


# %% wrong: raises if the only input that requires a gradient is not used
class Checkpoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, run, *inputs):
        ctx.run, ctx.state = run, torch.get_rng_state()
        ctx.save_for_backward(*inputs)
        return run(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        inputs = [x.detach().requires_grad_(x.requires_grad) for x in ctx.saved_tensors]
        wanted = [x for x in inputs if x.requires_grad]
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.set_rng_state(ctx.state)
            output = ctx.run(*inputs)
        slopes = iter(torch.autograd.grad(output, wanted, grad_output, retain_graph=True))
        torch.autograd.backward(output, grad_output)
        return None, *(next(slopes) if x.requires_grad else None for x in inputs)


def own_checkpoint(run, *inputs):
    return Checkpoint.apply(run, *inputs)


# %% right: zeros for an input that is not used; the weights get theirs in a pass of their own
class Checkpoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, run, *inputs):
        ctx.run, ctx.state = run, torch.get_rng_state()
        ctx.save_for_backward(*inputs)
        return run(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        inputs = [x.detach().requires_grad_(x.requires_grad) for x in ctx.saved_tensors]
        wanted = [x for x in inputs if x.requires_grad]
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.set_rng_state(ctx.state)
            output = ctx.run(*inputs)
        slopes = torch.autograd.grad(
            output, wanted, grad_output, retain_graph=True, allow_unused=True
        )
        torch.autograd.backward(output, grad_output)
        slopes = iter(
            torch.zeros_like(x) if slope is None else slope
            for x, slope in zip(wanted, slopes, strict=True)
        )
        return None, *(next(slopes) if x.requires_grad else None for x in inputs)


def own_checkpoint(run, *inputs):
    return Checkpoint.apply(run, *inputs)


# %% wrong: repeats random numbers only for modules that hold a Dropout of torch's
class Checkpoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, run, *inputs):
        ctx.run, ctx.state = run, torch.get_rng_state()
        parts = run.modules() if isinstance(run, torch.nn.Module) else ()
        ctx.is_random = any(isinstance(part, torch.nn.Dropout) for part in parts)
        ctx.save_for_backward(*inputs)
        return run(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        inputs = [x.detach().requires_grad_(x.requires_grad) for x in ctx.saved_tensors]
        with torch.enable_grad():
            if ctx.is_random:
                with torch.random.fork_rng(devices=[]):
                    torch.set_rng_state(ctx.state)
                    output = ctx.run(*inputs)
            else:
                output = ctx.run(*inputs)
        torch.autograd.backward(output, grad_output)
        return None, *(x.grad for x in inputs)


def own_checkpoint(run, *inputs):
    return Checkpoint.apply(run, *inputs)


# %% wrong: repeats random numbers only where run is a module
class Checkpoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, run, *inputs):
        ctx.run, ctx.state = run, torch.get_rng_state()
        ctx.save_for_backward(*inputs)
        return run(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        inputs = [x.detach().requires_grad_(x.requires_grad) for x in ctx.saved_tensors]
        now = torch.get_rng_state()
        if isinstance(ctx.run, torch.nn.Module):
            torch.set_rng_state(ctx.state)
        with torch.enable_grad():
            output = ctx.run(*inputs)
        torch.set_rng_state(now)
        torch.autograd.backward(output, grad_output)
        return None, *(x.grad for x in inputs)


def own_checkpoint(run, *inputs):
    return Checkpoint.apply(run, *inputs)


# %% wrong: takes every change in place for one between the passes, also those before the call
class Checkpoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, run, *inputs):
        ctx.run, ctx.state = run, torch.get_rng_state()
        ctx.inputs = inputs
        return run(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        if any(x._version > 0 for x in ctx.inputs):
            raise RuntimeError("an input was changed in place")
        inputs = [x.detach().requires_grad_(x.requires_grad) for x in ctx.inputs]
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.set_rng_state(ctx.state)
            output = ctx.run(*inputs)
        torch.autograd.backward(output, grad_output)
        return None, *(x.grad for x in inputs)


def own_checkpoint(run, *inputs):
    return Checkpoint.apply(run, *inputs)


# %% right: compares the versions of the inputs with those in the forward pass
class Checkpoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, run, *inputs):
        ctx.run, ctx.state = run, torch.get_rng_state()
        ctx.inputs, ctx.versions = inputs, [x._version for x in inputs]
        return run(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        if [x._version for x in ctx.inputs] != ctx.versions:
            raise RuntimeError("an input was changed in place")
        inputs = [x.detach().requires_grad_(x.requires_grad) for x in ctx.inputs]
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.set_rng_state(ctx.state)
            output = ctx.run(*inputs)
        torch.autograd.backward(output, grad_output)
        return None, *(x.grad for x in inputs)


def own_checkpoint(run, *inputs):
    return Checkpoint.apply(run, *inputs)


# %% wrong: saves all that is inside while the first run lasts, and drops it afterwards
class Checkpoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, run, *inputs):
        ctx.run, ctx.state = run, torch.get_rng_state()
        ctx.save_for_backward(*inputs)
        with torch.enable_grad():
            output = run(*(x.detach().requires_grad_(x.requires_grad) for x in inputs))
        return output.detach()

    @staticmethod
    def backward(ctx, grad_output):
        inputs = [x.detach().requires_grad_(x.requires_grad) for x in ctx.saved_tensors]
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.set_rng_state(ctx.state)
            output = ctx.run(*inputs)
        torch.autograd.backward(output, grad_output)
        return None, *(x.grad for x in inputs)


def own_checkpoint(run, *inputs):
    return Checkpoint.apply(run, *inputs)
