"""American English, spelled right: in what students and instructors read, and beside the code.

Hunspell knows the words of American English, accepted_words.txt those that it lacks. typos looks
at everything else: names in code, scripts, styles.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sysconfig
import tokenize
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import jupytext
import pytest
from course_files import EXERCISES, ROOT

from helpers.authoring.links import plain_words

ACCEPTED = ROOT / "tests" / "accepted_words.txt"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "course" / "book").glob("*.md")])
TEXTS = sorted((ROOT / "course" / "chapters").glob("*.py"))
CODE = sorted(
    file
    for folder in ("helpers", "tests", "benchmarks")
    for file in (ROOT / folder).rglob("*.py")
    if not {"exercises", "attacks"} & set(file.parts)
)

_FORMULA = re.compile(r"\$\$.+?\$\$|\$(?!\s)[^$\n]+?(?<!\s)\$(?!\d)", re.DOTALL)
_QUOTED_CODE = re.compile(r"(`+).+?\1|\$?\{[^}]*\}|https?://\S+|^\s*(?:>>>|::).*$", re.DOTALL)
# Whole words of Latin letters: no part of a name in code, of a number, of an abbreviation.
_WORD = re.compile(r"(?<![\w.@/\\%<#-])[^\W\d_]+(?:['’][^\W\d_]+)*(?![\w(/@\\=]|\.\w|['’]\w)")
_LATIN = re.compile(r"[A-Za-zÀ-ž'’]{2,}")
# What a call says to the reader.
_SAID = ("alt", "caption", "title", "what", "label")
_NAME_IN_CODE = re.compile(r".*[a-z][A-Z]|[A-Z]{2,}")


def words_of(prose: str) -> Iterator[str]:
    """Yield the words of a text that is not Markdown, without names in code."""
    for match in _WORD.finditer(_QUOTED_CODE.sub(" ", prose)):
        word = match[0].replace("’", "'").removesuffix("'s")
        if _LATIN.fullmatch(word) and not _NAME_IN_CODE.match(word):
            yield word


def words_of_markdown(text: str) -> Iterator[str]:
    for piece in plain_words(_FORMULA.sub(" ", text)):
        yield from words_of(piece)


def words_of_python(file: Path) -> Iterator[str]:
    """Yield the words of the docstrings and the comments."""
    code = file.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from words_of(ast.get_docstring(node) or "")
    for token in tokenize.generate_tokens(io.StringIO(code).readline):
        if token.type == tokenize.COMMENT:
            yield from words_of(token.string.removeprefix("#"))


def words_of_chapter(file: Path) -> Iterator[str]:
    """Yield the words of the prose, and of what checks, figures and comments say."""
    for cell in jupytext.read(file, fmt="py:percent").cells:
        if cell.cell_type == "markdown":
            yield from words_of_markdown(cell.source)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a formula's backslashes are no escapes
        tree = ast.parse(file.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield from _words_of_sentences(node)


def _words_of_sentences(call: ast.Call) -> Iterator[str]:
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    said = [k.value for k in call.keywords if k.arg in _SAID]
    said += call.args[:1] if name in ("property", "print", "set_title") else []
    for value in said:
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield from words_of(value.value)


@cache
def written() -> dict[Path, set[str]]:
    """Return the words of every file."""
    found = {page: set(words_of_markdown(page.read_text("utf-8"))) for page in PAGES}
    found |= {file: set(words_of_python(file)) for file in CODE}
    found |= {file: set(words_of_chapter(file)) for file in TEXTS}
    for exercise in EXERCISES:
        file = ROOT / "course" / "chapters" / f"{exercise.chapter.replace('-', '_')}.py"
        found[file] |= {word for hint in exercise.hints for word in words_of_markdown(hint)}
    return found


def unknown(words: set[str]) -> set[str]:
    """Return those of ``words`` that are no American English."""
    command = ["hunspell", "-l", "-d", "en_US", "-i", "utf-8"]
    text = "\n".join(sorted(words))
    run = subprocess.run(command, input=text, capture_output=True, text=True)
    if "Can't open" in run.stderr:
        pytest.skip("hunspell has no dictionary en_US here")
    return set(run.stdout.split())


def accepted() -> list[str]:
    return ACCEPTED.read_text(encoding="utf-8").split()


def lines_with(word: str, file: Path) -> list[int]:
    whole = re.compile(rf"(?<!\w){re.escape(word)}(?!\w)")
    lines = file.read_text(encoding="utf-8").splitlines()
    return [number for number, line in enumerate(lines, start=1) if whole.search(line)]


@pytest.mark.needs_system("hunspell")
@pytest.mark.needs_system("hunspell-en-us")
def test_every_word_is_american_english_or_accepted() -> None:
    fine = set(accepted())
    wrong = {
        word
        for word in unknown(set().union(*written().values()))
        if fine.isdisjoint((word, word[0].lower() + word[1:]))
    }
    places = [
        f"{file.relative_to(ROOT)}:{','.join(map(str, lines_with(word, file)))}: {word}"
        for file, words in written().items()
        for word in sorted(words & wrong)
    ]
    assert places == []


@pytest.mark.needs_system("hunspell")
@pytest.mark.needs_system("hunspell-en-us")
def test_british_spelling_and_slips_are_found() -> None:
    text = "The `colour` behaviour of normalise()\n\n- is *recieved*, and `x` normalised in $grey$"
    assert unknown(set(words_of_markdown(text))) == {"behaviour", "recieved", "normalised"}


def test_accepted_words_are_sorted_and_each_is_used() -> None:
    listed = accepted()
    assert listed == sorted(set(listed), key=lambda word: (word.casefold(), word))
    assert sorted(set(listed).difference(*written().values())) == []


def slips(folder: Path) -> list[str]:
    """Return what typos finds in the files below ``folder``."""
    typos = Path(sysconfig.get_path("scripts"), "typos")
    command = [typos, "--config", ROOT / "tests" / "typos.toml", "--format", "brief"]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert run.stderr == ""
    return run.stdout.splitlines()


def test_names_and_scripts_are_spelled_right() -> None:
    assert slips(ROOT) == []


def test_a_slip_in_a_name_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("recieved_colour = 1\n")
    found = "\n".join(slips(tmp_path))
    assert re.findall(r"error: `(\w+)`", found) == ["recieved", "colour"]
