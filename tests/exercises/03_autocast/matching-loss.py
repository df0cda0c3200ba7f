# %% wrong: as it comes, the product in the region's dtype
def matching_loss(a, b, temperature):
    import torch
    from torch.nn import functional

    a, b = functional.normalize(a, dim=1), functional.normalize(b, dim=1)
    return functional.cross_entropy(a @ b.T / temperature, torch.arange(len(a)))


# %% wrong: .float() all over, and no disabled region
def matching_loss(a, b, temperature):
    import torch
    from torch.nn import functional

    a, b = functional.normalize(a.float(), dim=1), functional.normalize(b.float(), dim=1)
    logits = (a.float() @ b.float().T).float() / temperature
    return functional.cross_entropy(logits, torch.arange(len(a)))


# %% wrong: a disabled region, and nothing is cast up
def matching_loss(a, b, temperature):
    import torch
    from torch.nn import functional

    with torch.autocast(a.device.type, enabled=False):
        a, b = functional.normalize(a, dim=1), functional.normalize(b, dim=1)
        return functional.cross_entropy(a @ b.T / temperature, torch.arange(len(a)))


# %% wrong: casts up after the norm, which was taken in 16 bits
def matching_loss(a, b, temperature):
    import torch
    from torch.nn import functional

    a = a / (a * a).sum(dim=1, keepdim=True).sqrt()
    b = b / (b * b).sum(dim=1, keepdim=True).sqrt()
    with torch.autocast(a.device.type, enabled=False):
        logits = a.float() @ b.float().T / temperature
        return functional.cross_entropy(logits, torch.arange(len(a)))


# %% wrong: only one of the two is cast up
def matching_loss(a, b, temperature):
    import torch
    from torch.nn import functional

    with torch.autocast(a.device.type, enabled=False):
        a, b = functional.normalize(a.float(), dim=1), functional.normalize(b, dim=1)
        return functional.cross_entropy(a @ b.T / temperature, torch.arange(len(a)))


# %% wrong: switches autocast off and never on again
def matching_loss(a, b, temperature):
    import torch
    from torch.nn import functional

    torch.set_autocast_enabled("cpu", False)
    a, b = functional.normalize(a.float(), dim=1), functional.normalize(b.float(), dim=1)
    return functional.cross_entropy(a @ b.T / temperature, torch.arange(len(a)))


# %% wrong: disables the region of the other kind of device
def matching_loss(a, b, temperature):
    import torch
    from torch.nn import functional

    with torch.autocast("cuda", enabled=False):
        a, b = functional.normalize(a.float(), dim=1), functional.normalize(b.float(), dim=1)
        return functional.cross_entropy(a @ b.T / temperature, torch.arange(len(a)))


# %% wrong: a region of its own, in float16, for its better digits
def matching_loss(a, b, temperature):
    import torch
    from torch.nn import functional

    with torch.autocast(a.device.type, dtype=torch.float16):
        a, b = functional.normalize(a.float(), dim=1), functional.normalize(b.float(), dim=1)
        return functional.cross_entropy(a @ b.T / temperature, torch.arange(len(a)))


# %% wrong: the columns find their partners, not the rows
def matching_loss(a, b, temperature):
    import torch
    from torch.nn import functional

    with torch.autocast(a.device.type, enabled=False):
        a, b = functional.normalize(a.float(), dim=1), functional.normalize(b.float(), dim=1)
        return functional.cross_entropy(b @ a.T / temperature, torch.arange(len(a)))


# %% wrong: no cosine, the plain products
def matching_loss(a, b, temperature):
    import torch
    from torch.nn import functional

    with torch.autocast(a.device.type, enabled=False):
        logits = a.float() @ b.float().T / temperature
        return functional.cross_entropy(logits, torch.arange(len(a)))


# %% wrong: the sum over the rows
def matching_loss(a, b, temperature):
    import torch
    from torch.nn import functional

    with torch.autocast(a.device.type, enabled=False):
        a, b = functional.normalize(a.float(), dim=1), functional.normalize(b.float(), dim=1)
        logits = a @ b.T / temperature
        return functional.cross_entropy(logits, torch.arange(len(a)), reduction="sum")


