# %% wrong: the sum of f is its derivative
def derivative(f, x):
    return f(x).sum()


# %% wrong: a central difference
def derivative(f, x):
    return (f(x + 1e-4) - f(x - 1e-4)) / 2e-4


# %% wrong: the mean, which divides every slope by the number of entries
def derivative(f, x):
    leaf = x.detach().clone().requires_grad_(True)
    return torch.autograd.grad(f(leaf).mean(), leaf)[0]


# %% wrong: one number for all entries
def derivative(f, x):
    leaf = x.detach().clone().requires_grad_(True)
    return torch.autograd.grad(f(leaf).sum(), leaf)[0].sum()


# %% wrong: flattens what comes back
def derivative(f, x):
    leaf = x.detach().flatten().requires_grad_(True)
    return torch.autograd.grad(f(leaf).sum(), leaf)[0]


# %% wrong: everything in float32
def derivative(f, x):
    leaf = x.detach().float().requires_grad_(True)
    return torch.autograd.grad(f(leaf).sum(), leaf)[0].to(x.dtype)


# %% wrong: the derivative of f(f(x))
def derivative(f, x):
    leaf = x.detach().clone().requires_grad_(True)
    return torch.autograd.grad(f(f(leaf)).sum(), leaf)[0]


# %% wrong: by backward on x itself, whose grad then changes
def derivative(f, x):
    x.requires_grad_(True)
    f(x).sum().backward()
    return x.grad


# %% wrong: what comes back keeps a graph
def derivative(f, x):
    leaf = x.clone().requires_grad_(True)
    return torch.autograd.grad(f(leaf).sum(), leaf, create_graph=True)[0]


# %% right: backward on a leaf of its own
def derivative(f, x):
    leaf = x.detach().clone().requires_grad_()
    f(leaf).sum().backward()
    return leaf.grad


# %% right: the gradient of the output is given as ones
def derivative(f, x):
    leaf = x.detach().clone().requires_grad_(True)
    y = f(leaf)
    return torch.autograd.grad(y, leaf, grad_outputs=torch.ones_like(y))[0]


# %% right: one entry after another
def derivative(f, x):
    slopes = []
    for entry in x.detach().reshape(-1):
        leaf = entry.clone().requires_grad_(True)
        slopes.append(torch.autograd.grad(f(leaf), leaf)[0])
    return torch.stack(slopes).reshape(x.shape)


# %% wrong: x itself begins to require a gradient
def derivative(f, x):
    x.requires_grad_(True)
    return torch.autograd.grad(f(x).sum(), x)[0]


# %% wrong: x no longer requires a gradient
def derivative(f, x):
    leaf = x.requires_grad_(False).clone().requires_grad_(True)
    return torch.autograd.grad(f(leaf).sum(), leaf)[0]


# %% wrong: on x itself, whose gradient is cleared before and after
def derivative(f, x):
    needed = x.requires_grad
    x.requires_grad_(True)
    x.grad = None
    f(x).sum().backward()
    slope, x.grad = x.grad, None
    x.requires_grad_(needed)
    return slope


# %% right: on x itself, and all is put back
def derivative(f, x):
    needed = x.requires_grad
    x.requires_grad_(True)
    (slope,) = torch.autograd.grad(f(x).sum(), x)
    x.requires_grad_(needed)
    return slope


# %% right: by a dual number, forwards
def derivative(f, x):
    place = x.detach()
    return torch.func.jvp(f, (place,), (torch.ones_like(place),))[1]


# %% wrong: moves x a little, in place
def derivative(f, x):
    slope = torch.autograd.grad(f(leaf := x.detach().clone().requires_grad_(True)).sum(), leaf)[0]
    with torch.no_grad():
        x.add_(1e-3)
    return slope


# %% wrong: the diagonal of the Jacobian, which is right for vectors alone
def derivative(f, x):
    return torch.autograd.functional.jacobian(f, x.detach()).diagonal()


