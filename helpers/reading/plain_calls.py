"""Which calls are plain only as they are made: with a constant name, with nothing to run."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

from helpers.reading import tables
from helpers.reading.doubts import dotted, quoted
from helpers.reading.names import Names, chain_of
from helpers.reading.words import words

# Built-in functions that are plain where they are called, as their arguments say.
ONLY_CALLED = words("delattr getattr locals open setattr type vars")
# And attributes of the same kind; a method of one's own may have these names.
ONLY_CALLED_METHODS = words("attrgetter format_map methodcaller update_wrapper")
_FORMAT_FIELD = re.compile(r"\{[^{}]*__")
_READING_MODES = words("r rb rt")
_TYPE_USES = words("isinstance issubclass map")


def doubt_of_call(call: ast.Call, name: str, path: str, names: Names, is_in_function: bool) -> str:
    """Return what is not plain about a call, "" if it is plain.

    Args:
        call: the call.
        name: of the function, without what stands before it.
        path: what the function's name stands for, if it was imported.
        names: what the code's names stand for.
        is_in_function: whether the call stands in a function's body.
    """
    is_plain = True
    if isinstance(call.func, ast.Name) and not path:
        check = _BUILTINS.get(name)
        if check is not None:
            is_plain = check(call, names, is_in_function)
    elif path:
        check = _check_of(path)
        if not tables.is_known(path.split(".")[0]):
            check = check or _METHODS.get(name)
        if check is not None:
            is_plain = check(call, names)
    elif isinstance(call.func, ast.Attribute):
        check = _METHODS.get(name)
        if check is not None:
            is_plain = check(call, names)
    if is_plain:
        is_plain = all(_is_plain_keyword(keyword) for keyword in call.keywords)
    return "" if is_plain else f"a call of {quoted(call.func)}"


def _is_plain_keyword(keyword: ast.keyword) -> bool:
    match keyword:
        case ast.keyword(arg="num_workers", value=ast.Constant(value=count)):
            return not count
        case ast.keyword(arg="num_workers" | "worker_init_fn"):
            return keyword.arg == "worker_init_fn"
        case ast.keyword(arg="allow_pickle" | "eval_str", value=ast.Constant(value=flag)):
            return not flag
        case ast.keyword(arg="allow_pickle" | "eval_str" | "refcheck"):
            return False
        case ast.keyword(arg="compute_mode" | "use_mm_for_euclid_dist"):
            return isinstance(keyword.value, ast.Constant)
    return True


# Attributes by name


def _is_plain_text(node: ast.AST) -> bool:
    """Return whether a text is an attribute's plain name, or begins with one: f"layer{i}"."""
    match node:
        case ast.Constant(value=str(text)):
            return _is_plain_attribute(text) and text.isidentifier()
        case ast.JoinedStr(values=[ast.Constant(value=str(text)), *_]):
            return _is_plain_attribute(text) and not text.startswith("_")
        case ast.BinOp(left=left, op=ast.Add()):
            return _is_plain_prefix(left)
        case ast.BinOp(left=ast.Constant(value=str(text)), op=ast.Mod()):
            return not text.startswith(("_", "%"))
        case ast.Call(func=ast.Attribute(value=ast.Constant(value=str(text)), attr="format")):
            return not text.startswith(("_", "{"))
    return False


def _is_plain_prefix(node: ast.AST) -> bool:
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        node = node.left
    match node:
        case ast.Constant(value=str(text)):
            return bool(text) and not text.startswith("_") and text not in tables.ON_OBJECTS
    return isinstance(node, ast.JoinedStr) and _is_plain_text(node)


def _is_plain_attribute(text: str) -> bool:
    if text.startswith("__"):
        return text in tables.SPECIAL_NAMES
    return text not in tables.ON_OBJECTS and bool(text)


def _plain_getattr(call: ast.Call, names: Names, _: bool) -> bool:
    if len(call.args) < 2:
        return False
    texts = names.texts(call.args[1])
    if texts is not None:
        return all(_plain_getattr(_with_text(call, text), names, _) for text in texts)
    path = names.path(*chain_of(call.args[0]))
    if not path:
        owner, rest = chain_of(call.args[0])
        is_private_elsewhere = owner not in ("self", "cls", "ctx") and not rest
        match call.args[1]:
            case ast.Constant(value=str(text)) if text.startswith("_") and is_private_elsewhere:
                return text in tables.PRIVATE_PARTS | tables.SPECIAL_NAMES
        # Which name it is that a computed text gives can only be left open of one's own objects.
        is_open = id(call.args[0]) in names.selves or isinstance(call.args[1], ast.Constant)
        return is_open and _is_plain_text(call.args[1])
    match call.args[1]:
        case ast.Constant(value=str(text)):
            part = names.part(path, text)
            is_kept = names.is_module(part) or is_only_called(part) or is_unbound_way_out(part)
            return names.has_plain_part(path, text) and not is_kept
    return False


