"""What a controller with a lake takes from its clients, and what becomes of it when files cannot be written."""

import asyncio
import threading
import time
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from pleroma.content import Schema
from pleroma.content.batch import EventBatch
from pleroma.control import AdoptPlan, Controller, CreatePrincipal, CreateSchema
from pleroma.errors import LakeError, SetupError
from pleroma.index import GridIndex
from pleroma.pipeline.lake.lake import Lake, ReportRow
from pleroma.pipeline.lake.storage import Storage
from pleroma.routing import build
from pleroma.service import CollectingSettings, create_app
from pleroma.service.collecting.collection import Collection
from pleroma.service.collecting.landing_queue import LandingQueue, ReportedCounters, SampledEvents
from pleroma.service.http.examples import EXAMPLE_SCHEMA
from pleroma.service.http.models.samples import MAX_ACCEPTED_SAMPLES
from pleroma.service.http.tokens import digest
from pleroma.service.planes.embedded_plane import EmbeddedPlane
from pleroma.switches.live.live_network import LiveNetwork
from support.service.in_process import ADMIN, UNLIMITED, Api, world
from support.waiting import run

STOCK = Schema.from_json(EXAMPLE_SCHEMA)
COLUMNS = {"price": [151.5, 20], "volume": [300, 4], "ticker": ["AAPL", "IBM"], "market": ["nyse", None]}


def body(**changed):
    return {"schema": "stock", "epoch": 1, "rate": 0.5, "ages": [0.5, 7200.0], "columns": COLUMNS} | changed


@asynccontextmanager
async def collecting(folder, running=False, schema=True, **settings):
    """Requests of the administrator to a service with a lake, which lands nothing by itself unless it is running."""
    async with (
        LiveNetwork(build("line:2"), loopback=True) as network,
        await Controller.open(folder / "service", build("line:2"), network) as controller,
    ):
        if not controller.state.schemas:
            await controller.submit(CreatePrincipal("admin", "admin", digest(ADMIN)))
            if schema:
                await controller.submit(CreateSchema(STOCK))
        given = CollectingSettings(str(folder / "lake"), **{"land_seconds": 0.05} | settings)
        collection = await Collection.open(controller, given)
        api = Api(create_app(controller, EmbeddedPlane(network), UNLIMITED, collection))
        async with api.client:
            if not running:
                yield api, collection, collection.lake
                collection.writer.close()
                return
            async with collection:
                yield api, collection, collection.lake


def landed(lake, kind="events"):
    return [row for file in lake.files(kind, "stock") for row in lake.table(kind, "stock", file).to_pylist()]


def snapshot_ids(lake, moment):
    """The ids of the subscriptions of a moment, if there is a snapshot of it."""
    there = lake.snapshots("stock", end=moment)
    return [row.id for row in lake.subscriptions("stock", moment).rows] if there else None


async def until(condition):
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


