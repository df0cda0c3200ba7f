# %% wrong: LayerNorm for everything, over all but the first axis
def axes_for(job):
    axes = {"text": 3, "sensors": 3, "volumes": 5}.get(job, 4)
    return tuple(range(1, axes))


# %% wrong: BatchNorm for everything
def axes_for(job):
    return {"text": (0, 1), "sensors": (0, 1), "volumes": (0, 2, 3, 4)}.get(job, (0, 2, 3))


# %% wrong: InstanceNorm for everything
def axes_for(job):
    return {"text": (1,), "sensors": (1,), "volumes": (2, 3, 4)}.get(job, (2, 3))


# %% wrong: the axes that have statistics of their own, not those normalized over
def axes_for(job):
    return {
        "photos": (1,),
        "style": (0, 1),
        "text": (0, 1),
        "exposure": (0,),
        "volumes": (0, 1),
        "sensors": (2,),
    }[job]


# %% wrong: BatchNorm1d taken as it is, with the channels in the middle
def axes_for(job):
    return {
        "photos": (0, 2, 3),
        "style": (2, 3),
        "text": (2,),
        "exposure": (1, 2, 3),
        "volumes": (2, 3, 4),
        "sensors": (0, 2),
    }[job]


# %% wrong: LayerNorm over tokens and features, which leaks the future
def axes_for(job):
    return {
        "photos": (0, 2, 3),
        "style": (2, 3),
        "text": (1, 2),
        "exposure": (1, 2, 3),
        "volumes": (2, 3, 4),
        "sensors": (0, 1),
    }[job]


# %% wrong: BatchNorm for volumes, where the partner matters
def axes_for(job):
    return {
        "photos": (0, 2, 3),
        "style": (2, 3),
        "text": (2,),
        "exposure": (1, 2, 3),
        "volumes": (0, 2, 3, 4),
        "sensors": (0, 1),
    }[job]


# %% wrong: exposure by InstanceNorm, which takes the colors too
def axes_for(job):
    return {
        "photos": (0, 2, 3),
        "style": (2, 3),
        "text": (2,),
        "exposure": (2, 3),
        "volumes": (2, 3, 4),
        "sensors": (0, 1),
    }[job]


# %% wrong: the depth of a volume is forgotten
def axes_for(job):
    return {
        "photos": (0, 2, 3),
        "style": (2, 3),
        "text": (2,),
        "exposure": (1, 2, 3),
        "volumes": (3, 4),
        "sensors": (0, 1),
    }[job]


# %% wrong: style over rows alone
def axes_for(job):
    return {
        "photos": (0, 2, 3),
        "style": (2,),
        "text": (2,),
        "exposure": (1, 2, 3),
        "volumes": (2, 3, 4),
        "sensors": (0, 1),
    }[job]


# %% wrong: an int where a tuple with one axis belongs
def axes_for(job):
    return {
        "photos": (0, 2, 3),
        "style": (2, 3),
        "text": 2,
        "exposure": (1, 2, 3),
        "volumes": (2, 3, 4),
        "sensors": (0, 1),
    }[job]


# %% wrong: no axes at all, so that nothing is lost
def axes_for(job):
    return ()


# %% right: counted from the back, in another order
def axes_for(job):
    return {
        "photos": (-1, -2, 0),
        "style": (-2, -1),
        "text": (-1,),
        "exposure": (-1, -3, -2),
        "volumes": (4, 3, 2),
        "sensors": (1, 0),
    }[job]


# %% right: every axis but those whose differences do not matter
def axes_for(job):
    names = {
        "photos": ("photo", "channel", "row", "column"),
        "text": ("text", "token", "feature"),
        "volumes": ("patient", "channel", "depth", "row", "column"),
        "sensors": ("run", "time", "sensor"),
    }
    forgotten = {
        "photos": {"channel"},
        "style": {"photo", "channel"},
        "text": {"text", "token"},
        "exposure": {"photo"},
        "volumes": {"patient", "channel"},
        "sensors": {"sensor"},
    }
    axes = names.get(job, names["photos"])
    return tuple(i for i, name in enumerate(axes) if name not in forgotten[job])


# %% right: with if and else
def axes_for(job):
    if job in ("style", "volumes"):
        return (2, 3) if job == "style" else (2, 3, 4)
    if job == "exposure":
        return (1, 2, 3)
    if job == "photos":
        return (0, 2, 3)
    return (2,) if job == "text" else (0, 1)
