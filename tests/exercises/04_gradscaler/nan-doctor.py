# %% wrong: looks at the loss first, and never blames a module
def diagnose(records, reference):
    import math

    if not math.isfinite(records[0]["loss"]):
        return "loss", None
    for name, output in records[0]["outputs"].items():
        if not output.isfinite().all():
            return "forward", name
    finite = {
        k: all(g.isfinite().all() for g in r["gradients"].values()) for k, r in records.items()
    }
    if not any(finite.values()):
        return "backward", None
    for k in sorted(records):
        pairs = [(g, reference["gradients"][n]) for n, g in records[k]["gradients"].items()]
        if finite[k] and not any(t.any() and not g.any() for g, t in pairs):
            return ("underflow", k) if k else ("healthy", None)
    return "range", None


# %% wrong: the last module that is not finite
def diagnose(records, reference):
    import math

    bad = [n for n, output in records[0]["outputs"].items() if not output.isfinite().all()]
    if bad:
        return "forward", bad[-1]
    if not math.isfinite(records[0]["loss"]):
        return "loss", None
    finite = {
        k: all(g.isfinite().all() for g in r["gradients"].values()) for k, r in records.items()
    }
    if not any(finite.values()):
        return "backward", None
    for k in sorted(records):
        pairs = [(g, reference["gradients"][n]) for n, g in records[k]["gradients"].items()]
        if finite[k] and not any(t.any() and not g.any() for g, t in pairs):
            return ("underflow", k) if k else ("healthy", None)
    return "range", None


# %% wrong: the first module by name
def diagnose(records, reference):
    import math

    bad = [n for n, output in records[0]["outputs"].items() if not output.isfinite().all()]
    if bad:
        return "forward", min(bad)
    if not math.isfinite(records[0]["loss"]):
        return "loss", None
    finite = {
        k: all(g.isfinite().all() for g in r["gradients"].values()) for k, r in records.items()
    }
    if not any(finite.values()):
        return "backward", None
    for k in sorted(records):
        pairs = [(g, reference["gradients"][n]) for n, g in records[k]["gradients"].items()]
        if finite[k] and not any(t.any() and not g.any() for g, t in pairs):
            return ("underflow", k) if k else ("healthy", None)
    return "range", None


# %% wrong: looks for nan, and lets inf pass
def diagnose(records, reference):
    import math

    for name, output in records[0]["outputs"].items():
        if output.isnan().any():
            return "forward", name
    if math.isnan(records[0]["loss"]):
        return "loss", None
    finite = {
        k: not any(g.isnan().any() for g in r["gradients"].values()) for k, r in records.items()
    }
    if not any(finite.values()):
        return "backward", None
    for k in sorted(records):
        pairs = [(g, reference["gradients"][n]) for n, g in records[k]["gradients"].items()]
        if finite[k] and not any(t.any() and not g.any() for g, t in pairs):
            return ("underflow", k) if k else ("healthy", None)
    return "range", None


# %% wrong: a single entry that is 0 counts as lost
def diagnose(records, reference):
    import math

    for name, output in records[0]["outputs"].items():
        if not output.isfinite().all():
            return "forward", name
    if not math.isfinite(records[0]["loss"]):
        return "loss", None
    finite = {
        k: all(g.isfinite().all() for g in r["gradients"].values()) for k, r in records.items()
    }
    if not any(finite.values()):
        return "backward", None
    for k in sorted(records):
        if finite[k] and not any((g == 0).any() for g in records[k]["gradients"].values()):
            return ("underflow", k) if k else ("healthy", None)
    return "range", None


# %% wrong: takes gradients that are 0 in truth for lost ones
def diagnose(records, reference):
    import math

    for name, output in records[0]["outputs"].items():
        if not output.isfinite().all():
            return "forward", name
    if not math.isfinite(records[0]["loss"]):
        return "loss", None
    finite = {
        k: all(g.isfinite().all() for g in r["gradients"].values()) for k, r in records.items()
    }
    if not any(finite.values()):
        return "backward", None
    for k in sorted(records):
        if finite[k] and all(g.any() for g in records[k]["gradients"].values()):
            return ("underflow", k) if k else ("healthy", None)
    return "range", None


