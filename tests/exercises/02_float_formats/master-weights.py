# %% wrong: makes the float32 copy anew in each step, from the rounded parameter
class MasterSGD:
    def __init__(self, parameters, learning_rate):
        self.parameters, self.learning_rate = list(parameters), learning_rate

    def step(self):
        import torch

        with torch.no_grad():
            for parameter in self.parameters:
                if parameter.grad is not None:
                    master = parameter.float() - self.learning_rate * parameter.grad.float()
                    parameter.copy_(master)


# %% wrong: replaces its own list entries: the model keeps the old tensors
class MasterSGD:
    def __init__(self, parameters, learning_rate):
        self.parameters = list(parameters)
        self.masters = [parameter.detach().float() for parameter in self.parameters]
        self.learning_rate = learning_rate

    def step(self):
        for i, parameter in enumerate(self.parameters):
            if parameter.grad is not None:
                self.masters[i] = self.masters[i] - self.learning_rate * parameter.grad.float()
                self.parameters[i] = self.masters[i].to(parameter.dtype)


# %% wrong: goes through the generator twice
class MasterSGD:
    def __init__(self, parameters, learning_rate):
        self.masters = [parameter.detach().float() for parameter in parameters]
        self.parameters = list(parameters)
        self.learning_rate = learning_rate

    def step(self):
        import torch

        with torch.no_grad():
            for parameter, master in zip(self.parameters, self.masters, strict=False):
                if parameter.grad is not None:
                    master -= self.learning_rate * parameter.grad.float()
                    parameter.copy_(master)


# %% wrong: climbs instead of descending
class MasterSGD:
    def __init__(self, parameters, learning_rate):
        self.parameters = list(parameters)
        self.masters = [parameter.detach().float() for parameter in self.parameters]
        self.learning_rate = learning_rate

    def step(self):
        import torch

        with torch.no_grad():
            for parameter, master in zip(self.parameters, self.masters, strict=True):
                if parameter.grad is not None:
                    master += self.learning_rate * parameter.grad.float()
                    parameter.copy_(master)


# %% wrong: masters in bf16
class MasterSGD:
    def __init__(self, parameters, learning_rate):
        self.parameters = list(parameters)
        self.masters = [parameter.detach().clone() for parameter in self.parameters]
        self.learning_rate = learning_rate

    def step(self):
        import torch

        with torch.no_grad():
            for parameter, master in zip(self.parameters, self.masters, strict=True):
                if parameter.grad is not None:
                    master -= self.learning_rate * parameter.grad
                    parameter.copy_(master)


# %% wrong: stumbles over a parameter without a gradient
class MasterSGD:
    def __init__(self, parameters, learning_rate):
        self.parameters = list(parameters)
        self.masters = [parameter.detach().float() for parameter in self.parameters]
        self.learning_rate = learning_rate

    def step(self):
        import torch

        with torch.no_grad():
            for parameter, master in zip(self.parameters, self.masters, strict=True):
                master -= self.learning_rate * parameter.grad.float()
                parameter.copy_(master)


# %% wrong: turns the parameters into float32
class MasterSGD:
    def __init__(self, parameters, learning_rate):
        self.parameters = list(parameters)
        self.learning_rate = learning_rate
        for parameter in self.parameters:
            parameter.data = parameter.data.float()

    def step(self):
        import torch

        with torch.no_grad():
            for parameter in self.parameters:
                if parameter.grad is not None:
                    parameter -= self.learning_rate * parameter.grad.float()


# %% wrong: forgets the gradients after the step
class MasterSGD:
    def __init__(self, parameters, learning_rate):
        self.parameters = list(parameters)
        self.masters = [parameter.detach().float() for parameter in self.parameters]
        self.learning_rate = learning_rate

    def step(self):
        import torch

        with torch.no_grad():
            for parameter, master in zip(self.parameters, self.masters, strict=True):
                if parameter.grad is not None:
                    master -= self.learning_rate * parameter.grad.float()
                    parameter.copy_(master)
                    parameter.grad = None


