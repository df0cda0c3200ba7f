"""Code as a row of words that two people write alike only if they write the same program.

Comments, docstrings, layout and white space do not count, and every name that the code binds
itself is the same word: who renames a copy's variables changes nothing.
"""

from __future__ import annotations

import ast
import io
import keyword
import tokenize
import warnings
from collections.abc import Iterator

# The longest answer of the course has 440. What is beyond costs time and tells no more.
MOST_WORDS = 600
MOST_CHARACTERS = 20_000
_OWN_NAME = "·name"
_TEXT = "·text"
_SILENT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
    tokenize.ERRORTOKEN,
}
_LAYOUT = {tokenize.NEWLINE: "·line", tokenize.INDENT: "·in", tokenize.DEDENT: "·out"}
_BEFORE_STATEMENT = {"", *_LAYOUT.values()}
# Since Python 3.12 an f-string is several tokens; these are parts of its text.
_STRINGS = {
    getattr(tokenize, name)
    for name in ("STRING", "FSTRING_START", "FSTRING_MIDDLE", "FSTRING_END")
    if hasattr(tokenize, name)
}


def read_words(code: str) -> tuple[str, ...]:
    """Return the words of ``code``, at most ``MOST_WORDS``; none where nobody could compare them.

    That is code of more than ``MOST_CHARACTERS``. Code that is not Python is read as far as it is.
    """
    if len(code) > MOST_CHARACTERS:
        return ()
    own = _own_names(code)
    words: list[str] = []
    for word in _without_docstrings(_words(code, own)):
        words.append(word)
        if len(words) == MOST_WORDS:
            break
    return tuple(words)


def _words(code: str, own: frozenset[str]) -> Iterator[str]:
    try:
        for token in tokenize.generate_tokens(io.StringIO(code).readline):
            if token.type in _SILENT:
                continue
            if token.type in _LAYOUT:
                yield _LAYOUT[token.type]
            elif token.type in _STRINGS:
                yield _TEXT
            elif token.type == tokenize.NAME and token.string in own:
                yield _OWN_NAME
            else:
                yield token.string
    except (tokenize.TokenError, SyntaxError, ValueError):
        return


def _without_docstrings(words: Iterator[str]) -> Iterator[str]:
    """Leave out a text that is a statement of its own, and the end of its line."""
    before, held = "", False
    for word in words:
        if held and word == _LAYOUT[tokenize.NEWLINE]:
            held = False
            continue
        if held:
            yield _TEXT
            held = False
        if word == _TEXT and before in _BEFORE_STATEMENT:
            held = True
        else:
            yield word
        before = word


def _own_names(code: str) -> frozenset[str]:
    """Return the names and attributes that ``code`` binds; none if it cannot be parsed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what the compiler remarks is the student's affair
            tree = ast.parse(code)
        return frozenset(name for name in _bound(tree) if not keyword.iskeyword(name))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()


def _bound(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.ClassDef(name=name):
                yield name
            case ast.arg(arg=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store()):
                yield name
            case ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
            case ast.ExceptHandler(name=str(name)):
                yield name
            case ast.alias(asname=str(name)):
                yield name
