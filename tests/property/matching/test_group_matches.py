"""The evaluator's answers from the engine are those of looking at every filter."""

from hypothesis import given, settings
from hypothesis import strategies as st

from pleroma.content.batch import EventBatch
from pleroma.matching import group_matches
from support.strategies import events, filters, schemas


@settings(deadline=None)
@given(st.data())
def test_a_group_wants_what_any_of_its_filters_matches(data):
    schema = data.draw(schemas(most=3))
    groups = data.draw(st.lists(st.lists(filters(schema, 3), max_size=3), max_size=4))
    asked = data.draw(st.lists(events(schema), max_size=5))
    wanted = group_matches.wanted_by(groups, EventBatch.from_events(schema, asked), few=0)
    assert wanted.tolist() == [[any(f.matches(event) for f in group) for event in asked] for group in groups]
