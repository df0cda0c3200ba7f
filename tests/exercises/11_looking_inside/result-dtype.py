# %% wrong: promotes all of them alike
def result_dtype(operands):
    numbers = {"bool": torch.bool, "int": torch.int64, "float": torch.float32}
    result = None
    for kind, name in operands:
        dtype = numbers[name] if kind == "number" else getattr(torch, name)
        result = dtype if result is None else torch.promote_types(result, dtype)
    return str(result).removeprefix("torch.")


# %% wrong: the first operand decides
def result_dtype(operands):
    kind, name = operands[0]
    return {"int": "int64", "float": "float32"}.get(name, name) if kind == "number" else name


# %% wrong: numbers never change anything
def result_dtype(operands):
    tensors = [getattr(torch, name) for kind, name in operands if kind != "number"]
    if not tensors:
        return {"bool": "bool", "int": "int64", "float": "float32"}[operands[0][1]]
    result = tensors[0]
    for dtype in tensors[1:]:
        result = torch.promote_types(result, dtype)
    return str(result).removeprefix("torch.")


# %% wrong: a tensor without axes counts as much as one with
def result_dtype(operands):
    made = [
        {"bool": True, "int": 1, "float": 1.0}[name]
        if kind == "number"
        else torch.ones(1, dtype=getattr(torch, name))
        for kind, name in operands
    ]
    tensors = [m for m in made if isinstance(m, torch.Tensor)]
    result = None
    for tensor in tensors:
        result = tensor.dtype if result is None else torch.promote_types(result, tensor.dtype)
    for number in made:
        if not isinstance(number, torch.Tensor):
            anchor = number if result is None else torch.ones(1, dtype=result)
            result = torch.result_type(anchor, number)
    return str(result).removeprefix("torch.")


# %% wrong: the larger of the two sizes
def result_dtype(operands):
    numbers = {"bool": torch.bool, "int": torch.int64, "float": torch.float32}
    dtypes = [numbers[n] if kind == "number" else getattr(torch, n) for kind, n in operands]
    return str(max(dtypes, key=lambda d: d.itemsize)).removeprefix("torch.")


# %% wrong: only tensors with axes count, if there are any
def result_dtype(operands):
    numbers = {"bool": torch.bool, "int": torch.int64, "float": torch.float32}
    for level in ("axes", "point", "number"):
        here = [
            numbers[n] if level == "number" else getattr(torch, n)
            for k, n in operands
            if k == level
        ]
        if here:
            result = here[0]
            for dtype in here[1:]:
                result = torch.promote_types(result, dtype)
            return str(result).removeprefix("torch.")


# %% wrong: adds up from left to right
def result_dtype(operands):
    def made(kind, name):
        if kind == "number":
            return {"bool": True, "int": 1, "float": 1.0}[name]
        return torch.ones((1,) if kind == "axes" else (), dtype=getattr(torch, name))

    total = made(*operands[0])
    for operand in operands[1:]:
        total = total + made(*operand)
    if not isinstance(total, torch.Tensor):
        total = torch.tensor(total)
    return str(total.dtype).removeprefix("torch.")


# %% right: level by level with small tensors, and the library decides between levels
def result_dtype(operands):
    numbers = {"bool": "bool", "int": "int64", "float": "float32"}
    best = {}
    for kind, name in operands:
        dtype = getattr(torch, numbers[name] if kind == "number" else name)
        best[kind] = torch.promote_types(best[kind], dtype) if kind in best else dtype
    result = None
    for kind in ("axes", "point", "number"):
        if kind not in best:
            continue
        if result is None:
            result = best[kind]
        else:
            high = torch.ones(1, dtype=result)
            result = torch.result_type(high, torch.ones((), dtype=best[kind]))
    return str(result).removeprefix("torch.")


# %% right: with a table of categories
def result_dtype(operands):
    category = {"bool": 0, "uint8": 1, "int8": 1, "int16": 1, "int32": 1, "int64": 1}
    names = [
        (k, {"int": "int64", "float": "float32"}.get(n, n) if k == "number" else n)
        for k, n in operands
    ]
    highest = max(category.get(name, 2) for _, name in names)
    for level in ("axes", "point", "number"):
        here = [n for k, n in names if k == level and category.get(n, 2) == highest]
        if here:
            lower = [n for k, n in names if k == level]
            result = getattr(torch, lower[0])
            for name in lower[1:]:
                result = torch.promote_types(result, getattr(torch, name))
            return str(result)[6:]
