"""Trees never miss, are the same by batch and one by one, and a new subtree leaves the rest as it was."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pleroma.content.batch import EventBatch
from pleroma.index import Dz, DzSet, IndexPlan, evaluate
from support.strategies import events, filters, schemas
from support.trees import trees


@st.composite
def cases(draw):
    schema = draw(schemas(most=4))
    wanted = draw(st.lists(filters(schema, 3), min_size=1, max_size=4))
    index = draw(trees(schema, wanted, draw(st.sampled_from([0, 3, 23, 70, 112]))))
    return index, wanted, draw(st.lists(events(schema), min_size=1, max_size=8))


@given(cases(), st.none() | st.integers(0, 112), st.none() | st.integers(1, 12))
def test_a_wanted_event_is_never_missed(case, length, members):
    index, wanted, points = case
    evaluate(index, wanted, points, max_length=length, max_members=members)  # raises if one is
    for each in wanted:
        cover = index.cover(each, max_length=length, max_members=members)
        assert members is None or len(cover) <= members
        assert cover.longest <= (index.bits if length is None else length)


@given(cases())
def test_without_limits_a_cover_is_exactly_the_leaves_that_a_box_meets(case):
    index, wanted, _ = case
    for each in wanted:
        met = []
        for dz in index.cells():
            sides = paths(index, dz)
            for box in each.boxes:
                spans = [a.span(part) for a, part in zip(index.schema.attributes, box.ranges, strict=True)]
                if all(first < sides[d][1] and last >= sides[d][0] for d, (first, last) in enumerate(spans)):
                    met.append(dz)
                    break
        assert index.cover(each) == DzSet(met)


def paths(index, dz):
    """By dimension, the lowest coordinate of a leaf and the first beyond it, by the turns on the way."""
    sides = {d: [-np.inf, np.inf] for d in range(len(index.schema))}
    node = 0
    for bit in str(dz).replace("ε", ""):
        d, cut = index.dimensions[node], index.layout.cuts[node]
        if bit == "1":
            sides[d][0] = max(sides[d][0], cut)
            node = index.layout.right[node]
        else:
            sides[d][1] = min(sides[d][1], cut)
            node += 1
    return sides


@given(cases())
def test_a_batch_is_sent_as_its_events_are(case):
    index, _, points = case
    codes = index.encode(EventBatch.from_events(index.schema, points).points())
    assert codes.events is None
    assert [(dz,) for dz in codes.dz_of(range(len(codes)))] == [index.dzs(event) for event in points]
    assert all(dz.length == index.bits for dz in codes.dz_of(range(len(codes))))


@given(cases())
def test_leaves_fill_the_space_and_none_begins_another(case):
    cells = list(case[0].cells())
    assert len(cells) == case[0].leaves
    assert sum(dz.end - dz.start for dz in cells) == 1 << 112
    assert all(a.end <= b.start for a, b in pairwise(cells))


@given(cases())
def test_a_plan_says_all_about_a_tree(case):
    plan = IndexPlan(7, case[0])
    assert IndexPlan.loads(plan.dumps()) == plan


@given(cases(), st.data())
def test_a_subtree_grown_anew_changes_nothing_outside_of_it(case, data):
    index, wanted, points = case
    at = Dz(data.draw(st.sampled_from(index.layout.codes)))
    part = data.draw(trees(index.schema, wanted, index.bits - at.length, most=8))
    other = index.regrown(at, part)
    assert other.subtree(at) == part
    changed = index.changed(other)
    assert not changed or at.covers(changed.members[0])
    assert bool(changed) == (other != index)
    for event in points:
        if not changed.covers(index.dz(event)):
            assert other.dz(event) == index.dz(event)
    for each in wanted:
        assert index.cover(each) - changed == other.cover(each) - changed
