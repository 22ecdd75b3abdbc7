"""One of a listed set of words. Their order in the list is their place on the axis, so put alike ones together."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, ClassVar

from pleroma.content.attribute import EQUALITY, Attribute
from pleroma.content.range import Key, Range
from pleroma.errors import SchemaError, UnknownName, shown

_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Category(Attribute):
    values: tuple[str, ...]
    _places: dict[str, int] = field(init=False, repr=False, compare=False)

    kind: ClassVar[str] = "category"
    operators: ClassVar[tuple[str, ...]] = (*EQUALITY, "in")

    def __post_init__(self) -> None:
        if not self.values:
            raise SchemaError("a category needs at least one value", field=self.name, value=self.values)
        for each in self.values:
            if not isinstance(each, str) or _SURROGATE.search(each):
                raise SchemaError(f"{shown(each)} is not a word", field=self.name, value=each)
        object.__setattr__(self, "_places", {value: place for place, value in enumerate(self.values)})
        if len(self._places) != len(self.values):
            twice = next(v for place, v in enumerate(self.values) if self._places[v] != place)
            raise SchemaError(f"{shown(twice)} is listed twice", field=self.name, value=twice)

    @property
    def present(self) -> Range:
        return Range(0, len(self.values))

    @property
    def absent(self) -> Key:
        return -1

    @property
    def extent(self) -> tuple[float, float]:
        return 0.0, float(len(self.values))

    @property
    def bits(self) -> int:
        return (len(self.values) - 1).bit_length()

    def _key(self, value: Any) -> Key:
        if not isinstance(value, str):
            raise self._wrong_type(value)
        try:
            return self._places[value]
        except KeyError:
            raise UnknownName("category", value, self.values, field=self.name) from None

    def _value(self, key: Key) -> str:
        return self.values[key]

    def successor(self, key: Key) -> Key:
        return key + 1

    def coordinate(self, key: Key) -> float:
        return float(max(key, 0))

    def span(self, part: Range) -> tuple[float, float]:
        return self.coordinate(part.lo), self.coordinate(part.hi - 1)

    def describe(self) -> str:
        return "{" + ", ".join(self.values) + "}"

    def conditions(self, part: Range) -> tuple[tuple[str, Any], ...]:
        named = list(self.values[part.lo : part.hi])
        return (("==", named[0]),) if len(named) == 1 else (("in", named),)

    def terms(self, part: Range) -> int:
        return int(part.hi - part.lo)

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "kind": self.kind, "values": list(self.values)}
