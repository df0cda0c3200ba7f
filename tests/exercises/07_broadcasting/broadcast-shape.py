# %% wrong: aligned at the left
def broadcast_shape(*shapes):
    longest = max(map(len, shapes))
    filled = [tuple(shape) + (1,) * (longest - len(shape)) for shape in shapes]
    result = []
    for sizes in zip(*filled, strict=False):
        others = set(sizes) - {1}
        if len(others) > 1:
            return None
        result.append(others.pop() if others else 1)
    return tuple(result)


# %% wrong: the larger size wins, whatever the other is
def broadcast_shape(*shapes):
    longest = max(map(len, shapes))
    filled = [(1,) * (longest - len(shape)) + tuple(shape) for shape in shapes]
    return tuple(max(sizes) for sizes in zip(*filled, strict=False))


# %% wrong: takes one size for a multiple of another, as tiling would
def broadcast_shape(*shapes):
    longest = max(map(len, shapes))
    filled = [(1,) * (longest - len(shape)) + tuple(shape) for shape in shapes]
    result = []
    for sizes in zip(*filled, strict=False):
        largest = max(sizes)
        if any(size == 0 or largest % size for size in sizes):
            return None
        result.append(largest)
    return tuple(result)


# %% wrong: a size of 0 loses against 1
def broadcast_shape(*shapes):
    longest = max(map(len, shapes))
    filled = [(1,) * (longest - len(shape)) + tuple(shape) for shape in shapes]
    result = []
    for sizes in zip(*filled, strict=False):
        others = {size for size in sizes if size > 1}
        if len(others) > 1:
            return None
        result.append(others.pop() if others else 1)
    return tuple(result)


# %% wrong: only the first two shapes
def broadcast_shape(*shapes):
    first, second = (*shapes, (), ())[:2]
    longest = max(len(first), len(second))
    filled = [(1,) * (longest - len(shape)) + tuple(shape) for shape in (first, second)]
    result = []
    for a, b in zip(*filled, strict=False):
        if a != b and 1 not in (a, b):
            return None
        result.append(b if a == 1 else a)
    return tuple(result)


# %% wrong: shapes of different lengths do not fit
def broadcast_shape(*shapes):
    if len(set(map(len, shapes))) > 1:
        return None
    result = []
    for sizes in zip(*shapes, strict=False):
        others = set(sizes) - {1}
        if len(others) > 1:
            return None
        result.append(others.pop() if others else 1)
    return tuple(result)


# %% wrong: never says that shapes do not fit
def broadcast_shape(*shapes):
    longest = max(map(len, shapes))
    filled = [(1,) * (longest - len(shape)) + tuple(shape) for shape in shapes]
    columns = zip(*filled, strict=True)
    return tuple(next((size for size in sizes if size != 1), 1) for sizes in columns)


# %% wrong: a list instead of a tuple
def broadcast_shape(*shapes):
    try:
        return list(torch.broadcast_shapes(*shapes))
    except RuntimeError:
        return None


# %% right: torch's own, as a tuple
def broadcast_shape(*shapes):
    try:
        return tuple(torch.broadcast_shapes(*shapes))
    except RuntimeError:
        return None


# %% right: two at a time, from the right
def broadcast_shape(*shapes):
    result = ()
    for shape in shapes:
        a, b = list(result), list(shape)
        merged = []
        while a or b:
            x = a.pop() if a else 1
            y = b.pop() if b else 1
            if x != y and x != 1 and y != 1:
                return None
            merged.append(y if x == 1 else x)
        result = tuple(reversed(merged))
    return result


# %% right: with tensors that hold nothing
def broadcast_shape(*shapes):
    try:
        return tuple(sum(torch.empty(shape, device="meta") for shape in shapes).shape)
    except RuntimeError:
        return None


# %% wrong: compares every shape with the first one only
def broadcast_shape(*shapes):
    result = tuple(shapes[0])
    for shape in shapes[1:]:
        try:
            torch.broadcast_shapes(shapes[0], shape)
        except RuntimeError:
            return None
        if len(shape) > len(result):
            result = (1,) * (len(shape) - len(result)) + result
        filled = (1,) * (len(result) - len(shape)) + tuple(shape)
        result = tuple(b if a == 1 else a for a, b in zip(result, filled, strict=True))
    return result


# %% wrong: shapes from the left once they are equally long
def broadcast_shape(*shapes):
    result = list(shapes[0])
    for shape in shapes[1:]:
        for place, size in enumerate(shape):
            if place == len(result):
                result.append(size)
            elif result[place] == 1:
                result[place] = size
            elif size not in (1, result[place]):
                return None
    return tuple(result)


