"""The filter language against an oracle that walks the expression, and printing against parsing."""

from hypothesis import given, settings
from hypothesis import strategies as st

from pleroma.content import Filter
from support.strategies import (
    NAMES,
    STOCK,
    WORDS,
    events,
    every_event,
    filter_texts,
    filters,
    refusal,
    schemas,
    tiny_schemas,
)

fragments = st.sampled_from(
    (
        *("price", "volume", "ticker", "market", *NAMES, *map(repr, WORDS), "'\\ud800'", "'", "5", "-1.5e3", "1e999"),
        *(
            "and",
            "or",
            "not",
            "in",
            "between",
            "exists",
            "startswith",
            "true",
            "(",
            ")",
            ",",
            "==",
            "=",
            "<",
            ">=",
            "!",
        ),
    )
)


@settings(max_examples=2 * settings.default.max_examples)
@given(st.data())
def test_a_filter_matches_the_events_its_text_holds_for(data):
    schema = data.draw(schemas())
    expression = data.draw(filter_texts(schema))
    parsed = Filter.parse(schema, expression.text)
    for event in data.draw(st.lists(events(schema), min_size=1, max_size=12)):
        assert parsed.matches(event) == expression.holds(event)


@settings(max_examples=2 * settings.default.max_examples)
@given(st.data())
def test_a_filter_over_a_tiny_space_matches_exactly_the_events_its_text_holds_for(data):
    schema = data.draw(tiny_schemas())
    expression = data.draw(filter_texts(schema))
    parsed = Filter.parse(schema, expression.text)
    for event in every_event(schema):
        assert parsed.matches(event) == expression.holds(event)


@given(st.data())
def test_a_printed_filter_parses_to_itself(data):
    schema = data.draw(schemas())
    wanted = data.draw(filters(schema))
    assert Filter.parse(schema, str(wanted)) == wanted


@given(st.data())
def test_a_printed_text_parses_to_the_filter_of_the_text(data):
    schema = data.draw(schemas())
    wanted = Filter.parse(schema, data.draw(filter_texts(schema)).text)
    assert Filter.parse(schema, str(wanted)) == wanted


@given(st.text() | st.lists(fragments).map(" ".join))
def test_any_text_is_a_filter_or_one_line_that_says_why_not(text):
    error = refusal(Filter.parse, STOCK, text)
    if error is not None:
        assert str(error).isprintable()
        assert error.position is not None
        assert 1 <= error.position <= len(text) + 1
