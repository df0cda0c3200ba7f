# %% wrong: as it was, the count before the shift
def accumulate_next_tokens(model, micro_batches):
    from torch.nn import functional

    count = sum(int((labels != -100).sum()) for _, labels in micro_batches)
    model.zero_grad()
    mean = 0.0
    for tokens, labels in micro_batches:
        logits, labels = model(tokens)[:, :-1], labels[:, 1:]
        loss = functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum")
        (loss / count).backward()
        mean += loss.item() / count
    return mean


# %% wrong: subtracts one for each text, also where the first label did not count
def accumulate_next_tokens(model, micro_batches):
    from torch.nn import functional

    count = sum(int((labels != -100).sum()) - len(labels) for _, labels in micro_batches)
    model.zero_grad()
    mean = 0.0
    for tokens, labels in micro_batches:
        logits, labels = model(tokens)[:, :-1], labels[:, 1:]
        loss = functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum")
        (loss / count).backward()
        mean += loss.item() / count
    return mean


# %% wrong: no shift at all, so that count and sum agree on the wrong labels
def accumulate_next_tokens(model, micro_batches):
    from torch.nn import functional

    count = sum(int((labels != -100).sum()) for _, labels in micro_batches)
    model.zero_grad()
    mean = 0.0
    for tokens, labels in micro_batches:
        logits = model(tokens)
        loss = functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum")
        (loss / count).backward()
        mean += loss.item() / count
    return mean


# %% wrong: shifts in the other direction when it counts
def accumulate_next_tokens(model, micro_batches):
    from torch.nn import functional

    count = sum(int((labels[:, :-1] != -100).sum()) for _, labels in micro_batches)
    model.zero_grad()
    mean = 0.0
    for tokens, labels in micro_batches:
        logits, labels = model(tokens)[:, :-1], labels[:, 1:]
        loss = functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum")
        (loss / max(count, 1)).backward()
        mean += loss.item() / max(count, 1)
    return mean


# %% wrong: counts positions, padding and prompts included
def accumulate_next_tokens(model, micro_batches):
    from torch.nn import functional

    count = sum(labels[:, 1:].numel() for _, labels in micro_batches)
    model.zero_grad()
    mean = 0.0
    for tokens, labels in micro_batches:
        logits, labels = model(tokens)[:, :-1], labels[:, 1:]
        loss = functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum")
        (loss / count).backward()
        mean += loss.item() / count
    return mean


# %% wrong: a mean of means, shifted right
def accumulate_next_tokens(model, micro_batches):
    from torch.nn import functional

    model.zero_grad()
    mean = 0.0
    for tokens, labels in micro_batches:
        logits, labels = model(tokens)[:, :-1], labels[:, 1:]
        loss = functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        (loss / len(micro_batches)).backward()
        mean += loss.item() / len(micro_batches)
    return mean


# %% wrong: one padded batch, so that nothing is accumulated
def accumulate_next_tokens(model, micro_batches):
    import torch
    from torch.nn import functional

    longest = max(tokens.shape[1] for tokens, _ in micro_batches)

    def pad(part, value):
        return functional.pad(part, (0, longest - part.shape[1]), value=value)

    tokens = torch.cat([pad(tokens, 0) for tokens, _ in micro_batches])
    labels = torch.cat([pad(labels, -100) for _, labels in micro_batches])
    model.zero_grad()
    logits = model(tokens)[:, :-1]
    loss = functional.cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten())
    loss.backward()
    return loss.item()


# %% wrong: one backward pass at the end, for which all graphs wait
def accumulate_next_tokens(model, micro_batches):
    from torch.nn import functional

    count = sum(int((labels[:, 1:] != -100).sum()) for _, labels in micro_batches)
    model.zero_grad()
    loss = 0.0
    for tokens, labels in micro_batches:
        logits = model(tokens)[:, :-1].flatten(0, 1)
        wanted = labels[:, 1:].flatten()
        loss = loss + functional.cross_entropy(logits, wanted, reduction="sum") / count
    loss.backward()
    return loss.item()


