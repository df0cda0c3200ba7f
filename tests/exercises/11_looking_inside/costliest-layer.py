# %% wrong: multiplications only
def layer_flops(model, x):
    layers = {n: m for n, m in model.named_modules() if isinstance(m, (nn.Linear, nn.Conv2d))}
    flops = dict.fromkeys(layers, 0)

    def hook_of(name):
        def count(module, inputs, output):
            flops[name] += output.numel() * module.weight[0].numel()

        return count

    handles = [layer.register_forward_hook(hook_of(name)) for name, layer in layers.items()]
    with torch.no_grad():
        model(x)
    for handle in handles:
        handle.remove()
    return flops


# %% wrong: the weights once, wherever they are used
def layer_flops(model, x):
    layers = {n: m for n, m in model.named_modules() if isinstance(m, (nn.Linear, nn.Conv2d))}
    flops = dict.fromkeys(layers, 0)

    def hook_of(name):
        def count(module, inputs, output):
            flops[name] += 2 * module.weight.numel()

        return count

    handles = [layer.register_forward_hook(hook_of(name)) for name, layer in layers.items()]
    with torch.no_grad():
        model(x)
    for handle in handles:
        handle.remove()
    return flops


# %% wrong: the bias counts as well
def layer_flops(model, x):
    layers = {n: m for n, m in model.named_modules() if isinstance(m, (nn.Linear, nn.Conv2d))}
    flops = dict.fromkeys(layers, 0)

    def hook_of(name):
        def count(module, inputs, output):
            flops[name] += 2 * output.numel() * module.weight[0].numel() + (
                output.numel() if module.bias is not None else 0
            )

        return count

    handles = [layer.register_forward_hook(hook_of(name)) for name, layer in layers.items()]
    with torch.no_grad():
        model(x)
    for handle in handles:
        handle.remove()
    return flops


# %% wrong: the first axis alone is the rows
def layer_flops(model, x):
    layers = {n: m for n, m in model.named_modules() if isinstance(m, (nn.Linear, nn.Conv2d))}
    flops = dict.fromkeys(layers, 0)

    def hook_of(name):
        def count(module, inputs, output):
            flops[name] += (
                2
                * len(output)
                * module.weight.numel()
                * (output[0, 0].numel() if output.dim() == 4 else 1)
            )

        return count

    handles = [layer.register_forward_hook(hook_of(name)) for name, layer in layers.items()]
    with torch.no_grad():
        model(x)
    for handle in handles:
        handle.remove()
    return flops


# %% wrong: groups are ignored
def layer_flops(model, x):
    layers = {n: m for n, m in model.named_modules() if isinstance(m, (nn.Linear, nn.Conv2d))}
    flops = dict.fromkeys(layers, 0)

    def hook_of(name):
        def count(module, inputs, output):
            flops[name] += (
                2 * output.numel() * (module.weight[0].numel() * getattr(module, "groups", 1))
            )

        return count

    handles = [layer.register_forward_hook(hook_of(name)) for name, layer in layers.items()]
    with torch.no_grad():
        model(x)
    for handle in handles:
        handle.remove()
    return flops


# %% wrong: by the places of the input
def layer_flops(model, x):
    layers = {n: m for n, m in model.named_modules() if isinstance(m, (nn.Linear, nn.Conv2d))}
    flops = dict.fromkeys(layers, 0)

    def hook_of(name):
        def count(module, inputs, output):
            flops[name] += (
                2 * inputs[0][:, :1].numel() * module.weight.numel()
                if output.dim() == 4
                else 2 * output.numel() * module.weight.shape[1]
            )

        return count

    handles = [layer.register_forward_hook(hook_of(name)) for name, layer in layers.items()]
    with torch.no_grad():
        model(x)
    for handle in handles:
        handle.remove()
    return flops


# %% wrong: only the last call counts
def layer_flops(model, x):
    layers = {n: m for n, m in model.named_modules() if isinstance(m, (nn.Linear, nn.Conv2d))}
    flops = dict.fromkeys(layers, 0)

    def hook_of(name):
        def count(module, inputs, output):
            flops[name] = 2 * output.numel() * module.weight[0].numel()

        return count

    handles = [layer.register_forward_hook(hook_of(name)) for name, layer in layers.items()]
    with torch.no_grad():
        model(x)
    for handle in handles:
        handle.remove()
    return flops


