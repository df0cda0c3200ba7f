# %% wrong: tensors instead of parameters
class Linear(nn.Module):
    def __init__(self, inputs, outputs, bias=True):
        super().__init__()
        bound = inputs**-0.5
        self.weight = ((2 * torch.rand(outputs, inputs) - 1) * bound).requires_grad_(True)
        if bias:
            self.bias = ((2 * torch.rand(outputs) - 1) * bound).requires_grad_(True)
        else:
            self.bias = None

    def forward(self, x):
        y = x @ self.weight.T
        return y if self.bias is None else y + self.bias


# %% wrong: the weight the other way round
class Linear(nn.Module):
    def __init__(self, inputs, outputs, bias=True):
        super().__init__()
        bound = inputs**-0.5
        self.weight = nn.Parameter((2 * torch.rand(inputs, outputs) - 1) * bound)
        if bias:
            self.bias = nn.Parameter((2 * torch.rand(outputs) - 1) * bound)
        else:
            self.bias = None

    def forward(self, x):
        y = x @ self.weight
        return y if self.bias is None else y + self.bias


# %% wrong: numbers between 0 and the bound
class Linear(nn.Module):
    def __init__(self, inputs, outputs, bias=True):
        super().__init__()
        bound = inputs**-0.5
        self.weight = nn.Parameter(torch.rand(outputs, inputs) * bound)
        if bias:
            self.bias = nn.Parameter((2 * torch.rand(outputs) - 1) * bound)
        else:
            self.bias = None

    def forward(self, x):
        y = x @ self.weight.T
        return y if self.bias is None else y + self.bias


# %% wrong: normal random numbers
class Linear(nn.Module):
    def __init__(self, inputs, outputs, bias=True):
        super().__init__()
        bound = inputs**-0.5
        self.weight = nn.Parameter(torch.randn(outputs, inputs) * bound)
        if bias:
            self.bias = nn.Parameter((2 * torch.rand(outputs) - 1) * bound)
        else:
            self.bias = None

    def forward(self, x):
        y = x @ self.weight.T
        return y if self.bias is None else y + self.bias


# %% wrong: begins with zeros
class Linear(nn.Module):
    def __init__(self, inputs, outputs, bias=True):
        super().__init__()
        bound = inputs**-0.5
        self.weight = nn.Parameter(torch.zeros(outputs, inputs))
        if bias:
            self.bias = nn.Parameter((2 * torch.rand(outputs) - 1) * bound)
        else:
            self.bias = None

    def forward(self, x):
        y = x @ self.weight.T
        return y if self.bias is None else y + self.bias


# %% wrong: the bound comes from the outputs
class Linear(nn.Module):
    def __init__(self, inputs, outputs, bias=True):
        super().__init__()
        bound = outputs**-0.5
        self.weight = nn.Parameter((2 * torch.rand(outputs, inputs) - 1) * bound)
        if bias:
            self.bias = nn.Parameter((2 * torch.rand(outputs) - 1) * bound)
        else:
            self.bias = None

    def forward(self, x):
        y = x @ self.weight.T
        return y if self.bias is None else y + self.bias


# %% wrong: without a bias there is one of zeros
class Linear(nn.Module):
    def __init__(self, inputs, outputs, bias=True):
        super().__init__()
        bound = inputs**-0.5
        self.weight = nn.Parameter((2 * torch.rand(outputs, inputs) - 1) * bound)
        if bias:
            self.bias = nn.Parameter((2 * torch.rand(outputs) - 1) * bound)
        else:
            self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x):
        y = x @ self.weight.T
        return y if self.bias is None else y + self.bias


# %% wrong: the bias is a buffer
class Linear(nn.Module):
    def __init__(self, inputs, outputs, bias=True):
        super().__init__()
        bound = inputs**-0.5
        self.weight = nn.Parameter((2 * torch.rand(outputs, inputs) - 1) * bound)
        if bias:
            self.register_buffer("bias", (2 * torch.rand(outputs) - 1) * bound)
        else:
            self.bias = None

    def forward(self, x):
        y = x @ self.weight.T
        return y if self.bias is None else y + self.bias


