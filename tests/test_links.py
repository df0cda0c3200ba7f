"""Where links lead: inside of the book and the repository somewhere, outside to a sound address.

Nothing here asks the network. Lychee follows what lies on the disk; of other addresses only the
form is looked at.
"""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

import nbformat
import pytest
import sample_chapter as sample
from course_files import CHAPTERS, COURSE, ROOT, release, source
from nbformat.v4 import new_markdown_cell, new_notebook

from helpers.authoring.book import build
from helpers.authoring.links import external_links, plain_words, render_references
from helpers.authoring.markdown import link_targets

LYCHEE = Path(sysconfig.get_path("scripts"), "lychee")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "course" / "book").glob("*.md")]
# A package's page is not where a claim comes from. By the names of their hosts' parts.
REGISTRIES = {"pypi", "npmjs", "crates", "anaconda", "packages"}
DIRECTIVE = f"{{{{#notebook {sample.NAME}}}}}\n"
ADDRESS = re.compile(r"https://[a-z0-9-]+(\.[a-z0-9-]+)+(/[^\s<>\"]*)?")


def broken_links(root: Path, *inputs: Path) -> list[str]:
    """Return the links of ``inputs``, below ``root``, to files and anchors that are not there."""
    command = [LYCHEE, "--offline", "--include-fragments", "--no-progress", "--format", "json"]
    # 404.html is shown by a web server and links to its root.
    command += ["--root-dir", root, "--exclude-path", r"404\.html$", *inputs]
    run = subprocess.run(command, capture_output=True, text=True)
    result = json.loads(run.stdout)
    assert result["successful"] > 0, run.stderr
    return [
        f"{Path(page).name}: {link['url'].rpartition('/')[2]}"
        for page, links in result["error_map"].items()
        for link in links
    ]


def test_a_link_a_picture_and_an_anchor_that_lead_nowhere_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<h1 id="here">x</h1><a href="#here">1</a><a href="#gone">2</a><a href="b.html#gone">3</a>'
        '<a href="c.html">4</a><img src="d.png"><a href="https://example.org/gone">5</a>'
    )
    (tmp_path / "b.html").write_text("<p>b</p>")
    assert sorted(broken_links(tmp_path, *sorted(tmp_path.iterdir()))) == [
        "a.html: a.html#gone",
        "a.html: b.html#gone",
        "a.html: c.html",
        "a.html: d.png",
    ]


def test_every_link_inside_the_book_leads_somewhere(real_book: Path) -> None:
    pages = sorted(real_book.rglob("*.html"))
    assert len(pages) > 150
    assert broken_links(real_book, *pages) == []


def test_every_link_inside_the_repository_leads_somewhere() -> None:
    assert broken_links(ROOT, ROOT / "README.md", ROOT / "CONTRIBUTING.md") == []


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_page_offers_the_students_notebook(chapter: str, real_book: Path) -> None:
    page = (real_book / f"{chapter}.html").read_text(encoding="utf-8")
    notebook = COURSE.release(chapter)
    place = notebook.relative_to(ROOT).as_posix()
    (colab,) = re.findall(r'href="(https://colab\.research\.google\.com/[^"]+)"', page)
    owner_and_name, _, opened = urlsplit(colab).path[len("/github/") :].partition("/blob/main/")
    assert unquote(opened) == place
    assert len(owner_and_name.split("/")) == 2
    (binder,) = re.findall(r'href="(https://mybinder\.org/[^"]+)"', page)
    assert urlsplit(binder).path == f"/v2/gh/{owner_and_name}/HEAD"
    assert parse_qs(urlsplit(binder).query) == {"labpath": [place]}
    (content,) = re.findall(r'href="data:application/x-ipynb\+json;base64,([^"]+)"', page)
    assert base64.b64decode(content) == notebook.read_bytes()


# In a notebook


def broken_in_notebook(notebook: nbformat.NotebookNode, folder: Path) -> Iterator[str]:
    """Yield the links of ``notebook``, which lies in ``folder``, to what is not there."""
    for cell in notebook.cells:
        for target in link_targets(cell.source) if cell.cell_type == "markdown" else ():
            place, _, anchor = target.partition("#")
            file = folder / unquote(place)
            if "://" in target:
                continue
            if place and not file.is_file():
                yield target
            elif anchor:
                there = nbformat.read(file, as_version=4) if place else notebook
                if unquote(anchor) not in heading_anchors(there):
                    yield target


def heading_anchors(notebook: nbformat.NotebookNode) -> set[str]:
    """Return the anchors that Jupyter gives the headings."""
    texts = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    return {title.replace(" ", "-") for title in re.findall(r"^#+ (.+)$", texts, re.MULTILINE)}


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_every_link_in_a_notebook_leads_somewhere(chapter: str) -> None:
    for notebook, path in (
        (source(chapter), COURSE.source(chapter)),
        (release(chapter), COURSE.release(chapter)),
    ):
        assert list(broken_in_notebook(notebook, path.parent)) == []


