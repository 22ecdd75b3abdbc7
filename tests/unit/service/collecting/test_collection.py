"""What a collection lands, and what becomes of it when files cannot be written."""

import asyncio
import threading
from datetime import UTC, datetime

import pytest

from pleroma.control import AdoptPlan
from pleroma.errors import LakeError, SetupError
from pleroma.index import GridIndex, IndexPlan
from pleroma.pipeline.lake.lake import Lake
from pleroma.service import CollectingSettings
from support.service.with_lake import STOCK, batch, collecting, landed, sample_body
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


def test_when_a_commit_fails_everything_of_the_table_goes_on_waiting_in_order(tmp_path, monkeypatch):
    land_samples, commits = Lake.land_samples, []

    def second_fails(lake, samples):
        commits.append([each.batch.number for each in samples])
        if len(commits) == 2:
            raise LakeError("cannot be written")
        return land_samples(lake, samples)

    monkeypatch.setattr(Lake, "land_samples", second_fails)

    async def main():
        async with collecting(tmp_path, events_per_file=4) as (api, collection, lake):
            for number in range(6):
                await api.post("/v1/samples", sample_body(batch=batch(number)), 202)
            await collection.land(everything=True)
            assert commits == [[0, 1], [2, 3]]
            assert (len(landed(lake)), collection.waiting.count) == (4, 8)
            await collection.land(everything=True)
            assert commits[2:] == [[2, 3], [4, 5]]
            assert len(landed(lake)) == 12

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
                slow.setattr(Lake, "land_samples", slowly)
                assert await api.post("/v1/samples", sample_body(), 202) == {"taken": 2}
                landing = asyncio.create_task(collection.land(everything=True))
                await until(begun.is_set, 20)
                assert "pleroma_samples_waiting 2.0" in (await api("GET", "/metrics")).text
                assert await api.post("/v1/samples", sample_body(), 202) == {"taken": 0}
                may_end.set()
                await landing
            await collection.land(everything=True)  # what came first was not pushed out by what came later
            assert len(landed(lake)) == 2
            assert (collection.waiting.event_counts.landed, collection.waiting.event_counts.dropped) == (2, 2)

    run(main)


def test_what_is_being_landed_when_the_service_stops_is_landed(tmp_path, monkeypatch):
    begun, may_end = threading.Event(), threading.Event()
    land_samples = Lake.land_samples

    def slowly(*given):
        begun.set()
        assert may_end.wait(20)
        return land_samples(*given)

    monkeypatch.setattr(Lake, "land_samples", slowly)

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
        return land_reports(*given)

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


def test_a_plan_that_could_not_be_landed_has_the_time_at_which_it_was_seen(tmp_path, monkeypatch):
    def refuse(*_):
        raise LakeError("cannot be written")

    async def main():
        async with collecting(tmp_path) as (_, collection, lake):
            await collection._controller.submit(AdoptPlan("stock", GridIndex.regular(STOCK, 4)))
            with monkeypatch.context() as failing:
                failing.setattr(Lake, "land_plan", refuse)
                await collection.land()
            seen = datetime.now(UTC)
            await collection.land()
            first, second = lake.plans("stock")
            assert first.since < second.since < seen

    run(main)


def test_a_lake_of_another_controller_is_refused(tmp_path):
    async def main():
        Lake.at(str(tmp_path / "lake")).land_schema(STOCK)
        Lake.at(str(tmp_path / "lake")).land_plan(IndexPlan(1, GridIndex.regular(STOCK, 3)), datetime.now(UTC))
        with pytest.raises(LakeError, match="another plan 1"):
            async with collecting(tmp_path):
                pass

    run(main)


def test_a_lake_that_cannot_be_written_is_refused(tmp_path):
    async def main():
        (tmp_path / "lake").touch()
        with pytest.raises(LakeError, match="the table schemas: cannot be"):
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
