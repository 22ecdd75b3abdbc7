import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pleroma.client.session.event_source import EventSource
from pleroma.client.session.inbox import Inbox, SubscriptionInfo
from pleroma.client.session.receiver import Receiver
from pleroma.client.session.subscribed_schemas import EventListener
from pleroma.content import Filter, Integer, Schema
from pleroma.errors import WireError
from pleroma.wire.event_encryption import PublisherCipher, seal_of
from pleroma.wire.event_tags import PublisherSeal, SchemaSeals, publisher_key
from support.client_parts import Wire, channel, listen, quote, twice, wanted
from support.strategies import STOCK, events, filters

OTHER = Schema("other", (Integer("x", False, 0, 9),))
KEY = bytes(range(32))


def listening(*texts, through=None, queue=100):
    receiver = Receiver()
    through = through or channel()
    listeners = [EventListener(wanted(text), Inbox(queue)) for text in texts]
    for each in listeners:
        listen(receiver, through, each)
    all_covered(receiver)
    return receiver, *listeners


def all_covered(receiver):
    while receiver.cover_next():
        pass


def sent(events, through=None, number=9):
    wire = Wire()
    EventSource(Filter.everything(STOCK), through or channel(), number, wire).publish_many(events)
    return wire.packets


def plain(publisher, price):
    """The first packet of a publisher, without a tag."""
    ((_, packet),) = channel().datagrams(quote(price), publisher, 1, 0)
    return packet


def taken(listener):
    return [packet.event for packet in iter(listener.inbox.take, None)]


@given(st.data())
def test_each_subscription_gets_exactly_what_its_filter_matches(data):
    drawn = data.draw(st.lists(filters(STOCK), min_size=1, max_size=3))
    published = data.draw(st.lists(events(STOCK), max_size=8))
    receiver, listeners = Receiver(), [EventListener(each, Inbox()) for each in drawn]
    for each in listeners:
        listen(receiver, channel(), each)
    for frame in sent(published):
        receiver.receive(frame)
    for each in listeners:
        assert taken(each) == [event for event in published if each.filter.matches(event)]
    unwanted = sum(not any(f.matches(event) for f in drawn) for event in published)
    assert sum(each.inbox.info.wasted for each in listeners) + receiver.info.stray == unwanted
    assert sum(each.inbox.info.wanted for each in listeners) == len(published) - unwanted


def test_an_event_that_comes_again_is_dropped_and_counted():
    receiver, cheap, dear = listening("price < 400", "price > 900", through=channel(index=twice()))
    for frame in sent([quote(300.0), quote(100.0)], channel(index=twice())):
        receiver.receive(frame)
    assert taken(cheap) == [quote(300.0), quote(100.0)]
    assert cheap.inbox.info == SubscriptionInfo(delivered=2, wanted=2, duplicates=1)
    assert dear.inbox.info == SubscriptionInfo()


def test_the_same_number_of_another_publisher_is_another_event():
    receiver, everything = listening("true")
    for number in (1, 2):
        for frame in sent([quote()], number=number):
            receiver.receive(frame)
    assert len(taken(everything)) == 2


def test_other_content_under_the_same_numbers_is_another_event_and_not_a_repetition():
    receiver, everything = listening("true")
    for price in (999.0, 5.0, 5.0):
        receiver.receive(plain(9, price))
    assert [event["price"] for event in taken(everything)] == [999.0, 5.0]
    assert everything.inbox.info.duplicates == 1


def test_where_there_is_a_key_only_packets_with_the_tag_of_their_publisher_are_taken():
    receiver, cheap, dear = Receiver(), *(EventListener(wanted(text), Inbox()) for text in ("price < 10", "price > 10"))
    for each in (cheap, dear):
        listen(receiver, channel(), each, KEY)
    alice, mallory = (PublisherSeal(publisher_key(KEY, number)) for number in (1, 2))
    forged = [
        seal.sealed(plain(1, price)) if seal else plain(1, price) for seal in (None, mallory) for price in (5, 50)
    ]
    for packet in (*forged, *forged):
        receiver.receive(packet)
    honest = alice.sealed(plain(1, 6.0))
    for packet in (honest, honest, honest[:-1] + bytes([honest[-1] ^ 1])):
        receiver.receive(packet)
    assert [event["price"] for event in taken(cheap)] == [6.0]
    assert (receiver.info.forged, receiver.info.malformed) == (9, 0)
    assert (cheap.inbox.info.forged, dear.inbox.info.forged) == (5, 4)
    assert (cheap.inbox.info.duplicates, cheap.inbox.info.wasted, receiver.info.stray) == (1, 0, 0)


def test_what_is_forged_and_cannot_be_read_either_is_counted_for_some_subscription():
    receiver, everything = Receiver(), EventListener(wanted("true"), Inbox())
    listen(receiver, channel(), everything, KEY)
    receiver.receive(plain(1, 5.0)[:-1])
    assert (receiver.info.forged, everything.inbox.info.forged) == (1, 1)


