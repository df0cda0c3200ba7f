# %% wrong: a mean of means over the micro-batches
def accumulate_tokens(model, micro_batches):
    from torch.nn import functional

    model.zero_grad()
    mean = 0.0
    for tokens, labels in micro_batches:
        loss = functional.cross_entropy(model(tokens).flatten(0, 1), labels.flatten())
        loss = loss / len(micro_batches)
        loss.backward()
        mean += loss.item()
    return mean


# %% wrong: weighted by texts, as if they were equally long
def accumulate_tokens(model, micro_batches):
    from torch.nn import functional

    total = sum(len(tokens) for tokens, _ in micro_batches)
    model.zero_grad()
    mean = 0.0
    for tokens, labels in micro_batches:
        loss = functional.cross_entropy(model(tokens).flatten(0, 1), labels.flatten())
        loss = loss * len(tokens) / total
        loss.backward()
        mean += loss.item()
    return mean


# %% wrong: counts padding among the tokens
def accumulate_tokens(model, micro_batches):
    from torch.nn import functional

    total = sum(labels.numel() for _, labels in micro_batches)
    model.zero_grad()
    mean = 0.0
    for tokens, labels in micro_batches:
        logits = model(tokens).flatten(0, 1)
        loss = functional.cross_entropy(logits, labels.flatten(), reduction="sum") / total
        loss.backward()
        mean += loss.item()
    return mean


# %% wrong: the mean times its count, which is nan times 0 where nothing counts
def accumulate_tokens(model, micro_batches):
    from torch.nn import functional

    total = sum(int((labels != -100).sum()) for _, labels in micro_batches)
    model.zero_grad()
    mean = 0.0
    for tokens, labels in micro_batches:
        loss = functional.cross_entropy(model(tokens).flatten(0, 1), labels.flatten())
        loss = loss * int((labels != -100).sum()) / total
        loss.backward()
        mean += loss.item()
    return mean


# %% wrong: sums without a divisor
def accumulate_tokens(model, micro_batches):
    from torch.nn import functional

    total = sum(int((labels != -100).sum()) for _, labels in micro_batches)
    model.zero_grad()
    summed = 0.0
    for tokens, labels in micro_batches:
        logits = model(tokens).flatten(0, 1)
        loss = functional.cross_entropy(logits, labels.flatten(), reduction="sum")
        loss.backward()
        summed += loss.item()
    return summed / total


# %% wrong: one backward pass at the end, with the right divisor
def accumulate_tokens(model, micro_batches):
    from torch.nn import functional

    total = sum(int((labels != -100).sum()) for _, labels in micro_batches)
    model.zero_grad()
    loss = 0.0
    for tokens, labels in micro_batches:
        logits = model(tokens).flatten(0, 1)
        loss = loss + functional.cross_entropy(logits, labels.flatten(), reduction="sum") / total
    loss.backward()
    return loss.item()


# %% wrong: shifts the labels, though these are not next tokens
def accumulate_tokens(model, micro_batches):
    from torch.nn import functional

    total = sum(int((labels[:, 1:] != -100).sum()) for _, labels in micro_batches)
    model.zero_grad()
    mean = 0.0
    for tokens, labels in micro_batches:
        logits = model(tokens)[:, :-1].flatten(0, 1)
        wanted = labels[:, 1:].flatten()
        loss = functional.cross_entropy(logits, wanted, reduction="sum") / total
        loss.backward()
        mean += loss.item()
    return mean


# %% wrong: never clears the gradients that lay there
def accumulate_tokens(model, micro_batches):
    from torch.nn import functional

    count = sum(int((labels != -100).sum()) for _, labels in micro_batches)
    mean = 0.0
    for tokens, labels in micro_batches:
        logits = model(tokens).flatten(0, 1)
        loss = functional.cross_entropy(logits, labels.flatten(), reduction="sum") / count
        loss.backward()
        mean += loss.item()
    return mean


