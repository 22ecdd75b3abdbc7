"""How everything that is drawn looks and is saved: sizes, colours and fonts, said once."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, PercentFormatter

from pleroma.content import Timestamp

FIGURE_WIDTH = 7.2
"""Inches, of a figure with one panel."""
FIGURE_DPI = 130
TITLE_SIZE, LABEL_SIZE, NOTE_SIZE = 10, 8, 7
"""Points."""

BLUE = "#4c78a8"
"""What is wanted, cells, and subscriptions."""
RED = "#e45756"
"""What is wasted, and the filter that is enclosed."""
PALE_RED = "#f2b6b5"
GREEN = "#1b7837"
"""Events."""
DARK = "#333333"
"""The one line that a picture is about."""
GREY = "#888888"
FAINT = "#c8ccd2"
"""Lines that are only there to be compared with: edges of cells, unused cables."""
GRID_COLOUR = "#e4e7eb"


def new_figure(height: float, width: float = FIGURE_WIDTH) -> Figure:
    """An empty figure of so many inches."""
    return Figure(figsize=(width, height), layout="constrained")


def one_panel(height: float, width: float = FIGURE_WIDTH) -> tuple[Figure, Axes]:
    figure = new_figure(height, width)
    canvas = figure.add_subplot()
    canvas.set_axisbelow(True)
    return figure, canvas


def draw_grid_lines(canvas: Axes, axis: str = "both") -> None:
    canvas.grid(axis=axis, color=GRID_COLOUR, lw=0.6)  # type: ignore[arg-type]


def in_percent(axis: Axis) -> None:
    axis.set_major_formatter(PercentFormatter(1.0))


def moment_ticks(axis: Axis, attribute: Timestamp) -> None:
    """Label the ticks with dates and times; those beyond the domain stay bare."""
    axis.set_major_formatter(FuncFormatter(lambda key, _: (attribute.json_value(round(key)) or "").replace("T", "\n")))


def save_figure(figure: Figure, path: Path) -> None:
    """Write a PNG, an SVG or a PDF; the same figure gives the same bytes."""
    dates = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    with mpl.rc_context({"svg.hashsalt": "pleroma"}):
        figure.savefig(path, dpi=FIGURE_DPI, metadata=dates.get(path.suffix.lower()))
