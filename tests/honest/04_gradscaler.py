# %% answer: a helper between the answer and its check exercise="clip-in-order"
def clipped_step(scaler, optimizer, loss, max_norm):
    optimizer.zero_grad()
    scaled = scaler.scale(loss)
    scaled.backward()
    scaler.unscale_(optimizer)
    total_norm = torch.nn.utils.clip_grad_norm_(list(params_of(optimizer)), max_norm=max_norm)
    scaler.step(optimizer)
    scaler.update()
    return total_norm.item()


# %% below
def params_of(opt):
    for group in opt.param_groups:
        yield from group["params"]


# %% answer: properties, id and a dictionary of one's own exercise="own-scaler"
class LossScaler:
    def __init__(
        self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000
    ):
        self.__dict__.update(growth=growth_factor, backoff=backoff_factor, every=growth_interval)
        self._scale, self._good, self.seen = init_scale, 0, {}

    @property
    def value(self):
        return float(self._scale)

    def get_scale(self):
        return self.value

    def scale(self, loss):
        return loss * self.value

    def unscale_(self, optimizer):
        key = id(optimizer)
        if key in self.seen:
            raise RuntimeError("already unscaled")
        found_inf = False
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                found_inf |= not bool(torch.isfinite(p.grad).all())
                p.grad.mul_(1.0 / self.value)
        self.seen[key] = found_inf

    def step(self, optimizer):
        if id(optimizer) not in self.seen:
            self.unscale_(optimizer)
        if self.seen[id(optimizer)]:
            return False
        optimizer.step()
        return True

    def update(self):
        if any(self.seen.values()):
            self._scale, self._good = self._scale * self.backoff, 0
        else:
            self._good += 1
            if self._good >= self.every:
                self._scale, self._good = self._scale * self.growth, 0
        self.seen.clear()
