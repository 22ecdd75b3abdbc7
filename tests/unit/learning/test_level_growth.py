"""Trees grown level by level, from counts alone, are those that growing best split first finds."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from pleroma.content import Filter, Integer, Schema
from pleroma.content.batch import EventBatch
from pleroma.errors import TuningError
from pleroma.evaluation.sample import Sample
from pleroma.evaluation.tree_counts import deliveries_of, rules_of
from pleroma.learning import level_growth
from pleroma.learning.fitting import Budget, fitted
from pleroma.learning.learner import SampleGrowth, learn
from pleroma.learning.level_growth import LevelGrowth, grow_by_levels
from pleroma.learning.smoothing import MAX_EXTRA_POINTS, WeightedPoints, inside_subscriptions
from pleroma.workloads import THESIS, generate

PLANE = Schema("plane", (Integer("x", False, 0, 99), Integer("y", False, 0, 99)))


@pytest.fixture(scope="module")
def workload():
    return generate(replace(THESIS, dimensions=4, subscriptions=80, events=6_000, seed=5))


@pytest.fixture(scope="module")
def seen(workload):
    return Sample.of(workload.events[:4_000], workload.subscriptions)


@pytest.fixture(scope="module")
def unseen(workload):
    return Sample.of(workload.events[4_000:], workload.subscriptions)


def by_levels(sample, bits=112, floor=0.0, parts=1, leaves=160):
    pieces = np.array_split(sample.points, parts)
    return LevelGrowth(sample, bits, lambda bins: sum(bins.counted(piece) for piece in pieces), floor, 0, leaves)


def as_seen(sample, bits, splits, leaves=160):
    return best_first(sample, WeightedPoints(sample.points, np.ones(sample.events)), bits, splits, leaves)


def best_first(sample, weighted, bits, splits, leaves):
    growth = SampleGrowth(sample, weighted, bits, leaves)
    growth.grow(splits)
    return growth


def tree(growth, splits):
    return growth.splits(splits).tree(growth.sample.schema, growth.bits, splits)


@pytest.mark.parametrize("splits", [0, 1, 30, 511])
@pytest.mark.parametrize("bits", [5, 14, 112])
@pytest.mark.parametrize("leaves", [512, 0])
def test_the_tree_is_that_of_best_first_growth(seen, splits, bits, leaves):
    growth = by_levels(seen, bits, leaves=leaves)
    growth.grow(splits)
    assert tree(growth, splits) == tree(as_seen(seen, bits, splits, leaves), splits)


def test_so_is_every_smaller_one(seen):
    growth, other = by_levels(seen), as_seen(seen, 112, 200)
    growth.grow(200)
    for splits in (1, 2, 3, 17, 64, 199):
        assert tree(growth, splits) == tree(other, splits)
    for mine, its in zip(growth.splits(200), other.splits(200), strict=True):
        np.testing.assert_array_equal(mine, its)


@pytest.mark.parametrize("leaves", [75, 300, 1_200])
def test_so_it_is_where_paths_come_near_the_bits(leaves):
    made = generate(replace(THESIS, distribution="zipfian", dimensions=4, subscriptions=80, events=4_000, seed=5))
    crowded = Sample.of(made.events, made.subscriptions)
    growth = by_levels(crowded, 14, leaves=leaves)
    growth.grow(299)
    assert tree(growth, 299) == tree(as_seen(crowded, 14, 299, leaves), 299)
    assert tree(growth, 299) != tree(as_seen(crowded, 14, 299, 4 * leaves), 299)  # it matters how many are meant


def test_points_in_subscriptions_weigh_the_same_in_either(seen):
    points = inside_subscriptions(seen, np.random.default_rng([0, 2]), 0.02, MAX_EXTRA_POINTS)
    weighted = WeightedPoints(
        np.concatenate([seen.points, points.points]), np.append(np.ones(seen.events), points.weight)
    )
    growth = by_levels(seen, 14, floor=0.02, leaves=400)
    growth.grow(399)
    assert tree(growth, 399) == tree(best_first(seen, weighted, 14, 399, 400), 399)


def test_and_so_it_is_where_subscriptions_share_hosts(seen):
    shared = seen.grouped(np.arange(seen.owners) % 9)
    growth = by_levels(shared)
    growth.grow(150)
    assert tree(growth, 150) == tree(as_seen(shared, 112, 150), 150)


@pytest.mark.parametrize("start", [by_levels, partial(as_seen, bits=112, splits=0)], ids=["levels", "best first"])
def test_growing_further_comes_to_the_same_as_growing_at_once(seen, start):
    step_by_step, at_once = start(seen), start(seen)
    for splits in (3, 40, 20, 160):
        step_by_step.grow(splits)
    at_once.grow(160)
    assert tree(step_by_step, 160) == tree(at_once, 160)
    assert tree(step_by_step, 20) == tree(at_once, 20)


def test_however_the_events_are_split_the_tree_is_the_same(seen):
    trees = [fitted(by_levels(seen, floor=0.02, parts=parts), Budget(leaves=120)) for parts in (1, 2, 7, 100)]
    assert all(tree == trees[0] for tree in trees)


def test_so_it_is_in_passes_that_have_room_for_few_nodes(seen, monkeypatch):
    wide = by_levels(seen)
    wide.grow(100)
    monkeypatch.setattr(level_growth, "MAX_COUNTERS_PER_PASS", 3 * 256 * 4)
    narrow = by_levels(seen)
    narrow.grow(100)
    assert tree(narrow, 100) == tree(wide, 100)
    assert narrow.passes > wide.passes


def test_a_pass_is_made_for_each_level(seen):
    growth = by_levels(seen)
    growth.grow(255)
    assert growth.passes <= max(tree(growth, 255).layout.depth) + 2


@pytest.mark.parametrize("rules", [1, 25, 200])
def test_it_keeps_to_its_rules(seen, rules):
    tree, found = fitted(by_levels(seen), Budget(rules=rules))
    assert rules_of(tree, seen) == found <= rules
    assert rules == 1 or rules_of(tree, seen) > 0.9 * rules


@pytest.mark.parametrize("budget", [Budget(rules=150), Budget(rules=150, leaves=170), Budget(leaves=90)])
def test_within_a_budget_it_is_the_tree_of_the_learner(workload, budget):
    many = np.tile(workload.events.points(), (6, 1))  # as many points in subscriptions as there are for any more events
    sample = replace(Sample.of(workload.events, workload.subscriptions), points=many, keys=many)
    growth = by_levels(sample, 14, floor=0.02, leaves=budget.meant)
    assert fitted(growth, budget)[0] == learn(sample, 14, budget, smoothing="as seen", patient=True).index


def test_both_budgets_hold(seen):
    tree, _ = fitted(by_levels(seen), Budget(rules=200, leaves=50))
    assert tree.leaves == 50


def test_on_events_not_seen_it_wastes_what_the_learner_of_one_process_wastes(workload, seen, unseen):
    tree = grow_by_levels(workload.events[:4_000], workload.subscriptions, 112, Budget(leaves=400))
    other = learn(seen, 112, Budget(leaves=400), smoothing="as seen", patient=True).index
    mine, its = deliveries_of(tree, unseen), deliveries_of(other, unseen)
    assert 0.97 < mine / its < 1.03


def test_subscriptions_where_no_event_was_are_told_apart_as_well():
    events = EventBatch.from_columns(PLANE, {"x": np.arange(10), "y": np.arange(10)})
    filters = [Filter.parse(PLANE, text) for text in ("x < 20", "x > 50 and y < 30", "x > 50 and y > 60")]
    tree = grow_by_levels(events, filters, 8, Budget(leaves=8))
    assert not tree.cover(filters[1]).overlaps(tree.cover(filters[2]))


def test_the_events_need_not_be_there_at_all():
    filters = [Filter.parse(PLANE, text) for text in ("x < 20", "x > 50")]
    sample = Sample.without_events(PLANE, filters)
    points = np.array([[5.0, 5.0], [60.0, 5.0]])
    assert fitted(LevelGrowth(sample, 8, lambda bins: bins.counted(points)), Budget(leaves=2))[0].leaves == 2


def test_without_any_events_there_is_nothing_to_learn_from():
    sample = Sample.without_events(PLANE, [Filter.parse(PLANE, "x < 20")])
    with pytest.raises(TuningError, match="no events"):
        LevelGrowth(sample, 8, lambda bins: bins.counted(sample.points))


@pytest.mark.parametrize("bits", [0, 113])
def test_an_index_has_some_bits(seen, bits):
    with pytest.raises(TuningError, match="bits"):
        fitted(by_levels(seen, bits), Budget(leaves=4))
