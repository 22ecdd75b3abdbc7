"""Filters of any schema in the engine: text, categories, optional attributes, unions of boxes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pleroma.content import Filter, Integer, Schema
from pleroma.content.batch import EventBatch
from pleroma.errors import ContentError
from pleroma.matching.filter_matcher import FilterMatcher
from support.strategies import events, filters, schemas


@pytest.mark.parametrize("structure", ["auto", "pivots", "bit-sets", "tama"])
@settings(deadline=None)
@given(st.data())
def test_the_owners_whose_filters_match_are_found(structure, data):
    schema = data.draw(schemas(most=3))
    wanted = data.draw(st.lists(filters(schema, 3), max_size=8))
    matcher = FilterMatcher(schema, enumerate(wanted[:4]), structure)
    for owner, each in enumerate(wanted[4:], 4):
        matcher.add(owner, each)
    gone = data.draw(st.sets(st.integers(0, 8)))
    for owner in gone:
        matcher.remove(owner)
    asked = data.draw(st.lists(events(schema), min_size=1, max_size=5))
    expected = [[o for o, each in enumerate(wanted) if o not in gone and each.matches(event)] for event in asked]
    assert [sorted(matcher.wanting(event)) for event in asked] == expected
    together = matcher.wanting_each(EventBatch.from_events(schema, asked), threads=2)
    assert [sorted(each) for each in together] == expected
    assert len(matcher) == len(set(range(len(wanted))) - gone)


def test_an_owner_has_the_filter_that_it_was_given_last():
    schema = Schema("numbers", (Integer("n", False, 0, 99),))
    matcher = FilterMatcher(schema, [("ann", Filter.parse(schema, "n < 5 or n > 90"))])
    matcher.add("ann", Filter.parse(schema, "n == 50"))
    assert [matcher.wanting(schema.event(n=n)) for n in (3, 50, 95)] == [[], ["ann"], []]
    assert matcher.statistics().subscriptions == 1


def test_a_filter_of_another_schema_is_refused_and_one_of_an_equal_schema_is_not():
    schema, equal = (Schema("numbers", (Integer("n", False, 0, 99),)) for _ in range(2))
    matcher = FilterMatcher(schema, [])
    with pytest.raises(ContentError, match="among filters of 'numbers'"):
        matcher.add("ann", Filter.everything(Schema("others", (Integer("n", False, 0, 99),))))
    matcher.add("ann", Filter.everything(equal))
    assert matcher.wanting(schema.event(n=1)) == ["ann"]
