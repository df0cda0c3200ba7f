# %% wrong: adds up layer by layer, so that what two layers keep counts twice
def predict_saved(layers, rows, width):
    total, on = 0, False
    for name, *sizes in layers:
        if name == "Linear":
            total += width
            on = True
        if sizes:
            width = sizes[1]
        elif on and name not in ("Shift", "Identity"):
            total += width
    return 4 * rows * total


# %% wrong: every layer keeps its input
def predict_saved(layers, rows, width):
    kept = []
    for name, *sizes in layers:
        if name not in ("Shift", "Identity"):
            kept.append(width)
        width = sizes[1] if sizes else width
    return 4 * rows * sum(kept)


# %% wrong: takes sigmoid and tanh for functions that keep their input
def predict_saved(layers, rows, width):
    widths, kept, on = [width], set(), False
    for name, *sizes in layers:
        if name == "Identity":
            continue
        here = len(widths) - 1
        widths.append(sizes[1] if sizes else widths[-1])
        if name == "Linear":
            kept.add(here)
            on = True
        elif on and name in ("GELU", "SiLU", "Sigmoid", "Tanh"):
            kept.add(here)
        elif on and name == "ReLU":
            kept.add(here + 1)
    return 4 * rows * sum(widths[place] for place in kept)


# %% wrong: activations keep their tensors although nothing needs a gradient yet
def predict_saved(layers, rows, width):
    widths, kept = [width], set()
    for name, *sizes in layers:
        if name == "Identity":
            continue
        here = len(widths) - 1
        widths.append(sizes[1] if sizes else widths[-1])
        if name in ("Linear", "GELU", "SiLU"):
            kept.add(here)
        elif name in ("ReLU", "Sigmoid", "Tanh"):
            kept.add(here + 1)
    return 4 * rows * sum(widths[place] for place in kept)


# %% wrong: a frozen layer keeps its input like any other
def predict_saved(layers, rows, width):
    widths, kept, on = [width], set(), False
    for name, *sizes in layers:
        if name == "Identity":
            continue
        here = len(widths) - 1
        widths.append(sizes[1] if sizes else widths[-1])
        if sizes:
            kept.add(here)
            on = on or name == "Linear"
        elif on and name in ("GELU", "SiLU"):
            kept.add(here)
        elif on and name in ("ReLU", "Sigmoid", "Tanh"):
            kept.add(here + 1)
    return 4 * rows * sum(widths[place] for place in kept)


# %% wrong: a frozen layer stops the gradient
def predict_saved(layers, rows, width):
    widths, kept, on = [width], set(), False
    for name, *sizes in layers:
        if name == "Identity":
            continue
        here = len(widths) - 1
        widths.append(sizes[1] if sizes else widths[-1])
        if name == "Linear":
            kept.add(here)
        if sizes:
            on = name == "Linear"
        elif on and name in ("GELU", "SiLU"):
            kept.add(here)
        elif on and name in ("ReLU", "Sigmoid", "Tanh"):
            kept.add(here + 1)
    return 4 * rows * sum(widths[place] for place in kept)


# %% wrong: an identity makes a new tensor
def predict_saved(layers, rows, width):
    widths, kept, on = [width], set(), False
    for name, *sizes in layers:
        here = len(widths) - 1
        widths.append(sizes[1] if sizes else widths[-1])
        if name == "Linear":
            kept.add(here)
            on = True
        elif on and name in ("GELU", "SiLU"):
            kept.add(here)
        elif on and name in ("ReLU", "Sigmoid", "Tanh"):
            kept.add(here + 1)
    return 4 * rows * sum(widths[place] for place in kept)


# %% wrong: the data do not count
def predict_saved(layers, rows, width):
    widths, kept, on = [width], set(), False
    for name, *sizes in layers:
        if name == "Identity":
            continue
        here = len(widths) - 1
        widths.append(sizes[1] if sizes else widths[-1])
        if name == "Linear":
            kept.add(here)
            on = True
        elif on and name in ("GELU", "SiLU"):
            kept.add(here)
        elif on and name in ("ReLU", "Sigmoid", "Tanh"):
            kept.add(here + 1)
    return 4 * rows * sum(widths[place] for place in kept if place)


# %% wrong: every layer keeps its result
def predict_saved(layers, rows, width):
    total = 0
    for _, *sizes in layers:
        width = sizes[1] if sizes else width
        total += width
    return 4 * rows * total


