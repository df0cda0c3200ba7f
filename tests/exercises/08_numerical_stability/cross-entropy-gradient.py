# %% wrong: softmax minus labels, which holds for labels that sum to one
def cross_entropy_gradient(logits, labels):
    return logits.softmax(dim=1) - labels


# %% wrong: the other sign, the direction of descent
def cross_entropy_gradient(logits, labels):
    return labels - logits.softmax(dim=1) * labels.sum(dim=1, keepdim=True)


# %% wrong: the gradient of the mean over the batch
def cross_entropy_gradient(logits, labels):
    gradient = logits.softmax(dim=1) * labels.sum(dim=1, keepdim=True) - labels
    return gradient / len(logits)


# %% wrong: forgets keepdim, so that totals of rows meet columns
def cross_entropy_gradient(logits, labels):
    return logits.softmax(dim=1) * labels.sum(dim=0) - labels


# %% wrong: makes the labels sum to one first
def cross_entropy_gradient(logits, labels):
    return logits.softmax(dim=1) - labels / labels.sum(dim=1, keepdim=True)


# %% wrong: unstable softmax inside
def cross_entropy_gradient(logits, labels):
    exponentials = logits.exp()
    probabilities = exponentials / exponentials.sum(dim=1, keepdim=True)
    return probabilities * labels.sum(dim=1, keepdim=True) - labels


# %% wrong: softmax over the batch instead of the classes
def cross_entropy_gradient(logits, labels):
    return logits.softmax(dim=0) * labels.sum(dim=1, keepdim=True) - labels


# %% wrong: lets autograd do it
def cross_entropy_gradient(logits, labels):
    import torch

    leaf = logits.clone().requires_grad_(True)
    loss = torch.nn.functional.cross_entropy(leaf, labels, reduction="sum")
    return torch.autograd.grad(loss, leaf)[0]


# %% wrong: the chain rule by hand through log p, which divides 0 by 0
def cross_entropy_gradient(logits, labels):
    p = logits.softmax(dim=1)
    by_probability = -labels / p
    return p * (by_probability - (by_probability * p).sum(dim=1, keepdim=True))


# %% right: through log_softmax and an einsum
def cross_entropy_gradient(logits, labels):
    import torch

    p = torch.log_softmax(logits, dim=-1).exp()
    return torch.einsum("rc,r->rc", p, labels.sum(dim=-1)) - labels


# %% right: by way of NumPy
def cross_entropy_gradient(logits, labels):
    import numpy as np
    import torch

    z, y = logits.numpy(), labels.numpy()
    e = np.exp(z - z.max(axis=1, keepdims=True))
    p = e / e.sum(axis=1, keepdims=True)
    return torch.from_numpy((p * y.sum(axis=1, keepdims=True) - y).astype(z.dtype))


# %% right: the Jacobian of log_softmax, row by row
def cross_entropy_gradient(logits, labels):
    import torch

    rows = []
    for z, y in zip(logits, labels, strict=True):
        p = torch.softmax(z, dim=0)
        jacobian = torch.eye(len(z), dtype=z.dtype) - p.expand(len(z), -1)
        rows.append(-(y @ jacobian))
    return torch.stack(rows)


# %% right: in float64 and cast back
def cross_entropy_gradient(logits, labels):
    p = logits.double().softmax(dim=1)
    wide = labels.double()
    return (p * wide.sum(dim=1, keepdim=True) - wide).to(logits.dtype)


# %% wrong: autograd through exp, sum and log written by hand
def cross_entropy_gradient(logits, labels):
    import torch

    leaf = logits.detach().clone().requires_grad_()
    shifted = leaf - leaf.amax(dim=1, keepdim=True)
    log_probabilities = shifted - shifted.exp().sum(dim=1, keepdim=True).log()
    loss = -torch.where(labels > 0, labels * log_probabilities, 0.0).sum()
    return torch.autograd.grad(loss, leaf)[0]


# %% wrong: forward-mode differentiation, which is autograd too
def cross_entropy_gradient(logits, labels):
    import torch

    def loss(z):
        return torch.nn.functional.cross_entropy(z, labels, reduction="sum")

    return torch.func.jacfwd(loss)(logits)