# %% wrong: layers that are not called are left out
def layer_flops(model, x):
    layers = {n: m for n, m in model.named_modules() if isinstance(m, (nn.Linear, nn.Conv2d))}
    flops = {}

    def hook_of(name):
        def count(module, inputs, output):
            flops[name] = flops.get(name, 0) + 2 * output.numel() * module.weight[0].numel()

        return count

    handles = [layer.register_forward_hook(hook_of(name)) for name, layer in layers.items()]
    with torch.no_grad():
        model(x)
    for handle in handles:
        handle.remove()
    return flops


# %% wrong: without the batch
def layer_flops(model, x):
    layers = {n: m for n, m in model.named_modules() if isinstance(m, (nn.Linear, nn.Conv2d))}
    flops = dict.fromkeys(layers, 0)

    def hook_of(name):
        def count(module, inputs, output):
            flops[name] += 2 * output[0].numel() * module.weight[0].numel()

        return count

    handles = [layer.register_forward_hook(hook_of(name)) for name, layer in layers.items()]
    with torch.no_grad():
        model(x)
    for handle in handles:
        handle.remove()
    return flops


# %% wrong: square kernels only
def layer_flops(model, x):
    layers = {n: m for n, m in model.named_modules() if isinstance(m, (nn.Linear, nn.Conv2d))}
    flops = dict.fromkeys(layers, 0)

    def hook_of(name):
        def count(module, inputs, output):
            flops[name] += (
                2
                * output.numel()
                * (
                    module.in_features
                    if isinstance(module, nn.Linear)
                    else module.in_channels // module.groups * module.kernel_size[0] ** 2
                )
            )

        return count

    handles = [layer.register_forward_hook(hook_of(name)) for name, layer in layers.items()]
    with torch.no_grad():
        model(x)
    for handle in handles:
        handle.remove()
    return flops


# %% right: linear and convolutional layers apart
def layer_flops(model, x):
    layers = {n: m for n, m in model.named_modules() if isinstance(m, (nn.Linear, nn.Conv2d))}
    flops = dict.fromkeys(layers, 0)

    def hook_of(name):
        def count(module, inputs, output):
            if isinstance(module, nn.Linear):
                rows = output.numel() // module.out_features
                flops[name] += 2 * rows * module.in_features * module.out_features
            else:
                height, width = module.kernel_size
                each = module.in_channels // module.groups * height * width
                flops[name] += 2 * each * output.numel()

        return count

    handles = [layer.register_forward_hook(hook_of(name)) for name, layer in layers.items()]
    with torch.no_grad():
        model(x)
    for handle in handles:
        handle.remove()
    return flops


# %% right: one hook that looks the name up
def layer_flops(model, x):
    names = {m: n for n, m in model.named_modules() if type(m) in (nn.Linear, nn.Conv2d)}
    flops = {name: 0 for name in names.values()}

    def count(module, inputs, output):
        per_entry = math.prod(module.weight.shape[1:])
        flops[names[module]] += 2 * per_entry * math.prod(output.shape)

    handles = [module.register_forward_hook(count) for module in names]
    model(x)
    for handle in handles:
        handle.remove()
    return flops


# %% wrong: leaves the model in eval mode
def layer_flops(model, x):
    layers = {n: m for n, m in model.named_modules() if isinstance(m, (nn.Linear, nn.Conv2d))}
    flops = dict.fromkeys(layers, 0)

    def hook_of(name):
        def count(module, inputs, output):
            flops[name] += 2 * output.numel() * module.weight[0].numel()

        return count

    handles = [layer.register_forward_hook(hook_of(name)) for name, layer in layers.items()]
    model.eval()
    with torch.no_grad():
        model(x)
    for handle in handles:
        handle.remove()
    return flops


# %% wrong: runs the model twice, so a BatchNorm learns twice
def layer_flops(model, x):
    flops = {n: 0 for n, m in model.named_modules() if isinstance(m, (nn.Linear, nn.Conv2d))}

    def hook_of(name):
        def count(module, inputs, output):
            flops[name] += 2 * output.numel() * module.weight[0].numel()

        return count

    with torch.no_grad():
        model(x)
        handles = [model.get_submodule(n).register_forward_hook(hook_of(n)) for n in flops]
        model(x)
    for handle in handles:
        handle.remove()
    return flops


