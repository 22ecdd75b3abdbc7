"""Publishing: events are checked, numbered, encoded and sent.

`publish` neither waits nor asks the controller: an event outside the advertisement is refused here, and a datagram that
the socket does not take is counted. Channel, number, seal and sender, which change with a new plan or a new attachment,
are one tuple that is swapped as a whole. So events may be published from any thread meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, Protocol

from pleroma.client.session.sampling import Sampler
from pleroma.client.session.schema_channel import SchemaChannel
from pleroma.content import Event, Filter, Schema
from pleroma.errors import ClientClosed, OutsideAdvertisement, PleromaError
from pleroma.wire.event_tags import PublisherSeal


class Sender(Protocol):
    def send(self, address: bytes, packet: bytes) -> bool:
        """Send a packet to an address in the network; False if it was not taken."""


@dataclass(slots=True)
class PublisherInfo:
    """Counters since the client advertised."""

    published: int = 0
    """Events that were accepted and numbered."""
    frames: int = 0
    """Datagrams sent: one for each cell that an event lies in."""
    unsent: int = 0
    """Datagrams that were not sent, because the controller was away or the socket took no more."""


class EventSource:
    """Publishes events of one advertisement, through a sender and under the number of its publisher."""

    def __init__(
        self,
        advertised: Filter,
        channel: SchemaChannel,
        number: int,
        sender: Sender,
        seal: PublisherSeal | None = None,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self.advertised = advertised
        self.info = PublisherInfo()
        self.failure: PleromaError | None = None
        """Why nothing can be published any more."""
        self._sequence = count(1)
        self._clock = clock
        self._route = (channel, number, sender, seal)
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
        self.samples.follow(channel)
        self._route = (channel, *self._route[1:])

    def reroute(self, channel: SchemaChannel, number: int, sender: Sender, seal: PublisherSeal | None) -> None:
        """Go on by this plan, under this number, through this sender, with these tags or without any."""
        self.samples.follow(channel)
        self._route = (channel, number, sender, seal)

    def publish(self, event: Event | Mapping[str, Any]) -> int:
        """Send an event; returns its sequence number."""
        return self._send(self._checked(event))

    def publish_many(self, events: Iterable[Event | Mapping[str, Any]]) -> list[int]:
        """All or nothing: if one event is refused, none is sent. Returns the sequence numbers."""
        return [self._send(event) for event in [self._checked(event) for event in events]]

    def stop(self, failure: PleromaError | None = None) -> None:
        """Refuse to publish from now on, with this failure; without one, since the publisher is closed."""
        self.failure = failure or self.failure or ClientClosed("the publisher is closed")

    def _checked(self, event: Event | Mapping[str, Any]) -> Event:
        if self.failure is not None:
            raise self.failure
        if not isinstance(event, Event):
            event = self.schema.event(event)
        if not self.advertised.matches(event):
            raise OutsideAdvertisement(event, str(self.advertised))
        return event

    def pass_on(self, event: Event, sequence: int, time: int) -> None:
        """Send an event of another publisher, with the sequence number and time that it has there."""
        self._send_as(self._checked(event), sequence, time)

    def _send(self, event: Event) -> int:
        sequence = next(self._sequence)
        self._send_as(event, sequence, self._clock())
        return sequence

    def _send_as(self, event: Event, sequence: int, time: int) -> None:
        channel, number, sender, seal = self._route
        datagrams = channel.datagrams(event, number, sequence, time, seal)
        info = self.info
        info.published += 1
        for address, packet in datagrams:
            if sender.send(address, packet):
                info.frames += 1
            else:
                info.unsent += 1
        samples = self.samples
        samples.left -= 1
        if samples.left < 0:
            samples.take(event)
