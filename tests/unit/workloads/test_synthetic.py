"""What the generator promises, checked against the data it makes."""

from dataclasses import replace

import numpy as np
import pytest

from pleroma.workloads import EXPRESSIVE, PLEROMA, THESIS, HotspotLayout, generate, hotspots_of_subscriptions
from pleroma.workloads.hotspot_layout import BUCKET_EDGE

SEEDS = range(3)


def points(workload):
    """Events as shares of the domain."""
    low, high = workload.schema.attributes[0].extent
    return (workload.events.points() - low) / (high - low)


def bounds(workload):
    """The lower and upper bounds of subscriptions, as shares of the domain."""
    low, high = workload.schema.attributes[0].extent
    boxes = np.array([each.boxes[0].ranges for each in workload.subscriptions], np.float64)
    return (boxes[:, :, 0] - low) / (high - low), (boxes[:, :, 1] - low) / (high - low)


def widths(workload):
    lower, upper = bounds(workload)
    return upper - lower


def centres(workload):
    lower, upper = bounds(workload)
    return (lower + upper) / 2


def correlations(workload):
    """Pearson's, for each pair of dimensions that was drawn."""
    matrix = np.corrcoef(points(workload), rowvar=False)
    return [matrix[a, b] for a, b in workload.description["drawn"]["pairs"]]


def test_a_workload_has_the_sizes_asked_for():
    workload = generate(replace(PLEROMA, subscriptions=30, events=70))
    assert workload.schema.names == tuple(f"d{i}" for i in range(10))
    assert [a.describe() for a in workload.schema.attributes] == ["[0, 1023]"] * 10
    assert (len(workload.subscriptions), len(workload.events)) == (30, 70)
    assert workload.description["settings"]["events"] == 70


@pytest.mark.parametrize("placement", ["inside", "independent"])
def test_the_same_seed_gives_the_same_data_and_another_seed_other_data(placement):
    model = replace(EXPRESSIVE, distribution="zipfian", correlation="random", placement=placement, seed=7)
    assert generate(model) == generate(model)
    other = generate(replace(model, seed=8))
    assert generate(model).events != other.events
    assert generate(model).subscriptions != other.subscriptions


def test_a_larger_workload_begins_with_the_smaller():
    model = replace(EXPRESSIVE, distribution="zipfian", variance="random", selectivity="random", correlation="random")
    small = generate(replace(model, subscriptions=100, events=100))
    large = generate(replace(model, subscriptions=300, events=300))
    assert large.subscriptions[:100] == small.subscriptions
    assert large.events[:100] == small.events
    assert large.description["drawn"] == small.description["drawn"]


@pytest.mark.parametrize("distribution", ["uniform", "zipfian"])
@pytest.mark.parametrize("correlation", [None, "positive", "inverse", "random"])
def test_everything_lies_in_the_domain(distribution, correlation):
    model = replace(
        EXPRESSIVE, low=-3, high=9, distribution=distribution, correlation=correlation, variance="random", width=0.7
    )
    for placement in ("inside", "independent"):
        workload = generate(replace(model, placement=placement))
        for column in workload.events.columns:
            assert column.min() >= -3
            assert column.max() <= 9
        for each in workload.subscriptions:
            (box,) = each.boxes
            assert all(-3 <= lo < hi <= 10 for lo, hi in box.ranges)


def test_the_largest_domain_and_the_smallest_both_work():
    edge = 2**52 - 1
    wide = generate(replace(THESIS, low=-edge, high=edge, width=1.0, subscriptions=50, events=500))
    assert all(lo == -edge and hi == edge + 1 for f in wide.subscriptions for lo, hi in f.boxes[0].ranges)
    point = generate(replace(THESIS, low=3, high=3, subscriptions=5, events=5))
    assert set(point.events.points().ravel()) == {3.0}


# -- subscriptions -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [0.05, 0.2, 0.5, 0.9, 1.0])
def test_subscriptions_are_on_average_as_wide_as_asked(width):
    measured = widths(generate(replace(THESIS, width=width, subscriptions=4000, events=0)))
    assert measured.mean(axis=0) == pytest.approx(width, rel=0.03)
    assert measured.max() <= 1


def test_fixed_selectivity_gives_all_dimensions_the_same_width():
    for seed in SEEDS:
        means = widths(generate(replace(THESIS, subscriptions=4000, events=0, seed=seed))).mean(axis=0)
        assert means.max() / means.min() < 1.05


