"""Booleans: truth values and nothing that merely counts as one."""

import pytest

from pleroma.content import Boolean, Filter, Integer, Schema
from pleroma.content.filter_json import from_json, to_json
from pleroma.errors import ContentError, DomainError, UnknownName

SCHEMA = Schema("alarm", (Boolean("armed", False), Boolean("open", True), Integer("n", False, 0, 9)))
ARMED, CALM = SCHEMA.event(armed=True, n=1), SCHEMA.event(armed=False, open=False, n=1)


def test_an_event_gives_back_truth_values():
    assert [ARMED["armed"], ARMED.get("open"), CALM["open"]] == [True, None, False]
    assert all(isinstance(each, bool) for each in (ARMED["armed"], CALM["open"]))


@pytest.mark.parametrize("value", [0, 1, "true", 1.0, [True]])
def test_what_is_no_truth_value_is_refused(value):
    with pytest.raises(DomainError, match=r"^armed: .* is not boolean$"):
        SCHEMA.event(armed=value, n=1)


@pytest.mark.parametrize(
    ("text", "matched"),
    [
        ("armed = true", [True, False]),
        ("armed == FALSE", [False, True]),
        ("armed != true", [False, True]),
        ("armed in (true, false) and n = 1", [True, True]),
        ("open = false", [False, True]),
        ("not open = false", [True, False]),
        ("exists open and true", [False, True]),
    ],
)
def test_a_filter_compares_truth_values(text, matched):
    wanted = Filter.parse(SCHEMA, text)
    assert [wanted.matches(event) for event in (ARMED, CALM)] == matched
    assert Filter.parse(SCHEMA, str(wanted)) == wanted
    assert from_json(SCHEMA, to_json(wanted)) == wanted


def test_truth_values_are_printed_as_they_are_written():
    assert str(Filter.parse(SCHEMA, "armed != TRUE and n < 3")) == "armed == false and n <= 2"
    assert to_json(Filter.parse(SCHEMA, "armed = true")) == [{"armed": {"==": True}}]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("armed > false", "at 9: armed: > is not defined for boolean; use one of ==, !=, in, exists"),
        ("armed = 1", "at 9: armed: 1 is not boolean"),
        ("n in (1, true)", "at 10: n: True is not integer"),
        ("armed in (true, 1)", "at 17: armed: 1 is not boolean"),
    ],
)
def test_errors_point_at_the_value(text, line):
    with pytest.raises(ContentError) as refused:
        Filter.parse(SCHEMA, text)
    assert str(refused.value) == line


def test_a_schema_has_no_bounds_for_a_boolean():
    definition = {"name": "s", "attribute": [{"name": "armed", "kind": "boolean", "optional": True}]}
    assert Schema.from_json(definition) == Schema("s", (Boolean("armed", True),))
    assert Schema.from_json(definition).to_json() == definition
    with pytest.raises(UnknownName, match="unknown field of a boolean attribute 'min'"):
        Schema.from_json({"name": "s", "attribute": [{"name": "armed", "kind": "boolean", "min": 0}]})
