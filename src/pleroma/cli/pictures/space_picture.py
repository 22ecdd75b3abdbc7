"""Pictures of the event space: two dimensions, the cells of a cover, and the boxes they enclose."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter

from pleroma.cli.output import shortened
from pleroma.cli.pictures.figure_style import (
    BLUE,
    FAINT,
    GREEN,
    NOTE_SIZE,
    RED,
    TITLE_SIZE,
    moment_ticks,
    one_panel,
)
from pleroma.cli.pictures.picture import Picture
from pleroma.content import Attribute, Category, Filter, Text, Timestamp
from pleroma.content.text import CODED_BYTES
from pleroma.index import DzSet, GridIndex, Index, SelectiveIndex, TreeIndex
from pleroma.index.tree_walk import LEAF

if TYPE_CHECKING:
    from pleroma.workloads import Workload

MAX_GRID_LINES = 64
"""Cell boundaries that are drawn of one dimension."""
MAX_SPACE_EVENTS = 2000
MAX_SPACE_BOXES = 100
DIGIT_WIDTH = 0.0085
"""The width of a digit, as a share of the picture: a cell is labelled when its dz fits."""
TITLE_FILTER_LETTERS = 80


def draw_cover(index: GridIndex | TreeIndex, wanted: Filter, cover: DzSet) -> Picture:
    """The first two dimensions of a grid, or those that a tree is cut along most often; of one attribute, a strip."""
    figure, canvas = one_panel(6.2)
    first: Sequence[int] = index.order if isinstance(index, GridIndex) else _most_cut(index)
    shown = list(dict.fromkeys((*first, *range(len(index.schema)))))[:2]
    attributes = [index.schema.attributes[d] for d in shown]
    breadth = attributes[0].extent[1] - attributes[0].extent[0]
    numbers = _Numbers(attributes)
    for dz in cover:
        extent = index.extent(dz)
        x, y, width, height = _rectangle([extent[d] for d in shown])
        numbers.add("dz", str(dz), [extent[d] for d in shown])
        canvas.add_patch(Rectangle((x, y), width, height, fc=BLUE, ec="white", lw=0.8, alpha=0.45))
        if width >= DIGIT_WIDTH * len(str(dz)) * breadth:
            canvas.text(
                x + width / 2, y + height / 2, str(dz), ha="center", va="center", fontsize=NOTE_SIZE, clip_on=True
            )
    for box in wanted.boxes:
        sides = [_drawn(a, a.span(box.ranges[d])) for a, d in zip(attributes, shown, strict=True)]
        numbers.add("filter", "", sides)
        x, y, width, height = _rectangle(sides)
        canvas.add_patch(Rectangle((x, y), width, height, fc="none", ec=RED, lw=2))
    _frame(canvas, shown, attributes)
    if isinstance(index, TreeIndex):
        _leaves(canvas, index, shown)
    else:
        _cells(canvas, index, shown, _rectangle([a.extent for a in attributes]))
    canvas.set_title(shortened(str(wanted), TITLE_FILTER_LETTERS), fontsize=TITLE_SIZE)
    handles = [Rectangle((0, 0), 1, 1, fc=BLUE, alpha=0.45), Rectangle((0, 0), 1, 1, fc="none", ec=RED, lw=2)]
    figure.legend(handles, [f"{len(cover)} dz that enclose it", "the filter"], loc="outside lower center", ncols=2)
    return numbers.picture(figure)


def draw_cells(index: Index, shown: Sequence[int], workload: Workload, title: str) -> Picture:
    """The cells over two dimensions, with some of the subscriptions and events."""
    figure, canvas = one_panel(6.2)
    shown = list(dict.fromkeys((*shown, *range(len(index.schema)))))[:2]
    attributes = [index.schema.attributes[d] for d in shown]
    points = workload.events[:MAX_SPACE_EVENTS].points()
    flat = np.zeros(len(points)) + 0.5
    canvas.scatter(points[:, shown[0]], points[:, shown[1]] if len(shown) > 1 else flat, s=2, c=GREEN, zorder=2)
    numbers = _Numbers(attributes)
    for point in points[:, shown].tolist():
        numbers.add("event", "", [(value, value) for value in point])
    for number, wanted in enumerate(workload.subscriptions[:MAX_SPACE_BOXES]):
        for box in wanted.boxes:
            sides = [_drawn(a, a.span(box.ranges[d])) for a, d in zip(attributes, shown, strict=True)]
            numbers.add("subscription", str(number), sides)
            x, y, width, height = _rectangle(sides)
            canvas.add_patch(Rectangle((x, y), width, height, fc="none", ec=RED, lw=0.6, alpha=0.5, zorder=1))
    _frame(canvas, shown, attributes)
    if isinstance(index, GridIndex):
        _cells(canvas, index, shown, _rectangle([a.extent for a in attributes]))
    elif isinstance(index, TreeIndex):
        for dz in index.cells():
            numbers.add("dz", str(dz), [index.extent(dz)[d] for d in shown])
        _leaves(canvas, index, shown)
    elif isinstance(index, SelectiveIndex):
        for region in index.regions:
            if region.rectangle is not None:
                around = _rectangle([region.rectangle.sides[d] for d in shown])
                _cells(canvas, region.grid, shown, around)
                x, y, width, height = around
                canvas.add_patch(Rectangle((x, y), width, height, fc="none", ec=BLUE, lw=0.8, zorder=3))
    for d, name in zip(shown, ("xlim", "ylim"), strict=False):  # where there is something to see
        low, high = points[:, d].min(), points[:, d].max()
        margin = (high - low or 1.0) * 0.05
        canvas.set(**{name: (low - margin, high + margin)})
    canvas.set_title(f"{title}: {index.bits} bits", fontsize=TITLE_SIZE)
    return numbers.picture(figure)


class _Numbers:
    """What lies where along the dimensions that are shown, as rows."""

    def __init__(self, attributes: Sequence[Attribute]) -> None:
        ends = (f"{each.name}_{end}" for each in attributes for end in ("low", "high"))
        self._columns = ("what", "name", *ends)
        self._rows: list[tuple[Any, ...]] = []

    def add(self, what: str, name: str, sides: Sequence[tuple[float, float]]) -> None:
        self._rows.append((what, name, *(end for side in sides for end in side)))

    def picture(self, figure: Figure) -> Picture:
        return Picture(figure, self._columns, self._rows)


def _most_cut(tree: TreeIndex) -> list[int]:
    """The dimensions that a tree is cut along, most often first."""
    return [d for d, _ in Counter(d for d in tree.dimensions if d != LEAF).most_common()]


def _frame(canvas: Axes, shown: Sequence[int], attributes: Sequence[Attribute]) -> None:
    """Limits and labels."""
    x, y, width, height = _rectangle([a.extent for a in attributes])
    canvas.set(xlim=(x, x + width), ylim=(y, y + height))
    for which, attribute in zip((canvas.xaxis, canvas.yaxis), attributes, strict=False):
        _dress(which, attribute)
    if len(shown) == 1:
        canvas.set_yticks([])


def _cells(canvas: Axes, grid: GridIndex, shown: Sequence[int], around: tuple[float, float, float, float]) -> None:
    """The lines of a grid, within a rectangle."""
    x, y, width, height = around
    canvas.vlines(_grid_lines(grid, shown[0]), y, y + height, color=FAINT, lw=0.5, zorder=0)
    if len(shown) > 1:
        canvas.hlines(_grid_lines(grid, shown[1]), x, x + width, color=FAINT, lw=0.5, zorder=0)


def _leaves(canvas: Axes, tree: TreeIndex, shown: Sequence[int]) -> None:
    """The outlines of leaves as far as these dimensions go; those that differ in others only lie on each other."""
    extents = (tree.extent(dz) for dz in tree.cells())
    outlines = {_rectangle([extent[d] for d in shown]) for extent in extents}
    patches = [Rectangle((x, y), width, height) for x, y, width, height in sorted(outlines)]
    canvas.add_collection(PatchCollection(patches, facecolor="none", edgecolor=BLUE, lw=0.3, alpha=0.5, zorder=0))


def _rectangle(sides: Sequence[tuple[float, float]]) -> tuple[float, float, float, float]:
    """x, y, width and height; never without area, so that a domain of one value can be seen."""
    (x0, x1), (y0, y1) = (sides[0], sides[1] if len(sides) == 2 else (0.0, 1.0))
    return x0, y0, (x1 - x0) or 1.0, (y1 - y0) or 1.0


def _drawn(attribute: Attribute, span: tuple[float, float]) -> tuple[float, float]:
    """A whole number, a word or a text code is one step wide; a real is a point."""
    return span if attribute.kind == "real" else (span[0], span[1] + 1)


def _grid_lines(index: GridIndex, d: int) -> list[float]:
    """The cell boundaries of one dimension, as fine as they stay readable."""
    axis = index.axes.get(d)
    if axis is None:
        return []
    bits = min(axis.bits, MAX_GRID_LINES.bit_length() - 1)
    high = index.within.get(d, index.schema.attributes[d].extent)[1]
    return [axis.edges(cell, bits, high)[0] for cell in range(1, 1 << bits)]


def _dress(which: Any, attribute: Attribute) -> None:
    which.set_label_text(attribute.name)
    if isinstance(attribute, Category):
        which.set_ticks([i + 0.5 for i in range(len(attribute.values))], labels=attribute.values)
    elif isinstance(attribute, Text):
        which.set_major_formatter(FuncFormatter(lambda code, _: _text_of(code)))
    elif isinstance(attribute, Timestamp):
        moment_ticks(which, attribute)


def _text_of(code: float) -> str:
    if not 0 <= code < 2 ** (8 * CODED_BYTES):
        return ""
    raw = int(code).to_bytes(CODED_BYTES).rstrip(b"\0")[:2]
    return raw.decode("ascii", "replace") if raw.isascii() and raw.decode("ascii").isprintable() else raw.hex()
