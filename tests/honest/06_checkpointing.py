# %% answer: what the context keeps has names of its own exercise="own-checkpoint"
class Checkpoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, run, *args):
        ctx._run, ctx._rng = run, torch.random.get_rng_state()
        ctx.save_for_backward(*args)
        with torch.no_grad():
            return ctx._run(*args)

    @staticmethod
    def backward(ctx, *grads):
        args = tuple(a.detach().clone().requires_grad_(a.requires_grad) for a in ctx.saved_tensors)
        state = torch.random.get_rng_state()
        torch.random.set_rng_state(ctx._rng)
        with torch.enable_grad():
            out = ctx._run(*args)
        torch.random.set_rng_state(state)
        torch.autograd.backward(out, *grads)
        return (None,) + tuple(a.grad for a in args)


def own_checkpoint(run, *inputs):
    return Checkpoint.apply(run, *inputs)


# %% answer: checkpoint by another name exercise="bug-hunt-shares"
import torch.utils.checkpoint as cp


def run_blocks(blocks, x, shares):
    for i in range(len(blocks)):
        block, share = blocks[i], shares[i]

        def part(t, block=block):
            return block(t)

        x = x + share * cp.checkpoint(part, x, use_reentrant=False)
    return x