# %% wrong: the first scale in the order of the dict
def diagnose(records, reference):
    import math

    for name, output in records[0]["outputs"].items():
        if not output.isfinite().all():
            return "forward", name
    if not math.isfinite(records[0]["loss"]):
        return "loss", None
    finite = {
        k: all(g.isfinite().all() for g in r["gradients"].values()) for k, r in records.items()
    }
    if not any(finite.values()):
        return "backward", None
    good = []
    for k in records:
        pairs = [(g, reference["gradients"][n]) for n, g in records[k]["gradients"].items()]
        if finite[k] and not any(t.any() and not g.any() for g, t in pairs):
            good.append(k)
    if 0 in good:
        return "healthy", None
    return ("underflow", good[0]) if good else ("range", None)


# %% wrong: the largest scale that works
def diagnose(records, reference):
    import math

    for name, output in records[0]["outputs"].items():
        if not output.isfinite().all():
            return "forward", name
    if not math.isfinite(records[0]["loss"]):
        return "loss", None
    finite = {
        k: all(g.isfinite().all() for g in r["gradients"].values()) for k, r in records.items()
    }
    if not any(finite.values()):
        return "backward", None
    good = []
    for k in sorted(records):
        pairs = [(g, reference["gradients"][n]) for n, g in records[k]["gradients"].items()]
        if finite[k] and not any(t.any() and not g.any() for g, t in pairs):
            good.append(k)
    if 0 in good:
        return "healthy", None
    return ("underflow", good[-1]) if good else ("range", None)


# %% wrong: calls it backward if one scale makes an inf
def diagnose(records, reference):
    import math

    for name, output in records[0]["outputs"].items():
        if not output.isfinite().all():
            return "forward", name
    if not math.isfinite(records[0]["loss"]):
        return "loss", None
    finite = {
        k: all(g.isfinite().all() for g in r["gradients"].values()) for k, r in records.items()
    }
    if not all(finite.values()):
        return "backward", None
    for k in sorted(records):
        pairs = [(g, reference["gradients"][n]) for n, g in records[k]["gradients"].items()]
        if not any(t.any() and not g.any() for g, t in pairs):
            return ("underflow", k) if k else ("healthy", None)
    return "range", None


# %% wrong: believes that a scaler cures everything that is not in the forward pass
def diagnose(records, reference):
    import math

    for name, output in records[0]["outputs"].items():
        if not output.isfinite().all():
            return "forward", name
    if not math.isfinite(records[0]["loss"]):
        return "loss", None
    for k in sorted(records):
        pairs = [(g, reference["gradients"][n]) for n, g in records[k]["gradients"].items()]
        if all(g.isfinite().all() and (g.any() or not t.any()) for g, t in pairs):
            return ("underflow", k) if k else ("healthy", None)
    return "underflow", max(records)


# %% right: what is lost at each scale, as sets of names
def diagnose(records, reference):
    import math

    import torch

    truly = {n for n, slope in reference["gradients"].items() if torch.count_nonzero(slope) > 0}
    infinite, lost = {}, {}
    for k, record in records.items():
        slopes = record["gradients"]
        infinite[k] = {n for n, slope in slopes.items() if not torch.isfinite(slope).all()}
        gone = {n for n, slope in slopes.items() if torch.count_nonzero(slope) == 0}
        lost[k] = infinite[k] | (gone & truly)
    first = records[0]
    broken = [n for n, out in first["outputs"].items() if not torch.isfinite(out).all()]
    curing = sorted(k for k, names in lost.items() if not names)
    if broken:
        return "forward", broken[0]
    if math.isnan(first["loss"]) or math.isinf(first["loss"]):
        return "loss", None
    if all(infinite.values()):
        return "backward", None
    if not curing:
        return "range", None
    return ("healthy", None) if curing[0] == 0 else ("underflow", curing[0])


