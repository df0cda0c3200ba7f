# %% wrong: what is left at the end of an axis is never predicted
def join_patches(predict, volume, patch, step):
    total, count = torch.zeros_like(volume), torch.zeros_like(volume)
    starts = [range(0, size - patch + 1, step) for size in volume.shape[2:]]
    with torch.no_grad():
        for i, j, k in itertools.product(*starts):
            place = (..., slice(i, i + patch), slice(j, j + patch), slice(k, k + patch))
            total[place] += predict(volume[place])
            count[place] += 1
    return total / count.clamp(min=1)


# %% wrong: the last patch wins where several lie over each other
def join_patches(predict, volume, patch, step):
    result = torch.zeros_like(volume)
    starts = [[*range(0, size - patch, step), size - patch] for size in volume.shape[2:]]
    with torch.no_grad():
        for i, j, k in itertools.product(*starts):
            place = (..., slice(i, i + patch), slice(j, j + patch), slice(k, k + patch))
            result[place] = predict(volume[place])
    return result


# %% wrong: the sum in the place of the mean
def join_patches(predict, volume, patch, step):
    result = torch.zeros_like(volume)
    starts = [[*range(0, size - patch, step), size - patch] for size in volume.shape[2:]]
    with torch.no_grad():
        for i, j, k in itertools.product(*starts):
            place = (..., slice(i, i + patch), slice(j, j + patch), slice(k, k + patch))
            result[place] += predict(volume[place])
    return result


# %% wrong: the last patch is predicted twice where the steps come out even
def join_patches(predict, volume, patch, step):
    total, count = torch.zeros_like(volume), torch.zeros_like(volume)
    starts = [[*range(0, size - patch + 1, step), size - patch] for size in volume.shape[2:]]
    with torch.no_grad():
        for i, j, k in itertools.product(*starts):
            place = (..., slice(i, i + patch), slice(j, j + patch), slice(k, k + patch))
            total[place] += predict(volume[place])
            count[place] += 1
    return total / count


# %% wrong: the volume is padded with zeros at the end, and the padding cut off again
def join_patches(predict, volume, patch, step):
    padding = [(patch - size) % step for size in volume.shape[2:]]
    padded = functional.pad(volume, (0, padding[2], 0, padding[1], 0, padding[0]))
    total, count = torch.zeros_like(padded), torch.zeros_like(padded)
    starts = [range(0, size - patch + 1, step) for size in padded.shape[2:]]
    with torch.no_grad():
        for i, j, k in itertools.product(*starts):
            place = (..., slice(i, i + patch), slice(j, j + patch), slice(k, k + patch))
            total[place] += predict(padded[place])
            count[place] += 1
    depth, height, width = volume.shape[2:]
    return (total / count)[:, :, :depth, :height, :width]


# %% wrong: autograd is on, and the whole graph is kept
def join_patches(predict, volume, patch, step):
    total, count = torch.zeros_like(volume), torch.zeros_like(volume)
    starts = [[*range(0, size - patch, step), size - patch] for size in volume.shape[2:]]
    for i, j, k in itertools.product(*starts):
        place = (..., slice(i, i + patch), slice(j, j + patch), slice(k, k + patch))
        total[place] += predict(volume[place])
        count[place] += 1
    return total / count


# %% wrong: detached in the end, while each prediction was made with a graph
def join_patches(predict, volume, patch, step):
    total, count = torch.zeros_like(volume), torch.zeros_like(volume)
    starts = [[*range(0, size - patch, step), size - patch] for size in volume.shape[2:]]
    for i, j, k in itertools.product(*starts):
        place = (..., slice(i, i + patch), slice(j, j + patch), slice(k, k + patch))
        total[place] += predict(volume[place]).detach()
        count[place] += 1
    return total / count


# %% wrong: the starts of the first axis are used for all three
def join_patches(predict, volume, patch, step):
    total, count = torch.zeros_like(volume), torch.zeros_like(volume)
    last = volume.shape[2] - patch
    starts = [*range(0, last, step), last]
    with torch.no_grad():
        for i, j, k in itertools.product(starts, repeat=3):
            place = (..., slice(i, i + patch), slice(j, j + patch), slice(k, k + patch))
            total[place] += predict(volume[place])
            count[place] += 1
    return total / count


