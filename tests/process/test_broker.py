"""Clients of brokers, alone and chained: the same calls as on a network, and the same exactness."""

import asyncio
import os
import random
import socket
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest

import pleroma
from pleroma.broker import upstream
from pleroma.broker.upstream import BrokerAbove
from pleroma.control import CreatePrincipal, CreateSchema, RotateToken
from pleroma.errors import ClientError, OutsideAdvertisement, RequestRefused
from pleroma.routing import build
from pleroma.service import Deployment, running
from pleroma.service.http.tokens import digest
from pleroma.service.listening import bind_tcp_and_udp
from pleroma.wire.datagram_socket import DatagramSocket
from support.broker_parts import here, some_event, some_filter
from support.service.process import ServiceProcess
from support.strategies import STOCK
from support.waiting import until

LONG = os.environ.get("PLEROMA_LONG") == "1"
QUIET = 0.3
"""Seconds after which nothing more is expected."""


def run(work, seconds=60.0):
    async def limited():
        async with asyncio.timeout(seconds):
            await work

    asyncio.run(limited())


def quote(price):
    return STOCK.event(price=price, volume=0, ticker="AAPL")


def taken(subscription):
    """The events that wait, with their payloads."""
    packets = [subscription.listener.inbox.take() for _ in range(subscription.waiting)]
    return [(packet.event, packet.payload) for packet in packets]


async def exchange(clients, chance, subscriptions, publications):
    """Random subscriptions, advertisements and events at random clients; everyone gets exactly what matches, once."""
    wanted = [await chance.choice(clients).subscribe("stock", some_filter(chance)) for _ in range(subscriptions)]
    sources = [await client.advertise("stock", some_filter(chance)) for client in clients]
    expected = [Counter() for _ in wanted]
    for number in range(publications):
        source, event, payload = chance.choice(sources), some_event(chance), chance.randbytes(chance.choice([0, 900]))
        try:
            source.publish(event, payload)
        except OutsideAdvertisement:
            continue
        for each, subscription in zip(expected, wanted, strict=True):
            each[event, payload] += subscription.filter.matches(event)
        if number % 50 == 49:
            await asyncio.sleep(0.05)  # buffers are not what is tested
    for each, subscription in zip(expected, wanted, strict=True):
        total = each.total()
        await until(lambda total=total, info=subscription.info: info.delivered >= total, 20)
    await asyncio.sleep(QUIET)
    for each, subscription in zip(expected, wanted, strict=True):
        assert Counter(taken(subscription)) == +each
        assert (subscription.info.wasted, subscription.info.duplicates, subscription.info.dropped) == (0, 0, 0)
    assert sum(map(Counter.total, expected)) > publications  # or nothing was tested
    await asyncio.gather(*(each.close() for each in (*wanted, *sources)))


@pytest.mark.parametrize("scheme", ["http", "udp"])
def test_every_subscription_gets_exactly_what_it_wants(tmp_path, scheme):
    async def work():
        async with here(tmp_path, schemas=[STOCK]) as broker, AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(broker.connect(scheme)) for _ in range(4)]
            await exchange(clients, random.Random(scheme), 16, 300)
            assert all(client.info["stray"] == client.info["unknown"] == 0 for client in clients)
            assert not broker.controller.state.registrations

    run(work())


def test_a_program_gets_no_packet_that_it_does_not_want(tmp_path):
    async def work():
        async with (
            here(tmp_path, schemas=[STOCK]) as broker,
            broker.connect() as sender,
            broker.connect() as one,
            broker.connect() as other,
        ):
            narrow = await one.subscribe("stock", "price < 10")
            await one.subscribe("stock", "price < 5")
            await other.subscribe("stock", "price >= 999")
            publisher = await sender.advertise("stock")
            for price in range(100):
                publisher.publish(quote(float(price)))
            await until(lambda: narrow.info.delivered == 10)
            await asyncio.sleep(QUIET)
            assert (sender.info["packets"], one.info["packets"], other.info["packets"]) == (0, 10, 0)

    run(work())


