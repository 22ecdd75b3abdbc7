"""Clients of a real service in another process: what is published arrives where it is wanted, once, nowhere else."""

import asyncio
import os
import random
import socket
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from ipaddress import IPv6Address
from pathlib import Path

import pytest

import pleroma
from pleroma.client import blocking
from pleroma.content import Filter, Integer, Real, Schema, Text
from pleroma.errors import (
    ClientClosed,
    ClientError,
    ControllerAway,
    FilterSyntax,
    OutsideAdvertisement,
    RequestRefused,
    UnknownName,
)
from pleroma.index import IPV6, GridIndex
from pleroma.wire.attach import AttachKind, pack
from pleroma.wire.tunnel import wrap
from support.service.process import ServiceProcess
from support.strategies import STOCK
from support.waiting import until, until_registered

ROOT = Path(__file__).parents[2]
LONG = os.environ.get("PLEROMA_LONG") == "1"
QUIET = 0.3
"""Seconds after which nothing more is expected."""

WEATHER = Schema(
    "weather", (Text("station", False), Real("temperature", True, -60.0, 60.0), Integer("humidity", False, 0, 100))
)


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with ServiceProcess(tmp_path_factory.mktemp("service")) as started:
        for schema in (STOCK, WEATHER):
            started.ask("POST", "/v1/schemas", {"schema": schema.to_json()})
        yield started


def run(work, seconds=40.0):
    async def limited():
        async with asyncio.timeout(seconds):
            await work

    asyncio.run(limited())


def quote(price, volume=0, ticker="AAPL", **more):
    return STOCK.event(price=price, volume=volume, ticker=ticker, **more)


@asynccontextmanager
async def connected(service, hosts):
    async with AsyncExitStack() as stack:
        clients = (pleroma.connect(service.url, service.token, host) for host in hosts)
        yield [await stack.enter_async_context(client) for client in clients]


async def drained(subscription, count, seconds=10.0):
    """The packets of a subscription: as many as expected, and whatever comes too much."""
    await until(lambda: subscription.info.delivered >= count, seconds)
    await asyncio.sleep(QUIET)
    return [subscription.listener.inbox.take() for _ in range(subscription.waiting)]


# -- delivery --------------------------------------------------------------------------------------------------------


def some_filter(chance, schema):
    def term():
        if schema is STOCK:
            return chance.choice(
                [
                    f"price < {chance.randrange(1, 1000)}",
                    f"price between {(low := chance.randrange(900))} and {low + chance.randrange(1, 100)}",
                    f"volume >= {chance.randrange(1000)}",
                    f"ticker == '{chance.choice(TICKERS)}'",
                    f"ticker startswith '{chance.choice('AIG')}'",
                    "exists market",
                    "market in ('xetra', 'nyse')",
                ]
            )
        return chance.choice(
            [
                f"temperature > {chance.randrange(-60, 60)}",
                "not exists temperature",
                f"humidity <= {chance.randrange(100)}",
                f"station != '{chance.choice(TICKERS)}'",
            ]
        )

    text = " and ".join(term() for _ in range(chance.randint(1, 2)))
    text = f"({text}) or ({term()})" if chance.random() < 0.3 else text
    return text if Filter.parse(schema, text) else some_filter(chance, schema)


TICKERS = ("AAPL", "IBM", "GOOG", "MSFT", "A")


def some_event(chance, schema):
    if schema is STOCK:
        market = chance.choice([None, "xetra", "lse", "nyse", "nasdaq"])
        return quote(chance.uniform(0, 1000), chance.randrange(1024), chance.choice(TICKERS), market=market)
    temperature = chance.choice([None, chance.uniform(-60, 60)])
    return WEATHER.event(station=chance.choice(TICKERS), temperature=temperature, humidity=chance.randrange(101))


