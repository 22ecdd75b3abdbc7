"""The queue of what waits to be landed: portions by plan, rate and hour, up to a bound."""

from datetime import UTC, datetime

import numpy as np

from pleroma.content.batch import EventBatch
from pleroma.pipeline.lake.lake import ReportRow
from pleroma.service.collecting.landing_queue import LandingQueue, ReportedCounters, SampledEvents
from support.service.with_lake import COLUMNS, STOCK


def test_what_waits_is_put_together_by_plan_and_rate():
    waiting = LandingQueue(100)
    events = EventBatch.from_columns(STOCK, COLUMNS)
    at = np.array([1, 2], "datetime64[us]")
    for epoch, rate in ((1, 0.5), (1, 0.5), (2, 0.5), (1, 1.0), (1, 0.5)):
        assert waiting.add_events(SampledEvents(events, at, epoch, rate)) == 2
    taken = waiting.take_events(4)
    assert [(len(each.events), each.epoch, each.rate) for each in taken] == [
        (4, 1, 0.5),
        (2, 1, 0.5),
        (2, 2, 0.5),
        (2, 1, 1.0),
    ]
    assert taken[1].events == events
    assert waiting.take_events(4) == []
    assert waiting.count == 10
    for each in taken:
        waiting.landed_events(each)
    assert waiting.count == 0


def test_reports_wait_as_long_as_there_is_room():
    waiting, now = LandingQueue(3), datetime.now(UTC)
    reported = [ReportedCounters("ab"[n % 2], now, ReportRow(f"s{n}", "me")) for n in range(5)]
    waiting.add_reports(reported)
    assert waiting.reports.dropped == 2
    taken = waiting.take_reports(100)
    assert [[(each.schema, each.row.subscription) for each in portion] for portion in taken] == [
        [("a", "s0"), ("a", "s2")],
        [("b", "s1")],
    ]
    waiting.landed_reports(taken[0])
    waiting.give_back_reports(taken[1])
    waiting.add_reports(reported)
    assert waiting.reports.dropped == 2 + 3
    assert [len(portion) for portion in waiting.take_reports(1)] == [1, 1, 1]
