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