def _with_text(call: ast.Call, text: str) -> ast.Call:
    return ast.Call(call.func, [call.args[0], ast.Constant(text), *call.args[2:]], call.keywords)


def _plain_setattr(call: ast.Call, names: Names, _: bool) -> bool:
    if len(call.args) < 2:
        return False
    texts = names.texts(call.args[1])
    if texts is not None:
        return all(_plain_setattr(_with_text(call, text), names, _) for text in texts)
    owner, attributes = chain_of(call.args[0])
    if path := names.path(owner, attributes):
        match call.args:
            case [_, ast.Constant(value=str(flag)), _] if path.startswith("torch.backends"):
                return flag.isidentifier() and not flag.startswith("_")
        return False
    critical = tables.PASSES_VALUES_ON if owner == "self" else tables.PASSES_VALUES_ON_OF_OTHERS
    match call.args[1]:
        case ast.Constant(value=str(text)):
            return (
                _is_plain_text(call.args[1])
                and not text.startswith("__")
                and (not text.startswith("_") or id(call.args[0]) in names.selves)
                and (text not in critical)
                and (text != "num_workers" or owner == "self")
            )
        case ast.Attribute(attr="__name__"):
            return not names.hands_on_classes
    if id(call.args[0]) in names.selves:
        return True
    begins = _beginning_of(call.args[1])
    may_be_critical = any(name.startswith(begins) for name in critical | {"num_workers"})
    return _is_plain_text(call.args[1]) and not may_be_critical


def _beginning_of(text: ast.AST) -> str:
    """Return what a computed text surely begins with."""
    match text:
        case (
            ast.Constant(value=str(known))
            | ast.JoinedStr(values=[ast.Constant(value=str(known)), *_])
        ):
            return known
        case ast.BinOp(left=left, op=ast.Add()):
            return _beginning_of(left)
        case ast.BinOp(left=ast.Constant(value=str(known)), op=ast.Mod()):
            return known.partition("%")[0]
        case ast.Call(func=ast.Attribute(value=ast.Constant(value=str(known)), attr="format")):
            return known.partition("{")[0]
    return ""


def _plain_getter(call: ast.Call, names: Names) -> bool:
    return bool(call.args) and all(
        isinstance(arg, ast.Constant)
        and isinstance(arg.value, str)
        and all(_is_plain_attribute(p) and not p.startswith("_") for p in arg.value.split("."))
        for arg in call.args
    )


def _plain_attribute_getter(call: ast.Call, names: Names) -> bool:
    """Return whether a getter is plain, and gets no method that would be kept."""
    parts = {
        p for arg in call.args if isinstance(arg, ast.Constant) for p in str(arg.value).split(".")
    }
    return _plain_getter(call, names) and not parts & tables.PASSES_VALUES_ON


def _plain_method_caller(call: ast.Call, names: Names) -> bool:
    return _plain_getter(ast.Call(call.func, call.args[:1], []), names)


# Files and text


def _plain_open(call: ast.Call, names: Names, _: bool = False) -> bool:
    """Return whether it is a file's name that is opened, and not a descriptor that is there."""
    if not call.args:
        return True
    match call.args[0]:
        case ast.Constant(value=str(text)):
            return not text.endswith(".pth")
        case ast.Constant():
            return False
        case ast.BinOp(left=ast.Constant(value=int())) | ast.UnaryOp():
            return False
        case ast.JoinedStr(values=[*_, ast.Constant(value=str(end))]):
            return not end.endswith(".pth")
    return not any(keyword.arg == "opener" for keyword in call.keywords)


def _plain_fdopen(call: ast.Call, names: Names) -> bool:
    return bool(call.args) and isinstance(call.args[0], ast.Name)


def _plain_os_write(call: ast.Call, names: Names) -> bool:
    match call.args:
        case [ast.Constant(value=1 | 2), _] | [ast.Name(), _]:
            return True
    return False


def _plain_format(call: ast.Call, names: Names) -> bool:
    """Return whether a format is a constant whose fields read no special attribute."""
    match call.func:
        case ast.Attribute(value=ast.Constant()):
            return _is_plain_format(call.func.value)
        case ast.Attribute(value=ast.Name(id=name)):
            is_own = name == "self" and "format" in names.own_attributes
            return is_own or names.all_texts(name, _is_plain_format)
    return False


