# %% wrong: forgets that regions end
def predict_dtypes(program, dtypes, policies):
    known, results, lower = dict(dtypes), {}, None
    for step in program:
        if step["do"] == "enter":
            lower = step["lower"]
        elif step["do"] != "leave":
            given = {known[name] for name in step["of"]}
            policy = policies[step["do"]]
            if lower is None or given == {"float64"} or policy == "widest":
                result = next(iter(given)) if len(given) == 1 else "float32"
                result = "float64" if "float64" in given else result
            else:
                result = lower if policy == "lower" else "float32"
            known[step["to"]] = results[step["to"]] = result
    return results


# %% wrong: leaving any region leaves all of them
def predict_dtypes(program, dtypes, policies):
    known, results, lower = dict(dtypes), {}, None
    for step in program:
        if step["do"] == "enter":
            lower = step["lower"]
        elif step["do"] == "leave":
            lower = None
        else:
            given = {known[name] for name in step["of"]}
            policy = policies[step["do"]]
            if lower is None or given == {"float64"} or policy == "widest":
                result = next(iter(given)) if len(given) == 1 else "float32"
                result = "float64" if "float64" in given else result
            else:
                result = lower if policy == "lower" else "float32"
            known[step["to"]] = results[step["to"]] = result
    return results


# %% wrong: a disabled region inside an enabled one does nothing
def predict_dtypes(program, dtypes, policies):
    known, results, regions = dict(dtypes), {}, [None]
    for step in program:
        if step["do"] == "enter":
            regions.append(step["lower"] or regions[-1])
        elif step["do"] == "leave":
            regions.pop()
        else:
            given = {known[name] for name in step["of"]}
            policy = policies[step["do"]]
            if regions[-1] is None or given == {"float64"} or policy == "widest":
                result = next(iter(given)) if len(given) == 1 else "float32"
                result = "float64" if "float64" in given else result
            else:
                result = regions[-1] if policy == "lower" else "float32"
            known[step["to"]] = results[step["to"]] = result
    return results


# %% wrong: a disabled region turns its results into float32
def predict_dtypes(program, dtypes, policies):
    known, results, regions = dict(dtypes), {}, [None]
    for step in program:
        if step["do"] == "enter":
            regions.append(step["lower"])
        elif step["do"] == "leave":
            regions.pop()
        else:
            given = {known[name] for name in step["of"]}
            policy = policies[step["do"]]
            if regions[-1] is None:
                result = "float64" if "float64" in given else "float32"
            elif given == {"float64"} or policy == "widest":
                result = next(iter(given)) if len(given) == 1 else "float32"
                result = "float64" if "float64" in given else result
            else:
                result = regions[-1] if policy == "lower" else "float32"
            known[step["to"]] = results[step["to"]] = result
    return results


# %% wrong: in a region everything but a loss has the region's dtype
def predict_dtypes(program, dtypes, policies):
    known, results, regions = dict(dtypes), {}, [None]
    for step in program:
        if step["do"] == "enter":
            regions.append(step["lower"])
        elif step["do"] == "leave":
            regions.pop()
        else:
            given = {known[name] for name in step["of"]}
            policy = policies[step["do"]]
            if regions[-1] is None:
                result = next(iter(given)) if len(given) == 1 else "float32"
            else:
                result = "float32" if policy == "float32" else regions[-1]
            known[step["to"]] = results[step["to"]] = result
    return results


# %% wrong: the outermost region counts, not the innermost
def predict_dtypes(program, dtypes, policies):
    known, results, regions = dict(dtypes), {}, []
    for step in program:
        if step["do"] == "enter":
            regions.append(step["lower"])
        elif step["do"] == "leave":
            regions.pop()
        else:
            given = {known[name] for name in step["of"]}
            policy = policies[step["do"]]
            if not regions or None in regions or given == {"float64"} or policy == "widest":
                result = next(iter(given)) if len(given) == 1 else "float32"
                result = "float64" if "float64" in given else result
            else:
                result = regions[0] if policy == "lower" else "float32"
            known[step["to"]] = results[step["to"]] = result
    return results


