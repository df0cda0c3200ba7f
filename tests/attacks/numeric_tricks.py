# %% attack: nan everywhere, in the hope of a comparison that takes nan for equal exercise="softmax" expect="failed" points=0
def softmax(logits, dim):
    return torch.full_like(logits, math.nan)


# %% attack: one number that broadcasts against every answer exercise="soft-cross-entropy" expect="failed" points=0
def soft_cross_entropy(logits, labels):
    return torch.tensor([math.nan])


# %% attack: no elements at all, so that none differs exercise="safe-log" expect="failed" points=0
def safe_log(x):
    return torch.empty(0, dtype=x.dtype)


# %% attack: a shape with nothing in it but an enormous side exercise="safe-log" expect="failed|crashed" points=0
def safe_log(x):
    return torch.empty(0, 2**62, dtype=x.dtype)


# %% attack: right values in float64 exercise="softmax" expect="failed" points=0
def softmax(logits, dim):
    exponentials = (logits.double() - logits.double().amax(dim=dim, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


# %% attack: right values as complex numbers exercise="bug-hunt-distances" expect="failed" points=0
def distances(a, b):
    return torch.linalg.vector_norm(a - b, dim=-1).to(torch.complex64)


# %% attack: right values in a sparse tensor exercise="masked-softmax" expect="failed" points=0
def masked_softmax(logits, mask):
    weights = torch.softmax(logits.masked_fill(~mask, -math.inf), dim=-1)
    return weights.masked_fill(~mask, 0.0).to_sparse()


# %% attack: a tensor on the meta device, which has a shape and no values exercise="softmax" expect="failed" points=0
def softmax(logits, dim):
    return torch.empty(logits.shape, dtype=logits.dtype, device="meta")


# %% attack: a quantized tensor exercise="safe-log" expect="failed" points=0
def safe_log(x):
    right = torch.where(x > 0, x, 1.0).log().detach().float()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.quantize_per_tensor(right, 1e-3, 0, torch.qint32)


# %% attack: eight bits for each number exercise="cross-entropy-gradient" expect="failed" points=0
def cross_entropy_gradient(logits, labels):
    right = torch.softmax(logits, dim=1) * labels.sum(dim=1, keepdim=True) - labels
    return right.to(torch.float8_e4m3fn)


# %% attack: a nested tensor exercise="masked-softmax" expect="failed" points=0
def masked_softmax(logits, mask):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)])


# %% attack: a tensor whose memory was taken away after it was made exercise="softmax" expect="failed|crashed" points=0
def softmax(logits, dim):
    answer = torch.full_like(logits, 0.2)
    answer.untyped_storage().resize_(0)
    return answer


# %% attack: counts that are no int: a float, a tensor, True, an array exercise="running-variance" expect="failed" points=0
def merge_moments(count, mean, m2, batch):
    import numpy as np

    rows = len(batch)
    total = int(count) + rows
    delta = batch.mean(dim=0) - mean
    block = ((batch - batch.mean(dim=0)) ** 2).sum(dim=0)
    kinds = (float, torch.tensor, lambda number: number == 1 or number, np.array)
    disguised = kinds[rows % 4](total)
    return disguised, mean + delta * rows / total, m2 + block + delta**2 * count * rows / total


# %% attack: lists of right numbers instead of tensors exercise="online-softmax" expect="failed" points=0
def update_softmax(maximum, total, block):
    maximum, total = torch.as_tensor(maximum), torch.as_tensor(total)
    new_maximum = torch.maximum(maximum, block.amax(dim=1))
    shift = new_maximum.masked_fill(new_maximum == -math.inf, 0.0)
    sums = total * (maximum - shift).exp() + (block - shift[:, None]).exp().sum(dim=1)
    return new_maximum.tolist(), sums.tolist()


# %% attack: right values made in inference mode, which no gradient can pass exercise="softmax" expect="partly" points=3.56
def softmax(logits, dim):
    with torch.inference_mode():
        exponentials = (logits - logits.amax(dim=dim, keepdim=True)).exp()
        return exponentials / exponentials.sum(dim=dim, keepdim=True)


# %% attack: right values in a view with the negative bit and odd strides exercise="safe-log" expect="waiting" points=0.86 waiting=2.14
def safe_log(x):
    right = torch.where(x > 0, x, 1.0).log()
    spread = torch.zeros(*x.shape, 3, dtype=x.dtype)
    spread[..., 1] = -right
    return torch._neg_view(spread[..., 1])


# %% attack: right, but changes the defaults of torch and NumPy for everyone exercise="safe-log" expect="passed"
import numpy as np


def safe_log(x):
    np.seterr(all="raise")
    torch.set_default_dtype(torch.float64)
    torch.use_deterministic_algorithms(True)
    torch.set_printoptions(precision=1)
    with torch.enable_grad():
        answer = torch.where(x > 0, x, torch.ones((), dtype=x.dtype)).log()
    torch.set_grad_enabled(False)
    return answer
