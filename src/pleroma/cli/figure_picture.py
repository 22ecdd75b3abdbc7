"""A figure with lines, in the manner of the papers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

MARKS = "os^vDPX*<>"
MANY = 100
"""A line of so many points needs no marks."""
Lines = Mapping[str, Mapping[int, float]]


def draw_lines(lines: Lines, title: str, x: str, y: str, path: Path, ticks: Sequence[str] = ()) -> None:
    """Lines by label; shares are drawn as percentages, everything else on a logarithmic scale."""
    figure = Figure(figsize=(7.2, 4.6), layout="constrained")
    canvas = figure.add_subplot()
    for number, (label, line) in enumerate(lines.items()):
        style = ("-", "--", ":")[number // 10 % 3]
        mark = "" if len(line) > MANY else MARKS[number % len(MARKS)]
        canvas.plot(list(line), list(line.values()), style, marker=mark, ms=4, label=label)
    if x == "dimensions":
        canvas.invert_xaxis()  # the papers go from all dimensions down to one
        canvas.xaxis.set_major_locator(MaxNLocator(integer=True))
    elif ticks:
        canvas.set_xticks(range(len(ticks)), labels=ticks)
    elif x not in ("bits", "seconds"):
        canvas.set_xscale("log")
    canvas.set(xlabel=x, ylabel=y)
    if y.startswith(("seconds", "rules")):
        canvas.set_yscale("log")
        low, high = canvas.get_ylim()
        if high < 10 * low:  # or else a little noise would look like a slope
            canvas.set_ylim(low / 3, high * 3)
    else:
        canvas.set_ylim(0, 1)
        canvas.yaxis.set_major_formatter(PercentFormatter(1.0))
    canvas.grid(color="#e4e7eb", lw=0.6)
    canvas.set_title(title, fontsize=10)
    canvas.legend(fontsize=7 if len(lines) > 8 else 8, ncols=2 if len(lines) > 8 else 1)
    figure.savefig(path, dpi=130)


def draw_panels(panels: Mapping[str, Lines], title: str, x: str, path: Path) -> None:
    """Waste in a panel for each heading, with the same colours and the same scale in all."""
    figure = Figure(figsize=(3.6 * len(panels), 4.2), layout="constrained")
    rows = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    labels = list(dict.fromkeys(label for lines in panels.values() for label in lines))
    for canvas, (heading, lines) in zip(rows, panels.items(), strict=True):
        for label, line in lines.items():
            number = labels.index(label)
            mark = MARKS[number % len(MARKS)]
            canvas.plot(list(line), list(line.values()), marker=mark, ms=4, lw=1.2, color=f"C{number}", label=label)
        canvas.set_title(heading, fontsize=10)
        canvas.set_xlabel(x)
        canvas.invert_xaxis()
        canvas.xaxis.set_major_locator(MaxNLocator(integer=True))
        canvas.grid(color="#e4e7eb", lw=0.6)
    rows[0].set_ylabel("waste")
    rows[0].yaxis.set_major_formatter(PercentFormatter(1.0))
    rows[-1].legend(fontsize=8)
    figure.suptitle(title, fontsize=11)
    figure.savefig(path, dpi=130)
