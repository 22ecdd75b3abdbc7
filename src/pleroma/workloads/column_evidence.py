"""What the values of a column say about the attribute that could hold them, gathered block by block.

A column begins as anything. Each block takes away the kinds that its values cannot be, so that the memory needed does
not depend on how many rows there are. Arrow tells what the values of a block are, and reads texts as numbers.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pleroma.errors import shown
from pleroma.workloads.data_files import Values

MOMENTS = pa.timestamp("us", tz="UTC")
_NUMBERS = frozenset({"integer", "real"})
_TEXTS = frozenset({"text", "timestamp"})
_TRUTH = frozenset({"true", "false"})


@dataclass(slots=True)
class Extent:
    """The least and the greatest value so far."""

    low: Any = None
    high: Any = None

    def add(self, values: Any) -> None:
        ends = pc.min_max(values)
        low, high = ends["min"].as_py(), ends["max"].as_py()
        self.low = low if self.low is None else min(self.low, low)
        self.high = high if self.high is None else max(self.high, high)


@dataclass(slots=True)
class ColumnEvidence:
    """`is_text` is said of columns whose texts may stand for numbers; `max_distinct` bounds what is remembered."""

    is_text: bool
    max_distinct: int
    rows: int = 0
    present: int = 0
    """Rows that have a value."""
    infinite: int = 0
    """Values that are no finite number; they count as missing."""
    kinds: frozenset[str] = frozenset({"boolean", "integer", "real", "timestamp", "text"})
    """What all values so far can be."""
    unfit: str | None = None
    """Why no attribute can hold the column, once that is known."""
    extents: dict[str, Extent] = field(default_factory=dict)
    """By kind, of integers, reals and timestamps."""
    distinct: dict[str, None] | None = field(default_factory=dict)
    """All texts so far; None once they are too many to be a category."""

    @property
    def missing(self) -> int:
        return self.rows - self.present

    def skip(self, rows: int) -> None:
        """The column is not in a block of so many rows."""
        self.rows += rows

    def add(self, given: Values) -> None:
        """Take in a block of the column; None stands for a missing value."""
        self.rows += len(given)
        try:
            values = pa.array(given)
        except (pa.ArrowException, OverflowError):
            first = shown(next(each for each in given if each is not None))
            self.unfit = f"its values are of several types, or of one that no attribute has, such as {first}"
            return
        if pa.types.is_floating(values.type):
            finite = values.filter(pc.is_finite(values))
            self.infinite += len(values) - values.null_count - len(finite)
            values = finite
        values = values.drop_null()
        self.present += len(values)
        if len(values) and self.unfit is None:
            self._narrow(values)

    def _narrow(self, values: Any) -> None:
        kind = values.type
        if pa.types.is_boolean(kind):
            self.kinds &= {"boolean"}
        elif pa.types.is_integer(kind):
            self.kinds &= _NUMBERS
            self._extend("integer", values)
            self._extend("real", values.cast(pa.float64(), safe=False))
        elif pa.types.is_floating(kind):
            self.kinds &= {"real"}
            self._extend("real", values.cast(pa.float64()))
        elif pa.types.is_timestamp(kind) and kind.tz is not None:
            self.kinds &= {"timestamp"}
            self._extend("timestamp", values.cast(MOMENTS, safe=False))
        elif pa.types.is_string(kind):
            self._narrow_text(values)
        else:
            self.unfit = f"no attribute holds values of the type {kind}"
        if not self.kinds:
            self.unfit = "some rows have numbers and others texts, or the like"

    def _narrow_text(self, values: Any) -> None:
        self.kinds &= _TEXTS | (_NUMBERS | {"boolean"} if self.is_text else frozenset())
        if self.kinds & _NUMBERS and pc.any(pc.match_substring_regex(values, "^[+-]?0[0-9]")).as_py():
            self.kinds -= _NUMBERS  # 00501 is a name, and not the number 501
        for kind, arrow in (("integer", pa.int64()), ("real", pa.float64()), ("timestamp", MOMENTS)):
            if kind in self.kinds:
                self._try(kind, values, arrow)
        self._remember(values)

    def _try(self, kind: str, texts: Any, arrow: Any) -> None:
        """Have the texts read as values of a kind; if one cannot be, the column is not of this kind."""
        with suppress(pa.ArrowInvalid):
            values = texts.cast(arrow)
            if kind != "real" or pc.all(pc.is_finite(values)).as_py():
                self._extend(kind, values)
                return
        self.kinds -= {kind}

    def _extend(self, kind: str, values: Any) -> None:
        self.extents.setdefault(kind, Extent()).add(values)

    def _remember(self, texts: Any) -> None:
        if self.distinct is None:
            return
        for text in pc.unique(texts).to_pylist():
            self.distinct[text] = None
            if len(self.distinct) > self.max_distinct:
                self.distinct = None
                break
        if self.distinct is None or not {text.lower() for text in self.distinct} <= _TRUTH:
            self.kinds -= {"boolean"}
