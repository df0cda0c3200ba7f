# %% wrong: each tensor by its own norm
def clip_by_global_norm(gradients, max_norm):
    import math

    norm = math.sqrt(sum((g.double() ** 2).sum().item() for g in gradients if g is not None))
    clipped = []
    for g in gradients:
        own = None if g is None else g.norm().item()
        clipped.append(g * (max_norm / own) if g is not None and own > max_norm else g)
    return clipped, norm


# %% wrong: clamps each entry
def clip_by_global_norm(gradients, max_norm):
    import math

    norm = math.sqrt(sum((g.double() ** 2).sum().item() for g in gradients if g is not None))
    return [None if g is None else g.clamp(-max_norm, max_norm) for g in gradients], norm


# %% wrong: makes short gradients longer
def clip_by_global_norm(gradients, max_norm):
    import math

    norm = math.sqrt(sum((g.double() ** 2).sum().item() for g in gradients if g is not None))
    factor = max_norm / norm if norm > 0 and math.isfinite(norm) else 1.0
    return [None if g is None else g * factor for g in gradients], norm


# %% wrong: adds the norms in place of the squares
def clip_by_global_norm(gradients, max_norm):
    import math

    norm = sum(g.norm().item() for g in gradients if g is not None)
    factor = max_norm / norm if math.isfinite(norm) and norm > max_norm else 1.0
    return [None if g is None else g * factor for g in gradients], float(norm)


# %% wrong: an inf makes the factor 0, and with it nan and zeros
def clip_by_global_norm(gradients, max_norm):
    import math

    norm = math.sqrt(sum((g.double() ** 2).sum().item() for g in gradients if g is not None))
    factor = max_norm / norm if norm > max_norm else 1.0
    return [None if g is None else g * factor for g in gradients], norm


# %% wrong: a small number in the divisor, as torch has it
def clip_by_global_norm(gradients, max_norm):
    import math

    norm = math.sqrt(sum((g.double() ** 2).sum().item() for g in gradients if g is not None))
    factor = max_norm / (norm + 1e-6) if math.isfinite(norm) and norm > max_norm else 1.0
    return [None if g is None else g * factor for g in gradients], norm


# %% wrong: leaves out what is None, so the list no longer fits the parameters
def clip_by_global_norm(gradients, max_norm):
    import math

    there = [g for g in gradients if g is not None]
    norm = math.sqrt(sum((g.double() ** 2).sum().item() for g in there))
    factor = max_norm / norm if math.isfinite(norm) and norm > max_norm else 1.0
    return [g * factor for g in there], norm


# %% wrong: changes the gradients in place
def clip_by_global_norm(gradients, max_norm):
    import math

    norm = math.sqrt(sum((g.double() ** 2).sum().item() for g in gradients if g is not None))
    if math.isfinite(norm) and norm > max_norm:
        for g in gradients:
            if g is not None:
                g *= max_norm / norm
    return list(gradients), norm


# %% wrong: forgets the root
def clip_by_global_norm(gradients, max_norm):
    import math

    norm = sum((g.double() ** 2).sum().item() for g in gradients if g is not None)
    factor = max_norm / norm if math.isfinite(norm) and norm > max_norm else 1.0
    return [None if g is None else g * factor for g in gradients], float(norm)


# %% wrong: everything comes back in float32
def clip_by_global_norm(gradients, max_norm):
    import math

    squares = [(g.double() ** 2).sum().item() for g in gradients if g is not None]
    norm = math.sqrt(sum(squares))
    factor = max_norm / norm if math.isfinite(norm) and norm > max_norm else 1.0
    return [None if g is None else g.float() * factor for g in gradients], norm


# %% wrong: cannot do without a gradient
def clip_by_global_norm(gradients, max_norm):
    import math

    import torch

    norms = torch.stack([g.double().norm() for g in gradients if g is not None])
    norm = norms.norm().item()
    factor = max_norm / norm if math.isfinite(norm) and norm > max_norm else 1.0
    return [None if g is None else g * factor for g in gradients], norm


# %% right: all entries in one long vector
def clip_by_global_norm(gradients, max_norm):
    import torch

    there = [g.flatten() for g in gradients if g is not None]
    norm = torch.linalg.vector_norm(torch.cat(there)).item() if there else 0.0
    if not torch.isfinite(torch.tensor(norm)) or norm <= max_norm:
        return list(gradients), norm
    return [g if g is None else g / norm * max_norm for g in gradients], norm


# %% right: the norm of the norms
def clip_by_global_norm(gradients, max_norm):
    import math

    norm = math.hypot(*(g.double().norm().item() for g in gradients if g is not None))
    if not max_norm < norm < math.inf:
        return [g if g is None else g.clone() for g in gradients], norm
    return [g if g is None else g.mul(max_norm / norm) for g in gradients], norm


