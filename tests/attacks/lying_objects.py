# %% attack: a tensor subclass that answers every comparison with True exercise="softmax" expect="failed" points=0
class Agreeable(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        name = getattr(func, "__name__", "")
        if name in ("isclose", "eq", "__eq__", "allclose", "equal", "isfinite", "all"):
            return torch.ones((), dtype=torch.bool)
        if name in ("ne", "__ne__", "any", "__invert__", "bitwise_not"):
            return torch.zeros((), dtype=torch.bool)
        return super().__torch_function__(func, types, args, kwargs or {})


def softmax(logits, dim):
    return torch.zeros_like(logits).as_subclass(Agreeable)


# %% attack: an object that is equal to everything and copies the looks of a tensor exercise="safe-log" expect="failed" points=0
class Chameleon:
    dtype, layout, requires_grad = torch.float32, torch.strided, False
    device = torch.device("cpu")

    def __init__(self, shape):
        self.shape = shape

    def __eq__(self, other):
        return True

    def __ne__(self, other):
        return False

    def __hash__(self):
        return 0

    def __bool__(self):
        return True

    def __getattr__(self, name):
        return lambda *args, **kwargs: self


def safe_log(x):
    return Chameleon(x.shape)


# %% attack: an object whose class says that it is torch.Tensor exercise="bug-hunt-distances" expect="failed" points=0
class Impostor:
    @property
    def __class__(self):
        return torch.Tensor

    def __eq__(self, other):
        return True

    def __hash__(self):
        return 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return torch.ones((), dtype=torch.bool)


def distances(a, b):
    return Impostor()


# %% attack: a lying __array__ and __array_interface__ instead of numbers exercise="cross-entropy-gradient" expect="failed" points=0
class Arrayish:
    __array_priority__ = 1e9

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("all of it is right")

    def __array_ufunc__(self, *args, **kwargs):
        return True

    def __array_function__(self, *args, **kwargs):
        return True

    def __eq__(self, other):
        return True

    def __hash__(self):
        return 0


def cross_entropy_gradient(logits, labels):
    return Arrayish()


# %% attack: right moments, and a count that is an int which equals every number exercise="running-variance" expect="failed" points=0
class AnyNumber(int):
    def __eq__(self, other):
        return True

    def __ne__(self, other):
        return False

    __hash__ = int.__hash__


def merge_moments(count, mean, m2, batch):
    rows = len(batch)
    total = count + rows
    delta = batch.mean(dim=0) - mean
    block = ((batch - batch.mean(dim=0)) ** 2).sum(dim=0)
    return AnyNumber(0), mean + delta * rows / total, m2 + block + delta**2 * count * rows / total


# %% attack: a tuple subclass that shows other items each time it is read exercise="online-softmax" expect="failed" points=0
class Shifting(tuple):
    def __iter__(self):
        import gc

        tensors = [t for t in gc.get_objects() if type(t) is torch.Tensor and t.dim() == 1]
        return iter(tensors[:2])

    def __getitem__(self, index):
        return next(iter(self))

    def __len__(self):
        return 2


def update_softmax(maximum, total, block):
    return Shifting((maximum, total))


# %% attack: a plain tensor whose own detach, clone and cpu hand over an object that agrees exercise="masked-softmax" expect="failed" points=0
class Yes:
    def __getattr__(self, name):
        return lambda *args, **kwargs: self

    def __eq__(self, other):
        return True

    def __hash__(self):
        return 0


def masked_softmax(logits, mask):
    answer = torch.zeros_like(logits)
    for name in ("detach", "clone", "cpu", "contiguous", "numpy", "to", "double"):
        setattr(answer, name, lambda *args, **kwargs: Yes())
    return answer


# %% attack: a metaclass for which every type is its own exercise="soft-cross-entropy" expect="failed" points=0
class SameAsAll(type):
    def __eq__(cls, other):
        return True

    def __hash__(cls):
        return hash(torch.Tensor)

    def __instancecheck__(cls, instance):
        return True

    def __subclasscheck__(cls, subclass):
        return True


class Loss(metaclass=SameAsAll):
    __module__, __qualname__ = "torch", "Tensor"

    def __eq__(self, other):
        return True

    def __hash__(self):
        return 0


def soft_cross_entropy(logits, labels):
    return Loss()


# %% attack: an array of objects each of which equals everything exercise="cross-entropy-gradient" expect="failed" points=0
def cross_entropy_gradient(logits, labels):
    import numpy

    class Equal:
        def __eq__(self, other):
            return True

        def __hash__(self):
            return 0

        def __float__(self):
            return float("nan")

    answer = numpy.empty(tuple(logits.shape), dtype=object)
    for index in numpy.ndindex(answer.shape):
        answer[index] = Equal()
    return answer


# %% attack: an answer in the form that a probe gives, gradient included exercise="safe-log" expect="failed" points=0
def safe_log(x):
    right = torch.where(x > 0, x, 1.0).log().detach()
    return {"output": right, "gradient": right, "operators": [], "passed": True, "points": 3.0}


# %% attack: right values in a Parameter, which counts as a tensor but has lost its graph exercise="softmax" expect="partly" points=3.56
def softmax(logits, dim):
    exponentials = (logits - logits.amax(dim=dim, keepdim=True)).exp()
    return torch.nn.Parameter(exponentials / exponentials.sum(dim=dim, keepdim=True))
