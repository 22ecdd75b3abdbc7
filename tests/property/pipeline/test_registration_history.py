"""What is in force at any moment, subscriptions or advertisements, is what was landed last before it, however kept."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pleroma.content import Filter, Real, Schema
from pleroma.pipeline.lake.lake import Lake
from pleroma.pipeline.lake.landed import REGISTRATION_TABLES, RegistrationRow
from pleroma.pipeline.lake.maintenance import maintain
from pleroma.pipeline.lake.settling import settle

SCHEMA = Schema("stock", (Real("price", False, 0.0, 9.0),))
NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
TICK = timedelta(microseconds=300)
"""Several of them are within the millisecond to which the log cuts moments."""
LAST = 40
ids, hosts = st.sampled_from("abc"), st.sampled_from(["h1", "h2"])
sets = st.dictionaries(ids, st.tuples(hosts, st.sampled_from(["price > 3", "price < 5"])), max_size=3)
steps = st.one_of(
    st.tuples(st.just("land"), sets, st.integers(0, 3)),
    st.tuples(st.sampled_from(["settle", "tidy", "restart"]), st.just({}), st.just(0)),
)


def rows_of(chosen):
    return [RegistrationRow(name, "me", host, Filter.parse(SCHEMA, text)) for name, (host, text) in chosen.items()]


def by_id(rows):
    return sorted(rows, key=lambda row: row.id)


def in_force_by_hand(landed, moment):
    """What was landed last up to a moment."""
    return next((rows for since, rows in reversed(landed) if since <= moment), [])


@settings(max_examples=25)
@given(st.sampled_from(REGISTRATION_TABLES), st.lists(steps, max_size=9), st.data())
def test_what_was_landed_last_is_in_force(tmp_path_factory, kind, drawn, data):
    lake = Lake.at(str(tmp_path_factory.mktemp("lake")))
    lake.land_schema(SCHEMA, NOON)
    landed, now = [], NOON
    for what, chosen, later in drawn:
        if what == "land":
            now += later * TICK
            if landed and landed[-1][0] >= now:  # the clock stood still: whatever is landed is later all the same
                now = landed[-1][0] + timedelta(microseconds=1)
            before = landed[-1][1] if landed else []
            changed = lake.registrations(kind).land("stock", now, rows_of(chosen))
            if by_id(before) == by_id(rows_of(chosen)):
                assert changed == 0
                continue
            landed.append((now, rows_of(chosen)))
        elif what == "settle":
            settle(lake, kind, "stock")
        elif what == "tidy":
            maintain(lake, 10**5, NOON + timedelta(days=1))
        else:
            lake = Lake.at(lake.url)
    landed_there = lake.registrations(kind)
    history = landed_there.history("stock")
    for number in range(LAST):
        moment = NOON + number * TICK / 2
        wanted = by_id(in_force_by_hand(landed, moment))
        assert by_id(history.in_force(moment)) == wanted
        assert by_id(landed_there.at("stock", moment)) == wanted
    assert by_id(landed_there.at("stock")) == by_id(landed[-1][1] if landed else [])
    assert history.moments == sorted({NOON, *(since for since, _ in landed)})
    start = NOON + data.draw(st.integers(0, LAST)) * TICK / 2
    end = start + data.draw(st.integers(1, LAST)) * TICK / 2
    stretch = landed_there.history("stock", start, end)
    for number in range(LAST):
        moment = NOON + number * TICK / 2
        if start <= moment < end:
            assert by_id(stretch.in_force(moment)) == by_id(history.in_force(moment))
    lives = [(each.row.id, each.since, each.until) for each in stretch.during(start, end)]
    by_hand = [
        (row.id, since, until)
        for row, since, until in history.entries
        if any(
            since <= moment and (until is None or moment < until) for moment in (start, since) if start <= moment < end
        )
    ]
    assert lives == by_hand


@pytest.mark.parametrize("back", [timedelta(0), timedelta(hours=1)])
def test_whatever_the_clock_says_what_is_landed_later_is_in_force_later(tmp_path, back):
    lake = Lake.at(str(tmp_path))
    lake.land_schema(SCHEMA, NOON)
    one, other = rows_of({"a": ("h1", "price > 3")}), rows_of({"b": ("h1", "price > 3")})
    for number, rows in enumerate((one, other, [], one)):
        Lake.at(lake.url).land_subscriptions("stock", NOON - number * back, rows)
    assert lake.subscriptions("stock") == one
    history = lake.subscription_history("stock")
    assert [history.in_force(moment) for moment in history.moments] == [one, other, [], one]