# %% wrong: rounds the product of learning rate and gradient to 16 bits
class MasterSGD:
    def __init__(self, parameters, learning_rate):
        self.parameters = list(parameters)
        self.masters = [parameter.detach().float() for parameter in self.parameters]
        self.learning_rate = learning_rate

    def step(self):
        import torch

        with torch.no_grad():
            for parameter, master in zip(self.parameters, self.masters, strict=True):
                if parameter.grad is not None:
                    master -= self.learning_rate * parameter.grad
                    parameter.copy_(master)


# %% wrong: decays the weights on the way, as the recipe it was taken from does
class MasterSGD:
    def __init__(self, parameters, learning_rate):
        import torch

        self.parameters = list(parameters)
        self.masters = [parameter.detach().float() for parameter in self.parameters]
        self.optimizer = torch.optim.SGD(self.masters, lr=learning_rate, weight_decay=1e-2)

    def step(self):
        for parameter, master in zip(self.parameters, self.masters, strict=True):
            master.grad = None if parameter.grad is None else parameter.grad.float()
        self.optimizer.step()
        for parameter, master in zip(self.parameters, self.masters, strict=True):
            parameter.data.copy_(master)


# %% wrong: keeps a master's old gradient where the parameter has none
class MasterSGD:
    def __init__(self, parameters, learning_rate):
        import torch

        self.parameters = list(parameters)
        self.masters = [parameter.detach().float() for parameter in self.parameters]
        self.optimizer = torch.optim.SGD(self.masters, lr=learning_rate)

    def step(self):
        for parameter, master in zip(self.parameters, self.masters, strict=True):
            if parameter.grad is not None:
                master.grad = parameter.grad.float()
        self.optimizer.step()
        for parameter, master in zip(self.parameters, self.masters, strict=True):
            parameter.data.copy_(master)


# %% wrong: switches the gradient off to change the parameter, and not on again
class MasterSGD:
    def __init__(self, parameters, learning_rate):
        self.parameters = list(parameters)
        self.masters = [parameter.detach().float() for parameter in self.parameters]
        self.learning_rate = learning_rate

    def step(self):
        for parameter, master in zip(self.parameters, self.masters, strict=True):
            if parameter.grad is not None:
                gradient = parameter.grad.float()
                parameter.requires_grad_(False)
                master -= self.learning_rate * gradient
                parameter.copy_(master)


# %% wrong: multiplies the gradient itself by the learning rate
class MasterSGD:
    def __init__(self, parameters, learning_rate):
        self.parameters = list(parameters)
        self.masters = [parameter.detach().float() for parameter in self.parameters]
        self.learning_rate = learning_rate

    def step(self):
        import torch

        with torch.no_grad():
            for parameter, master in zip(self.parameters, self.masters, strict=True):
                if parameter.grad is not None:
                    master -= parameter.grad.mul_(self.learning_rate).float()
                    parameter.copy_(master)


# %% wrong: cuts the master off to bf16 instead of rounding it
class MasterSGD:
    def __init__(self, parameters, learning_rate):
        self.parameters = list(parameters)
        self.masters = [parameter.detach().float() for parameter in self.parameters]
        self.learning_rate = learning_rate

    def step(self):
        import torch

        with torch.no_grad():
            for parameter, master in zip(self.parameters, self.masters, strict=True):
                if parameter.grad is not None:
                    master -= self.learning_rate * parameter.grad.float()
                    parameter.copy_((master.view(torch.int32) >> 16 << 16).view(torch.float32))


