import pytest

from pleroma.content import Boolean, Category, Filter, Integer, Real, Schema, Text, Timestamp
from pleroma.content.batch import EventBatch
from pleroma.workloads import Workload
from pleroma.workloads.summary import summarise

DAYS = ("2026-11-15T00:00:00Z", "2026-11-16T00:00:00Z")
SCHEMA = Schema(
    "s",
    (
        Integer("a", False, 0, 9),
        Real("r", True, 0.0, 10.0),
        Category("c", True, ("x", "y", "z", "w")),
        Text("t", False),
    ),
)
EVENTS = EventBatch.from_columns(
    SCHEMA, {"a": [1, 2, 3, 6], "r": [1.0, None, 3.0, 2.0], "c": ["w", "x", None, "x"], "t": ["b", "a", "b", "c"]}
)


def of(*texts):
    return summarise(Workload(SCHEMA, EVENTS, tuple(Filter.parse(SCHEMA, text) for text in texts)))


def test_ranges_and_variance_are_those_of_the_values_present():
    a, r, c, t = of("true").attributes
    assert (a.least, a.most, a.distinct, a.variance) == (1, 6, 4, 3.5)
    assert (r.least, r.most, r.distinct) == (1.0, 3.0, 3)
    assert r.variance == pytest.approx(2 / 3)
    assert (c.least, c.most, c.distinct, c.variance) == ("x", "w", 2, None)
    assert (t.least, t.most, t.distinct, t.variance, t.width) == ("a", "c", 3, None, None)
    assert [each.domain for each in (a, r, t)] == ["[0, 9]", "[0, 10]", "any text"]


def test_truth_values_and_moments_are_as_people_write_them():
    schema = Schema("s", (Boolean("armed", False), Timestamp.of("at", False, *DAYS)))
    events = EventBatch.from_columns(schema, {"armed": [True, False], "at": DAYS})
    armed, at = summarise(Workload(schema, events, (Filter.parse(schema, "armed = true"),))).attributes
    assert (armed.least, armed.most, armed.variance, armed.width) == (False, True, None, 0.5)
    assert (at.least, at.most, at.distinct, at.variance) == (*DAYS, 2, None)


def test_the_width_is_the_mean_share_of_the_domain_that_filters_take():
    a, r, c, t = of("a < 5 or a = 9", "r between 2 and 4 and c = 'x' and t = 'a'", "false").attributes
    assert a.width == pytest.approx((0.6 + 1.0 + 0.0) / 3)
    assert r.width == pytest.approx((1.0 + 0.2 + 0.0) / 3)
    assert c.width == pytest.approx((1.0 + 0.25 + 0.0) / 3)
    assert [each.limited for each in (a, r, c, t)] == pytest.approx([2 / 3] * 4)


def test_matches_are_counted_per_event():
    summary = of("a <= 3", "t = 'b'", "a = 1")
    assert (summary.events, summary.subscriptions, summary.counted) == (4, 3, 4)
    assert summary.matches == (3 + 1 + 2 + 0) / 4
    assert summary.most_matches == 3
    assert summary.unwanted == 0.25


def test_progress_is_told_of_each_subscription():
    steps = []
    workload = Workload(SCHEMA, EVENTS, (Filter.everything(SCHEMA),) * 3)
    summarise(workload, steps.append)
    assert steps == [1, 1, 1]


def test_many_events_are_sampled(monkeypatch):
    monkeypatch.setattr("pleroma.workloads.summary.MAX_MATCHED_EVENTS", 2)
    summary = of("true")
    assert (summary.events, summary.counted, summary.matches) == (4, 2, 1.0)


def test_a_domain_of_one_value_is_asked_for_wholly_or_not_at_all():
    schema = Schema("s", (Real("a", False, 1.0, 1.0),))
    events = EventBatch.from_columns(schema, {"a": [1.0]})
    everything, nothing = Filter.everything(schema), Filter.nothing(schema)
    assert summarise(Workload(schema, events, (everything, nothing))).attributes[0].width == 0.5


def test_an_empty_workload_has_a_summary():
    summary = summarise(Workload(SCHEMA, EVENTS[[]], ()))
    assert (summary.matches, summary.most_matches, summary.unwanted) == (0.0, 0, 0.0)
    assert [each.least for each in summary.attributes] == [None] * 4
    assert [each.width for each in summary.attributes] == [None] * 4
