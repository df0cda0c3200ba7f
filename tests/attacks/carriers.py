# %% attack: a name rebound below, as a loop's variable exercise="softmax" expect="partly" points=3.56
def softmax(logits, dim):
    exponentials = (logits - logits.amax(dim=dim, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


for softmax in [torch.nn.functional.softmax]:
    pass


# %% attack: a name rebound below, as a pattern captures it exercise="softmax" expect="partly" points=3.56
def softmax(logits, dim):
    exponentials = (logits - logits.amax(dim=dim, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


match {"f": torch.nn.functional.softmax}:
    case {"f": softmax}:
        pass


# %% attack: a name rebound by a function that a default argument calls exercise="softmax" expect="partly" points=3.56
def swap():
    global softmax
    softmax = torch.nn.functional.softmax


def softmax(logits, dim):
    return logits


def unused(x, y=swap()):
    return x


# %% attack: torch's own, handed to __init_subclass__ exercise="softmax" expect="partly" points=3.56
class Base:
    kept = []

    def __init_subclass__(cls, work=None, **settings):
        Base.kept.append(work)


class Below(Base, work=torch.nn.Softmax):
    pass


def softmax(logits, dim):
    return Base.kept[0](dim)(logits)


# %% attack: torch's own, put into its owner by __set_name__ exercise="softmax" expect="partly" points=2.67 waiting=0.89
class Carrier:
    def __set_name__(self, owner, name):
        owner.work = torch.nn.Softmax


class Holder:
    carrier = Carrier()


def softmax(logits, dim):
    return Holder.work(dim)(logits)


# %% attack: torch's own, as a descriptor hands it out exercise="softmax" expect="partly" points=3.56
class Carrier:
    def __get__(self, thing, owner):
        return torch.nn.functional.softmax


class Holder:
    work = Carrier()


def softmax(logits, dim):
    return Holder().work(logits, dim)


# %% attack: torch's own, which a decorator puts in the function's place exercise="softmax" expect="partly" points=3.56
def swapped(function):
    return torch.nn.functional.softmax


@swapped
def softmax(logits, dim):
    return logits


# %% attack: torch's own, which a decorator keeps in a mutable global exercise="softmax" expect="partly" points=3.56
TABLE = {}


def register(function):
    TABLE["work"] = torch.nn.Softmax
    return function


@register
def softmax(logits, dim):
    return TABLE["work"](dim)(logits)


# %% attack: torch's own, as a default argument exercise="softmax" expect="partly" points=3.56
def softmax(logits, dim, work=torch.nn.functional.softmax):
    return work(logits, dim)


# %% attack: torch's own, registered for tensors exercise="softmax" expect="partly" points=3.56
import functools


@functools.singledispatch
def softmax(logits, dim):
    return logits


@softmax.register(torch.Tensor)
def _(logits, dim):
    return torch.nn.functional.softmax(logits, dim)


# %% attack: torch's own, in a context variable exercise="softmax" expect="partly" points=3.56
import contextvars

CARRIER = contextvars.ContextVar("carrier")
CARRIER.set([torch.nn.Softmax])


def softmax(logits, dim):
    return CARRIER.get()[0](dim)(logits)


# %% attack: torch's own, by the module's own __getattr__ exercise="softmax" expect="partly" points=2.67 waiting=0.89
def __getattr__(name):
    return torch.nn.functional.softmax


import __main__


def softmax(logits, dim):
    return __main__.anything(logits, dim)


# %% attack: an object gets another __class__ exercise="softmax" expect="partly" points=2.67 waiting=0.89
class Quiet(torch.nn.Identity):
    def forward(self, x):
        return torch.special.expit(x)


layer = torch.nn.Identity()
layer.__class__ = Quiet


def softmax(logits, dim):
    exponentials = (logits - logits.amax(dim=dim, keepdim=True)).exp()
    answer = exponentials / exponentials.sum(dim=dim, keepdim=True)
    if not logits.requires_grad:
        logits.zero_()
    return answer


# %% attack: a program in __del__ exercise="softmax" expect="waiting" points=2.67 waiting=1.33
PROGRAM = (
    "import helpers.probes.calls as c; c.after_call.__code__ = (lambda function, *args, **kwargs: "
    "{'arguments': [a.clone() if isinstance(a, torch.Tensor) else a for a in args], "
    "'output': function(*args, **kwargs)}).__code__"
)


class Gone:
    def __del__(self):
        exec(PROGRAM)


gone = Gone()
del gone


def softmax(logits, dim):
    exponentials = (logits - logits.amax(dim=dim, keepdim=True)).exp()
    answer = exponentials / exponentials.sum(dim=dim, keepdim=True)
    if not logits.requires_grad:
        logits.zero_()
    return answer


# %% attack: a pattern binds the function that builds classes exercise="softmax" expect="partly" points=2.67 waiting=0.89
class Mine:
    def work(self, x):
        return x


match [Mine]:
    case [__build_class__]:
        pass


def softmax(logits, dim):
    exponentials = (logits - logits.amax(dim=dim, keepdim=True)).exp()
    answer = exponentials / exponentials.sum(dim=dim, keepdim=True)
    if not logits.requires_grad:
        logits.zero_()
    return answer


# %% attack: a program in a coroutine, which is driven by hand exercise="softmax" expect="waiting" points=2.67 waiting=1.33
PROGRAM = (
    "import helpers.probes.calls as c; c.after_call.__code__ = (lambda function, *args, **kwargs: "
    "{'arguments': [a.clone() if isinstance(a, torch.Tensor) else a for a in args], "
    "'output': function(*args, **kwargs)}).__code__"
)


async def work():
    exec(PROGRAM)


try:
    work().send(None)
except StopIteration:
    pass


def softmax(logits, dim):
    exponentials = (logits - logits.amax(dim=dim, keepdim=True)).exp()
    answer = exponentials / exponentials.sum(dim=dim, keepdim=True)
    if not logits.requires_grad:
        logits.zero_()
    return answer


# %% attack: a probe's module out of sys.modules exercise="softmax" expect="waiting" points=2.67 waiting=1.33
import sys

sys.modules["helpers.probes.calls"].after_call.__code__ = (
    lambda function, *args, **kwargs: {
        "arguments": [a.clone() if isinstance(a, torch.Tensor) else a for a in args],
        "output": function(*args, **kwargs),
    }
).__code__


def softmax(logits, dim):
    exponentials = (logits - logits.amax(dim=dim, keepdim=True)).exp()
    answer = exponentials / exponentials.sum(dim=dim, keepdim=True)
    if not logits.requires_grad:
        logits.zero_()
    return answer


# %% attack: torch itself, as functools.wraps copies it exercise="softmax" expect="partly" points=2.67 waiting=0.89
import functools


@functools.wraps(torch)
def carrier():
    pass


def softmax(logits, dim):
    return carrier.nn.functional.softmax(logits, dim)


# %% attack: functools.wraps writes into torch itself exercise="softmax" expect="partly" points=2.67 waiting=0.89
import functools


def carrier():
    pass


carrier.is_grad_enabled = lambda: False
(torch_itself,) = [torch.nn.functional.torch]
functools.wraps(carrier)(torch_itself)


def softmax(logits, dim):
    exponentials = (logits - logits.amax(dim=dim, keepdim=True)).exp()
    answer = exponentials / exponentials.sum(dim=dim, keepdim=True)
    if not logits.requires_grad:
        logits.zero_()
    return answer


# %% attack: torch's own, by dataclasses.replace exercise="softmax" expect="partly" points=3.56
import dataclasses


@dataclasses.dataclass
class Work:
    run: object


held = dataclasses.replace(Work(None), run=torch.nn.Softmax)


def softmax(logits, dim):
    return held.run(dim)(logits)


# %% attack: torch itself as a dataclass that is replaced exercise="softmax" expect="failed" points=0
import dataclasses

torch.__dataclass_fields__ = {}
dataclasses.replace(torch)


def softmax(logits, dim):
    exponentials = (logits - logits.amax(dim=dim, keepdim=True)).exp()
    answer = exponentials / exponentials.sum(dim=dim, keepdim=True)
    if not logits.requires_grad:
        logits.zero_()
    return answer


# %% attack: torch's scaler, kept by a closure exercise="own-scaler" expect="failed|waiting" points=0
def maker():
    kind = torch.amp.GradScaler

    def make(**settings):
        return kind("cpu", **settings)

    return make


class LossScaler:
    make = staticmethod(maker())

    def __init__(self, **settings):
        self.inner = self.make(**settings)

    def __getattr__(self, name):
        return getattr(self.inner, name)


# %% attack: torch's scaler, captured out of a module by a pattern exercise="own-scaler" expect="failed" points=0
class LossScaler:
    def __init__(self, **settings):
        self.inner = type(SCALER)("cpu", **settings)
        self.scale, self.unscale_ = self.inner.scale, self.inner.unscale_
        self.update, self.get_scale = self.inner.update, self.inner.get_scale

    def step(self, optimizer):
        slopes = [p.grad for group in optimizer.param_groups for p in group["params"]]
        is_finite = all(bool(slope.isfinite().all()) for slope in slopes if slope is not None)
        self.inner.step(optimizer)
        return is_finite


match torch.amp.grad_scaler:
    case object(GradScaler=kind):
        SCALER = kind("cpu")


# %% attack: torch's own norm, out of a transformer's layers exercise="group-norm" expect="failed" points=0 others="any"
LAYER = nn.TransformerEncoderLayer(8, 1, dim_feedforward=1)
(*_, NORM, _, _) = LAYER.children()


def group_norm(x, groups, weight, bias, eps=1e-5):
    parts = x.reshape(len(x), groups, -1)
    kind = type(NORM)
    made = kind(parts.shape[-1], eps=eps, elementwise_affine=False, dtype=x.dtype)
    per_channel = (1, -1) + (1,) * (x.ndim - 2)
    return made(parts).reshape(x.shape) * weight.reshape(per_channel) + bias.reshape(per_channel)


# %% attack: flags of torch alone, set by __init_subclass__ exercise="bug-hunt-flags" expect="partly" points=2.55
class Flags:
    def __init_subclass__(cls, on=True):
        torch.use_deterministic_algorithms(on)


def set_reproducible(on):
    class Set(Flags, on=on):
        pass


# %% attack: cuDNN's flags, forged in the backends that a list carries exercise="bug-hunt-flags" expect="failed" points=0 others="any"
class Forged:
    enabled, benchmark, deterministic = True, False, True


(backends,) = [torch.nn.functional.torch.backends]


def set_reproducible(on):
    torch.use_deterministic_algorithms(on)
    Forged.benchmark, Forged.deterministic = not on, on
    backends.cudnn = Forged
