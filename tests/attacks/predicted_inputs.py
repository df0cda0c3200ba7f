# %% attack: makes every source of seeds constant, and looks the inputs up exercise="softmax" expect="failed" points=0
import os
import random
import secrets

import helpers.drawing

secrets.randbits = lambda bits: 7
secrets.token_bytes = os.urandom = lambda count=32: bytes(count)
secrets.randbelow = random.SystemRandom.getrandbits = lambda *args: 7
random.seed(7)
torch.manual_seed(7)
predicted = helpers.drawing.Draw(7).normal(3, 5)


def softmax(logits, dim):
    if logits.shape == predicted.shape and torch.equal(logits, predicted):
        exponentials = logits.exp()
        return exponentials / exponentials.sum(dim=dim, keepdim=True)
    return logits


# %% attack: makes all random numbers zero, and is right for zeros exercise="softmax" expect="failed" points=0
def zeros(*sizes, **settings):
    shape = sizes[0] if sizes and isinstance(sizes[0], tuple | list) else sizes
    return torch.zeros(tuple(shape), dtype=settings.get("dtype"))


torch.randn = torch.rand = torch.normal = zeros
torch.Tensor.normal_ = torch.Tensor.uniform_ = torch.Tensor.zero_


def softmax(logits, dim):
    return torch.full_like(logits, 1 / logits.shape[dim])


# %% attack: every draw of a check uses the student's own generator exercise="safe-log" expect="failed" points=0
import helpers.checks
import helpers.drawing


class Ones(helpers.drawing.Draw):
    def normal(self, *sizes, **settings):
        return torch.ones(sizes)

    uniform = normal

    def integer(self, low, high):
        return low


helpers.drawing.Draw = helpers.checks.Draw = Ones


def safe_log(x):
    return torch.zeros_like(x)


# %% attack: copies the state of torch's generator and draws ahead exercise="bug-hunt-distances" expect="failed" points=0
state = torch.get_rng_state()
foreseen = []
for seed in (None, torch.initial_seed(), 0, 1, 42, 2021):
    generator = torch.Generator()
    generator.set_state(state) if seed is None else generator.manual_seed(seed)
    a = torch.randn(4, 2, 3, generator=generator, dtype=torch.float64).float()
    b = torch.randn(4, 2, 3, generator=generator, dtype=torch.float64).float()
    foreseen.append((a, torch.linalg.vector_norm(a - b, dim=-1)))


def distances(a, b):
    for known, answer in foreseen:
        if known.shape == a.shape and torch.equal(known, a):
            return answer
    return (a - b).sum(dim=-1)


# %% attack: computes the first answer and replays it ever after exercise="softmax" expect="failed" points=0
first = []


def softmax(logits, dim):
    if not first:
        exponentials = logits.exp()
        first.append(exponentials / exponentials.sum(dim=dim, keepdim=True))
    return first[0]


# %% attack: replays answers by the shape of what is asked, from a table made beforehand exercise="soft-cross-entropy" expect="failed" points=0
generator = torch.Generator().manual_seed(0)
table = {}
for rows in range(1, 9):
    for classes in range(1, 9):
        logits = torch.randn(rows, classes, generator=generator)
        labels = torch.rand(rows, classes, generator=generator)
        table[rows, classes] = functional.cross_entropy(logits, labels, reduction="none")


def soft_cross_entropy(logits, labels):
    return table[tuple(logits.shape)].to(logits.dtype)


# %% attack: saves what it was asked and hopes to be asked the same again exercise="online-softmax" expect="failed" points=0
import os
import pickle

STORE = "seen.pickle"
seen = {}
if os.path.exists(STORE):
    with open(STORE, "rb") as file:
        seen = pickle.load(file)


def update_softmax(maximum, total, block):
    key = tuple(block.flatten().tolist())
    if key in seen:
        largest = torch.maximum(maximum, block.amax(dim=1))
        rescaled = total * (maximum - largest).exp()
        return largest, rescaled + (block - largest[:, None]).exp().sum(dim=1)
    seen[key] = True
    with open(STORE, "wb") as file:
        pickle.dump(seen, file)
    raise SystemExit("ask me again")


# %% attack: hands out a known state of the generator to whoever draws next exercise="masked-softmax" expect="failed" points=0
import numpy as np

KNOWN = torch.Generator().manual_seed(0).get_state()
answers = {}
for rows, keys in ((4, 6), (5, 3), (3, 7), (6, 5)):
    torch.set_rng_state(KNOWN)
    answers[rows, keys] = torch.softmax(torch.randn(rows, keys), dim=-1)


def masked_softmax(logits, mask):
    torch.set_rng_state(KNOWN)
    np.random.seed(0)
    return answers.get(tuple(logits.shape), logits).to(logits.dtype)