def test_a_link_in_a_notebook_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    text = "# The rule\n\n[a](#The-rule) [b](#the-rule) [c](../no.ipynb) [d](https://example.org)"
    notebook = new_notebook(cells=[new_markdown_cell(text)])
    nbformat.write(notebook, tmp_path / "other.ipynb")
    notebook.cells[0].source += " [e](other.ipynb#The-rule) [f](other.ipynb#no)"
    assert list(broken_in_notebook(notebook, tmp_path)) == [
        "#the-rule",
        "../no.ipynb",
        "other.ipynb#no",
    ]


# To elsewhere


def faults_of(address: str) -> list[str]:
    """Return what is wrong with the form of an address."""
    host = urlsplit(address).hostname or ""
    faults = {
        "is no https address": not ADDRESS.fullmatch(address),
        "ends in punctuation": address.endswith((".", ",", ";", ":", ")", "'", "!", "?")),
        "is a registry's": not REGISTRIES.isdisjoint(host.split(".")),
        "holds an empty part": "//" in urlsplit(address).path,
    }
    return [f"{address} {fault}" for fault, is_so in faults.items() if is_so]


@pytest.mark.parametrize(
    "address",
    [
        "http://example.org/",
        "https://example/",
        "https://example.org/a b",
        "https://example.org/a.",
        "https://www.anaconda.example/torch",
        "https://example.org//a",
    ],
)
def test_an_address_with_a_fault_is_found(address: str) -> None:
    assert faults_of(address)


def test_every_address_outside_is_sound() -> None:
    pages = (target for page in PAGES for target in link_targets(page.read_text("utf-8")))
    addresses = {*external_links(COURSE.root / "course"), *(t for t in pages if "://" in t)}
    assert len(addresses) > 200
    assert [fault for address in sorted(addresses) for fault in faults_of(address)] == []


def test_no_two_addresses_differ_by_a_last_slash_alone() -> None:
    addresses = list(external_links(COURSE.root / "course"))
    assert len({address.removesuffix("/") for address in addresses}) == len(addresses)


def test_no_address_stands_bare_in_the_text() -> None:
    """Not every page makes a link of it."""
    texts = [page.read_text("utf-8") for page in PAGES]
    for chapter in CHAPTERS:
        texts += [cell.source for cell in source(chapter).cells if cell.cell_type == "markdown"]
    assert [word for text in texts for word in plain_words(text) if "://" in word] == []


def test_an_address_is_listed_once_with_all_its_chapters(tmp_path: Path) -> None:
    for name, text in (
        (
            "08-first",
            "[b](https://b.example) [a](https://a.example/x) `https://c.example` [d](#d)",
        ),
        ("09-second", "[a](https://a.example/x), again [a](https://a.example/x)"),
    ):
        cells = [new_markdown_cell("# T"), new_markdown_cell(text)]
        sample.write_chapter(tmp_path, source=cells, name=name)
    assert external_links(tmp_path) == {
        "https://a.example/x": ["08-first", "09-second"],
        "https://b.example": ["08-first"],
    }


# The references


def test_every_chapter_has_references_and_all_are_on_the_page() -> None:
    page = render_references(COURSE.root / "course")
    for chapter in CHAPTERS:
        _, _, rest = page.partition(f"## {chapter[:2]} ")
        listed, _, _ = rest.partition("\n\n## ")
        assert f"]({chapter}.md#references)" in listed
        items = [line for line in listed.splitlines() if line.startswith("- ")]
        assert len(items) >= 3
        text = "\n".join(c.source for c in source(chapter).cells if c.cell_type == "markdown")
        assert text.count("\n### References\n") == 1
        assert all(item in text for item in items)
        assert "|" not in listed, "the glossary is not a reference"


def test_a_chapter_without_references_is_left_out(tmp_path: Path) -> None:
    sample.write_chapter(tmp_path, source=[new_markdown_cell("# 08 · S\n\n## Glossary\n\nnone")])
    assert render_references(tmp_path).strip() == ""


def test_the_page_of_references_leads_to_the_chapters(tmp_path: Path) -> None:
    text = "## To end with\n\n### References\n\n- A book, 1999.\n\n### Glossary\n\nnone"
    cells = [*sample.source_cells(), new_markdown_cell(text)]
    sample.write_chapter(tmp_path / "course", source=cells)
    pages = {"references.md": "{{#references}}\n", f"{sample.NAME}.md": DIRECTIVE}
    sample.write_book(tmp_path, pages)
    folder = build(tmp_path).parent
    page = (folder / "references.html").read_text(encoding="utf-8")
    assert f'href="{sample.NAME}/to-end-with.html#references"' in page
    assert "<li>A book, 1999.</li>" in page
    assert broken_links(folder, folder / "references.html") == []
