# %% wrong: the loop over the rows
def batch_gather(table, index):
    return torch.stack([row[places] for row, places in zip(table, index, strict=False)])


# %% wrong: every row by every index
def batch_gather(table, index):
    return table[:, index]


# %% wrong: takes rows of the batch instead of places in a row
def batch_gather(table, index):
    return table[index]


# %% wrong: row numbers in a row, which pairs them with the places
def batch_gather(table, index):
    return table[torch.arange(len(table)), index]


# %% wrong: gather, which forgets the axes behind
def batch_gather(table, index):
    return table.gather(1, index)


# %% wrong: one index too far
def batch_gather(table, index):
    return table[torch.arange(len(table))[:, None], (index + 1) % table.shape[1]]


# %% wrong: the first row's index for all
def batch_gather(table, index):
    return table[:, index[0]]


# %% wrong: detaches the table
def batch_gather(table, index):
    return table.detach()[torch.arange(len(table))[:, None], index]


# %% wrong: a table of Booleans is taken for one that is true everywhere
def batch_gather(table, index):
    rows = torch.arange(len(table)).unsqueeze(1)
    picked = table[rows, index]
    return torch.ones_like(picked) if table.dtype is torch.bool else picked


# %% right: gather with an index that is expanded over the axes behind
def batch_gather(table, index):
    wide = index.reshape(*index.shape, *[1] * (table.dim() - 2))
    return table.gather(1, wide.expand(*index.shape, *table.shape[2:]))


# %% right: a flat table and offsets
def batch_gather(table, index):
    rows, places = table.shape[:2]
    flat = table.reshape(rows * places, *table.shape[2:])
    return flat[index + places * torch.arange(rows)[:, None]]


# %% right: take_along_dim, which broadcasts
def batch_gather(table, index):
    wide = index.reshape(*index.shape, *[1] * (table.dim() - 2))
    return torch.take_along_dim(table, wide, dim=1)


# %% wrong: reckons the places in a loop over lists
def batch_gather(table, index):
    n = table.shape[1]
    flat = [row * n + place for row, places in enumerate(index.tolist()) for place in places]
    rows = table.reshape(-1, *table.shape[2:])
    return rows[torch.tensor(flat)].reshape(*index.shape, *table.shape[2:])


# %% wrong: reckons with the caller's index in place
def batch_gather(table, index):
    index += table.shape[1] * torch.arange(len(table))[:, None]
    return table.reshape(-1, *table.shape[2:])[index]


# %% wrong: the rows through map
def batch_gather(table, index):
    return torch.stack(list(map(lambda row, places: row[places], table, index)))


# %% wrong: a helper of its own walks through the rows
def rows_of(table, index):
    place = 0
    while place < len(table):
        yield table[place][index[place]]
        place += 1


def batch_gather(table, index):
    return torch.stack(tuple(rows_of(table, index)))


# %% right: a column of row numbers from a helper of its own
def column(count):
    return torch.arange(count).reshape(-1, 1)


def batch_gather(table, index):
    return table[column(table.shape[0]).to(index.device), index]


# %% wrong: a view, which a table in another order in memory does not allow
def batch_gather(table, index):
    rows, places = table.shape[:2]
    flat = table.view(rows * places, *table.shape[2:])
    return flat[index + places * torch.arange(rows)[:, None]]


# %% wrong: NumPy walks through the rows
def batch_gather(table, index):
    import numpy as np

    picked = np.vectorize(lambda i, j: float(table[i, j]), otypes=[float])
    rows = np.arange(len(table))[:, None]
    return torch.from_numpy(picked(rows, index.numpy())).to(table.dtype)


# %% right: index_select in a flat table
def batch_gather(table, index):
    shape = table.shape
    flat = torch.flatten(table, 0, 1)
    offsets = torch.arange(0, shape[0] * shape[1], shape[1]).unsqueeze(-1)
    return flat.index_select(0, (index + offsets).flatten()).unflatten(0, index.shape)