# %% wrong: takes matrices alone
class Linear(nn.Module):
    def __init__(self, inputs, outputs, bias=True):
        super().__init__()
        bound = inputs**-0.5
        self.weight = nn.Parameter((2 * torch.rand(outputs, inputs) - 1) * bound)
        if bias:
            self.bias = nn.Parameter((2 * torch.rand(outputs) - 1) * bound)
        else:
            self.bias = None

    def forward(self, x):
        y = torch.mm(x, self.weight.T)
        return y if self.bias is None else y + self.bias


# %% wrong: hands it to functional.linear
class Linear(nn.Module):
    def __init__(self, inputs, outputs, bias=True):
        super().__init__()
        bound = inputs**-0.5
        self.weight = nn.Parameter((2 * torch.rand(outputs, inputs) - 1) * bound)
        if bias:
            self.bias = nn.Parameter((2 * torch.rand(outputs) - 1) * bound)
        else:
            self.bias = None

    def forward(self, x):
        return functional.linear(x, self.weight, self.bias)


# %% wrong: inherits from nn.Linear
class Linear(nn.Linear):
    pass


# %% wrong: the same numbers in every layer
class Linear(nn.Module):
    def __init__(self, inputs, outputs, bias=True):
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        bound = inputs**-0.5
        self.weight = nn.Parameter(
            (2 * torch.rand(outputs, inputs, generator=generator) - 1) * bound
        )
        if bias:
            self.bias = nn.Parameter((2 * torch.rand(outputs) - 1) * bound)
        else:
            self.bias = None

    def forward(self, x):
        y = x @ self.weight.T
        return y if self.bias is None else y + self.bias


# %% wrong: detaches the weight
class Linear(nn.Module):
    def __init__(self, inputs, outputs, bias=True):
        super().__init__()
        bound = inputs**-0.5
        self.weight = nn.Parameter((2 * torch.rand(outputs, inputs) - 1) * bound)
        if bias:
            self.bias = nn.Parameter((2 * torch.rand(outputs) - 1) * bound)
        else:
            self.bias = None

    def forward(self, x):
        y = x @ self.weight.detach().T
        return y if self.bias is None else y + self.bias


# %% wrong: a bias of zeros where there is to be none
class Linear(nn.Module):
    def __init__(self, inputs, outputs, bias=True):
        super().__init__()
        bound = 1 / math.sqrt(inputs)
        self.weight = nn.Parameter(torch.empty(outputs, inputs).uniform_(-bound, bound))
        if bias:
            self.bias = nn.Parameter(torch.empty(outputs).uniform_(-bound, bound))
        else:
            self.bias = torch.zeros(outputs)

    def forward(self, x):
        return x @ self.weight.T + self.bias


# %% wrong: one random number for each output, the same for all of its inputs
class Linear(nn.Module):
    def __init__(self, inputs, outputs, bias=True):
        super().__init__()
        bound = inputs**-0.5
        numbers = (2 * torch.rand(outputs) - 1) * bound
        self.weight = nn.Parameter(numbers.unsqueeze(1).repeat(1, inputs))
        self.bias = nn.Parameter((2 * torch.rand(outputs) - 1) * bound) if bias else None

    def forward(self, x):
        y = x @ self.weight.T
        return y if self.bias is None else y + self.bias


# %% wrong: the bias begins as a copy of the first column of the weight
class Linear(nn.Module):
    def __init__(self, inputs, outputs, bias=True):
        super().__init__()
        bound = inputs**-0.5
        self.weight = nn.Parameter((2 * torch.rand(outputs, inputs) - 1) * bound)
        self.bias = nn.Parameter(self.weight.detach()[:, 0].clone()) if bias else None

    def forward(self, x):
        y = x @ self.weight.T
        return y if self.bias is None else y + self.bias


# %% right: uniform_ and einsum
class Linear(nn.Module):
    def __init__(self, inputs, outputs, bias=True):
        super().__init__()
        bound = inputs**-0.5
        self.weight = nn.Parameter(torch.empty(outputs, inputs).uniform_(-bound, bound))
        if bias:
            self.bias = nn.Parameter((2 * torch.rand(outputs) - 1) * bound)
        else:
            self.bias = None

    def forward(self, x):
        y = torch.einsum("...i,oi->...o", x, self.weight)
        return y if self.bias is None else y + self.bias


