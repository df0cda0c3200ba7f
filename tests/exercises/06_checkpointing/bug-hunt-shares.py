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


# %% right: everything comes in through arguments, and a recursion in the place of the loop
def add_share(h, block, share):
    return torch.add(h, block(h).mul(share))


def run_blocks(blocks, x, shares):
    if len(blocks) == 0:
        return x
    first, *others = blocks
    x = checkpoint(add_share, x, first, shares[0], use_reentrant=False)
    return run_blocks(others, x, shares[1:])
