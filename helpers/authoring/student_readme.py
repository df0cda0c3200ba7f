"""The students' README, made from the repository's: what concerns them, and no dead ends.

It rests on what stands above the first level-2 heading and on the sections in ``SECTIONS``. A
picture that the students' copy lacks is left out, and of a link that leads nowhere there the text
stays. A sentence, an item or a line of code that names a ``make`` command they lack is left out.
"""

from __future__ import annotations

import itertools
import posixpath
import re
from collections.abc import Collection, Iterator

from markdown_it.token import Token

from helpers.authoring.markdown import HTML_TARGET, link_targets, parse

SECTIONS = ("Start", "Chapters", "License")
_PICTURE = re.compile(r"!\[[^\]]*\]\(\s*([^)\s]+)[^)]*\)")
_LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|!\[[^\]]*\]\([^)]*\))*)\]\(\s*([^)\s]+)[^)]*\)")
_MAKE = re.compile(r"^\s*(?:\$ +)?make ([a-z][a-z-]*)")
_MAKE_IN_TEXT = re.compile(r"`make ([a-z][a-z-]*)[^`]*`")
_SENTENCE = re.compile(r".+?(?:[.!?]\s+|$)", re.DOTALL)
_ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:|//", re.IGNORECASE)


class ReadmeError(ValueError):
    """A README that no students' README can be made from; the message says what it lacks."""


def make_student_readme(readme: str, files: Collection[str], targets: Collection[str]) -> str:
    """Return the students' README.

    Args:
        readme: the repository's.
        files: the paths of all files in the students' copy, from its root, with slashes.
        targets: what can be typed after ``make`` there.

    Raises:
        ReadmeError: a section is missing, or a link leads out of the students' copy in a form
            that is not understood here.
    """
    lines = readme.splitlines()
    parts = list(_kept_lines(readme, lines))
    anchors = {_anchor(title) for title in _titles("\n".join(parts))}
    blocks = (block for part in parts for block in _blocks(part, targets))
    kept = (_without_dead_ends(block, files, anchors).rstrip() for block in blocks)
    text = "\n\n".join(block for block in kept if block)
    for target in link_targets(text):
        if not _leads_somewhere(target, files, anchors):
            raise ReadmeError(
                f"README.md: {target} is not in the students' copy, and the link to it cannot be "
                f"taken out by itself: write it as [text]({target}), or move it to a section that "
                f"is not for students"
            )
    return text.rstrip() + "\n"


def _kept_lines(readme: str, lines: list[str]) -> Iterator[str]:
    """Yield the text above the first level-2 heading, then each section that students get."""
    tokens = parse(readme)
    headings = [
        (token.map[0], tokens[index + 1].content)
        for index, token in enumerate(tokens)
        if token.type == "heading_open" and token.tag == "h2" and token.level == 0
    ]
    titles = [title for _, title in headings]
    for wanted in SECTIONS:
        if titles.count(wanted) != 1:
            raise ReadmeError(
                f'README.md has {titles.count(wanted) or "no"} headings "## {wanted}", and the '
                f"students' README is made from one: give that section this name again"
            )
    ends = [start for start, _ in headings[1:]] + [len(lines)]
    yield "\n".join(lines[: headings[0][0]])
    for (start, title), end in zip(headings, ends, strict=True):
        if title in SECTIONS:
            yield "\n".join(lines[start:end])


def _titles(text: str) -> list[str]:
    tokens = parse(text)
    pairs = itertools.pairwise(tokens)
    return [after.content for token, after in pairs if token.type == "heading_open"]


def _anchor(title: str) -> str:
    """Return a heading's anchor, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def _blocks(part: str, targets: Collection[str]) -> Iterator[str]:
    """Yield a part's blocks of Markdown, without what names commands that are not there."""
    lines = part.splitlines()
    for token in parse(part):
        if token.level or token.map is None:
            continue
        block = lines[slice(*token.map)]
        if token.type == "fence":
            kept = [line for line in block if _are_known(_MAKE.findall(line), targets)]
            if len(kept) > 2:
                yield "\n".join(kept)
        elif token.type in ("bullet_list_open", "ordered_list_open"):
            items = _items(part, token)
            kept = [item for item in items if _are_known(_MAKE_IN_TEXT.findall(item), targets)]
            yield "\n".join(kept)
        elif token.type == "paragraph_open":
            sentences = _SENTENCE.findall("\n".join(block))
            yield "".join(s for s in sentences if _are_known(_MAKE_IN_TEXT.findall(s), targets))
        elif _are_known(_MAKE_IN_TEXT.findall("\n".join(block)), targets):
            yield "\n".join(block)


def _items(part: str, of_list: Token) -> list[str]:
    lines = part.splitlines()
    first, end = of_list.map
    return [
        "\n".join(lines[slice(*token.map)]).rstrip()
        for token in parse(part)
        if token.type == "list_item_open" and token.level == 1 and first <= token.map[0] < end
    ]


def _are_known(commands: list[str], targets: Collection[str]) -> bool:
    return set(commands) <= set(targets)


def _without_dead_ends(block: str, files: Collection[str], anchors: Collection[str]) -> str:
    if block.startswith("```"):
        return block
    if block.lstrip().startswith("<"):
        dead = [t for t in HTML_TARGET.findall(block) if not _leads_somewhere(t, files, anchors)]
        return "" if dead else block

    def picture(match: re.Match) -> str:
        return match[0] if _leads_somewhere(match[1], files, anchors) else ""

    def link(match: re.Match) -> str:
        alive = match[1].strip() and _leads_somewhere(match[2], files, anchors)
        return match[0] if alive else match[1]

    return _LINK.sub(link, _PICTURE.sub(picture, block))


def _leads_somewhere(target: str, files: Collection[str], anchors: Collection[str]) -> bool:
    if _ELSEWHERE.match(target):
        return True
    path, _, anchor = target.partition("#")
    if not path:
        return anchor in anchors
    path = posixpath.normpath(path)
    return path in files or any(file.startswith(path + "/") for file in files)
