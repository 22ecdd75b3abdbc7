"""Brokers that are joined in a circle, by mistake or on purpose: one link is left out, and events come once."""

import asyncio
import os
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

import pytest

from support.broker_parts import here
from support.network.world import free_port
from support.strategies import STOCK
from support.waiting import run, until


@asynccontextmanager
async def circle(folder, size):
    """Brokers of which each has the next one above it, and the last one the first."""
    ports, ways = [free_port() for _ in range(size)], []
    for number in range(size):  # principals first, so that all can join each other at the same moment
        async with here(folder / str(number), schemas=[STOCK] if number == 0 else ()) as made:
            ways.append(await made.principal("below"))
    async with AsyncExitStack() as stack:
        brokers = []
        for number in range(size):
            above = (number + 1) % size
            way = replace(ways[above], url=f"udp://127.0.0.1:{ports[above]}")
            brokers.append(await stack.enter_async_context(here(folder / str(number), way, port=ports[number])))
        yield brokers


long = pytest.mark.skipif(os.environ.get("PLEROMA_LONG") != "1", reason="takes seconds more: set PLEROMA_LONG=1")


@pytest.mark.parametrize("size", [2, pytest.param(1, marks=long), pytest.param(3, marks=long)])
def test_in_a_circle_one_link_is_left_out_and_an_event_comes_once(tmp_path, size):
    async def main():
        async with circle(tmp_path, size) as brokers, AsyncExitStack() as stack:
            ways = [each.plane.upstream for each in brokers]
            await until(
                lambda: (
                    [each.is_connected for each in ways].count(False) == 1
                    and ["circle" in str(each.failure) for each in ways].count(True) == 1
                ),
                60,
            )
            await until(lambda: all("stock" in each.controller.state.schemas for each in brokers), 60)
            clients = [await stack.enter_async_context(each.connect()) for each in brokers]
            subscriptions = [await each.subscribe("stock", "true") for each in clients]
            publishers = [await each.advertise("stock") for each in clients]
            await asyncio.sleep(0.5)
            for number, publisher in enumerate(publishers):
                publisher.publish(STOCK.event(price=1.0, volume=number, ticker="A"))
            for each in subscriptions:
                await until(lambda each=each: each.info.delivered >= size, 30)
            await asyncio.sleep(1.0)
            assert [each.info.delivered for each in subscriptions] == [size] * size
            assert all(len(each.controller.state.registrations) <= 2 * size + 2 for each in brokers)
            assert all(each.counters.published <= size for each in brokers)

    run(main, 150)
