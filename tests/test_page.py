"""A chapter's two notebooks become pages, without what a reader must not see."""

import base64

import pytest
import sample_chapter as sample
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output, new_raw_cell

from helpers.authoring.folding import fold_cell
from helpers.authoring.notebooks import Chapter, PageError
from helpers.authoring.outputs import OutputError, plain_text, render_outputs
from helpers.authoring.page import render_pages
from helpers.catalogue import find_exercise

REPOSITORY = "https://github.com/an-owner/a-course"


@pytest.fixture
def render(tmp_path):
    """Return a function that writes a chapter and renders its pages, one after another."""

    def write_and_render(source=None, release=None, repository=REPOSITORY, fold=True):
        sample.write_chapter(tmp_path, source, release)
        pages = render_pages(Chapter.find(tmp_path, sample.NAME), repository, fold)
        return "\n".join(page.text for page in pages)

    return write_and_render


def cell_with(*outputs):
    return [new_code_cell("show()", outputs=list(outputs))]


# What a reader sees


def test_prose_code_and_output_follow_one_another(render):
    page = render()
    places = [page.index(part) for part in ("# Numerical", "<math>", "```python\nprint(1)\n```")]
    assert places == sorted(places)
    assert '<div class="output output-output"' in page
    assert ">1</pre></div>" in page


def test_setup_cell_and_raw_cell_are_left_out(render):
    page = render([*sample.source_cells(), new_raw_cell("for the builder")])
    assert "a-package-for-colab" not in page
    assert "for the builder" not in page


def test_exercise_shows_card_stub_check_hints_and_solution_in_this_order(render):
    page = render()
    parts = [
        '<section class="exercise-card" id="exercise-softmax">\n\n### Softmax',
        "4 points · 10 minutes · difficulty 1 of 3\n\n</section>",
        "Your code</p>\n\n```python\n" + sample.STUB,
        '<details class="check">\n<summary>The check</summary>\n\n```python\ncheck =',
        *(
            f'<details class="hint">\n<summary>Hint {n} of 3</summary>\n\n{hint}\n\n</details>'
            for n, hint in enumerate(find_exercise("softmax").hints, start=1)
        ),
        '<details class="solution">\n<summary>A solution</summary>\n\n```python\ndef softmax',
        "    return logits.softmax(dim)  # the reference\n```\n\n</details>",
    ]
    places = [page.index(part) for part in parts]
    assert places == sorted(places)


def test_folded_cell_and_check_stay_folded_under_their_title(render):
    cell = new_code_cell("x = 1 < 2", outputs=[sample.printed("drawn")])
    fold_cell(cell, "Plot: x < y")
    page = render([cell])
    fold = (
        '<details class="folded">\n<summary>Plot: x &lt; y</summary>\n\n```python\nx = 1 < 2\n```'
    )
    assert fold in page
    assert "@title" not in page
    assert page.index("</details>") < page.index("drawn"), "what the cell shows is in sight"


def test_a_checks_title_stands_over_it(render):
    cells, given = sample.source_cells(), sample.release_cells()
    for notebook in (cells, given):
        fold_cell(notebook[-1], "Check: Softmax")
    page = render(cells, given)
    assert '<details class="check">\n<summary>Check: Softmax</summary>' in page
    assert "@title" not in page


def test_solution_loses_its_markers(render):
    assert "### BEGIN" not in render()
    assert "### END" not in render()


def test_omitted_solution_leaves_no_trace(render):
    page = render(fold=False)
    assert "the reference" not in page
    assert "A solution" not in page
    assert sample.STUB in page
    assert "The check" in page


@pytest.mark.parametrize("fold", [True, False])
def test_hidden_test_and_its_report_never_reach_the_page(render, fold):
    page = render(fold=fold)
    assert "secret" not in page
    assert "HIDDEN" not in page
    assert "# Hidden tests run here when your work is graded." in page


def test_code_that_holds_a_fence_stays_one_block(render):
    page = render([new_code_cell('text = """\n```\nnot the end\n```\n"""')])
    assert '````python\ntext = """\n```\nnot the end\n```\n"""\n````' in page


def test_link_to_a_chapter_leads_to_its_page(render):
    page = render(
        [new_markdown_cell("[a](../02-float-formats/float-formats.ipynb#ulp), [b](x.md)")]
    )
    assert "[a](02-float-formats.md#ulp), [b](x.md)" in page


