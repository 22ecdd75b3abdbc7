"""Between the machine's event socket and its programs: each gets what its own subscriptions match, and nothing else.

A packet from the network is checked once (its tag, with the key that the controller gave to programs here) and matched
exactly with the subscriptions of all programs. A packet from a program goes out only if it is one that an advertisement
of this program allows: under its number, with its tag, inside its filter, and to an address that events have. Since no
switch sends a packet back, the other programs here get it from the agent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from pleroma.client.links.network_link import HostAttachment, NetworkLink
from pleroma.client.session.schema_channel import SchemaChannel
from pleroma.client.session.subscribed_schemas import EventListener, SubscribedSchemas
from pleroma.content import Filter
from pleroma.content.schema_versions import carried
from pleroma.errors import WireError
from pleroma.host_agent.local_programs import LocalAdvertisement, LocalProgram, LocalSubscription
from pleroma.wire.agent_socket import MAX_NOTICE_COUNTS, AgentNotice
from pleroma.wire.event_tags import SchemaSeals
from pleroma.wire.header import read
from pleroma.wire.tunnel import TUNNEL_HEAD_BYTES, TUNNEL_START

_NO_ADDRESS = TUNNEL_START + bytes(TUNNEL_HEAD_BYTES - len(TUNNEL_START))
"""In front of packets to programs, which do not look at it."""


@dataclass(slots=True)
class ExchangeCounters:
    """Since the agent was started."""

    delivered: int = 0
    """Events handed over, once for each program."""
    overrun: int = 0
    """Events not handed over, because a program did not read fast enough."""
    unwanted: int = 0
    """Events from the network that nothing here matches."""
    published: int = 0
    """Packets sent to the network."""
    unsent: int = 0
    """Packets that the socket did not take."""
    refused: int = 0
    """Packets of programs that no advertisement of theirs allows."""
    malformed: int = 0
    """Frames of programs that cannot be read."""


class LocalExchange:
    """`open_link` opens the machine's event socket. `on_outdated` is called as by `SubscribedSchemas`."""

    def __init__(
        self,
        open_link: Callable[[HostAttachment, Callable[[bytes], None]], NetworkLink],
        on_outdated: Callable[[str], object] = lambda _: None,
    ) -> None:
        self.counters = ExchangeCounters()
        self.schemas = SubscribedSchemas(on_outdated)
        self.channels: dict[str, SchemaChannel] = {}
        """Of the schemas that are in use here, by name."""
        self._open_link = open_link
        self._link: NetworkLink | None = None
        self._lost = 0
        """What sockets that are closed have lost."""

    @property
    def attachment(self) -> HostAttachment | None:
        return self._link.attachment if self._link else None

    @property
    def overrun(self) -> int:
        """Datagrams that the kernel dropped at the event socket, since the agent did not read fast enough."""
        return self._lost + (self._link.overrun if self._link else 0)

    def use(self, attachment: HostAttachment) -> None:
        """Have the event socket that an attachment describes; raises ClientError if it cannot be had.

        Then the one before stays, and so do the programs that use it.
        """
        there = self.attachment
        if there is not None and (there.where, there.addresses) == (attachment.where, attachment.addresses):
            return
        if there is not None and there.where == attachment.where:
            self.close()  # or the new socket could not have its place
        opened = self._open_link(attachment, self.receive)
        self.close()
        self._link = opened
        base = attachment.addresses.base
        self._address_end = len(TUNNEL_START) + base.max_prefixlen // 8
        self._range, self._mask = int(base.network_address), int(base.netmask)

    def close(self) -> None:
        if self._link is not None:
            self._lost += self._link.overrun
            self._link.close()
            self._link = None

    def adopt(self, channel: SchemaChannel) -> None:
        """Go by this plan for its schema. Filters of another schema of the same name mean nothing any more."""
        name = channel.schema.name
        before = self.channels.get(name)
        self.channels[name] = channel
        if before is None or channel.has(before.schema):
            for data in self.schemas.adopt(channel):
                self.receive(data)
            return
        for listener in self.schemas.listeners(name):
            if isinstance(listener, LocalSubscription):
                self.withdraw(listener.program, [str(listener.id)])

    def forget_unused(self, used: Iterable[str]) -> None:
        """Forget the schemas that are not among these."""
        kept = set(used)
        self.channels = {name: channel for name, channel in self.channels.items() if name in kept}

    def subscribe(self, program: LocalProgram, id: str, schema: str, wanted: Filter, seals: SchemaSeals | None) -> None:
        """The controller has told a program that this subscription of its stands."""
        before = program.subscriptions.get(id)
        if before is None or before.filter != wanted:
            self.withdraw(program, [id])
            program.subscriptions[id] = listener = LocalSubscription(program, id, wanted)
            self.schemas.listen(self.channels[schema], listener)
        self.schemas.open(schema, seals)

    def advertise(self, program: LocalProgram, made: LocalAdvertisement) -> None:
        """The controller has told a program that this advertisement of its stands."""
        self.withdraw(program, [made.id])
        program.advertisements[made.id] = program.publishers[made.number] = made

    def withdraw(self, program: LocalProgram, ids: Iterable[str]) -> None:
        """These registrations of a program stand no more."""
        for each in ids:
            subscription = program.subscriptions.pop(each, None)
            if subscription is not None:
                self.schemas.ignore(subscription)
            advertisement = program.advertisements.pop(each, None)
            if advertisement is not None and program.publishers.get(advertisement.number) is advertisement:
                del program.publishers[advertisement.number]

    def receive(self, data: bytes) -> None:
        """Take a packet from the network."""
        self.schemas.info.packets += 1
        found = self.schemas.read(data)
        if found is None:
            return
        schema, packet = found
        wanting = schema.edge.wanting(packet.event)
        if wanting:
            self._hand_over(wanting, data, None)
            return
        self.counters.unwanted += 1
        culprit = schema.waste.culprit(packet.event) if packet.epoch == schema.channel.epoch else None
        if culprit is None:
            self.schemas.info.stray += 1
        else:
            culprit.inbox.info.wasted += 1

    def publish(self, program: LocalProgram, frame: bytes) -> None:
        """Take a frame from a program."""
        if self._link is None or not frame.startswith(TUNNEL_START):
            self.counters.malformed += 1
            return
        address, data = frame[len(TUNNEL_START) : self._address_end], frame[self._address_end :]
        is_event_address = int.from_bytes(address) & self._mask == self._range
        try:
            advertisement = program.publishers.get(read(data)[4])
            opened = None if advertisement is None else advertisement.opened(data)
            if advertisement is None or opened is None or not is_event_address:
                self.counters.refused += 1
                return
            event = self.channels[advertisement.schema].codec.decode(opened).event
        except WireError:
            self.counters.malformed += 1
            return
        if advertisement.filter.schema != event.schema:  # there is another version of the schema now
            advertisement = replace(advertisement, filter=carried(advertisement.filter, event.schema))
            self.advertise(program, advertisement)
        if not advertisement.filter.matches(event):
            self.counters.refused += 1
            return
        if self._link.send(address, data):
            self.counters.published += 1
        else:
            self.counters.unsent += 1
        found = self.schemas.read(data, is_echo=True)
        if found is not None:
            self._hand_over(found[0].edge.wanting(event), data, program)

    def tell(self, program: LocalProgram) -> None:
        """Tell a program what it has lost and what was kept from it, as far as it does not know and has room for it."""
        overrun = program.overrun + self.overrun - program.overrun_before
        untold = [each for each in program.subscriptions.values() if any(each.untold())]
        while program.connection is not None and (untold or overrun != program.told_overrun):
            part, untold = untold[:MAX_NOTICE_COUNTS], untold[MAX_NOTICE_COUNTS:]
            notice = AgentNotice(overrun, {str(each.id): each.untold() for each in part})
            if not program.connection.send(notice.pack()):
                return
            program.told_overrun = overrun
            for each in part:
                each.told()

    def _hand_over(self, wanting: Iterable[EventListener], data: bytes, sender: LocalProgram | None) -> None:
        frame = _NO_ADDRESS + data
        for program in {each.program for each in wanting if isinstance(each, LocalSubscription)}:
            if program is sender:
                continue
            if program.hand_over(frame):
                self.counters.delivered += 1
            else:
                self.counters.overrun += 1
