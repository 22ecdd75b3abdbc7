"""Covers of many subscriptions at once, against those of the index one by one."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pleroma.evaluation.batch_covers import covered
from pleroma.evaluation.grid_evaluator import deliveries
from pleroma.evaluation.tree_covers import TreeCovers
from pleroma.index.dz_rows import packed
from pleroma.learning.fitting import Budget
from pleroma.learning.learner import learn
from pleroma.selection.splits import SPLITS
from support.held_events import held
from support.small_traffic import dimensions, sample_of, traffic


@given(
    traffic(most_boxes=3),
    st.sampled_from(["regular", "adaptive", "selective", "repeated"]),
    st.sampled_from([7, 12, 40, 70]),
    st.sampled_from([None, 1, 2, 5, 40, 2**62, 10**30]),
    st.data(),
)
def test_all_at_once_are_what_the_index_covers_each_with(given_traffic, split, bits, most, data):
    schema, subscriptions, events = given_traffic
    sample = sample_of(schema, subscriptions, events)
    index = SPLITS[split](sample, bits).index(data.draw(dimensions(schema)))
    if (most is None or most > 40) and index.bits > 12:
        most = 200
    found = covered(index, sample, most)
    for i, each in enumerate(subscriptions):
        np.testing.assert_array_equal(found.of(i), packed(index.cover(each, max_members=most)))
    if split != "repeated":
        codes = index.encode(sample.points)
        made = held(codes, [index.cover(each, max_members=most) for each in subscriptions])
        assert made >= deliveries(sample, index), "no limit on members delivers less than the bits alone can"


@given(traffic(most_boxes=3), st.integers(1, 60), st.sampled_from([7, 40, 70]), st.sampled_from([None, 1, 2, 5, 40]))
def test_a_tree_covers_all_at_once_as_it_covers_each(given_traffic, leaves, bits, most):
    schema, subscriptions, events = given_traffic
    sample = sample_of(schema, subscriptions, events)
    index = learn(sample, bits, Budget(leaves=leaves), smoothing="as seen").index
    covers = TreeCovers.of(index, sample)
    found = covers.within(most)
    for i, each in enumerate(subscriptions):
        np.testing.assert_array_equal(found.of(i), packed(index.cover(each, max_members=most)))
    assert covers.most == max(len(index.cover(each)) for each in subscriptions)