# %% wrong: an error instead of None
def broadcast_shape(*shapes):
    return tuple(torch.broadcast_shapes(*shapes))


# %% wrong: a missing axis is no axis, so shorter shapes lose their ones
def broadcast_shape(*shapes):
    longest = max(map(len, shapes))
    result = []
    for k in range(1, longest + 1):
        sizes = {shape[-k] for shape in shapes if len(shape) >= k}
        if len(sizes - {1}) > 1:
            return None
        if sizes != {1}:
            result.insert(0, max(sizes - {1}))
    return tuple(result)


# %% wrong: compares neighbors only
def broadcast_shape(*shapes):
    longest = max(map(len, shapes))
    filled = [(1,) * (longest - len(shape)) + tuple(shape) for shape in shapes]
    previous = filled[0]
    for shape in filled[1:]:
        if any(a != b and 1 not in (a, b) for a, b in zip(previous, shape, strict=True)):
            return None
        previous = shape
    columns = zip(*filled, strict=True)
    return tuple(next((size for size in sizes if size != 1), 1) for sizes in columns)


# %% wrong: compares every shape with the last one only
def broadcast_shape(*shapes):
    longest = max(map(len, shapes))
    filled = [(1,) * (longest - len(shape)) + tuple(shape) for shape in shapes]
    for shape in filled:
        if any(a != b and 1 not in (a, b) for a, b in zip(shape, filled[-1], strict=True)):
            return None
    columns = zip(*filled, strict=True)
    return tuple(next((size for size in sizes if size != 1), 1) for sizes in columns)


# %% wrong: drops axes of size 1 at the beginning of the result
def broadcast_shape(*shapes):
    try:
        result = tuple(torch.broadcast_shapes(*shapes))
    except RuntimeError:
        return None
    while result and result[0] == 1:
        result = result[1:]
    return result


# %% wrong: the first three shapes only
def broadcast_shape(*shapes):
    try:
        return tuple(torch.broadcast_shapes(*shapes[:3]))
    except RuntimeError:
        return None


# %% wrong: takes two sizes of 0 for different ones
def broadcast_shape(*shapes):
    longest = max(map(len, shapes))
    result = []
    for sizes in zip(*((1,) * (longest - len(s)) + s for s in shapes), strict=True):
        others = set(sizes) - {1}
        if len(others) > 1 or sizes.count(0) > 1:
            return None
        result.append(others.pop() if others else 1)
    return tuple(result)


# %% wrong: a size of 0 fits any other that came before it
def broadcast_shape(*shapes):
    result = []
    for shape in shapes:
        for place, size in enumerate(reversed(shape)):
            if place == len(result):
                result.append(size)
            elif result[place] == 1:
                result[place] = size
            elif size > 1 and size != result[place]:
                return None
    return tuple(reversed(result))


# %% wrong: four axes at most
def broadcast_shape(*shapes):
    longest, result = max(map(len, shapes)), []
    for sizes in zip(*((1,) * (4 - len(s)) + s[-4:] for s in shapes), strict=True):
        others = set(sizes) - {1}
        if len(others) > 1:
            return None
        result.append(others.pop() if others else 1)
    return tuple(result[4 - min(longest, 4) :])


# %% wrong: an empty shape after the second makes the result empty
def broadcast_shape(*shapes):
    if () in shapes[2:]:
        return ()
    try:
        return tuple(torch.broadcast_shapes(*shapes))
    except RuntimeError:
        return None


# %% wrong: the shape of a single number if all sizes are 1
def broadcast_shape(*shapes):
    try:
        result = tuple(torch.broadcast_shapes(*shapes))
    except RuntimeError:
        return None
    return result if any(size != 1 for size in result) else ()


# %% wrong: adds real zeros, for which memory is too small, and takes any error for None
def broadcast_shape(*shapes):
    total = torch.zeros(())
    try:
        for shape in shapes:
            total = total + torch.zeros(shape)
    except RuntimeError:
        return None
    return tuple(total.shape)


# %% right: adds tensors that have no memory
def broadcast_shape(*shapes):
    total = torch.zeros((), device="meta")
    try:
        for shape in shapes:
            total = total + torch.zeros(shape, device="meta")
    except RuntimeError:
        return None
    return tuple(total.shape)


# %% right: expands views of a single number
def broadcast_shape(*shapes):
    views = [torch.zeros(()).expand(shape) for shape in shapes]
    try:
        return tuple(torch.broadcast_tensors(*views)[0].shape)
    except RuntimeError:
        return None
