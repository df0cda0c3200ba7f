"""The bit explorer as people meet it: live in JupyterLab, and in the book without a kernel."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import sample_chapter as sample
from course_files import COURSE, release
from lab_server import copy_course, serve
from lab_student import SCREENSHOTS, Student

from helpers.authoring.book import build

pytestmark = pytest.mark.needs_system("chromium-headless-shell")

CHAPTER = "02-float-formats"
SECONDS = 90
SCREENS = [(390, "light"), (390, "dark"), (1280, "light"), (1280, "dark")]


class Explorer:
    """What a person sees of an explorer, and does with it."""

    def __init__(self, place) -> None:
        self.place = place

    def read(self, key: str) -> str:
        return self.place.locator(f"[data-key={key}]").inner_text()

    def bits(self) -> str:
        return "".join(self.place.locator(".bits-cells button").all_inner_texts())

    def click_bit(self, name: str) -> None:
        self.place.get_by_role("button", name=name).click()

    def store(self, text: str) -> None:
        self.place.get_by_label("Value").fill(text)
        self.place.get_by_role("button", name="Store").click()

    def choose(self, format: str) -> None:
        self.place.get_by_label("Format").select_option(format)

    def said(self) -> str:
        return self.place.get_by_role("status").inner_text()


def go_through(explorer: Explorer) -> None:
    """Do with an explorer that starts from 0.1 in float16 what a reader does with it."""
    assert explorer.bits() == "0010111001100110"
    assert explorer.said() == "0.1 is stored as 0.0999755859375: normal."
    assert explorer.read("value") == "0.0999755859375"
    assert explorer.read("kind") == "normal"
    assert explorer.read("formula") == "1 614/1024 × 2⁻⁴"
    assert explorer.read("ulp") == "2⁻¹⁴ = 0.00006103515625"
    assert explorer.read("above") == "0.10003662109375"

    explorer.click_bit("sign bit")
    assert explorer.read("value") == "-0.0999755859375"
    explorer.click_bit("sign bit")
    explorer.click_bit("exponent bit, worth 16: 0")
    assert explorer.read("value") == f"{0.0999755859375 * 2**16:g}"

    explorer.store("2^-24")
    assert explorer.bits() == "0" * 15 + "1"
    assert (explorer.read("kind"), explorer.read("below")) == ("subnormal", "0")
    explorer.place.get_by_role("button", name="Step down").click()
    assert (explorer.read("kind"), explorer.read("value")) == ("zero", "0")

    explorer.store("65519")
    assert explorer.said() == "65519 is stored as 65504: normal."
    explorer.place.get_by_role("button", name="Step up").click()
    assert (explorer.read("kind"), explorer.read("value")) == ("infinity", "inf")
    assert explorer.place.get_by_role("button", name="Step up").is_disabled()
    explorer.click_bit("fraction bit, worth 1/1024")
    assert (explorer.read("kind"), explorer.read("value")) == ("nan", "nan")

    explorer.store("0.1")
    explorer.choose("bfloat16")
    assert explorer.read("value") == "0.10009765625"
    explorer.choose("float8_e4m3fn")
    assert explorer.bits() == "00011101"
    explorer.choose("float32")
    assert explorer.read("value") == "0.10000000149011612"
    assert len(explorer.bits()) == 32

    explorer.store("a tenth")
    assert explorer.said().startswith('"a tenth" is not a number: type one like')
    assert explorer.read("value") == "0.10000000149011612"
    explorer.choose("float16")
    assert explorer.bits() == "0010111001100110"


def walk_by_keyboard(page, explorer: Explorer) -> None:
    """Toggle the bits with the keyboard alone, from the field before them."""
    explorer.place.get_by_role("button", name="Step up").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Space")
    assert explorer.bits() == "0110111001100110"
    page.keyboard.press("Enter")
    assert explorer.bits() == "0010111001100110"
    page.keyboard.press("End")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    assert explorer.bits() == "0010111001100111"
    page.keyboard.press("Enter")
    focused = page.evaluate("document.activeElement.getAttribute('aria-label')")
    assert focused == "fraction bit, worth 1/1024: 0"


# ---- JupyterLab


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    root = copy_course(tmp_path_factory.mktemp("clone"))
    with serve("lab", root, tmp_path_factory.mktemp("home")) as address:
        yield address


def test_in_jupyterlab_it_is_live(browser, lab: str) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.set_default_timeout(SECONDS * 1000)
    student = Student(page, lab, CHAPTER)
    student.run("needed-1")
    (cell,) = (c for c in release(CHAPTER).cells if c.source.startswith("explore_bits("))
    shown = student.run(cell.id)
    shown.get_by_role("button", name="sign bit").wait_for()
    assert shown.locator(".bits-explorable").count() == 1
    explorer = Explorer(shown.locator(".bits-explorable"))
    go_through(explorer)

    count = "jupyterapp.shell.currentWidget.content.widgets.length"
    before, active = page.evaluate(count), shown.get_attribute("class")
    walk_by_keyboard(page, explorer)
    assert page.evaluate(count) == before
    assert shown.get_attribute("class") == active
    assert page.evaluate("jupyterapp.shell.currentWidget.content.mode") == "command"
    student.take_screenshot("bit-explorer", explorer.place)
    page.close()


# ---- The book


@pytest.fixture(scope="module")
def section_page(tmp_path_factory) -> Path:
    """Return the real chapter's page with the explorer, in a book with pages around it."""
    root = tmp_path_factory.mktemp("repository")
    for folder in ("source", "release"):
        shutil.copytree(
            COURSE.root / "course" / folder / CHAPTER, root / "course" / folder / CHAPTER
        )
    pages = {
        "before.md": "# Before\n",
        f"{CHAPTER}.md": f"{{{{#notebook {CHAPTER}}}}}\n",
        "behind.md": "# Behind\n",
    }
    sample.write_book(root, pages)
    pages = (build(root).parent / CHAPTER).glob("*.html")
    (page,) = (page for page in pages if 'data-explorable="bits"' in page.read_text("utf-8"))
    return page


