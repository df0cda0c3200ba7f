# %% wrong: the bug itself, and only its lengths are compared
def pair_files(names):
    masks = sorted(name for name in names if name.endswith("_mask.npy"))
    volumes = sorted(name for name in names if not name.endswith("_mask.npy"))
    return list(zip(volumes, masks, strict=True))


# %% wrong: nobody alone is refused
def pair_files(names):
    volumes = sorted(name for name in names if not name.endswith("_mask.npy"))
    return [(name, name.replace(".npy", "_mask.npy")) for name in volumes]


# %% wrong: a mask without a volume is overlooked
def pair_files(names):
    volumes = sorted(name for name in names if not name.endswith("_mask.npy"))
    pairs = [(name, name[:-4] + "_mask.npy") for name in volumes]
    if any(mask not in names for _, mask in pairs):
        raise ValueError("a mask is missing")
    return pairs


# %% wrong: a volume without a mask is left out silently
def pair_files(names):
    volumes = sorted(name for name in names if not name.endswith("_mask.npy"))
    return [(n, n[:-4] + "_mask.npy") for n in volumes if n[:-4] + "_mask.npy" in names]


# %% wrong: sorted by the number in the name, which not every name has
def pair_files(names):
    volumes = [name for name in names if not name.endswith("_mask.npy")]
    volumes.sort(key=lambda name: int(name.split("-")[1].removesuffix(".npy")))
    return [(name, name[:-4] + "_mask.npy") for name in volumes]


# %% wrong: whatever has 'mask' in its name is taken for a mask
def pair_files(names):
    masks = {name for name in names if "mask" in name}
    volumes = sorted(set(names) - masks)
    pairs = [(name, name[:-4] + "_mask.npy") for name in volumes]
    if {mask for _, mask in pairs} != masks:
        raise ValueError("somebody is alone")
    return pairs


# %% wrong: in the order in which the names come
def pair_files(names):
    volumes = [name for name in names if not name.endswith("_mask.npy")]
    masks = {name for name in names if name.endswith("_mask.npy")}
    pairs = [(name, name[:-4] + "_mask.npy") for name in volumes]
    if {mask for _, mask in pairs} != masks:
        raise ValueError("somebody is alone")
    return pairs


# %% right: both lists sorted by what stands in front of the ending
def pair_files(names):
    masks, volumes = {}, {}
    for name in names:
        if name.endswith("_mask.npy"):
            masks[name[: -len("_mask.npy")]] = name
        else:
            volumes[name[: -len(".npy")]] = name
    if masks.keys() != volumes.keys():
        raise ValueError(f"without a partner: {masks.keys() ^ volumes.keys()}")
    return sorted((volumes[stem], masks[stem]) for stem in volumes)


# %% right: takes each mask away when its volume comes
def pair_files(names):
    left = sorted(names)
    pairs = []
    for name in [name for name in left if not name.endswith("_mask.npy")]:
        mask = name[:-4] + "_mask.npy"
        if mask not in left:
            raise ValueError(f"{name} has no mask")
        left.remove(name)
        left.remove(mask)
        pairs.append((name, mask))
    if left:
        raise ValueError(f"{left[0]} has no volume")
    return pairs


# %% right: an exception of its own, derived from ValueError
class AloneError(ValueError):
    """A volume or a mask is alone."""


def pair_files(names):
    pairs = [(n, n[:-4] + "_mask.npy") for n in sorted(names) if not n.endswith("_mask.npy")]
    if {name for pair in pairs for name in pair} != set(names):
        raise AloneError(names)
    return pairs


# %% wrong: whatever has '_mask' in its name is taken for a mask
def pair_files(names):
    masks = {name for name in names if "_mask" in name}
    volumes = sorted(set(names) - masks)
    pairs = [(name, name[:-4] + "_mask.npy") for name in volumes]
    if {mask for _, mask in pairs} != masks:
        raise ValueError("somebody is alone")
    return pairs


# %% wrong: an error only if no mask at all has a volume
def pair_files(names):
    masks = {name for name in names if name.endswith("_mask.npy")}
    volumes = sorted(name for name in names if not name.endswith("_mask.npy"))
    wanted = [volume[:-4] + "_mask.npy" for volume in volumes]
    if len(masks) != len(volumes) or (volumes and not masks & set(wanted)):
        raise ValueError("volumes and masks do not fit")
    return list(zip(volumes, wanted, strict=True))


# %% wrong: looks for masks that are left over only after a volume
def pair_files(names):
    masks = {name for name in names if name.endswith("_mask.npy")}
    volumes = sorted(name for name in names if not name.endswith("_mask.npy"))
    pairs = []
    for volume in volumes:
        mask = volume[:-4] + "_mask.npy"
        if mask not in masks:
            raise ValueError(f"{volume} has no mask")
        masks.remove(mask)
        pairs.append((volume, mask))
        if volume == volumes[-1] and masks:
            raise ValueError(f"{masks} have no volume")
    return pairs