# %% wrong: runs in eval mode, and gives the modes back
def layer_flops(model, x):
    flops = {n: 0 for n, m in model.named_modules() if isinstance(m, (nn.Linear, nn.Conv2d))}
    modes = [module.training for module in model.modules()]

    def hook_of(name):
        def count(module, inputs, output):
            flops[name] += 2 * output.numel() * module.weight[0].numel()

        return count

    handles = [model.get_submodule(n).register_forward_hook(hook_of(n)) for n in flops]
    model.eval()
    with torch.no_grad():
        model(x)
    for handle in handles:
        handle.remove()
    for module, mode in zip(model.modules(), modes, strict=True):
        module.training = mode
    return flops


# %% wrong: an input without a batch has as many rows as entries
import math


def layer_flops(model, x):
    flops, handles = {}, []

    def hook(module, inputs, output, name):
        if isinstance(module, nn.Linear):
            rows = inputs[0].shape[:-1].numel() if inputs[0].ndim > 1 else inputs[0].shape[0]
            flops[name] += 2 * rows * module.in_features * module.out_features
        else:
            flops[name] += 2 * output.numel() * module.weight[0].numel()

    for name, module in model.named_modules():
        if isinstance(module, (nn.Linear, nn.Conv2d)):
            flops[name] = 0
            handles.append(module.register_forward_hook(lambda m, i, o, n=name: hook(m, i, o, n)))
    try:
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return flops


# %% wrong: runs in train mode, and gives the modes back
import math


def layer_flops(model, x):
    flops, handles = {}, []

    def hook(module, inputs, output, name):
        if isinstance(module, nn.Linear):
            rows = math.prod(inputs[0].shape[:-1])
            flops[name] += 2 * rows * module.in_features * module.out_features
        else:
            flops[name] += 2 * output.numel() * module.weight[0].numel()

    for name, module in model.named_modules():
        if isinstance(module, (nn.Linear, nn.Conv2d)):
            flops[name] = 0
            handles.append(module.register_forward_hook(lambda m, i, o, n=name: hook(m, i, o, n)))
    try:
        modes = [m.training for m in model.modules()]
        model.train()
        model(x)
        for m, t in zip(model.modules(), modes, strict=True):
            m.training = t
    finally:
        for handle in handles:
            handle.remove()
    return flops


# %% wrong: runs the model twice, and gives the buffers back
import math


def layer_flops(model, x):
    flops, handles = {}, []

    def hook(module, inputs, output, name):
        if isinstance(module, nn.Linear):
            rows = math.prod(inputs[0].shape[:-1])
            flops[name] += 2 * rows * module.in_features * module.out_features
        else:
            flops[name] += 2 * output.numel() * module.weight[0].numel()

    for name, module in model.named_modules():
        if isinstance(module, (nn.Linear, nn.Conv2d)):
            flops[name] = 0
            handles.append(module.register_forward_hook(lambda m, i, o, n=name: hook(m, i, o, n)))
    try:
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    with torch.no_grad():
        stored = [b.clone() for b in model.buffers()]
        model(x)
        for b, c in zip(model.buffers(), stored, strict=True):
            b.copy_(c)
    return flops


# %% wrong: a model that is a layer gets a name of its own
import math


def layer_flops(model, x):
    flops, handles = {}, []

    def hook(module, inputs, output, name):
        if isinstance(module, nn.Linear):
            rows = math.prod(inputs[0].shape[:-1])
            flops[name] += 2 * rows * module.in_features * module.out_features
        else:
            flops[name] += 2 * output.numel() * module.weight[0].numel()

    for name, module in model.named_modules():
        name = name or "model"
        if isinstance(module, (nn.Linear, nn.Conv2d)):
            flops[name] = 0
            handles.append(module.register_forward_hook(lambda m, i, o, n=name: hook(m, i, o, n)))
    try:
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return flops


# %% wrong: a picture without a batch is refused
import math


