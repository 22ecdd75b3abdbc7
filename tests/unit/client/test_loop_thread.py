"""An event loop in a thread of its own, used by programs that have none and by programs that have one."""

import asyncio

import pytest

from pleroma.client.loop_thread import LoopThread
from pleroma.errors import ClientClosed


def test_it_closes_where_another_loop_runs_and_ends_generators_that_were_not_exhausted():
    ended = []

    async def numbers():
        try:
            yield 1
            yield 2
        finally:
            ended.append(True)

    async def first(generator):
        return await anext(generator)

    async def program():
        loop, generator = LoopThread(), numbers()
        assert loop.run(first(generator)) == 1
        loop.close()
        assert loop.is_closed
        assert ended == [True]

    asyncio.run(program())


def test_nothing_runs_after_it_is_closed():
    loop = LoopThread()
    loop.close()
    with pytest.raises(ClientClosed):
        loop.run(asyncio.sleep(0))
