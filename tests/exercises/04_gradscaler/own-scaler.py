# %% wrong: a growth does not begin a new row
class LossScaler:
    def __init__(
        self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000
    ):
        self.s, self.g, self.b, self.n = init_scale, growth_factor, backoff_factor, growth_interval
        self.row, self.bad = 0, {}

    def get_scale(self):
        return self.s

    def scale(self, loss):
        return loss * self.s

    def unscale_(self, optimizer):
        if id(optimizer) in self.bad:
            raise RuntimeError("twice")
        grads = [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
        self.bad[id(optimizer)] = any(not grad.isfinite().all() for grad in grads)
        for grad in grads:
            grad /= self.s

    def step(self, optimizer):
        if id(optimizer) not in self.bad:
            self.unscale_(optimizer)
        if not self.bad[id(optimizer)]:
            optimizer.step()
        return not self.bad[id(optimizer)]

    def update(self):
        if any(self.bad.values()):
            self.s, self.row = self.s * self.b, 0
        else:
            self.row += 1
            if self.row >= self.n:
                self.s *= self.g
        self.bad = {}


# %% wrong: an inf does not begin a new row
class LossScaler:
    def __init__(
        self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000
    ):
        self.s, self.g, self.b, self.n = init_scale, growth_factor, backoff_factor, growth_interval
        self.row, self.bad = 0, {}

    def get_scale(self):
        return self.s

    def scale(self, loss):
        return loss * self.s

    def unscale_(self, optimizer):
        if id(optimizer) in self.bad:
            raise RuntimeError("twice")
        grads = [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
        self.bad[id(optimizer)] = any(not grad.isfinite().all() for grad in grads)
        for grad in grads:
            grad /= self.s

    def step(self, optimizer):
        if id(optimizer) not in self.bad:
            self.unscale_(optimizer)
        if not self.bad[id(optimizer)]:
            optimizer.step()
        return not self.bad[id(optimizer)]

    def update(self):
        if any(self.bad.values()):
            self.s *= self.b
        else:
            self.row += 1
            if self.row == self.n:
                self.s, self.row = self.s * self.g, 0
        self.bad = {}


# %% wrong: grows one step too late
class LossScaler:
    def __init__(
        self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000
    ):
        self.s, self.g, self.b, self.n = init_scale, growth_factor, backoff_factor, growth_interval
        self.row, self.bad = 0, {}

    def get_scale(self):
        return self.s

    def scale(self, loss):
        return loss * self.s

    def unscale_(self, optimizer):
        if id(optimizer) in self.bad:
            raise RuntimeError("twice")
        grads = [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
        self.bad[id(optimizer)] = any(not grad.isfinite().all() for grad in grads)
        for grad in grads:
            grad /= self.s

    def step(self, optimizer):
        if id(optimizer) not in self.bad:
            self.unscale_(optimizer)
        if not self.bad[id(optimizer)]:
            optimizer.step()
        return not self.bad[id(optimizer)]

    def update(self):
        if any(self.bad.values()):
            self.s, self.row = self.s * self.b, 0
        elif self.row == self.n:
            self.s, self.row = self.s * self.g, 0
        else:
            self.row += 1
        self.bad = {}


# %% wrong: looks for nan only
class LossScaler:
    def __init__(
        self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000
    ):
        self.s, self.g, self.b, self.n = init_scale, growth_factor, backoff_factor, growth_interval
        self.row, self.bad = 0, {}

    def get_scale(self):
        return self.s

    def scale(self, loss):
        return loss * self.s

    def unscale_(self, optimizer):
        if id(optimizer) in self.bad:
            raise RuntimeError("twice")
        grads = [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
        self.bad[id(optimizer)] = any(bool(grad.isnan().any()) for grad in grads)
        for grad in grads:
            grad /= self.s

    def step(self, optimizer):
        if id(optimizer) not in self.bad:
            self.unscale_(optimizer)
        if not self.bad[id(optimizer)]:
            optimizer.step()
        return not self.bad[id(optimizer)]

    def update(self):
        if any(self.bad.values()):
            self.s, self.row = self.s * self.b, 0
        else:
            self.row += 1
            if self.row == self.n:
                self.s, self.row = self.s * self.g, 0
        self.bad = {}


# %% wrong: looks for inf and forgets nan
class LossScaler:
    def __init__(
        self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000
    ):
        self.s, self.g, self.b, self.n = init_scale, growth_factor, backoff_factor, growth_interval
        self.row, self.bad = 0, {}

    def get_scale(self):
        return self.s

    def scale(self, loss):
        return loss * self.s

    def unscale_(self, optimizer):
        if id(optimizer) in self.bad:
            raise RuntimeError("twice")
        grads = [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
        self.bad[id(optimizer)] = any(bool(grad.isinf().any()) for grad in grads)
        for grad in grads:
            grad /= self.s

    def step(self, optimizer):
        if id(optimizer) not in self.bad:
            self.unscale_(optimizer)
        if not self.bad[id(optimizer)]:
            optimizer.step()
        return not self.bad[id(optimizer)]

    def update(self):
        if any(self.bad.values()):
            self.s, self.row = self.s * self.b, 0
        else:
            self.row += 1
            if self.row == self.n:
                self.s, self.row = self.s * self.g, 0
        self.bad = {}


# %% wrong: one flag for all optimizers, so one inf skips everybody who comes after
class LossScaler:
    def __init__(
        self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000
    ):
        self.s, self.g, self.b, self.n = init_scale, growth_factor, backoff_factor, growth_interval
        self.row, self.done, self.bad = 0, set(), False

    def get_scale(self):
        return self.s

    def scale(self, loss):
        return loss * self.s

    def unscale_(self, optimizer):
        if id(optimizer) in self.done:
            raise RuntimeError("twice")
        self.done.add(id(optimizer))
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self.bad = self.bad or not p.grad.isfinite().all()
                    p.grad /= self.s

    def step(self, optimizer):
        if id(optimizer) not in self.done:
            self.unscale_(optimizer)
        if self.bad:
            return False
        optimizer.step()
        return True

    def update(self):
        if self.bad:
            self.s, self.row = self.s * self.b, 0
        else:
            self.row += 1
            if self.row == self.n:
                self.s, self.row = self.s * self.g, 0
        self.done, self.bad = set(), False


# %% wrong: step always unscales, also what is unscaled already
class LossScaler:
    def __init__(
        self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000
    ):
        self.s, self.g, self.b, self.n = init_scale, growth_factor, backoff_factor, growth_interval
        self.row, self.bad = 0, {}

    def get_scale(self):
        return self.s

    def scale(self, loss):
        return loss * self.s

    def unscale_(self, optimizer):
        grads = [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
        self.bad[id(optimizer)] = any(not grad.isfinite().all() for grad in grads)
        for grad in grads:
            grad /= self.s

    def step(self, optimizer):
        self.unscale_(optimizer)
        if not self.bad[id(optimizer)]:
            optimizer.step()
        return not self.bad[id(optimizer)]

    def update(self):
        if any(self.bad.values()):
            self.s, self.row = self.s * self.b, 0
        else:
            self.row += 1
            if self.row == self.n:
                self.s, self.row = self.s * self.g, 0
        self.bad = {}


# %% wrong: a second unscale_ is silently ignored
class LossScaler:
    def __init__(
        self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000
    ):
        self.s, self.g, self.b, self.n = init_scale, growth_factor, backoff_factor, growth_interval
        self.row, self.bad = 0, {}

    def get_scale(self):
        return self.s

    def scale(self, loss):
        return loss * self.s

    def unscale_(self, optimizer):
        if id(optimizer) in self.bad:
            return
        grads = [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
        self.bad[id(optimizer)] = any(not grad.isfinite().all() for grad in grads)
        for grad in grads:
            grad /= self.s

    def step(self, optimizer):
        self.unscale_(optimizer)
        if not self.bad[id(optimizer)]:
            optimizer.step()
        return not self.bad[id(optimizer)]

    def update(self):
        if any(self.bad.values()):
            self.s, self.row = self.s * self.b, 0
        else:
            self.row += 1
            if self.row == self.n:
                self.s, self.row = self.s * self.g, 0
        self.bad = {}


# %% wrong: backs off once for each optimizer that held an inf
class LossScaler:
    def __init__(
        self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000
    ):
        self.s, self.g, self.b, self.n = init_scale, growth_factor, backoff_factor, growth_interval
        self.row, self.bad = 0, {}

    def get_scale(self):
        return self.s

    def scale(self, loss):
        return loss * self.s

    def unscale_(self, optimizer):
        if id(optimizer) in self.bad:
            raise RuntimeError("twice")
        grads = [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
        self.bad[id(optimizer)] = any(not grad.isfinite().all() for grad in grads)
        for grad in grads:
            grad /= self.s

    def step(self, optimizer):
        if id(optimizer) not in self.bad:
            self.unscale_(optimizer)
        if not self.bad[id(optimizer)]:
            optimizer.step()
        return not self.bad[id(optimizer)]

    def update(self):
        for bad in self.bad.values():
            if bad:
                self.s, self.row = self.s * self.b, -1
        self.row += 1
        if self.row == self.n:
            self.s, self.row = self.s * self.g, 0
        self.bad = {}


# %% wrong: never divides the gradients
class LossScaler:
    def __init__(
        self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000
    ):
        self.s, self.g, self.b, self.n = init_scale, growth_factor, backoff_factor, growth_interval
        self.row, self.bad = 0, {}

    def get_scale(self):
        return self.s

    def scale(self, loss):
        return loss * self.s

    def unscale_(self, optimizer):
        grads = [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
        self.bad[id(optimizer)] = any(not grad.isfinite().all() for grad in grads)

    def step(self, optimizer):
        self.unscale_(optimizer)
        if not self.bad[id(optimizer)]:
            optimizer.step()
        return not self.bad[id(optimizer)]

    def update(self):
        self.s *= self.b if any(self.bad.values()) else 1.0
        self.bad = {}


# %% wrong: only the first group of parameters
class LossScaler:
    def __init__(
        self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000
    ):
        self.s, self.g, self.b, self.n = init_scale, growth_factor, backoff_factor, growth_interval
        self.row, self.bad = 0, {}

    def get_scale(self):
        return self.s

    def scale(self, loss):
        return loss * self.s

    def unscale_(self, optimizer):
        if id(optimizer) in self.bad:
            raise RuntimeError("twice")
        params = optimizer.param_groups[0]["params"]
        grads = [p.grad for p in params if p.grad is not None]
        self.bad[id(optimizer)] = any(not grad.isfinite().all() for grad in grads)
        for grad in grads:
            grad /= self.s

    def step(self, optimizer):
        if id(optimizer) not in self.bad:
            self.unscale_(optimizer)
        if not self.bad[id(optimizer)]:
            optimizer.step()
        return not self.bad[id(optimizer)]

    def update(self):
        if any(self.bad.values()):
            self.s, self.row = self.s * self.b, 0
        else:
            self.row += 1
            if self.row == self.n:
                self.s, self.row = self.s * self.g, 0
        self.bad = {}


# %% wrong: hands everything to torch's scaler, whose step does not tell
class LossScaler:
    def __init__(
        self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000
    ):
        import torch

        self.inner = torch.amp.GradScaler(
            "cpu",
            init_scale=init_scale,
            growth_factor=growth_factor,
            backoff_factor=backoff_factor,
            growth_interval=growth_interval,
        )

    def get_scale(self):
        return self.inner.get_scale()

    def scale(self, loss):
        return self.inner.scale(loss)

    def unscale_(self, optimizer):
        self.inner.unscale_(optimizer)

    def step(self, optimizer):
        return self.inner.step(optimizer)

    def update(self):
        self.inner.update()


# %% right: scale and counter as tensors, the state of an optimizer in two sets
class LossScaler:
    def __init__(
        self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000
    ):
        self.factor = torch.tensor(float(init_scale))
        self.counter = torch.tensor(0)
        self.growth, self.backoff, self.interval = growth_factor, backoff_factor, growth_interval
        self.unscaled, self.found_inf = set(), set()

    def get_scale(self):
        return self.factor.item()

    def scale(self, loss):
        return loss * self.factor.to(loss.device)

    def unscale_(self, optimizer):
        if optimizer in self.unscaled:
            raise RuntimeError("unscale_ was called before")
        self.unscaled.add(optimizer)
        with torch.no_grad():
            for group in optimizer.param_groups:
                for p in group["params"]:
                    if p.grad is None:
                        continue
                    if not torch.isfinite(p.grad).all():
                        self.found_inf.add(optimizer)
                    p.grad.mul_(self.factor.double().reciprocal())

    def step(self, optimizer):
        if optimizer not in self.unscaled:
            self.unscale_(optimizer)
        if optimizer in self.found_inf:
            return False
        optimizer.step()
        return True

    def update(self):
        if self.found_inf:
            self.factor *= self.backoff
            self.counter.zero_()
        else:
            self.counter += 1
            if self.counter == self.interval:
                self.factor *= self.growth
                self.counter.zero_()
        self.unscaled, self.found_inf = set(), set()


# %% right: counts down to the next growth, replaces gradients, and finds nan by a sum
class LossScaler:
    def __init__(
        self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000
    ):
        self.settings = growth_factor, backoff_factor, growth_interval
        self.current, self.left, self.notes = init_scale, growth_interval, []

    def get_scale(self):
        return float(self.current)

    def scale(self, loss):
        return self.current * loss

    def unscale_(self, optimizer):
        if any(other is optimizer for other, _ in self.notes):
            raise RuntimeError("once is enough")
        good = True
        for p in [p for group in optimizer.param_groups for p in group["params"]]:
            if p.grad is not None:
                p.grad = p.grad / self.current
                good = good and bool(((p.grad - p.grad) == 0).all())
        self.notes.append((optimizer, good))

    def step(self, optimizer):
        if not any(other is optimizer for other, _ in self.notes):
            self.unscale_(optimizer)
        (good,) = [good for other, good in self.notes if other is optimizer]
        if good:
            optimizer.step()
        return good

    def update(self):
        growth, backoff, interval = self.settings
        if all(good for _, good in self.notes):
            self.left -= 1
            if self.left == 0:
                self.current, self.left = self.current * growth, interval
        else:
            self.current, self.left = self.current * backoff, interval
        self.notes = []


# %% wrong: the last parameter decides, whatever the others hold
class LossScaler:
    def __init__(
        self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000
    ):
        self.s, self.g, self.b, self.n = init_scale, growth_factor, backoff_factor, growth_interval
        self.row, self.bad = 0, {}

    def get_scale(self):
        return self.s

    def scale(self, loss):
        return loss * self.s

    def unscale_(self, optimizer):
        if id(optimizer) in self.bad:
            raise RuntimeError("twice")
        grads = [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
        for grad in grads:
            self.bad[id(optimizer)] = not grad.isfinite().all()
        for grad in grads:
            grad /= self.s

    def step(self, optimizer):
        if id(optimizer) not in self.bad:
            self.unscale_(optimizer)
        if not self.bad[id(optimizer)]:
            optimizer.step()
        return not self.bad[id(optimizer)]

    def update(self):
        if any(self.bad.values()):
            self.s, self.row = self.s * self.b, 0
        else:
            self.row += 1
            if self.row == self.n:
                self.s, self.row = self.s * self.g, 0
        self.bad = {}


# %% wrong: a skipped step is a step with gradients of 0, which moves by the momentum
class LossScaler:
    def __init__(
        self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000
    ):
        self.s, self.g, self.b, self.n = init_scale, growth_factor, backoff_factor, growth_interval
        self.row, self.bad = 0, {}

    def get_scale(self):
        return self.s

    def scale(self, loss):
        return loss * self.s

    def unscale_(self, optimizer):
        if id(optimizer) in self.bad:
            raise RuntimeError("twice")
        grads = [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
        self.bad[id(optimizer)] = any(not grad.isfinite().all() for grad in grads)
        for grad in grads:
            grad /= self.s

    def step(self, optimizer):
        if id(optimizer) not in self.bad:
            self.unscale_(optimizer)
        if self.bad[id(optimizer)]:
            for group in optimizer.param_groups:
                for p in group["params"]:
                    if p.grad is not None:
                        p.grad.zero_()
        optimizer.step()
        return not self.bad[id(optimizer)]

    def update(self):
        if any(self.bad.values()):
            self.s, self.row = self.s * self.b, 0
        else:
            self.row += 1
            if self.row == self.n:
                self.s, self.row = self.s * self.g, 0
        self.bad = {}


# %% wrong: never lets the scale fall below 1
class LossScaler:
    def __init__(
        self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000
    ):
        self.s, self.g, self.b, self.n = init_scale, growth_factor, backoff_factor, growth_interval
        self.row, self.bad = 0, {}

    def get_scale(self):
        return self.s

    def scale(self, loss):
        return loss * self.s

    def unscale_(self, optimizer):
        if id(optimizer) in self.bad:
            raise RuntimeError("twice")
        grads = [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
        self.bad[id(optimizer)] = any(not grad.isfinite().all() for grad in grads)
        for grad in grads:
            grad /= self.s

    def step(self, optimizer):
        if id(optimizer) not in self.bad:
            self.unscale_(optimizer)
        if not self.bad[id(optimizer)]:
            optimizer.step()
        return not self.bad[id(optimizer)]

    def update(self):
        if any(self.bad.values()):
            self.s, self.row = max(1.0, self.s * self.b), 0
        else:
            self.row += 1
            if self.row == self.n:
                self.s, self.row = self.s * self.g, 0
        self.bad = {}


# %% wrong: scales the caller's loss in place
class LossScaler:
    def __init__(
        self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000
    ):
        self.s, self.g, self.b, self.n = init_scale, growth_factor, backoff_factor, growth_interval
        self.row, self.bad = 0, {}

    def get_scale(self):
        return self.s

    def scale(self, loss):
        return loss.mul_(self.s) if not loss.requires_grad else loss * self.s

    def unscale_(self, optimizer):
        if id(optimizer) in self.bad:
            raise RuntimeError("twice")
        grads = [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
        self.bad[id(optimizer)] = any(not grad.isfinite().all() for grad in grads)
        for grad in grads:
            grad /= self.s

    def step(self, optimizer):
        if id(optimizer) not in self.bad:
            self.unscale_(optimizer)
        if not self.bad[id(optimizer)]:
            optimizer.step()
        return not self.bad[id(optimizer)]

    def update(self):
        if any(self.bad.values()):
            self.s, self.row = self.s * self.b, 0
        else:
            self.row += 1
            if self.row == self.n:
                self.s, self.row = self.s * self.g, 0
        self.bad = {}


# %% right: divides first and looks afterwards, with an error of its own
class TwiceError(RuntimeError):
    pass


class LossScaler:
    def __init__(
        self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000
    ):
        self.s, self.g, self.b, self.n = init_scale, growth_factor, backoff_factor, growth_interval
        self.row, self.bad = 0, {}

    def get_scale(self):
        return self.s

    def scale(self, loss):
        return loss * self.s

    def unscale_(self, optimizer):
        if id(optimizer) in self.bad:
            raise TwiceError("twice")
        grads = [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
        for grad in grads:
            grad.mul_(1.0 / self.s)
        self.bad[id(optimizer)] = not all(bool(grad.isfinite().all()) for grad in grads)

    def step(self, optimizer):
        if id(optimizer) not in self.bad:
            self.unscale_(optimizer)
        if not self.bad[id(optimizer)]:
            optimizer.step()
        return not self.bad[id(optimizer)]

    def update(self):
        if any(self.bad.values()):
            self.s, self.row = self.s * self.b, 0
        else:
            self.row += 1
            if self.row == self.n:
                self.s, self.row = self.s * self.g, 0
        self.bad = {}


# %% wrong: leaves it all to torch's scaler, and works out whether it stepped
class LossScaler:
    def __init__(
        self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000
    ):
        self.inner = torch.amp.GradScaler(
            "cpu",
            init_scale=init_scale,
            growth_factor=growth_factor,
            backoff_factor=backoff_factor,
            growth_interval=growth_interval,
        )

    def get_scale(self):
        return self.inner.get_scale()

    def scale(self, loss):
        return self.inner.scale(loss)

    def unscale_(self, optimizer):
        self.inner.unscale_(optimizer)

    def step(self, optimizer):
        made = []
        handle = optimizer.register_step_post_hook(lambda *_: made.append(True))
        self.inner.step(optimizer)
        handle.remove()
        return bool(made)

    def update(self):
        self.inner.update()


# %% wrong: inherits from torch's scaler, under another name
from torch.amp.grad_scaler import GradScaler as Base


class LossScaler(Base):
    def __init__(
        self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000
    ):
        super().__init__("cpu", init_scale, growth_factor, backoff_factor, growth_interval)

    def step(self, optimizer):
        made = []
        handle = optimizer.register_step_post_hook(lambda *_: made.append(True))
        super().step(optimizer)
        handle.remove()
        return bool(made)


# %% wrong: leaves the work to the operators that torch's scaler is made of
class LossScaler:
    def __init__(
        self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000
    ):
        self.s, self.row = torch.tensor(float(init_scale)), torch.tensor(0, dtype=torch.int32)
        self.rules = growth_factor, backoff_factor, growth_interval
        self.bad = {}

    def get_scale(self):
        return self.s.item()

    def scale(self, loss):
        return loss * self.s

    def unscale_(self, optimizer):
        if id(optimizer) in self.bad:
            raise RuntimeError("twice")
        grads = [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
        self.bad[id(optimizer)] = found = torch.zeros(())
        torch._amp_foreach_non_finite_check_and_unscale_(grads, found, 1.0 / self.s)

    def step(self, optimizer):
        if id(optimizer) not in self.bad:
            self.unscale_(optimizer)
        if self.bad[id(optimizer)]:
            return False
        optimizer.step()
        return True

    def update(self):
        torch._amp_update_scale_(self.s, self.row, sum(self.bad.values()), *self.rules)
        self.bad = {}


# %% wrong: borrows torch's scaler from a probe, which hands one over
found = []
steps = probes.scaled_steps(
    lambda scaler, *others: found.append(type(scaler)),
    [torch.zeros(2)],
    [[torch.ones(2)]],
    max_norm=1.0,
    learning_rate=1.0,
)


class LossScaler(found[0]):
    def __init__(
        self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000
    ):
        super().__init__("cpu", init_scale, growth_factor, backoff_factor, growth_interval)

    def step(self, optimizer):
        made = []
        handle = optimizer.register_step_post_hook(lambda *_: made.append(True))
        super().step(optimizer)
        handle.remove()
        return bool(made)


# %% right: attributes of its own that sound like torch's
class LossScaler:
    def __init__(
        self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000
    ):
        self.grad_scaler, self.loss_amp_row, self.bad = init_scale, 0, {}
        self.g, self.b, self.n = growth_factor, backoff_factor, growth_interval

    def get_scale(self):
        return self.grad_scaler

    def scale(self, loss):
        return loss * self.grad_scaler

    def unscale_(self, optimizer):
        if id(optimizer) in self.bad:
            raise RuntimeError("twice")
        grads = [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
        self.bad[id(optimizer)] = any(not grad.isfinite().all() for grad in grads)
        for grad in grads:
            grad /= self.grad_scaler

    def step(self, optimizer):
        if id(optimizer) not in self.bad:
            self.unscale_(optimizer)
        if not self.bad[id(optimizer)]:
            optimizer.step()
        return not self.bad[id(optimizer)]

    def update(self):
        if any(self.bad.values()):
            self.grad_scaler, self.loss_amp_row = self.grad_scaler * self.b, 0
        else:
            self.loss_amp_row += 1
            if self.loss_amp_row == self.n:
                self.grad_scaler, self.loss_amp_row = self.grad_scaler * self.g, 0
        self.bad = {}


# %% wrong: doubles and halves, whatever the factors are
class LossScaler:
    """Scales losses, unscales gradients, skips steps with inf or nan, and adapts the scale."""

    def __init__(
        self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000
    ):
        self._scale = float(init_scale)
        self._growth_factor = 2.0
        self._backoff_factor = 0.5
        self._growth_interval = growth_interval
        self._steps_without_inf = 0
        self._has_inf = {}

    def get_scale(self):
        return self._scale

    def scale(self, loss):
        return loss * self._scale

    def unscale_(self, optimizer):
        if id(optimizer) in self._has_inf:
            raise RuntimeError("unscale_() was already called since the last update()")
        grads = [p.grad for group in optimizer.param_groups for p in group["params"]]
        grads = [grad for grad in grads if grad is not None]
        self._has_inf[id(optimizer)] = not all(torch.isfinite(grad).all() for grad in grads)
        for grad in grads:
            grad.div_(self._scale)

    def step(self, optimizer):
        if id(optimizer) not in self._has_inf:
            self.unscale_(optimizer)
        if self._has_inf[id(optimizer)]:
            return False
        optimizer.step()
        return True

    def update(self):
        if any(self._has_inf.values()):
            self._scale *= self._backoff_factor
            self._steps_without_inf = 0
        else:
            self._steps_without_inf += 1
            if self._steps_without_inf == self._growth_interval:
                self._scale *= self._growth_factor
                self._steps_without_inf = 0
        self._has_inf = {}


# %% wrong: takes it that every parameter has a gradient
class LossScaler:
    """Scales losses, unscales gradients, skips steps with inf or nan, and adapts the scale."""

    def __init__(
        self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000
    ):
        self._scale = float(init_scale)
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        self._steps_without_inf = 0
        self._has_inf = {}

    def get_scale(self):
        return self._scale

    def scale(self, loss):
        return loss * self._scale

    def unscale_(self, optimizer):
        if id(optimizer) in self._has_inf:
            raise RuntimeError("unscale_() was already called since the last update()")
        grads = [p.grad for group in optimizer.param_groups for p in group["params"]]
        self._has_inf[id(optimizer)] = not all(torch.isfinite(grad).all() for grad in grads)
        for grad in grads:
            grad.div_(self._scale)

    def step(self, optimizer):
        if id(optimizer) not in self._has_inf:
            self.unscale_(optimizer)
        if self._has_inf[id(optimizer)]:
            return False
        optimizer.step()
        return True

    def update(self):
        if any(self._has_inf.values()):
            self._scale *= self._backoff_factor
            self._steps_without_inf = 0
        else:
            self._steps_without_inf += 1
            if self._steps_without_inf == self._growth_interval:
                self._scale *= self._growth_factor
                self._steps_without_inf = 0
        self._has_inf = {}


# %% wrong: counts the steps of all optimizers instead of iterations
class LossScaler:
    def __init__(
        self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000
    ):
        self.now = float(init_scale)
        self.factors = growth_factor, backoff_factor
        self.interval, self.good, self.seen = growth_interval, 0, {}

    def get_scale(self):
        return self.now

    def scale(self, loss):
        return loss * self.now

    def unscale_(self, optimizer):
        import torch

        if id(optimizer) in self.seen:
            raise RuntimeError("unscaled already")
        bad = False
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    bad |= not torch.isfinite(p.grad).all()
                    p.grad /= self.now
        self.seen[id(optimizer)] = bad

    def step(self, optimizer):
        if id(optimizer) not in self.seen:
            self.unscale_(optimizer)
        if self.seen[id(optimizer)]:
            return False
        optimizer.step()
        self.good += 1
        return True

    def update(self):
        if any(self.seen.values()):
            self.now *= self.factors[1]
            self.good = 0
        elif self.good >= self.interval:
            self.now *= self.factors[0]
            self.good = 0
        self.seen = {}


# %% wrong: only the first parameter of each group
class LossScaler:
    def __init__(
        self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000
    ):
        self.s, self.g, self.b, self.n = init_scale, growth_factor, backoff_factor, growth_interval
        self.row, self.bad = 0, {}

    def get_scale(self):
        return self.s

    def scale(self, loss):
        return loss * self.s

    def unscale_(self, optimizer):
        if id(optimizer) in self.bad:
            raise RuntimeError("twice")
        params = [p for g in optimizer.param_groups for p in g["params"][:1]]
        grads = [p.grad for p in params if p.grad is not None]
        self.bad[id(optimizer)] = any(not grad.isfinite().all() for grad in grads)
        for grad in grads:
            grad /= self.s

    def step(self, optimizer):
        if id(optimizer) not in self.bad:
            self.unscale_(optimizer)
        if not self.bad[id(optimizer)]:
            optimizer.step()
        return not self.bad[id(optimizer)]

    def update(self):
        if any(self.bad.values()):
            self.s, self.row = self.s * self.b, 0
        else:
            self.row += 1
            if self.row == self.n:
                self.s, self.row = self.s * self.g, 0
        self.bad = {}


# %% wrong: an inf is forgotten if unscale_ was called before step
class LossScaler:
    def __init__(
        self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000
    ):
        self.s, self.g, self.b, self.n = init_scale, growth_factor, backoff_factor, growth_interval
        self.row, self.bad = 0, {}

    def get_scale(self):
        return self.s

    def scale(self, loss):
        return loss * self.s

    def unscale_(self, optimizer):
        if id(optimizer) in self.bad:
            raise RuntimeError("twice")
        grads = [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
        self.bad[id(optimizer)] = any(not grad.isfinite().all() for grad in grads)
        for grad in grads:
            grad /= self.s

    def step(self, optimizer):
        if id(optimizer) not in self.bad:
            self.unscale_(optimizer)
            if self.bad[id(optimizer)]:
                return False
        optimizer.step()
        return True

    def update(self):
        if any(self.bad.values()):
            self.s, self.row = self.s * self.b, 0
        else:
            self.row += 1
            if self.row == self.n:
                self.s, self.row = self.s * self.g, 0
        self.bad = {}


# %% wrong: one flag says of all optimizers that they are unscaled
class LossScaler:
    def __init__(
        self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000
    ):
        self.s, self.g, self.b, self.n = init_scale, growth_factor, backoff_factor, growth_interval
        self.row, self.bad, self.unscaled = 0, {}, False

    def get_scale(self):
        return self.s

    def scale(self, loss):
        return loss * self.s

    def unscale_(self, optimizer):
        if self.unscaled:
            raise RuntimeError("twice")
        self.unscaled = True
        grads = [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
        self.bad[id(optimizer)] = any(not grad.isfinite().all() for grad in grads)
        for grad in grads:
            grad /= self.s

    def step(self, optimizer):
        if not self.unscaled:
            self.unscale_(optimizer)
        self.unscaled = False
        made = not self.bad.get(id(optimizer), False)
        if made:
            optimizer.step()
        return made

    def update(self):
        if any(self.bad.values()):
            self.s, self.row = self.s * self.b, 0
        else:
            self.row += 1
            if self.row == self.n:
                self.s, self.row = self.s * self.g, 0
        self.bad = {}


# %% wrong: a refused second unscale_ has divided the gradients once more
class LossScaler:
    def __init__(
        self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000
    ):
        self.s, self.g, self.b, self.n = init_scale, growth_factor, backoff_factor, growth_interval
        self.row, self.bad, self.calls = 0, {}, {}

    def get_scale(self):
        return self.s

    def scale(self, loss):
        return loss * self.s

    def unscale_(self, optimizer):
        grads = [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
        self.bad[id(optimizer)] = any(not grad.isfinite().all() for grad in grads)
        for grad in grads:
            grad /= self.s
        self.calls[id(optimizer)] = self.calls.get(id(optimizer), 0) + 1
        if self.calls[id(optimizer)] > 1:
            raise RuntimeError("twice")

    def step(self, optimizer):
        if id(optimizer) not in self.bad:
            self.unscale_(optimizer)
        if not self.bad[id(optimizer)]:
            optimizer.step()
        return not self.bad[id(optimizer)]

    def update(self):
        if any(self.bad.values()):
            self.s, self.row = self.s * self.b, 0
        else:
            self.row += 1
            if self.row == self.n:
                self.s, self.row = self.s * self.g, 0
        self.bad, self.calls = {}, {}


# %% wrong: takes a norm that overflows for an inf
class LossScaler:
    def __init__(
        self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000
    ):
        self._scale = float(init_scale)
        self.growth_factor = growth_factor
        self.backoff_factor = backoff_factor
        self.growth_interval = growth_interval
        self.count = 0
        self.found = {}

    def get_scale(self):
        return self._scale

    def scale(self, loss):
        return loss * self._scale

    def unscale_(self, optimizer):
        if id(optimizer) in self.found:
            raise RuntimeError("unscale_ was already called since the last update")
        bad = False
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                if not torch.isfinite(p.grad.norm()):
                    bad = True
                p.grad /= self._scale
        self.found[id(optimizer)] = bad

    def step(self, optimizer):
        if id(optimizer) not in self.found:
            self.unscale_(optimizer)
        if self.found[id(optimizer)]:
            return False
        optimizer.step()
        return True

    def update(self):
        if any(self.found.values()):
            self._scale *= self.backoff_factor
            self.count = 0
        else:
            self.count += 1
            if self.count == self.growth_interval:
                self._scale *= self.growth_factor
                self.count = 0
        self.found = {}


# %% wrong: takes a sum that overflows for an inf
class LossScaler:
    def __init__(
        self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000
    ):
        self._scale = float(init_scale)
        self.growth_factor = growth_factor
        self.backoff_factor = backoff_factor
        self.growth_interval = growth_interval
        self.count = 0
        self.found = {}

    def get_scale(self):
        return self._scale

    def scale(self, loss):
        return loss * self._scale

    def unscale_(self, optimizer):
        if id(optimizer) in self.found:
            raise RuntimeError("unscale_ was already called since the last update")
        bad = False
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                if not torch.isfinite(p.grad.sum()):
                    bad = True
                p.grad /= self._scale
        self.found[id(optimizer)] = bad

    def step(self, optimizer):
        if id(optimizer) not in self.found:
            self.unscale_(optimizer)
        if self.found[id(optimizer)]:
            return False
        optimizer.step()
        return True

    def update(self):
        if any(self.found.values()):
            self._scale *= self.backoff_factor
            self.count = 0
        else:
            self.count += 1
            if self.count == self.growth_interval:
                self._scale *= self.growth_factor
                self.count = 0
        self.found = {}


# %% wrong: lets unscale_ pass unseen after step, which has unscaled the gradients
class LossScaler:
    def __init__(
        self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000
    ):
        self._scale = float(init_scale)
        self.growth_factor = growth_factor
        self.backoff_factor = backoff_factor
        self.growth_interval = growth_interval
        self.count = 0
        self.found = {}
        self.manual = set()

    def get_scale(self):
        return self._scale

    def scale(self, loss):
        return loss * self._scale

    def unscale_(self, optimizer):
        if id(optimizer) in self.manual:
            raise RuntimeError("twice")
        self.manual.add(id(optimizer))
        self._do(optimizer)

    def _do(self, optimizer):
        bad = False
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                if not torch.isfinite(p.grad).all():
                    bad = True
                p.grad /= self._scale
        self.found[id(optimizer)] = bad

    def step(self, optimizer):
        if id(optimizer) not in self.found:
            self._do(optimizer)
        if self.found[id(optimizer)]:
            return False
        optimizer.step()
        return True

    def update(self):
        if any(self.found.values()):
            self._scale *= self.backoff_factor
            self.count = 0
        else:
            self.count += 1
            if self.count == self.growth_interval:
                self._scale *= self.growth_factor
                self.count = 0
        self.found = {}
        self.manual = set()


# %% wrong: never grows if there are two optimizers
class LossScaler:
    def __init__(
        self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000
    ):
        self._scale = float(init_scale)
        self.growth_factor = growth_factor
        self.backoff_factor = backoff_factor
        self.growth_interval = growth_interval
        self.count = 0
        self.found = {}

    def get_scale(self):
        return self._scale

    def scale(self, loss):
        return loss * self._scale

    def unscale_(self, optimizer):
        if id(optimizer) in self.found:
            raise RuntimeError("unscale_ was already called since the last update")
        bad = False
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                if not torch.isfinite(p.grad).all():
                    bad = True
                p.grad /= self._scale
        self.found[id(optimizer)] = bad

    def step(self, optimizer):
        if id(optimizer) not in self.found:
            self.unscale_(optimizer)
        if self.found[id(optimizer)]:
            return False
        optimizer.step()
        return True

    def update(self):
        if any(self.found.values()):
            self._scale *= self.backoff_factor
            self.count = 0
        elif len(self.found) == 1:
            self.count += 1
            if self.count == self.growth_interval:
                self._scale *= self.growth_factor
                self.count = 0
        self.found = {}


# %% wrong: clears the gradients after a step
class LossScaler:
    def __init__(
        self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000
    ):
        self._scale = float(init_scale)
        self.growth_factor = growth_factor
        self.backoff_factor = backoff_factor
        self.growth_interval = growth_interval
        self.count = 0
        self.found = {}

    def get_scale(self):
        return self._scale

    def scale(self, loss):
        return loss * self._scale

    def unscale_(self, optimizer):
        if id(optimizer) in self.found:
            raise RuntimeError("unscale_ was already called since the last update")
        bad = False
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                if not torch.isfinite(p.grad).all():
                    bad = True
                p.grad /= self._scale
        self.found[id(optimizer)] = bad

    def step(self, optimizer):
        if id(optimizer) not in self.found:
            self.unscale_(optimizer)
        if self.found[id(optimizer)]:
            return False
        optimizer.step()
        optimizer.zero_grad()
        return True

    def update(self):
        if any(self.found.values()):
            self._scale *= self.backoff_factor
            self.count = 0
        else:
            self.count += 1
            if self.count == self.growth_interval:
                self._scale *= self.growth_factor
                self.count = 0
        self.found = {}


# %% wrong: clears the gradients when it skips a step
class LossScaler:
    def __init__(
        self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000
    ):
        self._scale = float(init_scale)
        self.growth_factor = growth_factor
        self.backoff_factor = backoff_factor
        self.growth_interval = growth_interval
        self.count = 0
        self.found = {}

    def get_scale(self):
        return self._scale

    def scale(self, loss):
        return loss * self._scale

    def unscale_(self, optimizer):
        if id(optimizer) in self.found:
            raise RuntimeError("unscale_ was already called since the last update")
        bad = False
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                if not torch.isfinite(p.grad).all():
                    bad = True
                p.grad /= self._scale
        self.found[id(optimizer)] = bad

    def step(self, optimizer):
        if id(optimizer) not in self.found:
            self.unscale_(optimizer)
        if self.found[id(optimizer)]:
            optimizer.zero_grad()
            return False
        optimizer.step()
        return True

    def update(self):
        if any(self.found.values()):
            self._scale *= self.backoff_factor
            self.count = 0
        else:
            self.count += 1
            if self.count == self.growth_interval:
                self._scale *= self.growth_factor
                self.count = 0
        self.found = {}


# %% wrong: clears the gradients and steps, instead of skipping the step
class LossScaler:
    def __init__(
        self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000
    ):
        self._scale = float(init_scale)
        self.growth_factor = growth_factor
        self.backoff_factor = backoff_factor
        self.growth_interval = growth_interval
        self.count = 0
        self.found = {}

    def get_scale(self):
        return self._scale

    def scale(self, loss):
        return loss * self._scale

    def unscale_(self, optimizer):
        if id(optimizer) in self.found:
            raise RuntimeError("unscale_ was already called since the last update")
        bad = False
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                if not torch.isfinite(p.grad).all():
                    bad = True
                p.grad /= self._scale
        self.found[id(optimizer)] = bad

    def step(self, optimizer):
        if id(optimizer) not in self.found:
            self.unscale_(optimizer)
        if self.found[id(optimizer)]:
            optimizer.zero_grad()
            optimizer.step()
            return False
        optimizer.step()
        return True

    def update(self):
        if any(self.found.values()):
            self._scale *= self.backoff_factor
            self.count = 0
        else:
            self.count += 1
            if self.count == self.growth_interval:
                self._scale *= self.growth_factor
                self.count = 0
        self.found = {}


# %% wrong: gives zeros to a parameter without a gradient
class LossScaler:
    def __init__(
        self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000
    ):
        self._scale = float(init_scale)
        self.growth_factor = growth_factor
        self.backoff_factor = backoff_factor
        self.growth_interval = growth_interval
        self.count = 0
        self.found = {}

    def get_scale(self):
        return self._scale

    def scale(self, loss):
        return loss * self._scale

    def unscale_(self, optimizer):
        if id(optimizer) in self.found:
            raise RuntimeError("unscale_ was already called since the last update")
        bad = False
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    p.grad = torch.zeros_like(p)
                if not torch.isfinite(p.grad).all():
                    bad = True
                p.grad /= self._scale
        self.found[id(optimizer)] = bad

    def step(self, optimizer):
        if id(optimizer) not in self.found:
            self.unscale_(optimizer)
        if self.found[id(optimizer)]:
            return False
        optimizer.step()
        return True

    def update(self):
        if any(self.found.values()):
            self._scale *= self.backoff_factor
            self.count = 0
        else:
            self.count += 1
            if self.count == self.growth_interval:
                self._scale *= self.growth_factor
                self.count = 0
        self.found = {}


# %% wrong: the scale backs off only if a step was skipped
class LossScaler:
    def __init__(
        self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000
    ):
        self._scale = float(init_scale)
        self.growth_factor, self.backoff_factor = growth_factor, backoff_factor
        self.growth_interval = growth_interval
        self.good = 0
        self.skipped = False
        self.bad = {}

    def get_scale(self):
        return self._scale

    def scale(self, loss):
        return loss * self._scale

    def unscale_(self, optimizer):
        if id(optimizer) in self.bad:
            raise RuntimeError("unscale_ was called before")
        bad = False
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    bad = bad or not torch.isfinite(p.grad).all().item()
                    p.grad.div_(self._scale)
        self.bad[id(optimizer)] = bad

    def step(self, optimizer):
        if id(optimizer) not in self.bad:
            self.unscale_(optimizer)
        if self.bad[id(optimizer)]:
            self.skipped = True
            return False
        optimizer.step()
        return True

    def update(self):
        if self.skipped:
            self._scale *= self.backoff_factor
            self.good = 0
        else:
            self.good += 1
            if self.good == self.growth_interval:
                self._scale *= self.growth_factor
                self.good = 0
        self.bad = {}
        self.skipped = False


# %% wrong: step and update look at the gradients themselves, and unscale_ records nothing
class LossScaler:
    def __init__(
        self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000
    ):
        self.now = init_scale
        self.growth_factor = growth_factor
        self.backoff_factor = backoff_factor
        self.growth_interval = growth_interval
        self.row = 0
        self.seen = {}

    def get_scale(self):
        return float(self.now)

    def scale(self, loss):
        return loss * self.now

    def _grads(self, optimizer):
        found = [p.grad for group in optimizer.param_groups for p in group["params"]]
        return [grad for grad in found if grad is not None]

    def _is_bad(self, optimizer):
        return any(not torch.isfinite(grad).all() for grad in self._grads(optimizer))

    def unscale_(self, optimizer):
        if id(optimizer) in self.seen:
            raise RuntimeError("already unscaled")
        self.seen[id(optimizer)] = optimizer
        for grad in self._grads(optimizer):
            grad.div_(self.now)

    def step(self, optimizer):
        if id(optimizer) not in self.seen:
            self.unscale_(optimizer)
        if self._is_bad(optimizer):
            return False
        optimizer.step()
        return True

    def update(self):
        if any(self._is_bad(optimizer) for optimizer in self.seen.values()):
            self.now *= self.backoff_factor
            self.row = 0
        else:
            self.row += 1
            if self.row == self.growth_interval:
                self.now *= self.growth_factor
                self.row = 0
        self.seen = {}


# %% wrong: takes gradients of 0 in every entry for a step to be skipped
class LossScaler:
    def __init__(
        self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000
    ):
        self.now = init_scale
        self.growth_factor = growth_factor
        self.backoff_factor = backoff_factor
        self.growth_interval = growth_interval
        self.row = 0
        self.seen = {}

    def get_scale(self):
        return float(self.now)

    def scale(self, loss):
        return loss * self.now

    def unscale_(self, optimizer):
        if id(optimizer) in self.seen:
            raise RuntimeError("already unscaled")
        found = [p.grad for group in optimizer.param_groups for p in group["params"]]
        found = [grad for grad in found if grad is not None]
        self.seen[id(optimizer)] = any(not torch.isfinite(grad).all() for grad in found)
        for grad in found:
            grad.div_(self.now)

    def step(self, optimizer):
        if id(optimizer) not in self.seen:
            self.unscale_(optimizer)
        found = [p.grad for group in optimizer.param_groups for p in group["params"]]
        has_any = any(grad is not None and bool(grad.any()) for grad in found)
        if self.seen[id(optimizer)] or not has_any:
            return False
        optimizer.step()
        return True

    def update(self):
        if any(self.seen.values()):
            self.now *= self.backoff_factor
            self.row = 0
        else:
            self.row += 1
            if self.row == self.growth_interval:
                self.now *= self.growth_factor
                self.row = 0
        self.seen = {}


# %% wrong: never lets the scale rise above 2^24
class LossScaler:
    def __init__(
        self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000
    ):
        self.now = init_scale
        self.growth_factor = growth_factor
        self.backoff_factor = backoff_factor
        self.growth_interval = growth_interval
        self.row = 0
        self.seen = {}

    def get_scale(self):
        return float(self.now)

    def scale(self, loss):
        return loss * self.now

    def unscale_(self, optimizer):
        if id(optimizer) in self.seen:
            raise RuntimeError("already unscaled")
        found = [p.grad for group in optimizer.param_groups for p in group["params"]]
        found = [grad for grad in found if grad is not None]
        self.seen[id(optimizer)] = any(not torch.isfinite(grad).all() for grad in found)
        for grad in found:
            grad.div_(self.now)

    def step(self, optimizer):
        if id(optimizer) not in self.seen:
            self.unscale_(optimizer)
        if self.seen[id(optimizer)]:
            return False
        optimizer.step()
        return True

    def update(self):
        if any(self.seen.values()):
            self.now *= self.backoff_factor
            self.row = 0
        else:
            self.row += 1
            if self.row == self.growth_interval:
                self.now = max(self.now, min(self.now * self.growth_factor, 2.0**24))
                self.row = 0
        self.seen = {}


# %% wrong: never lets the scale fall below 2^-14
class LossScaler:
    def __init__(
        self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000
    ):
        self.now = init_scale
        self.growth_factor = growth_factor
        self.backoff_factor = backoff_factor
        self.growth_interval = growth_interval
        self.row = 0
        self.seen = {}

    def get_scale(self):
        return float(self.now)

    def scale(self, loss):
        return loss * self.now

    def unscale_(self, optimizer):
        if id(optimizer) in self.seen:
            raise RuntimeError("already unscaled")
        found = [p.grad for group in optimizer.param_groups for p in group["params"]]
        found = [grad for grad in found if grad is not None]
        self.seen[id(optimizer)] = any(not torch.isfinite(grad).all() for grad in found)
        for grad in found:
            grad.div_(self.now)

    def step(self, optimizer):
        if id(optimizer) not in self.seen:
            self.unscale_(optimizer)
        if self.seen[id(optimizer)]:
            return False
        optimizer.step()
        return True

    def update(self):
        if any(self.seen.values()):
            self.now = max(self.now * self.backoff_factor, 2.0**-14)
            self.row = 0
        else:
            self.row += 1
            if self.row == self.growth_interval:
                self.now *= self.growth_factor
                self.row = 0
        self.seen = {}


# %% wrong: counts an iteration towards growth only if some optimizer was stepped
class LossScaler:
    def __init__(
        self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000
    ):
        self.now, self.row, self.seen, self.made = float(init_scale), 0, {}, 0
        self.growth_factor, self.backoff_factor = growth_factor, backoff_factor
        self.growth_interval = growth_interval

    def get_scale(self):
        return self.now

    def scale(self, loss):
        return loss * self.now

    def unscale_(self, optimizer):
        if id(optimizer) in self.seen:
            raise RuntimeError("already unscaled")
        found = [p.grad for group in optimizer.param_groups for p in group["params"]]
        found = [grad for grad in found if grad is not None]
        self.seen[id(optimizer)] = any(not torch.isfinite(grad).all() for grad in found)
        for grad in found:
            grad.div_(self.now)

    def step(self, optimizer):
        if id(optimizer) not in self.seen:
            self.unscale_(optimizer)
        if self.seen[id(optimizer)]:
            return False
        optimizer.step()
        self.made += 1
        return True

    def update(self):
        if any(self.seen.values()):
            self.now *= self.backoff_factor
            self.row = 0
        elif self.made:
            self.row += 1
            if self.row == self.growth_interval:
                self.now *= self.growth_factor
                self.row = 0
        self.seen, self.made = {}, 0
