import itertools

import pytest

from pleroma.content import Box, Category, Filter, Integer, Range, Real, Schema, Text
from pleroma.content.filter import literal
from pleroma.content.work_budget import MAX_BOXES, PIECES_PER_BOX
from pleroma.errors import ContentError

PLANE = Schema("plane", (Integer("x", False, 0, 9), Integer("y", True, 0, 9)))
LARGE = Schema("large", tuple(Integer(name, False, 0, 10_000) for name in "abc"))


def box(*ends, schema=PLANE):
    """A box from (first, last) pairs, None for a whole domain."""
    given = zip(ends, schema.attributes, strict=True)
    return Box(tuple(a.domain if end is None else Range(end[0], end[1] + 1) for end, a in given))


def boxes(*listed):
    return Filter.of(PLANE, [box(*ends) for ends in listed])


# -- boxes -----------------------------------------------------------------------------------------------------------


def test_a_box_minus_another_is_disjoint_boxes_around_the_hole():
    pieces = list(box((0, 9), (0, 9)).minus(box((3, 4), (5, 6))))
    assert pieces == [
        box((0, 2), (0, 9)),
        box((5, 9), (0, 9)),
        box((3, 4), (0, 4)),
        box((3, 4), (7, 9)),
    ]


def test_a_box_minus_one_elsewhere_is_itself():
    whole = box((0, 4), (0, 4))
    assert list(whole.minus(box((5, 9), None))) == [whole]
    assert list(whole.minus(whole)) == []


def test_a_box_minus_several_is_outside_them_all():
    rest = list(box((0, 9), (0, 0)).minus_all([box((0, 2), None), box((5, 5), None), box((9, 9), None)]))
    assert sorted(rest) == [box((3, 4), (0, 0)), box((6, 8), (0, 0))]


# -- normal form -----------------------------------------------------------------------------------------------------


def test_a_box_inside_another_is_dropped():
    assert boxes(((0, 5), (0, 5)), ((1, 2), (1, 2))) == boxes(((0, 5), (0, 5)))
    assert boxes(((0, 2), (0, 2)), ((0, 5), (0, 5))) == boxes(((0, 5), (0, 5)))
    assert boxes(((3, 5), (3, 5)), ((0, 5), (0, 5))) == boxes(((0, 5), (0, 5)))
    assert boxes(((0, 5), (0, 5)), ((0, 5), (0, 9))) == boxes(((0, 5), (0, 9)))


def test_neighbours_become_one():
    assert boxes(((0, 2), (0, 5)), ((3, 7), (0, 5))).boxes == (box((0, 7), (0, 5)),)
    assert boxes(((0, 2), (0, 5)), ((3, 7), (0, 4))).boxes == (box((0, 2), (0, 5)), box((3, 7), (0, 4)))


def test_joins_in_one_dimension_make_room_for_joins_in_another():
    quarters = [((0, 4), (0, 4)), ((5, 9), (0, 4)), ((0, 4), (5, 9)), ((5, 9), (5, 9))]
    for order in itertools.permutations(quarters):
        assert boxes(*order).boxes == (box((0, 9), (0, 9)),)


def test_a_filter_that_matches_nothing_is_false():
    assert not Filter.nothing(PLANE)
    assert not Filter.of(PLANE, [])
    assert Filter.everything(PLANE)
    assert not boxes(((0, 1), None)) & boxes(((2, 3), None))


# -- relations -------------------------------------------------------------------------------------------------------


def test_two_boxes_together_may_cover_what_neither_does():
    halves = boxes(((0, 5), (0, 6)), ((4, 9), (0, 9)))
    across = boxes(((2, 8), (1, 6)))
    assert halves.covers(across)
    assert not halves.covers(boxes(((2, 8), (1, 7))))
    assert halves.overlaps(across)


def test_everything_covers_nothing_and_nothing_does_not_overlap_it():
    everything, nothing = Filter.everything(PLANE), Filter.nothing(PLANE)
    assert everything.covers(nothing)
    assert nothing.covers(nothing)
    assert not nothing.covers(everything)
    assert not everything.overlaps(nothing)


