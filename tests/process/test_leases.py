"""A client that was killed leaves nothing behind for ever, and takes nothing away from others."""

import asyncio
import os
import random
import signal
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import pleroma
from support.programs import environment
from support.service.process import ServiceProcess
from support.strategies import STOCK
from support.waiting import until, until_registered

LONG = os.environ.get("PLEROMA_LONG") == "1"
KILLS = 40 if LONG else 3
PERIOD = 2.0
HERE = Path(__file__).parent


@pytest.fixture
def service(tmp_path):
    with ServiceProcess(tmp_path / "controller", lease_seconds=PERIOD, requests_per_s=1e6) as started:
        started.ask("POST", "/v1/schemas", {"schema": STOCK.to_json()})
        yield started


def run(work, seconds=60.0 + 10.0 * KILLS):
    async def limited():
        async with asyncio.timeout(seconds):
            await work

    asyncio.run(limited())


@asynccontextmanager
async def victim(service, seed):
    """A client process that has registered something; it is killed at the latest here."""
    arguments = [str(HERE / "leased_client.py"), service.url, service.token, str(seed)]
    process = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment()
    )
    try:
        assert await process.stdout.readline() == b"ready\n"
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


def tables(service):
    """The rules of all switches."""
    return {
        each["name"]: sorted(map(str, service.ask("GET", f"/v1/switches/{each['name']}/flows?limit=1000")["items"]))
        for each in service.ask("GET", "/v1/switches")["items"]
    }


def quote(number):
    return STOCK.event(price=float(number % 500), volume=number % 1000, ticker="AAPL")


async def publishing(publisher, sent):
    """A steady stream, gentle enough for a busy machine to carry it without loss."""
    while True:
        publisher.publish(quote(len(sent)))
        sent.append(quote(len(sent)))
        await asyncio.sleep(0.005)


def test_a_killed_client_disappears_and_others_lose_nothing(service):
    chance = random.Random() if LONG else random.Random(3)

    async def work():
        async with (
            pleroma.connect(service.url, service.token, "h1") as near,
            pleroma.connect(service.url, service.token, "h5") as far,
        ):
            publisher = await near.advertise("stock", "price < 500")
            subscription = await far.subscribe("stock", "ticker == 'AAPL'", queue=1_000_000)
            left = service.ask("POST", "/v1/subscriptions", {"schema": "stock", "filter": "price < 3", "host": "h2"})
            ours = sorted([publisher.id, subscription.id, left["id"]])
            before = await asyncio.to_thread(tables, service)
            sent = []
            stream = asyncio.create_task(publishing(publisher, sent))
            for seed in range(KILLS):
                async with victim(service, seed) as process:
                    await asyncio.sleep(chance.random() * 1.5 * PERIOD)  # with and without a renewal
                    assert len(await asyncio.to_thread(service.registered)) > len(ours)
                    process.kill()
                await until_registered(service, lambda: ours)
                assert await asyncio.to_thread(tables, service) == before
            stream.cancel()
            await until(lambda: subscription.info.delivered >= len(sent))
            got = [(await subscription.receive()).event for _ in sent]
            assert got == sent
            assert (publisher.info.unsent, subscription.info.dropped) == (0, 0)
            assert sorted([publisher.id, subscription.id, left["id"]]) == ours

    run(work())


def test_a_lease_expires_also_when_the_controller_died_with_its_client(service):
    async def work():
        async with (
            pleroma.connect(service.url, service.token, "h1") as near,
            pleroma.connect(service.url, service.token, "h5") as far,
        ):
            publisher, subscription = await near.advertise("stock"), await far.subscribe("stock", "price < 500")
            ours = [publisher.id, subscription.id]
            before = await asyncio.to_thread(tables, service)
            async with victim(service, 1) as process:
                assert len(await asyncio.to_thread(service.registered)) > 2
                service.kill()
                process.kill()
            await asyncio.to_thread(service.start)
            await near.connected()
            await far.connected()
            await until_registered(service, lambda: ours)
            assert await asyncio.to_thread(tables, service) == before
            await asyncio.sleep(2 * PERIOD)
            assert [publisher.id, subscription.id] == ours  # nothing was made anew
            publisher.publish(quote(7))
            while (await subscription.receive()).event["price"] != 7.0:
                pass

    run(work())


def test_a_client_that_stood_still_for_too_long_registers_again(service):
    async def work():
        async with pleroma.connect(service.url, service.token, "h5") as far:
            subscription = await far.subscribe("stock", "price == 999")
            async with victim(service, 2) as process:
                process.send_signal(signal.SIGSTOP)
                await until_registered(service, lambda: [subscription.id])
                process.send_signal(signal.SIGCONT)
                while subscription.waiting:
                    await subscription.receive()
                assert (await subscription.receive()).event["ticker"] == "ODD"  # it publishes as before

    run(work())
