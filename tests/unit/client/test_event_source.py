import contextlib
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pleroma.client.session.event_source import RETURN_SECONDS, EventSource
from pleroma.client.session.outbox import MIN_BUFFER_BYTES, BufferLimits
from pleroma.errors import (
    BufferFull,
    ClientClosed,
    ClientError,
    ContentError,
    OutsideAdvertisement,
    UnknownName,
    WireError,
)
from pleroma.index import IPV6
from pleroma.wire.tunnel import unwrap
from support.client_parts import Wire, channel, quote, twice, wanted
from support.strategies import STOCK, events, filters


def source(text="price < 100", *, limits=BufferLimits(), on_waiting=lambda: None, **more):  # noqa: B008
    wire = Wire()
    made = EventSource(wanted(text), channel(**more), 9, wire, clock=lambda: 1234, limits=limits, on_waiting=on_waiting)
    return made, wire


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


def test_a_payload_goes_with_its_event_and_one_too_large_is_not_sent():
    publisher, wire = source()
    publisher.publish(quote(1), payload=b"\0\xff")
    publisher.publish(quote(1), b"x" * 1177)
    with pytest.raises(WireError, match="payload: 1178 bytes, 1177 is the most"):
        publisher.publish(quote(1), b"x" * 1178)
    assert [(p.sequence, p.payload) for p in packets(publisher, wire)] == [(1, b"\0\xff"), (2, b"x" * 1177)]
    assert publisher.publish(quote(1)) == 3
    assert publisher.info.published == 3


@pytest.mark.parametrize("payload", ["text", None, 5, bytearray(b"x")])
def test_a_payload_is_bytes(payload):
    publisher, wire = source()
    with pytest.raises(ClientError, match="payload: a payload is bytes, not"):
        publisher.publish(quote(1), payload)
    assert wire.frames == []


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


def test_what_the_network_does_not_take_waits_and_is_sent_in_order():
    noticed = []
    publisher, wire = source(on_waiting=lambda: noticed.append(publisher.waiting))
    publisher.publish(quote(1))
    wire.closed = True
    assert publisher.publish_many(quote(n) for n in (2, 3)) == [2, 3]
    assert (publisher.waiting, publisher.send_waiting(10)) == (2, False)
    wire.closed = False
    assert publisher.publish(quote(4)) == 4  # it does not overtake those that wait
    assert [p.sequence for p in packets(publisher, wire)] == [1]
    assert publisher.send_waiting(2)
    assert (publisher.waiting, [p.sequence for p in packets(publisher, wire)]) == (1, [1, 2, 3])
    assert publisher.send_waiting(2)
    publisher.publish(quote(5))
    assert [(p.sequence, p.event["price"]) for p in packets(publisher, wire)] == [(n, n) for n in range(1, 6)]
    assert (publisher.info.published, publisher.info.frames, publisher.info.unsent) == (5, 5, 0)
    assert noticed == [1]


def test_an_event_of_which_a_part_was_taken_is_sent_again_as_a_whole():
    publisher, wire = source("true", index=twice())
    publisher.publish(quote(300.0))
    wire.left = 1
    publisher.publish(quote(300.0))
    assert (publisher.waiting, len(wire.frames)) == (1, 3)
    wire.left = None
    publisher.send_waiting(1)
    assert (publisher.waiting, publisher.info.unsent) == (0, 0)
    assert wire.packets[2:] == [wire.packets[2]] * 3  # receivers tell that it is the same event


def test_events_that_waited_are_sent_under_the_number_and_plan_of_the_moment(monkeypatch):
    publisher, wire = source()
    wire.closed = True
    publisher.publish(quote(1))
    other, now = Wire(), time.monotonic()
    publisher.reroute(channel(epoch=2), 33, other, None)
    assert not publisher.send_waiting(1)  # subscribers come back meanwhile
    assert not other.frames
    monkeypatch.setattr(time, "monotonic", lambda: now + RETURN_SECONDS + 1)
    assert publisher.send_waiting(1)
    assert [(p.publisher, p.epoch, p.sequence, p.time) for p in packets(publisher, other)] == [(33, 2, 1, 1234)]


