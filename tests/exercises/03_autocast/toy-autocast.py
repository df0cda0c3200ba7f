# %% wrong: casts the result, not the arguments
class ToyAutocast(FunctionMode):
    def __init__(self, policies, lower):
        super().__init__()
        self.policies = policies
        self.lower = lower

    def run(self, func, args, kwargs):
        import torch

        policy = self.policies.get(func.__name__)
        result = func(*args, **kwargs)
        if policy == "lower":
            return result.to(self.lower)
        return result.to(torch.float32) if policy == "float32" else result


# %% wrong: everything is lower, whatever the policy
class ToyAutocast(FunctionMode):
    def __init__(self, policies, lower):
        super().__init__()
        self.policies = policies
        self.lower = lower

    def run(self, func, args, kwargs):
        import torch

        def cast(value):
            if isinstance(value, list | tuple):
                return type(value)(cast(item) for item in value)
            is_float = isinstance(value, torch.Tensor) and value.is_floating_point()
            return value.to(self.lower) if is_float and value.dtype != torch.float64 else value

        if func.__name__ in self.policies:
            args = cast(args)
            kwargs = {key: cast(value) for key, value in kwargs.items()}
        return func(*args, **kwargs)


# %% wrong: only direct positional arguments are cast, neither lists nor keywords
class ToyAutocast(FunctionMode):
    def __init__(self, policies, lower):
        super().__init__()
        self.policies = policies
        self.lower = lower

    def run(self, func, args, kwargs):
        import torch

        def fits(value):
            is_float = isinstance(value, torch.Tensor) and value.is_floating_point()
            return is_float and value.dtype != torch.float64

        policy = self.policies.get(func.__name__)
        target = {"lower": self.lower, "float32": torch.float32}.get(policy)
        if policy == "widest" and any(fits(a) and a.dtype == torch.float32 for a in args):
            target = torch.float32
        if target is not None:
            args = [a.to(target) if fits(a) else a for a in args]
        return func(*args, **kwargs)


# %% wrong: takes "widest" for float32
class ToyAutocast(FunctionMode):
    def __init__(self, policies, lower):
        super().__init__()
        self.policies = policies
        self.lower = lower

    def run(self, func, args, kwargs):
        import torch

        policy = self.policies.get(func.__name__)
        if policy is None:
            return func(*args, **kwargs)
        target = self.lower if policy == "lower" else torch.float32

        def cast(value):
            if isinstance(value, list | tuple):
                return type(value)(cast(item) for item in value)
            is_float = isinstance(value, torch.Tensor) and value.is_floating_point()
            return value.to(target) if is_float and value.dtype != torch.float64 else value

        return func(*cast(args), **{key: cast(value) for key, value in kwargs.items()})


# %% wrong: leaves "widest" to torch, which refuses to multiply mixed dtypes
class ToyAutocast(FunctionMode):
    def __init__(self, policies, lower):
        super().__init__()
        self.policies = policies
        self.lower = lower

    def run(self, func, args, kwargs):
        import torch

        policy = self.policies.get(func.__name__)
        target = {"lower": self.lower, "float32": torch.float32}.get(policy)

        def cast(value):
            if isinstance(value, list | tuple):
                return type(value)(cast(item) for item in value)
            is_float = isinstance(value, torch.Tensor) and value.is_floating_point()
            return value.to(target) if is_float and value.dtype != torch.float64 else value

        if target is None:
            return func(*args, **kwargs)
        return func(*cast(args), **{key: cast(value) for key, value in kwargs.items()})


# %% wrong: casts float64 down, too
class ToyAutocast(FunctionMode):
    def __init__(self, policies, lower):
        super().__init__()
        self.policies = policies
        self.lower = lower

    def run(self, func, args, kwargs):
        import torch

        seen = []

        def walk(value, target):
            if isinstance(value, list | tuple):
                return type(value)(walk(item, target) for item in value)
            if isinstance(value, dict):
                return {key: walk(item, target) for key, item in value.items()}
            if isinstance(value, torch.Tensor) and value.is_floating_point():
                seen.append(value.dtype)
                return value if target is None else value.to(target)
            return value

        policy = self.policies.get(func.__name__)
        walk([args, kwargs], None)
        wide = torch.float32 if torch.float32 in seen else None
        target = {"lower": self.lower, "float32": torch.float32, "widest": wide}.get(policy)
        args, kwargs = walk([args, kwargs], target)
        return func(*args, **kwargs)


# %% wrong: casts integers, so that indices and counts become floats
class ToyAutocast(FunctionMode):
    def __init__(self, policies, lower):
        super().__init__()
        self.policies = policies
        self.lower = lower

    def run(self, func, args, kwargs):
        import torch

        seen = []

        def walk(value, target):
            if isinstance(value, list | tuple):
                return type(value)(walk(item, target) for item in value)
            if isinstance(value, dict):
                return {key: walk(item, target) for key, item in value.items()}
            if isinstance(value, torch.Tensor) and value.dtype != torch.float64:
                seen.append(value.dtype)
                return value if target is None else value.to(target)
            return value

        policy = self.policies.get(func.__name__)
        walk([args, kwargs], None)
        wide = torch.float32 if torch.float32 in seen else None
        target = {"lower": self.lower, "float32": torch.float32, "widest": wide}.get(policy)
        args, kwargs = walk([args, kwargs], target)
        return func(*args, **kwargs)


# %% wrong: detaches what it casts, so that no gradient comes back
class ToyAutocast(FunctionMode):
    def __init__(self, policies, lower):
        super().__init__()
        self.policies = policies
        self.lower = lower

    def run(self, func, args, kwargs):
        import torch

        seen = []

        def walk(value, target):
            if isinstance(value, list | tuple):
                return type(value)(walk(item, target) for item in value)
            if isinstance(value, dict):
                return {key: walk(item, target) for key, item in value.items()}
            is_float = isinstance(value, torch.Tensor) and value.is_floating_point()
            if is_float and value.dtype != torch.float64:
                seen.append(value.dtype)
                return value if target is None else value.detach().to(target)
            return value

        policy = self.policies.get(func.__name__)
        walk([args, kwargs], None)
        wide = torch.float32 if torch.float32 in seen else None
        target = {"lower": self.lower, "float32": torch.float32, "widest": wide}.get(policy)
        args, kwargs = walk([args, kwargs], target)
        return func(*args, **kwargs)


# %% wrong: bfloat16 whatever the region's dtype is
class ToyAutocast(FunctionMode):
    def __init__(self, policies, lower):
        super().__init__()
        self.policies = policies
        self.lower = lower

    def run(self, func, args, kwargs):
        import torch

        seen = []

        def walk(value, target):
            if isinstance(value, list | tuple):
                return type(value)(walk(item, target) for item in value)
            if isinstance(value, dict):
                return {key: walk(item, target) for key, item in value.items()}
            is_float = isinstance(value, torch.Tensor) and value.is_floating_point()
            if is_float and value.dtype != torch.float64:
                seen.append(value.dtype)
                return value if target is None else value.to(target)
            return value

        policy = self.policies.get(func.__name__)
        walk([args, kwargs], None)
        wide = torch.float32 if torch.float32 in seen else None
        target = {"lower": torch.bfloat16, "float32": torch.float32, "widest": wide}.get(policy)
        args, kwargs = walk([args, kwargs], target)
        return func(*args, **kwargs)


# %% wrong: casts only float32 tensors, so that other 16-bit ones stay what they are
class ToyAutocast(FunctionMode):
    def __init__(self, policies, lower):
        super().__init__()
        self.policies = policies
        self.lower = lower

    def run(self, func, args, kwargs):
        import torch

        def walk(value, visit):
            if isinstance(value, list | tuple):
                return type(value)(walk(item, visit) for item in value)
            if isinstance(value, dict):
                return {key: walk(item, visit) for key, item in value.items()}
            return visit(value) if isinstance(value, torch.Tensor) else value

        policy = self.policies.get(func.__name__)
        seen = []
        walk([args, kwargs], lambda t: seen.append(t.dtype))
        if policy == "lower":
            args, kwargs = walk(
                [args, kwargs], lambda t: t.to(self.lower) if t.dtype == torch.float32 else t
            )
        elif policy == "float32" or (policy == "widest" and torch.float32 in seen):
            low = (torch.float16, torch.bfloat16)
            args, kwargs = walk([args, kwargs], lambda t: t.float() if t.dtype in low else t)
        return func(*args, **kwargs)


