# %% wrong: casts up, and stays in the region
import torch


class Float32Island(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, *inputs):
        return self.inner(*(x.float() if x.is_floating_point() else x for x in inputs))


# %% wrong: leaves the region, and casts nothing up
import torch


class Float32Island(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, *inputs):
        with torch.autocast(inputs[0].device.type, enabled=False):
            return self.inner(*inputs)


# %% wrong: casts the result
import torch


class Float32Island(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, *inputs):
        return self.inner(*inputs).float()


# %% wrong: makes the module inside float32, which it is already
import torch


class Float32Island(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner.float()

    def forward(self, *inputs):
        return self.inner(*(x.float() if x.is_floating_point() else x for x in inputs)).float()


# %% wrong: casts integers as well
import torch


class Float32Island(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, *inputs):
        with torch.autocast(inputs[0].device.type, enabled=False):
            return self.inner(*(x.float() for x in inputs))


# %% wrong: casts the first input only
import torch


class Float32Island(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, first, *others):
        with torch.autocast(first.device.type, enabled=False):
            return self.inner(first.float() if first.is_floating_point() else first, *others)


# %% wrong: takes one input
import torch


class Float32Island(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        with torch.autocast(x.device.type, enabled=False):
            return self.inner(x.float() if x.is_floating_point() else x)


# %% wrong: casts the result back to what came in
import torch


class Float32Island(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, *inputs):
        with torch.autocast(inputs[0].device.type, enabled=False):
            cast = [x.float() if x.is_floating_point() else x for x in inputs]
            result = self.inner(*cast)
        return result.to(inputs[0].dtype) if inputs[0].is_floating_point() else result


# %% wrong: switches autocast off for good
import torch


class Float32Island(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, *inputs):
        torch.set_autocast_enabled("cpu", False)
        return self.inner(*(x.float() if x.is_floating_point() else x for x in inputs))


# %% wrong: switches autocast on afterwards, where it was not
import torch


class Float32Island(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, *inputs):
        torch.set_autocast_enabled("cpu", False)
        result = self.inner(*(x.float() if x.is_floating_point() else x for x in inputs))
        torch.set_autocast_enabled("cpu", True)
        return result


# %% wrong: knows bfloat16 only
import torch


class Float32Island(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, *inputs):
        with torch.autocast(inputs[0].device.type, enabled=False):
            return self.inner(*(x.float() if x.dtype == torch.bfloat16 else x for x in inputs))


# %% wrong: without autograd, like an evaluation
import torch


class Float32Island(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, *inputs):
        with torch.no_grad(), torch.autocast(inputs[0].device.type, enabled=False):
            return self.inner(*(x.float() if x.is_floating_point() else x for x in inputs))


# %% right: the region is left by a decorator
import torch


class Float32Island(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    @torch.autocast("cpu", enabled=False)
    def forward(self, *inputs):
        low = (torch.float16, torch.bfloat16)
        return self.inner(*[x.to(torch.float32) if x.dtype in low else x for x in inputs])


# %% right: the switch is kept and put back
import torch


class Float32Island(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, *inputs):
        was_on = torch.is_autocast_enabled("cpu")
        torch.set_autocast_enabled("cpu", False)
        try:
            return self.inner(*map(self.cast, inputs))
        finally:
            torch.set_autocast_enabled("cpu", was_on)

    @staticmethod
    def cast(x):
        return x.to(torch.promote_types(x.dtype, torch.float32)) if x.is_floating_point() else x


# %% right: a Sequential that holds the module, and casts with type()
import torch


class Float32Island(torch.nn.Sequential):
    def forward(self, *inputs):
        device_type = inputs[0].device.type
        with torch.autocast(device_type, enabled=False):
            ready = []
            for x in inputs:
                ready.append(x.type(torch.float32) if torch.is_floating_point(x) else x)
            return self[0](*ready)


# %% wrong: detaches the inputs, so that the layers before it learn nothing
import torch


class Float32Island(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, *inputs):
        cast = [x.detach().float() if x.is_floating_point() else x for x in inputs]
        with torch.autocast(inputs[0].device.type, enabled=False):
            return self.inner(*cast)


# %% wrong: detaches the 16-bit inputs
import torch


class Float32Island(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, *inputs):
        low = (torch.float16, torch.bfloat16)
        cast = [x.detach().float() if x.dtype in low else x for x in inputs]
        with torch.autocast(inputs[0].device.type, enabled=False):
            return self.inner(*cast)


# %% wrong: switches the module inside to evaluation
import torch


class Float32Island(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, *inputs):
        cast = [x.float() if x.is_floating_point() else x for x in inputs]
        with torch.autocast(inputs[0].device.type, enabled=False):
            self.inner.eval()
            return self.inner(*cast)


# %% wrong: computes with a copy, whose weights get the gradients
import torch


class Float32Island(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, *inputs):
        import copy

        inner = copy.deepcopy(self.inner)
        cast = [x.float() if x.is_floating_point() else x for x in inputs]
        with torch.autocast(inputs[0].device.type, enabled=False):
            return inner(*cast)


# %% wrong: takes the module inside for a linear layer
import torch


class Float32Island(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, *inputs):
        cast = [x.float() if x.is_floating_point() else x for x in inputs]
        with torch.autocast(inputs[0].device.type, enabled=False):
            if cast[0].is_floating_point() and hasattr(self.inner, "in_features"):
                return torch.nn.functional.linear(cast[0], self.inner.weight, self.inner.bias)
            return self.inner(cast[0])


# %% wrong: rounds the weights to bfloat16 first, as the region would
import torch


class Float32Island(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, *inputs):
        cast = [x.float() if x.is_floating_point() else x for x in inputs]
        with torch.autocast(inputs[0].device.type, enabled=False):
            for weight in self.inner.parameters():
                weight.data = weight.data.bfloat16().float()
            return self.inner(*cast)


# %% right: a region of float32, on the device of the weights
import torch


class Float32Island(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, *inputs):
        cast = [x.float() if x.is_floating_point() else x for x in inputs]
        with torch.autocast(next(self.inner.parameters()).device.type, enabled=False):
            return self.inner(*cast)


# %% wrong: runs the module inside twice, once for its dtype
import torch


class Float32Island(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, *inputs):
        cast = [x.float() if x.is_floating_point() else x for x in inputs]
        with torch.autocast(inputs[0].device.type, enabled=False):
            kind = self.inner(*cast).dtype
            return self.inner(*cast).to(kind)


# %% wrong: runs the module inside in training mode
import torch


class Float32Island(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, *inputs):
        cast = [x.float() if x.is_floating_point() else x for x in inputs]
        with torch.autocast(inputs[0].device.type, enabled=False):
            return self.inner.train()(*cast)


# %% wrong: leaves the region only where an input is 16 bits wide
import torch


class Float32Island(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, *inputs):
        if any(x.dtype in (torch.float16, torch.bfloat16) for x in inputs):
            cast = [x.float() if x.is_floating_point() else x for x in inputs]
            with torch.autocast(inputs[0].device.type, enabled=False):
                return self.inner(*cast)
        return self.inner(*inputs)


# %% wrong: makes the module inside float64 for good
import torch


class Float32Island(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, *inputs):
        cast = [x.double() if x.is_floating_point() else x for x in inputs]
        with torch.autocast(inputs[0].device.type, enabled=False):
            return self.inner.double()(*cast).float()


# %% wrong: the weights inside learn nothing
import torch


class Float32Island(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner.requires_grad_(False)

    def forward(self, *inputs):
        cast = [x.float() if x.is_floating_point() else x for x in inputs]
        with torch.autocast(inputs[0].device.type, enabled=False):
            return self.inner(*cast)


# %% wrong: casts the first two inputs only
import torch


class Float32Island(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, *inputs):
        first = [x.float() if x.is_floating_point() else x for x in inputs[:2]]
        with torch.autocast(inputs[0].device.type, enabled=False):
            return self.inner(*first, *inputs[2:])


# %% wrong: looks at the dtype of the first input only
import torch


class Float32Island(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, *inputs):
        floats = inputs[0].is_floating_point()
        cast = [x.float() if floats else x for x in inputs]
        with torch.autocast(inputs[0].device.type, enabled=False):
            return self.inner(*cast)


# %% wrong: clips what goes in
import torch


class Float32Island(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, *inputs):
        cast = [x.float().clamp(-100, 100) if x.is_floating_point() else x for x in inputs]
        with torch.autocast(inputs[0].device.type, enabled=False):
            return self.inner(*cast)


# %% wrong: makes int64 of all that is no float
class Float32Island(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, *inputs):
        cast = [x.float() if x.is_floating_point() else x.long() for x in inputs]
        with torch.autocast(inputs[0].device.type, enabled=False):
            return self.inner(*cast)


# %% wrong: takes int64 and booleans for all that is no float
import torch


class Float32Island(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, *inputs):
        kept = (torch.int64, torch.bool)
        cast = [x if x.dtype in kept else x.float() for x in inputs]
        with torch.autocast(inputs[0].device.type, enabled=False):
            return self.inner(*cast)


# %% wrong: detaches all inputs but the first
import torch


class Float32Island(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, *inputs):
        first, *others = (x.float() if x.is_floating_point() else x for x in inputs)
        with torch.autocast(inputs[0].device.type, enabled=False):
            return self.inner(first, *(x.detach() for x in others))


# %% wrong: makes int64 of int32, and keeps booleans
import torch


class Float32Island(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, *inputs):
        cast = [
            x.float() if x.is_floating_point() else x.long() if x.dtype == torch.int32 else x
            for x in inputs
        ]
        with torch.autocast(inputs[0].device.type, enabled=False):
            return self.inner(*cast)


# %% wrong: makes int32 of int64, and keeps booleans
import torch


class Float32Island(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, *inputs):
        cast = [
            x.float() if x.is_floating_point() else x.int() if x.dtype == torch.int64 else x
            for x in inputs
        ]
        with torch.autocast(inputs[0].device.type, enabled=False):
            return self.inner(*cast)


# %% wrong: calls the method forward, which skips hooks
import torch


class Float32Island(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, *inputs):
        cast = [x.float() if x.is_floating_point() else x for x in inputs]
        with torch.autocast(inputs[0].device.type, enabled=False):
            return self.inner.forward(*cast)


# %% wrong: leaves the region only where the first input is a float
import torch


class Float32Island(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, *inputs):
        if not inputs[0].is_floating_point():
            return self.inner(*[x.float() if x.is_floating_point() else x for x in inputs])
        cast = [x.float() if x.is_floating_point() else x for x in inputs]
        with torch.autocast(inputs[0].device.type, enabled=False):
            return self.inner(*cast)


# %% right: by functional_call, with the module's own weights
import torch


class Float32Island(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, *inputs):
        cast = [x.float() if x.is_floating_point() else x for x in inputs]
        with torch.autocast(inputs[0].device.type, enabled=False):
            return torch.func.functional_call(
                self.inner, dict(self.inner.named_parameters()), tuple(cast)
            )


# %% right: a float32 result is cast to float32 once more
import torch


class Float32Island(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, *inputs):
        cast = [x.float() if x.is_floating_point() else x for x in inputs]
        with torch.autocast(inputs[0].device.type, enabled=False):
            return self.inner(*cast).float()
