# %% wrong: as it was found
def squared_error(prediction, target):
    return ((prediction - target) ** 2).mean()


# %% wrong: flattens both, whatever they are
def squared_error(prediction, target):
    return (prediction.flatten() - target.flatten()).square().mean()


# %% wrong: squeezes both, also at the front
def squared_error(prediction, target):
    if prediction.squeeze().shape != target.squeeze().shape:
        raise ValueError(f"{tuple(prediction.shape)} and {tuple(target.shape)}")
    return (prediction.squeeze() - target.squeeze()).square().mean()


# %% wrong: equal shapes only
def squared_error(prediction, target):
    if prediction.shape != target.shape:
        raise ValueError(f"{tuple(prediction.shape)} and {tuple(target.shape)}")
    return (prediction - target).square().mean()


# %% wrong: asks whether they broadcast
def squared_error(prediction, target):
    try:
        torch.broadcast_shapes(prediction.shape, target.shape)
    except RuntimeError:
        raise ValueError(f"{tuple(prediction.shape)} and {tuple(target.shape)}") from None
    return (prediction - target).square().mean()


# %% wrong: as many entries is enough
def squared_error(prediction, target):
    if prediction.numel() != target.numel():
        raise ValueError(f"{tuple(prediction.shape)} and {tuple(target.shape)}")
    return (prediction.reshape(-1) - target.reshape(-1)).square().mean()


# %% wrong: a message without the shapes
def squared_error(prediction, target):
    shapes = []
    for tensor in (prediction, target):
        shape = tuple(tensor.shape)
        while shape and shape[-1] == 1:
            shape = shape[:-1]
        shapes.append(shape)
    if shapes[0] != shapes[1]:
        raise ValueError("the shapes do not fit")
    return (prediction.reshape(target.shape) - target).square().mean()


# %% wrong: an assertion, which is another error
def squared_error(prediction, target):
    shapes = []
    for tensor in (prediction, target):
        shape = tuple(tensor.shape)
        while shape and shape[-1] == 1:
            shape = shape[:-1]
        shapes.append(shape)
    assert shapes[0] == shapes[1], f"{tuple(prediction.shape)} and {tuple(target.shape)}"
    return (prediction.reshape(target.shape) - target).square().mean()


# %% wrong: takes out one axis at the end, and no more
def squared_error(prediction, target):
    if prediction.dim() > target.dim() and prediction.shape[-1] == 1:
        prediction = prediction[..., 0]
    elif target.dim() > prediction.dim() and target.shape[-1] == 1:
        target = target[..., 0]
    if prediction.shape != target.shape:
        raise ValueError(f"{tuple(prediction.shape)} and {tuple(target.shape)}")
    return (prediction - target).square().mean()


# %% right: squeezes the last axis as long as it is 1
def squared_error(prediction, target):
    given = f"prediction {tuple(prediction.shape)}, target {tuple(target.shape)}"
    while prediction.dim() and prediction.shape[-1] == 1:
        prediction = prediction.squeeze(-1)
    while target.dim() and target.shape[-1] == 1:
        target = target.squeeze(-1)
    if prediction.shape != target.shape:
        raise ValueError(f"these do not fit: {given}")
    return functional.mse_loss(prediction, target)


# %% right: fills up the shorter one with ones at the end
def squared_error(prediction, target):
    rank = max(prediction.dim(), target.dim())
    shapes = [(*t.shape, *[1] * (rank - t.dim())) for t in (prediction, target)]
    if shapes[0] != shapes[1]:
        raise ValueError(f"{tuple(prediction.shape)} does not fit {tuple(target.shape)}")
    return (prediction.reshape(shapes[0]) - target.reshape(shapes[1])).pow(2).mean()


# %% wrong: tells the shapes without their ones
def squared_error(prediction, target):
    while prediction.dim() and prediction.shape[-1] == 1:
        prediction = prediction.squeeze(-1)
    while target.dim() and target.shape[-1] == 1:
        target = target.squeeze(-1)
    if prediction.shape != target.shape:
        raise ValueError(f"{tuple(prediction.shape)} and {tuple(target.shape)}")
    return (prediction - target).square().mean()