# %% wrong: "widest" looks for float32 among the positional arguments only
class ToyAutocast(FunctionMode):
    def __init__(self, policies, lower):
        super().__init__()
        self.policies = policies
        self.lower = lower

    def run(self, func, args, kwargs):
        import torch

        seen = []

        def walk(value, target):
            if isinstance(value, list | tuple):
                return type(value)(walk(item, target) for item in value)
            if isinstance(value, dict):
                return {key: walk(item, target) for key, item in value.items()}
            is_float = isinstance(value, torch.Tensor) and value.is_floating_point()
            if is_float and value.dtype != torch.float64:
                seen.append(value.dtype)
                return value if target is None else value.to(target)
            return value

        policy = self.policies.get(func.__name__)
        walk(args, None)
        wide = torch.float32 if torch.float32 in seen else None
        target = {"lower": self.lower, "float32": torch.float32, "widest": wide}.get(policy)
        args, kwargs = walk([args, kwargs], target)
        return func(*args, **kwargs)


# %% right: with tree_map, and promote_types for the widest
class ToyAutocast(FunctionMode):
    def __init__(self, policies, lower):
        super().__init__()
        self.policies = policies
        self.lower = lower

    def run(self, func, args, kwargs):
        from functools import reduce

        import torch
        from torch.utils._pytree import tree_leaves, tree_map

        def qualifies(value):
            low = (torch.float16, torch.bfloat16, torch.float32)
            return isinstance(value, torch.Tensor) and value.dtype in low

        given = (args, kwargs)
        dtypes = [leaf.dtype for leaf in tree_leaves(given) if qualifies(leaf)]
        policy = self.policies.get(func.__name__)
        if policy and dtypes:
            target = {
                "lower": self.lower,
                "float32": torch.float32,
                "widest": reduce(torch.promote_types, dtypes),
            }[policy]
            given = tree_map(lambda leaf: leaf.to(target) if qualifies(leaf) else leaf, given)
        return func(*given[0], **given[1])


# %% right: a method for each policy
class ToyAutocast(FunctionMode):
    def __init__(self, policies, lower):
        super().__init__()
        self.policies = policies
        self.lower = lower

    def run(self, func, args, kwargs):
        method = getattr(self, "run_" + self.policies.get(func.__name__, "plain"))
        return method(func, list(args), dict(kwargs))

    def run_plain(self, func, args, kwargs):
        return func(*args, **kwargs)

    def run_lower(self, func, args, kwargs):
        return func(*self.cast(args, self.lower), **self.cast(kwargs, self.lower))

    def run_float32(self, func, args, kwargs):
        import torch

        return func(*self.cast(args, torch.float32), **self.cast(kwargs, torch.float32))

    def run_widest(self, func, args, kwargs):
        holds = self.holds_float32(args) or self.holds_float32(list(kwargs.values()))
        return (self.run_float32 if holds else self.run_plain)(func, args, kwargs)

    def holds_float32(self, value):
        import torch

        if isinstance(value, list | tuple):
            return any(self.holds_float32(item) for item in value)
        return isinstance(value, torch.Tensor) and value.dtype is torch.float32

    def cast(self, value, dtype):
        import torch

        if isinstance(value, dict):
            return {key: self.cast(item, dtype) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.cast(item, dtype) for item in value]
        narrow = (torch.float16, torch.bfloat16, torch.float32)
        return (
            value.to(dtype) if isinstance(value, torch.Tensor) and value.dtype in narrow else value
        )


# %% right: a context manager that pushes a mode of its own
import contextlib


class _Mode(FunctionMode):
    def __init__(self, owner):
        super().__init__()
        self.owner = owner

    def run(self, func, args, kwargs):
        import torch

        policy = self.owner.policies.get(getattr(func, "__name__", ""))
        tensors = []

        def collect(value):
            if isinstance(value, torch.Tensor):
                tensors.append(value)
            elif isinstance(value, list | tuple):
                for item in value:
                    collect(item)

        for value in (*args, *kwargs.values()):
            collect(value)
        target = self.owner.lower if policy == "lower" else torch.float32
        wide = any(tensor.dtype == torch.float32 for tensor in tensors)
        if policy is None or (policy == "widest" and not wide):
            return func(*args, **kwargs)

        def cast(value):
            if isinstance(value, list | tuple):
                return type(value)(map(cast, value))
            if isinstance(value, torch.Tensor) and value.is_floating_point():
                return value if value.dtype == torch.float64 else value.to(target)
            return value

        return func(*map(cast, args), **{key: cast(value) for key, value in kwargs.items()})


class ToyAutocast(contextlib.ExitStack):
    def __init__(self, policies, lower):
        super().__init__()
        self.policies = policies
        self.lower = lower

    def __enter__(self):
        self.enter_context(_Mode(self))
        return self


# %% wrong: lists and tuples are not walked, and torch.cat promotes by itself
class ToyAutocast(FunctionMode):
    def __init__(self, policies, lower):
        super().__init__()
        self.policies = policies
        self.lower = lower

    def run(self, func, args, kwargs):
        import torch

        def fits(leaf):
            is_float = isinstance(leaf, torch.Tensor) and leaf.is_floating_point()
            return is_float and leaf.dtype != torch.float64

        policy = self.policies.get(func.__name__)
        target = {"lower": self.lower, "float32": torch.float32}.get(policy)
        values = [*args, *kwargs.values()]
        if policy == "widest" and any(fits(v) and v.dtype == torch.float32 for v in values):
            target = torch.float32
        if target is None:
            return func(*args, **kwargs)

        def cast(value):
            return value.to(target) if fits(value) else value

        return func(*map(cast, args), **{key: cast(value) for key, value in kwargs.items()})


# %% wrong: lists are walked, tuples are not
class ToyAutocast(FunctionMode):
    def __init__(self, policies, lower):
        super().__init__()
        self.policies = policies
        self.lower = lower

    def run(self, func, args, kwargs):
        import torch

        def fits(leaf):
            is_float = isinstance(leaf, torch.Tensor) and leaf.is_floating_point()
            return is_float and leaf.dtype != torch.float64

        policy = self.policies.get(func.__name__)
        target = {"lower": self.lower, "float32": torch.float32}.get(policy)
        values = [*args, *kwargs.values()]
        if policy == "widest" and any(fits(v) and v.dtype == torch.float32 for v in values):
            target = torch.float32
        if target is None:
            return func(*args, **kwargs)

        def cast(value):
            if isinstance(value, list):
                return [cast(item) for item in value]
            return value.to(target) if fits(value) else value

        return func(*map(cast, args), **{key: cast(value) for key, value in kwargs.items()})


# %% wrong: lists are walked among the positional arguments only
class ToyAutocast(FunctionMode):
    def __init__(self, policies, lower):
        super().__init__()
        self.policies = policies
        self.lower = lower

    def run(self, func, args, kwargs):
        import torch

        def fits(leaf):
            is_float = isinstance(leaf, torch.Tensor) and leaf.is_floating_point()
            return is_float and leaf.dtype != torch.float64

        policy = self.policies.get(func.__name__)
        target = {"lower": self.lower, "float32": torch.float32}.get(policy)
        values = [*args, *kwargs.values()]
        if policy == "widest" and any(fits(v) and v.dtype == torch.float32 for v in values):
            target = torch.float32
        if target is None:
            return func(*args, **kwargs)

        def cast(value):
            return value.to(target) if fits(value) else value

        def walk(value):
            if isinstance(value, list | tuple):
                return [walk(item) for item in value]
            return cast(value)

        return func(*map(walk, args), **{key: cast(value) for key, value in kwargs.items()})


# %% wrong: asks for the exact type Tensor, and passes a Parameter over
class ToyAutocast(FunctionMode):
    def __init__(self, policies, lower):
        super().__init__()
        self.policies = policies
        self.lower = lower

    def run(self, func, args, kwargs):
        import torch
        from torch.utils._pytree import tree_leaves, tree_map

        given = (args, kwargs)
        policy = self.policies.get(func.__name__)

        def fits(leaf):
            is_float = type(leaf) is torch.Tensor and leaf.is_floating_point()
            return is_float and leaf.dtype != torch.float64

        wide = any(fits(leaf) and leaf.dtype == torch.float32 for leaf in tree_leaves(given))
        target = {"lower": self.lower, "float32": torch.float32}.get(policy)
        if policy == "widest" and wide:
            target = torch.float32
        if target is not None:
            given = tree_map(lambda leaf: leaf.to(target) if fits(leaf) else leaf, given)
        return func(*given[0], **given[1])


