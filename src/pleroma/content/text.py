"""Unicode text, ordered by code point.

A key is the text's UTF-8 bytes behind one leading byte, which leaves room below for "absent" and above for
"everything". For an index the text becomes a number of 48 bits: by default its first six bytes, which keeps order, so
that equality, prefixes and comparisons all narrow the cover; or a hash (Bhowmik et al. 2017, III-A), which spreads
skewed texts evenly but lets only equality narrow it. Filters themselves are exact either way.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, ClassVar

from pleroma.content.attribute import EQUALITY, ORDER, Attribute
from pleroma.content.range import Key, Range, Ranges
from pleroma.errors import SchemaError, shown

CODED_BYTES = 6
CODE_BITS = 8 * CODED_BYTES
LINEARISATIONS = ("order", "hash")
_LEAD = b"\x01"
_TOP = b"\xff"  # no UTF-8 text begins with this byte


@dataclass(frozen=True, slots=True)
class Text(Attribute):
    linearise: str = "order"

    kind: ClassVar[str] = "text"
    operators: ClassVar[tuple[str, ...]] = (*EQUALITY, *ORDER, "between", "in", "startswith")

    def __post_init__(self) -> None:
        if self.linearise not in LINEARISATIONS:
            reason = f"linearise is one of {', '.join(LINEARISATIONS)}, not {shown(self.linearise)}"
            raise SchemaError(reason, field=self.name, value=self.linearise)

    @property
    def present(self) -> Range:
        return Range(_LEAD, _TOP)

    @property
    def absent(self) -> Key:
        return b""

    @property
    def extent(self) -> tuple[float, float]:
        return 0.0, float(2**CODE_BITS)

    @property
    def bits(self) -> int:
        return CODE_BITS

    def _key(self, value: Any) -> Key:
        if not isinstance(value, str):
            raise self._wrong_type(value)
        try:
            return _LEAD + value.encode()
        except UnicodeEncodeError:  # a lone surrogate
            raise self._wrong_type(value) from None

    def _value(self, key: Key) -> str:
        return bytes(key[1:]).decode()

    def successor(self, key: Key) -> Key:
        return bytes(key) + b"\0"

    def coordinate(self, key: Key) -> float:
        text = key[1:]
        if self.linearise == "hash":
            return float(int.from_bytes(blake2b(text, digest_size=CODED_BYTES).digest()))
        return float(_code(text))

    def span(self, part: Range) -> tuple[float, float]:
        if self.linearise == "hash":
            if part.hi == self.successor(part.lo) and part.lo in self.present:
                point = self.coordinate(part.lo)
                return point, point
            return 0.0, float(2**CODE_BITS - 1)
        if part.hi == _TOP:
            return self.coordinate(part.lo), float(2**CODE_BITS - 1)
        bound = part.hi[1:]
        last = _code(bound)
        if last and len(bound) <= CODED_BYTES and not bound.endswith(b"\0"):
            last -= 1  # every text below such a bound has a smaller code
        return self.coordinate(part.lo), float(last)

    def describe(self) -> str:
        return "any text"

    def _starting(self, prefix: Any) -> Ranges:
        key = self._key(prefix)
        return (Range(key, _after_prefix(key)),)

    def conditions(self, part: Range) -> tuple[tuple[str, Any], ...]:
        first = self._value(part.lo)
        if part.hi == self.successor(part.lo):
            return (("==", first),)
        if part.hi == _after_prefix(part.lo) and part != self.present:
            return (("startswith", first),)
        ends: list[tuple[str, Any]] = []
        if part.lo != self.present.lo:
            ends.append((">", first[:-1]) if first.endswith("\0") else (">=", first))
        if part.hi != _TOP:
            last = self._value(part.hi)
            ends.append(("<=", last[:-1]) if last.endswith("\0") else ("<", last))
        return tuple(ends)

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "kind": self.kind, "linearise": self.linearise}


def _code(text: bytes) -> int:
    return int.from_bytes(text[:CODED_BYTES].ljust(CODED_BYTES, b"\0"))


def _after_prefix(key: bytes) -> bytes:
    """The least bound above every text that begins with this one: its last character, one up."""
    text = key[1:].decode()
    while text:
        last = ord(text[-1])
        if last < 0x10FFFF:
            following = 0xE000 if last == 0xD7FF else last + 1  # surrogates are not characters
            return _LEAD + (text[:-1] + chr(following)).encode()
        text = text[:-1]
    return _TOP
