"""What students write between the cells, as Markdown that is safe to look at.

nbgrader's formgrader, its feedback and nbconvert show a text with all the HTML in it, in the
browser of whoever grades. So nbconvert's own parser says here what a text becomes there. A text
that becomes words, formulas, pictures and links to the web stays as it is, to the letter. In the
place of any other stands what it becomes, put through nh3, which keeps a known set of HTML.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote

import nh3
from markupsafe import Markup
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from pygments.token import STANDARD_TYPES

from helpers.grading.characters import clean
from helpers.grading.shown import embed_picture

MOST_CHARACTERS = 10_000
"""Of one text: parsing takes at worst half a second for it."""

_MOST_HTML = 300_000
_MOST_OF_OURS = 16 * 2**20
_MOST_PICTURE_BYTES = 5 * 2**20  # a photograph of a page written by hand
_MOST_NOTES = 3
_OPENING = '<div class="bits-text">'
_ATTACHED = "attachment:"
_ADDRESSES = ("http://", "https://", "mailto:", "#")
_PICTURES = tuple(f"data:image/{kind};base64," for kind in ("png", "jpeg", "gif", "webp"))
# What MathJax takes for a link, for a style or for leave to load more; a name ends at a non-letter.
_ARMED_TEX = re.compile(
    r"\\(?:href|cssId|class|style|require|unicode|bbox|mmlToken|data)(?![A-Za-z])"
)
_TAGS = (
    "a b blockquote br caption center code col colgroup dd del details div dl dt em font h1 h2 h3 "
    "h4 h5 h6 hr i img input ins kbd li mark ol p pre q s samp small span strike strong sub "
    "summary sup table tbody td tfoot th thead tr tt u ul var"
)
_ATTRIBUTES = {
    "a": {"href", "title"},
    "details": {"open"},
    "font": {"color"},
    "img": {"src", "alt", "title", "width", "height"},
    "input": {"checked"},
    "ol": {"start"},
    **{tag: {"style", "align", "colspan", "rowspan"} for tag in ("td", "th")},
    **{tag: {"style", "align"} for tag in ("div", "p", "table", "tr")},
    "span": {"style"},
}
_STYLES = {
    *("color", "background-color", "font-family", "font-size", "font-style", "font-weight"),
    *("text-align", "text-decoration"),
}


_CODE_CLASSES = {name for name in STANDARD_TYPES.values() if name}
_IN_ONE_LINE = {ord(c): f"&#{ord(c)};" for c in "\n\v\f\r\x85\u2028\u2029["}

Pictures = Mapping[str, Mapping[str, str]]
"""The pictures that were pasted into a text, in Base64, by name and by MIME type."""


@dataclass
class Room:
    """How much may still be kept of one submission's texts, and of the pictures in them."""

    characters: int = 300_000
    picture_bytes: int = 10 * 2**20


@dataclass(frozen=True)
class Shown:
    """A text as it may be shown, and those of its pictures that it shows.

    Attributes:
        notes: what was left out, and why.
    """

    text: str
    pictures: Pictures = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def disarm(text: str, pictures: Pictures | None = None, room: Room | None = None) -> Shown:
    """Return a student's Markdown so that any program can show it to others.

    Args:
        text: Markdown, or anything.
        pictures: what was pasted into it.
        room: what may be kept; what is kept is taken off.
    """
    room = room or Room()
    text, left = _take(text, room)
    renderer = _Renderer(pictures or {}, room.picture_bytes)
    rendered = _render(text, renderer)
    room.picture_bytes -= renderer.embedded
    notes = (*renderer.notes, *left)
    if renderer.is_harmless and not left and not _ARMED_TEX.search(html.unescape(rendered)):
        return Shown(text, renderer.shown, notes)
    safe = _sanitize(text, rendered, renderer.embedded)
    return Shown(
        _as_one_block(safe + "".join(f"<p><b>[{note}]</b></p>" for note in left)), {}, notes
    )


def disarm_raw(text: str, room: Room | None = None) -> Shown:
    """Return a text that is no Markdown as Markdown that shows it letter by letter."""
    text, left = _take(text, room or Room())
    whole = "\n".join([text, *(f"[{note}]" for note in left)])
    return Shown(_as_one_block(_as_plain_text(whole)), {}, left)


def render_markdown(text: str, pictures: Pictures | None = None) -> Markup:
    """Return a text as HTML for a page of ours, which asks nobody else for pictures."""
    if text.startswith(_OPENING):  # it was made here
        return Markup(_clean_html(text[:_MOST_OF_OURS], remote=False))
    text, left = _take(text, Room())
    renderer = _Renderer(pictures or {}, Room().picture_bytes, remote=False)
    safe = _sanitize(text, _render(text, renderer), renderer.embedded, remote=False)
    return Markup(safe + _as_lines(left))


def _take(text: str, room: Room) -> tuple[str, tuple[str, ...]]:
    """Return the beginning of a text for which there is room, and a note on the rest if any."""
    text = clean(text.replace("\r\n", "\n"))
    kept = text[: min(MOST_CHARACTERS, room.characters)]
    room.characters -= len(kept)
    left = len(text) - len(kept)
    return kept, (f"{left:,} characters of a long text are left out here",) if left else ()


