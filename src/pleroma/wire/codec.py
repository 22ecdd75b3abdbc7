"""Event packets to bytes and back, for one schema.

A packet is the header, one bit for each optional attribute (set where the value is absent), the present values, and a
payload and a tag if it is of such a kind. A codec computes the layouts of its schema once, so that encoding and
decoding is a few calls into `struct`. Each event has one form only: a packet that can be decoded is what encoding the
event gives.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from pleroma.content import Event, Key, Schema
from pleroma.errors import WireError, shown
from pleroma.wire.fingerprint import fingerprint
from pleroma.wire.header import (
    ENCRYPTED_STARTS,
    ENCRYPTION_BYTES,
    HEADER_FORM,
    MAX_PACKET_BYTES,
    PAYLOAD_START,
    PAYLOAD_STARTS,
    PLAIN_START,
    TAG_BYTES,
    TAGGED_STARTS,
    cut_short,
    read,
    too_large,
)
from pleroma.wire.value_layout import ValueLayout

_WIDTHS = {"schema_number": 2, "epoch": 4, "sequence": 8, "time": 8, "publisher": 4}
_REMEMBERED = 256
"""Layouts kept, of the many that a schema with many optional attributes can have."""


@dataclass(frozen=True, slots=True)
class EventPacket:
    """An event on its way: `publisher` and `schema_number` as the controller gave them out, `time` in nanoseconds."""

    epoch: int
    schema_number: int
    publisher: int
    sequence: int
    time: int
    event: Event
    payload: bytes = b""
    """What the publisher sent beside the attributes; nothing looks into it on the way."""


class Codec:
    """Make one codec for each schema and keep it: making one takes longer than using it."""

    __slots__ = ("_absent", "_layout", "_most", "_start", "fingerprint", "fingerprints", "schema", "schema_number")

    def __init__(self, schema: Schema, schema_number: int) -> None:
        _check("schema_number", schema_number)
        self.schema = schema
        self.schema_number = schema_number
        self.fingerprint = fingerprint(schema)
        self.fingerprints = frozenset((self.fingerprint,))
        optional = [(place, a.absent) for place, a in enumerate(schema.attributes) if a.optional]
        self._absent = tuple((place, absent, 1 << i) for i, (place, absent) in enumerate(optional))
        self._start = HEADER_FORM.size + (len(optional) + 7) // 8
        self._layout = lru_cache(_REMEMBERED)(self._make_layout)
        self._most = MAX_PACKET_BYTES - (ENCRYPTION_BYTES if schema.encrypted else TAG_BYTES)
        smallest = self._layout((1 << len(optional)) - 1).size
        if smallest > self._most:
            raise too_large(smallest + MAX_PACKET_BYTES - self._most)

    def encode(self, packet: EventPacket) -> bytes:
        """A plain packet: without a tag, and not encrypted."""
        event = packet.event
        if event.schema is not self.schema and event.schema != self.schema:
            reason = f"the event is of another schema than {self.schema.name}"
            raise WireError(reason, field="schema", value=event.schema.name)
        if packet.schema_number != self.schema_number:
            raise self._other("schema_number", packet.schema_number, self.schema_number)
        if len(event.value_keys) != len(self.schema):
            raise WireError(f"{len(self.schema)} keys expected", field="keys", value=event.value_keys)
        payload = packet.payload
        try:
            header = HEADER_FORM.pack(
                PAYLOAD_START if payload else PLAIN_START,
                packet.schema_number,
                packet.epoch,
                packet.sequence,
                packet.time,
                packet.publisher,
                self.fingerprint,
            )
        except struct.error:
            for name in _WIDTHS:
                _check(name, getattr(packet, name))
            raise
        if not self._absent:
            data = header + self._layout(0).write(event.value_keys)
        else:
            absences = self._absences(event.value_keys)
            marks = absences.to_bytes(self._start - HEADER_FORM.size, "little")
            data = header + marks + self._layout(absences).write(event.value_keys)
        if payload and len(data) + len(payload) > self._most:
            room = max(0, self._most - len(data))
            reason = f"{len(payload)} bytes, {room} is the most that a datagram has room for beside this event"
            raise WireError(reason, field="payload", value=len(payload))
        return data + payload

    def decode(self, data: bytes) -> EventPacket:
        """What a packet carries. Its tag, if it has one, is passed over: only who has the key can check it.

        One that is encrypted has to be opened before.
        """
        schema_number, epoch, sequence, time, publisher, given = read(data)
        if schema_number != self.schema_number:
            raise self._other("schema_number", schema_number, self.schema_number)
        if given != self.fingerprint:
            raise self._other("fingerprint", given, self.fingerprint)
        if data[:2] in ENCRYPTED_STARTS:
            raise WireError("the packet is encrypted", field="kind", value=data[1])
        if data[:2] in TAGGED_STARTS:
            data = data[:-TAG_BYTES]
        absences = 0
        if self._absent:
            if len(data) < self._start:
                raise cut_short(data, self._start)
            absences = int.from_bytes(data[HEADER_FORM.size : self._start], "little")
            if absences >> len(self._absent):
                reason = f"marks more than the {len(self._absent)} optional attributes"
                raise WireError(reason, field="absences", value=absences)
        keys, end = self._layout(absences).read(data)
        payload = data[end:]
        if bool(payload) != (data[:2] in PAYLOAD_STARTS):
            reason = f"{len(payload)} bytes behind the end of the packet" if payload else "cut short: no payload"
            raise WireError(reason, field="size", value=len(data))
        return EventPacket(epoch, schema_number, publisher, sequence, time, Event(self.schema, keys), payload)

    def _absences(self, keys: Sequence[Key]) -> int:
        marks = 0
        for place, absent, mark in self._absent:
            if keys[place] == absent:
                marks |= mark
        return marks

    def _make_layout(self, absences: int) -> ValueLayout:
        absent = {place for place, _, mark in self._absent if absences & mark}
        return ValueLayout.of(self.schema, self._start, [place not in absent for place in range(len(self.schema))])

    def _other(self, field: str, given: int, expected: int) -> WireError:
        return WireError(f"{shown(given)} is not {expected}, of schema {self.schema.name}", field=field, value=given)


def _check(name: str, number: object) -> None:
    bits = 8 * _WIDTHS[name]
    if not isinstance(number, int) or number < 0 or number.bit_length() > bits:
        raise WireError(f"{shown(number)} is not a whole number of {bits} bits", field=name, value=number)
