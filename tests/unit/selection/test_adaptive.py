"""Boundaries at medians of the workload, and what becomes of places that the workload does not reach."""

import numpy as np
import pytest

from pleroma.content import Filter, Integer, Real, Schema
from pleroma.content.batch import EventBatch
from pleroma.errors import TuningError
from pleroma.evaluation.grid_evaluator import GridEvaluator
from pleroma.evaluation.sample import Sample
from pleroma.index import GridIndex, evaluate
from pleroma.selection.adaptive import MAX_AXIS_BITS, adaptive_grid, medians, workload

UNIT = Schema("unit", (Real("x", False, 0.0, 1.0), Real("y", False, 0.0, 1.0)))


def cuts(values, load=None, extent=(0.0, 16.0), bits=2):
    given = np.array(values, np.float64)
    return medians(given, np.ones(len(given), np.int64) if load is None else np.array(load), extent, bits)


def sample_of(schema, columns, texts):
    return Sample.of(EventBatch.from_columns(schema, columns), [Filter.parse(schema, text) for text in texts])


def skewed(seed, events=300):
    """Nearly everything near the origin; subscriptions are as narrow as events are dense."""
    rng = np.random.default_rng(seed)
    columns = {"x": rng.random(events) ** 5, "y": rng.random(events) ** 5}
    corners = (rng.random((40, 2)) * 0.9).tolist()
    ranges = [(p**5, (p + 0.1) ** 5, q**5, (q + 0.1) ** 5) for p, q in corners]
    texts = [f"x between {p} and {q} and y between {r} and {s}" for p, q, r, s in ranges]
    return sample_of(UNIT, columns, texts), columns, [Filter.parse(UNIT, text) for text in texts]


# -- medians ---------------------------------------------------------------------------------------------------------


def test_distinct_values_are_halved_again_and_again():
    values = [7, 0, 12, 3, 1, 15, 8, 2, 4, 10, 9, 11, 5, 13, 6, 14]
    assert cuts(values, bits=1) == [8]
    assert cuts(values, bits=3) == [2, 4, 6, 8, 10, 12, 14]


@pytest.mark.parametrize("bits", [1, 2, 3, 4])
def test_cells_of_distinct_values_hold_equal_shares(bits):
    values = np.random.default_rng(bits).permutation(256) ** 1.5
    found = cuts(values, extent=(0.0, 4096.0), bits=bits)
    held = np.bincount(np.searchsorted(found, values, side="right"), minlength=1 << bits)
    assert held.tolist() == [256 >> bits] * (1 << bits)


def test_it_is_the_workload_that_is_halved_not_the_events():
    assert cuts([1, 2, 3, 4], [1, 1, 1, 3], bits=1) == [4]
    assert cuts([1, 2, 3, 4], [3, 1, 1, 1], bits=1) == [2]
    assert cuts([1, 2, 3, 4], [0, 0, 2, 2], bits=1) == [4]


def test_equal_values_stay_together_on_the_side_that_balances_better():
    assert cuts([1, 5, 5, 5, 9, 9], bits=1) == [9]
    assert cuts([1, 1, 5, 5, 5, 9], bits=1) == [5]


def test_a_median_in_the_lowest_value_moves_up_rather_than_leave_one_side_empty():
    assert cuts([2, 2, 2, 2, 9], bits=1) == [9]
    assert cuts([2, 9, 9, 9, 9], bits=1) == [9]


@pytest.mark.parametrize("value", [0.0, 3.0, 8.0, 15.0, 16.0])
def test_one_value_over_and_over_gets_sorted_boundaries_of_the_right_number(value):
    found = cuts([value] * 20, bits=4)
    assert len(found) == 15
    assert found == sorted(found)
    assert all(0.0 <= cut <= 16.0 for cut in found)


def test_a_value_that_stands_alone_is_parted_from_the_wider_side():
    (below,) = cuts([3.0] * 5, bits=1)
    assert 3.0 < below < 3.1  # what lies above 3 is told apart
    assert cuts([12.0] * 5, bits=1) == [12.0]  # what lies below 12 is


def test_a_region_without_events_is_split_in_its_middle():
    assert cuts([], bits=2) == [4, 8, 12]
    first, second, empty = cuts([1, 2], bits=3)[3], cuts([1, 2], bits=3)[5], cuts([1, 2], bits=3)[6]
    assert first == 2
    assert second == pytest.approx(2)  # 2 itself lies below, nothing above
    assert empty == pytest.approx(9)  # from there to the end at 16


def test_events_that_nobody_matches_are_as_good_as_none():
    assert cuts([1, 2, 3, 4, 5], [0] * 5, bits=2) == [4, 8, 12]
    sample = sample_of(UNIT, {"x": [0.1, 0.2, 0.3], "y": [0.1, 0.2, 0.3]}, ["x > 0.9", "y > 0.9"])
    assert workload(sample).tolist() == [0, 0, 0]
    assert adaptive_grid(sample, 4).boundaries == {0: (0.25, 0.5, 0.75), 1: (0.25, 0.5, 0.75)}


