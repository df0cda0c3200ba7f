# %% wrong: float32 throughout, no region
def train_step(model, optimizer, loss_function, inputs, targets):
    optimizer.zero_grad()
    loss = loss_function(model(inputs), targets)
    loss.backward()
    optimizer.step()
    return loss.item()


# %% wrong: the backward pass stands inside the region
def train_step(model, optimizer, loss_function, inputs, targets):
    import torch

    optimizer.zero_grad()
    with torch.autocast(inputs.device.type, dtype=torch.bfloat16):
        loss = loss_function(model(inputs), targets)
        loss.backward()
    optimizer.step()
    return loss.item()


# %% wrong: all of it stands inside the region
def train_step(model, optimizer, loss_function, inputs, targets):
    import torch

    with torch.autocast(inputs.device.type, dtype=torch.bfloat16):
        optimizer.zero_grad()
        loss = loss_function(model(inputs), targets)
        loss.backward()
        optimizer.step()
        return loss.item()


# %% wrong: the loss stands outside, and is computed in bfloat16
def train_step(model, optimizer, loss_function, inputs, targets):
    import torch

    optimizer.zero_grad()
    with torch.autocast(inputs.device.type, dtype=torch.bfloat16):
        outputs = model(inputs)
    loss = loss_function(outputs, targets)
    loss.backward()
    optimizer.step()
    return loss.item()


# %% wrong: the gradients of earlier steps stay
def train_step(model, optimizer, loss_function, inputs, targets):
    import torch

    with torch.autocast(inputs.device.type, dtype=torch.bfloat16):
        loss = loss_function(model(inputs), targets)
    loss.backward()
    optimizer.step()
    return loss.item()


# %% wrong: converts the model instead
def train_step(model, optimizer, loss_function, inputs, targets):
    import torch

    model = model.to(torch.bfloat16)
    optimizer.zero_grad()
    loss = loss_function(model(inputs.to(torch.bfloat16)).float(), targets)
    loss.backward()
    optimizer.step()
    return loss.item()


# %% wrong: casts the inputs and leaves the model in float32
def train_step(model, optimizer, loss_function, inputs, targets):
    import torch

    optimizer.zero_grad()
    loss = loss_function(model(inputs.to(torch.bfloat16).float()), targets)
    loss.backward()
    optimizer.step()
    return loss.item()


# %% wrong: float16 instead of bfloat16, without a scaler
def train_step(model, optimizer, loss_function, inputs, targets):
    import torch

    optimizer.zero_grad()
    with torch.autocast(inputs.device.type, dtype=torch.float16):
        loss = loss_function(model(inputs), targets)
    loss.backward()
    optimizer.step()
    return loss.item()


# %% wrong: forgets the optimizer's step
def train_step(model, optimizer, loss_function, inputs, targets):
    import torch

    optimizer.zero_grad()
    with torch.autocast(inputs.device.type, dtype=torch.bfloat16):
        loss = loss_function(model(inputs), targets)
    loss.backward()
    return loss.item()


# %% wrong: returns the loss as a tensor
def train_step(model, optimizer, loss_function, inputs, targets):
    import torch

    optimizer.zero_grad()
    with torch.autocast(inputs.device.type, dtype=torch.bfloat16):
        loss = loss_function(model(inputs), targets)
    loss.backward()
    optimizer.step()
    return loss


# %% wrong: returns the loss after the step
def train_step(model, optimizer, loss_function, inputs, targets):
    import torch

    optimizer.zero_grad()
    with torch.autocast(inputs.device.type, dtype=torch.bfloat16):
        loss = loss_function(model(inputs), targets)
    loss.backward()
    optimizer.step()
    with torch.no_grad(), torch.autocast(inputs.device.type, dtype=torch.bfloat16):
        return loss_function(model(inputs), targets).item()


# %% wrong: rounds the gradients to bfloat16 before the step
def train_step(model, optimizer, loss_function, inputs, targets):
    import torch

    optimizer.zero_grad()
    with torch.autocast(inputs.device.type, dtype=torch.bfloat16):
        loss = loss_function(model(inputs), targets)
    loss.backward()
    for weight in model.parameters():
        weight.grad = weight.grad.to(torch.bfloat16).float()
    optimizer.step()
    return loss.item()


