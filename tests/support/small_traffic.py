"""Small random traffic: a schema, subscriptions, events."""

from hypothesis import strategies as st

from pleroma.content.batch import EventBatch
from pleroma.evaluation.sample import Sample
from support.strategies import events, filters, schemas


@st.composite
def traffic(draw, most_boxes):
    schema = draw(schemas(most=4))
    subscriptions = draw(st.lists(filters(schema, most_boxes), min_size=1, max_size=8))
    return schema, subscriptions, draw(st.lists(events(schema), min_size=1, max_size=10))


def sample_of(schema, subscriptions, listed):
    return Sample.of(EventBatch.from_events(schema, listed), subscriptions)


def dimensions(schema):
    return st.sets(st.integers(0, len(schema) - 1), min_size=1).map(sorted)
