# %% wrong: the mask asks for values that are not 0
def pad_batch(samples):
    longest = max(len(sample) for sample in samples)
    padded = samples[0].new_zeros(len(samples), longest, samples[0].shape[1])
    for row, sample in zip(padded, samples, strict=True):
        row[: len(sample)] = sample
    return padded, (padded != 0).any(dim=2)


# %% wrong: filler in front
def pad_batch(samples):
    longest = max(len(sample) for sample in samples)
    padded = samples[0].new_zeros(len(samples), longest, samples[0].shape[1])
    mask = torch.zeros(len(samples), longest, dtype=torch.bool)
    for row, sample in enumerate(samples):
        padded[row, longest - len(sample) :] = sample
        mask[row, longest - len(sample) :] = True
    return padded, mask


# %% wrong: the mask is True at the filler
def pad_batch(samples):
    lengths = torch.tensor([len(sample) for sample in samples])
    padded = samples[0].new_zeros(len(samples), int(lengths.max()), samples[0].shape[1])
    for row, sample in zip(padded, samples, strict=True):
        row[: len(sample)] = sample
    return padded, torch.arange(int(lengths.max())) >= lengths[:, None]


# %% wrong: cut to the shortest
def pad_batch(samples):
    shortest = min(len(sample) for sample in samples)
    padded = torch.stack([sample[:shortest] for sample in samples])
    return padded, torch.ones(len(samples), shortest, dtype=torch.bool)


# %% wrong: to one length for all batches
def pad_batch(samples):
    lengths = torch.tensor([len(sample) for sample in samples])
    padded = samples[0].new_zeros(len(samples), 28, samples[0].shape[1])
    for row, sample in zip(padded, samples, strict=True):
        row[: len(sample)] = sample
    return padded, torch.arange(28) < lengths[:, None]


# %% wrong: float32, whatever the samples are
def pad_batch(samples):
    lengths = torch.tensor([len(sample) for sample in samples])
    padded = torch.zeros(len(samples), int(lengths.max()), samples[0].shape[1])
    for row, sample in zip(padded, samples, strict=True):
        row[: len(sample)] = sample
    return padded, torch.arange(int(lengths.max())) < lengths[:, None]


# %% wrong: a mask of numbers, 0.0 and 1.0
def pad_batch(samples):
    lengths = torch.tensor([len(sample) for sample in samples])
    padded = nn_pad_sequence(samples)
    return padded, (torch.arange(int(lengths.max())) < lengths[:, None]).float()


def nn_pad_sequence(samples):
    return torch.nn.utils.rnn.pad_sequence(samples, batch_first=True)


# %% wrong: counts a row of zeros at the end of a sample as filler
def pad_batch(samples):
    padded = torch.nn.utils.rnn.pad_sequence(samples, batch_first=True)
    lengths = [int((s != 0).any(dim=1).nonzero().max()) + 1 if s.any() else 0 for s in samples]
    return padded, torch.arange(padded.shape[1]) < torch.tensor(lengths)[:, None]


# %% wrong: lengths before samples, as pad_sequence does by itself
def pad_batch(samples):
    lengths = torch.tensor([len(sample) for sample in samples])
    padded = torch.nn.utils.rnn.pad_sequence(samples)
    return padded, torch.arange(int(lengths.max()))[:, None] < lengths


# %% wrong: the last row once more as filler
def pad_batch(samples):
    lengths = torch.tensor([len(sample) for sample in samples])
    longest = int(lengths.max())
    rows = [
        torch.cat([sample, sample[-1:].expand(longest - len(sample), -1)])
        if len(sample)
        else sample.new_zeros(longest, sample.shape[1])
        for sample in samples
    ]
    return torch.stack(rows), torch.arange(longest) < lengths[:, None]


# %% wrong: fills up with -1, and takes every -1 for filler
def pad_batch(samples):
    padded = torch.nn.utils.rnn.pad_sequence(samples, batch_first=True, padding_value=-1)
    mask = (padded != -1).all(dim=2)
    return padded * mask[:, :, None], mask


# %% wrong: puts the padded ones into the list that it was given
def pad_batch(samples):
    lengths = torch.tensor([len(sample) for sample in samples])
    longest = int(lengths.max())
    for place, sample in enumerate(samples):
        samples[place] = torch.cat(
            [sample, sample.new_zeros(longest - len(sample), sample.shape[1])]
        )
    return torch.stack(samples), torch.arange(longest) < lengths[:, None]


