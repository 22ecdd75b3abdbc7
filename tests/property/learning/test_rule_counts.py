"""The rules of every beginning of a growth, from one walk, are those that are counted for that tree alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pleroma.content import Filter, Integer, Schema
from pleroma.evaluation.sample import Sample
from pleroma.evaluation.tree_counts import rules_of
from pleroma.index import TreeIndex
from pleroma.index.tree_walk import LEAF
from pleroma.learning import rule_counts
from pleroma.learning.rule_counts import RuleCounter, SplitSequence, fullest_switch_rules, port_groupings

PLANE = Schema("plane", (Integer("x", False, 0, 7), Integer("y", False, 0, 7)))
SIDES = st.tuples(st.integers(0, 7), st.integers(0, 7)).map(sorted)
BOXES = st.builds("x between {0[0]} and {0[1]} and y between {1[0]} and {1[1]}".format, SIDES, SIDES)
OWNERS = [0, 1, 2, 63, 64, 130]
HALVES = st.builds("{0} {1} {2}".format, st.sampled_from("xy"), st.sampled_from(["<", ">="]), st.integers(1, 7))


@st.composite
def samples(draw):
    """Some of the owners have several subscriptions, many have none, and there are more than bits in a word."""
    texts = draw(st.lists(st.lists(BOXES | HALVES, min_size=1, max_size=2).map(" or ".join), min_size=1, max_size=12))
    filters = [Filter.parse(PLANE, text) for text in texts]
    homes = draw(st.lists(st.sampled_from(OWNERS), min_size=len(filters), max_size=len(filters)))
    return Sample.without_events(PLANE, filters).grouped(np.array(homes))


@st.composite
def growths(draw):
    """By split: the leaf that is cut, which may be any."""
    leaves, cut = [0], {}
    for k in range(draw(st.integers(0, 15))):
        at = leaves.pop(draw(st.integers(0, len(leaves) - 1)))
        cut[at] = (draw(st.integers(0, 1)), float(draw(st.integers(1, 7))), 2 * k + 1)
        leaves += [2 * k + 1, 2 * k + 2]
    return cut


@st.composite
def spreads(draw):
    spread = np.zeros((draw(st.integers(1, 3)), max(OWNERS) + 1), np.int64)
    behind = st.lists(st.sampled_from([0, 1, 33, 63, 64, 200]), min_size=len(OWNERS), max_size=len(OWNERS))
    for ports in spread:
        ports[OWNERS] = draw(behind)
    return [*spread]


def as_splits(cut):
    dims, cuts, child = zip(*(cut.get(node, (LEAF, 0.0, 0)) for node in range(2 * len(cut) + 1)), strict=True)
    return SplitSequence(np.array(dims), np.array(cuts), np.array(child))


def tree_of(cut, splits):
    dims, cuts, todo = [], [], [0]
    while todo:
        dim, value, child = cut.get(todo.pop(), (LEAF, 0.0, 2 * splits + 1))
        dims.append(dim if child < 2 * splits else LEAF)
        if child < 2 * splits:
            cuts.append(value)
            todo += [child + 1, child]
    return TreeIndex(PLANE, 16, tuple(dims), tuple(cuts))


@pytest.mark.parametrize("share", [100, 1, 0], ids=["kept", "kept by owner and few ways", "walked anew"])
@given(samples(), growths(), spreads())
def test_every_beginning_has_the_rules_of_its_tree(share, sample, cut, spread):
    ways = [np.arange(sample.owners), *spread]
    with pytest.MonkeyPatch.context() as patched:
        by_owner = 8 * (2 * len(cut) + 1) * -(-sample.owners // 64)
        patched.setattr(rule_counts, "MAX_MEETING_BYTES", share * by_owner)
        rules = RuleCounter(as_splits(cut), sample, ways)
        for splits in range(len(cut) + 1):
            tree = tree_of(cut, splits)
            expected = [rules_of(tree, sample.grouped(ports)) for ports in ways]
            assert [rules.after(splits, way) for way in range(len(ways))] == expected
            assert rules.fullest(splits) == max(expected)
        assert rules.fullest(len(cut) + 3) == rules.fullest(len(cut))


@given(samples(), growths(), spreads())
def test_so_has_a_tree_whose_growth_is_not_known(sample, cut, spread):
    tree = tree_of(cut, len(cut))
    assert fullest_switch_rules(tree, sample, spread) == max(rules_of(tree, sample.grouped(ports)) for ports in spread)


@given(growths(), st.data())
def test_a_beginning_is_the_tree_after_fewer_splits(cut, data):
    splits = data.draw(st.integers(0, len(cut)))
    tables = tree_of(cut, splits).tables
    for mine, its in zip(
        as_splits(cut).nodes(splits), (tables.dims, tables.cuts, tables.right, tables.parent), strict=True
    ):
        np.testing.assert_array_equal(mine, its)


def test_switches_that_part_hosts_alike_have_the_same_way():
    assert port_groupings([np.array([7, 3, 7]), np.array([0, 5, 0]), np.array([1, 1, 2])]) == [
        (0, 1, 0),
        (0, 1, 0),
        (0, 0, 1),
    ]
