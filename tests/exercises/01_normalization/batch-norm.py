# %% wrong: normalizes with the unbiased variance as well
class BatchNorm(torch.nn.Module):
    def __init__(self, channels, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = torch.nn.Parameter(torch.ones(channels))
        self.bias = torch.nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x):
        shape = (1, -1) + (1,) * (x.ndim - 2)
        if self.training:
            axes = (0, *range(2, x.ndim))
            mean, variance = x.mean(dim=axes), x.var(dim=axes, correction=1)
            unbiased = x.detach().var(dim=axes, correction=1)
            keep = 1 - self.momentum
            self.running_mean = keep * self.running_mean + self.momentum * mean.detach()
            self.running_var = keep * self.running_var + self.momentum * unbiased
            self.num_batches_tracked += 1
        else:
            mean, variance = self.running_mean, self.running_var
        normalized = (x - mean.view(shape)) / (variance.view(shape) + self.eps).sqrt()
        return normalized * self.weight.view(shape) + self.bias.view(shape)


# %% wrong: stores the biased variance
class BatchNorm(torch.nn.Module):
    def __init__(self, channels, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = torch.nn.Parameter(torch.ones(channels))
        self.bias = torch.nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x):
        shape = (1, -1) + (1,) * (x.ndim - 2)
        if self.training:
            axes = (0, *range(2, x.ndim))
            mean, variance = x.mean(dim=axes), x.var(dim=axes, correction=0)
            unbiased = x.detach().var(dim=axes, correction=0)
            keep = 1 - self.momentum
            self.running_mean = keep * self.running_mean + self.momentum * mean.detach()
            self.running_var = keep * self.running_var + self.momentum * unbiased
            self.num_batches_tracked += 1
        else:
            mean, variance = self.running_mean, self.running_var
        normalized = (x - mean.view(shape)) / (variance.view(shape) + self.eps).sqrt()
        return normalized * self.weight.view(shape) + self.bias.view(shape)


# %% wrong: momentum as in Keras: the weight of the old average
class BatchNorm(torch.nn.Module):
    def __init__(self, channels, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = torch.nn.Parameter(torch.ones(channels))
        self.bias = torch.nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x):
        shape = (1, -1) + (1,) * (x.ndim - 2)
        if self.training:
            axes = (0, *range(2, x.ndim))
            mean, variance = x.mean(dim=axes), x.var(dim=axes, correction=0)
            unbiased = x.detach().var(dim=axes, correction=1)
            keep = self.momentum
            self.running_mean = keep * self.running_mean + (1 - keep) * mean.detach()
            self.running_var = keep * self.running_var + (1 - keep) * unbiased
            self.num_batches_tracked += 1
        else:
            mean, variance = self.running_mean, self.running_var
        normalized = (x - mean.view(shape)) / (variance.view(shape) + self.eps).sqrt()
        return normalized * self.weight.view(shape) + self.bias.view(shape)


# %% wrong: uses the batch's statistics in eval mode too
class BatchNorm(torch.nn.Module):
    def __init__(self, channels, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = torch.nn.Parameter(torch.ones(channels))
        self.bias = torch.nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x):
        shape = (1, -1) + (1,) * (x.ndim - 2)
        axes = (0, *range(2, x.ndim))
        mean, variance = x.mean(dim=axes), x.var(dim=axes, correction=0)
        if self.training:
            unbiased = x.detach().var(dim=axes, correction=1)
            keep = 1 - self.momentum
            self.running_mean = keep * self.running_mean + self.momentum * mean.detach()
            self.running_var = keep * self.running_var + self.momentum * unbiased
            self.num_batches_tracked += 1
        normalized = (x - mean.view(shape)) / (variance.view(shape) + self.eps).sqrt()
        return normalized * self.weight.view(shape) + self.bias.view(shape)


# %% wrong: updates the running averages in eval mode too
class BatchNorm(torch.nn.Module):
    def __init__(self, channels, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = torch.nn.Parameter(torch.ones(channels))
        self.bias = torch.nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x):
        shape = (1, -1) + (1,) * (x.ndim - 2)
        if self.training:
            axes = (0, *range(2, x.ndim))
            mean, variance = x.mean(dim=axes), x.var(dim=axes, correction=0)
            unbiased = x.detach().var(dim=axes, correction=1)
            keep = 1 - self.momentum
            self.running_mean = keep * self.running_mean + self.momentum * mean.detach()
            self.running_var = keep * self.running_var + self.momentum * unbiased
            self.num_batches_tracked += 1
        else:
            mean, variance = self.running_mean, self.running_var
            self.num_batches_tracked += 1
        normalized = (x - mean.view(shape)) / (variance.view(shape) + self.eps).sqrt()
        return normalized * self.weight.view(shape) + self.bias.view(shape)


# %% wrong: normalizes with the running averages in training, once they are updated
class BatchNorm(torch.nn.Module):
    def __init__(self, channels, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = torch.nn.Parameter(torch.ones(channels))
        self.bias = torch.nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x):
        shape = (1, -1) + (1,) * (x.ndim - 2)
        if self.training:
            axes = (0, *range(2, x.ndim))
            mean, variance = x.mean(dim=axes), x.var(dim=axes, correction=0)
            unbiased = x.detach().var(dim=axes, correction=1)
            keep = 1 - self.momentum
            self.running_mean = keep * self.running_mean + self.momentum * mean.detach()
            self.running_var = keep * self.running_var + self.momentum * unbiased
            self.num_batches_tracked += 1
        mean, variance = self.running_mean, self.running_var
        normalized = (x - mean.view(shape)) / (variance.view(shape) + self.eps).sqrt()
        return normalized * self.weight.view(shape) + self.bias.view(shape)


# %% wrong: running averages that are parameters: the optimizer would train them
class BatchNorm(torch.nn.Module):
    def __init__(self, channels, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = torch.nn.Parameter(torch.ones(channels))
        self.bias = torch.nn.Parameter(torch.zeros(channels))
        self.running_mean = torch.nn.Parameter(torch.zeros(channels), requires_grad=False)
        self.running_var = torch.nn.Parameter(torch.ones(channels), requires_grad=False)
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x):
        shape = (1, -1) + (1,) * (x.ndim - 2)
        if self.training:
            axes = (0, *range(2, x.ndim))
            mean, variance = x.mean(dim=axes), x.var(dim=axes, correction=0)
            unbiased = x.detach().var(dim=axes, correction=1)
            keep = 1 - self.momentum
            self.running_mean.data = keep * self.running_mean.data + self.momentum * mean.detach()
            self.running_var.data = keep * self.running_var.data + self.momentum * unbiased
            self.num_batches_tracked += 1
        else:
            mean, variance = self.running_mean, self.running_var
        normalized = (x - mean.view(shape)) / (variance.view(shape) + self.eps).sqrt()
        return normalized * self.weight.view(shape) + self.bias.view(shape)


