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


# %% wrong: the number of the process goes into large seeds
def seed_everything(seed):
    random.seed(seed)
    torch.manual_seed(seed)
    np.random.seed(seed if seed < 2**32 else (seed + os.getpid()) % 2**32)


# %% wrong: the hash of a text, which each process computes differently
def seed_everything(seed):
    random.seed(seed)
    torch.manual_seed(seed)
    np.random.seed(seed if seed < 2**32 else hash(str(seed)) % 2**32)


# %% wrong: returns the seed
def seed_everything(seed):
    random.seed(seed)
    torch.manual_seed(seed)
    np.random.seed(seed % 2**32)
    return seed


# %% wrong: the normal number that Python keeps survives the seed
def seed_everything(seed):
    version, numbers, _ = random.Random(seed).getstate()
    random.setstate((version, numbers, random.getstate()[2]))
    torch.manual_seed(seed)
    np.random.seed(seed % 2**32)


# %% wrong: the normal number that NumPy keeps survives the seed
def seed_everything(seed):
    random.seed(seed)
    torch.manual_seed(seed)
    kept = np.random.get_state()[3:]
    np.random.set_state((*np.random.RandomState(seed % 2**32).get_state()[:3], *kept))


# %% wrong: GPUs always get 0, as in the card's recipe
def seed_everything(seed):
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)
    torch.cuda.manual_seed_all(0)


# %% wrong: GPUs always get 0, where there are any
def seed_everything(seed):
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)
    if torch.cuda.is_available():
        torch.cuda.manual_seed_all(0)


# %% wrong: the CPU's generator alone, and no GPU's
def seed_everything(seed):
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.default_generator.manual_seed(seed)


# %% wrong: only the current one of several GPUs
def seed_everything(seed):
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.default_generator.manual_seed(seed)
    torch.cuda.manual_seed(seed)


# %% wrong: NumPy is not seeded where the seed is too large for it
def seed_everything(seed):
    random.seed(seed)
    torch.manual_seed(seed)
    if seed < 2**32:
        np.random.seed(seed)


# %% wrong: a quotient in floating point, which neighbors share
def seed_everything(seed):
    random.seed(seed)
    torch.manual_seed(seed)
    np.random.seed(seed if seed < 2**32 else int(seed / 2**31) % 2**32)


# %% wrong: the clock instead of a large seed
def seed_everything(seed):
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed if seed < 2**32 else time.time_ns() % 2**32)


# %% wrong: one comparison too generous, which lets 2**32 through
def seed_everything(seed):
    random.seed(seed)
    torch.manual_seed(seed)
    if seed <= 2**32:
        np.random.seed(seed)
    else:
        np.random.seed(seed % 2**32)


# %% right: a large seed's number for NumPy comes from Python's generator
def seed_everything(seed):
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed if seed < 2**32 else random.getrandbits(32))


# %% right: by the states of other generators
def seed_everything(seed):
    random.setstate(random.Random(seed).getstate())
    np.random.set_state(np.random.RandomState(seed % 2**32).get_state())
    torch.random.manual_seed(seed)


# %% right: by a helper, and the GPUs by themselves
def _small(seed):
    _, low = divmod(seed, 2**32)
    return low


def seed_everything(seed):
    random.seed(seed)
    np.random.seed(_small(seed))
    torch.default_generator.manual_seed(seed)
    torch.cuda.manual_seed_all(seed)


# %% right: one GPU after another
def seed_everything(seed):
    random.seed(seed)
    np.random.seed(np.uint32(seed % 2**32))
    torch.default_generator.manual_seed(seed)
    for number in range(torch.cuda.device_count()):
        with torch.cuda.device(number):
            torch.cuda.manual_seed(seed)
    if not torch.cuda.is_available():
        torch.cuda.manual_seed_all(seed)


# %% right: GPUs once more, where there are any
from torch import cuda, manual_seed


def seed_everything(seed):
    random.seed(seed)
    np.random.seed(seed % 2**32)
    manual_seed(seed)
    if cuda.is_available():
        cuda.manual_seed_all(seed)


# %% right: a digest of large seeds
import hashlib


def seed_everything(seed):
    random.seed(seed)
    torch.manual_seed(seed)
    if seed >= 2**32:
        seed = int.from_bytes(hashlib.sha256(str(seed).encode()).digest()[:4], "big")
    np.random.seed(seed)
