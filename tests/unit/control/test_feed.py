import asyncio

from pleroma.control import Feed


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 10))


async def read(listener):
    return [item async for item in listener]


def test_every_listener_hears_everything_from_then_on():
    async def scenario():
        feed = Feed()
        assert not feed
        feed.tell({"n": 0})
        one = feed.subscribe()
        feed.tell({"n": 1})
        two = feed.subscribe()
        feed.tell({"n": 2})
        assert len(feed) == 2
        feed.close()
        assert await read(one) == [{"n": 1}, {"n": 2}]
        assert await read(two) == [{"n": 2}]
        assert not feed

    run(scenario())


def test_a_slow_listener_loses_the_oldest_and_hears_how_many():
    async def scenario():
        feed = Feed()
        slow, quick = feed.subscribe(room=3), feed.subscribe()
        for n in range(10):
            feed.tell({"n": n})
        assert await anext(slow) == {"type": "lost", "count": 7}
        assert [(await anext(slow))["n"] for _ in range(2)] == [7, 8]
        for n in range(10, 13):
            feed.tell({"n": n})
        feed.close()
        assert await read(slow) == [{"type": "lost", "count": 1}, {"n": 10}, {"n": 11}, {"n": 12}]
        assert [item["n"] for item in await read(quick)] == list(range(13))

    run(scenario())


def test_a_listener_waits_for_news():
    async def scenario():
        feed = Feed()
        listener = feed.subscribe()
        waiting = asyncio.create_task(anext(listener))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        feed.tell({"n": 1})
        assert await waiting == {"n": 1}
        waiting = asyncio.create_task(read(listener))
        await asyncio.sleep(0)
        listener.close()
        assert await waiting == []

    run(scenario())


def test_one_who_left_hears_no_more():
    async def scenario():
        feed = Feed()
        with feed.subscribe() as listener:
            feed.tell({"n": 1})
        feed.tell({"n": 2})
        assert await read(listener) == [{"n": 1}]

    run(scenario())
