"""Schemas as JSON, and the values of events."""

import json

from hypothesis import given
from hypothesis import strategies as st

from pleroma.content import Schema
from support.strategies import events, refusal, schemas, values

scalars = st.none() | st.booleans() | st.integers(-5, 5) | st.floats() | st.sampled_from(("a", "and", "\ud800", ""))
fields = ("name", "kind", "min", "max", "above", "below", "optional", "values", "linearise", "maximum")
kinds = st.sampled_from(("integer", "real", "category", "text", "boolean", "timestamp", "integr"))
attribute_tables = st.fixed_dictionaries(
    {"name": st.sampled_from(("a", "b", "in")) | scalars, "kind": kinds},
    optional={name: scalars | st.lists(scalars, max_size=2) for name in fields[2:]},
)


@given(schemas())
def test_a_schema_survives_json(schema):
    again = Schema.from_json(json.loads(json.dumps(schema.to_json(), allow_nan=False)))
    assert again == schema
    assert hash(again) == hash(schema)


@given(st.data())
def test_an_event_gives_back_the_values_it_was_made_of(data):
    schema = data.draw(schemas())
    given_values = {
        a.name: data.draw(values(a)) for a in schema.attributes if not (a.optional and data.draw(st.booleans()))
    }
    event = schema.event(given_values)
    assert dict(event) == given_values
    assert all(event.get(name) == given_values.get(name) for name in schema.names)
    assert schema.event(event) == event


@given(st.data())
def test_a_key_stands_for_one_value(data):
    schema = data.draw(schemas())
    for attribute in schema.attributes:
        value = data.draw(values(attribute))
        key = attribute.key(value)
        assert attribute.value(key) == value
        assert key in attribute.present
        assert attribute.absent < attribute.present.lo <= key < attribute.successor(key) <= attribute.present.hi


@given(st.data())
def test_keys_are_ordered_as_values_are(data):
    attribute = data.draw(schemas(most=1)).attributes[0]
    a, b = data.draw(values(attribute)), data.draw(values(attribute))
    place = attribute.values.index if attribute.kind == "category" else lambda value: value
    assert (attribute.key(a) < attribute.key(b)) == (place(a) < place(b))


@given(st.data())
def test_events_with_other_attributes_are_refused_in_one_line(data):
    schema = data.draw(schemas())
    event = dict(data.draw(events(schema))) | {data.draw(st.text(st.characters(), max_size=5)) + "-": 1}
    assert str(refusal(schema.event, event)).startswith("unknown attribute ")
    assert str(refusal(schema.event, event)).isprintable()


@given(st.lists(attribute_tables, max_size=2), scalars)
def test_any_table_is_a_schema_or_one_line_that_says_why_not(tables, name):
    error = refusal(Schema.from_json, {"name": name, "attribute": tables})
    assert error is None or str(error).isprintable()