# %% wrong: "float32" casts only tensors of the region's own dtype up
class ToyAutocast(FunctionMode):
    def __init__(self, policies, lower):
        super().__init__()
        self.policies = policies
        self.lower = lower

    def run(self, func, args, kwargs):
        import torch
        from torch.utils._pytree import tree_leaves, tree_map

        given = (args, kwargs)
        policy = self.policies.get(func.__name__)

        def fits(leaf):
            kinds = (self.lower, torch.float32)
            return isinstance(leaf, torch.Tensor) and leaf.dtype in kinds

        wide = any(fits(leaf) and leaf.dtype == torch.float32 for leaf in tree_leaves(given))
        target = {"lower": self.lower, "float32": torch.float32}.get(policy)
        if policy == "widest" and wide:
            target = torch.float32
        if target is not None:
            given = tree_map(lambda leaf: leaf.to(target) if fits(leaf) else leaf, given)
        return func(*given[0], **given[1])


# %% wrong: takes functions that are not in the dict for "widest"
class ToyAutocast(FunctionMode):
    def __init__(self, policies, lower):
        super().__init__()
        self.policies = policies
        self.lower = lower

    def run(self, func, args, kwargs):
        import torch
        from torch.utils._pytree import tree_leaves, tree_map

        given = (args, kwargs)
        policy = self.policies.get(func.__name__, "widest")

        def fits(leaf):
            is_float = isinstance(leaf, torch.Tensor) and leaf.is_floating_point()
            return is_float and leaf.dtype != torch.float64

        wide = any(fits(leaf) and leaf.dtype == torch.float32 for leaf in tree_leaves(given))
        target = {"lower": self.lower, "float32": torch.float32}.get(policy)
        if policy == "widest" and wide:
            target = torch.float32
        if target is not None:
            given = tree_map(lambda leaf: leaf.to(target) if fits(leaf) else leaf, given)
        return func(*given[0], **given[1])


# %% wrong: "widest" counts a float64 tensor as float32
class ToyAutocast(FunctionMode):
    def __init__(self, policies, lower):
        super().__init__()
        self.policies = policies
        self.lower = lower

    def run(self, func, args, kwargs):
        import torch
        from torch.utils._pytree import tree_leaves, tree_map

        given = (args, kwargs)
        policy = self.policies.get(func.__name__)

        def fits(leaf):
            is_float = isinstance(leaf, torch.Tensor) and leaf.is_floating_point()
            return is_float and leaf.dtype != torch.float64

        kinds = {leaf.dtype for leaf in tree_leaves(given) if isinstance(leaf, torch.Tensor)}
        wide = bool(kinds & {torch.float32, torch.float64})
        target = {"lower": self.lower, "float32": torch.float32}.get(policy)
        if policy == "widest" and wide:
            target = torch.float32
        if target is not None:
            given = tree_map(lambda leaf: leaf.to(target) if fits(leaf) else leaf, given)
        return func(*given[0], **given[1])


# %% wrong: casts nothing at all where one argument is float64
class ToyAutocast(FunctionMode):
    def __init__(self, policies, lower):
        super().__init__()
        self.policies = policies
        self.lower = lower

    def run(self, func, args, kwargs):
        import torch
        from torch.utils._pytree import tree_leaves, tree_map

        given = (args, kwargs)
        policy = self.policies.get(func.__name__)

        def fits(leaf):
            is_float = isinstance(leaf, torch.Tensor) and leaf.is_floating_point()
            return is_float and leaf.dtype != torch.float64

        wide = any(fits(leaf) and leaf.dtype == torch.float32 for leaf in tree_leaves(given))
        target = {"lower": self.lower, "float32": torch.float32}.get(policy)
        if policy == "widest" and wide:
            target = torch.float32
        kinds = {leaf.dtype for leaf in tree_leaves(given) if isinstance(leaf, torch.Tensor)}
        if target is not None and torch.float64 not in kinds:
            given = tree_map(lambda leaf: leaf.to(target) if fits(leaf) else leaf, given)
        return func(*given[0], **given[1])


# %% wrong: casts inside of the caller's list, in place
class ToyAutocast(FunctionMode):
    def __init__(self, policies, lower):
        super().__init__()
        self.policies = policies
        self.lower = lower

    def run(self, func, args, kwargs):
        import torch

        def fits(leaf):
            is_float = isinstance(leaf, torch.Tensor) and leaf.is_floating_point()
            return is_float and leaf.dtype != torch.float64

        policy = self.policies.get(func.__name__)
        target = {"lower": self.lower, "float32": torch.float32}.get(policy)
        values = []
        for value in (*args, *kwargs.values()):
            values += value if isinstance(value, list | tuple) else [value]
        if policy == "widest" and any(fits(v) and v.dtype == torch.float32 for v in values):
            target = torch.float32
        if target is None:
            return func(*args, **kwargs)

        def cast(value):
            if isinstance(value, list):
                for place, item in enumerate(value):
                    value[place] = cast(item)
                return value
            if isinstance(value, tuple):
                return tuple(map(cast, value))
            return value.to(target) if fits(value) else value

        return func(*map(cast, args), **{key: cast(value) for key, value in kwargs.items()})


# %% wrong: finds the policy by a part of the name, so that expm1 is exp
class ToyAutocast(FunctionMode):
    def __init__(self, policies, lower):
        super().__init__()
        self.policies = policies
        self.lower = lower

    def run(self, func, args, kwargs):
        import torch
        from torch.utils._pytree import tree_leaves, tree_map

        given = (args, kwargs)
        found = [policy for name, policy in self.policies.items() if name in func.__name__]
        policy = found[0] if found else None

        def fits(leaf):
            is_float = isinstance(leaf, torch.Tensor) and leaf.is_floating_point()
            return is_float and leaf.dtype != torch.float64

        wide = any(fits(leaf) and leaf.dtype == torch.float32 for leaf in tree_leaves(given))
        target = {"lower": self.lower, "float32": torch.float32}.get(policy)
        if policy == "widest" and wide:
            target = torch.float32
        if target is not None:
            given = tree_map(lambda leaf: leaf.to(target) if fits(leaf) else leaf, given)
        return func(*given[0], **given[1])


# %% wrong: a real region around the call, whatever the dict says
class ToyAutocast(FunctionMode):
    def __init__(self, policies, lower):
        super().__init__()
        self.policies = policies
        self.lower = lower

    def run(self, func, args, kwargs):
        import torch

        if func.__name__ not in self.policies:
            return func(*args, **kwargs)
        with torch.autocast("cpu", dtype=self.lower):
            return func(*args, **kwargs)


# %% wrong: casts .data, which autograd does not see
class ToyAutocast(FunctionMode):
    def __init__(self, policies, lower):
        super().__init__()
        self.policies = policies
        self.lower = lower

    def run(self, func, args, kwargs):
        import torch
        from torch.utils._pytree import tree_leaves, tree_map

        given = (args, kwargs)
        policy = self.policies.get(func.__name__)

        def fits(leaf):
            is_float = isinstance(leaf, torch.Tensor) and leaf.is_floating_point()
            return is_float and leaf.dtype != torch.float64

        wide = any(fits(leaf) and leaf.dtype == torch.float32 for leaf in tree_leaves(given))
        target = {"lower": self.lower, "float32": torch.float32}.get(policy)
        if policy == "widest" and wide:
            target = torch.float32
        if target is not None:
            given = tree_map(lambda leaf: leaf.data.to(target) if fits(leaf) else leaf, given)
        return func(*given[0], **given[1])


# %% right: tree_map, one target for all
class ToyAutocast(FunctionMode):
    def __init__(self, policies, lower):
        super().__init__()
        self.policies = policies
        self.lower = lower

    def run(self, func, args, kwargs):
        import torch
        from torch.utils._pytree import tree_leaves, tree_map

        given = (args, kwargs)
        policy = self.policies.get(func.__name__)

        def fits(leaf):
            is_float = isinstance(leaf, torch.Tensor) and leaf.is_floating_point()
            return is_float and leaf.dtype != torch.float64

        wide = any(fits(leaf) and leaf.dtype == torch.float32 for leaf in tree_leaves(given))
        target = {"lower": self.lower, "float32": torch.float32}.get(policy)
        if policy == "widest" and wide:
            target = torch.float32
        if target is not None:
            given = tree_map(lambda leaf: leaf.to(target) if fits(leaf) else leaf, given)
        return func(*given[0], **given[1])


