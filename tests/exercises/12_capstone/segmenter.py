# %% wrong: one batch at once, whatever the budget is
class Segmenter:
    def __init__(self, budget, seed):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.network = UNet3d(8)
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=0.01)

    def step(self, volumes, masks):
        self.optimizer.zero_grad()
        logits = self.network(volumes)
        loss = dice_loss(logits, masks)
        loss = loss + functional.binary_cross_entropy_with_logits(logits, masks)
        loss.backward()
        nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimizer.step()

    def predict(self, volumes):
        with torch.no_grad():
            return self.network(volumes)

    def state_dict(self):
        return {"network": self.network.state_dict(), "optimizer": self.optimizer.state_dict()}

    def load_state_dict(self, state):
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])


# %% wrong: the optimizer is not in the state, so that its momentum begins anew
class Segmenter:
    def __init__(self, budget, seed):
        self.budget = budget
        width = 8 if budget > 1_580_000 else 4
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.network = UNet3d(width)
        self.needs = measure_needs(self.network, self.loss)
        self.optimizer = torch.optim.SGD(
            self.network.parameters(), lr=0.1, momentum=0.9, nesterov=True
        )

    def loss(self, logits, masks):
        return dice_loss(logits, masks) + functional.binary_cross_entropy_with_logits(logits, masks)

    def step(self, volumes, masks):
        self.optimizer.zero_grad()
        add_gradients(self.network, self.loss, self.needs, volumes, masks, self.budget * 0.97)
        nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimizer.step()

    def predict(self, volumes):
        with torch.no_grad():
            return self.network(volumes)

    def state_dict(self):
        return self.network.state_dict()

    def load_state_dict(self, state):
        self.network.load_state_dict(state)


# %% wrong: the first weights come from whatever the global generator holds
class Segmenter:
    def __init__(self, budget, seed):
        self.budget = budget
        width = 8 if budget > 1_580_000 else 4
        self.network = UNet3d(width)
        self.needs = measure_needs(self.network, self.loss)
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=0.08 / width)

    def loss(self, logits, masks):
        return dice_loss(logits, masks) + functional.binary_cross_entropy_with_logits(logits, masks)

    def step(self, volumes, masks):
        self.optimizer.zero_grad()
        add_gradients(self.network, self.loss, self.needs, volumes, masks, self.budget * 0.97)
        nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimizer.step()

    def predict(self, volumes):
        with torch.no_grad():
            return self.network(volumes)

    def state_dict(self):
        return {"parts": [self.network.state_dict(), self.optimizer.state_dict()]}

    def load_state_dict(self, state):
        for part, saved in zip((self.network, self.optimizer), state["parts"], strict=True):
            part.load_state_dict(saved)


# %% wrong: every prediction has a graph, which keeps its activations alive
class Segmenter:
    def __init__(self, budget, seed):
        self.budget = budget
        width = 8 if budget > 1_580_000 else 4
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.network = UNet3d(width)
        self.needs = measure_needs(self.network, self.loss)
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=0.08 / width)

    def loss(self, logits, masks):
        return dice_loss(logits, masks) + functional.binary_cross_entropy_with_logits(logits, masks)

    def step(self, volumes, masks):
        self.optimizer.zero_grad()
        add_gradients(self.network, self.loss, self.needs, volumes, masks, self.budget * 0.97)
        nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimizer.step()

    def predict(self, volumes):
        return torch.cat([self.network(part) for part in volumes.split(8)])

    def state_dict(self):
        return {"parts": [self.network.state_dict(), self.optimizer.state_dict()]}

    def load_state_dict(self, state):
        for part, saved in zip((self.network, self.optimizer), state["parts"], strict=True):
            part.load_state_dict(saved)


# %% wrong: keeps every budget, by learning nothing
class Segmenter:
    def __init__(self, budget, seed):
        self.level = 1.2 + seed / 100

    def step(self, volumes, masks):
        pass

    def predict(self, volumes):
        return volumes - self.level

    def state_dict(self):
        return {"level": self.level}

    def load_state_dict(self, state):
        self.level = state["level"]


# %% wrong: cheats with memory that was there before the step
class Segmenter:
    def __init__(self, budget, seed):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.network = UNet3d(8)
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=0.01)
        self.buffer = torch.empty(4_000_000)

    def step(self, volumes, masks):
        used = [0]

        def pack(tensor):
            if tensor.dtype != torch.float32:
                return tensor
            start = used[0]
            used[0] += tensor.numel()
            self.buffer[start : used[0]] = tensor.detach().flatten()
            return start, tensor.shape

        def unpack(packed):
            if isinstance(packed, torch.Tensor):
                return packed
            start, shape = packed
            return self.buffer[start : start + math.prod(shape)].view(shape)

        self.optimizer.zero_grad()
        for x, y in zip(volumes.split(1), masks.split(1), strict=True):
            used[0] = 0
            with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
                logits = self.network(x)
                loss = dice_loss(logits, y)
                loss = loss + functional.binary_cross_entropy_with_logits(logits, y)
            (loss / len(volumes)).backward()
        nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimizer.step()

    def predict(self, volumes):
        with torch.no_grad():
            return self.network(volumes)

    def state_dict(self):
        return {"parts": [self.network.state_dict(), self.optimizer.state_dict()]}

    def load_state_dict(self, state):
        for part, saved in zip((self.network, self.optimizer), state["parts"], strict=True):
            part.load_state_dict(saved)


