# %% wrong: Adam, as in the beginning
def fit_polynomial(x, y, degree):
    columns = torch.stack([x**k for k in range(degree, -1, -1)], dim=1)
    weights = torch.zeros(degree + 1, requires_grad=True)
    optimizer = torch.optim.Adam([weights], lr=0.1)
    for _ in range(300):
        loss = functional.mse_loss(columns @ weights, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return weights.detach()


# %% wrong: the lowest power first
def fit_polynomial(x, y, degree):
    u = x.double() / x.double().abs().max()
    columns = torch.stack([u**k for k in range(degree + 1)], dim=1)
    solution = torch.linalg.lstsq(columns, y.double()[:, None]).solution.flatten()
    size = x.double().abs().max()
    return torch.stack([c / size**k for k, c in enumerate(solution)]).float()


# %% wrong: never calculates back from the scaled features
def fit_polynomial(x, y, degree):
    u = x.double() / x.double().abs().max()
    columns = torch.stack([u**k for k in range(degree, -1, -1)], dim=1)
    return torch.linalg.lstsq(columns, y.double()[:, None]).solution.flatten().float()


# %% wrong: gradient descent with a rate that is too large for long intervals
def fit_polynomial(x, y, degree):
    columns = torch.stack([x**k for k in range(degree, -1, -1)], dim=1)
    weights = torch.zeros(degree + 1)
    for _ in range(1000):
        weights = weights - 1e-3 * 2 * columns.T @ (columns @ weights - y) / len(x)
    return weights


# %% wrong: leaves the constant out
def fit_polynomial(x, y, degree):
    u = x.double() / x.double().abs().max()
    exponents = range(degree, 0, -1)
    columns = torch.stack([u**k for k in exponents] or [0 * u], dim=1)
    solution = torch.linalg.lstsq(columns, y.double()[:, None]).solution.flatten()
    size = x.double().abs().max()
    terms = [c / size**k for c, k in zip(solution, exponents, strict=False)]
    return torch.stack([*terms, torch.zeros(())]).float()


# %% wrong: the normal equations in float32, which lose digits where terms nearly cancel
def fit_polynomial(x, y, degree):
    columns = torch.stack([x**k for k in range(degree, -1, -1)], dim=1)
    return torch.linalg.solve(columns.T @ columns, columns.T @ y)


# %% wrong: the normal equations in float32, of scaled features
def fit_polynomial(x, y, degree):
    size = x.abs().max()
    columns = torch.stack([(x / size) ** k for k in range(degree, -1, -1)], dim=1)
    weights = torch.linalg.solve(columns.T @ columns, columns.T @ y)
    return weights / size ** torch.arange(degree, -1, -1)


# %% wrong: divides by a fixed 10, good for this chapter's curve alone, and descends
def fit_polynomial(x, y, degree):
    exponents = range(degree, -1, -1)
    columns = torch.stack([(x / 10) ** k for k in exponents], dim=1)
    weights = torch.zeros(degree + 1)
    for _ in range(500):
        weights = weights - 0.4 * 2 * columns.T @ (columns @ weights - y) / len(x)
    return torch.stack([w / 10.0**k for w, k in zip(weights, exponents, strict=True)])


# %% wrong: a float64 tensor comes back
def fit_polynomial(x, y, degree):
    columns = torch.stack([x.double() ** k for k in range(degree, -1, -1)], dim=1)
    return torch.linalg.lstsq(columns, y.double()[:, None]).solution.flatten()


# %% right: the normal equations in float64, of scaled features
def fit_polynomial(x, y, degree):
    size = x.double().abs().max()
    columns = torch.stack([(x.double() / size) ** k for k in range(degree, -1, -1)], dim=1)
    solution = torch.linalg.solve(columns.T @ columns, columns.T @ y.double())
    sizes = torch.tensor([float(size) ** k for k in range(degree, -1, -1)], dtype=torch.float64)
    return (solution / sizes).float()


# %% right: NumPy's own polynomial fit
def fit_polynomial(x, y, degree):
    polynomial = np.polynomial.Polynomial.fit(x.double().numpy(), y.double().numpy(), degree)
    coefficients = polynomial.convert().coef
    padded = np.zeros(degree + 1)
    padded[: len(coefficients)] = coefficients
    return torch.from_numpy(padded[::-1].copy()).float()


# %% right: least squares in float64 without any scaling
def fit_polynomial(x, y, degree):
    columns = torch.stack([x.double() ** k for k in range(degree, -1, -1)], dim=1)
    return torch.linalg.lstsq(columns, y.double()[:, None]).solution.flatten().float()


# %% wrong: always a parabola
def fit_polynomial(x, y, degree):
    columns = torch.stack([x.double() ** 2, x.double(), torch.ones_like(x).double()], dim=1)
    return torch.linalg.lstsq(columns, y.double()[:, None]).solution.flatten().float()


# %% wrong: a column, not a vector
def fit_polynomial(x, y, degree):
    columns = torch.stack([x.double() ** k for k in range(degree, -1, -1)], dim=1)
    return torch.linalg.lstsq(columns, y.double()[:, None]).solution.float()


# %% wrong: the coefficients rounded to two places
def fit_polynomial(x, y, degree):
    columns = torch.stack([x.double() ** k for k in range(degree, -1, -1)], dim=1)
    solution = torch.linalg.lstsq(columns, y.double()[:, None]).solution.flatten()
    return solution.float().round(decimals=2)


# %% wrong: penalizes large coefficients a little
def fit_polynomial(x, y, degree):
    columns = torch.stack([x.double() ** k for k in range(degree, -1, -1)], dim=1)
    penalty = 0.5 * torch.eye(degree + 1, dtype=torch.float64)
    return torch.linalg.solve(columns.T @ columns + penalty, columns.T @ y.double()).float()


# %% wrong: scales x to -1 to 1 with an offset, and forgets the offset afterwards
def fit_polynomial(x, y, degree):
    low, high = x.double().min(), x.double().max()
    u = (2 * x.double() - low - high) / (high - low)
    columns = torch.stack([u**k for k in range(degree, -1, -1)], dim=1)
    solution = torch.linalg.lstsq(columns, y.double()[:, None]).solution.flatten()
    exponents = range(degree, -1, -1)
    return torch.stack(
        [c / ((high - low) / 2) ** k for c, k in zip(solution, exponents, strict=True)]
    ).float()


# %% right: L-BFGS in float64, with scaled features and targets
def fit_polynomial(x, y, degree):
    size, height = x.double().abs().max(), y.double().abs().max()
    exponents = range(degree, -1, -1)
    columns = torch.stack([(x.double() / size) ** k for k in exponents], dim=1)
    weights = torch.zeros(degree + 1, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS(
        [weights],
        max_iter=300,
        tolerance_grad=1e-12,
        tolerance_change=1e-15,
        line_search_fn="strong_wolfe",
    )

    def closure():
        optimizer.zero_grad()
        loss = functional.mse_loss(columns @ weights, y.double() / height)
        loss.backward()
        return loss

    optimizer.step(closure)
    terms = zip(weights.detach(), exponents, strict=True)
    return torch.stack([w * height / size**k for w, k in terms]).float()


# %% wrong: divides x by its largest value, which may be 0
def fit_polynomial(x, y, degree):
    scale = x.double().max()
    exponents = range(degree, -1, -1)
    columns = torch.stack([(x.double() / scale) ** k for k in exponents], dim=1)
    solution = torch.linalg.lstsq(columns, y.double()[:, None]).solution[:, 0]
    return torch.stack([c / scale**k for c, k in zip(solution, exponents, strict=True)]).float()


# %% wrong: scales x and y in place
def fit_polynomial(x, y, degree):
    x_size, y_size = x.abs().max().item(), y.abs().max().item()
    x /= x_size
    y /= y_size
    exponents = range(degree, -1, -1)
    columns = torch.stack([x.double() ** k for k in exponents], dim=1)
    solution = torch.linalg.lstsq(columns, y.double()[:, None]).solution[:, 0]
    return torch.stack(
        [c * y_size / x_size**k for c, k in zip(solution, exponents, strict=True)]
    ).float()


# %% right: the second repair: L-BFGS in float32, with scaled features and targets
def fit_polynomial(x, y, degree):
    x_size, y_size = x.abs().max(), y.abs().max()
    exponents = range(degree, -1, -1)
    columns = torch.stack([(x / x_size) ** k for k in exponents], dim=1)
    weights = torch.zeros(degree + 1, requires_grad=True)
    optimizer = torch.optim.LBFGS(
        [weights],
        max_iter=500,
        tolerance_grad=1e-12,
        tolerance_change=1e-14,
        line_search_fn="strong_wolfe",
    )

    def closure():
        optimizer.zero_grad()
        loss = functional.mse_loss(columns @ weights, y / y_size)
        loss.backward()
        return loss

    for _ in range(5):
        optimizer.step(closure)
    scales = torch.stack([x_size**k for k in exponents])
    return weights.detach() * y_size / scales


# %% wrong: gradient descent with scaled features, stopped after 30 steps
def fit_polynomial(x, y, degree):
    x_size, y_size = x.abs().max(), y.abs().max()
    exponents = range(degree, -1, -1)
    columns = torch.stack([(x / x_size) ** k for k in exponents], dim=1)
    weights = torch.zeros(degree + 1)
    for _ in range(30):
        slope = 2 * columns.T @ (columns @ weights - y / y_size) / len(x)
        weights = weights - 0.4 * slope
    return weights * y_size / torch.stack([x_size**k for k in exponents])


# %% wrong: gradient descent with scaled features, up the slope
def fit_polynomial(x, y, degree):
    x_size, y_size = x.abs().max(), y.abs().max()
    exponents = range(degree, -1, -1)
    columns = torch.stack([(x / x_size) ** k for k in exponents], dim=1)
    weights = torch.zeros(degree + 1)
    for _ in range(200):
        slope = 2 * columns.T @ (columns @ weights - y / y_size) / len(x)
        weights = weights + 0.01 * slope
    return weights * y_size / torch.stack([x_size**k for k in exponents])


# %% wrong: gradient descent on the sum of the squares, with a rate for their mean
def fit_polynomial(x, y, degree):
    x_size, y_size = x.abs().max(), y.abs().max()
    exponents = range(degree, -1, -1)
    columns = torch.stack([(x / x_size) ** k for k in exponents], dim=1)
    weights = torch.zeros(degree + 1)
    for _ in range(500):
        slope = 2 * columns.T @ (columns @ weights - y / y_size)
        weights = weights - 0.4 * slope
    return weights * y_size / torch.stack([x_size**k for k in exponents])


# %% wrong: gradient descent on the mean of the squares, with a rate for their sum
def fit_polynomial(x, y, degree):
    x_size, y_size = x.abs().max(), y.abs().max()
    exponents = range(degree, -1, -1)
    columns = torch.stack([(x / x_size) ** k for k in exponents], dim=1)
    weights = torch.zeros(degree + 1)
    for _ in range(500):
        slope = 2 * columns.T @ (columns @ weights - y / y_size) / len(x)
        weights = weights - 0.005 * slope
    return weights * y_size / torch.stack([x_size**k for k in exponents])


# %% wrong: the constant is the y of the smallest |x|, as if that were 0
def fit_polynomial(x, y, degree):
    constant = y[x.abs().argmin()]
    away = x != 0
    exponents = range(degree - 1, -1, -1)
    columns = [x[away].double() ** k for k in exponents]
    if not columns:
        return constant[None].clone()
    target = ((y[away] - constant) / x[away]).double()
    solution = torch.linalg.lstsq(torch.stack(columns, dim=1), target[:, None]).solution[:, 0]
    return torch.cat([solution.float(), constant[None]])


# %% wrong: divides x by its smallest value, which may be 0
def fit_polynomial(x, y, degree):
    scale = -x.double().min()
    exponents = range(degree, -1, -1)
    columns = torch.stack([(x.double() / scale) ** k for k in exponents], dim=1)
    solution = torch.linalg.lstsq(columns, y.double()[:, None]).solution[:, 0]
    return torch.stack([c / scale**k for c, k in zip(solution, exponents, strict=True)]).float()


# %% wrong: sorts x and y in place
def fit_polynomial(x, y, degree):
    order = x.argsort()
    x.copy_(x[order].clone())
    y.copy_(y[order].clone())
    columns = torch.stack([x.double() ** k for k in range(degree, -1, -1)], dim=1)
    return torch.linalg.lstsq(columns, y.double()[:, None]).solution[:, 0].float()


# %% wrong: least squares in float32, with x divided by a fixed 10
def fit_polynomial(x, y, degree):
    exponents = torch.arange(degree, -1, -1)
    columns = (x[:, None] / 10) ** exponents
    return torch.linalg.lstsq(columns, y[:, None]).solution[:, 0] / 10.0**exponents


# %% wrong: a penalty that is tiny only against long intervals
def fit_polynomial(x, y, degree):
    columns = torch.vander(x.double(), degree + 1)
    penalty = 1e-6 * torch.eye(degree + 1, dtype=torch.float64)
    return torch.linalg.solve(columns.T @ columns + penalty, columns.T @ y.double()).float()


# %% wrong: L-BFGS with scaled features alone, whose tolerances are too large for a tiny y
def fit_polynomial(x, y, degree):
    size = x.abs().max()
    columns = torch.vander(x / size, degree + 1)
    weights = torch.zeros(degree + 1, requires_grad=True)
    optimizer = torch.optim.LBFGS([weights], max_iter=100, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = functional.mse_loss(columns @ weights, y)
        loss.backward()
        return loss

    optimizer.step(closure)
    return weights.detach() / size ** torch.arange(degree, -1, -1)


# %% wrong: through as few points as there are coefficients, which may be the same point
def fit_polynomial(x, y, degree):
    chosen = torch.linspace(0, len(x) - 1, degree + 1).long()
    columns = torch.vander(x[chosen].double(), degree + 1)
    return torch.linalg.solve(columns, y[chosen].double()).float()


# %% wrong: only the first ten points, which may be few values of x
def fit_polynomial(x, y, degree):
    size = x.abs().max().double()
    columns = torch.vander(x[:10].double() / size, degree + 1)
    solution = torch.linalg.lstsq(columns, y[:10, None].double()).solution[:, 0]
    return (solution / size ** torch.arange(degree, -1, -1)).float()


# %% wrong: scales x in place and back, which rounds
def fit_polynomial(x, y, degree):
    size = x.abs().max()
    x.div_(size)
    columns = torch.vander(x.double(), degree + 1)
    solution = torch.linalg.lstsq(columns, y.double()[:, None]).solution[:, 0]
    x.mul_(size)
    return (solution / size.double() ** torch.arange(degree, -1, -1)).float()


# %% right: requires what the card promises
def fit_polynomial(x, y, degree):
    assert x.unique().numel() >= 50
    assert y.any()
    assert 0.05 < x.abs().max() < 101
    assert x.min() <= 0 <= x.max()
    columns = torch.vander(x.double(), degree + 1)
    sizes = columns.norm(dim=0)
    solution = torch.linalg.lstsq(columns / sizes, y.double()[:, None]).solution[:, 0]
    return (solution / sizes).float()


# %% wrong: gradient descent with scaled features, too few steps where 0 lies near an end
def fit_polynomial(x, y, degree):
    x_size, y_size = x.abs().max(), y.abs().max()
    columns = torch.vander(x / x_size, degree + 1)
    weights = torch.zeros(degree + 1)
    for _ in range(2000):
        slope = 2 * columns.T @ (columns @ weights - y / y_size) / len(x)
        weights = weights - 0.5 * slope
    return weights * y_size / x_size ** torch.arange(degree, -1, -1)


# %% wrong: L-BFGS in float32 with torch's tolerances, at which terms that hardly count are wrong
def fit_polynomial(x, y, degree):
    x_size, y_size = x.abs().max(), y.abs().max()
    columns = torch.vander(x / x_size, degree + 1)
    weights = torch.zeros(degree + 1, requires_grad=True)
    optimizer = torch.optim.LBFGS([weights], max_iter=100, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = functional.mse_loss(columns @ weights, y / y_size)
        loss.backward()
        return loss

    optimizer.step(closure)
    return weights.detach() * y_size / x_size ** torch.arange(degree, -1, -1)


# %% wrong: only the first fifty points, which may be one value of x
def fit_polynomial(x, y, degree):
    columns = torch.stack([x[:50].double() ** k for k in range(degree, -1, -1)], dim=1)
    return torch.linalg.lstsq(columns, y[:50, None].double()).solution.flatten().float()


# %% wrong: y is scaled by its largest value, which may be 0 where no y is positive
def fit_polynomial(x, y, degree):
    scale, top = x.abs().max().double(), y.max().double()
    columns = torch.stack([(x.double() / scale) ** k for k in range(degree, -1, -1)], dim=1)
    found = torch.linalg.lstsq(columns, (y.double() / top)[:, None]).solution[:, 0] * top
    return (found / scale ** torch.arange(degree, -1, -1)).float()


# %% wrong: x is scaled by its first value, which may be 0
def fit_polynomial(x, y, degree):
    scale = x[0].double()
    columns = torch.stack([(x.double() / scale) ** k for k in range(degree, -1, -1)], dim=1)
    found = torch.linalg.lstsq(columns, y.double()[:, None]).solution[:, 0]
    return (found / scale ** torch.arange(degree, -1, -1)).float()
