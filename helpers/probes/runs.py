"""Probes for what keeps a run the same: its flags, its sources of difference, its checkpoints."""

from __future__ import annotations

import contextlib
import io
import os
import random
import tempfile
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch

from helpers.calling import is_from_stub
from helpers.random_numbers import globals_kept, seed_globals


def backend_flags(function: Callable, *args: Any, before: bool) -> dict[str, Any]:
    """Set the flags that decide on reproducibility, call ``function(*args)``, and read them; then
    they are again as they were.

    Args:
        function: sets flags.
        *args: its arguments.
        before: whether all of them are on before the call.

    Returns:
        ``{"enabled", "benchmark", "deterministic"}``, cuDNN's flags; ``"algorithms"``, whether
        deterministic algorithms are required, and ``"only warns"``, whether a warning would do;
        ``"invented"``, names that were set in ``torch``, ``torch.backends`` or its ``cudnn`` and
        mean nothing there; and ``"callable"``, whether the function that sets them is still one.
    """
    cudnn = torch.backends.cudnn
    if not callable(torch.use_deterministic_algorithms):
        return {"callable": False}
    with _flags_kept():
        cudnn.benchmark = cudnn.deterministic = before
        torch.use_deterministic_algorithms(before)
        places = (torch, torch.backends, cudnn)
        known = [set(vars(place)) for place in places]
        function(*args)
        seen = {name: getattr(cudnn, name) for name in ("enabled", "benchmark", "deterministic")}
        seen["algorithms"] = torch.are_deterministic_algorithms_enabled()
        seen["only warns"] = torch.is_deterministic_algorithms_warn_only_enabled()
        seen["callable"] = callable(torch.use_deterministic_algorithms)
        seen["invented"] = []
        for place, names in zip(places, known, strict=True):
            for name in sorted(set(vars(place)) - names):
                if not isinstance(getattr(place, name), types.ModuleType):
                    delattr(place, name)
                    seen["invented"].append(f"{place.__name__}.{name}")
    return seen


@contextlib.contextmanager
def _flags_kept() -> Iterator[None]:
    cudnn = torch.backends.cudnn
    flags = cudnn.enabled, cudnn.benchmark, cudnn.deterministic
    required = torch.are_deterministic_algorithms_enabled()
    only_warn = torch.is_deterministic_algorithms_warn_only_enabled()
    require = torch.use_deterministic_algorithms
    try:
        yield
    finally:
        cudnn.enabled, cudnn.benchmark, cudnn.deterministic = flags
        torch.use_deterministic_algorithms = require
        require(required, warn_only=only_warn)