@pytest.mark.parametrize("seed", range(20) if LONG else [1])
def test_every_subscription_gets_exactly_what_it_wants(service, seed):
    chance = random.Random(seed)

    async def work():
        async with connected(service, ["h1", "h1", "h4", "any", "any", "h8"]) as clients:
            publishers = [
                (schema, await client.advertise(schema.name, text))
                for client, schema, text in [
                    (clients[0], STOCK, "true"),
                    (clients[1], STOCK, "price < 600"),
                    (clients[2], WEATHER, "true"),
                    (clients[3], STOCK, "exists market"),
                    (clients[3], WEATHER, "humidity < 50"),
                ]
            ]
            subscriptions = [
                await client.subscribe(schema.name, some_filter(chance, schema))
                for client in clients
                for schema in (STOCK, WEATHER, STOCK)
            ]
            expected, sent = defaultdict(Counter), 0
            for _ in range(300):
                schema, publisher = chance.choice(publishers)
                event = some_event(chance, schema)
                if not publisher.advertised.matches(event):
                    with pytest.raises(OutsideAdvertisement):
                        publisher.publish(event)
                    continue
                payload = chance.choice([b"", b"\0", chance.randbytes(1000)])
                number = publisher.publish(event, payload)
                sent += 1
                for each in subscriptions:
                    if each.registration.schema == schema.name and each.filter.matches(event):
                        expected[each][publisher.number, number, event, payload] += 1
            assert sent > 150
            assert sum(map(len, expected.values())) > 300
            await until(lambda: all(each.info.delivered >= len(expected[each]) for each in subscriptions))
            await asyncio.sleep(QUIET)
            for each in subscriptions:
                got = [each.listener.inbox.take() for _ in range(each.waiting)]
                found = Counter((p.publisher, p.sequence, p.event, p.payload) for p in got)
                assert found == expected[each], str(each.filter)
                assert each.info.dropped == 0

    run(work())


def test_events_arrive_in_order_with_what_the_packet_says(service):
    async def work():
        async with connected(service, ["h2", "h7"]) as (near, far):
            assert (near.host, far.host) == ("h2", "h7")
            publisher = await near.advertise("stock")
            subscription = await far.subscribe("stock", "price >= 0")
            before = time.time_ns()
            publisher.publish_many(quote(float(n)) for n in range(100))
            got = [await subscription.receive() for _ in range(100)]
            assert [p.sequence for p in got] == list(range(1, 101))
            assert [p.event["price"] for p in got] == [float(n) for n in range(100)]
            assert {p.publisher for p in got} == {publisher.number}
            assert all(before <= p.time <= time.time_ns() for p in got)
            # another filter, and calls with each event, while events come all the time
            called = []
            everything = await far.subscribe("stock", on_event=called.append)
            updating = asyncio.create_task(subscription.update("price >= 50"))
            while not updating.done():
                publisher.publish(quote(500.0))
                await asyncio.sleep(0.001)
            await updating
            publisher.publish_many([quote(10.0), quote(60.0), quote(70.0)])
            last = publisher.info.published
            got = []
            while not got or got[-1] != last:
                got.append((await subscription.receive()).sequence)
            assert got == [*range(101, last - 2), last - 1, last]
            await until(lambda: called and called[-1]["price"] == 70.0)
            assert everything.info.missed == 0

    run(work())


def test_a_client_gets_its_own_events_once(service):
    async def work():
        async with connected(service, ["h3"]) as (client,):
            publisher = await client.advertise("stock", "price < 100")
            subscription = await client.subscribe("stock", "price < 50")
            for price in (10.0, 49.0, 51.0):
                publisher.publish(quote(price))
            assert [p.event["price"] for p in await drained(subscription, 2)] == [10.0, 49.0]
            assert (subscription.info.wasted, client.info["packets"]) == (0, 0)

    run(work())


def test_waste_is_filtered_counted_and_reported(service):
    async def work():
        async with connected(service, ["h1", "h5"]) as (near, far):
            publisher = await near.advertise("stock")
            subscription = await far.subscribe("stock", "price between 100.5 and 100.6")
            for n in range(200):
                publisher.publish(quote(100.0 + n / 200))
            assert {p.event["price"] for p in await drained(subscription, 21)} == {100.5 + n / 200 for n in range(21)}
            assert subscription.info.wasted > 0
            assert subscription.info.wasted + 21 == far.info["packets"]
            before = service.ask("GET", "/v1/statistics")
            await far._connection.registrations.report()
            await near._connection.registrations.report()
            await far._connection.registrations.report()  # nothing new
            after = service.ask("GET", "/v1/statistics")
            assert after["by_subscription"][subscription.id]["wasted"] == subscription.info.wasted
            assert after["by_subscription"][subscription.id]["delivered"] == 21
            assert after["reported"]["published"] == before["reported"]["published"] + 200

    run(work())


