"""Selective indexing on the plane of Bhowmik et al. 2018, figures 3 and 4: temperature and pressure from 0 to 100."""

import json
from dataclasses import replace

import numpy as np
import pytest

from pleroma.content import Filter, Real, Schema
from pleroma.errors import ContentError, DomainError, DzError, PlanError
from pleroma.index import Dz, DzSet, GridIndex, IndexPlan, Rectangle, SelectiveIndex, SelectiveRegion, evaluate

PLANE = Schema("plane", (Real("T", False, 0, 100), Real("P", False, 0, 100)))
HERE = Rectangle(((10.0, 50.0), (10.0, 50.0)))
THERE = Rectangle(((40.0, 80.0), (40.0, 80.0)))


def inside(rectangle, *order):
    return GridIndex(PLANE, order, {}, {d: rectangle.sides[d] for d in set(order)})


def plane(repeated=False, quiet=False, bits=(0, 1)):
    return SelectiveIndex(
        PLANE,
        (
            SelectiveRegion(Dz.parse("0"), HERE, inside(HERE, *bits)),
            SelectiveRegion(Dz.parse("10"), THERE, inside(THERE, *bits)),
            SelectiveRegion(Dz.parse("11"), None, GridIndex(PLANE, (0,))),
        ),
        repeated,
        quiet,
    )


def parse(text):
    return Filter.parse(PLANE, text)


def sent(index, t, p):
    return [str(dz) for dz in index.dzs(PLANE.event(T=t, P=p))]


def test_behind_a_number_a_bit_halves_the_rectangle_and_not_the_space():
    index = plane()
    assert index.cover(parse("T >= 12 and T <= 20 and P >= 12 and P <= 20")) == DzSet.parse("000")
    assert index.cover(parse("T >= 62 and T <= 78 and P >= 62 and P <= 78")) == DzSet.parse("1011")
    assert index.bits == 4


def test_with_the_same_bits_less_is_wasted_than_with_the_whole_space_indexed():
    wanted = [
        parse("T >= 62 and T <= 78 and P >= 62 and P <= 78"),
        parse("T >= 12 and T <= 20 and P >= 12 and P <= 20"),
    ]
    events = [PLANE.event(T=t + 0.5, P=p + 0.5) for t in range(100) for p in range(100)]
    assert evaluate(plane(), wanted, events).wasted < evaluate(GridIndex.regular(PLANE, 4), wanted, events).wasted / 2


def test_an_event_in_two_rectangles_belongs_to_the_first_or_is_sent_in_both():
    assert sent(plane(), 45, 45) == ["0110"]  # zeros follow where number and grid have fewer bits than others
    assert sent(plane(repeated=True), 45, 45) == ["0110", "1000"]


def test_an_event_in_no_rectangle_is_sent_to_strangers_unless_the_index_is_quiet():
    assert sent(plane(), 90, 10) == ["1110"]
    assert sent(plane(quiet=True), 90, 10) == []


def test_a_subscription_in_two_rectangles_is_covered_in_both_or_where_it_fits():
    both = parse("T >= 42 and T <= 48 and P >= 42 and P <= 48")
    assert plane(repeated=True).cover(both) == DzSet.parse("011")
    assert plane().cover(both) == DzSet.parse("011")  # all its events belong to the first
    crossing = parse("T >= 45 and T <= 55 and P >= 45 and P <= 48")
    assert plane(repeated=True).cover(crossing) == DzSet.parse("1000")
    assert plane().cover(crossing) == DzSet.parse("011", "1000")


def test_a_stranger_is_covered_in_what_it_meets_and_in_the_rest():
    stranger = parse("T >= 70 and T <= 90 and P >= 60")
    assert plane().cover(stranger) == DzSet.parse("1011", "111")
    assert plane(repeated=True).cover(stranger) == DzSet.parse("1011", "111")


def test_a_quiet_index_refuses_strangers_and_opens_without_a_dz_changing():
    index = plane(quiet=True)
    with pytest.raises(PlanError, match="reaches out of the rectangles"):
        index.cover(parse("T >= 70 and T <= 90 and P >= 60"))
    fitting = parse("T >= 12 and T <= 20 and P >= 12 and P <= 20")
    assert index.opened().cover(fitting) == index.cover(fitting)
    assert index.opened() == plane()