def test_a_full_buffer_refuses_and_uses_no_number():
    publisher, wire = source(limits=BufferLimits(3))
    wire.closed = True
    publisher.publish(quote(1))
    with pytest.raises(BufferFull, match=r"^buffer: 3 events \(\d+ bytes\) wait to be sent, and there is room") as full:
        publisher.publish_many(quote(n) for n in (2, 3, 4, 5))
    assert (full.value.numbers, full.value.events, full.value.value) == ((2, 3), 3, 3)
    with pytest.raises(BufferFull):
        publisher.publish(quote(4))
    wire.closed = False
    assert publisher.send_waiting(10)
    assert publisher.publish(quote(4)) == 4
    assert [p.sequence for p in packets(publisher, wire)] == [1, 2, 3, 4]
    assert (publisher.info.published, publisher.info.unsent) == (4, 0)


def test_a_full_buffer_drops_the_oldest_if_asked_to():
    publisher, wire = source(limits=BufferLimits(3, when_full="drop_oldest"))
    wire.closed = True
    assert publisher.publish_many(quote(n) for n in range(5)) == [1, 2, 3, 4, 5]
    assert (publisher.waiting, publisher.info.unsent) == (3, 2)
    wire.closed = False
    publisher.send_waiting(10)
    assert [p.sequence for p in packets(publisher, wire)] == [3, 4, 5]


def test_a_buffer_is_full_by_bytes_too():
    long = "A" * 1000
    publisher, wire = source(limits=BufferLimits(bytes=MIN_BUFFER_BYTES))
    wire.closed = True
    with pytest.raises(BufferFull) as full:
        publisher.publish_many(quote(1, 0, long) for _ in range(100))
    assert MIN_BUFFER_BYTES - 1100 < full.value.bytes <= MIN_BUFFER_BYTES
    assert full.value.events == publisher.waiting == len(full.value.numbers) < 66
    wire.closed = False
    publisher.send_waiting(1)
    publisher.publish(quote(1, 0, long))


@pytest.mark.parametrize(
    ("limits", "field"),
    [
        ({"events": 0}, "buffer"),
        ({"events": True}, "buffer"),
        ({"bytes": 5}, "buffer_bytes"),
        ({"bytes": "5"}, "buffer_bytes"),
    ]
    + [({"when_full": each}, "when_full") for each in ("drop", None, 5, [])],
)
def test_limits_that_make_no_sense_are_refused(limits, field):
    with pytest.raises(ContentError) as refused:
        BufferLimits(**limits)
    assert refused.value.field == field


@given(
    st.lists(st.sampled_from(["publish", "cut", "mend", "send"]), max_size=40),
    st.sampled_from(["raise", "drop_oldest"]),
)
def test_every_number_is_sent_in_order_waits_or_counts_as_unsent(steps, when_full):
    publisher, wire = source("true", limits=BufferLimits(3, when_full=when_full))
    given = []
    for step in steps:
        match step:
            case "publish":
                with contextlib.suppress(BufferFull):
                    given.append(publisher.publish(quote()))
            case "send":
                publisher.send_waiting(2)
            case _:
                wire.closed = step == "cut"
    sent = [p.sequence for p in packets(publisher, wire)]
    assert given == list(range(1, len(given) + 1))
    assert sent == sorted(set(sent))
    assert publisher.info.published == len(given) == len(sent) + publisher.waiting + publisher.info.unsent
    assert when_full == "drop_oldest" or not publisher.info.unsent
    left = publisher.waiting
    assert publisher.stop() == left
    assert publisher.info.unsent == len(given) - len(sent)


def test_what_another_published_is_passed_on_now_or_never():
    publisher, wire = source()
    wire.closed = True
    publisher.pass_on(quote(1), 7, 5)
    assert (publisher.waiting, publisher.info.unsent, publisher.info.published) == (0, 1, 1)


def test_several_events_are_something_to_iterate_over():
    publisher, _ = source()
    with pytest.raises(ContentError, match=r"^events: are several events, not 5$"):
        publisher.publish_many(5)
    for single in ({"price": 5, "volume": 3, "ticker": "IBM"}, quote(1)):
        with pytest.raises(ContentError, match="an event is an object"):
            publisher.publish_many(single)


def test_after_stopping_nothing_can_be_published():
    publisher, wire = source()
    publisher.stop()
    with pytest.raises(ClientClosed):
        publisher.publish(quote(1))
    with pytest.raises(ClientClosed):
        publisher.publish_many([quote(1)])
    assert wire.frames == []
