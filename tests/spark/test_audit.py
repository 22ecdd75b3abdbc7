"""An audit on Spark finds what one in this process finds, however the events are dealt out."""

from datetime import timedelta

import pytest

from pleroma.pipeline.audit.audit_pass import audit_here, audit_on, count_on, in_force, landed
from pleroma.pipeline.audit.counterfactual import BestPlanQuestion
from pleroma.pipeline.lake.lake_tables import EventColumns
from pleroma.pipeline.lake.period import Period
from pleroma.pipeline.lake.table_files import Condition
from support.audited_lake import NotedSteps, land

DAY = Period.day("2026-11-15")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return land(tmp_path_factory.mktemp("lake"))


def test_spark_and_one_process_find_the_same(spark, made):
    lake, data, _ = made
    name = data.schema.name
    assert audit_on(spark, lake, name, DAY).to_json() == audit_here(lake, name, DAY).to_json()


def test_the_same_rows_whatever_the_partitions(spark, made):
    lake, data, _ = made
    name = data.schema.name
    held = in_force(lake, name, DAY)
    events = landed(spark, lake, "events", name, DAY)
    whole = count_on(events.coalesce(1), held)
    assert count_on(events.repartition(5, "id"), held) == whole
    assert len(whole) > 50


def test_the_best_plan_is_judged_beside_the_newest_one_on_the_same_held_out_events(spark, made):
    lake, data, _ = made
    counterfactual = audit_on(spark, lake, data.schema.name, DAY, BestPlanQuestion(bits=12)).counterfactual
    assert counterfactual.plan == 2
    assert 0 < counterfactual.events <= 450
    assert counterfactual.wasted < counterfactual.plan_wasted
    here = audit_here(lake, data.schema.name, DAY, BestPlanQuestion(bits=12)).counterfactual
    assert counterfactual == here
    assert counterfactual.share_saved == 1 - counterfactual.wasted / counterfactual.plan_wasted


def test_those_who_wait_see_each_step_to_its_end(spark, made):
    lake, data, _ = made
    steps = NotedSteps()
    audit_on(spark, lake, data.schema.name, DAY, BestPlanQuestion(bits=12), steps.note)
    *passes, (last, looking) = steps.told.items()
    assert [step for step, _ in passes] == ["adding up reports", "judging events", "drawing events for the best plan"]
    assert [told for _, told in passes] == [(1, pytest.approx(1))] * 3
    assert (last, looking) == ("looking for the best plan", (None, 0))


def test_one_event_is_too_few_for_a_best_plan_and_enough_for_the_rest(spark, tmp_path):
    lake, data, _ = land(tmp_path)
    names = EventColumns.of(data.schema)
    lake.event_table(data.schema.name).delete([Condition(names.at, ">=", DAY.start)])
    lake.land_events(data.events[:1], [DAY.end - timedelta(hours=1)], 2, 1.0)
    found = audit_on(spark, lake, data.schema.name, DAY, BestPlanQuestion())
    assert (found.events, found.counterfactual) == (1, None)


def test_files_that_cannot_be_read_are_named_and_the_rest_is_judged(spark, tmp_path):
    lake, data, _ = land(tmp_path)
    broken = min(tmp_path.glob("events/*/*/*.parquet"))
    broken.write_bytes(broken.read_bytes()[:200])
    found = audit_on(spark, lake, data.schema.name, DAY)
    assert list(found.refused) == [str(broken.relative_to(tmp_path))]
    assert 0 < found.events < 900
    assert found.to_json() == audit_here(lake, data.schema.name, DAY).to_json()
