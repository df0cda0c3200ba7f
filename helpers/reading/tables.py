"""Which modules, names and attributes are plain.

Of Python's own modules only what is listed here is plain: most of them hold another module that
leads anywhere (``enum.bltns``, ``json.codecs``). torch, NumPy and matplotlib are too large for
that: of them all is plain but what is listed here. Modules that nobody installed for the course are
plain, too: an import of them fails, whoever tries it.
"""

from __future__ import annotations

import functools
import sys
import sysconfig
from importlib.machinery import PathFinder

from helpers.reading.words import words

# Modules that hold nothing but functions on their arguments.
WHOLE = words("""
    array base64 binascii bisect calendar cmath colorsys copy csv difflib errno fnmatch fractions
    glob graphlib hashlib heapq html ipaddress itertools keyword math numbers platform pprint queue
    random reprlib secrets statistics struct tempfile textwrap time unicodedata uuid zlib
""")
# Of these only what stands here.
PARTS = {
    "PIL": words("Image ImageChops ImageDraw ImageEnhance ImageFilter ImageOps ImageStat"),
    "__future__": words("annotations division print_function"),
    "abc": words("ABC ABCMeta abstractmethod"),
    "argparse": words("ArgumentParser Namespace"),
    "ast": words("literal_eval"),
    "bz2": words("compress decompress"),
    "collections": words("ChainMap Counter OrderedDict UserDict UserList abc defaultdict deque "
                         "namedtuple"),
    "collections.abc": words("""
        Callable Collection Container Generator Hashable ItemsView Iterable Iterator KeysView
        Mapping MutableMapping MutableSequence MutableSet Reversible Sequence Set Sized ValuesView
    """),
    "contextlib": words("AbstractContextManager ContextDecorator ExitStack closing contextmanager "
                        "nullcontext redirect_stderr redirect_stdout suppress"),
    "contextvars": words("ContextVar"),
    "dataclasses": words("KW_ONLY InitVar asdict astuple dataclass field fields is_dataclass "
                         "replace"),
    "datetime": words("date datetime time timedelta timezone UTC"),
    "decimal": words("Decimal ROUND_HALF_EVEN ROUND_HALF_UP getcontext localcontext"),
    "dis": words("dis"),
    "enum": words("Enum Flag IntEnum IntFlag StrEnum auto unique"),
    "functools": words("""
        cache cached_property cmp_to_key lru_cache partial partialmethod reduce singledispatch
        singledispatchmethod total_ordering wraps
    """),
    "gc": words("collect disable enable get_count isenabled"),
    "gzip": words("GzipFile compress decompress open"),
    "inspect": words("""
        Parameter Signature getdoc getsource isbuiltin isclass isfunction isgenerator
        isgeneratorfunction ismethod ismodule signature
    """),
    "io": words("BufferedReader BytesIO StringIO TextIOWrapper open SEEK_CUR SEEK_END SEEK_SET"),
    "json": words("JSONDecodeError dump dumps load loads"),
    "logging": words("""
        CRITICAL DEBUG ERROR INFO WARNING basicConfig critical debug disable error exception
        getLogger info warning
    """),
    "operator": words("""
        abs add and_ attrgetter contains eq floordiv ge getitem gt iadd imul index invert is_ is_not
        isub itemgetter itruediv le lt matmul methodcaller mod mul ne neg not_ or_ pos pow rshift
        setitem sub truediv truth xor
    """),
    "os": words("""
        O_CREAT O_DIRECTORY O_EXCL O_RDONLY O_TRUNC O_WRONLY PathLike close cpu_count curdir environ
        fdopen fspath fsync getcwd getenv getpid linesep listdir makedirs mkdir open pardir path
        remove rename replace rmdir scandir sep stat unlink urandom utime walk write _exit abort
    """),
    "os.path": words("""
        abspath basename commonprefix curdir dirname exists expanduser getmtime getsize isabs isdir
        isfile islink join normpath realpath relpath sep split splitext
    """),
    "pathlib": words("Path PosixPath PurePath PurePosixPath"),
    "pickle": words("HIGHEST_PROTOCOL PicklingError dump dumps"),
    "re": words("""
        A ASCII DOTALL I IGNORECASE M MULTILINE Match Pattern S VERBOSE X compile escape findall
        finditer fullmatch match search split sub subn
    """),
    "resource": words("RUSAGE_SELF getrusage"),
    "shutil": words("copy copy2 copyfile copytree disk_usage move rmtree which"),
    "string": words("""
        Template ascii_letters ascii_lowercase ascii_uppercase capwords digits hexdigits octdigits
        printable punctuation whitespace
    """),
    "sys": words("""
        argv byteorder exit float_info getrecursionlimit getrefcount getsizeof hash_info int_info
        maxsize platform setrecursionlimit stderr stdout version version_info
    """),
    "tarfile": words("TarFile TarInfo is_tarfile open"),
    "timeit": words("Timer default_timer repeat timeit"),
    "traceback": words("""
        format_exc format_exception format_exception_only print_exc print_exception
    """),
    "tracemalloc": words("get_traced_memory is_tracing reset_peak start stop"),
    "types": words("""
        BuiltinFunctionType EllipsisType GeneratorType MappingProxyType NoneType SimpleNamespace
    """),
    "typing": words("""
        AbstractSet Annotated Any AnyStr Callable ClassVar Collection Concatenate DefaultDict Deque
        Dict Final FrozenSet Generator Generic Hashable Iterable Iterator List Literal Mapping
        MutableMapping MutableSequence NamedTuple NewType NoReturn Optional ParamSpec Protocol Self
        Sequence Set Sized Text Tuple Type TYPE_CHECKING TypeAlias TypeGuard TypeVar TypedDict Union
        cast overload runtime_checkable
    """),
    "typing_extensions": words("""
        Annotated Final Literal NotRequired Protocol Required Self TypeAlias TypedDict override
    """),
    "unittest": words("TestCase expectedFailure main skip skipIf skipUnless"),
    "warnings": words("catch_warnings filterwarnings resetwarnings simplefilter warn"),
    "weakref": words("""
        ReferenceType WeakKeyDictionary WeakSet WeakValueDictionary ref
    """),
    "zipfile": words("ZIP_DEFLATED ZipFile ZipInfo is_zipfile"),
    "IPython": words("display version_info"),
    "IPython.display": words("""
        Audio HTML Image JSON Javascript Latex Markdown Math SVG clear_output display
    """),
    "matplotlib_inline": words("backend_inline"),
    "matplotlib_inline.backend_inline": words("set_matplotlib_formats"),
    "mpl_toolkits": words("axes_grid1 mplot3d"),
    "mpl_toolkits.axes_grid1": words("make_axes_locatable"),
    "mpl_toolkits.mplot3d": words("Axes3D"),
    "numpy.typing": words("ArrayLike DTypeLike NDArray"),
    "numpy.testing": words("""
        assert_allclose assert_almost_equal assert_array_almost_equal assert_array_equal
        assert_equal assert_raises
    """),
    "torch.testing": words("assert_allclose assert_close make_tensor"),
    "torch.utils": words("_pytree benchmark checkpoint data tensorboard"),
    "torch.utils._pytree": words("""
        tree_all tree_any tree_flatten tree_leaves tree_map tree_map_only tree_unflatten
    """),
    "torch.utils.checkpoint": words("""
        checkpoint checkpoint_sequential noop_context_fn set_checkpoint_early_stop
    """),
    "torch.utils.tensorboard": words("SummaryWriter"),
    "torch.utils.data": words("""
        BatchSampler ChainDataset ConcatDataset DataLoader Dataset IterableDataset RandomSampler
        Sampler SequentialSampler StackDataset Subset SubsetRandomSampler TensorDataset
        WeightedRandomSampler dataloader dataset default_collate default_convert get_worker_info
        random_split sampler
    """),
}  # fmt: skip
LIBRARIES = words("matplotlib numpy torch")
# Not plain, but imported out of habit; loading them starts nothing and changes nothing.
HARMLESS_TO_LOAD = words("""
    asyncio cProfile concurrent concurrent.futures http http.client http.server ipywidgets
    multiprocessing multiprocessing.pool pandas pdb profile psutil pstats requests scipy seaborn
    select sklearn sqlite3 subprocess threading tqdm tqdm.auto tqdm.notebook urllib urllib.error
    urllib.parse urllib.request xml xml.dom xml.dom.minidom xml.etree xml.etree.ElementTree
""")
# A student's own folder is none of them: it is on no path where work is graded.
_FOLDERS_OF_MODULES = sorted(
    {sysconfig.get_path(kind) for kind in ("platlib", "platstdlib", "purelib", "stdlib")}
)
# Installed with the course, and each a way to run text or another process; where some are not
# installed, students' code is read the same.
_INSTALLED = words("""
    IPython PIL _pytest anywidget asttokens attr attrs babel bleach bs4 build certifi cffi
    charset_normalizer click cloudpickle comm contourpy cycler dask dateutil debugpy decorator
    defusedxml dill distributed executing fastjsonschema fontTools fsspec functorch greenlet h11
    httpcore httpx hypothesis ipykernel ipywidgets isympy jedi jinja2 json5 jsonschema jupyter
    jupyter_client jupyter_core jupyter_server jupyterlab jupytext keyring kiwisolver llvmlite
    markdown_it markupsafe math_core matplotlib_inline mistune mpl_toolkits mpmath nbclient
    nbconvert nbformat nbgrader nbval nest_asyncio networkx notebook numba numexpr nvidia
    packaging parso pexpect pip pkg_resources platformdirs playwright pluggy prompt_toolkit
    psutil psycopg2 ptyprocess pure_eval pycparser pygments pylab pyparsing pytest referencing
    requests rich rpds safetensors setuptools sitecustomize six sqlalchemy stack_data sympy
    toolz tomlkit torchgen tornado traitlets triton twine typer typing_extensions tzdata urllib3
    wcwidth webcolors websocket wheel widgetsnbextension xdist yaml zict zmq
""")  # fmt: skip