# %% wrong: stops at the first parameter without a gradient
class MasterSGD:
    def __init__(self, parameters, learning_rate):
        self.parameters = list(parameters)
        self.masters = [parameter.detach().float() for parameter in self.parameters]
        self.learning_rate = learning_rate

    def step(self):
        import torch

        with torch.no_grad():
            for parameter, master in zip(self.parameters, self.masters, strict=True):
                if parameter.grad is None:
                    break
                master -= self.learning_rate * parameter.grad.float()
                parameter.copy_(master)


# %% wrong: Kahan's sum whose updates are rounded to 16 bits
class MasterSGD:
    def __init__(self, parameters, learning_rate):
        import torch

        self.parameters = list(parameters)
        self.rests = [torch.zeros_like(p, requires_grad=False) for p in self.parameters]
        self.learning_rate = learning_rate

    def step(self):
        import torch

        with torch.no_grad():
            for parameter, rest in zip(self.parameters, self.rests, strict=True):
                if parameter.grad is not None:
                    wanted = rest - self.learning_rate * parameter.grad
                    total = parameter + wanted
                    rest.copy_(wanted - (total - parameter))
                    parameter.copy_(total)


# %% wrong: rounds the learning rate to 16 bits
class MasterSGD:
    def __init__(self, parameters, learning_rate):
        import torch

        self.parameters = list(parameters)
        self.masters = [parameter.detach().float() for parameter in self.parameters]
        self.learning_rate = torch.tensor(learning_rate).bfloat16().float()

    def step(self):
        import torch

        with torch.no_grad():
            for parameter, master in zip(self.parameters, self.masters, strict=True):
                if parameter.grad is not None:
                    master -= self.learning_rate * parameter.grad.float()
                    parameter.copy_(master)


# %% wrong: rounds the product to bfloat16, whatever the parameters' dtype
class MasterSGD:
    def __init__(self, parameters, learning_rate):
        self.parameters = list(parameters)
        self.masters = [parameter.detach().float() for parameter in self.parameters]
        self.learning_rate = learning_rate

    def step(self):
        import torch

        with torch.no_grad():
            for parameter, master in zip(self.parameters, self.masters, strict=True):
                if parameter.grad is not None:
                    master -= (self.learning_rate * parameter.grad.float()).bfloat16()
                    parameter.copy_(master)


# %% wrong: masters in float64, which cost twice as much
class MasterSGD:
    def __init__(self, parameters, learning_rate):
        self.parameters = list(parameters)
        self.masters = [parameter.detach().double() for parameter in self.parameters]
        self.learning_rate = learning_rate

    def step(self):
        import torch

        with torch.no_grad():
            for parameter, master in zip(self.parameters, self.masters, strict=True):
                if parameter.grad is not None:
                    master -= self.learning_rate * parameter.grad.double()
                    parameter.copy_(master)


# %% right: torch's SGD on the masters
class MasterSGD:
    def __init__(self, parameters, learning_rate):
        import torch

        self.parameters = [*parameters]
        self.masters = [parameter.detach().float() for parameter in self.parameters]
        self.optimizer = torch.optim.SGD(self.masters, lr=learning_rate)

    def step(self):
        for parameter, master in zip(self.parameters, self.masters, strict=True):
            master.grad = None if parameter.grad is None else parameter.grad.float()
        self.optimizer.step()
        for parameter, master in zip(self.parameters, self.masters, strict=True):
            parameter.data.copy_(master)


# %% right: pairs in one list, masters replaced instead of changed
class MasterSGD:
    def __init__(self, parameters, learning_rate):
        self.pairs = [[parameter, parameter.detach().float()] for parameter in parameters]
        self.rate = learning_rate

    def step(self):
        for pair in self.pairs:
            parameter, master = pair
            if parameter.grad is None:
                continue
            pair[1] = master - self.rate * parameter.grad.float()
            parameter.data = pair[1].to(parameter.dtype)


