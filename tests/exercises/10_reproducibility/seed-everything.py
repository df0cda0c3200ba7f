# %% wrong: torch's generator alone
def seed_everything(seed):
    torch.manual_seed(seed)


# %% wrong: NumPy is forgotten
def seed_everything(seed):
    random.seed(seed)
    torch.manual_seed(seed)


# %% wrong: NumPy refuses large seeds
def seed_everything(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


# %% wrong: large seeds are cut off, and become the same one
def seed_everything(seed):
    random.seed(seed)
    np.random.seed(min(seed, 2**32 - 1))
    torch.manual_seed(seed)


# %% wrong: the high bits alone go to NumPy
def seed_everything(seed):
    random.seed(seed)
    np.random.seed(seed >> 32)
    torch.manual_seed(seed)


# %% wrong: makes generators of its own, and leaves the global ones alone
def seed_everything(seed):
    random.Random(seed)
    np.random.default_rng(seed)
    torch.Generator().manual_seed(seed)


# %% wrong: a fixed seed for torch, whatever was asked for
def seed_everything(seed):
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(0)


# %% wrong: the last three digits alone
def seed_everything(seed):
    random.seed(seed % 1000)
    np.random.seed(seed % 1000)
    torch.manual_seed(seed)


# %% right: NumPy's takes a large seed in two halves
def seed_everything(seed):
    torch.manual_seed(seed)
    np.random.seed(seed if seed < 2**32 else [seed % 2**32, seed // 2**32])
    random.seed(seed)


# %% right: one seed for all three, drawn from the given one where that is too large
def seed_everything(seed):
    small = seed if seed < 2**32 else random.Random(seed).getrandbits(32)
    for function in (random.seed, np.random.seed, torch.manual_seed, torch.cuda.manual_seed_all):
        function(small)


# %% wrong: another seed for all three, drawn from the given one
def seed_everything(seed):
    small = random.Random(seed).getrandbits(32)
    for function in (random.seed, np.random.seed, torch.manual_seed):
        function(small)


# %% wrong: a small remainder of large seeds, which neighbors share
def seed_everything(seed):
    random.seed(seed)
    np.random.seed(seed if seed < 2**32 else seed % 9)
    torch.manual_seed(seed)