# %% wrong: returns the dtype that came in
def matching_loss(a, b, temperature):
    import torch
    from torch.nn import functional

    kind = a.dtype
    with torch.autocast(a.device.type, enabled=False):
        a, b = functional.normalize(a.float(), dim=1), functional.normalize(b.float(), dim=1)
        return functional.cross_entropy(a @ b.T / temperature, torch.arange(len(a))).to(kind)


# %% wrong: detaches the second view
def matching_loss(a, b, temperature):
    import torch
    from torch.nn import functional

    with torch.autocast(a.device.type, enabled=False):
        a = functional.normalize(a.float(), dim=1)
        b = functional.normalize(b.detach().float(), dim=1)
        return functional.cross_entropy(a @ b.T / temperature, torch.arange(len(a)))


# %% wrong: a temperature that is not there
def matching_loss(a, b, temperature):
    import torch
    from torch.nn import functional

    with torch.autocast(a.device.type, enabled=False):
        a, b = functional.normalize(a.float(), dim=1), functional.normalize(b.float(), dim=1)
        return functional.cross_entropy(a @ b.T * temperature, torch.arange(len(a)))


# %% right: the function as a whole leaves the region
def matching_loss(a, b, temperature):
    import torch

    @torch.autocast(a.device.type, enabled=False)
    def compute():
        rows_a, rows_b = (t.float() / t.float().norm(dim=1, keepdim=True) for t in (a, b))
        scores = torch.einsum("if,jf->ij", rows_a, rows_b) / temperature
        return (scores.logsumexp(dim=1) - scores.diagonal()).mean()

    return compute()


# %% right: an element-wise product in place of the matrix product
def matching_loss(a, b, temperature):
    from torch.nn import functional

    a, b = functional.normalize(a.float(), dim=1), functional.normalize(b.float(), dim=1)
    scores = (a[:, None, :] * b[None, :, :]).sum(dim=2) / temperature
    return -functional.log_softmax(scores, dim=1).diagonal().mean()


# %% right: float64, which autocast does not touch
def matching_loss(a, b, temperature):
    import torch
    from torch.nn import functional

    rows_a, rows_b = (
        functional.normalize(a.double(), dim=1),
        functional.normalize(b.double(), dim=1),
    )
    logits = rows_a @ rows_b.T / temperature
    return functional.cross_entropy(logits, torch.arange(len(a))).float()


# %% right: cosine_similarity on broadcast rows
def matching_loss(a, b, temperature):
    import torch
    from torch.nn import functional

    with torch.autocast(device_type=a.device.type, dtype=torch.bfloat16, enabled=False):
        a, b = a.to(torch.float32), b.to(torch.float32)
        scores = functional.cosine_similarity(a.unsqueeze(1), b.unsqueeze(0), dim=2) / temperature
        return functional.nll_loss(scores.log_softmax(dim=1), torch.arange(len(a)))


# %% wrong: clamps the second view, which is not large in most tests
def matching_loss(a, b, temperature):
    import torch
    from torch.nn import functional

    with torch.autocast(a.device.type, enabled=False):
        a, b = (
            functional.normalize(a.float(), dim=1),
            functional.normalize(b.float().clamp(-100, 100), dim=1),
        )
        return functional.cross_entropy(a @ b.T / temperature, torch.arange(len(a)))


# %% wrong: clamps the first view to ten thousand
def matching_loss(a, b, temperature):
    import torch
    from torch.nn import functional

    with torch.autocast(a.device.type, enabled=False):
        a, b = (
            functional.normalize(a.float().clamp(-1e4, 1e4), dim=1),
            functional.normalize(b.float(), dim=1),
        )
        return functional.cross_entropy(a @ b.T / temperature, torch.arange(len(a)))


# %% wrong: detaches the first view
def matching_loss(a, b, temperature):
    import torch
    from torch.nn import functional

    with torch.autocast(a.device.type, enabled=False):
        a, b = (
            functional.normalize(a.detach().float(), dim=1),
            functional.normalize(b.float(), dim=1),
        )
        return functional.cross_entropy(a @ b.T / temperature, torch.arange(len(a)))


