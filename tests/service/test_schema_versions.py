"""A later version of a schema comes while programs publish and subscribe: they go on, and what is new reaches them."""

import asyncio
import random
from contextlib import asynccontextmanager

import pytest

import pleroma
from pleroma.client.session.schema_channel import SchemaChannel
from pleroma.content import Category, Integer, Real, Schema
from pleroma.control import CreatePrincipal, CreateSchema, ExtendSchema
from pleroma.errors import ClientError, DomainError, RequestRefused
from pleroma.routing import build
from pleroma.service import BrokerSettings, Deployment, ServiceSettings, running
from pleroma.service.http.tokens import digest
from pleroma.service.planes.broker_plane import BROKER_TOPOLOGY
from pleroma.wire import Codec
from support.broker_parts import here
from support.waiting import run, until

TOKEN = "plr_the-token-of-the-tests"  # noqa: S105
FIRST = Schema("quotes", (Real("price", False, 0.0, 100.0), Integer("volume", True, 0, 99)))
SECOND = Schema("quotes", (Real("price", False, -50.0, 1000.0), Integer("volume", True, 0, 99)))
THIRD = Schema("quotes", (*SECOND.attributes, Category("market", True, ("lse", "nyse"))))
EMBEDDED = ({}, "h1", "h3")
BROKER = ({"topology": BROKER_TOPOLOGY, "plane": BrokerSettings()}, "any", "any")
NETWORKS = pytest.mark.parametrize(("network", "first", "second"), [EMBEDDED, BROKER], ids=["embedded", "broker"])


@asynccontextmanager
async def service(folder, topology=None, port=0, **more):
    deployment = Deployment(port=port, settings=ServiceSettings(requests_per_s=1e6), **more)
    async with running(folder, topology or build("line:3"), deployment) as started:
        controller = started.service.controller
        if FIRST.name not in started.service.state.schemas:
            await controller.submit(CreateSchema(FIRST))
            await controller.submit(CreatePrincipal("boss", "admin", digest(TOKEN)))
            limited = {"quotes": "price <= 100"}
            await controller.submit(CreatePrincipal("ann", "subscriber", digest("plr_ann"), read=limited))
        yield started


async def extended(client, schema):
    api = client._connected_parts.api
    return (await api.ask("PUT", f"/v1/schemas/{schema.name}", {"schema": schema.to_json()})).body


async def prices(subscription, count):
    return [(await asyncio.wait_for(subscription.receive(), 10)).event["price"] for _ in range(count)]


@NETWORKS
def test_programs_of_the_first_version_go_on_and_nothing_is_lost_or_doubled(tmp_path, network, first, second):
    async def main():
        async with (
            service(tmp_path, **network) as started,
            pleroma.connect(started.url, TOKEN, first) as near,
            pleroma.connect(started.url, TOKEN, second) as far,
        ):
            publisher = await near.advertise("quotes")
            everything = await far.subscribe("quotes", queue=100_000)
            dear = await far.subscribe("quotes", "price > 90", queue=100_000)
            ids, numbers = (everything.id, dear.id), []
            chance = random.Random(3)

            async def publishing():
                while True:
                    price = round(chance.uniform(0, 100), 3)
                    numbers.append((publisher.publish(FIRST.event(price=price)), price))
                    await asyncio.sleep(0.001)

            task = asyncio.create_task(publishing())
            for schema in (SECOND, THIRD):
                before = len(numbers)
                await until(lambda before=before: len(numbers) > before + 30)
                assert (await extended(near, schema))["withdrawn"] == []
                await until(lambda schema=schema: publisher.schema == schema)
            await asyncio.sleep(0.1)
            task.cancel()
            got = [await asyncio.wait_for(everything.receive(), 10) for _ in numbers]
            assert [(each.sequence, each.event["price"]) for each in got] == numbers
            assert everything.info.duplicates == everything.info.missed == 0
            assert far.info["malformed"] == 0
            assert (everything.id, dear.id) == ids
            assert set(started.service.state.registrations) >= set(ids)

            publisher.publish({"price": 500.0, "market": "nyse"})
            publisher.publish({"price": -20.0})
            new = [(await asyncio.wait_for(everything.receive(), 10)).event for _ in range(2)]
            assert [dict(each) for each in new] == [{"price": 500.0, "market": "nyse"}, {"price": -20.0}]
            expected = [price for _, price in numbers if price > 90] + [500.0]
            assert await prices(dear, len(expected)) == expected
            await dear.update("market = 'lse'")
            publisher.publish({"price": 1.0, "market": "lse"})
            assert await prices(dear, 1) == [1.0]

    run(main, 60)


@NETWORKS
def test_who_has_not_heard_of_it_reads_its_events_a_moment_later(tmp_path, network, first, second, monkeypatch):
    async def main():
        async with (
            service(tmp_path, **network) as started,
            pleroma.connect(started.url, TOKEN, first) as near,
            pleroma.connect(started.url, TOKEN, second) as far,
        ):
            publisher = await near.advertise("quotes")
            subscription = await far.subscribe("quotes")
            follower = far._connected_parts.registrations.plans
            read, deaf = follower.read, asyncio.Event()

            async def later(*given):
                await deaf.wait()
                return await read(*given)

            monkeypatch.setattr(follower, "read", later)
            await extended(near, THIRD)
            await until(lambda: publisher.schema == THIRD)
            publisher.publish({"price": 7.0})
            assert await prices(subscription, 1) == [7.0]  # the first version has room for it
            publisher.publish({"price": 700.0})
            await until(lambda: far.info["malformed"] == 1)
            deaf.set()
            assert await prices(subscription, 1) == [700.0]
            assert (far.info["malformed"], far.info["packets"]) == (0, 2)

    run(main, 60)


