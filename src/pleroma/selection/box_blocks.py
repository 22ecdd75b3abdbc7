"""The subscriptions' side of a pass over events: boxes in blocks, each with rows of bits that are made once.

The bounds of boxes divide a dimension into stretches in which all keys meet the same boxes, so that an event is no more
than the number of its stretch along each dimension. Blocks are small enough for the processor's cache. What an event
has in common with several blocks adds up, so that there may be more boxes than memory has room for rows.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pleroma.arrays.types import Floats, Ints, Words
from pleroma.content import Filter, Schema
from pleroma.content.batch import EventBatch, TextColumn
from pleroma.content.text import Text
from pleroma.evaluation.bit_rows import filled
from pleroma.evaluation.sample import Sample
from pleroma.selection.pass_kernels import stretches

BLOCK_BOXES = 1_024
"""How many boxes a block has."""
MAX_KEPT_BLOCKS = 32
"""So many blocks keep their rows; the rows of the others are made again whenever they are needed."""

Column = Floats | TextColumn
"""The keys of many events along one dimension."""
Bounds = NDArray[Any]
"""Bounds of boxes along one dimension: numbers, or for text the bytes that are compared."""


@dataclass(frozen=True)
class BoxBlock:
    """Some boxes, numbered from `first` on. They want keys in `[low, high)`, by dimension and box."""

    first: int
    low: tuple[Bounds, ...]
    high: tuple[Bounds, ...]

    def __len__(self) -> int:
        return len(self.low[0])

    @property
    def end(self) -> int:
        return self.first + len(self)

    @cached_property
    def bounds(self) -> list[Bounds]:
        return [np.unique(np.concatenate(pair)) for pair in zip(self.low, self.high, strict=True)]

    @cached_property
    def offsets(self) -> list[int]:
        """Where the rows of each dimension begin. A dimension has a row before, between and behind all its bounds."""
        return [0, *np.cumsum([len(each) + 1 for each in self.bounds]).tolist()]

    @cached_property
    def spans(self) -> list[tuple[Ints, Ints]]:
        """By dimension: the stretches at which each box begins and at which it is over."""
        listed = zip(self.bounds, self.low, self.high, strict=True)
        return [(_stretches(bounds, low), _stretches(bounds, high)) for bounds, low, high in listed]

    @cached_property
    def rows(self) -> Words:
        """A row of bits for each stretch of each dimension, one bit for each box that wants it."""
        listed = zip(self.bounds, self.spans, strict=True)
        return np.concatenate([filled(len(bounds) + 1, *span) for bounds, span in listed])

    def places(self, keys: Sequence[Column], events: slice) -> Ints:
        """By event and dimension: the row of the event's stretch."""
        begin, end, _ = events.indices(len(keys[0].ranks if isinstance(keys[0], TextColumn) else keys[0]))
        found = np.empty((end - begin, len(keys)), np.int64)
        for d, (bounds, column) in enumerate(zip(self.bounds, keys, strict=True)):
            if isinstance(column, TextColumn):
                listed = bounds.tolist()
                table = np.array([bisect_right(listed, key) for key in column.keys], np.int64)
                found[:, d] = table[column.ranks[events]] + self.offsets[d]
            else:
                stretches(bounds, column[events], self.offsets[d], found[:, d])
        return found

    def covered(self, places: Ints) -> Ints:
        """By box and dimension: how many of the events lie in its range."""
        before = np.concatenate([[0], np.cumsum(np.bincount(places.ravel(), minlength=self.offsets[-1]))])
        listed = zip(self.spans, self.offsets, strict=False)
        return np.column_stack([before[end + at] - before[begin + at] for (begin, end), at in listed])

    def bare(self) -> BoxBlock:
        """The block without its rows, which are made again when they are needed."""
        return BoxBlock(self.first, self.low, self.high)

    def __reduce__(self) -> tuple[Any, ...]:
        return BoxBlock, (self.first, self.low, self.high)


@dataclass(frozen=True)
class BoxBlocks:
    """The boxes of all subscriptions, in blocks."""

    count: int
    parts: tuple[BoxBlock, ...] = field(repr=False)

    def blocks(self) -> Iterator[BoxBlock]:
        for number, block in enumerate(self.parts):
            yield block if number < MAX_KEPT_BLOCKS else block.bare()

    @classmethod
    def of(cls, schema: Schema, subscriptions: Sequence[Filter]) -> BoxBlocks:
        ranges = [box.ranges for each in subscriptions for box in each.boxes]
        kinds = [object if isinstance(attribute, Text) else np.float64 for attribute in schema.attributes]
        low = [np.array([each[d].lo for each in ranges], kind) for d, kind in enumerate(kinds)]
        high = [np.array([each[d].hi for each in ranges], kind) for d, kind in enumerate(kinds)]
        return cls._parted(low, high)

    @classmethod
    def of_sample(cls, sample: Sample) -> BoxBlocks:
        return cls._parted(list(sample.low.T), list(sample.high.T))

    @classmethod
    def _parted(cls, low: list[Bounds], high: list[Bounds]) -> BoxBlocks:
        count = len(low[0])
        cuts = [slice(at, at + BLOCK_BOXES) for at in range(0, count, BLOCK_BOXES)]
        return cls(
            count,
            tuple(BoxBlock(cut.start, tuple(c[cut] for c in low), tuple(c[cut] for c in high)) for cut in cuts),
        )


def keys_of(events: EventBatch) -> list[Column]:
    """The keys of events by dimension: numbers, or for text the words and which event has which."""
    attributes = events.schema.attributes
    return [
        events.text_column(d) if isinstance(attribute, Text) else events.columns[d].astype(np.float64, copy=False)
        for d, attribute in enumerate(attributes)
    ]


def _stretches(bounds: Bounds, keys: Bounds) -> Ints:
    """How many bounds lie at or below each key."""
    return np.searchsorted(bounds, keys, side="right").astype(np.int64)