# -- ending ----------------------------------------------------------------------------------------------------------


def test_leaving_unsubscribes_and_withdraws(service):
    async def work():
        assert service.registered() == []
        async with connected(service, ["h1", "h2"]) as (one, two):
            publisher = await one.advertise("stock")
            async with await two.subscribe("stock") as inner:
                outer = await two.subscribe("stock", "price < 5")
                assert set(service.registered()) == {publisher.id, inner.id, outer.id}
                publisher.publish(quote(7.0))
                await until(lambda: inner.waiting == 1)
            assert set(service.registered()) == {publisher.id, outer.id}
            # what had been received can still be taken, and then it ends
            assert [event["price"] async for event in inner] == [7.0]
            with pytest.raises(ClientClosed):
                await inner.receive()
            publisher.publish(quote(1.0))
            await until(lambda: outer.waiting == 1)
            assert inner.waiting == 0
            await publisher.close()
            await publisher.close()
            with pytest.raises(ClientClosed):
                publisher.publish(quote(1.0))
            assert service.registered() == [outer.id]
        assert service.registered() == []
        assert [event["price"] async for event in outer] == [1.0]
        assert all(switch["rules"] == 0 for switch in service.ask("GET", "/v1/switches")["items"])
        with pytest.raises(ClientError):
            await two.subscribe("stock")

    run(work())


def test_leaving_by_an_error_unsubscribes_too(service):
    async def work():
        async def fail():
            async with pleroma.connect(service.url, service.token) as client:
                await client.subscribe("stock")
                await client.advertise("stock")
                assert len(service.registered()) == 2
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await fail()
        assert service.registered() == []

    run(work())


def test_a_waiting_reader_ends_when_the_client_does(service):
    async def work():
        async with pleroma.connect(service.url, service.token) as client:
            subscription = await client.subscribe("stock")

            async def read():
                return [event async for event in subscription]

            reader = asyncio.create_task(read())
            await asyncio.sleep(0.05)
        assert await reader == []

    run(work())


def test_a_call_that_is_cancelled_leaves_nothing_behind(service):
    async def work():
        async with connected(service, ["h1"]) as (client,):
            for step in range(20):
                call = asyncio.create_task(client.subscribe("stock", f"price < {step + 1}"))
                await asyncio.sleep(step * 0.001)
                call.cancel()
                with suppress(asyncio.CancelledError):
                    await (await call).close()
            await until_registered(service, list)
            subscription, publisher = await client.subscribe("stock"), await client.advertise("stock")
            publisher.publish(quote(5.0))
            assert len(await drained(subscription, 1)) == 1

    run(work())


def test_many_clients_at_once(service):
    count = 300 if LONG else 40

    async def one(number):
        async with pleroma.connect(service.url, service.token, patience=30) as client:
            publisher = await client.advertise("weather", f"humidity == {number % 100}")
            subscription = await client.subscribe("weather", f"humidity == {number % 100}")
            publisher.publish({"station": str(number), "humidity": number % 100})
            async for event in subscription:
                if event["station"] == str(number):
                    break
            return client.info["malformed"]

    async def work():
        assert await asyncio.gather(*map(one, range(count))) == [0] * count
        await until_registered(service, list)

    run(work(), 60)


# -- refusals --------------------------------------------------------------------------------------------------------


