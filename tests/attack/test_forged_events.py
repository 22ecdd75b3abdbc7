"""A publisher sends events under the number and the sequence numbers of another: nobody is deceived or silenced.

Without tags and without a check where events come in, the forged events came first and were taken for the honest ones,
which then were dropped as repetitions: of 100 honest events none arrived.
"""

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager

import pleroma
from pleroma.control import ChangePrincipal, CreatePrincipal, CreateSchema
from pleroma.routing import build
from pleroma.service import BrokerSettings, Deployment, ServiceSettings, running
from pleroma.service.http.forgery.event_keys import EVENT_KEYS_FILE
from pleroma.service.http.tokens import digest
from pleroma.service.planes.broker_plane import BROKER_TOPOLOGY
from pleroma.wire.event_tags import PublisherSeal
from support.broker_parts import here
from support.strategies import STOCK
from support.waiting import run, until

HONEST, FORGED = [float(n) for n in range(100)], 999.0
EVERYTHING = {"*": "true"}
ROLES = {"alice": "publisher", "mallory": "publisher", "bob": "subscriber"}
QUICK = ServiceSettings(requests_per_s=1e6, lease_seconds=1.5, attachment_seconds=3.0)


def quote(price):
    return STOCK.event(price=price, volume=1, ticker="X")


async def people(service):
    await service.controller.submit(CreateSchema(STOCK))
    for name, role in ROLES.items():
        await service.controller.submit(CreatePrincipal(name, role, digest(f"plr_{name}"), EVERYTHING, EVERYTHING))


@asynccontextmanager
async def line(folder, port=0, **more):
    """Three switches in the loop of the test."""
    async with running(folder, build("line:3"), Deployment(port=port, settings=QUICK, **more)) as started:
        if STOCK.name not in started.service.state.schemas:
            await people(started.service)
        yield started


def connect(started, name, host):
    return pleroma.connect(started.url, f"plr_{name}", host)


def send(client, publisher, number, sequence, seal=None, price=FORGED):
    """A packet under any number, from the socket of a client."""
    for address, packet in publisher.channel.datagrams(quote(price), number, sequence, 0, seal):
        assert client._connection.attachment.link().send(address, packet)


async def prices(subscription, count):
    return [(await asyncio.wait_for(subscription.receive(), 10)).event["price"] for _ in range(count)]


def own_seal(publisher):
    *_, seal = publisher._route
    return seal


def test_forged_numbers_are_dropped_where_they_come_in_and_all_honest_events_arrive(tmp_path):
    async def main():
        async with (
            line(tmp_path) as started,
            connect(started, "alice", "h1") as alice,
            connect(started, "mallory", "h2") as mallory,
            connect(started, "bob", "h3") as bob,
        ):
            honest, evil = await alice.advertise("stock"), await mallory.advertise("stock")
            subscription = await bob.subscribe("stock")
            network = started.service.plane.network
            for sequence in range(1, 101):
                send(mallory, evil, honest.number, sequence, own_seal(evil) if sequence % 2 else None)
            await until(lambda: network.hosts["h2"].forged == 100)
            honest.publish_many(map(quote, HONEST))
            evil.publish(quote(500.0))
            assert sorted(await prices(subscription, 101)) == [*HONEST, 500.0]
            assert (subscription.info.duplicates, subscription.info.forged, bob.info["forged"]) == (0, 0, 0)
            assert started.service.plane.forged() == {("h2", "mallory"): 100}

    run(main)


def test_what_gets_into_the_network_is_noticed_by_who_receives_it(tmp_path):
    """Here the entry is not checked, as on switches: only the tags tell."""

    async def main():
        async with (
            line(tmp_path) as started,
            connect(started, "alice", "h1") as alice,
            connect(started, "mallory", "h2") as mallory,
            connect(started, "bob", "h3") as bob,
        ):
            started.service.plane.network._entry = None
            honest, evil = await alice.advertise("stock"), await mallory.advertise("stock")
            subscription = await bob.subscribe("stock")
            for sequence in range(1, 101):
                send(mallory, evil, honest.number, sequence, own_seal(evil) if sequence % 2 else None)
            await until(lambda: bob.info["forged"] == 100)
            honest.publish_many(map(quote, HONEST))
            assert await prices(subscription, 100) == HONEST
            assert (subscription.info.forged, subscription.info.duplicates, subscription.waiting) == (100, 0, 0)
            await bob._connection.registrations.report()
            (shown,) = started.service.forged.shown()
            assert (shown["schema"], shown["events"]) == ("stock", 100)
            assert shown["may_enter_at"] == ["R1 port 1 (h1)", "R2 port 1 (h2)"]

    run(main)


def test_whoever_loses_the_right_to_publish_gets_no_event_in(tmp_path):
    """Also under the number that it had, with the key that it has; and the client is told."""

    async def main():
        async with (
            line(tmp_path) as started,
            connect(started, "alice", "h1") as alice,
            connect(started, "mallory", "h2") as mallory,
            connect(started, "bob", "h3") as bob,
        ):
            honest, evil = await alice.advertise("stock"), await mallory.advertise("stock")
            subscription = await bob.subscribe("stock")
            evil.publish(quote(500.0))
            assert await prices(subscription, 1) == [500.0]
            network = started.service.plane.network
            await started.service.controller.submit(ChangePrincipal("mallory", publish={"*": None}))
            for sequence in range(2, 12):
                send(mallory, evil, evil.number, sequence, own_seal(evil))
                send(mallory, evil, honest.number, sequence, own_seal(evil))
            await until(lambda: network.hosts["h2"].unadvertised + network.hosts["h2"].forged == 20)
            honest.publish(quote(1.0))
            assert await prices(subscription, 1) == [1.0]
            await until(lambda: evil.failure is not None)  # the client has heard of it

    run(main)


