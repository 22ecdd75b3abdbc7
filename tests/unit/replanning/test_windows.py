"""Windows: sums that do not depend on how the events were split, and equal to what counter slowly gives."""

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pleroma.content import Schema
from pleroma.content.arrow_columns import MOMENT_TYPE, to_columns
from pleroma.content.batch import EventBatch
from pleroma.errors import LakeError
from pleroma.index import IndexPlan
from pleroma.pipeline.lake.lake_tables import EventColumns
from pleroma.pipeline.lake.landed import LandedPlan, RegistrationRow
from pleroma.pipeline.lake.moments import from_microseconds
from pleroma.pipeline.lake.registration_history import RegistrationHistory, TimedRegistration, written
from pleroma.pipeline.watch.window_counts import LakeHistory, WindowCounter
from pleroma.replanning.reported_counts import ReportedCounts
from pleroma.replanning.windows import MetricKey, TrafficWindow, empty_between, merged
from support.watch_cases import (
    BEGIN,
    BY_PRICE,
    BY_VOLUME,
    MEMBERS,
    SCHEMA,
    WINDOW,
    new_lake,
    slow_counts,
    subscriptions,
    traffic,
)

LENGTH = WINDOW // timedelta(microseconds=1)
ROWS = subscriptions(10)


def timed(*stretches):
    """Subscriptions by the time that they are in force."""
    entries = [TimedRegistration(written(row), since, until) for since, until, rows in stretches for row in rows]
    return RegistrationHistory(SCHEMA, tuple(entries), BEGIN)


class FixedHistory:
    """Two plans, and subscriptions that change in the third window."""

    def __init__(self):
        self.plans = {e: LandedPlan(BEGIN, IndexPlan(e, index, MEMBERS)) for e, index in PLANS.items()}
        self.held = timed((BEGIN, None, ROWS[:4]), (BEGIN, THIRD, ROWS[4:]))

    def plan(self, epoch):
        return self.plans.get(epoch)

    def subscriptions(self, _start, _end):
        return self.held


THIRD = BEGIN + 2 * WINDOW
PLANS = {1: BY_PRICE, 2: BY_VOLUME}


def batch(events, at, epoch):
    names = EventColumns.of(SCHEMA)
    own = {
        names.id: pa.array(range(len(events))),
        names.at: pa.array(at, MOMENT_TYPE),
        names.epoch: pa.array(epoch, pa.int32()),
        names.rate: pa.array([1.0] * len(events)),
    }
    return pa.RecordBatch.from_pydict(own | to_columns(events))


def windows_of(batches, history=None):
    counter = WindowCounter(SCHEMA, history or FixedHistory(), LENGTH)
    found = {}
    for each in batches:
        for start, _, cells in counter.count(each):
            window = TrafficWindow.of(SCHEMA, from_microseconds(start), WINDOW, cells)
            found.setdefault(window.start, []).append(window)
    return {start: merged(parts) for start, parts in found.items()}


@st.composite
def traffics(draw):
    """Events of up to four windows, under plans of which the third is not known."""
    count = draw(st.integers(1, 40))
    events = traffic(count, draw(st.booleans()), draw(st.integers(0, 5)))
    at = [BEGIN + timedelta(seconds=draw(st.integers(-5, 35))) for _ in range(count)]
    epoch = draw(st.lists(st.integers(1, 3), min_size=count, max_size=count))
    return events, at, epoch, draw(st.integers(0, 2**31))


@given(traffics(), st.integers(1, 6))
@settings(max_examples=60, deadline=None)
def test_the_windows_of_any_parts_add_up_to_those_of_the_whole(case, parts):
    events, at, epoch, seed = case
    whole = windows_of([batch(events, at, epoch)])
    home = np.random.default_rng(seed).integers(0, parts, len(events))
    rows = [np.flatnonzero(home == part) for part in range(parts)]
    split = [batch(events[r], [at[i] for i in r], [epoch[i] for i in r]) for r in rows if len(r)]
    assert windows_of(split[::-1]) == whole
    assert sum(window.events for window in whole.values()) == len(events)
    assert all(sum(counts) == window.events for window in whole.values() for counts in window.counts)


@given(traffics())
@settings(max_examples=40, deadline=None)
def test_a_window_holds_what_counting_slowly_gives(case):
    events, at, epoch, _ = case
    listed = list(events)
    for start, window in windows_of([batch(events, at, epoch)]).items():
        parts = []
        for number in (1, 2, 3):
            for since, until, rows in ((None, BEGIN, ROWS), (BEGIN, THIRD, ROWS), (THIRD, None, ROWS[:4])):
                chosen = [
                    event
                    for event, moment, sent in zip(listed, at, epoch, strict=True)
                    if start <= moment < start + WINDOW
                    and sent == number
                    and (since is None or since <= moment)
                    and (until is None or moment < until)
                ]
                if chosen:
                    judged = number in PLANS and since is not None
                    cells = slow_counts(chosen, PLANS.get(number), rows, number, judged)
                    parts.append(TrafficWindow.of(SCHEMA, start, WINDOW, cells))
        assert merged(parts) == window


