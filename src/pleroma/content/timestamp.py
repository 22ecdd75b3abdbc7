"""Moments: dates and times that say how far they are from UTC, in whole microseconds.

A key is the number of microseconds since 1970 in UTC, so that a timestamp orders, travels and is indexed as a whole
number is. An application writes and reads a `datetime` with a zone; filters and JSON have ISO 8601. The moments of a
domain lie within 2**53 microseconds of 1970, so that coordinates, which are doubles, are as exact as keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from pleroma.content.numeric import MAX_EXACT_INTEGER, Integer
from pleroma.content.range import Key, Range
from pleroma.errors import DomainError, SchemaError, shown

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Timestamp(Integer):
    """Moments from `low` to `high`, both included and counted in microseconds since 1970; see `Timestamp.of`."""

    kind: ClassVar[str] = "timestamp"

    @classmethod
    def of(cls, name: str, optional: bool, low: datetime | str, high: datetime | str) -> Timestamp:
        """The attribute of the moments from `low` to `high`, each a datetime with a zone or its ISO 8601 text."""
        return cls(name, optional, moment_bound(name, low), moment_bound(name, high))

    def _key(self, value: Any) -> Key:
        try:
            key = _microseconds(value)
        except ValueError as error:
            raise DomainError(str(error), field=self.name, value=value) from None
        if not self.low <= key <= self.high:
            raise DomainError(f"{shown(str(value))} is outside {self.describe()}", field=self.name, value=value)
        return key

    def _value(self, key: Key) -> Any:
        return _EPOCH + key * _MICROSECOND

    def json_value(self, key: Key) -> str | None:
        return _text(key) if key in self.present else None

    def describe(self) -> str:
        return f"[{_text(self.low)}, {_text(self.high)}]"

    def conditions(self, part: Range) -> tuple[tuple[str, Any], ...]:
        def written(operand: Any) -> Any:
            return [_text(each) for each in operand] if isinstance(operand, list) else _text(operand)

        return tuple((operator, written(operand)) for operator, operand in Integer.conditions(self, part))

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "kind": self.kind, "min": _text(self.low), "max": _text(self.high)}


def moment_bound(name: str, bound: Any) -> int:
    """The bound of a domain of moments, or the error that says why it cannot be one."""
    try:
        key = _microseconds(bound)
    except ValueError as error:
        raise SchemaError(str(error), field=name, value=bound) from None
    if abs(key) >= MAX_EXACT_INTEGER:
        last = MAX_EXACT_INTEGER - 1
        reason = f"the bounds of timestamps lie from {_text(-last)} to {_text(last)}"
        raise SchemaError(reason, field=name, value=bound)
    return key


def _microseconds(given: Any) -> int:
    """A ValueError says, in one line, why `given` is no moment."""
    moment = given
    if isinstance(given, str):
        try:
            moment = datetime.fromisoformat(given)
        except ValueError:
            moment = None
    if not isinstance(moment, datetime):
        raise ValueError(f"{shown(given)} is not timestamp; write it as 2026-11-16T21:00:00Z")
    if not isinstance(moment.utcoffset(), timedelta):
        raise ValueError(f"{shown(str(given))} has no time zone; add Z for UTC, or an offset such as +01:00")
    return int((moment - _EPOCH) // _MICROSECOND)


def _text(key: int) -> str:
    """A moment as ISO 8601, in UTC."""
    return (_EPOCH + key * _MICROSECOND).isoformat().replace("+00:00", "Z")
