"""Samples in memory: the last ones, those that the planner has not seen, and the part that the lake asked for."""

import numpy as np
import pytest

from pleroma.content.batch import EventBatch
from pleroma.pipeline.lake.landed import BatchId, SampledEvents
from pleroma.service.collecting.sample_intake import MAX_FRESH_EVENTS, SampleIntake
from pleroma.service.collecting.sampling_rates import FIRST_RATE, SamplingRates
from support.strategies import STOCK


class Unlimited:
    """Lets all samples count."""

    def counted(self, _principal, samples, _rate):
        return samples


def sampled(count=4, rate=1.0, batch=None):
    events = EventBatch.from_columns(STOCK, {"price": [1.0] * count, "volume": [1] * count, "ticker": ["A"] * count})
    return SampledEvents(events, np.zeros(count, "datetime64[us]"), 1, rate, batch)


class LakeRate:
    """A collection that asks for a rate and remembers what it got."""

    def __init__(self, rate):
        self.asked, self.got = rate, []

    def rate(self, _schema):
        return self.asked

    def add_samples(self, events):
        self.got.append(events)
        return len(events.events)


def intake(lake=None, planning=True, told=None):
    rates = SamplingRates() if planning else None
    return SampleIntake(lake, rates, (told if told is not None else []).append, Unlimited())


@pytest.mark.parametrize(
    ("lake", "planning", "rate"),
    [(None, False, 0.0), (None, True, FIRST_RATE), (LakeRate(0.01), False, 0.01), (LakeRate(0.01), True, FIRST_RATE)],
)
def test_publishers_draw_at_the_higher_rate_of_planner_and_lake(lake, planning, rate):
    made = intake(lake, planning)
    assert made.rate("stock") == rate
    assert made.is_open == (rate > 0)


def test_the_planner_sees_each_sample_once():
    made = intake()
    made.take(sampled(3))
    made.take(sampled(2))
    assert [len(each.events) for each in made.fresh("stock")] == [3, 2]
    assert made.fresh("stock") == []
    assert made.recent.counts["stock"] == 5


def test_without_a_planner_nothing_waits_for_it():
    made = intake(LakeRate(1.0), planning=False)
    made.take(sampled(3))
    assert made.fresh("stock") == []
    assert made.recent.counts["stock"] == 3


def test_the_oldest_samples_go_if_the_planner_is_slow():
    made = intake()
    for _ in range(MAX_FRESH_EVENTS // 1_000 + 5):
        made.take(sampled(1_000))
    assert sum(len(each.events) for each in made.fresh("stock")) == MAX_FRESH_EVENTS


def test_a_batch_that_comes_again_counts_once():
    made = intake()
    for number in (0, 0, 1):
        assert made.take(sampled(2, batch=BatchId("ann/x", number))) == 2
    assert made.recent.counts["stock"] == 4


def test_the_lake_gets_as_much_as_it_asked_for_and_is_told_that_rate():
    lake = LakeRate(0.1)
    made = intake(lake)
    for _ in range(50):
        made.take(sampled(200, rate=0.5))
    assert {each.rate for each in lake.got} == {0.1}
    assert all(len(each.events) == len(each.at) for each in lake.got)
    assert 1_600 < sum(len(each.events) for each in lake.got) < 2_400


def test_what_was_drawn_at_the_lakes_own_rate_is_landed_whole():
    lake = LakeRate(0.1)
    intake(lake).take(sampled(200, rate=0.1))
    assert len(lake.got[0].events) == 200


def test_publishers_are_told_of_another_rate():
    told, now = [], [0.0]
    made = SampleIntake(None, SamplingRates(), told.append, Unlimited(), lambda: now[0])
    for second in range(12):
        now[0] = float(second)
        made.take(sampled(1, rate=FIRST_RATE))
    assert told == ["stock"]
    assert made.rate("stock") == 1.0
