"""Parts of a tree grown anew, together."""

from dataclasses import replace

import numpy as np
import pytest

from pleroma.evaluation.sample import Sample
from pleroma.evaluation.tree_counts import deliveries_of, rules_of
from pleroma.index import ROOT, Dz, TreeIndex
from pleroma.learning.fitting import Budget, fitted
from pleroma.learning.learner import SampleGrowth, learn
from pleroma.learning.part_growth import PartGrowth
from pleroma.learning.smoothing import WeightedPoints
from pleroma.workloads import THESIS, generate

BITS = 23


@pytest.fixture(scope="module")
def sample():
    workload = generate(replace(THESIS, dimensions=4, subscriptions=60, events=2_000, seed=3))
    return Sample.of(workload.events, workload.subscriptions)


@pytest.fixture(scope="module")
def seen(sample):
    """Events of unlike weights: no two cuts save the same."""
    return WeightedPoints(sample.points, np.random.default_rng(0).uniform(0.5, 1.5, sample.events))


def begun(sample, seen, splits):
    growth = SampleGrowth(sample, seen, BITS)
    growth.grow(splits)
    return growth.splits(splits).tree(sample.schema, BITS, splits)


@pytest.mark.parametrize("patient", [True, False])
def test_a_part_that_is_all_of_the_tree_is_grown_as_a_tree(sample, seen, patient):
    leaves = 150 if patient else 0
    whole = fitted(SampleGrowth(sample, seen, BITS, leaves), Budget(leaves=150))
    assert fitted(PartGrowth(begun(sample, seen, 30), [ROOT], sample, seen, leaves), Budget(leaves=150)) == whole


@pytest.mark.parametrize("splits", [1, 2, 3, 6])
def test_parts_that_are_all_leaves_are_grown_as_the_tree_that_they_are_of(sample, seen, splits):
    index = begun(sample, seen, splits)
    growth = PartGrowth(index, list(index.cells()), sample, seen, 0)
    assert growth.kept == splits
    for most in (splits, splits + 1, 40, 90, 300):
        growth.grow(most)
        grown, whole = growth.splits(most).tree(sample.schema, BITS, most), begun(sample, seen, most)
        assert grown.leaves == whole.leaves == most + 1
        # a cut may be anywhere between the events and borders that it is between
        np.testing.assert_array_equal(*(tree.tables.leaves_of(sample.points) for tree in (grown, whole)))


def test_rules_are_those_of_all_of_the_tree(sample, seen):
    index = learn(sample, BITS, Budget(rules=300), smoothing="as seen").index
    nodes = [Dz.parse("00"), Dz.parse("101")]
    growth = PartGrowth(index, nodes, sample, seen, 0)
    grown, rules = fitted(growth, Budget(rules=280))
    assert 270 < rules == rules_of(grown, sample) <= 280
    assert grown != index
    assert all(any(node.covers(changed) for node in nodes) for changed in index.changed(grown))


def test_a_part_that_nobody_wants_becomes_one_leaf(sample, seen):
    nobody = sample.boxes_alone(np.zeros(sample.boxes, np.bool_))
    index = begun(sample, seen, 20)
    part = next(Dz(code) for node, code in enumerate(index.layout.codes) if node and index.layout.end[node] > node + 1)
    grown, _ = fitted(PartGrowth(index, [part], nobody, seen, 50), Budget(leaves=50))
    assert grown == index.regrown(part, TreeIndex(sample.schema, BITS - part.length))


def test_a_node_without_bits_to_spare_stays_a_leaf(sample, seen):
    index = learn(sample, 3, Budget(leaves=8), smoothing="as seen").index
    deepest = max((Dz(code) for code in index.layout.codes), key=lambda dz: dz.length)
    assert deepest.length == 3
    assert fitted(PartGrowth(index, [deepest], sample, seen, 0), Budget(leaves=80))[0] == index


def test_more_leaves_in_the_parts_never_deliver_more(sample, seen):
    index = begun(sample, seen, 60)
    growth = PartGrowth(index, [Dz.parse("0")], sample, seen, 0)
    growth.grow(200)
    made = growth.splits(200)
    found = [deliveries_of(made.tree(sample.schema, BITS, most), sample) for most in range(growth.kept, 200, 20)]
    assert found == sorted(found, reverse=True)
    assert found[-1] < found[0]