# %% wrong: passes over tensors without dimensions, as type promotion does
class ToyAutocast(FunctionMode):
    def __init__(self, policies, lower):
        super().__init__()
        self.policies = policies
        self.lower = lower

    def run(self, func, args, kwargs):
        from torch.utils._pytree import tree_leaves, tree_map

        given = (args, kwargs)
        policy = self.policies.get(func.__name__)

        def fits(leaf):
            is_float = isinstance(leaf, torch.Tensor) and leaf.is_floating_point()
            return is_float and leaf.dtype != torch.float64 and leaf.dim() > 0

        wide = any(fits(leaf) and leaf.dtype == torch.float32 for leaf in tree_leaves(given))
        target = {"lower": self.lower, "float32": torch.float32}.get(policy)
        if policy == "widest" and wide:
            target = torch.float32
        if target is not None:
            given = tree_map(lambda leaf: leaf.to(target) if fits(leaf) else leaf, given)
        return func(*given[0], **given[1])


# %% wrong: "widest" without float32 casts to the region's dtype
class ToyAutocast(FunctionMode):
    def __init__(self, policies, lower):
        super().__init__()
        self.policies = policies
        self.lower = lower

    def run(self, func, args, kwargs):
        from torch.utils._pytree import tree_leaves, tree_map

        given = (args, kwargs)
        policy = self.policies.get(func.__name__)

        def fits(leaf):
            is_float = isinstance(leaf, torch.Tensor) and leaf.is_floating_point()
            return is_float and leaf.dtype != torch.float64

        wide = any(fits(leaf) and leaf.dtype == torch.float32 for leaf in tree_leaves(given))
        target = {"lower": self.lower, "float32": torch.float32}.get(policy)
        if policy == "widest":
            target = torch.float32 if wide else self.lower
        if target is not None:
            given = tree_map(lambda leaf: leaf.to(target) if fits(leaf) else leaf, given)
        return func(*given[0], **given[1])


# %% wrong: casts the result as well, whatever the function returns
class ToyAutocast(FunctionMode):
    def __init__(self, policies, lower):
        super().__init__()
        self.policies = policies
        self.lower = lower

    def run(self, func, args, kwargs):
        from torch.utils._pytree import tree_leaves, tree_map

        given = (args, kwargs)
        policy = self.policies.get(func.__name__)

        def fits(leaf):
            is_float = isinstance(leaf, torch.Tensor) and leaf.is_floating_point()
            return is_float and leaf.dtype != torch.float64

        wide = any(fits(leaf) and leaf.dtype == torch.float32 for leaf in tree_leaves(given))
        target = {"lower": self.lower, "float32": torch.float32}.get(policy)
        if policy == "widest" and wide:
            target = torch.float32
        if target is None:
            return func(*args, **kwargs)
        given = tree_map(lambda leaf: leaf.to(target) if fits(leaf) else leaf, given)
        return func(*given[0], **given[1]).to(target)


# %% wrong: casts the first two arguments only
class ToyAutocast(FunctionMode):
    def __init__(self, policies, lower):
        super().__init__()
        self.policies = policies
        self.lower = lower

    def run(self, func, args, kwargs):
        import torch

        policy = self.policies.get(func.__name__)
        if policy is None:
            return func(*args, **kwargs)
        seen = []

        def walk(x, visit, inside=False):
            if isinstance(x, list | tuple):
                return type(x)(walk(i, visit, True) for i in x)
            if isinstance(x, dict):
                return {k: walk(v, visit) for k, v in x.items()}
            if isinstance(x, torch.Tensor) and x.is_floating_point() and x.dtype != torch.float64:
                return visit(x)
            return x

        walk(args, lambda x: seen.append(x.dtype))
        walk(kwargs, lambda x: seen.append(x.dtype))
        target = {"lower": self.lower, "float32": torch.float32}.get(policy)
        if policy == "widest" and torch.float32 in seen:
            target = torch.float32
        if target is not None:
            args = tuple(walk(x, lambda t: t.to(target)) for x in args)[:2] + args[2:]
            kwargs = walk(kwargs, lambda t: t.to(target))
        return func(*args, **kwargs)


# %% wrong: casts the first two of a list only
class ToyAutocast(FunctionMode):
    def __init__(self, policies, lower):
        super().__init__()
        self.policies = policies
        self.lower = lower

    def run(self, func, args, kwargs):
        import torch

        policy = self.policies.get(func.__name__)
        if policy is None:
            return func(*args, **kwargs)
        seen = []

        def walk(x, visit, inside=False):
            if isinstance(x, list | tuple):
                return type(x)(walk(i, visit) if k < 2 else i for k, i in enumerate(x))
            if isinstance(x, dict):
                return {k: walk(v, visit) for k, v in x.items()}
            if isinstance(x, torch.Tensor) and x.is_floating_point() and x.dtype != torch.float64:
                return visit(x)
            return x

        walk(args, lambda x: seen.append(x.dtype))
        walk(kwargs, lambda x: seen.append(x.dtype))
        target = {"lower": self.lower, "float32": torch.float32}.get(policy)
        if policy == "widest" and torch.float32 in seen:
            target = torch.float32
        if target is not None:
            args = tuple(walk(x, lambda t: t.to(target)) for x in args)
            kwargs = walk(kwargs, lambda t: t.to(target))
        return func(*args, **kwargs)


# %% wrong: detaches what stands in a list
class ToyAutocast(FunctionMode):
    def __init__(self, policies, lower):
        super().__init__()
        self.policies = policies
        self.lower = lower

    def run(self, func, args, kwargs):
        import torch

        policy = self.policies.get(func.__name__)
        if policy is None:
            return func(*args, **kwargs)
        seen = []

        def walk(x, visit, inside=False):
            if isinstance(x, list | tuple):
                return type(x)(walk(i, visit, True) for i in x)
            if isinstance(x, dict):
                return {k: walk(v, visit) for k, v in x.items()}
            if isinstance(x, torch.Tensor) and x.is_floating_point() and x.dtype != torch.float64:
                return visit(x.detach() if inside else x)
            return x

        walk(args, lambda x: seen.append(x.dtype))
        walk(kwargs, lambda x: seen.append(x.dtype))
        target = {"lower": self.lower, "float32": torch.float32}.get(policy)
        if policy == "widest" and torch.float32 in seen:
            target = torch.float32
        if target is not None:
            args = tuple(walk(x, lambda t: t.to(target)) for x in args)
            kwargs = walk(kwargs, lambda t: t.to(target))
        return func(*args, **kwargs)


# %% wrong: casts no tensor of more than two dimensions
class ToyAutocast(FunctionMode):
    def __init__(self, policies, lower):
        super().__init__()
        self.policies = policies
        self.lower = lower

    def run(self, func, args, kwargs):
        import torch

        policy = self.policies.get(func.__name__)
        if policy is None:
            return func(*args, **kwargs)
        seen = []

        def walk(x, visit, inside=False):
            if isinstance(x, list | tuple):
                return type(x)(walk(i, visit, True) for i in x)
            if isinstance(x, dict):
                return {k: walk(v, visit) for k, v in x.items()}
            if isinstance(x, torch.Tensor) and x.is_floating_point() and x.dtype != torch.float64:
                return visit(x) if x.dim() <= 2 else x
            return x

        walk(args, lambda x: seen.append(x.dtype))
        walk(kwargs, lambda x: seen.append(x.dtype))
        target = {"lower": self.lower, "float32": torch.float32}.get(policy)
        if policy == "widest" and torch.float32 in seen:
            target = torch.float32
        if target is not None:
            args = tuple(walk(x, lambda t: t.to(target)) for x in args)
            kwargs = walk(kwargs, lambda t: t.to(target))
        return func(*args, **kwargs)


# %% wrong: knows functions of torch, but neither methods nor operators
class ToyAutocast(FunctionMode):
    def __init__(self, policies, lower):
        super().__init__()
        self.policies = policies
        self.lower = lower

    def run(self, func, args, kwargs):
        import torch
        from torch.utils._pytree import tree_leaves, tree_map

        given = (args, kwargs)
        is_method = str(func).startswith("<method")
        policy = None if is_method else self.policies.get(func.__name__)

        def fits(leaf):
            is_float = isinstance(leaf, torch.Tensor) and leaf.is_floating_point()
            return is_float and leaf.dtype != torch.float64

        wide = any(fits(leaf) and leaf.dtype == torch.float32 for leaf in tree_leaves(given))
        target = {"lower": self.lower, "float32": torch.float32}.get(policy)
        if policy == "widest" and wide:
            target = torch.float32
        if target is not None:
            given = tree_map(lambda leaf: leaf.to(target) if fits(leaf) else leaf, given)
        return func(*given[0], **given[1])


