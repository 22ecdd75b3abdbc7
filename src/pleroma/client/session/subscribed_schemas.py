"""The schemas that a client is subscribed to, by the number that packets carry, and how a packet of one is read.

Where the controller has given out the key of a schema, only packets with a genuine tag are read. All others are counted
as forged, before anything else is done with them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

from pleroma.client.session.inbox import Inbox
from pleroma.client.session.schema_channel import SchemaChannel
from pleroma.client.session.sequence_gaps import SequenceGaps
from pleroma.client.session.waste_attribution import WasteAttribution
from pleroma.content import Filter
from pleroma.content.schema_versions import carried
from pleroma.errors import WireError
from pleroma.matching.edge_filter import EdgeFilter
from pleroma.wire import EventPacket
from pleroma.wire.event_tags import SchemaSeals
from pleroma.wire.header import read

MAX_HELD_PACKETS = 1000
"""Of versions that are not known yet: a client hears of a version a moment later than those who publish by it."""


@dataclass(slots=True)
class ReceiverInfo:
    """Counters of a client's socket."""

    packets: int = 0
    malformed: int = 0
    """Datagrams that are no packet, or one of a version of the schema that is not known, or not yet."""
    unknown: int = 0
    """Packets of schemas that nothing here is subscribed to, or not yet: before the controller has answered."""
    forged: int = 0
    """Packets without a tag, or with another tag than the publisher has that they name."""
    stray: int = 0
    """Events outside every subscription's cells: for another client at the same host, or sent by an earlier plan."""


class EventListener:
    """A subscription as the receiver sees it; `wake` is called whenever an event was put into its inbox."""

    __slots__ = ("_gaps", "filter", "id", "inbox", "wake")

    def __init__(self, filter: Filter, inbox: Inbox, wake: Callable[[], object] = lambda: None) -> None:
        self.id: str | None = None
        """Of the subscription at the controller, once that is known."""
        self.inbox = inbox
        self.wake = wake
        self.want(filter)

    def want(self, filter: Filter) -> None:
        """Want the events of this filter from now on. Gaps in their numbers mean something where every event comes."""
        self.filter = filter
        self._gaps = SequenceGaps() if filter == Filter.everything(filter.schema) else None

    def take(self, packet: EventPacket) -> None:
        """Take an event that the filter matches."""
        self.inbox.put(packet)
        if self._gaps is not None:
            self.inbox.info.missed += self._gaps.missed(packet.publisher, packet.sequence, packet.time)
        self.wake()


class SubscribedSchema:
    """The listeners to the events of one schema.

    `seals` checks the tags of packets; it is None where the controller wants none. Until the controller has said so
    (`is_open`), no packet is read.
    """

    __slots__ = ("channel", "edge", "is_open", "listeners", "seals", "waste")

    def __init__(self, channel: SchemaChannel) -> None:
        self.is_open = False
        self.seals: SchemaSeals | None = None
        self.listeners: dict[EventListener, None] = {}
        self.edge = EdgeFilter[EventListener]()
        self.follow(channel)

    def follow(self, channel: SchemaChannel) -> None:
        """Go by another plan. The cells that each subscription has in it are found later."""
        self.channel = channel
        self.waste = WasteAttribution[EventListener](channel.plan.index, channel.plan.members)
        if any(listener.filter.schema != channel.schema for listener in self.listeners):
            self.edge = EdgeFilter[EventListener]()
            for listener in self.listeners:
                listener.want(carried(listener.filter, channel.schema))
                self.edge.add(listener, listener.filter)
        for listener in self.listeners:
            self.waste.add(listener, listener.filter)

    def add(self, listener: EventListener) -> None:
        if listener.filter.schema != self.channel.schema:
            listener.want(carried(listener.filter, self.channel.schema))
        self.listeners[listener] = None
        self.edge.add(listener, listener.filter)
        self.waste.add(listener, listener.filter)

    def open(self, seals: SchemaSeals | None) -> None:
        """Read packets from now on: those that these seals find genuine; without seals, all."""
        self.is_open, self.seals = True, seals

    def count_forged(self, data: bytes) -> None:
        """Charge a subscription that wants what a forged packet says, or else any: somebody has to report it."""
        wanting: Iterable[EventListener] = ()
        with suppress(WireError):
            wanting = self.edge.wanting(self.channel.codec.decode(data).event)
        for listener in (*wanting, *self.listeners):
            listener.inbox.info.forged += 1
            return

    def change(self, listener: EventListener, wanted: Filter) -> None:
        """Have a listener want another filter, between two packets."""
        wanted = carried(wanted, self.channel.schema)
        self.waste.remove(listener)
        listener.want(wanted)
        self.edge.add(listener, wanted)
        self.waste.add(listener, wanted)

    def remove(self, listener: EventListener) -> None:
        if listener in self.listeners:
            del self.listeners[listener]
            self.edge.remove(listener)
            self.waste.remove(listener)