def layer_flops(model, x):
    flops, handles = {}, []

    def hook(module, inputs, output, name):
        if isinstance(module, nn.Linear):
            rows = math.prod(inputs[0].shape[:-1])
            flops[name] += 2 * rows * module.in_features * module.out_features
        else:
            _batch, _channels, _height, _width = output.shape
            flops[name] += 2 * output.numel() * module.weight[0].numel()

    for name, module in model.named_modules():
        if isinstance(module, (nn.Linear, nn.Conv2d)):
            flops[name] = 0
            handles.append(module.register_forward_hook(lambda m, i, o, n=name: hook(m, i, o, n)))
    try:
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return flops


# %% right: a copy is run, with autograd on
import copy


def layer_flops(model, x):
    twin = copy.deepcopy(model)
    flops = {}

    def make(name):
        flops[name] = 0

        def hook(m, i, o):
            per = m.in_features if isinstance(m, nn.Linear) else m.weight[0].numel()
            flops[name] += 2 * o.numel() * per

        return hook

    for name, m in twin.named_modules():
        if isinstance(m, (nn.Linear, nn.Conv2d)):
            m.register_forward_hook(make(name))
    twin(x)
    return flops


# %% right: by the counter of torch, with all names of a layer
def layer_flops(model, x):
    with FlopCounterMode(display=False) as counter:
        model(x)
    counts, root, places = counter.get_flop_counts(), type(model).__name__, {}
    for name, m in model.named_modules(remove_duplicate=False):
        if isinstance(m, (nn.Linear, nn.Conv2d)):
            places.setdefault(m, []).append(name)
    return {
        names[0]: sum(
            sum(counts.get(f"{root}.{name}" if name else root, {}).values()) for name in names
        )
        for names in places.values()
    }


# %% wrong: a copy in eval mode is run
import copy


def layer_flops(model, x):
    twin = copy.deepcopy(model).eval()
    flops = {}

    def make(name):
        flops[name] = 0

        def hook(m, i, o):
            per = m.in_features if isinstance(m, nn.Linear) else m.weight[0].numel()
            flops[name] += 2 * o.numel() * per

        return hook

    for name, m in twin.named_modules():
        if isinstance(m, (nn.Linear, nn.Conv2d)):
            m.register_forward_hook(make(name))
    twin(x)
    return flops


# %% wrong: a copy of the model is run twice
import copy


def layer_flops(model, x):
    twin = copy.deepcopy(model)
    flops = {}

    def make(name):
        flops[name] = 0

        def hook(m, i, o):
            per = m.in_features if isinstance(m, nn.Linear) else m.weight[0].numel()
            flops[name] += 2 * o.numel() * per

        return hook

    for name, m in twin.named_modules():
        if isinstance(m, (nn.Linear, nn.Conv2d)):
            m.register_forward_hook(make(name))
    twin(x)
    flops.update(dict.fromkeys(flops, 0))
    twin(x)
    return flops


# %% wrong: a layer in two places is counted under both names, each time in full
def layer_flops(model, x):
    named = model.named_modules(remove_duplicate=False)
    layers = {n: m for n, m in named if isinstance(m, (nn.Linear, nn.Conv2d))}
    flops = dict.fromkeys(layers, 0)

    def hook_of(name):
        def count(module, inputs, output):
            flops[name] += 2 * output.numel() * module.weight[0].numel()

        return count

    handles = [layer.register_forward_hook(hook_of(name)) for name, layer in layers.items()]
    with torch.no_grad():
        model(x)
    for handle in handles:
        handle.remove()
    return flops


# %% wrong: the rows are those of the model's input
def layer_flops(model, x):
    layers = {n: m for n, m in model.named_modules() if isinstance(m, (nn.Linear, nn.Conv2d))}
    flops = dict.fromkeys(layers, 0)

    def hook_of(name):
        def count(module, inputs, output):
            if isinstance(module, nn.Linear):
                rows = math.prod(x.shape[:-1])
                flops[name] += 2 * rows * module.in_features * module.out_features
            else:
                flops[name] += 2 * output.numel() * module.weight[0].numel()

        return count

    handles = [layer.register_forward_hook(hook_of(name)) for name, layer in layers.items()]
    with torch.no_grad():
        model(x)
    for handle in handles:
        handle.remove()
    return flops