# %% wrong: float16 and bfloat16 together give the region's dtype
def predict_dtypes(program, dtypes, policies):
    known, results, regions = dict(dtypes), {}, [None]
    for step in program:
        if step["do"] == "enter":
            regions.append(step["lower"])
        elif step["do"] == "leave":
            regions.pop()
        else:
            given = {known[name] for name in step["of"]}
            policy = policies[step["do"]]
            if regions[-1] is None or given == {"float64"} or policy == "widest":
                wide = [name for name in ("float64", "float32") if name in given]
                result = wide[0] if wide else (regions[-1] or next(iter(given)))
            else:
                result = regions[-1] if policy == "lower" else "float32"
            known[step["to"]] = results[step["to"]] = result
    return results


# %% wrong: casts float64 like everything else
def predict_dtypes(program, dtypes, policies):
    known, results, regions = dict(dtypes), {}, [None]
    for step in program:
        if step["do"] == "enter":
            regions.append(step["lower"])
        elif step["do"] == "leave":
            regions.pop()
        else:
            given = {known[name] for name in step["of"]}
            policy = policies[step["do"]]
            if regions[-1] is None or policy == "widest":
                result = next(iter(given)) if len(given) == 1 else "float32"
                result = "float64" if "float64" in given else result
            else:
                result = regions[-1] if policy == "lower" else "float32"
            known[step["to"]] = results[step["to"]] = result
    return results


# %% wrong: knows the operations by heart and does not read the policies
def predict_dtypes(program, dtypes, policies):
    known, results, regions = dict(dtypes), {}, [None]
    for step in program:
        if step["do"] == "enter":
            regions.append(step["lower"])
        elif step["do"] == "leave":
            regions.pop()
        else:
            given = {known[name] for name in step["of"]}
            lowered = step["do"] in ("matmul", "linear", "conv1d", "attention")
            raised = step["do"] in ("cdist", "mse_loss", "cross_entropy")
            if regions[-1] is None or given == {"float64"} or not (lowered or raised):
                result = next(iter(given)) if len(given) == 1 else "float32"
                result = "float64" if "float64" in given else result
            else:
                result = regions[-1] if lowered else "float32"
            known[step["to"]] = results[step["to"]] = result
    return results


# %% wrong: returns the inputs among the results
def predict_dtypes(program, dtypes, policies):
    known, regions = dict(dtypes), [None]
    for step in program:
        if step["do"] == "enter":
            regions.append(step["lower"])
        elif step["do"] == "leave":
            regions.pop()
        else:
            given = {known[name] for name in step["of"]}
            policy = policies[step["do"]]
            if regions[-1] is None or given == {"float64"} or policy == "widest":
                result = next(iter(given)) if len(given) == 1 else "float32"
                result = "float64" if "float64" in given else result
            else:
                result = regions[-1] if policy == "lower" else "float32"
            known[step["to"]] = result
    return known


# %% right: by torch's own promotion
def predict_dtypes(program, dtypes, policies):
    import torch

    known = {name: getattr(torch, dtype) for name, dtype in dtypes.items()}
    made, stack = [], []
    for step in program:
        match step:
            case {"do": "enter", "lower": lower}:
                stack.append(lower)
            case {"do": "leave"}:
                stack.pop()
            case {"do": operation, "of": [first, second], "to": target}:
                widest = torch.promote_types(known[first], known[second])
                region = stack[-1] if stack else None
                policy = policies[operation] if region and widest != torch.float64 else "widest"
                choice = {"widest": widest, "float32": torch.float32}
                known[target] = choice[policy] if policy in choice else getattr(torch, region)
                made.append(target)
    return {name: str(known[name]).removeprefix("torch.") for name in made}


# %% right: runs down a recursion, one region at a time
def predict_dtypes(program, dtypes, policies):
    known, results = dict(dtypes), {}
    steps = iter(program)

    def widest(names):
        for name in ("float64", "float32"):
            if name in names:
                return name
        return names[0] if len(set(names)) == 1 else "float32"

    def run(lower):
        for step in steps:
            if step["do"] == "leave":
                return
            if step["do"] == "enter":
                run(step["lower"])
                continue
            names = [known[name] for name in step["of"]]
            policy = policies[step["do"]]
            result = widest(names)
            if lower is not None and set(names) != {"float64"} and policy != "widest":
                result = {"lower": lower, "float32": "float32"}[policy]
            known[step["to"]] = results[step["to"]] = result

    run(None)
    return results


