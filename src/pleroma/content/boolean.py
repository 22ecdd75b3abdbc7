"""True or false: a category of two words, which an application and a filter write as truth values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from pleroma.content.category import Category
from pleroma.content.range import Key, Range


@dataclass(frozen=True, slots=True)
class Boolean(Category):
    values: tuple[str, ...] = field(default=("false", "true"), init=False, repr=False)

    kind: ClassVar[str] = "boolean"

    def _key(self, value: Any) -> Key:
        if not isinstance(value, bool):
            raise self._wrong_type(value)
        return int(value)

    def _value(self, key: Key) -> Any:
        return bool(key)

    def conditions(self, part: Range) -> tuple[tuple[str, Any], ...]:
        return (("==", bool(part.lo)),)

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "kind": self.kind}
