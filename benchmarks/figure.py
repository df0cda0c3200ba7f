"""The picture of growth: time and memory over the size of the class."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import matplotlib as mpl

from benchmarks.growth import fit_line
from benchmarks.outcome import Outcome
from helpers.plotting import COLORS, new_figure, render_png

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MIB = 2**20
_SETTINGS = {"svg.hashsalt": "bits", "svg.fonttype": "path"}


def draw_growth(outcome: Outcome) -> tuple[bytes, bytes]:
    """Return the picture as PNG and as SVG."""
    with mpl.rc_context(_SETTINGS):
        figure, (time, memory) = new_figure(1, 2, width=11.0, height=4.6)
        machine = outcome.machine
        where = f"{machine['cores']} cores, {machine['processor']}"
        figure.suptitle(f"bits grade on {where}, {machine['date'][:10]}")
        _draw_time(time, outcome)
        _draw_memory(memory, outcome)
        vector = io.BytesIO()
        figure.savefig(vector, format="svg", metadata={"Date": None, "Creator": None})
        return render_png(figure), vector.getvalue()


def _draw_time(axes: Axes, outcome: Outcome) -> None:
    sizes = [point.submissions for point in outcome.growth]
    seconds = [point.seconds for point in outcome.growth]
    axes.plot(sizes, seconds, "o-", color=COLORS["blue"], label="bits grade, start to end")
    line = fit_line(outcome.growth)
    if line is not None and line.each > 0:
        words = f"in proportion: {line.each:.2f} s each"
        proportion = [line.each * size for size in sizes]
        axes.plot(sizes, proportion, "--", color=COLORS["sky"], label=words)
    limit = [outcome.limit_each * size for size in sizes]
    words = f"the limit: {outcome.limit_each:.2f} s each"
    axes.plot(sizes, limit, ":", color=COLORS["black"], label=words)
    times = outcome.prompt or outcome.whole
    if times.nbgrader is not None:
        words = f"plain nbgrader, a class of {times.submissions}"
        axes.plot(times.submissions, times.nbgrader, "s", color=COLORS["vermilion"], label=words)
    axes.set(xscale="log", yscale="log")
    axes.set(xlabel="submissions", ylabel="time (s)", title="Time")
    _name_sizes(axes, sizes)
    axes.legend(frameon=False, fontsize=9)


def _draw_memory(axes: Axes, outcome: Outcome) -> None:
    sizes = [point.submissions for point in outcome.growth]
    mib = [point.peak.bytes / _MIB for point in outcome.growth]
    axes.plot(sizes, mib, "o-", color=COLORS["green"])
    axes.set(xscale="log", ylim=(0, 1.25 * max(mib)))
    axes.set(xlabel="submissions", ylabel="memory (MiB)")
    axes.set_title("Peak memory of all processes together")
    _name_sizes(axes, sizes)


def _name_sizes(axes: Axes, sizes: list[int]) -> None:
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.minorticks_off()