# %% wrong: takes an in-place variant for the function
class ToyAutocast(FunctionMode):
    def __init__(self, policies, lower):
        super().__init__()
        self.policies = policies
        self.lower = lower

    def run(self, func, args, kwargs):
        import torch
        from torch.utils._pytree import tree_leaves, tree_map

        given = (args, kwargs)
        policy = self.policies.get(func.__name__.strip("_"))

        def fits(leaf):
            is_float = isinstance(leaf, torch.Tensor) and leaf.is_floating_point()
            return is_float and leaf.dtype != torch.float64

        wide = any(fits(leaf) and leaf.dtype == torch.float32 for leaf in tree_leaves(given))
        target = {"lower": self.lower, "float32": torch.float32}.get(policy)
        if policy == "widest" and wide:
            target = torch.float32
        if target is not None:
            given = tree_map(lambda leaf: leaf.to(target) if fits(leaf) else leaf, given)
        return func(*given[0], **given[1])


# %% wrong: casts tensors without dimensions under "widest" only
class ToyAutocast(FunctionMode):
    def __init__(self, policies, lower):
        super().__init__()
        self.policies = policies
        self.lower = lower

    def run(self, func, args, kwargs):
        import torch
        from torch.utils._pytree import tree_leaves, tree_map

        given = (args, kwargs)
        policy = self.policies.get(func.__name__)

        def fits(leaf):
            is_float = isinstance(leaf, torch.Tensor) and leaf.is_floating_point()
            return is_float and leaf.dtype != torch.float64 and (policy == "widest" or leaf.dim())

        wide = any(fits(leaf) and leaf.dtype == torch.float32 for leaf in tree_leaves(given))
        target = {"lower": self.lower, "float32": torch.float32}.get(policy)
        if policy == "widest" and wide:
            target = torch.float32
        if target is not None:
            given = tree_map(lambda leaf: leaf.to(target) if fits(leaf) else leaf, given)
        return func(*given[0], **given[1])


# %% wrong: casts all but int64 and float64, so that int32 indices become floats
class ToyAutocast(FunctionMode):
    def __init__(self, policies, lower):
        super().__init__()
        self.policies = policies
        self.lower = lower

    def run(self, func, args, kwargs):
        import torch
        from torch.utils._pytree import tree_leaves, tree_map

        given = (args, kwargs)
        policy = self.policies.get(func.__name__)

        def fits(leaf):
            is_tensor = isinstance(leaf, torch.Tensor)
            return is_tensor and leaf.dtype not in (torch.int64, torch.float64)

        wide = any(fits(leaf) and leaf.dtype == torch.float32 for leaf in tree_leaves(given))
        target = {"lower": self.lower, "float32": torch.float32}.get(policy)
        if policy == "widest" and wide:
            target = torch.float32
        if target is not None:
            given = tree_map(lambda leaf: leaf.to(target) if fits(leaf) else leaf, given)
        return func(*given[0], **given[1])


# %% wrong: "lower" leaves 16-bit tensors alone where none is float32
class ToyAutocast(FunctionMode):
    def __init__(self, policies, lower):
        super().__init__()
        self.policies = policies
        self.lower = lower

    def run(self, func, args, kwargs):
        import torch
        from torch.utils._pytree import tree_leaves, tree_map

        given = (args, kwargs)
        policy = self.policies.get(func.__name__)
        dtypes = [leaf.dtype for leaf in tree_leaves(given) if isinstance(leaf, torch.Tensor)]
        if policy == "lower" and torch.float32 not in dtypes:
            return func(*args, **kwargs)

        def fits(leaf):
            is_float = isinstance(leaf, torch.Tensor) and leaf.is_floating_point()
            return is_float and leaf.dtype != torch.float64

        wide = any(fits(leaf) and leaf.dtype == torch.float32 for leaf in tree_leaves(given))
        target = {"lower": self.lower, "float32": torch.float32}.get(policy)
        if policy == "widest" and wide:
            target = torch.float32
        if target is not None:
            given = tree_map(lambda leaf: leaf.to(target) if fits(leaf) else leaf, given)
        return func(*given[0], **given[1])


# %% wrong: "widest" looks for float32 beside the lists, not in them
class ToyAutocast(FunctionMode):
    def __init__(self, policies, lower):
        super().__init__()
        self.policies = policies
        self.lower = lower

    def run(self, func, args, kwargs):
        import torch
        from torch.utils._pytree import tree_map

        given = (args, kwargs)
        policy = self.policies.get(func.__name__)

        def fits(leaf):
            is_float = isinstance(leaf, torch.Tensor) and leaf.is_floating_point()
            return is_float and leaf.dtype != torch.float64

        direct = [*args, *kwargs.values()]
        wide = any(fits(value) and value.dtype == torch.float32 for value in direct)
        target = {"lower": self.lower, "float32": torch.float32}.get(policy)
        if policy == "widest" and wide:
            target = torch.float32
        if target is not None:
            given = tree_map(lambda leaf: leaf.to(target) if fits(leaf) else leaf, given)
        return func(*given[0], **given[1])


# %% wrong: takes functions that are not in the dict for "lower"
class ToyAutocast(FunctionMode):
    def __init__(self, policies, lower):
        super().__init__()
        self.policies = policies
        self.lower = lower

    def run(self, func, args, kwargs):
        import torch

        policy = self.policies.get(func.__name__, "lower")
        seen = []

        def fits(x):
            narrow = (torch.float16, torch.bfloat16, torch.float32)
            return isinstance(x, torch.Tensor) and x.dtype in narrow

        def collect(x):
            if isinstance(x, list | tuple):
                for y in x:
                    collect(y)
            elif isinstance(x, dict):
                for y in x.values():
                    collect(y)
            elif fits(x):
                seen.append(x.dtype)

        def cast(x, target):
            if isinstance(x, list | tuple):
                return type(x)(cast(y, target) for y in x)
            if isinstance(x, dict):
                return {k: cast(y, target) for k, y in x.items()}
            if fits(x):
                return x.to(target)
            return x

        for x in args:
            collect(x)
        collect(kwargs)
        if policy == "widest":
            target = torch.float32 if torch.float32 in seen else None
        else:
            target = {"lower": self.lower, "float32": torch.float32}.get(policy)
        if target is not None:
            args = tuple(cast(x, target) for x in args)
            kwargs = cast(kwargs, target)
        return func(*args, **kwargs)


# %% wrong: lowers and raises functions that are not in the dict, as torch does
class ToyAutocast(FunctionMode):
    def __init__(self, policies, lower):
        super().__init__()
        self.policies = policies
        self.lower = lower

    def run(self, func, args, kwargs):
        import torch

        own = {
            "mm": "lower",
            "bmm": "lower",
            "softmax": "float32",
            "log": "float32",
            "addmm": "lower",
            "sum": "float32",
        }
        policy = self.policies.get(func.__name__) or own.get(func.__name__)
        seen = []

        def fits(x):
            narrow = (torch.float16, torch.bfloat16, torch.float32)
            return isinstance(x, torch.Tensor) and x.dtype in narrow

        def collect(x):
            if isinstance(x, list | tuple):
                for y in x:
                    collect(y)
            elif isinstance(x, dict):
                for y in x.values():
                    collect(y)
            elif fits(x):
                seen.append(x.dtype)

        def cast(x, target):
            if isinstance(x, list | tuple):
                return type(x)(cast(y, target) for y in x)
            if isinstance(x, dict):
                return {k: cast(y, target) for k, y in x.items()}
            if fits(x):
                return x.to(target)
            return x

        for x in args:
            collect(x)
        collect(kwargs)
        if policy == "widest":
            target = torch.float32 if torch.float32 in seen else None
        else:
            target = {"lower": self.lower, "float32": torch.float32}.get(policy)
        if target is not None:
            args = tuple(cast(x, target) for x in args)
            kwargs = cast(kwargs, target)
        return func(*args, **kwargs)


