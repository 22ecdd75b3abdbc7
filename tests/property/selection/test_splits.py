"""What a split says of a choice of dimensions is what its index does, by the reference evaluator."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pleroma.content.batch import EventBatch
from pleroma.evaluation.grid_evaluator import GridEvaluator
from pleroma.evaluation.sample import Sample
from pleroma.index import Rectangle, SelectiveIndex, evaluate
from pleroma.selection.clusters import rectangles
from pleroma.selection.selective_indexing import SelectiveSplit
from pleroma.selection.splits import SPLITS
from support.small_traffic import dimensions, sample_of, traffic
from support.strategies import events, filters


@pytest.mark.parametrize("name", SPLITS)
@given(data=st.data(), bits=st.integers(4, 10))
def test_a_split_foretells_what_its_index_delivers_and_misses_nothing_unseen(name, data, bits):
    schema, subscriptions, listed = data.draw(traffic(most_boxes=3))
    dims = data.draw(dimensions(schema))
    split = SPLITS[name](sample_of(schema, subscriptions, listed), bits)
    index = split.index(dims)
    assert index.bits <= bits
    assert split.waste(dims) == evaluate(index, subscriptions, listed)
    unseen = data.draw(st.lists(events(schema), min_size=1, max_size=6))
    judges = GridEvaluator(sample_of(schema, subscriptions, unseen), bits)
    assert judges.waste_of(index) == evaluate(index, subscriptions, unseen)


@given(data=st.data(), repeated=st.booleans(), count=st.integers(1, 6))
def test_a_given_number_of_rectangles_serves_strangers_too(data, repeated, count):
    schema, subscriptions, listed = data.draw(traffic(most_boxes=2))
    index = SelectiveSplit(sample_of(schema, subscriptions, listed), 9, count, repeated).index(range(len(schema)))
    assert isinstance(index, SelectiveIndex)
    assert len(index.regions) <= count + 1
    assert index.repeated == repeated
    evaluate(index, [*subscriptions, *data.draw(st.lists(filters(schema, 2), min_size=1, max_size=3))], listed)


@given(st.data(), st.integers(1, 6))
def test_rectangles_hold_every_box_and_part_without_loss(data, most):
    schema, subscriptions, listed = data.draw(traffic(most_boxes=3))
    sample = Sample.of(EventBatch.from_events(schema, listed), subscriptions)
    path = list(rectangles(sample, most))
    assert len(path) <= most
    for number, found in enumerate(path, 1):
        assert len(found) == number
        for first, last in zip(sample.first, sample.last, strict=True):
            bounds = Rectangle(tuple(zip(first.tolist(), last.tolist(), strict=True)))
            assert any(rectangle.encloses(bounds) for rectangle in found)
    if sample.boxes:
        (one,) = path[0]
        assert np.array_equal(np.array(one.sides), np.column_stack([sample.first.min(axis=0), sample.last.max(axis=0)]))
    else:
        assert not path