def _is_plain_format(text: ast.AST) -> bool:
    is_text = isinstance(text, ast.Constant) and isinstance(text.value, str)
    return is_text and _FORMAT_FIELD.search(text.value) is None


def _plain_eval(call: ast.Call, names: Names) -> bool:
    return not call.args and not call.keywords


def _plain_query(call: ast.Call, names: Names) -> bool:
    return not (call.args and isinstance(call.args[0], ast.Constant | ast.JoinedStr))


def _plain_timeit(call: ast.Call, names: Names) -> bool:
    """Return whether it is functions that are timed, and no text."""
    given = [*call.args[:2], *(k.value for k in call.keywords if k.arg in ("stmt", "setup"))]
    if not given or any(k.arg in ("globals", None) for k in call.keywords):
        return False
    return all(
        isinstance(part, ast.Lambda | ast.Attribute)
        or (isinstance(part, ast.Name) and not names.is_assigned(part.id))
        for part in given
    )


# Others


def _plain_type(call: ast.Call, names: Names, _: bool) -> bool:
    is_one = len(call.args) == 1 and not isinstance(call.args[0], ast.Starred)
    return is_one and not call.keywords


def _plain_vars(call: ast.Call, names: Names, _: bool) -> bool:
    match call.args:
        case [ast.Name(id="self")]:
            return True
    return False


def _plain_locals(call: ast.Call, names: Names, is_in_function: bool) -> bool:
    return is_in_function  # at a cell's top these are the kernel's globals


def _plain_wraps(call: ast.Call, names: Names) -> bool:
    if len(call.args) != 1 or call.keywords:
        return False
    return isinstance(call.args[0], ast.Name) and not names.path(call.args[0].id)


def _plain_load(call: ast.Call, names: Names) -> bool:
    return any(
        k.arg == "weights_only" and isinstance(k.value, ast.Constant) and k.value.value is True
        for k in call.keywords
    )


def _constants_only(call: ast.Call, names: Names) -> bool:
    values = [*call.args, *(keyword.value for keyword in call.keywords)]
    if any(keyword.arg is None for keyword in call.keywords):
        return False
    return all(
        isinstance(v, ast.Constant)
        or (isinstance(v, ast.UnaryOp) and isinstance(v.operand, ast.Constant))
        or (isinstance(v, ast.Attribute) and names.path(*chain_of(v)) in ("math.inf", "torch.inf"))
        for v in values
    )


def _plain_cdist(call: ast.Call, names: Names) -> bool:
    return len(call.args) < 4 and _is_spelled_out(call)


def _plain_device(call: ast.Call, names: Names) -> bool:
    if len(call.args) != 1 or call.keywords:
        return False
    match call.args[0]:
        case ast.Name(id=name):
            return names.all_texts(name, _is_processor)
    return _is_processor(call.args[0])


def _is_processor(node: ast.AST) -> bool:
    """Return whether a device is one that computes, whichever it is."""
    match node:
        case ast.Constant(value=str(text)):
            return text.startswith(("cpu", "cuda", "mps"))
        case ast.IfExp(body=one, orelse=other):
            return _is_processor(one) and _is_processor(other)
        case ast.Call(func=function, args=[one], keywords=[]):
            return dotted(function) == "torch.device" and _is_processor(one)
    return False


def _plain_tests(call: ast.Call, names: Names) -> bool:
    """Return whether it is the code's own tests that are run: others are imported by name."""
    for keyword in call.keywords:
        match keyword:
            case ast.keyword(arg="argv", value=ast.List(elts=[_, *options])):
                if not all(
                    isinstance(part, ast.Constant) and str(part.value).startswith("-")
                    for part in options
                ):
                    return False
            case ast.keyword(arg="exit" | "verbosity" | "failfast", value=ast.Constant()):
                pass
            case _:
                return False
    return not call.args and any(keyword.arg == "argv" for keyword in call.keywords)


def _without_callback(call: ast.Call, names: Names) -> bool:
    return len(call.args) == 1 and not call.keywords


def _plain_numpy_load(call: ast.Call, names: Names) -> bool:
    return len(call.args) < 3 and _is_spelled_out(call)


def _is_spelled_out(call: ast.Call) -> bool:
    """Return whether every argument is written out: none comes out of a list or a dict."""
    is_open = any(isinstance(part, ast.Starred) for part in call.args)
    return not is_open and all(keyword.arg for keyword in call.keywords)


def _plain_loader(call: ast.Call, names: Names) -> bool:
    """Return whether a DataLoader has no workers, as far as its options show."""
    if len(call.args) > 5 or any(isinstance(part, ast.Starred) for part in call.args):
        return False
    return all(_has_no_workers(k.value, names) for k in call.keywords if k.arg is None)