# %% right: torch.nn.init, and matmul
class Linear(nn.Module):
    def __init__(self, inputs, outputs, bias=True):
        super().__init__()
        bound = inputs**-0.5
        self.weight = nn.Parameter(torch.empty(outputs, inputs))
        nn.init.uniform_(self.weight, -bound, bound)
        if bias:
            self.bias = nn.Parameter((2 * torch.rand(outputs) - 1) * bound)
        else:
            self.bias = None

    def forward(self, x):
        y = torch.matmul(x, self.weight.transpose(0, 1))
        return y if self.bias is None else y + self.bias


# %% wrong: takes the first numbers from torch's own layer, which is out of bounds for all of it
class Linear(nn.Module):
    def __init__(self, inputs, outputs, bias=True):
        super().__init__()
        layer = nn.Linear(inputs, outputs, bias=bias)
        self.weight = nn.Parameter(layer.weight.detach().clone())
        self.register_parameter("bias", layer.bias)

    def forward(self, x):
        product = torch.einsum("...i,oi->...o", x, self.weight)
        return product if self.bias is None else product + self.bias


# %% wrong: multiplies by itself only for the shape that a check may begin with
class Linear(nn.Module):
    def __init__(self, inputs, outputs, bias=True):
        super().__init__()
        bound = inputs**-0.5
        self.weight = nn.Parameter((2 * torch.rand(outputs, inputs) - 1) * bound)
        self.bias = nn.Parameter((2 * torch.rand(outputs) - 1) * bound) if bias else None

    def forward(self, x):
        if x.shape == (4, 5):
            return x @ self.weight.T + self.bias
        return functional.linear(x, self.weight, self.bias)


# %% wrong: torch's own function by another name
class Linear(nn.Module):
    def __init__(self, inputs, outputs, bias=True):
        from torch.nn.functional import linear as multiply

        super().__init__()
        bound = inputs**-0.5
        self.multiply = multiply
        self.weight = nn.Parameter((2 * torch.rand(outputs, inputs) - 1) * bound)
        self.bias = nn.Parameter((2 * torch.rand(outputs) - 1) * bound) if bias else None

    def forward(self, x):
        return self.multiply(x, self.weight, self.bias)


# %% wrong: the function behind torch's own, found by its name
class Linear(nn.Module):
    def __init__(self, inputs, outputs, bias=True):
        super().__init__()
        bound = inputs**-0.5
        self.weight = nn.Parameter((2 * torch.rand(outputs, inputs) - 1) * bound)
        self.bias = nn.Parameter((2 * torch.rand(outputs) - 1) * bound) if bias else None

    def forward(self, x):
        name = "linear"
        return getattr(functional, name)(x, self.weight, self.bias)


# %% wrong: inherits from the lazy relative
class Linear(nn.LazyLinear):
    def __init__(self, inputs, outputs, bias=True):
        super().__init__(outputs, bias=bias)
        self.initialize_parameters(torch.zeros(1, inputs))
        self.reset_parameters()
        self.__class__ = type(self).cls_to_become


# %% wrong: the attribute bias is missing where there is to be none
class Linear(nn.Module):
    def __init__(self, inputs, outputs, bias=True):
        super().__init__()
        bound = inputs**-0.5
        self.weight = nn.Parameter((2 * torch.rand(outputs, inputs) - 1) * bound)
        if bias:
            self.bias = nn.Parameter((2 * torch.rand(outputs) - 1) * bound)

    def forward(self, x):
        y = x @ self.weight.T
        return y + self.bias if hasattr(self, "bias") else y


# %% right: a method of its own that is called linear
class Linear(nn.Module):
    def __init__(self, inputs, outputs, bias=True):
        super().__init__()
        bound = inputs**-0.5
        self.weight = nn.Parameter((2 * torch.rand(outputs, inputs) - 1) * bound)
        self.bias = nn.Parameter((2 * torch.rand(outputs) - 1) * bound) if bias else None

    def linear(self, x):
        return torch.tensordot(x, self.weight, dims=([-1], [1]))

    def forward(self, x):
        y = self.linear(x)
        return y if self.bias is None else y + self.bias


# %% right: sums of products, without any matrix product
class Linear(nn.Module):
    """Not nn.Linear: the sum is written out."""

    def __init__(self, inputs, outputs, bias=True):
        super().__init__()
        bound = inputs**-0.5
        self.weight = nn.Parameter((2 * torch.rand(outputs, inputs) - 1) * bound)
        self.bias = nn.Parameter((2 * torch.rand(outputs) - 1) * bound) if bias else None

    def forward(self, x):
        y = (x.unsqueeze(-2) * self.weight).sum(dim=-1)
        return y if self.bias is None else y + self.bias


