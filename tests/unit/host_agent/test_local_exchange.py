"""Between the network and the programs of one machine: each gets and sends what the controller allowed, and no more."""

from dataclasses import replace

import pytest

from pleroma.client.session.schema_channel import SchemaChannel
from pleroma.content import Filter, Integer, Schema
from pleroma.host_agent.local_exchange import LocalExchange
from pleroma.host_agent.local_programs import Credentials, LocalAdvertisement, LocalProgram
from pleroma.index import IndexPlan
from pleroma.index.extended_index import extended
from pleroma.wire.agent_socket import AgentNotice
from pleroma.wire.event_encryption import seal_of
from pleroma.wire.event_tags import PublisherSeal, SchemaSeals, publisher_key, schema_key
from pleroma.wire.tunnel import TUNNEL_HEAD_BYTES, TUNNEL_START
from support.agent_parts import NATIVE, Hand, StubLink
from support.client_parts import PREFIX, channel, quote, wanted
from support.strategies import STOCK

KEY = schema_key(bytes(32), 5, "stock")
CHANNEL = channel()
PUBLISHER = 7


def seal(number=PUBLISHER, key=KEY):
    return PublisherSeal(publisher_key(key, number))


def datagram(price, number=PUBLISHER, sequence=1, made_by=None, through=CHANNEL):
    return through.datagrams(quote(price), number, sequence, 1_000, made_by or seal(number))[0]


@pytest.fixture
def exchange():
    made = LocalExchange(StubLink)
    made.use(NATIVE)
    made.adopt(CHANNEL)
    return made


def program(room=1_000, name="one"):
    made = LocalProgram(Credentials(f"plr_{name}"), "lease", "h1", 0, 30.0)
    made.connection = Hand(room)
    return made


def subscribe(exchange, who, id, text):
    exchange.subscribe(who, id, "stock", wanted(text), SchemaSeals(KEY))


def advertise(exchange, who, text="true", number=PUBLISHER, with_tags=True):
    made = LocalAdvertisement(f"a{number}", "stock", number, wanted(text), seal(number) if with_tags else None)
    exchange.advertise(who, made)


def prices(who):
    packets = [frame[TUNNEL_HEAD_BYTES:] for frame in who.connection.frames if frame.startswith(TUNNEL_START)]
    return [CHANNEL.codec.decode(packet).event["price"] for packet in packets]


def notices(who):
    return [AgentNotice.unpack(frame) for frame in who.connection.frames if not frame.startswith(TUNNEL_START)]


def test_each_program_gets_what_its_own_subscriptions_match_and_nothing_else(exchange):
    cheap, dear, nothing = program(), program(), program()
    subscribe(exchange, cheap, "s1", "price < 50")
    subscribe(exchange, cheap, "s2", "price < 20")
    subscribe(exchange, dear, "s3", "price > 40")
    for price in (10.0, 45.0, 90.0):
        exchange.receive(datagram(price)[1])
    assert (prices(cheap), prices(dear), prices(nothing)) == ([10.0, 45.0], [45.0, 90.0], [])
    assert exchange.counters.delivered == 4


def test_a_forged_packet_reaches_nobody_and_one_subscription_is_charged(exchange):
    who = program()
    subscribe(exchange, who, "s1", "true")
    exchange.receive(datagram(10.0, made_by=seal(key=schema_key(bytes(32), 5, "other")))[1])
    exchange.receive(CHANNEL.datagrams(quote(10.0), PUBLISHER, 1, 1_000)[0][1])
    exchange.receive(b"no packet")
    exchange.tell(who)
    assert prices(who) == []
    assert notices(who) == [AgentNotice(0, {"s1": (0, 2)})]
    assert exchange.schemas.info.malformed == 1


def test_what_nobody_wants_is_charged_to_the_subscription_that_made_the_network_bring_it(exchange):
    near, far = program(), program()
    subscribe(exchange, near, "s1", "price > 10.5 and price < 11 and volume < 3")
    subscribe(exchange, far, "s2", "price > 900")
    while exchange.schemas.cover_next():
        pass
    exchange.receive(datagram(10.4)[1])
    exchange.receive(datagram(500.0)[1])
    assert (exchange.counters.unwanted, exchange.schemas.info.stray) == (2, 1)
    for _ in range(2):
        exchange.tell(near)
        exchange.tell(far)
    assert notices(near) == [AgentNotice(0, {"s1": (1, 0)})]
    assert notices(far) == []


