"""A collection maintains its lake when nothing is to be landed, and landing goes on meanwhile."""

import asyncio
import threading
from datetime import UTC, datetime, timedelta

import pytest

from pleroma.content.batch import EventBatch
from pleroma.errors import LakeError
from pleroma.pipeline.lake import maintenance
from pleroma.pipeline.lake.maintenance import FailedTable, MaintenanceResult
from pleroma.service.collecting import lake_writer
from pleroma.service.collecting.lake_upkeep import LEAST_PAUSE_SECONDS, MANY_LANDED_FILES, LakeUpkeep
from pleroma.service.collecting.settled_clock import SettledClock
from support.service.with_lake import COLUMNS, STOCK, collecting, landed, sample_body
from support.waiting import run, until


def test_old_events_are_removed_and_small_files_of_past_hours_are_merged(tmp_path):
    async def main():
        async with collecting(tmp_path, keep_days=2) as (_, collection, lake):
            events, now = EventBatch.from_columns(STOCK, COLUMNS), datetime.now(UTC)
            for days in (3, 1, 1):
                lake.land_events(events, [now - timedelta(days=days)] * 2, 1, 1.0)
            await collection.upkeep.begin_if_due()
            assert collection.failure is None
            assert len(landed(lake)) == 4
            assert len(lake.event_table("stock").files()) == 1
            assert collection.upkeep.begin_if_due() is None  # not again for an hour

    run(main)


def test_landing_goes_on_during_maintenance(tmp_path, monkeypatch):
    begun, may_end = threading.Event(), threading.Event()

    def slowly(lake, keep_days, advance, **_):
        begun.set()
        assert (lake.url, keep_days) == (str(tmp_path / "lake"), 30.0)
        assert may_end.wait(20)
        advance(1.0)
        return MaintenanceResult()

    monkeypatch.setattr(maintenance, "maintain", slowly)

    async def main():
        async with collecting(tmp_path, running=True) as (api, collection, lake):
            await until(begun.is_set, 20)
            with monkeypatch.context() as patched:  # what takes so long is no lake that does not answer
                patched.setattr(lake_writer, "SILENT_SECONDS", -1.0)
                assert collection.upkeep.writer.failure is None
            await api.post("/v1/samples", sample_body(), 202)
            await until(lambda: len(landed(lake)) == 2, 20)
            may_end.set()

    run(main)


def test_after_a_stop_maintenance_ends_with_the_table_that_it_is_at(tmp_path, monkeypatch):
    async def main():
        async with collecting(tmp_path) as (_, collection, _):
            tidied = []

            def tidy(_, chore, *__):
                tidied.append(chore.table.definition.path)
                if len(tidied) == 2:
                    collection.upkeep.close()
                return MaintenanceResult()

            monkeypatch.setattr(maintenance, "_tidied", tidy)
            with pytest.raises(LakeError, match="stopped"):
                await asyncio.to_thread(collection.upkeep._work)
            assert len(tidied) == 2

    run(main)


def raising(*_, **__):
    raise LakeError("cannot be merged", field="the table events/stock")


def returning(*_, **__):
    return MaintenanceResult(failed=(FailedTable("events/stock", "the table events/stock: cannot be merged"),))


@pytest.mark.parametrize("fail", [raising, returning])
def test_maintenance_that_fails_is_shown_and_ends_nothing(tmp_path, monkeypatch, fail):
    monkeypatch.setattr(maintenance, "maintain", fail)

    async def main():
        async with collecting(tmp_path, running=True) as (api, collection, lake):
            await until(lambda: collection.failure, 20)
            assert (await api.health())[1] == {"lake": "the table events/stock: cannot be merged"}
            await api.post("/v1/samples", sample_body(), 202)
            await until(lambda: len(landed(lake)) == 2, 20)
            assert collection.upkeep.begin_if_due() is None  # it is tried again later

    run(main)


def test_many_new_files_are_merged_before_the_hour_is_over(tmp_path, monkeypatch):
    done, now = [], [0.0]
    monkeypatch.setattr(maintenance, "maintain", lambda *_, **__: done.append(now[0]) or MaintenanceResult())

    async def main():
        upkeep = LakeUpkeep(str(tmp_path), 30.0, SettledClock(), lambda: now[0])
        await upkeep.begin_if_due()
        for files, seconds, is_due in (
            (MANY_LANDED_FILES, 1.0, False),  # too soon after the last
            (0, LEAST_PAUSE_SECONDS, True),
            (MANY_LANDED_FILES - 1, LEAST_PAUSE_SECONDS + 1, False),  # too few
            (1, 0.0, True),
            (0, 3600.0, True),
        ):
            upkeep.landed(files)
            now[0] += seconds
            task = upkeep.begin_if_due()
            assert (task is not None) == is_due
            if task is not None:
                await task
        assert len(done) == 4
        upkeep.close()

    run(main)
