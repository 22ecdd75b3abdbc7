"""A figure with lines, in the manner of the papers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib as mpl

mpl.use("Agg")

from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

if TYPE_CHECKING:
    from pleroma.experiments.report import Report


def draw_lines(report: Report, path: Path) -> None:
    figure = Figure(figsize=(7.2, 4.6), layout="constrained")
    canvas = figure.add_subplot()
    for label, line in report.lines.items():
        canvas.plot(list(line), list(line.values()), marker="o", ms=4, label=label)
    if report.x == "dimensions":
        canvas.invert_xaxis()  # the papers go from all dimensions down to one
    else:
        canvas.set_xscale("log")
    canvas.set(xlabel=report.x, ylabel="waste (false-positive rate)", ylim=(0, 1))
    canvas.yaxis.set_major_formatter(PercentFormatter(1.0))
    canvas.grid(color="#e4e7eb", lw=0.6)
    canvas.set_title(report.title, fontsize=10)
    canvas.legend(fontsize=8)
    figure.savefig(path, dpi=130)
