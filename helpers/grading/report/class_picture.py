"""The picture of a class: scores, what tells its students apart, what went wrong for several."""

from __future__ import annotations

import contextlib
import io
import textwrap
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import matplotlib as mpl

from helpers.grading.report.tally import Tally, Telling, WrongAnswer
from helpers.grading.verdicts import Verdict
from helpers.plotting import COLORS, new_figure, render_png

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH = 11.0
_MOST_WRONG_ANSWERS = 8
_MOST_PROPERTIES = 15
_MOST_BARS = 20
_DIM = "#8a8a8a"
# Students' words are in here: a dollar sign in them starts no formula.
_WORDS = {"parse_math": False}
_WAITING = {"color": "white", "edgecolor": _DIM, "hatch": "...", "label": "waits for a person"}
# Three entries, beside the title of a narrow panel.
_LEGEND = {
    "loc": "lower right",
    "bbox_to_anchor": (1.0, 1.0),
    "ncols": 3,
    "frameon": False,
    "fontsize": 8.5,
    "columnspacing": 1.2,
    "handlelength": 1.6,
}


@dataclass(frozen=True)
class Picture:
    """A picture in two formats, and what it shows in words."""

    png: bytes
    svg: bytes
    alt: str


def draw_class(tally: Tally, title: str, label: Callable[[str], str]) -> Picture:
    """Draw the class.

    Args:
        tally: what was counted; at least one submission.
        title: the assignment's.
        label: turns an exercise's name into a short title.
    """
    telling = tally.telling()[:_MOST_PROPERTIES]
    wrong = tally.wrong_answers(fewest=2)[:_MOST_WRONG_ANSWERS]
    heights = [3.9, 1.1 + 0.3 * max(len(telling), 3), 1.1 + 0.52 * max(len(wrong), 2)]
    with mpl.rc_context({"svg.hashsalt": "bits", "svg.fonttype": "path"}), _quiet_about_glyphs():
        figure, panels = new_figure(
            3, 1, width=_WIDTH, height=sum(heights), gridspec_kw={"height_ratios": heights}
        )
        figure.suptitle(f"{title}: {_submissions(tally.count)}", fontsize=14, **_WORDS)
        _draw_top(figure, panels[0], tally, label)
        _draw_properties(panels[1], telling, label)
        _draw_wrong_answers(panels[2], wrong, label)
        return Picture(render_png(figure), _render_svg(figure, title), _describe(tally, label))


@contextlib.contextmanager
def _quiet_about_glyphs() -> Iterator[None]:
    with warnings.catch_warnings():
        # A character that the font lacks is drawn as a box.
        warnings.filterwarnings("ignore", message="Glyph .* missing", category=UserWarning)
        yield


def _render_svg(figure: Figure, title: str) -> bytes:
    buffer = io.BytesIO()
    about = {"Date": None, "Creator": None, "Title": title}
    figure.savefig(buffer, format="svg", metadata=about)
    return buffer.getvalue()


def _draw_top(figure: Figure, place: Axes, tally: Tally, label: Callable[[str], str]) -> None:
    grid = place.get_subplotspec().subgridspec(1, 2, width_ratios=[1, 1.3], wspace=0.08)
    place.remove()
    scores, exercises = figure.add_subplot(grid[0]), figure.add_subplot(grid[1])
    for axes in (scores, exercises):
        axes.spines[["right", "top"]].set_visible(False)
    _draw_scores(scores, tally)
    _draw_exercises(exercises, tally, label)