# %% right: by sums, in float64
def diagnose(records, reference):
    def sound(tensor):
        return bool((tensor.double() * 0 == 0).all())

    def lost(name, slope):
        truth = reference["gradients"][name]
        return not sound(slope) or (slope.abs().sum() == 0 and bool((truth != 0).any()))

    start = records[0]
    for name in start["outputs"]:
        if not sound(start["outputs"][name]):
            return ("forward", name)
    if start["loss"] * 0 != 0:
        return ("loss", None)
    if all(not all(map(sound, r["gradients"].values())) for r in records.values()):
        return ("backward", None)
    for k in sorted(records.keys()):
        if any(lost(name, slope) for name, slope in records[k]["gradients"].items()):
            continue
        if k == 0:
            return ("healthy", None)
        return ("underflow", k)
    return ("range", None)


# %% wrong: lost as soon as one entry has vanished
def diagnose(records, reference):
    def finite(tensors):
        return all(torch.isfinite(t).all() for t in tensors)

    def lost(slope, true):
        return not torch.isfinite(slope).all() or bool(((slope == 0) & (true != 0)).any())

    def any_lost(record):
        true = reference["gradients"]
        return any(lost(slope, true[name]) for name, slope in record["gradients"].items())

    for name, output in records[0]["outputs"].items():
        if not torch.isfinite(output).all():
            return "forward", name
    if not math.isfinite(records[0]["loss"]):
        return "loss", None
    if all(not finite(record["gradients"].values()) for record in records.values()):
        return "backward", None
    for k in sorted(records):
        if not any_lost(records[k]):
            return ("underflow", k) if k else ("healthy", None)
    return "range", None


# %% wrong: takes a sum of 0 for zeros in every entry
def diagnose(records, reference):
    def finite(tensors):
        return all(torch.isfinite(t).all() for t in tensors)

    def lost(slope, true):
        return not torch.isfinite(slope).all() or (bool(true.any()) and slope.sum() == 0)

    def any_lost(record):
        true = reference["gradients"]
        return any(lost(slope, true[name]) for name, slope in record["gradients"].items())

    for name, output in records[0]["outputs"].items():
        if not torch.isfinite(output).all():
            return "forward", name
    if not math.isfinite(records[0]["loss"]):
        return "loss", None
    if all(not finite(record["gradients"].values()) for record in records.values()):
        return "backward", None
    for k in sorted(records):
        if not any_lost(records[k]):
            return ("underflow", k) if k else ("healthy", None)
    return "range", None


# %% wrong: asks whether the sum of an output is finite
def diagnose(records, reference):
    def finite(tensors):
        return all(torch.isfinite(t).all() for t in tensors)

    def lost(slope, true):
        return not torch.isfinite(slope).all() or (bool(true.any()) and not slope.any())

    def any_lost(record):
        true = reference["gradients"]
        return any(lost(slope, true[name]) for name, slope in record["gradients"].items())

    for name, output in records[0]["outputs"].items():
        if not torch.isfinite(output.sum()):
            return "forward", name
    if not math.isfinite(records[0]["loss"]):
        return "loss", None
    if all(not finite(record["gradients"].values()) for record in records.values()):
        return "backward", None
    for k in sorted(records):
        if not any_lost(records[k]):
            return ("underflow", k) if k else ("healthy", None)
    return "range", None


# %% wrong: backward only if the same parameter is bad in every record
def diagnose(records, reference):
    def finite(tensors):
        return all(torch.isfinite(t).all() for t in tensors)

    def lost(slope, true):
        return not torch.isfinite(slope).all() or (bool(true.any()) and not slope.any())

    def any_lost(record):
        true = reference["gradients"]
        return any(lost(slope, true[name]) for name, slope in record["gradients"].items())

    for name, output in records[0]["outputs"].items():
        if not torch.isfinite(output).all():
            return "forward", name
    if not math.isfinite(records[0]["loss"]):
        return "loss", None
    if any(
        all(not torch.isfinite(record["gradients"][name]).all() for record in records.values())
        for name in reference["gradients"]
    ):
        return "backward", None
    for k in sorted(records):
        if not any_lost(records[k]):
            return ("underflow", k) if k else ("healthy", None)
    return "range", None


