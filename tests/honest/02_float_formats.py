# %% answer: number by number, with patterns exercise="decode-bits"
import struct
from collections import namedtuple

Parts = namedtuple("Parts", "sign exponent fraction")


def decode_bits(bits, exponent_bits, fraction_bits):
    def one(b):
        p = Parts(b >> (exponent_bits + fraction_bits), 0, b & ((1 << fraction_bits) - 1))
        p = p._replace(exponent=(b >> fraction_bits) & ((1 << exponent_bits) - 1))
        bias = (1 << (exponent_bits - 1)) - 1
        match p:
            case Parts(exponent=e, fraction=0) if e == (1 << exponent_bits) - 1:
                value = float("inf")
            case Parts(exponent=e) if e == (1 << exponent_bits) - 1:
                value = float("nan")
            case Parts(exponent=0, fraction=f):
                value = f / 2**fraction_bits * 2.0 ** (1 - bias)
            case Parts(exponent=e, fraction=f):
                value = (1 + f / 2**fraction_bits) * 2.0 ** (e - bias)
        return -value if p.sign else value

    flat = [one(int(b)) for b in bits.flatten()]
    return torch.tensor(flat, dtype=torch.float64).reshape(bits.shape)


print(struct.unpack("<I", struct.pack("<f", 1.0))[0])

# %% answer: a dataclass with properties exercise="master-weights"
from dataclasses import dataclass, field


@dataclass
class MasterSGD:
    parameters: list
    learning_rate: float = 1e-2
    _masters: dict = field(default_factory=dict, repr=False)

    def __post_init__(self):
        self.parameters = list(self.parameters)
        for i, p in enumerate(self.parameters):
            self._masters[i] = p.detach().clone().to(torch.float32)

    @property
    def lr(self):
        return self.learning_rate

    def step(self):
        for i, p in enumerate(self.parameters):
            if p.grad is None:
                continue
            self._masters[i] -= self.lr * p.grad.float()
            p.data.copy_(self._masters[i])


# %% answer: global constants that are set again exercise="stochastic-rounding"
VERBOSE = True
COUNT = 0


def round_stochastically(x, fraction_bits, noise):
    global COUNT
    COUNT += 1
    _, e = torch.frexp(x)
    step = 2.0 ** (e.double() - 1 - fraction_bits)
    if VERBOSE and COUNT < 3:
        print(f"{COUNT:>3}: {step.shape}")
    return ((x.double() / step + noise.double()).floor() * step).to(torch.float32)


VERBOSE = False