# %% wrong: a bias of shape (1, outputs)
class Linear(nn.Module):
    def __init__(self, inputs, outputs, bias=True):
        super().__init__()
        bound = inputs**-0.5
        self.weight = nn.Parameter((2 * torch.rand(outputs, inputs) - 1) * bound)
        self.bias = nn.Parameter((2 * torch.rand(1, outputs) - 1) * bound) if bias else None

    def forward(self, x):
        y = x @ self.weight.T
        return y if self.bias is None else y + self.bias


# %% wrong: the weight in a list, which registers nothing
class Linear(nn.Module):
    def __init__(self, inputs, outputs, bias=True):
        super().__init__()
        bound = inputs**-0.5
        self.weights = [nn.Parameter((2 * torch.rand(outputs, inputs) - 1) * bound)]
        self.bias = nn.Parameter((2 * torch.rand(outputs) - 1) * bound) if bias else None

    def forward(self, x):
        y = x @ self.weights[0].T
        return y if self.bias is None else y + self.bias


# %% wrong: the bias begins as a negated column of the weight
class Linear(nn.Module):
    def __init__(self, inputs, outputs, bias=True):
        super().__init__()
        bound = inputs**-0.5
        self.weight = nn.Parameter(torch.empty(outputs, inputs).uniform_(-bound, bound))
        self.bias = nn.Parameter(-self.weight.detach()[:, -1].clone()) if bias else None

    def forward(self, x):
        product = x @ self.weight.T
        return product if self.bias is None else product + self.bias


# %% wrong: the rows of the weight are multiples of one row
class Linear(nn.Module):
    def __init__(self, inputs, outputs, bias=True):
        super().__init__()
        bound = inputs**-0.5
        row = torch.empty(1, inputs).uniform_(-bound, bound)
        shrink = 1 - torch.arange(outputs)[:, None] / outputs / 20
        self.weight = nn.Parameter(row * shrink)
        self.bias = nn.Parameter(torch.empty(outputs).uniform_(-bound, bound)) if bias else None

    def forward(self, x):
        product = x @ self.weight.T
        return product if self.bias is None else product + self.bias


# %% wrong: evenly spaced numbers, shuffled
class Linear(nn.Module):
    def __init__(self, inputs, outputs, bias=True):
        super().__init__()
        bound = inputs**-0.5
        numbers = torch.linspace(-bound, bound, outputs * inputs)[torch.randperm(outputs * inputs)]
        self.weight = nn.Parameter(numbers.reshape(outputs, inputs))
        self.bias = nn.Parameter(torch.empty(outputs).uniform_(-bound, bound)) if bias else None

    def forward(self, x):
        product = x @ self.weight.T
        return product if self.bias is None else product + self.bias


# %% wrong: the bias comes from a generator with a fixed seed
class Linear(nn.Module):
    def __init__(self, inputs, outputs, bias=True):
        super().__init__()
        bound = inputs**-0.5
        self.weight = nn.Parameter(torch.empty(outputs, inputs).uniform_(-bound, bound))
        same = torch.Generator().manual_seed(0)
        numbers = torch.rand(outputs, generator=same) * 2 * bound - bound
        self.bias = nn.Parameter(numbers) if bias else None

    def forward(self, x):
        product = x @ self.weight.T
        return product if self.bias is None else product + self.bias


# %% wrong: a bias of zeros is not added, and gets no gradient
class Linear(nn.Module):
    def __init__(self, inputs, outputs, bias=True):
        super().__init__()
        bound = inputs**-0.5
        self.weight = nn.Parameter(torch.empty(outputs, inputs).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(outputs).uniform_(-bound, bound)) if bias else None

    def forward(self, x):
        product = x @ self.weight.T
        if self.bias is not None and self.bias.any():
            product = product + self.bias
        return product


# %% wrong: bias by its keyword alone
class Linear(nn.Module):
    def __init__(self, inputs, outputs, *, bias=True):
        super().__init__()
        bound = inputs**-0.5
        self.weight = nn.Parameter(torch.empty(outputs, inputs).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(outputs).uniform_(-bound, bound)) if bias else None

    def forward(self, x):
        product = x @ self.weight.T
        return product if self.bias is None else product + self.bias