# %% wrong: writes the result into the volume, which others still need
def join_patches(predict, volume, patch, step):
    total, count = torch.zeros_like(volume), torch.zeros_like(volume)
    starts = [[*range(0, size - patch, step), size - patch] for size in volume.shape[2:]]
    with torch.no_grad():
        for i, j, k in itertools.product(*starts):
            place = (..., slice(i, i + patch), slice(j, j + patch), slice(k, k + patch))
            total[place] += predict(volume[place])
            count[place] += 1
        return volume.copy_(total / count)


# %% right: three loops, and a set of starts
def join_patches(predict, volume, patch, step):
    def starts(size):
        return sorted({*range(0, size - patch + 1, step), size - patch})

    total = torch.zeros(volume.shape, dtype=torch.float64)
    count = torch.zeros(volume.shape, dtype=torch.float64)
    with torch.inference_mode():
        for i in starts(volume.shape[2]):
            for j in starts(volume.shape[3]):
                for k in starts(volume.shape[4]):
                    cut = volume[:, :, i : i + patch, j : j + patch, k : k + patch].clone()
                    total[:, :, i : i + patch, j : j + patch, k : k + patch] += predict(cut)
                    count[:, :, i : i + patch, j : j + patch, k : k + patch] += 1
        return (total / count).to(volume.dtype)


# %% right: counts come from the three axes, one by one
@torch.no_grad()
def join_patches(predict, volume, patch, step):
    starts, counts = [], []
    for size in volume.shape[2:]:
        line = [*range(0, size - patch, step), size - patch]
        count = torch.zeros(size)
        for start in line:
            count[start : start + patch] += 1
        starts.append(line)
        counts.append(count)
    total = torch.zeros_like(volume)
    for i, j, k in itertools.product(*starts):
        window = total[0, 0, i : i + patch, j : j + patch, k : k + patch]
        window += predict(volume[..., i : i + patch, j : j + patch, k : k + patch])[0, 0]
    return total / torch.einsum("i,j,k->ijk", *counts)


# %% wrong: autograd is switched off, and stays off
def join_patches(predict, volume, patch, step):
    torch.set_grad_enabled(False)
    every = [sorted({*range(0, size - patch, step), size - patch}) for size in volume.shape[2:]]
    total, count = torch.zeros_like(volume), torch.zeros_like(volume)
    for i, j, k in itertools.product(*every):
        place = (..., slice(i, i + patch), slice(j, j + patch), slice(k, k + patch))
        total[place] += predict(volume[place])
        count[place] += 1
    return total / count


# %% wrong: float32 comes back, whatever the volume's dtype is
def join_patches(predict, volume, patch, step):
    """Return the mean of the predictions of overlapping patches."""

    def starts(size):
        found = list(range(0, size - patch + 1, step))
        if found[-1] + patch < size:
            found.append(size - patch)
        return found

    total = torch.zeros(volume.shape, dtype=torch.float32, device=volume.device)
    count = torch.zeros_like(total)
    with torch.no_grad():
        for corner in itertools.product(*map(starts, volume.shape[2:])):
            place = (..., *(slice(c, c + patch) for c in corner))
            total[place] += predict(volume[place])
            count[place] += 1
    return total / count


# %% wrong: autograd is on afterwards, also where it was off
def join_patches(predict, volume, patch, step):
    """Return the mean of the predictions of overlapping patches."""

    def starts(size):
        found = list(range(0, size - patch + 1, step))
        if found[-1] + patch < size:
            found.append(size - patch)
        return found

    total = torch.zeros(volume.shape, dtype=torch.float32, device=volume.device)
    count = torch.zeros_like(total)
    torch.set_grad_enabled(False)
    if True:
        for corner in itertools.product(*map(starts, volume.shape[2:])):
            place = (..., *(slice(c, c + patch) for c in corner))
            total[place] += predict(volume[place])
            count[place] += 1
    torch.set_grad_enabled(True)
    return (total / count).to(volume.dtype)


# %% right: sums and counts in NumPy's arrays
def join_patches(predict, volume, patch, step):
    shape = tuple(volume.shape)
    total, count = np.zeros(shape), np.zeros(shape)
    lists = [sorted({*range(0, n - patch + 1, step), n - patch}) for n in shape[2:]]
    with torch.no_grad():
        for i, j, k in itertools.product(*lists):
            s = np.s_[:, :, i : i + patch, j : j + patch, k : k + patch]
            total[s] += predict(volume[s].contiguous()).double().numpy()
            count[s] += 1
    return torch.from_numpy(total / count).to(volume.dtype)