def test_a_jupyter_anchor_becomes_the_books(render):
    link = "[a](../02-float-formats/float-formats.ipynb#The-Rule:-x), []()"
    assert "[a](02-float-formats.md#the-rule-x), []()" in render([new_markdown_cell(link)])
    assert f"[a]({sample.NAME}.md#the-rule)" in render([new_markdown_cell("[a](#The-rule)")])


def test_how_far_the_builder_has_come_is_not_told(render):
    congratulation = sample.printed("1 of 1 exercises solved")
    page = render([new_code_cell('progress("08")', outputs=[congratulation])])
    assert "solved" not in page
    assert "progress" not in page


# The links at the top


def test_links_stand_under_the_title(render):
    page = render()
    assert page.startswith('# Numerical stability\n\n<nav class="chapter-links"')


def test_chapter_without_a_title_begins_with_the_links(render):
    assert render([new_markdown_cell("prose")]).startswith("<nav")


@pytest.mark.parametrize("ending", ["", "/", ".git"])
def test_links_come_from_the_repository_address(render, ending):
    page = render(repository=REPOSITORY + ending)
    assert (
        'href="https://colab.research.google.com/github/an-owner/a-course/blob/main/course/release'
        '/08-numerical-stability/numerical-stability.ipynb"' in page
    )
    assert (
        'href="https://mybinder.org/v2/gh/an-owner/a-course/HEAD?labpath=course%2Frelease'
        '%2F08-numerical-stability%2Fnumerical-stability.ipynb"' in page
    )


def test_download_holds_the_release_notebook(render, tmp_path):
    page = render()
    encoded = page.partition("base64,")[2].partition('"')[0]
    assert f'{encoded}" download="numerical-stability.ipynb"' in page
    release = Chapter.find(tmp_path, sample.NAME).release
    assert base64.b64decode(encoded) == release.read_bytes()
    assert sample.HIDDEN_TEST not in base64.b64decode(encoded).decode()


@pytest.mark.parametrize("address", ["", "https://example.org/a/b", "https://github.com/alone"])
def test_repository_that_is_not_on_github_is_an_error(render, address):
    with pytest.raises(PageError, match=r"git-repository-url in book\.toml is"):
        render(repository=address)


# Outputs


def test_picture_as_html_comes_before_picture_and_text():
    shown = render_outputs(
        [sample.displayed(text_html="<b>h</b>", image_png="AAAA", text_plain="t")]
    )
    assert "<b>h</b>" in shown
    assert "AAAA" not in shown
    assert ">t<" not in shown


def test_bare_picture_has_its_text_as_alternative():
    shown = render_outputs([sample.displayed(image_png="AA\nAA", text_plain='<Figure "1">')])
    assert 'src="data:image/png;base64,AAAA" alt="&lt;Figure &quot;1&quot;&gt;"' in shown


def test_markdown_output_is_rendered_below_the_pages_title():
    text = "# Report\n\n| a | b |\n| --- | --- |\n| 1 | *2* |\n\n## Limits\n\n<b>no HTML</b>"
    shown = render_outputs([sample.displayed(text_markdown=text, text_plain="<Markdown object>")])
    assert "<h2>Report</h2>" in shown
    assert "<h3>Limits</h3>" in shown
    assert "<td><em>2</em></td>" in shown
    assert "&lt;b&gt;no HTML" in shown
    assert "Markdown object" not in shown
    assert "\n\n" not in shown


def test_text_is_escaped_and_stays_one_line_of_markdown():
    shown = render_outputs([sample.printed("<b>\n\n*not emphasis*\n")])
    assert "<pre>&lt;b&gt;&#10;&#10;*not emphasis*</pre>" in shown
    assert "\n" not in shown


def test_html_keeps_no_blank_line_but_its_preformatted_ones():
    html = "<p>a</p>\n\n  \n<pre>x\n\n  y</pre>\n<p>b</p>\n"
    shown = render_outputs([sample.displayed(text_html=html)])
    assert "<p>a</p>\n<pre>x&#10;&#10;  y</pre>\n<p>b</p>" in shown


