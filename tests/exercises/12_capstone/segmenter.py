# %% wrong: the whole batch at once, whatever the budget is
class Segmenter:
    def __init__(self, network, optimizer, loss_function, needs, budget, seed):
        self.network, self.optimizer, self.loss_function = network, optimizer, loss_function
        self.budget = budget
        self.generator = torch.Generator().manual_seed(seed)
        for self.bfloat16, self.patches in ((False, False), (True, False), (False, True)):
            self.needs = partial(needs, bfloat16=self.bfloat16, patches=self.patches)
            if self.needs(1, True) <= budget:
                return
        raise ValueError("too small")

    def step(self, volumes, masks):
        if self.patches:
            volumes, masks = cut_patches(volumes, masks, self.generator)
        self.optimizer.zero_grad()
        loss = self.loss_function(self.forward(volumes, False), masks)
        loss.backward()
        loss = loss.item()
        nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimizer.step()
        return loss

    def forward(self, volumes, checkpointed):
        with torch.autocast(volumes.device.type, torch.bfloat16, enabled=self.bfloat16):
            logits = self.network(volumes, checkpointed)
        return logits.float()

    def state_dict(self):
        return {
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "generator": self.generator.get_state(),
        }

    def load_state_dict(self, state):
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.generator.set_state(state["generator"])


# %% wrong: the optimizer is not in the state, so that its momentum begins anew
class Segmenter:
    def __init__(self, network, optimizer, loss_function, needs, budget, seed):
        self.network, self.optimizer, self.loss_function = network, optimizer, loss_function
        self.budget = budget
        self.generator = torch.Generator().manual_seed(seed)
        for self.bfloat16, self.patches in ((False, False), (True, False), (False, True)):
            self.needs = partial(needs, bfloat16=self.bfloat16, patches=self.patches)
            if self.needs(1, True) <= budget:
                return
        raise ValueError("too small")

    def step(self, volumes, masks):
        if self.patches:
            volumes, masks = cut_patches(volumes, masks, self.generator)
        self.optimizer.zero_grad()
        loss = add_gradients(
            self.forward, self.loss_function, self.needs, volumes, masks, self.budget
        )
        nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimizer.step()
        return loss

    def forward(self, volumes, checkpointed):
        with torch.autocast(volumes.device.type, torch.bfloat16, enabled=self.bfloat16):
            logits = self.network(volumes, checkpointed)
        return logits.float()

    def state_dict(self):
        return {
            "network": self.network.state_dict(),
            "generator": self.generator.get_state(),
        }

    def load_state_dict(self, state):
        self.network.load_state_dict(state["network"])
        self.generator.set_state(state["generator"])


# %% wrong: the generator of the patches is not in the state
class Segmenter:
    def __init__(self, network, optimizer, loss_function, needs, budget, seed):
        self.network, self.optimizer, self.loss_function = network, optimizer, loss_function
        self.budget = budget
        self.generator = torch.Generator().manual_seed(seed)
        for self.bfloat16, self.patches in ((False, False), (True, False), (False, True)):
            self.needs = partial(needs, bfloat16=self.bfloat16, patches=self.patches)
            if self.needs(1, True) <= budget:
                return
        raise ValueError("too small")

    def step(self, volumes, masks):
        if self.patches:
            volumes, masks = cut_patches(volumes, masks, self.generator)
        self.optimizer.zero_grad()
        loss = add_gradients(
            self.forward, self.loss_function, self.needs, volumes, masks, self.budget
        )
        nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimizer.step()
        return loss

    def forward(self, volumes, checkpointed):
        with torch.autocast(volumes.device.type, torch.bfloat16, enabled=self.bfloat16):
            logits = self.network(volumes, checkpointed)
        return logits.float()

    def state_dict(self):
        return {
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
        }

    def load_state_dict(self, state):
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])


# %% wrong: the weights are not in the state
class Segmenter:
    def __init__(self, network, optimizer, loss_function, needs, budget, seed):
        self.network, self.optimizer, self.loss_function = network, optimizer, loss_function
        self.budget = budget
        self.generator = torch.Generator().manual_seed(seed)
        for self.bfloat16, self.patches in ((False, False), (True, False), (False, True)):
            self.needs = partial(needs, bfloat16=self.bfloat16, patches=self.patches)
            if self.needs(1, True) <= budget:
                return
        raise ValueError("too small")

    def step(self, volumes, masks):
        if self.patches:
            volumes, masks = cut_patches(volumes, masks, self.generator)
        self.optimizer.zero_grad()
        loss = add_gradients(
            self.forward, self.loss_function, self.needs, volumes, masks, self.budget
        )
        nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimizer.step()
        return loss

    def forward(self, volumes, checkpointed):
        with torch.autocast(volumes.device.type, torch.bfloat16, enabled=self.bfloat16):
            logits = self.network(volumes, checkpointed)
        return logits.float()

    def state_dict(self):
        return {
            "optimizer": self.optimizer.state_dict(),
            "generator": self.generator.get_state(),
        }

    def load_state_dict(self, state):
        self.optimizer.load_state_dict(state["optimizer"])
        self.generator.set_state(state["generator"])


