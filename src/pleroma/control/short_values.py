"""What somebody asked for, cut to a few thousand characters: it is shown to many, and may be a megabyte."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MAX_SHOWN_CHARACTERS = 4000


class ShortValues:
    """Cuts values of JSON until together they have so many characters; `is_cut` tells whether anything was left out."""

    def __init__(self, characters: int = MAX_SHOWN_CHARACTERS) -> None:
        self._left = characters
        self.is_cut = False

    def cut(self, value: Any) -> Any:
        """The value, or as much of it from its beginning as there is room for."""
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, Mapping):
            return {self._text(name): self.cut(inner) for name, inner in value.items() if self._has_room()}
        if isinstance(value, (list, tuple)):
            return [self.cut(inner) for inner in value if self._has_room()]
        self._left -= len(str(value))
        return value

    def _text(self, text: str) -> str:
        shown = text[: max(self._left, 0)]
        self._left -= len(shown) + 2
        self.is_cut |= len(shown) < len(text)
        return shown

    def _has_room(self) -> bool:
        self.is_cut |= self._left <= 0
        return self._left > 0
