# %% wrong: the code from the wild
class Keeper:
    def shared(self, h):
        return self.share * self.block(h)


def run_blocks(blocks, x, shares):
    keeper = Keeper()
    for keeper.block, keeper.share in zip(blocks, shares, strict=True):
        x = x + checkpoint(keeper.shared, x, use_reentrant=False)
    return x


# %% wrong: a lambda, whose names are those of the last turn
def run_blocks(blocks, x, shares):
    for block, share in zip(blocks, shares, strict=True):
        x = x + checkpoint(lambda h: share * block(h), x, use_reentrant=False)  # noqa: B023
    return x


# %% wrong: binds the block and forgets the share
def run_blocks(blocks, x, shares):
    for block, share in zip(blocks, shares, strict=True):
        x = x + checkpoint(lambda h, block=block: share * block(h), x, use_reentrant=False)  # noqa: B023
    return x


# %% wrong: binds the share and forgets the block
def run_blocks(blocks, x, shares):
    for block, share in zip(blocks, shares, strict=True):
        x = x + checkpoint(lambda h, s: s * block(h), x, share, use_reentrant=False)  # noqa: B023
    return x


# %% wrong: gives up checkpointing
def run_blocks(blocks, x, shares):
    for block, share in zip(blocks, shares, strict=True):
        x = x + share * block(x)
    return x


# %% wrong: one checkpoint around all blocks
def run_blocks(blocks, x, shares):
    def run(x):
        for block, share in zip(blocks, shares, strict=True):
            x = x + share * block(x)
        return x

    return checkpoint(run, x, use_reentrant=False)


# %% wrong: the reentrant variant, which trains nothing from data that need no gradient
def run_blocks(blocks, x, shares):
    for block, share in zip(blocks, shares, strict=True):
        x = x + share * checkpoint(block, x, use_reentrant=True)
    return x


# %% wrong: takes shares for plain numbers, which get no gradient
def run_blocks(blocks, x, shares):
    for block, share in zip(blocks, shares, strict=True):
        x = x + share.item() * checkpoint(block, x, use_reentrant=False)
    return x


# %% wrong: makes the caller's data require a gradient, so that the reentrant variant trains
def run_blocks(blocks, x, shares):
    x = x.requires_grad_(True) if x.is_leaf else x
    for block, share in zip(blocks, shares, strict=True):
        x = x + share * checkpoint(block, x, use_reentrant=True)
    return x


# %% wrong: lets the second run draw masks of its own
def run_blocks(blocks, x, shares):
    for block, share in zip(blocks, shares, strict=True):
        x = x + share * checkpoint(block, x, use_reentrant=False, preserve_rng_state=False)
    return x


# %% wrong: leaves the last block unwrapped, as in segments
def run_blocks(blocks, x, shares):
    last = len(blocks) - 1
    for place, (block, share) in enumerate(zip(blocks, shares, strict=True)):
        x = x + share * (block(x) if place == last else checkpoint(block, x, use_reentrant=False))
    return x


# %% wrong: forgets what the block adds to
def run_blocks(blocks, x, shares):
    for block, share in zip(blocks, shares, strict=True):
        x = share * checkpoint(block, x, use_reentrant=False)
    return x


# %% right: a function that makes functions
def run_blocks(blocks, x, shares):
    def bind(block, share):
        return lambda h: h + share * block(h)

    for block, share in zip(blocks, shares, strict=True):
        x = checkpoint(bind(block, share), x, use_reentrant=False)
    return x


# %% right: the names are default values of the lambda
def run_blocks(blocks, x, shares):
    for place, block in enumerate(blocks):
        x = x + checkpoint(
            lambda h, block=block, share=shares[place]: share * block(h), x, use_reentrant=False
        )
    return x


# %% right: partial binds the block and the share
def run_blocks(blocks, x, shares):
    def step(block, share, h):
        return h + share * block(h)

    for block, share in zip(blocks, shares, strict=True):
        x = checkpoint(partial(step, block, share), x, use_reentrant=False)
    return x


# %% right: everything comes in through arguments, and a recursion in the place of the loop
def add_share(h, block, share):
    return torch.add(h, block(h).mul(share))