# %% wrong: gradients of earlier steps are still there
class Segmenter:
    def __init__(self, network, optimizer, loss_function, needs, budget, seed):
        self.network, self.optimizer, self.loss_function = network, optimizer, loss_function
        self.budget = budget
        self.generator = torch.Generator().manual_seed(seed)
        for self.bfloat16, self.patches in ((False, False), (True, False), (False, True)):
            self.needs = partial(needs, bfloat16=self.bfloat16, patches=self.patches)
            if self.needs(1, True) <= budget:
                return
        raise ValueError("too small")

    def step(self, volumes, masks):
        if self.patches:
            volumes, masks = cut_patches(volumes, masks, self.generator)
        loss = add_gradients(
            self.forward, self.loss_function, self.needs, volumes, masks, self.budget
        )
        nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimizer.step()
        return loss

    def forward(self, volumes, checkpointed):
        with torch.autocast(volumes.device.type, torch.bfloat16, enabled=self.bfloat16):
            logits = self.network(volumes, checkpointed)
        return logits.float()

    def state_dict(self):
        return {
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "generator": self.generator.get_state(),
        }

    def load_state_dict(self, state):
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.generator.set_state(state["generator"])


# %% wrong: the gradients are not clipped
class Segmenter:
    def __init__(self, network, optimizer, loss_function, needs, budget, seed):
        self.network, self.optimizer, self.loss_function = network, optimizer, loss_function
        self.budget = budget
        self.generator = torch.Generator().manual_seed(seed)
        for self.bfloat16, self.patches in ((False, False), (True, False), (False, True)):
            self.needs = partial(needs, bfloat16=self.bfloat16, patches=self.patches)
            if self.needs(1, True) <= budget:
                return
        raise ValueError("too small")

    def step(self, volumes, masks):
        if self.patches:
            volumes, masks = cut_patches(volumes, masks, self.generator)
        self.optimizer.zero_grad()
        loss = add_gradients(
            self.forward, self.loss_function, self.needs, volumes, masks, self.budget
        )
        self.optimizer.step()
        return loss

    def forward(self, volumes, checkpointed):
        with torch.autocast(volumes.device.type, torch.bfloat16, enabled=self.bfloat16):
            logits = self.network(volumes, checkpointed)
        return logits.float()

    def state_dict(self):
        return {
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "generator": self.generator.get_state(),
        }

    def load_state_dict(self, state):
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.generator.set_state(state["generator"])


# %% wrong: every entry of the gradient is clipped, not its norm
class Segmenter:
    def __init__(self, network, optimizer, loss_function, needs, budget, seed):
        self.network, self.optimizer, self.loss_function = network, optimizer, loss_function
        self.budget = budget
        self.generator = torch.Generator().manual_seed(seed)
        for self.bfloat16, self.patches in ((False, False), (True, False), (False, True)):
            self.needs = partial(needs, bfloat16=self.bfloat16, patches=self.patches)
            if self.needs(1, True) <= budget:
                return
        raise ValueError("too small")

    def step(self, volumes, masks):
        if self.patches:
            volumes, masks = cut_patches(volumes, masks, self.generator)
        self.optimizer.zero_grad()
        loss = add_gradients(
            self.forward, self.loss_function, self.needs, volumes, masks, self.budget
        )
        nn.utils.clip_grad_value_(self.network.parameters(), 1.0)
        self.optimizer.step()
        return loss

    def forward(self, volumes, checkpointed):
        with torch.autocast(volumes.device.type, torch.bfloat16, enabled=self.bfloat16):
            logits = self.network(volumes, checkpointed)
        return logits.float()

    def state_dict(self):
        return {
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "generator": self.generator.get_state(),
        }

    def load_state_dict(self, state):
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.generator.set_state(state["generator"])


# %% wrong: clipped after the step
class Segmenter:
    def __init__(self, network, optimizer, loss_function, needs, budget, seed):
        self.network, self.optimizer, self.loss_function = network, optimizer, loss_function
        self.budget = budget
        self.generator = torch.Generator().manual_seed(seed)
        for self.bfloat16, self.patches in ((False, False), (True, False), (False, True)):
            self.needs = partial(needs, bfloat16=self.bfloat16, patches=self.patches)
            if self.needs(1, True) <= budget:
                return
        raise ValueError("too small")

    def step(self, volumes, masks):
        if self.patches:
            volumes, masks = cut_patches(volumes, masks, self.generator)
        self.optimizer.zero_grad()
        loss = add_gradients(
            self.forward, self.loss_function, self.needs, volumes, masks, self.budget
        )
        self.optimizer.step()
        nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        return loss

    def forward(self, volumes, checkpointed):
        with torch.autocast(volumes.device.type, torch.bfloat16, enabled=self.bfloat16):
            logits = self.network(volumes, checkpointed)
        return logits.float()

    def state_dict(self):
        return {
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "generator": self.generator.get_state(),
        }

    def load_state_dict(self, state):
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.generator.set_state(state["generator"])


# %% wrong: patches come before bfloat16
class Segmenter:
    def __init__(self, network, optimizer, loss_function, needs, budget, seed):
        self.network, self.optimizer, self.loss_function = network, optimizer, loss_function
        self.budget = budget
        self.generator = torch.Generator().manual_seed(seed)
        for self.bfloat16, self.patches in ((False, False), (False, True), (True, False)):
            self.needs = partial(needs, bfloat16=self.bfloat16, patches=self.patches)
            if self.needs(1, True) <= budget:
                return
        raise ValueError("too small")

    def step(self, volumes, masks):
        if self.patches:
            volumes, masks = cut_patches(volumes, masks, self.generator)
        self.optimizer.zero_grad()
        loss = add_gradients(
            self.forward, self.loss_function, self.needs, volumes, masks, self.budget
        )
        nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimizer.step()
        return loss

    def forward(self, volumes, checkpointed):
        with torch.autocast(volumes.device.type, torch.bfloat16, enabled=self.bfloat16):
            logits = self.network(volumes, checkpointed)
        return logits.float()

    def state_dict(self):
        return {
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "generator": self.generator.get_state(),
        }

    def load_state_dict(self, state):
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.generator.set_state(state["generator"])


