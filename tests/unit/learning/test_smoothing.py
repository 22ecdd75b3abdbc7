"""Points mixed in with the events: where they are, and what they weigh."""

from dataclasses import replace

import numpy as np
import pytest

from pleroma.content import Filter, Integer, Schema
from pleroma.content.batch import EventBatch
from pleroma.evaluation.sample import Sample
from pleroma.learning.smoothing import SMOOTHINGS, between_neighbours, inside_subscriptions, weight_of_each
from pleroma.workloads import THESIS, generate

PLANE = Schema("plane", (Integer("x", False, 0, 999), Integer("y", False, 0, 999)))


@pytest.fixture(scope="module")
def sample():
    made = generate(replace(THESIS, dimensions=3, subscriptions=40, events=700, seed=2))
    return Sample.of(made.events, made.subscriptions)


def random():
    return np.random.default_rng(4)


@pytest.mark.parametrize("name", SMOOTHINGS)
def test_every_event_counts_once_and_what_is_mixed_in_adds_up_to_the_same_in_any_order(sample, name):
    made = SMOOTHINGS[name](sample, random())
    np.testing.assert_array_equal(made.points[: sample.events], sample.points)
    assert (made.weight[: sample.events] == 1.0).all()
    total = made.weight.sum()
    for seed in range(5):
        shuffled = np.random.default_rng(seed).permutation(made.weight)
        assert np.cumsum(shuffled)[-1] == total


@pytest.mark.parametrize(("total", "count"), [(0.02, 60_000), (2.0, 3), (1e9, 7), (0.1, 1), (0.0, 5)])
def test_a_weight_is_rounded_by_less_than_a_millionth(total, count):
    each = weight_of_each(total, count)
    assert abs(each * count - total) <= 1e-6 * total
    assert each * count == np.cumsum(np.full(count, each))[-1]


def test_points_in_subscriptions_are_in_some_subscription_and_have_the_weight_asked_for(sample):
    made = inside_subscriptions(sample, random(), 0.5, 2_000)
    met = (made.points[:, None] >= sample.first) & (made.points[:, None] <= sample.last)
    assert met.all(axis=2).any(axis=1).all()
    assert made.weight.sum() == pytest.approx(0.5 * sample.events, rel=1e-5)


def test_points_between_neighbours_stay_in_the_crowd_that_both_are_of():
    x = np.concatenate([np.arange(100, 200), np.arange(700, 800)])
    events = EventBatch.from_columns(PLANE, {"x": x, "y": np.full(len(x), 5)})
    crowds = Sample.of(events, [Filter.parse(PLANE, "x < 20")])
    made = between_neighbours(crowds, random(), 2.0, 2_000)
    place = made.points[:, 0]
    assert len(place) == 2_000
    assert (((place >= 100) & (place <= 199)) | ((place >= 700) & (place <= 799))).all()
    assert np.unique(place).size > 1_500  # anywhere between them, not only where events were
    assert made.weight.sum() == pytest.approx(2.0 * len(x), rel=1e-5)


def test_an_event_meets_one_neighbour_after_another(sample):
    made = between_neighbours(sample, random(), 2.0, 10 * sample.events).points.reshape(10, sample.events, -1)
    event = made[:, 0] - made[0, 0]
    directions = {tuple(np.sign(each)) for each in event[1:]}
    assert len(directions) > 1


def test_a_few_events_are_not_made_into_many_points():
    events = EventBatch.from_columns(PLANE, {"x": np.arange(10), "y": np.arange(10)})
    few = Sample.of(events, [Filter.parse(PLANE, "x < 20")])
    assert len(between_neighbours(few, random(), 2.0, 100_000).points) == 240
