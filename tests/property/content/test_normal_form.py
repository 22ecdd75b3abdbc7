"""The normal form, and what compares many boxes at once, against loops over all pairs."""

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pleroma.content import Box, Filter, Integer, Range, Schema
from pleroma.content.box_masks import BoxMasks
from pleroma.content.range import common, join
from pleroma.content.work_budget import MAX_BOXES, PIECES_PER_BOX, UNBOUNDED, WorkBudget
from pleroma.errors import ContentError, FilterTooCostly
from support.strategies import events, every_event, filter_texts, schemas, tiny_schemas

PLANE = Schema("plane", (Integer("x", False, 0, 9_999), Integer("y", False, 0, 9_999)))


def plainly_normal(boxes):
    """The same form, by joining and comparing every box with every other until nothing changes."""
    current = sorted(set(boxes))
    while True:
        before = current
        for d in range(len(current[0].ranges) if current else 0):
            groups = {}
            for box in current:
                groups.setdefault(box.ranges[:d] + box.ranges[d + 1 :], []).append(box.ranges[d])
            current = [Box((*rest[:d], part, *rest[d:])) for rest, parts in groups.items() for part in join(parts)]
        current = sorted(box for box in current if not any(o.covers(box) for o in current if o != box))
        if current == before:
            return tuple(current)


@st.composite
def many_boxes(draw, schema, most=16):
    ends = [sorted({*range(*a.domain), a.domain.hi}) for a in schema.attributes]
    part = [st.sampled_from([Range(*each) for each in itertools.combinations(some, 2)]) for some in ends]
    return draw(st.lists(st.builds(Box, st.tuples(*part)), max_size=most))


@given(st.data())
def test_the_normal_form_is_the_one_that_loops_over_all_pairs_find(data):
    schema = data.draw(tiny_schemas())
    boxes = data.draw(many_boxes(schema))
    assert Filter.of(schema, boxes).boxes == plainly_normal(boxes)


def test_the_normal_form_of_more_boxes_than_are_compared_at_once_is_the_same():
    draw = random.Random(3)
    small = [Box((Range(x, x + 1), Range(y, y + 1))) for x in range(0, 120, 2) for y in range(0, 120, 2)]
    large = [Box((Range(x, x + 12), Range(0, 9_000))) for x in range(0, 120, 12)]
    boxes = draw.sample(small + large, len(small) + len(large))
    assert Filter.of(PLANE, boxes).boxes == plainly_normal(large)
    with pytest.raises(ContentError, match="boxes allowed"):
        Filter.of(PLANE, small)
    most = PIECES_PER_BOX * MAX_BOXES
    assert Filter.of(PLANE, itertools.repeat(large[0], most)).boxes == (large[0],)
    with pytest.raises(ContentError, match="boxes allowed"):
        Filter.of(PLANE, itertools.repeat(large[0], most + 1))


@given(st.data())
def test_masks_name_the_boxes_that_cover_and_those_that_overlap(data):
    schema = data.draw(tiny_schemas())
    boxes, asked = data.draw(many_boxes(schema)), data.draw(many_boxes(schema, 4))
    masks = BoxMasks(boxes)
    for box in asked:
        assert list(masks.of(masks.around(box))) == [each for each in boxes if each.covers(box)]
        assert list(masks.of(masks.meeting(box))) == [each for each in boxes if each.meet(box) is not None]
        assert [each for each in boxes if each.overlaps(box)] == [each for each in boxes if each.meet(box) is not None]


@given(st.data())
def test_what_is_left_of_a_box_is_disjoint_and_all_that_the_others_leave(data):
    schema = data.draw(tiny_schemas())
    box, *others = data.draw(many_boxes(schema).filter(bool))
    pieces = list(box.minus_all(others))
    for event in every_event(schema):
        wanted = event.value_keys in box and not any(event.value_keys in other for other in others)
        assert sum(event.value_keys in piece for piece in pieces) == wanted


@given(st.lists(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12))), max_size=5))
def test_common_keys_are_those_in_each_of_the_sets(given_sets):
    sets = [join(Range(*each) for each in ranges) for ranges in given_sets]
    found = common(sets, Range(0, 12))
    assert found == join(found)
    inside = {key for key in range(12) if all(any(key in part for part in ranges) for ranges in sets)}
    assert {key for key in range(-1, 13) if any(key in part for part in found)} == inside


@given(st.data())
def test_a_budget_refuses_or_makes_no_difference(data):
    schema = data.draw(schemas(most=3))
    expression = data.draw(filter_texts(schema))
    wanted = Filter.parse(schema, expression.text)
    budget = WorkBudget(data.draw(st.integers(0, 400)))
    try:
        assert Filter.parse(schema, expression.text, budget) == wanted
    except FilterTooCostly:
        assert budget.left < 0
    event = data.draw(events(schema))
    assert wanted.matches(event) == expression.holds(event)


@pytest.mark.parametrize("clauses", [10, 60])
def test_the_complement_of_many_boxes_is_what_they_leave(clauses):
    draw = random.Random(clauses)
    corners = [(draw.randrange(60), draw.randrange(60)) for _ in range(clauses)]
    texts = [f"(x between {x} and {x + 3} and y between {y} and {y + 3})" for x, y in corners]
    found = Filter.parse(PLANE, f"not ({' or '.join(texts)}) and x <= 70 and y <= 70")
    for x, y in itertools.product(range(72), repeat=2):
        inside = any(a <= x <= a + 3 and b <= y <= b + 3 for a, b in corners)
        assert found.matches(PLANE.event(x=x, y=y)) == (not inside and x <= 70 and y <= 70)


def test_filters_of_the_program_itself_have_no_budget():
    Filter.parse(PLANE, " and ".join(f"x != {2 * i + 1}" for i in range(MAX_BOXES - 1)))
    assert UNBOUNDED.left == float("inf")