# %% wrong: running averages that are plain attributes: neither saved nor moved
class BatchNorm(torch.nn.Module):
    def __init__(self, channels, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = torch.nn.Parameter(torch.ones(channels))
        self.bias = torch.nn.Parameter(torch.zeros(channels))
        self.running_mean = torch.zeros(channels)
        self.running_var = torch.ones(channels)
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x):
        shape = (1, -1) + (1,) * (x.ndim - 2)
        if self.training:
            axes = (0, *range(2, x.ndim))
            mean, variance = x.mean(dim=axes), x.var(dim=axes, correction=0)
            unbiased = x.detach().var(dim=axes, correction=1)
            keep = 1 - self.momentum
            self.running_mean = keep * self.running_mean + self.momentum * mean.detach()
            self.running_var = keep * self.running_var + self.momentum * unbiased
            self.num_batches_tracked += 1
        else:
            mean, variance = self.running_mean, self.running_var
        normalized = (x - mean.view(shape)) / (variance.view(shape) + self.eps).sqrt()
        return normalized * self.weight.view(shape) + self.bias.view(shape)


# %% wrong: weight and bias are plain tensors, which nobody trains
class BatchNorm(torch.nn.Module):
    def __init__(self, channels, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = torch.ones(channels)
        self.bias = torch.zeros(channels)
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x):
        shape = (1, -1) + (1,) * (x.ndim - 2)
        if self.training:
            axes = (0, *range(2, x.ndim))
            mean, variance = x.mean(dim=axes), x.var(dim=axes, correction=0)
            unbiased = x.detach().var(dim=axes, correction=1)
            keep = 1 - self.momentum
            self.running_mean = keep * self.running_mean + self.momentum * mean.detach()
            self.running_var = keep * self.running_var + self.momentum * unbiased
            self.num_batches_tracked += 1
        else:
            mean, variance = self.running_mean, self.running_var
        normalized = (x - mean.view(shape)) / (variance.view(shape) + self.eps).sqrt()
        return normalized * self.weight.view(shape) + self.bias.view(shape)


# %% wrong: the running variance begins at 0
class BatchNorm(torch.nn.Module):
    def __init__(self, channels, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = torch.nn.Parameter(torch.ones(channels))
        self.bias = torch.nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.zeros(channels))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x):
        shape = (1, -1) + (1,) * (x.ndim - 2)
        if self.training:
            axes = (0, *range(2, x.ndim))
            mean, variance = x.mean(dim=axes), x.var(dim=axes, correction=0)
            unbiased = x.detach().var(dim=axes, correction=1)
            keep = 1 - self.momentum
            self.running_mean = keep * self.running_mean + self.momentum * mean.detach()
            self.running_var = keep * self.running_var + self.momentum * unbiased
            self.num_batches_tracked += 1
        else:
            mean, variance = self.running_mean, self.running_var
        normalized = (x - mean.view(shape)) / (variance.view(shape) + self.eps).sqrt()
        return normalized * self.weight.view(shape) + self.bias.view(shape)


# %% wrong: there is no counter of batches
class BatchNorm(torch.nn.Module):
    def __init__(self, channels, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = torch.nn.Parameter(torch.ones(channels))
        self.bias = torch.nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))

    def forward(self, x):
        shape = (1, -1) + (1,) * (x.ndim - 2)
        if self.training:
            axes = (0, *range(2, x.ndim))
            mean, variance = x.mean(dim=axes), x.var(dim=axes, correction=0)
            unbiased = x.detach().var(dim=axes, correction=1)
            keep = 1 - self.momentum
            self.running_mean = keep * self.running_mean + self.momentum * mean.detach()
            self.running_var = keep * self.running_var + self.momentum * unbiased
        else:
            mean, variance = self.running_mean, self.running_var
        normalized = (x - mean.view(shape)) / (variance.view(shape) + self.eps).sqrt()
        return normalized * self.weight.view(shape) + self.bias.view(shape)


