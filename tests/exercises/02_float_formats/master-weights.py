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