def test_many_charges_go_out_in_several_notices_that_each_fit_into_a_packet(exchange):
    who = program()
    for n in range(60):
        subscribe(exchange, who, f"s{n + 10**9}", "true")
        who.subscriptions[f"s{n + 10**9}"].inbox.info.wasted = 10**6
    exchange.tell(who)
    assert {name: count for each in notices(who) for name, count in each.counts.items()} == {
        f"s{n + 10**9}": (10**6, 0) for n in range(60)
    }
    assert len(notices(who)) == 3
    assert all(len(frame) < 1232 for frame in who.connection.frames)


def test_a_slow_program_loses_its_own_events_and_is_told_how_many(exchange):
    slow, quick = program(room=2), program()
    subscribe(exchange, slow, "s1", "true")
    subscribe(exchange, quick, "s2", "true")
    for n in range(5):
        exchange.receive(datagram(float(n), sequence=n)[1])
    assert (prices(slow), len(prices(quick))) == ([0.0, 1.0], 5)
    assert (slow.overrun, quick.overrun, exchange.counters.overrun) == (3, 0, 3)
    exchange.tell(slow)  # no room for a notice either: it is told later
    slow.connection.room = 100
    exchange.tell(slow)
    exchange.tell(slow)
    assert notices(slow) == [AgentNotice(3)]


def test_what_the_agents_own_socket_lost_is_told_to_all_who_were_there(exchange):
    early, late = program(), program()
    exchange._link.overrun = 4
    late.overrun_before = exchange.overrun
    exchange._link.overrun = 5
    for who in (early, late):
        exchange.tell(who)
    assert (notices(early), notices(late)) == ([AgentNotice(5)], [AgentNotice(1)])


def test_an_event_of_a_program_goes_to_the_network_and_to_the_other_programs_here(exchange):
    sender, other = program(), program()
    advertise(exchange, sender, "price < 50")
    subscribe(exchange, sender, "s1", "true")
    subscribe(exchange, other, "s2", "true")
    address, packet = datagram(10.0)
    exchange.publish(sender, TUNNEL_START + address + packet)
    assert exchange._link.sent == [(address, packet)]
    assert (prices(sender), prices(other)) == ([], [10.0])
    assert exchange.counters.published == 1


def test_a_program_sends_only_what_an_advertisement_of_its_own_allows(exchange):
    sender, other = program(), program()
    advertise(exchange, sender, "price < 50")
    advertise(exchange, other, "true", number=8)
    subscribe(exchange, other, "s1", "true")
    address, packet = datagram(10.0)
    elsewhere = b"\x20\x01" + address[2:]
    refused = {
        "another's number": (address, datagram(10.0, number=8)[1]),
        "an unknown number": (address, datagram(10.0, number=9)[1]),
        "outside the filter": datagram(60.0),
        "another's tag": (address, datagram(10.0, made_by=seal(8))[1]),
        "no tag": (address, CHANNEL.datagrams(quote(10.0), PUBLISHER, 1, 1_000)[0][1]),
        "an address that events do not have": (elsewhere, packet),
    }
    for n, (to, data) in enumerate(refused.values(), 1):
        exchange.publish(sender, TUNNEL_START + to + data)
        assert exchange.counters.refused == n, list(refused)[n - 1]
    for garbage in (b"", TUNNEL_START, TUNNEL_START + address, TUNNEL_START + address + b"\1\2", address + packet):
        exchange.publish(sender, garbage)
    assert exchange.counters.malformed == 5
    before_any = LocalExchange(StubLink)
    before_any.publish(sender, TUNNEL_START + address + packet)
    assert before_any.counters.malformed == 1
    assert (exchange._link.sent, prices(other)) == ([], [])


def test_without_tags_the_filter_still_holds(exchange):
    sender = program()
    advertise(exchange, sender, "price < 50", with_tags=False)
    for price in (10.0, 60.0):
        address, packet = CHANNEL.datagrams(quote(price), PUBLISHER, 1, 1_000)[0]
        exchange.publish(sender, TUNNEL_START + address + packet)
    assert (exchange.counters.published, exchange.counters.refused) == (1, 1)


