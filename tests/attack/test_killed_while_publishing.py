"""kill -9 of the controller at any moment while clients publish: what docs/client.md promises then."""

import asyncio
import os
import random
import time

import pleroma
from support.service.process import ServiceProcess
from support.strategies import STOCK
from support.waiting import until

LONG = os.environ.get("PLEROMA_LONG") == "1"
KILLS = 12 if LONG else 1
PAUSE_SECONDS = 0.002
UNDER_WAY_SECONDS = 1.0
"""What was published so long before a kill has arrived, also on a busy machine."""


class Ticker:
    """Publishes without a pause, and remembers when it published what."""

    def __init__(self, publisher):
        self.publisher = publisher
        self.times = []
        self._task = asyncio.create_task(self._publish())

    async def _publish(self):
        while True:
            event = STOCK.event(price=100.0, volume=len(self.times) % 1000, ticker="AAPL")
            assert self.publisher.publish(event) == len(self.times) + 1, "a number left out, or given twice"
            self.times.append(time.monotonic())
            await asyncio.sleep(PAUSE_SECONDS)

    async def stop(self):
        assert not self._task.done(), "publishing must not fail because the controller is away"
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def between(self, first, last):
        return {number for number, published in enumerate(self.times, 1) if first <= published <= last}


async def reading(subscription, numbers):
    while True:
        numbers.append((await subscription.receive()).sequence)


def test_events_are_lost_only_while_the_controller_is_away_and_none_comes_twice(tmp_path):
    chance = random.Random() if LONG else random.Random(3)
    with ServiceProcess(tmp_path / "state", requests_per_s=1e6) as service:
        service.ask("POST", "/v1/schemas", {"schema": STOCK.to_json()})

        async def work():
            async with (
                pleroma.connect(service.url, service.token, "h1") as near,
                pleroma.connect(service.url, service.token, "h5") as far,
            ):
                publisher = await near.advertise("stock", "price < 900")
                subscription = await far.subscribe("stock", "price < 500", queue=1_000_000)
                ids = publisher.id, subscription.id
                got, away = [], []
                reader = asyncio.create_task(reading(subscription, got))
                ticker = Ticker(publisher)
                for _ in range(KILLS):
                    await asyncio.sleep(chance.uniform(0, 1.5))
                    killed = time.monotonic()
                    service.kill()
                    await asyncio.sleep(chance.choice([0, 0.3]))
                    await asyncio.to_thread(service.start)
                    first = len(got)
                    await until(lambda: len(got) > first, 20)  # noqa: B023
                    await near.connected()
                    await far.connected()
                    away.append((killed - UNDER_WAY_SECONDS, time.monotonic()))
                await asyncio.sleep(UNDER_WAY_SECONDS)
                await ticker.stop()
                last = len(ticker.times)
                await until(lambda: got[-1] == last)
                reader.cancel()
                lost = set(range(1, last + 1)) - set(got)
                excused = set().union(*(ticker.between(*each) for each in away))
                assert len(got) == len(set(got)), "an event came twice"
                assert lost <= excused
                assert sorted(got) == got
                assert publisher.info.unsent <= len(lost), "counted as unsent, and it arrived"
                assert (publisher.id, subscription.id) == ids
                assert sorted(service.registered()) == sorted(ids)

        asyncio.run(asyncio.wait_for(work(), 60 + 20 * KILLS))