def test_random_selectivity_gives_dimensions_different_widths_with_the_same_mean():
    for seed in SEEDS:
        model = replace(THESIS, subscriptions=4000, events=0, width=0.3, selectivity="random", seed=seed)
        means = widths(generate(model)).mean(axis=0)
        assert means.max() / means.min() > 3
        assert means.mean() == pytest.approx(0.3, rel=0.1)


def test_random_selectivity_leaves_the_variance_of_independent_events_alone():
    for seed in SEEDS:
        spread = points(generate(replace(EXPRESSIVE, selectivity="random", seed=seed))).var(axis=0)
        assert spread.max() / spread.min() < 1.1


def test_random_selectivity_hardly_changes_the_variance_of_events_inside_subscriptions():
    for seed in SEEDS:
        model = replace(THESIS, selectivity="random", width=0.4, subscriptions=4000, seed=seed)
        spread = points(generate(model)).var(axis=0)
        assert spread.max() / spread.min() < 1.6


# -- the spread of values ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("placement", ["inside", "independent"])
def test_uniform_values_reach_all_of_the_domain_evenly(placement):
    workload = generate(replace(EXPRESSIVE, placement=placement, width=0.05, subscriptions=4000, events=20_000))
    counts = np.histogram(points(workload)[:, 0], bins=10, range=(0, 1))[0] / 20_000
    assert counts == pytest.approx(0.1, abs=0.025)


@pytest.mark.parametrize("placement", ["inside", "independent"])
@pytest.mark.parametrize("distribution", ["uniform", "zipfian"])
def test_random_variance_differs_between_dimensions_and_fixed_does_not(placement, distribution):
    # one hotspot, so that the variance in the dimension is the one in the bucket
    model = replace(THESIS, distribution=distribution, hotspots=1, placement=placement, width=0.01, subscriptions=2000)
    for seed in SEEDS:
        fixed = points(generate(replace(model, seed=seed))).var(axis=0)
        assert fixed.max() / fixed.min() < 1.2
        random = points(generate(replace(model, seed=seed, variance="random"))).var(axis=0)
        assert random.max() / random.min() > 10


@pytest.mark.parametrize("selective", [0, 2, 4, 8])
def test_just_so_many_dimensions_are_selective_as_asked(selective):
    for seed in SEEDS:
        model = replace(THESIS, variance="random", selective=selective, width=0.05, seed=seed)
        spread = points(generate(model)).var(axis=0)
        assert np.count_nonzero(spread > 0.05) == selective
        assert np.count_nonzero(spread < 0.005) == 8 - selective


def test_zipfian_subscriptions_lie_in_buckets_around_the_hotspots():
    model = replace(THESIS, distribution="zipfian", width=0.01, subscriptions=2000, events=0)
    middles, hotspot = HotspotLayout.of(model).centres, hotspots_of_subscriptions(model)
    assert middles.shape == (5, 8)
    away = np.abs(centres(generate(model)) - middles[hotspot])
    assert away.max() <= BUCKET_EDGE / 2 + 0.011


def test_the_first_hotspot_has_the_most_subscriptions_and_events_in_the_proportions_of_zipf():
    model = replace(EXPRESSIVE, distribution="zipfian", width=0.01, subscriptions=20_000, events=20_000)
    expected = (1 / np.arange(1, 6)) / (1 / np.arange(1, 6)).sum()
    assert np.bincount(hotspots_of_subscriptions(model)) / 20_000 == pytest.approx(expected, abs=0.015)
    workload, middles = generate(model), HotspotLayout.of(model).centres
    for values in (points(workload), centres(workload)):
        distance = np.abs(values[:, None, :] - middles).max(axis=2)
        nearest = np.bincount(distance.argmin(axis=1), minlength=5) / 20_000
        assert nearest == pytest.approx(expected, abs=0.015)


def test_the_exponent_says_how_unequal_hotspots_are():
    model = replace(EXPRESSIVE, distribution="zipfian", subscriptions=20_000, events=0)
    even = np.bincount(hotspots_of_subscriptions(replace(model, exponent=0)))
    steep = np.bincount(hotspots_of_subscriptions(replace(model, exponent=3)))
    assert even.max() / even.min() < 1.15
    assert steep[0] / 20_000 > 0.8


def test_a_uniform_workload_has_no_hotspots():
    assert set(hotspots_of_subscriptions(EXPRESSIVE)) == {0}
    assert generate(EXPRESSIVE).description["drawn"]["hotspots"] == []


# -- correlation -------------------------------------------------------------------------------------------------


def test_without_correlation_uniform_dimensions_are_independent():
    matrix = np.corrcoef(points(generate(EXPRESSIVE)), rowvar=False) - np.eye(8)
    assert np.abs(matrix).max() < 0.05


