"""Counting events by node, dimension and bin, against looking at each of them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pleroma.learning import bins as bins_module
from pleroma.learning.bins import NodeBins, TreeSoFar


@st.composite
def cases(draw):
    random = np.random.default_rng(draw(st.integers(0, 10**6)))
    dims = draw(st.integers(1, 3))
    cuts = [np.unique(random.integers(0, 20, draw(st.integers(0, 12)))).astype(float) for _ in range(dims)]
    points = random.integers(0, 22, (draw(st.integers(0, 30)), dims)) + random.choice([0.0, 0.5])
    return cuts, points, draw(st.sampled_from([2, 4, 256])), draw(st.integers(0, 2))


@given(cases())
def test_every_event_is_counted_once_in_each_dimension_of_its_node(case):
    cuts, points, most, splits = case
    low = {0: np.zeros(len(cuts), np.int64)}
    high = {0: np.array([len(each) for each in cuts])}
    dim, cut, child, leaves = [0], [0.0], [0], [0]
    for _ in range(splits):
        node = next((n for n in leaves if (high[n] > low[n]).any()), None)
        if node is None:
            break
        d = int(np.argmax(high[node] - low[node]))
        k = int(low[node][d] + high[node][d]) // 2
        dim[node], cut[node], child[node] = d, float(cuts[d][k]), len(dim)
        for side in range(2):
            new = len(dim)
            low[new], high[new] = low[node].copy(), high[node].copy()
            (low if side else high)[new][d] = k + side
            dim.append(0), cut.append(0.0), child.append(0), leaves.append(new)
        leaves.remove(node)
    nodes = np.array(leaves[::-1], np.int64)  # in any order
    before, bins_module.MAX_BINS = bins_module.MAX_BINS, most
    try:
        tree = TreeSoFar(np.array(dim), np.array(cut), np.array(child))
        bins = NodeBins.of(tree, nodes, *(np.array([each[n] for n in nodes]) for each in (low, high)), cuts)
    finally:
        bins_module.MAX_BINS = before
    found = bins.counted(points)
    expected = np.zeros(bins.size, np.int64)
    for point in points:
        node = 0
        while child[node]:
            node = child[node] + int(point[dim[node]] >= cut[node])
        s = int(np.flatnonzero(nodes == node)[0])
        for d in range(len(cuts)):
            if high[node][d] > low[node][d]:
                rank = int((cuts[d] <= point[d]).sum())
                assert low[node][d] <= rank <= high[node][d]
                expected[bins.offset[s, d] + ((rank - low[node][d]) >> bins.shift[s, d])] += 1
    assert np.array_equal(found, expected)
    assert (bins.bins <= most).all()
