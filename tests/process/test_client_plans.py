"""Clients in a process of their own follow changes of plans while they publish, and tell the controller."""

import asyncio
import urllib.request

import pytest

import pleroma
from pleroma.index import GridIndex
from support.service.process import ServiceProcess
from support.strategies import STOCK
from support.waiting import until

PLAN = "/v1/schemas/stock/plan"


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with ServiceProcess(tmp_path_factory.mktemp("service")) as started:
        started.ask("POST", "/v1/schemas", {"schema": STOCK.to_json()})
        yield started


def stragglers(service):
    with urllib.request.urlopen(f"{service.url}/metrics", timeout=30) as answer:  # noqa: S310 (our own service)
        lines = answer.read().decode().splitlines()
    return next(line.split()[1] for line in lines if line.startswith("pleroma_plan_stragglers "))


@pytest.mark.parametrize("method", ["lightweight", "versioning"])
def test_a_publisher_that_never_stops_loses_nothing_while_plans_change(service, method):
    async def work():
        async with (
            pleroma.connect(service.url, service.token, "h1") as near,
            pleroma.connect(service.url, service.token, "h6") as far,
        ):
            publisher = await near.advertise("stock", "price < 800")
            subscription = await far.subscribe("stock", "price < 300 and volume < 500", queue=100_000)
            going, sent = True, []

            async def publish():
                while going:
                    price, volume = float(len(sent) % 700), len(sent) * 7 % 1000
                    sent.append((price, volume))
                    publisher.publish({"price": price, "volume": volume, "ticker": f"T{len(sent)}"})
                    await asyncio.sleep(0.002)

            task = asyncio.create_task(publish())
            for dimensions in (["volume"], ["price", "volume"], ["ticker"]):
                index = GridIndex.regular(STOCK, 16, dimensions).to_json()
                body = {"index": index, "method": method}
                answer = await asyncio.to_thread(service.ask, "PUT", PLAN, body)
                assert answer["phase"] == "settled"
                assert publisher.channel.epoch == answer["epoch"]
                assert await asyncio.to_thread(stragglers, service) == "0.0"
            going = False
            await task
            wanted = sum(price < 300 and volume < 500 for price, volume in sent)
            await until(lambda: subscription.info.delivered >= wanted, 20)
            await asyncio.sleep(0.3)
            assert subscription.info.delivered == wanted
            assert subscription.info.dropped == subscription.info.duplicates == 0

    asyncio.run(asyncio.wait_for(work(), 200))


def index_of(order):
    return {"kind": "grid", "order": order, "boundaries": {}}


def test_a_client_that_missed_two_plans_reads_them_again(service):
    async def work():
        async with pleroma.connect(service.url, service.token, "h1") as client:
            publisher = await client.advertise("stock")
            keeper = client._connection.registrations
            read, reading, is_deaf = keeper.plans.read, 0, False

            async def perhaps(*asked):
                nonlocal reading
                if is_deaf:
                    return keeper.plans._channels["stock"]
                reading += 1
                try:
                    return await read(*asked)
                finally:
                    reading -= 1

            keeper.plans.read = perhaps
            now = await asyncio.to_thread(service.ask, "PUT", PLAN, {"index": index_of([0, 0]), "method": "at_once"})
            await until(lambda: publisher.channel.epoch == now["epoch"], 30)
            is_deaf = True
            await until(lambda: not reading, 30)  # an answer that was on its way still counts
            epoch = publisher.channel.epoch
            for order in ([0, 1], [1, 0]):
                await asyncio.to_thread(service.ask, "PUT", PLAN, {"index": index_of(order), "method": "at_once"})
            assert publisher.channel.epoch == epoch
            is_deaf = False
            keeper._lease.hurry()
            await until(lambda: publisher.channel.epoch == epoch + 2, 30)

    asyncio.run(asyncio.wait_for(work(), 100))