@functools.cache
def is_known(module: str) -> bool:
    """Return whether a module, by the first part of its name, can be imported where students' code
    runs: whatever else was installed there.
    """
    return (
        module in _INSTALLED | LIBRARIES
        or module in sys.stdlib_module_names
        or module.startswith("_")
        or PathFinder.find_spec(module, _FOLDERS_OF_MODULES) is not None
    )


# Modules that libraries hold, by names that mean nothing else there.
_HELD_MODULES = sys.stdlib_module_names - words("""
    array bisect chunk cmath code copy heapq itertools math profile random select test time trace
""")
# Parts of libraries that step around the dispatcher, open what they are told to or import by name;
# that hold one of Python's modules by another name; and that reach beyond a tensor's memory, where
# the code of a probe lies, too.
OF_LIBRARIES = _HELD_MODULES | words("""
    apply_ distributed export f2py fx hub jit library map2_ map_ ops overrides package parallel
    register_module_backward_hook register_module_forward_hook register_module_forward_pre_hook
    register_module_full_backward_hook register_module_full_backward_pre_hook script serialization
    mp python_multiprocessing functorch compile compiler cpp_extension PIL
    attrgetter backend_agg bltns concurrent ctypeslib methodcaller tunable xpu
    as_strided resize resize_ sparse_bsc_tensor sparse_bsr_tensor sparse_compressed_tensor
    sparse_coo_tensor sparse_csc_tensor sparse_csr_tensor sparse_resize_ sparse_resize_and_clear_
    stride_tricks as_strided_ set_
    CodeType DataSource FileHandler FunctionType ForwardRef TemporaryDirectory cbook dlpack exec
    fontTools from_dlpack to_dlpack from_file get_type_hints globals locals memmap open_file_cm
    open_memmap print_figure print_raw print_rgba rc_file read_array runstring run_module_suite
    rundocs setattr switch_backend to_filehandle tofile update_wrapper vars seterrcall
    TorchDispatchMode TorchFunctionMode
""")
# What is private by name, and what everybody uses.
PRIVATE_PARTS = words("""
    _BatchNorm _ConvNd _InstanceNorm _LRScheduler _Loss _NormBase _Reduction _WeightedLoss _asdict
    _calculate_correct_fan _calculate_fan_in_and_fan_out _foreach_add _foreach_add_
    _foreach_addcdiv_ _foreach_addcmul_ _foreach_copy_ _foreach_div _foreach_div_ _foreach_lerp_
    _foreach_mul _foreach_mul_ _foreach_norm _foreach_sqrt _foreach_sub _foreach_sub_ _foreach_zero_
    _buffers _cdata _field_defaults _fields _make _modules _parameters _pytree _replace _version
""")
# Private to torch's modules: a class of one's own may use these names, but its own alone.
PRIVATE_OF_MODULES = words("""
    _apply _backward_hooks _backward_pre_hooks _call_impl _compiled_call_impl _forward_hooks
    _forward_hooks_always_called _forward_hooks_with_kwargs _forward_pre_hooks
    _forward_pre_hooks_with_kwargs _get_backward_hooks _get_backward_pre_hooks _get_name
    _is_full_backward_hook _load_from_state_dict _load_state_dict_post_hooks
    _load_state_dict_pre_hooks _maybe_warn_non_full_backward_hook _named_members
    _non_persistent_buffers_set _register_load_state_dict_pre_hook _register_state_dict_hook
    _replicate_for_data_parallel _save_to_state_dict _slow_forward _state_dict_hooks
    _state_dict_pre_hooks _wrapped_call_impl
""")
# On any object: frames, what leads from a function to its globals, autograd's nodes, the shell, and
# the modules that lead everywhere.
ON_OBJECTS = words("""
    ag_await ag_code ag_frame ag_running cr_await cr_code cr_frame f_back f_builtins f_code
    f_globals f_lineno f_locals f_trace gi_code gi_frame gi_yieldfrom tb_frame tb_lasti tb_next
    bltns builtins ctypes importlib subprocess sys os socket signal
    CodeType Formatter FunctionType ModuleType exec_module fork get_field get_objects get_referents
    get_referrers getframe getframeinfo currentframe load_module mro next_functions popen run_cell
    run_line_magic set_trace setprofile settrace spawn system user_global_ns user_ns
    _C _frame _getframe _module _mode _os _sys apply_ map2_ map_ as_strided as_strided_
    resize_ sparse_resize_ sparse_resize_and_clear_ set_
""")  # fmt: skip
# What a tensor's value passes through on its way out of a student's function.
PASSES_VALUES_ON = words("""
    as_subclass clone contiguous copy_ cpu data_ptr detach from_numpy is_complex is_contiguous
    is_floating_point is_quantized is_sparse isfinite numpy ones_like requires_grad_ resolve_conj
    resolve_neg set_ tolist untyped_storage view_as_real
""")
# Of a storage, a method that is kept gets around those who watch its class.
WAYS_OUT_OF_STORAGES = words("__getitem__ __iter__ clone copy_ cpu new to")
# These are usual names of a layer's own settings as well.
PASSES_VALUES_ON_OF_OTHERS = PASSES_VALUES_ON | words("""
    Parameter Size Tensor dtype layout ndarray shape size strided stride
""")

