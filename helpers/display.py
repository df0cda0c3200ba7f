"""Show something in a notebook with a text form for front ends that have no other."""

from __future__ import annotations

import re


def show(
    text: str, html: str, live: dict[str, dict] | None = None, metadata: dict | None = None
) -> None:
    """Show ``html`` where there is a display for it, else ``text``.

    Args:
        text: for front ends that have nothing else.
        html: for the others.
        live: what a front end that can shows instead: data by their MIME type.
        metadata: kept with the output, shown nowhere.
    """
    if not _in_ipython():
        print(text)
        return
    from IPython.display import display

    data = {"text/plain": text, "text/html": html, **(live or {})}
    display(data, raw=True, metadata=metadata)


def show_markdown(markdown: str) -> None:
    """Show ``markdown`` where there is a display for it, else its text without emphasis."""
    text = re.sub(r"\*+", "", markdown)
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