# %% wrong: both directions, as CLIP has it
def matching_loss(a, b, temperature):
    import torch
    from torch.nn import functional

    with torch.autocast(a.device.type, enabled=False):
        a, b = functional.normalize(a.float(), dim=1), functional.normalize(b.float(), dim=1)
        scores, partners = a @ b.T / temperature, torch.arange(len(a))
        rows = functional.cross_entropy(scores, partners)
        return (rows + functional.cross_entropy(scores.T, partners)) / 2


# %% wrong: the norms in the dtype that came in, the rest in float32
def matching_loss(a, b, temperature):
    import torch
    from torch.nn import functional

    with torch.autocast(a.device.type, enabled=False):
        norms_a, norms_b = a.norm(dim=1, keepdim=True), b.norm(dim=1, keepdim=True)
        a, b = a.float() / norms_a.float(), b.float() / norms_b.float()
        return functional.cross_entropy(a @ b.T / temperature, torch.arange(len(a)))


# %% wrong: norms that autograd takes for constants
def matching_loss(a, b, temperature):
    import torch
    from torch.nn import functional

    with torch.autocast(a.device.type, enabled=False):
        a, b = a.float(), b.float()
        a = a / a.norm(dim=1, keepdim=True).detach()
        b = b / b.norm(dim=1, keepdim=True).detach()
        return functional.cross_entropy(a @ b.T / temperature, torch.arange(len(a)))


# %% right: rows brought to size 1 before their norm is taken
def matching_loss(a, b, temperature):
    import torch
    from torch.nn import functional

    with torch.autocast(a.device.type, enabled=False):
        a, b = a.float(), b.float()
        a, b = (rows / rows.abs().amax(dim=1, keepdim=True) for rows in (a, b))
        a, b = (rows / rows.norm(dim=1, keepdim=True) for rows in (a, b))
        return functional.cross_entropy(a @ b.T / temperature, torch.arange(len(a)))


# %% right: a copy of the formula in float64, without any region
def matching_loss(a, b, temperature):
    a, b = (rows.double() for rows in (a, b))
    a, b = (rows / rows.norm(dim=1, keepdim=True) for rows in (a, b))
    scores = a @ b.T / temperature
    return (scores.logsumexp(dim=1) - scores.diagonal()).mean().float()


# %% wrong: leaves a bfloat16 region behind, where there was one of float16
def matching_loss(a, b, temperature):
    enabled = torch.is_autocast_enabled("cpu")
    torch.set_autocast_enabled("cpu", False)
    units_a = functional.normalize(a.float(), dim=1)
    units_b = functional.normalize(b.float(), dim=1)
    loss = functional.cross_entropy(units_a @ units_b.T / temperature, torch.arange(len(a)))
    torch.set_autocast_enabled("cpu", enabled)
    torch.set_autocast_dtype("cpu", torch.bfloat16)
    return loss


# %% wrong: both views in the dtype of the first, before anything else
def matching_loss(a, b, temperature):
    b = b.to(a.dtype)
    with torch.autocast(a.device.type, enabled=False):
        a, b = functional.normalize(a.float(), dim=1), functional.normalize(b.float(), dim=1)
        return functional.cross_entropy(a @ b.T / temperature, torch.arange(len(a)))


# %% wrong: a product of float16 views is rounded to float16
def matching_loss(a, b, temperature):
    kind = torch.float16 if a.dtype == b.dtype == torch.float16 else torch.float32
    with torch.autocast(a.device.type, enabled=False):
        a, b = functional.normalize(a.float(), dim=1), functional.normalize(b.float(), dim=1)
        scores = (a @ b.T / temperature).to(kind).float()
        return functional.cross_entropy(scores, torch.arange(len(a)))


# %% wrong: a temperature that is never above 0.1
def matching_loss(a, b, temperature):
    import torch
    from torch.nn import functional

    with torch.autocast(a.device.type, enabled=False):
        a, b = functional.normalize(a.float(), dim=1), functional.normalize(b.float(), dim=1)
        scores = a @ b.T / min(temperature, 0.1)
        return functional.cross_entropy(scores, torch.arange(len(a)))


# %% wrong: cosines below 0 count as 0
def matching_loss(a, b, temperature):
    import torch
    from torch.nn import functional

    with torch.autocast(a.device.type, enabled=False):
        a, b = functional.normalize(a.float(), dim=1), functional.normalize(b.float(), dim=1)
        scores = (a @ b.T).clamp(min=0) / temperature
        return functional.cross_entropy(scores, torch.arange(len(a)))