# %% right: ranks for the dtypes
def predict_dtypes(program, dtypes, policies):
    rank = {"float16": 0, "bfloat16": 0, "float32": 1, "float64": 2}
    values, regions = {**dtypes}, []
    order = []
    for step in program:
        what = step["do"]
        if what == "enter":
            regions.append(step["lower"])
            continue
        if what == "leave":
            del regions[-1]
            continue
        a, b = (values[name] for name in step["of"])
        result = "float32" if rank[a] == rank[b] == 0 and a != b else max(a, b, key=rank.get)
        inside = bool(regions) and regions[-1] is not None
        if inside and not a == b == "float64":
            if policies[what] == "lower":
                result = regions[-1]
            if policies[what] == "float32":
                result = "float32"
        values[step["to"]] = result
        order.append(step["to"])
    return {name: values[name] for name in order}


# %% wrong: "lower" casts only where an argument is float32
def predict_dtypes(program, dtypes, policies):
    known, results, regions = dict(dtypes), {}, [None]
    for step in program:
        if step["do"] == "enter":
            regions.append(step["lower"])
        elif step["do"] == "leave":
            regions.pop()
        else:
            given = {known[name] for name in step["of"]}
            policy = policies[step["do"]]
            if regions[-1] is None or given == {"float64"} or policy == "widest":
                result = next(iter(given)) if len(given) == 1 else "float32"
                result = "float64" if "float64" in given else result
            else:
                casts = policy == "float32" or "float32" in given
                lowered = regions[-1] if casts else sorted(given)[0]
                result = lowered if policy == "lower" else "float32"
            known[step["to"]] = results[step["to"]] = result
    return results


# %% wrong: one disabled region on the way disables all inside of it
def predict_dtypes(program, dtypes, policies):
    known, results, regions = dict(dtypes), {}, []
    for step in program:
        if step["do"] == "enter":
            regions.append(step["lower"])
        elif step["do"] == "leave":
            regions.pop()
        else:
            given = {known[name] for name in step["of"]}
            policy = policies[step["do"]]
            if not regions or None in regions or given == {"float64"} or policy == "widest":
                result = next(iter(given)) if len(given) == 1 else "float32"
                result = "float64" if "float64" in given else result
            else:
                result = regions[-1] if policy == "lower" else "float32"
            known[step["to"]] = results[step["to"]] = result
    return results


# %% wrong: leaving a region forgets the disabled ones around it
def predict_dtypes(program, dtypes, policies):
    known, results, regions = dict(dtypes), {}, [None]
    for step in program:
        if step["do"] == "enter":
            regions.append(step["lower"])
        elif step["do"] == "leave":
            regions.pop()
            regions = [None, *filter(None, regions)]
        else:
            given = {known[name] for name in step["of"]}
            policy = policies[step["do"]]
            if regions[-1] is None or given == {"float64"} or policy == "widest":
                result = next(iter(given)) if len(given) == 1 else "float32"
                result = "float64" if "float64" in given else result
            else:
                result = regions[-1] if policy == "lower" else "float32"
            known[step["to"]] = results[step["to"]] = result
    return results


# %% wrong: a name keeps the dtype of its first use
def predict_dtypes(program, dtypes, policies):
    known, results, regions = dict(dtypes), {}, [None]
    for step in program:
        if step["do"] == "enter":
            regions.append(step["lower"])
        elif step["do"] == "leave":
            regions.pop()
        else:
            given = {known[name] for name in step["of"]}
            policy = policies[step["do"]]
            if regions[-1] is None or given == {"float64"} or policy == "widest":
                result = next(iter(given)) if len(given) == 1 else "float32"
                result = "float64" if "float64" in given else result
            else:
                result = regions[-1] if policy == "lower" else "float32"
            known.setdefault(step["to"], result)
            results.setdefault(step["to"], result)
    return results