# Built-in functions that lead to modules and frames, or run text.
BUILTINS = words("""
    __import__ __builtins__ __loader__ __spec__ __build_class__ __file__ breakpoint compile eval
    exec exit get_ipython globals quit reload
""")
_OPERATORS = words("add and divmod floordiv lshift matmul mod mul or pow rshift sub truediv xor")
_ARITHMETIC = " ".join(f"__{side}{name}__" for name in _OPERATORS for side in ("", "r", "i"))
# Whose bodies torch may run in the middle of its own work, while a probe does not look.
RUN_UNSEEN = words("""
    __bool__ __complex__ __eq__ __float__ __format__ __fspath__ __ge__ __gt__ __hash__ __index__
    __int__ __le__ __len__ __lt__ __ne__ __repr__ __str__
""")
# Methods that a student's own class may have.
SPECIAL_METHODS = RUN_UNSEEN | words(f"""
    __abs__ __bytes__ __call__ __ceil__ __class_getitem__ __contains__ __copy__ __deepcopy__
    __delattr__ __delete__ __delitem__ __dir__ __enter__ __exit__ __floor__ __get__ __getattr__
    __getitem__ __getnewargs__ __getstate__ __init__ __init_subclass__ __invert__ __iter__
    __length_hint__ __missing__ __neg__ __new__ __next__ __pos__ __post_init__ __reversed__
    __round__ __set__ __setattr__ __setitem__ __setstate__ __trunc__ {_ARITHMETIC}
""")
# Special names that may be read of any object.
SPECIAL_NAMES = words("""
    __abs__ __all__ __author__ __bool__ __call__ __class__ __contains__
    __dataclass_fields__ __delitem__ __doc__ __enter__ __eq__ __exit__ __float__ __format__ __ge__
    __getitem__ __gt__ __hash__ __index__ __init__ __int__ __iter__ __le__ __len__ __lt__
    __members__ __module__ __name__ __ne__ __neg__ __new__ __next__ __post_init__ __qualname__
    __repr__ __reversed__ __round__ __setitem__ __slots__ __str__ __version__
""") | words(_ARITHMETIC)
# Special names that may be bound where no method is defined.
SPECIAL_BINDINGS = words("__all__ __author__ __constants__ __hash__ __slots__ __version__")

