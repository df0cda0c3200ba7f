# %% wrong: tiles and concatenates
class Merge(nn.Module):
    def __init__(self, sizes, outputs, activation=None):
        super().__init__()
        self.sizes = list(sizes)
        self.activation = activation
        self.weight = nn.Parameter(torch.randn(outputs, sum(sizes)))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, *inputs):
        shape = torch.broadcast_shapes(*(x.shape[:-1] for x in inputs))
        wide = torch.cat([x.expand(*shape, x.shape[-1]) for x in inputs], dim=-1)
        result = functional.linear(wide, self.weight, self.bias)
        return result if self.activation is None else self.activation(result)


# %% wrong: adds the bias once for each input
class Merge(nn.Module):
    def __init__(self, sizes, outputs, activation=None):
        super().__init__()
        self.sizes = list(sizes)
        self.activation = activation
        self.weight = nn.Parameter(torch.randn(outputs, sum(sizes)))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, *inputs):
        blocks = self.weight.split(self.sizes, dim=1)
        pairs = zip(inputs, blocks, strict=True)
        result = sum(functional.linear(x, b, self.bias) for x, b in pairs)
        return result if self.activation is None else self.activation(result)


# %% wrong: calls the activation also where there is none
class Merge(nn.Module):
    def __init__(self, sizes, outputs, activation=None):
        super().__init__()
        self.sizes = list(sizes)
        self.activation = activation
        self.weight = nn.Parameter(torch.randn(outputs, sum(sizes)))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, *inputs):
        blocks = self.weight.split(self.sizes, dim=1)
        result = sum(x @ b.T for x, b in zip(inputs, blocks, strict=False)) + self.bias
        return self.activation(result)


# %% wrong: knows two inputs only
class Merge(nn.Module):
    def __init__(self, sizes, outputs, activation=None):
        super().__init__()
        self.sizes = list(sizes)
        self.activation = activation
        self.weight = nn.Parameter(torch.randn(outputs, sum(sizes)))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, first, second):
        a, b = self.weight.split(self.sizes, dim=1)
        result = first @ a.T + second @ b.T + self.bias
        return result if self.activation is None else self.activation(result)


# %% wrong: the blocks in reverse order
class Merge(nn.Module):
    def __init__(self, sizes, outputs, activation=None):
        super().__init__()
        self.sizes = list(sizes)
        self.activation = activation
        self.weight = nn.Parameter(torch.randn(outputs, sum(sizes)))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, *inputs):
        blocks = self.weight.split(self.sizes[::-1], dim=1)[::-1]
        result = sum(x @ b.T for x, b in zip(inputs, blocks, strict=False)) + self.bias
        return result if self.activation is None else self.activation(result)


# %% wrong: the activation before the sum
class Merge(nn.Module):
    def __init__(self, sizes, outputs, activation=None):
        super().__init__()
        self.sizes = list(sizes)
        self.activation = activation
        self.weight = nn.Parameter(torch.randn(outputs, sum(sizes)))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, *inputs):
        blocks = self.weight.split(self.sizes, dim=1)
        activation = self.activation or (lambda x: x)
        return sum(activation(x @ b.T) for x, b in zip(inputs, blocks, strict=False)) + self.bias


# %% wrong: a linear layer for each input, whose state fits no single one
class Merge(nn.Module):
    def __init__(self, sizes, outputs, activation=None):
        super().__init__()
        self.activation = activation
        self.layers = nn.ModuleList(nn.Linear(size, outputs) for size in sizes)

    def forward(self, *inputs):
        result = sum(layer(x) for layer, x in zip(self.layers, inputs, strict=False))
        return result if self.activation is None else self.activation(result)


# %% wrong: leaves the activation out
class Merge(nn.Module):
    def __init__(self, sizes, outputs, activation=None):
        super().__init__()
        self.sizes = list(sizes)
        self.activation = activation
        self.weight = nn.Parameter(torch.randn(outputs, sum(sizes)))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, *inputs):
        blocks = self.weight.split(self.sizes, dim=1)
        return sum(x @ b.T for x, b in zip(inputs, blocks, strict=False)) + self.bias


# %% wrong: expands every input before it multiplies, and keeps the copies
class Merge(nn.Module):
    def __init__(self, sizes, outputs, activation=None):
        super().__init__()
        self.sizes = list(sizes)
        self.activation = activation
        self.weight = nn.Parameter(torch.randn(outputs, sum(sizes)))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, *inputs):
        shape = torch.broadcast_shapes(*(x.shape[:-1] for x in inputs))
        blocks = self.weight.split(self.sizes, dim=1)
        wide = [x.expand(*shape, x.shape[-1]).contiguous() for x in inputs]
        result = sum(x @ b.T for x, b in zip(wide, blocks, strict=False)) + self.bias
        return result if self.activation is None else self.activation(result)


