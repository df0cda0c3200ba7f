"""The key of a result: a hash of everything that judging depends on."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import importlib.metadata
import json
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import helpers

_JUDGES = (".py", ".json", ".npz")  # what of our own decides on a grade
_LIBRARIES = ("torch", "numpy")


@functools.cache
def _environment() -> tuple[tuple[str, str], ...]:
    versions = [(name, importlib.metadata.version(name)) for name in _LIBRARIES]
    return (("course", _digest_of_code()), ("python", platform.python_version()), *versions)


def describe_environment() -> dict[str, str]:
    """Return what judges here: a hash of our own code, and the versions of what it stands on."""
    return dict(_environment())


def make_key(
    submission: str, refusal: str, assignment: str, settings: Any, environment: Mapping[str, str]
) -> str:
    """Return the key under which a result is kept.

    Args:
        submission: the SHA-256 of what was handed in.
        refusal: why it is not judged; "" if it is.
        assignment: the digest of what it is held to.
        settings: the judge's, a dataclass.
        environment: what ``describe_environment`` returns.
    """
    parts = {
        "submission": submission,
        "refusal": refusal,
        "assignment": assignment,
        "settings": dataclasses.asdict(settings),
        "environment": dict(environment),
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=repr).encode()).hexdigest()


def _digest_of_code() -> str:
    package = Path(helpers.__file__).parent
    digest = hashlib.sha256()
    files = (f for f in package.rglob("*") if f.suffix in _JUDGES and f.is_file())
    for file in sorted(f for f in files if not any(p.startswith(".") for p in f.parts[-2:])):
        digest.update(file.relative_to(package).as_posix().encode() + b"\0")
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()
