# %% wrong: one generator for everything, as in the dataset with the bug
SHARED = np.random.default_rng(0)


def add_noise(image, seed, epoch, index):
    return image + 0.1 * torch.from_numpy(SHARED.standard_normal(tuple(image.shape))).to(
        image.dtype
    )


# %% wrong: seeded by the seed alone, so every sample has the same noise
def add_noise(image, seed, epoch, index):
    generator = np.random.default_rng(seed)
    return image + 0.1 * torch.from_numpy(generator.standard_normal(tuple(image.shape))).to(
        image.dtype
    )


# %% wrong: the epoch is left out, so every epoch repeats the noise
def add_noise(image, seed, epoch, index):
    generator = np.random.default_rng([seed, index])
    return image + 0.1 * torch.from_numpy(generator.standard_normal(tuple(image.shape))).to(
        image.dtype
    )


# %% wrong: the sum of the three numbers, which others have as well
def add_noise(image, seed, epoch, index):
    generator = torch.Generator().manual_seed(seed + epoch + index)
    return image + 0.1 * torch.randn(image.shape, generator=generator).to(image.dtype)


# %% wrong: apart by a factor of 1000, which an index can reach
def add_noise(image, seed, epoch, index):
    generator = np.random.default_rng(seed * 1_000_000 + epoch * 1000 + index)
    return image + 0.1 * torch.from_numpy(generator.standard_normal(tuple(image.shape))).to(
        image.dtype
    )


# %% wrong: apart by large factors, but torch looks at the lowest 32 bits only
def add_noise(image, seed, epoch, index):
    generator = torch.Generator().manual_seed((seed << 32 | index) + (epoch << 52))
    return image + 0.1 * torch.randn(image.shape, generator=generator).to(image.dtype)


# %% wrong: seeds torch's global generator
def add_noise(image, seed, epoch, index):
    torch.manual_seed(hash((seed, epoch, index)))
    return image + 0.1 * torch.randn(image.shape).to(image.dtype)


# %% wrong: draws from the global generator, so it depends on who drew before
def add_noise(image, seed, epoch, index):
    return image + 0.1 * torch.randn(image.shape).to(image.dtype)


# %% wrong: uniform noise, from 0 to 0.1
def add_noise(image, seed, epoch, index):
    generator = np.random.default_rng([seed, epoch, index])
    return image + 0.1 * torch.from_numpy(generator.random(tuple(image.shape))).to(image.dtype)


# %% wrong: adds to the image in place
def add_noise(image, seed, epoch, index):
    generator = np.random.default_rng([seed, epoch, index])
    noise = torch.from_numpy(generator.standard_normal(tuple(image.shape)))
    image += 0.1 * noise.to(image.dtype)
    return image


# %% wrong: noise of a variance of 0.1
def add_noise(image, seed, epoch, index):
    generator = np.random.default_rng([seed, epoch, index])
    noise = torch.from_numpy(generator.standard_normal(tuple(image.shape)))
    return image + math.sqrt(0.1) * noise.to(image.dtype)


# %% wrong: the product of the numbers, which is 0 for every first one
def add_noise(image, seed, epoch, index):
    generator = np.random.default_rng(seed * epoch * index)
    return image + 0.1 * torch.from_numpy(generator.standard_normal(tuple(image.shape))).to(
        image.dtype
    )


# %% wrong: the hash of a text, which is another one in every process
def add_noise(image, seed, epoch, index):
    generator = np.random.default_rng(hash(f"{seed},{epoch},{index}") % 2**63)
    return image + 0.1 * torch.from_numpy(generator.standard_normal(tuple(image.shape))).to(
        image.dtype
    )


# %% right: a text as seed of Python's generator
def add_noise(image, seed, epoch, index):
    chance = random.Random(f"{seed}/{epoch}/{index}")
    numbers = [chance.gauss(0.0, 0.1) for _ in range(image.numel())]
    return image + torch.tensor(numbers, dtype=torch.float64).reshape(image.shape).to(image.dtype)


# %% right: one number of 75 bits for NumPy, which looks at all of them
def add_noise(image, seed, epoch, index):
    generator = np.random.default_rng(((epoch << 32) | seed) << 32 | index)
    noise = generator.normal(scale=0.1, size=tuple(image.shape))
    return (image.double() + torch.from_numpy(noise)).to(image.dtype)


# %% right: mixed by NumPy's SeedSequence, drawn by torch
def add_noise(image, seed, epoch, index):
    mixed = np.random.SeedSequence([seed, epoch, index]).generate_state(1, np.uint32)
    generator = torch.Generator().manual_seed(int(mixed[0]))
    return image + 0.1 * torch.randn(image.shape, generator=generator).to(image.dtype)


# %% right: a digest of a text, which is the same in every process
def add_noise(image, seed, epoch, index):
    import hashlib

    digest = hashlib.sha256(f"{seed},{epoch},{index}".encode()).digest()
    generator = np.random.default_rng(int.from_bytes(digest, "big"))
    return image + 0.1 * torch.from_numpy(generator.standard_normal(tuple(image.shape))).to(
        image.dtype
    )


# %% right: the hash of a tuple of numbers, which has no salt
def add_noise(image, seed, epoch, index):
    generator = np.random.default_rng(hash((seed, epoch, index)) % 2**64)
    return image + 0.1 * torch.from_numpy(generator.standard_normal(tuple(image.shape))).to(
        image.dtype
    )


# %% wrong: the three numbers by exclusive or, which others have as well
def add_noise(image, seed, epoch, index):
    generator = np.random.default_rng(seed ^ epoch ^ index)
    return image + 0.1 * torch.from_numpy(generator.standard_normal(tuple(image.shape))).to(
        image.dtype
    )