def test_payloads_and_encrypted_packets_pass_as_they_are(exchange):
    secret = channel(schema=replace(STOCK, encrypted=True), number=6)
    exchange.adopt(secret)
    seals, sender, other = SchemaSeals(KEY, seal_of(secret.schema)), program(), program()
    own = seal_of(secret.schema)(publisher_key(KEY, PUBLISHER))
    exchange.subscribe(other, "s1", "stock", Filter.parse(secret.schema, "price < 50"), seals)
    exchange.advertise(sender, LocalAdvertisement("a7", "stock", PUBLISHER, Filter.parse(secret.schema, "true"), own))
    for price in (10.0, 60.0):
        event = secret.schema.event(price=price, volume=1, ticker="IBM")
        address, packet = secret.datagrams(event, PUBLISHER, 1, 1_000, own, b"beside it")[0]
        exchange.publish(sender, TUNNEL_START + address + packet)
        exchange.receive(packet)
    got = [seals.opened(frame[TUNNEL_HEAD_BYTES:]) for frame in other.connection.frames]
    assert [secret.codec.decode(packet).payload for packet in got] == [b"beside it"] * 2
    assert (exchange.counters.published, exchange.counters.refused, exchange.counters.malformed) == (2, 0, 0)


def test_nothing_comes_or_goes_by_what_is_withdrawn(exchange):
    who = program()
    subscribe(exchange, who, "s1", "true")
    advertise(exchange, who)
    exchange.withdraw(who, ["s1", "a7", "s99"])
    address, packet = datagram(10.0)
    exchange.receive(packet)
    exchange.publish(who, TUNNEL_START + address + packet)
    assert (prices(who), exchange._link.sent, exchange.counters.refused) == ([], [], 1)
    assert who.registered == frozenset()


def test_a_subscription_that_is_told_again_is_there_once_and_goes_by_its_last_filter(exchange):
    who = program()
    for text in ("price < 50", "price < 50", "price > 50"):
        subscribe(exchange, who, "s1", text)
    for price in (10.0, 60.0):
        exchange.receive(datagram(price)[1])
    assert prices(who) == [60.0]


def test_filters_of_another_schema_of_the_same_name_are_dropped(exchange):
    who = program()
    subscribe(exchange, who, "s1", "true")
    exchange.adopt(channel(schema=Schema("stock", (Integer("n", False, 0, 9),))))
    assert who.subscriptions == {}


def test_a_later_version_ends_nothing_and_what_came_before_it_was_known_is_handed_over(exchange):
    wider = Schema("stock", (*STOCK.attributes, Integer("lot", True, 0, 9)))
    later = SchemaChannel(5, PREFIX, IndexPlan(2, extended(CHANNEL.plan.index, wider)), earlier=(STOCK,))
    who, other = program(), program(name="other")
    subscribe(exchange, who, "s1", "price > 5")
    advertise(exchange, other, "price < 100")
    new = wider.event(price=10.0, volume=1, ticker="A", lot=3)
    address, early = later.datagrams(new, PUBLISHER, 1, 1_000, seal())[0]
    exchange.receive(early)
    assert (prices(who), exchange.schemas.info.malformed) == ([], 1)
    exchange.adopt(later)
    assert (len(who.connection.frames), exchange.schemas.info.malformed, exchange.schemas.info.packets) == (1, 0, 1)
    exchange.receive(datagram(11.0, sequence=2)[1])
    for number, event in enumerate((new, wider.event(price=200.0, volume=1, ticker="A", lot=3)), 3):
        packet = later.datagrams(event, PUBLISHER, number, 1_000, seal())[0][1]
        exchange.publish(other, TUNNEL_START + address + packet)
    read = [later.codec.decode(frame[TUNNEL_HEAD_BYTES:]).event for frame in who.connection.frames]
    assert [(each["price"], each.get("lot")) for each in read] == [(10.0, 3), (11.0, None), (10.0, 3)]
    assert (exchange.counters.published, exchange.counters.refused) == (1, 1)


def test_a_new_plan_is_adopted_and_events_of_either_are_read(exchange):
    who = program()
    subscribe(exchange, who, "s1", "true")
    later = channel(bits=12, epoch=2)
    exchange.adopt(later)
    exchange.receive(datagram(10.0)[1])
    exchange.receive(datagram(11.0, sequence=2, through=later)[1])
    assert prices(who) == [10.0, 11.0]
    exchange.forget_unused(["stock"])
    assert exchange.channels["stock"] is later
    exchange.forget_unused([])
    assert exchange.channels == {}


def test_another_address_of_the_host_gets_another_socket_and_the_same_keeps_it(exchange):
    first = exchange._link
    first.overrun = 3
    exchange.use(NATIVE)
    assert exchange._link is first
    exchange.use(replace(NATIVE, where=("fd00::2", 17470)))
    assert first.is_closed
    assert (exchange.attachment.where[0], exchange.overrun) == ("fd00::2", 3)
