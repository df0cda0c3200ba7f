"""Probes for what keeps a run the same: its flags, its checkpoints, and how they are written."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import operator
import os
import random
import sys
import tempfile
import types
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from helpers.lending import KilledError
from helpers.probes.feeding import feeds
from helpers.probes.forgetting import forgotten
from helpers.probes.states import as_safe_bytes, from_bytes
from helpers.probes.testimony import testimony
from helpers.random_numbers import globals_kept, seed_globals

# A student's experiment may have put something else in its place.
_require_deterministic = torch.use_deterministic_algorithms
# Flags in torch.backends that make runs or machines differ, beside those that are asked for.
_OTHER_FLAGS = (
    "cuda.matmul.allow_bf16_reduced_precision_reduction",
    "cuda.matmul.allow_fp16_reduced_precision_reduction",
    "cuda.matmul.allow_tf32",
    "cudnn.allow_tf32",
    "cudnn.benchmark_limit",
    "mkldnn.allow_tf32",
    "mkldnn.deterministic",
    "mkldnn.enabled",
    "opt_einsum.enabled",
    "opt_einsum.strategy",
)


@feeds()
def deterministic_results(
    function: Callable,
    *args: Any,
    numbers: torch.Tensor,
    places: torch.Tensor,
    size: int,
    before: bool,
) -> dict[str, Any]:
    """Call ``function(*args)``, and compute what depends on deterministic algorithms; then the
    flags are again as they were.

    Args:
        function: sets flags.
        *args: its arguments.
        numbers: one axis.
        places: where the numbers are put, in a tensor of ``size`` zeros.
        size: how long ``numbers`` is made, with memory that nobody has written to behind it.
        before: whether deterministic algorithms are required before the call.

    Returns:
        ``{"put": tensor}`` or ``{"error": class of an exception, by its name}``: torch has no
        deterministic algorithm for it; ``"longer"``, the numbers and what is behind them;
        ``"required"``, whether torch says that they are, be it with a warning alone; and
        ``"callable"``, whether the function that requires them is still one.
    """
    with _flags_kept():
        _require_deterministic(before)
        function(*args)
        seen = {"callable": callable(torch.use_deterministic_algorithms)}
        return seen | _compute(numbers, places, size)


@testimony
@feeds()
def backend_flags(
    function: Callable,
    *args: Any,
    numbers: torch.Tensor,
    places: torch.Tensor,
    size: int,
    before: bool,
    cudnn_before: tuple[bool, bool, bool] | None = None,
) -> dict[str, Any]:
    """Do what ``deterministic_results`` does, and read the flags of cuDNN as well.

    Arguments as ``deterministic_results`` has them; ``cudnn_before`` is for cuDNN's flags,
    ``benchmark``, ``deterministic`` and ``enabled``; if None, the first two are as ``before``, and
    the third is True. TF32 is allowed before the call.

    Returns:
        besides, ``"enabled"``, ``"benchmark"`` and ``"deterministic"``, cuDNN's flags;
        ``"invented"``, names that were set in ``torch``, ``torch.backends`` or its ``cudnn`` and
        mean nothing there; ``"changed"``, the names of other flags that were changed in
        ``torch.backends``; and ``"returned"``, the name of the class of what the call returned.
    """
    cudnn = torch.backends.cudnn
    with _flags_kept():
        flags_before = cudnn_before or (before, before, True)
        cudnn.benchmark, cudnn.deterministic, cudnn.enabled = flags_before
        torch.set_float32_matmul_precision("high")
        _require_deterministic(before)
        known, others = _names(), _read_flags()
        returned = function(*args)
        seen = {name: getattr(cudnn, name) for name in ("enabled", "benchmark", "deterministic")}
        seen["callable"] = callable(torch.use_deterministic_algorithms)
        seen["invented"] = sorted(f"{place.__name__}.{name}" for place, name in _names() - known)
        changed = {name for name, value in _read_flags().items() if value != others[name]}
        seen["changed"] = sorted(f"torch.backends.{name}" for name in changed)
        seen["returned"] = type(returned).__name__
        return seen | _compute(numbers, places, size)


def _compute(numbers: torch.Tensor, places: torch.Tensor, size: int) -> dict[str, Any]:
    seen: dict[str, Any] = {"required": torch.are_deterministic_algorithms_enabled()}
    seen["longer"] = numbers.clone().resize_(size)
    try:
        put = torch.zeros(size, dtype=numbers.dtype).put_(places, numbers)
    except RuntimeError as error:
        return {**seen, "error": type(error).__name__}
    return {**seen, "put": put}


@contextlib.contextmanager
def _flags_kept() -> Iterator[None]:
    cudnn = torch.backends.cudnn
    flags = cudnn.enabled, cudnn.benchmark, cudnn.deterministic
    others, precision = _read_flags(), torch.get_float32_matmul_precision()
    fills = torch.utils.deterministic.fill_uninitialized_memory
    torch.utils.deterministic.fill_uninitialized_memory = True
    required = torch.are_deterministic_algorithms_enabled()
    only_warn = torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms = _require_deterministic
    known = _names()
    try:
        yield
    finally:
        for place, name in _names() - known:
            delattr(place, name)
        cudnn.enabled, cudnn.benchmark, cudnn.deterministic = flags
        now = _read_flags()
        _set_flags({name: value for name, value in others.items() if now[name] != value})
        torch.set_float32_matmul_precision(precision)  # last: other flags are part of it
        torch.utils.deterministic.fill_uninitialized_memory = fills
        torch.use_deterministic_algorithms = _require_deterministic
        _require_deterministic(required, warn_only=only_warn)


def _read_flags() -> dict[str, Any]:
    """Return the values of other flags by name, None for those that this torch does not have."""
    return {name: _read_flag(name) for name in _OTHER_FLAGS}


def _read_flag(name: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return operator.attrgetter(name)(torch.backends)
        except (AttributeError, RuntimeError):  # torch refuses to mix old flags with new ones
            return None


def _set_flags(values: dict[str, Any]) -> None:
    for name, value in values.items():
        place, _, flag = name.rpartition(".")
        with warnings.catch_warnings(), contextlib.suppress(AttributeError, RuntimeError):
            warnings.simplefilter("ignore")
            setattr(operator.attrgetter(place)(torch.backends), flag, value)


def _names() -> set[tuple[types.ModuleType, str]]:
    """Return the names in the places of flags, other than those of modules."""
    return {
        (place, name)
        for place in (torch, torch.backends, torch.backends.cudnn)
        for name, value in vars(place).items()
        if not isinstance(value, types.ModuleType)
    }


def trained_part(
    training_class: Callable[[], Any],
    seed: int,
    steps: int,
    state: torch.Tensor | None = None,
    saves: bool = False,
    ends: bool = False,
) -> dict[str, Any]:
    """Make a training, and let it make some steps, from its start or from a state.

    Its state is written by ``torch.save`` and read by ``torch.load`` with ``weights_only=True``.
    Two normal numbers are drawn of each global generator before a training is made: it keeps one
    back. What the class keeps elsewhere is forgotten in the end.

    Args:
        training_class: its objects have ``step()``, ``state_dict()`` and ``load_state_dict()``;
            ``step()`` returns a dict.
        seed: of the global generators.
        steps: how many are made.
        state: the written state from which they go on, uint8 of shape (bytes,), or None.
        saves: whether the state is also asked for before each step, and thrown away.
        ends: whether nothing goes on from here: then no state is written in the end.

    Returns:
        ``{"trace", "state"}``: what each step returned, and the state in the end, or None.
    """
    with globals_kept(), forgotten(training_class):
        seed_globals(seed)
        random.gauss(0.0, 1.0), np.random.normal(), torch.randn(1)
        training = training_class()
        if state is not None:
            training.load_state_dict(from_bytes(state))
        trace = []
        for _ in range(steps):
            if saves:
                training.state_dict()
            trace.append(training.step())
        written = None if ends else as_safe_bytes(training.state_dict(), "state")
        return {"trace": trace, "state": written}


@feeds("path")
def writes(
    function: Callable[[Callable[[Any], None], str], Any],
    begin: Callable[[str], str],
    go_on: Callable[[], str | bool | None],
    times: int,
    path: str = ".../run.pt",
) -> list[dict[str, Any]]:
    """Call ``function(write, path)`` some times, always with the same path.

    ``write(target)`` asks what to write, in two halves, only when it is called.

    Args:
        function: the student's.
        begin: takes the target and returns the first half.
        go_on: returns the second half; None if the process is killed there, and False if somebody
            interrupts it. What it raises, ``write`` raises.
        times: how many calls are made.
        path: of the file, in a folder that is made for it: ``.../`` stands for that folder; without
            it, the path is relative and that folder the current one.

    Returns:
        for each call ``{"path", "after", "raised", "said", "returned"}``: the path, what it holds
        after the call (None: there is no such file), the name of the class of the exception that
        came out, "" if none did, what it said, and the name of the class of what was returned.
    """
    place = _Place.of(path)
    told = _written(function, begin, go_on, times, place, contextlib.nullcontext)
    names = ("path", "after", "raised", "said", "returned")
    return [{name: one[name] for name in names} for one in told]


@testimony
@feeds("path")
def writes_watched(
    function: Callable[[Callable[[Any], None], str], Any],
    begin: Callable[[str], str],
    go_on: Callable[[], str | bool | None],
    times: int,
    path: str = ".../run.pt",
) -> list[dict[str, Any]]:
    """Do what ``writes`` does, and look at the path meanwhile.

    Arguments as ``writes`` has them.

    Returns:
        besides, ``"moments"``, what the path held between the halves, and before each removal,
        renaming, linking and opening of a file and each start of a program; and ``"moved"``,
        whether the path is the very file that was written, where one was written to the end.
    """
    place = _Place.of(path)
    return _written(function, begin, go_on, times, place, _looking_whenever_files_move)


@dataclasses.dataclass(frozen=True)
class _Place:
    """Where a file is to be, in a new folder, and whether this folder is the current one."""

    name: str
    relative: bool

    @classmethod
    def of(cls, path: str) -> _Place:
        """Return the place that ``path`` stands for, as ``writes`` has it."""
        name = path.removeprefix(".../")
        return cls(name, relative=name == path)

    @contextlib.contextmanager
    def make(self) -> Iterator[tuple[Path, str]]:
        """Give the file's path, and what the student's function gets."""
        before = Path.cwd()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder).resolve() / self.name
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                if self.relative:
                    os.chdir(folder)
                yield path, self.name if self.relative else str(path)
            finally:
                os.chdir(before)


def _written(
    function: Callable,
    begin: Callable,
    go_on: Callable,
    times: int,
    place: _Place,
    watching: Callable[[Callable[[], None]], contextlib.AbstractContextManager],
) -> list[dict[str, Any]]:
    seen = []
    with place.make() as (path, given):
        for _ in range(times):
            moments: list[str | None] = []

            def look(moments: list = moments) -> None:
                moments.append(_content(path))

            with watching(look):
                told = _write_once(function, begin, go_on, (path, given), look)
            seen.append({**told, "moments": moments})
    return seen


def _write_once(
    function: Callable,
    begin: Callable,
    go_on: Callable,
    paths: tuple[Path, str],
    look: Callable[[], None],
) -> dict[str, Any]:
    files: list[int] = []
    is_interrupted = False
    path, given = paths

    def write(target: Any) -> None:
        nonlocal is_interrupted
        place = Path(target)
        half = begin(str(place.parent.resolve() / place.name))
        if place.parent.resolve() != path.parent:  # nothing is written there
            raise FileNotFoundError(f"{target} is in another folder")
        place.write_text(half)
        look()
        rest = go_on()
        if rest is None:
            raise KilledError
        if rest is False:
            is_interrupted = True
            raise KeyboardInterrupt
        place.write_text(half + rest)
        files.append(place.stat().st_ino)

    raised, said, returned = "", "", None
    try:
        returned = function(write, given)
    except (OSError, KilledError, KeyboardInterrupt) as error:
        if isinstance(error, KeyboardInterrupt) and not is_interrupted:  # a person's own
            raise
        raised, said = type(error).__name__, str(error)
    return {
        "path": str(path),
        "after": _content(path),
        "moved": not files or (path.exists() and path.stat().st_ino == files[-1]),
        "raised": raised,
        "said": said,
        "returned": type(returned).__name__,
    }


_looks: list[Callable[[], None]] = []
_MOVING = {
    "open",
    "os.link",
    "os.posix_spawn",
    "os.remove",
    "os.rename",
    "os.symlink",
    "os.system",
    "os.truncate",
    "subprocess.Popen",
}


@contextlib.contextmanager
def _looking_whenever_files_move(look: Callable[[], None]) -> Iterator[None]:
    """Call ``look`` before each removal, renaming, linking and opening of a file and each start of
    a program, by whatever name it is done: Python itself reports these.

    Source: PEP 578, "Python Runtime Audit Hooks".
    """
    _listen()
    _looks.append(look)
    try:
        yield
    finally:
        _looks.remove(look)


@functools.cache
def _listen() -> None:
    """Have Python report what is done to files: only once, since no hook can be removed."""
    sys.addaudithook(_hear)


def _hear(event: str, _: Any) -> None:
    if not _looks or event not in _MOVING:
        return
    look = _looks.pop()  # looking opens a file, too
    try:
        look()
    finally:
        _looks.append(look)


def _content(path: Path) -> str | None:
    return path.read_text() if path.exists() else None
