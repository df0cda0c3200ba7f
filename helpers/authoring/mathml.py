"""Turn the ``$...$`` and ``$$...$$`` of a Markdown text into MathML.

A browser draws MathML without a script and without the network. The conversion happens while the
book is built, so that a formula nobody can read stops the build instead of reaching a reader.
"""

from __future__ import annotations

import html
import re
import string

from math_core import LatexError, LatexToMathML

# What is code, a comment or an escaped character is matched first, and so never read as math.
_MARKDOWN = re.compile(
    r"""
      ^(?:[ \t>]|[-*+][ ]|\d+[.)][ ])*(?P<fence>`{3,}|~{3,})[^`\n]*\n
        .*?(?:^[ \t>]*(?P=fence)[`~]*[ \t]*$|\Z)
    | (?<!`)(?P<ticks>`+)(?!`)(?:(?!\n[ \t]*\n).)+?(?<!`)(?P=ticks)(?!`)
    | <!--.*?-->
    | (?P<display>\$\$(?P<block>(?:\\.|[^$\\])*)\$\$)
    | (?P<unclosed>\$\$)
    | \\.
    | \$(?P<inline>(?![\s$])(?:\\.|[^$\\\n]|\n(?![ \t]*\n))+?(?<!\s))\$(?!\d)
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_QUOTE_MARKS = re.compile(r"^[ \t]*(?:>[ \t]?)+", re.MULTILINE)
_TEXT_NODE = re.compile(r">([^<]+)<")
_TAG = re.compile(r"<[^>]+>")
# A browser breaks no line inside a formula: a longer one has to scroll by itself.
_LONGEST_ON_A_PHONE = 24
_MARKDOWN_PUNCTUATION = frozenset(string.punctuation + "\n")


class FormulaError(ValueError):
    """A formula that cannot be converted; the message names the place and the formula."""


def convert_math(markdown: str, where: str) -> str:
    """Return ``markdown`` with every formula replaced by MathML.

    Code spans, fenced code, comments and an escaped ``\\$`` stay as they are. An inline formula
    follows pandoc's rule: no space inside the dollar signs, no digit behind the closing one.

    Raises:
        FormulaError: a formula cannot be converted; ``where`` says in which text it stands.
    """

    def replace(match: re.Match[str]) -> str:
        if match["unclosed"]:
            raise FormulaError(f"{where}: an opening $$ has no closing $$; add it or write \\$\\$.")
        if match["display"]:
            latex = _without_quote_marks(match)
            return f'<span class="math-block">{formula_to_mathml(latex, True, where)}</span>'
        if match["inline"]:
            mathml = formula_to_mathml(match["inline"], False, where)
            long = len(html.unescape(_TAG.sub("", mathml))) > _LONGEST_ON_A_PHONE
            return f'<span class="math-long">{mathml}</span>' if long else mathml
        return match[0]

    return _MARKDOWN.sub(replace, markdown)


def formula_to_mathml(latex: str, display: bool, where: str) -> str:
    """Convert one LaTeX formula to one line of MathML that Markdown leaves alone.

    Raises:
        FormulaError: the formula is empty, or is no LaTeX that the converter knows.
    """
    latex = " ".join(latex.split())
    if not latex:
        raise FormulaError(
            f"{where}: a formula between dollar signs is empty; write it or remove it."
        )
    try:
        mathml = LatexToMathML(fancy_error=False).convert_with_local_state(
            latex, displaystyle=display
        )
    except LatexError as error:
        reason = str(error).partition(": ")[2].rstrip(".")
        raise FormulaError(
            f"{where}: the formula ${latex}$ cannot be converted to MathML: {reason}."
        ) from error
    return _TEXT_NODE.sub(lambda match: f">{_shield(match[1])}<", mathml)


def _without_quote_marks(formula: re.Match[str]) -> str:
    line_start = formula.string.rfind("\n", 0, formula.start()) + 1
    in_quote = _QUOTE_MARKS.match(formula.string, line_start, formula.start())
    return _QUOTE_MARKS.sub("", formula["block"]) if in_quote else formula["block"]


def _shield(text: str) -> str:
    # Markdown is still read between inline HTML tags: an entity has no meaning to it.
    return "".join(
        f"&#{ord(character)};" if character in _MARKDOWN_PUNCTUATION else character
        for character in html.unescape(text)
    )
