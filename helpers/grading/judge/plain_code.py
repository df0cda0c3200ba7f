"""Whether a notebook's code is plain: arithmetic on tensors, nothing that reaches for machinery.

Some probes tell *how* a result came about ("no softmax operator ran", "the argument was left
alone"). No process can prove this of code that runs beside the probe: the code could change the
probe. Where a student's cells are plain, they cannot; where they are not, a person decides.

Of Python's own modules only the parts that are listed here are plain: most of those modules hold
another one that leads anywhere (``enum.bltns``, ``json.codecs``). torch, NumPy and matplotlib are
too large for that: of them all is plain but the names that are listed here.

It errs towards calling code not plain: what rests on a probe's word alone is then not counted
before a person has looked.
"""

from __future__ import annotations

import ast
import functools
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator

from IPython.core.inputtransformer2 import TransformerManager

import helpers
from helpers import probes


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Modules that hold no other module.
_WHOLE = _words("bisect cmath copy heapq itertools math random time")
_LIBRARIES = _words("torch numpy matplotlib")
_FUSIONS = _words("""
    fuse_conv_bn_eval fuse_conv_bn_weights fuse_linear_bn_eval fuse_linear_bn_weights
""")
# Of these only what stands here.
_PARTS = {
    "__future__": _words("annotations division print_function"),
    "abc": _words("ABC ABCMeta abstractmethod"),
    "collections": _words("ChainMap Counter OrderedDict abc defaultdict deque namedtuple"),
    "collections.abc": _words("""
        Callable Collection Generator Hashable Iterable Iterator Mapping MutableMapping Sequence Set
        Sized
    """),
    "contextlib": _words("ExitStack closing contextmanager nullcontext suppress"),
    "dataclasses": _words("asdict astuple dataclass field fields replace"),
    "datetime": _words("date datetime time timedelta timezone"),
    "decimal": _words("Decimal getcontext localcontext"),
    "enum": _words("Enum Flag IntEnum StrEnum auto"),
    "fractions": _words("Fraction"),
    "functools": _words("cache cached_property lru_cache partial reduce total_ordering"),
    "hashlib": _words("blake2b blake2s md5 sha1 sha256 sha512"),
    "helpers": frozenset(helpers.__all__),
    "json": _words("dumps loads"),
    "logging": _words("""
        CRITICAL DEBUG ERROR INFO WARNING critical debug error exception getLogger info warning
    """),
    "numbers": _words("Complex Integral Number Rational Real"),
    "numpy.testing": _words("assert_allclose assert_array_equal"),
    "os": _words("_exit abort cpu_count environ getcwd getpid linesep listdir remove replace sep"),
    "os.path": _words("basename dirname exists isdir isfile join splitext"),
    "pprint": _words("pformat pprint"),
    "probes": frozenset(probes.__all__),
    "re": _words("I IGNORECASE M MULTILINE compile escape findall finditer fullmatch match search "
                 "split sub"),
    "statistics": _words("fmean mean median mode pstdev pvariance stdev variance"),
    "string": _words("ascii_letters ascii_lowercase ascii_uppercase digits punctuation"),
    "sys": _words("byteorder float_info maxsize platform stderr stdout version version_info"),
    "textwrap": _words("dedent fill indent wrap"),
    # Private by name, and what everybody uses to ask whether a module is one of the family.
    "torch.nn.modules.batchnorm": _words("BatchNorm1d BatchNorm2d BatchNorm3d _BatchNorm"),
    "torch.nn.modules.conv": _words("Conv1d Conv2d Conv3d _ConvNd"),
    "torch.nn.modules.instancenorm": _words("_InstanceNorm"),
    "torch.nn.utils": _FUSIONS | _words("""
        clip_grad_norm_ clip_grad_value_ clip_grads_with_norm_ get_total_norm parameters_to_vector
        remove_spectral_norm remove_weight_norm spectral_norm vector_to_parameters weight_norm
    """),
    "torch.nn.utils.fusion": _FUSIONS,
    "torch.nn.utils.rnn": _words("""
        PackedSequence pack_padded_sequence pack_sequence pad_packed_sequence pad_sequence
        unpad_sequence
    """),
    "torch.testing": _words("assert_close"),
    "torch.utils.checkpoint": _words("checkpoint checkpoint_sequential"),
    "torch.utils.data": _words("""
        BatchSampler ConcatDataset DataLoader Dataset IterableDataset RandomSampler Sampler
        SequentialSampler Subset TensorDataset default_collate get_worker_info random_split
    """),
    "zlib": _words("adler32 crc32"),
    "typing": _words("""
        Annotated Any Callable ClassVar Dict Final Generator Generic Iterable Iterator List Literal
        Mapping NamedTuple Optional Protocol Self Sequence Set Tuple Type TypeVar Union cast
    """),
    "IPython.display": _words("HTML Image Javascript Latex Markdown Math clear_output display"),
    "warnings": _words("catch_warnings filterwarnings simplefilter warn"),
}  # fmt: skip
# Names that lead to modules, frames, other objects' insides, or to text run as code.
_NAMES = _words("""
    breakpoint compile delattr eval exec exit get_ipython getattr globals help input locals open
    quit setattr vars
""")
# Modules that libraries happen to hold, as far as their names mean nothing else in a library.
_HELD_MODULES = (
    sys.stdlib_module_names - _WHOLE - _words("array chunk code profile select test trace")
)
# Parts of libraries that step around the dispatcher or hold what a probe uses, or one of Python's
# modules by another name; what reaches beyond a tensor's memory; frames; whatever opens files, or
# writes what may be imported later.
_ATTRIBUTES = _HELD_MODULES | _words("""
    apply_ distributed export f2py fx hub jit library load map2_ map_ ops overrides package
    parallel save script serialization set_default_device testing utils
    PIL attrgetter backend_agg bltns compile concurrent ctypeslib itemgetter methodcaller mp tunable
    xpu as_strided resize resize_ sparse_bsc_tensor sparse_bsr_tensor sparse_compressed_tensor
    sparse_coo_tensor sparse_csc_tensor sparse_csr_tensor sparse_resize_
    sparse_resize_and_clear_ stride_tricks
    ag_code ag_frame cr_code cr_frame currentframe f_back f_builtins f_code f_globals f_locals
    gi_code gi_frame tb_frame tb_next
    CodeType DataSource exec FileHandler find_spec fontTools Formatter ForwardRef from_file
    FunctionType get_field get_ipython get_type_hints getattr globals locals memmap open
    open_file_cm open_memmap Path print_figure print_raw print_rgba rc_file read_array savetxt
    setattr signature switch_backend TemporaryDirectory to_filehandle tofile update_wrapper vars
    write_bytes write_text
""")
_SPECIAL_NAMES = _words("__doc__ __name__")
_SPECIAL_METHODS = _words("""
    __call__ __class__ __doc__ __enter__ __exit__ __getitem__ __init__ __iter__ __len__ __name__
    __next__ __repr__ __str__ __version__
""")
# What a module of torch has by public names as well.
_OF_MODULES = _words("_buffers _modules _parameters")
_SPECIAL_DEFINITIONS = _SPECIAL_METHODS | _words("""
    __abs__ __add__ __contains__ __eq__ __ge__ __gt__ __hash__ __le__ __lt__ __matmul__ __mul__
    __ne__ __neg__ __post_init__ __pow__ __radd__ __rmul__ __setitem__ __sub__ __truediv__
""")
# What passes a value on, in a kernel, after a student's function has returned it.
_PASSES_VALUES_ON = _words("""
    Parameter Size Tensor clone contiguous copy cpu detach from_numpy is_complex is_contiguous
    is_quantized isfinite layout ndarray ones_like requires_grad_ resolve_conj resolve_neg strided
    stride view_as_real
""")
_DATA = _words("bool bytes complex dict float int list set str tuple")
_PICTURES = (".gif", ".jpg", ".jpeg", ".pdf", ".png", ".svg")
# By which other names these go.
_SHORT = {"np": "numpy", "nn": "torch.nn"}
# What runs no code but what stands on the same line, and how that reads in Python.
_HARMLESS_MAGICS = (
    (r"^([ \t]*)%%?time(?:it)?\b[ \t]*(?:-[nr][ \t]*\d+[ \t]*)*(?=[^{}$\n]*$)", r"\1"),
    (r"^([ \t]*)%matplotlib[ \t]+\w+[ \t]*$", r"\1pass"),
    (r"^([ \t]*)[\w.]+\?{1,2}[ \t]*$", r"\1pass"),
)