# %% wrong: adds a thousandth to each norm
def matching_loss(a, b, temperature):
    import torch
    from torch.nn import functional

    with torch.autocast(a.device.type, enabled=False):
        a, b = a.float(), b.float()
        a, b = (x / (x.norm(dim=1, keepdim=True) + 1e-3) for x in (a, b))
        return functional.cross_entropy(a @ b.T / temperature, torch.arange(len(a)))


# %% wrong: returns a Python float
def matching_loss(a, b, temperature):
    with torch.autocast(a.device.type, enabled=False):
        units_a = functional.normalize(a.float(), dim=1)
        units_b = functional.normalize(b.float(), dim=1)
        logits = units_a @ units_b.T / temperature
        return functional.cross_entropy(logits, torch.arange(len(a))).item()


# %% wrong: a floor under the norms of the second argument only
def matching_loss(a, b, temperature):
    with torch.autocast(a.device.type, enabled=False):
        a = functional.normalize(a.float(), dim=1)
        b = functional.normalize(b.float(), dim=1, eps=0.02)
        return functional.cross_entropy(a @ b.T / temperature, torch.arange(len(a)))


# %% wrong: scales by the largest entry first, with a floor under what short rows become
def matching_loss(a, b, temperature):
    with torch.autocast(a.device.type, enabled=False):
        a, b = (x.float() / x.float().abs().max() for x in (a, b))
        a, b = (functional.normalize(x, dim=1, eps=1e-3) for x in (a, b))
        return functional.cross_entropy(a @ b.T / temperature, torch.arange(len(a)))


# %% wrong: keeps the cosines away from 1
def matching_loss(a, b, temperature):
    with torch.autocast(a.device.type, enabled=False):
        a, b = functional.normalize(a.float(), dim=1), functional.normalize(b.float(), dim=1)
        cosines = (a @ b.T).clamp(-0.9999, 0.9999)
        return functional.cross_entropy(cosines / temperature, torch.arange(len(a)))


# %% wrong: drops axes of size 1
def matching_loss(a, b, temperature):
    with torch.autocast(a.device.type, enabled=False):
        a, b = functional.normalize(a.float(), dim=1), functional.normalize(b.float(), dim=1)
        scores = a.squeeze() @ b.squeeze().T / temperature
        return functional.cross_entropy(scores, torch.arange(len(a)))


# %% wrong: a temperature that is never above 1
def matching_loss(a, b, temperature):
    with torch.autocast(a.device.type, enabled=False):
        a, b = functional.normalize(a.float(), dim=1), functional.normalize(b.float(), dim=1)
        scores = a @ b.T / min(temperature, 1.0)
        return functional.cross_entropy(scores, torch.arange(len(a)))


# %% wrong: adds a millionth to each norm
import torch
from torch.nn import functional


def matching_loss(a, b, temperature):
    with torch.autocast(a.device.type, enabled=False):
        a, b = a.float(), b.float()
        a, b = (x / (x.norm(dim=1, keepdim=True) + 1e-6) for x in (a, b))
        scores = a @ b.T / temperature
        return functional.cross_entropy(scores, torch.arange(len(a)))


# %% wrong: adds a millionth to the product of the norms
import torch
from torch.nn import functional


def matching_loss(a, b, temperature):
    with torch.autocast(a.device.type, enabled=False):
        a, b = a.float(), b.float()
        scores = a @ b.T / (a.norm(dim=1)[:, None] * b.norm(dim=1) + 1e-6) / temperature
        return functional.cross_entropy(scores, torch.arange(len(a)))


# %% wrong: adds a small number to the product of the norms, which may be as small
import torch
from torch.nn import functional


def matching_loss(a, b, temperature):
    with torch.autocast(a.device.type, enabled=False):
        a, b = a.float(), b.float()
        scores = a @ b.T / (a.norm(dim=1)[:, None] * b.norm(dim=1) + 1e-8) / temperature
        return functional.cross_entropy(scores, torch.arange(len(a)))


