"""What lies outside of many boxes: every point of the domain is in a box or in exactly one piece outside."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from pleroma.content import Filter, Integer, Schema
from pleroma.content.box import Box
from pleroma.content.range import Range
from pleroma.content.slabs import outside
from pleroma.content.work_budget import UNBOUNDED

SIDE = 6
DOMAIN = Box((Range(0, SIDE),) * 3)
POINTS = list(product(range(SIDE), repeat=3))
SCHEMA = Schema("s", tuple(Integer(name, False, 0, SIDE - 1) for name in "abc"))

ranges = st.tuples(st.integers(0, SIDE - 1), st.integers(1, SIDE)).map(
    lambda each: Range(each[0], max(each[0] + 1, each[1]))
)
boxes = st.tuples(ranges, ranges, ranges).map(Box)


@given(st.lists(boxes, max_size=8))
def test_every_point_is_in_a_box_or_in_one_piece_outside(given_boxes):
    pieces = outside(given_boxes, DOMAIN, UNBOUNDED, 1000)
    for point in POINTS:
        assert sum(point in piece for piece in pieces) == (not any(point in box for box in given_boxes))


@given(st.lists(boxes, max_size=8), st.integers(0, 20))
def test_there_are_no_more_pieces_than_asked_for(given_boxes, most):
    pieces = outside(given_boxes, DOMAIN, UNBOUNDED, most)
    assert pieces is None or len(pieces) <= max(most, 1)


@given(st.lists(boxes, min_size=1, max_size=20), st.booleans())
def test_a_filter_that_leaves_boxes_out_has_all_other_events(given_boxes, as_one):
    texts = [
        " and ".join(f"{name} between {lo} and {hi - 1}" for name, (lo, hi) in zip("abc", box.ranges, strict=True))
        for box in given_boxes
    ]
    text = (
        f"not ({' or '.join(f'({each})' for each in texts)})"
        if as_one
        else " and ".join(f"not ({each})" for each in texts)
    )
    left = Filter.parse(SCHEMA, f"{text} and a < 5")
    for a, b, c in POINTS:
        wanted = a < 5 and not any((a, b, c) in box for box in given_boxes)
        assert left.matches(SCHEMA.event(a=a, b=b, c=c)) == wanted
