"""What a relay does with packets: every event is handed over once, whatever it matches, and nothing comes back."""

import asyncio

import pytest

from pleroma.client.relay import Relay, RelayReceiver
from pleroma.client.session.event_source import EventSource
from pleroma.client.session.inbox import Inbox
from pleroma.client.session.subscribed_schemas import EventListener
from pleroma.content import Filter
from pleroma.errors import ClientError
from support.client_parts import Wire, channel, listen, quote, wanted
from support.strategies import STOCK


def published(*prices, number=1, epoch=1):
    wire = Wire()
    source = EventSource(Filter.everything(STOCK), channel(epoch=epoch), number, wire)
    for price in prices:
        source.publish(quote(price))
    return wire.packets


def relaying():
    events, outdated = [], []
    receiver = RelayReceiver(lambda packet: events.append(packet.event), outdated.append)
    listener = EventListener(wanted("price < 10"), Inbox())
    listen(receiver, channel(), listener)
    return receiver, events, outdated, listener


def test_every_event_is_handed_over_once_whatever_it_matches():
    receiver, events, outdated, listener = relaying()
    packets = published(5.0, 15.0)
    for packet in packets * 2:
        receiver.receive(packet)
    assert events == [quote(5.0), quote(15.0)]
    assert (receiver.schemas.info.packets, listener.inbox.info.delivered, outdated) == (4, 0, [])


def test_what_was_sent_does_not_come_back_and_what_is_no_packet_is_counted():
    receiver, events, _, _ = relaying()
    (packet,) = published(5.0)
    receiver.echo(packet)
    receiver.receive(packet[:-1])
    assert (events, receiver.schemas.info.malformed) == ([], 1)


def test_a_packet_of_a_later_plan_says_that_there_is_one_and_no_covers_are_made():
    receiver, _, outdated, _ = relaying()
    for packet in published(5.0, epoch=2):
        receiver.receive(packet)
    assert outdated == ["stock"]
    assert not receiver.cover_next()


def test_a_relay_that_was_never_entered_is_not_connected_and_nobody_waits_for_it():
    relay = Relay("http://127.0.0.1:1", None, lambda _: None)
    assert not relay.is_connected
    with pytest.raises(ClientError, match="not connected"):
        asyncio.run(relay.connected())
