"""One schema as a client knows it: its number, its part of the address range, and the plan in force.

A channel never changes. A new plan makes a new channel, which a publisher swaps for the old one between two events. So
no packet has an address by one plan and the epoch of another.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pleroma.content import Event, Schema
from pleroma.content.schema_versions import lifted
from pleroma.errors import PlanError, WireError
from pleroma.index import IPV6, Dz, IndexPlan
from pleroma.index.address import AddressRange
from pleroma.wire import EventPacket
from pleroma.wire.event_tags import PacketSeal
from pleroma.wire.versioned_codec import PacketCodec, codec_of


@dataclass(frozen=True, slots=True)
class SchemaChannel:
    number: int
    prefix: Dz
    plan: IndexPlan
    etag: str | None = field(default=None, compare=False)
    addresses: AddressRange = IPV6
    """The range that the addresses of events are in."""
    sample: float = 0.0
    """The share of its events, from 0 to 1, that a publisher sends to the controller as samples."""
    earlier: tuple[Schema, ...] = ()
    """The versions of the schema before that of the plan, from the first on."""
    codec: PacketCodec = field(init=False, repr=False, compare=False)
    _first: int = field(init=False, repr=False, compare=False)
    """The address of the prefix, as a number. The bits of an event's dz follow the prefix."""
    _free_bits: int = field(init=False, repr=False, compare=False)
    """Bits of an address behind the prefix."""
    _address_bytes: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "codec", codec_of((*self.earlier, self.schema), self.number))
        object.__setattr__(self, "_first", int(self.addresses.address(self.prefix)))
        object.__setattr__(self, "_free_bits", self.addresses.bits - self.prefix.length)
        object.__setattr__(self, "_address_bytes", self.addresses.base.max_prefixlen // 8)
        needed, bits = self.plan.index.bits, self.addresses.bits
        if self.prefix.length + needed > bits:
            reason = f"{needed} bits behind a prefix of {self.prefix.length} are more than {bits}"
            raise PlanError(reason, field="prefix", value=str(self.prefix))

    @classmethod
    def from_json(cls, data: Any, etag: str | None = None, addresses: AddressRange = IPV6) -> SchemaChannel:
        """From the controller's answer to a request for the plan of a schema."""
        if not isinstance(data, Mapping):
            raise PlanError("the plan of a schema is an object", value=data)
        number, prefix, plan = (data.get(name) for name in ("number", "prefix", "plan"))
        sample = data.get("sample") or 0.0
        if isinstance(number, bool) or not isinstance(number, int):
            raise PlanError(f"{number!r} is not the number of a schema", field="number", value=number)
        if isinstance(sample, bool) or not isinstance(sample, (int, float)) or not 0 <= sample <= 1:
            raise PlanError(f"{sample!r} is not a rate from 0 to 1", field="sample", value=sample)
        if not isinstance(prefix, str):
            raise PlanError(f"{prefix!r} is not a prefix", field="prefix", value=prefix)
        earlier = data.get("earlier") or ()
        if not isinstance(earlier, list | tuple):
            raise PlanError(f"{earlier!r} are no versions of a schema", field="earlier", value=earlier)
        try:
            versions = tuple(map(Schema.from_json, earlier))
            made = IndexPlan.loads(json.dumps(plan))
            return cls(number, Dz.parse(prefix), made, etag, addresses, sample, versions)
        except WireError as error:  # a number of more than 16 bits, or values that no packet has room for
            raise PlanError(error.reason, field=error.field, value=error.value) from None

    @property
    def schema(self) -> Schema:
        return self.plan.schema

    @property
    def epoch(self) -> int:
        return self.plan.epoch

    def has(self, schema: Schema) -> bool:
        """Whether this is a version of the schema."""
        return schema == self.schema or schema in self.earlier

    def current(self, event: Event) -> Event:
        """An event of any version as one of the last."""
        return lifted(event, self.schema) if self.earlier and event.schema in self.earlier else event

    def under(self, addresses: AddressRange) -> SchemaChannel:
        """The same channel for a network where the addresses of events are in another range."""
        return self if addresses == self.addresses else replace(self, addresses=addresses)

    def datagrams(
        self,
        event: Event,
        publisher: int,
        sequence: int,
        time: int,
        seal: PacketSeal | None = None,
        payload: bytes = b"",
    ) -> list[tuple[bytes, bytes]]:
        """The addresses and the packet that carry an event: a datagram for each cell that the event lies in.

        With a seal, the packet has a tag, or is encrypted.
        """
        if seal is None and self.schema.encrypted:
            raise WireError("its events are encrypted, and the controller gave no key", field=self.schema.name)
        packet = self.codec.encode(EventPacket(self.plan.epoch, self.number, publisher, sequence, time, event, payload))
        if seal is not None:
            packet = seal.sealed(packet)
        made, size = [], self._address_bytes
        for dz in self.plan.index.dzs(self.current(event)):
            # self.addresses.address(self.prefix.then(dz)).packed, in a seventh of the time
            length = dz.bit_length() - 1
            address = self._first | (dz ^ 1 << length) << self._free_bits - length
            made.append((address.to_bytes(size), packet))
        return made
