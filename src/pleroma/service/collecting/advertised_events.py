"""Samples are taken only of what is advertised: do events lie inside the standing advertisements of who sends them?

The boxes of a principal's advertisements are parsed when its samples come, and kept until its advertisements change.
One request is compared with a bounded number of boxes, so that nobody makes samples expensive by advertising much: the
newest advertisements count, and of those the boxes that held events before are compared first.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from pleroma.content import Box
from pleroma.content.batch import EventBatch
from pleroma.control.state.records import Registered, SchemaEntry
from pleroma.control.state.registrations import Registrations

MAX_CHECKED_BOXES = 2_000
"""Boxes that the events of one request are compared with."""
_BOXES_AT_ONCE = 100
_QUICK_CHARACTERS = 10_000


class AdvertisedBoxes:
    """What one principal advertises of one schema. It may be used in a thread."""

    def __init__(self, newest: Sequence[Registered], is_whole: bool) -> None:
        self.is_whole = is_whole
        """Whether these are all advertisements that there are; only then is an event in none of them outside."""
        self._newest = newest
        self._boxes: list[Box] | None = None

    @property
    def is_quick(self) -> bool:
        """Whether few events are compared in no time."""
        if self._boxes is not None:
            return len(self._boxes) <= _BOXES_AT_ONCE
        return sum(len(each.boxes) for each in self._newest) <= _QUICK_CHARACTERS

    def hold(self, events: EventBatch) -> NDArray[np.bool_]:
        """For each event whether one of the boxes has it."""
        boxes = self._parsed() if self._boxes is None else self._boxes
        keys, held, useful = events.ordinals(), np.zeros(len(events), np.bool_), []
        for first in range(0, len(boxes), _BOXES_AT_ONCE):
            left = np.flatnonzero(~held)
            if not left.size:
                break
            some = boxes[first : first + _BOXES_AT_ONCE]
            bounds = np.array([events.bounds(each) for each in some], np.float64)
            inside = np.ones((len(left), len(some)), np.bool_)
            for d in range(keys.shape[1]):
                column = keys[left, d, None]
                inside &= (column >= bounds[:, d, 0]) & (column < bounds[:, d, 1])
            held[left[inside.any(axis=1)]] = True
            useful += [some[number] for number in np.flatnonzero(inside.any(axis=0)).tolist()]
        if useful and boxes[: len(useful)] != useful:
            used = set(map(id, useful))
            self._boxes = [*useful, *(each for each in boxes if id(each) not in used)]
        return held

    def _parsed(self) -> list[Box]:
        found: list[Box] = []
        for each in self._newest:
            found += each.filter.boxes
            if len(found) > MAX_CHECKED_BOXES:
                self.is_whole = False
                break
        self._boxes = found[:MAX_CHECKED_BOXES]
        return self._boxes


class AdvertisedEvents:
    """Hears of all registrations of a controller."""

    def __init__(self, registrations: Registrations) -> None:
        self._advertisements: dict[tuple[str, str], dict[str, Registered]] = {}
        """By principal and schema, by id, the newest last."""
        self._known: dict[tuple[str, str], AdvertisedBoxes] = {}
        for each in registrations.values():
            self.on_registered(each)
        registrations.subscribe(self)

    def of(self, principal: str, schema: str) -> AdvertisedBoxes:
        """What a principal advertises of a schema now."""
        holder = principal, schema
        if holder not in self._known:
            standing = self._advertisements.get(holder, {})
            newest = tuple(islice(reversed(standing.values()), MAX_CHECKED_BOXES))
            boxes = AdvertisedBoxes(newest, is_whole=len(newest) == len(standing))
            if not standing:
                return boxes
            self._known[holder] = boxes
        return self._known[holder]

    def extend(self, entry: SchemaEntry) -> None:
        """The schema has a later version now."""
        for holder in [each for each in self._known if each[1] == entry.name]:
            del self._known[holder]

    def on_registered(self, registered: Registered) -> None:
        if registered.kind == "advertisement":
            holder = registered.principal, registered.schema
            self._advertisements.setdefault(holder, {})[registered.id] = registered
            self._known.pop(holder, None)

    def on_withdrawn(self, registered: Registered) -> None:
        if registered.kind == "advertisement":
            holder = registered.principal, registered.schema
            self._known.pop(holder, None)
            standing = self._advertisements.get(holder, {})
            standing.pop(registered.id, None)
            if not standing:
                self._advertisements.pop(holder, None)
