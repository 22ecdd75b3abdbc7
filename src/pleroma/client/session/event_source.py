"""Publishing: events are checked, numbered, encoded and sent.

`publish` neither waits nor asks the controller: an event outside the advertisement is refused here, and one that the
network does not take waits in the outbox. Channel, number, seal and sender, which change with a new plan or a new
attachment, are one tuple that is swapped as a whole. So events may be published from any thread meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from itertools import count
from typing import Any, Protocol

from pleroma.client.session.outbox import BufferLimits, Outbox, PublisherInfo
from pleroma.client.session.sampling import Sampler
from pleroma.client.session.schema_channel import SchemaChannel
from pleroma.content import Event, Filter, Schema
from pleroma.content.schema_versions import carried
from pleroma.errors import (
    BufferFull,
    ClientClosed,
    ClientError,
    ContentError,
    OutsideAdvertisement,
    PleromaError,
    shown,
)
from pleroma.wire import EventPacket
from pleroma.wire.event_tags import PacketSeal

RETURN_SECONDS = 2.5
"""How long events that wait are held back after the client is attached anew: subscribers that lost the same controller
come back in this time, and events that are sent before reach none of them.
"""


class Sender(Protocol):
    def send(self, address: bytes, packet: bytes) -> bool:
        """Send a packet to an address in the network; False if it was not taken."""


class EventSource:
    """Publishes events of one advertisement, through a sender and under the number of its publisher.

    `on_waiting` is called, from any thread, when an event waits and none did before.
    """

    def __init__(
        self,
        advertised: Filter,
        channel: SchemaChannel,
        number: int,
        sender: Sender,
        seal: PacketSeal | None = None,
        clock: Callable[[], int] = time.time_ns,
        *,
        limits: BufferLimits = BufferLimits(),  # noqa: B008 (a value that does not change)
        on_waiting: Callable[[], object] = lambda: None,
    ) -> None:
        self.advertised = advertised
        self.info = PublisherInfo()
        self.failure: PleromaError | None = None
        """Why nothing can be published any more."""
        self._sequence = count(1)
        self._clock = clock
        self._route = (channel, number, sender, seal)
        self._outbox = Outbox(limits, self.info, self._sent)
        self._on_waiting = on_waiting
        self._resumes = 0.0
        """From when on events that wait are sent, in seconds of a clock that never goes back."""
        self.samples = Sampler(channel)

    @property
    def schema(self) -> Schema:
        return self.advertised.schema

    @property
    def channel(self) -> SchemaChannel:
        return self._route[0]

    @property
    def number(self) -> int:
        return self._route[1]

    def follow(self, channel: SchemaChannel) -> None:
        """Go on by another plan."""
        self._route = (channel, *self._route[1:])
        self._go_by(channel)

    def reroute(self, channel: SchemaChannel, number: int, sender: Sender, seal: PacketSeal | None) -> None:
        """Go on by this plan, under this number, through this sender, with these tags or without any."""
        if sender is not self._route[2] and self._outbox.waiting:
            self._resumes = time.monotonic() + RETURN_SECONDS
        self._route = (channel, number, sender, seal)
        self._go_by(channel)

    def _go_by(self, channel: SchemaChannel) -> None:
        """The schema may have another version. Other threads may still publish events of the one before."""
        self.advertised = carried(self.advertised, channel.schema)
        self.samples.follow(channel)

    def publish(self, event: Event | Mapping[str, Any], payload: bytes = b"") -> int:
        """Send an event, with a payload beside it if there is any, or have it wait while the network takes none.

        Returns its sequence number.
        """
        if not isinstance(payload, bytes):
            raise ClientError(f"a payload is bytes, not {shown(payload)}", field="payload", value=payload)
        checked = self._checked(event)
        if payload:  # one that is too large is refused before it has a number
            channel = self.channel
            channel.codec.encode(EventPacket(channel.epoch, channel.number, 0, 0, 0, checked, payload))
        return self._send(checked, payload)

    def publish_many(self, events: Iterable[Event | Mapping[str, Any]]) -> list[int]:
        """Publish events, or none of them if one is not valid. Returns the sequence numbers.

        If the last of them find the buffer full, `BufferFull.numbers` has the numbers of the others.
        """
        if not isinstance(events, Iterable):
            raise ContentError(f"are several events, not {shown(events)}", field="events", value=events)
        numbers: list[int] = []
        try:
            numbers.extend(map(self._send, [self._checked(event) for event in events]))
        except BufferFull as full:
            full.numbers = tuple(numbers)
            raise
        return numbers

    @property
    def waiting(self) -> int:
        """Events that are not sent yet, because the network took none."""
        return len(self._outbox.waiting)

    def send_waiting(self, most: int) -> bool:
        """Send up to so many of the events that wait; False if the network does not take them, or not yet."""
        return time.monotonic() >= self._resumes and self._outbox.send_some(most)

    def stop(self, failure: PleromaError | None = None) -> int:
        """Refuse to publish from now on, with this failure; without one, since the publisher is closed.

        Returns how many events still waited: they are not sent any more.
        """
        self.failure = failure or self.failure or ClientClosed("the publisher is closed")
        return self._outbox.give_up()

    def _checked(self, event: Event | Mapping[str, Any]) -> Event:
        if self.failure is not None:
            raise self.failure
        if not isinstance(event, Event):
            event = self.schema.event(event)
        elif event.schema is not self.schema:
            event = self.channel.current(event)
        if not self.advertised.matches(event):
            raise OutsideAdvertisement(event, str(self.advertised))
        return event

    def pass_on(self, event: Event, sequence: int, time: int, payload: bytes = b"") -> None:
        """Send an event of another publisher, with the number, time and payload that it has there, now or never."""
        if not self._sent(self._checked(event), sequence, time, payload):
            self.info.unsent += 1
        self._count(event)

    def _send(self, event: Event, payload: bytes = b"") -> int:
        if self._outbox.waiting:
            sequence = self._wait(event, payload, self._sequence.__next__, self._clock())
        else:
            sequence, now = next(self._sequence), self._clock()
            if not self._sent(event, sequence, now, payload):
                self._wait(event, payload, lambda: sequence, now)
                self._on_waiting()
        self._count(event)
        return sequence

    def _sent(self, event: Event, sequence: int, time: int, payload: bytes) -> bool:
        """Send an event to all cells that it lies in; False as soon as one of the datagrams is not taken."""
        channel, number, sender, seal = self._route
        for address, packet in channel.datagrams(event, number, sequence, time, seal, payload):
            if not sender.send(address, packet):
                return False
            self.info.frames += 1
        return True

    def _wait(self, event: Event, payload: bytes, number: Callable[[], int], time: int) -> int:
        channel = self._route[0]
        size = len(channel.codec.encode(EventPacket(channel.epoch, channel.number, 0, 0, time, event, payload)))
        return self._outbox.put(number, event, payload, time, size)

    def _count(self, event: Event) -> None:
        self.info.published += 1
        samples = self.samples
        samples.left -= 1
        if samples.left < 0:
            samples.take(event)