MODULES = words("""
    matplotlib.animation matplotlib.cm matplotlib.colors matplotlib.dates matplotlib.figure
    matplotlib.gridspec matplotlib.lines matplotlib.patches matplotlib.pyplot matplotlib.ticker
    matplotlib_inline.backend_inline mpl_toolkits.axes_grid1 mpl_toolkits.mplot3d
    numpy.char numpy.fft numpy.lib numpy.linalg numpy.ma numpy.polynomial numpy.random numpy.testing
    numpy.typing
    torch.accelerator torch.amp torch.autograd torch.autograd.forward_ad torch.autograd.functional
    torch.autograd.function torch.autograd.grad_mode torch.autograd.graph torch.autograd.profiler
    torch.backends torch.backends.cpu torch.backends.cuda torch.backends.cudnn torch.backends.mkldnn
    torch.backends.mps torch.backends.openmp torch.cpu torch.cuda torch.cuda.amp torch.distributions
    torch.fft torch.func torch.linalg torch.masked torch.mps torch.nested torch.nn
    torch.nn.functional torch.nn.init torch.nn.modules torch.nn.modules.batchnorm
    torch.nn.modules.conv torch.nn.modules.instancenorm torch.nn.modules.loss torch.nn.utils
    torch.nn.utils.fusion torch.nn.utils.parametrizations torch.nn.utils.parametrize
    torch.nn.utils.prune torch.nn.utils.rnn torch.nn.utils.stateless torch.optim
    torch.optim.lr_scheduler torch.optim.swa_utils torch.profiler torch.random torch.signal
    torch.sparse torch.special torch.testing torch.types torch.utils torch.utils._pytree
    torch.utils.benchmark torch.utils.checkpoint torch.utils.data torch.utils.tensorboard
    torch.version
    IPython.display PIL.Image collections.abc helpers.probes os.path
""")