# %% right: gradients are cleared between backward and forward, and the region is a decorator
def train_step(model, optimizer, loss_function, inputs, targets):
    import torch

    @torch.autocast(inputs.device.type, dtype=torch.bfloat16)
    def forward():
        return loss_function(model(inputs), targets)

    loss = forward()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return float(loss.detach())


# %% wrong: the loss outside, after a cast up, where a product in it is float32
def train_step(model, optimizer, loss_function, inputs, targets):
    import torch

    with torch.autocast(device_type=inputs.device.type, dtype=torch.bfloat16):
        outputs = model(inputs)
    loss = loss_function(outputs.float(), targets)
    for weight in model.parameters():
        weight.grad = None
    loss.backward()
    optimizer.step()
    return loss.item()


# %% right: by autograd.grad, with the gradients put in their place
def train_step(model, optimizer, loss_function, inputs, targets):
    import torch

    with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
        loss = loss_function(model(inputs), targets)
    optimizer.zero_grad()
    weights = [w for w in model.parameters() if w.requires_grad]
    for weight, slope in zip(weights, torch.autograd.grad(loss, weights), strict=True):
        weight.grad = slope
    optimizer.step()
    return loss.tolist()


# %% wrong: casts the inputs by hand, which a float32 part at the front pays for
def train_step(model, optimizer, loss_function, inputs, targets):
    import torch

    optimizer.zero_grad()
    with torch.autocast(inputs.device.type, dtype=torch.bfloat16):
        loss = loss_function(model(inputs.bfloat16()), targets)
    loss.backward()
    optimizer.step()
    return loss.item()


# %% wrong: switches the model to evaluation
def train_step(model, optimizer, loss_function, inputs, targets):
    import torch

    model.eval()
    optimizer.zero_grad()
    with torch.autocast(inputs.device.type, dtype=torch.bfloat16):
        loss = loss_function(model(inputs), targets)
    loss.backward()
    optimizer.step()
    return loss.item()


# %% wrong: switches the model to training
def train_step(model, optimizer, loss_function, inputs, targets):
    import torch

    model.train()
    optimizer.zero_grad()
    with torch.autocast(inputs.device.type, dtype=torch.bfloat16):
        loss = loss_function(model(inputs), targets)
    loss.backward()
    optimizer.step()
    return loss.item()


# %% wrong: a forward pass for the loss and another one for the way back
def train_step(model, optimizer, loss_function, inputs, targets):
    import torch

    optimizer.zero_grad()
    with torch.autocast(inputs.device.type, dtype=torch.bfloat16):
        before = loss_function(model(inputs), targets).item()
        loss = loss_function(model(inputs), targets)
    loss.backward()
    optimizer.step()
    return before


# %% wrong: clears the gradients only when the step is done
def train_step(model, optimizer, loss_function, inputs, targets):
    import torch

    with torch.autocast(inputs.device.type, dtype=torch.bfloat16):
        loss = loss_function(model(inputs), targets)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()


# %% wrong: the switch is set by hand, and the cache keeps the old weights
def train_step(model, optimizer, loss_function, inputs, targets):
    import torch

    torch.set_autocast_dtype("cpu", torch.bfloat16)
    torch.set_autocast_enabled("cpu", True)
    loss = loss_function(model(inputs), targets)
    torch.set_autocast_enabled("cpu", False)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


# %% right: two regions, one for the model and one for the loss
def train_step(model, optimizer, loss_function, inputs, targets):
    import torch

    optimizer.zero_grad()
    with torch.autocast(inputs.device.type, dtype=torch.bfloat16):
        outputs = model(inputs)
    with torch.autocast(inputs.device.type, dtype=torch.bfloat16):
        loss = loss_function(outputs, targets)
    loss.backward()
    optimizer.step()
    return loss.item()


# %% right: backward and step in a disabled region inside of the region
def train_step(model, optimizer, loss_function, inputs, targets):
    import torch

    with torch.autocast(inputs.device.type, dtype=torch.bfloat16):
        loss = loss_function(model(inputs), targets)
        with torch.autocast(inputs.device.type, enabled=False):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return loss.item()