def test_a_program_gets_its_own_events_too(tmp_path):
    async def work():
        async with here(tmp_path, schemas=[STOCK]) as broker, broker.connect() as client:
            subscription, publisher = await client.subscribe("stock", "price < 10"), await client.advertise("stock")
            for price in (5.0, 50.0, 9.0):
                publisher.publish(quote(price))
            assert [(await subscription.receive()).event["price"] for _ in range(2)] == [5.0, 9.0]

    run(work())


@pytest.mark.parametrize(("listens", "reached"), [("::1", "[::1]"), ("0.0.0.0", "localhost"), ("::", "127.0.0.1")])  # noqa: S104
def test_a_broker_is_reached_under_any_address_that_it_has(tmp_path, listens, reached):
    if ":" in listens and not has_ipv6():
        pytest.skip("this machine has no IPv6")

    async def work():
        async with here(tmp_path, host=listens, schemas=[STOCK]) as broker:
            url = f"udp://{reached}:{broker.plane.broker.address[1]}"
            async with (
                pleroma.connect(url, broker.token, principal="admin") as one,
                pleroma.connect(url.replace("udp", "http"), broker.token) as other,
            ):
                subscription = await one.subscribe("stock", "price < 10")
                (await other.advertise("stock")).publish(quote(5.0))
                assert (await subscription.receive()).event == quote(5.0)

    run(work())


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as tried:
            tried.bind(("::1", 0))
    except OSError:
        return False
    return True


def test_rights_are_the_same_over_udp(tmp_path):
    async def work():
        async with here(tmp_path, schemas=[STOCK]) as broker:
            rights = {"read": {"stock": "price < 100"}}
            await broker.controller.submit(CreatePrincipal("reader", "subscriber", digest("plr_r"), **rights))
            async with pleroma.connect(broker.udp, "plr_r", principal="reader") as client:
                for attempt in (client.subscribe("stock"), client.advertise("stock", "price < 10")):
                    with pytest.raises(RequestRefused) as refused:
                        await attempt
                    assert refused.value.status == 403
                await client.subscribe("stock", "price < 50")

    run(work())


def test_a_token_that_is_replaced_ends_the_sessions_and_programs_of_a_broker(tmp_path):
    """What it had opened by UDP and over HTTP goes, and events no longer come to it."""

    async def work():
        async with here(tmp_path, schemas=[STOCK]) as broker:
            await broker.principal("reader")
            programs, sessions = broker.plane.broker.programs.sessions, broker.plane.requests.sessions
            async with (
                broker.connect() as publisher,
                pleroma.connect(broker.udp, "plr_reader", principal="reader") as one,
                pleroma.connect(broker.running.url, "plr_reader") as other,
            ):
                subscriptions = [await each.subscribe("stock") for each in (one, other)]
                advertised = await publisher.advertise("stock")
                advertised.publish(quote(5.0))
                for each in subscriptions:
                    assert (await each.receive()).event == quote(5.0)
                assert len(programs) == 3
                await broker.controller.submit(RotateToken("reader", digest("plr_new")))
                assert len(programs) == 1
                assert {each.principal for each in sessions} == {"admin"}
                delivered = broker.counters.delivered
                advertised.publish(quote(6.0))
                async with pleroma.connect(broker.udp, "plr_new", principal="reader") as again:
                    late = await again.subscribe("stock")
                    advertised.publish(quote(7.0))
                    assert (await late.receive()).event == quote(7.0)
                assert broker.counters.delivered == delivered + 1

    run(work())


@pytest.mark.parametrize("url", ["udp://", "udp://host", "udp://host:0", "udp://host:1/path", "udp://host:99999"])
def test_an_address_that_is_none_is_one_clear_error(url):
    async def work():
        with pytest.raises(ClientError, match="no address of a broker"):
            async with pleroma.connect(url, "plr_token", principal="admin"):
                pass

    run(work())


# -- chains ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20) if LONG else [1])
def test_a_tree_of_brokers_behaves_as_one(tmp_path, seed):
    """A chain of three, and a fourth beside the last."""

    async def work():
        async with (
            here(tmp_path / "root", schemas=[STOCK]) as root,
            here(tmp_path / "middle", await root.principal("middle")) as middle,
            here(tmp_path / "leaf", await middle.principal("leaf")) as leaf,
            here(tmp_path / "beside", await middle.principal("beside")) as beside,
            AsyncExitStack() as stack,
        ):
            brokers = [root, middle, leaf, beside]
            clients = [await stack.enter_async_context(each.connect()) for each in brokers * 2]
            await exchange(clients, random.Random(seed), 24, 300)
            assert [each.counters.unadvertised + each.counters.kept_back for each in brokers] == [0] * 4
            for each in brokers[:2]:
                assert not each.controller.state.registrations

    run(work())


