"""Event packets of a schema that has several versions: the fingerprint of a packet tells which one it is written in.

An event is written in the earliest version that has room for it. So receivers that know an earlier version only go on
reading all events that this version can have. Whatever version a packet is written in, its event is read as one of the
last version.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from pleroma.content import Schema
from pleroma.content.schema_versions import lifted, lowered
from pleroma.errors import WireError
from pleroma.wire.codec import Codec, EventPacket
from pleroma.wire.header import read


class PacketCodec(Protocol):
    """Event packets to bytes and back, for one schema."""

    @property
    def schema(self) -> Schema:
        """The last version, which decoded events are of."""

    @property
    def fingerprints(self) -> frozenset[int]:
        """Of all versions that can be read."""

    def encode(self, packet: EventPacket) -> bytes: ...

    def decode(self, data: bytes) -> EventPacket: ...


class VersionedCodec:
    """`versions` are from the first to the last."""

    __slots__ = ("_codecs", "fingerprints", "schema")

    def __init__(self, versions: Sequence[Schema], schema_number: int) -> None:
        self._codecs = {codec.fingerprint: codec for codec in (Codec(each, schema_number) for each in versions)}
        self.fingerprints = frozenset(self._codecs)
        self.schema = versions[-1]

    def encode(self, packet: EventPacket) -> bytes:
        """A plain packet. The event may be of any version."""
        event = packet.event
        if event.schema != self.schema:
            if all(event.schema != codec.schema for codec in self._codecs.values()):
                reason = f"the event is of another schema than {self.schema.name}"
                raise WireError(reason, field="schema", value=event.schema.name)
            event = lifted(event, self.schema)
        *earlier, last = self._codecs.values()
        for codec in earlier:
            held = lowered(event, codec.schema)
            if held is not None:
                return codec.encode(replace(packet, event=held))
        return last.encode(replace(packet, event=event))

    def decode(self, data: bytes) -> EventPacket:
        """What a packet of any version carries, as an event of the last one."""
        given = read(data)[5]
        codec = self._codecs.get(given)
        if codec is None:
            raise WireError(f"{given} is of no version of schema {self.schema.name}", field="fingerprint", value=given)
        packet = codec.decode(data)
        return packet if codec.schema == self.schema else replace(packet, event=lifted(packet.event, self.schema))


def codec_of(versions: Sequence[Schema], schema_number: int) -> PacketCodec:
    """A codec for a schema with these versions, from the first to the last."""
    return Codec(versions[0], schema_number) if len(versions) == 1 else VersionedCodec(versions, schema_number)
