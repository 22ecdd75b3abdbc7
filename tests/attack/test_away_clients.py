"""A client that stands still for longer than its lease while the plan changes: the change ends, and it comes back."""

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import pleroma
from pleroma.index import GridIndex
from support.programs import environment
from support.service.process import ServiceProcess
from support.strategies import STOCK
from support.waiting import until

LONG = os.environ.get("PLEROMA_LONG") == "1"
PERIOD_SECONDS = 2.0
PROGRAM = Path(__file__).parents[1] / "process" / "leased_client.py"
METHODS = ["lightweight", "versioning"] if LONG else ["versioning"]


@pytest.fixture
def service(tmp_path):
    with ServiceProcess(tmp_path / "controller", lease_seconds=PERIOD_SECONDS, requests_per_s=1e6) as started:
        started.ask("POST", "/v1/schemas", {"schema": STOCK.to_json()})
        yield started


@asynccontextmanager
async def stopped(service):
    """A client process that publishes, and then stands still; it is killed in the end."""
    command = [sys.executable, str(PROGRAM), service.url, service.token, "2"]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment()
    )
    try:
        assert await process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGSTOP)
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


def quote(number):
    return STOCK.event(price=float(number % 500), volume=number % 1000, ticker="AAPL")


@pytest.mark.parametrize("method", METHODS)
def test_a_change_of_plans_ends_without_a_client_that_stands_still_and_has_it_back_later(service, method):
    async def main():
        async with (
            pleroma.connect(service.url, service.token, "h1") as near,
            pleroma.connect(service.url, service.token, "h5") as far,
        ):
            publisher = await near.advertise("stock", "ticker == 'AAPL'")
            wanted = await far.subscribe("stock", "ticker == 'AAPL'", queue=100_000)
            odd = await far.subscribe("stock", "price == 999")
            sent = 0
            async with stopped(service) as process:
                index = GridIndex.regular(STOCK, 10, ["volume", "price"]).to_json()
                body = {"index": index, "method": method}
                change = asyncio.create_task(asyncio.to_thread(service.ask, "PUT", "/v1/schemas/stock/plan", body))
                while not change.done():
                    publisher.publish(quote(sent))
                    sent += 1
                    await asyncio.sleep(0.01)
                assert (await change)["epoch"] == 2
                await until(lambda: publisher.channel.epoch == 2, 30)
                await until(lambda: len(service.registered()) == 3, 30)  # its lease has ended
                process.send_signal(signal.SIGCONT)
                while odd.waiting:
                    await odd.receive()
                assert (await odd.receive()).event["ticker"] == "ODD"  # it publishes again, by the new plan
                await until(lambda: wanted.info.delivered >= sent, 30)
                await asyncio.sleep(0.3)
                assert (wanted.info.delivered, wanted.info.duplicates) == (sent, 0)

    asyncio.run(asyncio.wait_for(main(), 120))