def test_only_the_outermost_filters_are_asked_for_above(tmp_path):
    async def work():
        async with (
            here(tmp_path / "root", schemas=[STOCK]) as root,
            here(tmp_path / "leaf", await root.principal("leaf")) as leaf,
            root.connect() as above,
            leaf.connect() as below,
        ):

            def asked():
                return sorted(str(each.filter) for each in root.controller.state.registrations.values())

            wide = await below.subscribe("stock", "price < 100")
            inner = [await below.subscribe("stock", f"price < {each}") for each in (50, 10)]
            other = await below.subscribe("stock", "volume >= 5")
            assert asked() == ["price < 100", "volume >= 5"]
            await wide.close()
            assert asked() == ["price < 50", "volume >= 5"]
            publisher = await above.advertise("stock")
            publisher.publish(quote(20.0))
            publisher.publish(quote(5.0))
            assert [(await inner[0].receive()).event, (await inner[0].receive()).event] == [quote(20.0), quote(5.0)]
            assert (await inner[1].receive()).event == quote(5.0)
            assert leaf.counters.relayed == 2
            wide = await below.subscribe("stock")
            await other.close()
            assert asked() == ["true", "true"]  # the publisher's, and this one

    run(work())


def test_a_broker_starts_without_the_one_above_and_joins_it_later(tmp_path, monkeypatch):
    monkeypatch.setattr(upstream, "FIRST_JOIN_SECONDS", 0.2)

    async def work():
        async with here(tmp_path / "root", schemas=[STOCK]) as root:
            above = await root.principal("leaf")
        kept = bind_tcp_and_udp("127.0.0.1", 0)  # where nobody answers, until it is needed
        port = kept[0].getsockname()[1]
        above = replace(above, url=f"udp://127.0.0.1:{port}")
        async with here(tmp_path / "leaf", above, schemas=[STOCK]) as leaf, leaf.connect() as client:
            subscription = await client.subscribe("stock", "price < 10")
            other = await client.advertise("stock")
            other.publish(quote(3.0))
            assert (await subscription.receive()).event == quote(3.0)
            assert leaf.plane.condition()["above"]["connected"] is False
            for each in kept:
                each.close()
            async with here(tmp_path / "root", port=port) as root, root.connect() as far:
                await until(lambda: leaf.plane.condition()["above"]["subscriptions"] == 1, 40)
                (await far.advertise("stock")).publish(quote(4.0))
                assert (await subscription.receive()).event == quote(4.0)

    run(work(), 90)


def test_a_broker_can_be_joined_to_a_network_of_switches(tmp_path):
    async def work():
        async with running(tmp_path / "network", build("line:2"), Deployment(port=0)) as network:
            await network.service.controller.submit(CreateSchema(STOCK))
            above = BrokerAbove(network.url, network.token)
            async with (
                here(tmp_path / "leaf", above) as leaf,
                leaf.connect() as below,
                pleroma.connect(network.url, network.token, "h2") as far,
            ):
                narrow, wide = await below.subscribe("stock", "price < 10"), await far.subscribe("stock", "price < 20")
                publishers = await far.advertise("stock"), await below.advertise("stock")
                for number, publisher in enumerate(publishers):
                    for price in (5.0, 15.0, 25.0):
                        publisher.publish(quote(price + number))
                assert {(await narrow.receive()).event["price"] for _ in range(2)} == {5.0, 6.0}
                assert sorted([(await wide.receive()).event["price"] for _ in range(4)]) == [5.0, 6.0, 15.0, 16.0]

    run(work())


