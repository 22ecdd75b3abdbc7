"""A tree grown anew where it has aged, after the subscriptions and events of one hotspot have moved."""

from dataclasses import replace

import numpy as np
import pytest

from pleroma.content.batch import EventBatch
from pleroma.evaluation.placement import homes_of, spread_of
from pleroma.evaluation.sample import Sample
from pleroma.evaluation.tree_counts import deliveries_of, load_of, rules_of
from pleroma.index import Dz, DzSet, TreeIndex
from pleroma.learning.fitting import Budget
from pleroma.learning.learner import learn
from pleroma.learning.local_growth import MAX_LEAVES_RATIO, grown_where_better
from pleroma.routing import build
from pleroma.workloads import EXPRESSIVE, generate
from pleroma.workloads.hotspot_drift import hotspot_moved, hotspots_of_events

BITS = 40
MODEL = replace(EXPRESSIVE, distribution="zipfian", width=0.1, placement="inside", subscriptions=300, events=12_000)
RULES = 500
FAT_TREE = build("fat-tree:4")


@pytest.fixture(scope="module", params=[1, 3], ids=["second", "fourth"])
def drift(request):
    return hotspot_moved(MODEL, rank=request.param, seed=7)


def parted(drift, homes=None):
    """Samples to learn from, to judge by, and of events that nobody has seen."""
    events = drift.events
    samples = [Sample.of(part, drift.subscriptions) for part in (events[:6_000], events[6_000:8_000], events[8_000:])]
    return samples if homes is None else [each.grouped(homes) for each in samples]


def both(drift, budget, homes=None, spread=()):
    """The tree from before and the one learned anew."""
    before = Sample.of(drift.before.events[:6_000], drift.before.subscriptions)
    if homes is not None:
        before = before.grouped(homes)
    sample = parted(drift, homes)[0]
    return [learn(each, BITS, budget, spread=spread, smoothing="neighbours").index for each in (before, sample)]


@pytest.fixture(scope="module")
def trees(drift):
    return both(drift, Budget(rules=RULES))


@pytest.fixture(scope="module")
def local(drift, trees):
    sample, judging, _ = parted(drift)
    return grown_where_better(*trees, sample, judging, Budget(rules=RULES))


def owners_by_event(tree, sample):
    return load_of(tree, sample)[1][tree.tables.leaves_of(sample.points)]


def test_most_is_won_with_a_small_part_of_the_traffic(drift, trees, local):
    index, whole = trees
    unseen = parted(drift)[2]
    before, after, grown = (deliveries_of(tree, unseen) for tree in (index, whole, local.index))
    assert before - grown > 0.8 * (before - after) > 0
    assert local.traffic < 0.25
    assert sum(index.subtree(dz).leaves for dz in local.nodes) < 0.25 * index.leaves


def test_it_is_grown_where_the_hotspot_has_gone_to(drift, trees, local):
    at = DzSet(local.nodes)
    inside = [at.covers(dz) for dz in trees[0].encode(drift.moved.points()).dz_of(range(len(drift.moved)))]
    assert np.mean(inside) > 0.8


def test_the_rest_of_the_tree_is_as_it_was(drift, trees, local):
    index, unseen = trees[0], parted(drift)[2]
    assert 1 <= len(local.nodes) <= 8
    changed = index.changed(local.index)
    assert changed
    assert all(any(node.covers(each) for node in local.nodes) for each in changed)
    codes, at = index.encode(unseen.points), DzSet(local.nodes)
    inside = np.array([at.covers(dz) for dz in codes.dz_of(range(len(codes)))])
    mine, its = (owners_by_event(tree, unseen) for tree in (index, local.index))
    np.testing.assert_array_equal(mine[~inside], its[~inside])
    assert its[inside].sum() < mine[inside].sum()
    sample = parted(drift)[0]
    codes = index.encode(sample.points)
    assert local.traffic == np.mean([at.covers(dz) for dz in codes.dz_of(range(len(codes)))])


def test_an_event_may_be_delivered_more_often_where_cuts_are_given_up_for_better_ones(drift, trees):
    sample, judging, unseen = parted(drift)
    tight = Budget(leaves=trees[0].leaves)
    local = grown_where_better(*trees, sample, judging, tight)
    assert local.index.leaves <= trees[0].leaves
    mine, its = (owners_by_event(tree, unseen) for tree in (trees[0], local.index))
    assert (its > mine).any()
    assert its.sum() < mine.sum()


def test_it_is_cut_at_the_borders_of_new_subscriptions(drift, trees, local):
    borders = {
        float(end) for each in drift.arrived for box in each.boxes for end in np.ravel(trees[0].bounds(box.ranges))
    }
    borders |= {float(np.nextafter(border, np.inf)) for border in borders}
    new = set(local.index.cuts) - set(trees[0].cuts)
    assert len(new & borders) > 0.5 * len(new)


