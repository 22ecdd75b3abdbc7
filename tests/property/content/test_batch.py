"""A batch answers as its events would one by one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pleroma.content import Category, Integer, Real, Schema, Text
from pleroma.content.batch import EventBatch
from pleroma.errors import ContentError, UnknownName
from support.strategies import attributes, events, filters, schemas, values

JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(10**400), 10**400),
    st.floats(),
    st.text(st.characters(), max_size=3),
    st.sampled_from(["\ud800", b"a", (), [], {}, 1j, np.int64(1), np.float64(0.5), np.bool_(True), np.str_("a")]),
)


@st.composite
def batches(draw):
    """A schema, and some of its events: as a list, and as a batch."""
    schema = draw(schemas())
    listed = draw(st.lists(events(schema), max_size=12))
    return schema, listed, EventBatch.from_events(schema, listed)


@given(batches())
def test_a_batch_holds_the_events_it_was_made_of(drawn):
    _, listed, batch = drawn
    assert len(batch) == len(listed)
    assert list(batch) == listed
    assert [batch.event(row) for row in range(len(listed))] == listed


@given(batches())
def test_keys_are_plain_python_values_so_that_events_hash_and_print_alike(drawn):
    _, listed, batch = drawn
    for one, other in zip(batch, listed, strict=True):
        assert [type(key) for key in one.value_keys] == [type(key) for key in other.value_keys]
        assert str(one) == str(other)


@given(batches())
def test_points_are_the_coordinates_of_the_events(drawn):
    schema, listed, batch = drawn
    points = batch.points()
    assert points.shape == (len(listed), len(schema))
    assert points.tolist() == [list(event.coordinates()) for event in listed]


@given(batches(), st.data())
def test_matching_a_batch_is_matching_each_event(drawn, data):
    schema, listed, batch = drawn
    wanted = data.draw(filters(schema))
    assert batch.matches(wanted).tolist() == [wanted.matches(event) for event in listed]


@given(batches())
def test_values_given_as_columns_make_the_same_batch(drawn):
    schema, listed, batch = drawn
    columns = {name: [event.get(name) for event in listed] for name in schema.names}
    assert EventBatch.from_columns(schema, columns) == batch
    arrays = {name: np.array(column, object) for name, column in columns.items()}
    assert EventBatch.from_columns(schema, arrays) == batch


@given(batches())
def test_arrays_of_numbers_with_nan_for_nothing_make_the_same_batch(drawn):
    schema, listed, _ = drawn
    schema = Schema(
        "numbers", tuple(a for a in schema.attributes if a.kind in ("integer", "real")) or schema.attributes
    )
    columns = {name: [event.get(name) for event in listed] for name in schema.names}
    arrays = {
        a.name: np.array(columns[a.name], np.float64) if a.kind in ("integer", "real") else columns[a.name]
        for a in schema.attributes
    }
    assert EventBatch.from_columns(schema, arrays) == EventBatch.from_columns(schema, columns)


@given(batches(), st.data())
def test_choosing_rows_is_choosing_events(drawn, data):
    _, listed, batch = drawn
    rows = data.draw(st.lists(st.integers(0, len(listed) - 1), max_size=20) if listed else st.just([]))
    assert list(batch[rows]) == [listed[row] for row in rows]
    assert list(batch[np.array(rows, np.intp)]) == [listed[row] for row in rows]
    part = data.draw(st.slices(len(listed)))
    assert list(batch[part]) == listed[part]
    mask = data.draw(st.lists(st.booleans(), min_size=len(listed), max_size=len(listed)))
    assert list(batch[np.array(mask, np.bool_)]) == [event for event, kept in zip(listed, mask, strict=True) if kept]


@given(st.data())
def test_a_column_is_accepted_exactly_when_each_of_its_values_is(data):
    attribute = data.draw(attributes())
    schema = Schema("one", (attribute,))
    column = data.draw(st.lists(values(attribute) | JUNK, max_size=6))
    keys, first_refused = [], None
    for row, value in enumerate(column):
        plain = value.item() if isinstance(value, np.generic) else value
        is_nothing = attribute.optional and isinstance(plain, float) and plain != plain
        try:
            keys.append(attribute.key(None if is_nothing else plain))
        except ContentError:
            first_refused = row
            break
    if first_refused is None:
        assert [event.value_keys[0] for event in EventBatch.from_columns(schema, {attribute.name: column})] == keys
        return
    with pytest.raises(ContentError) as caught:
        EventBatch.from_columns(schema, {attribute.name: column})
    assert caught.value.field == attribute.name
    assert str(caught.value).startswith(f"{attribute.name}: row {first_refused}: ")
    assert "\n" not in str(caught.value)


@given(st.data())
def test_sifting_keeps_exactly_the_rows_that_are_accepted_alone(data):
    schema = Schema(
        "mixed",
        (Integer("n", True, 0, 9), Real("x", False, 0.0, 1.0), Text("t", True), Category("c", False, ("a", "b"))),
    )
    rows = data.draw(
        st.lists(
            st.fixed_dictionaries(
                {
                    "n": st.one_of(st.none(), st.integers(-1, 11), st.floats(0, 9)),
                    "x": st.one_of(st.none(), st.floats(-0.5, 1.5), st.just(float("nan"))),
                    "t": st.one_of(st.none(), st.text(max_size=2), st.integers(0, 1)),
                    "c": st.sampled_from(["a", "b", "z", None, 3]),
                }
            ),
            min_size=1,
            max_size=12,
        )
    )
    columns = {name: [row[name] for row in rows] for name in schema.names}
    batch, kept = EventBatch.sifted(schema, columns)

    def accepted(row):
        try:
            EventBatch.from_columns(schema, {name: [value] for name, value in row.items()})
        except ContentError:
            return False
        return True

    assert kept.tolist() == [accepted(row) for row in rows]
    good = [row for row in rows if accepted(row)]
    assert batch == EventBatch.from_columns(schema, {name: [row[name] for row in good] for name in schema.names})


def test_sifting_refuses_columns_that_no_event_has():
    schema = Schema("line", (Integer("a", False, 0, 9),))
    with pytest.raises(UnknownName):
        EventBatch.sifted(schema, {"b": [1]})
    with pytest.raises(ContentError, match="missing"):
        EventBatch.sifted(schema, {})
    two = Schema("plane", (Integer("a", False, 0, 9), Integer("b", False, 0, 9)))
    with pytest.raises(ContentError, match="has 1 values where a has 2"):
        EventBatch.sifted(two, {"a": [1, 77], "b": [1]})
    with pytest.raises(ContentError, match="missing"):
        EventBatch.sifted(two, {"a": [1, 77]})