# %% wrong: always in bfloat16
class Segmenter:
    def __init__(self, network, optimizer, loss_function, needs, budget, seed):
        self.network, self.optimizer, self.loss_function = network, optimizer, loss_function
        self.budget = budget
        self.generator = torch.Generator().manual_seed(seed)
        for self.bfloat16, self.patches in ((True, False), (False, True)):
            self.needs = partial(needs, bfloat16=self.bfloat16, patches=self.patches)
            if self.needs(1, True) <= budget:
                return
        raise ValueError("too small")

    def step(self, volumes, masks):
        if self.patches:
            volumes, masks = cut_patches(volumes, masks, self.generator)
        self.optimizer.zero_grad()
        loss = add_gradients(
            self.forward, self.loss_function, self.needs, volumes, masks, self.budget
        )
        nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimizer.step()
        return loss

    def forward(self, volumes, checkpointed):
        with torch.autocast(volumes.device.type, torch.bfloat16, enabled=self.bfloat16):
            logits = self.network(volumes, checkpointed)
        return logits.float()

    def state_dict(self):
        return {
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "generator": self.generator.get_state(),
        }

    def load_state_dict(self, state):
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.generator.set_state(state["generator"])


# %% wrong: bfloat16 is never used
class Segmenter:
    def __init__(self, network, optimizer, loss_function, needs, budget, seed):
        self.network, self.optimizer, self.loss_function = network, optimizer, loss_function
        self.budget = budget
        self.generator = torch.Generator().manual_seed(seed)
        for self.bfloat16, self.patches in ((False, False), (False, True)):
            self.needs = partial(needs, bfloat16=self.bfloat16, patches=self.patches)
            if self.needs(1, True) <= budget:
                return
        raise ValueError("too small")

    def step(self, volumes, masks):
        if self.patches:
            volumes, masks = cut_patches(volumes, masks, self.generator)
        self.optimizer.zero_grad()
        loss = add_gradients(
            self.forward, self.loss_function, self.needs, volumes, masks, self.budget
        )
        nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimizer.step()
        return loss

    def forward(self, volumes, checkpointed):
        with torch.autocast(volumes.device.type, torch.bfloat16, enabled=self.bfloat16):
            logits = self.network(volumes, checkpointed)
        return logits.float()

    def state_dict(self):
        return {
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "generator": self.generator.get_state(),
        }

    def load_state_dict(self, state):
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.generator.set_state(state["generator"])


# %% wrong: patches are never used
class Segmenter:
    def __init__(self, network, optimizer, loss_function, needs, budget, seed):
        self.network, self.optimizer, self.loss_function = network, optimizer, loss_function
        self.budget = budget
        self.generator = torch.Generator().manual_seed(seed)
        for self.bfloat16, self.patches in ((False, False), (True, False)):
            self.needs = partial(needs, bfloat16=self.bfloat16, patches=self.patches)
            if self.needs(1, True) <= budget:
                return
        raise ValueError("too small")

    def step(self, volumes, masks):
        if self.patches:
            volumes, masks = cut_patches(volumes, masks, self.generator)
        self.optimizer.zero_grad()
        loss = add_gradients(
            self.forward, self.loss_function, self.needs, volumes, masks, self.budget
        )
        nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimizer.step()
        return loss

    def forward(self, volumes, checkpointed):
        with torch.autocast(volumes.device.type, torch.bfloat16, enabled=self.bfloat16):
            logits = self.network(volumes, checkpointed)
        return logits.float()

    def state_dict(self):
        return {
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "generator": self.generator.get_state(),
        }

    def load_state_dict(self, state):
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.generator.set_state(state["generator"])


# %% wrong: always on patches, which fit everywhere
class Segmenter:
    def __init__(self, network, optimizer, loss_function, needs, budget, seed):
        self.network, self.optimizer, self.loss_function = network, optimizer, loss_function
        self.budget = budget
        self.generator = torch.Generator().manual_seed(seed)
        for self.bfloat16, self.patches in ((False, True),):
            self.needs = partial(needs, bfloat16=self.bfloat16, patches=self.patches)
            if self.needs(1, True) <= budget:
                return
        raise ValueError("too small")

    def step(self, volumes, masks):
        if self.patches:
            volumes, masks = cut_patches(volumes, masks, self.generator)
        self.optimizer.zero_grad()
        loss = add_gradients(
            self.forward, self.loss_function, self.needs, volumes, masks, self.budget
        )
        nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimizer.step()
        return loss

    def forward(self, volumes, checkpointed):
        with torch.autocast(volumes.device.type, torch.bfloat16, enabled=self.bfloat16):
            logits = self.network(volumes, checkpointed)
        return logits.float()

    def state_dict(self):
        return {
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "generator": self.generator.get_state(),
        }

    def load_state_dict(self, state):
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.generator.set_state(state["generator"])


# %% wrong: the logits stay in bfloat16
class Segmenter:
    def __init__(self, network, optimizer, loss_function, needs, budget, seed):
        self.network, self.optimizer, self.loss_function = network, optimizer, loss_function
        self.budget = budget
        self.generator = torch.Generator().manual_seed(seed)
        for self.bfloat16, self.patches in ((False, False), (True, False), (False, True)):
            self.needs = partial(needs, bfloat16=self.bfloat16, patches=self.patches)
            if self.needs(1, True) <= budget:
                return
        raise ValueError("too small")

    def step(self, volumes, masks):
        if self.patches:
            volumes, masks = cut_patches(volumes, masks, self.generator)
        self.optimizer.zero_grad()
        loss = add_gradients(
            self.forward, self.loss_function, self.needs, volumes, masks, self.budget
        )
        nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimizer.step()
        return loss

    def forward(self, volumes, checkpointed):
        with torch.autocast(volumes.device.type, torch.bfloat16, enabled=self.bfloat16):
            logits = self.network(volumes, checkpointed)
        return logits

    def state_dict(self):
        return {
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "generator": self.generator.get_state(),
        }

    def load_state_dict(self, state):
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.generator.set_state(state["generator"])


