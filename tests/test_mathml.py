"""Formulas in Markdown become MathML that Markdown leaves alone."""

import string
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.authoring.mathml import FormulaError, convert_math, formula_to_mathml

WHERE = "Chapter 08-numerical-stability, cell 3"


def formula_tree(markdown: str) -> ElementTree.Element:
    """Return the one formula of ``markdown`` as the tree that a browser draws."""
    converted = convert_math(markdown, WHERE)
    start, end = converted.index("<math"), converted.index("</math>") + len("</math>")
    return ElementTree.fromstring(converted[start:end].replace("&ApplyFunction;", "&#8289;"))


def text_of(element: ElementTree.Element) -> str:
    return "".join(element.itertext())


def test_inline_formula_keeps_the_text_around_it():
    converted = convert_math("take $x_i$ of it", WHERE)
    assert converted.startswith("take <math><msub>")
    assert converted.endswith("</math> of it")


def test_display_formula_is_a_block():
    converted = convert_math("so\n\n$$\n\\frac{a}{b}\n$$\n\nthen", WHERE)
    assert '\n\n<span class="math-block"><math display="block"><mfrac>' in converted
    assert formula_tree("$$\\frac{a}{b}$$")[0].tag == "mfrac"


def test_aligned_lines_become_a_table():
    tree = formula_tree("$$\\begin{aligned} a &= b \\\\ c &= d \\end{aligned}$$")
    assert len(tree.findall(".//mtr")) == 2


def test_display_formula_in_a_block_quote_loses_the_quote_marks():
    assert text_of(formula_tree("> so\n>\n> $$\n> x + y\n> $$")) == "x+y"


def test_comparison_at_the_start_of_a_line_is_no_quote_mark():
    assert text_of(formula_tree("$$\nx\n> y\n$$")) == "x>y"


@pytest.mark.parametrize(
    "markdown",
    [
        "the variable `$PATH` and `$x$`",
        "``a ` b $x$``",
        "```bash\necho $HOME $x$\n```",
        "~~~\n$x$\n~~~",
        "- item\n  ```python\n  f'$x$'\n  ```",
        "```python\nan open fence $x$",
        "it costs \\$5 and \\$6",
        "it costs $5 and $6",
        "from 5$ to 6$",
        "US$5, US$6",
        "<!-- $x$ -->",
        "one $ alone",
        "across $a\n\nparagraphs$",
    ],
)
def test_what_is_no_formula_stays_as_it_is(markdown):
    assert convert_math(markdown, WHERE) == markdown


def test_formula_behind_code_is_converted():
    converted = convert_math("```\n$a$\n```\nand `$b$` and $c$", WHERE)
    assert converted.startswith("```\n$a$\n```\nand `$b$` and <math>")


@pytest.mark.parametrize(
    ("formula", "reason"),
    [
        ("$\\nosuch{x}$", 'Unknown command "\\nosuch"'),
        ("$\\frac{a$", "closing token"),
        ("$$\\begin{nosuch}x\\end{nosuch}$$", 'Unknown environment "nosuch"'),
        ("$a & b$", "table-like"),
        ("$a^b^c$", "superscript"),
    ],
)
def test_formula_that_cannot_be_converted_is_named(formula, reason):
    with pytest.raises(FormulaError) as caught:
        convert_math(f"text\n\n{formula}", WHERE)
    message = str(caught.value)
    assert message.startswith(f"{WHERE}: the formula ")
    assert formula.strip("$") in message
    assert reason in message
    assert "\n" not in message


def test_display_formula_without_an_end_is_an_error():
    with pytest.raises(FormulaError, match=r"cell 3: an opening \$\$ has no closing \$\$"):
        convert_math("$$\nx + y\n\nmore prose", WHERE)


def test_empty_formula_is_an_error():
    with pytest.raises(FormulaError, match="between dollar signs is empty"):
        convert_math("$$ $$", WHERE)


@given(st.text(alphabet=string.ascii_letters + string.digits + "*<>|!'()[]+-=/,.;:~", min_size=1))
def test_markdown_finds_nothing_to_read_in_a_formula(latex):
    try:
        mathml = formula_to_mathml(latex, False, WHERE)
    except FormulaError:
        return
    nodes = [piece.partition(">")[2] for piece in mathml.split("<")]
    for node in nodes:
        bare = "".join(part.partition(";")[2] for part in ("x;" + node).split("&#"))
        assert not set(bare) & set(string.punctuation), mathml
    tree = ElementTree.fromstring(mathml.replace("&ApplyFunction;", "&#8289;"))
    assert tree.tag == "math"


@given(st.text(alphabet="ab$`\\\n *_", max_size=40))
def test_text_without_a_dollar_is_untouched_and_nothing_crashes(text):
    without = text.replace("$", "")
    assert convert_math(without, WHERE) == without
    try:
        converted = convert_math(text, WHERE)
    except FormulaError:
        return
    if "<math" not in converted:
        assert converted == text


@given(st.text(alphabet="abc $`*_\n", max_size=30).filter(lambda text: "\n\n" not in text))
def test_a_fence_protects_whatever_it_holds(text):
    fenced = f"before\n\n~~~~\n{text}\n~~~~\n\nafter"
    assert convert_math(fenced, WHERE) == fenced
