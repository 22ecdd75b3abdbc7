"""A disk that takes seconds for a sync, or has no room: who needs it waits or is told, and nobody else notices."""

import asyncio
import errno
import shutil
import time
from contextlib import asynccontextmanager, contextmanager

import httpx
import pytest

import pleroma
from pleroma.control.log.sqlite_file import LogFile
from pleroma.errors import DiskFull, RequestRefused
from pleroma.routing import build
from pleroma.service import Deployment, ServiceSettings, running
from support.small_disk import free_bytes, small_disk
from support.strategies import STOCK

SYNC_SECONDS = 1.0


@contextmanager
def slow_syncs(monkeypatch):
    """From here on each transaction takes as long as on a disk that is about to fail."""
    real = LogFile.writing

    @contextmanager
    def slowly(self):
        with real(self) as connection:
            yield connection
            time.sleep(SYNC_SECONDS)

    with monkeypatch.context() as patched:
        patched.setattr(LogFile, "writing", slowly)
        yield


@asynccontextmanager
async def served(folder):
    settings = ServiceSettings(requests_per_s=1e6)
    async with running(folder, build("line:3"), Deployment(port=0, settings=settings)) as service:
        headers = {"Authorization": f"Bearer {service.token}"}
        async with httpx.AsyncClient(base_url=service.url, headers=headers, timeout=30) as api:
            assert (await api.post("/v1/schemas", json={"schema": STOCK.to_json()})).status_code == 201
            yield service, api


async def ticking(publisher):
    while True:
        publisher.publish(STOCK.event(price=1.0, volume=1, ticker="AAPL"))
        await asyncio.sleep(0.01)


async def longest_gap(subscription):
    """Read until cancelled; the longest time without an event."""
    longest, last = 0.0, time.monotonic()
    try:
        while True:
            await subscription.receive()
            now = time.monotonic()
            longest, last = max(longest, now - last), now
    except asyncio.CancelledError:
        return max(longest, time.monotonic() - last)


def test_a_slow_disk_delays_only_those_who_need_it(tmp_path, monkeypatch):
    async def main():
        async with (
            served(tmp_path / "state") as (service, api),
            pleroma.connect(service.url, service.token, "h1") as near,
            pleroma.connect(service.url, service.token, "h3") as far,
        ):
            publisher = await near.advertise("stock")
            subscription = await far.subscribe("stock", "price < 10")
            sending = asyncio.create_task(ticking(publisher))
            await subscription.receive()
            with slow_syncs(monkeypatch):
                gaps = asyncio.create_task(longest_gap(subscription))
                registering = asyncio.create_task(far.subscribe("stock", "price > 500"))
                saving = asyncio.create_task(service.service.controller._logged.save_snapshot())
                answers = []
                while not (registering.done() and saving.done()):
                    before = time.monotonic()
                    assert (await api.get("/health")).status_code == 200
                    answers.append(time.monotonic() - before)
                    await asyncio.sleep(0.02)
                gaps.cancel()
                assert await gaps < 0.7 * SYNC_SECONDS
                assert max(answers) < 0.7 * SYNC_SECONDS
                assert len(answers) > 10
                await registering
                await saving
            sending.cancel()

    asyncio.run(asyncio.wait_for(main(), 60))


async def subscribing(client, ids):
    """Subscribe until that fails."""
    for number in range(1000):
        subscription = await client.subscribe("stock", f"price > {number}")
        ids.append(subscription.id)


def test_on_a_full_disk_events_flow_requests_are_refused_and_all_goes_on_when_there_is_room(tmp_path):
    async def main(folder):
        async with (
            served(folder / "state") as (service, api),
            pleroma.connect(service.url, service.token, "h1", patience=1.0) as near,
            pleroma.connect(service.url, service.token, "h3", patience=1.0) as far,
        ):
            publisher = await near.advertise("stock")
            subscription = await far.subscribe("stock", "price < 10")
            (folder / "ballast").write_bytes(bytes(free_bytes(folder)))
            kept = [subscription.id]
            with pytest.raises(RequestRefused) as refused:
                await subscribing(far, kept)
            assert (refused.value.status, refused.value.code) == (507, "disk_full")
            assert "the disk is full; nothing was written" in str(refused.value)
            publisher.publish(STOCK.event(price=1.0, volume=1, ticker="AAPL"))
            assert (await asyncio.wait_for(subscription.receive(), 10)).event["price"] == 1.0
            assert (await api.get("/v1/subscriptions")).status_code == 200
            (folder / "ballast").unlink()
            kept.append((await far.subscribe("stock", "price > 5")).id)
            listed = (await api.get("/v1/subscriptions", params={"limit": 1000})).json()["items"]
            assert sorted(each["id"] for each in listed) == sorted(kept)

    with small_disk(tmp_path / "disk", megabytes=2) as folder:
        asyncio.run(asyncio.wait_for(main(folder), 60))


def test_a_first_start_without_room_fails_with_one_error_and_the_next_one_succeeds(tmp_path):
    async def starts(folder):
        async with running(folder, build("line:3"), Deployment(port=0)) as service:
            assert service.token_file.read_text().strip()

    with small_disk(tmp_path / "disk") as disk:
        outcomes = []
        for room in (0, 4, 12, 40, 64, 100, 400):
            state = disk / f"state {room}"
            ballast = disk / "ballast"
            ballast.write_bytes(bytes(free_bytes(disk) - room * 1024))
            try:
                asyncio.run(asyncio.wait_for(starts(state), 30))
                outcomes.append("started")
            except DiskFull:
                outcomes.append("full")
            except OSError as error:  # which commands show in one line as well
                outcomes.append("full" if error.errno == errno.ENOSPC else str(error))
            ballast.unlink()
            asyncio.run(asyncio.wait_for(starts(state), 30))
            shutil.rmtree(state)
    assert sorted(outcomes) == outcomes
    assert set(outcomes) == {"full", "started"}