# %% wrong: takes sigmoid alone for a function that keeps its input
def predict_saved(layers, rows, width):
    widths, kept, on = [width], set(), False
    for name, *sizes in layers:
        if name == "Identity":
            continue
        here = len(widths) - 1
        widths.append(sizes[1] if sizes else widths[-1])
        if name == "Linear":
            kept.add(here)
            on = True
        elif on and name in ("GELU", "SiLU", "Sigmoid"):
            kept.add(here)
        elif on and name in ("ReLU", "Tanh"):
            kept.add(here + 1)
    return 4 * rows * sum(widths[place] for place in kept)


# %% wrong: takes silu for a function that keeps its result
def predict_saved(layers, rows, width):
    widths, kept, on = [width], set(), False
    for name, *sizes in layers:
        if name == "Identity":
            continue
        here = len(widths) - 1
        widths.append(sizes[1] if sizes else widths[-1])
        if name == "Linear":
            kept.add(here)
            on = True
        elif on and name in ("GELU",):
            kept.add(here)
        elif on and name in ("ReLU", "Sigmoid", "SiLU", "Tanh"):
            kept.add(here + 1)
    return 4 * rows * sum(widths[place] for place in kept)


# %% wrong: behind a frozen layer everything needs a gradient, also where nothing is trained yet
def predict_saved(layers, rows, width):
    widths, kept, on = [width], set(), False
    for name, *sizes in layers:
        if name == "Identity":
            continue
        here = len(widths) - 1
        widths.append(sizes[1] if sizes else widths[-1])
        if name == "Linear":
            kept.add(here)
            on = True
        elif name == "Frozen":
            on = True
        elif on and name in ("GELU", "SiLU"):
            kept.add(here)
        elif on and name in ("ReLU", "Sigmoid", "Tanh"):
            kept.add(here + 1)
    return 4 * rows * sum(widths[place] for place in kept)


# %% wrong: a shift returns the storage that it gets
def predict_saved(layers, rows, width):
    widths, kept, on = [width], set(), False
    for name, *sizes in layers:
        if name in ("Identity", "Shift"):
            continue
        here = len(widths) - 1
        widths.append(sizes[1] if sizes else widths[-1])
        if name == "Linear":
            kept.add(here)
            on = True
        elif on and name in ("GELU", "SiLU"):
            kept.add(here)
        elif on and name in ("ReLU", "Sigmoid", "Tanh"):
            kept.add(here + 1)
    return 4 * rows * sum(widths[place] for place in kept)


# %% wrong: widths in a set, so that two tensors of one width count once
def predict_saved(layers, rows, width):
    widths, kept, on = [width], set(), False
    for name, *sizes in layers:
        if name == "Identity":
            continue
        here = len(widths) - 1
        widths.append(sizes[1] if sizes else widths[-1])
        if name == "Linear":
            kept.add(widths[here])
            on = True
        elif on and name in ("GELU", "SiLU"):
            kept.add(widths[here])
        elif on and name in ("ReLU", "Sigmoid", "Tanh"):
            kept.add(widths[here + 1])
    return 4 * rows * sum(kept)


# %% wrong: builds the stack and runs it, which more rows than a machine could hold do not allow
def predict_saved(layers, rows, width):
    class Shifted(torch.nn.Module):
        def forward(self, x):
            return x + 1

    stack = torch.nn.Sequential()
    for name, *sizes in layers:
        kind = "Linear" if name == "Frozen" else name
        part = Shifted() if name == "Shift" else getattr(torch.nn, kind)(*sizes)
        stack.append(part.requires_grad_(name != "Frozen"))
    x = torch.zeros(rows, width)
    return saved_bytes(lambda: stack(x), except_for=stack.parameters()).bytes


# %% right: goes from tensor to tensor and adds each up when it is left behind
def predict_saved(layers, rows, width):
    total, kept, needs = 0, False, False
    for name, *sizes in layers:
        kept = kept or name == "Linear" or (needs and name in ("GELU", "SiLU"))
        if name == "Identity":
            continue
        total += width * kept
        needs = needs or name == "Linear"
        kept = needs and name in ("ReLU", "Sigmoid", "Tanh")
        width = sizes[1] if sizes else width
    return 4 * rows * (total + width * kept)


# %% right: a list of pairs, the width of each tensor and whether it is kept
def predict_saved(layers, rows, width):
    chain = [[width, False]]
    on = False
    for name, *sizes in layers:
        if name == "Linear":
            chain[-1][1] = on = True
        if on and name in {"GELU", "SiLU"}:
            chain[-1][1] = True
        if name != "Identity":
            chain.append([(sizes or [0, chain[-1][0]])[1], False])
        if on and name in {"ReLU", "Sigmoid", "Tanh"}:
            chain[-1][1] = True
    return sum(rows * size * 4 for size, is_kept in chain if is_kept)


