"""On a later version of its schema, an index leaves every event of the earlier where it is, and misses nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pleroma.content import Integer, Schema
from pleroma.content.schema_versions import carried, lifted
from pleroma.errors import PlanError
from pleroma.index import GridIndex, IndexPlan, SelectiveIndex, SelectiveRegion, evaluate
from pleroma.index.extended_index import extended
from pleroma.selection.selective_indexing import numbers
from support.grids import grids
from support.schema_versions import versions
from support.selective_indexes import rectangles
from support.strategies import events, filters
from support.trees import trees


@st.composite
def cases(draw):
    earlier, later = draw(versions(most=3))
    wanted = draw(st.lists(filters(earlier, 3), min_size=1, max_size=3))
    kind = draw(st.sampled_from(["grid", "tree", "selective"]))
    if kind == "grid":
        index = draw(grids(earlier, 40))
    elif kind == "tree":
        index = draw(trees(earlier, wanted, 40))
    else:
        found = draw(st.lists(rectangles(earlier, wanted), max_size=3))
        places = zip(numbers(len(found)), [*found, None], strict=True)
        regions = tuple(SelectiveRegion(number, rectangle, draw(grids(earlier, 40))) for number, rectangle in places)
        index = SelectiveIndex(earlier, regions, draw(st.booleans()), False)
    return index, later, wanted, draw(st.lists(events(earlier), min_size=1, max_size=6))


@given(cases())
def test_an_event_of_the_earlier_version_keeps_its_dz(case):
    index, later, _, points = case
    after = extended(index, later)
    assert after.schema == later
    for event in points:
        assert after.dzs(lifted(event, later)) == index.dzs(event)


@given(cases(), st.data())
def test_no_event_of_either_version_is_missed(case, data):
    index, later, wanted, points = case
    new = data.draw(st.lists(events(later), min_size=1, max_size=6))
    after = extended(index, later)
    there = [carried(each, later) for each in wanted]
    evaluate(after, there, [*(lifted(event, later) for event in points), *new])  # raises if one is missed
    assert IndexPlan.loads(IndexPlan(3, after).dumps()) == IndexPlan(3, after)


@given(cases())
def test_what_an_event_of_the_earlier_version_is_sent_under_is_covered_by_both_regions(case):
    """So it goes to who wants it, whichever of the two plans publishers and switches have."""
    index, later, wanted, points = case
    after = extended(index, later)
    for each in wanted:
        before, now = index.cover(each, max_members=4), after.cover(carried(each, later), max_members=4)
        for event in points:
            if each.matches(event):
                sent = index.dzs(event)
                assert any(member.covers(dz) for dz in sent for member in before)
                assert any(member.covers(dz) for dz in sent for member in now)


def test_cells_that_begin_below_an_optional_domain_are_no_ground_for_a_lower_one():
    earlier, later = (Schema("s", (Integer("a", True, low, 9),)) for low in (0, -9))
    beyond = GridIndex(earlier, (0, 0), within={0: (-5.0, 9.0)})
    with pytest.raises(PlanError, match="use another plan first"):
        extended(beyond, later)
