"""DzSet against plain sets of explicit cells."""

from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from pleroma.index import Dz, DzSet, dzset

DEPTH = 6
dzs = st.integers(1, (1 << DEPTH + 1) - 1).map(Dz)
dz_sets = st.lists(dzs, max_size=12).map(DzSet)


def cells(region):
    """All cells of full depth, one by one."""
    members = region if isinstance(region, (list, tuple)) else list(region)
    return {c for c in range(1 << DEPTH, 1 << DEPTH + 1) if any(c >> DEPTH - dz.length == dz for dz in members)}


@given(st.lists(dzs, max_size=12))
def test_a_set_is_prefix_free_sibling_merged_and_the_same_region(members):
    region = DzSet(members)
    assert cells(region) == cells(members)
    for a in region:
        assert not any(a != b and a.covers(b) for b in region)
        assert a == 1 or a.sibling not in region.members
    assert list(region) == sorted(region, key=lambda dz: dz.start)


@given(st.lists(dzs, max_size=12), st.randoms(use_true_random=False))
def test_cells_that_do_not_overlap_are_the_region_that_they_form_in_any_order(members, shuffled):
    apart = [dz for n, dz in enumerate(members) if not any(dz.overlaps(other) for other in members[:n])]
    shuffled.shuffle(apart)
    region = DzSet.of_cells(map(int, apart))
    assert (region.members, region.spans, bool(region)) == (DzSet(apart).members, DzSet(apart).spans, bool(apart))
    assert region.pack() == b"".join(map(dzset.packed, region.members)) == DzSet(apart).pack()


@given(dz_sets, dz_sets)
def test_algebra_is_set_algebra(a, b):
    assert cells(a | b) == cells(a) | cells(b)
    assert cells(a & b) == cells(a) & cells(b)
    assert cells(a - b) == cells(a) - cells(b)
    assert a.covers(b) == (cells(a) >= cells(b))
    assert a.overlaps(b) == bool(cells(a) & cells(b))
    assert (a == b) == (cells(a) == cells(b))
    assert bool(a) == bool(cells(a))
    assert a.volume == len(cells(a)) / (1 << DEPTH)


@given(dz_sets, dzs)
def test_one_cell_against_a_set(a, dz):
    assert a.covers(dz) == (cells(a) >= cells([dz]))
    assert a.overlaps(dz) == bool(cells(a) & cells([dz]))


@given(dzs, dzs)
def test_two_cells(a, b):
    assert a.covers(b) == (cells([a]) >= cells([b]))
    assert a.overlaps(b) == bool(cells([a]) & cells([b]))
    meet = a.meet(b)
    assert (cells([meet]) if meet else set()) == cells([a]) & cells([b])


@given(dz_sets, st.integers(0, DEPTH))
def test_truncation_is_the_least_enclosing_region_of_that_length(a, length):
    cut = a.truncate(length)
    assert cut.longest <= length
    assert cells(cut) == cells([dz.truncate(length) for dz in a])


@given(dz_sets.filter(bool), st.integers(1, 5))
def test_coarsening_is_the_smallest_of_all_coverings(a, most):
    best = a.coarsen(most)
    assert len(best) <= most
    assert best.covers(a)
    assert best.atoms == smallest(a, Dz(1), most)


def smallest(region, dz, most):
    """Brute force: atoms of the best covering of what lies in `dz` with at most `most` cells."""
    inside = region & DzSet([dz])
    if not inside:
        return 0
    if most == 0:
        return float("inf")
    whole = dz.end - dz.start
    if dz.length == DEPTH or inside.covers(dz):
        return whole
    left, right = dz.children
    return min(whole, *(smallest(region, left, k) + smallest(region, right, most - k) for k in range(most + 1)))


@given(dz_sets, dzs)
def test_what_is_inside_a_cell_is_what_was_put_under_it(a, prefix):
    assert a.under(prefix).inside(prefix) == a
    assert a.inside(prefix).under(prefix) == a & DzSet([prefix])


@given(dz_sets, dz_sets)
def test_a_packed_region_is_unpacked_once_however_many_pieces_the_other_has(a, b):
    packed = DzSet(a)
    packed.slim()
    for combine in (DzSet.__and__, DzSet.__or__, DzSet.__sub__, DzSet.covers, DzSet.overlaps):
        with patch.object(dzset, "unpacked", side_effect=dzset.unpacked) as unpacked:
            assert combine(packed, b) == combine(a, b)
            assert combine(b, packed) == combine(b, a)
        assert unpacked.call_count <= 2 * len(a)
