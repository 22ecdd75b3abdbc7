"""What is counted over the leaves of a tree is what its covers deliver and need."""

from hypothesis import given
from hypothesis import strategies as st

from pleroma.content.batch import EventBatch
from pleroma.index import evaluate
from pleroma.tuning.outcome import judge, judge_tree
from property.index.trees import trees
from property.tuning.traffic import sample_of, traffic


@given(traffic(3), st.data())
def test_leaves_and_covers_agree(case, data):
    schema, subscriptions, events = case
    index = data.draw(trees(schema, subscriptions, data.draw(st.sampled_from([5, 23, 112]))))
    counted = judge_tree(index, sample_of(schema, subscriptions, events))
    batch = EventBatch.from_events(schema, events)
    assert counted == judge(index, subscriptions, batch, max_members=1_000) == judge(index, subscriptions, batch)
    assert counted.waste == evaluate(index, subscriptions, events)