@pytest.mark.parametrize("placement", ["inside", "independent"])
@pytest.mark.parametrize("distribution", ["uniform", "zipfian"])
def test_positive_correlation_makes_nine_values_in_ten_equal(placement, distribution):
    for seed in SEEDS:
        model = replace(EXPRESSIVE, correlation="positive", distribution=distribution, placement=placement, seed=seed)
        workload = generate(replace(model, subscriptions=4000))
        drawn = workload.description["drawn"]["pairs"]
        assert sorted(d for pair in drawn for d in pair) == list(range(8))
        lower, upper = bounds(workload)
        for a, b in drawn:
            same = (lower[:, a] == lower[:, b]) & (upper[:, a] == upper[:, b])
            assert same.mean() == pytest.approx(0.9, abs=0.02)
        assert min(correlations(workload)) > 0.7
        if placement == "independent":
            values = points(workload)
            assert [(values[:, a] == values[:, b]).mean() for a, b in drawn] == pytest.approx([0.9] * 4, abs=0.02)


@pytest.mark.parametrize("placement", ["inside", "independent"])
@pytest.mark.parametrize("distribution", ["uniform", "zipfian"])
def test_inverse_correlation_is_negative(placement, distribution):
    for seed in SEEDS:
        model = replace(EXPRESSIVE, correlation="inverse", distribution=distribution, placement=placement, seed=seed)
        assert max(correlations(generate(model))) < -0.7


def test_uniform_values_correlate_as_strongly_as_asked():
    for strength in (0.0, 0.3, 0.6, 1.0):
        model = replace(EXPRESSIVE, correlation="positive", correlation_strength=strength)
        assert correlations(generate(model)) == pytest.approx([strength] * 4, abs=0.05)


def test_random_correlation_draws_a_strength_for_each_pair():
    for seed in SEEDS:
        workload = generate(replace(EXPRESSIVE, correlation="random", seed=seed))
        strengths = workload.description["drawn"]["strengths"]
        assert len(set(strengths)) == 4
        assert all(0 <= strength <= 0.9 for strength in strengths)
        assert correlations(workload) == pytest.approx(strengths, abs=0.05)


def test_only_as_many_pairs_are_correlated_as_asked():
    workload = generate(replace(EXPRESSIVE, correlation="positive", pairs=1))
    matrix = np.triu(np.corrcoef(points(workload), rowvar=False), 1)
    assert np.count_nonzero(matrix > 0.5) == 1


def test_correlated_dimensions_keep_their_own_variance():
    model = replace(EXPRESSIVE, variance="random", correlation="positive", correlation_strength=0.5)
    reach = np.array(generate(model).description["drawn"]["reach"])
    assert points(generate(model)).std(axis=0) == pytest.approx(reach / 12**0.5, rel=0.05)


# -- placement ---------------------------------------------------------------------------------------------------


def matches(workload):
    return sum(workload.events.matches(each).astype(int) for each in workload.subscriptions)


@pytest.mark.parametrize("correlation", [None, "inverse"])
def test_every_event_placed_inside_lies_in_at_least_one_subscription(correlation):
    for distribution in ("uniform", "zipfian"):
        model = replace(THESIS, distribution=distribution, correlation=correlation, subscriptions=200, events=3000)
        assert matches(generate(model)).min() >= 1


def test_events_placed_inside_reach_all_subscriptions_and_all_of_a_subscription():
    workload = generate(replace(THESIS, subscriptions=50, events=20_000, width=0.1))
    counts = [workload.events.matches(each).sum() for each in workload.subscriptions]
    assert min(counts) > 250
    one = generate(replace(THESIS, subscriptions=1, events=20_000))
    (box,) = one.subscriptions[0].boxes
    for (lo, hi), column in zip(box.ranges, one.events.columns, strict=True):
        assert column.min() - lo < 0.01 * (hi - lo)
        assert hi - column.max() < 0.01 * (hi - lo)
        assert (column.mean() - lo) / (hi - lo) == pytest.approx(0.5, abs=0.02)


def test_independent_events_are_matched_as_often_as_the_widths_say():
    model = replace(EXPRESSIVE, dimensions=2, width=0.3, subscriptions=500, events=5000)
    assert matches(generate(model)).mean() / 500 == pytest.approx(0.09, rel=0.15)


def test_events_do_not_depend_on_the_subscriptions_when_independent():
    few, many = (generate(replace(EXPRESSIVE, subscriptions=n)) for n in (10, 1000))
    assert few.events == many.events