# %% right: any record will do for the outputs
def diagnose(records, reference):
    def finite(tensors):
        return all(torch.isfinite(t).all() for t in tensors)

    def lost(slope, true):
        return not torch.isfinite(slope).all() or (bool(true.any()) and not slope.any())

    def any_lost(record):
        true = reference["gradients"]
        return any(lost(slope, true[name]) for name, slope in record["gradients"].items())

    for name, output in next(iter(records.values()))["outputs"].items():
        if not torch.isfinite(output).all():
            return "forward", name
    if not math.isfinite(records[0]["loss"]):
        return "loss", None
    if all(not finite(record["gradients"].values()) for record in records.values()):
        return "backward", None
    for k in sorted(records):
        if not any_lost(records[k]):
            return ("underflow", k) if k else ("healthy", None)
    return "range", None


# %% wrong: looks for scales up to 2^24 only
def diagnose(records, reference):
    def finite(tensors):
        return all(bool(torch.isfinite(t).all()) for t in tensors)

    def lost(slope, true):
        return not torch.isfinite(slope).all() or (bool(true.any()) and not slope.any())

    def any_lost(record):
        true = reference["gradients"]
        return any(lost(slope, true[name]) for name, slope in record["gradients"].items())

    for name, output in records[0]["outputs"].items():
        if not finite([output]):
            return "forward", name
    if not math.isfinite(records[0]["loss"]):
        return "loss", None
    if not any(finite(record["gradients"].values()) for record in records.values()):
        return "backward", None
    for k in range(25):
        if k in records and not any_lost(records[k]):
            return ("underflow", k) if k else ("healthy", None)
    return "range", None


# %% wrong: leaves out parameters whose true gradient is 0, even if they hold an inf
def diagnose(records, reference):
    first = records[0]
    for name, out in first["outputs"].items():
        if not torch.isfinite(out).all():
            return ("forward", name)
    if not math.isfinite(first["loss"]):
        return ("loss", None)

    def bad(record):
        return any(not torch.isfinite(g).all() for g in record["gradients"].values())

    def lost(record):
        for name, g in record["gradients"].items():
            if not reference["gradients"][name].any():
                continue
            if not torch.isfinite(g).all():
                return True
            if not g.any() and reference["gradients"][name].any():
                return True
        return False

    if all(bad(r) for r in records.values()):
        return ("backward", None)
    if not lost(records[0]):
        return ("healthy", None)
    for k in sorted(records):
        if not lost(records[k]):
            return ("underflow", k)
    return ("range", None)


# %% wrong: takes a norm of 0 for zeros in every entry, though the squares of small numbers are 0
def diagnose(records, reference):
    first = records[0]
    for name, out in first["outputs"].items():
        if not torch.isfinite(out).all():
            return ("forward", name)
    if not math.isfinite(first["loss"]):
        return ("loss", None)

    def bad(record):
        return any(not torch.isfinite(g).all() for g in record["gradients"].values())

    def lost(record):
        for name, g in record["gradients"].items():
            if not torch.isfinite(g).all():
                return True
            if g.norm() == 0 and reference["gradients"][name].norm() > 0:
                return True
        return False

    if all(bad(r) for r in records.values()):
        return ("backward", None)
    if not lost(records[0]):
        return ("healthy", None)
    for k in sorted(records):
        if not lost(records[k]):
            return ("underflow", k)
    return ("range", None)


# %% wrong: looks at the first entry alone
def diagnose(records, reference):
    first = records[0]
    for name, out in first["outputs"].items():
        if not torch.isfinite(out).all():
            return ("forward", name)
    if not math.isfinite(first["loss"]):
        return ("loss", None)

    def bad(record):
        return any(not torch.isfinite(g).all() for g in record["gradients"].values())

    def lost(record):
        for name, g in record["gradients"].items():
            if not torch.isfinite(g).all():
                return True
            if g.flatten()[0] == 0 and reference["gradients"][name].any():
                return True
        return False

    if all(bad(r) for r in records.values()):
        return ("backward", None)
    if not lost(records[0]):
        return ("healthy", None)
    for k in sorted(records):
        if not lost(records[k]):
            return ("underflow", k)
    return ("range", None)