# -- grids -----------------------------------------------------------------------------------------------------------


def test_boundaries_are_sorted_and_as_many_as_the_bits_need():
    sample, *_ = skewed(0)
    index = adaptive_grid(sample, 7)
    assert index.order == (0, 1, 0, 1, 0, 1, 0)
    assert {d: len(listed) for d, listed in index.boundaries.items()} == {0: 15, 1: 7}
    for listed in index.boundaries.values():
        assert list(listed) == sorted(listed)
        assert 0.0 <= listed[0] <= listed[-1] <= 1.0


def test_only_the_dimensions_asked_for_get_bits():
    sample, *_ = skewed(0)
    index = adaptive_grid(sample, 5, [1])
    assert index.order == (1,) * 5
    assert set(index.boundaries) == {1}
    assert adaptive_grid(sample, 4, [1, 0, 1]) == adaptive_grid(sample, 4)


def test_few_values_take_no_more_bits_than_tell_them_apart():
    schema = Schema("few", (Integer("x", False, 0, 3), Real("y", False, 0.0, 1.0)))
    sample = sample_of(schema, {"x": [0, 1, 2, 3], "y": [0.1, 0.2, 0.3, 0.4]}, ["true"])
    index = adaptive_grid(sample, 8)
    assert (index.order.count(0), index.order.count(1)) == (2, 6)
    assert index.boundaries[0] == (1.0, 2.0, 3.0)


def test_the_workload_is_what_full_matches_make_it():
    """Both subscriptions meet all events along one dimension; matched in full are those at 0.6 and beyond only."""
    values = [0.1, 0.2, 0.3, 0.6, 0.7, 0.8, 0.9]
    sample = sample_of(UNIT, {"x": values, "y": values}, ["x > 0.5", "x > 0.55 and y > 0"])
    assert workload(sample).tolist() == [0, 0, 0, 2, 2, 2, 2]
    assert adaptive_grid(sample, 1, [0]).boundaries == {0: (0.8,)}


def test_adaptive_wastes_less_than_regular_on_skewed_traffic():
    for seed in range(3):
        sample, *_ = skewed(seed)
        evaluator = GridEvaluator(sample, 8)
        regular, adaptive = evaluator.waste((0, 1)), evaluator.waste_of(adaptive_grid(sample, 8))
        assert adaptive.wanted == regular.wanted
        assert adaptive.wasted < 0.6 * regular.wasted


def test_unseen_events_get_a_dz_and_none_is_missed():
    sample, _, filters = skewed(1)
    index = adaptive_grid(sample, 8)
    ends = [0.0, float(np.nextafter(0.0, 1.0)), 0.5, float(np.nextafter(1.0, 0.0)), 1.0]
    points = [(x, y) for x in ends for y in ends]
    points += [cut for pair in zip(*index.boundaries.values(), strict=True) for cut in (pair, pair[::-1])]
    _, columns, _ = skewed(2, events=60)
    points += zip(columns["x"].tolist(), columns["y"].tolist(), strict=True)
    unseen = [UNIT.event(x=x, y=y) for x, y in points]
    assert {index.dz(event).length for event in unseen} == {8}
    held_out = evaluate(index, filters, unseen)  # raises where an event is missed
    assert held_out == GridEvaluator(Sample.of(EventBatch.from_events(UNIT, unseen), filters), 8).waste_of(index)


def test_learning_carries_over_to_traffic_of_the_same_kind():
    sample, _, filters = skewed(3, events=400)
    _, columns, _ = skewed(4)
    unseen = [UNIT.event(x=x, y=y) for x, y in zip(columns["x"].tolist(), columns["y"].tolist(), strict=True)]
    regular = evaluate(GridIndex.regular(UNIT, 8), filters, unseen)
    assert evaluate(adaptive_grid(sample, 8), filters, unseen).rate < regular.rate


def test_one_dimension_alone_takes_no_more_bits_than_a_plan_should_list():
    sample, *_ = skewed(0)
    index = adaptive_grid(sample, 23, [0])
    assert index.order == (0,) * MAX_AXIS_BITS
    assert len(index.boundaries[0]) == 2**MAX_AXIS_BITS - 1


def test_a_dimension_that_is_not_there_is_refused():
    sample = sample_of(UNIT, {"x": [0.1, 0.7], "y": [0.2, 0.3]}, ["x < 0.5"])
    for wrong in (lambda: adaptive_grid(sample, 4, [0, 2]), lambda: GridEvaluator(sample, 4).waste([-1])):
        with pytest.raises(TuningError, match="there is no dimension"):
            wrong()
