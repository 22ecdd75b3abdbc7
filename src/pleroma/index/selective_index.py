"""Bits only where subscriptions are: numbered rectangles, and a grid inside each (Bhowmik et al. 2018, III-A).

A dz begins with the number of a rectangle; no number begins another, but they need not have one length. One number
belongs to the rest of the event space, with a grid over all of it: there, subscriptions that fit no rectangle are
served from the moment they come, under the plan that publishers already have.

Where rectangles overlap, the document sends an event once for each. That is `repeated`; otherwise an event belongs to
the first rectangle that holds it, and a subscription is covered in every rectangle where an event of its could be. So
no event is sent or received twice, for a few more rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pleroma.content import Box, Event, Filter, Schema
from pleroma.errors import ContentError, DzError, PlanError
from pleroma.index.dz import MAX_LENGTH, Dz
from pleroma.index.dzset import DzSet
from pleroma.index.grid_index import GridIndex, Span, check_span

if TYPE_CHECKING:
    from pleroma.arrays.types import Floats, Marks
    from pleroma.index.codes import Codes


@dataclass(frozen=True, slots=True)
class Rectangle:
    """Coordinates from the lower to the upper, both included, along every attribute."""

    sides: tuple[Span, ...]

    def holds(self, point: Sequence[float]) -> bool:
        for (low, high), at in zip(self.sides, point, strict=True):  # noqa: SIM110  # on the way of every event
            if at < low or high < at:
                return False
        return True

    def encloses(self, other: Rectangle) -> bool:
        for (low, high), (first, last) in zip(self.sides, other.sides, strict=True):
            if first < low or high < last:
                return False
        return True

    def meet(self, other: Rectangle) -> Rectangle | None:
        sides = []
        for (low, high), (first, last) in zip(self.sides, other.sides, strict=True):
            if last < low or high < first:
                return None
            sides.append((max(low, first), min(high, last)))
        return Rectangle(tuple(sides))

    def holding(self, points: Floats) -> Marks:
        """`holds`, for many points by row."""
        import numpy as np

        low, high = np.array(self.sides).T
        return np.asarray(((points >= low) & (points <= high)).all(axis=1))


@dataclass(frozen=True, slots=True)
class SelectiveRegion:
    """A number, the rectangle it stands for (none: the rest of the event space), and the grid inside."""

    number: Dz
    rectangle: Rectangle | None
    grid: GridIndex


@dataclass(frozen=True)
class SelectiveIndex:
    """Rectangles come in the order in which they take events and the rest comes last.

    With `quiet`, events in no rectangle are not sent. Then a filter that reaches out of the rectangles cannot be
    covered: that is an error, and `opened` is the index that can, in which every other dz keeps its meaning.
    """

    schema: Schema
    regions: tuple[SelectiveRegion, ...]
    repeated: bool = False
    quiet: bool = False

    def __post_init__(self) -> None:
        if [r.rectangle is None for r in self.regions] != [False] * (len(self.regions) - 1) + [True]:
            raise PlanError("the rest, a region without a rectangle, comes last and once", field="regions")
        for first, second in pairwise(sorted(self.regions, key=lambda r: r.number.start)):
            if first.number.overlaps(second.number):
                raise PlanError(f"{first.number} and {second.number} overlap", field="regions")
        for region in self.regions:
            if region.grid.schema != self.schema:
                raise PlanError("the grid is of another schema", field="regions", value=str(region.number))
            if region.number.length + region.grid.bits > MAX_LENGTH:
                raise PlanError(f"a dz has at most {MAX_LENGTH} bits", field="regions", value=str(region.number))
            if region.rectangle is not None:
                if len(region.rectangle.sides) != len(self.schema):
                    raise PlanError(f"a rectangle has {len(self.schema)} sides", field="regions")
                for attribute, span in zip(self.schema.attributes, region.rectangle.sides, strict=True):
                    check_span(attribute, span)

    @property
    def bits(self) -> int:
        """The length of an event's dz; where number and grid have fewer bits, zeros follow."""
        return max(region.number.length + region.grid.bits for region in self.regions)

    @property
    def rest(self) -> SelectiveRegion:
        return self.regions[-1]

    def opened(self) -> SelectiveIndex:
        """The same, with events in no rectangle sent."""
        return replace(self, quiet=False)

    def dzs(self, event: Event) -> tuple[Dz, ...]:
        """The cells under which an event is sent."""
        if event.schema is not self.schema and event.schema != self.schema:
            raise ContentError(f"the event is of schema {event.schema.name!r}, the index of {self.schema.name!r}")
        entries = zip(self.schema.attributes, event.value_keys, strict=True)
        point = [attribute.coordinate(key) for attribute, key in entries]
        holding = [r for r in self.regions if r.rectangle is not None and r.rectangle.holds(point)]
        sent = (holding if self.repeated else holding[:1]) or ([] if self.quiet else [self.rest])
        cells = [region.number.then(region.grid.dz(event)) for region in sent]
        return tuple(Dz(dz << self.bits - dz.length) for dz in cells)

    def encode(self, points: Floats) -> Codes:
        """The cells of a batch, by event and then by region."""
        from pleroma.index.selective_codes import encode  # needs numpy, which a sensor does not have

        return encode(self, points)

    def cover(self, filter: Filter, *, max_length: int | None = None, max_members: int | None = None) -> DzSet:
        """Cells that enclose the filter, in all regions where it may be met."""
        if filter.schema is not self.schema and filter.schema != self.schema:
            raise ContentError(f"the filter is of schema {filter.schema.name!r}, the index of {self.schema.name!r}")
        length = self.bits if max_length is None else max_length
        if length < 0 or (max_members is not None and max_members < 1):
            raise PlanError("a cover needs a length of at least 0 and at least one member", value=(length, max_members))
        placed: dict[int, list[Box]] = {}
        for box in filter.boxes:
            for number in self.homes(self.bounds(box)):
                placed.setdefault(number, []).append(box)
        if self.quiet and len(self.regions) - 1 in placed:
            raise PlanError("the filter reaches out of the rectangles, and nothing is sent there", value=str(filter))
        # twice as many as may stay, so that the limit takes from where it costs least
        share = None if max_members is None else -(-2 * max_members // max(len(placed), 1))
        members = []
        for at, boxes in placed.items():
            number, grid = self.regions[at].number, self.regions[at].grid
            most = max_members if len(placed) == 1 else share
            part = Filter(self.schema, tuple(boxes))
            inside = grid.cover(part, max_length=max(length - number.length, 0), max_members=most)
            members += [number.then(dz) for dz in inside]
        found = DzSet(members).truncate(length)
        return found if max_members is None else found.coarsen(max_members)

    def bounds(self, box: Box) -> Rectangle:
        """The coordinates that a box can be met at."""
        parts = zip(self.schema.attributes, box.ranges, strict=True)
        return Rectangle(tuple(attribute.span(part) for attribute, part in parts))

    def homes(self, bounds: Rectangle) -> Iterator[int]:
        """The regions, by position, in which something with these bounds has to be covered."""
        earlier: list[Rectangle] = []
        if self.repeated:  # events come in every rectangle, so one that holds all of it is enough
            fitting = (i for i, r in enumerate(self.regions) if r.rectangle and r.rectangle.encloses(bounds))
            if (home := next(fitting, None)) is not None:
                yield home
                return
        for at, region in enumerate(self.regions):
            part = bounds if region.rectangle is None else region.rectangle.meet(bounds)
            if part is None:
                continue
            if not any(rectangle.encloses(part) for rectangle in reversed(earlier)):
                yield at
            if region.rectangle is not None:
                earlier.append(region.rectangle)

    def extent(self, dz: Dz) -> dict[int, Span]:
        """The coordinates of a cell along every attribute, for drawing."""
        region = next((r for r in self.regions if r.number.covers(dz)), None)
        if region is None:
            raise DzError(f"{dz} is in no region, or in several", field="dz", value=str(dz))
        inside = dz.length - region.number.length
        cell = region.grid.extent(Dz(1 << inside | dz & (1 << inside) - 1))
        sides = region.rectangle.sides if region.rectangle else tuple(a.extent for a in self.schema.attributes)
        used = {*region.grid.axes}
        return {d: cell[d] if d in used else side for d, side in enumerate(sides)}

    def to_json(self) -> dict[str, Any]:
        regions = []
        for region in self.regions:
            sides = None if region.rectangle is None else [list(side) for side in region.rectangle.sides]
            regions.append({"number": str(region.number), "sides": sides, "grid": region.grid.to_json()})
        return {"kind": "selective", "regions": regions, "repeated": self.repeated, "quiet": self.quiet}

    @classmethod
    def from_json(cls, schema: Schema, data: Mapping[str, Any]) -> SelectiveIndex:
        listed, repeated, quiet = data.get("regions"), data.get("repeated"), data.get("quiet")
        if not isinstance(listed, list) or not isinstance(repeated, bool) or not isinstance(quiet, bool):
            raise PlanError("a selective index has regions, and says whether it is repeated and quiet", field="index")
        return cls(schema, tuple(_region(schema, each) for each in listed), repeated, quiet)


def _region(schema: Schema, data: Any) -> SelectiveRegion:
    if not isinstance(data, Mapping) or not isinstance(data.get("number"), str):
        raise PlanError("a region has a number, sides and a grid", field="regions")
    sides, grid = data.get("sides"), data.get("grid")
    sane = sides is None or (isinstance(sides, list) and all(isinstance(side, list) for side in sides))
    if not sane or not isinstance(grid, Mapping):
        raise PlanError("a region has a number, sides and a grid", field="regions", value=data["number"])
    rectangle = None if sides is None else Rectangle(tuple(tuple(side) for side in sides))
    return SelectiveRegion(Dz.parse(data["number"]), rectangle, GridIndex.from_json(schema, grid))
