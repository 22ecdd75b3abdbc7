"""Filters as JSON: there and back, and anything else refused."""

import json

from hypothesis import given
from hypothesis import strategies as st

from pleroma.content import Filter
from pleroma.content.filter_json import from_json, to_json, written
from support.strategies import STOCK, conditions, events, filters, refusal, satisfies, schemas

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=5)
operands = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3), max_leaves=4)
operators = st.sampled_from(("==", "<", "in", "between", "exists", "or_absent", "startswith", "=", "\n"))
anything = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(("price", "volume", "ticker", "market", "prise")) | st.text(), inner, max_size=3
        )
        | st.dictionaries(operators, operands, max_size=3)
    ),
    max_leaves=6,
)


@given(st.data())
def test_a_filter_survives_json(data):
    schema = data.draw(schemas())
    wanted = data.draw(filters(schema))
    text = json.dumps(to_json(wanted), allow_nan=False)
    assert from_json(schema, json.loads(text)) == wanted


@given(st.data())
def test_the_text_of_a_filter_can_be_made_from_its_json(data):
    wanted = data.draw(filters(data.draw(schemas())))
    assert written(to_json(wanted)) == str(wanted)
    assert Filter.parse(wanted.schema, written(to_json(wanted))) == wanted


@given(st.data())
def test_a_box_matches_what_satisfies_all_its_conditions(data):
    schema = data.draw(schemas())
    box = {a.name: dict([data.draw(conditions(a)), data.draw(conditions(a))]) for a in schema.attributes}
    box = {name: wanted for name, wanted in box.items() if data.draw(st.booleans())}
    wanted = from_json(schema, box)
    for event in data.draw(st.lists(events(schema), min_size=1, max_size=8)):
        values = dict(event)
        expected = all(
            (name in values) == operand if operator == "exists" else satisfies(values.get(name), operator, operand)
            for name, conditions in box.items()
            for operator, operand in conditions.items()
        )
        assert wanted.matches(event) == expected


@given(anything)
def test_any_json_is_a_filter_or_one_line_that_says_why_not(data):
    error = refusal(from_json, STOCK, data)
    assert error is None or str(error).isprintable()