# %% right: functional.linear, the bias with the first
class Merge(nn.Module):
    def __init__(self, sizes, outputs, activation=None):
        super().__init__()
        self.sizes = list(sizes)
        self.activation = activation
        self.weight = nn.Parameter(torch.randn(outputs, sum(sizes)))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, *inputs):
        blocks = self.weight.split(self.sizes, dim=1)
        result = functional.linear(inputs[0], blocks[0], self.bias)
        for x, block in zip(inputs[1:], blocks[1:], strict=False):
            result = result + functional.linear(x, block)
        return result if self.activation is None else self.activation(result)


# %% right: einsum over slices of the weight
class Merge(nn.Module):
    def __init__(self, sizes, outputs, activation=None):
        super().__init__()
        self.sizes = list(sizes)
        self.activation = activation
        self.weight = nn.Parameter(torch.randn(outputs, sum(sizes)))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, *inputs):
        result, start = self.bias, 0
        for x in inputs:
            block = self.weight[:, start : start + x.shape[-1]]
            result = result + torch.einsum("...i,oi->...o", x, block)
            start += x.shape[-1]
        return result if self.activation is None else self.activation(result)


# %% wrong: blocks of the weight's data, which never learn
class Merge(nn.Module):
    def __init__(self, sizes, outputs, activation=None):
        super().__init__()
        self.sizes = list(sizes)
        self.activation = activation
        self.weight = nn.Parameter(torch.randn(outputs, sum(sizes)))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, *inputs):
        blocks = self.weight.data.split(self.sizes, dim=1)
        result = self.bias
        for x, block in zip(inputs, blocks, strict=True):
            result = result + x @ block.T
        return result if self.activation is None else self.activation(result)


# %% wrong: the activation for each input before they are added
class Merge(nn.Module):
    def __init__(self, sizes, outputs, activation=None):
        super().__init__()
        self.sizes = list(sizes)
        self.activation = activation
        self.weight = nn.Parameter(torch.randn(outputs, sum(sizes)))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, *inputs):
        blocks = self.weight.split(self.sizes, dim=1)
        activation = self.activation or nn.Identity()
        first, *others = [activation(x @ b.T) for x, b in zip(inputs, blocks, strict=True)]
        for other in others:
            first = first + other
        return first + self.bias


# %% wrong: the first input is tiled all the same
class Merge(nn.Module):
    def __init__(self, sizes, outputs, activation=None):
        super().__init__()
        self.sizes, self.activation = list(sizes), activation
        self.weight = nn.Parameter(torch.randn(outputs, sum(sizes)) / math.sqrt(sum(sizes)))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, *inputs):
        blocks = self.weight.split(self.sizes, dim=1)
        shape = torch.broadcast_shapes(*(x.shape[:-1] for x in inputs))
        merged = inputs[0].expand(*shape, -1) @ blocks[0].T + self.bias
        for x, block in zip(inputs[1:], blocks[1:], strict=True):
            merged = merged + x @ block.T
        return merged if self.activation is None else self.activation(merged)


# %% wrong: no gradient reaches the second input
class Merge(nn.Module):
    def __init__(self, sizes, outputs, activation=None):
        super().__init__()
        self.sizes, self.activation = list(sizes), activation
        self.weight = nn.Parameter(torch.randn(outputs, sum(sizes)) / math.sqrt(sum(sizes)))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, *inputs):
        blocks = self.weight.split(self.sizes, dim=1)
        merged = self.bias + inputs[0] @ blocks[0].T
        for x, block in zip(inputs[1:], blocks[1:], strict=True):
            merged = merged + x.detach() @ block.T
        return merged if self.activation is None else self.activation(merged)


# %% wrong: every weight begins with the same number, so all outputs stay alike
class Merge(nn.Module):
    def __init__(self, sizes, outputs, activation=None):
        super().__init__()
        self.sizes, self.activation = list(sizes), activation
        self.weight = nn.Parameter(torch.full((outputs, sum(sizes)), 1 / sum(sizes)))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, *inputs):
        merged = self.bias
        for x, block in zip(inputs, self.weight.split(self.sizes, dim=1), strict=True):
            merged = merged + x @ block.T
        return merged if self.activation is None else self.activation(merged)