# %% wrong: takes a shift for a layer that saves its input
def predict_saved(layers, rows, width):
    widths, kept, on = [width], set(), False
    for name, *sizes in layers:
        if name == "Identity":
            continue
        here = len(widths) - 1
        widths.append(sizes[1] if sizes else widths[-1])
        if name == "Linear":
            kept.add(here)
            on = True
        elif on and name in ("GELU", "SiLU", "Shift"):
            kept.add(here)
        elif on and name in ("ReLU", "Sigmoid", "Tanh"):
            kept.add(here + 1)
    return 4 * rows * sum(widths[place] for place in kept)


# %% wrong: takes what comes out of an identity for saved already
def predict_saved(layers, rows, width):
    total, on, before = 0, False, ""
    for name, *sizes in layers:
        if name == "Linear":
            total += width if before not in ("ReLU", "Sigmoid", "Tanh", "Identity") else 0
            on = True
        elif on and name in ("ReLU", "Sigmoid", "Tanh"):
            total += width
        elif on and name in ("GELU", "SiLU"):
            total += width if before not in ("ReLU", "Sigmoid", "Tanh", "Identity") else 0
        width = sizes[1] if sizes else width
        before = name if on else ""
    return 4 * rows * total


# %% wrong: takes tanh alone for a function that keeps its input
def predict_saved(layers, rows, width):
    widths, kept, on = [width], set(), False
    for name, *sizes in layers:
        if name == "Identity":
            continue
        here = len(widths) - 1
        widths.append(sizes[1] if sizes else widths[-1])
        if name == "Linear":
            kept.add(here)
            on = True
        elif on and name in ("GELU", "SiLU", "Tanh"):
            kept.add(here)
        elif on and name in ("ReLU", "Sigmoid"):
            kept.add(here + 1)
    return 4 * rows * sum(widths[place] for place in kept)


# %% wrong: sigmoid and tanh save their result also where nothing needs a gradient yet
def predict_saved(layers, rows, width):
    widths, kept, on = [width], set(), False
    for name, *sizes in layers:
        if name == "Identity":
            continue
        here = len(widths) - 1
        widths.append(sizes[1] if sizes else widths[-1])
        if name == "Linear":
            kept.add(here)
            on = True
        elif on and name in ("GELU", "SiLU"):
            kept.add(here)
        elif name in ("Sigmoid", "Tanh") or (on and name == "ReLU"):
            kept.add(here + 1)
    return 4 * rows * sum(widths[place] for place in kept)


# %% wrong: a frozen layer behind an activation keeps its input
def predict_saved(layers, rows, width):
    widths, kept, on, before = [width], set(), False, ""
    for name, *sizes in layers:
        if name == "Identity":
            continue
        here = len(widths) - 1
        widths.append(sizes[1] if sizes else widths[-1])
        if name == "Linear":
            kept.add(here)
            on = True
        elif on and (name in ("GELU", "SiLU") or (name == "Frozen" and before == "GELU")):
            kept.add(here)
        elif on and name in ("ReLU", "Sigmoid", "Tanh"):
            kept.add(here + 1)
        before = name
    return 4 * rows * sum(widths[place] for place in kept)


# %% wrong: takes two activations of a kind in a row for one
def predict_saved(layers, rows, width):
    widths, kept, on, before = [width], set(), False, ""
    for name, *sizes in layers:
        if name in ("Identity", before):
            continue
        here = len(widths) - 1
        widths.append(sizes[1] if sizes else widths[-1])
        if name == "Linear":
            kept.add(here)
            on = True
        elif on and name in ("GELU", "SiLU"):
            kept.add(here)
        elif on and name in ("ReLU", "Sigmoid", "Tanh"):
            kept.add(here + 1)
        before = "" if sizes else name
    return 4 * rows * sum(widths[place] for place in kept)


# %% wrong: takes what a frozen layer makes for saved if its input was
def predict_saved(layers, rows, width):
    total, on, is_saved = 0, False, False
    for name, *sizes in layers:
        if name == "Linear" or (on and name in ("GELU", "SiLU")):
            total += 0 if is_saved else width
            on, is_saved = True, False
        elif on and name in ("ReLU", "Sigmoid", "Tanh"):
            total += width
            is_saved = True
        elif name == "Shift":
            is_saved = False
        width = sizes[1] if sizes else width
    return 4 * rows * total