def test_a_receiver_that_knows_the_first_version_alone_reads_whatever_that_can_have(tmp_path):
    """As one in another language may, which reads the schema once."""

    async def main():
        async with service(tmp_path) as started, pleroma.connect(started.url, TOKEN, "h1") as client:
            channel = SchemaChannel.from_json(
                (await client._connected_parts.api.ask("GET", "/v1/schemas/quotes/plan")).body
            )
            alone = Codec(channel.schema, channel.number)
            await extended(client, THIRD)
            publisher = await client.advertise("quotes")
            later = publisher.channel
            assert later.earlier == (FIRST,)
            event = THIRD.event(price=5.0, volume=3)
            for made in (event, FIRST.event(price=5.0, volume=3)):
                ((address, packet),) = later.datagrams(made, 1, 1, 1)
                assert alone.decode(packet).event == FIRST.event(price=5.0, volume=3)
                assert address == channel.datagrams(FIRST.event(price=5.0, volume=3), 1, 1, 1)[0][0]

    run(main)


def test_versions_survive_a_restart_and_returning_clients_follow(tmp_path):
    async def main():
        async with service(tmp_path) as started:
            port = int(started.url.rpartition(":")[2])
            near = await pleroma.connect(started.url, TOKEN, "h1").__aenter__()
            far = await pleroma.connect(started.url, TOKEN, "h3").__aenter__()
            publisher = await near.advertise("quotes")
            subscription = await far.subscribe("quotes", "price > 90")
            ids = publisher.id, subscription.id
        await until(lambda: not near.is_connected and not far.is_connected)
        async with service(tmp_path, port=port) as again:
            await again.service.controller.submit(ExtendSchema(SECOND))
            await near.connected()
            await far.connected()
            await until(lambda: publisher.schema == SECOND)
            publisher.publish({"price": 300.0})
            assert await prices(subscription, 1) == [300.0]
            assert (publisher.id, subscription.id) == ids
            await near.close()
            await far.close()
        async with service(tmp_path) as last:
            assert last.service.state.schemas["quotes"].versions == (FIRST, SECOND)

    run(main, 60)


def test_a_program_may_ask_for_its_own_version_and_for_no_other(tmp_path):
    async def main():
        async with service(tmp_path) as started, pleroma.connect(started.url, TOKEN, "h1") as client:
            await client.create_schema(FIRST)
            publisher = await client.advertise("quotes")
            with pytest.raises(DomainError):
                publisher.publish({"price": 500.0})
            await extended(client, SECOND)
            for schema in (FIRST, SECOND):
                await client.create_schema(schema)
            with pytest.raises(ClientError, match="market is only here"):
                await client.create_schema(THIRD)
            assert await client.schema("quotes") == SECOND

    run(main)


def test_what_the_api_says_of_versions_and_refuses(tmp_path):
    async def main():
        async with (
            service(tmp_path) as started,
            pleroma.connect(started.url, TOKEN, "h1") as client,
            pleroma.connect(started.url, "plr_ann", "h3") as ann,
        ):
            api = client._connected_parts.api
            assert (await api.ask("GET", "/v1/schemas/quotes")).body["version"] == 1
            subscription = await ann.subscribe("quotes", "volume = 1")
            with pytest.raises(RequestRefused) as refused:
                await extended(client, SECOND)
            assert (refused.value.status, refused.value.allowed) == (403, "price <= 100")
            assert f"{subscription.id} of ann would be more than its right" in refused.value.reason
            await subscription.close()
            with pytest.raises(RequestRefused) as refused:
                await extended(ann, SECOND)
            assert refused.value.status == 403
            assert await extended(client, SECOND) == {"schema": "quotes", "version": 2, "epoch": 2, "withdrawn": []}
            assert (await extended(client, SECOND))["epoch"] == 2
            for wrong, status, why in (
                (FIRST, 400, "is version 1, and version 2 is in force"),
                (Schema("quotes", SECOND.attributes[:1]), 400, "volume has to stay where it is"),
                (Schema("nothing", SECOND.attributes), 404, "unknown schema"),
            ):
                with pytest.raises(RequestRefused) as refused:
                    await extended(client, wrong)
                assert refused.value.status == status
                assert why in refused.value.reason
            assert (await api.ask("GET", "/v1/schemas/quotes")).body["version"] == 2

    run(main)


def test_brokers_below_learn_a_version_from_the_broker_above(tmp_path):
    first = Schema("ticks", (Integer("n", False, 0, 9),))
    second = Schema("ticks", (Integer("n", False, 0, 99), Integer("m", True, 0, 9)))

    async def main():
        async with here(tmp_path / "above") as above, here(tmp_path / "below", await above.principal("below")) as below:
            await above.running.service.controller.submit(CreateSchema(first))
            await until(lambda: "ticks" in below.running.service.state.schemas)
            async with below.connect() as low, above.connect() as high:
                down, up = await low.subscribe("ticks"), await high.subscribe("ticks")
                from_high, from_low = await high.advertise("ticks"), await low.advertise("ticks")
                await above.running.service.controller.submit(ExtendSchema(second))
                await until(lambda: from_high.schema == from_low.schema == second)
                from_high.publish({"n": 50, "m": 1})
                from_low.publish({"n": 60})
                for subscription in (down, up):
                    got = {(await asyncio.wait_for(subscription.receive(), 10)).event["n"] for _ in range(2)}
                    assert got == {50, 60}

    run(main, 60)