def find_reach(cells: Iterable[str], given: Iterable[str] = ()) -> str:
    """Return what in a notebook's cells reaches for machinery, in words; "" if all is plain.

    Args:
        cells: the student's.
        given: the course's, of which only the imports matter.
    """
    try:
        trees = list(_parse_all(cells))
        imported = [name for tree in trees for name in _imported_names(tree)]
        imported += [name for code in given for name in _imports_of_the_course(code)]
        examiner = _Examiner(imported)
        for tree in trees:
            examiner.visit(tree)
    except (RecursionError, MemoryError):
        return "a cell that is nested too deeply to be read"
    return next(iter(examiner.found), "")


def _parse_all(cells: Iterable[str]) -> Iterator[ast.Module]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the compiler remarks is the student's affair
        for code in cells:
            easy = code
            for magic, python in _HARMLESS_MAGICS:
                easy = re.sub(magic, python, easy, flags=re.MULTILINE)
            for text in dict.fromkeys((easy, code)):
                try:
                    yield ast.parse(TransformerManager().transform_cell(text))
                    break
                except (SyntaxError, ValueError):
                    continue  # what cannot be read in either way does not run


@functools.lru_cache(maxsize=1000)  # the same cells in every submission
def _imports_of_the_course(code: str) -> tuple[tuple[str, bool], ...]:
    return tuple(name for tree in _parse_all([code]) for name in _imported_names(tree))


