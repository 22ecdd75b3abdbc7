"""An event is a point: one key per attribute of its schema."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pleroma.content.attribute import Value
from pleroma.content.range import Key

if TYPE_CHECKING:
    from pleroma.content.schema import Schema


@dataclass(frozen=True, slots=True)
class Event:
    schema: Schema
    keys: tuple[Key, ...]

    def __getitem__(self, name: str) -> Value:
        position = self.schema.position(name)
        return self.schema.attributes[position].value(self.keys[position])

    def values(self) -> dict[str, Value]:
        """Name to value, leaving out what the event lacks."""
        read = ((a.name, a.value(k)) for a, k in zip(self.schema.attributes, self.keys, strict=True))
        return {name: value for name, value in read if value is not None}

    def coordinates(self) -> tuple[float, ...]:
        """The point an index sees."""
        return tuple(a.coordinate(k) for a, k in zip(self.schema.attributes, self.keys, strict=True))

    def __str__(self) -> str:
        return "{" + ", ".join(f"{name}={value!r}" for name, value in self.values().items()) + "}"
