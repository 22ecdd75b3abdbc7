"""How the values of an event lie in bytes, once it is known which of the optional ones are absent.

Present values follow one another in the order of the schema, each in a fixed number of bytes, so that one `Struct`
reads and writes them all: integers and categories as the offset from the least, in as few bytes as the domain needs;
reals as IEEE doubles; of a text, its length. The texts themselves come last, end to end. Each value has one form only,
and a packet with too few bytes is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import copysign
from operator import add, le, lt
from struct import Struct

from pleroma.content import Attribute, Category, Integer, Key, Real, Schema, Text
from pleroma.errors import WireError, shown
from pleroma.wire.header import MAX_PACKET_BYTES, cut_short, too_large

_CODES = {1: "B", 2: "H", 4: "I"}
"""The widths of whole numbers that `struct` has a code for; other widths are written as strings of bytes."""

_LEAD: bytes = Text("text", False).key("")
"""The byte that the key of every text begins with."""


@dataclass(frozen=True, slots=True)
class _Field:
    """One present value: its code in `struct`, and how a key becomes the number that `struct` writes."""

    attribute: Attribute
    code: str
    key_type: type
    least: Key  # of the keys; of the lengths, for a text
    end: Key
    offset: int  # added to a key to write it
    width: int = 0  # where a number is a string of bytes

    @classmethod
    def of(cls, attribute: Attribute) -> _Field:
        least, end = attribute.present
        match attribute:
            case Integer() | Category():
                width = (attribute.bits + 7) // 8
                return cls(attribute, _CODES.get(width, f"{width}s"), int, least, end, -least, width)
            case Real():
                return cls(attribute, "d", float, least, end, 0)  # adding nothing still makes one zero of two
            case Text():
                return cls(attribute, "H", bytes, 0, 2**16, 0)
        raise WireError(f"a packet has no form for {attribute.kind} values", field=attribute.name, value=attribute.kind)

    def refused(self, key: Key) -> WireError:
        attribute = self.attribute
        if not isinstance(key, self.key_type):
            reason = f"{shown(key)} is not the key of a value"
        elif key == attribute.absent and not attribute.optional:
            reason = "a value is required"
        else:
            reason = f"{shown(key)} is outside {attribute.describe()}"
        return WireError(reason, field=attribute.name, value=key)


@dataclass(frozen=True, slots=True, eq=False)
class ValueLayout:
    """`start` is where the values begin in a packet, `size` where the texts begin.

    Positions (`odd`, `reals`, `texts`) count the present attributes only.
    """

    start: int
    size: int
    form: Struct
    fields: tuple[_Field, ...]
    places: tuple[int, ...]
    """The positions of the present attributes among all attributes of the schema."""
    empty: tuple[Key, ...]
    """The keys of an event in which all values are absent."""
    types: tuple[type, ...]
    least: tuple[Key, ...]
    ends: tuple[Key, ...]
    offsets: tuple[int, ...]
    bases: tuple[int, ...]
    odd: tuple[tuple[int, int], ...]
    """Position and width of numbers for which `struct` has no code."""
    reals: tuple[int, ...]
    texts: tuple[int, ...]

    @classmethod
    def of(cls, schema: Schema, start: int, present: Sequence[bool]) -> ValueLayout:
        places = tuple(place for place, is_present in enumerate(present) if is_present)
        fields = tuple(_Field.of(schema.attributes[place]) for place in places)
        form = Struct("!" + "".join(field.code for field in fields))
        return cls(
            start=start,
            size=start + form.size,
            form=form,
            fields=fields,
            places=places,
            empty=tuple(attribute.absent for attribute in schema.attributes),
            types=tuple(field.key_type for field in fields),
            least=tuple(field.least for field in fields),
            ends=tuple(field.end for field in fields),
            offsets=tuple(field.offset for field in fields),
            bases=tuple(-field.offset for field in fields),
            odd=tuple((i, field.width) for i, field in enumerate(fields) if field.code.endswith("s")),
            reals=tuple(i for i, field in enumerate(fields) if field.code == "d"),
            texts=tuple(i for i, field in enumerate(fields) if field.key_type is bytes),
        )

    def write(self, keys: Sequence[Key]) -> bytes:
        """The bytes of the values of an event in which exactly the values that this layout has are present."""
        values = list(keys) if len(self.places) == len(keys) else [keys[place] for place in self.places]
        if not all(map(isinstance, values, self.types)):
            raise next(f.refused(v) for f, v in zip(self.fields, values, strict=True) if not isinstance(v, f.key_type))
        texts = b""
        for i in self.texts:
            key = values[i]
            if not key.startswith(_LEAD):
                raise self.fields[i].refused(key)
            text = self._checked(i, key[1:])
            values[i] = len(text)
            texts += text
        if self.size + len(texts) > MAX_PACKET_BYTES:
            raise too_large(self.size + len(texts))
        if not (all(map(le, self.least, values)) and all(map(lt, values, self.ends))):
            raise self._outside(values)
        values = list(map(add, values, self.offsets))
        for i, width in self.odd:
            values[i] = values[i].to_bytes(width)
        return self.form.pack(*values) + texts

    def read(self, data: bytes) -> tuple[tuple[Key, ...], int]:
        """The keys of an event, from a whole packet, and where in the packet the event ends."""
        if len(data) < self.size:
            raise cut_short(data, self.size)
        values = list(self.form.unpack_from(data, self.start))
        for i, _ in self.odd:
            values[i] = int.from_bytes(values[i])
        for i in self.reals:
            if values[i] == 0.0 and copysign(1.0, values[i]) < 0.0:
                raise WireError("zero has no sign", field=self.fields[i].attribute.name, value=values[i])
        values = list(map(add, values, self.bases))
        if not (all(map(le, self.least, values)) and all(map(lt, values, self.ends))):
            raise self._outside(values)
        end = self.size
        for i in self.texts:
            begin, end = end, end + values[i]
            if len(data) < end:
                raise cut_short(data, end)
            values[i] = _LEAD + self._checked(i, data[begin:end])
        if len(values) == len(self.empty):
            return tuple(values), end
        keys = list(self.empty)
        for place, key in zip(self.places, values, strict=True):
            keys[place] = key
        return tuple(keys), end

    def _checked(self, position: int, text: bytes) -> bytes:
        try:
            text.decode()
        except UnicodeDecodeError as error:
            name = self.fields[position].attribute.name
            raise WireError(f"{shown(text)} is not UTF-8: {error.reason}", field=name, value=text) from None
        return text

    def _outside(self, values: Sequence[Key]) -> WireError:
        """The error of the first value that is not in its domain."""
        return next(
            field.refused(value)
            for field, value in zip(self.fields, values, strict=True)
            if not field.least <= value < field.end
        )