def run_blocks(blocks, x, shares):
    if len(blocks) == 0:
        return x
    first, *others = blocks
    x = checkpoint(add_share, x, first, shares[0], use_reentrant=False)
    return run_blocks(others, x, shares[1:])


# %% wrong: gives up checkpointing in evaluation mode
def run_blocks(blocks, x, shares):
    for block, share in zip(blocks, shares, strict=True):
        x = x + share * (checkpoint(block, x, use_reentrant=False) if block.training else block(x))
    return x


# %% wrong: puts all blocks into training mode
def run_blocks(blocks, x, shares):
    for block, share in zip(blocks, shares, strict=True):
        x = x + share * checkpoint(block.train(), x, use_reentrant=False)
    return x


# %% wrong: two blocks in each checkpoint
def run_blocks(blocks, x, shares):
    def run(x, first, last):
        for place in range(first, last):
            x = x + shares[place] * blocks[place](x)
        return x

    for first in range(0, len(blocks), 2):
        x = checkpoint(run, x, first, min(first + 2, len(blocks)), use_reentrant=False)
    return x


# %% wrong: adds in place to what the checkpoint has kept
def run_blocks(blocks, x, shares):
    x = x.clone()
    for block, share in zip(blocks, shares, strict=True):
        x += share * checkpoint(block, x, use_reentrant=False)
    return x


# %% wrong: checkpoints only where x requires a gradient
def run_blocks(blocks, x, shares):
    for block, share in zip(blocks, shares, strict=True):
        x = x + share * (checkpoint(block, x, use_reentrant=False) if x.requires_grad else block(x))
    return x


# %% wrong: names the place of the block in a function, and the place has moved on
def run_blocks(blocks, x, shares):
    for place in range(len(blocks)):
        x = x + checkpoint(lambda h: shares[place] * blocks[place](h), x, use_reentrant=False)  # noqa: B023
    return x


# %% right: the place of the block is an argument
def run_blocks(blocks, x, shares):
    def step(h, place):
        return shares[place] * blocks[place](h)

    for place in range(len(blocks)):
        x = x + checkpoint(step, x, place, use_reentrant=False)
    return x


# %% right: a new object for each block, in the place of the one that is shared
class Keeper:
    def __init__(self, block, share):
        self.block, self.share = block, share

    def add(self, h):
        return torch.addcmul(h, self.share, self.block(h))


def run_blocks(blocks, x, shares):
    for block, share in zip(blocks, shares.unbind(), strict=True):
        x = checkpoint(Keeper(block, share).add, x, use_reentrant=False)
    return x


# %% right: the reentrant variant, with an argument that always requires a gradient
def run_blocks(blocks, x, shares):
    always = torch.zeros((), requires_grad=True)
    for block, share in zip(blocks, shares, strict=True):
        x = x + share * checkpoint(
            lambda h, _, block=block: block(h), x, always, use_reentrant=True
        )
    return x


# %% wrong: leaves out a block whose share is 0, and its share gets no gradient
def run_blocks(blocks, x, shares):
    for block, share in zip(blocks, shares, strict=True):
        if share != 0:
            x = x + share * checkpoint(block, x, use_reentrant=False)
    return x


# %% wrong: takes a negative share for a positive one, by its square root
def run_blocks(blocks, x, shares):
    for block, share in zip(blocks, shares.square().sqrt(), strict=True):
        x = x + share * checkpoint(block, x, use_reentrant=False)
    return x


# %% wrong: each block runs again, and the graph of its first run is kept all the same
def run_blocks(blocks, x, shares):
    kept = []
    for block, share in zip(blocks, shares, strict=True):
        state = torch.get_rng_state()
        kept.append(block(x))
        torch.set_rng_state(state)
        x = x + share * checkpoint(block, x, use_reentrant=False)
    x.blocks = kept
    return x


# %% right: the blocks are the children of a Sequential, and addcmul adds the shares
def run_blocks(blocks, x, shares):
    for place, block in enumerate(blocks.children()):
        x = torch.addcmul(x, shares[place], checkpoint(block, x, use_reentrant=False))
    return x


# %% right: slices of the blocks of one block each, with the shares split
def run_blocks(blocks, x, shares):
    for place, share in enumerate(shares.split(1)):
        x = x + checkpoint(blocks[place : place + 1], x, use_reentrant=False).mul(share)
    return x
