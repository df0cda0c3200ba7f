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
    ]


def restore_random_states(states):
    torch.random.set_rng_state(states[2])
    kind, keys, *rest = states[1]
    np.random.set_state((kind, keys.numpy().astype(np.uint32), *rest))
    random.setstate(states[0])


# %% right: NumPy's as a dict, in JSON
def capture_random_states():
    numpys = np.random.get_state(legacy=False)
    numpys["state"]["key"] = numpys["state"]["key"].tolist()
    return {
        "text": json.dumps([random.getstate(), numpys]),
        "torch": torch.get_rng_state(),
    }


def restore_random_states(states):
    (version, numbers, kept), numpys = json.loads(states["text"])
    numpys["state"]["key"] = np.array(numpys["state"]["key"], dtype=np.uint32)
    np.random.set_state(numpys)
    random.setstate((version, tuple(numbers), kept))
    torch.set_rng_state(states["torch"])


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
    return [torch.get_rng_state(), random.getstate(), [kind, keys.tolist(), *rest]]


def restore_random_states(states):
    left = list(states)
    kind, keys, *rest = left.pop()
    np.random.set_state((kind, np.array(keys, dtype=np.uint32), *rest))
    random.setstate(left.pop())
    torch.set_rng_state(left.pop())
