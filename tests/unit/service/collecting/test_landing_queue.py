"""The queue of what waits to be landed: in order by table, up to a bound, a trickle less often."""

from datetime import UTC, datetime

import numpy as np

from pleroma.content.batch import EventBatch
from pleroma.pipeline.lake.landed import ReportedCounters, ReportRow, SampledEvents
from pleroma.service.collecting.landing_queue import FILE_ROWS, MAX_LANDED_BATCHES, PATIENCE_FACTOR, LandingQueue
from support.service.with_lake import COLUMNS, STOCK

TWO = EventBatch.from_columns(STOCK, COLUMNS)


def sampled(epoch=1, events=TWO):
    return SampledEvents(events, np.zeros(len(events), "datetime64[us]"), epoch, 0.5)


def reported(rows):
    return ReportedCounters("stock", datetime.now(UTC), tuple(ReportRow(f"s{n}", "me") for n in range(rows)))


def test_what_waits_stays_in_order_until_it_is_landed():
    waiting = LandingQueue(100)
    for epoch in range(5):
        assert waiting.add_events(sampled(epoch)) == 2
    queue = waiting.events["stock"]
    assert [each.epoch for each in queue.oldest(5)] == [0, 1]  # 5 rows hold two whole samples
    assert [each.epoch for each in queue.oldest(1)] == [0]  # at least one
    assert [each.epoch for each in queue.oldest(4)] == [0, 1]  # the landing failed: the same ones
    assert waiting.count == 10
    queue.landed(queue.oldest(4), 3)  # one of their rows was there
    assert [each.epoch for each in queue.oldest(100)] == [2, 3, 4]
    assert (waiting.count, waiting.event_counts.landed, waiting.event_counts.repeated) == (6, 3, 1)


def test_small_batches_are_not_landed_all_at_once():
    waiting = LandingQueue(100_000)
    for _ in range(MAX_LANDED_BATCHES + 1):
        waiting.add_reports(reported(1))
    assert len(waiting.reports.oldest(100_000)) == MAX_LANDED_BATCHES


def test_what_there_is_no_room_for_is_dropped():
    waiting = LandingQueue(3)
    assert [waiting.add_events(sampled()) for _ in range(2)] == [2, 0]
    for _ in range(2):
        waiting.add_reports(reported(2))
    assert (waiting.event_counts.dropped, waiting.report_counts.dropped) == (2, 2)
    waiting.reports.landed(waiting.reports.oldest(100), 2)
    waiting.add_reports(reported(3))
    assert (waiting.reports.rows, waiting.report_counts.dropped) == (3, 2)


def test_less_than_a_file_waits_for_more_but_not_for_ever():
    now = [0.0]
    waiting = LandingQueue(100_000, lambda: now[0])
    waiting.add_reports(reported(FILE_ROWS - 1))
    queue = waiting.reports
    now[0] = 5.0 * PATIENCE_FACTOR - 0.1
    assert not queue.is_due(5.0, 10_000)
    now[0] += 0.1
    assert queue.is_due(5.0, 10_000)
    queue.landed(queue.oldest(10_000), 1)
    assert not queue.is_due(5.0, 10_000)
    queue.add(reported(FILE_ROWS))
    assert not queue.is_due(5.0, 10_000)
    now[0] += 5.0
    assert queue.is_due(5.0, 10_000)


def test_rows_of_many_hours_wait_until_there_are_enough_for_a_file_of_each():
    now = [0.0]
    waiting = LandingQueue(100_000, lambda: now[0])
    many = EventBatch.from_columns(STOCK, {name: values * (FILE_ROWS // 2) for name, values in COLUMNS.items()})
    waiting.add_events(sampled(events=many))
    now[0] = 5.0
    queue = waiting.events["stock"]
    assert queue.is_due(5.0, 100_000)
    two_hours = np.array([0, 3600], "datetime64[s]").astype("datetime64[us]")
    waiting.add_events(SampledEvents(TWO, two_hours, 1, 0.5))
    assert not queue.is_due(5.0, 100_000)
    assert queue.landed(queue.oldest(100_000), 5_002) == 2
    waiting.add_events(sampled(events=many))
    now[0] = 10.0
    assert queue.is_due(5.0, 100_000)  # the other hour is landed


def test_enough_for_a_file_is_landed_at_once():
    waiting = LandingQueue(100_000, lambda: 0.0)
    waiting.add_reports(reported(1000))
    assert waiting.reports.is_due(5.0, 1000)
    assert not waiting.reports.is_due(5.0, 1001)
