"""The course's drawings: files that follow a few rules, and what a page shows of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from helpers import drawings, show_drawing
from helpers.drawings.inline import _read_svg
from helpers.figures import frame

FOLDER = Path(drawings.__file__).parent
FILES = sorted(FOLDER.rglob("*.svg"))
NAMES = [file.relative_to(FOLDER).with_suffix("").as_posix() for file in FILES]
ALT = "Two processes, each with three micro-batches."
SVG = "{http://www.w3.org/2000/svg}"
COLOR = re.compile(r"currentcolor|none|var\(--bits-[a-z]+, #[0-9a-f]{6}\)")
VARIABLES = re.findall(r"(--bits-[a-z]+):", Path(frame.__file__).with_name("frame.css").read_text())
# What holds a color, and what could hold one besides.
PAINTS = ("fill", "stroke", "color", "stop-color", "flood-color", "style", "class")
PHONE = 350


def faults(svg: str) -> Iterator[str]:
    """Yield what a drawing does that no drawing may do."""
    root = ElementTree.fromstring(svg)
    width = float(root.get("viewBox", "0 0 1 1").split()[2])
    for node in root.iter():
        tag = node.tag.removeprefix(SVG)
        if tag not in ("svg", "g", "rect", "path", "circle", "line", "text", "tspan"):
            yield f"<{tag}>"
        for name, value in node.attrib.items():
            if name in PAINTS and not COLOR.fullmatch(value):
                yield f'{name}="{value}"'
            if name == "id":
                yield "an id, which may stand in the page already"
            if name == "font-size" and float(value) * PHONE / width < 10:
                yield f"letters of {value} units"
        for variable in re.findall(r"--bits-[a-z]+", " ".join(node.attrib.values())):
            if variable not in VARIABLES:
                yield f"no figure has {variable}"
    if "font-size" not in root.attrib or root.get("fill") != "currentcolor":
        yield "letters of the browser's choice"
    if "<!--" not in svg:
        yield "no comment"


@pytest.mark.parametrize("file", FILES, ids=NAMES)
def test_a_drawing_keeps_the_rules(file: Path) -> None:
    assert list(faults(file.read_text(encoding="utf-8"))) == []


GOOD = FILES[0].read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ('font-size="14"', 'font-size="13"', "letters of 13 units"),
        ('fill="currentcolor"', 'fill="black"', 'fill="black"'),
        ("var(--bits-blue, #0072b2)", "var(--bits-blue)", 'fill="var(--bits-blue)"'),
        ("--bits-blue", "--bits-pink", "no figure has --bits-pink"),
        ("<g ", '<g id="a" ', "an id, which may stand in the page already"),
        ("<g ", '<g style="fill: red" ', 'style="fill: red"'),
        ("</svg>", "<style>rect {}</style></svg>", "<style>"),
        ("<!--", "<g/><!--", ""),
    ],
)
def test_a_broken_rule_is_found(old: str, new: str, fault: str) -> None:
    assert old in GOOD
    found = list(faults(GOOD.replace(old, new)))
    assert (fault in found) if fault else not found


def test_a_drawing_is_one_picture_with_its_words() -> None:
    svg = _read_svg("05/no-sync", 'A "rank" & <another> one.')
    assert svg.startswith(
        '<svg role="img" aria-label="A &quot;rank&quot; &amp; &lt;another&gt; one." xmlns='
    )
    assert "<!--" not in svg
    assert "\n\n" not in svg, "a blank line would end the block in Markdown"
    ElementTree.fromstring(svg)


def test_without_a_front_end_caption_and_words_are_told(capsys: pytest.CaptureFixture) -> None:
    show_drawing("05/no-sync", ALT, number="5.3", caption="With `no_sync`, ranks wait once.")
    assert capsys.readouterr().out == f"Figure 5.3: With no_sync, ranks wait once.\n{ALT}\n"
    show_drawing("05/no-sync", ALT)
    assert capsys.readouterr().out == f"Figure: {ALT}\n"


@pytest.mark.parametrize(
    "name", ["no-sync", "05/nothing", "05/../05/no-sync", "05/no-sync.svg", ""]
)
def test_a_drawing_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f'there is no drawing "{name}"')):
        show_drawing(name, ALT)


def test_too_few_words_are_refused() -> None:
    with pytest.raises(ValueError, match="says too little"):
        show_drawing("05/no-sync", "two ranks")


MEASURE = """() => {
    const svg = document.querySelector('svg');
    const frame = svg.getBoundingClientRect();
    const texts = [...svg.querySelectorAll('text')];
    const boxes = texts.map(text => text.getBoundingClientRect());
    const inside = box => box.left >= frame.left - 1 && box.right <= frame.right + 1
        && box.top >= frame.top - 1 && box.bottom <= frame.bottom + 1;
    const meet = (a, b) => a.left < b.right && b.left < a.right
        && a.top + 2 < b.bottom && b.top + 2 < a.bottom;
    return {
        width: frame.width,
        smallest: Math.min(...texts.map(
            text => parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a)),
        outside: texts.filter((_, k) => !inside(boxes[k])).map(text => text.textContent),
        touching: texts.filter((_, k) => boxes.some((box, j) => j !== k && meet(box, boxes[k])))
            .map(text => text.textContent),
    };
}"""


@pytest.mark.needs_system("chromium-headless-shell")
@pytest.mark.parametrize("name", NAMES)
def test_on_a_phone_every_word_can_be_read(browser, name: str) -> None:
    page = browser.new_page(viewport={"width": PHONE, "height": 800})
    figure = frame.put_in_frame(_read_svg(name, ALT), frame.Label())
    page.set_content(f'<body style="margin:0">{figure}</body>')
    seen = page.evaluate(MEASURE)
    page.close()
    assert seen.pop("width") == PHONE
    assert seen.pop("smallest") >= 10
    assert seen == {"outside": [], "touching": []}
