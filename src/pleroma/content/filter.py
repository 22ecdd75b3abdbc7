"""What a subscription wants or an advertisement promises: a union of boxes.

Filters keep a normal form (no box inside another, neighbours joined, sorted), so equal text gives equal filters, and
a filter printed and parsed is the filter one had. Whether two filters with different boxes mean the same set is what
`covers` in both directions tells.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from pleroma.content.attribute import Attribute
from pleroma.content.event import Event
from pleroma.content.numeric import plain
from pleroma.content.range import Key, Range, Ranges, complement, join
from pleroma.content.schema import Schema
from pleroma.errors import ContentError

MAX_BOXES = 1024
"""More boxes than this in one filter is refused: each costs flow entries, and `not` and `in` multiply."""
MAX_PIECES = 16 * MAX_BOXES
"""More than this on the way to a normal form is refused too, before it takes minutes."""


@dataclass(frozen=True, slots=True, order=True)
class Box:
    """One range per attribute, in the schema's order."""

    ranges: tuple[Range, ...]

    def __contains__(self, keys: tuple[Key, ...]) -> bool:
        return all(lo <= key < hi for (lo, hi), key in zip(self.ranges, keys, strict=True))

    def covers(self, other: Box) -> bool:
        return all(lo <= a and b <= hi for (lo, hi), (a, b) in zip(self.ranges, other.ranges, strict=True))

    def meet(self, other: Box) -> Box | None:
        common = []
        for mine, its in zip(self.ranges, other.ranges, strict=True):
            part = mine.meet(its)
            if part is None:
                return None
            common.append(part)
        return Box(tuple(common))

    def minus(self, other: Box) -> Iterator[Box]:
        """What is in this box and not in the other, as disjoint boxes."""
        common = self.meet(other)
        if common is None:
            yield self
            return
        ranges = list(self.ranges)
        for d, (mine, shared) in enumerate(zip(self.ranges, common.ranges, strict=True)):
            for rest in complement((shared,), mine):
                yield Box((*ranges[:d], rest, *ranges[d + 1 :]))
            ranges[d] = shared

    def minus_all(self, others: Sequence[Box]) -> Iterator[Box]:
        """What is in this box and in none of the others, found one disjoint piece at a time."""
        pieces = [(self, 0)]
        while pieces:
            piece, done = pieces.pop()
            if done == len(others):
                yield piece
            else:
                pieces.extend((rest, done + 1) for rest in piece.minus(others[done]))


@dataclass(frozen=True, slots=True)
class Filter:
    schema: Schema
    boxes: tuple[Box, ...]

    @classmethod
    def of(cls, schema: Schema, boxes: Iterable[Box]) -> Filter:
        """The filter of these boxes, in normal form."""
        pieces = list(islice(boxes, MAX_PIECES + 1))
        if len(pieces) > MAX_PIECES:
            raise _too_large()
        return cls(schema, _normal(pieces))

    @classmethod
    def where(cls, schema: Schema, position: int, ranges: Ranges) -> Filter:
        """The events whose attribute at `position` has its key in `ranges`."""
        full = tuple(a.domain for a in schema.attributes)
        return cls.of(schema, (Box((*full[:position], part, *full[position + 1 :])) for part in ranges))

    @classmethod
    def everything(cls, schema: Schema) -> Filter:
        return cls(schema, (Box(tuple(a.domain for a in schema.attributes)),))

    @classmethod
    def nothing(cls, schema: Schema) -> Filter:
        return cls(schema, ())

    @classmethod
    def parse(cls, schema: Schema, text: str) -> Filter:
        """A filter from the filter language (docs/filters.md)."""
        from pleroma.content.language import parse  # the grammar is read on first use

        return parse(schema, text)

    def __bool__(self) -> bool:
        """False for a filter that no event can match."""
        return bool(self.boxes)

    def matches(self, event: Event) -> bool:
        if event.schema is not self.schema and event.schema != self.schema:
            raise ContentError(f"the event is of schema {event.schema.name!r}, the filter of {self.schema.name!r}")
        return any(event.keys in box for box in self.boxes)

    def __and__(self, other: Filter) -> Filter:
        self._same_space(other)
        pairs = ((a, b) for a in self.boxes for b in other.boxes)
        return Filter.of(self.schema, (part for a, b in pairs if (part := a.meet(b)) is not None))

    def __or__(self, other: Filter) -> Filter:
        self._same_space(other)
        return Filter.of(self.schema, (*self.boxes, *other.boxes))

    def __sub__(self, other: Filter) -> Filter:
        self._same_space(other)
        return Filter.of(self.schema, (piece for box in self.boxes for piece in box.minus_all(other.boxes)))

    def covers(self, other: Filter) -> bool:
        """Whether every event that the other matches is matched here too."""
        self._same_space(other)
        return all(
            any(mine.covers(box) for mine in self.boxes) or not any(True for _ in box.minus_all(self.boxes))
            for box in other.boxes
        )

    def overlaps(self, other: Filter) -> bool:
        self._same_space(other)
        return any(a.meet(b) is not None for a in self.boxes for b in other.boxes)

    def _same_space(self, other: Filter) -> None:
        if other.schema is not self.schema and other.schema != self.schema:
            raise ContentError(f"filters of different schemas: {self.schema.name!r} and {other.schema.name!r}")

    def __str__(self) -> str:
        if not self.boxes:
            return "false"
        terms = [self._box_text(box) for box in self.boxes]
        return terms[0] if len(terms) == 1 else " or ".join(f"({t})" if " and " in t else t for t in terms)

    def _box_text(self, box: Box) -> str:
        parts = [
            _condition_text(a, part)
            for a, part in zip(self.schema.attributes, box.ranges, strict=True)
            if part != a.domain
        ]
        return " and ".join(parts) or "true"


