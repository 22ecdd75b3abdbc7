"""A real controller with a lake, and real clients: what they publish, count and ask for lands as Parquet."""

import asyncio
from datetime import UTC, datetime, timedelta

import pleroma
from pleroma.errors import LakeError
from pleroma.pipeline.lake.lake import Lake
from support.service.process import ServiceProcess
from support.strategies import STOCK
from support.waiting import until


def run(work, seconds=90.0):
    async def limited():
        async with asyncio.timeout(seconds):
            return await work

    return asyncio.run(limited())


def happens(condition, seconds=30.0):
    run(until(condition, seconds))


def landed(lake, kind="events"):
    return [row for file in lake.files(kind, "stock") for row in lake.table(kind, "stock", file).to_pylist()]


def subscribed(lake):
    try:
        return [row.id for row in lake.subscriptions("stock").rows]
    except LakeError:
        return None


def quotes(count, first=0):
    numbers = range(first, first + count)
    return [STOCK.event(price=float(n % 100), volume=n, ticker="IBM", market="nyse") for n in numbers]


def test_what_clients_publish_count_and_ask_for_is_in_the_lake(tmp_path):
    lake = Lake.at(f"file://{tmp_path}/lake")
    began = datetime.now(UTC)

    async def published(service):
        async with (
            pleroma.connect(service.url, service.token, "h1") as sending,
            pleroma.connect(service.url, service.token, "h2") as reading,
        ):
            subscription = await reading.subscribe("stock", "price < 50")
            publisher = await sending.advertise("stock")
            moment = datetime.now(UTC)
            publisher.publish_many(quotes(200))
            await until(lambda: subscription.info.delivered == 100, 30)
            await until(lambda: subscribed(lake) == [subscription.id], 30)
            return subscription.id, moment

    collecting = {"lake": lake.url, "sample": 1.0, "land_seconds": 0.2}
    with ServiceProcess(tmp_path / "service", collecting=collecting) as service:
        service.ask("POST", "/v1/schemas", {"schema": STOCK.to_json()})
        name, moment = run(published(service))
        happens(lambda: len(landed(lake)) == 200)
        happens(lambda: sum(row["delivered"] for row in landed(lake, "reports")) == 100)
        happens(lambda: subscribed(lake) == [])  # the newest snapshot says that it is gone
        service.ask("PUT", "/v1/schemas/stock/plan", {"index": {"kind": "grid", "order": [0, 0, 1], "boundaries": {}}})
        happens(lambda: [plan.epoch for plan in lake.plans("stock")] == [1, 2])

    rows = landed(lake)
    assert sorted(row["volume"] for row in rows) == list(range(200))
    assert {row["market"] for row in rows} == {"nyse"}
    assert len({row["id"] for row in rows}) == 200
    assert {(row["epoch"], row["rate"]) for row in rows} == {(1, 1.0)}
    slack = timedelta(seconds=1)
    assert all(began - slack <= row["at"] <= datetime.now(UTC) + slack for row in rows)
    assert {(row["subscription"], row["principal"]) for row in landed(lake, "reports")} == {(name, "admin")}
    during = lake.subscriptions("stock", at=moment)
    assert [(row.id, row.principal, row.host, str(row.filter)) for row in during.rows] == [
        (name, "admin", "h2", "price < 50")
    ]
    assert lake.schema("stock") == STOCK
    first, second = lake.plans("stock")
    assert (first.members, first.plan.schema) == (8, STOCK)
    assert first.since < second.since
    assert second.plan.index.to_json()["order"] == [0, 0, 1]


def test_the_rate_changes_while_clients_publish_and_what_came_is_landed_at_the_end(tmp_path):
    lake = Lake.at(str(tmp_path / "lake"))

    async def published(service):
        async with pleroma.connect(service.url, service.token, "h1") as client:
            publisher = await client.advertise("stock")
            assert publisher.channel.sample == 1.0
            publisher.publish_many(quotes(700))
            answer = await asyncio.to_thread(service.ask, "PUT", "/v1/schemas/stock/sampling", {"rate": 0})
            assert answer == {"schema": "stock", "rate": 0.0}
            await until(lambda: publisher.channel.sample == 0.0, 30)
            publisher.publish_many(quotes(300, first=700))

    service = ServiceProcess(tmp_path / "service", collecting={"lake": lake.url, "sample": 1.0, "land_seconds": 3600})
    with service:
        service.ask("POST", "/v1/schemas", {"schema": STOCK.to_json()})
        run(published(service))
        assert landed(lake) == []
        assert service.stop() == 0
        assert sorted(row["volume"] for row in landed(lake)) == list(range(700))
        service.start()  # the rate has stayed with the lake
        assert service.ask("GET", "/v1/schemas/stock/plan")["sample"] == 0.0