# %% wrong: no gradient reaches the target
def squared_error(prediction, target):
    def without_ones(shape):
        shape = tuple(shape)
        while shape and shape[-1] == 1:
            shape = shape[:-1]
        return shape

    if without_ones(prediction.shape) != without_ones(target.shape):
        raise ValueError(f"{tuple(prediction.shape)} and {tuple(target.shape)}")
    return (prediction - target.detach().reshape(prediction.shape)).square().mean()


# %% right: an exception of its own, derived from ValueError
class ShapeError(ValueError):
    def __init__(self, first, second):
        super().__init__(f"{tuple(first)} does not fit {tuple(second)}")


def squared_error(prediction, target):
    first, second = prediction.shape, target.shape
    while len(first) > 0 and first[-1] == 1:
        first = first[:-1]
    while len(second) > 0 and second[-1] == 1:
        second = second[:-1]
    if first != second:
        raise ShapeError(prediction.shape, target.shape)
    return (prediction.reshape(first) - target.reshape(second)).square().mean()


# %% wrong: mse_loss with its warning turned into an error, which allows equal numbers of axes
def squared_error(prediction, target):
    if prediction.dim() == target.dim() + 1:
        prediction = prediction.squeeze(-1)
    if prediction.dim() != target.dim():
        raise ValueError(f"{tuple(prediction.shape)} and {tuple(target.shape)}")
    return functional.mse_loss(prediction, target)


# %% wrong: no gradient reaches the prediction where the target is longer
def squared_error(prediction, target):
    def without_ones(tensor):
        while tensor.dim() and tensor.shape[-1] == 1:
            tensor = tensor[..., 0]
        return tensor

    first, second = without_ones(prediction), without_ones(target)
    if first.shape != second.shape:
        raise ValueError(f"{tuple(prediction.shape)} and {tuple(target.shape)}")
    return torch.tensor((first - second).square().mean().item())


# %% wrong: the sum over the last axis
def squared_error(prediction, target):
    first, second = tuple(prediction.shape), tuple(target.shape)
    while first and first[-1] == 1:
        first = first[:-1]
    while second and second[-1] == 1:
        second = second[:-1]
    if first != second:
        raise ValueError(f"{tuple(prediction.shape)} and {tuple(target.shape)}")
    return (prediction.reshape(first) - target.reshape(second)).square().sum() / len(prediction)


# %% wrong: leaves out axes of size 1 in the middle, too
def squared_error(prediction, target):
    shapes = [tuple(prediction.shape), tuple(target.shape)]
    shapes = [shape[:1] + tuple(size for size in shape[1:] if size != 1) for shape in shapes]
    first, second = [() if shape == (1,) else shape for shape in shapes]
    if first != second:
        raise ValueError(f"{tuple(prediction.shape)} and {tuple(target.shape)} do not fit")
    return (prediction.reshape(first) - target.reshape(first)).square().mean()


# %% wrong: never leaves out the first axis
def squared_error(prediction, target):
    first, second = tuple(prediction.shape), tuple(target.shape)
    while len(first) > 1 and first[-1] == 1:
        first = first[:-1]
    while len(second) > 1 and second[-1] == 1:
        second = second[:-1]
    if first != second:
        raise ValueError(f"{tuple(prediction.shape)} and {tuple(target.shape)} do not fit")
    return (prediction.reshape(first) - target.reshape(second)).square().mean()


# %% wrong: drops the last axes of the longer one, then lets sizes of 1 broadcast
def squared_error(prediction, target):
    first, second = prediction, target
    while first.dim() > second.dim() and first.shape[-1] == 1:
        first = first.squeeze(-1)
    while second.dim() > first.dim() and second.shape[-1] == 1:
        second = second.squeeze(-1)
    pairs = list(zip(first.shape, second.shape, strict=False))
    fit = first.dim() == second.dim() and all(a == b or 1 in (a, b) for a, b in pairs)
    if not fit or (pairs and pairs[0][0] != pairs[0][1]):
        raise ValueError(f"{tuple(prediction.shape)} and {tuple(target.shape)} do not fit")
    return (first - second).square().mean()