def test_nothing_is_read_before_the_controller_has_said_how_to_tell_what_is_forged():
    receiver, everything = Receiver(), EventListener(wanted("true"), Inbox())
    receiver.schemas.listen(channel(), everything)
    receiver.receive(plain(1, 5.0))
    assert (taken(everything), receiver.info.unknown) == ([], 1)
    receiver.schemas.open("stock", SchemaSeals(KEY))
    receiver.receive(plain(1, 5.0))
    receiver.receive(PublisherSeal(publisher_key(KEY, 1)).sealed(plain(1, 7.0)))
    assert [event["price"] for event in taken(everything)] == [7.0]


def test_a_new_plan_does_not_make_a_schema_open_to_forged_packets():
    receiver, everything = Receiver(), EventListener(wanted("true"), Inbox())
    listen(receiver, channel(), everything, KEY)
    receiver.schemas.adopt(channel(epoch=2))
    receiver.receive(plain(1, 5.0))
    assert (taken(everything), receiver.info.forged) == ([], 1)


def test_what_this_client_sent_itself_needs_no_check():
    receiver, everything = Receiver(), EventListener(wanted("true"), Inbox())
    listen(receiver, channel(), everything, KEY)
    receiver.echo(plain(1, 5.0))
    assert len(taken(everything)) == 1


def test_events_of_an_encrypted_schema_are_read_with_its_key_and_nothing_else_passes_for_one():
    secret = replace(STOCK, encrypted=True)
    through, everything = channel(schema=secret), EventListener(Filter.everything(secret), Inbox())
    receiver = Receiver()
    receiver.schemas.listen(through, everything)
    receiver.schemas.open("stock", SchemaSeals(KEY, seal_of(secret)))
    event, own = secret.event(price=5, volume=0, ticker="AAPL"), publisher_key(KEY, 1)
    with pytest.raises(WireError, match="stock: its events are encrypted, and the controller gave no key"):
        through.datagrams(event, 1, 1, 0)
    ((_, sent),) = through.datagrams(event, 1, 1, 0, PublisherCipher(own), b"picture")
    receiver.receive(sent)
    assert everything.inbox.take().payload == b"picture"
    receiver.receive(sent)
    assert everything.inbox.info.duplicates == 1
    ((_, echoed),) = through.datagrams(event, 1, 2, 0, PublisherCipher(own))
    receiver.echo(echoed)
    assert everything.inbox.take().event == event
    for key in (PublisherSeal(own), PublisherCipher(publisher_key(KEY, 2))):
        ((_, forged),) = through.datagrams(event, 1, 3, 0, key)
        receiver.receive(forged)
    assert (everything.inbox.take(), receiver.info.forged, receiver.info.malformed) == (None, 2, 0)


def test_an_unwanted_event_is_charged_once_to_a_subscription_that_brought_it():
    # two bits of price: cells of 250
    through = channel(bits=2, dimensions=["price"])
    receiver, first, second, far = listening("price < 10", "price < 20", "price > 900", through=through)
    for frame in sent([quote(100.0)], through):
        receiver.receive(frame)
    assert [each.inbox.info.wasted for each in (first, second, far)] == [1, 0, 0]
    assert receiver.info.stray == 0


def test_an_event_outside_all_cells_is_not_our_waste():
    through = channel(bits=2, dimensions=["price"])
    receiver, cheap = listening("price < 10", through=through)
    for frame in sent([quote(600.0)], through):
        receiver.receive(frame)
    assert cheap.inbox.info.wasted == 0
    assert receiver.info.stray == 1


def test_until_its_cells_are_known_a_subscription_is_under_suspicion():
    through = channel(bits=2, dimensions=["price"])
    receiver, cheap, dear = (
        Receiver(),
        EventListener(wanted("price < 10"), Inbox()),
        EventListener(wanted("price > 990"), Inbox()),
    )
    listen(receiver, through, cheap)
    listen(receiver, through, dear)
    frames = sent([quote(600.0)] * 4, through)
    receiver.receive(frames[0])
    assert receiver.cover_next()
    receiver.receive(frames[1])
    assert receiver.cover_next()
    receiver.receive(frames[2])
    assert not receiver.cover_next()
    assert [each.inbox.info.wasted for each in (cheap, dear)] == [1, 1]
    assert receiver.info.stray == 1


def test_a_cell_of_a_cover_brings_all_cells_inside_it():
    through = channel(bits=12, dimensions=["price", "volume"])
    receiver, cheap = listening("price < 10 and volume < 512", through=through)
    for frame in sent([quote(12.0, 3), quote(12.0, 500), quote(12.0, 600), quote(40.0, 3)], through):
        receiver.receive(frame)
    assert (cheap.inbox.info.wasted, receiver.info.stray) == (2, 2)


def test_what_this_client_sent_itself_is_no_waste():
    receiver, cheap = listening("price < 10", through=channel(bits=2, dimensions=["price"]))
    for frame in sent([quote(5.0), quote(100.0)], channel(bits=2, dimensions=["price"])):
        receiver.echo(frame)
    assert taken(cheap) == [quote(5.0)]
    assert (cheap.inbox.info.wasted, receiver.info.stray, receiver.info.packets) == (0, 0, 0)