# %% wrong: adds a small number under the root of each norm
import torch
from torch.nn import functional


def matching_loss(a, b, temperature):
    with torch.autocast(a.device.type, enabled=False):
        a, b = a.float(), b.float()
        a, b = (x / (x.square().sum(dim=1, keepdim=True) + 1e-8).sqrt() for x in (a, b))
        scores = a @ b.T / temperature
        return functional.cross_entropy(scores, torch.arange(len(a)))


# %% wrong: adds a millionth to the norms of the second argument only
import torch
from torch.nn import functional


def matching_loss(a, b, temperature):
    with torch.autocast(a.device.type, enabled=False):
        a, b = a.float(), b.float()
        a, b = functional.normalize(a, dim=1), b / (b.norm(dim=1, keepdim=True) + 1e-6)
        scores = a @ b.T / temperature
        return functional.cross_entropy(scores, torch.arange(len(a)))


# %% wrong: rounds the temperature to float16
import torch
from torch.nn import functional


def matching_loss(a, b, temperature):
    with torch.autocast(a.device.type, enabled=False):
        a, b = a.float(), b.float()
        a, b = functional.normalize(a, dim=1), functional.normalize(b, dim=1)
        scores = a @ b.T / torch.tensor(temperature, dtype=torch.float16)
        return functional.cross_entropy(scores, torch.arange(len(a)))


# %% wrong: takes the temperature in the dtype of the first argument
import torch
from torch.nn import functional


def matching_loss(a, b, temperature):
    temperature = torch.tensor(temperature, dtype=a.dtype)
    with torch.autocast(a.device.type, enabled=False):
        a, b = a.float(), b.float()
        a, b = functional.normalize(a, dim=1), functional.normalize(b, dim=1)
        scores = a @ b.T / temperature
        return functional.cross_entropy(scores, torch.arange(len(a)))


# %% wrong: takes the temperature in the dtype of the second argument
import torch
from torch.nn import functional


def matching_loss(a, b, temperature):
    temperature = torch.tensor(temperature, dtype=b.dtype)
    with torch.autocast(a.device.type, enabled=False):
        a, b = a.float(), b.float()
        a, b = functional.normalize(a, dim=1), functional.normalize(b, dim=1)
        scores = a @ b.T / temperature
        return functional.cross_entropy(scores, torch.arange(len(a)))


# %% right: divides both factors by the root of the temperature
import torch
from torch.nn import functional


def matching_loss(a, b, temperature):
    with torch.autocast(a.device.type, enabled=False):
        a, b = a.float(), b.float()
        a, b = (functional.normalize(x, dim=1) / temperature**0.5 for x in (a, b))
        scores = a @ b.T / 1
        return functional.cross_entropy(scores, torch.arange(len(a)))


# %% right: row by row, in loops
import torch
from torch.nn import functional


def matching_loss(a, b, temperature):
    with torch.autocast(a.device.type, enabled=False):
        a, b = a.float(), b.float()
        total = 0.0
        for i in range(len(a)):
            row = (
                torch.stack(
                    [torch.dot(a[i], b[j]) / (a[i].norm() * b[j].norm()) for j in range(len(b))]
                )
                / temperature
            )
            total = total + torch.logsumexp(row, 0) - row[i]
        return total / len(a)


# %% right: sums of element-wise products, which no region lowers
import torch
from torch.nn import functional


def matching_loss(a, b, temperature):
    a, b = a.float(), b.float()
    a = a / a.pow(2).sum(1, keepdim=True).sqrt()
    b = b / b.pow(2).sum(1, keepdim=True).sqrt()
    s = (a.unsqueeze(1) * b.unsqueeze(0)).sum(-1) / temperature
    return functional.cross_entropy(s, torch.arange(len(a)))


# %% wrong: subtracts the largest score of all rows, so that a row far below becomes the log of 0
import torch


def matching_loss(a, b, temperature):
    with torch.autocast(a.device.type, enabled=False):
        a, b = a.float(), b.float()
        a, b = a / a.norm(dim=1, keepdim=True), b / b.norm(dim=1, keepdim=True)
        scores = a @ b.T / temperature
        scores = scores - scores.max()
        return (scores.exp().sum(dim=1).log() - scores.diagonal()).mean()
