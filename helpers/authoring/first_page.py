"""What the book's first page has besides text: the bit explorer, and where the course opens."""

from __future__ import annotations

from pathlib import Path

from helpers.authoring.launches import LaunchError, find_launches
from helpers.authoring.notebooks import Chapter, PageError
from helpers.authoring.settings import is_unset
from helpers.explorables import stage
from helpers.explorables.bits import UnknownFormatError, draw_static, find_start


def render_bits(start: str) -> str:
    """Return the bit explorer as HTML that needs no kernel.

    Args:
        start: a number and a format, such as ``1.0004 float16``.

    Raises:
        PageError: ``start`` is something else.
    """
    try:
        number, format = start.split()
        value = float(number)
        state, drawn = find_start(value, format), draw_static(value, format)
    except (ValueError, UnknownFormatError) as error:
        raise PageError(
            f"{{{{#bits {start}}}}}: write {{{{#bits 0.1 float16}}}} ({error})."
        ) from error
    return f"{stage.set_up('bits', state, drawn)}\n\n{stage.start_script(['bits'])}"


def render_launches(course: Path, repository: str) -> str:
    """Return, as items of a Markdown list, where the first chapter opens without an installation.

    An address that its owner has not set yet leads nowhere, so nothing is returned for it.

    Raises:
        PageError: Colab and Binder cannot use the address, or the first chapter is missing.
    """
    if is_unset(repository):
        return ""
    first = min((course / "source").glob("[0-9][0-9]-*"), default=Path("00-")).name
    notebook = Chapter.find(course, first).release.relative_to(course.parent).as_posix()
    try:
        launches = find_launches(repository, notebook)
    except LaunchError as error:
        raise PageError(str(error)) from error
    return (
        f"- **In Colab**: [open the first chapter]({launches.colab}). You need a Google account and"
        " nothing else; save a copy to keep your work.\n"
        f"- **In Binder**: [open the first chapter]({launches.binder}). You need no account."
        " Binder takes some minutes to start and keeps nothing, so download your notebook before"
        " you leave."
    )
