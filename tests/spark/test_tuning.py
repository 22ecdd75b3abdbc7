"""Tuning on Spark finds, bit for bit, what tuning in one process finds, however the events are split."""

import dataclasses
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from pleroma.content import Category, Filter, Integer, Real, Schema, Text
from pleroma.content.arrow_columns import to_columns
from pleroma.content.batch import EventBatch
from pleroma.errors import TuningError
from pleroma.index import IndexPlan
from pleroma.pipeline.lake.lake import Lake
from pleroma.pipeline.passes.summary_pass import gather, gather_landed
from pleroma.selection import traffic_summary
from pleroma.selection.advice import AdviceQuestion, advise_from
from pleroma.workloads import EXPRESSIVE, generate

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def data():
    model = dataclasses.replace(EXPRESSIVE, events=3_000, subscriptions=120, distribution="zipfian", width=0.2)
    return generate(model)


@pytest.fixture(scope="module")
def here(data):
    return traffic_summary.summarise_traffic(data.events, data.subscriptions, draw=2_000, statistics=True)


@pytest.fixture(scope="module")
def rows(spark, data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("workload") / "data"
    data.save(folder)
    return spark.read.parquet(str(folder / "events.parquet")).selectExpr("*", "_metadata.row_index AS id")


def same(found, expected):
    assert (found.events, found.refused) == (expected.events, expected.refused)
    assert found.training == expected.training
    assert found.judging == expected.judging
    if expected.statistics is None:
        assert found.statistics is None
        return
    for each in dataclasses.fields(expected.statistics):
        mine, its = (np.asarray(getattr(one.statistics, each.name)) for one in (found, expected))
        assert np.array_equal(mine, its), each.name


@pytest.mark.parametrize("partitions", [1, 3, 7])
def test_however_events_are_split_the_same_is_gathered(data, here, rows, partitions):
    mixed = rows.repartition(partitions, "d0")
    same(gather(mixed, data.schema, data.subscriptions, draw=2_000, statistics=True), here)


def test_the_plan_is_bit_for_bit_that_of_the_tuner_in_one_process(data, here, rows):
    there = gather(rows.repartition(5), data.schema, data.subscriptions, draw=2_000, statistics=True)
    selections, splits = ("evs", "sos", "cs", "ges"), ("regular", "adaptive")
    question = AdviceQuestion(data.subscriptions, 16, compare=True, selections=selections, splits=splits, rules=300)
    mine, its = (advise_from(each, question) for each in (here, there))
    assert [each.technique for each in mine] == [each.technique for each in its]
    assert [IndexPlan(1, each.index).dumps() for each in mine] == [IndexPlan(1, each.index).dumps() for each in its]


def test_what_a_lake_holds_is_read_by_the_tasks(spark, data, tmp_path):
    lake = Lake.at(str(tmp_path))
    lake.land_schema(data.schema)
    for part in range(6):
        events = data.events[part * 500 : (part + 1) * 500]
        moments = [NOON + timedelta(minutes=30 * part, milliseconds=n) for n in range(500)]
        lake.land_events(events, moments, 1, 1.0)
    found = gather_landed(spark, lake, data.schema.name, data.subscriptions)
    assert found.events == 3_000
    ids = np.sort(lake.event_table(data.schema.name).rows(names=["id"])["id"].to_numpy())  # as they were landed
    same(found, traffic_summary.summarise_traffic(data.events, data.subscriptions, numbers=ids))
    part = gather_landed(
        spark, lake, data.schema.name, data.subscriptions, start=NOON, end=NOON + timedelta(minutes=45)
    )
    assert part.events == 1_000
    with pytest.raises(TuningError, match="no events"):
        gather_landed(spark, lake, data.schema.name, data.subscriptions, end=NOON - timedelta(days=1))
    table = lake.event_table(data.schema.name)
    damaged = table.files()[0].path
    Path(table.url, damaged).write_bytes(b"no Parquet")
    assert gather_landed(spark, lake, data.schema.name, data.subscriptions).events == 2_500
    assert [each.path for each in lake.refused()] == [damaged]


def test_boxes_too_many_to_send_are_read_from_a_file(monkeypatch, data, here, rows, tmp_path):
    monkeypatch.setattr("pleroma.pipeline.passes.summary_pass.MAX_BROADCAST_BOXES", 50)
    scratch = tmp_path / "scratch"
    found = gather(
        rows.repartition(2), data.schema, data.subscriptions, draw=2_000, statistics=True, scratch=str(scratch)
    )
    same(found, here)
    assert list(scratch.iterdir()) == []


def test_every_kind_of_attribute_and_events_outside_the_domains(spark):
    schema = Schema(
        "mixed",
        (Integer("n", True, 0, 9), Real("x", False, 0.0, 1.0), Text("t", True), Category("c", False, ("a", "b"))),
    )
    filters = [
        Filter.parse(schema, text) for text in ("n > 3 and t < 'm'", "x >= 0.5", "c == 'b' and exists t", "t == ''")
    ]
    random = np.random.default_rng(5)
    good = [
        {
            "n": None if random.random() < 0.2 else int(random.integers(10)),
            "x": float(random.random() * 0.99),
            "t": [None, "", "kiwi", "pear", "ünï"][random.integers(5)],
            "c": "ab"[random.integers(2)],
        }
        for _ in range(400)
    ]
    bad = [
        {"n": 10, "x": 0.5, "t": "a", "c": "a"},
        {"n": 1, "x": 7.0, "t": "a", "c": "a"},
        {"n": 1, "x": 0.1, "t": "a", "c": "z"},
        {"n": 1, "x": None, "t": "a", "c": "a"},
    ]
    frame = spark.createDataFrame([*good[:200], *bad, *good[200:]], "n long, x double, t string, c string")
    events = EventBatch.from_columns(schema, {name: [row[name] for row in good] for name in schema.names})
    found = gather(frame.repartition(3), schema, filters, statistics=True)
    assert found.refused == 4
    numberless = traffic_summary.SummaryPass.of(schema, filters, statistics=True)
    here = numberless.finished(numberless.over([traffic_summary.NumberedBatch(events)]))
    same(dataclasses.replace(found, refused=0), here)
    assert to_columns(found.training).keys() == {"n", "x", "t", "c"}
