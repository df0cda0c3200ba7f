"""Where Colab and Binder open a notebook of a repository on GitHub."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote

_REPOSITORY = re.compile(r"https://github\.com/(?P<slug>[\w.-]+/[\w.-]+?)(?:\.git)?/?")


class LaunchError(ValueError):
    """A repository that Colab and Binder cannot open; the message says what is to be changed."""


@dataclass(frozen=True)
class Launches:
    """The two addresses of one notebook."""

    colab: str
    binder: str


def find_launches(repository: str, notebook: str) -> Launches:
    """Return where the notebook opens with one click.

    Args:
        repository: its address on GitHub.
        notebook: the notebook's path in it, with slashes.

    Raises:
        LaunchError: the address is not one of GitHub's.

    Source: Colab's notebook "Using Google Colab with GitHub"; Binder's documentation, "URL
    parameters".
    """
    match = _REPOSITORY.fullmatch(repository)
    if not match:
        raise LaunchError(
            f"git-repository-url in book.toml is {repository!r}; Colab and Binder need an address"
            " of the form https://github.com/OWNER/NAME."
        )
    slug = match["slug"]
    return Launches(
        colab=f"https://colab.research.google.com/github/{slug}/blob/main/{quote(notebook)}",
        binder=f"https://mybinder.org/v2/gh/{slug}/HEAD?labpath={quote(notebook, safe='')}",
    )