# %% wrong: the same patches in every step
class Segmenter:
    def __init__(self, network, optimizer, loss_function, needs, budget, seed):
        self.network, self.optimizer, self.loss_function = network, optimizer, loss_function
        self.budget = budget
        self.generator = torch.Generator().manual_seed(seed)
        for self.bfloat16, self.patches in ((False, False), (True, False), (False, True)):
            self.needs = partial(needs, bfloat16=self.bfloat16, patches=self.patches)
            if self.needs(1, True) <= budget:
                return
        raise ValueError("too small")

    def step(self, volumes, masks):
        if self.patches:
            volumes, masks = cut_patches(
                volumes, masks, torch.Generator().manual_seed(self.generator.initial_seed())
            )
        self.optimizer.zero_grad()
        loss = add_gradients(
            self.forward, self.loss_function, self.needs, volumes, masks, self.budget
        )
        nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimizer.step()
        return loss

    def forward(self, volumes, checkpointed):
        with torch.autocast(volumes.device.type, torch.bfloat16, enabled=self.bfloat16):
            logits = self.network(volumes, checkpointed)
        return logits.float()

    def state_dict(self):
        return {
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "generator": self.generator.get_state(),
        }

    def load_state_dict(self, state):
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.generator.set_state(state["generator"])


# %% wrong: the seed goes to the global generator, which others need
class Segmenter:
    def __init__(self, network, optimizer, loss_function, needs, budget, seed):
        self.network, self.optimizer, self.loss_function = network, optimizer, loss_function
        self.budget = budget
        self.generator = torch.random.default_generator.manual_seed(seed)
        for self.bfloat16, self.patches in ((False, False), (True, False), (False, True)):
            self.needs = partial(needs, bfloat16=self.bfloat16, patches=self.patches)
            if self.needs(1, True) <= budget:
                return
        raise ValueError("too small")

    def step(self, volumes, masks):
        if self.patches:
            volumes, masks = cut_patches(volumes, masks, self.generator)
        self.optimizer.zero_grad()
        loss = add_gradients(
            self.forward, self.loss_function, self.needs, volumes, masks, self.budget
        )
        nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimizer.step()
        return loss

    def forward(self, volumes, checkpointed):
        with torch.autocast(volumes.device.type, torch.bfloat16, enabled=self.bfloat16):
            logits = self.network(volumes, checkpointed)
        return logits.float()

    def state_dict(self):
        return {
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "generator": self.generator.get_state(),
        }

    def load_state_dict(self, state):
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.generator.set_state(state["generator"])


# %% wrong: the patches come from the global generator, and differ between processes
class Segmenter:
    def __init__(self, network, optimizer, loss_function, needs, budget, seed):
        self.network, self.optimizer, self.loss_function = network, optimizer, loss_function
        self.budget = budget
        self.generator = torch.Generator().manual_seed(seed)
        for self.bfloat16, self.patches in ((False, False), (True, False), (False, True)):
            self.needs = partial(needs, bfloat16=self.bfloat16, patches=self.patches)
            if self.needs(1, True) <= budget:
                return
        raise ValueError("too small")

    def step(self, volumes, masks):
        if self.patches:
            volumes, masks = cut_patches(volumes, masks, torch.random.default_generator)
        self.optimizer.zero_grad()
        loss = add_gradients(
            self.forward, self.loss_function, self.needs, volumes, masks, self.budget
        )
        nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimizer.step()
        return loss

    def forward(self, volumes, checkpointed):
        with torch.autocast(volumes.device.type, torch.bfloat16, enabled=self.bfloat16):
            logits = self.network(volumes, checkpointed)
        return logits.float()

    def state_dict(self):
        return {
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "generator": self.generator.get_state(),
        }

    def load_state_dict(self, state):
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.generator.set_state(state["generator"])


# %% wrong: masks are cut at other places than volumes
class Segmenter:
    def __init__(self, network, optimizer, loss_function, needs, budget, seed):
        self.network, self.optimizer, self.loss_function = network, optimizer, loss_function
        self.budget = budget
        self.generator = torch.Generator().manual_seed(seed)
        for self.bfloat16, self.patches in ((False, False), (True, False), (False, True)):
            self.needs = partial(needs, bfloat16=self.bfloat16, patches=self.patches)
            if self.needs(1, True) <= budget:
                return
        raise ValueError("too small")

    def step(self, volumes, masks):
        if self.patches:
            volumes, _ = cut_patches(volumes, masks, self.generator)
            _, masks = cut_patches(masks, masks, self.generator)
        self.optimizer.zero_grad()
        loss = add_gradients(
            self.forward, self.loss_function, self.needs, volumes, masks, self.budget
        )
        nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimizer.step()
        return loss

    def forward(self, volumes, checkpointed):
        with torch.autocast(volumes.device.type, torch.bfloat16, enabled=self.bfloat16):
            logits = self.network(volumes, checkpointed)
        return logits.float()

    def state_dict(self):
        return {
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "generator": self.generator.get_state(),
        }

    def load_state_dict(self, state):
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.generator.set_state(state["generator"])