# %% wrong: writes -100 into the labels that were handed over
def accumulate_next_tokens(model, micro_batches):
    from torch.nn import functional

    for _, labels in micro_batches:
        labels[:, 0] = -100
    count = sum(int((labels != -100).sum()) for _, labels in micro_batches)
    model.zero_grad()
    mean = 0.0
    for tokens, labels in micro_batches:
        logits, labels = model(tokens)[:, :-1], labels[:, 1:]
        loss = functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum")
        (loss / count).backward()
        mean += loss.item() / count
    return mean


# %% wrong: never clears the gradients that lay there
def accumulate_next_tokens(model, micro_batches):
    from torch.nn import functional

    count = sum(int((labels[:, 1:] != -100).sum()) for _, labels in micro_batches)
    mean = 0.0
    for tokens, labels in micro_batches:
        logits, labels = model(tokens)[:, :-1], labels[:, 1:]
        loss = functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum")
        (loss / count).backward()
        mean += loss.item() / count
    return mean


# %% wrong: the mean times its count, which is nan times 0 where nothing is predicted
def accumulate_next_tokens(model, micro_batches):
    from torch.nn import functional

    count = sum(int((labels[:, 1:] != -100).sum()) for _, labels in micro_batches)
    model.zero_grad()
    mean = 0.0
    for tokens, labels in micro_batches:
        logits, labels = model(tokens)[:, :-1], labels[:, 1:]
        loss = functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        loss = loss * int((labels != -100).sum()) / count
        loss.backward()
        mean += loss.item()
    return mean


# %% right: marks the first label of each text as ignored, and uses the accumulation by tokens
def accumulate_next_tokens(model, micro_batches):
    import torch

    moved = []
    for tokens, labels in micro_batches:
        nothing = torch.full_like(labels[:, :1], -100)
        moved.append((tokens, torch.cat([labels[:, 1:], nothing], dim=1)))
    return accumulate_tokens(model, moved)


# %% right: sums, and the gradients divided by what was really summed
def accumulate_next_tokens(model, micro_batches):
    import torch

    model.zero_grad()
    terms, summed = 0, 0.0
    for tokens, labels in micro_batches:
        wanted = labels[:, 1:].reshape(-1)
        counts = wanted != -100
        logits = model(tokens[:, :-1]).reshape(len(wanted), -1)[counts]
        loss = -torch.log_softmax(logits, 1)[torch.arange(len(logits)), wanted[counts]].sum()
        loss.backward()
        terms += len(logits)
        summed += float(loss.detach())
    for parameter in model.parameters():
        parameter.grad.div_(terms)
    return summed / terms


# %% wrong: the logits of all micro-batches stay in memory
def accumulate_next_tokens(model, micro_batches):
    count = sum(int((labels[:, 1:] != -100).sum()) for _, labels in micro_batches)
    model.zero_grad()

    zs = []
    tot = 0.0
    for x, y in micro_batches:
        z = model(x)
        zs.append(z)
        loss = (
            functional.cross_entropy(z[:, :-1].flatten(0, 1), y[:, 1:].flatten(), reduction="sum")
            / count
        )
        loss.backward()
        tot += loss.item()
    return tot


# %% right: by torch.func.grad_and_value
def accumulate_next_tokens(model, micro_batches):
    from torch.func import functional_call, grad_and_value

    count = sum(int((labels[:, 1:] != -100).sum()) for _, labels in micro_batches)
    ps = {k: p.detach() for k, p in model.named_parameters()}
    acc = {k: torch.zeros_like(p) for k, p in ps.items()}
    tot = 0.0
    for x, y in micro_batches:

        def f(q, x=x, y=y):
            return (
                functional.cross_entropy(
                    functional_call(model, q, (x,))[:, :-1].flatten(0, 1),
                    y[:, 1:].flatten(),
                    reduction="sum",
                )
                / count
            )

        g, loss = grad_and_value(f)(ps)
        tot += loss.item()
        for k in acc:
            acc[k] += g[k]
    for k, p in model.named_parameters():
        p.grad = acc[k]
    return tot
