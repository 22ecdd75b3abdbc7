"""A real controller with a lake, and real clients: what they publish, count and ask for is landed, each thing once."""

import asyncio
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pleroma
from pleroma.errors import LakeError
from pleroma.pipeline.lake.lake import Lake
from support.programs import environment
from support.service.process import ServiceProcess
from support.service.with_lake import landed
from support.strategies import STOCK
from support.waiting import until


def run(work, seconds=90.0):
    async def limited():
        async with asyncio.timeout(seconds):
            return await work

    return asyncio.run(limited())


def happens(condition, seconds=30.0):
    run(until(condition, seconds))


def landed_if_any(lake, kind="events"):
    try:
        return landed(lake, kind)
    except LakeError:  # the schema is not landed yet
        return []


def subscribed(lake):
    try:
        return [row.id for row in lake.subscriptions("stock")]
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
        happens(lambda: len(landed_if_any(lake)) == 200)
        happens(lambda: sum(row["delivered"] for row in landed(lake, "reports")) == 100)
        happens(lambda: subscribed(lake) == [])  # it is gone
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
    assert [(row.id, row.principal, row.host, str(row.filter)) for row in during] == [
        (name, "admin", "h2", "price < 50")
    ]
    assert lake.schema("stock") == STOCK
    assert len(lake.topology().topology.switches) == 10
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
        assert landed_if_any(lake) == []
        assert service.stop() == 0
        assert sorted(row["volume"] for row in landed(lake)) == list(range(700))
        service.start()  # the rate has stayed with the lake
        assert service.ask("GET", "/v1/schemas/stock/plan")["sample"] == 0.0


def sample_body(number, count=3):
    events = quotes(count, first=10 * number)
    columns = {name: [each[name] for each in events] for name in ("price", "volume", "ticker", "market")}
    batch = {"sender": "the-sender", "number": number}
    return {"schema": "stock", "epoch": 1, "rate": 1.0, "ages": [0.0] * count, "columns": columns, "batch": batch}


EVERY_SAMPLE = {"sample": 1.0}


def advertise(service):
    service.ask("POST", "/v1/schemas", {"schema": STOCK.to_json()})
    service.ask("POST", "/v1/advertisements", {"schema": "stock", "filter": "true", "host": "h1"})


def test_what_was_landed_before_a_crash_is_sent_again_and_not_landed_again(tmp_path):
    """The controller dies when everything is landed, and before its clients have heard that it was taken."""
    lake = Lake.at(str(tmp_path / "lake"))
    with ServiceProcess(
        tmp_path / "service", collecting={"lake": lake.url, "land_seconds": 0.1} | EVERY_SAMPLE
    ) as service:
        advertise(service)
        one = service.ask("POST", "/v1/subscriptions", {"schema": "stock", "filter": "true", "host": "h1"})

        def send(number):
            assert service.ask("POST", "/v1/samples", sample_body(number)) == {"taken": 3}
            counted = {one["id"]: {"delivered": 1 + number}}
            body = {"subscriptions": counted, "batch": {"sender": "the-sender", "number": number}}
            service.ask("POST", "/v1/reports", body)

        for number in range(2):
            send(number)
        happens(lambda: len(landed_if_any(lake)) == 6 and len(landed(lake, "reports")) == 2)
        service.kill()
        service.start()
        for number in (1, 2):
            send(number)
        happens(lambda: len(landed(lake)) >= 9 and len(landed(lake, "reports")) >= 3)
        assert service.stop() == 0  # which lands whatever waits
    assert sorted(row["volume"] for row in landed(lake)) == [0, 1, 2, 10, 11, 12, 20, 21, 22]
    assert sorted(row["delivered"] for row in landed(lake, "reports")) == [1, 2, 3]


def test_two_controllers_of_one_lake_that_get_the_same_batches_land_each_once(tmp_path):
    lake, count = Lake.at(str(tmp_path / "lake")), 15
    collecting = {"lake": lake.url, "land_seconds": 0.01} | EVERY_SAMPLE
    with (
        ServiceProcess(tmp_path / "one", collecting=collecting) as one,
        ServiceProcess(tmp_path / "two", collecting=collecting) as two,
        ThreadPoolExecutor(2) as both,
    ):
        for service in (one, two):
            advertise(service)
        for number in range(count):
            body = sample_body(number)
            sent = [both.submit(service.ask, "POST", "/v1/samples", body) for service in (one, two)]
            assert [each.result() for each in sent] == [{"taken": 3}] * 2
        assert one.stop() == two.stop() == 0
    expected = sorted(each for number in range(count) for each in range(10 * number, 10 * number + 3))
    assert sorted(row["volume"] for row in landed(lake)) == expected


def test_a_lake_that_cannot_be_is_one_line_when_the_controller_starts(tmp_path):
    (tmp_path / "file").touch()
    for lake, line in (
        ("ftp://somewhere", "begins with one of"),
        ("s3://key:secret@bucket/lake", "give them in the environment"),
        (str(tmp_path / "file"), "the table schemas"),
    ):
        command = [sys.executable, "-m", "pleroma.cli", "up", "--folder", tmp_path / "service", "--port", "0"]
        ended = subprocess.run(
            [*command, "--lake", lake], capture_output=True, text=True, env=environment(), timeout=60, check=False
        )
        assert ended.returncode == 2
        (said,) = [each for each in ended.stderr.splitlines() if "error:" in each]
        assert line in said
        assert "secret" not in ended.stderr + ended.stdout
        assert "Traceback" not in ended.stderr


def test_status_says_why_nothing_is_landed(tmp_path):
    lake, away = tmp_path / "lake", tmp_path / "away"
    with ServiceProcess(
        tmp_path / "service", collecting={"lake": str(lake), "land_seconds": 0.1} | EVERY_SAMPLE
    ) as service:
        advertise(service)
        service.ask("POST", "/v1/samples", sample_body(0))
        happens(lambda: len(landed_if_any(Lake.at(str(lake)))) == 3)
        lake.rename(away)
        service.ask("POST", "/v1/samples", sample_body(1))
        happens(lambda: service.ask("GET", "/health")["status"] == "degraded")
        command = [sys.executable, "-m", "pleroma.cli", "status", "--url", service.url, "--token", service.token]
        shown = subprocess.run(command, capture_output=True, text=True, env=environment(), check=True).stdout
        assert "degraded; version" in shown
        assert "degraded: lake: the table" in shown
        away.rename(lake)
        happens(lambda: service.ask("GET", "/health")["status"] == "ok")
        happens(lambda: len(landed(Lake.at(str(lake)))) == 6)