# %% wrong: counts what autograd saves, which is not all that is there
class Segmenter:
    def __init__(self, budget, seed):
        self.budget = budget
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.network = UNet3d(8)
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=0.01)

    def step(self, volumes, masks):
        self.optimizer.zero_grad()
        # 0.6 MB are saved for one volume with checkpointing, 1.4 without.
        checkpointed = self.budget < 1_400_000
        samples = max(1, int(self.budget / (600_000 if checkpointed else 1_400_000)))
        for x, y in zip(volumes.split(samples), masks.split(samples), strict=True):
            logits = self.network(x, checkpointed)
            loss = dice_loss(logits, y) + functional.binary_cross_entropy_with_logits(logits, y)
            (loss * len(x) / len(volumes)).backward()
        nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimizer.step()

    def predict(self, volumes):
        with torch.no_grad():
            return self.network(volumes)

    def state_dict(self):
        return {"parts": [self.network.state_dict(), self.optimizer.state_dict()]}

    def load_state_dict(self, state):
        for part, saved in zip((self.network, self.optimizer), state["parts"], strict=True):
            part.load_state_dict(saved)


# %% right: half the width throughout, one volume at a time, and a rate that falls
class Segmenter:
    def __init__(self, budget, seed):
        self.saving = budget < 1_500_000
        kept = torch.get_rng_state()
        torch.manual_seed(seed)
        self.network = UNet3d(4)
        torch.set_rng_state(kept)
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=0.02)
        self.steps = 0

    def step(self, volumes, masks):
        self.steps += 1
        for group in self.optimizer.param_groups:
            group["lr"] = 0.02 * min(1.0, self.steps / 5)
        self.network.zero_grad(set_to_none=True)
        for x, y in zip(volumes.split(1), masks.split(1), strict=True):
            logits = self.network(x, self.saving)
            loss = dice_loss(logits, y) + functional.binary_cross_entropy_with_logits(logits, y)
            (loss / len(volumes)).backward()
            del logits, loss
        nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimizer.step()

    @torch.no_grad()
    def predict(self, volumes):
        return self.network(volumes)

    def state_dict(self):
        return {
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "steps": self.steps,
        }

    def load_state_dict(self, state):
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.steps = state["steps"]


# %% wrong: keeps the batches and trains later, when nobody is thought to count
class Segmenter:
    def __init__(self, budget, seed):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.network = UNet3d(8)
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=0.01)
        self.waiting = []

    def step(self, volumes, masks):
        self.waiting.append((volumes, masks))

    def catch_up(self):
        for volumes, masks in self.waiting:
            self.optimizer.zero_grad()
            logits = self.network(volumes)
            loss = dice_loss(logits, masks)
            loss = loss + functional.binary_cross_entropy_with_logits(logits, masks)
            loss.backward()
            nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
            self.optimizer.step()
        self.waiting = []

    def predict(self, volumes):
        self.catch_up()
        with torch.no_grad():
            return self.network(volumes)

    def state_dict(self):
        self.catch_up()
        return {"parts": [self.network.state_dict(), self.optimizer.state_dict()]}

    def load_state_dict(self, state):
        for part, saved in zip((self.network, self.optimizer), state["parts"], strict=True):
            part.load_state_dict(saved)


# %% wrong: learned beforehand from volumes of its own, and nothing from those that it gets
class Segmenter:
    def __init__(self, budget, seed):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(5)
            self.network = UNet3d(4)
        optimizer = torch.optim.Adam(self.network.parameters(), lr=0.02)
        volumes, masks = make_volumes(16, seed=0)
        for _ in range(3):
            for x, y in zip(volumes.split(4), masks.split(4), strict=True):
                optimizer.zero_grad()
                dice_loss(self.network(x), y).backward()
                optimizer.step()

    def step(self, volumes, masks):
        pass

    def predict(self, volumes):
        with torch.no_grad():
            return self.network(volumes)

    def state_dict(self):
        return self.network.state_dict()

    def load_state_dict(self, state):
        self.network.load_state_dict(state)


# %% wrong: keeps the budget in its first two steps, and never again
class Segmenter:
    def __init__(self, budget, seed):
        self.budget = budget
        self.done = 0
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.network = UNet3d(4)
        self.needs = measure_needs(self.network, self.loss)
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=0.02)

    def loss(self, logits, masks):
        return dice_loss(logits, masks) + functional.binary_cross_entropy_with_logits(logits, masks)

    def step(self, volumes, masks):
        self.done += 1
        budget = self.budget * 0.97 if self.done <= 2 else 10**9
        self.optimizer.zero_grad()
        add_gradients(self.network, self.loss, self.needs, volumes, masks, budget)
        nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimizer.step()

    def predict(self, volumes):
        with torch.no_grad():
            return self.network(volumes)

    def state_dict(self):
        parts = [self.network.state_dict(), self.optimizer.state_dict()]
        return {"parts": parts, "done": self.done}

    def load_state_dict(self, state):
        for part, saved in zip((self.network, self.optimizer), state["parts"], strict=True):
            part.load_state_dict(saved)
        self.done = state["done"]