def _has_no_workers(options: ast.AST, names: Names) -> bool:
    match options:
        case ast.Name(id=name):
            return names.all_texts(name, _names_no_workers)
    return _names_no_workers(options)


def _names_no_workers(options: ast.AST) -> bool:
    match options:
        case ast.Dict(keys=keys):
            names = [key.value for key in keys if isinstance(key, ast.Constant)]
            return len(names) == len(keys) and "num_workers" not in names
        case ast.Call(func=ast.Name(id="dict"), args=[], keywords=given):
            return all(keyword.arg not in (None, "num_workers") for keyword in given)
    return False


def _plain_text_timer(call: ast.Call, names: Names) -> bool:
    """Return whether the text that is timed calls a function by its name, and nothing else."""
    texts = [*call.args, *(k.value for k in call.keywords if k.arg in ("stmt", "setup"))]
    others = {keyword.arg for keyword in call.keywords} - _OPTIONS_OF_TIMERS
    return not others and all(
        isinstance(text, ast.Constant)
        and (found := _CALL_IN_A_TEXT.fullmatch(str(text.value))) is not None
        and found[1] not in tables.BUILTINS | ONLY_CALLED
        for text in texts
    )


_CALL_IN_A_TEXT = re.compile(r"([A-Za-z]\w*)\([\w, .=-]*\)|pass|")
_OPTIONS_OF_TIMERS = words("""
    description env globals label num_threads setup stmt sub_label
""")


def _plain_backend(call: ast.Call, names: Names) -> bool:
    return _constants_only(call, names) and not any(
        isinstance(part, ast.Constant) and str(part.value).startswith("module:")
        for part in (*call.args, *(keyword.value for keyword in call.keywords))
    )


def _dataclass_replace(call: ast.Call, names: Names) -> bool:
    return bool(call.args) and not names.path(*chain_of(call.args[0]))


_BUILTINS: dict[str, Callable[[ast.Call, Names, bool], bool]] = {
    "delattr": _plain_setattr,
    "getattr": _plain_getattr,
    "locals": _plain_locals,
    "open": _plain_open,
    "setattr": _plain_setattr,
    "type": _plain_type,
    "vars": _plain_vars,
}
_OF_LIBRARIES: dict[str, Callable[[ast.Call, Names], bool]] = {
    "*.set_printoptions": _constants_only,
    "*.cdist": _plain_cdist,
    "dataclasses.replace": _dataclass_replace,
    "functools.wraps": _plain_wraps,
    "io.open": _plain_open,
    "operator.attrgetter": _plain_attribute_getter,
    "operator.methodcaller": _plain_method_caller,
    "os.fdopen": _plain_fdopen,
    "os.write": _plain_os_write,
    "timeit.Timer": _plain_timeit,
    "torch.set_default_device": _plain_device,
    "unittest.main": _plain_tests,
    "timeit.repeat": _plain_timeit,
    "timeit.timeit": _plain_timeit,
    "matplotlib.*.load": _plain_numpy_load,
    "matplotlib.use": _plain_backend,
    "numpy.*.load": _plain_numpy_load,
    "numpy.load": _plain_numpy_load,
    "torch.*.DataLoader": _plain_loader,
    "torch.*.Timer": _plain_text_timer,
    "torch.*.load": _plain_load,
    "torch.load": _plain_load,
    "weakref.ReferenceType": _without_callback,
    "weakref.ref": _without_callback,
}


def is_only_called(path: str) -> bool:
    """Return whether what has this path is plain only where it is called."""
    return path.rpartition(".")[2] in ONLY_CALLED_METHODS or _check_of(path) is not None


def is_unbound_way_out(path: str) -> bool:
    """Return whether a path is that of a method, of a class of torch's, by which a tensor's numbers
    get out of torch's sight: whoever keeps it gets around those who watch it.
    """
    owner, _, name = path.rpartition(".")
    is_class = owner.startswith("torch.") and owner.rpartition(".")[2][:1].isupper()
    return is_class and name in tables.PASSES_VALUES_ON | _WAYS_OUT


_WAYS_OUT = words("__getitem__ __iter__ new to")


def _check_of(path: str) -> Callable[[ast.Call, Names], bool] | None:
    first, last = path.split(".")[0], path.rpartition(".")[2]
    for known in (path, f"{first}.*.{last}", f"*.{last}"):
        if known in _OF_LIBRARIES:
            return _OF_LIBRARIES[known]
    return None


_METHODS: dict[str, Callable[[ast.Call, Names], bool]] = {
    "eval": _plain_eval,
    "format": _plain_format,
    "format_map": _plain_format,
    "query": _plain_query,
}
