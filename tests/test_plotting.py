"""Figures: one style, words for everybody, the same bytes for the same picture."""

from __future__ import annotations

import pytest

from helpers import ask, new_figure, play, plotting, show, widgets

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
    before = picture.value
    box.value = "four"
    assert complaint.value == "This cannot be read: &lt;four&gt; is no number"
    assert picture.value == before
    box.value = "4"
    assert complaint.value == ""
    assert picture.value
