"""Sets of ranges against sets of integers."""

import math
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from pleroma.content.numeric import _is_shorter
from pleroma.content.range import Range, complement, join

DOMAIN = Range(0, 12)
small_ranges = st.builds(Range, st.integers(0, 12), st.integers(0, 12))


def keys(ranges):
    return {k for r in ranges for k in range(r.lo, r.hi)}


@given(st.lists(small_ranges))
def test_join_is_the_union_with_a_gap_between_neighbours(ranges):
    joined = join(ranges)
    assert keys(joined) == keys(ranges)
    assert all(left.hi < right.lo for left, right in pairwise(joined))
    assert all(r.lo < r.hi for r in joined)


@given(st.lists(small_ranges))
def test_complement_is_the_rest_of_the_domain(ranges):
    joined = join(ranges)
    rest = complement(joined, DOMAIN)
    assert keys(rest) == keys([DOMAIN]) - keys(joined)
    assert complement(rest, DOMAIN) == joined


@given(small_ranges, small_ranges)
def test_meet_and_covers_agree_with_sets(a, b):
    met = a.meet(b)
    assert keys([met] if met else []) == keys([a]) & keys([b])
    if a.lo < a.hi and b.lo < b.hi:
        assert a.covers(b) == (keys([a]) >= keys([b]))


@given(
    st.floats(allow_nan=False, allow_infinity=False)
    | st.decimals(-(10**6), 10**6, allow_nan=False, places=4).map(float)
    | st.builds(lambda digits, e: float(f"{digits}e{e}"), st.integers(-(10**6), 10**6), st.integers(-323, 300)),
    st.sampled_from([-math.inf, math.inf]),
)
def test_the_shorter_of_two_neighbouring_doubles_is_found_without_writing_both(one, towards):
    neighbour = math.nextafter(one, towards)
    assert _is_shorter(one, neighbour) == (len(repr(one)) <= len(repr(neighbour)))