def test_it_has_no_more_rules_than_there_is_room_for(drift, trees, local):
    sample = parted(drift)[0]
    assert local.rules == rules_of(local.index, sample) <= RULES
    assert local.index.leaves <= MAX_LEAVES_RATIO * trees[1].leaves


def test_no_switch_has_more_rules_than_its_own_limit(drift):
    spread = spread_of(FAT_TREE)
    homes = homes_of(FAT_TREE, len(drift.subscriptions), 0)
    own = tuple(300 + 20 * switch for switch in range(len(spread)))
    budget = Budget(rules=RULES, own=own)
    sample, judging, unseen = parted(drift, homes)
    index, whole = both(drift, budget, homes, spread)
    local = grown_where_better(index, whole, sample, judging, budget, spread=spread)
    rules = [rules_of(local.index, sample.grouped(ports)) for ports in spread]
    assert all(found <= limit for found, limit in zip(rules, own, strict=True))
    assert local.rules == max(rules)
    before, after, grown = (deliveries_of(tree, unseen) for tree in (index, whole, local.index))
    assert before - grown > 0.7 * (before - after) > 0


@pytest.mark.parametrize("rank", [1, 2])
def test_with_full_tables_leaves_are_given_up_where_they_are_worth_less(rank):
    """Everybody wants what they wanted, and one hotspot has traffic that had none."""
    workload = generate(replace(MODEL, events=24_000))
    wanted, events = workload.subscriptions, workload.events
    quiet = hotspots_of_events(MODEL, events) != rank
    past = Sample.of(EventBatch(events.schema, tuple(column[quiet] for column in events.columns))[:8_000], wanted)
    parts = (events[12_000:19_000], events[19_000:21_000], events[21_000:])
    sample, judging, unseen = (Sample.of(part, wanted) for part in parts)
    budget = Budget(rules=RULES)
    index, whole = (learn(each, BITS, budget, smoothing="as seen").index for each in (past, sample))
    local = grown_where_better(index, whole, sample, judging, budget, smoothing="as seen")
    assert rules_of(index, sample) > 0.98 * RULES
    assert local.rules <= RULES
    assert local.traffic < 0.4
    before, after, grown = (deliveries_of(tree, unseen) for tree in (index, whole, local.index))
    assert before - grown > 0.75 * (before - after) > 0


def test_rules_that_are_missing_are_taken_from_where_they_are_worth_less(drift, trees):
    """New subscriptions have come and none has gone: the tree in force has more rules than there is room for."""
    everybody = (*drift.before.subscriptions, *drift.arrived)
    events = drift.events
    sample, judging, unseen = (
        Sample.of(part, everybody) for part in (events[:6_000], events[6_000:8_000], events[8_000:])
    )
    index, budget = trees[0], Budget(rules=rules_of(trees[0], sample) - 5)
    whole = learn(sample, BITS, budget, smoothing="neighbours").index
    local = grown_where_better(index, whole, sample, judging, budget)
    assert local.rules == rules_of(local.index, sample) <= budget.rules
    before, after, grown = (deliveries_of(tree, unseen) for tree in (index, whole, local.index))
    assert before - grown > 0.7 * (before - after) > 0


def test_the_same_question_has_the_same_answer(drift, trees, local):
    sample, judging, _ = parted(drift)
    assert grown_where_better(*trees, sample, judging, Budget(rules=RULES)) == local


def test_nothing_is_grown_where_the_other_tree_is_no_better(drift, trees):
    sample, judging, _ = parted(drift)
    budget = Budget(rules=RULES)
    assert grown_where_better(trees[1], trees[1], sample, judging, budget) is None
    assert grown_where_better(trees[1], trees[0], sample, judging, budget) is None


def test_nothing_is_grown_where_the_tree_has_aged_as_a_whole(drift, trees):
    sample, judging, _ = parted(drift)
    schema = sample.schema
    uncut = TreeIndex(schema, BITS)
    assert grown_where_better(uncut, trees[1], sample, judging, Budget(rules=RULES)) is None


def test_nothing_is_grown_if_the_rest_alone_has_too_many_rules(drift, trees):
    sample, judging, _ = parted(drift)
    few = Budget(rules=RULES // 5)
    whole = learn(sample, BITS, few, smoothing="neighbours").index
    assert grown_where_better(trees[0], whole, sample, judging, few) is None


def test_no_more_nodes_are_grown_than_asked_for(drift, trees):
    sample, judging, _ = parted(drift)
    local = grown_where_better(*trees, sample, judging, Budget(rules=RULES), max_cells=2)
    assert local is None or 1 <= len(local.nodes) <= 2
    assert local is None or all(isinstance(dz, Dz) for dz in local.nodes)
