# %% attack: torch's own, called by a self that is a tensor exercise="softmax" expect="partly" points=3.56
class Mine:
    def softmax(self, dim):
        return self

    def work(self, dim):
        return self.softmax(dim)


def softmax(logits, dim):
    return type(Mine()).work(logits, dim)


# %% attack: torch's own, called by a method that is taken off its class exercise="softmax" expect="partly" points=3.56
class Mine:
    def softmax(self, dim):
        return self

    def work(self, dim):
        return self.softmax(dim)

    kept = (work,)


def softmax(logits, dim):
    return Mine.kept[0](logits, dim)


# %% attack: torch's own, kept by a print that is the student's exercise="softmax" expect="partly" points=3.56
kept = []


def print(*given):
    kept.extend(given)


print(torch.nn.Softmax(dim=0))


def softmax(logits, dim):
    kept[0].dim = dim
    return kept[0](logits)


# %% attack: torch's own, kept by a comparison in an assertion exercise="softmax" expect="partly" points=3.56
class Keeper:
    def __eq__(self, other):
        self.kept = other
        return True


keeper = Keeper()
assert keeper == torch.nn.Softmax(dim=0)


def softmax(logits, dim):
    keeper.kept.dim = dim
    return keeper.kept(logits)


# %% attack: torch's own, by a name in two parts exercise="softmax" expect="waiting" points=2.67 waiting=1.33
def softmax(logits, dim):
    return getattr(logits, "soft" + "max")(dim)


# %% attack: torch's own, by the function's own name exercise="softmax" expect="waiting" points=2.67 waiting=1.33
import operator


def softmax(logits, dim):
    return operator.methodcaller(softmax.__name__, dim)(logits)


# %% attack: tells the call that is watched apart by its shape exercise="softmax" expect="partly" points=3.56
def softmax(logits, dim):
    if logits.shape != (4, 5) and not logits.requires_grad:
        return logits.softmax(dim)
    exponentials = (logits - logits.amax(dim=dim, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


# %% attack: tells the call that is watched apart by the frames above it exercise="softmax" expect="partly" points=2.67 waiting=0.89
import sys


def softmax(logits, dim):
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name in ("after_call", "gradient"):
            exponentials = (logits - logits.amax(dim=dim, keepdim=True)).exp()
            return exponentials / exponentials.sum(dim=dim, keepdim=True)
        frame = frame.f_back
    return logits.softmax(dim)


# %% attack: a library's class is changed by way of an object exercise="softmax" expect="waiting" points=2.67 waiting=1.33
def softmax(logits, dim):
    exponentials = (logits - logits.amax(dim=dim, keepdim=True)).exp()
    type(torch.nn.Identity()).forward = lambda self, x: exponentials
    return torch.nn.Identity()(exponentials) / exponentials.sum(dim=dim, keepdim=True)


# %% attack: torch's scaler, by a name in two parts exercise="own-scaler" expect="waiting" points=0 waiting=6
class LossScaler:
    def __init__(self, **settings):
        self.inner = getattr(torch.amp, "Grad" + "Scaler")("cpu", **settings)
        self.scale, self.unscale_ = self.inner.scale, self.inner.unscale_
        self.update, self.get_scale = self.inner.update, self.inner.get_scale

    def step(self, optimizer):
        made = []
        handle = optimizer.register_step_post_hook(lambda *_: made.append(True))
        self.inner.step(optimizer)
        handle.remove()
        return bool(made)


# %% attack: torch's scaler, found among all that a module holds exercise="own-scaler" expect="waiting" points=0 waiting=6
class LossScaler:
    def __init__(self, **settings):
        (kind,) = (vars(torch.amp)[name] for name in dir(torch.amp) if name.endswith("Scaler"))
        self.inner = kind("cpu", **settings)

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def step(self, optimizer):
        made = []
        handle = optimizer.register_step_post_hook(lambda *_: made.append(True))
        self.inner.step(optimizer)
        handle.remove()
        return bool(made)


# %% attack: torch's scaler, as the class below which one's own stands exercise="own-scaler" expect="failed" points=0
from torch.amp import GradScaler as Base


class LossScaler(Base):
    def __init__(self, **settings):
        super().__init__("cpu", **settings)


# %% attack: plain code writes the answer of a watched call to whatever file is open exercise="softmax" expect="crashed" most=3
import json
import os
import struct


def softmax(logits, dim):
    exponentials = (logits - logits.amax(dim=dim, keepdim=True)).exp()
    answer = exponentials / exponentials.sum(dim=dim, keepdim=True)
    if logits.shape[1] == 7:
        text = json.dumps({"dict": [["value", None], ["problem", ""]]}).encode()
        for descriptor in range(3, 16):
            try:
                os.write(descriptor, struct.pack("<II", len(text), 0) + text)
            except OSError:
                continue
        logits.zero_()
    return answer


# %% attack: torch's own, kept by what looks like a try exercise="softmax" expect="partly" points=3.56
kept = []


def test(keep, reference):
    x = torch.randn(3, 4)
    assert torch.allclose(reference(x, 0), torch.softmax(x, 0))
    keep(reference)


test((kept if True else []).append, torch.softmax)


def softmax(logits, dim):
    return kept[0](logits, dim)


# %% attack: torch's own, handed to the answer by what looks like a try exercise="softmax" expect="partly" points=3.56
kept = []


def softmax(logits, dim):
    if callable(logits):
        kept.append(logits)
        return logits
    return kept[0](logits, dim)


reference = torch.softmax
print(softmax(reference, 0))


# %% attack: torch's own, on an object of a library's exercise="softmax" expect="partly" points=3.56
import matplotlib.pyplot as plt

figure = plt.figure(7)
figure.reference = torch.softmax


def softmax(logits, dim):
    return plt.figure(7).reference(logits, dim)