def test_a_limit_on_members_is_kept_across_rectangles():
    wide = parse("T >= 5 and T <= 95 and P >= 45 and P <= 47")
    index = plane(bits=(0, 1, 0, 1))
    for most in range(1, 6):
        assert len(index.cover(wide, max_members=most)) <= most
    assert index.cover(wide, max_length=1) == DzSet.parse("ε")


def test_dz_longer_than_a_word_are_the_same_in_batches():
    index = plane(repeated=True, bits=(0, 1) * 32)
    points = [(45.0, 45.0), (11.25, 49.5), (79.0, 41.0), (33.3, 12.7), (99.0, 1.0)]
    codes = index.encode(np.array(points))
    expected = [dz for t, p in points for dz in index.dzs(PLANE.event(T=t, P=p))]
    assert codes.words.shape == (6, 2)
    assert codes.dz_of(range(len(codes))) == expected
    assert codes.events.tolist() == [0, 0, 1, 2, 3, 4]


def test_cells_are_drawn_within_their_rectangle():
    assert plane().extent(Dz.parse("000")) == {0: (10.0, 30.0), 1: (10.0, 30.0)}
    assert plane().extent(Dz.parse("1110")) == {0: (50.0, 100.0), 1: (0.0, 100.0)}
    with pytest.raises(DzError):
        plane().extent(Dz.parse("1"))


def test_regions_must_make_sense():
    index = plane()
    here, there, rest = index.regions
    for regions, reason in (
        ((here, there), "rest"),
        ((here, rest, there), "rest"),
        ((here, rest, rest), "rest"),
        ((), "rest"),
        ((here, replace(there, number=Dz.parse("01")), rest), "overlap"),
        ((replace(here, rectangle=Rectangle(((0.0, 1.0),))), rest), "2 sides"),
        ((replace(here, rectangle=Rectangle(((0.0, 1.0), (5.0, 4.0)))), rest), "not a part"),
        ((replace(here, number=Dz.parse("0" * 111)), rest), "at most 112 bits"),
    ):
        with pytest.raises(PlanError, match=reason):
            SelectiveIndex(PLANE, regions)
    other = Schema("other", PLANE.attributes)
    with pytest.raises(PlanError, match="another schema"):
        SelectiveIndex(other, index.regions)


def test_events_filters_and_batches_must_fit():
    other = Schema("other", PLANE.attributes)
    with pytest.raises(ContentError):
        plane().dzs(other.event(T=1, P=1))
    with pytest.raises(ContentError):
        plane().cover(Filter.parse(other, "T > 1"))
    with pytest.raises(PlanError):
        plane().cover(parse("T > 1"), max_members=0)
    with pytest.raises(DomainError, match="columns"):
        plane().encode(np.zeros((3, 1)))
    with pytest.raises(DomainError, match="nan in row 1") as caught:
        plane().encode(np.array([[1.0, 2.0], [3.0, np.nan]]))
    assert caught.value.field == "P"


def test_an_empty_filter_is_covered_by_nothing():
    assert plane().cover(parse("T > 5 and T < 4")) == DzSet()


def test_damaged_plans_are_refused_with_an_error_of_ours():
    good = plane().to_json()
    for damage in (
        {"regions": 5},
        {"regions": [5]},
        {"regions": [{"number": "0"}]},
        {"regions": [{"number": "0", "sides": 4, "grid": {}}]},
        {"regions": [good["regions"][0] | {"sides": [["a", "b"], [1, 2]]}, good["regions"][2]]},
        {"repeated": 1},
        {"quiet": None},
    ):
        with pytest.raises(PlanError):
            SelectiveIndex.from_json(PLANE, good | damage)
    assert IndexPlan.loads(IndexPlan(3, plane()).dumps()).index == plane()
    assert json.loads(IndexPlan(3, plane()).dumps())["index"]["kind"] == "selective"