# %% wrong: updates by hand, with the learning rate of some other optimizer
def train_step(model, optimizer, loss_function, inputs, targets):
    optimizer.zero_grad()
    with torch.autocast(inputs.device.type, dtype=torch.bfloat16):
        loss = loss_function(model(inputs), targets)
    loss.backward()
    with torch.no_grad():
        for weight in model.parameters():
            weight -= 0.01 * weight.grad
    return loss.item()


# %% wrong: evaluates for the loss, and puts the mode back
def train_step(model, optimizer, loss_function, inputs, targets):
    was_training = model.training
    model.eval()
    optimizer.zero_grad()
    with torch.autocast(inputs.device.type, dtype=torch.bfloat16):
        loss = loss_function(model(inputs), targets)
    model.train(was_training)
    loss.backward()
    optimizer.step()
    return loss.item()


# %% right: a closure for the optimizer
def train_step(model, optimizer, loss_function, inputs, targets):
    def compute_loss():
        optimizer.zero_grad()
        with torch.autocast(inputs.device.type, dtype=torch.bfloat16):
            loss = loss_function(model(inputs), targets)
        loss.backward()
        return loss

    return optimizer.step(compute_loss).item()


# %% wrong: an SGD of its own takes the step
def train_step(model, optimizer, loss_function, inputs, targets):
    import torch

    own = torch.optim.SGD(model.parameters(), lr=optimizer.param_groups[0]["lr"])
    optimizer.zero_grad()
    with torch.autocast(inputs.device.type, dtype=torch.bfloat16):
        loss = loss_function(model(inputs), targets)
    loss.backward()
    own.step()
    return loss.item()


# %% wrong: the optimizer's state is cleared after the step
def train_step(model, optimizer, loss_function, inputs, targets):
    import torch

    optimizer.zero_grad()
    with torch.autocast(inputs.device.type, dtype=torch.bfloat16):
        loss = loss_function(model(inputs), targets)
    loss.backward()
    optimizer.step()
    optimizer.state.clear()
    return loss.item()


# %% wrong: an extra forward pass in evaluation mode before the step
def train_step(model, optimizer, loss_function, inputs, targets):
    import torch

    was_training = model.training
    model.eval()
    with torch.no_grad():
        model(inputs)
    model.train(was_training)
    optimizer.zero_grad()
    with torch.autocast(inputs.device.type, dtype=torch.bfloat16):
        loss = loss_function(model(inputs), targets)
    loss.backward()
    optimizer.step()
    return loss.item()


# %% wrong: an extra forward pass in evaluation mode after the step
def train_step(model, optimizer, loss_function, inputs, targets):
    import torch

    optimizer.zero_grad()
    with torch.autocast(inputs.device.type, dtype=torch.bfloat16):
        loss = loss_function(model(inputs), targets)
    loss.backward()
    optimizer.step()
    was_training = model.training
    model.eval()
    with torch.no_grad():
        model(inputs)
    model.train(was_training)
    return loss.item()


# %% wrong: leaves the model in evaluation mode
def train_step(model, optimizer, loss_function, inputs, targets):
    import torch

    optimizer.zero_grad()
    with torch.autocast(inputs.device.type, dtype=torch.bfloat16):
        loss = loss_function(model(inputs), targets)
    loss.backward()
    optimizer.step()
    model.eval()
    return loss.item()


# %% wrong: leaves the model in training mode
def train_step(model, optimizer, loss_function, inputs, targets):
    import torch

    optimizer.zero_grad()
    with torch.autocast(inputs.device.type, dtype=torch.bfloat16):
        loss = loss_function(model(inputs), targets)
    loss.backward()
    optimizer.step()
    model.train()
    return loss.item()


# %% wrong: trains frozen weights, too
def train_step(model, optimizer, loss_function, inputs, targets):
    import torch

    model.requires_grad_(True)
    optimizer.zero_grad()
    with torch.autocast(inputs.device.type, dtype=torch.bfloat16):
        loss = loss_function(model(inputs), targets)
    loss.backward()
    optimizer.step()
    return loss.item()


