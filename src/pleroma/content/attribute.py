"""What the kinds of attribute have in common.

An attribute knows three views of a value: what people write (`150.25`, `"AAPL"`), the ordered *key* that filters
compare exactly, and the *coordinate*, a float that an index cuts into cells. Keys to coordinates is monotone but
need not be one-to-one: an index may confuse neighbours (waste), never reorder them (a miss).
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

from pleroma.content.range import Key, Range, Ranges, complement, join
from pleroma.errors import ContentError, DomainError, SchemaError, shown

Value = bool | int | float | str | datetime | None
"""What an application sees; None stands for an optional attribute that an event lacks."""

ORDER = ("<", "<=", ">", ">=")
EQUALITY = ("==", "!=")
RESERVED = frozenset(["and", "or", "not", "in", "between", "exists", "startswith", "true", "false"])
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")


@dataclass(frozen=True, slots=True)
class Attribute(ABC):
    """One dimension of the event space."""

    name: str
    optional: bool

    kind: ClassVar[str]
    operators: ClassVar[tuple[str, ...]]

    @property
    @abstractmethod
    def present(self) -> Range:
        """The keys of all values an event may carry."""

    @property
    @abstractmethod
    def absent(self) -> Key:
        """The key, below all others, of an event without a value."""

    @property
    @abstractmethod
    def extent(self) -> tuple[float, float]:
        """The coordinates `[low, high)` that a regular grid halves; `high` itself falls in the last cell."""

    @property
    @abstractmethod
    def bits(self) -> int:
        """How many halvings can still separate two values."""

    @abstractmethod
    def _key(self, value: Any) -> Key:
        """The key of a present value; a DomainError for anything that is not one."""

    @abstractmethod
    def _value(self, key: Key) -> Value: ...

    @abstractmethod
    def successor(self, key: Key) -> Key:
        """The least bound above `key`."""

    @abstractmethod
    def coordinate(self, key: Key) -> float: ...

    @abstractmethod
    def span(self, part: Range) -> tuple[float, float]:
        """The first and last coordinate that a key in `part` can have."""

    @abstractmethod
    def describe(self) -> str:
        """The domain, as a person writes it."""

    @abstractmethod
    def conditions(self, part: Range) -> tuple[tuple[str, Any], ...]:
        """`part`, within `present`, as (operator, operand) pairs to be and-ed."""

    def terms(self, part: Range) -> int:  # noqa: ARG002 (a category needs it)
        """About how many values the conditions of `part` name."""
        return 1

    @abstractmethod
    def to_json(self) -> dict[str, Any]: ...

    @property
    def domain(self) -> Range:
        return Range(self.absent, self.present.hi) if self.optional else self.present

    def key(self, value: Any) -> Key:
        """The key of a value from the outside world."""
        if value is None:
            if not self.optional:
                raise DomainError("a value is required", field=self.name)
            return self.absent
        return self._key(value)

    def value(self, key: Key) -> Value:
        return None if key not in self.present else self._value(key)

    def json_value(self, key: Key) -> bool | int | float | str | None:
        """The value as JSON has it."""
        return self.value(key)  # type: ignore[return-value]  # a kind whose values JSON lacks says how it writes them

    def select(self, operator: str, operand: Any) -> Ranges:
        """The keys for which `attribute operator operand` holds; an absent value satisfies `exists false` alone."""
        if operator == "exists":
            if not isinstance(operand, bool):
                raise ContentError(f"exists takes true or false, not {shown(operand)}", field=self.name, value=operand)
            return (self.present,) if operand else complement((self.present,), self.domain)
        if operator not in self.operators:
            allowed = ", ".join((*self.operators, "exists"))
            reason = f"{operator} is not defined for {self.kind}; use one of {allowed}"
            raise ContentError(reason, field=self.name, value=operator)
        match operator:
            case "in":
                if not isinstance(operand, (list, tuple)) or not operand:
                    raise ContentError("in needs a list of at least one value", field=self.name, value=operand)
                return join(r for each in operand for r in self.select("==", each))
            case "between":
                if not isinstance(operand, (list, tuple)) or len(operand) != 2:
                    raise ContentError("between needs a list of two values", field=self.name, value=operand)
                low, high = self._key(operand[0]), self._key(operand[1])
                if low > high:
                    reason = f"between {shown(operand[0])} and {shown(operand[1])} is reversed"
                    raise ContentError(reason, field=self.name, value=operand)
                return (Range(low, self.successor(high)),)
            case "startswith":
                return self._starting(operand)
        key = self._key(operand)
        after = self.successor(key)
        low, high = self.present
        match operator:
            case "==":
                return (Range(key, after),)
            case "!=":
                return complement((Range(key, after),), self.present)
            case "<":
                return join([Range(low, key)])
            case "<=":
                return (Range(low, after),)
            case ">":
                return join([Range(after, high)])
            case _:
                return (Range(key, high),)

    def _starting(self, prefix: Any) -> Ranges:
        raise ContentError(f"startswith is not defined for {self.kind}", field=self.name, value=prefix)

    def _outside(self, value: object) -> DomainError:
        return DomainError(f"{shown(value)} is outside {self.describe()}", field=self.name, value=value)

    def _wrong_type(self, value: object) -> DomainError:
        return DomainError(f"{shown(value)} is not {self.kind}", field=self.name, value=value)


def check_name(name: Any) -> str:
    """An attribute's name, or the error that says why it cannot be one."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise SchemaError("an attribute needs a name of letters, digits, _ and single dots", field="name", value=name)
    if name.lower() in RESERVED:
        raise SchemaError(f"{name!r} is a word of the filter language", field="name", value=name)
    return name