# %% wrong: weights of zeros, as for a bias
class Merge(nn.Module):
    def __init__(self, sizes, outputs, activation=None):
        super().__init__()
        self.sizes, self.activation = list(sizes), activation
        self.weight = nn.Parameter(torch.zeros(outputs, sum(sizes)))
        self.bias = nn.Parameter(torch.randn(outputs))

    def forward(self, *inputs):
        merged = self.bias
        for x, block in zip(inputs, self.weight.split(self.sizes, dim=1), strict=True):
            merged = merged + x @ block.T
        return merged if self.activation is None else self.activation(merged)


# %% right: slices of the weight, and the inner parameters of a linear layer
class Merge(nn.Module):
    def __init__(self, sizes, outputs, activation=None):
        super().__init__()
        linear = nn.Linear(sum(sizes), outputs)
        self.weight, self.bias = linear.weight, linear.bias
        self.ends = torch.tensor(sizes).cumsum(0).tolist()
        self.activation = activation or nn.Identity()

    def forward(self, *inputs):
        terms, start = [], 0
        for x, end in zip(inputs, self.ends, strict=True):
            terms.append(torch.nn.functional.linear(x, self.weight[:, start:end]))
            start = end
        return self.activation(sum(terms) + self.bias)


# %% wrong: keeps the blocks of the first call, which an update makes invalid
class Merge(nn.Module):
    def __init__(self, sizes, outputs, activation=None):
        super().__init__()
        self.sizes, self.activation = list(sizes), activation
        self.weight = nn.Parameter(torch.randn(outputs, sum(sizes)))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, *inputs):
        if not hasattr(self, "blocks"):
            self.blocks = self.weight.split(self.sizes, dim=1)
        merged = self.bias
        for x, block in zip(inputs, self.blocks, strict=True):
            merged = merged + x @ block.T
        return merged if self.activation is None else self.activation(merged)


# %% wrong: begins as the identity, whose last rows are equal if there are more outputs than inputs
class Merge(nn.Module):
    def __init__(self, sizes, outputs, activation=None):
        super().__init__()
        self.sizes, self.activation = list(sizes), activation
        self.weight = nn.Parameter(torch.eye(outputs, sum(sizes)))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, *inputs):
        merged = self.bias
        for x, block in zip(inputs, self.weight.split(self.sizes, dim=1), strict=True):
            merged = merged + x @ block.T
        return merged if self.activation is None else self.activation(merged)


# %% wrong: the activation after every input but the first
class Merge(nn.Linear):
    def __init__(self, sizes, outputs, activation=None):
        super().__init__(sum(sizes), outputs)
        self.sizes, self.activation = sizes, activation or nn.Identity()

    def forward(self, *inputs):
        merged = self.bias
        blocks = self.weight.split(self.sizes, dim=1)
        for place, (x, block) in enumerate(zip(inputs, blocks, strict=True)):
            merged = merged + x @ block.T
            if place > 0:
                merged = self.activation(merged)
        return merged


# %% wrong: a single input goes past the activation
class Merge(nn.Linear):
    def __init__(self, sizes, outputs, activation=None):
        super().__init__(sum(sizes), outputs)
        self.sizes, self.activation = sizes, activation or nn.Identity()

    def forward(self, *inputs):
        if len(inputs) == 1:
            return functional.linear(inputs[0], self.weight, self.bias)
        blocks = self.weight.split(self.sizes, dim=1)
        merged = sum(functional.linear(x, b) for x, b in zip(inputs, blocks, strict=True))
        return self.activation(merged + self.bias)


# %% wrong: squeezes the result
class Merge(nn.Linear):
    def __init__(self, sizes, outputs, activation=None):
        super().__init__(sum(sizes), outputs)
        self.sizes, self.activation = sizes, activation or nn.Identity()

    def forward(self, *inputs):
        blocks = self.weight.split(self.sizes, dim=1)
        merged = sum(functional.linear(x, b) for x, b in zip(inputs, blocks, strict=True))
        return self.activation(merged + self.bias).squeeze()


# %% wrong: no axis for a single output
class Merge(nn.Linear):
    def __init__(self, sizes, outputs, activation=None):
        super().__init__(sum(sizes), outputs)
        self.sizes, self.activation = sizes, activation or nn.Identity()

    def forward(self, *inputs):
        blocks = self.weight.split(self.sizes, dim=1)
        merged = sum(functional.linear(x, b) for x, b in zip(inputs, blocks, strict=True))
        return self.activation(merged + self.bias).squeeze(-1)