# %% wrong: takes the first record for the one at scale 1
def diagnose(records, reference):
    first = next(iter(records.values()))
    for name, out in first["outputs"].items():
        if not torch.isfinite(out).all():
            return ("forward", name)
    if not math.isfinite(first["loss"]):
        return ("loss", None)

    def bad(record):
        return any(not torch.isfinite(g).all() for g in record["gradients"].values())

    def lost(record):
        return bad(record) or any(
            not g.any() and reference["gradients"][name].any()
            for name, g in record["gradients"].items()
        )

    if all(bad(r) for r in records.values()):
        return ("backward", None)
    if not lost(first):
        return ("healthy", None)
    for k in sorted(records):
        if not lost(records[k]):
            return ("underflow", k)
    return ("range", None)


# %% wrong: looks only at parameters whose name says weight
def diagnose(records, reference):
    def looked_at(record):
        return {name: slope for name, slope in record["gradients"].items() if "weight" in name}

    def finite(tensors):
        return all(bool(torch.isfinite(t).all()) for t in tensors)

    def lost(slope, true):
        return not torch.isfinite(slope).all() or (bool(true.any()) and not slope.any())

    def any_lost(record):
        true = reference["gradients"]
        return any(lost(slope, true[name]) for name, slope in looked_at(record).items())

    for name, output in records[0]["outputs"].items():
        if not finite([output]):
            return "forward", name
    if not math.isfinite(records[0]["loss"]):
        return "loss", None
    if not any(finite(looked_at(record).values()) for record in records.values()):
        return "backward", None
    for k in sorted(records):
        if not any_lost(records[k]):
            return ("underflow", k) if k else ("healthy", None)
    return "range", None


# %% wrong: looks only at matrices, as if all other gradients did not matter
def diagnose(records, reference):
    def looked_at(record):
        return {name: slope for name, slope in record["gradients"].items() if slope.dim() == 2}

    def finite(tensors):
        return all(bool(torch.isfinite(t).all()) for t in tensors)

    def lost(slope, true):
        return not torch.isfinite(slope).all() or (bool(true.any()) and not slope.any())

    def any_lost(record):
        true = reference["gradients"]
        return any(lost(slope, true[name]) for name, slope in looked_at(record).items())

    for name, output in records[0]["outputs"].items():
        if not finite([output]):
            return "forward", name
    if not math.isfinite(records[0]["loss"]):
        return "loss", None
    if not any(finite(looked_at(record).values()) for record in records.values()):
        return "backward", None
    for k in sorted(records):
        if not any_lost(records[k]):
            return ("underflow", k) if k else ("healthy", None)
    return "range", None


# %% wrong: looks only at weights of two or more dimensions, and at no bias
def diagnose(records, reference):
    def looked_at(record):
        return {name: slope for name, slope in record["gradients"].items() if slope.dim() > 1}

    def finite(tensors):
        return all(bool(torch.isfinite(t).all()) for t in tensors)

    def lost(slope, true):
        return not torch.isfinite(slope).all() or (bool(true.any()) and not slope.any())

    def any_lost(record):
        true = reference["gradients"]
        return any(lost(slope, true[name]) for name, slope in looked_at(record).items())

    for name, output in records[0]["outputs"].items():
        if not finite([output]):
            return "forward", name
    if not math.isfinite(records[0]["loss"]):
        return "loss", None
    if not any(finite(looked_at(record).values()) for record in records.values()):
        return "backward", None
    for k in sorted(records):
        if not any_lost(records[k]):
            return ("underflow", k) if k else ("healthy", None)
    return "range", None


