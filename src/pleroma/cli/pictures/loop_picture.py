"""A picture of the closed loop: waste at the subscribers over time, and what happened when."""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib as mpl

mpl.use("Agg")

from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from pleroma.experiments.demonstration.loop_story import AFTERWARDS, BEFORE, CHANGING, SHIFTED

if TYPE_CHECKING:
    from pleroma.experiments.demonstration.loop_story import LoopStory

COLOURS = {BEFORE: "#e8f1e4", SHIFTED: "#fbe3e1", CHANGING: "#f4c7a1", AFTERWARDS: "#e4ecf5"}


def draw_loop(loop: LoopStory, path: Path) -> None:
    figure = Figure(figsize=(7.2, 3.4), layout="constrained")
    canvas = figure.add_subplot()
    starts = [0.0, *accumulate(each.seconds for each in loop.stretches)]
    for each, start in zip(loop.stretches, starts, strict=False):
        canvas.axvspan(start, start + each.seconds, color=COLOURS[each.name], lw=0)
        if each.name != CHANGING:
            middle = start + each.seconds / 2
            label = f"{each.name}\nplan {each.epoch}: {each.waste:.0%} wasted"
            canvas.text(middle, 0.97, label, ha="center", va="top", fontsize=8)
    canvas.plot(*zip(*loop.curve, strict=True), color="#333333", lw=1.2)
    canvas.set(xlabel="seconds", ylabel="waste at the subscribers", xlim=(0, starts[-1]), ylim=(0, 1))
    canvas.yaxis.set_major_formatter(PercentFormatter(1.0))
    canvas.grid(axis="y", color="white", lw=0.6)
    figure.savefig(path, dpi=130)