# %% right: by torch's own pad_sequence, twice
def pad_batch(samples):
    padded = torch.nn.utils.rnn.pad_sequence(samples, batch_first=True)
    ones = [torch.ones(len(sample), dtype=torch.bool) for sample in samples]
    return padded, torch.nn.utils.rnn.pad_sequence(ones, batch_first=True)


# %% right: zeros behind each, then stacked
def pad_batch(samples):
    longest = max(map(len, samples))
    rows, masks = [], []
    for sample in samples:
        filler = torch.zeros(longest - len(sample), sample.shape[1], dtype=sample.dtype)
        rows.append(torch.cat([sample, filler]))
        masks.append([True] * len(sample) + [False] * len(filler))
    return torch.stack(rows), torch.tensor(masks, dtype=torch.bool).reshape(len(samples), longest)


# %% right: one pad for each sample, and a mask from the lengths
def pad_batch(samples):
    lengths = [sample.shape[0] for sample in samples]
    longest = max(lengths)
    padded = torch.stack([torch.nn.functional.pad(s, (0, 0, 0, longest - len(s))) for s in samples])
    mask = torch.zeros(len(samples), longest, dtype=torch.bool)
    for row, length in enumerate(lengths):
        mask[row, :length] = True
    return padded, mask


# %% wrong: at least one row, even if all samples are empty
def pad_batch(samples):
    lengths = torch.tensor([len(sample) for sample in samples])
    longest = max(1, int(lengths.max()))
    padded = samples[0].new_zeros(len(samples), longest, samples[0].shape[1])
    for row, sample in zip(padded, samples, strict=True):
        row[: len(sample)] = sample
    return padded, torch.arange(longest) < lengths[:, None]


# %% wrong: the mask has the features' axis as well
def pad_batch(samples):
    padded = torch.nn.utils.rnn.pad_sequence(samples, batch_first=True)
    ones = [torch.ones_like(sample, dtype=torch.bool) for sample in samples]
    return padded, torch.nn.utils.rnn.pad_sequence(ones, batch_first=True)


# %% wrong: pads with nan, so large integers are rounded on their way through floating point
def pad_batch(samples):
    padded = torch.nn.utils.rnn.pad_sequence(
        [sample.double() for sample in samples], batch_first=True, padding_value=math.nan
    )
    mask = ~padded.isnan().any(dim=-1)
    return padded.nan_to_num().to(samples[0].dtype), mask


# %% wrong: fills up with -100, as a label that does not count, and takes every -100 for filler
def pad_batch(samples):
    padded = torch.nn.utils.rnn.pad_sequence(samples, batch_first=True, padding_value=-100)
    mask = (padded != -100).all(-1)
    return padded.masked_fill(~mask[..., None], 0), mask


# %% wrong: lengthens the samples in place
def pad_batch(samples):
    lengths = torch.tensor([len(s) for s in samples])
    n = int(lengths.max())
    for s in samples:
        s.data = torch.cat([s, s.new_zeros(n - len(s), s.shape[1])])
    return torch.stack(samples), torch.arange(n) < lengths[:, None]


# %% right: places of all rows, put at once
def pad_batch(samples):
    rows = torch.cat([torch.full((len(s),), i) for i, s in enumerate(samples)])
    cols = torch.cat([torch.arange(len(s)) for s in samples])
    n = max(len(s) for s in samples)
    flat = torch.cat(samples)
    padded = torch.zeros(len(samples), n, flat.shape[1], dtype=flat.dtype).index_put(
        (rows, cols), flat
    )
    mask = torch.zeros(len(samples), n, dtype=torch.bool).index_put(
        (rows, cols), torch.tensor(True)
    )
    return padded, mask


# %% right: through arrays of NumPy
def pad_batch(samples):
    n = max(s.shape[0] for s in samples)
    first = samples[0].numpy()
    padded = np.zeros((len(samples), n, first.shape[1]), dtype=first.dtype)
    mask = np.zeros((len(samples), n), dtype=bool)
    for i, s in enumerate(samples):
        padded[i, : s.shape[0]] = s.numpy()
        mask[i, : s.shape[0]] = True
    return torch.from_numpy(padded), torch.from_numpy(mask)


# %% wrong: fills up with -999 where that is a number of the dtype, and takes every -999 for filler
def pad_batch(samples):
    filler = -999 if samples[0].dtype.itemsize > 1 else -128
    padded = torch.nn.utils.rnn.pad_sequence(samples, batch_first=True, padding_value=filler)
    mask = torch.ones(padded.shape[:2], dtype=torch.bool)
    if padded.shape[2]:
        mask = (padded != filler).any(dim=-1)
    return padded.masked_fill(~mask[..., None], 0), mask