# %% wrong: a budget that is too small is noticed in the first step only
class Segmenter:
    def __init__(self, network, optimizer, loss_function, needs, budget, seed):
        self.network, self.optimizer, self.loss_function = network, optimizer, loss_function
        self.budget = budget
        self.generator = torch.Generator().manual_seed(seed)
        for self.bfloat16, self.patches in ((False, False), (True, False), (False, True)):
            self.needs = partial(needs, bfloat16=self.bfloat16, patches=self.patches)
            if self.needs(1, True) <= budget or self.patches:
                return

    def step(self, volumes, masks):
        if self.patches:
            volumes, masks = cut_patches(volumes, masks, self.generator)
        self.optimizer.zero_grad()
        loss = add_gradients(
            self.forward, self.loss_function, self.needs, volumes, masks, self.budget
        )
        nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimizer.step()
        return loss

    def forward(self, volumes, checkpointed):
        with torch.autocast(volumes.device.type, torch.bfloat16, enabled=self.bfloat16):
            logits = self.network(volumes, checkpointed)
        return logits.float()

    def state_dict(self):
        return {
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "generator": self.generator.get_state(),
        }

    def load_state_dict(self, state):
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.generator.set_state(state["generator"])


# %% wrong: the graph of every loss is kept
class Segmenter:
    def __init__(self, network, optimizer, loss_function, needs, budget, seed):
        self.network, self.optimizer, self.loss_function = network, optimizer, loss_function
        self.budget = budget
        self.generator = torch.Generator().manual_seed(seed)
        for self.bfloat16, self.patches in ((False, False), (True, False), (False, True)):
            self.needs = partial(needs, bfloat16=self.bfloat16, patches=self.patches)
            if self.needs(1, True) <= budget:
                return
        raise ValueError("too small")

    def step(self, volumes, masks):
        if self.patches:
            volumes, masks = cut_patches(volumes, masks, self.generator)
        self.optimizer.zero_grad()
        self.kept = getattr(self, "kept", [])
        self.kept.append(self.forward(volumes[:1], False))
        loss = add_gradients(
            self.forward, self.loss_function, self.needs, volumes, masks, self.budget
        )
        nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimizer.step()
        return loss

    def forward(self, volumes, checkpointed):
        with torch.autocast(volumes.device.type, torch.bfloat16, enabled=self.bfloat16):
            logits = self.network(volumes, checkpointed)
        return logits.float()

    def state_dict(self):
        return {
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "generator": self.generator.get_state(),
        }

    def load_state_dict(self, state):
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.generator.set_state(state["generator"])


# %% wrong: one sample at a time, also where more fit
class Segmenter:
    def __init__(self, network, optimizer, loss_function, needs, budget, seed):
        self.network, self.optimizer, self.loss_function = network, optimizer, loss_function
        self.budget = budget
        self.generator = torch.Generator().manual_seed(seed)
        for self.bfloat16, self.patches in ((False, False), (True, False), (False, True)):
            self.needs = partial(needs, bfloat16=self.bfloat16, patches=self.patches)
            if self.needs(1, True) <= budget:
                return
        raise ValueError("too small")

    def step(self, volumes, masks):
        if self.patches:
            volumes, masks = cut_patches(volumes, masks, self.generator)
        self.optimizer.zero_grad()
        loss = 0.0
        saving = self.needs(1, False) > self.budget
        for x, y in zip(volumes.split(1), masks.split(1), strict=True):
            part = self.loss_function(self.forward(x, saving), y) / len(volumes)
            part.backward()
            loss += part.item()
        nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimizer.step()
        return loss

    def forward(self, volumes, checkpointed):
        with torch.autocast(volumes.device.type, torch.bfloat16, enabled=self.bfloat16):
            logits = self.network(volumes, checkpointed)
        return logits.float()

    def state_dict(self):
        return {
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "generator": self.generator.get_state(),
        }

    def load_state_dict(self, state):
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.generator.set_state(state["generator"])


# %% wrong: returns nothing
class Segmenter:
    def __init__(self, network, optimizer, loss_function, needs, budget, seed):
        self.network, self.optimizer, self.loss_function = network, optimizer, loss_function
        self.budget = budget
        self.generator = torch.Generator().manual_seed(seed)
        for self.bfloat16, self.patches in ((False, False), (True, False), (False, True)):
            self.needs = partial(needs, bfloat16=self.bfloat16, patches=self.patches)
            if self.needs(1, True) <= budget:
                return
        raise ValueError("too small")

    def step(self, volumes, masks):
        if self.patches:
            volumes, masks = cut_patches(volumes, masks, self.generator)
        self.optimizer.zero_grad()
        add_gradients(self.forward, self.loss_function, self.needs, volumes, masks, self.budget)
        nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimizer.step()

    def forward(self, volumes, checkpointed):
        with torch.autocast(volumes.device.type, torch.bfloat16, enabled=self.bfloat16):
            logits = self.network(volumes, checkpointed)
        return logits.float()

    def state_dict(self):
        return {
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "generator": self.generator.get_state(),
        }

    def load_state_dict(self, state):
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.generator.set_state(state["generator"])


