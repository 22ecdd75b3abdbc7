"""Every delivery is charged as one would by hand, and parts of the traffic add up to the whole in any order."""

from collections import Counter
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pleroma.content.batch import EventBatch
from pleroma.index import MAX_MEMBERS, IndexPlan
from pleroma.pipeline.audit import tally as tally_module
from pleroma.pipeline.audit.tally import TALLY_COLUMNS, TALLY_COUNTERS, AuditTally, InForce
from pleroma.pipeline.cover_cache import controller_cover
from pleroma.pipeline.lake.landed import LandedPlan, RegistrationRow
from pleroma.pipeline.lake.registration_history import RegistrationHistory, TimedRegistration, written
from support.grids import grids
from support.selective_indexes import cases as selective_cases
from support.strategies import events, filters, schemas
from support.trees import trees

SINCE = datetime(2026, 11, 15, 9, tzinfo=UTC)
HOSTS = ("h1", "h2")


@st.composite
def situations(draw):
    """Two plans, subscriptions of which some end or change midway, and events before, under and after all of them."""
    if draw(st.booleans()):
        index, wanted, points = draw(selective_cases())
        schema = index.schema
    else:
        schema = draw(schemas(most=4))
        wanted = draw(st.lists(filters(schema, 3), min_size=1, max_size=4))
        index = draw(grids(schema) | trees(schema, wanted, draw(st.sampled_from([3, 70]))))
        points = draw(st.lists(events(schema), min_size=1, max_size=8))
    other = draw(grids(schema))
    rows = [RegistrationRow(f"s{n}", "p", draw(st.sampled_from(HOSTS)), each) for n, each in enumerate(wanted)]
    kept = draw(st.integers(0, len(rows)))
    members = draw(st.just(MAX_MEMBERS) | st.integers(1, 20))
    plans = (LandedPlan(SINCE, IndexPlan(1, index, 40)), LandedPlan(SINCE, IndexPlan(2, other, members)))
    middle = SINCE + timedelta(minutes=draw(st.sampled_from([50, 60, 61])))
    entries = [
        TimedRegistration(written(row), SINCE, None if number < kept else middle) for number, row in enumerate(rows)
    ]
    count = len(points)
    minutes = draw(st.lists(st.integers(-30, 150), min_size=count, max_size=count))
    epochs = draw(st.lists(st.integers(1, 3), min_size=count, max_size=count))
    rates = draw(st.lists(st.sampled_from([0.5, 1.0]), min_size=count, max_size=count))
    moments = [SINCE + timedelta(minutes=m) for m in minutes]
    if kept < len(rows) and draw(st.booleans()):  # one goes on with another filter, at another host
        changed = rows[-1]._replace(filter=rows[0].filter, host=HOSTS[0])
        entries.append(TimedRegistration(written(changed), middle, None))
    history = RegistrationHistory(schema, tuple(entries), SINCE)
    return InForce(schema, plans, history), list(zip(points, moments, epochs, rates, strict=True))


def by_hand(in_force, traffic):
    """One event, one subscription, one dz and one box at a time."""
    counts = Counter()
    for event, at, epoch, rate in traffic:
        plan = next((each for each in in_force.plans if each.epoch == epoch), None)
        if plan is None or at < SINCE:
            reason = "the lake knows no subscriptions of then" if plan else f"plan {epoch} is not in the lake"
            counts["unjudged", epoch, rate, reason, "events"] += 1
            continue
        sent = plan.plan.index.dzs(event)
        hour = at.strftime("%Y-%m-%dT%H:00Z")
        for kind, name in (("total", ""), ("hour", hour)):
            counts[kind, epoch, rate, name, "events"] += 1
        got, pleased = set(), set()
        for row in in_force.history.in_force(at):
            wanted_yet = row.filter.matches(event)
            failing = [
                {d for d, (key, part) in enumerate(zip(event.value_keys, box.ranges, strict=True)) if key not in part}
                for box in row.filter.boxes
            ]
            for dz in controller_cover(plan.plan.index, row.filter, plan.members):
                for _ in filter(dz.covers, sent):
                    names = [("total", ""), ("hour", hour), ("subscription", row.id), ("rule", str(dz))]
                    got.add(row.host)
                    outcome = ["delivered"] if wanted_yet else ["delivered", "wasted"]
                    if row.filter.matches(event):
                        pleased.add(row.host)
                        outcome += [] if wanted_yet else ["repeated"]
                        wanted_yet = False
                    else:
                        for d, attribute in enumerate(in_force.schema.names):
                            alone, needed = all(d in each for each in failing), {d} in failing
                            counts["attribute", epoch, rate, attribute, "removable"] += alone
                            counts["attribute", epoch, rate, attribute, "needed"] += needed
                    for kind, name in names:
                        for counter in outcome:
                            if kind != "rule" or counter != "repeated":
                                counts[kind, epoch, rate, name, counter] += 1
        for host in got:
            counts["host", epoch, rate, host, "delivered"] += 1
            counts["host", epoch, rate, host, "wasted"] += host not in pleased
    return +counts


def tally(in_force, traffic):
    counted = AuditTally(in_force)
    batch = EventBatch.from_events(in_force.schema, [each[0] for each in traffic])
    at = np.array([int(each[1].timestamp()) * 1_000_000 for each in traffic], np.int64)
    counted.add(batch, at, np.array([each[2] for each in traffic]), np.array([each[3] for each in traffic]))
    return counted.rows()


def named(rows):
    found = Counter()
    for kind, epoch, rate, name, *counters in rows:
        for counter, count in zip(TALLY_COUNTERS, counters, strict=True):
            found[kind, epoch, rate, name, counter] += count
    return +found


@settings(deadline=None)
@given(situations())
def test_deliveries_are_charged_as_by_hand(situation):
    in_force, traffic = situation
    assert named(tally(in_force, traffic)) == by_hand(in_force, traffic)


@settings(deadline=None)
@given(situations(), st.integers(0, 8), st.randoms(use_true_random=False))
def test_parts_of_the_traffic_add_up_to_the_whole(situation, cut, random):
    in_force, traffic = situation
    whole = named(tally(in_force, traffic))
    random.shuffle(traffic)
    parts = [part for part in (traffic[:cut], traffic[cut:]) if part]
    assert sum((named(tally(in_force, part)) for part in parts), Counter()) == whole


@settings(deadline=None)
@given(situations())
def test_it_makes_no_difference_how_many_hours_are_kept(situation):
    in_force, traffic = situation
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tally_module, "MAX_COVERED_HOURS", 1)
        few = tally(in_force, traffic)
    assert few == tally(in_force, traffic)


def test_rows_are_those_of_the_columns_that_spark_is_told():
    assert TALLY_COLUMNS.names == ["kind", "epoch", "rate", "name", *TALLY_COUNTERS]
    assert [each.type for each in TALLY_COLUMNS][4:] == [pa.int64()] * len(TALLY_COUNTERS)
