"""A tree grown on for subscriptions that may come: they get less that they do not want, and nobody else gets more."""

from dataclasses import replace

import pytest

from pleroma.evaluation.placement import homes_of, spread_of
from pleroma.evaluation.sample import Sample
from pleroma.evaluation.tree_counts import deliveries_of, rules_of
from pleroma.index import Dz
from pleroma.learning.fitting import Budget
from pleroma.learning.learner import learn
from pleroma.learning.newcomer_growth import grown_for_newcomers
from pleroma.routing import build
from pleroma.workloads import THESIS, generate

BITS, RULES, LEAVES = 30, 150, 200
MADE = generate(replace(THESIS, dimensions=4, subscriptions=90, events=4_000, width=0.1, seed=3))
KNOWN, EXPECTED, LATER = (MADE.subscriptions[at : at + 30] for at in (0, 30, 60))
TRAINING, OTHERS = MADE.events[:2_000], MADE.events[2_000:]


@pytest.fixture(scope="module")
def known():
    return Sample.of(TRAINING, KNOWN)


@pytest.fixture(scope="module")
def before(known):
    return learn(known, BITS, Budget(rules=RULES), smoothing="neighbours").index


@pytest.fixture(scope="module")
def after(known, before):
    return grown_for_newcomers(before, known, Sample.of(TRAINING, EXPECTED), Budget(rules=2 * RULES), max_leaves=LEAVES)


def test_those_who_come_later_get_less_that_they_do_not_want(before, after):
    later = Sample.of(OTHERS, LATER)
    assert deliveries_of(after, later) < 0.9 * deliveries_of(before, later)


def test_those_who_are_there_get_nothing_more(before, after):
    there = Sample.of(OTHERS, KNOWN)
    assert deliveries_of(after, there) <= deliveries_of(before, there)


def test_the_tree_is_the_same_where_it_was_cut_before(before, after):
    points = OTHERS.points()[:200]
    leaves = [Dz(before.layout.codes[leaf]) for leaf in before.tables.leaves_of(points).tolist()]
    for leaf, dz in zip(leaves, after.encode(points).dz_of(range(200)), strict=True):
        assert leaf.covers(dz)
    assert before.leaves < after.leaves <= before.leaves + LEAVES


def test_no_switch_gets_more_rules_than_the_budget_allows(known, before, after):
    assert rules_of(after, known) <= 2 * RULES
    full = grown_for_newcomers(before, known, Sample.of(TRAINING, EXPECTED), Budget(rules=1), max_leaves=LEAVES)
    assert full == before


def test_rules_are_counted_by_the_ports_of_a_network(known):
    network = build("fat-tree:4")
    homes = homes_of(network, len(KNOWN), 0)
    placed, spread = known.grouped(homes), spread_of(network)
    tree = learn(placed, BITS, Budget(rules=RULES), spread=spread, smoothing="neighbours").index
    grown = grown_for_newcomers(
        tree, placed, Sample.of(TRAINING, EXPECTED), Budget(rules=RULES), spread=spread, max_leaves=LEAVES
    )
    assert grown.leaves > tree.leaves
    assert max(rules_of(grown, known.grouped(ports[homes])) for ports in spread) <= RULES