# %% wrong: knows the policies by heart, and does not read the dict
class ToyAutocast(FunctionMode):
    def __init__(self, policies, lower):
        super().__init__()
        self.policies = policies
        self.lower = lower

    def run(self, func, args, kwargs):
        import torch

        policy = {
            "matmul": "lower",
            "linear": "lower",
            "embedding": "lower",
            "stack": "lower",
            "exp": "float32",
            "tanh": "float32",
            "cumsum": "float32",
            "logsumexp": "float32",
            "hstack": "float32",
            "dot": "widest",
            "mv": "widest",
            "cat": "widest",
            "mul": "widest",
            "einsum": "widest",
            "rnn_tanh": "widest",
        }.get(func.__name__)
        seen = []

        def fits(x):
            narrow = (torch.float16, torch.bfloat16, torch.float32)
            return isinstance(x, torch.Tensor) and x.dtype in narrow

        def collect(x):
            if isinstance(x, list | tuple):
                for y in x:
                    collect(y)
            elif isinstance(x, dict):
                for y in x.values():
                    collect(y)
            elif fits(x):
                seen.append(x.dtype)

        def cast(x, target):
            if isinstance(x, list | tuple):
                return type(x)(cast(y, target) for y in x)
            if isinstance(x, dict):
                return {k: cast(y, target) for k, y in x.items()}
            if fits(x):
                return x.to(target)
            return x

        for x in args:
            collect(x)
        collect(kwargs)
        if policy == "widest":
            target = torch.float32 if torch.float32 in seen else None
        else:
            target = {"lower": self.lower, "float32": torch.float32}.get(policy)
        if target is not None:
            args = tuple(cast(x, target) for x in args)
            kwargs = cast(kwargs, target)
        return func(*args, **kwargs)


# %% wrong: "widest" does not count a float32 Parameter
class ToyAutocast(FunctionMode):
    def __init__(self, policies, lower):
        super().__init__()
        self.policies = policies
        self.lower = lower

    def run(self, func, args, kwargs):
        import torch

        policy = self.policies.get(func.__name__)
        seen = []

        def fits(x):
            narrow = (torch.float16, torch.bfloat16, torch.float32)
            return isinstance(x, torch.Tensor) and x.dtype in narrow

        def collect(x):
            if isinstance(x, list | tuple):
                for y in x:
                    collect(y)
            elif isinstance(x, dict):
                for y in x.values():
                    collect(y)
            elif fits(x) and (policy != "widest" or type(x) is torch.Tensor):
                seen.append(x.dtype)

        def cast(x, target):
            if isinstance(x, list | tuple):
                return type(x)(cast(y, target) for y in x)
            if isinstance(x, dict):
                return {k: cast(y, target) for k, y in x.items()}
            if fits(x):
                return x.to(target)
            return x

        for x in args:
            collect(x)
        collect(kwargs)
        if policy == "widest":
            target = torch.float32 if torch.float32 in seen else None
        else:
            target = {"lower": self.lower, "float32": torch.float32}.get(policy)
        if target is not None:
            args = tuple(cast(x, target) for x in args)
            kwargs = cast(kwargs, target)
        return func(*args, **kwargs)


# %% wrong: "widest" does not cast a Parameter
class ToyAutocast(FunctionMode):
    def __init__(self, policies, lower):
        super().__init__()
        self.policies = policies
        self.lower = lower

    def run(self, func, args, kwargs):
        import torch

        policy = self.policies.get(func.__name__)
        seen = []

        def fits(x):
            narrow = (torch.float16, torch.bfloat16, torch.float32)
            return isinstance(x, torch.Tensor) and x.dtype in narrow

        def collect(x):
            if isinstance(x, list | tuple):
                for y in x:
                    collect(y)
            elif isinstance(x, dict):
                for y in x.values():
                    collect(y)
            elif fits(x):
                seen.append(x.dtype)

        def cast(x, target):
            if isinstance(x, list | tuple):
                return type(x)(cast(y, target) for y in x)
            if isinstance(x, dict):
                return {k: cast(y, target) for k, y in x.items()}
            if fits(x) and (policy != "widest" or type(x) is torch.Tensor):
                return x.to(target)
            return x

        for x in args:
            collect(x)
        collect(kwargs)
        if policy == "widest":
            target = torch.float32 if torch.float32 in seen else None
        else:
            target = {"lower": self.lower, "float32": torch.float32}.get(policy)
        if target is not None:
            args = tuple(cast(x, target) for x in args)
            kwargs = cast(kwargs, target)
        return func(*args, **kwargs)


# %% wrong: detaches what stands in kwargs
class ToyAutocast(FunctionMode):
    def __init__(self, policies, lower):
        super().__init__()
        self.policies = policies
        self.lower = lower

    def run(self, func, args, kwargs):
        import torch

        policy = self.policies.get(func.__name__)
        seen = []

        def fits(x):
            narrow = (torch.float16, torch.bfloat16, torch.float32)
            return isinstance(x, torch.Tensor) and x.dtype in narrow

        def collect(x, where=""):
            if isinstance(x, list | tuple):
                for y in x:
                    collect(y, where + "list")
            elif isinstance(x, dict):
                for y in x.values():
                    collect(y, where + "kwargs")
            elif fits(x):
                seen.append(x.dtype)

        def cast(x, target, where=""):
            if isinstance(x, list | tuple):
                return type(x)(cast(y, target, where + "list") for y in x)
            if isinstance(x, dict):
                return {k: cast(y, target, where + "kwargs") for k, y in x.items()}
            if fits(x):
                return (x.detach() if "kwargs" in where else x).to(target)
            return x

        for x in args:
            collect(x)
        collect(kwargs)
        if policy == "widest":
            target = torch.float32 if torch.float32 in seen else None
        else:
            target = {"lower": self.lower, "float32": torch.float32}.get(policy)
        if target is not None:
            args = tuple(cast(x, target) for x in args)
            kwargs = cast(kwargs, target)
        return func(*args, **kwargs)


# %% wrong: detaches what stands in a list in kwargs
class ToyAutocast(FunctionMode):
    def __init__(self, policies, lower):
        super().__init__()
        self.policies = policies
        self.lower = lower

    def run(self, func, args, kwargs):
        import torch

        policy = self.policies.get(func.__name__)
        seen = []

        def fits(x):
            narrow = (torch.float16, torch.bfloat16, torch.float32)
            return isinstance(x, torch.Tensor) and x.dtype in narrow

        def collect(x, where=""):
            if isinstance(x, list | tuple):
                for y in x:
                    collect(y, where + "list")
            elif isinstance(x, dict):
                for y in x.values():
                    collect(y, where + "kwargs")
            elif fits(x):
                seen.append(x.dtype)

        def cast(x, target, where=""):
            if isinstance(x, list | tuple):
                return type(x)(cast(y, target, where + "list") for y in x)
            if isinstance(x, dict):
                return {k: cast(y, target, where + "kwargs") for k, y in x.items()}
            if fits(x):
                return (x.detach() if "kwargslist" in where else x).to(target)
            return x

        for x in args:
            collect(x)
        collect(kwargs)
        if policy == "widest":
            target = torch.float32 if torch.float32 in seen else None
        else:
            target = {"lower": self.lower, "float32": torch.float32}.get(policy)
        if target is not None:
            args = tuple(cast(x, target) for x in args)
            kwargs = cast(kwargs, target)
        return func(*args, **kwargs)


# %% wrong: "widest" looks for float32 in kwargs, but not in lists there
class ToyAutocast(FunctionMode):
    def __init__(self, policies, lower):
        super().__init__()
        self.policies = policies
        self.lower = lower

    def run(self, func, args, kwargs):
        import torch

        policy = self.policies.get(func.__name__)
        seen = []

        def fits(x):
            narrow = (torch.float16, torch.bfloat16, torch.float32)
            return isinstance(x, torch.Tensor) and x.dtype in narrow

        def collect(x, where=""):
            if isinstance(x, list | tuple):
                for y in x:
                    collect(y, where + "list")
            elif isinstance(x, dict):
                for y in x.values():
                    collect(y, where + "kwargs")
            elif fits(x) and ("kwargslist" not in where):
                seen.append(x.dtype)

        def cast(x, target, where=""):
            if isinstance(x, list | tuple):
                return type(x)(cast(y, target, where + "list") for y in x)
            if isinstance(x, dict):
                return {k: cast(y, target, where + "kwargs") for k, y in x.items()}
            if fits(x):
                return x.to(target)
            return x

        for x in args:
            collect(x)
        collect(kwargs)
        if policy == "widest":
            target = torch.float32 if torch.float32 in seen else None
        else:
            target = {"lower": self.lower, "float32": torch.float32}.get(policy)
        if target is not None:
            args = tuple(cast(x, target) for x in args)
            kwargs = cast(kwargs, target)
        return func(*args, **kwargs)


