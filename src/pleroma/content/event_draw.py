"""Drawing some of many events, so that neither their order nor how they were split over processes matters.

Every event has a ticket: its number, or where it has none its content, thoroughly mixed with the seed. The events with
the smallest tickets are drawn. Draws of disjoint events merge to the draw of all, whatever the parts were.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pleroma.content import Schema
from pleroma.content.batch import EventBatch
from pleroma.content.text import Text

Tickets = NDArray[np.uint64]

_GOLDEN, _FIRST, _SECOND = (np.uint64(n) for n in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


@dataclass(frozen=True, slots=True, eq=False)
class EventDraw:
    """The events with the smallest tickets, at most `max_events`; of equal tickets, content decides."""

    max_events: int
    tickets: Tickets
    events: EventBatch

    @classmethod
    def none(cls, schema: Schema, max_events: int) -> EventDraw:
        columns = tuple(np.empty(0, kind) for kind in EventBatch.dtypes(schema))
        return cls(max_events, np.empty(0, np.uint64), EventBatch(schema, columns))

    @classmethod
    def merged(cls, parts: Iterable[EventDraw]) -> EventDraw:
        """The draw from all events that some draws were drawn from."""
        listed = list(parts)
        tickets = np.concatenate([part.tickets for part in listed])
        columns = zip(*(part.events.columns for part in listed), strict=True)
        events = EventBatch(listed[0].events.schema, tuple(np.concatenate(each) for each in columns))
        return cls(min(part.max_events for part in listed), tickets, events)._smallest()

    def halves(self) -> tuple[EventDraw, EventDraw]:
        """Events to learn from and events to judge by, dealt in turn."""
        first, second = (EventDraw(self.max_events, self.tickets[n::2], self.events[n::2]) for n in (0, 1))
        return first, second

    def _smallest(self) -> EventDraw:
        order = np.argsort(self.tickets, kind="stable")
        same = self.tickets[order]
        if (same[1:] == same[:-1]).any():
            order = np.lexsort([*(_sortable(column) for column in reversed(self.events.columns)), self.tickets])
        kept = order[: self.max_events]
        return EventDraw(self.max_events, self.tickets[kept], self.events[kept])


@dataclass(frozen=True, slots=True, eq=False)
class HeldOutEvents:
    """Events that must not be learned from, known by their tickets, which are in order."""

    tickets: Tickets
    seed: int

    def without(self, events: EventBatch, numbers: NDArray[np.int64] | None) -> EventBatch:
        """Those of the events that are not held out."""
        if not len(self.tickets):
            return events
        mine = tickets_of(events, numbers, self.seed)
        places = np.minimum(np.searchsorted(self.tickets, mine), len(self.tickets) - 1)
        held = self.tickets[places] == mine
        return events[~held] if held.any() else events


class RunningDraw:
    """A draw from events that come in batches. Most events are passed over at once, for their tickets are too large."""

    def __init__(self, schema: Schema, max_events: int, seed: int = 0) -> None:
        self._found = EventDraw.none(schema, max_events)
        self._waiting: list[EventDraw] = []
        self._seed = seed

    def add(self, events: EventBatch, numbers: NDArray[np.int64] | None) -> None:
        tickets = tickets_of(events, numbers, self._seed)
        held, max_events = self._found.tickets, self._found.max_events
        if len(held) == max_events:
            near = np.flatnonzero(tickets <= held[-1])  # equal ones are told apart by content, later
            tickets, events = tickets[near], events[near]
        self._waiting.append(EventDraw(max_events, tickets, events))
        if sum(len(each.tickets) for each in self._waiting) > max_events:
            self.result()

    def result(self) -> EventDraw:
        self._found = EventDraw.merged([self._found, *self._waiting])
        self._waiting = []
        return self._found


def tickets_of(events: EventBatch, numbers: NDArray[np.int64] | None, seed: int) -> Tickets:
    start = _mixed(np.full(len(events), seed, np.uint64))
    if numbers is not None:
        return _mixed(start ^ numbers.astype(np.int64).view(np.uint64))
    for attribute, column in zip(events.schema.attributes, events.columns, strict=True):
        start = _mixed(start ^ (_words(column) if isinstance(attribute, Text) else column.view(np.uint64)))
    return start


def _mixed(values: Tickets) -> Tickets:
    """A hash of each value: the last step of splitmix64, after which every bit depends on every bit."""
    with np.errstate(over="ignore"):
        values = values + _GOLDEN
        values = (values ^ (values >> np.uint64(30))) * _FIRST
        values = (values ^ (values >> np.uint64(27))) * _SECOND
    return values ^ (values >> np.uint64(31))


def _words(column: NDArray[Any]) -> Tickets:
    """A number for each text; for none, zero."""
    texts = column.tolist()
    number = {
        text: 0 if text is None else int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
        for text in set(texts)
    }
    return np.fromiter((number[text] for text in texts), np.uint64, len(texts))


def _sortable(column: NDArray[Any]) -> NDArray[Any]:
    return column if column.dtype != object else np.array([text or "" for text in column.tolist()], np.str_)