def test_encrypted_events_pass_a_broker_and_a_network_with_the_keys_of_each(tmp_path, monkeypatch):
    sent = []
    send = DatagramSocket.send
    monkeypatch.setattr(DatagramSocket, "send", lambda self, data, *to: sent.append(data) or send(self, data, *to))

    async def work():
        async with running(tmp_path / "network", build("line:2"), Deployment(port=0)) as network:
            await network.service.controller.submit(CreateSchema(replace(STOCK, encrypted=True)))
            async with (
                here(tmp_path / "leaf", BrokerAbove(network.url, network.token)) as leaf,
                leaf.connect() as below,
                leaf.connect() as beside,
                pleroma.connect(network.url, network.token, "h2") as far,
            ):
                subscriptions = [await each.subscribe("stock", "price < 10") for each in (below, beside, far)]
                publishers = await far.advertise("stock"), await below.advertise("stock")
                for number, publisher in enumerate(publishers):
                    quote = {"price": 5.0 + number, "volume": 0, "ticker": "SECRET"}
                    publisher.publish(quote, payload=b"a letter")
                for each in subscriptions:
                    got = [await each.receive() for _ in range(2)]
                    assert {(p.event["price"], p.event["ticker"], p.payload) for p in got} == {
                        (5.0, "SECRET", b"a letter"),
                        (6.0, "SECRET", b"a letter"),
                    }
        assert len(sent) > 4
        assert not [data for data in sent if b"SECRET" in data or b"a letter" in data]

    run(work())


def test_a_schema_that_the_broker_above_lacks_or_has_otherwise_stays_here(tmp_path):
    async def work():
        async with (
            here(tmp_path / "root") as root,
            here(tmp_path / "leaf", await root.principal("leaf"), schemas=[STOCK]) as leaf,
            leaf.connect() as one,
            leaf.connect() as other,
        ):
            subscription, publisher = await one.subscribe("stock"), await other.advertise("stock")
            publisher.publish(quote(3.0))
            assert (await subscription.receive()).event == quote(3.0)
            assert "stock" in leaf.plane.condition()["above"]["failure"]
            assert leaf.counters.kept_back == 1

    run(work())


def test_a_broker_in_the_middle_may_be_killed(tmp_path):
    async def joined(publishers, subscriptions):
        """Publish at each until all have it: from then on nothing is lost."""
        for number, publisher in enumerate(publishers):
            lacking = list(subscriptions)
            while lacking:
                publisher.publish(quote(900.0 + number))
                await asyncio.sleep(0.05)
                lacking = [each for each in lacking if (quote(900.0 + number), b"") not in taken(each)]

    async def work(broker, root, leaf):
        async with (
            root.connect() as top,
            pleroma.connect(broker.udp, broker.token, principal="admin") as centre,
            leaf.connect() as bottom,
        ):
            clients = [top, centre, bottom]
            subscriptions = [await client.subscribe("stock", "price >= 900") for client in clients]
            publishers = [await client.advertise("stock") for client in clients]
            await joined(publishers, subscriptions)
            await asyncio.to_thread(broker.kill)
            local = await bottom.subscribe("stock", "price < 1")
            publishers[2].publish(quote(0.5))
            assert (await local.receive()).event == quote(0.5)  # the leaf goes on alone
            await asyncio.to_thread(broker.start)
            await joined(publishers, subscriptions)
            await asyncio.sleep(QUIET)
            for each in subscriptions:
                taken(each)
            for number in range(60):
                publishers[number % 3].publish(quote(901.0 + number))
            for each in subscriptions:
                got = [(await each.receive()).event["price"] for _ in range(60)]
                assert sorted(got) == [901.0 + number for number in range(60)]
            await asyncio.sleep(QUIET)
            assert [each.waiting for each in subscriptions] == [0, 0, 0]

    async def world():
        async with here(tmp_path / "root", schemas=[STOCK], attachment_seconds=3.0) as root:
            above = await root.principal("middle")
            broker = ServiceProcess(
                tmp_path / "middle", broker=(above.url, above.token, above.principal), attachment_seconds=3.0
            )
            await asyncio.to_thread(broker.start)
            try:
                token = await asyncio.to_thread(
                    broker.principal, "leaf", role="both", publish={"*": "true"}, read={"*": "true"}
                )
                below = type(above)(broker.udp, token, "leaf")
                async with here(tmp_path / "leaf", below, attachment_seconds=3.0) as leaf:
                    await work(broker, root, leaf)
            finally:
                await asyncio.to_thread(broker.kill)

    run(world(), 120)
