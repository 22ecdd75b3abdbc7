import asyncio

from pleroma.control import Feed
from pleroma.control.feed import FEED_TYPES


def item(n, kind="request"):
    return {"type": kind, "n": n}


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 10))


async def read(reader):
    return [each async for each in reader]


def test_every_reader_hears_everything_from_then_on():
    async def scenario():
        feed = Feed()
        assert not feed
        feed.tell(item(0))
        one = feed.subscribe()
        feed.tell(item(1))
        two = feed.subscribe()
        feed.tell(item(2))
        assert len(feed) == 2
        feed.close()
        assert await read(one) == [item(1), item(2)]
        assert await read(two) == [item(2)]
        assert not feed

    run(scenario())


def test_a_slow_reader_loses_the_oldest_and_hears_how_many():
    async def scenario():
        feed = Feed()
        slow, quick = feed.subscribe(max_unread=3), feed.subscribe()
        for n in range(10):
            feed.tell(item(n))
        assert await anext(slow) == {"type": "lost", "count": 7}
        assert [(await anext(slow))["n"] for _ in range(2)] == [7, 8]
        for n in range(10, 13):
            feed.tell(item(n))
        feed.close()
        assert await read(slow) == [{"type": "lost", "count": 1}, item(10), item(11), item(12)]
        assert [item["n"] for item in await read(quick)] == list(range(13))

    run(scenario())


def test_a_reader_waits_for_news():
    async def scenario():
        feed = Feed()
        reader = feed.subscribe()
        waiting = asyncio.create_task(anext(reader))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        feed.tell(item(1))
        assert await waiting == item(1)
        waiting = asyncio.create_task(read(reader))
        await asyncio.sleep(0)
        reader.close()
        assert await waiting == []

    run(scenario())


def test_one_who_left_hears_no_more():
    async def scenario():
        feed = Feed()
        with feed.subscribe() as reader:
            feed.tell(item(1))
        feed.tell(item(2))
        assert await read(reader) == [item(1)]

    run(scenario())


def test_one_hears_only_what_it_asked_for_and_nothing_else_is_worth_describing():
    async def main():
        feed = Feed()
        assert feed.wanted == frozenset()
        plans = feed.subscribe(types=frozenset({"plan"}))
        assert feed.wanted == {"plan"}
        everything = feed.subscribe()
        assert feed.wanted == FEED_TYPES
        feed.tell(item(1))
        feed.tell(item(2, "plan"))
        everything.close()
        assert feed.wanted == {"plan"}
        plans.close()
        assert feed.wanted == frozenset()
        assert await read(plans) == [item(2, "plan")]
        assert await read(everything) == [item(1), item(2, "plan")]

    asyncio.run(main())