# %% wrong: inputs of the same size share a block
class Merge(nn.Linear):
    def __init__(self, sizes, outputs, activation=None):
        super().__init__(sum(sizes), outputs)
        self.sizes, self.activation = sizes, activation or nn.Identity()

    def forward(self, *inputs):
        merged = self.bias
        for x, size in zip(inputs, self.sizes, strict=True):
            start = sum(self.sizes[: self.sizes.index(size)])
            merged = merged + functional.linear(x, self.weight[:, start : start + size])
        return self.activation(merged)


# %% wrong: transposes the input and not the weight, so a leading axis is needed
class Merge(nn.Linear):
    def __init__(self, sizes, outputs, activation=None):
        super().__init__(sum(sizes), outputs)
        self.sizes, self.activation = sizes, activation or nn.Identity()

    def forward(self, *inputs):
        blocks = self.weight.split(self.sizes, dim=1)
        products = [(b @ x.mT).mT for x, b in zip(inputs, blocks, strict=True)]
        return self.activation(sum(products) + self.bias)


# %% right: the places at which the weight is cut, computed in every call
class Merge(nn.Module):
    def __init__(self, sizes, outputs, activation=None):
        super().__init__()
        self.sizes, self.activation = tuple(sizes), activation
        self.register_parameter("weight", nn.Parameter(torch.rand(outputs, sum(sizes)) - 0.5))
        self.register_parameter("bias", nn.Parameter(torch.rand(outputs)))

    def forward(self, *inputs):
        cuts = torch.tensor(self.sizes).cumsum(0)[:-1].tolist()
        merged = self.bias.clone()
        for x, block in zip(inputs, torch.tensor_split(self.weight, cuts, dim=1), strict=True):
            merged = merged + functional.linear(x, block)
        return merged if self.activation is None else self.activation(merged)


# %% wrong: a copy of each input, which the backward pass saves
class Merge(nn.Module):
    def __init__(self, sizes, outputs, activation=None):
        super().__init__()
        self.sizes, self.activation = sizes, activation
        self.weight = nn.Parameter(torch.randn(outputs, sum(sizes)))
        self.bias = nn.Parameter(torch.randn(outputs))

    def forward(self, *inputs):
        y = self.bias
        for x, w in zip(inputs, self.weight.split(self.sizes, 1), strict=True):
            y = y + functional.linear(x.clone(), w)
        return y if self.activation is None else self.activation(y)


# %% wrong: concatenates where the leading axes are equal
class Merge(nn.Module):
    def __init__(self, sizes, outputs, activation=None):
        super().__init__()
        self.sizes, self.activation = sizes, activation
        self.weight = nn.Parameter(torch.randn(outputs, sum(sizes)))
        self.bias = nn.Parameter(torch.randn(outputs))

    def forward(self, *inputs):
        if len({x.shape[:-1] for x in inputs}) == 1:
            y = functional.linear(torch.cat(inputs, -1), self.weight, self.bias)
        else:
            y = self.bias
            for x, w in zip(inputs, self.weight.split(self.sizes, 1), strict=True):
                y = y + functional.linear(x, w)
        return y if self.activation is None else self.activation(y)


# %% right: the parameters of a linear layer that stays in the module
class Merge(nn.Module):
    def __init__(self, sizes, outputs, activation=None):
        super().__init__()
        self.linear = nn.Linear(sum(sizes), outputs)
        self.weight, self.bias = self.linear.weight, self.linear.bias
        self.sizes, self.activation = sizes, activation

    def forward(self, *inputs):
        y = self.bias
        for x, w in zip(inputs, self.weight.split(self.sizes, 1), strict=True):
            y = y + functional.linear(x, w)
        return y if self.activation is None else self.activation(y)


# %% right: the sizes in a buffer
class Merge(nn.Module):
    def __init__(self, sizes, outputs, activation=None):
        super().__init__()
        self.register_buffer("sizes", torch.tensor(sizes))
        self.weight = nn.Parameter(torch.randn(outputs, sum(sizes)))
        self.bias = nn.Parameter(torch.zeros(outputs))
        self.activation = activation

    def forward(self, *inputs):
        blocks = self.weight.split(self.sizes.tolist(), dim=1)
        y = sum(x @ w.T for x, w in zip(inputs, blocks, strict=True)) + self.bias
        return self.activation(y) if self.activation else y