# %% wrong: one row for all, once the ones at the end are dropped
def squared_error(prediction, target):
    shapes = []
    for tensor in (prediction, target):
        shape = tuple(tensor.shape)
        while shape and shape[-1] == 1:
            shape = shape[:-1]
        shapes.append(shape)
    first, second = shapes
    fit = all(a == b or 1 in (a, b) for a, b in zip(first, second, strict=False))
    if len(first) != len(second) or not fit:
        raise ValueError(f"{tuple(prediction.shape)} and {tuple(target.shape)} do not fit")
    return (prediction.reshape(first) - target.reshape(second)).square().mean()


# %% wrong: the same sizes in another order are enough
def squared_error(prediction, target):
    shapes = []
    for tensor in (prediction, target):
        shape = tuple(tensor.shape)
        while shape and shape[-1] == 1:
            shape = shape[:-1]
        shapes.append(sorted(shape))
    if shapes[0] != shapes[1]:
        raise ValueError(f"{tuple(prediction.shape)} and {tuple(target.shape)} do not fit")
    return (prediction.flatten() - target.flatten()).square().mean()


# %% wrong: a single number is compared with every entry
def squared_error(prediction, target):
    shapes = []
    for tensor in (prediction, target):
        shape = tuple(tensor.shape)
        while shape and shape[-1] == 1:
            shape = shape[:-1]
        shapes.append(shape)
    if target.dim() and shapes[0] != shapes[1]:
        raise ValueError(f"{tuple(prediction.shape)} and {tuple(target.shape)} do not fit")
    return (prediction.reshape(shapes[0]) - target.reshape(shapes[1])).square().mean()


# %% wrong: two axes more at the end of the prediction, one at the end of the target
def squared_error(prediction, target):
    first, second = prediction, target
    for _ in range(2):
        if first.dim() > second.dim():
            first = first.squeeze(-1)
    if second.dim() > first.dim():
        second = second.squeeze(-1)
    if first.shape != second.shape:
        raise ValueError(f"{tuple(prediction.shape)} and {tuple(target.shape)} do not fit")
    return (first - second).square().mean()


# %% wrong: a view, which a tensor in another order in memory does not allow
def squared_error(prediction, target):
    shapes = []
    for tensor in (prediction, target):
        shape = tuple(tensor.shape)
        while shape and shape[-1] == 1:
            shape = shape[:-1]
        shapes.append(shape)
    if shapes[0] != shapes[1]:
        raise ValueError(f"{tuple(prediction.shape)} and {tuple(target.shape)} do not fit")
    return (prediction.view(-1) - target.view(-1)).square().mean()


# %% wrong: subtracts in the caller's tensor where no gradient is asked for
def squared_error(prediction, target):
    shapes = []
    for tensor in (prediction, target):
        shape = tuple(tensor.shape)
        while shape and shape[-1] == 1:
            shape = shape[:-1]
        shapes.append(shape)
    if shapes[0] != shapes[1]:
        raise ValueError(f"{tuple(prediction.shape)} and {tuple(target.shape)} do not fit")
    first, second = prediction.reshape(shapes[0]), target.reshape(shapes[0])
    if first.requires_grad or second.requires_grad:
        return (first - second).square().mean()
    return first.sub_(second).square().mean()


# %% right: compares axis by axis, a missing one counts as 1
from itertools import zip_longest


def squared_error(prediction, target):
    for first, second in zip_longest(prediction.shape, target.shape, fillvalue=1):
        if first != second:
            raise ValueError(f"{tuple(prediction.shape)} and {tuple(target.shape)} do not fit")
    difference = prediction.ravel() - target.ravel()
    return difference.dot(difference) / difference.numel()