def _render(text: str, renderer: _Renderer) -> str:
    """Return the HTML that nbconvert makes of a text."""
    try:
        return MarkdownWithMath(renderer=renderer).render(text)
    except Exception:  # a parser by others on a text by anybody: then it is shown as it is
        renderer.is_harmless = False
        return _as_plain_text(text)


def _sanitize(text: str, rendered: str, embedded: int, *, remote: bool = True) -> str:
    safe = _clean_html(rendered, remote=remote)
    # A few kilobytes of tags that are never closed can come to a thousand times as much.
    return safe if len(safe) <= _MOST_HTML + embedded else _as_plain_text(text)


def _clean_html(rendered: str, *, remote: bool) -> str:
    def keep(tag: str, name: str, value: str) -> str | None:
        if (tag, name) == ("a", "href"):
            return value if _is_alive(value) else None
        if (tag, name) == ("img", "src"):
            is_kept = value.startswith(_PICTURES) or (remote and _is_alive(value))
            return value if is_kept else None
        return value

    safe = nh3.clean(
        rendered,
        tags=set(_TAGS.split()),
        attributes=_ATTRIBUTES,
        attribute_filter=keep,
        url_schemes={"http", "https", "mailto", "data"},
        allowed_classes={"div": {"highlight"}, "span": _CODE_CLASSES},
        set_tag_attribute_values={"input": {"type": "checkbox", "disabled": ""}},
        filter_style_properties=_STYLES,
        link_rel="noopener noreferrer nofollow",
    )
    return _ARMED_TEX.sub(r"\\text", safe)  # behind it: what was taken out may have split a name


def _is_alive(address: str) -> bool:
    """Return whether a link leads to where links may lead.

    What does not begin with a scheme is none of these: nbconvert takes "files/" off its beginning.
    """
    return address[:8].lower().startswith(_ADDRESSES)


def _as_plain_text(text: str) -> str:
    return f"<pre>{html.escape(text)}</pre>"


def _as_lines(notes: tuple[str, ...]) -> str:
    return "".join(f"<p><b>[{html.escape(note)}]</b></p>" for note in notes)


def _as_one_block(safe: str) -> str:
    """Return HTML as a text in which no parser of Markdown finds anything but this HTML.

    It ends with its line. A bracket begins what looks like a link to nbconvert's last filter.
    """
    return f"{_OPENING}{safe.translate(_IN_ONE_LINE)}</div>"


class _Renderer(IPythonRenderer):
    """nbconvert's own, which sees whether it makes anything else than words and live links.

    Attributes:
        is_harmless: whether it did not.
        shown: the attachments that are shown.
        embedded: the size of these, counted once for each time.
        notes: what cannot be shown.
    """

    def __init__(self, pictures: Pictures, most: int, *, remote: bool = True) -> None:
        super().__init__(escape=False, exclude_anchor_links=True)
        self.is_harmless = True
        self.shown: dict[str, dict[str, str]] = {}
        self.embedded = 0
        self.notes: list[str] = []
        self._pasted = pictures
        self._most = most
        self._remote = remote

    def block_html(self, html: str) -> str:
        self.is_harmless = False
        return super().block_html(html)

    def inline_html(self, html: str) -> str:
        self.is_harmless = False
        return super().inline_html(html)

    def block_mermaidjs(self, code: str) -> str:
        # nbconvert copies it into the page as it is, for a script from elsewhere.
        self.is_harmless = False
        return super().block_code(code)

    def link(self, text: str, url: str, title: str | None = None) -> str:
        self.is_harmless &= _is_alive(url)
        return super().link(text, url, title)

    def image(self, text: str, url: str, title: str | None = None) -> str:
        if url.startswith(_ATTACHED):
            return self._attached(text, url.removeprefix(_ATTACHED), title)
        if not (url.startswith(_PICTURES) or (self._remote and _is_alive(url))):
            self.is_harmless = False
            return text
        return super().image(text, url, title)

    def _attached(self, text: str, name: str, title: str | None) -> str:
        if name not in self._pasted:
            self.is_harmless = False  # nbconvert looks for this name alone
            name = unquote(name)
        found = _find_picture(self._pasted.get(name, {}))
        if found is None or self.embedded + len(found[1]) > self._most:
            return self._cannot_show(name)
        kind, address = found
        self.embedded += len(address)
        self.shown[name] = {kind: self._pasted[name][kind]}
        return super().image(text, address, title)

    def _cannot_show(self, name: str) -> str:
        self.is_harmless = False
        why = "cannot be shown" if name in self._pasted else "is missing"
        note = f"the attached picture {clean(name[:100])} {why}"
        if len(self.notes) < _MOST_NOTES:
            self.notes.append(note)
        return f"<em>[{html.escape(note)}]</em>"


def _find_picture(kinds: Mapping[str, str]) -> tuple[str, str] | None:
    for kind, encoded in kinds.items():
        address = embed_picture(kind, encoded, _MOST_PICTURE_BYTES)
        if address:
            return kind, str(address)
    return None
