"""Figures: one style, words for everybody, the same bytes for the same picture."""

from __future__ import annotations

import base64
import html
import re

import pytest

from helpers import ask, new_figure, play, plotting, show, widgets
from helpers.figures import frame

ALT = "A line that rises from one to three as time goes on."


def line() -> object:
    figure, axes = new_figure()
    axes.plot([0, 1], [1, 3])
    axes.set(title="A line", xlabel="time (s)", ylabel="height (m)")
    return figure


def test_a_figure_without_a_front_end_is_told_in_words(capsys: pytest.CaptureFixture) -> None:
    show(line(), ALT)
    assert capsys.readouterr().out == f"Figure: {ALT}\n"


@pytest.mark.parametrize(
    ("missing", "told"),
    [("title", "no title"), ("xlabel", "its x axis"), ("ylabel", "its y axis")],
)
def test_a_figure_without_words_is_refused(missing: str, told: str) -> None:
    figure = line()
    figure.axes[0].set(**{missing: ""})
    with pytest.raises(ValueError, match=told):
        show(figure, ALT)


def test_an_alternative_text_of_a_word_is_refused() -> None:
    with pytest.raises(ValueError, match="says too little"):
        show(line(), "a plot")


NUMBERED = {"number": "5.2", "caption": "The line of `x < 1` rises."}


def test_a_numbered_figure_is_told_with_its_caption(capsys: pytest.CaptureFixture) -> None:
    show(line(), ALT, **NUMBERED)
    assert capsys.readouterr().out == f"Figure 5.2: The line of x < 1 rises.\n{ALT}\n"


def test_number_and_caption_stand_below_the_picture() -> None:
    framed = frame.put_in_frame(plotting.draw_html(line(), ALT), frame.Label(**NUMBERED))
    figure = re.fullmatch(r"<style>.+</style>\n<figure class=.+</figure>", framed, re.DOTALL)[0]
    assert figure.count("<img") == 1
    below = figure.split("<img", 1)[1]
    caption = "<b>Figure 5.2</b> · The line of <code>x &lt; 1</code> rises."
    assert below.endswith(f"\n<figcaption>{caption}</figcaption></figure>")
    assert "figcaption" not in frame.put_in_frame("<img>", frame.Label()).split("</style>")[1]


@pytest.mark.parametrize("number", ["5", "5.2.1", "05.2", "5.0", "5.2 ", "five"])
def test_a_malformed_number_is_refused(number: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f'the number is "{number}"; write it as')):
        show(line(), ALT, number=number, caption="The line rises.")


@pytest.mark.parametrize("given", [{"number": "5.2"}, {"caption": "The line rises."}])
def test_a_number_or_a_caption_alone_is_refused(given: dict[str, str]) -> None:
    for show_it in (
        lambda: show(line(), ALT, **given),
        lambda: play(lambda value: line(), label="x", values=[1], start=1, alt=ALT, **given),
        lambda: ask(lambda text: line(), label="x", start="1", alt=ALT, **given),
    ):
        with pytest.raises(ValueError, match="a number and a caption, or neither"):
            show_it()


def test_the_alternative_text_stands_on_one_picture_with_two_forms() -> None:
    alt = 'A line that "rises" & falls, at x < 3.'
    shown = plotting.draw_html(line(), alt)
    assert shown.count("<img") == 1
    assert html.unescape(re.search(r' alt="([^"]*)"', shown)[1]) == alt
    pictures = [base64.b64decode(data) for data in re.findall(r"base64,([\w+/=]+)", shown)]
    assert len({*pictures}) == 2
    assert all(picture.startswith(b"\x89PNG") for picture in pictures)


def test_both_pictures_weigh_less_than_one_in_all_colors() -> None:
    figure = line()
    pictures = [base64.b64decode(picture) for picture in plotting.draw_both(figure)]
    assert sum(map(len, pictures)) < len(plotting.render_png(figure))


def test_shared_axes_need_one_label_and_an_image_none() -> None:
    figure, axes = new_figure(1, 2, sharey=True)
    for plot in axes:
        plot.plot([1, 2])
        plot.set(title="A line", xlabel="time (s)")
    axes[0].set_ylabel("height (m)")
    show(figure, ALT)
    figure, axes = new_figure()
    axes.imshow([[1, 2]])
    axes.set_axis_off()
    axes.set_title("A picture")
    show(figure, ALT)


def test_titles_stand_left_and_legends_have_no_frame() -> None:
    figure = line()
    axes = figure.axes[0]
    axes.legend(axes.lines, ["a line"])
    show(figure, ALT)
    assert axes.get_title("left") == "A line"
    assert axes.get_title("center") == ""
    assert not axes.get_legend().get_frame_on()


def test_the_same_figure_gives_the_same_bytes() -> None:
    assert plotting.render_png(line()) == plotting.render_png(line())
    assert plotting.draw_both(line()) == plotting.draw_both(line())


def test_a_figure_is_left_as_it_was() -> None:
    figure = line()
    before = plotting.render_png(figure)
    plotting.draw_both(figure)
    assert plotting.render_png(figure) == before


def test_a_figure_leaves_matplotlibs_own_settings_alone() -> None:
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    line()
    assert dict(mpl.rcParams) == before


def test_play_shows_a_picture_everywhere(capsys: pytest.CaptureFixture) -> None:
    play(lambda value: line(), label="x", values=[1, 2], start=2, alt=ALT)
    assert capsys.readouterr().out.startswith(f"Figure: {ALT}\n")
    with pytest.raises(ValueError, match="not one of the values"):
        play(lambda value: line(), label="x", values=[1, 2], start=3, alt=ALT)


def test_ask_redraws_what_is_typed_and_says_what_it_cannot_read(
    capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list = []
    monkeypatch.setattr(widgets, "_live_form", shown.append)

    def draw(text: str) -> object:
        if not text.isdigit():
            raise ValueError(f"<{text}> is no number")
        return line()

    ask(draw, label="a number", start="3", alt=ALT)
    assert capsys.readouterr().out.startswith(f"Figure: {ALT}\n")
    box, complaint, picture = shown[-1].children
    assert html.escape(ALT) in picture.value
    before = picture.value
    box.value = "four"
    assert complaint.value == "This cannot be read: &lt;four&gt; is no number"
    assert picture.value == before
    box.value = "4"
    assert complaint.value == ""
    assert picture.value
