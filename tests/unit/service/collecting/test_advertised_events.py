"""Which events a principal's advertisements hold: compared with every filter one by one."""

import json

import numpy as np
import pytest

from pleroma.content import Filter
from pleroma.content.batch import EventBatch
from pleroma.content.filter_json import to_json
from pleroma.control.state.records import Registered
from pleroma.control.state.registrations import Registrations
from pleroma.index import DzSet
from pleroma.routing import HostId
from pleroma.service.collecting import advertised_events
from pleroma.service.collecting.advertised_events import AdvertisedEvents
from support.strategies import STOCK

ENTRY = type("Entry", (), {"schema": STOCK})()


def advertisement(filter, number, principal="ann"):
    boxes = json.dumps(to_json(filter))
    return Registered(f"a{number}", "advertisement", principal, HostId("h1"), ENTRY, boxes, DzSet(()), number + 1)


def random_filter(draw):
    low, high = sorted(draw.uniform(0, 100, 2))
    texts = (f"price >= {low} and price < {high}", f"ticker startswith '{draw.choice(list('ABC'))}'", "volume < 50")
    chosen = draw.choice(texts, draw.integers(1, 4), replace=False)
    return Filter.parse(STOCK, (" and " if draw.random() < 0.6 else " or ").join(chosen))


@pytest.mark.parametrize("seed", range(12))
def test_an_event_is_held_if_some_filter_matches_it(seed, monkeypatch):
    monkeypatch.setattr(advertised_events, "_BOXES_AT_ONCE", 3)
    draw = np.random.default_rng(seed)
    filters = [random_filter(draw) for _ in range(draw.integers(1, 9))]
    columns = {"price": draw.uniform(0, 100, 200), "volume": draw.integers(0, 100, 200)}
    events = EventBatch.from_columns(
        STOCK, columns | {"ticker": [str(each) for each in draw.choice(list("ABCD"), 200)]}
    )
    registrations = Registrations()
    for number, each in enumerate(filters):
        registrations.add(advertisement(each, number))
    registrations.tell(1_000)
    held = AdvertisedEvents(registrations).of("ann", "stock")
    expected = np.any([events.matches(each) for each in filters], axis=0)
    for _ in range(3):  # the order of the boxes changes, the answer does not
        assert np.array_equal(held.hold(events), expected)
    assert held.is_whole


def test_what_is_held_follows_registrations_and_is_parsed_once_between():
    registrations = Registrations()
    known = AdvertisedEvents(registrations)
    one, two = (advertisement(Filter.parse(STOCK, text), n) for n, text in enumerate(("price < 5", "price > 50")))
    events = EventBatch.from_columns(STOCK, {"price": [1.0, 60.0], "volume": [1, 1], "ticker": ["A", "A"]})

    def held():
        registrations.tell(1_000)
        return known.of("ann", "stock").hold(events).tolist()

    assert held() == [False, False]
    registrations.add(one)
    assert held() == [True, False]
    assert known.of("ann", "stock") is known.of("ann", "stock")
    registrations.add(two)
    assert held() == [True, True]
    registrations.remove(one)
    assert held() == [False, True]
    registrations.remove(two)
    assert held() == [False, False]
    assert known._advertisements == known._known == {}


def test_more_boxes_than_are_compared_are_not_the_whole(monkeypatch):
    monkeypatch.setattr(advertised_events, "MAX_CHECKED_BOXES", 3)
    registrations = Registrations()
    known = AdvertisedEvents(registrations)
    events = EventBatch.from_columns(STOCK, {"price": [1.0], "volume": [1], "ticker": ["A"]})
    for number in range(3):
        registrations.add(advertisement(Filter.parse(STOCK, f"price > {number + 50}"), number))
    registrations.tell(1_000)
    assert not known.of("ann", "stock").hold(events).any()
    assert known.of("ann", "stock").is_whole
    two_boxes = Filter.parse(STOCK, "price > 60 or volume > 70")
    registrations.add(advertisement(two_boxes, 3))
    registrations.tell(1_000)
    held = known.of("ann", "stock")
    held.hold(events)
    assert not held.is_whole


def test_few_boxes_are_compared_in_the_loop_and_many_elsewhere_parsed_or_not():
    registrations = Registrations()
    known = AdvertisedEvents(registrations)
    events = EventBatch.from_columns(STOCK, {"price": [1.0], "volume": [1], "ticker": ["A"]})

    def is_quick():
        held = known.of("ann", "stock")
        before = held.is_quick
        held.hold(events)
        assert held.is_quick == before
        return before

    for number in range(100):
        registrations.add(advertisement(Filter.parse(STOCK, f"price > {number}"), number))
    registrations.tell(1_000)
    assert is_quick()
    for number in range(100, 600):
        registrations.add(advertisement(Filter.parse(STOCK, f"volume > {number}"), number))
    registrations.tell(1_000)
    assert not is_quick()


def test_boxes_that_held_events_are_compared_first_from_then_on():
    registrations = Registrations()
    known = AdvertisedEvents(registrations)
    for number in range(5):
        registrations.add(advertisement(Filter.parse(STOCK, f"volume == {number}"), number))
    registrations.tell(1_000)
    held = known.of("ann", "stock")
    held.hold(EventBatch.from_columns(STOCK, {"price": [1.0], "volume": [2], "ticker": ["A"]}))
    assert held._boxes[0] == Filter.parse(STOCK, "volume == 2").boxes[0]
    assert len(held._boxes) == 5
