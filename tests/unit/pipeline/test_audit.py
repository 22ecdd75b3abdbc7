"""An audit in this process: against the evaluator, with what is missing named."""

from datetime import timedelta

import pytest

from pleroma.content import Schema
from pleroma.errors import LakeError
from pleroma.index import IndexPlan, evaluate
from pleroma.pipeline.audit.audit_pass import audit_here
from pleroma.pipeline.audit.counterfactual import BestPlanQuestion
from pleroma.pipeline.lake.lake import Lake
from pleroma.pipeline.lake.landed import RegistrationRow
from pleroma.pipeline.lake.maintenance import maintain
from pleroma.pipeline.lake.moments import ONE_MICROSECOND
from pleroma.pipeline.lake.period import Period
from pleroma.pipeline.lake.registration_history import BEGUN, OVER, TimedRegistration, table_of, written
from pleroma.pipeline.lake.table_files import FileReader
from pleroma.pipeline.lake_situation import last_subscribed
from pleroma.replanning.reported_counts import ReportedCounts
from support.audited_lake import DAY, SHIFT, NotedSteps, land
from support.table_rows import append


@pytest.fixture(scope="module")
def landed(tmp_path_factory):
    return land(tmp_path_factory.mktemp("lake"))


@pytest.fixture(scope="module")
def found(landed):
    lake, data, _ = landed
    return audit_here(lake, data.schema.name, Period.day("2026-11-15"))


def test_waste_by_plan_is_that_of_the_reference_evaluator_and_a_sample_stands_for_all(landed, found):
    lake, data, events = landed
    before, after = (each.plan.index for each in lake.plans(data.schema.name))
    first = evaluate(before, data.subscriptions[:-5], list(events[:450]), max_members=8)
    second = evaluate(after, data.subscriptions, list(events[450:]), max_members=8)
    assert (found.plans[1].delivered, found.plans[1].wasted) == (first.deliveries, first.wasted)
    assert (found.plans[2].delivered, found.plans[2].wasted) == (2 * second.deliveries, 2 * second.wasted)
    assert (found.events, found.of) == (900, 450 + 2 * 450)
    assert found.total.wasted == first.wasted + 2 * second.wasted


def test_subscriptions_rules_and_hours_each_add_up_to_the_total(found):
    for parts in (found.subscriptions, found.rules):
        assert sum(each.deliveries.delivered for each in parts) == found.total.delivered
        assert sum(each.deliveries.wasted for each in parts) == found.total.wasted
        assert [each.deliveries.wasted for each in parts] == sorted(
            (each.deliveries.wasted for each in parts), reverse=True
        )
    assert sum(share.wasted for share in found.hours.values()) == found.total.wasted
    assert list(found.hours) == ["2026-11-15T09:00Z", "2026-11-15T10:00Z"]


def test_every_unwanted_delivery_has_an_attribute_that_could_have_prevented_it(found):
    unwanted = found.total.wasted - found.repeated
    assert unwanted > 0
    assert sum(each.removable for each in found.causes) >= unwanted
    assert all(each.needed <= each.removable <= unwanted for each in found.causes)


def test_reports_stand_beside_what_was_computed(found):
    said = {each.id: each.reported for each in found.subscriptions}
    assert said["s00"] == ReportedCounts(13, wasted=4)
    assert said["s03"] == ReportedCounts(4, wasted=2)
    assert said["s01"] is None
    assert {each.host: each.reported for each in found.hosts} == {
        "h1": ReportedCounts(17, wasted=6),
        "h2": None,
        "h3": None,
    }


def test_only_the_period_counts(landed):
    lake, data, _ = landed
    half = audit_here(lake, data.schema.name, Period(SHIFT, SHIFT + timedelta(hours=2)))
    assert list(half.plans) == [2]
    assert half.events == 450


def test_what_cannot_be_judged_or_read_is_counted_and_named(tmp_path):
    lake, data, events = land(tmp_path)
    name = data.schema.name
    lake.land_events(events[:7], [SHIFT] * 7, 9, 1.0)
    lake.land_events(events[:5], [DAY - timedelta(hours=1)] * 5, 1, 1.0)
    broken = min(tmp_path.glob("events/*/hour=2026-11-15T09/*.parquet"))
    broken.write_bytes(broken.read_bytes()[:200])
    found = audit_here(lake, name, Period(DAY - timedelta(days=1), DAY + timedelta(days=1)))
    assert found.unjudged == {"the lake knows no subscriptions of then": 5, "plan 9 is not in the lake": 7}
    assert list(found.refused) == [str(broken.relative_to(tmp_path))]
    assert found.events < 900
    later = audit_here(lake, name, Period(SHIFT, DAY + timedelta(days=1)))
    assert later.refused == {}  # it has no events of then


def test_a_plan_of_a_schema_that_has_changed_since_judges_nothing(tmp_path):
    lake, data, _ = land(tmp_path)
    changed = data.schema.to_json()
    changed["attribute"].append({"name": "venue", "kind": "category", "values": ["a", "b"], "optional": True})
    lake.land_schema(Schema.from_json(changed), SHIFT + timedelta(hours=3))
    found = audit_here(lake, data.schema.name, Period.day("2026-11-15"))
    assert found.unjudged == {f"plan {epoch} is of a schema that has changed since": 450 for epoch in (1, 2)}