def with_sources(
    function: Callable[[Callable[[Any], list[float]], list[str]], Any],
    sources: list[str],
    varying: dict[str, int],
    *,
    most: int,
) -> Any:
    """Call ``function(run, sources)`` with a ``run`` whose result varies.

    ``run(fixed)`` takes names of sources and returns numbers. A source of ``varying`` that is not
    fixed changes two of them by one unit in the last place, one up and one down, in the run of that
    number, and again after as many.

    Args:
        function: the student's.
        sources: all names.
        varying: the sources that make a difference: every how many runs.
        most: so many runs for each source are allowed, in all.

    Raises:
        RuntimeError: if there are more.
    """
    runs = dict.fromkeys(varying, 0)
    left = most * len(sources)

    def run(fixed: Any) -> list[float]:
        nonlocal left
        left -= 1
        if left < 0:
            raise RuntimeError(f"run was called more than {most * len(sources)} times")
        names = [fixed] if isinstance(fixed, str) else list(fixed)
        unknown = [name for name in names if name not in sources]
        if unknown:
            raise ValueError(f"there is no source called {unknown[0]!r}")
        numbers = []
        for source, every in varying.items():
            runs[source] += source not in names
            shift = 0 if source in names else (runs[source] // every) * 2.0**-52
            numbers += [1.0 + shift, 3.0 - 2 * shift]
        return numbers

    return function(run, list(sources))


def resumed_training(
    training_class: Callable[[], Any], seed: int, *, stops: list[int], total: int
) -> list[dict[str, Any]]:
    """Train step by step; kill the training, and go on with a new one from its state.

    What ``state_dict()`` returns is written by ``torch.save`` and read by ``torch.load`` with
    ``weights_only=True``. Before a training is made, the global generators are seeded, each time
    by another number, as a new process begins with other numbers.

    Args:
        training_class: its objects have ``step()``, ``state_dict()`` and ``load_state_dict()``;
            ``step()`` returns a dict.
        seed: of the generators at the start.
        stops: after so many steps in all the training is killed.
        total: so many steps are made in all.

    Returns:
        what each step returned.
    """
    trace: list[dict[str, Any]] = []
    written: io.BytesIO | None = None
    with globals_kept():
        for part, stop in enumerate([*stops, total]):
            seed_globals(seed + part)
            # Each of them makes two normal numbers, and keeps one back.
            random.gauss(0.0, 1.0), np.random.normal(), torch.randn(1)
            training = training_class()
            if written is not None:
                written.seek(0)
                training.load_state_dict(torch.load(written, weights_only=True))
            while len(trace) < stop:
                trace.append(training.step())
            written = io.BytesIO()
            torch.save(training.state_dict(), written)
    return trace


class _Killed(BaseException):
    """What a write that is cut off raises: no handler of ordinary errors catches it."""


def writes(
    function: Callable[[Callable[[Any], None], str], Any], contents: list[tuple[str, str]]
) -> list[dict[str, Any]]:
    """Call ``function(write, path)`` for each of ``contents``, always with the same path.

    ``write(target)`` writes a content to a file, in two halves.

    Args:
        function: the student's.
        contents: what is written, and what becomes of it: "written"; "failed", an OSError between
            the halves; or "killed", which no handler of errors sees.

    Returns:
        for each call ``{"called", "during", "moments", "after", "beside", "moved", "raised"}``:
        whether ``write`` was called; what ``path`` held between the halves, before and after each
        removal or renaming of a file, and after the call
        (None: there is no such file); whether the file was written into the folder of ``path``, and
        whether, if it was written, ``path`` is that very file; and the name of the class of the
        exception that came out, "" if none did.
    """
    seen = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.pt"
        for content, fate in contents:
            seen.append(_one_write(function, path, content, fate))
    return seen


def _one_write(function: Callable, path: Path, content: str, fate: str) -> dict[str, Any]:
    seen: dict[str, Any] = {"during": "never written", "beside": False, "raised": ""}
    seen |= {"moments": [], "called": False}

    def write(target: Any) -> None:
        place = Path(target)
        seen["called"] = True
        seen["beside"] = place.resolve().parent == path.parent.resolve()
        half = len(content) // 2
        place.write_text(content[:half])
        seen["during"] = _content(path)
        if fate == "failed":
            raise OSError("no space left on device")
        if fate == "killed":
            raise _Killed
        place.write_text(content)
        seen["file"] = place.stat().st_ino

    try:
        with _looking_whenever_files_move(lambda: seen["moments"].append(_content(path))):
            function(write, str(path))
    except _Killed:
        seen["raised"] = "Killed"
    except Exception as error:
        if is_from_stub(error) or not (isinstance(error, OSError) or not seen["called"]):
            raise
        seen["raised"] = type(error).__name__
    file = seen.pop("file", None)
    moved = file is None or (path.exists() and path.stat().st_ino == file)
    return {**seen, "after": _content(path), "moved": moved}


@contextlib.contextmanager
def _looking_whenever_files_move(look: Callable[[], None]) -> Iterator[None]:
    """Call ``look`` around each removal or renaming; ``pathlib`` and ``shutil`` use these, too."""

    def watched(original: Callable) -> Callable:
        def moved(*args: Any, **kwargs: Any) -> Any:
            look()
            result = original(*args, **kwargs)
            look()
            return result

        return moved

    with contextlib.ExitStack() as stack:
        for name in ("remove", "rename", "replace", "unlink"):
            stack.enter_context(mock.patch.object(os, name, watched(getattr(os, name))))
        yield


def _content(path: Path) -> str | None:
    return path.read_text() if path.exists() else None