# %% wrong: autograd begun by setting an attribute, and its nodes called by hand
def cross_entropy_gradient(logits, labels):
    import torch

    leaf = logits.detach().clone()
    leaf.requires_grad = True
    total = labels.sum(dim=1, keepdim=True)
    log_probabilities = torch.log_softmax(leaf, dim=1)
    return log_probabilities.grad_fn(-labels) + 0.0 * total


# %% wrong: torch's own backward pass of the softmax, called by hand
def cross_entropy_gradient(logits, labels):
    import torch

    kept = torch.log_softmax(logits, dim=1)
    return torch._log_softmax_backward_data(-labels, kept, 1, logits.dtype)


# %% wrong: reverse-mode differentiation by torch.func
def cross_entropy_gradient(logits, labels):
    from torch import func, nn

    return func.grad(lambda z: nn.functional.cross_entropy(z, labels, reduction="sum"))(logits)


# %% wrong: the Jacobian, by torch's own function
def cross_entropy_gradient(logits, labels):
    from torch.autograd import functional as derivatives
    from torch.nn import functional

    return derivatives.jacobian(
        lambda z: functional.cross_entropy(z, labels, reduction="sum"), logits
    )


# %% right: without a record for autograd, and with names that only sound like it
def cross_entropy_gradient(logits, labels):
    import torch

    with torch.no_grad():
        backward = torch.softmax(logits, dim=1)
        grad = backward * labels.sum(dim=1, keepdim=True)
        return grad.sub(labels).detach()


# %% wrong: shares of the labels, times their sum: 0/0 in a row of padding
def cross_entropy_gradient(logits, labels):
    import torch

    total = labels.sum(dim=1, keepdim=True)
    return total * (torch.softmax(logits, dim=1) - labels / total)


# %% wrong: by way of float32, float64 included
def cross_entropy_gradient(logits, labels):
    p, y = logits.float().softmax(dim=1), labels.float()
    return (p * y.sum(dim=1, keepdim=True) - y).to(logits.dtype)


# %% right: the derivative of every log-probability, weighted with its label
def cross_entropy_gradient(logits, labels):
    import torch

    p = torch.softmax(logits, dim=1)
    same = torch.eye(logits.shape[1], dtype=logits.dtype)
    return torch.einsum("rk,rki->ri", labels, p[:, None, :] - same)


# %% wrong: no gradient where the label is 0
def cross_entropy_gradient(logits, labels):
    import torch

    gradient = torch.softmax(logits, dim=1) * labels.sum(dim=1, keepdim=True) - labels
    return torch.where(labels > 0, gradient, 0.0)


# %% wrong: rules out the classes with the label 0, as if all their logits were -inf
def cross_entropy_gradient(logits, labels):
    import math

    import torch

    kept = torch.where(labels > 0, logits, -math.inf)
    total = labels.sum(dim=1, keepdim=True)
    return torch.softmax(kept, dim=1).nan_to_num(nan=0.0) * total - labels


# %% wrong: squeezes the result, so that a single row becomes a vector
def cross_entropy_gradient(logits, labels):
    total = labels.sum(dim=1, keepdim=True)
    return (torch.softmax(logits, dim=1) * total - labels).squeeze()


# %% wrong: fills -inf in with -1e9, which is larger than very negative logits
def cross_entropy_gradient(logits, labels):
    finite = logits.masked_fill(logits == -math.inf, -1e9)
    return torch.softmax(finite, dim=1) * labels.sum(dim=1, keepdim=True) - labels


# %% wrong: fills -inf in with the lowest float, which a logit may be itself
def cross_entropy_gradient(logits, labels):
    finite = logits.clamp(min=torch.finfo(logits.dtype).min)
    return torch.softmax(finite, dim=1) * labels.sum(dim=1, keepdim=True) - labels


# %% wrong: subtracts the log-sum-exp, whose digits a maximum of a million swallows
def cross_entropy_gradient(logits, labels):
    p = (logits - torch.logsumexp(logits, dim=1, keepdim=True)).exp()
    return p * labels.sum(dim=1, keepdim=True) - labels


# %% wrong: gives a padded row the gradient of labels that sum to one
def cross_entropy_gradient(logits, labels):
    total = labels.sum(dim=1, keepdim=True)
    total = torch.where(total == 0, 1.0, total)
    return torch.softmax(logits, dim=1) * total - labels