# %% right: keeps what the parameter is short of instead of the whole master
class MasterSGD:
    def __init__(self, parameters, learning_rate):
        import torch

        self.parameters = list(parameters)
        self.rests = [torch.zeros_like(p, dtype=torch.float32) for p in self.parameters]
        self.learning_rate = learning_rate

    def step(self):
        for i, parameter in enumerate(self.parameters):
            if parameter.grad is not None:
                wanted = parameter.detach().float() + self.rests[i]
                wanted = wanted - self.learning_rate * parameter.grad.float()
                parameter.data.copy_(wanted)
                self.rests[i] = wanted - parameter.detach().float()


# %% right: masters kept by the identity of their parameters
class MasterSGD:
    def __init__(self, parameters, learning_rate):
        self.parameters, self.learning_rate = list(parameters), learning_rate
        self.masters = {id(parameter): parameter.detach().float() for parameter in self.parameters}

    def step(self):
        for parameter in self.parameters:
            if parameter.grad is not None:
                master = self.masters[id(parameter)]
                master.add_(parameter.grad, alpha=-self.learning_rate)
                parameter.data.copy_(master)


# %% right: makes each master at its first step
class MasterSGD:
    def __init__(self, parameters, learning_rate):
        self.parameters, self.learning_rate = list(parameters), learning_rate
        self.masters = [None] * len(self.parameters)

    def step(self):
        import torch

        with torch.no_grad():
            for i, parameter in enumerate(self.parameters):
                if parameter.grad is not None:
                    if self.masters[i] is None:
                        self.masters[i] = parameter.float()
                    self.masters[i] -= self.learning_rate * parameter.grad.float()
                    parameter.copy_(self.masters[i])


# %% wrong: masters kept by shape, so that parameters of one shape share one
class MasterSGD:
    def __init__(self, parameters, learning_rate):
        self.parameters = list(parameters)
        kept = {tuple(p.shape): p.detach().float() for p in self.parameters}
        self.masters = [kept[tuple(p.shape)] for p in self.parameters]
        self.learning_rate = learning_rate

    def step(self):
        import torch

        with torch.no_grad():
            for parameter, master in zip(self.parameters, self.masters, strict=True):
                if parameter.grad is not None:
                    master -= self.learning_rate * parameter.grad.float()
                    parameter.copy_(master)


# %% wrong: limits the learning rate
class MasterSGD:
    def __init__(self, parameters, learning_rate):
        self.parameters = list(parameters)
        self.masters = [parameter.detach().float() for parameter in self.parameters]
        self.learning_rate = min(learning_rate, 2.0)

    def step(self):
        import torch

        with torch.no_grad():
            for parameter, master in zip(self.parameters, self.masters, strict=True):
                if parameter.grad is not None:
                    master -= self.learning_rate * parameter.grad.float()
                    parameter.copy_(master)


# %% wrong: updates the 16-bit parameters themselves
class MasterSGD:
    def __init__(self, parameters, learning_rate):
        self.parameters, self.learning_rate = list(parameters), learning_rate

    def step(self):
        import torch

        with torch.no_grad():
            for parameter in self.parameters:
                if parameter.grad is not None:
                    parameter -= self.learning_rate * parameter.grad


# %% wrong: rounds every gradient to bfloat16
class MasterSGD:
    def __init__(self, parameters, learning_rate):
        self.parameters, self.learning_rate = list(parameters), learning_rate
        self.masters = [parameter.detach().float() for parameter in self.parameters]

    def step(self):
        import torch

        with torch.no_grad():
            for parameter, master in zip(self.parameters, self.masters, strict=True):
                if parameter.grad is not None:
                    master -= self.learning_rate * parameter.grad.bfloat16().float()
                    parameter.copy_(master)


# %% wrong: keeps the masters outside, where a second optimizer finds those of the first
MASTERS = []


class MasterSGD:
    def __init__(self, parameters, learning_rate):
        self.parameters = list(parameters)
        MASTERS.extend(parameter.detach().float() for parameter in self.parameters)
        self.learning_rate = learning_rate

    def step(self):
        import torch

        with torch.no_grad():
            for parameter, master in zip(self.parameters, MASTERS, strict=False):
                if parameter.grad is not None:
                    master -= self.learning_rate * parameter.grad.float()
                    parameter.copy_(master)


