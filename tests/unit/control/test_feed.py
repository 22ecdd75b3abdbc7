import asyncio

import pytest

from pleroma.control import CreateSchema, Done, Feed, Register
from pleroma.control.feed import FEED_TYPES, READ_AT_ONCE, WOKEN_AT_ONCE
from pleroma.control.feed_items import command_items
from pleroma.control.short_values import MAX_SHOWN_CHARACTERS, ShortValues
from support.control_cases import WEATHER


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


def test_readers_are_woken_a_few_at_a_time():
    async def main():
        feed, woken = Feed(), []
        readers = [feed.subscribe() for _ in range(3 * WOKEN_AT_ONCE)]

        async def reading(number):
            await readers[number].woken()
            woken.append(number)

        tasks = [asyncio.create_task(reading(number)) for number in range(len(readers))]
        await asyncio.sleep(0)
        feed.tell(item(1))
        for _ in range(3):
            await asyncio.sleep(0)
        assert woken == list(range(WOKEN_AT_ONCE))
        readers[-1].close()  # while it waits to be woken
        await asyncio.gather(*tasks)
        assert sorted(woken) == list(range(len(readers)))
        assert all(reader.unread() == [item(1)] for reader in readers)

    run(main())


def test_one_sleeps_on_while_there_is_nothing_that_it_may_see():
    async def main():
        feed = Feed()
        reader = feed.subscribe(sees=lambda told: told["n"] > 5)
        waiting = asyncio.create_task(reader.woken())
        await asyncio.sleep(0)
        feed.tell(item(5))
        await asyncio.sleep(0.02)
        assert not waiting.done()
        feed.tell(item(6))
        await waiting
        assert reader.unread() == [item(6)]

    run(main())


def test_who_is_stirred_wakes_without_news_also_if_it_was_busy():
    async def main():
        feed = Feed()
        reader = feed.subscribe()
        feed.stir()
        await reader.woken()
        assert reader.unread() == []
        assert not reader.is_over
        feed.close()
        await reader.woken()
        assert reader.is_over

    run(main())


def test_one_with_much_to_read_has_it_in_parts():
    async def main():
        feed = Feed()
        reader = feed.subscribe(max_unread=READ_AT_ONCE + 2)
        for n in range(READ_AT_ONCE + 5):
            feed.tell(item(n))
        read = []
        while len(read) < READ_AT_ONCE + 3:
            await reader.woken()
            part = reader.unread()
            assert len(part) <= READ_AT_ONCE
            read += part
        assert read == [{"type": "lost", "count": 3}, *(item(n) for n in range(3, READ_AT_ONCE + 5))]

    run(main())


def test_a_long_request_is_told_by_its_beginning_and_whose_it_is():
    boxes = [{"temperature": {"between": [n, n + 1]}} for n in range(1000)]
    command = Register("subscription", "ann", "h1", "weather", boxes, "lease")
    (told,) = command_items(7, command, Done({"id": "s7", "withdrawn": ["x" * 9] * 9999}), {"request"})
    assert told["shortened"] is True
    assert told["command"].items() >= {"do": "register", "principal": "ann", "lease": "lease"}.items()
    assert told["command"]["filter"][:20] == boxes[:20]
    assert told["value"]["id"] == "s7"
    assert len(str(told)) < 4 * MAX_SHOWN_CHARACTERS
    (short,) = command_items(8, CreateSchema(WEATHER), Done({"schema": "weather"}), {"request"})
    assert short["command"]["schema"] == WEATHER.to_json()
    assert "shortened" not in short


@pytest.mark.parametrize(
    ("value", "cut", "is_cut"),
    [
        ("12345678", "12345678", False),
        ("123456789", "12345678", True),
        ([1, 2, 3], [1, 2, 3], False),
        ([{"a": ["12345678"]}, 5], [{"a": ["12345"]}], True),
        ({"a": 1, "b": (True, 0.5)}, {"a": 1, "b": [True]}, True),
    ],
)
def test_values_are_cut_where_there_is_no_more_room(value, cut, is_cut):
    short = ShortValues(8)
    assert (short.cut(value), short.is_cut) == (cut, is_cut)