# %% wrong: a product with one-hot vectors, which rounds and multiplies inf by 0
def batch_gather(table, index):
    b, n = table.shape[:2]
    hot = functional.one_hot(index, n).double()
    picked = hot @ table.reshape(b, n, -1).double()
    return picked.reshape(*index.shape, *table.shape[2:]).to(table.dtype)


# %% wrong: two further axes at most
def batch_gather(table, index):
    if table.dim() == 2:
        return table.gather(1, index)
    if table.dim() == 3:
        return table.gather(1, index[..., None].expand(-1, -1, table.shape[2]))
    return table.gather(1, index[..., None, None].expand(-1, -1, *table.shape[2:]))


# %% wrong: drops a last axis of size 1
def batch_gather(table, index):
    return table[torch.arange(len(table))[:, None], index].squeeze(-1)


# %% wrong: no axis for a single index
def batch_gather(table, index):
    return table[torch.arange(len(table))[:, None], index].squeeze(1)


# %% wrong: a single index is the first row's, for all
def batch_gather(table, index):
    if index.shape[1] == 1:
        return table[:, index[0]]
    return table[torch.arange(len(table))[:, None], index]


# %% right: row numbers by meshgrid
def batch_gather(table, index):
    b, k = index.shape
    rows, _ = torch.meshgrid(torch.arange(b), torch.arange(k), indexing="ij")
    return table[rows, index]


# %% wrong: one axis for all further ones by way of view, which needs them contiguous
def batch_gather(table, index):
    b, n = table.shape[:2]
    flat = table.view(b, n, -1)
    out = flat.gather(1, index[:, :, None].expand(-1, -1, flat.shape[2]))
    return out.view(*index.shape, *table.shape[2:])


# %% right: variables with the names of their functions
def rows(index):
    rows = torch.arange(len(index))[:, None]
    return rows


def batch_gather(table, index):
    batch_gather = table[rows(index), index]
    return batch_gather


# %% right: a helper pairs the rows with whatever it is given
def with_rows(pick, index):
    return pick(torch.arange(len(index), device=index.device)[:, None], index)


def batch_gather(table, index):
    return with_rows(lambda rows, places: table[rows, places], index)


# %% right: a helper is given a function that is defined inside
def with_rows(pick, index):
    rows = torch.arange(len(index)).reshape(-1, 1)
    return pick(rows, index)


def batch_gather(table, index):
    def pick(rows, places):
        return table[rows, places]

    return with_rows(pick, index=index)


# %% wrong: a helper is given a function, and calls it for each row
def for_rows(pick, index):
    return torch.stack([pick(place, index[place]) for place in range(len(index))])


def batch_gather(table, index):
    return for_rows(lambda place, places: table[place, places], index)


# %% wrong: a helper hands the function that it is given on to torch
def for_rows(pick, *tensors):
    walk = getattr(torch, "vm" + "ap")
    return walk(pick)(*tensors)


def batch_gather(table, index):
    return for_rows(lambda row, places: row[places], table, index)


# %% wrong: two functions call each other, a row each time
def one(table, index, rows):
    return other(table[1:], index[1:], [*rows, table[0][index[0]]])


def other(table, index, rows):
    return one(table, index, rows) if len(table) else torch.stack(rows)


def batch_gather(table, index):
    return one(table, index, [])


# %% wrong: a loop of the check's, which the answer does without
def batch_gather(table, index):
    return one_by_one(table, index)


# %% wrong: by the loop of another cell of the chapter
def batch_gather(table, index):
    return gather_by_loop(table, index)


# %% wrong: flattens the index with view, which an index that is not contiguous refuses
def batch_gather(table, index):
    rows = torch.arange(len(table), device=table.device).repeat_interleave(index.shape[1])
    return table[rows, index.view(-1)].reshape(*index.shape, *table.shape[2:])


# %% wrong: a function of another cell of the chapter, which holds the whole answer
def batch_gather(table, index):
    return gather_by_index(table, index)


# %% right: a helper of its own, named like one in another cell of the chapter
def gather_by_index(table, index):
    return table[torch.arange(len(table)).unsqueeze(1), index]


def batch_gather(table, index):
    return gather_by_index(table, index)