# %% wrong: weights are rounded to bfloat16 for the forward pass
class Segmenter:
    def __init__(self, network, optimizer, loss_function, needs, budget, seed):
        self.network, self.optimizer, self.loss_function = network, optimizer, loss_function
        self.budget = budget
        self.generator = torch.Generator().manual_seed(seed)
        for self.bfloat16, self.patches in ((False, False), (True, False), (False, True)):
            self.needs = partial(needs, bfloat16=self.bfloat16, patches=self.patches)
            if self.needs(1, True) <= budget:
                return
        raise ValueError("too small")

    def step(self, volumes, masks):
        if self.patches:
            volumes, masks = cut_patches(volumes, masks, self.generator)
        self.optimizer.zero_grad()
        loss = add_gradients(
            self.forward, self.loss_function, self.needs, volumes, masks, self.budget
        )
        nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimizer.step()
        return loss

    def forward(self, volumes, checkpointed):
        if self.bfloat16:
            self.network.bfloat16()
            volumes = volumes.bfloat16()
        logits = self.network(volumes, checkpointed)
        return logits.float()

    def state_dict(self):
        return {
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "generator": self.generator.get_state(),
        }

    def load_state_dict(self, state):
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.generator.set_state(state["generator"])


# %% wrong: keeps the batches and trains later, when nobody is thought to look
class Segmenter:
    def __init__(self, network, optimizer, loss_function, needs, budget, seed):
        self.network, self.optimizer, self.loss_function = network, optimizer, loss_function
        self.waiting = []

    def step(self, volumes, masks):
        self.waiting.append((volumes, masks))
        return self.loss_function(self.network(volumes, False), masks).item()

    def catch_up(self):
        for volumes, masks in self.waiting:
            self.optimizer.zero_grad()
            self.loss_function(self.network(volumes, False), masks).backward()
            nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
            self.optimizer.step()
        self.waiting = []

    def state_dict(self):
        self.catch_up()
        return {"network": self.network.state_dict(), "optimizer": self.optimizer.state_dict()}

    def load_state_dict(self, state):
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])


# %% right: every lever by hand, without add_gradients
class Segmenter:
    def __init__(self, network, optimizer, loss_function, needs, budget, seed):
        self.parts = {"network": network, "optimizer": optimizer}
        self.loss_function = loss_function
        self.random = torch.Generator()
        self.random.manual_seed(seed)
        ways = {"plain": (False, False), "half": (True, False), "pieces": (False, True)}
        fits = [name for name, levers in ways.items() if needs(1, True, *levers) <= budget]
        if not fits:
            raise ValueError(budget)
        self.way = fits[0]
        self.fits = lambda n, saving: needs(n, saving, *ways[self.way]) <= budget

    def step(self, volumes, masks):
        network, optimizer = self.parts.values()
        x, y = volumes, masks
        if self.way == "pieces":
            x, y = cut_patches(x, y, self.random)
        saving = not self.fits(1, False)
        at_once = max(n for n in range(1, len(x) + 1) if self.fits(n, saving))
        network.zero_grad(set_to_none=True)
        total = 0.0
        for part, mask in zip(x.split(at_once), y.split(at_once), strict=True):
            if self.way == "half":
                with torch.autocast(part.device.type, dtype=torch.bfloat16):
                    logits = network(part, saving).to(torch.float32)
            else:
                logits = network(part, saving)
            loss = self.loss_function(logits, mask) * (len(part) / len(x))
            loss.backward()
            total += loss.item()
            del logits, loss
        torch.nn.utils.clip_grad_norm_(list(network.parameters()), max_norm=1.0)
        optimizer.step()
        return total

    def state_dict(self):
        states = {name: part.state_dict() for name, part in self.parts.items()}
        return {**states, "random": self.random.get_state()}

    def load_state_dict(self, state):
        for name, part in self.parts.items():
            part.load_state_dict(state[name])
        self.random.set_state(state["random"])


# %% right: a seed for each step in the place of a generator's state
class Segmenter:
    def __init__(self, network, optimizer, loss_function, needs, budget, seed):
        self.network, self.optimizer, self.loss_function = network, optimizer, loss_function
        self.needs, self.budget, self.seed, self.steps = needs, budget, seed, 0
        self.levers = next(
            ({"bfloat16": b, "patches": p} for b, p in ((0, 0), (1, 0), (0, 1)) if
             needs(1, True, bool(b), bool(p)) <= budget), None
        )  # fmt: skip
        if self.levers is None:
            raise ValueError("the budget is too small")

    def step(self, volumes, masks):
        self.steps += 1
        if self.levers["patches"]:
            generator = torch.Generator().manual_seed(self.seed * 100_003 + self.steps)
            volumes, masks = cut_patches(volumes, masks, generator)

        def run(x, checkpointed):
            half = bool(self.levers["bfloat16"])
            with torch.autocast(x.device.type, torch.bfloat16, enabled=half):
                return self.network(x, checkpointed).float()

        def bytes_of(samples, checkpointed):
            return self.needs(samples, checkpointed, **self.levers)

        self.optimizer.zero_grad()
        loss = add_gradients(run, self.loss_function, bytes_of, volumes, masks, self.budget)
        nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimizer.step()
        return loss

    def state_dict(self):
        both = [self.network.state_dict(), self.optimizer.state_dict()]
        return {"both": both, "steps": self.steps}

    def load_state_dict(self, state):
        self.network.load_state_dict(state["both"][0])
        self.optimizer.load_state_dict(state["both"][1])
        self.steps = state["steps"]