# %% wrong: float64 beside another dtype gives float32
def predict_dtypes(program, dtypes, policies):
    known, results, regions = dict(dtypes), {}, [None]
    for step in program:
        if step["do"] == "enter":
            regions.append(step["lower"])
        elif step["do"] == "leave":
            regions.pop()
        else:
            given = {known[name] for name in step["of"]}
            policy = policies[step["do"]]
            if regions[-1] is None or given == {"float64"} or policy == "widest":
                result = next(iter(given)) if len(given) == 1 else "float32"
            else:
                result = regions[-1] if policy == "lower" else "float32"
            known[step["to"]] = results[step["to"]] = result
    return results


# %% wrong: runs the program, which works for operations that it knows
def predict_dtypes(program, dtypes, policies):
    import contextlib

    import torch

    values = {name: torch.rand(4, 4).to(getattr(torch, kind)) for name, kind in dtypes.items()}
    results, regions = {}, []
    for step in program:
        if step["do"] == "enter":
            lower = getattr(torch, step["lower"] or "bfloat16")
            region = torch.autocast("cpu", dtype=lower, enabled=step["lower"] is not None)
            regions.append(contextlib.ExitStack())
            regions[-1].enter_context(region)
        elif step["do"] == "leave":
            regions.pop().close()
        else:
            result = OPERATIONS[step["do"]](*(values[name] for name in step["of"]))
            values[step["to"]] = result
            results[step["to"]] = str(result.dtype).removeprefix("torch.")
    return results


# %% right: writes into the dict that it got
def predict_dtypes(program, dtypes, policies):
    known, results, regions = dtypes, {}, [None]
    for step in program:
        if step["do"] == "enter":
            regions.append(step["lower"])
        elif step["do"] == "leave":
            regions.pop()
        else:
            given = {known[name] for name in step["of"]}
            policy = policies[step["do"]]
            if regions[-1] is None or given == {"float64"} or policy == "widest":
                result = next(iter(given)) if len(given) == 1 else "float32"
                result = "float64" if "float64" in given else result
            else:
                result = regions[-1] if policy == "lower" else "float32"
            known[step["to"]] = results[step["to"]] = result
    return results


# %% wrong: float16 and bfloat16 give float32 in a region only
def predict_dtypes(program, dtypes, policies):
    order = ["float16", "bfloat16", "float32", "float64"]
    known, results, regions = dict(dtypes), {}, []
    for step in program:
        if step["do"] == "enter":
            regions.append(step["lower"])
        elif step["do"] == "leave":
            regions.pop()
        else:
            given = [known[name] for name in step["of"]]
            policy, lower = policies[step["do"]], regions[-1] if regions else None
            result = max(given, key=order.index)
            if lower and set(given) == {"float16", "bfloat16"}:
                result = "float32"
            if lower and set(given) != {"float64"} and policy != "widest":
                result = lower if policy == "lower" else "float32"
            known[step["to"]] = results[step["to"]] = result
    return results


# %% wrong: the policy float32 holds outside of regions, too
def predict_dtypes(program, dtypes, policies):
    order = ["float16", "bfloat16", "float32", "float64"]
    known, results, regions = dict(dtypes), {}, []
    for step in program:
        if step["do"] == "enter":
            regions.append(step["lower"])
        elif step["do"] == "leave":
            regions.pop()
        else:
            given = [known[name] for name in step["of"]]
            policy, lower = policies[step["do"]], regions[-1] if regions else None
            result = max(given, key=order.index)
            if set(given) == {"float16", "bfloat16"}:
                result = "float32"
            if set(given) != {"float64"} and policy == "float32":
                result = "float32"
            elif lower and set(given) != {"float64"} and policy == "lower":
                result = lower
            known[step["to"]] = results[step["to"]] = result
    return results


# %% wrong: the policy float32 holds in a disabled region, too
def predict_dtypes(program, dtypes, policies):
    order = ["float16", "bfloat16", "float32", "float64"]
    known, results, regions = dict(dtypes), {}, []
    for step in program:
        if step["do"] == "enter":
            regions.append(step["lower"])
        elif step["do"] == "leave":
            regions.pop()
        else:
            given = [known[name] for name in step["of"]]
            policy, lower = policies[step["do"]], regions[-1] if regions else None
            result = max(given, key=order.index)
            if set(given) == {"float16", "bfloat16"}:
                result = "float32"
            if regions and set(given) != {"float64"} and policy == "float32":
                result = "float32"
            elif lower and set(given) != {"float64"} and policy == "lower":
                result = lower
            known[step["to"]] = results[step["to"]] = result
    return results