class SubscribedSchemas:
    """`on_outdated` is called with the name of a schema when a packet was made by a later plan than is known here."""

    def __init__(self, on_outdated: Callable[[str], object] = lambda _: None) -> None:
        self.info = ReceiverInfo()
        self._on_outdated = on_outdated
        self._by_number: dict[int, SubscribedSchema] = {}
        self._held: deque[tuple[int, bytes]] = deque(maxlen=MAX_HELD_PACKETS)
        """Packets of versions of a schema that are not known yet, with the schema's number."""

    def __len__(self) -> int:
        return len(self._by_number)

    def listen(self, channel: SchemaChannel, listener: EventListener) -> None:
        self._by_number.setdefault(channel.number, SubscribedSchema(channel)).add(listener)

    def change(self, listener: EventListener, wanted: Filter) -> None:
        """Have a listener want another filter of the same schema from now on."""
        for schema in self._by_number.values():
            if listener in schema.listeners:
                schema.change(listener, wanted)

    def ignore(self, listener: EventListener) -> None:
        for number, schema in list(self._by_number.items()):
            schema.remove(listener)
            if not schema.listeners:
                del self._by_number[number]

    def listeners(self, name: str) -> list[EventListener]:
        """All listeners to the events of a schema."""
        named = (each for each in self._by_number.values() if each.channel.schema.name == name)
        return [listener for schema in named for listener in schema.listeners]

    def find(self, id: str) -> EventListener | None:
        """The listener of the subscription that has this id."""
        listeners = (each for schema in self._by_number.values() for each in schema.listeners)
        return next((each for each in listeners if each.id == id), None)

    def open(self, name: str, seals: SchemaSeals | None) -> None:
        """Read the packets of a schema from now on: the controller has said how their tags are checked, or that none
        are.
        """
        for schema in self._by_number.values():
            if schema.channel.schema.name == name:
                schema.open(seals)

    def adopt(self, channel: SchemaChannel) -> list[bytes]:
        """Go by a new plan for a schema; the schema may have another number, or version, from now on.

        Returns the packets that can be read only now, to be received again.
        """
        for number, schema in list(self._by_number.items()):
            if schema.channel.schema.name == channel.schema.name:
                del self._by_number[number]
                self._by_number[channel.number] = schema
                schema.follow(channel)
                return self._readable(channel)
        return []

    def _readable(self, channel: SchemaChannel) -> list[bytes]:
        known = channel.codec.fingerprints
        held, self._held = self._held, deque(maxlen=MAX_HELD_PACKETS)
        found = []
        for number, data in held:
            if number == channel.number and read(data)[5] in known:
                found.append(data)
            else:
                self._held.append((number, data))
        self.info.packets -= len(found)
        self.info.malformed -= len(found)
        return found

    def cover_next(self) -> bool:
        """Find the cells of one subscription that has none yet (milliseconds); False if all have theirs."""
        return any(schema.waste.cover_next() for schema in self._by_number.values())

    def read(self, data: bytes, *, is_echo: bool = False) -> tuple[SubscribedSchema, EventPacket] | None:
        """A packet and its schema; None if it cannot be read, is forged, or nothing is subscribed to its schema.

        That a packet that this client sent itself has a schema of no subscription is normal, and is not counted. Nor is
        its tag checked.
        """
        try:
            fields = read(data)
            schema = self._by_number.get(fields[0])
            if schema is None or not schema.is_open:
                self.info.unknown += not is_echo
                return None
            opened: bytes | None = data
            if schema.seals is not None and (not is_echo or schema.channel.schema.encrypted):
                opened = schema.seals.opened(data)
            if opened is None:
                self.info.forged += 1
                schema.count_forged(data)
                return None
            if fields[5] not in schema.channel.codec.fingerprints and not is_echo:
                self._held.append((fields[0], data))
                self._on_outdated(schema.channel.schema.name)
            packet = schema.channel.codec.decode(opened)
        except WireError:
            self.info.malformed += 1
            return None
        if packet.epoch > schema.channel.epoch:
            self._on_outdated(schema.channel.schema.name)
        return schema, packet
