"""What tags and encryption cost: the work of a publisher and a subscriber for an event, with and without, in turns."""

from __future__ import annotations

import time
from collections.abc import Sequence

from pleroma.client.session.event_source import EventSource
from pleroma.client.session.inbox import Inbox
from pleroma.client.session.receiver import Receiver
from pleroma.client.session.schema_channel import SchemaChannel
from pleroma.client.session.subscribed_schemas import EventListener
from pleroma.content import Event, Filter
from pleroma.wire.event_encryption import PublisherCipher
from pleroma.wire.event_tags import PublisherSeal, SchemaSeals, publisher_key

TURNS = 10
PUBLISHER = 7
KEY = bytes(range(32))
PROTECTIONS = {"": PublisherSeal, "_without": None, "_encrypted": PublisherCipher}
"""By what the names of figures end in."""


class Kept:
    """Keeps what was sent."""

    def __init__(self) -> None:
        self.packets: list[bytes] = []

    def send(self, _address: bytes, packet: bytes) -> bool:
        self.packets.append(packet)
        return True


def cost(channel: SchemaChannel, events: Sequence[Event], filters: Sequence[Filter]) -> dict[str, float]:
    """Microseconds an event, in the best of some turns; sockets and networks are left out."""
    seconds: dict[tuple[str, str], list[float]] = {}
    for turn in range(TURNS):
        for name in PROTECTIONS if turn % 2 else reversed(PROTECTIONS):
            kept, receiver, make = Kept(), Receiver(), PROTECTIONS[name]
            seal = None if make is None else make(publisher_key(KEY, PUBLISHER))
            source = EventSource(Filter.everything(channel.schema), channel, PUBLISHER, kept, seal)
            for each in filters:
                receiver.schemas.listen(channel, EventListener(each, Inbox(len(events))))
            receiver.schemas.open(channel.schema.name, None if make is None else SchemaSeals(KEY, make))
            while receiver.cover_next():
                pass
            source.publish_many(events)  # filters are prepared with the first events
            for packet in kept.packets:
                receiver.receive(packet)
            kept.packets.clear()
            begun = time.process_time()
            source.publish_many(events)
            sent = time.process_time()
            for packet in kept.packets:
                receiver.receive(packet)
            taken = time.process_time()
            assert receiver.info.forged == receiver.info.malformed == receiver.info.unknown == 0
            seconds.setdefault(("publish", name), []).append(sent - begun)
            seconds.setdefault(("receive", name), []).append(taken - sent)
    us = {key: 1e6 * min(each) / len(events) for key, each in seconds.items()}
    figures: dict[str, float] = {}
    for step in ("publish", "receive"):
        for name in PROTECTIONS:
            figures[f"{step}_us{name}"] = round(us[step, name], 2)
        figures[f"{step}_ratio"] = round(us[step, ""] / us[step, "_without"], 3)
        figures[f"{step}_ratio_encrypted"] = round(us[step, "_encrypted"] / us[step, "_without"], 3)
    return figures