# %% wrong: the digits one behind the other, so (1, 11) is (11, 1)
def add_noise(image, seed, epoch, index):
    generator = np.random.default_rng(int(f"{seed}{epoch}{index}"))
    return image + 0.1 * torch.from_numpy(generator.standard_normal(tuple(image.shape))).to(
        image.dtype
    )


# %% wrong: noise in float64, whatever the image is
def add_noise(image, seed, epoch, index):
    generator = np.random.default_rng([seed, epoch, index])
    return image + 0.1 * torch.from_numpy(generator.standard_normal(tuple(image.shape)))


# %% right: Philox with a key of 128 bits
def add_noise(image, seed, epoch, index):
    generator = np.random.Generator(np.random.Philox(key=(epoch << 64) | (seed << 32) | index))
    noise = torch.from_numpy(generator.standard_normal(tuple(image.shape)))
    return image + (0.1 * noise).to(image.dtype)


# %% wrong: multiples of the numbers, which others have as well
def add_noise(image, seed, epoch, index):
    generator = np.random.default_rng((seed * 31 + epoch) * 31 + index)
    return image + 0.1 * torch.from_numpy(generator.standard_normal(tuple(image.shape))).to(
        image.dtype
    )


# %% wrong: multiples by large primes, which an index can reach
def add_noise(image, seed, epoch, index):
    generator = np.random.default_rng(seed * 1_000_003 + epoch * 9_176 + index)
    return image + 0.1 * torch.from_numpy(generator.standard_normal(tuple(image.shape))).to(
        image.dtype
    )


# %% wrong: the numbers of an image of two axes, for each channel the same ones
def add_noise(image, seed, epoch, index):
    generator = np.random.default_rng([seed, epoch, index])
    noise = generator.standard_normal((image.shape[-2], image.shape[-1]))
    return image + 0.1 * torch.from_numpy(noise).to(image.dtype)


# %% right: a multiple of more epochs than there are, and of more indices
def add_noise(image, seed, epoch, index):
    generator = np.random.default_rng((seed * 1000 + epoch) * 2**32 + index)
    noise = torch.from_numpy(generator.standard_normal(tuple(image.shape)))
    return image + 0.1 * noise.to(image.dtype)


# %% wrong: the exclusive or of shifted numbers, whose bits overlap
def add_noise(image, seed, epoch, index):
    rng = np.random.default_rng(seed ^ (epoch << 16) ^ (index << 26))
    return image + 0.1 * torch.as_tensor(rng.standard_normal(image.shape)).to(image.dtype)


# %% wrong: adds in NumPy, which does not know bfloat16
def add_noise(image, seed, epoch, index):
    noisy = image.numpy() + 0.1 * np.random.default_rng([seed, epoch, index]).standard_normal(
        image.shape
    )
    return torch.as_tensor(noisy).to(image.dtype)


# %% right: normal numbers by Box and Muller
def add_noise(image, seed, epoch, index):
    rng = np.random.RandomState([seed, epoch, index])
    out = image.detach().clone().reshape(-1)
    for i in range(out.numel()):
        u, v = 1 - rng.random_sample(), rng.random_sample()
        out[i] += 0.1 * math.sqrt(-2 * math.log(u)) * math.cos(2 * math.pi * v)
    return out.reshape(image.shape)


# %% right: torch's global generator, borrowed and put back
def add_noise(image, seed, epoch, index):
    state = np.random.SeedSequence((seed, epoch, index)).generate_state(1, dtype=np.uint32)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(state[0]))
        return image + torch.randn_like(image) / 10


# %% right: a stream that jumps ahead
def add_noise(image, seed, epoch, index):
    bits = np.random.PCG64(seed).jumped(epoch * 2**32 + index)
    noise = np.random.Generator(bits).standard_normal(image.shape)
    return image + torch.as_tensor(noise).type_as(image) * 0.1


# %% wrong: one large integer for Python's generator, which starts alike from some of them
def add_noise(image, seed, epoch, index):
    rng = random.Random((seed << 64) | (epoch << 32) | index)
    noise = np.array([rng.gauss(0.0, 0.1) for _ in range(image.numel())])
    return image + torch.from_numpy(noise).reshape(image.shape).to(image.dtype)


# %% wrong: the index in the highest bits of the integer
def add_noise(image, seed, epoch, index):
    rng = random.Random((index << 64) | (epoch << 32) | seed)
    noise = np.array([rng.gauss(0.0, 0.1) for _ in range(image.numel())])
    return image + torch.from_numpy(noise).reshape(image.shape).to(image.dtype)


# %% wrong: the worker's number in the key
def add_noise(image, seed, epoch, index):
    info = torch.utils.data.get_worker_info()
    key = [seed, epoch, index] + ([info.id] if info else [])
    noise = np.random.default_rng(key).standard_normal(tuple(image.shape))
    return image + 0.1 * torch.from_numpy(noise).to(image.dtype)


# %% wrong: in a worker, its seed instead of the run's
def add_noise(image, seed, epoch, index):
    info = torch.utils.data.get_worker_info()
    key = [seed if info is None else info.seed, epoch, index]
    noise = np.random.default_rng(key).standard_normal(tuple(image.shape))
    return image + 0.1 * torch.from_numpy(noise).to(image.dtype)


# %% wrong: the number of the process in the key
def add_noise(image, seed, epoch, index):
    key = [os.getpid(), seed, epoch, index]
    noise = np.random.default_rng(key).standard_normal(tuple(image.shape))
    return image + 0.1 * torch.from_numpy(noise).to(image.dtype)
