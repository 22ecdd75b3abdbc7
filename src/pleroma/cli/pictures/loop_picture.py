"""A picture of the closed loop: waste at hosts over time, and what happened when."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

from pleroma.cli.pictures.figure_style import DARK, LABEL_SIZE, in_percent, one_panel
from pleroma.cli.pictures.picture import Picture
from pleroma.experiments.demonstration.loop_story import AFTERWARDS, BEFORE, CHANGING, SHIFTED

if TYPE_CHECKING:
    from pleroma.experiments.demonstration.loop_story import LoopStory

STRETCH_COLOURS = {BEFORE: "#e8f1e4", SHIFTED: "#fbe3e1", CHANGING: "#f4c7a1", AFTERWARDS: "#e4ecf5"}


def draw_loop(loop: LoopStory) -> Picture:
    figure, canvas = one_panel(3.4)
    starts = [0.0, *accumulate(each.seconds for each in loop.stretches)]
    for each, start in zip(loop.stretches, starts, strict=False):
        canvas.axvspan(start, start + each.seconds, color=STRETCH_COLOURS[each.name], lw=0)
        if each.name != CHANGING:
            middle = start + each.seconds / 2
            label = f"{each.name}\nplan {each.epoch}: {each.waste_at_hosts:.0%} wasted"
            canvas.text(middle, 0.97, label, ha="center", va="top", fontsize=LABEL_SIZE)
    canvas.plot(*zip(*loop.curve, strict=True), color=DARK, lw=1.2)
    canvas.set(xlabel="seconds", ylabel="waste at hosts", xlim=(0, starts[-1]), ylim=(0, 1))
    in_percent(canvas.yaxis)
    canvas.grid(axis="y", color="white", lw=0.6)
    return Picture(figure, ("seconds", "waste_at_hosts"), [tuple(each) for each in loop.curve])