def test_a_genuine_packet_that_somebody_repeats_is_a_repetition(tmp_path):
    async def main():
        async with (
            line(tmp_path) as started,
            connect(started, "alice", "h1") as alice,
            connect(started, "mallory", "h2") as mallory,
            connect(started, "bob", "h3") as bob,
        ):
            started.service.plane.network._entry = None
            honest, evil = await alice.advertise("stock"), await mallory.advertise("stock")
            subscription = await bob.subscribe("stock")
            for _ in range(10):
                send(mallory, evil, honest.number, 1, own_seal(honest), price=5.0)
            await until(lambda: subscription.info.duplicates == 9)
            assert await prices(subscription, 1) == [5.0]

    run(main)


def test_without_tags_other_content_under_the_same_number_silences_nobody(tmp_path):
    async def main():
        async with (
            line(tmp_path, event_tags=False) as started,
            connect(started, "alice", "h1") as alice,
            connect(started, "mallory", "h2") as mallory,
            connect(started, "bob", "h3") as bob,
        ):
            started.service.plane.network._entry = None
            honest, evil = await alice.advertise("stock"), await mallory.advertise("stock")
            subscription = await bob.subscribe("stock")
            for sequence in range(1, 101):
                send(mallory, evil, honest.number, sequence)
            await until(lambda: bob.info["packets"] == 100)
            honest.publish_many(map(quote, HONEST))
            assert await prices(subscription, 200) == [FORGED] * 100 + HONEST
            assert not (tmp_path / EVENT_KEYS_FILE).exists()

    run(main)


def test_at_a_broker_forged_events_go_no_further_down_or_up(tmp_path):
    async def main():
        async with here(tmp_path / "above", schemas=[STOCK]) as above:
            joined = BrokerSettings(await above.principal("below"))
            async with running(tmp_path / "below", BROKER_TOPOLOGY, Deployment(port=0, plane=joined)) as below:
                for name, role in ROLES.items():
                    command = CreatePrincipal(name, role, digest(f"plr_{name}"), EVERYTHING, EVERYTHING)
                    await below.service.controller.submit(command)
                async with (
                    connect(below, "alice", "any") as alice,
                    connect(below, "mallory", "any") as mallory,
                    connect(below, "bob", "any") as bob,
                    above.connect() as boss,
                ):
                    honest, evil = await alice.advertise("stock"), await mallory.advertise("stock")
                    readers = [await bob.subscribe("stock"), await boss.subscribe("stock")]
                    broker = below.service.plane.broker
                    for sequence in range(1, 101):
                        send(mallory, evil, honest.number, sequence, own_seal(evil) if sequence % 2 else None)
                        send(alice, honest, honest.number, sequence)  # as if from her address, without her key
                    await until(lambda: broker.counters.forged == 200)
                    honest.publish_many(map(quote, HONEST))
                    for reader in readers:
                        assert await prices(reader, 100) == HONEST
                        assert reader.waiting == reader.info.forged == 0
                    downward = await boss.advertise("stock")
                    downward.publish(quote(7.0))
                    assert await prices(readers[0], 1) == [7.0]
                    assert below.service.plane.forged() == {("broker", "mallory"): 100, ("broker", "alice"): 100}

    run(main)


def test_clients_follow_when_tags_are_switched_on_or_the_keys_change(tmp_path):
    """A controller that is started anew over the same folder: without tags, with tags, with another secret."""

    async def main():
        async with AsyncExitStack() as clients:
            async with line(tmp_path, event_tags=False) as started:
                port = int(started.url.rpartition(":")[2])
                alice, bob = [
                    await clients.enter_async_context(connect(started, name, host))
                    for name, host in (("alice", "h1"), ("bob", "h3"))
                ]
                honest, subscription = await alice.advertise("stock"), await bob.subscribe("stock")
                honest.publish(quote(1.0))
                assert await prices(subscription, 1) == [1.0]
                assert own_seal(honest) is None
            for _ in range(2):
                async with line(tmp_path, port=port) as again:
                    await genuine_events_pass(again, honest, subscription)
                (tmp_path / EVENT_KEYS_FILE).unlink()
            async with line(tmp_path, port=port):  # where the clients withdraw what they registered
                await clients.aclose()

    run(main, 60)


async def genuine_events_pass(started, publisher, subscription):
    key = started.service.keys.of(started.service.schema("stock"), publisher.number)
    probe = quote(3.0)

    def has_key():
        seal = own_seal(publisher)
        return seal is not None and seal.tag(b"probe") == PublisherSeal(bytes.fromhex(key)).tag(b"probe")

    await until(has_key, 20)
    while not subscription.waiting:
        publisher.publish(probe)
        await asyncio.sleep(0.05)
    while subscription.waiting:
        assert (await subscription.receive()).event == probe