def test_errors_are_clear_and_change_nothing(service):
    async def work():
        async with pleroma.connect(service.url, service.token) as client:
            with pytest.raises(FilterSyntax, match="at 8"):
                await client.subscribe("stock", "price <")
            with pytest.raises(UnknownName, match="price"):
                await client.advertise("stock", "prize < 5")
            with pytest.raises(RequestRefused, match="did you mean 'stock'") as refused:
                await client.subscribe("stok")
            assert (refused.value.status, refused.value.field) == (404, "schema")
            with pytest.raises(ClientError, match="another schema"):
                await client.subscribe("stock", Filter.everything(WEATHER))
            with pytest.raises(ClientError, match="queue"):
                await client.subscribe("stock", queue=0)
            publisher = await client.advertise("stock", "price < 100")
            with pytest.raises(OutsideAdvertisement, match=r"price=100.5.* outside what was advertised: price < 100"):
                publisher.publish(quote(100.5))
            assert service.registered() == [publisher.id]
        with pytest.raises(RequestRefused) as refused:
            async with pleroma.connect(service.url, "wrong"):
                pass
        assert refused.value.status == 401
        assert "wrong" not in str(refused.value)
        with pytest.raises(RequestRefused, match="h99"):
            async with pleroma.connect(service.url, service.token, "h99"):
                pass
        for url in ("ftp://x", "nonsense", "http://"):
            with pytest.raises(ClientError, match="address of a controller"):
                async with pleroma.connect(url):
                    pass

    run(work())


def test_nobody_there_is_said_within_the_patience_given():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"

        async def work():
            begun = time.monotonic()
            with pytest.raises(ControllerAway, match=url):
                async with pleroma.connect(url, patience=0.5):
                    pass
            assert time.monotonic() - begun < 3

        run(work())


def test_rights_are_the_controllers_and_it_says_what_would_be_allowed(service):
    token = service.principal("reader", role="subscriber", read={"stock": "price < 10"})

    async def work():
        async with pleroma.connect(service.url, token) as client:
            with pytest.raises(RequestRefused) as refused:
                await client.subscribe("stock", "price < 11")
            assert (refused.value.status, refused.value.code) == (403, "not_allowed")
            assert refused.value.allowed == "price < 10"
            with pytest.raises(RequestRefused):
                await client.advertise("stock", "price < 5")
            subscription = await client.subscribe("stock", Filter.parse(STOCK, 'price < 9 and ticker == "it\'s"'))
            async with pleroma.connect(service.url, service.token) as other:
                publisher = await other.advertise("stock")
                publisher.publish(quote(8.0, ticker="it's"))
                assert (await anext(subscription))["ticker"] == "it's"

    run(work())


def test_schemas_can_be_created_by_an_administrator_and_once(service):
    fresh = Schema("fresh", (Integer("x", False, 0, 9),))
    other = Schema("fresh", (Integer("x", False, 0, 8),))

    async def work():
        async with connected(service, ["any"] * 2) as (one, two):
            await asyncio.gather(one.create_schema(fresh), two.create_schema(fresh))
            assert await one.schema("fresh") == fresh
            with pytest.raises(ClientError, match="another schema"):
                await one.create_schema(other)

    run(work())


# -- plans -----------------------------------------------------------------------------------------------------------


async def new_plan(service, bits, dimensions):
    """Its epoch, once every publisher has adopted it."""
    index = GridIndex.regular(STOCK, bits, dimensions).to_json()
    return (await asyncio.to_thread(service.ask, "PUT", "/v1/schemas/stock/plan", {"index": index}))["epoch"]


def test_a_new_plan_is_adopted_without_a_restart(service):
    async def work():
        async with connected(service, ["h1", "h6"]) as (near, far):
            publisher = await near.advertise("stock", "price < 800")
            subscription = await far.subscribe("stock", "volume < 10 and price < 300")
            total = 0
            for dimensions in (["volume"], ["price", "volume"], ["ticker"]):
                epoch = await new_plan(service, 20, dimensions)
                for each in (near, far):
                    await until(
                        lambda each=each, epoch=epoch: (
                            each._connection.registrations.plans._channels["stock"].epoch == epoch
                        )
                    )
                assert publisher.channel.epoch == epoch
                publisher.publish_many(quote(float(p), v) for p in range(0, 600, 100) for v in (5, 15))
                total += 3
                got = await drained(subscription, total)
                assert [p.event["price"] for p in got] == [0.0, 100.0, 200.0]
                assert {p.epoch for p in got} == {epoch}
            # by the first of these plans the price is not looked at, by the last only the ticker is
            assert subscription.info.wasted >= 3 + 9
            assert far.info["stray"] == 0
            # who comes later begins with the plan of the day
            async with pleroma.connect(service.url, service.token) as late:
                assert (await late.advertise("stock")).channel.epoch == epoch

    run(work())


