# %% answer: with types, and a helper that is named like a built-in exercise="derivative"
from typing import Callable, Optional

import torch
from torch import Tensor


def derivative(
    f: Callable[[Tensor], Tensor], x: Tensor, *, create: Optional[bool] = None
) -> Tensor:
    """Return f'(x).

    >>> derivative(torch.sin, torch.zeros(1))
    tensor([1.])
    """
    input = x.clone().detach().requires_grad_()
    sum = f(input).sum()
    sum.backward()
    return input.grad


# %% answer: a class in a cell above that keeps a history exercise="difference-errors"
def difference_errors(f, x, steps):
    errors = ErrorList(exact=derivative(f, x))
    for h in steps:
        errors.add((f(x + h) - f(x - h)) / (2 * h))
    return errors.list_


# %% above
class ErrorList:
    __slots__ = ("exact", "list_")

    def __init__(self, exact):
        self.exact = exact
        self.list_ = []

    def __repr__(self):
        return f"{self.__class__.__name__}({len(self.list_)})"

    def add(self, value):
        self.list_.append(float((value - self.exact).abs().max()))
        return self


# %% answer: methods that are added to the class later exercise="linear-module"
class Linear(nn.Module):
    def __init__(self, inputs, outputs, bias=True):
        super(Linear, self).__init__()
        self.code, self.queue, self.stride, self.sched, self.test = None, [], 1, {}, False
        k = inputs**-0.5
        self.weight = nn.Parameter(torch.rand(outputs, inputs) * 2 * k - k)
        self.register_parameter(
            "bias", nn.Parameter(torch.rand(outputs) * 2 * k - k) if bias else None
        )


# %% below
def forward(self, input):
    out = torch.einsum("...i,oi->...o", input, self.weight)
    return out if self.bias is None else out + self.bias


def extra_repr(self):
    return f"{self.weight.shape[1]} -> {self.weight.shape[0]}"


Linear.forward = forward
Linear.extra_repr = extra_repr

# %% answer: a walrus and a counter exercise="count-parameters"
from collections import Counter


def count_parameters(model):
    counts = Counter()
    for p in model.parameters():
        if (n := p.numel()) > 0:
            counts["trained" if p.requires_grad else "frozen"] += n
    return counts["trained"], counts["frozen"]


# %% answer: a step that both players share exercise="bug-hunt-two-players"
def adversarial_step(
    generator, discriminator, generator_optimizer, discriminator_optimizer, noise, real
):
    _update(generator_optimizer, lambda: generator_loss(discriminator(generator(noise))))
    with torch.no_grad():
        fake = generator(noise)
    _update(
        discriminator_optimizer,
        lambda: discriminator_loss(discriminator(real), discriminator(fake)),
    )


# %% below
def _update(opt, closure):
    opt.zero_grad(set_to_none=True)
    loss = closure()
    loss.backward()
    opt.step()
    return loss.item()
