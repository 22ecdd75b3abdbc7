"""The dimensions of an event space, and the one file format in which people write them (TOML or JSON)."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pleroma.content.attribute import Attribute, check_name
from pleroma.content.boolean import Boolean
from pleroma.content.category import Category
from pleroma.content.event import Event
from pleroma.content.numeric import Integer, Real, whole
from pleroma.content.range import Key, Range
from pleroma.content.text import Text
from pleroma.content.timestamp import Timestamp, moment_bound
from pleroma.errors import ContentError, SchemaError, UnknownName, shown

_SCHEMA_FIELDS = ("name", "attribute", "encrypted")
_FIELDS = {
    "integer": ("min", "max", "above", "below", "optional"),
    "real": ("min", "max", "above", "below", "optional"),
    "timestamp": ("min", "max", "above", "below", "optional"),
    "boolean": ("optional",),
    "category": ("values", "optional"),
    "text": ("linearise", "optional"),
}


@dataclass(frozen=True, slots=True, repr=False)
class Schema:
    """Attributes by position and by name. Two schemas with the same attributes are equal."""

    name: str
    attributes: tuple[Attribute, ...]
    encrypted: bool = False
    """Whether the events are encrypted on their way (`pleroma.wire.event_encryption`)."""
    domains: tuple[Range, ...] = field(init=False, repr=False, compare=False)
    """Those of the attributes."""
    _position: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise SchemaError("a schema needs a name", field="name", value=self.name)
        if not self.attributes:
            raise SchemaError("a schema needs at least one attribute", field=self.name)
        position = {check_name(a.name): i for i, a in enumerate(self.attributes)}
        if len(position) != len(self.attributes):
            names = [a.name for a in self.attributes]
            twice = next(n for n in names if names.count(n) > 1)
            raise SchemaError("the attribute is defined twice", field=twice)
        object.__setattr__(self, "_position", position)
        object.__setattr__(self, "domains", tuple(a.domain for a in self.attributes))

    def __len__(self) -> int:
        return len(self.attributes)

    def __repr__(self) -> str:
        listed = (f"{a.name}: {a.kind}{' | None' if a.optional else ''}" for a in self.attributes)
        return f"Schema({self.name!r}, {', '.join(listed)})"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._position)

    def position(self, name: str) -> int:
        try:
            return self._position[name]
        except KeyError:
            raise UnknownName("attribute", str(name), self._position) from None

    def __getitem__(self, name: str) -> Attribute:
        return self.attributes[self.position(name)]

    def event(self, values: Mapping[str, Any] | None = None, /, **more: Any) -> Event:
        """A point of this space; every attribute that is not optional must be given."""
        if values is not None and not isinstance(values, Mapping):
            raise ContentError("an event is an object of attribute to value", value=values)
        given = {**(values or {}), **more}
        for name in given:
            self.position(name)
        keys: tuple[Key, ...] = tuple(a.key(given.get(a.name)) for a in self.attributes)
        return Event(self, keys)

    def to_json(self) -> dict[str, Any]:
        listed = [a.to_json() | ({"optional": True} if a.optional else {}) for a in self.attributes]
        return {"name": self.name, "attribute": listed} | ({"encrypted": True} if self.encrypted else {})

    @classmethod
    def from_json(cls, data: Any) -> Schema:
        if not isinstance(data, Mapping):
            raise SchemaError("a schema is a table with a name and attributes", value=data)
        unknown = set(data) - set(_SCHEMA_FIELDS)
        if unknown:
            raise UnknownName("schema field", sorted(unknown)[0], _SCHEMA_FIELDS)
        listed = data.get("attribute")
        if not isinstance(listed, list):
            raise SchemaError("a schema lists its attributes under [[attribute]]", field="attribute", value=listed)
        encrypted = data.get("encrypted", False)
        if not isinstance(encrypted, bool):
            raise SchemaError(f"encrypted is true or false, not {shown(encrypted)}", field="encrypted", value=encrypted)
        return cls(data.get("name", ""), tuple(_attribute(each) for each in listed), encrypted)

    @classmethod
    def load(cls, path: str | Path) -> Schema:
        path = Path(path)
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise SchemaError("cannot read the schema: it is not UTF-8 text", field=str(path)) from None
        except (OSError, ValueError) as error:  # ValueError: no path at all, for it holds a NUL or half a character
            reason = getattr(error, "strerror", None) or error
            raise SchemaError(f"cannot read the schema: {reason}", field=str(path)) from None
        form = "JSON" if path.suffix.lower() == ".json" else "TOML"
        try:
            data = json.loads(text) if form == "JSON" else tomllib.loads(text)
        except (ValueError, RecursionError) as error:
            raise SchemaError(f"is not valid {form}: {error}", field=str(path)) from None
        return cls.from_json(data)


def _attribute(data: Any) -> Attribute:
    if not isinstance(data, Mapping):
        raise SchemaError("an attribute is a table with a name and a kind", field="attribute", value=data)
    name = check_name(data.get("name"))
    kind = data.get("kind")
    if not isinstance(kind, str):
        raise SchemaError(f"an attribute needs a kind, one of {', '.join(_FIELDS)}", field=name, value=kind)
    if kind not in _FIELDS:
        raise UnknownName("kind", kind, _FIELDS, field=name)
    for given in data:
        if given not in ("name", "kind", *_FIELDS[kind]):
            raise UnknownName(f"field of a {kind} attribute", given, _FIELDS[kind], field=name)
    optional = data.get("optional", False)
    if not isinstance(optional, bool):
        raise SchemaError(f"optional is true or false, not {shown(optional)}", field=name, value=optional)
    match kind:
        case "category":
            values = data.get("values")
            if not isinstance(values, list):
                raise SchemaError("a category lists its values", field=name, value=values)
            return Category(name, optional, tuple(values))
        case "text":
            return Text(name, optional, data.get("linearise", "order"))
        case "boolean":
            return Boolean(name, optional)
        case "timestamp":
            low, open_low = _bound(name, data, "min", "above")
            high, open_high = _bound(name, data, "max", "below")
            return Timestamp(name, optional, moment_bound(name, low) + open_low, moment_bound(name, high) - open_high)
        case "integer":
            low, open_low = _bound(name, data, "min", "above")
            high, open_high = _bound(name, data, "max", "below")
            return Integer(name, optional, whole(name, low) + open_low, whole(name, high) - open_high)
        case _:
            low, open_low = _bound(name, data, "min", "above")
            high, open_high = _bound(name, data, "max", "below")
            return Real(name, optional, low, high, open_low, open_high)


def _bound(name: str, data: Mapping[str, Any], closed: str, opened: str) -> tuple[Any, bool]:
    """The bound and whether it is open: `min = 0` includes zero, `above = 0` does not."""
    if (closed in data) == (opened in data):
        raise SchemaError(f"give one of {closed} and {opened}", field=name)
    return (data[closed], False) if closed in data else (data[opened], True)
