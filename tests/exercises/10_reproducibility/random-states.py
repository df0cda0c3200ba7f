# %% wrong: torch's state alone
def capture_random_states():
    return torch.get_rng_state()


def restore_random_states(states):
    torch.set_rng_state(states)


# %% wrong: NumPy's array as it is, which torch.load refuses
def capture_random_states():
    return {
        "random": random.getstate(),
        "numpy": np.random.get_state(),
        "torch": torch.get_rng_state(),
    }


def restore_random_states(states):
    random.setstate(states["random"])
    np.random.set_state(states["numpy"])
    torch.set_rng_state(states["torch"])


# %% wrong: the normal number that NumPy keeps back is left out
def capture_random_states():
    kind, keys, place, *_ = np.random.get_state()
    return {
        "random": random.getstate(),
        "numpy": (kind, keys.tolist(), place),
        "torch": torch.get_rng_state(),
    }


def restore_random_states(states):
    random.setstate(states["random"])
    kind, keys, place = states["numpy"]
    np.random.set_state((kind, np.array(keys, dtype=np.uint32), place))
    torch.set_rng_state(states["torch"])


# %% wrong: the normal number that Python keeps back is left out
def capture_random_states():
    kind, keys, *rest = np.random.get_state()
    return {
        "random": random.getstate()[:2],
        "numpy": (kind, keys.tolist(), *rest),
        "torch": torch.get_rng_state(),
    }


def restore_random_states(states):
    random.setstate((*states["random"], None))
    kind, keys, *rest = states["numpy"]
    np.random.set_state((kind, np.array(keys, dtype=np.uint32), *rest))
    torch.set_rng_state(states["torch"])


# %% wrong: a seed drawn now is no state
def capture_random_states():
    return {"seed": random.randrange(2**32)}


def restore_random_states(states):
    random.seed(states["seed"])
    np.random.seed(states["seed"])
    torch.manual_seed(states["seed"])


# %% wrong: the first seed again, so everything begins anew
def capture_random_states():
    return {"seed": torch.initial_seed() % 2**32}


def restore_random_states(states):
    random.seed(states["seed"])
    np.random.seed(states["seed"])
    torch.manual_seed(states["seed"])


# %% wrong: looks at a number of each, and moves the generators by it
def capture_random_states():
    random.random(), np.random.random(), torch.rand(())
    kind, keys, *rest = np.random.get_state()
    return {
        "random": random.getstate(),
        "numpy": (kind, keys.tolist(), *rest),
        "torch": torch.get_rng_state(),
    }


def restore_random_states(states):
    random.setstate(states["random"])
    kind, keys, *rest = states["numpy"]
    np.random.set_state((kind, np.array(keys, dtype=np.uint32), *rest))
    torch.set_rng_state(states["torch"])


# %% wrong: Python's state as a text, of which only the beginning is kept
def capture_random_states():
    kind, keys, *rest = np.random.get_state()
    version, numbers, kept = random.getstate()
    return [version, list(numbers[:600]), kept, kind, keys.tolist(), rest, torch.get_rng_state()]


def restore_random_states(states):
    version, numbers, kept, kind, keys, rest, torchs = states
    random.setstate((version, (*numbers, *[0] * 24, 624), kept))
    np.random.set_state((kind, np.array(keys, dtype=np.uint32), *rest))
    torch.set_rng_state(torchs)


# %% right: NumPy's keys as a tensor, everything in a list
def capture_random_states():
    kind, keys, *rest = np.random.get_state()
    return [
        random.getstate(),
        [kind, torch.from_numpy(keys.astype(np.int64)), *rest],
        torch.random.get_rng_state(),
        torch.cuda.get_rng_state_all() if torch.cuda.is_available() else None,
    ]


def restore_random_states(states):
    torch.random.set_rng_state(states[2])
    kind, keys, *rest = states[1]
    np.random.set_state((kind, keys.numpy().astype(np.uint32), *rest))
    random.setstate(states[0])
    if states[3] is not None:
        torch.cuda.set_rng_state_all(states[3])


