"""What another tree does better, by node, against a count event by event."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pleroma.content import Filter, Integer, Schema
from pleroma.content.batch import EventBatch
from pleroma.evaluation.sample import Sample
from pleroma.index import Dz
from pleroma.learning.tree_ageing import TreeAgeing
from support.trees import trees

PLANE = Schema("plane", (Integer("x", False, 0, 7), Integer("y", False, 0, 7)))
SIDES = st.tuples(st.integers(0, 7), st.integers(0, 7)).map(sorted)
BOXES = st.builds("x between {0[0]} and {0[1]} and y between {1[0]} and {1[1]}".format, SIDES, SIDES)
POINTS = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), min_size=1, max_size=25)


@st.composite
def aged_trees(draw):
    filters = [Filter.parse(PLANE, text) for text in draw(st.lists(BOXES, min_size=1, max_size=6))]
    homes = np.array(draw(st.lists(st.integers(0, 3), min_size=len(filters), max_size=len(filters))))
    index, other = (draw(trees(PLANE, filters, bits=8, most=10)) for _ in range(2))
    points = [np.array(draw(POINTS)) for _ in range(2)]
    batches = [EventBatch.from_columns(PLANE, {"x": each[:, 0], "y": each[:, 1]}) for each in points]
    return index, other, filters, homes, batches


def receivers(tree, dz, filters, homes):
    return {int(home) for home, each in zip(homes, filters, strict=True) if any(m.covers(dz) for m in tree.cover(each))}


@given(aged_trees())
def test_every_node_has_what_its_events_say(case):
    index, other, filters, homes, batches = case
    sample, judging = (Sample.of(batch, filters).grouped(homes) for batch in batches)
    ageing = TreeAgeing.of(index, other, sample, judging)
    rows = [[(index.dz(event), other.dz(event)) for event in map(batch.event, range(len(batch)))] for batch in batches]
    for node, code in enumerate(index.layout.codes):
        at = Dz(code)
        seen, judged = ([(mine, its) for mine, its in each if at.covers(mine)] for each in rows)
        assert ageing.events[node] == len(seen)
        assert ageing.saved[node] == sum(
            len(receivers(index, mine, filters, homes)) - len(receivers(other, its, filters, homes))
            for mine, its in judged
        )
        assert ageing.reaching[node] == len({its for _, its in seen if receivers(other, its, filters, homes)})
        leaves = (dz for dz in index.cells() if at.covers(dz))
        assert ageing.leaves[node] == sum(bool(receivers(index, leaf, filters, homes)) for leaf in leaves)


@given(aged_trees(), st.floats(0.1, 1.0), st.floats(0.1, 1.0), st.integers(-3, 5), st.integers(1, 4))
def test_the_nodes_hold_what_was_asked_for(case, held, share, spare, most):
    index, other, filters, homes, batches = case
    ageing = TreeAgeing.of(index, other, *(Sample.of(batch, filters).grouped(homes) for batch in batches))
    aged = ageing.nodes(held, share, spare, most)
    if aged is not None and ageing.saved[0] > 0:
        nodes = aged.nodes
        assert 1 <= len(nodes) <= most
        assert ageing.saved[nodes].sum() >= held * ageing.saved[0]
        assert share * ageing.reaching[nodes].sum() <= ageing.leaves[nodes].sum() + spare + 1e-9
        assert aged.traffic == ageing.events[nodes].sum() / ageing.events[0] <= 1
