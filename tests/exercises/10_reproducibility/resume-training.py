# %% wrong: weights and optimizer alone
class ResumableTraining(Training):
    def parts(self):
        return {
            "model": self.model,
            "average": self.average,
            "optimizer": self.optimizer,
            "scheduler": self.scheduler,
            "scaler": self.scaler,
        }

    def state_dict(self):
        parts = ("model", "optimizer")
        state = {name: part.state_dict() for name, part in self.parts().items() if name in parts}
        return state

    def load_state_dict(self, state):
        for name in ("model", "optimizer"):
            self.parts()[name].load_state_dict(state[name])


# %% wrong: the scheduler is forgotten
class ResumableTraining(Training):
    def parts(self):
        return {
            "model": self.model,
            "average": self.average,
            "optimizer": self.optimizer,
            "scheduler": self.scheduler,
            "scaler": self.scaler,
        }

    def state_dict(self):
        parts = ("model", "average", "optimizer", "scaler")
        state = {name: part.state_dict() for name, part in self.parts().items() if name in parts}
        state["generator"] = self.generator.get_state()
        state["order"], state["place"] = self.order, self.place
        state["random"] = capture_random_states()
        return state

    def load_state_dict(self, state):
        for name in ("model", "average", "optimizer", "scaler"):
            self.parts()[name].load_state_dict(state[name])
        self.generator.set_state(state["generator"])
        self.order, self.place = state["order"], state["place"]
        restore_random_states(state["random"])


# %% wrong: the scaler is forgotten
class ResumableTraining(Training):
    def parts(self):
        return {
            "model": self.model,
            "average": self.average,
            "optimizer": self.optimizer,
            "scheduler": self.scheduler,
            "scaler": self.scaler,
        }

    def state_dict(self):
        parts = ("model", "average", "optimizer", "scheduler")
        state = {name: part.state_dict() for name, part in self.parts().items() if name in parts}
        state["generator"] = self.generator.get_state()
        state["order"], state["place"] = self.order, self.place
        state["random"] = capture_random_states()
        return state

    def load_state_dict(self, state):
        for name in ("model", "average", "optimizer", "scheduler"):
            self.parts()[name].load_state_dict(state[name])
        self.generator.set_state(state["generator"])
        self.order, self.place = state["order"], state["place"]
        restore_random_states(state["random"])


# %% wrong: the moving average is forgotten
class ResumableTraining(Training):
    def parts(self):
        return {
            "model": self.model,
            "average": self.average,
            "optimizer": self.optimizer,
            "scheduler": self.scheduler,
            "scaler": self.scaler,
        }

    def state_dict(self):
        parts = ("model", "optimizer", "scheduler", "scaler")
        state = {name: part.state_dict() for name, part in self.parts().items() if name in parts}
        state["generator"] = self.generator.get_state()
        state["order"], state["place"] = self.order, self.place
        state["random"] = capture_random_states()
        return state

    def load_state_dict(self, state):
        for name in ("model", "optimizer", "scheduler", "scaler"):
            self.parts()[name].load_state_dict(state[name])
        self.generator.set_state(state["generator"])
        self.order, self.place = state["order"], state["place"]
        restore_random_states(state["random"])


# %% wrong: the optimizer is forgotten
class ResumableTraining(Training):
    def parts(self):
        return {
            "model": self.model,
            "average": self.average,
            "optimizer": self.optimizer,
            "scheduler": self.scheduler,
            "scaler": self.scaler,
        }

    def state_dict(self):
        parts = ("model", "average", "scheduler", "scaler")
        state = {name: part.state_dict() for name, part in self.parts().items() if name in parts}
        state["generator"] = self.generator.get_state()
        state["order"], state["place"] = self.order, self.place
        state["random"] = capture_random_states()
        return state

    def load_state_dict(self, state):
        for name in ("model", "average", "scheduler", "scaler"):
            self.parts()[name].load_state_dict(state[name])
        self.generator.set_state(state["generator"])
        self.order, self.place = state["order"], state["place"]
        restore_random_states(state["random"])