def test_filters_and_events_of_different_schemas_do_not_mix():
    here, there = Filter.everything(PLANE), Filter.everything(LARGE)
    for operation in (here.covers, here.overlaps, here.__and__, here.__or__, here.__sub__):
        with pytest.raises(ContentError, match=r"^filters of different schemas: 'plane' and 'large'$"):
            operation(there)
    with pytest.raises(ContentError, match=r"^the event is of schema 'large', the filter of 'plane'$"):
        here.matches(LARGE.event(a=1, b=1, c=1))


def test_an_equal_schema_is_the_same_space():
    twin = Schema("plane", PLANE.attributes)
    assert Filter.everything(PLANE).matches(twin.event(x=1))
    assert Filter.everything(PLANE).covers(Filter.everything(twin))


# -- size ------------------------------------------------------------------------------------------------------------


def spots(count, schema=LARGE):
    """Single values of the first attribute that do not touch."""
    return [box((2 * i, 2 * i), None, None, schema=schema) for i in range(count)]


def test_a_filter_may_have_as_many_boxes_as_allowed():
    assert len(Filter.of(LARGE, spots(MAX_BOXES)).boxes) == MAX_BOXES


def test_a_filter_of_one_box_more_is_refused():
    with pytest.raises(ContentError, match=r"^the filter needs more than the 1024 boxes allowed$"):
        Filter.of(LARGE, spots(MAX_BOXES + 1))


def test_boxes_that_are_joined_or_covered_do_not_count():
    touching = [box((i, i), None, None, schema=LARGE) for i in range(3000)]
    assert len(Filter.of(LARGE, touching).boxes) == 1
    assert len(Filter.of(LARGE, [*spots(3000), box(None, None, None, schema=LARGE)]).boxes) == 1


def test_work_without_end_is_refused_before_it_is_done():
    endless = (box((i % 9_999, i % 9_999), None, None, schema=LARGE) for i in itertools.count())
    with pytest.raises(ContentError, match=r"boxes allowed$"):
        Filter.of(LARGE, endless)
    assert next(endless).ranges[0].lo == ((PIECES_PER_BOX * MAX_BOXES) + 1) % 9_999


def test_covering_is_answered_where_the_difference_would_be_too_large():
    holes = Filter.of(LARGE, [box((9 * i, 9 * i), (9 * i, 9 * i), (9 * i, 9 * i), schema=LARGE) for i in range(300)])
    everything = Filter.everything(LARGE)
    with pytest.raises(ContentError, match=r"boxes allowed$"):
        everything - holes
    assert not holes.covers(everything)
    assert everything.covers(holes)
    assert holes.covers(holes)


# -- text ------------------------------------------------------------------------------------------------------------


def test_a_filter_prints_as_its_language():
    schema = Schema("s", (Real("p", False, 0, 9), Integer("v", True, 0, 9), Category("m", True, ("a", "b", "c"))))
    whole = Filter.everything(schema)
    assert str(whole) == "true"
    assert str(whole - whole) == "false"
    for text in (
        "p > 5",
        "p >= 5 and v == 3",
        "p between 1 and 2.5 and exists m",
        "not exists v",
        "(p < 1 and v <= 3) or p > 8",
        "m in ('a', 'b')",
        "(not exists v or v <= 4)",
        "not exists v or v >= 4",
        "p > 1 and p < 2 and (not exists m or m in ('a', 'b'))",
    ):
        assert str(Filter.parse(schema, text)) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (5, "5"),
        (5.0, "5"),
        (-0.5, "-0.5"),
        (1e15, "1000000000000000.0"),
        (1e300, "1e+300"),
        ("it's", r"'it\'s'"),
        ("a\\b\n\r\t\0", r"'a\\b\n\r\t\u0000'"),
        ("é\U0010ffff", "'é\U0010ffff'"),
    ],
)
def test_a_literal_is_short_and_safe(value, text):
    assert literal(value) == text


def test_texts_that_look_like_the_language_print_safely():
    schema = Schema("s", (Text("t", True),))
    for value in ("' or true or t == '", "\\", "\\'", '"', "a and b", "\n", "\0", "\U0010ffff", "\u2028"):
        wanted = Filter.where(schema, 0, schema["t"].select("==", value))
        assert Filter.parse(schema, str(wanted)) == wanted
