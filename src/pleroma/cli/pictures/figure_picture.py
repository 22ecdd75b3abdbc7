"""Figures with lines, in the manner of the papers: one panel, a row of panels, or a grid of panels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from pleroma.cli.pictures.figure_style import (
    GREY,
    LABEL_SIZE,
    NOTE_SIZE,
    TITLE_SIZE,
    draw_grid_lines,
    in_percent,
    new_figure,
    one_panel,
)
from pleroma.cli.pictures.picture import Picture

MARKS = "os^vDPX*<>"
STYLES = ("-", "--", ":")
LINE_COLOURS = 10
"""Colours of lines before they repeat, in another style."""
MAX_MARKED_POINTS = 100
"""A line of more points has no marks."""
MANY_LINES = 8
"""A legend of more lines has two columns, in small print."""
PANELS_ACROSS = 4
SHARES = ("waste", "share", "rate")
"""Words of which one is in what shares are called. Everything else, as seconds or megabytes, may be any number."""
Lines = Mapping[str, Mapping[int, float]]
PublishedPoint = tuple[str, float, int | None]
"""A label, a value, and its place on the x axis; None where the paper does not say the place."""


def draw_lines(
    lines: Lines,
    title: str,
    x: str,
    y: str,
    ticks: Sequence[str] = (),
    spread: Lines | None = None,
    published: Sequence[PublishedPoint] = (),
) -> Picture:
    """Lines by label; shares are drawn as percentages, everything else on a logarithmic scale.

    Where the spread over several seeds is known, it is drawn as error bars. What the papers say of their own curves is
    drawn in grey beside ours.
    """
    figure, canvas = one_panel(4.6)
    for number, (label, line) in enumerate(lines.items()):
        mark = "" if len(line) > MAX_MARKED_POINTS else MARKS[number % len(MARKS)]
        bars = (spread or {}).get(label)
        canvas.errorbar(
            list(line),
            list(line.values()),
            yerr=[bars[each] for each in line] if bars else None,
            fmt=_style(number),
            marker=mark,
            ms=4,
            capsize=2.5,
            elinewidth=0.8,
            label=label,
        )
    for number, (label, value, at) in enumerate(published):
        if at is None:
            canvas.axhline(value, color=GREY, lw=1, ls=STYLES[1 + number % 2], label=label)
        else:
            canvas.plot([at], [value], MARKS[number % len(MARKS)], color=GREY, mfc="none", ms=8, mew=1.4, label=label)
    _scale_x(canvas, x, ticks)
    canvas.set(xlabel=x, ylabel=y)
    _scale_y(canvas, y)
    draw_grid_lines(canvas)
    canvas.set_title(title, fontsize=TITLE_SIZE)
    is_long = len(lines) + len(published) > MANY_LINES
    canvas.legend(fontsize=NOTE_SIZE if is_long else LABEL_SIZE, ncols=2 if is_long else 1)
    rows: list[tuple[Any, ...]] = [
        (label, ticks[at] if ticks else at, value, (spread or {}).get(label, {}).get(at, ""))
        for label, at, value in _points(lines)
    ]
    rows += [(label, "" if at is None else at, value, "") for label, value, at in published]
    return Picture(figure, ("line", x, y, "standard deviation"), rows)


def draw_panels(panels: Mapping[str, Lines], title: str, x: str) -> Picture:
    """Waste in a panel for each heading, with the same colours and the same scale in all."""
    figure = new_figure(4.2, 3.6 * len(panels))
    rows = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    labels = list(dict.fromkeys(label for lines in panels.values() for label in lines))
    for canvas, (heading, lines) in zip(rows, panels.items(), strict=True):
        for label, line in lines.items():
            number = labels.index(label)
            mark = MARKS[number % len(MARKS)]
            canvas.plot(list(line), list(line.values()), marker=mark, ms=4, lw=1.2, color=f"C{number}", label=label)
        canvas.set_title(heading, fontsize=TITLE_SIZE)
        canvas.set_xlabel(x)
        canvas.invert_xaxis()
        canvas.xaxis.set_major_locator(MaxNLocator(integer=True))
        draw_grid_lines(canvas)
    rows[0].set_ylabel("waste at subscriptions")
    in_percent(rows[0].yaxis)
    rows[-1].legend(fontsize=LABEL_SIZE)
    figure.suptitle(title, fontsize=TITLE_SIZE)
    return Picture(figure, ("panel", "line", x, "waste at subscriptions"), list(_panel_points(panels)))


def draw_grid(panels: Mapping[str, Lines], title: str, x: str, y: str) -> Picture:
    """Shares in rows of panels, with the same colours and scales in all; the last line of each panel stands out."""
    across = min(len(panels), PANELS_ACROSS)
    down = -(-len(panels) // across)
    figure = new_figure(2.9 * down + 0.9, 3.4 * across)
    grid = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False)
    labels = list(dict.fromkeys(label for lines in panels.values() for label in lines))
    drawn = {}
    for canvas, (heading, lines) in zip(grid.flat, panels.items(), strict=False):
        for number, (label, line) in enumerate(lines.items(), 1):
            at = labels.index(label)
            look = {"lw": 2.4, "color": "black"} if number == len(lines) else {"lw": 1.0, "color": f"C{at}"}
            style = "-" if number == len(lines) else _style(at)
            mark = MARKS[at % len(MARKS)]
            (drawn[label],) = canvas.plot(list(line), list(line.values()), style, marker=mark, ms=3.5, **look)
        canvas.set_xscale("log")
        canvas.set_ylim(0, 1)
        in_percent(canvas.yaxis)
        canvas.set_title(heading, fontsize=LABEL_SIZE)
        draw_grid_lines(canvas)
        canvas.tick_params(labelsize=LABEL_SIZE)
        canvas.label_outer()
    for canvas in list(grid.flat)[len(panels) :]:
        canvas.set_visible(False)
    for canvas in grid[-1]:
        canvas.set_xlabel(x, fontsize=LABEL_SIZE)
    for canvas in grid[:, 0]:
        canvas.set_ylabel(y, fontsize=LABEL_SIZE)
    figure.suptitle(title, fontsize=TITLE_SIZE)
    figure.legend(
        drawn.values(), drawn.keys(), loc="outside lower center", fontsize=NOTE_SIZE, ncols=min(len(drawn), 2 * across)
    )
    return Picture(figure, ("panel", "line", x, y), list(_panel_points(panels)))


def _points(lines: Lines) -> Iterator[tuple[str, int, float]]:
    return ((label, at, value) for label, line in lines.items() for at, value in line.items())


def _panel_points(panels: Mapping[str, Lines]) -> Iterator[tuple[str, str, int, float]]:
    return ((heading, *point) for heading, lines in panels.items() for point in _points(lines))


def _style(number: int) -> str:
    return STYLES[number // LINE_COLOURS % len(STYLES)]


def _scale_x(canvas: Axes, x: str, ticks: Sequence[str]) -> None:
    if x == "dimensions":
        canvas.invert_xaxis()  # the papers go from all dimensions down to one
        canvas.xaxis.set_major_locator(MaxNLocator(integer=True))
    elif ticks:
        canvas.set_xticks(range(len(ticks)), labels=ticks)
    elif x not in ("bits", "seconds"):
        canvas.set_xscale("log")


def _scale_y(canvas: Axes, y: str) -> None:
    if not any(word in y for word in SHARES):
        canvas.set_yscale("log")
        low, high = canvas.get_ylim()
        if high < 10 * low:  # or else a little noise would look like a slope
            canvas.set_ylim(low / 3, high * 3)
    else:
        canvas.set_ylim(0, 1)
        in_percent(canvas.yaxis)
