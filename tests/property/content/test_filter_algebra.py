"""What filters say about each other, against the events they match."""

from hypothesis import given
from hypothesis import strategies as st

from pleroma.content import Filter
from support.strategies import events, every_event, filters, schemas, tiny_schemas


def matched(filter, among):
    return {event.value_keys for event in among if filter.matches(event)}


@given(st.data())
def test_over_a_tiny_space_filters_are_the_sets_of_their_events(data):
    schema = data.draw(tiny_schemas())
    space = list(every_event(schema))
    a, b = data.draw(filters(schema)), data.draw(filters(schema))
    in_a, in_b = matched(a, space), matched(b, space)
    assert matched(a & b, space) == in_a & in_b
    assert matched(a | b, space) == in_a | in_b
    assert matched(a - b, space) == in_a - in_b
    assert a.covers(b) == (in_a >= in_b)
    assert a.overlaps(b) == bool(in_a & in_b)
    assert bool(a) == bool(in_a)


@given(st.data())
def test_operations_agree_with_matching(data):
    schema = data.draw(schemas())
    a, b = data.draw(filters(schema)), data.draw(filters(schema))
    for event in data.draw(st.lists(events(schema), min_size=1, max_size=12)):
        in_a, in_b = a.matches(event), b.matches(event)
        assert (a & b).matches(event) == (in_a and in_b)
        assert (a | b).matches(event) == (in_a or in_b)
        assert (a - b).matches(event) == (in_a and not in_b)
        assert in_a or not in_b or not a.covers(b)
        assert a.overlaps(b) or not (in_a and in_b)
        assert a or not in_a


@given(st.data())
def test_parts_and_wholes_cover_each_other_as_they_should(data):
    schema = data.draw(schemas())
    a, b = data.draw(filters(schema)), data.draw(filters(schema))
    assert (a | b).covers(a)
    assert a.covers(a & b)
    assert bool(a & b) == a.overlaps(b)
    assert not (a - b).overlaps(b)
    together = (a - b) | (a & b)
    assert together.covers(a)
    assert a.covers(together)
    assert a.covers(b) == (not (b - a))


@given(st.data())
def test_everything_covers_all_and_nothing_covers_none(data):
    schema = data.draw(schemas())
    everything, nothing = Filter.everything(schema), Filter.nothing(schema)
    a, event = data.draw(filters(schema)), data.draw(events(schema))
    assert everything.matches(event)
    assert not nothing.matches(event)
    assert everything.covers(a)
    assert nothing.covers(a) == (not a)
    assert a & everything == a | nothing == a - nothing == a
    assert (everything - a) | a == everything or ((everything - a) | a).covers(everything)


@given(st.data())
def test_the_normal_form_has_no_box_inside_another_and_no_neighbours_to_join(data):
    schema = data.draw(tiny_schemas() | schemas(most=3))
    boxes = data.draw(filters(schema, most=12)).boxes
    for i, a in enumerate(boxes):
        for b in boxes[i + 1 :]:
            assert not a.covers(b)
            assert not b.covers(a)
            apart = [(r, s) for r, s in zip(a.ranges, b.ranges, strict=True) if r != s]
            assert len(apart) > 1 or apart[0][0].hi < apart[0][1].lo or apart[0][1].hi < apart[0][0].lo
    assert list(boxes) == sorted(boxes)


@given(st.data())
def test_the_normal_form_does_not_depend_on_the_order_of_boxes(data):
    schema = data.draw(tiny_schemas() | schemas())
    pieces = [box for f in data.draw(st.lists(filters(schema), max_size=3)) for box in f.boxes]
    assert Filter.of(schema, data.draw(st.permutations(pieces))) == Filter.of(schema, pieces)
