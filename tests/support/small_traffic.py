"""Small random traffic: a schema, subscriptions, events."""

from collections.abc import Sequence

from hypothesis import strategies as st

from pleroma.content import Event, Filter, Schema
from pleroma.content.batch import EventBatch
from pleroma.evaluation.sample import Sample
from support.strategies import events, filters, schemas


@st.composite
def traffic(draw: st.DrawFn, most_boxes: int) -> tuple[Schema, list[Filter], list[Event]]:
    schema = draw(schemas(most=4))
    subscriptions = draw(st.lists(filters(schema, most_boxes), min_size=1, max_size=8))
    return schema, subscriptions, draw(st.lists(events(schema), min_size=1, max_size=10))


def sample_of(schema: Schema, subscriptions: Sequence[Filter], listed: Sequence[Event]) -> Sample:
    return Sample.of(EventBatch.from_events(schema, listed), subscriptions)


def dimensions(schema: Schema) -> st.SearchStrategy[list[int]]:
    return st.sets(st.integers(0, len(schema) - 1), min_size=1).map(sorted)