# %% right: asks the first argument alone for float64, which is enough by the card
def predict_dtypes(program, dtypes, policies):
    order = ["float16", "bfloat16", "float32", "float64"]
    known, results, regions = dict(dtypes), {}, []
    for step in program:
        if step["do"] == "enter":
            regions.append(step["lower"])
        elif step["do"] == "leave":
            regions.pop()
        else:
            given = [known[name] for name in step["of"]]
            policy, lower = policies[step["do"]], regions[-1] if regions else None
            result = max(given, key=order.index)
            if set(given) == {"float16", "bfloat16"}:
                result = "float32"
            if lower and given[0] != "float64" and policy != "widest":
                result = {"lower": lower, "float32": "float32"}[policy]
            known[step["to"]] = results[step["to"]] = result
    return results


# %% wrong: a name that is used again keeps its first dtype as an argument
def predict_dtypes(program, dtypes, policies):
    known, results, regions = dict(dtypes), {}, [None]
    for step in program:
        if step["do"] == "enter":
            regions.append(step["lower"])
        elif step["do"] == "leave":
            regions.pop()
        else:
            given = {known[name] for name in step["of"]}
            policy = policies[step["do"]]
            if regions[-1] is None or given == {"float64"} or policy == "widest":
                result = "float32" if len(given) > 1 else next(iter(given))
                result = "float64" if "float64" in given else result
            else:
                result = regions[-1] if policy == "lower" else "float32"
            results[step["to"]] = result
            known.setdefault(step["to"], result)
    return results


# %% wrong: remembers how deep disabled regions were, and never forgets one
def predict_dtypes(program, dtypes, policies):
    rank = {"float16": 0, "bfloat16": 0, "float32": 1, "float64": 2}
    known, results, lowers, disabled = dict(dtypes), {}, [], set()
    for step in program:
        if step["do"] == "enter":
            lower = step["lower"]
            lowers.append(lower or (lowers[-1] if lowers else None))
            if lower is None:
                disabled.add(len(lowers))
        elif step["do"] == "leave":
            lowers.pop()
        else:
            a, b = (known[name] for name in step["of"])
            result = "float32" if a != b and rank[a] == rank[b] else max(a, b, key=rank.get)
            if lowers and len(lowers) not in disabled and not a == b == "float64":
                policy = policies[step["do"]]
                result = {"lower": lowers[-1], "float32": "float32", "widest": result}[policy]
            known[step["to"]] = results[step["to"]] = result
    return results


# %% wrong: a disabled region inside a disabled one ends both
def predict_dtypes(program, dtypes, policies):
    rank = {"float16": 0, "bfloat16": 0, "float32": 1, "float64": 2}
    known, results, lowers, disabled_at = dict(dtypes), {}, [], None
    for step in program:
        if step["do"] == "enter":
            lowers.append(step["lower"])
            disabled_at = len(lowers) if step["lower"] is None else None
        elif step["do"] == "leave":
            if disabled_at == len(lowers):
                disabled_at = None
            lowers.pop()
        else:
            a, b = (known[name] for name in step["of"])
            result = "float32" if a != b and rank[a] == rank[b] else max(a, b, key=rank.get)
            lower = next((low for low in reversed(lowers) if low), None)
            if lower and disabled_at is None and not a == b == "float64":
                policy = policies[step["do"]]
                result = {"lower": lower, "float32": "float32", "widest": result}[policy]
            known[step["to"]] = results[step["to"]] = result
    return results


# %% wrong: the end of a region gives the inputs' names their first dtypes back
def predict_dtypes(program, dtypes, policies):
    known, results, regions = dict(dtypes), {}, [None]
    for step in program:
        if step["do"] == "enter":
            regions.append(step["lower"])
        elif step["do"] == "leave":
            regions.pop()
            known.update(dtypes)
        else:
            given = {known[name] for name in step["of"]}
            policy = policies[step["do"]]
            if regions[-1] is None or given == {"float64"} or policy == "widest":
                result = "float32" if len(given) > 1 else next(iter(given))
                result = "float64" if "float64" in given else result
            else:
                result = regions[-1] if policy == "lower" else "float32"
            known[step["to"]] = results[step["to"]] = result
    return results


