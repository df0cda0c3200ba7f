"""What a student wrote between the cells cannot run in the browser of whoever grades it."""

from __future__ import annotations

import pytest
from nbconvert.filters import markdown2html

from helpers.grading.judge.written import disarm

ATTACKS = [
    "<script>x</script>",
    "<img src=x onerror=x>",
    "<SVG/onload=x>",
    "a <b onclick=x>b</b> <!-- c --> <?php ?>",
    "[a](javascript:x)",
    "[a]( JavaScript :x)",
    "[a](&#106;avascript:x)",
    "[a](java&Tab;script:x)",
    "[a](javascript&colon;x)",
    "[a](<javascript:x>)",
    "[a]\n\n[a]: javascript:x",
    "[a][1]\n\n[1]:\n  javascript:x",
    "![a](javascript:x)",
    "<javascript:x>",
    r"$\href{javascript:x}{a}$",
    "[a](data:text/html;base64,PHNjcmlwdD4=)",
]


@pytest.mark.parametrize("text", ATTACKS)
def test_nothing_that_runs_is_left(text: str) -> None:
    html = str(markdown2html(disarm(text))).lower()
    for part in ("<script", "<img src=x", "<svg", "<b ", "<!--", 'href="javascript', "href{"):
        assert part not in html, html
    assert 'src="javascript' not in html
    assert 'href="data' not in html


def test_a_raw_cell_is_shown_as_it_is() -> None:
    html = str(markdown2html(disarm("<script>x</script>\n# no heading", raw=True)))
    assert "&lt;script&gt;" in html
    assert "<h1" not in html


@pytest.mark.parametrize(
    "text", ["# Title\n\n- a\n- **b**", "$a < b$ and `x<3`", "[a](https://x.y)"]
)
def test_an_honest_text_stays_as_it_is(text: str) -> None:
    assert disarm(text) == text
