"""Covering and coarsening have a plain form, which a sensor runs, and a compiled one: both give the same members."""

import random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pleroma.content import Real, Schema
from pleroma.index import Dz, DzSet, GridIndex, coarsening, coarsening_kernels
from pleroma.index.cover import Cover
from pleroma.index.dz_rows import packed
from support.grids import grids
from support.strategies import filters, schemas
from support.trees import trees

CUBE = Schema("cube", tuple(Real(name, False, 0.0, 1000.0) for name in "abc"))


@st.composite
def grid_cases(draw):
    schema = draw(schemas())
    return draw(grids(schema)), draw(filters(schema))


@given(grid_cases(), st.integers(0, 112), st.none() | st.integers(1, 40) | st.sampled_from([2**62, 10**30]))
def test_a_grid_covers_a_filter_alike_in_both_forms(case, length, members):
    index, wanted = case
    boxes = [index._cells(box.ranges) for box in wanted.boxes]
    if not (index.axes and boxes) or ((members is None or members > 40) and index.bits > 12):
        return
    length = min(length, index.bits)
    plain = Cover(index._axis_order, [axis.bits for axis in index.axes.values()], boxes, length).cells(members)
    assert DzSet(plain) == index.tables.cover(boxes, length, members)


@st.composite
def boxes_of_cells(draw):
    """A grid and boxes over its cells, most of which need many members."""
    order = draw(st.lists(st.integers(0, 2), min_size=4, max_size=30))
    index = GridIndex(CUBE, tuple(order))
    sides = [st.integers(0, (1 << axis.bits) - 1) for axis in index.axes.values()]
    box = st.tuples(*(st.tuples(side, side).map(sorted).map(tuple) for side in sides))
    return index, draw(st.lists(box, min_size=1, max_size=5))


@settings(max_examples=200)
@given(boxes_of_cells(), st.integers(0, 30), st.integers(1, 40))
def test_boxes_that_need_many_members_are_covered_alike_in_both_forms(case, shorter, members):
    index, boxes = case
    length = max(index.bits - shorter // 3, 0)
    plain = Cover(index._axis_order, [axis.bits for axis in index.axes.values()], boxes, length).cells(members)
    assert DzSet(plain) == index.tables.cover(boxes, length, members)


@st.composite
def tree_cases(draw):
    schema = draw(schemas(most=4))
    wanted = draw(st.lists(filters(schema, 3), min_size=1, max_size=4))
    return draw(trees(schema, wanted, draw(st.sampled_from([0, 3, 23, 70, 112])))), wanted


@given(tree_cases(), st.none() | st.integers(0, 112), st.none() | st.integers(1, 6))
def test_a_tree_covers_a_filter_alike_in_both_forms(case, length, members):
    index, wanted = case
    most = index.bits if length is None else min(length, index.bits)
    for each in wanted:
        boxes = [index.bounds(box.ranges) for box in each.boxes]
        plain, compiled = (by.cover_nodes(boxes, most, members) for by in (index, index.tables))
        assert sorted(plain) == sorted(compiled)


@st.composite
def binary_trees(draw):
    """Volumes and children as a search makes them: cuts of random leaves, one after the other."""
    cuts = draw(st.lists(st.integers(0, 10**6), min_size=1, max_size=60))
    child, leaves = [0], [0]
    for cut in cuts:
        node = leaves.pop(cut % len(leaves))
        child[node] = len(child)
        leaves += [len(child), len(child) + 1]
        child += [0, 0]
    return draw(st.lists(st.sampled_from([1.0, 0.5, 0.25, 0.3]), min_size=len(child), max_size=len(child))), child


@given(binary_trees(), st.integers(1, 40))
def test_the_fewest_nodes_are_the_same_in_both_forms(tree, most):
    volume, child = tree
    if (len(child) + 1) // 2 > most:
        found = coarsening_kernels.fewest(np.array(volume), np.array(child, np.int64), most)
        assert found.tolist() == coarsening.fewest(volume, child, most)


@given(st.randoms(use_true_random=False), st.sampled_from([0, 50, 62, 64, 106]), st.integers(1, 9))
def test_a_region_is_coarsened_alike_in_both_forms_whatever_the_lengths(luck: random.Random, length, most):
    prefix = Dz(1 << length | luck.getrandbits(length)) if length else Dz(1)
    ends = [Dz(1 << n | luck.getrandbits(n)) for n in luck.choices(range(1, 7), k=14)]
    far = [Dz(1 << 112 | luck.getrandbits(112)) for _ in range(luck.randrange(6))]
    region = DzSet([*map(prefix.then, ends), *far])
    if len(region) > most:
        rows = coarsening_kernels.coarsened(packed(region), most)
        np.testing.assert_array_equal(rows, packed(region.coarsen(most)))
