"""Rectangles around similar subscriptions, as many as pay, and selections that know which index they choose for."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from pleroma.content import Filter, Real, Schema
from pleroma.content.batch import EventBatch
from pleroma.errors import TuningError, UnknownName
from pleroma.evaluation.grid_evaluator import GridEvaluator
from pleroma.evaluation.sample import Sample
from pleroma.index import GridIndex, Rectangle, evaluate
from pleroma.selection.advice import AdviceQuestion, advise
from pleroma.selection.clusters import rectangles
from pleroma.selection.dimension_selection import select
from pleroma.selection.evidence import Evidence
from pleroma.selection.selective_indexing import SelectiveSplit
from pleroma.selection.splits import SPLITS, RegularSplit
from pleroma.selection.traffic_statistics import TrafficStatistics
from pleroma.selection.traffic_summary import summarise_traffic
from pleroma.workloads import EXPRESSIVE, generate

PLANE = Schema("plane", (Real("x", False, 0, 100), Real("y", False, 0, 100)))
CORNERS = (
    "x >= 1 and x <= 5 and y >= 1 and y <= 4",
    "x >= 3 and x <= 9 and y >= 2 and y <= 8",
    "x >= 90 and x <= 95 and y >= 91 and y <= 99",
    "x >= 92 and x <= 98 and y >= 90 and y <= 94",
)


def sample_of(texts, points):
    columns = {"x": [x for x, _ in points], "y": [y for _, y in points]}
    return Sample.of(EventBatch.from_columns(PLANE, columns), [Filter.parse(PLANE, text) for text in texts])


def hotspots():
    return sample_of(CORNERS, [(float(x), float(y)) for x in range(0, 100, 3) for y in range(0, 100, 3)])


def test_subscriptions_in_two_corners_are_parted_into_the_corners():
    one, two = list(rectangles(hotspots(), 2))
    assert one == [Rectangle(((1.0, 98.0), (1.0, 99.0)))]
    corners = {Rectangle(((1.0, 9.0), (1.0, 8.0))), Rectangle(((90.0, 98.0), (90.0, 99.0)))}
    assert set(two) == corners


def test_wide_subscriptions_are_parted_from_narrow_ones_at_the_same_place():
    texts = [f"x >= {50 - r} and x <= {50 + r} and y >= {50 - r} and y <= {50 + r}" for r in (2, 50, 3, 50, 4, 50)]
    _, two = list(rectangles(sample_of(texts, [(1.0, 1.0)]), 2))
    assert sorted(each.sides[0] for each in two) == [(0.0, 100.0), (46.0, 54.0)]


def test_alike_subscriptions_are_not_parted():
    assert len(list(rectangles(sample_of(CORNERS[:1] * 5, [(1.0, 1.0)]), 4))) == 1


def test_rectangles_spend_the_bits_where_subscriptions_are():
    sample = hotspots()
    assert SelectiveSplit(sample, 8).waste([0, 1]).wasted < RegularSplit(sample, 8).waste([0, 1]).wasted


def test_no_rectangle_is_taken_where_none_pays():
    everywhere = [
        f"x >= {x} and x <= {x + 30} and y >= {y} and y <= {y + 30}" for x in (0, 35, 70) for y in (0, 35, 70)
    ]
    sample = sample_of(everywhere, [(float(x), float(y)) for x in range(0, 100, 7) for y in range(0, 100, 7)])
    assert SelectiveSplit(sample, 4).waste([0, 1]).deliveries <= RegularSplit(sample, 4).waste([0, 1]).deliveries


def test_more_rectangles_than_bits_can_number_are_refused():
    with pytest.raises(TuningError, match="no room for the rectangles' numbers"):
        SelectiveSplit(hotspots(), 2, 4)
    with pytest.raises(TuningError, match="-1 rectangles"):
        SelectiveSplit(hotspots(), 8, -1)
    assert len(SelectiveSplit(hotspots(), 2).index([0]).regions) == 1  # without a count, what fits


@pytest.mark.parametrize("name", SPLITS)
def test_brute_force_with_a_split_in_the_loop_finds_the_best_set_for_that_split(name):
    settings = {"dimensions": 4, "subscriptions": 30, "events": 300, "width": 0.2, "distribution": "zipfian"}
    workload = generate(replace(EXPRESSIVE, placement="inside", seed=5, **settings))
    sample = Sample.of(workload.events, workload.subscriptions)
    split = SPLITS[name](sample, 10)
    evidence = Evidence(TrafficStatistics.of(sample), split)
    for count in (1, 2, 3):
        best = min(split.waste(dims).deliveries for dims in combinations(range(4), count))
        assert split.waste(select("bes", evidence, count)).deliveries == best
        assert split.waste(select("ges", evidence, count)).deliveries <= 1.1 * best


def test_a_split_of_unknown_name_is_refused():
    workload = generate(replace(EXPRESSIVE, dimensions=2, subscriptions=3, events=10))
    with pytest.raises(UnknownName, match="selectve"):
        advise(workload.events, AdviceQuestion(workload.subscriptions, 6, compare=True, splits=["selectve"]))


def test_subscriptions_on_few_hosts_are_delivered_once_a_host():
    texts = ["x < 40", "y < 40", "x < 60 and y < 60", "x > 90"]
    sample = sample_of(texts, [(float(x), float(y)) for x in range(0, 100, 9) for y in range(0, 100, 9)])
    homes = np.array([1, 0, 1, 0])  # those of a host do not stand together
    hosts = [Filter.parse(PLANE, "y < 40 or x > 90"), Filter.parse(PLANE, "x < 40 or x < 60 and y < 60")]
    events = [PLANE.event(x=x, y=y) for x, y in sample.points.tolist()]
    expected = evaluate(GridIndex.regular(PLANE, 4), hosts, events)
    assert GridEvaluator(sample.grouped(homes), 4).waste([0, 1]) == expected


def test_advice_chooses_dimensions_with_the_split_in_the_loop():
    settings = {"dimensions": 4, "subscriptions": 30, "events": 400, "distribution": "zipfian", "variance": "random"}
    workload = generate(replace(EXPRESSIVE, placement="inside", width=0.1, seed=2, **settings))
    (*_, brute) = sorted(
        advise(
            workload.events,
            AdviceQuestion(workload.subscriptions, 8, compare=True, selections=["bes"], splits=["adaptive"]),
        ),
        key=lambda each: len(each.by_count),
    )
    split = SPLITS["adaptive"](
        Sample.of(summarise_traffic(workload.events, workload.subscriptions).training, workload.subscriptions), 8
    )
    for count, waste in brute.by_count.items():
        assert waste.deliveries == min(split.waste(dims).deliveries for dims in combinations(range(4), count))
