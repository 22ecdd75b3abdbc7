"""The edge filter: from a packet to the inboxes of the subscriptions that want the event, and to no other.

The network delivers what lies in the cells of a subscription's cover, which is never less than was asked for and often
more. Here each filter is checked exactly, repetitions are removed, and what came in vain is counted. No packet can
raise an error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pleroma.client.session.duplicates import REMEMBERED_EVENTS, Duplicates
from pleroma.client.session.inbox import Inbox
from pleroma.client.session.schema_channel import SchemaChannel
from pleroma.client.session.waste_attribution import WasteAttribution
from pleroma.content import Filter
from pleroma.errors import WireError
from pleroma.matching.edge_filter import EdgeFilter
from pleroma.wire import EventPacket, peek


@dataclass(slots=True)
class ReceiverInfo:
    """Counters of a client's socket."""

    packets: int = 0
    malformed: int = 0
    """Datagrams that are no packet, or one of another edition of the schema."""
    unknown: int = 0
    """Packets of schemas that nothing here is subscribed to."""
    stray: int = 0
    """Events outside every subscription's cells: for another client at the same host, or sent by an earlier plan."""


class EventListener:
    """A subscription as the receiver sees it: `wake` is called whenever its inbox got something."""

    __slots__ = ("filter", "inbox", "wake")

    def __init__(self, filter: Filter, inbox: Inbox, wake: Callable[[], object] = lambda: None) -> None:
        self.filter = filter
        self.inbox = inbox
        self.wake = wake


class _SchemaSubscriptions:
    """The subscriptions to one schema."""

    __slots__ = ("cells", "channel", "edge", "listeners")

    def __init__(self, channel: SchemaChannel) -> None:
        self.listeners: dict[EventListener, None] = {}
        self.edge = EdgeFilter[EventListener]()
        self.follow(channel)

    def follow(self, channel: SchemaChannel) -> None:
        """What this plan brings has yet to be found out."""
        self.channel = channel
        self.cells = WasteAttribution[EventListener](channel.plan.index, channel.members)
        for listener in self.listeners:
            self.cells.add(listener, listener.filter)

    def add(self, listener: EventListener) -> None:
        self.listeners[listener] = None
        self.edge.add(listener, listener.filter)
        self.cells.add(listener, listener.filter)

    def remove(self, listener: EventListener) -> None:
        if listener in self.listeners:
            del self.listeners[listener]
            self.edge.remove(listener)
            self.cells.remove(listener)


class Receiver:
    def __init__(self, window: int = REMEMBERED_EVENTS) -> None:
        self.info = ReceiverInfo()
        self.outdated: Callable[[str], object] = lambda _: None
        """Called with the name of a schema when a packet was made by a later plan than is known here."""
        self._duplicates = Duplicates(window)
        self._spaces: dict[int, _SchemaSubscriptions] = {}

    def listen(self, channel: SchemaChannel, listener: EventListener) -> None:
        self._spaces.setdefault(channel.number, _SchemaSubscriptions(channel)).add(listener)

    def ignore(self, listener: EventListener) -> None:
        for number, space in list(self._spaces.items()):
            space.remove(listener)
            if not space.listeners:
                del self._spaces[number]

    def adopt(self, channel: SchemaChannel) -> None:
        """A new plan for a schema, or another number."""
        for number, space in list(self._spaces.items()):
            if space.channel.schema.name == channel.schema.name:
                del self._spaces[number]
                self._spaces[channel.number] = space
                space.follow(channel)
                return

    def forget(self) -> None:
        """The numbers of publishers are given out anew: what came before says nothing about what comes."""
        self._duplicates.clear()

    def settle(self) -> bool:
        """A little of the work that can wait (milliseconds); False if nothing is left."""
        return any(space.cells.settle() for space in self._spaces.values())

    def receive(self, data: bytes) -> None:
        """A packet from the network."""
        self.info.packets += 1
        self._take(data, is_echo=False)

    def echo(self, data: bytes) -> None:
        """A packet that this client sent itself. It came from nowhere, so it cannot be waste."""
        if self._spaces:
            self._take(data, is_echo=True)

    def _take(self, data: bytes, is_echo: bool) -> None:
        try:
            space = self._spaces.get(peek(data).schema_number)
            if space is None:
                self.info.unknown += not is_echo
                return
            packet = space.channel.codec.decode(data)
        except WireError:
            self.info.malformed += 1
            return
        if packet.epoch > space.channel.epoch:
            self.outdated(space.channel.schema.name)
        event = packet.event
        wanting = space.edge.wanting(event)
        if self._duplicates.repeats(packet.publisher, packet.sequence):
            for each in wanting:
                each.inbox.info.duplicates += 1
            return
        for each in wanting:
            each.inbox.put(packet)
            each.wake()
        if not wanting and not is_echo:
            self._charge(space, packet)

    def _charge(self, space: _SchemaSubscriptions, packet: EventPacket) -> None:
        """To one subscription that makes the network bring the event: the packet came once, and counts once."""
        culprit = space.cells.culprit(packet.event) if packet.epoch == space.channel.epoch else None
        if culprit is None:
            self.info.stray += 1
        else:
            culprit.inbox.info.wasted += 1