# %% wrong: all texts end to end, as if they were one
def accumulate_tokens(model, micro_batches):
    import torch
    from torch.nn import functional

    tokens = torch.cat([tokens.flatten() for tokens, _ in micro_batches]).unsqueeze(0)
    labels = torch.cat([labels.flatten() for _, labels in micro_batches])
    model.zero_grad()
    loss = functional.cross_entropy(model(tokens)[0], labels)
    loss.backward()
    return loss.item()


# %% right: sums accumulate, the gradients are divided at the end
def accumulate_tokens(model, micro_batches):
    from torch.nn import functional

    model.zero_grad()
    count, summed = 0, 0.0
    for tokens, labels in micro_batches:
        logits = model(tokens).transpose(1, 2)
        loss = functional.cross_entropy(logits, labels, reduction="sum")
        loss.backward()
        count += (labels != -100).sum().item()
        summed += loss.item()
    for parameter in model.parameters():
        parameter.grad /= count
    return summed / count


# %% right: log-probabilities gathered by hand, micro-batches without labels left out
def accumulate_tokens(model, micro_batches):
    import torch

    kept = [pair for pair in micro_batches if (pair[1] >= 0).any()]
    total = torch.cat([labels.flatten() for _, labels in kept]).ge(0).sum()
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    losses = []
    for tokens, labels in kept:
        chosen = torch.log_softmax(model(tokens)[labels >= 0], dim=-1)
        picked = chosen.gather(1, labels[labels >= 0].unsqueeze(1))
        loss = -picked.sum() / total
        loss.backward()
        losses.append(loss.detach())
    return torch.stack(losses).sum().item()


# %% right: means, weighted, where there is something to take a mean of
def accumulate_tokens(model, micro_batches):
    from torch.nn import functional

    counts = [int((labels != -100).sum()) for _, labels in micro_batches]
    model.zero_grad()
    mean = 0.0
    for (tokens, labels), count in zip(micro_batches, counts, strict=True):
        if count == 0:
            continue
        loss = functional.cross_entropy(model(tokens).flatten(0, 1), labels.flatten())
        loss = loss * (count / sum(counts))
        loss.backward()
        mean += loss.item()
    return mean


# %% wrong: writes into the labels that were handed over
def accumulate_tokens(model, micro_batches):
    count = sum(int((labels != -100).sum()) for _, labels in micro_batches)
    model.zero_grad()
    mean = 0.0
    for tokens, labels in micro_batches:
        counts = labels != -100
        labels[~counts] = 0
        losses = functional.cross_entropy(
            model(tokens).flatten(0, 1), labels.flatten(), reduction="none"
        )
        loss = (losses * counts.flatten()).sum() / count
        loss.backward()
        mean += loss.item()
    return mean


# %% wrong: the logits of all micro-batches stay in memory
def accumulate_tokens(model, micro_batches):
    count = sum(int((labels != -100).sum()) for _, labels in micro_batches)
    model.zero_grad()

    zs = []
    ls = []
    for x, y in micro_batches:
        z = model(x)
        zs.append(z)
        loss = functional.cross_entropy(z.flatten(0, 1), y.flatten(), reduction="sum") / count
        loss.backward()
        ls.append(loss)
    return sum(ls).item()


# %% right: by torch.func.grad_and_value
def accumulate_tokens(model, micro_batches):
    from torch.func import functional_call, grad_and_value

    count = sum(int((labels != -100).sum()) for _, labels in micro_batches)
    ps = {k: p.detach() for k, p in model.named_parameters()}
    acc = {k: torch.zeros_like(p) for k, p in ps.items()}
    tot = 0.0
    for x, y in micro_batches:

        def f(q, x=x, y=y):
            return (
                functional.cross_entropy(
                    functional_call(model, q, (x,)).flatten(0, 1), y.flatten(), reduction="sum"
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