# %% wrong: clears x.grad, which it does not use
def derivative(f, x):
    x.grad = None
    leaf = x.detach().clone().requires_grad_(True)
    return torch.autograd.grad(f(leaf).sum(), leaf)[0]


# %% wrong: a numpy array comes back
def derivative(f, x):
    leaf = x.detach().clone().requires_grad_(True)
    return torch.autograd.grad(f(leaf).sum(), leaf)[0].numpy()


# %% right: vmap of grad over the flattened entries
def derivative(f, x):
    flat = torch.func.vmap(torch.func.grad(f))(x.detach().reshape(-1))
    return flat.reshape(x.shape)


# %% wrong: a graph is attached to what comes back, by way of a leaf of its own
def derivative(f, x):
    leaf = x.detach().clone().requires_grad_(True)
    return torch.autograd.grad(f(leaf).sum(), leaf, create_graph=True)[0].requires_grad_(True)


# %% wrong: what comes back requires a gradient
def derivative(f, x):
    leaf = x.detach().clone().requires_grad_(True)
    return torch.autograd.grad(f(leaf).sum(), leaf)[0].requires_grad_(True)


# %% wrong: a difference of five points, which is exact for polynomials
def derivative(f, x):
    x, h = x.detach(), 1e-3
    return (f(x - 2 * h) - 8 * f(x - h) + 8 * f(x + h) - f(x + 2 * h)) / (12 * h)


# %% wrong: a complex step, which |x| does not survive
def derivative(f, x):
    return f(x.detach() + 1e-30j).imag / 1e-30


# %% wrong: x.grad holds zeros where there was none
def derivative(f, x):
    leaf = x.detach().clone().requires_grad_(True)
    slope = torch.autograd.grad(f(leaf).sum(), leaf)[0]
    if x.grad is None:
        x.grad = torch.zeros_like(x)
    return slope


# %% wrong: only for an x whose memory is contiguous
def derivative(f, x):
    leaf = x.detach().view(-1).clone().requires_grad_(True)
    return torch.autograd.grad(f(leaf).sum(), leaf)[0].view(x.shape)


# %% wrong: x no longer requires a gradient, and the result is right
def derivative(f, x):
    leaf = x.detach().clone().requires_grad_(True)
    (slope,) = torch.autograd.grad(f(leaf).sum(), leaf)
    x.requires_grad_(False)
    return slope


# %% wrong: dimensions of length 1 are gone
def derivative(f, x):
    leaf = x.detach().clone().requires_grad_(True)
    (slope,) = torch.autograd.grad(f(leaf).sum(), leaf)
    return slope.squeeze()


# %% wrong: clips large slopes
def derivative(f, x):
    leaf = x.detach().clone().requires_grad_(True)
    (slope,) = torch.autograd.grad(f(leaf).sum(), leaf)
    return slope.clamp(-1e4, 1e4)


# %% right: the pullback of ones
def derivative(f, x):
    output, pull_back = torch.func.vjp(f, x.detach())
    return pull_back(torch.ones_like(output))[0].detach()


# %% wrong: x itself moves to where the derivative was asked for again
def derivative(f, x):
    leaf = x.detach().clone().requires_grad_(True)
    (slope,) = torch.autograd.grad(f(leaf).sum(), leaf)
    if not x.requires_grad:
        x.copy_(slope)
    return slope


# %% wrong: makes a copy only of a leaf, and goes on into what another x was computed from
def derivative(f, x):
    leaf = x.detach().clone() if x.is_leaf else x.clone()
    if not leaf.requires_grad:
        leaf.requires_grad_(True)
    leaf.retain_grad()
    f(leaf).sum().backward()
    return leaf.grad.detach()


# %% wrong: without detach, so that the copy of an x that requires a gradient keeps none
def derivative(f, x):
    z = x.clone().requires_grad_()
    f(z).sum().backward()
    return z.grad
