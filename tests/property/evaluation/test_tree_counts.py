"""What is counted over the leaves of a tree is what its covers deliver and need."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pleroma.content import Filter, Integer, Schema
from pleroma.content.batch import EventBatch
from pleroma.evaluation.judge import judge, judge_tree
from pleroma.evaluation.sample import Sample
from pleroma.evaluation.tree_counts import rules_of
from pleroma.index import DzSet, TreeIndex, evaluate
from pleroma.index.longest_match import filled
from pleroma.index.tree_walk import LEAF
from support.small_traffic import sample_of, traffic
from support.trees import trees

PLANE = Schema("plane", (Integer("x", False, 0, 7), Integer("y", False, 0, 7)))


@given(traffic(3), st.data())
def test_leaves_and_covers_agree(case, data):
    schema, subscriptions, events = case
    index = data.draw(trees(schema, subscriptions, data.draw(st.sampled_from([5, 23, 112]))))
    counted = judge_tree(index, sample_of(schema, subscriptions, events))
    batch = EventBatch.from_events(schema, events)
    assert counted == judge(index, subscriptions, batch, max_members=1_000) == judge(index, subscriptions, batch)
    assert counted.waste == evaluate(index, subscriptions, events)


@st.composite
def crowds(draw):
    """Few places and many boxes: nodes that some fill, while others fill their halves."""
    sides = st.tuples(st.integers(0, 7), st.integers(0, 7)).map(sorted)
    box = st.builds("x between {0[0]} and {0[1]} and y between {1[0]} and {1[1]}".format, sides, sides)
    half = st.builds("{0} {1} {2}".format, st.sampled_from("xy"), st.sampled_from(["<", ">="]), st.integers(1, 7))
    filters = st.lists(st.lists(box | half, min_size=1, max_size=2).map(" or ".join), min_size=1, max_size=10)
    dims, cuts, todo = [], [], [0]
    while todo:
        depth = todo.pop()
        if depth == 5 or (depth > 1 and not draw(st.integers(0, 2))):
            dims.append(LEAF)
        else:
            dims.append(draw(st.integers(0, 1)))
            cuts.append(float(draw(st.integers(1, 7))))
            todo += [depth + 1] * 2
    return [Filter.parse(PLANE, text) for text in draw(filters)], TreeIndex(PLANE, 5, tuple(dims), tuple(cuts))


@given(crowds(), st.data())
def test_rules_are_the_dz_that_ports_demand_save_those_that_longer_ones_fill(crowd, data):
    subscriptions, index = crowd
    ports = data.draw(st.lists(st.integers(0, 3), min_size=len(subscriptions), max_size=len(subscriptions)))
    sample = Sample.without_events(PLANE, subscriptions)
    covers = [index.cover(each) for each in subscriptions]
    for homes in (range(len(subscriptions)), ports):
        cells = set()
        for port in set(homes):
            cells |= {*DzSet(dz for cover, home in zip(covers, homes, strict=True) if home == port for dz in cover)}
        rules = rules_of(index, sample.grouped(np.array(homes, np.int64)))
        assert rules == len(cells - filled(cells)) <= index.leaves
