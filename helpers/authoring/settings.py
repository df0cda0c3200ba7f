"""The repository's own settings: its address stands once, in ``book.toml``."""

from __future__ import annotations

import tomllib
from pathlib import Path
from urllib.parse import urlsplit


class SettingsError(ValueError):
    """A setting that is missing or cannot be used; the message says where and why."""


def repository_address(root: Path) -> str:
    """Return the repository's address, ``https://HOST/OWNER/NAME``, from ``root``'s book.toml.

    Raises:
        SettingsError: if the file or the setting is missing.
    """
    file = root / "book.toml"
    try:
        settings = tomllib.loads(file.read_text(encoding="utf-8"))
        return settings["output"]["html"]["git-repository-url"].rstrip("/")
    except FileNotFoundError:
        raise SettingsError(f"{file} is missing: it sets the repository's address") from None
    except (KeyError, AttributeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(
            f"{file}: output.html.git-repository-url is not set ({error})"
        ) from None


def is_unset(address: str) -> bool:
    """Return whether ``address`` is the one that a repository has before its owner sets it.

    An account's name cannot hold the underscore that stands there.
    """
    return "_" in urlsplit(address).path.strip("/").partition("/")[0]
