# %% wrong: the one-sided difference
def difference_errors(f, x, steps):
    slope = derivative(f, x)
    return [((f(x + h) - f(x)) / h - slope).abs().max().item() for h in steps]


# %% wrong: divides by h and not by 2 h
def difference_errors(f, x, steps):
    slope = derivative(f, x)
    return [((f(x + h) - f(x - h)) / h - slope).abs().max().item() for h in steps]


# %% wrong: the mean error, not the largest
def difference_errors(f, x, steps):
    slope = derivative(f, x)
    return [((f(x + h) - f(x - h)) / (2 * h) - slope).abs().mean().item() for h in steps]


# %% wrong: the largest error with its sign
def difference_errors(f, x, steps):
    slope = derivative(f, x)
    return [((f(x + h) - f(x - h)) / (2 * h) - slope).max().item() for h in steps]


# %% wrong: relative errors, not absolute ones
def difference_errors(f, x, steps):
    slope = derivative(f, x)
    return [(((f(x + h) - f(x - h)) / (2 * h) - slope) / slope).abs().max().item() for h in steps]


# %% wrong: the sum of all errors
def difference_errors(f, x, steps):
    slope = derivative(f, x)
    return [((f(x + h) - f(x - h)) / (2 * h) - slope).abs().sum().item() for h in steps]


# %% wrong: halves the step, h is the whole way
def difference_errors(f, x, steps):
    slope = derivative(f, x)
    return [((f(x + h / 2) - f(x - h / 2)) / h - slope).abs().max().item() for h in steps]


# %% wrong: sorts the steps before it starts
def difference_errors(f, x, steps):
    slope = derivative(f, x)
    return [
        ((f(x + h) - f(x - h)) / (2 * h) - slope).abs().max().item()
        for h in sorted(steps, reverse=True)
    ]


# %% wrong: never uses a step below 1e-6
def difference_errors(f, x, steps):
    slope = derivative(f, x)
    steps = [max(h, 1e-6) for h in steps]
    return [((f(x + h) - f(x - h)) / (2 * h) - slope).abs().max().item() for h in steps]


# %% right: without derivative, in a loop
def difference_errors(f, x, steps):
    leaf = x.detach().clone().requires_grad_(True)
    slope = torch.autograd.grad(f(leaf).sum(), leaf)[0]
    errors = []
    for h in steps:
        difference = f(x + h) / (2 * h) - f(x - h) / (2 * h)
        errors.append(float(torch.max(torch.abs(slope - difference))))
    return errors


# %% right: all steps at once
def difference_errors(f, x, steps):
    if not steps:
        return []
    h = torch.tensor(steps, dtype=x.dtype)[:, None]
    difference = (f(x + h) - f(x - h)) / (2 * h)
    return (difference - derivative(f, x)).abs().amax(dim=1).tolist()


# %% wrong: steps that grow with x
def difference_errors(f, x, steps):
    slope = derivative(f, x)
    return [((f(x + h * x) - f(x - h * x)) / (2 * h * x) - slope).abs().max().item() for h in steps]


# %% wrong: the differences in float32
def difference_errors(f, x, steps):
    slope = derivative(f, x)
    x = x.float()
    return [((f(x + h) - f(x - h)) / (2 * h) - slope).abs().max().item() for h in steps]


# %% wrong: tensors instead of floats
def difference_errors(f, x, steps):
    slope = derivative(f, x)
    return [((f(x + h) - f(x - h)) / (2 * h) - slope).abs().max() for h in steps]


# %% wrong: leaves out the steps that are far too small
def difference_errors(f, x, steps):
    slope = derivative(f, x)
    return [((f(x + h) - f(x - h)) / (2 * h) - slope).abs().max().item() for h in steps if h > 1e-8]


# %% wrong: one entry after another, with a plain maximum, which loses a nan
def difference_errors(f, x, steps):
    slope = derivative(f, x).tolist()
    errors = []
    for h in steps:
        found = ((f(x + h) - f(x - h)) / (2 * h)).tolist()
        errors.append(max(abs(d - s) for d, s in zip(found, slope, strict=True)))
    return errors


# %% wrong: one result for each distinct step
def difference_errors(f, x, steps):
    slope = derivative(f, x)
    return [
        ((f(x + h) - f(x - h)) / (2 * h) - slope).abs().max().item() for h in dict.fromkeys(steps)
    ]


# %% wrong: an error of 1 by decree where the step is far too small
def difference_errors(f, x, steps):
    slope = derivative(f, x)
    return [
        ((f(x + h) - f(x - h)) / (2 * h) - slope).abs().max().item() if h > 1e-12 else 1.0
        for h in steps
    ]


# %% wrong: rounded to ten places
def difference_errors(f, x, steps):
    slope = derivative(f, x)
    return [round(((f(x + h) - f(x - h)) / (2 * h) - slope).abs().max().item(), 10) for h in steps]


# %% wrong: compared with a difference of five points
def difference_errors(f, x, steps):
    k = 1e-3
    slope = (f(x - 2 * k) - 8 * f(x - k) + 8 * f(x + k) - f(x + 2 * k)) / (12 * k)
    return [((f(x + h) - f(x - h)) / (2 * h) - slope).abs().max().item() for h in steps]