def test_without_a_stream_plans_are_asked_for(service, monkeypatch):
    monkeypatch.setattr("pleroma.client.session.plan_follower.PLAN_STREAM_PATH", "/v1/no-such-thing")
    monkeypatch.setattr("pleroma.client.session.plan_follower.POLL_SECONDS", 0.1)

    async def work():
        async with connected(service, ["any"]) as (client,):
            publisher = await client.advertise("stock")
            epoch = await new_plan(service, 10, ["price"])
            await until(lambda: publisher.channel.epoch == epoch)

    run(work())


# -- slowness --------------------------------------------------------------------------------------------------------


def test_a_slow_subscriber_loses_the_oldest_and_slows_nobody(service):
    async def work():
        async with connected(service, ["h1", "h4"]) as (near, far):
            publisher = await near.advertise("stock")
            slow = await far.subscribe("stock", queue=100)
            fast = await far.subscribe("stock", queue=100)
            elsewhere = await near.subscribe("stock", queue=5000)

            seen: list[int] = []

            async def read():
                while len(seen) < 3000:
                    seen.append((await fast.receive()).sequence)

            reader = asyncio.create_task(read())
            for sent in range(20, 3001, 20):  # the next only when these are read: a busy machine is no loss
                publisher.publish_many(quote(float(n % 1000)) for n in range(sent - 20, sent))
                await until(lambda sent=sent: len(seen) == elsewhere.waiting == sent)
            await reader
            assert seen == list(range(1, 3001))
            assert fast.info.dropped == 0
            assert (slow.info.delivered, slow.info.dropped, slow.waiting) == (3000, 2900, 100)
            assert [(await slow.receive()).sequence for _ in range(100)] == list(range(2901, 3001))
            assert len(await drained(elsewhere, 3000)) == 3000

    run(work())


def test_a_reader_that_never_waits_lets_others_have_their_turn(service):
    async def work():
        async with connected(service, ["h1"]) as (client,):
            publisher, subscription = await client.advertise("stock"), await client.subscribe("stock")
            publisher.publish_many(quote(1.0) for _ in range(1000))
            turns, read = 0, 0

            async def count_turns():
                nonlocal turns
                while read < 1000:
                    turns += 1
                    await asyncio.sleep(0)

            other = asyncio.create_task(count_turns())
            async for _ in subscription:
                read += 1
                if read == 1000:
                    break
            await other
            assert turns > 10

    run(work())


# -- strange packets -------------------------------------------------------------------------------------------------


def test_a_host_cannot_send_what_it_has_not_advertised(service):
    async def work():
        async with connected(service, ["h1", "h4"]) as (near, far):
            publisher = await near.advertise("stock", "price < 500")
            subscription = await far.subscribe("stock")
            mine = framed(publisher, quote(5.0), 10**6)
            beyond = framed(publisher, quote(600.0), 10**6 + 1)
            before = service.ask("GET", "/v1/statistics")["hosts"]
            for host, frame in (("h2", mine), ("h2", beyond), ("h1", beyond), ("h1", mine)):
                with intruder(service, host) as send:
                    send(frame)
            assert [p.event["price"] for p in await drained(subscription, 1)] == [5.0]
            after = service.ask("GET", "/v1/statistics")["hosts"]
            stopped = [("h1", "unadvertised"), ("h2", "forged")]  # at another host the number is not its own
            assert [after[host][fate] - before[host][fate] for host, fate in stopped] == [1, 2]

    run(work())


