"""A workload as a picture: subscriptions as rectangles and events as points over pairs of dimensions.

In the manner of Grunert 2014, figure 5.2: each panel shows two dimensions, so that four panels show eight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from math import ceil
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from pleroma.cli.output import shortened
from pleroma.cli.pictures.figure_style import BLUE, GREEN, LABEL_SIZE, TITLE_SIZE, moment_ticks, new_figure
from pleroma.cli.pictures.picture import Picture
from pleroma.content import Attribute, Category, Range, Real, Text, Timestamp
from pleroma.content.batch import EventBatch
from pleroma.content.box import Box
from pleroma.workloads.workload import Workload

MAX_PANELS = 4
MAX_DRAWN_SUBSCRIPTIONS = 200
MAX_DRAWN_EVENTS = 2000
TICK_WORD_LETTERS = 15
"""Of a text beside an axis."""
AXIS_LETTERS = 68
"""That fit along an axis, words and what is between them."""


def draw(workload: Workload) -> Picture:
    """A sample that can be read: at most 200 subscriptions and 2,000 events."""
    every_event = max(1, ceil(len(workload.events) / MAX_DRAWN_EVENTS))
    every_filter = max(1, ceil(len(workload.subscriptions) / MAX_DRAWN_SUBSCRIPTIONS))
    events, filters = workload.events[::every_event], workload.subscriptions[::every_filter]
    scales = [_Scale.of(attribute, events, d) for d, attribute in enumerate(workload.schema.attributes)]
    panels = _panels(workload)
    columns = min(2, len(panels))
    down = ceil(len(panels) / columns)
    figure = new_figure(4.6 * down + 0.6, 5.4 * columns)
    rows: list[tuple[Any, ...]] = []
    for number, (x, y) in enumerate(panels, 1):
        canvas = figure.add_subplot(down, columns, number)
        across, up = scales[x], scales[y]
        boxes = [_rectangle(box, (x, across), (y, up)) for each in filters for box in each.boxes]
        _draw_boxes(canvas, boxes)
        names = across.attribute.name, up.attribute.name
        rows += [("subscription", *names, *each.get_xy(), each.get_width(), each.get_height()) for each in boxes]
        rows += [
            ("event", *names, *point, 0, 0) for point in zip(across.places.tolist(), up.places.tolist(), strict=True)
        ]
        canvas.plot(across.places, up.places, ".", color=GREEN, markersize=3, alpha=0.8, rasterized=True)
        across.dress(canvas.xaxis, canvas.set_xlim)
        up.dress(canvas.yaxis, canvas.set_ylim)
    shown = f"{len(filters):,} of {len(workload.subscriptions):,} subscriptions (rectangles)"
    figure.suptitle(f"{shown}, {len(events):,} of {len(workload.events):,} events (points)", fontsize=TITLE_SIZE)
    return Picture(figure, ("what", "across", "up", "x", "y", "width", "height"), rows)


def _rectangle(box: Box, across: tuple[int, _Scale], up: tuple[int, _Scale]) -> Rectangle:
    """A box along two dimensions, each with its scale."""
    (left, right), (bottom, top) = (scale.span(box.ranges[d]) for d, scale in (across, up))
    return Rectangle((left, bottom), right - left, top - bottom)


def _draw_boxes(canvas: Axes, boxes: list[Rectangle]) -> None:
    shade = min(0.15, 1.2 / max(1, len(boxes)))  # so that points stay visible where all boxes overlap
    canvas.add_collection(PatchCollection(boxes, facecolor=BLUE, edgecolor="none", alpha=shade))
    canvas.add_collection(PatchCollection(boxes, facecolor="none", edgecolor=BLUE, linewidth=0.6, alpha=0.45))


def _panels(workload: Workload) -> list[tuple[int, int]]:
    """Dimensions two by two; pairs known to be correlated come first and together."""
    pairs = [tuple(pair) for pair in workload.description.get("drawn", {}).get("pairs", [])]
    rest = [d for d in range(len(workload.schema)) if d not in set(chain.from_iterable(pairs))]
    pairs += [(rest[i], rest[i + 1] if i + 1 < len(rest) else rest[i - 1]) for i in range(0, len(rest), 2)]
    return pairs[:MAX_PANELS]


@dataclass(frozen=True, slots=True)
class _Scale:
    """Where the values of one attribute are drawn; texts are drawn in order, one step apart."""

    attribute: Attribute
    texts: list[str]
    places: NDArray[np.float64]

    @classmethod
    def of(cls, attribute: Attribute, events: EventBatch, d: int) -> _Scale:
        column = events.columns[d]
        if isinstance(attribute, Text):
            texts = sorted({text for text in column.tolist() if text is not None})
            rank = {text: place for place, text in enumerate(texts)}
            return cls(attribute, texts, np.array([rank.get(text, -1) for text in column.tolist()], np.float64))
        return cls(attribute, [], np.maximum(column, attribute.extent[0]).astype(np.float64))

    def span(self, part: Range) -> tuple[float, float]:
        """The ends of a side; whole numbers, words and texts are one step wide around their point."""
        if isinstance(self.attribute, Text):
            keys = [self.attribute.key(text) for text in self.texts]
            inside = [place for place, key in enumerate(keys) if key in part]
            return (inside[0] - 0.4, inside[-1] + 0.4) if inside else (-1.0, -1.0)
        first, last = self.attribute.span(part)
        return (first, last) if isinstance(self.attribute, Real) else (first - 0.5, last + 0.5)

    def dress(self, axis: Any, limit: Any) -> None:
        axis.set_label_text(self.attribute.name)
        if isinstance(self.attribute, Text):
            _name_places(axis, limit, self.texts)
        elif isinstance(self.attribute, Category):
            _name_places(axis, limit, self.attribute.values)
        else:
            low, high = self.attribute.extent
            limit(low - 0.02 * (high - low), high + 0.02 * (high - low))
            if isinstance(self.attribute, Timestamp):
                moment_ticks(axis, self.attribute)


def _name_places(axis: Any, limit: Any, words: Sequence[str]) -> None:
    """Words beside their places, from 0 on; of many, as many as do not run into each other."""
    limit(-0.6, max(0, len(words) - 1) + 0.6)
    short = [shortened(word, TICK_WORD_LETTERS) for word in words]
    fitting = max(2, AXIS_LETTERS // (max(map(len, short), default=0) + 1))
    shown = range(0, len(short), max(1, ceil(len(short) / fitting)))
    axis.set_ticks(list(shown), labels=[short[place] for place in shown])
    axis.set_tick_params(labelsize=LABEL_SIZE)