def _draw_scores(axes: Axes, tally: Tally) -> None:
    # Extra credit goes beyond the most there is: the last bar must hold it.
    highest = max(tally.most, *tally.totals, 1.0)
    bars = min(_MOST_BARS, max(1, round(highest)))
    width = highest / bars
    edges = [width * edge for edge in range(bars + 1)]
    axes.hist(tally.totals, bins=edges, color=COLORS["blue"], edgecolor="white")
    middle = sorted(tally.totals)[tally.count // 2]
    axes.axvline(middle, color=COLORS["vermilion"], linestyle="--")
    axes.set_title(f"Scores: half reach {middle:g}", loc="left")
    left_out = f", {tally.waiting} with more that waits" if tally.waiting else ""
    words = f"score (points of {tally.most:g}{left_out})"
    axes.set(xlabel=words, ylabel="submissions", xlim=(0, highest))
    axes.yaxis.get_major_locator().set_params(integer=True)
    axes.grid(axis="x", visible=False)


def _draw_exercises(axes: Axes, tally: Tally, label: Callable[[str], str]) -> None:
    found = tally.verdicts()
    rows = range(len(found))
    passed = [100 * verdicts[Verdict.PASSED] / tally.count for verdicts in found.values()]
    partly = [100 * verdicts[Verdict.PARTLY] / tally.count for verdicts in found.values()]
    axes.barh(rows, passed, color=COLORS["blue"], label="passed")
    axes.barh(rows, partly, left=passed, color=COLORS["sky"], hatch="//", label="partly")
    ends = [whole + part for whole, part in zip(passed, partly, strict=True)]
    waiting = [100 * verdicts[Verdict.WAITING] / tally.count for verdicts in found.values()]
    if any(waiting):
        axes.barh(rows, waiting, left=ends, **_WAITING)
    for row, parts in enumerate(zip(passed, partly, waiting, strict=True)):
        axes.text(sum(parts) + 1, row, _percents(*parts), va="center", fontsize=8.5)
    axes.set_yticks(rows, [_short(label(name), 38) for name in found], **_WORDS)
    _finish_bars(axes, len(found), "Exercises", "exercise", end=138 if any(waiting) else 125)
    axes.set_xlabel(f"passed by (% of {_submissions(tally.count)})")
    axes.legend(**_LEGEND)


def _percents(passed: float, partly: float, waiting: float) -> str:
    words = [f"{passed:.0f}%"]
    words += [f"{partly:.0f}%"] if partly >= 0.5 else []
    words += [f"{waiting:.0f}%?"] if waiting >= 0.5 else []
    return " + ".join(words)


def _draw_properties(axes: Axes, telling: list[Telling], label: Callable[[str], str]) -> None:
    for hidden, color, hatch, words in (
        (False, "blue", "", "shown to students"),
        (True, "purple", "..", "added when graded"),
    ):
        rows = [row for row, each in enumerate(telling) if each.hidden is hidden]
        widths = [_percent_passed(telling[row]) for row in rows]
        axes.barh(rows, widths, color=COLORS[color], hatch=hatch, edgecolor="white", label=words)
    for row, each in enumerate(telling):
        percent = _percent_passed(each)
        words = f"{percent:.0f}% of {each.passed + each.failed}"
        if each.correlation is not None:
            words += f", r = {each.correlation:.2f}".replace("-", "−")
        axes.text(percent + 1, row, words, va="center", fontsize=8.5)
    names = [f"{_number(label(each.exercise))} · {_short(each.claim, 66)}" for each in telling]
    axes.set_yticks(range(len(telling)), names, fontsize=8.5, **_WORDS)
    title = "Properties that tell students apart"
    _finish_bars(axes, len(telling), title, "exercise · property", end=128)
    axes.set_xlabel("passed by (% of those who got that far)")
    if telling:
        axes.legend(**_LEGEND)
    else:
        axes.set_ylabel("")
        _say(axes, "no property is passed by some and failed by others")


def _percent_passed(telling: Telling) -> float:
    return 100 * telling.passed / (telling.passed + telling.failed)


def _draw_wrong_answers(axes: Axes, wrong: list[WrongAnswer], label: Callable[[str], str]) -> None:
    rows = range(len(wrong))
    axes.barh(rows, [answer.count for answer in wrong], color=COLORS["orange"])
    for row, answer in enumerate(wrong):
        axes.text(answer.count, row, f" {answer.count}", va="center", fontsize=9)
    names = [textwrap.fill(_short(_name(answer, label), 170), width=64) for answer in wrong]
    axes.set_yticks(rows, names, fontsize=8.5, **_WORDS)
    axes.set_title("Wrong answers that more than one gave", loc="left")
    axes.set(xlabel="submissions", ylabel="exercise · what was wrong")
    axes.set_ylim(max(len(wrong), 1) - 0.4, -0.6)
    axes.set_xlim(0, 1.08 * max([answer.count for answer in wrong], default=1))
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.grid(axis="y", visible=False)
    if not wrong:
        axes.set_ylabel("")
        _say(axes, "no two submissions are wrong in the same way")


def _say(axes: Axes, words: str) -> None:
    """Say why there are no bars."""
    axes.text(0.5, 0.5, words, transform=axes.transAxes, ha="center", va="center", color=_DIM)


def _name(answer: WrongAnswer, label: Callable[[str], str]) -> str:
    claim = f" ({answer.failed[0]})" if answer.failed else ""
    return f"{_number(label(answer.exercise))} · {answer.kind}{claim}"


def _number(label: str) -> str:
    return label.split(" ")[0]


def _finish_bars(axes: Axes, bars: int, title: str, rows: str, end: float) -> None:
    axes.set_title(title, loc="left")
    axes.set(ylabel=rows, xlim=(0, end))
    axes.set_xticks(range(0, 101, 20))
    axes.set_ylim(max(bars, 1) - 0.4, -0.6)
    axes.grid(axis="y", visible=False)


def _describe(tally: Tally, label: Callable[[str], str]) -> str:
    middle = sorted(tally.totals)[tally.count // 2]
    rates = ", ".join(
        f"{label(share.exercise)} {100 * share.passed / tally.count:.0f}%"
        for share in tally.exercises()
    )
    telling = "; ".join(
        f"{each.claim} ({each.passed} pass and {each.failed} fail, exercise {label(each.exercise)})"
        for each in tally.telling()[:3]
    )
    most = "; ".join(
        f"{_name(answer, label)} ({answer.count})" for answer in tally.wrong_answers(fewest=2)[:3]
    )
    more = f"More points wait for a person in {_submissions(tally.waiting)}. "
    return (
        f"Four charts of {_submissions(tally.count)}. Scores: from {min(tally.totals):g} to "
        f"{max(tally.totals):g} of {tally.most:g} points, half reach {middle:g}. "
        + (more if tally.waiting else "")
        + f"Passed, by exercise: {rates}. "
        + (f"What tells students apart most: {telling}. " if telling else "")
        + (f"The most frequent wrong answers: {most}." if most else "No two are wrong alike.")
    )


def _submissions(count: int) -> str:
    return "1 submission" if count == 1 else f"{count:,} submissions"


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"
