"""The report's pages: templates, and how they are filled in.

A page is one file that asks for nothing: its policy allows its own style and embedded pictures
alone, and on the instructor's page the one script of ours that sorts the table. All that is filled
in goes through ``visible`` and is escaped; only ``Markup`` is not, and only
``helpers.grading.shown`` makes that of students' words.
"""

from __future__ import annotations

import base64
import functools
import hashlib
from importlib import resources

import jinja2
from markupsafe import Markup

from helpers.grading.shown import visible

# What is longer was cut, with a word on it, where the page was put together.
_MOST = 50_000


def render(template: str, **content: object) -> bytes:
    """Return the page that ``template`` and ``content`` give."""
    return _environment().get_template(template).render(**content).encode()


@functools.cache
def _environment() -> jinja2.Environment:
    style, script = _read("style.css"), _read("sort.js")
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("helpers.grading.report", "pages"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_show,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"style": Markup(style), "style_hash": _hash(style)}
    environment.globals |= {"sort_script": Markup(script), "sort_hash": _hash(script)}
    return environment


def _read(name: str) -> str:
    return resources.files(__name__).joinpath(name).read_text(encoding="utf-8").strip()


def _hash(text: str) -> str:
    """Return what a page's policy calls ``text`` by."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _show(value: object) -> object:
    return value if isinstance(value, Markup) else visible(str(value), _MOST)