def test_events_outside_the_domains_are_refused_and_the_others_counted():
    good = traffic(20, False)
    made = batch(good, [BEGIN] * 20, [1] * 20)
    price = made.column("price").to_pylist()
    price[3], price[7] = 1000.0, None
    made = made.set_column(made.schema.get_field_index("price"), "price", pa.array(price))
    (window,) = windows_of([made]).values()
    assert (window.events, window.refused) == (18, 2)
    kept = EventBatch.from_events(SCHEMA, [e for i, e in enumerate(good) if i not in (3, 7)])
    assert replace(window, refused=0) == windows_of([batch(kept, [BEGIN] * 18, [1] * 18)])[window.start]


def test_a_window_of_refused_events_alone_is_an_empty_one():
    made = batch(traffic(2, False), [BEGIN] * 2, [1] * 2)
    made = made.set_column(made.schema.get_field_index("volume"), "volume", pa.array([5000, -1]))
    (window,) = windows_of([made]).values()
    assert (window.events, window.refused, window.epochs, window.waste.rate) == (0, 2, {}, 0.0)


def test_what_has_no_time_is_in_no_window():
    made = batch(traffic(2, False), [BEGIN, None], [1, 1])
    assert [window.events for window in windows_of([made]).values()] == [1]


def test_without_subscriptions_nothing_is_delivered_and_nothing_unjudged():
    history = FixedHistory()
    history.held = timed()
    (window,) = windows_of([batch(traffic(9, False), [BEGIN] * 9, [1] * 9)], history).values()
    assert (window.deliveries, window.unjudged, window.pairs) == (0, 0, 0)
    assert set(window.match_rates.values()) == {1.0}


def test_plans_and_subscriptions_that_land_later_are_found(tmp_path):
    lake = new_lake(tmp_path, rows=ROWS, since=BEGIN)
    history = LakeHistory(lake, "stock")
    early, late = BEGIN - timedelta(seconds=1), BEGIN + timedelta(hours=1)

    def counted(at, epoch):
        (window,) = windows_of([batch(traffic(5, False), [at] * 5, [epoch] * 5)], history).values()
        return window

    assert counted(early, 1).unjudged == 5  # nothing is known of then
    assert counted(BEGIN, 1).unjudged == 0
    assert counted(BEGIN, 2).unjudged == 5
    lake.land_plan(IndexPlan(2, BY_VOLUME, MEMBERS), late)
    assert counted(BEGIN, 2).unjudged == 0
    assert counted(late, 2).pairs == 5 * len(ROWS)
    lake.land_subscriptions("stock", late, ROWS[:3])
    assert counted(late, 2).pairs == 15
    assert counted(BEGIN, 2).pairs == 5 * len(ROWS)


def test_subscriptions_are_read_once_for_the_time_of_some_windows_and_anew_when_they_change(tmp_path, monkeypatch):
    lake = new_lake(tmp_path, rows=ROWS, since=BEGIN)
    history, read = LakeHistory(lake, "stock"), []
    real = lake.subscription_history
    monkeypatch.setattr(lake, "subscription_history", lambda *asked: read.append(asked) or real(*asked))
    days_later = BEGIN + timedelta(days=3)
    for moment in (BEGIN, BEGIN + WINDOW, BEGIN + 10 * WINDOW):
        first = history.subscriptions(moment, moment + WINDOW)
    assert len(read) == 1
    assert len(first.in_force(BEGIN)) == len(ROWS)
    lake.land_subscriptions("stock", days_later, ROWS[:3])
    again = history.subscriptions(BEGIN, BEGIN + WINDOW)
    assert len(read) == 2
    assert len(again.filters) == len(ROWS)  # parsed before
    assert all(each is first.filters[text] for text, each in again.filters.items())
    assert len(history.subscriptions(days_later, days_later + WINDOW).in_force(days_later)) == 3
    assert len(read) == 3
    assert all(end - start < timedelta(hours=3) for _, start, end in read)


def test_after_a_change_of_the_schema_nothing_is_judged_by_what_was_begun_before(tmp_path):
    lake = new_lake(tmp_path, rows=ROWS, since=BEGIN)
    history, given_batch = LakeHistory(lake, "stock"), batch(traffic(5, False), [BEGIN] * 5, [1] * 5)
    assert [each.unjudged for each in windows_of([given_batch], history).values()] == [0]
    changed = SCHEMA.to_json()
    changed["attribute"].append({"name": "side", "kind": "category", "values": ["buy", "sell"], "optional": True})
    lake.land_schema(Schema.from_json(changed), BEGIN + WINDOW)
    lake.land_subscriptions("stock", BEGIN + WINDOW, ROWS[:3])
    assert [each.unjudged for each in windows_of([given_batch], history).values()] == [5]