# %% wrong: the output's size by a formula without dilation
def layer_flops(model, x):
    layers = {n: m for n, m in model.named_modules() if isinstance(m, (nn.Linear, nn.Conv2d))}
    flops = dict.fromkeys(layers, 0)

    def hook_of(name):
        def count(module, inputs, output):
            if isinstance(module, nn.Linear):
                flops[name] += 2 * output.numel() * module.in_features
                return
            places = 1
            for axis in (0, 1):
                size, kernel = inputs[0].shape[axis - 2], module.kernel_size[axis]
                padding = 0 if module.padding == "same" else module.padding[axis]
                if module.padding == "same":
                    padding = kernel // 2
                places *= (size + 2 * padding - kernel) // module.stride[axis] + 1
            images = inputs[0].shape[0] if inputs[0].ndim == 4 else 1
            flops[name] += 2 * images * module.out_channels * places * module.weight[0].numel()

        return count

    handles = [layer.register_forward_hook(hook_of(name)) for name, layer in layers.items()]
    with torch.no_grad():
        model(x)
    for handle in handles:
        handle.remove()
    return flops


# %% wrong: the output's size by a formula with numbers for the padding
def layer_flops(model, x):
    layers = {n: m for n, m in model.named_modules() if isinstance(m, (nn.Linear, nn.Conv2d))}
    flops = dict.fromkeys(layers, 0)

    def hook_of(name):
        def count(module, inputs, output):
            if isinstance(module, nn.Linear):
                flops[name] += 2 * output.numel() * module.in_features
                return
            places = 1
            for axis in (0, 1):
                size, kernel = inputs[0].shape[axis - 2], module.kernel_size[axis]
                reach = module.dilation[axis] * (kernel - 1) + 1
                places *= (size + 2 * module.padding[axis] - reach) // module.stride[axis] + 1
            images = inputs[0].shape[0] if inputs[0].ndim == 4 else 1
            flops[name] += 2 * images * module.out_channels * places * module.weight[0].numel()

        return count

    handles = [layer.register_forward_hook(hook_of(name)) for name, layer in layers.items()]
    with torch.no_grad():
        model(x)
    for handle in handles:
        handle.remove()
    return flops