# %% wrong: the global generators are forgotten
class ResumableTraining(Training):
    def parts(self):
        return {
            "model": self.model,
            "average": self.average,
            "optimizer": self.optimizer,
            "scheduler": self.scheduler,
            "scaler": self.scaler,
        }

    def state_dict(self):
        parts = ("model", "average", "optimizer", "scheduler", "scaler")
        state = {name: part.state_dict() for name, part in self.parts().items() if name in parts}
        state["generator"] = self.generator.get_state()
        state["order"], state["place"] = self.order, self.place
        return state

    def load_state_dict(self, state):
        for name in ("model", "average", "optimizer", "scheduler", "scaler"):
            self.parts()[name].load_state_dict(state[name])
        self.generator.set_state(state["generator"])
        self.order, self.place = state["order"], state["place"]


# %% wrong: order and place are forgotten
class ResumableTraining(Training):
    def parts(self):
        return {
            "model": self.model,
            "average": self.average,
            "optimizer": self.optimizer,
            "scheduler": self.scheduler,
            "scaler": self.scaler,
        }

    def state_dict(self):
        parts = ("model", "average", "optimizer", "scheduler", "scaler")
        state = {name: part.state_dict() for name, part in self.parts().items() if name in parts}
        state["generator"] = self.generator.get_state()
        state["random"] = capture_random_states()
        return state

    def load_state_dict(self, state):
        for name in ("model", "average", "optimizer", "scheduler", "scaler"):
            self.parts()[name].load_state_dict(state[name])
        self.generator.set_state(state["generator"])
        restore_random_states(state["random"])


# %% wrong: the own generator is forgotten
class ResumableTraining(Training):
    def parts(self):
        return {
            "model": self.model,
            "average": self.average,
            "optimizer": self.optimizer,
            "scheduler": self.scheduler,
            "scaler": self.scaler,
        }

    def state_dict(self):
        parts = ("model", "average", "optimizer", "scheduler", "scaler")
        state = {name: part.state_dict() for name, part in self.parts().items() if name in parts}
        state["order"], state["place"] = self.order, self.place
        state["random"] = capture_random_states()
        return state

    def load_state_dict(self, state):
        for name in ("model", "average", "optimizer", "scheduler", "scaler"):
            self.parts()[name].load_state_dict(state[name])
        self.order, self.place = state["order"], state["place"]
        restore_random_states(state["random"])


# %% wrong: parameters without the buffers of BatchNorm
class ResumableTraining(Training):
    def parts(self):
        return {
            "model": self.model,
            "average": self.average,
            "optimizer": self.optimizer,
            "scheduler": self.scheduler,
            "scaler": self.scaler,
        }

    def state_dict(self):
        parts = ("model", "average", "optimizer", "scheduler", "scaler")
        state = {name: part.state_dict() for name, part in self.parts().items() if name in parts}
        state["model"] = dict(self.model.named_parameters())
        state["generator"] = self.generator.get_state()
        state["order"], state["place"] = self.order, self.place
        state["random"] = capture_random_states()
        return state

    def load_state_dict(self, state):
        for name in ("model", "average", "optimizer", "scheduler", "scaler"):
            self.parts()[name].load_state_dict(
                state[name], **({"strict": False} if name == "model" else {})
            )
        self.generator.set_state(state["generator"])
        self.order, self.place = state["order"], state["place"]
        restore_random_states(state["random"])


# %% wrong: torch's generator alone of the global ones
class ResumableTraining(Training):
    def parts(self):
        return {
            "model": self.model,
            "average": self.average,
            "optimizer": self.optimizer,
            "scheduler": self.scheduler,
            "scaler": self.scaler,
        }

    def state_dict(self):
        parts = ("model", "average", "optimizer", "scheduler", "scaler")
        state = {name: part.state_dict() for name, part in self.parts().items() if name in parts}
        state["generator"] = self.generator.get_state()
        state["order"], state["place"] = self.order, self.place
        state["random"] = torch.get_rng_state()
        return state

    def load_state_dict(self, state):
        for name in ("model", "average", "optimizer", "scheduler", "scaler"):
            self.parts()[name].load_state_dict(state[name])
        self.generator.set_state(state["generator"])
        self.order, self.place = state["order"], state["place"]
        torch.set_rng_state(state["random"])


