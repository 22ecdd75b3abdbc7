"""A tree grown where the events are is the one grown in one process, however the events are split."""

import dataclasses
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from pleroma.content.arrow_columns import to_columns
from pleroma.errors import TuningError
from pleroma.index import MAX_MEMBERS
from pleroma.learning import level_growth
from pleroma.learning.fitting import Budget
from pleroma.pipeline.lake.lake import Lake
from pleroma.pipeline.lake_situation import situation_of
from pleroma.pipeline.passes.tree_pass import grown_landed, grown_on
from pleroma.replanning.forecast import forecast
from pleroma.workloads import EXPRESSIVE, generate
from support.watch_cases import LINE, land, placed_lake

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
FEW = Budget(leaves=7)


@pytest.fixture(scope="module")
def data():
    return generate(dataclasses.replace(EXPRESSIVE, events=3_000, subscriptions=60, width=0.3, dimensions=3))


@pytest.fixture(scope="module")
def here(data):
    return level_growth.grow_by_levels(data.events, data.subscriptions, 112, FEW)


def test_however_events_are_split_the_same_tree_grows(spark, data, here):
    rows = spark.createDataFrame(pa.table(to_columns(data.events))).repartition(5, "d0").persist()
    passes = []
    tree = grown_on(rows, data.schema, data.subscriptions, 112, FEW, level=passes.append)
    rows.unpersist()
    assert tree == here
    assert passes == list(range(1, len(passes) + 1))
    assert len(passes) <= max(tree.layout.depth) + 2


def test_tasks_read_a_lake_themselves(spark, data, tmp_path):
    lake = Lake.at(str(tmp_path / "lake"))
    lake.land_schema(data.schema)
    for hour in range(3):
        part = data.events[hour * 1_000 : (hour + 1) * 1_000]
        lake.land_events(part, [NOON + timedelta(hours=hour)] * len(part), 1, 1.0)
    few, name = Budget(rules=4), data.schema.name
    later = grown_landed(spark, lake, name, data.subscriptions, 112, few, start=NOON + timedelta(hours=1))
    assert later == level_growth.grow_by_levels(data.events[1_000:], data.subscriptions, 112, few)
    with pytest.raises(TuningError, match="no events"):
        grown_landed(spark, lake, name, data.subscriptions, 112, few, start=NOON + timedelta(days=1))


def test_on_a_network_every_switch_keeps_to_its_own_room(spark, tmp_path):
    lake = placed_lake(tmp_path)
    for number in range(2):
        land(lake, number)
    situation = situation_of(lake, "stock")
    placement = situation.placement
    budget = Budget(rules=100, own=placement.limits)
    index = grown_landed(spark, lake, "stock", situation.filters, 40, budget, placement=placement)
    there = forecast(situation, index, MAX_MEMBERS, lake.events("stock"))
    assert there.wanted_rules == {}
    assert 20 <= there.rules["R2"] <= LINE.limits["R2"]