# %% right: every norm in the tensor's own dtype, and the same tensors where nothing is clipped
def clip_by_global_norm(gradients, max_norm):
    import math

    norm = math.hypot(*[g.norm().item() for g in gradients if g is not None])
    if not math.isfinite(norm) or norm <= max_norm:
        return gradients, norm
    factor = max_norm / norm
    return [g if g is None else (g.double() * factor).to(g.dtype) for g in gradients], norm


# %% wrong: clips only if one tensor is longer than the bound
def clip_by_global_norm(gradients, max_norm):
    gs = [g for g in gradients if g is not None]
    n = math.sqrt(sum(g.double().square().sum().item() for g in gs))
    if math.isfinite(n) and any(g.norm().item() > max_norm for g in gs):
        return [None if g is None else g * (max_norm / n) for g in gradients], n
    return list(gradients), n


# %% wrong: clips only if one entry is larger than the bound
def clip_by_global_norm(gradients, max_norm):
    gs = [g for g in gradients if g is not None]
    n = math.sqrt(sum(g.double().square().sum().item() for g in gs))
    if math.isfinite(n) and any(g.abs().max().item() > max_norm for g in gs):
        return [None if g is None else g * (max_norm / n) for g in gradients], n
    return list(gradients), n


# %% wrong: divides by the norm of zeros
def clip_by_global_norm(gradients, max_norm):
    gs = [g for g in gradients if g is not None]
    n = math.sqrt(sum(g.double().square().sum().item() for g in gs))

    if not gs:
        return list(gradients), 0.0
    f = min(1.0, max_norm / n) if math.isfinite(n) else 1.0
    return [None if g is None else g * f for g in gradients], n


# %% wrong: None is dropped where nothing is clipped
def clip_by_global_norm(gradients, max_norm):
    gs = [g for g in gradients if g is not None]
    n = math.sqrt(sum(g.double().square().sum().item() for g in gs))

    if math.isfinite(n) and n > max_norm:
        return [None if g is None else g * (max_norm / n) for g in gradients], n
    return [g for g in gradients if g is not None] if gs else list(gradients), n


# %% wrong: a short float64 gradient becomes float32
def clip_by_global_norm(gradients, max_norm):
    gs = [g for g in gradients if g is not None]
    n = math.sqrt(sum(g.double().square().sum().item() for g in gs))

    if math.isfinite(n) and n > max_norm:
        return [None if g is None else g * (max_norm / n) for g in gradients], n
    return [None if g is None else g.float() for g in gradients], n


# %% wrong: replaces inf and nan in the input
def clip_by_global_norm(gradients, max_norm):
    gs = [g for g in gradients if g is not None]
    n = math.sqrt(sum(g.double().square().sum().item() for g in gs))

    out = [None if g is None else g.clone() for g in gradients]
    if math.isfinite(n) and n > max_norm:
        return [None if g is None else g * (max_norm / n) for g in gradients], n
    for g in gs:
        g.nan_to_num_()
    return out, n


# %% wrong: tensors without dimensions are not in the norm
def clip_by_global_norm(gradients, max_norm):
    gs = [g for g in gradients if g is not None and g.dim() > 0]
    n = math.sqrt(sum(g.double().square().sum().item() for g in gs))
    if math.isfinite(n) and n > max_norm:
        return [None if g is None else g * (max_norm / n) for g in gradients], n
    return list(gradients), n


# %% wrong: goes through the first dimension of each tensor
def clip_by_global_norm(gradients, max_norm):
    gs = [g for g in gradients if g is not None]
    n = math.sqrt(sum(g.double().square().sum().item() for g in gs))

    if math.isfinite(n) and n > max_norm:
        return [
            None if g is None else torch.stack([r * (max_norm / n) for r in g]) for g in gradients
        ], n
    return list(gradients), n


# %% wrong: clips from one and a half times the bound on
def clip_by_global_norm(gradients, max_norm):
    gs = [g for g in gradients if g is not None]
    n = math.sqrt(sum(g.double().square().sum().item() for g in gs))

    if math.isfinite(n) and n > 1.5 * max_norm:
        return [None if g is None else g * (max_norm / n) for g in gradients], n
    return list(gradients), n


# %% wrong: compares the norm with the square of the bound
def clip_by_global_norm(gradients, max_norm):
    gs = [g for g in gradients if g is not None]
    n = math.sqrt(sum(g.double().square().sum().item() for g in gs))
    if math.isfinite(n) and n > max_norm**2:
        return [None if g is None else g * (max_norm / n) for g in gradients], n
    return list(gradients), n


# %% wrong: zeros become nan
def clip_by_global_norm(gradients, max_norm):
    gs = [g for g in gradients if g is not None]
    n = math.sqrt(sum(g.double().square().sum().item() for g in gs))

    if not gs:
        return list(gradients), 0.0
    if not math.isfinite(n):
        return list(gradients), n
    u = [None if g is None else g / n for g in gradients]
    if n <= max_norm:
        return [g if g is None or n > 0 else u[k] for k, g in enumerate(gradients)], n
    return [None if g is None else g * max_norm for g in u], n
