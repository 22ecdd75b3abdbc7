import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pleroma.client.session.event_source import EventSource
from pleroma.errors import ClientClosed, ContentError, OutsideAdvertisement, UnknownName
from pleroma.index import IPV6
from pleroma.wire.tunnel import unwrap
from support.client_parts import Wire, channel, quote, twice, wanted
from support.strategies import STOCK, events, filters


def source(text="price < 100", **more):
    wire = Wire()
    return EventSource(wanted(text), channel(**more), 9, wire, clock=lambda: 1234), wire


def packets(source, wire):
    return [source.channel.codec.decode(unwrap(frame)[1]) for frame in wire.frames]


def test_events_are_numbered_from_one():
    publisher, wire = source()
    assert [publisher.publish(quote(n)) for n in range(3)] == [1, 2, 3]
    assert [(p.sequence, p.publisher, p.time, p.event["price"]) for p in packets(publisher, wire)] == [
        (1, 9, 1234, 0.0),
        (2, 9, 1234, 1.0),
        (3, 9, 1234, 2.0),
    ]


def test_a_mapping_is_an_event_too():
    publisher, wire = source()
    publisher.publish({"price": 5, "volume": 3, "ticker": "IBM"})
    assert packets(publisher, wire)[0].event == quote(5, 3, "IBM")


def test_beyond_the_advertisement_nothing_is_sent_and_no_number_is_used():
    publisher, wire = source()
    with pytest.raises(OutsideAdvertisement) as refused:
        publisher.publish(quote(100.0))
    assert refused.value.allowed == "price < 100"
    assert "price=100.0" in str(refused.value)
    assert "price < 100" in str(refused.value)
    assert wire.frames == []
    assert publisher.publish(quote(99.0)) == 1
    assert publisher.info.published == 1


@given(st.data())
def test_exactly_what_was_advertised_is_sent(data):
    advertised, event = data.draw(filters(STOCK)), data.draw(events(STOCK))
    wire = Wire()
    publisher = EventSource(advertised, channel(), 1, wire)
    with contextlib.suppress(OutsideAdvertisement):
        publisher.publish(event)
    assert bool(wire.frames) == advertised.matches(event)


def test_a_bad_event_names_the_attribute():
    publisher, wire = source()
    with pytest.raises(UnknownName, match="prize"):
        publisher.publish({"prize": 5})
    with pytest.raises(ContentError, match="volume"):
        publisher.publish({"price": 5, "volume": -1, "ticker": ""})
    assert wire.frames == []


def test_a_batch_is_sent_as_a_whole_or_not_at_all():
    publisher, wire = source()
    with pytest.raises(OutsideAdvertisement):
        publisher.publish_many([quote(1), quote(200), quote(2)])
    assert wire.frames == []
    assert publisher.publish_many(quote(n) for n in range(5)) == [1, 2, 3, 4, 5]
    assert len(wire.frames) == 5


def test_a_new_plan_changes_address_and_epoch_together():
    publisher, wire = source(bits=24)
    publisher.publish(quote(60.0))
    publisher.follow(channel(bits=24, epoch=2, dimensions=["volume"]))
    publisher.publish(quote(60.0))
    first, second = map(unwrap, wire.frames)
    assert first[0] != second[0]
    assert [p.epoch for p in packets(publisher, wire)] == [1, 2]
    for (address, _), through in zip((first, second), (channel(24), publisher.channel), strict=True):
        dz = through.prefix.then(through.plan.index.dz(quote(60.0)))
        assert IPV6.dz(address, dz.length) == dz


def test_sequence_numbers_go_on_under_another_number_and_socket():
    publisher, _ = source()
    publisher.publish(quote(1))
    other = Wire()
    publisher.reroute(publisher.channel, 33, other, None)
    assert publisher.publish(quote(1)) == 2
    assert [p.publisher for p in packets(publisher, other)] == [33]


def test_what_the_socket_does_not_take_is_counted():
    publisher, wire = source("true", index=twice())
    publisher.publish(quote(300.0))
    wire.closed = True
    publisher.publish(quote(300.0))
    assert (publisher.info.published, publisher.info.frames, publisher.info.unsent) == (2, 2, 2)


def test_after_stopping_nothing_can_be_published():
    publisher, wire = source()
    publisher.stop()
    with pytest.raises(ClientClosed):
        publisher.publish(quote(1))
    with pytest.raises(ClientClosed):
        publisher.publish_many([quote(1)])
    assert wire.frames == []