# %% wrong: each gradient is scaled to norm 1, also a shorter one
class Segmenter:
    """A training that keeps a budget of bytes."""

    def __init__(self, network, optimizer, loss_function, needs, budget, seed):
        self.network = network
        self.optimizer = optimizer
        self.loss_function = loss_function
        self.budget = budget
        self.generator = torch.Generator().manual_seed(seed)
        for bfloat16, patches in ((False, False), (True, False), (False, True)):
            if needs(1, True, bfloat16, patches) <= budget:
                self.bfloat16, self.patches = bfloat16, patches
                break
        else:
            raise ValueError("the budget is too small")
        self.needs = lambda samples, checkpointed: needs(
            samples, checkpointed, self.bfloat16, self.patches
        )

    def forward(self, volumes, checkpointed):
        with torch.autocast(volumes.device.type, torch.bfloat16, enabled=self.bfloat16):
            logits = self.network(volumes, checkpointed)
        return logits.float()

    def step(self, volumes, masks):
        if self.patches:
            volumes, masks = cut_patches(volumes, masks, self.generator)
        self.optimizer.zero_grad()
        loss = add_gradients(
            self.forward, self.loss_function, self.needs, volumes, masks, self.budget
        )
        norm = torch.cat([w.grad.flatten() for w in self.network.parameters()]).norm()
        for w in self.network.parameters():
            w.grad /= norm
        self.optimizer.step()
        return loss

    def state_dict(self):
        return {
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "generator": self.generator.get_state(),
        }

    def load_state_dict(self, state):
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.generator.set_state(state["generator"])


# %% wrong: a plan that needs just the budget is not taken
class Segmenter:
    """A training that keeps a budget of bytes."""

    def __init__(self, network, optimizer, loss_function, needs, budget, seed):
        self.network = network
        self.optimizer = optimizer
        self.loss_function = loss_function
        self.budget = budget
        self.generator = torch.Generator().manual_seed(seed)
        for bfloat16, patches in ((False, False), (True, False), (False, True)):
            if needs(1, True, bfloat16, patches) < budget:
                self.bfloat16, self.patches = bfloat16, patches
                break
        else:
            raise ValueError("the budget is too small")
        self.needs = lambda samples, checkpointed: needs(
            samples, checkpointed, self.bfloat16, self.patches
        )

    def forward(self, volumes, checkpointed):
        with torch.autocast(volumes.device.type, torch.bfloat16, enabled=self.bfloat16):
            logits = self.network(volumes, checkpointed)
        return logits.float()

    def step(self, volumes, masks):
        if self.patches:
            volumes, masks = cut_patches(volumes, masks, self.generator)
        self.optimizer.zero_grad()
        loss = add_gradients(
            self.forward, self.loss_function, self.needs, volumes, masks, self.budget
        )
        nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimizer.step()
        return loss

    def state_dict(self):
        return {
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "generator": self.generator.get_state(),
        }

    def load_state_dict(self, state):
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.generator.set_state(state["generator"])


# %% right: clips the gradient by hand
class Segmenter:
    """A training that keeps a budget of bytes."""

    def __init__(self, network, optimizer, loss_function, needs, budget, seed):
        self.network = network
        self.optimizer = optimizer
        self.loss_function = loss_function
        self.budget = budget
        self.generator = torch.Generator().manual_seed(seed)
        for bfloat16, patches in ((False, False), (True, False), (False, True)):
            if needs(1, True, bfloat16, patches) <= budget:
                self.bfloat16, self.patches = bfloat16, patches
                break
        else:
            raise ValueError("the budget is too small")
        self.needs = lambda samples, checkpointed: needs(
            samples, checkpointed, self.bfloat16, self.patches
        )

    def forward(self, volumes, checkpointed):
        with torch.autocast(volumes.device.type, torch.bfloat16, enabled=self.bfloat16):
            logits = self.network(volumes, checkpointed)
        return logits.float()

    def step(self, volumes, masks):
        if self.patches:
            volumes, masks = cut_patches(volumes, masks, self.generator)
        self.optimizer.zero_grad()
        loss = add_gradients(
            self.forward, self.loss_function, self.needs, volumes, masks, self.budget
        )
        grads = [w.grad for w in self.network.parameters() if w.grad is not None]
        norm = math.sqrt(sum(torch.linalg.vector_norm(g).item() ** 2 for g in grads))
        if norm > 1:
            for g in grads:
                g.mul_(1 / norm)
        self.optimizer.step()
        return loss

    def state_dict(self):
        return {
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "generator": self.generator.get_state(),
        }

    def load_state_dict(self, state):
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.generator.set_state(state["generator"])


# %% wrong: gradients are cleared only after a step, so that those from before it count
class Segmenter:
    def __init__(self, network, optimizer, loss_function, needs, budget, seed):
        self.network, self.optimizer, self.loss_function = network, optimizer, loss_function
        self.budget = budget
        self.generator = torch.Generator().manual_seed(seed)
        for self.bfloat16, self.patches in ((False, False), (True, False), (False, True)):
            self.needs = partial(needs, bfloat16=self.bfloat16, patches=self.patches)
            if self.needs(1, True) <= budget:
                return
        raise ValueError("too small")

    def step(self, volumes, masks):
        if self.patches:
            volumes, masks = cut_patches(volumes, masks, self.generator)
        loss = add_gradients(
            self.forward, self.loss_function, self.needs, volumes, masks, self.budget
        )
        nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss

    def forward(self, volumes, checkpointed):
        with torch.autocast(volumes.device.type, torch.bfloat16, enabled=self.bfloat16):
            logits = self.network(volumes, checkpointed)
        return logits.float()

    def state_dict(self):
        return {
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "generator": self.generator.get_state(),
        }

    def load_state_dict(self, state):
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.generator.set_state(state["generator"])


