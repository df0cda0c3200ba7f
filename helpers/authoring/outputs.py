"""Render the stored outputs of a code cell as HTML blocks that stand in Markdown."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from helpers.authoring.markdown import to_html

_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
_PREFORMATTED = re.compile(r"(<pre\b.*?</pre>)", re.DOTALL | re.IGNORECASE)
_BLANK_LINES = re.compile(r"\n(?:[ \t]*\n)+")
_WIDGET = "application/vnd.jupyter.widget-view+json"


class OutputError(ValueError):
    """An output in a form that the page has no way to show."""


def render_outputs(outputs: Sequence[Mapping[str, Any]]) -> str:
    """Return the outputs as HTML without a blank line, which would end the block in Markdown.

    Of a live widget, what stands for it on paper is shown; one that has nothing is left out.

    Raises:
        OutputError: an output has none of the forms HTML, SVG, PNG, JPEG, Markdown, plain text.
    """
    return "\n".join(_blocks(outputs))


def plain_text(text: str) -> str:
    """Return ``text`` as a terminal would leave it: no color codes, progress lines overwritten."""
    lines = _ANSI.sub("", text).replace("\r\n", "\n").split("\n")
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines).rstrip()


def _blocks(outputs: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for (kind, stream), group in groupby(outputs, key=_kind):
        if kind == "stream":
            text = "".join(output["text"] for output in group)
            yield from _text_block(text, "Warnings" if stream == "stderr" else "Output")
            continue
        for output in group:
            if kind == "error":
                yield from _text_block("\n".join(output["traceback"]), "Error")
            elif _WIDGET not in output["data"] or "text/html" in output["data"]:
                yield from _data_block(output["data"], output.get("metadata", {}))


def _kind(output: Mapping[str, Any]) -> tuple[str, str]:
    # Streams are stored in pieces; consecutive pieces of one stream are one text.
    return output["output_type"], output.get("name", "")


def _data_block(data: Mapping[str, str], metadata: Mapping[str, Any]) -> Iterator[str]:
    if "text/html" in data:
        body = data["text/html"]
        if play := metadata.get("bits", {}).get("play"):
            body = _with_slider(body, play)
        yield _frame(_without_blank_lines(body), "Output", "output-html")
    elif "image/svg+xml" in data:
        yield _frame(_without_blank_lines(data["image/svg+xml"]), "Output", "output-html")
    elif picture := next((mime for mime in ("image/png", "image/jpeg") if mime in data), None):
        alternative = html.escape(data.get("text/plain", "Figure"))
        source = f"data:{picture};base64,{''.join(data[picture].split())}"
        image = f'<figure><img src="{source}" alt="{alternative}"></figure>'
        yield _frame(_without_blank_lines(image), "Output", "output-html")
    elif "text/markdown" in data:
        # It stands below the title of the section's page.
        body = to_html(data["text/markdown"], below=1)
        yield _frame(_without_blank_lines(body), "Output", "output-html output-markdown")
    elif "text/plain" in data:
        yield from _text_block(data["text/plain"], "Output")
    else:
        raise OutputError(
            f"an output has only the form {', '.join(data) or 'of no data'};"
            " show it as HTML, as a picture or as text."
        )


def _with_slider(picture: str, play: Mapping[str, Any]) -> str:
    """Return ``picture`` with a slider, which a script of the book's shows and listens to."""
    positions, start = play["positions"], play["start"]
    kept = json.dumps(positions).replace("<", "\\u003c")
    return (
        f'<div class="play">{picture}\n<label hidden>{html.escape(play["label"])} '
        f'<input type="range" min="0" max="{len(positions) - 1}" value="{start}"> '
        f"<output>{html.escape(positions[start]['value'])}</output></label>\n"
        f'<script type="application/json">{kept}</script></div>'
    )


def _text_block(text: str, label: str) -> Iterator[str]:
    if shown := plain_text(text):
        escaped = html.escape(shown, quote=False).replace("\n", "&#10;")
        yield _frame(f"<pre>{escaped}</pre>", label, f"output-{label.lower()}")


def _frame(body: str, label: str, style: str) -> str:
    # A block that scrolls has to be reachable by the keyboard.
    return (
        f'<div class="output {style}" role="group" aria-label="{label}" tabindex="0">{body}</div>'
    )


def _without_blank_lines(body: str) -> str:
    parts = _PREFORMATTED.split(body.strip())
    for index, part in enumerate(parts):
        preformatted = index % 2 == 1
        parts[index] = part.replace("\n", "&#10;") if preformatted else _BLANK_LINES.sub("\n", part)
    return "".join(parts)
