from dataclasses import replace

import numpy as np

from pleroma.workloads import EXPRESSIVE, hotspots_of_subscriptions
from pleroma.workloads.hotspot_drift import hotspot_moved

MODEL = replace(EXPRESSIVE, distribution="zipfian", width=0.1, placement="inside", subscriptions=200, events=2_000)


def test_only_the_subscriptions_of_the_hotspot_change():
    drift = hotspot_moved(MODEL, rank=1, seed=7)
    mine = hotspots_of_subscriptions(MODEL) == 1
    kept = [after == before for after, before in zip(drift.subscriptions, drift.before.subscriptions, strict=True)]
    assert all(same for same, moves in zip(kept, mine, strict=True) if not moves)
    assert kept.count(False) == len(drift.arrived) > 20
    assert set(drift.arrived) == set(drift.subscriptions) - set(drift.before.subscriptions)


def test_the_events_of_the_hotspot_are_wanted_by_those_that_moved_with_it():
    drift = hotspot_moved(MODEL, rank=1, seed=7)
    found = np.any([drift.moved.matches(each) for each in drift.arrived], axis=0)
    assert found.mean() > 0.6  # some of those that they are inside of had no place to go to
    before = np.any([drift.moved.matches(each) for each in drift.before.subscriptions], axis=0)
    assert before.mean() < 0.05
    assert 0.1 < len(drift.moved) / len(drift.events) < 0.4


def test_the_same_drift_is_the_same():
    first, second = (hotspot_moved(MODEL, rank=1, seed=7) for _ in range(2))
    assert first.subscriptions == second.subscriptions
    np.testing.assert_array_equal(first.events.points(), second.events.points())