@pytest.fixture
def open_page(browser, section_page):
    contexts = []

    def open_chapter(width=1280, **options):
        context = browser.new_context(viewport={"width": width, "height": 800}, **options)
        contexts.append(context)
        page = context.new_page()
        page.asked, page.errors = [], []
        page.on("request", lambda request: page.asked.append(request.url))
        page.on("pageerror", lambda error: page.errors.append(str(error)))
        page.goto(section_page.as_uri())
        return page

    yield open_chapter
    for context in contexts:
        context.close()


def test_in_the_book_it_runs_from_a_disk_without_a_kernel(open_page):
    page = open_page()
    page.get_by_role("button", name="sign bit").wait_for()
    explorer = Explorer(page.locator(".bits-explorable"))
    go_through(explorer)
    assert not page.errors
    assert not [url for url in page.asked if not url.startswith(("file:", "data:"))]


def test_in_the_book_the_keyboard_stays_with_the_bits(open_page):
    page = open_page()
    page.get_by_role("button", name="sign bit").wait_for()
    address = page.url
    walk_by_keyboard(page, Explorer(page.locator(".bits-explorable")))
    page.get_by_label("Value").press("s")
    assert page.url == address
    assert not page.get_by_role("dialog").is_visible()


@pytest.mark.parametrize(("width", "scheme"), SCREENS)
def test_in_the_book_it_fits_every_screen_in_light_and_dark(open_page, width, scheme):
    page = open_page(width, color_scheme=scheme)
    page.get_by_role("button", name="sign bit").wait_for()
    explorer = Explorer(page.locator(".bits-explorable"))
    for format in ("float32", "float16"):
        explorer.choose(format)
        assert explorer.place.evaluate("box => box.scrollWidth - box.clientWidth") <= 0
        right = explorer.place.evaluate("box => box.getBoundingClientRect().right")
        for button in explorer.place.get_by_role("button").all():
            box = button.bounding_box()
            assert box["x"] + box["width"] <= right + 1
            assert min(box["width"], box["height"]) >= 24
    for place in ("html", "body", "main"):
        assert page.eval_on_selector(place, "box => box.scrollWidth - box.clientWidth") <= 0
    # Written by what is under it: white on a bit that is one, the page's color elsewhere.
    contrast = """box => {
        const read = color => (color.match(/[\\d.]+/g) || [0, 0, 0]).map(Number);
        const light = ([r, g, b]) => [r, g, b].map(c => c / 255)
            .map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
            .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
        const style = getComputedStyle(box);
        let under = read(style.backgroundColor);
        if (under.length > 3) {
            const page = read(getComputedStyle(document.documentElement).backgroundColor);
            under = [0, 1, 2].map(i => under[3] * under[i] + (1 - under[3]) * page[i]);
        }
        const [low, high] = [light(read(style.color)), light(under)].sort((a, b) => a - b);
        return (high + 0.05) / (low + 0.05);
    }"""
    for selector in (".bits-cells button", ".bits-controls button", "input", "select"):
        for control in explorer.place.locator(selector).all():
            assert control.evaluate(contrast) >= 4.5, control.evaluate("box => box.outerHTML")
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    explorer.place.screenshot(path=SCREENSHOTS / f"bit-explorer-book-{width}-{scheme}.png")


def test_in_the_book_without_scripts_the_bits_stand_there(open_page):
    page = open_page(java_script_enabled=False)
    shown = page.locator(".bits-explorable")
    assert "0.1 is stored in float16 as 0.0999755859375" in shown.inner_text()
    assert "".join(shown.locator(".bits-cells span").all_inner_texts()) == "0010111001100110"
    assert shown.get_by_role("button").count() == 0


def test_a_page_without_an_explorer_gets_no_script(section_page):
    book = section_page.parent.parent
    assert "mountAll" in section_page.read_text("utf-8")
    for other in ("before.html", f"{CHAPTER}.html", f"{CHAPTER}/in-the-wild.html"):
        assert "mountAll" not in (book / other).read_text("utf-8")
    kept = book.glob("pagefind/fragment/*")
    texts = [gzip.decompress(each.read_bytes()) for each in kept]
    assert texts
    assert not any(b"roundHalfToEven" in text for text in texts)
