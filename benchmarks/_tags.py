"""What tags cost: the work of a publisher and of a subscriber for an event, with tags and without, in turns."""

from __future__ import annotations

import time
from collections.abc import Sequence

from pleroma.client.session.event_source import EventSource
from pleroma.client.session.inbox import Inbox
from pleroma.client.session.receiver import Receiver
from pleroma.client.session.schema_channel import SchemaChannel
from pleroma.client.session.subscribed_schemas import EventListener
from pleroma.content import Event, Filter
from pleroma.wire.event_tags import PublisherSeal, SchemaSeals, publisher_key

TURNS = 10
PUBLISHER = 7
KEY = bytes(range(32))


class Kept:
    """Keeps what was sent."""

    def __init__(self) -> None:
        self.packets: list[bytes] = []

    def send(self, _address: bytes, packet: bytes) -> bool:
        self.packets.append(packet)
        return True


def cost(channel: SchemaChannel, events: Sequence[Event], filters: Sequence[Filter]) -> dict[str, float]:
    """Microseconds an event, in the best of some turns; sockets and networks are left out."""
    seconds: dict[tuple[str, bool], list[float]] = {}
    for turn in range(TURNS):
        for has_tags in (False, True) if turn % 2 else (True, False):
            kept, receiver = Kept(), Receiver()
            seal = PublisherSeal(publisher_key(KEY, PUBLISHER)) if has_tags else None
            source = EventSource(Filter.everything(channel.schema), channel, PUBLISHER, kept, seal)
            for each in filters:
                receiver.schemas.listen(channel, EventListener(each, Inbox(len(events))))
            receiver.schemas.open(channel.schema.name, SchemaSeals(KEY) if has_tags else None)
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
            seconds.setdefault(("publish", has_tags), []).append(sent - begun)
            seconds.setdefault(("receive", has_tags), []).append(taken - sent)
    us = {key: 1e6 * min(each) / len(events) for key, each in seconds.items()}
    figures: dict[str, float] = {}
    for step in ("publish", "receive"):
        figures[f"{step}_us"] = round(us[step, True], 2)
        figures[f"{step}_us_without"] = round(us[step, False], 2)
        figures[f"{step}_ratio"] = round(us[step, True] / us[step, False], 3)
    return figures
