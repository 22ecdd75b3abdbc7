"""An event is a point: one value per attribute of its schema. Programs read it as a mapping of name to value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pleroma.content.attribute import Value
from pleroma.content.range import Key
from pleroma.errors import NoValue, UnknownName

if TYPE_CHECKING:
    from pleroma.content.schema import Schema


@dataclass(frozen=True, slots=True, repr=False)
class Event(Mapping[str, Value]):
    """The mapping has the attributes that the event has a value of.

    Events are equal if their schemas and their values are; an event equals no `dict`, but `dict(event)` does.
    """

    schema: Schema
    value_keys: tuple[Key, ...]
    """The key of each attribute's value, in the schema's order, also where there is no value."""

    def __getitem__(self, name: str) -> Value:
        schema = self.schema
        try:
            position = schema.position(name)
        except UnknownName as unknown:
            raise NoValue(unknown.reason, value=name) from None
        value = schema.attributes[position].value(self.value_keys[position])
        if value is None:
            raise NoValue("the event has no value of it", field=name)
        return value

    def __iter__(self) -> Iterator[str]:
        read = zip(self.schema.attributes, self.value_keys, strict=True)
        return (attribute.name for attribute, key in read if key in attribute.present)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        return name in tuple(self)

    def get(self, name: str, default: Any = None) -> Any:
        """The value, or the default where the event has none: quicker than to catch `NoValue`, which has a hint."""
        return self[name] if name in self else default  # noqa: SIM401 (which this is)

    def to_json(self) -> dict[str, bool | int | float | str | None]:
        """Name to value as JSON has it, leaving out what the event lacks."""
        read = ((a.name, a.json_value(k)) for a, k in zip(self.schema.attributes, self.value_keys, strict=True))
        return {name: value for name, value in read if value is not None}

    def coordinates(self) -> tuple[float, ...]:
        """The point an index sees."""
        return tuple(a.coordinate(k) for a, k in zip(self.schema.attributes, self.value_keys, strict=True))

    def __str__(self) -> str:
        return "{" + ", ".join(f"{name}={value!r}" for name, value in self.to_json().items()) + "}"

    def __repr__(self) -> str:
        return f"Event({self.schema.name!r}, {dict(self)!r})"