# %% wrong: "widest" casts nothing in a list in kwargs
class ToyAutocast(FunctionMode):
    def __init__(self, policies, lower):
        super().__init__()
        self.policies = policies
        self.lower = lower

    def run(self, func, args, kwargs):
        import torch

        policy = self.policies.get(func.__name__)
        seen = []

        def fits(x):
            narrow = (torch.float16, torch.bfloat16, torch.float32)
            return isinstance(x, torch.Tensor) and x.dtype in narrow

        def collect(x, where=""):
            if isinstance(x, list | tuple):
                for y in x:
                    collect(y, where + "list")
            elif isinstance(x, dict):
                for y in x.values():
                    collect(y, where + "kwargs")
            elif fits(x):
                seen.append(x.dtype)

        def cast(x, target, where=""):
            if isinstance(x, list | tuple):
                return type(x)(cast(y, target, where + "list") for y in x)
            if isinstance(x, dict):
                return {k: cast(y, target, where + "kwargs") for k, y in x.items()}
            if fits(x) and ("kwargslist" not in where or policy != "widest"):
                return x.to(target)
            return x

        for x in args:
            collect(x)
        collect(kwargs)
        if policy == "widest":
            target = torch.float32 if torch.float32 in seen else None
        else:
            target = {"lower": self.lower, "float32": torch.float32}.get(policy)
        if target is not None:
            args = tuple(cast(x, target) for x in args)
            kwargs = cast(kwargs, target)
        return func(*args, **kwargs)


# %% wrong: "lower" casts inside of the caller's list
class ToyAutocast(FunctionMode):
    def __init__(self, policies, lower):
        super().__init__()
        self.policies = policies
        self.lower = lower

    def run(self, func, args, kwargs):
        import torch

        policy = self.policies.get(func.__name__)
        seen = []

        def fits(x):
            narrow = (torch.float16, torch.bfloat16, torch.float32)
            return isinstance(x, torch.Tensor) and x.dtype in narrow

        def collect(x):
            if isinstance(x, list | tuple):
                for y in x:
                    collect(y)
            elif isinstance(x, dict):
                for y in x.values():
                    collect(y)
            elif fits(x):
                seen.append(x.dtype)

        def cast(x, target):
            if isinstance(x, list) and policy == "lower":
                x[:] = [cast(y, target) for y in x]
                return x
            if isinstance(x, list | tuple):
                return type(x)(cast(y, target) for y in x)
            if isinstance(x, dict):
                return {k: cast(y, target) for k, y in x.items()}
            if fits(x):
                return x.to(target)
            return x

        for x in args:
            collect(x)
        collect(kwargs)
        if policy == "widest":
            target = torch.float32 if torch.float32 in seen else None
        else:
            target = {"lower": self.lower, "float32": torch.float32}.get(policy)
        if target is not None:
            args = tuple(cast(x, target) for x in args)
            kwargs = cast(kwargs, target)
        return func(*args, **kwargs)


# %% wrong: "widest" casts inside of the caller's list
class ToyAutocast(FunctionMode):
    def __init__(self, policies, lower):
        super().__init__()
        self.policies = policies
        self.lower = lower

    def run(self, func, args, kwargs):
        import torch

        policy = self.policies.get(func.__name__)
        seen = []

        def fits(x):
            narrow = (torch.float16, torch.bfloat16, torch.float32)
            return isinstance(x, torch.Tensor) and x.dtype in narrow

        def collect(x):
            if isinstance(x, list | tuple):
                for y in x:
                    collect(y)
            elif isinstance(x, dict):
                for y in x.values():
                    collect(y)
            elif fits(x):
                seen.append(x.dtype)

        def cast(x, target):
            if isinstance(x, list) and policy == "widest":
                x[:] = [cast(y, target) for y in x]
                return x
            if isinstance(x, list | tuple):
                return type(x)(cast(y, target) for y in x)
            if isinstance(x, dict):
                return {k: cast(y, target) for k, y in x.items()}
            if fits(x):
                return x.to(target)
            return x

        for x in args:
            collect(x)
        collect(kwargs)
        if policy == "widest":
            target = torch.float32 if torch.float32 in seen else None
        else:
            target = {"lower": self.lower, "float32": torch.float32}.get(policy)
        if target is not None:
            args = tuple(cast(x, target) for x in args)
            kwargs = cast(kwargs, target)
        return func(*args, **kwargs)


# %% wrong: casts inside of the caller's list where it is long
class ToyAutocast(FunctionMode):
    def __init__(self, policies, lower):
        super().__init__()
        self.policies = policies
        self.lower = lower

    def run(self, func, args, kwargs):
        import torch

        policy = self.policies.get(func.__name__)
        seen = []

        def fits(x):
            narrow = (torch.float16, torch.bfloat16, torch.float32)
            return isinstance(x, torch.Tensor) and x.dtype in narrow

        def collect(x):
            if isinstance(x, list | tuple):
                for y in x:
                    collect(y)
            elif isinstance(x, dict):
                for y in x.values():
                    collect(y)
            elif fits(x):
                seen.append(x.dtype)

        def cast(x, target):
            if isinstance(x, list) and len(x) > 2:
                x[:] = [cast(y, target) for y in x]
                return x
            if isinstance(x, list | tuple):
                return type(x)(cast(y, target) for y in x)
            if isinstance(x, dict):
                return {k: cast(y, target) for k, y in x.items()}
            if fits(x):
                return x.to(target)
            return x

        for x in args:
            collect(x)
        collect(kwargs)
        if policy == "widest":
            target = torch.float32 if torch.float32 in seen else None
        else:
            target = {"lower": self.lower, "float32": torch.float32}.get(policy)
        if target is not None:
            args = tuple(cast(x, target) for x in args)
            kwargs = cast(kwargs, target)
        return func(*args, **kwargs)


# %% wrong: "float32" leaves mixed arguments to torch, which refuses to multiply them
class ToyAutocast(FunctionMode):
    def __init__(self, policies, lower):
        super().__init__()
        self.policies = policies
        self.lower = lower

    def run(self, func, args, kwargs):
        import torch

        policy = self.policies.get(func.__name__)
        seen = []

        def fits(x):
            narrow = (torch.float16, torch.bfloat16, torch.float32)
            return isinstance(x, torch.Tensor) and x.dtype in narrow

        def collect(x):
            if isinstance(x, list | tuple):
                for y in x:
                    collect(y)
            elif isinstance(x, dict):
                for y in x.values():
                    collect(y)
            elif fits(x):
                seen.append(x.dtype)

        def cast(x, target):
            if isinstance(x, list | tuple):
                return type(x)(cast(y, target) for y in x)
            if isinstance(x, dict):
                return {k: cast(y, target) for k, y in x.items()}
            if fits(x) and (not (policy == "float32" and torch.float32 in seen)):
                return x.to(target)
            return x

        for x in args:
            collect(x)
        collect(kwargs)
        if policy == "widest":
            target = torch.float32 if torch.float32 in seen else None
        else:
            target = {"lower": self.lower, "float32": torch.float32}.get(policy)
        if target is not None:
            args = tuple(cast(x, target) for x in args)
            kwargs = cast(kwargs, target)
        return func(*args, **kwargs)


# %% right: flat loops, one level of lists, and the size of each dtype
import torch


def wants_cast(x):
    return torch.is_tensor(x) and torch.is_floating_point(x) and torch.finfo(x.dtype).bits <= 32


class ToyAutocast(FunctionMode):
    def __init__(self, policies, lower):
        super().__init__()
        self.policies = policies
        self.lower = lower

    def run(self, func, args, kwargs):
        if func.__name__ not in self.policies:
            return func(*args, **kwargs)
        policy = self.policies[func.__name__]
        flat = []
        for x in list(args) + list(kwargs.values()):
            if isinstance(x, list | tuple):
                for y in x:
                    flat.append(y)
            else:
                flat.append(x)
        widest = None
        for x in flat:
            if wants_cast(x) and (widest is None or x.dtype == torch.float32):
                widest = x.dtype
        if widest is None:
            return func(*args, **kwargs)
        if policy == "lower":
            dtype = self.lower
        elif policy == "float32":
            dtype = torch.float32
        else:
            dtype = widest
        new_args = []
        for x in args:
            if isinstance(x, list | tuple):
                new_args.append([y.to(dtype) if wants_cast(y) else y for y in x])
            elif wants_cast(x):
                new_args.append(x.to(dtype))
            else:
                new_args.append(x)
        new_kwargs = dict()
        for k, x in kwargs.items():
            if isinstance(x, list | tuple):
                new_kwargs[k] = tuple(y.to(dtype) if wants_cast(y) else y for y in x)
            elif wants_cast(x):
                new_kwargs[k] = x.to(dtype)
            else:
                new_kwargs[k] = x
        return func(*new_args, **new_kwargs)


