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


# %% wrong: from left to right, by sums of small tensors
def result_dtype(operands):
    numbers = {"bool": True, "int": 1, "float": 1.0}

    def made(kind, name):
        if kind == "number":
            return numbers[name]
        return torch.ones([1] if kind == "axes" else [], dtype=getattr(torch, name))

    total, *others = [made(*operand) for operand in operands]
    for other in others:
        dtype = torch.result_type(total, other)
        has_axes = any(isinstance(t, torch.Tensor) and t.dim() for t in (total, other))
        total = torch.ones([1] if has_axes else [], dtype=dtype)
    return str(torch.as_tensor(total).dtype).removeprefix("torch.")


# %% wrong: from numbers to tensors with axes, by sums
import torch


def result_dtype(operands):
    def make(level, name):
        if level == "number":
            return {"bool": True, "int": 1, "float": 1.0}[name]
        return torch.ones(1 if level == "axes" else (), dtype=getattr(torch, name))

    operands = sorted(operands, key=lambda o: ["number", "point", "axes"].index(o[0]))
    if all(n == "bool" for _, n in operands):
        return "bool"
    total = make(*operands[0])
    for o in operands[1:]:
        total = total + make(*o)
    return str(total.dtype if isinstance(total, torch.Tensor) else torch.tensor(total).dtype)[6:]


# %% wrong: Python bools alone are counted
import torch

CATEGORY = {"bool": 0, "int": 1, "uint8": 1, "int8": 1, "int16": 1, "int32": 1, "int64": 1}


def result_dtype(operands):
    def category(name):
        return CATEGORY.get(name, 2)

    top = max(category(name) for _, name in operands)
    best = [(level, name) for level, name in operands if category(name) == top]
    for level in ("axes", "point"):
        names = [name for kind, name in best if kind == level]
        if names:
            dtype = getattr(torch, names[0])
            for name in names[1:]:
                dtype = torch.promote_types(dtype, getattr(torch, name))
            return str(dtype).split(".")[1]
    return {0: "int64", 1: "int64", 2: "float32"}[top]


# %% wrong: Python numbers are added up first
import torch


def result_dtype(operands):
    groups = {"axes": [], "point": [], "number": []}
    for level, name in operands:
        groups[level].append(name)
    results = []
    for level in ("axes", "point"):
        cats = {}
        for name in groups[level]:
            d = getattr(torch, name)
            cats.setdefault(2 if d.is_floating_point else 0 if d == torch.bool else 1, []).append(d)
        if cats:
            ds = cats[max(cats)]
            out = ds[0]
            for d in ds[1:]:
                out = torch.promote_types(out, d)
            results.append(torch.zeros((1,) if level == "axes" else (), dtype=out))
    numbers = [{"bool": False, "int": 0, "float": 0.0}[n] for n in groups["number"]]
    if numbers:
        results.append(sum(numbers) if len(numbers) > 1 else numbers[0])
    if len(results) == 1:
        r = results[0]
        return str(r.dtype if isinstance(r, torch.Tensor) else torch.tensor(r).dtype).split(".")[-1]
    if len(results) == 2:
        return str(torch.result_type(*results)).split(".")[-1]
    a, b, c = results
    bc = torch.result_type(b, c)

    def cat(d):
        return 2 if d.is_floating_point else 0 if d == torch.bool else 1

    if cat(bc) > cat(a.dtype):
        return str(bc).split(".")[-1]
    return str(a.dtype).split(".")[-1]


# %% wrong: only the first two that decide
import torch

CATEGORY = {"bool": 0, "int": 1, "uint8": 1, "int8": 1, "int16": 1, "int32": 1, "int64": 1}


def result_dtype(operands):
    def category(name):
        return CATEGORY.get(name, 2)

    top = max(category(name) for _, name in operands)
    best = [(level, name) for level, name in operands if category(name) == top]
    for level in ("axes", "point"):
        names = [name for kind, name in best if kind == level]
        if names:
            dtype = getattr(torch, names[0])
            for name in names[1:2]:
                dtype = torch.promote_types(dtype, getattr(torch, name))
            return str(dtype).split(".")[1]
    return {0: "bool", 1: "int64", 2: "float32"}[top]


# %% wrong: the first that decides, with the last one
import torch

CATEGORY = {"bool": 0, "int": 1, "uint8": 1, "int8": 1, "int16": 1, "int32": 1, "int64": 1}


def result_dtype(operands):
    def category(name):
        return CATEGORY.get(name, 2)

    top = max(category(name) for _, name in operands)
    best = [(level, name) for level, name in operands if category(name) == top]
    for level in ("axes", "point"):
        names = [name for kind, name in best if kind == level]
        if names:
            dtype = getattr(torch, names[0])
            for name in names[1:]:
                dtype = torch.promote_types(getattr(torch, names[0]), getattr(torch, name))
            return str(dtype).split(".")[1]
    return {0: "bool", 1: "int64", 2: "float32"}[top]


# %% wrong: only the first three operands
import torch

CATEGORY = {"bool": 0, "int": 1, "uint8": 1, "int8": 1, "int16": 1, "int32": 1, "int64": 1}