def land_month(lake, schema, rows):
    """Subscriptions that live an hour each, one after the other through a month around the audited day. They
    are over and were settled hour by hour, but for one that begins thereafter.
    """
    start = DAY - timedelta(days=15)
    lives = [
        TimedRegistration(written(rows[n % len(rows)]), start + timedelta(hours=n), start + timedelta(hours=n + 1))
        for n in range(30 * 24)
    ]
    table = lake.table("subscriptions")
    for first in range(0, len(lives), 6):
        append(table, table_of("subscriptions", schema, lives[first : first + 6], OVER))
    coming = lives[-1]._replace(since=start + timedelta(days=30), until=None)
    append(table, table_of("subscriptions", schema, [coming], BEGUN))


def test_an_audit_of_a_day_reads_the_subscriptions_of_that_day_and_not_of_a_month(tmp_path, monkeypatch):
    whole, data, events = land(tmp_path / "whole")
    name = data.schema.name
    lake = Lake.at(str(tmp_path / "lake"))
    lake.land_schema(data.schema, DAY - timedelta(days=15))
    lake.land_plan(whole.plans(name)[0].plan, DAY)
    rows = [RegistrationRow(f"s{n:02}", "p", "h1", each) for n, each in enumerate(data.subscriptions[:24])]
    land_month(lake, data.schema, rows)
    maintain(lake, 10_000, now=DAY + timedelta(days=60))
    assert len(lake.table("subscriptions").files()) < 40
    at = [DAY + timedelta(hours=9, minutes=n) for n in range(120)]
    lake.land_events(events[:120], at, 1, 1.0)
    read = []

    def counted(reader, system, root, file, names=None):
        read.append((reader.table, file.rows))
        return rows_of(reader, system, root, file, names)

    rows_of = FileReader.rows
    monkeypatch.setattr(FileReader, "rows", counted)
    found = audit_here(lake, name, Period.day("2026-11-15"))
    of_subscriptions = [count for table, count in read if table == "subscriptions"]
    assert sum(of_subscriptions) <= 48  # the day, and those that ended with its first moment, of 721 rows
    assert {each.id for each in found.subscriptions} == {row.id for row in rows}
    index = lake.plans(name)[0].plan.index
    hours = [evaluate(index, [rows[9 + h].filter], list(events[60 * h : 60 * h + 60]), max_members=8) for h in (0, 1)]
    assert found.total.delivered == sum(each.deliveries for each in hours) > 0
    assert found.total.wasted == sum(each.wasted for each in hours)


def test_a_quiet_day_and_a_lake_without_subscriptions_are_no_errors(tmp_path):
    lake, data, events = land(tmp_path / "lake")
    quiet = audit_here(lake, data.schema.name, Period.day("2026-12-01"))
    assert (quiet.events, quiet.total.waste) == (0, 0.0)
    empty = Lake.at(str(tmp_path / "empty"))
    empty.land_schema(data.schema, DAY)
    empty.land_plan(IndexPlan(1, lake.plans(data.schema.name)[0].plan.index), DAY)
    empty.land_subscriptions(data.schema.name, DAY, list[RegistrationRow]())
    empty.land_events(events[:5], [SHIFT] * 5, 1, 1.0)
    found = audit_here(empty, data.schema.name, Period.newest(empty, data.schema.name))
    assert (found.events, found.total.delivered) == (5, 0)


@pytest.mark.parametrize("text", ["15.11.2026", "2026-13-01", "yesterday", "9999-12-31"])
def test_a_day_is_a_date(text):
    with pytest.raises(LakeError, match="is not a day"):
        Period.day(text)


def test_an_end_comes_after_its_beginning():
    with pytest.raises(LakeError, match="is not after"):
        Period.between("2026-11-15T10:00", "2026-11-15T09:00")
    for text in ("noon", "0001-01-01T00:00+14:00"):
        with pytest.raises(LakeError, match="is no moment"):
            Period.between(text, None)
    assert Period.between("2026-11-15T10:00", "2026-11-15T12:00+01:00").end == SHIFT + timedelta(hours=1)


def test_those_who_wait_see_each_step_and_all_of_its_rows(landed):
    lake, data, _ = landed
    steps = NotedSteps()
    audit_here(lake, data.schema.name, Period.day("2026-11-15"), BestPlanQuestion(), steps.note)
    assert steps.told == {
        "judging events": (900, 900),
        "adding up reports": (3, 3),
        "drawing events for the best plan": (None, 0),
        "looking for the best plan": (None, 0),
    }
    assert list(steps.told)[-1] == "looking for the best plan"


def test_the_best_plan_is_for_the_last_who_subscribed_also_if_they_left_before_the_end(tmp_path):
    lake, data, _ = land(tmp_path)
    name, period = data.schema.name, Period.day("2026-11-15")
    stayed = audit_here(lake, name, period, BestPlanQuestion())
    lake.land_subscriptions(name, DAY + timedelta(hours=20), list[RegistrationRow]())
    left = audit_here(lake, name, period, BestPlanQuestion())
    assert stayed.counterfactual is not None
    assert left.counterfactual == stayed.counterfactual
    assert left.total == stayed.total


def test_the_last_moment_that_anybody_was_subscribed_is_found_or_it_is_an_error(tmp_path):
    lake, data, _ = land(tmp_path)
    name, evening = data.schema.name, DAY + timedelta(hours=20)
    lake.land_subscriptions(name, evening, list[RegistrationRow]())
    assert last_subscribed(lake, name, None, None) == evening - ONE_MICROSECOND
    assert last_subscribed(lake, name, DAY, SHIFT) == SHIFT - ONE_MICROSECOND
    for start, end in ((evening, None), (DAY - timedelta(days=1), DAY)):
        with pytest.raises(LakeError, match=r"nobody was subscribed to quotes in this time; the first .* 2026-11-15"):
            last_subscribed(lake, name, start, end)
