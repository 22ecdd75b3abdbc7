"""Subscriptions and advertisements in the lake are in force from the moment of the change, whenever it is written."""

import asyncio
import threading
from datetime import UTC, datetime, timedelta

import pytest

from pleroma.errors import LakeError
from pleroma.pipeline.lake.landed_registrations import LandedRegistrations
from pleroma.service.collecting import registration_landing
from support.service.with_lake import collecting
from support.waiting import run, until


def ids(lake, moment=None):
    return [row.id for row in lake.subscriptions("stock", moment)]


def promised(lake, moment=None):
    return [row.id for row in lake.advertisements("stock", moment)]


def versions(lake):
    return lake.table("subscriptions").version


def test_the_lake_follows_the_subscriptions_and_nothing_else(tmp_path):
    async def main():
        async with collecting(tmp_path) as (api, collection, lake):
            await collection.land()
            assert ids(lake) == []
            before, began = versions(lake), datetime.now(UTC)
            await api.advertise("true", "h1")
            await collection.land(everything=True)
            assert versions(lake) == before  # an advertisement is in a table of its own
            one = await api.subscribe("price < 5", "h2")
            await collection.land(everything=True)
            assert [(row.id, row.host, str(row.filter)) for row in lake.subscriptions("stock")] == [
                (one["id"], "h2", "price < 5")
            ]
            assert ids(lake, began) == []
            await api("DELETE", f"/v1/subscriptions/{one['id']}", 204)
            await collection.land(everything=True)
            assert ids(lake) == []
            assert versions(lake) == before + 2

    run(main)


def test_the_lake_follows_the_advertisements_too(tmp_path):
    async def main():
        async with collecting(tmp_path, advertised=False) as (api, collection, lake):
            await collection.land()
            began = datetime.now(UTC)
            one = await api.advertise("price < 5", "h1")
            await api.subscribe("price < 4", "h2")
            await collection.land(everything=True)
            assert [(row.id, row.host, str(row.filter)) for row in lake.advertisements("stock")] == [
                (one["id"], "h1", "price < 5")
            ]
            during = datetime.now(UTC)
            await api("DELETE", f"/v1/advertisements/{one['id']}", 204)
            await collection.land(everything=True)
            assert [promised(lake, each) for each in (began, during, None)] == [[], [one["id"]], []]
            two = await api.advertise("true", "h1")
            await collection.land(everything=True)
        async with collecting(tmp_path) as (_, collection, lake):
            await collection.land(everything=True)
            assert promised(lake) == [two["id"]]

    run(main)


def test_after_some_were_landed_the_next_wait_for_a_moment(tmp_path, monkeypatch):
    monkeypatch.setattr(registration_landing, "_MIN_SECONDS", 1000.0)

    async def main():
        async with collecting(tmp_path) as (api, collection, lake):
            await collection.land()
            one = await api.subscribe("price < 5", "h2")
            await collection.land()
            assert ids(lake) == []
            await collection.land(everything=True)
            assert ids(lake) == [one["id"]]

    run(main)


def test_those_in_force_are_right_also_when_the_clock_went_back(tmp_path):
    async def main():
        async with collecting(tmp_path) as (api, collection, lake):
            await api.subscribe("price < 3", "h1")
            lake.land_subscriptions("stock", datetime.now(UTC) + timedelta(hours=1), [])  # before it was set right
            await collection.land(everything=True)
            await api.subscribe("price < 5", "h2")
            await collection.land(everything=True)
            assert [row.host for row in lake.subscriptions("stock")] == ["h1", "h2"]

    run(main)


def test_a_restart_lands_what_is_in_force_once(tmp_path):
    async def main():
        async with collecting(tmp_path) as (api, collection, lake):
            one = await api.subscribe("price < 5", "h2")
            two = await api.subscribe("price < 6", "h2")
            await collection.land(everything=True)
            before = versions(lake)
        async with collecting(tmp_path) as (api, collection, lake):
            await collection.land(everything=True)
            assert (versions(lake), ids(lake)) == (before, [one["id"], two["id"]])
            await api("DELETE", f"/v1/subscriptions/{one['id']}", 204)
        async with collecting(tmp_path) as (api, collection, lake):  # that change the last one did not land
            await collection.land(everything=True)
            assert ids(lake) == [two["id"]]

    run(main)


def test_what_could_not_be_landed_is_landed_with_the_time_of_the_change(tmp_path, monkeypatch):
    def refuse(*_):
        raise LakeError("cannot be written")

    async def main():
        async with collecting(tmp_path) as (api, collection, lake):
            await collection.land()
            before = datetime.now(UTC)
            one = await api.subscribe("price < 5", "h2")
            after = datetime.now(UTC)
            with monkeypatch.context() as failing:
                failing.setattr(LandedRegistrations, "land", refuse)
                await collection.land(everything=True)
            await collection.land(everything=True)
            assert (ids(lake, before), ids(lake, after)) == ([], [one["id"]])

    run(main)


def test_a_subscription_stood_until_it_was_withdrawn_however_slow_the_files(tmp_path, monkeypatch):
    begun, may_end = threading.Event(), threading.Event()
    land = LandedRegistrations.land

    def slowly(landed, schema, since, rows, position):
        if rows:
            begun.set()
            assert may_end.wait(20)
        land(landed, schema, since, rows, position)

    monkeypatch.setattr(LandedRegistrations, "land", slowly)

    async def main():
        async with collecting(tmp_path, running=True, advertised=False) as (api, _, lake):
            one = await api.subscribe("price < 5", "h1")
            first = datetime.now(UTC)
            await until(begun.is_set, 20)
            last = datetime.now(UTC)
            await asyncio.sleep(0.05)  # it stands a little longer
            await api("DELETE", f"/v1/subscriptions/{one['id']}", 204)
            gone = datetime.now(UTC)
            may_end.set()
            await until(lambda: [ids(lake, each) for each in (first, last, gone)] == [[one["id"]], [one["id"]], []], 20)

    run(main)


def test_a_lake_of_a_log_that_was_longer_is_refused(tmp_path):
    async def main():
        async with collecting(tmp_path) as (api, collection, _):
            await api.subscribe("price < 5", "h2")
            await collection.land(everything=True)
        with pytest.raises(LakeError, match="another log"):
            async with collecting(tmp_path / "anew", lake=tmp_path / "lake"):
                pass

    run(main)