# %% wrong: converts every gradient to float16 on the way to float32
class MasterSGD:
    def __init__(self, parameters, learning_rate):
        self.parameters, self.learning_rate = list(parameters), learning_rate
        self.masters = [parameter.detach().float() for parameter in self.parameters]

    def step(self):
        import torch

        with torch.no_grad():
            for parameter, master in zip(self.parameters, self.masters, strict=True):
                if parameter.grad is not None:
                    master -= self.learning_rate * parameter.grad.half().float()
                    parameter.copy_(master)


# %% wrong: masters that start at the parameter's value in float16
class MasterSGD:
    def __init__(self, parameters, learning_rate):
        self.parameters, self.learning_rate = list(parameters), learning_rate
        self.masters = [parameter.detach().half().float() for parameter in self.parameters]

    def step(self):
        import torch

        with torch.no_grad():
            for parameter, master in zip(self.parameters, self.masters, strict=True):
                if parameter.grad is not None:
                    master -= self.learning_rate * parameter.grad.float()
                    parameter.copy_(master)


# %% wrong: lists of the class, which all optimizers share
class MasterSGD:
    parameters, masters = [], []

    def __init__(self, parameters, learning_rate):
        for parameter in parameters:
            self.parameters.append(parameter)
            self.masters.append(parameter.detach().float())
        self.learning_rate = learning_rate

    def step(self):
        for parameter, master in zip(self.parameters, self.masters, strict=True):
            if parameter.grad is not None:
                master -= self.learning_rate * parameter.grad.float()
                parameter.data.copy_(master)


# %% wrong: a learning rate of the class, which the next optimizer replaces
class MasterSGD:
    def __init__(self, parameters, learning_rate):
        self.parameters = list(parameters)
        self.masters = [parameter.detach().float() for parameter in self.parameters]
        type(self).learning_rate = learning_rate

    def step(self):
        for parameter, master in zip(self.parameters, self.masters, strict=True):
            if parameter.grad is not None:
                master -= self.learning_rate * parameter.grad.float()
                parameter.data.copy_(master)


# %% wrong: gives a parameter without a gradient one of zeros
class MasterSGD:
    def __init__(self, parameters, learning_rate):
        self.parameters = list(parameters)
        self.masters = [parameter.detach().float() for parameter in self.parameters]
        self.learning_rate = learning_rate

    def step(self):
        import torch

        for parameter, master in zip(self.parameters, self.masters, strict=True):
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            master -= self.learning_rate * parameter.grad.float()
            parameter.data.copy_(master)


# %% right: a table for all optimizers, with the masters of each parameter by its identity
class MasterSGD:
    masters = {}  # noqa: RUF012

    def __init__(self, parameters, learning_rate):
        self.parameters, self.learning_rate = list(parameters), learning_rate
        for parameter in self.parameters:
            MasterSGD.masters[id(parameter)] = parameter.detach().float()

    def step(self):
        for parameter in self.parameters:
            if parameter.grad is not None:
                master = MasterSGD.masters[id(parameter)]
                master -= self.learning_rate * parameter.grad.float()
                parameter.data.copy_(master)


# %% wrong: gives every parameter the dtype of the first
class MasterSGD:
    def __init__(self, parameters, learning_rate):
        self.parameters = list(parameters)
        self.masters = [parameter.detach().float() for parameter in self.parameters]
        self.learning_rate = learning_rate

    @torch.no_grad()
    def step(self):
        for parameter, master in zip(self.parameters, self.masters, strict=True):
            if parameter.grad is not None:
                master -= self.learning_rate * parameter.grad.float()
                parameter.copy_(master.to(self.parameters[0].dtype))