def _imported_names(tree: ast.AST) -> Iterator[tuple[str, bool]]:
    """Return every name that is imported, and whether it is that of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((a.asname or a.name.split(".")[0], True) for a in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((a.asname or a.name, False) for a in node.names)


class _Examiner(ast.NodeVisitor):
    """Looks for what is not plain; what it found is in words."""

    def __init__(self, imported: Iterable[tuple[str, bool]]) -> None:
        self.found: list[str] = []
        self._imported = {name for name, _ in imported}
        # Modules that must not be passed around: only their parts are plain.
        modules = {name for name, is_module in imported if is_module}
        self._modules = (modules & _PARTS.keys()) | {"probes"}

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            in_parts = alias.name in _PARTS and alias.name != "helpers"
            renamed = alias.asname not in (None, alias.name)
            if not (_is_library(alias.name) or (in_parts and not renamed)):
                self.found.append(f"import {alias.name}")

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        for alias in node.names:
            if module in _PARTS:
                renamed = alias.asname not in (None, alias.name)
                direct = alias.name in _PLAIN_IF_CALLED and module == "functools"
                plain = direct or alias.name in _PARTS[module]
                plain = plain and not (renamed and (direct or alias.name in _PARTS))
            else:
                plain = _is_library(module) and not _leads_on(alias.name)
            if node.level or not plain:
                self.found.append(f"from {module} import {alias.name}")

    def visit_Name(self, node: ast.Name) -> None:
        special = node.id.startswith("__") and node.id not in _SPECIAL_NAMES
        kept = node.id in self._modules or (node.id in _PLAIN_IF_CALLED & self._imported)
        if special or kept or node.id in _NAMES:
            self.found.append(node.id)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if not isinstance(node.ctx, ast.Load):
            self._visit_change(node)
        elif _is_part(node):
            return
        elif _leads_on(node.attr) or node.attr in _PLAIN_IF_CALLED:
            self.found.append(f".{node.attr}")
        self.visit(node.value)

    def visit_Call(self, node: ast.Call) -> None:
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        is_plain = _PLAIN_IF_CALLED_SO.get(name)
        if is_plain is None or not is_plain(node):
            self.generic_visit(node)
            return
        if isinstance(node.func, ast.Attribute) and not _is_name(node.func.value, *_PARTS):
            self.visit(node.func.value)
        for part in (*node.args, *node.keywords):
            self.visit(part)

    def visit_MatchClass(self, node: ast.MatchClass) -> None:
        if node.kwd_attrs or (node.patterns and not _is_name(node.cls, *_DATA)):
            self.found.append(f"a pattern of the class {ast.unparse(node.cls)}")
        self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        if any("Mode" in ast.dump(base) for base in node.bases):
            self.found.append("a class of torch's modes")
        self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if node.name.startswith("__") and node.name not in _SPECIAL_DEFINITIONS:
            self.found.append(node.name)
        self.generic_visit(node)

    def _visit_change(self, node: ast.Attribute) -> None:
        path = ast.unparse(node)
        of_library = path.split(".")[0] in self._imported
        of_library = of_library and not path.startswith("torch.backends.")
        if of_library or node.attr in _PASSES_VALUES_ON or _leads_on(node.attr):
            self.found.append(f"a change of {path}")


def _is_name(node: ast.AST, *names: str) -> bool:
    return isinstance(node, ast.Name) and node.id in names


def _is_library(module: str) -> bool:
    first, *rest = module.split(".")
    return module in _WHOLE or (first in _LIBRARIES and not any(map(_leads_on, rest)))


def _leads_on(name: str) -> bool:
    special = name.startswith("_") and name not in _SPECIAL_METHODS | _OF_MODULES
    return special or name in _ATTRIBUTES or name == "*"


def _is_part(node: ast.Attribute) -> bool:
    first, *rest = ast.unparse(node.value).split(".")
    return node.attr in _PARTS.get(".".join([_SHORT.get(first, first), *rest]), ())


def _writes_to_a_standard_stream(call: ast.Call) -> bool:
    match call:
        case ast.Call(func=ast.Attribute(value=ast.Name("os")), args=[ast.Constant(1 | 2), _]):
            return True
        case ast.Call(func=ast.Attribute(value=ast.Name("os"))):
            return False
    return True


def _wraps_as_usual(call: ast.Call) -> bool:
    of_functools = ast.unparse(call.func) in ("wraps", "functools.wraps")
    return of_functools and len(call.args) == 1 and not call.keywords


def _writes_a_picture(call: ast.Call) -> bool:
    match call.args:
        case [ast.Constant(str(name)), *_] | [ast.JoinedStr([*_, ast.Constant(str(name))]), *_]:
            return name.endswith(_PICTURES)
    return False


def _gets_what_is_plain(call: ast.Call) -> bool:
    match call:
        case ast.Call(func=ast.Name(), args=[_, ast.Constant(str(name)), *_]):
            return not _leads_on(name) and name not in _PLAIN_IF_CALLED
    return False


_PLAIN_IF_CALLED_SO: dict[str, Callable[[ast.Call], bool]] = {
    "eval": lambda call: isinstance(call.func, ast.Attribute) and not call.args,
    "getattr": _gets_what_is_plain,
    # Called, it is a path's method; the module that goes by this name cannot be.
    "glob": lambda call: isinstance(call.func, ast.Attribute),
    "imsave": _writes_a_picture,
    "savefig": _writes_a_picture,
    "wraps": _wraps_as_usual,
    "write": _writes_to_a_standard_stream,
}
_PLAIN_IF_CALLED = frozenset(_PLAIN_IF_CALLED_SO)