# %% wrong: the first batch decides how many samples are taken at a time in all later ones
class Segmenter:
    def __init__(self, network, optimizer, loss_function, needs, budget, seed):
        self.network, self.optimizer, self.loss_function = network, optimizer, loss_function
        self.budget = budget
        self.generator = torch.Generator().manual_seed(seed)
        for self.bfloat16, self.patches in ((False, False), (True, False), (False, True)):
            self.needs = partial(needs, bfloat16=self.bfloat16, patches=self.patches)
            if self.needs(1, True) <= budget:
                return
        raise ValueError("too small")

    def step(self, volumes, masks):
        if self.patches:
            volumes, masks = cut_patches(volumes, masks, self.generator)
        self.optimizer.zero_grad()
        if not hasattr(self, "at_once"):
            self.saving = self.needs(1, False) > self.budget
            self.at_once = 1
            while (
                self.at_once < len(volumes)
                and self.needs(self.at_once + 1, self.saving) <= self.budget
            ):
                self.at_once += 1
        loss = 0.0
        for x, y in zip(volumes.split(self.at_once), masks.split(self.at_once), strict=True):
            part = self.loss_function(self.forward(x, self.saving), y) * len(x) / len(volumes)
            part.backward()
            loss += part.item()
            del part
        nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimizer.step()
        return loss

    def forward(self, volumes, checkpointed):
        with torch.autocast(volumes.device.type, torch.bfloat16, enabled=self.bfloat16):
            logits = self.network(volumes, checkpointed)
        return logits.float()

    def state_dict(self):
        return {
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "generator": self.generator.get_state(),
        }

    def load_state_dict(self, state):
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.generator.set_state(state["generator"])


# %% wrong: the segmenter itself is in the state, which cannot be read then
class Segmenter:
    def __init__(self, network, optimizer, loss_function, needs, budget, seed):
        self.network, self.optimizer, self.loss_function = network, optimizer, loss_function
        self.budget = budget
        self.generator = torch.Generator().manual_seed(seed)
        for self.bfloat16, self.patches in ((False, False), (True, False), (False, True)):
            self.needs = partial(needs, bfloat16=self.bfloat16, patches=self.patches)
            if self.needs(1, True) <= budget:
                return
        raise ValueError("too small")

    def step(self, volumes, masks):
        if self.patches:
            volumes, masks = cut_patches(volumes, masks, self.generator)
        self.optimizer.zero_grad()
        loss = add_gradients(
            self.forward, self.loss_function, self.needs, volumes, masks, self.budget
        )
        nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimizer.step()
        return loss

    def forward(self, volumes, checkpointed):
        with torch.autocast(volumes.device.type, torch.bfloat16, enabled=self.bfloat16):
            logits = self.network(volumes, checkpointed)
        return logits.float()

    def state_dict(self):
        return {
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "generator": self.generator.get_state(),
            "me": self,
        }

    def load_state_dict(self, state):
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.generator.set_state(state["generator"])


# %% right: finds once, in the constructor, how many samples fit, however large a batch is
class Segmenter:
    def __init__(self, network, optimizer, loss_function, needs, budget, seed):
        self.network, self.optimizer, self.loss_function = network, optimizer, loss_function
        self.generator = torch.Generator().manual_seed(seed)
        for self.bfloat16, self.patches in ((False, False), (True, False), (False, True)):
            for self.saving in (False, True):
                fit = 0
                while needs(fit + 1, self.saving, self.bfloat16, self.patches) <= budget:
                    fit += 1
                if fit:
                    self.samples = fit
                    return
        raise ValueError("too small")

    def step(self, volumes, masks):
        if self.patches:
            volumes, masks = cut_patches(volumes, masks, self.generator)
        for weight in self.network.parameters():
            weight.grad = None
        total = 0.0
        for x, y in zip(volumes.split(self.samples), masks.split(self.samples), strict=True):
            with torch.autocast(x.device.type, torch.bfloat16, enabled=self.bfloat16):
                logits = self.network(x, self.saving)
            loss = self.loss_function(logits.float(), y) * len(x) / len(volumes)
            loss.backward()
            total += loss.item()
            del logits, loss
        nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimizer.step()
        return total

    def state_dict(self):
        parts = (self.network, self.optimizer)
        return {
            "parts": [part.state_dict() for part in parts],
            "random": self.generator.get_state(),
        }

    def load_state_dict(self, state):
        for part, saved in zip((self.network, self.optimizer), state["parts"], strict=True):
            part.load_state_dict(saved)
        self.generator.set_state(state["random"])


# %% wrong: the plan is made for a pass that is not checkpointed, which does not fit so soon
class Segmenter:
    def __init__(self, network, optimizer, loss_function, needs, budget, seed):
        self.network, self.optimizer, self.loss_function = network, optimizer, loss_function
        self.budget = budget
        self.generator = torch.Generator().manual_seed(seed)
        for self.bfloat16, self.patches in ((False, False), (True, False), (False, True)):
            if needs(1, False, self.bfloat16, self.patches) <= budget:
                break
        else:
            raise ValueError("too small")
        self.needs = partial(needs, bfloat16=self.bfloat16, patches=self.patches)

    def step(self, volumes, masks):
        if self.patches:
            volumes, masks = cut_patches(volumes, masks, self.generator)
        self.optimizer.zero_grad()
        loss = add_gradients(
            self.forward, self.loss_function, self.needs, volumes, masks, self.budget
        )
        nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimizer.step()
        return loss

    def forward(self, volumes, checkpointed):
        with torch.autocast(volumes.device.type, torch.bfloat16, enabled=self.bfloat16):
            logits = self.network(volumes, checkpointed)
        return logits.float()

    def state_dict(self):
        return {
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "generator": self.generator.get_state(),
        }

    def load_state_dict(self, state):
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.generator.set_state(state["generator"])