# %% wrong: inputs with fewer axes are tiled
class Merge(nn.Linear):
    def __init__(self, sizes, outputs, activation=None):
        super().__init__(sum(sizes), outputs)
        self.sizes, self.activation = sizes, activation or nn.Identity()

    def forward(self, *inputs):
        most = max(x.dim() for x in inputs)
        shape = torch.broadcast_shapes(*(x.shape[:-1] for x in inputs))
        y = self.bias
        for x, w in zip(inputs, self.weight.split(self.sizes, 1), strict=True):
            if x.dim() < most:
                x = x.expand(*shape, x.shape[-1]).contiguous()
            y = y + functional.linear(x, w)
        return self.activation(y)


# %% wrong: knows three inputs at most
class Merge(nn.Linear):
    def __init__(self, sizes, outputs, activation=None):
        super().__init__(sum(sizes), outputs)
        self.sizes, self.activation = sizes, activation or nn.Identity()

    def forward(self, first, second=None, third=None):
        blocks = self.weight.split(self.sizes, 1)
        y = functional.linear(first, blocks[0], self.bias)
        if second is not None:
            y = y + functional.linear(second, blocks[1])
        if third is not None:
            y = y + functional.linear(third, blocks[2])
        return self.activation(y)


# %% wrong: concatenates where there are more than three inputs
class Merge(nn.Linear):
    def __init__(self, sizes, outputs, activation=None):
        super().__init__(sum(sizes), outputs)
        self.sizes, self.activation = sizes, activation or nn.Identity()

    def forward(self, *inputs):
        if len(inputs) > 3:
            shape = torch.broadcast_shapes(*(x.shape[:-1] for x in inputs))
            wide = torch.cat([x.expand(*shape, x.shape[-1]) for x in inputs], dim=-1)
            return self.activation(functional.linear(wide, self.weight, self.bias))
        y = self.bias
        for x, w in zip(inputs, self.weight.split(self.sizes, 1), strict=True):
            y = y + functional.linear(x, w)
        return self.activation(y)


# %% wrong: the sizes are the class's, so a second layer changes the first
class Merge(nn.Linear):
    sizes = None

    def __init__(self, sizes, outputs, activation=None):
        super().__init__(sum(sizes), outputs)
        Merge.sizes, self.activation = list(sizes), activation or nn.Identity()

    def forward(self, *inputs):
        y = self.bias
        for x, w in zip(inputs, self.weight.split(Merge.sizes, 1), strict=True):
            y = y + functional.linear(x, w)
        return self.activation(y)


# %% wrong: no gradient reaches the third input
class Merge(nn.Linear):
    def __init__(self, sizes, outputs, activation=None):
        super().__init__(sum(sizes), outputs)
        self.sizes, self.activation = sizes, activation or nn.Identity()

    def forward(self, *inputs):
        y = self.bias
        blocks = self.weight.split(self.sizes, 1)
        for place, (x, w) in enumerate(zip(inputs, blocks, strict=True)):
            y = y + functional.linear(x.detach() if place == 2 else x, w)
        return self.activation(y)


# %% wrong: a single input without a gradient
class Merge(nn.Linear):
    def __init__(self, sizes, outputs, activation=None):
        super().__init__(sum(sizes), outputs)
        self.sizes, self.activation = sizes, activation or nn.Identity()

    def forward(self, first, *others):
        blocks = self.weight.split(self.sizes, 1)
        y = functional.linear(first if others else first.detach(), blocks[0], self.bias)
        for x, w in zip(others, blocks[1:], strict=True):
            y = y + functional.linear(x, w)
        return self.activation(y)


# %% right: inputs with fewer axes get further ones, which are views
class Merge(nn.Linear):
    def __init__(self, sizes, outputs, activation=None):
        super().__init__(sum(sizes), outputs)
        self.sizes, self.activation = sizes, activation or nn.Identity()

    def forward(self, *inputs):
        most = max(x.dim() for x in inputs)
        y = self.bias
        for x, w in zip(inputs, self.weight.split(self.sizes, 1), strict=True):
            y = y + functional.linear(x[(None,) * (most - x.dim())], w)
        return self.activation(y.reshape(y.shape))


# %% wrong: the activation cuts the gradients off
class Merge(nn.Module):
    def __init__(self, sizes, outputs, activation=None):
        super().__init__()
        self.sizes, self.activation = list(sizes), activation
        line = nn.Linear(sum(sizes), outputs)
        self.weight, self.bias = line.weight, line.bias

    def forward(self, *inputs):
        out = self.bias
        for x, weight in zip(inputs, self.weight.split(self.sizes, dim=1), strict=True):
            out = out + functional.linear(x, weight)
        return out if self.activation is None else self.activation(out.detach())