def test_samples_are_landed_with_the_controllers_time(tmp_path):
    async def main():
        async with collecting(tmp_path, running=True) as (api, _, lake):
            before = datetime.now(UTC)
            assert await api.post("/v1/samples", body(), 202) == {"taken": 2}
            await until(lambda: len(landed(lake)) == 2)
            after = datetime.now(UTC)
            old, new = sorted(landed(lake), key=lambda row: row["at"])
            assert before <= new["at"] + timedelta(seconds=0.5) <= after
            assert before <= old["at"] + timedelta(hours=2) <= after
            assert (new["price"], new["volume"], new["ticker"], new["market"]) == (151.5, 300, "AAPL", "nyse")
            assert (old["market"], old["epoch"], old["rate"]) == (None, 1, 0.5)

    run(main)


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"schema": "flock"}, "schema"),
        ({"epoch": 2}, "epoch"),
        ({"epoch": 0}, "epoch"),
        ({"rate": 0}, "rate"),
        ({"rate": 1.5}, "rate"),
        ({"ages": [1.0]}, "ages"),
        ({"ages": [1.0, -1.0]}, "ages.1"),
        ({"ages": [1.0, 1e6]}, "ages.1"),
        ({"ages": [0.0] * (MAX_ACCEPTED_SAMPLES + 1)}, "ages"),
        ({"columns": COLUMNS | {"price": [1.0, 5000.0]}}, "price"),
        ({"columns": COLUMNS | {"price": ["1", 2]}}, "price"),
        ({"columns": COLUMNS | {"price": [1.0]}}, "volume"),
        ({"columns": COLUMNS | {"colour": [1, 2]}}, None),
        ({"columns": COLUMNS | {"volume": [2**70, 1]}}, "volume"),
        ({"columns": {}}, "price"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_bad_samples_are_refused_whole(tmp_path, changed, field):
    async def main():
        async with collecting(tmp_path) as (api, collection, _):
            status, code = (404, "not_found") if "schema" in changed else (400, None)
            answer = await api("POST", "/v1/samples", status, json=body(**changed))
            error = answer.json()["error"]
            assert error["field"] == field
            assert code in (None, error["code"])
            assert collection.waiting.count == 0

    run(main)


def test_only_what_a_principal_may_publish_is_taken(tmp_path):
    async def main():
        async with collecting(tmp_path) as (api, collection, _):
            cheap = await api.principal("cheap", "publisher", publish={"stock": "price < 100"})
            error = await cheap.error("POST", "/v1/samples", 403, "not_allowed", json=body())
            assert error["allowed"] == "price < 100"
            assert "151.5" in error["value"]
            reader = await api.principal("reader", "subscriber", read={"*": "true"})
            await reader.error("POST", "/v1/samples", 403, "not_allowed", json=body())
            other = await api.principal("other", "publisher", publish={})
            await other.error("POST", "/v1/samples", 403, "not_allowed", json=body())
            assert collection.waiting.count == 0
            allowed = body(columns=COLUMNS | {"price": [99.0, 1.0]})
            assert await cheap.post("/v1/samples", allowed, 202) == {"taken": 2}
            for each in (cheap, reader, other):
                await each.client.aclose()

    run(main)


def test_what_there_is_no_room_for_is_dropped_and_counted(tmp_path):
    async def main():
        async with collecting(tmp_path, max_waiting=5) as (api, collection, lake):
            taken = [(await api.post("/v1/samples", body(), 202))["taken"] for _ in range(4)]
            assert taken == [2, 2, 0, 0]
            text = (await api("GET", "/metrics")).text
            assert 'pleroma_samples_total{fate="dropped"} 4.0' in text
            assert "pleroma_samples_waiting 4.0" in text
            await collection.land(everything=True)
            assert 'pleroma_samples_total{fate="landed"} 4.0' in (await api("GET", "/metrics")).text
            assert len(landed(lake)) == 4

    run(main)


def test_while_the_lake_cannot_be_written_samples_wait(tmp_path):
    async def main():
        async with collecting(tmp_path) as (api, collection, lake):
            (tmp_path / "lake" / "events").touch()  # a file where a folder should be
            await api.post("/v1/samples", body(), 202)
            await collection.land(everything=True)
            assert collection.writer.failures
            assert collection.waiting.count == 2
            (tmp_path / "lake" / "events").unlink()
            await collection.land(everything=True)
            assert collection.waiting.count == 0
            assert len(landed(lake)) == 2

    run(main)


@pytest.mark.parametrize("kind", ["events", "reports"])
def test_when_one_hour_cannot_be_written_the_others_are_not_landed_twice(tmp_path, monkeypatch, kind):
    async def main():
        async with collecting(tmp_path) as (_, collection, lake):
            now = datetime.now(UTC).replace(tzinfo=None)
            hours = [now - timedelta(hours=n) for n in range(2)]
            if kind == "events":
                collection.add_samples(
                    SampledEvents(EventBatch.from_columns(STOCK, COLUMNS), np.array(hours, "datetime64[us]"), 1, 1)
                )
            else:
                moments = [each.replace(tzinfo=UTC) for each in hours]
                collection.waiting.add_reports(
                    [ReportedCounters("stock", each, ReportRow("s1", "me")) for each in moments]
                )
            write_table, written = Storage.write_table, []

            def once(storage, path, table):
                if path.startswith(kind):
                    written.append(path)
                    if len(written) == 2:
                        raise LakeError("cannot be written: No space left on device", field=path)
                write_table(storage, path, table)

            monkeypatch.setattr(Storage, "write_table", once)
            await collection.land(everything=True)
            assert (len(landed(lake, kind)), collection.writer.failures) == (1, 1)
            await collection.land(everything=True)
            assert len(landed(lake, kind)) == 2
            assert getattr(collection.waiting, kind).landed == 2

    run(main)


def test_what_is_being_landed_keeps_its_room(tmp_path, monkeypatch):
    begun, may_end = threading.Event(), threading.Event()

    def slowly(*_):
        begun.set()
        assert may_end.wait(20)
        raise LakeError("cannot be written")

    async def main():
        async with collecting(tmp_path, max_waiting=3) as (api, collection, lake):
            with monkeypatch.context() as slow:
                slow.setattr(Lake, "land_events", slowly)
                assert await api.post("/v1/samples", body(), 202) == {"taken": 2}
                landing = asyncio.create_task(collection.land(everything=True))
                await until(begun.is_set)
                assert "pleroma_samples_waiting 2.0" in (await api("GET", "/metrics")).text
                assert await api.post("/v1/samples", body(), 202) == {"taken": 0}
                may_end.set()
                await landing
            await collection.land(everything=True)  # what came first was not pushed out by what came later
            assert len(landed(lake)) == 2
            assert (collection.waiting.events.landed, collection.waiting.events.dropped) == (2, 2)

    run(main)


def test_what_is_being_landed_when_the_service_stops_is_landed(tmp_path, monkeypatch):
    begun, may_end = threading.Event(), threading.Event()
    land_events = Lake.land_events

    def slowly(*given):
        begun.set()
        assert may_end.wait(20)
        land_events(*given)

    monkeypatch.setattr(Lake, "land_events", slowly)

    async def main():
        async with collecting(tmp_path, running=True, events_per_file=1) as (api, _, lake):
            for _ in range(3):
                await api.post("/v1/samples", body(), 202)
            await until(begun.is_set)
            asyncio.get_running_loop().call_later(0.1, may_end.set)
        assert len(landed(lake)) == 6

    run(main)


def test_a_fault_does_not_end_the_collecting(tmp_path, monkeypatch):
    faults = [ZeroDivisionError("a fault"), None]
    land_reports = Lake.land_reports

    def faulty(*given):
        error = faults.pop(0) if faults else None
        if error is not None:
            raise error
        land_reports(*given)

    monkeypatch.setattr(Lake, "land_reports", faulty)

    async def main():
        async with collecting(tmp_path, running=True) as (api, collection, lake):
            one = await api.subscribe("price < 5", "h1")
            await api.post("/v1/reports", {"subscriptions": {one["id"]: {"delivered": 7}}}, 204)
            await until(lambda: landed(lake, "reports"))
            assert collection.writer.failures == 1

    run(main)


def test_reports_are_landed_by_schema(tmp_path):
    async def main():
        async with collecting(tmp_path, running=True) as (api, _, lake):
            one = await api.subscribe("price < 5", "h1")
            counted = {one["id"]: {"delivered": 7, "wasted": 3}}
            await api.post("/v1/reports", {"subscriptions": counted, "published": 1}, 204)
            await until(lambda: landed(lake, "reports"))
            (row,) = landed(lake, "reports")
            assert (row["subscription"], row["principal"]) == (one["id"], "admin")
            assert (row["delivered"], row["wasted"], row["duplicates"], row["dropped"]) == (7, 3, 0, 0)

    run(main)


def test_snapshots_follow_the_subscriptions_and_nothing_else(tmp_path):
    async def main():
        async with collecting(tmp_path) as (api, collection, lake):
            await collection.land()
            assert lake.subscriptions("stock").rows == []
            since = lake.subscriptions("stock").since
            await api.advertise("true", "h1")
            await collection.land(everything=True)
            assert len(lake.snapshots("stock")) == 1  # an advertisement is no subscription
            one = await api.subscribe("price < 5", "h2")
            await collection.land(everything=True)
            assert [(row.id, row.host) for row in lake.subscriptions("stock").rows] == [(one["id"], "h2")]
            assert lake.subscriptions("stock", at=since).rows == []
            await api("DELETE", f"/v1/subscriptions/{one['id']}", 204)
            await collection.land(everything=True)
            assert lake.subscriptions("stock").rows == []
            assert len(lake.snapshots("stock")) == 3

    run(main)


def test_the_last_snapshot_is_valid_also_when_the_clock_went_back(tmp_path):
    async def main():
        async with collecting(tmp_path) as (api, collection, lake):
            await api.subscribe("price < 3", "h1")
            lake.land_subscriptions("stock", datetime.now(UTC) + timedelta(hours=1), [])  # before it was set right
            await collection.land(everything=True)
            await api.subscribe("price < 5", "h2")
            await collection.land(everything=True)
            assert [row.host for row in lake.subscriptions("stock").rows] == ["h1", "h2"]

    run(main)


def test_a_subscription_stood_until_it_was_withdrawn_however_slow_the_files(tmp_path, monkeypatch):
    begun, may_end = threading.Event(), threading.Event()
    land_subscriptions = Lake.land_subscriptions

    def slowly(lake, schema, since, rows):
        if rows:
            begun.set()
            assert may_end.wait(20)
        land_subscriptions(lake, schema, since, rows)

    monkeypatch.setattr(Lake, "land_subscriptions", slowly)

    async def main():
        async with collecting(tmp_path, running=True) as (api, _, lake):
            one = await api.subscribe("price < 5", "h1")
            first = datetime.now(UTC)
            await until(begun.is_set)
            last = datetime.now(UTC)
            await asyncio.sleep(0.3)  # it is seen to stand
            await api("DELETE", f"/v1/subscriptions/{one['id']}", 204)
            gone = datetime.now(UTC)
            may_end.set()
            moments = (first, last, gone)
            await until(lambda: [snapshot_ids(lake, each) for each in moments] == [[one["id"]], [one["id"]], []])

    run(main)


def test_every_plan_is_landed_also_those_of_one_moment(tmp_path):
    async def main():
        async with collecting(tmp_path) as (_, collection, lake):
            for bits in (4, 5, 6):
                await collection._controller.submit(AdoptPlan("stock", GridIndex.regular(STOCK, bits)))
            await collection.land()
            assert [(each.epoch, each.plan.index.bits) for each in lake.plans("stock")][1:] == [(2, 4), (3, 5), (4, 6)]
        async with collecting(tmp_path) as (_, collection, lake):  # and none twice, after a restart
            await collection.land()
            assert [each.epoch for each in lake.plans("stock")] == [1, 2, 3, 4]

    run(main)


def test_old_parts_are_removed(tmp_path):
    async def main():
        async with collecting(tmp_path, keep_days=2) as (_, collection, lake):
            events = EventBatch.from_columns(STOCK, COLUMNS)
            now = datetime.now(UTC)
            lake.land_events(events, [now - timedelta(days=3), now - timedelta(days=1)], 1, 1.0)
            await collection.land()
            assert [row["ticker"] for row in landed(lake)] == ["IBM"]

    run(main)


def test_small_parts_of_hours_that_are_over_are_put_together(tmp_path, monkeypatch):
    async def main():
        async with collecting(tmp_path) as (_, collection, lake):
            events, now = EventBatch.from_columns(STOCK, COLUMNS), datetime.now(UTC)
            for hours in (0, 0, 3, 3, 5, 5):
                lake.land_events(events, [now - timedelta(hours=hours)] * 2, 1, 1.0)
            ids = [row["id"] for row in landed(lake)]
            monkeypatch.setattr("pleroma.pipeline.lake.compaction.MAX_FOLDED_PARTS", 2)
            await collection.land()
            assert collection._compaction_due < time.monotonic() + 60  # there may be more
            monkeypatch.undo()
            collection._compaction_due = 0.0
            await collection.land()
            assert [file.key[:4] for file in lake.files("events", "stock")] == ["part", "part", "fold", "fold"]
            assert sorted(row["id"] for row in landed(lake)) == ids
            assert collection.writer.failures == 0

    run(main)


def test_the_rate_is_part_of_the_plans_answer_and_of_its_etag(tmp_path):
    async def main():
        async with collecting(tmp_path, sample=0.25) as (api, _, lake):
            first = await api("GET", "/v1/schemas/stock/plan", 200)
            assert first.json()["sample"] == 0.25
            known = {"If-None-Match": first.headers["etag"]}
            await api("GET", "/v1/schemas/stock/plan", 304, headers=known)
            assert (await api("PUT", "/v1/schemas/stock/sampling", 200, json={"rate": 0})).json()["rate"] == 0
            again = await api("GET", "/v1/schemas/stock/plan", 200, headers=known)
            assert again.json()["sample"] == 0
            assert lake.sampling("stock") == 0
            other = await api.principal("other")
            await other.error("PUT", "/v1/schemas/stock/sampling", 403, "not_allowed", json={"rate": 1})
            await other.client.aclose()
            await api.error("PUT", "/v1/schemas/flock/sampling", 404, "not_found", json={"rate": 1})
            await api.error("PUT", "/v1/schemas/stock/sampling", 400, "bad_request", json={"rate": 1.1})
        async with collecting(tmp_path, sample=0.25) as (api, *_):  # what was chosen has stayed
            assert (await api.get("/v1/schemas/stock/plan"))["sample"] == 0

    run(main)


def test_without_a_lake_nothing_is_sampled(tmp_path):
    async def main():
        async with world(tmp_path, topology="line:2") as api:
            assert (await api.get("/v1/schemas/stock/plan"))["sample"] == 0
            await api.error("POST", "/v1/samples", 404, "not_found", json=body())
            await api.error("PUT", "/v1/schemas/stock/sampling", 404, "not_found", json={"rate": 1})
            assert "pleroma_samples" not in (await api("GET", "/metrics")).text

    run(main)


def test_a_lake_of_another_controller_is_refused(tmp_path):
    async def main():
        async with collecting(tmp_path, running=True) as (_, collection, lake):
            await until(lambda: lake.plans("stock"))
            other = tmp_path / "other"
            other.mkdir()
            (other / "lake").symlink_to(tmp_path / "lake")
            Lake.at(str(other / "lake")).storage.remove("plans/schema=stock/epoch-00000001.json")
            collection.lake.land_plan(_plan(3), 8, datetime.now(UTC))
            with pytest.raises(LakeError, match="another plan 1"):
                async with collecting(other):
                    pass

    def _plan(bits):
        from pleroma.index import IndexPlan

        return IndexPlan(1, GridIndex.regular(STOCK, bits))

    run(main)


def test_a_lake_that_cannot_be_written_is_refused(tmp_path):
    async def main():
        (tmp_path / "lake").touch()
        with pytest.raises(LakeError, match="cannot be written"):
            async with collecting(tmp_path, schema=False):
                pass

    run(main)


@pytest.mark.parametrize(
    "wrong", [{"sample": 1.1}, {"sample": -1}, {"keep_days": 0}, {"land_seconds": 0}, {"max_waiting": 0}]
)
def test_impossible_settings_are_refused(wrong):
    with pytest.raises(SetupError) as caught:
        CollectingSettings("lake", **wrong)
    assert caught.value.field == next(iter(wrong))


def test_what_waits_is_put_together_by_plan_and_rate():
    waiting = LandingQueue(100)
    events = EventBatch.from_columns(STOCK, COLUMNS)
    at = np.array([1, 2], "datetime64[us]")
    for epoch, rate in ((1, 0.5), (1, 0.5), (2, 0.5), (1, 1.0), (1, 0.5)):
        assert waiting.add_events(SampledEvents(events, at, epoch, rate)) == 2
    taken = waiting.take_events(4)
    assert [(len(each.events), each.epoch, each.rate) for each in taken] == [
        (4, 1, 0.5),
        (2, 1, 0.5),
        (2, 2, 0.5),
        (2, 1, 1.0),
    ]
    assert taken[1].events == events
    assert waiting.take_events(4) == []
    assert waiting.count == 10
    for each in taken:
        waiting.landed_events(each)
    assert waiting.count == 0


def test_reports_wait_as_long_as_there_is_room():
    waiting, now = LandingQueue(3), datetime.now(UTC)
    reported = [ReportedCounters("ab"[n % 2], now, ReportRow(f"s{n}", "me")) for n in range(5)]
    waiting.add_reports(reported)
    assert waiting.reports.dropped == 2
    taken = waiting.take_reports(100)
    assert [[(each.schema, each.row.subscription) for each in portion] for portion in taken] == [
        [("a", "s0"), ("a", "s2")],
        [("b", "s1")],
    ]
    waiting.landed_reports(taken[0])
    waiting.give_back_reports(taken[1])
    waiting.add_reports(reported)
    assert waiting.reports.dropped == 2 + 3
    assert [len(portion) for portion in waiting.take_reports(1)] == [1, 1, 1]