# %% right: with the optimizer's class as a type hint
def train_step(model, optimizer: torch.optim.Optimizer, loss_function, inputs, targets):
    optimizer.zero_grad()
    with torch.autocast(inputs.device.type, dtype=torch.bfloat16):
        loss = loss_function(model(inputs), targets)
    loss.backward()
    optimizer.step()
    return loss.item()


# %% wrong: keeps the stored gradients of frozen weights
def train_step(model, optimizer, loss_function, inputs, targets):
    import torch

    for weight in model.parameters():
        if weight.requires_grad:
            weight.grad = None
    with torch.autocast(inputs.device.type, dtype=torch.bfloat16):
        loss = loss_function(model(inputs), targets)
    loss.backward()
    optimizer.step()
    return loss.item()


# %% wrong: a region for floating-point inputs only
def train_step(model, optimizer, loss_function, inputs, targets):
    import torch

    optimizer.zero_grad()
    is_float = inputs.is_floating_point()
    with torch.autocast(inputs.device.type, dtype=torch.bfloat16, enabled=is_float):
        loss = loss_function(model(inputs), targets)
    loss.backward()
    optimizer.step()
    return loss.item()


# %% wrong: puts modules without trainable weights into evaluation mode, dropout among them
def train_step(model, optimizer, loss_function, inputs, targets):
    import torch

    for part in model.modules():
        if all(not weight.requires_grad for weight in part.parameters()):
            part.eval()
    optimizer.zero_grad()
    with torch.autocast(inputs.device.type, dtype=torch.bfloat16):
        loss = loss_function(model(inputs), targets)
    loss.backward()
    optimizer.step()
    return loss.item()


# %% wrong: makes the inputs require a gradient
def train_step(model, optimizer, loss_function, inputs, targets):
    import torch

    optimizer.zero_grad()
    if inputs.is_floating_point():
        inputs.requires_grad_()
    with torch.autocast(inputs.device.type, dtype=torch.bfloat16):
        loss = loss_function(model(inputs), targets)
    loss.backward()
    optimizer.step()
    return loss.item()


# %% wrong: puts every layer into the model's own mode
def train_step(model, optimizer, loss_function, inputs, targets):
    import torch

    model.train(model.training)
    optimizer.zero_grad()
    with torch.autocast(inputs.device.type, dtype=torch.bfloat16):
        loss = loss_function(model(inputs), targets)
    loss.backward()
    optimizer.step()
    return loss.item()


# %% wrong: rounds float targets to bfloat16
def train_step(model, optimizer, loss_function, inputs, targets):
    optimizer.zero_grad()
    if targets.is_floating_point():
        targets = targets.bfloat16()
    with torch.autocast(inputs.device.type, dtype=torch.bfloat16):
        loss = loss_function(model(inputs), targets)
    loss.backward()
    optimizer.step()
    return loss.item()


# %% wrong: casts float targets to the dtype of the outputs
def train_step(model, optimizer, loss_function, inputs, targets):
    optimizer.zero_grad()
    with torch.autocast(inputs.device.type, dtype=torch.bfloat16):
        outputs = model(inputs)
        if targets.is_floating_point():
            targets = targets.to(outputs.dtype)
        loss = loss_function(outputs, targets)
    loss.backward()
    optimizer.step()
    return loss.item()


# %% wrong: puts every layer into the model's own mode when the step is done
def train_step(model, optimizer, loss_function, inputs, targets):
    optimizer.zero_grad()
    with torch.autocast(inputs.device.type, dtype=torch.bfloat16):
        loss = loss_function(model(inputs), targets)
    loss.backward()
    optimizer.step()
    model.train(model.training)
    return loss.item()


# %% wrong: a second pass over a copy of the inputs, in evaluation mode, with all modes put back
def train_step(model, optimizer, loss_function, inputs, targets):
    modes = [(m, m.training) for m in model.modules()]
    optimizer.zero_grad()
    with torch.autocast(inputs.device.type, dtype=torch.bfloat16):
        loss = loss_function(model(inputs.clone()), targets)
    loss.backward()
    model.eval()
    with torch.no_grad(), torch.autocast(inputs.device.type, dtype=torch.bfloat16):
        model(inputs.clone())
    for m, t in modes:
        m.training = t
    optimizer.step()
    return loss.item()