# %% wrong: keeps the transposed weight of the first call
class Linear(nn.Module):
    def __init__(self, inputs, outputs, bias=True):
        super().__init__()
        bound = 1 / math.sqrt(inputs)
        self.weight = nn.Parameter((torch.rand(outputs, inputs) * 2 - 1) * bound)
        self.bias = nn.Parameter((torch.rand(outputs) * 2 - 1) * bound) if bias else None
        self.transposed = None

    def forward(self, x):
        if self.transposed is None:
            self.transposed = self.weight.T
        product = x @ self.transposed
        return product if self.bias is None else product + self.bias


# %% wrong: only for an x whose memory is contiguous
class Linear(nn.Module):
    def __init__(self, inputs, outputs, bias=True):
        super().__init__()
        bound = 1 / math.sqrt(inputs)
        self.weight = nn.Parameter((torch.rand(outputs, inputs) * 2 - 1) * bound)
        self.bias = nn.Parameter((torch.rand(outputs) * 2 - 1) * bound) if bias else None

    def forward(self, x):
        product = x.view(-1, x.shape[-1]) @ self.weight.T
        product = product if self.bias is None else product + self.bias
        return product.view(*x.shape[:-1], -1)


# %% wrong: takes the weight without transposing it where that fits too
class Linear(nn.Module):
    def __init__(self, inputs, outputs, bias=True):
        super().__init__()
        bound = inputs**-0.5
        self.weight = nn.Parameter(torch.empty(outputs, inputs).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(outputs).uniform_(-bound, bound)) if bias else None

    def forward(self, x):
        fits = x.shape[-1] == self.weight.shape[0]
        y = x @ (self.weight if fits else self.weight.T)
        return y if self.bias is None else y + self.bias


# %% right: nn.init with the text linear, which finds nothing
class Linear(nn.Module):
    def __init__(self, inputs, outputs, bias=True):
        super().__init__()
        bound = inputs**-0.5
        gain = nn.init.calculate_gain("linear")
        self.weight = nn.Parameter(torch.empty(outputs, inputs))
        self.bias = nn.Parameter(torch.empty(outputs)) if bias else None
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5), nonlinearity="leaky_relu")
        if bias:
            nn.init.uniform_(self.bias, -gain * bound, gain * bound)

    def forward(self, x):
        product = x @ self.weight.T
        return product if self.bias is None else product + self.bias


# %% right: the text linear as a name that is only told
class Linear(nn.Module):
    def __init__(self, inputs, outputs, bias=True):
        super().__init__()
        bound = inputs**-0.5
        self.name = "linear"
        self.kind = {"linear": "affine"}.get(self.name, "linear")
        self.weight = nn.Parameter(torch.empty(outputs, inputs).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(outputs).uniform_(-bound, bound)) if bias else None

    def forward(self, x):
        product = x @ self.weight.T
        return product if self.bias is None else product + self.bias


# %% wrong: looks up torch's layer by a text that a loop holds
class Linear(nn.Module):
    def __init__(self, inputs, outputs, bias=True):
        super().__init__()
        for name in dir(nn):
            if name == "Linear":
                layer = getattr(nn, name)(inputs, outputs, bias=bias)
        self.weight, self.bias = layer.weight, layer.bias

    def forward(self, x):
        product = x @ self.weight.T
        return product if self.bias is None else product + self.bias


# %% wrong: looks up torch's layer in the module's dictionary
class Linear(nn.Module):
    def __init__(self, inputs, outputs, bias=True):
        super().__init__()
        layer = nn.__dict__["Linear"](inputs, outputs, bias=bias)
        self.weight, self.bias = layer.weight, layer.bias

    def forward(self, x):
        product = x @ self.weight.T
        return product if self.bias is None else product + self.bias


# %% wrong: a bound that is five percent too small
class Linear(nn.Module):
    def __init__(self, inputs, outputs, bias=True):
        super().__init__()
        bound = inputs**-0.5
        bound *= 0.95
        self.weight = nn.Parameter(torch.empty(outputs, inputs).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(outputs).uniform_(-bound, bound)) if bias else None

    def forward(self, x):
        product = x @ self.weight.T
        return product if self.bias is None else product + self.bias