# %% right: one function for each type of argument
import functools


@functools.singledispatch
def convert(x, dtype):
    return x


@convert.register
def _(x: torch.Tensor, dtype):
    return x.type(dtype) if x.is_floating_point() and x.dtype is not torch.float64 else x


@convert.register(list)
@convert.register(tuple)
def _(x, dtype):
    return [convert(y, dtype) for y in x]


def dtypes_of(x):
    if isinstance(x, torch.Tensor):
        yield x.dtype
    elif isinstance(x, list | tuple):
        for y in x:
            yield from dtypes_of(y)


class ToyAutocast(FunctionMode):
    def __init__(self, policies, lower):
        super().__init__()
        self.policies = policies
        self.lower = lower

    def run(self, func, args, kwargs):
        p = self.policies.get(func.__name__, "none")
        if p == "widest":
            p = "float32" if torch.float32 in dtypes_of([*args, *kwargs.values()]) else "none"
        if p == "none":
            return func(*args, **kwargs)
        dtype = torch.float32 if p == "float32" else self.lower
        return func(*convert(args, dtype), **{k: convert(v, dtype) for k, v in kwargs.items()})


# %% wrong: leaves a call alone if one of its arguments is float64
import torch


class ToyAutocast(FunctionMode):
    def __init__(self, policies, lower):
        super().__init__()
        self.policies = policies
        self.lower = lower

    def run(self, func, args, kwargs):
        policy = self.policies.get(func.__name__)
        if policy is None or any(
            isinstance(value, torch.Tensor) and value.dtype == torch.float64 for value in args
        ):
            return func(*args, **kwargs)
        seen = []

        def walk(value, visit):
            if isinstance(value, list | tuple):
                return type(value)(walk(item, visit) for item in value)
            if isinstance(value, dict):
                return {key: walk(item, visit) for key, item in value.items()}
            if not isinstance(value, torch.Tensor):
                return value
            return (
                visit(value)
                if value.dtype in (torch.float32, torch.float16, torch.bfloat16)
                else value
            )

        walk([args, kwargs], lambda tensor: seen.append(tensor.dtype))
        widest = torch.float32 if torch.float32 in seen else None
        target = {"lower": self.lower, "float32": torch.float32, "widest": widest}[policy]
        if target is not None:
            args, kwargs = walk([args, kwargs], lambda tensor: tensor.to(target))
        return func(*args, **kwargs)


# %% wrong: casts, under widest, only float32 and the region's own 16-bit dtype
import torch


class ToyAutocast(FunctionMode):
    def __init__(self, policies, lower):
        super().__init__()
        self.policies = policies
        self.lower = lower

    def run(self, func, args, kwargs):
        policy = self.policies.get(func.__name__)
        if policy is None:
            return func(*args, **kwargs)
        seen = []

        def walk(value, visit):
            if isinstance(value, list | tuple):
                return type(value)(walk(item, visit) for item in value)
            if isinstance(value, dict):
                return {key: walk(item, visit) for key, item in value.items()}
            if not isinstance(value, torch.Tensor):
                return value
            return (
                visit(value)
                if value.dtype in (torch.float32, self.lower)
                or (policy != "widest" and value.dtype in (torch.float16, torch.bfloat16))
                else value
            )

        walk([args, kwargs], lambda tensor: seen.append(tensor.dtype))
        widest = torch.float32 if torch.float32 in seen else None
        target = {"lower": self.lower, "float32": torch.float32, "widest": widest}[policy]
        if target is not None:
            args, kwargs = walk([args, kwargs], lambda tensor: tensor.to(target))
        return func(*args, **kwargs)


# %% wrong: casts whatever has two bytes, int16 too
import torch


class ToyAutocast(FunctionMode):
    def __init__(self, policies, lower):
        super().__init__()
        self.policies = policies
        self.lower = lower

    def run(self, func, args, kwargs):
        policy = self.policies.get(func.__name__)
        if policy is None:
            return func(*args, **kwargs)
        seen = []

        def walk(value, visit):
            if isinstance(value, list | tuple):
                return type(value)(walk(item, visit) for item in value)
            if isinstance(value, dict):
                return {key: walk(item, visit) for key, item in value.items()}
            if not isinstance(value, torch.Tensor):
                return value
            return (
                visit(value) if value.dtype == torch.float32 or value.dtype.itemsize == 2 else value
            )

        walk([args, kwargs], lambda tensor: seen.append(tensor.dtype))
        widest = torch.float32 if torch.float32 in seen else None
        target = {"lower": self.lower, "float32": torch.float32, "widest": widest}[policy]
        if target is not None:
            args, kwargs = walk([args, kwargs], lambda tensor: tensor.to(target))
        return func(*args, **kwargs)


# %% wrong: functions that are not in the dict lose their keyword arguments
class ToyAutocast(FunctionMode):
    def __init__(self, policies, lower):
        super().__init__()
        self.policies, self.lower = policies, lower

    def run(self, func, args, kwargs):
        floats = (torch.float32, torch.float16, torch.bfloat16)

        def is_cast(value):
            return isinstance(value, torch.Tensor) and value.dtype in floats

        def cast(value, dtype):
            if isinstance(value, list | tuple):
                return type(value)(cast(part, dtype) for part in value)
            return value.to(dtype) if is_cast(value) else value

        policy = self.policies.get(func.__name__)
        if policy is None:
            return func(*args)
        found = set()
        for value in (*args, *kwargs.values()):
            parts = value if isinstance(value, list | tuple) else [value]
            found.update(part.dtype for part in parts if is_cast(part))
        if policy == "widest" and torch.float32 not in found:
            return func(*args, **kwargs)
        dtype = self.lower if policy == "lower" else torch.float32
        kwargs = {name: cast(value, dtype) for name, value in kwargs.items()}
        return func(*(cast(value, dtype) for value in args), **kwargs)


# %% wrong: under "widest", 16-bit arguments lose their keyword arguments
class ToyAutocast(FunctionMode):
    def __init__(self, policies, lower):
        super().__init__()
        self.policies = policies
        self.lower = lower

    def run(self, func, args, kwargs):
        from torch.utils._pytree import tree_leaves, tree_map

        policy, narrow = self.policies.get(func.__name__), (torch.float16, torch.bfloat16)
        if policy is None:
            return func(*args, **kwargs)
        leaves = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        if policy == "widest" and not any(leaf.dtype == torch.float32 for leaf in leaves):
            return func(*args)
        dtype = {"lower": self.lower}.get(policy, torch.float32)

        def to_dtype(x):
            is_short = isinstance(x, torch.Tensor) and x.dtype in (torch.float32, *narrow)
            return x.to(dtype) if is_short else x

        args, kwargs = tree_map(to_dtype, (args, kwargs))
        return func(*args, **kwargs)


# %% wrong: the widest of no dtype cannot be found
import functools


class ToyAutocast(FunctionMode):
    def __init__(self, policies, lower):
        super().__init__()
        self.policies, self.lower = policies, lower

    def run(self, func, args, kwargs):
        floats = (torch.float32, torch.float16, torch.bfloat16)

        def is_cast(value):
            return isinstance(value, torch.Tensor) and value.dtype in floats

        def cast(value, dtype):
            if isinstance(value, list | tuple):
                return type(value)(cast(part, dtype) for part in value)
            return value.to(dtype) if is_cast(value) else value

        policy = self.policies.get(func.__name__)
        if policy is None:
            return func(*args, **kwargs)
        found = set()
        for value in (*args, *kwargs.values()):
            parts = value if isinstance(value, list | tuple) else [value]
            found.update(part.dtype for part in parts if is_cast(part))
        if (
            policy == "widest"
            and functools.reduce(torch.promote_types, found)
            and torch.float32 not in found
        ):
            return func(*args, **kwargs)
        dtype = self.lower if policy == "lower" else torch.float32
        kwargs = {name: cast(value, dtype) for name, value in kwargs.items()}
        return func(*(cast(value, dtype) for value in args), **kwargs)
