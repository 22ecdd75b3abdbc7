"""An event of an earlier version is one of the later, and filters mean the same about it."""

from hypothesis import given
from hypothesis import strategies as st

from pleroma.content import Filter
from pleroma.content.batch import EventBatch
from pleroma.content.schema_versions import carried, lifted, lowered, obstacles
from support.schema_versions import versions
from support.strategies import events, filters


@given(versions())
def test_what_is_wider_or_new_and_optional_is_a_later_version(pair):
    earlier, later = pair
    assert obstacles(earlier, later) == []
    assert obstacles(earlier, earlier) == []
    assert (obstacles(later, earlier) == []) == (earlier == later)


@given(versions(), st.data())
def test_an_event_of_the_earlier_version_has_the_same_values_in_the_later(pair, data):
    earlier, later = pair
    event = data.draw(events(earlier))
    same = lifted(event, later)
    assert dict(same) == dict(event)
    assert lowered(same, earlier) == event
    assert later.event(dict(event)) == same


@given(versions(), st.data())
def test_an_event_of_the_later_version_is_one_of_the_earlier_if_that_can_have_its_values(pair, data):
    earlier, later = pair
    event = data.draw(events(later))
    found = lowered(event, earlier)
    if found is None:
        names = [name for name in event if name not in earlier.names]
        beyond = [n for n in event if n in earlier.names and later[n].key(event[n]) not in earlier[n].present]
        assert names or beyond
    else:
        assert dict(found) == dict(event)
        assert lifted(found, later) == event


@given(versions(), st.data())
def test_a_filter_matches_the_same_events_of_the_earlier_version(pair, data):
    earlier, later = pair
    wanted, points = data.draw(filters(earlier, 3)), data.draw(st.lists(events(earlier), max_size=8))
    there = carried(wanted, later)
    assert there.schema == later
    for event in points:
        assert there.matches(lifted(event, later)) == wanted.matches(event)


@given(versions())
def test_who_wants_everything_wants_what_is_new_too(pair):
    earlier, later = pair
    assert carried(Filter.everything(earlier), later) == Filter.everything(later)


@given(versions(), st.data())
def test_a_batch_is_lifted_as_its_events_are(pair, data):
    earlier, later = pair
    points = data.draw(st.lists(events(earlier), max_size=5))
    batch = EventBatch.from_events(earlier, points).lifted(later)
    assert list(batch) == [lifted(event, later) for event in points]