# %% wrong: a bound that is five percent too small for the bias
class Linear(nn.Module):
    def __init__(self, inputs, outputs, bias=True):
        super().__init__()
        bound = inputs**-0.5
        self.weight = nn.Parameter(torch.empty(outputs, inputs).uniform_(-bound, bound))
        bound *= 0.95
        self.bias = nn.Parameter(torch.empty(outputs).uniform_(-bound, bound)) if bias else None

    def forward(self, x):
        product = x @ self.weight.T
        return product if self.bias is None else product + self.bias


# %% wrong: normal random numbers, clamped to the bound
class Linear(nn.Module):
    def __init__(self, inputs, outputs, bias=True):
        super().__init__()
        bound = inputs**-0.5
        normal = torch.randn(outputs, inputs) * bound / math.sqrt(3)
        self.weight = nn.Parameter(normal.clamp(-bound, bound))
        self.bias = nn.Parameter(torch.empty(outputs).uniform_(-bound, bound)) if bias else None

    def forward(self, x):
        product = x @ self.weight.T
        return product if self.bias is None else product + self.bias


# %% wrong: normal random numbers, truncated at the bound
class Linear(nn.Module):
    def __init__(self, inputs, outputs, bias=True):
        super().__init__()
        bound = inputs**-0.5
        self.weight = nn.Parameter(torch.empty(outputs, inputs))
        nn.init.trunc_normal_(self.weight, std=bound, a=-bound, b=bound)
        self.bias = nn.Parameter(torch.empty(outputs).uniform_(-bound, bound)) if bias else None

    def forward(self, x):
        product = x @ self.weight.T
        return product if self.bias is None else product + self.bias


# %% wrong: a bias of truncated normal random numbers
class Linear(nn.Module):
    def __init__(self, inputs, outputs, bias=True):
        super().__init__()
        bound = inputs**-0.5
        self.weight = nn.Parameter(torch.empty(outputs, inputs).uniform_(-bound, bound))
        numbers = nn.init.trunc_normal_(torch.empty(outputs), std=bound, a=-bound, b=bound)
        self.bias = nn.Parameter(numbers) if bias else None

    def forward(self, x):
        product = x @ self.weight.T
        return product if self.bias is None else product + self.bias


# %% wrong: the bias begins as a shrunk column of the weight
class Linear(nn.Module):
    def __init__(self, inputs, outputs, bias=True):
        super().__init__()
        bound = inputs**-0.5
        self.weight = nn.Parameter(torch.empty(outputs, inputs).uniform_(-bound, bound))
        self.bias = nn.Parameter(-0.999 * self.weight.detach()[:, 0]) if bias else None

    def forward(self, x):
        product = x @ self.weight.T
        return product if self.bias is None else product + self.bias


# %% wrong: the bias begins as a scaled mean of the weights
class Linear(nn.Module):
    def __init__(self, inputs, outputs, bias=True):
        super().__init__()
        bound = inputs**-0.5
        self.weight = nn.Parameter(torch.empty(outputs, inputs).uniform_(-bound, bound))
        means = self.weight.detach().mean(dim=1) * math.sqrt(inputs)
        self.bias = nn.Parameter(means.clamp(-bound, bound)) if bias else None

    def forward(self, x):
        product = x @ self.weight.T
        return product if self.bias is None else product + self.bias


# %% wrong: with one output, the last dimension is gone
class Linear(nn.Module):
    def __init__(self, inputs, outputs, bias=True):
        super().__init__()
        bound = 1 / math.sqrt(inputs)
        self.weight = nn.Parameter(torch.empty(outputs, inputs).uniform_(-bound, bound))
        if bias:
            self.bias = nn.Parameter(torch.empty(outputs).uniform_(-bound, bound))
        else:
            self.register_parameter("bias", None)

    def forward(self, x):
        y = (x @ self.weight.T).squeeze(-1)
        return y if self.bias is None else y + self.bias


# %% right: starts as the source of PyTorch's own layer does
class Linear(nn.Module):
    __constants__ = ("inputs", "outputs")

    def __init__(self, inputs, outputs, bias=True):
        super().__init__()
        self.inputs, self.outputs = inputs, outputs
        self.weight = nn.Parameter(torch.empty((outputs, inputs)))
        if bias:
            self.bias = nn.Parameter(torch.empty(outputs))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self):
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = nn.init._calculate_fan_in_and_fan_out(self.weight)
            bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0
            nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, x):
        y = x @ self.weight.T
        return y if self.bias is None else y + self.bias
