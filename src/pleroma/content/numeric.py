"""Numbers. Integers count up by one, reals by one double, so both have successors and every bound is exact."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from pleroma.content.attribute import EQUALITY, ORDER, Attribute
from pleroma.content.range import Key, Range
from pleroma.errors import SchemaError

EXACT = 2**53
"""Integers below this are exact as doubles, hence as coordinates."""


def _bounds(name: str, low: float, high: float) -> None:
    for bound in (low, high):
        if isinstance(bound, bool) or not isinstance(bound, (int, float)) or not math.isfinite(bound):
            raise SchemaError(f"{bound!r} is not a finite bound", field=name, value=bound)


@dataclass(frozen=True, slots=True)
class Integer(Attribute):
    """Whole numbers from `low` to `high`, both included."""

    low: int
    high: int

    kind: ClassVar[str] = "integer"
    operators: ClassVar[tuple[str, ...]] = (*EQUALITY, *ORDER, "between", "in")

    def __post_init__(self) -> None:
        _bounds(self.name, self.low, self.high)
        if self.low > self.high:
            raise SchemaError(f"the domain {self.describe()} is empty", field=self.name, value=(self.low, self.high))
        if max(abs(self.low), abs(self.high)) >= EXACT:
            raise SchemaError("integer bounds must lie within ±2**53", field=self.name, value=(self.low, self.high))

    @property
    def present(self) -> Range:
        return Range(self.low, self.high + 1)

    @property
    def absent(self) -> Key:
        return self.low - 1

    @property
    def extent(self) -> tuple[float, float]:
        return float(self.low), float(self.high + 1)

    @property
    def bits(self) -> int:
        return (self.high - self.low).bit_length()

    def _key(self, value: Any) -> Key:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._wrong_type(value)
        if not self.low <= value <= self.high:
            raise self._outside(value)
        return value

    def _value(self, key: Key) -> int:
        return int(key)

    def successor(self, key: Key) -> Key:
        return key + 1

    def coordinate(self, key: Key) -> float:
        return float(max(key, self.low))

    def span(self, part: Range) -> tuple[float, float]:
        return self.coordinate(part.lo), self.coordinate(part.hi - 1)

    def describe(self) -> str:
        return f"[{self.low}, {self.high}]"

    def conditions(self, part: Range) -> tuple[tuple[str, Any], ...]:
        first, last = part.lo, part.hi - 1
        if first == last:
            return (("==", first),)
        if first == self.low:
            return (("<=", last),)
        return ((">=", first),) if last == self.high else (("between", [first, last]),)

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "kind": self.kind, "min": self.low, "max": self.high}


@dataclass(frozen=True, slots=True)
class Real(Attribute):
    """Doubles between two bounds, each included or (for an open one) not.

    `low` and `high` are kept as the first and the last double allowed; `open_low` and `open_high` remember how the
    bounds were written, for people.
    """

    low: float
    high: float
    open_low: bool = False
    open_high: bool = False

    kind: ClassVar[str] = "real"
    operators: ClassVar[tuple[str, ...]] = (*EQUALITY, *ORDER, "between", "in")

    def __post_init__(self) -> None:
        _bounds(self.name, self.low, self.high)
        object.__setattr__(self, "low", float(self.low) + 0.0)
        object.__setattr__(self, "high", float(self.high) + 0.0)
        if not math.isfinite(self.high - self.low):
            raise SchemaError("the bounds are too far apart for a double", field=self.name, value=(self.low, self.high))
        if self.present.lo >= self.present.hi:
            raise SchemaError(f"the domain {self.describe()} is empty", field=self.name, value=(self.low, self.high))

    @property
    def present(self) -> Range:
        low = math.nextafter(self.low, math.inf) if self.open_low else self.low
        return Range(low, self.high if self.open_high else math.nextafter(self.high, math.inf))

    @property
    def absent(self) -> Key:
        return -math.inf

    @property
    def extent(self) -> tuple[float, float]:
        return self.low, self.high

    @property
    def bits(self) -> int:
        return 32 if self.present.hi > math.nextafter(self.present.lo, math.inf) else 0

    def _key(self, value: Any) -> Key:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
            raise self._wrong_type(value)
        try:
            key = float(value) + 0.0  # -0.0 and 0.0 are one value
        except OverflowError:
            raise self._outside(value) from None
        if key not in self.present:
            raise self._outside(value)
        return key

    def _value(self, key: Key) -> float:
        return float(key)

    def successor(self, key: Key) -> Key:
        return math.nextafter(key, math.inf)

    def coordinate(self, key: Key) -> float:
        return float(max(key, self.low))

    def span(self, part: Range) -> tuple[float, float]:
        return self.coordinate(part.lo), self.coordinate(math.nextafter(part.hi, -math.inf))

    def describe(self) -> str:
        return f"{'(' if self.open_low else '['}{self.low:g}, {self.high:g}{')' if self.open_high else ']'}"

    def conditions(self, part: Range) -> tuple[tuple[str, Any], ...]:
        first, last = part.lo, math.nextafter(part.hi, -math.inf)
        if first == last:
            return (("==", first),)
        below, above = math.nextafter(part.lo, -math.inf), part.hi
        # of the two ways to write a bound, the shorter is the one a person wrote
        lower = (">=", first) if len(repr(first)) <= len(repr(below)) or below < self.low else (">", below)
        upper = ("<=", last) if len(repr(last)) <= len(repr(above)) or above > self.high else ("<", above)
        ends = []
        if first > self.present.lo:
            ends.append(lower)
        if part.hi < self.present.hi:
            ends.append(upper)
        if [op for op, _ in ends] == [">=", "<="]:
            return (("between", [first, last]),)
        return tuple(ends)

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "kind": self.kind,
            ("above" if self.open_low else "min"): self.low,
            ("below" if self.open_high else "max"): self.high,
        }