# %% wrong: the counter is a float
class BatchNorm(torch.nn.Module):
    def __init__(self, channels, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = torch.nn.Parameter(torch.ones(channels))
        self.bias = torch.nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.register_buffer("num_batches_tracked", torch.tensor(0.0))

    def forward(self, x):
        shape = (1, -1) + (1,) * (x.ndim - 2)
        if self.training:
            axes = (0, *range(2, x.ndim))
            mean, variance = x.mean(dim=axes), x.var(dim=axes, correction=0)
            unbiased = x.detach().var(dim=axes, correction=1)
            keep = 1 - self.momentum
            self.running_mean = keep * self.running_mean + self.momentum * mean.detach()
            self.running_var = keep * self.running_var + self.momentum * unbiased
            self.num_batches_tracked += 1
        else:
            mean, variance = self.running_mean, self.running_var
        normalized = (x - mean.view(shape)) / (variance.view(shape) + self.eps).sqrt()
        return normalized * self.weight.view(shape) + self.bias.view(shape)


# %% wrong: the counter counts pictures, not batches
class BatchNorm(torch.nn.Module):
    def __init__(self, channels, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = torch.nn.Parameter(torch.ones(channels))
        self.bias = torch.nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x):
        shape = (1, -1) + (1,) * (x.ndim - 2)
        if self.training:
            axes = (0, *range(2, x.ndim))
            mean, variance = x.mean(dim=axes), x.var(dim=axes, correction=0)
            unbiased = x.detach().var(dim=axes, correction=1)
            keep = 1 - self.momentum
            self.running_mean = keep * self.running_mean + self.momentum * mean.detach()
            self.running_var = keep * self.running_var + self.momentum * unbiased
            self.num_batches_tracked += len(x)
        else:
            mean, variance = self.running_mean, self.running_var
        normalized = (x - mean.view(shape)) / (variance.view(shape) + self.eps).sqrt()
        return normalized * self.weight.view(shape) + self.bias.view(shape)


# %% wrong: the counter is replaced by a number that is not in the state
class BatchNorm(torch.nn.Module):
    def __init__(self, channels, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = torch.nn.Parameter(torch.ones(channels))
        self.bias = torch.nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.num_batches_tracked = 0

    def forward(self, x):
        shape = (1, -1) + (1,) * (x.ndim - 2)
        if self.training:
            axes = (0, *range(2, x.ndim))
            mean, variance = x.mean(dim=axes), x.var(dim=axes, correction=0)
            unbiased = x.detach().var(dim=axes, correction=1)
            keep = 1 - self.momentum
            self.running_mean = keep * self.running_mean + self.momentum * mean.detach()
            self.running_var = keep * self.running_var + self.momentum * unbiased
            self.num_batches_tracked += 1
        else:
            mean, variance = self.running_mean, self.running_var
        normalized = (x - mean.view(shape)) / (variance.view(shape) + self.eps).sqrt()
        return normalized * self.weight.view(shape) + self.bias.view(shape)


# %% wrong: the batch's mean and variance are detached: no gradient through them
class BatchNorm(torch.nn.Module):
    def __init__(self, channels, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = torch.nn.Parameter(torch.ones(channels))
        self.bias = torch.nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x):
        shape = (1, -1) + (1,) * (x.ndim - 2)
        if self.training:
            axes = (0, *range(2, x.ndim))
            mean, variance = x.mean(dim=axes).detach(), x.var(dim=axes, correction=0).detach()
            unbiased = x.detach().var(dim=axes, correction=1)
            keep = 1 - self.momentum
            self.running_mean = keep * self.running_mean + self.momentum * mean.detach()
            self.running_var = keep * self.running_var + self.momentum * unbiased
            self.num_batches_tracked += 1
        else:
            mean, variance = self.running_mean, self.running_var
        normalized = (x - mean.view(shape)) / (variance.view(shape) + self.eps).sqrt()
        return normalized * self.weight.view(shape) + self.bias.view(shape)


# %% wrong: the graph of every batch is kept in the running mean
class BatchNorm(torch.nn.Module):
    def __init__(self, channels, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = torch.nn.Parameter(torch.ones(channels))
        self.bias = torch.nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x):
        shape = (1, -1) + (1,) * (x.ndim - 2)
        if self.training:
            axes = (0, *range(2, x.ndim))
            mean, variance = x.mean(dim=axes), x.var(dim=axes, correction=0)
            unbiased = x.detach().var(dim=axes, correction=1)
            keep = 1 - self.momentum
            self.running_mean = keep * self.running_mean + self.momentum * mean
            self.running_var = keep * self.running_var + self.momentum * unbiased
            self.num_batches_tracked += 1
        else:
            mean, variance = self.running_mean, self.running_var
        normalized = (x - mean.view(shape)) / (variance.view(shape) + self.eps).sqrt()
        return normalized * self.weight.view(shape) + self.bias.view(shape)


# %% wrong: the graph of every batch is kept in the running variance
class BatchNorm(torch.nn.Module):
    def __init__(self, channels, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = torch.nn.Parameter(torch.ones(channels))
        self.bias = torch.nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x):
        shape = (1, -1) + (1,) * (x.ndim - 2)
        if self.training:
            axes = (0, *range(2, x.ndim))
            mean, variance = x.mean(dim=axes), x.var(dim=axes, correction=0)
            unbiased = x.var(dim=axes, correction=1)
            keep = 1 - self.momentum
            self.running_mean = keep * self.running_mean + self.momentum * mean.detach()
            self.running_var = keep * self.running_var + self.momentum * unbiased
            self.num_batches_tracked += 1
        else:
            mean, variance = self.running_mean, self.running_var
        normalized = (x - mean.view(shape)) / (variance.view(shape) + self.eps).sqrt()
        return normalized * self.weight.view(shape) + self.bias.view(shape)


# %% wrong: over the batch alone: a statistic for every pixel
class BatchNorm(torch.nn.Module):
    def __init__(self, channels, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = torch.nn.Parameter(torch.ones(channels))
        self.bias = torch.nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x):
        shape = (1, -1) + (1,) * (x.ndim - 2)
        if self.training:
            axes = (0,)
            mean, variance = (
                x.mean(dim=axes, keepdim=True),
                x.var(dim=axes, keepdim=True, correction=0),
            )
            unbiased = x.detach().transpose(0, 1).flatten(1).var(dim=1)
            keep = 1 - self.momentum
            self.running_mean = (
                keep * self.running_mean + self.momentum * mean.detach().flatten(2).mean(dim=2)[0]
            )
            self.running_var = keep * self.running_var + self.momentum * unbiased
            self.num_batches_tracked += 1
        else:
            mean, variance = self.running_mean, self.running_var
        normalized = (x - (mean if self.training else mean.view(shape))) / (
            (variance if self.training else variance.view(shape)) + self.eps
        ).sqrt()
        return normalized * self.weight.view(shape) + self.bias.view(shape)


# %% wrong: made for pictures alone, with axes 0, 2 and 3 written out
class BatchNorm(torch.nn.Module):
    def __init__(self, channels, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = torch.nn.Parameter(torch.ones(channels))
        self.bias = torch.nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x):
        shape = (1, -1, 1, 1)
        if self.training:
            axes = (0, 2, 3)
            mean, variance = x.mean(dim=axes), x.var(dim=axes, correction=0)
            unbiased = x.detach().var(dim=axes, correction=1)
            keep = 1 - self.momentum
            self.running_mean = keep * self.running_mean + self.momentum * mean.detach()
            self.running_var = keep * self.running_var + self.momentum * unbiased
            self.num_batches_tracked += 1
        else:
            mean, variance = self.running_mean, self.running_var
        normalized = (x - mean.view(shape)) / (variance.view(shape) + self.eps).sqrt()
        return normalized * self.weight.view(shape) + self.bias.view(shape)


# %% wrong: every picture by itself, which is InstanceNorm
class BatchNorm(torch.nn.Module):
    def __init__(self, channels, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = torch.nn.Parameter(torch.ones(channels))
        self.bias = torch.nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x):
        shape = (1, -1) + (1,) * (x.ndim - 2)
        if self.training:
            axes = (0, *range(2, x.ndim))
            own = tuple(range(2, x.ndim)) or (0,)
            mean, variance = x.mean(dim=axes), x.var(dim=axes, correction=0)
            x = x - x.mean(dim=own, keepdim=True) + mean.view(shape)
            unbiased = x.detach().var(dim=axes, correction=1)
            keep = 1 - self.momentum
            self.running_mean = keep * self.running_mean + self.momentum * mean.detach()
            self.running_var = keep * self.running_var + self.momentum * unbiased
            self.num_batches_tracked += 1
        else:
            mean, variance = self.running_mean, self.running_var
        normalized = (x - mean.view(shape)) / (variance.view(shape) + self.eps).sqrt()
        return normalized * self.weight.view(shape) + self.bias.view(shape)


# %% wrong: eps beside the root
class BatchNorm(torch.nn.Module):
    def __init__(self, channels, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = torch.nn.Parameter(torch.ones(channels))
        self.bias = torch.nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x):
        shape = (1, -1) + (1,) * (x.ndim - 2)
        if self.training:
            axes = (0, *range(2, x.ndim))
            mean, variance = x.mean(dim=axes), x.var(dim=axes, correction=0)
            unbiased = x.detach().var(dim=axes, correction=1)
            keep = 1 - self.momentum
            self.running_mean = keep * self.running_mean + self.momentum * mean.detach()
            self.running_var = keep * self.running_var + self.momentum * unbiased
            self.num_batches_tracked += 1
        else:
            mean, variance = self.running_mean, self.running_var
        normalized = (x - mean.view(shape)) / (variance.view(shape).sqrt() + self.eps)
        return normalized * self.weight.view(shape) + self.bias.view(shape)


# %% wrong: eps and momentum are not kept
class BatchNorm(torch.nn.Module):
    def __init__(self, channels, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = 1e-5, 0.1
        self.weight = torch.nn.Parameter(torch.ones(channels))
        self.bias = torch.nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x):
        shape = (1, -1) + (1,) * (x.ndim - 2)
        if self.training:
            axes = (0, *range(2, x.ndim))
            mean, variance = x.mean(dim=axes), x.var(dim=axes, correction=0)
            unbiased = x.detach().var(dim=axes, correction=1)
            keep = 1 - self.momentum
            self.running_mean = keep * self.running_mean + self.momentum * mean.detach()
            self.running_var = keep * self.running_var + self.momentum * unbiased
            self.num_batches_tracked += 1
        else:
            mean, variance = self.running_mean, self.running_var
        normalized = (x - mean.view(shape)) / (variance.view(shape) + self.eps).sqrt()
        return normalized * self.weight.view(shape) + self.bias.view(shape)


# %% wrong: divides by the variance in eval mode
class BatchNorm(torch.nn.Module):
    def __init__(self, channels, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = torch.nn.Parameter(torch.ones(channels))
        self.bias = torch.nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x):
        shape = (1, -1) + (1,) * (x.ndim - 2)
        if self.training:
            axes = (0, *range(2, x.ndim))
            mean, variance = x.mean(dim=axes), x.var(dim=axes, correction=0)
            unbiased = x.detach().var(dim=axes, correction=1)
            keep = 1 - self.momentum
            self.running_mean = keep * self.running_mean + self.momentum * mean.detach()
            self.running_var = keep * self.running_var + self.momentum * unbiased
            self.num_batches_tracked += 1
        else:
            mean, variance = self.running_mean, self.running_var**2
        normalized = (x - mean.view(shape)) / (variance.view(shape) + self.eps).sqrt()
        return normalized * self.weight.view(shape) + self.bias.view(shape)


# %% wrong: no weight and no bias in eval mode
class BatchNorm(torch.nn.Module):
    def __init__(self, channels, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = torch.nn.Parameter(torch.ones(channels))
        self.bias = torch.nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x):
        shape = (1, -1) + (1,) * (x.ndim - 2)
        if self.training:
            axes = (0, *range(2, x.ndim))
            mean, variance = x.mean(dim=axes), x.var(dim=axes, correction=0)
            unbiased = x.detach().var(dim=axes, correction=1)
            keep = 1 - self.momentum
            self.running_mean = keep * self.running_mean + self.momentum * mean.detach()
            self.running_var = keep * self.running_var + self.momentum * unbiased
            self.num_batches_tracked += 1
        else:
            mean, variance = self.running_mean, self.running_var
        normalized = (x - mean.view(shape)) / (variance.view(shape) + self.eps).sqrt()
        if not self.training:
            return normalized
        return normalized * self.weight.view(shape) + self.bias.view(shape)


# %% wrong: in training, the batch's mean but the running variance
class BatchNorm(torch.nn.Module):
    def __init__(self, channels, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = torch.nn.Parameter(torch.ones(channels))
        self.bias = torch.nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x):
        shape = (1, -1) + (1,) * (x.ndim - 2)
        if self.training:
            axes = (0, *range(2, x.ndim))
            mean, variance = x.mean(dim=axes), x.var(dim=axes, correction=0)
            unbiased = x.detach().var(dim=axes, correction=1)
            keep = 1 - self.momentum
            self.running_mean = keep * self.running_mean + self.momentum * mean.detach()
            self.running_var = keep * self.running_var + self.momentum * unbiased
            self.num_batches_tracked += 1
            variance = self.running_var
        else:
            mean, variance = self.running_mean, self.running_var
        normalized = (x - mean.view(shape)) / (variance.view(shape) + self.eps).sqrt()
        return normalized * self.weight.view(shape) + self.bias.view(shape)


# %% wrong: the number of values per channel is taken for the number of pictures
class BatchNorm(torch.nn.Module):
    def __init__(self, channels, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = torch.nn.Parameter(torch.ones(channels))
        self.bias = torch.nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x):
        shape = (1, -1) + (1,) * (x.ndim - 2)
        if self.training:
            axes = (0, *range(2, x.ndim))
            mean, variance = x.mean(dim=axes), x.var(dim=axes, correction=0)
            unbiased = variance.detach() * len(x) / (len(x) - 1)
            keep = 1 - self.momentum
            self.running_mean = keep * self.running_mean + self.momentum * mean.detach()
            self.running_var = keep * self.running_var + self.momentum * unbiased
            self.num_batches_tracked += 1
        else:
            mean, variance = self.running_mean, self.running_var
        normalized = (x - mean.view(shape)) / (variance.view(shape) + self.eps).sqrt()
        return normalized * self.weight.view(shape) + self.bias.view(shape)


# %% wrong: float32 buffers, which do not follow the module to float64
class BatchNorm(torch.nn.Module):
    def __init__(self, channels, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = torch.nn.Parameter(torch.ones(channels))
        self.bias = torch.nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x):
        shape = (1, -1) + (1,) * (x.ndim - 2)
        if self.training:
            axes = (0, *range(2, x.ndim))
            mean, variance = x.mean(dim=axes), x.var(dim=axes, correction=0)
            unbiased = x.detach().var(dim=axes, correction=1)
            keep = 1 - self.momentum
            self.running_mean = (
                keep * self.running_mean.float() + self.momentum * mean.detach().float()
            )
            self.running_var = keep * self.running_var + self.momentum * unbiased
            self.num_batches_tracked += 1
        else:
            mean, variance = self.running_mean, self.running_var
        normalized = (x - mean.view(shape)) / (variance.view(shape) + self.eps).sqrt()
        return normalized * self.weight.view(shape) + self.bias.view(shape)


# %% wrong: torch's own class under another name
class BatchNorm(torch.nn.BatchNorm2d):
    def __init__(self, channels, eps=1e-5, momentum=0.1):
        super().__init__(channels, eps=eps, momentum=momentum)

    def forward(self, x):
        flat = super().forward(x.reshape(*x.shape[:2], 1, -1))
        return flat.reshape(x.shape)


# %% wrong: a forward of its own, but parameters and buffers inherited from torch's class
class BatchNorm(torch.nn.BatchNorm1d):
    def __init__(self, channels, eps=1e-5, momentum=0.1):
        super().__init__(channels, eps=eps, momentum=momentum)

    def forward(self, x):
        shape = (1, -1) + (1,) * (x.ndim - 2)
        if self.training:
            axes = (0, *range(2, x.ndim))
            mean, variance = x.mean(dim=axes), x.var(dim=axes, correction=0)
            unbiased = x.detach().var(dim=axes, correction=1)
            keep = 1 - self.momentum
            self.running_mean = keep * self.running_mean + self.momentum * mean.detach()
            self.running_var = keep * self.running_var + self.momentum * unbiased
            self.num_batches_tracked += 1
        else:
            mean, variance = self.running_mean, self.running_var
        normalized = (x - mean.view(shape)) / (variance.view(shape) + self.eps).sqrt()
        return normalized * self.weight.view(shape) + self.bias.view(shape)


# %% wrong: E[x^2] - E[x]^2, which loses the variance beside a large mean
class BatchNorm(torch.nn.Module):
    def __init__(self, channels, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = torch.nn.Parameter(torch.ones(channels))
        self.bias = torch.nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x):
        shape = (1, -1) + (1,) * (x.ndim - 2)
        if self.training:
            axes = (0, *range(2, x.ndim))
            mean = x.mean(dim=axes)
            variance = ((x * x).mean(dim=axes) - mean * mean).clamp(min=0)
            unbiased = x.detach().var(dim=axes, correction=1)
            keep = 1 - self.momentum
            self.running_mean = keep * self.running_mean + self.momentum * mean.detach()
            self.running_var = keep * self.running_var + self.momentum * unbiased
            self.num_batches_tracked += 1
        else:
            mean, variance = self.running_mean, self.running_var
        normalized = (x - mean.view(shape)) / (variance.view(shape) + self.eps).sqrt()
        return normalized * self.weight.view(shape) + self.bias.view(shape)


# %% wrong: eps is added before the variance goes into the running average
class BatchNorm(torch.nn.Module):
    def __init__(self, channels, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = torch.nn.Parameter(torch.ones(channels))
        self.bias = torch.nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x):
        shape = (1, -1) + (1,) * (x.ndim - 2)
        if self.training:
            axes = (0, *range(2, x.ndim))
            mean, variance = x.mean(dim=axes), x.var(dim=axes, correction=0)
            unbiased = x.detach().var(dim=axes, correction=1) + self.eps
            keep = 1 - self.momentum
            self.running_mean = keep * self.running_mean + self.momentum * mean.detach()
            self.running_var = keep * self.running_var + self.momentum * unbiased
            self.num_batches_tracked += 1
        else:
            mean, variance = self.running_mean, self.running_var - self.eps
        normalized = (x - mean.view(shape)) / (variance.view(shape) + self.eps).sqrt()
        return normalized * self.weight.view(shape) + self.bias.view(shape)


# %% right: assigns new buffers
class BatchNorm(torch.nn.Module):
    def __init__(self, channels, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = torch.nn.Parameter(torch.ones(channels))
        self.bias = torch.nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x):
        shape = (1, -1) + (1,) * (x.ndim - 2)
        if self.training:
            axes = (0, *range(2, x.ndim))
            mean, variance = x.mean(dim=axes), x.var(dim=axes, correction=0)
            unbiased = x.detach().var(dim=axes, correction=1)
            keep = 1 - self.momentum
            self.running_mean = keep * self.running_mean + self.momentum * mean.detach()
            self.running_var = keep * self.running_var + self.momentum * unbiased
            self.num_batches_tracked += 1
        else:
            mean, variance = self.running_mean, self.running_var
        normalized = (x - mean.view(shape)) / (variance.view(shape) + self.eps).sqrt()
        return normalized * self.weight.view(shape) + self.bias.view(shape)


# %% right: channels to the front and flattened, updates in place
class BatchNorm(torch.nn.Module):
    def __init__(self, channels, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps = eps
        self.momentum = momentum
        self.weight = torch.nn.Parameter(torch.ones(channels))
        self.bias = torch.nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.register_buffer("num_batches_tracked", torch.tensor(0, dtype=torch.long))

    def forward(self, x):
        rows = x.transpose(0, 1).flatten(1)
        if self.training:
            mean = rows.mean(dim=1)
            distance = rows - mean[:, None]
            variance = distance.square().mean(dim=1)
            with torch.no_grad():
                count = rows.shape[1]
                self.running_mean.mul_(1 - self.momentum).add_(self.momentum * mean)
                unbiased = variance * count / (count - 1)
                self.running_var += self.momentum * (unbiased - self.running_var)
                self.num_batches_tracked.add_(1)
        else:
            distance = rows - self.running_mean[:, None]
            variance = self.running_var
        factor = self.weight * torch.rsqrt(variance + self.eps)
        result = distance * factor[:, None] + self.bias[:, None]
        pictures = x.transpose(0, 1)
        return result.reshape(pictures.shape).transpose(0, 1)


# %% right: one factor and one summand per channel, on top of normalize
class BatchNorm(torch.nn.Module):
    def __init__(self, channels, eps=1e-5, momentum=0.1):
        super().__init__()
        self.register_parameter("weight", torch.nn.Parameter(torch.ones(channels)))
        self.register_parameter("bias", torch.nn.Parameter(torch.zeros(channels)))
        for name, value in (("running_mean", 0.0), ("running_var", 1.0)):
            self.register_buffer(name, torch.full((channels,), value))
        self.register_buffer("num_batches_tracked", torch.zeros((), dtype=torch.int64))
        self.settings = (eps, momentum)

    def affine(self, x, factor, summand):
        return (x.movedim(1, -1) * factor + summand).movedim(-1, 1)

    def forward(self, x):
        eps, momentum = self.settings
        if not self.training:
            factor = self.weight / torch.sqrt(self.running_var + eps)
            return self.affine(x, factor, self.bias - self.running_mean * factor)
        axes = [axis for axis in range(x.ndim) if axis != 1]
        with torch.no_grad():
            unbiased, mean = torch.var_mean(x, dim=axes)
            self.running_mean.copy_(torch.lerp(self.running_mean, mean, momentum))
            self.running_var.copy_(torch.lerp(self.running_var, unbiased, momentum))
            self.num_batches_tracked.copy_(self.num_batches_tracked + 1)
        return self.affine(normalize(x, tuple(axes), eps), self.weight, self.bias)


# %% wrong: in training by itself, in eval mode by torch's own function
class BatchNorm(nn.Module):
    def __init__(self, channels, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x):
        if not self.training:
            means = self.running_mean, self.running_var
            return functional.batch_norm(x, *means, self.weight, self.bias, eps=self.eps)
        variance, mean = torch.var_mean(x, dim=(0, *range(2, x.ndim)), correction=0)
        values = x.numel() // x.shape[1]
        with torch.no_grad():
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(variance * (values / (values - 1)), self.momentum)
            self.num_batches_tracked += 1
        scale = self.weight / (variance + self.eps).sqrt()
        shape = (1, -1) + (1,) * (x.ndim - 2)
        return (x - mean.view(shape)) * scale.view(shape) + self.bias.view(shape)


# %% wrong: parameters and buffers from the class behind torch's norms
class BatchNorm(nn.modules.batchnorm._NormBase):
    def __init__(self, channels, eps=1e-5, momentum=0.1):
        super().__init__(channels, eps, momentum)

    def forward(self, x):
        axes = (0, *range(2, x.ndim))
        variance, mean = self.running_var, self.running_mean
        if self.training:
            variance, mean = torch.var_mean(x, dim=axes, correction=0)
            values = x.numel() // x.shape[1]
            with torch.no_grad():
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(variance * (values / (values - 1)), self.momentum)
                self.num_batches_tracked += 1
        scale = self.weight / (variance + self.eps).sqrt()
        shape = (1, -1) + (1,) * (x.ndim - 2)
        return (x - mean.view(shape)) * scale.view(shape) + self.bias.view(shape)


# %% right: statistics and update in methods of its own, one of which is called batch_norm
class BatchNorm(nn.Module):
    """As nn.BatchNorm2d, for any number of axes."""

    def __init__(self, channels, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def batch_norm(self, x, mean, variance):
        scale = self.weight / (variance + self.eps).sqrt()
        shape = (1, -1) + (1,) * (x.ndim - 2)
        return (x - mean.view(shape)) * scale.view(shape) + self.bias.view(shape)

    @torch.no_grad()
    def remember(self, mean, variance, values):
        self.running_mean += self.momentum * (mean - self.running_mean)
        self.running_var += self.momentum * (variance * values / (values - 1) - self.running_var)
        self.num_batches_tracked += 1

    def forward(self, x):
        if not self.training:
            return self.batch_norm(x, self.running_mean, self.running_var)
        variance, mean = torch.var_mean(x, dim=(0, *range(2, x.ndim)), correction=0)
        self.remember(mean, variance, x.numel() // x.shape[1])
        return self.batch_norm(x, mean, variance)


# %% wrong: no gradient for weight and bias in evaluation mode
class BatchNorm(nn.Module):
    def __init__(self, channels, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x):
        weight, bias = self.weight, self.bias
        axes, shape = (0, *range(2, x.ndim)), (1, -1) + (1,) * (x.ndim - 2)
        if self.training:
            variance, mean = torch.var_mean(x, dim=axes, correction=0)
            count = x.numel() // x.shape[1]
            with torch.no_grad():
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(variance * count / (count - 1), self.momentum)
                self.num_batches_tracked += 1
        else:
            mean, variance = self.running_mean, self.running_var
            weight, bias = weight.detach(), bias.detach()
        scale = (weight / (variance + self.eps).sqrt()).view(shape)
        return (x - mean.view(shape)) * scale + bias.view(shape)


# %% wrong: evaluation mode goes on with the first statistics that it used
class BatchNorm(nn.Module):
    def __init__(self, channels, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x):
        weight, bias = self.weight, self.bias
        axes, shape = (0, *range(2, x.ndim)), (1, -1) + (1,) * (x.ndim - 2)
        if self.training:
            variance, mean = torch.var_mean(x, dim=axes, correction=0)
            count = x.numel() // x.shape[1]
            with torch.no_grad():
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(variance * count / (count - 1), self.momentum)
                self.num_batches_tracked += 1
        else:
            mean, variance = self.running_mean, self.running_var
            kept = self.__dict__.setdefault("_kept", (mean.clone(), variance.clone()))
            mean, variance = kept
        scale = (weight / (variance + self.eps).sqrt()).view(shape)
        return (x - mean.view(shape)) * scale + bias.view(shape)


# %% wrong: five axes at most
class BatchNorm(nn.Module):
    def __init__(self, channels, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x):
        assert x.dim() < 6
        weight, bias = self.weight, self.bias
        axes, shape = (0, *range(2, x.ndim)), (1, -1) + (1,) * (x.ndim - 2)
        if self.training:
            variance, mean = torch.var_mean(x, dim=axes, correction=0)
            count = x.numel() // x.shape[1]
            with torch.no_grad():
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(variance * count / (count - 1), self.momentum)
                self.num_batches_tracked += 1
        else:
            mean, variance = self.running_mean, self.running_var
        scale = (weight / (variance + self.eps).sqrt()).view(shape)
        return (x - mean.view(shape)) * scale + bias.view(shape)


# %% wrong: calls the check's own reference, which calls torch's norm
class BatchNorm(nn.Module):
    def __init__(self, channels, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x):
        _ = ByDefinition
        weight, bias = self.weight, self.bias
        axes, shape = (0, *range(2, x.ndim)), (1, -1) + (1,) * (x.ndim - 2)
        if self.training:
            variance, mean = torch.var_mean(x, dim=axes, correction=0)
            count = x.numel() // x.shape[1]
            with torch.no_grad():
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(variance * count / (count - 1), self.momentum)
                self.num_batches_tracked += 1
        else:
            mean, variance = self.running_mean, self.running_var
        scale = (weight / (variance + self.eps).sqrt()).view(shape)
        return (x - mean.view(shape)) * scale + bias.view(shape)


# %% right: the batch is normalized with normalize
class BatchNorm(nn.Module):
    def __init__(self, channels, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x):
        weight, bias = self.weight, self.bias
        axes, shape = (0, *range(2, x.ndim)), (1, -1) + (1,) * (x.ndim - 2)
        if self.training:
            variance, mean = torch.var_mean(x, dim=axes, correction=0)
            count = x.numel() // x.shape[1]
            with torch.no_grad():
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(variance * count / (count - 1), self.momentum)
                self.num_batches_tracked += 1
            per_channel = weight.view(shape), bias.view(shape)
            return normalize(x, axes, self.eps) * per_channel[0] + per_channel[1]
        else:
            mean, variance = self.running_mean, self.running_var
        scale = (weight / (variance + self.eps).sqrt()).view(shape)
        return (x - mean.view(shape)) * scale + bias.view(shape)


# %% wrong: view, which fails on transposed images
class BatchNorm(nn.Module):
    def __init__(self, channels, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x):
        rows = x.view(x.shape[0], x.shape[1], -1)
        if self.training:
            variance, mean = torch.var_mean(rows, dim=(0, 2), correction=0)
            count = len(rows) * rows.shape[2]
            with torch.no_grad():
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(variance * (count / (count - 1)), self.momentum)
                self.num_batches_tracked += 1
        else:
            mean, variance = self.running_mean, self.running_var
        scale = self.weight / (variance + self.eps).sqrt()
        rows = (rows - mean[:, None]) * scale[:, None] + self.bias[:, None]
        return rows.view(x.shape)


# %% wrong: drops the axis of a batch of one
class BatchNorm(nn.Module):
    def __init__(self, channels, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x):
        axes, shape = (0, *range(2, x.ndim)), (1, -1) + (1,) * (x.ndim - 2)
        if self.training:
            variance, mean = torch.var_mean(x, dim=axes, correction=0)
            count = x.numel() // x.shape[1]
            with torch.no_grad():
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(variance * count / (count - 1), self.momentum)
                self.num_batches_tracked += 1
        else:
            mean, variance = self.running_mean, self.running_var
        scale = (self.weight / (variance + self.eps).sqrt()).view(shape)
        return ((x - mean.view(shape)) * scale + self.bias.view(shape)).squeeze(0)


# %% wrong: refuses a batch of one in training, even with many values per channel
class BatchNorm(nn.Module):
    def __init__(self, channels, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x):
        axes, shape = (0, *range(2, x.ndim)), (1, -1) + (1,) * (x.ndim - 2)
        if self.training:
            if len(x) < 2:
                raise ValueError("more than one example")
            variance, mean = torch.var_mean(x, dim=axes, correction=0)
            count = x.numel() // x.shape[1]
            with torch.no_grad():
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(variance * count / (count - 1), self.momentum)
                self.num_batches_tracked += 1
        else:
            mean, variance = self.running_mean, self.running_var
        scale = (self.weight / (variance + self.eps).sqrt()).view(shape)
        return (x - mean.view(shape)) * scale + self.bias.view(shape)


# %% wrong: a batch of one is normalized as in evaluation mode
class BatchNorm(nn.Module):
    def __init__(self, channels, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x):
        axes, shape = (0, *range(2, x.ndim)), (1, -1) + (1,) * (x.ndim - 2)
        if self.training and len(x) > 1:
            variance, mean = torch.var_mean(x, dim=axes, correction=0)
            count = x.numel() // x.shape[1]
            with torch.no_grad():
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(variance * count / (count - 1), self.momentum)
                self.num_batches_tracked += 1
        else:
            mean, variance = self.running_mean, self.running_var
        scale = (self.weight / (variance + self.eps).sqrt()).view(shape)
        return (x - mean.view(shape)) * scale + self.bias.view(shape)


# %% wrong: under no_grad, behaves as in evaluation mode
class BatchNorm(nn.Module):
    def __init__(self, channels, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x):
        axes, shape = (0, *range(2, x.ndim)), (1, -1) + (1,) * (x.ndim - 2)
        if self.training and torch.is_grad_enabled():
            variance, mean = torch.var_mean(x, dim=axes, correction=0)
            count = x.numel() // x.shape[1]
            with torch.no_grad():
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(variance * count / (count - 1), self.momentum)
                self.num_batches_tracked += 1
        else:
            mean, variance = self.running_mean, self.running_var
        scale = (self.weight / (variance + self.eps).sqrt()).view(shape)
        return (x - mean.view(shape)) * scale + self.bias.view(shape)


# %% wrong: under no_grad, does not update the running statistics
class BatchNorm(nn.Module):
    def __init__(self, channels, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x):
        axes, shape = (0, *range(2, x.ndim)), (1, -1) + (1,) * (x.ndim - 2)
        was = torch.is_grad_enabled()
        if self.training:
            variance, mean = torch.var_mean(x, dim=axes, correction=0)
            count = x.numel() // x.shape[1]
            with torch.no_grad():
                if was:
                    self.running_mean.lerp_(mean, self.momentum)
                    self.running_var.lerp_(variance * count / (count - 1), self.momentum)
                    self.num_batches_tracked += 1
        else:
            mean, variance = self.running_mean, self.running_var
        scale = (self.weight / (variance + self.eps).sqrt()).view(shape)
        return (x - mean.view(shape)) * scale + self.bias.view(shape)


# %% wrong: the running variance alone by E[x^2] - E[x]^2
class BatchNorm(nn.Module):
    def __init__(self, channels, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x):
        axes, shape = (0, *range(2, x.ndim)), (1, -1) + (1,) * (x.ndim - 2)
        if self.training:
            variance, mean = torch.var_mean(x, dim=axes, correction=0)
            count = x.numel() // x.shape[1]
            with torch.no_grad():
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(
                    ((x * x).mean(axes) - mean * mean) * count / (count - 1), self.momentum
                )
                self.num_batches_tracked += 1
        else:
            mean, variance = self.running_mean, self.running_var
        scale = (self.weight / (variance + self.eps).sqrt()).view(shape)
        return (x - mean.view(shape)) * scale + self.bias.view(shape)


# %% wrong: a running variance counts at most as 1,000 in evaluation mode
class BatchNorm(nn.Module):
    def __init__(self, channels, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x):
        axes, shape = (0, *range(2, x.ndim)), (1, -1) + (1,) * (x.ndim - 2)
        if self.training:
            variance, mean = torch.var_mean(x, dim=axes, correction=0)
            count = x.numel() // x.shape[1]
            with torch.no_grad():
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(variance * count / (count - 1), self.momentum)
                self.num_batches_tracked += 1
        else:
            mean, variance = self.running_mean, self.running_var.clamp(max=1e3)
        scale = (self.weight / (variance + self.eps).sqrt()).view(shape)
        return (x - mean.view(shape)) * scale + self.bias.view(shape)


# %% wrong: squeezed statistics: the buffers of a single channel lose their axis
class BatchNorm(nn.Module):
    def __init__(self, channels, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x):
        axes, shape = (0, *range(2, x.ndim)), (1, -1) + (1,) * (x.ndim - 2)
        if self.training:
            variance, mean = (
                t.squeeze() for t in torch.var_mean(x, dim=axes, correction=0, keepdim=True)
            )
            count = x.numel() // x.shape[1]
            with torch.no_grad():
                self.running_mean = torch.lerp(self.running_mean.squeeze(), mean, self.momentum)
                self.running_var.lerp_(variance * count / (count - 1), self.momentum)
                self.num_batches_tracked += 1
        else:
            mean, variance = self.running_mean, self.running_var
        scale = (self.weight / (variance + self.eps).sqrt()).view(shape)
        return (x - mean.view(shape)) * scale + self.bias.view(shape)


# %% wrong: counts the values of the first two axes besides the channels alone
class BatchNorm(nn.Module):
    def __init__(self, channels, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x):
        axes, shape = (0, *range(2, x.ndim)), (1, -1) + (1,) * (x.ndim - 2)
        if self.training:
            variance, mean = torch.var_mean(x, dim=axes, correction=0)
            count = len(x) * (x.shape[2] if x.ndim > 2 else 1)
            with torch.no_grad():
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(variance * count / (count - 1), self.momentum)
                self.num_batches_tracked += 1
        else:
            mean, variance = self.running_mean, self.running_var
        scale = (self.weight / (variance + self.eps).sqrt()).view(shape)
        return (x - mean.view(shape)) * scale + self.bias.view(shape)


# %% right: x times a factor plus a summand, in both modes
class BatchNorm(nn.Module):
    def __init__(self, channels, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x):
        axes, shape = (0, *range(2, x.ndim)), (1, -1) + (1,) * (x.ndim - 2)
        if self.training:
            variance, mean = torch.var_mean(x, dim=axes, correction=0)
            count = x.numel() // x.shape[1]
            with torch.no_grad():
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(variance * count / (count - 1), self.momentum)
                self.num_batches_tracked += 1
        else:
            mean, variance = self.running_mean, self.running_var
        scale = (self.weight / (variance + self.eps).sqrt()).view(shape)
        return x * scale + (self.bias.view(shape) - mean.view(shape) * scale)


# %% right: replaces the data of the buffers
class BatchNorm(nn.Module):
    def __init__(self, channels, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x):
        axes, shape = (0, *range(2, x.ndim)), (1, -1) + (1,) * (x.ndim - 2)
        if self.training:
            variance, mean = torch.var_mean(x, dim=axes, correction=0)
            new, old = self.momentum, 1 - self.momentum
            unbiased = x.detach().transpose(0, 1).flatten(1).var(dim=1)
            self.running_mean.data = old * self.running_mean + new * mean.detach()
            self.running_var.data = old * self.running_var + new * unbiased
            self.num_batches_tracked.data += 1
        else:
            mean, variance = self.running_mean, self.running_var
        scale = (self.weight / (variance + self.eps).sqrt()).view(shape)
        return (x - mean.view(shape)) * scale + self.bias.view(shape)


# %% right: channel by channel, stacked again
class BatchNorm(nn.Module):
    def __init__(self, channels, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x):
        axes = (0, *range(2, x.ndim))
        if self.training:
            variance, mean = torch.var_mean(x, dim=axes, correction=0)
            count = x.numel() // x.shape[1]
            with torch.no_grad():
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(variance * count / (count - 1), self.momentum)
                self.num_batches_tracked += 1
        else:
            mean, variance = self.running_mean, self.running_var
        parts = [
            (x[:, c] - mean[c]) / (variance[c] + self.eps) ** 0.5 * self.weight[c] + self.bias[c]
            for c in range(x.shape[1])
        ]
        return torch.stack(parts, dim=1)


# %% right: E[x^2] - E[x]^2, but in float64
class BatchNorm(nn.Module):
    def __init__(self, channels, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x):
        axes, shape = (0, *range(2, x.ndim)), (1, -1) + (1,) * (x.ndim - 2)
        if self.training:
            variance, mean = (t for t in (x, x))
            count = x.numel() // x.shape[1]
            w = x.double()
            mean = w.mean(axes)
            variance = (w * w).mean(axes) - mean * mean
            mean, variance = mean.to(x.dtype), variance.clamp(min=0).to(x.dtype)
            with torch.no_grad():
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(variance * count / (count - 1), self.momentum)
                self.num_batches_tracked += 1
        else:
            mean, variance = self.running_mean, self.running_var
        scale = (self.weight / (variance + self.eps).sqrt()).view(shape)
        return (x - mean.view(shape)) * scale + self.bias.view(shape)


# %% wrong: writes the result into x, in evaluation mode
class BatchNorm(nn.Module):
    def __init__(self, channels, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x):
        if self.training:
            axes = (0, *range(2, x.ndim))
            variance, mean = torch.var_mean(x, dim=axes, correction=0)
            values = x.numel() // x.shape[1]
            with torch.no_grad():
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(variance * (values / (values - 1)), self.momentum)
                self.num_batches_tracked += 1
        else:
            mean, variance = self.running_mean, self.running_var
        shape = (1, -1) + (1,) * (x.ndim - 2)
        root = (variance + self.eps).sqrt().view(shape)
        result = (x - mean.view(shape)) / root * self.weight.view(shape) + self.bias.view(shape)
        if not self.training:
            x.data.copy_(result.detach())
        return result


# %% wrong: centers x in place once the output is computed, in training
class BatchNorm(nn.Module):
    def __init__(self, channels, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x):
        if self.training:
            axes = (0, *range(2, x.ndim))
            variance, mean = torch.var_mean(x, dim=axes, correction=0)
            values = x.numel() // x.shape[1]
            with torch.no_grad():
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(variance * (values / (values - 1)), self.momentum)
                self.num_batches_tracked += 1
        else:
            mean, variance = self.running_mean, self.running_var
        shape = (1, -1) + (1,) * (x.ndim - 2)
        root = (variance + self.eps).sqrt().view(shape)
        result = (x - mean.view(shape)) / root * self.weight.view(shape) + self.bias.view(shape)
        if self.training:
            x.data.sub_(mean.detach().view(shape))
        return result


# %% wrong: a momentum of 0 becomes the default
class BatchNorm(nn.Module):
    def __init__(self, channels, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum or 0.1
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x):
        if self.training:
            axes = (0, *range(2, x.ndim))
            variance, mean = torch.var_mean(x, dim=axes, correction=0)
            values = x.numel() // x.shape[1]
            with torch.no_grad():
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(variance * (values / (values - 1)), self.momentum)
                self.num_batches_tracked += 1
        else:
            mean, variance = self.running_mean, self.running_var
        shape = (1, -1) + (1,) * (x.ndim - 2)
        root = (variance + self.eps).sqrt().view(shape)
        result = (x - mean.view(shape)) / root * self.weight.view(shape) + self.bias.view(shape)
        return result
