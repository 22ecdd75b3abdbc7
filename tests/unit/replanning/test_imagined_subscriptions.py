"""Subscriptions that might come: like those that are there, at places where events are."""

import numpy as np

from pleroma.content import Category, Filter, Text
from pleroma.replanning.imagined_subscriptions import imagined_subscriptions
from pleroma.workloads.vans import VansModel, generate_vans
from support.watch_cases import SCHEMA, subscriptions, traffic

VANS = generate_vans(VansModel(events=300, subscriptions=40, seed=2))


def test_they_are_as_many_as_asked_for_and_the_same_for_the_same_seed():
    found = imagined_subscriptions(VANS.subscriptions, VANS.events, 50, seed=1)
    assert len(found) == 50
    assert found == imagined_subscriptions(VANS.subscriptions, VANS.events, 50, seed=1)
    assert found != imagined_subscriptions(VANS.subscriptions, VANS.events, 50, seed=2)


def test_each_limits_the_attributes_that_some_subscription_limits_and_is_as_wide():
    known = {_shape(box) for each in VANS.subscriptions for box in each.boxes}
    assert {
        _shape(box) for each in imagined_subscriptions(VANS.subscriptions, VANS.events, 200) for box in each.boxes
    } <= known


def _shape(box):
    """Which attributes a box limits; of categories, to what."""
    limited = []
    for attribute, part in zip(VANS.schema.attributes, box.ranges, strict=True):
        if part.covers(attribute.present):
            limited.append(None)
        else:
            limited.append(part if isinstance(attribute, Category) else type(attribute).__name__)
    return tuple(limited)


def test_a_range_with_two_ends_lies_around_an_event():
    known = [row.filter for row in subscriptions(24)]
    events = traffic(100, False)
    wanted = [each for each in imagined_subscriptions(known, events, 100) if np.any(events.matches(each))]
    assert len(wanted) > 50


def test_a_word_is_one_that_was_published():
    words = {event.value_keys[0] for event in VANS.events}
    one_van = [Filter.parse(VANS.schema, "id = 'van-007'")]
    named = {each.boxes[0].ranges[0].lo for each in imagined_subscriptions(one_van, VANS.events, 60)}
    assert isinstance(VANS.schema.attributes[0], Text)
    assert named <= words
    assert len(named) > 10


def test_open_ranges_stay_as_they_are():
    fast = [Filter.parse(VANS.schema, "speed > 80 and status = 'delayed'")]
    assert set(imagined_subscriptions(fast, VANS.events, 20)) == set(fast)


def test_where_there_is_nothing_to_go_by_there_are_none():
    assert imagined_subscriptions([], traffic(10, False)) == []
    assert imagined_subscriptions([Filter.everything(SCHEMA)], traffic(0, False)) == []
