"""The grid: each dimension cut into cells, the bits of the cell numbers interleaved in a chosen order.

Regular indexing (Bhowmik et al. 2017, III-A), dimension selection, any allocation of bits and adaptive splits (Bhowmik
et al. 2018, III-B) are all grids with another order or other boundaries. A single event or filter is handled in plain
Python, so that a sensor needs no compiler; kernels handle batches and give the same bits.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isfinite
from typing import TYPE_CHECKING, Any

from pleroma.content import Attribute, Event, Filter, Schema
from pleroma.content.range import Range
from pleroma.errors import ContentError, DomainError, PlanError
from pleroma.index.axis import Axis
from pleroma.index.cover import Cover
from pleroma.index.dz import MAX_LENGTH, ROOT, Dz
from pleroma.index.dzset import DzSet

if TYPE_CHECKING:
    from pleroma.arrays.types import Floats
    from pleroma.index.codes import Codes
    from pleroma.index.grid_tables import GridTables

KERNELS = "pleroma.arrays.jit"
"""Where this module is loaded, by whoever runs any kernel, covers run compiled; elsewhere in plain Python."""


Span = tuple[float, float]
"""A lower and an upper coordinate."""


@dataclass(frozen=True)
class GridIndex:
    """`order` names, bit by bit from the first, the position of the attribute that is halved next.

    A dimension has its `boundaries` listed, or equal cells over its extent, or over the part of it that `within` gives.
    """

    schema: Schema
    order: tuple[int, ...]
    boundaries: Mapping[int, tuple[float, ...]] = field(default_factory=dict)
    within: Mapping[int, Span] = field(default_factory=dict)
    axes: Mapping[int, Axis] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if len(self.order) > MAX_LENGTH:
            raise PlanError(f"{len(self.order)} bits are asked for, a dz has at most {MAX_LENGTH}", field="order")
        for d in (*self.order, *self.boundaries, *self.within):
            if isinstance(d, bool) or not isinstance(d, int) or not 0 <= d < len(self.schema):
                raise PlanError(f"{d!r} is not the position of an attribute", field="order", value=d)
        for d in self.boundaries:
            if d not in self.order:
                raise PlanError("has boundaries but no bits", field=self.schema.attributes[d].name)
        for d, span in self.within.items():
            check_span(self.schema.attributes[d], span)
            if d in self.boundaries:
                raise PlanError("has boundaries, and so no part of equal cells", field=self.schema.attributes[d].name)
        counts = {d: self.order.count(d) for d in sorted(set(self.order))}
        cuts = {d: (self.boundaries.get(d, ()), self.within.get(d)) for d in counts}
        axes = {d: Axis.of(self.schema.attributes[d], n, *cuts[d]) for d, n in counts.items()}
        object.__setattr__(self, "axes", axes)

    @classmethod
    def regular(cls, schema: Schema, bits: int, dimensions: Iterable[str] | None = None) -> GridIndex:
        """Equal cells, the dimensions taking turns; one whose values are all told apart is passed over.

        The index has fewer bits than allowed when nothing is left to separate.
        """
        chosen = schema.names if dimensions is None else tuple(dimensions)
        return cls(schema, round_robin(schema, [schema.position(name) for name in chosen], bits))

    @property
    def bits(self) -> int:
        return len(self.order)

    def dzs(self, event: Event) -> tuple[Dz, ...]:
        """The one cell of an event."""
        return (self.dz(event),)

    def dz(self, event: Event) -> Dz:
        """The cell of one event."""
        if event.schema is not self.schema and event.schema != self.schema:
            raise ContentError(f"the event is of schema {event.schema.name!r}, the index of {self.schema.name!r}")
        attributes, keys = self.schema.attributes, event.value_keys
        code = 1 << self.bits
        for d, axis, tables in self._spread:
            cell = axis.cell(attributes[d].coordinate(keys[d]))
            for table in tables:
                code |= table[cell & len(table) - 1]
                cell >>= 8
        return Dz(code)

    def encode(self, points: Floats) -> Codes:
        """The cells of a batch: one row per event, one column of coordinates per attribute of the schema."""
        codes = self.tables.encode(points)
        if codes is None:
            row, bad = next((r, d) for r, point in enumerate(points) for d in self.axes if not isfinite(point[d]))
            value = float(points[row, bad])
            raise DomainError(f"{value} in row {row} is no point", field=self.schema.attributes[bad].name, value=value)
        return codes

    def cover(self, filter: Filter, *, max_length: int | None = None, max_members: int | None = None) -> DzSet:
        """Cells that enclose the filter: as tight as the limits allow, never less than the filter."""
        if filter.schema is not self.schema and filter.schema != self.schema:
            raise ContentError(f"the filter is of schema {filter.schema.name!r}, the index of {self.schema.name!r}")
        length = self.bits if max_length is None else min(max_length, self.bits)
        if length < 0 or (max_members is not None and max_members < 1):
            raise PlanError("a cover needs a length of at least 0 and at least one member", value=(length, max_members))
        if not filter:
            return DzSet()
        if not self.axes:
            return DzSet([ROOT])
        boxes = [self._cells(box.ranges) for box in filter.boxes]
        if KERNELS in sys.modules:
            return self.tables.cover(boxes, length, max_members)
        return DzSet(
            Cover(self._axis_order, [axis.bits for axis in self.axes.values()], boxes, length).cells(max_members)
        )

    def _cells(self, ranges: Sequence[Any]) -> list[tuple[int, int]]:
        """A box as the first and last cell on each axis."""
        cells = []
        for d, axis, attribute, domain, all_cells in self._whole_axes:
            part = ranges[d]
            if part == domain:
                cells.append(all_cells)
            else:
                low, high = attribute.span(part)
                cells.append((axis.cell(low), axis.cell(high)))
        return cells

    @cached_property
    def _whole_axes(self) -> list[tuple[int, Axis, Attribute, Range, tuple[int, int]]]:
        """Each axis with its attribute, and the cells of a box that does not restrict it: most do not, most axes."""
        whole = []
        for d, axis in self.axes.items():
            attribute = self.schema.attributes[d]
            low, high = attribute.span(attribute.domain)
            whole.append((d, axis, attribute, attribute.domain, (axis.cell(low), axis.cell(high))))
        return whole

    def extent(self, dz: Dz) -> dict[int, tuple[float, float]]:
        """The coordinates `[low, high)` of a cell along every attribute, for drawing."""
        prefix = dict.fromkeys(range(len(self.schema)), 0)
        used = dict.fromkeys(range(len(self.schema)), 0)
        for place, d in enumerate(self.order[: dz.length]):
            prefix[d] = prefix[d] << 1 | dz >> dz.length - 1 - place & 1
            used[d] += 1
        extents = {}
        for d, attribute in enumerate(self.schema.attributes):
            low, high = self.within.get(d, attribute.extent)
            extents[d] = self.axes[d].edges(prefix[d], used[d], high) if d in self.axes else (low, high)
        return extents

    @cached_property
    def _spread(self) -> list[tuple[int, Axis, list[list[int]]]]:
        """For each axis, and each byte of its cell numbers from the lowest on, where in the code its bits go."""
        spread = []
        for d, axis in self.axes.items():
            places = [1 << self.bits - 1 - place for place, dimension in enumerate(self.order) if dimension == d][::-1]
            tables = []
            for first in range(0, len(places), 8):
                table = [0]
                for bit in places[first : first + 8]:
                    table += [code | bit for code in table]
                tables.append(table)
            spread.append((d, axis, tables))
        return spread

    @cached_property
    def _axis_order(self) -> list[int]:
        """The order, counting only the dimensions that have bits."""
        number = {d: j for j, d in enumerate(self.axes)}
        return [number[d] for d in self.order]

    @cached_property
    def tables(self) -> GridTables:
        """Laid out for the kernels."""
        from pleroma.index.grid_tables import GridTables  # needs numpy and numba, which a sensor does not have

        return GridTables.of(self)

    def to_json(self) -> dict[str, Any]:
        listed = {self.schema.attributes[d].name: list(values) for d, values in sorted(self.boundaries.items())}
        parts = {self.schema.attributes[d].name: list(span) for d, span in sorted(self.within.items())}
        made: dict[str, Any] = {"kind": "grid", "order": list(self.order), "boundaries": listed}
        return made | ({"within": parts} if parts else {})

    @classmethod
    def from_json(cls, schema: Schema, data: Mapping[str, Any]) -> GridIndex:
        order, listed, parts = data.get("order"), data.get("boundaries", {}), data.get("within", {})
        if not isinstance(order, list) or not isinstance(listed, Mapping) or not isinstance(parts, Mapping):
            raise PlanError("a grid has an order and boundaries", field="index")
        for name, values in (*listed.items(), *parts.items()):
            if not isinstance(values, list):
                raise PlanError("boundaries are lists of numbers", field=name, value=values)
        boundaries = {schema.position(name): tuple(values) for name, values in listed.items()}
        return cls(
            schema, tuple(order), boundaries, {schema.position(name): tuple(span) for name, span in parts.items()}
        )


def check_span(attribute: Attribute, span: Sequence[Any]) -> None:
    """That this is a lower and an upper coordinate."""
    sane = all(isinstance(end, (int, float)) and not isinstance(end, bool) and isfinite(end) for end in span)
    if len(span) != 2 or not sane or span[0] > span[1]:
        raise PlanError(f"{span!r} is not a part of a dimension", field=attribute.name, value=span)


def bits_within(attribute: Attribute, span: Span) -> int:
    """How many bits tell all values in a part of the dimension apart."""
    low, high = attribute.extent
    if not (span[1] > span[0] and high > low):
        return 0
    values = min((span[1] - span[0]) / (high - low), 1.0) * 2.0**attribute.bits
    return min(math.ceil(math.log2(values + 1)), attribute.bits)


def round_robin(
    schema: Schema, dimensions: Sequence[int], bits: int, room: Callable[[int], int] | None = None
) -> tuple[int, ...]:
    """Dimensions in turn, each for as long as it has values left to separate: as many bits as `room` says."""
    if bits < 0 or bits > MAX_LENGTH:
        raise PlanError(f"a dz has 0 to {MAX_LENGTH} bits, not {bits}", field="bits", value=bits)
    if len(set(dimensions)) != len(dimensions):
        raise PlanError("a dimension is named twice", field="dimensions", value=tuple(dimensions))
    left = {d: schema.attributes[d].bits if room is None else room(d) for d in dimensions}
    order: list[int] = []
    while len(order) < bits and any(left.values()):
        for d in dimensions:
            if left[d] and len(order) < bits:
                left[d] -= 1
                order.append(d)
    return tuple(order)