# %% wrong: looks for nan and inf among the gradients, and lets -inf pass
def diagnose(records, reference):
    def finite(tensors):
        return all(not (t.isnan() | (t == math.inf)).any() for t in tensors)

    def lost(slope, true):
        return not finite([slope]) or (bool(true.any()) and not slope.any())

    def any_lost(record):
        true = reference["gradients"]
        return any(lost(slope, true[name]) for name, slope in record["gradients"].items())

    for name, output in records[0]["outputs"].items():
        if not torch.isfinite(output).all():
            return "forward", name
    if not math.isfinite(records[0]["loss"]):
        return "loss", None
    if not any(finite(record["gradients"].values()) for record in records.values()):
        return "backward", None
    for k in sorted(records):
        if not any_lost(records[k]):
            return ("underflow", k) if k else ("healthy", None)
    return "range", None


# %% wrong: lets a loss of -inf pass
def diagnose(records, reference):
    def finite(tensors):
        return all(bool(torch.isfinite(t).all()) for t in tensors)

    def lost(slope, true):
        return not torch.isfinite(slope).all() or (bool(true.any()) and not slope.any())

    def any_lost(record):
        true = reference["gradients"]
        return any(lost(slope, true[name]) for name, slope in record["gradients"].items())

    for name, output in records[0]["outputs"].items():
        if not finite([output]):
            return "forward", name
    if math.isnan(records[0]["loss"]) or records[0]["loss"] == math.inf:
        return "loss", None
    if not any(finite(record["gradients"].values()) for record in records.values()):
        return "backward", None
    for k in sorted(records):
        if not any_lost(records[k]):
            return ("underflow", k) if k else ("healthy", None)
    return "range", None


# %% wrong: asks only the scaled records whether each holds an inf, and there may be none
def diagnose(records, reference):
    def finite(tensors):
        return all(bool(torch.isfinite(t).all()) for t in tensors)

    def lost(slope, true):
        return not torch.isfinite(slope).all() or (bool(true.any()) and not slope.any())

    def any_lost(record):
        true = reference["gradients"]
        return any(lost(slope, true[name]) for name, slope in record["gradients"].items())

    for name, output in records[0]["outputs"].items():
        if not finite([output]):
            return "forward", name
    if not math.isfinite(records[0]["loss"]):
        return "loss", None
    if not any_lost(records[0]):
        return "healthy", None
    if not any(finite(record["gradients"].values()) for k, record in records.items() if k):
        return "backward", None
    for k in sorted(records):
        if not any_lost(records[k]):
            return ("underflow", k) if k else ("healthy", None)
    return "range", None


# %% wrong: expects at least one record besides the one at scale 1
def diagnose(records, reference):
    def finite(tensors):
        return all(bool(torch.isfinite(t).all()) for t in tensors)

    def lost(slope, true):
        return not torch.isfinite(slope).all() or (bool(true.any()) and not slope.any())

    def any_lost(record):
        true = reference["gradients"]
        return any(lost(slope, true[name]) for name, slope in record["gradients"].items())

    for name, output in records[0]["outputs"].items():
        if not finite([output]):
            return "forward", name
    if not math.isfinite(records[0]["loss"]):
        return "loss", None
    if not any(finite(record["gradients"].values()) for record in records.values()):
        return "backward", None
    first, second, *others = sorted(records)
    for k in (first, second, *others):
        if not any_lost(records[k]):
            return ("underflow", k) if k else ("healthy", None)
    return "range", None


# %% wrong: compares the gradients in the order of the dicts, not by their names
def diagnose(records, reference):
    for name, output in records[0]["outputs"].items():
        if not output.isfinite().all():
            return "forward", name
    if not math.isfinite(records[0]["loss"]):
        return "loss", None
    finite = {
        k: all(g.isfinite().all() for g in r["gradients"].values()) for k, r in records.items()
    }
    if not any(finite.values()):
        return "backward", None
    for k in sorted(records):
        slopes = records[k]["gradients"].values()
        pairs = zip(slopes, reference["gradients"].values(), strict=True)
        if finite[k] and not any(t.any() and not g.any() for g, t in pairs):
            return ("underflow", k) if k else ("healthy", None)
    return "range", None
