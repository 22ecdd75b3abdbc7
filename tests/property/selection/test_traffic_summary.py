"""A pass over events leaves the same whatever it was split into, and says of each part what a plain loop would."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pleroma.content import Filter, Integer, Real, Schema
from pleroma.content.batch import EventBatch
from pleroma.content.event_draw import RunningDraw, tickets_of
from pleroma.errors import TuningError
from pleroma.evaluation.sample import Sample, scaled
from pleroma.selection import box_blocks as boxes_module
from pleroma.selection.box_blocks import BoxBlocks, keys_of
from pleroma.selection.traffic_statistics import TrafficStatistics
from pleroma.selection.traffic_summary import NumberedBatch, PartialSummary, SummaryPass, summarise_traffic
from support.strategies import events, filters, schemas


@st.composite
def traffic(draw):
    schema = draw(schemas(most=4))
    subscriptions = draw(st.lists(filters(schema), min_size=1, max_size=12))
    listed = draw(st.lists(events(schema), min_size=2, max_size=25))
    return schema, subscriptions, EventBatch.from_events(schema, listed)


def alike(mine, its):
    for each in dataclasses.fields(TrafficStatistics):
        assert np.array_equal(getattr(mine, each.name), getattr(its, each.name)), each.name


def split(draw, batch, numbers):
    """The rows in another order, in parts, some of them empty."""
    order = draw(st.permutations(range(len(batch))))
    cuts = sorted(draw(st.lists(st.integers(0, len(batch)), max_size=4)))
    parts = np.split(np.array(order), cuts)
    return [NumberedBatch(batch[part], None if numbers is None else numbers[part]) for part in parts]


@given(traffic(), st.data(), st.booleans(), st.integers(2, 30))
def test_however_it_is_split_a_pass_leaves_the_same(drawn, data, numbered, most):
    schema, subscriptions, batch = drawn
    numbers = np.arange(len(batch)) if numbered else None
    once = SummaryPass.of(schema, subscriptions, most, seed=3, statistics=True)
    whole = once.over([NumberedBatch(batch, numbers)])
    parts = split(data.draw, batch, numbers)
    middle = data.draw(st.integers(0, len(parts)))
    merged = PartialSummary.merged([once.over(parts[:middle]), once.over(parts[middle:])])
    alike(merged.statistics, whole.statistics)
    assert merged.draw.events == whole.draw.events
    assert np.array_equal(merged.draw.tickets, whole.draw.tickets)
    assert len(whole.draw.events) == min(most, len(batch))


@given(traffic())
def test_statistics_of_prepared_boxes_are_those_of_the_sample(drawn):
    schema, subscriptions, batch = drawn
    expected = TrafficStatistics.of(Sample.of(batch, subscriptions))
    alike(
        TrafficStatistics.counted(BoxBlocks.of(schema, subscriptions), keys_of(batch), scaled(schema, batch.points())),
        expected,
    )


@given(traffic(), st.integers(1, 5), st.integers(0, 2))
def test_blocks_of_any_size_count_the_same(drawn, size, kept):
    _, subscriptions, batch = drawn
    expected = TrafficStatistics.of(Sample.of(batch, subscriptions))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(boxes_module, "BLOCK_BOXES", size)
        patch.setattr(boxes_module, "MAX_KEPT_BLOCKS", kept)
        alike(TrafficStatistics.of(Sample.of(batch, subscriptions)), expected)


@given(traffic())
def test_what_judges_is_not_in_the_statistics(drawn):
    _, subscriptions, batch = drawn
    found = summarise_traffic(batch, subscriptions, statistics=True)
    assert len(found.training) + len(found.judging) == found.events == len(batch)
    assert len(found.training) - len(found.judging) in (0, 1)
    alike(found.statistics, TrafficStatistics.of(Sample.of(found.training, subscriptions)))


@given(traffic(), st.integers(2, 30))
def test_without_statistics_a_pass_draws_and_counts_the_same_events(drawn, most):
    _, subscriptions, batch = drawn
    bare, counted = (summarise_traffic(batch, subscriptions, draw=most, statistics=each) for each in (False, True))
    assert bare.statistics is None
    assert (bare.events, bare.training, bare.judging) == (counted.events, counted.training, counted.judging)


def test_a_draw_is_spread_over_all_events_and_changes_with_the_seed():
    schema = Schema("line", (Integer("a", False, 0, 9_999),))
    batch = EventBatch.from_columns(schema, {"a": np.arange(10_000)})

    def drawn(seed):
        drawing = RunningDraw(schema, 1_000, seed)
        for at in range(0, 10_000, 700):
            drawing.add(batch[at : at + 700], np.arange(at, min(at + 700, 10_000)))
        return drawing.result().events.columns[0]

    found = drawn(0)
    smallest = np.argsort(tickets_of(batch, np.arange(10_000), 0))[:1_000]
    assert found.tolist() == smallest.tolist()
    tenths = np.bincount(found // 1_000, minlength=10)
    assert tenths.min() > 60  # 100 each; six standard deviations are 57
    assert set(found.tolist()) != set(drawn(1).tolist())


def test_equal_events_with_numbers_are_drawn_one_by_one_and_without_them_together():
    schema = Schema("line", (Integer("a", False, 0, 1),))
    subscriptions = [Filter.parse(schema, "a == 1")]
    batch = EventBatch.from_columns(schema, {"a": np.arange(1_000) % 2})
    numbered = summarise_traffic(batch, subscriptions, draw=200)
    assert 60 < int(numbered.training.columns[0].sum()) + int(numbered.judging.columns[0].sum()) < 140
    once = SummaryPass.of(schema, subscriptions, 200)
    bare = once.finished(once.over([NumberedBatch(batch)]))
    assert len(set(bare.training.columns[0].tolist())) == 1


def test_refused_events_are_told_and_too_few_are_refused():
    schema = Schema("line", (Integer("a", False, 0, 9),))
    subscriptions = [Filter.parse(schema, "a > 3")]
    batch = EventBatch.from_columns(schema, {"a": [1, 5]})
    once = SummaryPass.of(schema, subscriptions)
    assert (
        once.finished(
            once.over([NumberedBatch(batch, np.arange(2), 3), NumberedBatch(batch, np.arange(2, 4), 4)])
        ).refused
        == 7
    )
    with pytest.raises(TuningError, match="two events"):
        once.finished(once.over([NumberedBatch(batch[:1], np.arange(1))]))
    with pytest.raises(TuningError, match="no subscriptions"):
        SummaryPass.of(schema, [])


@given(traffic(), st.booleans(), st.integers(2, 20))
def test_who_learns_from_all_events_can_leave_out_those_that_judge(drawn, numbered, most):
    schema, subscriptions, batch = drawn
    distinct = EventBatch.from_events(schema, list(dict.fromkeys(batch)))
    if len(distinct) < 2:
        return
    numbers = np.arange(len(distinct)) if numbered else None
    once = SummaryPass.of(schema, subscriptions, most, statistics=True)
    found = once.finished(once.over([NumberedBatch(distinct, numbers)]))
    left = found.held_out.without(distinct, numbers)
    assert set(left) == set(distinct) - set(found.judging)
    alike(found.statistics, TrafficStatistics.of(Sample.of(left, subscriptions)))


def test_events_that_share_a_number_are_drawn_by_their_content():
    schema = Schema("line", (Integer("a", False, 0, 99),))
    once = SummaryPass.of(schema, [Filter.parse(schema, "a > 3")], 10)
    batch = EventBatch.from_columns(schema, {"a": np.arange(100)})
    found = [
        once.over([NumberedBatch(batch[rows], np.zeros(100, np.int64))])
        for rows in (slice(None), slice(None, None, -1))
    ]
    assert found[0].draw.events == found[1].draw.events


def test_what_is_constant_has_no_variance_at_all():
    schema = Schema("plane", (Real("a", False, 0.0, 1.0), Real("b", False, 0.0, 1.0)))
    batch = EventBatch.from_columns(schema, {"a": np.full(1_000, 1 / 3), "b": np.linspace(0.0, 0.7, 1_000)})
    covariance = summarise_traffic(batch, [Filter.parse(schema, "a > 0.1")], statistics=True).statistics.covariance
    assert covariance[0].tolist() == [0.0, 0.0]
    assert covariance[1, 1] == pytest.approx(0.49 / 12, rel=0.1)