def test_pieces_of_a_stream_are_one_block_and_stderr_another():
    shown = render_outputs(
        [sample.printed("a"), sample.printed("b\n"), sample.printed("careful\n", "stderr")]
    )
    assert shown.count("<pre>") == 2
    assert "<pre>ab</pre>" in shown
    assert '<div class="output output-warnings" role="group" aria-label="Warnings"' in shown


def test_traceback_has_no_color_codes():
    error = new_output(
        "error", ename="ValueError", evalue="no", traceback=["\x1b[0;31mValueError\x1b[0m: no"]
    )
    shown = render_outputs([error])
    assert "<pre>ValueError: no</pre>" in shown
    assert "output-error" in shown


def test_terminal_text_is_what_a_terminal_would_show():
    link = "\x1b]8;;https://example.org\x1b\\text\x1b]8;;\x1b\\"
    assert plain_text(f"\x1b[1mbold\x1b[0m {link}\n 10%\r100%\r\nend\n") == "bold text\n100%\nend"


def test_widget_is_left_out_and_its_fallback_shown(render):
    widget = {"application/vnd.jupyter.widget-view+json": {"model_id": "0"}, "text/plain": "HBox()"}
    page = render(cell_with(new_output("display_data", data=widget), sample.printed("a still")))
    assert "HBox" not in page
    assert "a still" in page


def test_output_with_no_known_form_is_an_error(render):
    odd = new_output("display_data", data={"application/json": {"a": 1}})
    with pytest.raises(OutputError, match="only the form application/json"):
        render_outputs([odd])
    with pytest.raises(PageError, match=f"Chapter {sample.NAME}, cell 1: an output has only"):
        render(cell_with(odd))


# What cannot become a page


@pytest.mark.parametrize("name", ["09-nothing", "", "../source", "08-numerical-stability/x"])
def test_unknown_chapter_is_named_beside_the_known_ones(tmp_path, name):
    sample.write_chapter(tmp_path)
    with pytest.raises(PageError) as caught:
        Chapter.find(tmp_path, name)
    assert str(caught.value) == (
        f"There is no chapter {name!r}; the chapters are: 08-numerical-stability."
    )


@pytest.mark.parametrize("folder", ["source", "release"])
def test_missing_notebook_is_named(tmp_path, folder):
    sample.write_chapter(tmp_path)
    (tmp_path / folder / sample.NAME / sample.FILE).unlink()
    with pytest.raises(PageError, match=f"course/{folder}/{sample.NAME}/{sample.FILE} is missing"):
        Chapter.find(tmp_path, sample.NAME)


@pytest.mark.parametrize("folder", ["source", "release"])
@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe", b'{"nbformat": 4}'])
def test_damaged_notebook_is_named(tmp_path, folder, content):
    sample.write_chapter(tmp_path)
    path = tmp_path / folder / sample.NAME / sample.FILE
    path.write_bytes(content)
    with pytest.raises(PageError, match="it is damaged") as caught:
        render_pages(Chapter.find(tmp_path, sample.NAME), REPOSITORY, True)
    assert str(path) in str(caught.value)


def test_release_without_the_exercise_is_an_error(render):
    with pytest.raises(PageError, match="cell 5: the release notebook has no cell 'softmax'"):
        render(release=sample.release_cells()[:4])


@pytest.mark.parametrize("index", [4, 5])
def test_release_that_leaks_is_an_error(render, index):
    leaking = sample.release_cells()
    leaking[index].source = sample.source_cells()[index].source
    with pytest.raises(PageError, match="still holds a solution or a hidden test"):
        render(release=leaking)


def test_formula_that_fails_names_chapter_and_cell(render):
    with pytest.raises(PageError) as caught:
        render([new_markdown_cell("fine"), new_markdown_cell("$\\nosuch$")])
    assert str(caught.value).startswith(f"Chapter {sample.NAME}, cell 2: the formula $\\nosuch$")


def test_attached_picture_is_an_error(render):
    with pytest.raises(PageError, match=r"cell 1: the picture 'a\.png' is an attachment"):
        render([new_markdown_cell("![a](attachment:a.png)")])


def test_graded_prose_is_an_error(render):
    cell = sample.graded_cell("", "essay", solution=True)
    prose = new_markdown_cell("### BEGIN SOLUTION", metadata=cell.metadata)
    with pytest.raises(PageError, match="an answer in prose"):
        render([prose])
