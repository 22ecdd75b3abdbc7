"""How far traffic has moved: nothing by chance, a lot by a real shift, and the attribute that moved decides."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pleroma.replanning.drift import alike, by_attribute, distance, drift
from pleroma.replanning.windows import HISTOGRAM_BINS, MetricKey, TrafficWindow
from support.watch_cases import BEGIN, SCHEMA, WINDOW

counts = st.lists(st.integers(0, 10_000), min_size=5, max_size=5)


def window(number=0, **spots):
    """A thousand events, all with these bins by attribute."""
    cells = {MetricKey("events"): 1000, MetricKey("epoch", 1): 1000}
    for d, name in enumerate(SCHEMA.names):
        cells[MetricKey("histogram", d, spots.get(name, 0))] = 1000
    return TrafficWindow.of(SCHEMA, BEGIN + number * WINDOW, WINDOW, cells)


@given(counts, counts)
def test_a_distance_is_symmetric_and_between_0_and_1(one, other):
    assert 0 <= distance(one, other) <= 1
    assert distance(one, other) == pytest.approx(distance(other, one))
    assert distance(one, one) == 0


def slowly(one, other):
    """The Jensen-Shannon distance by its definition: the entropy of the mean less the mean of the entropies."""

    def entropy(shares):
        return -sum(p * math.log2(p) for p in shares if p)

    p, q = ([n / sum(each) for n in each] for each in (one, other))
    mean = [(a + b) / 2 for a, b in zip(p, q, strict=True)]
    return math.sqrt(max(entropy(mean) - (entropy(p) + entropy(q)) / 2, 0))


@given(counts.filter(any), counts.filter(any))
def test_of_many_events_it_is_the_jensen_shannon_distance(one, other):
    many = 10**9
    assert distance([n * many for n in one], [n * many for n in other]) == pytest.approx(slowly(one, other), abs=1e-3)


def test_shares_that_have_nothing_in_common_are_1_apart():
    assert distance([10**9, 0], [0, 10**9]) == pytest.approx(1)
    assert distance([0, 0], [1, 2]) == 0


@pytest.mark.parametrize("count", [30, 200, 5000])
def test_two_samples_of_one_traffic_are_close_however_small(count):
    draw = np.random.default_rng(7)
    shares = draw.dirichlet(np.ones(HISTOGRAM_BINS + 1))
    samples = draw.multinomial(count, shares, size=(200, 2))
    found = [distance(one.tolist(), other.tolist()) for one, other in samples]
    assert np.mean([each < 0.3 for each in found]) > 0.99
    assert np.median(found) == 0


def test_what_is_left_out_as_chance_has_one_degree_of_freedom_less_than_bins_that_are_used():
    one, other = [60, 40, 0, 0], [40, 60, 0, 0]
    chance = (1 + 2 * math.sqrt(2)) / (8 * math.log(2)) * (1 / 100 + 1 / 100)
    assert distance(one, other) ** 2 == pytest.approx(slowly(one, other) ** 2 - chance)


def test_the_attribute_that_moved_furthest_decides():
    moved = window(volume=3)
    assert by_attribute(window(), moved) == {"price": 0, "volume": pytest.approx(1, abs=0.01), "venue": 0}
    assert drift(window(), moved) == pytest.approx(1, abs=0.01)


def test_with_nothing_to_compare_there_is_no_drift():
    empty = TrafficWindow.of(SCHEMA, BEGIN, WINDOW, {})
    assert drift(None, window()) is None
    assert drift(empty, window()) is None
    assert drift(window(), empty) is None
    assert drift(replace(window(), attributes=("a", "b", "c")), window()) is None


def test_only_the_windows_since_the_last_change_are_alike():
    history = [window(0), window(1), window(2, price=9), window(3, price=9), window(4, price=9)]
    empty = TrafficWindow.of(SCHEMA, BEGIN + 5 * WINDOW, WINDOW, {})
    assert alike(history, 60, 0.3) == history[2:]
    assert alike([*history, empty, window(6, price=9)], 60, 0.3) == [*history[2:], window(6, price=9)]
    assert alike(history, 2, 0.3) == history[3:]
    assert alike(history[1:3], 60, drift(history[2], history[1])) == history[2:3]
    assert alike([window(0), window(1, price=9), window(2)], 60, 0.3) == [window(2)]