def result_dtype(operands):
    operands = operands[:3]

    def category(name):
        return CATEGORY.get(name, 2)

    top = max(category(name) for _, name in operands)
    best = [(level, name) for level, name in operands if category(name) == top]
    for level in ("axes", "point"):
        names = [name for kind, name in best if kind == level]
        if names:
            dtype = getattr(torch, names[0])
            for name in names[1:]:
                dtype = torch.promote_types(dtype, getattr(torch, name))
            return str(dtype).split(".")[1]
    return {0: "bool", 1: "int64", 2: "float32"}[top]


# %% wrong: a tensor without axes widens one with, if a third operand is there
import torch

CATEGORY = {"bool": 0, "int": 1, "uint8": 1, "int8": 1, "int16": 1, "int32": 1, "int64": 1}


def result_dtype(operands):
    def category(name):
        return CATEGORY.get(name, 2)

    top = max(category(name) for _, name in operands)
    best = [(level, name) for level, name in operands if category(name) == top]
    for level in ("axes", "point"):
        names = [name for kind, name in best if kind == level]
        if names:
            dtype = getattr(torch, names[0])
            for name in names[1:]:
                dtype = torch.promote_types(dtype, getattr(torch, name))
            if (
                len(operands) > 2
                and level == "axes"
                and ("point", "int64") in operands
                and top == 1
            ):
                return "int64"
            return str(dtype).split(".")[1]
    return {0: "bool", 1: "int64", 2: "float32"}[top]


# %% right: a class that keeps the best of each rank
import torch


class Promotion:
    def __init__(self):
        self.best = {}

    def add(self, level, dtype):
        rank = (
            dtype.is_floating_point,
            dtype != torch.bool,
            {"axes": 2, "point": 1, "number": 0}[level],
        )
        self.best[rank] = torch.promote_types(self.best.get(rank, dtype), dtype)

    def result(self):
        return str(self.best[max(self.best)]).replace("torch.", "")


def result_dtype(operands):
    p = Promotion()
    for level, name in operands:
        p.add(
            level,
            torch.tensor({"bool": True, "int": 1, "float": 1.0}[name]).dtype
            if level == "number"
            else getattr(torch, name),
        )
    return p.result()


# %% right: by a table of its own, without torch
INTS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


def join(names):
    names = set(names)
    if len(names) == 1:
        return names.pop()
    if names & {"float16", "bfloat16", "float32", "float64"}:
        return "float64" if "float64" in names else "float32"
    bits = max(INTS.get(n, 16 if "uint8" in names and len(names - {"uint8"}) else 8) for n in names)
    return f"int{max(bits, 16) if 'uint8' in names else bits}"


def result_dtype(operands):
    def c(n):
        return "f" if "float" in n else "b" if n == "bool" else "i"

    for category in "fib":
        for level in ("axes", "point", "number"):
            names = [n for kind, n in operands if kind == level and c(n) == category]
            if names:
                if level == "number":
                    return {"f": "float32", "i": "int64", "b": "bool"}[category]
                return join(names)


# %% wrong: uint8 and int8 make int16, whatever else is there
CATEGORIES = {"bool": 0, "float16": 2, "bfloat16": 2, "float32": 2, "float64": 2}


def result_dtype(operands):
    named = [
        (k, {"int": "int64", "float": "float32"}.get(n, n) if k == "number" else n)
        for k, n in operands
    ]
    highest = max(CATEGORIES.get(n, 1) for _, n in named)
    for kind in ("axes", "point", "number"):
        names = {n for k, n in named if k == kind and CATEGORIES.get(n, 1) == highest}
        if not names:
            continue
        if names >= {"uint8", "int8"}:
            return "int16"
        if names >= {"float16", "bfloat16"} and "float64" not in names:
            return "float32"
        return max(names, key=lambda n: getattr(torch, n).itemsize)


# %% wrong: uint8 with a signed type takes the type of twice its bits
def joined(first, second):
    if first == second:
        return first
    if "uint8" in (first, second):
        other = second if first == "uint8" else first
        if other.startswith("int"):
            return {"int8": "int16", "int16": "int32"}.get(other, "int64")
    return str(torch.promote_types(getattr(torch, first), getattr(torch, second)))[6:]


def result_dtype(operands):
    def category(name):
        return 2 if "float" in name else int(name != "bool")

    named = [
        (k, {"int": "int64", "float": "float32"}.get(n, n) if k == "number" else n)
        for k, n in operands
    ]
    highest = max(category(n) for _, n in named)
    for kind in ("axes", "point", "number"):
        names = [n for k, n in named if k == kind and category(n) == highest]
        if names:
            result = names[0]
            for name in names[1:]:
                result = joined(result, name)
            return result


# %% wrong: uint8 with a signed integer becomes int16 or int32, even where int16 holds both
def result_dtype(operands):
    numbers = {"bool": "bool", "int": "int64", "float": "float32"}

    def promoted(names):
        dtypes = [getattr(torch, name) for name in names]
        result = dtypes[0]
        for dtype in dtypes[1:]:
            pair = {result, dtype}
            result = torch.promote_types(result, dtype)
            if pair == {torch.uint8, torch.int16}:
                result = torch.int32
        return result

    def category(dtype):
        return 2 if dtype.is_floating_point else int(dtype != torch.bool)

    result = None
    for level in ("axes", "point", "number"):
        names = [numbers[n] if level == "number" else n for kind, n in operands if kind == level]
        if names and (result is None or category(promoted(names)) > category(result)):
            result = promoted(names)
    return str(result).removeprefix("torch.")
