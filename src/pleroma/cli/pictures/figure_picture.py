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
ACROSS = 4
"""Panels in a row."""
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


def draw_grid(panels: Mapping[str, Lines], title: str, x: str, y: str, path: Path) -> None:
    """Shares in rows of panels, with the same colours and scales in all; the last line of each panel stands out."""
    across = min(len(panels), ACROSS)
    down = -(-len(panels) // across)
    figure = Figure(figsize=(3.4 * across, 2.9 * down + 0.9), layout="constrained")
    grid = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False)
    labels = list(dict.fromkeys(label for lines in panels.values() for label in lines))
    drawn = {}
    for canvas, (heading, lines) in zip(grid.flat, panels.items(), strict=False):
        for number, (label, line) in enumerate(lines.items(), 1):
            at = labels.index(label)
            look = {"lw": 2.4, "color": "black"} if number == len(lines) else {"lw": 1.0, "color": f"C{at}"}
            style = "-" if number == len(lines) else ("-", "--", ":")[at // 10 % 3]
            mark = MARKS[at % len(MARKS)]
            (drawn[label],) = canvas.plot(list(line), list(line.values()), style, marker=mark, ms=3.5, **look)
        canvas.set_xscale("log")
        canvas.set_ylim(0, 1)
        canvas.yaxis.set_major_formatter(PercentFormatter(1.0))
        canvas.set_title(heading, fontsize=8)
        canvas.grid(color="#e4e7eb", lw=0.6)
        canvas.tick_params(labelsize=8)
        canvas.label_outer()
    for canvas in list(grid.flat)[len(panels) :]:
        canvas.set_visible(False)
    for canvas in grid[-1]:
        canvas.set_xlabel(x, fontsize=8)
    for canvas in grid[:, 0]:
        canvas.set_ylabel(y, fontsize=8)
    figure.suptitle(title, fontsize=10)
    figure.legend(
        drawn.values(), drawn.keys(), loc="outside lower center", fontsize=7, ncols=min(len(drawn), 2 * across)
    )
    figure.savefig(path, dpi=130)