# %% wrong: the output's size by the stride of the first axis
def layer_flops(model, x):
    layers = {n: m for n, m in model.named_modules() if isinstance(m, (nn.Linear, nn.Conv2d))}
    flops = dict.fromkeys(layers, 0)

    def hook_of(name):
        def count(module, inputs, output):
            if isinstance(module, nn.Linear):
                flops[name] += 2 * output.numel() * module.in_features
                return
            places = 1
            for axis in (0, 1):
                size, kernel = inputs[0].shape[axis - 2], module.kernel_size[axis]
                padding = (kernel // 2,) * 2 if module.padding == "same" else module.padding
                reach = module.dilation[axis] * (kernel - 1) + 1
                places *= (size + 2 * padding[axis] - reach) // module.stride[0] + 1
            images = inputs[0].shape[0] if inputs[0].ndim == 4 else 1
            flops[name] += 2 * images * module.out_channels * places * module.weight[0].numel()

        return count

    handles = [layer.register_forward_hook(hook_of(name)) for name, layer in layers.items()]
    with torch.no_grad():
        model(x)
    for handle in handles:
        handle.remove()
    return flops


# %% right: the output's size by the formula of the documentation
def layer_flops(model, x):
    layers = {n: m for n, m in model.named_modules() if isinstance(m, (nn.Linear, nn.Conv2d))}
    flops = dict.fromkeys(layers, 0)

    def hook_of(name):
        def count(module, inputs, output):
            if isinstance(module, nn.Linear):
                flops[name] += 2 * output.numel() * module.in_features
                return
            places = 1
            for axis in (0, 1):
                size, kernel = inputs[0].shape[axis - 2], module.kernel_size[axis]
                padding = module.padding
                if padding == "same":
                    padding = [module.dilation[i] * (module.kernel_size[i] - 1) / 2 for i in (0, 1)]
                reach = module.dilation[axis] * (kernel - 1) + 1
                places *= int((size + 2 * padding[axis] - reach) // module.stride[axis]) + 1
            images = inputs[0].shape[0] if inputs[0].ndim == 4 else 1
            flops[name] += 2 * images * module.out_channels * places * module.weight[0].numel()

        return count

    handles = [layer.register_forward_hook(hook_of(name)) for name, layer in layers.items()]
    with torch.no_grad():
        model(x)
    for handle in handles:
        handle.remove()
    return flops


# %% wrong: every convolution counts, whatever its axes
def layer_flops(model, x):
    layers = {
        n: m for n, m in model.named_modules() if isinstance(m, (nn.Linear, nn.Conv1d, nn.Conv2d))
    }
    flops = dict.fromkeys(layers, 0)

    def hook_of(name):
        def count(module, inputs, output):
            flops[name] += 2 * output.numel() * module.weight[0].numel()

        return count

    handles = [layer.register_forward_hook(hook_of(name)) for name, layer in layers.items()]
    with torch.no_grad():
        model(x)
    for handle in handles:
        handle.remove()
    return flops


# %% wrong: frozen layers are left out of the sum
def layer_flops(model, x):
    layers = {n: m for n, m in model.named_modules() if isinstance(m, (nn.Linear, nn.Conv2d))}
    flops = dict.fromkeys(layers, 0)

    def hook_of(name):
        def count(module, inputs, output):
            if module.weight.requires_grad:
                flops[name] += 2 * output.numel() * module.weight[0].numel()

        return count

    handles = [layer.register_forward_hook(hook_of(name)) for name, layer in layers.items()]
    with torch.no_grad():
        model(x)
    for handle in handles:
        handle.remove()
    return flops


# %% wrong: the modules that contain others end in train mode
def layer_flops(model, x):
    layers = {n: m for n, m in model.named_modules() if isinstance(m, (nn.Linear, nn.Conv2d))}
    flops = dict.fromkeys(layers, 0)

    def hook_of(name):
        def count(module, inputs, output):
            flops[name] += 2 * output.numel() * module.weight[0].numel()

        return count

    handles = [layer.register_forward_hook(hook_of(name)) for name, layer in layers.items()]
    with torch.no_grad():
        model(x)
    for handle in handles:
        handle.remove()
    for part in model.modules():
        if list(part.children()):
            part.training = True
    return flops


# %% wrong: the modules that contain others end in eval mode
def layer_flops(model, x):
    layers = {n: m for n, m in model.named_modules() if isinstance(m, (nn.Linear, nn.Conv2d))}
    flops = dict.fromkeys(layers, 0)

    def hook_of(name):
        def count(module, inputs, output):
            flops[name] += 2 * output.numel() * module.weight[0].numel()

        return count

    handles = [layer.register_forward_hook(hook_of(name)) for name, layer in layers.items()]
    with torch.no_grad():
        model(x)
    for handle in handles:
        handle.remove()
    for part in model.modules():
        if list(part.children()):
            part.training = False
    return flops


# %% wrong: every layer whose weight has as many axes as those of the two kinds
def layer_flops(model, x):
    flops, handles = {}, []
    for name, layer in model.named_modules():
        if getattr(layer, "weight", None) is not None and layer.weight.dim() in (2, 4):
            flops[name] = 0

            def count(layer, inputs, output, name=name):
                flops[name] += 2 * output.numel() * layer.weight[0].numel()

            handles.append(layer.register_forward_hook(count))
    try:
        with torch.no_grad():
            model(x)
    finally:
        for handle in handles:
            handle.remove()
    return flops


# %% wrong: transposed convolutions count as convolutions
def layer_flops(model, x):
    kinds = (nn.Linear, nn.Conv2d, nn.ConvTranspose2d)
    wanted = [(name, part) for name, part in model.named_modules() if isinstance(part, kinds)]
    result = {name: 0 for name, _ in wanted}
    hooks = [
        part.register_forward_hook(
            lambda part, _, y, name=name: result.update(
                {name: result[name] + 2 * y.numel() * part.weight[0].numel()}
            )
        )
        for name, part in wanted
    ]
    with torch.no_grad():
        model(x)
    for hook in hooks:
        hook.remove()
    return result


# %% wrong: by the counter of torch, which may name a shared layer by its last place
def layer_flops(model, x):
    counter = FlopCounterMode(display=False)
    with counter:
        model(x)
    counts = counter.get_flop_counts()
    root = type(model).__name__
    out = {}
    for name, m in model.named_modules():
        if isinstance(m, (nn.Linear, nn.Conv2d)):
            key = f"{root}.{name}" if name else root
            out[name] = int(sum(counts.get(key, {}).values()))
    return out
