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