# %% wrong: a first pass over a copy of the inputs, in evaluation mode, with all modes put back
def train_step(model, optimizer, loss_function, inputs, targets):
    modes = [(m, m.training) for m in model.modules()]
    model.eval()
    with torch.no_grad(), torch.autocast(inputs.device.type, dtype=torch.bfloat16):
        model(inputs.clone())
    for m, t in modes:
        m.training = t
    optimizer.zero_grad()
    with torch.autocast(inputs.device.type, dtype=torch.bfloat16):
        loss = loss_function(model(inputs), targets)
    loss.backward()
    optimizer.step()
    return loss.item()


# %% wrong: leaves autocast on after the step
def train_step(model, optimizer, loss_function, inputs, targets):
    optimizer.zero_grad()
    with torch.autocast(inputs.device.type, dtype=torch.bfloat16):
        loss = loss_function(model(inputs), targets)
    loss.backward()
    optimizer.step()
    torch.set_autocast_enabled("cpu", True)
    return loss.item()


# %% wrong: makes no step where the model is in evaluation mode
def train_step(model, optimizer, loss_function, inputs, targets):
    optimizer.zero_grad()
    with torch.autocast(inputs.device.type, dtype=torch.bfloat16):
        loss = loss_function(model(inputs), targets)
    loss.backward()
    if model.training:
        optimizer.step()
    return loss.item()


# %% wrong: fills stored gradients with zeros, so that weight decay moves frozen weights
def train_step(model, optimizer, loss_function, inputs, targets):
    optimizer.zero_grad(set_to_none=False)
    with torch.autocast(inputs.device.type, dtype=torch.bfloat16):
        loss = loss_function(model(inputs), targets)
    loss.backward()
    optimizer.step()
    return loss.item()


# %% wrong: does not name the dtype of the region
def train_step(model, optimizer, loss_function, inputs, targets):
    optimizer.zero_grad()
    with torch.autocast(inputs.device.type):
        loss = loss_function(model(inputs), targets)
    loss.backward()
    optimizer.step()
    return loss.item()


# %% right: the switch is set by hand and put back, and the cache is cleared
def train_step(model, optimizer, loss_function, inputs, targets):
    kind = inputs.device.type
    was, dtype = torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)
    torch.set_autocast_enabled(kind, True)
    torch.set_autocast_dtype(kind, torch.bfloat16)
    loss = loss_function(model(inputs), targets)
    torch.set_autocast_enabled(kind, was)
    torch.set_autocast_dtype(kind, dtype)
    torch.clear_autocast_cache()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


# %% right: enters the region and leaves it by hand
def train_step(model, optimizer, loss_function, inputs, targets):
    optimizer.zero_grad()
    region = torch.autocast(inputs.device.type, dtype=torch.bfloat16)
    region.__enter__()
    try:
        loss = loss_function(model(inputs), targets)
    finally:
        region.__exit__(None, None, None)
    loss.backward()
    optimizer.step()
    return loss.item()


# %% wrong: the optimizer takes its step inside a region, the backward pass outside
def train_step(model, optimizer, loss_function, inputs, targets):
    region = torch.autocast(inputs.device.type, dtype=torch.bfloat16)
    optimizer.zero_grad()
    with region:
        loss = loss_function(model(inputs), targets)
    loss.backward()
    with region:
        optimizer.step()
    return loss.item()


# %% wrong: the region is on in training mode only
def train_step(model, optimizer, loss_function, inputs, targets):
    optimizer.zero_grad()
    kind = inputs.device.type
    with torch.autocast(kind, dtype=torch.bfloat16, enabled=model.training):
        loss = loss_function(model(inputs), targets)
    loss.backward()
    optimizer.step()
    return loss.item()


# %% wrong: int32 inputs become floats, which no embedding takes
def train_step(model, optimizer, loss_function, inputs, targets):
    optimizer.zero_grad(set_to_none=True)
    inputs = inputs if inputs.dtype == torch.int64 else inputs.float()
    with torch.autocast(inputs.device.type, torch.bfloat16):
        outputs = model(inputs)
        loss = loss_function(outputs, targets)
    loss.backward()
    optimizer.step()
    return loss.item()