def _condition_text(attribute: Attribute, part: Range) -> str:
    name = attribute.name
    if part == attribute.present:
        return f"exists {name}"
    inside = part.meet(attribute.present)
    if inside is None:
        return f"not exists {name}"
    text = " and ".join(f"{name} {op} {_operand_text(op, value)}" for op, value in attribute.conditions(inside))
    if part.lo < inside.lo:
        return f"(not exists {name} or ({text}))" if " and " in text else f"(not exists {name} or {text})"
    return text


def _operand_text(operator: str, value: Any) -> str:
    if operator == "between":
        return " and ".join(map(literal, value))
    return f"({', '.join(map(literal, value))})" if operator == "in" else literal(value)


_ESCAPES = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\u0000"}


def literal(value: Any) -> str:
    """A value as the filter language writes it."""
    if isinstance(value, str):
        return "'" + "".join(_ESCAPES.get(c, c) for c in value) + "'"
    return plain(value) if isinstance(value, float) else repr(value)


def _normal(boxes: list[Box]) -> tuple[Box, ...]:
    current = sorted(set(boxes))
    while True:
        before = current
        for d in range(len(current[0].ranges) if current else 0):
            current = _joined_along(current, d)
        current = sorted(_outermost(current))
        if current == before:
            return tuple(current)


def _joined_along(boxes: list[Box], d: int) -> list[Box]:
    """Boxes that differ only in dimension `d`, and touch there, become one."""
    if len(boxes) < 2:
        return boxes
    alike: dict[tuple[Range, ...], list[Range]] = defaultdict(list)
    for box in boxes:
        alike[box.ranges[:d] + box.ranges[d + 1 :]].append(box.ranges[d])
    return [Box((*rest[:d], part, *rest[d:])) for rest, parts in alike.items() for part in join(parts)]


def _outermost(boxes: list[Box]) -> list[Box]:
    """The boxes inside no other: a sweep along the dimension that tells most of them apart.

    Sorted by their lower corners, and the larger first of those that share one, no box comes before one around it.
    """
    if len(boxes) < 2:
        return boxes
    d = max(range(len(boxes[0].ranges)), key=lambda d: len({box.ranges[d] for box in boxes}))
    boxes = sorted(boxes, key=lambda box: [part.hi for part in box.ranges], reverse=True)
    boxes.sort(key=lambda box: (box.ranges[d].lo, [part.lo for part in box.ranges]))
    kept: list[Box] = []
    reaching: list[Box] = []
    for box in boxes:
        reaching = [each for each in reaching if each.ranges[d].hi > box.ranges[d].lo]
        if not any(each.covers(box) for each in reaching):
            kept.append(box)
            reaching.append(box)
            if len(kept) > MAX_BOXES:
                raise _too_large()
    return kept


def _too_large() -> ContentError:
    return ContentError(f"the filter needs more than the {MAX_BOXES} boxes allowed")