def test_a_damaged_file_of_subscriptions_is_left_out_and_named(tmp_path):
    lake = new_lake(tmp_path, rows=ROWS[:4], since=BEGIN)
    (path,) = (tmp_path / "subscriptions").rglob("*.parquet")
    lake.land_subscriptions("stock", BEGIN + timedelta(microseconds=1), ROWS)
    path.write_bytes(path.read_bytes()[:40])
    late = BEGIN + timedelta(seconds=1)
    (window,) = windows_of([batch(traffic(5, False), [late] * 5, [1] * 5)], LakeHistory(lake, "stock")).values()
    assert (window.events, window.unjudged, window.pairs) == (5, 0, 5 * len(ROWS[4:]))
    assert [each.table for each in lake.refused()] == ["subscriptions"]


@pytest.mark.parametrize("damaged", [1, 2])
def test_a_damaged_plan_leaves_the_events_that_were_sent_by_it_unjudged(tmp_path, damaged):
    lake = new_lake(tmp_path, rows=ROWS, since=BEGIN)
    (first,) = (tmp_path / "plans").glob("*.parquet")
    lake.land_plan(IndexPlan(2, BY_VOLUME, MEMBERS), BEGIN)
    (second,) = {*(tmp_path / "plans").glob("*.parquet")} - {first}
    {1: first, 2: second}[damaged].write_bytes(b"PAR1")
    given_batch = batch(traffic(5, False), [BEGIN] * 5, [1, 1, 2, 2, 2])
    (window,) = windows_of([given_batch], LakeHistory(lake, "stock")).values()
    assert (window.epochs, window.unjudged) == ({1: 2, 2: 3}, {1: 2, 2: 3}[damaged])


def test_covers_follow_a_subscription_that_changes_under_its_id():
    history = FixedHistory()
    changed = [RegistrationRow(a.id, a.principal, a.host, b.filter) for a, b in zip(ROWS, ROWS[::-1], strict=True)]
    history.held = timed((BEGIN, THIRD, ROWS), (THIRD, None, changed))
    events = traffic(30, False)
    both = windows_of([batch(events, [BEGIN] * 30, [1] * 30), batch(events, [THIRD] * 30, [1] * 30)], history)
    assert both[BEGIN].waste == both[THIRD].waste  # the same filters, by other ids


def test_windows_survive_being_written():
    (window,) = windows_of([batch(traffic(30, False), [BEGIN] * 30, [1, 2, 3] * 10)]).values()
    for each in (window, replace(window, reported=ReportedCounts(3, 2, 4), drift=0.25, empty_before=7)):
        assert TrafficWindow.from_json(each.to_json()) == each
    for broken in ({}, None, [], window.to_json() | {"epochs": 3}, window.to_json() | {"start": "noon"}):
        with pytest.raises(LakeError, match="no window"):
            TrafficWindow.from_json(broken)


def test_what_was_reported_and_how_many_were_empty_adds_up():
    window = TrafficWindow.of(SCHEMA, BEGIN, WINDOW, {})
    some = replace(window, reported=ReportedCounts(3, 2, 4), empty_before=7)
    more = replace(
        window, start=BEGIN + WINDOW, end=BEGIN + 2 * WINDOW, reported=ReportedCounts(1, 1, 1), empty_before=2
    )
    both = some + more
    assert (both.reported, both.empty_before) == (ReportedCounts(4, 3, 5), 9)
    assert (both.start, both.end) == (BEGIN, BEGIN + 2 * WINDOW)
    assert (window + more).reported == (more + window).reported == more.reported
    assert (window + window).reported is None


def test_windows_of_two_schemas_do_not_add_up():
    window = TrafficWindow.of(SCHEMA, BEGIN, WINDOW, {MetricKey("events"): 1})
    with pytest.raises(LakeError):
        window + replace(window, schema="other")


def test_empty_windows_between_two_are_counted():
    window = TrafficWindow.of(SCHEMA, BEGIN, WINDOW, {})
    assert empty_between(None, BEGIN, WINDOW) == 0
    assert empty_between(window, BEGIN + WINDOW, WINDOW) == 0
    assert empty_between(window, BEGIN + 4 * WINDOW, WINDOW) == 3


def test_the_plan_of_a_window_is_the_one_most_events_were_sent_by():
    window = TrafficWindow.of(SCHEMA, BEGIN, WINDOW, {})
    assert window.epoch is None
    assert replace(window, epochs={1: 5, 2: 5}).epoch == 2
    assert replace(window, epochs={1: 6, 2: 5}).epoch == 1