# %% right: NumPy's as a dict, in JSON
def capture_random_states():
    numpys = np.random.get_state(legacy=False)
    numpys["state"]["key"] = numpys["state"]["key"].tolist()
    return {
        "text": json.dumps([random.getstate(), numpys]),
        "torch": torch.get_rng_state(),
        "gpus": [torch.cuda.get_rng_state(k) for k in range(torch.cuda.device_count())],
    }


def restore_random_states(states):
    (version, numbers, kept), numpys = json.loads(states["text"])
    numpys["state"]["key"] = np.array(numpys["state"]["key"], dtype=np.uint32)
    np.random.set_state(numpys)
    random.setstate((version, tuple(numbers), kept))
    torch.set_rng_state(states["torch"])
    for number, state in enumerate(states["gpus"]):
        torch.cuda.set_rng_state(state, number)


# %% wrong: takes the states apart, so they can be restored only once
def capture_random_states():
    kind, keys, *rest = np.random.get_state()
    return {
        "random": random.getstate(),
        "numpy": [kind, keys.tolist(), *rest],
        "torch": torch.get_rng_state(),
    }


def restore_random_states(states):
    random.setstate(states.pop("random"))
    kind, keys, *rest = states.pop("numpy")
    np.random.set_state((kind, np.array(keys, dtype=np.uint32), *rest))
    torch.set_rng_state(states.pop("torch"))


# %% right: works on a list of its own, in another order
def capture_random_states():
    kind, keys, *rest = np.random.get_state()
    gpus = torch.cuda.get_rng_state_all() if torch.cuda.device_count() else []
    return [gpus, torch.get_rng_state(), random.getstate(), [kind, keys.tolist(), *rest]]


def restore_random_states(states):
    left = list(states)
    kind, keys, *rest = left.pop()
    np.random.set_state((kind, np.array(keys, dtype=np.uint32), *rest))
    random.setstate(left.pop())
    torch.set_rng_state(left.pop())
    torch.cuda.set_rng_state_all(left.pop())


