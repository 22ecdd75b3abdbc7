"""Selective indexes never miss, send an event as often as they say, and are the same by batch and one by one."""

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from pleroma.content.batch import EventBatch
from pleroma.errors import PlanError
from pleroma.index import IndexPlan, evaluate
from pleroma.index.selective_codes import homes_of
from pleroma.selection.selective_indexing import numbers
from support.selective_indexes import cases


def fits(index, wanted):
    """Whether it can be covered without the rest."""
    return all(len(index.regions) - 1 not in index.homes(index.bounds(box)) for box in wanted.boxes)


@given(cases(), st.none() | st.integers(0, 112), st.integers(1, 40))
def test_a_wanted_event_is_never_missed(case, length, members):
    index, wanted, points = case
    served = [each for each in wanted if not index.quiet or fits(index, each)]
    evaluate(index, served, points, max_length=length, max_members=members)  # raises if one is
    for each in served:
        cover = index.cover(each, max_length=length, max_members=members)
        assert len(cover) <= members
        assert cover.longest <= (index.bits if length is None else length)
    evaluate(index.opened(), wanted, points, max_length=length, max_members=members)


@given(cases())
def test_a_quiet_index_refuses_exactly_what_it_could_miss(case):
    index, wanted, _ = case
    assume(index.quiet)
    for each in wanted:
        try:
            index.cover(each, max_members=4)
        except PlanError:
            assert not fits(index, each)
        else:
            assert fits(index, each)


@given(cases())
def test_an_event_is_sent_once_or_once_in_each_rectangle_that_holds_it(case):
    index, _, points = case
    for event in points:
        entries = zip(index.schema.attributes, event.value_keys, strict=True)
        point = [attribute.coordinate(key) for attribute, key in entries]
        holding = [r for r in index.regions if r.rectangle and r.rectangle.holds(point)]
        expected = (holding if index.repeated else holding[:1]) or ([] if index.quiet else [index.regions[-1]])
        sent = index.dzs(event)
        assert [dz.length for dz in sent] == [index.bits] * len(expected)
        assert all(region.number.covers(dz) for region, dz in zip(expected, sent, strict=True))


@given(cases())
def test_a_batch_is_sent_as_its_events_are(case):
    index, _, points = case
    codes = index.encode(EventBatch.from_events(index.schema, points).points())
    rows = range(len(points)) if codes.events is None else codes.events.tolist()
    found = [[] for _ in points]
    for row, code in zip(rows, codes.dz_of(range(len(codes))), strict=True):
        found[row].append(code)
    assert found == [list(index.dzs(event)) for event in points]


@given(cases())
def test_many_boxes_have_the_homes_that_each_has(case):
    index, wanted, _ = case
    bounds = [index.bounds(box) for each in wanted for box in each.boxes]
    sides = np.array([each.sides for each in bounds], np.float64).reshape(-1, len(index.schema), 2)
    found = homes_of(index, sides[:, :, 0].copy(), sides[:, :, 1].copy())
    assert [np.flatnonzero(column).tolist() for column in found.T] == [list(index.homes(each)) for each in bounds]


@given(cases())
def test_a_plan_says_all_about_a_selective_index(case):
    plan = IndexPlan(7, case[0])
    assert IndexPlan.loads(plan.dumps()) == plan


@given(st.integers(0, 200))
def test_numbers_fill_the_space_and_none_begins_another(count):
    found = numbers(count)
    assert len(found) == count + 1
    assert sum(dz.end - dz.start for dz in found) == 1 << 112
    assert len({dz.start for dz in found}) == count + 1
    assert found == sorted(found, key=lambda dz: dz.length)
    assert found[-1].length - found[0].length <= 1
