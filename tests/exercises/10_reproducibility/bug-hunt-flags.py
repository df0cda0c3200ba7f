# %% wrong: only the names are corrected, and the function is replaced by a bool
def set_reproducible(on):
    torch.backends.cudnn.benchmark = not on
    torch.backends.cudnn.deterministic = on


# %% wrong: switches cuDNN off in the place of its tuner
def set_reproducible(on):
    torch.backends.cudnn.enabled = not on
    torch.backends.cudnn.deterministic = on
    torch.use_deterministic_algorithms(on)


# %% wrong: one typo is left
def set_reproducible(on):
    torch.backends.cudnn.benchmark = not on
    torch.backends.cudnn.determinstic = on
    torch.use_deterministic_algorithms(on)


# %% wrong: can be switched on, and never off again
def set_reproducible(on):
    if on:
        torch.backends.cudnn.benchmark = False
        torch.backends.cudnn.deterministic = True
        torch.use_deterministic_algorithms(True)


# %% wrong: the tuner is the wrong way round
def set_reproducible(on):
    torch.backends.cudnn.benchmark = on
    torch.backends.cudnn.deterministic = on
    torch.use_deterministic_algorithms(on)


# %% wrong: keeps the odd name beside the right one
def set_reproducible(on):
    torch.backends.cudnn.enable = not on
    torch.backends.cudnn.benchmark = not on
    torch.backends.cudnn.deterministic = on
    torch.use_deterministic_algorithms(on)


# %% wrong: a warning is not a requirement
def set_reproducible(on):
    torch.backends.cudnn.benchmark = not on
    torch.backends.cudnn.deterministic = on
    torch.use_deterministic_algorithms(on, warn_only=True)


# %% wrong: a flag beside the right place
def set_reproducible(on):
    torch.backends.cudnn.benchmark = not on
    torch.backends.cudnn.deterministic = on
    torch.backends.deterministic = on
    torch.use_deterministic_algorithms(on)


# %% wrong: the names are right, and the function is replaced by a bool
def set_reproducible(on):
    torch.backends.cudnn.benchmark = not on
    torch.backends.cudnn.deterministic = on
    torch.use_deterministic_algorithms = on


# %% right: on and off, case by case
def set_reproducible(on):
    if on:
        torch.backends.cudnn.deterministic = True
        torch.backends.cudnn.benchmark = False
    else:
        torch.backends.cudnn.deterministic = False
        torch.backends.cudnn.benchmark = True
    torch.use_deterministic_algorithms(mode=on, warn_only=False)


# %% right: by another name for cuDNN, and it stays enabled
def set_reproducible(on):
    cudnn = torch.backends.cudnn
    torch.backends.cudnn.enabled = True
    torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic = not on, bool(on)
    torch.use_deterministic_algorithms(bool(on))
    assert cudnn.enabled