# %% wrong: central differences, which lack digits in float64
def cross_entropy_gradient(logits, labels):
    def loss(z):
        logs = torch.log_softmax(z, dim=1)
        return -(labels * torch.where(labels > 0, logs, 0.0)).sum()

    gradient, step = torch.zeros_like(logits), 1e-4
    for place in range(logits.numel()):
        up, down = logits.double().flatten(), logits.double().flatten()
        up[place] += step
        down[place] -= step
        slope = (loss(up.view_as(logits)) - loss(down.view_as(logits))) / (2 * step)
        gradient.view(-1)[place] = slope
    return gradient


# %% right: the sum of the gradients of one label after another
def cross_entropy_gradient(logits, labels):
    p = torch.softmax(logits, dim=1)
    total = torch.zeros_like(logits)
    for k in range(logits.shape[1]):
        hot = torch.zeros_like(logits)
        hot[:, k] = 1
        total += labels[:, k : k + 1] * (p - hot)
    return total


# %% right: in Python numbers, row by row
def cross_entropy_gradient(logits, labels):
    rows = []
    for row, label in zip(logits.tolist(), labels.tolist(), strict=True):
        exponentials = [math.exp(logit - max(row)) for logit in row]
        share = sum(label) / sum(exponentials)
        rows.append([share * e - y for e, y in zip(exponentials, label, strict=True)])
    return torch.tensor(rows, dtype=logits.dtype)


# %% right: a diagonal matrix of the sums, and a softmax by hand
def cross_entropy_gradient(logits, labels):
    e = (logits - logits.max(1, keepdim=True).values).exp()
    p = e / e.sum(1, keepdim=True)
    return torch.diag(labels.sum(1)) @ p - labels


# %% right: in place, on a tensor of its own
def cross_entropy_gradient(logits, labels):
    g = torch.softmax(logits, dim=1)
    g.mul_(labels.sum(1)[:, None]).sub_(labels)
    return g


# %% right: a data class of one's own, with a field called grad
from dataclasses import dataclass


@dataclass
class LossAndSlope:
    loss: torch.Tensor
    grad: torch.Tensor


def both_of(logits, labels):
    logs = torch.log_softmax(logits, dim=1)
    loss = -(labels * logs.masked_fill(labels == 0, 0.0)).sum()
    return LossAndSlope(loss, logs.exp() * labels.sum(dim=1, keepdim=True) - labels)


def cross_entropy_gradient(logits, labels):
    return both_of(logits, labels).grad


# %% right: a class of one's own, with a forward and a backward method
class CrossEntropy:
    def forward(self, logits, labels):
        self.p, self.labels = torch.softmax(logits, 1), labels
        return self

    def backward(self):
        return self.p * self.labels.sum(1, keepdim=True) - self.labels


def cross_entropy_gradient(logits, labels):
    return CrossEntropy().forward(logits, labels).backward()


# %% right: a dict of one's own, with a key called grad
def cross_entropy_gradient(logits, labels):
    kept = {"jacobian": torch.softmax(logits, 1), "total": labels.sum(1, keepdim=True)}
    kept["grad"] = kept["jacobian"] * kept["total"]
    kept["grad"] -= labels
    return kept["grad"]


# %% right: row by row through vmap, which records nothing
def cross_entropy_gradient(logits, labels):
    def of_row(z, y):
        return torch.softmax(z, 0) * y.sum() - y

    return torch.vmap(of_row)(logits, labels)


# %% wrong: autograd, out of the leaf's own attribute
def cross_entropy_gradient(logits, labels):
    with torch.enable_grad():
        z = logits.clone().requires_grad_()
        logs = z.log_softmax(1).masked_fill(labels == 0, 0.0)
        (labels * logs).sum().neg().backward()
    return z.grad


# %% wrong: a gradient function of torch.func, by another name
import torch.func as calculus


def cross_entropy_gradient(logits, labels):
    def loss(z):
        logs = torch.log_softmax(z, 1).masked_fill(labels == 0, 0.0)
        return -(labels * logs).sum()

    return calculus.grad(loss)(logits)
