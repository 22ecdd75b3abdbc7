"""The growth of trees, against counting every cut of every node one by one."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pleroma.learning.cuts import RankedBoxes, can_wait
from pleroma.learning.growth import GrowthLimits, RankedTraffic, grow, root_alone


@st.composite
def cases(draw):
    dims, cuts = draw(st.integers(1, 3)), draw(st.integers(1, 6))
    events, boxes = draw(st.integers(0, 12)), draw(st.integers(1, 6))
    random = np.random.default_rng(draw(st.integers(0, 10**6)))
    ranks = random.integers(0, cuts + 1, (dims, events)).astype(np.int32)
    ends = np.sort(random.integers(0, cuts + 1, (2, dims, boxes)), axis=0).astype(np.int32)
    group = np.unique(random.integers(0, boxes, boxes), return_inverse=True)[1].astype(np.int32)
    share = draw(st.sampled_from([0.0, 0.25]))
    weight = random.integers(1, 4, events).astype(np.float64)
    return (
        ranks,
        weight,
        ends[0],
        ends[1],
        group,
        np.full(dims, cuts),
        draw(st.integers(0, 9)),
        draw(st.integers(0, 9)),
        share,
        draw(st.integers(0, 12)),
    )


def cost(case, low, high):
    ranks, weight, first, last, group, *_ = case
    inside = ((ranks >= low[:, None]) & (ranks <= high[:, None])).all(axis=0)
    met = ((first <= high[:, None]) & (last >= low[:, None])).all(axis=0)
    groups = len(set(group[met].tolist()))
    share = 0.0 if len(set(group.tolist())) == len(group) else case[-2]
    return weight[inside].sum() * (groups + share * met.sum())


def waits(case, depth, cost, whole):
    """Whether a node has five more bits left than the leaves need that it may expect."""
    *_, bits, _, _, leaves = case
    return leaves > 0 and bits - depth >= 5 and 2 ** (bits - depth - 5) * whole >= leaves * cost


def value(whole, lower, upper, patient):
    """How good a cut is, and what it saves: that, or what is saved of the 7/8th powers where they fall."""
    gain = whole - lower - upper
    if gain <= 1e-9 * whole:
        return 0.0, 0.0
    later = whole**0.875 - lower**0.875 - upper**0.875
    return (later if later > 0 else 1e-12 * gain) if patient else gain, gain


def parts(low, high, d, k):
    below, above = high.copy(), low.copy()
    below[d], above[d] = k, k + 1
    return (low, below), (above, high)


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.integers(1, 5_000), st.integers(0, 24))
def test_a_node_can_wait_if_it_has_five_more_bits_than_its_leaves_need(cost, more, leaves, bits):
    whole = cost + more
    needed = next(n for n in range(64) if 2**n * whole >= leaves * cost)
    assert can_wait(float(cost), float(whole), leaves, bits) == (bits >= 5 + needed)
    assert not can_wait(float(cost), float(whole), 0, bits)


def grown(case, *steps):
    """In several steps, the last of them to all splits."""
    ranks, weight, first, last, group, cuts, bits, splits, share, leaves = case
    traffic = RankedTraffic(ranks, weight, RankedBoxes(first, last, group, share))
    tree = root_alone(ranks.shape[1], cuts)
    for step in (*steps, splits):
        tree = grow(tree, traffic, GrowthLimits(bits, step, leaves))
    return tree


@given(cases(), st.lists(st.integers(0, 9), max_size=4))
def test_growing_step_by_step_comes_to_the_same(case, steps):
    at_once, later = grown(case), grown(case, *(min(step, case[-3]) for step in steps))
    for one, other in zip((*at_once.nodes, *at_once[1:]), (*later.nodes, *later[1:]), strict=True):
        np.testing.assert_array_equal(one, other)


@given(cases())
def test_every_node_is_cut_where_that_saves_most_and_the_best_node_first(case):
    *_, cuts, bits, splits, _, _ = case
    dim, at, child, found, *_ = grown(case).nodes
    sides = {0: (np.zeros(len(cuts), np.int64), cuts)}
    depth = {0: 0}
    assert len(dim) <= 2 * splits + 1
    gains = {}
    for node in range(len(dim)):
        low, high = sides[node]
        assert np.isclose(found[node], cost(case, low, high))
        patient = waits(case, depth[node], found[node], found[0])
        every = [
            value(cost(case, low, high), *(cost(case, *part) for part in parts(low, high, d, k)), patient)
            for d in range(len(cuts))
            for k in range(low[d], high[d])
        ]
        _, gains[node] = max(every, default=(0.0, 0.0)) if depth[node] < bits else (0.0, 0.0)
        if child[node]:
            left = int(child[node])
            sides[left], sides[left + 1] = parts(low, high, dim[node], at[node])
            depth[left] = depth[left + 1] = depth[node] + 1
            mine = value(found[node], found[left], found[left + 1], patient)
            assert np.isclose(mine[0], max(every)[0])  # of cuts that are as good, any
            gains[node] = mine[1]
        else:
            assert dim[node] == -1
    order = sorted((int(child[node]), node) for node in range(len(dim)) if child[node])
    for step, (left, node) in enumerate(order):
        assert left == 2 * step + 1  # a beginning of the arrays is a smaller tree
        waiting = [other for other in range(left) if not child[other] or child[other] >= left]
        assert np.isclose(gains[node], max(gains[other] for other in waiting))
    if len(order) < splits:  # it stops early only when nothing is left to save
        assert all(gains[node] <= 1e-9 for node in range(len(dim)) if not child[node])
