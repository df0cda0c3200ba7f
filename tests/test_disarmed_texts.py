"""What a student wrote between the cells cannot run in the browser of whoever grades it."""

from __future__ import annotations

import base64
import html
import io
import time
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import nbformat
import pytest
from course_files import ROOT
from hypothesis import given
from hypothesis import strategies as st
from nbconvert import HTMLExporter
from nbconvert.filters import markdown2html, strip_files_prefix
from nbformat.v4 import new_markdown_cell, new_notebook
from PIL import Image

from helpers.grading.markdown import MOST_CHARACTERS, Room, disarm, disarm_raw, render_markdown

DEAD = [
    "<script>x</script>",
    "<img src=x onerror=x>",
    "<SVG/onload=x>",
    "a <b onclick=x>b</b> <!-- c --> <?php ?>",
    "<iframe src='javascript:x'></iframe><base href='//x.y'><meta http-equiv=refresh content=0>",
    "<style>body{display:none}</style><link rel=stylesheet href='//x.y'><object data=x></object>",
    "<form action='javascript:x'><button formaction='javascript:x'>a</button></form>",
    "<a href='javascript:x'>a</a> <A HREF=' &#1; java\tscript:x'>a</A> <a xlink:href='data:,x'>",
    "<math href='javascript:x'><mtext>a</mtext></math><svg><a xlink:href='javascript:x'>a</a>",
    "<span style='position:fixed;top:0;background:url(//x.y)'>a</span>",
    "<div style='color:red' class='modal' id='content'>\n\n[a](javascript:x)\n\n</div>",
    "[a](javascript:x)",
    "[a]( JavaScript :x)",
    r"[a](javascript\:x)",
    r"[a](j\avascript:x) [b](<java\script:x>)",
    "[a](&#106;avascript:x)",
    "[a](&amp;#106;avascript:x)",
    "[a](java&Tab;script:x)",
    "[a](javascript&colon;x)",
    "[a](\x01javascript:x) [a](\u00a0javascript:x)",
    "[a](<javascript:x>)",
    "[a](vbscript:x) [a](file:///etc/passwd) [a](blob:x) [a](ftp://x.y) [a](jupyter:x)",
    "[a](//x.y) [a](/logout) [a](../x) ![a](/logout)",
    "[a](files/javascript:x) [a](/files/javascript:x)",
    "[a](http:javascript:x) [a](https:/x)",
    "[a]\n\n[a]: javascript:x",
    "[a][1]\n\n[1]:\n  javascript:x",
    "[![a](javascript:x)](javascript:x)",
    "![a](javascript:x)",
    "![a](data:image/svg+xml;base64,PHN2Zz4=)",
    "<javascript:x> <JAVASCRIPT:x> <data:text/html,x>",
    "| a |\n|---|\n| [a](javascript:x) |",
    "- [ ] [a](javascript:x)\n\n> # [a](javascript:x)",
    r"$\href{javascript:x}{a}$",
    r"$$\href2{x}\class {a}{b}\style{a}{b}\require{html}\mmlToken{mi}[href='javascript:x']{a}$$",
    r"\\[\href{javascript:x}{a}\\]",
    r"&#36;\h&#114;ef{javascript:x}{a}&#36;",
    r"$\hr<!-- -->ef{javascript:x}{a}$ $\hr<wbr>ef{javascript:x}{a}$ $\hr<x>ef{javascript:x}{a}$",
    "[a](data:text/html;base64,PHNjcmlwdD4=)",
    "```mermaid\n</pre><script>x</script>\n```",
    "```py<script>\nx\n```\n\n    <script>x</script>",
    "<pre>\n\n<script>x</script>\n\n</pre>\n\n[a](javascript:x)",
    "<b>&#13;&#13;&#91;a](javascript:x)&#13;&#10;&#13;&#10;&lt;script&gt;</b>",
]
TAGS = (
    "a b blockquote br code del details div em h1 h2 h3 h4 h5 h6 hr i img input li ol p pre span "
    "strong sub summary sup table tbody td th thead tr ul"
)
ATTRIBUTES = {"align", "alt", "checked", "class", "color", "disabled", "href", "id", "open", "rel"}
ATTRIBUTES |= {"src", "style", "title", "type", "start"}
LIVE = ("http://", "https://", "mailto:", "#")
ARMED_TEX = ("\\href", "\\class", "\\style", "\\require", "\\mmltoken", "\\cssid", "\\unicode")