# %% wrong: float16 and bfloat16 together give float32 under "lower", too
def predict_dtypes(program, dtypes, policies):
    known, results, regions = dict(dtypes), {}, [None]
    for step in program:
        if step["do"] == "enter":
            regions.append(step["lower"])
        elif step["do"] == "leave":
            regions.pop()
        else:
            names = [known[name] for name in step["of"]]
            given = set(names)
            policy = policies[step["do"]]
            lower = regions[-1]
            if lower is None or given == {"float64"} or policy == "widest":
                result = "float32" if len(given) > 1 else names[0]
                result = "float64" if "float64" in given else result
            else:
                result = (
                    "float32" if policy == "float32" or given == {"float16", "bfloat16"} else lower
                )
            known[step["to"]] = results[step["to"]] = result
    return results


# %% wrong: "float32" leaves alone what is not of the region's dtype
def predict_dtypes(program, dtypes, policies):
    known, results, regions = dict(dtypes), {}, [None]
    for step in program:
        if step["do"] == "enter":
            regions.append(step["lower"])
        elif step["do"] == "leave":
            regions.pop()
        else:
            names = [known[name] for name in step["of"]]
            given = set(names)
            policy = policies[step["do"]]
            lower = regions[-1]
            if lower is None or given == {"float64"} or policy == "widest":
                result = "float32" if len(given) > 1 else names[0]
                result = "float64" if "float64" in given else result
            else:
                result = (
                    lower
                    if policy == "lower"
                    else names[0]
                    if len(given) == 1 and lower not in given
                    else "float32"
                )
            known[step["to"]] = results[step["to"]] = result
    return results


# %% wrong: float32 is the widest, even beside float64
def predict_dtypes(program, dtypes, policies):
    known, results, regions = dict(dtypes), {}, [None]
    for step in program:
        if step["do"] == "enter":
            regions.append(step["lower"])
        elif step["do"] == "leave":
            regions.pop()
        else:
            given = {known[name] for name in step["of"]}
            policy = policies[step["do"]]
            if regions[-1] is None or given == {"float64"} or policy == "widest":
                result = "float32" if len(given) > 1 else next(iter(given))
                result = "float64" if "float64" in given and "float32" not in given else result
            else:
                result = regions[-1] if policy == "lower" else "float32"
            known[step["to"]] = results[step["to"]] = result
    return results


# %% wrong: float64 is the widest only beside bfloat16
def predict_dtypes(program, dtypes, policies):
    known, results, regions = dict(dtypes), {}, [None]
    for step in program:
        if step["do"] == "enter":
            regions.append(step["lower"])
        elif step["do"] == "leave":
            regions.pop()
        else:
            given = {known[name] for name in step["of"]}
            policy = policies[step["do"]]
            if regions[-1] is None or given == {"float64"} or policy == "widest":
                result = "float32" if len(given) > 1 else next(iter(given))
                result = "float64" if given in ({"float64"}, {"float64", "bfloat16"}) else result
            else:
                result = regions[-1] if policy == "lower" else "float32"
            known[step["to"]] = results[step["to"]] = result
    return results


# %% wrong: leaves the first region of the same dtype, not the innermost one
def predict_dtypes(program, dtypes, policies):
    known, results, regions = dict(dtypes), {}, [None]
    for step in program:
        if step["do"] == "enter":
            regions.append(step["lower"])
        elif step["do"] == "leave":
            regions.remove(regions[-1])
        else:
            given = {known[name] for name in step["of"]}
            policy = policies[step["do"]]
            if regions[-1] is None or given == {"float64"} or policy == "widest":
                result = "float32" if len(given) > 1 else next(iter(given))
                result = "float64" if "float64" in given else result
            else:
                result = regions[-1] if policy == "lower" else "float32"
            known[step["to"]] = results[step["to"]] = result
    return results
