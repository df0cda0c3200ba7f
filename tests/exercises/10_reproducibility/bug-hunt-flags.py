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


# %% right: by another name for cuDNN
def set_reproducible(on):
    cudnn = torch.backends.cudnn
    cudnn.benchmark, cudnn.deterministic = not on, bool(on)
    torch.use_deterministic_algorithms(bool(on))


# %% wrong: returns at once if torch's algorithms are not required already
def set_reproducible(on):
    if not on and not torch.are_deterministic_algorithms_enabled():
        return
    torch.backends.cudnn.benchmark = not on
    torch.backends.cudnn.deterministic = on
    torch.use_deterministic_algorithms(on)


# %% wrong: returns at once if torch's flag is as it should be
def set_reproducible(on):
    if torch.are_deterministic_algorithms_enabled() == on:
        return
    torch.backends.cudnn.benchmark = not on
    torch.backends.cudnn.deterministic = on
    torch.use_deterministic_algorithms(on)


# %% wrong: turns TF32 off as well
def set_reproducible(on):
    torch.backends.cudnn.benchmark = not on
    torch.backends.cudnn.deterministic = on
    torch.use_deterministic_algorithms(on)
    torch.backends.cuda.matmul.allow_tf32 = False


# %% wrong: turns TF32 of convolutions off and on as well
def set_reproducible(on):
    torch.backends.cudnn.benchmark = not on
    torch.backends.cudnn.deterministic = on
    torch.use_deterministic_algorithms(on)
    torch.backends.cudnn.allow_tf32 = not on


# %% wrong: sets a flag of another backend as well
def set_reproducible(on):
    torch.backends.cudnn.benchmark = not on
    torch.backends.cudnn.deterministic = on
    torch.use_deterministic_algorithms(on)
    torch.backends.mkldnn.deterministic = on


# %% wrong: sets the precision of matrix products as well
def set_reproducible(on):
    torch.backends.cudnn.benchmark = not on
    torch.backends.cudnn.deterministic = on
    torch.use_deterministic_algorithms(on)
    torch.set_float32_matmul_precision("highest" if on else "high")


# %% wrong: returns what it was given
def set_reproducible(on):
    torch.backends.cudnn.benchmark = not on
    torch.backends.cudnn.deterministic = on
    torch.use_deterministic_algorithms(on)
    return on


# %% wrong: the tuner is only switched off, never on
def set_reproducible(on):
    if on:
        torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = on
    torch.use_deterministic_algorithms(on)


# %% wrong: turns the tuner's flag around, whatever it is
def set_reproducible(on):
    torch.backends.cudnn.benchmark = not torch.backends.cudnn.benchmark
    torch.backends.cudnn.deterministic = on
    torch.use_deterministic_algorithms(on)


# %% right: cuDNN's flags in one call
def set_reproducible(on):
    torch.backends.cudnn.set_flags(_benchmark=not on, _deterministic=on)
    torch.use_deterministic_algorithms(on)


# %% right: by the debug mode
def set_reproducible(on):
    torch.backends.cudnn.benchmark = not on
    torch.backends.cudnn.deterministic = on
    torch.set_deterministic_debug_mode("error" if on else "default")


# %% right: everything off first, then on
def set_reproducible(on):
    torch.use_deterministic_algorithms(False)
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.deterministic = False
    if on:
        torch.use_deterministic_algorithms(True)
        torch.backends.cudnn.benchmark = False
        torch.backends.cudnn.deterministic = True


# %% right: returns early only if all three are as wanted
def set_reproducible(on):
    wanted = (not on, on, on)
    b = torch.backends.cudnn
    if (b.benchmark, b.deterministic, torch.are_deterministic_algorithms_enabled()) == wanted:
        return
    b.benchmark, b.deterministic = wanted[:2]
    torch.use_deterministic_algorithms(wanted[2])


# %% wrong: switches cuDNN on as well, which may have been off
def set_reproducible(on):
    torch.backends.cudnn.enabled = True
    torch.backends.cudnn.benchmark = not on
    torch.backends.cudnn.deterministic = on
    torch.use_deterministic_algorithms(on)


# %% wrong: sets cuDNN's flags in one call, and switches cuDNN on by it
def set_reproducible(on):
    torch.backends.cudnn.set_flags(_enabled=True, _benchmark=not on, _deterministic=on)
    torch.use_deterministic_algorithms(on)


# %% wrong: off, deterministic algorithms stay on and only warn
def set_reproducible(on):
    torch.backends.cudnn.benchmark = not on
    torch.backends.cudnn.deterministic = on
    torch.use_deterministic_algorithms(True, warn_only=not on)


# %% wrong: off is the level at which torch warns, not the one at which it says nothing
def set_reproducible(on):
    torch.set_deterministic_debug_mode(2 if on else 1)
    torch.backends.cudnn.deterministic = on
    torch.backends.cudnn.benchmark = not on