class _Faults(HTMLParser):
    """What a page holds that can do something."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [tag] * (tag not in TAGS.split())
        for name, value in attrs:
            value = (value or "").lower()
            is_dead = name == "href" and not value.startswith(LIVE)
            is_dead |= name == "src" and not value.startswith((*LIVE, "data:image/png;base64,"))
            is_dead |= name == "style" and ("url" in value or "position" in value)
            if name not in ATTRIBUTES or is_dead:
                self.found.append(f"{tag} {name}={value}")

    def handle_comment(self, data: str) -> None:
        self.found.append(f"<!--{data}-->")

    def handle_pi(self, data: str) -> None:
        self.found.append(f"<?{data}>")

    handle_decl = unknown_decl = handle_pi


def as_shown(text: str) -> str:
    """Return what formgrader makes of a text."""
    return str(strip_files_prefix(markdown2html(text)))


def faults(page: str) -> list[str]:
    reader = _Faults()
    reader.feed(page)
    words = html.unescape(page).lower()
    return reader.found + [command for command in ARMED_TEX if command in words]


@pytest.mark.parametrize("text", DEAD)
def test_nothing_that_runs_is_left(text: str) -> None:
    shown = disarm(text)
    assert faults(as_shown(shown.text)) == []
    assert faults(render_markdown(shown.text)) == []
    assert faults(render_markdown(text)) == []
    again = disarm(shown.text)
    assert faults(as_shown(again.text)) == []


def test_the_faults_are_seen() -> None:
    unseen = [text for text in DEAD if not faults(as_shown(text))]
    assert len(unseen) < len(DEAD) / 5, unseen


PIECES = st.sampled_from(
    [
        *("[a](", ")", "](", "![", "[a]: ", "javascript:x", "files/", "attachment:", "data:", "//"),
        *("\\", "&#106;", "&Tab;", "\n", "\n\n", "\r", "\0", "\u2028", "\x0b", "    ", "|", "- "),
        *("$", "$$", "\\href{x}{y}", "`", "```", "#", "*", "~~", "'", '"', "<", ">", "<!--", "-->"),
        *("<a href=", "onload=x", "<script>", "<pre>", "</pre>", "<details>", "<svg>", "<style>"),
        *("<b", "<textarea>", "<title>"),
    ]
)


@given(st.lists(PIECES, max_size=14).map("".join))
def test_nothing_that_runs_can_be_put_together(text: str) -> None:
    shown = disarm(text).text
    assert faults(as_shown(shown)) == []
    assert faults(render_markdown(shown)) == []


def test_a_raw_cell_is_shown_as_it_is() -> None:
    page = as_shown(disarm_raw("<script>x</script>\n\n# no heading\n[a](b)").text)
    assert "&lt;script&gt;x&lt;/script&gt;" in page
    assert "<h1" not in page
    assert "<a" not in page


# What is harmless stays what it is


@pytest.mark.parametrize(
    "text",
    [
        "# Title\n\n- a\n- **b**\n\n1. c\n   - [x] d",
        "$a < b$ and `x<3`, $$\\sum_i x_i \\text{ if } x & y$$\n\n\\begin{align}a\\end{align}",
        "[a](https://x.y) <https://x.y> https://x.y <a@x.y> [b](#b) [c][1]\n\n[1]: http://x.y 'c'",
        "| a | b |\n|---|:-:|\n| 1 | `2` |\n\n~~x~~ R&D &amp; naïve 名前\n\n---\n> so",
        "```python\nx = a[0] < 1  # <b>\n```\n\n    <script>",
        "![a](https://x.y/z.png)",
    ],
)
def test_an_honest_text_stays_as_it_is(text: str) -> None:
    assert disarm(text).text == text


HONEST_HTML = {
    "<details open><summary>**Why**</summary>\n\n**because** $x_1$\n\n```\nx = [1]\n\n\ny\n```\n"
    "</details>": ["<details open", "<summary>", "<strong>because</strong>", "$x_1$", "</details>"],
    "<span style='color: red'>red</span> H<sub>2</sub>O<br>x<sup>2</sup> <font color=blue>b": [
        '<span style="color:red">red</span>',
        "H<sub>2</sub>O<br>x<sup>2</sup>",
        '<font color="blue">b</font>',
    ],
    "<table><tr><td align=right>1</td></tr></table>\n\n- [x] done <u>a</u>\n- [ ] open": [
        '<td align="right">1</td>',
        'type="checkbox"',
        "<u>a</u>",
    ],
    "a &lt;b&gt; [c](https://x.y) <i>d</i>": ["&lt;b&gt;", 'href="https://x.y"', "<i>d</i>"],
    "[a](javascript:x) costs the **link** alone": ["costs the <strong>link</strong> alone"],
}


@pytest.mark.parametrize("text", HONEST_HTML)
def test_honest_html_keeps_its_meaning(text: str) -> None:
    shown = disarm(text).text
    for part in HONEST_HTML[text]:
        assert part in as_shown(shown)
        assert part in render_markdown(shown)


def words(page: str) -> str:
    reader, found = HTMLParser(), []
    reader.handle_data = found.append
    reader.feed(page)
    return "".join("".join(found).split()).replace("¶", "")


def test_the_texts_of_the_course_say_what_they_said() -> None:
    notebooks = sorted((ROOT / "course" / "release").glob("*/*.ipynb"))
    cells = [cell for file in notebooks for cell in nbformat.read(file, 4).cells]
    texts = [cell.source for cell in cells if cell.cell_type == "markdown"]
    changed = [text for text in texts if disarm(text).text != text]
    assert len(texts) > 300
    assert all("<" in text for text in changed)
    assert len(changed) < len(texts) / 10
    for text in changed:
        assert words(as_shown(disarm(text).text)) == words(as_shown(text))


# Pictures that were pasted in


def picture(size: int = 2, kind: str = "PNG") -> str:
    stream = io.BytesIO()
    noise = Image.effect_noise((size, size), 100.0)
    noise.save(stream, kind)
    return base64.b64encode(stream.getvalue()).decode()


def convert(text: str, attachments: dict) -> str:
    shown = disarm(text, attachments)
    cell = new_markdown_cell(shown.text)
    if shown.pictures:
        cell.attachments = nbformat.from_dict(shown.pictures)
    return HTMLExporter().from_notebook_node(new_notebook(cells=[cell]))[0]


@pytest.mark.parametrize("kind", ["png", "jpeg", "gif", "webp"])
@pytest.mark.parametrize("text", ["![a](attachment:a.b)", "<b>x</b> ![a](attachment:a.b)"])
def test_a_pasted_picture_is_shown(text: str, kind: str) -> None:
    encoded = picture(kind=kind.upper())
    pasted = {"a.b": {f"image/{kind}": encoded}}
    assert f'src="data:image/{kind};base64,{encoded}"' in convert(text, pasted)
    assert f"data:image/{kind};base64,{encoded}" in render_markdown(text, pasted)


@pytest.mark.parametrize(
    ("text", "pasted", "told"),
    [
        ("![a](attachment:gone.png)", {}, "gone.png is missing"),
        ("# b\n[![a][1]](http://x.y)\n\n[1]: attachment:gone.png", {}, "gone.png is missing"),
        ("![a](attachment:<b>)", {}, "is missing"),
        ("![a](attachment:a)", {"a": {"text/html": "PGI+"}}, "a cannot be shown"),
        ("![a](attachment:a)", {"a": {}}, "a cannot be shown"),
        ("![a](attachment:a)", {"a": {"image/svg+xml": "<svg onload=x>"}}, "a cannot be shown"),
        ("![a](attachment:a)", {"a": {"image/png": "no picture"}}, "a cannot be shown"),
    ],
)
def test_a_picture_that_is_not_there_is_told(text: str, pasted: dict, told: str) -> None:
    page = convert(text, pasted)
    assert told in page
    assert "<svg onload" not in page
    assert told in render_markdown(text, pasted)
    assert any(told in note for note in disarm(text, pasted).notes)


def test_a_name_with_a_space_is_found() -> None:
    pasted = {"my plot.png": {"image/png": picture()}}
    assert "base64" in convert("![a](<attachment:my plot.png>)", pasted)


# What it costs is bounded

SLOW = [
    "](" + " " * 200_000,
    "[a](" * 50_000,
    "[" * 200_000,
    "![" * 100_000 + "x" + "](y)" * 100_000,
    r"\\[" * 70_000,
    r"\begin{a}" * 20_000,
    "$$a" * 70_000,
    "*_" * 100_000,
    "> " * 100_000,
    "<details>\n\n" * 20_000,
    "<p>" + "".join(f"<b title={i}>" for i in range(400)) + "</p><p>x" * 60_000,
    "<a title='" * 20_000,
    "|a" * 1_000 + "\n" + "|-" * 1_000 + "\n" + "|b\n" * 30_000,
    "&#" * 100_000,
    "`" * 200_000,
]


@pytest.mark.parametrize("text", SLOW, ids=lambda text: text[:12])
def test_a_long_text_is_cut_and_costs_little(text: str) -> None:
    began = time.process_time()
    shown = disarm(text)
    page = as_shown(shown.text)
    page += render_markdown(shown.text)
    assert time.process_time() - began < 10.0
    assert "characters of a long text are left out here" in page
    assert len(shown.text) < 1_000_000
    assert shown.notes


def test_twice_the_text_takes_no_longer_than_twice() -> None:
    def seconds(count: int) -> float:
        text, times = "](" + " " * count, []
        for _ in range(5):
            began = time.process_time()
            disarm(text)
            times.append(time.process_time() - began)
        return min(times)

    assert seconds(2_000_000) < 2.5 * seconds(1_000_000)


def test_many_texts_are_cut_together() -> None:
    room = Room()
    kept = [disarm("a" * MOST_CHARACTERS, None, room) for _ in range(100)]
    assert sum("aaa" in shown.text for shown in kept) == 30
    assert len("".join(shown.text for shown in kept)) < 400_000
    assert "10,000 characters" in kept[-1].text


def test_pictures_shown_again_and_again_are_counted_each_time() -> None:
    pasted = {"a.png": {"image/png": picture(900)}}
    room = Room()
    shown = disarm("![a](attachment:a.png)" * 400, pasted, room)
    assert len(shown.text) < 11 * 2**20
    assert 0 <= room.picture_bytes < 2**20
    assert "cannot be shown" in "".join(shown.notes)
    assert "base64" not in disarm("![a](attachment:a.png)", pasted, room).text


# In a browser

LOOK = """() => ({
    marked: document.documentElement.dataset.marked || '',
    links: [...document.querySelectorAll('a[href], area[href]')].map(a => a.href),
    handlers: [...document.querySelectorAll('.texts *')].filter(
        e => [...e.attributes].some(a => a.name.startsWith('on'))).map(e => e.outerHTML),
})"""
PAGES = {
    "nbconvert": lambda cells: HTMLExporter().from_notebook_node(new_notebook(cells=cells))[0],
    "classic": lambda cells: HTMLExporter(template_name="classic").from_notebook_node(
        new_notebook(cells=cells)
    )[0],
    "ours": lambda cells: "".join(f"<div>{render_markdown(cell.source)}</div>" for cell in cells),
}


@pytest.fixture(params=PAGES)
def page_of_texts(request: pytest.FixtureRequest, browser, tmp_path: Path) -> Iterator[object]:
    mark = "document.documentElement.dataset.marked=1"
    texts = [
        text.replace("script:x", f"script:{mark}").replace("=x", f"='{mark}'") for text in DEAD
    ]
    page = PAGES[request.param]([new_markdown_cell(disarm(text).text) for text in texts])
    file = tmp_path / "page.html"
    body = page.replace("<body", '<body class="texts"', 1) if "<body" in page else page
    file.write_text(body if "<body" in page else f'<body class="texts">{body}</body>', "utf-8")
    context = browser.new_context(offline=True)
    tab = context.new_page()
    tab.goto(file.as_uri(), wait_until="load")
    yield tab
    context.close()


@pytest.mark.needs_system("chromium-headless-shell")
def test_in_a_browser_every_link_leads_to_the_web_or_nowhere(page_of_texts) -> None:
    seen = page_of_texts.evaluate(LOOK)
    here = page_of_texts.url
    dead = [url for url in seen["links"] if not url.startswith((*LIVE[:3], f"{here}#"))]
    assert dead == []
    assert seen["marked"] == ""
    assert seen["handlers"] == []
    for link in page_of_texts.locator("a").all():
        link.dispatch_event("click")
    assert page_of_texts.evaluate("document.documentElement.dataset.marked || ''") == ""
