"""The sample of recent events under the plan in force: encoded once, however many ask and however small it came."""

import asyncio

from pleroma.content.batch import EventBatch
from pleroma.control.state.records import SchemaEntry
from pleroma.index import ROOT, GridIndex, IndexPlan
from pleroma.service.collecting.recent_events import RecentEvents
from pleroma.service.http.sampled_traffic import SampledTraffic
from support.strategies import STOCK
from support.waiting import run

OTHER = type(STOCK)("other", STOCK.attributes)


def entry(schema=STOCK):
    return SchemaEntry(schema, 0, ROOT, [IndexPlan(1, GridIndex.regular(schema, 6), 8)])


def one(price, schema=STOCK):
    return EventBatch.from_columns(schema, {"price": [price], "volume": [1], "ticker": ["A"]})


def test_those_who_ask_at_a_time_get_the_same_sample():
    async def main():
        recent, asked = RecentEvents(), entry()
        traffic = SampledTraffic(recent)
        assert await traffic.of(asked) is None
        recent.add(one(1.0))
        first, second = await asyncio.gather(traffic.of(asked), traffic.of(asked))
        assert first is second
        recent.add(one(2.0, OTHER))
        assert await traffic.of(asked) is first
        assert len((await traffic.of(entry(OTHER))).events) == 1
        recent.add(one(3.0))
        assert len((await traffic.of(asked)).events) == 2

    run(main)


def test_who_gives_up_waiting_spoils_it_for_nobody():
    async def main():
        recent, asked = RecentEvents(), entry()
        traffic = SampledTraffic(recent)
        recent.add(one(1.0))
        waiting = [asyncio.create_task(traffic.of(asked)) for _ in range(2)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        assert len((await waiting[1]).events) == 1

    run(main)


def test_the_last_events_are_the_same_however_often_somebody_asks():
    often, seldom = RecentEvents(max_events=5), RecentEvents(max_events=5)
    for number in range(23):
        for each in (often, seldom):
            each.add(one(float(number)))
        assert often.of("stock").columns[0][-1] == number
    assert often.of("stock").columns[0].tolist() == seldom.of("stock").columns[0].tolist() == [18, 19, 20, 21, 22]