# %% wrong: view of the prediction, which need not be contiguous
def squared_error(prediction, target):
    def drop(s):
        while s[-1:] == (1,):
            s = s[:-1]
        return s

    p, t = tuple(prediction.shape), tuple(target.shape)
    if drop(p) != drop(t):
        raise ValueError(f"{p} and {t} do not fit")
    return (prediction.view(-1) - target.reshape(-1)).square().mean()


# %% wrong: float32, whatever the dtype
def squared_error(prediction, target):
    def drop(s):
        while s[-1:] == (1,):
            s = s[:-1]
        return s

    p, t = tuple(prediction.shape), tuple(target.shape)
    if drop(p) != drop(t):
        raise ValueError(f"{p} and {t} do not fit")
    return (prediction.float().reshape(drop(p)) - target.float().reshape(drop(t))).square().mean()


# %% wrong: reckons in float32, whatever the dtype
def squared_error(prediction, target):
    shapes = []
    for tensor in (prediction, target):
        shape = list(tensor.shape)
        while shape and shape[-1] == 1:
            shape.pop()
        shapes.append(shape)
    if shapes[0] != shapes[1]:
        raise ValueError(f"{tuple(prediction.shape)} and {tuple(target.shape)} do not fit")
    difference = prediction.float().flatten() - target.float().flatten()
    return (difference**2).mean().to(prediction.dtype)


# %% wrong: the numbers are rounded to float32, and then float64 again
def squared_error(prediction, target):
    shapes = []
    for tensor in (prediction, target):
        shape = list(tensor.shape)
        while shape and shape[-1] == 1:
            shape.pop()
        shapes.append(shape)
    if shapes[0] != shapes[1]:
        raise ValueError(f"{tuple(prediction.shape)} and {tuple(target.shape)} do not fit")
    dtype = prediction.dtype
    difference = prediction.float().to(dtype).flatten() - target.float().to(dtype).flatten()
    return difference.square().mean()


# %% wrong: squeezes the last axis three times
def squared_error(prediction, target):
    p = prediction.squeeze(-1) if prediction.dim() else prediction
    t = target.squeeze(-1) if target.dim() else target
    p = p.squeeze(-1) if p.dim() else p
    t = t.squeeze(-1) if t.dim() else t
    p = p.squeeze(-1) if p.dim() else p
    t = t.squeeze(-1) if t.dim() else t
    if p.shape != t.shape:
        raise ValueError(f"{tuple(prediction.shape)} and {tuple(target.shape)} do not fit")
    return (p - t).square().mean()


# %% wrong: compares two axes and the number of entries
def squared_error(prediction, target):
    p, t = [*prediction.shape, 1, 1], [*target.shape, 1, 1]
    if p[:2] != t[:2] or prediction.numel() != target.numel():
        raise ValueError(f"{tuple(prediction.shape)} and {tuple(target.shape)} do not fit")
    return (prediction.flatten() - target.flatten()).square().mean()


# %% wrong: expands the square, which loses the digits of large numbers that are nearly equal
def squared_error(prediction, target):
    shapes = [list(tensor.shape) for tensor in (prediction, target)]
    for shape in shapes:
        while shape and shape[-1] == 1:
            shape.pop()
    if shapes[0] != shapes[1]:
        raise ValueError(f"{tuple(prediction.shape)} and {tuple(target.shape)} do not fit")
    p, t = prediction.flatten(), target.flatten()
    return (p.square() - 2 * p * t + t.square()).mean()


# %% wrong: returns the error instead of raising it
def squared_error(prediction, target):
    shapes = [list(tensor.shape) for tensor in (prediction, target)]
    for shape in shapes:
        while shape and shape[-1] == 1:
            shape.pop()
    if shapes[0] != shapes[1]:
        return ValueError(f"{tuple(prediction.shape)} and {tuple(target.shape)} do not fit")
    return (prediction.flatten() - target.flatten()).square().mean()
