"""A first schema for data that is there already: a kind and a domain for each column, each with the reason for it.

The data is a sample of what will be published, so domains are wider than the data by a margin: an event outside of its
domain cannot be published. Bounds are rounded outward, for people will read them and set them right.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pleroma.content import Attribute, Boolean, Category, Integer, Real, Schema, Text, Timestamp
from pleroma.content.attribute import RESERVED
from pleroma.content.numeric import MAX_EXACT_INTEGER, plain
from pleroma.errors import WorkloadError
from pleroma.workloads.column_evidence import ColumnEvidence
from pleroma.workloads.data_files import DataFile

MIN_ROWS_PER_CATEGORY = 2
"""Texts that come only once each are names of something, and will be others tomorrow."""
YEARS_AHEAD = 10
"""A domain of moments goes on for so many years behind the last one."""
_ROUNDING = 1e-9
"""Of a step: what doubles may be off by."""


@dataclass(frozen=True, slots=True)
class InferredColumn:
    """What became of a column: an attribute, or None if no attribute can hold it; and why."""

    column: str
    attribute: Attribute | None
    why: str


@dataclass(frozen=True, slots=True)
class InferredSchema:
    schema: Schema
    columns: tuple[InferredColumn, ...]
    rows: int


@dataclass(frozen=True, slots=True)
class SchemaInference:
    """`margin` is the part of the span of a column's numbers that its domain has more on each side.

    A column with more than `max_categories` different texts is text, and not a category.
    """

    margin: float
    max_categories: int

    def infer(self, path: Path, name: str) -> InferredSchema:
        """Read all of a file, in blocks, and decide."""
        table = DataFile.at(path)
        columns: dict[str, ColumnEvidence] = {}
        rows = 0
        for chunk in table.chunks():
            for wrong in chunk.misshapen:
                raise WorkloadError(f"{table.unit} {wrong.place} {wrong.reason}", field=str(path), value=wrong.place)
            block, size = chunk.columns, len(chunk.places)
            for column in block:
                if column not in columns:
                    columns[column] = ColumnEvidence(table.is_text, self.max_categories)
                    columns[column].skip(rows)
            for column, evidence in columns.items():
                evidence.add(block[column]) if column in block else evidence.skip(size)
            rows += size
        if not rows:
            raise WorkloadError("there are no rows to infer a schema from", field=str(path))
        decided = tuple(self._decided(columns))
        attributes = tuple(each.attribute for each in decided if each.attribute is not None)
        if not attributes:
            reason = "; ".join(f"{each.column}: {each.why}" for each in decided)
            raise WorkloadError(f"no column can be an attribute: {reason}", field=str(path))
        return InferredSchema(Schema(name, attributes), decided, rows)

    def _decided(self, columns: dict[str, ColumnEvidence]) -> Iterator[InferredColumn]:
        names: set[str] = set()
        for column, evidence in columns.items():
            if evidence.unfit is not None or not evidence.present:
                yield InferredColumn(column, None, f"left out: {evidence.unfit or 'no row has a value'}")
                continue
            name = _free_name(column, names)
            names.add(name)
            attribute, reasons = self._attribute(name, evidence)
            if evidence.missing:
                reasons.append(f"missing in {evidence.missing:,} of {evidence.rows:,} rows, so optional")
            if evidence.infinite:
                reasons.append(f"{evidence.infinite:,} values are not finite, and no event can have them")
            if name != column:
                reasons.append(f"the column is called {column!r}, which no attribute can be")
            yield InferredColumn(column, attribute, "; ".join(reasons))

    def _attribute(self, name: str, evidence: ColumnEvidence) -> tuple[Attribute, list[str]]:
        optional, kinds = evidence.missing > 0, evidence.kinds
        if "boolean" in kinds:
            return Boolean(name, optional), ["true and false are all that there is"]
        if "integer" in kinds:
            extent = evidence.extents["integer"]
            low, high = _widened(extent.low, extent.high, self.margin)
            if max(-low, high) < MAX_EXACT_INTEGER:
                made = Integer(name, optional, math.floor(low), math.ceil(high))
                return made, [f"whole numbers from {extent.low:,} to {extent.high:,}{self._margin_text}"]
        if "real" in kinds:
            extent = evidence.extents["real"]
            low, high = _widened(extent.low, extent.high, self.margin)
            reason = f"numbers from {plain(float(extent.low))} to {plain(float(extent.high))}{self._margin_text}"
            return Real(name, optional, float(low), float(high)), [reason]
        if "timestamp" in kinds:
            extent = evidence.extents["timestamp"]
            first, last = datetime(extent.low.year, 1, 1, tzinfo=UTC), extent.high.year + YEARS_AHEAD
            made = Timestamp.of(name, optional, first, datetime(last, 1, 1, tzinfo=UTC))
            reason = f"moments from {extent.low.isoformat()} to {extent.high.isoformat()}"
            return made, [f"{reason}; whole years, and {YEARS_AHEAD} more"]
        texts, present = evidence.distinct, evidence.present
        if texts is None:
            return Text(name, optional), [f"more than {self.max_categories} different texts"]
        if present < MIN_ROWS_PER_CATEGORY * len(texts):
            return Text(name, optional), [f"{len(texts)} different texts in {present:,} rows: hardly any comes twice"]
        return Category(name, optional, tuple(sorted(texts))), [f"{len(texts)} different texts in {present:,} rows"]

    @property
    def _margin_text(self) -> str:
        return f"; {self.margin:.0%} of the span more on each side, rounded outward" if self.margin else ""


def _widened(low: float, high: float, margin: float) -> tuple[float, float]:
    """Bounds around two numbers: wider by a part of their span, in few digits, and not on the other side of zero."""
    if not margin:
        return low, high
    span = high - low or abs(high) or 1
    digits = 1 - math.floor(math.log10(span))
    wide_low, wide_high = low - margin * span, high + margin * span
    step = 10.0**-digits
    round_low = min(round(math.floor(wide_low / step + _ROUNDING) * step, digits), low)
    round_high = max(round(math.ceil(wide_high / step - _ROUNDING) * step, digits), high)
    return max(round_low, 0) if low >= 0 else round_low, min(round_high, 0) if high <= 0 > low else round_high


def _free_name(column: str, taken: set[str]) -> str:
    """The name of an attribute for a column: its own, if that can be one."""
    parts = [re.sub(r"\W", "_", part, flags=re.ASCII) for part in column.split(".") if part]
    name = ".".join(part if re.match(r"[A-Za-z_]", part) else f"_{part}" for part in parts) or "column"
    if name.lower() in RESERVED:
        name += "_"
    free, number = name, 2
    while free in taken:
        free, number = f"{name}_{number}", number + 1
    return free