# %% wrong: empties the list of steps
def difference_errors(f, x, steps):
    slope, errors = derivative(f, x), []
    while steps:
        h = steps.pop(0)
        errors.append(((f(x + h) - f(x - h)) / (2 * h) - slope).abs().max().item())
    return errors


# %% wrong: x drifts, in place
def difference_errors(f, x, steps):
    errors, slope = [], derivative(f, x)
    for h in steps:
        right = f(x.add_(h))
        left = f(x.sub_(2 * h))
        x.add_(h * (1 + 1e-6))
        errors.append(((right - left) / (2 * h) - slope).abs().max().item())
    return errors


# %% wrong: x requires a gradient afterwards
def difference_errors(f, x, steps):
    x.requires_grad_(True)
    (slope,) = torch.autograd.grad(f(x).sum(), x)
    return [((f(x + h) - f(x - h)) / (2 * h) - slope).abs().max().item() for h in steps]


# %% wrong: x.grad is left behind
def difference_errors(f, x, steps):
    x.requires_grad_(True)
    f(x).sum().backward()
    x.requires_grad_(False)
    return [((f(x + h) - f(x - h)) / (2 * h) - x.grad).abs().max().item() for h in steps]


# %% wrong: x walks to both sides and back, in place
def difference_errors(f, x, steps):
    errors, slope = [], derivative(f, x)
    for h in steps:
        x += h
        right = f(x).clone()
        x -= 2 * h
        left = f(x).clone()
        x += h
        errors.append(((right - left) / (2 * h) - slope).abs().max().item())
    return errors


# %% wrong: never uses a step below 1e-9
def difference_errors(f, x, steps):
    slope = derivative(f, x)
    steps = [max(h, 1e-9) for h in steps]
    return [((f(x + h) - f(x - h)) / (2 * h) - slope).abs().max().item() for h in steps]


# %% wrong: leaves out a step that is smaller than the spacing of float64
def difference_errors(f, x, steps):
    slope = derivative(f, x)
    return [
        ((f(x + h) - f(x - h)) / (2 * h) - slope).abs().max().item() for h in steps if h > 1e-15
    ]


# %% wrong: divides by the distance of the rounded points, which may be 0
def difference_errors(f, x, steps):
    slope = derivative(f, x)
    errors = []
    for h in steps:
        after, before = x + h, x - h
        errors.append(((f(after) - f(before)) / (after - before) - slope).abs().max().item())
    return errors


# %% right: all steps at once, a row for each
def difference_errors(f, x, steps):
    rows = torch.tensor(steps, dtype=torch.float64)[:, None]
    central = (f(x + rows) - f(x - rows)) / (2 * rows)
    return (central - derivative(f, x)).abs().amax(dim=1).tolist()


# %% wrong: rounded to twelve places
def difference_errors(f, x, steps):
    slope = derivative(f, x)
    return [round(((f(x + h) - f(x - h)) / (2 * h) - slope).abs().max().item(), 12) for h in steps]


# %% wrong: a running maximum that begins with 0 and never sees a nan
def difference_errors(f, x, steps):
    slope, errors = derivative(f, x).tolist(), []
    for h in steps:
        worst = 0.0
        for got, exact in zip(((f(x + h) - f(x - h)) / (2 * h)).tolist(), slope, strict=True):
            worst = max(worst, abs(got - exact))
        errors.append(worst)
    return errors


# %% wrong: nan and inf are replaced by ordinary numbers
def difference_errors(f, x, steps):
    slope = derivative(f, x)
    errors = [((f(x + h) - f(x - h)) / (2 * h) - slope).abs() for h in steps]
    return [error.nan_to_num().max().item() for error in errors]


# %% wrong: only a nan is replaced, by 0
def difference_errors(f, x, steps):
    slope = derivative(f, x)
    errors = [((f(x + h) - f(x - h)) / (2 * h) - slope).abs() for h in steps]
    return [torch.where(error.isnan(), 0.0, error).max().item() for error in errors]


# %% right: NumPy's maximum, of a quotient for each side
def difference_errors(f, x, steps):
    slope = derivative(f, x).numpy()
    errors = []
    for h in steps:
        after, before = (f(x + step).numpy() / (2 * h) for step in (h, -h))
        errors.append(float(np.max(np.abs(after - before - slope))))
    return errors


# %% right: the norm of order inf
def difference_errors(f, x, steps):
    slope = derivative(f, x)
    gaps = [(f(x + h) - f(x - h)) / (2 * h) - slope for h in steps]
    return [torch.linalg.vector_norm(gap, ord=math.inf).item() for gap in gaps]


# %% wrong: Python's max, which loses the nan of one entry
def difference_errors(f, x, steps):
    exact = derivative(f, x)
    return [max(((f(x + h) - f(x - h)) / (2 * h) - exact).abs().tolist()) for h in steps]


# %% wrong: compares the sizes of difference and derivative, whatever their signs
def difference_errors(f, x, steps):
    leaf = x.detach().clone().requires_grad_(True)
    (slope,) = torch.autograd.grad(f(leaf).sum(), leaf)
    differences = [(f(x + h) - f(x - h)) / (2 * h) for h in steps]
    return [(each.abs() - slope.abs()).abs().max().item() for each in differences]