def test_one_that_left_is_not_charged():
    through = channel(bits=2, dimensions=["price"])
    receiver, first, second = listening("price < 10", "price < 20", through=through)
    receiver.schemas.ignore(first)
    for frame in sent([quote(100.0)], through):
        receiver.receive(frame)
    assert [each.inbox.info.wasted for each in (first, second)] == [0, 1]


def test_waste_follows_the_plan():
    old, new = channel(bits=2, dimensions=["price"]), channel(bits=2, epoch=2, dimensions=["volume"])
    receiver, cheap = listening("price < 10 and volume > 1000", through=old)
    receiver.schemas.adopt(new)
    all_covered(receiver)
    for frame in sent([quote(600.0, 900)], new):
        receiver.receive(frame)
    assert cheap.inbox.info.wasted == 1
    for frame in sent([quote(600.0, 100)], new, number=10):
        receiver.receive(frame)
    assert (cheap.inbox.info.wasted, receiver.info.stray) == (1, 1)
    # of an earlier plan it is not known what it brings
    for frame in sent([quote(600.0, 900)], old, number=11):
        receiver.receive(frame)
    assert (cheap.inbox.info.wasted, receiver.info.stray) == (1, 2)


def test_a_schema_may_come_back_under_another_number():
    receiver, everything = listening("true", through=channel(number=5))
    receiver.schemas.adopt(channel(number=6))
    for frame in [*sent([quote()], channel(number=6)), *sent([quote()], channel(number=5))]:
        receiver.receive(frame)
    assert len(taken(everything)) == 1
    assert receiver.info.unknown == 1


def test_schemas_are_kept_apart():
    receiver, stocks = listening("true")
    numbers = EventListener(Filter.everything(OTHER), Inbox())
    listen(receiver, channel(number=6, schema=OTHER, bits=2), numbers)
    wire = Wire()
    EventSource(Filter.everything(OTHER), channel(number=6, schema=OTHER, bits=2), 7, wire).publish({"x": 3})
    for frame in [*sent([quote()]), *wire.packets]:
        receiver.receive(frame)
    assert taken(stocks) == [quote()]
    assert [e["x"] for e in taken(numbers)] == [3]


def test_a_closed_subscription_gets_nothing_and_its_schema_is_unknown():
    receiver, first, second = listening("true", "true")
    frames = sent([quote(), quote(), quote()])
    receiver.receive(frames[0])
    receiver.schemas.ignore(first)
    receiver.receive(frames[1])
    receiver.schemas.ignore(second)
    receiver.receive(frames[2])
    assert [len(taken(first)), len(taken(second))] == [1, 2]
    assert receiver.info.unknown == 1


def test_those_who_wait_are_woken_and_no_others():
    receiver, woken = Receiver(), []
    listen(receiver, channel(), EventListener(wanted("price < 10"), Inbox(), lambda: woken.append("cheap")))
    listen(receiver, channel(), EventListener(wanted("price > 10"), Inbox(), lambda: woken.append("dear")))
    for frame in sent([quote(5.0), quote(10.0), quote(11.0)]):
        receiver.receive(frame)
    assert woken == ["cheap", "dear"]


def test_a_full_inbox_does_not_keep_events_from_another():
    receiver, slow, fast = (
        Receiver(),
        EventListener(wanted("true"), Inbox(2)),
        EventListener(wanted("true"), Inbox(100)),
    )
    listen(receiver, channel(), slow)
    listen(receiver, channel(), fast)
    for frame in sent([quote(float(n)) for n in range(50)]):
        receiver.receive(frame)
    assert [e["price"] for e in taken(slow)] == [48.0, 49.0]
    assert slow.inbox.info.dropped == 48
    assert len(taken(fast)) == 50


def test_a_malformed_packet_does_not_use_up_a_number():
    receiver, everything = listening("true")
    (frame,) = sent([quote()])
    receiver.receive(frame[:-1])
    receiver.receive(frame)
    assert len(taken(everything)) == 1
    assert receiver.info.malformed == 1


@given(st.binary(max_size=100) | st.binary(max_size=60).map(lambda b: b"\1\1" + b))
def test_no_datagram_raises_an_error(data):
    receiver, everything = listening("true")
    receiver.receive(data)
    assert receiver.info.malformed + receiver.info.unknown == 1
    assert taken(everything) == []


def test_a_changed_byte_is_another_event_or_none():
    (frame,) = sent([quote(5.0, 10, "IBM", market="lse")])
    chance = random.Random(3)
    receiver, everything = listening("true")
    for _ in range(2000):
        damaged = bytearray(frame)
        damaged[chance.randrange(len(frame))] = chance.randrange(256)
        receiver.receive(bytes(damaged))
    info, got = receiver.info, everything.inbox.info
    assert info.malformed > 300
    assert info.packets == 2000 == info.malformed + info.unknown + got.delivered + got.duplicates
