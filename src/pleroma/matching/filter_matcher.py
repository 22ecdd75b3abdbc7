"""Filters of a schema in a matching engine: each box is a subscription, and an owner is wanted once.

Numbers and categories are matched by their keys. Text is matched by its coordinate, which can confuse long texts that
begin alike; so a box that looks at text is compared with the event itself before its owner counts as wanting it.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator
from typing import Generic, TypeVar

import numpy as np

from pleroma.content import Box, Category, Event, Filter, Integer, Schema, Text
from pleroma.content.batch import EventBatch
from pleroma.errors import ContentError
from pleroma.matching.choice import AUTOMATIC
from pleroma.matching.constraint_table import Constraint, ConstraintTable, Occurrences
from pleroma.matching.engine import Engine
from pleroma.matching.matcher import MatcherStatistics

T = TypeVar("T", bound=Hashable)


class FilterMatcher(Generic[T]):
    """Filters by owner, all of one schema; an owner has one."""

    def __init__(self, schema: Schema, filters: Iterable[tuple[T, Filter]] = (), structure: str = AUTOMATIC) -> None:
        self.schema = schema
        self._engine = Engine(structure)
        self._boxes: dict[T, range] = {}
        self._owners: dict[int, T] = {}
        self._text_boxes: dict[int, Box] = {}
        """By number, the boxes that look at text."""
        self._next = 0
        self._texts = [d for d, each in enumerate(schema.attributes) if isinstance(each, Text)]
        self._attributes = np.arange(len(schema), dtype=np.int32)
        self._first = np.array([0, len(schema)])
        numbered = [each for owner, wanted in dict(filters).items() for each in self._number(owner, wanted)]
        rows = [(number, box_constraints(schema, box), 0) for number, box in numbered]
        if rows:
            self._engine.add_all(ConstraintTable.from_rows(rows))

    def __len__(self) -> int:
        return len(self._boxes)

    def __iter__(self) -> Iterator[T]:
        return iter(self._boxes)

    def _number(self, owner: T, wanted: Filter) -> list[tuple[int, Box]]:
        if wanted.schema is not self.schema and wanted.schema != self.schema:
            raise ContentError(f"a filter of schema {wanted.schema.name!r} among filters of {self.schema.name!r}")
        self.remove(owner)
        numbers = range(self._next, self._next + len(wanted.boxes))
        self._next = numbers.stop
        self._boxes[owner] = numbers
        numbered = list(zip(numbers, wanted.boxes, strict=True))
        for number, box in numbered:
            self._owners[number] = owner
            if any(box.ranges[d] != self.schema.attributes[d].domain for d in self._texts):
                self._text_boxes[number] = box
        return numbered

    def add(self, owner: T, wanted: Filter) -> None:
        """The owner wants this filter from now on, instead of the one it had."""
        for number, box in self._number(owner, wanted):
            self._engine.add(number, box_constraints(self.schema, box))

    def remove(self, owner: T) -> None:
        for number in self._boxes.pop(owner, ()):
            self._engine.remove(number)
            del self._owners[number]
            self._text_boxes.pop(number, None)

    def wanting(self, event: Event) -> list[T]:
        """The owners whose filters match."""
        keys = event.value_keys
        values = np.array(self._numbers(keys), np.float64)
        found = self._engine.match_one(Occurrences(self._first, self._attributes, values)).tolist()
        return list(
            dict.fromkeys(self._owners[n] for n in found if n not in self._text_boxes or keys in self._text_boxes[n])
        )

    def _numbers(self, keys: tuple[object, ...]) -> list[object]:
        numbers = list(keys)
        for d in self._texts:
            numbers[d] = self.schema.attributes[d].coordinate(keys[d])
        return numbers

    def wanting_each(self, events: EventBatch, threads: int = 1) -> list[list[T]]:
        """For each event the owners whose filters match."""
        columns = list(events.columns)
        if self._texts:
            points = events.points()
            for d in self._texts:
                columns[d] = points[:, d]
        matches = self._engine.match_batch(Occurrences.dense(np.column_stack(columns)), threads)
        wanting = []
        for row, found in enumerate(matches):
            numbers = found.tolist()
            if not self._text_boxes.keys().isdisjoint(numbers):
                keys = events.event(row).value_keys
                numbers = [n for n in numbers if n not in self._text_boxes or keys in self._text_boxes[n]]
            wanting.append(list(dict.fromkeys(self._owners[n] for n in numbers)))
        return wanting

    def statistics(self) -> MatcherStatistics:
        return self._engine.statistics()


def box_constraints(schema: Schema, box: Box) -> list[Constraint]:
    """What a box asks for beyond an attribute's domain, in the terms of the engine."""
    constraints = []
    for d, (attribute, part) in enumerate(zip(schema.attributes, box.ranges, strict=True)):
        if part == attribute.domain:
            continue
        if isinstance(attribute, Text):
            first, last = attribute.span(part)
            constraints.append(Constraint(d, first, math.nextafter(last, math.inf)))
        elif isinstance(attribute, (Integer, Category)) and part.hi == part.lo + 1:
            constraints.append(Constraint(d, float(part.lo), math.nextafter(part.lo, math.inf)))
        else:
            constraints.append(Constraint(d, float(part.lo), float(part.hi)))
    return constraints