# %% wrong: makes no steps at all, so that every run is like every other
class ResumableTraining(Training):
    def step(self):
        return {
            "samples": [0],
            "loss": 0.0,
            "learning rate": 0.0,
            "scale": 1.0,
            "weights": [],
            "average": [],
        }

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


# %% right: each part by its name, the order drawn again
class ResumableTraining(Training):
    def state_dict(self):
        return {
            "model": self.model.state_dict(),
            "average": self.average.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(),
            "scaler": self.scaler.state_dict(),
            "own": [self.generator.get_state(), self.order.tolist(), self.place],
            "all": capture_random_states(),
        }

    def load_state_dict(self, state):
        generator, order, self.place = state["own"]
        self.generator.set_state(generator)
        self.order = torch.tensor(order)
        self.model.load_state_dict(state["model"])
        self.average.load_state_dict(state["average"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scheduler.load_state_dict(state["scheduler"])
        self.scaler.load_state_dict(state["scaler"])
        restore_random_states(state["all"])


# %% right: counts its steps, and makes them again
class ResumableTraining(Training):
    def __init__(self):
        self.first = capture_random_states()
        super().__init__()
        self.made = 0

    def step(self):
        self.made += 1
        return super().step()

    def state_dict(self):
        return {"first": self.first, "made": self.made}

    def load_state_dict(self, state):
        restore_random_states(state["first"])
        self.__init__()
        for _ in range(state["made"]):
            self.step()


# %% wrong: after loading it no longer knows the generator's state from before the epoch
class ResumableTraining(Training):
    def __init__(self):
        super().__init__()
        self.before = torch.Generator().manual_seed(5).get_state()

    def next_batch(self):
        if self.place + BATCH > len(self.order):
            self.before = self.generator.get_state()
        return super().next_batch()

    def state_dict(self):
        parts = (self.model, self.average, self.optimizer, self.scheduler, self.scaler)
        return {
            "parts": [part.state_dict() for part in parts],
            "before": self.before,
            "place": self.place,
            "random": capture_random_states(),
        }

    def load_state_dict(self, state):
        parts = (self.model, self.average, self.optimizer, self.scheduler, self.scaler)
        for part, saved in zip(parts, state["parts"], strict=True):
            part.load_state_dict(saved)
        self.generator.set_state(state["before"])
        self.order = torch.randperm(100, generator=self.generator)
        self.place = state["place"]
        restore_random_states(state["random"])


# %% wrong: only the scale of the scaler is kept, not the steps since it changed
class ResumableTraining(Training):
    def state_dict(self):
        return {
            "model": self.model.state_dict(),
            "average": self.average.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(),
            "scale": self.scaler.get_scale(),
            "generator": self.generator.get_state(),
            "order": self.order,
            "place": self.place,
            "random": capture_random_states(),
        }

    def load_state_dict(self, state):
        self.model.load_state_dict(state["model"])
        self.average.load_state_dict(state["average"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scheduler.load_state_dict(state["scheduler"])
        self.scaler = torch.amp.GradScaler("cpu", init_scale=state["scale"], growth_interval=2)
        self.generator.set_state(state["generator"])
        self.order, self.place = state["order"], state["place"]
        restore_random_states(state["random"])


# %% wrong: an optimizer that has made no step is taken for nothing to load
class ResumableTraining(Training):
    def state_dict(self):
        return {
            "model": self.model.state_dict(),
            "average": self.average.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(),
            "scaler": self.scaler.state_dict(),
            "generator": self.generator.get_state(),
            "order": self.order,
            "place": self.place,
            "random": capture_random_states(),
        }

    def load_state_dict(self, state):
        if not state["optimizer"]["state"]:
            return
        self.model.load_state_dict(state["model"])
        self.average.load_state_dict(state["average"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scheduler.load_state_dict(state["scheduler"])
        self.scaler.load_state_dict(state["scaler"])
        self.generator.set_state(state["generator"])
        self.order, self.place = state["order"], state["place"]
        restore_random_states(state["random"])


# %% wrong: state_dict leaves the model in evaluation mode
class ResumableTraining(Training):
    def state_dict(self):
        self.model.eval()
        return {
            "model": self.model.state_dict(),
            "average": self.average.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(),
            "scaler": self.scaler.state_dict(),
            "generator": self.generator.get_state(),
            "order": self.order,
            "place": self.place,
            "random": capture_random_states(),
        }

    def load_state_dict(self, state):
        self.model.load_state_dict(state["model"])
        self.average.load_state_dict(state["average"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scheduler.load_state_dict(state["scheduler"])
        self.scaler.load_state_dict(state["scaler"])
        self.generator.set_state(state["generator"])
        self.order, self.place = state["order"], state["place"]
        restore_random_states(state["random"])


# %% wrong: only the scheduler's count of steps is kept
class ResumableTraining(Training):
    def state_dict(self):
        return {
            "model": self.model.state_dict(),
            "average": self.average.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.last_epoch,
            "scaler": self.scaler.state_dict(),
            "generator": self.generator.get_state(),
            "order": self.order,
            "place": self.place,
            "random": capture_random_states(),
        }

    def load_state_dict(self, state):
        self.model.load_state_dict(state["model"])
        self.average.load_state_dict(state["average"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scheduler.last_epoch = state["scheduler"]
        self.scaler.load_state_dict(state["scaler"])
        self.generator.set_state(state["generator"])
        self.order, self.place = state["order"], state["place"]
        restore_random_states(state["random"])


# %% wrong: state_dict draws the next epoch's order
class ResumableTraining(Training):
    def state_dict(self):
        return {
            "model": self.model.state_dict(),
            "average": self.average.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(),
            "scaler": self.scaler.state_dict(),
            "generator": self.generator.get_state(),
            "order": self.order,
            "next": torch.randperm(100, generator=self.generator),
            "place": self.place,
            "random": capture_random_states(),
        }

    def load_state_dict(self, state):
        self.model.load_state_dict(state["model"])
        self.average.load_state_dict(state["average"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scheduler.load_state_dict(state["scheduler"])
        self.scaler.load_state_dict(state["scaler"])
        self.generator.set_state(state["generator"])
        self.order, self.place = state["order"], state["place"]
        restore_random_states(state["random"])


# %% wrong: only the learning rate of the scheduler is kept
class ResumableTraining(Training):
    def state_dict(self):
        return {
            "model": self.model.state_dict(),
            "average": self.average.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.get_last_lr()[0],
            "scaler": self.scaler.state_dict(),
            "generator": self.generator.get_state(),
            "order": self.order,
            "place": self.place,
            "random": capture_random_states(),
        }

    def load_state_dict(self, state):
        self.model.load_state_dict(state["model"])
        self.average.load_state_dict(state["average"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.optimizer.param_groups[0]["lr"] = state["scheduler"]
        self.scaler.load_state_dict(state["scaler"])
        self.generator.set_state(state["generator"])
        self.order, self.place = state["order"], state["place"]
        restore_random_states(state["random"])


# %% wrong: restores the global generators first, and then makes new weights
class ResumableTraining(Training):
    def state_dict(self):
        return {
            "model": self.model.state_dict(),
            "average": self.average.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(),
            "scaler": self.scaler.state_dict(),
            "generator": self.generator.get_state(),
            "order": self.order,
            "place": self.place,
            "random": capture_random_states(),
        }

    def load_state_dict(self, state):
        restore_random_states(state["random"])
        self.__init__()
        self.model.load_state_dict(state["model"])
        self.average.load_state_dict(state["average"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scheduler.load_state_dict(state["scheduler"])
        self.scaler.load_state_dict(state["scaler"])
        self.generator.set_state(state["generator"])
        self.order, self.place = state["order"], state["place"]


# %% wrong: the counter of BatchNorm is forgotten
class ResumableTraining(Training):
    def state_dict(self):
        return {
            "model": {k: v for k, v in self.model.state_dict().items() if "num_batches" not in k},
            "average": self.average.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(),
            "scaler": self.scaler.state_dict(),
            "generator": self.generator.get_state(),
            "order": self.order,
            "place": self.place,
            "random": capture_random_states(),
        }

    def load_state_dict(self, state):
        self.model.load_state_dict(state["model"], strict=False)
        self.average.load_state_dict(state["average"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scheduler.load_state_dict(state["scheduler"])
        self.scaler.load_state_dict(state["scaler"])
        self.generator.set_state(state["generator"])
        self.order, self.place = state["order"], state["place"]
        restore_random_states(state["random"])


# %% right: keeps only the rest of the order
class ResumableTraining(Training):
    def state_dict(self):
        return {
            "model": self.model.state_dict(),
            "average": self.average.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(),
            "scaler": self.scaler.state_dict(),
            "generator": self.generator.get_state(),
            "order": self.order[self.place :].clone(),
            "place": 0,
            "random": capture_random_states(),
        }

    def load_state_dict(self, state):
        self.model.load_state_dict(state["model"])
        self.average.load_state_dict(state["average"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scheduler.load_state_dict(state["scheduler"])
        self.scaler.load_state_dict(state["scaler"])
        self.generator.set_state(state["generator"])
        self.order, self.place = state["order"], state["place"]
        restore_random_states(state["random"])


# %% right: the generator's state from before the epoch, and the order made again
class ResumableTraining(Training):
    def __init__(self):
        super().__init__()
        self.before = torch.Generator().manual_seed(5).get_state()

    def next_batch(self):
        if self.place + BATCH > len(self.order):
            self.before = self.generator.get_state()
        return super().next_batch()

    def state_dict(self):
        parts = (self.model, self.average, self.optimizer, self.scheduler, self.scaler)
        return {
            "parts": [part.state_dict() for part in parts],
            "before": self.before,
            "place": self.place,
            "random": capture_random_states(),
        }

    def load_state_dict(self, state):
        parts = (self.model, self.average, self.optimizer, self.scheduler, self.scaler)
        for part, saved in zip(parts, state["parts"], strict=True):
            part.load_state_dict(saved)
        self.before = state["before"]
        self.generator.set_state(state["before"])
        self.order = torch.randperm(100, generator=self.generator)
        self.place = state["place"]
        restore_random_states(state["random"])


# %% right: evaluates while saving, and goes back to training
class ResumableTraining(Training):
    def state_dict(self):
        states = capture_random_states()
        self.model.eval()
        with torch.no_grad():
            quality = (self.model(self.inputs).argmax(1) == self.labels).float().mean().item()
        self.model.train()
        return {
            "quality": quality,
            "model": self.model.state_dict(),
            "average": self.average.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(),
            "scaler": self.scaler.state_dict(),
            "generator": self.generator.get_state(),
            "order": self.order,
            "place": self.place,
            "random": states,
        }

    def load_state_dict(self, state):
        self.model.load_state_dict(state["model"])
        self.average.load_state_dict(state["average"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scheduler.load_state_dict(state["scheduler"])
        self.scaler.load_state_dict(state["scaler"])
        self.generator.set_state(state["generator"])
        self.order, self.place = state["order"], state["place"]
        restore_random_states(state["random"])


# %% wrong: NumPy's state stays in a dict of this process
KEPT = {}


def kept_states():
    number = len(KEPT)
    KEPT[number] = np.random.get_state()
    return [number, random.getstate(), torch.get_rng_state()]


class ResumableTraining(Training):
    def state_dict(self):
        return {
            "model": self.model.state_dict(),
            "average": self.average.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(),
            "scaler": self.scaler.state_dict(),
            "generator": self.generator.get_state(),
            "order": self.order,
            "place": self.place,
            "random": kept_states(),
        }

    def load_state_dict(self, state):
        self.model.load_state_dict(state["model"])
        self.average.load_state_dict(state["average"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scheduler.load_state_dict(state["scheduler"])
        self.scaler.load_state_dict(state["scaler"])
        self.generator.set_state(state["generator"])
        self.order, self.place = state["order"], state["place"]
        number, python, torchs = state["random"]
        np.random.set_state(KEPT[number])
        random.setstate(python)
        torch.set_rng_state(torchs)


# %% wrong: all attributes as they are, the model itself among them
class ResumableTraining(Training):
    def state_dict(self):
        return {**vars(self), "random": capture_random_states()}

    def load_state_dict(self, state):
        restore_random_states(state.pop("random"))
        vars(self).update(state)
