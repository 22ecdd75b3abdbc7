"""What a subscription wants or an advertisement promises: a union of boxes.

Filters keep a normal form (no box inside another, neighbours joined, sorted), so equal text gives equal filters, and
a filter printed and parsed is the filter one had. Whether two filters with different boxes mean the same set is what
`covers` in both directions tells.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pleroma.content.attribute import Attribute
from pleroma.content.box import Box
from pleroma.content.box_masks import BoxMasks
from pleroma.content.event import Event
from pleroma.content.normal_form import normal
from pleroma.content.numeric import plain
from pleroma.content.range import Range, Ranges
from pleroma.content.schema import Schema
from pleroma.content.work_budget import UNBOUNDED, WorkBudget
from pleroma.errors import ContentError, shown


@dataclass(frozen=True, slots=True, repr=False)
class Filter:
    schema: Schema
    boxes: tuple[Box, ...]

    @classmethod
    def of(cls, schema: Schema, boxes: Iterable[Box], work: WorkBudget = UNBOUNDED) -> Filter:
        """The filter of these boxes, in normal form."""
        return cls(schema, normal(boxes, work))

    @classmethod
    def where(cls, schema: Schema, position: int, ranges: Ranges, work: WorkBudget = UNBOUNDED) -> Filter:
        """The events whose attribute at `position` has its key in `ranges`."""
        if len(ranges) > work.max_boxes:
            raise work.too_large()
        full = schema.domains
        return cls(schema, tuple(Box((*full[:position], part, *full[position + 1 :])) for part in ranges))

    @classmethod
    def everything(cls, schema: Schema) -> Filter:
        return cls(schema, (Box(schema.domains),))

    @classmethod
    def nothing(cls, schema: Schema) -> Filter:
        return cls(schema, ())

    @classmethod
    def parse(cls, schema: Schema, text: str, work: WorkBudget = UNBOUNDED) -> Filter:
        """A filter from the filter language (docs/filters.md)."""
        from pleroma.content.language import parse  # the grammar is read on first use

        return parse(schema, text, work)

    def __bool__(self) -> bool:
        """False for a filter that no event can match."""
        return bool(self.boxes)

    def matches(self, event: Event) -> bool:
        if event.schema is not self.schema and event.schema != self.schema:
            raise ContentError(f"the event is of schema {event.schema.name!r}, the filter of {self.schema.name!r}")
        return any(event.value_keys in box for box in self.boxes)

    def __and__(self, other: Filter) -> Filter:
        self._same_space(other)
        return Filter.of(self.schema, met(self.boxes, other.boxes, UNBOUNDED))

    def __or__(self, other: Filter) -> Filter:
        self._same_space(other)
        return Filter.of(self.schema, (*self.boxes, *other.boxes))

    def __sub__(self, other: Filter) -> Filter:
        self._same_space(other)
        return Filter.of(self.schema, (piece for box in self.boxes for piece in box.minus_all(other.boxes)))

    def covers(self, other: Filter, work: WorkBudget = UNBOUNDED) -> bool:
        """Whether every event that the other matches is matched here too."""
        self._same_space(other)
        dimensions = len(self.schema)
        work.spend(len(other.boxes) * dimensions)
        if len(self.boxes) == 1:
            return all(self.boxes[0].covers(box) for box in other.boxes)
        work.spend(len(self.boxes) * dimensions)
        masks = BoxMasks(self.boxes)
        return all(
            masks.around(box) or not any(True for _ in box.minus_all([*masks.of(masks.meeting(box))], work))
            for box in other.boxes
        )

    def overlaps(self, other: Filter) -> bool:
        self._same_space(other)
        masks = BoxMasks(self.boxes)
        return any(masks.meeting(box) for box in other.boxes)

    @property
    def terms(self) -> int:
        """How many values the filter has when it is written out: those of a category are listed."""
        attributes, domains = self.schema.attributes, self.schema.domains
        named = (
            a.terms(part)
            for box in self.boxes
            for a, part, domain in zip(attributes, box.ranges, domains, strict=True)
            if part != domain
        )
        return sum(named)

    def _same_space(self, other: Filter) -> None:
        if other.schema is not self.schema and other.schema != self.schema:
            raise ContentError(f"filters of different schemas: {self.schema.name!r} and {other.schema.name!r}")

    def __repr__(self) -> str:
        return f"Filter({self.schema.name!r}, {shown(str(self))})"

    def __str__(self) -> str:
        return joined_terms([self._box_text(box) for box in self.boxes])

    def _box_text(self, box: Box) -> str:
        parts = [
            condition_text(a.name, conditions_of(a, part))
            for a, part, domain in zip(self.schema.attributes, box.ranges, self.schema.domains, strict=True)
            if part != domain
        ]
        return " and ".join(parts) or "true"


def met(mine: Sequence[Box], others: Sequence[Box], work: WorkBudget) -> Iterator[Box]:
    """The common parts of two unions of boxes. A box that lies inside one of the others is not cut up by the rest."""
    if not mine or not others:
        return
    work.spend((len(mine) + len(others)) * len(mine[0].ranges))
    masks = BoxMasks(others)
    for box in mine:
        if masks.around(box):
            yield box
        else:
            yield from (part for other in masks.of(masks.meeting(box)) if (part := box.meet(other)) is not None)


def conditions_of(attribute: Attribute, part: Range) -> dict[str, Any]:
    """A part of a domain as conditions to be and-ed, by operator, as JSON has them."""
    present = attribute.present
    if part == present:
        return {"exists": True}
    inside = part.meet(present)
    if inside is None:
        return {"exists": False}
    conditions: dict[str, Any] = dict(attribute.conditions(inside))
    if part.lo < inside.lo:
        conditions["or_absent"] = True
    return conditions


def joined_terms(terms: Sequence[str]) -> str:
    """The texts of boxes as that of the filter that they form."""
    if not terms:
        return "false"
    return terms[0] if len(terms) == 1 else " or ".join(f"({t})" if " and " in t else t for t in terms)


def condition_text(name: str, conditions: Mapping[str, Any]) -> str:
    """The conditions on an attribute in the filter language."""
    if "exists" in conditions:
        return f"exists {name}" if conditions["exists"] else f"not exists {name}"
    text = " and ".join(
        [f"{name} {op} {_operand_text(op, value)}" for op, value in conditions.items() if op != "or_absent"]
    )
    if "or_absent" in conditions:
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
    if isinstance(value, bool):
        return "true" if value else "false"
    return plain(value) if isinstance(value, float) else repr(value)
