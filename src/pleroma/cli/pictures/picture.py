"""A picture, and the numbers that it shows as a table: what drawing gives, and `PlotFiles` writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from matplotlib.figure import Figure


class Picture(NamedTuple):
    figure: Figure
    columns: tuple[str, ...]
    rows: Sequence[tuple[Any, ...]]
    """The numbers, under these columns."""
