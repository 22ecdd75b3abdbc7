"""What a collection lands, and what becomes of it when files cannot be written."""

import asyncio
import threading
import time
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from pleroma.content.batch import EventBatch
from pleroma.control import AdoptPlan
from pleroma.errors import LakeError, SetupError
from pleroma.index import GridIndex
from pleroma.pipeline.lake.lake import Lake, ReportRow
from pleroma.pipeline.lake.storage import Storage
from pleroma.service import CollectingSettings
from pleroma.service.collecting.landing_queue import ReportedCounters, SampledEvents
from support.service.with_lake import COLUMNS, STOCK, collecting, landed, sample_body
from support.waiting import run, until


def test_what_there_is_no_room_for_is_dropped_and_counted(tmp_path):
    async def main():
        async with collecting(tmp_path, max_waiting=5) as (api, collection, lake):
            taken = [(await api.post("/v1/samples", sample_body(), 202))["taken"] for _ in range(4)]
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
            await api.post("/v1/samples", sample_body(), 202)
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
                assert await api.post("/v1/samples", sample_body(), 202) == {"taken": 2}
                landing = asyncio.create_task(collection.land(everything=True))
                await until(begun.is_set, 20)
                assert "pleroma_samples_waiting 2.0" in (await api("GET", "/metrics")).text
                assert await api.post("/v1/samples", sample_body(), 202) == {"taken": 0}
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
                await api.post("/v1/samples", sample_body(), 202)
            await until(begun.is_set, 20)
            asyncio.get_running_loop().call_later(0.1, may_end.set)
        assert len(landed(lake)) == 6

    run(main)


def test_what_waits_when_the_service_stops_is_landed(tmp_path):
    async def main():
        async with collecting(tmp_path, running=True, land_seconds=1000.0) as (api, _, lake):
            await api.post("/v1/samples", sample_body(), 202)
        assert len(landed(lake)) == 2

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
            await until(lambda: landed(lake, "reports"), 20)
            assert collection.writer.failures == 1

    run(main)


def test_reports_are_landed_by_schema(tmp_path):
    async def main():
        async with collecting(tmp_path, running=True) as (api, _, lake):
            one = await api.subscribe("price < 5", "h1")
            counted = {one["id"]: {"delivered": 7, "wasted": 3}}
            await api.post("/v1/reports", {"subscriptions": counted, "published": 1}, 204)
            await until(lambda: landed(lake, "reports"), 20)
            (row,) = landed(lake, "reports")
            assert (row["subscription"], row["principal"]) == (one["id"], "admin")
            assert (row["delivered"], row["wasted"], row["duplicates"], row["dropped"]) == (7, 3, 0, 0)

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


def test_a_lake_of_another_controller_is_refused(tmp_path):
    async def main():
        async with collecting(tmp_path, running=True) as (_, collection, lake):
            await until(lambda: lake.plans("stock"), 20)
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