# %% wrong: the first layer decides for all whether a gradient is needed
def predict_saved(layers, rows, width):
    widths, kept, on = [width], set(), layers[0][0] == "Linear"
    for name, *sizes in layers:
        if name == "Identity":
            continue
        here = len(widths) - 1
        widths.append(sizes[1] if sizes else widths[-1])
        if name == "Linear" or (on and name in ("GELU", "SiLU")):
            kept.add(here)
        elif on and name in ("ReLU", "Sigmoid", "Tanh"):
            kept.add(here + 1)
    return 4 * rows * sum(widths[place] for place in kept)


# %% wrong: a shift ends what needs a gradient
def predict_saved(layers, rows, width):
    widths, kept, on = [width], set(), False
    for name, *sizes in layers:
        if name == "Identity":
            continue
        here = len(widths) - 1
        widths.append(sizes[1] if sizes else widths[-1])
        if name in ("Linear", "Shift"):
            on = name == "Linear"
        if name == "Linear" or (on and name in ("GELU", "SiLU")):
            kept.add(here)
        elif on and name in ("ReLU", "Sigmoid", "Tanh"):
            kept.add(here + 1)
    return 4 * rows * sum(widths[place] for place in kept)


# %% right: runs one row through a real stack, and multiplies by the rows
def predict_saved(layers, rows, width):
    class Shifted(torch.nn.Module):
        def forward(self, x):
            return x + 1

    stack = torch.nn.Sequential()
    for layer in layers:
        match layer:
            case ["Linear", before, after]:
                stack.append(torch.nn.Linear(before, after))
            case ["Frozen", before, after]:
                stack.append(torch.nn.Linear(before, after).requires_grad_(False))
            case ["Shift"]:
                stack.append(Shifted())
            case [name]:
                stack.append(getattr(torch.nn, name)())
    one_row = torch.zeros(1, width)
    return rows * saved_bytes(lambda: stack(one_row), except_for=stack.parameters()).bytes


# %% right: recursion over the layers that are left
def predict_saved(layers, rows, width, is_saved=False, on=False):
    if not layers:
        return 0
    (name, *sizes), *others = layers
    if name == "Identity":
        return predict_saved(others, rows, width, is_saved, on)
    saves_input = name == "Linear" or (on and name in ("GELU", "SiLU"))
    here = 4 * rows * width if saves_input and not is_saved else 0
    on = on or name == "Linear"
    width = sizes[1] if sizes else width
    saves_result = on and name in ("ReLU", "Sigmoid", "Tanh")
    here += 4 * rows * width if saves_result else 0
    return here + predict_saved(others, rows, width, saves_result, on)


# %% wrong: takes the result of an activation before the first trainable layer for saved
def predict_saved(layers, rows, width):
    total, on, is_saved = 0, False, False
    for name, *sizes in layers:
        if name == "Linear" or (on and name in ("GELU", "SiLU")):
            total += 0 if is_saved else width
        on = on or name == "Linear"
        width = sizes[1] if sizes else width
        if name in ("ReLU", "Sigmoid", "Tanh"):
            total += width if on else 0
            is_saved = True
        elif name != "Identity":
            is_saved = False
    return 4 * rows * total


# %% wrong: takes data that an activation gets for saved, before anything requires a gradient
def predict_saved(layers, rows, width):
    total, on, is_saved = 0, False, False
    for name, *sizes in layers:
        if on and name in ("GELU", "SiLU") and not is_saved:
            total += width
        if name == "Linear":
            total += 0 if is_saved else width
            on = True
        width = sizes[1] if sizes else width
        if name in ("ReLU", "Sigmoid", "Tanh"):
            total += width if on else 0
        if name != "Identity":
            is_saved = not sizes and name != "Shift" and (name not in ("GELU", "SiLU") or not on)
    return 4 * rows * total


# %% wrong: the gradient stops at the second of two frozen layers in a row
def predict_saved(layers, rows, width):
    widths, kept, on, before = [width], set(), False, ""
    for name, *sizes in layers:
        if name == "Frozen" and before == "Frozen":
            on = False
        before = name
        if name == "Identity":
            continue
        here = len(widths) - 1
        widths.append(sizes[1] if sizes else widths[-1])
        if name == "Linear" or (on and name in ("GELU", "SiLU")):
            kept.add(here)
            on = True
        elif on and name in ("ReLU", "Sigmoid", "Tanh"):
            kept.add(here + 1)
    return 4 * rows * sum(widths[place] for place in kept)