def test_malformed_packets_are_counted_and_ignored(service):
    async def work():
        async with connected(service, ["h1", "h4"]) as (near, far):
            publisher = await near.advertise("stock")
            subscription = await far.subscribe("stock")
            frame = framed(publisher, quote(5.0), 10**6)
            chance = random.Random(5)
            with intruder(service, "h1") as send:
                address, number = IPv6Address(frame[4:20]), publisher.number.to_bytes(4)
                for _ in range(100):
                    send(wrap(address, chance.randbytes(24) + number + chance.randbytes(chance.randrange(100))))
                send(frame[:-1])  # so that the tag is another
                send(wrap(address, b"\1\xff" + frame[22:]))  # of another kind
                send(wrap(IPV6.address(publisher.channel.prefix), b"\1\1\xff\xff" + frame[24:]))  # of another schema
                await until(lambda: far.info["packets"] == 103)
            # the kernel keeps what does not come from the host's port away from the socket
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
                stranger.sendto(frame, far._connection.attachment.link()._socket.socket.getsockname())
            publisher.publish(quote(6.0))
            assert [p.event["price"] for p in await drained(subscription, 1)] == [6.0]
            names = ("malformed", "unknown", "forged", "packets")
            assert [far.info[name] for name in names] == [101, 1, 1, 104]

    run(work())


def framed(publisher, event, sequence):
    *_, seal = publisher._route
    ((address, packet),) = publisher.channel.datagrams(event, publisher.number, sequence, 0, seal)
    return wrap(IPv6Address(address), packet)


@contextmanager
def intruder(service, host):
    """A socket attached to a host that sends what it likes."""
    given = service.ask("POST", f"/v1/hosts/{host}/attachments?tags=true")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as attached:
        attached.connect((given["udp_host"], given["port"]))
        attached.settimeout(5)
        attached.send(pack(AttachKind.ATTACH, bytes.fromhex(given["secret"])))
        assert attached.recv(100)[4] == AttachKind.ATTACHED
        yield attached.send


# -- other ways in ---------------------------------------------------------------------------------------------------


def test_the_blocking_facade(service):
    with (
        blocking.connect(service.url, service.token, "h1") as near,
        blocking.connect(service.url, service.token) as far,
    ):
        assert near.schema("stock") == STOCK
        with near.advertise("stock", "price < 100") as publisher, far.subscribe("stock", "price < 50") as subscription:
            with pytest.raises(OutsideAdvertisement):
                publisher.publish({"price": 500, "volume": 1, "ticker": "X"})
            with pytest.raises(TimeoutError):
                subscription.receive(timeout=0.1)
            assert publisher.publish({"price": 5, "volume": 1, "ticker": "X"}) == 1
            assert publisher.publish_many([quote(60.0), quote(6.0)]) == [2, 3]
            assert [subscription.receive(5).sequence for _ in range(2)] == [1, 3]

            threads = [
                threading.Thread(target=lambda: [publisher.publish(quote(1.0)) for _ in range(200)]) for _ in range(4)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert sorted(subscription.receive(5).sequence for _ in range(800)) == list(range(4, 804))
            assert publisher.info.published == 803
            assert set(service.registered()) == {publisher.id, subscription.id}

            publisher.publish(quote(2.0))
            for event in subscription:
                assert event["price"] == 2.0
                break
        assert service.registered() == []
        assert list(subscription) == []
        last = far.subscribe("stock")
    assert service.registered() == []
    assert list(last) == []
    with pytest.raises(ClientClosed):
        far.subscribe("stock")
    with pytest.raises(RequestRefused), blocking.connect(service.url, "wrong"):
        pass


SENSOR = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"numpy", "numba", "pyarrow", "typer", "rich", "networkx", "fastapi", "pydantic"}:
            raise ModuleNotFoundError(f"a sensor has no {name}")

sys.meta_path.insert(0, Refuse())

import pleroma
assert not {"httpx", "asyncio"} & set(sys.modules), "loaded before it is needed"
pleroma.connect
assert "httpx" not in sys.modules, "loaded before it is needed"

import asyncio

async def main(url, token):
    async with pleroma.connect(url, token, "h1") as client, pleroma.connect(url, token, "h8") as other:
        publisher = await client.advertise("stock", "price < 100")
        subscription = await other.subscribe("stock", "price < 10")
        publisher.publish_many([{"price": price, "volume": 1, "ticker": "A"} for price in (50, 5)])
        async for event in subscription:
            print(event["price"])
            break

asyncio.run(main(*sys.argv[1:]))
"""


def test_a_sensor_publishes_and_subscribes_without_numpy(service):
    command = [sys.executable, "-c", SENSOR, service.url, service.token]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "5.0\n"