# %% wrong: a normal number kept now survives the restoring of a state that keeps none
def capture_random_states():
    kind, keys, *rest = np.random.get_state()
    return {
        "random": random.getstate(),
        "numpy": (kind, keys.tolist(), *rest),
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def restore_random_states(states):
    version, numbers, kept = states["random"]
    random.setstate((version, numbers, kept or random.getstate()[2]))
    kind, keys, *rest = states["numpy"]
    np.random.set_state((kind, np.array(keys, dtype=np.uint32), *rest))
    torch.set_rng_state(states["torch"])
    if states["cuda"]:
        torch.cuda.set_rng_state_all(states["cuda"])


# %% wrong: the state of NumPy's bit generator, which does not hold the kept number
def capture_random_states():
    state = np.random.get_bit_generator().state
    return {
        "random": random.getstate(),
        "key": state["state"]["key"].tolist(),
        "pos": state["state"]["pos"],
        "torch": torch.get_rng_state(),
    }


def restore_random_states(states):
    random.setstate(states["random"])
    np.random.get_bit_generator().state = {
        "bit_generator": "MT19937",
        "state": {"key": np.array(states["key"], dtype=np.uint32), "pos": states["pos"]},
    }
    torch.set_rng_state(states["torch"])


# %% wrong: the kept normal number is rounded to float32
def capture_random_states():
    _, keys, pos, has, cached = np.random.get_state()
    return {
        "random": random.getstate(),
        "numpy": torch.tensor(keys.astype(np.int64)),
        "rest": torch.tensor([pos, has, cached]),
        "torch": torch.get_rng_state(),
    }


def restore_random_states(states):
    random.setstate(states["random"])
    pos, has, cached = states["rest"].tolist()
    np.random.set_state(
        ("MT19937", states["numpy"].numpy().astype(np.uint32), int(pos), int(has), cached)
    )
    torch.set_rng_state(states["torch"])


# %% wrong: the GPUs are forgotten
def capture_random_states():
    kind, keys, *rest = np.random.get_state()
    return {
        "random": random.getstate(),
        "numpy": (kind, keys.tolist(), *rest),
        "torch": torch.get_rng_state(),
    }


def restore_random_states(states):
    random.setstate(states["random"])
    kind, keys, *rest = states["numpy"]
    np.random.set_state((kind, np.array(keys, dtype=np.uint32), *rest))
    torch.set_rng_state(states["torch"])


# %% wrong: only the current one of several GPUs
def capture_random_states():
    kind, keys, *rest = np.random.get_state()
    return {
        "random": random.getstate(),
        "numpy": (kind, keys.tolist(), *rest),
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state() if torch.cuda.is_available() else None,
    }


def restore_random_states(states):
    random.setstate(states["random"])
    kind, keys, *rest = states["numpy"]
    np.random.set_state((kind, np.array(keys, dtype=np.uint32), *rest))
    torch.set_rng_state(states["torch"])
    if states["cuda"] is not None:
        torch.cuda.set_rng_state(states["cuda"])


# %% wrong: only those of NumPy's keys that are not used up
def capture_random_states():
    kind, keys, pos, *rest = np.random.get_state()
    return {
        "random": random.getstate(),
        "numpy": (kind, keys[pos:].tolist(), pos, *rest),
        "torch": torch.get_rng_state(),
    }


def restore_random_states(states):
    random.setstate(states["random"])
    kind, keys, pos, *rest = states["numpy"]
    np.random.set_state((kind, np.array([0] * pos + list(keys), dtype=np.uint32), pos, *rest))
    torch.set_rng_state(states["torch"])


# %% right: one GPU after another, NumPy's keys as a tensor
def capture_random_states():
    name, keys, pos, has_gauss, cached = np.random.get_state()
    return (
        random.getstate(),
        [name, torch.tensor(keys.astype(np.int64)), int(pos), int(has_gauss), float(cached)],
        torch.get_rng_state(),
        [torch.cuda.get_rng_state(number) for number in range(torch.cuda.device_count())],
    )


def restore_random_states(states):
    python, numpys, torchs, cards = states
    random.setstate(python)
    np.random.set_state((numpys[0], numpys[1].numpy().astype("uint32"), *numpys[2:]))
    torch.set_rng_state(torchs)
    for number, card in enumerate(cards):
        torch.cuda.set_rng_state(card, number)


# %% right: the keys as a tensor of integers, GPUs only where there are any
def capture_random_states():
    name, keys, pos, has_gauss, cached = np.random.get_state()
    states = {
        "p": random.getstate(),
        "n": torch.from_numpy(keys.astype(np.int64)),
        "m": [name, pos, has_gauss, cached],
    }
    states["t"] = torch.get_rng_state()
    if torch.cuda.is_available():
        states["c"] = torch.cuda.get_rng_state_all()
    return states


def restore_random_states(states):
    random.setstate(states["p"])
    name, *rest = states["m"]
    np.random.set_state((name, states["n"].numpy(), *rest))
    torch.set_rng_state(states["t"])
    if "c" in states:
        torch.cuda.set_rng_state_all(states["c"])


# %% right: works on a copy of lists, the keys as signed numbers
def capture_random_states():
    state = np.random.get_state(legacy=False)
    state["state"]["key"] = torch.from_numpy(state["state"]["key"].view(np.int32).copy())
    cuda = [s.tolist() for s in torch.cuda.get_rng_state_all()] if torch.cuda.is_available() else []
    return [random.getstate(), state, torch.get_rng_state().tolist(), cuda]


def restore_random_states(states):
    import copy as own

    python, numpys, torchs, cuda = own.deepcopy(states)
    random.setstate(python)
    numpys["state"]["key"] = numpys["state"]["key"].numpy().view(np.uint32)
    np.random.set_state(numpys)
    torch.set_rng_state(torch.tensor(torchs, dtype=torch.uint8))
    if cuda:
        torch.cuda.set_rng_state_all([torch.tensor(s, dtype=torch.uint8) for s in cuda])


# %% right: by helpers that freeze and thaw, GPUs without asking
def _freeze(value):
    return torch.as_tensor(value.astype(np.int64)) if isinstance(value, np.ndarray) else value


def _thaw(value):
    return value.numpy().astype(np.uint32) if torch.is_tensor(value) else value


def capture_random_states():
    out = {}
    out["numpy"] = tuple(_freeze(v) for v in np.random.get_state())
    out["python"] = random.getstate()
    out["torch"] = torch.random.get_rng_state()
    out["cuda"] = tuple(torch.cuda.get_rng_state_all())
    return out


def restore_random_states(states):
    np.random.set_state(tuple(map(_thaw, states["numpy"])))
    random.setstate(states["python"])
    torch.random.set_rng_state(states["torch"])
    torch.cuda.set_rng_state_all(states["cuda"])


# %% right: NumPy's keys and Python's numbers as texts
def capture_random_states():
    _, keys, pos, has, cached = np.random.get_state()
    python = random.getstate()
    return {
        "numpy": keys.tobytes().hex(),
        "pos": pos,
        "has": has,
        "cached": cached.hex() if hasattr(cached, "hex") else float(cached).hex(),
        "python": " ".join(map(str, python[1])),
        "kept": python[2],
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def restore_random_states(states):
    keys = np.frombuffer(bytes.fromhex(states["numpy"]), dtype=np.uint32)
    np.random.set_state(
        ("MT19937", keys, states["pos"], states["has"], float.fromhex(states["cached"]))
    )
    random.setstate((3, tuple(map(int, states["python"].split())), states["kept"]))
    torch.set_rng_state(states["torch"])
    for i, state in enumerate(states["cuda"]):
        torch.cuda.set_rng_state(state, device=f"cuda:{i}")


# %% wrong: NumPy's state stays in a dict of this process, and its number is saved
KEPT = {}


def capture_random_states():
    number = len(KEPT)
    KEPT[number] = np.random.get_state()
    return {
        "random": random.getstate(),
        "numpy": number,
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all(),
    }


def restore_random_states(states):
    random.setstate(states["random"])
    np.random.set_state(KEPT[states["numpy"]])
    torch.set_rng_state(states["torch"])
    torch.cuda.set_rng_state_all(states["cuda"])


# %% wrong: NumPy's state stays in a global variable
_numpys = None


def capture_random_states():
    global _numpys
    _numpys = np.random.get_state()
    return {"random": random.getstate(), "torch": torch.get_rng_state()}


def restore_random_states(states):
    random.setstate(states["random"])
    torch.set_rng_state(states["torch"])
    np.random.set_state(_numpys)


# %% wrong: NumPy's states stay in a list of an object
class Keeper:
    def __init__(self):
        self.states = []

    def keep(self, state):
        self.states.append(state)
        return len(self.states)


keeper = Keeper()


def capture_random_states():
    number = keeper.keep(np.random.get_state())
    return [random.getstate(), number, torch.get_rng_state(), torch.cuda.get_rng_state_all()]


def restore_random_states(states):
    random.setstate(states[0])
    torch.set_rng_state(states[2])
    torch.cuda.set_rng_state_all(states[3])
    np.random.set_state(keeper.states[states[1] - 1])


# %% wrong: NumPy's keys as bytes, which torch.load reads and the card does not allow
def capture_random_states():
    kind, keys, *rest = np.random.get_state()
    return {
        "random": random.getstate(),
        "numpy": (kind, keys.tobytes(), *rest),
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all(),
    }


def restore_random_states(states):
    random.setstate(states["random"])
    kind, keys, *rest = states["numpy"]
    np.random.set_state((kind, np.frombuffer(keys, dtype=np.uint32), *rest))
    torch.set_rng_state(states["torch"])
    torch.cuda.set_rng_state_all(states["cuda"])


# %% wrong: a set of names among the states, which the card does not allow
def capture_random_states():
    kind, keys, *rest = np.random.get_state()
    return {
        "names": {"random", "numpy", "torch", "cuda"},
        "random": random.getstate(),
        "numpy": (kind, keys.tolist(), *rest),
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all(),
    }


def restore_random_states(states):
    random.setstate(states["random"])
    kind, keys, *rest = states["numpy"]
    np.random.set_state((kind, np.array(keys, dtype=np.uint32), *rest))
    torch.set_rng_state(states["torch"])
    torch.cuda.set_rng_state_all(states["cuda"])


# %% wrong: NumPy's generator itself, and not its state
def capture_random_states():
    return {
        "random": random.getstate(),
        "numpy": np.random.get_bit_generator(),
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all(),
    }


def restore_random_states(states):
    random.setstate(states["random"])
    np.random.set_bit_generator(states["numpy"])
    torch.set_rng_state(states["torch"])
    torch.cuda.set_rng_state_all(states["cuda"])
