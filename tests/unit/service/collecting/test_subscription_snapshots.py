"""Snapshots of the subscriptions in the lake are valid from the moment of the change."""

import asyncio
import threading
from datetime import UTC, datetime, timedelta

from pleroma.pipeline.lake.lake import Lake
from pleroma.service.collecting import subscription_snapshots
from support.service.with_lake import collecting
from support.waiting import run, until


def snapshot_ids(lake, moment):
    """The ids of the subscriptions of a moment, if there is a snapshot of it."""
    there = lake.snapshots("stock", end=moment)
    return [row.id for row in lake.subscriptions("stock", moment).rows] if there else None


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


def test_a_snapshot_that_was_just_written_is_not_followed_by_another_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(subscription_snapshots, "_MIN_SNAPSHOT_SECONDS", 1000.0)

    async def main():
        async with collecting(tmp_path) as (api, collection, lake):
            await collection.land()
            await api.subscribe("price < 5", "h2")
            await collection.land()
            assert len(lake.snapshots("stock")) == 1
            collection._snapshots._due = 0.0
            await collection.land()
            assert len(lake.snapshots("stock")) == 2

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
            await until(begun.is_set, 20)
            last = datetime.now(UTC)
            await asyncio.sleep(0.3)  # it is seen to stand
            await api("DELETE", f"/v1/subscriptions/{one['id']}", 204)
            gone = datetime.now(UTC)
            may_end.set()
            moments = (first, last, gone)
            await until(lambda: [snapshot_ids(lake, each) for each in moments] == [[one["id"]], [one["id"]], []], 20)

    run(main)