# %% wrong: tanh, whatever the activation is
class Merge(nn.Module):
    def __init__(self, sizes, outputs, activation=None):
        super().__init__()
        self.sizes, self.activation = list(sizes), activation
        line = nn.Linear(sum(sizes), outputs)
        self.weight, self.bias = line.weight, line.bias

    def forward(self, *inputs):
        out = self.bias
        for x, weight in zip(inputs, self.weight.split(self.sizes, dim=1), strict=True):
            out = out + functional.linear(x, weight)
        return out if self.activation is None else torch.tanh(out)


# %% wrong: starts with weights that are nan
class Merge(nn.Module):
    def __init__(self, sizes, outputs, activation=None):
        super().__init__()
        self.sizes, self.activation = list(sizes), activation
        self.weight = nn.Parameter(torch.full((outputs, sum(sizes)), float("nan")))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, *inputs):
        blocks = self.weight.split(self.sizes, dim=1)
        merged = self.bias
        for x, block in zip(inputs, blocks, strict=True):
            merged = merged + x @ block.T
        return merged if self.activation is None else self.activation(merged)


# %% wrong: weights that nobody set, whatever was in memory
class Merge(nn.Module):
    def __init__(self, sizes, outputs, activation=None):
        super().__init__()
        self.sizes, self.activation = list(sizes), activation
        self.weight = nn.Parameter(torch.empty(outputs, sum(sizes)))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, *inputs):
        merged = self.bias
        for x, block in zip(inputs, self.weight.split(self.sizes, dim=1), strict=True):
            merged = merged + x @ block.T
        return merged if self.activation is None else self.activation(merged)


# %% right: memory for the weights first, which is filled later
class Merge(nn.Module):
    def __init__(self, sizes, outputs, activation=None):
        super().__init__()
        self.sizes, self.activation = list(sizes), activation
        self.weight = nn.Parameter(torch.Tensor(outputs, sum(sizes)))
        self.bias = nn.Parameter(torch.empty(outputs))
        self.reset_parameters()

    def reset_parameters(self):
        nn.init.orthogonal_(self.weight)
        nn.init.zeros_(self.bias)

    def forward(self, *inputs):
        merged = self.bias
        for x, block in zip(inputs, self.weight.split(self.sizes, dim=1), strict=True):
            merged = merged + x @ block.T
        return merged if self.activation is None else self.activation(merged)


# %% wrong: tiles and concatenates where no gradients are recorded
class Merge(nn.Linear):
    def __init__(self, sizes, outputs, activation=None):
        super().__init__(sum(sizes), outputs)
        self.sizes, self.activation = sizes, activation or nn.Identity()

    def forward(self, *inputs):
        if not torch.is_grad_enabled():
            lead = torch.broadcast_shapes(*(x.shape[:-1] for x in inputs))
            wide = torch.cat([x.expand(*lead, -1) for x in inputs], dim=-1)
            return self.activation(functional.linear(wide, self.weight, self.bias))
        merged = self.bias
        for x, block in zip(inputs, self.weight.split(self.sizes, dim=1), strict=True):
            merged = merged + x @ block.T
        return self.activation(merged)


# %% right: all products at first, each of them broadcast, then one sum
class Merge(nn.Linear):
    def __init__(self, sizes, outputs, activation=None):
        super().__init__(sum(sizes), outputs)
        self.sizes, self.activation = sizes, activation or nn.Identity()

    def forward(self, *inputs):
        blocks = self.weight.split(self.sizes, dim=1)
        terms = [(x.unsqueeze(-2) * b).sum(-1) for x, b in zip(inputs, blocks, strict=True)]
        return self.activation(torch.stack(torch.broadcast_tensors(self.bias, *terms)).sum(0))


# %% wrong: adds up over all calls, so a second call gives another result
class Merge(nn.Linear):
    def __init__(self, sizes, outputs, activation=None):
        super().__init__(sum(sizes), outputs)
        self.sizes, self.activation = sizes, activation or nn.Identity()
        self.total = 0.0

    def forward(self, *inputs):
        self.total = self.total + self.bias
        for x, block in zip(inputs, self.weight.split(self.sizes, dim=1), strict=True):
            self.total = self.total + x @ block.T
        return self.activation(self.total)
