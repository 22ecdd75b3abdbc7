"""The edge filter: from a packet to the inboxes of the subscriptions that want the event, and to no other.

The network delivers every event that lies in the cells of a subscription's cover, which is never less than was asked
for and often more. Here forged packets are dropped, each filter is checked exactly, repeated events are removed, and
events that nobody wanted are counted. No packet can raise an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from pleroma.client.session.duplicates import REMEMBERED_EVENTS, Duplicates
from pleroma.client.session.subscribed_schemas import ReceiverInfo, SubscribedSchema, SubscribedSchemas
from pleroma.wire import EventPacket
from pleroma.wire.event_tags import identity


class PacketReceiver(Protocol):
    """What a client does with the packets at its link."""

    @property
    def schemas(self) -> SubscribedSchemas: ...

    def receive(self, data: bytes) -> None:
        """Take a packet from the network."""

    def echo(self, data: bytes) -> None:
        """Take a packet that this client sent itself, and that the network does not bring back."""

    def charge(self, subscription: str, wasted: int, forged: int) -> None:
        """Count packets that a host agent kept back, and that are due to the subscription of this id."""

    def cover_next(self) -> bool:
        """Do a little work that can wait (milliseconds); False if there is none."""


class Receiver:
    """`on_outdated` is called with the name of a schema when a packet was made by a later plan than is known here."""

    def __init__(
        self, on_outdated: Callable[[str], object] = lambda _: None, remembered: int = REMEMBERED_EVENTS
    ) -> None:
        self.schemas = SubscribedSchemas(on_outdated)
        self._duplicates = Duplicates(remembered)

    @property
    def info(self) -> ReceiverInfo:
        return self.schemas.info

    def cover_next(self) -> bool:
        return self.schemas.cover_next()

    def charge(self, subscription: str, wasted: int, forged: int) -> None:
        listener = self.schemas.find(subscription)
        if listener is not None:
            listener.inbox.info.wasted += wasted
            listener.inbox.info.forged += forged

    def receive(self, data: bytes) -> None:
        self.info.packets += 1
        self._take(data, is_echo=False)

    def echo(self, data: bytes) -> None:
        """An echo did not cross the network, so it cannot be waste."""
        if self.schemas:
            self._take(data, is_echo=True)

    def _take(self, data: bytes, is_echo: bool) -> None:
        found = self.schemas.read(data, is_echo=is_echo)
        if found is None:
            return
        schema, packet = found
        wanting = schema.edge.wanting(packet.event)
        if self._duplicates.repeats(identity(data)):
            for each in wanting:
                each.inbox.info.duplicates += 1
            return
        for each in wanting:
            each.take(packet)
        if is_echo:
            return
        if wanting:
            wanting[0].inbox.info.wanted += 1
        else:
            self._count_waste(schema, packet)

    def _count_waste(self, schema: SubscribedSchema, packet: EventPacket) -> None:
        """Charge one subscription that made the network bring the event: the packet came once, and counts once."""
        culprit = schema.waste.culprit(packet.event) if packet.epoch == schema.channel.epoch else None
        if culprit is None:
            self.info.stray += 1
        else:
            culprit.inbox.info.wasted += 1
