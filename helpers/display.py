"""Show something in a notebook with a text form for front ends that have no other."""

from __future__ import annotations

import re
import sys


def show(
    text: str,
    html: str,
    live: dict[str, dict] | None = None,
    metadata: dict | None = None,
    terminal: str = "",
) -> None:
    """Show ``html`` where there is a display for it, else ``text``.

    Args:
        text: for front ends that have nothing else.
        html: for the others.
        live: what a front end that can shows instead: data by their MIME type.
        metadata: kept with the output, shown nowhere.
        terminal: the text with colors, for a terminal.
    """
    if not _in_ipython():
        print(terminal if terminal and sys.stdout.isatty() else text)
        return
    from IPython.display import display

    data = {"text/plain": text, "text/html": html, **(live or {})}
    display(data, raw=True, metadata=metadata)


def show_markdown(markdown: str) -> None:
    """Show ``markdown`` where there is a display for it, else its text without emphasis."""
    text = re.sub(r"(`[^`]*`)|\*+", lambda found: found[1] or "", markdown)
    if not _in_ipython():
        print(text)
        return
    from IPython.display import display

    display({"text/plain": text, "text/markdown": markdown}, raw=True)


def _in_ipython() -> bool:
    try:
        from IPython import get_ipython
    except ModuleNotFoundError:
        return False
    shell = get_ipython()
    return shell is not None and hasattr(shell, "kernel")
