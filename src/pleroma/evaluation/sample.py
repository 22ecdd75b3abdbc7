"""What the tuners learn from: events and subscriptions of some past traffic, as arrays.

Each box of a filter is a row of its own, and `owner` has the number of its subscription. Papers and statistics speak of
boxes; deliveries are counted by owner.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pleroma.arrays.types import Floats, Ints, Marks
from pleroma.content import Filter, Schema
from pleroma.content.batch import EventBatch
from pleroma.errors import TuningError


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Events by row and boxes by row; attributes by column.

    `points` are what an index sees, `keys` what filters compare exactly. A box asks for keys in `[low, high)`, and for
    coordinates from `first` to `last`, both included.
    """

    schema: Schema
    points: Floats
    keys: Floats
    low: Floats
    high: Floats
    first: Floats
    last: Floats
    owner: Ints
    owners: int

    @classmethod
    def of(cls, events: EventBatch, subscriptions: Sequence[Filter]) -> Sample:
        if not len(events):
            raise TuningError("there are no events to learn from", field="events")
        return cls._of(events, subscriptions)

    @classmethod
    def without_events(cls, schema: Schema, subscriptions: Sequence[Filter]) -> Sample:
        """A sample of boxes alone, for callers that have the events somewhere else."""
        return cls._of(EventBatch.from_events(schema, ()), subscriptions)

    @classmethod
    def _of(cls, events: EventBatch, subscriptions: Sequence[Filter]) -> Sample:
        if not subscriptions:
            raise TuningError("there are no subscriptions to learn from", field="subscriptions")
        boxes = [(owner, box) for owner, each in enumerate(subscriptions) for box in each.boxes]
        attributes = events.schema.attributes
        spans = [[a.span(part) for a, part in zip(attributes, box.ranges, strict=True)] for _, box in boxes]
        bounds = np.array([events.bounds(box) for _, box in boxes], np.float64).reshape(-1, len(attributes), 2)
        ends = np.array(spans, np.float64).reshape(-1, len(attributes), 2)
        return cls(
            events.schema,
            events.points(),
            events.ordinals(),
            np.ascontiguousarray(bounds[:, :, 0]),
            np.ascontiguousarray(bounds[:, :, 1]),
            np.ascontiguousarray(ends[:, :, 0]),
            np.ascontiguousarray(ends[:, :, 1]),
            np.array([owner for owner, _ in boxes], np.int64),
            len(subscriptions),
        )

    @property
    def events(self) -> int:
        return int(self.points.shape[0])

    @property
    def boxes(self) -> int:
        return int(self.low.shape[0])

    def part(self, events: Marks, boxes: Marks) -> Sample:
        """Only these events and these boxes, with the same owners."""
        kept = {name: getattr(self, name)[events] for name in ("points", "keys")}
        kept |= {name: getattr(self, name)[boxes] for name in ("low", "high", "first", "last", "owner")}
        return replace(self, **kept)

    def boxes_alone(self, boxes: Marks) -> Sample:
        """Only these boxes, and no events."""
        return self.part(np.zeros(self.events, np.bool_), boxes)

    def grouped(self, homes: Ints) -> Sample:
        """The same boxes, owner i's now belonging to `homes[i]`: many subscriptions on few hosts."""
        owner = homes[self.owner]
        order = np.argsort(owner, kind="stable")
        boxes = {name: getattr(self, name)[order] for name in ("low", "high", "first", "last")}
        return replace(self, **boxes, owner=owner[order], owners=int(homes.max()) + 1)

    def chosen(self, dimensions: Iterable[int]) -> list[int]:
        """These dimensions in the order of the schema, each once; an error for one that is not there."""
        listed = sorted(set(dimensions))
        for d in listed:
            if not 0 <= d < len(self.schema):
                raise TuningError(f"there is no dimension {d}", field="dimensions", value=d)
        return listed

    def scaled(self) -> Floats:
        """The points as shares of each attribute's extent, so that their variances can be compared."""
        return scaled(self.schema, self.points)


def scaled(schema: Schema, points: Floats) -> Floats:
    """Points as shares of each attribute's extent."""
    low, high = np.array([a.extent for a in schema.attributes], np.float64).T
    return np.asarray((points - low) / np.where(high > low, high - low, 1.0))
