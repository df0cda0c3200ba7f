"""The badges of the README's table of chapters: made, since the address stands in book.toml."""

from __future__ import annotations

import re
from pathlib import Path

from helpers.authoring.launches import find_launches
from helpers.authoring.settings import repository_address

_ROW = re.compile(
    r"^(?P<row>\| \d\d \| \[(?P<title>[^\]]+)\]\((?P<notebook>course/release/[^)]+)\)"
    r"(?:[^|]*\|){2}).*$",
    re.MULTILINE,
)
_COLAB_BADGE = "https://colab.research.google.com/assets/colab-badge.svg"
_BINDER_BADGE = "https://mybinder.org/badge_logo.svg"


def with_badges(root: Path) -> str:
    """Return the text of ``root``'s README with a Colab and a Binder badge beside each chapter.

    Raises:
        SettingsError: book.toml does not set the repository's address.
        LaunchError: Colab and Binder cannot use the address.
    """
    repository = repository_address(root)

    def badged(row: re.Match[str]) -> str:
        launches = find_launches(repository, row["notebook"])
        return (
            f"{row['row']} [![{row['title']} in Colab]({_COLAB_BADGE})]({launches.colab})"
            f" [![{row['title']} in Binder]({_BINDER_BADGE})]({launches.binder}) |"
        )

    return _ROW.sub(badged, (root / "README.md").read_text(encoding="utf-8"))
