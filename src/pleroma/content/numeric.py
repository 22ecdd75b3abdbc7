"""Numbers. Integers count up by one, reals by one double, so both have successors and every bound is exact."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar

from pleroma.content.attribute import EQUALITY, ORDER, Attribute
from pleroma.content.range import Key, Range
from pleroma.errors import SchemaError, shown

MAX_EXACT_INTEGER = 2**53
"""Integers below this are exact as doubles, hence as coordinates."""


def plain(number: float) -> str:
    """A number as a person writes it: `5` for 5.0, and every digit of what needs them."""
    return repr(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)


def whole(name: str, bound: Any) -> int:
    """The bound of an integer domain, or the error that says why it cannot be one."""
    if isinstance(bound, bool) or not isinstance(bound, int):
        raise SchemaError(f"{shown(bound)} is not a whole number", field=name, value=bound)
    if abs(bound) >= MAX_EXACT_INTEGER:
        raise SchemaError("integer bounds must lie within ±2**53", field=name, value=bound)
    return bound


def _finite(name: str, bound: Any) -> float:
    if isinstance(bound, bool) or not isinstance(bound, (int, float)) or not abs(bound) <= sys.float_info.max:
        raise SchemaError(f"{shown(bound)} is not a finite double", field=name, value=bound)
    return float(bound) + 0.0  # -0.0 and 0.0 are one value


@dataclass(frozen=True, slots=True)
class Integer(Attribute):
    """Whole numbers from `low` to `high`, both included."""

    low: int
    high: int

    kind: ClassVar[str] = "integer"
    operators: ClassVar[tuple[str, ...]] = (*EQUALITY, *ORDER, "between", "in")

    def __post_init__(self) -> None:
        if whole(self.name, self.low) > whole(self.name, self.high):
            raise SchemaError(f"the domain {self.describe()} is empty", field=self.name, value=(self.low, self.high))

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


_FEW_CHARACTERS = 12
_LEAST_NORMAL = sys.float_info.min


@lru_cache(maxsize=4096)
def _as_written(low: float, high: float, least: float, most: float) -> tuple[tuple[str, float], tuple[str, float]]:
    """The two ends of `[low, high)`: of the two ways to write a bound, the shorter is the one a person wrote.

    A filter is written as text and as JSON, one right after the other.
    """
    below, last = math.nextafter(low, -math.inf), math.nextafter(high, -math.inf)
    lower = (">=", low) if _is_shorter(low, below) or below < least else (">", below)
    upper = ("<=", last) if _is_shorter(last, high) or high > most else ("<", high)
    return lower, upper


def _is_shorter(one: float, neighbour: float) -> bool:
    """Whether a double is written with no more characters than the double beside it.

    Of two neighbours one has 16 digits at least, unless they are as small as doubles can be.
    """
    length = len(repr(one))
    return (length <= _FEW_CHARACTERS and abs(one) > _LEAST_NORMAL) or length <= len(repr(neighbour))


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
    _present: Range = field(init=False, repr=False, compare=False)

    kind: ClassVar[str] = "real"
    operators: ClassVar[tuple[str, ...]] = (*EQUALITY, *ORDER, "between", "in")

    def __post_init__(self) -> None:
        object.__setattr__(self, "low", _finite(self.name, self.low))
        object.__setattr__(self, "high", _finite(self.name, self.high))
        low = self.successor(self.low) if self.open_low else self.low
        high = self.high if self.open_high else self.successor(self.high)
        object.__setattr__(self, "_present", Range(low, high))
        if not math.isfinite(self.high - self.low):
            raise SchemaError("the bounds are too far apart for a double", field=self.name, value=(self.low, self.high))
        if self.present.lo >= self.present.hi:
            raise SchemaError(f"the domain {self.describe()} is empty", field=self.name, value=(self.low, self.high))

    @property
    def present(self) -> Range:
        return self._present

    @property
    def absent(self) -> Key:
        return -math.inf

    @property
    def extent(self) -> tuple[float, float]:
        return self.low, self.high

    @property
    def bits(self) -> int:
        return 32 if self.present.hi > self.successor(self.present.lo) else 0

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
        return math.nextafter(key, math.inf) + 0.0  # 0.0, not -0.0, follows the last negative double

    def coordinate(self, key: Key) -> float:
        return float(max(key, self.low))

    def span(self, part: Range) -> tuple[float, float]:
        return self.coordinate(part.lo), self.coordinate(math.nextafter(part.hi, -math.inf))

    def describe(self) -> str:
        return f"{'(' if self.open_low else '['}{plain(self.low)}, {plain(self.high)}{')' if self.open_high else ']'}"

    def conditions(self, part: Range) -> tuple[tuple[str, Any], ...]:
        first, high = part
        last = math.nextafter(high, -math.inf)
        if first == last:
            return (("==", first),)
        lower, upper = _as_written(first, high, self.low, self.high)
        least, most = self._present
        if first <= least:
            return (upper,) if high < most else ()
        if high >= most:
            return (lower,)
        if lower[0] == ">=" and upper[0] == "<=":
            return (("between", [first, last]),)
        return lower, upper

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "kind": self.kind,
            ("above" if self.open_low else "min"): self.low,
            ("below" if self.open_high else "max"): self.high,
        }
